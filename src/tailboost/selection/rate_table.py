"""The rates table: counted rates of a rule with their limits, printed, drawn and as plain types."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from operator import attrgetter
from typing import Any

import numpy as np

from tailboost.core.array_types import Document, Floats
from tailboost.core.html import html_table, text_table
from tailboost.core.limit_lines import (
    BROKEN,
    DEFERRED_OF_ALL,
    KEPT,
    NO_ROWS,
    LimitLine,
)
from tailboost.core.rate_words import bound_words, estimate_words, limit_words
from tailboost.core.spelling import how_many, joined
from tailboost.rates import COMPARISONS, Answered, Limit, Rate, Strata, answered_error, deferred
from tailboost.rates.strata import is_named_column
from tailboost.rows.subgroups import deferral_lines, unit_name
from tailboost.selection.intervals import SUBGROUPS_NAMED, CountedRate

# The most printed lines, the furthest above their limits. `to_dict` has all lines.
MOST_LINES = 30
# Notes of a table.
SELECTED = (
    "the rule was selected on these rows: each estimate is its rate there, each interval is "
    "for its rate on new rows of the same distribution; tailboost.certify gives a guarantee"
)
SELECTED_ALONE = (
    "these rows select and certify nothing: print(rule.certificate_) shows the limits on the "
    "fresh rows"
)
REFITTED = (
    "intervals of subgroups allow for a refit: cross-fitted models (of the class or of the "
    "group) were counted, and models refitted on all rows answer"
)
# The most subgroups of which the worst has an interval: each end misses in 2.5 %, so two of them in 5 %.
MOST_COMPARED = 2


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
        95 % interval for the rate of this rule on new rows; NaN without one, see `RateTable.notes`.
    rows : float
        Effective number of rows behind the rate; NaN for a gap or a ratio.
    limit : str
        The limit as text; empty for the objective.
    bound : float
        Bound for this subgroup; NaN without one.
    met : bool or None
        Whether the value satisfies the bound; None without a bound or a value.
    sense : {"≤", "<", "≥", ""}
        Direction of the bound; "<" if the value must be smaller than the bound.
    in_percent : bool
        Whether the limit was stated in percent, and the numbers are printed so.
    deferred : float
        Share of deferred rows in the subgroup; NaN if no row is deferred, or the rate is about deferral.
    """

    rate: str
    subgroup: Any
    value: float
    low: float
    high: float
    rows: float
    limit: str
    bound: float
    met: bool | None
    sense: str = ""
    in_percent: bool = False
    deferred: float = float("nan")

    @property
    def estimate_text(self) -> str:
        """The value, with as many digits as its number of rows supports."""
        beside = None
        if not np.isnan(self.bound):
            beside = self.bound
        return estimate_words(
            self.value, self.known_rows, beside=beside, in_percent=self.in_percent
        )

    @property
    def subgroup_text(self) -> str:
        """The name of the subgroup; "all" for all rows."""
        return "all" if self.subgroup is None else unit_name(self.subgroup)

    @property
    def size_text(self) -> str:
        """The effective number of rows; empty for a gap or ratio."""
        return _unless_nan(self.rows, "{:,.0f}")

    @property
    def deferred_text(self) -> str:
        """The share of deferred rows; empty without one."""
        return _unless_nan(100 * self.deferred, "{:.0f} %")

    @property
    def interval_text(self) -> str:
        """The interval, rounded outwards; without one a dash with the number of rows."""
        if np.isnan(self.low):
            return f"– ({self.rows_text})" if self.rows_text else "–"
        words = partial(bound_words, in_percent=self.in_percent)
        low = words(self.low, self.known_rows, above=False)
        return f"{low.removesuffix(' %')} to {words(self.high, self.known_rows, above=True)}"

    @property
    def rows_text(self) -> str:
        """The number of rows behind the rate in words; empty if it is unknown, and without any rate."""
        if np.isnan(self.value) or not self.known_rows:
            return ""
        return how_many(round(self.known_rows), "row")

    @property
    def limit_text(self) -> str:
        """The stated bound of this subgroup; empty without one."""
        if np.isnan(self.bound):
            return ""
        return limit_words(self.sense, self.bound, in_percent=self.in_percent)

    @property
    def verdict_text(self) -> str:
        """Whether the value keeps the limit: "yes" or "NO"; empty without a verdict."""
        if self.met is None:
            return ""
        if self.met:
            return "yes"
        return "NO"

    @property
    def known_rows(self) -> float:
        """The effective number of rows behind the rate; 0 for a gap or ratio, without a count of rows."""
        return float(np.nan_to_num(self.rows))

    @property
    def limit_line(self) -> LimitLine:
        """The limit for drawings and short tables."""
        unit = "all rows"
        if self.subgroup is not None:
            unit = unit_name(self.subgroup)
        words = self.estimate_text
        if not np.isnan(self.low):
            words += f", 95 % interval {self.interval_text}"
        elif self.rows_text:
            words += f" of {self.rows_text}"
        return LimitLine(
            verdict={True: KEPT, False: BROKEN, None: NO_ROWS}[self.met],
            good=self.met,
            name=f"{self.rate}: {unit}",
            limit=self.limit_text,
            numbers=words,
            value=number_or_none(self.value),
            low=number_or_none(self.low),
            high=number_or_none(self.high),
            bound=float(self.bound),
        )


