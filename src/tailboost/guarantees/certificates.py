"""Certificates: confidence bounds on a classifier's rates on new rows, and their words."""

from __future__ import annotations

import math
from dataclasses import asdict, field, fields, replace
from typing import Any, Self

import numpy as np

from tailboost.core import (
    CERTIFIED,
    NOT_CERTIFIED,
    Cells,
    Column,
    Document,
    Groups,
    LimitLine,
    Model,
    Name,
    Table,
    filled_columns,
    frozen_value,
    how_many,
    percent,
    points_words,
    rate_words,
    reading,
    stated_words,
    text_table,
)
from tailboost.guarantees.monitor import Monitor
from tailboost.rates import Rate, error, groups_in, parse
from tailboost.rows import Attempt, EqualRows, Seen, digest_of, unit_name

ERROR = error()
CONSTANT = "one answer"  # method of a limit without a test
CERTIFIED_WORDS = {True: CERTIFIED, False: NOT_CERTIFIED, None: ""}
# Room by margin of a test at 5 % with which it passes with a probability of .8: 1 + Φ⁻¹(.8) / Φ⁻¹(.95).
OF_POWER = 1.512
MOST_DRAWN = 60  # bounds without a limit
CHANGED = "the certificate was changed after it was written: restore the file"
ON_CHOSEN = "on the rows that chose the thresholds"
NAMED_COPIES = 0.01


