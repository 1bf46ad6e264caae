"""The selected rule of a problem of rates: its table, its warnings, and whether it is useless."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from tailboost import rates
from tailboost._typing import Floats, Mask
from tailboost._units import unit_name
from tailboost._warn import warn_user
from tailboost.classifiers.plan import (
    BoundNotMetWarning,
    ConfidenceNotReachedWarning,
    LimitBelowNoiseWarning,
    SmallUnitsWarning,
    UselessRuleWarning,
)
from tailboost.combiners import MixtureEnsemble
from tailboost.rates import (
    GAP,
    RATIO,
    Limit,
    Objective,
    Spread,
    Strata,
    error,
)
from tailboost.rates import InfeasibleLimitsError as InfeasibleLimitsError
from tailboost.statements.guarantee import Guarantee
from tailboost.thresholds import (
    ROUNDING,
    ROWS,
    SLIGHT,
    SOLVED,
    LimitsOutlook,
    Member,
    Pool,
    Program,
    RateTable,
    Selection,
    Table,
    below_noise,
    charges,
    decide,
    grow,
    mixed,
    outlook,
    plain_state,
    solve,
)

if TYPE_CHECKING:
    from tailboost.mixture._rated import Stated

# Groups that a warning names.
SHOWN = 4
# A rule that answers one action for a larger share of the rows is useless, unless that action is the truth of
# about as many: the other answers must be at least half as frequent as they are true.
MOST_ALIKE = 0.95
# A number from a standard normal distribution is larger in 5 % of the draws.
ONE_SIDED = 1.6448536269514722
# By what share of its value one rule that keeps limits may be worse than a draw that keeps them, unsaid, and
# what share of the rows is answered alike where such a rule is said to do so.
DEAR = 0.1
FEW_ROWS = 10  # rates of fewer rows are named in a warning
UNKNOWN = "no probability that limits hold on new rows: confusion counts do not tell how costs of rows vary"
# Such rules kept a gap on new rows in 22 % of 40 draws where 54 % was computed (one score, two groups).
GUESSED = "no probability that limits hold on new rows: the groups are estimated from the scores alone"


def warn_of_noise(limits: Iterable[Limit], strata: Strata) -> None:
    """Warn of limits that so few rows cannot show to be kept, whatever is chosen."""
    for limit in limits:
        if (why := below_noise(limit, strata)) is not None:
            warn_user(why, LimitBelowNoiseWarning)


@dataclass(frozen=True)
class Passing:
    """The errors that deferred rows would have been answered with, beside those of the others."""

    deferred: float  # weight of the deferred rows
    error: float  # the error that their labels would have
    others: float  # the error among the answered rows
    noise: float  # standard error of ``error`` if it were that of the others

    @classmethod
    def of(cls, table: Table, members: Sequence[Member], weights: Floats) -> Passing:
        """Return them for candidates with weights on the selection data."""
        y, K, total = table.strata.y[table.stratum], table.strata.n_classes, np.zeros(5)
        for weight, member in zip(weights, members, strict=True):
            charged = charges(table.beliefs[member.source], member.prices)
            deferred, wrong = decide(charged) == K, rates.wrong(decide(charged[:K]), y)
            share = weight * table.share
            each = share[deferred], share[deferred & wrong], share[~deferred], share[~deferred & wrong]
            total += [*(part.sum() for part in each), weight * (table.share[deferred] ** 2).sum()]
        passed, wrongly, answered, missed, squares = total.tolist()
        error, others = wrongly / max(passed, 1e-300), missed / max(answered, 1e-300)
        noise = np.sqrt(max(others * (1.0 - others), 0.0) * squares) / max(passed, 1e-300)
        return cls(passed, error, others, float(noise))

    @property
    def gains(self) -> bool:
        """Whether the deferred rows would be answered worse than the others, at the 5 % level."""
        return self.deferred in (0.0, 1.0) or self.error - self.others > ONE_SIDED * self.noise


@dataclass(frozen=True, eq=False)
class RateChoice:
    """The selected rule: its members with their weights, and what it does on the selection data."""

    stated: Stated  # what was asked for
    program: Program  # the objective and all limits, that of the budget included
    pool: Pool  # the candidates
    selection: Selection
    ensemble: MixtureEnsemble  # the members with their shares
    words: str  # the selection data, for people
    sharing: bool  # whether members may share
    refit: bool  # whether refits answer instead of the models that were counted
    confidence: float | None = None  # with which probability limits were to hold on new rows
    untightened: float | None = None  # the objective without this, if limits were tightened

    def __getstate__(self) -> dict[str, Any]:
        return plain_state(self)

    @cached_property
    def outlook(self) -> LimitsOutlook | None:
        """The probability that all limits hold on new rows; None where it is not known."""
        if self._guesses_groups:
            return None
        counts = self.selection.counts
        return outlook(self.stated.limits, self.program.strata, counts, self.refit, self.confidence or 0.9)

    @cached_property
    def table(self) -> RateTable:
        """Every rate of the objective and the limits by subgroup, on the selection data."""
        table = self._tabled(self._worth)
        if self.outlook is None and self.stated.limits:
            table = replace(table, notes=(*table.notes, GUESSED if self._guesses_groups else UNKNOWN))
        before, value = self.untightened, self.selection.value
        if before is None:
            return table
        price = f"limits were tightened for this: {self.objective} {value:.4f} instead of {before:.4f}"
        return replace(table, notes=(*table.notes, price))

    @property
    def _guesses_groups(self) -> bool:
        """Whether rules estimate the group from the models' probabilities, without features."""
        beliefs = [member.belief for member in self.ensemble.members]
        return any(belief.infers and not belief.by_features for belief in beliefs)

    def _tabled(self, worth: Sequence[Floats] | None = None) -> RateTable:
        table = RateTable.of(self.program, self.selection.counts, self.words, worth, refit=self.refit)
        return table.expecting(self.outlook)

    @property
    def _worth(self) -> tuple[Floats, ...] | None:
        """The shadow prices of the limits, of the best mixture of all rules."""
        if not self.program.limits:
            return None
        small = self.pool.table.at_hand.thinned(ROWS)
        pool = self.pool.copy() if small is self.pool.table else self.pool.on(small)
        growth = grow(pool, self.program.over(small.strata))
        return growth.program.worth(growth.solved.duals, self.selection.counts)

    def within(self, limits: Sequence[Limit]) -> RateChoice:
        """Return the rule as one that is selected within these limits."""
        program = self.program.within(limits)
        found = replace(self.selection, excesses=program.excesses(self.selection.counts), growth=None)
        stated = replace(self.stated, limits=tuple(limits), aims=False)
        return replace(self, stated=stated, program=program, selection=found)

    @cached_property
    def errors(self) -> RateTable:
        """The errors of the subgroups that the problem is about."""
        return self.errors_by(self.stated.kind)

    def errors_by(self, kind: Any) -> RateTable:
        """Return the errors of subgroups."""
        rate = error(by=kind)
        limit = next((each for each in self.program.limits if each.rate == rate and not each.compares), None)
        kind = kind if isinstance(kind, str) else "subgroup"
        strata, counts = self.program.strata, self.selection.counts
        return RateTable.counted([(rate, limit)], strata, counts, self.words, kind=kind, refit=self.refit)

    @property
    def upper(self) -> float | None:
        """The upper end of a 95 % interval for the objective on new rows; None where a rate has none."""
        own = [line for line in self._tabled() if line.rate == str(self.objective.rate) and not line.limit]
        ends = [line.high for line in own if not np.isnan(line.value)]
        return None if np.isnan(ends).any() else max(ends)

    @property
    def passing(self) -> Passing | None:
        """Errors of deferred rows, where rows may be deferred."""
        table, found = self.pool.table.at_hand, self.selection
        if not table.strata.defers:
            return None
        return Passing.of(table, [self.pool.members[i] for i in found.numbers], found.weights)

    @property
    def objective(self) -> Objective:
        """What is made small."""
        return self.program.objective

    @property
    def gap(self) -> float:
        """By how much a draw among the candidates could be better on the selection data."""
        return self.selection.gap

    @property
    def limits_met(self) -> bool | None:
        """Whether all limits are kept on the selection data; None without any, or if no row is limited."""
        return self.selection.keeps if (self.program.of >= 0).any() else None

    def value(self, measured: Objective | Spread) -> float:
        """Return another objective, or the gap or ratio of a family, on the selection data."""
        return measured.value(measured.rate.terms(self.program.strata).values(self.selection.counts))

    def guarantee(self, classes: Sequence[Any], name: str) -> Guarantee:
        """Return what is reached, beside constants and the most likely class; ``name`` says whose that is."""
        program, found = self.program.within(()), self.selection
        constants = Pool(self.pool.table)
        numbers = constants.constants()
        coin = solve(constants, program)
        best = mixed(coin.solved.weights, constants.counts)
        alone = error().terms(program.strata)
        plain = min(self.pool.counts, key=lambda counts: float(alone.values(counts)[0]))
        even = np.full(len(numbers), 1.0 / len(numbers))
        rule = self.ensemble.members[0].rule if len(found.numbers) == 1 else None
        only = None if rule is None else name
        if rule is not None and rule.is_constant:
            only = f"the constant {classes[int(rule.prices[0, : len(classes)].argmin())]!r}"
        values = [program.value(each) for each in (found.counts, mixed(even, constants.counts), plain, best)]
        ignoring = all(member.rule.is_constant for member in self.ensemble.members)
        return Guarantee(
            promised=(),
            observed=(),
            achieved=values[0],
            achieved_on_all=values[0],
            dropped=0.0,
            gap=self.gap,
            objective=str(self.objective),
            judged_on=self.words,
            coin_flip_value=values[1],
            erm_value=values[2],
            alone="the most accurate rule",
            constants_value=values[3],
            only=only,
            ignores_features=ignoring,
            largest_error=None,
            is_coin_flip=values[0] >= values[1] - ROUNDING,
            beats_coin_flip_from=None,
            symbols={},
            upper=self.upper,
            units=self.errors,
            draws=len(found.numbers) > 1,
        )

    def warn(self, *, forewarned: bool) -> None:
        """Name the limits that so few rows cannot show to be kept, unless that was said before."""
        if not forewarned:
            warn_of_noise(self.program.limits, self.program.strata)

    def warn_of_missed(self) -> None:
        """Name the limits that the rule does not keep, and those that are below their own noise."""
        found, limits, words = self.selection, self.program.limits, self.words
        for number in np.flatnonzero(found.excesses > SOLVED):
            limit = limits[number]
            values = limit.rate.terms(self.program.strata).values(found.counts)
            alone = not self.sharing and found.drawn[number] <= ROUNDING
            way = (
                f"; randomized=True, a draw among several rules, keeps it there, with {self.objective} of "
                f"{found.bound:.4g} (this rule: {found.value:.4g})"
                if alone
                else ""
            )
            warn_user(
                f"limit not kept on {words}: {limit}, but the best rule found reaches "
                f"{_broken(limit, self.program.strata, values)}{way}",
                BoundNotMetWarning,
            )
        likely, lines = self.outlook, self._tabled()
        if self.confidence and likely is None and self.stated.limits:
            unstated = GUESSED if self._guesses_groups else UNKNOWN
            warn_user(f"confidence={self.confidence:g}: {unstated}", ConfidenceNotReachedWarning)
        if self.confidence is not None and likely is not None and likely.probability < self.confidence:
            warn_user(
                f"no rule found keeps all limits on new rows with probability {self.confidence:g}: this one "
                f"does with {likely.probability:.2f}; {likely.shortfall}. Widen the limits, bring more rows, "
                "or lower confidence=",
                ConfidenceNotReachedWarning,
            )
        if limits and not self.sharing and found.keeps and found.gap > DEAR * abs(found.value):
            most = found.counts[: len(self.program.strata.mass)].sum(axis=0).max()
            warn_user(
                f"the best rule found that keeps the limits on {words} "
                f"{f'answers {most:.1%} of the rows alike and ' if most > MOST_ALIKE else ''}has "
                f"{self.objective}: {found.value:.4g}; randomized=True, a draw among several "
                f"rules, keeps them with {found.bound:.4g}"
            )
        if (why := useless(self.pool, self.program, found)) is not None:
            warn_user(f"useless rule on {words}: {why}", UselessRuleWarning)
        if (passing := self.passing) is not None and not passing.gains:
            warn_user(
                f"deferral gains nothing beyond chance: on {words} the deferred rows would be answered with "
                f"an error of {passing.error:.4f}, the others are with {passing.others:.4f}"
            )
        few = [
            f"{line.rate}{'' if line.unit is None else f' of {unit_name(line.unit)}'}"
            for line in lines
            if 0 < line.rows < FEW_ROWS
        ]
        if few:
            warn_user(
                f"few rows to choose on ({words}): fewer than {FEW_ROWS} for "
                f"{'; '.join(dict.fromkeys(few[:SHOWN]))}{' …' if len(few) > SHOWN else ''}",
                SmallUnitsWarning,
            )
        said = {str(limit) for limit in limits if below_noise(limit, self.program.strata) is not None}
        for line in lines:
            noisy = line.unit == GAP and line.high - line.value > line.bound  # the other end stops at 0
            noisy |= line.unit == RATIO and line.value - line.low > 1.0 - line.bound
            if noisy and line.limit not in said:
                warn_user(
                    f"{line.limit}: below the noise of its rates, {line.low:.4f} to {line.high:.4f} on "
                    f"{words}; on fresh rows it may well be broken",
                    LimitBelowNoiseWarning,
                )


