"""Games without rows: a learner by a function, for tests of players and of the loop."""

import numpy as np

from tailboost.boosting.additive import AdditivePool
from tailboost.boosting.game import Game, RoundCandidate, RowStakes, Schedule, Stop

NOTHING = np.zeros(0, dtype=np.intp)


class Scripted:
    """A learner that answers a request with losses, or with a stop."""

    judged = None
    player_rows = None

    def __init__(self, answer):
        self.answer = answer

    def fit(self, request):
        losses = self.answer(request)
        if isinstance(losses, Stop):
            return losses
        return RoundCandidate(f"member {request.seed}", losses, NOTHING)


def game_of(player, units, answer, rounds, stakes=None, **parts):
    """Return a game over rows, in which ``answer(request)`` returns the losses of each round."""
    schedule = parts.pop("schedule", None) or Schedule(rounds)
    return Game(stakes or RowStakes(units), player, Scripted(answer), schedule, **parts)


def play(player, units, answer, rounds, **parts):
    """Play a game, and return what was played."""
    return game_of(player, units, answer, rounds, **parts).play(AdditivePool(2), 0).played
