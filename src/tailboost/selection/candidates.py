"""Candidates: decision rules by action costs, and the pool of candidates with their confusion counts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tailboost.core.array_types import Floats, Ints
from tailboost.rates import error
from tailboost.selection.counts import SelectionData, Singles

# Actions up to which a row's cheapest is found one after the other.
FEW_ACTIONS = 255


@dataclass(frozen=True, eq=False)
class Candidate:
    """The decision rule ``argmin_a Σ_s p(s | x) Q[s, a]``."""

    source: int  # the number of the stratum probabilities p(s | x) that it reads
    # Shape (S, A): Q, the cost of an action in a stratum. Each row is centred, which changes no answer.
    prices: Floats

    @classmethod
    def of(cls, source: int, prices: Floats) -> Candidate:
        """Return the candidate of some action costs, scaled and centred such that most of them are 0."""
        usual = np.sort(prices, axis=1)[:, prices.shape[1] // 2]
        centred = prices - usual[:, None]
        return cls(source, centred / max(float(np.abs(centred).max()), 1e-300))

    @property
    def is_constant(self) -> bool:
        """Whether every row has the same answer, so that no probability is needed."""
        return bool((self.prices == self.prices[0]).all())

    def answers(self, belief: Singles) -> Ints:
        """Return the action of each row, shape (n,); ties go to the first action."""
        return decide(charges(belief, self.prices))


def contrasts(prices: Floats) -> Floats:
    """Return the costs that decide: for two actions the difference alone, shape (S, 1)."""
    return prices[:, 1:] - prices[:, :1] if prices.shape[1] == 2 else prices


def whole(prices: Floats) -> Floats:
    """Return the costs of all actions from those that decide."""
    return np.column_stack([np.zeros(len(prices)), prices[:, 0]]) if prices.shape[1] == 1 else prices


def charges(belief: Singles, prices: Floats) -> Floats:
    """Return Σ_s p(s | x) Q[s, a] for each action, shape (A, n); for two actions their difference, (1, n).

    Rows are summed stratum by stratum, so that the cost of a row does not depend on the rows beside it.
    """
    wanted = contrasts(prices)
    found = np.zeros((wanted.shape[1], belief.shape[1]))
    for s, a in zip(*np.nonzero(wanted), strict=True):
        found[a] += wanted[s, a] * belief[s]
    return found


def decide(charged: Floats) -> Ints:
    """Return the cheapest action of each row from its costs, shape (n,); ties go to the first action."""
    if len(charged) == 1:
        return (charged[0] < 0).astype(np.intp)
    if len(charged) > FEW_ACTIONS:
        return charged.argmin(axis=0).astype(np.intp)
    # Four times as fast as argmin over the first axis.
    cheapest, least = np.zeros(charged.shape[1], dtype=np.uint8), charged[0].copy()
    for action, own in enumerate(charged[1:], 1):
        np.maximum(cheapest, (own < least).view(np.uint8) * np.uint8(action), out=cheapest)
        np.minimum(own, least, out=least)
    return cheapest.astype(np.intp)


@dataclass
class Pool:
    """Candidates with their confusion counts on the selection data; no two answer alike."""

    table: SelectionData
    # members, counts: the candidates, and the weight of each stratum that gets each action, shape (W, A).
    members: list[Any] = field(default_factory=list)
    counts: list[Floats] = field(default_factory=list)
    _number: dict[bytes, int] = field(default_factory=dict)

    def __getstate__(self) -> dict[str, Any]:
        return {"table": self.table, "members": self.members, "counts": self.counts}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._number = {}

    def copy(self) -> Pool:
        """Return a pool of the same candidates, to which others may be added."""
        return Pool(self.table, list(self.members), list(self.counts), dict(self._number))

    def on(self, table: SelectionData, numbers: Sequence[int] | None = None) -> Pool:
        """Return a pool of some candidates, all by default, counted on other rows."""
        new = Pool(table)
        new.add_all(self.members if numbers is None else [self.members[i] for i in numbers])
        return new

    def extend(self, other: Pool) -> None:
        """Add the candidates of another pool on the same rows."""
        known = set(map(id, self.members))
        self.add_all([member for member in other.members if id(member) not in known])

    def add(self, member: Candidate) -> int:
        """Return the number of a candidate that answers as this one does, which is new or known."""
        return self.add_all([member])[0]

    def add_all(self, members: Sequence[Candidate]) -> list[int]:
        """Return the numbers of candidates, which are counted in one pass over the rows."""
        seen = self.table.examined(members)
        return [self._take(member, *each) for member, each in zip(members, seen, strict=True)]

    def enter(self, candidate: Any, actions: Ints) -> int:
        """Return the number of a candidate whose answers to the rows are known, shape (n,).

        It need not have action costs: nothing but its answers is asked.
        """
        table = self.table.at_hand
        return self._take(candidate, table.key(actions), table.counted(actions))

    def _take(self, candidate: Any, key: bytes, counts: Floats) -> int:
        number = self._number.setdefault(key, len(self.members))
        if number == len(self.members):
            self.members.append(candidate)
            self.counts.append(counts)
        return number

    @property
    def tallies(self) -> Floats:
        """Confusion counts of all candidates, shape (T, W, A)."""
        return np.array(self.counts)

    def constants(self) -> list[int]:
        """Add a candidate for each action that gives it to every row; return their numbers."""
        strata = self.table.strata
        plain = plain_costs(self.table)
        found = []
        for a in range(strata.n_actions):
            prices = np.zeros((len(strata.mass), strata.n_actions))
            if a == strata.n_classes:  # a rule that defers every row still has labels
                prices = plain.copy()
            prices[:, a] = -2.0 * max(float(np.abs(plain).max()), 1.0)
            found.append(self.add(Candidate.of(0, prices)))
        return found


def plain_costs(table: SelectionData) -> Floats:
    """Return the action costs of the overall error, shape (S, A); deferral costs more than any error."""
    strata = table.strata
    plain = error().terms(strata).linear[0][: len(strata.mass)].copy()
    if strata.defers:
        plain[:, -1] = 2.0 * np.abs(plain).max()
    return plain
