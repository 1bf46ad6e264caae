"""The linear program of an objective within limits over confusion counts, and its master program."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import highspy
import numpy as np

from tailboost.core.array_types import Floats, Ints, Mask
from tailboost.rates import GAP, RATIO, Limit, Objective, Strata
from tailboost.rates.make import OVERALL_ERROR
from tailboost.selection.candidates import plain_state

# Weight of the overall error beside a largest rate: of rules with the same largest rate the most accurate.
TIE_PRICE = 1e-3
# Price of violating a row of the program by 1: at first, and at most.
SLACK_PRICE, MOST_SLACK_PRICE = 10.0, 1e6
# A row is part of a contradiction if its shadow price is at least this fraction of the price of a violation.
DEAR = 1e-3
# Sum of violations that counts as none.
SLACK = 1e-7
# Violation of a limit that counts as rounding.
SLIGHT = 1e-9


@dataclass(frozen=True, eq=False)
class Program:
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
        """Return the program of an objective and limits.

        Parameters
        ----------
        strata : Strata
            The strata of the selection data.
        objective : Objective
            The rate to minimise.
        limits : sequence of Limit
            The limits.
        level : float, default=1.0
            Level of an objective that is a ratio; other objectives ignore it.

        Raises
        ------
        ValueError
            If a rate needs labels, groups, subgroups or costs that do not exist.
        """
        scale, terms = objective.rate.scale(strata), objective.rate.terms(strata)
        level = level if terms.is_ratio else 0.0
        linear = terms.beyond(np.full(len(terms.names), level)) if terms.is_ratio else terms.linear
        each = linear[terms.defined] / scale
        if not len(each):
            raise ValueError(f"objective: there are no rows that {objective.rate!r} counts among")
        rows: list[tuple[Floats, float, int, float, int]] = []
        n_free = 0
        if objective.worst:
            cost = TIE_PRICE * OVERALL_ERROR.terms(strata).linear[0]
            rows = [(C, -1.0, 0, 0.0, -1) for C in each]
            n_free = 1
        else:
            cost = each[0]
        for number, limit in enumerate(limits):
            shared = n_free
            for row in limit.rows(strata):
                variable = shared if row.free else -1
                n_free = max(n_free, variable + 1)
                rows.append((row.matrix, row.free, variable, row.bound, number))
        matrix, free, of_variable, bound, of_limit = zip(*rows, strict=True) if rows else ((),) * 5
        return cls(
            strata,
            objective,
            tuple(limits),
            cost.ravel(),
            np.array(matrix, dtype=np.float64).reshape(len(rows), cost.size),
            np.array(bound, dtype=np.float64),
            np.array(free, dtype=np.float64),
            np.array(of_variable, dtype=np.intp),
            np.array(of_limit, dtype=np.intp),
            scale,
            level,
        )

    @property
    def n_free(self) -> int:
        """Number of free variables."""
        return int(self.variable.max(initial=-1)) + 1

    @property
    def caps(self) -> tuple[Floats, Floats]:
        """Rows that limit deferral alone: coefficients by stratum, shape (m, S), and bounds, shape (m,)."""
        n_strata, A = len(self.strata.mass), self.strata.n_actions
        matrix = self.matrix.reshape(len(self.matrix), self.cost.size // A, A)
        only = (self.limit_of_row >= 0) & (self.free == 0) & ~matrix[:, :, :-1].any(axis=(1, 2))
        only &= self.strata.defers & (matrix[:, :, -1] >= 0).all(axis=1)
        return matrix[only][:, :n_strata, -1], self.bound[only]

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

    def shadow_prices(self, duals: Floats, counts: Floats) -> tuple[Floats, ...]:
        """Return the decrease of the objective for each 1 by which a bound is loosened, at the solution.

        Parameters
        ----------
        duals : ndarray of shape (J,)
            Duals of the rows.
        counts : ndarray of shape (W, A)
            Confusion counts of the solution.

        Returns
        -------
        tuple of ndarray
            For each limit one number by subgroup, in the order of its rate: 0 if the bound costs nothing, NaN
            for subgroups without a bound. One number for a gap, NaN for a ratio of subgroups.
        """
        terms = self.objective.rate.terms(self.strata)
        scale = self.scale
        if terms.is_ratio:  # the level falls until the value is 0 again
            among = np.tensordot(terms.bottom, counts, axes=2)[terms.defined] / terms.mass[terms.defined]
            weight = duals[self.limit_of_row == -1] if self.objective.worst else np.ones(1)
            scale = 1.0 / max(float(weight @ among), 1e-300)
        prices = []
        for number, limit in enumerate(self.limits):
            terms = limit.rate.terms(self.strata)
            paid = duals[self.limit_of_row == number] * scale / limit.rate.scale(self.strata)
            if limit.form in (GAP, RATIO):
                of_bound = paid[: len(paid) // 2] if limit.margins is None else paid
                prices.append(np.array([of_bound.sum() if limit.form == GAP else np.nan]))
                continue
            bounded = terms.defined & ~np.isnan(limit.bounds(terms.names))
            if terms.is_ratio:  # the bound multiplies the denominator
                among = np.tensordot(terms.bottom, counts, axes=2)
                paid = paid * among[bounded] / terms.mass[bounded]
            by_subgroup = np.full(len(terms.names), np.nan)
            by_subgroup[bounded] = paid
            prices.append(by_subgroup)
        return tuple(prices)

    def value(self, counts: Floats) -> float:
        """Return the objective of confusion counts, in its own units."""
        return self.objective.value(self.objective.rate.terms(self.strata).values(counts))

    def column(self, counts: Floats) -> Floats:
        """Return the cost of confusion counts and the left sides of the rows, shape (1 + J,)."""
        flat = counts.ravel()
        return np.append(self.cost @ flat, self.matrix @ flat)

    def evaluate(self, counts: Floats) -> tuple[Floats, Floats]:
        """Return the scaled objective and the largest violation of a limit.

        Parameters
        ----------
        counts : ndarray of shape (W, A) or (T, W, A)
            Confusion counts of one candidate or of T.
        """
        _, top, bottom, scale = self._flat_terms[0]
        flat = counts.reshape(*counts.shape[:-2], -1)
        values = _ratio(flat @ top.T, flat @ bottom.T)
        worst = np.where(np.isnan(values), -np.inf, values).max(axis=-1) / scale
        return worst, self.violations(counts).max(axis=-1, initial=0.0)

    def violations(self, counts: Floats) -> Floats:
        """Return by how much confusion counts violate each limit, in units of its rate's scale.

        Parameters
        ----------
        counts : ndarray of shape (W, A) or (T, W, A)
            Confusion counts of one candidate or of T.

        Returns
        -------
        ndarray of shape (n_limits,) or (T, n_limits)
            Negative if a limit has room.
        """
        flat = counts.reshape(*counts.shape[:-2], -1)
        by_limit = np.zeros((*flat.shape[:-1], len(self.limits)))
        for number, limit in enumerate(self.limits):
            names, top, bottom, scale = self._flat_terms[number + 1]
            by_limit[..., number] = limit.excess(names, _ratio(flat @ top.T, flat @ bottom.T)) / scale
        return by_limit

    @cached_property
    def _flat_terms(self) -> list[tuple[list[Any], Floats, Floats, float]]:
        """For each rate: subgroups, numerators and denominators over flat counts, (m, W × A), and scale."""
        flat = []
        for stated in (self.objective, *self.limits):
            terms, scale = stated.rate.terms(self.strata), stated.rate.scale(self.strata)
            m = len(terms.names)
            flat.append((terms.names, terms.top.reshape(m, -1), terms.bottom.reshape(m, -1), scale))
        return flat

    def __getstate__(self) -> dict[str, Any]:
        return plain_state(self)

    def over(self, strata: Strata) -> Program:
        """Return the same program over strata with other masses."""
        return Program.of_rates(strata, self.objective, self.limits, self.level)

    def within(self, limits: Sequence[Limit]) -> Program:
        """Return the program of the same objective within other limits."""
        return Program.of_rates(self.strata, self.objective, limits, self.level)

    def at(self, level: float) -> Program:
        """Return the program of a ratio at another level."""
        return Program.of_rates(self.strata, self.objective, self.limits, level)


def _ratio(top: Floats, bottom: Floats) -> Floats:
    positive = bottom > 0
    return np.where(positive, top / np.where(positive, bottom, 1.0), np.nan)


@dataclass(frozen=True, eq=False)
class Solution:
    """A solution of the master program."""

    value: float  # the objective, with the price of violations
    duals: Floats  # shape (J,): shadow prices of the rows, ≥ 0
    weights: Floats  # shape (T,): mixture weights λ
    slack: float  # sum of the violations of the rows


class Master:
    """The program over the candidates so far, solved by HiGHS with a warm start.

    Every row may be violated at a price, so that a solution always exists. `raise_price` raises it until no
    row is violated, or until only contradictory limits are.

    Parameters
    ----------
    program : Program
        The program.
    """

    def __init__(self, program: Program) -> None:
        self.program, self.price = program, SLACK_PRICE
        infinity = highspy.kHighsInf
        highs = highspy.Highs()
        highs.setOptionValue("output_flag", False)
        highs.setOptionValue("threads", 1)
        n_free, n_rows = program.n_free, len(program.bound)
        for i in range(n_free):
            is_largest_rate = program.objective.worst and i == 0
            highs.addCol(1.0 if is_largest_rate else 0.0, -infinity, infinity, 0, [], [])
        for _ in range(n_rows):
            highs.addCol(self.price, 0.0, infinity, 0, [], [])
        for j in range(n_rows):
            places, entries = [n_free + j], [-1.0]
            if program.variable[j] >= 0:
                places, entries = [*places, int(program.variable[j])], [*entries, float(program.free[j])]
            highs.addRow(
                -infinity,
                float(program.bound[j]),
                len(places),
                np.array(places, dtype=np.int32),
                np.array(entries),
            )
        highs.addRow(1.0, 1.0, 0, [], [])
        self.highs, self.first, self.n_candidates = highs, n_free + n_rows, 0

    def add(self, counts: Floats) -> None:
        """Add a candidate by its confusion counts."""
        cost, *rows = self.program.column(counts).tolist()
        entries = np.array([*rows, 1.0])
        places = np.arange(len(entries), dtype=np.int32)
        self.highs.addCol(cost, 0.0, highspy.kHighsInf, len(entries), places, entries)
        self.n_candidates += 1

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
        x, duals = np.array(solution.col_value), -np.array(solution.row_dual)[:-1]
        weights = np.maximum(x[self.first :], 0.0)
        slack = float(x[self.program.n_free : self.first].sum())
        value = float(self.highs.getObjectiveValue())
        return Solution(value, np.maximum(duals, 0.0), weights / weights.sum(), slack)

    def contradicting(self, solved: Solution) -> Mask:
        """Return the limits that contradict each other, if some are violated at the highest price."""
        dear = self.program.limit_of_row[solved.duals >= DEAR * self.price]
        contradicting: Mask = np.isin(np.arange(len(self.program.limits)), dear)
        return contradicting


def mixed(weights: Floats, counts: Sequence[Floats] | Floats) -> Floats:
    """Return the confusion counts of a mixture."""
    total: Floats = np.zeros_like(counts[0])
    for i in np.flatnonzero(weights > 0).tolist():
        total += weights[i] * counts[i]
    return total
