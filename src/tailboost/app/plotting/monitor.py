"""The rate of each batch against its bound."""

from __future__ import annotations

import math
from collections.abc import Sequence
from textwrap import fill
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from tailboost.app.plotting.style import (
    BLUE,
    VERMILLION,
    Display,
    fitted_text,
    fitting_size,
    in_percent,
    room_of,
    shaped,
    styled,
    text_colour,
    width_of,
)
from tailboost.core.array_types import Axes
from tailboost.core.rate_words import limit_words, rounded_away
from tailboost.core.spelling import cut_to, how_many

PANEL = 1.4  # height of a panel in inches
TITLE = 1.1  # height of title and names of batches in inches
COLUMN = 4.8  # least width of a panel in inches for two panels side by side
LINE = 14.0  # height of a line of text in points
GAP_OF_NAMES = 8.0  # in points, between the names of batches
WIDTH_OF_NUMBERS = 48.0  # width in points of the numbers left of a panel, and of the margins
MOST_PANELS = 6  # panels in one drawing; the bounds with the most evidence come first


class MonitorDisplay(Display):
    """The rate of each batch against its bound, in a panel for each bound, with the alarms marked.

    The rates count the rows with labels of each batch. An alarm follows from the evidence of all
    batches: a single rate outside its bound can be chance. Of more than six bounds, the ones with the most
    evidence against them are drawn. The panels have common scales, and stand in two columns where the figure
    is wide enough.

    Parameters
    ----------
    batches : sequence of str
        Names of the batches.
    names : sequence of str
        Names of the bounds.
    rates : array-like of shape (batches, bounds)
        The rate of each batch; NaN without rows.
    lower, upper : array-like of shape (bounds,)
        The bounds; NaN without one.
    alarms : sequence of int or None
        For each bound the first contradicting batch.
    evidence : array-like of shape (bounds,), default=None
        Largest evidence against each bound, for the order of the panels.
    name : str, default=None
        The result in words; the title.
    in_percent : bool, default=False
        Whether rates and bounds are written in percent.

    Attributes
    ----------
    ax_, figure_ : matplotlib artists
        The given axes, replaced by the panels, and the figure.
    axes_ : list of matplotlib Axes
        The panels.
    lines_ : list of matplotlib Line2D
        The rates, by panel.
    shown_ : list of int
        The drawn bounds, by panel.

    Raises
    ------
    ValueError
        If there is no batch, or shapes differ.

    Examples
    --------
    >>> from tailboost.plotting import MonitorDisplay
    >>> display = MonitorDisplay(
    ...     ["January", "February"], ["misses"], [[0.2], [0.5]], [float("nan")], [0.3], [1]
    ... )
    >>> display.alarms
    [1]
    """

    def __init__(
        self,
        batches: Sequence[str],
        names: Sequence[str],
        rates: ArrayLike,
        lower: ArrayLike,
        upper: ArrayLike,
        alarms: Sequence[int | None],
        *,
        evidence: ArrayLike | None = None,
        name: str | None = None,
        in_percent: bool = False,
    ) -> None:
        self.batches = list(batches)
        if not self.batches:
            raise ValueError(
                "batches: there is none to draw; add rows first: monitor = monitor.add(X, y) "
                "returns the monitor with them"
            )
        self.names = list(names)
        n_bounds = len(self.names)
        self.rates = shaped("rates", rates, (len(self.batches), n_bounds))
        self.lower = shaped("lower", lower, (n_bounds,))
        self.upper = shaped("upper", upper, (n_bounds,))
        self.alarms = list(alarms)
        shaped("alarms", self.alarms, (n_bounds,))
        self.evidence = shaped(
            "evidence", np.zeros(n_bounds) if evidence is None else evidence, (n_bounds,)
        )
        self.name = name
        self.in_percent = in_percent

    @classmethod
    def of(cls, monitor: Any, name: str | None = None) -> Self:
        """Return the display of a `tailboost.Monitor`, not yet drawn.

        Parameters
        ----------
        monitor : Monitor
            With at least one batch with labels.
        name : str, default=None
            The title; None takes the result.
        """
        bounds = monitor.tested
        batches = [batch for batch in monitor.batches if batch.labelled]
        alarms: list[int | None] = []
        for j in range(len(bounds)):
            contradicting = [
                k for k, batch in enumerate(batches) if batch.evidence[j] >= monitor.threshold
            ]
            alarms.append(min(contradicting, default=None))
        return cls(
            [batch.name for batch in batches],
            [bound.title for bound in bounds],
            [[error for _, error in batch.errors] for batch in batches],
            [bound.sides[0] for bound in bounds],
            [bound.sides[1] for bound in bounds],
            alarms,
            evidence=monitor.largest_evidence,
            name=monitor.verdict if name is None else name,
            in_percent=all(bound.in_percent for bound in bounds),
        )

    @property
    def _drawn_bounds(self) -> list[int]:
        """Numbers of the bounds with a panel: all in their order, or the most contradicted ones first."""
        if len(self.names) <= MOST_PANELS:
            return list(range(len(self.names)))
        return list(np.argsort(-self.evidence, kind="stable")[:MOST_PANELS].tolist())

    @property
    def size(self) -> tuple[float, float]:
        """Width and height of a new figure in inches."""
        width = 2 * COLUMN if len(self._drawn_bounds) > 1 else 6.4
        return width, self.height_at(width)

    def height_at(self, width: float) -> float:
        """Return the height in inches of a figure of this width."""
        n_panels = len(self._drawn_bounds)
        return PANEL * math.ceil(n_panels / self._columns_at(width)) + TITLE

    def _columns_at(self, width: float) -> int:
        """Return the number of columns of panels in a figure of this width in inches."""
        return 2 if len(self._drawn_bounds) > 1 and width >= 2 * COLUMN else 1

    def _draw(self, ax: Axes, name: str | None, kwargs: dict[str, Any]) -> None:
        """Draw the panels in the place of the axes, with one scale of rates and one of batches."""
        self.shown_ = self._drawn_bounds
        ax.set_axis_off()
        n_columns = self._columns_at(ax.figure.get_figwidth())
        n_rows = math.ceil(len(self.shown_) / n_columns)
        grid = ax.get_subplotspec().subgridspec(n_rows, n_columns, hspace=0.1)
        places = grid.subplots(sharex=True, sharey=True, squeeze=False).ravel().tolist()
        self.axes_ = places[: len(self.shown_)]
        for place in places[len(self.shown_) :]:
            place.remove()
        self.lines_ = [
            self._draw_bound(panel, bound, n_columns, kwargs)
            for panel, bound in zip(self.axes_, self.shown_, strict=True)
        ]
        self._write_title(name or "")
        numbers = np.vstack([self.rates, self.lower, self.upper])[:, self.shown_]
        low = float(np.nanmin(numbers, initial=np.inf))
        high = float(np.nanmax(numbers, initial=-np.inf))
        # Never 0: all numbers may be equal, and all may be 0.
        room = max(0.15 * (high - low), 0.02 * max(abs(high), abs(low)), 1e-3)
        self.axes_[0].set_ylim(low - room, high + 2 * room)
        if self.in_percent:
            self.axes_[0].yaxis.set_major_formatter(in_percent)
        self._name_batches(n_columns)

    def _name_batches(self, n_columns: int) -> None:
        """Write the names of as many batches as there is room for, below the last panel of each column."""
        panel = self.axes_[-1]
        names = [cut_to(batch, 12) for batch in self.batches]
        widest = max(width_of(name, None, "normal") for name in names) + GAP_OF_NAMES
        room = max(room_of(panel, n_columns) - WIDTH_OF_NUMBERS, widest)
        n_batches = len(names)
        step = math.ceil(n_batches * widest / room)
        ticks = list(range(n_batches - 1, -1, -step))  # the last batch has a name in any case
        panel.set_xticks(ticks, [names[k] for k in ticks], parse_math=False)
        panel.set_xlim(-0.5, n_batches - 0.5)
        for last_of_column in self.axes_[-n_columns:]:
            last_of_column.tick_params(labelbottom=True)

    def _write_title(self, name: str) -> None:
        """Write the name of the drawing, and the number of bounds left out, above the first panel."""
        lines = [name]
        n_left_out = len(self.names) - len(self.shown_)
        if n_left_out:
            lines.append(f"{how_many(n_left_out, 'bound')} with less evidence not drawn")
        if not any(lines):
            return
        panel = self.axes_[0]
        # Not wrap=True, because the layout collapses around wrapped text.
        width = round(12 * panel.figure.get_figwidth())
        panel.annotate(
            "\n".join(fill(line, width) for line in lines if line),
            (0, 1),
            (0, 24 + LINE),
            xycoords="axes fraction",
            textcoords="offset points",
            va="bottom",
        )

    def _draw_bound(self, ax: Axes, j: int, n_columns: int, kwargs: dict[str, Any]) -> Any:
        """Draw the rates of bound number j, the bound, its alarm and its texts; return the line of rates."""
        rates = self.rates[:, j]
        alarm = self.alarms[j]
        defaults = {"color": BLUE, "marker": "o", "linewidth": 1.5}
        (line,) = ax.plot(rates, **styled(defaults, kwargs))
        ends = [end for end in (self.lower[j], self.upper[j]) if not np.isnan(end)]
        for end in ends:
            ax.axhline(end, color=text_colour(), linewidth=2)
        if alarm is not None:
            height = rates[alarm]
            if np.isnan(height):  # the batch has no row of this rate
                height = ends[0]
            _draw_alarm(ax, alarm, height, is_early=alarm < len(rates) / 2)
        titles = [self._title(bound) for bound in self.shown_]
        margin = WIDTH_OF_NUMBERS
        size = fitting_size(ax, titles, margin=margin, columns=n_columns)
        self._write_bound(ax, j, size, n_columns)
        ax.spines[["top", "right"]].set_visible(False)
        return line

    def _title(self, j: int) -> str:
        """Whether there is an alarm, and the name of bound number j."""
        mark = "✓ no alarm" if self.alarms[j] is None else "✗ alarm"
        return f"{mark}: {self.names[j]}"

    def _write_bound(self, ax: Axes, j: int, size: float, n_columns: int) -> None:
        """Write name and bound number j above its panel, on two lines: a long name is cut, a bound never."""
        from matplotlib.transforms import offset_copy

        bounds = []
        for sign, bound in (("≥", self.lower[j]), ("≤", self.upper[j])):
            if not np.isnan(bound):
                rounded = rounded_away(bound, 4, above=sign == "≤")
                bounds.append(limit_words(sign, rounded, in_percent=self.in_percent))
        lines = [
            (1.6, "bold", self._title(j)),
            (0.6, "normal", f"bound {' and '.join(bounds)}"),
        ]
        for lines_above, weight, words in lines:
            place = offset_copy(ax.transAxes, ax.figure, y=LINE * lines_above, units="points")
            options: dict[str, Any] = {"size": size, "weight": weight, "transform": place}
            fitted_text(ax, 1.0, words, margin=WIDTH_OF_NUMBERS, columns=n_columns, **options)


def _draw_alarm(ax: Axes, batch: int, height: float, *, is_early: bool) -> None:
    """Mark the batch of an alarm, with the word on the side of the longer part of the axis."""
    ax.axvline(batch, color=VERMILLION, linewidth=2)
    ax.plot(batch, height, marker="X", markersize=10, color=VERMILLION)
    shift, alignment = (5, "left") if is_early else (-5, "right")
    ax.annotate(
        "alarm", (batch, 1), (shift, -3), xycoords=("data", "axes fraction"), ha=alignment, va="top",
        textcoords="offset points", color=VERMILLION, weight="bold",
    )  # fmt: skip
