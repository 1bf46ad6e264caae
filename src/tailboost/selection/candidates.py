"""Candidates, which are decision rules by action costs, and the selection data on which they are counted."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from hashlib import blake2b
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tailboost.core.array_types import Floats, Ints
from tailboost.rates import Strata
from tailboost.rates.make import OVERALL_ERROR

# Number of actions up to which a loop finds a row's cheapest action.
FEW_ACTIONS = 255

Singles = NDArray[np.float32]
"""Stratum probabilities p(s | x), shape (S, n): one row of numbers for each stratum."""


def spread(stratum: Ints, most: int) -> Ints:
    """Return the numbers of at most ``most`` rows, spread evenly over their strata.

    Half of the rows are shared equally among the strata, so that small strata keep all or most of their rows.
    """
    n, sizes = len(stratum), np.bincount(stratum)
    if n <= most:
        return np.arange(n)
    quota = np.minimum(sizes, max(most // (2 * len(sizes)), 1))
    rest = np.cumsum(sizes - quota)
    quota += np.diff(rest * max(most - int(quota.sum()), 0) // max(int(rest[-1]), 1), prepend=0)
    order, last = np.argsort(stratum, kind="stable"), np.cumsum(sizes)
    places = [
        np.linspace(end - size, end - 1, count).round().astype(np.intp)
        for end, size, count in zip(last, sizes, quota, strict=True)
    ]
    return np.sort(order[np.concatenate(places)])


def plain_state(instance: Any) -> dict[str, Any]:
    """Return the fields of a dataclass without its cached values."""
    return {field.name: getattr(instance, field.name) for field in fields(instance)}


@dataclass(frozen=True, eq=False)
class SelectionData:
    """The rows on which candidates are compared."""

    strata: Strata  # the strata, with the masses of these rows
    stratum: Ints  # shape (n,): the stratum of each row
    weights: Floats  # shape (n,), sum to 1
    probabilities: Any = None  # shape (S, n): p(s | x); None if candidates have no action costs
    costs: Floats | None = None  # shape (n, A): cost of each action in each row

    @cached_property
    def _cell(self) -> Ints:
        """Place of each row's stratum in flat counts."""
        cell: Ints = self.stratum * self.strata.n_actions
        return cell

    def __getstate__(self) -> dict[str, Any]:
        return plain_state(self)

    def __len__(self) -> int:
        return len(self.stratum)

    @property
    def in_memory(self) -> SelectionData:
        """The rows that are in memory: all."""
        return self

    def examine(self, candidates: Sequence[Any]) -> Iterator[tuple[bytes, Floats]]:
        """Yield a key of the actions of each candidate, and its confusion counts."""
        for candidate in candidates:
            actions = self.actions(candidate)
            yield self.key(actions), self.count(actions)

    def key(self, actions: Ints) -> bytes:
        """Return a key of the actions in all rows; candidates with equal actions have equal keys."""
        packed = np.packbits(actions) if self.strata.n_actions == 2 else actions.astype(np.uint16)
        return blake2b(packed.tobytes(), digest_size=16).digest()

    def actions(self, candidate: Any) -> Ints:
        """Return the action of a candidate in each row, shape (n,)."""
        return np.asarray(candidate.actions(self.probabilities))

    def thinned(self, most: int) -> SelectionData:
        """Return at most ``most`` of the rows, weighted such that each stratum keeps its mass."""
        if len(self) <= most:
            return self
        rows = spread(self.stratum, most)
        stratum, weights = self.stratum[rows], self.weights[rows]
        present = np.bincount(stratum, weights, len(self.strata.mass))
        factor = np.divide(self.strata.mass, present, out=np.zeros(len(present)), where=present > 0)
        return SelectionData(
            replace(self.strata, mass=np.where(present > 0, self.strata.mass, 0.0)),
            stratum,
            weights * factor[stratum],
            None if self.probabilities is None else np.ascontiguousarray(self.probabilities[:, rows]),
            None if self.costs is None else self.costs[rows],
        )

    def count(self, actions: Ints) -> Floats:
        """Return the confusion counts of actions, shape (W, A).

        W is S, the number of strata. If the rows have costs, W is 2 S: the second half sums the costs.
        """
        n_strata, A = len(self.strata.mass), self.strata.n_actions
        place = self._cell + actions
        counts = np.bincount(place, self.weights, n_strata * A).astype(np.float64).reshape(n_strata, A)
        if self.costs is None:
            return counts
        paid = np.bincount(place, self.weights * self.costs[np.arange(len(actions)), actions], n_strata * A)
        return np.concatenate([counts, paid.reshape(n_strata, A)])


@dataclass(frozen=True, eq=False)
class RemoteSelectionData:
    """Selection data on the workers of a cluster.

    Candidates are made on a sample in memory. Their confusion counts come from all rows.
    """

    strata: Strata  # the strata, with the masses of all rows
    in_memory: SelectionData  # the sample
    # Confusion counts of candidates on all rows, shape (T, S, A). Copies in other processes and files drop
    # this function, because the rows cannot be reached from there.
    count_all: Callable[[Sequence[Any]], Floats] | None = None
    costs: None = None

    def __getstate__(self) -> dict[str, Any]:
        return plain_state(self) | {"count_all": None}

    def examine(self, candidates: Sequence[Any]) -> Iterator[tuple[bytes, Floats]]:
        """Yield a key of each candidate, and its confusion counts; raise if the rows cannot be reached."""
        if candidates and self.count_all is None:
            raise ValueError(
                "the selection data lie on a cluster, and this copy of the classifier cannot reach them: "
                "give X, y in memory, or call from_probabilities on the cluster again"
            )
        for counts in self.count_all(candidates) if self.count_all and candidates else ():
            yield counts.tobytes(), counts


