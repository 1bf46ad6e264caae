"""The search for candidates: first ones for an objective, and further ones within limits."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
from scipy.special import softmax

from tailboost.core.array_types import Floats
from tailboost.core.long_work import one_blas_thread
from tailboost.selection.data import (
    ROWS,
    AnySelectionData,
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
    Solution,
    best_in_pool,
    charge_of,
    grow,
    number_selected,
    overall_errors,
    solve,
)
from tailboost.solvers.tradeoff import undominated

# More than the rounding error of a sum of weights.
ROUNDING = 1e-12
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
# Number of interpolated candidates between two candidates, for more than `ROWS` rows of selection data.
# Without them one limit of 38 fewer held on all rows, and the objective was .010 ± .010 higher.
STEPS = 24
# Further searches on the sample, with limits moved so that its best rule keeps the stated ones on all rows.
# On 63 problems of 60,000 to 400,000 rows the error without them was .08 higher in two and .005 in one, and
# one rule broke a limit; with 1 instead of 2 it still did.
CORRECTIONS = 2
# Learning rate of Hedge, its rounds for each share of `ERROR_SHARES`, the rounds between new candidates. 80
# rounds instead of 20 changed the cost by −.0000 ± .0008 (25 tables, 3 splits).
HEDGE_RATE = 1.0
HEDGE_ROUNDS = 20
EVERY = 2
# Shares of the overall error in the action costs. With all five the worst subgroup within budgets is
# .044 ± .026 lower than with one, and .011 ± .010 lower than with two (25 tables, 3 splits).
ERROR_SHARES = (0.0, 0.5, 0.75, 0.875, 0.9375)


@one_blas_thread
def add_by_hedge(pool: Pool, program: Program) -> None:
    """Add the rules of least cost under the subgroup weights of Hedge, for a largest rate.

    Hedge gives more weight to subgroups with larger rates. The overall error is a fixed share of the action
    costs, for each share of `ERROR_SHARES`.
    """
    data = pool.data.in_memory
    rows = program.matrix[program.limit_of_row == -1]
    costs = program.subgroup_costs
    plain = plain_costs(data)
    for share in ERROR_SHARES:
        losses: Floats = np.zeros(len(rows))
        for t in range(HEDGE_ROUNDS):
            weighted = np.tensordot(softmax(HEDGE_RATE * losses), costs, axes=1)
            candidate = Candidate.of((1.0 - share) * weighted + share * plain)
            actions = data.actions(candidate)
            losses = losses + rows @ data.count(actions).ravel()
            if t % EVERY == EVERY - 1:
                pool.enter(candidate, actions)


@one_blas_thread
def first_candidates(data: AnySelectionData, program: Program) -> Pool:
    """Return candidates for an objective, for any limits.

    These are rules of least expected cost and constants. For a largest rate there are also the best rules for
    the subgroup weights of Hedge, an algorithm that gives more weight to subgroups with larger rates.

    If there are more than `ROWS` rows, candidates are made on a sample. The undominated ones are counted on
    all rows.
    """
    small = data.in_memory.thinned(ROWS)
    pool = Pool(small)
    over = program
    if small is not data:
        over = program.over(small.strata)
    plain = pool.add_all([Candidate.of(plain_costs(small)), Candidate.of(over.plain)])
    if program.objective.worst:
        add_by_hedge(pool, over)
    plain += pool.constants()
    for number in range(len(pool.candidates) if len(program.caps[1]) else 0):
        pool.add(filled(pool, over, pool.candidates[number]))
    if small is data:
        return pool
    value, violation = over.evaluate(pool.all_counts)
    front = undominated(
        np.where(violation > SLIGHT, value + MOST_CHARGE, value),
        overall_errors(over, pool.all_counts),
    )
    on_all = pool.on(data, list(dict.fromkeys([*plain, *front.tolist()])))
    on_all.add(filled(on_all, program, pool.candidates[0]))
    return on_all


def best_by_search(
    pool: Pool,
    program: Program,
    *,
    randomized: bool = False,
    budgeted: bool = False,
    starts: int = STARTS,
) -> Best:
    """Select within limits, and add candidates to the pool if they can help.

    If the best candidate without limits satisfies all limits, it is selected, and no candidate is added.
    Without limits, the best candidate is the rule of least expected cost or, for a largest rate, the best of
    the pool within the error budget. The last limit is an error budget if ``budgeted``. ``starts`` is the
    number of candidates at the start of a search.
    """
    # The best rule for a ratio depends on the reached level. Only the growth finds this level.
    is_ratio = program.objective.rate.is_ratio and not program.objective.worst
    if not is_ratio and (not randomized or not (program.objective.worst or program.limits)):
        # Without limits one rule is best: a mixture would gain by chance alone.
        n_stated = len(program.limits) - budgeted
        light = [
            limit
            for i, limit in enumerate(program.limits)
            if i >= n_stated or limit.rate.needs_deferral
        ]
        if program.objective.worst:
            free = number_selected(pool, program.within(light))
        elif program.objective.rate.needs_costs:
            sweep(pool, program, 0)  # the stratum does not tell the cost of a row
            free = number_selected(pool, program.within(light))
        else:  # the rule of least expected cost
            free = pool.add(filled(pool, program, Candidate.of(program.plain)))
        if program.violations(pool.counts[free]).max(initial=0.0) <= SLIGHT:
            return best_in_pool(pool, program, among=[free])
    small = pool.data.in_memory.thinned(ROWS)
    if small is pool.data:
        return _extend(pool, program, starts, randomized=randomized)
    sample = pool.on(small)
    over = program.over(small.strata)
    best = _extend(sample, over, starts, randomized=randomized)
    if randomized:
        # The limits on all rows need other candidates than those on the sample.
        descend(sample, over, best.solution)
        pool.add_all(sample.candidates)
        return best_in_pool(pool, program, randomized=True)
    carried = [int(best.numbers[0]), *map(int, np.flatnonzero(best.solution.weights))]
    number, *towards = pool.add_all([sample.candidates[i] for i in carried])
    _refine(pool, program, number, towards)
    found = best_in_pool(pool, program)
    enough = best.value / over.scale + MOST_EXCESS / 2
    for _ in range(CORRECTIONS):
        if found.keeps and found.value / program.scale <= enough:
            break
        of_sample = sample.add(pool.candidates[number])
        over = _as_on_all(over, program, sample.counts[of_sample], pool.counts[number])
        best = _extend(sample, over, starts, randomized=False)
        number = pool.add(filled(pool, program, sample.candidates[int(best.numbers[0])]))
        found = best_in_pool(pool, program)
    return found


def _as_on_all(over: Program, program: Program, of_sample: Floats, on_all: Floats) -> Program:
    """Return the program of a sample, with limits moved so that they are right for all rows.

    A rate of similar rules differs by nearly the same amount on a sample and on all rows: by the amount of
    one rule, whose counts on both are given.
    """
    moved = []
    for stated, limit in zip(program.limits, over.limits, strict=True):
        names = limit.rate.terms(over.strata).names
        here = limit.rate.terms(over.strata).values(of_sample)
        there = limit.rate.terms(program.strata).values(on_all)
        if limit.compares:
            more = {limit.form: limit.value(there) - limit.value(here)}
        else:
            more = dict(zip(names, (there - here).tolist(), strict=True))
        sign = 1.0 if limit.from_above else -1.0
        moved.append(stated.tightened({name: sign * value for name, value in more.items()}))
    return over.within(moved)


def _extend(pool: Pool, program: Program, n_starts: int, *, randomized: bool) -> Best:
    """Select after adding candidates by column generation and, for a single rule, by search."""
    solution = grow(pool, program)
    if randomized:
        return best_in_pool(pool, program, randomized=True)
    for number in range(len(pool.candidates) if len(program.caps[1]) else 0):
        pool.add(filled(pool, program, pool.candidates[number]))
    sweep(pool, program, 0)
    weights = solution.weights
    largest = np.argsort(-weights, kind="stable")[:n_starts]
    towards = [int(i) for i in largest if weights[i] > LEAST_WEIGHT]
    for i, one in enumerate(towards):
        for other in towards[i + 1 :]:
            mixing = float(weights[one] / (weights[one] + weights[other]))
            pool.add_all(_between(pool, other, one, (mixing, 0.25, 0.5, 0.75)))
    best = best_in_pool(pool, program)
    enough = best.bound / program.scale + MOST_EXCESS
    if (best.keeps and best.value / program.scale <= enough) or (
        best.mixture_violations > SOLVED
    ).any():
        return best
    charge = charge_of(solution)
    values, violations = program.evaluate(pool.all_counts)
    ranked = np.argsort(values + charge * violations, kind="stable")[:n_starts].tolist()
    starts = dict.fromkeys([int(best.numbers[0]), *towards[:1], *ranked])
    before = len(pool.candidates)
    search(pool, program, list(starts)[:n_starts], towards, charge, enough - MOST_EXCESS / 2)
    if len(pool.candidates) == before:
        return best
    return best_in_pool(pool, program)


def _between(pool: Pool, first: int, last: int, places: Sequence[float]) -> list[Candidate]:
    """Return candidates with action costs between those of two others, at places from 0 to 1."""
    one = pool.candidates[first].action_costs
    other = pool.candidates[last].action_costs
    return [Candidate.of((1 - t) * one + t * other) for t in places]


def _refine(pool: Pool, program: Program, number: int, towards: Sequence[int]) -> None:
    """Add candidates between the best one of a sample, which may violate limits on all rows, and others."""
    pool.add(filled(pool, program, pool.candidates[number]))
    if program.violations(pool.counts[number]).max(initial=0.0) > SLIGHT:
        places = np.geomspace(1e-3, 1.0, STEPS).tolist()
        between = list[Candidate]()
        for end in dict.fromkeys([*towards, *pool.constants()]):
            if end != number:
                between += _between(pool, number, end, places)
        pool.add_all(between)


def filled(pool: Pool, program: Program, candidate: Candidate) -> Candidate:
    """Return a candidate with the cost of deferral at which as many rows are deferred as the limits allow.

    The rows that gain most are deferred first. Answers to shadow prices defer too many or too few rows if a
    small change of a price moves many rows. Without a limit on deferral the candidate is returned unchanged.
    """
    if not len(program.caps[1]):
        return candidate
    data = pool.data.in_memory
    if data is not pool.data:
        program = program.over(data.strata)
    K = data.strata.n_classes
    caps, most = program.caps
    costs = expected_costs(data.probabilities, candidate.action_costs)
    gain = costs[:K].min(axis=0) - costs[K]
    order = np.argsort(-gain, kind="stable")
    of_row = [data.by_row(data.weights * cap[data.stratum]) for cap in caps]
    spent = np.cumsum(np.array(of_row)[:, order], axis=1)
    inside = (spent <= most[:, None] + ROUNDING).all(axis=0)
    ordered = gain[order]
    last = int(np.append(inside, False).argmin()) - 1
    # Rows of equal gain are deferred together or not at all.
    while 0 <= last < len(order) - 1 and ordered[last] == ordered[last + 1]:
        last -= 1
    ends = (ordered[max(last, 0)], ordered[min(last + 1, len(order) - 1)])
    if last < 0:
        threshold = ends[0] + 1.0
    elif last == len(order) - 1:
        threshold = ends[1] - 1.0
    else:
        threshold = sum(ends) / 2.0
    action_costs = candidate.action_costs.copy()
    action_costs[:, K] += threshold
    return Candidate.of(action_costs)


# -- search along lines of action costs; all thresholds on a line are counted at once ----------------------

# Lines from each start; lines without a better rule before the next start; fraction of lines that lead
# towards another candidate.
LINES = 60
IDLE_LINES = 30
TOWARDS = 0.3
# Thresholds counted on a line of a search, and on a line towards a constant.
PLACES = 80
SWEPT = 256
# The most candidates of least counted cost. On 100,000 rows of a score that is no probability, the error
# within odds gaps was .0001 above the least one, without these candidates .0020. On at most 2,000 rows of 24
# problems such candidates fit noise: the excess over limits on precision was .004 to .016 larger.
DESCENTS = 40
# The least improvement that counts as one.
BETTER = 1e-9


def line(
    data: SelectionData, costs: Floats, action: int, direction: Floats, most: int
) -> tuple[Floats, Floats]:
    """Return thresholds δ and the confusion counts of the rules ``cost of the action + δ · direction``.

    A row changes its action once as δ grows. So the counts at all thresholds are cumulative sums over the
    rows in the order of their changes. If there are more than ``most`` thresholds, about half of those
    counted are nearest to 0.

    Parameters
    ----------
    costs : ndarray of shape (A, n) or (1, n)
        Expected costs of the actions, see `expected_costs`; of two actions their difference.
    direction : ndarray of shape (n,)
        Change of the action's cost in each row for δ = 1.

    Returns
    -------
    places : ndarray of shape (T,)
    counts : ndarray of shape (T, W, A)
    """
    n = costs.shape[1]
    n_strata = len(data.strata.mass)
    A = data.strata.n_actions
    if len(costs) == 1:  # the difference of two actions
        action = 1
        cost = costs[0]
        other = np.zeros(n, dtype=np.intp)
        against = np.zeros(n)
    else:
        cost = costs[action]
        others = costs.copy()
        others[action] = np.inf
        other = others.argmin(axis=0)
        against = others[other, np.arange(n)]
    moves = direction != 0
    at = np.where(moves, (against - cost) / np.where(moves, direction, 1.0), np.inf)
    takes = np.where(moves, direction > 0, cost < against)  # at the least δ
    places = _places_between(np.unique(at[moves]), most)
    if not len(places):
        return places, np.zeros((0, n_strata, A))
    # The first threshold at which a row has changed.
    changed = np.searchsorted(places, at, side="right")
    changed[~moves] = len(places)
    weights = [(data.weights, data.weights)]
    if data.costs is not None:
        paid = data.costs[:, action], data.costs[np.arange(n), other]
        if_taken, if_not = (data.weights * data.by_entry(each) for each in paid)
        weights.append((if_taken, if_not))
    other, takes, changed = (data.by_entry(each) for each in (other, takes, changed))
    size = n_strata * A
    cell = data.stratum * A
    sign = np.where(takes, -1.0, 1.0)
    counts = []
    for if_taken, if_not in weights:
        first = np.bincount(
            cell + np.where(takes, action, other), np.where(takes, if_taken, if_not), size
        )
        start = changed * size + cell
        n_cells = (len(places) + 1) * size
        changes = np.bincount(start + action, sign * if_taken, n_cells)
        changes -= np.bincount(start + other, sign * if_not, n_cells)
        sums: Floats = first + changes.reshape(-1, size)[:-1].cumsum(axis=0)
        counts.append(sums.reshape(-1, n_strata, A))
    return places, np.concatenate(counts, axis=1)


def _places_between(ends: Floats, most: int) -> Floats:
    """Return thresholds between ascending numbers, and beyond the first and the last.

    Of more than ``most`` numbers, about half of those taken are nearest to 0.
    """
    if not len(ends):
        return np.zeros(0)
    if len(ends) > most:
        here = np.searchsorted(ends, 0.0)
        last = len(ends) - 1
        steps = np.geomspace(1, len(ends), most // 4).astype(np.intp)
        spread = np.linspace(0, last, most // 2).astype(np.intp)
        ranks = np.concatenate([here + steps - 1, here - steps, spread])
        ends = ends[np.unique(ranks.clip(0, last))]
    return np.concatenate([ends[:1] - 1.0, (ends[1:] + ends[:-1]) / 2.0, ends[-1:] + 1.0])


def sweep(pool: Pool, program: Program, number: int) -> None:
    """Add the best threshold on each line from a candidate towards a constant.

    For two classes without groups these lines contain all thresholds on the score.
    """
    data = pool.data.in_memory
    candidate = pool.candidates[number]
    expected = expected_costs(data.probabilities, candidate.action_costs)
    costs = contrasts(candidate.action_costs)
    for action in range(len(expected)):
        places, counts = line(data, expected, action, np.ones(len(data)), SWEPT)
        if not len(places):
            continue
        value, violation = program.evaluate(counts)
        best = int(np.lexsort((value, np.where(violation <= SLIGHT, 0.0, violation)))[0])
        moved = costs.copy()
        moved[:, action] += places[best]
        pool.add(Candidate.of(from_contrasts(moved)))


def descend(pool: Pool, program: Program, solution: Solution) -> None:
    """Add candidates of least counted cost under the shadow prices, until they improve the mixture no more.

    Column generation takes the rule of least expected cost. This is not the rule of least counted cost if the
    stratum probabilities are wrong, as for a score that is no probability. Here thresholds are counted: a
    line moves the cost of one action for one combination of groups.
    """
    data = pool.data.in_memory
    combinations = np.arange(len(data.probabilities)) % data.strata.n_combinations
    directions = [
        (combinations == g).astype(np.float64) for g in range(data.strata.n_combinations)
    ]
    moves = [
        expected_costs(data.probabilities, from_contrasts(each[:, None]))[0]
        for each in directions
    ]
    for _ in range(DESCENTS):
        priced = solution.program
        before = len(pool.candidates)
        costs = contrasts(pool.candidates[int(solution.weights.argmax())].action_costs).copy()
        reduced = priced.cost + solution.duals @ priced.matrix
        for direction, moved in zip(directions, moves, strict=True):
            for action in range(costs.shape[1]):
                expected = expected_costs(data.probabilities, from_contrasts(costs))
                places, counts = line(data, expected, action, moved, SWEPT)
                if len(places):
                    best = int((counts.reshape(len(counts), -1) @ reduced).argmin())
                    costs[:, action] += places[best] * direction
        pool.add(Candidate.of(from_contrasts(costs)))
        if len(pool.candidates) == before:
            return
        value = solution.value
        solution = solve(pool.counts, program)
        if value - solution.value <= BETTER:
            return


def search(
    pool: Pool,
    program: Program,
    starts: Iterable[int],
    towards: Sequence[int],
    charge: float,
    enough: float,
) -> None:
    """Add the best rule within the limits on lines of action costs that begin at some candidates.

    A line changes the costs of one action, in a random direction over strata or towards another candidate.
    The search moves to the rule with the least objective plus ``charge`` times its violation. The best rule
    within the limits on any line is added, and the last rule from each start. The search ends at the
    objective ``enough``.
    """
    data = pool.data.in_memory
    rng = np.random.default_rng(0)
    best_inside = np.inf
    probabilities = data.probabilities
    ends = [contrasts(pool.candidates[i].action_costs) for i in towards]
    for start in starts:
        costs = contrasts(pool.candidates[start].action_costs).copy()
        expected = expected_costs(probabilities, from_contrasts(costs))
        reached = np.inf
        idle = 0
        for _ in range(LINES):
            if best_inside <= enough or idle >= IDLE_LINES:
                break
            idle += 1
            action = int(rng.integers(costs.shape[1]))
            direction = _direction(costs, ends, action, rng)
            moved = expected_costs(probabilities, from_contrasts(direction[:, None]))[0]
            places, counts = line(data, expected, action, moved, PLACES)
            if not len(places):
                continue
            value, violation = program.evaluate(counts)
            inside = np.where(violation <= SLIGHT, value, np.inf)
            charged = value + charge * np.maximum(violation, 0.0)
            for best, better in ((int(inside.argmin()), inside.min() < best_inside - BETTER),
                                 (int(charged.argmin()), charged.min() < reached - BETTER)):  # fmt: skip
                if not better:
                    continue
                new = costs.copy()
                new[:, action] += places[best] * direction
                number = pool.add(Candidate.of(from_contrasts(new)))
                # Counted again: several rows may change at the same threshold.
                value_there, violation_there = program.evaluate(pool.counts[number])
                if violation_there <= SLIGHT:
                    best_inside = min(best_inside, float(value_there))
                charged_there = float(value_there + charge * max(float(violation_there), 0.0))
                if charged_there < reached - BETTER:
                    reached = charged_there
                    costs = new
                    idle = 0
            expected = expected_costs(probabilities, from_contrasts(costs))
        if best_inside <= enough:
            break


def _direction(
    costs: Floats, ends: Sequence[Floats], action: int, rng: np.random.Generator
) -> Floats:
    """Return the change of an action's costs along a line, shape (S,)."""
    if ends and rng.random() < TOWARDS:
        towards: Floats = ends[int(rng.integers(len(ends)))][:, action] - costs[:, action]
        return towards
    size = np.abs(costs[:, action])
    size = size + 0.3 * size.max() + 0.02 * np.abs(costs).max()
    some = rng.random(len(size)) < max(0.25, 2.0 / len(size))
    some[rng.integers(len(size))] = True
    return np.where(some, size * rng.normal(size=len(size)), 0.0)
