"""Baselines made from a random forest and XGBoost, and the random guess."""

from __future__ import annotations

from typing import Any

from sklearn.dummy import DummyClassifier
from sklearn.ensemble import RandomForestClassifier, VotingClassifier

from tailboost.app.baselines.thresholds import TunedThresholdClassifier
from tailboost.app.baselines.weights import CellWeightedClassifier
from tailboost.learners.named import plain_xgboost


def random_guess() -> DummyClassifier:
    """Return a classifier that gives each of K classes the probability 1/K."""
    return DummyClassifier(strategy="uniform", random_state=0)


def balanced_forest(*, random_state: Any = None, n_jobs: int | None = None) -> CellWeightedClassifier:
    """Return a random forest with balanced class weights.

    ``class_weight="balanced"`` is not used: scikit-learn 1.9 refuses it for the labels "0" and "1".
    """
    return CellWeightedClassifier(RandomForestClassifier(random_state=random_state, n_jobs=n_jobs))


def weighted_xgboost(*, random_state: Any = None, n_jobs: int | None = None) -> CellWeightedClassifier:
    """Return XGBoost with balanced weights of classes or, with groups, of class × group cells."""
    return CellWeightedClassifier(plain_xgboost(random_state=random_state, n_jobs=n_jobs))


def tuned_xgboost(*, random_state: Any = None, n_jobs: int | None = None) -> TunedThresholdClassifier:
    """Return XGBoost with class weights tuned out of fold."""
    xgboost = plain_xgboost(random_state=random_state, n_jobs=n_jobs)
    return TunedThresholdClassifier(xgboost, random_state=random_state)


def tuned_forest(*, random_state: Any = None, n_jobs: int | None = None) -> TunedThresholdClassifier:
    """Return a random forest with class weights tuned out of fold."""
    forest = RandomForestClassifier(random_state=random_state, n_jobs=n_jobs)
    return TunedThresholdClassifier(forest, random_state=random_state)


def tuned_average(*, random_state: Any = None, n_jobs: int | None = None) -> TunedThresholdClassifier:
    """Return the average of XGBoost and a random forest with class weights tuned out of fold."""
    both = VotingClassifier(
        [
            ("xgboost", plain_xgboost(random_state=random_state, n_jobs=n_jobs)),
            ("forest", RandomForestClassifier(random_state=random_state, n_jobs=n_jobs)),
        ],
        voting="soft",
    )
    return TunedThresholdClassifier(both, random_state=random_state)