AnySelectionData = SelectionData | RemoteSelectionData
"""Selection data in memory or on a cluster."""


@dataclass(frozen=True, eq=False)
class Candidate:
    """The decision rule ``argmin_a Σ_s p(s | x) Q[s, a]``."""

    action_costs: Floats  # shape (S, A): Q; rows are centred, which changes no action

    @classmethod
    def of(cls, action_costs: Floats) -> Candidate:
        """Return the candidate of action costs, which are scaled, and centred such that most are 0."""
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
    """Return the costs that decide: for two actions their difference, shape (S, 1)."""
    return action_costs[:, 1:] - action_costs[:, :1] if action_costs.shape[1] == 2 else action_costs


def from_contrasts(costs: Floats) -> Floats:
    """Return the costs of all actions from those of `contrasts`."""
    return np.column_stack([np.zeros(len(costs)), costs[:, 0]]) if costs.shape[1] == 1 else costs


def expected_costs(probabilities: Singles, action_costs: Floats) -> Floats:
    """Return Σ_s p(s | x) Q[s, a] for each action, shape (A, n); for two actions their difference, (1, n).

    The sum runs stratum by stratum, so that the cost of a row does not depend on the other rows.
    """
    costs = contrasts(action_costs)
    total = np.zeros((costs.shape[1], probabilities.shape[1]))
    for s, a in zip(*np.nonzero(costs), strict=True):
        total[a] += costs[s, a] * probabilities[s]
    return total


def decide(costs: Floats) -> Ints:
    """Return the cheapest action of each row from its costs, shape (n,); the first of equal ones."""
    if len(costs) == 1:
        return (costs[0] < 0).astype(np.intp)
    if len(costs) > FEW_ACTIONS:
        return costs.argmin(axis=0).astype(np.intp)
    # Four times as fast as argmin over the first axis.
    cheapest, least = np.zeros(costs.shape[1], dtype=np.uint8), costs[0].copy()
    for action, cost in enumerate(costs[1:], 1):
        np.maximum(cheapest, (cost < least).view(np.uint8) * np.uint8(action), out=cheapest)
        np.minimum(cost, least, out=least)
    return cheapest.astype(np.intp)


@dataclass
class Pool:
    """Candidates with their confusion counts on the selection data; no two have equal actions."""

    data: AnySelectionData
    candidates: list[Any] = field(default_factory=list)
    counts: list[Floats] = field(default_factory=list)  # of each candidate, shape (W, A)
    _numbers: dict[bytes, int] = field(default_factory=dict)

    def __getstate__(self) -> dict[str, Any]:
        return {"data": self.data, "candidates": self.candidates, "counts": self.counts}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._numbers = {}

    def copy(self) -> Pool:
        """Return a pool of the same candidates, to which others may be added."""
        return Pool(self.data, list(self.candidates), list(self.counts), dict(self._numbers))

    def on(self, data: AnySelectionData, numbers: Sequence[int] | None = None) -> Pool:
        """Return a pool of some candidates, all by default, counted on other rows."""
        new = Pool(data)
        new.add_all(self.candidates if numbers is None else [self.candidates[i] for i in numbers])
        return new

    def extend(self, other: Pool) -> None:
        """Add the candidates of another pool on the same rows."""
        present = set(map(id, self.candidates))
        self.add_all([each for each in other.candidates if id(each) not in present])

    def add(self, candidate: Candidate) -> int:
        """Return the number of a candidate, or of an earlier one with the same actions."""
        return self.add_all([candidate])[0]

    def add_all(self, candidates: Sequence[Candidate]) -> list[int]:
        """Return the numbers of candidates, which are counted in one pass over the rows."""
        counted = self.data.examine(candidates)
        return [self._enter(each, *found) for each, found in zip(candidates, counted, strict=True)]

    def enter(self, candidate: Any, actions: Ints) -> int:
        """Return the number of a candidate with known actions, shape (n,); it needs no action costs."""
        data = self.data.in_memory
        return self._enter(candidate, data.key(actions), data.count(actions))

    def _enter(self, candidate: Any, key: bytes, counts: Floats) -> int:
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
        strata, plain, candidates = self.data.strata, plain_costs(self.data), []
        for a in range(strata.n_actions):
            # A rule that defers every row still has labels.
            costs = plain.copy() if a == strata.n_classes else np.zeros_like(plain)
            costs[:, a] = -2.0 * max(float(np.abs(plain).max()), 1.0)
            candidates.append(Candidate.of(costs))
        return self.add_all(candidates)


def plain_costs(data: AnySelectionData) -> Floats:
    """Return the action costs of the overall error, shape (S, A); deferral costs more than any error."""
    strata = data.strata
    plain = OVERALL_ERROR.terms(strata).linear[0][: len(strata.mass)].copy()
    if strata.defers:
        plain[:, -1] = 2.0 * np.abs(plain).max()
    return plain
