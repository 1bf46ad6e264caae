"""Warnings at the line of the user's program that caused them."""

import sys
import warnings

# Packages with lines that are not of the user's program.
_OURS = ("tailboost", "sklearn")


def warn_user(message: str, category: type[Warning] = UserWarning) -> None:
    """Warn with the place of the nearest caller outside of tailboost and scikit-learn."""
    stacklevel = 1
    frame = sys._getframe()
    while frame.f_back and frame.f_globals.get("__name__", "").split(".")[0] in _OURS:
        frame = frame.f_back
        stacklevel += 1
    warnings.warn(message, category, stacklevel=stacklevel)
