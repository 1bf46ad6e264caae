"""Certificates: confidence bounds on a classifier's rates on new rows, from fresh rows."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from datetime import UTC, datetime
from decimal import Decimal
from itertools import chain, product
from typing import Any, Self

import numpy as np

from tailboost.core.array_types import Column, Groups, Model, Stated, Table
from tailboost.core.checks import (
    check_indexes,
    check_number,
    group_columns,
    number_or_none,
    reading,
)
from tailboost.core.exceptions import warn_user
from tailboost.core.spelling import how_many, points_words, rate_words, stated_words
from tailboost.core.tables import (
    CERTIFIED,
    NOT_CERTIFIED,
    LimitLine,
    filled_columns,
    text_table,
)
from tailboost.guarantees.exact_tests import all_pairs_pass
from tailboost.guarantees.fresh import Fresh
from tailboost.guarantees.tail import UPPER, worst_mean
from tailboost.rates import (
    Limit,
    Rate,
    Sample,
    Statistic,
    as_statistics,
    checked_limits,
    deferred as deferred_rate,
    error,
    largest,
    parse,
)
from tailboost.rates.bounds import betting_p_value, betting_upper, clopper_pearson_upper
from tailboost.rates.rate import EACH
from tailboost.rates.strata import GROUP, groups_in
from tailboost.rows.fingerprints import digest
from tailboost.rows.rows import Rows
from tailboost.rows.seen import Attempt, EqualRows, Seen, checked_equal_rows
from tailboost.rows.subgroups import HUMAN_REVIEW, unit_name
from tailboost.selection.door import answering
from tailboost.selection.rule import Rule, ThresholdRule

ERROR = error()
EXACT = "Clopper–Pearson"
BETTING = "betting"
PAIRS = "exact test of pairs"
CONSTANT = "one answer"  # method of a limit without a test
CERTIFIED_WORDS = {True: CERTIFIED, False: NOT_CERTIFIED, None: ""}
# Number of levels at which a ratio of sums is tested: the bound is a multiple of 1/RATIO_LEVELS.
RATIO_LEVELS = 1000
VISIBLE = (
    1e-4  # least distance of the printed bound from the limit after a failed test of pairs
)
# Room by margin of a test at 5 % with which it passes with a probability of .8: 1 + Φ⁻¹(.8) / Φ⁻¹(.95).
OF_POWER = 1.512


def percent(confidence: float) -> str:
    """Return a confidence in percent, as it was given: after rounding it may promise more."""
    return f"{(100 * Decimal(repr(float(confidence)))).normalize():f} %"


@dataclass(frozen=True)
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
    subgroup: Any = None
    sense: str = "≤"
    target: float | None = None
    estimate: float | None = None
    lower: float = 0.0
    upper: float = 1.0
    n: int = 0
    method: str = ""
    subgroups: tuple[Any, ...] = ()
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
        """The distance of the estimate from the limit, negative beyond it; None if one is not there."""
        if self.estimate is None or self.target is None:
            return None
        room = self.target - self.estimate
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
        lower, upper = self.sides
        ends = np.array([self.estimate, lower if upper is None else upper, self.target])
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
        needed = self.rows_needed
        if needed is None and not self.room:
            return "the estimate is at the limit"
        if needed is None:
            return f"the estimate is {'below' if self.sense == '≥' else 'above'} it"
        return f"about {needed:,} rows needed"

    @property
    def estimate_text(self) -> str:
        """The estimate, with the digits supported by its rows."""
        return rate_words(self.estimate, self.n, beside=self.target, in_percent=self.in_percent)

    @property
    def deferred_text(self) -> str:
        """The share of deferred rows; empty without one."""
        return "" if self.deferred is None else f"{100 * self.deferred:.0f} %"

    @property
    def bound_text(self) -> str:
        """The certified sides, as printed."""
        ends = [
            rate_words(end, self.n, above=above, beside=self.target, in_percent=self.in_percent)
            for end, above in ((self.lower, False), (self.upper, True))
        ]
        if self.sense == "≥":
            return f"≥ {ends[0]}"
        if self.sense == "≤" or self.lower == 0.0:  # 0 bounds every rate from below
            return f"≤ {ends[1]}"
        return f"{ends[0].removesuffix(' %')} to {ends[1]}"

    @property
    def limit_line(self) -> LimitLine:
        """The bound for drawings: the interval ends at the certified bounds."""
        words = f"{self.estimate_text}, bound {self.bound_text}"
        if self.target in (self.lower, self.upper) and not self.subgroups:
            words = f"{self.estimate_text} of {how_many(self.n, 'row')}"
        return LimitLine(
            ": ".join(filter(None, (CERTIFIED_WORDS[self.certified], self.reason))),
            self.certified,
            self.title,
            self.limit,
            words,
            self.estimate,
            *self.sides,
            self.target,
            self.deferred_text,
        )

    def at_target(self, method: str) -> CertifiedBound:
        """Return the bound at its target: a passed test certifies the target, and nothing tighter."""
        assert self.target is not None
        if self.sense == "≥":
            return replace(self, lower=self.target, method=method)
        return replace(self, upper=self.target, method=method)

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain types, for JSON; `from_dict` is the inverse."""
        return {**vars(self), "rate": repr(self.rate), "certified": self.certified}

    @classmethod
    def from_dict(cls, document: Mapping[str, Any]) -> Self:
        """Return a bound written by `to_dict`; raise KeyError, TypeError or ValueError for no bound."""
        values = {part.name: document[part.name] for part in fields(cls)}
        values |= {name: _tuples(values[name]) for name in ("subgroup", "subgroups")}
        return cls(**values | {"rate": parse(values["rate"])})


