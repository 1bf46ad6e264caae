"""The displays of certificates, monitors, curves and tables, from the module that the package hands in."""

from collections.abc import Callable
from typing import Any

_load_displays: Callable[[], Any]


def provide(load_displays: Callable[[], Any]) -> None:
    """Set the function that imports the module of displays: it stands above the wings that draw."""
    global _load_displays
    _load_displays = load_displays


def display(name: str) -> Any:
    """Return a display or page of `tailboost.plotting`; only drawing loads matplotlib."""
    return getattr(_load_displays(), name)
