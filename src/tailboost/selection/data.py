"""The selection data: strata of rows, candidates with their counts on them, and candidates by thresholds."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, fields
from functools import cached_property
from hashlib import blake2b
from typing import Any

import numpy as np

from tailboost.core.array_types import Array, Floats, Floats32, Ints, Mask
from tailboost.rates import Strata
from tailboost.rates.make import OVERALL_ERROR

Singles = Floats32
"""Stratum probabilities p(s | x), shape (S, n): one row of numbers for each stratum."""


def quotient(top: Array, bottom: Array, otherwise: float = 0.0) -> Floats:
    """Return ``top / bottom``; ``otherwise`` for denominators of 0 or less."""
    positive = bottom > 0
    return np.where(positive, top / np.where(positive, bottom, 1.0), otherwise)


class Uncached:
    """A dataclass whose copies, also in files, have its fields alone: cached results are computed anew."""

    def __getstate__(self) -> dict[str, Any]:
        stored: Any = self
        return {each.name: getattr(stored, each.name) for each in fields(stored)}


@dataclass(frozen=True, eq=False)
class SelectionData(Uncached):
    """The rows for the comparison of candidates."""

    strata: Strata  # the strata, with the masses of these rows
    stratum: Ints  # shape (n,)
    weights: Floats  # shape (n,), of sum 1
    probabilities: Any = None  # shape (S, n): p(s | x); None if candidates have no action costs
    # Shape (n, A): cost of each action in each row; None without costs.
    costs: Floats | None = None

    @cached_property
    def _cell(self) -> Ints:
        """Place of each row's stratum in flat counts."""
        return self.stratum * self.strata.n_actions

    def __len__(self) -> int:
        return len(self.stratum)

    def examine(self, candidates: Sequence[Any]) -> Iterator[tuple[str, Floats]]:
        """Yield a key of the actions of each candidate, and its confusion counts."""
        for candidate in candidates:
            actions = self.actions(candidate)
            yield self.key(actions), self.count(actions)

    def key(self, actions: Ints) -> str:
        """Return a key of the actions in all rows; candidates with equal actions have equal keys."""
        return blake2b(actions.astype(np.uint16).tobytes(), digest_size=16).hexdigest()

    def actions(self, candidate: Any) -> Ints:
        """Return the action of a candidate in each row, shape (n,)."""
        return np.asarray(candidate.actions(self.probabilities))

    def count(self, actions: Ints) -> Floats:
        """Return the confusion counts: the weight of the rows by stratum and action, shape (W, A).

        ``actions`` has the action of each row, shape (n,). W is S, the number of strata. If the rows have
        costs, W is 2 S: the second half sums the costs.
        """
        n_strata = len(self.strata.mass)
        A = self.strata.n_actions
        cell = self._cell + actions
        counts = np.bincount(cell, self.weights, n_strata * A).astype(np.float64)
        counts = counts.reshape(n_strata, A)
        if self.costs is None:
            return counts
        cost_paid = self.costs[np.arange(len(actions)), actions]
        cost_sums = np.bincount(cell, self.weights * cost_paid, n_strata * A).reshape(
            n_strata, A
        )
        return np.concatenate([counts, cost_sums])


# -- Candidates: decision rules by action costs, and their pools ---------------------------------------------

# Number of actions up to which a loop finds a row's cheapest action.
FEW_ACTIONS = 255
# Number of rows in a block of the sum of costs: a block stays in the cache of a processor.
BLOCK = 32_768


