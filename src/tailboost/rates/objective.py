"""Gaps, ratios, largest rates and objectives."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from tailboost.core.array_types import Floats
from tailboost.rates.rate import ABOVE, GAP, RATIO, Expression, Limit, Rate, as_expression


class InfeasibleLimitsError(ValueError):
    """Raised if no mixture of decision rules satisfies all limits on the selection data."""


# Larger than any cost.
ALL_COSTS = 1e12


@dataclass(frozen=True)
class Spread(Expression):
    """Gap or ratio of a family of rates, made by `gap` or `ratio`; a comparison makes a limit.

    Parameters
    ----------
    form : {"gap", "ratio"}
        Gap or ratio.
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
        """The tightest possible limit."""
        return 0.0 if self.form == GAP else 1.0

    @property
    def most(self) -> float:
        """A limit that each rule satisfies."""
        if self.form == RATIO:
            return 0.0
        return ALL_COSTS if self.rate.kind == "cost" else 1.0

    def within(self, level: float) -> Limit:
        """Return the limit at a level."""
        return Limit.of(self.form, self.rate, level)

    def value(self, values: Floats) -> float:
        """Return the gap or ratio of the rates of all subgroups."""
        return self.within(self.most).value(values)

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
    """Largest rate of a family, made by `largest`; for objectives.

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
    """Objective: one rate, or the largest rate of a family.

    Parameters
    ----------
    rate : Rate
        The rate or family.
    worst : bool
        Whether the largest rate of the family is minimised.
    """

    rate: Rate
    worst: bool

    sides = (ABOVE,)

    @classmethod
    def of(cls, given: Any) -> Objective:
        """Return the objective of a rate or of the largest rate of a family.

        Raises
        ------
        TypeError, ValueError
            If ``given`` cannot be an objective.
        """
        if isinstance(given, Objective):
            return given
        expression = as_expression(given)
        if expression is None or expression.limit is not None:
            raise TypeError(f"objective must be a rate or the largest of a family of rates, got {given!r}")
        if expression.compares:
            raise TypeError(
                f"objective={given!r}: minimise another rate and limit this one: limits=[{given!r} …]"
            )
        rate = expression.rate
        if not rate.can_be_lowered:
            raise ValueError(
                f"objective={given!r}: a rule with very few answers of one kind is best; minimise another "
                "rate and limit this one"
            )
        if not expression.worst and rate.by is not None:
            raise ValueError(f"objective={given!r} is a family: write largest({rate!r})")
        if rate.is_gain and expression.worst:
            raise ValueError(f"objective={given!r}: large values are better, so the largest is no objective")
        return cls(replace(rate, complement=True) if rate.is_gain else rate, expression.worst)

    @property
    def most(self) -> float:
        """A bound that each rule satisfies."""
        if self.rate.kind != "cost":
            return 1.0
        return max(map(max, self.rate.matrix)) if self.rate.matrix is not None else ALL_COSTS

    def within(self, level: float) -> Limit:
        """Return a limit on the objective."""
        return self.rate <= level

    def value(self, values: Floats) -> float:
        """Return the objective from the rates of all subgroups."""
        defined = values[~np.isnan(values)]
        return float(defined.max()) if len(defined) else float("nan")

    def __str__(self) -> str:
        return f"largest {self.rate}" if self.worst else str(self.rate)
