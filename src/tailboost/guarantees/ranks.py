"""Ranks: thresholds at order statistics of fresh scores, which need no test.

Each limit is on the share of a fixed number of rows, all with one threshold, that get one answer. A larger
threshold can only add rows with the first answer (a smaller one with the second).

Theorem. Let t* be the first threshold of a place that breaks a limit of this answer. The test of this limit
at t* passes with a probability of at most its level, and where it fails, all further thresholds fail. So all
thresholds that pass keep the limits, whichever is taken after any look at the same rows. Places and answers
divide the level (union bound), limits of one place and answer do not.

The objective alone needs selecting rows, and these may be the fresh rows: then all rows certify.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tailboost.core.array_types import Floats, Ints
from tailboost.guarantees.case import Case, Outcome
from tailboost.guarantees.tests import FIRST, Tests
from tailboost.rates.bounds import most_reached

AT_RANKS = "Thresholds are at ranks of the scores of these rows, which need no test."


def is_ranked(test: Tests, place: Ints) -> bool:
    """Return whether each subgroup of a limit is a share of one answer among rows of one threshold."""
    is_alone = (test.answers >= 0).all() and (test.places(place).sum(axis=1) == 1).all()
    return bool(is_alone and not test.limit.compares)


def ends_between(scores: Floats) -> tuple[Floats, Ints]:
    """Return the thresholds between different scores, from −∞ to ∞, with the number of scores below each."""
    values, counts = np.unique(scores, return_counts=True)
    return np.r_[-np.inf, values[1:], np.inf], np.r_[0, counts.cumsum()]


def windows(
    case: Case,
    tests: Sequence[Tests],
    cell: Ints,
    n_cells: int,
    level: float,
    n_others: int = 0,
) -> tuple[Ints, Ints, float]:
    """Return the least and the largest cut of each place that keep all limits, and the level of each.

    ``cell`` has the number of each fresh row's cell of the score, below ``n_cells``. The level is divided
    between the places and answers, and ``n_others`` more limits.
    """
    shares = []
    for test in tests:
        for j, strata in enumerate(test.strata):
            rows = case.voters_of(strata)
            if len(rows):
                place = case.fresh_place[np.flatnonzero(strata)[0]]
                shares.append((int(place), int(test.answers[j]), test.allowed[j], cell[rows]))
    level_of_each = level / max(1, len({share[:2] for share in shares}) + n_others)
    low = np.zeros(case.n_places, dtype=np.intp)
    high = np.full(case.n_places, n_cells)
    for place, answer, allowed, cells in shares:
        most = int(most_reached(len(cells), float(allowed), level_of_each))
        by_cell = np.bincount(cells, minlength=n_cells)
        if answer == FIRST:
            high[place] = min(high[place], (by_cell.cumsum() <= most).sum())
        else:
            low[place] = max(low[place], n_cells - (by_cell[::-1].cumsum() <= most).sum())
    return low, high, level_of_each


def applies(case: Case) -> bool | None:
    """Return True if each limit is on one answer to rows of one threshold; the fresh rows are not read."""
    if case.odds is None or case.defers:
        return None
    return all(is_ranked(test, case.cells.place) for test in case.tests) or None


def run(case: Case, plan: bool) -> Outcome:
    """Return the rule of least loss within all ranks."""
    values, cell = np.unique(case.scores, return_inverse=True)
    ends, n_cells = np.r_[-np.inf, values[1:], np.inf], len(values)
    low, high, _ = windows(case, case.fresh_tests, cell, n_cells, case.level)
    if (low > high).any():
        return Outcome(case.fresh, case.level, "no threshold keeps all limits on these rows")
    stratum = case.fresh.answered.stratum
    places = case.fresh_place[stratum]
    beside = (case.fresh_losses[:, 0] - case.fresh_losses[:, 1])[stratum]
    at_values = np.searchsorted(case.odds.edges, ends)
    thresholds = np.empty(case.n_places)
    for place in range(case.n_places):
        here = places == place
        loss = np.append(0.0, np.bincount(cell[here], beside[here], n_cells).cumsum())
        loss = loss + losses_of_place(case, place)[at_values]
        inside = slice(low[place], high[place] + 1)
        thresholds[place] = ends[inside][loss[inside].argmin()]
    return at_ranks(case, thresholds)


def at_ranks(case: Case, thresholds: Floats) -> Outcome:
    """Return the rule of thresholds at ranks, shape (m,).

    They are written as decimals that part the selecting and the fresh rows alike.
    """
    ends = case.odds.ends(thresholds[:, None], case.scores, case.places)
    return case.certified(case.selection.at(ends), "ranks", AT_RANKS)


def losses_of_place(case: Case, place: int) -> Floats:
    """Return the loss of the selecting rows of a place at each cut, less that of cut 0, shape (V + 1,)."""
    here = case.cells.place == place
    beside = (case.losses[here, 0] - case.losses[here, 1]) @ case.cells.rows[here]
    return np.append(0.0, beside.cumsum())