def _tuples(name: Any) -> Any:
    """Return a name read from JSON, with tuples instead of lists."""
    return tuple(map(_tuples, name)) if isinstance(name, (list, tuple)) else name


# -- bounds on means ---------------------------------------------------------------------------------------


def _upper(rate: Rate, sample: Sample, level: float, *, counts: bool) -> float:
    """Return an upper bound on the mean of a subgroup, or of an F score on its ratio of sums; or on a tail.

    A tail or shift of losses of two values is a rising function of their mean. Shares of rows have
    Clopper–Pearson bounds, other means betting bounds. If a ratio E top / E bottom, with 0 ≤ top ≤ bottom ≤
    1, is at least t, then ``top − t bottom + t``, which lies in [0, 1], has a mean of at least t. The bound
    is the smallest t of a grid with a rejection at t and at all larger t. It fails only if the test rejects
    at the largest t of the grid up to the true ratio.
    """
    width = sample.high - sample.low
    # The bounds are for numbers in [0, 1]; rounding may exceed them.
    scaled = np.clip((sample.values - sample.low) / width, 0.0, 1.0)
    if counts:
        share = clopper_pearson_upper(round(float(scaled.sum())), len(scaled), level)
        if rate.loss:
            share = worst_mean(rate, [0.0, 1.0], [1.0 - share, share])
    elif rate.loss:
        share = UPPER[rate.kind](scaled, rate.level, level)
    elif (sample.among == 1.0).all():
        share = betting_upper(scaled, level)
    else:
        share = 1.0
        for t in (np.arange(RATIO_LEVELS - 1, 0, -1) / RATIO_LEVELS).tolist():
            numbers = np.clip(scaled - t * sample.among + t, 0.0, 1.0)
            if betting_p_value(numbers, t, level) > level:
                break
            share = t
    return sample.low + width * share


