"""Open tables: numbers and category codes as float32, cuts for binned trees, means of models of a table."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from copy import copy
from functools import cached_property
from typing import Any, Self

import numpy as np
import scipy.sparse as sp
from scipy.special import softmax
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted

from tailboost.core.array_types import (
    Array,
    Column,
    Floats,
    Floats32,
    Hashes,
    Ints,
    Labels,
    Table,
)
from tailboost.core.checks import summed
from tailboost.core.long_work import fitting_apart
from tailboost.core.spelling import listed
from tailboost.learners.protocols import PreparedProba
from tailboost.rows.fingerprints import hash_rows
from tailboost.rows.schema import distinct, dtype_kind, is_plain, text

# Maximum number of distinct rows that determine the cuts: the rows with the smallest hashes, so order
# and repetitions of rows do not matter.
ROWS_FOR_CUTS = 131_072
# Smallest probability, the same as in the selection of decision rules.
SMALLEST_PROBABILITY = 1e-6


class TableReader:
    """Converter of data frames, arrays and sparse matrices to float32 tables.

    Attributes
    ----------
    categories_ : list
        For each column the list of its categories, or None for numbers.
    sparse_ : bool
        Whether the table is sparse; absent entries are missing values, as in XGBoost.
    """

    def fit(self, X: Table) -> TableReader:
        """Store categories and numbers by column."""
        self.sparse_ = bool(sp.issparse(X))
        if hasattr(X, "iloc"):
            dates = [name for name, dtype in X.dtypes.items() if dtype_kind(dtype) == "dates"]
            if dates:
                raise ValueError(
                    f"column {listed(dates)} contains dates or durations; convert it to "
                    f"numbers, or leave it out: X.drop(columns={dates})"
                )
            self.categories_ = [
                _categories(X.iloc[:, j], name) for j, name in enumerate(X.columns)
            ]
        else:
            self.categories_ = [None] * X.shape[1]
        return self

    def transform(self, X: Table) -> Table:
        """Return the table as float32; unknown categories and missing values are NaN.

        Raises
        ------
        ValueError
            If a number does not fit float32, or X is an array although `fit` found categories.
        """
        if self.sparse_ or sp.issparse(X):
            with np.errstate(over="ignore"):  # refused below
                table = sp.csr_matrix(summed(X), dtype=np.float32, copy=True)
            table.eliminate_zeros()  # in place
            infinite_columns = np.unique(table.indices[np.isinf(table.data)])
            _refuse_columns(infinite_columns.tolist())
            if self.sparse_:
                return table
            return table.toarray()
        if hasattr(X, "iloc"):
            return self._frame_numbers(X)
        if "c" in self.feature_types:
            raise ValueError(
                f"X is an array, but column {self.feature_types.index('c')} (from 0) of the "
                "data frame in fit contained categories: pass a data frame, because numbers of "
                "an array could be values or codes"
            )
        with np.errstate(over="ignore"):  # refused below
            table = np.asarray(X, dtype=np.float32)
        _refuse_columns(_infinite_columns(table))
        return table

    def _frame_numbers(self, X: Any) -> Floats32:
        """Return a data frame as float32, with the number of each category."""
        table = np.empty(X.shape, dtype=np.float32)
        numpy_columns = []
        for j, (categories, dtype) in enumerate(zip(self.categories_, X.dtypes, strict=True)):
            if categories is not None:
                table[:, j] = _codes(X.iloc[:, j], categories)
            elif is_plain(dtype, "number", "truth"):
                numpy_columns.append(j)
            else:  # a type of pandas, or objects
                table[:, j] = X.iloc[:, j].to_numpy(np.float32, na_value=np.nan)
        # All NumPy columns are converted at once: one by one would be slower than most models.
        numbers = X
        if len(numpy_columns) < X.shape[1]:
            numbers = X.iloc[:, numpy_columns]
        table[:, numpy_columns] = numbers.to_numpy(dtype=np.float32)
        infinite_columns = _infinite_columns(table)
        if infinite_columns:
            row = int(np.isinf(table[:, infinite_columns[0]]).argmax())
            _refuse_columns(
                [X.columns[j] for j in infinite_columns], f", first in row {X.index[row]!r}"
            )
        return table

    @property
    def n_features(self) -> int:
        """Number of columns."""
        return len(self.categories_)

    @property
    def feature_types(self) -> list[str]:
        """``"c"`` for categories, ``"q"`` for numbers."""
        return ["q" if c is None else "c" for c in self.categories_]


def _infinite_columns(table: Floats32) -> list[int]:
    """Return the numbers of the columns with an infinite value."""
    return np.flatnonzero(np.isinf(table).any(axis=0)).tolist()


def _refuse_columns(infinite_columns: list[Any], place: str = "") -> None:
    """Raise ValueError if there are columns with an infinite value; they are given by name or number."""
    if infinite_columns:
        names = list(map(str, infinite_columns))
        raise ValueError(
            f"X contains infinity or a value too large for float32 in column(s) {names}"
            f"{place}; a number is needed, or NaN for a missing value"
        )


class OpenTable:
    """Table that several learners share, with its fitted reader.

    Parameters
    ----------
    X : data frame, ndarray or sparse matrix of shape (n, d)
        The rows.
    """

    def __init__(self, X: Table) -> None:
        self.reader = TableReader().fit(X)
        self.table: Table = self.reader.transform(X)

    @cached_property
    def hashes(self) -> Hashes:
        """Hash of each row, shape (n,)."""
        return hash_rows(self.table)

    def read_by(self, reader: Any) -> OpenTable:
        """Return the table as another reader prepares it from this one; the rows keep their hashes."""
        other = copy(self)
        other.hashes = self.hashes
        other.reader = reader
        other.table = reader.prepared(self.table)
        return other


class TableClassifier(ClassifierMixin, BaseEstimator):
    """Base class of classifiers for open tables; the reader ``table_`` prepares rows."""

    classes_: Labels
    table_: TableReader

    @abstractmethod
    def learn(self, opened: OpenTable, y: Ints, weight: Floats) -> Self:
        """Fit to an open table; class numbers y have no gaps."""

    @abstractmethod
    def predict_proba_table(self, table: Table) -> Floats:
        """Return class probabilities for a table prepared by ``table_.transform``, shape (n, K)."""

    def fit(self, X: Table, y: Column, sample_weight: Column = None) -> Self:
        """Fit the classifier to weighted rows.

        Parameters
        ----------
        X : table of n rows
            Features, also of text and with missing values.
        y : array-like of shape (n,)
            Labels.
        sample_weight : array-like of shape (n,), optional
            Weights; 1 by default.
        """
        classes, index = np.unique(y, return_inverse=True)
        if sample_weight is None:
            weight = np.ones(len(index))
        else:
            weight = np.asarray(sample_weight, dtype=np.float64)
        with fitting_apart(self) as fitted:
            fitted.learn(OpenTable(X), index, weight)
            fitted.classes_ = classes
        return self

    def predict_proba(self, X: Table) -> Floats:
        """Predict class probabilities, shape (n, K)."""
        check_is_fitted(self)
        return self.predict_proba_table(self.table_.transform(X))

    def predict(self, X: Table) -> Labels:
        """Predict labels, shape (n,)."""
        return self.classes_[self.predict_proba(X).argmax(axis=1)]

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = tags.input_tags.allow_nan = True
        return tags


def as_dense(table: Table) -> Any:
    """Return a sparse matrix as an array; other tables unchanged."""
    if sp.issparse(table):
        return table.toarray()
    return table


class BinnedReader:
    """Reader that also replaces each value by the number of its bin, for scikit-learn's trees.

    Without it scikit-learn's boosting computes weighted quantiles of each column in each fit. On few rows
    this took nine tenths of the time of a fit, and the bins would depend on the player's weights.
    """

    def __init__(self, reader: TableReader, cuts: list[Floats32]) -> None:
        self.reader = reader
        self.cuts = cuts

    def transform(self, X: Table) -> Table:
        """Return bin numbers as float32, shape (n, d); missing values are NaN."""
        return self.bins(self.reader.transform(X))

    def bins(self, table: Table) -> Table:
        """Return bin numbers of a prepared table."""
        table = as_dense(table)
        bin_numbers = np.empty(table.shape, dtype=np.float32)
        for j, column_cuts in enumerate(self.cuts):
            column = table[:, j]
            bin_of_row = np.searchsorted(column_cuts, column, side="right")
            bin_numbers[:, j] = np.where(np.isnan(column), np.nan, bin_of_row)
        return bin_numbers


def _categories(column: Any, name: Any) -> list[Any] | None:
    """Return the categories of a column of text, sorted, or of categories, in their order; None for numbers.

    A column of dtype object with numbers only has numbers.

    Raises
    ------
    ValueError
        If the column holds complex numbers, or values that cannot be ordered.
    """
    kind = dtype_kind(column.dtype)
    if kind == "complex":
        raise ValueError(f"Complex data not supported: column {name!r}")
    if kind == "categories":
        return list(column.dtype.categories)
    if kind != "text":
        return None
    present_values = column.dropna().infer_objects()
    if len(present_values) and dtype_kind(present_values.dtype) in ("number", "truth"):
        return None  # numbers of dtype object, as in a transposed table
    _, values = distinct(present_values, f"column {name!r}")
    try:
        return sorted(values)
    except TypeError:
        raise ValueError(
            f"column {name!r} mixes values that cannot be ordered, as numbers and text: "
            f"convert it to text (X[{name!r}].astype(str)), or to numbers with missing values "
            "(pandas.to_numeric(…, errors='coerce'))"
        ) from None


def _codes(column: Any, categories: list[Any]) -> Floats32:
    """Return the category number of each value, by value or by its text; NaN for unknown values."""
    number_of = {value: float(i) for i, value in enumerate(categories)}
    number_of_text = {text(value): float(i) for i, value in enumerate(categories)}
    code, values = distinct(column, f"column {column.name!r}")
    numbers = [
        number_of.get(value, number_of_text.get(text(value), np.nan)) for value in values
    ]
    numbers.append(np.nan)  # missing values have the code −1, the last
    return np.array(numbers, dtype=np.float32)[code]


def bin_cuts(table: Table, max_bins: int, hashes: Hashes | None = None) -> list[Floats32]:
    """Return at most ``max_bins − 1`` thresholds for each column, from the distinct rows of float32.

    Columns with at most ``max_bins`` distinct values have thresholds at all midpoints between neighbours, as
    in scikit-learn's trees. Other columns have midpoints at evenly spaced quantiles of the distinct rows. A
    row goes left of a threshold if its value is smaller. NaN and absent entries of a csr matrix are ignored.

    Parameters
    ----------
    table : ndarray or csr matrix of float32, shape (n, d)
        The rows.
    max_bins : int
        The most bins of a column.
    hashes : ndarray of int, shape (n,), optional
        Hashes that are equal for equal rows, if they are known.
    """
    if hashes is None:
        hashes = hash_rows(table)
    _, distinct_rows = np.unique(hashes, return_index=True)
    rows = table[distinct_rows[:ROWS_FOR_CUTS]]
    if sp.issparse(rows):
        by_column = sp.csc_matrix(rows)
        columns = np.split(by_column.data, by_column.indptr[1:-1])  # the present entries
    else:
        columns = list(rows.T)
    return [_column_cuts(np.sort(column[~np.isnan(column)]), max_bins) for column in columns]


def _column_cuts(ordered: Floats32, max_bins: int) -> Floats32:
    """Return the thresholds of a column from its sorted numbers, see `bin_cuts`."""
    # The last row of each distinct value except the largest: a cut lies between it and the next row.
    cut_rows = np.flatnonzero(ordered[1:] > ordered[:-1])
    if len(cut_rows) >= max_bins:
        quantile_rows = np.arange(1, max_bins) * (len(ordered) / max_bins)
        next_cut = np.searchsorted(cut_rows, quantile_rows - 1).clip(max=len(cut_rows) - 1)
        cut_rows = cut_rows[np.unique(next_cut)]
    low = ordered[cut_rows]
    high = ordered[cut_rows + 1]
    middle = ((low.astype(np.float64) + high) / 2).astype(np.float32)
    # Neighbours in float32 have no midpoint.
    return np.where(middle > low, middle, high).astype(np.float32)


def class_of_rank(P: Array, rank: int) -> Ints:
    """Return the class with the ``rank``-th largest probability, from 0; ties go to the first class."""
    for _ in range(rank):
        P = P.copy()
        P[np.arange(len(P)), P.argmax(axis=1)] = -1.0  # below all others
    return P.argmax(axis=1)


class ClassProbabilities:
    """Mean class probabilities of several models of one open table.

    It is a classifier, and also the prepared table of `Ranked` models. ``share`` of shape (n_models, K) has
    the weight of each model by class: 0 for classes that the model was not fitted on. The predictions divide
    these weights by their sum over the models.
    """

    def __init__(self, models: Sequence[PreparedProba], share: Floats) -> None:
        self.models = list(models)
        self.share = share

    @property
    def classes_(self) -> Ints:
        """Class numbers, shape (K,)."""
        return np.arange(self.share.shape[1])

    @property
    def table_(self) -> Any:
        """Reader of rows for the models."""
        return self.models[0].table_

    @property
    def feature_importances_(self) -> Floats:
        """Mean of the models' importances, shape (d,)."""
        models: list[Any] = list(self.models)
        return np.mean([model.feature_importances_ for model in models], axis=0)

    def predict_proba_table(self, table: Any) -> Floats:
        """Return class probabilities for ``table_.transform(X)``, shape (n, K); each row sums to 1.

        The logarithms are averaged, and each row is normalised. Decision rules are selected on probabilities
        of single models. The arithmetic mean would be larger than these for a rare class.
        """
        shares = self.share / self.share.sum(axis=0)
        mean_log = 0.0
        for share, model in zip(shares, self.models, strict=True):
            P = np.maximum(model.predict_proba_table(table), SMALLEST_PROBABILITY)
            mean_log = mean_log + share * np.log(P)
        return softmax(mean_log, axis=1)

    def predict_proba(self, X: Table) -> Floats:
        """Return class probabilities, shape (n, K)."""
        return self.predict_proba_table(self.table_.transform(X))

    def predict(self, X: Table) -> Ints:
        """Return class numbers, shape (n,)."""
        return self.predict_proba(X).argmax(axis=1)

    def with_models_of(self, other: ClassProbabilities) -> ClassProbabilities:
        """Return the mean of these models and the models of another mean."""
        return ClassProbabilities(
            [*self.models, *other.models], np.vstack([self.share, other.share])
        )

    def transform(self, X: Table) -> Floats:
        """Return the arithmetic mean of the models' probabilities by class, shape (n, K)."""
        table = self.table_.transform(X)
        total = 0.0
        for share, model in zip(self.share, self.models, strict=True):
            total = total + share * model.predict_proba_table(table)
        return total / self.share.sum(axis=0)


class Ranked:
    """Base model that predicts the class with the ``rank``-th largest mean probability, from 0.

    Base models of different ranks share the probabilities.
    """

    def __init__(self, table_: ClassProbabilities, rank: int = 0) -> None:
        self.table_ = table_
        self.rank = rank

    @property
    def feature_importances_(self) -> Floats:
        """Mean of the models' importances, shape (d,)."""
        return self.table_.feature_importances_

    def predict_table(self, table: Floats) -> Ints:
        """Return class numbers for ``table_.transform(X)``, shape (n,)."""
        return class_of_rank(table, self.rank)

    def predict_proba_table(self, table: Floats) -> Floats:
        """Return the mean probabilities, which do not depend on the rank, shape (n, K)."""
        return table / table.sum(axis=1, keepdims=True)

    def predict(self, X: Table) -> Ints:
        """Return class numbers, shape (n,)."""
        return self.predict_table(self.table_.transform(X))
