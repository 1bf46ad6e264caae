"""Candidates that answer by models' probabilities."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from scipy.special import softmax

from tailboost.core.array_types import Floats, Ints, Mask, Table
from tailboost.core.tables import as_pandas
from tailboost.learners.table import TableReader
from tailboost.selection.candidates import Candidate, decide, expected_costs
from tailboost.selection.probability_tables import LogProbabilities, Models
from tailboost.selection.rule import RulePart, log_weights
from tailboost.selection.stratum_probabilities import StratumProbabilities

# The most class weights that the name of a rule shows.
MOST_WEIGHTS = 10
# Class weights that differ by a smaller fraction are printed as equal.
EQUAL_WEIGHTS = 1e-9
# The most columns from which groups are estimated. Tables with more columns, such as images, use the models'
# probabilities.
MOST_FEATURES = 1000
# Powers β of the probabilities; labels are drawn from the result.
POWERS = (0.5, 1.0, 2.0, 4.0)


@dataclass(frozen=True, eq=False)
class ProbabilityRule:
    """A candidate as a member of an ensemble: it answers by the models' probabilities."""

    table_: Models
    source: tuple[int, ...]  # numbers of the models that it reads
    probabilities: StratumProbabilities
    candidate: Candidate

    def predict_table(self, table: LogProbabilities) -> Ints:
        """Return class numbers, shape (n,); deferred rows get the label that would be answered."""
        costs = self._costs(table)
        return decide(costs if len(costs) == 1 else costs[: self.probabilities.n_classes])

    def defers_table(self, table: LogProbabilities) -> Mask:
        """Return which rows are deferred, shape (n,)."""
        if not self.defers:
            return np.zeros(table.n_rows, dtype=bool)
        deferred: Mask = decide(self._costs(table)) == self.probabilities.n_classes
        return deferred

    def as_part(self, *, plain: bool = True) -> RulePart:
        """Return the rule as numbers and lists.

        With ``plain`` the rule reads the model's own probabilities if possible, without learned weights.
        """
        K, p = self.probabilities.n_classes, self.probabilities
        by_group = self.candidate.action_costs.reshape(K, len(p.combinations), -1).transpose(1, 0, 2)
        if self.candidate.is_constant:
            return RulePart(1.0, {}, [0.0] * K, by_group.tolist(), inferred=p.infers)
        if p.factors is not None:
            by_group = by_group * p.factors.reshape(K, -1, 1).transpose(1, 0, 2)
        part = RulePart(1.0, *log_weights(self.table_), by_group.tolist(), inferred=p.infers)
        return part.plain if plain else part

    @property
    def weighs_groups(self) -> bool:
        """Whether the rule weighs p(group | x, y), which is learned from the features."""
        return self.probabilities.estimates_groups and not self.candidate.is_constant

    @property
    def defers(self) -> bool:
        """Whether the rule may defer rows."""
        return self.candidate.action_costs.shape[1] > self.probabilities.n_classes

    def _costs(self, table: LogProbabilities) -> Floats:
        if self.candidate.is_constant:
            ones = np.ones((1, 1), dtype=np.float32)
            return np.repeat(expected_costs(ones, self.candidate.action_costs[:1]), table.n_rows, axis=1)
        return expected_costs(stratum_probabilities(self.probabilities, table), self.candidate.action_costs)

    def words(self, classes: Any) -> str:
        """Return a name for people: the models, and the class weights."""
        K, costs = len(classes), self.candidate.action_costs
        if self.candidate.is_constant:
            return f"constant {classes[int(costs[0, :K].argmin())]}"
        weights = costs[:, :K].max(axis=1) - costs[:, :K].min(axis=1)
        if np.ptp(weights) <= EQUAL_WEIGHTS * weights.max():
            return self.table_.words()
        least = weights[weights > 0].min()
        shown = [f"{weight / least:.3g}" for weight in weights[:MOST_WEIGHTS]]
        ratio = " : ".join(shown + ["…"] * (len(weights) > MOST_WEIGHTS))
        return f"{self.table_.words()}, {'class' if len(costs) == K else 'subgroup'} weights {ratio}"


@dataclass(frozen=True)
class PowerDraw:
    """Candidate with labels drawn from sharpened or flattened probabilities, ``P(k) ∝ p_k(x)^β``."""

    table_: Models  # the models, shared by all candidates
    model: int | None  # number of the model; None for the average
    power: float  # β > 0
    draws: ClassVar[bool] = True
    weighs_groups: ClassVar[bool] = False

    def predict_table(self, table: LogProbabilities) -> Floats:
        """Return the label distribution, shape (n, K)."""
        logs = table.pooled if self.model is None else table[self.model]
        return np.asarray(softmax(self.power * logs, axis=1))

    @property
    def source(self) -> tuple[int, ...]:
        """Numbers of the models behind the probabilities."""
        return tuple(self.table_.pooled_models) if self.model is None else (self.model,)

    def as_part(self) -> RulePart:
        """Return the candidate as plain numbers."""
        return RulePart(1.0, *log_weights(self.table_, self.model), power=self.power)

    def words(self, classes: object) -> str:
        """Return a name for people."""
        return f"{self.table_.words(self.model)} drawn" + ("" if self.power == 1.0 else f" ^{self.power:g}")


def stratum_probabilities(probabilities: StratumProbabilities, table: LogProbabilities) -> Any:
    """Return p(s | x) of the rows of a table, computed once."""

    def make() -> Any:
        groups = None
        if probabilities.infers:
            groups = probabilities.groups_of(group_features(probabilities, table))
        combination = table.groups if probabilities.group_aware else None
        return probabilities.predict(table.pooled, groups, combination)

    return table.derived(("strata", id(probabilities)), make)


def group_features(probabilities: StratumProbabilities, table: LogProbabilities) -> Any:
    """Return the input of the group models: features, or log-probabilities of all models."""
    if probabilities.by_features:
        return table.X
    return np.hstack([table[i] for i in range(table.n_models)])


def has_group_features(X: Table) -> bool:
    """Whether groups can be estimated from a table: few columns of numbers or categories."""
    if not hasattr(X, "shape") or len(X.shape) != 2 or X.shape[1] > MOST_FEATURES:
        return False
    try:
        TableReader().fit(X := as_pandas(X)).transform(X)
    except (TypeError, ValueError):
        return False
    return True
