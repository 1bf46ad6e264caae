"""Counted rates with intervals for new rows, and about the probability of keeping limits there."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy.special import ndtr

from tailboost.core.array_types import Floats, Mask
from tailboost.core.spelling import how_many, joined
from tailboost.rates import ROUNDING, Limit, Rate, Strata, Terms
from tailboost.rates.bounds import clopper_pearson_interval, rows_for_no_error
from tailboost.rates.rate import GAP, RATIO
from tailboost.rows.subgroups import unit_name

# Standard deviation between the rates of a subgroup under models of folds and under their refit, as a share
# of the range of the rate. On 33 tables (benchmarks/quality.py) .94 of the class errors on test rows were
# inside with .015, .86 with 0 and .96 with .02, at widths of .11, .09 and .12; .017 of the errors were above.
REFIT = 0.015
# 95 % of a normal distribution lie within this many standard deviations.
NORMAL_975 = 1.959963984540054
# Rates of fewer effective rows have no interval. At 10 rows its width is .6 of the range.
ROWS_OF_INTERVAL = 10
# Variance of rates on new rows about the counted ones, in binomial variances: 1 is the noise of the counts,
# .25 the selection on the same rows.
OVERDISPERSION = 1.25
# For a gap and a ratio, a share of little noise, and the variance as one row measures it, of its logarithm
# for a ratio. A bound is reported as below its noise only if it is so for such shares.
CALM = {GAP: (0.1, 0.1 * 0.9), RATIO: (0.5, 0.5 / 0.5)}
# Probability of a false certificate of one limit.
LEVEL = 0.05
# The most subgroups named in a sentence.
SUBGROUPS_NAMED = 4


def quotient(top: Floats, bottom: Floats, otherwise: float = 0.0) -> Floats:
    """Return ``top / bottom``; ``otherwise`` for denominators of 0 or less."""
    positive = bottom > 0
    return np.where(positive, top / np.where(positive, bottom, 1.0), otherwise)


def effective_rows(terms: Terms, strata: Strata, counts: Floats) -> Floats:
    """Return the effective number of rows behind each rate, ``(Σ w)² / Σ w²``, shape (m,)."""
    n_strata = len(strata.mass)
    among = (terms.bottom[:, :n_strata] * counts[:n_strata]).sum(axis=2)
    of_one_row = quotient(
        strata.mass, strata.size
    )  # the mass of one effective row of each stratum
    return quotient(among.sum(axis=1) ** 2, among @ of_one_row)


def refit_spread(rate: Rate, strata: Strata, spread: float) -> float:
    """Return the standard deviation of a rate under a refit, ``spread`` as a share of its range.

    With no more than the usual spread, the overall error and the overall cost do not vary.
    """
    if rate.by is None and rate.kind in ("error", "cost") and spread <= REFIT:
        return 0.0
    smallest, largest = rate.range(strata)
    return spread * (largest - smallest)


@dataclass(frozen=True, eq=False)
class CountedRate:
    """Rates of one rule by subgroup, with 95 % intervals for new rows."""

    terms: Terms
    values: Floats  # shape (m,): the rates; NaN without rows
    rows: Floats  # shape (m,): effective rows behind each rate
    binomial_rows: Floats  # shape (m,): see `_binomial_rows`
    range: tuple[float, float]  # of the values
    spread: float  # standard deviation under a refit
    decided: Mask  # shape (m,): see `_decided`
    known: Mask  # shape (m,): which rates have an interval

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
            answer, NaN if unknown.
        """
        terms = rate.terms(strata)
        values = terms.values(counts)
        rows = effective_rows(terms, strata, counts)
        decided = _decided(terms, strata, counts)
        known = ~np.isnan(values + refit_share) & (rows >= ROWS_OF_INTERVAL) & ~decided
        return cls(
            terms,
            values,
            rows,
            binomial_rows=_binomial_rows(rate, strata, counts, values, rows),
            range=rate.range(strata),
            spread=refit_spread(rate, strata, refit_share),
            decided=decided,
            known=known & (not rate.needs_costs),
        )

    @property
    def deviations(self) -> Floats:
        """The standard error of each rate about that of new rows, without a refit, shape (m,).

        The variance is 1.25 binomial ones with one more row at each end of the range: above 0 for rates
        without an error, and large for rates without rows. A rate that no row can change does not vary.
        """
        smallest, largest = self.range
        n = np.maximum(self.binomial_rows, 1e-9)  # no division by 0
        share = (self.values - smallest) / (largest - smallest)
        p = (n * share + 1.0) / (n + 2.0)
        deviations = (largest - smallest) * np.sqrt(OVERDISPERSION * p * (1.0 - p) / n)
        return np.where(np.isnan(self.values) | self.decided, 0.0, deviations)

    def ends(self, confidence: float = 0.95) -> Floats:
        """Return the ends of the intervals, shape (2, m), each with the confidence; NaN without an interval.

        The arms of Clopper–Pearson intervals are lengthened in quadrature by the spread of a refit.
        """
        smallest, largest = self.range
        width = max(largest - smallest, 1e-300)
        ends = np.full((2, len(self.values)), np.nan)
        share = ((self.values[self.known] - smallest) / width).clip(0.0, 1.0)
        interval = clopper_pearson_interval(share, self.binomial_rows[self.known], confidence)
        arms = np.hypot(np.array(interval) - share, NORMAL_975 * self.spread / width)
        ends[:, self.known] = (share + [[-1.0], [1.0]] * arms).clip(0.0, 1.0)
        return smallest + width * ends

    def compared(self, limit: Limit) -> tuple[float, float]:
        """Return the interval of a gap or ratio over all pairs of subgroups; NaN if a subgroup has none.

        The arms of two rates are added in quadrature, for a ratio on the log scale [1]_. The upper end of a
        gap is the highest of all pairs, which include the pair of the true gap. The lower end is the highest
        of all pairs at the level of Bonferroni, because all intervals have to hold.

        References
        ----------
        .. [1] G. Y. Zou and A. Donner, "Construction of confidence limits about effect measures: a general
           approach", Statistics in Medicine 27, 2008.
        """
        counted = ~np.isnan(self.values)
        n_rates = counted.sum()
        if n_rates < 2 or (counted & ~self.known).any():
            return float("nan"), float("nan")
        level_of_all_pairs = 1.0 - 0.05 / (n_rates * (n_rates - 1) / 2)  # Bonferroni
        numbers = np.array([self.values, *self.ends(), *self.ends(level_of_all_pairs)])
        numbers = numbers[:, counted]
        is_ratio = limit.form == RATIO
        if is_ratio:
            numbers = np.log(np.maximum(numbers, 1e-300))
        rate, low, high, lowest, highest = numbers

        # Entry (i, j) of each matrix is about rate i less rate j.
        differences = rate[:, None] - rate
        upper_arms = np.hypot((high - rate)[:, None], rate - low)
        lower_arms = np.hypot((rate - lowest)[:, None], highest - rate)
        lower = max(0.0, float((differences - lower_arms).max()))
        upper = float((differences + upper_arms)[~np.eye(n_rates, dtype=bool)].max())
        if is_ratio:
            return float(np.exp(-upper)), float(np.exp(-lower))
        return lower, min(upper, self.range[1] - self.range[0])


