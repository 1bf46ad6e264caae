"""tailboost: boosting classifiers that hold up on the worst samples, class and group."""

import importlib
from typing import Any

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
    ResubstitutionWarning,
    SoftMarginBoostClassifier,
    VadaBoostClassifier,
    WorstClassBoostClassifier,
)
from tailboost.persistence import load_model, save_model

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
    "ResubstitutionWarning",
    "SoftMarginBoostClassifier",
    "VadaBoostClassifier",
    "WorstClassBoostClassifier",
    "datasets",
    "learners",
    "load_model",
    "metrics",
    "plotting",
    "robustness",
    "save_model",
    "solvers",
]


def __getattr__(name: str) -> Any:
    if name == "torch":  # an extra, imported only when asked for
        return importlib.import_module("tailboost.torch")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
