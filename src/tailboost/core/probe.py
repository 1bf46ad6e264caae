"""Probe rows: a loaded model must answer them as it did when it was saved."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from tailboost.core.checks import n_rows_of
from tailboost.core.pipelines import label_shares, last_step
from tailboost.core.subgroups import answers_by_group

MOST_ROWS = 32
MOST_BYTES = 65_536
SAMPLE = 256  # rows whose values the columns are drawn from
SAME_SHARE = 1e-6


@dataclass
class ProbeFrame:
    """Rows of a data frame as parts that a model file can hold."""

    names: list[Any]  # the columns' names
    # Of each column: its dtype as pandas writes it, its values (missing ones are None), and for categories
    # all of them and whether they are ordered, else None.
    columns: list[tuple[str, list[Any], tuple[list[Any], bool] | None]]

    def frame(self) -> Any:
        """Return the rows as a data frame with the columns' own dtypes."""
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
    """Rows of a sparse matrix as plain arrays, in the layout of compressed rows."""

    data: NDArray[Any]
    indices: NDArray[np.int64]
    indptr: NDArray[np.int64]
    n_columns: int

    def matrix(self) -> Any:
        """Return the rows as a matrix of compressed rows."""
        shape = (len(self.indptr) - 1, self.n_columns)
        return sp.csr_matrix((self.data, self.indices, self.indptr), shape=shape)


def probe_rows(X: Any, seed: int) -> Any:
    """Make up a few rows like those of a table of n ≥ 1 rows, to ask a model about later.

    No row is one of the table's: every column (of images every pixel) is drawn by itself from the values that
    a small sample of the rows has there, so single values are kept but not their combinations. The same table
    and seed give the same rows; draws come from a separate generator, so a fit's random numbers do not
    change.

    They are at most 32 rows and about 64 KiB, with the table's dtypes: an array, `ProbeMatrix` or
    `ProbeFrame`; None where a single row is larger, or for a table of another kind.

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
        return _matrix(sp.csr_matrix(X)[np.sort(sample[:MOST_ROWS])], rng)
    return _array(X[sample], rng) if isinstance(X, np.ndarray) else None


def _n_rows(bytes_per_row: int) -> int:
    return min(MOST_ROWS, MOST_BYTES // max(bytes_per_row, 1))


def _array(rows: NDArray[Any], rng: np.random.Generator) -> NDArray[Any] | None:
    flat = rows.reshape(len(rows), -1)
    if rows.dtype == object and not _storable(flat.ravel().tolist()):
        return None
    n = _n_rows(flat.shape[1] * flat.itemsize)
    drawn = flat[rng.integers(len(flat), size=(n, flat.shape[1])), np.arange(flat.shape[1])]
    return drawn.reshape(n, *rows.shape[1:]) if n else None


def _matrix(rows: Any, rng: np.random.Generator) -> ProbeMatrix | None:
    entries = rows.tocoo()
    if entries.data.nbytes + entries.col.nbytes > MOST_BYTES:
        kept = len(entries.row) * MOST_BYTES // (entries.data.nbytes + entries.col.nbytes)
        return _matrix(rows[: int(entries.row[kept])], rng) if entries.row[kept] else None
    # Permute each column that has entries by itself: its entries move to other rows.
    _, column = np.unique(entries.col, return_inverse=True)
    places = np.tile(np.arange(rows.shape[0]), (column.max(initial=-1) + 1, 1))
    moved = rng.permuted(places, axis=1)[column, entries.row] if len(column) else entries.row
    mixed = sp.csr_matrix((entries.data, (moved, entries.col)), shape=rows.shape)
    return ProbeMatrix(
        mixed.data, mixed.indices.astype(np.int64), mixed.indptr.astype(np.int64), int(rows.shape[1])
    )


def _frame(rows: Any, rng: np.random.Generator) -> ProbeFrame | None:
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
        categories = (list(kind.categories), bool(kind.ordered)) if hasattr(kind, "categories") else None
        if not _storable([*values, *(categories or ([],))[0]]):
            return None
        columns.append((str(kind), values, categories))
    return ProbeFrame(list(rows.columns), columns)


def _storable(values: list[Any]) -> bool:
    """Whether a model file can hold the values; it cannot hold dates and objects of other types."""
    return all(v is None or isinstance(v, (str, int, float, np.number, np.bool_)) for v in values)


def rows_of(model: Any) -> Any:
    """Return the probe rows that the fit of a classifier, also at a pipeline's end, made up; or None."""
    return getattr(last_step(model), "probe_rows_", None)


@dataclass
class Answers:
    """A model's answers to its probe rows."""

    labels: list[int]  # predicted labels as positions in ``classes_``
    # Rows of ``predict_distribution``, else of ``predict_proba``, where the model has one.
    shares: list[list[float]] | None

    def same_as(self, other: Answers) -> bool:
        """Whether all labels are equal, and all shares to within 1e-6."""
        if self.labels != other.labels or (self.shares is None) != (other.shares is None):
            return False
        if self.shares is None or other.shares is None:
            return True
        mine, its = np.asarray(self.shares), np.asarray(other.shares)
        return mine.shape == its.shape and bool((abs(mine - its) <= SAME_SHARE).all())

    def differing(self, other: Answers) -> int:
        """Return the number of rows with another label."""
        return sum(a != b for a, b in zip(self.labels, other.labels, strict=False))


def answers(model: Any, rows: Any) -> Answers:
    """Ask a model about its probe rows; of a pipeline the classifier at its end, whose rows they are like."""
    classifier = last_step(model)
    if isinstance(rows, ProbeFrame):
        rows = rows.frame()
    elif isinstance(rows, ProbeMatrix):
        rows = rows.matrix()
    place = {label: k for k, label in enumerate(classifier.classes_.tolist())}
    given = {}
    if answers_by_group(classifier):  # each group in turn
        given = {"groups": classifier.example_groups(n_rows_of(rows))}
    labels = [place[label] for label in classifier.predict(rows, **given).tolist()]
    drawn = hasattr(classifier, "predict_proba") or hasattr(classifier, "predict_distribution")
    shares = label_shares(classifier, rows, **given).tolist() if drawn else None
    return Answers(labels, shares)