def _binomial_rows(
    rate: Rate, strata: Strata, counts: Floats, values: Floats, rows: Floats
) -> Floats:
    """Return, for each rate, the number of binomial rows with the same information, shape (m,).

    The value of a binomial row is one end of the range. No other rows with the same mean have a larger
    variance. So n rows equal n · largest_variance / variance binomial rows.

    Parameters
    ----------
    rate, strata, counts
        As in `CountedRate.from_counts`.
    values, rows : ndarray of shape (m,)
        The rates and their effective numbers of rows.
    """
    if rate.is_share or rate.needs_costs:
        # The rows of a share are binomial. Costs by row get no interval, as their range is not known.
        return rows
    smallest, largest = rate.range(strata)
    means = np.nan_to_num(values, nan=smallest)
    largest_variance = (means - smallest) * (largest - means)

    # The variance of Σ t / Σ b is the variance of the mean of t − p b, over the squared mean of b (delta
    # method). `effective_rows` counts a row with denominator b as b rows.
    terms = rate.terms(strata)
    n_strata = len(strata.mass)
    counts = counts[:n_strata]
    top = terms.top[:, :n_strata]
    bottom = terms.bottom[:, :n_strata]
    squares = (counts * (top - means[:, None, None] * bottom) ** 2).sum(axis=(1, 2))
    variance = quotient(squares, (counts * bottom).sum(axis=(1, 2)))
    if not rate.is_fraction:
        # One more row has the largest possible variance: costs may vary more on new rows.
        variance = (rows * variance + largest_variance) / (rows + 1.0)
    return rows * quotient(largest_variance, variance, otherwise=1.0)


def _decided(terms: Terms, strata: Strata, counts: Floats) -> Mask:
    """Return a mask of the rates without influence of new rows, shape (m,).

    With the rule's few actions, each counted row has the same value: if every row is accepted, the rate of
    accepted rows is 1.
    """
    n_strata = len(strata.mass)
    # The strata with rows, and the actions that the rule gives to any row.
    occupied = (counts[:n_strata].sum(axis=0) > 0) & (strata.mass > 0)[:, None]
    counts_in_rate = (terms.bottom[:, :n_strata] > 0) & occupied
    top = terms.top[:, :n_strata]
    largest = top.max(axis=(1, 2), where=counts_in_rate, initial=-np.inf)
    return largest == top.min(axis=(1, 2), where=counts_in_rate, initial=np.inf)


