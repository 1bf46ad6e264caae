"""Bounds on errors and other rates of decisions on new rows, all together with a stated confidence."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, Literal

import numpy as np

from tailboost.core.array_types import Floats
from tailboost.core.subgroups import unit_name
from tailboost.guarantees.fresh_rows import ERRORS, FreshRows, Rule
from tailboost.guarantees.recheck import VERDICTS, Claim, down, shown, up
from tailboost.rates import ABOVE, BELOW, Expression, Limit, Rate, Sample
from tailboost.rates.bounds import betting_p_value, betting_upper, clopper_pearson_upper

__all__ = ["CertifiedBound", "limit_bounds", "rate_bounds"]

Kind = Literal["rate", "mean", "class", "group", "cell", "cvar", "shift", "worst"]

OTHERS = "other groups"
EXACT, BETTING, NO_ROWS = "Clopper–Pearson", "betting", "no rows"
# Ratios of a rule that draws are bounded at so many levels.
LEVELS = 1000


@dataclass(frozen=True)
class CertifiedBound:
    """One statement: a rate of new rows lies in an interval; an error is at most ``upper``.

    Attributes
    ----------
    kind : {"mean", "class", "group", "cell", "cvar", "shift", "worst", "rate"}
        What is bounded: an error, or a rate that was asked for. "worst" is the largest of all classes
        (groups, cells), or, where it is not known which there are, of those seen (see ``of_seen``).
    unit : object
        Which: the label, the group, the (class, group) pair; α of a "cvar", the radius of a "shift"; for
        "worst" "class", "group" or "cell"; None for all rows. A group of a table is a pair (column, value).
        Of a rate "gap" or "ratio" is what a limit compares.
    rule : {"predict", "randomised"}
        Of an error, whether of ``predict``, or of the randomised rule whose label distribution is
        ``predict_distribution``.
    estimate : float or None
        The same of the rows at hand; None where there is nothing to count among.
    upper : float
        The bound; as far as the rate can go where it was not asked for, or says nothing.
    n : int
        Rows behind it, or clusters that have a vote; of "worst" those of the unit with the largest bound,
        which need not be the one with the largest ``estimate``; of a gap or ratio those of the smallest unit.
    method : str
        How it was found.
    target : float or None
        The error allowed, or the limit, where there is one.
    of_seen : bool
        Of "worst", and of a target of every unit: whether it is about the units among these rows alone.
    lower : float
        The bound from below, as ``upper``.
    sense : {"≤", "≥", ""}
        On which side it is bounded: one alone, or both.
    rate : Rate or None
        What is counted, where it was asked for as a rate.
    units : tuple
        What a gap or ratio compares. If ``others`` is true, the groups that are named.
    others : bool
        Whether it is about all groups together that ``units`` does not name, as groups that appear later; of
        a gap or ratio, whether it compares these with the named ones.
    """

    kind: Kind = "rate"
    unit: Any = None
    rule: Rule = "predict"
    estimate: float | None = None
    upper: float = 1.0
    n: int = 0
    method: str = ""
    target: float | None = None
    of_seen: bool = False
    lower: float = 0.0
    sense: str = "≤"
    rate: Rate | None = None
    units: tuple[Any, ...] = ()
    others: bool = False

    @property
    def certified(self) -> bool | None:
        """Whether the target is certified; None without one."""
        if self.target is None:
            return None
        return bool(self.lower >= self.target if self.sense == "≥" else self.upper <= self.target)

    @property
    def counted(self) -> Rate:
        """What is counted, also of an error."""
        return ERRORS[self.kind] if self.rate is None else self.rate

    @property
    def name(self) -> str:
        """Of what it is, in words: the unit."""
        if self.others:
            return OTHERS if self.unit is None else f"{self.unit} with {OTHERS}"
        if self.rate is not None:
            seen = " seen" if self.units and self.of_seen else ""
            return "all" if self.unit is None else f"{unit_name(self.unit)}{seen}"
        if self.kind == "mean":
            return "mean"
        if self.kind == "cvar":
            return f"CVaR at α = {self.unit:g}"
        if self.kind == "shift":
            return f"shift, KL ≤ {self.unit:g}"
        if self.kind == "worst":
            return f"worst {self.unit}{' seen' if self.of_seen else ''}"
        return f"{self.kind} {words_of(self.unit)}"

    @property
    def short(self) -> str:
        """The unit, by which bounds of one rate differ, and what is counted, or by which rule."""
        if self.rate is not None:
            return f"{self.name}: {self.rate.words}"
        return f"{self.name}{', drawn' if self.rule == 'randomised' else ''}"

    @property
    def title(self) -> str:
        """What is bounded, in words."""
        return f"error of {self.short}" if self.rate is None else f"{self.rate}: {self.name}"

    @property
    def claim(self) -> Claim:
        """What new rows can contradict."""
        lower = None if self.sense == "≤" else self.lower
        upper = None if self.sense == "≥" else self.upper
        form: Any = self.unit if self.units and self.unit is not None else "mean"
        return Claim(form, self.units or (self.unit,), lower, upper, self.others)

    @property
    def cells(self) -> dict[str, str]:
        """What it says, by the headings of a table."""
        about, of = {"error of": self.name, "rule": self.rule}, "target"
        target = "" if self.target is None else f"{self.target:g}"
        sides = {"at most": "" if self.sense == "≥" else up(self.upper)}
        if self.rate is not None:
            about, of = {"rate": str(self.rate), "unit": self.name}, "limit"
            target = target and f"{self.sense} {target}"
            # A limit from above has no bound from below, and 0 is none of a share.
            sides = {"at least": "" if self.sense == "≤" or self.lower == 0.0 else down(self.lower)} | sides
        seen = {"rows": f"{self.n:,}", "seen": shown(self.estimate)}
        return about | seen | sides | {"by": self.method, of: target, "": VERDICTS[self.certified]}

    def at_target(self, method: str) -> CertifiedBound:
        """Return what is certified where just the target was tested: that the rate keeps it."""
        assert self.target is not None
        if self.sense == "≥":
            return replace(self, lower=self.target, method=method)
        return replace(self, upper=self.target, method=method)

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain types, for JSON."""
        plain = {each.name: getattr(self, each.name) for each in fields(self)}
        rate = {} if self.rate is None else {"rate": repr(self.rate), "words": str(self.rate)}
        return plain | rate | {"certified": self.certified}


