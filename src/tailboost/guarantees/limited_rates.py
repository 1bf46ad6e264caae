"""Limited rates as shares of rows counted against a limit, and the predicted power of their tests."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import permutations
from typing import Any

import numpy as np
from scipy.special import ndtr, ndtri

from tailboost.core.array_types import Floats, Ints, Mask
from tailboost.rates import Limit, Strata
from tailboost.rates.bounds import each_most_reached
from tailboost.rates.pair_test import pair_passes

# Probits of five quantiles, in the middles of five equal parts of a normal distribution.
PROBITS = ndtri(np.arange(0.1, 1.0, 0.2)).tolist()


@dataclass(frozen=True, eq=False)
class LimitedFamily:
    """The m limited rates of a family, as shares of rows counted against the limit.

    Attributes
    ----------
    limit : Limit
        The limit.
    wrong : ndarray of shape (m, S, 3)
        1 for strata and answers counted against the limit, 0 for others. The third answer is deferral.
    among : ndarray of shape (m, S, 3)
        1 for strata and answers in the denominator, 0 for others.
    largest_shares : ndarray of shape (m,)
        The largest allowed share of each rate; NaN for a gap or ratio, which compares the shares.
    """

    limit: Limit
    wrong: Floats
    among: Floats
    largest_shares: Floats

    @classmethod
    def from_limit(cls, limit: Limit, strata: Strata) -> LimitedFamily | None:
        """Return the limited rates of all subgroups with a limit; None if rows count in part, or by costs.

        Rates of a comparison are those of all subgroups, without a largest share. Of a limit from below, the
        rows that do not count are the errors.
        """
        if limit.rate.needs_costs:
            return None
        names, counted, among = limit.rate.by_subgroup(strata)
        if not np.isin([counted, among], [0.0, 1.0]).all():
            return None
        # An empty third answer, if the strata have no deferral.
        padding = ((0, 0), (0, 0), (0, 3 - strata.n_actions))
        counted = np.pad(counted, padding)
        among = np.pad(among, padding)
        if limit.compares:
            no_shares = np.full(len(names), np.nan)
            return cls(limit, counted, among, no_shares)

        wrong = counted
        largest_shares = limit.against(limit.bounds(names))
        if not limit.from_above:
            wrong = among - counted
        is_limited = ~np.isnan(largest_shares)
        return cls(limit, wrong[is_limited], among[is_limited], largest_shares[is_limited])

    def counts(self, answered: Floats) -> tuple[Floats, Floats]:
        """Return the errors and the rows of each rate, shape (K, m) each, for K rules.

        ``answered`` has the weight of each stratum with each answer, shape (K, S, 3).
        """
        over_strata_and_answers = ((1, 2), (1, 2))
        errors = np.tensordot(answered, self.wrong, axes=over_strata_and_answers)
        rows = np.tensordot(answered, self.among, axes=over_strata_and_answers)
        return errors, rows

    def passes(self, counts: Floats, never: Mask, level: float) -> Mask:
        """Return whether counts of fresh rows pass the tests of all rates, shape (K,).

        Parameters
        ----------
        counts : ndarray of shape (K, S, 3)
            K times the numbers of rows by stratum and answer.
        never : ndarray of bool, shape (S, 3)
            Whether no row of the stratum can get the answer.
        level : float
            Of each test. All must pass, so none needs a correction.
        """
        errors, rows = (numbers.astype(np.intp) for numbers in self.counts(counts))
        return self.pass_tests(errors, rows, never, level)

    def pass_tests(self, errors: Ints, rows: Ints, never: Mask, level: float) -> Mask:
        """Return whether numbers of errors among fresh rows, shape (K, m), pass the tests of all rates, (K,).

        Other parameters are as in `passes`.
        """
        if self.limit.compares:
            pairs = np.stack([errors, rows], axis=2).tolist()
            return np.array([all_pairs_pass(each, self.limit.pair, level) for each in pairs])
        errors_are_possible = ((self.wrong > 0) & ~never).any(axis=(1, 2))  # shape (m,)
        errors_are_possible |= ~self.has_strata  # the answers there are unknown
        passed = np.ones(errors.shape, dtype=bool)
        for number, share in enumerate(self.largest_shares.tolist()):
            largest_counts = each_most_reached(rows[:, number], share, level)
            passed[:, number] = (rows[:, number] > 0) & (errors[:, number] <= largest_counts)
        return np.asarray((passed | ~errors_are_possible).all(axis=1))

    def restricts(self, answer: int) -> Mask:
        """Return which rates count this answer against the limit, and no other answer, shape (m,)."""
        counts_answer = self.wrong.max(axis=1) > 0
        return counts_answer[:, answer] & (counts_answer.sum(axis=1) == 1)

    @property
    def has_strata(self) -> Mask:
        """Whether a rate has a stratum, shape (m,): a listed group without rows has none."""
        return np.asarray(self.strata.any(axis=1))

    @property
    def with_strata(self) -> LimitedFamily:
        """The rates with a stratum."""
        return replace(
            self,
            wrong=self.wrong[self.has_strata],
            among=self.among[self.has_strata],
            largest_shares=self.largest_shares[self.has_strata],
        )

    @property
    def strata(self) -> Mask:
        """Whether the rows of a stratum count in a rate, shape (m, S)."""
        return self.among.max(axis=2) > 0


def limited_names(limit: Limit, strata: Strata) -> list[Any]:
    """Return the names of the limited subgroups of a limit on values."""
    names, _, _ = limit.rate.by_subgroup(strata)
    is_limited = ~np.isnan(limit.bounds(names))
    return [name for name, limited in zip(names, is_limited, strict=True) if limited]


def all_pairs_pass(
    counts: Sequence[tuple[int, int]], pair: tuple[float, float], level: float
) -> bool:
    """Return whether the exact tests of a gap or ratio pass for all pairs of subgroups.

    ``counts`` has the counted rows and all rows of each subgroup. ``pair`` has the numbers of `Limit.pair`
    for shares of counted rows. All pairs must pass, so each is tested at the whole level.
    """
    factor, gap = pair
    return all(
        pair_passes((x1, x2), (n1, n2), level, factor=factor, gap=gap)
        for (x1, n1), (x2, n2) in permutations(counts, 2)
    )


# -- predicted power ---------------------------------------------------------------------------------------


def probits_of_counts(
    rates: Floats, n_fresh: Ints, allowed: Floats | Ints, ratio: float
) -> Floats:
    """Return the probit of the predicted probability of at most so many errors among fresh rows.

    The probit of a probability is the normal quantile at this probability.

    Parameters
    ----------
    rates : ndarray
        Shares of errors on the selection data.
    n_fresh, allowed : ndarray of the same shape
        Numbers of fresh rows, and the largest passing numbers of errors; −1 without one.
    ratio : float
        Fresh rows by selection rows: the number of errors has the noise of both.
    """
    variance = n_fresh * rates * (1.0 - rates) * (1.0 + ratio)
    spread = np.sqrt(np.maximum(variance, 1e-12))  # for rates of 0 and 1
    # With the correction for whole numbers.
    probits = (allowed + 0.5 - n_fresh * rates) / spread
    return np.where(allowed < 0, -np.inf, probits)


def probits_of_rooms(rooms: Floats, deviations: Floats, ratio: float, level: float) -> Floats:
    """Return the probit of the predicted probability of passing a normal test at a level.

    Parameters
    ----------
    rooms, deviations : ndarray
        Distances of rates from their limits on the selection data, and standard deviations there.
    ratio : float
        Fresh rows by selection rows: the fresh rates have the noise of both.
    level : float
        Of the test.
    """
    on_fresh = deviations / np.sqrt(ratio)
    of_both = np.maximum(np.hypot(deviations, on_fresh), 1e-12)
    # The test passes if the room on the fresh rows exceeds the margin −ndtri(level) on_fresh.
    return (rooms + ndtri(level) * on_fresh) / of_both


def least_probits_of_pairs(
    limit: Limit, counted: Floats, rows: Floats, ratio: float, level: float
) -> Floats:
    """Return the smallest probit of `probits_of_rooms` of all pairs of subgroups, for a gap or ratio.

    Parameters
    ----------
    limit : Limit
        The gap or ratio.
    counted, rows : ndarray of shape (..., m)
        Counted rows, and all rows, of m subgroups of the selection data.
    ratio, level : float
        As in `probits_of_rooms`.

    Returns
    -------
    ndarray of shape (...)
    """
    # One row more with half an error: no rows with an answer show nothing of a ratio.
    rates = (counted + 0.5) / (rows + 1.0)
    variances = np.maximum(rates * (1.0 - rates), 0.0) / np.maximum(rows, 1.0)
    deviations = limit.deviations(variances)
    probits = probits_of_rooms(limit.rooms(rates, rates), deviations, ratio, level)
    probits[..., ~limit.comparison.pairs(rates.shape[-1])] = np.inf
    return np.asarray(probits.min(axis=(-2, -1)))


def power_of_shares(
    shares: Floats, n: Floats, largest_share: float, ratio: float, level: float
) -> Floats:
    """Return the predicted probability of a certificate from fresh rows, for each of the shares.

    The number of fresh rows has noise too, so the result is a mean over its quantiles. Otherwise the smallest
    number with a passing test without an error would look as good as a larger one.

    Parameters
    ----------
    shares : ndarray
        Predicted shares of errors.
    n : ndarray of the same shape
        Numbers of selection rows.
    largest_share : float
        The allowed share of errors.
    ratio : float
        Fresh rows by selection rows.
    level : float
        Of the exact test.
    """
    expected_fresh = ratio * n
    spread = np.sqrt(expected_fresh * (1.0 + ratio))
    powers = []
    for probit in PROBITS:
        n_fresh = np.maximum(expected_fresh + probit * spread, 0.0).astype(np.intp)
        largest_counts = each_most_reached(n_fresh, largest_share, level)
        powers.append(ndtr(probits_of_counts(shares, n_fresh, largest_counts, ratio)))
    return np.mean(powers, axis=0)
