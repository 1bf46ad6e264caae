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


def random_base(rng, n):
    """Return sample weights: uniform, whole numbers, or spread over many orders of magnitude."""
    kind = rng.integers(3)
    return np.ones(n) if kind == 0 else rng.integers(1, 9, n) if kind == 1 else 10 ** rng.uniform(-6, 0, n)


def opponent(kind, rng, n):
    """Return the learner as a function from the density u to a loss vector in [0, 1]."""
    if kind == "random":
        return lambda u: rng.random(n)
    if kind == "bits":
        share = rng.random()
        return lambda u: (rng.random(n) < share).astype(float)
    if kind == "fixed":  # the same row is wrong for ever: the regret grows until the weight is all there
        loss = (np.arange(n) == rng.integers(n)).astype(float)
        return lambda u: loss
    if kind == "spiteful":  # hits rows without weight: the worst case for a follower
        return lambda u: (u <= np.median(u)).astype(float)
    # "alternating": each loss is followed by a win
    turn = iter(range(10**9))
    return lambda u: (np.arange(n) % 2 == next(turn) % 2).astype(float)


def kl(v, p):
    """Return the Kullback–Leibler divergence of v from p, as in a regret against v."""
    used = v > 0
    return float(np.sum(v[used] * np.log(v[used] / p[used])))
