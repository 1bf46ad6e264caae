"""The checked training set of a game, and the rows on which members are judged."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import _safe_indexing

from tailboost._checks import n_rows_of
from tailboost._rows import fingerprint, hash_rows
from tailboost._typing import Floats, Ints

# Rows and values of a batch at prediction, to bound the memory of a converted table.
BATCH = 262_144
BATCH_VALUES = 2**30


@dataclass(frozen=True)
class Rows:
    """The rows on which members are judged.

    Parameters
    ----------
    y : ndarray of shape (n,)
        Class numbers.
    weight : ndarray of shape (n,)
        Sample weights, positive.
    groups : ndarray of shape (n,) or None
        Number of the unit (group, class or cell) of each row, −1 for none; ``None`` without units.
    words : str
        A description of the rows, for messages.
    """

    y: Ints
    weight: Floats
    groups: Ints | None
    words: str

    @property
    def base(self) -> Floats:
        """The normalised weights, shape (n,)."""
        p: Floats = self.weight / self.weight.sum()
        return p


@dataclass
class Problem:
    """A checked training set: rows of positive weight (``used`` of all), labels and groups as numbers."""

    X: Any
    y: Ints
    weight: Floats
    groups: Ints | None
    n_classes: int
    used: Ints
    validation: tuple[Any, Rows] | None

    @property
    def rows(self) -> Rows:
        """The training rows, as rows to be judged on."""
        return Rows(self.y, self.weight, self.groups, f"the {len(self.y):,} training rows")

    def fingerprint(self, classes: NDArray[Any]) -> str:
        """Digest of data and labels: a fit is continued only if it is the same."""
        tables = [(self.X, self.rows)] + ([] if self.validation is None else [self.validation])
        parts = [(hash_rows(X), rows.y, rows.weight, rows.groups) for X, rows in tables]
        labels = np.frombuffer(repr(classes.tolist()).encode(), dtype=np.uint8)
        return fingerprint(labels, *(part for table in parts for part in table if part is not None))


def take(X: Any, rows: NDArray[Any]) -> Any:
    """Return some rows of a table, given by numbers or by a mask."""
    return _safe_indexing(X, np.flatnonzero(rows) if rows.dtype == np.bool_ else rows)


def batches(X: Any) -> list[Ints]:
    """Return the row numbers of a table in batches."""
    n, row = n_rows_of(X), int(np.prod(getattr(X, "shape", ())[1:]))
    size = max(1, min(BATCH, BATCH_VALUES // max(row, 1)))
    return [np.arange(a, min(a + size, n)) for a in range(0, n, size)]
