"""The game of boosting: a player weighs units, and a learner answers with a hypothesis.

    state = player.start(p)
    for t in range(T):
        w = player.weights(state)
        h = learn(w, t)
        state = player.update(state, h.losses)

`GameClassifier` mixes the hypotheses of this loop, `AdditiveClassifier` adds them with the steps of its
player. A unit is what the player weighs: a row, a class or a group. ``p`` is the base measure over the m
units, ``w`` the player's weights on the simplex, ``ℓ`` the losses of a hypothesis on the units, ``T`` the
number of rounds.
"""

from __future__ import annotations

import reprlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np

from tailboost.core import Array, Floats, Ints, frozen_value


class Player(ABC):
    """An algorithm of boosting: three pure functions of a state. A new algorithm is one such class.

    `GameClassifier` plays it against a learner.
    """

    @abstractmethod
    def start(self, p: Floats) -> Any:
        """Return the state before the first round, for a base measure of shape (m,)."""

    @abstractmethod
    def weights(self, state: Any) -> Floats:
        """Return w of the next round, shape (m,): w ≥ 0 with sum 1."""

    @abstractmethod
    def update(self, state: Any, losses: Array) -> Any:
        """Return the state after a hypothesis with these losses, shape (m,).

        Zero-one losses are of type bool: begin a sum of them with zeros of type float.
        """

    def bounds(self, game: Game) -> list[Bound]:
        """Return the theorems about this player with the numbers of a game; by default there is none."""
        return []


@frozen_value
class Units:
    """The weighed units with their rows.

    Attributes
    ----------
    p : ndarray of shape (m,)
        Base measure, the first weights of a player.
    mass : ndarray of shape (m,)
        Sample weight of the rows in each unit, positive.
    index : ndarray of int, shape (n,)
        Unit of each row.
    weight : ndarray of shape (n,)
        Sample weights of the rows.
    count : float
        The n of regret bounds, at least 1/min p: then log n is at least each divergence from p. A row of
        weight 2 counts as two, and a lighter row than 1 makes all others heavier.
    """

    p: Floats
    mass: Floats
    index: Ints
    weight: Floats
    count: float

    @classmethod
    def rows(cls, weight: Floats) -> Units:
        """Return the rows as units; p is their normalised sample weight."""
        total = weight.sum()
        count = total / min(1.0, weight.min())
        return cls(weight / total, weight, np.arange(len(weight)), weight, count)

    @classmethod
    def groups(cls, index: Ints, weight: Floats) -> Units:
        """Return classes or groups of rows, numbered 0 … m − 1, as units of equal weight."""
        mass = np.bincount(index, weight).astype(np.float64)
        m = len(mass)
        return cls(np.full(m, 1 / m), mass, index, weight, m)

    def density(self, w: Floats) -> Floats:
        """Return the factors of the rows' sample weights under w, shape (n,), with weighted mean 1."""
        return (w * self.mass.sum() / self.mass)[self.index]

    def means(self, losses: Array) -> Floats:
        """Return the mean of the losses of the rows in each unit, shape (m,)."""
        shares = self.weight / self.mass[self.index] * losses
        return np.bincount(self.index, shares).astype(np.float64)


class Hypothesis(NamedTuple):
    """What the learner answers to weights w.

    Attributes
    ----------
    model : estimator
        The base model.
    losses : ndarray of shape (m,)
        ℓ, its losses on the units.
    weighted_loss : float
        ⟨w, ℓ⟩.
    answers : ndarray
        What it answers to the rows that select the rule: class numbers, or real values.
    """

    model: Any
    losses: Array
    weighted_loss: float
    answers: Array


class Game(NamedTuple):
    """What was played.

    Attributes
    ----------
    units : Units
        What the player weighed.
    losses : ndarray of shape (T, m)
        Losses of the units in each round.
    weighted_losses : ndarray of shape (T,)
        ⟨w, ℓ⟩ of each round.
    alpha : float or None
        Tail mass α of the classifier, if it has one.
    """

    units: Units
    losses: Array
    weighted_losses: Floats
    alpha: float | None


class Bound(NamedTuple):
    """A theorem about a fitted classifier: ``achieved`` ≤ ``bound``.

    ``bound`` is NaN if the rounds of the fit miss a condition of the theorem: then it states nothing.
    """

    quantity: str
    formula: str
    bound: float
    achieved: float


def play(
    player: Player, learn: Callable[[Floats, int], Hypothesis], p: Floats, T: int
) -> Iterator[tuple[Hypothesis, Any]]:
    """Play the game: yield the hypothesis of each round, and the player's state after it.

    Raise ValueError if the weights of the player are no distribution on the units.
    """
    state = player.start(p)
    for t in range(T):
        w = np.asarray(player.weights(state))  # w^t, by all losses so far
        if w.shape != p.shape or w.min() < 0 or not abs(w.sum() - 1) <= 1e-6:
            raise ValueError(
                f"player: the weights of {type(player).__name__} in round {t + 1} must be "
                f"{len(p)} non-negative numbers with sum 1, got {reprlib.repr(w.tolist())}, sum {w.sum()}"
            )
        h = learn(w, t)  # f^t = 𝓛(w^t)
        state = player.update(state, h.losses)
        yield h, state


def tilted(p: Floats, x: Floats) -> tuple[Floats, float]:
    """Return w ∝ p e^x with sum 1, and log Σ p e^x, without overflow. Uniform p changes no bit of w."""
    log_w = np.log(p / p.max()) + x
    top = log_w.max()
    w = np.exp(log_w - top)
    total = w.sum()
    return w / total, top + np.log(total * p.max())
