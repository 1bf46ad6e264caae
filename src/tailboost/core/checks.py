"""Input checks, each in one place with one wording: labels, groups, weights, tables.

A message begins with the name of the argument, says what is expected and what was found.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils import column_or_1d
from sklearn.utils._missing import is_pandas_na, is_scalar_nan
from sklearn.utils.multiclass import check_classification_targets

from tailboost.core.array_types import Floats, Ints, Labels
from tailboost.core.numeric import base_measure as base_measure
from tailboost.core.numeric import check_alpha as check_alpha
from tailboost.core.numeric import check_number as check_number
from tailboost.core.numeric import check_vector as check_vector
from tailboost.core.numeric import check_weights as check_weights
from tailboost.core.numeric import finite as finite
from tailboost.core.numeric import loss_vector as loss_vector
from tailboost.core.numeric import relative_weights as relative_weights
from tailboost.core.spelling import did_you_mean


def as_pandas(table: Any) -> Any:
    """Return a table of polars or pyarrow as a data frame of pandas; others as they are."""
    return table.to_pandas() if hasattr(table, "to_pandas") and not hasattr(table, "iloc") else table


def n_rows_of(X: Any) -> int:
    """Return the number of rows of a table."""
    return int(X.shape[0]) if hasattr(X, "shape") else len(X)


def check_mask(value: Any, name: str, n: int) -> NDArray[np.bool_]:
    """Return a mask of n rows.

    Raises
    ------
    ValueError
        If it has another shape, or holds anything but True, False, 1 and 0.
    """
    given = np.asarray(value)
    if given.shape != (n,) or given.dtype.kind not in "bi" or not np.isin(given, (0, 1)).all():
        raise ValueError(
            f"{name} must be a mask of shape ({n},), True or False for each row, got the shape {given.shape} "
            f"and the type {given.dtype}"
        )
    return given.astype(bool)


def check_length(values: Any, name: str, n: int, of: str = "X") -> None:
    """Raise if there is not one entry for each of the n rows of ``of``."""
    if n_rows_of(values) != n:
        raise ValueError(f"{name} has {n_rows_of(values)} rows, {of} has {n}")


def refuse_missing(values: Any, name: str) -> None:
    """Raise if a column of labels or groups has missing entries, or is a list of text and other values."""
    # A list of text and NaN would become text, "nan" included.
    column = np.asarray(values) if hasattr(values, "dtype") else np.asarray(values, dtype=object)
    if column.dtype.kind not in "fO":
        return
    entries = column.ravel().tolist()
    # Text first: most objects are, and the other questions take thirty times as long.
    missing = sum(
        not isinstance(v, str) and (v is None or is_scalar_nan(v) or is_pandas_na(v)) for v in entries
    )
    if missing:
        raise ValueError(
            f"{name} contains NaN or None: {missing} of {column.size} entries are missing; drop their "
            "rows or give them a value"
        )
    if hasattr(values, "dtype"):
        return
    text = next((v for v in entries if isinstance(v, str)), None)
    other = next((v for v in entries if not isinstance(v, str)), None)
    if text is not None and other is not None:  # NumPy would make one of 1 and "1"
        raise ValueError(f"{name} mixes values that are text, such as {text!r}, with others, as {other!r}")


def numbered(values: Any, name: str, n: int) -> Ints:
    """Return a number for each of n values, the same for equal ones.

    Raises
    ------
    ValueError
        If there are not n of them in one column, or some are missing.
    """
    refuse_missing(values, name)
    check_length(values, name, n)
    column = column_or_1d(values)
    return np.unique(column, return_inverse=True)[1].astype(np.intp)


def refuse_frame(frame: Any) -> None:
    """Raise if a data frame, which no other check looks at, is one row alone, empty, or has a name twice."""
    if frame.ndim != 2:
        raise ValueError(
            f"X is a Series of {len(frame)} values, where a table is needed: for one row of a data frame "
            "give X.iloc[[i]], for one column X[[name]]"
        )
    if not frame.columns.is_unique:
        twice = frame.columns[frame.columns.duplicated()].tolist()
        raise ValueError(f"X has more than one column called {twice[0]!r}; names must differ")
    for size, what in zip(frame.shape, ("row", "column"), strict=True):
        if size == 0:
            raise ValueError(f"X has no {what}s, shape {frame.shape}; at least one {what} is needed")


def check_row_shape(estimator: Any, X: Any, reset: bool) -> None:
    """Store the shape of an image array's rows in ``fit``; later raise if the shape differs."""
    shape = tuple(getattr(X, "shape", ()))[1:]
    if reset:
        estimator._row_shape = shape if len(shape) > 1 else None
    elif (estimator._row_shape or len(shape) > 1) and shape != estimator._row_shape:
        before = "a table" if estimator._row_shape is None else f"rows of shape {estimator._row_shape}"
        raise ValueError(f"X has rows of shape {shape}, {type(estimator).__name__} was fitted on {before}")


