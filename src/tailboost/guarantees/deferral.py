"""A chain of rules within ranks that defer: limits on errors, beside limits on deferral.

Errors among rows of one threshold are kept by ranks, see `tailboost.guarantees.ranks`, with .8 of the level.

At first all rows are deferred. In an order fixed by the selecting rows, cells of the score get an answer, the
surest first: from the lowest scores upwards the first label, from the highest downwards the second, until a
rank of the errors stops the threshold.

Theorem. Some rule of this chain that breaks a limit on deferral passes its test with a probability of at
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

A limit on errors of several thresholds stops them all before the first step of the chain at which its errors,
counted as if no other limit stopped a threshold, are beyond a rank. With other stops there are fewer errors,
so the theorem of `tailboost.guarantees.chain` holds. The cells counted so are deferred in the tests.
"""

from __future__ import annotations

import numpy as np

from tailboost.core.array_types import Floats, Ints
from tailboost.guarantees.chain import ALONG, PART, best_of, with_ranks
from tailboost.guarantees.exact_tests import DEFERRED, FIRST, SECOND, Share, most_reached
from tailboost.guarantees.fresh import Certified, Refused
from tailboost.guarantees.one_score import CountTable, OneScore
from tailboost.guarantees.ranks import AT_RANKS, windows

# Of two cuts for each answer: the one with fewer rows of this answer, and the one with more.
FEWER, MORE = (np.minimum, np.maximum), (np.maximum, np.minimum)


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
    n_tests = len(fresh.shares_of(on_deferral))
    level_of_ranks = level * (1.0 - PART if n_tests else 1.0)
    level_of_test = level * PART / max(n_tests, 1)

    least, largest, level_of_each = windows(
        case, of_one, case.cell, fresh.end, level_of_ranks, len(of_several)
    )
    stops = np.stack([largest, least], axis=1)  # of the first and the last cut, (m, 2)
    freely, n_sure = chain_of(selecting)
    counted = np.tile((0, fresh.end), (*freely.shape[:2], 1))
    for share in of_several:
        here, answer = list(share.places), share.answer
        stop, met = stopped(share, fresh, freely, n_sure, level_of_each)
        stops[here, answer] = FEWER[answer](stops[here, answer], stop)
        counted[:, here, answer] = MORE[answer](counted[:, here, answer], met)
    first = np.minimum(freely[..., FIRST], stops[:, FIRST])
    last = np.maximum(np.maximum(freely[..., SECOND], stops[:, SECOND]), first)
    rules = np.stack([first, last], axis=2)

    answered = tested_rows(fresh, rules, freely, stops, counted)
    passes = fresh.passes(on_deferral, answered, fresh.possible(rules), level_of_test)
    words = f"{AT_RANKS} {ALONG}" if n_tests else AT_RANKS
    return best_of(case, rules, passes, rules[-1], level_of_test, words)


def tested_rows(
    fresh: CountTable, rules: Ints, freely: Ints, stops: Ints, counted: Ints
) -> Floats:
    """Return the rows by stratum and answer that the tests of deferral read, shape (K, S, 3).

    The cells at which a threshold stopped count as deferred, and so do those that were counted before.
    """
    first = np.minimum(rules[..., FIRST], counted[..., SECOND])
    last = np.maximum(rules[..., SECOND], counted[..., FIRST])
    answered = fresh.answered(np.stack([first, last], axis=2))
    up, down = stops[:, FIRST], stops[:, SECOND]  # stopped at the cells `up` and `down - 1`
    has_second = (freely[..., FIRST] >= up) & (last <= up)
    has_first = (freely[..., SECOND] <= down) & (first >= down)
    cells = np.pad(fresh.rows, ((0, 0), (0, 1)))  # without rows at V, which is −1 too
    for answer, cell, is_stopped in ((SECOND, up, has_second), (FIRST, down - 1, has_first)):
        rows = is_stopped[:, fresh.place] * cells[np.arange(len(cells)), cell[fresh.place]]
        answered[..., answer] -= rows
        answered[..., DEFERRED] += rows
    return answered


def chain_of(selecting: CountTable) -> tuple[Ints, int]:
    """Return the chain without stops, (K, m, 2), and the last rule that gives cells their surer label.

    At first all rows are deferred, at last each cell has got both answers.
    """
    chances = selecting.chances.ravel()
    prices = np.unique([*chances, *(1.0 - chances), 0.0, 2.0])
    cuts = [selecting.at_prices(each) for each in (prices, 1.0 - prices)]
    return np.stack(cuts, axis=2), int((prices <= 0.5).sum() - 1)


def stopped(
    share: Share, fresh: CountTable, rules: Ints, n_sure: int, level: float
) -> tuple[Ints, Ints]:
    """Return where a share stops the cuts of its places, (m,), and the cells counted at each rule, (K, m).

    ``rules`` are the chain without stops. The errors of cells beyond the counted cuts of a rule have been
    counted before it.
    """
    wrong = fresh.answered(rules)[:, share.strata, share.answer].sum(axis=1)
    n_rows = int(fresh.rows[share.strata].sum())
    n = int((wrong <= most_reached(n_rows, share.allowed, level)).sum())
    cuts = rules[:, list(share.places), share.answer]
    none = np.full(len(share.places), (0, fresh.end)[share.answer])
    return cuts[n - 1] if n else none, cuts[np.arange(len(rules)).clip(max=min(n, n_sure))]
