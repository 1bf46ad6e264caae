"""Games towards targets: which is played, over which units, and what is said of targets that are missed."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tailboost._typing import Floats, Ints, Mask
from tailboost._units import unit_name
from tailboost._warn import warn_user
from tailboost.classifiers.plan import BoundNotMetWarning, Demand, SmallUnitsWarning, ask
from tailboost.combiners import Mixture, MixtureEnsemble, Vote, WorstUnit
from tailboost.data import Problem, Rows
from tailboost.rules.hedge import theory_rounds
from tailboost.statements.guarantee import Bound
from tailboost.statements.two_fold import TwoFoldEstimate, UnitEstimates
from tailboost.statements.units import UnitTable
from tailboost.targets import DECIMALS, MAX_ERRORS, SHRINKAGE, NamedUnits, Pools, TargetUnits
from tailboost.validation import Scheme

# Rounds of the error game, where no γ says how many.
ERROR_ROUNDS = 30
# The most classes that a warning names.
NAMED = 5
# The most small units that a warning lists.
MOST_COUNTED = 20


@dataclass(frozen=True)
class GameKind:
    """Which of the games is played, and how its hypotheses are combined."""

    gamma: float  # γ, also where it takes no part
    edge_asked: bool  # whether γ is stated, as the published game needs it
    # class_loss, combine: as given to the classifier.
    class_loss: str
    combine: str
    # Whether something is asked that only a mixture can keep: a limit on the mean error, or one member.
    limited: bool = False
    randomized: bool = True  # whether members may share λ

    def check(self, m: int, q: float) -> None:
        """Raise ValueError where the indicator game over ``m`` units has no condition to meet."""
        if self.class_loss == "indicator" and self.gamma <= 0:
            raise ValueError(
                f"gamma='auto' with q={q:g} gives γ = {self.gamma:.4g} for {m} units, "
                "which is not positive: use class_loss='error', or give gamma"
            )

    @property
    def indicator(self) -> bool:
        """Whether the loss of a unit is the indicator."""
        published = self.edge_asked and self.gamma > 0 and not self.limited
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

    def combiner(
        self,
        objective: WorstUnit,
        units: TargetUnits,
        n_classes: int,
        constants: bool,
        budget: float | None,
        stated: bool,
    ) -> Vote | Mixture:
        """Return what turns the hypotheses into one classifier; stated targets are its limit.

        The vote of the published game is that of its paper: the least largest error.
        """
        limit = units.limit if stated else None
        if self.votes:
            return Vote(objective, n_classes, units, limit=None if units.indicator else limit)
        return Mixture(
            objective,
            n_classes,
            with_erm=True,
            with_constants=constants,
            keep_answers=True,
            mean_budget=budget,
            randomized=self.randomized,
            limit=limit,
        )

    def demand(self, units: TargetUnits, rounds: int, stated: bool) -> Demand:
        """Return the weighted loss a learner is grown to; ``stated`` says whether errors are allowed."""
        if self.indicator:
            return Demand(0.5 - self.gamma, required=True)
        if not stated:  # as good as it gets
            return Demand(0.0)
        # Σ_k w_k R_k ≤ max_error − √(ln K/(2T)), in the scale of the losses
        allowed = float(units.allowed.max() / (1.0 + units.penalty.max()))
        return Demand(max(0.0, allowed - math.sqrt(math.log(float(len(units.base))) / (2 * rounds))))


def target_units(
    problem: Problem, scheme: Scheme, pools: Pools, max_error: Floats, indicator: bool
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
        shrinkage=SHRINKAGE / (size + SHRINKAGE) if SHRINKAGE else None,
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


@dataclass(frozen=True)
class Aims:
    """The units of a game with their targets, and what a combination reaches by them."""

    named: NamedUnits
    pools: Pools  # which of them steer together
    # targets, measured: the units that steer, with what they are allowed, and all by themselves.
    targets: TargetUnits
    measured: TargetUnits
    coin: float  # what the best mixture of constants reaches

    def held_to(self, allowed: Floats) -> Aims:
        """Return the same units with other targets, shape (m,)."""
        of_pools = self.pools.strictest(allowed).round(DECIMALS)
        targets = replace(self.targets, allowed=of_pools)
        return replace(self, targets=targets, measured=replace(self.measured, allowed=allowed))

    def outcome(
        self,
        combiner: Vote | Mixture,
        ensemble: MixtureEnsemble,
        classes: NDArray[Any],
        max_error: Floats | None,
    ) -> Outcome | None:
        """Measure a combination on the judged rows; None where the members' answers are not known.

        ``max_error`` of shape (m,) is what each unit is allowed; None allows all of them what is reached, up
        to the next usual target.
        """
        answers, rows, targets = combiner.pool.answers, combiner.pool.ledger.rows, self.targets
        if answers is None:
            return None
        expected, predicted = ensemble.loss_of(answers, rows.y), ensemble.scores_of(answers).argmax(axis=1)
        of_pools = targets.errors(rows.wrong(predicted))
        reached, drawn = targets.excess(of_pools), targets.excess(targets.errors(expected))
        least, coin = targets.limit, None
        if max_error is None:
            coin = self.coin
            least = least if targets.indicator else least_error_met(reached)
            max_error = np.full(len(self.named.names), round(least, DECIMALS))
        why = useless(predicted, reached, coin, classes)
        return Outcome(
            aims=self,
            errors=self.measured.errors(rows.wrong(predicted)),
            drawn=self.measured.errors(expected),
            of_pools=of_pools,
            allowed=max_error,
            useless=why,
            met=bool(targets.met(reached - least)) and not why and combiner.excess == 0,
            met_drawn=bool(targets.met(drawn - least)),
            judged_on=rows.words,
            draws=ensemble.draws,
            stated=coin is None,
        )


@dataclass(frozen=True)
class Outcome:
    """What a combination reaches on the judged rows, against its targets."""

    aims: Aims  # the units and their targets
    # errors, drawn: shape (m,): error of each unit by `predict` and by the randomised classifier, NaN where
    # there is none.
    errors: Floats
    drawn: Floats
    of_pools: Floats  # error of `predict` on each of the units that steer
    allowed: Floats  # shape (m,): what each unit is allowed
    useless: str  # why the answers of `predict` say nothing, whatever target they meet; "" where they do
    # met, met_drawn: whether `predict` and the randomised classifier meet all targets.
    met: bool
    met_drawn: bool
    judged_on: str  # the rows in words
    draws: bool  # whether the randomised classifier draws; else it is `predict`
    stated: bool  # whether somebody asked for these targets

    def warn(self, combiner: Vote | Mixture, stop_reason: str, estimates: Floats | None) -> None:
        """Name the units that are not measured, and those that miss their targets.

        ``estimates`` are the errors of the units on rows that the choice was not made on, where they matter.
        """
        kind, names, pools = self.aims.named.kind, self.aims.named.names.tolist(), self.aims.pools
        warn_of_unmeasured(kind, names, self.errors)
        if not self.met:
            targets, allowed = self.aims.targets, pools.strictest(self.allowed)
            missed = ~targets.met(np.nan_to_num(self.of_pools - allowed, nan=-1.0))
            way = reachable(combiner, targets.limit) if missed.any() else ""
            reason = "; ".join(filter(None, (self.useless, beyond_by_estimate(combiner), stop_reason, way)))
            warn_of_missed(
                kind, pools.names(names), self.of_pools, allowed, missed, self.judged_on, reason,
                strict=targets.indicator, estimates=estimates if pools.trivial else None,
            )  # fmt: skip

    def bounds(self) -> tuple[Bound, ...]:
        """Set the errors of `predict` against targets that somebody asked for."""
        if not self.stated:
            return ()
        allowed, kind = self.aims.pools.strictest(self.allowed), self.aims.named.kind
        return (target_bound(kind, self.aims.targets, self.of_pools, allowed, self.judged_on),)

    def table(self, rows: Rows, index: Ints, elsewhere: TwoFoldEstimate | None) -> UnitTable:
        """Return the errors of the units, of which each of the rows is in those that ``index`` names."""
        named, keeps = self.aims.named, self.aims.targets.met
        return UnitTable.of(
            named.kind,
            self.judged_on,
            named.names.tolist(),
            index,
            randomised=self.drawn,
            predict=self.errors,
            allowed=self.allowed if self.stated else None,
            met=(keeps(self.errors - self.allowed), keeps(self.drawn - self.allowed))
            if self.stated
            else None,
            estimates=UnitEstimates.of(elsewhere, index, len(named.names)),
            counts=rows.counts(index, len(named.names)),
            draws=self.draws,
        )


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


def warn_of_unmeasured(kind: str, units: Sequence[Any], errors: Floats) -> None:
    """Name the units whose error is NaN."""
    unmeasured = [unit_name(unit) for unit, error in zip(units, errors, strict=True) if np.isnan(error)]
    if unmeasured:
        warn_user(
            f"{kind} {', '.join(unmeasured[:NAMED])}: no row to measure the error on that was not "
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
    kind: str,
    units: Sequence[Any],
    errors: Floats,
    allowed: Floats,
    missed: Mask,
    judged_on: str,
    reason: str,
    *,
    strict: bool = False,
    estimates: Floats | None = None,
) -> None:
    """Name the units whose error, or else whose estimate on other rows, misses what is allowed."""
    below = "less than " if strict else ""
    words = [
        f"{unit_name(units[k])} ({errors[k]:.3g}, allowed {below}{allowed[k]:.3g})"
        for k in np.flatnonzero(missed).tolist()
    ]
    if estimates is not None:
        words += [
            f"{unit_name(units[k])} ({errors[k]:.3g}, estimate {estimates[k]:.3g}, allowed {allowed[k]:.3g})"
            for k in np.flatnonzero(~missed & (np.nan_to_num(estimates - allowed) > 0)).tolist()
        ]
    more = " and others" if len(words) > NAMED else ""
    of_whom = f" for {kind} {', '.join(words[:NAMED])}{more}" if words else ""
    because = f"; {reason}" if reason else ""
    warn_user(f"the bound is not met on {judged_on}{of_whom}{because}", BoundNotMetWarning)


def warn_of_targets(combiner: Vote | Mixture, units: Sequence[Any], allowed: Floats) -> None:
    """Name the units whose error is beyond what is allowed, on the rows of the choice or by the estimate."""
    objective, ledger = combiner.objective, combiner.pool.ledger
    assert isinstance(objective, WorstUnit)
    assert isinstance(combiner, Mixture)
    rows, index = ledger.rows, replace(objective, pools=None).index(ledger.rows)
    ensemble, wrong = combiner.stage(combiner.pool.n_rounds), combiner.errs
    whole = np.ones(len(rows.y), dtype=np.bool_)
    losses = ledger.pool().combine(ensemble.weights) if wrong is None else wrong(ensemble, whole)
    errors, estimates = rows.means(index, len(units), losses), None
    missed = np.nan_to_num(errors - allowed).round(DECIMALS) > 0
    if combiner.excess > 0:
        found = UnitEstimates.of(TwoFoldEstimate.of(combiner, wrong), index, len(units))
        estimates = None if found is None else found.drawn if found.predict is None else found.predict
    if missed.any() or combiner.excess > 0:
        warn_of_missed(
            objective.unit, units, errors, allowed, missed, rows.words, beyond_by_estimate(combiner),
            estimates=estimates,
        )  # fmt: skip


def beyond_by_estimate(combiner: Vote | Mixture) -> str:
    """Say how far beyond the targets the choice is, where none keeps them; else nothing."""
    if combiner.excess == 0:
        return ""
    return (
        "no choice keeps all targets by the estimate on rows it was not made on; of the one made the largest "
        f"excess there is {combiner.excess:.3g}"
    )


def reachable(combiner: Vote | Mixture, target: float) -> str:
    """Say at which budget the targets are reached along the curve of mixtures, or how far the curve goes.

    Nothing is said of a vote, which is no mixture, and of an even mixture.
    """
    if not isinstance(combiner, Mixture) or combiner.even:
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


def target_bound(kind: str, targets: TargetUnits, errors: Floats, allowed: Floats, judged_on: str) -> Bound:
    """Set the errors of `predict` against the targets: the largest, or the farthest beyond its own."""
    note, strict = "a target, not a theorem", targets.indicator
    words = f"on a {kind}, as measured on {judged_on}"
    largest = float(np.nanmax(errors))
    if np.ptp(allowed) == 0:
        return Bound(
            f"largest error of predict {words}", "max_error", float(allowed[0]), largest, note, strict
        )
    beyond = float(np.nanmax(errors - allowed))
    note += f"; the largest error is {largest:.4g}"
    return Bound(f"largest error of predict, less max_error, {words}", "0", 0.0, beyond, note, strict)
