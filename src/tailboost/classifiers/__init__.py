"""The scikit-learn faces of the games."""

from tailboost.classifiers._base import FitInterruptedWarning
from tailboost.classifiers.adaboost import AdaBoostClassifier
from tailboost.classifiers.cvar import (
    AdaLPBoostClassifier,
    AverageBoostClassifier,
    LPBoostClassifier,
    RegularizedLPBoostClassifier,
)
from tailboost.classifiers.dro import DROBoostClassifier
from tailboost.classifiers.group import GroupDROBoostClassifier

__all__ = [
    "AdaBoostClassifier",
    "AdaLPBoostClassifier",
    "AverageBoostClassifier",
    "DROBoostClassifier",
    "FitInterruptedWarning",
    "GroupDROBoostClassifier",
    "LPBoostClassifier",
    "RegularizedLPBoostClassifier",
]
