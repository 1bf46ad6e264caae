"""Mixtures of any models' probabilities that hold up on the worst class, group or tail."""

from tailboost.mixture._robust import RobustMixtureClassifier, default_estimators, tune
from tailboost.mixture._rule import Rule, RulePart
from tailboost.rates import InfeasibleLimitsError

__all__ = [
    "InfeasibleLimitsError",
    "RobustMixtureClassifier",
    "Rule",
    "RulePart",
    "default_estimators",
    "tune",
]
