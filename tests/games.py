"""Games without rows: the losses of each round come from a function of the player's density."""

from types import SimpleNamespace

import numpy as np


def play(player, units, answer, rounds):
    """Play a game in which ``answer(density)`` returns the losses of the units."""
    weights, weighted_loss = [], []
    state = player.start(units.p)
    for _ in range(rounds):
        w = player.weights(state)
        losses = answer(units.density(w))
        state = player.update(state, losses)
        weights.append(w)
        weighted_loss.append((w * losses).sum())
    return SimpleNamespace(state=state, weighted_loss=np.array(weighted_loss), weights=np.array(weights))
