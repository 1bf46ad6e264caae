"""Games in which the learner must beat a coin on the player's weights by an edge γ, in every round."""

from __future__ import annotations

from abc import abstractmethod

from tailboost.classifiers._hedge import HedgeGame
from tailboost.game import EndOfGame, Floats, Response
from tailboost.rules import theory_rounds
from tailboost.validation import Goal, Scheme

# Sums of weights in another order may differ by less than this.
DECIMALS = 9


class BoundNotMetWarning(UserWarning):
    """What was aimed at is not met, or could not be measured; the message names the class, group or round."""


class WeakLearningGame(HedgeGame):
    """A Hedge game with ``n_estimators="auto"``, T from γ, and a learner that is grown to meet a demand.

    Where γ is not None, a learner that is fully grown and does not meet ``Σ_k w_k ℓ_k ≤ ½ − γ`` ends the
    game; one that fails in round 1 is all there is.
    """

    # n, the number of units; known once the data are.
    _count: float

    @abstractmethod
    def _edge(self) -> float | None:
        """Return γ; None where no weak learning is asked for."""

    def _demand(self) -> float:
        """Return the weighted loss down to which the learner is grown."""
        gamma = self._edge()
        assert gamma is not None
        return 0.5 - gamma

    def _rounds(self) -> int:
        if self.n_estimators != "auto":
            return super()._rounds()
        gamma = self._edge()
        assert gamma is not None
        return theory_rounds(self._count, gamma)

    def _goal(self, scheme: Scheme) -> Goal:
        game, demand = self._game, self._demand()
        w = game.rule.weights(game.state)
        return lambda losses, answers: round(float(w @ game.units.losses(losses)) - demand, DECIMALS)

    def _respond(self, scheme: Scheme, u: Floats, seed: int) -> Response:
        if self._edge() is None:
            return super()._respond(scheme, u, seed)
        game = self._game
        if game.n_rounds == 1:
            self._refuse_weak(1, game.trace.rounds[0].weighted_loss)
        response = super()._respond(scheme, u, seed)
        if game.n_rounds:
            w = game.rule.weights(game.state)
            self._refuse_weak(game.n_rounds + 1, float(w @ game.units.losses(response.losses)))
        return response

    def _refuse_weak(self, t: int, weighted_loss: float) -> None:
        if round(weighted_loss - self._demand(), DECIMALS) > 0:
            raise EndOfGame(
                f"the weak-learning condition was not met in round {t}: the learner, fully grown, has "
                f"weighted loss {weighted_loss:.4g}, above ½ − γ = {self._demand():.4g}"
            )
