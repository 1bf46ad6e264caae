"""Losses of the tail, of classes and of groups: functions, curves and a scorer.

A randomised rule that answers k with probability `y_proba[i, k]` is judged by its expected zero-one loss,
1 − p[true label]; nothing is ever drawn.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator
from sklearn.utils import check_array
from sklearn.utils.metadata_routing import UNUSED

from tailboost import solvers
from tailboost.solvers.bits import check_number

__all__ = [
    "class_errors",
    "cvar",
    "cvar_curve",
    "cvar_zero_one_loss",
    "expected_class_errors",
    "expected_group_errors",
    "expected_zero_one_losses",
    "group_errors",
    "make_cvar_scorer",
    "worst_class_error",
    "worst_group_error",
]

Floats = NDArray[np.float64]
Labels = NDArray[Any]


def cvar(losses: ArrayLike, alpha: float, sample_weight: ArrayLike | None = None) -> float:
    """Mean loss over the worst ``alpha`` of the rows (conditional value at risk).

    CVaR_α(ℓ) = max { Σ w_i ℓ_i : Σ w_i = 1, 0 ≤ w_i ≤ p_i/α } with p the normalised weights [1]_, eq. (1). It
    is exact also where α cuts through a row: that row counts in part.

    Parameters
    ----------
    losses : array-like of shape (n,)
        Finite losses of any scale.
    alpha : float in (0, 1]
        Share of the rows in the tail: 1 gives the mean, towards 0 the maximum.
    sample_weight : array-like of shape (n,), default=None
        Non-negative weights, not all zero; weight 2 is the row twice. None weighs all rows alike.

    Returns
    -------
    float
        In the units of the losses.

    Raises
    ------
    ValueError
        ``alpha`` outside (0, 1]; empty or non-finite losses; weights of another length, negative or all zero.

    References
    ----------
    .. [1] R. T. Rockafellar and S. Uryasev, "Optimization of conditional value-at-risk", Journal of Risk 2
       (2000).

    Examples
    --------
    >>> from tailboost.metrics import cvar
    >>> cvar([0.0, 1.0, 0.0, 0.5], alpha=0.5)
    0.75
    """
    check_number(alpha, "alpha", 0, 1)
    values = np.asarray(losses)
    _check_rows("losses", values)
    return solvers.cvar(values, alpha, _weights(sample_weight, len(values)))


def cvar_zero_one_loss(
    y_true: ArrayLike,
    y_proba: ArrayLike,
    alpha: float,
    *,
    sample_weight: ArrayLike | None = None,
    labels: ArrayLike | None = None,
) -> float:
    """CVaR of the expected zero-one loss of a randomised rule.

    The loss of a row is 1 − p[true label]. For a deterministic rule (all shares 0 or 1) the result is
    min(1, error/α); answering each of K labels with probability 1/K gives 1 − 1/K at every α.

    Parameters
    ----------
    y_true : array-like of shape (n,)
        True labels.
    y_proba : array-like of shape (n, K), or (n,) for two classes
        Probability with which each label is answered, rows summing to 1; of shape (n,): that of
        ``labels[1]``.
    alpha : float in (0, 1]
        Share of the rows in the tail: 1 gives the mean, towards 0 the maximum.
    sample_weight : array-like of shape (n,), default=None
        Non-negative weights, not all zero; weight 2 is the row twice.
    labels : array-like of shape (K,), default=None
        The label of each column, as in ``classes_``. None takes the sorted labels of ``y_true``, which must
        then hold all K.

    Returns
    -------
    float
        In [0, 1].

    Raises
    ------
    ValueError
        ``alpha`` outside (0, 1]; empty input; lengths that differ; a missing label; a label not in
        ``labels``; shares that are no probabilities; weights that are negative or all zero.

    Examples
    --------
    >>> from tailboost.metrics import cvar_zero_one_loss
    >>> cvar_zero_one_loss([0, 1, 1, 1], [[1, 0], [1, 0], [0, 1], [0, 1]], alpha=0.5)
    0.5
    """
    return float(cvar_curve(y_true, y_proba, [alpha], sample_weight=sample_weight, labels=labels)[0])


def cvar_curve(
    y_true: ArrayLike,
    y_proba: ArrayLike,
    alphas: Iterable[float],
    *,
    sample_weight: ArrayLike | None = None,
    labels: ArrayLike | None = None,
) -> Floats:
    """CVaR of the expected zero-one loss at many α (see `cvar_zero_one_loss`).

    Parameters
    ----------
    y_true, y_proba, sample_weight, labels
        As in `cvar_zero_one_loss`.
    alphas : iterable of m floats in (0, 1]
        Tail masses, in any order.

    Returns
    -------
    float64 ndarray of shape (m,)
        One value in [0, 1] per α; never rises with α.

    Raises
    ------
    ValueError
        As in `cvar_zero_one_loss`.
    """
    tail_masses = [check_number(alpha, "alpha", 0, 1) for alpha in alphas]
    losses = expected_zero_one_losses(y_true, y_proba, labels=labels)
    weight = _weights(sample_weight, len(losses))
    # CVaR depends on the distribution of the losses alone: their distinct values, found once, serve every
    # alpha.
    values, place = np.unique(losses, return_inverse=True)
    mass = np.bincount(place, weight)
    return np.array([solvers.cvar(values, alpha, mass) for alpha in tail_masses])


def expected_zero_one_losses(
    y_true: ArrayLike, y_proba: ArrayLike, *, labels: ArrayLike | None = None
) -> Floats:
    """Give every row its expected zero-one loss under a randomised rule: 1 − p[true label].

    Parameters
    ----------
    y_true, y_proba, labels
        As in `cvar_zero_one_loss`.

    Returns
    -------
    float64 ndarray of shape (n,)
        Losses in [0, 1].

    Raises
    ------
    ValueError
        Empty input; lengths that differ; a missing label; a label not in ``labels``; shares that are no
        probabilities.
    """
    truth = _column("y_true", y_true)
    shares = _shares(y_proba, len(truth))
    names = np.unique(truth) if labels is None else _label_set(labels)
    if shares.shape[1] != len(names):
        hint = "; pass labels=, the label of each column, if y_true lacks some" if labels is None else ""
        origin = "y_true" if labels is None else "labels"
        raise ValueError(
            f"y_proba has a column for each of {shares.shape[1]} labels, {origin} has {len(names)}{hint}"
        )
    codes = _codes("y_true", truth, names)
    losses: Floats = np.clip(1.0 - shares[np.arange(len(truth)), codes], 0.0, 1.0)
    return losses


def class_errors(
    y_true: ArrayLike,
    y_pred: ArrayLike,
    *,
    sample_weight: ArrayLike | None = None,
    labels: ArrayLike | None = None,
) -> dict[Any, float]:
    """Error rate within each class: 1 − recall.

    Parameters
    ----------
    y_true, y_pred : array-like of shape (n,)
        True and predicted labels.
    sample_weight : array-like of shape (n,), default=None
        Non-negative weights, not all zero; weight 2 is the row twice, weight 0 no row.
    labels : array-like of shape (K,), default=None
        The classes to report, in this order. None reports the sorted labels of ``y_true``.

    Returns
    -------
    dict
        Error rate in [0, 1] per class, keyed by the label (a Python number or str); NaN for a class in
        ``labels`` without rows.

    Raises
    ------
    ValueError
        Empty input; lengths that differ; a missing label; a label not in ``labels``; weights that are
        negative or all zero.

    Examples
    --------
    >>> from tailboost.metrics import class_errors
    >>> class_errors(["a", "a", "b", "b"], ["a", "b", "b", "b"])
    {'a': 0.5, 'b': 0.0}
    """
    truth = _column("y_true", y_true)
    return _class_means(truth, _zero_one(truth, y_pred, labels), sample_weight, labels)


def expected_class_errors(
    y_true: ArrayLike,
    y_proba: ArrayLike,
    *,
    sample_weight: ArrayLike | None = None,
    labels: ArrayLike | None = None,
) -> dict[Any, float]:
    """Error rate of a randomised rule within each class: the mean of 1 − p[true label].

    Parameters
    ----------
    y_true, y_proba, labels
        As in `cvar_zero_one_loss`.
    sample_weight : array-like of shape (n,), default=None
        As in `class_errors`.

    Returns
    -------
    dict
        As from `class_errors`.

    Raises
    ------
    ValueError
        As in `cvar_zero_one_loss`.
    """
    losses = expected_zero_one_losses(y_true, y_proba, labels=labels)
    return _class_means(_column("y_true", y_true), losses, sample_weight, labels)


def worst_class_error(
    y_true: ArrayLike,
    y_pred: ArrayLike,
    *,
    sample_weight: ArrayLike | None = None,
    labels: ArrayLike | None = None,
) -> float:
    """Largest error rate of a class; classes without rows do not count.

    Parameters
    ----------
    y_true, y_pred, sample_weight, labels
        As in `class_errors`.

    Returns
    -------
    float
        In [0, 1].

    Raises
    ------
    ValueError
        As in `class_errors`.
    """
    return _worst(class_errors(y_true, y_pred, sample_weight=sample_weight, labels=labels))


def group_errors(
    y_true: ArrayLike,
    y_pred: ArrayLike,
    groups: ArrayLike,
    *,
    sample_weight: ArrayLike | None = None,
) -> dict[Any, float]:
    """Error rate within each group.

    Parameters
    ----------
    y_true, y_pred : array-like of shape (n,)
        True and predicted labels.
    groups : array-like of shape (n,)
        The group of each row: numbers or text, none missing.
    sample_weight : array-like of shape (n,), default=None
        Non-negative weights, not all zero; weight 2 is the row twice, weight 0 no row.

    Returns
    -------
    dict
        Error rate in [0, 1] per group, keyed by the group (a Python number or str), in sorted order.

    Raises
    ------
    ValueError
        Empty input; lengths that differ; a missing label or group; weights that are negative or all zero.
    """
    truth = _column("y_true", y_true)
    return _group_means(groups, _zero_one(truth, y_pred), sample_weight)


def expected_group_errors(
    y_true: ArrayLike,
    y_proba: ArrayLike,
    groups: ArrayLike,
    *,
    sample_weight: ArrayLike | None = None,
    labels: ArrayLike | None = None,
) -> dict[Any, float]:
    """Error rate of a randomised rule within each group: the mean of 1 − p[true label].

    Parameters
    ----------
    y_true, y_proba, labels
        As in `cvar_zero_one_loss`.
    groups, sample_weight
        As in `group_errors`.

    Returns
    -------
    dict
        As from `group_errors`.

    Raises
    ------
    ValueError
        As in `cvar_zero_one_loss` and `group_errors`.
    """
    losses = expected_zero_one_losses(y_true, y_proba, labels=labels)
    return _group_means(groups, losses, sample_weight)


def worst_group_error(
    y_true: ArrayLike,
    y_pred: ArrayLike,
    groups: ArrayLike,
    *,
    sample_weight: ArrayLike | None = None,
) -> float:
    """Largest error rate of a group.

    Parameters
    ----------
    y_true, y_pred, groups, sample_weight
        As in `group_errors`.

    Returns
    -------
    float
        In [0, 1].

    Raises
    ------
    ValueError
        As in `group_errors`.
    """
    return _worst(group_errors(y_true, y_pred, groups, sample_weight=sample_weight))


def make_cvar_scorer(alpha: float) -> CVaRScorer:
    """Make a scorer of the CVaR of the expected zero-one loss, for ``GridSearchCV`` and friends.

    Parameters
    ----------
    alpha : float in (0, 1]
        Share of the rows in the tail.

    Returns
    -------
    CVaRScorer
        ``scorer(clf, X, y, sample_weight=None)`` is −CVaR: greater is better.

    Raises
    ------
    ValueError
        ``alpha`` outside (0, 1].

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.dummy import DummyClassifier
    >>> from sklearn.model_selection import cross_val_score
    >>> from tailboost.metrics import make_cvar_scorer
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> always_the_larger_class = DummyClassifier(strategy="most_frequent")
    >>> float(cross_val_score(always_the_larger_class, X, y, scoring=make_cvar_scorer(0.1)).mean())
    -1.0
    """
    return CVaRScorer(check_number(alpha, "alpha", 0, 1))


class CVaRScorer(BaseEstimator):
    """−CVaR of the expected zero-one loss of ``predict_proba``, made by `make_cvar_scorer`.

    The columns are named by the classifier's ``classes_``, so a test fold may lack a class. It is a metadata
    consumer: ``set_score_request(sample_weight=True)`` asks for the weights of the test rows.

    Parameters
    ----------
    alpha : float in (0, 1]
        Share of the rows in the tail.
    """

    __metadata_request__score = {"estimator": UNUSED}  # noqa: RUF012  (scikit-learn reads a plain dict)

    def __init__(self, alpha: float) -> None:
        self.alpha = alpha

    def score(self, estimator: Any, X: Any, y: Any, sample_weight: ArrayLike | None = None) -> float:
        """Score a fitted classifier: −CVaR, greater is better."""
        shares = estimator.predict_proba(X)
        return -cvar_zero_one_loss(
            y, shares, self.alpha, sample_weight=sample_weight, labels=estimator.classes_
        )

    __call__ = score


# --- one place for every check and every mean ---------------------------------------------------------------


def _class_means(
    truth: Labels, losses: Floats, sample_weight: ArrayLike | None, labels: ArrayLike | None
) -> dict[Any, float]:
    weight = _weights(sample_weight, len(truth))
    names = np.unique(truth[weight > 0]) if labels is None else _label_set(labels)
    return _means("y_true", truth, names, losses, weight)


def _group_means(groups: ArrayLike, losses: Floats, sample_weight: ArrayLike | None) -> dict[Any, float]:
    membership = _column("groups", groups)
    _check_rows("groups", membership, len(losses))
    weight = _weights(sample_weight, len(losses))
    return _means("groups", membership, np.unique(membership[weight > 0]), losses, weight)


def _means(unit_name: str, units: Labels, names: Labels, losses: Floats, weight: Floats) -> dict[Any, float]:
    """Mean loss per unit; a unit without weight has none (NaN)."""
    here = weight > 0
    codes = _codes(unit_name, units[here], names)
    mass = np.bincount(codes, weight[here], minlength=len(names))
    total = np.bincount(codes, weight[here] * losses[here], minlength=len(names))
    means = np.divide(total, mass, out=np.full(len(names), np.nan), where=mass > 0)
    return dict(zip(names.tolist(), means.tolist(), strict=True))


def _worst(errors: dict[Any, float]) -> float:
    return float(np.nanmax(list(errors.values())))


def _zero_one(truth: Labels, y_pred: ArrayLike, labels: ArrayLike | None = None) -> Floats:
    predicted = _column("y_pred", y_pred)
    _check_rows("y_pred", predicted, len(truth))
    _check_kind("y_pred", predicted, "y_true", truth)
    if labels is not None:
        _codes("y_pred", predicted, _label_set(labels))
    return (truth != predicted).astype(np.float64)


def _codes(name: str, values: Labels, names: Labels) -> NDArray[np.intp]:
    """Place of each value among the names."""
    _check_kind(name, values, "labels", names)
    order = np.argsort(names)
    place = order[np.searchsorted(names, values, sorter=order).clip(max=len(names) - 1)]
    if (stray := names[place] != values).any():
        raise ValueError(
            f"{name} holds {np.unique(values[stray])[:5].tolist()}, not among the labels {names.tolist()}"
        )
    return place


def _column(name: str, values: ArrayLike) -> Labels:
    """Labels as an array of numbers or of text, none missing."""
    array = np.asarray(values)
    _check_rows(name, array)
    if array.dtype == object or array.dtype.kind == "T":
        kinds = {type(value) for value in array.tolist()}
        if all(issubclass(kind, str) for kind in kinds):
            array = array.astype(str)
        elif all(issubclass(kind, (bool, int, float, np.number, np.bool_)) for kind in kinds):
            array = np.array(array.tolist())
        else:
            found = ", ".join(sorted(kind.__name__ for kind in kinds))
            raise ValueError(f"{name} must hold numbers or text, none missing; found values of type {found}")
    if array.dtype.kind not in "biufU":
        raise ValueError(f"{name} must hold numbers or text, got dtype {array.dtype}")
    if array.dtype.kind == "f" and np.isnan(array).any():
        raise ValueError(f"{name} holds NaN; every row needs a value")
    return array


def _label_set(labels: ArrayLike) -> Labels:
    names = _column("labels", labels)
    if len(np.unique(names)) < len(names):
        raise ValueError(f"labels must differ, got {names.tolist()}")
    return names


def _shares(y_proba: ArrayLike, n: int) -> Floats:
    """Rows of probabilities; for two classes the column of the first label may have been left out."""
    given = np.asarray(y_proba)
    if given.ndim not in (1, 2) or given.dtype.kind not in "biuf":
        raise ValueError(
            f"y_proba must be numbers of shape (n, K) or (n,), got dtype {given.dtype}, shape {given.shape}"
        )
    # Learners work in float32 as well, so rows of honest shares may miss 1 by that much.
    eps = np.finfo(given.dtype).eps if given.dtype.kind == "f" else 0.0
    tolerance = max(1e-6, float(np.sqrt(eps)))
    shares = given.astype(np.float64)
    if shares.ndim == 1:
        shares = np.column_stack([1.0 - shares, shares])
    if len(shares) != n:
        raise ValueError(f"y_proba has {len(shares)} rows, y_true has {n}")
    bad = ~((shares >= -tolerance) & (shares <= 1.0 + tolerance)).all(axis=1)  # NaN is bad too
    bad |= ~(np.abs(shares.sum(axis=1) - 1.0) <= tolerance)
    if bad.any():
        row = int(np.flatnonzero(bad)[0])
        raise ValueError(
            f"y_proba must hold probabilities in [0, 1] that sum to 1 in each row; row {row} is "
            f"{given[row].tolist()}"
        )
    return shares


def _weights(sample_weight: ArrayLike | None, n: int) -> Floats:
    """Weights of the rows, the largest 1."""
    if sample_weight is None:
        return np.ones(n)
    weight: Floats = check_array(
        sample_weight, ensure_2d=False, ensure_min_samples=0, dtype=np.float64, input_name="sample_weight"
    )
    if weight.shape != (n,):
        raise ValueError(f"sample_weight must have shape ({n},), one weight per row, got {weight.shape}")
    if weight.min() < 0:
        raise ValueError(f"sample_weight must not be negative, got {weight.min()}")
    if not weight.any():
        raise ValueError("sample_weight: all weights are zero, at least one must be positive")
    return weight / weight.max()


def _check_rows(name: str, array: Labels, n: int | None = None) -> None:
    if array.ndim != 1:
        raise ValueError(f"{name} must have one dimension, got shape {array.shape}")
    if not len(array):
        raise ValueError(f"{name} is empty; at least one value is needed")
    if n is not None and len(array) != n:
        raise ValueError(f"{name} has {len(array)} rows, y_true has {n}")


def _check_kind(name: str, values: Labels, other_name: str, others: Labels) -> None:
    """Refuse to compare text with numbers: every answer would be wrong, and silently."""
    if (values.dtype.kind == "U") != (others.dtype.kind == "U"):
        kind = {True: "text", False: "numbers"}
        raise ValueError(
            f"{name} holds {kind[values.dtype.kind == 'U']}, {other_name} {kind[others.dtype.kind == 'U']}"
        )
