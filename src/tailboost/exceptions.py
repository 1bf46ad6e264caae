"""Warnings and errors of the library."""

from tailboost.core.exceptions import *  # noqa: F403  # the public path of this module
from tailboost.core.exceptions import __all__ as __all__
