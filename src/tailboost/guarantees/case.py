"""What procedures of `calibrate` get and return: tests of limits, a selection, fresh rows, an outcome."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import permutations
from typing import Any

import numpy as np
from scipy.special import ndtr, ndtri

from tailboost.core.array_types import Floats, Ints, Mask
from tailboost.guarantees.fresh import Fresh
from tailboost.rates import Limit, Objective, Strata
from tailboost.rates.bounds import most_reached, pair_p_value

#: Numbers of the answers of two labels.
FIRST, SECOND, DEFERRED = range(3)
# Probits of a limit that is kept by construction, and of one with too few rows for a test.
ALWAYS, NEVER = 9.0, -9.0
# Rows at the rate of all subgroups that join those of each one: small subgroups resemble the others.
PRIOR = 3.0
# Quantiles of the number of fresh rows: otherwise the fewest rows of any passing test look like enough.
QUANTILES = ndtri(np.arange(0.1, 1.0, 0.2))[:, None, None]


@dataclass(frozen=True, eq=False)
class Tests:
    """The tests of a limit: one for each limited subgroup, or one for all pairs of a gap or ratio.

    Attributes
    ----------
    limit : Limit
        The limit.
    wrong, among : ndarray of shape (m, S, 3)
        1 for strata and answers that count against the limit in each of m subgroups, and among which.
    allowed : ndarray of shape (m,)
        The largest allowed share of wrong rows; NaN for a gap or ratio.
    """

    limit: Limit
    wrong: Floats
    among: Floats
    allowed: Floats

    @classmethod
    def of(cls, limit: Limit, strata: Strata) -> Tests | None:
        """Return the tests of a limit; None beyond three answers, and if rows count in part or by costs."""
        if limit.rate.needs_costs or strata.n_actions > 3:
            return None
        terms, n_strata = limit.rate.terms(strata), len(strata.mass)
        names, counted, among = terms.names, terms.top[:, :n_strata], terms.bottom[:, :n_strata]
        if not np.isin([counted, among], [0.0, 1.0]).all():
            return None
        wrong = counted if limit.from_above or limit.compares else among - counted
        padding = ((0, 0), (0, 0), (0, 3 - strata.n_actions))  # an answer that is never wrong
        wrong, among = np.pad(wrong, padding), np.pad(among, padding, mode="edge")
        if limit.compares:
            return cls(limit, wrong, among, np.full(len(names), np.nan))
        allowed = limit.against(limit.bounds(names))
        return cls(limit, wrong, among, allowed)._taken(~np.isnan(allowed))

    def _taken(self, which: Mask) -> Tests:
        return Tests(self.limit, self.wrong[which], self.among[which], self.allowed[which])

    def in_places(self, place: Ints, here: Any) -> list[Tests]:
        """Return the tests that depend on some thresholds, as a list, which is empty without any."""
        reads = np.asarray(self.places(place)[:, here].any(axis=1))
        part = self._taken(reads)
        return [part] if len(part.wrong) else []

    @property
    def strata(self) -> Mask:
        """Which strata have rows that may count, shape (m, S)."""
        return self.among.max(axis=2) > 0

    @property
    def answers(self) -> Ints:
        """The only wrong answer, among a fixed number of rows, shape (m,); −1 without such an answer."""
        against = self.wrong.max(axis=1) > 0
        is_fixed = (self.among == self.among[..., :1]).all(axis=(1, 2))
        all_wrong = (self.wrong.max(axis=2) == self.among.max(axis=2)).all(axis=1)
        is_share = is_fixed & all_wrong & (against.sum(axis=1) == 1)
        return np.where(is_share, against.argmax(axis=1), -1)

    def places(self, place: Ints) -> Mask:
        """Return which thresholds each test depends on, (m, places), by the ``place`` of each stratum."""
        return self.strata @ np.eye(int(place.max()) + 1, dtype=bool)[place]

    def counts(self, answered: Floats) -> tuple[Floats, Floats]:
        """Return wrong rows and all rows by rule and subgroup, (K, m) each, of rows by stratum and answer."""
        over = ((1, 2), (1, 2))
        return np.tensordot(answered, self.wrong, over), np.tensordot(
            answered, self.among, over
        )

    def kept(self, possible: Floats) -> Mask:
        """Return which tests rules pass by construction, shape (K, m): no possible answer is wrong."""
        wrong, among = self.counts(possible)
        if not self.limit.compares:
            return wrong == 0
        equal = (wrong == 0).all(axis=1) | (wrong == among).all(axis=1)
        return np.repeat(equal[:, None], len(self.wrong), axis=1)

    def passes(self, wrong: Floats, rows: Floats, kept: Mask, level: float) -> Mask:
        """Return which rules pass all tests at a level, shape (K,), by numbers of rows of shape (K, m).

        A claim about several subgroups needs no correction: if it is false, one of them breaks its limit, and
        this test alone errs with a probability of at most the level (intersection–union, Berger 1982).
        """
        if self.limit.compares:
            counts = np.rint(np.stack([wrong, rows], axis=2)).astype(int).tolist()
            factor, gap = self.limit.pair
            return np.array(
                [
                    all_pairs_pass(each, (factor, gap), level) or is_kept
                    for each, is_kept in zip(counts, kept[:, 0].tolist(), strict=True)
                ]
            )
        most = self.most(np.rint(rows).astype(np.intp), level)
        is_within = (rows > 0) & (np.rint(wrong) <= most)
        return np.asarray((kept | is_within).all(axis=1))

    def most(self, rows: Ints, level: float) -> Ints:
        """Return the most wrong rows of passing tests, −1 for none; ``rows`` has the shape (..., m)."""
        by_test = [
            most_reached(rows[..., j].ravel(), share, level).reshape(rows.shape[:-1])
            for j, share in enumerate(self.allowed.tolist())
        ]
        return np.stack(by_test, axis=-1)

    def probits(self, answered: Floats, possible: Floats, ratio: float, level: float) -> Floats:
        """Return the probit of the predicted probability of passing each test, shape (K, m) or (K, 1).

        ``ratio`` times as many fresh rows will be tested. The noise of both tables counts.
        """
        wrong, rows = self.counts(answered)
        kept = self.kept(possible)
        if self.limit.compares:
            shares = (wrong + 0.5) / (rows + 1.0)
            deviations = self.limit.deviations(shares * (1.0 - shares) / np.maximum(rows, 1.0))
            on_fresh = deviations / np.sqrt(ratio)
            rooms = self.limit.rooms(shares, shares) + ndtri(level) * on_fresh
            probits = rooms / np.maximum(np.hypot(deviations, on_fresh), 1e-12)
            probits[..., np.eye(len(self.wrong), dtype=bool)] = np.inf
            least = probits.min(axis=(-2, -1)).clip(NEVER, ALWAYS)
            return np.where(kept[:, :1], ALWAYS, least[:, None])
        shares = (wrong.sum(axis=1, keepdims=True) + 0.5) / (
            rows.sum(axis=1, keepdims=True) + 1.0
        )
        if len(self.wrong) > 1:
            shares = (wrong + PRIOR * shares) / (rows + PRIOR)
        expected = ratio * rows
        fresh = expected + QUANTILES * np.sqrt(expected * (1.0 + ratio))
        fresh = np.maximum(fresh, 0.0).astype(np.intp)
        most = self.most(fresh, level)
        spread = np.sqrt(np.maximum(fresh * shares * (1.0 - shares) * (1.0 + ratio), 1e-12))
        passes = np.where(most < 0, 0.0, ndtr((most + 0.5 - fresh * shares) / spread))
        return np.where(kept, ALWAYS, ndtri(passes.mean(axis=0)).clip(NEVER, ALWAYS))


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


def losses_of(objective: Objective, strata: Strata) -> Floats | None:
    """Return the loss of each answer by stratum, shape (S, 3); None if the objective is no sum of losses."""
    rate = objective.rate
    if objective.worst or rate.is_ratio or rate.needs_costs or rate.by is not None:
        return None
    counted = rate.terms(strata).top[0, : len(strata.mass)]
    return np.pad(counted, ((0, 0), (0, 3 - strata.n_actions)))


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
