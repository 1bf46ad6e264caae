"""Tables in: the preparation that travels inside a model.

Everything here needs the extra ``app`` (pandas), which is not imported before it is used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.impute import SimpleImputer
from sklearn.preprocessing import OneHotEncoder
from sklearn.utils import get_tags
from sklearn.utils.validation import check_is_fitted

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["TableEncoder", "preparation", "takes_missing"]


def preparation(classifier: Any) -> list[tuple[str, Any]]:
    """Return the pipeline steps that prepare any table for a classifier.

    Parameters
    ----------
    classifier : estimator
        Where it takes no missing values, they are replaced by the column's median.

    Returns
    -------
    list of (str, transformer)
    """
    steps: list[tuple[str, Any]] = [("table", TableEncoder())]
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
    name: their order may change and further ones may come.

    Parameters
    ----------
    max_categories : int, default=50
        The most 0/1 columns that one column of text may become, at least 1; the rarest categories
        share one. A category first seen at prediction counts as rare where rare ones were pooled,
        and has zeros everywhere where none were.

    Attributes
    ----------
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

    def __init__(self, max_categories: int = 50) -> None:
        self.max_categories = max_categories

    def fit(self, X: pd.DataFrame, y: object = None) -> Self:
        """Learn which columns are numbers and what the categories of the others are.

        Parameters
        ----------
        X : DataFrame, shape (n, d)
            The table, n ≥ 1 and d ≥ 1, with distinct column names.
        y : ignored

        Raises
        ------
        ValueError
            For no row, no column, a column name that occurs twice, or a column of dates.
        """
        from pandas.api import types

        names = [str(name) for name in X.columns]
        if not len(X) or not names:
            raise ValueError(f"there is nothing to learn from: {len(X)} rows, {len(names)} feature columns")
        for name, dtype in zip(names, X.dtypes, strict=True):
            if names.count(name) > 1:
                raise ValueError(f"column {name!r} occurs {names.count(name)} times; names must be distinct")
            if types.is_datetime64_any_dtype(dtype) or types.is_timedelta64_dtype(dtype):
                raise ValueError(
                    f"column {name!r} holds dates: turn them into numbers or leave the column out"
                )
        is_number = [types.is_numeric_dtype(dtype) for dtype in X.dtypes]
        self.feature_names_in_ = np.array(names, dtype=object)
        self.n_features_in_ = len(names)
        self.numeric_ = [name for name, number in zip(names, is_number, strict=True) if number]
        self.text_ = [name for name, number in zip(names, is_number, strict=True) if not number]
        self.one_hot_ = OneHotEncoder(
            handle_unknown="infrequent_if_exist", max_categories=self.max_categories, sparse_output=False
        )
        if self.text_:
            self.one_hot_.fit(_texts(self._named(X)[self.text_]))
        return self

    def transform(self, X: pd.DataFrame) -> NDArray[np.float64]:
        """Encode a table.

        Parameters
        ----------
        X : DataFrame, shape (m, at least d)
            Has every column of ``fit``, m ≥ 1.

        Returns
        -------
        ndarray of float64, shape (m, number of encoded columns)
            The numbers first, then the categories.

        Raises
        ------
        ValueError
            Names the columns that are missing, or the column and row of what is not a number.
        """
        check_is_fitted(self)
        table = self._named(X)
        columns = [_numbers(table[name]) for name in self.numeric_]
        if self.text_:
            columns.append(self.one_hot_.transform(_texts(table[self.text_])))
        return np.column_stack(columns)

    def get_feature_names_out(self, input_features: object = None) -> NDArray[Any]:
        """Names of the encoded columns, shape (number of encoded columns,)."""
        check_is_fitted(self)
        categories = self.one_hot_.get_feature_names_out(self.text_) if self.text_ else []
        return np.array([*self.numeric_, *categories], dtype=object)

    def _named(self, X: pd.DataFrame) -> pd.DataFrame:
        table = X.set_axis([str(name) for name in X.columns], axis=1)
        missing = [name for name in self.feature_names_in_ if name not in table.columns]
        if missing:
            raise ValueError(
                f"missing column{'s' * (len(missing) > 1)} {', '.join(map(repr, missing))}; "
                f"the table has {', '.join(map(repr, table.columns))}"
            )
        return table[list(self.feature_names_in_)]


def _numbers(column: pd.Series) -> NDArray[np.float64]:
    import pandas as pd

    numbers = pd.to_numeric(column, errors="coerce")
    broken = np.flatnonzero(numbers.isna() & column.notna())
    if broken.size:
        row = int(broken[0])
        raise ValueError(
            f"column {column.name!r} held numbers when the model was fitted; "
            f"row {row} (counted from 0) holds {column.iloc[row]!r}"
        )
    return np.asarray(numbers.to_numpy(dtype=np.float64, na_value=np.nan), dtype=np.float64)


def _texts(table: pd.DataFrame) -> NDArray[Any]:
    texts = np.empty(table.shape, dtype=object)
    for j, name in enumerate(table.columns):
        column = table[name]
        texts[:, j] = [None if m else _text(v) for v, m in zip(column, column.isna(), strict=True)]
    return texts


def _text(value: object) -> str:
    # A code such as 12 is read as 12.0 from a file in which another row of the column is empty.
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)
