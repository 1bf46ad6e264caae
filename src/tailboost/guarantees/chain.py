"""Chains of rules within ranks: limits with ranks beside limits with tests.

"Misses at most 10 % in each group, false alarms at most 5 %": the misses of each group depend on one
threshold, the false alarms on all of them. "Misses at most 10 %, at most 30 % deferred": the misses depend on
one of two thresholds, the deferred rows on both.

*Needs.* Each limit is on the share of a fixed number of rows with one answer. With deferral the limits on it
have tests, and at least one limit is on errors. Without deferral the limits on several places have tests.
These are all on one answer, and on rows of other strata (labels within groups) than those of the ranks. There
rows have no clusters, which could have rows of both.

1. The selecting rows fix the free chain, a sequence of rules. Without deferral all thresholds rise from step
   to step. With deferral the first rule defers all rows, and at each step the surest bins of the score get an
   answer: the first label from the lowest scores upwards, the second from the highest scores downwards. This
   goes on until each bin has got both. A rule gives such a bin the first label, but the bin is counted with
   both answers: so the rows that are counted with an answer only grow along the chain.
2. The limits with ranks stop thresholds of the chain. A limit on rows of one threshold stops it as in
   `tailboost.guarantees.ranks`. A limit on rows of several thresholds, which rules that defer may have, stops
   them together: at the last step of the free chain whose errors pass the test of the limit. With deferral
   random fresh rows are kept for the tests of the other limits, and the rest have the ranks.
3. The rules are the free chain with all stops. Of those that pass the tests of the other limits, and whose
   rates on all fresh rows are about within all limits, the one of least loss is taken. The theorem holds for
   any choice among the rules that pass, so the second condition costs nothing.

*Theorem.* All rules that pass the tests keep all limits, except with a probability of at most the level.

*Proof.* The level is divided between (a) the stops and (b) the tests.

(a) For each limit with a stop let k be the first step of the free chain that breaks it. The selecting rows
alone fix k, so its test passes with a probability of at most its level. Where it fails, the limit stops all
its thresholds before step k, because errors can only grow along the chain. Before step k the rules of the
free chain keep the limit, and other stops, or a single answer to a bin that has got both, only take errors
away: so the rules of the stopped chain keep it, too. The argument for one threshold is the same, with the
values of the threshold as steps. The union bound adds the levels of all stops.

(b) Given labels and groups, the rows of the tests are independent of those with the ranks: they are of other
strata, or are drawn at random. So for them the chain with its stops is fixed. All tests are on one answer, so
along the chain the rows that count in them can only become more, or only fewer. Order it so that they become
more, and let r be the first rule that breaks a tested limit. Take any rule that breaks one and passes all
tests. It is r or follows r, so all rows that count against r count against it, too. Hence r passes the test
of the limit that r breaks: with a probability of at most the level of one test. ∎

If each limit is on rows with one threshold for each answer, as by group, then each group chooses its step
alone: (b) holds for each of m groups with a test, at the level divided by m (union bound).

The page "How it works" shows why the same rows cannot do both.
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from tailboost.core import Ints
from tailboost.guarantees.exact_tests import LimitedShare, most_errors
from tailboost.guarantees.one_score import Certified, CountTable, OneScore, Refused
from tailboost.guarantees.ranks import AT_RANKS, METHOD as RANKS, stops_of
from tailboost.guarantees.sequence import refused

METHOD = "ranks and a test"
ALONG = "The other limits were tested along a chain of rules fixed before these rows were used."
# At this level a test only asks that the rate of the rows is about within the limit.
LEVEL_OF_ESTIMATE = 0.5


def certified(case: OneScore, level: float) -> Certified | Refused:
    """Return the rule of least loss within the ranks among those that pass the tests."""
    division = case.division
    selecting = case.selecting
    # 1. The free chain.
    free = chain_of(selecting)
    # 2. Its stops: (a) of the proof.
    with_ranks = case.counted(case.fresh.lots >= 1.0 - division.fractions.rows_of_stops)
    chain = stopped(free, with_ranks, division.shares, level * division.level_of_stop)
    # 3. The tests: (b) of the proof.
    testing = replace(
        case.counted(case.fresh.lots < division.fractions.rows_of_tests), tests=division.tests
    )
    chosen = np.zeros_like(free[0])
    for places in division.tested_together:
        cuts = chain[:, places]
        passes = testing.at(places).passes(cuts, level * division.level_of_test)
        passes &= case.certifying.at(places).passes(cuts, LEVEL_OF_ESTIMATE)
        if not passes.any():
            return refused(case, level)
        losses = np.where(passes, selecting.at(places).loss(cuts), np.inf)
        chosen[places] = cuts[losses.argmin()]
    rule = case.rule(chosen)
    if division.tests:
        return Certified(rule, METHOD, f"{AT_RANKS} {ALONG}")
    return Certified(rule, RANKS, AT_RANKS)


def chain_of(selecting: CountTable) -> Ints:
    """Return the chain without stops, (K, m, 2)."""
    prices = np.unique([*selecting.chances.ravel(), -1.0, 2.0])
    of_second = prices
    # With deferral all rows are deferred at first, and at last each bin has got both answers.
    if selecting.defers:
        prices = np.union1d(prices, 1.0 - prices)
        of_second = 1.0 - prices
    return np.stack([selecting.at_prices(each) for each in (prices, of_second)], axis=2)


def stopped(
    free: Ints, table: CountTable, shares: Sequence[LimitedShare], level: float
) -> Ints:
    """Return the free chain with stops at ranks of the rows of a table, each at the level, (K, m, 2).

    Without deferral there may be no rule within the stops.
    """
    answered = table.answered(free)
    chain = free.copy()
    # Shares of several places stop them together.
    for share in shares:
        if len(share.places) > 1:
            rows = answered[:, share.strata].sum(axis=1)  # by step and answer
            most = most_errors(rows[0].sum(), share.allowed, level)
            # Errors grow along the chain from none at its first step: the first steps pass. Each answer is
            # also the number of the cut at which its bins end.
            last = max((rows[:, share.answer] <= most).sum() - 1, 0)
            chain[last:, share.places, share.answer] = chain[last, share.places, share.answer]
    # Shares of one place stop it alone.
    alone = [share for share in shares if len(share.places) == 1]
    below = (table.below[share.strata].sum(axis=0) for share in alone)
    least, largest = stops_of(alone, below, table.n_places, table.n_bins, level)
    if not table.defers:
        if (least > largest).any():
            return chain[:0]
        return chain.clip(least[:, None], largest[:, None])
    chain[..., 0] = np.minimum(chain[..., 0], largest)
    chain[..., 1] = np.maximum(chain[..., 1], least)
    return np.maximum.accumulate(chain, axis=2)  # a bin with both answers keeps the first one
