"""From hypotheses to one classifier: mixtures, votes and additive ensembles."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol, Self

from tailboost.combiners.additive import Additive
from tailboost.combiners.ensemble import AdditiveEnsemble, Ensemble, MixtureEnsemble
from tailboost.combiners.ledger import Ledger
from tailboost.combiners.mixture import Mixture
from tailboost.combiners.objective import CVaR, Objective, WorstRow, WorstUnit
from tailboost.combiners.soft_margin import SoftMargin
from tailboost.combiners.vote import Vote
from tailboost.data import Rows
from tailboost.game import Game, Response

__all__ = [
    "Additive",
    "AdditiveEnsemble",
    "CVaR",
    "Combiner",
    "Ensemble",
    "Ledger",
    "Mixture",
    "MixtureEnsemble",
    "Objective",
    "SoftMargin",
    "Vote",
    "WorstRow",
    "WorstUnit",
]


class Combiner(Protocol):
    """Turns the hypotheses of a game into one classifier, round by round."""

    def open(self, rows: Rows, erm: Callable[[], Response]) -> None:
        """Begin a new game, judged on ``rows``; ``erm`` fits plain ERM where it joins the pool."""

    def take(self, response: Response, state: Any, watched: bool) -> tuple[float, float]:
        """Take in the newest hypothesis and the player's new state; return (objective, solver gap) now.

        Where nobody watches the objective, it may be left out (NaN) if it costs a solve.
        """

    def first(self, n_rounds: int) -> None:
        """Drop all but the first rounds: an interrupt may have come in the middle of `take`."""

    def settle(self, game: Game[Any]) -> Ensemble:
        """Return the classifier of the rounds so far."""

    def snapshot(self) -> Self:
        """Return a copy that further rounds leave as it is."""
