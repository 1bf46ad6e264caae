"""The CVaR: the one objective that needs the loss of each row, not confusion counts alone."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Self

import numpy as np

from tailboost.boosting.candidate_losses import CandidateLosses
from tailboost.boosting.ensemble import MixtureEnsemble
from tailboost.classifiers.rated import Rated
from tailboost.guarantees.fit_summary import NO_SHARE, Summary, guarantee
from tailboost.rates import Objective, error, largest
from tailboost.selection.cvar_candidates import POWERS, Tempered, losses_of
from tailboost.selection.loss_mixture import Mixture
from tailboost.selection.loss_objective import CVaR
from tailboost.selection.loss_pool import LossPool
from tailboost.selection.probability_tables import Judged
from tailboost.selection.program import Program
from tailboost.selection.rate_table import RateTable
from tailboost.solvers import BitLosses


@dataclass(frozen=True, eq=False)
class TailChoice:
    """The mixture of candidates of least CVaR on the selection data."""

    rated: Rated  # the engine
    judged: Judged  # the selection data
    combiner: Mixture  # the candidates with their losses by row
    ensemble: MixtureEnsemble  # the candidates with their weights

    @classmethod
    def of(cls, rated: Rated, judged: Judged, alpha: float, error_budget: float | None) -> Self:
        """Return the mixture of candidates for the largest class error, and draws from probabilities."""
        program = Program.of_rates(rated.table.strata, Objective.of(largest(error(by="class"))), ())
        models = judged.models
        members = [
            *map(rated.member, rated.seeded(program).members),
            *(
                Tempered(models, model, power)
                for model in (None, *range(len(models.names)))
                for power in POWERS
            ),
        ]
        losses = losses_of(members, judged.table, judged.rows.y)
        combiner = Mixture(CVaR(alpha), len(rated.table.strata.classes), error_budget=error_budget)
        combiner.pool = LossPool(
            CandidateLosses(judged.rows, losses, BitLosses(len(judged.rows.y))), [], members
        )
        return cls(rated, judged, combiner, _settled(combiner.stage(len(members))))

    @property
    def objective(self) -> CVaR:
        """What λ minimises."""
        found = self.combiner.objective
        assert isinstance(found, CVaR)
        return found

    @property
    def gap(self) -> float:
        """By how much other weights may lower the CVaR."""
        return self.ensemble.gap

    @property
    def limits_met(self) -> None:
        """Whether limits are kept: there are none."""

    @property
    def least(self) -> float:
        """The least mean loss of a candidate."""
        return float(self.combiner.pool.ledger.mean_losses().min())

    def within(self, error_budget: float) -> TailChoice:
        """Return the mixture within an error budget."""
        combiner = self.combiner.aiming_at(self.objective, error_budget=error_budget)
        return replace(self, combiner=combiner, ensemble=_settled(combiner.stage(combiner.pool.n_rounds)))

    def curve(self) -> Iterator[tuple[float, float, TailChoice]]:
        """Yield mean loss, CVaR and mixture of each corner of the trade-off."""
        combiner = self.combiner.aiming_at(self.objective)
        found = combiner.curve()
        values = combiner.values(found.mixture)
        for mean, value, weights in zip(found.mean.tolist(), values.tolist(), found.mixture, strict=True):
            yield mean, value, replace(self, ensemble=_settled(combiner.ensemble(weights)))

    @property
    def table(self) -> RateTable:
        """The errors of the classes by `predict`, on the selection data."""
        return self.errors

    @cached_property
    def errors(self) -> RateTable:
        """The errors of the classes by `predict`, on the selection data."""
        strata, logs = self.rated.table.strata, self.judged.table
        used = np.flatnonzero(self.ensemble.weights > 0)
        said = {m: self.ensemble.members[m].predict_table(logs) for m in used.tolist()}
        shares = self.ensemble.mix(said.values(), logs.n_rows, lambda m, rows: said[m][rows])
        counts = self.rated.table.at_hand.counted(shares.argmax(axis=1))
        stated = [(error(by="class"), None)]
        refit = self.rated.refit
        return RateTable.counted(stated, strata, counts, self.rated.words, kind="class", refit=refit)

    def guarantee(self, classes: Sequence[Any], name: str) -> Summary:
        """Return what was achieved, against the best candidate alone and against constants."""
        names = [member.words(classes) for member in self.ensemble.members]
        weights, nothing = self.ensemble.weights, ((), ())
        return guarantee(None, self.combiner, weights, self.gap, nothing, classes, names)

    def warn(self, *, forewarned: bool) -> None:
        """Name nothing: a CVaR is over rows."""

    def warn_of_missed(self) -> None:
        """Name nothing: there are no limits."""


def _settled(ensemble: MixtureEnsemble) -> MixtureEnsemble:
    """Return a mixture without the rounding of the solver."""
    weights = np.where(ensemble.weights > NO_SHARE, ensemble.weights, 0.0)
    # Candidates without a weight settle no tie, so that no model is asked for that alone.
    order = ensemble.tie_order[weights[ensemble.tie_order] > 0]
    return replace(ensemble, weights=weights / weights.sum(), tie_order=order)
