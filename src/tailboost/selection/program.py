"""The linear program of an objective within limits over tallies, and its restriction to some members."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import highspy
import numpy as np

from tailboost.core.array_types import Floats, Ints, Mask
from tailboost.rates import GAP, RATIO, Limit, Objective, Rate, Strata, error
from tailboost.selection.counts import plain_state

# Price of the mean error beside a largest rate: among rules with the same largest one the more accurate.
TIE_PRICE = 1e-3
# What breaking a limit by 1 costs at first, and at most.
SLACK_PRICE, MOST_SLACK_PRICE = 10.0, 1e6
# A row of the program is part of a contradiction if its price is at least this share of that of slack.
DEAR = 1e-3
SLACK = 1e-7
# By how much a limit may be exceeded by rounding.
SLIGHT = 1e-9


@dataclass(frozen=True, eq=False)
class Program:
    """``min ⟨cost, N⟩ + z_0`` subject to ``⟨M_j, N⟩ + f_j z ≤ b_j`` over tallies N of mixtures of members."""

    strata: Strata  # what tallies are over
    objective: Objective  # what is made small; of a largest rate z_0 is the largest
    limits: tuple[Limit, ...]  # what has to hold
    cost: Floats  # shape (W × A,): the part of the objective that is linear
    matrix: Floats  # shape (J, W × A): the rows
    bound: Floats  # shape (J,): b
    free: Floats  # shape (J,): coefficient of the row's free variable
    variable: Ints  # shape (J,): which free variable, −1 for none
    of: Ints  # shape (J,): number of the limit behind each row, −1 for the objective
    scale: float  # what the objective was divided by
    # Of an objective that is a ratio: the level t of the numerators less t times the denominators, which
    # stand for it; 0 of others. The ratio is as small as it can be where its program's value is 0.
    level: float = 0.0

    @classmethod
    def of_rates(
        cls, strata: Strata, objective: Objective, limits: Sequence[Limit], level: float = 1.0
    ) -> Program:
        """Return the program of an objective and limits.

        ``level`` is that of an objective that is a ratio, and without a meaning for others.

        Raises
        ------
        ValueError
            If they speak of labels, groups, units or costs that are not there.
        """
        scale = objective.rate.scale(strata)
        terms = objective.rate.terms(strata)
        level = level if terms.is_ratio else 0.0
        linear = terms.beyond(np.full(len(terms.names), level)) if terms.is_ratio else terms.linear
        each = linear[terms.defined] / scale
        if not len(each):
            raise ValueError(f"objective: there are no rows that {objective.rate!r} counts among")
        rows: list[tuple[Floats, float, int, float, int]] = []
        n_free = 0
        if objective.worst:
            cost = TIE_PRICE * error().terms(strata).linear[0]
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
        return cls(
            strata,
            objective,
            tuple(limits),
            cost.ravel(),
            np.array([row[0].ravel() for row in rows]).reshape(len(rows), cost.size),
            np.array([row[3] for row in rows], dtype=np.float64),
            np.array([row[1] for row in rows], dtype=np.float64),
            np.array([row[2] for row in rows], dtype=np.intp),
            np.array([row[4] for row in rows], dtype=np.intp),
            scale,
            level,
        )

    @property
    def n_free(self) -> int:
        """Number of free variables."""
        return int(self.variable.max(initial=-1)) + 1

    @property
    def caps(self) -> tuple[Floats, Floats]:
        """Rows that limit nothing but what is passed on: charges by stratum, (m, S), and bounds, (m,)."""
        n_strata, A = len(self.strata.mass), self.strata.n_actions
        matrix = self.matrix.reshape(len(self.matrix), self.cost.size // A, A)
        only = (self.of >= 0) & (self.free == 0) & ~matrix[:, :, :-1].any(axis=(1, 2))
        only &= self.strata.defers & (matrix[:, :, -1] >= 0).all(axis=1)
        return matrix[only][:, :n_strata, -1], self.bound[only]

    def prices(self, duals: Floats) -> Floats:
        """Return the prices Q of the best answer to duals of the rows, shape (S, A).

        The charge for costs met is that of their mean in the stratum: a row's own costs are not known where
        it is answered.
        """
        found = (self.cost + duals @ self.matrix).reshape(-1, self.strata.n_actions)
        if self.strata.mean_costs is None:
            return found
        n_strata = len(self.strata.mass)
        return found[:n_strata] + found[n_strata:] * self.strata.mean_costs

    def worth(self, duals: Floats, tally: Floats) -> tuple[Floats, ...]:
        """Return by how much the objective falls for each 1 by which a bound is loosened, at the solution.

        Parameters
        ----------
        duals : ndarray of shape (J,)
            Prices of the rows.
        tally : ndarray of shape (W, A)
            What the solution does.

        Returns
        -------
        tuple of ndarray
            For each limit one number by unit, in the order of its rate's units: 0 where the bound costs
            nothing, NaN for units that are free; one number for a gap, NaN for a ratio of units.
        """
        own = self.objective.rate.terms(self.strata)
        scale = self.scale
        if own.is_ratio:  # the level falls until the value is 0 again
            among = np.tensordot(own.bottom, tally, axes=2)[own.defined] / own.mass[own.defined]
            weight = duals[self.of == -1] if self.objective.worst else np.ones(1)
            scale = 1.0 / max(float(weight @ among), 1e-300)
        found = []
        for number, limit in enumerate(self.limits):
            terms = limit.rate.terms(self.strata)
            paid = duals[self.of == number] * scale / limit.rate.scale(self.strata)
            if limit.form in (GAP, RATIO):
                of_bound = paid[: len(paid) // 2] if limit.margins is None else paid
                found.append(np.array([of_bound.sum() if limit.form == GAP else np.nan]))
                continue
            there = terms.defined & ~np.isnan(limit.bounds(terms.names))
            if terms.is_ratio:  # the bound stands before what it counts among
                among = np.tensordot(terms.bottom, tally, axes=2)
                paid = paid * among[there] / terms.mass[there]
            of_units = np.full(len(terms.names), np.nan)
            of_units[there] = paid
            found.append(of_units)
        return tuple(found)

    @property
    def unit_prices(self) -> Floats:
        """The prices of each rate that a largest one is the largest of, alone, shape (m, S, A)."""
        own = np.flatnonzero(self.of == -1)
        nothing = self.prices(np.zeros(len(self.of)))
        return np.array([self.prices((np.arange(len(self.of)) == j).astype(float)) for j in own]) - nothing

    def value(self, tally: Floats) -> float:
        """Return what is made small, in its own units."""
        return self.objective.value(self.objective.rate.terms(self.strata).values(tally))

    def column(self, counts: Floats) -> Floats:
        """Return the cost and the left sides of the rows of confusion counts, shape (1 + J,)."""
        flat = counts.ravel()
        return np.append(self.cost @ flat, self.matrix @ flat)

    def judge(self, counts: Floats) -> tuple[Floats, Floats]:
        """Return what is made small, as scaled, and the largest excess of a limit.

        Of confusion counts of one candidate, shape (W, A), or of many, shape (T, W, A).
        """
        _, top, bottom, scale = self._own_terms
        flat = counts.reshape(*counts.shape[:-2], -1)
        values = _ratio(flat @ top.T, flat @ bottom.T)
        worst = np.where(np.isnan(values), -np.inf, values).max(axis=-1) / scale
        return worst, self.excesses(counts).max(axis=-1, initial=0.0)

    def excesses(self, tally: Floats) -> Floats:
        """Return by how much tallies break each limit, in units of its rate's scale.

        Of one, shape (W, A), or of many, shape (T, W, A): shape (n_limits,) or (T, n_limits).
        """
        flat = tally.reshape(*tally.shape[:-2], -1)
        found = np.zeros((*flat.shape[:-1], len(self.limits)))
        for number, (limit, (names, top, bottom, scale)) in enumerate(
            zip(self.limits, self._terms, strict=True)
        ):
            found[..., number] = limit.excess(names, _ratio(flat @ top.T, flat @ bottom.T)) / scale
        return found

    @cached_property
    def _terms(self) -> list[Terms]:
        return [_flat(limit.rate, self.strata) for limit in self.limits]

    @cached_property
    def _own_terms(self) -> Terms:
        return _flat(self.objective.rate, self.strata)

    def __getstate__(self) -> dict[str, Any]:
        return plain_state(self)

    def over(self, strata: Strata) -> Program:
        """Return the same program over rows with other masses."""
        return Program.of_rates(strata, self.objective, self.limits, self.level)

    def within(self, limits: Sequence[Limit]) -> Program:
        """Return the program of the same objective within other limits."""
        return Program.of_rates(self.strata, self.objective, limits, self.level)

    def at(self, level: float) -> Program:
        """Return the program of a ratio at another level."""
        return Program.of_rates(self.strata, self.objective, self.limits, level)


Terms = tuple[list[Any], Floats, Floats, float]
"""Subgroups of a rate, numerators and denominators over flat counts, shape (m, W × A), and its scale."""


def _flat(rate: Rate, strata: Strata) -> Terms:
    terms = rate.terms(strata)
    m = len(terms.names)
    return terms.names, terms.top.reshape(m, -1), terms.bottom.reshape(m, -1), rate.scale(strata)


def _ratio(top: Floats, bottom: Floats) -> Floats:
    there = bottom > 0
    return np.where(there, top / np.where(there, bottom, 1.0), np.nan)


@dataclass(frozen=True, eq=False)
class Solved:
    """A solution of the restricted program."""

    value: float  # its value, broken limits charged
    duals: Floats  # shape (J,): prices of the rows, ≥ 0
    weights: Floats  # shape (T,): λ
    slack: float  # by how much rows are broken, together


class Master:
    """The program over the members seen so far: HiGHS, which goes on from its last solution.

    Every row may be broken at a price, so that there is a solution from the first member on; `charge_more`
    raises it until no row is broken, or the price is so high that only what cannot be kept is broken.

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
            of_objective = program.objective.worst and i == 0
            highs.addCol(1.0 if of_objective else 0.0, -infinity, infinity, 0, [], [])
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
        self.highs, self.first, self.n_members = highs, n_free + n_rows, 0

    def add(self, counts: Floats) -> None:
        """Add a candidate by its confusion counts."""
        cost, *rows = self.program.column(counts).tolist()
        entries = np.array([*rows, 1.0])
        places = np.arange(len(entries), dtype=np.int32)
        self.highs.addCol(cost, 0.0, highspy.kHighsInf, len(entries), places, entries)
        self.n_members += 1

    def charge_more(self) -> bool:
        """Raise the price of broken rows; return whether it could be."""
        if self.price >= MOST_SLACK_PRICE:
            return False
        self.price *= 10.0
        for j in range(len(self.program.bound)):
            self.highs.changeColCost(self.program.n_free + j, self.price)
        return True

    def solve(self) -> Solved:
        """Return the best shares of the members.

        Raises
        ------
        RuntimeError
            If the solver gives up.
        """
        self.highs.run()
        if self.highs.getModelStatus() != highspy.HighsModelStatus.kOptimal:
            # A warm start can fail by rounding where a cold one does not.
            self.highs.clearSolver()
            self.highs.run()
            if self.highs.getModelStatus() != highspy.HighsModelStatus.kOptimal:
                status = self.highs.modelStatusToString(self.highs.getModelStatus())
                raise RuntimeError(f"the program over members was not solved: {status}")
        solution = self.highs.getSolution()
        x, duals = np.array(solution.col_value), -np.array(solution.row_dual)[:-1]
        weights = np.maximum(x[self.first :], 0.0)
        slack = float(x[self.program.n_free : self.first].sum())
        total = weights.sum()
        return Solved(
            float(self.highs.getObjectiveValue()),
            np.maximum(duals, 0.0),
            weights / total,
            slack,
        )

    def contradicting(self, solved: Solved) -> Mask:
        """Return which limits contradict each other where some stay broken at the highest price."""
        dear = self.program.of[solved.duals >= DEAR * self.price]
        found: Mask = np.isin(np.arange(len(self.program.limits)), dear)
        return found


def mixed(weights: Floats, tallies: Sequence[Floats]) -> Floats:
    """Return the tally of a mixture."""
    used = np.flatnonzero(weights > 0).tolist()
    total: Floats = np.zeros_like(tallies[0])
    for i in used:
        total += weights[i] * tallies[i]
    return total
