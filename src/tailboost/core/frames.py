"""Tables of any library, in memory or larger: read as rows and columns, or partition by partition.

`as_pandas` returns a table of another library as a data frame, and `as_frame` a dict of columns, too.
`as_table` returns rows with a shape, `unpack` also the labels of a torch Dataset, and `streamed` partitions
of a table larger than memory. Other tables are unchanged.
"""

import sys
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Any, Self

import numpy as np

from tailboost.core.array_types import Array, Column, Table
from tailboost.core.data_classes import frozen_object

# Values that are refused, told by a method of their type: what a message says of them.
_UNREAD = {
    "compute": "the rows are not in memory: pass its compute(), or see the page 'Large tables'",
    "collect": "the rows are not in memory: pass its collect()",
    "result": "the rows are not in memory: pass its result()",
    "to_table": "the rows are not in memory: pass its to_table(), or see the page 'Large tables'",
    "filled": "the mask is not read: pass astype(float).filled(numpy.nan) "
    "for missing numbers, or leave their rows out",
}


# -- in memory ---------------------------------------------------------------------------------------------


def refuse_unread(values: Any, name: str) -> None:
    """Raise TypeError for values whose rows are not in memory, and for masked arrays."""
    if isinstance(values, list) and values:  # one of partitions
        refuse_unread(values[0], name)
    for method, words in _UNREAD.items():
        if hasattr(type(values), method):
            raise TypeError(f"{name}: {words}")


def as_pandas(table: Table) -> Any:
    """Return a table of polars or pyarrow as a data frame of pandas, a sparse one as canonical csr or csc.

    Other tables are unchanged. A DOK matrix of SciPy is a dict, so ask for a dict of columns only after this
    function. SciPy and scikit-learn sum entries of the same place in place, so a
    matrix that needs it is copied.
    """
    refuse_unread(table, "the table")
    if hasattr(table, "to_pandas") and not hasattr(table, "iloc"):
        return table.to_pandas()
    if not hasattr(table, "tocsr") or table.ndim != 2:
        return table
    if table.format in ("csr", "csc") and table.has_canonical_format:
        return table
    matrix = table.tocsr(copy=True)
    matrix.sum_duplicates()
    return matrix


def one_row(X: Table, column: object) -> Any:
    """Return a row of a data frame, as X.iloc[0], as a dict if it has this column; others unchanged.

    Such a row is a Series, with the names of the columns as its index.
    """
    if (
        getattr(X, "ndim", 0) == 1
        and isinstance(column, str)
        and column in getattr(X, "index", ())
    ):
        return dict(X)
    return X


def columns_of(X: Table) -> list[Any]:
    """Return the names of the columns of a data frame or a dict, as of `as_pandas`; others have none."""
    return list(X if isinstance(X, Mapping) else getattr(X, "columns", ()))


def as_table(X: Table, names: Sequence[Any] | None = None) -> Any:
    """Return rows as an object with a shape; an object with one is returned unchanged.

    Parameters
    ----------
    X : table
        A dict of arrays becomes a table of their columns, in the order of their names.
    names : sequence, optional
        The order of the columns of a data frame with all of them.
    """
    X = as_pandas(X)
    if isinstance(X, Mapping):
        X = np.column_stack([X[name] for name in sorted(X, key=str)])
    if names and {*names} <= {*columns_of(X)}:
        return X.reindex(columns=list(names))  # by name: names True and False would be a mask
    if hasattr(X, "shape"):
        return X
    return np.asarray(X, object)  # NumPy would turn 1 beside "a" into "1"


def unpack(X: Table, y: Column = None) -> tuple[Any, Any]:
    """Return a table as `as_pandas`, and labels; a torch Dataset as arrays, with its labels if ``y`` is None.

    PyTorch is not imported here: a user with a Dataset has imported torch.
    """
    data = sys.modules.get("torch.utils.data")
    if data is None or not isinstance(X, data.Dataset):
        return as_pandas(X), y
    rows, labels = read_dataset(X)
    return rows, labels if y is None else y


def as_frame(X: Table) -> Any:
    """Return a table as `unpack`, and a dict of columns as a data frame of pandas."""
    X, _ = unpack(X)
    if isinstance(X, Mapping):
        from pandas import DataFrame  # arrays are rows without pandas, too

        X = DataFrame(X)
    return X


def read_dataset(dataset: Any) -> tuple[Array, Array | None]:
    """Return rows and labels of a dataset, read once from beginning to end.

    An item is a row, or a row and its label. Images are arrays or pictures of shape H×W or H×W×C, or tensors
    of shape C×H×W; the channels move last. Labels are None if items have none.
    """
    if not hasattr(dataset, "__len__") or not len(dataset):
        raise ValueError(f"the {type(dataset).__name__} has no length or no rows")
    items: Sequence[Any] = [dataset[i] for i in range(len(dataset))]
    labels = None
    if isinstance(items[0], (tuple, list)):
        items, *others = zip(*items, strict=True)
        if others:
            labels = np.array([np.asarray(label).item() for label in others[0]])
    rows = np.stack(items)
    if hasattr(items[0], "movedim") and rows.ndim > 3:  # tensors, C×H×W
        rows = np.moveaxis(rows, 1, -1)
    return rows, labels