def bounds_of(stated: Statistic, fresh: Fresh, level: float | None) -> list[CertifiedBound]:
    """Return the bounds of a rate or limit on each subgroup, each side at the level, then on a gap or ratio.

    Without a level nothing but possible values bounds a rate, and what an answer keeps by construction.
    """
    rate, strata = stated.rate, fresh.answered.strata
    limit = stated if isinstance(stated, Limit) else None
    mean = rate.loss or rate
    samples = fresh.samples(rate)
    names = [sample.name for sample in samples]
    targets = [float("nan")] * len(names)
    if limit is not None and not limit.compares:
        targets = limit.bounds(names).tolist()
    counts = mean.is_share  # or costs of two values, and no expected losses
    if mean.matrix is not None:
        costs, _ = mean.tables(strata)
        counts = bool(np.isin(costs, [samples[0].low, samples[0].high]).all())
    counts &= fresh.shares(rate) is None
    shares: dict[Any, float] = {}
    if fresh.is_deferred.any() and not rate.counts_deferral:
        of_deferral = fresh.samples(deferred_rate(by=rate.by))
        shares = {sample.name: sample.mean for sample in of_deferral}
    bounds = []
    for sample, target in zip(samples, targets, strict=True):
        n = len(sample.rows)
        lower, upper, estimate = sample.low, sample.high, sample.mean
        if rate.loss and n:
            estimate = worst_mean(rate, sample.values)
        if n and level is not None and lower < upper:
            if "≥" in stated.sides:  # an upper bound on the complement
                lower += sample.high - _upper(rate, sample.mirrored, level, counts=counts)
            if "≤" in stated.sides:
                upper = _upper(rate, sample, level, counts=counts)
        method = EXACT if counts else BETTING
        bound = CertifiedBound(
            rate,
            sample.name,
            stated.sense if len(stated.sides) == 1 else "",
            number_or_none(target),
            number_or_none(estimate),
            lower,
            upper,
            n,
            method if n else "no rows",
            in_percent=limit is not None and limit.in_percent,
            deferred=number_or_none(shares.get(sample.name, np.nan)),
        )
        if bound.target is not None and kept_by_construction(bound, fresh):
            bound = bound.at_target(CONSTANT)
        bounds.append(bound)
    if limit is None or not limit.compares:
        return bounds
    limit.refuse_negative(min(sample.low for sample in samples))
    ends = np.array([(bound.lower, bound.upper) for bound in bounds])
    lower, upper = limit.interval(*ends.T)
    # NaN without rows, and so is the estimate.
    means = np.array([sample.mean for sample in samples])
    compared = CertifiedBound(
        rate,
        limit.form,
        limit.sense,
        limit.bound,
        number_or_none(limit.value(means) + 0.0 * means.sum()),
        lower,
        upper,
        min(bound.n for bound in bounds),
        f"bounds of {len(bounds)} subgroups",
        tuple(names),
        limit.in_percent,
    )
    return [*bounds, compared]


def tested_bounds(limits: Sequence[Limit], fresh: Fresh, level: float) -> list[CertifiedBound]:
    """Return bounds for a test of each limit at the whole level; they do not hold together.

    If all limits must hold, each is tested at the level: all pass although one is broken with a probability
    of at most the level. The same holds for the pairs of subgroups of a gap or ratio. A pair of counts of
    independent rows has an exact test; otherwise bounds on both sides share the level.
    """
    bounds = []
    for limit in limits:
        bounds += bounds_of(limit, fresh, level / len(limit.sides))
        samples = fresh.samples(limit.rate)
        if not (limit.compares and limit.rate.is_share and fresh.votes.are_apart(samples)):
            continue
        counts = [(round(sample.values.sum()), len(sample.rows)) for sample in samples]
        bound = bounds[-1].at_target(PAIRS)
        if not all_pairs_pass(counts, limit.pair, level):  # beyond the limit, as printed
            lower = min(bounds[-1].lower, limit.bound - VISIBLE)
            upper = max(bounds[-1].upper, limit.bound + VISIBLE)
            bound = replace(bound, lower=lower, upper=upper)
        bounds[-1] = bound
    return bounds


