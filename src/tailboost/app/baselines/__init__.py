"""Baselines of every comparison: the usual methods for rare classes and groups."""

from tailboost.app.baselines.recipes import (
    balanced_forest,
    random_guess,
    tuned_average,
    tuned_forest,
    tuned_xgboost,
    weighted_xgboost,
)
from tailboost.app.baselines.thresholds import (
    TunedThresholdClassifier,
    adjusted_answers,
    tune_class_weights,
)
from tailboost.app.baselines.weights import CellWeightedClassifier, cell_weights
from tailboost.learners.named import plain_xgboost

__all__ = [
    "CellWeightedClassifier",
    "TunedThresholdClassifier",
    "adjusted_answers",
    "balanced_forest",
    "cell_weights",
    "plain_xgboost",
    "random_guess",
    "tune_class_weights",
    "tuned_average",
    "tuned_forest",
    "tuned_xgboost",
    "weighted_xgboost",
]
