"""The search for one rule: column generation, then exact descent along counted lines.

Each step of column generation adds the rule of least expected cost under the shadow prices of the limits. If
the probabilities are right, the best mixture of all rules is found, so its objective is a bound. The descent
counts all rules on a line through a rule exactly, and moves to the best one; rules within the limits come
before all others.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from scipy.special import softmax

from tailboost.core.long_work import one_blas_thread
from tailboost.rates import as_objective, error
from tailboost.selection.data import Pool, plain_costs
from tailboost.selection.program import (
    SLIGHT,
    Best,
    Program,
    Solution,
    mixed,
    overall_errors,
    solve,
)

# Learning rate of Hedge, its rounds for each share of `ERROR_SHARES`, the rounds between new rules. 80 rounds
# instead of 20 changed the cost by −.0000 ± .0008 (25 tables, 3 splits).
HEDGE_RATE = 1.0
HEDGE_ROUNDS = 20
EVERY = 2
# Shares of the overall error in the action costs. With all five the worst subgroup within budgets is
# .044 ± .026 lower than with one, and .011 ± .010 lower than with two (25 tables, 3 splits). Column
# generation in place of Hedge errs .0037 ± .0021 more; its largest rate is .012 ± .016 lower (13 tables).
ERROR_SHARES = (0.0, 0.5, 0.75, 0.875, 0.9375)
# The most rounds of column generation.
ROUNDS = 100
# The descent starts from the best rules by objective and violations, and from the heaviest ones of the best
# mixture, with at most so many passes over all lines from each.
BEST_STARTS = 6
MIXED_STARTS = 2
PASSES = 3
# The least improvement: smaller ones are rounding.
BETTER = 1e-9
# Numbers are compared after rounding to this number of decimals.
DECIMALS = 12


@one_blas_thread()
def first_rules(family: Any, program: Program) -> Pool:
    """Return the first rules for an objective, for any limits.

    These are rules of least expected cost and constants. For a largest rate there are also the best rules for
    the subgroup weights of Hedge, which gives more weight to subgroups with larger rates. The overall error
    is a fixed share of the action costs, for each share of `ERROR_SHARES`.
    """
    pool = Pool(family)
    plain = plain_costs(family.data.strata)
    for costs in (plain, program.plain):
        pool.add(family.best(costs))
    for action in range(plain.shape[1]):
        costs = plain.copy()  # deferred rows get labels by plain costs
        costs[:, action] = -2.0 * np.abs(plain).max()
        pool.add(family.best(costs))
    if program.objective.worst:
        rows = program.matrix[program.limit_of_row == -1]
        for share in ERROR_SHARES:
            losses = np.zeros(len(rows))
            for hedge_round in range(1, HEDGE_ROUNDS + 1):
                weighted = np.tensordot(
                    softmax(HEDGE_RATE * losses), program.subgroup_costs, axes=1
                )
                rule = family.best((1.0 - share) * weighted + share * plain)
                losses = losses + rows @ family.counts(rule).ravel()
                if hedge_round % EVERY == 0:
                    pool.add(rule)
    return pool


def within_budget(pool: Pool, program: Program, error_budget: float | None) -> Program:
    """Return the program with the limit of an error budget, if there is one.

    The budget is the largest increase of the overall error above the error of the most accurate rule. If rows
    may be deferred, only rules within the limits on deferral count.
    """
    if error_budget is None:
        return program
    caps = [limit for limit in program.limits if limit.rate.needs_deferral]
    of_error = Program.of_rates(program.strata, as_objective(error()), caps)
    least = select(pool, of_error)
    violations = of_error.violations(pool.all_counts).max(axis=1, initial=0.0)
    within = violations <= max(SLIGHT, float(least.violations.max(initial=0.0)))
    most_accurate = float(overall_errors(program, pool.all_counts)[within].min())
    return program.within((*program.limits, error() <= min(1.0, most_accurate + error_budget)))


@one_blas_thread()  # threads change the last digits of sums, and then other rules may grow
def select(pool: Pool, program: Program) -> Best:
    """Return the best rule within limits; rules that may help are added to the pool.

    The rule of least expected cost is selected without a search if it keeps all limits, and for a largest
    rate the best first rule: without limits a search lowers the largest rate of the selection data, but not
    of fresh rows (−.008 ± .010, at .018 ± .006 more overall error, 48 problems).
    """
    objective = program.objective
    if objective.worst:
        first = best_number(pool, program.within(()))
        if program.keeps(pool.counts[first]):
            return _best(pool, program, first)
    # The best rule for a ratio depends on the reached level, and the stratum does not tell the cost of a row.
    elif not (objective.rate.is_ratio or objective.rate.needs_costs):
        cheapest = pool.add(pool.family.best(program.plain))
        if program.keeps(pool.counts[cheapest]):
            return _best(pool, program, cheapest)
    solution = grow(pool, program)
    charged = program.charged(pool.all_counts)
    heaviest = np.argsort(-solution.weights, kind="stable")[:MIXED_STARTS]
    rules = np.array(pool.rules)
    average = pool.add(np.tensordot(solution.weights, rules, axes=1).astype(rules.dtype))
    starts = [average, *np.argsort(charged, kind="stable")[:BEST_STARTS], *heaviest]
    for start in dict.fromkeys(map(int, starts)):
        pool.add(_descended(pool.family, program, pool.rules[start]))
    return _best(pool, program)


def grow(pool: Pool, program: Program) -> Solution:
    """Add rules until the best answer to the shadow prices improves the program no further."""
    for _ in range(ROUNDS):
        solution = solve(pool.counts, program)
        n_before = len(pool.rules)
        costs = solution.program.action_costs(solution.duals)
        number = pool.add(pool.family.best(costs))
        if number < n_before:
            return solution
        if not solution.is_improved_by(pool.counts[number]):
            break
    return solve(pool.counts, program)


def _descended(family: Any, program: Program, rule: Any) -> Any:
    """Return the rule after moves to the best rule on each line in turn."""
    lines = family.lines(compares=any(limit.compares for limit in program.limits))
    least = np.inf
    n_kept = 0  # lines since the last move
    for line in lines * PASSES:
        rules, counts = family.line(rule, line)
        values = program.charged(counts).round(DECIMALS)
        best = values.argmin()
        n_kept += 1
        if values[best] < least - BETTER:
            least = values[best]
            rule = rules[best]
            n_kept = 0
        if n_kept == len(lines):
            break
    return rule


def best_number(pool: Pool, program: Program) -> int:
    """Return the number of the rule of least charged objective, of equal ones with the least error."""
    values = program.charged(pool.all_counts).round(DECIMALS)
    errors = overall_errors(program, pool.all_counts).round(DECIMALS)
    return int(np.lexsort((errors, values))[0])


def _best(pool: Pool, program: Program, number: int | None = None) -> Best:
    """Return the best rule of a pool, or a stated one, beside the best mixture of the pool."""
    solution = solve(pool.counts, program)
    if number is None:
        number = best_number(pool, program)
    best = Best.alone(program, pool.rules[number], pool.counts[number])
    bound = program.value(mixed(solution.weights, pool.counts))
    if best.keeps:
        bound = min(bound, best.value)
    return replace(best, bound=bound, solution=solution)
