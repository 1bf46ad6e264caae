"""Errors of classes, groups and tails: functions, curves and scorers."""

from tailboost.rates.metrics import *  # noqa: F403  # the public path of this module
from tailboost.rates.metrics import __all__ as __all__
