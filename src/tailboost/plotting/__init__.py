"""Displays, after scikit-learn's conventions: from_estimator, from_predictions, plot."""

from tailboost.plotting._class_error import ClassErrorDisplay
from tailboost.plotting._cvar_curve import CVaRCurveDisplay
from tailboost.plotting._deferral import DeferralDisplay
from tailboost.plotting._tradeoff import TradeOffDisplay
from tailboost.plotting._weights import WeightTrajectoryDisplay
from tailboost.plotting._worst_case import WorstCaseDisplay

__all__ = [
    "CVaRCurveDisplay",
    "ClassErrorDisplay",
    "DeferralDisplay",
    "TradeOffDisplay",
    "WeightTrajectoryDisplay",
    "WorstCaseDisplay",
]
