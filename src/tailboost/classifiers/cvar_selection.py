"""Selection for a CVaR. This objective needs the loss of each row; confusion counts do not suffice."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np
from scipy.special import softmax

from tailboost.boosting.ensemble import MixtureEnsemble
from tailboost.core.array_types import Floats
from tailboost.rates import Objective, error, largest
from tailboost.selection.engine import Engine
from tailboost.selection.loss_mixture import CVaR, Mixture
from tailboost.selection.probability_tables import LogProbabilities, ModelOutputs, Models
from tailboost.selection.program import Program
from tailboost.selection.rate_table import RateTable
from tailboost.selection.rule import RulePart, log_weights
from tailboost.selection.subgroup_mixture import ModelPool
from tailboost.selection.summary import NO_SHARE, Summary, mixture_summary

# Powers β of the probabilities; labels are drawn from the result.
POWERS = (0.5, 1.0, 2.0, 4.0)


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

    def words(self, classes: Any) -> str:
        """Return a name for people."""
        return f"{self.table_.words(self.model)} drawn" + ("" if self.power == 1.0 else f" ^{self.power:g}")


@dataclass(frozen=True, eq=False)
class SelectedMixture:
    """The mixture of candidates of least CVaR on the selection data."""

    engine: Engine  # the engine
    outputs: ModelOutputs  # the selection data
    combiner: Mixture  # the candidates with their losses by row
    ensemble: MixtureEnsemble  # the candidates with their weights

    @classmethod
    def of(cls, engine: Engine, outputs: ModelOutputs, alpha: float, error_budget: float | None) -> Self:
        """Return the mixture of candidates for the largest class error, and draws from probabilities."""
        program = Program.of_rates(engine.data.strata, Objective.of(largest(error(by="class"))), ())
        models = outputs.models
        members: list[Any] = [
            *map(engine.member, engine.first_candidates(program).candidates),
            *(
                PowerDraw(models, model, power)
                for model in (None, *range(len(models.names)))
                for power in POWERS
            ),
        ]
        pool, table = ModelPool(outputs.rows, len(engine.data.strata.classes)), outputs.table
        for member in members:
            pool.add_boosted(member, member.predict_table(table))
        combiner = Mixture.on(pool, CVaR(alpha), error_budget)
        return cls(engine, outputs, combiner, _settled(combiner.stage(len(members))))

    @property
    def objective(self) -> CVaR:
        """The CVaR."""
        found = self.combiner.objective
        assert isinstance(found, CVaR)
        return found

    @property
    def gap(self) -> float:
        """Possible decrease of the CVaR by other mixture weights."""
        return self.ensemble.gap

    @property
    def limits_met(self) -> None:
        """None: a CVaR has no limits."""

    @property
    def least(self) -> float:
        """The least mean loss of a candidate."""
        return float(self.combiner.pool.mean_losses().min())

    def within(self, error_budget: float) -> SelectedMixture:
        """Return the mixture within an error budget."""
        combiner = self.combiner.aiming_at(self.objective, error_budget=error_budget)
        return replace(self, combiner=combiner, ensemble=_settled(combiner.stage(combiner.pool.n_rounds)))

    def curve(self) -> Iterator[tuple[float, float, SelectedMixture]]:
        """Yield mean loss, CVaR and mixture of each corner of the trade-off."""
        combiner = self.combiner.aiming_at(self.objective)
        found = combiner.curve()
        values = combiner.values(found.mixture)
        for mean, value, weights in zip(found.mean.tolist(), values.tolist(), found.mixture, strict=True):
            yield mean, value, replace(self, ensemble=_settled(combiner.ensemble(weights)))

    @cached_property
    def table(self) -> RateTable:
        """The errors of the classes by `predict`, on the selection data."""
        strata, logs = self.engine.data.strata, self.outputs.table
        used = np.flatnonzero(self.ensemble.weights > 0)
        answers = {m: self.ensemble.base_models[m].predict_table(logs) for m in used.tolist()}
        distributions = self.ensemble.mix(answers.values(), logs.n_rows, lambda m, rows: answers[m][rows])
        counts = self.engine.data.in_memory.count(distributions.argmax(axis=1))
        stated = [(error(by="class"), None)]
        refit = self.engine.refit
        return RateTable.counted(stated, strata, counts, self.engine.words, kind="class", refit=refit)

    @property
    def errors(self) -> RateTable:
        """The same table: a CVaR has no other rates."""
        return self.table

    def guarantee(self, classes: Sequence[Any], name: str) -> Summary:
        """Return the summary, with the best single candidate and constants."""
        names = [member.words(classes) for member in self.ensemble.base_models]
        weights, nothing = self.ensemble.weights, ((), ())
        return mixture_summary(None, self.combiner, weights, self.gap, nothing, classes, names)

    def warn(self, *, forewarned: bool) -> None:
        """Give no warning: a CVaR has no limits."""


def _settled(ensemble: MixtureEnsemble) -> MixtureEnsemble:
    """Return a mixture after removal of tiny weights, which are rounding errors of the solver."""
    weights = np.where(ensemble.weights > NO_SHARE, ensemble.weights, 0.0)
    # Candidates without weight settle no ties, so prediction does not need their models.
    order = ensemble.tie_order[weights[ensemble.tie_order] > 0]
    return replace(ensemble, weights=weights / weights.sum(), tie_order=order)
