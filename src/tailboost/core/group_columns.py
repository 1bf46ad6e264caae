"""Groups from the columns of a table: quantile bands of numbers, and a group for missing values."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from numbers import Integral
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.base import BaseEstimator, TransformerMixin, _fit_context
from sklearn.utils._param_validation import Interval
from sklearn.utils.validation import check_is_fitted

from tailboost.core.array_types import Column, Floats, Table
from tailboost.core.checks import OneOf, as_pandas
from tailboost.core.schema import dtype_kind, group_names

#: Name of the group of missing values.
UNKNOWN = "unknown"


class GroupColumns(TransformerMixin, BaseEstimator):
    """Groups from the columns of a data frame, with the same cuts for every table.

    `fit` finds the cuts, and `transform` returns a data frame for the ``groups=`` of classifiers, metrics and
    certificates.

    Parameters
    ----------
    quantiles : int or dict, optional
        Number of groups of about equal size for each column of numbers. A column with at most this many
        distinct numbers is unchanged. A dict maps names of columns to a number of groups or a list of cuts.
        None cuts no column. A value equal to a cut lies below the cut.
    missing : {"error", "own"}, default="error"
        Treatment of missing values: raise an error, or make a group "unknown". This group is trained and
        reported as any other; its error says nothing about the true groups of its rows. With "own" all groups
        have names of text, which do not depend on the dtype of the column: 1, 1.0, "1" and "1.0" are "1".

    Attributes
    ----------
    cuts_ : dict of str to ndarray
        Ascending cuts of each cut column.
    columns_ : list
        Names of the columns.

    See Also
    --------
    RobustMixtureClassifier : Takes groups in `fit`.

    Examples
    --------
    >>> import pandas as pd
    >>> from tailboost import GroupColumns
    >>> people = pd.DataFrame({"age": [21, 35, 48, 62], "sex": ["f", None, "m", "f"]})
    >>> GroupColumns(quantiles=2, missing="own").fit_transform(people)
         age      sex
    0  <= 35        f
    1  <= 35  unknown
    2   > 35        m
    3   > 35        f
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "quantiles": [Interval(Integral, 2, None, closed="left"), dict, None],
        "missing": [OneOf("error", "own")],
    }

    def __init__(self, *, quantiles: Any = None, missing: str = "error") -> None:
        self.quantiles = quantiles
        self.missing = missing

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Table, y: Column = None) -> Self:
        """Find the cuts.

        Parameters
        ----------
        X : data frame of shape (n, c)
            One column for each kind of group.
        y : None
            Not used.

        Returns
        -------
        self

        Raises
        ------
        ValueError, TypeError
            If X is not a data frame, a named column cannot be cut, or with ``missing="own"`` a column has the
            value "unknown".
        """
        frame = _frame(X)
        self.columns_ = list(frame.columns)
        by_name = self.quantiles if isinstance(self.quantiles, Mapping) else {}
        if unknown := [name for name in by_name if name not in self.columns_]:
            raise ValueError(f"quantiles names {unknown}, but the columns are {self.columns_}")
        self.cuts_: dict[Any, Floats] = {}
        for name in self.columns_:
            self._refuse_unknown(frame[name], name)
            wanted = by_name.get(name) if isinstance(self.quantiles, Mapping) else self.quantiles
            if wanted is None:
                continue
            if dtype_kind(frame[name].dtype) == "number":
                cuts = _cuts(frame[name], wanted, name)
                if cuts is not None:
                    self.cuts_[name] = cuts
            elif name in by_name:
                raise ValueError(f"quantiles names {name!r}, which is no column of numbers")
        return self

    def transform(self, X: Table) -> Any:
        """Return the groups of the rows.

        Parameters
        ----------
        X : data frame of n rows
            With the columns of `fit`, in any order; other columns are ignored.

        Returns
        -------
        data frame of shape (n, c)
            Ranges for cut columns, as ordered categories. Other columns are unchanged, or text with
            ``missing="own"``.

        Raises
        ------
        ValueError, TypeError
            If a column is not there, or has missing values with ``missing="error"``.
        """
        check_is_fitted(self, "columns_")
        frame = _frame(X)
        from pandas import Categorical  # there, as the table is

        if lacking := [name for name in self.columns_ if name not in frame.columns]:
            raise ValueError(f"X has no column {lacking}; it has {list(frame.columns)}")
        frame = frame[self.columns_].copy()
        for name in self.columns_:
            column, missing = frame[name], frame[name].isna().to_numpy()
            self._refuse_unknown(column, name)
            if missing.any() and self.missing == "error":
                raise ValueError(
                    f"column {name!r} has {missing.sum():,} missing values, the first in row "
                    f"{missing.argmax():,}: missing='own' makes them a group"
                )
            if name in self.cuts_:
                cuts = self.cuts_[name]
                place = np.searchsorted(cuts, column.to_numpy(np.float64, na_value=np.nan), side="left")
                ends = [f"{cut:.15g}" for cut in cuts]
                between = [f"{low} to {high}" for low, high in pairwise(ends)]
                names = np.array([f"<= {ends[0]}", *between, f"> {ends[-1]}", UNKNOWN], dtype=object)
                place = np.where(missing, len(names) - 1, place.clip(max=len(cuts)))
                of_missing = [UNKNOWN] if self.missing == "own" else []
                frame[name] = Categorical(names[place], [*names[:-1], *of_missing], ordered=True)
                continue
            if self.missing == "own":
                values = group_names(column, UNKNOWN)  # in each table, with or without missing values
                values[missing] = UNKNOWN
                frame[name] = values
        return frame

    def _refuse_unknown(self, column: Column, name: Any) -> None:
        """Raise if a value has the name of the group of missing values."""
        if (
            self.missing == "own"
            and dtype_kind(column.dtype) != "number"
            and (column.astype(object) == UNKNOWN).any()
        ):
            raise ValueError(
                f"column {name!r} has the value {UNKNOWN!r}, the name that missing='own' gives to missing "
                "values: rename the value, or make it missing"
            )

    def get_feature_names_out(self, input_features: Any = None) -> Any:
        """Return the names of the columns."""
        check_is_fitted(self, "columns_")
        return np.array(self.columns_, dtype=object)


def _frame(X: Table) -> Any:
    X = as_pandas(X)
    if not hasattr(X, "iloc") or not hasattr(X, "columns"):
        raise TypeError(
            f"X must be a data frame with a column for each kind of group, got {type(X).__name__}"
        )
    return X


def _cuts(column: Column, wanted: Any, name: Any) -> Floats | None:
    """Return the cuts of a column: given ones, or quantiles that are values; None for few distinct values."""
    if not isinstance(wanted, int | np.integer):
        cuts = np.asarray(wanted, dtype=np.float64)
        if cuts.ndim != 1 or not len(cuts) or not np.isfinite(cuts).all() or (np.diff(cuts) <= 0).any():
            raise ValueError(f"quantiles: the cuts of {name!r} must be ascending numbers, got {wanted!r}")
        return cuts
    if wanted < 2:
        raise ValueError(f"quantiles: {name!r} must be cut into at least 2 groups, got {wanted}")
    values = column.dropna().to_numpy(np.float64)
    if len(np.unique(values)) <= wanted:
        return None
    levels = np.arange(1, int(wanted)) / int(wanted)
    cuts = np.unique(np.quantile(values, levels, method="inverted_cdf"))
    inner: Floats = cuts[cuts < values.max()]  # no value lies above the largest
    return inner if len(inner) else np.array([values[values < values.max()].max()])
