"""Theoretical bounds on errors of new rows from the selection data of a mixture, as in the papers."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils import column_or_1d

from tailboost.core.checks import check_length, check_number
from tailboost.rates.metrics import cvar


def worst_class_margin_bound(
    y: ArrayLike, shares: ArrayLike, complexity: float, delta: float = 0.05
) -> float:
    """Return a bound on every class error on new rows, for a vote selected on these rows.

    A row has the margin θ if (1 + θ)/2 of the vote's weight is on its true label. With probability 1 − δ over
    n_k independent rows of each of K classes, for every vote at once and every class k,

        error_k ≤ min over θ in (0, 1] of  share of class k's rows with a margin below θ
                  + 4C/(θ √n_k) + √(log log₂(2/θ)/n_k) + √(log(2K/δ)/(2 n_k)).

    This is the margin bound for convex combinations [1]_ in the form for all θ at once ([2]_, chapters 5
    and 7), class by class, with δ shared among the classes: a vote with an error on a row of class k has at
    most half of its weight on k.

    At usual sizes the bound is 1, so errors on held-out rows are more useful. Without the margin the
    complexity of the hypotheses does not bound the error of their vote; see the errata page on Saito et al.
    2024.

    Parameters
    ----------
    y : array-like of shape (n,)
        Labels of the selection rows. A class without rows gets no bound.
    shares : array-like of shape (n,), in [0, 1]
        Fraction of the vote's weight on the row's label.
    complexity : float ≥ 0
        C such that C/√n_k bounds the Rademacher complexity, on n_k rows of class k, of the functions 1
        for the answer k and −1 otherwise; √(2 log N) for N hypotheses fixed beforehand.
    delta : float in (0, 1), default=0.05
        Probability that the bound fails for any class.

    Returns
    -------
    float
        The largest of the classes' bounds, at most 1.

    Raises
    ------
    ValueError
        If lengths differ or an argument is outside its range.

    References
    ----------
    .. [1] V. Koltchinskii and D. Panchenko, "Empirical Margin Distributions and Bounding the Generalization
       Error of Combined Classifiers", Annals of Statistics 30, 2002.
    .. [2] M. Mohri, A. Rostamizadeh and A. Talwalkar, "Foundations of Machine Learning", 2nd edition, 2018.

    Examples
    --------
    >>> import numpy as np
    >>> from experiments._bounds import worst_class_margin_bound
    >>> y, shares = np.repeat([0, 1], [90_000, 10_000]), np.full(100_000, 0.9)
    >>> round(worst_class_margin_bound(y, shares, np.sqrt(2 * np.log(20))), 3)
    0.142
    """
    labels = column_or_1d(y)
    right = np.asarray(shares, dtype=np.float64)
    check_length(right, "shares", len(labels))
    if right.ndim != 1 or not ((right >= 0) & (right <= 1)).all():
        raise ValueError("shares must be numbers in [0, 1], one for each row")
    check_number(complexity, "complexity", 0, closed=True)
    check_number(delta, "delta", 0, 1, below=True)
    codes = np.unique(labels, return_inverse=True)[1]
    K = int(codes.max()) + 1
    bounds = []
    for k in range(K):
        margins = np.sort(2.0 * right[codes == k] - 1.0)
        n_k = len(margins)
        # Between two margins all but the share falls in θ, so the least value is at a margin or at 1.
        theta = np.unique(np.append(margins[margins > 0], 1.0))
        below = np.searchsorted(margins, theta) / n_k
        slack = 4 * complexity / (theta * np.sqrt(n_k)) + np.sqrt(np.log(np.log2(2 / theta)) / n_k)
        bounds.append(float((below + slack).min()) + np.sqrt(np.log(2 * K / delta) / (2 * n_k)))
    return float(min(1.0, max(bounds)))


def cvar_bound(
    losses: ArrayLike,
    alpha: float,
    delta: float = 0.05,
    *,
    n_hypotheses: float = 1,
    complexity: float | None = None,
) -> float:
    """Return a bound on the CVaR of a loss on new rows, from losses in [0, 1].

    With probability 1 − δ over n independent rows the fraction of new rows with a loss of at most x is at
    least the observed fraction minus ε = √(log(N/δ)/(2n)), for every x at once. Among all such distributions,
    the largest CVaR has mass ε moved from the smallest losses to a loss of 1. This CVaR is the bound
    ([1]_; at most 1). The bound holds for N classifiers fixed beforehand at once, so also for one of them
    selected on these rows.

    A mixture with weights selected on these rows is one of infinitely many. If C/√n
    bounds the Rademacher complexity of all losses, with probability 1 − δ all of them have

        CVaR_α ≤ CVaR_α on the rows + ((2C + 1)/√n + √(log(1/δ)/(2n)))/α:

    the mean of (loss − η)⁺ converges uniformly in the loss and in η in [0, 1], and CVaR_α is the minimum
    of η + mean (loss − η)⁺/α. This is uniform convergence as in [2]_, used by [3]_ (section 3.4).

    Parameters
    ----------
    losses : array-like of shape (n,), in [0, 1]
        n ≥ 1 losses of independent rows, of equal weight: for a mixture its expected zero-one losses.
    alpha : float in (0, 1]
        Fraction of the rows in the tail.
    delta : float in (0, 0.5], default=0.05
        Probability that the bound fails.
    n_hypotheses : float ≥ 1, default=1
        N: 1 on fresh rows.
    complexity : float ≥ 0, optional
        C, for the second form, without N. √(2 log T) for any mixture of T hypotheses from other rows.

    Returns
    -------
    float
        At most 1.

    Raises
    ------
    ValueError
        If a loss or an argument is outside its range.

    References
    ----------
    .. [1] P. S. Thomas and E. Learned-Miller, "Concentration Inequalities for Conditional Value at Risk",
       ICML 2019; in most cases sharper than D. B. Brown, "Large Deviations Bounds for Estimating Conditional
       Value-at-Risk", Operations Research Letters 35, 2007.
    .. [2] J. Khim, L. Leqi, A. Prasad and P. Ravikumar, "Uniform Convergence of Rank-Weighted Learning",
       ICML 2020.
    .. [3] R. Zhai, C. Dan, A. Suggala, J. Z. Kolter and P. Ravikumar, "Boosted CVaR Classification", 2021.

    Examples
    --------
    >>> import numpy as np
    >>> from experiments._bounds import cvar_bound
    >>> round(cvar_bound(np.arange(1000) % 50 == 0, alpha=0.5), 3)
    0.117
    """
    values = np.asarray(losses, dtype=np.float64)
    if values.ndim != 1 or not len(values) or not ((values >= 0) & (values <= 1)).all():
        raise ValueError("losses must be at least one number, all in [0, 1]")
    check_number(alpha, "alpha", 0, 1)
    check_number(delta, "delta", 0, 0.5)
    check_number(n_hypotheses, "n_hypotheses", 1, closed=True)
    n = len(values)
    if complexity is None:
        moved = float(np.sqrt(np.log(n_hypotheses / delta) / (2 * n)))
        # The remaining mass of each row: the smallest losses lose theirs first.
        kept = np.diff(np.maximum(np.arange(n + 1) / n - moved, 0.0))
        return cvar(np.append(np.sort(values), 1.0), alpha, np.append(kept, min(moved, 1.0)))
    check_number(complexity, "complexity", 0, closed=True)
    slack = (2 * complexity + 1) / np.sqrt(n) + np.sqrt(np.log(1 / delta) / (2 * n))
    return float(min(1.0, cvar(values, alpha) + slack / alpha))
