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

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from tailboost.core import Floats, Ints, Mask
from tailboost.guarantees.exact_tests import FIRST, Share, most_reached
from tailboost.guarantees.fresh import Certified, Refused
from tailboost.guarantees.one_score import CountTable, OneScore
from tailboost.guarantees.sequence import sequence_of

METHOD = "ranks"
AT_RANKS = "Thresholds are at ranks of the scores of these rows, which need no test."
NO_THRESHOLD = "equal scores, or too few, leave no threshold within the ranks"


def serve(table: CountTable) -> bool:
    """Return whether each limit is on one answer to fixed rows of one threshold, without comparing them."""
    return all(is_ranked(shares) for shares in table.shares)


def is_ranked(shares: Sequence[Share]) -> bool:
    """Return whether a limit is on such shares."""
    return bool(shares) and all(
        len(share.places) == 1 and not np.isnan(share.allowed) for share in shares
    )


def windows(
    case: OneScore,
    shares: Sequence[Share],
    cell: Ints,
    n_cells: int,
    level: float,
    n_others: int = 0,
    used: Mask | bool = True,
) -> tuple[Ints, Ints, float]:
    """Return the least and the largest cut of each place that keep shares, and the level of each share.

    ``cell`` has the number of each fresh row's cell of the score, below ``n_cells``. The level is divided
    between the places and answers, and ``n_others`` more limits. ``used`` are the rows that count.
    """
    limited = {(share.places, share.answer) for share in shares}
    level_of_each = level / max(1, len(limited) + n_others)
    n_places = case.selecting.n_places
    least, largest = np.zeros(n_places, dtype=np.intp), np.full(n_places, n_cells)
    for share in shares:
        rows = case.fresh.votes.among(
            np.flatnonzero(share.strata[case.fresh.answered.stratum] & used)
        )
        most = most_reached(len(rows), share.allowed, level_of_each)
        by_cell = np.bincount(cell[rows], minlength=n_cells)
        (place,) = share.places
        if share.answer == FIRST:  # in all cells below the cut
            largest[place] = min(largest[place], (by_cell.cumsum() <= most).sum())
        else:
            n_within = (by_cell[::-1].cumsum() <= most).sum()
            least[place] = max(least[place], n_cells - n_within)
    return least, largest, level_of_each


def certified(case: OneScore, level: float) -> Certified | Refused | None:
    """Return the rule of least loss within the ranks of all limits; None if a limit needs a test.

    Thresholds are written as decimals that part the selecting and the fresh rows alike.
    """
    if case.selecting.defers or not (serve(case.selecting) and serve(case.certifying)):
        return None
    values, cell = np.unique(case.scores, return_inverse=True)
    ends = np.r_[-np.inf, values[1:], np.inf]  # below, between and above the scores
    shares = [share for of_limit in case.certifying.shares for share in of_limit]
    least, largest, _ = windows(case, shares, cell, len(values), level)
    if (least > largest).any():
        return refused(case, level)
    losses = case.certifying.losses
    # Of the first label in place of the second, for each row.
    of_first = (losses[:, 0] - losses[:, 1])[case.fresh.answered.stratum]
    at_ends = np.searchsorted(case.family.edges, ends)
    thresholds = np.empty(len(least))
    for place in range(len(least)):
        here = case.places == place
        of_cells = np.bincount(cell[here], of_first[here], len(values))
        loss = case.selecting.loss_of_place(place)[at_ends] + np.append(0.0, of_cells.cumsum())
        inside = slice(least[place], largest[place] + 1)
        thresholds[place] = ends[inside][loss[inside].argmin()]
    return replace(at_thresholds(case, thresholds), chose=True)


def at_thresholds(case: OneScore, thresholds: Floats) -> Certified:
    """Return the rule of thresholds between fresh scores, shape (m,)."""
    ends = case.family.written(thresholds[:, None], case.scores, case.places)
    rule = case.selection.at(ends)
    return Certified(rule, case.fresh.by(rule), METHOD, AT_RANKS)


def refused(case: OneScore, level: float) -> Refused:
    """Return that no threshold is within the ranks."""
    sequence, _ = sequence_of(case.selecting, case.ratio, level)
    return case.refused(sequence[0], level, NO_THRESHOLD)
