"""Errors of classes, groups and tails: functions, curves and scorers.

A randomised rule that answers k with probability `y_proba[i, k]` has the expected zero-one loss 1 − p[true
label]. Nothing is drawn at random.
"""

from collections.abc import Iterable
from dataclasses import KW_ONLY
from math import isnan
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.metadata_routing import UNUSED

from tailboost import solvers
from tailboost.core import (
    Column,
    Floats,
    Groups,
    Model,
    Table,
    check_indexes,
    check_length,
    check_probabilities,
    check_weights,
    label_column,
    n_rows_of,
    parameters,
    positions,
)
from tailboost.core.ranges import check_alpha
from tailboost.rates import class_labels, error, measure, with_deferrals
from tailboost.rows import group_columns
from tailboost.selection.door import answering

__all__ = [
    "class_errors",
    "cvar",
    "cvar_curve",
    "cvar_zero_one_loss",
    "expected_zero_one_losses",
    "group_errors",
    "make_cvar_scorer",
    "make_worst_class_scorer",
    "worst_class_error",
]


def cvar(losses: Column, alpha: float, sample_weight: Column = None) -> float:
    """Mean loss over the worst ``alpha`` of the rows (conditional value at risk).

    CVaR_α(ℓ) = max { Σ w_i ℓ_i : Σ w_i = 1, 0 ≤ w_i ≤ p_i/α } with p the normalised weights [1]_.
    The value is exact also if α cuts through a row, which then counts in part.

    Parameters
    ----------
    losses : array-like of shape (n,)
        Finite losses of any scale.
    alpha : float in (0, 1]
        Fraction of the rows in the tail: 1 gives the mean; small values approach the maximum.
    sample_weight : array-like of shape (n,), default=None
        Non-negative weights, not all zero; weight 2 is the row twice. None means equal weights.

    Returns
    -------
    float
        In the unit of measurement of the losses.

    Raises
    ------
    ValueError
        If ``alpha`` is outside (0, 1], losses are empty or not finite, or weights are invalid.

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
    check_indexes(losses=losses, sample_weight=sample_weight)
    return solvers.cvar(losses, alpha, check_weights(sample_weight, n_rows_of(losses)))


def cvar_zero_one_loss(
    y_true: Column,
    y_proba: Table,
    alpha: float,
    *,
    sample_weight: Column = None,
    labels: Column = None,
) -> float:
    """CVaR of the expected zero-one loss of a randomised rule.

    The loss of a row is 1 − p[true label]. A deterministic rule has the CVaR min(1, error/α). A random guess
    among K labels has the CVaR 1 − 1/K at every α.

    Parameters
    ----------
    y_true : array-like of shape (n,)
        True labels.
    y_proba : array-like of shape (n, K), or (n,) for two classes
        Probability of each answer, with rows that sum to 1; of shape (n,), the probability of ``labels[1]``.
    alpha : float in (0, 1]
        Fraction of the rows in the tail: 1 gives the mean; small values approach the maximum.
    sample_weight : array-like of shape (n,), default=None
        Non-negative weights, not all zero; weight 2 is the row twice.
    labels : array-like of shape (K,), default=None
        Label of each column, as in ``classes_``. None takes the sorted labels of ``y_true``, which must then
        contain all K.

    Returns
    -------
    float
        In [0, 1].

    Raises
    ------
    ValueError
        If ``alpha`` is outside (0, 1], input is empty, lengths differ, a label is missing or not in
        ``labels``, or probabilities or weights are invalid.

    Examples
    --------
    >>> from tailboost.metrics import cvar_zero_one_loss
    >>> cvar_zero_one_loss([0, 1, 1, 1], [[1, 0], [1, 0], [0, 1], [0, 1]], alpha=0.5)
    0.5
    """
    return cvar_curve(
        y_true, y_proba, [alpha], sample_weight=sample_weight, labels=labels
    ).item()


def cvar_curve(
    y_true: Column,
    y_proba: Table,
    alphas: Iterable[float],
    *,
    sample_weight: Column = None,
    labels: Column = None,
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
        One value in [0, 1] per α; the values do not increase with α.

    Raises
    ------
    ValueError
        As in `cvar_zero_one_loss`.
    """
    check_indexes(y_true=y_true, sample_weight=sample_weight)
    losses = expected_zero_one_losses(y_true, y_proba, labels=labels)
    return np.array([cvar(losses, alpha, sample_weight) for alpha in alphas])


