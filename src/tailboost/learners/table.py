"""Tables for binned trees: numbers and category codes as float32, and the cuts between them."""

from __future__ import annotations

from abc import abstractmethod
from functools import cached_property
from typing import Any, Self, TypeAlias

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted

from tailboost.core.array_types import Floats, Hashes, Ints
from tailboost.core.fingerprints import hash_rows
from tailboost.core.schema import text
from tailboost.core.sparse import summed

Table: TypeAlias = Any  # float32 ndarray or csr matrix of shape (n, d)

# Cuts are placed by at most this many distinct rows: those with the smallest hashes, so that the choice
# depends on the rows' values, but not on their order or repetitions.
ROWS_FOR_CUTS = 131_072


class TableReader:
    """Turns a data frame, an array or a sparse matrix into numbers that trees can bin.

    Attributes
    ----------
    categories_ : list
        For each column the list of its categories, or None for a number.
    sparse_ : bool
        Whether entries absent from a sparse matrix are missing values, as XGBoost takes them.
    """

    def fit(self, X: Any) -> TableReader:
        """Learn the columns' kinds."""
        self.sparse_ = bool(sp.issparse(X))
        if hasattr(X, "iloc"):
            self.categories_ = [_categories(X.iloc[:, j], name) for j, name in enumerate(X.columns)]
        else:
            self.categories_ = [None] * X.shape[1]
        return self

    def transform(self, X: Any) -> Table:
        """Return the table as float32; unknown categories and missing values are NaN.

        Raises
        ------
        ValueError
            If a number does not fit float32, or an array is given where categories were fitted.
        """
        if self.sparse_ or sp.issparse(X):
            table = sp.csr_matrix(summed(X), dtype=np.float32, copy=True)
            table.eliminate_zeros()  # in place
            return table if self.sparse_ else table.toarray()
        if not hasattr(X, "iloc"):
            if "c" in self.feature_types:
                place = self.feature_types.index("c")
                raise ValueError(
                    f"X is an array, but column {place} (from 0) of the data frame in fit held categories: "
                    "give a data frame, since the numbers of an array could be values or codes"
                )
            with np.errstate(over="ignore"):
                table = np.asarray(X, dtype=np.float32)
            _refuse_infinite(table, range(table.shape[1]))
            return table
        table = np.empty(X.shape, dtype=np.float32)
        # Columns of NumPy's numbers are taken at once: one by one they cost more than most models.
        plain = [
            j
            for j, (own, dtype) in enumerate(zip(self.categories_, X.dtypes, strict=True))
            if own is None and isinstance(dtype, np.dtype) and dtype.kind in "fiub"
        ]
        table[:, plain] = (X if len(plain) == X.shape[1] else X.iloc[:, plain]).to_numpy(dtype=np.float32)
        for j in sorted({*range(X.shape[1])} - {*plain}):
            column, own = X.iloc[:, j], self.categories_[j]
            table[:, j] = (
                column.to_numpy(dtype=np.float32, na_value=np.nan) if own is None else _codes(column, own)
            )
        _refuse_infinite(table, X.columns)
        return table

    @property
    def feature_types(self) -> list[str]:
        """``"c"`` for categories, ``"q"`` for numbers."""
        return ["q" if c is None else "c" for c in self.categories_]


def _refuse_infinite(table: NDArray[np.float32], names: Any) -> None:
    if (infinite := np.isinf(table)).any():
        found = [str(names[j]) for j in np.flatnonzero(infinite.any(axis=0))]
        raise ValueError(f"X holds infinity or a value too large for float32 in column(s) {found}")


class OpenTable:
    """A table that several learners read: prepared by a fitted reader and hashed once."""

    def __init__(self, reader: TableReader, table: Table) -> None:
        self.reader, self.table = reader, table

    @classmethod
    def of(cls, X: Any) -> OpenTable:
        """Read a data frame, an array or a sparse matrix."""
        reader = TableReader().fit(X)
        return cls(reader, reader.transform(X))

    @cached_property
    def hashes(self) -> Hashes:
        """Hash of each row, shape (n,)."""
        return hash_rows(self.table)


class TableClassifier(ClassifierMixin, BaseEstimator):
    """A classifier of opened tables: it answers for rows that its reader ``table_`` prepares."""

    classes_: NDArray[Any]
    table_: TableReader

    @abstractmethod
    def learn(self, opened: OpenTable, y: Ints, weight: Floats) -> Self:
        """Learn from opened rows, whose classes are numbers without gaps, and become fitted."""

    @abstractmethod
    def predict_proba_table(self, table: Table) -> Floats:
        """Return class probabilities for a table prepared by ``table_.transform``, shape (n, K)."""

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Fit; see scikit-learn's."""
        classes, index = np.unique(y, return_inverse=True)
        weight = np.ones(len(index)) if sample_weight is None else np.asarray(sample_weight, dtype=np.float64)
        self.learn(OpenTable.of(X), index, weight)
        self.classes_ = classes
        return self

    def predict_proba(self, X: Any) -> Floats:
        """Predict class probabilities, shape (n, K)."""
        check_is_fitted(self)
        return self.predict_proba_table(self.table_.transform(X))

    def predict(self, X: Any) -> NDArray[Any]:
        """Predict labels, shape (n,)."""
        return self.classes_[self.predict_proba(X).argmax(axis=1)]

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = tags.input_tags.allow_nan = True
        return tags


