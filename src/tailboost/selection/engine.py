"""The engine: it selects among candidates on the selection data, for any problem, without a fit."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from scipy.special import softmax

from tailboost.boosting.ensemble import MixtureEnsemble
from tailboost.core.array_types import Floats, Stated, Table
from tailboost.core.long_work import one_blas_thread, steps
from tailboost.rates import InfeasibleLimitsError, Objective, error
from tailboost.rows.group_names import GroupNames
from tailboost.selection.confidence import confident
from tailboost.selection.curve import SLACK
from tailboost.selection.data import (
    ROWS,
    AnySelectionData,
    Candidate,
    Pool,
    SelectionData,
    by_probabilities,
    contrasts,
    expected_costs,
    from_contrasts,
    plain_costs,
    with_unlabeled,
)
from tailboost.selection.mixture import Grouping, Mixture, ModelPool
from tailboost.selection.probabilities import (
    POWERS,
    ModelOutputs,
    PowerDraw,
    ProbabilityRule,
    StratumProbabilities,
    group_features,
    has_group_features,
    stratum_probabilities,
)
from tailboost.selection.problem import (
    LEAST_WEIGHT,
    MOST_CHARGE,
    SLIGHT,
    SOLVED,
    Best,
    Problem,
    Program,
    Solution,
    best_in_pool,
    charge_of,
    combination_of_unlabeled,
    grow,
    mixed,
    number_selected,
    overall_errors,
    solve,
    strata_of,
    within_budget,
)
from tailboost.selection.score_rule import KnownScores
from tailboost.selection.selected import (
    ONE_SIDED,
    Comparison,
    Selected,
    SelectedRule,
    SelectedTail,
    without_tiny,
)
from tailboost.solvers.tradeoff import undominated

# More than the rounding error of a sum of weights.
ROUNDING = 1e-12
# Number of candidates at the start of a search. With 8, and 80 instead of 40 thresholds on a line, the error
# within an odds gap over four groups was .0053 ± .0050 lower than with 4 (34 problems): lower in 12,
# higher in 6.
STARTS = 8
# The same for a selection within tightened limits, whose pool has the candidates of the selections before.
# With 4 instead of 8 the seconds with confidence fell by 28 % on 40 kinds of problems (220 draws). With two
# groups kept changed by .008 ± .016 and the error by −.0013 ± .0016, with four by −.020 ± .039 and
# .0007 ± .0015.
FEW_STARTS = 4
# Largest excess of the scaled objective over the best mixture without a search for better candidates. On 39
# problems of 10 tables the objective with 0 was .0002 ± .0002 higher, with .02 .0011 ± .0013 lower.
MOST_EXCESS = 5e-3
# Number of interpolated candidates between two candidates, for more than `ROWS` rows of selection data.
# Without them one limit of 38 fewer held on all rows, and the objective was .010 ± .010 higher.
STEPS = 24
# Learning rate of Hedge, its rounds for each share of `ERROR_SHARES`, the rounds between new candidates. 80
# rounds instead of 20 changed the cost by −.0000 ± .0008 (25 tables, 3 splits).
HEDGE_RATE = 1.0
HEDGE_ROUNDS = 20
EVERY = 2
# Shares of the overall error in the action costs. With all five the worst subgroup within budgets is
# .044 ± .026 lower than with one, and .011 ± .010 lower than with two (25 tables, 3 splits).
ERROR_SHARES = (0.0, 0.5, 0.75, 0.875, 0.9375)


@one_blas_thread
def add_by_hedge(pool: Pool, program: Program) -> None:
    """Add the rules of least cost under the subgroup weights of Hedge, for a largest rate.

    Hedge gives more weight to subgroups with larger rates. The overall error is a fixed share of the action
    costs, for each share of `ERROR_SHARES`.
    """
    data = pool.data.in_memory
    rows = program.matrix[program.limit_of_row == -1]
    costs = program.subgroup_costs
    plain = plain_costs(data)
    for share in ERROR_SHARES:
        losses: Floats = np.zeros(len(rows))
        for t in range(HEDGE_ROUNDS):
            weighted = np.tensordot(softmax(HEDGE_RATE * losses), costs, axes=1)
            candidate = Candidate.of((1.0 - share) * weighted + share * plain)
            actions = data.actions(candidate)
            losses = losses + rows @ data.count(actions).ravel()
            if t % EVERY == EVERY - 1:
                pool.enter(candidate, actions)


@one_blas_thread
def first_candidates(data: AnySelectionData, program: Program) -> Pool:
    """Return candidates for an objective, for any limits.

    These are rules of least expected cost and constants. For a largest rate there are also the best rules for
    the subgroup weights of Hedge, an algorithm that gives more weight to subgroups with larger rates.

    If there are more than `ROWS` rows, candidates are made on a sample. The undominated ones are counted on
    all rows.
    """
    small = data.in_memory.thinned(ROWS)
    pool = Pool(small)
    if small is data:
        over = program
    else:
        over = program.over(small.strata)
    plain = pool.add_all([Candidate.of(plain_costs(small)), Candidate.of(over.plain)])
    if program.objective.worst:
        add_by_hedge(pool, over)
    plain += pool.constants()
    for number in range(len(pool.candidates) if len(program.caps[1]) else 0):
        pool.add(filled(pool, over, pool.candidates[number]))
    if small is data:
        return pool
    value, violation = over.evaluate(pool.all_counts)
    front = undominated(
        np.where(violation > SLIGHT, value + MOST_CHARGE, value),
        overall_errors(over, pool.all_counts),
    )
    on_all = pool.on(data, list(dict.fromkeys([*plain, *front.tolist()])))
    on_all.add(filled(on_all, program, pool.candidates[0]))
    return on_all


def best_by_search(
    pool: Pool,
    program: Program,
    *,
    randomized: bool = False,
    budgeted: bool = False,
    starts: int = STARTS,
) -> Best:
    """Select within limits, and add candidates to the pool if they can help.

    If the best candidate without limits satisfies all limits, it is selected, and no candidate is added.
    Without limits, the best candidate is the rule of least expected cost or, for a largest rate, the best of
    the pool within the error budget. The last limit is an error budget if ``budgeted``. ``starts`` is the
    number of candidates at the start of a search.
    """
    # The best rule for a ratio depends on the reached level. Only the growth finds this level.
    is_ratio = program.objective.rate.is_ratio and not program.objective.worst
    if not is_ratio and (not randomized or not (program.objective.worst or program.limits)):
        # Without limits one rule is best: a mixture would gain by chance alone.
        n_stated = len(program.limits) - budgeted
        light = [
            limit
            for i, limit in enumerate(program.limits)
            if i >= n_stated or limit.rate.needs_deferral
        ]
        if program.objective.worst:
            free = number_selected(pool, program.within(light))
        elif program.objective.rate.needs_costs:
            sweep(pool, program, 0)  # the stratum does not tell the cost of a row
            free = number_selected(pool, program.within(light))
        else:  # the rule of least expected cost
            free = pool.add(filled(pool, program, Candidate.of(program.plain)))
        if program.violations(pool.counts[free]).max(initial=0.0) <= SLIGHT:
            return best_in_pool(pool, program, among=[free])
    small = pool.data.in_memory.thinned(ROWS)
    if small is pool.data:
        return _extend(pool, program, starts, randomized=randomized)
    sample = pool.on(small)
    over = program.over(small.strata)
    best = _extend(sample, over, starts, randomized=randomized)
    if randomized:
        # The limits on all rows need other candidates than those on the sample.
        descend(sample, over, best.solution)
        pool.add_all(sample.candidates)
        return best_in_pool(pool, program, randomized=True)
    carried = [int(best.numbers[0]), *map(int, np.flatnonzero(best.solution.weights))]
    number, *towards = pool.add_all([sample.candidates[i] for i in carried])
    _refine(pool, program, number, towards)
    return best_in_pool(pool, program)


def _extend(pool: Pool, program: Program, n_starts: int, *, randomized: bool) -> Best:
    """Select after adding candidates by column generation and, for a single rule, by search."""
    solution = grow(pool, program)
    if randomized:
        return best_in_pool(pool, program, randomized=True)
    for number in range(len(pool.candidates) if len(program.caps[1]) else 0):
        pool.add(filled(pool, program, pool.candidates[number]))
    sweep(pool, program, 0)
    weights = solution.weights
    largest = np.argsort(-weights, kind="stable")[:n_starts]
    towards = [int(i) for i in largest if weights[i] > LEAST_WEIGHT]
    for i, one in enumerate(towards):
        for other in towards[i + 1 :]:
            mixing = float(weights[one] / (weights[one] + weights[other]))
            pool.add_all(_between(pool, other, one, (mixing, 0.25, 0.5, 0.75)))
    best = best_in_pool(pool, program)
    enough = best.bound / program.scale + MOST_EXCESS
    if (best.keeps and best.value / program.scale <= enough) or (
        best.mixture_violations > SOLVED
    ).any():
        return best
    charge = charge_of(solution)
    values, violations = program.evaluate(pool.all_counts)
    ranked = np.argsort(values + charge * violations, kind="stable")[:n_starts].tolist()
    starts = dict.fromkeys([int(best.numbers[0]), *towards[:1], *ranked])
    before = len(pool.candidates)
    search(pool, program, list(starts)[:n_starts], towards, charge, enough - MOST_EXCESS / 2)
    if len(pool.candidates) == before:
        return best
    return best_in_pool(pool, program)


def _between(pool: Pool, first: int, last: int, places: Sequence[float]) -> list[Candidate]:
    """Return candidates with action costs between those of two others, at places from 0 to 1."""
    one = pool.candidates[first].action_costs
    other = pool.candidates[last].action_costs
    return [Candidate.of((1 - t) * one + t * other) for t in places]


def _refine(pool: Pool, program: Program, number: int, towards: Sequence[int]) -> None:
    """Add candidates between the best one of a sample, which may violate limits on all rows, and others."""
    pool.add(filled(pool, program, pool.candidates[number]))
    if program.violations(pool.counts[number]).max(initial=0.0) > SLIGHT:
        places = np.geomspace(1e-3, 1.0, STEPS).tolist()
        ends = dict.fromkeys([*towards, *pool.constants()])
        pool.add_all(
            [new for i in ends if i != number for new in _between(pool, number, i, places)]
        )


def filled(pool: Pool, program: Program, candidate: Candidate) -> Candidate:
    """Return a candidate with the cost of deferral at which as many rows are deferred as the limits allow.

    The rows that gain most are deferred first. Answers to shadow prices defer too many or too few rows if a
    small change of a price moves many rows. Without a limit on deferral the candidate is returned unchanged.
    """
    if not len(program.caps[1]):
        return candidate
    data = pool.data.in_memory
    if data is not pool.data:
        program = program.over(data.strata)
    K, (caps, most) = data.strata.n_classes, program.caps
    costs = expected_costs(data.probabilities, candidate.action_costs)
    gain = costs[:K].min(axis=0) - costs[K]
    order = np.argsort(-gain, kind="stable")
    of_row = [data.by_row(data.weights * cap[data.stratum]) for cap in caps]
    spent = np.cumsum(np.array(of_row)[:, order], axis=1)
    inside = (spent <= most[:, None] + ROUNDING).all(axis=0)
    if inside.all():
        first_outside = len(order)
    else:
        first_outside = int(inside.argmin())
    ordered = gain[order]
    # Rows of equal gain are deferred together or not at all.
    last = first_outside - 1
    while 0 <= last < len(order) - 1 and ordered[last] == ordered[last + 1]:
        last -= 1
    ends = (ordered[max(last, 0)], ordered[min(last + 1, len(order) - 1)])
    if last < 0:
        threshold = ends[0] + 1.0
    elif last == len(order) - 1:
        threshold = ends[1] - 1.0
    else:
        threshold = sum(ends) / 2.0
    action_costs = candidate.action_costs.copy()
    action_costs[:, K] += threshold
    return Candidate.of(action_costs)


# -- search along lines of action costs; all thresholds on a line are counted at once ----------------------

# Lines from each start; lines without a better rule before the next start; fraction of lines that lead
# towards another candidate.
LINES = 60
IDLE_LINES = 30
TOWARDS = 0.3
# Thresholds counted on a line of a search, and on a line towards a constant.
PLACES = 80
SWEPT = 256
# The most candidates of least counted cost. On 100,000 rows of a score that is no probability, the error
# within odds gaps was .0001 above the least one, without these candidates .0020. On at most 2,000 rows of 24
# problems such candidates fit noise: the excess over limits on precision was .004 to .016 larger.
DESCENTS = 40
# The least improvement that counts as one.
BETTER = 1e-9


def line(
    data: SelectionData, costs: Floats, action: int, direction: Floats, most: int
) -> tuple[Floats, Floats]:
    """Return thresholds δ and the confusion counts of the rules ``cost of the action + δ · direction``.

    A row changes its action once as δ grows. So the counts at all thresholds are cumulative sums over the
    rows in the order of their changes. If there are more than ``most`` thresholds, about half of those
    counted are nearest to 0.

    Parameters
    ----------
    costs : ndarray of shape (A, n) or (1, n)
        Expected costs of the actions, see `expected_costs`; of two actions their difference.
    direction : ndarray of shape (n,)
        Change of the action's cost in each row for δ = 1.

    Returns
    -------
    places : ndarray of shape (T,)
    counts : ndarray of shape (T, W, A)
    """
    n = costs.shape[1]
    n_strata = len(data.strata.mass)
    A = data.strata.n_actions
    if len(costs) == 1:
        to = 1
        other = np.zeros(n, dtype=np.intp)
        against = np.zeros(n)
    else:
        others = costs.copy()
        others[action] = np.inf
        to = action
        other = others.argmin(axis=0)
        against = others[other, np.arange(n)]
    moves = direction != 0
    at = np.where(moves, (against - costs[action]) / np.where(moves, direction, 1.0), np.inf)
    takes = np.where(moves, direction > 0, costs[action] < against)  # at the least δ
    ends = np.unique(at[moves])
    if len(ends) > most:
        here = np.searchsorted(ends, 0.0)
        last = len(ends) - 1
        steps = np.geomspace(1, len(ends), most // 4).astype(np.intp)
        ranks = np.concatenate(
            [here + steps - 1, here - steps, np.linspace(0, last, most // 2).astype(np.intp)]
        )
        ends = ends[np.unique(ranks.clip(0, last))]
    if not len(ends):
        return np.zeros(0), np.zeros((0, n_strata, A))
    places = np.concatenate([ends[:1] - 1.0, (ends[1:] + ends[:-1]) / 2.0, ends[-1:] + 1.0])
    place = np.searchsorted(
        places, at, side="right"
    )  # the first threshold at which a row has changed
    place[~moves] = len(places)
    size = n_strata * A
    cell = data.stratum * A
    if data.costs is None:
        paid = None
    else:
        paid = (data.costs[:, to], data.costs[np.arange(n), other])
    other, takes, place = (data.by_entry(each) for each in (other, takes, place))

    def summed(if_taken: Floats, if_not: Floats) -> Floats:
        first = np.bincount(
            cell + np.where(takes, to, other), np.where(takes, if_taken, if_not), size
        )
        sign = np.where(takes, -1.0, 1.0)
        changes = np.bincount(
            place * size + cell + to, sign * if_taken, (len(places) + 1) * size
        )
        changes -= np.bincount(
            place * size + cell + other, sign * if_not, (len(places) + 1) * size
        )
        sums: Floats = first + changes.reshape(-1, size)[:-1].cumsum(axis=0)
        return sums.reshape(-1, n_strata, A)

    counts = [summed(data.weights, data.weights)]
    if paid is not None:
        counts.append(summed(*(data.weights * data.by_entry(each) for each in paid)))
    return places, np.concatenate(counts, axis=1)


def sweep(pool: Pool, program: Program, number: int) -> None:
    """Add the best threshold on each line from a candidate towards a constant.

    For two classes without groups these lines contain all thresholds on the score.
    """
    data = pool.data.in_memory
    candidate = pool.candidates[number]
    expected = expected_costs(data.probabilities, candidate.action_costs)
    costs = contrasts(candidate.action_costs)
    for action in range(len(expected)):
        places, counts = line(data, expected, action, np.ones(len(data)), SWEPT)
        if not len(places):
            continue
        value, violation = program.evaluate(counts)
        best = int(np.lexsort((value, np.where(violation <= SLIGHT, 0.0, violation)))[0])
        moved = costs.copy()
        moved[:, action] += places[best]
        pool.add(Candidate.of(from_contrasts(moved)))


def descend(pool: Pool, program: Program, solution: Solution) -> None:
    """Add candidates of least counted cost under the shadow prices, until they improve the mixture no more.

    Column generation takes the rule of least expected cost. This is not the rule of least counted cost if the
    stratum probabilities are wrong, as for a score that is no probability. Here thresholds are counted: a
    line moves the cost of one action for one combination of groups.
    """
    data = pool.data.in_memory
    combinations = np.arange(len(data.probabilities)) % data.strata.n_combinations
    directions = [
        (combinations == g).astype(np.float64) for g in range(data.strata.n_combinations)
    ]
    moves = [
        expected_costs(data.probabilities, from_contrasts(each[:, None]))[0]
        for each in directions
    ]
    for _ in range(DESCENTS):
        priced = solution.program
        before = len(pool.candidates)
        costs = contrasts(pool.candidates[int(solution.weights.argmax())].action_costs).copy()
        reduced = priced.cost + solution.duals @ priced.matrix
        for direction, moved in zip(directions, moves, strict=True):
            for action in range(costs.shape[1]):
                expected = expected_costs(data.probabilities, from_contrasts(costs))
                places, counts = line(data, expected, action, moved, SWEPT)
                if len(places):
                    best = int((counts.reshape(len(counts), -1) @ reduced).argmin())
                    costs[:, action] += places[best] * direction
        pool.add(Candidate.of(from_contrasts(costs)))
        if len(pool.candidates) == before:
            return
        value = solution.value
        solution = solve(pool, program)
        if value - solution.value <= BETTER:
            return


def search(
    pool: Pool,
    program: Program,
    starts: Iterable[int],
    towards: Sequence[int],
    charge: float,
    enough: float,
) -> None:
    """Add the best rule within the limits on lines of action costs that begin at some candidates.

    A line changes the costs of one action, in a random direction over strata or towards another candidate.
    The search moves to the rule with the least objective plus ``charge`` times its violation. The best rule
    within the limits on any line is added, and the last rule from each start. The search ends at the
    objective ``enough``.
    """
    data = pool.data.in_memory
    rng = np.random.default_rng(0)
    best_inside = np.inf
    probabilities = data.probabilities
    ends = [contrasts(pool.candidates[i].action_costs) for i in towards]
    for start in starts:
        costs = contrasts(pool.candidates[start].action_costs).copy()
        expected = expected_costs(probabilities, from_contrasts(costs))
        reached = np.inf
        idle = 0
        for _ in range(LINES):
            if best_inside <= enough or idle >= IDLE_LINES:
                break
            idle += 1
            action = int(rng.integers(costs.shape[1]))
            direction = _direction(costs, ends, action, rng)
            moved = expected_costs(probabilities, from_contrasts(direction[:, None]))[0]
            places, counts = line(data, expected, action, moved, PLACES)
            if not len(places):
                continue
            value, violation = program.evaluate(counts)
            inside = np.where(violation <= SLIGHT, value, np.inf)
            charged = value + charge * np.maximum(violation, 0.0)
            for best, better in ((int(inside.argmin()), inside.min() < best_inside - BETTER),
                                 (int(charged.argmin()), charged.min() < reached - BETTER)):  # fmt: skip
                if not better:
                    continue
                new = costs.copy()
                new[:, action] += places[best] * direction
                number = pool.add(Candidate.of(from_contrasts(new)))
                # Counted again: several rows may change at the same threshold.
                value_there, violation_there = program.evaluate(pool.counts[number])
                if violation_there <= SLIGHT:
                    best_inside = min(best_inside, float(value_there))
                charged_there = float(value_there + charge * max(float(violation_there), 0.0))
                if charged_there < reached - BETTER:
                    reached = charged_there
                    costs = new
                    idle = 0
            expected = expected_costs(probabilities, from_contrasts(costs))
        if best_inside <= enough:
            break


def _direction(
    costs: Floats, ends: Sequence[Floats], action: int, rng: np.random.Generator
) -> Floats:
    """Return the change of an action's costs along a line, shape (S,)."""
    if ends and rng.random() < TOWARDS:
        towards: Floats = ends[int(rng.integers(len(ends)))][:, action] - costs[:, action]
        return towards
    size = np.abs(costs[:, action])
    size = size + 0.3 * size.max() + 0.02 * np.abs(costs).max()
    some = rng.random(len(size)) < max(0.25, 2.0 / len(size))
    some[rng.integers(len(size))] = True
    return np.where(some, size * rng.normal(size=len(size)), 0.0)


