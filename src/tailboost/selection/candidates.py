"""Candidates that answer by the outputs of models, as members of an ensemble and as plain numbers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
from scipy.special import softmax

from tailboost.boosting.ensemble import MixtureEnsemble
from tailboost.core.array_types import Floats, Ints, Mask
from tailboost.selection.data import Candidate, decide, expected_costs
from tailboost.selection.outputs import LogProbabilities, Models
from tailboost.selection.probabilities import StratumProbabilities, stratum_probabilities

# The most class weights that the name of a rule shows.
MOST_WEIGHTS = 10
# Class weights that differ by a smaller fraction are printed as equal.
EQUAL_WEIGHTS = 1e-9
# Powers β of the probabilities; labels are drawn from the result.
POWERS = (0.5, 1.0, 2.0, 4.0)


@dataclass(frozen=True)
class RulePart:
    """One selected candidate: action costs on an average of log-probabilities, or a draw from this average.

    With ``z_k = Σ_i weights[i] · log max(p_i,k, least_probability) + offsets[k]`` the expected cost of the
    action a is ``Σ_k exp(z_k) · action_costs[g][k][a]``. Here g is the group of the row for a group-aware
    rule, otherwise 0. The cheapest action is taken, the first of equal ones. Actions are the classes in their
    order and, if rows may be deferred, deferral. A draw has no action costs: it draws labels in proportion to
    ``exp(power · z_k)``.

    Attributes
    ----------
    weight : float
        Mixture weight λ, in (0, 1].
    weights : dict
        Weight of the log-probabilities of each model; empty for a constant.
    offsets : list of float
        One for each class.
    action_costs : list of lists, shape (groups or 1, K, actions), or None
        Cost of an action in a class; None for a draw.
    power : float or None
        Power of the probabilities, for a draw.
    inferred : bool
        Whether groups are estimated from the features. Then ``action_costs`` are by group, weighted by the
        probability of each group.
    """

    weight: float
    weights: dict[str, float]
    offsets: list[float]
    action_costs: list[list[list[float]]] | None = None
    power: float | None = None
    inferred: bool = False

    @property
    def defers(self) -> bool:
        """Whether the candidate may defer rows."""
        if self.action_costs is None:
            return False
        return len(self.action_costs[0][0]) > len(self.offsets)

    def logs(self, logs: Mapping[str, Floats], n: int) -> Floats:
        """Return z, shape (n, K), from the logarithms of the models' probabilities."""
        z = np.zeros((n, len(self.offsets))) + self.offsets
        for name, weight in self.weights.items():
            z = z + weight * logs[name]
        return z

    @property
    def plain(self) -> RulePart:
        """The same rule without learned weight and offsets, for one model of two classes.

        The learned weight w and the offsets b do not change the order of the rows, so the action costs can
        contain them. With the savings s of a right label, the second label is predicted if
        ``p_1^w e^{b_1} s_1 > p_0^w e^{b_0} s_0``.
        """
        costs = self.action_costs
        if len(self.weights) != 1 or costs is None or self.inferred or len(costs[0][0]) != 2:
            return self
        ((name, weight),) = self.weights.items()
        Q = np.array(costs)
        savings = np.stack([Q[:, 0, 1] - Q[:, 0, 0], Q[:, 1, 0] - Q[:, 1, 1]], axis=1)
        savings = savings * np.exp(self.offsets)  # by group and class
        if weight <= 0 or (savings <= 0).any():
            return self
        savings = (savings / savings.max(axis=1, keepdims=True)) ** (1.0 / weight)
        action_costs = [[[0.0, s_0], [s_1, 0.0]] for s_0, s_1 in savings.tolist()]
        return replace(self, weights={name: 1.0}, offsets=[0.0, 0.0], action_costs=action_costs)


def log_weights(
    models: Models, model: int | None = None
) -> tuple[dict[str, float], list[float]]:
    """Return weights, by model, and offsets of log-probabilities: of one model, or of the average of all."""
    average = models.average
    names = models.names
    no_offsets = [0.0] * models.n_classes
    if model is not None:
        return {names[model]: 1.0}, no_offsets
    if average is None:
        return dict.fromkeys(names, 1.0 / len(names)), no_offsets
    weights = {names[i]: float(average.weights[i]) for i in average.used_models}
    return weights, average.offset.tolist()


