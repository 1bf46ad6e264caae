"""The choice: shares of several members, or the one that does best alone."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from tailboost._typing import Floats, Ints
from tailboost.thresholds._members import Pool
from tailboost.thresholds._pool import Growth
from tailboost.thresholds._program import Program, mixed
from tailboost.thresholds._tally import Member, Reading, Table, charges, contrasts, decide

# Members with less share have none.
LEAST_SHARE = 1e-6
# By how much one member may break a limit, where a mixture breaks none, before better ones are looked for.
SLIGHT = 1e-9
# A violation is charged this, and this much times the prices of the limits, and never more than the last.
CHARGE, CHARGE_PER_PRICE, MOST_CHARGE = 2.0, 2.0, 1e4
# By how much more it is charged where a member is looked for that keeps all limits.
STRICT = 5.0
# A mixture keeps limits up to the precision of its solver.
SOLVED = 1e-6
# Members of largest share between which segments are tried, and where on them.
ENDS, PLACES = 4, (0.1, 0.25, 0.5, 0.75, 0.9)
# More than the rounding error of a sum of shares.
ROUNDING = 1e-12
# Random moves of the local search, from how many starts.
MOVES, STARTS = 600, 3


@dataclass(frozen=True, eq=False)
class Choice:
    """Members of a pool with their shares.

    Parameters
    ----------
    numbers : ndarray of int
        Members with a share.
    weights : ndarray
        The shares; they sum to 1.
    value : float
        What is made small, as read from blended tallies.
    bound : float
        The least value that shares of the pool's members reach within the limits.
    excesses : ndarray of shape (n_limits,)
        By how much limits are broken on the rows of the choice.
    drawn : ndarray of shape (n_limits,)
        By how much the best shares break them: 0 where a draw keeps what one member cannot.
    """

    numbers: Ints
    weights: Floats
    value: float
    bound: float
    excesses: Floats
    drawn: Floats

    @property
    def gap(self) -> float:
        """What sharing would gain on the rows of the choice."""
        return max(0.0, self.value - self.bound)

    @property
    def keeps(self) -> bool:
        """Whether all limits hold on the rows of the choice, up to what is slight."""
        return bool((self.excesses <= SLIGHT).all())


def shared(pool: Pool, growth: Growth, reading: Reading) -> Choice:
    """Return the shares that are best within the limits."""
    program = growth.program
    weights = np.where(growth.solved.weights > LEAST_SHARE, growth.solved.weights, 0.0)
    used = np.flatnonzero(weights)
    numbers = np.array(growth.numbers, dtype=np.intp)[used]
    of = weights[used] / weights[used].sum()
    read = mixed(of, [reading.of(pool.tallies[i]) for i in numbers])
    value, excesses = program.judge(read)[0] * program.scale, program.excesses(read[1])
    return Choice(numbers, of, value, value, excesses, excesses)


def single(pool: Pool, growth: Growth, reading: Reading, *, repair: bool = True) -> Choice:
    """Return the one member that does best, a violation of a limit being charged.

    First among the pool, then between its members of the largest shares; only where a limit is still broken
    is a member looked for nearby. It is taken if it keeps them, or breaks them less beyond chance.

    Parameters
    ----------
    pool : Pool
        The members; one that is found nearby joins.
    growth : Growth
        The program and its solution over the members.
    reading : Reading
        How tallies are read.
    repair : bool
        Whether members between and nearby are looked for.
    """
    program, best = growth.program, shared(pool, growth, reading)
    charge = min(CHARGE + CHARGE_PER_PRICE * float(growth.solved.duals.sum()), MOST_CHARGE)
    sizes = program.unit_sizes[1] if program.objective.worst else np.ones(0)

    def key(read: Floats, factor: float = 1.0) -> float:
        value, excess = program.judge(read)
        if program.objective.worst:
            value += program.surprise(read, sizes, reading.pseudo_rows)
        return value + factor * charge * max(excess - SLIGHT, 0.0)

    def strict(read: Floats) -> float:
        return key(read, STRICT)

    keys = [key(reading.of(tally)) for tally in pool.tallies]
    chosen = int(np.argmin(keys))
    if repair:
        between = [pool.add(member) for member in _between(pool, best)]
        if len(program.caps[1]):
            for number in [*np.argsort(keys)[:ENDS].tolist(), *best.numbers.tolist(), *between]:
                pool.add(_filled(pool.table, program, pool.members[number]))
        keys += [key(reading.of(tally)) for tally in pool.tallies[len(keys) :]]
        # Earlier members win ties.
        chosen = int(np.argmin(keys))
        broken = float(program.excesses(reading.of(pool.tallies[chosen])[1]).max(initial=0.0))
        if broken > SLIGHT and (best.excesses <= SOLVED).all():
            starts = list(dict.fromkeys([*np.argsort(keys)[:STARTS].tolist(), *between[:1]]))[:STARTS]
            found = _searched(pool, program, starts, strict)
            if found is not None:
                number = pool.add(found)
                before, after = (reading.of(pool.tallies[i]) for i in (chosen, number))
                mended = program.excesses(after[1]).max(initial=0.0) <= SLIGHT
                if strict(after) < strict(before) and (mended or _repairs(pool, program, chosen, found)):
                    chosen = number
    # Limits on rows passed on, which the order of the belief keeps, leave the choice as free as none.
    if not program.objective.worst and all(limit.rate.needs_deferral for limit in program.limits):
        chosen = _beyond_chance(pool, program, chosen)
    read = reading.of(pool.tallies[chosen])
    value = program.judge(read)[0] * program.scale
    return Choice(
        np.array([chosen]),
        np.ones(1),
        value,
        min(best.value, value),
        program.excesses(read[1]),
        best.excesses,
    )


def _filled(table: Table, program: Program, member: Member) -> Member:
    """Return the member with a price of a person's look at which as many rows are passed on as may be.

    It passes on those first that it gains most by. Members that answer prices pass on too many or too few
    where a small change of a price moves many rows.
    """
    K, (caps, most) = table.strata.n_classes, program.caps
    charged = charges(table.beliefs[member.source], member.prices)
    gain = charged[:K].min(axis=0) - charged[K]
    order = np.argsort(-gain, kind="stable")
    spent = np.cumsum(table.share[order] * caps[:, table.stratum[order]], axis=1)
    kept = (spent <= most[:, None] + ROUNDING).all(axis=0)
    first = len(order) if kept.all() else int(kept.argmin())
    ordered = gain[order]
    # Rows of equal gain are passed on together or not at all.
    last = first - 1
    while 0 <= last < len(order) - 1 and ordered[last] == ordered[last + 1]:
        last -= 1
    ends = (ordered[max(last, 0)], ordered[min(last + 1, len(order) - 1)])
    between = ends[0] + 1.0 if last < 0 else ends[1] - 1.0 if last == len(order) - 1 else sum(ends) / 2.0
    prices = member.prices.copy()
    prices[:, K] += between
    return Member.of(member.source, prices)


def _beyond_chance(pool: Pool, program: Program, chosen: int) -> int:
    """Return the member, or the belief's own best where that is as good up to a standard error.

    With nothing to keep, the belief's best answer is the one of the textbook; what was counted better among
    many members is so by chance.
    """
    keeping = [program.excesses(tally.counted).max(initial=0.0) <= SLIGHT for tally in pool.tallies]
    own = [i for i, member in enumerate(pool.members) if member.source == 0 and keeping[i]]
    if not own:
        return chosen
    plain = min(own, key=lambda i: float(program.cost @ pool.tallies[i].expected.ravel()))
    gain = float(program.cost @ (pool.tallies[plain].counted - pool.tallies[chosen].counted).ravel())
    rules = [pool.members[plain], pool.members[chosen]]
    return chosen if gain > _noise(pool.table, program.cost[None], *rules) else plain


def _noise(table: Table, rows: Floats, one: Member, other: Member) -> float:
    """Return the largest standard error of the difference of two members in rows of a program."""
    before, after = table.answers(one), table.answers(other)
    n_strata, changed = len(table.strata.mass), np.flatnonzero((before != after)[: table.n_judged])
    matrix = rows.reshape(len(rows), -1, table.strata.n_actions)[:, :n_strata]
    stratum = table.stratum[changed]
    moved = matrix[:, stratum, after[changed]] - matrix[:, stratum, before[changed]]
    return float(np.sqrt(((table.share[changed] * moved) ** 2).sum(axis=1)).max(initial=0.0))


def _between(pool: Pool, best: Choice) -> list[Member]:
    """Return members whose prices lie between those of the largest shares, of one source each."""
    order = np.argsort(-best.weights, kind="stable")[:ENDS]
    ends = [pool.members[i] for i in best.numbers[order]]
    found = []
    for source in dict.fromkeys(member.source for member in ends):
        of = [(w, m) for w, m in zip(best.weights[order], ends, strict=True) if m.source == source]
        if len(of) > 1:
            found.append(Member.of(source, np.sum([w * m.prices for w, m in of], axis=0)))
    for i, one in enumerate(ends):
        for other in ends[i + 1 :]:
            if one.source == other.source:
                found += [Member.of(one.source, t * one.prices + (1 - t) * other.prices) for t in PLACES]
    return found


def _searched(
    pool: Pool, program: Program, starts: Sequence[int], key: Callable[[Floats], float]
) -> Member | None:
    """Return the best member that random moves of the prices reach."""
    table, rng = pool.table, np.random.default_rng(0)
    best: tuple[float, Member | None] = (np.inf, None)

    def counted(charged: Floats) -> float:
        tally = table.counted(decide(charged)).sum(axis=0)
        return key(np.stack([tally, tally]))

    for start in starts:
        member = pool.members[start]
        belief, prices = table.beliefs[member.source], contrasts(member.prices).copy()
        charged = charges(belief, member.prices)
        reached = counted(charged)
        step = 0.3
        for _ in range(MOVES // len(starts)):
            size = np.abs(prices)
            size = size + 0.3 * size.max(axis=1, keepdims=True) + 0.02 * size.max()
            moves = rng.random(prices.shape) < max(0.15, 2.0 / prices.size)
            change = np.where(moves, step * size * rng.normal(size=prices.shape), 0.0)
            other = charged.copy()
            for s, a in zip(*np.nonzero(change), strict=True):
                other[a] += change[s, a] * belief[s]
            value = counted(other)
            if value < reached:
                reached, prices, charged = value, prices + change, other
                step = min(step * 1.5, 1.0)
            else:
                step = max(step * 0.96, 0.005)
        if reached < best[0]:
            best = reached, Member.of(member.source, _whole(prices))
    return best[1]


def _whole(prices: Floats) -> Floats:
    """Return prices of all actions from what has to be charged to decide."""
    return np.column_stack([np.zeros(len(prices)), prices[:, 0]]) if prices.shape[1] == 1 else prices


def _repairs(pool: Pool, program: Program, chosen: int, found: Member) -> bool:
    """Whether a member breaks limits less than another by more than a standard error of the difference."""
    table, before = pool.table, pool.members[chosen]
    excess = [program.excesses(table.counted(table.answers(m)).sum(axis=0)) for m in (before, found)]
    gain = float(excess[0].max() - excess[1].max())
    return gain > _noise(table, program.matrix[program.of == int(excess[0].argmax())], before, found)
