"""Warnings with the line of the user's program."""

from __future__ import annotations

import sys
import warnings

_OURS = ("tailboost", "sklearn")


def warn_user(message: str, category: type[Warning] = UserWarning) -> None:
    """Warn with the place of the nearest caller outside of tailboost and scikit-learn."""
    level = 1
    frame = sys._getframe()
    while frame.f_back is not None:
        package = frame.f_globals.get("__name__", "").split(".")[0]
        if package not in _OURS:
            break
        frame = frame.f_back
        level += 1
    warnings.warn(message, category, stacklevel=level)
