"""Limits on rates: a bound of each rate of a family, or of the gap or ratio between its rates.

A rate, a gap or a ratio becomes a limit when it is compared with a number, as in ``error() <= 0.1``.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import field, replace
from functools import cached_property
from itertools import permutations
from numbers import Real
from typing import TYPE_CHECKING, NoReturn

import numpy as np

from tailboost.core import (
    ROUNDING,
    Derived,
    Floats,
    Name,
    Stated,
    frozen_value,
    plain,
    shown,
    stated_words,
)
from tailboost.rates.subgroups import Terms

if TYPE_CHECKING:
    from tailboost.rates.rate import Rate  # whose comparisons make limits

# The largest bound of a cost.
ALL_COSTS = 1e12
# What a statement takes from a family of rates: each of them or the largest; a limit bounds each of them, or
# their gap or ratio.
EACH = "each"
LARGEST = "largest"
AT_MOST = "at most"
AT_LEAST = "at least"
GAP = "gap"
RATIO = "ratio"
COMPARISONS = (GAP, RATIO)
# The words for bounds of them.
WORDS = {GAP: "gap at most", RATIO: "ratio at least"}
# By the sense of a bound: the violation is this number times rate minus bound.
SIGNS = {"≤": 1.0, "≥": -1.0}
# The same sense in Python.
IN_PYTHON = {"≤": "<=", "≥": ">="}


class AbsentError(ValueError):
    """A label or group that a limit needs is not among the given rows."""


class Limitable:
    """A rate or a statistic, whose comparison with a number makes a limit."""

    def __lt__(self, bound: Stated) -> NoReturn:
        raise TypeError(f"a limit of {self!r} includes its bound {bound!r}: write <= or >=")

    __gt__ = __lt__


@frozen_value
class Expression(Derived):
    """What is said of a family of rates: a `Statistic`, or a `Limit`."""

    form: str
    rate: Rate

    # -- what follows from the form ----------------------------------------------------------------

    @cached_property
    def compares(self) -> bool:
        """Whether the gap or ratio between subgroups is meant."""
        return self.form in COMPARISONS

    @cached_property
    def sense(self) -> str:
        """The sign of a bound, "≤" or "≥"."""
        if self.form in (AT_LEAST, RATIO):
            return "≥"
        return "≤"

    @cached_property
    def sides(self) -> str:
        """The signs of the bounds of each rate for a certificate."""
        if self.form in (EACH, *COMPARISONS) and not self.rate.loss:
            return "≤≥"
        return self.sense

    @property
    def loosest(self) -> float:
        """The loosest bound: 0 or 1 for fractions, for costs an end of their range, at most `ALL_COSTS`."""
        if self.rate.quantity != "cost" or self.form == RATIO:
            return float(self.sense == "≤")
        # Of a cost by row no more is known than `ALL_COSTS`, and a deferred row may cost 0. The value of all
        # possible costs is the largest, the smallest, or their gap.
        possible_costs = np.append(0.0, self.rate.row_rate.matrix or (ALL_COSTS, -ALL_COSTS))
        return min(self.value(possible_costs), ALL_COSTS)

    # -- values and words --------------------------------------------------------------------------

    def keeps(self, value: float, bound: float) -> bool | None:
        """Return whether a value satisfies a bound of it; None if one of them is NaN."""
        excess = SIGNS[self.sense] * (value - bound)
        if np.isnan(excess):
            return None
        return bool(excess <= ROUNDING)

    def value(self, values: Floats) -> float:
        """Return the gap, the ratio, the largest or the smallest rate, depending on the form.

        Undefined rates are NaN and do not count. The ratio of two rates of 0 is 1.
        """
        smallest = float(np.fmin.reduce(values))
        largest = float(np.fmax.reduce(values))
        if self.form == GAP:
            return largest - smallest
        if self.form == RATIO:
            if largest == 0:
                return 1.0
            return smallest / largest
        if self.sense == "≥":
            return smallest
        return largest


@frozen_value
class Statistic(Expression, Limitable):
    """Each rate of a family, or one number of all: made by `largest`, `gap` or `ratio`.

    The largest rate is for objectives. A comparison of a gap or ratio with a number makes a limit.

    Parameters
    ----------
    form : {"each", "largest", "gap", "ratio"}
        The number of the family. Of a single rate "each" is the rate itself.
    rate : Rate
        The family.
    """

    @cached_property
    def worst(self) -> bool:
        """Whether the largest rate of the family is meant."""
        return self.form == LARGEST

    def __le__(self, bound: Stated) -> Limit:
        if self.form != GAP:
            raise ValueError(
                f"{self!r} has no upper bound: limit each rate, {self.rate!r} <= {bound!r}, "
                "or a ratio from below"
            )
        return self.within(bound)

    def __ge__(self, bound: Stated) -> Limit:
        if self.form != RATIO:
            raise ValueError(
                f"{self!r} has no lower bound: limit each rate, {self.rate!r} >= {bound!r}, "
                "or a gap from above"
            )
        return self.within(bound)

    def within(self, level: Stated) -> Limit:
        """Return the limit at a level."""
        return Limit.of(self.form if self.compares else AT_MOST, self.rate, level)

    def __str__(self) -> str:
        if self.compares:
            return f"{self.rate}: {self.form}"
        return f"{'largest ' * self.worst}{self.rate}"

    def __repr__(self) -> str:
        if self.form == EACH:
            return f"{self.rate!r}"
        return f"{self.form}({self.rate!r})"


@frozen_value
class Limit(Expression):
    """Limit on a family of rates.

    Parameters
    ----------
    form : {"at most", "at least", "gap", "ratio"}
        Upper or lower bound of each rate, upper bound of the largest minus the smallest rate, or lower bound
        of the smallest divided by the largest.
    rate : Rate
        The family.
    bound : float or tuple of (name, float) pairs
        The bound, or bounds by subgroup. The name None stands for all other subgroups; without it they are
        free.
    in_percent : bool, default=False
        Whether the bound was stated in percent, and is printed so.
    """

    bound: Stated
    in_percent: bool = field(compare=False)

    def __bool__(self) -> NoReturn:
        # ``0.1 <= rate <= 0.3`` is a limit "and" a limit, and asks for a truth value.
        raise TypeError(
            f"a limit is neither true nor false; write two limits, not a chain: {self!r}"
        )

    @classmethod
    def of(cls, form: str, rate: Rate, bound: Stated) -> Limit:
        """Return the limit, checked as far as possible without rows.

        Raises
        ------
        TypeError, ValueError
            If the bound is not a number, or is outside of the possible range.
        """
        compares = form in COMPARISONS
        if rate.loss and form != AT_MOST:
            raise ValueError(f"{rate!r} has an upper bound alone: write it with <=")
        # Intervals take the rates of subgroups as independent. Of 400 true gaps of a representation 10 % were
        # outside of their 95 % interval, of gaps of selection rates 3 %.
        if compares and rate.is_ratio:
            raise ValueError(
                f"{form}({rate!r}): the denominator depends on the answers: limit each rate"
            )
        if compares and rate.by is None:
            raise ValueError(
                f"{form}({rate!r}): name subgroups to compare, for example by='group'"
            )
        if compares or not isinstance(bound, Mapping) or not bound:
            bound = {None: bound}
        numbers = {
            plain(name): checked_bound(given, form, rate) for name, given in bound.items()
        }
        in_percent = "%" in f"{[*bound.values()]}" and rate.quantity != "cost"
        if numbers.keys() == {None}:
            return cls(form, rate, numbers[None], in_percent)
        # In one order, so that limits are equal in whatever order their bounds are stated.
        return cls(form, rate, tuple(sorted(numbers.items(), key=repr)), in_percent)

    @property
    def bound_of(self) -> dict[Name, float]:
        """The bound of each named subgroup; the name None stands for all others."""
        if isinstance(self.bound, tuple):
            return dict(self.bound)
        return {None: self.bound}

    @property
    def loosened(self) -> Limit:
        """The limit on the same subgroups with the loosest bound, which every rule keeps."""
        bound: Stated = self.loosest
        if isinstance(self.bound, tuple):
            bound = tuple((name, bound) for name, _ in self.bound)
        return replace(self, bound=bound)

    def levels(self, names: list[Name]) -> Floats:
        """Return the bound of each subgroup, NaN for a free one, shape (m,); 0 if the rates are compared.

        Raise AbsentError with all named subgroups with a bound that do not exist.
        """
        if self.compares:
            return np.zeros(len(names))
        bound_of = self.bound_of
        unknown = sorted(bound_of.keys() - {None, *names}, key=str)
        if unknown:
            raise AbsentError(
                f"{self!r}: no subgroup is called {' or '.join(map(repr, unknown))}: there are {shown(names)}"
            )
        return np.array([bound_of.get(name, bound_of.get(None, np.nan)) for name in names])

    # -- of confusion counts -----------------------------------------------------------------------

    def inequalities(self, terms: Terms) -> list[tuple[Floats, float, float]]:
        """Return the inequalities ``⟨matrix, N⟩ + free z ≤ bound`` of the limit over confusion counts N.

        ``terms`` are those of the limited rate. The inequalities are scaled to rates of about 1. Subgroups
        without rows and free subgroups have none. Of a gap or ratio, each rate is at most the free variable
        z, and at least factor · z − gap, see `factor_and_gap`. Raise ValueError for a ratio of rates that may
        be negative.
        """
        levels = self.levels(terms.names)
        is_limited = (terms.mass > 0) & ~np.isnan(levels)
        matrices = terms.beyond(levels)[is_limited] / terms.scale
        if not self.compares:
            return [(SIGNS[self.sense] * matrix, 0.0, 0.0) for matrix in matrices]
        self.refuse_negative(terms.low)
        factor, gap = self.factor_and_gap
        below = [(matrix, -1.0, 0.0) for matrix in matrices]
        return below + [(-matrix, factor, gap / terms.scale) for matrix in matrices]

    def refuse_negative(self, lowest_rate: float) -> None:
        """Raise ValueError for a ratio of rates that may be negative."""
        if lowest_rate < 0 and self.form == RATIO:
            raise ValueError(
                f"{self!r}: a ratio of rates that may be negative has no bound; limit the gap"
            )

    # -- of a gap or ratio -------------------------------------------------------------------------

    def interval(self, lower: Floats, upper: Floats) -> tuple[float, float]:
        """Return the bounds on a gap or ratio from those on each rate, shape (m,) each."""
        # The first pair are the rates as near as their bounds allow, the others each two as far apart.
        highest = lower.max()
        pairs = [(min(upper.min(), highest), highest)]
        pairs += [(lower[i], upper[j]) for i, j in permutations(range(len(lower)), 2)]
        values = [self.value(np.array(pair)) for pair in pairs]
        nearest = values[0]
        if self.sense == "≤":
            return nearest, max(values)
        return min(values), nearest

    @property
    def factor_and_gap(self) -> tuple[float, float]:
        """The numbers by which a gap or ratio is kept if factor · rᵢ − rⱼ ≤ gap for each two of its rates.

        They are 1 and the largest gap, or the smallest ratio and 0.
        """
        if self.form == GAP:
            return 1.0, self.bound
        return self.bound, 0.0

    def rooms(self, first: Floats, second: Floats) -> Floats:
        """Return the room gap − factor · rᵢ + rⱼ of each ``first`` beside each ``second`` rate.

        The rates have the shape (..., m), and the rooms (..., m, m).
        """
        factor, gap = self.factor_and_gap
        return gap - factor * first[..., None] + second[..., None, :]

    def deviations(self, variances: Floats) -> Floats:
        """Return the standard deviation of factor · rᵢ − rⱼ for each two independent rates.

        The variances of the rates have the shape (..., m), and the deviations (..., m, m).
        """
        factor, _ = self.factor_and_gap
        return np.sqrt(factor**2 * variances[..., None] + variances[..., None, :])

    # -- of counts and violations ------------------------------------------------------------------

    def allowed(self, names: list[Name]) -> Floats:
        """Return the largest share that may count against the limit in each subgroup, NaN for a free one.

        A gap or ratio limits no share: then the numbers mean nothing, but none is NaN, which exact tests on
        fresh rows take for a free subgroup.
        """
        levels = self.levels(names)
        if self.sense == "≤":
            return levels
        return 1.0 - levels

    def violation(self, excesses: Floats) -> Floats:
        """Return by how much the limit is violated, shape (...); 0 if it is kept.

        Parameters
        ----------
        excesses : ndarray of shape (..., m)
            Of each subgroup ± (rate − level), with the sign in `SIGNS`; NaN counts as none. Compared rates
            have the level 0, so the excesses of a gap are the rates, those of a ratio −rate.
        """
        violation = np.fmax.reduce(excesses, -1)
        if self.compares:  # no two rates have less room than these
            factor, gap = self.factor_and_gap
            violation = violation - factor * np.fmin.reduce(excesses, -1) - gap
        return np.fmax(violation, 0.0)

    # -- words -------------------------------------------------------------------------------------

    def __str__(self) -> str:
        words = []
        for name, value in self.bound_of.items():
            subgroup = f" for {name}"
            if name is None:
                subgroup = " for the others" * (len(self.bound_of) > 1)
            words.append(f"{stated_words(value, in_percent=self.in_percent)}{subgroup}")
        return f"{self.rate}: {WORDS.get(self.form, self.form)} {', '.join(words)}"

    def __repr__(self) -> str:
        """Return the limit as a text for `parse`, in percent if stated so, and this is exact."""
        text_of = {}
        for name, value in self.bound_of.items():
            text_of[name] = f"{value!r}"
            percent = f"{100.0 * value:.15g}%"
            if self.in_percent and float(percent[:-1]) / 100 == value:
                text_of[name] = percent
        if isinstance(self.bound, tuple):
            bounds = f"{{{', '.join(f'{name!r}: {text}' for name, text in text_of.items())}}}"
        else:
            bounds = text_of[None]
        family = f"{self.form}({self.rate!r})" if self.compares else f"{self.rate!r}"
        return f"{family} {IN_PYTHON[self.sense]} {bounds}"


def checked_bound(bound: Stated, form: str, rate: Rate) -> float:
    """Return a bound as a number; raise TypeError or ValueError if it is none, or out of range."""
    number = bound
    if f"{bound}".endswith("%"):
        with suppress(ValueError):  # a number, or the next check names the text
            number = float(f"{bound}"[:-1]) / 100
    if isinstance(number, bool) or not isinstance(number, Real):
        raise TypeError(
            f"{rate!r}: a bound must be a number or a text such as '30%', and of each "
            f"rate also a dict of them by subgroup, got {bound!r}"
        )
    low = 0.0
    high = 1.0
    if rate.quantity == "cost" and form != RATIO:
        high = ALL_COSTS
        if form != GAP:
            low = -high
    if not low <= float(number) <= high:
        raise ValueError(f"{rate!r}: the bound must be from {low:g} to {high:g}, got {bound!r}")
    return float(number)
