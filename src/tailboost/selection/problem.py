"""The problem of a selection: an objective and limits, from the parameters of any classifier."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

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

# The objectives that have a name, as rates.
NAMED = {
    "error": error(),
    "worst_class": largest(error(by="class")),
    "worst_group": largest(error(by="group")),
    "worst_cell": largest(error(by="cell")),
}


def name_of(objective: Any) -> str:
    """Return the name of an objective, which may be given as a rate."""
    if objective is None or isinstance(objective, str):
        return objective or "worst_class"
    return next((name for name, rate in NAMED.items() if rate == objective), str(objective))


@dataclass(frozen=True)
class Problem:
    """An objective and limits, both about rates."""

    objective: Objective  # a rate, or the largest rate of a family
    limits: tuple[Limit, ...]
    # Whether a rule is selected even if no rule satisfies the limits, as for `max_error`.
    aims: bool = False

    @classmethod
    def of(cls, objective: Any, limits: Any = (), max_error: Any = None) -> Problem | None:
        """Return the problem of the parameters; None for a CVaR, which is no rate.

        With ``max_error`` the objective must be the largest rate of a family. This family is limited, and the
        overall error is minimised.

        Raises
        ------
        TypeError, ValueError
            If an argument is not an objective or limits, or if the arguments exclude each other.
        """
        checked = checked_limits(limits) if limits else ()
        by_name = objective is None or isinstance(objective, str)
        if objective == "cvar":
            if checked:
                raise ValueError(
                    "objective='cvar' takes no limits on rates; with limits, the objective must be a rate"
                )
            return None
        if objective is None and checked and max_error is None:
            objective = "error"
        rate = NAMED[objective or "worst_class"] if by_name else objective
        if max_error is None:
            return cls(Objective.of(rate), checked)
        if not isinstance(rate, Largest):
            raise ValueError(
                "max_error limits the subgroups of an objective that is the largest rate of a family; "
                "state it as a limit: rates.error(by='class') <= ..."
            )
        return cls(Objective.of(error()), (rate.rate <= max_error, *checked), aims=not checked)

    @property
    def rates(self) -> list[Rate]:
        """The rates of the objective and the limits, each once."""
        return list(dict.fromkeys([self.objective.rate, *(limit.rate for limit in self.limits)]))

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
        objective = self.objective
        minimised = Largest(objective.rate) if objective.worst else objective.rate
        for limit in self.limits:
            rate = limit.rate
            if limit.compares:
                return Spread(limit.form, rate), minimised
            limited = rate if rate.by is None else Largest(rate)
            if limit.form == AT_MOST and rate.can_be_lowered and limited != minimised:
                return limited, minimised
        return error(), Largest(error(by="class")) if minimised == error() else minimised
