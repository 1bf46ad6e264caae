"""The exact program of group-aware rules: randomised thresholds by group of one score, by HiGHS.

The program shares no code with the product: the vertices of each group's region of rates, and one linear
program.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linprog
from scipy.spatial import ConvexHull, QhullError

from experiments.field._rules import Goal

Floats = NDArray[np.float64]


class Exact:
    """Shares of thresholds for each group.

    Parameters
    ----------
    p : ndarray of shape (n,)
        The score.
    y, groups : ndarray of int of shape (n,)
    goal : Goal
        "odds", "parity" or "ratio".

    Attributes
    ----------
    error : float
        The least mean error on these rows.
    """

    def __init__(self, p: Floats, y: NDArray[Any], groups: NDArray[Any], goal: Goal) -> None:
        names = np.unique(groups)
        self.rules: list[list[tuple[float, bool]]] = []
        rates, sizes = [], []
        for g in names:
            own = groups == g
            of, points = _vertices(p[own], y[own])
            self.rules.append(of)
            rates.append(points)
            sizes.append([(own & (y == k)).sum() / len(y) for k in (0, 1)])
        blocks = np.cumsum([0, *(len(of) for of in self.rules)])
        n = blocks[-1]
        # Behind the shares stand two free bounds: of false and of true positives, or of the share answered 1.
        cost, upper, bound = np.zeros(n + 2), [], []
        equal = np.zeros((len(names), n + 2))
        for j, (points, (n0, n1)) in enumerate(zip(rates, sizes, strict=True)):
            here = slice(blocks[j], blocks[j + 1])
            equal[j, here] = 1.0
            cost[here] = n0 * points[:, 0] + n1 * (1 - points[:, 1])
            approved = points @ np.array([n0, n1]) / (n0 + n1)
            columns = [points[:, 0], points[:, 1]] if goal.kind == "odds" else [approved]
            for k, column in enumerate(columns):
                low, high = np.zeros(n + 2), np.zeros(n + 2)
                low[here], high[here] = -column, column
                if goal.kind == "ratio":  # level z ≤ rate ≤ z
                    low[n + k], high[n + k], slack = goal.level, -1.0, 0.0
                else:  # z ≤ rate ≤ z + level
                    low[n + k], high[n + k], slack = 1.0, -1.0, goal.level
                upper += [low, high]
                bound += [0.0, slack]
        solved = linprog(cost, np.array(upper), bound, equal, np.ones(len(names)), (0, None), method="highs")
        if not solved.success:
            raise ValueError(f"{goal.title}: {solved.message}")
        self.error = float(solved.fun)
        self.shares = [solved.x[blocks[j] : blocks[j + 1]] for j in range(len(names))]

    def answer(self, p: Floats, groups: NDArray[Any]) -> Floats:
        """Return the probability of answering 1, for each row."""
        q = np.zeros(len(p))
        for g, (rules, shares) in enumerate(zip(self.rules, self.shares, strict=True)):
            own = groups == g
            for (threshold, above), share in zip(rules, shares, strict=True):
                if share > 1e-12:
                    q[own] += share * ((p[own] >= threshold) == above)
        return np.clip(q, 0, 1)


def _vertices(p: Floats, y: NDArray[Any]) -> tuple[list[tuple[float, bool]], Floats]:
    """Return the rules (threshold, above) at the corners of the region, and their two rates."""
    order = np.argsort(-p, kind="stable")
    last = np.r_[np.flatnonzero(np.diff(p[order])), len(p) - 1]
    rates = [np.cumsum(y[order] == k)[last] / max(1, (y == k).sum()) for k in (0, 1)]
    points = np.vstack([[0.0, 0.0], np.column_stack(rates)])
    thresholds = np.r_[np.inf, p[order][last]]
    every = np.vstack([points, 1 - points])
    try:
        corners = ConvexHull(every).vertices
    except QhullError:  # all on one line
        corners = np.arange(len(every))
    m = len(points)
    return [(float(thresholds[i % m]), bool(i < m)) for i in corners], every[corners]
