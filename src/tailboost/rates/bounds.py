"""Confidence bounds that hold for every number of rows: error rates, two of them compared, means.

Tables of rates and certificates read them; nothing here reads a rate or a limit. All bounds are for
independent rows with losses in [0, 1] and do not depend on the order of rows. Upper bounds are at most 1, and
1 without rows.
"""

import math

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import brentq
from scipy.special import betaincinv, ndtr
from scipy.stats import binom

from tailboost.core import Array, Floats, Ints

# Powers of √½ from 1 to a thousandth. Bets with the weights POWERS / POWERS.sum() have stakes in proportion
# to 1 / POWERS. Bets on later rows (`tailboost.guarantees.bets`) have the stakes POWERS, and even weights.
POWERS = 2.0 ** (-0.5 * np.arange(21))


# -- error rates -------------------------------------------------------------------------------------------


def clopper_pearson_upper(errors: int, n: int, delta: float = 0.05) -> float:
    """Return the exact upper bound on an error rate, under which so few errors have probability δ.

    Parameters
    ----------
    errors, n : int
        Errors among n rows, 0 ≤ errors ≤ n.
    delta : float in (0, 1), default=0.05
        Probability of a false bound.

    Returns
    -------
    float
        1 if all rows are errors, or without rows.

    References
    ----------
    .. [1] C. J. Clopper and E. S. Pearson, "The Use of Confidence or Fiducial Limits", Biometrika 26, 1934.

    Examples
    --------
    >>> from tailboost.rates.bounds import clopper_pearson_upper
    >>> round(clopper_pearson_upper(15, 100), 3)
    0.222
    """
    return float(np.nan_to_num(betaincinv(errors + 1, n - errors, 1.0 - delta), nan=1.0))


def clopper_pearson_interval(
    error: ArrayLike, n: ArrayLike, confidence: float = 0.95
) -> tuple[Floats, Floats]:
    """Return the two-sided interval for an error rate; each side fails with probability (1 − confidence)/2.

    Parameters
    ----------
    error : float in [0, 1], or array-like
        Observed error rate.
    n : float ≥ 0, or array-like
        Number of rows; for weighted rows Kish's effective number ``(Σw)²/Σw²`` [1]_. The interval is exact
        for whole numbers of rows and errors.
    confidence : float in (0, 1), default=0.95
        Of each interval by itself.

    Returns
    -------
    low : ndarray
        Lower ends, in the common shape; 0 without rows.
    high : ndarray
        Upper ends; 1 without rows.

    References
    ----------
    .. [1] E. L. Korn and B. I. Graubard, "Confidence intervals for proportions with small expected number of
       positive counts estimated from survey data", Survey Methodology 24, 1998.

    Examples
    --------
    >>> from tailboost.rates.bounds import clopper_pearson_interval
    >>> low, high = clopper_pearson_interval(0.15, 100)
    >>> round(float(low), 3), round(float(high), 3)
    (0.086, 0.235)
    """
    wrong = np.multiply(error, n)
    right = np.subtract(n, wrong)
    level = (1.0 - confidence) / 2.0
    low = np.nan_to_num(betaincinv(wrong, right + 1.0, level))  # NaN without errors
    return low, np.nan_to_num(betaincinv(wrong + 1.0, right, 1.0 - level), nan=1.0)


# -- two error rates ---------------------------------------------------------------------------------------