# -- the probability of the limits -----------------------------------------------------------------------


def probability_kept(
    limits: Sequence[Limit], strata: Strata, counts: Floats, spread: float
) -> float | None:
    """Return about the probability that a rule keeps all limits on new rows; None if it is unknown.

    Each limited rate is normal about the counted one, with the standard error of `tightened`, and the
    probabilities are multiplied: rates of the same rows are broken together, so the product is too small. It
    is unknown for rates whose rows or costs depend on the answers, and under a refit of unknown spread.
    """
    kept = 1.0
    for limit in limits:
        counted = CountedRate.from_counts(limit.rate, strata, counts, spread)
        if not counted.terms.of_answers or limit.rate.needs_costs or np.isnan(spread):
            return None
        values = counted.values
        if limit.compares:
            rooms = limit.rooms(values, values)[~np.eye(len(values), dtype=bool)]
        else:
            rooms = limit.sign * (limit.bounds(counted.terms.names) - values)
        deviations = np.maximum(_deviations(limit, counted), 1e-300)
        kept *= float(np.nanprod(ndtr((rooms + ROUNDING) / deviations)))
    return kept


def _deviations(limit: Limit, counted: CountedRate) -> Floats:
    """Return the standard errors of the rates of a limit, or of the differences of pairs of them.

    A refit shifts all subgroups alike, so a gap or ratio gets no such noise.
    """
    if limit.compares:
        pairs = limit.deviations(counted.deviations**2)
        return pairs[~np.eye(len(pairs), dtype=bool)]
    return np.hypot(counted.deviations, counted.spread)


def tightened(
    limit: Limit, strata: Strata, counts: Floats, spread: float, n_errors: float
) -> Limit:
    """Return a limit with bounds tightened by ``n_errors`` standard errors of its rates.

    ``counts`` are the confusion counts of a rule, shape (W, A), for the W strata and A answers.
    """
    counted = CountedRate.from_counts(limit.rate, strata, counts, spread)
    margins = n_errors * _deviations(limit, counted)
    if limit.compares:
        return replace(limit, margin=float(margins.max()))
    return limit.tightened(dict(zip(counted.terms.names, margins.tolist(), strict=True)))


# -- limits below their noise ---------------------------------------------------------------------------


def below_noise(limit: Limit, strata: Strata) -> str | None:
    """Return why so few rows cannot show that a limit holds, for a warning; None if they can.

    The check needs no predictions. It assumes no error in subgroups, or the least possible noise for the
    smallest two subgroups of a gap or ratio.
    """
    if limit.rate.is_ratio or not limit.rate.is_fraction:
        return None  # their rows or their range depend on the predictions
    terms = limit.rate.terms(strata)
    of_first_action = strata.mass[:, None] * (np.arange(strata.n_actions) == 0)
    sizes = effective_rows(terms, strata, of_first_action)
    subgroups = ["the whole" if name is None else unit_name(name) for name in terms.names]
    bounds = np.zeros(len(sizes)) if limit.compares else limit.bounds(terms.names)
    empty = [subgroups[i] for i in np.flatnonzero((sizes <= 0) & ~np.isnan(bounds))]
    if empty:
        names = joined(empty, SUBGROUPS_NAMED)
        return (
            f"{limit}: {names} has no {limit.rate.counted_rows}, so that nothing is known of it"
        )
    ascending = np.argsort(sizes, kind="stable")
    counted = [
        f"{name} has {how_many(round(n), 'row')}"
        for name, n in zip(subgroups, sizes, strict=True)
    ]
    if limit.compares:
        if len(sizes) < 2:
            return f"{limit}: only one subgroup has rows, so there is nothing to compare"
        assumed, variance = CALM[limit.form]
        first, second = ascending[:2]
        noise = NORMAL_975 * np.sqrt(variance * (1 / sizes[first] + 1 / sizes[second]))
        if noise <= abs(limit.bound - (0.0 if limit.form == GAP else 1.0)):
            return None
        return (
            f"{limit}: {counted[first]} and {counted[second]}, between which the {limit.form} is "
            f"not known to better than ± {noise:.2g} (95 %, if the rates are {assumed:g}); on "
            "fresh rows it may well be broken"
        )
    few = []
    for i in ascending:
        allowed = float(limit.against(bounds[i]))
        if 0.0 < allowed < 1.0:
            needed = rows_for_no_error(allowed, LEVEL)
            if 0 < round(sizes[i], 6) < needed:
                few.append(f"{counted[i]} and needs {needed:,}")
    if not few:
        return None
    return (
        f"{limit}: {joined(few, SUBGROUPS_NAMED)}; with fewer no test certifies the limit (95 "
        f"%), even at an estimate of {limit.against(0):g}"
    )
