"""Selection: the only place where candidates are compared."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tailboost.core.array_types import Floats, Ints
from tailboost.core.blas import one_blas_thread
from tailboost.rates import error
from tailboost.selection.candidates import Candidate, Pool, charges, plain_costs
from tailboost.selection.counts import SelectionData, Table
from tailboost.selection.games import play
from tailboost.selection.growth import Growth, grow, solve
from tailboost.selection.program import SLIGHT, Program, mixed
from tailboost.selection.search import search, swept
from tailboost.solvers.tradeoff import undominated

# Candidates with less weight in a mixture have none.
LEAST_SHARE = 1e-6
# A violation costs this, and this much times the shadow prices of the limits, and never more than the last.
CHARGE, CHARGE_PER_PRICE, MOST_CHARGE = 2.0, 2.0, 1e4
# A mixture keeps limits up to the precision of its solver.
SOLVED = 1e-6
# More than the rounding error of a sum of shares.
ROUNDING = 1e-12
# Starts of a search, and by how much a rule may be worse than the best mixture before it is searched for. On
# 98 problems of 7 tables (2 splits) .0005, .005, .01 and no search keep .59, .63, .59 and .73 of the limits
# on fresh rows, with an error of .199, .199, .200 and .214.
STARTS, SHORT = 4, 5e-3
# Rows on which candidates are made.
ROWS = 50_000
# Places between two candidates that are counted on rows elsewhere, from this share of the way on.
STEPS, LEAST_STEP = 24, 1e-3
# Shares of the rows that may be deferred, tried if a rule that was made on some rows defers too many of all.
FILLED_LESS = (1.0, 0.995, 0.99, 0.98, 0.96, 0.93)
# Errors closer than this are equal.
DECIMALS = 12


@dataclass(frozen=True, eq=False)
class Selection:
    """The selected candidates with their mixture weights: usually one candidate."""

    numbers: Ints  # candidates of the pool that have weight
    weights: Floats  # λ, sums to 1
    counts: Floats  # shape (W, A): confusion counts of the rule on the selection data
    value: float  # what is made small
    bound: float  # the least value that a mixture of the pool reaches within the limits
    excesses: Floats  # shape (n_limits,): by how much limits are broken on the selection data
    # Shape (n_limits,): by how much the best mixture breaks them: 0 where a draw keeps what one rule cannot.
    drawn: Floats
    growth: Growth | None  # the solution of the linear program over the pool, where it was solved

    @property
    def gap(self) -> float:
        """By how much a mixture of the pool could be better on the selection data."""
        return max(0.0, self.value - self.bound)

    @property
    def keeps(self) -> bool:
        """Whether all limits hold on the selection data; of a draw up to the precision of its solver."""
        return bool((self.excesses <= (SLIGHT if len(self.numbers) == 1 else SOLVED)).all())


def select(pool: Pool, program: Program, *, randomized: bool = False, among: Sequence[int] = ()) -> Selection:
    """Return the best candidate of a pool within limits, or the best mixture.

    Among candidates that keep all limits on the selection data, the one of least objective is selected; of
    equal ones the one of least overall error. Only where none keeps them, violations are charged.

    Parameters
    ----------
    pool : Pool
        The candidates. They need no action costs.
    program : Program
        Objective and limits.
    randomized : bool
        Whether candidates may share the weight: the rule then draws one for each answer.
    among : sequence of int
        The candidates that may be selected; all by default.
    """
    growth = solve(pool, program)
    program, scale = growth.program, growth.program.scale
    weights = np.where(growth.solved.weights > LEAST_SHARE, growth.solved.weights, 0.0)
    used = np.flatnonzero(weights)
    weights = weights[used] / weights[used].sum()
    counts = mixed(weights, [pool.counts[i] for i in used])
    value, drawn = float(program.judge(counts)[0]) * scale, program.excesses(counts)
    if randomized:
        return Selection(used, weights, counts, value, value, drawn, drawn, growth)
    every = np.array(among or range(len(pool.members)))
    tallies = pool.tallies[every]
    values, excesses = program.judge(tallies)
    keeping = np.flatnonzero(excesses <= SLIGHT)
    if not len(keeping):
        values, keeping = values + charge_of(growth) * excesses, np.arange(len(values))
    errors = overall_errors(program, tallies[keeping]).round(DECIMALS)
    best = int(keeping[np.lexsort((errors, values[keeping].round(DECIMALS)))[0]])
    own, excess = float(program.judge(tallies[best])[0]) * scale, program.excesses(tallies[best])
    bound = min(value, own) if excess.max(initial=0.0) <= SLIGHT else value
    return Selection(every[[best]], np.ones(1), tallies[best], own, bound, excess, drawn, growth)


def overall_errors(program: Program, tallies: Floats) -> Floats:
    """Return the overall error of some confusion counts, shape (T,)."""
    terms = error().terms(program.strata)
    found: Floats = np.tensordot(tallies, terms.linear[0], axes=2)
    return found


def charge_of(growth: Growth) -> float:
    """Return the cost of breaking a limit by 1: more than its shadow price."""
    return min(CHARGE + CHARGE_PER_PRICE * float(growth.solved.duals.sum()), MOST_CHARGE)


@one_blas_thread
def seeded(table: SelectionData, program: Program) -> Pool:
    """Return the candidates of an objective whatever the limits: plain answers, constants, Hedge's answers.

    On more than `ROWS` rows they are made on some of them, and those that no other dominates there are
    counted on all rows.
    """
    small = table.at_hand.thinned(ROWS)
    pool, over = Pool(small), program if small is table else program.over(small.strata)
    plain = [
        pool.add(Candidate.of(0, prices))
        for prices in (plain_costs(small), over.prices(np.zeros(len(over.of))))
    ]
    if program.objective.worst:
        play(pool, over)
    plain += pool.constants()
    if len(program.caps[1]):
        for number in range(len(pool.members)):
            pool.add(filled(small, over, pool.members[number]))
    if small is table:
        return pool
    value, excess = over.judge(pool.tallies)
    front = undominated(
        np.where(excess > SLIGHT, value + MOST_CHARGE, value), overall_errors(over, pool.tallies)
    )
    found = pool.on(table, list(dict.fromkeys([*plain, *front.tolist()])))
    _filled(found, program, pool.members[0])
    return found


def within_budget(pool: Pool, program: Program, error_budget: float | None) -> Program:
    """Return the program with the limit of an error budget.

    The overall error may be that of the most accurate candidate plus the budget. Where rows may be deferred,
    the most accurate one is of those that keep the limits on deferral.
    """
    if error_budget is None:
        return program
    caps = [limit for limit in program.limits if limit.rate.needs_deferral]
    _, excess = program.within(caps).judge(pool.tallies)
    errors = overall_errors(program, pool.tallies)
    least = float(errors[excess <= max(SLIGHT, float(excess.min()))].min())
    return program.within((*program.limits, error() <= min(1.0, least + error_budget)))


def selected(pool: Pool, program: Program, *, randomized: bool = False, budgeted: bool = False) -> Selection:
    """Select within limits, adding candidates to the pool where that can help.

    Where the best candidate without limits keeps them all, it is selected: a limit that changes nothing adds
    no candidate. Without limits that is the answer of least expected cost or, for a largest rate, the best of
    the pool within the error budget.

    Parameters
    ----------
    pool : Pool
        The candidates, see `seeded`; others may join.
    program : Program
        Objective and limits.
    randomized : bool
        Whether candidates may share the weight.
    budgeted : bool
        Whether the last limit is an error budget.
    """
    if not randomized or not (program.objective.worst or program.limits):
        # With nothing to keep one rule is best, and a draw of several would gain by chance alone.
        n_own = len(program.limits) - budgeted
        light = [limit for i, limit in enumerate(program.limits) if i >= n_own or limit.rate.needs_deferral]
        free = [int(select(pool, program.within(light)).numbers[0])]
        if not program.objective.worst and program.objective.rate.needs_costs:
            swept(pool, program, 0)  # what a row costs is not known from its stratum
            free = [int(select(pool, program.within(light)).numbers[0])]
        elif not program.objective.worst:  # the answer of least expected cost
            free = _filled(pool, program, Candidate.of(0, program.prices(np.zeros(len(program.of)))))
        found = select(pool, program, among=free)
        if found.keeps:
            return found
    small = pool.table.at_hand.thinned(ROWS)
    some = pool if small is pool.table else pool.on(small)
    over = program if some is pool else program.over(small.strata)
    _extend(some, over, randomized=randomized)
    if some is not pool:
        own = select(some, over)
        assert own.growth is not None
        carried = [int(own.numbers[0]), *map(int, np.flatnonzero(own.growth.solved.weights))]
        number, *towards = pool.add_all([some.members[i] for i in carried])
        if not randomized:
            _refine(pool, program, number, towards)
    return select(pool, program, randomized=randomized)


def _extend(pool: Pool, program: Program, *, randomized: bool) -> None:
    """Add candidates for a program to a pool: by column generation and, of one rule, by search."""
    growth = grow(pool, program)
    if randomized:
        return
    for number in range(len(pool.members) if len(program.caps[1]) else 0):
        pool.add(filled(pool.table.at_hand, program, pool.members[number]))
    swept(pool, program, 0)
    largest = np.argsort(-growth.solved.weights, kind="stable")[:STARTS]
    towards = [int(i) for i in largest if growth.solved.weights[i] > LEAST_SHARE]
    _between(pool, towards, growth.solved.weights)
    found = select(pool, program)
    enough = found.bound / program.scale + SHORT
    if (found.keeps and found.value / program.scale <= enough) or (found.drawn > SOLVED).any():
        return
    charge = charge_of(growth)
    values, excesses = program.judge(pool.tallies)
    ranked = np.argsort(values + charge * excesses, kind="stable")[:STARTS].tolist()
    starts = dict.fromkeys([int(found.numbers[0]), *towards[:1], *ranked])
    search(pool, program, list(starts)[:STARTS], towards, charge, enough - SHORT / 2)


def _towards(first: Candidate, ends: Sequence[Candidate]) -> list[Candidate]:
    """Return candidates whose action costs lie between those of one and of each of the others."""
    places = np.geomspace(LEAST_STEP, 1.0, STEPS).tolist()
    return [Candidate.of(0, (1 - t) * first.prices + t * end.prices) for end in ends for t in places]


def _filled(pool: Pool, program: Program, chosen: Candidate) -> list[int]:
    """Add a candidate, with a cost at which about as many rows are deferred as may be."""
    if not len(program.caps[1]):
        return [pool.add(chosen)]
    table = pool.table.at_hand
    whole, shares = (program, (1.0,)) if table is pool.table else (program.over(table.strata), FILLED_LESS)
    return pool.add_all([filled(table, whole, chosen, share) for share in shares])


def _refine(pool: Pool, program: Program, number: int, towards: Sequence[int]) -> None:
    """Add candidates near one that keeps limits on some of the rows, but not quite on all.

    Parameters
    ----------
    pool : Pool
        Candidates on all rows.
    program : Program
        The problem on all rows.
    number : int
        The candidate that is best on these.
    towards : sequence of int
        Other good candidates.
    """
    chosen = pool.members[number]
    _filled(pool, program, chosen)
    if program.excesses(pool.counts[number]).max(initial=0.0) > SLIGHT:
        ends = dict.fromkeys([*towards, *pool.constants()])
        pool.add_all(_towards(chosen, [pool.members[i] for i in ends if i != number]))


def _between(pool: Pool, ends: Sequence[int], weights: Floats) -> None:
    """Add candidates whose action costs lie between those of others."""
    for i, one in enumerate(ends):
        for other in ends[i + 1 :]:
            mixing = float(weights[one] / (weights[one] + weights[other]))
            for t in (mixing, 0.25, 0.5, 0.75):
                prices = t * pool.members[one].prices + (1 - t) * pool.members[other].prices
                pool.add(Candidate.of(0, prices))


def filled(table: Table, program: Program, member: Candidate, share: float = 1.0) -> Candidate:
    """Return the candidate with a cost of deferral at which as many rows are deferred as may be.

    With a ``share`` below 1 only that share of the rows that may be deferred is.

    It defers those rows first by which it gains most. Candidates that answer shadow prices defer too many or
    too few where a small change of a price moves many rows.
    """
    K, (caps, most) = table.strata.n_classes, program.caps
    charged = charges(table.beliefs[member.source], member.prices)
    gain = charged[:K].min(axis=0) - charged[K]
    order = np.argsort(-gain, kind="stable")
    spent = np.cumsum(table.share[order] * caps[:, table.stratum[order]], axis=1)
    kept = (spent <= share * most[:, None] + ROUNDING).all(axis=0)
    first = len(order) if kept.all() else int(kept.argmin())
    ordered = gain[order]
    # Rows of equal gain are deferred together or not at all.
    last = first - 1
    while 0 <= last < len(order) - 1 and ordered[last] == ordered[last + 1]:
        last -= 1
    ends = (ordered[max(last, 0)], ordered[min(last + 1, len(order) - 1)])
    between = ends[0] + 1.0 if last < 0 else ends[1] - 1.0 if last == len(order) - 1 else sum(ends) / 2.0
    prices = member.prices.copy()
    prices[:, K] += between
    return Candidate.of(member.source, prices)
