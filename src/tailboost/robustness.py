"""Robustness of classifiers to shifts: worst-case loss over a ball, and the smallest harmful shift."""

from tailboost.guarantees.robustness import *  # noqa: F403  # the public path of this module
from tailboost.guarantees.robustness import __all__ as __all__
