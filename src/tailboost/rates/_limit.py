"""Limits on rates, and what is made small within them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from numbers import Real
from typing import Any

import numpy as np

from tailboost._near import did_you_mean
from tailboost._typing import Floats
from tailboost.rates._rate import Rate, Terms
from tailboost.rates.strata import Strata

AT_MOST, AT_LEAST, GAP, RATIO = "at most", "at least", "gap", "ratio"


@dataclass(frozen=True)
class Row:
    """One inequality of a program: ``⟨matrix, N⟩ + free z ≤ bound``.

    Parameters
    ----------
    matrix : ndarray of shape (W, A)
        Over tallies.
    free : float
        Coefficient of the limit's free variable; 0 where it has none.
    bound : float
        The right side.
    """

    matrix: Floats
    free: float
    bound: float


@dataclass(frozen=True)
class Limit:
    """A limit on a family of rates.

    Parameters
    ----------
    form : {"at most", "at least", "gap", "ratio"}
        Whether each rate is limited from above or below, the largest less the smallest from above, or the
        smallest over the largest from below.
    rate : Rate
        The family.
    bound : float or tuple of (unit, float) pairs
        The number; of units by name, where None stands for the rest and units not named are free.
    """

    form: str
    rate: Rate
    bound: Any

    @classmethod
    def of(cls, form: str, rate: Rate, bound: Any) -> Limit:
        """Return the limit, checked as far as it can be without rows.

        Raises
        ------
        TypeError, ValueError
            If the bound is no number, or is one that nothing or everything keeps.
        """
        if isinstance(bound, Mapping) and form in (AT_MOST, AT_LEAST):
            if not bound:
                raise ValueError(f"{rate!r}: a dict of bounds must name a unit, got {{}}")
            pairs = tuple((_plain(name), _number(rate, value)) for name, value in bound.items())
            return cls(form, rate, pairs)
        value = _number(rate, bound)
        if form in (GAP, RATIO):
            if rate.is_ratio:
                raise ValueError(
                    f"{form}({rate!r}): the rows that {rate.words!r} counts among depend on the answers, so "
                    "that its differences are no linear program; limit it in each unit instead"
                )
            if rate.by is None:
                raise ValueError(f"{form}({rate!r}) compares units: say which, as by='group'")
            most = np.inf if form == GAP else 1.0
            if not 0.0 <= value <= most:
                raise ValueError(f"{form}({rate!r}): the bound must be from 0 to {most:g}, got {value:g}")
        return cls(form, rate, value)

    def bounds(self, names: list[Any]) -> Floats:
        """Return the bound of each unit, NaN for one that is free, shape (m,).

        Raises
        ------
        ValueError
            If a unit is named that there is not.
        """
        if not isinstance(self.bound, tuple):
            return np.full(len(names), float(self.bound))
        known = {_plain(name): i for i, name in enumerate(names)}
        given = dict(self.bound)
        found = np.full(len(names), given.pop(None, np.nan)) if names != [None] else np.full(1, np.nan)
        for name, value in given.items():
            if name not in known:
                near = did_you_mean(str(name), map(str, known))
                raise ValueError(f"{self!r}: no unit is called {name!r}: {near}there are {names[:20]}")
            found[known[name]] = value
        return found

    def rows(self, strata: Strata) -> list[Row]:
        """Return the inequalities of the limit, scaled to rates of about 1.

        Rates without rows to count among have none.
        """
        terms, scale = self.rate.terms(strata), self.rate.scale(strata)
        there = terms.defined
        if self.form in (GAP, RATIO):
            each = terms.linear[there] / scale
            if len(each) < 2:
                return []
            level, least = (self.bound / scale, 1.0) if self.form == GAP else (0.0, self.bound)
            return [Row(C, -1.0, level) for C in each] + [Row(-C, least, 0.0) for C in each]
        bounds = self.bounds(terms.names)
        there &= ~np.isnan(bounds)
        sign = 1.0 if self.form == AT_MOST else -1.0
        if terms.is_ratio:
            return [Row(sign * C, 0.0, 0.0) for C in terms.beyond(np.nan_to_num(bounds))[there]]
        pairs = zip(terms.linear[there] / scale, bounds[there] / scale, strict=True)
        return [Row(sign * C, 0.0, sign * b) for C, b in pairs]

    def excess(self, names: list[Any], values: Floats) -> float:
        """Return by how much rates break the limit, 0 where they keep it; undefined rates break nothing."""
        known = values[~np.isnan(values)]
        if self.form == GAP:
            return max(0.0, float(np.ptp(known)) - self.bound) if len(known) else 0.0
        if self.form == RATIO:
            return max(0.0, self.bound * float(known.max()) - float(known.min())) if len(known) else 0.0
        over = values - self.bounds(names)
        return float(np.nan_to_num(over if self.form == AT_MOST else -over).max(initial=0.0))

    def said_of(self, values: Floats) -> float:
        """Return the number the limit is about: the gap, the ratio, the largest or the least of the rates."""
        known = values[~np.isnan(values)]
        if not len(known):
            return float("nan")
        if self.form == GAP:
            return float(np.ptp(known))
        if self.form == RATIO:
            return float(known.min() / known.max()) if known.max() > 0 else 1.0
        return float(known.max() if self.form == AT_MOST else known.min())

    def terms(self, strata: Strata) -> Terms:
        """Return the terms of its rates."""
        return self.rate.terms(strata)

    def __bool__(self) -> bool:
        raise TypeError(f"a limit is neither true nor false; write two limits instead of a chain: {self!r}")

    def __str__(self) -> str:
        if isinstance(self.bound, tuple):
            each = [f"{'else' if name is None else name} {value:g}" for name, value in self.bound]
            return f"{self.rate}: {self.form} {', '.join(each)}"
        sense = {GAP: "gap at most", RATIO: "ratio at least"}.get(self.form, self.form)
        return f"{self.rate}: {sense} {self.bound:g}"

    def __repr__(self) -> str:
        sign = "<=" if self.form in (AT_MOST, GAP) else ">="
        left = f"{self.form}({self.rate!r})" if self.form in (GAP, RATIO) else repr(self.rate)
        right = dict(self.bound) if isinstance(self.bound, tuple) else self.bound
        return f"{left} {sign} {right!r}"


@dataclass(frozen=True)
class Spread:
    """The gap or the ratio of a family, which becomes a limit when it is compared. Made by `gap`, `ratio`.

    Parameters
    ----------
    form : {"gap", "ratio"}
        Which.
    rate : Rate
        The family.
    """

    form: str
    rate: Rate

    def __le__(self, bound: Any) -> Limit:
        return self._limit(GAP, bound, "ratio(...) is limited from below: ratio(...) >= 0.8")

    def __ge__(self, bound: Any) -> Limit:
        return self._limit(RATIO, bound, "gap(...) is limited from above: gap(...) <= 0.02")

    def _limit(self, form: str, bound: Any, otherwise: str) -> Limit:
        if form != self.form:
            raise ValueError(otherwise)
        return Limit.of(form, self.rate, bound)

    def __repr__(self) -> str:
        return f"{self.form}({self.rate!r})"


@dataclass(frozen=True)
class Largest:
    """The largest rate of a family, to be made small. Made by `largest`.

    Parameters
    ----------
    rate : Rate
        The family.
    """

    rate: Rate

    def __str__(self) -> str:
        return f"largest {self.rate}"

    def __repr__(self) -> str:
        return f"largest({self.rate!r})"


@dataclass(frozen=True)
class Objective:
    """What is made small: one rate, or the largest of a family.

    Parameters
    ----------
    rate : Rate
        The rate or family.
    worst : bool
        Whether it is the largest of the family.
    """

    rate: Rate
    worst: bool

    @classmethod
    def of(cls, given: Any) -> Objective:
        """Return the objective that a rate, or the largest of a family, stands for.

        Raises
        ------
        TypeError, ValueError
            If it is none.
        """
        worst = isinstance(given, Largest)
        rate = given.rate if isinstance(given, Largest) else given
        if not isinstance(rate, Rate):
            raise TypeError(f"objective must be a rate or the largest of a family of rates, got {given!r}")
        if rate.is_ratio:
            raise ValueError(
                f"objective={given!r}: the rows that it counts among depend on the answers; make "
                "another rate small and limit this one"
            )
        if not worst and rate.by is not None:
            raise ValueError(f"objective={given!r} is a family: say largest({rate!r})")
        return cls(rate, worst)

    def value(self, values: Floats) -> float:
        """Return what is made small, of the rates of all units."""
        known = values[~np.isnan(values)]
        return float(known.max()) if len(known) else float("nan")

    def __str__(self) -> str:
        return f"largest {self.rate}" if self.worst else str(self.rate)


def checked_limits(limits: Any) -> tuple[Limit, ...]:
    """Return limits as a tuple.

    Raises
    ------
    TypeError
        If something is no limit.
    """
    found = (limits,) if isinstance(limits, Limit) else limits
    if not isinstance(found, Iterable) or isinstance(found, (str, Mapping)):
        raise TypeError(f"limits must be a list of limits on rates, got {limits!r}")
    found = tuple(found)
    for limit in found:
        if not isinstance(limit, Limit):
            raise TypeError(
                f"limits: {limit!r} is no limit; compare a rate with a number, as "
                "rates.error(by='class') <= 0.3"
            )
    return found


def _number(rate: Rate, bound: Any) -> float:
    if isinstance(bound, bool) or not isinstance(bound, (Real, np.floating, np.integer)):
        raise TypeError(f"{rate!r}: a bound must be a number or a dict of numbers by unit, got {bound!r}")
    if not np.isfinite(float(bound)):
        raise ValueError(f"{rate!r}: a bound must be finite, got {bound!r}")
    return float(bound)


def _plain(value: Any) -> Any:
    if isinstance(value, tuple):
        return tuple(_plain(v) for v in value)
    return value.item() if isinstance(value, np.generic) else value
