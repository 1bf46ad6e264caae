"""Checked rows: labels, weights and groups as numbers, and what is known of their origin."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from tailboost.core.array_types import Column, Floats, Ints, Mask

# Number of tiny row hashes (uint16).
N_TINY_HASHES = 2**16
# Effective sizes are rounded to this number of decimals, so rounding errors of the row order vanish.
SIZE_DECIMALS = 6


def memberships(groups: Ints) -> tuple[Ints, Ints]:
    """Return the row and the subgroup of each membership, ordered by row.

    Groups of shape (n,) hold one subgroup number per row, groups of shape (n, c) up to c. The number −1 means
    no subgroup.
    """
    subgroup = groups.ravel()
    row = np.arange(len(groups))
    if groups.ndim > 1:
        row = np.repeat(row, groups.shape[1])
    is_member = subgroup >= 0
    if is_member.all():
        return row, subgroup
    return row[is_member], subgroup[is_member]


def numbered_strata(y: Ints, groups: Ints | None) -> Ints:
    """Return the number of each row's combination of class and subgroups, ordered by subgroup and class."""
    if groups is None:
        return y
    if groups.ndim == 1:
        _, stratum = np.unique((y.max() + 1) * groups + y, return_inverse=True)
        return stratum
    _, stratum = np.unique(np.column_stack([groups, y]), axis=0, return_inverse=True)
    return stratum.ravel()  # some versions of NumPy return (n, 1)


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
    n_given: int | None = None  # number of rows that the user passed; None if it is not known
    # Numbers of the rows among those that the user passed; None for all.
    used: Ints | None = None
    # Whether base models were fitted on these rows, so losses are not out of fold.
    fitted: bool = False
    # Shape (n,): fold of each row if losses are out of fold.
    fold: NDArray[np.uint8] | None = None
    # Shape (n,): sum of the squared weights of the rows that each row aggregates; None if it is a single row.
    squares: Floats | None = None
    # Whether models are fitted again after their losses were measured on these rows.
    refit: bool = False

    def __len__(self) -> int:
        return len(self.weight)

    @property
    def base(self) -> Floats:
        """Normalised weights, shape (n,)."""
        p: Floats = self.weight / self.weight.sum()
        return p

    def part(self, mask: Mask) -> Rows:
        """Return the rows of a mask."""
        arrays = {}
        for name in ("y", "weight", "groups", "row_hashes", "used", "fold", "squares"):
            values = getattr(self, name)
            if values is not None:
                arrays[name] = values[mask]
        if self.used is None and not mask.all():  # None stood for all rows
            arrays["used"] = np.flatnonzero(mask)
        return replace(self, **arrays)

    def wrong(self, answers: Column) -> Mask:
        """Return whether each prediction is wrong, for class numbers of shape (n,) or one class number."""
        differs: Mask = answers != self.y
        return differs

    def sizes(self, index: Ints, n_subgroups: int) -> Floats:
        """Return Kish's effective size (Σw)²/Σw² of each subgroup, shape (m,); 0 without rows.

        Equal rows count as one row. ``index`` has the subgroup of each row, −1 for none, in the shape (n,),
        or (n, c) for several columns of groups.
        """
        row, subgroup = memberships(index)
        weight: Floats = self.weight[row]
        if self.row_hashes is not None:
            # Equal short hashes in a small subgroup: almost surely equal rows.
            content = subgroup * N_TINY_HASHES + self.row_hashes[row]
            if n_subgroups * N_TINY_HASHES <= len(content):  # counting is faster than sorting
                weight_of_content = np.bincount(content, weights=weight).astype(np.float64)
                contents = np.flatnonzero(weight_of_content).astype(np.intp)
                weight = weight_of_content[contents]
            else:
                contents, place = np.unique(content, return_inverse=True)
                weight = np.asarray(np.bincount(place, weights=weight), dtype=np.float64)
            subgroup = contents // N_TINY_HASHES
        squares = weight**2
        if self.squares is not None:  # rows that aggregate others have no hashes
            squares = self.squares[row]
        sums = np.bincount(subgroup, weights=weight, minlength=n_subgroups)
        sums_of_squares = np.bincount(subgroup, weights=squares, minlength=n_subgroups)
        divisors = np.where(sums_of_squares > 0, sums_of_squares, 1.0)  # 0 without rows
        return (sums**2 / divisors).round(SIZE_DECIMALS)