def positions(values: Any, known: Any, name: str, what: str = "labels not seen in fit") -> Ints:
    """Return the place of each label or group among the known ones, different and in any order.

    Raises
    ------
    ValueError
        If a value is none of the known ones: "{name} holds {what}: [...]".
    """
    values, known = np.asarray(values), np.asarray(known)
    order = np.argsort(known)
    try:
        place = order[np.searchsorted(known, values, sorter=order).clip(max=len(known) - 1)]
        stray = known[place] != values
    except TypeError:  # text and numbers have no order
        number = {value: i for i, value in enumerate(known.tolist())}
        place = np.array([number.get(value, -1) for value in values.tolist()])
        stray = place < 0
    if np.any(stray):
        raise ValueError(f"{name} holds {what}: {sorted(set(values[stray].tolist()), key=str)[:5]}")
    return place.astype(np.intp, copy=False)


def label_column(values: ArrayLike, name: str) -> Labels:
    """Return labels or groups as an array of numbers or of text.

    Raises
    ------
    ValueError
        If the column is empty, has another shape than (n,), missing entries, or anything else.
    """
    array = np.asarray(values)
    check_vector(array, name)
    refuse_missing(values, name)
    if array.dtype == object or array.dtype.kind == "T":
        kinds = {type(value) for value in array.tolist()}
        if all(issubclass(kind, str) for kind in kinds):
            array = array.astype(str)
        elif all(issubclass(kind, (bool, int, float, np.number, np.bool_)) for kind in kinds):
            array = np.array(array.tolist())
        else:
            found = ", ".join(sorted(kind.__name__ for kind in kinds))
            raise ValueError(f"{name} must hold numbers or text; found values of type {found}")
    if array.dtype.kind not in "biufU":
        raise ValueError(f"{name} must hold numbers or text, got dtype {array.dtype}")
    return array


def columns_by_name(groups: Any, name: str) -> dict[Any, Any]:
    """Return the columns of a groups argument by name: None for the only one of an array, else its number.

    Named columns are sorted by name, so that their order in the argument changes no answer.

    Raises
    ------
    ValueError
        If a table has no columns or two of one name, or an array has another shape or missing entries.
    """
    groups = as_pandas(groups)
    if isinstance(groups, Mapping) or hasattr(groups, "columns"):
        names = list(groups) if isinstance(groups, Mapping) else groups.columns.tolist()
        if not names or len(set(names)) < len(names):
            raise ValueError(f"{name} must have columns with different names, got {names}")
        return {column: groups[column] for column in _sorted(names)}
    refuse_missing(groups, name)
    array = np.asarray(groups)
    if array.ndim not in (1, 2):
        raise ValueError(f"{name} must be a 1d array or a table, got shape {array.shape}")
    if array.ndim == 1:
        return {None: array}
    return dict(enumerate(array.T)) if array.shape[1] > 1 else {None: array.ravel()}


def column_name(groups: Any) -> Any:
    """Return the name of a column, as of a Series of pandas; None for anything else."""
    name = getattr(groups, "name", None)
    return name if isinstance(name, (str, int)) else None


