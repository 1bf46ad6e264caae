"""Objectives within limits, their linear program over confusion counts, and the search for the best rule.

Each step of column generation adds the rule of least expected cost under the shadow prices of the limits. If
the probabilities are right, the best mixture of all rules is found, so its objective is a bound. A descent
from the best rules follows. Rules within the limits come before all others.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, Self

import numpy as np
from scipy.optimize import linprog
from scipy.special import softmax

from tailboost.core import Array, Derived, Floats, frozen_value, one_blas_thread
from tailboost.rates import (
    SIGNS,
    InfeasibleLimitsError,
    Limit,
    Rate,
    Statistic,
    Strata,
    as_objective,
    deferred,
    error,
    largest,
)
from tailboost.selection.table import RateTable
from tailboost.selection.thresholds import ROUNDING, Thresholds
from tailboost.selection.weights import ClassWeights

#: All rules of one form on selection data. A search knows them as candidates, which are arrays.
#:
#: A candidate is the cuts of `Thresholds` or the action costs of `ClassWeights`. ``best(costs)`` is
#: that of least expected cost, and ``counts(candidate)`` are its confusion counts. A descent takes
#: one of the ``moves`` after the other: ``line(reached, move, table)`` has the candidates to which
#: it leads from the one that is reached, and how the sums of a table change on the way.
Family = Thresholds | ClassWeights

# Added to the objective of rules that break limits, and for each violation of 1: any rule within the limits
# is better.
PENALTY = 10.0
# Smaller violations of a limit by one rule are rounding.
SLIGHT = 1e-9
# Charges are compared after rounding to this number of decimals.
DECIMALS = 12
# The most passes of a descent over all lines.
PASSES = 3

# Named objectives.
OVERALL_ERROR = as_objective(error())
NAMED = {
    "error": OVERALL_ERROR,
    **{f"worst_{by}": largest(error(by=by)) for by in ("class", "group", "cell")},
    "deferred": as_objective(deferred()),
}
# Weight of the overall error added to a largest rate: among rules with the same largest rate, the most
# accurate one is best. Weight of deferral added to the overall error: of equal ones the least is best.
TIE_PRICE = 1e-3
# The price of violating a row of the program by 1, and the least shadow price of the rows of a contradiction.
SLACK_PRICE = 1e5
CONFLICT_PRICE = 1e-3 * SLACK_PRICE
# Smaller violations by a mixture are rounding.
SOLVED = 1e-6
# The most rounds of column generation.
ROUNDS = 100
# The most tried levels of a ratio, and the least difference of two levels for another trial.
LEVELS_TRIED = 9
SAME_LEVEL = 1e-5
# Rounds of Hedge for each share of the overall error in the action costs. With all five the worst subgroup
# within budgets is .044 ± .026 lower than with one, and .011 ± .010 lower than with two (25 tables, 3
# splits). Without Hedge the largest cell by group is .013 ± .011 higher, at .010 ± .004 more overall error.
HEDGE_ROUNDS = 20
ERROR_SHARES = (0.0, 0.5, 0.75, 0.875, 0.9375)
# The descent starts from the best rules by objective and violations. With six starts rules for the worst
# class are equal (.0002 ± .0002, 14 tables), and of 120 calls of `calibrate` with limits on three to 26
# classes 59 are certified, not 67.
STARTS = 3


# -- the problem ---------------------------------------------------------------------------------------------


@frozen_value
class Problem:
    """An objective within limits, and the kind of the selected rule.

    Attributes
    ----------
    objective : Statistic
        A rate, or the largest rate of a family.
    limits : tuple of Limit
        The limits.
    error_budget : float or None
        The largest increase of the overall error; None for no limit.
    infer_groups : bool
        Whether rules weigh an estimate of the group of a row: not if they read it.
    """

    objective: Statistic
    limits: tuple[Limit, ...] = ()
    error_budget: float | None = None
    infer_groups: bool = False

    @property
    def rates(self) -> list[Rate]:
        """The rates of the objective and the limits."""
        return [each.rate for each in (self.objective, *self.limits)]

    @property
    def needs(self) -> set[str]:
        """What the rates need, as `Rate.needs`."""
        return set().union(*(rate.needs for rate in self.rates))

    def within(self, limits: Sequence[Limit]) -> Self:
        """Return the problem with other limits."""
        return replace(self, limits=tuple(limits))

    def columns(self, names: Sequence[object], read: int | None = None) -> list[int]:
        """Return the numbers of the columns of groups in the rates, and of that which rules ``read``.

        "group" and "cell" mean all columns. None, which means all rows, is also the name of a column without
        one, which therefore counts too. Of an unknown column the terms of the rate raise the error.
        """
        used = set().union(*(rate.by_names for rate in self.rates))
        if used & {"group", "cell"} or used - {None, "class", *names}:
            return [*range(len(names))]
        return [j for j, name in enumerate(names) if name in used or j == read]


# -- the candidates ------------------------------------------------------------------------------------------


@dataclass
class Pool:
    """Candidates with their confusion counts on the selection data; no two have equal counts."""

    family: Family
    candidates: list[Array] = field(default_factory=list)
    counts: list[Floats] = field(default_factory=list)  # of each candidate, shape (W, A)

    def add(self, candidate: Array) -> int:
        """Return the number of a candidate, or of an earlier one with the same counts."""
        counts = self.family.counts(candidate)
        for number, earlier in enumerate(self.counts):
            if np.array_equal(earlier, counts):
                return number
        self.candidates.append(candidate)
        self.counts.append(counts)
        return len(self.candidates) - 1


# -- the charges of rules ------------------------------------------------------------------------------------


@dataclass(eq=False)
class Charges(Derived):
    """The charges of rules by their confusion counts: the objective, and more for a broken limit.

    Parameters
    ----------
    strata : Strata
        The strata of the counts.
    objective : Statistic
        A rate, or the largest rate of a family.
    limits : sequence of Limit
        The limits.

    Attributes
    ----------
    terms : list
        Of the rate of each statement: number 0 is the objective, in which ties have a price, and the limits
        follow.
    errors : ndarray of shape (W, A)
        The overall error is the sum of its products with counts.
    table : ndarray of shape (W, A, 2, R)
        What each count adds to the numerator (number 0 on the third axis) and to the denominator (1) of each
        of the R rates of all statements. The numerator is that of the excess: of the rate above an upper
        bound, or below a lower one, or of all of a rate that is minimised or compared. It is NaN if the rate
        is free.
    ends : ndarray of int
        The number of the first rate of each limit among them.

    Raises
    ------
    ValueError
        If a rate needs labels, groups, subgroups or costs that do not exist.
    """

    strata: Strata
    objective: Statistic
    limits: Sequence[Limit]

    def __post_init__(self) -> None:
        strata = self.strata
        # Beyond the level 0 is the rate itself.
        self.errors = OVERALL_ERROR.rate.terms(strata).beyond(0.0)[0]
        minimised = self.objective.rate.terms(strata)
        if self.objective == OVERALL_ERROR and strata.defers:
            in_deferral = deferred().terms(strata).top
            minimised = replace(minimised, top=minimised.top + TIE_PRICE * in_deferral)
        self.terms = [minimised]
        parts = [[minimised.top, minimised.bottom]]
        for limit in self.limits:
            terms = limit.rate.terms(strata)
            self.terms.append(terms)
            levels = limit.levels(terms.names)[:, None, None]
            excess = SIGNS[limit.sense] * (terms.top - levels * terms.bottom)
            parts.append([excess, terms.bottom])
        self.ends = np.cumsum([len(bottom) for _, bottom in parts])[:-1]
        self.table = np.concatenate(parts, axis=1).transpose(2, 3, 0, 1).copy()

    def value(self, counts: Floats) -> float:
        """Return the objective of confusion counts (W, A), in units of its rate."""
        return self.objective.value(self.terms[0].values(counts))

    def of(self, counts: Floats | Sequence[Floats]) -> Floats:
        """Return the charges of rules with confusion counts (…, W, A), shape (…)."""
        return self.of_excess(excess_of(np.tensordot(counts, self.table)))

    def of_excess(self, excess: Floats) -> Floats:
        """Return the charges of rules by the excess of their rates, shape (…, R).

        A charge is the scaled objective; if a limit is broken, it is more than any objective.
        """
        minimised, *limited = np.split(excess, self.ends, axis=-1)
        # An objective without rows is −1: no other one is less.
        charges = np.nan_to_num(np.fmax.reduce(minimised, -1) / self.terms[0].scale, nan=-1.0)
        violations = np.zeros_like(charges)
        for limit, terms, own in zip(self.limits, self.terms[1:], limited, strict=True):
            violations = np.maximum(violations, limit.violation(own) / terms.scale)
        broken = np.where(violations <= SLIGHT, 0.0, PENALTY * (1.0 + violations))
        return (charges + broken).round(DECIMALS)

    def keeps(self, counts: Floats) -> bool:
        """Whether confusion counts (W, A) keep all limits."""
        return bool(self.of(counts) < PENALTY / 2)  # no objective is as large

    def best(self, counts: Sequence[Floats]) -> int:
        """Return the number of the least charged counts, of equal ones that with the least error."""
        errors = np.tensordot(counts, self.errors).round(DECIMALS)
        return np.lexsort((errors, self.of(counts)))[0]


def excess_of(sums: Floats) -> Floats:
    """Return the excess of R rates, NaN without rows, by numerators and denominators, shape (…, 2, R)."""
    above, among = np.moveaxis(sums, -2, 0)
    return above / np.where(among > 0, among, np.nan)


def descended(family: Family, charges: Charges, candidate: Array, counts: Floats) -> Array:
    """Move from a candidate to the best one on each line in turn, and return where that ends.

    ``counts`` are those of the candidate. A line changes the numerators and denominators of some rates, which
    are sums over counts. The others keep the excess that they have at the reached candidate.
    """
    moves: Any = family.moves(any(limit.compares for limit in charges.limits))
    reached = family.reached(candidate)
    sums = np.tensordot(counts, charges.table)  # (2, R)
    least = np.inf
    last = 0  # number of the line of the last move
    for number, move in enumerate(moves * PASSES):
        line = family.line(reached, move, charges.table)
        moved = sums[:, line.rates] + line.changes
        moved[:, 1][moved[:, 1] < ROUNDING] = 0.0  # without rows
        excess = np.tile(excess_of(sums), (len(moved), 1))
        excess[:, line.rates] = excess_of(moved)
        on_line = charges.of_excess(excess)
        best = int(on_line.argmin())
        if on_line[best] < least - SLIGHT:
            least = on_line[best]
            sums[:, line.rates] = moved[best]
            reached = line.to(best)
            last = number
        if number - last == len(moves):  # no line has a better one
            break
    return reached.candidate


# -- the program ---------------------------------------------------------------------------------------------


class ProgramRow(NamedTuple):
    """An inequality of the program."""

    # Number of the statement behind it: 0 is the objective, and the limits follow.
    statement: int
    coefficients: Floats  # shape (W, A): of the counts
    free: float  # coefficient of the free variable of the statement
    bound: float


@dataclass(eq=False)
class Program:
    """``min ⟨cost, N⟩ + z_0`` subject to ``⟨M_j, N⟩ + f_j z ≤ b_j`` over confusion counts N of mixtures.

    Parameters
    ----------
    charges : Charges
        The objective, of which z_0 is the largest rate if it is that of a family, and the limits.
    level : float, default=1
        Level t of an objective that is a ratio, otherwise without effect. The program minimises the numerator
        less t times the denominator. At the least ratio this difference is 0.

    Attributes
    ----------
    cost : ndarray of shape (W × A,)
        The linear part of the objective.
    matrix, bound : ndarray of shape (J, W × A), (J,)
        M and b.
    free : ndarray of shape (J, F)
        f, coefficients of the free variables: one for the objective, and one for each limit.
    statement_of_row : ndarray of int, shape (J,)
        The statement behind each row.

    Raises
    ------
    ValueError
        If no rows count among the objective, or a ratio of rates that may be negative is limited.
    """

    charges: Charges
    level: float = 1.0

    def __post_init__(self) -> None:
        charges = self.charges
        objective = charges.objective
        minimised, *limited = charges.terms
        above_level = minimised.beyond(self.level if objective.rate.is_ratio else 0.0)
        above_level = above_level[minimised.mass > 0] / minimised.scale
        if not len(above_level):
            raise ValueError(
                f"objective: there are no rows that {objective.rate!r} counts among"
            )
        self.cost = above_level[0].ravel()
        rows = []
        if objective.worst:
            self.cost = TIE_PRICE * charges.errors.ravel()
            rows = [ProgramRow(0, rate, -1.0, 0.0) for rate in above_level]
        for number, (limit, terms) in enumerate(zip(charges.limits, limited, strict=True), 1):
            rows += [ProgramRow(number, *row) for row in limit.inequalities(terms)]
        self.statement_of_row = np.array([row.statement for row in rows], int)
        self.matrix = np.reshape([row.coefficients for row in rows], (-1, len(self.cost)))
        self.bound = np.array([row.bound for row in rows])
        self.free = np.zeros((len(rows), len(charges.terms)))
        self.free[range(len(rows)), self.statement_of_row] = [row.free for row in rows]

    def action_costs(self, duals: Floats) -> Floats:
        """Return the action costs of the best answer to shadow prices of the rows, shape (S, A).

        If the rows have costs, each stratum is charged its mean cost: the cost of a new row is not known.
        """
        costs = (self.cost + duals @ self.matrix).reshape(self.charges.errors.shape)
        mean_costs = self.charges.strata.mean_costs
        if mean_costs is None:
            return costs
        of_rows, of_costs = np.split(costs, 2)
        return of_rows + of_costs * mean_costs


class Mixture(NamedTuple):
    """The best mixture of candidates within limits."""

    program: Program  # at its level, if the objective is a ratio
    value: float  # of the program
    duals: Floats  # shape (J,): the shadow prices of the rows
    counts: Floats  # shape (W, A): the confusion counts
    feasible: bool  # whether some mixture of the candidates keeps all limits


@one_blas_thread()  # threads change the last digits of sums, and then other candidates may grow
def solve(counts: Sequence[Floats], program: Program) -> Mixture:
    """Return the best mixture of candidates with these confusion counts.

    Every row may be violated at a price, so a solution always exists. The solution for a ratio at a level
    above the optimum has a lower ratio, so the levels decrease to the optimum (Dinkelbach 1967).
    """
    charges = program.charges
    flat = np.reshape(counts, (len(counts), -1))
    n_rows, n_free = program.free.shape
    is_weight = np.repeat([0.0, 1.0], [n_free + n_rows, len(flat)])
    of_free = np.zeros(n_free)
    of_free[0] = charges.objective.worst  # z_0 is the largest rate
    for _ in range(LEVELS_TRIED):
        solution = linprog(
            np.concatenate([of_free, np.full(n_rows, SLACK_PRICE), flat @ program.cost]),
            A_ub=np.hstack([program.free, -np.eye(n_rows), program.matrix @ flat.T]),
            b_ub=program.bound,
            A_eq=is_weight[None],
            b_eq=[1.0],
            bounds=[(None, None)] * n_free + [(0.0, None)] * (n_rows + len(flat)),
        )
        _, slack, weights = np.split(solution.x, [n_free, n_free + n_rows])
        weights = np.maximum(weights, 0.0)
        mixed = np.tensordot(weights / weights.sum(), counts, axes=1)
        duals = np.maximum(-solution.ineqlin.marginals, 0.0)
        mixture = Mixture(program, solution.fun, duals, mixed, slack.sum() <= SOLVED)
        if not charges.objective.rate.is_ratio:
            break
        level = charges.value(mixed)
        if not abs(level - program.level) > SAME_LEVEL:  # also if the level is unknown
            break
        program = replace(program, level=level)
    return mixture


# -- the search ----------------------------------------------------------------------------------------------


@one_blas_thread()
def first_pool(family: Family, charges: Charges) -> Pool:
    """Return the first candidates for an objective, for any limits.

    These are those of least expected cost and constants. For a largest rate there are also the best ones for
    the subgroup weights of Hedge, which gives more weight to subgroups with larger rates. The overall error
    is a fixed share of the action costs, for each share of `ERROR_SHARES`.
    """
    pool = Pool(family)
    strata = charges.strata
    program = Program(charges)
    error_costs = charges.errors[: len(strata.mass)].copy()
    above_any = 2.0 * error_costs.max()
    error_costs[:, strata.n_classes :] = above_any  # deferral costs more than any error
    duals = np.zeros(len(program.bound))
    plain = program.action_costs(duals)
    # One action for all rows; deferred rows get labels by errors.
    constants = np.where(np.eye(strata.n_actions)[:, None], -above_any, error_costs)
    for costs in [error_costs, plain, *constants]:
        pool.add(family.best(costs))
    if not charges.objective.worst:
        return pool
    of_objective = program.statement_of_row == 0
    for share in ERROR_SHARES:
        losses = np.zeros(of_objective.sum())
        for hedge_round in range(HEDGE_ROUNDS):
            duals[of_objective] = softmax(losses)
            weighted = program.action_costs(duals) - plain
            best = family.best((1.0 - share) * weighted + share * error_costs)
            if hedge_round % 2:  # those of neighbouring rounds are alike
                counts = pool.counts[pool.add(best)]
            else:
                counts = family.counts(best)
            losses += program.matrix[of_objective] @ counts.ravel()
    return pool


def within_budget(pool: Pool, charges: Charges, error_budget: float) -> Charges:
    """Return the charges with the limit of an error budget.

    The budget is the largest increase of the overall error above the error of the most accurate rule. If rows
    may be deferred, only rules within the limits on deferral count.
    """
    caps = [limit for limit in charges.limits if "deferral" in limit.rate.needs]
    of_error = Charges(charges.strata, OVERALL_ERROR, caps)
    select(pool, of_error)  # adds the most accurate candidates
    errors = [
        np.vdot(counts, of_error.errors) for counts in pool.counts if of_error.keeps(counts)
    ]
    most = min(1.0, min(errors, default=1.0) + error_budget)
    return replace(charges, limits=[*charges.limits, error() <= float(most)])


@one_blas_thread()
def select(pool: Pool, charges: Charges) -> int:
    """Return the number of the best candidate within limits, after a search that adds others to the pool.

    That of least expected cost is selected without a search if it keeps all limits, unless the objective is a
    ratio or has costs of rows. For a largest rate it is the best one of the pool within limits on the overall
    error.
    """
    objective = charges.objective
    program = Program(charges)
    if objective.worst:
        # A search is no better on fresh rows. Within budgets of the error it raises the error of the most
        # accurate rule by .003 ± .0025; the largest error of a class changes by .003 ± .009, and the
        # preference-weighted error by .0005 ± .006 (5 tables); without a budget rates change by
        # −.0005 ± .0020, by group by +.010 ± .012 (11 tables).
        on_error = [each for each in charges.limits if each.rate == OVERALL_ERROR.rate]
        number = replace(charges, limits=on_error).best(pool.counts)
        needs_search = False
    else:
        number = pool.add(pool.family.best(program.action_costs(np.zeros(len(program.bound)))))
        # The best rule for a ratio depends on its level; the stratum does not tell the cost of a row.
        needs_search = objective.rate.is_ratio or "costs" in objective.rate.needs
    if not needs_search and charges.keeps(pool.counts[number]):
        return number
    grow(pool, program)
    for start in np.argsort(charges.of(pool.counts), kind="stable")[:STARTS].tolist():
        pool.add(descended(pool.family, charges, pool.candidates[start], pool.counts[start]))
    return charges.best(pool.counts)


def grow(pool: Pool, program: Program) -> Mixture:
    """Add candidates until the best answer to the shadow prices is among them; return their best mixture."""
    for _ in range(ROUNDS):
        mixture = solve(pool.counts, program)
        n_before = len(pool.candidates)
        best = pool.family.best(mixture.program.action_costs(mixture.duals))
        if pool.add(best) < n_before:
            break
    return mixture


# -- limits that contradict each other -----------------------------------------------------------------------


def contradiction(mixture: Mixture, words: str) -> InfeasibleLimitsError:
    """Return the error for contradicting limits; ``words`` are the selection data, for people."""
    charges = mixture.program.charges
    in_conflict = mixture.program.statement_of_row[mixture.duals >= CONFLICT_PRICE]
    conflicting = [
        limit for number, limit in enumerate(charges.limits, 1) if number in in_conflict
    ]
    limits = tuple(conflicting or charges.limits)
    table = RateTable.counted(limits, charges.strata, mixture.counts, words)
    failure = InfeasibleLimitsError(
        f"limits: no rule meets these together on {words}: {'; '.join(map(str, limits))}. "
        f"Reached by the nearest one: {table.broken}"
    )
    failure.limits = limits
    return failure
