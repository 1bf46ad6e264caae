"""The pictures of the report, each drawn twice: for a wide page and for a phone."""

from __future__ import annotations

import itertools
import math
import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from tailboost.app.report.reading import Reading, at, is_coin
from tailboost.app.report.svg import Axis, Canvas, text_width, ticks

# Hues that stay apart for the colour-blind: on white, on near-black. Contrast with the background is above
# 3 : 1. No look repeats: methods beyond the first few are grey numbers, drawn only when asked for.
_HUES = (
    ("#0060b0", "#4ba3f2"),
    ("#b34700", "#ff9347"),
    ("#00764f", "#2fc492"),
    ("#8e3a8e", "#e08ae0"),
    ("#8a6a00", "#e3bf3c"),
    ("#c2185b", "#ff7aa8"),
    ("#00838f", "#4dd0e1"),
    ("#5d4037", "#c8a593"),
)
_SYMBOLS = ("●", "■", "◆", "▲", "▼", "✚", "✖", "★")  # of lines that are no methods
_GREY = ("#55595f", "#b4b9c0")
# A method looks the same in every picture of every page: the hue is that of the models it is made of, the
# sign what was done to them. Others take what is free.
_LOOKS = {
    "robustmixture": (0, "●"), "worstclassboost": (3, "●"), "groupdroboost": (5, "●"), "adalpboost": (6, "●"),
    "worstclassboost-groups": (3, "★"), "groupdroboost-classes": (5, "★"),
    "xgboost": (1, "■"), "xgboost-balanced": (1, "▲"), "xgboost-tuned": (1, "◆"), "xgboost-cells": (1, "▼"),
    "xgboost-groups": (1, "✚"), "forest": (2, "■"), "forest-balanced": (2, "▲"), "forest-tuned": (2, "◆"),
    "average-tuned": (4, "◆"), "erm": (7, "■"),
}  # fmt: skip
_SPARE = [(hue, sign) for sign in "✖★✚" for hue in range(len(_HUES))]
MOST_SHOWN = len(_HUES)
_MOST_CLASSES = 10
_WIDE, _NARROW = 640, 360

Style = Mapping[str, Any]
Figure = Mapping[str, Any]
# Left, top, right and bottom.
Box = tuple[float, float, float, float]


def method_styles(reading: Reading) -> list[dict[str, Any]]:
    """Title, numbers and looks of all distinct methods, those shown first before the rest and the coin.

    ``names`` are the methods with these numbers; ``dash`` are plain methods; ``kind`` is a class of the style
    sheet: "m0", "m1", … with "rest" for those that are not shown first.
    """
    first = [m["name"] for m in reading.shown_first(MOST_SHOWN)]
    groups = sorted(reading.distinct, key=lambda g: (is_coin(g[0]), g[0]["name"] not in first))
    styles: list[dict[str, Any]] = []
    looks = {name: _LOOKS[name] for name in first if name in _LOOKS}
    for name in first:
        start = zlib.crc32(name.encode()) % len(_SPARE)
        free = (look for look in _SPARE[start:] + _SPARE[:start] if look not in looks.values())
        looks.setdefault(name, next(free))
    for k, group in enumerate(groups):
        method = group[0]
        shown = method["name"] in first
        hue, sign = looks.get(method["name"], (None, "⬢" if is_coin(method) else str(k + 1)))
        light, dark = _GREY if hue is None else _HUES[hue]
        more = "" if len(group) == 1 else f" (= {', '.join(m['title'] for m in group[1:])})"
        styles.append(
            {
                "names": [m["name"] for m in group],
                "title": method["title"] + more,
                "short": method["title"],
                "figures": method["figures"],
                "uses_groups": method["uses_groups"],
                "light": light,
                "dark": dark,
                "sign": sign,
                "dash": not method["ours"],
                "coin": is_coin(method),
                "shown": shown,
                "kind": f"m m{k}" + ("" if shown or is_coin(method) else " rest"),
                "index": k,
            }
        )
    return styles


def _both(draw: Callable[[int], Canvas], label: str) -> str:
    return draw(_WIDE).svg(label, "wide") + draw(_NARROW).svg(label, "narrow")


def _said(figure: Figure) -> str:
    value = f"{figure['mean']:.3f}"
    return value if figure["high"] is None else f"{value} ({figure['low']:.3f} to {figure['high']:.3f})"


def _interval_ends(figures: Iterable[Figure]) -> list[float]:
    return [v for f in figures for v in (f["low"], f["high"]) if v is not None]


def _span(values: Sequence[float], coin: float | None = None) -> tuple[float, float]:
    """Return the limits of an axis around values, with some room, within [0, 1]."""
    low, high = max(0.0, min(values)), min(1.0, max(values))
    pad = 0.07 * (high - low) + 0.008
    low, high = max(0.0, low - pad), min(1.0, high + pad)
    if coin is not None and coin < high + 0.15 * (high - low):
        high = max(high, coin + 0.01)
    return (0.0 if low < 0.25 * (high - low) else low), high


