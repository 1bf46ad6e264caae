"""Class weights tuned for the worst class, on given probabilities or out of fold."""

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
from tailboost.core.checks import check_number

# Lower bound of the probabilities, so that a large weight can select a class with probability 0.
LEAST_PROBABILITY = 1e-6
STEPS, RATE = 200, 1.0  # steps and learning rate of Hedge over the classes
SCALES = 21  # points between equal weights and the best iterate of Hedge
SWEEPS = 10  # sweeps of line searches over the classes
# Additional starts of the line searches for more than two classes, and their standard deviation around the
# best point. They lowered the overall error by .004 on yeast and ecoli.
RESTARTS, JUMP = 10, 0.5


def adjusted_answers(probabilities: ArrayLike, log_weights: ArrayLike) -> Ints:
    """Return the class numbers ``argmax_k log p_k + log w_k``; weights have shape (K,) or (n, K)."""
    return (_logarithms(probabilities) + np.asarray(log_weights)).argmax(axis=1)


def _logarithms(probabilities: ArrayLike) -> Floats:
    logarithms: Floats = np.log(np.maximum(np.asarray(probabilities, dtype=np.float64), LEAST_PROBABILITY))
    return logarithms


def tune_class_weights(
    probabilities: ArrayLike, y: ArrayLike, *, error_budget: float | None = None
) -> tuple[Floats, float, float]:
    """Return class weights with the lowest worst-class error on given rows.

    For two classes the result is the best of all thresholds. For more it is a local optimum: Hedge over the
    classes, then line searches for one class after the other. Ties are broken by the overall error.

    Parameters
    ----------
    probabilities : array-like of shape (n, K), in [0, 1]
        Out-of-fold or held-out class probabilities.
    y : array-like of shape (n,)
        Class numbers, 0 to K − 1. Classes without rows are ignored.
    error_budget : float ≥ 0, default=None
        Largest increase of the overall error relative to equal weights. None sets no limit.

    Returns
    -------
    log_weights : ndarray of shape (K,)
        Logarithms of the weights, with mean 0.
    worst, overall : float
        Worst-class error and overall error on these rows.

    Examples
    --------
    >>> from tailboost.app.baselines import tune_class_weights
    >>> P = [[0.9, 0.1], [0.8, 0.2], [0.7, 0.3], [0.6, 0.4]]
    >>> log_weights, worst, overall = tune_class_weights(P, [0, 0, 1, 1])
    >>> worst, overall
    (0.0, 0.0)
    """
    search = _Search(_logarithms(probabilities), np.asarray(y, dtype=np.intp), error_budget)
    best = search.hedge()
    best = min((scale * best for scale in np.linspace(0.0, 1.0, SCALES)), key=search.score)
    rng = np.random.default_rng(0)
    restarts = RESTARTS if search.K > 2 else 0
    starts = [best, *(best + rng.normal(scale=JUMP, size=search.K) for _ in range(restarts))]
    best = min(map(search.descend, starts), key=search.score)
    _, worst, overall = search.score(best)
    return best - best.mean(), worst, overall


