"""What the charts of the report show, as plain data for its script."""

from __future__ import annotations

import html
from collections.abc import Mapping
from typing import Any

__all__ = ["chart_data", "method_styles"]

# Hues that stay apart for the colour-blind: on white, on near-black. Contrast with the background is above
# 3 : 1. Each has a symbol (Plotly's name, and the same as text); when the colours repeat, the symbols differ.
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
_SYMBOLS = (
    ("circle", "●"),
    ("square", "■"),
    ("diamond", "◆"),
    ("triangle-up", "▲"),
    ("triangle-down", "▼"),
    ("cross", "✚"),
    ("x", "✖"),
    ("star", "★"),
)
_COIN = ("#55595f", "#b4b9c0", "hexagon", "⬢", "dot")
_MOST_CLASSES = 10


def method_styles(document: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Colour, symbol and dash of every method that finished a fit, in the order of the document."""
    styles: list[dict[str, Any]] = []
    for method in _finished(document):
        is_coin = method["name"] == "coinflip"
        k = len(styles)
        hue, marker = _HUES[k % len(_HUES)], _SYMBOLS[(k + 3 * (k // len(_HUES))) % len(_SYMBOLS)]
        light, dark, symbol, sign, dash = (
            _COIN if is_coin else (*hue, *marker, "solid" if method["ours"] else "dash")
        )
        styles.append(
            {
                "title": method["title"],
                "light": light,
                "dark": dark,
                "symbol": symbol,
                "sign": sign,
                "dash": dash,
                "coin": is_coin,
            }
        )
    return styles


def chart_data(document: Mapping[str, Any]) -> dict[str, Any]:
    """Collect what is drawn; every text in it is escaped, since Plotly reads a little HTML in labels."""
    methods = _finished(document)
    groups = document["data"]["groups"]
    return {
        "methods": [{**s, "title": html.escape(s["title"])} for s in method_styles(document)],
        "cvar": {
            "alphas": document["settings"]["curve_alphas"],
            "marks": document["settings"]["alphas"],
            "series": [m["figures"]["cvar_curve"] for m in methods],
        },
        # Errors by class first, then one chart per grouping of the rows.
        "dots": [
            _dots("class-errors", _classes_drawn(document), [m["figures"]["class_errors"] for m in methods]),
            *(
                _dots(f"group-errors-{i}", counts, [m["figures"]["group_errors"][name] for m in methods])
                for i, (name, counts) in enumerate(groups.items())
            ),
        ],
        "coin": 1 - 1 / len(document["data"]["classes"]),
        "seconds": [m["figures"]["fit_seconds"] for m in methods],
    }


def _finished(document: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    return [m for m in document["methods"] if m["figures"]]


def _dots(
    name: str, counts: Mapping[str, int], figures: list[Mapping[str, Mapping[str, Any]]]
) -> dict[str, Any]:
    return {
        "id": name,
        "categories": [html.escape(category) for category in counts],
        "counts": list(counts.values()),
        "series": [[errors.get(category) for category in counts] for errors in figures],
    }


def _classes_drawn(document: Mapping[str, Any]) -> dict[str, int]:
    """Rows of each class; of many classes, those on which the best method has the largest errors."""
    counts = dict(zip(document["data"]["classes"], document["data"]["class_counts"], strict=True))
    errors = [m["figures"]["class_errors"] for m in _finished(document)]
    if len(counts) <= _MOST_CLASSES or not errors:
        return counts
    least = {c: min(e[c]["mean"] for e in errors if c in e) for c in counts}
    worst = set(sorted(counts, key=least.__getitem__, reverse=True)[:_MOST_CLASSES])
    return {c: n for c, n in counts.items() if c in worst}
