"""The path: rules within tighter and tighter limits, in the order in which a fixed sequence tests them."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from scipy.special import ndtr, ndtri

from tailboost.core.array_types import Model
from tailboost.core.long_work import steps
from tailboost.rates import GAP, InfeasibleLimitsError, Limit
from tailboost.rates.ranks import most_reached
from tailboost.selection.problem import SPREAD

__all__ = ["Path", "from_the_likeliest"]

Part = tuple[int, Any]  # a bound: the number of its limit, and the subgroup

# Limits are tightened by these multiples of half their intervals on the selection data. In 277 paired cases
# of benchmarks/power.py this path captured .043 ± .032 more than eleven equal steps from the largest margin,
# in 1.5 times the processor time. Looser rules at its end gained nothing in 74 cases.
FACTORS = (*np.arange(0.125, 2.0, 0.125), *np.arange(2.0, 3.0, 0.25), 3.0, 3.5, 4.0, 5.0, 6.0, 8.0)
# Level of the tests for predictions of their power; the sequence is valid for any start.
LEVEL = 0.05
# Least predicted power of the first rule, relative to the greatest: selection data favour loose rules.
# A bound stays where it is if the predicted power of its rate falls by more than the rest.
LEAST_POWER = 0.9
# A bound stays for good after so many such steps in a row: selections are searches, single steps are noisy.
# In 30 cases of benchmarks/power.py it changes nothing beside 1; the rules of docs/multi-label.md need it.
FALLS = 2
# Every fourth step, back from the largest, finds where the path starts. Below this predicted power of the
# rule there, the other steps are not made. In 24 cases the answers were those of all steps.
COARSE, WORTHWHILE = FACTORS[::-4][::-1], 0.02


def from_the_likeliest(model: Model, limits: Sequence[Limit], n_fresh: Sequence[int]) -> Iterator[Any]:
    """Yield the rules of the path from the strictest with about the greatest predicted power to the loosest.

    The order depends on the selection data and on the numbers of fresh rows alone, one for each limit. The
    tightest limits need not give the likeliest certificate: a precision close to 1 rests on few rows.
    """
    path = Path.of(model, limits, n_fresh)
    rules, powers, factors = path.rules(COARSE)
    first, together = _likeliest(powers)
    if together >= WORTHWHILE:
        most = min((factor for factor in COARSE if factor > factors[first]), default=FACTORS[-1])
        rules, powers, _ = path.rules([factor for factor in FACTORS if factor <= most])
        first, _ = _likeliest(powers)
    yield from rules[first:]


@contextmanager
def _silent() -> Iterator[None]:
    """Ignore warnings of a selection: missed limits are no reason to skip a rule."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        yield


def _likeliest(powers: Sequence[Mapping[Part, float]]) -> tuple[int, float]:
    """Return the first rule with about the greatest predicted power, and this greatest power."""
    together = np.array([np.prod(list(each.values())) for each in powers])
    return int(np.flatnonzero(together >= LEAST_POWER * together.max())[0]), float(together.max())


