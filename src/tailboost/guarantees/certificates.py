"""Certificates: confidence bounds on a classifier's rates on new rows, which hold together."""

from dataclasses import asdict, field
from typing import Self

from tailboost.core import (
    Cells,
    Document,
    LimitLine,
    Name,
    filled_columns,
    frozen_value,
    percent,
    points_words,
    rate_words,
    reading,
    text_table,
)
from tailboost.guarantees.certified_bound import CERTIFIED_WORDS, CertifiedBound
from tailboost.rates import groups_in
from tailboost.rows import Attempts, EqualRows, Seen, digest_of

MOST_DRAWN = 60  # bounds without a limit
CHANGED = "the certificate was changed after it was written: restore the file"
ON_CHOSEN = ", on the rows that chose the thresholds"
NAMED_COPIES = 0.01  # share of equal rows that the title names
# The attributes that a file has as they are.
STORED = [
    "confidence",
    "n_rows",
    "n_clusters",
    "compared",
    "deferred",
    "rule",
    "equal_rows",
    "copies",
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
        if self.noise is None:
            words += ON_CHOSEN
        return words


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
        Share of the rows that equal another one, 0 with over two rows to a content. `title` names over 1 %.
    date : str
        Day on which it was made, in UTC.
    used : Seen or None
        The fresh rows, to recognise them later; None after reading from a file.
    identity : str
        Digest of a model of another library, or of the steps of a pipeline before a rule; empty for a rule
        alone, an array, and after reading from a file.
    columns : tuple
        The columns of groups that the rule knows.
    """

    bounds: tuple[CertifiedBound, ...]
    confidence: float
    n_rows: int
    notes: tuple[str, ...] = ()
    compared: bool = True
    attempts: Attempts = field(default=(), repr=False, compare=False)
    price: tuple[Price, ...] = ()
    deferred: float | None = None
    rule: str | None = field(default=None, repr=False, compare=False)
    n_clusters: int | None = field(default=None, repr=False)
    equal_rows: EqualRows = "copies"
    copies: float = 0.0
    date: str = field(default="", repr=False, compare=False)
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
        named: dict[Name, list[Name]] = {}
        for bound in self._limited:
            if bound.n or bound.certified:
                for subgroup in bound.subgroups or (bound.subgroup,):
                    for column, group in groups_in(subgroup, bound.rate.by, self.columns):
                        groups = named.setdefault(column, [])
                        if group not in groups:
                            groups.append(group)
        return named

    # -- words -----------------------------------------------------------------------------------------

    @property
    def title(self) -> str:
        """The verdict on the limits, in a sentence; without limits, the confidence in all bounds."""
        rows = f"{self.n_rows:,} fresh rows"
        if self.n_clusters not in (None, self.n_rows):
            rows = f"{self.n_clusters:,} clusters ({rows})"
        doubt = "." if self.compared else ", if none of them trained the model (not checked)."
        if self.copies > NAMED_COPIES:
            doubt += (
                f" {100 * self.copies:.0f} % of these rows equal another one: "
                "if they are copies, drop them or give their clusters."
            )
        confidence = f"with {percent(self.confidence)} confidence"
        limited = self._limited
        if not limited:
            return f"All these bounds hold together {confidence} from {rows}{doubt}"
        if self.certified:
            return f"Certified {confidence} from {rows}: all limits hold together{doubt}"
        n = sum(bound.certified is True for bound in limited)
        return (
            f"Not certified: {n} of {len(limited)} limits hold {confidence} from {rows}{doubt}"
        )

    def cells(self) -> Cells:
        """Return the table of bounds."""
        are_upper = all(bound.sense == "≤" for bound in self.bounds)
        head = "at most" if are_upper else "bound"
        heads = ["rate", "of", "limit", "rows", "estimate", head, "deferred", "result", ""]
        rows = [
            [
                str(bound.rate),
                bound.name,
                bound.limit,
                f"{bound.n:,}",
                bound.estimate_text,
                bound.bound_text.removeprefix("≤ " * are_upper),
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
            own = rate_words(price.error, self.n_rows, in_percent=in_percent)
            without = rate_words(price.without, self.n_rows, in_percent=in_percent)
            of_error = ""
            of_price = ", 95 %, estimated on these rows"
            if price.noise is None:
                of_error = ON_CHOSEN
                of_price = ""
            if self.deferred:
                of_error += f", {100 * self.deferred:.0f} % deferred and counted as right"
            lines.append(
                f"Overall error {own}{of_error}; without limits {without}. Price of all "
                f"limits: {price}{of_price}."
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
        return {**vars(self), "digest": self.to_dict()["digest"]}

    def __setstate__(self, state: Document) -> None:
        vars(self).update(state)
        if vars(self).pop("digest") != self.to_dict()["digest"]:
            raise ValueError(CHANGED)

    def to_dict(self) -> Document:
        """Return everything but identity, columns, rows and attempts, as JSON."""
        document = {name: vars(self)[name] for name in STORED} | {
            "certified": self.certified,
            "bounds": [bound.to_dict() for bound in self.bounds],
            "notes": list(self.notes),
            "price": [asdict(price) for price in self.price],
        }
        return document | {"digest": digest_of(document)}

    @classmethod
    def from_dict(cls, document: Document) -> Self:
        """Return a certificate written by `to_dict`; a `Monitor` of its rule knows the columns again.

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
                **{name: document[name] for name in STORED},
            )
