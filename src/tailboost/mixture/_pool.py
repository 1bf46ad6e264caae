"""The pool: every member that the models' probabilities give."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any

import numpy as np
from sklearn.linear_model import LogisticRegression

from tailboost._typing import Floats, Ints
from tailboost._units import memberships
from tailboost.data import Rows
from tailboost.game import Units
from tailboost.mixture._members import (
    Constant,
    Member,
    Shifted,
    ShiftedByUnit,
    Tempered,
    loss_of,
)
from tailboost.mixture._tables import LogTable, Models, Source
from tailboost.rules.hedge import Hedge

# Rounds and rate of the player that looks for weights of the units.
ROUNDS, ETA = 80, 1.0
# Prices τ of the mean error: 0 is the worst unit alone, 1 would be the mean alone.
PRICES = (0.0, 0.2, 0.4, 0.6, 0.8)
# A class may weigh this much less than the heaviest one.
LEAST_WEIGHT = 1e-12
# Powers of the probabilities that are drawn from.
POWERS = (0.5, 1.0, 2.0, 4.0)
# Coefficients up to which a model of the units is found by whole Newton steps.
MOST_EXACT = 200
# Models up to which averages of pairs join that of all.
PAIRS_UP_TO = 3


@dataclass(frozen=True)
class Kinds:
    """Which members join the pool beside the models' own answers.

    Parameters
    ----------
    n_thresholds : int ≥ 0
        Shifts of each source.
    shrinkage : float ≥ 0
        Pseudo-rows by which the player doubts an error measured on few rows.
    averages, constants, shares : bool
        Whether averages of the models' log-probabilities, the constants, and draws from the probabilities
        join.
    """

    n_thresholds: int
    shrinkage: float
    averages: bool
    constants: bool
    shares: bool


class UnitModel:
    """p(u | k, x) of units u that are known where the mixture is chosen, but not where it answers.

    Logistic regression of the unit on the class and the log-probabilities, for each column of groups.

    Parameters
    ----------
    source : tuple of int
        Whose log-probabilities are read.
    n_classes, n_units : int
        K and m.
    """

    def __init__(self, source: Source, n_classes: int, n_units: int) -> None:
        self.source, self.n_classes, self.n_units = source, n_classes, n_units
        self.fits: list[Any] = []
        self.units: list[Ints] = []

    def fit(self, table: LogTable, rows: Rows) -> UnitModel:
        """Fit on the judged rows."""
        assert rows.groups is not None
        for column in rows.groups.reshape(len(rows.y), -1).T:
            inside = column >= 0
            present = np.unique(column[inside])
            if len(present) < 2:
                continue
            features = self._features(table[self.source][inside], rows.y[inside])
            # Newton's steps: where units are tiny or classes many, thousands of others would be needed. Few
            # coefficients are found to a precision with which the order of the rows has no part in them.
            exact = features.shape[1] * len(present) <= MOST_EXACT
            fitted = LogisticRegression(
                solver="newton-cholesky" if exact else "newton-cg", tol=1e-7 if exact else 1e-4, max_iter=200
            )
            self.fits.append(fitted.fit(features, column[inside], rows.weight[inside]))
            self.units.append(present)
        return self

    def _features(self, logs: Floats, answers: Ints) -> Floats:
        return np.hstack([logs - logs.mean(axis=1, keepdims=True), np.eye(self.n_classes)[answers]])

    def answers(self, table: LogTable, source: Source, weight: Floats) -> Ints:
        """Return the class numbers of the largest `scores`, shape (n,)."""
        return np.asarray(self.scores(table, source, weight).argmax(axis=1))

    def scores(self, table: LogTable, source: Source, weight: Floats) -> Floats:
        """Return ``p_k(x) Σ_u w_u p(u | k, x)``, shape (n, K)."""
        of_units = table.derived(self, lambda: self._of_units(table[self.source]))
        scores: Floats = np.exp(table[source]) * (of_units @ weight)
        return scores

    def _of_units(self, logs: Floats) -> Floats:
        """Return p(u | k, x), shape (n, K, m); the sum over the units of each column is 1."""
        P = np.zeros((len(logs), self.n_classes, self.n_units))
        for k in range(self.n_classes):
            features = self._features(logs, np.full(len(logs), k))
            for fitted, units in zip(self.fits, self.units, strict=True):
                P[:, k, units] = fitted.predict_proba(features)
        return P


def sources(n_models: int, averages: bool) -> list[Source]:
    """Return each model, then the averages: of all, and of pairs where models are few."""
    each: list[Source] = [(i,) for i in range(n_models)]
    if not averages or n_models < 2:
        return each
    pairs = list(combinations(range(n_models), 2)) if 2 < n_models <= PAIRS_UP_TO else []
    return [*each, tuple(range(n_models)), *pairs]


def members_of(models: Models, table: LogTable, rows: Rows, units: Ints, kinds: Kinds) -> list[Member]:
    """Return the pool: answers of the sources first, those under shifts, shares, then the constants.

    Parameters
    ----------
    models : Models
        The models.
    table : LogTable
        Their log-probabilities of the judged rows.
    rows : Rows
        The judged rows.
    units : ndarray of shape (n,) or (n, c)
        The units whose errors shall be small: the classes, groups or cells of the rows, −1 for none.
    kinds : Kinds
        What joins.
    """
    K, found = models.n_classes, sources(len(models.names), kinds.averages)
    pool: list[Member] = [Shifted(models, source, np.zeros(K)) for source in found]
    if kinds.n_thresholds:
        for source in found:
            pool += shifted(models, source, table, rows, units, kinds)
    if kinds.shares:
        pool += [Tempered(models, source, power) for source in found for power in POWERS]
    if kinds.constants:
        pool += [Constant(models, k) for k in range(K)]
    return _different(pool, table)


def _different(pool: Sequence[Member], table: LogTable) -> list[Member]:
    """Drop members that answer the judged rows as an earlier one does."""
    seen: dict[bytes, Member] = {}
    for member in pool:
        seen.setdefault(np.ascontiguousarray(member.predict_table(table)).tobytes(), member)
    return list(seen.values())


def shifted(
    models: Models, source: Source, table: LogTable, rows: Rows, units: Ints, kinds: Kinds
) -> Iterator[Member]:
    """Yield the answers of a source under weights that Hedge plays on the units.

    Against each price of the mean error it plays anew: where units weigh ``(1 − τ) w + τ p``, p their shares
    of the rows, the best answers trade the units' errors against the mean at that price, which is where the
    trade-off of a mixture has its corners.
    """
    game, rounds = _game(units, rows, kinds.shrinkage), -(-kinds.n_thresholds // len(PRICES))
    # Weight of a class: that of its rows' units, as if the unit told nothing more about the answer.
    row, unit = memberships(units)
    of_class = np.zeros((models.n_classes, len(game.base)))
    np.add.at(of_class, (rows.y[row], unit), rows.weight[row])
    of_class /= np.bincount(rows.y, weights=rows.weight, minlength=models.n_classes).clip(min=1e-300)[:, None]
    logs = table[source]

    def shift(density: Floats) -> Floats:
        weight = of_class @ density
        return np.log(np.maximum(weight, LEAST_WEIGHT * weight.max()))

    for price in PRICES:
        played = play_hedge(game, price, lambda u: loss_of((logs + shift(u)).argmax(axis=1), rows.y))
        for u in _spread(played, rounds):
            yield Shifted(models, source, shift(u))
    if units is rows.y:  # the unit is the class
        return
    model = UnitModel(source, models.n_classes, len(game.base)).fit(table, rows)
    if not model.fits:
        return
    for price in PRICES:
        played = play_hedge(game, price, lambda u: loss_of(model.answers(table, source, u), rows.y))
        for u in _spread(played, rounds):
            yield ShiftedByUnit(models, source, model, u)


def _game(units: Ints, rows: Rows, shrinkage: float) -> Units:
    game = Units.groups(units, rows.weight, units, rows.weight)
    # A class or unit may have no row here, in X_val or in one group: nobody plays it.
    there = game.mass > 0
    game = replace(game, base=there / np.count_nonzero(there))
    if shrinkage == 0.0:
        return game
    sizes = rows.sizes(units, len(game.base))
    return replace(game, shrinkage=shrinkage / (sizes + shrinkage))


def play_hedge(game: Units, price: float, losses: Callable[[Floats], Any]) -> list[Floats]:
    """Return the densities ``(1 − τ) w/p + τ`` of the units for the w that Hedge plays, round by round."""
    rule = Hedge(ETA)
    state, played = rule.start(game), list[Floats]()
    for _ in range(ROUNDS):
        w = rule.weights(state)
        density = np.divide(w, game.mass, out=np.zeros_like(w), where=game.mass > 0)
        played.append((1.0 - price) * density + price)
        state = rule.update(state, game.losses(losses(played[-1])))
    return played


def _spread(played: list[Floats], count: int) -> list[Floats]:
    return [played[i] for i in np.unique(np.linspace(0, len(played) - 1, count).round().astype(int))]
