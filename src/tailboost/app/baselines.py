"""Baselines of every comparison: the usual methods for rare classes and groups."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, ClassifierMixin, MetaEstimatorMixin, clone
from sklearn.ensemble import RandomForestClassifier, VotingClassifier
from sklearn.model_selection import StratifiedKFold, cross_val_predict
from sklearn.utils import Tags, check_consistent_length, get_tags
from sklearn.utils.class_weight import compute_sample_weight
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted

from tailboost import rates
from tailboost.core.array_types import Floats, Ints, Labels, Model, Seed, Table
from tailboost.core.checks import check_length, check_number, label_column, label_vector
from tailboost.core.long_work import fitting_apart
from tailboost.learners.named import plain_xgboost

# Lower bound of the probabilities, so a large weight can select a class with probability 0.
LEAST_PROBABILITY = 1e-6
SWEEPS = 10  # sweeps of line searches over the classes
# Additional starts of the line searches for more than two classes, and their standard deviation. They
# lowered the overall error by .004 on yeast and ecoli.
RESTARTS = 10
JUMP = 0.5


def adjusted_answers(probabilities: ArrayLike, log_weights: ArrayLike) -> Ints:
    """Return the class numbers ``argmax_k log p_k + log w_k``; weights have shape (K,) or (n, K)."""
    return (_logarithms(probabilities) + np.asarray(log_weights)).argmax(axis=1)


def _logarithms(probabilities: ArrayLike) -> Floats:
    """Return the logarithms of probabilities, of at least `LEAST_PROBABILITY`."""
    P = np.asarray(probabilities, dtype=np.float64)
    return np.log(np.maximum(P, LEAST_PROBABILITY))


def tune_class_weights(
    probabilities: ArrayLike, y: ArrayLike, *, error_budget: float | None = None
) -> tuple[Floats, float, float]:
    """Return log class weights with the lowest worst-class error on given rows, and both errors.

    For two classes the result is the best threshold. For more classes it is a local optimum of line searches
    for one class after the other. Ties are broken by the overall error.

    Parameters
    ----------
    probabilities : array-like of shape (n, K), in [0, 1]
        Out-of-fold or held-out class probabilities.
    y : array-like of shape (n,)
        Class numbers, 0 to K − 1. Classes without rows are ignored.
    error_budget : float ≥ 0, default=None
        Largest increase of the overall error relative to equal weights. None sets no limit.
    """
    search = _Search(_logarithms(probabilities), np.asarray(y, dtype=np.intp), error_budget)
    starts = np.zeros((1, search.K))
    if search.K > 2:
        random_starts = np.random.default_rng(0).normal(scale=JUMP, size=(RESTARTS, search.K))
        starts = np.vstack([starts, random_starts])
    best = min(map(search.descend, starts), key=search.score)
    _, worst, overall = search.score(best)
    return best - best.mean(), worst, overall  # a constant changes no answer


class _Search:
    """Worst-class and overall error as functions of log class weights."""

    def __init__(self, logarithms: Floats, y: Ints, error_budget: float | None) -> None:
        self.logarithms = logarithms
        self.y = y
        self.n, self.K = logarithms.shape
        self.counts = np.bincount(y, minlength=self.K)
        self.present = np.flatnonzero(self.counts).tolist()  # classes with rows
        self.limit = np.inf  # of the overall error
        if error_budget is not None:
            wrong_by_equal_weights = rates.wrong(logarithms.argmax(axis=1), y)
            self.limit = float(np.mean(wrong_by_equal_weights)) + error_budget

    def errors(self, log_weights: Floats) -> Floats:
        """Return the error of each class, 0 for a class without rows."""
        wrong = rates.wrong((self.logarithms + log_weights).argmax(axis=1), self.y)
        n_wrong = np.bincount(self.y[wrong], minlength=self.K)
        return n_wrong / np.maximum(self.counts, 1)  # 1: no division by 0 rows

    def score(self, log_weights: Floats) -> tuple[float, float, float]:
        """Return (overall error above the limit, worst class, overall error); lower is better."""
        errors = self.errors(log_weights)
        overall = float(errors @ self.counts) / self.n
        return max(overall - self.limit, 0.0), float(errors.max()), overall

    def descend(self, log_weights: Floats) -> Floats:
        """Search along one class after the other until a sweep brings no improvement."""
        for _ in range(SWEEPS):
            before = self.score(log_weights)
            for k in self.present:
                log_weights = self.with_best_weight(k, log_weights)
            if self.score(log_weights) >= before:
                break
        return log_weights

    def with_best_weight(self, k: int, log_weights: Floats) -> Floats:
        """Return the log weights with the best weight of class k, the other weights unchanged.

        A row is answered k if the weight is above its threshold. So the weights between two neighbours among
        the sorted thresholds have the same errors, and one pass over the rows counts all of them.
        """
        scores = self.logarithms + log_weights
        scores[:, k] = -np.inf
        right_without_k = scores.argmax(axis=1) == self.y
        thresholds = scores.max(axis=1) - self.logarithms[:, k]
        order = np.argsort(thresholds, kind="stable")
        thresholds = thresholds[order]
        y = self.y[order]
        # Row i ≥ 1: change of the wrong rows of each class if the i-th row of this order is answered k, too.
        changes = np.zeros((self.n + 1, self.K), dtype=np.int64)
        changes[0] = np.bincount(self.y[~right_without_k], minlength=self.K)
        changes[np.arange(1, self.n + 1), y] = np.where(y == k, -1, right_without_k[order])
        errors = changes.cumsum(axis=0) / np.maximum(self.counts, 1)  # shape (n + 1, K)
        overall = errors @ self.counts / self.n
        excess = np.maximum(overall - self.limit, 0.0)
        # The weights with row i of the errors are between edges i and i + 1.
        edges = np.concatenate([[thresholds[0] - 2.0], thresholds, [thresholds[-1] + 2.0]])
        possible = np.flatnonzero(np.diff(edges) > 0)  # no weight is between equal thresholds
        # The first key is the excess, then the worst class, then the overall error, as in `score`.
        ranks = np.lexsort((overall[possible], errors.max(axis=1)[possible], excess[possible]))
        best = possible[ranks[0]]
        moved = log_weights.copy()
        moved[k] = (edges[best] + edges[best + 1]) / 2
        return min(log_weights, moved, key=self.score)  # the old weight may be as good


def checked_labels(X: Table, y: ArrayLike) -> Labels:
    """Return one label per row of X; errors have scikit-learn's messages."""
    if y is None:
        raise ValueError("this classifier requires y to be passed, but the target y is None")
    check_consistent_length(X, y)
    labels = label_vector(y, warn=True)
    if not len(labels):
        raise ValueError("there are 0 rows; a fit needs at least one")
    check_classification_targets(labels)
    return labels