def _broken(limit: Limit, strata: Strata, values: Floats) -> str:
    """Return what a limit reaches, by the subgroups that break it."""
    names = limit.rate.terms(strata).names
    if limit.compares or len(names) == 1:
        return f"{limit.said_of(values):.4g}"
    bounds = limit.bounds(names)
    rows = zip(names, values.tolist(), bounds.tolist(), strict=True)
    sign = 1.0 if limit.from_above else -1.0
    beyond = [f"{v:.4g} for {unit_name(n)} (limit {b:g})" for n, v, b in rows if sign * (v - b) > SOLVED]
    return ", ".join(beyond[:SHOWN]) + (" …" if len(beyond) > SHOWN else "")


def useless(pool: Pool, program: Program, found: Selection) -> str | None:
    """Say why a rule within limits is useless, which limit forces that, and which one would not.

    A rule is useless if it answers one action for more than 95 % of the rows, or if its objective is no
    better than that of the best random guess within the same limits. None for a useful rule, or without
    limits.
    """
    if not program.limits or not found.keeps:
        return None
    guess = _best_guess(pool, program)
    why = _why(program, found.counts, found.value, guess)
    if why is None:
        return None
    values, _ = program.judge(pool.tallies)
    values = values * program.scale
    useful: Mask = np.array(
        [_why(program, counts, v, guess) is None for counts, v in zip(pool.counts, values, strict=True)]
    )
    excesses = np.where(useful[:, None], program.excesses(pool.tallies), np.inf)
    beyond = np.where(excesses > SLIGHT, excesses, 0.0)
    # The limit that has to give way least, by itself or else together with others.
    best = int(np.lexsort((beyond.max(axis=1), (beyond > 0).sum(axis=1)))[0])
    number = int(beyond[best].argmax())
    limit = program.limits[number]
    forced = f"{why}, to keep {limit} (it reaches {_reached(program, limit, found.counts)})"
    if not useful.any():
        return f"{forced}. No candidate is useful: the models may be too weak"
    return (
        f"{forced}. The nearest limit with a useful rule: {_reached(program, limit, pool.counts[best])}, "
        f"with {program.objective} of {values[best]:.4g}"
    )