class Engine(ABC):
    """Selects among candidates on selection data: another selection needs no fit."""

    data: AnySelectionData  # the rows by whose counts rules are selected
    words: str  # the selection data, for people
    refit: bool  # whether models were fitted again after their outputs were counted
    grows: ClassVar[bool]  # whether candidates are made for a problem

    @property
    def measured(self) -> AnySelectionData:
        """The rows on which rates of the selected rule are estimated: usually the same."""
        return self.data

    @property
    @abstractmethod
    def known_outputs(self) -> Sequence[NDArray[Any]]:
        """The outputs of the models on the selection data, which tell the models from others."""

    @abstractmethod
    def first_candidates(self, program: Program) -> Pool:
        """Return the candidates of an objective, to which others may be added."""

    @abstractmethod
    def ensemble(self, pool: Pool, selection: Best) -> MixtureEnsemble:
        """Return the selected candidates with their weights, as a classifier of class numbers."""

    @abstractmethod
    def tail(self, problem: Problem) -> Selected:
        """Return the mixture of least objective over rows."""

    def select(self, problem: Problem) -> Selected:
        """Return the selected rule.

        Parameters
        ----------
        problem : Problem
            Objective, limits, error budget and kind of rule.

        Raises
        ------
        InfeasibleLimitsError
            If limits contradict each other.
        ValueError
            If a rate names an unknown label, group or column.
        """
        if problem.over_rows:
            return self.tail(problem)
        return self._rule_of(problem)

    def _rule_of(self, problem: Problem, pool: Pool | None = None) -> SelectedRule:
        program = Program.of_rates(self.data.strata, problem.objective, problem.limits)
        candidates = self.first_candidates(program)
        if pool is None:
            pool = candidates
        else:
            pool.extend(candidates)
        program = within_budget(pool, program, problem.error_budget)
        randomized = problem.randomized
        budgeted = problem.error_budget is not None

        def within(program: Program, starts: int = FEW_STARTS) -> Best:
            if not self.grows:
                return best_in_pool(pool, program, randomized=randomized)
            return best_by_search(
                pool, program, randomized=randomized, budgeted=budgeted, starts=starts
            )

        best = within(program, STARTS)
        if not (best.solution.feasible or problem.aims):
            raise InfeasibleLimitsError(self._contradiction(pool, best.solution))
        rule = self.rule(problem, program, pool, best)
        rule = replace(rule, drawn=self._with_draws(rule, budgeted=budgeted))
        if not problem.confidence or not problem.limits or rule.no_outlook:
            return rule

        def counts_of(selection: Best) -> Floats:
            if self.measured is self.data:
                return selection.counts
            return selection.counts_in(pool.measured_on(self.measured))

        tightened = confident(
            problem, program, best, self.refit, within, self.measured.strata, counts_of
        )
        if tightened is best:
            return rule
        surer = self.rule(problem, program, pool, tightened)
        return replace(surer, untightened=rule.selection.value, drawn=rule.drawn)

    def _with_draws(self, rule: SelectedRule, *, budgeted: bool) -> float | None:
        """Return the objective with ``randomized=True``, if it is lower within the limits beyond noise."""
        own = rule.compared
        if rule.problem.randomized or not rule.problem.limits or not own.selection.keeps:
            return None

        def ahead(mixture: Comparison) -> bool:
            lead = own.selection.value - mixture.selection.value
            return lead > 0.0 and lead > ONE_SIDED * own.error_of_difference(mixture)

        pool = own.pool
        program = own.program
        # The mixture of the candidates so far tells whether another selection is worth its time.
        mixture = Comparison(pool, program, best_in_pool(pool, program, randomized=True))
        if ahead(mixture) and self.grows:
            pool = self.first_candidates(program)
            best = best_by_search(pool, program, randomized=True, budgeted=budgeted)
            mixture = Comparison(pool, program, best)
        if not (mixture.selection.keeps and ahead(mixture)):
            return None
        if self.measured is self.data:
            return mixture.selection.value
        measured = pool.measured_on(self.measured)
        return rule.program.value(mixture.selection.counts_in(measured))

    def rule(
        self, problem: Problem, program: Program, pool: Pool, selection: Best
    ) -> SelectedRule:
        """Return a selection as a rule that answers, with its table on the measured rows."""
        ensemble = self.ensemble(pool, selection)
        compared = Comparison(pool, program, selection)
        if self.measured is not self.data:
            pool = pool.measured_on(self.measured)
            stated = program.limits[: len(problem.limits)]
            has_budget = len(program.limits) > len(stated)
            program = program.over(self.measured.strata).within(stated)
            if has_budget:
                program = within_budget(pool, program, problem.error_budget)
            selection = selection.in_pool(pool, program)
        return SelectedRule(
            problem=problem,
            program=program,
            ensemble=ensemble,
            words=self.words,
            refit=self.refit,
            pool=pool,
            selection=selection,
            compared=compared,
        )

    def along(
        self, problem: Problem, limited: Stated, n_points: int
    ) -> tuple[list[SelectedRule], Floats]:
        """Return rules between the least objective and the tightest limit on another rate.

        The second result is the limited rate and the objective of each rule, shape (B, 2). Rules are selected
        for ``n_points`` limits. If one candidate answers, all candidates within the limits are added.
        """
        program = Program.of_rates(self.data.strata, problem.objective, problem.limits)
        pool = self.first_candidates(program)
        program = within_budget(pool, program, problem.error_budget)

        def best(problem: Problem) -> SelectedRule | None:
            try:
                return self._rule_of(problem, pool)
            except InfeasibleLimitsError:
                return None

        tried: list[SelectedRule | None] = []
        # Rules within limits on the overall error alone are among the first tried.
        cheap = (
            limited == Objective.of(error()) and problem.objective.worst and not problem.limits
        )
        if problem.randomized or (self.grows and not cheap):
            start = best(problem)
            if limited.compares:
                tightest = start
            else:
                tightest = best(replace(problem, objective=limited))
            if start is not None and tightest is not None:
                if limited.compares:
                    least = limited.least
                else:
                    least = tightest.value(limited)
                above = limited.within(limited.most).from_above
                with steps("points of the curve", n_points) as done:
                    for level in np.linspace(start.value(limited), least, n_points):
                        if above:
                            eased = min(level + SLACK, limited.most)
                        else:
                            eased = max(level - SLACK, limited.most)
                        tried.append(
                            best(
                                problem.within((*problem.limits, limited.within(float(eased))))
                            )
                        )
                        done()
        if not problem.randomized:
            _, violation = program.evaluate(pool.all_counts)
            tried += [
                self.rule(
                    problem,
                    program,
                    pool,
                    Best.alone(program, int(number), pool.counts[number]),
                )
                for number in np.flatnonzero(violation <= SLIGHT)
            ]
        rules = [
            rule for rule in tried if rule is not None and (self.grows or rule.selection.keeps)
        ]
        reached = [(rule.value(limited), rule.value(problem.objective)) for rule in rules]
        return rules, np.array(reached).reshape(-1, 2)

    def _contradiction(self, pool: Pool, solution: Solution) -> str:
        program = solution.program
        counts = np.tensordot(solution.weights, pool.all_counts, axes=1)
        named = [program.limits[i] for i in np.flatnonzero(solution.contradicting)] or list(
            program.limits
        )
        reached = [
            limit.value(limit.rate.terms(program.strata).values(counts)) for limit in named
        ]
        each = "; ".join(
            f"{limit} (reached: {value:.4g})"
            for limit, value in zip(named, reached, strict=True)
        )
        return (
            f"limits: no mixture of decision rules meets these together on {self.words}: {each}. The values "
            "reached are of one mixture, with the smallest violations"
        )


