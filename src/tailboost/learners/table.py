"""Open tables, of numbers and categories, as tables of numbers; and classifiers that read them."""

from numbers import Number
from typing import Any, Self

import numpy as np
import scipy.sparse as sp
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.preprocessing import StandardScaler
from sklearn.utils import Tags

from tailboost.core import (
    Column,
    Floats,
    Floats32,
    Ints,
    Partitions,
    Table,
    as_pandas,
    listed,
    text,
)
from tailboost.learners.base import ProbabilityClassifier

# For linear models: columns with more categories are left out, and numbers are clipped at this many standard
# deviations from the mean.
MOST_CATEGORIES = 64
CLIPPED_AT = 5.0
# Beginnings of pandas' names for kinds of values that are neither numbers nor names of categories.
NEITHER_NUMBERS_NOR_NAMES = ("complex", "date", "period", "time")
# Share of a column of text from which on numbers are no names of categories.
MOST_NUMBERS = 0.9


class TableReader:
    """Converter of data frames, arrays and sparse matrices to float32 tables.

    Attributes
    ----------
    categories_ : list
        For each column the number of each category by its text, or None for numbers.
    sparse_ : bool
        Whether the table is sparse; absent entries are missing values, as in XGBoost.
    """

    def fit(self, X: Table) -> Self:
        """Store categories and numbers by column."""
        self.sparse_ = sp.issparse(X)
        columns = X if hasattr(X, "iloc") else getattr(X, "distinct", {})  # of Partitions
        categories = [_categories(column, name) for name, column in columns.items()]
        self.categories_ = categories or [None] * X.shape[1]
        return self

    def transform(self, X: Table) -> Table:
        """Return the table as float32; unknown categories and missing values are NaN.

        Raises
        ------
        ValueError
            If a number does not fit float32, or X is an array although `fit` found categories.
        """
        if isinstance(X, Partitions):
            return X.then(self.transform)
        with np.errstate(over="ignore"):  # refused below
            if sp.issparse(X):
                table = sp.csr_matrix(as_pandas(X), dtype=np.float32, copy=True)
                table.eliminate_zeros()  # in place
            elif hasattr(X, "iloc"):
                table = self._numbers(X)
            elif any(known is not None for known in self.categories_):
                raise ValueError(
                    "X is an array, but the data frame in fit had categories: pass a data frame"
                )
            else:
                table = np.asarray(X, np.float32)
        names = list(getattr(X, "columns", range(table.shape[1])))
        numbers = table
        if sp.issparse(table):
            names = ["of a sparse matrix"]
            numbers = table.data[:, None]
        infinite = np.isinf(numbers).any(axis=0)
        if infinite.any():
            raise ValueError(
                "X contains infinity or a value too large for float32: column "
                f"{[names[j] for j in np.flatnonzero(infinite)]}"
            )
        if self.sparse_:
            return sp.csr_matrix(table)
        return table.toarray() if sp.issparse(table) else table

    def _numbers(self, X: Any) -> Floats32:
        """Return a data frame as float32, with the number of each category."""
        table = np.empty(X.shape, np.float32)
        for j, categories in enumerate(self.categories_):
            column = X.iloc[:, j]
            if categories is not None:
                codes, values = column.factorize()
                numbers = [categories.get(text(value), np.nan) for value in values]
                numbers.append(np.nan)  # missing values have the code −1, the last
                table[:, j] = np.array(numbers, np.float32)[codes]
            else:
                table[:, j] = column.to_numpy(np.float32, na_value=np.nan)
        return table