@dataclass(frozen=True, eq=False)
class Path:
    """Rules within the limits and within tighter ones, with what they have in common."""

    model: Model
    limits: Sequence[Limit]
    plain: Any  # the rule within the given limits
    ratios: Sequence[float]  # fresh rows by selection rows, of each limit
    made: dict[tuple[float, ...], Any] = field(default_factory=dict)  # rules by the factors of all bounds

    @classmethod
    def of(cls, model: Model, limits: Sequence[Limit], n_fresh: Sequence[int]) -> Path:
        """Return the path of a classifier for numbers of fresh rows, one for each limit."""
        with _silent():
            plain = model.reweight(limits=list(limits), confidence=0)  # the path itself tightens the limits
        return cls(model, limits, plain, [n / model.n_selection_ for n in n_fresh])

    def rules(
        self, factors: Sequence[float] = FACTORS
    ) -> tuple[list[Any], list[dict[Part, float]], list[float]]:
        """Return rules from much tighter limits to the given ones, their predicted powers, and their factors.

        The limits are tightened by multiples ``factors`` of half their intervals on the selection data. Each
        bound of each subgroup is tightened by itself. It stays where it is if it cannot be tightened
        further, or if `FALLS` steps in a row make its certificate less likely; the others go on.
        """
        rules, powers, of_rules = [self.plain], [self.powers(self.plain)], [0.0]
        now, best = dict.fromkeys(self.widths, 0.0), dict(powers[0])
        falls = {part: 0 for part, width in self.widths.items() if width > 0.0}
        with steps("tightened rules", len(factors)) as done:
            for factor in factors:
                rule, now, reached, moved, possible = self._tighter(float(factor), now, best, list(falls))
                falls = {part: 0 if part in moved else falls[part] + 1 for part in possible}
                falls = {part: times for part, times in falls.items() if times < FALLS}
                if rule is not None:
                    best = {part: max(best[part], reached[part]) for part in best}
                    rules.append(rule)
                    powers.append(reached)
                    of_rules.append(factor)
                done()
        return rules[::-1], powers[::-1], of_rules[::-1]

    def _tighter(
        self, factor: float, now: dict[Part, float], best: Mapping[Part, float], free: list[Part]
    ) -> tuple[Any, dict[Part, float], dict[Part, float], list[Part], list[Part]]:
        """Return the next rule, the factors, its predicted powers, the moved bounds and the possible ones.

        The rule is None if no bound can move without a less likely certificate.
        """
        possible = free
        while free:
            further = now | dict.fromkeys(free, factor)
            rule = self.within(further)
            if rule is None:  # some bounds cannot be tightened with the others
                free = possible = self.possible(now, free, factor)
                continue
            reached = self.powers(rule)
            falling = [part for part in free if reached[part] < best[part] - (1.0 - LEAST_POWER)]
            if not falling:
                return rule, further, reached, free, possible
            free = [part for part in free if part not in falling]
        return None, now, {}, [], possible

    @cached_property
    def bounds(self) -> dict[tuple[Any, ...], tuple[Part, float]]:
        """The limited rates with their bounds, by rate, subgroup and sense."""
        numbers = {str(limit): i for i, limit in enumerate(self.limits)}
        return {
            (line.rate, line.subgroup, line.sense): ((numbers[line.limit], line.subgroup), float(line.bound))
            for line in self.plain.rates_
            if line.limit in numbers
        }

    @cached_property
    def widths(self) -> dict[Part, float]:
        """Half the interval of each limited rate on the selection data."""
        half: dict[Part, float] = {}
        for line in self.plain.rates_:
            part, bound = self.bounds.get((line.rate, line.subgroup, line.sense), (None, np.nan))
            if part is None:
                continue
            width = float(np.nan_to_num(max(line.high - line.value, line.value - line.low)))
            if 0 <= bound <= 1 and line.rows > 0:
                # A rate far from its limit here can be close if other limits are tighter.
                width = max(width, SPREAD * float(np.sqrt(bound * (1 - bound) / line.rows)))
            half[part] = width
        return half

    def within(self, factors: Mapping[Part, float]) -> Any:
        """Return the rule within limits tightened by multiples of the widths; None if there is none."""
        key = tuple(factors[part] for part in self.widths)
        if key not in self.made:
            self.made[key] = self._within(factors)
        return self.made[key]

    def _within(self, factors: Mapping[Part, float]) -> Any:
        tighter = []
        for i, limit in enumerate(self.limits):
            by = {part[1]: factors[part] * width for part, width in self.widths.items() if part[0] == i}
            tighter.append(limit.tightened(by))
        try:
            with _silent():
                return self.model.reweight(limits=tighter, confidence=0)
        except InfeasibleLimitsError:
            return None

    def possible(self, now: Mapping[Part, float], free: Sequence[Part], factor: float) -> list[Part]:
        """Return bounds for a joint step, the first ones first."""
        moved: list[Part] = []
        for part in free:
            if (
                len(moved) + 1 < len(free)
                and self.within(dict(now) | dict.fromkeys([*moved, part], factor)) is not None
            ):
                moved.append(part)
        return moved

    def powers(self, rule: Any) -> dict[Part, float]:
        """Return the predicted probability that fresh rows certify each limited rate of a rule."""
        powers, lines = dict.fromkeys(self.widths, 1.0), list(rule.rates_)
        for line in lines:
            part, bound = self.bounds.get((line.rate, line.subgroup, line.sense), (None, np.nan))
            if part is None or np.isnan(bound):
                continue
            limit, ratio = self.limits[part[0]], self.ratios[part[0]]
            if limit.compares:
                each = [one for one in lines if one.rate == line.rate and one.subgroup != limit.form]
                powers[part] = predicted_power_to_compare(each, limit, ratio)
            else:
                powers[part] = predicted_power(line, bound, limit, ratio)
        return powers


def predicted_power(line: Any, bound: float, limit: Limit, ratio: float) -> float:
    """Return the predicted probability that the test of one rate passes, with the noise of both tables.

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
        error, most = (line.value, bound) if limit.from_above else (1.0 - line.value, 1.0 - bound)
        n = int(ratio * line.rows)
        rate = (error * line.rows + 0.5) / (line.rows + 1.0)
        passes = most_reached(n, most, LEVEL) if n else -1
        if passes < 0:
            return 0.0
        return float(ndtr((passes + 0.5 - n * rate) / np.sqrt(n * rate * (1.0 - rate) * (1.0 + ratio))))
    room = (bound - line.value) * (1.0 if limit.from_above else -1.0)
    here = max(line.high - line.value, line.value - line.low) / SPREAD
    if not here > 0.0:
        return 0.0
    there = here / np.sqrt(ratio)
    return float(ndtr((room + ndtri(LEVEL) * there) / np.hypot(here, there)))


def predicted_power_to_compare(lines: Sequence[Any], limit: Limit, ratio: float) -> float:
    """Return the predicted probability that the tests of all pairs of subgroups pass.

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
    factor, gap = (1.0, limit.bound) if limit.form == GAP else (limit.bound, 0.0)
    variance = np.clip(rates * (1.0 - rates), 0.0, None) / n
    here = np.sqrt(factor**2 * variance[:, None] + variance[None])
    there = here / np.sqrt(ratio)
    room = gap - factor * rates[:, None] + rates[None]
    powers = ndtr((room + ndtri(LEVEL) * there) / np.maximum(np.hypot(here, there), 1e-12))
    return float(powers[~np.eye(len(n), dtype=bool)].min())
