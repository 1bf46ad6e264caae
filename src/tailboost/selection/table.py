"""Tables of counted rates with their intervals and limits."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from tailboost.core.array_types import Document, Floats
from tailboost.core.spelling import rate_words, stated_words
from tailboost.core.tables import (
    BROKEN,
    KEPT,
    NO_ROWS,
    LimitLine,
    filled_columns,
    html_table,
    text_table,
)
from tailboost.rates import Limit, Rate, Strata
from tailboost.rows.subgroups import unit_name
from tailboost.selection.intervals import CountedRate

HEADINGS = ("rate", "subgroup", "estimate", "95 % interval", "rows", "limit", KEPT)
SELECTED = (
    "The rule was selected on these rows. An interval is for its rate on new rows of the same "
    "distribution, and certifies nothing: for limits that hold, calibrate on fresh rows."
)


@dataclass(frozen=True)
class RateLine:
    """One rate of one subgroup.

    Parameters
    ----------
    rate : str
        Name of the rate.
    subgroup : object
        The subgroup; None for all rows, "gap" or "ratio" for a comparison of subgroups.
    value : float
        The rate of the rule on these rows; NaN if no row counts.
    low, high : float
        95 % interval for the rate of this rule on new rows; NaN without one: of few rows, and where the
        selection finds favourable rows.
    rows : float
        Effective number of rows behind the rate; NaN for a gap or a ratio.
    bound : float
        Bound for this subgroup; NaN without one.
    met : bool or None
        Whether the value satisfies the bound; None without a bound or a value.
    limit : str
        The limit as text; empty for the objective.
    sense : {"≤", "<", "≥", ""}
        Direction of the bound; "<" if the value must be smaller than the bound.
    in_percent : bool
        Whether numbers are printed in percent, as a limit was stated.
    """

    rate: str
    subgroup: Any
    value: float
    low: float
    high: float
    rows: float
    bound: float
    met: bool | None
    limit: str = ""
    sense: str = ""
    in_percent: bool = False

    @property
    def texts(self) -> list[str]:
        """The cells of `HEADINGS`; numbers have as many digits as the rows support."""
        rows = float(np.nan_to_num(self.rows))
        limit = ""
        met = ""
        if not np.isnan(self.bound):
            limit = f"{self.sense} {stated_words(self.bound, in_percent=self.in_percent)}"
            met = {True: "yes", False: "NO", None: NO_ROWS}[self.met]
        interval = "–"
        if not np.isnan(self.low):
            low = rate_words(self.low, rows, above=False, in_percent=self.in_percent)
            high = rate_words(self.high, rows, above=True, in_percent=self.in_percent)
            interval = f"{low.removesuffix(' %')} to {high}"
        return [
            self.rate,
            "all" if self.subgroup is None else unit_name(self.subgroup),
            rate_words(self.value, rows, beside=self.bound, in_percent=self.in_percent),
            interval,
            "" if np.isnan(self.rows) else f"{self.rows:,.0f}",
            limit,
            met,
        ]

    @property
    def limit_line(self) -> LimitLine:
        """The limit for drawings and short tables."""
        rate, unit, estimate, interval, rows, limit, _ = self.texts
        numbers = estimate
        if interval != "–":
            numbers = f"{estimate}, 95 % interval {interval}"
        elif rows:
            numbers = f"{estimate} of {rows} rows"
        return LimitLine(
            verdict={True: KEPT, False: BROKEN, None: NO_ROWS}[self.met],
            good=self.met,
            name=f"{rate}: {unit}",
            limit=limit,
            numbers=numbers,
            value=number_or_none(self.value),
            low=number_or_none(self.low),
            high=number_or_none(self.high),
            bound=self.bound,
        )


@dataclass(frozen=True)
class RateTable:
    """Rates by subgroup. Iterate over the lines, or print the table; ``pandas.DataFrame(list(table))``.

    Parameters
    ----------
    lines : tuple of RateLine
        One for each rate of each subgroup.
    words : str
        Description of the rows.
    """

    lines: tuple[RateLine, ...]
    words: str

    @classmethod
    def counted(
        cls,
        stated: Iterable[Rate | Limit],
        strata: Strata,
        counts: Floats,
        words: str,
        *,
        spread: float = 0.0,
        by_group: bool | None = None,
    ) -> RateTable:
        """Return the table of a rule from its confusion counts, shape (W, A).

        A rate has no interval where the selection finds favourable rows: a ratio, whose denominator depends
        on the answers, and the errors of thresholds by group. The true overall error of two, three or four
        groups was above its 95 % interval in 17, 32 and 7 of 150, 150 and 60 draws, and below it in none;
        with one threshold it was above in 8 of 150 and below in 3.

        Parameters
        ----------
        stated : iterable of Rate or Limit
            Rates without a limit, and limits.
        strata, counts
            As in `CountedRate`.
        words : str
            As in the class.
        spread : float
            The ``refit_share`` of `CountedRate`.
        by_group : bool, optional
            Whether the rule reads groups; None if it was not selected on these rows.
        """
        stated = list(stated)
        in_percent = any(each.limit is not None and each.limit.in_percent for each in stated)
        lines: list[RateLine] = []
        for each in stated:
            rate = each.rate
            limit = each.limit
            counted = CountedRate(rate, strata, counts, spread)
            of_answers = counted.terms.of_answers
            if by_group is not None and (rate.is_ratio or (by_group and not of_answers)):
                counted.low[:] = np.nan
                counted.high[:] = np.nan
            names = list(counted.terms.names)
            columns = [counted.values, counted.low, counted.high, counted.rows]
            numbers: list[Any] = np.column_stack(columns).tolist()
            bounds = [np.nan] * len(names)
            said = ("", "", in_percent and rate.kind != "cost")
            if limit is not None:
                said = (str(limit), limit.sense, limit.in_percent)
                if not limit.compares:
                    bounds = limit.bounds(names).tolist()
                else:
                    names.append(limit.form)
                    # A subgroup without a rate leaves the comparison unknown.
                    value = limit.value(counted.values) + 0.0 * counted.values.sum()
                    numbers.append([value, *counted.compared(limit), np.nan])
                    bounds.append(limit.bound)
            for name, numbered, bound in zip(names, numbers, bounds, strict=True):
                met = None if limit is None else limit.keeps(numbered[0], bound)
                fields: list[Any] = [str(rate), name, *numbered, bound, met, *said]
                lines.append(RateLine(*fields))
        return cls(tuple(lines), words)

    def __iter__(self) -> Iterator[RateLine]:
        return iter(self.lines)

    def __len__(self) -> int:
        return len(self.lines)

    def to_dict(self) -> Document:
        """Return the table as plain types, for JSON; NaN becomes None."""
        lines = [
            {name: None if value != value else value for name, value in vars(line).items()}
            for line in self.lines
        ]
        return {"words": self.words, "lines": lines}

    def limit_lines(self) -> list[LimitLine]:
        """Return the limits of `predict` with their verdicts, for drawings and short tables."""
        return [line.limit_line for line in self.lines if not np.isnan(line.bound)]

    @property
    def broken(self) -> str:
        """The limits that do not hold, each with the subgroup and its rate."""
        lines = [line for line in self.lines if line.met is False]
        return "; ".join(f"{line.limit} ({line.texts[1]}: {line.texts[2]})" for line in lines)

    def cells(self) -> tuple[list[str], list[list[str]]]:
        """Return the headings and the lines as text; columns without content are left out."""
        return filled_columns(HEADINGS, [line.texts for line in self.lines])

    def __str__(self) -> str:
        table = text_table(*self.cells(), left=range(len(HEADINGS)))
        return f"On {self.words}:\n{table}\n{SELECTED}"

    def _repr_html_(self) -> str:
        return html_table(*self.cells(), caption=f"On {self.words}")


def number_or_none(value: float) -> float | None:
    """Return a number; None for NaN."""
    return None if np.isnan(value) else float(value)
