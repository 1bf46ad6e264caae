"""A chain of rules within ranks: limits on one label at ranks, beside limits on the other label.

Limits on one answer to rows of one threshold are kept by ranks, see `tailboost.guarantees.ranks`, with .8 of
the level. The other limits concern rows of several thresholds. They are tested along one chain of rules,
which the selecting rows fix, and whose thresholds stop at the ranks.

"Misses at most 10 % in each group, false alarms at most 5 %": all thresholds move
together, so errors on the other label can only grow along the chain. Given the labels, rows of both are
independent, so the ranks of one are fixed for a test on the other. Theorem. Let r be the first rule of the
chain that breaks one of these limits. If a rule that passes all tests breaks a limit, so does its test pass
at r, because errors grow: with a probability of at most the level of the test, whichever rule is taken.
"""

from __future__ import annotations

import numpy as np

from tailboost.core.array_types import Mask
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
    passes = fresh.passes(
        ~has_ranks, fresh.answered(rules), fresh.possible(rules), PART * level
    )
    passes &= (least <= largest).all()
    likeliest = rules[0 if shares[0].answer == FIRST else -1]
    if not passes.any():
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
