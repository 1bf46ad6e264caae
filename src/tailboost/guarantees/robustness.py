"""Radii, profile likelihoods and empirical Bernstein bounds of the papers."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike
from scipy.stats import chi2

from tailboost.boosting.players.dro import MARGIN_LOSSES
from tailboost.core.array_types import Floats, Model, Table
from tailboost.core.checks import (
    check_length,
    check_number,
    check_weights,
    label_vector,
    n_rows_of,
    positions,
)

__all__ = [
    "dro_radius",
    "empirical_bernstein_bound",
    "profile_likelihood",
]

# Newton's method stops if a step lowers the dual by less; five to twenty steps are usual.
NEWTON_TOLERANCE = 1e-13
NEWTON_STEPS = 200


def dro_radius(n: float, confidence: float = 0.95, effective_dim: int = 1) -> float:
    """Return the radius of empirical likelihood around n rows, ``χ²_{d; confidence} / (2n)``.

    With about this confidence, for large n, the true optimum of d parameters is optimal under a re-weighting
    of the rows in the ball. For one mean (d = 1), the means over the ball are a confidence interval. The ball
    hardly ever contains the true distribution: with ten equally likely values in 7 % of samples of 200 rows,
    and never if values do not repeat.

    Parameters
    ----------
    n : float > 0
        Number of distinct rows; not a sum of sample weights, which has any scale.
    confidence : float in (0, 1)
        1 − a.
    effective_dim : int ≥ 1
        d, the number of fitted parameters; approximately the number of leaves of a tree.

    Returns
    -------
    float
        δ, for the KL and, to second order, the χ² ball.

    Raises
    ------
    ValueError
        If an argument is outside its range.

    References
    ----------
    .. [1] J. Blanchet, Y. Kang, F. Zhang and Z. Hu, "A Distributionally Robust Boosting Algorithm", 2019.

    Examples
    --------
    >>> from tailboost.robustness import dro_radius
    >>> round(dro_radius(3000, 0.95, 30), 4)
    0.0073
    """
    check_number(n, "n", 0)
    check_number(confidence, "confidence", 0, 1, below=True)
    check_number(effective_dim, "effective_dim", 1, closed=True)
    return float(chi2.ppf(confidence, effective_dim)) / (2.0 * n)


def profile_likelihood(
    classifier: Model,
    X: Table,
    y: ArrayLike,
    *,
    loss: str = "exponential",
    sample_weight: ArrayLike | None = None,
) -> float:
    """Return the smallest KL divergence of a re-weighting of the rows under which a classifier is optimal.

    "Optimal" means: among all weights of its base models h_t. The value is the profile likelihood R_n(f) of
    [1]_,

        min KL(q ‖ p)  subject to  Σ q_i L′(y_i f(x_i)) y_i h_t(x_i) = 0  for each t.

    If f is the optimum of the distribution of the rows, 2 n R_n(f) has a χ² distribution with d degrees of
    freedom for large n (Theorem 1); d is the number of base models. Then R_n(f) is at most `dro_radius` with
    its confidence. The theorem needs base models chosen without the rows.

    Parameters
    ----------
    classifier : fitted additive classifier
        With ``staged_decision_function`` and ``classes_``.
    X : array-like of shape (n, d)
        Rows.
    y : array-like of shape (n,)
        Their labels.
    loss : {"exponential", "logistic", "smoothed_hinge"}
        L.
    sample_weight : array-like of shape (n,), optional
        Weights; p is proportional to them.

    Returns
    -------
    float
        R_n(f); infinite if no re-weighting of the rows makes the classifier optimal.

    Raises
    ------
    TypeError
        If the classifier has no scores by round.
    ValueError
        If the labels, weights or the loss are not as described.

    References
    ----------
    .. [1] J. Blanchet, Y. Kang, F. Zhang and Z. Hu, "A Distributionally Robust Boosting Algorithm", 2019.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from tailboost import AdaBoostClassifier
    >>> from tailboost.robustness import dro_radius, profile_likelihood
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> clf = AdaBoostClassifier("stump", n_estimators=2).fit(X, y)
    >>> profile_likelihood(clf, X, y) < dro_radius(len(y), effective_dim=3)
    True
    """
    if not hasattr(classifier, "staged_decision_function"):
        raise TypeError(
            f"{type(classifier).__name__} has no scores by round; give an additive classifier"
        )
    if loss not in MARGIN_LOSSES:
        raise ValueError(f"loss must be one of {', '.join(MARGIN_LOSSES)}, got {loss!r}")
    labels = label_vector(y)
    check_length(labels, "y", n_rows_of(X))
    index = positions(labels, classifier.classes_, "y")
    weight = check_weights(sample_weight, len(labels))
    margins = []  # after each round, shape (n,) each
    for scores in classifier.staged_decision_function(X):
        if scores.ndim == 1:  # two classes: a positive score is for the second one
            margins.append(scores * (2 * index - 1))
        else:
            margins.append(scores[np.arange(len(index)), index])
    log_slope = MARGIN_LOSSES[loss].log_slope(margins[-1])
    # Scaling does not change a condition.
    slope = np.exp(log_slope - log_slope.max())
    conditions = slope * np.diff(margins, axis=0, prepend=0.0)  # one row for each base model
    present = weight > 0
    return _least_divergence(conditions[:, present].T, weight[present] / weight.sum())


def _least_divergence(conditions: Floats, p: Floats) -> float:
    """Return ``min KL(q ‖ p) s.t. Σ q_i g_i = 0``; infinite without such q.

    Newton's method with halved steps solves the smooth convex dual ``−min_v log Σ p_i exp(⟨v, g_i⟩)``.

    Parameters
    ----------
    conditions : ndarray of shape (n, T)
        The vectors g_i.
    p : ndarray of shape (n,)
        Positive probabilities.
    """
    largest = float(-np.log(p.min()))  # largest possible divergence from p
    v = np.zeros(conditions.shape[1])

    def dual(v: Floats) -> tuple[float, Floats]:
        """Return log Σ p_i exp(⟨v, g_i⟩), and the weights q of the rows at v."""
        exponents = np.log(p) + conditions @ v
        top = exponents.max()
        q = np.exp(exponents - top)
        return float(top + np.log(q.sum())), q / q.sum()

    value, q = dual(v)
    for _ in range(NEWTON_STEPS):
        gradient = q @ conditions
        centred = conditions - gradient
        hessian = (q[:, None] * centred).T @ centred
        solution, *_ = np.linalg.lstsq(hessian, gradient, rcond=None)
        direction = -solution
        slope = float(gradient @ direction)
        if slope > -NEWTON_TOLERANCE:
            break
        step = 1.0
        while step > NEWTON_TOLERANCE:
            stepped_value, _ = dual(v + step * direction)
            if not stepped_value > value + 0.1 * step * slope:  # a sufficient decrease
                break
            step /= 2
        v = v + step * direction
        value, q = dual(v)
        if -value > largest + NEWTON_TOLERANCE:  # unbounded: no q meets the conditions
            return float("inf")
    return max(0.0, -value)


def empirical_bernstein_bound(
    losses: ArrayLike,
    delta: float = 0.05,
    *,
    n_hypotheses: float = 1,
    log_covering: float | None = None,
) -> float:
    """Return a bound on the expected loss from the mean and the variance of losses in [0, 1].

    With V the unbiased variance of n independent losses, the expected loss is, with probability 1 − δ, at
    most

        mean + √(2 V log(2N/δ)/n) + 7 log(2N/δ)/(3(n − 1))

    for all of N fixed classifiers together [1]_ (theorem 4 and corollary 5), so also for one chosen among
    them on the same rows. For a class with covering numbers, M(n) ten times the one of its losses on 2n rows
    at scale 1/n, the bound is

        mean + √(18 V log(M(n)/δ)/n) + 15 log(M(n)/δ)/(n − 1)

    ([1]_, theorem 6, and [2]_, theorem 1: the reason to penalise the variance).

    Parameters
    ----------
    losses : array-like of shape (n,), in [0, 1]
        n ≥ 2 losses of independent rows, of equal weight.
    delta : float in (0, 1), default=0.05
        Probability of a false bound.
    n_hypotheses : float ≥ 1, default=1
        N: 1 on rows without influence on the choice of the classifier.
    log_covering : float > 0, optional
        log M(n) ≥ log 10, for the second form, which does not use N.

    Returns
    -------
    float
        May exceed 1.

    Raises
    ------
    ValueError
        If a loss or an argument is outside its range.

    References
    ----------
    .. [1] A. Maurer and M. Pontil, "Empirical Bernstein Bounds and Sample Variance Penalization", 2009.
    .. [2] P. K. Shivaswamy and T. Jebara, "Variance Penalizing AdaBoost", 2011.

    Examples
    --------
    >>> import numpy as np
    >>> from tailboost.robustness import empirical_bernstein_bound
    >>> round(empirical_bernstein_bound(np.arange(1000) % 50 == 0), 3)
    0.041
    """
    values = np.asarray(losses, dtype=np.float64)
    if values.ndim != 1 or len(values) < 2 or not ((values >= 0) & (values <= 1)).all():
        raise ValueError("losses must be at least two numbers in [0, 1]")
    check_number(delta, "delta", 0, 1, below=True)
    check_number(n_hypotheses, "n_hypotheses", 1, closed=True)
    n = len(values)
    variance = float(values.var(ddof=1))
    if log_covering is None:
        log_term = np.log(2 * n_hypotheses / delta)
        variance_factor = 2.0
        linear_factor = 7 / 3
    else:
        check_number(log_covering, "log_covering", np.log(10), closed=True)
        log_term = log_covering - np.log(delta)
        variance_factor = 18.0
        linear_factor = 15.0
    return float(
        values.mean()
        + np.sqrt(variance_factor * variance * log_term / n)
        + linear_factor * log_term / (n - 1)
    )