# The most probable a nuisance parameter outside its interval may be.
NUISANCE = 1e-3
# Number of values of the nuisance parameter to two standard errors of each rate.
PER_ERROR = 7.0
# A group of so many rows has twice as many values, because its probabilities have steps.
FEW = 30.0
# The factor for the values between them. For 550 random pairs of 5 to 30,000 rows and p-values up to .14,
# many more values had probabilities at most 1.0051 times as large.
BETWEEN = 1.006
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
    """Return the p-value of the hypothesis ``factor p₁ − p₂ > gap`` for two independent binomial counts.

    The exact unconditional test of whether one error rate, times a factor, is too far above the other. Pairs
    of counts are ordered by the statistic of Farrington and Manning [1]_. Its region of small values is
    enlarged until it is monotone (fewer errors of the first group or more of the second stay inside, [2]_).
    Then the supremum of its probability under the hypothesis is on the boundary ``a p₁ − p₂ = c``, a curve in
    one nuisance parameter. The p-value is the largest probability over an interval that contains the
    parameter with a confidence of 1 − γ, plus γ ([3]_). The normal approximation alone can exceed the level.

    Parameters
    ----------
    errors, rows : (int, int)
        Counts and numbers of rows of the first and the second group.
    factor : float ≥ 0, default=1
        a: 1 for a gap; for a ratio the smallest allowed one, with the larger rate first.
    gap : float ≥ 0, default=0
        c: the largest allowed difference.
    level : float in (0, 1), default=0.05
        A level, fixed before the counts are seen. γ is at most a twentieth of it.

    Returns
    -------
    float
        At most α with a probability of at most α under the hypothesis, for each α up to ``level`` or .15, the
        larger of them; 1 without rows, and else 0 if a ≤ c, for then no rates satisfy the hypothesis.

    References
    ----------
    .. [1] C. P. Farrington and G. Manning, "Test statistics and sample size formulae for comparative binomial
       trials with null hypothesis of non-zero risk difference or non-unity relative risk", Statistics in
       Medicine 9, 1990.
    .. [2] G. A. Barnard, "Significance tests for 2 × 2 tables", Biometrika 34, 1947.
    .. [3] R. L. Berger and D. D. Boos, "P values maximized over a confidence set for the nuisance parameter",
       JASA 89, 1994.

    Examples
    --------
    >>> from tailboost.rates.bounds import pair_p_value
    >>> [round(pair_p_value((100, 100), (1000, 1000), gap=gap), 3) for gap in (0.02, 0.03)]
    [0.071, 0.014]
    """
    x1, x2 = errors
    n1, n2 = rows
    if min(rows) < 1:
        return 1.0
    largest_p2 = factor - gap  # the hypothesis has smaller ones, because p₁ is at most 1
    if largest_p2 <= 0.0:  # no rates satisfy the hypothesis
        return 0.0

    def statistic(first: Array | int, second: Array | int) -> Floats:
        """Return the distance of counts from the boundary of the hypothesis, negative outside of it.

        The distance is ``a x₁/n₁ − x₂/n₂ − c`` over its standard error at a point near the counts on the
        boundary of ``a p₁ − p₂ > c``.
        """
        p2 = np.clip(
            (first + second - n1 * gap / factor) / (n1 / factor + n2), 0.0, min(1.0, largest_p2)
        )
        p1 = (gap + p2) / factor
        variance = factor**2 * p1 * (1.0 - p1) / n1 + p2 * (1.0 - p2) / n2
        distance = factor * first / n1 - second / n2 - gap
        return distance / np.sqrt(np.maximum(variance, 1e-12))  # rates of 0 and 1 have none

    observed = statistic(x1, x2)
    normal = float(ndtr(observed))
    if normal > max(FAR, level):
        return normal

    # 1. Values of the nuisance parameter p₂ in its interval, and p₁ on the boundary of the hypothesis.
    gamma = min(NUISANCE, level / 20)
    ends = np.array(clopper_pearson_interval(x2 / n2, n2, 1.0 - gamma))
    if ends[0] > largest_p2:  # the hypothesis is wrong with a confidence of 1 − γ
        return gamma
    ends = ends.clip(max=largest_p2)
    density = PER_ERROR * (1.0 + FEW / min(rows))
    by_p2 = even_rates(ends, density * math.sqrt(n2))
    by_p1 = even_rates((gap + ends) / factor, density * math.sqrt(n1))
    p2 = np.concatenate([ends, by_p2, factor * by_p1 - gap]).clip(*ends)
    p1 = np.minimum((gap + p2) / factor, 1.0)

    # 2. The second counts that are likely for one of these values.
    mean = n2 * p2
    width = DEVIATIONS * np.sqrt(mean * (1.0 - p2)) + 8.0
    least = int(max((mean - width).min(), 0.0))
    counts = np.arange(least, int(min((mean + width).max(), n2)) + 1.0)

    # 3. By second count, the largest first count in the region, or −1, by bisection. 1e-12 is for rounding,
    # so that the observed counts are in the region.
    most_errors = np.full(len(counts), -1)
    above = np.full(len(counts), n1 + 1)
    while (above - most_errors > 1).any():
        middle = (most_errors + above) // 2
        is_inside = statistic(middle, counts) <= observed + 1e-12
        most_errors = np.where(is_inside, middle, most_errors)
        above = np.where(is_inside, above, middle)
    most_errors = np.where(counts < x2, most_errors, np.maximum(most_errors, x1))
    most_errors = np.maximum.accumulate(most_errors)  # the region becomes monotone

    # 4. The probability of the region, by p₂ and second count; the first group has at most `most_errors`.
    probabilities = binom.pmf(counts, n2, p2[:, None]) * binom.cdf(most_errors, n1, p1[:, None])
    # The largest probability may be between values of p₂, counts that were left out may be in the region,
    # and p₂ may be outside of its interval.
    return min(1.0, float(probabilities.sum(axis=1).max()) * BETWEEN + REST + gamma)


