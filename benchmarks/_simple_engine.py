"""A short selection engine for `quality.py`: one learned average, Hedge at five prices, confusion counts.

A candidate is a matrix of action costs Q (strata × actions): it takes the action with the smallest cost
``p(s | x) Q``. Intervals are exact binomial intervals on the selection data, widened for the change from the
models of the folds to the final model.
"""

from __future__ import annotations

from itertools import combinations
from operator import itemgetter
from typing import Any

import numpy as np
from scipy.optimize import linprog, minimize
from scipy.special import log_softmax, softmax
from scipy.stats import beta
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.model_selection import StratifiedKFold

# Weights of the overall error in the games, rounds of a game, rounds between two candidates.
PRICES, ROUNDS, EVERY = (0.0, 0.5, 0.75, 0.875, 0.9375), 40, 4
# Pseudo-rows that shrink the learned average towards even weights; standard error of a change of models.
PSEUDO_ROWS, CHANGE = 10.0, 0.015
# Largest number of linear programs with limits; starting candidates of random moves; number of moves.
PROGRAMS, STARTS, MOVES = 60, 3, 300


def learned_average(logs: Any, y: Any) -> Any:
    """Return the average of log-probabilities (models × rows × classes) with the smallest log loss."""
    M, n, K = logs.shape
    even, rows = np.r_[np.full(M, 1 / M), np.zeros(K)], np.arange(n)

    def loss(t: Any) -> Any:
        log_p = log_softmax(np.tensordot(t[:M], logs, 1) + t[M:], axis=1)
        residual = np.exp(log_p)
        residual[rows, y] -= 1.0
        slope = np.r_[np.einsum("nk,mnk->m", residual, logs), residual.sum(axis=0)]
        held = PSEUDO_ROWS * (t - even)
        return -log_p[rows, y].sum() + held @ (t - even) / 2, slope + held

    t = minimize(loss, even, jac=True, method="L-BFGS-B", bounds=[(0, None)] * M + [(None, None)] * K).x
    return lambda logs: softmax(np.tensordot(t[:M], logs, 1) + t[M:], axis=1)


def group_probabilities(X: Any, y: Any, g: Any, X_test: Any, K: int) -> Any:
    """Return p(group | x, class), rows × classes × groups: out of fold on X, and on X_test."""

    def fitted(rows: Any) -> Any:
        model = HistGradientBoostingClassifier(learning_rate=0.15, max_iter=60, max_depth=5, random_state=0)
        return model.fit(np.c_[X, y][rows], g[rows])

    def asked(model: Any, X: Any) -> Any:
        return np.stack([model.predict_proba(np.c_[X, np.full(len(X), k)]) for k in range(K)], axis=1)

    out = np.empty((len(X), K, g.max() + 1))
    for rest, held in StratifiedKFold(3, shuffle=True, random_state=0).split(X, y * (g.max() + 1) + g):
        out[held] = asked(fitted(rest), X[held])
    return out, asked(fitted(slice(None)), X_test)


class SelectionData:
    """Stratum probabilities with strata ``class · G + group``, and the confusion counts of candidates."""

    def __init__(self, B: Any, y: Any, g: Any, K: int, G: int) -> None:
        self.B, self.s, self.K, self.S = B, y * G + g, K, K * G
        self.classes, self.groups = np.repeat(np.arange(K), G), np.tile(np.arange(G), K)
        self.mass = np.bincount(self.s, minlength=self.S) / len(y)
        self.error = 1.0 - np.eye(K)[self.classes]

    def counts(self, Q: Any) -> Any:
        """Return the confusion counts as fractions of the rows, strata × actions."""
        actions = (self.B @ Q).argmin(axis=1)
        counts = np.bincount(self.s * self.K + actions, minlength=self.S * self.K)
        return counts.reshape(self.S, -1) / len(actions)

    def rate(self, event: Any, inside: Any) -> Any:
        """Return the matrix C of a rate ``⟨C, counts⟩``: the frequency of an event in some strata."""
        return event * inside[:, None] / self.mass[inside].sum()


