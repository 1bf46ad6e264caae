"""Chains of rules within ranks: limits with ranks beside limits with tests.

"Misses at most 10 % in each group, false alarms at most 5 %": the misses of each group depend on one
threshold, the false alarms on all of them. "Misses at most 10 %, at most 30 % deferred": the misses depend on
one of two thresholds, the deferred rows on both.

Limits with ranks stop the thresholds of a chain of rules that the selecting rows fix. The other limits are
tested along the chain. Two procedures, for rules without and with deferral, have a theorem each.
"""

from itertools import compress

import numpy as np

from tailboost.core import Ints, Mask
from tailboost.guarantees.exact_tests import LimitedShare, most_reached
from tailboost.guarantees.fresh import Fresh
from tailboost.guarantees.one_score import Certified, CountTable, OneScore, Refused, one_cut
from tailboost.guarantees.ranks import AT_RANKS, n_stops, stops_of
from tailboost.rows import random_numbers
from tailboost.selection.thresholds import DEFERRED, FIRST

METHOD = "ranks and a test"
ALONG = "The other limits were tested along a chain of rules fixed before these rows were used."
# Parts of the level beside ranks: for tests of rules without deferral, and for those of deferral.
PART_FOR_TESTS = 0.2
PART_FOR_DEFERRAL = 0.5
# The fraction of the fresh rows that test deferral.
ROWS_FOR_DEFERRAL = 0.3
# At this level a test only asks that the rate of the rows is about within the limit.
LEVEL_OF_ESTIMATE = 0.5


def certified(case: OneScore, level: float) -> Certified | Refused | None:
    """Return the rule of least loss within the ranks among those that pass the tests; None for other limits.

    All limits are on shares of one answer among fixed rows.
    """
    for test, of_fresh in zip(case.selecting.tests, case.certifying.tests, strict=True):
        is_of_shares = test.shares and of_fresh.shares
        if test.limit.compares or not is_of_shares or test.has_ranks != of_fresh.has_ranks:
            return None
    has_ranks = np.array([test.has_ranks for test in case.selecting.tests])
    procedure = beside_deferral if case.selecting.defers else beside_tests
    return procedure(case, has_ranks, level)


# -- rules without deferral ------------------------------------------------------------------------------


def beside_tests(case: OneScore, has_ranks: Mask, level: float) -> Certified | Refused | None:
    """Return the rule of least loss within the ranks of limits on one label, beside limits on the other one.

    1. Limits on an answer to rows of one threshold stop the threshold at a rank, as in
       `tailboost.guarantees.ranks`, with .8 of the level.
    2. The selecting rows fix a chain of rules in which all thresholds rise together. They stop at the ranks.
    3. The other limits, on one answer to rows of the other label, are tested along the chain with .2 of the
       level. The rule of least loss is taken among those that pass.

    Theorem. All rules that pass keep all limits, except with a probability of at most the level.

    *Proof.* The ranks keep their limits, except with a probability of at most .8 of the level. The strata of
    ranks and of tests differ. Given their strata, rows are independent, so for the tests the chain with its
    stops is fixed. Order it so that the errors of the tested limits grow. Let r be the first rule that breaks
    one of these limits. A rule that breaks one is r or follows r, so it has no fewer errors than r in the
    rows of each test. If it passes all tests, r passes the test of the limit that r breaks: with a
    probability of at most .2 of the level. ∎
    """
    selecting = case.selecting
    certifying = case.certifying
    is_tested = ~has_ranks
    tested = selecting.shares_of(is_tested)
    read = np.array([test.strata.any(axis=0) for test in selecting.tests])
    overlap = read[has_ranks].any(axis=0) & read[is_tested].any(axis=0)
    are_apart = has_ranks.any() and not overlap.any() and case.fresh.votes.clusters is None
    if not are_apart or len({share.answer for share in tested}) != 1:
        return None
    # 1. The stops.
    ranked = certifying.shares_of(has_ranks)
    level_of_stop = (1.0 - PART_FOR_TESTS) * level / n_stops(ranked)
    below = certifying.below(ranked)
    largest, least = stops_of(
        ranked, below, certifying.n_places, certifying.end, level_of_stop
    ).T
    # 2. The chain.
    prices = np.unique([*selecting.chances.ravel(), 0.0, 2.0])
    chain = one_cut(selecting.at_prices(prices).clip(least, largest))
    # 3. The tests.
    passes = certifying.passes(
        compress(certifying.tests, is_tested), chain, PART_FOR_TESTS * level
    )
    if (least > largest).any() or not passes.any():
        # Along the chain more rows get the first label, and fewer the second.
        likeliest = chain[0 if tested[0].answer == FIRST else -1]
        return Refused(case.rule(likeliest), PART_FOR_TESTS * level)
    losses = np.where(passes, selecting.loss(chain), np.inf)
    return Certified(case.rule(chain[losses.argmin()]), METHOD, f"{AT_RANKS} {ALONG}")


# -- rules that defer ------------------------------------------------------------------------------------