def _sorted(names: list[Any]) -> list[Any]:
    try:
        return sorted(names)
    except TypeError:  # text and numbers have no order
        return sorted(names, key=lambda name: (type(name).__name__, str(name)))


def distinct_labels(labels: ArrayLike, name: str = "labels") -> Labels:
    """Return a list of labels, each once, as an array of numbers or of text.

    Raises
    ------
    ValueError
        As `label_column`, or if a label stands twice.
    """
    names = label_column(labels, name)
    if len(np.unique(names)) < len(names):
        raise ValueError(f"{name} must differ, got {names.tolist()}")
    return names


def check_same_kind(values: Labels, name: str, others: Labels, other_name: str) -> None:
    """Refuse to compare text with numbers: every answer would be wrong, and silently."""
    if (values.dtype.kind == "U") != (others.dtype.kind == "U"):
        kind = {True: "text", False: "numbers"}
        raise ValueError(
            f"{name} holds {kind[values.dtype.kind == 'U']}, {other_name} {kind[others.dtype.kind == 'U']}"
        )


def check_probabilities(
    y_proba: ArrayLike, n: int, name: str = "y_proba", of: str = "y_true", tolerance: float | None = None
) -> Floats:
    """Return rows of probabilities, shape (n, K); for two classes those of the first may have been left out.

    Without a ``tolerance`` they must be in [0, 1] and sum to 1 to the precision of their type, or to 1e-6.

    Raises
    ------
    ValueError
        If they are no numbers, not in [0, 1], do not sum to 1, or are not n.
    """
    given = np.asarray(y_proba)
    if given.ndim not in (1, 2) or given.dtype.kind not in "biuf":
        raise ValueError(
            f"{name} must be numbers of shape (n, K) or (n,), got dtype {given.dtype}, shape {given.shape}"
        )
    # Some learners compute in float32, so their rows sum to 1 to that precision only.
    eps = np.finfo(given.dtype).eps if given.dtype.kind == "f" else 0.0
    tolerance = max(1e-6, float(np.sqrt(eps))) if tolerance is None else tolerance
    shares = given.astype(np.float64)
    if shares.ndim == 1:
        shares = np.column_stack([1.0 - shares, shares])
    check_length(shares, name, n, of)
    bad = ~((shares >= -tolerance) & (shares <= 1.0 + tolerance)).all(axis=1)  # NaN is bad too
    bad |= ~(np.abs(shares.sum(axis=1) - 1.0) <= tolerance)
    if bad.any():
        row = int(np.flatnonzero(bad)[0])
        raise ValueError(
            f"{name} must hold probabilities in [0, 1] that sum to 1 in each row; row {row} is "
            f"{given[row].tolist()}"
        )
    return shares


def check_labelled_rows(learner: Any, X: Any, y: Any, sample_weight: Any) -> tuple[Any, Labels, Ints, Floats]:
    """Check what a learner's ``fit`` is given: the table, the classes, class numbers and weights of the rows.

    The table is checked by the learner's own ``_checked``.

    Raises
    ------
    ValueError
        If labels or weights do not fit the table, or fewer than two classes have a row that weighs something.
    """
    if y is None:
        raise ValueError(f"{type(learner).__name__} requires y to be passed, but the target y is None")
    refuse_missing(y, "y")
    X, y = learner._checked(X, y)
    y = column_or_1d(y, warn=True)
    n = n_rows_of(X)
    check_length(y, "y", n)
    check_classification_targets(y)
    classes, index = np.unique(y, return_inverse=True)
    weight = check_weights(sample_weight, n)
    present = np.unique(index[weight > 0])
    if len(present) < 2:
        raise ValueError(
            f"y holds one class only ({classes.tolist()[present[0]]!r}) among the rows that weigh something; "
            "at least two are needed"
        )
    return X, classes, index.astype(np.intp), weight