@dataclass(eq=False)
class ProbabilityEngine(Engine):
    """Stratum probabilities of models, by which candidates decide; they are kept."""

    outputs: ModelOutputs  # the models with their log-probabilities
    probabilities: StratumProbabilities
    data: AnySelectionData
    words: str
    refit: bool
    # Candidates of each objective whatever the limits, made once; model files do not contain them.
    pools: dict[Objective, Pool] = field(default_factory=dict)
    # The labelled rows alone, and all rows with strata for those without labels; None if all have labels.
    labelled_alone: SelectionData | None = None
    with_unlabeled: SelectionData | None = None
    grows: ClassVar[bool] = True

    def __getstate__(self) -> dict[str, Any]:
        state = {name: value for name, value in self.__dict__.items() if name != "known_scores"}
        return state | {"pools": {}}

    @property
    def known_outputs(self) -> Sequence[NDArray[Any]]:
        """The log-probabilities of all models on the selection data."""
        return self.outputs.logs

    @cached_property
    def known_scores(self) -> KnownScores:
        """The selection rows of a single column of scores, those with labels first."""
        score = self.outputs.models.score
        data = self.data.in_memory
        assert score is not None
        further = () if self.outputs.unlabeled is None else self.outputs.unlabeled.logs
        logs = np.concatenate([self.outputs.logs[0], *further])[:, score.positive_]
        group = np.zeros(len(logs), dtype=np.intp)
        if self.probabilities.group_aware:
            group = (
                data.stratum if data.kind is None else data.kind
            ) % data.strata.n_combinations
        return KnownScores(score.scores_at(np.exp(logs)), group, data.probabilities)

    @classmethod
    def of(
        cls,
        problem: Problem,
        outputs: ModelOutputs,
        X: Table,
        classes: Any,
        names: GroupNames | None,
        *,
        group_aware: bool,
        costs: Floats | None = None,
        X_unlabeled: Table = None,
    ) -> Self:
        """Return the engine on selection data.

        Parameters
        ----------
        problem : Problem
            Determines the strata and costs.
        outputs : ModelOutputs
            The log-probabilities of the models, and their average.
        X : table of n rows, optional
            Features from which groups are estimated; without them the log-probabilities are used.
        classes : ndarray of shape (K,)
            The labels.
        names : GroupNames, optional
            Names of the groups.
        group_aware : bool
            Whether rules read the group.
        costs : ndarray of shape (n, K), optional
            Cost of each answer in each row.
        X_unlabeled : table of m rows, optional
            Features of the rows without labels, as X.
        """
        rows = outputs.rows
        if costs is not None and problem.defers:
            costs = np.column_stack([costs, np.zeros(len(costs))])
        strata, stratum, numbers = strata_of(
            problem, rows, classes, names, costs, group_aware=group_aware
        )
        table = replace(outputs.table, X=X)
        strata = replace(strata, size=rows.sizes(stratum, len(strata.mass)))
        if group_aware:
            assert numbers is not None
            assert names is not None
            if len(absent := np.setdiff1d(np.arange(len(names.values[0])), numbers)):
                raise ValueError(
                    f"by_group=True: {rows.words} have no row of group(s) "
                    f"{names.values[0][absent].tolist()} to select on"
                )
        several = strata.n_combinations > 1
        by_features = several and not group_aware and X is not None and has_group_features(X)
        p = StratumProbabilities(
            len(classes), strata.combinations, group_aware and several, by_features
        )
        groups = combination = None
        if p.group_aware:
            assert numbers is not None
            combination = strata.find(numbers)
        elif p.infers:
            assert numbers is not None
            groups = p.fit_groups(
                group_features(p, table), rows.y, numbers, rows.weight, strata
            )
        p.calibrate(table.pooled, groups, combination, stratum, rows.base)
        if problem.needs_costs:
            costs = costs
        else:
            costs = None
        data = SelectionData(
            strata, stratum, rows.base, p.predict(table.pooled, groups, combination), costs
        )
        if p.estimates_groups:
            words = f"{rows.words}, groups estimated out of fold"
        else:
            words = rows.words
        engine = cls(outputs, p, data, words, rows.refit or p.estimates_groups)
        if outputs.unlabeled is None:
            return engine
        return engine._counting(problem, X_unlabeled, names)

    def _counting(self, problem: Problem, X: Table, names: GroupNames | None) -> Self:
        """Return the engine that also counts the rows without labels, which have features X."""
        labelled = self.data.in_memory
        more = self.outputs.unlabeled
        p = self.probabilities
        assert more is not None
        combination = combination_of_unlabeled(
            problem, labelled.strata, more.rows.groups, names, len(more.rows)
        )
        strata, kind, joined = with_unlabeled(
            labelled.strata, labelled.stratum, self.outputs.rows, more.rows, combination
        )
        table = replace(more.table(self.outputs.models.average), X=X, groups=combination)
        probabilities = np.concatenate(
            [labelled.probabilities, stratum_probabilities(p, table)], axis=1
        )
        return replace(
            self,
            data=by_probabilities(labelled, kind, joined.base, probabilities),
            words=f"{self.words}, and {len(more.rows):,} rows without labels",
            labelled_alone=labelled,
            with_unlabeled=SelectionData(strata, kind, joined.base, probabilities),
        )

    @property
    def measured(self) -> AnySelectionData:
        """The rows on which rates are estimated; those without labels count in rates that need none."""
        if self.with_unlabeled is None:
            return self.data
        return self.with_unlabeled

    @property
    def labelled(self) -> AnySelectionData:
        """The rows with labels."""
        if self.labelled_alone is None:
            return self.data
        return self.labelled_alone

    def covers(self, problem: Problem, names: GroupNames | None) -> bool:
        """Whether the strata suffice for a problem."""
        strata = self.data.strata
        if names is not None:
            titles = names.titles
        else:
            titles = ()
        if titles != (None,):
            wanted = problem.columns(titles)
        else:
            wanted = [0] * problem.needs_groups
        has_groups = not problem.needs_groups or (
            bool(strata.columns) and {titles[j] for j in wanted} <= set(strata.columns)
        )
        has_costs = (not problem.needs_costs) or self.data.costs is not None
        all_columns = any(rate.by in ("group", "cell") for rate in problem.rates)
        same_columns = not all_columns or set(titles) == set(strata.columns)
        return has_groups and has_costs and same_columns and problem.defers == strata.defers

    def first_candidates(self, program: Program) -> Pool:
        """Return the candidates of an objective, to which others may be added."""
        _, deferral_bounds = program.caps
        if len(deferral_bounds):
            return first_candidates(self.data, program)
        if program.objective not in self.pools:
            self.pools[program.objective] = first_candidates(self.data, program)
        return self.pools[program.objective].copy()

    def member(self, candidate: Candidate) -> ProbabilityRule:
        """Return a candidate as a member of an ensemble."""
        models = self.outputs.models
        source = tuple(models.pooled_models)
        if candidate.is_constant:
            source = ()
        elif self.probabilities.infers and not self.probabilities.by_features:
            source = tuple(range(len(models.names)))  # groups are estimated from all models
        return ProbabilityRule(models, source, self.probabilities, candidate)

    def ensemble(self, pool: Pool, selection: Best) -> MixtureEnsemble:
        """Return the selected candidates with their weights; the heaviest settles ties."""
        order = np.argsort(-selection.weights, kind="stable")
        members = [
            self.member(pool.candidates[number]) for number in selection.numbers.tolist()
        ]
        return MixtureEnsemble(
            members, selection.weights, self.probabilities.n_classes, order, selection.gap
        )

    def named(
        self, problem: Problem, candidates: Sequence[Candidate], weights: Floats
    ) -> SelectedRule:
        """Return candidates as a rule, whether or not it keeps the limits; nothing is selected."""
        program = Program.of_rates(self.data.strata, problem.counted, problem.limits)
        pool = Pool(self.data)
        pool.append(candidates)
        selection = Best.named(
            program, np.arange(len(weights)), weights, mixed(weights, pool.counts)
        )
        problem = replace(problem, randomized=len(weights) > 1, confidence=None)
        return self.rule(problem, program, pool, selection)

    def tail(self, problem: Problem) -> SelectedTail:
        """Return the mixture of candidates for the largest class error, and of draws from probabilities."""
        program = Program.of_rates(self.data.strata, problem.counted, ())
        models = self.outputs.models
        table = self.outputs.table
        members: list[Any] = [
            *map(self.member, self.first_candidates(program).candidates),
            *(
                PowerDraw(models, model, power)
                for model in (None, *range(len(models.names)))
                for power in POWERS
            ),
        ]
        pool = ModelPool(self.outputs.rows, self.probabilities.n_classes)
        for member in members:
            pool.add_boosted(member, member.predict_table(table))
        mixture = Mixture.on(pool, problem, grouping=Grouping(np.array(program.strata.classes)))
        ensemble = without_tiny(mixture.stage(len(members)))
        return SelectedTail(
            problem=problem,
            program=program,
            ensemble=ensemble,
            words=self.words,
            refit=self.refit,
            mixture=mixture,
            data=self.data.in_memory,
            names=tuple(member.words(program.strata.classes) for member in members),
            thinned=True,
        )


