"""Games towards targets: which is played, over which units, and what is said of targets that are missed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tailboost.boosting.cross_fitting import Scheme, ask
from tailboost.boosting.game import DECIMALS, TargetSubgroups, shrinkage_factor
from tailboost.boosting.targets import MAX_ERRORS, Pools
from tailboost.boosting.training_set import Problem
from tailboost.classifiers.plan import BoundNotMetWarning, SmallSubgroupsWarning
from tailboost.core.array_types import Floats, Ints
from tailboost.core.subgroups import unit_name
from tailboost.core.warn import warn_user
from tailboost.guarantees.fit_summary import Bound
from tailboost.selection.rate_table import RateLine, RateTable
from tailboost.selection.subgroup_mixture import SubgroupMixture, least_largest

# The most classes that a warning names.
NAMED = 5
# The most small units that a warning lists.
MOST_COUNTED = 20


def target_units(
    problem: Problem, scheme: Scheme, pools: Pools, max_error: Floats, indicator: bool, shrinkage: float
) -> TargetSubgroups:
    """Return the pools as units with what is allowed to each unit, shape (m,); NaN stands for no target."""
    judged = scheme.selection_rows
    assert problem.groups is not None
    assert judged.groups is not None
    index = pools.index(judged.groups)
    size = judged.sizes(index, pools.count)
    measured = size > 0
    units = TargetSubgroups.groups(pools.index(problem.groups), problem.weight, index, judged.weight)
    allowed = pools.strictest(max_error)
    allowed = np.where(np.isnan(allowed), 1.0, allowed).round(DECIMALS)
    allowed = np.where(measured, allowed, allowed[measured].max())
    return replace(
        units,
        allowed=allowed,
        indicator=indicator,
        measured=measured,
        shrinkage=shrinkage_factor(size, shrinkage),
    )


def with_least_allowed(units: TargetSubgroups, scheme: Scheme, seed: int, demand: float) -> TargetSubgroups:
    """Allow the smallest error for which a stage of the balanced model meets the weak-learning condition."""
    curve = []

    def note(losses: NDArray[Any], answers: Ints) -> float:
        curve.append(np.nan_to_num(units.errors(scheme.selection_rows.wrong(answers))))
        return 1.0

    ask(scheme, units, units.density(units.base), seed, note)
    R = np.array(curve)
    feasible = [
        error for error in MAX_ERRORS if ((np.round(R - error, DECIMALS) >= 0) @ units.base).min() <= demand
    ]
    allowed = min(feasible, default=MAX_ERRORS[-1])
    return replace(units, allowed=np.full(len(units.base), round(allowed, DECIMALS)))


def least_error_met(reached: float) -> float:
    """Return the most demanding of the usual targets that an error meets."""
    return min((e for e in MAX_ERRORS if round(reached - e, DECIMALS) <= 0), default=MAX_ERRORS[-1])


def warn_of_unmeasured(errors: RateTable) -> None:
    """Name the subgroups without a row."""
    unmeasured = [unit_name(line.unit) for line in errors if np.isnan(line.value)]
    if unmeasured:
        warn_user(
            f"{errors.kind} {', '.join(unmeasured[:NAMED])}: no row to measure the error on that was not "
            "learnt from, so nothing is said about it",
            BoundNotMetWarning,
        )


def warn_of_small(kind: str, units: Sequence[Any], size: Floats, few: str, least: int, rule: str) -> None:
    """Name the units whose different rows, of number ``size``, are too few, and by what rule.

    ``few`` is the limit ``least`` in words, ``rule`` what becomes of units below it.
    """
    small = np.flatnonzero(size < least)
    if not len(small):
        return
    words = ", ".join(f"{unit_name(units[u])} ({size[u]:.3g})" for u in small[:MOST_COUNTED])
    more = f" and {len(small) - MOST_COUNTED} more" if len(small) > MOST_COUNTED else ""
    warn_user(f"{kind} {words}{more}: fewer than {few} different rows; {rule}", SmallSubgroupsWarning)


def warn_of_missed(
    missed: Sequence[RateLine], combiner: SubgroupMixture, words: str, reasons: Sequence[str] = ()
) -> None:
    """Name the subgroups whose error is above their limit, and why.

    Parameters
    ----------
    missed : sequence of RateLine
        Their errors.
    combiner : SubgroupMixture
        The members.
    words : str
        The selection data.
    reasons : sequence of str
        Other reasons.
    """
    below = "less than " if any(line.sense == "<" for line in missed) else ""
    named = [f"{unit_name(x.unit)} ({x.value:.3g}, allowed {below}{x.bound:.3g})" for x in missed]
    more = " and others" if len(named) > NAMED else ""
    of_whom = f" for {combiner.steering.by} {', '.join(named[:NAMED])}{more}" if named else ""
    because = "; ".join(filter(None, (*reasons, unreachable(combiner))))
    because = f"; {because}" if because else ""
    warn_user(f"the bound is not met on {words}{of_whom}{because}", BoundNotMetWarning)


def unreachable(combiner: SubgroupMixture) -> str:
    """Say how far all mixtures of the members are from the limits, if no mixture keeps them."""
    if combiner.even or combiner.limit is None:
        return ""
    beyond = combiner.beyond(combiner.candidates().all_counts)
    least = least_largest(beyond)[0] if combiner.randomized else float(beyond.max(axis=1).min())
    if least <= combiner.worst_limit + 10.0**-DECIMALS:
        return ""
    who = "mixture" if combiner.randomized else "single member"
    what = "largest error" if combiner.worst_limit else "largest excess"
    return f"no {who} keeps all limits there: the least {what} is {least:.3g}, not {combiner.worst_limit:.3g}"


def about_voters(bounds: Sequence[Bound], targets: TargetSubgroups, kind: str) -> tuple[Bound, ...]:
    """Say in the notes of bounds what the loss is that they speak of, where it is not the error itself."""
    note = ""
    if targets.indicator:
        note = "loss of a voter: 1 where the error is max_error or more"
    elif targets.penalty.any():
        note = (
            f"loss of a voter: the error plus what the least strict {kind} is allowed beyond this one, "
            f"divided by {1.0 + targets.penalty.max():.4g}"
        )
    return tuple(replace(b, note="; ".join(filter(None, (b.note, note)))) for b in bounds)


def target_bound(errors: RateTable, allowed: Floats, strict: bool) -> Bound:
    """Set the errors of `predict` against the limits: the largest, or the largest excess if limits differ."""
    note, values = "a target, not a theorem", np.array([line.value for line in errors])
    words = f"on a {errors.kind}, as measured on {errors.words}"
    largest = float(np.nanmax(values))
    if np.ptp(allowed) == 0:
        name = f"largest error of predict {words}"
        return Bound(name, "max_error", float(allowed[0]), largest, note, strict)
    note += f"; the largest error is {largest:.4g}"
    beyond = float(np.nanmax(values - allowed))
    return Bound(f"largest error of predict, less max_error, {words}", "0", 0.0, beyond, note, strict)
