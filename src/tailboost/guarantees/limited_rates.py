"""Limited rates as shares of rows that count against a limit, and the predicted power of their tests."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import ndtr, ndtri

from tailboost.core.array_types import Floats, Ints, Mask
from tailboost.rates import Limit, Strata
from tailboost.rates.bounds import each_most_reached
from tailboost.rates.pair_test import pair_passes

# Probits of five quantiles with equal parts of a normal distribution.
PROBITS = ndtri(np.arange(0.1, 1.0, 0.2)).tolist()


@dataclass(frozen=True, eq=False)
class LimitedFamily:
    """The limited rates of a family, as shares of rows that count against the limit.

    Attributes
    ----------
    limit : Limit
        The limit.
    wrong, among : ndarray of shape (m, S, 3)
        1 for strata and answers that count against the limit, and in the denominator.
    largest_shares : ndarray of shape (m,)
        The allowed ones; of a gap or ratio, which compares the shares, NaN.
    """

    limit: Limit
    wrong: Floats
    among: Floats
    largest_shares: Floats

    @classmethod
    def from_limit(cls, limit: Limit, strata: Strata) -> LimitedFamily | None:
        """Return the limited rates of all subgroups; None if rows count in part."""
        if limit.rate.needs_costs:
            return None
        names, counted, among = limit.rate.by_subgroup(strata)
        if not {*np.unique(counted), *np.unique(among)} <= {0.0, 1.0}:
            return None
        without_deferral = ((0, 0), (0, 0), (0, 3 - strata.n_actions))
        counted = np.pad(counted, without_deferral)
        among = np.pad(among, without_deferral)
        if limit.compares:
            return cls(limit, counted, among, np.full(len(names), np.nan))
        bounds = limit.bounds(names)
        is_limited = ~np.isnan(bounds)
        if limit.from_above:
            return cls(limit, counted[is_limited], among[is_limited], bounds[is_limited])
        wrong = among - counted
        return cls(limit, wrong[is_limited], among[is_limited], 1.0 - bounds[is_limited])

    def counts(self, answered: Floats) -> tuple[Floats, Floats]:
        """Return errors and rows of each rate, (K, m) each, from weights by stratum and answer, (K, S, 3)."""
        errors, rows = (
            np.tensordot(answered, table, axes=((1, 2), (1, 2)))
            for table in (self.wrong, self.among)
        )
        return errors, rows

    def passes(self, counts: Floats, never: Mask, level: float) -> bool:
        """Return whether counts of fresh rows pass the tests of all rates.

        Parameters
        ----------
        counts : ndarray of shape (S, 3)
            Numbers of rows by stratum and answer.
        never : ndarray of bool, shape (S, 3)
            Whether no row of the stratum can get the answer.
        level : float
            Of each test. All must pass, so none needs a correction.
        """
        errors, rows = (numbers[0].astype(np.intp) for numbers in self.counts(counts[None]))
        if self.limit.compares:
            factor, gap = self.limit.pair
            return all(
                pair_passes(
                    (int(errors[i]), int(errors[j])),
                    (int(rows[i]), int(rows[j])),
                    level,
                    factor=factor,
                    gap=gap,
                )
                for i, j in zip(*np.nonzero(~np.eye(len(rows), dtype=bool)), strict=True)
            )
        kept_by_construction = ~((self.wrong > 0) & ~never).any(axis=(1, 2))
        largest_counts = [
            each_most_reached(rows[[j]], share, level)[0]
            for j, share in enumerate(self.largest_shares.tolist())
        ]
        passed = (rows > 0) & (errors <= np.array(largest_counts))
        return bool((kept_by_construction | passed).all())

    def restricts(self, answer: int) -> Mask:
        """Return which rates count this answer alone against the limit, shape (m,)."""
        counts_answer = self.wrong.max(axis=1) > 0
        counts_it_alone: Mask = counts_answer[:, answer] & (counts_answer.sum(axis=1) == 1)
        return counts_it_alone

    @property
    def strata(self) -> Mask:
        """Whether the rows of a stratum count in a rate, shape (m, S)."""
        counts: Mask = self.among.max(axis=2) > 0
        return counts


# -- predicted power ---------------------------------------------------------------------------------------


def probits_of_counts(
    rates: Floats, n_fresh: Ints, allowed: Floats | Ints, ratio: float
) -> Floats:
    """Return the probit of the predicted probability of at most so many errors among fresh rows.

    Parameters
    ----------
    rates : ndarray
        Shares of errors on the selection data.
    n_fresh, allowed : ndarray of the same shape
        Numbers of fresh rows, and of errors that pass; −1 if none does.
    ratio : float
        Fresh rows by selection rows: both have noise.
    """
    spread = np.sqrt(np.maximum(n_fresh * rates * (1.0 - rates) * (1.0 + ratio), 1e-12))
    return np.where(allowed < 0, -np.inf, (allowed + 0.5 - n_fresh * rates) / spread)


def probits_of_rooms(rooms: Floats, deviations: Floats, ratio: float, level: float) -> Floats:
    """Return the probit of the predicted probability that a normal test at a level passes.

    Parameters
    ----------
    rooms, deviations : ndarray
        Distances of rates from their limits on the selection data, and standard deviations there.
    ratio : float
        Fresh rows by selection rows: both have noise.
    level : float
        Of the test.
    """
    on_fresh = deviations / np.sqrt(ratio)
    of_both = np.maximum(np.hypot(deviations, on_fresh), 1e-12)
    probits: Floats = (rooms + ndtri(level) * on_fresh) / of_both
    return probits


def power_of_counts(
    errors: Floats, n: Floats, largest_share: float, ratio: float, level: float
) -> Floats:
    """Return the predicted probability of a certificate from fresh rows, for counts of errors among n rows.

    The other arguments are those of `power_of_shares`.
    """
    return power_of_shares((errors + 0.5) / (n + 1.0), n, largest_share, ratio, level)


def power_of_shares(
    shares: Floats, n: Floats, largest_share: float, ratio: float, level: float
) -> Floats:
    """Return the predicted probability of a certificate from fresh rows, for each of the shares.

    The number of fresh rows has noise too, so the result is a mean over its quantiles. Otherwise the smallest
    number that can pass without an error would look as good as a larger one.

    Parameters
    ----------
    shares : ndarray
        Predicted shares of errors.
    n : ndarray of the same shape
        Numbers of selection rows.
    largest_share : float
        The share of errors that the limit allows.
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
    power: Floats = np.mean(powers, axis=0)
    return power