@dataclass(eq=False)
class HypothesisEngine(Engine):
    """Hypotheses of a game as candidates, by their confusion counts; none is added for a problem."""

    mixture: Mixture
    grows: ClassVar[bool] = False

    def __post_init__(self) -> None:
        rows = self.mixture.pool.rows
        self.data = self.mixture.table
        self.words = rows.words
        self.refit = rows.refit

    @property
    def known_outputs(self) -> Sequence[NDArray[Any]]:
        """The answers of all hypotheses to the selection data."""
        return [*self.mixture.pool.boosted_answers, *self.mixture.pool.extra_answers]

    def first_candidates(self, program: Program) -> Pool:
        """Return all hypotheses as candidates."""
        return self.mixture.candidates()

    def ensemble(self, pool: Pool, selection: Best) -> MixtureEnsemble:
        """Return the hypotheses with their weights."""
        return self.mixture.ensemble(self.mixture.weights(selection))

    def mixture_for(self, problem: Problem) -> Mixture:
        """Return the mixture of the hypotheses for another problem.

        Raises
        ------
        ValueError
            If a rate is about deferred rows.
        """
        if problem.defers:
            raise ValueError(
                "deferred(): no hypothesis defers rows; tune models with such a limit instead"
            )
        return self.mixture.aiming_at(problem)

    def tail(self, problem: Problem) -> Selected:
        """Return the mixture of least objective over rows."""
        mixture = self.mixture_for(problem)
        return HypothesisEngine(mixture).result(mixture.stage(mixture.pool.n_rounds))

    def result(self, ensemble: MixtureEnsemble) -> Selected:
        """Return the rule that answers by the label with the largest weight, with its table."""
        mixture, (data, inside) = self.mixture, self.mixture.table_and_rows
        about: dict[str, Any] = {
            "problem": mixture.problem,
            "program": mixture.program,
            "ensemble": ensemble,
            "words": self.words,
            "refit": self.refit,
            "spread": mixture.refit_spread,
            "fitted": mixture.pool.rows.fitted,
        }
        if mixture.problem.over_rows:
            return SelectedTail(**about, mixture=mixture, data=data, inside=inside)
        pool = mixture.candidates()
        alone = Best.alone(mixture.program, 0, mixture.predicted(ensemble))
        compared = Comparison(pool, mixture.program, alone)
        return SelectedRule(**about, pool=pool, selection=alone, compared=compared)
