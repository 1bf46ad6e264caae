"""Tables larger than memory, read partition by partition."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from importlib import import_module
from typing import Any

import numpy as np

from tailboost.core.array_types import Array, Column, Table
from tailboost.core.checks import as_pandas, take, unpack
from tailboost.core.frozen import frozen_object


@frozen_object
class Partitions:
    """Rows of a table larger than memory: a pass over them has one partition at a time in memory.

    Attributes
    ----------
    parts : sequence of callable
        Functions that compute the data frame or array of a partition.
    read : callable
        What is done with it.
    used : ndarray of int, shape (n,)
        The rows by their numbers in the table, ascending, once it is counted; before, all rows are read.
    n_rows, n_columns : int
        Size of the counted table, before 0.
    distinct : dict
        The different values of each column of a counted data frame, of columns of numbers none.
    index : data frame or None
        Without columns: the index of a counted data frame, if it names each row.
    """

    parts: Sequence[Callable[[], Any]]
    read: Callable[[Any], Any] = as_pandas
    used: Any = ()
    n_rows: int = 0
    n_columns: int = 0
    distinct: Any = None
    index: Any = None

    def __iter__(self) -> Iterator[Any]:
        """Yield the partitions with rows, after ``read``.

        Raises
        ------
        RuntimeError
            If a partition cannot be computed, or the number of rows changes between two passes.
        ValueError
            If there is no row.
        """
        end = 0
        for number, compute in enumerate(self.parts):
            try:
                part = as_pandas(compute())
                start, end = end, end + len(part)
            except Exception as error:  # any library, and any worker, may fail
                raise RuntimeError(
                    f"partition {number} of X cannot be read: {error!r}"
                ) from error
            if self.n_rows:
                inside = slice(*np.searchsorted(self.used, [start, end]))
                part = take(part, self.used[inside] - start)
            if len(part):
                yield self.read(part)
        if end != (self.n_rows or end):
            raise RuntimeError(f"X had {self.n_rows:,} rows in the first pass, and now {end:,}")
        if not end:
            raise ValueError("X has no rows")

    @property
    def shape(self) -> tuple[int, int]:
        """Number of rows and columns of counted partitions."""
        return len(self.used), self.n_columns

    def then(self, read: Callable[[Any], Any]) -> Partitions:
        """Return the partitions, read by this function after the one before."""
        return replace(self, read=lambda part: read(self.read(part)))

    def counted(self) -> Partitions:
        """Return the partitions with number, index and distinct values of their rows, after a pass."""
        n_rows = 0
        found: dict[Any, list[Any]] = {}
        indexes = []
        for part in self:
            n_rows += len(part)
            if not hasattr(part, "iloc"):  # an array
                continue
            indexes.append(part.iloc[:, :0])
            for name, column in part.items():
                few = column[:0] if column.dtype.kind in "biuf" else column.drop_duplicates()
                found.setdefault(name, []).append(few)
        joined = import_module("pandas").concat
        distinct = {name: joined(columns) for name, columns in found.items()}
        index = joined(indexes) if indexes else None
        if index is not None and not index.index.is_unique:  # each partition begins anew
            index = None
        return replace(
            self,
            used=np.arange(n_rows),
            n_rows=n_rows,
            n_columns=part.shape[1],
            distinct=distinct,
            index=index,
        )


def streamed(X: Table, y: Column = None) -> tuple[Any, Any]:
    """Return a table as `Partitions` if it is one of Dask or a data set of pyarrow, else as `unpack`.

    The partitions of a data set are its files.
    """
    if hasattr(type(X), "get_fragments"):
        return Partitions(
            [partial(file.to_table, schema=X.schema) for file in X.get_fragments()]
        ), y
    if hasattr(type(X), "npartitions") and getattr(X, "ndim", 0) == 2:
        if hasattr(X, "rechunk"):  # an array may have blocks of columns
            X = X.rechunk({1: -1})
        return Partitions([block.compute for block in np.ravel(X.to_delayed())]), y
    return unpack(X, y)


def part_of(X: Table, rows: Array) -> Any:
    """Return rows of a table, by ascending numbers or a mask."""
    if isinstance(X, Partitions):
        return replace(X, used=X.used[rows])
    return take(X, rows)
