"""The choice: shares of several members, or the one that does best alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tailboost._blas import one_blas_thread
from tailboost._typing import Floats, Ints
from tailboost.thresholds._members import Pool
from tailboost.thresholds._pool import Growth
from tailboost.thresholds._program import Program, mixed
from tailboost.thresholds._search import LINES, Judge, Steady, by_thresholds, searched
from tailboost.thresholds._tally import Member, Reading, Table, Tally, charges, decide

# Members with less share have none.
LEAST_SHARE = 1e-6
# By how much one member may break a limit, where a mixture breaks none, before better ones are looked for.
SLIGHT = 1e-9
# A violation is charged this, and this much times the prices of the limits, and never more than the last.
CHARGE, CHARGE_PER_PRICE, MOST_CHARGE = 2.0, 2.0, 1e4
# What keeping all limits is worth, however little one is broken.
KEPT = 5e-3
# By how much more both count at the end of a search, so that what is left of a violation goes.
STRICT = 5.0
# A mixture keeps limits up to the precision of its solver.
SOLVED = 1e-6
# Members of largest share between which segments are tried, and where on them.
ENDS, PLACES = 4, (0.1, 0.25, 0.5, 0.75, 0.9)
# More than the rounding error of a sum of shares.
ROUNDING = 1e-12
# Starts of a search, and by how much one member may be worse than the best shares before it is looked for.
STARTS, SHORT = 4, 5e-4
# Rows that it is looked for on, and lines then on all of more.
SEARCH_ROWS, LAST_LINES = 50_000, 16
# Powers of beliefs, as much surer and less sure as models of other rows may be, at which a rule may break a
# limit by so much; and how many of the best rules are asked.
SURER, BRITTLE, ASKED = (0.95, 1.05), 0.1, 40


@dataclass(frozen=True, eq=False)
class Choice:
    """Members of a pool with their shares."""

    numbers: Ints  # members with a share
    weights: Floats  # the shares; they sum to 1
    value: float  # what is made small, as read from blended tallies
    bound: float  # the least value that shares of the pool's members reach within the limits
    excesses: Floats  # shape (n_limits,): by how much limits are broken on the rows of the choice
    # Shape (n_limits,): by how much the best shares break them: 0 where a draw keeps what one member cannot.
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
    value, excesses = float(program.judge(read)[0]) * program.scale, program.excesses(read[1])
    return Choice(numbers, of, value, value, excesses, excesses)


@one_blas_thread
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
    judge = _judge(program, growth, reading)

    def key(tally: Tally) -> float:
        """Judge a member by what answers and by models of folds, as the worse of both has it."""
        return max(float(judge(reading.of(each))) for each in (tally, tally.of_folds) if each is not None)

    keys = [key(tally) for tally in pool.tallies]
    chosen = int(np.argmin(keys))
    if repair:
        between = [pool.add(member) for member in _between(pool, best)]
        if len(program.caps[1]):
            for number in [*np.argsort(keys)[:ENDS].tolist(), *best.numbers.tolist(), *between]:
                pool.add(_filled(pool.table, program, pool.members[number]))
        keys += [key(tally) for tally in pool.tallies[len(keys) :]]
        # Earlier members win ties.
        steady = _steadiness(pool, program)
        order = np.argsort(keys, kind="stable")[:ASKED].tolist()
        chosen = next((number for number in order if steady(pool.members[number])), order[0])
        broken = float(program.excesses(reading.of(pool.tallies[chosen])[1]).max(initial=0.0)) > SLIGHT
        # Where a largest rate is limited in nothing, what is counted better nearby is so by chance.
        short = bool(program.limits) and not program.objective.worst
        short &= keys[chosen] > best.value / program.scale + SHORT
        if (broken or short) and (best.excesses <= SOLVED).all():
            # By violations, members near a constant are the best: from there no search gets away.
            largest = best.numbers[np.argsort(-best.weights, kind="stable")[:2]].tolist()
            largest = largest if pool.members[chosen].is_constant else []
            starts = dict.fromkeys([*between[:1], *largest, *np.argsort(keys).tolist()])
            found = _nearby(pool, growth, reading, best, list(starts)[:STARTS], steady)
            number = pool.add(found)
            if _better(pool, growth, reading, chosen, found) and key(pool.tallies[number]) <= keys[chosen]:
                chosen = number
    # Limits on rows passed on, which the order of the belief keeps, leave the choice as free as none.
    if not program.objective.worst and all(limit.rate.needs_deferral for limit in program.limits):
        chosen = _beyond_chance(pool, program, chosen)
    read = reading.of(pool.tallies[chosen])
    value, excesses = float(program.judge(read)[0]) * program.scale, program.excesses(read[1])
    kept = excesses.max(initial=0.0) <= SLIGHT
    return Choice(
        np.array([chosen]),
        np.ones(1),
        value,
        min(best.value, value) if kept else best.value,
        excesses,
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


def _judge(
    program: Program, growth: Growth, reading: Reading, factor: float = 1.0, kept: float = KEPT
) -> Judge:
    """Return what read tallies are worth, of one member or of many: violations are charged."""
    charge = min(CHARGE + CHARGE_PER_PRICE * float(growth.solved.duals.sum()), MOST_CHARGE)
    sizes = program.unit_sizes[1] if program.objective.worst else np.ones(0)

    def judge(read: Floats) -> Floats:
        value, excess = program.judge(read)
        if program.objective.worst:
            value = value + program.surprise(read, sizes, reading.pseudo_rows)
        return value + factor * (charge * np.maximum(excess - SLIGHT, 0.0) + kept * (excess > SLIGHT))

    return judge


def _steadiness(pool: Pool, program: Program) -> Steady:
    """Return which rules keep limits about as well where beliefs are a little surer or less sure.

    Where groups are inferred, a rule may weigh what is left of a group's probability in rows that are surely
    of another: on the rows of the choice it keeps a gap, and breaks it where another model is surer.
    """
    small = pool.thinned(SEARCH_ROWS).table
    if small.apart or not program.limits:
        return lambda member: True
    over = program if small is pool.table else program.over(small.strata)
    shifted: dict[tuple[int, float], Any] = {}

    def steady(member: Member) -> bool:
        for power in SURER:
            if (member.source, power) not in shifted:
                shifted[member.source, power] = small.beliefs[member.source] ** np.float32(power)
            answers = decide(charges(shifted[member.source, power], member.prices))
            if over.excesses(small.counted(answers).sum(axis=0)).max() > BRITTLE:
                return False
        return True

    return steady


def _nearby(
    pool: Pool, growth: Growth, reading: Reading, best: Choice, starts: Sequence[int], steady: Steady
) -> Member:
    """Return the best member that a search finds from some others: on fewer rows, if there are many.

    First at the charge by which members are compared, for their size alone: where violations cost more, a
    search does not get past rules that break a limit on its way. Then at a higher one, nearby.
    """
    small, program = pool.thinned(SEARCH_ROWS), growth.program
    judge, strict = (_judge(program, growth, reading, factor) for factor in (1.0, STRICT))
    over = program if small is pool else program.over(small.table.strata)
    near = [small.add(pool.members[i]) for i in starts]
    source = pool.members[starts[0]].source
    joined = by_thresholds(small, over, growth.solved.duals, source, _judge(over, growth, reading))
    if joined is not None:
        near = [small.add(joined), *near[:-1]]
    towards = [small.add(pool.members[i]) for i in best.numbers]
    enough, lines = best.value / program.scale + SHORT / 2, LINES
    found = searched(small, near, towards, _judge(over, growth, reading, kept=0.0), steady, enough, lines)
    if small is not pool:
        lines = LAST_LINES
        found = searched(pool, [pool.add(found)], (), judge, steady, enough, lines)
    number = pool.add(found)
    if program.excesses(reading.of(pool.tallies[number])[1]).max(initial=0.0) > SLIGHT:
        mended = pool.add(searched(pool, [number], best.numbers.tolist(), strict, steady, enough, lines))
        number = min((mended, number), key=lambda i: float(judge(reading.of(pool.tallies[i]))))
    return pool.members[number]


def _better(pool: Pool, growth: Growth, reading: Reading, chosen: int, found: Member) -> bool:
    """Whether a member is better than another, and where both keep the limits or both do not beyond chance.

    That is by more than a standard error of the difference: in what is made small, where all limits are kept,
    else in the limit that the other breaks most.
    """
    program, judge = growth.program, _judge(growth.program, growth, reading)
    before, after = (reading.of(pool.tallies[i]) for i in (chosen, pool.add(found)))
    gain = float(judge(before) - judge(after))
    broken, left = (program.excesses(each[1]) for each in (before, after))
    kept = [each.max(initial=0.0) <= SLIGHT for each in (broken, left)]
    if gain <= 0 or kept == [False, True]:
        return gain > 0
    rows = program.cost[None] if all(kept) else program.matrix[program.of == int(broken.argmax())]
    if not all(kept):
        gain = float(broken.max() - left.max())
    return gain > _noise(pool.table, rows, pool.members[chosen], found)