@dataclass(frozen=True)
class StatedLimit:
    """A stated limit with its lines of a rates table."""

    words: str
    lines: tuple[RateLine, ...]

    @property
    def found(self) -> str:
        """Whether the rule keeps the limit on these rows, with its rates, in one line.

        Rates of broken subgroups are listed. Of one kept rate the interval is added, of several the range.
        """
        judged = [line for line in self.lines if line.met is not None]
        if not judged:
            return NO_ROWS
        broken = [line for line in judged if not line.met]
        if broken:
            words = []
            for line in broken:
                subgroup = ""
                if line.subgroup not in (None, *COMPARISONS):
                    subgroup = f"{unit_name(line.subgroup)} "
                words.append(subgroup + line.estimate_text)
                if np.isnan(line.low) and line.rows_text:
                    words[-1] += f" of {line.rows_text}"
            return f"BROKEN on these rows: {joined(words, SUBGROUPS_NAMED)}"
        if len(judged) == 1:
            estimate = judged[0].estimate_text
            if not np.isnan(judged[0].low):
                estimate += f", 95 %: {judged[0].interval_text}"
            return f"kept ({estimate})"
        smallest = min(judged, key=attrgetter("value")).estimate_text
        largest = max(judged, key=attrgetter("value")).estimate_text
        subgroups = f"{len(judged)} subgroups"
        fewest = min(judged, key=attrgetter("known_rows"))
        if np.isnan(fewest.low) and fewest.rows_text:
            subgroups += f" of at least {fewest.rows_text}"
        return f"kept ({smallest} to {largest} in {subgroups})"


