"""Search for one candidate along lines of action costs, on which all thresholds are counted at once."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from tailboost.core.array_types import Floats
from tailboost.selection.candidates import Candidate, Pool, charges, contrasts, whole
from tailboost.selection.counts import Table
from tailboost.selection.program import SLIGHT, Program

# Lines from each start, and without a better rule before the next start; share of lines towards a candidate.
LINES, IDLE_LINES, TOWARDS = 60, 30, 0.3
# Thresholds that are counted on a line of a search, and on a line towards a constant answer.
PLACES, SWEPT = 40, 256
# A rule is better by no less.
BETTER = 1e-9


def line(table: Table, charged: Floats, action: int, moved: Floats, most: int) -> tuple[Floats, Floats]:
    """Return thresholds δ and the confusion counts of the rules ``cost of the action + δ moved``.

    A row changes its answer once as δ grows, so that all counts are sums over the rows in the order of their
    changes.

    Parameters
    ----------
    table : Table
        The rows.
    charged : ndarray of shape (A, n) or (1, n)
        Costs of the actions, see `charges`; of two actions the difference alone.
    action : int
        The row of ``charged`` that moves.
    moved : ndarray of shape (n,)
        By how much.
    most : int
        How many thresholds are taken: all if there are no more, else about half nearest to 0.

    Returns
    -------
    places : ndarray of shape (T,)
    counts : ndarray of shape (T, W, A)
    """
    n, n_strata, A = charged.shape[1], len(table.strata.mass), table.strata.n_actions
    if len(charged) == 1:
        to, other, against = 1, np.zeros(n, dtype=np.intp), np.zeros(n)
    else:
        others = charged.copy()
        others[action] = np.inf
        to, other = action, others.argmin(axis=0)
        against = others[other, np.arange(n)]
    moves = moved != 0
    at = np.where(moves, (against - charged[action]) / np.where(moves, moved, 1.0), np.inf)
    takes = np.where(moves, moved > 0, charged[action] < against)  # at the least δ
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
    size, cell = n_strata * A, table.stratum * A

    def summed(with_it: Floats, without: Floats) -> Floats:
        first = np.bincount(cell + np.where(takes, to, other), np.where(takes, with_it, without), size)
        sign = np.where(takes, -1.0, 1.0)
        changes = np.bincount(place * size + cell + to, sign * with_it, (len(places) + 1) * size)
        changes -= np.bincount(place * size + cell + other, sign * without, (len(places) + 1) * size)
        found: Floats = first + changes.reshape(-1, size)[:-1].cumsum(axis=0)
        return found.reshape(-1, n_strata, A)

    found = [summed(table.share, table.share)]
    if table.costs is not None:
        own = table.costs[:, to], table.costs[np.arange(n), other]
        found.append(summed(*(table.share * of for of in own)))
    return places, np.concatenate(found, axis=1)


def swept(pool: Pool, program: Program, number: int) -> None:
    """Add the best threshold on each line from a candidate towards a constant answer.

    Of two classes without groups these lines hold all thresholds on the score.
    """
    table, member = pool.table.at_hand, pool.members[number]
    belief = table.beliefs[member.source]
    charged, prices = charges(belief, member.prices), contrasts(member.prices)
    for action in range(len(charged)):
        places, counts = line(table, charged, action, np.ones(len(table)), SWEPT)
        for best in _best(program, counts)[:1] if len(places) else ():
            moved = prices.copy()
            moved[:, action] += places[best]
            pool.add(Candidate.of(member.source, whole(moved)))


def _best(program: Program, counts: Floats) -> Sequence[int]:
    """Return the rule of least objective that keeps all limits, or else the one that is least beyond them."""
    value, excess = program.judge(counts)
    order = np.lexsort((value, np.where(excess <= SLIGHT, 0.0, excess)))
    return order.tolist()


def search(
    pool: Pool,
    program: Program,
    starts: Iterable[int],
    towards: Sequence[int],
    charge: float,
    enough: float,
    lines: int = LINES,
) -> None:
    """Add the best rule within the limits that is found along lines of action costs, from some candidates.

    A line moves the costs of one action, in a random direction over strata or towards another candidate. The
    search moves to the rule of least objective plus charged violation; the best rule that keeps all limits
    anywhere on its lines is added, and the last one from each start.

    Parameters
    ----------
    pool : Pool
        The pool.
    program : Program
        Objective and limits.
    starts, towards : sequence of int
        Candidates to start from, and to which some lines lead.
    charge : float
        The cost of breaking a limit by 1.
    enough : float
        Objective at which nothing better is looked for.
    lines : int
        Lines from each start.
    """
    table, rng, kept = pool.table.at_hand, np.random.default_rng(0), np.inf
    for start in starts:
        member = pool.members[start]
        belief, prices = table.beliefs[member.source], contrasts(member.prices).copy()
        ends = [contrasts(pool.members[i].prices) for i in towards if pool.members[i].source == member.source]
        charged, reached, idle = charges(belief, member.prices), np.inf, 0
        for _ in range(lines):
            if kept <= enough or idle >= IDLE_LINES:
                break
            idle += 1
            action = int(rng.integers(prices.shape[1]))
            direction = _direction(prices, ends, action, rng)
            moved = charges(belief, whole(direction[:, None]))[0]
            places, counts = line(table, charged, action, moved, PLACES)
            if not len(places):
                continue
            value, excess = program.judge(counts)
            inside = np.where(excess <= SLIGHT, value, np.inf)
            worth = value + charge * np.maximum(excess, 0.0)
            for best, better in ((int(inside.argmin()), inside.min() < kept - BETTER),
                                 (int(worth.argmin()), worth.min() < reached - BETTER)):  # fmt: skip
                if not better:
                    continue
                own = prices.copy()
                own[:, action] += places[best] * direction
                number = pool.add(Candidate.of(member.source, whole(own)))
                # By counting: rows may change at one and the same threshold.
                value_there, excess_there = program.judge(pool.counts[number])
                if excess_there <= SLIGHT:
                    kept = min(kept, float(value_there))
                reached_there = float(value_there + charge * max(float(excess_there), 0.0))
                if reached_there < reached - BETTER:
                    reached, prices, idle = reached_there, own, 0
            charged = charges(belief, whole(prices))
        if kept <= enough:
            break


def _direction(prices: Floats, ends: Sequence[Floats], action: int, rng: np.random.Generator) -> Floats:
    """Return by how much the costs of an action change along a line, shape (S,)."""
    if ends and rng.random() < TOWARDS:
        towards: Floats = ends[int(rng.integers(len(ends)))][:, action] - prices[:, action]
        return towards
    size = np.abs(prices[:, action])
    size = size + 0.3 * size.max() + 0.02 * np.abs(prices).max()
    some = rng.random(len(size)) < max(0.25, 2.0 / len(size))
    some[rng.integers(len(size))] = True
    return np.where(some, size * rng.normal(size=len(size)), 0.0)
