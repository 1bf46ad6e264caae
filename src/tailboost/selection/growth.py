"""Growth of a pool: answers to Hedge's weights, and answers to the shadow prices of a linear program."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.special import softmax

from tailboost.core.array_types import Floats, Mask
from tailboost.core.blas import one_blas_thread
from tailboost.selection.candidates import Candidate, Pool, plain_costs
from tailboost.selection.program import SLACK, Master, Program, Solution, mixed

# Learning rate of Hedge, its rounds at each price, and the rounds from one new candidate to the next. 80
# rounds instead of 20 changed the cost by −.0000 ± .0008 (25 tables, 3 splits).
HEDGE_RATE, HEDGE_ROUNDS, EVERY = 1.0, 20, 2
# Shares of the overall error in the action costs. With all five the worst subgroup within budgets is
# .044 ± .026 lower than with one, and .011 ± .010 lower than with two (25 tables, 3 splits).
PRICES = (0.0, 0.5, 0.75, 0.875, 0.9375)
# Relative gap at which column generation ends, and the most rounds.
TOLERANCE, ROUNDS = 1e-4, 100
# Rounds without a better candidate after which growth ends; random action costs near the best ones that are
# tried in each of these rounds, and the standard deviation of their logarithms.
IDLE_ROUNDS, LOOKS, LOOK_SPREAD = 4, 4, 0.25
# The most levels of a ratio that are tried, and the difference of levels that ends the trials.
LEVELS, SAME_LEVEL = 8, 1e-5


@one_blas_thread
def play(pool: Pool, program: Program) -> None:
    """Add best answers to Hedge, which weights the subgroups of a largest rate, at several prices.

    Parameters
    ----------
    pool : Pool
        The pool; its rows have stratum probabilities.
    program : Program
        Its objective is the largest rate of a family.
    """
    data, rows = pool.data.in_memory, program.matrix[program.limit_of_row == -1]
    costs, plain = program.subgroup_costs, plain_costs(pool.data.in_memory)
    for price in PRICES:
        losses: Floats = np.zeros(len(rows))
        for t in range(HEDGE_ROUNDS):
            weighted = np.tensordot(softmax(HEDGE_RATE * losses), costs, axes=1)
            candidate = Candidate.of((1.0 - price) * weighted + price * plain)
            actions = data.actions(candidate)
            losses = losses + rows @ data.count(actions).ravel()
            if t % EVERY == EVERY - 1:
                pool.enter(candidate, actions)


@dataclass(frozen=True, eq=False)
class Growth:
    """The solution of a program over the candidates of a pool."""

    program: Program  # if the objective is a ratio, at its level
    solved: Solution  # has a weight for each candidate of the pool
    contradicting: Mask  # shape (n_limits,): the limits that contradict each other; none if all can hold

    @property
    def feasible(self) -> bool:
        """Whether some mixture of the candidates satisfies all limits."""
        return self.solved.slack <= SLACK * 10


@one_blas_thread  # threads change the last digits of sums, and then other candidates may grow
def solve(pool: Pool, program: Program) -> Growth:
    """Return the best mixture of the candidates of a pool within the limits."""
    return _at_its_level(pool, program, _solve_once)


@one_blas_thread
def grow(pool: Pool, program: Program) -> Growth:
    """Add candidates until the best answer to the shadow prices improves the program no further.

    This is column generation: each new candidate minimises the expected cost under the shadow prices, and is
    then counted on the selection data. If the stratum probabilities are right, the best mixture of all rules
    is found.
    """
    return _at_its_level(pool, program, _grow_once)


def _at_its_level(pool: Pool, program: Program, solve_once: Callable[[Pool, Program], Growth]) -> Growth:
    """Solve the program of a ratio at the level that its solution reaches (Dinkelbach 1967).

    The solution at a level above the optimum has a lower ratio, so that levels decrease to the optimum.
    Programs of other objectives are solved once.
    """
    growth = solve_once(pool, program)
    for _ in range(LEVELS if program.objective.rate.is_ratio else 0):
        level = program.value(mixed(growth.solved.weights, pool.counts))
        if np.isnan(level) or abs(level - program.level) <= SAME_LEVEL:
            break
        program = program.at(level)
        growth = solve_once(pool, program)
    return growth


def _finish(master: Master) -> Growth:
    """Solve, and raise the price of violations until no limit is violated without need."""
    solved = master.solve()
    while solved.slack > SLACK and master.raise_price():
        solved = master.solve()
    contradicting = master.contradicting(solved) & (solved.slack > SLACK * 10)
    return Growth(master.program, solved, contradicting)


def _solve_once(pool: Pool, program: Program) -> Growth:
    master = Master(program)
    for counts in pool.counts:
        master.add(counts)
    return _finish(master)


def _grow_once(pool: Pool, program: Program) -> Growth:
    master, rng, idle = Master(program), np.random.default_rng(0), 0
    for counts in pool.counts:
        master.add(counts)

    def add(action_costs: Floats) -> int:
        number = pool.add(Candidate.of(action_costs))
        if number == master.n_candidates:  # new
            master.add(pool.counts[number])
        return number

    for _ in range(ROUNDS):
        solved = master.solve()
        costs, before = program.action_costs(solved.duals), master.n_candidates
        cost, rows = np.split(program.column(pool.counts[add(costs)]), [1])
        gain = solved.value - float(cost[0] + solved.duals @ (rows - program.bound))
        better = gain > TOLERANCE * max(1.0, abs(solved.value)) and master.n_candidates > before
        idle = 0 if better else idle + 1
        for _ in range(LOOKS if idle else 0):
            add(costs * np.exp(rng.normal(scale=LOOK_SPREAD, size=(len(costs), 1))))
        if idle >= IDLE_ROUNDS // 2 and solved.slack > SLACK and master.raise_price():
            idle = 0
        if idle >= IDLE_ROUNDS:
            break
    return _finish(master)
