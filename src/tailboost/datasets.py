"""Bundled data sets."""

from tailboost.app.datasets import *  # noqa: F403  # the public path of this module
from tailboost.app.datasets import __all__ as __all__
