"""Checked rows: labels, weights and groups as numbers, and what is known of their origin."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from tailboost.core.array_types import Column, Floats, Hashes, Ints, Mask

# Number of tiny row hashes (uint16).
N_TINY_HASHES = 2**16


# Effective sizes are rounded to this number of decimals, so rounding errors of the row order vanish.
SIZE_DECIMALS = 6


def memberships(groups: Ints) -> tuple[Ints, Ints]:
    """Return the row and the subgroup of each membership, ordered by row.

    Groups of shape (n,) hold one subgroup number per row, groups of shape (n, c) up to c. The number −1 means
    no subgroup.
    """
    flat = groups.ravel()
    if groups.ndim == 1:
        row = np.arange(len(flat))
    else:
        row = np.repeat(np.arange(len(groups)), groups.shape[1])
    inside = flat >= 0
    if inside.all():
        return (row, flat)
    return (row[inside], flat[inside])


def numbered_strata(y: Ints, groups: Ints | None) -> Ints:
    """Return the number of each row's combination of class and subgroups, ordered by subgroup and class."""
    if groups is None:
        return y
    if groups.ndim == 1:
        return np.unique((y.max() + 1) * groups + y, return_inverse=True)[1]
    return np.unique(np.column_stack([groups, y]), axis=0, return_inverse=True)[1].ravel()


@dataclass(frozen=True)
class RowOrigin:
    """Origin of rows: the rows that the user passed, and the part of them that is used."""

    n_rows: int  # number of rows that the user passed
    index: Ints | None = None  # numbers of the used rows; None for all

    def part(self, chosen: Mask) -> RowOrigin:
        """Return the subset."""
        if chosen.all():
            return self
        if self.index is None:
            index = np.flatnonzero(chosen)
        else:
            index = self.index[chosen]
        return replace(self, index=index)


@dataclass(frozen=True)
class Rows:
    """Rows with labels, weights and subgroups, on which candidates are compared."""

    y: Ints  # shape (n,): class numbers
    weight: Floats  # shape (n,): sample weights, positive
    # Shape (n,) or (n, c): number of the subgroup of each row, −1 for none. A table of c group columns has
    # one number per column, and its subgroups overlap. None without subgroups.
    groups: Ints | None
    words: str  # description for messages
    # Shape (n,): short hash of the content, equal for equal rows.
    row_hashes: NDArray[np.uint16] | None = None
    origin: RowOrigin | None = None
    fitted: bool = (
        False  # whether base models were fitted on these rows, so losses are not out of fold
    )
    fold: NDArray[np.uint8] | None = (
        None  # shape (n,): fold of each row if losses are out of fold
    )
    # Shape (n,): sum of the squared weights of the rows that each row aggregates; None if it is a single row.
    squares: Floats | None = None
    refit: bool = (
        False  # whether models are fitted again after their losses were measured on these rows
    )

    @property
    def used(self) -> Ints | None:
        """Numbers of the rows among those that the user passed; None for all."""
        if self.origin is None:
            return None
        return self.origin.index

    @property
    def base(self) -> Floats:
        """Normalised weights, shape (n,)."""
        p: Floats = self.weight / self.weight.sum()
        return p

    def part(self, chosen: Mask) -> Rows:
        """Return the rows of a mask."""
        return replace(
            self,
            y=self.y[chosen],
            weight=self.weight[chosen],
            groups=None if self.groups is None else self.groups[chosen],
            row_hashes=None if self.row_hashes is None else self.row_hashes[chosen],
            origin=None if self.origin is None else self.origin.part(chosen),
            fold=None if self.fold is None else self.fold[chosen],
            squares=None if self.squares is None else self.squares[chosen],
        )

    def wrong(self, answers: Column) -> Mask:
        """Return whether each prediction is wrong, for class numbers of shape (n,) or one class number."""
        differs: Mask = answers != self.y
        return differs

    def sizes(self, index: Ints, n_subgroups: int) -> Floats:
        """Return Kish's effective size (Σw)²/Σw² of each subgroup, shape (m,); 0 without rows.

        Equal rows count as one row. ``index``: subgroup of each row, shape (n,) or (n, c), −1 for none.
        """
        row, subgroup = memberships(index)
        weight: Floats = self.weight[row]
        if (
            self.row_hashes is not None
        ):  # equal short hashes in a small subgroup: almost surely equal rows
            pairs = subgroup * N_TINY_HASHES + self.row_hashes[row]
            if n_subgroups * N_TINY_HASHES <= len(pairs):  # counting is faster than sorting
                sums: Floats = np.bincount(pairs, weights=weight).astype(np.float64)
                pairs = np.flatnonzero(sums).astype(np.intp)
                weight = sums[pairs]
            else:
                pairs, same = np.unique(pairs, return_inverse=True)
                weight = np.asarray(np.bincount(same, weights=weight), dtype=np.float64)
            subgroup = pairs // N_TINY_HASHES
        if self.squares is None:
            squared = weight**2
        else:
            squared = self.squares[row]
        total = np.bincount(subgroup, weights=weight, minlength=n_subgroups)
        squares = np.bincount(subgroup, weights=squared, minlength=n_subgroups)
        return (total**2 / np.where(squares > 0, squares, 1.0)).round(SIZE_DECIMALS)


@dataclass(frozen=True)
class UnlabeledRows:
    """Rows without labels, each of weight 1."""

    groups: Ints | None  # as in `Rows`
    hashes: Hashes  # shape (n,): hash of the content

    def __len__(self) -> int:
        return len(self.hashes)
