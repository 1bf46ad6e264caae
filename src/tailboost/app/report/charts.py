"""Charts of the pages, drawn by matplotlib."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tailboost.app.plotting import LimitsDisplay, MonitorDisplay
from tailboost.app.plotting.style import BLUE, GREEN, GREY, PURPLE, VERMILLION, Display
from tailboost.app.report.comparison_table import (
    WORDS,
    WORST_CLASS_COLUMN,
    WORST_GROUP,
    ComparedMethod,
    ComparisonTable,
    figure_of,
)
from tailboost.app.report.svg import SOFT, WIDE, svg
from tailboost.core.array_types import Axes
from tailboost.core.limit_lines import LimitLine
from tailboost.core.spelling import cut_to
from tailboost.guarantees.monitor import Monitor

MARKERS = "osD^vPX*"  # of the named methods in a chart; the others are small grey points
COLOURS = (BLUE, VERMILLION, GREEN, PURPLE)
CLASSES_OF_CHART = 10  # classes in the chart of class errors
TWO_COLUMNS = 800.0  # width in pixels of a chart with two columns
INCH = 90.0  # height in pixels of an inch of a display; on a page its text is larger


@dataclass(frozen=True)
class Look:
    """A method of a comparison with its colour and marker; ``title`` is "" for a grey point."""

    method: ComparedMethod
    title: str
    colour: str
    marker: str

    @property
    def style(self) -> dict[str, Any]:
        """Options of matplotlib for a line of the method."""
        return {"color": self.colour, "marker": self.marker, "label": self.title or "_"}


def looks_of(table: ComparisonTable) -> list[Look]:
    """Return the look of each finished method, grey points first; `shown_first` of the table have names."""
    named = table.shown_first(len(MARKERS))
    looks: list[Look] = []
    for method in table.finished:
        if method in named:
            k = len(looks)
            looks.append(Look(method, method["title"], COLOURS[k % len(COLOURS)], MARKERS[k]))
    others = [method for method in table.finished if method not in named]
    return [*(Look(method, "", GREY, ".") for method in others), *looks]


def comparison_charts(table: ComparisonTable) -> dict[str, str]:
    """Return the charts of a report by their names in the template; empty if no method finished."""
    if not table.finished:
        return {}
    looks = looks_of(table)
    charts = {
        "tradeoff": tradeoff_chart(table, looks),
        "classes": error_chart(looks, ("class_errors",), classes_drawn(table), "class"),
    }
    if table.data["groups"]:
        charts["group_tradeoff"] = tradeoff_chart(table, looks, WORST_GROUP)
    for name, counts in table.data["groups"].items():
        charts[f"group {name}"] = error_chart(looks, ("group_errors", name), counts, name)
    return charts


def tradeoff_chart(
    table: ComparisonTable, looks: Sequence[Look], worst: str = WORST_CLASS_COLUMN
) -> str:
    """Draw the overall error against a worst error: a point per method, and trade-offs as curves."""
    title = f"error of the {WORDS[worst]}"

    def draw(ax: Axes) -> None:
        for look in looks:
            curve = table.curve(look.method, worst)
            if len(curve) > 1:
                points = [(point["error"]["mean"], point[worst]["mean"]) for point in curve]
                ax.plot(*np.transpose(points), color=look.colour, linewidth=1.5)
            overall_error = figure_of(look.method, "error")
            worst_error = figure_of(look.method, worst)
            ax.errorbar(
                overall_error["mean"],
                worst_error["mean"],
                xerr=_arms([overall_error], look),
                yerr=_arms([worst_error], look),
                linestyle="none",
                elinewidth=1,
                **look.style,
            )
        low, high = _within_errors(ax.get_ylim())
        ax.set(xlim=_within_errors(ax.get_xlim()), ylim=(low, high))
        if low < table.random_error < high:
            ax.axhline(table.random_error, color=SOFT, linestyle=":", label="random guess")
        ax.set(xlabel="overall error", ylabel=title)
        _finish(ax)

    label = f"Scatter of the overall error against the {title}, one mark per method."
    return svg(
        draw, f"{label} The table of {table.data['name']} lists the numbers.", lambda _: 420
    )


def error_chart(
    looks: Sequence[Look], path: tuple[str, ...], counts: Mapping[str, int], by: str
) -> str:
    """Draw the errors by class or group: a dot with its interval for each named method.

    ``path`` leads to the errors among the figures of a method. ``counts`` are the rows of each class or group
    in the chart, which ``by`` names.
    """
    named = [look for look in looks if look.title]

    def draw(ax: Axes) -> None:
        for k, look in enumerate(named):
            errors = figure_of(look.method, *path) or {}
            measured = [name for name in counts if errors.get(name)]
            places = np.array([list(counts).index(name) for name in measured])
            figures = [errors[name] for name in measured]
            ax.errorbar(
                [figure["mean"] for figure in figures],
                places + (k + 1) / (len(named) + 1),  # a class or group is a band of height 1
                xerr=_arms(figures, look),
                linestyle="none",
                **look.style,
            )
        names = [f"{cut_to(name, 18)}\nn = {n_rows:,}" for name, n_rows in counts.items()]
        ax.set_yticks(np.arange(len(names)) + 0.5, names, parse_math=False)
        ax.set(ylim=(len(names), 0), xlim=_within_errors(ax.get_xlim()), xlabel="error")
        _finish(ax)
        ax.hlines(range(1, len(names)), *ax.get_xlim(), color=SOFT, linewidth=0.5)
        ax.grid(visible=False, axis="y")

    label = f"Dot chart: error of predict by {by}, one dot per method with its 95 % interval."
    height = 14 * (len(named) + 1) * len(counts) + 140
    return svg(draw, label, lambda _: height)


def limits_chart(
    lines: Sequence[LimitLine],
    axis: str = "rate; thin line: certified bound; thick: limit",
    *,
    numbers: bool = True,
) -> str:
    """Draw limits, or differences, each with its verdict first; ``axis`` names the numbers and the line."""
    display = LimitsDisplay(lines, axis=axis, numbers=numbers)
    names = ", ".join(dict.fromkeys(line.name for line in lines))
    return display_chart(display, f"Bar chart: {axis} with interval and verdict: {names}.")


def monitor_chart(monitor: Monitor) -> str:
    """Draw the rate of each batch against its bound; return no chart if no row has a label."""
    if not any(batch.labelled for batch in monitor.batches):
        return ""
    label = (
        "Line charts: the rate of each batch against its bound. The tables have the numbers."
    )
    return display_chart(MonitorDisplay.of(monitor, name=""), label, TWO_COLUMNS)


def display_chart(display: Display, label: str, wide: float = WIDE) -> str:
    """Draw a display for a page; ``label`` describes the content for screen readers.

    ``wide`` is the width of the chart in pixels on a wide page.
    """
    return svg(display.plot, label, lambda width: INCH * display.height_at(width / 72), wide)


def classes_drawn(table: ComparisonTable) -> dict[str, int]:
    """Return the numbers of rows of the classes in charts, by label.

    Of many classes only some are drawn: the hardest ones, by the error of the best method there.
    """
    counts = dict(zip(table.data["classes"], table.data["class_counts"], strict=True))
    errors_by_method = [method["figures"]["class_errors"] for method in table.finished]

    def least_error(label: str) -> float:
        errors = [errors[label]["mean"] for errors in errors_by_method if label in errors]
        return min(errors, default=0.0)

    hardest = sorted(counts, key=least_error, reverse=True)[:CLASSES_OF_CHART]
    return {label: n_rows for label, n_rows in counts.items() if label in hardest}


def _arms(figures: Sequence[Mapping[str, Any]], look: Look) -> Any:
    """Return the lengths of the intervals left and right of the means, shape (2, n); None without any."""
    if not look.title or any(figure["high"] is None for figure in figures):
        return None
    return np.transpose(
        [
            (figure["mean"] - figure["low"], figure["high"] - figure["mean"])
            for figure in figures
        ]
    )


def _within_errors(limits: tuple[float, float]) -> tuple[float, float]:
    """Return the limits of an axis with little more than 0 to 1, the range of errors."""
    low, high = limits
    return max(low, -0.01), min(high, 1.02)


def _finish(ax: Axes) -> None:
    """Draw a grid instead of a frame, and the names of the methods below the axes."""
    ax.grid(linewidth=1)
    ax.spines[:].set_visible(False)
    ax.tick_params(length=0)
    handles, names = ax.get_legend_handles_labels()
    n_columns = round(ax.figure.get_figwidth() / 4)  # one on a phone
    if names:
        legend = ax.figure.legend(handles, names, loc="outside lower center", ncols=n_columns)
        for text in legend.get_texts():
            text.set_parse_math(False)
