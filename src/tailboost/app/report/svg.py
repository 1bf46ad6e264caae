"""Minimal SVG canvas: axes, markers, lines and texts; the style sheet of the page sets the colours."""

from __future__ import annotations

import html
import math
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

# Outlines around the origin with a radius of about 5 pixels. Any other marker is drawn as text.
MARKERS = {
    "●": "M-4.5,0a4.5,4.5 0 1,0 9,0a4.5,4.5 0 1,0 -9,0z",
    "■": "M-4,-4h8v8h-8z",
    "◆": "M0,-5.6L5,0L0,5.6L-5,0z",
    "▲": "M0,-5L5,4H-5z",
    "▼": "M0,5L5,-4H-5z",
    "✚": "M-1.7,-5h3.4v3.3h3.3v3.4h-3.3v3.3h-3.4v-3.3h-3.3v-3.4h3.3z",
    "✖": "M-4.8,-2.6L-2.6,-4.8L0,-2.2L2.6,-4.8L4.8,-2.6L2.2,0L4.8,2.6L2.6,4.8L0,2.2"
    "L-2.6,4.8L-4.8,2.6L-2.2,0z",
    "★": "M0,-6L1.6,-2L5.8,-1.9L2.5,.8L3.6,4.9L0,2.5L-3.6,4.9L-2.5,.8L-5.8,-1.9L-1.6,-2z",
    "⬢": "M-5,0L-2.5,-4.4H2.5L5,0L2.5,4.4H-2.5z",
}


def ticks(low: float, high: float, about: int) -> list[float]:
    """Return approximately ``about`` round numbers between two numbers."""
    power = 10 ** math.floor(math.log10((high - low) / about))
    step = next(k * power for k in (1, 2, 5, 10) if k * power >= (high - low) / about)
    first = math.ceil(low / step - 1e-9)
    return [round(k * step, 10) for k in range(first, math.floor(high / step + 1e-9) + 1)]


# Characters that are invalid in XML, even as entities.
_NO_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def escape(words: str) -> str:
    """Return a text escaped for XML; invalid characters are replaced."""
    return html.escape(_NO_XML.sub("\ufffd", words))


def text_width(text: str) -> float:
    """Return an upper estimate of the width of a text of size 12, in pixels."""
    return 0.69 * 12.0 * len(text)


@dataclass(frozen=True)
class Axis:
    """Scale from numbers to pixels on the canvas."""

    low: float
    high: float
    start: float
    end: float
    log: bool = False

    def __call__(self, value: float) -> float:
        """Return the position of a number."""
        low, high, x = self.low, self.high, value
        if self.log:
            low, high, x = math.log(low), math.log(high), math.log(value)
        return round(self.start + (x - low) / (high - low) * (self.end - self.start), 1)

    def inside(self, value: float) -> float:
        """Return the position of a number, clipped to the axis."""
        return self(min(max(value, self.low), self.high))


@dataclass
class Canvas:
    """Elements of one chart with its natural size in pixels."""

    width: int
    height: int
    parts: list[str] = field(default_factory=list)

    def add(self, element: str) -> None:
        """Add an SVG element."""
        self.parts.append(element)

    def text(self, x: float, y: float, words: str, anchor: str = "start", kind: str = "") -> None:
        """Add a text; ``anchor`` is "start", "middle" or "end", ``kind`` a class of the style sheet."""
        align = "" if anchor == "start" else f' text-anchor="{anchor}"'
        named = f' class="{kind}"' if kind else ""
        self.add(f'<text x="{x:g}" y="{y:g}"{align}{named}>{escape(words)}</text>')

    def line(self, x1: float, y1: float, x2: float, y2: float, kind: str) -> None:
        """Add a straight line; ``kind`` is a class of the style sheet."""
        self.add(f'<path class="{kind}" d="M{x1:g},{y1:g}L{x2:g},{y2:g}"/>')

    def path(self, points: Sequence[tuple[float, float]], kind: str) -> None:
        """Add a line through points; ``kind`` is a class of the style sheet."""
        self.add(f'<path class="{kind}" d="M{"L".join(f"{x:g},{y:g}" for x, y in points)}"/>')

    def marker(self, x: float, y: float, sign: str) -> None:
        """Add a marker: one of `MARKERS`, or a text."""
        if sign in MARKERS:
            self.add(f'<path class="dot" transform="translate({x:g},{y:g})" d="{MARKERS[sign]}"/>')
        else:
            self.add(
                f'<text class="letter" x="{x:g}" y="{y + 4:g}" text-anchor="middle">{escape(sign)}</text>'
            )

    @contextmanager
    def group(self, kind: str, tip: str) -> Iterator[None]:
        """Group the elements added in the block, with a class of the style sheet and a tooltip."""
        self.add(f'<g class="{kind}"><title>{escape(tip)}</title>')
        yield
        self.add("</g>")

    def horizontal(self, axis: Axis, bottom: float, top: float, marks: Sequence[float], title: str) -> None:
        """Add a horizontal axis with grid lines up to ``top``."""
        for mark in marks:
            x = axis(mark)
            self.line(x, bottom, x, top, "grid")
            self.text(x, bottom + 16, f"{mark:g}", "middle", "tick")
        self.text((axis.start + axis.end) / 2, bottom + 34, title, "middle", "tick")

    def vertical(self, axis: Axis, left: float, right: float, marks: Sequence[float], title: str) -> None:
        """Add a vertical axis with grid lines up to ``right``, its title above it."""
        for mark in marks:
            y = axis(mark)
            self.line(left, y, right, y, "grid")
            self.text(left - 6, y + 4, f"{mark:g}", "end", "tick")
        self.text(2, axis.end - 10, title, "start", "tick")

    def svg(self, label: str, kind: str = "") -> str:
        """Return the chart; ``label`` describes the content for screen readers."""
        return (
            f'<svg class="chart {kind}" viewBox="0 0 {self.width} {self.height}" role="img" '
            f'aria-label="{escape(label)}">{"".join(self.parts)}</svg>'
        )
