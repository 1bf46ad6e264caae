"""A chain of rules within ranks that defer: limits on errors, beside limits on deferral.

At first all rows are deferred. In an order fixed by the selecting rows, cells of the score get an answer, the
surest first: from the lowest scores upwards the first label, from the highest downwards the second, until a
rank of the errors stops the threshold. Some fresh rows are drawn to test deferral, the others have the ranks.

Theorem. All rules that pass the tests keep all limits, except with a probability of at most the level.
*Proof.* Errors of one threshold are kept by ranks, see `tailboost.guarantees.ranks`. A limit on errors of
several thresholds stops them all before the first step whose errors, counted as if no other limit stopped a
threshold, are beyond a rank: see `tailboost.guarantees.chain`; other stops only take errors away. The rows
that test deferral are independent of the rows with the ranks, so the chain with its stops is fixed for them.
Along it fewer and fewer rows are deferred. Let r be the last rule that breaks a limit on deferral. All rules
before it break this limit, too, and have no fewer deferred rows. So if a rule that breaks a limit passes all
tests, r passes the test of this limit: with a probability of at most the level of one test. ∎

If each limit is on rows with one threshold for each answer, as by group, each of m groups takes a step of its
own: it has the proof above for itself, with its tests at the level divided by m (union bound).

The page "How it works" shows why the same rows cannot do both.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tailboost.core.array_types import Ints, Mask
from tailboost.guarantees.chain import ALONG, METHOD, NONE, with_ranks
from tailboost.guarantees.exact_tests import (
    DEFERRED,
    FIRST,
    SECOND,
    LimitTests,
    Share,
    most_reached,
)
from tailboost.guarantees.fresh import Certified, Fresh, Refused
from tailboost.guarantees.one_score import CountTable, OneScore
from tailboost.guarantees.ranks import AT_RANKS, windows
from tailboost.guarantees.sequence import parts_of
from tailboost.rows.fingerprints import random_numbers

# Of two cuts for each answer: the one with fewer rows of this answer.
FEWER = (np.minimum, np.maximum)
# The fraction of the fresh rows that test deferral, their part of the level, and a level of tests that pass
# within the limit.
TESTING, PART, WITHIN = 0.3, 0.5, 0.5


def certified(case: OneScore, level: float) -> Certified | Refused | None:
    """Return the rule of least loss within ranks that passes the tests of deferral; None for other limits."""
    selecting, fresh = case.selecting, case.certifying
    has_ranks = with_ranks(case)
    if has_ranks is None or not selecting.defers:
        return None
    on_deferral = np.array([shares[0].answer == DEFERRED for shares in selecting.shares])
    if on_deferral.all():
        return None
    of_one = fresh.shares_of(has_ranks & ~on_deferral)
    of_several = fresh.shares_of(~has_ranks & ~on_deferral)
    part, fraction = (PART, TESTING) if on_deferral.any() else (0.0, 0.0)
    level_of_ranks, level_of_test = level * (1.0 - part), level * part
    is_testing = drawn_to_test(case.fresh, fraction)
    of_ranks, of_tests = case.counted(~is_testing), case.counted(is_testing)

    least, largest, level_of_each = windows(
        case, of_one, case.cell, fresh.end, level_of_ranks, len(of_several), ~is_testing
    )
    stops = np.stack([largest, least], axis=1)  # of the first and the last cut, (m, 2)
    freely = chain_of(selecting)
    for share in of_several:
        here, answer = list(share.places), share.answer
        stop = stopped(share, of_ranks, freely, level_of_each)
        stops[here, answer] = FEWER[answer](stops[here, answer], stop)
    first = np.minimum(freely[..., FIRST], stops[:, FIRST])
    last = np.maximum(np.maximum(freely[..., SECOND], stops[:, SECOND]), first)
    rules = np.stack([first, last], axis=2)

    parts = parts_of(case)
    level_of_test /= len(parts)
    chosen = rules[-1].copy()
    for places, table, tests in parts:
        passes = passing(rules, tests, fresh, of_tests, level_of_test)
        if not passes.any():
            return case.refused(rules[-1], level_of_test, NONE)
        losses = np.where(passes, table.loss(rules[:, places]), np.inf)
        chosen[places] = rules[losses.argmin(), places]
    words = f"{AT_RANKS} {ALONG}" if on_deferral.any() else AT_RANKS
    return case.certified(chosen, METHOD, words)


def passing(
    rules: Ints,
    tests: Sequence[LimitTests],
    fresh: CountTable,
    of_tests: CountTable,
    level: float,
) -> Mask:
    """Return which rules are within all limits on the fresh rows, and pass the tests of deferral, (K,)."""
    passes = np.ones(len(rules), dtype=np.bool_)
    for test in tests:
        kept = test.kept(fresh.possible(rules))
        passes &= test.passes(*test.counts(fresh.answered(rules)), kept, WITHIN)
        if test.wrong[..., DEFERRED].any():
            passes &= test.passes(*test.counts(of_tests.answered(rules)), kept, level)
    return passes


def drawn_to_test(fresh: Fresh, fraction: float) -> Mask:
    """Return a random mask of fresh rows, independent of their contents and of who votes in a cluster."""
    return random_numbers(fresh.votes.draws.view(np.uint64)) < fraction


def chain_of(selecting: CountTable) -> Ints:
    """Return the chain without stops, (K, m, 2).

    At first all rows are deferred, at last each cell has got both answers.
    """
    chances = selecting.chances.ravel()
    prices = np.unique([*chances, *(1.0 - chances), 0.0, 2.0])
    cuts = [selecting.at_prices(each) for each in (prices, 1.0 - prices)]
    return np.stack(cuts, axis=2)


def stopped(share: Share, fresh: CountTable, rules: Ints, level: float) -> Ints:
    """Return where a share stops the cuts of its places, (m,), along the chain without stops."""
    wrong = fresh.answered(rules)[:, share.strata, share.answer].sum(axis=1)
    n_rows = int(fresh.rows[share.strata].sum())
    n = int((wrong <= most_reached(n_rows, share.allowed, level)).sum())
    none = np.full(len(share.places), (0, fresh.end)[share.answer])
    return rules[n - 1, list(share.places), share.answer] if n else none
