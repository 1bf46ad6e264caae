"""tailboost: boosting classifiers that hold up on the worst samples, class and group."""

from tailboost import datasets, learners, metrics, plotting, robustness, solvers
from tailboost.classifiers import (
    AdaBoostClassifier,
    AdaLPBoostClassifier,
    AverageBoostClassifier,
    BoundNotMetWarning,
    DROBoostClassifier,
    EBBoostClassifier,
    FitInterruptedWarning,
    GroupDROBoostClassifier,
    LPBoostClassifier,
    OCOBoostClassifier,
    RegularizedLPBoostClassifier,
    SoftMarginBoostClassifier,
    VadaBoostClassifier,
    WorstClassBoostClassifier,
)

__version__ = "0.1.0"

__all__ = [
    "AdaBoostClassifier",
    "AdaLPBoostClassifier",
    "AverageBoostClassifier",
    "BoundNotMetWarning",
    "DROBoostClassifier",
    "EBBoostClassifier",
    "FitInterruptedWarning",
    "GroupDROBoostClassifier",
    "LPBoostClassifier",
    "OCOBoostClassifier",
    "RegularizedLPBoostClassifier",
    "SoftMarginBoostClassifier",
    "VadaBoostClassifier",
    "WorstClassBoostClassifier",
    "datasets",
    "learners",
    "metrics",
    "plotting",
    "robustness",
    "solvers",
]