# -- mean error against worst error ------------------------------------------------------------------


def pictures(reading: Reading, styles: Sequence[Style]) -> dict[str, str]:
    """Return the pictures of a report by their names in its template; none where no method finished."""
    if not reading.finished:
        return {}
    groups = reading.data["groups"]
    made = {
        "tradeoff": tradeoff_chart(reading, styles),
        "cvar": cvar_chart(reading, styles),
        "classes": error_chart(reading, styles, ("class_errors",), classes_drawn(reading), "on each class"),
    }
    if groups:
        made["group_tradeoff"] = tradeoff_chart(reading, styles, "worst_group_error", "worst group")
    return made | {
        f"group {name}": error_chart(
            reading, styles, ("group_errors", name), counts, f"in each group of {name}"
        )
        for name, counts in groups.items()
    }


def tradeoff_chart(
    reading: Reading,
    styles: Sequence[Style],
    worst: str = "worst_class_error",
    name: str = "worst class",
) -> str:
    """Draw the mean error against a worst one: a point per method, a curve where a method has one."""
    styles = [s for s in styles if not s["coin"]]
    if not styles:
        return ""
    coin, named = reading.coin, reading.leaders
    shown = [s for s in styles if s["shown"]]
    curves: dict[int, list[tuple[float, float]]] = {}
    for s in styles:  # of those that have a trade-off, its points on the rows held out
        found = reading.curve(s, (worst,))
        pairs = ((p["error"]["mean"], p[worst]["mean"]) for p in found if len(found) > 1)
        curves[s["index"]] = list(dict.fromkeys(pairs))
    points = [(s["figures"]["error"]["mean"], s["figures"][worst]["mean"]) for s in styles]
    drawn = [*points, *(point for s in shown for point in curves[s["index"]])]
    ends = [[p[i] for p in drawn] for i in (0, 1)]
    for values, key in zip(ends, ("error", worst), strict=True):
        values += _interval_ends(s["figures"][key] for s in shown)

    def draw(width: int) -> Canvas:
        wide = width == _WIDE
        canvas = Canvas(width, 410 if wide else 380)
        x = Axis(*_span(ends[0]), 46, width - 12)
        y = Axis(*_span(ends[1], coin), canvas.height - 46, 30)
        canvas.horizontal(x, y.start, y.end, ticks(x.low, x.high, 8 if wide else 5), "mean error: all rows")
        canvas.vertical(y, x.start, x.end, ticks(y.low, y.high, 6), f"error on the {name}")
        if y.low < coin < y.high:
            canvas.line(x.start, y(coin), x.end, y(coin), "coin")
            canvas.text(x.end - 4, y(coin) - 5, "coin flip", "end", "tick")
        canvas.text(x.start + 6, y.start - 8, "↙ better", "start", "tick")
        along = [
            (a + (c - a) * k / 10, b + (d - b) * k / 10)
            for s in shown
            for (a, b), (c, d) in itertools.pairwise(curves[s["index"]])
            for k in range(11)
        ]
        taken, lines = (
            [(x(a) - 6, y(b) - 6, x(a) + 6, y(b) + 6) for a, b in places] for places in (points, along)
        )
        for style in sorted(styles, key=lambda s: (s["shown"], s["names"][0] in named), reverse=True):
            _point(canvas, style, worst, curves[style["index"]], (x, y), (taken, lines))
        return canvas

    label = (
        f"Scatter of the mean error against the error on the {name}, one mark per method; lower left is "
        "better. The numbers are in the table of all methods."
    )
    return _both(draw, label)


def _point(
    canvas: Canvas,
    style: Style,
    worst: str,
    curve: Sequence[tuple[float, float]],
    axes: tuple[Axis, Axis],
    taken: tuple[list[Box], list[Box]],
) -> None:
    x, y = axes
    error, high = style["figures"]["error"], style["figures"][worst]
    px, py = x(error["mean"]), y(high["mean"])
    with canvas.group(style["kind"], f"{style['title']}: mean error {_said(error)}, worst {_said(high)}"):
        if curve:
            canvas.path([(x(a), y(b)) for a, b in curve], "curve")
            for a, b in curve:
                canvas.add(f'<circle class="small" cx="{x(a):g}" cy="{y(b):g}" r="2.2"/>')
        if error["high"] is not None:
            canvas.line(x.inside(error["low"]), py, x.inside(error["high"]), py, "whisker")
            canvas.line(px, y.inside(high["low"]), px, y.inside(high["high"]), "whisker")
        canvas.marker(px, py, style["sign"])
        if style["shown"]:
            _label(canvas, style["short"], px, py, taken)