def candidates(data: SelectionData, errors: Any) -> list[Any]:
    """Return the most accurate rule, iterates of Hedge over subgroups, and the constant rules."""
    found = [data.error]
    for price in PRICES:
        total = np.zeros(len(errors))
        for t in range(1, ROUNDS + 1):
            Q = (1 - price) * np.tensordot(softmax(total), errors, 1) + price * data.error
            total += np.tensordot(errors, data.counts(Q), 2)
            if t % EVERY == 0:
                found.append(Q)
    return found + [-np.tile(action, (data.S, 1)) for action in np.eye(data.K)]


def within_limits(data: SelectionData, A: Any, b: Any) -> Any:
    """Return the candidate with the smallest overall error and ``⟨A, counts⟩ ≤ b``, by column generation."""
    rng, pool, penalty, idle = np.random.default_rng(0), [], 10.0, 0

    def add(Q: Any) -> Any:
        pool.append((Q, data.counts(Q)))
        return pool[-1][1]

    for Q in [data.error, *(-np.tile(action, (data.S, 1)) for action in np.eye(data.K))]:
        add(Q)
    for _ in range(PROGRAMS):
        N, J = np.array([counts for _, counts in pool]), len(b)
        cost = np.r_[np.tensordot(N, data.error, 2), np.full(J, penalty)]  # mixture weights, then slacks
        broken = np.hstack([np.tensordot(A, N, ((1, 2), (1, 2))), -np.eye(J)])
        one = np.r_[np.ones(len(N)), np.zeros(J)][None]
        found = linprog(cost, broken, b, one, [1.0], method="highs")
        dual = -found.ineqlin.marginals
        Q = data.error + np.tensordot(dual, A, 1)
        if found.fun - (Q * add(Q)).sum() + dual @ b <= 1e-4:
            idle += 1
            penalty *= 10.0 if found.x[len(N) :].sum() > 1e-7 and penalty < 1e4 else 1.0
            for _ in range(4):
                add(Q * np.exp(0.25 * rng.normal(size=(data.S, 1))))
        if idle == 4:
            break
    charge = min(2.0 + 2.0 * dual.sum(), 1e4)

    def score(counts: Any) -> float:
        excess = max(0.0, (np.tensordot(A, counts, 2) - b).max())
        return float((data.error * counts).sum() + charge * excess + 0.005 * (excess > 1e-9))

    for i, j in combinations(np.argsort(-found.x[: len(N)])[:4], 2):
        for t in (0.25, 0.5, 0.75):
            add(t * pool[i][0] / np.abs(pool[i][0]).max() + (1 - t) * pool[j][0] / np.abs(pool[j][0]).max())
    least, best = min(((score(counts), Q) for Q, counts in pool), key=itemgetter(0))
    if least <= found.fun + 5e-4:  # as good as the randomised rule
        return best
    constants = range(1, 1 + data.K)
    starts = sorted((score(pool[i][1]), i) for i in range(len(pool)) if i not in constants)[:STARTS]
    for value, i in starts:
        Q, step = pool[i][0] - pool[i][0].mean(axis=1, keepdims=True), 0.3
        for _ in range(MOVES // STARTS):
            size = np.abs(Q) + 0.1 * np.abs(Q).max()
            moved = Q + step * size * rng.normal(size=Q.shape) * (rng.random(Q.shape) < 0.4)
            if (now := score(data.counts(moved))) < value:
                Q, value, step = moved, now, min(1.5 * step, 1.0)
            else:
                step = max(0.96 * step, 0.005)
        if value < least:
            least, best = value, Q
    return best


def interval(rate: float, n: int) -> tuple[float, float]:
    """Return the 95 % interval of a rate on n rows."""
    k, more = round(rate * n), 1.96 * CHANGE
    low = beta.ppf(0.025, k, n - k + 1) if k else 0.0
    high = beta.ppf(0.975, k + 1, n - k) if k < n else 1.0
    return max(rate - np.hypot(rate - low, more), 0.0), min(rate + np.hypot(high - rate, more), 1.0)
