"""A chain of rules within ranks: limits on one label at ranks, beside limits on the other label.

"Misses at most 10 % in each group, false alarms at most 5 %": the misses of each group depend on one
threshold, the false alarms on all of them.

1. Limits on an answer to rows of one threshold stop the threshold at a rank, as in
   `tailboost.guarantees.ranks`, with .8 of the level.
2. The selecting rows fix a chain of rules in which all thresholds rise together. They stop at the ranks.
3. The other limits, on one answer to rows of the other label, are tested along the chain with .2 of the
   level. The rule of least loss is taken among those that pass.

Theorem. All rules that pass keep all limits, except with a probability of at most the level.

*Proof.* The ranks keep their limits, except with a probability of at most .8 of the level. Given the labels,
rows of both labels are independent, so for the tests the chain with its stops is fixed. Order it so that the
errors of the tested limits grow. Let r be the first rule that breaks one of these limits. A rule that breaks
one is r or follows r, so it has no fewer errors than r in the rows of each test. If it passes all tests, r
passes the test of the limit that r breaks: with a probability of at most .2 of the level. ∎
"""

from __future__ import annotations

import numpy as np

from tailboost.core import Mask
from tailboost.guarantees.exact_tests import FIRST
from tailboost.guarantees.fresh import Certified, Refused
from tailboost.guarantees.one_score import OneScore, one_cut
from tailboost.guarantees.ranks import AT_RANKS, is_ranked, windows

METHOD = "ranks and a test"
# Part of the level for the tests beside ranks.
PART = 0.2
ALONG = "The other limits were tested along a chain of rules fixed before these rows were used."
NONE = "no thresholds within the ranks of some limits keep the others"


def certified(case: OneScore, level: float) -> Certified | Refused | None:
    """Return the rule of least loss within the ranks among those that pass the tests; None for other limits.

    The tested limits are on one answer, to rows that the limits with ranks do not read.
    """
    selecting, fresh = case.selecting, case.certifying
    has_ranks = with_ranks(case)
    if has_ranks is None or selecting.defers or case.fresh.votes.clusters is not None:
        return None
    shares = selecting.shares_of(~has_ranks)
    read = np.array([test.strata.any(axis=0) for test in selecting.tests])
    overlap = read[has_ranks].any(axis=0) & read[~has_ranks].any(axis=0)
    if not has_ranks.any() or len({share.answer for share in shares}) != 1 or overlap.any():
        return None

    at_ranks = fresh.shares_of(has_ranks)
    least, largest, _ = windows(case, at_ranks, case.cell, fresh.end, (1.0 - PART) * level)
    prices = np.unique([*selecting.chances.ravel(), 0.0, 2.0])
    rules = one_cut(selecting.at_prices(prices).clip(least, largest))
    likeliest = rules[0 if shares[0].answer == FIRST else -1]

    passes = fresh.passes(
        ~has_ranks, fresh.answered(rules), fresh.possible(rules), PART * level
    )
    if (least > largest).any() or not passes.any():
        return case.refused(likeliest, PART * level, NONE)
    losses = np.where(passes, selecting.loss(rules), np.inf)
    return case.certified(rules[losses.argmin()], METHOD, f"{AT_RANKS} {ALONG}")


def with_ranks(case: OneScore) -> Mask | None:
    """Return which limits have ranks, if all are on shares of one answer among fixed rows; None otherwise."""
    ranked = []
    for table in (case.selecting, case.certifying):
        compares = any(test.limit.compares for test in table.tests)
        if compares or not all(table.shares) or (table.place < 0).any():
            return None
        ranked.append(list(map(is_ranked, table.shares)))
    return np.array(ranked[0]) if ranked[0] == ranked[1] else None
