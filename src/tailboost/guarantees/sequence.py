"""One fixed sequence: rules on one score in the order of the predicted probability of passing all tests.

A rule has two cuts for each group with thresholds, or for all rows: values of the score below the first cut
get the first label, from the second cut on the second label, and between them a human decides. For each step
from a high to a low predicted probability of passing all tests, the sequence has the rule of least loss among
those that are so likely. The selecting rows alone fix it.

Theorem (fixed sequence; Learn then Test [1]_). Rules are tested in this order for all limits, each at the
whole level, up to the first failure; the last passing rule is certified. Let r be the first rule that breaks
a limit. A broken rule is returned only if r passed the test of the limit that it breaks: with a probability
of at most the level. Nothing is divided between rules or limits. Any sequence is valid, so the search below
cannot break it.

If each limit concerns groups one by one, with a threshold each, then each of m groups has its own sequence at
the level divided by m (union bound). Rules that keep limits by construction come first, so a group whose
tests fail keeps one answer, if that keeps its limits.

References
----------
.. [1] A. N. Angelopoulos, S. Bates, E. J. Candès, M. I. Jordan and L. Lei, "Learn then Test: Calibrating
   Predictive Algorithms to Achieve Risk Control", Annals of Applied Statistics 19, 2025.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np
from scipy.special import log_ndtr

from tailboost.core.array_types import Floats, Ints
from tailboost.guarantees.case import Case, Cells, Outcome
from tailboost.guarantees.tests import ALWAYS, NEVER, Tests

# Probits of the predicted probability of passing all tests, along the sequence.
STEPS = np.r_[ALWAYS, np.arange(3.5, -1.31, -0.3)]
# Least probit of the likeliest rule: below it tighter limits are tried.
WORTHWHILE = -2.0
PRICES = np.linspace(0.0, 1.0, 101)
PASSES = 3  # over all cuts, in the search for a better rule

#: Places with a sequence of their own, and its rules, shape (K, m, 2).
Path = tuple[list[int], Ints]


@dataclass(frozen=True, eq=False)
class Search:
    """Rules on the values of a score, with their losses and predicted powers on the selection data.

    Attributes
    ----------
    cells : Cells
        Selecting rows by stratum and value, half of them by expected labels.
    chances : ndarray of shape (m, V)
        Probability of the second label at each value in each place.
    losses : ndarray of shape (S, 3)
        The loss of each answer.
    tests : sequence of Tests
        The limits.
    ratio, level : float
        Fresh rows by selection rows, and the level of each test.
    defers : bool
        Whether rows may be deferred.
    """

    cells: Cells
    chances: Floats
    losses: Floats
    tests: Sequence[Tests]
    ratio: float
    level: float
    defers: bool

    @property
    def n_places(self) -> int:
        """Number m of pairs of cuts."""
        return int(self.cells.place.max()) + 1

    def loss(self, cuts: Ints) -> Floats:
        """Return the loss of each rule, shape (K,)."""
        return np.tensordot(self.cells.answered(cuts), self.losses, ((1, 2), (0, 1)))

    def log_power(self, cuts: Ints) -> Floats:
        """Return the logarithm of the predicted probability of passing all tests, shape (K,)."""
        answered, possible = self.cells.answered(cuts), self.cells.possible(cuts)
        z = np.hstack(
            [test.probits(answered, possible, self.ratio, self.level) for test in self.tests]
        )
        powers = np.where(z >= ALWAYS, 0.0, log_ndtr(z)).sum(axis=1)
        return np.where((z <= NEVER).any(axis=1), -np.inf, powers)

    def path(self) -> tuple[Ints, float]:
        """Return the rules in the order of their tests, (K, m, 2), and the logarithm of the largest power."""
        cuts = self.starts()
        powers, losses = self.log_power(cuts), self.loss(cuts)
        found: list[tuple[float, Ints]] = []
        likeliest = powers[powers < 0.0].max(initial=-np.inf)  # of rules that may fail
        steps = np.where(STEPS >= ALWAYS, powers.max(), np.minimum(log_ndtr(STEPS), likeliest))
        for number, step in enumerate(steps.tolist()):
            best = np.where(powers >= step, losses, np.inf).argmin()
            loss, rule = float(losses[best]), cuts[best]
            if number % 2 == 0:
                loss, rule = self.descended(loss, rule, step)
            if not found or loss < found[-1][0]:
                found.append((loss, rule))
        return np.stack([rule for _, rule in found]), float(powers.max())

    def descended(self, loss: float, rule: Ints, step: float) -> tuple[float, Ints]:
        """Return less loss and its rule, after searches over one cut at a time at a power of the step."""
        values = np.arange(self.cells.end + 1)
        sides = [[0], [1]] if self.defers else [[0, 1]]  # cuts that move together
        for place, moving in [*product(range(self.n_places), sides)] * PASSES:
            line = np.repeat(rule[None], len(values), axis=0)
            line[:, place, moving] = values[:, None]
            line = line[line[:, place, 0] <= line[:, place, 1]]
            line = line[self.loss(line) < loss - 1e-12]
            line = line[self.log_power(line) >= step]
            if len(line):
                losses = self.loss(line)
                loss, rule = float(losses.min()), line[losses.argmin()]
        return loss, rule

    # -- starts --------------------------------------------------------------------------------------

    def starts(self) -> Ints:
        """Return rules with equal cuts, at common prices, and of equal shares."""
        values = np.arange(self.cells.end + 1)
        equal = np.repeat(values[:, None], self.n_places, axis=1)
        at_prices = np.stack([np.searchsorted(each, PRICES) for each in self.chances], axis=1)
        alike = [self._equal_shares(test) for test in self.tests if test.limit.compares]
        cuts = np.unique(np.vstack([equal, at_prices, *alike]), axis=0)
        bands = np.stack([cuts, cuts], axis=2)
        if not self.defers:
            return bands
        at_doubts = np.stack([at_prices, at_prices[::-1]], axis=2)[: len(PRICES) // 2 + 1]
        all_deferred = np.array([[[0, self.cells.end]] * self.n_places])
        return np.concatenate([bands, at_doubts, all_deferred])

    def _equal_shares(self, test: Tests) -> Ints:
        """Return cuts at which all compared groups have the nearest shares to common ones, (k, m)."""
        values = np.arange(self.cells.end + 1)
        every = np.repeat(np.repeat(values[:, None, None], self.n_places, axis=1), 2, axis=2)
        wrong, rows = test.counts(self.cells.answered(every))
        shares = (wrong / np.maximum(rows, 1e-12)) @ test.places(self.cells.place)  # by place
        nearest: Ints = np.abs(shares[None] - PRICES[:, None, None]).argmin(axis=1)
        return nearest


# -- the procedure -----------------------------------------------------------------------------------------


def applies(case: Case) -> list[Path] | None:
    """Return the rules on one score to test; None if they are not likely to keep all limits.

    Rows are in one of the groups that a limit compares. A share across groups with thresholds by group needs
    prices by group, which the starts lack.
    """
    if case.odds is None:
        return None
    m = case.n_places
    compared = [case.fresh.samples(limit.rate) for limit in case.limits if limit.compares]
    across = m > 1 and any(limit.rate.kind == "representation" for limit in case.limits)
    if across or not all(map(case.fresh.are_apart, compared)):
        return None
    is_alone = all(
        not test.limit.compares and (test.places(case.cells.place).sum(axis=1) == 1).all()
        for test in case.tests
    )
    paths = []
    for places in [[place] for place in range(m)] if is_alone else [list(range(m))]:
        here = np.isin(case.cells.place, places)
        place = np.zeros_like(case.cells.place) if is_alone else case.cells.place
        search = Search(
            cells=Cells(case.cells.rows * here[:, None], place),
            chances=case.odds.chances[places],
            losses=case.losses,
            tests=[part for t in case.tests for part in t.in_places(case.cells.place, places)],
            ratio=case.ratio,
            level=case.level / (m if is_alone else 1),
            defers=case.defers,
        )
        rules, power = search.path()
        if power < log_ndtr(WORTHWHILE):
            return None
        paths.append((places, rules))
    return paths


def run(case: Case, paths: list[Path]) -> Outcome:
    """Return the last rule before the first failure, of each sequence."""
    level = case.level / len(paths)
    fresh = Cells(case.cells.rows[:1], case.fresh_place)
    cuts = np.zeros((case.n_places, 2), dtype=np.intp)
    for places, rules in paths:
        cuts[places] = rules[0]
    first = cuts.copy()
    for places, rules in paths:
        tests = [
            part for t in case.fresh_tests for part in t.in_places(case.fresh_place, places)
        ]
        passed = None
        for rule in rules:
            cuts[places] = rule
            if not case.passes(
                case.answered_by(cuts), tests, fresh.possible(cuts[None]), level
            ):
                break
            passed = rule
        if passed is None:
            return Outcome(case.answered_by(first), level)
        cuts[places] = passed
    made = "The rule is the last one before a failure in a sequence fixed before these rows were used"
    made += f", for each of {len(paths)} groups alone." if len(paths) > 1 else "."
    return case.certified(case.rule(cuts), "fixed sequence", made)
