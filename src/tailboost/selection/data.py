"""The selection data: strata of rows, and the rows on which candidates are counted."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from hashlib import blake2b
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tailboost.boosting.training_set import GroupNames, Rows
from tailboost.core.array_types import Floats, Ints
from tailboost.rates import Strata
from tailboost.selection.problem import Problem

Singles = NDArray[np.float32]
"""Stratum probabilities p(s | x), shape (S, n): one row of numbers for each stratum."""


def strata_of(
    problem: Problem,
    rows: Rows,
    classes: Any,
    names: GroupNames | None,
    costs: Floats | None = None,
    *,
    group_aware: bool = False,
) -> tuple[Strata, Ints, Ints | None]:
    """Return the strata of rows for a problem, the stratum of each row, and the groups by column.

    Groups make strata if a rate is about them, or if rules read them.

    Raises
    ------
    ValueError
        If groups or costs are missing, or a rate names an unknown label, group or column.
    """
    numbers, columns, values = None, (), ()  # type: Any, Any, Any
    if problem.needs_groups or group_aware:
        if rows.groups is None or names is None:
            raise ValueError("groups are needed, and none were given")
        first = np.cumsum([0, *(len(of_column) for of_column in names.values)])
        titles = names.titles
        used = problem.columns(titles) if names.columns else [0]
        if not used:  # a rate names an unknown column; its terms raise the error
            used = list(range(len(titles)))
        numbers = (rows.groups if rows.groups.ndim == 2 else rows.groups[:, None]) - first[:-1]
        numbers, columns = numbers[:, used], tuple(titles[j] for j in used)
        values = tuple(names.values[j] for j in used)
    if problem.needs_costs and costs is None:
        raise ValueError(
            "cost() without a matrix is a mean of costs of the rows: give costs= to fit, and costs_val= "
            "with X_val"
        )
    strata, stratum = Strata.of(
        rows.y,
        numbers,
        rows.weight,
        classes,
        columns,
        values,
        defers=problem.defers,
        costs=costs if problem.needs_costs else None,
    )
    return strata, stratum, numbers


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

    @property
    def has_probabilities(self) -> bool:
        """Whether candidates can be made for these rows, from stratum probabilities."""
        return self.probabilities is not None

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
