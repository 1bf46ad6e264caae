"""Colours and axes all displays share."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from itertools import product
from typing import Any, Self

from numpy.typing import NDArray

from tailboost.core.subgroups import unit_name

# Okabe and Ito's colours that keep a contrast of 3 : 1 on white as well as on black.
BLUE, VERMILLION, GREEN, PURPLE = "#0072B2", "#D55E00", "#009E73", "#CC79A7"
STYLES = [
    (colour, line) for line, colour in product(("-", "--", "-.", ":"), (BLUE, VERMILLION, GREEN, PURPLE))
]


# The most units whose lines are named and coloured; the others stay thin.
MAX_NAMED = 8


def unit_styles(units: Iterable[Any], ranked: NDArray[Any]) -> list[dict[str, Any]]:
    """Colour and name the lines of the units that rank first; the others stay thin and unnamed."""
    names = [unit_name(unit) for unit in units]
    faint = {"color": text_colour(), "alpha": 0.25, "linewidth": 0.8, "marker": "", "label": "_others"}
    styles = [dict(faint) for _ in names]
    for (colour, line), j in zip(STYLES, sorted(ranked[:MAX_NAMED].tolist()), strict=False):
        styles[j] = {"label": names[j], "color": colour, "linestyle": line}
    return styles


class Display(ABC):
    """A picture that can be drawn again and on other axes.

    Subclasses keep what is drawn, and draw it in ``_draw`` on axes, under a name, with options of the caller
    for matplotlib.
    """

    name: str | None = None
    ax_: Any
    figure_: Any

    @abstractmethod
    def _draw(self, ax: Any, name: str | None, kwargs: dict[str, Any]) -> None: ...

    def _figsize(self) -> tuple[float, float] | None:
        """Return width and height of a new figure in inches; None takes matplotlib's."""
        return None

    def plot(self, ax: Any = None, *, name: str | None = None, **kwargs: Any) -> Self:
        """Draw the display.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            Where to draw; None makes a new figure.
        name : str, default=None
            Title, or label in the legend; None takes the display's own.
        **kwargs : dict
            For the function of matplotlib that draws it, ``plot`` for lines and ``barh`` for bars.

        Returns
        -------
        Display
            The display itself.

        Raises
        ------
        ImportError
            matplotlib is missing.
        """
        try:  # only here matplotlib's drawing is imported
            import matplotlib.pyplot as plt
        except ImportError as error:
            needs = f"{type(self).__name__}.plot needs matplotlib: pip install 'tailboost[app]'"
            raise ImportError(needs) from error
        if ax is None:
            _, ax = plt.subplots(figsize=self._figsize(), layout="constrained")
        self._draw(ax, self.name if name is None else name, kwargs)
        self.ax_, self.figure_ = ax, ax.figure
        return self


def text_colour() -> str:
    """Return the text colour of the current style, readable on a light or dark background."""
    import matplotlib as mpl

    return str(mpl.rcParams["text.color"])


def next_style(ax: Any, kind: str) -> dict[str, Any]:
    """Colour and line style for one more line of a kind on these axes."""
    drawn = sum(line.get_gid() == kind for line in ax.lines)
    colour, line = STYLES[drawn % len(STYLES)]
    return {"color": colour, "linestyle": line, "gid": kind}


def reference_line(ax: Any, y: float, label: str) -> Any:
    """Draw a dashed horizontal line, once: a second call with the same label returns the first line."""
    for line in ax.lines:
        if line.get_gid() == label:
            return line
    return ax.axhline(
        y, color=text_colour(), alpha=0.7, linestyle=(0, (4, 3)), linewidth=1, label=label, gid=label
    )


def styled(defaults: dict[str, Any], given: dict[str, Any], *, bars: bool = False) -> dict[str, Any]:
    """Merge drawing options: the caller's override the defaults, also under an alias such as ``lw``."""
    from matplotlib.cbook import normalize_kwargs
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    return defaults | dict(normalize_kwargs(given, Patch if bars else Line2D))
