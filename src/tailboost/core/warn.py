"""Warnings with the line of the user's program."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

_OURS = ("tailboost", "sklearn")
_left_out: ContextVar[tuple[type[Warning], ...]] = ContextVar("left_out", default=())


@contextmanager
def without_warning(category: type[Warning]) -> Iterator[None]:
    """Give no warnings of a category inside; unlike `warnings.catch_warnings` safe in threads."""
    token = _left_out.set((*_left_out.get(), category))
    try:
        yield
    finally:
        _left_out.reset(token)


def warn_user(message: str, category: type[Warning] = UserWarning) -> None:
    """Warn with the place of the nearest caller outside of tailboost and scikit-learn.

    Inside of `without_warning` of the category nothing happens.
    """
    if issubclass(category, _left_out.get()):
        return
    level = 1
    frame = sys._getframe()
    while frame.f_back is not None:
        package = frame.f_globals.get("__name__", "").split(".")[0]
        if package not in _OURS:
            break
        frame = frame.f_back
        level += 1
    warnings.warn(message, category, stacklevel=level)
