"""Exact unconditional test of two error rates: whether one, times a factor, is too far above the other.

The hypothesis is ``a p₁ − p₂ ≥ c``: a = 1 and c the largest allowed gap, or a the smallest allowed ratio
and c = 0. Pairs of counts are ordered by the statistic of Farrington and Manning [1]_. Its region of small
values is enlarged until it is monotone (fewer errors of the first group or more of the second stay inside,
[2]_). Then its largest probability under the hypothesis is on the boundary ``a p₁ − p₂ = c``, a curve in
one nuisance parameter. The p-value is the largest probability over an interval that contains the parameter
with a confidence of 1 − γ, plus γ ([3]_). The normal approximation
alone can exceed the level.

References
----------
.. [1] C. P. Farrington and G. Manning, "Test statistics and sample size formulae for comparative binomial
   trials with null hypothesis of non-zero risk difference or non-unity relative risk", Statistics in
   Medicine 9, 1990.
.. [2] G. A. Barnard, "Significance tests for 2 × 2 tables", Biometrika 34, 1947.
.. [3] R. L. Berger and D. D. Boos, "P values maximized over a confidence set for the nuisance parameter",
   JASA 89, 1994.
"""

from __future__ import annotations

import numpy as np
from scipy.special import betaincinv, gammaln, ndtr, xlog1py, xlogy

from tailboost.core.array_types import Floats, Ints
from tailboost.rates.bounds import last_inside

# Probability of a nuisance parameter outside its interval.
NUISANCE = 1e-3
# Values of the nuisance parameter, and the factor for the values between them: for 150 random pairs of 10
# to 3,000 rows, 1,001 values had probabilities at most 1.0002 times as large.
GRID = 49
BETWEEN = 1.002
# Counts are summed within so many standard deviations (and 8 counts); the others have a probability below
# REST.
DEVIATIONS = 6.0
REST = 1e-8
# No exact p-value is computed if the normal approximation is above this number and above the level of a test:
# then the p-value certifies nothing.
FAR = 0.15
# The most pairs of counts in a search for a passing pair, those at once, and the most tested ones.
MOST_COUNTS = 20_000_000
COUNTS_AT_ONCE = 500_000
MOST_TESTED = 200


def pair_p_value(
    errors: tuple[int, int],
    rows: tuple[int, int],
    *,
    factor: float = 1.0,
    gap: float = 0.0,
    gamma: float = NUISANCE,
    far: float = FAR,
) -> float:
    """Return the p-value of the hypothesis ``factor p₁ − p₂ ≥ gap`` for two independent binomial counts.

    Parameters
    ----------
    errors, rows : (int, int)
        Counts and numbers of rows of the first and the second group.
    factor : float > 0, default=1
        a: 1 for a gap; for a ratio the smallest allowed one, with the larger rate first.
    gap : float ≥ 0, default=0
        c: the largest allowed difference.
    gamma : float in (0, 1), default=0.001
        γ, which every p-value exceeds: much smaller than the level, and fixed before the counts are seen.
    far : float in (0, 1), default=0.15
        The largest level for which the result is exact: above it the result is the normal approximation.

    Returns
    -------
    float
        At most α with a probability of at most α under the hypothesis, for α ≤ ``far``; 1 without rows.

    Examples
    --------
    >>> from tailboost.rates.pair_test import pair_p_value
    >>> [round(pair_p_value((100, 100), (1000, 1000), gap=gap), 3) for gap in (0.02, 0.03)]
    [0.07, 0.014]
    """
    x1, x2 = errors
    n1, n2 = rows
    if min(n1, n2) < 1:
        return 1.0
    largest_p2 = factor - gap  # under the hypothesis, because p₁ is at most 1
    if largest_p2 <= 0.0:  # no rates satisfy the hypothesis
        return 0.0
    observed = float(_statistic(np.array([x1]), n1, np.array([x2]), n2, factor, gap)[0])
    normal = float(ndtr(observed))
    if normal > far:  # no test at a level of at most `far` passes
        return normal
    low, high = _interval_of_rate(x2, n2, gamma)
    if low > largest_p2:  # the hypothesis is wrong with a confidence of 1 − γ
        return gamma
    p2 = np.linspace(low, min(high, largest_p2), GRID)
    p1 = np.minimum((gap + p2) / factor, 1.0)  # on the boundary
    second_counts, second_probabilities = _probabilities(n2, p2)
    first_counts, first_probabilities = _probabilities(n1, p1)
    # By second count, the largest first count in the region, or −1. 1e-12 is for rounding, so that the
    # observed counts are among them.
    largest = last_inside(
        lambda first: _statistic(first, n1, second_counts, n2, factor, gap) <= observed + 1e-12,
        np.full(len(second_counts), -1),
        np.full(len(second_counts), n1),
    )
    largest = np.maximum.accumulate(largest)  # the region becomes monotone
    contains_observed = second_counts >= x2
    largest[contains_observed] = np.maximum(largest[contains_observed], x1)
    # The probability of at most `largest` errors of the first group, by p₁ and by second count.
    no_errors = np.zeros((GRID, 1))
    cumulated = np.hstack([no_errors, first_probabilities.cumsum(axis=1)])
    n_counts_up_to_largest = np.clip(largest - first_counts[0] + 1, 0, len(first_counts))
    in_region = (second_probabilities * cumulated[:, n_counts_up_to_largest]).sum(axis=1)
    # The largest probability may be between values of p₂, counts that were left out may be in the region,
    # and p₂ may be outside of its interval.
    return min(1.0, float(in_region.max()) * BETWEEN + REST + gamma)