def joint_bounds(
    expressions: Sequence[Statistic], fresh: Fresh, level: float
) -> list[CertifiedBound]:
    """Return bounds on rates on new rows that hold together with a probability of at least 1 − level.

    The rate of a subgroup is a mean of bounded numbers over its rows, or, for a precision, a ratio of sums. A
    rate is bounded on both sides, a limit on its side. A gap or ratio follows from bounds on both sides of
    each subgroup. The level is divided evenly among the bounds on means of subgroups with rows (union bound).
    """
    bounds_on_means: set[Any] = set()
    for each in expressions:
        samples = enumerate(fresh.samples(each.rate))
        with_rows = [number for number, sample in samples if len(sample.rows)]
        bounds_on_means.update(product([each.rate], with_rows, each.sides))
    level_of_each = level / max(1, len(bounds_on_means))
    return [*chain(*(bounds_of(each, fresh, level_of_each) for each in expressions))]


def kept_by_construction(bound: CertifiedBound, fresh: Fresh) -> bool:
    """Return whether the rule's possible answers in a subgroup cannot break its limit.

    A rule that never answers a label in a group keeps each limit on false alarms there, and each limit on the
    precision of this label, because no row counts.
    """
    rate = bound.rate
    if fresh.rule is None or rate.loss or rate.kind in ("representation", "cost"):
        return False
    column, group = rate.by, bound.subgroup
    # Of any column: pairs of column and group, or groups of a column without a name.
    if column == GROUP:
        column, group = group if isinstance(group, tuple) else (None, group)
    given = fresh.rule.written.actions_in(column, group)
    counted, among = rate.tables(fresh.answered.strata)
    answers = [*fresh.answered.strata.classes, HUMAN_REVIEW][: counted.shape[1]]
    counts = (among > 0) & np.array([answer in given for answer in answers])
    parts = counted[counts] / among[counts]
    keeps = parts >= bound.target if bound.sense == "≥" else parts <= bound.target
    return bool(keeps.all())


# -- certificates ------------------------------------------------------------------------------------------

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
ASSUMED = (
    "Assumption: the rows are independent draws from the population of the bounds (no "
    "repeated measurements of one person, no later shift), and no row was used to train or "
    "select the model."
)
COMPARED = (
    "{:.3g} % of these rows equal rows of the fit, the selection or an earlier calibration that "
    "are known here: no more than chance explains."
)
ONLY_SCORES = (
    "The rule reads scores alone, so rows with equal scores are different rows. Whole tables "
    "that were used before are recognised, parts of them only among scores with many digits."
)
EQUAL_BY_NATURE = (
    "According to the caller, rows are equal by nature and nobody copied a row: only whole "
    "tables that were used before are recognised."
)
UNKNOWN_TRAINING_ROWS = (
    "Not all training rows of the model are known, so these rows are fresh as stated: "
    "training_rows= names the training rows, and compares these rows with them."
)
BY_CLUSTERS = (
    "Each of the {:,} clusters has one vote in a class or group: one of its rows there counts, drawn at "
    "random by the hash of its content (if rows may be deferred, one of its rows counts everywhere). The "
    "bounds are about such rows. Assumption: the clusters are independent draws from the population of the "
    "bounds (no later shift), and none of their rows was used to train or select the model."
)
ON_TRUST = (
    "Not compared are these parts of the model: {}. That they stay as they are, and had none of these rows, "
    "is a statement of the caller."
)
CHANGED = "the certificate was changed after it was written: restore the file"
ABOUT_TAILS = (
    "The bound on the worst part of the rows holds for every group of at least this part, named or not; the "
    "one within a divergence for every population Q with KL(Q ‖ P) up to it, where P is that of these rows. "
    "The loss of a row is that of its answer, or expected if answers are drawn (predict_distribution)."
)
ON_CHOSEN = "on the rows that chose the thresholds"
NAMED_COPIES = 0.01
EQUAL_ANOTHER = (
    "of these rows equal another one: if they are copies, drop them or pass clusters=."
)
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
    equal_rows : {"copies", "natural"}
        Reason for equal rows, as in `tailboost.certify`.
    copies : float
        Share of the rows that equal another one, if most contents are distinct. `title` names more than 1 %.
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
    # Digest of a model of another library, in this process alone: its bytes differ in others.
    identity: str = field(default="", repr=False, compare=False)
    columns: tuple[Any, ...] = field(default=(), repr=False, compare=False)

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
        named: dict[Any, dict[Any, None]] = {}
        for bound in self._limited:
            if bound.rate.needs_groups and (bound.n or bound.certified):
                for subgroup in bound.subgroups or (bound.subgroup,):
                    for column, group in groups_in(subgroup, bound.rate.by, self.columns):
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
        doubt += "."
        if self.copies > NAMED_COPIES:
            doubt += f" {100 * self.copies:.0f} % {EQUAL_ANOTHER}"
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
        head = "at most" if is_above else "bound"
        heads = ["rate", "of", "limit", "rows", "estimate", head, "deferred", "result", ""]
        rows = []
        for bound in self.bounds:
            numbers = [
                bound.estimate_text,
                bound.bound_text.removeprefix("≤ " if is_above else ""),
            ]
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
            counted, estimated = "", ", 95 %, estimated on these rows"
            if price.noise is None:
                counted, estimated = f", {ON_CHOSEN}", ""
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

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "identity": "", "digest": self.to_dict()["digest"]}

    def __setstate__(self, state: dict[str, Any]) -> None:
        stated = {**state}.pop("digest", None)  # older files have none
        vars(self).update({name: part for name, part in state.items() if name != "digest"})
        if stated not in (None, self.to_dict()["digest"]):
            raise ValueError(CHANGED)

    def to_dict(self) -> dict[str, Any]:
        """Return everything but the model and rows as plain types, for JSON."""
        document = {name: getattr(self, name) for name in STORED} | {
            "certified": self.certified,
            "bounds": [bound.to_dict() for bound in self.bounds],
            "notes": list(self.notes),
            "price": [asdict(price) for price in self.price],
        }
        if self.copies:  # certificates of earlier versions keep their digests
            document["copies"] = self.copies
        return document | {"digest": digest_of(document)}

    @classmethod
    def from_dict(cls, document: Mapping[str, Any]) -> Self:
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


