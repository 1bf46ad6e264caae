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

from typing import Any

import numpy as np
from scipy.special import ndtr
from scipy.stats import binom

from tailboost.core.array_types import Floats
from tailboost.rates.bounds import clopper_pearson_interval

# The most probable a nuisance parameter outside its interval may be.
NUISANCE = 1e-3
# Values of the nuisance parameter, and the factor for the values between them: for 150 random pairs of 10
# to 3,000 rows, 1,001 values had probabilities at most 1.0002 times as large.
GRID = 49
BETWEEN = 1.002
# Counts of the second group are summed within so many standard deviations (and 8 counts); the others have
# a probability below REST.
DEVIATIONS = 6.0
REST = 1e-8
# No exact p-value is computed if the normal approximation is above this number and above the level of a test:
# then the p-value certifies nothing.
FAR = 0.15


def pair_p_value(
    errors: tuple[int, int],
    rows: tuple[int, int],
    *,
    factor: float = 1.0,
    gap: float = 0.0,
    level: float = 0.05,
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
    level : float in (0, 1), default=0.05
        A level, fixed before the counts are seen. γ is at most a twentieth of it, and the result is exact up
        to it.

    Returns
    -------
    float
        At most α with a probability of at most α under the hypothesis, for α ≤ .15; 1 without rows.

    Examples
    --------
    >>> from tailboost.rates.pair_test import pair_p_value
    >>> [round(pair_p_value((100, 100), (1000, 1000), gap=gap), 3) for gap in (0.02, 0.03)]
    [0.07, 0.014]
    """
    x1, x2 = errors
    n1, n2 = rows
    if min(rows) < 1:
        return 1.0
    largest_p2 = factor - gap  # under the hypothesis, because p₁ is at most 1
    if largest_p2 <= 0.0:  # no rates satisfy the hypothesis
        return 0.0

    def statistic(x1: Any, x2: Any) -> Floats:
        """Return the distance of counts from the hypothesis in standard errors, negative outside of it.

        The distance is ``a x₁/n₁ − x₂/n₂ − c`` over its standard error at a point near the counts on the
        boundary of the hypothesis ``a p₁ − p₂ ≥ c``.
        """
        p2 = np.clip(
            (x1 + x2 - n1 * gap / factor) / (n1 / factor + n2), 0.0, min(1.0, largest_p2)
        )
        p1 = (gap + p2) / factor
        variance = factor**2 * p1 * (1.0 - p1) / n1 + p2 * (1.0 - p2) / n2
        standard_error = np.sqrt(np.maximum(variance, 1e-12))  # rates of 0 and 1 have none
        return np.asarray((factor * x1 / n1 - x2 / n2 - gap) / standard_error)

    observed = float(statistic(np.array(x1), np.array(x2)))
    normal = float(ndtr(observed))
    if normal > max(FAR, level):
        return normal
    gamma = min(NUISANCE, level / 20)
    low, high = map(float, clopper_pearson_interval(x2 / n2, n2, 1.0 - gamma))
    if low > largest_p2:  # the hypothesis is wrong with a confidence of 1 − γ
        return gamma
    p2 = np.linspace(low, min(high, largest_p2), GRID)
    p1 = np.minimum((gap + p2) / factor, 1.0)  # on the boundary
    width = DEVIATIONS * np.sqrt(n2 * p2 * (1.0 - p2)) + 8.0
    smallest = int(max(0.0, (n2 * p2 - width).min()))
    counts = np.arange(smallest, int(min(n2, (n2 * p2 + width).max())) + 1.0)
    # By second count, the largest first count in the region, or −1, by bisection. 1e-12 is for rounding, so
    # that the observed counts are in the region.
    largest = np.full(len(counts), -1)
    above = np.full(len(counts), n1 + 1)
    while (above - largest > 1).any():
        middle = (largest + above) // 2
        is_inside = statistic(middle, counts) <= observed + 1e-12
        largest = np.where(is_inside, middle, largest)
        above = np.where(is_inside, above, middle)
    largest[counts >= x2] = np.maximum(largest[counts >= x2], x1)
    largest = np.maximum.accumulate(largest)  # the region becomes monotone
    # By p₂ and second count; the first group has at most `largest` errors.
    probabilities = binom.pmf(counts, n2, p2[:, None]) * binom.cdf(largest, n1, p1[:, None])
    in_region = probabilities.sum(axis=1)
    # The largest probability may be between values of p₂, counts that were left out may be in the region,
    # and p₂ may be outside of its interval.
    return min(1.0, float(in_region.max()) * BETWEEN + REST + gamma)
