"""Base class, colours and line styles of all displays."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from itertools import product
from typing import Any, Self

import numpy as np

from tailboost.core.array_types import Axes, Floats

# Colours of Okabe and Ito with a contrast of at least 3 : 1 on white and on black.
BLUE, VERMILLION, GREEN, PURPLE = "#0072B2", "#D55E00", "#009E73", "#CC79A7"
GREY = "#83888F"
MARGIN = 24.0  # in points: of text in the width of a figure
# The smallest text that is not cut, as a part of the usual size: 9 of 12 pixels on a phone of 360.
SMALLEST_TEXT = 0.75
STYLES = [
    (colour, line)
    for line, colour in product(("-", "--", "-.", ":"), (BLUE, VERMILLION, GREEN, PURPLE))
]


def shaped(parameter: str, values: Any, shape: tuple[int, ...]) -> Floats:
    """Return the numbers of a parameter; None becomes NaN. Raise ValueError for another shape."""
    numbers = np.asarray(values, dtype=np.float64)
    if numbers.shape != shape:
        raise ValueError(f"{parameter} must have shape {shape}, got {numbers.shape}")
    return numbers


class Display(ABC):
    """Base class of displays: `plot` draws on given or new axes, any number of times."""

    name: str | None = None
    ax_: Any
    figure_: Any

    @property
    def size(self) -> tuple[float, float]:
        """Width and height of a new figure in inches."""
        return 6.4, 4.8

    def height_at(self, width: float) -> float:
        """Return the height in inches of a figure of this width, by default that of a new figure."""
        return self.size[1]

    @abstractmethod
    def _draw(self, ax: Axes, name: str | None, kwargs: dict[str, Any]) -> None:
        """Draw on these axes, with the title or label ``name``, and options for matplotlib."""

    def plot(self, ax: Axes = None, *, name: str | None = None, **kwargs: Any) -> Self:
        """Draw the display, and return it.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            Axes to draw on; None makes a new figure.
        name : str, default=None
            Title, or label in the legend; None takes the name of the display.
        **kwargs : dict
            Passed to matplotlib's ``plot``, or ``barh`` for bars.

        Raises
        ------
        ImportError
            If matplotlib is not installed.
        """
        try:
            import matplotlib.pyplot as plt
        except ImportError as error:
            needs = f"{type(self).__name__}.plot needs matplotlib: pip install 'tailboost[app]'"
            raise ImportError(needs) from error
        if ax is None:
            _, ax = plt.subplots(layout="constrained", figsize=self.size)
        self._draw(ax, self.name if name is None else name, kwargs)
        self.ax_ = ax
        self.figure_ = ax.figure
        return self


def fitted_text(
    ax: Axes,
    y: float,
    words: str,
    *,
    margin: float = MARGIN,
    columns: int = 1,
    size: float | None = None,
    weight: str = "normal",
    **options: Any,
) -> Any:
    """Write words from the left end of the axes, within the width of the figure less a margin in points.

    y is a coordinate of the data, and ``size`` that of the font. Of a figure with ``columns`` of axes, the
    words have the width of a column. Longer words lose their middle: lines of a figure often have the same
    beginning, and end with the subgroup.
    """
    room = room_of(ax, columns) - margin
    shown = words
    for kept in range(len(words), 0, -1):
        if width_of(shown, size, weight) <= room:
            break
        n_last = kept // 3  # letters of the end
        shown = f"{words[: kept - n_last]}…{words[len(words) - n_last :]}"
    options.setdefault("transform", ax.get_yaxis_transform())
    options |= {"size": size, "weight": weight}
    return ax.text(0.0, y, shown, va="center", parse_math=False, **options)


def fitting_size(
    ax: Axes, lines: Sequence[str], *, margin: float = MARGIN, columns: int = 1
) -> float:
    """Return the size of a bold font in which all lines fit the column less a margin, or the smallest one.

    The lines of a drawing have one size: the usual one, or on a phone a smaller one.
    """
    from matplotlib.font_manager import FontProperties

    usual = FontProperties().get_size_in_points()
    room = room_of(ax, columns) - margin
    for share in np.linspace(
        1.0, SMALLEST_TEXT, 21
    ).tolist():  # widths are not linear in the size
        size = float(usual * share)
        if all(width_of(line, size, "bold") <= room for line in lines):
            break
    return size


def room_of(ax: Axes, columns: int) -> float:
    """Return the width for text in points of one of the columns of a figure.

    Letters of whole pixels widen text by up to .043 at 60 to 300 dots per inch.
    """
    return float(72 * ax.figure.get_figwidth() / columns) / 1.045


def width_of(words: str, size: float | None, weight: str) -> float:
    """Return the width of words in points, in a font of this size; None is the usual one."""
    from matplotlib.font_manager import FontProperties
    from matplotlib.textpath import text_to_path

    font = FontProperties(weight=weight, size=size)
    width, _, _ = text_to_path.get_text_width_height_descent(words, font, ismath=False)
    return float(width)


def keyed(ax: Axes, **options: Any) -> None:
    """Add a legend if there are named artists; names are text, never mathematics."""
    if ax.get_legend_handles_labels()[1]:
        for text in ax.legend(**options).get_texts():
            text.set_parse_math(False)


def text_colour() -> str:
    """Return the text colour of the current style, readable on a light or dark background."""
    import matplotlib as mpl

    return str(mpl.rcParams["text.color"])


def next_style(ax: Axes, kind: str) -> dict[str, Any]:
    """Return the next colour and line style for a line of this kind on the axes."""
    n_drawn = sum(line.get_gid() == kind for line in ax.lines)
    colour, line_style = STYLES[n_drawn % len(STYLES)]
    return {"color": colour, "linestyle": line_style, "gid": kind}


def reference_line(ax: Axes, y: float, label: str) -> Any:
    """Return a dashed horizontal line with a label, drawn if the axes have none with this label."""
    for line in ax.lines:
        if line.get_gid() == label:
            return line
    return ax.axhline(
        y,
        color=text_colour(),
        alpha=0.7,
        linestyle=(0, (4, 3)),
        linewidth=1,
        label=label,
        gid=label,
    )


def styled(
    defaults: dict[str, Any], options: dict[str, Any], *, bars: bool = False
) -> dict[str, Any]:
    """Return defaults for lines or bars, replaced by options, also under an alias such as ``lw``."""
    from matplotlib.cbook import normalize_kwargs
    from matplotlib.lines import Line2D
    from matplotlib.patches import Rectangle

    return defaults | dict(normalize_kwargs(options, Rectangle if bars else Line2D))


def in_percent(rate: float, _: int) -> str:
    """Return a number of an axis of rates in percent, a formatter of matplotlib."""
    return f"{100.0 * rate:.6g} %"


def finish_bars(ax: Axes, low: float, high: float, words: str, name: str | None) -> None:
    """Set the range and the name of the axis of horizontal bars, without a frame."""
    ax.set_xlim(low, high)
    ax.locator_params(axis="x", nbins=int(ax.figure.get_figwidth()) + 1)  # numbers do not touch
    ax.set_yticks([])
    ax.spines[["left", "top", "right"]].set_visible(False)
    ax.set_xlabel(words)
    if name:
        ax.set_title(name, loc="left", fontsize="medium", wrap=True, parse_math=False)
