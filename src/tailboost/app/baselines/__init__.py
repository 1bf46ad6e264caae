"""What every comparison shows beside ours: what is done today about rare classes and groups."""

from tailboost.app.baselines.plain import CoinFlip
from tailboost.app.baselines.recipes import (
    balanced_forest,
    tuned_average,
    tuned_forest,
    tuned_xgboost,
    weighted_xgboost,
)
from tailboost.app.baselines.thresholds import (
    TunedThresholdClassifier,
    adjusted_answers,
    tune_class_weights,
    tune_group_weights,
    weights_of_rows,
)
from tailboost.app.baselines.weights import CellWeightedClassifier, cell_weights
from tailboost.learners.named import plain_xgboost

__all__ = [
    "CellWeightedClassifier",
    "CoinFlip",
    "TunedThresholdClassifier",
    "adjusted_answers",
    "balanced_forest",
    "cell_weights",
    "plain_xgboost",
    "tune_class_weights",
    "tune_group_weights",
    "tuned_average",
    "tuned_forest",
    "tuned_xgboost",
    "weighted_xgboost",
    "weights_of_rows",
]