def words_of(unit: Any) -> str:
    """Name a unit: a pair within a pair is a group of a table, (column, value)."""
    if isinstance(unit, tuple) and isinstance(unit[-1], tuple):
        return f"{unit[0]} / {' = '.join(map(str, unit[-1]))}"
    return unit_name(unit)


# -- units of a rate ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class RateFamily:
    """A rate with its rows by unit, and what is asked of it."""

    rate: Rate
    limit: Limit | None  # what it has to keep
    sides: tuple[str, ...]  # from which the mean of each unit is bounded
    samples: list[Sample]
    exact: bool  # whether each row counts fully or not at all, so that the number that counts is binomial
    kind: Kind = "rate"
    rule: Rule = "predict"
    of_seen: bool = False  # whether the limit is on every unit, of which those seen alone are known

    @classmethod
    def of(cls, asked: Expression, judged: FreshRows) -> RateFamily:
        """Return the family of a rate, bounded from both sides, or those that a limit or objective needs."""
        rate = asked.rate
        strata = judged.answered.strata
        exact = not rate.needs_costs and not judged.answered.draws
        exact = exact and set(np.unique(rate.tables(strata)[0])) <= set(rate.range(strata))
        of_seen = asked.limit is not None and asked.limit.of_every and not judged.knows(rate.by)
        return cls(rate, asked.limit, asked.sides, judged.samples(rate), exact, of_seen=of_seen)

    @classmethod
    def of_errors(
        cls,
        kind: Kind,
        judged: FreshRows,
        rule: Rule,
        targets: dict[Any, float] | None = None,
        *,
        of_every: bool = False,
    ) -> RateFamily:
        """Return the errors of all rows, of classes, groups or cells, with their targets."""
        limit = (ERRORS[kind] <= targets) if targets else None
        samples = judged.samples(ERRORS[kind], rule)
        of_seen = of_every and not judged.knows(ERRORS[kind].by)
        return cls(ERRORS[kind], limit, (ABOVE,), samples, rule == "predict", kind, rule, of_seen)

    @property
    def needs(self) -> list[tuple[Any, ...]]:
        """The bounds on means that it follows from, those of units with rows."""
        with_rows = [i for i, sample in enumerate(self.samples) if len(sample.rows)]
        return [(self.rate, self.rule, i, side) for i in with_rows for side in self.sides]

    def bounds(self, level: float) -> list[CertifiedBound]:
        """Return the bounds, each of those on means at a level."""
        limit = self.limit
        ends = np.array([self.ends(sample, level) for sample in self.samples]).reshape(-1, 2)
        seen = np.array([sample.mean for sample in self.samples])
        names, sizes = [s.name for s in self.samples], [len(s.rows) for s in self.samples]
        compares = limit is not None and limit.compares
        targets = np.full(len(names), np.nan) if limit is None or compares else limit.bounds(names)
        sense = "" if len(self.sides) > 1 else "≤" if self.sides == (ABOVE,) else "≥"
        empty = CertifiedBound(self.kind, rule=self.rule, rate=self.rate if self.kind == "rate" else None)
        found = [
            replace(
                empty,
                unit=name,
                estimate=_known(estimate),
                lower=low,
                upper=high,
                n=n,
                method=NO_ROWS if not n else EXACT if self.exact else BETTING,
                sense=sense,
                target=_known(target),
                of_seen=self.of_seen and not np.isnan(target),
            )
            for name, estimate, (low, high), n, target in zip(
                names, seen.tolist(), ends.tolist(), sizes, targets.tolist(), strict=True
            )
        ]
        if limit is not None and compares:
            low, high = _compared(limit, ends, self.samples)
            found.append(
                replace(
                    empty,
                    unit=limit.form,
                    estimate=_known(limit.said_of(seen)),
                    lower=low,
                    upper=high,
                    n=min(sizes, default=0),
                    method=f"bounds of {len(names)} units",
                    sense="≤" if limit.from_above else "≥",
                    target=limit.bound,
                    of_seen=self.of_seen,
                    units=tuple(names),
                )
            )
        return found

    def ends(self, sample: Sample, level: float, sides: Sequence[str] = ()) -> tuple[float, float]:
        """Return the bounds on the mean of a unit, an end that is not asked for as far as it can be."""
        low, high, sides = sample.low, sample.high, sides or self.sides
        if len(sample.rows) and high > low:
            if BELOW in sides:
                low = high - self._upper(sample.mirrored, level) + sample.low
            if ABOVE in sides:
                high = self._upper(sample, level)
        return low, high

    def _upper(self, sample: Sample, level: float) -> float:
        width = sample.high - sample.low
        scaled = np.clip((sample.values - sample.low) / width, 0.0, 1.0)
        if sample.among is not None:
            return sample.low + width * _ratio_upper(scaled, sample.among, level)
        if self.exact:
            return sample.low + width * clopper_pearson_upper(round(float(scaled.sum())), len(scaled), level)
        return sample.low + width * betting_upper(scaled, level)


