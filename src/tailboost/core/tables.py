"""Tables of any library: polars and pyarrow, sparse matrices, datasets of PyTorch; their rows and batches."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from typing import Any, TypeGuard

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.utils import _safe_indexing

from tailboost.core.array_types import Column, Ints, Table

# Maximum number of rows and of values in a batch of a prediction, which limits memory and tells progress.
BATCH = 65_536
BATCH_VALUES = 2**30


def refuse_query(table: Table) -> None:
    """Raise TypeError for a query of polars that has not run.

    Polars is not imported: a user with a query has imported it.
    """
    polars = sys.modules.get("polars")
    if polars is not None and isinstance(table, polars.LazyFrame):
        raise TypeError("a LazyFrame of polars is a query without rows: pass its collect()")


def as_pandas(table: Table) -> Any:
    """Return a table of polars or pyarrow as a data frame of pandas; other tables unchanged.

    Raises
    ------
    TypeError
        If the table is a query of polars that has not run.
    """
    refuse_query(table)
    return table.to_pandas() if hasattr(table, "to_pandas") and not hasattr(table, "iloc") else table


def has_named_columns(X: Table) -> TypeGuard[Mapping[str, Any]]:
    """Return whether a table is a dict of columns; SciPy's DOK arrays derive from dict, but are tables."""
    return isinstance(X, Mapping) and not sp.issparse(X)


def summed(X: Table) -> Any:
    """Return a sparse matrix in canonical form as csr or csc; other tables unchanged.

    An entry stored more than once means the sum. SciPy and scikit-learn sort and sum such entries in place,
    and conversions to csr share the arrays of the original. Other matrices are therefore copied, so that the
    caller's matrix never changes.
    """
    if not sp.issparse(X) or X.ndim != 2:
        return X
    matrix = X if X.format in ("csr", "csc") else X.tocsr()
    if matrix.has_canonical_format:
        return matrix
    matrix = matrix.copy()
    matrix.sum_duplicates()
    return matrix


def unpack(X: Table, y: Column = None) -> tuple[Any, Any]:
    """Return a torch Dataset as arrays, with its labels if ``y`` is None; return other tables unchanged.

    PyTorch is not imported: a user with a Dataset has imported it.
    """
    data = sys.modules.get("torch.utils.data")
    if data is None or not isinstance(X, data.Dataset):
        return X, y
    X, labels = read_dataset(X)
    return X, labels if y is None else y


def n_rows_of(X: Table) -> int:
    """Return the number of rows of a table, or of a dict of columns."""
    if has_named_columns(X):
        X = next(iter(X.values()), ())
    refuse_query(X)
    return int(X.shape[0]) if hasattr(X, "shape") else len(X)


def take(X: Table, rows: NDArray[Any]) -> Any:
    """Return rows of a table or of a dict of columns, by numbers or a mask; None for None."""
    if X is None:
        return None
    if has_named_columns(X):
        return {name: np.asarray(column)[rows] for name, column in X.items()}
    if sp.issparse(X):
        X = X.tocsr()  # other formats cannot be indexed
    return _safe_indexing(X, np.flatnonzero(rows) if rows.dtype == np.bool_ else rows)


def batches(X: Table) -> list[Ints]:
    """Return the row numbers of a table in batches."""
    n, row = n_rows_of(X), int(np.prod(getattr(X, "shape", ())[1:]))
    size = max(1, min(BATCH, BATCH_VALUES // max(row, 1)))
    return [np.arange(a, min(a + size, n)) for a in range(0, max(n, 1), size)]


def batched(X: Table) -> Iterator[tuple[Ints, Any]]:
    """Yield a table in batches, each with its row numbers; a table of one batch is not copied."""
    parts = batches(X)
    for part in parts:
        yield part, X if len(parts) == 1 else take(X, part)


def read_dataset(dataset: Any) -> tuple[NDArray[Any], NDArray[Any] | None]:
    """Return rows and labels of a dataset, read once from beginning to end.

    An item is a row, or a row and its label. Images are arrays or pictures of shape H×W or H×W×C, or tensors
    of shape C×H×W, whose channels move last. Random transforms are applied once; pass them to the learner as
    ``augment`` instead.

    Parameters
    ----------
    dataset : torch.utils.data.Dataset
        A dataset with a length.

    Returns
    -------
    X : ndarray of shape (n, d), (n, H, W) or (n, H, W, C)
    y : ndarray of shape (n,) or None
        None if items have no label.

    Raises
    ------
    ValueError
        If the dataset is empty, has no length, or its rows differ in shape.
    """
    if not hasattr(dataset, "__len__"):
        raise ValueError(f"{type(dataset).__name__} has no length; an indexable dataset is needed")
    n = len(dataset)
    if n == 0:
        raise ValueError(f"the {type(dataset).__name__} is empty: it needs at least one row")
    X: NDArray[Any] | None = None
    labels = []
    for i in range(n):
        item = dataset[i]
        if isinstance(item, (tuple, list)):
            item, *label = item
            labels += [np.asarray(k).item() for k in label[:1]]
        row = _array(item)
        if X is None:
            X = np.empty((n, *row.shape), dtype=row.dtype)
        if row.shape != X.shape[1:]:
            raise ValueError(f"row {i} of the dataset has shape {row.shape}, row 0 has {X.shape[1:]}")
        X[i] = row
    assert X is not None
    return X, np.array(labels) if labels else None


def _array(item: Any) -> NDArray[Any]:
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(item, torch.Tensor):
        item = item.detach().cpu()
        return np.asarray(item.movedim(0, -1) if item.ndim > 2 else item)
    return np.asarray(item)
