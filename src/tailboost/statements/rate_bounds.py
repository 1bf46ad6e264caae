"""Bounds on rates of decisions on new rows, all together with a stated confidence."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from tailboost._typing import Floats
from tailboost._units import unit_name
from tailboost.confidence import betting_p_value, betting_upper, clopper_pearson_upper
from tailboost.rates import ABOVE, BELOW, Answered, Limit, Objective, Rate, Sample
from tailboost.statements.recheck import VERDICTS, Claim, down, shown, up

__all__ = ["RateBound", "limit_bounds", "rate_bounds"]

EXACT, BETTING, NO_ROWS = "Clopper–Pearson", "betting", "no rows"
# Ratios of a rule that draws are bounded at so many levels.
LEVELS = 1000


@dataclass(frozen=True)
class RateBound:
    """One statement: the rate of a unit, or the gap or ratio between units, lies in an interval.

    Attributes
    ----------
    rate : Rate
        What is counted.
    unit : object
        The unit; None for all rows, "gap" or "ratio" for what a limit compares.
    estimate : float or None
        The same of the rows at hand; None where there is nothing to count among.
    lower, upper : float
        The bounds; an end that was not asked for is as far as the rate can go.
    n : int
        Rows behind it; of a gap or ratio those of the smallest unit.
    method : str
        How it was found.
    sense : {"≤", "≥", ""}
        On which side of the target the rate has to be.
    target : float or None
        The limit, where there is one.
    units : tuple
        What a gap or ratio compares.
    """

    rate: Rate
    unit: Any
    estimate: float | None
    lower: float
    upper: float
    n: int
    method: str
    sense: str = ""
    target: float | None = None
    units: tuple[Any, ...] = ()

    @property
    def certified(self) -> bool | None:
        """Whether the limit is certified; None without one."""
        if self.target is None:
            return None
        return bool(self.upper <= self.target if self.sense == "≤" else self.lower >= self.target)

    @property
    def short(self) -> str:
        """What is bounded, the unit first, by which bounds of one rate differ."""
        return f"{self.unit_words}: {self.rate.words}"

    @property
    def title(self) -> str:
        """What is bounded, in words."""
        return f"{self.rate}: {self.unit_words}"

    @property
    def claim(self) -> Claim:
        """What new rows can contradict."""
        lower = None if self.sense == "≤" else self.lower
        upper = None if self.sense == "≥" else self.upper
        if self.units:
            return Claim(self.unit, self.units, lower, upper)
        return Claim("mean", (self.unit,), lower, upper)

    heads: ClassVar = ("rate", "unit", "rows", "seen", "at least", "at most", "by", "limit", "")

    @property
    def cells(self) -> list[str]:
        """What it says, as cells under `heads`."""
        target = "" if self.target is None else f"{self.sense} {self.target:g}"
        found = [str(self.rate), self.unit_words, f"{self.n:,}", shown(self.estimate)]
        # A limit from above has no bound from below, and 0 is none of a share.
        lower = "" if self.sense == "≤" or self.lower == 0.0 else down(self.lower)
        upper = "" if self.sense == "≥" else up(self.upper)
        return [*found, lower, upper, self.method, target, VERDICTS[self.certified]]

    @property
    def unit_words(self) -> str:
        """The unit, in words."""
        return "all" if self.unit is None else unit_name(self.unit)

    def at_target(self, method: str) -> RateBound:
        """Return what is certified where just the limit was tested: that the rate keeps it."""
        assert self.target is not None
        if self.sense == "≤":
            return replace(self, upper=self.target, method=method)
        return replace(self, lower=self.target, method=method)

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain types, for JSON."""
        plain = {name: getattr(self, name) for name in self.__dataclass_fields__ if name != "rate"}
        return {"rate": repr(self.rate), "words": str(self.rate), **plain, "certified": self.certified}


@dataclass(frozen=True)
class _Family:
    """A rate with its rows by unit, and what is asked of it."""

    rate: Rate
    limit: Limit | None
    sides: tuple[str, ...]
    samples: list[Sample]
    exact: bool

    @property
    def needs(self) -> list[tuple[Any, ...]]:
        """The bounds on means that it follows from, those of units with rows."""
        return [(self.rate, i, side) for i in self.with_rows for side in self.sides]

    @property
    def with_rows(self) -> list[int]:
        return [i for i, sample in enumerate(self.samples) if len(sample.rows)]