@dataclass(frozen=True)
class RateTable:
    """Rates by subgroup. Iterate over the lines, print the table, or use `to_dicts` for a data frame.

    Parameters
    ----------
    lines : tuple of RateLine
        One for each rate of each subgroup.
    words : str
        Description of the rows.
    notes : tuple of str
        How to read the table, and further facts about the classifier.
    kind : str
        Kind of the subgroups of a table of errors: "class", "group" or "cell"; empty for other tables.
    selected : bool
        Whether the rule was selected on these rows.
    deferral : tuple of str
        Sentences on effects of deferral: the error of the answered rows, and a group with many deferred rows.
    certificate : str
        The verdict of the rule's certificate, from other rows; empty without a certificate.
    """

    lines: tuple[RateLine, ...]
    words: str
    notes: tuple[str, ...] = ()
    kind: str = ""
    selected: bool = False
    deferral: tuple[str, ...] = ()
    certificate: str = ""

    @classmethod
    def counted(
        cls,
        stated: Iterable[Rate | Limit],
        strata: Strata,
        counts: Floats,
        words: str,
        *,
        kind: str = "",
        selected: bool = True,
        spread: float = 0.0,
        flattered: Callable[[Rate], str] = lambda rate: "",
    ) -> RateTable:
        """Return the table of a rule from its confusion counts, shape (W, A).

        ``stated`` are rates without a limit, and limits. ``words``, ``kind`` and ``selected`` are as in the
        class, ``spread`` is the ``refit_share`` of `CountedRate.from_counts`. ``flattered`` returns the
        reason for a rate without an interval, otherwise "". The reason: the selection sought rules favoured
        by these rows.
        """
        lines = list[RateLine]()
        missing_intervals = list[str]()
        refitted = False
        stated = list(stated)
        rates = [each.rate for each in stated]
        limits = [each.limit for each in stated]
        in_percent = any(limit is not None and limit.in_percent for limit in limits)

        for rate, limit in zip(rates, limits, strict=True):
            counted = CountedRate.from_counts(rate, strata, counts, spread)
            reason = flattered(rate)
            if reason:
                all_subgroups = np.ones(len(counted.values), bool)
                counted = replace(counted, reasons={reason: all_subgroups})
            lines += rate_lines(rate, limit, counted, in_percent=in_percent)
            missing_intervals += counted.lacking(rate)
            refitted |= counted.spread > 0

        notes = list[str]()
        if selected:
            notes.append(SELECTED)
        if refitted:
            notes.append(REFITTED)
        notes += dict.fromkeys(missing_intervals)

        deferral: tuple[str, ...] = ()
        if strata.defers and not kind:
            lines, deferral = with_deferral(lines, rates, strata, counts)
        return cls(
            tuple(lines), words, tuple(notes), kind, selected=selected, deferral=deferral
        )

    @classmethod
    def measured(
        cls, stated: Iterable[Rate | Limit], answered: Answered, words: str
    ) -> RateTable:
        """Return the table of rates and limits on answered rows, which ``words`` name."""
        return cls.counted(stated, answered.strata, answered.counts, words, selected=False)

    def certified(self, verdict: str, targets: Mapping[tuple[str, Any], float]) -> RateTable:
        """Return the table of a certified rule, with the certified limits in place of tighter ones.

        Parameters
        ----------
        verdict : str
            The verdict of the certificate.
        targets : dict of (str, object) to float
            The certified limits by rate and subgroup.
        """
        lines = []
        for line in self.lines:
            target = targets.get((line.rate, line.subgroup))
            if target is not None and not np.isnan(line.bound):
                line = replace(line, bound=target)
            lines.append(line)
        notes = [note for note in self.notes if note != SELECTED]
        return replace(
            self, lines=tuple(lines), notes=(SELECTED_ALONE, *notes), certificate=verdict
        )

    def intervals(self) -> Floats:
        """Return the intervals of `predict`, shape (m, 2); NaN without an interval."""
        return np.array([(line.low, line.high) for line in self.lines]).reshape(-1, 2)

    @property
    def worst(self) -> tuple[Any, float, tuple[float, float] | None] | None:
        """Name, error and interval of the subgroup with the largest error of `predict`; None without any.

        The interval is None with more than two subgroups. The largest of many estimates tends to be too
        large, so the interval of this subgroup would lie above its true error too often.
        """
        counted = [line for line in self.lines if not np.isnan(line.value)]
        if not counted:
            return None
        worst = max(counted, key=attrgetter("value"))
        interval = None
        if len(self.lines) <= MOST_COMPARED and not np.isnan(worst.low):
            interval = worst.low, worst.high
        return worst.subgroup, worst.value, interval

    def __iter__(self) -> Iterator[RateLine]:
        return iter(self.lines)

    def __len__(self) -> int:
        return len(self.lines)

    @property
    def met(self) -> bool | None:
        """Whether all limits hold on these rows; None without limits."""
        verdicts = [line.met for line in self.lines if line.met is not None]
        if verdicts:
            return all(verdicts)
        return None

    def to_dicts(self) -> list[Document]:
        """Return the lines as dicts, for ``pandas.DataFrame``."""
        return [asdict(line) for line in self.lines]

    def to_dict(self) -> Document:
        """Return the table as plain types, for JSON; NaN becomes None."""
        lines = self.to_dicts()
        for line in lines:
            is_nan = [name for name, value in line.items() if value != value]
            line.update(dict.fromkeys(is_nan))
        return asdict(replace(self, lines=())) | {"lines": lines}

    @property
    def verdict(self) -> str:
        """A sentence: whether the limits hold, by the certificate or on these rows."""
        if self.certificate:
            return self.certificate
        limited = [line for line in self.lines if line.met is not None]
        if not limited:
            return "There is no limit among these rates."
        broken = _named(line for line in limited if not line.met)
        if broken:
            return f"Not kept on these rows: {broken}."
        return "On these rows all limits are kept."

    def cells(self) -> tuple[list[str], list[list[str]]]:
        """Return the headings and the lines as text; columns without content are left out."""
        text_of = self._identity_of_lines
        if self.selected:
            text_of["estimate"] = "estimate_text"
        else:
            text_of["on these rows"] = "estimate_text"
        if any(not np.isnan(line.low) for line in self.lines):
            text_of["95 % interval"] = "interval_text"
        elif not self.kind:
            rows_heading = "rows" if self._has_equal_weights else "effective rows"
            text_of[rows_heading] = "size_text"
        if any(line.limit for line in self.lines):
            text_of["limit"] = "limit_text"
            if not self.certificate:
                text_of[KEPT if self.selected else "kept"] = "verdict_text"
        if any(not np.isnan(line.deferred) for line in self.lines):
            text_of[DEFERRED_OF_ALL] = "deferred_text"
        rows = [
            [getattr(line, attribute) for attribute in text_of.values()] for line in self._shown
        ]
        return list(text_of), rows

    @property
    def _identity_of_lines(self) -> dict[str, str]:
        """The columns that say what a line is about: the attribute of a line by heading."""
        if not self.kind:
            return {"rate": "rate", "subgroup": "subgroup_text"}
        rows_heading = "effective rows, (Σw)²/Σw²"
        if self._has_equal_weights:
            rows_heading = "different rows"
        return {self.kind: "subgroup_text", rows_heading: "size_text"}

    @property
    def _has_equal_weights(self) -> bool:
        """Whether the different rows of each subgroup have equal weights, so that its size is a count."""
        sizes = np.array([line.rows for line in self.lines])
        return bool(np.allclose(sizes, np.rint(sizes), rtol=1e-9, equal_nan=True))

    @property
    def _shown(self) -> Sequence[RateLine]:
        """The printed lines: of many errors the furthest above their bounds."""
        if not self.kind or len(self.lines) <= MOST_LINES:
            return self.lines
        excesses = [
            np.nan_to_num(line.value, nan=-1.0) - np.nan_to_num(line.bound)
            for line in self.lines
        ]
        largest_first = np.argsort(excesses, kind="stable")[::-1]
        return [self.lines[i] for i in largest_first[:MOST_LINES]]

    @property
    def caption(self) -> str:
        """The rates and the rows, in words."""
        if not self.kind:
            return f"On {self.words}"
        caption = f"error of each {self.kind}, measured on {self.words}"
        if not self._has_equal_weights:
            caption += "; w is the weight of a row with its copies"
        hidden = len(self.lines) - len(self._shown)
        if hidden:
            caption += f"; {hidden} more are in to_dict()"
        return caption

    @property
    def text(self) -> str:
        """The caption and the lines."""
        headings, rows = self.cells()
        left_aligned: Sequence[int] = range(len(headings))
        if self.kind:
            left_aligned = (0,)
        return f"{self.caption}:\n{text_table(headings, rows, left=left_aligned)}"

    def stated_limits(self) -> list[StatedLimit]:
        """Return the stated limits in their order, each with its lines of `predict`."""
        by_limit: dict[str, list[RateLine]] = {}
        for line in self.lines:
            if not np.isnan(line.bound):
                by_limit.setdefault(line.limit, []).append(line)
        limits = []
        for text, lines in by_limit.items():
            bounds = {line.limit_text for line in lines}
            words = text
            if len(bounds) == 1:
                words = f"{lines[0].rate} {bounds.pop()}"
                if lines[0].subgroup in COMPARISONS:
                    words = f"{lines[0].subgroup} of {words}"
            limits.append(StatedLimit(words, tuple(lines)))
        return limits

    def limit_lines(self) -> list[LimitLine]:
        """Return the limits of `predict` with their verdicts, for drawings and short tables."""
        return [line.limit_line for line in self.lines if not np.isnan(line.bound)]

    def __str__(self) -> str:
        first = [self.certificate, ""] if self.certificate else []
        notes = [f"{note[:1].upper()}{note[1:]}." for note in self.notes]
        return "\n".join([*first, self.text, *notes])

    def _repr_html_(self) -> str:
        first = [self.certificate] if self.certificate else []
        return html_table(*self.cells(), caption="; ".join([*first, self.caption, *self.notes]))


