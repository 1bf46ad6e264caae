"""Rules on one score of two labels: thresholds on the score itself, for all rows or for each group.

A threshold is on the score. An edge is a possible threshold, a cell has the scores between two edges, and a
cut is the number of an edge, which is the number of cells below it. A place is a group with thresholds of its
own, or all rows.

Axes: m places, V cells, S strata, A actions, and W entries of the counts of an action: S, or 2 S with costs.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise, product
from typing import Any, NamedTuple

import numpy as np
from scipy.special import expit

from tailboost.core.array_types import Floats, Ints
from tailboost.rates import Counts, Strata
from tailboost.selection.lines import Axis, Line, changes

# The most thresholds for each label: evenly spaced ranks of the scores of its rows.
MOST = 2_000
# The same for rules that are tested on fresh rows.
FEW = 200
# Steps of iterative scaling for the probability of the second label within each group.
SCALINGS = 30
# The least share of a label in a place, so that its rows keep their order, and the least cost of an answer.
TINY = 1e-9
# Distances of two cuts that are moved together from where they are.
DISTANCES = np.r_[-(2 ** np.arange(12)), 0, 2 ** np.arange(12)]
# The most decimals of a floating-point number.
MOST_DECIMALS = 309
NO_ROWS: Any = np.zeros(0)


class Reached(NamedTuple):
    """A rule on the way of a descent."""

    rule: Ints


@dataclass(eq=False)
class Thresholds:
    """All rules by thresholds on a score, on the selection data.

    A rule is an array of cuts, shape (m, A − 1). A row gets the second label if its score is at least the
    edge of the last cut of its place, the first label if it is below the first cut, and is deferred between.

    Parameters
    ----------
    data : Counts
        The rows.
    scores : ndarray of shape (n,)
        The score of each row, with the sign −1 if it falls with the probability of the second label.
    chance : ndarray of shape (n,)
        Probability of the second label.
    group_column : int or None
        Column of groups whose values are the places; None for one place.
    sign : float
        The sign of the scores.
    most : int
        The most thresholds for each label.

    Attributes
    ----------
    edges : ndarray of shape (V + 1,)
        Ascending scores for possible thresholds, from the least one to ∞.
    places : ndarray of shape (S,)
        The place of each stratum.
    n_places : int
        m.
    merged : Counts
        The rows, with those of a cell and stratum as one.
    cell : ndarray
        The cell of each merged row, ascending.
    weights : ndarray of shape (S, V)
        Numbers of rows by stratum and cell, half by their labels, half by expected ones.
    chances : ndarray of shape (m, V)
        Probability of the second label in each cell of each place.
    cuts : list of ndarray
        The different cuts of each place, (T,): 0, and those above a cell with one of its rows.
    expected : list of ndarray
        Of each place, the expected weight of each of its strata below its cuts, (strata, T).
    ascending : list of ndarray
        The sorted scores of the rows of each place.
    """

    data: Counts
    scores: Floats
    chance: Floats
    group_column: int | None
    sign: float = 1.0
    most: int = MOST

    def __post_init__(self) -> None:
        data, scores = self.data, self.scores
        strata = data.strata
        self.places = strata.place(self.group_column)
        self.n_places = int(self.places.max()) + 1

        def ascending(of_strata: Any) -> Floats:
            return np.sort(scores[of_strata[data.stratum]])

        self.ascending = [ascending(self.places == number) for number in range(self.n_places)]
        ranks = np.linspace(0.0, 1.0, self.most)
        edges = [np.array([scores.min(), np.inf])]
        for label in np.unique(strata.y[strata.mass > 0]):
            own = ascending(strata.y == label)
            edges.append(own[np.rint(ranks * (len(own) - 1)).astype(int)])
        self.edges = np.unique(np.concatenate(edges))
        n_cells = len(self.edges) - 1
        cell = np.searchsorted(self.edges, scores, side="right") - 1
        sums = [data.sums(cell, n_cells, action) for action in range(strata.n_actions)]
        of_stratum = sums[0].T[: len(self.places)]  # weight by stratum and cell, (S, V)
        self.cell, stratum = np.nonzero(of_stratum.T)
        weights, costs = of_stratum[stratum, self.cell], None
        if data.costs is not None:
            met = [each[self.cell, stratum + len(self.places)] / weights for each in sums]
            costs = np.stack(met, axis=1)
        self.merged = Counts(strata, stratum, weights, costs)

        # Both labels get their mass in each place by scaling in turn labels and cells.
        of_place = np.eye(self.n_places)[self.places].T
        mass = np.bincount(strata.y * self.n_places + self.places, strata.mass) + TINY
        mass = mass.reshape(2, -1, 1)  # (2, m, 1)
        rows = of_place @ of_stratum + TINY
        mean = np.bincount(cell, data.weights * self.chance, n_cells) / rows.sum(axis=0)
        mean = mean.clip(TINY, 1.0 - TINY)
        both = np.stack([1.0 - mean, mean])[:, None] * rows  # (2, m, V)
        for _ in range(SCALINGS):
            both *= mass / both.sum(axis=2, keepdims=True)
            both *= rows / both.sum(axis=0)
        self.chances = both[1] / rows
        combined = of_stratum + np.roll(of_stratum, strata.n_combinations, axis=0)
        p = self.chances[self.places]
        expected = combined * np.where(strata.y[:, None], p, 1.0 - p)
        expected *= (strata.mass / (expected.sum(axis=1) + 1e-300))[:, None]
        self.weights: Floats = (of_stratum + expected) / 2.0 * strata.size.sum()
        self.cuts = [np.append(0, 1 + np.flatnonzero(in_place > TINY)) for in_place in rows]
        below = np.pad(expected.cumsum(axis=1), ((0, 0), (1, 0)))
        self.expected = [
            below[np.ix_(self.places == number, cuts)] for number, cuts in enumerate(self.cuts)
        ]

    def places_of(self, strata: Strata) -> Ints:
        """Return the place of other strata, shape (S,); −1 for an unknown group."""
        if self.group_column is None:
            return strata.place(None)
        own = self.data.strata
        other = strata.columns.index(own.columns[self.group_column])
        number = {value: i for i, value in enumerate(own.values[self.group_column])}
        numbers = np.array([number.get(value, -1) for value in strata.values[other]])
        return numbers[strata.place(other)]

    # -- the family of the search ------------------------------------------------------------------------

    def best(self, costs: Floats) -> Ints:
        """Return the cuts of least expected cost, shape (m, A − 1), for the costs of actions (S, A)."""
        best = np.empty((self.n_places, costs.shape[1] - 1), dtype=np.intp)
        middle = costs[:, -1]  # without deferral nothing is between, and both cuts are one
        prices = np.stack([costs[:, 0] - middle, middle - costs[:, 1]])
        for number, below in enumerate(self.expected):
            low, high = prices[:, self.places == number] @ below
            last = (np.minimum.accumulate(low) + high).argmin()
            first = low[: last + 1].argmin()
            best[number] = self.cuts[number][[first, last][: best.shape[1]]]
        return best

    def counts(self, cuts: Ints) -> Floats:
        """Return the confusion counts of a rule, shape (W, A)."""
        low, high = cuts[self.places[self.merged.stratum]][:, [0, -1]].T
        answers = np.where(self.cell >= high, 1, np.where(self.cell >= low, 2, 0))
        return self.merged.of(answers)

    def lines(self, *, compares: bool) -> list[Any]:
        """Return the cuts that move on each line of a descent, as pairs of place and side.

        Two cuts of a place move together, too. Beside a limit that ``compares`` places so do those of two.
        """
        cuts = list(product(range(self.n_places), range(self.data.strata.n_actions - 1)))
        pairs = [
            pair
            for pair in pairwise([*cuts, cuts[0]])
            if len(set(pair)) > 1 and (compares or pair[0][0] == pair[1][0])
        ]
        return [*pairs, *([cut] for cut in cuts)]

    def reached(self, cuts: Ints) -> Reached:
        """Return a rule as the first one of a descent."""
        return Reached(cuts)

    def line(self, reached: Reached, line: Any) -> Line:
        """Return the rules with other cuts on a line.

        One cut takes all cuts of its place, two together those at some distances from them. The first cut is
        at most the last one.
        """
        rule, last = reached.rule, self.data.strata.n_actions - 2
        moving = list(reversed(line))
        taken = []
        for place, side in moving:
            cuts = self.cuts[place]
            if len(line) > 1:
                near = np.searchsorted(cuts, rule[place, side]) + DISTANCES
                cuts = cuts[np.unique(near.clip(0, len(cuts) - 1))]
            taken.append(cuts)
        on_grid = dict(zip(moving, np.meshgrid(*taken, indexing="ij"), strict=True))
        firsts, lasts = (
            [on_grid.get((place, side), rule[place, side]) for place, _ in line]
            for side in (0, last)
        )
        allowed = np.all([low <= high for low, high in zip(firsts, lasts, strict=True)], axis=0)

        def to(*numbers: int) -> Reached:
            moved = rule.copy()
            for (place, side), cuts, number in zip(moving, taken, numbers, strict=True):
                moved[place, side] = cuts[number]
            return Reached(moved)

        axes = [
            self._axis(rule, place, side, cuts)
            for (place, side), cuts in zip(moving, taken, strict=True)
        ]
        return Line(axes, to, allowed)

    def _axis(self, rule: Ints, place: int, side: int, cuts: Ints) -> Axis:
        """Return the axis of a rule whose cut at a side of a place takes ascending cuts, shape (T,).

        The rows that the cut passes on its way up leave the answer above it for the one below.
        """
        above, below = (self.data.strata.n_actions - 1, 0) if side == 0 else (1, 2)
        rows = np.flatnonzero(self.places[self.merged.stratum] == place)
        n_passed = np.searchsorted(self.cell[rows], cuts)
        passed = changes(self.merged, rows, n_passed, above, below)
        return Axis(passed, int(np.searchsorted(cuts, rule[place, side])))

    # -- written thresholds ------------------------------------------------------------------------------

    def written(
        self, thresholds: Floats, scores: Floats = NO_ROWS, place: Ints = NO_ROWS
    ) -> Floats:
        """Return the shortest decimals that part these rows and further ones as thresholds do, (m, …).

        They are ±∞ with all rows of a place on one side.
        """
        written = np.full(thresholds.shape, np.inf)
        for number, rows in enumerate(self.ascending):
            further = scores[place == number]
            if len(further):
                rows = np.sort(np.append(rows, further))
            n_below = np.searchsorted(rows, thresholds[number])
            written[number, n_below == 0] = -np.inf
            inside = (n_below > 0) & (n_below < len(rows))
            above = n_below[inside]
            pairs = np.sort(self.sign * np.stack([rows[above - 1], rows[above]]), axis=0)
            written[number, inside] = self.sign * decimals_between(*pairs)
        return written

    def costs(self, thresholds: Floats) -> Floats:
        """Return thresholds on the log-odds as costs of actions by place and class, shape (m, 2, A)."""
        at = np.stack([expit(thresholds), -expit(-thresholds)], axis=1)
        return np.concatenate([-at[..., :1], at[..., -1:], np.zeros_like(at[..., 1:])], axis=2)

    def cells(self, scores: Floats, place: Ints) -> Ints:
        """Return the cell of each score, shape (n,), on the sides of the edges as they are written."""
        cells = np.zeros(len(scores), dtype=np.intp)
        inner = np.repeat(self.edges[None, 1:-1], self.n_places, axis=0)
        for number, edges in enumerate(self.written(inner)):
            here = place == number
            cells[here] = np.searchsorted(edges, scores[here], side="right")
        return cells


def decimals_between(low: Floats, high: Floats) -> Floats:
    """Return the shortest decimal strictly between two numbers, shape (m,).

    Among equally short decimals, the one nearest to the middle is returned. Without a floating-point number
    between, the result is the larger number: a range contains its lower end.

    Parameters
    ----------
    low, high : ndarray of shape (m,)
        The pairs of numbers. For equal numbers the result is this number.
    """
    middle = low / 2 + high / 2
    result = high.astype(np.float64)
    is_open = low < high
    largest = np.abs([low, high]).max(initial=1.0)
    for digits in range(-int(np.log10(largest)) - 1, MOST_DECIMALS):
        with np.errstate(over="ignore", invalid="ignore"):
            decimal = np.round(middle, digits) + 0.0  # + 0.0 makes −0.0 a 0.0
        inside = is_open & (low < decimal) & (decimal < high)
        result[inside] = decimal[inside]
        is_open &= ~inside
        if not is_open.any():
            break
    return result