def rate_bounds(
    stated: Sequence[Rate | Limit | Objective], answered: Answered, delta: float
) -> list[RateBound]:
    """Bound rates on new rows; all bounds hold together with a probability of at least 1 − δ.

    A rate of a unit is a mean of bounded numbers over its rows, or among those of them that were answered so
    (a precision): what it counts in a row is a draw of its own once the unit and the answer are given. Of a
    rate both sides are bounded, of a limit that which it is about, of an objective the upper one. A gap or a
    ratio follows from bounds on both sides of each unit. The level is shared evenly among all these bounds.
    The rows are independent draws, and had no part in the making of the rule that answered them.
    """
    families = [_family(one, answered) for one in stated]
    needed = list(dict.fromkeys(need for family in families for need in family.needs))
    level = delta / max(1, len(needed))
    return [bound for family in families for bound in family_bounds(family, level)]


def _family(one: Rate | Limit | Objective, answered: Answered) -> _Family:
    rate = one.rate
    low, high = rate.range(answered.strata)
    counted = None if rate.needs_costs else rate.tables(answered.strata)[0]
    exact = counted is not None and not answered.draws and set(np.unique(counted)) <= {low, high}
    return _Family(rate, one.limit, one.sides, answered.samples(rate), exact)


def family_bounds(family: _Family, level: float) -> list[RateBound]:
    """Return the bounds of a family, each of the bounds on means at a level."""
    rate, limit = family.rate, family.limit
    ends = np.array([_ends(sample, family, level) for sample in family.samples]).reshape(-1, 2)
    seen = np.array([sample.mean for sample in family.samples])
    names, sizes = [s.name for s in family.samples], [len(s.rows) for s in family.samples]
    compares = limit is not None and limit.compares
    targets = np.full(len(names), np.nan) if limit is None or compares else limit.bounds(names)
    sense = "" if limit is None else "≤" if limit.from_above else "≥"
    found = []
    for name, estimate, (low, high), n, target in zip(names, seen, ends, sizes, targets, strict=True):
        method = NO_ROWS if not n else EXACT if family.exact else BETTING
        with_target = (sense, float(target)) if not np.isnan(target) else ("", None)
        found.append(RateBound(rate, name, _known(estimate), low, high, n, method, *with_target))
    if limit is not None and compares:
        low, high = _compared(limit, ends, family.samples)
        about = f"bounds of {len(names)} units"
        estimate = _known(limit.said_of(seen))
        least = min(sizes, default=0)
        found.append(
            RateBound(rate, limit.form, estimate, low, high, least, about, sense, limit.bound, tuple(names))
        )
    return found


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


def _ends(sample: Sample, family: _Family, level: float) -> tuple[float, float]:
    """Return the bounds on the mean of a sample, an end that is not asked for as far as it can be."""
    low, high = sample.low, sample.high
    if len(sample.rows) and high > low:
        if BELOW in family.sides:
            low = high - _upper(sample.mirrored, family, level) + sample.low
        if ABOVE in family.sides:
            high = _upper(sample, family, level)
    return low, high


def _upper(sample: Sample, family: _Family, level: float) -> float:
    width = sample.high - sample.low
    scaled = np.clip((sample.values - sample.low) / width, 0.0, 1.0)
    if sample.among is not None:
        return sample.low + width * _ratio_upper(scaled, sample.among, level)
    if family.exact:
        return sample.low + width * clopper_pearson_upper(round(float(scaled.sum())), len(scaled), level)
    return sample.low + width * betting_upper(scaled, level)


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


def limit_bounds(limits: Iterable[Limit], answered: Answered, delta: float) -> list[RateBound]:
    """Return bounds that show each of some limits to be kept at level δ; they do not hold together.

    Who needs all limits to hold tests each at the whole level: that all pass although one of them does not
    hold has a probability of at most δ. So has, of a gap or ratio, that each pair of units passes: a pair
    takes two bounds, of half the level. Rows are as in `rate_bounds`.
    """
    found: list[RateBound] = []
    for limit in limits:
        found += family_bounds(_family(limit, answered), delta / 2 if limit.compares else delta)
    return found
