"""From hypotheses to one classifier: mixtures, votes and additive ensembles."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Protocol, Self

from tailboost.boosting.additive_combiner import AdditiveCombiner
from tailboost.boosting.candidate_losses import CandidateLosses
from tailboost.boosting.ensemble import AdditiveEnsemble, Ensemble, MixtureEnsemble
from tailboost.boosting.game import Game, Response
from tailboost.boosting.soft_margin import SoftMargin
from tailboost.boosting.training_set import Rows
from tailboost.rates import Limit
from tailboost.selection.loss_mixture import Mixture
from tailboost.selection.loss_objective import CVaR, LossObjective, WorstRow, over_rows
from tailboost.selection.loss_pool import LossPool
from tailboost.selection.subgroup_mixture import Grouping, SubgroupMixture

__all__ = [
    "AdditiveCombiner",
    "AdditiveEnsemble",
    "CVaR",
    "CandidateLosses",
    "Combiner",
    "Ensemble",
    "Grouping",
    "LossObjective",
    "Mixture",
    "MixtureEnsemble",
    "SoftMargin",
    "SubgroupMixture",
    "WorstRow",
    "combiner_of",
]


def combiner_of(
    pool: LossPool,
    objective: Any,
    grouping: Grouping,
    limits: Sequence[Limit] = (),
    error_budget: float | None = None,
    randomized: bool = True,
) -> Mixture | SubgroupMixture:
    """Return the combiner of the members of a pool: a CVaR has the losses by row, a rate confusion counts."""
    if over_rows(objective):
        return Mixture.on(pool, objective, len(grouping.labels), error_budget)
    return SubgroupMixture.on(pool, objective, grouping, limits, error_budget, randomized)


class Combiner(Protocol):
    """Turn the hypotheses of a game into one classifier, round by round."""

    def open(self, rows: Rows, extras: Callable[[], Iterable[Response]]) -> None:
        """Begin a new game, judged on ``rows``; ``extras`` fits what joins the pool unboosted, ERM first."""

    def take(self, response: Response, state: Any, watched: bool) -> tuple[float, float]:
        """Add the newest hypothesis; return the objective of the combination now and the solver gap.

        If not ``watched``, the objective may be NaN where computing it needs a solve.
        """

    def first(self, n_rounds: int) -> None:
        """Drop all but the first rounds: an interrupt may have left `take` unfinished."""

    def settle(self, game: Game[Any]) -> Ensemble:
        """Return the classifier of the rounds so far."""

    def snapshot(self) -> Self:
        """Return a copy that further rounds leave as it is."""
