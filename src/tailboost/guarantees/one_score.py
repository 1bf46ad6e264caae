"""Rules by cuts on one score of two labels: what the procedures of `calibrate` read of both tables of rows.

A place is a group with thresholds of its own, or all rows. A rule has two cuts in each place: rows in cells
of the score below the first cut get the first label, from the second cut on the second label, and between
them a human decides.

Axes of arrays: K rules, m places, S strata, V cells of the score, 3 answers, 2 cuts. Cuts have the shape
(K, m, 2), and the rows that rules answer (K, S, 3).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import cached_property
from itertools import compress
from typing import Self

import numpy as np
from scipy.special import log_ndtr

from tailboost.core import Floats, Ints, Mask, frozen_object
from tailboost.guarantees.exact_tests import (
    ALWAYS,
    DEFERRED,
    FIRST,
    NEVER,
    SECOND,
    LimitTests,
    Possible,
    Share,
)
from tailboost.guarantees.fresh import Fresh
from tailboost.rates import Strata
from tailboost.selection.search import OVERALL_ERROR, TIE_PRICE
from tailboost.selection.selection import Selection
from tailboost.selection.thresholds import Thresholds


@frozen_object
class CountTable:
    """Rows by stratum and cell of a score, with the tests of limits and the losses of answers.

    Attributes
    ----------
    rows : ndarray of shape (S, V)
        Numbers of rows by stratum and cell.
    place : ndarray of shape (S,)
        The place of each stratum.
    losses : ndarray of shape (S, 3)
        The loss of each answer by stratum.
    chances : ndarray of shape (m, V)
        Probability of the second label in each place and cell, on the selecting rows.
    tests : list of LimitTests
        The tests of each limit.
    defers : bool
        Whether rules may defer: otherwise both cuts of a place are equal.
    """

    rows: Floats
    place: Ints
    losses: Floats
    chances: Floats
    tests: list[LimitTests]
    defers: bool

    @classmethod
    def of(
        cls, selection: Selection, strata: Strata | None = None, rows: Floats | None = None
    ) -> Self | None:
        """Return some rows by stratum and cell, by default the selecting ones.

        None without one score of two labels, without an objective that is a sum of losses, or without tests.
        """
        family, problem = selection.thresholds, selection.problem
        objective, rate = problem.objective, problem.objective.rate
        is_sum = not (objective.worst or rate.is_ratio or rate.needs_costs)
        if family is None or not is_sum or rate.by is not None:
            return None
        if strata is None or rows is None:
            strata, rows = family.data.strata, family.weights
        losses = np.pad(rate.terms(strata).top[0], ((0, 0), (0, 3 - strata.n_actions)))
        if objective == OVERALL_ERROR:
            losses[:, DEFERRED] += TIE_PRICE
        places = family.place_columns
        of_limits = [LimitTests.of(limit, strata, places) for limit in problem.limits]
        tests = list(filter(None, of_limits))
        if len(tests) < len(of_limits):
            return None
        defers = family.data.strata.defers
        return cls(rows, family.places_of(strata), losses, family.chances, tests, defers)

    @property
    def n_places(self) -> int:
        """Number m of places."""
        return len(self.chances)

    @property
    def end(self) -> int:
        """V: a cut above all cells."""
        return self.rows.shape[1]

    @cached_property
    def shares(self) -> list[list[Share]]:
        """The limited shares of one answer among fixed rows, by limit; empty for a limit of another form."""
        return [each.shares(self.place, self.n_places) for each in self.tests]

    def shares_of(self, limits: Mask) -> list[Share]:
        """Return the shares of some limits."""
        return [share for shares in compress(self.shares, limits) for share in shares]

    def by_cell(self, shares: Sequence[Share]) -> Ints:
        """Return the rows of shares by cell, shape (len(shares), V)."""
        strata = np.reshape([share.strata for share in shares], (-1, len(self.place)))
        return np.asarray(strata @ self.rows, dtype=np.intp)

    def alone(self, place: int) -> CountTable:
        """Return the rows of one place, with the tests that read them."""
        here = self.place == place
        return replace(
            self,
            rows=self.rows * here[:, None],
            place=np.zeros_like(self.place),
            chances=self.chances[[place]],
            tests=[part for test in self.tests for part in test.reading(here)],
        )

    # -- rules -----------------------------------------------------------------------------------------

    @cached_property
    def _below(self) -> Floats:
        return np.pad(self.rows.cumsum(axis=1), ((0, 0), (1, 0)))

    def at_prices(self, prices: Floats) -> Ints:
        """Return the first cell of each place whose chance is at least each of K prices, shape (K, m)."""
        return np.stack([np.searchsorted(each, prices) for each in self.chances], axis=1)

    def answered(self, cuts: Ints) -> Floats:
        """Return the rows by stratum and answer, shape (K, S, 3)."""
        strata = np.arange(len(self.place))
        low = self._below[strata, cuts[:, self.place, 0]]
        high = self._below[strata, cuts[:, self.place, 1]]
        return np.stack([low, self._below[:, -1] - high, high - low], axis=2)

    def possible(self, cuts: Ints) -> Possible:
        """Return the answers that rows can get, whatever their score."""
        low, high = cuts[..., 0], cuts[..., 1]
        answers = np.stack([low > 0, high < self.end, low < high], axis=2).astype(np.float64)
        return Possible(answers[:, self.place], answers.max(axis=1, keepdims=True))

    def passes(self, tests: Iterable[LimitTests], cuts: Ints, level: float) -> Mask:
        """Return which rules pass some tests at a level, shape (K,)."""
        answered, possible = self.answered(cuts), self.possible(cuts)
        passes = np.ones(len(cuts), dtype=np.bool_)
        for test in tests:
            passes &= test.passes(*test.counts(answered), test.kept(possible), level)
        return passes

    def loss(self, cuts: Ints) -> Floats:
        """Return the loss of rules, shape (K,)."""
        return np.tensordot(self.answered(cuts), self.losses, ((1, 2), (0, 1)))

    def loss_of_place(self, place: int) -> Floats:
        """Return the loss in a place of one threshold at each cut, less that of cut 0, shape (V + 1,)."""
        here = self.place == place
        of_first = (self.losses[here, 0] - self.losses[here, 1]) @ self.rows[here]
        return np.append(0.0, of_first.cumsum())

    def log_power(self, cuts: Ints, ratio: float, level: float) -> Floats:
        """Return the log of the predicted probability of passing all tests on other rows, shape (K,)."""
        answered, possible = self.answered(cuts), self.possible(cuts)
        probits = [test.probits(answered, possible, ratio, level) for test in self.tests]
        z = np.hstack([np.empty((len(cuts), 0)), *probits])
        powers = np.where(z >= ALWAYS, 0.0, log_ndtr(z)).sum(axis=1)
        return np.where((z <= NEVER).any(axis=1), -np.inf, powers)


@frozen_object
class OneScore:
    """Rules on one score within limits, with both tables of rows.

    Attributes
    ----------
    selection : Selection
        The problem, and its candidates.
    family : Thresholds
        The rules on the score, on the selecting rows.
    selecting, certifying : CountTable
        The selecting rows, and the fresh rows with a vote among all.
    fresh : Fresh
        The fresh rows.
    scores, places, cell : ndarray of shape (n,)
        Score of each fresh row, its place, and its cell, on the side of each cut on which rules answer it.
    """

    selection: Selection
    family: Thresholds
    selecting: CountTable
    certifying: CountTable
    fresh: Fresh
    scores: Floats
    places: Ints
    cell: Ints

    @classmethod
    def of(cls, selection: Selection, fresh: Fresh) -> Self | None:
        """Return the rules on the score of a selection; None without one, or without tests."""
        family, selecting = selection.thresholds, CountTable.of(selection)
        if family is None or selecting is None:
            return None
        scores, places = family.sign * fresh.outputs.score, fresh.outputs.groups
        cell = family.cells(scores, places)
        rows = _counted(fresh, cell, fresh.voting, selecting.end)
        certifying = CountTable.of(selection, fresh.answered.strata, rows)
        if certifying is None:
            return None
        return cls(selection, family, selecting, certifying, fresh, scores, places, cell)

    @property
    def ratio(self) -> float:
        """Fresh rows, or clusters with a vote each, by selecting rows."""
        return self.fresh.n_units / self.selection.n_rows

    def counted(self, used: Mask) -> CountTable:
        """Return some of the fresh rows with a vote, by stratum and cell."""
        votes = self.fresh.voting
        rows = _counted(self.fresh, self.cell, votes[used[votes]], self.certifying.end)
        return replace(self.certifying, rows=rows)

    def answered_by(self, cuts: Ints) -> Fresh:
        """Return the fresh rows with the answers of cuts, shape (m, 2)."""
        low, high = cuts[self.places].T
        actions = np.where(self.cell < low, FIRST, np.where(self.cell < high, DEFERRED, SECOND))
        return self.fresh.answered_by(actions)

    def rule(self, cuts: Ints) -> Selection:
        """Return the rule of cuts, shape (m, 2)."""
        ends = self.family.edges[cuts[:, : 1 + self.selecting.defers]]
        return self.selection.at(self.family.written(ends))


def _counted(fresh: Fresh, cell: Ints, rows: Ints, n_cells: int) -> Floats:
    """Return how many of some fresh rows are in each stratum and cell, shape (S, V)."""
    found = np.zeros((len(fresh.answered.strata.mass), n_cells))
    np.add.at(found, (fresh.answered.stratum[rows], cell[rows]), 1.0)
    return found


def one_cut(cuts: Ints) -> Ints:
    """Return rules with both cuts of each place at one cell, (K, m, 2), of cuts of shape (K, m)."""
    return np.repeat(cuts[:, :, None], 2, axis=2)