def beside_deferral(
    case: OneScore, has_ranks: Mask, level: float
) -> Certified | Refused | None:
    """Return the rule of least loss within the ranks of limits on errors that passes the tests of deferral.

    Random fresh rows test deferral, and the other fresh rows have the ranks. The rules are in a chain:

    1. The selecting rows fix the free chain. At first all rows are deferred. Step by step bins of the score
       get an answer, the surest first: from the lowest scores upwards the first label, from the highest
       scores downwards the second. So along the chain the rows with each answer grow. At last each bin has
       got both answers: both are counted there, but the rules give such a bin the first label.
    2. Each limit on errors stops thresholds at a rank of the rows with ranks. A limit on rows of one
       threshold stops it as in `tailboost.guarantees.ranks`. A limit on rows of several thresholds stops them
       together: at the last step of the free chain whose errors in these rows pass the test of the limit.
    3. The rules are the free chain with all stops. The one of least loss is taken among those that pass the
       tests of the limits on deferral, and whose rates on all fresh rows are about within all limits. What
       the second condition takes away changes nothing in the theorem, which is about all rules that pass the
       tests.

    Theorem. All rules that pass keep all limits, except with a probability of at most the level.

    *Proof.* The level is divided between (a) the stops of limits on errors and (b) the tests of deferral.

    (a) For each limit on errors let k be the first step of the free chain that breaks it. The selecting rows
    alone fix k, so its test passes with a probability of at most its level. Where it fails, the limit stops
    all its thresholds before step k, because errors can only grow along the chain. There the limit is kept,
    and other stops, or another answer to a bin that has got both, only take errors away. The argument for
    one threshold is the same, with the values of the threshold as steps. The union bound adds the levels of
    all stops.

    (b) The rows that test deferral are independent of those with the ranks, so for them the chain with its
    stops is fixed. Along it the deferred rows can only become fewer. Let r be the last rule that breaks a
    limit on deferral, and take any rule that breaks one and passes all tests. It is r or before r, so it
    defers all rows that r defers. Hence r passes, too, the test of the limit that r breaks: with a
    probability of at most the level of one test. ∎

    If each limit is on rows with one threshold for each answer, as by group, each of m groups chooses its
    step alone: (b) holds for each group with its tests at the level divided by m (union bound).

    The page "How it works" shows why the same rows cannot do both.
    """
    on_deferral = np.array([test.shares[0].answer == DEFERRED for test in case.selecting.tests])
    if on_deferral.all():
        return None
    # Without a limit on deferral the ranks have all rows and the whole level.
    words = AT_RANKS
    level_of_deferral = fraction = 0.0
    if on_deferral.any():
        words += f" {ALONG}"
        level_of_deferral = PART_FOR_DEFERRAL * level
        fraction = ROWS_FOR_DEFERRAL
    is_testing = drawn_to_test(case.fresh, fraction)
    with_ranks = case.counted(~is_testing)
    testing = case.counted(is_testing)
    # 1. The free chain.
    free = chain_of(case.selecting)
    # 2. Its stops: (a) of the proof.
    alone = with_ranks.shares_of(has_ranks & ~on_deferral)
    together = with_ranks.shares_of(~has_ranks & ~on_deferral)
    chain = stopped(free, with_ranks, alone, together, level - level_of_deferral)
    # 3. The tests: (b) of the proof.
    parts = case.selecting.parts
    level_of_test = level_of_deferral / len(parts)
    chosen = chain[-1].copy()
    for places in parts:
        of_part = chain[:, places]
        passes = passing(of_part, case.certifying.at(places), testing.at(places), level_of_test)
        if not passes.any():
            return Refused(case.rule(chain[-1]), level_of_test)
        losses = np.where(passes, case.selecting.at(places).loss(of_part), np.inf)
        chosen[places] = of_part[losses.argmin()]
    return Certified(case.rule(chosen), METHOD, words)


def drawn_to_test(fresh: Fresh, fraction: float) -> Mask:
    """Return a random mask of fresh rows, independent of their contents and of who votes in a cluster."""
    return random_numbers(fresh.votes.draws.view(np.uint64)) < fraction


def chain_of(selecting: CountTable) -> Ints:
    """Return the chain without stops, (K, m, 2).

    At first all rows are deferred, at last each bin has got both answers.
    """
    chances = selecting.chances.ravel()
    prices = np.unique([*chances, *(1.0 - chances), -1.0, 2.0])
    return np.stack([selecting.at_prices(each) for each in (prices, 1.0 - prices)], axis=2)


def stopped(
    free: Ints,
    table: CountTable,
    alone: list[LimitedShare],
    together: list[LimitedShare],
    level: float,
) -> Ints:
    """Return the free chain with the stops of shares at ranks of the rows of a table, (K, m, 2).

    The shares are those of limits on rows of one threshold, and those of limits on rows of several.
    """
    level_of_stop = level / (n_stops(alone) + len(together))
    answered = table.answered(free)
    chain = free.copy()
    for share in together:
        rows = answered[:, share.strata].sum(axis=1)  # by step and answer
        most = most_reached(rows[0].sum(), share.allowed, level_of_stop)
        # Errors grow along the chain from none at its first step, so the steps that pass are its first ones.
        n_passing = (rows[:, share.answer] <= most).sum()
        last = max(n_passing - 1, 0)
        chain[last:, share.places, share.answer] = chain[last, share.places, share.answer]
    largest, least = stops_of(
        alone, table.below(alone), table.n_places, table.end, level_of_stop
    ).T
    chain[..., 0] = np.minimum(chain[..., 0], largest)
    chain[..., 1] = np.maximum(chain[..., 1], least)
    return np.maximum.accumulate(chain, axis=2)  # a bin with both answers keeps the first one


def passing(chain: Ints, certifying: CountTable, testing: CountTable, level: float) -> Mask:
    """Return which rules are about within limits on all fresh rows, and pass the tests of deferral, (K,)."""
    on_deferral = [test for test in testing.tests if test.wrong[..., DEFERRED].any()]
    are_within = certifying.passes(certifying.tests, chain, LEVEL_OF_ESTIMATE)
    return are_within & testing.passes(on_deferral, chain, level)
