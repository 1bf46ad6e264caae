"""Games towards targets: which is played, over which units, and what is said of targets that are missed."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tailboost._rows import unit_name
from tailboost._typing import Floats, Ints
from tailboost.classifiers._plan import BoundNotMetWarning, Demand, ask
from tailboost.classifiers._warn import warn_user
from tailboost.combiners.guarantee import Bound
from tailboost.data import Problem
from tailboost.rules.hedge import theory_rounds
from tailboost.solvers import Curve
from tailboost.targets import DECIMALS, MAX_ERRORS, TargetUnits
from tailboost.validation import Scheme

# Rounds of the error game, where no γ says how many.
ERROR_ROUNDS = 30
# Classes that a warning names.
NAMED = 5


@dataclass(frozen=True)
class GameKind:
    """Which of the games is played, and how its hypotheses are combined.

    Parameters
    ----------
    gamma : float
        γ, also where it takes no part.
    aims : bool
        Whether a target is stated; without one the worst error shall be as small as can be.
    class_loss, combine : str
        As given to the classifier.
    limited : bool
        Whether the mean error has a limit, which only a mixture can keep.
    """

    gamma: float
    aims: bool
    class_loss: str
    combine: str
    limited: bool = False

    @property
    def indicator(self) -> bool:
        """Whether the loss of a unit is the indicator."""
        published = self.aims and self.gamma > 0 and not self.limited
        return self.class_loss == "indicator" or (self.class_loss == "auto" and published)

    @property
    def votes(self) -> bool:
        """Whether the hypotheses vote."""
        return self.combine == "vote" or (self.combine == "auto" and self.indicator and not self.limited)

    def rounds(self, n_estimators: int | str, m: int) -> int:
        """Return T, of which theorems speak, for ``m`` units."""
        if not isinstance(n_estimators, str):
            return int(n_estimators)
        return theory_rounds(float(m), self.gamma) if self.indicator else ERROR_ROUNDS

    def demand(self, units: TargetUnits, rounds: int, stated: bool) -> Demand:
        """Return the weighted loss a learner is grown to; ``stated`` says whether errors are allowed."""
        if self.indicator:
            return Demand(0.5 - self.gamma, required=True)
        if not stated:  # as good as it gets
            return Demand(0.0)
        # Σ_k w_k R_k ≤ max_error − √(ln K/(2T)), in the scale of the losses
        allowed = float(units.allowed.max() / (1.0 + units.penalty.max()))
        return Demand(max(0.0, allowed - math.sqrt(math.log(float(len(units.base))) / (2 * rounds))))


def target_units(problem: Problem, scheme: Scheme, max_error: Floats, indicator: bool) -> TargetUnits:
    """Return the units with what is allowed to each, shape (m,); NaN stands for no target."""
    judged, m = scheme.judged, len(max_error)
    assert problem.groups is not None
    assert judged.groups is not None
    inside = judged.groups >= 0
    measured = np.bincount(judged.groups[inside], weights=judged.weight[inside], minlength=m) > 0
    weight = np.where(inside, judged.weight, 0.0)
    units = TargetUnits.groups(problem.groups, problem.weight, judged.groups.clip(0), weight)
    allowed: Floats = np.where(np.isnan(max_error), 1.0, max_error).round(DECIMALS)
    allowed = np.where(measured, allowed, allowed[measured].max())
    return replace(units, allowed=allowed, indicator=indicator, measured=measured)


def with_least_allowed(units: TargetUnits, scheme: Scheme, seed: int, demand: float) -> TargetUnits:
    """Allow the smallest error for which a stage of the balanced model meets the weak-learning condition."""
    curve = []

    def note(losses: NDArray[Any], answers: Ints) -> float:
        curve.append(np.nan_to_num(units.errors(answers != scheme.judged.y)))
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


def warn_of_unmeasured(kind: str, units: Sequence[Any], errors: Floats) -> None:
    """Name the units whose error is NaN."""
    unmeasured = [unit_name(unit) for unit, error in zip(units, errors, strict=True) if np.isnan(error)]
    if unmeasured:
        warn_user(
            f"{kind} {', '.join(unmeasured[:NAMED])}: no row to measure the error on that was not "
            "learnt from, so nothing is said about it",
            BoundNotMetWarning,
        )


def warn_of_missed(
    kind: str,
    targets: TargetUnits,
    units: Sequence[Any],
    errors: Floats,
    allowed: Floats,
    judged_on: str,
    reason: str,
) -> None:
    """Name the units whose error misses what is allowed."""
    below = "less than " if targets.indicator else ""
    missed = np.flatnonzero(~targets.met(np.nan_to_num(errors - allowed, nan=-1.0))).tolist()
    words = [f"{unit_name(units[k])} ({errors[k]:.3g}, allowed {below}{allowed[k]:.3g})" for k in missed]
    more = " and others" if len(words) > NAMED else ""
    warn_user(
        f"the bound is not met on {judged_on} for {kind} {', '.join(words[:NAMED])}{more}; {reason}",
        BoundNotMetWarning,
    )


def reachable(curve: Curve, least_mean: float, target: float, objective: str) -> str:
    """Say how far the mixtures of a pool can go, and at which budget they reach a target."""
    mean = curve.mean_for(target + 10.0**-DECIMALS)
    if mean is None:
        return (
            f"no mixture of these members meets all targets there: the {objective} can be brought to "
            f"{curve.worst[-1]:.3g}, not to {target:.3g}"
        )
    return (
        f"with these members that takes mean_budget={max(0.0, mean - least_mean):.3g} there, a mean error of "
        f"{mean:.3g}"
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


def target_bound(kind: str, targets: TargetUnits, errors: Floats, allowed: Floats, judged_on: str) -> Bound:
    """Set the errors of `predict` against the targets: the largest, or the farthest beyond its own."""
    note = "a target, not a theorem" + ("; to be met, it must be less" if targets.indicator else "")
    words = f"on a {kind}, as measured on {judged_on}"
    largest = float(np.nanmax(errors))
    if np.ptp(allowed) == 0:
        return Bound(f"largest error of predict {words}", "max_error", float(allowed[0]), largest, note)
    beyond = float(np.nanmax(errors - allowed))
    note += f"; the largest error is {largest:.4g}"
    return Bound(f"largest error of predict, less max_error, {words}", "0", 0.0, beyond, note)
