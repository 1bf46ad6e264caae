"""A chain of rules within ranks: limits beside those at ranks, on the other label or on deferral.

Limits on one answer to rows of one threshold are kept by ranks, see `tailboost.guarantees.ranks`, with .8 of
the level. The other limits concern rows of several thresholds. They are tested along one chain of rules,
which the selecting rows fix, and whose thresholds stop at the ranks.

*Limits on another label.* "Misses at most 10 % in each group, false alarms at most 5 %": all thresholds move
together, so errors on the other label can only grow along the chain. Given the labels, rows of both are
independent, so the ranks of one are fixed for a test on the other. Theorem 1: let r be the first rule of the
chain that breaks one of these limits. If a rule that passes all tests breaks a limit, so does its test pass
at r, because errors grow: with a probability of at most the level of the test, whichever rule is taken.

*Limits on deferral.* At first all rows are deferred. In an order fixed by the selecting rows, cells of the
score get an answer, the surest first: from the lowest scores upwards the first label, from the highest
downwards the second, until a rank of the errors stops the threshold.

Theorem 2: some rule of this chain that breaks a limit on deferral passes its test with a probability of at
most its level. *Proof.* The answered region depends on the fresh rows, because thresholds stop. Let n be the
number of fresh rows that count in a limit "at most d deferred", p = 1 − d, and let b be the least number of
answered rows that passes the test: P(Bin(n, p) ≥ b) is at most its level. For a region with the probability
P < p and N answered rows, let U(N, P) = P(N + Bin(n − N, (p − P) / (1 − P)) ≥ b). The next cell has the
probability q and K rows. Without stops, K would be Bin(n − N, q / (1 − P)), and U(N + K, P + q) would have
the mean U(N, P); it grows with K. Two events make K differ from this. The cell is answered only if few
limited errors are in it, and earlier cells were left out because many are in them. Given K = k, neither gets
more probable with larger k: the rows of a cell are independent, and more of them in one cell leave fewer for
the others. So the distribution of K, given both events, is the binomial one with weights that decrease in k.
Then the mean of U(N + K, P + q) is at most U(N, P). If no cell is answered, U does not change. So U is a
supermartingale, up to the answer that makes P larger than p. It is 1 for each rule with P < p that passes. So
some rule that breaks the limit passes with a probability of at most U(0, 0), the level. ∎

The errors of the cell at which a threshold stops were counted, and it may get the other answer later. Its
rows count as deferred in the tests, so U does not grow in the mean when they are counted.

A limit on errors of several thresholds, beside deferral, stops them all before the first step of the chain at
which its errors, counted as if no other limit stopped a threshold, are beyond a rank. With other stops there
are fewer errors, so Theorem 1 holds; all cells that were counted so are deferred in the tests.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import compress

import numpy as np

from tailboost.core.array_types import Ints, Mask
from tailboost.guarantees.fresh import DEFERRED, FIRST, Case, Cells, Outcome, Tests
from tailboost.guarantees.ranks import AT_RANKS, windows

# Part of the level for the tests beside ranks.
PART = 0.2
ALONG = "The other limits were tested along a chain of rules fixed before these rows were used."
NONE = "no thresholds within the ranks of some limits keep the others"


def applies(case: Case) -> Mask | None:
    """Return which limits have ranks, if the others are on deferral, or on one answer to another label."""
    if case.odds is None or any(limit.compares for limit in case.limits):
        return None
    answers = np.concatenate([test.answers for test in case.tests])
    if (case.fresh_place < 0).any() or answers.min() < 0:
        return None
    has_ranks = np.array(
        [test.is_ranked and test.answers.max() < DEFERRED for test in case.tests]
    )
    if case.defers:
        return has_ranks if answers.min() < DEFERRED else None
    joint = list(compress(case.tests, ~has_ranks))
    of_one_answer = len(np.unique([test.answers[0] for test in joint])) == 1
    if case.fresh.clusters is not None or not (has_ranks.any() and of_one_answer):
        return None
    reads = np.array([test.strata.any(axis=0) for test in case.tests])
    is_apart = not (reads[has_ranks].any(axis=0) & reads[~has_ranks].any(axis=0)).any()
    return has_ranks if is_apart else None


def _stops(
    tests: Sequence[Tests], fresh: Cells, rules: Ints, half: int, level: float
) -> tuple[Ints, Ints]:
    """Return where limited errors of several places stop the cuts, (m, 2), and the cells counted, (K, m, 2).

    ``rules`` are the cuts of a chain without stops, (K, m, 2), of which those up to ``half`` answer a cell
    with its surer label. The errors of cells beyond the counted cuts of a rule have been counted before it.
    """
    stops = np.tile((fresh.end, 0), (rules.shape[1], 1))
    counted = np.tile((0, fresh.end), (*rules.shape[:2], 1))
    for test in tests:
        wrong, rows = test.counts(fresh.answered(rules))
        n_within = (wrong <= test.most(rows.astype(np.intp), level)).sum(axis=0)
        for answer, here, n in zip(test.answers.tolist(), test.places, n_within, strict=True):
            last = rules[n - 1, here, answer] if n else (0, fresh.end)[answer]
            met = rules[np.arange(len(rules)).clip(max=min(n, half))][:, here, answer]
            if answer == FIRST:
                stops[here, 0] = np.minimum(stops[here, 0], last)
                counted[:, here, 0] = np.maximum(counted[:, here, 0], met)
            else:
                stops[here, 1] = np.maximum(stops[here, 1], last)
                counted[:, here, 1] = np.minimum(counted[:, here, 1], met)
    return stops, counted


def run(case: Case, has_ranks: Mask) -> Outcome:
    """Return the rule of least loss within the ranks among those that pass the tests of the other limits."""
    ranked = list(compress(case.fresh_tests, has_ranks))
    joint = list(compress(case.fresh_tests, ~has_ranks))
    end = case.cells.end
    errors = [test for test in joint if case.defers and test.answers.max() < DEFERRED]
    joint = [test for test in joint if test not in errors]
    n_errors = sum(len(test.wrong) for test in errors)
    level = case.level * (1.0 - PART if joint else 1.0)
    low, high, level_of_errors = windows(case, ranked, case.cell, end, level, n_errors)
    votes = case.fresh.voters(np.arange(len(case.fresh)))
    rows = np.zeros((len(case.fresh_place), end))
    np.add.at(rows, (case.fresh.answered.stratum[votes], case.cell[votes]), 1.0)
    fresh = Cells(rows, case.fresh_place)
    chances = case.odds.chances
    prices = np.unique([*chances.ravel(), *(1.0 - chances).ravel(), 0.0, 2.0])
    first = np.stack([np.searchsorted(each, prices) for each in chances], axis=1)
    level = PART * case.level
    if case.defers:
        last = np.stack([np.searchsorted(each, 1.0 - prices) for each in chances], axis=1)
        freely = np.stack([first, last], axis=2)
        stops, tried = _stops(errors, fresh, freely, (prices <= 0.5).sum() - 1, level_of_errors)
        low = np.maximum(low, stops[:, 1])
        high = np.minimum(high, stops[:, 0])
        first = first.clip(max=high)
        last = np.maximum(last.clip(min=low), first)
        # The cells at which a threshold stopped count as deferred.
        met = first == last
        tested = np.stack(
            [
                np.minimum(first - (met & (last == low)), tried[..., 1]),
                np.maximum(last + (met & (first == high)), tried[..., 0]),
            ],
            axis=2,
        )
        level /= max(sum(len(test.wrong) for test in joint), 1)
    else:
        first = last = first.clip(low, high)
        tested = np.stack([first, last], axis=2)
    rules = np.stack([first, last], axis=2)
    tested = tested.clip(0, end)
    answered, possible = fresh.answered(tested), fresh.possible(tested)
    passes = np.repeat(case.defers or (low <= high).all(), len(rules))
    for test in joint:
        passes &= test.passes(*test.counts(answered), test.kept(possible), level)
    if not passes.any():
        likeliest = rules[0 if joint and joint[0].answers[0] == FIRST else -1]
        return Outcome(case.answered_by(likeliest), level, NONE)
    losses = (case.cells.answered(rules) * case.losses).sum(axis=(1, 2))
    best = rules[np.where(passes, losses, np.inf).argmin()]
    made = f"{AT_RANKS} {ALONG}" if joint else AT_RANKS
    rule = case.rule(best)
    return Outcome(case.fresh.by(rule), case.level, made, rule, "ranks and a test")
