"""Tables for notebooks."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

__all__ = ["html_details", "html_table"]


def html_table(heads: Sequence[str], rows: Sequence[Sequence[str]], caption: str = "") -> str:
    """Return a table; everything in it is escaped, and the first cell of a row is its heading."""
    head = "".join(f'<th scope="col">{escape(name)}</th>' for name in heads)
    body = "".join(
        f'<tr><th scope="row" style="text-align:left">{escape(row[0])}</th>'
        + "".join(f"<td>{escape(cell)}</td>" for cell in row[1:])
        + "</tr>"
        for row in rows
    )
    said = f'<caption style="text-align:left">{escape(caption)}</caption>' if caption else ""
    return f"<table>{said}<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def html_details(summary: str, text: str) -> str:
    """Return a text that is shown when its summary is pressed."""
    return (
        f"<details><summary>{escape(summary)}</summary>"
        f'<pre style="white-space:pre-wrap">{escape(text)}</pre></details>'
    )
