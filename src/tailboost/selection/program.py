"""The linear program of a problem over confusion counts, its solution, and the best candidate of a pool."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain

import numpy as np
from scipy.optimize import linprog

from tailboost.core.array_types import Floats, Ints, Mask
from tailboost.core.long_work import one_blas_thread
from tailboost.rates import Limit, Objective, Strata
from tailboost.rates.make import OVERALL_ERROR
from tailboost.rates.rate import Inequality, Terms
from tailboost.selection.data import Uncached

# Weight of the overall error added to a largest rate: among rules with the same largest rate, the most
# accurate one is best.
TIE_PRICE = 1e-3
# Price of violating a row of the program by 1.
SLACK_PRICE = 1e5
# A row is part of a contradiction if its shadow price is at least this fraction of the price of a violation.
DEAR = 1e-3
# A smaller sum of violations is rounding.
NO_VIOLATION = 1e-6
# A smaller violation of a limit is rounding; for a mixture, it is within the precision of the solver.
SLIGHT = 1e-9
SOLVED = 1e-6
# Relative gap at which column generation ends.
COLUMN_GAP = 1e-4
# The most tried levels of a ratio, and the least difference of two levels for another trial.
LEVELS_TRIED = 8
SAME_LEVEL = 1e-5
# Added to the objective of rules that break limits, and for each violation of 1: any rule within the limits
# is better.
BROKEN = 10.0


@dataclass(frozen=True, eq=False)
class Program(Uncached):
    """``min ⟨cost, N⟩ + z_0`` subject to ``⟨M_j, N⟩ + f_j z ≤ b_j`` over confusion counts N of mixtures."""

    strata: Strata
    objective: Objective  # a rate, or the largest rate of a family: then z_0 is the largest
    limits: tuple[Limit, ...]
    cost: Floats  # shape (W × A,): the linear part of the objective
    matrix: Floats  # shape (J, W × A): M
    bound: Floats  # shape (J,): b
    free: Floats  # shape (J, F): f, coefficients of the free variables, one for each limit that has any
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
        with_free = np.unique(limit_of_row[free != 0.0])
        return cls(
            strata,
            objective,
            tuple(limits),
            cost=cost.ravel(),
            matrix=np.array([row.matrix for row in rows]).reshape(len(rows), cost.size),
            bound=np.array([row.bound for row in rows], dtype=np.float64),
            free=free[:, None] * (limit_of_row[:, None] == with_free),
            limit_of_row=limit_of_row,
            scale=scale,
            level=level,
        )

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

    def charged(self, counts: Floats) -> Floats:
        """Return the scaled objective of counts (T, W, A); a broken limit costs more than any objective."""
        values = self._minimised.values(counts) / self.scale
        worst = np.nan_to_num(values, nan=-1.0).max(axis=-1)  # without rows none is above
        violation = self.violations(counts).max(axis=-1, initial=0.0)
        return worst + np.where(violation <= SLIGHT, 0.0, BROKEN * (1.0 + violation))

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

    def keeps(self, counts: Floats) -> bool:
        """Whether confusion counts keep all limits."""
        return bool((self.violations(counts) <= SLIGHT).all())

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
    """The best mixture of candidates within the limits of a program."""

    program: Program  # if the objective is a ratio, at its level
    value: float  # the objective, with the price of violations
    duals: Floats  # shape (J,): shadow prices of the rows, ≥ 0
    weights: Floats  # shape (T,): mixture weights λ
    slack: float  # sum of the violations of the rows

    @property
    def feasible(self) -> bool:
        """Whether some mixture of the candidates satisfies all limits."""
        return self.slack <= NO_VIOLATION

    @property
    def contradicting(self) -> Mask:
        """Mask of the limits in a contradiction, shape (n_limits,); all False if all limits can hold."""
        expensive = self.program.limit_of_row[self.duals >= DEAR * SLACK_PRICE]
        numbers = np.arange(len(self.program.limits))
        return np.isin(numbers, expensive) & (not self.feasible)

    def is_improved_by(self, counts: Floats) -> bool:
        """Whether a further candidate with these confusion counts costs less, at the shadow prices."""
        flat, program = counts.ravel(), self.program
        reduced = program.cost @ flat + self.duals @ (program.matrix @ flat - program.bound)
        return bool(self.value - reduced > COLUMN_GAP * max(1.0, abs(self.value)))


def _solved(program: Program, counts: Floats) -> Solution:
    """Return the best mixture of candidates, shape (T, W, A), at the level of the program.

    Every row may be violated at a price, so a solution always exists. Raise RuntimeError if the solver fails.
    """
    n_rows, n_free = program.free.shape
    n_candidates = len(counts)
    flat = counts.reshape(n_candidates, -1)
    first = np.zeros(n_free)
    first[:1] = program.objective.worst  # z_0 is the largest rate
    result = linprog(
        np.concatenate([first, np.full(n_rows, SLACK_PRICE), flat @ program.cost]),
        A_ub=np.hstack([program.free, -np.eye(n_rows), program.matrix @ flat.T]),
        b_ub=program.bound,
        A_eq=np.repeat([[0.0, 1.0]], [n_free + n_rows, n_candidates], axis=1),
        b_eq=[1.0],
        bounds=[(None, None)] * n_free + [(0.0, None)] * (n_rows + n_candidates),
    )
    if result.x is None:
        raise RuntimeError(f"the program over the candidates was not solved: {result.message}")
    weights = np.maximum(result.x[n_free + n_rows :], 0.0)
    return Solution(
        program=program,
        value=float(result.fun),
        duals=np.maximum(-result.ineqlin.marginals, 0.0),
        weights=weights / weights.sum(),
        slack=float(result.x[n_free : n_free + n_rows].sum()),
    )


def mixed(weights: Floats, counts: Sequence[Floats] | Floats) -> Floats:
    """Return the confusion counts of a mixture."""
    return np.tensordot(weights, np.asarray(counts), axes=1)


@one_blas_thread()  # threads change the last digits of sums, and then other candidates may grow
def solve(counts: Sequence[Floats], program: Program) -> Solution:
    """Return the best mixture of candidates with these confusion counts within the limits.

    The solution for a ratio at a level above the optimum has a lower ratio, so the levels decrease to the
    optimum (Dinkelbach 1967).
    """
    stacked = np.asarray(counts)
    solution = _solved(program, stacked)
    if program.objective.rate.is_ratio:
        for _ in range(LEVELS_TRIED):
            level = program.value(mixed(solution.weights, stacked))
            if np.isnan(level) or abs(level - program.level) <= SAME_LEVEL:
                break
            program = program.at(level)
            solution = _solved(program, stacked)
    return solution


def best_guess(program: Program) -> float | None:
    """Return the least objective of a mixture of constant answers within the limits; None without one."""
    constants = program.strata.constants()
    solution = solve(constants, program)
    if solution.feasible:
        return program.value(mixed(solution.weights, constants))
    return None


def overall_errors(program: Program, counts: Floats) -> Floats:
    """Return the overall error of confusion counts of shape (T, W, A), shape (T,)."""
    return np.tensordot(counts, OVERALL_ERROR.terms(program.strata).linear[0], axes=2)


@dataclass(frozen=True, eq=False)
class Best:
    """The selected rule, with its confusion counts on the selection data."""

    rule: Floats | Ints  # as its family writes it
    counts: Floats  # shape (W, A)
    value: float  # the objective
    bound: float  # the least objective of a mixture of the pool within the limits
    violations: Floats  # shape (n_limits,): violations by the rule on the selection data
    solution: Solution | None = None  # the best mixture of the pool; None without a search

    @classmethod
    def alone(cls, program: Program, rule: Floats | Ints, counts: Floats) -> Best:
        """Return a rule with its confusion counts, without a comparison with others."""
        value = program.value(counts)
        return cls(rule, counts, value, value, program.violations(counts))

    @property
    def gap(self) -> float:
        """Possible decrease of the objective by a mixture of the pool, on the selection data."""
        return max(0.0, self.value - self.bound)

    @property
    def keeps(self) -> bool:
        """Whether all limits hold on the selection data."""
        return bool((self.violations <= SLIGHT).all())
