"""Plots with scikit-learn's conventions: ``from_estimator``, ``from_predictions``, ``plot``."""

from tailboost.app.plotting import *  # noqa: F403  # the public path of this module
from tailboost.app.plotting import __all__ as __all__
