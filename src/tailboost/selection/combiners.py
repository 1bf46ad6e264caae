"""Combiners turn the base models of a game into one classifier, round by round."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Protocol, Self

from tailboost.boosting.ensemble import Ensemble
from tailboost.boosting.game import Game, Response
from tailboost.boosting.training_set import Rows
from tailboost.rates import Limit
from tailboost.selection.loss_mixture import Mixture
from tailboost.selection.loss_objective import over_rows
from tailboost.selection.loss_pool import LossPool
from tailboost.selection.subgroup_mixture import Grouping, SubgroupMixture


def combiner_of(
    pool: LossPool,
    objective: Any,
    grouping: Grouping,
    limits: Sequence[Limit] = (),
    error_budget: float | None = None,
    randomized: bool = True,
) -> Mixture | SubgroupMixture:
    """Return the combiner of a pool: by the losses of rows for a CVaR, else by confusion counts."""
    if over_rows(objective):
        return Mixture.on(pool, objective, len(grouping.labels), error_budget)
    return SubgroupMixture.on(pool, objective, grouping, limits, error_budget, randomized)


class Combiner(Protocol):
    """Interface of combiners."""

    def open(self, rows: Rows, unboosted: Callable[[], Iterable[Response]]) -> None:
        """Begin a new game with selection data ``rows``; ``unboosted`` fits models outside of the game."""

    def take(self, response: Response, state: Any, needs_objective: bool) -> tuple[float, float]:
        """Add the newest base model; return the objective of the combination and the gap of its solution.

        If not ``needs_objective``, the objective may be NaN when its computation needs a solver.
        """

    def first(self, n_rounds: int) -> None:
        """Drop all rounds after the first ``n_rounds``: an interrupt may leave `take` unfinished."""

    def settle(self, game: Game[Any]) -> Ensemble:
        """Return the classifier of the rounds so far."""

    def snapshot(self) -> Self:
        """Return a copy that further rounds do not change."""
