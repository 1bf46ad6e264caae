"""The subgroups of a family of rates: their names and strata, and what a rate reads in each of them.

``by=`` states the subgroups, for example "class" or the name of a column of groups. A rate is a ratio: over
strata, of sums of confusion counts, which are weights of rows by stratum and answer (`Terms`); over rows, of
sums of their values and their weights (`Sample`).
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import product
from typing import Any, Self

import numpy as np

from tailboost.core import Floats, Ints, Mask, Name, Names, frozen_object, shown
from tailboost.rates.strata import TINY, Strata

# Values of `by` other than names of columns of `groups`.
EVERYTHING = None
CLASS = "class"
GROUP = "group"
CELL = "cell"


def subgroups_of(strata: Strata, by: Any) -> dict[Name, Mask]:
    """Return the mask of the strata of each of the m subgroups of ``by``, shape (S,), by name.

    Of several columns, the name of a group has the column and the value: two columns may have the same
    values. The subgroups of a tuple are the combinations with rows or known to exist, and their names are
    tuples of a value, or of a class, for each name in ``by``. Raise ValueError if there are no such groups.
    """
    classes = {label: strata.y == k for k, label in enumerate(strata.classes)}
    columns = {}
    for j, title in enumerate(strata.columns):
        number = strata.place(j)  # of the group of each stratum
        columns[title] = {group: number == k for k, group in enumerate(strata.values[j])}
    if by in (GROUP, CELL):
        if not columns:
            raise ValueError(f"by={by!r} needs groups; pass groups=")
        groups: dict[Name, Mask] = {
            (title, group): mask for title in columns for group, mask in columns[title].items()
        }
        if len(columns) == 1:
            (groups,) = columns.values()
        if by == GROUP:
            return groups
        return {(label, group): mask for (group, label), mask in _crossed([groups, classes])}

    # None is everything, also beside a column without a name, whose title is None.
    members: dict[Name, dict[Name, Mask]] = {
        **columns,
        CLASS: classes,
        EVERYTHING: {EVERYTHING: strata.y >= 0},
    }
    names = by if isinstance(by, tuple) else (by,)
    for name in names:
        if name not in members:
            raise ValueError(
                f"by={name!r}: groups= has no column of this name; there are "
                f"{shown(strata.columns)}. Name it there, also in the call that selects the rule"
            )
    if not isinstance(by, tuple):
        return members[by]
    known = set()
    titles = (*strata.columns, CLASS, EVERYTHING)
    for values, label in product(strata.known, strata.classes):
        value_of = dict(zip(titles, (*values, label, EVERYTHING), strict=True))
        known.add(tuple(map(value_of.get, by)))
    return {
        values: mask
        for values, mask in _crossed([members[name] for name in by])
        if mask @ strata.mass > 0.0 or values in known
    }


def _crossed(families: list[dict[Name, Mask]]) -> Iterator[tuple[Names, Mask]]:
    """Yield the combinations of a subgroup of each family: their names, and the mask of their strata."""
    for subgroups in product(*map(dict.items, families)):
        names, masks = zip(*subgroups, strict=True)
        yield names, np.logical_and.reduce(masks)


def groups_in(subgroup: Any, by: Name, titles: Sequence[Name]) -> list[tuple[Name, Name]]:
    """Return the pairs (column, group) in the name of a subgroup.

    ``titles`` are the columns of groups. Of a single column, the name of a group has no column.
    """
    if by == CELL:
        _, subgroup = subgroup
    if by in (GROUP, CELL):
        if isinstance(subgroup, tuple):
            return [subgroup]
        title = next(iter(titles), None)  # a certificate may be made without columns
        return [(title, subgroup)]
    if not isinstance(by, tuple):
        by = (by,)
        subgroup = (subgroup,)
    return [
        pair for pair in zip(by, subgroup, strict=True) if pair[0] not in (CLASS, EVERYTHING)
    ]


@frozen_object
class Terms:
    """Rates over confusion counts N: ⟨top, N⟩ / ⟨bottom, N⟩ for each of m subgroups."""

    names: list[Name]  # of the subgroups
    top: Floats  # shape (m, W, A); W is S, or 2 S if the counts also contain costs
    bottom: Floats  # shape (m, W, A)
    mass: Floats  # shape (m,): weight of the rows that some answer brings into the denominator
    low: float  # the smallest and the largest possible value of a row
    high: float
    scale: float  # of the values: 1 for fractions, for costs the largest absolute one

    def values(self, counts: Floats) -> Floats:
        """Return the rates of confusion counts (…, W, A), NaN if the denominator is 0, shape (…, m)."""
        over = ([-2, -1], [1, 2])
        counted = np.tensordot(counts, self.top, over)
        among = np.tensordot(counts, self.bottom, over)
        return counted / np.where(among > 0, among, np.nan)

    def rows(self, strata: Strata, counts: Floats) -> Floats:
        """Return the effective rows behind each rate of confusion counts, shape (m,).

        They are (Σ w)² / Σ w² of weights in the denominator, if the rows of a stratum weigh the same.
        """
        n_strata = len(strata.mass)
        weight = (counts[:n_strata] * self.bottom[:, :n_strata]).sum(axis=2)  # (m, S)
        of_one_row = strata.mass / np.maximum(strata.size, TINY)
        return weight.sum(axis=1) ** 2 / np.maximum(weight @ of_one_row, TINY)

    def beyond(self, level: float | Floats) -> Floats:
        """Return matrices C with ⟨C, N⟩ ≤ 0 exactly if the rate of a subgroup is at most its level.

        They are scaled by the mass of the subgroup, so a rate that is no ratio is ⟨C, N⟩ for the level 0.
        ``level`` is a number, or has the shape (m,); the result has (m, W, A).
        """
        scale = np.where(self.mass > 0, self.mass, 1.0)[:, None, None]
        return (self.top - np.reshape(level, (-1, 1, 1)) * self.bottom) / scale


@frozen_object
class Sample:
    """The rows behind the rate of a subgroup, without their weights: sum of ``values`` over ``among``.

    Parameters
    ----------
    name : object
        Name of the subgroup.
    rows : ndarray of int
        Row numbers.
    values : ndarray
        Value of each of these rows.
    low, high : float
        Bounds of the values for all possible answers.
    among : ndarray
        What each of these rows adds to the denominator: 1, but less in an F score. Of a representation they
        are the rows of all subgroups.
    """

    name: Name
    rows: Ints
    values: Floats
    low: float
    high: float
    among: Floats

    @property
    def mean(self) -> float:
        """The rate of one row or more, which count alike whatever their weights."""
        return float(self.values.sum() / self.among.sum())

    @property
    def mirrored(self) -> Self:
        """The sample of the complement, whose rate is ``low + high`` minus the rate."""
        return replace(self, values=(self.low + self.high) * self.among - self.values)

    def scaled(self, t: float = 0.0) -> Floats:
        """Return numbers in [0, 1] with a mean of t or more exactly if the rate is t or more.

        They are the values, scaled to [0, 1] as t is. Of a ratio of sums they are top + t (1 − bottom): their
        mean is t or more exactly if top/bottom is.
        """
        values = (self.values - self.low) / (self.high - self.low)
        return np.clip(values + t * (1.0 - self.among), 0.0, 1.0)  # rounding may exceed [0, 1]

    def taken(self, some: Ints | Mask | list[int]) -> Self:
        """Return some of the rows, by positions in ``rows`` or a mask."""
        return replace(
            self, rows=self.rows[some], values=self.values[some], among=self.among[some]
        )
