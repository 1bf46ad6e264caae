"""Rules on one score of two labels: thresholds on the score itself, for all rows or for each group.

A score rises with the probability of one of the labels. The rising score, here and in tests of rules, is the
one of the second label: the score, or minus it. An edge is a possible threshold on the rising score, a bin
has the rising scores between two edges, and a cut is the number of an edge, which is the number of bins below
it. A place is a group with thresholds of its own, or all rows.

Axes: m places, V bins, S strata, A actions, and W entries of the counts of an action: S, or 2 S with costs.
"""

from dataclasses import dataclass
from itertools import compress, pairwise, product
from typing import Any, NamedTuple

import numpy as np
from scipy.special import expit

from tailboost.core import Array, Floats, Ints, Mask, Name, decimals_between, least_type
from tailboost.rates import TINY, Counts, Strata
from tailboost.selection.descent import NO_NUMBERS, Line, Reached

# The most thresholds for each label: evenly spaced ranks of the scores of its rows.
MOST = 2_000
# The same for rules that are tested on fresh rows.
FEW = 200
# Steps of iterative proportional fitting.
SCALINGS = 30
# The least share of a label in a place, so that its rows keep their order.
LEAST_SHARE = 1e-9
# The numbers of the answers. From low scores to high a row gets FIRST, DEFERRED, SECOND.
FIRST, SECOND, DEFERRED = range(3)
# Distances of two cuts that move together from where they are, in cuts of their places.
DISTANCES = np.r_[-(2 ** np.arange(12)), 0, 2 ** np.arange(12)]
# Log-odds this little below a threshold are at it in a rule by costs: more than rounding errors.
TIE = 1e-12
# Smaller differences of sums are rounding.
ROUNDING = 1e-13


class Places(NamedTuple):
    """The m places of some strata: the groups of a column with thresholds of their own, or all rows.

    ``of_strata`` has the place of each stratum, shape (S,), −1 for an unknown group. ``columns`` has the
    column; it is empty for all rows.
    """

    of_strata: Ints
    n: int = 1
    columns: tuple[Name, ...] = ()


class PlaceRows(NamedTuple):
    """The rows of one place."""

    strata: Mask  # shape (S,): which strata are in the place
    ascending: Floats  # the sorted rising scores
    # Shape (T,): 0, and the cut above each bin with a row. Others make no other rule.
    cuts: Ints
    below: Floats  # shape (strata, T): expected weight of each of these strata below each of these cuts


