"""Counted rates with intervals for new rows, and limits with a margin for them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tailboost.core.array_types import Floats
from tailboost.rates import Limit, Rate, Strata, Terms
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


@dataclass(frozen=True, eq=False)
class CountedRate:
    """Rates of one rule by subgroup, shape (m,) each, with 95 % intervals for new rows.

    A rate is that of as many rows with values at the ends of its range as have the same information.
    """

    terms: Terms
    values: Floats  # the rates; NaN without rows
    rows: Floats  # effective rows behind each rate, (Σ w)² / Σ w²
    low: Floats  # ends of the interval; NaN without one
    high: Floats
    deviations: Floats  # standard errors about the rates of new rows

    @classmethod
    def from_counts(
        cls, rate: Rate, strata: Strata, counts: Floats, refit_share: float = 0.0
    ) -> CountedRate:
        """Return the rates of a rule for each of m subgroups.

        Parameters
        ----------
        rate : Rate
            The rate.
        strata : Strata
            The strata of the selection data; S is their number.
        counts : ndarray of shape (W, A)
            The confusion counts of the rule by stratum and action. A is the number of actions. W is S, or
            2 S if the rows have costs, which then follow the counts.
        refit_share : float, default=0.0
            Standard deviation of a rate under a refit, as a share of its range: 0 if the counted models
            answer. The overall error and the overall cost do not vary. The arms of Clopper–Pearson intervals
            are lengthened by it in quadrature.
        """
        terms = rate.terms(strata)
        values = terms.values(counts)
        rows = effective_rows(terms, strata, counts)
        smallest, largest = rate.range(strata)
        width = max(largest - smallest, TINY)
        spread = 0.0 if rate.by is None and rate.kind in ("error", "cost") else refit_share

        # The variance of Σ t / Σ b is the variance of the mean of t − p b, over the squared mean of b (delta
        # method). One more row has the largest possible variance: values may vary more on new rows.
        n_strata = len(strata.mass)
        share = ((np.nan_to_num(values, nan=smallest) - smallest) / width).clip(0.0, 1.0)
        mean = (smallest + width * share)[:, None, None]
        bottom = terms.bottom[:, :n_strata]
        residual = terms.top[:, :n_strata] - mean * bottom
        squares = (counts[:n_strata] * residual**2).sum(axis=(1, 2))
        among = (counts[:n_strata] * bottom).sum(axis=(1, 2))
        variance = squares / np.maximum(among, TINY) / width**2
        most = share * (1.0 - share)
        n = rows * ((rows + 1.0) * most + TINY) / (rows * variance + most + TINY)
        known = ~np.isnan(values) & (rows >= ROWS_OF_INTERVAL) & (not rate.needs_costs)
        arms = np.array(clopper_pearson_interval(share, n)) - share
        arms = np.hypot(arms, NORMAL_975 * spread)
        ends = (share + np.array([[-1.0], [1.0]]) * arms).clip(0.0, 1.0)
        low, high = np.where(known, smallest + width * ends, np.nan)
        errors = width * arms.mean(axis=0) / NORMAL_975 * ~np.isnan(values)
        return cls(terms, values, rows, low, high, OVERDISPERSION * errors)

    def compared(self, limit: Limit) -> tuple[float, float]:
        """Return the interval of a gap or ratio over all subgroups with rows; NaN if one has no interval."""
        counted = ~np.isnan(self.values)
        if counted.sum() < 2 or np.isnan(self.low[counted]).any():
            return float("nan"), float("nan")
        return limit.interval(self.low[counted], self.high[counted])


def effective_rows(terms: Terms, strata: Strata, counts: Floats) -> Floats:
    """Return the effective number of rows behind each rate, ``(Σ w)² / Σ w²``, shape (m,)."""
    n_strata = len(strata.mass)
    among = (terms.bottom[:, :n_strata] * counts[:n_strata]).sum(axis=2)
    of_one_row = strata.mass / np.maximum(strata.size, TINY)  # the mass of one effective row
    return np.asarray(among.sum(axis=1) ** 2 / np.maximum(among @ of_one_row, TINY))


def tightened(
    limit: Limit, strata: Strata, counts: Floats, spread: float, n_errors: float
) -> Limit:
    """Return a limit tightened by ``n_errors`` standard errors of the rates of a rule's counts (W, A).

    A refit shifts all subgroups alike, so compared rates have no such noise.
    """
    counted = CountedRate.from_counts(
        limit.rate, strata, counts, 0.0 if limit.compares else spread
    )
    names = counted.terms.names
    errors = counted.deviations
    if limit.compares:
        names = [limit.form]
        of_pairs = limit.deviations(errors**2)
        np.fill_diagonal(of_pairs, 0.0)
        unit = np.fmax.reduce(counted.values) if limit.form == RATIO else 1.0
        errors = of_pairs.max(keepdims=True)[0] / max(unit, TINY)
    return limit.tightened(names, n_errors * errors)
