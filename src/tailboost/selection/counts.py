"""The selection data: strata, weights and stratum probabilities of the rows candidates are counted on."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from hashlib import blake2b
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from tailboost.core.array_types import Floats, Ints
from tailboost.rates import Strata

Singles = NDArray[np.float32]
"""Probabilities p(s | x), shape (S, n): a row of numbers for each stratum."""


class Answering(Protocol):
    """A candidate that answers by stratum probabilities."""

    @property
    def source(self) -> int:
        """The number of the stratum probabilities that it reads."""

    def answers(self, belief: Singles) -> Ints:
        """Return the action of each row, shape (n,)."""


class SelectionData(Protocol):
    """The rows on which candidates are compared, in memory or elsewhere."""

    @property
    def strata(self) -> Strata:
        """The strata, with the masses of these rows."""

    @property
    def costs(self) -> Floats | None:
        """Costs of each action in each row, if they are known."""

    @property
    def at_hand(self) -> Table:
        """The rows that are in memory: all, or some that stand for all."""

    def examined(self, candidates: Sequence[Answering]) -> Iterable[tuple[bytes, Floats]]:
        """Yield a key of the answers of each candidate, and its confusion counts."""


def spread(stratum: Ints, most: int) -> Ints:
    """Return the numbers of at most so many rows, spread evenly over their strata.

    Half of them are as many of each stratum, or all it has: rates of few rows bear no fewer.
    """
    n, sizes = len(stratum), np.bincount(stratum)
    if n <= most:
        return np.arange(n)
    kept = np.minimum(sizes, max(most // (2 * len(sizes)), 1))
    others = np.cumsum(sizes - kept)
    kept += np.diff(others * max(most - int(kept.sum()), 0) // max(int(others[-1]), 1), prepend=0)
    order, last = np.argsort(stratum, kind="stable"), np.cumsum(sizes)
    of = [
        np.linspace(end - size, end - 1, own).round().astype(np.intp)
        for end, size, own in zip(last, sizes, kept, strict=True)
    ]
    return np.sort(order[np.concatenate(of)])


def plain_state(thing: Any) -> dict[str, Any]:
    """Return the fields of a dataclass, without cached values."""
    return {field.name: getattr(thing, field.name) for field in fields(thing)}


@dataclass(frozen=True, eq=False)
class Table:
    """The selection data: the rows on which candidates are compared."""

    strata: Strata  # the strata, with the masses of these rows
    stratum: Ints  # shape (n,): that of each row
    share: Floats  # shape (n,): weights, which sum to 1
    # Shape (S, n) each: p(s | x) of each source; none where candidates have no action costs.
    beliefs: tuple[Singles, ...] = ()
    costs: Floats | None = None  # shape (n, A): what each action costs in each row

    @cached_property
    def _cell(self) -> Ints:
        """Place of each row's stratum in flat counts."""
        cell: Ints = self.stratum * self.strata.n_actions
        return cell

    @cached_property
    def _even(self) -> bool:
        return bool(np.ptp(self.share) == 0)

    def __getstate__(self) -> dict[str, Any]:
        return plain_state(self)

    def __len__(self) -> int:
        return len(self.stratum)

    @property
    def at_hand(self) -> Table:
        """The rows that are in memory: all."""
        return self

    def examined(self, candidates: Sequence[Answering]) -> Iterator[tuple[bytes, Floats]]:
        """Yield a key of the answers of each candidate, and its confusion counts."""
        for candidate in candidates:
            actions = self.answers(candidate)
            yield self.key(actions), self.counted(actions)

    def key(self, actions: Ints) -> bytes:
        """Return a key of the answers to all rows: candidates that answer alike have one."""
        few = self.strata.n_actions == 2
        packed = np.packbits(actions) if few else actions.astype(np.uint16)
        return blake2b(packed.tobytes(), digest_size=16).digest()

    def answers(self, candidate: Answering) -> Ints:
        """Return the actions of a candidate, shape (n,)."""
        return candidate.answers(self.beliefs[candidate.source])

    def thinned(self, most: int) -> Table:
        """Return at most so many of the rows, which stand for all of their stratum."""
        if len(self) <= most:
            return self
        rows = spread(self.stratum, most)
        stratum, share = self.stratum[rows], self.share[rows]
        there = np.bincount(stratum, share, len(self.strata.mass))
        stands_for = np.divide(self.strata.mass, there, out=np.zeros(len(there)), where=there > 0)
        return Table(
            replace(self.strata, mass=np.where(there > 0, self.strata.mass, 0.0)),
            stratum,
            share * stands_for[stratum],
            tuple(np.ascontiguousarray(belief[:, rows]) for belief in self.beliefs),
            None if self.costs is None else self.costs[rows],
        )

    def counted(self, actions: Ints) -> Floats:
        """Return the confusion counts of actions, shape (W, A): W is S, or 2 S with costs of rows."""
        n_strata, A = len(self.strata.mass), self.strata.n_actions
        size, place = n_strata * A, self._cell + actions
        if self._even:
            counts: Floats = np.bincount(place, minlength=size) * self.share[0]
        else:
            counts = np.bincount(place, self.share, size).astype(np.float64, copy=False)
        counts = counts.reshape(n_strata, A)
        if self.costs is None:
            return counts
        met = np.bincount(place, self.share * self.costs[np.arange(len(actions)), actions], size)
        return np.concatenate([counts, met.reshape(n_strata, A)])


@dataclass(frozen=True, eq=False)
class RemoteTable:
    """Selection data that lie elsewhere: confusion counts come from all rows, candidates from a sample."""

    strata: Strata  # the strata, with the masses of all rows
    at_hand: Table  # the sample
    # Confusion counts of candidates on all rows, shape (T, S, A). It stays behind if the table is copied to
    # another process or saved: the rows are not there.
    count: Callable[[Sequence[Answering]], Floats] | None = None
    costs: None = None

    def __getstate__(self) -> dict[str, Any]:
        return plain_state(self) | {"count": None}

    def examined(self, candidates: Sequence[Answering]) -> Iterator[tuple[bytes, Floats]]:
        """Yield a key of the answers of each candidate, and its confusion counts.

        Candidates with the same confusion counts are one.

        Raises
        ------
        ValueError
            If the rows cannot be reached any more.
        """
        if not candidates:
            return
        if self.count is None:
            raise ValueError(
                "the selection data lie on a cluster, and this copy of the classifier cannot reach them: "
                "give X, y in memory, or call from_probabilities on the cluster again"
            )
        for counts in self.count(candidates):
            yield counts.tobytes(), counts
