"""Charts of the report as SVG, each drawn for a wide page and for a phone."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from tailboost.app.report.comparison_table import WORDS, WORST_CLASS, WORST_GROUP, ComparisonTable, figure_of
from tailboost.app.report.svg import Axis, Canvas, text_width, ticks

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
GREY = ("#55595f", "#b4b9c0")
LINE_SYMBOLS = ("●", "■", "◆", "▲", "▼", "✚", "✖", "★")
# Hue and symbol of methods, the same on every page: the hue shows the models, the symbol the method.
LOOKS = {
    "robustmixture": (0, "●"), "worstclassboost": (3, "●"), "groupdroboost": (5, "●"), "adalpboost": (6, "●"),
    "worstclassboost-groups": (3, "★"), "groupdroboost-classes": (5, "★"),
    "xgboost": (1, "■"), "xgboost-balanced": (1, "▲"), "xgboost-tuned": (1, "◆"), "xgboost-cells": (1, "▼"),
    "forest": (2, "■"), "forest-balanced": (2, "▲"), "forest-tuned": (2, "◆"),
    "average-tuned": (4, "◆"), "erm": (7, "■"), "today": (7, "■"), "today-tuned": (7, "◆"),
}  # fmt: skip
MOST_SHOWN = len(HUES)  # methods drawn in colour with a name; the others are grey numbers
MOST_CLASSES = 10  # classes in the chart of class errors
WIDE, NARROW, BARS = 640, 360, 440  # widths in pixels
LABEL_HEIGHTS = (-9, 18, 4, -23, 32, -37, 46, -51, 60)  # tried heights of a name above or below its point
# Evidence outside these values is drawn at the edge.
LEAST_EVIDENCE, MOST_EVIDENCE = 1e-2, 1e6

Style = Mapping[str, Any]
Figure = Mapping[str, Any]
Point = tuple[float, float]
Box = tuple[float, float, float, float]  # left, top, right, bottom


def method_styles(table: ComparisonTable) -> list[dict[str, Any]]:
    """Return method, title, figures, colours and symbol of each finished method, the shown ones first.

    ``kind`` is a class of the style sheet: "m0", "m1", ….
    """
    shown = [m["name"] for m in table.shown_first(MOST_SHOWN)]
    looks = {name: LOOKS[name] for name in shown if name in LOOKS}
    spare = ((hue, symbol) for symbol in "✖★✚⬢" for hue in range(len(HUES)))
    for name in shown:
        looks.setdefault(name, next(look for look in spare if look not in looks.values()))
    styles = []
    for k, method in enumerate(sorted(table.finished, key=lambda m: m["name"] not in shown)):
        hue, symbol = looks.get(method["name"], (None, str(k + 1)))
        light, dark = GREY if hue is None else HUES[hue]
        styles.append(
            {
                "method": method, "title": method["title"], "figures": method["figures"], "light": light,
                "dark": dark, "symbol": symbol, "dash": not method["ours"],
                "shown": method["name"] in shown, "kind": f"m m{k}", "index": k,
            }
        )  # fmt: skip
    return styles


def line_styles() -> list[dict[str, Any]]:
    """Return the colours of numbered lines for the style sheet."""
    return [{"index": k, "light": light, "dark": dark} for k, (light, dark) in enumerate(HUES)]


def comparison_charts(table: ComparisonTable, styles: Sequence[Style]) -> dict[str, str]:
    """Return the charts of a report by their names in the template; empty if no method finished."""
    if not table.finished:
        return {}
    charts = {
        "tradeoff": tradeoff_chart(table, styles),
        "cvar": cvar_chart(table, styles),
        "classes": error_chart(table, styles, ("class_errors",), classes_drawn(table), "by class"),
    }
    if table.data["groups"]:
        charts["group_tradeoff"] = tradeoff_chart(table, styles, WORST_GROUP)
    for name, counts in table.data["groups"].items():
        charts[f"group {name}"] = error_chart(table, styles, ("group_errors", name), counts, f"by {name}")
    return charts


def tradeoff_chart(
    table: ComparisonTable, styles: Sequence[Style], worst: str = WORST_CLASS, title: str = ""
) -> str:
    """Draw the overall error against a worst error: a point per method, and trade-offs as curves.

    ``title`` names the worst error; by default it is the error of the worst class or group.
    """
    title = title or f"error of the {WORDS[worst]}"
    shown = [s for s in styles if s["shown"]]
    curves: dict[int, list[Point]] = {}
    for s in styles:
        along = table.curve(s["method"], worst)
        points = ((p["error"]["mean"], p[worst]["mean"]) for p in along if len(along) > 1)
        curves[s["index"]] = list(dict.fromkeys(points))
    marks = [(s["figures"]["error"]["mean"], s["figures"][worst]["mean"]) for s in styles]
    drawn = [*marks, *(point for s in shown for point in curves[s["index"]])]
    ends = [[p[i] for p in drawn] for i in (0, 1)]
    for values, key in zip(ends, ("error", worst), strict=True):
        values += _interval_ends(s["figures"][key] for s in shown)
    compared = list(table.references.values())

    def draw(width: int) -> Canvas:
        canvas = Canvas(width, 410 if width == WIDE else 380)
        x = Axis(*_span(ends[0]), 46, width - 12)
        y = Axis(*_span(ends[1], table.random_error), canvas.height - 46, 30)
        canvas.horizontal(x, y.start, y.end, ticks(x.low, x.high, 8 if width == WIDE else 5), "overall error")
        canvas.vertical(y, x.start, x.end, ticks(y.low, y.high, 6), title)
        canvas.text(x.start + 6, y.start - 8, "↙ better", "start", "tick")
        occupied = [(x(a) - 6, y(b) - 6, x(a) + 6, y(b) + 6) for a, b in drawn]
        if y.low < table.random_error < y.high:
            height = y(table.random_error)
            canvas.line(x.start, height, x.end, height, "guess")
            canvas.text(x.end - 4, height - 5, "random guess", "end", "tick")
            occupied.append((x.end - text_width("random guess"), height - 16, x.end, height))
        for style in sorted(styles, key=lambda s: (s["shown"], s["method"] in compared), reverse=True):
            _draw_method(canvas, style, worst, curves[style["index"]], x, y)
            if style["shown"]:
                error, level = (style["figures"][key]["mean"] for key in ("error", worst))
                with canvas.group(style["kind"], style["title"]):
                    _draw_label(canvas, style["title"], x(error), y(level), occupied)
        return canvas

    return _both(
        draw,
        f"Scatter of the overall error against the {title}, one mark per method. The table lists the "
        "numbers.",
    )


def _draw_method(canvas: Canvas, style: Style, worst: str, curve: Sequence[Point], x: Axis, y: Axis) -> None:
    error, level = style["figures"]["error"], style["figures"][worst]
    px, py = x(error["mean"]), y(level["mean"])
    with canvas.group(style["kind"], f"{style['title']}: overall {_text(error)}, worst {_text(level)}"):
        if curve:
            canvas.path([(x(a), y(b)) for a, b in curve], "curve")
            for a, b in curve:
                canvas.add(f'<circle class="small" cx="{x(a):g}" cy="{y(b):g}" r="2.2"/>')
        if error["high"] is not None and style["shown"]:
            canvas.line(x.inside(error["low"]), py, x.inside(error["high"]), py, "whisker")
            canvas.line(px, y.inside(level["low"]), px, y.inside(level["high"]), "whisker")
        canvas.marker(px, py, style["symbol"])


def _draw_label(canvas: Canvas, name: str, px: float, py: float, occupied: list[Box]) -> None:
    """Write a name near its point, over as few other elements as possible."""

    def faults(place: tuple[float, tuple[float, str]]) -> int:
        left, top, right, bottom = box_of(*place)
        outside = left < 46 or right > canvas.width or top < 26 or bottom > canvas.height - 46
        return 100 * outside + sum(
            left < c and a < right and top < d and b < bottom for a, b, c, d in occupied
        )

    def box_of(dy: float, side: tuple[float, str]) -> Box:
        left = px + side[0] - (text_width(name) if side[1] == "end" else 0)
        return left, py + dy - 11, left + text_width(name), py + dy + 3

    best = min(itertools.product(LABEL_HEIGHTS, ((9, "start"), (-9, "end"))), key=faults)
    occupied.append(box_of(*best))
    dy, (dx, anchor) = best
    if abs(dy) > 20:  # a line shows to which point a distant name belongs
        canvas.line(px, py, px + dx, py + dy - 4, "leader")
    canvas.text(px + dx, py + dy, name, anchor, "name")


def cvar_chart(table: ComparisonTable, styles: Sequence[Style]) -> str:
    """Draw the CVaR of each method against the tail mass, with bands for the intervals."""
    alphas = table.settings["curve_alphas"]

    def draw(width: int) -> Canvas:
        canvas = Canvas(width, 430 if width == WIDE else 340)
        x = Axis(alphas[0], max(1.0, alphas[0] * 1.01), 46, width - 14, log=True)
        y = Axis(0.0, 1.02, canvas.height - 46, 30)
        marks = [a for a in (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0) if a >= alphas[0]]
        canvas.horizontal(x, y.start, y.end, marks, "tail mass α (logarithmic)")
        canvas.vertical(y, x.start, x.end, [0, 0.2, 0.4, 0.6, 0.8, 1], "CVaR of the zero-one loss")
        for alpha in table.settings["alphas"]:
            canvas.line(x(alpha), y.start, x(alpha), y.end, "mark")
        # The script moves this line to the place of the slider.
        places = " ".join(f"{x(a):g}" for a in alphas)
        canvas.add(f'<path class="cursor" data-x="{places}" d="M0,{y.start:g}V{y.end:g}"/>')
        for style in reversed(styles):
            figures = list(zip(map(x, alphas), style["figures"]["cvar_curve"], strict=True))
            dashed = "line dash" if style["dash"] else "line"
            with canvas.group(style["kind"], style["title"]):
                if style["shown"] and any(f["high"] is not None and f["high"] > f["low"] for _, f in figures):
                    edge = [(px, y.inside(f["high"])) for px, f in figures]
                    canvas.path([*edge, *((px, y.inside(f["low"])) for px, f in figures[::-1])], "band")
                points = [(px, y(f["mean"])) for px, f in figures]
                canvas.path(points, dashed)
                for point in points[style["index"] % 3 :: 3] if style["shown"] else ():
                    canvas.marker(*point, style["symbol"])  # at different places if lines coincide
        return canvas

    return _both(
        draw,
        "Line chart: CVaR of the zero-one loss against the tail mass alpha, one line per method with a 95 % "
        "band. The file results.json has the numbers.",
    )


def error_chart(
    table: ComparisonTable, styles: Sequence[Style], path: tuple[str, ...], counts: Mapping[str, int], by: str
) -> str:
    """Draw the errors by class or group: a block per class or group, a dot with interval per shown method.

    ``path`` leads to the errors among the figures of a method, ``counts`` are the rows of each class or group
    in the chart, and ``by`` ends its description.
    """
    styles = [s for s in styles if s["shown"]]
    errors = {s["index"]: figure_of(s["method"], *path) for s in styles}
    figures = [f for by_name in errors.values() for name in counts if (f := by_name.get(name))]
    if not figures:
        return ""
    ends = [*(f["mean"] for f in figures), *_interval_ends(figures)]
    lane, head = 13, 24
    block = lane * len(styles) + head
    bottom = 16 + len(counts) * block

    def draw(width: int) -> Canvas:
        canvas = Canvas(width, bottom + 50)
        x = Axis(*_span(ends), 12, width - 14)
        canvas.horizontal(x, bottom, 16, ticks(x.low, x.high, 9 if width == WIDE else 5), "error")
        if x.low < table.random_error < x.high:
            canvas.line(x(table.random_error), bottom, x(table.random_error), 16, "guess")
        for i, (name, n) in enumerate(counts.items()):
            top = 16 + i * block
            canvas.line(0, top, width, top, "rule")
            canvas.text(
                2, top + 15, f"{_shortened(name, 70 if width == WIDE else 34)} (n = {n:,})", kind="name"
            )
            for k, style in enumerate(styles):
                if not (figure := errors[style["index"]].get(name)):
                    continue
                y = round(top + head + lane * (k + 0.4), 1)
                with canvas.group(style["kind"], f"{style['title']}, {name}: {_text(figure)}"):
                    if figure["high"] is not None:
                        canvas.line(x.inside(figure["low"]), y, x.inside(figure["high"]), y, "whisker")
                    canvas.marker(x(figure["mean"]), y, style["symbol"])
        return canvas

    return _both(draw, f"Dot chart: error of predict {by}, one dot per method with its 95 % interval.")


def bar_chart(title: str, bars: Sequence[tuple[str, Figure]], limit: float | None) -> str:
    """Draw rates as cases among 100: a bar with its 95 % interval each, and the limit as a line."""
    canvas = Canvas(BARS, 58 * len(bars) + 72)
    x, bottom = Axis(0.0, 100.0, 4, BARS - 24), canvas.height - 46
    canvas.horizontal(x, bottom, 14, ticks(0.0, 100.0, 5), title)
    if limit is not None:
        canvas.text(x(100 * limit), 10, f"limit: {100 * limit:g}", "middle", "tick")
    for k, (name, figure) in enumerate(bars):
        mean, low, high = (100 * figure[key] for key in ("mean", "low", "high"))
        words, base = f"{name}: {mean:.1f} ({low:.1f} to {high:.1f})", 18 + 58 * k
        with canvas.group(f"m{k}", words):
            canvas.text(x.start + 2, base + 14, words, kind="name")
            canvas.add(f'<rect class="bar" x="4" y="{base + 22}" width="{x(mean) - 4:g}" height="18"/>')
            canvas.line(x(low), base + 31, x(high), base + 31, "range")
            for end in (x(low), x(high)):
                canvas.line(end, base + 25, end, base + 37, "range")
        if limit is not None:
            canvas.line(x(100 * limit), base + 46, x(100 * limit), base + 17, "limit")
    return canvas.svg(f"Bar chart: {title}, with 95 % intervals.")


def classes_drawn(table: ComparisonTable) -> dict[str, int]:
    """Return the rows of each class; of many classes, those with the largest errors of the best method."""
    counts = dict(zip(table.data["classes"], table.data["class_counts"], strict=True))
    errors = [m["figures"]["class_errors"] for m in table.finished]
    least = {c: min((e[c]["mean"] for e in errors if c in e), default=0.0) for c in counts}
    hardest = sorted(counts, key=least.__getitem__, reverse=True)[:MOST_CLASSES]
    return {c: n for c, n in counts.items() if c in hardest}


def evidence_chart(names: Sequence[str], looks: Sequence[tuple[str, Sequence[float]]], limit: float) -> str:
    """Draw the evidence against each bound after each batch; lines with the most evidence are in colour.

    ``names`` are the bounds. ``looks`` has the name of each batch and the evidence against each bound after
    it. A bound is contradicted if its evidence reaches ``limit``.
    """
    largest = [max(evidence[j] for _, evidence in looks) for j in range(len(names))]
    order = sorted(range(len(names)), key=lambda j: -largest[j])
    values = [value for _, evidence in looks for value in evidence]
    low = 10.0 ** math.floor(math.log10(min(0.9, max(LEAST_EVIDENCE, min(values)))))
    high = 10.0 ** math.ceil(math.log10(max(2 * limit, min(MOST_EVIDENCE, max(values)))))

    def draw(width: int) -> Canvas:
        right = 170 if width == WIDE else 110
        canvas = Canvas(width, 340)
        x = Axis(0, len(looks), 52, width - right)
        y = Axis(low, high, canvas.height - 46, 30, log=True)
        powers = range(round(math.log10(low)), round(math.log10(high)) + 1)
        canvas.vertical(y, x.start, x.end, [10.0**k for k in powers], "evidence (1 at the start)")
        every = -(-len(looks) // (8 if width == WIDE else 4))
        for k, (name, _) in enumerate(looks, start=1):
            if (len(looks) - k) % every == 0:
                canvas.text(x(k), y.start + 16, name[:12], "middle", "tick")
        canvas.text((x.start + x.end) / 2, y.start + 34, "batch", "middle", "tick")
        canvas.line(x.start, y(limit), x.end, y(limit), "guess")
        canvas.text(x.start + 4, y(limit) - 5, f"alarm: {limit:.4g}", "start", "tick")
        ends: dict[int, Point] = {}
        for place, j in enumerate(order):
            points = [(x(0), y(1.0)), *((x(k), y.inside(e[j])) for k, (_, e) in enumerate(looks, start=1))]
            shown = place < MOST_SHOWN
            with canvas.group(f"m{place}" if shown else "rest", names[j]):
                canvas.path(points, "line")
                if shown:
                    ends[place] = points[-1]
                    for point in points[1:]:
                        canvas.marker(*point, LINE_SYMBOLS[place])
        base = 0.0
        for place in sorted(ends, key=lambda place: (ends[place][1], place)):  # names from the top, apart
            base, name = max(ends[place][1] + 4, base + 14), names[order[place]]
            with canvas.group(f"m{place}", name):
                canvas.text(ends[place][0] + 10, base, _shortened(name, (right - 16) // 8), kind="name")
        return canvas

    return _both(draw, "Line chart: evidence against each bound after each batch. The table has the numbers.")


def _both(draw: Callable[[int], Canvas], label: str) -> str:
    return draw(WIDE).svg(label, "wide") + draw(NARROW).svg(label, "narrow")


def _text(figure: Figure) -> str:
    value = f"{figure['mean']:.3f}"
    return value if figure["high"] is None else f"{value} ({figure['low']:.3f} to {figure['high']:.3f})"


def _shortened(name: str, most: int) -> str:
    return name if len(name) <= most else f"{name[: most - 1]}…"


def _interval_ends(figures: Iterable[Figure]) -> list[float]:
    return [v for f in figures for v in (f["low"], f["high"]) if v is not None]


def _span(values: Sequence[float], also: float | None = None) -> tuple[float, float]:
    """Return the limits of an axis within [0, 1]; ``also`` is included if it is near the values."""
    low, high = max(0.0, min(values)), min(1.0, max(values))
    pad = 0.07 * (high - low) + 0.008
    low, high = max(0.0, low - pad), min(1.0, high + pad)
    if also is not None and also < high + 0.15 * (high - low):
        high = max(high, also + 0.01)
    return (0.0 if low < 0.25 * (high - low) else low), high
