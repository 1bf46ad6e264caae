"""Randomised decisions with one draw per person: the draw is a keyed hash of the person's id."""

from tailboost.classifiers.decisions import *  # noqa: F403  # the public path of this module
from tailboost.classifiers.decisions import __all__ as __all__
