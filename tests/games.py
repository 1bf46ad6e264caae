"""Games without rows: the losses of each round come from a function of the player's density."""

from types import SimpleNamespace

import numpy as np

from tailboost.boosting.game import Hypothesis, play as play_rounds


def play(player, units, answer, rounds):
    """Play a game in which ``answer(density)`` returns the losses of the units."""
    weights = []

    def learn(w, t):
        weights.append(w)
        return Hypothesis(f"member {t}", answer(units.density(w)), np.zeros(0))

    weighted_loss = []
    for _state, newest in play_rounds(player, units, learn, rounds):
        state = _state
        weighted_loss.append(newest.weighted_loss)
    return SimpleNamespace(state=state, weighted_loss=np.array(weighted_loss), weights=np.array(weights))
