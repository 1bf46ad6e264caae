"""Confidence bounds on rates on new rows, exact tests of limits, and limits kept by construction."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from decimal import Decimal
from typing import Any, Self

import numpy as np

from tailboost.core.array_types import Floats
from tailboost.core.checks import check_number
from tailboost.core.spelling import how_many
from tailboost.core.tables import CERTIFIED, NOT_CERTIFIED, LimitLine
from tailboost.guarantees.case import all_pairs_pass
from tailboost.guarantees.fresh import Fresh
from tailboost.rates import (
    ABOVE,
    BELOW,
    Expression,
    Limit,
    Rate,
    Sample,
    error,
    parse,
)
from tailboost.rates.bounds import betting_p_value, betting_upper, clopper_pearson_upper
from tailboost.rates.strata import GROUP
from tailboost.rates.words import rate_words, stated_words
from tailboost.rows.judged import judged
from tailboost.rows.subgroups import HUMAN_REVIEW, unit_name, whole_percents
from tailboost.selection.table import number_or_none

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
        return self._sign * (self._end - self.target) <= 0.0

    @property
    def _sign(self) -> float:
        """−1 for a bound from below."""
        return -1.0 if self.sense == "≥" else 1.0

    @property
    def _end(self) -> float:
        """The bounded side, of both the upper one."""
        return self.lower if self.sense == "≥" else self.upper

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
        return self._sign * (self.target - self.estimate)

    @property
    def rows_needed(self) -> int | None:
        """Rows that certify the limit with a probability of about .8, if the estimate is the true value.

        None if the limit is certified, or no number of rows would do. Distances of bounds from estimates are
        taken as proportional to 1/√n.
        """
        if self.certified is not False or not self.room or self.room < 0 or not self.n:
            return None
        assert self.estimate is not None
        margin = self._sign * (self._end - self.estimate)
        return math.ceil(self.n * (OF_POWER * margin / self.room) ** 2)

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
        if needed is None:
            beyond = "below it" if self.sense == "≥" else "above it"
            return f"the estimate is {beyond if self.room else 'at the limit'}"
        return f"about {needed:,} rows needed"

    @property
    def estimate_text(self) -> str:
        """The estimate, with the digits supported by its rows."""
        return rate_words(self.estimate, self.n, beside=self.target, in_percent=self.in_percent)

    @property
    def deferred_text(self) -> str:
        """The share of deferred rows; empty without one."""
        return "" if self.deferred is None else whole_percents(self.deferred)

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
        rate = parse(values["rate"])
        if rate.rate is not rate:
            raise ValueError(f"{document['rate']!r} is no rate")
        for name in ("lower", "upper"):
            check_number(values[name], name, -np.inf, np.inf, closed=True)
        return cls(**values | {"rate": rate})


def _tuples(name: Any) -> Any:
    """Return a name read from JSON, with tuples instead of lists."""
    return tuple(map(_tuples, name)) if isinstance(name, (list, tuple)) else name


# -- bounds on means ---------------------------------------------------------------------------------------


def _ratio_upper(top: Floats, bottom: Floats, level: float) -> float:
    """Return an upper bound on E top / E bottom, with 0 ≤ top ≤ bottom ≤ 1 in each row.

    If the ratio is at least t, then ``top − t bottom + t``, which lies in [0, 1], has a mean of at least t.
    The bound is the smallest t of a grid with a rejection at t and at all larger t. It fails only if the
    test rejects at the largest t of the grid up to the true ratio.
    """
    smallest_rejected = 1.0
    for t in (np.arange(RATIO_LEVELS - 1, 0, -1) / RATIO_LEVELS).tolist():
        numbers = np.clip(top - t * bottom + t, 0.0, 1.0)
        if betting_p_value(numbers, t, level) > level:
            break
        smallest_rejected = t
    return smallest_rejected


def _upper(sample: Sample, level: float, *, counts: bool) -> float:
    """Return an upper bound on the mean of a subgroup, or of a precision on its ratio of sums."""
    width = sample.high - sample.low
    # The bounds are for numbers in [0, 1]; rounding may exceed them.
    scaled = np.clip((sample.values - sample.low) / width, 0.0, 1.0)
    if (sample.among < 1.0).any():
        share = _ratio_upper(scaled, sample.among, level)
    elif counts:
        share = clopper_pearson_upper(round(float(scaled.sum())), len(scaled), level)
    else:
        share = betting_upper(scaled, level)
    return sample.low + width * share


def bounds_of(stated: Expression, fresh: Fresh, level: float) -> list[CertifiedBound]:
    """Return the bounds of a rate or limit on each subgroup, each side at the level, then on a gap or ratio.

    Shares of rows have Clopper–Pearson bounds, other means and ratios of sums betting bounds.
    """
    rate, limit, sides = stated.rate, stated.limit, stated.sides
    samples = fresh.samples(rate)
    names = [sample.name for sample in samples]
    targets = [float("nan")] * len(names)
    if limit is not None and not limit.compares:
        targets = limit.bounds(names).tolist()
    counts = rate.is_share  # or costs of two values
    if rate.matrix is not None:
        strata = fresh.answered.strata
        counts = bool(np.isin(rate.tables(strata)[0], rate.range(strata)).all())
    template = CertifiedBound(
        rate,
        sense={(ABOVE,): "≤", (BELOW,): "≥"}.get(sides, ""),
        in_percent=limit is not None and limit.in_percent,
    )
    shares = fresh.deferred_shares(rate)
    bounds = []
    for sample, target in zip(samples, targets, strict=True):
        n = len(sample.rows)
        lower, upper = sample.low, sample.high
        if n and lower < upper:
            if BELOW in sides:  # an upper bound on the complement
                lower += sample.high - _upper(sample.mirrored, level, counts=counts)
            if ABOVE in sides:
                upper = _upper(sample, level, counts=counts)
        method = EXACT if counts else BETTING
        bound = replace(
            template,
            subgroup=sample.name,
            target=number_or_none(target),
            estimate=number_or_none(sample.mean),
            lower=lower,
            upper=upper,
            n=n,
            method=method if n else "no rows",
            deferred=number_or_none(shares.get(sample.name, np.nan)),
        )
        is_kept = bound.target is not None and kept_by_construction(bound, fresh)
        bounds.append(bound.at_target(CONSTANT) if is_kept else bound)
    if limit is None or not limit.compares:
        return bounds
    limit.refuse_negative(min(sample.low for sample in samples))
    ends = np.array([(bound.lower, bound.upper) for bound in bounds])
    lower, upper = limit.interval(*ends.T)
    # NaN without rows, and so is the estimate.
    means = np.array([sample.mean for sample in samples])
    compared = replace(
        template,
        subgroup=limit.form,
        sense=limit.sense,
        target=limit.bound,
        estimate=number_or_none(limit.value(means) + 0.0 * means.sum()),
        lower=lower,
        upper=upper,
        n=min(bound.n for bound in bounds),
        method=f"bounds of {len(bounds)} subgroups",
        subgroups=tuple(names),
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
        if not (limit.compares and limit.rate.is_share and fresh.are_apart(samples)):
            continue
        counts = [(round(sample.values.sum()), len(sample.rows)) for sample in samples]
        bound = bounds[-1].at_target(PAIRS)
        if not all_pairs_pass(counts, limit.pair, level):
            lower = min(bounds[-1].lower, limit.bound - VISIBLE)
            upper = max(bounds[-1].upper, limit.bound + VISIBLE)
            bound = replace(bound, lower=lower, upper=upper)
        bounds[-1] = bound
    return bounds


def joint_bounds(
    expressions: Sequence[Expression], fresh: Fresh, level: float
) -> list[CertifiedBound]:
    """Return bounds on rates on new rows that hold together with a probability of at least 1 − level.

    The rate of a subgroup is a mean of bounded numbers over its rows, or, for a precision, a ratio of sums. A
    rate is bounded on both sides, a limit on its side. A gap or ratio follows from bounds on both sides of
    each subgroup. The level is divided evenly among the bounds on means of subgroups with rows (union bound).
    """
    bounds_on_means = {
        (each.rate, number, side)
        for each in expressions
        for number, sample in enumerate(fresh.samples(each.rate))
        if len(sample.rows)
        for side in each.sides
    }
    level_of_each = level / max(1, len(bounds_on_means))
    return [bound for each in expressions for bound in bounds_of(each, fresh, level_of_each)]


def kept_by_construction(bound: CertifiedBound, fresh: Fresh) -> bool:
    """Return whether the rule's possible answers in a subgroup cannot break its limit.

    A rule that never answers a label in a group keeps each limit on false alarms there, and each limit on the
    precision of this label, because no row counts.
    """
    rate = bound.rate
    rule = judged(fresh.model).rule_
    if rule is None or rate.kind == "representation" or rate.kind == "cost":
        return False
    column, group = rate.by, bound.subgroup
    # Of any column: pairs of column and group, or groups of a column without a name.
    if column == GROUP:
        column, group = group if isinstance(group, tuple) else (None, group)
    given = rule.actions_in(column, group)
    counted, among = rate.tables(fresh.answered.strata)
    answers = [*fresh.answered.strata.classes, HUMAN_REVIEW][: counted.shape[1]]
    counts = (among > 0) & np.array([answer in given for answer in answers])
    parts = counted[counts] / among[counts]
    return bool((bound._sign * (parts - bound.target) <= 0.0).all())
