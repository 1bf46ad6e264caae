"""Limits on the errors of subgroups as a game, and warnings about subgroups above their limits."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tailboost.boosting.cross_fitting import Scheme, ask
from tailboost.boosting.game import DECIMALS, TargetSubgroups, shrinkage_factor
from tailboost.boosting.targets import MAX_ERRORS, Pools, is_kept
from tailboost.boosting.training_set import TrainingSet
from tailboost.core.array_types import Floats, Ints
from tailboost.core.exceptions import BoundNotMetWarning
from tailboost.core.subgroups import unit_name
from tailboost.core.warn import warn_user
from tailboost.selection.rate_table import RateTable
from tailboost.selection.subgroup_mixture import SubgroupMixture, least_largest
from tailboost.selection.summary import Bound

# Maximum number of subgroups in a warning about missed limits.
NAMED = 5


def target_subgroups(
    problem: TrainingSet, scheme: Scheme, pools: Pools, max_error: Floats, indicator: bool, shrinkage: float
) -> TargetSubgroups:
    """Return the subgroups of the game with their allowed errors.

    Parameters
    ----------
    problem : TrainingSet
        Training set.
    scheme : Scheme
        Selection data of the game.
    pools : Pools
        Sets of subgroups with a common weight.
    max_error : ndarray of shape (m,)
        Allowed error of each subgroup; NaN for none.
    indicator : bool
        Whether losses are indicators.
    shrinkage : float
        Pseudo-rows, for losses that are no indicators.
    """
    rows = scheme.selection_rows
    assert problem.groups is not None
    assert rows.groups is not None
    index = pools.index(rows.groups)
    size = rows.sizes(index, pools.count)
    measured = size > 0
    units = TargetSubgroups.groups(pools.index(problem.groups), problem.weight, index, rows.weight)
    allowed = pools.strictest(max_error)
    allowed = np.where(np.isnan(allowed), 1.0, allowed).round(DECIMALS)
    allowed = np.where(measured, allowed, allowed[measured].max())
    return replace(
        units,
        allowed=allowed,
        indicator=indicator,
        measured=measured,
        shrinkage=None if indicator else shrinkage_factor(size, shrinkage),
    )


def with_least_allowed(units: TargetSubgroups, scheme: Scheme, seed: int, demand: float) -> TargetSubgroups:
    """Return the subgroups with the least allowed error at which the balanced model meets the demand.

    Each stage of growth of the balanced model is tried.
    """
    errors_by_stage = []

    def note(losses: NDArray[Any], answers: Ints) -> float:
        errors_by_stage.append(np.nan_to_num(units.errors(scheme.selection_rows.wrong(answers))))
        return 1.0

    ask(scheme, units, units.density(units.base), seed, note)
    R = np.array(errors_by_stage)
    feasible = [
        error for error in MAX_ERRORS if ((np.round(R - error, DECIMALS) >= 0) @ units.base).min() <= demand
    ]
    allowed = min(feasible, default=MAX_ERRORS[-1])
    return replace(units, allowed=np.full(len(units.base), round(allowed, DECIMALS)))


def least_error_met(reached: float) -> float:
    """Return the smallest value of `MAX_ERRORS` that is at least an error."""
    return min((e for e in MAX_ERRORS if round(reached - e, DECIMALS) <= 0), default=MAX_ERRORS[-1])


def warn_of_missed(
    missed: Sequence[tuple[Any, float, float]],
    combiner: SubgroupMixture,
    words: str,
    reasons: Sequence[str] = (),
    strict: bool = False,
) -> None:
    """Warn of subgroups with an error above their limit.

    Parameters
    ----------
    missed : sequence of (name, error, limit)
        The subgroups.
    combiner : SubgroupMixture
        The candidates.
    words : str
        Name of the selection data.
    reasons : sequence of str
        Further reasons for the message.
    strict : bool, default=False
        Whether an error equal to the limit is too large.
    """
    below = "less than " * strict
    named = [f"{unit_name(name)} ({error:.3g}, allowed {below}{bound:.3g})" for name, error, bound in missed]
    more = " and others" if len(named) > NAMED else ""
    subgroups = f" for {combiner.steering.by} {', '.join(named[:NAMED])}{more}" if named else ""
    because = "".join(f"; {reason}" for reason in (*reasons, unreachable(combiner)) if reason)
    warn_user(f"the bound is not met on {words}{subgroups}{because}", BoundNotMetWarning)


def unreachable(combiner: SubgroupMixture) -> str:
    """Return the smallest possible violation of the limits as text; empty if all limits can be satisfied."""
    if combiner.even or combiner.limit is None:
        return ""
    beyond = combiner.beyond(combiner.candidates().all_counts)
    least = least_largest(beyond)[0] if combiner.randomized else float(beyond.max(axis=1).min())
    if is_kept(least - combiner.worst_limit, combiner.limit.strict):
        return ""
    rule = "mixture" if combiner.randomized else "single member"
    measure = "largest error" if combiner.worst_limit else "largest excess"
    limit = f"{'less than ' * combiner.limit.strict}{combiner.worst_limit:.3g}"
    return f"no {rule} keeps all limits there: the least {measure} is {least:.3g}, not {limit}"


def about_voters(bounds: Sequence[Bound], targets: TargetSubgroups, kind: str) -> tuple[Bound, ...]:
    """Return bounds with a note on the loss of a voter, if this loss is not the error."""
    note = ""
    if targets.indicator:
        note = "loss of a voter: 1 if the error is max_error or more"
    elif targets.penalty.any():
        note = (
            f"loss of a voter: (error + largest max_error of a {kind} − max_error) / "
            f"{1.0 + targets.penalty.max():.4g}"
        )
    return tuple(replace(b, note="; ".join(filter(None, (b.note, note)))) for b in bounds)


def target_bound(errors: RateTable, allowed: Floats, strict: bool) -> Bound:
    """Return the largest error of `predict` and its limit; if limits differ, the largest excess."""
    note, values = "a limit, not a theorem", np.array([line.value for line in errors])
    words = f"on a {errors.kind}, as measured on {errors.words}"
    largest = float(np.nanmax(values))
    if np.ptp(allowed) == 0:
        name = f"largest error of predict {words}"
        return Bound(name, "max_error", float(allowed[0]), largest, note, strict)
    note += f"; the largest error is {largest:.4g}"
    beyond = float(np.nanmax(values - allowed))
    return Bound(f"largest error of predict, less max_error, {words}", "0", 0.0, beyond, note, strict)
