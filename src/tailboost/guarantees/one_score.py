"""What a procedure of `calibrate` gets and returns: rules on one score of two labels, and the one it found.

A rule has two cuts in each place, which is a group with thresholds of its own, or all rows. Rows in bins of
the score below the first cut get the first label, from the second cut on the second label, and between them a
human decides. `OneScore` has the selecting rows and the fresh rows, both as numbers by stratum and bin:
counts are all that tests and losses of such rules read. A procedure returns `Certified` or `Refused`.

Axes of arrays: K rules, m places, S strata, V bins of the score, 3 answers, 2 cuts. Cuts have the shape
(K, m, 2), and the rows that rules answer (K, S, 3).
"""

from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from typing import Self

import numpy as np

from tailboost.core import Floats, Ints, Mask, frozen_object
from tailboost.guarantees.division import Division
from tailboost.guarantees.exact_tests import LimitTests
from tailboost.guarantees.fresh import Fresh
from tailboost.rates import Strata
from tailboost.selection.search import OVERALL_ERROR, TIE_PRICE
from tailboost.selection.selection import Selection
from tailboost.selection.thresholds import DEFERRED, FIRST, SECOND, Thresholds

# -- the two tables --------------------------------------------------------------------------------------


@frozen_object
class CountTable:
    """Rows by stratum and bin of a score, with the tests of limits and the losses of answers.

    Attributes
    ----------
    rows : ndarray of shape (S, V)
        Numbers of rows by stratum and bin; those of selecting rows are smoothed, see `Thresholds`.
    place : ndarray of shape (S,)
        The place of each stratum.
    losses : ndarray of shape (S, 3)
        The loss of each answer by stratum.
    chances : ndarray of shape (m, V)
        Probability of the second label in each place and bin, on the selecting rows; ascending by bin.
    tests : list of LimitTests
        The tests of each limit.
    defers : bool
        Whether rules may defer: otherwise both cuts of a place are equal.
    ratio : float
        Rows of the predicted tests, as a multiple of these rows.
    """

    rows: Floats
    place: Ints
    losses: Floats
    chances: Floats
    tests: Sequence[LimitTests]
    defers: bool
    ratio: float

    @classmethod
    def of(
        cls,
        selection: Selection,
        counts: tuple[Strata, Floats] | None = None,
        ratio: float = 1.0,
    ) -> Self | None:
        """Return rows by stratum and bin with the tests of a selection.

        ``counts`` are strata and their rows, by default the selecting ones. None without one score of two
        labels, an objective that is a sum of losses, or tests.
        """
        problem = selection.problem
        family = selection.thresholds
        rate = problem.objective.rate
        if family is None or problem.objective.worst or rate.is_ratio:
            return None
        strata, rows = counts or (family.data.strata, family.weights)
        places = family.places_of(strata)
        tests = []
        for limit in problem.limits:
            test = LimitTests.of(limit, strata, places)
            if test is None:
                return None
            tests.append(test)
        losses = np.pad(rate.terms(strata).top[0], ((0, 0), (0, 3 - strata.n_actions)))
        if problem.objective == OVERALL_ERROR:
            losses[:, DEFERRED] += TIE_PRICE
        defers = family.data.strata.defers
        return cls(rows, places.of_strata, losses, family.chances, tests, defers, ratio)

    @property
    def n_places(self) -> int:
        """Number m of places."""
        return len(self.chances)

    @property
    def n_bins(self) -> int:
        """Number V of bins, which is the cut above all of them."""
        return self.rows.shape[1]

    @cached_property
    def excess(self) -> Floats:
        """The loss of the first label less that of the second, by stratum, shape (S,)."""
        return self.losses[:, FIRST] - self.losses[:, SECOND]

    def at(self, places: Ints) -> Self:
        """Return the rows of some places alone, with the tests that read them."""
        here = np.isin(self.place, places)
        return replace(
            self,
            rows=np.where(here[:, None], self.rows, 0.0),
            place=np.where(here, np.searchsorted(places, self.place), 0),  # others have no rows
            chances=self.chances[places],
            tests=[test.at(places) for test in self.tests if test.places[:, places].any()],
        )

    # -- rules -----------------------------------------------------------------------------------------

    @cached_property
    def below(self) -> Floats:
        """Rows of each stratum below each cut, shape (S, V + 1)."""
        return np.pad(self.rows.cumsum(axis=1), ((0, 0), (1, 0)))

    def at_prices(self, prices: Floats) -> Ints:
        """Return the first bin of each place whose chance is at least each of K prices, shape (K, m)."""
        return np.stack([np.searchsorted(each, prices) for each in self.chances], axis=1)

    def answered(self, cuts: Ints) -> Floats:
        """Return the rows by stratum and answer, shape (K, S, 3)."""
        strata = np.arange(len(self.place))
        low = self.below[strata, cuts[:, self.place, 0]]
        high = self.below[strata, cuts[:, self.place, 1]]
        return np.stack([low, self.below[:, -1] - high, high - low], axis=2)

    def possible(self, cuts: Ints) -> Floats:
        """Return 1 for the answers that rows can get in each place, whatever their score, (K, m, 3)."""
        low = cuts[..., 0]
        high = cuts[..., 1]
        return np.stack([low > 0, high < self.n_bins, low < high], axis=2).astype(np.float64)

    def loss(self, cuts: Ints) -> Floats:
        """Return the loss of rules, shape (K,)."""
        return np.tensordot(self.answered(cuts), self.losses)

    def passes(self, cuts: Ints, level: float) -> Mask:
        """Return which rules pass all tests at a level, shape (K,)."""
        answered = self.answered(cuts)
        possible = self.possible(cuts)
        passes = np.ones(len(cuts), bool)
        for test in self.tests:
            passes &= test.passes(test.counted(answered, possible), level)
        return passes

    def log_power(self, cuts: Ints, level: float) -> Floats:
        """Return the log of the predicted probability of passing all tests on other rows, shape (K,)."""
        answered = self.answered(cuts)
        possible = self.possible(cuts)
        log_power = np.zeros(len(cuts))
        for test in self.tests:
            log_power += test.log_power(test.counted(answered, possible), self.ratio, level)
        return log_power


