"""Plots with scikit-learn's conventions: ``from_estimator``, ``from_predictions``, ``plot``."""

from tailboost.app.plotting.class_error import ClassErrorDisplay
from tailboost.app.plotting.cvar_curve import CVaRCurveDisplay
from tailboost.app.plotting.deferral import DeferralDisplay
from tailboost.app.plotting.tradeoff_curve import TradeOffDisplay
from tailboost.app.plotting.weight_trajectory import WeightTrajectoryDisplay
from tailboost.app.plotting.worst_case import WorstCaseDisplay

__all__ = [
    "CVaRCurveDisplay",
    "ClassErrorDisplay",
    "DeferralDisplay",
    "TradeOffDisplay",
    "WeightTrajectoryDisplay",
    "WorstCaseDisplay",
]
