"""The algorithms of the papers with the papers' settings, one function each."""

from typing import TYPE_CHECKING, Never

from tailboost.classifiers.published import *  # noqa: F403  # the public path of this module
from tailboost.classifiers.published import __all__ as __all__
from tailboost.core.spelling import no_attribute


def __dir__() -> list[str]:
    return __all__


if not TYPE_CHECKING:  # type checkers know the names

    def __getattr__(name: str) -> Never:
        raise no_attribute(__name__, name, __all__)