class BinnedReader:
    """A reader that also replaces every value by the number of its bin, for trees that have no bins of ours.

    Trees over few distinct values choose their thresholds from these alone. Without it scikit-learn's
    boosting looks for weighted quantiles of every column in every fit, which took nine tenths of the time of
    a fit on few rows, and its bins would depend on the player's weights.
    """

    def __init__(self, reader: TableReader, cuts: list[NDArray[np.float32]]) -> None:
        self.reader, self.cuts = reader, cuts

    def transform(self, X: Any) -> Table:
        """Return the numbers of the bins as float32, shape (n, d); missing values are NaN."""
        return self.bins(self.reader.transform(X))

    def bins(self, table: Table) -> Table:
        """Return the numbers of the bins of a table that the reader prepared."""
        dense = table.toarray() if sp.issparse(table) else table
        codes = np.empty(dense.shape, dtype=np.float32)
        for j, own in enumerate(self.cuts):
            column = dense[:, j]
            codes[:, j] = np.where(np.isnan(column), np.nan, np.searchsorted(own, column, side="right"))
        return codes


def _categories(column: Any, name: Any) -> list[Any] | None:
    kind = getattr(column.dtype, "kind", "O")
    if kind in "mM":
        raise ValueError(f"column {name!r} holds dates or durations; turn it into numbers first")
    if kind == "c":
        raise ValueError(f"Complex data not supported: column {name!r}")
    if hasattr(column.dtype, "categories"):
        return list(column.dtype.categories)
    if kind in "fiub":
        return None
    present = column.dropna().infer_objects()
    if len(present) and getattr(present.dtype, "kind", "O") in "fiub":
        return None  # numbers that came as objects, as from a transposed table
    values = present.unique()
    try:
        return sorted(values)
    except TypeError:
        raise ValueError(
            f"column {name!r} mixes kinds of values that cannot be ordered, as numbers and text: "
            f"make it text (X[{name!r}].astype(str)), or numbers with missing values "
            "(pandas.to_numeric(…, errors='coerce'))"
        ) from None


def _codes(column: Any, categories: list[Any]) -> NDArray[np.float32]:
    """Return each value's place among the categories, by itself or else by its spelling; NaN for none."""
    code = {value: float(i) for i, value in enumerate(categories)}
    spelled = {text(value): float(i) for i, value in enumerate(categories)}
    numbers, values = column.factorize()
    found = [code.get(value, spelled.get(text(value), np.nan)) for value in values]
    return np.array([*found, np.nan], dtype=np.float32)[numbers]  # missing values have the number −1


def cuts(table: Table, max_bins: int, hashes: Hashes | None = None) -> list[NDArray[np.float32]]:
    """Choose, for each column, at most ``max_bins − 1`` thresholds from the distinct rows of float32.

    With at most ``max_bins`` distinct values the thresholds are the midpoints between neighbours, as in
    scikit-learn's trees; otherwise midpoints at evenly spaced quantiles over the distinct rows. A row goes
    left of a threshold when its value is smaller. NaN and entries absent from a csr matrix are ignored.
    """
    _, first = np.unique(hash_rows(table) if hashes is None else hashes, return_index=True)
    rows = table[first[:ROWS_FOR_CUTS]]
    if sp.issparse(rows):
        by_column = sp.csc_matrix(rows)
        columns = [
            by_column.data[a:b] for a, b in zip(by_column.indptr[:-1], by_column.indptr[1:], strict=True)
        ]
    else:
        columns = list(rows.T)
    return [_column_cuts(np.sort(c[~np.isnan(c)]), max_bins) for c in columns]


def _column_cuts(ordered: NDArray[np.float32], max_bins: int) -> NDArray[np.float32]:
    last = np.flatnonzero(ordered[1:] > ordered[:-1])  # last row of each distinct value but the largest
    if len(last) >= max_bins:
        quantile = np.arange(1, max_bins) * (len(ordered) / max_bins)
        last = last[np.unique(np.searchsorted(last, quantile - 1).clip(max=len(last) - 1))]
    low, high = ordered[last], ordered[last + 1]
    middle = ((low.astype(np.float64) + high) / 2).astype(np.float32)
    return np.where(middle > low, middle, high).astype(np.float32)  # float32 neighbours have no middle
