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

Limits that such a sequence does not serve are tightened step by step, to equal predicted powers: for a probit
z so far that the test of the fresh rows passes with the probability Φ(z), with the noise of both tables. The
rule within the tightest limits is tested first, the one within the stated limits last. The theorem is the
same.

References
----------
.. [1] A. N. Angelopoulos, S. Bates, E. J. Candès, M. I. Jordan and L. Lei, "Learn then Test: Calibrating
   Predictive Algorithms to Achieve Risk Control", Annals of Applied Statistics 19, 2025.
"""

from __future__ import annotations

from contextlib import suppress
from itertools import product

import numpy as np
from scipy.special import log_ndtr, ndtri

from tailboost.core.array_types import Floats, Ints
from tailboost.guarantees.certificates import tested_bounds
from tailboost.guarantees.fresh import ALWAYS, NEVER, Case, Cells, Outcome
from tailboost.rates import InfeasibleLimitsError
from tailboost.selection.table import tightened

# Probits of the predicted probability of passing all tests, along the sequence.
STEPS = np.r_[ALWAYS, np.arange(3.5, -1.31, -0.3)]
# Least probit of the likeliest rule: below it tighter limits are tried.
WORTHWHILE = -2.0
# The same of each limit, where limits are tightened.
TIGHTER = np.arange(3.5, -1.31, -0.6)
PRICES = np.linspace(0.0, 1.0, 101)
LAST = (
    "The rule is the last one before a failure in a sequence fixed before these rows were used"
)
PASSES = 3  # over all cuts, in the search for a better rule

#: Places with a sequence of their own, and its rules, shape (K, m, 2).
Path = tuple[list[int], Ints]


def path_of(case: Case, places: list[int], level: float) -> tuple[Ints, float]:
    """Return rules of some places in the order of their tests, (K, m, 2), and the log of the largest power.

    The search starts from equal cuts, common prices and equal shares of compared groups. At every second
    step all values of one cut after the other are tried.
    """
    here = np.isin(case.cells.place, places)
    cells = Cells(case.cells.rows * here[:, None], case.cells.place * (len(places) > 1))
    tests = [part for test in case.tests for part in test.in_places(places)]
    values = np.arange(cells.end + 1)

    def loss(cuts: Ints) -> Floats:
        return np.tensordot(cells.answered(cuts), case.losses, ((1, 2), (0, 1)))

    def log_power(cuts: Ints) -> Floats:
        answered, possible = cells.answered(cuts), cells.possible(cuts)
        z = np.hstack([test.probits(answered, possible, case.ratio, level) for test in tests])
        powers = np.where(z >= ALWAYS, 0.0, log_ndtr(z)).sum(axis=1)
        return np.where((z <= NEVER).any(axis=1), -np.inf, powers)

    equal = np.repeat(values[:, None], len(places), axis=1)
    at_prices = np.stack(
        [np.searchsorted(each, PRICES) for each in case.odds.chances[places]], axis=1
    )
    alike = []
    for test in tests:
        if test.limit.compares:
            wrong, rows = test.counts(cells.answered(np.repeat(equal[:, :, None], 2, axis=2)))
            shares = (wrong / np.maximum(rows, 1e-12)) @ test.places  # by place
            alike.append(np.abs(shares[None] - PRICES[:, None, None]).argmin(axis=1))
    bands = np.unique(np.vstack([equal, at_prices, *alike]), axis=0)
    cuts = np.repeat(bands[:, :, None], 2, axis=2)
    sides = [[0, 1]]  # cuts that move together
    if case.defers:
        at_doubts = np.stack([at_prices, at_prices[::-1]], axis=2)[: len(PRICES) // 2 + 1]
        cuts = np.concatenate([cuts, at_doubts, [[[0, cells.end]] * len(places)]])
        sides = [[0], [1]]

    powers, losses = log_power(cuts), loss(cuts)
    likeliest = powers[powers < 0.0].max(initial=-np.inf)  # of rules that may fail
    steps = np.where(STEPS >= ALWAYS, powers.max(), np.minimum(log_ndtr(STEPS), likeliest))
    found: list[tuple[float, Ints]] = []
    for number, step in enumerate(steps.tolist()):
        best = np.where(powers >= step, losses, np.inf).argmin()
        least, rule = losses[best], cuts[best]
        moves = [*product(range(len(places)), sides)]
        passes = 0
        if number % 2 == 0:
            passes = min(PASSES, len(moves))  # a single move finds its best cut at once
        for place, moving in moves * passes:
            line = np.repeat(rule[None], len(values), axis=0)
            line[:, place, moving] = values[:, None]
            line = line[line[:, place, 0] <= line[:, place, 1]]
            line = line[loss(line) < least - 1e-12]
            line = line[log_power(line) >= step]
            if len(line):
                least, rule = loss(line).min(), line[loss(line).argmin()]
        if not found or least < found[-1][0]:
            found.append((least, rule))
    return np.stack([rule for _, rule in found]), float(powers.max())


# -- the procedure -----------------------------------------------------------------------------------------


def applies(case: Case) -> list[Path]:
    """Return the rules on one score to test; none if they are not likely to keep all limits.

    Rows are in one of the groups that a limit compares. A share across groups with thresholds by group needs
    prices by group, which the starts lack.
    """
    if case.odds is None:
        return []
    m = case.n_places
    compared = [case.fresh.samples(limit.rate) for limit in case.limits if limit.compares]
    across = m > 1 and any(limit.rate.kind == "representation" for limit in case.limits)
    if across or not all(map(case.fresh.are_apart, compared)):
        return []
    is_alone = all(
        not test.limit.compares and (test.places.sum(axis=1) == 1).all() for test in case.tests
    )
    parts = [list(range(m))]
    if is_alone:
        parts = [[place] for place in range(m)]
    paths = []
    for places in parts:
        rules, power = path_of(case, places, case.level / len(parts))
        if power < log_ndtr(WORTHWHILE):
            return []
        paths.append((places, rules))
    return paths


def run(case: Case, paths: list[Path]) -> Outcome:
    """Return the last rule before the first failure, of each sequence."""
    if not paths:
        return _within_tightened(case)
    level = case.level / len(paths)
    fresh = Cells(case.cells.rows[:1], case.fresh_place)
    cuts = np.zeros((case.n_places, 2), dtype=np.intp)
    for places, rules in paths:
        cuts[places] = rules[0]
    first = cuts.copy()
    for places, rules in paths:
        tests = [part for test in case.fresh_tests for part in test.in_places(places)]
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
    made = f"{LAST}."
    if len(paths) > 1:
        made = f"{LAST}, for each of {len(paths)} groups alone."
    rule = case.rule(cuts)
    return Outcome(case.fresh.by(rule), case.level, made, rule, "fixed sequence")


def _within_tightened(case: Case) -> Outcome:
    """Return the last rule before the first failure, within tightened limits."""
    plain = case.selection.within(case.limits)
    noise = np.sqrt(
        plain.n_rows / (case.fresh.n_clusters or len(case.fresh))
    )  # of the fresh rows, by that of the selecting rows
    rules = []
    for step in TIGHTER.tolist():
        n_deviations = max(0.0, step * np.hypot(1.0, noise) - ndtri(case.level) * noise)
        tighter = [
            tightened(
                limit, plain.program.strata, plain.counts, plain.engine.spread, n_deviations
            )
            for limit in plain.problem.limits
        ]
        with suppress(InfeasibleLimitsError):
            rule = plain.within(tighter)
            if all(line.rows > 0 for line in rule.estimates):  # no rows certify no rate
                rules.append(rule)
    passed = None
    for rule in [*rules, plain]:
        answered = case.fresh.by(rule)
        bounds = tested_bounds(case.limits, answered, case.level)
        if any(bound.certified is False for bound in bounds):
            break
        passed = (answered, rule)
    if passed is None:
        return Outcome(answered, case.level)
    answered, rule = passed
    within = "; ".join(map(str, rule.problem.limits))
    made = f"{LAST}. It was selected within {within}."
    return Outcome(answered, case.level, made, rule, "fixed sequence")
