"""The preparation of tables that is stored inside a model.

It needs the extra ``app`` (pandas), which is not imported before it is used.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.impute import SimpleImputer
from sklearn.preprocessing import OneHotEncoder
from sklearn.utils import get_tags
from sklearn.utils.validation import check_is_fitted

from tailboost.app.datasets import TableSchema
from tailboost.core.schema import refuse_arrays

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["TableEncoder", "preparation", "takes_missing"]


def preparation(classifier: Any, schema: TableSchema | None = None) -> list[tuple[str, Any]]:
    """Return the pipeline steps that prepare any table for a classifier.

    Parameters
    ----------
    classifier : estimator
        Where it takes no missing values, they are replaced by the column's median.
    schema : TableSchema, default=None
        What the columns are; None takes it from the table that is fitted on.

    Returns
    -------
    list of (str, transformer)
    """
    steps: list[tuple[str, Any]] = [("table", TableEncoder(schema=schema))]
    return (
        steps
        if takes_missing(classifier)
        else [*steps, ("impute", SimpleImputer(strategy="median", keep_empty_features=True))]
    )


def takes_missing(classifier: Any) -> bool:
    """Whether a classifier takes NaN."""
    return bool(get_tags(classifier).input_tags.allow_nan)


class TableEncoder(TransformerMixin, BaseEstimator):
    """Turn a mixed table into the numbers that tree learners read.

    Numbers and truth values become float64 columns, missing values stay NaN. Text and categories
    become one 0/1 column per category, a missing value counting as a category. Columns are found by
    name, and later tables are read value by value as the first one was: see `tailboost.datasets.TableSchema`.

    Parameters
    ----------
    max_categories : int, default=50
        The most 0/1 columns that one column of text may become, at least 1; the rarest categories
        share one. A category first seen at prediction counts as rare where rare ones were pooled,
        and has zeros everywhere where none were.
    schema : TableSchema, default=None
        What the columns are, as from `tailboost.datasets.load_table`; None takes it from the table's dtypes.

    Attributes
    ----------
    schema_ : TableSchema
        What the columns are.
    feature_names_in_ : ndarray of str, shape (d,)
        The columns of the table in the order seen by ``fit``.
    n_features_in_ : int
        d.
    numeric_ : list of str
        The columns taken as numbers.
    text_ : list of str
        The columns taken as categories.
    one_hot_ : OneHotEncoder
        Fitted on the columns ``text_``.
    """

    def __init__(self, max_categories: int = 50, schema: TableSchema | None = None) -> None:
        self.max_categories = max_categories
        self.schema = schema

    def fit(self, X: pd.DataFrame, y: object = None) -> Self:
        """Learn which columns are numbers and what the categories of the others are.

        Parameters
        ----------
        X : DataFrame, shape (n, d)
            The table, n ≥ 1 and d ≥ 1, with distinct column names.
        y : ignored
            There for scikit-learn's pipelines.

        Raises
        ------
        ValueError
            For no row, no column, a column name that occurs twice, or a column of dates.
        TypeError
            For anything but a data frame.
        """
        refuse_arrays(X)
        names = [str(name) for name in X.columns]
        if not len(X) or not names:
            raise ValueError(f"there is nothing to learn from: {len(X)} rows, {len(names)} feature columns")
        if twice := [name for name, count in Counter(names).items() if count > 1]:
            raise ValueError(
                f"column {twice[0]!r} occurs {names.count(twice[0])} times; names must be distinct"
            )
        self.schema_ = TableSchema.of(X) if self.schema is None else self.schema
        columns = self.schema_.columns
        self.feature_names_in_ = np.array([column.name for column in columns], dtype=object)
        self.n_features_in_ = len(columns)
        self.numeric_ = [column.name for column in columns if column.kind != "text"]
        self.text_ = [column.name for column in columns if column.kind == "text"]
        self.one_hot_ = OneHotEncoder(
            handle_unknown="infrequent_if_exist", max_categories=self.max_categories, sparse_output=False
        )
        table = self.schema_.read(X)
        if self.text_:
            self.one_hot_.fit(_categories(table[self.text_]))
        return self

    def transform(self, X: pd.DataFrame) -> NDArray[np.float64]:
        """Encode a table.

        Parameters
        ----------
        X : DataFrame, shape (m, at least d)
            Has every column of ``fit``, m ≥ 1; as in ``fit``, or all text as it stands in a CSV file.

        Returns
        -------
        ndarray of float64, shape (m, number of encoded columns)
            The numbers first, then the categories.

        Raises
        ------
        ValueError
            Names the columns that are missing, or the column that holds infinite numbers, dates or lists.
        TypeError
            For anything but a data frame.
        """
        check_is_fitted(self)
        table = self.schema_.read(X)
        columns = [(table[self.numeric_] if self.text_ else table).to_numpy(dtype=np.float64)]
        if self.text_:
            columns.append(self.one_hot_.transform(_categories(table[self.text_])))
        return np.column_stack(columns)

    def get_feature_names_out(self, input_features: object = None) -> NDArray[Any]:
        """Names of the encoded columns, shape (number of encoded columns,)."""
        check_is_fitted(self)
        categories = self.one_hot_.get_feature_names_out(self.text_) if self.text_ else []
        return np.array([*self.numeric_, *categories], dtype=object)


def _categories(table: pd.DataFrame) -> NDArray[Any]:
    texts = table.astype(object).to_numpy(copy=True)
    texts[table.isna().to_numpy()] = None
    return texts