def _label(canvas: Canvas, words: str, px: float, py: float, taken: tuple[list[Box], list[Box]]) -> None:
    """Add a name beside a point where nothing is in the way, or at least no other name or point."""
    width = text_width(words)
    places = [
        (px + dx, py + dy, anchor)
        for step in (-9, 18, 4, -23, 32, -37, 46, -51, 60)
        for dx, dy, anchor in ((9, step, "start"), (-9, step, "end"))
    ]
    points, lines = taken
    for avoided in ([*points, *lines], points):
        for left, base, anchor in places:
            start = left if anchor == "start" else left - width
            box = (start, base - 11, start + width, base + 3)
            if box[0] < 46 or box[2] > canvas.width or box[1] < 26 or box[3] > canvas.height - 46:
                continue
            if any(box[0] < b[2] and b[0] < box[2] and box[1] < b[3] and b[1] < box[3] for b in avoided):
                continue
            points.append(box)
            if abs(base - py) > 20:  # too far to be seen as its own
                canvas.line(px, py, round(left, 1), round(base - 4, 1), "leader")
            canvas.text(round(left, 1), round(base, 1), words, anchor, "name")
            return


# -- CVaR --------------------------------------------------------------------------------------------


def cvar_chart(reading: Reading, styles: Sequence[Style]) -> str:
    """Draw the CVaR of every method against the tail mass, with bands for the intervals."""
    alphas, marks = reading.settings["curve_alphas"], reading.settings["alphas"]

    def draw(width: int) -> Canvas:
        canvas = Canvas(width, 430 if width == _WIDE else 340)
        x = Axis(alphas[0], max(1.0, alphas[0] * 1.01), 46, width - 14, log=True)
        y = Axis(0.0, 1.02, canvas.height - 46, 30)
        fit = [a for a in (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0) if a >= alphas[0]]
        canvas.horizontal(x, y.start, y.end, fit, "tail mass α (logarithmic)")
        canvas.vertical(y, x.start, x.end, [0, 0.2, 0.4, 0.6, 0.8, 1], "CVaR of the zero-one loss")
        for mark in marks:
            canvas.line(x(mark), y.start, x(mark), y.end, "mark")
        # With the width of the page in it, the script moves the line of the slider to these places.
        places = " ".join(f"{x(a):g}" for a in alphas)
        canvas.add(f'<path class="cursor" data-x="{places}" d="M0,{y.start:g}V{y.end:g}"/>')
        for style in reversed(styles):
            figures = list(zip(map(x, alphas), style["figures"]["cvar_curve"], strict=True))
            kind = "line coinline" if style["coin"] else "line dash" if style["dash"] else "line"
            spread = [f["high"] is not None and f["high"] > f["low"] for _, f in figures]
            with canvas.group(style["kind"], style["title"]):
                if style["shown"] and any(spread):
                    edge = [(px, y.inside(f["high"])) for px, f in figures]
                    canvas.path([*edge, *((px, y.inside(f["low"])) for px, f in figures[::-1])], "band")
                points = [(px, y(f["mean"])) for px, f in figures]
                canvas.path(points, kind)
                for point in points[style["index"] % 3 :: 3] if style["shown"] else ():
                    canvas.marker(*point, style["sign"])  # apart where lines agree
        return canvas

    label = (
        "Line chart: CVaR of the zero-one loss against the tail mass alpha, one line per method with a 95 % "
        "band, and the coin flip as a dotted line. The numbers are in the table below."
    )
    return _both(draw, label)


# -- errors of classes and groups --------------------------------------------------------------------


def error_chart(
    reading: Reading, styles: Sequence[Style], path: tuple[str, ...], counts: Mapping[str, int], what: str
) -> str:
    """Draw a row of dots with intervals per class or group, one lane per method that is shown first.

    ``path`` is where the figures of a method hold the errors, ``counts`` are the rows of each class or group
    that is drawn, and ``what`` is what is drawn, for the description.
    """
    styles = [s for s in styles if s["shown"]]
    errors = {s["index"]: at(s["figures"], path) for s in styles}
    found = [f for by_name in errors.values() for name in counts if (f := by_name.get(name))]
    if not found:
        return ""
    ends = [*(f["mean"] for f in found), *_interval_ends(found)]
    coin = reading.coin
    lane, head = 13, 24
    deep = lane * len(styles) + head
    bottom = 16 + len(counts) * deep

    def draw(width: int) -> Canvas:
        canvas = Canvas(width, bottom + 50)
        x = Axis(*_span(ends), 12, width - 14)
        canvas.horizontal(x, bottom, 16, ticks(x.low, x.high, 9 if width == _WIDE else 5), "error")
        if x.low < coin < x.high:
            canvas.line(x(coin), bottom, x(coin), 16, "coin")
        for i, (name, n) in enumerate(counts.items()):
            top = 16 + i * deep
            canvas.line(0, top, width, top, "rule")
            limit = 70 if width == _WIDE else 34
            short = name if len(name) <= limit else f"{name[: limit - 1]}…"
            canvas.text(2, top + 15, f"{short} (n = {n:,})", kind="name")
            for k, style in enumerate(styles):
                if not (figure := errors[style["index"]].get(name)):
                    continue
                y = round(top + head + lane * (k + 0.4), 1)
                with canvas.group(style["kind"], f"{style['title']}, {name}: {_said(figure)}"):
                    if figure["high"] is not None:
                        canvas.line(x.inside(figure["low"]), y, x.inside(figure["high"]), y, "whisker")
                    canvas.marker(x(figure["mean"]), y, style["sign"])
        return canvas

    return _both(
        draw,
        f"Dot chart: error of predict {what}, one dot per method with its 95 % interval. The numbers are in "
        "the table below.",
    )


