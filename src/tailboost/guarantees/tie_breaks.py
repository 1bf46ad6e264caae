"""Scores of which none are equal: a random number orders the rows with equal scores.

Pairs of score and number are continuous whatever the population, so ranks leave no ties. A threshold between
two rows with equal scores divides the rows with this score: a new row there gets the second answer if its own
number is larger. That is a randomised rule, and its true rate is the rate above the threshold.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tailboost.core.array_types import Floats, Ints
from tailboost.selection.threshold_family import BEYOND, RESOLUTION, ScoredRows

SEED = 20261123  # of the numbers of the selection data


@dataclass(frozen=True, eq=False)
class TieBreaks:
    """Fresh rows and selection data in one order, by score and number.

    Their scores are places in this order, so a threshold lies between any two. The loss of a row is the mean
    of the rows with its score, because a number says nothing of a row.
    """

    rows: ScoredRows
    selection: ScoredRows
    scores: Floats  # shape (n,): of the fresh rows, before
    ties: Ints  # shape (n,): number of their score; equal for equal scores of one threshold
    numbers: Floats  # shape (n,): their random numbers

    @classmethod
    def of(cls, rows: ScoredRows, selection: ScoredRows, numbers: Floats) -> TieBreaks:
        """Return the order of fresh rows with random numbers, and of selection data."""
        n = len(rows.scores)
        scores, place = np.r_[rows.scores, selection.scores], np.r_[rows.place, selection.place]
        order = np.lexsort((scores, place))
        starts = np.r_[True, (np.diff(scores[order]) > RESOLUTION) | (np.diff(place[order]) > 0)]
        ties = np.empty(len(order), dtype=np.intp)
        ties[order] = starts.cumsum()
        every = np.r_[numbers, np.random.default_rng(SEED).random(len(selection.scores))]
        at = np.empty(len(order))
        at[np.lexsort((every, ties))] = np.linspace(1.0 - BEYOND, BEYOND - 1.0, len(order))
        return cls(
            ScoredRows(at[:n], rows.place, _means(rows.losses, ties[:n])),
            ScoredRows(at[n:], selection.place, _means(selection.losses, ties[n:])),
            rows.scores,
            ties[:n],
            numbers,
        )

    def mixture(self, thresholds: Floats) -> tuple[Floats, Floats]:
        """Return thresholds on scores, shape (k, m), and the probability of each draw, shape (k,).

        All thresholds are drawn together. A draw above ``parts`` gives the rows at the threshold the second
        answer.
        """
        low, high, parts = np.array([self._around(k, t) for k, t in enumerate(thresholds)]).T
        edges = np.unique(np.r_[0.0, parts, 1.0])
        middles = (edges[1:] + edges[:-1]) / 2
        return np.where(middles[:, None] >= parts, low, high), np.diff(edges)

    def _around(self, place: int, threshold: float) -> tuple[float, float, float]:
        """Return the scores around the rows at a threshold, and the part of these rows below it."""
        if abs(threshold) >= BEYOND:
            return threshold, threshold, 0.0
        rows = np.flatnonzero(self.rows.part(place))
        rows = rows[np.argsort(self.rows.scores[rows])]
        above = int(np.searchsorted(self.rows.scores[rows], threshold))
        pair = rows[above - 1 : above + 1]
        first, second = self.ties[pair]
        if first < second:
            middle = float(self.scores[pair].mean())
            return middle, middle, 0.0
        tied = self.scores[rows[self.ties[rows] == first]]
        ends = float(tied.min() - RESOLUTION / 2), float(tied.max() + RESOLUTION / 2)
        return *ends, float(self.numbers[pair].mean())


def _means(losses: Floats, ties: Ints) -> Floats:
    """Return the mean losses of the rows with equal scores, shape (n, 2)."""
    _, of = np.unique(ties, return_inverse=True)
    sums = np.stack([np.bincount(of, column) for column in losses.T], axis=1)
    means: Floats = (sums / np.bincount(of)[:, None])[of]
    return means
