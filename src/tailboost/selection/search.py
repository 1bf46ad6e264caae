"""The search for candidates: first ones for an objective, and further ones within limits."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import combinations
from typing import Any

import numpy as np
from scipy.special import softmax

from tailboost.core.array_types import Floats, Ints
from tailboost.core.long_work import one_blas_thread
from tailboost.selection.data import (
    ROWS,
    Candidate,
    Pool,
    SelectionData,
    contrasts,
    expected_costs,
    from_contrasts,
    plain_costs,
)
from tailboost.selection.program import (
    LEAST_WEIGHT,
    MOST_CHARGE,
    SLIGHT,
    SOLVED,
    Best,
    Program,
    best_in_pool,
    charge_of,
    grow,
    number_selected,
    overall_errors,
)
from tailboost.solvers.tradeoff import undominated

# More than the rounding error of a sum of weights.
SUM_ROUNDING = 1e-12
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
# Further searches on the sample, with limits moved so that its best rule keeps the stated ones on all rows.
# On 63 problems of 60,000 to 400,000 rows the error without them was .08 higher in two and .005 in one, and
# one rule broke a limit; with 1 instead of 2 it still did. In 24 calls it was .027 ± .014 higher
# (benchmarks/ablations.py).
CORRECTIONS = 2
# Learning rate of Hedge, its rounds for each share of `ERROR_SHARES`, the rounds between new candidates. 80
# rounds instead of 20 changed the cost by −.0000 ± .0008 (25 tables, 3 splits).
HEDGE_RATE = 1.0
HEDGE_ROUNDS = 20
EVERY = 2
# Shares of the overall error in the action costs. With all five the worst subgroup within budgets is
# .044 ± .026 lower than with one, and .011 ± .010 lower than with two (25 tables, 3 splits). Column
# generation in place of Hedge errs .0037 ± .0021 more; its largest rate is .012 ± .016 lower (13 tables).
ERROR_SHARES = (0.0, 0.5, 0.75, 0.875, 0.9375)


@one_blas_thread
def add_by_hedge(pool: Pool, program: Program) -> None:
    """Add the rules of least cost under the subgroup weights of Hedge, for a largest rate.

    Hedge gives more weight to subgroups with larger rates. The overall error is a fixed share of the action
    costs, for each share of `ERROR_SHARES`.

    Parameters
    ----------
    pool : Pool
        The candidates, which gets these.
    program : Program
        Its objective is a largest rate.
    """
    data = pool.data
    rows = program.matrix[program.limit_of_row == -1]
    costs = program.subgroup_costs
    plain = plain_costs(data)
    for share in ERROR_SHARES:
        losses = np.zeros(len(rows))
        for hedge_round in range(1, HEDGE_ROUNDS + 1):
            weighted = np.tensordot(softmax(HEDGE_RATE * losses), costs, axes=1)
            candidate = Candidate.from_costs((1.0 - share) * weighted + share * plain)
            actions = data.actions(candidate)
            losses = losses + rows @ data.count(actions).ravel()
            if hedge_round % EVERY == 0:
                pool.enter(candidate, actions)


@one_blas_thread
def first_candidates(data: SelectionData, program: Program) -> Pool:
    """Return candidates for an objective, for any limits.

    These are rules of least expected cost and constants. For a largest rate there are also the best rules for
    the subgroup weights of Hedge, with more weight for subgroups with larger rates (`add_by_hedge`).

    Candidates for more than `ROWS` rows are made on a sample. The undominated ones are counted on all rows.

    Parameters
    ----------
    data : selection data
        The rows in memory, or on the workers of a cluster.
    program : Program
        The objective, with limits on deferral if there are any.
    """
    sample = data.thinned(ROWS)
    on_sample = program
    if sample is not data:
        on_sample = program.over(sample.strata)
    pool = Pool(sample)
    always = pool.add_all(
        [Candidate.from_costs(plain_costs(sample)), Candidate.from_costs(on_sample.plain)]
    )
    if program.objective.worst:
        add_by_hedge(pool, on_sample)
    always += pool.constants()
    _add_with_full_deferral(pool, on_sample)
    if sample is data:
        return pool
    values, violations = on_sample.evaluate(pool.all_counts)
    charged = np.where(violations > SLIGHT, values + MOST_CHARGE, values)
    front = undominated(charged, overall_errors(on_sample, pool.all_counts)).tolist()
    on_all = pool.on(data, list(dict.fromkeys([*always, *front])))
    on_all.add(with_full_deferral(on_all, program, pool.candidates[0]))
    return on_all


def best_by_search(
    pool: Pool,
    program: Program,
    *,
    budgeted: bool = False,
    starts: int = STARTS,
) -> Best:
    """Return the selection within limits.

    First the best candidate without limits is tested: the rule of least expected cost or, for a largest rate,
    the best of the pool within the error budget. If it satisfies all limits, it is selected without a search.

    Parameters
    ----------
    pool : Pool
        The candidates so far, which gets further ones if they can help.
    program : Program
        The objective and the limits.
    budgeted : bool, default=False
        Whether the last limit is an error budget.
    starts : int
        Number of candidates at the start of a search.
    """
    # The best rule for a ratio depends on the reached level. Only the growth finds this level.
    is_ratio = program.objective.rate.is_ratio and not program.objective.worst
    if not is_ratio:
        number = _best_without_limits(pool, program, budgeted=budgeted)
        if program.violations(pool.counts[number]).max(initial=0.0) <= SLIGHT:
            return best_in_pool(pool, program, among=[number])

    small = pool.data.thinned(ROWS)
    if small is pool.data:
        return _extend(pool, program, starts)
    return _best_by_sample(pool, program, pool.on(small), starts)


def _best_without_limits(pool: Pool, program: Program, *, budgeted: bool) -> int:
    """Return the number of the best candidate within the limits on deferral and the error budget alone.

    Parameters
    ----------
    pool : Pool
        The candidates, which gets further ones.
    program : Program
        The objective and the limits.
    budgeted : bool
        Whether the last limit is an error budget.
    """
    kept_limits = [limit for limit in program.limits if limit.rate.needs_deferral]
    if budgeted:
        kept_limits.append(program.limits[-1])
    if program.objective.worst:
        return number_selected(pool, program.within(kept_limits))
    if program.objective.rate.needs_costs:
        sweep(pool, program)  # the stratum does not tell the cost of a row
        return number_selected(pool, program.within(kept_limits))
    least_cost = Candidate.from_costs(program.plain)
    return pool.add(with_full_deferral(pool, program, least_cost))


def _best_by_sample(pool: Pool, program: Program, sample: Pool, starts: int) -> Best:
    """Return the best candidate on all rows after a search on a sample.

    If this candidate breaks limits or has a larger objective than on the sample, the search is repeated.
    Then the limits on the sample are moved by the difference between the rates on the sample and on all rows.

    Parameters
    ----------
    pool : Pool
        The candidates counted on all rows, which gets further ones.
    program : Program
        The objective and the limits over all rows.
    sample : Pool
        The same candidates, counted on a sample of the rows.
    starts : int
        Number of candidates at the start of a search.
    """
    on_sample = program.over(sample.data.strata)
    best = _extend(sample, on_sample, starts)
    carried = [int(best.numbers[0]), *map(int, np.flatnonzero(best.solution.weights))]
    number, *_ = pool.add_all([sample.candidates[i] for i in carried])
    pool.add(with_full_deferral(pool, program, pool.candidates[number]))
    best_on_all = best_in_pool(pool, program)
    enough = best.value / on_sample.scale + MOST_EXCESS / 2
    for _ in range(CORRECTIONS):
        if best_on_all.keeps and best_on_all.value / program.scale <= enough:
            break
        sample_number = sample.add(pool.candidates[number])
        on_sample = _with_limits_moved(
            on_sample, program, sample.counts[sample_number], pool.counts[number]
        )
        best = _extend(sample, on_sample, starts)
        selected = sample.candidates[best.numbers[0]]
        number = pool.add(with_full_deferral(pool, program, selected))
        best_on_all = best_in_pool(pool, program)
    return best_on_all


def _with_limits_moved(
    on_sample: Program, program: Program, sample_counts: Floats, all_counts: Floats
) -> Program:
    """Return the program of a sample, with limits moved to stand for the limits on all rows.

    For similar rules, a rate differs by nearly the same amount between a sample and all rows. One rule gives
    this amount, by its confusion counts ``sample_counts`` and ``all_counts``, shape (W, A) each.
    """
    moved = []
    for stated, limit in zip(program.limits, on_sample.limits, strict=True):
        sample_terms = limit.rate.terms(on_sample.strata)
        sample_rates = sample_terms.values(sample_counts)
        all_rates = limit.rate.terms(program.strata).values(all_counts)
        if limit.compares:
            rises = {limit.form: limit.value(all_rates) - limit.value(sample_rates)}
        else:
            differences = (all_rates - sample_rates).tolist()
            rises = dict(zip(sample_terms.names, differences, strict=True))
        moved.append(
            stated.tightened({name: limit.sign * rise for name, rise in rises.items()})
        )
    return on_sample.within(moved)


def _extend(pool: Pool, program: Program, n_starts: int) -> Best:
    """Return the selection after adding candidates by column generation and by search.

    The search is left out if the best
    candidate is nearly as good as the best mixture, or if no mixture keeps the limits.

    Parameters
    ----------
    pool : Pool
        The candidates so far, which gets further ones.
    program : Program
        The objective and the limits over the rows of the pool.
    n_starts : int
        Number of candidates at the start of the search.
    """
    solution = grow(pool, program)
    _add_with_full_deferral(pool, program)
    sweep(pool, program)

    heaviest = np.argsort(-solution.weights, kind="stable")[:n_starts]
    mixed_numbers = [int(i) for i in heaviest if solution.weights[i] > LEAST_WEIGHT]
    _add_between(pool, mixed_numbers, solution.weights)

    best = best_in_pool(pool, program)
    good_value = best.bound / program.scale + MOST_EXCESS
    is_good = best.keeps and best.value / program.scale <= good_value
    is_impossible = bool((best.mixture_violations > SOLVED).any())
    if not (is_good or is_impossible):
        targets = [contrasts(pool.candidates[i].action_costs) for i in mixed_numbers]
        enough = good_value - MOST_EXCESS / 2
        search = LineSearch(pool, program, targets, charge_of(solution), enough)
        for start in search.starts([int(best.numbers[0]), *mixed_numbers[:1]], n_starts):
            search.walk(start)
        best = best_in_pool(pool, program)

    n_before = len(pool.candidates)
    polish(pool, program, int(best.numbers[0]), charge_of(best.solution))
    if len(pool.candidates) == n_before:
        return best
    return best_in_pool(pool, program)


def _add_between(pool: Pool, numbers: Sequence[int], weights: Floats) -> None:
    """Add candidates with action costs between those of each pair of some candidates of a pool.

    The costs lie at a quarter, half and three quarters of the way, and where the mixture weights put them.
    ``numbers`` are these candidates, the one with the largest weight first; ``weights`` are of the pool.
    """
    for heavier, lighter in combinations(numbers, 2):
        weight_of_heavier = float(weights[heavier] / (weights[heavier] + weights[lighter]))
        heavier_costs = pool.candidates[heavier].action_costs
        lighter_costs = pool.candidates[lighter].action_costs
        between = [
            Candidate.from_costs((1 - way) * lighter_costs + way * heavier_costs)
            for way in (weight_of_heavier, 0.25, 0.5, 0.75)
        ]
        pool.add_all(between)


def _add_with_full_deferral(pool: Pool, program: Program) -> None:
    """Add each candidate of a pool with as many deferrals as the limits allow."""
    if program.caps_deferral:
        for candidate in list(pool.candidates):
            pool.add(with_full_deferral(pool, program, candidate))


def with_full_deferral(pool: Pool, program: Program, candidate: Candidate) -> Candidate:
    """Return a candidate with another cost of deferral, for as many deferred rows as the limits allow.

    Rows with the largest gain are deferred first. Answers to shadow prices defer too many or too few rows if
    a small change of a price moves many rows. Without a limit on deferral the candidate is unchanged.

    Parameters
    ----------
    pool : Pool
        Candidates on the rows that are counted.
    program : Program
        Its limits on deferral say how many rows may be deferred.
    candidate : Candidate
        The candidate with the changed cost of deferral.
    """
    if not program.caps_deferral:
        return candidate
    data = pool.data
    if data is not pool.data:
        program = program.over(data.strata)

    K = data.strata.n_classes
    costs = expected_costs(data.probabilities, candidate.action_costs)
    gain = costs[:K].min(axis=0) - costs[K]  # of the deferral of each row
    by_gain = np.argsort(-gain, kind="stable")
    gain = gain[by_gain]
    coefficients, bounds = program.deferral_caps
    by_row = [data.weights * by_stratum[data.stratum] for by_stratum in coefficients]
    deferred = np.cumsum(np.array(by_row)[:, by_gain], axis=1)  # after each row, by limit
    is_allowed = (deferred <= bounds[:, None] + SUM_ROUNDING).all(axis=0)
    n_deferred = int(np.append(is_allowed, False).argmin())
    # Rows of equal gain are deferred together or not at all.
    while 0 < n_deferred < len(gain) and gain[n_deferred - 1] == gain[n_deferred]:
        n_deferred -= 1

    if n_deferred == 0:
        threshold = gain[0] + 1.0
    elif n_deferred == len(gain):
        threshold = gain[-1] - 1.0
    else:
        threshold = (gain[n_deferred - 1] + gain[n_deferred]) / 2.0

    action_costs = candidate.action_costs.copy()
    action_costs[:, K] += threshold
    return Candidate.from_costs(action_costs)


# -- search along lines of action costs; all thresholds on a line are counted at once ----------------------

# Lines from each start; lines without a better rule before the next start; fraction of lines that lead
# towards another candidate. On 500 selections of 18 tables, most with at most two groups, the error plus
# excess on fresh rows was .0004 higher without the search. On 32 selections with five and eight groups it was
# .027 higher (16 higher, 9 lower), because rules within ratios became constants.
LINES = 60
IDLE_LINES = 30
TOWARDS = 0.3
# Thresholds counted on a line of a search, and on a line towards a constant.
PLACES = 80
SWEPT = 256
# The same on the line of one combination of groups, for a single rule, and the most confusion counts at the
# thresholds of a line. Without these lines the error of thresholds by group on fresh rows is higher in each
# of 15 settings, by .0006 to .0047; of ten answers the counts fit noise, and the excess over limits on fresh
# rows is larger (benchmarks/thresholds_by_group.py). Further passes exchange errors for excess.
MOST_THRESHOLDS = 2_000
MOST_CELLS = 2_000_000
MOST_ANSWERS = 3
# The most candidates of least counted cost. On 100,000 rows of a score that is no probability, the error
# within odds gaps was .0001 above the least one, without these candidates .0020. On at most 2,000 rows of 24
# problems such candidates fit noise: the excess over limits on precision was .004 to .016 larger.
DESCENTS = 40
# The least improvement: smaller ones are rounding.
BETTER = 1e-9


def counts_on_line(
    data: SelectionData, costs: Floats, action: int, direction: Floats, max_thresholds: int
) -> tuple[Floats, Floats]:
    """Return thresholds δ and the confusion counts of the rules ``cost of the action + δ · direction``.

    A row changes its action once as δ grows. So the counts at all thresholds are cumulative sums over the
    rows in the order of their changes. If there are more than ``max_thresholds`` thresholds, about half of
    those counted are nearest to 0. If no row changes its action, both arrays are empty.

    Parameters
    ----------
    costs : ndarray of shape (A, n) or (1, n)
        Expected costs of the actions, see `expected_costs`; of two actions their difference.
    action : int
        Number of the action with the changed cost; of two actions always the second.
    direction : ndarray of shape (n,)
        Change of the action's cost in each row for δ = 1.
    max_thresholds : int
        About the largest number of thresholds.

    Returns
    -------
    thresholds : ndarray of shape (T,)
        Ascending.
    counts : ndarray of shape (T, W, A)
    """
    A = data.strata.n_actions
    n = len(direction)
    if A == 2:  # the costs are those of the second action, less those of the first
        action = 1
        alternative = np.zeros(n, dtype=np.intp)
        saving = 0.0 - costs[0]  # of the action, beside its cheapest alternative
    else:
        other_costs = costs.copy()
        other_costs[action] = np.inf
        alternative = other_costs.argmin(axis=0)
        saving = other_costs[alternative, np.arange(n)] - costs[action]
    moves = direction != 0
    # δ at which a row changes its action, and whether it takes the action at smaller δ.
    change = np.where(moves, saving / np.where(moves, direction, 1.0), np.inf)
    takes_first = np.where(moves, direction > 0, saving > 0)
    thresholds = _thresholds_between(np.unique(change[moves]), max_thresholds)
    if not len(thresholds):
        return thresholds, np.zeros((0, len(data.strata.mass), A))

    first_after = np.searchsorted(thresholds, change, side="right")
    first_after[~moves] = len(thresholds)  # beyond the last one: these rows never change
    before = np.where(takes_first, action, alternative)
    after = np.where(takes_first, alternative, action)
    return thresholds, _counts_after_changes(data, before, after, first_after, len(thresholds))


def _counts_after_changes(
    data: SelectionData, before: Ints, after: Ints, first_after: Ints, n_thresholds: int
) -> Floats:
    """Return the confusion counts at each of T thresholds, if each row changes its action once.

    Parameters
    ----------
    before, after : ndarray of int, shape (n,)
        The action of each row below and above the threshold of its change.
    first_after : ndarray of int, shape (n,)
        Number of the first threshold with the action ``after``; T for none.
    n_thresholds : int
        T.

    Returns
    -------
    counts : ndarray of shape (T, W, A)
    """
    n_strata = len(data.strata.mass)
    A = data.strata.n_actions
    size = n_strata * A
    n_cells = (n_thresholds + 1) * size
    cell_before = data.stratum * A + before
    cell_after = data.stratum * A + after
    at_change = first_after * size

    # What an entry adds with either action: its weight and, in the second half of counts, its cost.
    weights = [(data.weights, data.weights)]
    if data.costs is not None:
        rows = np.arange(len(before))
        cost_before = data.weights * data.costs[rows, before]
        cost_after = data.weights * data.costs[rows, after]
        weights.append((cost_before, cost_after))

    counts = []
    for weight_before, weight_after in weights:
        at_first = np.bincount(cell_before, weight_before, size)
        changes = np.bincount(at_change + cell_after, weight_after, n_cells)
        changes -= np.bincount(at_change + cell_before, weight_before, n_cells)
        sums = at_first + changes.reshape(-1, size)[:-1].cumsum(axis=0)
        counts.append(sums.reshape(-1, n_strata, A))
    return np.concatenate(counts, axis=1)


def _thresholds_between(changes: Floats, max_thresholds: int) -> Floats:
    """Return thresholds between ascending numbers, and one below the first and one above the last.

    More than ``max_thresholds`` numbers are thinned: about half of the kept ones are nearest to 0, the others
    evenly spaced. On at most 3,000 rows evenly spaced numbers alone do as well (179 calls,
    benchmarks/ablations.py). With them on 150,000 rows, the error within gaps and ratios was .07 higher in
    two of six calls.
    """
    if not len(changes):
        return np.zeros(0)
    if len(changes) > max_thresholds:
        at_zero = np.searchsorted(changes, 0.0)
        last = len(changes) - 1
        steps = np.geomspace(1, len(changes), max_thresholds // 4).astype(np.intp)
        evenly = np.linspace(0, last, max_thresholds // 2).astype(np.intp)
        ranks = np.concatenate([at_zero + steps - 1, at_zero - steps, evenly])
        changes = changes[np.unique(ranks.clip(0, last))]
    middles = (changes[1:] + changes[:-1]) / 2.0
    return np.concatenate([changes[:1] - 1.0, middles, changes[-1:] + 1.0])


def sweep(pool: Pool, program: Program) -> None:
    """Add the best threshold on each line from the first candidate towards a constant.

    For two classes without groups these lines contain all thresholds on the score.

    Parameters
    ----------
    pool : Pool
        The candidates, which gets further ones.
    program : Program
        The objective and the limits.
    """
    data = pool.data
    action_costs = pool.candidates[0].action_costs
    expected = expected_costs(data.probabilities, action_costs)
    costs = contrasts(action_costs)
    for action in range(len(expected)):
        thresholds, counts = counts_on_line(data, expected, action, np.ones(len(data)), SWEPT)
        if not len(thresholds):
            continue
        value, violation = program.evaluate(counts)
        violation = np.where(violation <= SLIGHT, 0.0, violation)
        best = np.lexsort((value, violation))[0]  # by violation, then by value
        moved = costs.copy()
        moved[:, action] += thresholds[best]
        pool.add(Candidate.from_costs(from_contrasts(moved)))


def polish(pool: Pool, program: Program, number: int, charge: float) -> None:
    """Add a candidate with better thresholds, moved in one combination of groups after the other.

    For group-aware rules of two
    labels without limits on joined groups, no other thresholds keep the limits with a smaller objective.
    Nothing is added for more than `MOST_ANSWERS` actions.

    Parameters
    ----------
    pool : Pool
        The candidates, which gets further ones.
    program : Program
        The objective and the limits.
    number : int
        Number of the candidate at the start.
    charge : float
        Cost of a violation of 1.
    """
    data = pool.data
    if data.strata.n_actions > MOST_ANSWERS:
        return
    n_cells = pool.counts[number].size
    max_thresholds = min(MOST_THRESHOLDS, max(PLACES, MOST_CELLS // n_cells))

    def charged(counts: Floats) -> Floats:
        value, violation = program.evaluate(counts)
        return np.where(violation <= SLIGHT, value, value + charge * violation)

    lines = _lines_by_combination(data)
    pool.add(_moved_along(data, pool.candidates[number], lines, charged, max_thresholds))


Line = tuple[Floats, Floats]
"""A change of the costs of one action: by stratum, shape (S,), and in each row, shape (n,)."""


def _lines_by_combination(data: SelectionData) -> list[Line]:
    """Return a line for each combination of groups: a change of the costs of one action there by 1."""
    n_combinations = data.strata.n_combinations
    combination = np.arange(len(data.probabilities)) % n_combinations  # of each stratum
    lines = []
    for number in range(n_combinations):
        by_stratum = (combination == number).astype(np.float64)
        (by_row,) = expected_costs(data.probabilities, from_contrasts(by_stratum[:, None]))
        lines.append((by_stratum, by_row))
    return lines


def _moved_along(
    data: SelectionData,
    candidate: Candidate,
    lines: Sequence[Line],
    cost_of_counts: Callable[[Floats], Floats],
    max_thresholds: int,
) -> Candidate:
    """Return a candidate after the best move of each action on each line in turn.

    Parameters
    ----------
    data : SelectionData
        The rows in memory.
    candidate : Candidate
        The candidate at the start.
    lines : sequence of Line
        The changes of action costs that are tried.
    cost_of_counts : callable
        Maps confusion counts, shape (T, W, A), to the numbers to be minimised, shape (T,).
    max_thresholds : int
        About the largest number of moves on each line.
    """
    costs = contrasts(candidate.action_costs).copy()
    expected = expected_costs(data.probabilities, candidate.action_costs)
    for by_stratum, by_row in lines:
        for action in range(costs.shape[1]):
            thresholds, counts = counts_on_line(data, expected, action, by_row, max_thresholds)
            if len(thresholds):
                threshold = thresholds[cost_of_counts(counts).argmin()]
                costs[:, action] += threshold * by_stratum
                expected[action] += threshold * by_row
    return Candidate.from_costs(from_contrasts(costs))


@dataclass(eq=False)
class LineSearch:
    """A search for the best rule within limits, on lines of action costs.

    A line changes the costs of one action, in a random direction over strata or towards another candidate.
    The search moves to the rule with the least objective plus ``charge`` times its violation.

    Attributes
    ----------
    pool : Pool
        Gets the best rule within the limits on any line, and each rule to which the search moves.
    program : Program
        The objective, in units of its scale, and the limits.
    target_costs : list of ndarray
        The `contrasts` of the candidates towards which lines may lead.
    charge : float
        The cost of a violation of 1.
    enough : float
        The search ends at this objective.
    best_inside : float
        The least objective within the limits so far.
    """

    pool: Pool
    program: Program
    target_costs: Sequence[Floats]
    charge: float
    enough: float
    rng: np.random.Generator = field(default_factory=partial(np.random.default_rng, 0))
    best_inside: float = np.inf

    def starts(self, first: Sequence[int], n_starts: int) -> list[int]:
        """Return the numbers of the first candidates, and of the best by objective and violations.

        Parameters
        ----------
        first : sequence of int
            Numbers of candidates that come first.
        n_starts : int
            The most numbers.
        """
        values, violations = self.program.evaluate(self.pool.all_counts)
        charged = values + self.charge * violations
        ranked = np.argsort(charged, kind="stable")[:n_starts].tolist()
        return list(dict.fromkeys([*first, *ranked]))[:n_starts]

    def walk(self, start: int) -> None:
        """Search from a candidate by its number, until many lines in turn have no better rule."""
        costs = contrasts(self.pool.candidates[start].action_costs)
        least_charged = np.inf
        idle_lines = 0
        for _ in range(LINES):
            if self.best_inside <= self.enough or idle_lines >= IDLE_LINES:
                return
            idle_lines += 1
            for moved in self._better_on_line(costs, least_charged):
                moved_charged = self._add(moved)
                if moved_charged < least_charged - BETTER:
                    least_charged = moved_charged
                    costs = moved
                    idle_lines = 0

    def _better_on_line(self, costs: Floats, least_charged: float) -> list[Floats]:
        """Return the best rules on a random line through a rule, if better than all before; as `contrasts`.

        They are the rule with the least objective within the limits, and the one with the least charged
        objective.

        Parameters
        ----------
        costs : ndarray
            Action costs of the rule, as `contrasts`.
        least_charged : float
            The least objective so far, with a charge for violations.
        """
        data = self.pool.data
        expected = expected_costs(data.probabilities, from_contrasts(costs))
        action = int(self.rng.integers(costs.shape[1]))
        direction = _direction(costs, self.target_costs, action, self.rng)
        (move,) = expected_costs(data.probabilities, from_contrasts(direction[:, None]))
        thresholds, counts = counts_on_line(data, expected, action, move, PLACES)
        if not len(thresholds):
            return []

        value, violation = self.program.evaluate(counts)
        charged = self._charged(value, violation)
        inside = np.where(violation <= SLIGHT, value, np.inf)
        numbers = []
        if inside.min() < self.best_inside - BETTER:
            numbers.append(int(inside.argmin()))
        if charged.min() < least_charged - BETTER:
            numbers.append(int(charged.argmin()))
        better = []
        for number in dict.fromkeys(numbers):
            moved = costs.copy()
            moved[:, action] += thresholds[number] * direction
            better.append(moved)
        return better

    def _charged(self, value: Any, violation: Any) -> Any:
        """Return the objective plus the charge for the largest violation of a limit."""
        return value + self.charge * np.maximum(violation, 0.0)

    def _add(self, costs: Floats) -> float:
        """Add a rule by its `contrasts`; return its charged objective.

        The rule is counted again: at a threshold of a line, several rows may change.
        """
        number = self.pool.add(Candidate.from_costs(from_contrasts(costs)))
        value, violation = self.program.evaluate(self.pool.counts[number])
        if violation <= SLIGHT:
            self.best_inside = min(self.best_inside, float(value))
        return float(self._charged(value, violation))


def _direction(
    costs: Floats, target_costs: Sequence[Floats], action: int, rng: np.random.Generator
) -> Floats:
    """Return the change of an action's costs along a line, shape (S,): random, or towards target costs.

    Parameters
    ----------
    costs : ndarray of shape (S, A')
        Action costs of the rule at the start, as `contrasts`.
    target_costs : sequence of such arrays
        Action costs of other rules; none for random changes alone.
    action : int
        The action with changed costs.
    rng : Generator
        Draws the change.
    """
    if target_costs and rng.random() < TOWARDS:
        return target_costs[int(rng.integers(len(target_costs)))][:, action] - costs[:, action]
    scale = np.abs(costs[:, action])
    scale = scale + 0.3 * scale.max() + 0.02 * np.abs(costs).max()
    strata_moved = rng.random(len(scale)) < max(0.25, 2.0 / len(scale))
    strata_moved[rng.integers(len(scale))] = True
    return np.where(strata_moved, scale * rng.normal(size=len(scale)), 0.0)
