"""The checked training set of a game, and the rows on which members are judged."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import _safe_indexing

from tailboost._checks import n_rows_of
from tailboost._rows import draw_lots, fingerprint, hash_rows
from tailboost._typing import Floats, Hashes, Ints, Mask

# Rows and values of a batch at prediction, to bound the memory of a converted table.
BATCH = 262_144
BATCH_VALUES = 2**30


@dataclass(frozen=True)
class Given:
    """Rows as a user gave them, of which those judged on may be a part.

    Parameters
    ----------
    n_rows : int
        How many were given.
    index : ndarray of int or None
        Numbers of those that are left; None for all.
    """

    n_rows: int
    index: Ints | None = None

    def part(self, chosen: Mask) -> Given:
        """Return what is left when some of the rows that are left are chosen."""
        if chosen.all():
            return self
        index = np.flatnonzero(chosen) if self.index is None else self.index[chosen]
        return replace(self, index=index)


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
        What rows these are, for people.
    lots : ndarray of shape (n,), uint16, optional
        What each row draws by its content, by which the rows are halved.
    given : Given, optional
        The rows of the user's that these are.
    fitted : bool
        Whether members were fitted on these very rows and their losses are not out of fold.
    """

    y: Ints
    weight: Floats
    groups: Ints | None
    words: str
    lots: NDArray[np.uint16] | None = None
    given: Given | None = None
    fitted: bool = False

    @property
    def base(self) -> Floats:
        """The normalised weights, shape (n,)."""
        p: Floats = self.weight / self.weight.sum()
        return p

    def part(self, chosen: Mask) -> Rows:
        """Return some of the rows, given by a mask."""
        return replace(
            self,
            y=self.y[chosen],
            weight=self.weight[chosen],
            groups=None if self.groups is None else self.groups[chosen],
            lots=None if self.lots is None else self.lots[chosen],
            given=None if self.given is None else self.given.part(chosen),
        )

    def halves(self) -> Mask | None:
        """Draw one half of every class and unit by content; None where a half has nothing to choose by."""
        if self.lots is None:
            return None
        units = np.zeros(len(self.y), dtype=np.intp) if self.groups is None else self.groups
        _, strata = np.unique((self.y.max() + 1) * units + self.y, return_inverse=True)
        half: Mask = draw_lots(self.lots.astype(np.uint64), strata, self.weight) % 2 == 0
        return half if half[units >= 0].any() and (~half)[units >= 0].any() else None


def lots(hashes: Hashes) -> NDArray[np.uint16]:
    """Return what rows draw by their content: little enough to be kept with a model."""
    return (hashes >> np.uint64(48)).astype(np.uint16)


@dataclass
class Problem:
    """A checked training set: rows of positive weight (``used`` of all), labels and groups as numbers."""

    X: Any
    y: Ints
    weight: Floats
    groups: Ints | None
    n_classes: int
    used: Ints
    n_given: int
    validation: tuple[Any, Rows] | None

    @cached_property
    def hashes(self) -> Hashes:
        """Hash of each row by content."""
        return hash_rows(self.X)

    def n_distinct(self, among: Mask | None = None) -> int:
        """Return how many different rows (of some), labels included, there are: a row said twice is one."""
        keys = self.hashes * np.uint64(self.n_classes) + self.y.astype(np.uint64)
        return len(np.unique(keys if among is None else keys[among]))

    @property
    def rows(self) -> Rows:
        """The training rows, as rows to be judged on."""
        given = Given(self.n_given, None if len(self.used) == self.n_given else self.used)
        words = f"the {len(self.y):,} training rows"
        return Rows(self.y, self.weight, self.groups, words, lots(self.hashes), given)

    def fingerprint(self, classes: NDArray[Any]) -> str:
        """Digest by which a fit that goes on recognises its data and labels."""
        tables = [(self.hashes, self.rows)]
        if self.validation is not None:
            X_val, judged = self.validation
            tables.append((hash_rows(X_val), judged))
        parts = [(hashes, rows.y, rows.weight, rows.groups) for hashes, rows in tables]
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
