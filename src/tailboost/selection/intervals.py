"""Counted rates with intervals for new rows, and limits with a margin for them."""

from __future__ import annotations

import numpy as np

from tailboost.core.array_types import Floats
from tailboost.rates import Limit, Rate, Strata
from tailboost.rates.bounds import clopper_pearson_interval
from tailboost.rates.rate import RATIO

# Standard deviation between the rates of a subgroup under models of folds and under their refit, as a share
# of the range of the rate. On 33 tables (benchmarks/quality.py) .94 of the class errors on test rows were
# inside with .015, .86 with 0 and .96 with .02, at widths of .11, .09 and .12; .017 of the errors were above.
REFIT = 0.015
# 95 % of a normal distribution lie within this many standard deviations.
NORMAL_975 = 1.959963984540054
# Rates of fewer effective rows have no interval. At 10 rows its width is .6 of the range.
ROWS_OF_INTERVAL = 10
# Standard error of rates on new rows about the counted ones, in those of the interval: a variance of 1 is the
# noise of the counts, .25 the selection on the same rows.
OVERDISPERSION = np.sqrt(1.25)
# The most subgroups named in a sentence.
SUBGROUPS_NAMED = 4
TINY = 1e-300


class CountedRate:
    """Rates of one rule by subgroup, shape (m,) each, with 95 % intervals for new rows.

    A rate is that of as many rows with values at the ends of its range as have the same information.

    Parameters
    ----------
    rate : Rate
        The rate.
    strata : Strata
        The strata of the selection data; S is their number.
    counts : ndarray of shape (W, A)
        The confusion counts of the rule by stratum and action. A is the number of actions. W is S, or 2 S if
        the rows have costs, which then follow the counts.
    refit_share : float, default=0.0
        Standard deviation of a rate under a refit, as a share of its range: 0 if the counted models answer.
        The overall error and the overall cost do not vary. The arms of Clopper–Pearson intervals are
        lengthened by it in quadrature.

    Attributes
    ----------
    terms : Terms
        The counts of the rate.
    values : ndarray of shape (m,)
        The rates; NaN without rows.
    rows : ndarray of shape (m,)
        Effective rows behind each rate, (Σ w)² / Σ w².
    low, high : ndarray of shape (m,)
        Ends of the interval; NaN without one.
    deviations : ndarray of shape (m,)
        Standard errors about the rates of new rows.
    """

    def __init__(
        self, rate: Rate, strata: Strata, counts: Floats, refit_share: float = 0.0
    ) -> None:
        n_strata = len(strata.mass)
        self.terms = rate.terms(strata)
        self.values = self.terms.values(counts)
        smallest, largest = rate.range(strata)
        width = max(largest - smallest, TINY)
        spread = 0.0 if rate.by is None and rate.kind in ("error", "cost") else refit_share
        bottom = self.terms.bottom[:, :n_strata]
        among = (counts[:n_strata] * bottom).sum(axis=2)  # (m, S)
        of_one_row = strata.mass / np.maximum(
            strata.size, TINY
        )  # the mass of one effective row
        total = among.sum(axis=1)
        self.rows: Floats = total**2 / np.maximum(among @ of_one_row, TINY)

        # The variance of Σ t / Σ b is the variance of the mean of t − p b, over the squared mean of b (delta
        # method). One more row has the largest possible variance: values may vary more on new rows.
        share = ((np.nan_to_num(self.values, nan=smallest) - smallest) / width).clip(0.0, 1.0)
        mean = (smallest + width * share)[:, None, None]
        residual = self.terms.top[:, :n_strata] - mean * bottom
        squares = (counts[:n_strata] * residual**2).sum(axis=(1, 2))
        variance = squares / np.maximum(total, TINY) / width**2
        most = share * (1.0 - share)
        n = self.rows * ((self.rows + 1.0) * most + TINY) / (self.rows * variance + most + TINY)
        arms = np.array(clopper_pearson_interval(share, n)) - share
        arms = np.hypot(arms, NORMAL_975 * spread)
        ends = (share + np.array([[-1.0], [1.0]]) * arms).clip(0.0, 1.0)
        known = ~np.isnan(self.values)
        shown = known & (self.rows >= ROWS_OF_INTERVAL) & (not rate.needs_costs)
        self.low, self.high = np.where(shown, smallest + width * ends, np.nan)
        errors = width * arms.mean(axis=0) / NORMAL_975 * known
        self.deviations: Floats = OVERDISPERSION * errors

    def compared(self, limit: Limit) -> tuple[float, float]:
        """Return the interval of a gap or ratio over all subgroups; NaN if one has no interval."""
        if np.isnan(self.low).any():
            return np.nan, np.nan
        return limit.interval(self.low, self.high)


def tightened(
    limit: Limit, strata: Strata, counts: Floats, spread: float, n_errors: float
) -> Limit:
    """Return a limit tightened by ``n_errors`` standard errors of the rates of a rule's counts (W, A).

    A refit shifts all subgroups alike, so compared rates have no such noise.
    """
    counted = CountedRate(limit.rate, strata, counts, spread * (not limit.compares))
    names = counted.terms.names
    errors = counted.deviations
    if limit.compares:
        names = [limit.form]
        of_pairs = limit.deviations(errors**2)
        np.fill_diagonal(of_pairs, 0.0)
        unit = np.fmax.reduce(counted.values) if limit.form == RATIO else 1.0
        errors = of_pairs.max(keepdims=True)[0] / max(unit, TINY)
    return limit.tightened(names, n_errors * errors)