class _Search:
    """Worst-class and overall error as functions of log class weights."""

    def __init__(self, logarithms: Floats, y: Ints, error_budget: float | None) -> None:
        self.logarithms, self.y = logarithms, y
        self.n, self.K = logarithms.shape
        self.counts = np.bincount(y, minlength=self.K)
        self.present = np.flatnonzero(self.counts).tolist()
        self.limit = np.inf
        if error_budget is not None:
            self.limit = float(np.mean(rates.wrong(logarithms.argmax(axis=1), y))) + error_budget

    def errors(self, log_weights: Floats) -> Floats:
        """Return the error of each class, 0 for a class without rows."""
        wrong = rates.wrong((self.logarithms + log_weights).argmax(axis=1), self.y)
        return np.bincount(self.y[wrong], minlength=self.K) / np.maximum(self.counts, 1)

    def score(self, log_weights: Floats) -> tuple[float, float, float]:
        """Return (overall error above the limit, worst class, overall error); lower is better."""
        errors = self.errors(log_weights)
        overall = float(errors @ self.counts) / self.n
        return max(overall - self.limit, 0.0), float(errors.max()), overall

    def hedge(self) -> Floats:
        """Return the best iterate of Hedge over the classes that have rows."""
        log_weights = np.zeros(self.K)
        best, lowest = log_weights, self.score(log_weights)
        for step in range(STEPS):
            errors = self.errors(log_weights)[self.present]
            moved = log_weights.copy()
            moved[self.present] += RATE / np.sqrt(1 + step / 10) * (errors - errors.mean())
            log_weights = moved
            if (score := self.score(log_weights)) < lowest:
                best, lowest = log_weights, score
        return best

    def descend(self, log_weights: Floats) -> Floats:
        """Search along one class after the other until a sweep brings no improvement."""
        for _ in range(SWEEPS):
            before = self.score(log_weights)
            for k in self.present:
                log_weights = self.along(k, log_weights)
            if self.score(log_weights) >= before:
                break
        return log_weights

    def along(self, k: int, log_weights: Floats) -> Floats:
        """Return the log weights with the best one for class k, by sorting the rows' thresholds."""
        scores = self.logarithms + log_weights
        scores[:, k] = -np.inf
        threshold = scores.max(axis=1) - self.logarithms[:, k]  # above it, the row is answered k
        right_otherwise = scores.argmax(axis=1) == self.y
        order = np.argsort(threshold, kind="stable")
        cuts = threshold[order]
        # Wrong rows of each class after the first rows of this order are answered k.
        lost = np.zeros((self.n + 1, self.K), dtype=np.int64)
        lost[1:][np.arange(self.n), self.y[order]] = np.where(self.y[order] == k, -1, right_otherwise[order])
        lost[0] = np.bincount(self.y[~right_otherwise], minlength=self.K)
        errors = lost.cumsum(axis=0) / np.maximum(self.counts, 1)
        overall, worst = errors @ self.counts / self.n, errors.max(axis=1)
        # Cuts lie between rows with different thresholds.
        edges = np.concatenate([[cuts[0] - 2.0], cuts, [cuts[-1] + 2.0]])
        possible = np.flatnonzero(np.diff(edges) > 0)
        excess = np.maximum(overall[possible] - self.limit, 0.0)
        best = possible[np.lexsort((overall[possible], worst[possible], excess))[0]]
        moved = log_weights.copy()
        moved[k] = (edges[best] + edges[best + 1]) / 2
        return min(log_weights, moved, key=self.score)


class TunedThresholdClassifier(MetaClassifier):
    """Classifier whose class weights are tuned on out-of-fold probabilities for the worst class.

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
        Largest increase of the overall error relative to equal weights. None sets no limit.
    random_state : int, RandomState or None, default=None
        Seed of the folds.
    n_jobs : int, default=None
        Number of folds fitted in parallel.

    Attributes
    ----------
    estimator_ : classifier
        Fitted on all rows.
    classes_ : ndarray of shape (K,)
        Sorted labels.
    log_weights_ : ndarray of shape (K,)
        Logarithms of the class weights, with mean 0.
    worst_class_error_, mean_error_ : float
        Errors with ``log_weights_`` on the out-of-fold probabilities; they underestimate errors on new rows.

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
        cv: int = 5,
        error_budget: float | None = None,
        random_state: Any = None,
        n_jobs: int | None = None,
    ) -> None:
        self.estimator = estimator
        self.cv = cv
        self.error_budget = error_budget
        self.random_state = random_state
        self.n_jobs = n_jobs

    def fit(self, X: Any, y: ArrayLike) -> Self:
        """Compute out-of-fold probabilities, tune the weights, and fit ``estimator_`` on all rows."""
        if self.error_budget is not None:
            check_number(self.error_budget, "error_budget", 0.0, closed=True)
        labels = checked_labels(X, y)
        self.classes_, index = np.unique(labels, return_inverse=True)
        folds = StratifiedKFold(self.cv, shuffle=True, random_state=self.random_state)
        P = cross_val_predict(self.estimator, X, labels, cv=folds, method="predict_proba", n_jobs=self.n_jobs)
        self.log_weights_, self.worst_class_error_, self.mean_error_ = tune_class_weights(
            P, index, error_budget=self.error_budget
        )
        self.estimator_ = clone(self.estimator).fit(X, labels)
        return self

    def predict(self, X: Any) -> Labels:
        """Return the predicted labels, shape (n,)."""
        check_is_fitted(self)
        return self.classes_[adjusted_answers(self.predict_proba(X), self.log_weights_)]