def digest_of(document: Mapping[str, Any], *about: Any) -> str:
    """Return the digest of a document, also read from JSON, without its own one, and of what it is about."""
    content = json.dumps(
        [{**document, "digest": None}, *about], sort_keys=True, allow_nan=False
    )
    return digest(content.encode())


def refuse_rule_alone(model: Model) -> None:
    """Raise ValueError for a rule without its models or columns."""
    if isinstance(model, (Rule, ThresholdRule)):
        raise ValueError(
            "model is a rule without its models or columns, as to_json writes it: give the "
            "classifier whose rule_ it is, or load_rule of a file of tailboost.save_rule"
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
        Fresh rows and their labels: independent draws from the population of interest.
    limits : list of Limit or str, optional
        Limits on rates, each bounded on its side. By default the limits of the model's fit.
    rates : list of Rate or str, optional
        Further rates, bounded on both sides in each subgroup; a `rates.tail` or `rates.shift` from
        above. Without rates and limits errors are bounded
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
        Cost of each answer to each row, for ``rates.cost()`` without a matrix, also in a tail or shift.
    cost_range : (float, float), optional
        Smallest and largest possible cost of any answer to any row, which the given rows do not show.
    deferred : array-like of bool, shape (n,), optional
        With an array of answers: True for a deferred row. Required for rates of deferral.
    equal_rows : {"copies", "natural"}, optional
        Reason for equal rows. "copies": more rows equal to training rows than the repetition within both
        tables predicts are refused, because errors on training rows are too small, and so are copies of
        nearly all rows or those of a label. "natural": features take few values, and nobody copied a row.
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
    answers = answering(model) if hasattr(model, "predict") else None
    if rates is None and limits is None:
        limits = () if answers is None else answers.limits
    expressions = as_statistics(rates or ())
    for each in expressions:
        if not isinstance(each, Limit) and getattr(each, "form", None) != EACH:
            raise TypeError(f"{each!r} is no rate or limit; a gap or ratio needs a bound")
    if limits is not None:  # a limit alone has no truth value
        expressions += checked_limits(limits)
    if X is not None and answers is None:
        raise ValueError(
            f"X must be None if model is an array of answers, got {type(model).__name__}. Of "
            "a classifier the order is (model, X, y)"
        )
    check_indexes(X=X, y=y, model=model, deferred=deferred)
    groups = group_columns(groups, "groups", X)
    if answers is not None:
        groups = answers.score(X, groups).groups
    given = Rows.read(X, y, groups, costs=costs, clusters=clusters)
    counted = [expression.rate for expression in expressions]
    if costs is not None and not any(rate.needs_costs for rate in counted):
        raise ValueError("costs: no rate reads them; add cost(), or tail(10%, cost())")
    options: Any = {"equal_rows": checked_equal_rows(equal_rows), "cost_range": cost_range}
    if answers is not None:
        if deferred is not None:
            raise ValueError(
                "deferred goes with an array of answers: a classifier knows its deferred rows"
            )
        fresh = Fresh.of_model(answers, given, counted, training_rows=training_rows, **options)
    else:
        if training_rows is not None:
            raise ValueError(
                "training_rows: model is an array of answers, so there are no rows to compare"
            )
        fresh = Fresh.of_answers(model, given, counted, deferred=deferred, **options)
    parts = [expressions]
    if not expressions:  # the kinds of errors divide the level evenly
        kinds = (None, "class", "group", "cell")[: 4 if fresh.answered.strata.columns else 2]
        parts = [[largest(error(by=kind))] for kind in kinds]
    level = (1.0 - confidence) / len(parts)
    bounds = [*chain(*(joint_bounds(part, fresh, level) for part in parts))]
    certificate = certificate_of(fresh, bounds, confidence)
    return certificate if answers is None else replace(certificate, model=model)


def certificate_of(
    fresh: Fresh, bounds: Sequence[CertifiedBound], confidence: float
) -> Certificate:
    """Return the certificate of bounds from fresh rows; warn if a model may have been trained on them."""
    rule = fresh.rule
    only_scores = rule is not None and rule.of_scores
    if fresh.scored is not None and not fresh.compared and not only_scores:
        warn_user(
            "X: whether these rows trained the model is not checked. Rows that did look "
            "easier than new ones and certify nothing; pass all of them as training_rows="
        )
    assumption, deferred = ASSUMED, None
    if fresh.votes.n_clusters is not None:
        assumption = BY_CLUSTERS.format(fresh.votes.n_clusters)
    if fresh.answered.strata.defers:
        assumption += (
            f" {fresh.is_deferred.sum():,} of the {len(fresh):,} rows are deferred. A deferred "
            "row is no error and no miss, and stays among the rows of a class or group; the "
            "error among answered rows and precisions exclude it."
        )
        votes = fresh.votes.among(np.arange(len(fresh)))
        deferred = float(np.mean(fresh.is_deferred[votes]))
    compared = COMPARED.format(100 * fresh.shared)
    if only_scores:
        compared = ONLY_SCORES
    elif fresh.equal_rows == "natural":
        compared = EQUAL_BY_NATURE
    if not fresh.compared:
        compared += f" {UNKNOWN_TRAINING_ROWS}"
    notes = [assumption, compared]
    if fresh.identity.unknown:
        notes.append(ON_TRUST.format(", ".join(fresh.identity.unknown)))
    if any(bound.rate.loss for bound in bounds):
        notes.append(ABOUT_TAILS)
    return Certificate(
        bounds=tuple(bounds),
        confidence=confidence,
        n_rows=len(fresh),
        notes=tuple(notes),
        compared=fresh.compared,
        deferred=deferred,
        rule=None if rule is None else rule.digest,
        columns=() if rule is None else tuple(rule.groups),
        n_clusters=fresh.votes.n_clusters,
        equal_rows=fresh.equal_rows,
        copies=fresh.copies,
        date=datetime.now(UTC).date().isoformat(),
        used=fresh.used,
        identity=fresh.identity.digest,
    )
