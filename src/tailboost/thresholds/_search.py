"""Search for one rule: along lines of prices, and where groups are told, a threshold for each at once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from tailboost._typing import Floats, Ints
from tailboost.rates import error
from tailboost.thresholds._members import Pool
from tailboost.thresholds._program import Program
from tailboost.thresholds._scan import Line
from tailboost.thresholds._tally import Member, Table, charges, contrasts, decide

Judge = Callable[[Floats], Floats]
"""What read tallies of shape (2, T, W, A) are worth, shape (T,): less is better."""
Steady = Callable[[Member], bool]
"""Whether a rule keeps limits about as well where beliefs are a little surer or less sure."""

# Lines that are searched from a start, and without a better rule before another start.
LINES, IDLE_LINES = 60, 30
# Share of the lines that lead to another member.
TOWARDS = 0.3
# A rule is better by no less.
BETTER = 1e-9
# Thresholds of a group that are put together with those of others, levels at which, and looks closer.
THRESHOLDS, LEVELS, LOOKS = 300, 80, 2
# Rules of thresholds put together that are judged, of the least cost.
JUDGED = 200


def searched(
    pool: Pool,
    starts: Sequence[int],
    towards: Sequence[int],
    judge: Judge,
    steady: Steady,
    enough: float,
    lines: int = LINES,
) -> Member:
    """Return the best rule found along lines of prices, from some members.

    A line moves the prices of one action, in a random direction over strata or to another member's, and all
    its rules are judged at once.

    Parameters
    ----------
    pool : Pool
        The members.
    starts, towards : sequence of int
        Members to start from, and to which some lines lead.
    judge : callable
        What tallies are worth.
    steady : callable
        Which rules may be taken.
    enough : float
        Worth at which nothing better need be looked for.
    lines : int
        How many from each start.
    """
    table, rng = pool.table, np.random.default_rng(0)
    best = np.inf, pool.members[starts[0]]
    for start in starts:
        member = pool.members[start]
        belief, prices = table.beliefs[member.source], contrasts(member.prices).copy()
        ends = [
            contrasts(other.prices)
            for other in map(pool.members.__getitem__, towards)
            if other.source == member.source
        ]
        charged = charges(belief, member.prices)
        reached, idle = _worth(table, charged, judge), 0
        for _ in range(lines):
            if reached <= enough or idle >= IDLE_LINES:
                break
            idle += 1
            action = int(rng.integers(prices.shape[1]))
            direction = _direction(prices, ends, action, rng)
            moved = charges(belief, whole(direction[:, None]))[0]
            places, tallies = Line(table, charged, action, moved).tallies()
            found = judge(np.stack([tallies, tallies]))
            place = places[int(found.argmin())]
            if found.min() < reached - BETTER:
                other = charged.copy()
                other[action] += place * moved
                moved_to = prices.copy()
                moved_to[:, action] += place * direction
                worth = _worth(table, other, judge)  # of rows that change at one place
                if worth < reached - BETTER and steady(Member.of(member.source, whole(moved_to))):
                    reached, charged, prices, idle = worth, other, moved_to, 0
        if reached < best[0]:
            best = reached, Member.of(member.source, whole(prices))
        if reached <= enough:
            break
    return best[1]


def _worth(table: Table, charged: Floats, judge: Judge) -> float:
    tally = table.counted(decide(charged)).sum(axis=0)[None]
    return float(judge(np.stack([tally, tally]))[0])


def _direction(prices: Floats, ends: Sequence[Floats], action: int, rng: np.random.Generator) -> Floats:
    """Return by how much the prices of an action change along a line, shape (S,)."""
    if ends and rng.random() < TOWARDS:
        towards: Floats = ends[int(rng.integers(len(ends)))][:, action] - prices[:, action]
        return towards
    size = np.abs(prices[:, action])
    size = size + 0.3 * size.max() + 0.02 * np.abs(prices).max()
    some = rng.random(len(size)) < max(0.25, 2.0 / len(size))
    some[rng.integers(len(size))] = True
    return np.where(some, size * rng.normal(size=len(size)), 0.0)


def whole(prices: Floats) -> Floats:
    """Return prices of all actions from what has to be charged to decide."""
    return np.column_stack([np.zeros(len(prices)), prices[:, 0]]) if prices.shape[1] == 1 else prices


def by_thresholds(pool: Pool, program: Program, duals: Floats, source: int, judge: Judge) -> Member | None:
    """Return the best rule with one threshold in each told group, where limits compare groups.

    A gap or ratio holds where each group alone keeps its rate between two levels. So at each level the
    cheapest threshold of each group is taken, and levels run over what groups can reach: of two classes and
    one or two such limits that is every rule there is, up to the steps of levels and thresholds. What is
    limited over several groups is charged its dual, and judged in the end.

    Returns
    -------
    Member or None
        None where groups are not told, or limits do not compare them so.
    """
    table, strata = pool.table, program.strata
    free = np.unique(program.variable[program.variable >= 0])
    own_costs = strata.mean_costs is not None
    if strata.n_actions > 2 or not 1 <= len(free) <= 2 or program.objective.worst or own_costs:
        return None
    if len(table.apart) < 2:
        return None
    of_group = program.matrix.reshape(len(program.matrix), -1, 2)[:, : len(strata.mass)]
    touched = np.array([(of_group[:, own] != 0).any(axis=(1, 2)) for _, own in table.apart])
    if (touched[:, program.variable >= 0].sum(axis=0) > 1).any():
        return None
    groups = [_Group.of(table, program, duals, source, g, touched) for g in range(len(table.apart))]
    levels = [_levels(program, groups, k) for k in free]
    found: list[tuple[float, list[int]]] = []
    for _ in range(LOOKS):
        cost, chosen = np.zeros([len(z) for z in levels]), list[Ints]()
        for group in groups:
            kept = [group.keeps(program, k, z) for k, z in zip(free, levels, strict=True)]
            masks = kept[0] if len(kept) == 1 else kept[0][:, None, :] & kept[1][None, :, :]
            each = np.where(masks, group.cost, np.inf)
            cost, chosen = cost + each.min(axis=-1), [*chosen, each.argmin(axis=-1)]
        order = np.argsort(cost, axis=None, kind="stable")[:JUDGED]
        order = order[np.isfinite(cost.ravel()[order])]
        if not len(order):
            break
        found += [(float(cost.ravel()[i]), [int(c.ravel()[i]) for c in chosen]) for i in order]
        at = np.unravel_index(order[0], cost.shape)
        levels = [_closer(z, int(i)) for z, i in zip(levels, at, strict=True)]
    if not found:
        return None
    rules = [list(rule) for rule in dict.fromkeys(tuple(rule) for _, rule in sorted(found))]
    tallies = np.sum(
        [[group.tallies[c] for c in of] for group, of in zip(groups, zip(*rules, strict=True), strict=True)],
        axis=0,
    )
    best = rules[int(judge(np.stack([tallies, tallies])).argmin())]
    prices = np.zeros((len(strata.mass), 2))
    for group, c, (_, own) in zip(groups, best, table.apart, strict=True):
        prices[own, 1] = group.prices + group.places[c]
    return Member.of(source, prices)


@dataclass(frozen=True, eq=False)
class _Group:
    """The thresholds of one told group, each with its tally, its cost and what it is in rows of a program."""

    prices: Floats
    places: Floats
    tallies: Floats
    cost: Floats
    rows: Floats
    own: Ints

    @classmethod
    def of(
        cls, table: Table, program: Program, duals: Floats, source: int, g: int, touched: Floats
    ) -> _Group:
        rows, strata = table.apart[g]
        plain = contrasts(error().terms(table.strata).linear[0][: len(table.strata.mass)])[strata, 0]
        prices = plain / max(float(np.abs(plain).max()), 1e-300)
        charged = charges(table.beliefs[source][np.ix_(strata, rows)], whole(prices[:, None]))
        places, tallies = Line(table, charged, 0, np.ones(len(rows)), rows).tallies(THRESHOLDS)
        flat = tallies.reshape(len(tallies), -1)
        in_rows = flat @ program.matrix.T
        alone = touched.sum(axis=0) == 1
        shared = np.where(alone, 0.0, duals)
        own = np.flatnonzero(touched[g] & alone)
        return cls(prices, places, tallies, flat @ program.cost + in_rows @ shared, in_rows, own)

    def keeps(self, program: Program, k: int, levels: Floats) -> np.ndarray:
        """Return which thresholds keep the rows of a free variable at its levels, and those of none."""
        kept = np.ones((len(levels), len(self.places)), dtype=bool)
        for j in self.own[np.isin(program.variable[self.own], (k, -1))]:
            kept &= self.rows[:, j] + program.free[j] * levels[:, None] <= program.bound[j] + BETTER
        return kept


def _levels(program: Program, groups: Sequence[_Group], k: int) -> Floats:
    """Return values of a free variable at which thresholds begin to keep a row, or cease to."""
    ends = [
        (program.bound[j] - group.rows[:, j]) / program.free[j]
        for group in groups for j in group.own if program.variable[j] == k
    ]  # fmt: skip
    return np.unique(np.quantile(np.concatenate(ends), np.linspace(0.0, 1.0, LEVELS)))


def _closer(levels: Floats, best: int) -> Floats:
    """Return levels about the best one."""
    low, high = levels[max(best - 2, 0)], levels[min(best + 2, len(levels) - 1)]
    return np.linspace(low, high, LEVELS)
