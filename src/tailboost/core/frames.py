"""Tables of any library, in memory or larger: read as rows and columns, or partition by partition."""

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from importlib import import_module
from typing import Any, Self

import numpy as np

from tailboost.core.array_types import Array, Column, Table
from tailboost.core.frozen import frozen_object

# Values that are refused, told by a method that only their type has: what a message says of them.
UNREAD = {
    "compute": "a collection of Dask, whose rows are not in memory: pass its compute(), or see the "
    "page 'Large tables' of the documentation",
    "collect": "a LazyFrame of polars, whose rows are not in memory: pass its collect()",
    "result": "a future, whose rows are not in memory: pass its result()",
    "to_table": "a data set of pyarrow, whose rows are not in memory: pass its to_table(), or see "
    "the page 'Large tables' of the documentation",
    "filled": "a masked array, whose mask is not read: pass astype(float).filled(numpy.nan) for missing "
    "numbers, or leave their rows out",
}


# -- in memory ---------------------------------------------------------------------------------------------


def refuse_unread(values: Any, name: str) -> None:
    """Raise TypeError for values whose rows are not in memory, and for masked arrays."""
    if isinstance(values, list) and values:  # one of partitions
        refuse_unread(values[0], name)
    for method, words in UNREAD.items():
        if hasattr(type(values), method):
            raise TypeError(f"{name} is {words}")


def as_pandas(table: Table) -> Any:
    """Return a table of polars or pyarrow as a data frame of pandas, a sparse one as canonical csr or csc.

    Other tables are unchanged. One kind of SciPy's sparse matrices derives from dict: a dict is a table by
    column only after this function. SciPy and scikit-learn sum entries of the same place in place, so a
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
    if names is not None and hasattr(X, "columns") and set(names) <= set(X.columns):
        return X[list(names)]
    if hasattr(X, "shape"):
        return X
    if isinstance(X, Mapping):
        return np.column_stack([np.asarray(X[name]) for name in sorted(X, key=str)])
    return np.asarray(X)


def unpack(X: Table, y: Column = None) -> tuple[Any, Any]:
    """Return a table as `as_pandas`, and labels; a torch Dataset as arrays, with its labels if ``y`` is None.

    PyTorch is not imported here: a user with a Dataset has imported torch.
    """
    data = sys.modules.get("torch.utils.data")
    if data is None or not isinstance(X, data.Dataset):
        return as_pandas(X), y
    rows, labels = read_dataset(X)
    return rows, labels if y is None else y


def read_dataset(dataset: Any) -> tuple[Array, Array | None]:
    """Return rows and labels of a dataset, read once from beginning to end.

    An item is a row, or a row and its label. Images are arrays or pictures of shape H×W or H×W×C, or tensors
    of shape C×H×W; the channels move last. Labels are None if items have none.
    """
    if not hasattr(dataset, "__len__") or not len(dataset):
        raise ValueError(f"the {type(dataset).__name__} has no length or no rows")
    items: Sequence[Any] = [dataset[i] for i in range(len(dataset))]
    labels: Sequence[Any] = ()
    if isinstance(items[0], (tuple, list)):
        items, *others = zip(*items, strict=True)
        if others:
            labels = [np.asarray(label).item() for label in others[0]]
    rows = np.stack([*map(np.asarray, items)])
    if hasattr(items[0], "movedim") and rows.ndim > 3:  # tensors, C×H×W
        rows = np.moveaxis(rows, 1, -1)
    return rows, np.array(labels) if labels else None


def n_rows_of(X: Table) -> int:
    """Return the number of rows of a table, or of a dict of columns."""
    if hasattr(X, "shape"):
        return int(X.shape[0])
    if isinstance(X, Mapping):
        X = next(iter(X.values()), ())
    return len(X if hasattr(X, "__len__") else np.atleast_1d(np.asarray(X)))


def take(X: Table, rows: Array) -> Any:
    """Return rows of a table or of a dict of columns, by numbers or a mask (n,); None for None."""
    from sklearn.utils import _safe_indexing  # a rule of a file answers without it

    if X is None:
        return None
    if hasattr(X, "tocsr"):
        X = X.tocsr()  # some formats have no row indexing
    if isinstance(X, Mapping):
        return {name: take(column, rows) for name, column in X.items()}
    if rows.dtype == bool:  # some tables take no mask
        rows = np.flatnonzero(rows)
    return _safe_indexing(X, rows)


def check_table(frame: Table) -> None:
    """Raise ValueError unless a data frame is a table with rows, columns, and different names of these."""
    if frame.ndim != 2:
        raise ValueError(
            f"X is a Series of {len(frame)} values, where a table is needed: for one row of a "
            "data frame give X.iloc[[i]], for one column X[[name]]"
        )
    repeated = frame.columns[frame.columns.duplicated()].tolist()
    if repeated:
        raise ValueError(
            f"X has more than one column called {repeated[0]!r}; names must differ"
        )
    if not frame.size:
        raise ValueError(f"X has no rows or no columns: its shape is {frame.shape}")


# -- rows of several tables --------------------------------------------------------------------------------


def check_length(values: Column, name: str, n: int, of: str = "X") -> None:
    """Raise unless there is one entry for each of the n rows of ``of``."""
    if n_rows_of(values) != n:
        raise ValueError(f"{name} has {n_rows_of(values):,} rows, {of} has {n:,}")


def check_answers(answers: Array, X: Table, name: str) -> None:
    """Raise unless a model has given one answer for each row of a table."""
    n = n_rows_of(answers)
    if n != n_rows_of(X):
        cure = ""
        titles = columns_of(X)
        if n == len(titles):  # as a vectoriser iterates over a data frame
            cure = f": a model of texts reads the column itself, X[{titles[0]!r}]"
        raise ValueError(f"{name} has {n:,} rows, the table has {n_rows_of(X):,}{cure}")


def check_indexes(**of_rows: Any) -> None:
    """Raise if pandas objects about the same rows have different indexes: rows are matched by position.

    Raise also if rows are not in memory.

    Arguments without an index, and of another length, are left to other checks. Entries of a dict are
    compared one by one; the first index is the reference of the others.

    Examples
    --------
    >>> import pandas as pd
    >>> from tailboost.core.frames import check_indexes
    >>> X, y = pd.DataFrame({"age": [30, 40]}, index=[7, 3]), pd.Series([0, 1], index=[3, 7])
    >>> check_indexes(X=X, y=y)
    Traceback (most recent call last):
    ...
    ValueError: y and X have different pandas indexes. Give y.loc[X.index] to match the rows, or \
