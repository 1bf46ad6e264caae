"""The way up to the displays, which draw certificates, monitors, curves and tables."""

from typing import Any


def display(name: str) -> Any:
    """Return a display or page of `tailboost.plotting`; matplotlib is loaded when it draws."""
    # By its public name: the wing of plots is above all that is drawn.
    from tailboost import plotting

    return getattr(plotting, name)
