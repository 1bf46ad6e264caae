"""Probe rows: a few artificial rows, for which a loaded model must predict the same."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from tailboost.core.array_types import Array, Table
from tailboost.rows.schema import dtype_kind

MOST_PROBES = 32
MOST_BYTES = 65_536
SAMPLE = 256  # rows of the sample from which columns are drawn


@dataclass
class ProbeFrame:
    """Rows of a data frame as plain values for a model file."""

    names: list[Any]  # names of the columns
    # For each column: name of the dtype, values (None if missing), and None or (categories, ordered).
    columns: list[tuple[str, list[Any], tuple[list[Any], bool] | None]]

    def frame(self) -> Any:
        """Return the rows as a data frame with the original dtypes."""
        import pandas as pd

        series = []
        for name, values, categories in self.columns:
            dtype = name
            if categories is not None:
                dtype = pd.CategoricalDtype(*categories)
            if name.startswith("float"):
                values = [np.nan if value is None else value for value in values]
            series.append(pd.Series(values, dtype=dtype))
        table = pd.concat(series, axis=1)
        table.columns = pd.Index(self.names)
        return table


@dataclass
class ProbeMatrix:
    """Rows of a csr matrix as plain arrays."""

    data: Array
    indices: NDArray[np.int64]
    indptr: NDArray[np.int64]
    n_columns: int

    def matrix(self) -> Any:
        """Return the rows as a csr matrix."""
        shape = (len(self.indptr) - 1, self.n_columns)
        return sp.csr_matrix((self.data, self.indices, self.indptr), shape=shape)


def probe_rows(X: Table, seed: int) -> Any:
    """Return a few artificial rows, similar to the rows of a table.

    Each column (each pixel of images) is drawn separately from a small sample of the rows. So the result
    contains single values of the table, but no row of it. The same table and seed give the same rows. The
    draws do not change random numbers of the fit.

    Returns
    -------
    ndarray, `ProbeMatrix`, `ProbeFrame` or None
        At most 32 rows and about 64 KiB, with the dtypes of the table. None if a row is larger, or the table
        has another type.

    >>> import numpy as np
    >>> rows = probe_rows(np.arange(12.0).reshape(4, 3), seed=0)
    >>> rows.shape, bool(np.isin(rows[:, 0], [0, 3, 6, 9]).all())
    ((32, 3), True)
    """
    if not hasattr(X, "shape") or len(X.shape) < 2 or not all(X.shape):
        return None
    rng = np.random.default_rng([seed, X.shape[0]])
    sample = rng.choice(X.shape[0], size=min(SAMPLE, X.shape[0]), replace=False)
    if hasattr(X, "iloc"):
        return _frame(X.iloc[sample], rng)
    if sp.issparse(X):
        return _matrix(sp.csr_matrix(X)[np.sort(sample[:MOST_PROBES])], rng)
    if isinstance(X, np.ndarray):
        return _array(X[sample], rng)
    return None


def _n_rows(bytes_per_row: int) -> int:
    """Return the number of probe rows of this size; 0 if one row is too large."""
    return min(MOST_PROBES, MOST_BYTES // max(bytes_per_row, 1))


def _array(rows: Array, rng: np.random.Generator) -> Array | None:
    """Return probe rows with each column (or pixel) of an array drawn separately.

    None for too large rows, or for values that cannot be stored in a file.
    """
    columns = rows.reshape(len(rows), -1)  # shape (sample, d), also of images
    n_columns = columns.shape[1]
    n = _n_rows(n_columns * columns.itemsize)
    if n == 0 or (rows.dtype == object and not _storable(columns.ravel().tolist())):
        return None
    drawn_rows = rng.integers(len(columns), size=(n, n_columns))
    drawn = columns[drawn_rows, np.arange(n_columns)]
    return drawn.reshape(n, *rows.shape[1:])


def _matrix(rows: Table, rng: np.random.Generator) -> ProbeMatrix | None:
    """Return the first rows of a csr matrix, as many as may be stored, with each column permuted.

    None for too large rows.
    """
    entries = rows.tocoo()  # row after row
    n_bytes = entries.data.nbytes + entries.col.nbytes
    if n_bytes > MOST_BYTES:
        first_beyond = len(entries.row) * MOST_BYTES // n_bytes
        n_rows = int(entries.row[first_beyond])
        if n_rows == 0:
            return None
        return _matrix(rows[:n_rows], rng)
    row_of_entry = entries.row
    if len(row_of_entry):
        _, column = np.unique(entries.col, return_inverse=True)  # only columns with entries
        unpermuted = np.tile(np.arange(rows.shape[0]), (column.max() + 1, 1))
        new_rows = rng.permuted(unpermuted, axis=1)  # shape (columns, rows)
        row_of_entry = new_rows[column, row_of_entry]
    permuted = sp.csr_matrix((entries.data, (row_of_entry, entries.col)), shape=rows.shape)
    return ProbeMatrix(
        permuted.data,
        permuted.indices.astype(np.int64),
        permuted.indptr.astype(np.int64),
        int(rows.shape[1]),
    )


def _frame(rows: Table, rng: np.random.Generator) -> ProbeFrame | None:
    """Return probe rows drawn from the columns of a data frame; None if a file cannot contain them."""
    n = _n_rows(int(rows.memory_usage(deep=True, index=False).sum()) // len(rows))
    if n == 0:
        return None
    columns = []
    for j in range(rows.shape[1]):
        drawn = rows.iloc[:, j].iloc[rng.integers(len(rows), size=n)]
        values = []
        for value, is_missing in zip(drawn, drawn.isna(), strict=True):
            if is_missing:
                value = None
            elif isinstance(value, np.generic):
                value = value.item()
            values.append(value)
        dtype = drawn.dtype
        categories = None
        values_to_store = values
        if dtype_kind(dtype) == "categories":
            categories = (list(dtype.categories), bool(dtype.ordered))
            values_to_store = values + categories[0]
        if not _storable(values_to_store):
            return None
        columns.append((str(dtype), values, categories))
    return ProbeFrame(list(rows.columns), columns)


def _storable(values: list[Any]) -> bool:
    """Return whether a model file can contain the values: no dates and other objects."""
    plain_types = (str, int, float, np.number, np.bool_)
    return all(value is None or isinstance(value, plain_types) for value in values)