def _why(program: Program, counts: Floats, value: float, guess: float) -> str | None:
    """Return in words why confusion counts are those of a useless rule; None if they are not."""
    strata = program.strata
    actions = counts[: len(strata.mass)].sum(axis=0)
    most = int(actions.argmax())
    truth = np.bincount(strata.y, strata.mass, strata.n_actions)[most]
    if actions[most] > max(MOST_ALIKE, (1.0 + truth) / 2.0):
        named: Any = strata.classes[most] if most < strata.n_classes else "deferral"
        return f"it answers {unit_name(named)} for {actions[most]:.1%} of the rows"
    if value >= guess - ROUNDING:
        return f"its {program.objective}, {value:.4g}, is no better than that of a random guess ({guess:.4g})"
    return None


def _best_guess(pool: Pool, program: Program) -> float:
    """Return the least objective of a draw among constants within the limits; infinite without one."""
    every = pool.copy()
    numbers = every.constants()
    constants = Pool(pool.table, [every.members[i] for i in numbers], [every.counts[i] for i in numbers])
    growth = solve(constants, program)
    if not growth.feasible:
        return float("inf")
    return program.value(np.tensordot(growth.solved.weights, constants.tallies, axes=1))


def _reached(program: Program, limit: Limit, counts: Floats) -> str:
    """Return what counts reach in a limit: in the subgroup that is nearest to its bound or beyond."""
    terms = limit.rate.terms(program.strata)
    values = terms.values(counts)
    if limit.compares or len(values) < 2:
        return f"{limit.said_of(values):.4g}"
    room = limit.bounds(terms.names) - values
    tightest = int(np.nanargmin(room if limit.from_above else -room))
    return f"{values[tightest]:.4g} for {unit_name(terms.names[tightest])}"
