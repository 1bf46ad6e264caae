"""The algorithms of the papers with the papers' symbols and settings, one function each."""

from tailboost.boosting.published import *  # noqa: F403  # the public path of this module
from tailboost.boosting.published import __all__ as __all__


def __dir__() -> list[str]:
    return __all__
