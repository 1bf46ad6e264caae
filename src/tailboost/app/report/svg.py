"""Matplotlib's figures as SVG within a page, in the colours of the page's style sheet."""

from __future__ import annotations

import html
import io
import re
import warnings
from collections.abc import Callable
from typing import Any

from tailboost.app.plotting.style import BLUE, GREEN, GREY, PURPLE, VERMILLION

# Colours of artists, which the page replaces by variables of its style sheet.
TEXT, SOFT, GRID = "#010204", "#010205", "#010206"
COLOURS = {
    TEXT: "var(--text)",
    SOFT: "var(--soft)",
    GRID: "var(--grid)",
    BLUE: "var(--blue)",
    VERMILLION: "var(--vermillion)",
    GREEN: "var(--green)",
    PURPLE: "var(--purple)",
    GREY: "var(--grey)",
}
SETTINGS = {
    "svg.fonttype": "none",
    "font.size": 12,
    "axes.titlesize": 12,
    "axes.labelsize": 12,
    "legend.fontsize": 12,
    "text.color": TEXT,
    "axes.labelcolor": SOFT,
    "xtick.color": SOFT,
    "ytick.color": SOFT,
    "axes.edgecolor": GRID,
    "grid.color": GRID,
    "axes.axisbelow": True,
    "figure.facecolor": "none",
    "axes.facecolor": "none",
    "savefig.facecolor": "none",
    "legend.facecolor": "none",
    "legend.frameon": False,
}
WIDE, NARROW = 560, 360  # widths in pixels: of a chart beside text, and on a phone
# Surplus parts of matplotlib's SVG; the names of groups are the same in each chart.
SURPLUS = r"<metadata>.*?</metadata>|<defs>\s*<style.*?</style>\s*</defs>|(?<=<g) id=\"[^\"]*\""


def svg(
    draw: Callable[[Any], Any],
    label: str,
    height: Callable[[float], float],
    wide: float = WIDE,
) -> str:
    """Return a chart as two ``<svg>`` elements; the page shows one of them, by the width of its place.

    Parameters
    ----------
    draw : callable
        Draws on given axes.
    label : str
        Description of the content for screen readers, different for each chart of a page.
    height : callable
        The height in pixels of a chart of some width in pixels.
    wide : float
        Width in pixels of the chart on a wide page.
    """
    widths = {"wide": wide, "narrow": NARROW}
    return "".join(
        _element(draw, label, width, height(width), kind) for kind, width in widths.items()
    )


def _element(
    draw: Callable[[Any], Any], label: str, width: float, height: float, kind: str
) -> str:
    """Return a chart of this size as an element of a class of the style sheet."""
    import matplotlib as mpl
    from matplotlib.figure import Figure

    stream = io.StringIO()
    # Markers and clip paths have names, which must differ between the charts of a page.
    with mpl.rc_context(SETTINGS | {"svg.hashsalt": kind + label}), warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph .* missing")  # but not in the fonts of pages
        figure = Figure(figsize=(width / 72, height / 72), dpi=72, layout="constrained")
        draw(figure.subplots())
        figure.savefig(stream, format="svg")
    document = re.search(r'viewBox="([^"]*)"[^>]*>(.*</svg>)', stream.getvalue(), re.DOTALL)
    assert document is not None
    view_box, body = document.groups()
    body = re.sub(SURPLUS, "", body, flags=re.DOTALL)
    for colour, variable in COLOURS.items():
        body = body.replace(colour.lower(), variable)
    attributes = f'viewBox="{view_box}" role="img" aria-label="{html.escape(label)}"'
    return f'<svg class="chart {kind}" {attributes}>{body}'
