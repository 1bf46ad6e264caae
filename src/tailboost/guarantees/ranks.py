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
from tailboost.guarantees.exact_tests import LimitedShare, most_errors
from tailboost.guarantees.one_score import Certified, OneScore, Refused
from tailboost.guarantees.sequence import refused
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
    table = case.certifying
    stratum = case.fresh.answered.stratum
    thresholds = thresholds_between(case.scores)
    # 1. The stops.
    shares = case.division.shares
    below = (
        n_below(
            case.scores[case.fresh.votes.among(np.flatnonzero(share.strata[stratum]))],
            thresholds,
        )
        for share in shares
    )
    least, largest = stops_of(shares, below, table.n_places, len(thresholds) - 1, level)
    if (least > largest).any():
        return None
    # 2. The least loss between them.
    cheapest = []
    for place in range(table.n_places):
        within = thresholds[least[place] : largest[place] + 1]
        loss = case.loss_at(place, within) + sum(
            table.excess[number] * n_below(case.scores[stratum == number], within)
            for number in np.flatnonzero(table.place == place)
        )
        cheapest.append(within[loss.argmin()])
    return np.array(cheapest)


# -- stops ------------------------------------------------------------------------------------------------


def stops_of(
    shares: Sequence[LimitedShare],
    below: Iterable[Ints],
    n_places: int,
    last: int,
    level: float,
) -> tuple[Ints, Ints]:
    """Return the least and the largest cut of each place within the ranks of shares, shape (m,) each.

    These are the stops of the second and of the first label. ``below`` has the rows of each share below each
    cut, ``last`` is the last cut, and ``level`` that of each share.
    """
    least = np.zeros(n_places, int)
    largest = np.full(n_places, last)
    for share, counted in zip(shares, below, strict=True):
        (place,) = share.places
        n = counted[-1]
        most = most_errors(n, share.allowed, level)
        # The cuts within the rank of a share are the first ones, or the last ones.
        if share.answer == FIRST:
            largest[place] = min(largest[place], (counted[1:] <= most).sum())
        else:
            least[place] = max(least[place], (n - counted[:-1] > most).sum())
    return least, largest


# -- thresholds between scores ------------------------------------------------------------------------------


def thresholds_between(scores: Floats) -> Floats:
    """Return the thresholds between different scores, from −∞ to ∞, ascending."""
    return np.r_[-np.inf, np.unique(scores)[1:], np.inf]


def n_below(scores: Floats, thresholds: Floats) -> Ints:
    """Return how many scores are below each threshold."""
    return np.searchsorted(np.sort(scores), thresholds)


def at_thresholds(case: OneScore, thresholds: Floats) -> Certified:
    """Return the rule of thresholds between fresh scores, shape (m,), written as decimals."""
    decimals = case.family.decimals(thresholds[:, None], case.scores, case.fresh.outputs.groups)
    return Certified(case.selection.at(decimals), METHOD, AT_RANKS)