def rate_bounds(stated: Sequence[Expression], judged: FreshRows, delta: float) -> list[CertifiedBound]:
    """Bound rates on new rows; all bounds hold together with a probability of at least 1 − δ.

    A rate of a unit is a mean of bounded numbers over its rows, or among those of them that were answered so
    (a precision): what it counts in a row is a draw of its own once the unit and the answer are given. Of a
    rate both sides are bounded, of a limit that which it is about, of an objective the upper one. A gap or a
    ratio follows from bounds on both sides of each unit. The level is shared evenly among all these bounds.
    The rows are independent draws, and had no part in the making of the rule that answered them.
    """
    return shared_bounds([RateFamily.of(one, judged) for one in stated], delta)


def shared_bounds(families: Sequence[RateFamily], delta: float) -> list[CertifiedBound]:
    """Return the bounds of families, among whose bounds on means δ is shared evenly."""
    needed = {need for family in families for need in family.needs}
    return [bound for family in families for bound in family.bounds(delta / max(1, len(needed)))]


def limit_bounds(families: Iterable[RateFamily], delta: float) -> list[CertifiedBound]:
    """Return bounds that show each of some limits to be kept at level δ; they do not hold together.

    Who needs all limits to hold tests each at the whole level: that all pass although one of them does not
    hold has a probability of at most δ. So has, of a gap or ratio, that each pair of units passes: a pair
    takes two bounds, of half the level.
    """
    return [bound for family in families for bound in family.bounds(delta / len(family.sides))]


def _known(value: float) -> float | None:
    return None if np.isnan(value) else float(value)


def _compared(limit: Limit, ends: Floats, samples: Sequence[Sample]) -> tuple[float, float]:
    """Return between which numbers the gap or the ratio of rates lies that lie between ``ends``."""
    low, high = ends[:, 0], ends[:, 1]
    pairs = [(i, j) for i in range(len(ends)) for j in range(len(ends)) if i != j]
    if limit.form == "gap":
        if not pairs:
            return 0.0, 0.0
        at_most = max(high[i] - low[j] for i, j in pairs)
        return max(0.0, float(low.max() - high.min())), float(at_most)
    if any(sample.low < 0 for sample in samples):
        raise ValueError(f"{limit!r}: what may be negative has no ratio that can be bounded; limit the gap")
    if not pairs:
        return 1.0, 1.0
    at_least = min(low[i] / high[j] if high[j] > 0 else 1.0 for i, j in pairs)
    largest = float(low.max())
    return min(1.0, float(at_least)), min(1.0, float(high.min()) / largest) if largest > 0 else 1.0


def _ratio_upper(top: Floats, bottom: Floats, level: float) -> float:
    """Return an upper bound on E top / E bottom, where 0 ≤ top ≤ bottom ≤ 1 in each row.

    A ratio of t or more says that ``top − t bottom + t``, which lies in [0, 1], has a mean of at least t.
    The bound is the least of some levels t such that this is excluded there and at all higher levels. It
    fails only where it is excluded at the highest level that is not above the true ratio.
    """
    excluded = 1.0
    for t in np.arange(LEVELS - 1, 0, -1) / LEVELS:
        if betting_p_value(np.clip(top - t * bottom + t, 0.0, 1.0), float(t), level) > level:
            break
        excluded = float(t)
    return excluded
