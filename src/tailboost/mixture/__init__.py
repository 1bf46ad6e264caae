"""Mixtures of any models' probabilities that hold up on the worst class, group or tail."""

from tailboost.mixture._rated import InfeasibleLimitsError
from tailboost.mixture._robust import RobustMixtureClassifier, default_estimators
from tailboost.mixture._rule import Rule, RulePart
from tailboost.mixture._tune import tune

__all__ = [
    "InfeasibleLimitsError",
    "RobustMixtureClassifier",
    "Rule",
    "RulePart",
    "default_estimators",
    "tune",
]
