"""Counts of the combinations that occur among rows, such as of class and groups."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tailboost.core.array_types import Floats, Ints

# Combinations are numbered by a table up to this many possible ones, else by search.
LOOKED_UP = 2**22
# Rows that are counted at a time.
AT_ONCE = 2**18


@dataclass(frozen=True)
class Tally:
    """The combinations that occur among some rows."""

    keys: NDArray[np.int64]  # shape (m,): the combinations, sorted
    # rows, weight, squares: shape (m,): number of the rows of each, sum of their weights, and of the weights'
    # squares.
    rows: Floats
    weight: Floats
    squares: Floats

    @classmethod
    def of(cls, keys: NDArray[Any], weight: Floats, n_keys: int) -> Tally:
        """Count rows by their combinations, of which there may be ``n_keys``."""
        if n_keys <= LOOKED_UP:
            totals = np.zeros((3, n_keys))
            size = max(AT_ONCE, n_keys)
            for a in range(0, len(keys), size):
                own, w = keys[a : a + size], weight[a : a + size]
                for total, values in zip(totals, (None, w, w**2), strict=True):
                    total += np.bincount(own, weights=values, minlength=n_keys)
            found = np.flatnonzero(totals[0])
            return cls(found, *totals[:, found])
        found, place = np.unique(keys, return_inverse=True)
        sums = [np.bincount(place, weights=v) for v in (None, weight, weight**2)]
        return cls(found, *map(_floats, sums))

    @classmethod
    def merged(cls, tallies: list[Tally]) -> Tally:
        """Add the tallies of several workers."""
        keys, place = np.unique(np.concatenate([t.keys for t in tallies]), return_inverse=True)
        columns = ("rows", "weight", "squares")
        stacked = (np.concatenate([getattr(t, name) for t in tallies]) for name in columns)
        return cls(keys, *(_floats(np.bincount(place, weights=v, minlength=len(keys))) for v in stacked))


def _floats(values: NDArray[Any]) -> Floats:
    return values.astype(np.float64, copy=False)


def combined(codes: list[Ints], radices: list[int]) -> NDArray[np.int64]:
    """Return one number for several, such as class and groups, each below its radix."""
    number = np.zeros(len(codes[0]), dtype=np.int64)
    for code, radix in zip(codes, radices, strict=True):
        number = number * radix + code
    return number


def taken_apart(number: NDArray[np.int64], radices: list[int]) -> list[NDArray[np.int64]]:
    """Return the numbers that were `combined` into one."""
    codes = []
    for radix in reversed(radices):
        number, code = np.divmod(number, radix)
        codes.append(code)
    return codes[::-1]