@dataclass(eq=False)
class Thresholds:
    """All rules by thresholds on a score, on the selection data.

    A candidate is an array of cuts, shape (m, A − 1). A row gets the second label if its rising score is at
    least the edge of the last cut of its place, the first label below the first cut, and is deferred between.

    Parameters
    ----------
    data : Counts
        The rows.
    score : ndarray of shape (n,)
        The score of each row.
    chance : ndarray of shape (n,)
        Probability of the second label.
    group_column : int or None
        Column of groups whose values are the places; None for one place.
    sign : float
        Of the rising score: −1 if the score is for the first label.
    most : int
        The most thresholds for each label.

    Attributes
    ----------
    edges : ndarray of shape (V + 1,)
        Ascending rising scores for possible thresholds, from the least one to ∞.
    passed : list of ndarray
        Of each action, the counts of the rows below each cut if all rows got it, shape (V + 1, W).
    weights : ndarray of shape (S, V)
        Numbers of rows by stratum and bin, the mean of the counted and of the expected ones.
    chances : ndarray of shape (m, V)
        Probability of the second label in each bin of each place.
    place : ndarray of int, shape (W,)
        The place of each entry of the counts.
    by_place : list of PlaceRows
        The rows of each place.
    """

    models = ()  # no rule estimates groups

    data: Counts
    score: Floats
    chance: Floats
    group_column: int | None
    sign: float = 1.0
    most: int = MOST

    def __post_init__(self) -> None:
        data = self.data
        strata = data.strata
        scores = self.rising(self.score)
        of_strata = [np.sort(scores[data.stratum == s]) for s in range(len(strata.mass))]
        # Edges are ranks of the scores of each label, the least one first, and ∞.
        shares = np.linspace(0.0, 1.0, self.most)
        of_labels = [merged(of_strata, strata.y == label) for label in (FIRST, SECOND)]
        edges = [own[np.rint(shares * (len(own) - 1)).astype(int)] for own in of_labels]
        self.edges = np.unique(np.concatenate([*edges, [np.inf]]))
        n_bins = len(self.edges) - 1
        in_bin = np.searchsorted(self.edges[1:], scores, side="right")

        # The weights are the same for each action, so without costs one action is enough.
        n_summed = 1 if data.costs is None else strata.n_actions
        sums = [data.sums(in_bin, n_bins, action) for action in range(n_summed)]  # (V, W) each
        passed = [np.pad(of_bins.cumsum(axis=0), ((1, 0), (0, 0))) for of_bins in sums]
        self.passed = passed if n_summed > 1 else passed * strata.n_actions
        counted = sums[FIRST][:, : len(strata.mass)].T  # (S, V), whatever the action

        # The search adds up expected rows, which are smooth. Tests on fresh rows order rules by `weights`.
        place = strata.place(self.group_column)
        self.place = np.resize(place, sums[FIRST].shape[1])
        n_second = np.bincount(in_bin, data.weights * self.chance, n_bins)
        self.chances, expected = self._expected(place, counted, n_second)
        self.weights = (counted + expected) / 2.0 * strata.size.sum()

        below = np.pad(expected.cumsum(axis=1), ((0, 0), (1, 0)))
        self.by_place = []
        for number in range(len(self.chances)):
            own = place == number
            ascending = merged(of_strata, own)
            cuts = np.append(0, 1 + np.flatnonzero(counted[own].any(axis=0)))
            self.by_place.append(PlaceRows(own, ascending, cuts, below[np.ix_(own, cuts)]))

    def _expected(self, place: Ints, counted: Floats, n_second: Any) -> tuple[Floats, Floats]:
        """Return the chance of the second label in each bin of each place, and the rows expected by it.

        The chances have the shape (m, V), and the rows (S, V), as many in each stratum as were ``counted``. A
        chance starts as that of the bin over all places, in which ``n_second`` of the rows are expected to
        have the second label, (V,). Iterative proportional fitting scales the expected rows by label, place
        and bin until they sum to the counted rows of each bin in each place, and to the mass of each label
        there.
        """
        strata = self.data.strata
        n_places = place.max() + 1
        of_places = np.eye(n_places)[place].T @ counted + LEAST_SHARE  # (m, V)
        mass = np.bincount(n_places * strata.y + place, strata.mass)
        mean = (n_second / of_places.sum(axis=0)).clip(LEAST_SHARE, 1.0 - LEAST_SHARE)
        # By label, place and bin, (2, m, V).
        fitted = np.stack([1.0 - mean, mean])[:, None] * of_places
        for _ in range(SCALINGS):
            fitted *= (mass + LEAST_SHARE).reshape(2, -1, 1) / fitted.sum(axis=2, keepdims=True)
            fitted *= of_places / fitted.sum(axis=0)
        chances = fitted[1] / of_places
        # The strata of the second label follow those of the first one.
        of_first, of_second = np.split(counted, 2)
        p = chances[place[: len(of_first)]]
        both = of_first + of_second
        expected = np.concatenate([both * (1.0 - p), both * p])
        expected *= (strata.mass / (expected.sum(axis=1) + TINY))[:, None]
        return chances, expected

    def rising(self, scores: Floats) -> Floats:
        """Return the rising scores of scores: the same, or minus them. It is its own inverse."""
        return self.sign * scores

    def places_of(self, strata: Strata) -> Places:
        """Return the places of other strata."""
        if self.group_column is None:
            return Places(strata.place(None))
        own = self.data.strata
        column = own.columns[self.group_column]
        number_of = {value: n for n, value in enumerate(own.values[self.group_column])}
        other = strata.columns.index(column)
        numbers = np.array([number_of.get(value, -1) for value in strata.values[other]])
        return Places(numbers[strata.place(other)], len(self.by_place), (column,))

    # -- the family of the search ------------------------------------------------------------------------

    def best(self, costs: Floats) -> Ints:
        """Return the cuts of least expected cost, for the costs of actions (S, A)."""
        cuts_of_places = []
        # Below the high cut a row is deferred instead of the second label, and below the low cut it gets the
        # first label instead. Without deferral the second label is between.
        between = costs[:, -1]
        prices = np.stack([between - costs[:, SECOND], costs[:, FIRST] - between])
        for rows in self.by_place:
            # The prices of all rows below each cut, (T,).
            high, low = prices[:, rows.strata] @ rows.below
            # The low cut is at most the high one: each high cut goes with the cheapest low one up to it.
            last = (np.minimum.accumulate(low) + high).argmin()
            cuts_of_places.append(rows.cuts[[low[: last + 1].argmin(), last]])
        # Without deferral nothing is between, and both cuts are one.
        return np.array(cuts_of_places)[:, : costs.shape[1] - 1]

    def counts(self, cuts: Array) -> Floats:
        """Return the confusion counts of cuts (m, A − 1), shape (W, A)."""
        return self._counted(cuts[self.place], np.arange(len(self.place)))

    def _counted(self, cuts: Ints, entries: Ints) -> Floats:
        """Return w of the W entries of confusion counts, (…, w, A), by the cuts of each, (…, w, A − 1)."""
        first, second, *deferred = self.passed
        low = cuts[..., 0]
        high = cuts[..., -1]
        of_actions = [first[low, entries], second[-1, entries] - second[high, entries]]
        of_actions += [below[high, entries] - below[low, entries] for below in deferred]
        counts = np.stack(of_actions, axis=-1)
        counts[np.abs(counts) < ROUNDING] = 0.0
        return counts

    def moves(self, compares: bool) -> list[list[tuple[int, int]]]:
        """Return the moves of a descent: the cuts that move on each line, by their place and number there.

        Each cut moves alone, and the two of a place together. Beside a limit that ``compares`` places so do
        neighbours in the ring of all cuts: within two gaps of 5 % the error is .082 ± .007 larger if each cut
        moves alone (24 tables).
        """
        cuts = [*product(range(len(self.by_place)), range(self.data.strata.n_actions - 1))]
        together = [
            [one, other]
            for other, one in pairwise([*cuts, cuts[0]])
            if one != other and (compares or one[0] == other[0])
        ]
        return [*together, *([cut] for cut in cuts)]

    def reached(self, cuts: Array) -> Reached:
        """Return cuts as the first ones of a descent."""
        return Reached(cuts)

    def line(self, reached: Reached, move: list[tuple[int, int]], table: Floats) -> Line:
        """Return the candidates with other numbers of the cuts that move.

        One cut takes all numbers of its place, two together those at some distances from theirs. The first
        cut of a place is at most the last one. ``table`` has the summands of numerators and denominators over
        confusion counts, shape (W, A, 2, R).
        """
        places = sorted({place for place, _ in move})
        own = reached.candidate[places]
        moved = own[None]
        for place, side in move:
            cuts = self.by_place[place].cuts
            if len(move) > 1:
                near = np.searchsorted(cuts, reached.candidate[place, side]) + DISTANCES
                cuts = cuts[np.unique(near.clip(0, len(cuts) - 1))]
            # Each combination so far with each of these cuts.
            moved = np.repeat(moved, len(cuts), axis=0)
            moved[:, places.index(place), side] = np.resize(cuts, len(moved))
        moved = moved[np.all(moved[..., 0] <= moved[..., -1], axis=-1)]

        def to(number: int) -> Reached:
            candidate = reached.candidate.copy()
            candidate[places] = moved[number]
            return Reached(candidate)

        # Only rows of these places get other answers.
        entries = np.flatnonzero(np.isin(self.place, places))
        at = np.searchsorted(places, self.place[entries])
        changes = self._counted(moved[:, at], entries) - self._counted(own[at], entries)
        rates = np.flatnonzero(table[entries].any(axis=(0, 1, 2)))
        return Line(to, rates, np.tensordot(changes, table[entries][..., rates]))

    # -- written thresholds ------------------------------------------------------------------------------

    def decimals(
        self, thresholds: Floats, scores: Floats = NO_NUMBERS, place: Ints = NO_NUMBERS
    ) -> Floats:
        """Return the shortest decimals that part rows as thresholds on the rising score do, (m, …).

        The rows are the selecting ones and further ones, with rising ``scores`` and the ``place`` of each.
        The decimals are ±∞ with all rows of a place on one side.
        """
        decimals = np.full(thresholds.shape, np.inf)
        for number, rows in enumerate(self.by_place):
            ascending = rows.ascending
            further = scores[place == number]
            if len(further):
                ascending = np.append(ascending, further)
                ascending.sort()
            n_below = np.searchsorted(ascending, thresholds[number])
            decimals[number, n_below == 0] = -np.inf
            inside = (n_below > 0) & (n_below < len(ascending))
            above = n_below[inside]
            pairs = np.sort(self.rising(ascending[[above - 1, above]]), axis=0)
            decimals[number, inside] = self.rising(decimals_between(*pairs))
        return decimals

    def kept(self, cuts: Array) -> Floats:
        """Return the thresholds of cuts as decimals, shape (m, A − 1)."""
        return self.decimals(self.edges[cuts])

    def costs(self, thresholds: Floats) -> Floats:
        """Return thresholds on the log-odds as costs of actions by place and class, shape (m, 2, A).

        Of equal costs the first action is taken, so at a threshold those of the later one are less.
        """
        lowered = thresholds - TIE
        at = np.stack([expit(lowered), -expit(-lowered)], axis=1)
        return np.concatenate([-at[..., :1], at[..., -1:], np.zeros_like(at[..., 1:])], axis=2)

    def bins(self, rising: Floats, place: Ints) -> Ints:
        """Return the bin of each rising score, shape (n,), on the sides of the edges as they are written."""
        bins = np.zeros(len(rising), least_type(len(self.edges)))
        inner = np.tile(self.edges[1:-1], (len(self.by_place), 1))
        for number, edges in enumerate(self.decimals(inner)):
            here = place == number
            # A score at a threshold is beyond it, in the direction in which the score itself rises.
            bins[here] = np.searchsorted(
                edges, rising[here], "right" if self.sign > 0 else "left"
            )
        return bins


def merged(of_strata: list[Floats], among: Mask) -> Floats:
    """Return the sorted scores of some strata, from those of each; a stable sort merges sorted parts."""
    return np.sort(np.concatenate([*compress(of_strata, among)]), kind="stable")
