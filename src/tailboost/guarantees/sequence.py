"""A fixed sequence of rules: on one score, or for limits that no such rules serve, within tightened limits.

Rules on one score have cuts in places, as in `tailboost.guarantees.one_score`. For each step from a high to a
low predicted probability of passing all tests, the sequence has the rule of least loss among those that are
so likely.

1. The selecting rows alone fix the sequence.
2. The fresh rows test its rules in this order for all limits, each at the whole level, up to the first
   failure. The last passing rule is certified.

*Theorem* (fixed sequence; Learn then Test [1]_). The certified rule keeps all limits, except with a
probability of at most the level.

*Proof.* Let r be the first rule that breaks a limit. If the certified rule breaks one, it is r or follows r,
so r has passed the test of the limit that r breaks: with a probability of at most the level. ∎

Nothing is divided between rules or limits. This holds for any sequence that the selecting rows fix, however
well the search below orders it.

If each limit concerns groups one by one, with a threshold each, then each group has its own sequence, at the
level divided by the number of groups with a limit (union bound). The first rule of a sequence is one of the
likeliest: often one answer, which keeps its limits by construction and stands if later tests fail.

A sequence of other rules, within tightened limits, has the same theorem (`within_tighter`).

References
----------
.. [1] A. N. Angelopoulos, S. Bates, E. J. Candès, M. I. Jordan and L. Lei, "Learn then Test: Calibrating
   Predictive Algorithms to Achieve Risk Control", Annals of Applied Statistics 19, 2025.
"""

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from functools import partial
from itertools import combinations_with_replacement, compress, product, takewhile

import numpy as np
from scipy.special import log_ndtr, ndtri

from tailboost.core import Floats, Ints
from tailboost.guarantees.fresh import Fresh
from tailboost.guarantees.one_score import Certified, CountTable, OneScore, Refused, one_cut
from tailboost.guarantees.rate_bounds import all_pass
from tailboost.rates import RATIO, SIGNS, TINY, InfeasibleLimitsError, Limit
from tailboost.selection.selection import Selection
from tailboost.selection.table import counted_rate

METHOD = "fixed sequence"
# Probits of the predicted probability of passing all tests, along the sequence after the likeliest rules.
STEPS = np.arange(3.5, -1.31, -0.3)
# Least probit of the likeliest rule: below it tighter limits are tried.
WORTHWHILE = -2.0
# Of the first rules: common prices, and common rates of compared groups.
HUNDREDTHS = np.linspace(0.0, 1.0, 101)
LAST = (
    "The rule is the last one before a failure in a sequence fixed before these rows were used"
)
UNSURE = np.log(0.99)  # below it likelier rules are searched for
MOVED_TO = 31  # cuts of each group in this search
ROUNDS = 3  # over all cuts, in the search for a better rule


def certified(case: OneScore, level: float) -> Certified | Refused | None:
    """Return the last rule before the first failure; None if no rule is likely to keep all limits.

    The groups of a gap or ratio must have no row in common. A share across groups with thresholds by group
    needs prices by group, which the starts lack.
    """
    for limit in case.selection.problem.limits:
        if limit.compares and not case.fresh.are_apart(case.fresh.samples(limit.rate)):
            return None
        if limit.rate.kind == "representation" and case.selecting.n_places > 1:
            return None
    # 1. The sequence of places that are tested together.
    together = case.division.tested_together
    level *= case.division.level_of_test
    found = [sequence_of(case.selecting.at(places), level) for places in together]
    if min(log_power for _, log_power in found) < log_ndtr(WORTHWHILE):
        return None
    # 2. The tests.
    likeliest = np.concatenate([sequence[0] for sequence, _ in found])
    cuts = likeliest.copy()
    for places, (sequence, _) in zip(together, found, strict=True):
        passing = list(takewhile(partial(passes, case, places, level), sequence))
        if not passing:
            return Refused(case.rule(likeliest))
        cuts[places] = passing[-1]
    words = LAST
    if len(together) > 1:
        words += f", for each of {len(together)} groups alone"
    return Certified(case.rule(cuts), METHOD, f"{words}.")


