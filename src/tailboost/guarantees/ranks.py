"""Ranks: thresholds at order statistics of fresh scores, which need no test.

*Needs.* Each limit is on the share of a fixed number of rows, all with one threshold, that get one answer. A
larger threshold can only add rows with the first answer (a smaller one with the second).

1. Each limit stops its threshold at a rank: at the last one whose errors among the fresh rows pass the exact
   test of the limit.
2. Between its stops each threshold has the least loss on the selecting and the fresh rows together.

*Theorem.* Whichever thresholds pass the tests of their limits, they keep all limits, except with a
probability of at most the level, also if the same rows choose among them.

*Proof.* Take a place and an answer, and move the threshold so that this answer grows. Let t* be the first
floating-point number that breaks a limit: it depends on the population, not on the rows. The test of this
limit passes at t* with a probability of at most its level. Where it fails at t*, it fails at all further
thresholds, which have no fewer errors in the same rows; and all thresholds before t* keep the limits of this
place and answer. The union bound adds the levels of places and answers. Limits of one place and answer share
one t*, so they do not divide the level. ∎

The objective alone needs selecting rows, and these may be the fresh rows: then all rows certify.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace

import numpy as np

from tailboost.core import Floats, Ints
from tailboost.guarantees.exact_tests import LimitedShare, most_reached
from tailboost.guarantees.one_score import Certified, OneScore, Refused
from tailboost.guarantees.sequence import sequence_of
from tailboost.selection.thresholds import FIRST

METHOD = "ranks"
AT_RANKS = "Thresholds are at ranks of the scores of these rows, which need no test."
NO_RULE = "equal scores, or too few, leave no rule within the ranks and tests"


def certified(case: OneScore, level: float) -> Certified | Refused:
    """Return the rule of least loss within the ranks of all limits.

    Thresholds are written as decimals that part the selecting and the fresh rows alike.
    """
    thresholds = cheapest_within(case, level * case.division.level_of_stop)
    if thresholds is None:
        return refused(case, level)
    return replace(at_thresholds(case, thresholds), chose=True)


def cheapest_within(case: OneScore, level: float) -> Floats | None:
    """Return the threshold of least loss in each place, shape (m,); None if some place has none in its ranks.

    ``level`` is that of each place and answer.

    All thresholds between fresh scores take most of the memory of a large table: they go with this call.
    """
    # 1. The stops.
    stratum = case.fresh.answered.stratum
    ends = ends_between(case.scores)
    shares = case.division.shares
    votes = case.fresh.votes
    below = (
        n_below(case.scores[votes.among(np.flatnonzero(share.strata[stratum]))], ends)
        for share in shares
    )
    largest, least = stops_of(shares, below, case.family.n_places, len(ends) - 1, level)
    if (least > largest).any():
        return None
    # 2. The least loss between them.
    thresholds = []
    for place in range(case.family.n_places):
        within = ends[least[place] : largest[place] + 1]
        loss = case.loss_at(place, within) + sum(
            case.certifying.excess[number] * n_below(case.scores[stratum == number], within)
            for number in np.flatnonzero(case.certifying.place == place)
        )
        thresholds.append(within[loss.argmin()])
    return np.array(thresholds)


# -- stops ------------------------------------------------------------------------------------------------


def stops_of(
    shares: Sequence[LimitedShare], below: Iterable[Ints], n_places: int, end: int, level: float
) -> tuple[Ints, Ints]:
    """Return the largest and the least cut of each place within the ranks of shares, shape (m,) each.

    These are the stops of the first and of the second label. ``below`` has the rows of each share below each
    cut, ``end`` is the last cut, and ``level`` that of each share.
    """
    largest = np.full(n_places, end)
    least = np.zeros(n_places, int)
    for share, counted in zip(shares, below, strict=True):
        (place,) = share.places
        n = counted[-1]
        most = most_reached(n, share.allowed, level)
        # The cuts within the rank of a share are the first ones, or the last ones.
        if share.answer == FIRST:
            largest[place] = min(largest[place], (counted[1:] <= most).sum())
        else:
            least[place] = max(least[place], (n - counted[:-1] > most).sum())
    return largest, least


# -- thresholds between scores ------------------------------------------------------------------------------


def ends_between(scores: Floats) -> Floats:
    """Return the thresholds between different scores, from −∞ to ∞, ascending."""
    return np.r_[-np.inf, np.unique(scores)[1:], np.inf]


def n_below(scores: Floats, ends: Floats) -> Ints:
    """Return how many scores are below each end."""
    return np.searchsorted(np.sort(scores), ends)


def at_thresholds(case: OneScore, thresholds: Floats) -> Certified:
    """Return the rule of thresholds between fresh scores, shape (m,)."""
    ends = case.family.decimals(thresholds[:, None], case.scores, case.fresh.outputs.groups)
    return Certified(case.selection.at(ends), METHOD, AT_RANKS)


def refused(case: OneScore, level: float) -> Refused:
    """Return the likeliest rule, which the selecting rows alone choose."""
    sequence, _ = sequence_of(case.selecting, case.ratio, level)
    return Refused(case.rule(sequence[0]))