@frozen_value
class CertifiedBound:
    """Confidence bound on a rate on new rows.

    Attributes
    ----------
    rate : Rate
        The bounded rate.
    subgroup : object
        The label, the group, or the pair of both; None for all rows. Of compared subgroups "gap" or "ratio".
    sense : {"≤", "≥", ""}
        Bounded side; "" for both sides.
    target : float or None
        The limit, if there is one.
    estimate : float or None
        The rate on the given rows; None without rows to count among.
    lower, upper : float
        The bounds; the smallest and the largest possible value on a side without one.
    n : int
        Number of rows, or of clusters; for a gap or ratio rows of the smallest subgroup.
    method : str
        Name of the method.
    subgroups : tuple
        The subgroups in a gap or ratio.
    in_percent : bool
        Whether the limit was stated in percent, and the numbers are printed so.
    deferred : float or None
        The share of deferred rows in the subgroup, if the rule defers rows and the rate is not about them.
    """

    rate: Rate = ERROR
    subgroup: Name = None
    sense: str = "≤"
    target: float | None = None
    estimate: float | None = None
    lower: float = 0.0
    upper: float = 1.0
    n: int = 0
    method: str = ""
    subgroups: tuple[Name, ...] = ()
    in_percent: bool = False
    deferred: float | None = None

    @property
    def certified(self) -> bool | None:
        """Whether the target is certified; None without a target."""
        if self.target is None:
            return None
        if self.sense == "≥":
            return self.lower >= self.target
        return self.upper <= self.target

    @property
    def name(self) -> str:
        """Name of the subgroup, as printed."""
        return "all rows" if self.subgroup is None else unit_name(self.subgroup)

    @property
    def title(self) -> str:
        """Name of the rate with its subgroup."""
        return f"{self.rate}: {self.name}"

    @property
    def sides(self) -> tuple[float | None, float | None]:
        """The lower and the upper bound, None for a side without a bound."""
        return (
            None if self.sense == "≤" else self.lower,
            None if self.sense == "≥" else self.upper,
        )

    @property
    def limit(self) -> str:
        """The limit as stated; empty without one."""
        if self.target is None:
            return ""
        return f"{self.sense} {stated_words(self.target, in_percent=self.in_percent)}"

    @property
    def room(self) -> float | None:
        """The distance of the estimate from the limit, negative beyond it; None without one of them.

        It is rounded, so that a difference by rounding counts as 0.
        """
        if self.estimate is None or self.target is None:
            return None
        room = round(self.target - self.estimate, 12)
        return -room if self.sense == "≥" else room

    @property
    def rows_needed(self) -> int | None:
        """Rows that certify the limit with a probability of about .8, if the estimate is the true value.

        None if the limit is certified, or no number of rows would do. Distances of bounds from estimates are
        taken as proportional to 1/√n; of rates from 0 to 1 those of arcsin √rate, whose noise hardly depends
        on the rate: for limits on misses the result is 1 to 2.3 times the exact number.
        """
        if self.certified is not False or not self.room or self.room < 0 or not self.n:
            return None
        assert self.estimate is not None
        bound = self.lower if self.sense == "≥" else self.upper
        ends = np.array([self.estimate, bound, self.target])
        if ends.min() >= 0.0 and ends.max() <= 1.0:
            ends = np.arcsin(np.sqrt(ends))
        _, margin, room = ends - ends[0]
        return math.ceil(self.n * (OF_POWER * margin / room) ** 2)

    @property
    def reason(self) -> str:
        """Why a limit is not certified, or kept by construction; empty if its rows certify it."""
        if self.certified and self.method == CONSTANT:
            return "no answer of the rule there can break it"
        if self.certified is not False:
            return ""
        if not self.n:
            return "no rows"
        if self.rows_needed is not None:
            return f"about {self.rows_needed:,} rows needed"
        if not self.room:
            return "the estimate is at the limit"
        return f"the estimate is {'below' if self.sense == '≥' else 'above'} it"

    @property
    def estimate_text(self) -> str:
        """The estimate, with the digits supported by its rows."""
        return self.in_words(self.estimate, self.n)

    @property
    def deferred_text(self) -> str:
        """The share of deferred rows; empty without one."""
        return "" if self.deferred is None else f"{100 * self.deferred:.0f} %"

    @property
    def bound_text(self) -> str:
        """The certified sides, as printed."""
        lower = self.in_words(self.lower, self.n, above=False)
        upper = self.in_words(self.upper, self.n, above=True)
        if self.sense == "≥":
            return f"≥ {lower}"
        if self.sense == "≤" or self.lower == 0.0:  # 0 bounds every rate from below
            return f"≤ {upper}"
        return f"{lower.removesuffix(' %')} to {upper}"

    def in_words(self, value: float | None, n: int, *, above: bool | None = None) -> str:
        """Return a value of the rate on n rows as printed; an upper or lower bound is rounded outwards."""
        return rate_words(value, n, above=above, beside=self.target, in_percent=self.in_percent)

    @property
    def limit_line(self) -> LimitLine:
        """The bound for drawings: the interval ends at the certified bounds."""
        words = f"{self.estimate_text}, bound {self.bound_text}"
        if self.target in (self.lower, self.upper) and not self.subgroups:
            words = f"{self.estimate_text} of {how_many(self.n, 'row')}"
        low, high = self.sides
        return LimitLine(
            verdict=": ".join(filter(None, (CERTIFIED_WORDS[self.certified], self.reason))),
            good=self.certified,
            name=self.title,
            limit=self.limit,
            numbers=words,
            value=self.estimate,
            low=low,
            high=high,
            bound=self.target,
            deferred=self.deferred_text,
        )

    def at_target(self, method: str) -> CertifiedBound:
        """Return the bound at its target: a passed test certifies the target, and nothing tighter."""
        assert self.target is not None
        if self.sense == "≥":
            return replace(self, lower=self.target, method=method)
        return replace(self, upper=self.target, method=method)

    def to_dict(self) -> Document:
        """Return everything as plain types, for JSON; `from_dict` is the inverse."""
        return {**vars(self), "rate": repr(self.rate), "certified": self.certified}

    @classmethod
    def from_dict(cls, document: Document) -> Self:
        """Return a bound written by `to_dict`; raise KeyError, TypeError or ValueError for no bound."""
        values = {part.name: _tuples(document[part.name]) for part in fields(cls)}
        return cls(**values | {"rate": parse(values["rate"])})


def _tuples(value: Any) -> Any:
    """Return a value read from JSON, with tuples instead of lists, as in names of subgroups."""
    return tuple(map(_tuples, value)) if isinstance(value, (list, tuple)) else value


#: The attributes that a file has as they are.
STORED = [
    "confidence",
    "n_rows",
    "n_clusters",
    "compared",
    "deferred",
    "rule",
    "equal_rows",
    "date",
]


@frozen_value
class Price:
    """The overall error with all limits and without some, estimated on the certifying rows.

    Attributes
    ----------
    limit : str
        The limit that is left out; empty if all are, for the most probable labels.
    error, without : float
        The error of the certified rule, and that of the rule without the limit.
    noise : float or None
        Standard error of the difference; None if these rows chose the thresholds of one of the rules. Then
        its error here is too small.
    """

    limit: str
    error: float
    without: float
    noise: float | None

    def __str__(self) -> str:
        words = points_words(self.error - self.without, self.noise)
        return words if self.noise is not None else f"{words}, {ON_CHOSEN}"


