"""Charts of the pages, drawn by matplotlib for a wide page and for a phone."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from tailboost.app.plotting import (
    CVaRCurveDisplay,
    GroupsDisplay,
    LimitsDisplay,
    MonitorDisplay,
)
from tailboost.app.report.comparison_table import (
    WORDS,
    WORST_CLASS_COLUMN,
    WORST_GROUP,
    ComparisonTable,
    figure_of,
)
from tailboost.app.report.svg import CURRENT, SOFT, both, tagged
from tailboost.core.array_types import Axes
from tailboost.core.limit_lines import LimitLine
from tailboost.core.spelling import cut_to
from tailboost.guarantees.monitor import Monitor

# Colours on white and on near-black: distinguishable for the colour-blind, contrast above 3 : 1.
HUES = (
    ("#0060b0", "#4ba3f2"),
    ("#b34700", "#ff9347"),
    ("#00764f", "#2fc492"),
    ("#8e3a8e", "#e08ae0"),
    ("#8a6a00", "#e3bf3c"),
    ("#c2185b", "#ff7aa8"),
    ("#00838f", "#4dd0e1"),
    ("#5d4037", "#c8a593"),
)
OTHER_COLOURS = ("#55595f", "#b4b9c0")
MARKER_OF_SYMBOL = dict(zip("●■◆▲▼✚✖★⬢", "osD^vPX*h", strict=True))
# Hue and symbol of methods, the same on every page: the hue shows the models, the symbol the method.
LOOK_OF_METHOD = {
    "robustmixture": (0, "●"), "worstclassboost": (3, "●"), "groupdroboost": (5, "●"), "adalpboost": (6, "●"),
    "worstclassboost-groups": (3, "★"), "groupdroboost-classes": (5, "★"),
    "xgboost": (1, "■"), "xgboost-balanced": (1, "▲"), "xgboost-tuned": (1, "◆"), "xgboost-cells": (1, "▼"),
    "forest": (2, "■"), "forest-balanced": (2, "▲"), "forest-tuned": (2, "◆"),
    "average-tuned": (4, "◆"), "erm": (7, "■"), "today": (7, "■"), "today-tuned": (7, "◆"),
}  # fmt: skip
MOST_SHOWN = len(HUES)  # methods drawn in colour with a name; the others are grey numbers
CLASSES_OF_CHART = 10  # classes in the chart of class errors
# Tried places of a name beside its point, in pixels above or below and to the right or left.
LABEL_PLACES = tuple(itertools.product((8, -15, 24, -30, 40, -46, 56), (9, -9)))
LETTER_WIDTH = 0.69 * 12  # mean width in pixels of a bold letter of 12 pixels
INCH = 90.0  # height in pixels of an inch of a display; on a page its text is larger

Style = Mapping[str, Any]
Figure = Mapping[str, Any]


def method_styles(table: ComparisonTable) -> list[dict[str, Any]]:
    """Return method, title, figures, colours and symbol of each finished method, the shown ones first.

    A shown method has a hue and a symbol: its usual ones of `LOOK_OF_METHOD`, or free ones. Other methods are
    grey numbers. ``kind`` has the classes of the style sheet: "m m0", "m m1", ….
    """
    shown = [method["name"] for method in table.shown_first(MOST_SHOWN)]
    looks = {name: LOOK_OF_METHOD[name] for name in shown if name in LOOK_OF_METHOD}
    free_looks = ((hue, symbol) for symbol in "✖★✚⬢" for hue in range(len(HUES)))
    for name in shown:
        looks.setdefault(name, next(look for look in free_looks if look not in looks.values()))
    shown_first = sorted(table.finished, key=lambda method: method["name"] not in looks)
    styles = []
    for k, method in enumerate(shown_first):
        light, dark = OTHER_COLOURS
        symbol = str(k + 1)
        if method["name"] in looks:
            hue, symbol = looks[method["name"]]
            light, dark = HUES[hue]
        styles.append(
            {
                "method": method, "title": method["title"], "figures": method["figures"], "light": light,
                "dark": dark, "symbol": symbol, "dash": not method["ours"],
                "shown": method["name"] in looks, "kind": f"m m{k}", "index": k,
            }
        )  # fmt: skip
    return styles


def comparison_charts(table: ComparisonTable, styles: Sequence[Style]) -> dict[str, str]:
    """Return the charts of a report by their names in the template; empty if no method finished."""
    if not table.finished:
        return {}
    charts = {
        "tradeoff": tradeoff_chart(table, styles),
        "cvar": cvar_chart(table, styles),
        "classes": error_chart(
            table, styles, ("class_errors",), classes_drawn(table), "by class"
        ),
    }
    if table.data["groups"]:
        charts["group_tradeoff"] = tradeoff_chart(table, styles, WORST_GROUP)
    for name, counts in table.data["groups"].items():
        charts[f"group {name}"] = error_chart(
            table, styles, ("group_errors", name), counts, f"by {name}"
        )
    return charts


def tradeoff_chart(
    table: ComparisonTable,
    styles: Sequence[Style],
    worst: str = WORST_CLASS_COLUMN,
    title: str = "",
) -> str:
    """Draw the overall error against a worst error: a point per method, and trade-offs as curves.

    ``title`` names the worst error; by default it is the error of the worst class or group.
    """
    title = title or f"error of the {WORDS[worst]}"

    def draw(ax: Axes) -> None:
        ax.set_xlabel("overall error")
        ax.set_title(f"{title}   ↙ better", loc="left", color=SOFT)
        _tidy(ax, "both")
        ax.set_xlim(*_span(_shown_values(styles, "error")))
        low, high = _span(_shown_values(styles, worst), table.random_error)
        ax.set_ylim(low, high)
        if low < table.random_error < high:
            ax.axhline(table.random_error, color=SOFT, linestyle=":")
            place = {"ha": "right", "va": "bottom", "transform": ax.get_yaxis_transform()}
            ax.text(1.0, table.random_error, "random guess", color=SOFT, **place)
        for style in reversed(styles):
            _draw_method(ax, style, worst, table.curve(style["method"], worst))
        shown = [style for style in styles if style["shown"]]
        points = [
            (style["figures"]["error"]["mean"], style["figures"][worst]["mean"])
            for style in styles
        ]
        _write_names(ax, shown, points)

    label = (
        f"Scatter of the overall error against the {title}, one mark per method. The table "
        "lists the numbers."
    )
    return both(draw, label, 410)


def _draw_method(ax: Axes, style: Style, worst: str, curve: Sequence[Any]) -> None:
    """Draw the point of a method with its intervals, and its trade-off if it has several points.

    The overall error is horizontal. ``worst`` is the key of the vertical error among the figures.
    """
    if len(curve) > 1:
        points = [(point["error"]["mean"], point[worst]["mean"]) for point in curve]
        x, y = np.array([*dict.fromkeys(points)]).T  # several budgets may give one point
        gid = tagged(f"{style['kind']} curve", style["title"])
        ax.plot(x, y, color=CURRENT, linewidth=1.5, marker=".", gid=gid)
    overall_error = style["figures"]["error"]
    worst_error = style["figures"][worst]
    x = overall_error["mean"]
    y = worst_error["mean"]
    if style["shown"] and overall_error["high"] is not None:
        gid = tagged(style["kind"])
        whisker = {"color": CURRENT, "linewidth": 1.2, "alpha": 0.55, "gid": gid}
        ax.plot([overall_error["low"], overall_error["high"]], [y, y], **whisker)
        ax.plot([x, x], [worst_error["low"], worst_error["high"]], **whisker)
    tip = f"{style['title']}: overall {_text(overall_error)}, worst {_text(worst_error)}"
    looks = {"linestyle": "none", "color": CURRENT, "clip_on": False, **_marker(style)}
    ax.plot(x, y, gid=tagged(style["kind"], tip), **looks)


def _marker(style: Style) -> dict[str, Any]:
    """Return marker and size of a method: a symbol of `MARKER_OF_SYMBOL`, or a number."""
    symbol = style["symbol"]
    if symbol in MARKER_OF_SYMBOL:
        return {"marker": MARKER_OF_SYMBOL[symbol], "markersize": 8, "markeredgewidth": 0}
    return {"marker": f"${symbol}$", "markersize": 9, "markeredgewidth": 0}


def _write_names(
    ax: Axes, shown: Sequence[Style], points: Sequence[tuple[float, float]]
) -> None:
    """Write the name of each shown method near its point, over as few other elements as possible.

    ``points`` are of all methods, the shown ones first.
    """
    from matplotlib.transforms import Bbox

    ax.figure.draw_without_rendering()  # a layout determines the pixels
    pixels = ax.transData.transform(points)
    occupied = [Bbox.from_bounds(x - 6, y - 6, 12, 12) for x, y in pixels]
    frame = ax.get_window_extent()
    for style, (x, y), point in zip(shown, pixels, points, strict=False):
        width = LETTER_WIDTH * len(style["title"])
        places = []
        for dy, dx in LABEL_PLACES:
            left = x + dx
            if dx < 0:  # the name ends there
                left -= width
            box = Bbox.from_bounds(left, y + dy - 4, width, 16)
            penalty = box.count_overlaps(occupied)
            if not (frame.contains(*box.min) and frame.contains(*box.max)):
                penalty += 100
            places.append((penalty, dx, dy, box))
        _, dx, dy, box = min(places, key=lambda place: place[0])  # the first of equal ones
        occupied.append(box)
        leader: dict[str, Any] = {}  # a line from a distant name to its point
        if abs(dy) > 20:
            leader["arrowprops"] = {"arrowstyle": "-", "color": CURRENT, "linewidth": 0.8}
        ax.annotate(
            style["title"], point, (dx, dy), textcoords="offset points", weight="bold",
            ha="left" if dx > 0 else "right", color=CURRENT, parse_math=False,
            gid=tagged(f"{style['kind']} name"), annotation_clip=False, **leader,
        )  # fmt: skip


def cvar_chart(table: ComparisonTable, styles: Sequence[Style]) -> str:
    """Draw the CVaR of each method against the tail mass, with bands for the intervals."""
    alphas = table.settings["curve_alphas"]
    n_classes = len(table.data["classes"])

    def draw(ax: Axes) -> None:
        for style in reversed(styles):  # the shown ones above the others
            _draw_cvar(ax, style, alphas, n_classes)
        for alpha in table.settings["alphas"]:
            ax.axvline(alpha, color=SOFT, linewidth=0.8, linestyle=":")
        ax.set_xlim(alphas[0], max(1.0, alphas[0] * 1.01))  # also if 1 is the only tail mass
        legend = ax.get_legend()
        if legend is not None:
            legend.remove()  # the page has one
        ax.set(ylabel="", xlabel="tail mass α (logarithmic)")
        ax.set_title("CVaR of the zero-one loss", loc="left", color=SOFT)
        _tidy(ax, "both")
        ax.figure.draw_without_rendering()  # a layout determines the pixels
        pixels, _ = ax.transData.transform([(alpha, 0.0) for alpha in alphas]).T  # x and y
        # The script of the page moves this line to the place of the slider.
        moves = " ".join(f"{x - pixels[0]:.1f}" for x in pixels)
        ax.axvline(alphas[0], color=CURRENT, linewidth=1.5, gid=tagged("cursor", moves))

    return both(
        draw,
        "Line chart: CVaR of the zero-one loss against the tail mass alpha, one line per method with a 95 % "
        "band. The file results.json has the numbers.",
        (430, 340),
    )


def _draw_cvar(ax: Axes, style: Style, alphas: Sequence[float], n_classes: int) -> None:
    """Draw the CVaR of one method at these tail masses, with a band of intervals if it is shown."""
    curve = style["figures"]["cvar_curve"]
    ends_and_mean = [(figure["low"], figure["mean"], figure["high"]) for figure in curve]
    low, mean, high = np.array(ends_and_mean, dtype=np.float64).T  # None becomes NaN
    band: dict[str, Any] = {}
    if style["shown"] and not np.isnan(low).any():
        band = {"lower": low.clip(0, 1), "upper": high.clip(0, 1)}
    looks: dict[str, Any] = {"marker": "None"}
    if style["shown"]:
        looks = _marker(style)
    looks["linestyle"] = "--" if style["dash"] else "-"
    looks["markevery"] = (style["index"] % 3, 3)  # markers of close curves at different places
    display = CVaRCurveDisplay(alphas, mean, n_classes=n_classes, name=style["title"], **band)
    display.plot(ax, color=CURRENT, gid=tagged(style["kind"], style["title"]), **looks)
    if display.band_ is not None:
        display.band_.set_gid(tagged(style["kind"]))
        display.band_.set_alpha(0.13)


def error_chart(
    table: ComparisonTable,
    styles: Sequence[Style],
    path: tuple[str, ...],
    counts: Mapping[str, int],
    by: str,
) -> str:
    """Draw the errors by class or group: a block per class or group, a dot with interval per shown method.

    ``path`` leads to the errors among the figures of a method. ``counts`` are the rows of each class or group
    in the chart. ``by`` ends the description for screen readers.
    """
    shown = [style for style in styles if style["shown"]]
    figures_of_shown = [figure_of(style["method"], *path) for style in shown]
    values: list[float] = []
    for figures in figures_of_shown:
        for name in counts:
            if figures.get(name):
                values += _numbers(figures[name])
    if not values:
        return ""
    lines_of_block = len(shown) + 2  # the name, a line for each method, and an empty line

    def draw(ax: Axes) -> None:
        low, high = _span(values)
        ax.set_xlim(low, high)
        ax.set_ylim(lines_of_block * len(counts), 0)
        if low < table.random_error < high:
            ax.axvline(table.random_error, color=SOFT, linestyle=":")
        most_letters = round(ax.figure.get_figwidth() * 7)
        at_left_edge = {"va": "center", "transform": ax.get_yaxis_transform()}
        for i, (name, n_rows) in enumerate(counts.items()):
            first_line = lines_of_block * i + 0.8
            words = f"{cut_to(name, most_letters)} (n = {n_rows:,})"
            ax.text(0.0, first_line, words, weight="bold", parse_math=False, **at_left_edge)
            for k, (style, figures) in enumerate(zip(shown, figures_of_shown, strict=True)):
                if figures.get(name):
                    _draw_error(ax, first_line + 1.1 + k, name, figures[name], style)
        ax.set_xlabel("error")
        ax.set_yticks([])
        _tidy(ax, "x")

    label = f"Dot chart: error of predict {by}, one dot per method with its 95 % interval."
    return both(draw, label, 13 * lines_of_block * len(counts) + 60)


def _draw_error(ax: Axes, height: float, name: str, figure: Figure, style: Style) -> None:
    """Draw the error of one method in a class or group of this name, with its interval."""
    if figure["high"] is not None:
        whisker = {"alpha": 0.55, "gid": tagged(style["kind"])}
        ax.plot([figure["low"], figure["high"]], [height, height], color=CURRENT, **whisker)
    tip = f"{style['title']}, {name}: {_text(figure)}"
    looks = {"gid": tagged(style["kind"], tip), **_marker(style)}
    ax.plot(figure["mean"], height, color=CURRENT, **looks)


def limits_chart(lines: Sequence[LimitLine], words: str = "rate; thick line: limit") -> str:
    """Draw limits, or differences, each with its verdict first; ``words`` describe the axis."""
    display = LimitsDisplay(lines)

    def draw(ax: Axes) -> None:
        display.plot(ax)
        if not ax.get_xlabel().endswith("drawn"):  # "…; 12 more limits are not drawn" stays
            ax.set_xlabel(words)

    label = "Bar chart: each limit with its verdict, the rate and its interval. The table has the numbers."
    _, height = display._size()
    return both(draw, label, INCH * height)


def groups_chart(display: GroupsDisplay) -> str:
    """Draw the rates of a display by subgroup, before and after the change of the model."""
    label = f"Bar chart: {display.rate}, {display.labels[0]} and {display.labels[1]}, with 95 % intervals."
    _, height = display._size()
    return both(display.plot, label, INCH * height)


def monitor_chart(monitor: Monitor) -> str:
    """Draw the rate of each batch against its bound; return no chart if no row has a label."""
    if not any(batch.labelled for batch in monitor.batches):
        return ""
    display = MonitorDisplay.of(monitor, name="")
    label = (
        "Line charts: the rate of each batch against its bound. The tables have the numbers."
    )
    _, height = display._size()
    return both(display.plot, label, INCH * height)


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


def _tidy(ax: Axes, axis: Any) -> None:
    """Draw a grid instead of a frame, with no more numbers than a phone has room for."""
    if ax.get_xscale() == "linear":
        ax.locator_params(axis="x", nbins=max(4, round(ax.figure.get_figwidth())))
    ax.grid(axis=axis, linewidth=1)
    ax.spines[:].set_visible(False)
    ax.tick_params(length=0)


def _text(figure: Figure) -> str:
    """Return a mean with its interval for a tooltip."""
    value = f"{figure['mean']:.3f}"
    if figure["high"] is None:
        return value
    low, high = (
        max(figure["low"], 0.0),
        min(figure["high"], 1.0),
    )  # of an error or its mean in a tail
    return f"{value} ({low:.3f} to {high:.3f})"


def _numbers(figure: Figure) -> list[float]:
    """Return the mean and the ends of the interval, if there is one."""
    numbers = (figure["mean"], figure["low"], figure["high"])
    return [number for number in numbers if number is not None]


def _shown_values(styles: Iterable[Style], key: str) -> list[float]:
    """Return the values that an axis shows: all marks, and intervals and trade-offs of shown methods."""
    values: list[float] = []
    for style in styles:
        figures = style["figures"]
        if not style["shown"]:
            values.append(figures[key]["mean"])
            continue
        values += _numbers(figures[key])
        values += [point[key]["mean"] for point in figures.get("tradeoff") or ()]
    return values


def _span(values: Sequence[float], reference: float | None = None) -> tuple[float, float]:
    """Return the limits of an axis within [0, 1], with room around the values.

    A reference is included if it is at most 15 % of the axis above the values. So is 0, at most 25 % below.
    """
    low = max(0.0, min(values))
    high = min(1.0, max(values))
    room = 0.07 * (high - low) + 0.008  # also around a single value
    low = max(0.0, low - room)
    high = min(1.0, high + room)
    length = high - low
    if reference is not None and reference < high + 0.15 * length:
        high = max(high, reference + 0.01)
        length = high - low
    if low < 0.25 * length:
        low = 0.0
    return low, high
