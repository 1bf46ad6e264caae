"""The error for contradicting limits: the reached values, and the groups with too tight a limit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from tailboost.core.array_types import Floats
from tailboost.core.rate_words import bound_words, value_words
from tailboost.core.spelling import how_many, joined, limits_as_typed
from tailboost.rates import InfeasibleLimitsError, Limit
from tailboost.rates.bounds import are_few_for
from tailboost.rows.subgroups import unit_name
from tailboost.selection.data import Pool
from tailboost.selection.problem import without_group
from tailboost.selection.program import (
    DEAR,
    NO_VIOLATION,
    SLIGHT,
    Master,
    Program,
    Solution,
    mixed,
)

# The most groups in a sentence.
MOST_GROUPS = 4


@dataclass(frozen=True, eq=False)
class LimitedGroup:
    """The limit on one of several subgroups: a row of a program.

    Attributes
    ----------
    limit : Limit
        The limit on this and other subgroups.
    subgroup : object
        The subgroup, as the rate names it.
    row : int
        Number of the row in the program.
    n_rows : float
        Effective number of selection rows in the denominator of the rate.
    scale : float
        The rate of the subgroup if the left side of the row is 1.
    allowed : float
        The largest allowed share of these rows that count against the limit.
    """

    limit: Limit
    subgroup: Any
    row: int
    n_rows: float
    scale: float
    allowed: float

    @property
    def name(self) -> str:
        """The subgroup in words."""
        return unit_name(self.subgroup)

    @property
    def words(self) -> str:
        """The subgroup and its rows."""
        return f"{self.name} ({how_many(round(self.n_rows), 'row')})"


def contradiction(
    pool: Pool, solution: Solution, words: str, *, option: str = ""
) -> InfeasibleLimitsError:
    """Return the error for contradicting limits, with reached values and the groups at fault.

    Parameters
    ----------
    pool : Pool
        The candidates.
    solution : Solution
        The mixture nearest to all limits.
    words : str
        The selection data, for people.
    option : str, optional
        The parameter with which a rule reads the groups of the limits, if this one does not.
    """
    program = solution.program
    counts = mixed(solution.weights, pool.all_counts)
    limits = [
        program.limits[i] for i in np.flatnonzero(solution.contradicting)
    ] or program.limits
    limits_and_values = "; ".join(
        f"{limit} (reached: {reached_words(program, limit, counts)})" for limit in limits
    )
    groups = forcing_groups(pool, solution)
    cures = "Wider limits"
    if groups:
        cures = (
            f"{_forced_words(groups, pool, program)} More selecting rows, wider limits there"
        )
    if option:
        cures += f", a rule that reads the group ({option})"
    if not program.strata.defers:
        cures += ", or human review of some rows ('deferred <= 20%'),"
    error = InfeasibleLimitsError(
        "limits: no rule, also none with random draws, meets these together on "
        f"{words}: {limits_and_values}. "
        f"These values are of the rule that comes nearest to all limits. {cures} may do"
    )
    error.lacks_rows = bool(groups)
    error.limits = tuple(limits)
    return error


def reached_words(program: Program, limit: Limit, counts: Floats) -> str:
    """Return the reached value of a limit in words: of the subgroup with the least room to its bound.

    The room is negative if the value breaks the bound. ``counts`` are the confusion counts of the mixture,
    shape (W, A).
    """
    terms = limit.rate.terms(program.strata)
    values = terms.values(counts)
    if limit.compares:
        room = np.full(1, limit.value(values))
    else:
        room = limit.sign * (limit.bounds(terms.names) - values)
    if np.isnan(room).all():
        return "undefined: no row counts"
    if limit.compares or len(values) < 2:
        return value_words(limit.value(values), in_percent=limit.in_percent)
    tightest = np.nanargmin(room)
    reached = value_words(values[tightest], in_percent=limit.in_percent)
    return f"{reached} for {unit_name(terms.names[tightest])}"


def forcing_groups(pool: Pool, solution: Solution) -> list[LimitedGroup]:
    """Return the groups at fault: without their limits a mixture of the candidates keeps all others.

    Each group with a high dual value is tried alone, the group with the fewest rows first. If none suffices,
    all groups are tried in which the mixture of ``solution`` breaks a limit. The list is empty if these do
    not suffice either, or if a limit is broken in all its groups: then the limit is at fault.
    """
    groups = _limited_groups(solution.program)
    suspects = [
        group
        for group in groups
        if solution.duals[group.row] >= DEAR * solution.duals.max(initial=0.0)
    ]
    for group in sorted(suspects, key=lambda group: group.n_rows):
        if _feasible_without(solution.program, [group], pool):
            return [group]
    counts = mixed(solution.weights, pool.all_counts)
    is_broken = _excess(solution.program, counts[None])[0] > NO_VIOLATION
    broken = [group for group in groups if is_broken[group.row]]
    kept = [group for group in groups if not is_broken[group.row]]
    limits_at_fault = {str(group.limit) for group in broken} - {
        str(group.limit) for group in kept
    }
    if limits_at_fault or not broken:
        return []
    if _feasible_without(solution.program, broken, pool):
        return broken
    return []


def _limited_groups(program: Program) -> list[LimitedGroup]:
    """Return the limited subgroups of all limits on several subgroups, except comparisons (gap, ratio)."""
    groups = []
    for number, limit in enumerate(program.limits):
        rows = np.flatnonzero(program.limit_of_row == number)
        if limit.compares or len(rows) < 2:
            continue
        terms = limit.rate.terms(program.strata)
        bounds = limit.bounds(terms.names)
        is_limited = terms.defined & ~np.isnan(bounds)
        is_counted = terms.bottom[:, : len(program.strata.size)].max(axis=2) > 0
        n_rows = is_counted @ program.strata.size
        scale = limit.rate.scale(program.strata)
        for row, subgroup in zip(rows, np.flatnonzero(is_limited), strict=True):
            group = LimitedGroup(
                limit,
                terms.names[subgroup],
                int(row),
                n_rows=float(n_rows[subgroup]),
                scale=scale,
                allowed=float(limit.against(bounds[subgroup])),
            )
            groups.append(group)
    return groups


def _feasible_without(program: Program, groups: Sequence[LimitedGroup], pool: Pool) -> bool:
    """Return whether a mixture of the candidates keeps all limits except in some groups."""
    stays = np.ones(len(program.bound), dtype=bool)
    stays[[group.row for group in groups]] = False
    program_of_others = replace(
        program,
        matrix=program.matrix[stays],
        bound=program.bound[stays],
        free=program.free[stays],
        variable=program.variable[stays],
        limit_of_row=program.limit_of_row[stays],
    )
    return Master(program_of_others, pool.counts).finish().feasible


def _excess(program: Program, counts: Floats) -> Floats:
    """Return the excess of confusion counts (T, W, A) over the bound of each row, shape (T, J).

    Rows of comparisons also have a free variable; here its value is 0.
    """
    return counts.reshape(len(counts), -1) @ program.matrix.T - program.bound


def _forced_words(groups: Sequence[LimitedGroup], pool: Pool, program: Program) -> str:
    """Return a sentence on the groups at fault, with the least possible bound if only one is at fault."""
    if len(groups) > 1:
        names = joined(
            [f"{group.limit.rate} in {group.words}" for group in groups], MOST_GROUPS, "; "
        )
        return (
            f"The limits on {names} are the obstacle: without them, all others can be met on these "
            "rows, not certified."
        )
    (group,) = groups
    sentence = f"The limit '{group.limit}' in {group.words} is the obstacle"
    bound = _least_bound(group, pool, program)
    if bound is None or not 0.0 < bound < 1.0:  # such a bound is no limit
        sentence += ": without it there, all others can be met on these rows, not certified."
        is_left_out = True
    else:
        written = bound_words(
            bound,
            group.n_rows,
            above=group.limit.from_above,
            in_percent=group.limit.in_percent,
        )
        sentence += (
            f": with {written} there, all others can be met on these rows, not certified."
        )
        is_left_out = are_few_for(round(group.n_rows), group.allowed)
    if is_left_out:
        others = without_group(program.limits, group.limit, group.subgroup, program.strata)
        sentence += (
            " To leave it out (its rate then has no bound): "
            f"{limits_as_typed([limit.text for limit in others])}."
        )
    return sentence


def _least_bound(group: LimitedGroup, pool: Pool, program: Program) -> float | None:
    """Return the tightest bound for one group within reach of a candidate that keeps all other limits.

    None if no candidate keeps the other limits. None also beside a comparison, and for a rate with a
    denominator that depends on the answers: then the bound is unknown.
    """
    if program.variable[program.limit_of_row >= 0].max(initial=-1) >= 0:
        return None
    if group.limit.rate.is_ratio:
        return None
    excess = _excess(program, pool.all_counts)
    is_other = program.limit_of_row >= 0
    is_other[group.row] = False
    keeps_others = (excess[:, is_other] <= SLIGHT).all(axis=1)
    if not keeps_others.any():
        return None
    side = float((excess[keeps_others, group.row] + program.bound[group.row]).min())
    return group.limit.sign * side * group.scale
