"""Warnings with the line of the user's program."""

from __future__ import annotations

import sys
import warnings

_OURS = ("tailboost", "sklearn")


def warn_user(message: str, category: type[Warning] = UserWarning) -> None:
    """Warn with the place of the nearest caller outside of tailboost and scikit-learn."""
    level = 2
    frame = sys._getframe(1)
    while (
        frame.f_back is not None and frame.f_globals.get("__name__", "").split(".")[0] in _OURS
    ):
        level = level + 1
        frame = frame.f_back
    warnings.warn(message, category, stacklevel=level)
