"""Tables for notebooks and consoles."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from html import escape

__all__ = ["html_details", "html_table", "text_table"]


def html_table(heads: Sequence[str], rows: Sequence[Sequence[str]], caption: str = "") -> str:
    """Return an HTML table with escaped texts; the first cell of a row is its heading."""
    head = "".join(f'<th scope="col">{escape(name)}</th>' for name in heads)
    body = "".join(
        f'<tr><th scope="row" style="text-align:left">{escape(row[0])}</th>'
        + "".join(f"<td>{escape(cell)}</td>" for cell in row[1:])
        + "</tr>"
        for row in rows
    )
    if caption:
        caption = f'<caption style="text-align:left">{escape(caption)}</caption>'
    return f"<table>{caption}<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def html_details(summary: str, text: str) -> str:
    """Return a preformatted text that opens under its summary."""
    return (
        f"<details><summary>{escape(summary)}</summary>"
        f'<pre style="white-space:pre-wrap">{escape(text)}</pre></details>'
    )


def text_table(
    heads: Sequence[str], rows: Sequence[Sequence[str]], left: Collection[int] = (0,)
) -> str:
    """Return a table as lines of text; columns in ``left`` are aligned left, the others right.

    A row with only a first cell is a remark, which may be wider than the column.
    """
    full = [heads, *rows]
    widths = [
        max(len(row[j]) for row in full if j or row is heads or any(row[1:]))
        for j in range(len(heads))
    ]

    def line(row: Sequence[str]) -> str:
        cells = [
            cell.ljust(width) if j in left else cell.rjust(width)
            for j, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        return "  ".join(cells).rstrip()

    return "\n".join(map(line, full))
