"""Gaps, ratios and largest rates, and what is made small."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from tailboost.core.array_types import Floats
from tailboost.rates.rate import ABOVE, GAP, RATIO, Expression, Limit, Rate, as_expression


class InfeasibleLimitsError(ValueError):
    """Limits that no mixture of decision rules keeps together on the rows of the choice."""


# More than any cost.
ALL_COSTS = 1e12


@dataclass(frozen=True)
class Spread(Expression):
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

    compares = True

    def __le__(self, bound: Any) -> Limit:
        return self._limit(GAP, bound, "ratio(...) is limited from below: ratio(...) >= 0.8")

    def __ge__(self, bound: Any) -> Limit:
        return self._limit(RATIO, bound, "gap(...) is limited from above: gap(...) <= 0.02")

    @property
    def least(self) -> float:
        """The tightest limit there is."""
        return 0.0 if self.form == GAP else 1.0

    @property
    def most(self) -> float:
        """A limit that every rule keeps."""
        if self.form == RATIO:
            return 0.0
        return ALL_COSTS if self.rate.kind == "cost" else 1.0

    def within(self, level: float) -> Limit:
        """Return the limit at a level."""
        return Limit.of(self.form, self.rate, level)

    def value(self, values: Floats) -> float:
        """Return the gap or ratio, of the rates of all units."""
        return self.within(self.most).said_of(values)

    def __str__(self) -> str:
        return f"{self.rate}: {self.form}"

    def _limit(self, form: str, bound: Any, otherwise: str) -> Limit:
        if form != self.form:
            raise ValueError(otherwise)
        return Limit.of(form, self.rate, bound)

    def __repr__(self) -> str:
        return f"{self.form}({self.rate!r})"


@dataclass(frozen=True)
class Largest(Expression):
    """The largest rate of a family, to be made small. Made by `largest`.

    Parameters
    ----------
    rate : Rate
        The family.
    """

    rate: Rate

    worst = True

    def __str__(self) -> str:
        return f"largest {self.rate}"

    def __repr__(self) -> str:
        return f"largest({self.rate!r})"


@dataclass(frozen=True)
class Objective(Expression):
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

    sides = (ABOVE,)

    @classmethod
    def of(cls, given: Any) -> Objective:
        """Return the objective that a rate, or the largest of a family, stands for.

        Raises
        ------
        TypeError, ValueError
            If it is none.
        """
        if isinstance(given, Objective):
            return given
        said = as_expression(given)
        if said is None or said.limit is not None:
            raise TypeError(f"objective must be a rate or the largest of a family of rates, got {given!r}")
        if said.compares:
            raise TypeError(
                f"objective={given!r}: make another rate small, and limit this: limits=[{given!r} …]"
            )
        rate = said.rate
        if not rate.can_be_lowered:
            raise ValueError(
                f"objective={given!r}: the rows that it counts among depend on the answers; make "
                "another rate small and limit this one"
            )
        if not said.worst and rate.by is not None:
            raise ValueError(f"objective={given!r} is a family: say largest({rate!r})")
        return cls(rate, said.worst)

    @property
    def most(self) -> float:
        """A bound that every rule keeps."""
        if self.rate.kind != "cost":
            return 1.0
        return max(map(max, self.rate.matrix)) if self.rate.matrix is not None else ALL_COSTS

    def within(self, level: float) -> Limit:
        """Return a limit on it."""
        return self.rate <= level

    def value(self, values: Floats) -> float:
        """Return what is made small, of the rates of all units."""
        known = values[~np.isnan(values)]
        return float(known.max()) if len(known) else float("nan")

    def __str__(self) -> str:
        return f"largest {self.rate}" if self.worst else str(self.rate)
