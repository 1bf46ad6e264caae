"""Plain AdaBoost on the same game: the reference for all additive ones."""

from __future__ import annotations

from dataclasses import replace
from numbers import Real
from typing import Any, ClassVar

import numpy as np
from sklearn.utils._param_validation import Interval

from tailboost.classifiers._additive import AdditiveClassifier
from tailboost.classifiers.docs import documented
from tailboost.data import Problem
from tailboost.game import Units
from tailboost.rules.adaboost import AdaBoost
from tailboost.statements.additive_guarantee import Cost, margin_bound
from tailboost.validation import Scheme


@documented
class AdaBoostClassifier(AdditiveClassifier):
    """AdaBoost (for K > 2 classes SAMME), as the reference for the variance-penalised and robust ones.

    Parameters
    ----------
    {{additive_estimator … additive_validation}}
    {{class_weight}}
    {{additive_n_iter_no_change}}
    {{additive_tol}}
    {{max_time … verbose}}

    Attributes
    ----------
    {{classes_}}
    {{additive_ensemble_}}
    {{additive_estimators_}}
    estimator_weights_ : ndarray
        Their steps a; (K−1)/K times those of scikit-learn's AdaBoostClassifier.
    log_costs_ : ndarray of shape (T,)
        Logarithm of the mean exponential loss after each round.
    {{n_iter_}}
    {{trace_}}
    {{additive_guarantee_}}
    {{additive_gap_}}
    {{n_features_in_}}

    See Also
    --------
    VadaBoostClassifier : With a penalty on the variance of the loss.
    DROBoostClassifier : For the worst case over a ball around the data.

    References
    ----------
    Freund, Schapire: A Decision-Theoretic Generalization of On-Line Learning, 1997.
    Zhu, Zou, Rosset, Hastie: Multi-class AdaBoost, 2009 (SAMME).

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from tailboost import AdaBoostClassifier
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> clf = AdaBoostClassifier(n_estimators=5, random_state=0).fit(X, y)
    >>> float(clf.score(X, y)) > 0.9
    True
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **AdditiveClassifier._parameter_constraints,
        "learning_rate": [Interval(Real, 0, 1, closed="right")],
    }

    def __init__(
        self,
        estimator: Any = None,
        *,
        n_estimators: int = 50,
        learning_rate: float = 1.0,
        validation: Any = "auto",
        class_weight: Any = None,
        n_iter_no_change: int | None = None,
        tol: float = 1e-3,
        max_time: float | None = None,
        checkpoint_dir: Any = None,
        warm_start: bool = False,
        n_jobs: int | None = None,
        random_state: Any = None,
        verbose: int = 0,
    ) -> None:
        self.estimator = estimator
        self.n_estimators = n_estimators
        self.learning_rate = learning_rate
        self.validation = validation
        self.class_weight = class_weight
        self.n_iter_no_change = n_iter_no_change
        self.tol = tol
        self.max_time = max_time
        self.checkpoint_dir = checkpoint_dir
        self.warm_start = warm_start
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    def _cost(self) -> Cost:
        combiner, K = self.combiner_, len(self.classes_)
        mean, error = float(np.exp(combiner.log_cost)), combiner.training_error
        stepped = np.array(self.game_.state.steps[: combiner.n_kept]) > 0
        errors = self.trace_.weighted_loss[: combiner.n_kept][stepped]
        T, gamma = len(errors), 0.5 - float(errors.max(initial=0.0))
        published = margin_bound(K, "exp(−2γ²T)", float(np.exp(-2 * gamma**2 * T)), error)
        if self.learning_rate < 1:  # it is about whole steps
            note = published.note or "for learning_rate=1 only"
            published = replace(published, bound=None, note=note)
        return Cost(
            "the mean of e^(−m), m the margins",
            mean,
            (published,),
            (margin_bound(K, "Π_t Z_t", mean, error),),
            {
                "Z_t": "what round t multiplied the mean of e^(−m) by",
                "γ": f"½ less the largest weighted error of a hypothesis = {gamma:.4g}",
                "T": f"hypotheses = {T}",
            },
        )

    def _rule(self, problem: Problem, scheme: Scheme, seed: int, units: Units) -> AdaBoost:
        return AdaBoost(problem.n_classes, learning_rate=float(self.learning_rate))
