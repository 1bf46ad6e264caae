"""Plots with scikit-learn's conventions: ``from_estimator``, ``from_predictions``, ``plot``."""

from tailboost.app.plotting.curve_page import curve_page
from tailboost.app.plotting.cvar_curve import CVaRCurveDisplay
from tailboost.app.plotting.groups import GroupsDisplay
from tailboost.app.plotting.limits import LimitsDisplay
from tailboost.app.plotting.monitor import MonitorDisplay
from tailboost.app.plotting.tradeoff_curve import TradeOffDisplay

__all__ = [
    "CVaRCurveDisplay", "GroupsDisplay", "LimitsDisplay", "MonitorDisplay", "TradeOffDisplay",
    "curve_page",
]  # fmt: skip