@dataclass(frozen=True, eq=False)
class ProbabilityRule:
    """A candidate as a member of an ensemble: it answers by the models' probabilities."""

    table_: Models
    source: tuple[int, ...]  # numbers of the models that it reads
    probabilities: StratumProbabilities
    candidate: Candidate

    @property
    def rule(self) -> Any:
        """The thresholds that answer; None if costs of actions on probabilities do."""
        return None

    def predict_table(self, table: LogProbabilities) -> Ints:
        """Return class numbers, shape (n,); deferred rows get the label that would be answered."""
        costs = self._costs(table)
        if self.defers:
            costs = costs[: self.probabilities.n_classes]
        return decide(costs)

    def defers_table(self, table: LogProbabilities) -> Mask:
        """Return which rows are deferred, shape (n,)."""
        if not self.defers:
            return np.zeros(table.n_rows, dtype=bool)
        return decide(self._costs(table)) == self.probabilities.n_classes

    def as_part(self) -> RulePart:
        """Return the rule as numbers and lists, on the model's own probabilities if possible.

        The action costs of all combinations of groups become those of the groups that rules read.
        """
        p = self.probabilities
        K = p.n_classes
        by_class = self.candidate.action_costs.reshape(K, len(p.combinations), -1)
        costs = by_class.transpose(1, 0, 2)  # by combination, class and action
        if self.candidate.is_constant:
            costs = costs[: p.n_places]  # the same costs in all groups
            return RulePart(1.0, {}, [0.0] * K, costs.tolist())
        if p.factors is not None:
            costs = costs * p.factors.reshape(K, -1, 1).transpose(1, 0, 2)
        if p.shares is not None:
            of_read_groups = np.zeros((p.n_places, *costs.shape[1:]))
            np.add.at(of_read_groups, p.places, costs * p.shares.T[:, :, None])
            costs = of_read_groups
        elif p.infers and not p.estimates_groups:
            costs = np.einsum("kg,gka->ka", p.frequencies, costs)[None]
        weights, offsets = log_weights(self.table_)
        part = RulePart(1.0, weights, offsets, costs.tolist(), inferred=p.estimates_groups)
        return part.plain

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
            ones = np.ones((1, table.n_rows), dtype=np.float32)
            return expected_costs(ones, self.candidate.action_costs[:1])
        return expected_costs(
            stratum_probabilities(self.probabilities, table), self.candidate.action_costs
        )

    def words(self, classes: Any) -> str:
        """Return a name for people: the models, and the weights of the classes or subgroups.

        The weight of a stratum is the cost of its worst label less the cost of its best one.
        """
        K = len(classes)
        costs = self.candidate.action_costs
        if self.candidate.is_constant:
            return f"constant {classes[costs[0, :K].argmin()]}"
        weights = costs[:, :K].max(axis=1) - costs[:, :K].min(axis=1)
        if np.ptp(weights) <= EQUAL_WEIGHTS * weights.max():
            return self.table_.words()
        smallest = weights[weights > 0].min()
        shown = [f"{weight / smallest:.3g}" for weight in weights[:MOST_WEIGHTS]]
        if len(weights) > MOST_WEIGHTS:
            shown.append("…")
        weighted = "subgroup"
        if len(costs) == K:
            weighted = "class"
        return f"{self.table_.words()}, {weighted} weights {' : '.join(shown)}"


@dataclass(frozen=True)
class PowerDraw:
    """Candidate with labels drawn from sharpened or flattened probabilities, ``P(k) ∝ p_k(x)^β``."""

    table_: Models  # the models, shared by all candidates
    model: int | None  # number of the model; None for the average
    power: float  # β > 0
    draws: ClassVar[bool] = True
    weighs_groups: ClassVar[bool] = False
    rule: ClassVar[Any] = None  # as of `ProbabilityRule`

    def predict_table(self, table: LogProbabilities) -> Floats:
        """Return the label distribution, shape (n, K)."""
        logs = table.pooled
        if self.model is not None:
            logs = table[self.model]
        return np.asarray(softmax(self.power * logs, axis=1))

    @property
    def source(self) -> tuple[int, ...]:
        """Numbers of the models behind the probabilities."""
        if self.model is None:
            return tuple(self.table_.pooled_models)
        return (self.model,)

    def as_part(self) -> RulePart:
        """Return the candidate as plain numbers."""
        return RulePart(1.0, *log_weights(self.table_, self.model), power=self.power)

    def words(self, classes: object) -> str:
        """Return a name for people."""
        power = f" ^{self.power:g}" * (self.power != 1.0)
        return f"{self.table_.words(self.model)} drawn{power}"


# -- what selected rules answer to the rows of a table -------------------------------------------------------


def shares(ensemble: MixtureEnsemble, table: LogProbabilities) -> Floats:
    """Return the label distribution, ties settled; only models with positive weight are read."""
    used = np.flatnonzero(ensemble.weights > 0)
    answers = {m: ensemble.base_models[m].predict_table(table) for m in used.tolist()}
    return ensemble.mix(answers.values(), table.n_rows, lambda m, rows: answers[m][rows])


def can_defer(ensemble: MixtureEnsemble) -> bool:
    """Whether a rule may defer rows."""
    return any(getattr(member, "defers", False) for member in ensemble.base_models)


def deferred(ensemble: MixtureEnsemble, table: LogProbabilities) -> Mask:
    """Return the rows that are deferred with probability ½ or more; none by a rule that never defers."""
    if not can_defer(ensemble):
        return np.zeros(table.n_rows, dtype=bool)
    probability = np.zeros(table.n_rows)
    for weight, member in zip(ensemble.weights, ensemble.base_models, strict=True):
        probability += weight * member.defers_table(table)
    return probability >= 0.5
