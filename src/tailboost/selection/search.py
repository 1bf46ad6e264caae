"""The search for candidates: first ones for an objective, and further ones within limits."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from scipy.special import softmax

from tailboost.core.array_types import Floats, Ints
from tailboost.core.long_work import one_blas_thread
from tailboost.selection.data import (
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
    SLIGHT,
    Best,
    Program,
    best_in_pool,
    charge_of,
    grow,
)

# More than the rounding error of a sum of weights.
SUM_ROUNDING = 1e-12
# Learning rate of Hedge, its rounds for each share of `ERROR_SHARES`, the rounds between new candidates. 80
# rounds instead of 20 changed the cost by −.0000 ± .0008 (25 tables, 3 splits).
HEDGE_RATE = 1.0
HEDGE_ROUNDS = 20
EVERY = 2
# Shares of the overall error in the action costs. With all five the worst subgroup within budgets is
# .044 ± .026 lower than with one, and .011 ± .010 lower than with two (25 tables, 3 splits). Column
# generation in place of Hedge errs .0037 ± .0021 more; its largest rate is .012 ± .016 lower (13 tables).
ERROR_SHARES = (0.0, 0.5, 0.75, 0.875, 0.9375)
# Thresholds are moved from the best candidates by objective and violations, and the heaviest ones of the best
# mixture, also towards its heaviest ones. On 343 problems the objective plus the excess over limits on fresh
# rows was .0017 ± .0014 lower than with random lines; within odds gaps the error was .014 ± .019 higher, and
# the excess .022 ± .036 lower (12 problems).
BEST_STARTS = 3
MIXED_STARTS = 2
TARGETS = 4
# The most passes over all lines from a start, and the most lines from all starts.
PASSES = 3
MOST_LINES = 600
# The most thresholds on a line, and the most confusion counts at them. With many thresholds the counts of
# more than `MOST_ANSWERS` answers fit noise.
MOST_THRESHOLDS = 2_000
MOST_CELLS = 2_000_000
MOST_ANSWERS = 3
FEW_THRESHOLDS = 80
# Added to the objective of rules that break limits: any rule within the limits is better.
BROKEN = 10.0
# The least improvement: smaller ones are rounding.
BETTER = 1e-9
# Relative range of the moves of rows below which they are equal.
ALIKE = 0.01


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

    Parameters
    ----------
    data : selection data
        The rows.
    program : Program
        The objective, with limits on deferral if there are any.
    """
    pool = Pool(data)
    pool.add_all([Candidate.from_costs(plain_costs(data)), Candidate.from_costs(program.plain)])
    if program.objective.worst:
        add_by_hedge(pool, program)
    pool.constants()
    _add_with_full_deferral(pool, program)
    return pool


def best_by_search(pool: Pool, program: Program) -> Best:
    """Return the best rule within limits.

    The rule of least expected cost is selected without a search if it keeps all limits; for a largest rate
    without limits, the best first candidate. Otherwise candidates are added by column generation. Then their
    thresholds are moved along lines of exactly counted rules.

    Parameters
    ----------
    pool : Pool
        The candidates so far, which gets further ones if they can help.
    program : Program
        The objective and the limits.
    """
    objective = program.objective
    if objective.worst:
        # Without limits a search lowers the largest rate of the selection data, but not of fresh rows.
        best = best_in_pool(pool, program.within(()))
        if (program.violations(best.counts) <= SLIGHT).all():
            return best_in_pool(pool, program, among=best.numbers.tolist())
    # The best rule for a ratio depends on the reached level, and the stratum does not tell the cost of a row.
    if not (objective.worst or objective.rate.is_ratio or objective.rate.needs_costs):
        least_cost = Candidate.from_costs(program.plain)
        number = pool.add(with_full_deferral(pool, program, least_cost))
        if program.violations(pool.counts[number]).max(initial=0.0) <= SLIGHT:
            return best_in_pool(pool, program, among=[number])

    solution = grow(pool, program)
    _add_with_full_deferral(pool, program)
    charge = charge_of(solution)
    charged = _charged(program, pool.all_counts, charge)
    heaviest = np.argsort(-solution.weights, kind="stable")[:TARGETS].tolist()
    starts = [
        0,
        *np.argsort(charged, kind="stable")[:BEST_STARTS].tolist(),
        *heaviest[:MIXED_STARTS],
    ]
    targets = [pool.candidates[i] for i in heaviest if solution.weights[i] > LEAST_WEIGHT]
    if targets:
        weights = solution.weights[heaviest[: len(targets)]]
        average = np.tensordot(weights, [target.action_costs for target in targets], axes=1)
        starts.append(pool.add(Candidate.from_costs(average)))
    descent = Descent(pool, program, targets, charge)
    for start in dict.fromkeys(starts):
        descent.walk(start)
    return best_in_pool(pool, program)


def _charged(program: Program, counts: Floats, charge: float) -> Floats:
    """Return the objective of confusion counts (T, W, A), with a charge for violations; shape (T,)."""
    value, violation = program.evaluate(counts)
    return np.where(violation <= SLIGHT, value, BROKEN + value + charge * violation)


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


