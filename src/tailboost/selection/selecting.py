"""Selection among candidates within limits, and the candidates that can help."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.special import softmax

from tailboost.core.array_types import Floats, Ints
from tailboost.core.threads import one_blas_thread
from tailboost.rates import error
from tailboost.rates.make import OVERALL_ERROR
from tailboost.selection.data import AnySelectionData, Candidate, Pool, expected_costs, plain_costs
from tailboost.selection.program import SLIGHT, Program, Solution, grow, mixed, solve
from tailboost.selection.search import descend, search, sweep
from tailboost.solvers.tradeoff import undominated

# A mixture weight up to this is 0.
LEAST_WEIGHT = 1e-6
# The cost of a violation of 1 is CHARGE + CHARGE_PER_PRICE · (sum of the shadow prices), at most MOST_CHARGE.
# Constant part, in units of the scaled objective.
CHARGE = 2.0
# Multiple of the sum of the shadow prices. A factor above 1 makes a violation cost more than it gains.
CHARGE_PER_PRICE = 2.0
# Largest cost, however large the shadow prices are.
MOST_CHARGE = 1e4
# Largest violation of a limit by a mixture. Smaller violations are within the precision of the solver.
SOLVED = 1e-6
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
# Maximum number of rows for the generation of candidates.
ROWS = 50_000
# Number of interpolated candidates between two candidates, for more than `ROWS` rows of selection data.
# Without them one limit of 38 fewer held on all rows, and the objective was .010 ± .010 higher.
STEPS = 24
# Learning rate of Hedge, its rounds for each share of `ERROR_SHARES`, the rounds between new candidates. 80
# rounds instead of 20 changed the cost by −.0000 ± .0008 (25 tables, 3 splits).
HEDGE_RATE, HEDGE_ROUNDS, EVERY = 1.0, 20, 2
# Shares of the overall error in the action costs. With all five the worst subgroup within budgets is
# .044 ± .026 lower than with one, and .011 ± .010 lower than with two (25 tables, 3 splits).
ERROR_SHARES = (0.0, 0.5, 0.75, 0.875, 0.9375)
# Errors are compared after rounding to this number of decimals.
DECIMALS = 12


@dataclass(frozen=True, eq=False)
class Selection:
    """The selected candidates with their mixture weights: usually one candidate."""

    numbers: Ints  # candidates of the pool with positive weight
    weights: Floats  # λ, sums to 1
    counts: Floats  # shape (W, A): confusion counts of the rule on the selection data
    value: float  # the objective
    bound: float  # the least objective of a mixture of the pool within the limits
    violations: Floats  # shape (n_limits,): violations by the rule on the selection data
    # Shape (n_limits,): violations by the best mixture. A mixture may satisfy more limits than one rule.
    mixture_violations: Floats
    solution: Any  # the `Solution` of the best mixture of the pool; None for a candidate that was named

    @classmethod
    def alone(cls, program: Program, number: int, counts: Floats) -> Selection:
        """Return one rule with these confusion counts as a selection."""
        return cls.named(program, np.array([number]), np.ones(1), counts)

    @classmethod
    def named(cls, program: Program, numbers: Ints, weights: Floats, counts: Floats) -> Selection:
        """Return rules with these mixture weights and summed confusion counts as a selection."""
        value, unknown = program.value(counts), np.full(len(program.limits), np.nan)
        return cls(numbers, weights, counts, value, value, program.violations(counts), unknown, None)

    def counts_in(self, pool: Pool) -> Floats:
        """Return the confusion counts of the rule in a pool of the same candidates on other rows."""
        return mixed(self.weights, [pool.counts[number] for number in self.numbers.tolist()])

    def in_pool(self, pool: Pool, program: Program) -> Selection:
        """Return the same selection in a pool of the same candidates on other rows, with its gap."""
        counts = self.counts_in(pool)
        value = program.value(counts)
        return replace(
            self, counts=counts, value=value, bound=value - self.gap, violations=program.violations(counts)
        )

    @property
    def gap(self) -> float:
        """Possible decrease of the objective by a mixture of the pool, on the selection data."""
        return max(0.0, self.value - self.bound)

    @property
    def keeps(self) -> bool:
        """Whether all limits hold on the selection data; for a mixture up to the precision of the solver."""
        return bool((self.violations <= (SLIGHT if len(self.numbers) == 1 else SOLVED)).all())


def select(pool: Pool, program: Program, *, randomized: bool = False, among: Sequence[int] = ()) -> Selection:
    """Return the best candidate of a pool within limits, or the best mixture if ``randomized``.

    Eligible candidates satisfy all limits on the selection data. The eligible candidate with the smallest
    objective is selected. Of equal candidates, the one with the smallest overall error is selected. If no
    candidate is eligible, a cost for violations is added to the objective. The candidates need no action
    costs; those ``among`` may be selected, all by default.
    """
    solution = solve(pool, program)
    program, scale = solution.program, solution.program.scale
    weights = np.where(solution.weights > LEAST_WEIGHT, solution.weights, 0.0)
    used = np.flatnonzero(weights)
    weights = weights[used] / weights[used].sum()
    mixture = mixed(weights, pool.all_counts[used])
    bound, by_mixture = float(program.evaluate(mixture)[0]) * scale, program.violations(mixture)
    if randomized:
        return Selection(used, weights, mixture, bound, bound, by_mixture, by_mixture, solution)
    numbers = np.array(among or range(len(pool.candidates)))
    counts = pool.all_counts[numbers]
    best = _best(program, counts, charge_of(solution))
    value, by_limit = float(program.evaluate(counts[best])[0]) * scale, program.violations(counts[best])
    if by_limit.max(initial=0.0) <= SLIGHT:
        bound = min(bound, value)
    return Selection(numbers[[best]], np.ones(1), counts[best], value, bound, by_limit, by_mixture, solution)


def _best(program: Program, counts: Floats, charge: float) -> int:
    """Return the number of the best counts within all limits; without any, violations have a charge."""
    values, violations = program.evaluate(counts)
    eligible = np.flatnonzero(violations <= SLIGHT)
    if not len(eligible):
        values, eligible = values + charge * violations, np.arange(len(values))
    errors = overall_errors(program, counts[eligible]).round(DECIMALS)
    return int(eligible[np.lexsort((errors, values[eligible].round(DECIMALS)))[0]])


def _least(pool: Pool, program: Program) -> int:
    """Return the number of the candidate that `select` returns; the mixture is solved only for a charge."""
    counts = pool.all_counts
    if (program.evaluate(counts)[1] <= SLIGHT).any():
        return _best(program, counts, 0.0)
    return int(select(pool, program).numbers[0])


def overall_errors(program: Program, counts: Floats) -> Floats:
    """Return the overall error of confusion counts of shape (T, W, A), shape (T,)."""
    errors: Floats = np.tensordot(counts, OVERALL_ERROR.terms(program.strata).linear[0], axes=2)
    return errors


def charge_of(solution: Solution) -> float:
    """Return the cost of violating a limit by 1, which is above its shadow price."""
    return min(CHARGE + CHARGE_PER_PRICE * float(solution.duals.sum()), MOST_CHARGE)


@one_blas_thread
def play(pool: Pool, program: Program) -> None:
    """Add the rules of least cost under the subgroup weights of Hedge, for a largest rate.

    Hedge gives more weight to subgroups with larger rates. The overall error is a fixed share of the action
    costs, for each share of `ERROR_SHARES`.
    """
    data, rows = pool.data.in_memory, program.matrix[program.limit_of_row == -1]
    costs, plain = program.subgroup_costs, plain_costs(data)
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
    pool, over = Pool(small), program if small is data else program.over(small.strata)
    plain = pool.add_all([Candidate.of(plain_costs(small)), Candidate.of(over.plain)])
    if program.objective.worst:
        play(pool, over)
    plain += pool.constants()
    for number in range(len(pool.candidates) if len(program.caps[1]) else 0):
        pool.add(filled(pool, over, pool.candidates[number]))
    if small is data:
        return pool
    value, violation = over.evaluate(pool.all_counts)
    front = undominated(
        np.where(violation > SLIGHT, value + MOST_CHARGE, value), overall_errors(over, pool.all_counts)
    )
    on_all = pool.on(data, list(dict.fromkeys([*plain, *front.tolist()])))
    on_all.add(filled(on_all, program, pool.candidates[0]))
    return on_all


def within_budget(pool: Pool, program: Program, error_budget: float | None) -> Program:
    """Return the program with the limit of an error budget.

    The budget is the largest increase of the overall error above the error of the most accurate candidate. If
    rows may be deferred, only candidates within the limits on deferral count.
    """
    if error_budget is None:
        return program
    caps = [limit for limit in program.limits if limit.rate.needs_deferral]
    _, violation = program.within(caps).evaluate(pool.all_counts)
    errors = overall_errors(program, pool.all_counts)
    least = float(errors[violation <= max(SLIGHT, float(violation.min()))].min())
    return program.within((*program.limits, error() <= min(1.0, least + error_budget)))


def selected(
    pool: Pool, program: Program, *, randomized: bool = False, budgeted: bool = False, starts: int = STARTS
) -> Selection:
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
            limit for i, limit in enumerate(program.limits) if i >= n_stated or limit.rate.needs_deferral
        ]
        if program.objective.worst:
            free = _least(pool, program.within(light))
        elif program.objective.rate.needs_costs:
            sweep(pool, program, 0)  # the stratum does not tell the cost of a row
            free = _least(pool, program.within(light))
        else:  # the rule of least expected cost
            free = pool.add(filled(pool, program, Candidate.of(program.plain)))
        if program.violations(pool.counts[free]).max(initial=0.0) <= SLIGHT:
            return select(pool, program, among=[free])
    small = pool.data.in_memory.thinned(ROWS)
    if small is pool.data:
        return _extend(pool, program, starts, randomized=randomized)
    sample, over = pool.on(small), program.over(small.strata)
    best = _extend(sample, over, starts, randomized=randomized)
    if randomized:
        # The limits on all rows need other candidates than those on the sample.
        descend(sample, over, best.solution)
        pool.add_all(sample.candidates)
        return select(pool, program, randomized=True)
    carried = [int(best.numbers[0]), *map(int, np.flatnonzero(best.solution.weights))]
    number, *towards = pool.add_all([sample.candidates[i] for i in carried])
    _refine(pool, program, number, towards)
    return select(pool, program)


def _extend(pool: Pool, program: Program, n_starts: int, *, randomized: bool) -> Selection:
    """Select after adding candidates by column generation and, for a single rule, by search."""
    solution = grow(pool, program)
    if randomized:
        return select(pool, program, randomized=True)
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
    best = select(pool, program)
    enough = best.bound / program.scale + MOST_EXCESS
    if (best.keeps and best.value / program.scale <= enough) or (best.mixture_violations > SOLVED).any():
        return best
    charge = charge_of(solution)
    values, violations = program.evaluate(pool.all_counts)
    ranked = np.argsort(values + charge * violations, kind="stable")[:n_starts].tolist()
    starts, before = dict.fromkeys([int(best.numbers[0]), *towards[:1], *ranked]), len(pool.candidates)
    search(pool, program, list(starts)[:n_starts], towards, charge, enough - MOST_EXCESS / 2)
    return best if len(pool.candidates) == before else select(pool, program)


def _between(pool: Pool, first: int, last: int, places: Sequence[float]) -> list[Candidate]:
    """Return candidates with action costs between those of two others, at places from 0 to 1."""
    one, other = pool.candidates[first].action_costs, pool.candidates[last].action_costs
    return [Candidate.of((1 - t) * one + t * other) for t in places]


def _refine(pool: Pool, program: Program, number: int, towards: Sequence[int]) -> None:
    """Add candidates between the best one of a sample, which may violate limits on all rows, and others."""
    pool.add(filled(pool, program, pool.candidates[number]))
    if program.violations(pool.counts[number]).max(initial=0.0) > SLIGHT:
        places = np.geomspace(1e-3, 1.0, STEPS).tolist()
        ends = dict.fromkeys([*towards, *pool.constants()])
        pool.add_all([new for i in ends if i != number for new in _between(pool, number, i, places)])


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
    first_outside = len(order) if inside.all() else int(inside.argmin())
    ordered = gain[order]
    # Rows of equal gain are deferred together or not at all.
    last = first_outside - 1
    while 0 <= last < len(order) - 1 and ordered[last] == ordered[last + 1]:
        last -= 1
    ends = (ordered[max(last, 0)], ordered[min(last + 1, len(order) - 1)])
    threshold = ends[0] + 1.0 if last < 0 else ends[1] - 1.0 if last == len(order) - 1 else sum(ends) / 2.0
    action_costs = candidate.action_costs.copy()
    action_costs[:, K] += threshold
    return Candidate.of(action_costs)
