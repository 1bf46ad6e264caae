"""Certificates: confidence bounds on a classifier's errors and rates on new rows, from fresh rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, date, datetime
from html import escape
from itertools import chain
from typing import Any, NamedTuple, Self

import numpy as np

from tailboost.core.array_types import Column, Groups, Mask, Model, Stated, Table
from tailboost.core.checks import (
    as_pandas,
    check_indexes,
    check_number,
    n_rows_of,
    reading,
    relative_weights,
    take,
)
from tailboost.core.exceptions import LeakageError
from tailboost.core.html import html_details, html_table, text_table
from tailboost.core.limit_lines import (
    CERTIFIED,
    DEFERRED_OF_ALL,
    NOT_CERTIFIED,
    LimitLine,
    filled_columns,
)
from tailboost.core.long_work import telling
from tailboost.core.rate_words import estimate_words, interval_words
from tailboost.core.spelling import joined, with_known_arguments
from tailboost.guarantees.forced import Forced
from tailboost.guarantees.fresh_rows import (
    ERRORS,
    FreshRows,
    Rule,
    fresh_rows,
    unlisted,
)
from tailboost.guarantees.rate_bounds import (
    CERTIFIED_WORDS,
    CertifiedBound,
    Kind,
    RateFamily,
    percent,
    rate_bounds,
    rule_remarks,
    share_deferred_text,
    shared_bounds,
    with_deferral,
)
from tailboost.guarantees.stated import as_model, stated_by
from tailboost.rates import (
    COMPARISONS,
    Expression,
    Limit,
    Rate,
    Strata,
    answered_error,
    checked_limits,
    checked_rates,
    deferred,
)
from tailboost.rates.strata import groups_in
from tailboost.rows.given import Given
from tailboost.rows.judged import judged
from tailboost.rows.ledger import Attempt
from tailboost.rows.seen import EqualRows, Seen, checked_equal_rows
from tailboost.rows.subgroups import DEFERRAL_COUNTED, unit_name, whole_percents, with_cure
from tailboost.selection.one_answer import group_words

Cells = tuple[list[str], list[list[str]]]
"""The headings and the rows of a table."""
# Columns of words in tables of bounds.
WORD_COLUMNS = ("result", "error of", "rule", "rate", "subgroup", "limit", "method", "reason")
# A table with more rows than LONGEST_TABLE prints the BOUNDS_SHOWN largest bounds of each kind.
LONGEST_TABLE = 60
BOUNDS_SHOWN = 12
ANSWERED = "All rows count as answered: give deferred= to mark deferred rows."
OVERALL_PRICE = "overall error"  # name of the first price
# Names of the prices beside it, if rows are deferred.
ANSWERED_PRICE = answered_error().words
DEFERRAL_PRICE = deferred().words
# The same rows are counted twice, so a difference has about half of the noise of a rate, like 4 n rows.
PAIRED = 4

# Arguments of another function, with advice.
MOVED = dict.fromkeys(
    ("alphas", "shifts"),
    "bounds on tails (alphas=) and under shifts (shifts=) are in tailboost.certify_losses; ",
)


@dataclass(frozen=True)
class Price:
    """An error or rate of given answers and of the certified rule, estimated on the rows of a calibration.

    Attributes
    ----------
    name : str
        The overall error, or a limited error or rate with its subgroup.
    given, certified : float or None
        Its values; None if no row counts.
    n : int
        Number of its rows.
    of : str
        Who gives the answers: the model itself, or its rule. Empty if there are none.
    is_objective : bool
        Whether this is the objective within the limits, if it is not the overall error.
    is_flattered : bool
        Whether these rows set thresholds by group for the least value, which is often larger on new rows.
    noise : float or None
        Standard error of the difference of both values, the price of all limits together; None if the given
        answers are within limits, or for other rates.
    """

    name: str
    given: float | None
    certified: float
    n: int
    of: str = field(default="", repr=False)
    is_objective: bool = field(default=False, repr=False)
    is_flattered: bool = field(default=False, repr=False)
    noise: float | None = field(default=None, repr=False)

    @property
    def increase(self) -> float | None:
        """The value of the certified rule minus the given one; None if one is unknown."""
        if self.given is None or self.certified is None:
            return None
        return self.certified - self.given

    def cells(self, in_percent: bool) -> list[str]:
        """Return the cells of a table: name, number of rows, and both values in words."""
        in_percent = in_percent and not self.is_objective  # which may be a cost
        given, certified = (
            estimate_words(value, PAIRED * self.n, in_percent=in_percent)
            for value in (self.given, self.certified)
        )
        if not self.of:
            given = ""  # the column is left out
        return [self.name, f"{self.n:,}", given, certified]

    def words(
        self,
        n_rows: int,
        in_percent: bool,
        of_deferral: tuple[Price, Price] | None = None,
        share: str | None = None,
    ) -> str:
        """Return both values in a sentence; ``n_rows`` is the number of all fresh rows.

        ``of_deferral`` has the prices of the error of the answered rows and of the share deferred, if rows
        are deferred, and ``share`` is this share as the table has it.
        """
        name, n_counted, given, certified = self.cells(in_percent)
        of_reference = ""
        if of_deferral is not None:
            answered, deferral = of_deferral
            given_answered, certified_answered = (
                estimate_words(value, answered.n, in_percent=in_percent)
                for value in (answered.given, answered.certified)
            )
            share = share or whole_percents(deferral.certified)
            if deferral.n != self.n:  # rows without labels are deferred too
                share = f"{share} of {deferral.n:,}"
            certified += (
                f" with {share} deferred and counted as right; "
                f"{certified_answered} of answered rows"
            )
            of_reference = " of all rows"
            if answered.given != self.given:
                of_reference = f" so counted, {given_answered} of its answered rows"
        compared = f"{self.of}: {given}{of_reference}"
        if self.noise is not None and self.given is not None:
            compared = f"without limits, {compared}"
            if of_deferral is None and not self.is_flattered:
                price = interval_words(
                    self.certified - self.given, self.noise, in_percent=in_percent
                )
                compared += f"; price {price}, 95 %"
        compared = f" ({compared})" if self.of else ""
        rows = "these rows"
        if self.n < n_rows:
            rows = f"{n_counted} of these rows"
        if self.is_flattered:
            rows += "; often higher on new rows"
        return f"{name[:1].upper()}{name[1:]} {certified}{compared}, estimated on {rows}."


class PriceTable(NamedTuple):
    """The table of prices, which `print` shows.

    Attributes
    ----------
    heads : list of str
        The heads of its columns.
    rows : list of list of str
        The cells of each row.
    """

    heads: list[str]
    rows: list[list[str]]

    def __repr__(self) -> str:
        return text_table(*self)


def price_name(rate: Rate, subgroup: Any, rates: Sequence[Rate]) -> str:
    """Return the name of the price of a rate in a subgroup; ``rates`` are of all limits."""
    if subgroup is None:
        return rate.words
    return f"{rate.words} of {group_words(unit_name(subgroup), rate.by, rates)}"


@dataclass(frozen=True)
class Certificate:
    """Bounds on new rows, valid together with the stated confidence.

    Attributes
    ----------
    bounds : tuple of CertifiedBound
        Bounds on errors: mean, CVaR, shift, classes, groups, cells; each kind is followed by its worst. Or
        bounds on the requested rates, in their order.
    confidence : float
        Probability of all bounds holding together, over the draw of the fresh rows.
    n_rows : int
        Number of fresh rows.
    notes : tuple of str
        Assumptions, overlap with training rows, and the division of the error probability.
    attempts : tuple of Attempt
        From `tailboost.calibrate`: this and all earlier attempts, with their rows.
    price : tuple of Price
        From `tailboost.calibrate`: the overall error and each limited error or rate, of the given model's own
        answers and of the certified rule. `prices` is their table.
    rule : str or None
        Digest of the bounded decision function; None for answers alone, and for models of
        other libraries. A classifier with another rule has no ``certificate_``.
    remarks : tuple of str
        Warnings to a reader of the limits, such as the error of the answered rows.
    forced_by : Forced or None
        The costliest limit or the one with the least room, if known; its text is one line.
    one_answer : tuple of str
        Sentences on the groups of limits, or read by the rule, with one answer to all fresh rows.
    as_stated : bool
        Whether only the caller knows of no model trained on the rows: the training rows are not known.
    equal_rows : {"copies", "natural"}
        How equal rows were treated, and are by default in later calls with the certified rule.
    date : str or None
        The day of the call that certified (UTC), such as "2026-11-28"; None in files of earlier versions.
    n_clusters : int or None
        Number of clusters of the fresh rows, each with one vote; None if each row has a vote.
    """

    bounds: tuple[CertifiedBound, ...]
    confidence: float
    n_rows: int
    notes: tuple[str, ...]
    model: Model = field(default=None, repr=False, compare=False)
    attempts: tuple[Attempt, ...] = field(default=(), repr=False, compare=False)
    price: tuple[Price, ...] = ()
    rule: str | None = field(default=None, repr=False, compare=False)
    remarks: tuple[str, ...] = ()
    forced_by: Forced | None = field(default=None, compare=False)
    one_answer: tuple[str, ...] = ()
    as_stated: bool = False
    equal_rows: EqualRows = "copies"
    date: str | None = field(default=None, repr=False, compare=False)
    n_clusters: int | None = field(default=None, repr=False)
    # The rows, for comparison if equal rows are different rows; otherwise None.
    used: Seen | None = field(default=None, repr=False, compare=False)

    @property
    def rates(self) -> tuple[CertifiedBound, ...]:
        """The bounds on rates, of `bounds`."""
        return tuple(bound for bound in self.bounds if bound.rate is not None)

    def bound(
        self, kind: Kind, subgroup: Any = None, rule: Rule | None = None
    ) -> CertifiedBound:
        """Return one bound on an error.

        Parameters
        ----------
        kind, subgroup, rule
            As in `CertifiedBound`; no subgroup for a kind with one bound, and the first rule by default.

        Raises
        ------
        KeyError
            If there is no such bound.
        """
        for bound in self.bounds:
            if (bound.kind, bound.subgroup) == (kind, subgroup) and rule in (None, bound.rule):
                return bound
        raise KeyError(f"no bound of kind {kind!r}, subgroup {subgroup!r}, rule {rule!r}")

    @property
    def certified(self) -> bool | None:
        """Whether all targets are certified; None without targets.

        Also None if targets of every class or group are certified for the given rows, and other classes or
        groups are not known: ``subgroups=`` of `certify` lists all.
        """
        limited = self._limited
        if any(not bound.certified for bound in limited):
            return False
        if not limited or any(bound.of_seen for bound in limited):
            return None
        return True

    @property
    def _limited(self) -> list[CertifiedBound]:
        """The bounds with a limit."""
        return [bound for bound in self.bounds if bound.target is not None]

    @property
    def targets(self) -> dict[tuple[str, Any], float]:
        """The limits that are certified, by rate (as text) and subgroup."""
        return {
            (str(bound.counted), bound.subgroup): bound.target
            for bound in self.bounds
            if bound.target is not None and bound.certified
        }

    @property
    def groups_named(self) -> dict[Any, list[Any]]:
        """The groups that limits by group cover, by column; None is the name of a column without one.

        A limit without rows covers its group if it is kept by construction. Empty without limits by group.
        """
        bounds = [
            bound for bound in self._limited if bound.is_counted and bound.counted.needs_groups
        ]
        titles = judged(self.model).group_titles
        named: dict[Any, list[Any]] = {}
        for bound in bounds:
            if not bound.n and not bound.certified:
                continue
            for subgroup in bound.subgroups or (bound.subgroup,):
                for column, group in groups_in(subgroup, bound.counted.by, titles):
                    groups_of_column = named.setdefault(column, [])
                    if group not in groups_of_column:
                        groups_of_column.append(group)
        return named

    def recheck(
        self, X: Table, y: Column, *, groups: Groups = None, clusters: Column = None
    ) -> Any:
        """Test each bound on one batch of new rows; see `tailboost.Monitor`, which takes further batches.

        Parameters
        ----------
        X, y, groups, clusters : array-like
            New rows, as in `tailboost.Monitor.add`.

        Returns
        -------
        Monitor
            With one batch.

        Raises
        ------
        LeakageError
            If rows were used before: by the fit or the certificate.
        ValueError
            If the certificate was made from an array of answers.
        """
        from tailboost.guarantees.monitor import Monitor

        if self.model is None:
            raise ValueError(
                "this certificate keeps no rule; use Monitor(rule, certificate).add(X, y)"
            )
        return Monitor(self.model, self).add(X, y, groups=groups, clusters=clusters)

    def refuse_rows_of(self, fresh: FreshRows) -> None:
        """Raise LeakageError if new rows are rows of the certificate, beyond chance."""
        if self.used is None or fresh.hashes is None:
            return
        if fresh.used.repeats(self.used, fresh.equal_rows):
            raise LeakageError(
                "X: these rows are rows of the certificate, or equal to them. Give new rows"
            )

    @property
    def tested(self) -> list[CertifiedBound]:
        """The bounds to test on new rows: on rates, or on errors of subgroups."""
        return [bound for bound in self.bounds if bound.is_counted]

    def to_dict(self) -> dict[str, Any]:
        """Return everything but the model and fingerprints as plain types, for JSON."""
        return {
            "confidence": self.confidence,
            "n_rows": self.n_rows,
            "n_clusters": self.n_clusters,
            "certified": self.certified,
            "bounds": [bound.to_dict() for bound in self.bounds],
            "notes": list(self.notes),
            "price": [asdict(price) for price in self.price],
            "remarks": list(self.remarks),
            "one_answer": list(self.one_answer),
            "rule": self.rule,
            "as_stated": self.as_stated,
            "equal_rows": self.equal_rows,
            "date": self.date,
            "forced_by": None if self.forced_by is None else self.forced_by.to_dict(),
        }

    @classmethod
    def from_dict(cls, document: Mapping[str, Any]) -> Self:
        """Return a certificate written by `to_dict`, without model and fingerprints.

        Raises
        ------
        ValueError
            If the document is no certificate.
        """
        with reading("certificate"):
            forced = document["forced_by"]
            return cls(
                tuple(map(CertifiedBound.from_dict, document["bounds"])),
                check_number(document["confidence"], "confidence", 0, 1, below=True),
                int(document["n_rows"]),
                tuple(document["notes"]),
                price=tuple(Price(**entry) for entry in document["price"]),
                rule=document["rule"],
                remarks=tuple(document["remarks"]),
                one_answer=tuple(document["one_answer"]),
                forced_by=forced and Forced.from_dict(forced),
                as_stated=bool(document["as_stated"]),
                equal_rows=checked_equal_rows(document["equal_rows"]),
                date=_checked_date(document.get("date")),
                n_clusters=_count_or_none(document.get("n_clusters")),
            )

    @property
    def counts_clusters(self) -> bool:
        """Whether rows are in clusters with one vote each, some of several rows."""
        return self.n_clusters not in (None, self.n_rows)

    def rows_in_words(self, rows: str = "fresh rows") -> str:
        """Return the number of ``rows`` in words, after that of their clusters."""
        numbered = f"{self.n_rows:,} {rows}"
        if self.counts_clusters:
            return f"{self.n_clusters:,} clusters ({numbered})"
        return numbered

    @property
    def title(self) -> str:
        """The verdict on the limits, in a sentence; without limits, the confidence in all bounds."""
        limited = self._limited
        confidence = percent(self.confidence)
        if not limited:
            return (
                f"With {confidence} confidence all these bounds hold together for new rows "
                f"from the population of these {self.n_rows:,} rows."
            )
        rows = f"with {confidence} confidence from {self.rows_in_words()}"
        about_subgroups = ""
        if any(bound.of_seen for bound in limited):
            about_subgroups = ", for the subgroups among these rows"
        n_certified = sum(bound.certified is True for bound in limited)
        if n_certified < len(limited):
            return (
                f"{n_certified} of {len(limited)} limits are certified {rows}{about_subgroups}."
            )
        together = "all limits"
        if len(limited) < len(self.bounds):
            together = "all limits and bounds"
        return f"Certified {rows}: {together} hold together{about_subgroups}."

    def lines(self, rest: str) -> list[str]:
        """Return the lines below the table.

        The last one has the assumption in short, and ``rest``, which says how to see the others. An empty
        ``rest`` says nothing: the others follow.
        """
        lines = list(self.price_words)
        if self.forced_by is not None:
            lines.append(str(self.forced_by))
        tells_answered_error = any(price.name == ANSWERED_PRICE for price in self.price)
        for remark in self.remarks:
            if not (tells_answered_error and remark.startswith(DEFERRAL_COUNTED)):
                lines.append(with_cure(remark))
        assumed = self.assumed
        if rest:
            return [*lines, f"{assumed}: {rest}"]
        return [*lines, f"{assumed}."]

    @property
    def assumed(self) -> str:
        """The assumption in short, also if the caller alone states so."""
        units = "clusters" if self.counts_clusters else "rows"
        if self.as_stated:
            return f"Assumes independent {units}, fresh as stated"
        return f"Assumes independent {units} that nothing was trained or selected on"

    @property
    def assumptions(self) -> str:
        """The basis of a certificate: date, attempts, copies, frozen models, methods, price of each rate."""
        names_by_method: dict[str, list[str]] = {}
        for bound in self._printed:
            names_by_method.setdefault(bound.method, []).append(bound.name)
        methods = list(names_by_method)
        if len(methods) > 1:
            methods = [
                f"{method} ({joined(names, BOUNDS_SHOWN)})"
                for method, names in names_by_method.items()
            ]
        notes = list(self.notes)
        if methods:
            notes.append(f"Method: {'; '.join(methods)}.")
        if self.date:
            notes.append(f"Date: {self.date} (UTC).")
        text = "\n".join(f"* {note}" for note in notes)
        if self.price:
            return f"{self.prices}\n\n{text}"
        return text

    def text(self, rest: str = "see .assumptions") -> str:
        """Return verdict, table, price and one line of assumptions, as `print` shows them.

        Parameters
        ----------
        rest : str
            How to see `assumptions`.

        Returns
        -------
        str
        """
        return "\n".join([*self._heads, "", self.table(), "", *self.lines(rest)])

    @property
    def _heads(self) -> list[str]:
        """The lines above the table."""
        return [self.title, *self.one_answer]

    def table(self) -> str:
        """Return the table of bounds as text."""
        heads, rows = self.cells()
        left = [j for j, head in enumerate(heads) if j == 0 or head in WORD_COLUMNS]
        return text_table(heads, rows, left=left)

    def __str__(self) -> str:
        return self.text()

    def _repr_html_(self) -> str:
        lines = "".join(f"<p>{escape(line)}</p>" for line in self.lines("below"))
        details = html_details("Assumptions, attempts and prices", self.assumptions)
        title = " ".join(self._heads)
        return f"<div>{html_table(*self.cells(), title)}{lines}{details}</div>"

    def stated_limits(self) -> list[tuple[str, str]]:
        """Return each stated limit and its verdict, as two texts; a limit on many subgroups is one."""
        by_limit: dict[str, list[CertifiedBound]] = {}
        for bound in self._limited:
            words = f"{bound.quantity} {bound.limit}"
            if bound.subgroup in COMPARISONS:
                words = f"{bound.name} of {words}"
            by_limit.setdefault(words, []).append(bound)
        with_confidence = f"with {percent(self.confidence)} confidence"
        stated = []
        for words, bounds in by_limit.items():
            missed = [bound.name for bound in bounds if not bound.certified]
            verdict = f"{CERTIFIED} {with_confidence}"
            if missed:
                verdict = f"{NOT_CERTIFIED} {with_confidence}: {joined(missed, 2)}"
            stated.append((words, verdict))
        return stated

    @property
    def in_percent(self) -> bool:
        """Whether a limit was stated in percent."""
        return any(bound.in_percent for bound in self.bounds)

    @property
    def prices(self) -> PriceTable:
        """The table of prices: each rate of given answers, if there are any, and of the certified rule."""
        return self._prices(self.price)

    def _prices(self, prices: Sequence[Price]) -> PriceTable:
        """Return the table of some prices; several limits on one rate have equal ones."""
        rows = [price.cells(self.in_percent) for price in dict.fromkeys(prices)]
        of_reference = prices[0].of if rows else ""
        heads = ["rate", "rows", of_reference, "certified rule"]
        return PriceTable(*filled_columns(heads, rows))

    def price_of(self, bound: CertifiedBound) -> Price | None:
        """Return the price of the rate of a bound; None if it is unknown, and for a gap or ratio."""
        if not bound.is_counted:
            return None
        rates = [limited.counted for limited in self._limited if limited.is_counted]
        name = price_name(bound.counted, bound.subgroup, rates)
        return next((price for price in self.price if price.name == name), None)

    @property
    def price_words(self) -> list[str]:
        """The objective and the overall error with their prices, in sentences, if they are known."""
        by_name = {price.name: price for price in self.price}
        answered, deferral = (by_name.get(name) for name in (ANSWERED_PRICE, DEFERRAL_PRICE))
        of_deferral = None
        if answered is not None and deferral is not None and deferral.certified:
            of_deferral = (answered, deferral)
        lines = []
        for price in self.price:
            if price.name == OVERALL_PRICE:
                share = share_deferred_text(self.bounds)
                lines.append(price.words(self.n_rows, self.in_percent, of_deferral, share))
            elif price.is_objective:
                lines.append(price.words(self.n_rows, self.in_percent))
        return lines

    def cells(self) -> Cells:
        """Return the table of bounds, each limit above its subgroups; of many bounds the largest."""
        printed = self._printed
        shows_bounds = not all(bound.is_limit for bound in printed)
        shows_results = any(bound.certified is False for bound in printed)

        def cells_of(bound: CertifiedBound) -> dict[str, str]:
            return {
                # Estimate and bound of the worst subgroup may be of two subgroups.
                "rows": "" if bound.kind == "worst" else f"{bound.n:,}",
                "estimate": bound.estimate_text,
                "bound": bound.bound_text if shows_bounds else "",
                DEFERRED_OF_ALL: bound.deferred_text,
                "result": CERTIFIED_WORDS[bound.certified] if shows_results else "",
                "reason": bound.reason,
            }

        heads, rows = bounds_table(printed, cells_of)
        n_omitted = len(self.bounds) - len(printed)
        if n_omitted:
            last_row = f"… and {n_omitted:,} smaller ones in .bounds"
            rows.append([last_row, *[""] * (len(heads) - 1)])
        return heads, rows

    @property
    def _printed(self) -> Sequence[CertifiedBound]:
        """The bounds of the table.

        Of many bounds on errors these are the `BOUNDS_SHOWN` largest of each kind and rule, before them
        missed targets. The order of the bounds stays.
        """
        if len(self.bounds) <= LONGEST_TABLE or self.bounds[0].rate is not None:
            return self.bounds
        numbers_by_kind: dict[tuple[Kind, Rule], list[int]] = {}
        for number, bound in enumerate(self.bounds):
            numbers_by_kind.setdefault((bound.kind, bound.rule), []).append(number)

        def missed_then_largest(number: int) -> tuple[bool, float]:
            return self.bounds[number].certified is not False, -self.bounds[number].upper

        shown: list[int] = []
        for numbers in numbers_by_kind.values():
            shown += sorted(numbers, key=missed_then_largest)[:BOUNDS_SHOWN]
        return [self.bounds[number] for number in sorted(shown)]

    def limit_lines(self) -> list[LimitLine]:
        """Return the bounds for drawings and short tables: the ones with a limit, or without limits all."""
        return [bound.limit_line for bound in self._limited or self._printed]


def bounds_table(
    bounds: Sequence[CertifiedBound], cells_of: Callable[[CertifiedBound], Mapping[str, str]]
) -> Cells:
    """Return bounds as a table: each limit above its subgroups, without empty columns.

    ``cells_of`` returns the cells of a bound, by their heads. Of a limit above its subgroups all cells but
    the first are empty.
    """
    rows: list[list[str]] = []
    heads: list[str] = []
    for title, family in _families(bounds).items():
        in_one_row = len(family) == 1 and family[0].subgroup in (None, *COMPARISONS)
        cells_of_family = [cells_of(bound) for bound in family]
        heads = list(cells_of_family[0])
        if not in_one_row:
            rows.append([title, *[""] * len(heads)])
        for bound, cells in zip(family, cells_of_family, strict=True):
            first = _first_cell(bound, title if in_one_row else None)
            rows.append([first, *cells.values()])
    first_head = "limit" if any(bound.limit for bound in bounds) else "bound on"
    return filled_columns([first_head, *heads], rows)


def _families(bounds: Sequence[CertifiedBound]) -> dict[str, list[CertifiedBound]]:
    """Return bounds by the quantity and limit that they share, bounds with a limit first."""
    with_limit: dict[str, list[CertifiedBound]] = {}
    without_limit: dict[str, list[CertifiedBound]] = {}
    for bound in bounds:
        # A gap or ratio stands below its rates, with its limit.
        if bound.limit and bound.subgroup not in COMPARISONS:
            with_limit.setdefault(f"{bound.quantity} {bound.limit}", []).append(bound)
        else:
            without_limit.setdefault(bound.quantity, []).append(bound)
    return with_limit | without_limit


def _first_cell(bound: CertifiedBound, title: str | None) -> str:
    """Return the first cell of a bound's row.

    A bound alone in its family has the ``title`` of the family. Others have None, and stand below the title.
    """
    compares = bound.subgroup in COMPARISONS
    if title is not None:
        return f"{bound.name} of {bound.quantity} {bound.limit}" if compares else title
    if compares:
        return f"  {bound.name} {bound.limit}".rstrip()
    return f"  {bound.name}"


# -- certify -----------------------------------------------------------------------------------------------


@with_known_arguments(**MOVED)
def certify(
    model: Model,
    X: Table,
    y: Column,
    *,
    confidence: float = 0.95,
    groups: Groups = None,
    max_error: Stated = None,
    sample_weight: Column = None,
    subgroups: Any = None,
    rates: Stated = None,
    limits: Stated = None,
    costs: Any = None,
    cost_range: tuple[float, float] | None = None,
    equal_rows: EqualRows | None = None,
    clusters: Column = None,
    deferred: Column = None,
    training_rows: Any = None,
    verbose: int = 0,
) -> Certificate:
    """Return confidence bounds on a classifier's errors or rates on new rows, from fresh rows.

    All bounds hold together with the stated confidence, for any classifier, population and number of rows.
    Bounds on errors are those of ``predict``: Clopper–Pearson, exact. The error probability
    ``1 − confidence`` is divided equally among the kinds (mean of all rows, classes, groups, cells), and
    within a kind among the subgroups with rows (union bound). The worst class has the largest class bound,
    which needs no part. `tailboost.certify_losses` bounds the expected losses of a randomised rule, tails
    (CVaR), and means under a shift of the population.

    A deferred row is no error and no miss, and stays among the rows of its class and group;
    ``rates.answered_error`` leaves deferred rows out.

    Parameters
    ----------
    model : fitted classifier, pipeline, rule or array
        Any object with ``predict``, or a rule of `tailboost.load_rule`, for a table with its scores. With
        ``X=None`` the answers to the rows: labels of shape (n,), or probabilities of shape (n, K), with
        columns in the order of the sorted labels or named by the labels. ``predict`` is then their argmax.
    X, y : array-like of shape (n, d), (n,)
        Fresh rows and their labels: independent draws from the population of interest. With ``y=None`` the
        rows have no labels, and ``rates`` must need none.
    confidence : float in (0, 1), default=0.95
        Joint probability of all bounds.
    groups : array-like of shape (n,), or table of shape (n, c), optional
        Group of each row, or several columns of groups. Groups and class × group cells then have bounds too.
        The groups are those of the model's fit (``groups_``), if these columns were groups there,
        and the groups among the rows. A group without rows has the bound 1.
    max_error : float or dict, optional
        Targets of each group, or without groups of each class. A dict names classes, groups or cells; the
        key None is for the rest. A target is certified if the bound is at most the target.
    sample_weight : array-like of shape (n,), optional
        0 (the row is left out) and one other value. Bounds for unequal weights are refused.
    rates : list of Rate, Limit or str, optional
        Rates to bound instead of errors, from `tailboost.rates` or as text. A rate is bounded on both sides
        in each subgroup, a limit on its side; ``()`` bounds errors. By default the limits of the model's
        fit, or its largest errors (``max_error``); of a calibrated rule the certified ones.
    limits : list of Limit or str, optional
        Limits on rates, each bounded on its side, besides the ``rates``.
    costs : array-like of shape (n, K), optional
        Cost of each answer to each row, for ``rates.cost()`` without a matrix.
    cost_range : (float, float), optional
        Smallest and largest possible cost of any answer to any row. A bound on a mean needs this range, which
        the given rows do not show.
    subgroups : list or dict of lists, optional
        All groups of the population, by the names of the bounds, or ``{"class": […], "group": […]}``. If
        neither this list nor the model gives them, "worst" is about the groups (labels) among the rows.
    equal_rows : {"copies", "natural"}, optional
        Reason for rows equal to training rows. "copies": more than one in twenty (by three standard errors)
        is refused, because errors on training rows are too small. "natural": features take few values, and
        nobody copied a row, neither here nor in the training table. By default as in the certificate of the
        model or, without one, "copies".
    clusters : array-like of shape (n,), optional
        Cluster of each row: person, household or place. A cluster has one vote in a class or group, or in the
        denominator of a rate: one of its rows there counts, drawn at random from a generator with a fixed
        seed. If the model may defer, it is the same row in all classes, groups and rates. The order of rows
        has no effect. Clusters are independent draws; rows of a cluster may depend on each other in any way.
    deferred : array-like of bool, shape (n,), optional
        With an array of answers: True for a deferred row. Required for rates of deferral.
    training_rows : array-like of shape (k, d), optional
        The rows on which a model of another library was trained, without labels. Rows of ``X`` that are among
        them are refused as training rows of a classifier of tailboost are. Fingerprints are compared, and
        nothing is stored. The fingerprints of a classifier (``records_.trained``) can be given instead.
    verbose : int, default=0
        Above 0 predictions of more than five seconds print finished and total steps, and the time left.

    Returns
    -------
    Certificate

    Raises
    ------
    LeakageError
        If rows equal rows of the fit (those that the model knows, and ``training_rows``), unless rows are
        equal by nature.
        Tables with other columns have equal rows if both contain the score of a model. Nothing can be
        recognised where they have no column in common, as a table of features and a dict of probabilities.
    ValueError
        If an argument is not as described.

    Examples
    --------
    >>> import numpy as np
    >>> import tailboost as tb
    >>> y = np.repeat([0, 1], [100, 200])
    >>> answers = np.where(np.arange(300) % 12 == 0, 1 - y, y)  # or a fitted model, with X
    >>> cert = tb.certify(answers, None, y, max_error=0.15)
    >>> for b in cert.bounds:
    ...     print(f"{b.name}: estimate {b.estimate:.3f}, at most {b.upper:.3f}")
    all rows: estimate 0.083, at most 0.121
    class 0: estimate 0.090, at most 0.175
    class 1: estimate 0.080, at most 0.134
    worst class seen: estimate 0.090, at most 0.175
    >>> cert.certified
    False
    """
    model = as_model(model)
    check_number(confidence, "confidence", 0, 1, below=True)
    expressions, max_error = requested_rates(model, rates, limits, max_error)

    given = Given(
        X,
        y,
        groups,
        costs=costs,
        clusters=clusters,
        subgroups=subgroups,
        equal_rows=equal_rows,
        training_rows=training_rows,
        cost_range=cost_range,
        deferred=deferred,
    )
    facts = [] if expressions else ["errors"]
    given.refuse(*facts)
    if sample_weight is not None:
        model, given = _rows_with_weight(model, given, sample_weight)

    with telling() if verbose else nullcontext():
        if expressions:
            fresh = fresh_rows(model, given, [expression.rate for expression in expressions])
        else:
            fresh = fresh_rows(model, given, rule="predict", errors=True)
    certificate = certificate_of(fresh, expressions, max_error, confidence)
    if fresh.hashes is not None:
        certificate = replace(certificate, used=fresh.used)

    if hasattr(model, "predict"):
        return replace(certificate, model=model)
    if deferred is not None:
        return certificate
    return replace(certificate, notes=(*certificate.notes, ANSWERED))


def _rows_with_weight(model: Any, given: Given, sample_weight: Column) -> tuple[Any, Given]:
    """Return the model, or array of answers, and the rows without those of weight 0.

    Raise ValueError if other weights are unequal.
    """
    check_indexes(
        X=given.X, y=given.y, sample_weight=sample_weight, model=model, **given.by_row
    )
    weight = relative_weights(sample_weight, n_rows_of(given.y))
    has_weight: Mask = weight > 0
    if np.ptp(weight[has_weight]) > 0:
        raise ValueError(
            "sample_weight: rows of unequal weight are no independent draws from the weighted "
            "population, so there is no bound for them. Draw rows without weights, or keep row "
            "i with probability weight_i / (largest possible weight) and give the rows that "
            "were kept"
        )
    if not hasattr(model, "predict"):  # an array of answers
        model = np.asarray(model)[has_weight]
    tables = {"X": given.X, "y": np.asarray(given.y), **given.by_row}
    weighted = {name: take(as_pandas(table), has_weight) for name, table in tables.items()}
    return model, replace(given, **weighted)


# -- request -----------------------------------------------------------------------------------------------


def requested_rates(
    model: Model,
    rates: Stated,
    limits: Stated,
    max_error: Stated,
) -> tuple[list[Expression], Stated]:
    """Return the rates and limits to bound, and the largest errors; without rates, errors are bounded.

    If the caller states nothing, the model's certificate or fit gives them.

    Raises
    ------
    ValueError
        If both rates and largest errors are given.
    """
    if rates is None and limits is None and max_error is None:
        targets = stated_by(model)
        return checked_rates(targets.limits), targets.max_error
    expressions = list(checked_rates(rates or ()))
    if limits is not None:  # a limit alone has no truth value
        expressions += checked_rates(checked_limits(limits))
    if expressions and max_error is not None:
        raise ValueError("rates or limits and max_error: request them in separate calls")
    return expressions, max_error


def errors_within(max_error: Stated, names: Mapping[Kind, Sequence[Any]]) -> Limit | None:
    """Return the largest errors of subgroups as a limit on the errors of one kind; None if none is limited.

    A largest error of 1 limits nothing.

    Parameters
    ----------
    max_error : float, dict or None
        A float is for the groups if there are any, else for the classes. A dict names classes, groups or
        cells (pairs of class and group). Other subgroups have no target, unless the key None gives one.
    names : dict
        The subgroups by kind: "class", "group", "cell".

    Raises
    ------
    ValueError
        If a target is not in (0, 1], or its name is no subgroup.
    """
    if max_error is None:
        return None
    kinds: tuple[Kind, ...] = ("class",)
    if names.get("group"):
        kinds = ("group", "class", "cell")

    if not isinstance(max_error, Mapping):
        largest_error = check_number(max_error, "max_error", 0, 1)
        if largest_error < 1:
            return ERRORS[kinds[0]] <= largest_error
        return None
    if not max_error:
        raise ValueError("max_error={} names no subgroup: leave it out, or name subgroups")

    all_names = list(chain.from_iterable(names[kind] for kind in kinds))
    bounds = {_named(key, all_names): bound for key, bound in max_error.items()}
    named = [name for name in bounds if name is not None]
    kind = _kind_of(named, {kind: names[kind] for kind in kinds}, f"max_error={max_error!r}")
    for name, bound in bounds.items():
        check_number(bound, f"max_error: the target of {name!r}", 0, 1)
    errors_below_1 = {name: float(bound) for name, bound in bounds.items() if bound < 1}
    if errors_below_1:
        return ERRORS[kind] <= errors_below_1
    return None


def _kind_of(
    subgroups: Sequence[Any], names: Mapping[Kind, Sequence[Any]], argument: str
) -> Kind:
    """Return the kind to which all of some subgroups belong, the first kind if there are none.

    ``names`` has the subgroups of each kind. Raises ValueError if there is no such kind, or if there are
    several; errors begin with ``argument``.
    """
    all_names = list(chain.from_iterable(names.values()))
    for subgroup in subgroups:
        if subgroup not in all_names:
            raise ValueError(
                f"{argument}: {subgroup!r} is no {' or '.join(names)}; there are "
                f"{all_names[:20]}"
            )
    kinds = [kind for kind in names if all(name in names[kind] for name in subgroups)]
    if not kinds:
        raise ValueError(
            f"{argument} names subgroups of several kinds, such as classes and groups"
        )
    if subgroups and len(kinds) > 1:
        raise ValueError(
            f"{argument}: {subgroups[0]!r} names a class and a group; rename the groups"
        )
    return kinds[0]


def _named(key: Any, names: Sequence[Any]) -> Any:
    """Return the name of the subgroup for a user's ``key``, or the key if no single name suits.

    The name of a group may be a pair (column, value), and the key the value alone, or the reverse.
    """
    if key is None or key in names:
        return key
    matches = [name for name in names if _by_value(name) == key or name == _by_value(key)]
    if len(matches) == 1:
        return matches[0]
    return key


def _by_value(name: Any) -> Any:
    """Return the name of a group or cell without the column: the pair (column, value) becomes the value."""
    if isinstance(name, tuple) and len(name) == 2:
        if isinstance(name[1], tuple):  # the cell (class, (column, value))
            return name[0], name[1][-1]
        return name[1]
    return name


def limit_on_errors(max_error: Stated, strata: Strata) -> Limit:
    """Return ``max_error`` as a limit on the errors of subgroups; raise ValueError if no error is limited."""
    limit = errors_within(max_error, error_names(strata))
    if limit is None:
        raise ValueError(f"max_error={max_error!r} sets no target below 1")
    return limit


def error_names(strata: Strata) -> dict[Kind, list[Any]]:
    """Return the subgroups of the bounds on errors, by kind."""
    kinds: list[Kind] = ["mean", "class"]
    if strata.columns:
        kinds += ["group", "cell"]
    return {kind: strata.subgroups(ERRORS[kind].by)[0] for kind in kinds}


# -- bounds ------------------------------------------------------------------------------------------------


def certificate_of(
    fresh: FreshRows,
    expressions: Sequence[Expression],
    max_error: Stated,
    confidence: float,
) -> Certificate:
    """Return the certificate of the rates of fresh rows, or without rates of their errors; see `certify`.

    ``expressions`` are the rates and limits. Of errors, the kinds divide the error probability equally, and
    each kind but the mean has a bound on its worst subgroup.
    """
    bounds: list[CertifiedBound] = []
    limits = [expression.limit for expression in expressions if expression.limit is not None]
    if expressions:
        bounds = rate_bounds(expressions, fresh, 1.0 - confidence)
        notes = _notes_of_rates(bounds, fresh)
    else:
        names_by_kind = error_names(fresh.answered.strata)
        limit = errors_within(max_error, names_by_kind)
        limits += [limit] if limit is not None else []
        for kind in names_by_kind:
            rate: Expression = ERRORS[kind]
            if limit is not None and limit.rate == rate:
                rate = limit
            family = RateFamily.from_expression(rate, fresh, kind)
            bounds_of_kind = shared_bounds([family], (1.0 - confidence) / len(names_by_kind))
            bounds += bounds_of_kind
            if kind != "mean":
                bounds.append(worst_of(bounds_of_kind, all_listed=fresh.knows(kind)))
        notes = _notes_of_errors(bounds, fresh)

    return Certificate(
        bounds=tuple(with_deferral(bounds, fresh)),
        confidence=confidence,
        n_rows=len(fresh),
        notes=tuple(notes),
        rule=judged(fresh.model).rule_digest,
        remarks=tuple(rule_remarks(bounds, fresh)),
        one_answer=tuple(fresh.one_answer(limits)) if limits else (),
        as_stated=fresh.as_stated,
        equal_rows=fresh.equal_rows,
        date=today(),
        n_clusters=fresh.n_clusters,
    )


def today() -> str:
    """Return the date (UTC), such as "2026-11-28"."""
    return datetime.now(UTC).date().isoformat()


def _count_or_none(value: Any) -> int | None:
    """Return a number of a document; None if there is none, as in files of earlier versions."""
    if value is None:
        return None
    return int(value)


def _checked_date(text: str | None) -> str | None:
    """Return the date of a stored certificate, or None; raise ValueError or TypeError for another text."""
    if text is None:
        return None
    return date.fromisoformat(text).isoformat()


def worst_of(bounds: Sequence[CertifiedBound], all_listed: bool) -> CertifiedBound:
    """Return the bound on the largest error of the subgroups of one kind, from the bounds of all of them.

    ``all_listed`` tells whether these are all subgroups of the population, or only the ones with rows.
    """
    largest = max(bounds, key=lambda bound: bound.upper)
    have_one_target = len({bound.target for bound in bounds}) == 1
    return replace(
        largest,
        kind="worst",
        subgroup=largest.kind,
        estimate=max(bound.estimate for bound in bounds if bound.estimate is not None),
        method=f"largest {largest.kind} bound",
        target=largest.target if have_one_target else None,
        of_seen=not all_listed,
        sufficient_rows=None,  # the number of one subgroup does not certify all of them
    )


# -- notes -------------------------------------------------------------------------------------------------


def _notes_of_rates(bounds: Sequence[CertifiedBound], fresh: FreshRows) -> Iterator[str]:
    """Yield the assumptions of bounds on rates, and the division of the level."""
    yield from fresh.notes
    yield (
        "The error probability is divided evenly among the bounds on means of subgroups with "
        "rows (union bound). Bounds on gaps and ratios follow from them."
    )
    if fresh.answered.draws:
        yield "These are rates of the randomised rule, as used by `tailboost decide`, not of predict."
    yield from unlisted(fresh, [bound.rate.by for bound in bounds if bound.rate is not None])


def _notes_of_errors(bounds: Sequence[CertifiedBound], fresh: FreshRows) -> Iterator[str]:
    """Yield the assumptions of bounds on errors, and the division of the level."""
    yield from fresh.notes
    kinds = list(dict.fromkeys(bound.kind for bound in bounds if bound.kind != "worst"))
    yield from unlisted(fresh, kinds[1:])

    if fresh.hashes is not None and fresh.clusters is None and not fresh.only_scores:
        n_repeated = len(fresh.hashes) - len(np.unique(fresh.hashes))
        if n_repeated:
            yield (
                f"{n_repeated:,} of the {len(fresh.hashes):,} rows equal an earlier row. This "
                "is no problem if features take few values; copies of rows would make the "
                "bounds too small."
            )
    yield (
        f"The error probability is divided equally among the {len(kinds)} kinds "
        f"({', '.join(kinds)}), and within a kind among the subgroups with rows (union bound)."
    )
    if judged(fresh.final).draws:
        yield (
            "These are errors of predict. tailboost.certify_losses bounds the expected losses "
            "of the randomised rule."
        )
