"""Matplotlib's figures as SVG within a page: colours and fonts are those of the page's style sheet."""

from __future__ import annotations

import html
import re
import warnings
from collections.abc import Callable
from typing import Any

from tailboost.app.plotting.style import BLUE, GREY, VERMILLION
from tailboost.rows.fingerprints import digest

# Colours of artists, which the page replaces by variables. CURRENT is the colour of the element's class.
CURRENT, TEXT, SOFT, GRID = "#010203", "#010204", "#010205", "#010206"
COLOURS = {
    CURRENT: "currentColor", TEXT: "var(--text)", SOFT: "var(--soft)", GRID: "var(--grid)",
    BLUE.lower(): "var(--good)", VERMILLION.lower(): "var(--bad)",
    GREY.lower(): "var(--other)",
}  # fmt: skip
SETTINGS = {
    "svg.fonttype": "none", "font.size": 12, "axes.titlesize": 12, "axes.labelsize": 12,
    "legend.fontsize": 12, "text.color": TEXT, "axes.labelcolor": SOFT, "xtick.color": SOFT,
    "ytick.color": SOFT,
    "axes.edgecolor": GRID, "grid.color": GRID, "axes.axisbelow": True, "figure.facecolor": "none",
    "axes.facecolor": "none", "savefig.facecolor": "none", "legend.facecolor": "none",
    "legend.frameon": False,
}  # fmt: skip
WIDE, NARROW = 560, 360  # widths in pixels: of a page, and of a phone
# Patterns in matplotlib's SVG with their replacement on a page.
EMBEDDED: tuple[tuple[str, str | Callable[[re.Match[str]], str]], ...] = (
    (r"<metadata>.*?</metadata>|<!--.*?-->", ""),
    (r"<defs>\s*<style[^>]*>.*?</style>\s*</defs>", ""),
    (r'<g id="([^"|]*)\|([^"]*)">', lambda group: _group(*group.groups())),
    # Names of matplotlib's parts, the same in every chart; empty groups; rotations by nothing; digits.
    (r'<g id="[^"]*"(/?)>', r"<g\1>"),
    ("<g/>", ""),
    (r' transform="rotate\(-?0 [^"]*"|; stroke-linecap: square', ""),
    ("<[^>]+>", lambda tag: re.sub(r"(\d\.\d\d)\d+", r"\1", tag[0])),
    (r"; font-family: [^;\"]*|font-family: [^;\"]*; ", ""),
    (r"font: (?:(\w+) )?([\d.]+)px [^;\"]*", lambda font: _font(*font.groups())),
)
# Characters that are invalid in XML, even as entities.
_NO_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def escape(words: str) -> str:
    """Return a text escaped for XML; invalid characters are replaced."""
    return html.escape(_NO_XML.sub("\ufffd", words))


def tagged(kind: str, tip: str = "") -> str:
    """Return the ``gid`` of an artist that is an element with this class and tooltip on the page."""
    return f"{kind}|{_NO_XML.sub(chr(0xFFFD), tip)}"


def both(draw: Callable[[Any], Any], label: str, height: float | tuple[float, float]) -> str:
    """Return a chart for wide pages and one for phones; the page shows one of them.

    Parameters
    ----------
    draw : callable
        Draws on given axes.
    label : str
        Description of the content for screen readers.
    height : float or pair of float
        Height in pixels, or the heights of both.
    """
    if not isinstance(height, tuple):
        height = (height, height)
    wide_height, narrow_height = height
    wide = svg(draw, label, WIDE, wide_height, "wide")
    return wide + svg(draw, label, NARROW, narrow_height, "narrow")


def svg(
    draw: Callable[[Any], Any], label: str, width: float, height: float, kind: str = ""
) -> str:
    """Return a chart as an ``<svg>`` element, in the colours and fonts of the page's style sheet.

    Width and height are in pixels; ``kind`` is a class of the style sheet.
    """
    document = _drawn(draw, width, height, salt=kind)
    element = re.search(r'viewBox="([^"]*)"[^>]*>(.*)</svg>', document, flags=re.DOTALL)
    assert element is not None
    view_box, body = element.groups()
    for pattern, replacement in EMBEDDED:
        body = re.sub(pattern, replacement, body, flags=re.DOTALL)
    # Markers and clip paths have names such as "m0123456789", which must differ between charts of a page.
    chart = digest(f"{label}{body}".encode())[:6]
    body = re.sub(r'(id="|url\(#|href="#)([mp][0-9a-f]{10})', rf"\1c{chart}\2", body)
    for colour, variable in COLOURS.items():
        body = body.replace(colour, variable)
    body = re.sub(r">\s+<", "><", body).replace("\n", " ")
    attributes = (
        f'class="chart {kind}" viewBox="{view_box}" role="img" aria-label="{escape(label)}"'
    )
    return f"<svg {attributes}>{body.strip()}</svg>"


def _drawn(draw: Callable[[Any], Any], width: float, height: float, salt: str) -> str:
    """Return a chart as matplotlib's SVG document; equal charts with equal ``salt`` have equal names."""
    import io

    import matplotlib as mpl
    from matplotlib.figure import Figure

    stream = io.StringIO()
    with mpl.rc_context(SETTINGS | {"svg.hashsalt": salt}), warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph .* missing")  # the fonts of the page have it
        figure = Figure(figsize=(width / 72, height / 72), dpi=72, layout="constrained")
        draw(figure.subplots())
        no_metadata = dict.fromkeys(("Date", "Creator", "Format", "Type"))
        figure.savefig(stream, format="svg", metadata=no_metadata)
    return stream.getvalue()


def _group(kind: str, tip: str) -> str:
    """Return the start tag of a group with a class, and a title, the tooltip of browsers."""
    if not tip:
        return f'<g class="{kind}">'
    return f'<g class="{kind}"><title>{tip}</title>'


def _font(weight: str | None, size: str) -> str:
    """Return the size and weight of a font; the page has the family."""
    if weight in ("bold", "700"):
        return f"font-size: {size}px; font-weight: bold"
    return f"font-size: {size}px"