def passes(case: OneScore, places: Ints, level: float, cuts: Ints) -> bool:
    """Return whether the cuts of some places, (m, 2), pass all tests of these places on the fresh rows."""
    table = case.certifying.at(places)
    everywhere = np.zeros((case.certifying.n_places, 2), int)
    everywhere[places] = cuts
    fresh = case.fresh.by(case.rule(everywhere))
    possible = table.possible(cuts[None])
    return all(
        test.passes(test.counted_votes(fresh, possible), level)[0] for test in table.tests
    )


# -- the search on the selecting rows ------------------------------------------------------------------------


def sequence_of(table: CountTable, level: float) -> tuple[Ints, float]:
    """Return rules in the order of their tests, (K, m, 2), and the log of the largest predicted power.

    Step by step the least predicted power of a rule falls. Each step adds the rule of least loss with so much
    power, if it has less loss than those before; at every second step it is improved cut by cut.
    """
    candidates = starts(table)
    log_powers = table.log_power(candidates, level)
    if log_powers.max() < UNSURE:
        candidates, log_powers = with_likelier(table, candidates, log_powers, level)
    losses = table.loss(candidates)
    largest = log_powers.max()
    largest_unsure = log_powers[log_powers < 0.0].max(initial=-np.inf)  # of rules that may fail
    steps = [largest, *np.minimum(log_ndtr(STEPS), largest_unsure)]
    least_loss = np.inf
    ordered = []
    for number, step in enumerate(steps):
        cuts = candidates[np.where(log_powers >= step, losses, np.inf).argmin()]
        if number % 2 == 0:  # it takes most of the time
            cuts = improved(table, cuts, step, level)
        (loss,) = table.loss(cuts[None])
        if loss < least_loss:  # a rule that is less likely to pass must have less loss
            least_loss = loss
            ordered.append(cuts)
    return np.stack(ordered), largest


def refused(case: OneScore, level: float) -> Refused:
    """Return the likeliest rule, which the selecting rows alone choose."""
    sequence, _ = sequence_of(case.selecting, level)
    return Refused(case.rule(sequence[0]))


