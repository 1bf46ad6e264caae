"""Certificates: confidence bounds on a classifier's rates on new rows, from fresh rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from typing import Any, Self

from tailboost.core.array_types import Column, Groups, Model, Stated, Table
from tailboost.core.checks import check_number, reading
from tailboost.core.exceptions import warn_user
from tailboost.core.tables import LimitLine, filled_columns, text_table
from tailboost.guarantees.bounds import (
    CERTIFIED_WORDS,
    CertifiedBound,
    joint_bounds,
    percent,
)
from tailboost.guarantees.fresh import Fresh
from tailboost.rates import checked_limits, checked_rates, error, largest
from tailboost.rates.strata import groups_in
from tailboost.rates.words import points_words, rate_words
from tailboost.rows.judged import judged
from tailboost.rows.rows import Given
from tailboost.rows.seen import Attempt, EqualRows, Seen, checked_equal_rows
from tailboost.rows.subgroups import whole_percents
from tailboost.selection.rule import Rule, ThresholdRule

Cells = tuple[list[str], list[list[str]]]
"""The headings and the rows of a table."""

MOST_DRAWN = 60  # bounds without a limit
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
NOT_CHECKED = ", if none of them trained the model (not checked)"


@dataclass(frozen=True)
class Price:
    """The overall error with all limits and without some, estimated on the certifying rows.

    Attributes
    ----------
    limit : str
        The limit that is left out; empty if all are, for the most probable labels.
    error, without : float
        The error of the certified rule, and that of the rule without the limit.
    noise : float
        Standard error of the difference.
    """

    limit: str
    error: float
    without: float
    noise: float

    def __str__(self) -> str:
        return points_words(self.error - self.without, self.noise)


@dataclass(frozen=True)
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
    date: str = field(default="", repr=False, compare=False)
    model: Model = field(default=None, repr=False, compare=False)
    used: Seen | None = field(default=None, repr=False, compare=False)

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
    def groups_named(self) -> dict[Any, list[Any]]:
        """The groups that limits by group cover, by column; None is the name of a column without one."""
        titles = judged(self.model)._group_titles
        named: dict[Any, dict[Any, None]] = {}
        for bound in self._limited:
            if bound.rate.needs_groups and (bound.n or bound.certified):
                for subgroup in bound.subgroups or (bound.subgroup,):
                    for column, group in groups_in(subgroup, bound.rate.by, titles):
                        named.setdefault(column, {})[group] = None
        return {column: list(groups) for column, groups in named.items()}

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

    # -- words -----------------------------------------------------------------------------------------

    @property
    def title(self) -> str:
        """The verdict on the limits, in a sentence; without limits, the confidence in all bounds."""
        rows = f"{self.n_rows:,} fresh rows"
        if self.n_clusters not in (None, self.n_rows):
            rows = f"{self.n_clusters:,} clusters ({rows})"
        doubt = "" if self.compared else NOT_CHECKED
        confidence = f"with {percent(self.confidence)} confidence"
        limited = self._limited
        if not limited:
            return f"All these bounds hold together {confidence} from {rows}{doubt}."
        if self.certified:
            return f"Certified {confidence} from {rows}: all limits hold together{doubt}."
        n = sum(bound.certified is True for bound in limited)
        return f"Not certified: {n} of {len(limited)} limits {confidence} from {rows}{doubt}."

    def cells(self) -> Cells:
        """Return the table of bounds."""
        is_above = all(bound.sense == "≤" for bound in self.bounds)
        head = "at most" if is_above else "bound"
        heads = ["rate", "of", "limit", "rows", "estimate", head, "deferred", "result", ""]
        rows = []
        for bound in self.bounds:
            numbers = [bound.estimate_text, bound.bound_text.removeprefix("≤ " * is_above)]
            verdict = CERTIFIED_WORDS[bound.certified] if self.certified is False else ""
            row = [str(bound.rate), bound.name, bound.limit, f"{bound.n:,}", *numbers]
            rows.append([*row, bound.deferred_text, verdict, bound.reason])
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
            counted = ""
            if self.deferred:
                counted = f", {whole_percents(self.deferred)} deferred and counted as right"
            lines.append(
                f"Overall error {own}{counted}; without limits {without}. Price of all limits: {price}, "
                "95 %, estimated on these rows."
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

    def to_dict(self) -> dict[str, Any]:
        """Return everything but the model and rows as plain types, for JSON."""
        return {name: getattr(self, name) for name in STORED} | {
            "certified": self.certified,
            "bounds": [bound.to_dict() for bound in self.bounds],
            "notes": list(self.notes),
            "price": [asdict(price) for price in self.price],
        }

    @classmethod
    def from_dict(cls, document: Mapping[str, Any]) -> Self:
        """Return a certificate written by `to_dict`, without model and rows.

        Raises
        ------
        ValueError
            If the document is no certificate.
        """
        with reading("certificate"):
            check_number(document["confidence"], "confidence", 0, 1, below=True)
            checked_equal_rows(document["equal_rows"])
            return cls(
                tuple(map(CertifiedBound.from_dict, document["bounds"])),
                notes=tuple(document["notes"]),
                price=tuple(Price(**entry) for entry in document["price"]),
                **{name: document[name] for name in STORED},
            )


def refuse_rule_alone(model: Model) -> None:
    """Raise ValueError for a rule without its models or columns."""
    if isinstance(model, (Rule, ThresholdRule)):
        raise ValueError(
            "model is a rule without its models or columns, as to_json writes it: give the classifier whose "
            "rule_ it is, or load_rule of a file of tailboost.save_rule"
        )


def certify(
    model: Model,
    X: Table,
    y: Column,
    *,
    limits: Stated = None,
    rates: Stated = None,
    groups: Groups = None,
    clusters: Column = None,
    confidence: float = 0.95,
    costs: Any = None,
    cost_range: tuple[float, float] | None = None,
    deferred: Column = None,
    equal_rows: EqualRows | None = None,
    training_rows: Any = None,
) -> Certificate:
    """Return confidence bounds on a classifier's rates on new rows, from fresh rows.

    All bounds hold together with the stated confidence, for any classifier, population and number of rows.
    Shares of rows have Clopper–Pearson bounds, other means betting bounds. The error probability
    ``1 − confidence`` is divided evenly among the bounds (union bound).

    Parameters
    ----------
    model : fitted classifier, pipeline, rule or array
        Any object with ``predict``, or a rule of `tailboost.load_rule`, for a table with its scores. With
        ``X=None`` the answers to the rows: labels of shape (n,), or probabilities of shape (n, K), with
        columns in the order of the sorted labels or named by the labels. ``predict`` is then their argmax.
    X, y : array-like of shape (n, d), (n,)
        Fresh rows and their labels: independent draws from the population of interest. With ``y=None`` the
        rows have no labels, and the rates must need none.
    limits : list of Limit or str, optional
        Limits on rates, each bounded on its side. By default the limits of the model's fit.
    rates : list of Rate or str, optional
        Further rates, bounded on both sides in each subgroup. Without rates and limits errors are bounded
        from above: of all rows, and by class, group and cell.
    groups : array-like of shape (n,), or table of shape (n, c), optional
        Group of each row, or several columns of groups.
    clusters : array-like of shape (n,), optional
        Cluster of each row: person, household or place. A cluster has one vote in a class or group, or in the
        denominator of a rate: one of its rows there counts, drawn at random by the hash of its
        content. If the model may defer, it is the same row everywhere. Clusters are independent draws; rows
        of a cluster may depend on each other in any way.
    confidence : float in (0, 1), default=0.95
        Joint probability of all bounds.
    costs : array-like of shape (n, K), optional
        Cost of each answer to each row, for ``rates.cost()`` without a matrix.
    cost_range : (float, float), optional
        Smallest and largest possible cost of any answer to any row, which the given rows do not show.
    deferred : array-like of bool, shape (n,), optional
        With an array of answers: True for a deferred row. Required for rates of deferral.
    equal_rows : {"copies", "natural"}, optional
        Reason for rows equal to training rows. "copies": more than one in twenty is refused, because errors
        on training rows are too small. "natural": features take few values, and nobody copied a row.
    training_rows : array-like of shape (k, d), optional
        The rows on which a model of another library was trained, without labels. Rows of ``X`` that are among
        them are refused as training rows of a classifier of tailboost are.

    Returns
    -------
    Certificate

    Raises
    ------
    LeakageError
        If rows equal rows of the fit, unless rows are equal by nature.
    ValueError
        If an argument is not as described.

    Examples
    --------
    >>> import numpy as np
    >>> import tailboost as tb
    >>> y = np.repeat([0, 1], [100, 200])
    >>> answers = np.where(np.arange(300) % 12 == 0, 1 - y, y)  # or a fitted model, with X
    >>> cert = tb.certify(answers, None, y, limits=["error(by=class) <= 15%"])
    >>> for b in cert.bounds:
    ...     print(f"{b.name}: estimate {b.estimate:.3f}, at most {b.upper:.3f}")
    0: estimate 0.090, at most 0.164
    1: estimate 0.080, at most 0.127
    >>> cert.certified
    False
    """
    refuse_rule_alone(model)
    check_number(confidence, "confidence", 0, 1, below=True)
    if rates is None and limits is None:
        limits = judged(model)._stated_limits
    expressions = list(checked_rates(rates or ()))
    if limits is not None:  # a limit alone has no truth value
        expressions += checked_rates(checked_limits(limits))
    given = Given(
        X,
        y,
        groups,
        costs=costs,
        clusters=clusters,
        equal_rows=equal_rows,
        training_rows=training_rows,
        cost_range=cost_range,
        deferred=deferred,
    )
    fresh = Fresh.of(model, given, [expression.rate for expression in expressions])
    parts = [expressions]
    if not expressions:  # the kinds of errors divide the level evenly
        kinds = (None, "class", "group", "cell")[: 4 if fresh.answered.strata.columns else 2]
        parts = [[largest(error(by=kind))] for kind in kinds]
    level = (1.0 - confidence) / len(parts)
    bounds = [bound for part in parts for bound in joint_bounds(part, fresh, level)]
    certificate = certificate_of(fresh, bounds, confidence)
    return replace(certificate, model=model if hasattr(model, "predict") else None)


def certificate_of(
    fresh: Fresh, bounds: Sequence[CertifiedBound], confidence: float
) -> Certificate:
    """Return the certificate of bounds from fresh rows; warn if a model may have been trained on them."""
    if not fresh.compared and fresh.hashes is not None and not fresh.only_scores:
        warn_user(
            "X: whether these rows trained the model is not checked. Rows that did look easier than new ones "
            "and certify nothing; pass training_rows="
        )
    return Certificate(
        bounds=tuple(bounds),
        confidence=confidence,
        n_rows=len(fresh),
        notes=tuple(fresh.notes),
        compared=fresh.compared,
        deferred=fresh.n_deferred / len(fresh) if fresh.answered.strata.defers else None,
        rule=judged(fresh.model)._rule_digest,
        n_clusters=fresh.n_clusters,
        equal_rows=fresh.equal_rows,
        date=datetime.now(UTC).date().isoformat(),
        used=None if fresh.hashes is None else fresh.used,
    )
