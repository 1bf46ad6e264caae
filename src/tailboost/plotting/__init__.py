"""Displays, after scikit-learn's conventions: from_estimator, from_predictions, plot."""

from tailboost.plotting._class_error import ClassErrorDisplay
from tailboost.plotting._cost import CostDisplay
from tailboost.plotting._cvar_curve import CVaRCurveDisplay
from tailboost.plotting._margins import MarginDisplay
from tailboost.plotting._staged_errors import StagedClassErrorDisplay
from tailboost.plotting._step_cost import StepCostDisplay
from tailboost.plotting._tradeoff import TradeOffDisplay
from tailboost.plotting._weights import WeightTrajectoryDisplay
from tailboost.plotting._worst_case import WorstCaseDisplay

__all__ = [
    "CVaRCurveDisplay",
    "ClassErrorDisplay",
    "CostDisplay",
    "MarginDisplay",
    "StagedClassErrorDisplay",
    "StepCostDisplay",
    "TradeOffDisplay",
    "WeightTrajectoryDisplay",
    "WorstCaseDisplay",
]
