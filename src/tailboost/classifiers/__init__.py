"""The boosting classifiers.

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
from tailboost.classifiers.oco import OCOBoostClassifier
from tailboost.classifiers.plan import (
    BoundNotMetWarning,
    ConfidenceNotReachedWarning,
    FitInterruptedWarning,
    LimitBelowNoiseWarning,
    SmallSubgroupsWarning,
    UselessRuleWarning,
)
from tailboost.classifiers.variance import (
    AdaBoostClassifier,
    EBBoostClassifier,
    SoftMarginBoostClassifier,
    VadaBoostClassifier,
    VarianceBoostClassifier,
)
from tailboost.core.method import Method
from tailboost.guarantees.leakage import LeakageError, ResubstitutionWarning
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
    "EBBoostClassifier",
    "FitInterruptedWarning",
    "LPBoostClassifier",
    "LeakageError",
    "LimitBelowNoiseWarning",
    "OCOBoostClassifier",
    "RegularizedLPBoostClassifier",
    "ResubstitutionWarning",
    "SmallSubgroupsWarning",
    "SoftMarginBoostClassifier",
    "UselessRuleWarning",
    "VadaBoostClassifier",
    "VarianceBoostClassifier",
]

#: Entries of `tailboost.app.registry`.
METHODS = (
    Method.of(
        AdaLPBoostClassifier,
        "AdaLPBoost",
        "Hedge over samples, exact CVaR mixture; one fit serves every α",
        randomized=True,
    ),
    Method.of(
        LPBoostClassifier,
        "LPBoost",
        "totally corrective player for one α, exact CVaR mixture",
        randomized=True,
    ),
    Method.of(
        RegularizedLPBoostClassifier,
        "Regularised LPBoost",
        "LPBoost with an entropy term and a rate of convergence",
        randomized=True,
    ),
    Method.of(
        AverageBoostClassifier, "AdaBoost + average", "Hedge over samples, even mixture", randomized=True
    ),
    Method.of(OCOBoostClassifier, "OCO boosting", "Hedge over samples against a weak learner, majority vote"),
    Method.of(DROBoostClassifier, "DRO boosting", "additive, for the worst case over a ball around the data"),
    Method.of(
        AdaBoostClassifier,
        "AdaBoost",
        "additive, the exponential loss (SAMME); the reference of the next three",
    ),
    Method.of(
        VadaBoostClassifier, "VadaBoost", "additive, with a penalty on the variance of the exponential loss"
    ),
    Method.of(
        EBBoostClassifier, "EBBoost", "the same penalty, each round the best of all stumps; two classes only"
    ),
    Method.of(
        SoftMarginBoostClassifier, "Soft-margin boosting", "AdaBoost's hypotheses, weights of a soft margin"
    ),
)
