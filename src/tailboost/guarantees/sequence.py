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
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from scipy.special import log_ndtr

from tailboost.core.array_types import Floats, Ints, Mask
from tailboost.guarantees.case import ONE_ANSWER, Case, Certified, Refused
from tailboost.guarantees.tests import ALWAYS, FIRST, NEVER, SECOND, Tests

# Probits of the predicted probability of passing all tests, along the sequence.
STEPS = np.r_[ALWAYS, np.arange(3.5, -1.31, -0.3)]
# Least probit of the likeliest rule: below it tighter limits are tried.
WORTHWHILE = -2.0
PRICES = np.linspace(0.0, 1.0, 101)
PASSES = 3  # over all cuts, in the search for a better rule
RULES_AT_ONCE = 4_096

#: The rules of each group with a sequence of its own, shape (K, m, 2), by the numbers of its places.
Paths = dict[tuple[int, ...], Ints]


@dataclass(frozen=True, eq=False)
class Search:
    """Rules on the values of a score, with their losses and predicted powers on the selection data.

    Attributes
    ----------
    weights : ndarray of shape (S, V)
        Selection rows by stratum and value, half of them by expected labels.
    place : ndarray of shape (S,)
        Number of the pair of cuts of each stratum.
    chances : ndarray of shape (V,)
        Probability of the second label at each value.
    losses : ndarray of shape (S, 3)
        The loss of each answer.
    tests : sequence of Tests
        The limits.
    ratio, level : float
        Fresh rows by selection rows, and the level of each test.
    defers : bool
        Whether rows may be deferred.
    """

    weights: Floats
    place: Ints
    chances: Floats
    losses: Floats
    tests: Sequence[Tests]
    ratio: float
    level: float
    defers: bool

    @property
    def n_places(self) -> int:
        """Number m of pairs of cuts."""
        return int(self.place.max()) + 1

    @property
    def end(self) -> int:
        """V: a cut above all values."""
        return self.weights.shape[1]

    @cached_property
    def _below(self) -> Floats:
        sums = self.weights.cumsum(axis=1)
        return np.hstack([np.zeros((len(sums), 1)), sums])

    def answered(self, cuts: Ints) -> Floats:
        """Return the weight of each stratum with each answer, (K, S, 3), of rules with cuts of (K, m, 2)."""
        strata = np.arange(len(self.place))
        low, high = (self._below[strata, cuts[:, self.place, side]] for side in (0, 1))
        return np.stack([low, self._below[:, -1] - high, high - low], axis=2)

    def possible(self, cuts: Ints, place: Ints) -> Floats:
        """Return 1 for each answer that rows of a stratum can get, whatever their value, (K, S, 3)."""
        low, high = cuts[:, place, 0], cuts[:, place, 1]
        return np.stack([low > 0, high < self.end, low < high], axis=2).astype(np.float64)

    def loss(self, cuts: Ints) -> Floats:
        """Return the loss of each rule, shape (K,)."""
        return np.tensordot(self.answered(cuts), self.losses, ((1, 2), (0, 1)))

    def log_power(self, cuts: Ints) -> Floats:
        """Return the logarithm of the predicted probability of passing all tests, shape (K,)."""
        parts = []
        for part in np.array_split(cuts, len(cuts) // RULES_AT_ONCE + 1):
            answered, possible = self.answered(part), self.possible(part, self.place)
            probits = [
                t.probits(answered, possible, self.ratio, self.level) for t in self.tests
            ]
            z = np.hstack(probits)
            powers = np.where(z >= ALWAYS, 0.0, log_ndtr(z)).sum(axis=1)
            parts.append(np.where((z <= NEVER).any(axis=1), -np.inf, powers))
        return np.concatenate(parts)

    def path(self) -> tuple[Ints, float]:
        """Return the rules in the order of their tests, (K, m, 2), and the logarithm of the largest power."""
        cuts = self.starts()
        powers, losses = self.log_power(cuts), self.loss(cuts)
        found: list[tuple[float, Ints]] = []
        likeliest = powers[powers < 0.0].max(initial=-np.inf)  # of rules that may fail
        steps = np.where(STEPS >= ALWAYS, powers.max(), np.minimum(log_ndtr(STEPS), likeliest))
        for number, step in enumerate(steps.tolist()):
            best = _best(losses, powers, step)
            loss, rule = float(losses[best]), cuts[best]
            if number % 2 == 0:
                loss, rule = self.descended(loss, rule, step)
            if not found or loss < found[-1][0]:
                found.append((loss, rule))
        return np.stack([rule for _, rule in found]), float(powers.max())

    def descended(self, loss: float, rule: Ints, step: float) -> tuple[float, Ints]:
        """Return less loss and its rule, after searches over one cut at a time at a power of the step."""
        values = np.arange(self.end + 1)
        for _ in range(PASSES):
            before = loss
            for place in range(self.n_places):
                for sides in ((0,), (1,)) if self.defers else ((0, 1),):
                    line = np.repeat(rule[None], len(values), axis=0)
                    for side in sides:
                        line[:, place, side] = values
                    line = line[line[:, place, 0] <= line[:, place, 1]]
                    losses = self.loss(line)
                    better = losses < loss - 1e-12
                    if not better.any():
                        continue
                    powers = np.full(len(line), -np.inf)
                    powers[better] = self.log_power(line[better])
                    best = np.where(powers >= step, losses, np.inf).argmin()
                    if powers[best] >= step:
                        loss, rule = float(losses[best]), line[best]
            if loss == before:
                break
        return loss, rule

    # -- starts --------------------------------------------------------------------------------------

    def starts(self) -> Ints:
        """Return rules with equal cuts, at common prices within the loosest cuts, and of equal shares."""
        values = np.arange(self.end + 1)
        equal = np.repeat(values[:, None], self.n_places, axis=1)
        prices = np.searchsorted(self.chances, PRICES)
        at_prices = np.repeat(prices[:, None], self.n_places, axis=1)
        found = [equal]
        loosest = self._loosest()
        if loosest is not None:
            within = at_prices[None].clip(
                loosest[:, None, :, SECOND], loosest[:, None, :, FIRST]
            )
            found.append(within.reshape(-1, self.n_places))
        found += [self._equal_shares(t) for t in self.tests if t.limit.compares]
        cuts = np.unique(np.vstack(found), axis=0)
        bands = np.stack([cuts, cuts], axis=2)
        if not self.defers:
            return bands
        at_doubts = np.stack([at_prices, at_prices[::-1]], axis=2)[: len(PRICES) // 2 + 1]
        all_deferred = np.array([[[0, self.end]] * self.n_places])
        return np.concatenate([bands, at_doubts, all_deferred])

    def _loosest(self) -> Ints | None:
        """Return the loosest cuts at each step by the limits on one answer to rows of one place, (k, m, 2).

        The last number tells the answer. None if a single place has all rows: the cuts are all tried then.
        """
        if self.n_places == 1:
            return None
        loosest = np.zeros((len(STEPS), self.n_places, 2), dtype=np.intp)
        loosest[..., FIRST] = self.end
        every = np.repeat(np.arange(self.end + 1)[:, None], self.n_places, axis=1)
        every = np.stack([every, every], axis=2)
        for test in self.tests:
            if test.limit.compares:
                continue
            probits = test.probits(
                self.answered(every), self.possible(every, self.place), self.ratio, self.level
            )
            against = test.wrong.max(axis=1) > 0
            for j, places in enumerate(test.places(self.place)):
                if places.sum() != 1 or against[j].sum() != 1:
                    continue
                place = int(places.argmax())
                reaches = probits[:, j] >= STEPS[:, None]  # (steps, V + 1)
                if against[j, FIRST]:
                    last = np.where(reaches, np.arange(self.end + 1), 0).max(axis=1)
                    loosest[:, place, FIRST] = np.minimum(loosest[:, place, FIRST], last)
                if against[j, SECOND]:
                    first = np.where(reaches, np.arange(self.end + 1), self.end).min(axis=1)
                    loosest[:, place, SECOND] = np.maximum(loosest[:, place, SECOND], first)
        return np.unique(loosest, axis=0)

    def _equal_shares(self, test: Tests) -> Ints:
        """Return cuts at which all compared groups have the nearest shares to common ones, (k, m)."""
        values = np.arange(self.end + 1)
        every = np.repeat(np.repeat(values[:, None, None], self.n_places, axis=1), 2, axis=2)
        wrong, rows = test.counts(self.answered(every))
        shares = (wrong / np.maximum(rows, 1e-12)) @ test.places(self.place)  # by place
        wished = PRICES[:, None, None]
        nearest: Ints = np.abs(shares[None] - wished).argmin(axis=1)
        return nearest


def _best(losses: Floats, powers: Floats, step: float) -> int:
    """Return the number of the rule of least loss among those as likely as a step."""
    return int(np.where(powers >= step, losses, np.inf).argmin())


# -- the procedure -----------------------------------------------------------------------------------------


def search_of(case: Case, tests: Sequence[Tests], level: float) -> Search:
    """Return the search among rules on the selection data for some tests."""
    odds = case.odds
    assert case.losses is not None
    return Search(
        weights=odds.weights,
        place=odds.places,
        chances=odds.chances[0],
        losses=case.losses,
        tests=tests,
        ratio=case.ratio,
        level=level,
        defers=bool(odds.data.strata.defers),
    )


def applies(case: Case) -> Paths | None:
    """Return the rules on one score to test; None if they are not likely to keep all limits.

    Rows are in one of the groups that a limit compares. A share across groups with thresholds by group needs
    prices by group, which the starts lack.
    """
    if case.odds is None or case.losses is None or case.tests is None:
        return None
    several = len(np.unique(case.odds.places)) > 1
    if several and any(limit.rate.is_across for limit in case.limits):
        return None
    compared = [case.fresh.samples(limit.rate) for limit in case.limits if limit.compares]
    if not all(map(case.fresh.are_apart, compared)):
        return None
    m = int(case.odds.places.max()) + 1
    places = [test.places(case.odds.places) for test in case.tests]
    apart = m > 1 and all(
        not test.limit.compares and bool((of_test.sum(axis=1) == 1).all())
        for test, of_test in zip(case.tests, places, strict=True)
    )
    paths = {}
    for unit in [(place,) for place in range(m)] if apart else [tuple(range(m))]:
        own = [
            test.taken(np.asarray(of_test[:, list(unit)].any(axis=1)))
            for test, of_test in zip(case.tests, places, strict=True)
        ]
        search = search_of(case, [test for test in own if test.names], case.level)
        if apart:
            here = (search.place == unit[0])[:, None]
            search = replace(
                search,
                weights=search.weights * here,
                place=np.zeros_like(search.place),
                level=case.level / m,
            )
        paths[unit], power = search.path()
        if power < log_ndtr(WORTHWHILE):
            return None
    return paths


def run(case: Case, paths: Paths) -> Certified | Refused:
    """Return the last rule before the first failure, of each sequence."""
    odds = case.odds
    place = odds.places_of(case.fresh.answered.strata)
    passed: dict[tuple[int, ...], int | None] = dict.fromkeys(paths)
    alive = set(paths)
    step = 0
    first = None
    search = search_of(case, (), case.level)
    while alive:
        cuts = np.zeros((int(odds.places.max()) + 1, 2), dtype=np.intp)
        for unit, path in paths.items():
            number = step if unit in alive else passed[unit] or 0
            cuts[list(unit)] = path[number]
        answered = case.fresh.by(_rule(case, cuts))
        first = first or answered
        possible = search.possible(cuts[None], place)
        for unit in tuple(alive):
            level = case.level / len(paths)
            if _passes(case, answered, possible, np.isin(place, unit), level):
                passed[unit] = step
            else:
                alive.discard(unit)
        step += 1
        alive = {unit for unit in alive if step < len(paths[unit])}
    if None in passed.values():
        assert first is not None
        level = case.level / len(paths)
        return Refused(
            first, levels={(t.limit, name): level for t in case.fresh_tests for name in t.names}
        )
    for unit, path in paths.items():
        cuts[list(unit)] = path[passed[unit]]
    rule = _rule(case, cuts)
    if len(np.unique(case.fresh.by(rule).answered.actions)) == 1:
        return Refused(case.fresh.by(rule), ONE_ANSWER)
    made = "The rule is the last one before a failure in a sequence fixed before these rows were used"
    made += f", for each of {len(paths)} groups alone." if len(paths) > 1 else "."
    return Certified(rule, "fixed sequence", made)


def _rule(case: Case, cuts: Ints) -> object:
    """Return the selection with the rule of cuts, shape (m, 2)."""
    return case.selection.with_candidate(case.odds.candidate(cuts[:, 0], cuts[:, 1]))


def _passes(case: Case, answered: object, possible: Floats, here: Mask, level: float) -> bool:
    """Return whether all tests of rows in some strata pass."""
    for test in case.fresh_tests:
        own = test.taken(np.asarray((test.strata & here).any(axis=1)))
        if own.names:
            wrong, rows = case.counted(answered, own)  # type: ignore[arg-type]
            if not own.passes(wrong, rows, own.kept(possible), level).all():
                return False
    return True