@frozen_value
class Certificate:
    """Bounds on new rows, valid together with the stated confidence.

    Attributes
    ----------
    bounds : tuple of CertifiedBound
        The bounds, or the certified limits of a calibrated rule, in the order of the rates.
    confidence : float
        Probability of all bounds holding together, over the draw of the fresh rows.
    n_rows : int
        Number of fresh rows.
    notes : tuple of str
        Assumptions and methods, which `assumptions` prints.
    compared : bool
        Whether the rows were compared with those that trained the model.
    attempts : tuple of Attempt
        From `tailboost.calibrate`: this and all earlier attempts, with their rows.
    price : tuple of Price
        From `tailboost.calibrate`: of all limits together, and of each of two to four limits.
    deferred : float or None
        The share of deferred rows, if the rule may defer.
    rule : str or None
        Digest of the bounded decision function; None for answers alone, and for models of other libraries. A
        classifier with another rule has no ``certificate_``.
    n_clusters : int or None
        Number of clusters of the fresh rows, each with one vote; None if each row has a vote.
    equal_rows : {"copies", "natural"}
        Reason for equal rows, as in `tailboost.certify`.
    copies : float
        Share of the rows that equal another one, if most contents are distinct. `title` names more than 1 %.
    date : str
        Day on which it was made, in UTC.
    model : object
        What answered, for `recheck`; None for an array of answers, and after reading from a file.
    used : Seen or None
        The fresh rows, to recognise them later; None after reading from a file.
    identity : str
        Digest of a model of another library, in this process alone: its bytes differ in others.
    columns : tuple
        The columns of groups that the rule knows.
    """

    bounds: tuple[CertifiedBound, ...]
    confidence: float
    n_rows: int
    notes: tuple[str, ...] = ()
    compared: bool = True
    attempts: tuple[Attempt, ...] = field(default=(), repr=False, compare=False)
    price: tuple[Price, ...] = ()
    deferred: float | None = None
    rule: str | None = field(default=None, repr=False, compare=False)
    n_clusters: int | None = field(default=None, repr=False)
    equal_rows: EqualRows = "copies"
    copies: float = 0.0
    date: str = field(default="", repr=False, compare=False)
    model: Model = field(default=None, repr=False, compare=False)
    used: Seen | None = field(default=None, repr=False, compare=False)
    identity: str = field(default="", repr=False, compare=False)
    columns: tuple[Name, ...] = field(default=(), repr=False, compare=False)

    @property
    def certified(self) -> bool | None:
        """Whether all limits are certified; None without limits."""
        verdicts = [bound.certified for bound in self._limited]
        return all(verdicts) if verdicts else None

    @property
    def _limited(self) -> list[CertifiedBound]:
        """The bounds with a limit."""
        return [bound for bound in self.bounds if bound.target is not None]

    @property
    def groups_named(self) -> dict[Name, list[Name]]:
        """The groups that limits by group cover, by column; None is the name of a column without one."""
        pairs = [
            pair
            for bound in self._limited
            if bound.n or bound.certified
            for subgroup in bound.subgroups or (bound.subgroup,)
            for pair in groups_in(subgroup, bound.rate.by, self.columns)
        ]
        named: dict[Name, list[Name]] = {}
        for column, group in dict.fromkeys(pairs):
            named.setdefault(column, []).append(group)
        return named

    def recheck(
        self, X: Table, y: Column, *, groups: Groups = None, clusters: Column = None
    ) -> Monitor:
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
        if self.model is None:
            raise ValueError(
                "this certificate keeps no rule; use Monitor(rule, certificate).add(X, y)"
            )
        return Monitor(self.model, self).add(X, y, groups=groups, clusters=clusters)

    # -- words -----------------------------------------------------------------------------------------

    @property
    def title(self) -> str:
        """The verdict on the limits, in a sentence; without limits, the confidence in all bounds."""
        rows = f"{self.n_rows:,} fresh rows"
        if self.n_clusters not in (None, self.n_rows):
            rows = f"{self.n_clusters:,} clusters ({rows})"
        doubt = "." if self.compared else ", if none of them trained the model (not checked)."
        if self.copies > NAMED_COPIES:
            share = f"{100 * self.copies:.0f} %"
            cure = "if they are copies, drop them or pass clusters=."
            doubt += f" {share} of these rows equal another one: {cure}"
        confidence = f"with {percent(self.confidence)} confidence"
        limited = self._limited
        if not limited:
            return f"All these bounds hold together {confidence} from {rows}{doubt}"
        if self.certified:
            return f"Certified {confidence} from {rows}: all limits hold together{doubt}"
        n = sum(bound.certified is True for bound in limited)
        return f"Not certified: {n} of {len(limited)} limits {confidence} from {rows}{doubt}"

    def cells(self) -> Cells:
        """Return the table of bounds."""
        is_above = all(bound.sense == "≤" for bound in self.bounds)
        head, sign = ("at most", "≤ ") if is_above else ("bound", "")
        heads = ["rate", "of", "limit", "rows", "estimate", head, "deferred", "result", ""]
        rows = [
            [
                str(bound.rate),
                bound.name,
                bound.limit,
                f"{bound.n:,}",
                bound.estimate_text,
                bound.bound_text.removeprefix(sign),
                bound.deferred_text,
                CERTIFIED_WORDS[bound.certified] if self.certified is False else "",
                bound.reason,
            ]
            for bound in self.bounds
        ]
        return filled_columns(heads, rows)

    def lines(self) -> list[str]:
        """Return the lines below the table: the overall error, and prices of limits."""
        in_percent = any(bound.in_percent for bound in self.bounds)
        lines = []
        for price in self.price:
            if price.limit:
                lines.append(f"Price of {price.limit}: {price}.")
                continue
            own, without = [
                rate_words(each, self.n_rows, in_percent=in_percent)
                for each in (price.error, price.without)
            ]
            counted = ""
            estimated = ", 95 %, estimated on these rows"
            if price.noise is None:
                counted = f", {ON_CHOSEN}"
                estimated = ""
            if self.deferred:
                counted += f", {100 * self.deferred:.0f} % deferred and counted as right"
            lines.append(
                f"Overall error {own}{counted}; without limits {without}. Price of all "
                f"limits: {price}{estimated}."
            )
        return lines

    def __str__(self) -> str:
        table = text_table(*self.cells(), left=(0, 1))
        return "\n".join([self.title, "", table, "", *self.lines()]).rstrip()

    @property
    def assumptions(self) -> str:
        """The basis of the certificate: assumptions, methods, attempts and date."""
        methods = sorted({bound.method for bound in self.bounds if bound.method})
        notes = [*self.notes, f"Method: {'; '.join(methods)}.", f"Date: {self.date} (UTC)."]
        return "\n".join(f"* {note}" for note in notes)

    def limit_lines(self) -> list[LimitLine]:
        """Return the bounds for drawings and short tables: the ones with a limit, or without limits all."""
        return [bound.limit_line for bound in self._limited or self.bounds[:MOST_DRAWN]]

    # -- JSON ------------------------------------------------------------------------------------------

    def __getstate__(self) -> Document:
        return {**vars(self), "identity": "", "digest": self.to_dict()["digest"]}

    def __setstate__(self, state: Document) -> None:
        parts = dict(state)
        stated = parts.pop("digest", None)  # older files have none
        vars(self).update(parts)
        if stated not in (None, self.to_dict()["digest"]):
            raise ValueError(CHANGED)

    def to_dict(self, **also: Any) -> Document:
        """Return everything but the model and rows as plain types, for JSON.

        The digest is about what a file says ``also`` of the certified rule.
        """
        document = {name: vars(self)[name] for name in STORED} | {
            "certified": self.certified,
            "bounds": [bound.to_dict() for bound in self.bounds],
            "notes": list(self.notes),
            "price": [asdict(price) for price in self.price],
            **also,
        }
        if self.copies:  # certificates of earlier versions keep their digests
            document["copies"] = self.copies
        return document | {"digest": digest_of(document)}

    @classmethod
    def from_dict(cls, document: Document) -> Self:
        """Return a certificate written by `to_dict`, without model and rows.

        Raises
        ------
        ValueError
            If the document is no certificate, or was changed.
        """
        with reading("certificate"):
            if document["digest"] != digest_of(document):
                raise ValueError(CHANGED)
            return cls(
                tuple(map(CertifiedBound.from_dict, document["bounds"])),
                notes=tuple(document["notes"]),
                price=tuple(Price(**entry) for entry in document["price"]),
                copies=document.get("copies", 0.0),
                **{name: document[name] for name in STORED},
            )
