"""The path: rules from much tighter limits to the stated ones, tested up to the first failure.

The order of the rules is fixed before the fresh rows are read, and each is tested at the whole level. The
last rule before the first failure is certified: if it breaks a limit, then the first rule of the sequence
that breaks one was rejected, which has at most the probability of the level ([1]_).

References
----------
.. [1] A. N. Angelopoulos, S. Bates, E. J. Candès, M. I. Jordan and L. Lei, "Learn then Test: Calibrating
   Predictive Algorithms to Achieve Risk Control", Annals of Applied Statistics 19, 2025.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from scipy.special import ndtr, ndtri

from tailboost.core.long_work import steps
from tailboost.guarantees.fresh_rows import FreshRows
from tailboost.guarantees.procedure import Certified, Refused, answering
from tailboost.guarantees.rate_bounds import RateFamily, limit_bounds
from tailboost.guarantees.thresholds import power_of_counts
from tailboost.rates import InfeasibleLimitsError, Limit
from tailboost.selection.problem import SPREAD

# Limits are tightened by these multiples of half their intervals on the selection data. In 277 paired
# cases of benchmarks/power.py this path captured .043 ± .032 more than eleven equal steps from the
# largest margin, in 1.5 times the processor time. Looser rules at its end gained nothing in 74 cases.
FACTORS = (
    *np.arange(0.125, 2.0, 0.125),
    *np.arange(2.0, 3.0, 0.25),
    3.0,
    3.5,
    4.0,
    5.0,
    6.0,
    8.0,
)
# Level of the tests for predictions of their power; the sequence is valid for any start.
LEVEL = 0.05
# Least predicted power of the first rule, relative to the greatest: selection data favour loose rules.
# A bound stays where it is if the predicted power of its rate falls by more than the rest.
LEAST_POWER = 0.9
# A bound stays for good after so many such steps in a row: selections are searches, single steps are noisy.
# In 30 cases of benchmarks/power.py it changes nothing beside 1; the rules of
# docs/multi-label.md need it.
FALLS = 2
# Every fourth step, back from the largest, finds where the path starts. Below this predicted power of the
# rule there, the other steps are not made. In 24 cases the answers were those of all steps.
COARSE = FACTORS[::-4][::-1]
WORTHWHILE = 0.02

Part = tuple[int, Any]  # a bound: the number of its limit, and the subgroup


@dataclass(frozen=True, eq=False)
class Path:
    """Tests of the rules from tight limits to the stated ones; applies to all limits.

    Attributes
    ----------
    selection, fresh, level
        As in `Procedure`.
    """

    selection: Any
    fresh: FreshRows
    level: float

    title = "fixed sequence"
    takes_long = True
    lacks = None

    def run(self) -> Certified | Refused:
        """Return the last rule before the first failure."""
        passed = None
        path = self.rules
        with steps("tested rules", len(path)) as done:
            for step in path:
                answered = self.fresh.by(answering(self.fresh.judge, step.selection))
                families = [RateFamily.of(limit, answered) for limit in self.limits]
                bounds = limit_bounds(families, self.level)
                if any(bound.certified is False for bound in bounds):
                    break
                passed = step
                done()
        if passed is None:
            return Refused(answered, "the safest rule", "")
        within = "; ".join(map(str, passed.selection.problem.limits))
        made = (
            "The rule is the least restricted one of a sequence fixed before these rows were "
            "used. All of "
            f"them were tested for each rule. It was selected within {within}."
        )
        return Certified(passed.selection, self.title, made)

    @property
    def limits(self) -> Sequence[Limit]:
        """The limits."""
        limits: Sequence[Limit] = self.selection.problem.limits
        return limits

    @cached_property
    def rules(self) -> list[Step]:
        """The rules in the order of their tests; of the fresh rows only their numbers are read."""
        n_fresh = [self.fresh.n_rows_of(limit.rate) for limit in self.limits]
        return TighterRules.of(self.selection, n_fresh).from_the_likeliest()


@dataclass(frozen=True, eq=False)
class Step:
    """One rule of a path.

    Attributes
    ----------
    selection : Selection
    powers : dict of (int, object) to float
        Predicted probability of a certificate for each limited rate.
    factor : float
        By how many half intervals the limits are tightened at most.
    """

    selection: Any
    powers: dict[Part, float]
    factor: float = 0.0

    @property
    def power(self) -> float:
        """Predicted probability of all certificates, as if they were independent."""
        return float(np.prod(list(self.powers.values())))


@dataclass(frozen=True, eq=False)
class TighterRules:
    """Rules within the stated limits and within tighter ones; only the selection data are read.

    Attributes
    ----------
    plain : Selection
        Within the stated limits, without a margin for ``confidence``: the path makes its own.
    ratios : sequence of float
        Fresh rows by selection rows, of each limit.
    made : dict
        The rules by the factors of all bounds; None where limits contradict each other.
    """

    plain: Any
    ratios: Sequence[float]
    made: dict[tuple[float, ...], Step | None] = field(default_factory=dict)

    @classmethod
    def of(cls, selection: Any, n_fresh: Sequence[int]) -> TighterRules:
        """Return the rules within the limits of a selection for numbers of fresh rows, one for each limit."""
        plain = selection.within(selection.problem.limits)
        return cls(plain, [n / plain.n_rows for n in n_fresh])

    @property
    def limits(self) -> Sequence[Limit]:
        """The stated limits."""
        limits: Sequence[Limit] = self.plain.problem.limits
        return limits

    def from_the_likeliest(self) -> list[Step]:
        """Return the rules from the strictest with about the greatest predicted power to the loosest.

        The tightest limits need not give the likeliest certificate: a precision close to 1 rests on few rows.
        """
        path = self.steps(COARSE)
        first = likeliest(path)
        if max(step.power for step in path) >= WORTHWHILE:
            beyond = [factor for factor in COARSE if factor > path[first].factor]
            most = min(beyond, default=FACTORS[-1])
            path = self.steps([factor for factor in FACTORS if factor <= most])
            first = likeliest(path)
        return path[first:]

    def steps(self, factors: Sequence[float] = FACTORS) -> list[Step]:
        """Return rules from much tighter limits to the stated ones.

        The limits are tightened by multiples ``factors`` of half their intervals on the selection data. Each
        bound of each subgroup is tightened by itself. It stays where it is if it cannot be tightened
        further, or if `FALLS` steps in a row make its certificate less likely; the others go on.
        """
        start = Step(self.plain, self.powers(self.plain))
        path = [start]
        now = dict.fromkeys(self.widths, 0.0)
        best = dict(start.powers)
        falls = {part: 0 for part, width in self.widths.items() if width > 0.0}
        with steps("tightened rules", len(factors)) as done:
            for factor in factors:
                step, moved, possible = self.next_step(float(factor), now, best, list(falls))
                falls = {part: 0 if part in moved else falls[part] + 1 for part in possible}
                falls = {part: times for part, times in falls.items() if times < FALLS}
                if step is not None:
                    now |= dict.fromkeys(moved, float(factor))
                    best = {part: max(best[part], step.powers[part]) for part in best}
                    path.append(step)
                done()
        return path[::-1]

    def next_step(
        self,
        factor: float,
        now: Mapping[Part, float],
        best: Mapping[Part, float],
        free: Sequence[Part],
    ) -> tuple[Step | None, Sequence[Part], Sequence[Part]]:
        """Return the next step, the bounds that it moves, and those that can be tightened.

        The step is None if no bound can move without a less likely certificate.

        Parameters
        ----------
        factor : float
            Of the moved bounds.
        now, best : dict of (int, object) to float
            The factors of all bounds so far, and the greatest predicted powers.
        free : sequence of (int, object)
            The bounds that may move.
        """
        possible = free
        while free:
            step = self.within({**now, **dict.fromkeys(free, factor)}, factor)
            if step is None:  # some bounds cannot be tightened with the others
                free = possible = self.together(now, free, factor)
                continue
            falling = [
                part for part in free if step.powers[part] < best[part] - (1.0 - LEAST_POWER)
            ]
            if not falling:
                return step, free, possible
            free = [part for part in free if part not in falling]
        return None, [], possible

    def together(
        self, now: Mapping[Part, float], free: Sequence[Part], factor: float
    ) -> list[Part]:
        """Return bounds for a joint step, the first ones first."""
        moved: list[Part] = []
        for part in free:
            if len(moved) + 1 < len(free):
                further = {**now, **dict.fromkeys([*moved, part], factor)}
                if self.within(further, factor) is not None:
                    moved.append(part)
        return moved

    def within(self, factors: Mapping[Part, float], factor: float) -> Step | None:
        """Return the rule within limits tightened by multiples of the widths; None if there is none."""
        key = tuple(factors[part] for part in self.widths)
        if key not in self.made:
            by_limit: list[dict[Any, float]] = [{} for _ in self.limits]
            for (i, subgroup), width in self.widths.items():
                by_limit[i][subgroup] = factors[i, subgroup] * width
            pairs = zip(self.limits, by_limit, strict=True)
            tighter = [limit.tightened(by) for limit, by in pairs]
            try:
                selection = self.plain.within(tighter)
                self.made[key] = Step(selection, self.powers(selection), factor)
            except InfeasibleLimitsError:
                self.made[key] = None
        return self.made[key]

    # -- predicted power -----------------------------------------------------------------------

    @cached_property
    def bounds(self) -> dict[tuple[Any, ...], dict[Part, float]]:
        """The limited rates with their bounds, by rate, subgroup and sense; two limits may be on one rate."""
        numbers = {str(limit): i for i, limit in enumerate(self.limits)}
        bounds: dict[tuple[Any, ...], dict[Part, float]] = {}
        for line in self.plain.estimates:
            if line.limit in numbers:
                of_rate = bounds.setdefault((line.rate, line.subgroup, line.sense), {})
                of_rate[numbers[line.limit], line.subgroup] = float(line.bound)
        return bounds

    def _limited(self, lines: Iterable[Any]) -> Iterator[tuple[Any, Part, float]]:
        """Yield the lines of limited rates, each with its part and the bound."""
        for line in lines:
            for part, bound in self.bounds.get(
                (line.rate, line.subgroup, line.sense), {}
            ).items():
                yield line, part, bound

    @cached_property
    def widths(self) -> dict[Part, float]:
        """Half the interval of each limited rate on the selection data."""
        half: dict[Part, float] = {}
        for line, part, bound in self._limited(self.plain.estimates):
            width = float(np.nan_to_num(max(line.high - line.value, line.value - line.low)))
            if 0 <= bound <= 1 and line.rows > 0:
                # A rate far from its limit here can be close if other limits are tighter.
                width = max(width, SPREAD * float(np.sqrt(bound * (1 - bound) / line.rows)))
            half[part] = width
        return half

    def powers(self, selection: Any) -> dict[Part, float]:
        """Return the predicted probability of a certificate from fresh rows for each limited rate."""
        powers = dict.fromkeys(self.widths, 1.0)
        lines = selection.estimates
        for line, part, bound in self._limited(lines):
            if np.isnan(bound):
                continue
            limit = self.limits[part[0]]
            ratio = self.ratios[part[0]]
            if limit.compares:
                each = [
                    one for one in lines if one.rate == line.rate and one.subgroup != limit.form
                ]
                powers[part] = predicted_power_to_compare(each, limit, ratio)
            else:
                powers[part] = predicted_power(line, bound, limit, ratio)
        return powers


def likeliest(path: Sequence[Step]) -> int:
    """Return the place of the first rule with about the greatest predicted power."""
    powers = np.array([step.power for step in path])
    return int(np.flatnonzero(powers >= LEAST_POWER * powers.max())[0])


def predicted_power(line: Any, bound: float, limit: Limit, ratio: float) -> float:
    """Return the predicted probability of passing the test of one rate, with the noise of both tables.

    Parameters
    ----------
    line : RateLine
        The rate on the selection data.
    bound, limit : float, Limit
        Its bound in the given limit, and this limit.
    ratio : float
        Fresh rows by selection rows.
    """
    if np.isnan(line.value) or not line.rows > 0:
        return 0.0
    if limit.rate.is_share:
        error, most = (
            (line.value, bound) if limit.from_above else (1.0 - line.value, 1.0 - bound)
        )
        n = np.array([line.rows])
        return float(power_of_counts(error * n, n, most, ratio, LEVEL)[0])
    room = (bound - line.value) * (1.0 if limit.from_above else -1.0)
    here = max(line.high - line.value, line.value - line.low) / SPREAD
    if not here > 0.0:
        return 0.0
    there = here / np.sqrt(ratio)
    return float(ndtr((room + ndtri(LEVEL) * there) / np.hypot(here, there)))


def predicted_power_to_compare(lines: Sequence[Any], limit: Limit, ratio: float) -> float:
    """Return the predicted probability of passing the tests of all pairs of subgroups.

    Without it, sequences start at the strictest rule, which is often constant. In 16 cases of four tables (a
    ratio, misses and false alarms of one threshold) 11 instead of 9 are certified, and these 9 err .062 less.

    Parameters
    ----------
    lines : sequence of RateLine
        The compared rates on the selection data.
    limit : Limit
        A gap or ratio.
    ratio : float
        Fresh rows by selection rows.
    """
    known = [line for line in lines if line.rows > 0 and not np.isnan(line.value)]
    if len(known) < max(2, len(lines)):
        return 0.0
    n = np.array([line.rows for line in known])
    # One half of a row more: no rows with an answer show nothing of a ratio.
    rates = np.array([(line.value * line.rows + 0.5) / (line.rows + 1.0) for line in known])
    here = limit.deviations(np.clip(rates * (1.0 - rates), 0.0, None) / n)
    there = here / np.sqrt(ratio)
    powers = ndtr(
        (limit.rooms(rates, rates) + ndtri(LEVEL) * there)
        / np.maximum(np.hypot(here, there), 1e-12)
    )
    return float(powers[~np.eye(len(n), dtype=bool)].min())