def _named(lines: Iterable[RateLine]) -> str:
    """Return the limits of lines with their subgroups, of the first few of many."""
    names = []
    for line in lines:
        name = line.limit
        if line.subgroup not in (None, *COMPARISONS):
            name = f"{line.limit} ({unit_name(line.subgroup)})"
        names.append(name)
    return joined(names, SUBGROUPS_NAMED, "; ")


def _unless_nan(value: float, form: str) -> str:
    """Return a number in the form of a format string; empty for NaN."""
    if np.isnan(value):
        return ""
    return form.format(value)


def number_or_none(value: float) -> float | None:
    """Return a number; None for NaN."""
    if np.isnan(value):
        return None
    return float(value)


def with_deferral(
    lines: Sequence[RateLine], rates: Sequence[Rate], strata: Strata, counts: Floats
) -> tuple[list[RateLine], tuple[str, ...]]:
    """Return lines with the deferral rates of their subgroups, and sentences on effects of deferral.

    ``lines`` belong to ``rates``. Lines of rates about deferral get no share. Without deferred rows the lines
    are unchanged, and there are no sentences.
    """
    shares: dict[Any, dict[Any, float]] = {}  # by kind of subgroup, then by subgroup with rows
    for by in dict.fromkeys([None, *(rate.by for rate in rates)]):
        terms = deferred(by=by).terms(strata)
        share_of = dict(zip(terms.names, terms.values(counts).tolist(), strict=True))
        shares[by] = {name: share for name, share in share_of.items() if not np.isnan(share)}
    overall = shares[None].get(None, 0.0)
    if not overall > 0:
        return list(lines), ()

    kind_of_rate = {str(rate): rate.by for rate in rates if not rate.counts_deferral}
    lines_with_shares = []
    for line in lines:
        if line.rate in kind_of_rate:
            share = shares[kind_of_rate[line.rate]].get(line.subgroup, float("nan"))
            line = replace(line, deferred=share)
        lines_with_shares.append(line)

    (error,) = answered_error().terms(strata).values(counts).tolist()
    in_percent = any(line.in_percent for line in lines)
    words = estimate_words(error, float(strata.size.sum()), in_percent=in_percent)
    limited = {rate.by for rate in rates if rate.counts_deferral}
    by_column = {by: shares[by] for by in shares if is_named_column(by) and by not in limited}
    of_all = (
        replace(line, in_percent=True).estimate_text
        for line in lines
        if line.rate == str(deferred())
    )
    return lines_with_shares, tuple(
        deferral_lines(words, overall, by_column, next(of_all, None))
    )