# -- descent along lines of action costs; all thresholds on a line are counted at once ----------------------


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
    moving = np.flatnonzero(direction)
    direction = direction[moving]
    if A == 2:  # the costs are those of the second action, less those of the first
        action = 1
        alternative = np.zeros(len(costs[0]), dtype=np.intp)
        saving = 0.0 - costs[0]  # of the action, beside its cheapest alternative
    else:
        other_costs = costs.copy()
        other_costs[action] = np.inf
        alternative = other_costs.argmin(axis=0)
        saving = other_costs[alternative, np.arange(len(alternative))] - costs[action]
    change = saving[moving] / direction  # δ at which a row changes its action
    thresholds = _thresholds_between(np.unique(change), max_thresholds)
    if not len(thresholds):
        return thresholds, np.zeros((0, len(data.strata.mass), A))

    before = np.where(saving > 0, action, alternative)  # of rows that never change
    takes_first = direction > 0  # whether a row takes the action at smaller δ
    before[moving] = np.where(takes_first, action, alternative[moving])
    after = np.where(takes_first, alternative[moving], action)
    first_after = np.searchsorted(thresholds, change, side="right")
    return thresholds, _counts_after_changes(
        data, before, moving, after, first_after, len(thresholds)
    )


def _counts_after_changes(
    data: SelectionData,
    before: Ints,
    moving: Ints,
    after: Ints,
    first_after: Ints,
    n_thresholds: int,
) -> Floats:
    """Return the confusion counts at each of T thresholds, if m of the rows change their action once.

    Parameters
    ----------
    before : ndarray of int, shape (n,)
        The action of each row before any change.
    moving : ndarray of int, shape (m,)
        The rows that change their action.
    after : ndarray of int, shape (m,)
        Their action after the change.
    first_after : ndarray of int, shape (m,)
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
    cell_after = data.stratum[moving] * A + after
    at_change = first_after * size

    # What an entry adds with either action: its weight and, in the second half of counts, its cost.
    weights = [(data.weights, data.weights[moving])]
    if data.costs is not None:
        rows = np.arange(len(before))
        cost_before = data.weights * data.costs[rows, before]
        cost_after = data.weights[moving] * data.costs[moving, after]
        weights.append((cost_before, cost_after))

    counts = []
    for weight_before, weight_after in weights:
        at_first = np.bincount(cell_before, weight_before, size)
        changes = np.bincount(at_change + cell_after, weight_after, n_cells)
        changes -= np.bincount(at_change + cell_before[moving], weight_before[moving], n_cells)
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


class Descent:
    """A descent to the best rule within limits along lines: rules with another cost of one action.

    A line changes this cost in all rows, or in one combination of groups. All rules on a line are counted,
    and the best one is kept. For group-aware rules of two labels without limits on joined groups, no other
    thresholds keep the limits with a smaller objective.

    Parameters
    ----------
    pool : Pool
        Gets the best rules.
    program : Program
        The objective and the limits.
    targets : sequence of Candidate
        Rules towards which further lines lead.
    charge : float
        Cost of a violation of 1.
    """

    def __init__(
        self, pool: Pool, program: Program, targets: Sequence[Candidate], charge: float
    ) -> None:
        self.pool = pool
        self.targets = [contrasts(target.action_costs) for target in targets]
        self.program = program
        self.charge = charge
        self.lines_left = MOST_LINES
        self.max_thresholds = FEW_THRESHOLDS
        if program.strata.n_actions <= MOST_ANSWERS:
            by_cells = MOST_CELLS // pool.counts[0].size
            self.max_thresholds = min(MOST_THRESHOLDS, max(FEW_THRESHOLDS, by_cells))
        n_combinations = program.strata.n_combinations
        combination = np.arange(len(program.strata.mass)) % n_combinations  # of each stratum
        # Which strata each line moves, shape (S,), and the change of the cost in each row for a move by 1.
        self.lines: list[tuple[Floats, Floats]] = []
        for number in range(-1 if n_combinations > 1 else 0, n_combinations):
            by_stratum = ((combination == number) | (number == -1)).astype(np.float64)
            by_row = self._by_row(by_stratum)
            # If the rows hardly tell the combination, its line is that of all rows.
            if number == -1 or n_combinations == 1 or np.ptp(by_row) > ALIKE * by_row.max():
                self.lines.append((by_stratum, by_row))

    def walk(self, start: int) -> None:
        """Add the candidates after passes over all lines, from a candidate by its number."""
        pool = self.pool
        candidate = with_full_deferral(pool, self.program, pool.candidates[start])
        least = np.inf
        for _ in range(PASSES):
            candidate = self._after_pass(candidate)
            number = pool.add(candidate)
            (reached,) = _charged(self.program, pool.counts[number][None], self.charge)
            if reached >= least - BETTER:
                return
            least = reached

    def _after_pass(self, candidate: Candidate) -> Candidate:
        """Return a candidate after the best move of each action on each line in turn."""
        data = self.pool.data
        costs = contrasts(candidate.action_costs).copy()
        expected = expected_costs(data.probabilities, candidate.action_costs)
        for action, by_stratum, by_row in self._lines_from(costs):
            if not self.lines_left:
                break
            self.lines_left -= 1
            moves, counts = counts_on_line(data, expected, action, by_row, self.max_thresholds)
            if len(moves):
                move = moves[_charged(self.program, counts, self.charge).argmin()]
                costs[:, action] += move * by_stratum
                expected[action] += move * by_row
        return Candidate.from_costs(from_contrasts(costs))

    def _lines_from(self, costs: Floats) -> Iterator[tuple[int, Floats, Floats]]:
        """Yield the action, strata and rows of each line from `contrasts`, which may change meanwhile."""
        actions = range(costs.shape[1])
        for by_stratum, by_row in self.lines:
            for action in actions:
                yield action, by_stratum, by_row
        for target in self.targets:
            for action in actions:
                by_stratum = target[:, action] - costs[:, action]
                yield action, by_stratum, self._by_row(by_stratum)

    def _by_row(self, by_stratum: Floats) -> Floats:
        """Return the expected change of a cost in each row, shape (n,), from its change by stratum."""
        (by_row,) = expected_costs(
            self.pool.data.probabilities, from_contrasts(by_stratum[:, None])
        )
        return by_row
