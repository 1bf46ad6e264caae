"""How any classifier does when the data shift: worst-case loss over a ball, and the shift that breaks it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, overload

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import brentq
from scipy.stats import chi2
from sklearn.utils import column_or_1d

from tailboost._checks import check_length, check_number, check_weights, n_rows_of, positions
from tailboost._steps import label_shares
from tailboost._typing import Floats, Labels
from tailboost.metrics import cvar, expected_zero_one_losses
from tailboost.rules.margin_loss import MARGIN_LOSSES
from tailboost.solvers import worst_case_weights
from tailboost.solvers.worst_case import Uncertainty

__all__ = [
    "WeightShare",
    "certified_shift",
    "cvar_bound",
    "dro_radius",
    "empirical_bernstein_bound",
    "row_losses",
    "worst_case_loss",
    "worst_case_profile",
    "worst_class_margin_bound",
]

Loss = Literal["zero_one", "expected_zero_one", "exponential", "logistic", "smoothed_hinge"]

# Least probability: 0 would make a margin infinite, and a forest's 0 is no exact statement.
SMALLEST_PROBABILITY = 1e-15


def dro_radius(n: float, confidence: float = 0.95, effective_dim: int = 1) -> float:
    """Radius of empirical likelihood around n rows, ``χ²_{d; confidence} / (2n)``.

    With about this confidence, for large n, the ball holds a re-weighting of the rows under which the true
    optimum of d parameters is optimal. For one mean (d = 1): the means over the ball are an interval that
    holds the true mean. It is **not** a ball that holds the true distribution, which it hardly ever does: of
    ten equally likely values it did in 7 % of samples of 200 rows, and never where values do not repeat.

    Parameters
    ----------
    n : float > 0
        Number of different rows; not a sum of sample weights, which has any scale.
    confidence : float in (0, 1)
        1 − a.
    effective_dim : int ≥ 1
        d, the number of parameters of what is fitted: the leaves of a tree, as an approximation.

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


def worst_class_margin_bound(
    y: ArrayLike, shares: ArrayLike, complexity: float, delta: float = 0.05
) -> float:
    """Bound on every class's error on new rows, for a vote chosen among all votes on these rows.

    A row has the margin θ if (1 + θ)/2 of the vote's weight is on its true label. With probability 1 − δ over
    n_k independent rows of each of K classes, for every vote at once and every class k,

        error_k ≤ min over θ in (0, 1] of  share of class k's rows with a margin below θ
                  + 4C/(θ √n_k) + √(log log₂(2/θ)/n_k) + √(log(2K/δ)/(2 n_k)).

    This is the margin bound for convex combinations [1]_ in the form that holds for all θ at once ([2]_,
    chapters 5 and 7), class by class, with δ shared among the classes: a vote that errs on a row of class k
    has at most half of its weight on k, whatever the other labels are.

    At usual sizes it is 1 and says nothing; errors on held-out rows say more. Without the margin the
    complexity of the hypotheses does not bound the error of their vote, see the errata page on Saito et al.
    2024.

    Parameters
    ----------
    y : array-like of shape (n,)
        Labels of the rows the vote was chosen on. A class without rows gets no bound.
    shares : array-like of shape (n,), in [0, 1]
        Share of the vote's weight on hypotheses that answer the row's label.
    complexity : float ≥ 0
        C, where C/√n_k bounds the Rademacher complexity, on n_k rows of class k, of the functions that are 1
        where a hypothesis answers k and −1 elsewhere; √(2 log N) for N hypotheses fixed beforehand.
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
    >>> from tailboost.robustness import worst_class_margin_bound
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


def empirical_bernstein_bound(
    losses: ArrayLike, delta: float = 0.05, *, n_hypotheses: float = 1, log_covering: float | None = None
) -> float:
    """Bound on the expected loss from the mean and the variance of losses in [0, 1].

    With V the unbiased variance of n independent losses, with probability 1 − δ the expected loss is at most

        mean + √(2 V log(2N/δ)/n) + 7 log(2N/δ)/(3(n − 1))

    for all of N classifiers fixed beforehand at once [1]_ (theorem 4 and corollary 5), so also for one chosen
    among them on these very rows. For a class with covering numbers, M(n) ten times that of its losses on 2n
    rows at scale 1/n, it is

        mean + √(18 V log(M(n)/δ)/n) + 15 log(M(n)/δ)/(n − 1)

    ([1]_, theorem 6, and [2]_, theorem 1: the reason to penalise the variance).

    Parameters
    ----------
    losses : array-like of shape (n,), in [0, 1]
        n ≥ 2 losses of independent rows, of equal weight.
    delta : float in (0, 1), default=0.05
        Probability that the bound fails.
    n_hypotheses : float ≥ 1, default=1
        N: 1 on rows that had no part in the choice of the classifier.
    log_covering : float > 0, optional
        log M(n) ≥ log 10, for the second form; N then counts for nothing.

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
    n, variance = len(values), float(values.var(ddof=1))
    if log_covering is None:
        log_term = np.log(2 * n_hypotheses / delta)
        spread, rest = 2.0, 7 / 3
    else:
        check_number(log_covering, "log_covering", np.log(10), closed=True)
        log_term = log_covering - np.log(delta)
        spread, rest = 18.0, 15.0
    return float(values.mean() + np.sqrt(spread * variance * log_term / n) + rest * log_term / (n - 1))