def expected_zero_one_losses(
    y_true: Column, y_proba: Table, *, labels: Column = None
) -> Floats:
    """Return the expected zero-one loss of each row under a randomised rule: 1 − p[true label].

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
        As in `cvar_zero_one_loss`.
    """
    check_indexes(y_true=y_true, y_proba=y_proba)
    truth = label_column(y_true, "y_true")
    names = np.unique(truth) if labels is None else class_labels(labels)
    check_length(y_proba, "y_proba", len(truth), "y_true")
    probabilities = check_probabilities(y_proba, classes=names)
    codes = positions(truth, names, "y_true", f"labels not among {names.tolist()}")
    # Rounding may exceed [0, 1].
    return np.clip(1.0 - probabilities[np.arange(len(truth)), codes], 0.0, 1.0)


def class_errors(
    y_true: Column,
    y_pred: Column,
    *,
    sample_weight: Column = None,
    labels: Column = None,
    deferred: Column = None,
) -> dict[Any, float]:
    """Error rate of each class: 1 − recall, if no row is deferred.

    Parameters
    ----------
    y_true : array-like of shape (n,)
        True labels.
    y_pred : array-like of shape (n,) or (n, K)
        Predicted labels. Or the label distribution of a randomised rule, as in `cvar_zero_one_loss`: the loss
        of a row is then 1 − p[true label]. The label "human review" is a deferred row.
    sample_weight : array-like of shape (n,), default=None
        Non-negative weights, not all zero; weight 2 is the row twice, weight 0 no row.
    labels : array-like of shape (K,), default=None
        The classes to report, in this order, and the label of each column of a distribution. None reports the
        sorted labels of ``y_true``.
    deferred : array-like of bool, shape (n,), default=None
        True for a row that was deferred to a human. A deferred row is no error, but stays in the denominator.

    Returns
    -------
    dict
        Error rate in [0, 1] per class, keyed by the label (a Python number or str); NaN for a class in
        ``labels`` without rows.

    Raises
    ------
    ValueError
        If input is empty, lengths differ, a label is missing or not in ``labels``, weights are invalid, or
        ``deferred`` is no mask.

    Examples
    --------
    >>> from tailboost.metrics import class_errors
    >>> class_errors(["a", "a", "b", "b"], ["a", "b", "b", "b"])
    {'a': 0.5, 'b': 0.0}
    """
    errors = measure(
        error(by="class"),
        y_true,
        y_pred,
        sample_weight=sample_weight,
        labels=labels,
        deferred=deferred,
    )
    return {  # without labels= a class that is answered alone is left out: it has no rows
        name: value for name, value in errors.items() if labels is not None or not isnan(value)
    }