def _categories(column: Any, name: Any) -> dict[str, float] | None:
    """Return the number of each category of a column of text or categories; None for numbers.

    Raises
    ------
    ValueError
        If the column holds dates, complex numbers, or values that cannot be ordered.
    """
    if hasattr(column.dtype, "categories"):
        categories = column.dtype.categories
    elif column.dtype.kind in "biuf":
        return None
    else:
        from pandas.api.types import infer_dtype  # arrays are tables without pandas, too

        present = column.dropna()
        kind = infer_dtype(present)
        if kind.startswith(NEITHER_NUMBERS_NOR_NAMES):
            raise ValueError(
                f"column {name!r} contains {kind}: convert it to numbers, or leave it out: "
                f"X.drop(columns=[{name!r}])"
            )
        try:
            categories = sorted(present.unique())
        except TypeError:
            raise ValueError(
                f"column {name!r} mixes numbers and text, or holds neither: convert it by "
                f"X[{name!r}].astype(str), or by pandas.to_numeric(…, errors='coerce')"
            ) from None
        if categories and all(isinstance(value, Number | np.bool_) for value in categories):
            return None  # numbers of dtype object, as in a transposed table or of a database
        _refuse_numbers_as_text(present, name)
    return {text(value): i for i, value in enumerate(categories)}


def _refuse_numbers_as_text(column: Any, name: Any) -> None:
    """Raise ValueError if more than nine tenths of the values of a column of text are numbers."""
    from pandas import to_numeric

    counts = column.value_counts()
    words = counts.index.astype(str).str.replace(",", ".")  # 1,5 is a number too
    is_number = to_numeric(words, errors="coerce").notna()
    if counts[is_number].sum() > MOST_NUMBERS * len(column):
        number = str(counts.index[is_number][0])
        values = f"X[{name!r}]"
        if "," in number:
            values += ".str.replace(',', '.')"
        raise ValueError(
            f"column {name!r} has numbers as text, such as {number!r}: make them numbers by "
            f"pd.to_numeric({values}, errors='coerce'), or codes by X[{name!r}].astype('category')"
        )


class TableClassifier(ProbabilityClassifier):
    """Base class of classifiers for open tables."""

    def open_session(
        self,
        X: Table,
        y: Ints,
        n_classes: int,
        sample_weight: Floats | None = None,
        reader: TableReader | None = None,
    ) -> Any:
        """Return a session on these rows; with a ``reader`` they are a table that it has read already.

        Labels are class numbers 0 … K − 1. ``fit(weight, seed, rows)`` of the session may leave out rows.
        """
        self._validate_params()
        if reader is None:
            reader = TableReader().fit(X)
            X = reader.transform(X)
        return self._session(self, X, y, n_classes, reader)

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = tags.input_tags.allow_nan = True
        return tags


def without_missing(table: Table) -> Any:
    """Return a table as scikit-learn's trees read it: missing entries of a sparse matrix are 0."""
    if sp.issparse(table) and np.isnan(table.data).any():
        table = table.copy()
        table.data = np.nan_to_num(table.data)
    return table


class TableNumbers(TransformerMixin, BaseEstimator):
    """A table of any kind in numbers for a linear model of scikit-learn.

    They are standardised and clipped, with the mean for missing ones, and an indicator for each category.
    Absent entries of a sparse matrix are 0.
    """

    def fit(self, X: Table, y: Column = None) -> Self:
        """Learn the categories, the means and the standard deviations."""
        self.reader_ = TableReader().fit(X)
        table = self.reader_.transform(X)
        self.scaler_ = StandardScaler(with_mean=not sp.issparse(table)).fit(table)
        return self

    def transform(self, X: Table) -> Any:
        """Return the numbers of a table, shape (n, columns and indicators)."""
        table = without_missing(self.reader_.transform(X))
        scaled = self.scaler_.transform(table)
        if sp.issparse(table):
            scaled.data = scaled.data.clip(-CLIPPED_AT, CLIPPED_AT)
            return scaled
        scaled = np.nan_to_num(scaled).clip(-CLIPPED_AT, CLIPPED_AT)
        kinds = self.reader_.categories_
        blocks = [scaled[:, [c is None for c in kinds]]]
        for j, categories in enumerate(kinds):
            if categories is not None and len(categories) <= MOST_CATEGORIES:
                blocks.append(table[:, [j]] == np.arange(len(categories)))
        numbers = np.hstack(blocks)
        if not numbers.shape[1]:
            raise ValueError(
                f"X has no numbers, and more than {MOST_CATEGORIES} different texts in each "
                f"of its columns {listed(list(X.columns))}"
            )
        return numbers

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        inputs = tags.input_tags
        inputs.sparse = inputs.allow_nan = inputs.categorical = inputs.string = True
        return tags
