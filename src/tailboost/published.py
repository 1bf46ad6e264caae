"""The algorithms of the papers with the papers' settings, one function each."""

from tailboost.classifiers.published import *  # noqa: F403  # the public path of this module
from tailboost.classifiers.published import __all__ as __all__
