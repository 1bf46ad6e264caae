"""Rules on one score of two labels: thresholds on the score itself, for all rows or for each group."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise, product
from typing import Any

import numpy as np
from scipy.special import expit

from tailboost.core.array_types import Floats, Ints
from tailboost.rates import Counts, Strata

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


@dataclass(eq=False)
class Thresholds:
    """All rules by thresholds on a score, on the selection data.

    A rule is an array of cuts, shape (m, A − 1), numbers of `edges` for each of m places. A row gets the
    second label if its score is at least the edge of the last cut of its place, the first label if it is
    below the first cut, and is deferred between them.

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
        Number of the thresholds of each stratum.
    n_places : int
        The number of places, m.
    below : list of ndarray of shape (V + 1, W)
        Counts of the rows below each edge, if they get each action.
    rows, expected : ndarray of shape (S, V)
        Weight of the rows by stratum and value, with their labels and with expected ones.
    weights : ndarray of shape (S, V)
        Numbers of rows by stratum and value, half by their labels, half by expected ones.
    chances : ndarray of shape (m, V)
        Probability of the second label at each value in each place.
    steps : list of ndarray
        The different cuts of each place: 0, and those above a value of one of its rows.
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
        y, place = strata.y[data.stratum], self.places[data.stratum]
        self.ascending = [np.sort(scores[place == number]) for number in range(self.n_places)]
        ranks = np.linspace(0.0, 1.0, self.most)
        of_labels = [np.sort(scores[y == label]) for label in np.unique(y)]
        parts = [own[np.rint(ranks * (len(own) - 1)).astype(int)] for own in of_labels]
        self.edges = np.unique(np.concatenate([[scores.min(), np.inf], *parts]))
        n_values = len(self.edges) - 1
        cell = np.searchsorted(self.edges, scores, side="right") - 1
        sums = [data.sums(cell, n_values, action) for action in range(strata.n_actions)]
        self.below = [np.pad(each.cumsum(axis=0), ((1, 0), (0, 0))) for each in sums]
        self.rows = sums[0].T[: len(self.places)]

        # Both labels get their mass in each place by scaling in turn labels and values.
        self._of_place = np.eye(self.n_places)[self.places].T
        mass = np.bincount(strata.y * self.n_places + self.places, strata.mass) + TINY
        mass = mass.reshape(2, -1, 1)  # (2, m, 1)
        rows = self._of_place @ self.rows + TINY
        mean = np.bincount(cell, data.weights * self.chance, n_values) / rows.sum(axis=0)
        mean = mean.clip(TINY, 1.0 - TINY)
        both = np.stack([1.0 - mean, mean])[:, None] * rows  # (2, m, V)
        for _ in range(SCALINGS):
            both *= mass / both.sum(axis=2, keepdims=True)
            both *= rows / both.sum(axis=0)
        self.chances = both[1] / rows
        combined = self.rows + np.roll(self.rows, strata.n_combinations, axis=0)
        p = self.chances[self.places]
        expected = combined * np.where(strata.y[:, None], p, 1.0 - p)
        self.expected = expected * (strata.mass / (expected.sum(axis=1) + 1e-300))[:, None]
        self.weights: Floats = (self.rows + self.expected) / 2.0 * strata.size.sum()
        self.steps = [np.append(0, 1 + np.flatnonzero(of_place > TINY)) for of_place in rows]

    def places_of(self, strata: Strata) -> Ints:
        """Return the number of the thresholds of other strata, shape (S,); −1 for an unknown group."""
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
        below = np.pad(self.expected.cumsum(axis=1), ((0, 0), (1, 0)))  # (S, V + 1)
        middle = costs[:, -1]  # without deferral nothing is between, and both cuts are one
        low = self._of_place @ (below * (costs[:, 0] - middle)[:, None])
        high = self._of_place @ (below * (middle - costs[:, 1])[:, None])
        last = (np.minimum.accumulate(low, axis=1) + high).argmin(axis=1)
        first = np.where(np.arange(low.shape[1]) <= last[:, None], low, np.inf).argmin(axis=1)
        return np.stack([first, last], axis=1)[:, : costs.shape[1] - 1]

    def counts(self, cuts: Ints) -> Floats:
        """Return the confusion counts of rules with cuts (…, m, A − 1), shape (…, W, A)."""
        n_entries = self.below[0].shape[1]
        places = np.resize(self.places, n_entries)
        low = cuts[..., places, 0], np.arange(n_entries)
        high = cuts[..., places, -1], np.arange(n_entries)
        first, second, *deferred = self.below
        counts = [first[low], second[-1] - second[high]]
        counts += [each[high] - each[low] for each in deferred]
        return np.stack(counts, axis=-1)

    def lines(self, *, compares: bool) -> list[Any]:
        """Return the cuts that move on each line of a descent, as pairs of place and side.

        Two cuts of a place move together, too. Beside a limit that ``compares`` places so do those of two.
        """
        cuts = list(product(range(self.n_places), range(len(self.below) - 1)))
        pairs = [
            pair
            for pair in pairwise([*cuts, cuts[0]])
            if len(set(pair)) > 1 and (compares or pair[0][0] == pair[1][0])
        ]
        return [*pairs, *([cut] for cut in cuts)]

    def line(self, cuts: Ints, line: Any) -> tuple[Ints, Floats]:
        """Return the rules with other cuts on a line, shape (T, m, A − 1), and their counts.

        One cut takes all steps of its place, two together those at some distances from them.
        """
        taken = []
        for place, side in line:
            steps = self.steps[place]
            if len(line) > 1:
                near = np.searchsorted(steps, cuts[place, side]) + DISTANCES
                steps = steps[np.unique(near.clip(0, len(steps) - 1))]
            taken.append(steps)
        values = np.stack(np.meshgrid(*taken), axis=-1).reshape(-1, len(line))
        rules = np.repeat(cuts[None], len(values), axis=0)
        rules[:, *np.transpose(line)] = values
        rules = rules[(rules[..., 0] <= rules[..., -1]).all(axis=1)]
        return rules, self.counts(rules)

    # -- written thresholds ------------------------------------------------------------------------------

    def ends(self, values: Floats, scores: Floats = NO_ROWS, place: Ints = NO_ROWS) -> Floats:
        """Return the shortest decimals that part these rows and further ones as values do, (m, …).

        They are ±∞ with all rows of a place on one side.
        """
        ends = np.full(values.shape, np.inf)
        for number, of_place in enumerate(self.ascending):
            rows = np.sort(np.append(of_place, scores[place == number]))
            n_below = np.searchsorted(rows, values[number])
            ends[number, n_below == 0] = -np.inf
            inside = (n_below > 0) & (n_below < len(rows))
            above = n_below[inside]
            pairs = np.sort(self.sign * np.stack([rows[above - 1], rows[above]]), axis=0)
            ends[number, inside] = self.sign * decimals_between(*pairs)
        return ends

    def costs(self, ends: Floats) -> Floats:
        """Return thresholds on the log-odds as costs of actions by place and class, shape (m, 2, A)."""
        at = np.stack([expit(ends), -expit(-ends)], axis=1)
        return np.concatenate([-at[..., :1], at[..., -1:], np.zeros_like(at[..., 1:])], axis=2)

    def cells(self, scores: Floats, place: Ints) -> Ints:
        """Return the number of the last cut at or below each score, shape (n,), as `ends` writes the cuts."""
        numbers = np.zeros(len(scores), dtype=np.intp)
        every = np.repeat(self.edges[None, 1:-1], self.n_places, axis=0)
        for number, ends in enumerate(self.ends(every)):
            here = place == number
            numbers[here] = np.searchsorted(ends, scores[here], side="right")
        return numbers


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
