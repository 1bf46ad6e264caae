"""Neural nets as base learners (extra ``torch``); importing tailboost alone does not import PyTorch."""

from tailboost.learners.torch import *  # noqa: F403  # the public path of this module
from tailboost.learners.torch import __all__ as __all__
