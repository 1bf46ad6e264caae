"""The boosting classifiers.

Comments and docstrings name papers as docs/references.md does.
"""

from tailboost.classifiers._base import FitInterruptedWarning
from tailboost.classifiers.cvar import (
    AdaLPBoostClassifier,
    AverageBoostClassifier,
    CVaRBoostClassifier,
    LPBoostClassifier,
    RegularizedLPBoostClassifier,
)
from tailboost.classifiers.dro import DROBoostClassifier
from tailboost.classifiers.oco import OCOBoostClassifier
from tailboost.classifiers.plan import BoundNotMetWarning, LimitBelowNoiseWarning, SmallUnitsWarning
from tailboost.classifiers.tradeoff import TradeOff
from tailboost.classifiers.variance import (
    AdaBoostClassifier,
    EBBoostClassifier,
    SoftMarginBoostClassifier,
    VadaBoostClassifier,
    VarianceBoostClassifier,
)
from tailboost.statements.known_rows import ResubstitutionWarning, SeenRowsError

__all__ = [
    "AdaBoostClassifier",
    "AdaLPBoostClassifier",
    "AverageBoostClassifier",
    "BoundNotMetWarning",
    "CVaRBoostClassifier",
    "DROBoostClassifier",
    "EBBoostClassifier",
    "FitInterruptedWarning",
    "LPBoostClassifier",
    "LimitBelowNoiseWarning",
    "OCOBoostClassifier",
    "RegularizedLPBoostClassifier",
    "ResubstitutionWarning",
    "SeenRowsError",
    "SmallUnitsWarning",
    "SoftMarginBoostClassifier",
    "TradeOff",
    "VadaBoostClassifier",
    "VarianceBoostClassifier",
]
