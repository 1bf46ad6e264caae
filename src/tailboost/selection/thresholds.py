"""Rules on one score of two labels: thresholds on the score itself, for all rows or for each group."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from typing import Any, ClassVar

import numpy as np
from scipy.special import expit

from tailboost.core.array_types import Floats, Ints, Mask
from tailboost.learners.scores import Scores
from tailboost.rates import Strata
from tailboost.selection.data import SelectionData, Uncached, quotient
from tailboost.selection.outputs import LogProbabilities, Models
from tailboost.selection.rule import Rule, ThresholdRule, decimals_between
from tailboost.selection.weights import rule_of

# The most thresholds for each label: evenly spaced ranks of the scores of its rows.
MOST = 2_000
# The same for rules that are tested on fresh rows.
FEW = 200
# Steps of iterative scaling for the probability of the second label within each group.
SCALINGS = 30
# The least share of a label in a place, so that its rows keep their order, and the least cost of an answer.
TINY = 1e-9
# Two cuts are moved together on grids of so many cuts, each finer by a power of two.
GRID = 16
ZOOMS = (0, 2, 4, 6)
# Decimals of the log-odds of an average of models.
DECIMALS = 9
#: The log-odds of the second label by the average of several models, as a score.
LOG_ODDS = Scores("log-odds", kind="logit")
LOG_ODDS.positive_ = 1


def scores_in(table: LogProbabilities, models: Models) -> Floats:
    """Return the score of each row, shape (n,): the single one of the models, or the log-odds."""
    score = models.score
    if score is None:
        logs = table.pooled
        return np.round(logs[:, 1] - logs[:, 0], DECIMALS)
    if table.scores is not None:
        return table.scores
    return np.asarray(score.scores_at(np.exp(table[0][:, score.positive_])))


def sign_of(models: Models) -> float:
    """Return −1 if the score of the models falls with the probability of the second label, otherwise 1."""
    return -1.0 if (models.score or LOG_ODDS).positive_ == 0 else 1.0


@dataclass(frozen=True, eq=False)
class ScoreRule:
    """A rule by thresholds as a member of an ensemble."""

    models: Models
    ends: Floats  # shape (m, A − 1): thresholds, with the sign of the score
    thresholds: ThresholdRule
    weighs_groups: ClassVar[bool] = False

    @classmethod
    def of(
        cls, models: Models, ends: Floats, classes: Sequence[Any], groups: Sequence[Any] | None
    ) -> ScoreRule:
        """Return the rule of thresholds."""
        falls = sign_of(models) < 0
        ranges = [_ranges(row, falls=falls) for row in ends.tolist()]
        score = models.score or LOG_ODDS
        return cls(models, ends, ThresholdRule.of_ranges(score, classes, groups, ranges))

    @property
    def rule(self) -> ThresholdRule | None:
        """The thresholds, with deferral; None for log-odds, which no column has."""
        return None if self.models.score is None else self.thresholds

    @property
    def is_constant(self) -> bool:
        """Whether every row gets the same answer."""
        bands = self.thresholds.bands
        return all(len(band) == 1 and band == bands[0] for band in bands)

    @property
    def source(self) -> tuple[int, ...]:
        """Numbers of the models behind the answers."""
        return () if self.is_constant else tuple(self.models.average.used_models.tolist())

    @property
    def defers(self) -> bool:
        """Whether the rule may defer rows."""
        return self.ends.shape[1] > 1

    @property
    def n_places(self) -> int:
        """Number of groups with thresholds of their own."""
        return len(self.ends)

    def answers(self, table: LogProbabilities) -> tuple[Ints, Mask]:
        """Return class numbers, and which rows are deferred; these get the more probable label."""
        places = table.places(by_group=self.thresholds.groups is not None)
        labels = self.thresholds.numbers(scores_in(table, self.models), places)
        deferred = labels == 2
        if self.defers:
            labels = np.where(deferred, table.pooled.argmax(axis=1), labels)
        return labels, deferred

    def as_rule(self, classes: list[Any], groups: list[Any] | None) -> Rule:
        """Return the rule of log-odds as costs: 0 of deferral, and of an answer at its threshold."""
        low, high = self.ends[:, 0], self.ends[:, -1]
        costs = np.zeros((len(low), 2, self.ends.shape[1] + 1))
        costs[:, :, 0] = np.stack([-expit(low), expit(-low)], axis=1)
        costs[:, :, 1] = np.stack([expit(high), -expit(-high)], axis=1)
        if self.defers:  # the labels cost the same at even odds, or at the nearest threshold
            middle = expit(np.clip(0.0, low, high))
            costs[:, :, 0] *= (expit(high) - middle + TINY)[:, None]
            costs[:, :, 1] *= (middle - expit(low) + TINY)[:, None]
        return rule_of(self.models, classes, groups, costs, self)


def _ranges(ends: Sequence[float], *, falls: bool) -> list[tuple[float, int]]:
    """Return the ranges of a score between one or two thresholds: lower ends from −∞, and answers."""
    low, high = ends[0], ends[-1]
    ranges = [(-np.inf, 0), (low, 2), (high, 1)]
    if falls:
        ranges = [(-np.inf, 1), (-high, 2), (-low, 0)]
    uppers = [*(lower for lower, _ in ranges[1:]), np.inf]
    return [each for each, upper in zip(ranges, uppers, strict=True) if each[0] < upper]


@dataclass(frozen=True, eq=False)
class Thresholds(Uncached):
    """All rules by thresholds on a score, on the selection data.

    A rule is an array of cuts, shape (m, A − 1), numbers of `values` for each of m places. A row gets the
    second label if its score is at least the value of the last cut of its place, the first label if it is
    below the first cut, and is deferred between them. The number V of values is above all rows.

    Attributes
    ----------
    data : SelectionData
        The rows.
    models : Models
        Their score is `score_of` them.
    scores : ndarray of shape (n,)
        The score of each row, with the sign −1 if it falls with the probability of the second label.
    chance : ndarray of shape (n,)
        Probability of the second label.
    places : ndarray of shape (S,)
        Number of the thresholds of each stratum.
    group_column : int or None
        Column of groups whose values are the places; None for one place.
    most : int
        The most thresholds for each label.
    """

    data: SelectionData
    models: Models
    scores: Floats
    chance: Floats
    group_column: int | None
    most: int = MOST

    @cached_property
    def few(self) -> Thresholds:
        """The rules by few thresholds."""
        return replace(self, most=FEW)

    # -- rows by place and value -------------------------------------------------------------------------

    @cached_property
    def values(self) -> Floats:
        """Ascending scores for possible thresholds, shape (V,); the first one is the least score."""
        y = self.data.strata.y[self.data.stratum]
        ranks = np.linspace(0.0, 1.0, self.most)
        parts = [self.scores[y == label] for label in np.unique(y)]
        values = [np.quantile(part, ranks, method="nearest") for part in parts]
        return np.unique(np.concatenate([self.scores.min(keepdims=True), *values]))

    @cached_property
    def places(self) -> Ints:
        """Number of each stratum's thresholds, shape (S,)."""
        return self.data.strata.place(self.group_column)

    @property
    def n_places(self) -> int:
        """The number of places, m."""
        return int(self.places.max()) + 1

    @cached_property
    def _of_place(self) -> Floats:
        """1 for the strata of each place, shape (S, m)."""
        return np.eye(self.n_places)[self.places]

    @cached_property
    def _cells(self) -> Ints:
        """Number of the largest value up to each row's score, shape (n,)."""
        return np.searchsorted(self.values, self.scores, side="right") - 1

    @cached_property
    def _below(self) -> Floats:
        """Counts of the rows below each cut, if they get each action, shape (V + 1, W, A)."""
        data, n_cells = self.data, len(self.values)
        actions = range(data.strata.n_actions)
        sums = np.stack([data.sums(self._cells, n_cells, action) for action in actions], axis=2)
        return np.concatenate([np.zeros((1, *sums.shape[1:])), sums.cumsum(axis=0)])

    @cached_property
    def _rows(self) -> Floats:
        """Weight of the rows by stratum and value, shape (S, V)."""
        return np.diff(self._below[:, : len(self.places), 0], axis=0).T

    @cached_property
    def chances(self) -> Floats:
        """Probability of the second label at each value in each place, shape (m, V).

        Factors of the odds in each place give both labels their mass there.
        """
        weights, strata = self.data.weights, self.data.strata
        sums = np.bincount(self._cells, weights * self.chance, len(self.values))
        chance = quotient(sums, self._rows.sum(axis=0))
        rows = self._of_place.T @ self._rows
        n = rows.sum(axis=1, keepdims=True) + TINY
        second = (self._of_place.T @ (strata.mass * strata.y))[:, None] + TINY
        factor = np.ones_like(n)
        for _ in range(SCALINGS):
            scaled = factor * chance / (1.0 - chance + factor * chance)
            expected = (rows * scaled).sum(axis=1, keepdims=True) + TINY
            factor *= second * (n - expected + TINY) / ((n - second + TINY) * expected)
        return factor * chance / (1.0 - chance + factor * chance)

    @cached_property
    def expected(self) -> Floats:
        """Rows by stratum and value with expected labels, shape (S, V): each stratum has its mass."""
        strata = self.data.strata
        rows = self._rows.reshape(2, strata.n_combinations, -1).sum(axis=0)
        chance = self.chances[self.places[: strata.n_combinations]]
        expected = np.concatenate([rows * (1.0 - chance), rows * chance])
        return expected * quotient(strata.mass, expected.sum(axis=1))[:, None]

    @property
    def weights(self) -> Floats:
        """Numbers of rows by stratum and value, half by their labels, half by expected ones, (S, V)."""
        return (self._rows + self.expected) / 2.0 * self.data.strata.size.sum()

    def places_of(self, strata: Strata) -> Ints:
        """Return the number of the thresholds of other strata, shape (S,); −1 for an unknown group."""
        column = self.group_column
        if column is None:
            return strata.place(None)
        own = self.data.strata
        other = strata.columns.index(own.columns[column])
        number = {value: i for i, value in enumerate(own.values[column])}
        numbers = np.array([number.get(value, -1) for value in strata.values[other]], np.intp)
        return numbers[strata.place(other)]

    # -- the family of the search ------------------------------------------------------------------------

    def best(self, costs: Floats) -> Ints:
        """Return the cuts of least expected cost, shape (m, A − 1), for the costs of actions (S, A)."""
        of_place = self._of_place
        below = np.pad(self.expected.cumsum(axis=1), ((0, 0), (1, 0))).T  # (V + 1, S)
        middle = costs[
            :, -1
        ]  # without deferral there is nothing between, and both cuts are one
        low = (below * (costs[:, 0] - middle)) @ of_place
        high = (below * (middle - costs[:, 1])) @ of_place
        last = (np.minimum.accumulate(low, axis=0) + high).argmin(axis=0)
        until = np.where(np.arange(len(low))[:, None] <= last, low, np.inf)
        return np.stack([until.argmin(axis=0), last], axis=1)[:, : costs.shape[1] - 1]

    def counts(self, cuts: Ints) -> Floats:
        """Return the confusion counts of rules with cuts (…, m, A − 1), shape (…, W, A)."""
        below, n_actions = self._below, self.data.strata.n_actions
        entries = np.arange(below.shape[1])
        places = np.resize(self.places, below.shape[1])
        low, high = cuts[..., places, 0], cuts[..., places, -1]
        counts = np.empty((*low.shape, n_actions))
        counts[..., 0] = below[low, entries, 0]
        counts[..., 1] = below[-1, :, 1] - below[high, entries, 1]
        if n_actions == 3:
            counts[..., 2] = below[high, entries, 2] - below[low, entries, 2]
        return counts

    def counts_at(self, ends: Floats) -> Floats:
        """Return the confusion counts of thresholds on the score, shape (m, A − 1)."""
        place = self.places[self.data.stratum]
        actions = np.where(self.scores < ends[place, 0], 0, 2)
        actions[self.scores >= ends[place, -1]] = 1
        return self.data.count(actions)

    def lines(self, *, compares: bool) -> list[Any]:
        """Return the cuts that move on each line of a descent, as place and side, and the power of a grid.

        Two cuts of a place move together, too. Beside a limit that ``compares`` places so do those of two.
        """
        sides = range(self.data.strata.n_actions - 1)
        cuts = [(place, side) for place in range(self.n_places) for side in sides]
        pairs = [
            pair for pair in pairwise([*cuts, cuts[0]]) if compares or pair[0][0] == pair[1][0]
        ]
        return [
            *((pair, zoom) for pair in pairs for zoom in ZOOMS if len(cuts) > 1),
            *(((cut,), 0) for cut in cuts),
        ]

    def line(self, cuts: Ints, line: Any) -> tuple[Ints, Floats]:
        """Return the rules with other cuts on a line, shape (T, m, A − 1), and their counts."""
        moving, zoom = line
        steps = [self._steps[place] for place, _ in moving]
        if len(moving) > 1:
            steps = [
                _near(each, cuts[cut], zoom) for each, cut in zip(steps, moving, strict=True)
            ]
        values = np.stack(np.meshgrid(*steps), axis=-1).reshape(-1, len(moving))
        rules = np.repeat(cuts[None], len(values), axis=0)
        for (place, side), of_cut in zip(moving, values.T, strict=True):
            rules[:, place, side] = of_cut
        rules = rules[(rules[..., 0] <= rules[..., -1]).all(axis=1)]
        return rules, self.counts(rules)

    @cached_property
    def _steps(self) -> list[Ints]:
        """The different cuts of each place: 0, and those above a value of one of its rows."""
        return [
            np.append(0, 1 + np.flatnonzero(of_place @ self._rows > 0))
            for of_place in self._of_place.T
        ]

    # -- written thresholds ------------------------------------------------------------------------------

    @cached_property
    def _ascending(self) -> list[Floats]:
        """The sorted scores of the rows of each place."""
        place = self.places[self.data.stratum]
        return [np.sort(self.scores[place == number]) for number in range(self.n_places)]

    def cells(self, scores: Floats, place: Ints) -> Ints:
        """Return the number of the last cut at or below each score, shape (n,), as `ends` writes the cuts."""
        cuts = np.repeat(np.arange(1, len(self.values))[None], self.n_places, axis=0)
        numbers = np.zeros(len(scores), dtype=np.intp)
        for number, ends in enumerate(self.ends(cuts)):
            here = place == number
            numbers[here] = np.searchsorted(ends, scores[here], side="right")
        return numbers

    def ends_beside(self, values: Floats, scores: Floats, place: Ints) -> Floats:
        """Return the shortest decimals that part these rows and further ones as values do, (m, A − 1)."""
        sign = sign_of(self.models)
        ends = []
        for number, ascending in enumerate(self._ascending):
            if len(scores):
                ascending = np.sort(np.append(ascending, scores[place == number]))
            ends.append(between(ascending, values[number], sign))
        return np.stack(ends)

    def ends(self, cuts: Ints) -> Floats:
        """Return the thresholds of a rule, shape (m, A − 1): shortest decimals between rows of each place."""
        values = np.append(self.values, np.inf)[cuts]
        return self.ends_beside(values, np.zeros(0), np.zeros(0, np.intp))


def _near(steps: Ints, cut: int, zoom: int) -> Ints:
    """Return a grid of cuts around a cut, within a part of all of them."""
    reach = max(len(steps) >> zoom, 2)
    at, last = int(np.searchsorted(steps, cut)), len(steps) - 1
    near = np.linspace(max(at - reach, 0), min(at + reach, last), GRID).round().astype(np.intp)
    return np.asarray(np.unique(np.append(steps[near], cut)))


def between(ascending: Floats, values: Floats, sign: float) -> Floats:
    """Return the shortest decimals that part sorted scores as values do; ±∞ with all rows on one side."""
    n_below = np.searchsorted(ascending, values)
    ends = np.where(n_below == 0, -np.inf, np.inf)
    inside = (n_below > 0) & (n_below < len(ascending))
    pairs = sign * np.stack([ascending[n_below[inside] - 1], ascending[n_below[inside]]])
    ends[inside] = sign * decimals_between(*np.sort(pairs, axis=0))
    return ends
