"""The classifiers.

Comments and docstrings name papers as docs/references.md does.
"""

from tailboost.classifiers.cvar import (
    AdaLPBoostClassifier,
    AverageBoostClassifier,
    CVaRBoostClassifier,
    LPBoostClassifier,
    RegularizedLPBoostClassifier,
)
from tailboost.classifiers.dro import DROBoostClassifier
from tailboost.classifiers.label_rules import LabelRules, tune_labels
from tailboost.classifiers.oco import OCOBoostClassifier
from tailboost.classifiers.robust_mixture import RobustMixtureClassifier, tune
from tailboost.classifiers.variance import (
    AdaBoostClassifier,
    EBBoostClassifier,
    SoftMarginBoostClassifier,
    VadaBoostClassifier,
    VarianceBoostClassifier,
)
from tailboost.classifiers.worst_class import GroupDROBoostClassifier, WorstClassBoostClassifier
from tailboost.core.exceptions import (
    BoundNotMetWarning,
    ConfidenceNotReachedWarning,
    DeterminismWarning,
    FitInterruptedWarning,
    LeakageError,
    LimitBelowNoiseWarning,
    ResubstitutionWarning,
    SmallSubgroupsWarning,
    UselessRuleWarning,
)
from tailboost.selection.curve import Curve

__all__ = [
    "AdaBoostClassifier",
    "AdaLPBoostClassifier",
    "AverageBoostClassifier",
    "BoundNotMetWarning",
    "CVaRBoostClassifier",
    "ConfidenceNotReachedWarning",
    "Curve",
    "DROBoostClassifier",
    "DeterminismWarning",
    "EBBoostClassifier",
    "FitInterruptedWarning",
    "GroupDROBoostClassifier",
    "LPBoostClassifier",
    "LabelRules",
    "LeakageError",
    "LimitBelowNoiseWarning",
    "OCOBoostClassifier",
    "RegularizedLPBoostClassifier",
    "ResubstitutionWarning",
    "RobustMixtureClassifier",
    "SmallSubgroupsWarning",
    "SoftMarginBoostClassifier",
    "UselessRuleWarning",
    "VadaBoostClassifier",
    "VarianceBoostClassifier",
    "WorstClassBoostClassifier",
    "tune",
    "tune_labels",
]