def starts(table: CountTable) -> Ints:
    """Return rules with equal cuts, common prices, and equal rates of compared groups, (K, m, 2)."""
    equal = np.tile(np.arange(table.n_bins + 1)[:, None], table.n_places)
    at_prices = table.at_prices(HUNDREDTHS)
    cuts = [equal, at_prices]
    for test in table.tests:
        if test.limit.compares:
            rules = one_cut(equal)
            n_wrong, n_rows, _ = test.counted(table.answered(rules), table.possible(rules))
            rates = (n_wrong / np.maximum(n_rows, 1e-12)) @ test.places  # sums by cut and place
            # The cut of each place whose sum is the nearest one to each hundredth.
            cuts.append(np.abs(rates - HUNDREDTHS[:, None, None]).argmin(axis=1))
    without_deferral = one_cut(np.unique(np.vstack(cuts), axis=0))
    if not table.defers:
        return without_deferral
    # Rules that defer between the prices p and 1 − p, up to a half, and the one that defers all rows.
    at_doubts = np.stack([at_prices, at_prices[::-1]], axis=2)[: len(HUNDREDTHS) // 2 + 1]
    return np.concatenate([without_deferral, at_doubts, [[[0, table.n_bins]] * table.n_places]])


def with_likelier(
    table: CountTable, candidates: Ints, log_powers: Floats, level: float
) -> tuple[Ints, Floats]:
    """Return candidates with moves of the likeliest rule in one place after the other, and log-powers."""
    moves = np.linspace(0, table.n_bins, MOVED_TO).astype(int)
    # A move of one of two cuts may only lose.
    moved = [*combinations_with_replacement(moves, 1 + table.defers)]
    for place in [*range(table.n_places)] * ROUNDS:
        line = np.repeat(candidates[[log_powers.argmax()]], len(moved), axis=0)
        line[:, place] = moved
        candidates = np.concatenate([candidates, line])
        log_powers = np.append(log_powers, table.log_power(line, level))
    return candidates, log_powers


def improved(table: CountTable, cuts: Ints, step: float, level: float) -> Ints:
    """Return cuts of less loss with a log-power of at least a step, by moves of one cut to all bins."""
    sides = [[0], [1]] if table.defers else [[0, 1]]  # cuts that move together
    moves = [*product(range(table.n_places), sides)]
    values = np.arange(table.n_bins + 1)
    # One move alone finds its best cut in one round.
    for place, moving in moves * min(ROUNDS, len(moves)):
        line = np.repeat(cuts[None], len(values), axis=0)
        line[:, place, moving] = values[:, None]
        line = line[line[:, place, 0] <= line[:, place, 1]]
        line = line[table.loss(line) < table.loss(cuts[None]) - 1e-12]
        line = line[table.log_power(line, level) >= step]
        if len(line):
            cuts = line[table.loss(line).argmin()]
    return cuts


# -- other rules -------------------------------------------------------------------------------------------


def within_tighter(selection: Selection, fresh: Fresh, level: float) -> Certified | Refused:
    """Return the last rule before the first failure, within ever looser limits.

    All limits are tightened until their tests on the fresh rows pass with one predicted probability Φ(z),
    which allows for the noise of both tables. Step by step z falls: the rule within the tightest limits is
    tested first, the one within the stated limits last. The theorem of a fixed sequence holds for any rules.
    """
    passed = None
    for rule in rules_within_tighter(selection, fresh.n_units, level):
        if not all_pass(selection.problem.limits, fresh.by(rule), level):
            break
        within = "; ".join(map(str, rule.problem.limits))
        passed = Certified(rule, METHOD, f"{LAST}. It was selected within {within}.")
    return passed or Refused(rule)  # the first rule, which is the likeliest


def rules_within_tighter(
    selection: Selection, n_fresh: int, level: float
) -> Iterator[Selection]:
    """Yield the selected rule within ever looser limits, the stated ones last."""
    plain = selection.within(selection.problem.limits)
    # Noise of the fresh rows, by that of the selecting rows.
    noise = np.sqrt(plain.n_rows / n_fresh)
    for step in STEPS[::2].tolist():  # a selection takes longer
        n_deviations = max(0.0, step * np.hypot(1.0, noise) - ndtri(level) * noise)
        tighter = [_tightened(limit, plain, n_deviations) for limit in plain.problem.limits]
        with suppress(InfeasibleLimitsError):
            rule = plain.within(tighter)
            if may_pass(rule):
                yield rule
    yield plain


def may_pass(rule: Selection) -> bool:
    """Return whether tests may pass: a limit needs rows, and a ratio a rate above 0."""
    _, *terms = rule.charges.terms  # the objective has no test
    for limit, each in zip(rule.limits, terms, strict=True):
        values = each.values(rule.counts)[~np.isnan(limit.levels(each.names))]
        least = 0.0 if limit.form == RATIO else -np.inf
        if not (values > least).all():  # NaN without rows
            return False
    return True


def _tightened(limit: Limit, rule: Selection, n_deviations: float) -> Limit:
    """Return a limit tightened by standard errors of the rates of a rule on new rows.

    A refit shifts all subgroups alike, so compared rates have no such noise.
    """
    spread = 0.0 if limit.compares else rule.engine.spread
    counted = counted_rate(limit.rate, rule.strata, rule.counts, spread)
    if not limit.compares:
        noise = n_deviations * counted.errors
        bounds = limit.levels(counted.names) - SIGNS[limit.sense] * noise
        by_name = zip(counted.names, bounds.tolist(), strict=True)
        return replace(limit, bound=tuple(compress(by_name, ~np.isnan(bounds))))
    of_pairs = limit.deviations(counted.errors**2)
    np.fill_diagonal(of_pairs, 0.0)
    largest = float(n_deviations * of_pairs.max())
    if limit.form == RATIO:
        largest /= max(np.fmax.reduce(counted.values), TINY)
        return replace(limit, bound=min(limit.bound + largest, 1.0))
    return replace(limit, bound=max(limit.bound - largest, 0.0))
