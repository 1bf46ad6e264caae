"""Ranks: thresholds at order statistics of fresh scores, which need no test.

Each limit is on the share of a fixed number of rows, all with one threshold, that get one answer. A larger
threshold can only add rows with the first answer (a smaller one with the second).

Theorem. Whichever thresholds pass the tests of their limits, they keep all limits, except with a probability
of at most the level, also if the same rows choose among them.

*Proof.* Take a place and an answer, and move the threshold so that this answer grows. Let t* be the first
threshold that breaks a limit: it depends on the population, not on the rows. The test of this limit passes at
t* with a probability of at most its level. Where it fails at t*, it fails at all further thresholds, which
have no fewer errors in the same rows; and all thresholds before t* keep the limits of this place and answer.
The union bound adds the levels of places and answers. Limits of one place and answer share one t*, so they do
not divide the level. ∎

The objective alone needs selecting rows, and these may be the fresh rows: then all rows certify.
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from tailboost.core import Floats, Ints
from tailboost.guarantees.exact_tests import FIRST, CountTable, OneScore, Share, most_reached
from tailboost.guarantees.fresh import Certified, Refused
from tailboost.guarantees.sequence import sequence_of

METHOD = "ranks"
AT_RANKS = "Thresholds are at ranks of the scores of these rows, which need no test."
NO_THRESHOLD = "equal scores, or too few, leave no threshold within the ranks"


def serve(table: CountTable) -> bool:
    """Return whether each limit is on one answer to fixed rows of one threshold, without comparing them."""
    return all(is_ranked(test.shares) for test in table.tests)


def is_ranked(shares: Sequence[Share]) -> bool:
    """Return whether a limit is on such shares."""
    return bool(shares) and all(
        len(share.places) == 1 and not np.isnan(share.allowed) for share in shares
    )


def n_stops(shares: Sequence[Share]) -> int:
    """Return the number of places and answers of shares, among which a level is divided."""
    return len({(share.places, share.answer) for share in shares})


def stops_of(shares: Sequence[Share], by_cell: Ints, n_places: int, level: float) -> Ints:
    """Return the largest and the least cut of each place within the ranks of shares at a level each, (m, 2).

    They are the stops of the first and of the second label. ``by_cell`` has the rows of each share in V cells
    of the score, shape (len(shares), V).
    """
    n_cells = by_cell.shape[1]
    stops = np.tile([n_cells, 0], (n_places, 1))
    for share, rows in zip(shares, by_cell, strict=True):
        (place,) = share.places
        most = most_reached(rows.sum(), share.allowed, level)
        if share.answer == FIRST:  # in all cells below the cut
            stops[place, 0] = min(stops[place, 0], (rows.cumsum() <= most).sum())
        else:
            n_within = (rows[::-1].cumsum() <= most).sum()
            stops[place, 1] = max(stops[place, 1], n_cells - n_within)
    return stops


def certified(case: OneScore, level: float) -> Certified | Refused | None:
    """Return the rule of least loss within the ranks of all limits; None if a limit needs a test.

    Thresholds are written as decimals that part the selecting and the fresh rows alike.
    """
    selecting, fresh = case.selecting, case.fresh
    if selecting.defers or not (serve(selecting) and serve(case.certifying)):
        return None
    values, cell = np.unique(case.scores, return_inverse=True)
    stratum = fresh.answered.stratum
    shares = [share for test in case.certifying.tests for share in test.shares]
    rows = [fresh.votes.among(np.flatnonzero(share.strata[stratum])) for share in shares]
    by_cell = np.array([np.bincount(cell[each], minlength=len(values)) for each in rows])
    stops = stops_of(shares, by_cell, case.family.n_places, level / n_stops(shares))
    if (stops[:, 1] > stops[:, 0]).any():
        return refused(case, level)
    ends = np.r_[-np.inf, values[1:], np.inf]  # below, between and above the scores
    at_ends = np.searchsorted(case.family.edges, ends)
    of_first = case.certifying.of_first[stratum]
    thresholds = []
    for place, (largest, least) in enumerate(stops.tolist()):
        here = case.places == place
        of_cells = np.bincount(cell[here], of_first[here], len(values))
        loss = selecting.loss_of_place(place)[at_ends] + np.append(0.0, of_cells.cumsum())
        thresholds.append(ends[least + loss[least : largest + 1].argmin()])
    return replace(at_thresholds(case, np.array(thresholds)), chose=True)


def at_thresholds(case: OneScore, thresholds: Floats) -> Certified:
    """Return the rule of thresholds between fresh scores, shape (m,)."""
    ends = case.family.written(thresholds[:, None], case.scores, case.places)
    return Certified(case.selection.at(ends), METHOD, AT_RANKS)


def refused(case: OneScore, level: float) -> Refused:
    """Return that no threshold is within the ranks."""
    sequence, _ = sequence_of(case.selecting, case.ratio, level)
    return Refused(case.rule(sequence[0]), level, NO_THRESHOLD)