def classes_drawn(reading: Reading) -> dict[str, int]:
    """Rows of each class; of many classes, those on which the best method has the largest errors."""
    counts = dict(zip(reading.data["classes"], reading.data["class_counts"], strict=True))
    errors = [m["figures"]["class_errors"] for m in reading.finished]
    if len(counts) <= _MOST_CLASSES or not errors:
        return counts
    least = {c: min((e[c]["mean"] for e in errors if c in e), default=0.0) for c in counts}
    worst = set(sorted(counts, key=least.__getitem__, reverse=True)[:_MOST_CLASSES])
    return {c: n for c, n in counts.items() if c in worst}


# -- evidence by batch -------------------------------------------------------------------------------

# Evidence beyond these is drawn at the edge.
_LEAST_EVIDENCE, _MOST_EVIDENCE = 1e-2, 1e6


def hues() -> list[dict[str, Any]]:
    """Return the colours of lines by number, for the style sheet."""
    return [{"index": k, "light": light, "dark": dark} for k, (light, dark) in enumerate(_HUES)]


def evidence_chart(names: Sequence[str], looks: Sequence[tuple[str, Sequence[float]]], limit: float) -> str:
    """Draw the evidence against bounds, batch after batch: those with the most in colour.

    ``names`` are what the bounds are about; ``looks`` have the name of each look, and the evidence on each
    bound after it, which is contradicted from ``limit`` on.
    """
    ever = [max(evidence[j] for _, evidence in looks) for j in range(len(names))]
    first = sorted(range(len(names)), key=lambda j: -ever[j])
    values = [value for _, evidence in looks for value in evidence]
    low = 10.0 ** math.floor(math.log10(min(0.9, max(_LEAST_EVIDENCE, min(values)))))
    high = 10.0 ** math.ceil(math.log10(max(2 * limit, min(_MOST_EVIDENCE, max(values)))))

    def draw(width: int) -> Canvas:
        right = 170 if width == _WIDE else 110
        canvas = Canvas(width, 340)
        x = Axis(0, len(looks), 52, width - right)
        y = Axis(low, high, canvas.height - 46, 30, log=True)
        powers = range(round(math.log10(low)), round(math.log10(high)) + 1)
        canvas.vertical(y, x.start, x.end, [10.0**k for k in powers], "evidence (1 at the start)")
        every = -(-len(looks) // (8 if width == _WIDE else 4))
        for k, (name, _) in enumerate(looks, start=1):
            if (len(looks) - k) % every == 0:
                canvas.text(x(k), y.start + 16, name[:12], "middle", "tick")
        canvas.text((x.start + x.end) / 2, y.start + 34, "batch", "middle", "tick")
        canvas.line(x.start, y(limit), x.end, y(limit), "coin")
        canvas.text(x.start + 4, y(limit) - 5, f"alarm: {limit:.4g}", "start", "tick")
        ends = {}
        for place, j in enumerate(first):
            course = [1.0, *(evidence[j] for _, evidence in looks)]
            points = [(x(k), y.inside(value)) for k, value in enumerate(course)]
            shown = place < MOST_SHOWN
            with canvas.group(f"m{place}" if shown else "rest", names[j]):
                canvas.path(points, "line")
                if shown:
                    ends[place] = points[-1]
                    for spot in points[1:]:
                        canvas.marker(*spot, _SYMBOLS[place])
        last = 0.0
        for place in sorted(ends, key=lambda place: (ends[place][1], place)):  # names apart, from the top
            last, name = max(ends[place][1] + 4, last + 14), names[first[place]]
            words = name if text_width(name) < right - 12 else f"{name[: (right - 24) // 8]}…"
            with canvas.group(f"m{place}", name):
                canvas.text(ends[place][0] + 10, last, words, kind="name")
        return canvas

    return _both(draw, "Line chart: evidence against each bound after each batch. The numbers are below.")