def cvar_bound(
    losses: ArrayLike,
    alpha: float,
    delta: float = 0.05,
    *,
    n_hypotheses: float = 1,
    complexity: float | None = None,
) -> float:
    """Bound on the CVaR of a loss on new rows, from losses in [0, 1].

    With probability 1 − δ over n independent rows the share of new rows with a loss of at most x is no less
    than the share seen, less ε = √(log(N/δ)/(2n)), at every x at once. Of all distributions that this leaves,
    the one with ε of its mass at a loss of 1, in place of the least losses seen, has the largest CVaR, which
    is the bound ([1]_; never above 1). It holds for all of N classifiers fixed beforehand at once,
    so also for one chosen among them on these very rows.

    A mixture of classifiers whose shares were chosen on these rows is one of infinitely many. Where C/√n
    bounds the Rademacher complexity of the losses to choose from, with probability 1 − δ all of them have

        CVaR_α ≤ CVaR_α on the rows + ((2C + 1)/√n + √(log(1/δ)/(2n)))/α:

    the mean of (loss − η)⁺ converges uniformly in the loss and in η in [0, 1], and CVaR_α is the least value
    of η + mean (loss − η)⁺/α. This is uniform convergence as in [2]_, of which [3]_ (section 3.4) makes use.

    Parameters
    ----------
    losses : array-like of shape (n,), in [0, 1]
        n ≥ 1 losses of independent rows, of equal weight: for a mixture its expected zero-one losses.
    alpha : float in (0, 1]
        Share of the rows in the tail.
    delta : float in (0, 0.5], default=0.05
        Probability that the bound fails.
    n_hypotheses : float ≥ 1, default=1
        N: 1 on rows that had no part in the choice of the classifier.
    complexity : float ≥ 0, optional
        C, for the second form; N then counts for nothing. √(2 log T) for any mixture of T members that were
        fixed before these rows were seen.

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
    >>> from tailboost.robustness import cvar_bound
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
        # The mass that stays of each row: the least losses give theirs up first.
        kept = np.diff(np.maximum(np.arange(n + 1) / n - moved, 0.0))
        return cvar(np.append(np.sort(values), 1.0), alpha, np.append(kept, min(moved, 1.0)))
    check_number(complexity, "complexity", 0, closed=True)
    slack = (2 * complexity + 1) / np.sqrt(n) + np.sqrt(np.log(1 / delta) / (2 * n))
    return float(min(1.0, cvar(values, alpha) + slack / alpha))


def row_losses(classifier: Any, X: Any, y: ArrayLike, loss: Loss) -> Floats:
    """Return the loss of every row, for any fitted classifier.

    Parameters
    ----------
    classifier : fitted classifier
        With ``classes_``, ``predict`` and, but for the zero-one losses, ``predict_proba``.
    X, y : array-like of shape (n, d), (n,)
        Rows and their labels.
    loss : {"zero_one", "expected_zero_one", "exponential", "logistic", "smoothed_hinge"}
        "zero_one" is that of ``predict``, "expected_zero_one" 1 − the share of the true label (of
        ``predict_shares``, else ``predict_proba``), the others are losses of the margin: an additive
        classifier's own, else ``log p_y`` less the mean of ``log p_k`` over the classes (of two ½ log
        of the odds), the scores whose softmax are the probabilities. A probability below 1e-15 counts as
        1e-15.

    Returns
    -------
    ndarray of shape (n,)
        A loss above 1.8e308 is given as that.

    Raises
    ------
    ValueError
        If ``loss`` is unknown, lengths differ, or y holds labels that the classifier does not know.
    """
    known = ("zero_one", "expected_zero_one", *MARGIN_LOSSES)
    if loss not in known:
        raise ValueError(f"loss must be one of {known}, got {loss!r}")
    labels = column_or_1d(y)
    check_length(labels, "y", n_rows_of(X))
    if loss in ("zero_one", "expected_zero_one"):
        answers = classifier.predict(X) if loss == "zero_one" else label_shares(classifier, X)
        positions(labels, classifier.classes_, "y")  # text beside numbers would count as wrong in silence
        if loss == "zero_one":
            return (np.asarray(answers) != labels).astype(np.float64)
        return expected_zero_one_losses(labels, answers, labels=classifier.classes_)
    log_value = MARGIN_LOSSES[loss].log_value(_margins(classifier, X, labels))
    return np.exp(np.minimum(log_value, np.log(np.finfo(np.float64).max)))


def _margins(classifier: Any, X: Any, labels: Labels) -> Floats:
    if hasattr(classifier, "margins"):
        own: Floats = classifier.margins(X, labels)
        return own
    log_p = np.log(np.maximum(np.asarray(classifier.predict_proba(X), np.float64), SMALLEST_PROBABILITY))
    classes = np.asarray(classifier.classes_)
    k = positions(labels, classes, "y")
    return log_p[np.arange(len(k)), k] - log_p.mean(axis=1)


@overload
def worst_case_loss(
    classifier: Any,
    X: Any,
    y: ArrayLike,
    radii: float,
    uncertainty: Uncertainty = ...,
    loss: Loss = ...,
    *,
    sample_weight: ArrayLike | None = ...,
) -> float: ...
@overload
def worst_case_loss(
    classifier: Any,
    X: Any,
    y: ArrayLike,
    radii: ArrayLike,
    uncertainty: Uncertainty = ...,
    loss: Loss = ...,
    *,
    sample_weight: ArrayLike | None = ...,
) -> Floats: ...
def worst_case_loss(
    classifier: Any,
    X: Any,
    y: ArrayLike,
    radii: Any,
    uncertainty: Uncertainty = "kl",
    loss: Loss = "zero_one",
    *,
    sample_weight: ArrayLike | None = None,
) -> Any:
    """Largest expected loss under any re-weighting of the rows within a radius, for any fitted classifier.

    Parameters
    ----------
    classifier, X, y, loss
        As in `row_losses`.
    radii : float or array-like of shape (m,)
        Radii ≥ 0; 0 is the mean loss.
    uncertainty : {"kl", "chi2", "cvar"}
        The ball, see `tailboost.solvers.worst_case_weights`.
    sample_weight : array-like of shape (n,), default=None
        Weights of the rows: the middle of the ball.

    Returns
    -------
    float or ndarray of shape (m,)

    Raises
    ------
    ValueError
        If an argument is outside its range.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.linear_model import LogisticRegression
    >>> from tailboost.robustness import worst_case_loss
    >>> X, y = load_iris(return_X_y=True)
    >>> worst_case_loss(LogisticRegression(C=0.01).fit(X, y), X, y, [0, 0.1, 1]).round(3)
    array([0.127, 0.296, 0.743])
    """
    radius = np.asarray(radii, dtype=np.float64)
    for r in radius.ravel():
        check_number(r, "radii", 0, closed=True)
    losses = row_losses(classifier, X, y, loss)
    values = _worst_cases(losses, radius.ravel(), uncertainty, check_weights(sample_weight, len(losses)))
    return float(values[0]) if radius.ndim == 0 else values.reshape(radius.shape)


def _worst_cases(losses: Floats, radii: Floats, uncertainty: Uncertainty, base: Floats) -> Floats:
    top = max(float(losses.max()), np.finfo(np.float64).tiny)
    return top * np.array(
        [worst_case_weights(losses / top, uncertainty, radius=r, base=base).value for r in radii]
    )


def certified_shift(
    classifier: Any,
    X: Any,
    y: ArrayLike,
    target: float,
    uncertainty: Uncertainty = "kl",
    loss: Loss = "zero_one",
    *,
    sample_weight: ArrayLike | None = None,
) -> float:
    """Smallest radius at which the worst-case loss exceeds a target: no smaller shift breaks it.

    The statement is about re-weightings of these rows, not of the population they come from.

    Parameters
    ----------
    classifier, X, y, uncertainty, loss, sample_weight
        As in `worst_case_loss`.
    target : float
        The loss that must not be exceeded.

    Returns
    -------
    float
        0 when the mean loss exceeds the target already, ∞ when no row's loss does.

    Raises
    ------
    ValueError
        If an argument is outside its range.
    """
    check_number(target, "target", -np.inf)
    losses = row_losses(classifier, X, y, loss)
    base = check_weights(sample_weight, len(losses))

    def excess(radius: float) -> float:
        return float(_worst_cases(losses, np.array([radius]), uncertainty, base)[0]) - target

    if excess(0.0) > 0:
        return 0.0
    if losses[base > 0].max() <= target:
        return float(np.inf)
    high = 1.0
    while excess(high) <= 0:
        high *= 2.0
    return float(brentq(excess, 0.0, high, xtol=1e-12, rtol=1e-12, maxiter=200))


@dataclass(frozen=True)
class WeightShare:
    """How much of the worst case a class, group or feature value carries.

    Attributes
    ----------
    kind, name : str
        "class", "group" or "feature", and which.
    base, worst : float
        Its share of the base measure and of the worst-case weights; for a number among the features the mean.
    shift : float
        (worst − base) in standard deviations under the base measure.
    """

    kind: str
    name: str
    base: float
    worst: float
    shift: float


def worst_case_profile(
    weights: ArrayLike,
    X: Any,
    y: ArrayLike,
    *,
    groups: Any = None,
    sample_weight: ArrayLike | None = None,
    feature_names: Sequence[str] | None = None,
) -> list[WeightShare]:
    """Who carries the worst case: classes, groups and features by how far the weights shift them.

    Parameters
    ----------
    weights : array-like of shape (n,)
        Weights that sum to 1, such as ``worst_case_weights_``.
    X : DataFrame or array-like of shape (n, d)
        Features; text, category and Boolean columns count value by value.
    y : array-like of shape (n,)
        Labels.
    groups : array-like of shape (n,), or mapping of str to such or DataFrame, default=None
        Groups of the rows, under one or several names.
    sample_weight : array-like of shape (n,), default=None
        The base measure.
    feature_names : sequence of d str, default=None
        What to call the columns of an X without names.

    Returns
    -------
    list of WeightShare
        Classes, then groups, then features; within each the largest shift first.

    Raises
    ------
    ValueError
        If lengths differ or the weights do not sum to 1.
    """
    w = np.asarray(weights, dtype=np.float64)
    grouped = _columns(groups)
    for name, values in {"y": y, **{f"groups {k}".rstrip(): v for k, v in grouped.items()}}.items():
        check_length(values, name, n_rows_of(X))
    check_length(w, "weights", n_rows_of(X))
    if w.ndim != 1 or (w < 0).any() or not np.isclose(w.sum(), 1.0):
        raise ValueError(f"weights must be non-negative and sum to 1, got shape {w.shape}, sum {w.sum():g}")
    p = check_weights(sample_weight, len(w))
    p = p / p.sum()
    shares: list[WeightShare] = []
    for kind, table in (
        ("class", {"": y}),
        ("group", grouped),
        ("feature", _columns(X, feature_names)),
    ):
        found = [s for name, column in table.items() for s in _shares(kind, name, np.asarray(column), w, p)]
        shares += sorted(found, key=lambda s: -abs(s.shift))
    return shares


def _columns(table: Any, names: Sequence[str] | None = None) -> dict[str, Any]:
    if table is None:
        return {}
    if hasattr(table, "columns") or isinstance(table, Mapping):
        return {str(name): table[name] for name in table}
    array = np.asarray(table)
    if array.ndim == 1:
        return {"": array}
    names = [f"feature {j}" for j in range(array.shape[1])] if names is None else names
    return dict(zip(names, array.T, strict=True))


def _shares(kind: str, name: str, column: Labels, w: Floats, p: Floats) -> list[WeightShare]:
    if kind == "feature" and column.dtype.kind in "iuf":
        known = np.isfinite(column)  # missing numbers are left out of the means
        pairs = [(name, column[known].astype(np.float64), w[known], p[known])]
    else:
        values, index = np.unique(column.astype(str), return_inverse=True)
        pairs = [
            (f"{name} = {v}" if name else str(v), (index == j).astype(np.float64), w, p)
            for j, v in enumerate(values)
        ]
    shares = []
    for what, x, w_x, p_x in pairs:
        if not (w_x.sum() > 0 and p_x.sum() > 0):
            continue
        worst, base = np.average(x, weights=w_x), np.average(x, weights=p_x)
        spread = np.sqrt(np.average((x - base) ** 2, weights=p_x))
        shift = (worst - base) / spread if spread > 0 else 0.0
        shares.append(WeightShare(kind, what, float(base), float(worst), float(shift)))
    return shares
