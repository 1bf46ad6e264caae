"""The classifiers.

Comments and docstrings name papers as docs/references.md does.
"""

from tailboost.classifiers.cvar import (
    AdaLPBoostClassifier,
    AverageBoostClassifier,
    CVaRBoostClassifier,
    LPBoostClassifier,
    OCOBoostClassifier,
    RegularizedLPBoostClassifier,
)
from tailboost.classifiers.dro import DROBoostClassifier
from tailboost.classifiers.robust_mixture import RobustMixtureClassifier, tune
from tailboost.classifiers.variance import (
    AdaBoostClassifier,
    EBBoostClassifier,
    SoftMarginBoostClassifier,
    VadaBoostClassifier,
    VarianceBoostClassifier,
)
from tailboost.classifiers.worst_class import GroupDROBoostClassifier, WorstClassBoostClassifier

__all__ = [
    "AdaBoostClassifier",
    "AdaLPBoostClassifier",
    "AverageBoostClassifier",
    "CVaRBoostClassifier",
    "DROBoostClassifier",
    "EBBoostClassifier",
    "GroupDROBoostClassifier",
    "LPBoostClassifier",
    "OCOBoostClassifier",
    "RegularizedLPBoostClassifier",
    "RobustMixtureClassifier",
    "SoftMarginBoostClassifier",
    "VadaBoostClassifier",
    "VarianceBoostClassifier",
    "WorstClassBoostClassifier",
    "tune",
]


def __dir__() -> list[str]:
    return __all__