def _interval_of_rate(errors: int, n_rows: int, gamma: float) -> tuple[float, float]:
    """Return the exact interval of a rate with a confidence of 1 − γ (Clopper and Pearson).

    Parameters
    ----------
    errors, n_rows : int
        The count behind the rate.
    gamma : float in (0, 1)
        Probability γ that the interval misses the rate.
    """
    low = 0.0
    if errors > 0:
        low = float(betaincinv(errors, n_rows - errors + 1, gamma / 2))
    high = 1.0
    if errors < n_rows:
        high = float(betaincinv(errors + 1, n_rows - errors, 1 - gamma / 2))
    return low, high


def pair_passes(
    errors: tuple[int, int],
    rows: tuple[int, int],
    level: float,
    *,
    factor: float = 1.0,
    gap: float = 0.0,
) -> bool:
    """Return whether the p-value is at most a level; γ is at most a twentieth of the level.

    Parameters
    ----------
    errors, rows, factor, gap
        As in `pair_p_value`.
    level : float in (0, 1)
        The level, fixed before the counts are seen.
    """
    gamma = min(NUISANCE, level / 20)
    far = max(FAR, level)  # exact up to the level
    p_value = pair_p_value(errors, rows, factor=factor, gap=gap, gamma=gamma, far=far)
    return p_value <= level


def some_counts_pass(
    rows: tuple[int, int], level: float, *, factor: float = 1.0, gap: float
) -> bool:
    """Return whether some counts of errors may pass the tests of both orders; True if a search would be long.

    If the result is False, no counts of so few rows can pass. No errors, or errors alone, are tested first:
    mostly they pass. A normal approximation above `FAR` fails the test by its definition, and the exact test
    decides about the counts nearest to equal rates.

    Parameters
    ----------
    rows, level, factor, gap
        As in `pair_passes`.
    """

    def pass_both_orders(first: int, second: int) -> bool:
        return pair_passes(
            (first, second), rows, level, factor=factor, gap=gap
        ) and pair_passes((second, first), rows[::-1], level, factor=factor, gap=gap)

    n1, n2 = rows
    if pass_both_orders(0, 0) or pass_both_orders(n1, n2):
        return True
    if n1 * n2 > MOST_COUNTS:
        return True
    first_counts, second_counts, statistics = [], [], []
    parts = np.array_split(np.arange(n1 + 1), n1 * n2 // COUNTS_AT_ONCE + 1)
    for part in parts:
        first, second = (counts.ravel() for counts in np.meshgrid(part, np.arange(n2 + 1)))
        largest = np.maximum(
            _statistic(first, n1, second, n2, factor, gap),
            _statistic(second, n2, first, n1, factor, gap),
        )
        is_possible = ndtr(largest) <= max(FAR, level)
        first_counts.append(first[is_possible])
        second_counts.append(second[is_possible])
        statistics.append(largest[is_possible])
    first = np.concatenate(first_counts)
    second = np.concatenate(second_counts)
    likeliest_first = np.argsort(np.concatenate(statistics), kind="stable")
    for number in likeliest_first[:MOST_TESTED].tolist():
        if pass_both_orders(int(first[number]), int(second[number])):
            return True
    return len(first) > MOST_TESTED


def _probabilities(n: int, p: Floats) -> tuple[Ints, Floats]:
    """Return the likely binomial counts of n rows for some rate in p, shape (k,), and their probabilities.

    The probabilities have a row for each of m rates and a column for each count, shape (m, k).
    """
    width = DEVIATIONS * np.sqrt(n * p * (1.0 - p)) + 8.0
    smallest = int(max(0.0, (n * p - width).min()))
    largest = int(min(float(n), (n * p + width).max()))
    counts = np.arange(smallest, largest + 1)
    with np.errstate(divide="ignore", invalid="ignore"):
        log_choices = gammaln(n + 1.0) - gammaln(counts + 1.0) - gammaln(n - counts + 1.0)
        logs = log_choices + xlogy(counts, p[:, None]) + xlog1py(n - counts, -p[:, None])
    return counts, np.exp(logs)


def _statistic(x1: Ints, n1: int, x2: Ints, n2: int, a: float, c: float) -> Floats:
    """Return the distance of counts from the hypothesis in standard errors, negative outside of it.

    The distance is ``a x₁/n₁ − x₂/n₂ − c`` over its standard error at a point near the counts on the boundary
    of the hypothesis ``a p₁ − p₂ ≥ c``.
    """
    p2 = np.clip((x1 + x2 - n1 * c / a) / (n1 / a + n2), max(0.0, -c), min(1.0, a - c))
    p1 = (c + p2) / a
    variance = a * a * p1 * (1.0 - p1) / n1 + p2 * (1.0 - p2) / n2
    standard_error = np.sqrt(np.maximum(variance, 1e-12))  # rates of 0 and 1 have none
    return (a * x1 / n1 - x2 / n2 - c) / standard_error
