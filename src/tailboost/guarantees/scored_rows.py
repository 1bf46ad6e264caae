"""Rows with a score, the number of its threshold, and the loss of both answers."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tailboost.core.array_types import Floats, Ints, Mask


@dataclass(frozen=True, eq=False)
class ScoredRows:
    """Rows with a score, the number of its threshold, and the loss of both answers."""

    scores: Floats  # shape (n,)
    place: Ints  # shape (n,): number of the row's threshold
    losses: Floats  # shape (n, 2): loss of the first and of the second answer

    def part(self, place: int) -> Mask:
        """Return the rows of a threshold."""
        mask: Mask = self.place == place
        return mask

    def loss(self, place: int, thresholds: Floats) -> Floats:
        """Return the summed loss of the rows of one threshold, at each of some thresholds."""
        rows = self.part(place)
        order = np.argsort(self.scores[rows], kind="stable")
        scores, losses = self.scores[rows][order], self.losses[rows][order]
        below = np.searchsorted(scores, thresholds, side="right")
        first, second = np.r_[0.0, losses[:, 0].cumsum()], np.r_[0.0, losses[:, 1].cumsum()]
        total: Floats = first[below] + second[-1] - second[below]
        return total