@dataclass(frozen=True, eq=False)
class Candidate:
    """The decision rule ``argmin_a Σ_s p(s | x) Q[s, a]``."""

    action_costs: Floats  # shape (S, A): Q; rows are centred, which changes no action

    @classmethod
    def from_costs(cls, action_costs: Floats) -> Candidate:
        """Return the candidate of action costs: scaled to at most 1, and centred so that most are 0."""
        usual = np.sort(action_costs, axis=1)[:, action_costs.shape[1] // 2]
        centred = action_costs - usual[:, None]
        return cls(centred / max(float(np.abs(centred).max()), 1e-300))

    @property
    def is_constant(self) -> bool:
        """Whether every row gets the same action."""
        return bool((self.action_costs == self.action_costs[0]).all())

    def actions(self, probabilities: Singles) -> Ints:
        """Return the action in each row, shape (n,); the first of equally cheap actions."""
        return decide(expected_costs(probabilities, self.action_costs))


def contrasts(action_costs: Floats) -> Floats:
    """Return the deciding costs: all of shape (S, A), or for two actions the difference, shape (S, 1)."""
    if action_costs.shape[1] == 2:
        return action_costs[:, 1:] - action_costs[:, :1]
    return action_costs


def from_contrasts(costs: Floats) -> Floats:
    """Return the costs of all actions, shape (S, A), from `contrasts`; the first of two actions costs 0."""
    if costs.shape[1] == 1:
        return np.column_stack([np.zeros(len(costs)), costs[:, 0]])
    return costs


def expected_costs(probabilities: Singles, action_costs: Floats) -> Floats:
    """Return Σ_s p(s | x) Q[s, a] for each action, shape (A, n); for two actions their difference, (1, n).

    The sum runs stratum by stratum, so rounding in a row does not depend on the other rows.

    Parameters
    ----------
    probabilities : ndarray of float32, shape (S, n)
        Probability p(s | x) of each stratum in each row.
    action_costs : ndarray of shape (S, A)
        Cost Q of each action in each stratum.
    """
    costs = contrasts(action_costs)
    n = probabilities.shape[1]
    total = np.zeros((costs.shape[1], n))
    terms = [(costs[s, a], a, s) for s, a in zip(*np.nonzero(costs), strict=True)]
    product = np.empty(min(n, BLOCK))
    for start in range(0, n, BLOCK):
        rows = slice(start, start + BLOCK)
        term = product[: n - start]
        for cost, a, s in terms:
            np.multiply(probabilities[s, rows], cost, out=term)
            total[a, rows] += term
    return total


def decide(costs: Floats) -> Ints:
    """Return the cheapest action of each row, shape (n,); the first of equal ones.

    ``costs`` has the cost of each action, shape (A, n); of two actions their difference, (1, n).
    """
    if len(costs) == 1:
        return (costs[0] < 0).astype(np.intp)
    if len(costs) > FEW_ACTIONS:
        return costs.argmin(axis=0).astype(np.intp)
    # Four times as fast as argmin over the first axis.
    cheapest = np.zeros(costs.shape[1], dtype=np.uint8)
    least_cost = costs[0].copy()
    for action, cost in enumerate(costs[1:], 1):
        np.maximum(
            cheapest, (cost < least_cost).view(np.uint8) * np.uint8(action), out=cheapest
        )
        np.minimum(cost, least_cost, out=least_cost)
    return cheapest.astype(np.intp)


@dataclass
class Pool:
    """Candidates with their confusion counts on the selection data; no two have equal actions."""

    data: SelectionData
    candidates: list[Any] = field(default_factory=list)
    counts: list[Floats] = field(default_factory=list)  # of each candidate, shape (W, A)
    _numbers: dict[str, int] = field(default_factory=dict)

    def copy(self) -> Pool:
        """Return a copy of the pool; candidates added to the copy do not change this pool."""
        return Pool(self.data, list(self.candidates), list(self.counts), dict(self._numbers))

    def extend(self, other: Pool) -> None:
        """Add the candidates of another pool on the same rows."""
        present = set(map(id, self.candidates))
        self.add_all([new for new in other.candidates if id(new) not in present])

    def add(self, candidate: Candidate) -> int:
        """Return the number of a candidate, or of an earlier one with the same actions."""
        return self.add_all([candidate])[0]

    def add_all(self, candidates: Sequence[Candidate]) -> list[int]:
        """Return the numbers of candidates, counted in one pass over the rows; see `add`."""
        counted = self.data.examine(candidates)
        return [
            self._enter(candidate, key, counts)
            for candidate, (key, counts) in zip(candidates, counted, strict=True)
        ]

    def append(self, candidates: Sequence[Candidate]) -> None:
        """Add candidates with a number each, even if their actions on these rows are equal."""
        self.candidates.extend(candidates)
        self.counts.extend(counts for _, counts in self.data.examine(candidates))

    def enter(self, candidate: Any, actions: Ints) -> int:
        """Return the number of a candidate with known actions, shape (n,); no action costs are needed."""
        data = self.data
        return self._enter(candidate, data.key(actions), data.count(actions))

    def _enter(self, candidate: Any, key: str, counts: Floats) -> int:
        """Return the number of a candidate with counts (W, A), or of an earlier one with the same key."""
        number = self._numbers.setdefault(key, len(self.candidates))
        if number == len(self.candidates):
            self.candidates.append(candidate)
            self.counts.append(counts)
        return number

    @property
    def all_counts(self) -> Floats:
        """Confusion counts of all candidates, shape (T, W, A)."""
        return np.array(self.counts)

    def constants(self) -> list[int]:
        """Add a constant candidate for each action; return their numbers."""
        strata = self.data.strata
        plain = plain_costs(self.data)
        candidates = []
        for action in range(strata.n_actions):
            costs = np.zeros_like(plain)
            if action == strata.n_classes:  # deferred rows get labels by plain costs
                costs = plain.copy()
            costs[:, action] = -2.0 * max(float(np.abs(plain).max()), 1.0)
            candidates.append(Candidate.from_costs(costs))
        return self.add_all(candidates)


def plain_costs(data: SelectionData) -> Floats:
    """Return the action costs of the overall error, shape (S, A); deferral costs more than any error."""
    strata = data.strata
    n_strata = strata.n_classes * strata.n_combinations
    plain = OVERALL_ERROR.terms(strata).linear[0][:n_strata].copy()
    if strata.defers:
        plain[:, -1] = 2.0 * np.abs(plain).max()
    return plain


# -- rules for two classes by a threshold on one score, one in all or one for each group, and scored rows --

# A threshold above all scores: the logarithm of the odds of a stratum of least probability is below 20.
BEYOND = 40.0
# The largest score: of rows in groups without a selection row of one class. It is below `BEYOND`.
LARGEST_LOG_RATIO = 39.0
# Least difference of two scores with a threshold between. Scores are logarithms of sums of float32 numbers.
COST_RESOLUTION = 1e-6


@dataclass(frozen=True, eq=False)
class ThresholdFamily:
    """Rules with the second label above a threshold on a score.

    The score of a row is ``log Σ p(s | x) G_s`` over the strata s of the second class, less the same over
    the scores of the first class. G_s > 0 is the gain of the right label. A candidate has such gains if each
    wrong label costs more than the right one. The threshold t multiplies the gains of the first class by
    exp(t).
    """

    gains: Floats  # shape (S,): G, positive
    y: Ints  # shape (S,): class number of each stratum
    place: Ints  # shape (S,): number of the threshold
    by_group: bool  # whether each read group has a separate threshold

    @classmethod
    def from_candidate(
        cls, candidate: Candidate, strata: Strata, places: Ints | None = None
    ) -> ThresholdFamily | None:
        """Return the family of a candidate.

        ``places`` has the number of the threshold of each combination of groups; None for one threshold.
        Return None without two classes, with deferral, or if a gain of a right label is not positive.
        """
        if strata.n_classes != 2 or strata.defers:
            return None
        gains = contrasts(candidate.action_costs)[:, 0] * np.where(strata.y == 0, 1.0, -1.0)
        if not (gains > 0).all():
            return None
        if places is None:
            return cls(gains, strata.y, np.zeros_like(strata.y), by_group=False)
        return cls(gains, strata.y, places[strata.combination], by_group=True)

    @classmethod
    def plain(cls, data: SelectionData, places: Ints | None = None) -> ThresholdFamily | None:
        """Return the family of the rule with the smallest overall error; None as in `from_candidate`."""
        return cls.from_candidate(Candidate.from_costs(plain_costs(data)), data.strata, places)

    @property
    def n_thresholds(self) -> int:
        """Number of thresholds."""
        return int(self.place.max()) + 1

    @property
    def key(self) -> tuple[bytes, ...]:
        """The family as bytes: equal families have equal scores and numbers of thresholds."""
        return self.gains.tobytes(), self.y.tobytes(), self.place.tobytes()

    def scores(self, probabilities: Singles) -> Floats:
        """Return the score of each row from its stratum probabilities (S, n), shape (n,)."""
        expected_gains = np.zeros((2, probabilities.shape[1]))  # of both labels in each row
        for stratum, k in enumerate(self.y.tolist()):
            expected_gains[k] += float(self.gains[stratum]) * probabilities[stratum]
        with np.errstate(divide="ignore"):
            logs = np.log(expected_gains)
        return np.clip(logs[1] - logs[0], -LARGEST_LOG_RATIO, LARGEST_LOG_RATIO)

    def candidate(self, thresholds: Floats) -> Candidate:
        """Return the rule with these thresholds, shape (m,): one for each read group, or one for all rows.

        A threshold of ±`BEYOND` gives all its rows the same label.
        """
        threshold = thresholds[self.place]  # of each stratum
        gains = self.gains.copy()
        scaled = (np.abs(threshold) < BEYOND) & (self.y == 0)
        gains[scaled] *= np.exp(threshold[scaled])
        right = self.y.copy()  # the label with a gain in each stratum
        right[threshold <= -BEYOND] = 1
        right[threshold >= BEYOND] = 0
        costs = np.zeros((len(gains), 2))
        costs[np.arange(len(gains)), 1 - right] = gains
        return Candidate.from_costs(costs)


def possible_thresholds(scores: Floats) -> tuple[Floats, Ints]:
    """Return thresholds for all different splits of scores, with the number of scores above each.

    They lie halfway between neighbouring scores, below the least score, and above the largest. Scores with a
    difference of at most `COST_RESOLUTION` have no threshold between them.

    Parameters
    ----------
    scores : ndarray of shape (n,)
        In any order.

    Returns
    -------
    thresholds : ndarray of shape (m,)
        Ascending, from −`BEYOND` to `BEYOND`.
    above : ndarray of int, shape (m,)
        From n to 0.
    """
    ascending = np.sort(scores, kind="stable")  # sorted ones take no time then
    differs = np.diff(ascending) > COST_RESOLUTION
    middles = ((ascending[1:] + ascending[:-1]) / 2)[differs]
    above = len(ascending) - 1 - np.flatnonzero(differs)
    return np.r_[-BEYOND, middles, BEYOND], np.r_[len(ascending), above, 0]


def sums_of_answers(scores: Floats, values: Floats, thresholds: Floats) -> Floats:
    """Return the sum over the rows of the value of each row's answer, at each threshold.

    Rows with scores at or below a threshold get the first answer, rows above the second.

    Parameters
    ----------
    scores : ndarray of shape (n,)
        In any order.
    values : ndarray of shape (n, 2)
        Value of the first and of the second answer in each row, such as its loss.
    thresholds : ndarray of shape (m,)
        In any order.

    Returns
    -------
    ndarray of shape (m,)
    """
    if len(thresholds) == 1:  # needs no order
        return np.where(scores > thresholds[0], values[:, 1], values[:, 0]).sum(keepdims=True)
    order = np.argsort(scores, kind="stable")
    n_at_or_below = np.searchsorted(scores[order], thresholds, side="right")
    return sums_below_and_above(values[order], n_at_or_below)


def sums_below_and_above(values: Floats, n_below: Ints) -> Floats:
    """Return sums over rows: the first value of rows below a threshold, the second value of other rows.

    ``values`` has the shape (n, 2), in ascending order of scores. ``n_below`` has the number of rows below
    each threshold, shape (m,).
    """
    cumulated = np.zeros((len(values) + 1, 2))
    np.cumsum(values, axis=0, out=cumulated[1:])
    cumulated_first, cumulated_second = cumulated.T
    return cumulated_first[n_below] + cumulated_second[-1] - cumulated_second[n_below]


@dataclass(frozen=True, eq=False)
class ScoredRows:
    """Rows with a score, the number of its threshold, and the loss of both answers."""

    scores: Floats  # shape (n,)
    place: Ints  # shape (n,): number of the row's threshold
    losses: Floats  # shape (n, 2): loss of the first and of the second answer
    _curves: dict[int, tuple[Floats, Floats]] = field(init=False, default_factory=dict)
    _joined: dict[ScoredRows, ScoredRows] = field(init=False, default_factory=dict)

    def joined(self, others: ScoredRows) -> ScoredRows:
        """Return these rows, then others; the same object for the same others, so curves are made once."""
        if others not in self._joined:
            both = (self, others)
            self._joined[others] = ScoredRows(
                np.concatenate([rows.scores for rows in both]),
                np.concatenate([rows.place for rows in both]),
                np.concatenate([rows.losses for rows in both]),
            )
        return self._joined[others]

    def loss_curve(self, place: int) -> tuple[Floats, Floats]:
        """Return the `possible_thresholds` of one place, and the summed loss of its rows at each.

        Both have the shape (m,). The rows are sorted once for all limits.
        """
        if place not in self._curves:
            rows = np.flatnonzero(self.part(place))
            rows = rows[np.argsort(self.scores[rows], kind="stable")]
            thresholds, n_above = possible_thresholds(self.scores[rows])
            losses = sums_below_and_above(self.losses[rows], len(rows) - n_above)
            self._curves[place] = thresholds, losses
        return self._curves[place]

    def part(self, place: int) -> Mask:
        """Return the rows of a threshold."""
        return self.place == place

    def loss(self, place: int, thresholds: Floats) -> Floats:
        """Return the summed loss of the rows of one threshold, at each of some thresholds, shape (m,)."""
        rows = self.part(place)
        return sums_of_answers(self.scores[rows], self.losses[rows], thresholds)
