"""Groups from the columns of a table: numbers cut into quantiles, missing values as a group of their own."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from numbers import Integral
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.base import BaseEstimator, TransformerMixin, _fit_context
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import check_is_fitted

from tailboost.core.array_types import Floats
from tailboost.core.checks import as_pandas

#: What the group of missing values is called.
UNKNOWN = "unknown"


class GroupColumns(TransformerMixin, BaseEstimator):
    """Make groups of the columns of a data frame, by the same cuts for every table.

    `fit` finds the cuts, `transform` gives a data frame for ``groups=`` of any classifier, metric or
    certificate of tailboost. It is an object and not a function, because new rows must be cut where the old
    ones were.

    Parameters
    ----------
    quantiles : int or dict, optional
        Columns of numbers are cut into so many groups of about as many rows; a column of no more different
        numbers is left as it is. A dict names the columns to cut, with a number of groups or a list of cuts
        each. None cuts none. A value equal to a cut lies below it.
    missing : {"error", "own"}, default="error"
        What a missing value is: an error, or a group "unknown" of its own, as where a group is known for a
        part of the rows only. Those rows then count as any group does: they train, and are promised an error
        of their own, which says nothing of the group that they are really in.

    Attributes
    ----------
    cuts_ : dict of str to ndarray
        The cuts of each column that is cut, ascending.
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
        "missing": [StrOptions({"error", "own"})],
    }

    def __init__(self, *, quantiles: Any = None, missing: str = "error") -> None:
        self.quantiles = quantiles
        self.missing = missing

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Any, y: Any = None) -> Self:
        """Find the cuts.

        Parameters
        ----------
        X : data frame of shape (n, c)
            A column for each kind of group.
        y : None
            Not used.

        Returns
        -------
        self

        Raises
        ------
        ValueError, TypeError
            If X is no data frame, a column that is named cannot be cut, or with ``missing="own"`` a column
            has the value "unknown".
        """
        frame = _frame(X)
        self.columns_ = list(frame.columns)
        stated = self.quantiles if isinstance(self.quantiles, Mapping) else {}
        if unknown := [name for name in stated if name not in self.columns_]:
            raise ValueError(f"quantiles names {unknown}, but the columns are {self.columns_}")
        self.cuts_: dict[Any, Floats] = {}
        for name in self.columns_:
            self._refuse_unknown(frame[name], name)
            wanted = stated.get(name) if isinstance(self.quantiles, Mapping) else self.quantiles
            if wanted is None:
                continue
            if _is_number(frame[name]):
                cuts = _cuts(frame[name], wanted, name)
                if cuts is not None:
                    self.cuts_[name] = cuts
            elif name in stated:
                raise ValueError(f"quantiles names {name!r}, which is no column of numbers")
        return self

    def transform(self, X: Any) -> Any:
        """Return the groups of the rows.

        Parameters
        ----------
        X : data frame of n rows
            With the columns of `fit`, in any order; others are left out.

        Returns
        -------
        data frame of shape (n, c)
            Cut columns say the range; others are as they were, as text where a value is missing.

        Raises
        ------
        ValueError, TypeError
            If a column is not there, or holds missing values with ``missing="error"``.
        """
        check_is_fitted(self, "columns_")
        frame = _frame(X)
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
                said = [f"{cut:.15g}" for cut in cuts]
                between = [f"{low} to {high}" for low, high in pairwise(said)]
                called = np.array([f"<= {said[0]}", *between, f"> {said[-1]}"], dtype=object)
                values = called[place.clip(max=len(cuts))]
            elif missing.any() or self.missing == "own":
                # As text in every table, whether or not this one misses a value.
                values = column.astype(object).map(str).to_numpy(dtype=object)
            else:
                continue
            values[missing] = UNKNOWN
            frame[name] = values
        return frame

    def _refuse_unknown(self, column: Any, name: Any) -> None:
        """Raise if a value of the data is called as the group of missing values is."""
        if self.missing == "own" and not _is_number(column) and (column.astype(object) == UNKNOWN).any():
            raise ValueError(
                f"column {name!r} has the value {UNKNOWN!r}, the name that missing='own' gives to missing "
                "values: rename the value, or make it missing"
            )

    def get_feature_names_out(self, input_features: Any = None) -> Any:
        """Return the names of the columns."""
        check_is_fitted(self, "columns_")
        return np.array(self.columns_, dtype=object)


def _frame(X: Any) -> Any:
    X = as_pandas(X)
    if not hasattr(X, "iloc") or not hasattr(X, "columns"):
        raise TypeError(
            f"X must be a data frame with a column for each kind of group, got {type(X).__name__}"
        )
    return X


def _is_number(column: Any) -> bool:
    return getattr(column.dtype, "kind", "O") in "iuf"


def _cuts(column: Any, wanted: Any, name: Any) -> Floats | None:
    """Return the cuts of a column: those stated, or quantiles that are values; None if it has few values."""
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
    shares = np.arange(1, int(wanted)) / int(wanted)
    cuts = np.unique(np.quantile(values, shares, method="inverted_cdf"))
    kept: Floats = cuts[cuts < values.max()]  # nothing lies above the largest value
    return kept if len(kept) else np.array([values[values < values.max()].max()])