@frozen_object
class OneScore:
    """Rules on one score within limits, with both tables of rows.

    Attributes
    ----------
    selection : Selection
        The problem, and its candidates.
    family : Thresholds
        The rules on the score, on the selecting rows.
    selecting : CountTable
        The selecting rows.
    fresh : Fresh
        The fresh rows.
    scores, bin : ndarray of shape (n,)
        Rising score of each fresh row, and the bin in which written thresholds put it.
    """

    selection: Selection
    family: Thresholds
    selecting: CountTable
    fresh: Fresh
    scores: Floats
    bin: Ints

    @classmethod
    def of(cls, selection: Selection, fresh: Fresh) -> Self | None:
        """Return the rules on the score of a selection; None without one, or without tests."""
        family = selection.thresholds
        # Fresh rows, or clusters with a vote each, by selecting rows.
        selecting = CountTable.of(selection, ratio=fresh.n_units / selection.n_rows)
        if family is None or selecting is None:
            return None
        scores = family.rising(fresh.outputs.score)
        in_bin = family.bins(scores, fresh.outputs.groups)
        return cls(selection, family, selecting, fresh, scores, in_bin)

    def counted(self, used: Mask) -> CountTable:
        """Return some of the fresh rows, those with a vote among all, by stratum and bin."""
        strata = self.fresh.answered.strata
        voters = self.fresh.voters
        counted = voters[used[voters]]
        rows = np.zeros((len(strata.mass), self.selecting.n_bins))
        np.add.at(rows, (self.fresh.answered.stratum[counted], self.bin[counted]), 1.0)
        table = CountTable.of(self.selection, (strata, rows))
        assert table  # the labels and rates are those of the selecting rows
        return table

    @cached_property
    def certifying(self) -> CountTable:
        """The fresh rows with a vote among all."""
        return self.counted(np.ones(len(self.fresh), bool))

    @cached_property
    def division(self) -> Division:
        """The division of a level among the limits."""
        has_clusters = self.fresh.votes.clusters is not None
        return Division.of(
            self.certifying.tests, defers=self.selecting.defers, has_clusters=has_clusters
        )

    def loss_at(self, place: int, thresholds: Floats) -> Floats:
        """Return the loss of the selecting rows of a place at thresholds, less that of the lowest one."""
        table = self.selecting
        here = table.place == place
        of_bins = table.excess[here] @ table.rows[here]
        below = np.append(0.0, of_bins.cumsum())
        return below[np.searchsorted(self.family.edges, thresholds)]

    def rule(self, cuts: Ints) -> Selection:
        """Return the rule of cuts, shape (m, 2)."""
        family = self.family
        cuts = cuts[:, : 1 + self.selecting.defers]  # without deferral both are one threshold
        return replace(self.selection, rule=family.kept(cuts), counts=family.counts(cuts))


def one_cut(cuts: Ints) -> Ints:
    """Return rules with both cuts of each place at one bin, (K, m, 2), of cuts of shape (K, m)."""
    return np.repeat(cuts[:, :, None], 2, axis=2)


# -- what a procedure returns ------------------------------------------------------------------------------


@frozen_object
class Certified:
    """What a procedure has found: a rule within all limits.

    Attributes
    ----------
    rule : Selection
        The rule.
    method : str
        Name of the procedure.
    words : str
        How the rule was made.
    chose : bool
        Whether the errors of the fresh rows chose the rule: on them it errs less than on new ones.
    """

    rule: Selection
    method: str
    words: str
    chose: bool = False


@frozen_object
class Refused:
    """What a procedure has found: no rule within all limits.

    Attributes
    ----------
    rule : Selection
        The rule most likely to keep the limits, by the selecting rows alone.
    words : str
        The reason for which a rule that the fresh rows chose is refused, though it misses no limit.
    """

    rule: Selection
    words: str = ""
