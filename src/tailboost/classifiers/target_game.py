"""Games towards targets: which is played, over which units, and what is said of targets that are missed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from tailboost._typing import Floats, Ints
from tailboost._units import unit_name
from tailboost._warn import warn_user
from tailboost.classifiers.plan import BoundNotMetWarning, SmallUnitsWarning, ask
from tailboost.combiners import Mixture, WorstUnit
from tailboost.data import Problem
from tailboost.game import doubt
from tailboost.statements.guarantee import Bound
from tailboost.statements.units import UnitErrors
from tailboost.targets import DECIMALS, MAX_ERRORS, Pools, TargetUnits
from tailboost.validation import Scheme

# The most classes that a warning names.
NAMED = 5
# The most small units that a warning lists.
MOST_COUNTED = 20


def target_units(
    problem: Problem, scheme: Scheme, pools: Pools, max_error: Floats, indicator: bool, shrinkage: float
) -> TargetUnits:
    """Return the pools as units with what is allowed to each unit, shape (m,); NaN stands for no target."""
    judged = scheme.judged
    assert problem.groups is not None
    assert judged.groups is not None
    index = pools.index(judged.groups)
    size = judged.sizes(index, pools.count)
    measured = size > 0
    units = TargetUnits.groups(pools.index(problem.groups), problem.weight, index, judged.weight)
    allowed = pools.strictest(max_error)
    allowed = np.where(np.isnan(allowed), 1.0, allowed).round(DECIMALS)
    allowed = np.where(measured, allowed, allowed[measured].max())
    return replace(
        units,
        allowed=allowed,
        indicator=indicator,
        measured=measured,
        shrinkage=doubt(size, shrinkage),
    )


def with_least_allowed(units: TargetUnits, scheme: Scheme, seed: int, demand: float) -> TargetUnits:
    """Allow the smallest error for which a stage of the balanced model meets the weak-learning condition."""
    curve = []

    def note(losses: NDArray[Any], answers: Ints) -> float:
        curve.append(np.nan_to_num(units.errors(scheme.judged.wrong(answers))))
        return 1.0

    ask(scheme, units, units.density(units.base), seed, note)
    R = np.array(curve)
    feasible = [
        error for error in MAX_ERRORS if ((np.round(R - error, DECIMALS) >= 0) @ units.base).min() <= demand
    ]
    allowed = min(feasible, default=MAX_ERRORS[-1])
    return replace(units, allowed=np.full(len(units.base), round(allowed, DECIMALS)))


def useless(predicted: Ints, reached: float, coin: float | None, classes: NDArray[Any]) -> str:
    """Return in words why answers say nothing, whatever target they meet; "" where they do.

    ``predicted`` are the class numbers answered to the judged rows, ``reached`` their largest error of a unit
    or the farthest beyond what it is allowed, and ``coin`` what the best mixture of constants reaches; None
    where targets are stated, which constants may keep.
    """
    if np.ptp(predicted) == 0:
        return f"predict answers {classes[predicted[0]]!s} to all of them"
    if coin is not None and reached >= coin:
        return f"predict is no better than the best mixture of constants ({coin:.3g}), blind to the features"
    return ""


def least_error_met(reached: float) -> float:
    """Return the most demanding of the usual targets that an error meets."""
    return min((e for e in MAX_ERRORS if round(reached - e, DECIMALS) <= 0), default=MAX_ERRORS[-1])


def warn_of_unmeasured(units: UnitErrors) -> None:
    """Name the units that no row is of."""
    unmeasured = [unit_name(name) for name, n in zip(units.names, units.counts, strict=True) if not n]
    if unmeasured:
        warn_user(
            f"{units.kind} {', '.join(unmeasured[:NAMED])}: no row to measure the error on that was not "
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
    warn_user(f"{kind} {words}{more}: fewer than {few} different rows; {rule}", SmallUnitsWarning)


def warn_of_missed(
    units: UnitErrors,
    combiner: Mixture,
    useless: str = "",
    stop_reason: str = "",
) -> None:
    """Name the units whose error misses what is allowed, and why."""
    errors, allowed, missed = units.errors[units.rule], units.allowed, ~units.keeps(units.rule)
    assert allowed is not None
    below = "less than " if units.strict else ""
    words = [
        f"{unit_name(units.names[k])} ({errors[k]:.3g}, allowed {below}{allowed[k]:.3g})"
        for k in np.flatnonzero(missed).tolist()
    ]
    more = " and others" if len(words) > NAMED else ""
    of_whom = f" for {units.kind} {', '.join(words[:NAMED])}{more}" if words else ""
    way = reachable(combiner) if missed.any() else ""
    because = "; ".join(filter(None, (useless, beyond_by_estimate(combiner), stop_reason, way)))
    because = f"; {because}" if because else ""
    warn_user(f"the bound is not met on {units.words}{of_whom}{because}", BoundNotMetWarning)


def warn_of_targets(combiner: Mixture, units: Sequence[Any], allowed: Floats) -> None:
    """Name the units whose error is beyond what is allowed, on the rows of the choice or by the estimate."""
    objective, ledger = cast("WorstUnit", combiner.objective), combiner.pool.ledger
    rows, index = ledger.rows, replace(objective, pools=None).index(ledger.rows)
    ensemble, wrong = combiner.stage(combiner.pool.n_rounds), combiner.wrong
    drawn, whole = ledger.pool().combine(ensemble.weights), np.ones(len(rows.y), dtype=np.bool_)
    predict = None if wrong is None else wrong(ensemble, whole)
    found = UnitErrors.of(
        objective.unit, list(units), rows, index, predict=predict, drawn=drawn, allowed=allowed
    )
    if combiner.excess > 0 or not found.keeps(found.rule).all():
        warn_of_missed(found, combiner)


def beyond_by_estimate(combiner: Mixture) -> str:
    """Say how far beyond the targets the choice is, where none keeps them; else nothing."""
    if combiner.excess == 0:
        return ""
    return (
        "no choice keeps all targets by the estimate on rows it was not made on; of the one made the largest "
        f"excess there is {combiner.excess:.3g}"
    )


def reachable(combiner: Mixture) -> str:
    """Say at which budget the targets are reached along the curve of mixtures, or how far the curve goes.

    Nothing is said of a vote, which is no mixture, and of an even mixture.
    """
    if combiner.even or (target := combiner.limit) is None:
        return ""
    curve, least = combiner.curve(), float(combiner.pool.ledger.mean_losses().min())
    mean, worst = curve.mean, combiner.values(curve.mixture)
    met = np.flatnonzero(worst <= target + 10.0**-DECIMALS)
    if not len(met):
        return (
            f"no mean_budget meets all targets there: the {combiner.objective} is brought to "
            f"{worst.min():.3g}, not to {target:.3g}"
        )
    right, who = met[0], "the mixture (predict_shares)" if combiner.randomized else "predict"
    # The objective is convex in λ: on the way from the point before it is no higher than the straight line.
    needed = (
        mean[right]
        if right == 0 or not combiner.randomized
        else np.interp(-target, -worst[right - 1 : right + 1], mean[right - 1 : right + 1])
    )
    return (
        f"{who} meets them there with mean_budget={max(0.0, needed - least):.3g}, "
        f"a mean error of {needed:.3g}"
    )


def about_voters(bounds: Sequence[Bound], targets: TargetUnits, kind: str) -> tuple[Bound, ...]:
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


def target_bound(units: UnitErrors) -> Bound:
    """Set the errors of `predict` against the targets: the largest, or the farthest beyond its own."""
    note, allowed = "a target, not a theorem", units.allowed
    assert allowed is not None
    words = f"on a {units.kind}, as measured on {units.words}"
    largest, beyond = float(np.nanmax(units.errors["predict"])), units.excess["predict"]
    if np.ptp(allowed) == 0:
        name = f"largest error of predict {words}"
        return Bound(name, "max_error", float(allowed[0]), largest, note, units.strict)
    note += f"; the largest error is {largest:.4g}"
    return Bound(f"largest error of predict, less max_error, {words}", "0", 0.0, beyond, note, units.strict)
