"""Rules for two classes by a threshold on one score (one in all, or one for each group), and scored rows."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tailboost.core.array_types import Floats, Ints, Mask
from tailboost.rates import Strata
from tailboost.selection.data import Candidate, SelectionData, Singles, contrasts, plain_costs

# Beyond all scores: the logarithm of the odds of a stratum with the least probability is below 20.
BEYOND = 40.0
# Scores are logarithms of sums of float32 numbers; a threshold lies between scores that differ by more than
# this.
RESOLUTION = 1e-6


@dataclass(frozen=True, eq=False)
class ThresholdFamily:
    """Rules with the second label above a threshold on a score.

    The score of a row is ``log Σ p(s | x) G_s`` over the strata s of the second class, less the same over
    those of the first class. G_s > 0 is the gain of the right label. A candidate has such gains if each
    wrong label costs more than the right one. The threshold t multiplies the gains of the first class by
    exp(t).
    """

    gains: Floats  # shape (S,): G, positive
    y: Ints  # shape (S,): class number of each stratum
    combination: Ints  # shape (S,): number of the combination of groups
    by_group: bool  # whether each combination of groups has a threshold of its own

    @classmethod
    def of(cls, candidate: Candidate, strata: Strata, *, by_group: bool) -> ThresholdFamily | None:
        """Return the family of a candidate; None if its action costs have no such gains."""
        if strata.n_classes != 2 or strata.defers:
            return None
        signed = contrasts(candidate.action_costs)[:, 0] * np.where(strata.y == 0, 1.0, -1.0)
        if not (signed > 0).all():
            return None
        return cls(signed, strata.y, strata.combination, by_group)

    @classmethod
    def plain(cls, data: SelectionData, *, by_group: bool) -> ThresholdFamily | None:
        """Return the family of the rule with the smallest overall error."""
        return cls.of(Candidate.of(plain_costs(data)), data.strata, by_group=by_group)

    @property
    def n_thresholds(self) -> int:
        """Number of thresholds."""
        return int(self.combination.max()) + 1 if self.by_group else 1

    def scores(self, probabilities: Singles) -> Floats:
        """Return the score of each row from its stratum probabilities (S, n), shape (n,)."""
        sums = np.zeros((2, probabilities.shape[1]))
        for k, gain, row in zip(self.y.tolist(), self.gains.tolist(), probabilities, strict=True):
            sums[k] += gain * row
        with np.errstate(divide="ignore"):
            logs = np.log(sums)
        return np.clip(logs[1] - logs[0], -BEYOND, BEYOND)

    def candidate(self, thresholds: Floats) -> Candidate:
        """Return the rule of one threshold for each combination of groups, or of one for all, shape (m,).

        A threshold of ±`BEYOND` gives all its rows the same label.
        """
        each = thresholds[self.combination] if self.by_group else np.repeat(thresholds, len(self.gains))
        # The right label of each stratum, with its gain.
        right = np.where(each <= -BEYOND, 1, np.where(each >= BEYOND, 0, self.y))
        inside = np.abs(each) < BEYOND
        gains = self.gains * np.where(inside & (self.y == 0), np.exp(np.where(inside, each, 0.0)), 1.0)
        costs = np.zeros((len(gains), 2))
        costs[np.arange(len(gains)), 1 - right] = gains
        return Candidate.of(costs)


def cuts(scores: Floats) -> tuple[Floats, Ints]:
    """Return thresholds between different scores, and beyond them, with the number of scores above each.

    Scores that differ by less than `RESOLUTION` have no threshold between them.

    Parameters
    ----------
    scores : ndarray of shape (n,)
        In any order.

    Returns
    -------
    thresholds : ndarray of shape (m,)
        Ascending, from −`BEYOND` to `BEYOND`.
    above : ndarray of int, shape (m,)
        From n to 0.
    """
    s = np.sort(scores)
    apart: Mask = np.diff(s) > RESOLUTION
    middles = ((s[1:] + s[:-1]) / 2)[apart]
    above = len(s) - 1 - np.flatnonzero(apart)
    return np.r_[-BEYOND, middles, BEYOND], np.r_[len(s), above, 0]


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
