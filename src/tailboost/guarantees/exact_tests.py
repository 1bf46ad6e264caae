"""Exact tests of limits, and rules by cuts on one score of two labels, for which they are fast.

A limit is tested on numbers of rows by stratum and answer: first label, second label, deferred. Two tables
over strata and answers say which rows are wrong, and among which rows they count. The p-value is the
probability of so few wrong rows, or fewer, if their share in the population is the largest that is allowed.
The test passes if its p-value is at most the level.

A place is a group with thresholds of its own, or all rows. A rule has two cuts in each place: rows in cells
of the score below the first cut get the first label, from the second cut on the second label, and between
them a human decides. The procedures of `calibrate` read two tables of rows by stratum and cell.

Axes of arrays: K rules, T subgroups with a test each, m places, S strata, V cells of the score, 3 answers,
2 cuts. Cuts have the shape (K, m, 2), and the rows that rules answer (K, S, 3).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import cached_property
from itertools import compress, permutations
from typing import Self

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import bdtr, log_ndtr, ndtr, ndtri
from scipy.stats import binom

from tailboost.core import Floats, Ints, Mask, frozen_object
from tailboost.guarantees.fresh import Fresh
from tailboost.rates import Limit, Strata, groups_in
from tailboost.rates.bounds import pair_p_value
from tailboost.selection.search import OVERALL_ERROR, TIE_PRICE, Problem
from tailboost.selection.selection import Selection
from tailboost.selection.thresholds import Places, Thresholds

#: Numbers of the answers of two labels.
FIRST, SECOND, DEFERRED = range(3)
ALL_PLACES = slice(None)
# Probits of a limit that is kept by construction, and of one with too few rows for a test.
ALWAYS, NEVER = 9.0, -9.0
# Rows at the rate of all subgroups that join those of each one: small subgroups resemble the others.
PRIOR = 3.0
# Quantiles of the number of fresh rows: otherwise the fewest rows of any passing test look like enough.
QUANTILES = ndtri(np.arange(0.1, 1.0, 0.2))[:, None, None]


@frozen_object
class Share:
    """A limited subgroup that ranks can keep: a fixed number of rows, of which few may get one answer.

    Attributes
    ----------
    strata : ndarray of bool, shape (S,)
        The strata of these rows.
    places : tuple of int
        The numbers of their thresholds.
    answer : int
        The answer.
    allowed : float
        The largest allowed share of the rows with this answer; NaN if shares are compared.
    """

    strata: Mask
    places: tuple[int, ...]
    answer: int
    allowed: float


@frozen_object
class LimitTests:
    """The tests of a limit: one for each limited subgroup, or one for all pairs of a gap or ratio.

    Attributes
    ----------
    limit : Limit
        The limit.
    wrong, among : ndarray of shape (T, S, 3)
        1 for strata and answers that count against the limit in each of T subgroups, and among which.
    allowed : ndarray of shape (T,)
        The largest allowed share of wrong rows; NaN for a gap or ratio.
    strata : ndarray of bool, shape (T, S)
        The strata with rows that may count.
    places : ndarray of bool, shape (T, m)
        The places whose thresholds answer the subgroup: the one that it names, otherwise all.
    """

    limit: Limit
    wrong: Floats
    among: Floats
    allowed: Floats
    strata: Mask
    places: Mask

    @classmethod
    def of(cls, limit: Limit, strata: Strata, places: Places) -> Self | None:
        """Return the tests of a limit; None for more than three answers, and rows that do not count whole."""
        terms = limit.rate.terms(strata)
        wrong, among = terms.top, terms.bottom
        if strata.n_actions > 3 or not np.isin([wrong, among], [0.0, 1.0]).all():
            return None
        if not (limit.from_above or limit.compares):
            wrong = among - wrong
        padding = ((0, 0), (0, 0), (0, 3 - strata.n_actions))  # an answer that is never wrong
        wrong, among = np.pad(wrong, padding), np.pad(among, padding, mode="edge")
        allowed = limit.allowed(terms.names)
        counting = among.max(axis=2) > 0
        own = counting.any(axis=1) & ~np.isnan(allowed)  # the limited subgroups with rows
        if limit.compares:
            allowed = np.full(len(among), np.nan)
        answering = np.ones((len(among), places.n), dtype=np.bool_)
        for column in places.columns:
            if limit.rate.kind == "representation":  # among the rows of all groups
                continue
            groups = [
                dict(groups_in(name, limit.rate.by, strata.columns)) for name in terms.names
            ]
            is_named = np.array([column in of_subgroup for of_subgroup in groups])
            at_place = np.eye(places.n, dtype=np.bool_)[places.of_strata]  # (S, m)
            answering[is_named] = counting[is_named] @ at_place
        return cls(limit, wrong[own], among[own], allowed[own], counting[own], answering[own])

    # -- which rows they read --------------------------------------------------------------------------

    def at(self, place: int) -> Self:
        """Return the tests of the subgroups that a place answers."""
        own = self.places[:, place]
        return replace(
            self,
            wrong=self.wrong[own],
            among=self.among[own],
            allowed=self.allowed[own],
            strata=self.strata[own],
            places=self.places[own][:, [place]],
        )

    @cached_property
    def shares(self) -> list[Share]:
        """The limited subgroups as shares of fixed rows with one answer; empty for another form."""
        answers = self.wrong.any(axis=1)  # (T, 3)
        is_fixed = (self.among == self.among[..., :1]).all()
        all_wrong = (self.wrong.max(axis=2) == self.among[..., 0]).all()
        if not (is_fixed and all_wrong and (answers.sum(axis=1) == 1).all()):
            return []
        places = [tuple(np.flatnonzero(own).tolist()) for own in self.places]
        numbers = answers.argmax(axis=1).tolist()
        return list(map(Share, self.strata, places, numbers, self.allowed.tolist()))

    @cached_property
    def has_ranks(self) -> bool:
        """Whether ranks keep the limit: it is on shares at one threshold each, and does not compare them."""
        return bool(self.shares) and all(
            len(share.places) == 1 and not np.isnan(share.allowed) for share in self.shares
        )

    # -- tests -----------------------------------------------------------------------------------------

    def counts(self, answered: Floats) -> tuple[Floats, Floats]:
        """Return wrong rows and all rows by rule and subgroup, (K, T) each, of rows by stratum and answer."""
        return _sums(answered, self.wrong), _sums(answered, self.among)

    def kept(self, possible: Floats) -> Mask:
        """Return which tests rules pass by construction, (K, T), or (K, 1) for pairs.

        ``possible`` is 1 for the answers that a rule can give in each place, whatever the score of a row,
        shape (K, m, 3). No possible answer is wrong; of compared shares all are 0, or all are 1.

        A subgroup may have rows in a place where no given row is of it. So a subgroup that names no place can
        get the answers of all places.
        """
        never_wrong, never_right = (
            _sums(possible, self.places[..., None] * counted.max(axis=1, keepdims=True)) == 0
            for counted in (self.wrong, self.among - self.wrong)
        )
        if not self.limit.compares:
            return never_wrong
        return np.asarray(never_wrong.all(axis=1) | never_right.all(axis=1))[:, None]

    def passes(self, wrong: Floats, rows: Floats, possible: Floats, level: float) -> Mask:
        """Return which rules pass all tests at a level, shape (K,), by numbers of rows of shape (K, T).

        A claim about several subgroups needs no correction: if it is false, one of them breaks its limit, and
        this test alone errs with a probability of at most the level (intersection–union, Berger 1982).
        """
        kept = self.kept(possible)
        if not self.limit.compares:
            is_within = (rows > 0) & (wrong <= self.most(rows.astype(np.intp), level))
            return np.asarray((kept | is_within).all(axis=1))
        counts = np.stack([wrong, rows], axis=2).astype(np.intp).tolist()
        return np.array(
            [
                is_kept or all_pairs_pass(each, self.limit.pair, level)
                for is_kept, each in zip(kept[:, 0].tolist(), counts, strict=True)
            ]
        )

    def pass_on(self, fresh: Fresh, possible: Floats, level: float) -> bool:
        """Return whether fresh rows with the answers of a rule pass; a cluster has one vote in a test."""
        answers = fresh.answered.stratum, fresh.answered.actions
        numbers = []
        for wrong, among in zip(self.wrong, self.among, strict=True):
            rows = fresh.votes.among(np.flatnonzero(among[answers]))
            numbers.append((wrong[answers][rows].sum(), len(rows)))
        n_wrong, n_rows = np.array(numbers).T[:, None]
        return bool(self.passes(n_wrong, n_rows, possible, level)[0])

    def most(self, rows: Ints, level: float) -> Ints:
        """Return the most wrong rows of passing tests, −1 for none; ``rows`` has the shape (..., T)."""
        by_test = [
            most_reached(rows[..., j], share, level)
            for j, share in enumerate(self.allowed.tolist())
        ]
        return np.stack(by_test, axis=-1)

    # -- predicted power -------------------------------------------------------------------------------

    def probits(self, answered: Floats, possible: Floats, ratio: float, level: float) -> Floats:
        """Return the probit of the predicted probability of passing each test, shape (K, T) or (K, 1).

        ``ratio`` times as many fresh rows will be tested. The noise of both tables counts: that of compared
        shares as a normal deviation, beside the exact tests of a share for some numbers of fresh rows.
        """
        wrong, rows = self.counts(answered)
        if self.limit.compares:
            # A pair passes if its room on the fresh rows is at least −Φ⁻¹(level) of their deviations.
            shares = (wrong + 0.5) / (rows + 1.0)
            noise = self.limit.deviations(shares * (1.0 - shares) / np.maximum(rows, 1.0))
            of_fresh = noise / np.sqrt(ratio)
            rooms = self.limit.rooms(shares, shares) + ndtri(level) * of_fresh
            z = rooms / np.maximum(np.hypot(noise, of_fresh), 1e-12)
            z[..., np.eye(rows.shape[1], dtype=bool)] = np.inf
            probits = z.min(axis=(-2, -1))[:, None]
        else:
            shares = ((wrong.sum(axis=1) + 0.5) / (rows.sum(axis=1) + 1.0))[:, None]
            if rows.shape[1] > 1:
                shares = (wrong + PRIOR * shares) / (rows + PRIOR)
            # A number on ratio · n fresh rows, predicted from n rows, has the variance of such a number on
            # known rates times 1 + ratio: so do the rows of a subgroup (Poisson), and the wrong ones.
            expected, both = ratio * rows, 1.0 + ratio
            fresh = expected + QUANTILES * np.sqrt(expected * both)
            fresh = np.maximum(fresh, 0.0).astype(np.intp)
            most = self.most(fresh, level)
            variances = fresh * shares * (1.0 - shares) * both
            z = (most + 0.5 - fresh * shares) / np.sqrt(np.maximum(variances, 1e-12))
            probits = ndtri(np.where(most < 0, 0.0, ndtr(z)).mean(axis=0))
        return np.where(self.kept(possible), ALWAYS, probits.clip(NEVER, ALWAYS))


def _sums(of_rules: Floats, of_tests: Floats) -> Floats:
    """Return the sums of products of (K, …, 3) and (T, …, 3) by rule and test, shape (K, T)."""
    return np.tensordot(of_rules, of_tests, ((1, 2), (1, 2)))


def most_reached(n: ArrayLike, bound: float, level: float) -> Ints:
    """Return the largest number of scores that may reach a threshold with a rate certified to be small.

    Parameters
    ----------
    n : int, or array-like
        Numbers of scores.
    bound : float in [0, 1]
        The largest rate allowed.
    level : float in (0, 1)
        Probability of a false certificate.

    Returns
    -------
    ndarray of int
        By number of scores, the largest k with P(Bin(n, bound) ≤ k) ≤ level: a threshold that at most k
        scores reach then has a rate of at most ``bound``, except with a probability of at most ``level``. −1
        if no threshold among the scores has this property; n for a bound of 1.

    Examples
    --------
    >>> from tailboost.guarantees.exact_tests import most_reached
    >>> most_reached([59, 58], 0.05, 0.05).tolist(), int(most_reached(500, 0.25, 0.05))
    ([0, -1], 108)
    """
    if bound >= 1.0:
        return np.asarray(n)
    sizes, size_number = np.unique(n, return_inverse=True)  # many rules have the same number
    counts = binom.ppf(level, sizes, bound)  # the smallest with at least this probability
    return (counts - (bdtr(counts, sizes, bound) > level)).astype(np.intp)[size_number]


def all_pairs_pass(
    counts: Sequence[Sequence[int]], pair: tuple[float, float], level: float
) -> bool:
    """Return whether the exact tests of a gap or ratio pass for all pairs of subgroups.

    ``counts`` has the counted rows and all rows of each subgroup, ``pair`` the numbers of `Limit.pair`. All
    pairs must pass, so each is tested at the whole level.
    """
    factor, gap = pair
    return all(
        pair_p_value((x1, x2), (n1, n2), factor=factor, gap=gap, level=level) <= level
        for (x1, n1), (x2, n2) in permutations(counts, 2)
    )


# -- both tables of rows -----------------------------------------------------------------------------------


@frozen_object
class CountTable:
    """Rows by stratum and cell of a score, with the tests of limits and the losses of answers.

    Attributes
    ----------
    rows : ndarray of shape (S, V)
        Numbers of rows by stratum and cell; those of selecting rows are smoothed, see `Thresholds`.
    place : ndarray of shape (S,)
        The place of each stratum.
    losses : ndarray of shape (S, 3)
        The loss of each answer by stratum.
    of_first : ndarray of shape (S,)
        The loss of the first label less that of the second.
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
    of_first: Floats
    chances: Floats
    tests: list[LimitTests]
    defers: bool

    @classmethod
    def of(
        cls, problem: Problem, family: Thresholds, strata: Strata, rows: Floats
    ) -> Self | None:
        """Return rows by stratum and cell; None without an objective that is a sum of losses, or tests."""
        rate = problem.objective.rate
        if problem.objective.worst or rate.is_ratio or rate.by:
            return None
        places = family.places_of(strata)
        of_limits = [LimitTests.of(limit, strata, places) for limit in problem.limits]
        tests = list(filter(None, of_limits))
        if len(tests) < len(of_limits):
            return None
        losses = np.pad(rate.terms(strata).top[0], ((0, 0), (0, 3 - strata.n_actions)))
        if problem.objective == OVERALL_ERROR:
            losses[:, DEFERRED] += TIE_PRICE
        of_first = losses[:, FIRST] - losses[:, SECOND]
        defers = family.data.strata.defers
        return cls(rows, places.of_strata, losses, of_first, family.chances, tests, defers)

    @classmethod
    def selecting(cls, selection: Selection) -> Self | None:
        """Return the selecting rows; None also without one score of two labels."""
        family = selection.thresholds
        if family is None:
            return None
        return cls.of(selection.problem, family, family.data.strata, family.weights)

    @property
    def n_places(self) -> int:
        """Number m of places."""
        return len(self.chances)

    @property
    def end(self) -> int:
        """V: a cut above all cells."""
        return self.rows.shape[1]

    def shares_of(self, limits: Mask) -> list[Share]:
        """Return the shares of some limits."""
        return [share for test in compress(self.tests, limits) for share in test.shares]

    def below(self, shares: Sequence[Share]) -> Ints:
        """Return the rows of shares below each cut, shape (len(shares), V + 1)."""
        strata = np.reshape([share.strata for share in shares], (-1, len(self.place)))
        return np.asarray(strata @ self._below, dtype=np.intp)

    def at(self, places: slice) -> CountTable:
        """Return the rows of one place, with the tests that read them; the table itself for all places."""
        if places == ALL_PLACES:
            return self
        place = places.start
        return replace(
            self,
            rows=self.rows * (self.place == place)[:, None],
            place=np.zeros_like(self.place),
            chances=self.chances[places],
            tests=[test.at(place) for test in self.tests if test.places[:, place].any()],
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

    def possible(self, cuts: Ints) -> Floats:
        """Return 1 for the answers that rows can get in each place, whatever their score, (K, m, 3)."""
        low, high = cuts[..., 0], cuts[..., 1]
        return np.stack([low > 0, high < self.end, low < high], axis=2).astype(np.float64)

    def passes(self, tests: Iterable[LimitTests], cuts: Ints, level: float) -> Mask:
        """Return which rules pass some tests at a level, shape (K,)."""
        answered, possible = self.answered(cuts), self.possible(cuts)
        passes = np.ones(len(cuts), bool)
        for test in tests:
            passes &= test.passes(*test.counts(answered), possible, level)
        return passes

    def loss(self, cuts: Ints) -> Floats:
        """Return the loss of rules, shape (K,)."""
        return np.tensordot(self.answered(cuts), self.losses)

    def loss_of_place(self, place: int) -> Floats:
        """Return the loss in a place of one threshold at each cut, less that of cut 0, shape (V + 1,)."""
        here = self.place == place
        return np.append(0.0, (self.of_first[here] @ self.rows[here]).cumsum())

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
        family, selecting = selection.thresholds, CountTable.selecting(selection)
        if family is None or selecting is None:
            return None
        scores, places = family.sign * fresh.outputs.score, fresh.outputs.groups
        cell = family.cells(scores, places)
        rows = _counted(fresh, cell, fresh.voting, family.weights.shape[1])
        certifying = CountTable.of(selection.problem, family, fresh.answered.strata, rows)
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
        return replace(self.fresh, answered=replace(self.fresh.answered, actions=actions))

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
