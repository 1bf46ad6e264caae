"""Growth of a pool: best answers to the prices of a program over the members seen so far."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from tailboost._blas import one_blas_thread
from tailboost._typing import Floats, Mask
from tailboost.rates import Objective, error
from tailboost.thresholds._games import play
from tailboost.thresholds._members import Pool
from tailboost.thresholds._program import SLACK, Master, Program, Solved, mixed
from tailboost.thresholds._scan import Line
from tailboost.thresholds._tally import Member, Reading, charges, contrasts, decide

# Relative gap at which growth by expected tallies ends, and the most rounds of each kind of growth.
TOLERANCE, EXPECTED_ROUNDS, COUNTED_ROUNDS = 1e-4, 200, 60
# Share of the best duals so far in those that are answered (Wentges' smoothing).
SMOOTHING = 0.5
# Rows that expected tallies are taken over; beyond that more rows move no price that matters.
EXPECTED_ROWS = 50_000
# Rows on which members are looked for by counting, rounds then on all rows, and how many members go on.
COUNTED_ROWS, LAST_ROUNDS, CARRIED = 100_000, 3, 40
# Strata whose prices are tried larger and smaller in a round of growth by counting, and how much.
POLISHED, FACTORS = 12, (0.5, 0.8, 1.25, 2.0)
# Rounds without a better member after which growth by counting ends, and random looks in each of them.
IDLE_ROUNDS, LOOKS, LOOK_SPREAD = 4, 3, 0.25
# Rounds in which the value has to fall by the gap, while all limits are kept.
SLOW_ROUNDS = 8
# Levels of a ratio that are tried, and how near the next one ends the trials.
LEVELS, SAME_LEVEL = 8, 1e-5
# Rounds of the player whose iterates seed the pool, and the prices of the mean error beside it.
SEED_ROUNDS, SEED_PRICES = 20, (0.0, 0.5)


@dataclass(frozen=True, eq=False)
class Growth:
    """What growth of a pool found."""

    program: Program  # the program, with a limit on the mean error where there is a budget
    solved: Solved  # the last solution; ``weights`` are of the members ``numbers``
    numbers: list[int]  # members of the pool in the program
    # No mixture of rules of the sources is below, where tallies are the expected ones; −∞ where they are
    # counted.
    bound: float
    contradicting: Mask  # shape (n_limits,): which limits contradict each other; none where all can be kept

    @property
    def feasible(self) -> bool:
        """Whether some mixture of the members keeps all limits."""
        return self.solved.slack <= SLACK * 10


@one_blas_thread  # threads change the last digits of sums, from which other rules may grow
def grow(
    pool: Pool,
    program: Program,
    sources: Sequence[int],
    pseudo_rows: float,
    mean_budget: float | None = None,
) -> tuple[Growth, Growth]:
    """Add members to a pool until none that the sources have would lower a program.

    Growth is first by expected tallies, where the best answer to prices is exact and the gap is known, then
    by counted tallies blended with ``pseudo_rows`` expected rows in each stratum, where best answers are
    looked for near those of the belief.

    Parameters
    ----------
    pool : Pool
        The pool, which has its seeds.
    program : Program
        The program.
    sources : sequence of int
        Whose beliefs are asked, the best first.
    pseudo_rows : float
        How much counts of few rows are doubted.
    mean_budget : float, optional
        How far the mean error may be above the least of what the sources answer by themselves or, where rows
        may be passed on, above the least of rules that pass on as many.

    Returns
    -------
    expected, counted : Growth
        Each with its own program, which has the budget among its limits and, of a ratio, its level.
    """
    small = pool.thinned(EXPECTED_ROWS)
    seeds = small.seed(sources)[: len(sources)]
    if program.objective.worst:
        over = program.over(small.table.strata)
        play(small, over, sources[0], prices=SEED_PRICES, rounds=SEED_ROUNDS, kept=SEED_ROUNDS)
    believed = Reading.believed(len(pool.table.strata.mass))
    within = program.over(small.table.strata)
    if mean_budget is not None and program.strata.defers:
        _Growing(small, _passing_on(within), sources[:1], believed).by_expectation()
    own = _within(small, within, seeds, believed, mean_budget)
    expected = _at_its_level(
        own, small, believed, lambda at: _Growing(small, at, sources[:1], believed).by_expectation()
    )
    program = program.at(expected.program.level)
    if pool.table.n_judged <= COUNTED_ROWS:
        _carry(small, expected, pool)
        return expected, _counted(pool, program, sources, pseudo_rows, mean_budget, COUNTED_ROUNDS)
    # Members are looked for on fewer rows, and the shares are by all.
    part = pool.thinned(COUNTED_ROWS)
    _carry(small, expected, part)
    over = program.over(part.table.strata)
    _carry(part, _counted(part, over, sources, pseudo_rows, mean_budget, COUNTED_ROUNDS), pool)
    return expected, _counted(pool, program, sources, pseudo_rows, mean_budget, LAST_ROUNDS)


def _counted(
    pool: Pool,
    program: Program,
    sources: Sequence[int],
    pseudo_rows: float,
    mean_budget: float | None,
    rounds: int,
) -> Growth:
    seeds, reading = pool.seed(sources)[: len(sources)], pool.table.reading(pseudo_rows)
    own = _within(pool, program, seeds, reading, mean_budget)
    return _at_its_level(
        own, pool, reading, lambda at: _Growing(pool, at, sources, reading).by_counting(rounds)
    )


def _at_its_level(
    program: Program, pool: Pool, reading: Reading, solve: Callable[[Program], Growth]
) -> Growth:
    """Solve the program of a ratio at the level that its own solution reaches (Dinkelbach 1967).

    A level above the least has a solution whose ratio is lower; at the least one it is the level itself.
    Other programs are solved once.
    """
    growth = solve(program)
    for _ in range(LEVELS if program.objective.rate.is_ratio else 0):
        level = program.value(_solution(pool, growth, reading)[0])
        if np.isnan(level) or abs(level - program.level) <= SAME_LEVEL:
            break
        program = program.at(level)
        growth = solve(program)
    return growth


def _carry(pool: Pool, growth: Growth, other: Pool) -> None:
    """Add to another pool the members that have a share, and those that came last."""
    if other is pool:
        return
    used = np.array(growth.numbers)[growth.solved.weights > 0].tolist()
    for number in dict.fromkeys([*used, *growth.numbers[-CARRIED:]]):
        other.add(pool.members[number])


def _within(
    pool: Pool, program: Program, seeds: Sequence[int], reading: Reading, mean_budget: float | None
) -> Program:
    """Return the program with a limit on the mean error, relative to the least of some members.

    What is expected of them and what is counted differ by more than a budget may be: the limit is relative to
    tallies that are read in the same way.
    """
    if mean_budget is None:
        return program
    mean = error().terms(program.strata)
    least = min(float(mean.values(reading.of(pool.tallies[i])[1])[0]) for i in seeds)
    if program.strata.defers:
        growth = _solved(pool, _passing_on(program), reading)
        least = min(least, float(mean.values(_solution(pool, growth, reading)[1])[0]))
    return program.with_bound(error() <= min(1.0, least + mean_budget))


def _solution(pool: Pool, growth: Growth, reading: Reading) -> Floats:
    """Return the tally of the solution, as read for the objective and for limits, shape (2, W, A)."""
    used = np.flatnonzero(growth.solved.weights > 0).tolist()
    tallies = [reading.of(pool.tallies[growth.numbers[i]]) for i in used]
    return mixed(growth.solved.weights[used], tallies)


def _passing_on(program: Program) -> Program:
    """Return the program of the least mean error among rules that pass on as many rows as they may."""
    limits = [limit for limit in program.limits if limit.rate.needs_deferral]
    return Program.of_rates(program.strata, Objective.of(error()), limits)


@one_blas_thread
def restricted(pool: Pool, program: Program, reading: Reading) -> Growth:
    """Solve a program over the members that there are."""
    return _at_its_level(program, pool, reading, lambda at: _solved(pool, at, reading))


def _solved(pool: Pool, program: Program, reading: Reading) -> Growth:
    growing = _Growing(pool, program, (), reading)
    solved = growing.settled()
    return growing.found(solved, -np.inf)


class _Growing:
    """One growth of a pool for a program, by one reading of tallies."""

    def __init__(self, pool: Pool, program: Program, sources: Sequence[int], reading: Reading) -> None:
        self.pool, self.program, self.sources, self.reading = pool, program, sources, reading
        self.master = Master(program)
        self.numbers: list[int] = []
        self.place: dict[int, int] = {}
        self.rng = np.random.default_rng(0)
        for number in range(len(pool.members)):
            self._take(number)

    def _take(self, number: int) -> bool:
        """Take a member of the pool into the program; return whether it is new there."""
        if number in self.place:
            return False
        self.place[number] = len(self.numbers)
        self.numbers.append(number)
        self.master.add(self.read(number))
        return True

    def read(self, number: int) -> Floats:
        """Return the tally of a member, as it is read here, shape (2, W, A)."""
        return self.reading.of(self.pool.tallies[number])

    def found(self, solved: Solved, bound: float) -> Growth:
        """Return what was found."""
        slack = solved.slack > SLACK * 10
        contradicting = self.master.contradicting(solved) & slack
        return Growth(self.program, solved, self.numbers, bound, contradicting)

    def settled(self) -> Solved:
        """Solve, at a price at which no row is broken unless it must be."""
        solved = self.master.solve()
        while solved.slack > SLACK and self.master.charge_more():
            solved = self.master.solve()
        return solved

    def _answer(self, duals: Floats) -> tuple[float, bool]:
        """Take the best answers to duals; return the least Lagrangian value, and whether one is new."""
        prices = self.program.prices(duals)
        before, values = len(self.numbers), []
        for source in self.sources:
            own = prices * self.pool.table.correction(source)[:, None]
            number = self.pool.add(Member.of(source, own))
            self._take(number)
            values.append(self._lagrangian(number, duals))
        return min(values), len(self.numbers) > before

    def _lagrangian(self, number: int, duals: Floats) -> float:
        """Return what a member costs at some prices of the rows."""
        cost, rows = np.split(self.program.column(self.read(number)), [1])
        return float(cost[0] + duals @ (rows - self.program.bound))

    def by_expectation(self) -> Growth:
        """Grow where tallies are the expected ones: the best answer is exact, and so is the bound."""
        bound, best = -np.inf, None
        solved = self.master.solve()
        for _ in range(EXPECTED_ROUNDS):
            new = False
            trials = (
                [solved.duals]
                if best is None
                else [SMOOTHING * best + (1 - SMOOTHING) * solved.duals, solved.duals]
            )
            for duals in trials:
                value, added = self._answer(duals)
                new |= added
                if value > bound:
                    bound, best = value, duals
            solved = self.master.solve()
            if solved.value - bound > TOLERANCE * max(1.0, abs(solved.value)) and new:
                continue
            if solved.slack <= SLACK or not self.master.charge_more():
                break
            bound, best = -np.inf, None  # bounds of another price of slack
            solved = self.master.solve()
        return self.found(solved, bound)

    def by_counting(self, rounds: int) -> Growth:
        """Grow where tallies are counted: the belief only guesses the best answer, so look around it."""
        idle, values = 0, list[float]()
        solved = self.master.solve()
        for _ in range(rounds):
            values = [*values, solved.value] if solved.slack <= SLACK else []
            if len(values) > SLOW_ROUNDS and values[-1 - SLOW_ROUNDS] - values[-1] < TOLERANCE:
                break
            before = len(self.numbers)
            value, _ = self._answer(solved.duals)
            polished = self.pool.add(self._polished(solved.duals))
            self._take(polished)
            gain = solved.value - min(value, self._lagrangian(polished, solved.duals))
            better = gain > TOLERANCE * max(1.0, abs(solved.value)) and len(self.numbers) > before
            idle = 0 if better else idle + 1
            if idle:
                prices = self.program.prices(solved.duals)
                for _ in range(LOOKS):
                    spread = np.exp(self.rng.normal(scale=LOOK_SPREAD, size=(len(prices), 1)))
                    own = prices * spread * self.pool.table.correction(self.sources[0])[:, None]
                    self._take(self.pool.add(Member.of(self.sources[0], own)))
            if idle >= IDLE_ROUNDS // 2 and solved.slack > SLACK and self.master.charge_more():
                idle = 0
            solved = self.master.solve()
            if idle >= IDLE_ROUNDS:
                break
        return self.found(self.settled(), -np.inf)

    def _polished(self, duals: Floats) -> Member:
        """Scale rows of the prices, one stratum after the other, as long as the counted charge falls."""
        program, table, source = self.program, self.pool.table, self.sources[0]
        member = Member.of(source, program.prices(duals) * table.correction(source)[:, None])
        belief, prices = table.beliefs[source], member.prices.copy()
        charge = (program.cost + duals @ program.matrix).ravel()
        charged = charges(belief, prices)

        def reached(scores: Floats) -> float:
            halves = table.counted(decide(scores))
            return float(charge @ (halves[0] + halves[1]).ravel())

        if table.strata.n_actions == 2 and table.apart:
            return self._polished_apart(member, charge.reshape(-1, 2))
        least = reached(charged)
        tried = np.flatnonzero(contrasts(prices).any(axis=1))
        if len(tried) > POLISHED:
            tried = self.rng.choice(tried, POLISHED, replace=False)
        for s in tried:
            of_stratum = contrasts(prices)[s]
            used = np.flatnonzero(of_stratum)
            for factor in FACTORS:
                other = charged.copy()
                for a in used:
                    other[a] += (factor - 1.0) * of_stratum[a] * belief[s]
                value = reached(other)
                if value < least - 1e-9:
                    least, charged = value, other
                    prices[s] *= factor
                    break
        return Member.of(source, prices)

    def _polished_apart(self, member: Member, charge: Floats) -> Member:
        """Return the member with the thresholds of told groups where the counted charge of each is least.

        Of two classes a group's rule is a threshold on the source's probability of one of them: from above or
        from below, as the member has it.
        """
        table, prices = self.pool.table, member.prices.copy()
        plain = error().terms(table.strata).linear[0]
        for rows, strata in table.apart:
            sides = contrasts(prices[strata])[:, 0] @ contrasts(plain[strata])[:, 0]
            own = np.sign(sides or 1.0) * plain[strata] / np.abs(plain[strata]).max(initial=1e-300)
            line = Line(
                table,
                charges(table.beliefs[member.source][np.ix_(strata, rows)], own),
                0,
                np.ones(len(rows)),
                rows,
            )
            own[:, 1] += line.least(charge)
            prices[strata] = own
        return Member.of(member.source, prices)
