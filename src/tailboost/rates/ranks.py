"""Ranks as certificates: the true rate at a threshold that is a rank of fresh scores is a Beta variable.

Let S₁, …, Sₙ be independent scores of one population, and U₍ⱼ₎ the probability that a new score is at least
the j-th largest of them. If the population is continuous, U₍ⱼ₎ ~ Beta(j, n + 1 − j), whatever the
population is ([1]_). A threshold between the k-th and the (k + 1)-th largest score therefore has a rate
between U₍ₖ₎ and U₍ₖ₊₁₎. No test is needed, and the rule may be selected among such thresholds if all of
them keep the limit.

Equal scores. Let ties be broken by independent uniform numbers. A rule that answers by the score alone then
has a rate of at most U₍ₖ₊₁₎ if at most k scores reach its threshold, and of at least U₍ₖ₎ if at least k do.
Limits on one side thus hold for every population. A comparison of groups needs exactly k scores above the
threshold, with k fixed before the scores are seen; ties at this place count as a failure.

References
----------
.. [1] S. S. Wilks, "Determination of Sample Sizes for Setting Tolerance Limits", Annals of Mathematical
   Statistics 12, 1941.
.. [2] X. Tong, Y. Feng and J. J. Li, "Neyman–Pearson classification algorithms and NP receiver operating
   characteristics", Science Advances 4, 2018.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.polynomial.legendre import leggauss
from scipy.special import bdtr, betainc, betaincinv

from tailboost.core.array_types import Floats, Ints

# Nodes of the quadrature. In 300 random cases of two to five groups, 600 nodes differed by at most 1.5e-5.
NODES = 120
# Subtracted from a probability by quadrature: more than its error.
QUADRATURE_ERROR = 1e-4


def most_reached(n: int, bound: float, level: float) -> int:
    """Return the largest number of scores that may reach a threshold with a rate certified to be small.

    Parameters
    ----------
    n : int
        Number of scores.
    bound : float in [0, 1]
        The largest rate allowed.
    level : float in (0, 1)
        Probability of a false certificate.

    Returns
    -------
    int
        The largest k with P(Bin(n, bound) ≤ k) ≤ level: a threshold that at most k scores reach then has a
        rate of at most ``bound``, except with a probability of at most ``level``. −1 if no threshold among
        the scores has this property; n for a bound of 1.

    Examples
    --------
    >>> from tailboost.rates.ranks import most_reached
    >>> most_reached(59, 0.05, 0.05), most_reached(58, 0.05, 0.05), most_reached(500, 0.25, 0.05)
    (0, -1, 108)
    """
    return int(each_most_reached(np.array([n]), bound, level)[0])


def each_most_reached(n: Ints, bound: float, level: float) -> Ints:
    """Return `most_reached` of several numbers of scores, shape (k,)."""
    if bound >= 1.0:
        return n
    low, high = np.full(len(n), -1), n - 1
    while (low < high).any():
        middle = (low + high + 1) // 2
        inside = bdtr(np.maximum(middle, 0).astype(np.float64), n, bound) <= level
        low, high = np.where(inside, middle, low), np.where(inside, high, middle - 1)
    return low


def probability_within(
    least: Sequence[int], most: Sequence[int], sizes: Sequence[int], *, gap: float | None, ratio: float | None
) -> float:
    """Return a lower bound on the probability that the rates at ranks of several groups are close.

    In each group between ``least`` and ``most`` of n scores are above the threshold, so its rate is between
    the rates L ~ Beta(least, n + 1 − least) and V ~ Beta(most + 1, n − most). Conditional on the smallest
    L, of group i and value u, another group has L > u and V ≤ h(u) with a probability of at least F_V(h) −
    F_L(u). Group i itself has V ≤ h(u) with a probability that follows from the n − least scores below u.
    The result is the sum over i of the integrals of the products of these probabilities.

    Parameters
    ----------
    least, most : sequence of int
        Of each group, 0 ≤ least ≤ most ≤ n. The threshold may be selected among those in between.
    sizes : sequence of int
        n of each group.
    gap, ratio : float, optional
        One of both: the largest difference of two rates, or the smallest ratio of two rates.

    Returns
    -------
    float
        From 0 to 1, less the error of the quadrature.

    Examples
    --------
    >>> from tailboost.rates.ranks import probability_within
    >>> round(probability_within([300, 300], [300, 300], [1000, 1000], gap=0.05, ratio=None), 3)
    0.983
    """
    low, high, n = (np.asarray(each, dtype=np.float64) for each in (least, most, sizes))
    if (gap is None) == (ratio is None):
        raise ValueError("give either gap or ratio")

    def largest(u: Floats) -> Floats:
        """Return the largest rate that is allowed beside a smallest rate u."""
        return np.minimum(u + gap if gap is not None else u / max(ratio or 0.0, 1e-300), 1.0)

    def at_most(i: int, x: Floats) -> Floats:
        """Return P(V ≤ x) in group i."""
        return _beta_cdf(high[i] + 1.0, n[i] - high[i], x)

    if (low == 0).any():  # the smallest L is 0
        inside = [float(at_most(i, largest(np.zeros(1)))[0]) for i in range(len(low))]
        return max(0.0, float(np.prod(inside)) - QUADRATURE_ERROR)
    nodes, weights = leggauss(NODES)
    total = 0.0
    for i in range(len(low)):
        u = betaincinv(low[i], n[i] + 1.0 - low[i], (nodes + 1.0) / 2.0)
        room = np.clip((largest(u) - u) / np.maximum(1.0 - u, 1e-300), 0.0, 1.0)
        product = _beta_cdf(high[i] + 1.0 - low[i], n[i] - high[i], room)
        for j in range(len(low)):
            if j != i:
                below = betainc(low[j], n[j] + 1.0 - low[j], u)
                product = product * np.maximum(at_most(j, largest(u)) - below, 0.0)
        total += float(weights @ product) / 2.0
    return max(0.0, total - QUADRATURE_ERROR)


def _beta_cdf(a: float, b: float, x: Floats) -> Floats:
    """Return P(Beta(a, b) ≤ x); for b = 0 the variable is 1."""
    values: Floats = betainc(a, b, x) if b > 0 else (x >= 1.0).astype(np.float64)
    return values
