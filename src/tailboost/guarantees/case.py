"""What a procedure of `calibrate` gets, a selection and fresh rows, and the outcome that it returns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from tailboost.core.array_types import Floats, Ints, Mask
from tailboost.guarantees.fresh import Fresh
from tailboost.guarantees.tests import Tests, losses_of
from tailboost.rates import Limit


@dataclass(frozen=True, eq=False)
class Outcome:
    """What a procedure has found: a selection whose rule is within all limits, or the likeliest rule.

    Attributes
    ----------
    answered : Fresh
        The fresh rows with the answers of the rule.
    level : float
        The level of its tests.
    words : str
        How the rule was made, or the reason of a refusal beside missed limits.
    selection : Selection or None
        None if no rule is certified.
    method : str
        Name of the procedure.
    """

    answered: Fresh
    level: float
    words: str = ""
    selection: Any = None
    method: str = ""


@dataclass(frozen=True, eq=False)
class Cells:
    """Rows by stratum and cell of a score, shape (S, V), with the place of each stratum, shape (S,).

    A rule has two cuts in each place: rows in cells below the first get the first label, from the second on
    the second label, and a human decides between them.
    """

    rows: Floats
    place: Ints

    @property
    def end(self) -> int:
        """V: a cut above all cells."""
        return self.rows.shape[1]

    @cached_property
    def _below(self) -> Floats:
        return np.pad(self.rows.cumsum(axis=1), ((0, 0), (1, 0)))

    def answered(self, cuts: Ints) -> Floats:
        """Return the rows of each stratum with each answer, (K, S, 3), of rules with cuts of (K, m, 2)."""
        strata = np.arange(len(self.place))
        low = self._below[strata, cuts[:, self.place, 0]]
        high = self._below[strata, cuts[:, self.place, 1]]
        return np.stack([low, self._below[:, -1] - high, high - low], axis=2)

    def possible(self, cuts: Ints) -> Floats:
        """Return 1 for each answer that rows of a stratum can get, whatever their score, (K, S, 3)."""
        low = cuts[:, self.place, 0]
        high = cuts[:, self.place, 1]
        return np.stack([low > 0, high < self.end, low < high], axis=2).astype(np.float64)


class Case:
    """A selection within limits, the fresh rows, and the allowed probability of a broken limit.

    Which procedure applies depends on the selecting rows and on numbers of fresh rows alone. So the next one
    may have the whole level.

    Attributes
    ----------
    limits : sequence of Limit
        The limits of the selection's problem.
    odds : Thresholds or None
        The score of two labels on the selecting rows; None without one, or if rows do not count whole. The
        attributes below exist only with a score, and of fresh rows only if they are given.
    tests, fresh_tests : list of Tests
        The tests of all limits on the selecting rows, and on the fresh rows.
    losses, fresh_losses : ndarray of shape (S, 3)
        The loss of each answer by stratum of the selecting rows, and of the fresh rows.
    cells : Cells
        The selecting rows by stratum and value of the score.
    n_places : int
        Number m of groups with thresholds of their own.
    fresh_place : ndarray of shape (S,)
        The place of each stratum of the fresh rows.
    scores, places, cell : ndarray of shape (n,)
        Score of each fresh row, the number of its thresholds, and its cell, on the side of each cut on which
        rules answer it.
    ratio : float
        Fresh rows, or clusters with a vote each, by selecting rows.
    """

    def __init__(self, selection: Any, fresh: Any, level: float) -> None:
        self.selection = selection
        self.fresh = fresh
        self.level = level
        self.limits: Sequence[Limit] = selection.problem.limits
        self.odds: Any = selection.thresholds
        if self.odds is None:
            return
        strata = self.odds.data.strata
        self.tests: Any = [Tests.of(limit, strata) for limit in self.limits]
        self.losses: Any = losses_of(selection.problem.objective, strata)
        if None in self.tests or self.losses is None:
            self.odds = None
            return
        self.defers: bool = strata.defers
        self.cells = Cells(self.odds.weights, self.odds.places)
        self.n_places = int(self.cells.place.max()) + 1
        if fresh is None:
            return
        strata = fresh.answered.strata
        self.fresh_tests: Any = [Tests.of(limit, strata) for limit in self.limits]
        self.fresh_losses: Any = losses_of(selection.problem.objective, strata)
        self.fresh_place: Ints = self.odds.places_of(strata)
        self.scores, self.places = selection.scored(fresh.table)
        self.ratio = float((fresh.n_clusters or len(fresh)) / self.selection.n_rows)

    @cached_property
    def cell(self) -> Ints:
        """The cell of the score of each fresh row, shape (n,)."""
        return np.asarray(self.odds.cells(self.scores, self.places))

    def voters_of(self, strata: Mask) -> Ints:
        """Return the fresh rows of some strata, shape (S,), of each cluster one."""
        return self.fresh.voters(np.flatnonzero(strata[self.fresh.answered.stratum]))

    def passes(
        self, answered: Fresh, tests: Sequence[Tests], possible: Floats, level: float
    ) -> bool:
        """Return whether answered fresh rows pass tests; ``possible`` are answers by stratum, (1, S, 3).

        A cluster has one vote in a test.
        """
        stratum, actions = answered.answered.stratum, answered.answered.actions
        for test in tests:
            counts = []
            for wrong, among in zip(test.wrong, test.among, strict=True):
                rows = answered.voters(np.flatnonzero(among[stratum, actions]))
                counts.append((wrong[stratum[rows], actions[rows]].sum(), len(rows)))
            n_wrong, n_rows = np.array(counts, dtype=np.float64).T[:, None]
            if not test.passes(n_wrong, n_rows, test.kept(possible), level).all():
                return False
        return True

    def certified(self, selection: Any, method: str, words: str) -> Outcome:
        """Return the outcome of a certified rule."""
        return Outcome(self.fresh.by(selection), self.level, words, selection, method)

    # -- rules -----------------------------------------------------------------------------------------

    def answered_by(self, cuts: Ints) -> Fresh:
        """Return the fresh rows with the answers of cuts, shape (m, 2)."""
        low, high = cuts[self.fresh_place[self.fresh.answered.stratum]].T
        second_or_deferred = np.where(self.cell < high, 2, 1)
        return self.fresh.with_actions(np.where(self.cell < low, 0, second_or_deferred))

    def rule(self, cuts: Ints) -> Any:
        """Return the selection with the rule of cuts, shape (m, 2)."""
        return self.selection.at(self.odds.ends(self.odds.edges[cuts[:, : 1 + self.defers]]))
