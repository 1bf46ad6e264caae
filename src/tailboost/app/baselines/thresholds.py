"""Class weights on probabilities, tuned out of fold: what a good practitioner does about a bad class."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import clone
from sklearn.model_selection import StratifiedKFold, cross_val_predict
from sklearn.utils.validation import check_is_fitted

from tailboost import rates
from tailboost.app.baselines.weights import MetaClassifier, checked_labels
from tailboost.core.array_types import Floats, Ints, Labels
from tailboost.core.checks import check_length, check_number, label_column, n_rows_of

# Least probability: a class to which a forest gives 0 can still be answered if its weight is large enough.
LEAST_PROBABILITY = 1e-6
# Steps of Hedge over the classes, its rate, and how finely the way back to equal weights is searched.
STEPS, RATE, WAY_BACK = 200, 1.0, 21
# Sweeps of exact searches, one class after the other; for more than two classes, searches from points near
# the best one, and how far from it: on yeast and ecoli they lowered the mean error by .004.
SWEEPS, RESTARTS, JUMP = 10, 10, 0.5
# A group with fewer rows of a class than this takes the weights of all rows: its own would be noise.
FEWEST = 30


def adjusted_answers(probabilities: ArrayLike, log_weights: ArrayLike) -> Ints:
    """Answer ``argmax_k log p_k + log w_k``, class numbers; weights have shape (K,) or (n, K)."""
    return (_logarithms(probabilities) + np.asarray(log_weights)).argmax(axis=1)


def _logarithms(probabilities: ArrayLike) -> Floats:
    logarithms: Floats = np.log(np.maximum(np.asarray(probabilities, dtype=np.float64), LEAST_PROBABILITY))
    return logarithms


def tune_class_weights(
    probabilities: ArrayLike, y: ArrayLike, *, error_budget: float | None = None
) -> tuple[Floats, float, float]:
    """Find class weights whose answers have the least worst-class error on given rows.

    For two classes the optimum over all thresholds, found by sorting. For more, Hedge over the classes from
    equal weights, then the best point between its best iterate and equal weights, then exact searches for
    one class after the other, from there and from points around it: a local optimum. Among equal worst-class
    errors the least mean error counts.

    Parameters
    ----------
    probabilities : array-like of shape (n, K), in [0, 1]
        Of rows that the model was not fitted on.
    y : array-like of shape (n,)
        Class numbers, 0 to K − 1. Classes without rows do not count.
    error_budget : float ≥ 0, default=None
        The most mean error that may be paid, beside that of equal weights. None pays any.

    Returns
    -------
    log_weights : ndarray of shape (K,)
        Logarithms of the weights; their mean is 0.
    worst, mean : float
        Errors of the answers on these rows.

    Examples
    --------
    >>> from tailboost.app.baselines import tune_class_weights
    >>> P = [[0.9, 0.1], [0.8, 0.2], [0.7, 0.3], [0.6, 0.4]]
    >>> log_weights, worst, mean = tune_class_weights(P, [0, 0, 1, 1])
    >>> worst, mean
    (0.0, 0.0)
    """
    search = _Search(_logarithms(probabilities), np.asarray(y, dtype=np.intp), error_budget)
    best = search.hedge()
    best = min((scale * best for scale in np.linspace(0.0, 1.0, WAY_BACK)), key=search.score)
    rng = np.random.default_rng(0)
    restarts = RESTARTS if search.K > 2 else 0
    starts = [best, *(best + rng.normal(scale=JUMP, size=search.K) for _ in range(restarts))]
    best = min(map(search.descend, starts), key=search.score)
    _, worst, mean = search.score(best)
    return best - best.mean(), worst, mean


def tune_group_weights(
    probabilities: ArrayLike, y: ArrayLike, groups: ArrayLike, *, error_budget: float | None = None
) -> tuple[Floats, dict[Any, Floats]]:
    """Find class weights for every group by itself, which makes the worst class × group cell small.

    Returned are the logarithms of weights tuned on all rows, as by `tune_class_weights`, and those of each
    group with at least 30 rows of every class; weights tuned on fewer would be noise.
    """
    P, index = np.asarray(probabilities), np.asarray(y, dtype=np.intp)
    column = label_column(groups, "groups")
    by_group = {}
    for name in np.unique(column):
        rows = column == name
        if np.bincount(index[rows], minlength=P.shape[1]).min() >= FEWEST:
            by_group[name.item()] = tune_class_weights(P[rows], index[rows], error_budget=error_budget)[0]
    return tune_class_weights(P, index, error_budget=error_budget)[0], by_group


def weights_of_rows(groups: ArrayLike, log_weights: Floats, by_group: dict[Any, Floats]) -> Floats:
    """Return the weights that `tune_group_weights` found for the group of each row, shape (n, K)."""
    found = [by_group.get(name, log_weights) for name in np.asarray(groups).tolist()]
    return np.array(found, dtype=np.float64).reshape(-1, len(log_weights))


class _Search:
    """Worst-class and mean error as functions of the logarithms of class weights."""

    def __init__(self, logarithms: Floats, y: Ints, error_budget: float | None) -> None:
        self.logarithms, self.y = logarithms, y
        self.n, self.K = logarithms.shape
        self.counts = np.bincount(y, minlength=self.K)
        self.present = np.flatnonzero(self.counts).tolist()
        self.most = np.inf
        if error_budget is not None:
            self.most = float(np.mean(rates.wrong(logarithms.argmax(axis=1), y))) + error_budget

    def errors(self, log_weights: Floats) -> Floats:
        """Return the error of each class, 0 for one without rows."""
        wrong = rates.wrong((self.logarithms + log_weights).argmax(axis=1), self.y)
        return np.bincount(self.y[wrong], minlength=self.K) / np.maximum(self.counts, 1)

    def score(self, log_weights: Floats) -> tuple[float, float, float]:
        """Return (mean error above what may be paid, worst class, mean error): less is better."""
        errors = self.errors(log_weights)
        mean = float(errors @ self.counts) / self.n
        return max(mean - self.most, 0.0), float(errors.max()), mean

    def hedge(self) -> Floats:
        """Return the best iterate of Hedge over the classes that have rows."""
        log_weights = np.zeros(self.K)
        best, least = log_weights, self.score(log_weights)
        for step in range(STEPS):
            errors = self.errors(log_weights)[self.present]
            moved = log_weights.copy()
            moved[self.present] += RATE / np.sqrt(1 + step / 10) * (errors - errors.mean())
            log_weights = moved
            if (found := self.score(log_weights)) < least:
                best, least = log_weights, found
        return best

    def descend(self, log_weights: Floats) -> Floats:
        """Search along one class after the other until no sweep improves."""
        for _ in range(SWEEPS):
            before = self.score(log_weights)
            for k in self.present:
                log_weights = self.along(k, log_weights)
            if self.score(log_weights) >= before:
                break
        return log_weights

    def along(self, k: int, log_weights: Floats) -> Floats:
        """Return the weights with the best one for class k: row i is answered k from a threshold on."""
        scores = self.logarithms + log_weights
        own = self.logarithms[:, k]
        scores[:, k] = -np.inf
        threshold = scores.max(axis=1) - own
        right_otherwise = scores.argmax(axis=1) == self.y
        order = np.argsort(threshold, kind="stable")
        cuts = threshold[order]
        # Number of wrong rows of each class once the first rows in this order are answered k.
        lost = np.zeros((self.n + 1, self.K), dtype=np.int64)
        lost[1:][np.arange(self.n), self.y[order]] = np.where(self.y[order] == k, -1, right_otherwise[order])
        lost[0] = np.bincount(self.y[~right_otherwise], minlength=self.K)
        errors = lost.cumsum(axis=0) / np.maximum(self.counts, 1)
        mean, worst = errors @ self.counts / self.n, errors.max(axis=1)
        # Between two rows that differ; equal thresholds can only be passed together.
        edges = np.concatenate([[cuts[0] - 2.0], cuts, [cuts[-1] + 2.0]])
        possible = np.flatnonzero(np.diff(edges) > 0)
        best = possible[
            np.lexsort((mean[possible], worst[possible], np.maximum(mean[possible] - self.most, 0.0)))[0]
        ]
        moved = log_weights.copy()
        moved[k] = (edges[best] + edges[best + 1]) / 2
        return min(log_weights, moved, key=self.score)


class TunedThresholdClassifier(MetaClassifier):
    """Any classifier with class weights tuned on out-of-fold probabilities for its worst class.

    Answers ``argmax_k p_k(x) w_k``, for two classes ``p_1(x) > threshold``. With groups, every group has its
    own weights, tuned on its rows alone, which makes the worst class × group cell small; groups are then
    needed at prediction. scikit-learn's ``TunedThresholdClassifierCV`` takes two classes only and averages
    the scores of the folds on a grid of thresholds; where a fold has three rows of the rare class, that is a
    noisy choice.

    Parameters
    ----------
    estimator : classifier with ``predict_proba``
    objective : {"worst_class"}, default="worst_class"
        What the weights make small.
    cv : int ≥ 2, default=5
        Number of stratified folds.
    error_budget : float ≥ 0, default=None
        The most mean error that may be paid, beside that of equal weights; None pays any.
    random_state : int, RandomState or None, default=None
        Seed of the folds.
    n_jobs : int, default=None
        Folds fitted at once.

    Attributes
    ----------
    estimator_ : classifier
        Fitted on all rows.
    classes_ : ndarray of shape (K,)
    log_weights_ : ndarray of shape (K,)
        Logarithms of the class weights; their mean is 0.
    group_log_weights_ : dict of ndarray, or None
        Those of each group with at least 30 rows of every class; the others take ``log_weights_``. None
        without groups.
    worst_class_error_, mean_error_ : float
        Of ``log_weights_`` on the out-of-fold probabilities it was tuned on: too low for fresh rows.

    Examples
    --------
    >>> from sklearn.datasets import load_wine
    >>> from sklearn.ensemble import RandomForestClassifier
    >>> from tailboost.app.baselines import TunedThresholdClassifier
    >>> X, y = load_wine(return_X_y=True)
    >>> clf = TunedThresholdClassifier(RandomForestClassifier(random_state=0), random_state=0).fit(X, y)
    >>> clf.predict(X[:3])
    array([0, 0, 0])
    """

    def __init__(
        self,
        estimator: Any,
        *,
        objective: str = "worst_class",
        cv: int = 5,
        error_budget: float | None = None,
        random_state: Any = None,
        n_jobs: int | None = None,
    ) -> None:
        self.estimator = estimator
        self.objective = objective
        self.cv = cv
        self.error_budget = error_budget
        self.random_state = random_state
        self.n_jobs = n_jobs

    def fit(self, X: Any, y: ArrayLike, groups: ArrayLike | None = None) -> Self:
        """Fit on every fold's complement, tune, and fit on all rows; the names of groups are any labels."""
        if self.objective != "worst_class":
            raise ValueError(f"objective must be 'worst_class', got {self.objective!r}")
        if self.error_budget is not None:
            check_number(self.error_budget, "error_budget", 0.0, closed=True)
        labels = checked_labels(X, y)
        self.classes_, index = np.unique(labels, return_inverse=True)
        folds = StratifiedKFold(self.cv, shuffle=True, random_state=self.random_state)
        P = cross_val_predict(self.estimator, X, labels, cv=folds, method="predict_proba", n_jobs=self.n_jobs)
        self.log_weights_, self.worst_class_error_, self.mean_error_ = tune_class_weights(
            P, index, error_budget=self.error_budget
        )
        self.group_log_weights_ = None
        if groups is not None:
            column = _column(groups, X)
            self.group_log_weights_ = tune_group_weights(P, index, column, error_budget=self.error_budget)[1]
        self.estimator_ = clone(self.estimator).fit(X, labels)
        return self

    def predict(self, X: Any, groups: ArrayLike | None = None) -> Labels:
        """Answer each row, shape (n,); ``groups`` as in `fit`, needed if there were some.

        A group that was not seen takes the weights of all rows.
        """
        check_is_fitted(self)
        log_weights = self.log_weights_
        if self.group_log_weights_ is not None:
            if groups is None:
                raise ValueError("groups are needed: this classifier was fitted with thresholds per group")
            log_weights = weights_of_rows(_column(groups, X), log_weights, self.group_log_weights_)
        return self.classes_[adjusted_answers(self.predict_proba(X), log_weights)]


def _column(groups: ArrayLike, X: Any) -> Labels:
    column = label_column(groups, "groups")
    check_length(column, "groups", n_rows_of(X))
    return column