def cell_weights(y: ArrayLike, groups: ArrayLike | None = None) -> Floats:
    """Return sample weights with mean 1 and the same sum in each class, or class × group cell, shape (n,)."""
    _, cell = np.unique(np.asarray(y), return_inverse=True)  # the class, then the cell
    if groups is not None:
        _, group = np.unique(label_column(groups, "groups"), return_inverse=True)
        check_length(group, "groups", len(cell), of="y")
        n_groups = group.max() + 1
        cell = cell * n_groups + group
    return compute_sample_weight("balanced", cell)


class MetaClassifier(MetaEstimatorMixin, ClassifierMixin, BaseEstimator):
    """Base of classifiers around another one: the fitted ``estimator`` is ``estimator_``."""

    estimator: Model
    estimator_: Any

    def predict_proba(self, X: Table) -> Floats:
        """Return the class probabilities of ``estimator_``, shape (n, K)."""
        check_is_fitted(self)
        return self.estimator_.predict_proba(X)

    @property
    def n_features_in_(self) -> int:
        """Number of features."""
        check_is_fitted(self)
        return int(self.estimator_.n_features_in_)

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        inner = get_tags(self.estimator)
        tags.input_tags = inner.input_tags
        tags.classifier_tags.multi_class = inner.classifier_tags.multi_class
        return tags


class CellWeightedClassifier(MetaClassifier):
    """Classifier fitted with balanced weights of classes or class × group cells.

    Parameters
    ----------
    estimator : classifier
        Its ``fit`` takes ``sample_weight``.

    Attributes
    ----------
    estimator_, classes_ : fitted classifier, ndarray of shape (K,)
        The classifier and the sorted labels.
    """

    def __init__(self, estimator: Model) -> None:
        self.estimator = estimator

    def fit(self, X: Table, y: ArrayLike, groups: ArrayLike | None = None) -> Self:
        """Fit the estimator, with equal total weight in each cell of class × group."""
        labels = checked_labels(X, y)
        weight = cell_weights(labels, groups)
        with fitting_apart(self) as fitted:
            fitted.estimator_ = clone(self.estimator).fit(X, labels, sample_weight=weight)
            fitted.classes_ = fitted.estimator_.classes_
        return self

    def predict(self, X: Table) -> Labels:
        """Return the predicted labels, shape (n,)."""
        check_is_fitted(self)
        return self.estimator_.predict(X)


