"""Encoder of mixed tables, and the preparation steps of a model's pipeline."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.impute import SimpleImputer
from sklearn.preprocessing import OneHotEncoder
from sklearn.utils import get_tags
from sklearn.utils.validation import check_is_fitted

from tailboost.core.array_types import Array, Floats, Model, Table
from tailboost.core.checks import check_table
from tailboost.core.table_files import checked_names
from tailboost.rows.schema import TableSchema, refuse_arrays


def preparation(classifier: Model, schema: TableSchema | None = None) -> list[tuple[str, Any]]:
    """Return the pipeline steps before a classifier on a table.

    For a classifier without missing values a second step replaces them by the median of the
    column. Without a schema the encoder takes it from the table in ``fit``.
    """
    steps = [("table", TableEncoder(schema=schema))]
    if not get_tags(classifier).input_tags.allow_nan:
        steps.append(("impute", SimpleImputer(strategy="median", keep_empty_features=True)))
    return steps


class TableEncoder(TransformerMixin, BaseEstimator):
    """Transformer from a mixed table to float64 numbers.

    Numbers and truth values become one column each, with NaN for missing values. Each text column becomes one
    0/1 column per category; a missing value is a category. Columns are found by name, and values of later
    tables are read by the schema: see `tailboost.datasets.TableSchema`.

    Parameters
    ----------
    max_categories : int ≥ 1, default=50
        Largest number of 0/1 columns per text column; the rarest categories share one. A new category in
        ``transform`` is encoded as rare. If ``fit`` found no rare category, a new category is all 0.
    schema : TableSchema, default=None
        Schema of the table, as from `tailboost.datasets.load_table`; None takes it from the dtypes of X.

    Attributes
    ----------
    schema_ : TableSchema
        Schema of the table.
    feature_names_in_, n_features_in_ : ndarray of str, shape (d,), and int
        Columns of the table in ``fit``.
    numeric_, text_ : list of str
        Columns read as numbers, and columns read as categories.
    one_hot_ : OneHotEncoder
        Encoder of the columns ``text_``.
    """

    def __init__(self, max_categories: int = 50, schema: TableSchema | None = None) -> None:
        self.max_categories = max_categories
        self.schema = schema

    def fit(self, X: Table, y: object = None) -> Self:
        """Learn the kinds of the columns and the categories of a data frame, shape (n, d)."""
        refuse_arrays(X)
        check_table(X)
        checked_names(X.columns, "the table")
        if self.schema is None:
            self.schema_ = TableSchema.of(X)
        else:
            self.schema_ = self.schema
        columns = self.schema_.columns
        self.feature_names_in_ = np.array([column.name for column in columns], dtype=object)
        self.n_features_in_ = len(columns)
        self.numeric_ = [column.name for column in columns if column.kind != "text"]
        self.text_ = [column.name for column in columns if column.kind == "text"]
        self.one_hot_ = OneHotEncoder(
            handle_unknown="infrequent_if_exist",
            max_categories=self.max_categories,
            sparse_output=False,
        )
        table = self.schema_.read(X)
        if self.text_:
            self.one_hot_.fit(_categories(table[self.text_]))
        return self

    def transform(self, X: Table) -> Floats:
        """Return the encoded table, numbers first, shape (m, number of encoded columns).

        X has the columns of ``fit`` in any order, typed or all text as in a CSV file.

        Raises
        ------
        ValueError
            If columns are missing, or a column holds infinite numbers, dates or lists.
        TypeError
            If X is no data frame.
        """
        check_is_fitted(self)
        table = self.schema_.read(X)
        if not self.text_:  # no copy of a table of numbers alone
            return np.column_stack([table.to_numpy(dtype=np.float64)])
        numbers = table[self.numeric_].to_numpy(dtype=np.float64)
        return np.column_stack(
            [numbers, self.one_hot_.transform(_categories(table[self.text_]))]
        )

    def get_feature_names_out(self, input_features: object = None) -> Array:
        """Return the names of the encoded columns."""
        check_is_fitted(self)
        categories = []
        if self.text_:
            categories = self.one_hot_.get_feature_names_out(self.text_)
        return np.array([*self.numeric_, *categories], dtype=object)


def _categories(table: Table) -> Array:
    """Return text columns as an array of objects, with None for missing values."""
    texts = table.astype(object).to_numpy(copy=True)
    texts[table.isna().to_numpy()] = None
    return texts
