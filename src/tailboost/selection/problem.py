"""The problem of a selection: an objective and limits, from the parameters of any classifier."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np

from tailboost.boosting.training_set import Rows
from tailboost.core.array_types import Column, Floats, Stated
from tailboost.rates import (
    AT_MOST,
    Largest,
    Limit,
    Objective,
    Rate,
    Spread,
    checked_limits,
    error,
    largest,
)
from tailboost.rates import wrong as wrong_answers
from tailboost.solvers import MixtureSolution, cvar, least_worst_within, minimize_cvar_mixture

# The objectives that have a name, as rates.
NAMED = {
    "error": error(),
    "worst_class": largest(error(by="class")),
    "worst_group": largest(error(by="group")),
    "worst_cell": largest(error(by="cell")),
}
# The rates of a problem over rows: its objective is no rate.
WORST_CLASS = Objective.of(NAMED["worst_class"])
# 95 % of a normal distribution lie within this many standard deviations.
SPREAD = 1.959963984540054


@dataclass(frozen=True)
class CVaR:
    """Mean loss of the fraction ``alpha`` of the rows with the largest losses.

    Parameters
    ----------
    alpha : float
        Tail mass in (0, 1].
    """

    alpha: float
    over_rows: ClassVar[bool] = True

    def evaluate(self, losses: Floats, base: Floats) -> float:
        """Return the CVaR of losses of rows with a base measure."""
        return cvar(losses, self.alpha, base)

    def solve(self, losses: Any, base: Floats) -> MixtureSolution:
        """Solve the linear program (6) of Zhai et al. 2021, for losses by candidate and row."""
        return minimize_cvar_mixture(losses, self.alpha, base)

    def constants(self, mass: Floats, most: float | None = None) -> float | None:
        """Return the least CVaR of a mixture of constants with a mean loss of at most ``most``, or None.

        ``mass`` is the mass of each class.
        """
        losses = 1.0 - np.eye(len(mass))
        if most is None:
            return self.solve(losses, mass).value
        if (means := losses @ mass).min() > most:
            return None
        return least_worst_within(losses, means, most, self.alpha, mass).value

    def highest(self, rows: Rows, losses: Floats) -> float:
        """Return the upper end of a 95 % interval for the CVaR on new rows.

        The interval is that of ``q + E max(ℓ − q, 0)/α``, which is at least the CVaR for any q. It uses the
        normal approximation with one more row of loss 1.
        """
        (n,) = rows.sizes(np.zeros(len(losses), dtype=np.intp), 1)
        order = np.argsort(losses)[::-1]
        tail = min(int(np.searchsorted(np.cumsum(rows.base[order]), self.alpha)), len(order) - 1)
        q = float(losses[order[tail]])
        above = np.maximum(losses - q, 0.0)
        mean = (n * float(rows.base @ above) + 1.0 - q) / (n + 1.0)
        variance = (n * float(rows.base @ (above - mean) ** 2) + (1.0 - q - mean) ** 2) / (n + 1.0)
        return min(1.0, q + (mean + SPREAD * np.sqrt(variance / n)) / self.alpha)

    def of_answers(
        self, y: Column, answers: Column, *, sample_weight: Column = None, **more: object
    ) -> float:
        """Return the CVaR of the zero-one loss of answers: the error rate / α, at most 1."""
        wrong = wrong_answers(np.asarray(answers), np.asarray(y))
        return min(1.0, float(np.average(wrong, weights=sample_weight)) / self.alpha)

    def __str__(self) -> str:
        return f"CVaR at α = {self.alpha:g}"


@dataclass(frozen=True)
class WorstRow:
    """The largest loss of any row: the CVaR for α → 0."""

    alpha: ClassVar[None] = None
    over_rows: ClassVar[bool] = True

    def evaluate(self, losses: Floats, base: Floats) -> float:
        """Return the largest of the losses of rows with positive base measure."""
        return float(losses[base > 0].max())

    def solve(self, losses: Any, base: Floats) -> MixtureSolution:
        """Solve the minimax problem: at α = min p the cap ``p/α`` leaves the whole simplex."""
        return minimize_cvar_mixture(losses, float(base[base > 0].min()), base)

    def constants(self, mass: Floats, most: float | None = None) -> float | None:
        """Return the value of the best constants, mixed, with a mean loss of at most ``most``; or None."""
        mass = mass[mass > 0]
        return 1 - 1 / len(mass) if most is None else CVaR(float(mass.min())).constants(mass, most)

    def highest(self, rows: Rows, losses: Floats) -> float:
        """Return 1: the largest loss of a new row may be 1."""
        return 1.0

    def of_answers(self, y: Column, answers: Column, **more: object) -> float:
        """Return 1 if an answer is wrong, else 0."""
        return float(wrong_answers(np.asarray(answers), np.asarray(y)).any())

    def __str__(self) -> str:
        return "largest expected loss of any row"


def name_of(objective: Stated) -> str:
    """Return the name of an objective, which may be given as a rate."""
    if objective is None or isinstance(objective, str):
        return objective or "worst_class"
    return next((name for name, rate in NAMED.items() if rate == objective), str(objective))


def objective_named(name: Any, alpha: float | None) -> Any:
    """Return an objective by its name, as a rate or as a CVaR.

    Raises
    ------
    ValueError, TypeError
        If the name is unknown, or the objective no rate that can be minimised.
    """
    if isinstance(name, (CVaR, WorstRow)):
        return name
    if not isinstance(name, str):
        return Objective.of(name)
    if name == "cvar" and alpha is not None:
        return CVaR(float(alpha))
    if name not in NAMED:
        raise ValueError(f"objective={name!r}; allowed are 'cvar', {', '.join(map(repr, NAMED))}, or a rate")
    return Objective.of(NAMED[name])


@dataclass(frozen=True)
class Problem:
    """An objective within limits, and the kind of rule that is selected."""

    objective: Stated  # a rate, the largest rate of a family, or a CVaR
    limits: tuple[Limit, ...] = ()
    # Whether a rule is selected even if no rule satisfies the limits, as for `max_error`.
    aims: bool = False
    error_budget: float | None = None  # largest increase of the overall error; None for no limit
    randomized: bool = False  # whether several candidates may have mixture weight
    confidence: float | None = None  # probability with which all limits have to hold on new rows

    @classmethod
    def of(
        cls,
        objective: Stated,
        limits: Stated = (),
        max_error: Stated = None,
        alpha: float | None = None,
        *,
        error_budget: float | None = None,
        randomized: bool | str = "auto",
        confidence: float | None = None,
    ) -> Self:
        """Return the problem of the parameters of a classifier.

        With ``max_error`` the objective must be the largest rate of a family. This family is limited, and the
        overall error is minimised.

        Raises
        ------
        TypeError, ValueError
            If an argument is not an objective or limits, or if the arguments exclude each other.
        """
        checked = checked_limits(limits) if limits else ()
        if confidence and not checked and max_error is None:
            raise ValueError(
                f"confidence={confidence:g} has no meaning without limits: it is the probability with which "
                "they hold on new rows"
            )
        by_name = objective is None or isinstance(objective, str)
        if objective == "cvar":
            if checked:
                raise ValueError(
                    "objective='cvar' takes no limits on rates; with limits, the objective must be a rate"
                )
            if alpha is None:
                raise ValueError("objective='cvar' needs alpha, the tail mass in (0, 1]")
            if max_error is not None:
                raise ValueError("max_error has no meaning with objective='cvar'")
            if randomized is False:
                raise ValueError(
                    "randomized=False selects one candidate, and its CVaR is the smaller of 1 and mean loss "
                    "/ alpha: objective='cvar' needs a mixture"
                )
            return cls(CVaR(float(alpha)), error_budget=error_budget, randomized=True)
        if objective is None and checked and max_error is None:
            objective = "error"
        rate = NAMED[objective or "worst_class"] if by_name else objective
        aim, aims = Objective.of(rate), False
        if max_error is not None:
            if not isinstance(rate, Largest):
                raise ValueError(
                    "max_error limits the subgroups of an objective that is the largest rate of a family; "
                    "state it as a limit: rates.error(by='class') <= ..."
                )
            aim, aims = Objective.of(error()), not checked
            checked = rate.rate <= max_error, *checked
        if alpha is not None:
            raise ValueError(
                f"alpha={alpha!r} has no meaning with objective={name_of(objective)!r}: "
                "it is the tail mass of a CVaR"
            )
        drawn = randomized != "auto" and bool(randomized)
        return cls(aim, checked, aims, error_budget, drawn, confidence)

    @property
    def over_rows(self) -> bool:
        """Whether the objective needs the loss of each row; rates need confusion counts alone."""
        return bool(self.objective.over_rows)

    @property
    def counted(self) -> Objective:
        """The objective as a rate; for one over rows the largest error of a class, for tables."""
        return WORST_CLASS if self.over_rows else self.objective

    def within(self, limits: tuple[Limit, ...]) -> Self:
        """Return the problem with other limits."""
        return replace(self, limits=tuple(limits))

    @property
    def rates(self) -> list[Rate]:
        """The rates of the objective and the limits, each once."""
        return list(dict.fromkeys([self.counted.rate, *(limit.rate for limit in self.limits)]))

    @property
    def subgroup_kind(self) -> Any:
        """The ``by`` of the first rate with subgroups; "class" if no rate has subgroups."""
        return next((rate.by for rate in self.rates if rate.by is not None), "class")

    @property
    def needs_groups(self) -> bool:
        """Whether a rate is about groups."""
        return any(rate.needs_groups for rate in self.rates)

    @property
    def needs_costs(self) -> bool:
        """Whether a rate is about costs of the rows."""
        return any(rate.needs_costs for rate in self.rates)

    @property
    def defers(self) -> bool:
        """Whether rows may be deferred: a rate limits deferral, or charges for it."""
        return any(rate.needs_deferral for rate in self.rates)

    def columns(self, names: tuple[Any, ...]) -> list[int]:
        """Return the numbers of the columns of groups in the rates."""
        used: set[Any] = set()
        for rate in self.rates:
            by = rate.by if isinstance(rate.by, tuple) else (rate.by,)
            used |= set(names) if {"group", "cell"} & set(by) else set(by)
        return [j for j, name in enumerate(names) if name in used]

    @property
    def tradeoff_rates(self) -> tuple[Any, Any]:
        """The rates of a trade-off by default: the limited one and the minimised one.

        These are the rate of the first limit with a bound to tighten, and the objective. Without such a limit
        the overall error is limited. If it is also the objective, the largest error of a class is minimised.
        """
        objective = self.counted
        minimised = Largest(objective.rate) if objective.worst else objective.rate
        for limit in self.limits:
            rate = limit.rate
            if limit.compares:
                return Spread(limit.form, rate), minimised
            limited = rate if rate.by is None else Largest(rate)
            if limit.form == AT_MOST and rate.can_be_lowered and limited != minimised:
                return limited, minimised
        return error(), Largest(error(by="class")) if minimised == error() else minimised