class TunedThresholdClassifier(MetaClassifier):
    """Classifier with class weights tuned on out-of-fold probabilities for the worst class.

    The answer is ``argmax_k p_k(x) w_k``; for two classes this is ``p_1(x) > threshold``. scikit-learn's
    ``TunedThresholdClassifierCV`` takes only two classes and averages the scores of the folds on a grid of
    thresholds.

    Parameters
    ----------
    estimator : classifier
        Has ``predict_proba``.
    cv : int ≥ 2, default=5
        Number of stratified folds.
    error_budget : float ≥ 0, default=None
        As in `tune_class_weights`.
    random_state : int, RandomState or None, default=None
        Seed of the folds.
    n_jobs : int, default=None
        Number of folds fitted in parallel.

    Attributes
    ----------
    estimator_, classes_ : classifier fitted on all rows, ndarray of shape (K,)
        The classifier and the sorted labels.
    log_weights_ : ndarray of shape (K,)
        Logarithms of the class weights, with mean 0.
    worst_class_error_, mean_error_ : float
        Errors with ``log_weights_`` on the out-of-fold probabilities; they underestimate errors on new rows.
    """

    def __init__(
        self,
        estimator: Model,
        *,
        cv: int = 5,
        error_budget: float | None = None,
        random_state: Seed = None,
        n_jobs: int | None = None,
    ) -> None:
        self.estimator = estimator
        self.cv = cv
        self.error_budget = error_budget
        self.random_state = random_state
        self.n_jobs = n_jobs

    def fit(self, X: Table, y: ArrayLike) -> Self:
        """Compute out-of-fold probabilities, tune the weights, and fit ``estimator_`` on all rows."""
        if self.error_budget is not None:
            check_number(self.error_budget, "error_budget", 0.0, closed=True)
        labels = checked_labels(X, y)
        classes, class_numbers = np.unique(labels, return_inverse=True)
        folds = StratifiedKFold(self.cv, shuffle=True, random_state=self.random_state)
        P = cross_val_predict(
            self.estimator, X, labels, cv=folds, method="predict_proba", n_jobs=self.n_jobs
        )
        log_weights, worst_class_error, mean_error = tune_class_weights(
            P, class_numbers, error_budget=self.error_budget
        )
        with fitting_apart(self) as fitted:
            fitted.log_weights_ = log_weights
            fitted.worst_class_error_ = worst_class_error
            fitted.mean_error_ = mean_error
            fitted.estimator_ = clone(self.estimator).fit(X, labels)
            fitted.classes_ = classes
        return self

    def predict(self, X: Table) -> Labels:
        """Return the predicted labels, shape (n,)."""
        check_is_fitted(self)
        return self.classes_[adjusted_answers(self.predict_proba(X), self.log_weights_)]


def weighted(
    learner: Callable[..., Any], *, random_state: Seed = None, n_jobs: int | None = None
) -> CellWeightedClassifier:
    """Return a learner with balanced weights of classes or class × group cells.

    ``class_weight="balanced"`` is not used: scikit-learn 1.9 refuses it for the labels "0" and "1".
    """
    return CellWeightedClassifier(learner(random_state=random_state, n_jobs=n_jobs))


def tuned(
    learner: Callable[..., Any], *, random_state: Seed = None, n_jobs: int | None = None
) -> TunedThresholdClassifier:
    """Return a learner with class weights tuned out of fold."""
    estimator = learner(random_state=random_state, n_jobs=n_jobs)
    return TunedThresholdClassifier(estimator, random_state=random_state)


#: XGBoost with balanced weights of classes or, with groups, of class × group cells.
weighted_xgboost = partial(weighted, plain_xgboost)


def average(*, random_state: Seed = None, n_jobs: int | None = None) -> VotingClassifier:
    """Return the average of XGBoost and a random forest."""
    return VotingClassifier(
        [
            ("xgboost", plain_xgboost(random_state=random_state, n_jobs=n_jobs)),
            ("forest", RandomForestClassifier(random_state=random_state, n_jobs=n_jobs)),
        ],
        voting="soft",
    )
