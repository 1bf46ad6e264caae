"""Tables for notebooks and consoles."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from html import escape

__all__ = ["html_details", "html_table", "text_table"]


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


def text_table(heads: Sequence[str], rows: Sequence[Sequence[str]], left: Collection[int] = (0,)) -> str:
    """Return a table as lines of text; the columns in ``left`` stand left, the others (numbers) right.

    A row of which only the first cell says something is a remark, which may be longer than its column.
    """
    full = [heads, *rows]
    widths = [
        max(len(row[j]) for row in full if j or row is heads or any(row[1:])) for j in range(len(heads))
    ]

    def line(row: Sequence[str]) -> str:
        cells = [
            cell.ljust(width) if j in left else cell.rjust(width)
            for j, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        return "  ".join(cells).rstrip()

    return "\n".join(map(line, full))