def in_class_order(table: Any, name: str, classes: Labels) -> Any:
    """Return a table with a column for each class, its columns in the order of the classes.

    The columns of a data frame are found by name: a column has the name of its label. If the labels are
    numbers, text that spells the number is its name too. An array, and a data frame whose names are the
    default 0, 1, …, has its columns in the order of the classes.

    Parameters
    ----------
    table : array-like of shape (n, K), or (n,) for the probability of the second of two classes
        The table.
    name : str
        What messages call it.
    classes : ndarray of shape (K,)
        The labels.

    Raises
    ------
    ValueError
        If a name is unknown, missing or found twice, or the names could also be numbers of columns.
    """
    table, labels = as_pandas(table), classes.tolist()
    numeric = all(isinstance(label, (bool, int, float)) for label in labels)
    wanted = [_spelling(label, numeric) for label in labels]
    if not hasattr(table, "columns"):
        only = getattr(table, "name", None)
        if only is not None and len(labels) == 2 and _spelling(only, numeric) == wanted[0]:
            raise ValueError(
                f"{name}: the column is named {only!r}, which is the first class; of two classes the "
                f"probabilities of the second, {labels[1]!r}, are taken where one column is given"
            )
        return table
    columns = [c.item() if isinstance(c, np.generic) else c for c in table.columns]
    found = [_spelling(column, numeric) for column in columns]
    default = _is_default(table.columns)
    if default and found != wanted and sorted(found, key=str) == sorted(wanted, key=str):
        raise ValueError(
            f"{name}: its columns have the default names {columns}, and the classes are {labels}: name the "
            "columns by the labels as text, or give an array with columns in the order of the classes"
        )
    if default:
        return np.asarray(table)
    for column, spelling in zip(columns, found, strict=True):
        if spelling not in wanted:
            near = did_you_mean(str(column), map(str, labels))
            raise ValueError(
                f"{name} has a column {column!r}, which is no class: {near}the classes are {labels[:20]}; "
                "if its columns are in this order, give an array"
            )
        if found.count(spelling) > 1:
            same = [other for other, spelt in zip(columns, found, strict=True) if spelt == spelling]
            raise ValueError(f"{name} has more than one column for the class {column!r}: {same}")
    if missing := [label for label, spelling in zip(labels, wanted, strict=True) if spelling not in found]:
        raise ValueError(f"{name} has no column for the class {missing[0]!r}; its columns are {columns[:20]}")
    return np.asarray(table)[:, [found.index(spelling) for spelling in wanted]]


def _is_default(columns: Any) -> bool:
    """Whether the names of columns are those that pandas gives to columns without names."""
    return hasattr(columns, "step") and (columns.start, columns.step) == (0, 1)


def _spelling(value: Any, numeric: bool) -> Any:
    """Return the name of a column or a label such that both agree: 1, 1.0 and "1" if labels are numbers."""
    if not numeric:
        return str(value)
    try:
        return float({"True": 1, "False": 0}.get(value, value))
    except (TypeError, ValueError):
        return value


def check_costs(
    costs: Any, n: int, classes: Labels, used: Ints | None = None, name: str = "costs"
) -> Floats | None:
    """Return the cost of each answer in each row, in the order of the classes; None of None.

    Parameters
    ----------
    costs : array-like or data frame of shape (n, K), optional
        Costs; the columns of a data frame are found by name (`in_class_order`).
    n : int
        Rows that there are.
    classes : ndarray of shape (K,)
        The labels.
    used : ndarray of int, optional
        Numbers of the rows that are kept; by default all.
    name : str
        What messages call them.

    Raises
    ------
    ValueError
        If they are not K finite numbers for each row, or the names are no classes.
    """
    if costs is None:
        return None
    try:
        found = np.asarray(in_class_order(costs, name, classes), dtype=np.float64)
    except TypeError as failure:
        raise ValueError(f"{name} must be numbers: {failure}") from None
    if found.shape != (n, len(classes)):
        raise ValueError(
            f"{name} must have the shape {(n, len(classes))}, the cost of each answer in each row, got "
            f"{found.shape}"
        )
    found = found if used is None else found[used]
    if not np.isfinite(found).all():
        raise ValueError(f"{name} must be finite numbers")
    return found
