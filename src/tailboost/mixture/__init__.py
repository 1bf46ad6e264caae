"""Mixtures of any models' probabilities that hold up on the worst class, group or tail."""

from tailboost.mixture._rated import InfeasibleLimitsError
from tailboost.mixture._robust import RobustMixtureClassifier, default_estimators, tune
from tailboost.mixture._rule import Rule, RulePart

__all__ = [
    "InfeasibleLimitsError",
    "RobustMixtureClassifier",
    "Rule",
    "RulePart",
    "default_estimators",
    "tune",
]
