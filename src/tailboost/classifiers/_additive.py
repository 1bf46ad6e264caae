"""Additive classifiers: the hypotheses' votes are weighted by their steps."""

from __future__ import annotations

from collections.abc import Iterator
from numbers import Real
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from scipy.special import softmax
from sklearn.base import _fit_context
from sklearn.utils import Tags, get_tags
from sklearn.utils._param_validation import Interval
from sklearn.utils.validation import check_is_fitted

from tailboost.classifiers._base import (
    BaseBoostClassifier,
    Problem,
    batches,
    n_rows_of,
    take,
    with_callbacks,
)
from tailboost.combine import add_vote
from tailboost.game import Floats, Ints, Response
from tailboost.learners import HistTreeClassifier
from tailboost.learners.session import constant, predict_members
from tailboost.validation import Rows, Scheme


class AdditiveClassifier(BaseBoostClassifier):
    """``argmax_k f_k(x)`` with ``f_k = Σ_t a_t z_k(h_t(x))``: z = 1 for the answer, else −1/(K−1)."""

    _refits: ClassVar[bool] = False  # a step belongs to the very hypothesis it was computed for

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **BaseBoostClassifier._parameter_constraints,
        "validation": [Interval(Real, 0, 1, closed="neither"), None],
    }

    @_fit_context(prefer_skip_nested_validation=True)
    @with_callbacks
    def fit(
        self,
        X: Any,
        y: Any = None,
        sample_weight: Any = None,
        *,
        X_val: Any = None,
        y_val: Any = None,
        sample_weight_val: Any = None,
        **fit_params: Any,
    ) -> Self:
        """Boost.

        Parameters
        ----------
        X : array-like, sparse matrix or data frame of shape (n, d)
            What the base learner takes.
        y : array-like of shape (n,)
            Class labels of any type; None takes those of a torch Dataset given as X.
        sample_weight : array-like of shape (n,), optional
            Non-negative weights; 2 is the row twice, 0 drops it.
        X_val, y_val, sample_weight_val : optional
            Rows whose error decides when to stop and which prefix is kept; needs ``validation=None``.
        **fit_params
            Metadata routed to the base learner's ``fit`` (with metadata routing enabled).

        Returns
        -------
        self

        Raises
        ------
        ValueError
            If an argument is not as described; nothing has been fitted then.
        """
        return self._fit(X, y, sample_weight, None, (X_val, y_val, None, sample_weight_val), fit_params)

    def _learner(self) -> Any:
        return HistTreeClassifier(n_jobs=self.n_jobs) if self.estimator is None else self.estimator

    def _open(self, problem: Problem, scheme: Scheme) -> None:
        self._judged: Rows = scheme.judged
        # Keeping the best prefix is for rows the hypotheses were not fitted on.
        self._validated = problem.validation is not None or scheme.player_rows is not None
        self._scores = np.zeros((len(self._judged.y), problem.n_classes))
        self._newest: tuple[float, Ints] | None = None
        self._log_costs: list[float] = []
        self._votes = 0
        heaviest = np.bincount(problem.y, weights=problem.weight).argmax()
        self._fallback = constant(int(heaviest), problem.n_classes)

    def _record(self, response: Response, state: Any) -> None:
        self._newest = (state.steps[-1], response.answers)
        add_vote(self._scores, *self._newest)
        self._votes += 1
        self._log_costs.append(self._game.rule.log_cost(state))  # type: ignore[attr-defined]

    def _forget(self, n_rounds: int) -> None:
        del self._log_costs[n_rounds:]
        if self._votes > n_rounds and self._newest is not None:
            add_vote(self._scores, -self._newest[0], self._newest[1])
            self._votes, self._newest = n_rounds, None

    def _value(self) -> tuple[float, float]:
        wrong = self._scores.argmax(axis=1) != self._judged.y
        return float(np.average(wrong, weights=self._judged.weight)), 0.0

    def _settle(self) -> Self:
        state, self.trace_ = self._game.state, self._game.trace
        self.n_iter_ = self._game.n_rounds
        self.log_costs_ = np.array(self._log_costs)
        steps = np.array(state.steps)
        best = len(steps)
        if self._validated and self._param("n_iter_no_change", None) is not None:
            best = int(self.trace_.value.argmin()) + 1
        if steps[:best].sum() == 0.0 and steps.sum() > 0.0:  # a perfect hypothesis was taken alone
            best = len(steps)
        kept = np.flatnonzero(steps[:best] > 0)
        weights, gap = self._weigh(kept, steps[kept]) if len(kept) else (np.empty(0), 0.0)
        chosen = [(self._boosted[t], a) for t, a in zip(kept, weights, strict=True) if a > 0]
        # A learner no better than chance in round 1 leaves the best constant, not an empty classifier.
        chosen = chosen or [(self._fallback, 1.0)]
        self.estimators_ = [m for m, _ in chosen]
        self.estimator_weights_ = np.array([a for _, a in chosen])
        self.gap_ = max(gap, float(self.trace_.gap.max(initial=0.0)))
        return self

    def _weigh(self, kept: Ints, steps: Floats) -> tuple[Floats, float]:
        """Return weights for the kept hypotheses (by default their steps) and the gap of their solve."""
        return steps, 0.0

    def _staged_scores(self, X: Any) -> Iterator[Floats]:
        check_is_fitted(self)
        X = self._check_X(X)
        scores = np.zeros((n_rows_of(X), len(self.classes_)))
        for a, k in zip(self.estimator_weights_, predict_members(self.estimators_, X), strict=True):
            add_vote(scores, float(a), k)
            yield scores

    def _decisions(self, scores: Floats) -> Floats:
        # f_k: an answer adds a, and takes a/(K−1) where it is another; the votes hold a·K/(K−1) instead.
        K = len(self.classes_)
        f = scores - scores.sum(axis=1, keepdims=True) / K
        return f[:, 1] if K == 2 else f

    def decision_function(self, X: Any) -> Floats:
        """Return the scores ``f``: shape (n,) for two classes (positive is ``classes_[1]``), else (n, K).

        Parameters
        ----------
        X : array-like of shape (n, d)
        """
        check_is_fitted(self)
        X = self._check_X(X)
        n = n_rows_of(X)
        if len(parts := batches(X)) > 1:
            return np.concatenate([self.decision_function(take(X, part)) for part in parts])
        scores = np.zeros((n, len(self.classes_)))
        for scores in self._staged_scores(X):  # noqa: B007 -- the last one is the whole ensemble
            pass
        return self._decisions(scores)

    def margins(self, X: Any, y: Any) -> Floats:
        """Return the margins ``m_i = f_y(x_i)``: the true class's score, scores summing to 0.

        Parameters
        ----------
        X : array-like of shape (n, d)
        y : array-like of shape (n,)
            Labels seen in fit.

        Returns
        -------
        ndarray of shape (n,)
        """
        f = self.decision_function(X)
        k = self._numbers(y)
        return np.where(k == 1, f, -f) if f.ndim == 1 else f[np.arange(len(f)), k]

    def _labels(self, f: Floats) -> NDArray[Any]:
        return self.classes_[(f > 0).astype(int) if f.ndim == 1 else f.argmax(axis=1)]

    @staticmethod
    def _softmax(f: Floats) -> Floats:
        P: Floats = softmax(np.column_stack([-f, f]) if f.ndim == 1 else f, axis=1)
        return P

    def predict(self, X: Any) -> NDArray[Any]:
        """Return the label with the largest score.

        Parameters
        ----------
        X : array-like of shape (n, d)

        Returns
        -------
        ndarray of shape (n,)
        """
        check_is_fitted(self)
        return self._labels(self.decision_function(X))

    def predict_proba(self, X: Any) -> Floats:
        """Return the softmax of the scores, which is **not** calibrated.

        Parameters
        ----------
        X : array-like of shape (n, d)

        Returns
        -------
        ndarray of shape (n, K)
        """
        return self._softmax(self.decision_function(X))

    def staged_decision_function(self, X: Any) -> Iterator[Floats]:
        """Yield `decision_function` after 1, 2, … kept hypotheses.

        Parameters
        ----------
        X : array-like of shape (n, d)
        """
        for scores in self._staged_scores(X):
            yield self._decisions(scores)

    def staged_predict(self, X: Any) -> Iterator[NDArray[Any]]:
        """Yield `predict` after 1, 2, … kept hypotheses.

        Parameters
        ----------
        X : array-like of shape (n, d)
        """
        for f in self.staged_decision_function(X):
            yield self._labels(f)

    def staged_predict_proba(self, X: Any) -> Iterator[Floats]:
        """Yield `predict_proba` after 1, 2, … kept hypotheses.

        Parameters
        ----------
        X : array-like of shape (n, d)
        """
        for f in self.staged_decision_function(X):
            yield self._softmax(f)

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        learner = get_tags(self._learner()).classifier_tags
        if learner is not None:
            tags.classifier_tags.multi_class = learner.multi_class
        return tags
