"""The selection data: strata, weights and stratum probabilities of the rows on which candidates are counted."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from tailboost._typing import Floats, Ints
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
            counts = np.bincount(place, self.share, size)
        counts = counts.reshape(n_strata, A)
        if self.costs is None:
            return counts
        met = np.bincount(place, self.share * self.costs[np.arange(len(actions)), actions], size)
        return np.concatenate([counts, met.reshape(n_strata, A)])
