"""Limits with their verdicts, as tables and drawings of limits show them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

CERTIFIED = "certified"
NOT_CERTIFIED = "not certified"
KEPT = "kept on these rows"
BROKEN = "broken on these rows"
NO_ROWS = "no rows"


@dataclass(frozen=True)
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
    value: float | None = None
    low: float | None = None
    high: float | None = None
    bound: float | None = None
    deferred: str = ""


def filled_columns(
    heads: Sequence[str], rows: Sequence[Sequence[str]]
) -> tuple[list[str], list[list[str]]]:
    """Return the columns of a table with an entry."""
    places = [j for j in range(len(heads)) if any(row[j] for row in rows)]
    return [heads[j] for j in places], [[row[j] for j in places] for row in rows]
