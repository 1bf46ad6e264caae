"""What every comparison shows beside ours: what is done today about rare classes and groups."""

from tailboost.baselines._plain import CoinFlip, plain_xgboost
from tailboost.baselines._thresholds import (
    TunedThresholdClassifier,
    adjusted_answers,
    tune_class_weights,
    tune_group_weights,
    weights_of_rows,
)
from tailboost.baselines._weights import CellWeightedClassifier, cell_weights

__all__ = [
    "CellWeightedClassifier",
    "CoinFlip",
    "TunedThresholdClassifier",
    "adjusted_answers",
    "cell_weights",
    "plain_xgboost",
    "tune_class_weights",
    "tune_group_weights",
    "weights_of_rows",
]