def rate_lines(
    rate: Rate, limit: Limit | None, counted: CountedRate, *, in_percent: bool
) -> list[RateLine]:
    """Return a line for each subgroup of a counted rate, and one for the gap or ratio of a limit.

    ``in_percent`` tells whether a rate without a limit is printed in percent; a cost never is.
    """
    names = list(counted.terms.names)
    bounds = np.full(len(names), np.nan)
    if limit is not None and not limit.compares:
        bounds = limit.bounds(names)
    numbers = np.column_stack([counted.values, *counted.ends(), counted.rows, bounds]).tolist()
    if limit is not None and limit.compares:
        names.append(limit.form)
        interval = counted.compared(limit)
        value = limit.value(counted.values)
        numbers.append([value, *interval, float("nan"), float(limit.bound)])

    lines = []
    for name, (value, low, high, n, bound) in zip(names, numbers, strict=True):
        line = RateLine(
            rate=str(rate),
            subgroup=name,
            value=value,
            low=low,
            high=high,
            rows=n,
            limit="",
            bound=bound,
            met=None,
            in_percent=in_percent and rate.is_fraction,
        )
        if limit is not None:
            line = replace(
                line,
                limit=str(limit),
                met=limit.keeps(value, bound),
                sense=limit.sense,
                in_percent=limit.in_percent,
            )
        lines.append(line)
    return lines
