"""The problem of a selection: an objective and limits, its linear program and the best candidate in it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np

from tailboost.core.array_types import Stated
from tailboost.rates import (
    Counts,
    Limit,
    Rate,
    Statistic,
    Strata,
    as_objective,
    checked_limits,
    deferred,
    error,
    largest,
)
from tailboost.rates.make import as_statistic
from tailboost.rates.rate import AT_MOST, EACH, GAP, LARGEST, RATIO
from tailboost.rows.rows import Rows

# The statistic of the rates that a limit of each form limits.
FORMS = {AT_MOST: LARGEST, GAP: GAP, RATIO: RATIO}
# Named objectives, as rates.
NAMED = {
    "error": error(),
    "worst_class": largest(error(by="class")),
    "worst_group": largest(error(by="group")),
    "worst_cell": largest(error(by="cell")),
    "deferred": deferred(),
}


@dataclass(frozen=True)
class Problem:
    """An objective within limits, and the kind of the selected rule."""

    objective: Statistic  # a rate, or the largest rate of a family
    limits: tuple[Limit, ...] = ()
    # Largest increase of the overall error; None for no limit.
    error_budget: float | None = None
    # Probability with which all limits have to hold on new rows; None: on the selection data alone.
    confidence: float | None = None

    def within(self, limits: tuple[Limit, ...]) -> Self:
        """Return the problem with other limits."""
        return replace(self, limits=tuple(limits))

    @property
    def rates(self) -> list[Rate]:
        """The rates of the objective and the limits."""
        return [self.objective.rate, *(limit.rate for limit in self.limits)]

    def needs(self, what: str) -> bool:
        """Whether a rate is about "groups", about given "costs" of the rows, or charges for "deferral"."""
        return any(getattr(rate, f"needs_{what}") for rate in self.rates)

    def columns(self, names: tuple[Any, ...]) -> list[int]:
        """Return the numbers of the columns of groups in the rates."""
        used = {column for rate in self.rates for column in rate.crossed}
        every = bool(used & {"group", "cell"})
        return [j for j, name in enumerate(names) if every or name in used]

    def traded(self, a: Stated = None, b: Stated = None) -> tuple[Any, Self]:
        """Return a limited rate, and the problem of another one within the limits on further rates.

        Parameters
        ----------
        a, b : rate, largest, gap or ratio, optional
            The limited and the minimised rate; in any order if one is a gap or a ratio. By default the rate
            of the first limit that is none from below, or else the overall error, and the objective or, if
            ``a`` is given, the overall error. A rate is not traded against itself, but against the largest
            error of a class.
        """
        limited, minimised = map(as_statistic, (a, b))
        if getattr(minimised, "compares", False):
            limited, minimised = minimised, limited
        overall = Statistic(EACH, error())
        if minimised is None:
            minimised = self.objective if limited is None else overall
        if limited is None:
            of_limits = [
                Statistic(EACH if each.rate.by is None else FORMS[each.form], each.rate)
                for each in self.limits
                if each.form in FORMS
            ]
            limited = next((each for each in of_limits if each != minimised), overall)
        if limited == minimised:
            minimised = largest(error(by="class"))
        objective = as_objective(minimised)
        if not getattr(limited, "compares", False):
            limited = as_objective(limited)
        # Limits on the traded rates are left out: the trade-off varies these rates.
        traded = {limited.rate, replace(limited.rate, complement=False)}
        if objective.worst:
            traded.add(objective.rate)
        others = tuple(limit for limit in self.limits if limit.rate not in traded)
        return limited, replace(self, objective=objective, limits=others)


def stated(
    objective: Stated = None,
    limits: Stated = (),
    *,
    error_budget: float | None = None,
    confidence: float | None = None,
) -> Problem:
    """Return the problem that parameters of a classifier state: every other spelling ends here.

    Parameters
    ----------
    objective : str, rate or largest, optional
        None is the overall error with limits, and otherwise the largest error of a class.
    limits : list of Limit or str
        Limits on rates.
    error_budget, confidence
        As in `Problem`.

    Raises
    ------
    TypeError, ValueError
        If an argument is not an objective or limits, or if the arguments exclude each other.
    """
    all_limits = () if limits is None else checked_limits(limits, to_keep=True)
    if confidence and not all_limits:
        raise ValueError(
            f"confidence={confidence:g} has no meaning without limits: it is the probability "
            "with which they hold on new rows"
        )
    if objective is None:
        objective = "error" if all_limits else "worst_class"
    if isinstance(objective, str):
        if objective not in NAMED and "(" not in objective:
            raise ValueError(
                f"objective={objective!r}; allowed are {', '.join(map(repr, NAMED))}, or a rate"
            )
        objective = NAMED.get(objective, objective)
    return Problem(
        as_objective(objective), all_limits, error_budget=error_budget, confidence=confidence
    )


def counted(
    problem: Problem,
    rows: Rows,
    classes: object,
    names: Any,
    costs: Any = None,
    rule_column: int | None = None,
) -> Counts:
    """Return the rows to be counted for a problem.

    Groups make strata if a rate is about them, or if rules read their column, number ``rule_column``.

    Raises
    ------
    ValueError
        If a group with thresholds of its own has no row.
    """
    defers = problem.needs("deferral")
    if not problem.needs("costs"):
        costs = None
    elif costs is not None and defers:  # a deferral costs nothing
        costs = np.pad(costs, ((0, 0), (0, 1)))
    used: list[Any] = []
    codes = None
    if rows.groups is not None and names is not None:
        used = sorted({*problem.columns(names.titles), rule_column} - {None})
        if problem.needs("groups"):  # of an unknown column the terms raise the error
            used = used or list(range(len(names.titles)))
        codes = rows.groups.reshape(len(rows), -1)[:, used]
    strata, stratum = Strata.of(
        rows.y,
        codes,
        rows.weight,
        classes,
        tuple(names.titles[j] for j in used),
        tuple(names.values[j] for j in used),
        defers=defers,
        costs=costs,
    )
    if rule_column is not None:
        values = names.values[rule_column]
        with_rows = strata.combinations[:, used.index(rule_column)]
        absent = np.delete(values, with_rows)
        if len(absent):
            raise ValueError(
                f"by_group: the selection data have no row of group(s) {absent.tolist()} to select on"
            )
    strata = replace(strata, size=rows.sizes(stratum, len(strata.mass)))
    return Counts(strata, stratum, rows.weight / rows.weight.sum(), costs)
