"""The selected rule of a problem of rates: table of rates, warnings, and test for useless rules."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Self

import numpy as np

from tailboost.core.array_types import Column, Floats
from tailboost.core.exceptions import (
    BoundNotMetWarning,
    ConfidenceNotReachedWarning,
    LimitBelowNoiseWarning,
    SmallSubgroupsWarning,
    UselessRuleWarning,
    warn_user,
)
from tailboost.core.spelling import how_many
from tailboost.rates import (
    Limit,
    Objective,
    Rate,
    Spread,
    Strata,
    deferred,
    error,
)
from tailboost.rows.subgroups import HUMAN_REVIEW, unit_name
from tailboost.selection.contradiction import reached_words
from tailboost.selection.data import (
    Pool,
    Uncached,
)
from tailboost.selection.intervals import (
    REFIT,
    below_noise,
    effective_rows,
    probability_kept,
    tightened,
)
from tailboost.selection.problem import Problem
from tailboost.selection.program import (
    SOLVED,
    Best,
    Program,
    best_guess,
    overall_errors,
    solve,
)
from tailboost.selection.rate_table import RateTable
from tailboost.selection.summary import OVERALL, Summary

# Maximum number of subgroups in a warning.
SUBGROUPS_SHOWN = 4
# A rule is useless if a larger fraction of the rows gets one action. If a fraction r > .9 of the rows has
# this label, the limit is (1 + r)/2.
MOST_EQUAL = 0.95
# The most standard errors by which limits are tightened.
MOST_ERRORS = 3.0
# A warning names rates over fewer rows.
FEW_ROWS = 10
NO_ROOM = "the limits leave little room, and a rule within them is found where these rows are favourable"
# Reasons for a rate without an interval. With a limit and thresholds for two, three or four groups, the true
# overall error was above its 95 % interval in 17, 32 and 7 of 150, 150 and 60 draws of 800, 800 and 16,384
# rows, and below it in none; with one threshold it was above in 8 of 150 and below in 3.
OF_RATIO = "its denominator depends on the answers, and the selection finds where these rows are favourable"
OF_THRESHOLDS = (
    "the rule has a threshold for each group, selected where these rows are favourable"
)


def warn_of_limits(limits: Iterable[Limit], strata: Strata) -> None:
    """Warn of limits with too few rows to confirm any rule."""
    for limit in limits:
        words = below_noise(limit, strata)
        if words is not None:
            warn_user(words, LimitBelowNoiseWarning)


@dataclass(frozen=True, eq=False)
class SelectedRule(Uncached):
    """The selected rule, with its rates on the selection data."""

    problem: Problem
    program: Program  # the rates of the problem and all limits, including the error budget
    member: Any  # the selected candidate with its models
    words: str  # the selection data, for people
    refit: bool  # whether models were fitted again after their outputs were counted
    pool: Pool  # the candidates, with their counts for estimates
    selection: Best  # with the counts for estimates

    @cached_property
    def estimates(self) -> RateTable:
        """The rates of the objective and the limits by subgroup, on the selection data."""
        return self._counted([self.program.objective.rate, *self.program.limits])

    @cached_property
    def errors(self) -> RateTable:
        """The errors of the subgroups of the problem, with the first limit on each."""
        kind = self.problem.subgroup_kind
        rate = error(by=kind)
        stated: list[Rate | Limit] = [
            limit for limit in self.program.limits if limit.rate == rate and not limit.compares
        ]
        words = kind if isinstance(kind, str) else "subgroup"
        return self._counted([*stated, rate][:1], words)

    def rates(self, stated: Iterable[Rate | Limit]) -> RateTable:
        """Return other rates and limits on the selection data."""
        return self._counted(stated)

    @property
    def refit_spread(self) -> float:
        """The spread of rates under a refit; 0 if the counted models answer."""
        if self.refit:
            return REFIT
        return 0.0

    def _counted(self, stated: Iterable[Rate | Limit], kind: str = "") -> RateTable:
        """Return the table of rates and limits; ``kind`` as in `RateTable`."""
        return RateTable.counted(
            stated,
            self.program.strata,
            self.counts,
            self.words,
            kind=kind,
            spread=self.refit_spread,
            flattered=self._flattered,
        )

    @property
    def upper(self) -> float | None:
        """The upper end of a 95 % interval for the objective on new rows; None if a rate has none."""
        name = str(self.program.objective.rate)
        lines = [line for line in self.estimates if line.rate == name and not line.limit]
        upper_ends = [line.high for line in lines if not np.isnan(line.value)]
        if np.isnan(upper_ends).any():
            return None
        return max(upper_ends)

    @property
    def objective(self) -> Any:
        """The minimised rate."""
        return self.problem.objective

    def value(self, measured: Objective | Spread) -> float:
        """Return another objective, or the gap or ratio of a family, on the selection data."""
        return measured.value(measured.rate.terms(self.program.strata).values(self.counts))

    @property
    def counts(self) -> Floats:
        """The confusion counts of the rule on the selection data."""
        return self.selection.counts

    @property
    def gap(self) -> float:
        """Possible decrease of the objective by a mixture of the candidates, on the selection data."""
        return self.selection.gap

    @property
    def limits_met(self) -> bool | None:
        """Whether all limits hold on the selection data; None if no row is limited."""
        if (self.program.limit_of_row >= 0).any():
            return self.selection.keeps
        return None

    @cached_property
    def has_room(self) -> bool:
        """Whether one answer for all rows keeps the limits, or rules keep tighter limits.

        These are tightened by three standard errors. Gaps and ratios are not tightened, because the noise of
        the counts enlarges them.
        """
        pool = self.pool
        limits = self.problem.limits
        counts = self.selection.counts
        program = self.program.within(limits)
        if any(program.keeps(constant) for constant in program.strata.constants()):
            return True

        tighter = []
        for limit in limits:
            if not limit.compares:
                limit = tightened(
                    limit, program.strata, counts, self.refit_spread, n_errors=MOST_ERRORS
                )
            tighter.append(limit)
        return solve(pool.counts, program.within(tighter)).feasible

    def _flattered(self, rate: Rate) -> str:
        """Return why a rate has no interval, because the selection data favour the rule; or nothing."""
        if self.problem.limits and not self.problem.aims and not self.has_room:
            return NO_ROOM
        if rate.is_ratio:
            return OF_RATIO
        of_answers = rate.terms(self.program.strata).of_answers
        if of_answers or not self._has_thresholds_by_group:
            return ""
        return OF_THRESHOLDS

    @property
    def _has_thresholds_by_group(self) -> bool:
        """Whether the rule has a threshold for each of several groups."""
        probabilities = self.member.probabilities
        return bool(probabilities.group_aware and probabilities.n_places > 1)

    def within(self, limits: Sequence[Limit]) -> Self:
        """Return the same rule as one selected within these limits."""
        program = self.program.within(limits)
        violations = program.violations(self.selection.counts)
        return replace(
            self,
            problem=replace(self.problem, limits=tuple(limits), aims=False, confidence=None),
            program=program,
            selection=replace(self.selection, violations=violations),
        )

    def summary(self) -> Summary:
        """Return the summary, with a comparison with constants that defer no more rows."""
        program = deferring_no_more(self.program, self.counts)
        least_error = None
        (rule_error,) = overall_errors(self.program, self.counts[None]).tolist()
        if not self.program.strata.defers:
            least = float(overall_errors(self.program, self.pool.all_counts).min())
            least_error = min(rule_error, least)
        return Summary(
            objective=str(self.objective),
            measured_on=self.words,
            achieved=self.program.value(self.counts),
            upper=self.upper,
            constants_value=best_guess(program),
            conditions=self.problem.conditions,
            kept=self.selection.keeps,
            defers=self.program.strata.defers,
            errors=self.errors,
            rates=self.estimates if self.problem.limits else None,
            deferred=deferred_share(self.program, self.counts),
            overall=(rule_error, least_error),
            is_flattered=str(self.objective) == OVERALL and self._has_thresholds_by_group,
        )

    @cached_property
    def likely(self) -> float | None:
        """About the probability that all limits hold on new rows; None if it is unknown.

        It is unknown without limits and where the limits leave little room: there the
        selection finds where these rows are favourable.
        """
        if not self.problem.limits or not self.has_room:
            return None
        strata = self.program.strata
        return probability_kept(self.problem.limits, strata, self.counts, self.refit_spread)

    def warn(self, *, forewarned: bool) -> None:
        """Warn of violated limits, few rows, and a rule with nearly one answer."""
        strata = self.program.strata
        if not forewarned:
            warn_of_limits(self.program.limits, strata)
        self.warn_of_violations()
        if self.problem.confidence and self.problem.limits:
            self._warn_of_confidence(self.problem.confidence)
        shares = self.counts[: len(strata.mass)].sum(axis=0)
        answer = mostly_one_action(shares, np.bincount(strata.y, strata.mass))
        if answer is not None and self.selection.keeps:
            name = unit_name([*strata.classes, HUMAN_REVIEW][answer])
            warn_user(
                f"the rule answers {name} in {shares[answer]:.1%} of {self.words}",
                UselessRuleWarning,
            )
        self._warn_of_rates()

    def warn_of_violations(self) -> None:
        """Warn of violated limits on the selection data."""
        selection = self.selection
        for number in np.flatnonzero(selection.violations > SOLVED):
            limit = self.program.limits[number]
            reached = reached_words(self.program, limit, selection.counts)
            warn_user(
                f"limit violated on {self.words}: {limit}, but the best rule found reaches "
                f"{reached}",
                BoundNotMetWarning,
            )

    def _warn_of_confidence(self, confidence: float) -> None:
        """Warn if the limits hold on new rows with less than the stated probability."""
        if self.likely is None:
            warn_user(
                f"confidence={confidence:g} has no effect: it is not known how probably these "
                "limits hold on new rows. tailboost.calibrate certifies limits",
                ConfidenceNotReachedWarning,
            )
        elif self.likely < confidence:
            warn_user(
                "no rule found satisfies all limits on new rows with probability "
                f"{confidence:g}, by an estimate from these rows. Widen the limits, bring "
                "more rows, or lower confidence=",
                ConfidenceNotReachedWarning,
            )

    def _warn_of_rates(self) -> None:
        """Warn of rates over few rows."""
        strata = self.program.strata
        few = list[str]()
        for rate in self.problem.rates:
            terms = rate.terms(strata)
            sizes = effective_rows(terms, strata, self.selection.counts)
            for i in np.flatnonzero((sizes > 0) & (sizes < FEW_ROWS)):
                words = str(rate)
                if terms.names[i] is not None:
                    words += f" of {unit_name(terms.names[i])}"
                few.append(f"{words} ({how_many(round(sizes[i]), 'row')})")
        if few:
            warn_user(
                f"few rows of selection data ({self.words}): fewer than {FEW_ROWS} for "
                f"{'; '.join(few[:SUBGROUPS_SHOWN])}{' …' * (len(few) > SUBGROUPS_SHOWN)}",
                SmallSubgroupsWarning,
            )


# -- useless rules ---------------------------------------------------------------------------------------


def mostly_one_action(shares: Column, class_mass: Column) -> int | None:
    """Return the number of the action that a rule gives to nearly all rows; None if there is none.

    ``shares`` has the share of the rows with each action, shape (A,), and ``class_mass`` the mass of the rows
    of each label: a frequent label may be a frequent answer.
    """
    frequency = np.append(class_mass / class_mass.sum(), 0.0)  # 0: deferral is no label
    commonest = int(shares.argmax())
    if shares[commonest] > max(MOST_EQUAL, (1.0 + frequency[commonest]) / 2.0):
        return commonest
    return None


def deferring_no_more(program: Program, counts: Floats) -> Program:
    """Return a program with a further limit: the deferral rate of these confusion counts, shape (W, A)."""
    if not program.strata.defers:
        return program
    return program.within((*program.limits, deferred() <= deferred_share(program, counts)))


def deferred_share(program: Program, counts: Floats) -> float:
    """Return the share of rows that are deferred with these confusion counts, shape (W, A)."""
    (share,) = deferred().terms(program.strata).values(counts)
    return min(1.0, max(0.0, float(share)))