def worst_class_error(
    y_true: Column,
    y_pred: Column,
    *,
    sample_weight: Column = None,
    labels: Column = None,
    deferred: Column = None,
) -> float:
    """Largest error rate of a class; classes without rows do not count.

    Parameters
    ----------
    y_true, y_pred, sample_weight, labels, deferred
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
    errors = class_errors(
        y_true, y_pred, sample_weight=sample_weight, labels=labels, deferred=deferred
    )
    return float(np.nanmax([*errors.values()]))


def group_errors(
    y_true: Column,
    y_pred: Column,
    groups: Groups,
    *,
    sample_weight: Column = None,
    labels: Column = None,
    deferred: Column = None,
) -> dict[Any, float]:
    """Error rate of each group.

    Parameters
    ----------
    y_true, y_pred
        As in `class_errors`.
    groups : array-like of shape (n,), or table of n rows
        Group of each row: numbers or text, none missing. In a table (a data frame, a dict of columns, an
        array of several columns), each column has groups.
    sample_weight : array-like of shape (n,), default=None
        Non-negative weights, not all zero; weight 2 is the row twice, weight 0 no row.
    labels : array-like of shape (K,), default=None
        All labels, in the order of the columns of a distribution.
    deferred : array-like of bool, shape (n,), default=None
        True for a row that was deferred to a human. A deferred row is no error, but stays in the denominator.

    Returns
    -------
    dict
        Error rate in [0, 1] per group in sorted order, keyed by the group (a Python number or str). For a
        table, the keys are (column, group), column by column. The largest error is ``max`` of the values.

    Raises
    ------
    ValueError
        If input is empty, lengths differ, a label or group is missing, or weights are invalid.
    """
    titles = [*group_columns(groups, "groups")]
    errors = measure(
        error(by="group"),
        y_true,
        y_pred,
        groups=groups,
        sample_weight=sample_weight,
        labels=labels,
        deferred=deferred,
    )
    is_titled = len(titles) == 1 and titles != [None] and np.ndim(groups) != 1
    return {
        (titles[0], name) if is_titled else name: value
        for name, value in errors.items()
        if not isnan(value)
    }


@parameters
class ErrorScorer(BaseEstimator):
    """Negative error of a fitted classifier, made by `make_cvar_scorer` and `make_worst_class_scorer`.

    The columns of a label distribution are the classifier's ``classes_``, so a test fold may lack a class. As
    a metadata consumer, the scorer accepts ``set_score_request(sample_weight=True)`` for the weights of the
    rows.

    Parameters
    ----------
    alpha : float in (0, 1], optional
        Score the CVaR of the expected zero-one loss at this α; None scores the largest error of a class.
    expected : bool, default=False
        Whether the largest error is that of ``predict_distribution`` instead of ``predict``.
    """

    alpha: float | None = None
    _: KW_ONLY
    expected: bool = False

    __metadata_request__score = {"estimator": UNUSED}  # noqa: RUF012  (a plain dict is read)

    def score(
        self, estimator: Model, X: Table, y: Column, sample_weight: Column = None
    ) -> float:
        """Return the negative error: greater is better.

        Parameters
        ----------
        estimator : classifier
            The fitted classifier.
        X : table of n rows
            Features.
        y : array-like of shape (n,)
            True labels.
        sample_weight : array-like of shape (n,), optional
            Weights of the rows.
        """
        check_indexes(X=X, y=y, sample_weight=sample_weight)
        rows = answering(estimator).score(X)
        answers = labels = None
        if self.expected or self.alpha is not None:
            answers = rows.shares()
            labels = estimator.classes_
        if answers is None:
            answers = rows.answers()
        if self.alpha is None:
            return -worst_class_error(y, answers, sample_weight=sample_weight, labels=labels)
        if answers.ndim == 1:  # each has probability 1; a deferred row has that of its label
            answers, _, _ = with_deferrals(answers, None, label_column(y, "y"), labels)
            answers = answers[:, None] == labels
        return -cvar_zero_one_loss(
            y, answers, self.alpha, sample_weight=sample_weight, labels=labels
        )

    __call__ = score


def make_cvar_scorer(alpha: float) -> ErrorScorer:
    """Scorer of the CVaR of the expected zero-one loss, for example for ``GridSearchCV``.

    The loss of a randomised rule is expected by its ``predict_distribution``. Of any other classifier it is
    the loss of ``predict``, with the CVaR min(1, error/α), whatever its ``predict_proba``.

    Parameters
    ----------
    alpha : float in (0, 1]
        Fraction of the rows in the tail.

    Returns
    -------
    ErrorScorer
        ``scorer(clf, X, y, sample_weight=None)`` is −CVaR: greater is better.

    Raises
    ------
    ValueError
        If ``alpha`` is outside (0, 1].

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.dummy import DummyClassifier
    >>> from sklearn.model_selection import cross_val_score
    >>> from tailboost.metrics import make_cvar_scorer
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> always_the_larger_class = DummyClassifier(strategy="most_frequent")
    >>> cross_val_score(always_the_larger_class, X, y, scoring=make_cvar_scorer(0.1)).round(3)
    array([-1., -1., -1., -1., -1.])
    """
    return ErrorScorer(check_alpha(alpha))


def make_worst_class_scorer(*, expected: bool = False) -> ErrorScorer:
    """Scorer of the largest error of a class, for example for ``GridSearchCV``.

    Parameters
    ----------
    expected : bool, default=False
        Whether to score the randomised rule with ``predict_distribution`` instead of ``predict``. Classifiers
        without a randomised rule have the same score.

    Returns
    -------
    ErrorScorer
        ``scorer(clf, X, y, sample_weight=None)`` is −(largest error): greater is better. Classes without rows
        in y do not count.

    Examples
    --------
    Saito et al. 2024 select the target by the worst-class error on validation rows:

    >>> from sklearn.datasets import load_wine
    >>> from sklearn.model_selection import GridSearchCV, StratifiedShuffleSplit
    >>> from tailboost import WorstClassBoostClassifier
    >>> from tailboost.learners import HistBoostClassifier
    >>> from tailboost.metrics import make_worst_class_scorer
    >>> X, y = load_wine(return_X_y=True)
    >>> learner = HistBoostClassifier(n_estimators=5)
    >>> clf = WorstClassBoostClassifier(learner, gamma=0.3, random_state=0)
    >>> search = GridSearchCV(
    ...     clf,
    ...     {"theta": [0.4, 0.7, 0.95]},
    ...     scoring=make_worst_class_scorer(),
    ...     cv=StratifiedShuffleSplit(1, test_size=0.3, random_state=0),
    ... )
    >>> search.fit(X, y).best_params_["theta"] in (0.4, 0.7, 0.95)
    True
    """
    return ErrorScorer(expected=expected)
