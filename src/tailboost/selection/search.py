"""Search for one candidate along lines of action costs; all thresholds on a line are counted at once."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from tailboost.core.array_types import Floats
from tailboost.selection.data import Candidate, Pool, SelectionData, contrasts, expected_costs, from_contrasts
from tailboost.selection.program import SLIGHT, Program, Solution, solve

# Lines from each start; lines without a better rule before the next start; fraction of lines that lead
# towards another candidate.
LINES, IDLE_LINES, TOWARDS = 60, 30, 0.3
# Thresholds counted on a line of a search, and on a line towards a constant.
PLACES, SWEPT = 80, 256
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
    n, n_strata, A = costs.shape[1], len(data.strata.mass), data.strata.n_actions
    if len(costs) == 1:
        to, other, against = 1, np.zeros(n, dtype=np.intp), np.zeros(n)
    else:
        others = costs.copy()
        others[action] = np.inf
        to, other = action, others.argmin(axis=0)
        against = others[other, np.arange(n)]
    moves = direction != 0
    at = np.where(moves, (against - costs[action]) / np.where(moves, direction, 1.0), np.inf)
    takes = np.where(moves, direction > 0, costs[action] < against)  # at the least δ
    ends = np.unique(at[moves])
    if len(ends) > most:
        here, last = np.searchsorted(ends, 0.0), len(ends) - 1
        steps = np.geomspace(1, len(ends), most // 4).astype(np.intp)
        ranks = np.concatenate(
            [here + steps - 1, here - steps, np.linspace(0, last, most // 2).astype(np.intp)]
        )
        ends = ends[np.unique(ranks.clip(0, last))]
    if not len(ends):
        return np.zeros(0), np.zeros((0, n_strata, A))
    places = np.concatenate([ends[:1] - 1.0, (ends[1:] + ends[:-1]) / 2.0, ends[-1:] + 1.0])
    place = np.searchsorted(places, at, side="right")  # the first threshold at which a row has changed
    place[~moves] = len(places)
    size, cell = n_strata * A, data.stratum * A
    paid = None if data.costs is None else (data.costs[:, to], data.costs[np.arange(n), other])
    other, takes, place = (data.by_entry(each) for each in (other, takes, place))

    def summed(if_taken: Floats, if_not: Floats) -> Floats:
        first = np.bincount(cell + np.where(takes, to, other), np.where(takes, if_taken, if_not), size)
        sign = np.where(takes, -1.0, 1.0)
        changes = np.bincount(place * size + cell + to, sign * if_taken, (len(places) + 1) * size)
        changes -= np.bincount(place * size + cell + other, sign * if_not, (len(places) + 1) * size)
        sums: Floats = first + changes.reshape(-1, size)[:-1].cumsum(axis=0)
        return sums.reshape(-1, n_strata, A)

    counts = [summed(data.weights, data.weights)]
    if paid is not None:
        counts.append(summed(*(data.weights * data.by_entry(each) for each in paid)))
    return places, np.concatenate(counts, axis=1)


def sweep(pool: Pool, program: Program, number: int) -> None:
    """Add the best threshold on each line from a candidate towards a constant.

    For two classes without groups these lines contain all thresholds on the score.
    """
    data, candidate = pool.data.in_memory, pool.candidates[number]
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
    directions = [(combinations == g).astype(np.float64) for g in range(data.strata.n_combinations)]
    moves = [expected_costs(data.probabilities, from_contrasts(each[:, None]))[0] for each in directions]
    for _ in range(DESCENTS):
        priced, before = solution.program, len(pool.candidates)
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
        value, solution = solution.value, solve(pool, program)
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
    data, rng, best_inside = pool.data.in_memory, np.random.default_rng(0), np.inf
    probabilities = data.probabilities
    ends = [contrasts(pool.candidates[i].action_costs) for i in towards]
    for start in starts:
        costs = contrasts(pool.candidates[start].action_costs).copy()
        expected = expected_costs(probabilities, from_contrasts(costs))
        reached, idle = np.inf, 0
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
                    reached, costs, idle = charged_there, new, 0
            expected = expected_costs(probabilities, from_contrasts(costs))
        if best_inside <= enough:
            break


def _direction(costs: Floats, ends: Sequence[Floats], action: int, rng: np.random.Generator) -> Floats:
    """Return the change of an action's costs along a line, shape (S,)."""
    if ends and rng.random() < TOWARDS:
        towards: Floats = ends[int(rng.integers(len(ends)))][:, action] - costs[:, action]
        return towards
    size = np.abs(costs[:, action])
    size = size + 0.3 * size.max() + 0.02 * np.abs(costs).max()
    some = rng.random(len(size)) < max(0.25, 2.0 / len(size))
    some[rng.integers(len(size))] = True
    return np.where(some, size * rng.normal(size=len(size)), 0.0)
