"""Probe rows: a few artificial rows, for which a loaded model must predict the same."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from tailboost.core.array_types import Table
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
        for dtype, values, categories in self.columns:
            kind: Any = dtype if categories is None else pd.CategoricalDtype(*categories)
            if dtype.startswith("float"):
                values = [np.nan if v is None else v for v in values]
            series.append(pd.Series(values, dtype=kind))
        table = pd.concat(series, axis=1)
        table.columns = pd.Index(self.names)
        return table


@dataclass
class ProbeMatrix:
    """Rows of a csr matrix as plain arrays."""

    data: NDArray[Any]
    indices: NDArray[np.int64]
    indptr: NDArray[np.int64]
    n_columns: int

    def matrix(self) -> Any:
        """Return the rows as a csr matrix."""
        shape = (len(self.indptr) - 1, self.n_columns)
        return sp.csr_matrix((self.data, self.indices, self.indptr), shape=shape)


def probe_rows(X: Table, seed: int) -> Any:
    """Return a few artificial rows that resemble the rows of a table.

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
    return min(MOST_PROBES, MOST_BYTES // max(bytes_per_row, 1))


def _array(rows: NDArray[Any], rng: np.random.Generator) -> NDArray[Any] | None:
    flat = rows.reshape(len(rows), -1)
    if rows.dtype == object and not _storable(flat.ravel().tolist()):
        return None
    n = _n_rows(flat.shape[1] * flat.itemsize)
    drawn = flat[rng.integers(len(flat), size=(n, flat.shape[1])), np.arange(flat.shape[1])]
    if n:
        return drawn.reshape(n, *rows.shape[1:])
    return None


def _matrix(rows: Table, rng: np.random.Generator) -> ProbeMatrix | None:
    entries = rows.tocoo()
    if entries.data.nbytes + entries.col.nbytes > MOST_BYTES:
        last = len(entries.row) * MOST_BYTES // (entries.data.nbytes + entries.col.nbytes)
        if entries.row[last]:
            return _matrix(rows[: int(entries.row[last])], rng)
        return None
    # Permute each column with entries separately.
    _, column = np.unique(entries.col, return_inverse=True)
    places = np.tile(np.arange(rows.shape[0]), (column.max(initial=-1) + 1, 1))
    if len(column):
        moved = rng.permuted(places, axis=1)[column, entries.row]
    else:
        moved = entries.row
    mixed = sp.csr_matrix((entries.data, (moved, entries.col)), shape=rows.shape)
    return ProbeMatrix(
        mixed.data,
        mixed.indices.astype(np.int64),
        mixed.indptr.astype(np.int64),
        int(rows.shape[1]),
    )


def _frame(rows: Table, rng: np.random.Generator) -> ProbeFrame | None:
    n = _n_rows(int(rows.memory_usage(deep=True, index=False).sum()) // len(rows))
    if not n:
        return None
    columns = []
    for j in range(rows.shape[1]):
        drawn = rows.iloc[:, j].iloc[rng.integers(len(rows), size=n)]
        values = [
            None if missing else value.item() if isinstance(value, np.generic) else value
            for value, missing in zip(drawn, drawn.isna(), strict=True)
        ]
        kind = drawn.dtype
        if dtype_kind(kind) == "categories":
            categories = (list(kind.categories), bool(kind.ordered))
        else:
            categories = None
        if not _storable([*values, *(categories or ([],))[0]]):
            return None
        columns.append((str(kind), values, categories))
    return ProbeFrame(list(rows.columns), columns)


def _storable(values: list[Any]) -> bool:
    """Return whether a model file can contain the values: no dates and other objects."""
    return all(
        v is None or isinstance(v, (str, int, float, np.number, np.bool_)) for v in values
    )