def even_rates(ends: Floats, density: float) -> Floats:
    """Return rates from one end to the other, at even distances of arcsin √p: ``density`` in a distance of 1.

    The arcsine of the root of an observed rate of n rows has the standard error 1/(2√n).
    """
    first, last = np.arcsin(np.sqrt(ends.clip(max=1.0)))
    n_values = 2 + int(density * (last - first))
    return np.sin(np.linspace(first, last, n_values)) ** 2


# -- means of losses in [0, 1] -----------------------------------------------------------------------------


def _log_wealth(mean: float, values: Floats, counts: Ints, delta: float) -> float:
    """Return the log wealth of bets on a mean below m: log Σ_c π_c Π_i (1 − c + c (1 − ℓ_i)/(1 − m)).

    The losses ℓ have ``values`` that occur ``counts`` times.

    A stake of √(1.5 L (1 − m)/(n m)), L = log 1/δ, suits a loss with the largest possible variance
    m(1 − m); larger stakes suit smaller variances. The stakes c are this one times powers of √2, at most 1,
    with π_c falling by the same powers. The wealth rises with m, because the derivatives of
    (m − ℓ)/√(m(1 − m)) and (m − ℓ)/(1 − m) are positive.
    """
    variance_ratio = (1.0 - mean) / (counts.sum() * mean)
    stakes = np.minimum(math.sqrt(-1.5 * math.log(delta) * variance_ratio) / POWERS, 1.0)
    with np.errstate(divide="ignore"):  # a stake of 1 may lose everything
        logs = np.log1p(stakes[:, None] * ((mean - values) / (1.0 - mean))) @ counts
    return float(np.logaddexp.reduce(logs + np.log(POWERS / POWERS.sum())))


def betting_upper(losses: ArrayLike, delta: float = 0.05) -> float:
    """Return an upper bound on the mean of losses in [0, 1], by betting against every larger mean.

    A player who bets a share c of his wealth on the next loss being below m multiplies his wealth by
    1 − c + c (1 − ℓ)/(1 − m). If the mean is m or more, his wealth exceeds 1/δ with probability at most δ,
    for any c and for a mixture of such bets ([1]_, [2]_). The bound is the largest mean without rejection
    by the mixture. A small variance gives a small bound. The order of rows has no effect; bets that learn
    from earlier rows (as in [1]_) are tighter by up to a third, and change with every shuffle.

    Parameters
    ----------
    losses : array-like of shape (n,), in [0, 1]
        Of independent rows.
    delta : float in (0, 1), default=0.05
        Probability of a false bound.

    Returns
    -------
    float
        At most 1, and 1 without rows.

    References
    ----------
    .. [1] I. Waudby-Smith and A. Ramdas, "Estimating Means of Bounded Random Variables by Betting",
       JRSS B 86, 2024.
    .. [2] F. Orabona and K.-S. Jun, "Tight Concentrations and Confidence Sequences from the Regret of
       Universal Portfolio", IEEE Transactions on Information Theory 70, 2024.

    Examples
    --------
    >>> import numpy as np
    >>> from tailboost.rates.bounds import betting_upper
    >>> round(betting_upper(np.tile([0.0, 0.1, 0.2, 0.3], 50)), 3)
    0.173
    """
    values, counts = np.unique_counts(losses)

    def excess(mean: float) -> float:
        """Return the logarithm of wealth · δ, which is at least 0 if the mean is rejected."""
        return _log_wealth(mean, values, counts, delta) + math.log(delta)

    # No wealth is gained at the mean of the losses. Near 1 it exceeds 1/δ, unless all losses are almost 1.
    right = np.nextafter(1.0, 0.0)
    if not len(values) or excess(right) < 0.0:
        return 1.0
    left = max(values @ counts / counts.sum(), 1e-12)
    return min(1.0, brentq(excess, left, right, xtol=1e-12) + 1e-12)  # not below the exact root


def betting_p_value(losses: ArrayLike, target: float, delta: float = 0.05) -> float:
    """Return a p-value for a mean of at least ``target``: the inverse wealth of `betting_upper`'s bets.

    Parameters
    ----------
    losses : array-like of shape (n,), in [0, 1]
        Of independent rows.
    target : float in (0, 1]
        The mean to reject.
    delta : float in (0, 1), default=0.05
        The level of the bets; the p-value is valid for any level.

    Returns
    -------
    float
        In [0, 1]; 0 stands for one below the least positive float.
    """
    if not np.size(losses) or target >= 1.0:
        return 1.0
    values, counts = np.unique_counts(losses)
    return math.exp(min(0.0, -_log_wealth(target, values, counts, delta)))
