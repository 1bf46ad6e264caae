"""Tables for notebooks and consoles, and the lines of limits in them and in drawings.

Verdicts are given elsewhere: by `selection.table` on selecting rows, by certificates on fresh ones.
"""

from collections.abc import Collection, Sequence
from html import escape
from itertools import compress

from tailboost.core.data_classes import frozen_value

#: The heads of a table, and the cells of its rows.
Cells = tuple[list[str], list[list[str]]]


@frozen_value
class LimitLine:
    """One limit in one subgroup, with its verdict.

    Attributes
    ----------
    verdict : str
        Such as "certified"; empty for a bound without a limit.
    good : bool or None
        Whether the verdict is the wanted one; None if nothing was decided.
    name : str
        The rate and the subgroup.
    limit : str
        The bound in words, such as "≤ 0.35"; empty without a limit.
    numbers : str
        The rate and its interval in words.
    value, low, high : float or None
        The rate and the ends of its interval.
    bound : float or None
        The bound of the limit.
    deferred : str
        The share of deferred rows among all rows of the subgroup; empty if unknown.
    """

    verdict: str
    good: bool | None
    name: str
    limit: str
    numbers: str
    value: float | None
    low: float | None
    high: float | None
    bound: float | None
    deferred: str = ""


def filled_columns(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> Cells:
    """Return a table without the columns in which no row has an entry."""
    is_filled = list(map(any, zip(*rows, strict=True)))
    return [*compress(heads, is_filled)], [[*compress(row, is_filled)] for row in rows]


def html_table(heads: Sequence[str], rows: Sequence[Sequence[str]], caption: str = "") -> str:
    """Return an HTML table with escaped texts; the first cell of a row is its heading.

    Parameters
    ----------
    heads : sequence of str
        Heads of the columns.
    rows : sequence of sequences of str
        Texts of the cells.
    caption : str
        Text above the table; none if empty.
    """
    head = "".join(f'<th scope="col">{escape(name)}</th>' for name in heads)
    body = ""
    for first, *others in rows:
        cells = "".join(f"<td>{escape(cell)}</td>" for cell in others)
        body += f'<tr><th scope="row" style="text-align:left">{escape(first)}</th>{cells}</tr>'
    if caption:
        caption = f'<caption style="text-align:left">{escape(caption)}</caption>'
    return f"<table>{caption}<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def text_table(
    heads: Sequence[str], rows: Sequence[Sequence[str]], left: Collection[int]
) -> str:
    """Return a table as lines of text; columns in ``left`` are aligned left, the others right.

    A row with only a first cell is a remark, which may be wider than the column.
    """
    full_rows = [heads, *(row for row in rows if any(row[1:]))]
    widths = [max(map(len, column)) for column in zip(*full_rows, strict=True)]
    formats = [f"{{:{'<' if j in left else '>'}{width}}}" for j, width in enumerate(widths)]
    return "\n".join("  ".join(formats).format(*row).rstrip() for row in (heads, *rows))
