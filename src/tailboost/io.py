"""Tables in, models out: the preparation that travels inside a model, and skops files.

Everything here needs the extra ``app`` (pandas, skops); neither is imported before it is used.
"""

from __future__ import annotations

import copy
import importlib
import os
import zipfile
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.impute import SimpleImputer
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import OneHotEncoder
from sklearn.utils import get_tags
from sklearn.utils.validation import check_is_fitted

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["TableEncoder", "load_model", "preparation", "save_model", "takes_missing"]


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


# Parts of fitted models that skops does not trust by itself. Trees and boosters hold arrays that their
# libraries index without bounds checks: a forged file can crash the process, but it cannot run code.
_KNOWN_PARTS = frozenset(
    {
        "numpy.dtype",
        *(f"{m}.{c}" for m in ("pathlib", "pathlib._local") for c in ("PosixPath", "WindowsPath")),
        "sklearn.tree._tree.Tree",
        "sklearn.ensemble._hist_gradient_boosting.predictor.TreePredictor",
        "xgboost.core.Booster",
        "xgboost.sklearn.XGBClassifier",
    }
)


def _is_trusted(name: str) -> bool:
    """Whether a type named in a file may be built: a class that tailboost itself defines, or a known part."""
    module, _, attribute = name.rpartition(".")
    if module == "tailboost" or module.startswith("tailboost."):
        try:
            found = getattr(importlib.import_module(module), attribute, None)
        except ImportError:
            return False
        if module == "tailboost.torch.nets":  # the makers of nets, which members name
            return attribute in importlib.import_module(module).__all__
        # What our modules merely import, and every other function, stays out.
        return isinstance(found, type) and found.__module__ == module
    return name in _KNOWN_PARTS


def _refused(untrusted: Iterable[str]) -> list[str]:
    return sorted(name for name in untrusted if not _is_trusted(name))


def save_model(model: object, path: str | os.PathLike[str]) -> None:
    """Write a fitted model, or a pipeline that ends in one, to a skops file.

    Parameters
    ----------
    model : estimator
        Any fitted classifier of tailboost, or a pipeline around one.
    path : path
        The file to write; what was there is replaced.

    Raises
    ------
    TypeError
        If the model holds something that `load_model` would refuse (a net of the user's own, say); nothing
        is written then.
    ValueError
        If the file of a net that lies in a folder is missing or damaged.
    """
    import skops.io

    model = _self_contained(model)
    content = skops.io.dumps(model, compression=zipfile.ZIP_DEFLATED)
    if refused := _refused(skops.io.get_untrusted_types(data=content)):
        raise TypeError(
            f"this model cannot be stored in a file that runs no code, it holds {', '.join(refused)}; pickle "
            "stores it for those who trust the file"
        )
    Path(path).write_bytes(content)


def _self_contained(model: Any) -> Any:
    """Return a model whose nets, where they lie in files of their own, have come into memory."""
    classifier = model.steps[-1][1] if isinstance(model, Pipeline) else model
    if not any(getattr(member, "path", None) for member in getattr(classifier, "estimators_", ())):
        return model
    model = copy.deepcopy(model)
    classifier = model.steps[-1][1] if isinstance(model, Pipeline) else model
    for member in (*classifier.estimators_, *classifier._boosted):
        if hasattr(member, "fetch"):
            member.fetch()
    return model


def load_model(path: str | os.PathLike[str]) -> Any:
    """Read a model written by `save_model`.

    Only types that skops trusts by itself, classes defined by tailboost, and the trees and boosters
    of scikit-learn and XGBoost are built. No code from the file is run.

    Parameters
    ----------
    path : path
        A skops file.

    Returns
    -------
    estimator
        The fitted model; it predicts exactly what the stored one did.

    Raises
    ------
    FileNotFoundError
        If there is no such file.
    ValueError
        If it is no skops file, or if it holds other types; they are named.
    """
    import skops.io

    if not Path(path).is_file():
        raise FileNotFoundError(f"there is no model file {os.fspath(path)!r}")
    content = Path(path).read_bytes()
    try:
        untrusted = skops.io.get_untrusted_types(data=content)
    except Exception as error:  # whatever a foreign file makes the reader trip over
        raise ValueError(f"{os.fspath(path)!r} is not a model file in the skops format") from error
    if refused := _refused(untrusted):
        raise ValueError(
            f"{os.fspath(path)!r} is refused: it holds types that are not trusted, {', '.join(refused)}"
        )
    return skops.io.loads(content, trusted=untrusted)
