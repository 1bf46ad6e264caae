"""Plots with scikit-learn's conventions: ``from_estimator``, ``from_predictions``, ``plot``."""

from tailboost.app.plotting.curve_page import curve_page
from tailboost.app.plotting.cvar_curve import CVaRCurveDisplay
from tailboost.app.plotting.tradeoff_curve import TradeOffDisplay

__all__ = ["CVaRCurveDisplay", "TradeOffDisplay", "curve_page"]
