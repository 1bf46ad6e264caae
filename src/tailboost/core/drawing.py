"""The way up to the displays, which draw certificates, monitors, curves and tables."""

from typing import Any


def display(name: str) -> Any:
    """Return a display or page of `tailboost.plotting`; only drawing loads matplotlib."""
    # By its public name, because the wing of plots is above its callers.
    from tailboost import plotting

    return getattr(plotting, name)