def n_rows_of(X: Table) -> int:
    """Return the number of rows of a table, or of a dict of columns; a number or a text is one row.

    Raise ValueError if the columns of a dict have different lengths.
    """
    if getattr(X, "shape", ()):
        return X.shape[0]
    if isinstance(X, Mapping):
        n_rows = {name: n_rows_of(column) for name, column in X.items()}
        if len({*n_rows.values()}) > 1:
            raise ValueError(f"a table has columns of different lengths: {n_rows!s:.200}")
        return max(n_rows.values(), default=0)
    if not isinstance(X, str):
        with suppress(TypeError):  # a number has no length, nor has an array without dimensions
            return len(X)
    return len(np.atleast_1d(np.asarray(X)))


def take(X: Table, rows: Array) -> Any:
    """Return rows of a table or of a dict of columns, by numbers or a mask (n,); None for None.

    Numbers of rows of counted `Partitions` ascend.
    """
    if X is None:
        return None
    if isinstance(X, Partitions):
        return replace(X, used=X.used[rows])
    if hasattr(X, "tocsr"):
        X = X.tocsr()  # some formats have no row indexing
    if isinstance(X, Mapping):
        return {name: take(column, rows) for name, column in X.items()}
    from sklearn.utils import _safe_indexing  # a rule of a file answers without it

    if rows.dtype == bool:  # some tables take no mask
        rows = np.flatnonzero(rows)
    return _safe_indexing(X, rows)


# -- larger than memory ------------------------------------------------------------------------------------


@frozen_object
class Partitions:
    """Rows of a table larger than memory: a pass over them has one partition at a time in memory.

    A table is counted by its first pass (`counted`). Only then rows can be left out (`take`), and each
    later pass must give as many rows.

    Attributes
    ----------
    parts : sequence of callable
        Functions that compute the data frame or array of a partition.
    read : callable
        What is done with each partition, see `then`.
    used : ndarray of int, shape (n,)
        The numbers in the table, ascending, of the rows that passes give. Before the count all are given.
    n_given, n_columns : int
        The rows of the table, with those that are left out, and its columns; 0 before the count.
    distinct : dict or None
        The values of each column of a counted data frame, once for each partition; no values of a column of
        numbers.
    index_frame : data frame or None
        A data frame without columns, with the index of a counted table; None if it does not name each row.
    """

    parts: Sequence[Callable[[], Any]]
    read: Callable[[Any], Any] = lambda part: part
    used: Any = ()
    n_given: int = 0
    n_columns: int = 0
    distinct: Any = None
    index_frame: Any = None

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
                start = end
                end += len(part)
            except Exception as error:  # any library, and any worker, may fail
                raise RuntimeError(
                    f"partition {number} of X cannot be read: {error!r}"
                ) from error
            if self.n_given:
                inside = slice(*np.searchsorted(self.used, [start, end]))
                part = take(part, self.used[inside] - start)
            if len(part):
                yield self.read(part)
        if self.n_given and end != self.n_given:
            raise RuntimeError(
                f"X had {self.n_given:,} rows in the first pass, and now {end:,}"
            )
        if not end:
            raise ValueError("X has no rows")

    @property
    def shape(self) -> tuple[int, int]:
        """Number of rows and columns of counted partitions."""
        return len(self.used), self.n_columns

    def then(self, read: Callable[[Any], Any]) -> Self:
        """Return the partitions, read by this function after the one before."""
        return replace(self, read=lambda part: read(self.read(part)))

    def counted(self) -> Self:
        """Return the partitions with number, index and distinct values of their rows, after a pass."""
        from pandas import concat

        n_rows = n_columns = 0
        parts_of = defaultdict(list)
        indexes = []
        for part in self:
            n_rows += len(part)
            n_columns = part.shape[1]
            if not hasattr(part, "iloc"):  # an array
                continue
            indexes.append(part.iloc[:, :0])
            for name, column in part.items():
                if column.dtype.kind in "biuf":
                    column = column[:0]
                parts_of[name].append(column.drop_duplicates())
        index_frame = None
        if indexes:
            index_frame = concat(indexes)
            if not index_frame.index.is_unique:  # each partition may count from 0
                index_frame = None
        return replace(
            self,
            used=np.arange(n_rows),
            n_given=n_rows,
            n_columns=n_columns,
            distinct={name: concat(columns) for name, columns in parts_of.items()},
            index_frame=index_frame,
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
