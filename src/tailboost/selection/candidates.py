"""Candidates, which are decision rules by action costs, and pools of candidates with their counts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tailboost.core.array_types import Floats, Ints
from tailboost.rates.make import OVERALL_ERROR
from tailboost.selection.data import AnySelectionData, Singles

# Number of actions up to which a loop finds a row's cheapest action.
FEW_ACTIONS = 255


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
    # The same candidates on the rows on which their rates are estimated, if those are others.
    _measured: Pool | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {"data": self.data, "candidates": self.candidates, "counts": self.counts}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._numbers, self._measured = {}, None

    def copy(self) -> Pool:
        """Return a pool of the same candidates, to which others may be added."""
        measured = None if self._measured is None else self._measured.copy()
        return Pool(self.data, list(self.candidates), list(self.counts), dict(self._numbers), measured)

    def measured_on(self, data: AnySelectionData) -> Pool:
        """Return the same candidates with their counts for estimates, which are made once.

        These data have the same rows, so that the candidates have the same numbers.
        """
        if data is self.data:
            return self
        if self._measured is None:
            self._measured = Pool(data)
        self._measured.append(self.candidates[len(self._measured.candidates) :])
        return self._measured

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

    def append(self, candidates: Sequence[Candidate]) -> None:
        """Add candidates with a number each, whether or not actions on these rows are equal."""
        self.candidates.extend(candidates)
        self.counts.extend(counts for _, counts in self.data.examine(candidates))

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
    plain = OVERALL_ERROR.terms(strata).linear[0][: strata.n_classes * strata.n_combinations].copy()
    if strata.defers:
        plain[:, -1] = 2.0 * np.abs(plain).max()
    return plain
