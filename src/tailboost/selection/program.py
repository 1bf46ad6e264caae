"""The linear program of a problem over confusion counts, its solution, and the best candidate of a pool."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain
from typing import Any

import highspy
import numpy as np

from tailboost.core.array_types import Floats, Ints, Mask
from tailboost.core.long_work import one_blas_thread
from tailboost.rates import Limit, Objective, Strata, error
from tailboost.rates.make import OVERALL_ERROR
from tailboost.rates.rate import Inequality, Terms
from tailboost.selection.data import Candidate, Pool, Uncached
from tailboost.solvers.highs import QuietHighs

# Weight of the overall error added to a largest rate: among rules with the same largest rate, the most
# accurate one is best.
TIE_PRICE = 1e-3
# Price of violating a row of the program by 1: at first, and at most. A fixed price selected the same rules
# in 164 calls (benchmarks/ablations.py), but two of seven stored curves had fewer points.
SLACK_PRICE = 10.0
MOST_SLACK_PRICE = 1e6
# A row is part of a contradiction if its shadow price is at least this fraction of the price of a violation.
DEAR = 1e-3
# A smaller sum of violations is rounding.
NO_VIOLATION = 1e-7
# A smaller violation of a limit is rounding; for a mixture, it is within the precision of the solver.
SLIGHT = 1e-9
SOLVED = 1e-6
# Relative gap at which column generation ends, and the most rounds.
COLUMN_GAP = 1e-4
ROUNDS = 100
# Rounds without a better candidate after which growth ends; random action costs near the best ones that are
# tried in each of these rounds, and the standard deviation of their logarithms.
IDLE_ROUNDS = 4
LOOKS_OF_ROUND = 4
LOOK_SPREAD = 0.25
# The most tried levels of a ratio, and the least difference of two levels for another trial.
LEVELS_TRIED = 8
SAME_LEVEL = 1e-5


@dataclass(frozen=True, eq=False)
class Program(Uncached):
    """``min ⟨cost, N⟩ + z_0`` subject to ``⟨M_j, N⟩ + f_j z ≤ b_j`` over confusion counts N of mixtures."""

    strata: Strata
    objective: Objective  # a rate, or the largest rate of a family: then z_0 is the largest
    limits: tuple[Limit, ...]
    cost: Floats  # shape (W × A,): the linear part of the objective
    matrix: Floats  # shape (J, W × A): M
    bound: Floats  # shape (J,): b
    free: Floats  # shape (J,): f, coefficient of the row's free variable
    variable: Ints  # shape (J,): number of the row's free variable, −1 for none
    limit_of_row: Ints  # shape (J,): number of the limit behind each row, −1 for the objective
    scale: float  # divisor of the objective
    # Level t of an objective that is a ratio; 0 for other objectives. The program minimises the numerator
    # less t times the denominator. At the least ratio this difference is 0.
    level: float = 0.0

    @classmethod
    def of_rates(
        cls, strata: Strata, objective: Objective, limits: Sequence[Limit], level: float = 1.0
    ) -> Program:
        """Return the program of an objective, at a ``level`` if it is a ratio, and limits.

        Raises
        ------
        ValueError
            If a rate needs labels, groups, subgroups or costs that do not exist, or a ratio of rates that may
            be negative is limited.
        """
        scale = objective.rate.scale(strata)
        terms = objective.rate.terms(strata)
        if terms.is_ratio:
            linear = terms.beyond(np.full(len(terms.names), level))
        else:
            level = 0.0
            linear = terms.linear
        minimised_rates = linear[terms.defined] / scale
        if not len(minimised_rates):
            raise ValueError(
                f"objective: there are no rows that {objective.rate!r} counts among"
            )
        cost = minimised_rates[0]
        rows_of_limit = {number: limit.rows(strata) for number, limit in enumerate(limits)}
        if objective.worst:
            cost = TIE_PRICE * OVERALL_ERROR.terms(strata).linear[0]
            rows_of_worst = [Inequality(rate, free=-1.0, bound=0.0) for rate in minimised_rates]
            rows_of_limit = {-1: rows_of_worst, **rows_of_limit}
        rows = list(chain.from_iterable(rows_of_limit.values()))
        n_rows = np.array([len(each) for each in rows_of_limit.values()], dtype=np.intp)
        limit_of_row = np.repeat(np.array(list(rows_of_limit), dtype=np.intp), n_rows)
        free = np.array([row.free for row in rows], dtype=np.float64)
        # One free variable serves all rows of a limit that have one.
        variable = np.full(len(rows), -1, dtype=np.intp)
        _, variable[free != 0.0] = np.unique(limit_of_row[free != 0.0], return_inverse=True)
        return cls(
            strata,
            objective,
            tuple(limits),
            cost=cost.ravel(),
            matrix=np.array([row.matrix for row in rows]).reshape(len(rows), cost.size),
            bound=np.array([row.bound for row in rows], dtype=np.float64),
            free=free,
            variable=variable,
            limit_of_row=limit_of_row,
            scale=scale,
            level=level,
        )

    @property
    def n_free(self) -> int:
        """Number of free variables."""
        return int(self.variable.max(initial=-1)) + 1

    @property
    def deferral_caps(self) -> tuple[Floats, Floats]:
        """Rows with limits on deferral alone: coefficients by stratum, shape (m, S), and bounds (m,)."""
        n_strata = len(self.strata.mass)
        n_actions = self.strata.n_actions
        matrix = self.matrix.reshape(len(self.matrix), self.cost.size // n_actions, n_actions)
        of_deferral = matrix[:, :, -1]  # the last action
        is_cap = (self.limit_of_row >= 0) & (self.free == 0) & self.strata.defers
        is_cap &= ~matrix[:, :, :-1].any(axis=(1, 2)) & (of_deferral >= 0).all(axis=1)
        return of_deferral[is_cap][:, :n_strata], self.bound[is_cap]

    @property
    def caps_deferral(self) -> bool:
        """Whether a row limits deferral alone."""
        return len(self.deferral_caps[1]) > 0

    def action_costs(self, duals: Floats) -> Floats:
        """Return the action costs of the best answer to shadow prices of the rows, shape (S, A).

        If the rows have costs, each stratum is charged its mean cost: the cost of a new row is not known.
        """
        costs = (self.cost + duals @ self.matrix).reshape(-1, self.strata.n_actions)
        if self.strata.mean_costs is None:
            return costs
        n_strata = len(self.strata.mass)
        return costs[:n_strata] + costs[n_strata:] * self.strata.mean_costs

    @property
    def plain(self) -> Floats:
        """Action costs of the objective without limits, shape (S, A)."""
        return self.action_costs(np.zeros(len(self.bound)))

    @property
    def subgroup_costs(self) -> Floats:
        """Action costs of each single rate of a largest one, shape (m, S, A)."""
        rows = np.eye(len(self.bound))[self.limit_of_row == -1]
        return np.array([self.action_costs(row) for row in rows]) - self.plain

    def value(self, counts: Floats) -> float:
        """Return the objective of confusion counts (W, A), in units of its rate."""
        return self.objective.value(self._minimised.values(counts))

    def column(self, counts: Floats) -> Floats:
        """Return the cost of confusion counts and the left sides of the rows, shape (1 + J,)."""
        flat = counts.ravel()
        return np.append(self.cost @ flat, self.matrix @ flat)

    def evaluate(self, counts: Floats) -> tuple[Floats, Floats]:
        """Return the scaled objective and the largest violation of a limit, of counts (W, A) or (T, W, A)."""
        values = self._minimised.values(counts)
        worst = np.where(np.isnan(values), -np.inf, values).max(axis=-1) / self.scale
        return worst, self.violations(counts).max(axis=-1, initial=0.0)

    def violations(self, counts: Floats) -> Floats:
        """Return by how much confusion counts violate each limit, in units of its rate's scale.

        The counts have the shape (W, A) or (T, W, A). The result has the shape (n_limits,) or (T, n_limits),
        and is negative if a limit has room.
        """
        by_limit = np.zeros((*counts.shape[:-2], len(self.limits)))
        for number, (limit, (terms, scale)) in enumerate(
            zip(self.limits, self._limited, strict=True)
        ):
            by_limit[..., number] = limit.excess(terms.names, terms.values(counts)) / scale
        return by_limit

    def keeping(self, counts: Floats) -> Ints:
        """Return the numbers of the candidates within all limits, by their counts (T, W, A)."""
        _, violations = self.evaluate(counts)
        return np.flatnonzero(violations <= SLIGHT)

    def keeps(self, counts: Floats) -> bool:
        """Whether confusion counts of a mixture keep the limits, up to the precision of the solver."""
        return bool((self.violations(counts) <= SOLVED).all())

    @cached_property
    def _minimised(self) -> Terms:
        """The rates of the objective over confusion counts."""
        return self.objective.rate.terms(self.strata)

    @cached_property
    def _limited(self) -> list[tuple[Terms, float]]:
        """The rates of each limit over confusion counts, and their scale."""
        return [
            (limit.rate.terms(self.strata), limit.rate.scale(self.strata))
            for limit in self.limits
        ]

    def within(self, limits: Sequence[Limit]) -> Program:
        """Return the program of the same objective within other limits."""
        return Program.of_rates(self.strata, self.objective, limits, self.level)

    def at(self, level: float) -> Program:
        """Return the program of a ratio at another level."""
        return Program.of_rates(self.strata, self.objective, self.limits, level)


@dataclass(frozen=True, eq=False)
class Solution:
    """The best mixture of the candidates of a pool within the limits of a program."""

    program: Program  # if the objective is a ratio, at its level
    value: float  # the objective, with the price of violations
    duals: Floats  # shape (J,): shadow prices of the rows, ≥ 0
    weights: Floats  # shape (T,): mixture weights λ
    slack: float  # sum of the violations of the rows
    # Shape (n_limits,): mask of the limits in a contradiction; all False if all limits can hold.
    contradicting: Mask

    @property
    def feasible(self) -> bool:
        """Whether some mixture of the candidates satisfies all limits."""
        return self.slack <= NO_VIOLATION * 10

    def is_improved_by(self, counts: Floats) -> bool:
        """Whether a further candidate with these confusion counts costs less, at the shadow prices."""
        cost, *left_sides = self.program.column(counts)
        reduced_cost = float(cost + self.duals @ (np.array(left_sides) - self.program.bound))
        return self.value - reduced_cost > COLUMN_GAP * max(1.0, abs(self.value))


class Master:
    """The program over the candidates so far, solved by HiGHS with a warm start.

    Every row may be violated at a price, so a solution always exists. `raise_price` raises the price until no
    row is violated, or only rows of contradictory limits.
    """

    def __init__(self, program: Program, counts: Sequence[Floats]) -> None:
        self.program = program
        self.price = SLACK_PRICE
        infinity = highspy.kHighsInf
        highs = QuietHighs()
        n_free = program.n_free
        n_rows = len(program.bound)

        # Columns: the free variables, a violation of each row, and a weight of each candidate.
        # HiGHS takes them by position: cost, lower and upper bound, number of entries, rows, entries.
        for i in range(n_free):
            is_largest_rate = program.objective.worst and i == 0
            highs.addCol(float(is_largest_rate), -infinity, infinity, 0, [], [])
        for _ in range(n_rows):
            highs.addCol(self.price, 0.0, infinity, 0, [], [])

        for j in range(n_rows):
            columns = [n_free + j]
            entries = [-1.0]
            if program.variable[j] >= 0:
                columns.append(int(program.variable[j]))
                entries.append(float(program.free[j]))
            index = np.array(columns, dtype=np.int32)
            highs.addRow(
                -infinity, float(program.bound[j]), len(index), index, np.array(entries)
            )
        highs.addRow(1.0, 1.0, 0, [], [])  # the weights sum to 1

        self.highs = highs
        self.first = n_free + n_rows
        self.n_candidates = 0
        if len(counts):
            self.add(np.array(counts))

    def add(self, counts: Floats) -> None:
        """Add candidates by their confusion counts, shape (T, W, A)."""
        n = len(counts)
        flat = counts.reshape(n, -1)
        columns = np.column_stack([flat @ self.program.matrix.T, np.ones(n)])
        size = columns.shape[1]
        starts = np.arange(0, n * size, size, dtype=np.int32)
        rows = np.tile(np.arange(size, dtype=np.int32), n)
        lower = np.zeros(n)
        upper = np.full(n, highspy.kHighsInf)
        cost = flat @ self.program.cost
        self.highs.addCols(n, cost, lower, upper, n * size, starts, rows, columns.ravel())
        self.n_candidates += n

    def raise_price(self) -> bool:
        """Raise the price of violations; return whether it was below its maximum."""
        if self.price >= MOST_SLACK_PRICE:
            return False
        self.price *= 10.0
        for j in range(len(self.program.bound)):
            self.highs.changeColCost(self.program.n_free + j, self.price)
        return True

    def solve(self) -> Solution:
        """Return the best mixture of the candidates.

        Raises
        ------
        RuntimeError
            If the solver fails.
        """
        self.highs.run()
        if self.highs.getModelStatus() != highspy.HighsModelStatus.kOptimal:
            # A warm start can fail by rounding if a cold one does not.
            self.highs.clearSolver()
            self.highs.run()
            if self.highs.getModelStatus() != highspy.HighsModelStatus.kOptimal:
                status = self.highs.modelStatusToString(self.highs.getModelStatus())
                raise RuntimeError(f"the program over the candidates was not solved: {status}")

        solution = self.highs.getSolution()
        program = self.program
        values = np.array(solution.col_value)
        duals = np.maximum(-np.array(solution.row_dual)[:-1], 0.0)  # less the dual of Σ
        weights = np.maximum(values[self.first :], 0.0)
        slack = float(values[program.n_free : self.first].sum())
        value = float(self.highs.getObjectiveValue())
        expensive = program.limit_of_row[duals >= DEAR * self.price]
        contradicting = np.isin(np.arange(len(program.limits)), expensive) & (
            slack > NO_VIOLATION * 10
        )
        return Solution(
            program=program,
            value=value,
            duals=duals,
            weights=weights / weights.sum(),
            slack=slack,
            contradicting=contradicting,
        )

    def finish(self) -> Solution:
        """Solve, and raise the price of violations until no limit is violated without need."""
        solution = self.solve()
        while solution.slack > NO_VIOLATION and self.raise_price():
            solution = self.solve()
        return solution


def mixed(weights: Floats, counts: Sequence[Floats] | Floats) -> Floats:
    """Return the confusion counts of a mixture."""
    total = np.zeros_like(counts[0])
    for i in np.flatnonzero(weights > 0).tolist():
        total += weights[i] * counts[i]
    return total


@one_blas_thread  # threads change the last digits of sums, and then other candidates may grow
def solve(counts: Sequence[Floats], program: Program) -> Solution:
    """Return the best mixture of candidates with these confusion counts within the limits."""
    return _at_its_level(counts, program, lambda program: Master(program, counts).finish())


def best_guess(program: Program) -> float | None:
    """Return the least objective of a mixture of constant answers within the limits; None without one."""
    constants = program.strata.constants()
    solution = solve(constants, program)
    if solution.feasible:
        return program.value(mixed(solution.weights, constants))
    return None


@one_blas_thread
def grow(pool: Pool, program: Program) -> Solution:
    """Add candidates until the best answer to the shadow prices improves the program no further.

    This is column generation: each new candidate minimises the expected cost under the shadow prices, and is
    then counted on the selection data. If the stratum probabilities are right, the best mixture of all rules
    is found.
    """
    return _at_its_level(pool.counts, program, lambda program: _grow_once(pool, program))


def _at_its_level(
    counts: Sequence[Floats], program: Program, solve_once: Callable[[Program], Solution]
) -> Solution:
    """Return the solution of the program of a ratio at its own level (Dinkelbach 1967).

    The solution at a level above the optimum has a lower ratio, so the levels decrease to the optimum.
    Programs of other objectives are solved once. ``counts`` are the confusion counts of the candidates.
    """
    solution = solve_once(program)
    if not program.objective.rate.is_ratio:
        return solution
    for _ in range(LEVELS_TRIED):
        level = program.value(mixed(solution.weights, counts))
        if np.isnan(level) or abs(level - program.level) <= SAME_LEVEL:
            break
        program = program.at(level)
        solution = solve_once(program)
    return solution


def _grow_once(pool: Pool, program: Program) -> Solution:
    """Add candidates by column generation, as `grow`, to a program at a fixed level."""
    master = Master(program, pool.counts)
    rng = np.random.default_rng(0)
    idle_rounds = 0

    def add(action_costs: Floats) -> int:
        number = pool.add(Candidate.from_costs(action_costs))
        if number == master.n_candidates:  # new
            master.add(pool.counts[number][None])
        return number

    for _ in range(ROUNDS):
        solved = master.solve()
        costs = program.action_costs(solved.duals)
        n_before = master.n_candidates
        answer = add(costs)
        is_new = master.n_candidates > n_before
        if is_new and solved.is_improved_by(pool.counts[answer]):
            idle_rounds = 0
            continue
        idle_rounds += 1
        for _ in range(LOOKS_OF_ROUND):
            add(costs * np.exp(rng.normal(scale=LOOK_SPREAD, size=(len(costs), 1))))
        breaks_limits = solved.slack > NO_VIOLATION
        if idle_rounds >= IDLE_ROUNDS // 2 and breaks_limits and master.raise_price():
            idle_rounds = 0
        if idle_rounds >= IDLE_ROUNDS:
            break
    return master.finish()


# -- the best candidate or mixture of a pool -------------------------------------------------------------

# A mixture weight up to this is 0.
LEAST_WEIGHT = 1e-6
# The cost of a violation of 1 is CHARGE + CHARGE_PER_PRICE · (sum of the shadow prices), at most MOST_CHARGE.
# Constant part, in units of the scaled objective.
CHARGE = 2.0
# Multiple of the sum of the shadow prices. With a factor above 1, a violation costs more than its gain.
CHARGE_PER_PRICE = 2.0
# Largest cost, however large the shadow prices are.
MOST_CHARGE = 1e4
# Errors are compared after rounding to this number of decimals.
PROGRAM_DECIMALS = 12


@dataclass(frozen=True, eq=False)
class Best:
    """The selected candidates with their mixture weights: usually one candidate."""

    numbers: Ints  # candidates of the pool with positive weight
    weights: Floats  # λ, sums to 1
    counts: Floats  # shape (W, A): confusion counts of the rule on the selection data
    value: float  # the objective
    bound: float  # the least objective of a mixture of the pool within the limits
    violations: Floats  # shape (n_limits,): violations by the rule on the selection data
    # Shape (n_limits,): violations by the best mixture. A mixture may satisfy more limits than one rule.
    mixture_violations: Floats
    solution: Any  # the `Solution` of the best mixture of the pool; None for `from_weights`

    @classmethod
    def alone(cls, program: Program, number: int, counts: Floats) -> Best:
        """Return one rule with these confusion counts as a selection."""
        return cls.from_weights(program, np.array([number]), np.ones(1), counts)

    @classmethod
    def from_weights(
        cls, program: Program, numbers: Ints, weights: Floats, counts: Floats
    ) -> Best:
        """Return the selection of a mixture of candidates.

        ``numbers`` and ``weights`` have shape (k,), and ``counts`` are the confusion counts of the mixture,
        shape (W, A). The value of the selection is also its bound. The violations of the best mixture are NaN
        (unknown).
        """
        value = program.value(counts)
        return cls(
            numbers=numbers,
            weights=weights,
            counts=counts,
            value=value,
            bound=value,
            violations=program.violations(counts),
            mixture_violations=np.full(len(program.limits), np.nan),
            solution=None,
        )

    @property
    def gap(self) -> float:
        """Possible decrease of the objective by a mixture of the pool, on the selection data."""
        return max(0.0, self.value - self.bound)

    @property
    def keeps(self) -> bool:
        """Whether all limits hold on the selection data; for a mixture up to the precision of the solver."""
        allowed = SOLVED
        if len(self.numbers) == 1:
            allowed = SLIGHT
        return bool((self.violations <= allowed).all())


def best_in_pool(
    pool: Pool, program: Program, *, randomized: bool = False, among: Sequence[int] = ()
) -> Best:
    """Return the best candidate of a pool within limits, or the best mixture if ``randomized``.

    Eligible candidates satisfy all limits on the selection data. The eligible candidate with the smallest
    objective is selected. Of equal candidates, the one with the smallest overall error is selected. If no
    candidate is eligible, a cost for violations is added to the objective. The candidates need no action
    costs. ``among`` are the numbers of the compared candidates, all by default.
    """
    solution = solve(pool.counts, program)
    best_mixture = _mixture_of(solution, pool)
    if randomized:
        return best_mixture

    program = solution.program
    numbers = np.array(among or range(len(pool.candidates)))
    counts = pool.all_counts[numbers]
    best = _best_number(program, counts, charge_of(solution))
    value = program.value(counts[best])
    violations = program.violations(counts[best])
    bound = best_mixture.bound
    if violations.max(initial=0.0) <= SLIGHT:
        bound = min(bound, value)
    return replace(
        best_mixture,
        numbers=numbers[[best]],
        weights=np.ones(1),
        counts=counts[best],
        value=value,
        bound=bound,
        violations=violations,
    )


def _mixture_of(solution: Solution, pool: Pool) -> Best:
    """Return the mixture of a solution as a selection, without its tiny weights."""
    program = solution.program
    used = np.flatnonzero(solution.weights > LEAST_WEIGHT)
    weights = solution.weights[used] / solution.weights[used].sum()
    counts = mixed(weights, pool.all_counts[used])
    best = Best.from_weights(program, used, weights, counts)
    return replace(best, mixture_violations=best.violations, solution=solution)


def _best_number(program: Program, counts: Floats, charge: float) -> int:
    """Return the number of the best of T candidates by their counts, shape (T, W, A).

    The best one within all limits has the least objective, then the least overall error. If none keeps all
    limits, a violation of 1 costs ``charge``.
    """
    values, violations = program.evaluate(counts)
    eligible = np.flatnonzero(violations <= SLIGHT)
    if not len(eligible):
        values = values + charge * violations
        eligible = np.arange(len(values))
    errors = overall_errors(program, counts[eligible]).round(PROGRAM_DECIMALS)
    by_value_then_error = np.lexsort((errors, values[eligible].round(PROGRAM_DECIMALS)))
    return int(eligible[by_value_then_error[0]])


def overall_errors(program: Program, counts: Floats) -> Floats:
    """Return the overall error of confusion counts of shape (T, W, A), shape (T,)."""
    return np.tensordot(counts, OVERALL_ERROR.terms(program.strata).linear[0], axes=2)


def charge_of(solution: Solution) -> float:
    """Return the cost of violating a limit by 1, which is above its shadow price."""
    return min(CHARGE + CHARGE_PER_PRICE * float(solution.duals.sum()), MOST_CHARGE)


def within_budget(pool: Pool, program: Program, error_budget: float | None) -> Program:
    """Return the program with the limit of an error budget.

    The budget is the largest increase of the overall error above the error of the most accurate candidate. If
    rows may be deferred, only candidates within the limits on deferral count.

    Parameters
    ----------
    pool : Pool
        The candidates.
    program : Program
        The objective and the limits.
    error_budget : float or None
        Allowed increase of the overall error; None for no budget.
    """
    if error_budget is None:
        return program
    deferral_limits = [limit for limit in program.limits if limit.rate.needs_deferral]
    _, violation = program.within(deferral_limits).evaluate(pool.all_counts)
    errors = overall_errors(program, pool.all_counts)
    within_caps = violation <= max(SLIGHT, float(violation.min()))
    most_accurate = float(errors[within_caps].min())
    budget_limit = error() <= allowed_error(most_accurate, error_budget)
    return program.within((*program.limits, budget_limit))


def allowed_error(least_error: float, error_budget: float) -> float:
    """Return the largest error within a budget above the least error."""
    return min(1.0, least_error + error_budget)
