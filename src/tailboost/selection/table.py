"""Tables of counted rates with their intervals and limits, and the summary of a fit."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass, replace
from functools import partial
from html import escape
from typing import Any

import numpy as np

from tailboost.core.array_types import Document, Floats
from tailboost.core.spelling import joined, rate_words, stated_words
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
from tailboost.selection.intervals import SUBGROUPS_NAMED, CountedRate

HEADINGS = ("rate", "subgroup", "estimate", "95 % interval", "rows", "limit", KEPT)
SELECTED = (
    "The rule was selected on these rows: each estimate is its rate there, each interval is for "
    "its rate on new rows of the same distribution; tailboost.certify gives a guarantee."
)
# Smaller differences of the objective count as zero.
VALUE_TOLERANCE = 1e-7
CERTIFIED = (
    "These estimates are no guarantee: print(rule.certificate_) has the certified bounds."
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
        if not np.isnan(self.bound):
            limit = f"{self.sense} {stated_words(self.bound, in_percent=self.in_percent)}"
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
            {True: "yes", False: "NO", None: ""}[self.met],
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
    """Rates by subgroup. Iterate over the lines, print the table, or use `to_dicts` for a data frame.

    Parameters
    ----------
    lines : tuple of RateLine
        One for each rate of each subgroup.
    words : str
        Description of the rows.
    certificate : str
        The verdict of the rule's certificate, from other rows; empty without a certificate.
    """

    lines: tuple[RateLine, ...]
    words: str
    certificate: str = ""

    @classmethod
    def counted(
        cls,
        stated: Iterable[Rate | Limit],
        strata: Strata,
        counts: Floats,
        words: str,
        *,
        spread: float = 0.0,
        is_favoured: Callable[[Rate], bool] = lambda rate: False,
    ) -> RateTable:
        """Return the table of a rule from its confusion counts, shape (W, A).

        ``stated`` are rates without a limit, and limits. ``words`` are as in the class,
        ``spread`` is the ``refit_share`` of `CountedRate.from_counts`. A rate has no interval if it
        ``is_favoured``: the selection sought rules favoured by these rows.
        """
        stated = list(stated)
        in_percent = any(each.limit is not None and each.limit.in_percent for each in stated)
        lines: list[RateLine] = []
        for each in stated:
            rate, limit = each.rate, each.limit
            counted = CountedRate.from_counts(rate, strata, counts, spread)
            if is_favoured(rate):
                unknown = np.full_like(counted.low, np.nan)
                counted = replace(counted, low=unknown, high=unknown)
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
                    compared = [limit.value(counted.values), *counted.compared(limit), np.nan]
                    numbers.append(np.array(compared) + 0.0 * counted.values.sum())
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

    @property
    def met(self) -> bool | None:
        """Whether all limits are kept on these rows; None without limits."""
        verdicts = [line.good for line in self.limit_lines()]
        return all(verdicts) if verdicts else None

    def to_dicts(self) -> list[Document]:
        """Return the lines as dicts, for ``pandas.DataFrame``."""
        return [asdict(line) for line in self.lines]

    def to_dict(self) -> Document:
        """Return the table as plain types, for JSON; NaN becomes None."""
        lines = [
            {name: None if value != value else value for name, value in line.items()}
            for line in self.to_dicts()
        ]
        return {"words": self.words, "certificate": self.certificate, "lines": lines}

    @property
    def verdict(self) -> str:
        """A sentence: whether the limits hold, by the certificate or on these rows."""
        if self.certificate:
            return self.certificate
        if self.met is None:
            return "There is no limit among these rates."
        if self.met:
            return "On these rows no limit is broken."
        parts = []
        for verdict in (BROKEN, NO_ROWS):
            lines = [line for line in self.limit_lines() if line.verdict == verdict]
            if lines:
                named = joined([f"{x.name} {x.limit}" for x in lines], SUBGROUPS_NAMED, "; ")
                parts.append(f"{verdict.capitalize()}: {named}.")
        return " ".join(parts)

    def cells(self) -> tuple[list[str], list[list[str]]]:
        """Return the headings and the lines as text; columns without content are left out."""
        rows = [line.texts for line in self.lines]
        if self.certificate:
            rows = [[*texts[:-1], ""] for texts in rows]
        return filled_columns(HEADINGS, rows)

    @property
    def text(self) -> str:
        """The rows in words, and the lines."""
        headings, rows = self.cells()
        return f"On {self.words}:\n{text_table(headings, rows, left=range(len(headings)))}"

    def limit_lines(self) -> list[LimitLine]:
        """Return the limits of `predict` with their verdicts, for drawings and short tables."""
        return [line.limit_line for line in self.lines if not np.isnan(line.bound)]

    def __str__(self) -> str:
        if self.certificate:
            return f"{self.certificate}\n\n{self.text}\n{CERTIFIED}"
        return f"{self.text}\n{SELECTED}"

    def _repr_html_(self) -> str:
        return html_table(*self.cells(), caption=f"{self.certificate} On {self.words}".strip())


@dataclass(frozen=True, kw_only=True)
class Summary:
    """The printed overview of a fitted classifier.

    Attributes
    ----------
    objective : str
        Name of the objective.
    measured_on : str
        The selection data.
    achieved : float
        The objective of the rule on these rows.
    upper : float or None
        Upper end of a 95 % interval for the objective on new rows; None if it is unknown.
    constants_value : float or None
        The objective of the best mixture of constants within the limits and the error budget that defers no
        more rows than the rule; None if there is none. Mixtures of constants ignore the features.
    errors : RateTable
        Errors of the subgroups of the objective.
    rates : RateTable
        The rates of the objective and the limits.
    error : float
        The overall error of the rule on these rows.
    deferred : float
        Share of the rows that the rule defers.
    certificate : Certificate or None
        The certificate of this rule.
    """

    objective: str
    measured_on: str
    achieved: float
    upper: float | None
    constants_value: float | None
    errors: RateTable
    rates: RateTable
    error: float
    deferred: float
    certificate: Any = None

    @property
    def beats_constants(self) -> bool:
        """Whether the interval for new rows is below the value of every answer without the features."""
        best = self.constants_value
        return (
            self.upper is not None and best is not None and self.upper < best - VALUE_TOLERANCE
        )

    @property
    def comparison(self) -> str:
        """One sentence: comparison with the best answers without the features."""
        if self.constants_value is None:
            return (
                f"On {self.measured_on}: no answers that ignore the features keep the limits."
            )
        verdict = "better" if self.beats_constants else "not shown to be better"
        return (
            f"On {self.measured_on}: {verdict} than the best answers that ignore the features "
            f"({self.constants_value:.3f}), by a 95 % interval for new rows (no certificate)."
        )

    @property
    def headline(self) -> str:
        """One sentence: the objective on the selection data, and at most on new rows."""
        words = f"{self.objective[:1].upper()}{self.objective[1:]}: {self.achieved:.3f}"
        if self.upper is not None:
            words += f" (at most {self.upper:.3f} on new rows, 95 %)"
        return f"{words}."

    @property
    def error_words(self) -> str:
        """The overall error on these rows, with the share of deferred ones."""
        in_percent = any(line.in_percent for line in self.rates)
        words = partial(stated_words, in_percent=in_percent, digits=3)
        if self.deferred == 0:
            return words(self.error)
        return f"{words(self.error)} with {words(self.deferred)} deferred and counted as right"

    @property
    def details(self) -> str:
        """The errors by subgroup, and both sentences."""
        return "\n".join([self.errors.text, self.comparison, self.headline])

    def to_dict(self) -> Document:
        """Return everything but the certificate as plain types, for JSON."""
        document = vars(self) | {
            "comparison": self.comparison,
            "headline": self.headline,
            "errors": self.errors.to_dict(),
            "rates": self.rates.to_dict(),
        }
        del document["certificate"]
        return document

    def __str__(self) -> str:
        if self.certificate is not None:
            return str(self.certificate)
        if self.rates.met is None:
            return self.details
        error = f"Overall error {self.error_words}, on the rows that selected the rule."
        parts = [f"{self.rates.verdict}\n", f"{self.rates.text}\n", error]
        if not self.beats_constants:
            parts.append(self.comparison)
        return "\n".join([*parts, "To certify the limits, calibrate on fresh rows."])

    def _repr_html_(self) -> str:
        return f"<pre>{escape(str(self))}</pre>"


def number_or_none(value: float) -> float | None:
    """Return a number; None for NaN."""
    return None if np.isnan(value) else float(value)
