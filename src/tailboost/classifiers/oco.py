"""Hedge over samples against a weak learner, and the majority vote: OCO boosting."""

from __future__ import annotations

import warnings
from numbers import Integral, Real
from typing import Any, ClassVar, Self

from sklearn.utils._param_validation import Interval, StrOptions

from tailboost.classifiers._base import BaseBoostClassifier, Problem
from tailboost.classifiers._weak_learning import BoundNotMetWarning, WeakLearningGame
from tailboost.classifiers.cvar import AverageBoostClassifier
from tailboost.learners import HistTreeClassifier


class OCOBoostClassifier(WeakLearningGame, AverageBoostClassifier):
    """OCO boosting: Hedge over samples against a weak learner with edge γ, then the majority vote.

    If every round has weighted error at most ½ − γ, then after ``T = ⌈2 ln n/γ²⌉ rounds`` more than half of
    the voters are right on every training row, and so is their majority.

    Parameters
    ----------
    estimator : classifier, optional
        The base learner, grown until the condition holds where it can grow; None is `HistTreeClassifier`, one
        binned tree of depth 5.
    gamma : float in (0, 0.5], default=0.1
        γ. A learner that does not reach ½ − γ ends the game; the rounds so far vote.
    n_estimators : int or "auto", default="auto"
        Rounds T; "auto" is ``⌈2 ln n/γ²⌉``, n the sum of the sample weights.
    eta : float or "theory", default="theory"
        Learning rate of Hedge; "theory" is √(8 ln n/T).
    outlier_fraction, class_weight, max_time, checkpoint_dir, warm_start, n_jobs, random_state, verbose
        As in `AdaLPBoostClassifier`.

    Attributes
    ----------
    classes_, estimators_, estimator_weights_, n_iter_, trace_, gap_, guarantee_, n_features_in_
        As in `AverageBoostClassifier`; `predict_proba` has the shares of the votes.

    References
    ----------
    Hazan: Introduction to Online Convex Optimization, 2022, chapter 11.
    Saito et al.: Bounding the Worst-class Error: A Boosting Approach, 2024 (as a baseline).
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **BaseBoostClassifier._parameter_constraints,
        "gamma": [Interval(Real, 0, 0.5, closed="right")],
        "n_estimators": [Interval(Integral, 1, None, closed="left"), StrOptions({"auto"})],
    }

    def __init__(
        self,
        estimator: Any = None,
        *,
        gamma: float = 0.1,
        n_estimators: int | str = "auto",
        eta: float | str = "theory",
        outlier_fraction: float = 0.0,
        class_weight: Any = None,
        max_time: float | None = None,
        checkpoint_dir: Any = None,
        warm_start: bool = False,
        n_jobs: int | None = None,
        random_state: Any = None,
        verbose: int = 0,
    ) -> None:
        self.estimator = estimator
        self.gamma = gamma
        self.n_estimators = n_estimators
        self.eta = eta
        self.outlier_fraction = outlier_fraction
        self.class_weight = class_weight
        self.max_time = max_time
        self.checkpoint_dir = checkpoint_dir
        self.warm_start = warm_start
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    def _learner(self) -> Any:
        return HistTreeClassifier(n_jobs=self.n_jobs) if self.estimator is None else self.estimator

    def _fit(self, *args: Any) -> Self:
        super()._fit(*args)
        if self.n_iter_ < self._rounds() and "weak-learning" in self.trace_.stop_reason:
            warnings.warn(
                f"{self.trace_.stop_reason}; {self.n_iter_} of {self._rounds()} rounds vote, without a bound",
                BoundNotMetWarning,
                stacklevel=5,
            )
        return self

    def _edge(self) -> float:
        return float(self.gamma)

    def _check_problem(
        self, X: Any, y: Any, sample_weight: Any, groups: Any, validation: tuple[Any, Any, Any, Any]
    ) -> Problem:
        problem = super()._check_problem(X, y, sample_weight, groups, validation)
        self._count = float(problem.weight.sum())
        return problem
