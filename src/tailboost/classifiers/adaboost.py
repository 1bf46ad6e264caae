"""Plain AdaBoost on the same game: the reference for all additive classifiers."""

from __future__ import annotations

from typing import Any

from tailboost.classifiers._additive import AdditiveClassifier
from tailboost.game import Rule, Units
from tailboost.rules.adaboost import AdaBoost


class AdaBoostClassifier(AdditiveClassifier):
    """AdaBoost (for K > 2 classes SAMME), as the reference for the variance-penalised and robust ones.

    Parameters
    ----------
    estimator : classifier, optional
        The base learner; None is `HistTreeClassifier`, one binned tree of depth 5.
    n_estimators : int, default=50
        Largest number of rounds.
    validation : float in (0, 1) or None
        Fraction of the rows held out to decide when to stop; hypotheses are not fitted on them.
    n_iter_no_change : int or None
        Stop when the validation error has not dropped for so many rounds, and keep the best prefix.
    class_weight, max_time, checkpoint_dir, warm_start, n_jobs, random_state, verbose
        As in `AdaLPBoostClassifier`.

    Attributes
    ----------
    classes_ : ndarray of shape (K,)
    estimators_ : list
        The hypotheses kept.
    estimator_weights_ : ndarray
        Their steps a; (K−1)/K times those of scikit-learn's AdaBoostClassifier.
    log_costs_ : ndarray of shape (n_iter_,)
        Logarithm of the mean exponential loss after each round.
    n_iter_, trace_, gap_, n_features_in_
        As in `AdaLPBoostClassifier`.

    References
    ----------
    Freund, Schapire 1997; Zhu, Zou, Rosset, Hastie 2009 (SAMME).
    """

    def __init__(
        self,
        estimator: Any = None,
        *,
        n_estimators: int = 50,
        validation: float | None = None,
        n_iter_no_change: int | None = None,
        class_weight: Any = None,
        max_time: float | None = None,
        checkpoint_dir: Any = None,
        warm_start: bool = False,
        n_jobs: int | None = None,
        random_state: Any = None,
        verbose: int = 0,
    ) -> None:
        self.estimator = estimator
        self.n_estimators = n_estimators
        self.validation = validation
        self.n_iter_no_change = n_iter_no_change
        self.class_weight = class_weight
        self.max_time = max_time
        self.checkpoint_dir = checkpoint_dir
        self.warm_start = warm_start
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    def _rule(self, units: Units) -> Rule[Any]:
        return AdaBoost(len(self.classes_))
