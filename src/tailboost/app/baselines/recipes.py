"""The usual answers to rare classes and groups, made from a forest and XGBoost."""

from __future__ import annotations

from typing import Any

from sklearn.ensemble import RandomForestClassifier, VotingClassifier

from tailboost.app.baselines.thresholds import TunedThresholdClassifier
from tailboost.app.baselines.weights import CellWeightedClassifier
from tailboost.learners.named import plain_xgboost


def balanced_forest(*, random_state: Any = None, n_jobs: int | None = None) -> CellWeightedClassifier:
    """Make a random forest in which every class weighs the same.

    The weights are those of ``class_weight="balanced"``, which scikit-learn 1.9 refuses where the labels are
    the text "0" and "1" of a file.
    """
    return CellWeightedClassifier(RandomForestClassifier(random_state=random_state, n_jobs=n_jobs))


def weighted_xgboost(*, random_state: Any = None, n_jobs: int | None = None) -> CellWeightedClassifier:
    """Make XGBoost in which every class, or with groups every cell, weighs the same."""
    return CellWeightedClassifier(plain_xgboost(random_state=random_state, n_jobs=n_jobs))


def tuned_xgboost(*, random_state: Any = None, n_jobs: int | None = None) -> TunedThresholdClassifier:
    """Make XGBoost with class weights tuned out of fold, with groups those of each group."""
    xgboost = plain_xgboost(random_state=random_state, n_jobs=n_jobs)
    return TunedThresholdClassifier(xgboost, random_state=random_state)


def tuned_forest(*, random_state: Any = None, n_jobs: int | None = None) -> TunedThresholdClassifier:
    """Make a random forest with class weights tuned out of fold."""
    forest = RandomForestClassifier(random_state=random_state, n_jobs=n_jobs)
    return TunedThresholdClassifier(forest, random_state=random_state)


def tuned_average(*, random_state: Any = None, n_jobs: int | None = None) -> TunedThresholdClassifier:
    """Make the average of XGBoost's and a forest's probabilities, with class weights tuned out of fold."""
    both = VotingClassifier(
        [
            ("xgboost", plain_xgboost(random_state=random_state, n_jobs=n_jobs)),
            ("forest", RandomForestClassifier(random_state=random_state, n_jobs=n_jobs)),
        ],
        voting="soft",
    )
    return TunedThresholdClassifier(both, random_state=random_state)
