"""A chain of rules within ranks that defer: limits on errors, beside limits on deferral.

Random fresh rows test deferral, and the other fresh rows have the ranks. The rules are in a chain:

1. The selecting rows fix the free chain. At first all rows are deferred. Step by step cells of the score get
   an answer, the surest first: from the lowest scores upwards the first label, from the highest scores
   downwards the second. So along the chain the rows with each answer grow. At last each cell has got both
   answers: both are counted there, but the rules give such a cell the first label.
2. Each limit on errors stops thresholds at a rank of the rows with ranks. A limit on rows of one threshold
   stops it as in `tailboost.guarantees.ranks`. A limit on rows of several thresholds stops them together: at
   the last step of the free chain whose errors in these rows pass the test of the limit.
3. The rules are the free chain with all stops. The one of least loss is taken among those that pass the tests
   of the limits on deferral, and whose rates on all fresh rows are about within all limits. What the second
   condition takes away changes nothing in the theorem, which is about all rules that pass the tests.

Theorem. All rules that pass keep all limits, except with a probability of at most the level.

*Proof.* The level is divided between (a) the stops of limits on errors and (b) the tests of deferral.

(a) Let k be the first step of the free chain that breaks a limit on errors. The selecting rows alone fix k,
so its test passes with a probability of at most its level. Where it fails, the limit stops all its thresholds
before step k, because errors can only grow along the chain. There the limit is kept, and other stops, or
another answer to a cell that has got both, only take errors away. The argument for one threshold is the same,
with the values of the threshold as steps. The union bound adds the levels of all stops.

(b) The rows that test deferral are independent of those with the ranks, so for them the chain with its stops
is fixed. Along it the deferred rows can only become fewer. Let r be the last rule that breaks a limit on
deferral, and take any rule that breaks one and passes all tests. It is r or before r, so it defers all rows
that r defers. Hence r passes, too, the test of the limit that r breaks: with a probability of at most the
level of one test. ∎

If each limit is on rows with one threshold for each answer, as by group, each of m groups chooses its step
alone: (b) holds for each group with its tests at the level divided by m (union bound).

The page "How it works" shows why the same rows cannot do both.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tailboost.core import Ints, Mask
from tailboost.guarantees.chain import ALONG, METHOD, NONE, with_ranks
from tailboost.guarantees.exact_tests import DEFERRED, LimitTests, Share, most_reached
from tailboost.guarantees.fresh import Certified, Fresh, Refused
from tailboost.guarantees.one_score import CountTable, OneScore
from tailboost.guarantees.ranks import AT_RANKS, windows
from tailboost.guarantees.sequence import parts_of
from tailboost.rows import random_numbers

# Of two cuts for each answer: the one with fewer rows of this answer.
FEWER = (np.minimum, np.maximum)
# The fraction of the fresh rows that test deferral, and their part of the level.
TESTING, PART = 0.3, 0.5
# At this level a test only asks that the rate of the rows is about within the limit.
WITHIN = 0.5


def certified(case: OneScore, level: float) -> Certified | Refused | None:
    """Return the rule of least loss within ranks that passes the tests of deferral; None for other limits."""
    has_ranks, fresh = with_ranks(case), case.certifying
    if has_ranks is None or not case.selecting.defers:
        return None
    on_deferral = np.array([of[0].answer == DEFERRED for of in case.selecting.shares])
    if on_deferral.all():
        return None
    part, fraction = (PART, TESTING) if on_deferral.any() else (0.0, 0.0)
    is_testing = drawn_to_test(case.fresh, fraction)
    alone = fresh.shares_of(has_ranks & ~on_deferral)
    together = fresh.shares_of(~has_ranks & ~on_deferral)
    rules = stopped_chain(case, alone, together, ~is_testing, level * (1.0 - part))

    parts = parts_of(case)
    level_of_test = level * part / len(parts)
    chosen = rules[-1].copy()
    for places, table, tests in parts:
        passes = passing(rules, tests, fresh, case.counted(is_testing), level_of_test)
        if not passes.any():
            return case.refused(rules[-1], level_of_test, NONE)
        losses = np.where(passes, table.loss(rules[:, places]), np.inf)
        chosen[places] = rules[losses.argmin(), places]
    return case.certified(chosen, METHOD, f"{AT_RANKS} {ALONG}" if part else AT_RANKS)


def drawn_to_test(fresh: Fresh, fraction: float) -> Mask:
    """Return a random mask of fresh rows, independent of their contents and of who votes in a cluster."""
    return random_numbers(fresh.votes.draws.view(np.uint64)) < fraction


# -- the chain with its stops ------------------------------------------------------------------------------


def stopped_chain(
    case: OneScore, alone: list[Share], together: list[Share], used: Mask, level: float
) -> Ints:
    """Return the chain with the stops of shares at ranks of the used rows, (K, m, 2).

    The shares are those of limits on rows of one threshold, and those of limits on rows of several.
    """
    end = case.certifying.end
    least, largest, level_of_each = windows(
        case, alone, case.cell, end, level, len(together), used
    )
    stops = np.stack([largest, least], axis=1)  # of the first and the second label, (m, 2)
    rules, counted = chain_of(case.selecting), case.counted(used)
    for share in together:
        here, answer = list(share.places), share.answer
        n = n_passing(share, counted, rules, level_of_each)
        stop = rules[n - 1, here, answer] if n else (0, end)[answer]
        stops[here, answer] = FEWER[answer](stops[here, answer], stop)
    first = np.minimum(rules[..., 0], stops[:, 0])
    last = np.maximum(np.maximum(rules[..., 1], stops[:, 1]), first)
    return np.stack([first, last], axis=2)


def chain_of(selecting: CountTable) -> Ints:
    """Return the chain without stops, (K, m, 2).

    At first all rows are deferred, at last each cell has got both answers.
    """
    chances = selecting.chances.ravel()
    prices = np.unique([*chances, *(1.0 - chances), 0.0, 2.0])
    cuts = [selecting.at_prices(each) for each in (prices, 1.0 - prices)]
    return np.stack(cuts, axis=2)


def n_passing(share: Share, rows: CountTable, rules: Ints, level: float) -> int:
    """Return the number of first steps of the free chain that pass the test of a share."""
    wrong = rows.answered(rules)[:, share.strata, share.answer].sum(axis=1)
    n_rows = int(rows.rows[share.strata].sum())
    return int((wrong <= most_reached(n_rows, share.allowed, level)).sum())


# -- the tests of deferral ---------------------------------------------------------------------------------


def passing(
    rules: Ints,
    tests: Sequence[LimitTests],
    fresh: CountTable,
    of_tests: CountTable,
    level: float,
) -> Mask:
    """Return which rules are about within limits on all fresh rows, and pass the tests of deferral, (K,)."""
    passes = np.ones(len(rules), dtype=np.bool_)
    for test in tests:
        kept = test.kept(fresh.possible(rules))
        passes &= test.passes(*test.counts(fresh.answered(rules)), kept, WITHIN)
        if test.wrong[..., DEFERRED].any():
            passes &= test.passes(*test.counts(of_tests.answered(rules)), kept, level)
    return passes