y.to_numpy() if they are in the same order
    """
    first = ""
    reference: Any = None
    for argument, values in of_rows.items():
        columns = {argument: values}
        if isinstance(values, Mapping):
            columns = {f"{argument}[{key!r}]": column for key, column in values.items()}
        for name, column in columns.items():
            refuse_unread(column, name)
            if not hasattr(column, "iloc"):
                continue
            if reference is None:
                first, reference = name, column.index
            if len(column) == len(reference) and not column.index.equals(reference):
                raise ValueError(
                    f"{name} and {first} have different pandas indexes. Give {name}.loc[{first}.index] to "
                    f"match the rows, or {name}.to_numpy() if they are in the same order"
                )


# -- larger than memory ------------------------------------------------------------------------------------


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
        A data frame without columns, with the index of a counted table; None if it does not name each row.
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

    def then(self, read: Callable[[Any], Any]) -> Self:
        """Return the partitions, read by this function after the one before."""
        return replace(self, read=lambda part: read(self.read(part)))

    def counted(self) -> Self:
        """Return the partitions with number, index and distinct values of their rows, after a pass."""
        n_rows = 0
        parts_of: dict[Any, list[Any]] = {}
        indexes = []
        for part in self:
            n_rows += len(part)
            if not hasattr(part, "iloc"):  # an array
                continue
            indexes.append(part.iloc[:, :0])
            for name, column in part.items():
                few = column[:0] if column.dtype.kind in "biuf" else column.drop_duplicates()
                parts_of.setdefault(name, []).append(few)
        concat = import_module("pandas").concat
        distinct = {name: concat(columns) for name, columns in parts_of.items()}
        index = concat(indexes) if indexes else None
        if index is not None and not index.index.is_unique:  # each partition may count from 0
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
