"""Growth of a pool: best answers to the shadow prices of a program over the candidates so far."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from tailboost.core.array_types import Floats, Mask
from tailboost.core.blas import one_blas_thread
from tailboost.selection.candidates import Candidate, Pool
from tailboost.selection.program import SLACK, Master, Program, Solved, mixed

# Relative gap at which growth ends, and the most rounds.
TOLERANCE, ROUNDS = 1e-4, 100
# Rounds without a better candidate after which growth ends, and random costs near the best answer in each.
IDLE_ROUNDS, LOOKS, LOOK_SPREAD = 4, 4, 0.25
# Levels of a ratio that are tried, and how near the next one ends the trials.
LEVELS, SAME_LEVEL = 8, 1e-5


@dataclass(frozen=True, eq=False)
class Growth:
    """The solution of a program over the candidates of a pool."""

    program: Program  # of an objective that is a ratio, at its level
    solved: Solved  # ``weights`` are of all candidates of the pool
    contradicting: Mask  # shape (n_limits,): which limits contradict each other; none if all can be kept

    @property
    def feasible(self) -> bool:
        """Whether some mixture of the candidates keeps all limits."""
        return self.solved.slack <= SLACK * 10


@one_blas_thread  # threads change the last digits of sums, from which other rules may grow
def solve(pool: Pool, program: Program) -> Growth:
    """Return the best mixture of the candidates of a pool within the limits."""
    return _at_its_level(pool, program, _solved)


@one_blas_thread
def grow(pool: Pool, program: Program) -> Growth:
    """Add candidates until the best answer to the shadow prices lowers the program no further.

    Column generation: rules answer by stratum probabilities, and are counted on the selection data. Where the
    probabilities are right, the best mixture of all rules is found.
    """
    return _at_its_level(pool, program, _grown)


def _at_its_level(pool: Pool, program: Program, solving: Callable[[Pool, Program], Growth]) -> Growth:
    """Solve the program of a ratio at the level that its own solution reaches (Dinkelbach 1967).

    A level above the least has a solution whose ratio is lower; at the least one it is the level itself.
    Other programs are solved once.
    """
    growth = solving(pool, program)
    for _ in range(LEVELS if program.objective.rate.is_ratio else 0):
        level = program.value(mixed(growth.solved.weights, pool.counts))
        if np.isnan(level) or abs(level - program.level) <= SAME_LEVEL:
            break
        program = program.at(level)
        growth = solving(pool, program)
    return growth


def _settled(master: Master) -> Solved:
    """Solve, at a price at which no row is broken unless it must be."""
    solved = master.solve()
    while solved.slack > SLACK and master.charge_more():
        solved = master.solve()
    return solved


def _found(master: Master) -> Growth:
    solved = _settled(master)
    contradicting = master.contradicting(solved) & (solved.slack > SLACK * 10)
    return Growth(master.program, solved, contradicting)


def _solved(pool: Pool, program: Program) -> Growth:
    master = Master(program)
    for counts in pool.counts:
        master.add(counts)
    return _found(master)


def _grown(pool: Pool, program: Program) -> Growth:
    master, rng, idle = Master(program), np.random.default_rng(0), 0
    for counts in pool.counts:
        master.add(counts)

    def taken(prices: Floats) -> int:
        number = pool.add(Candidate.of(0, prices))
        if number == master.n_members:  # new
            master.add(pool.counts[number])
        return number

    for _ in range(ROUNDS):
        solved = master.solve()
        prices, before = program.prices(solved.duals), master.n_members
        cost, rows = np.split(program.column(pool.counts[taken(prices)]), [1])
        gain = solved.value - float(cost[0] + solved.duals @ (rows - program.bound))
        better = gain > TOLERANCE * max(1.0, abs(solved.value)) and master.n_members > before
        idle = 0 if better else idle + 1
        for _ in range(LOOKS if idle else 0):
            taken(prices * np.exp(rng.normal(scale=LOOK_SPREAD, size=(len(prices), 1))))
        if idle >= IDLE_ROUNDS // 2 and solved.slack > SLACK and master.charge_more():
            idle = 0
        if idle >= IDLE_ROUNDS:
            break
    return _found(master)
