"""Checks of numbers, weights, probabilities, costs and tables, and of rows in several of them.

A message begins with the name of the argument, and says what is expected and what was given.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np

from tailboost.core.array_types import Column, Floats, Labels, Table
from tailboost.core.frames import Partitions, n_rows_of, refuse_unread
from tailboost.core.labels import in_class_order
from tailboost.core.words import how_many, shown

#: Largest mean of sample weights that count rows, such as equal rows in one line of a table.
LARGEST_MEAN_WEIGHT = 1e9
# Significant bits of weights, fewer than the 53 of float64 and more than the 24 of float32.
_WEIGHT_BITS = 32
# Rounding of probabilities that this process has computed: some learners do so in float32. `ROUNDED` is that
# of given scores.
_PROBABILITY_ROUNDING = 1e-3
# Tolerance of a mean of 1: a mean within it is not scaled.
_WEIGHT_ROUNDING = 1e-9


# -- numbers and weights ---------------------------------------------------------------------------


def finite(values: Column, name: str) -> Floats:
    """Return finite numbers as an array of float64, in the shape of ``values``."""
    try:
        array = np.asarray(values)
        if array.dtype.kind not in "biufO":  # of dates, NumPy would make numbers
            raise TypeError(f"numbers are needed, got {array.dtype}")
        checked = np.asarray(array, float)
    except (TypeError, ValueError, OverflowError) as error:
        raise ValueError(f"{name}: {error}") from error
    if not np.isfinite(checked).all():
        raise ValueError(f"{name} contains NaN or infinity")
    return checked


def check_weights(weights: Column, n: int, name: str = "sample_weight") -> Floats:
    """Return the weights of n rows as float64, shape (n,): finite, at least 0, not all 0.

    ``weights`` is an array of n numbers, one number for all rows, or None for 1. Messages call them ``name``.
    """
    if weights is None:
        weights = 1.0
    checked = finite(weights, name)
    if checked.shape not in ((), (n,)):
        raise ValueError(f"{name}.shape == {checked.shape}, expected ({n},)")
    if (checked < 0).any() or not checked.any():
        raise ValueError(f"Negative values in data passed to `{name}`, or only zeros")
    return np.full(n, checked)


def row_weights(weights: Column, n: int, name: str = "sample_weight") -> Floats:
    """Return sample weights as numbers of rows, shape (n,): a row of weight 2 counts as two rows.

    - If the mean of the weights above 0 is from 1 to `LARGEST_MEAN_WEIGHT`, they count rows.
    - Others are relative, and are scaled until this mean is 1: 1/n, 1e-300 and 1e300 for all rows mean 1.
      One below 1e-307 times the largest may become 0.
    - All are rounded to 32 significant bits, so that the rounding errors of a common factor decide no ties
      between splits.

    For None the array is read-only.
    """
    if weights is None:
        return np.broadcast_to(1.0, n)  # takes no memory
    checked = check_weights(weights, n, name)
    largest = checked.max()
    relative = checked / largest  # no sum of these overflows
    mean = relative[relative > 0].mean()
    if not 1 - _WEIGHT_ROUNDING <= mean * largest <= LARGEST_MEAN_WEIGHT:
        checked = relative / mean
    mantissa, exponent = np.frexp(checked)  # a weight is mantissa · 2^exponent
    return np.ldexp(np.rint(np.ldexp(mantissa, _WEIGHT_BITS)), exponent - _WEIGHT_BITS)


# -- probabilities and costs -----------------------------------------------------------------------


def check_probabilities(
    y_proba: Table,
    name: str = "y_proba",
    tolerance: float = _PROBABILITY_ROUNDING,
    classes: Labels | None = None,
) -> Floats:
    """Return rows of probabilities, shape (n, K); one column is the second of two classes.

    They must be in [0, 1], to the ``tolerance``, and sum to 1, to the tolerance for each column. With
    ``classes`` there must be a column for each, and those with names get their order (`in_class_order`).
    """
    if classes is not None:
        y_proba = in_class_order(y_proba, name, classes)
    probabilities = finite(y_proba, name)
    if probabilities.ndim == 1:  # of the second of two classes
        probabilities = np.column_stack([1.0 - probabilities, probabilities])
    if probabilities.ndim != 2:
        raise ValueError(
            f"{name} must have the shape (n, K) or (n,), got {probabilities.shape}"
        )
    K = probabilities.shape[1]
    if classes is not None and len(classes) != K:
        raise ValueError(
            f"{name} has {how_many(K, 'column')} for classes {shown(classes.tolist())}: "
            "give probabilities of each, or the answers; metrics take all labels by labels="
        )
    outside = (probabilities < -tolerance) | (probabilities > 1.0 + tolerance)
    faults = outside.any(axis=1) | (np.abs(probabilities.sum(axis=1) - 1.0) > K * tolerance)
    if faults.any():
        row = np.argmax(faults)
        raise ValueError(
            f"{name} must hold probabilities in [0, 1] that sum to 1 in each row; row {row} is "
            f"{np.asarray(y_proba)[row].tolist()}"
        )
    return probabilities


def check_costs(costs: Table, n: int, classes: Labels, name: str = "costs") -> Floats | None:
    """Return the cost of each answer for each row, shape (n, K), in the order of the classes; None for None.

    Columns of a data frame are matched by name (`in_class_order`).
    """
    if costs is None:
        return None
    checked = finite(in_class_order(costs, name, classes), name)
    if checked.shape != (n, len(classes)):
        raise ValueError(
            f"{name} must have the shape {(n, len(classes))} of answers, got {checked.shape}"
        )
    return checked


# -- tables ------------------------------------------------------------------------------------------------


def check_length(values: Column, name: str, n: int, of: str = "X") -> None:
    """Raise unless there is one entry for each of the n rows of ``of``."""
    if n_rows_of(values) != n:
        raise ValueError(f"{name} has {how_many(n_rows_of(values), 'row')}, {of} has {n:,}")


def check_indexes(**of_rows: Any) -> None:
    """Raise if pandas objects about the same rows have different indexes: rows are matched by position.

    Labels, groups and weights that are not in memory, and masked ones, are refused here (`refuse_unread`).
    Arguments without an index, and of another length, are left to other checks. Entries of a dict are
    compared one by one, and counted `Partitions` have an index. The first index is the reference of others.

    Examples
    --------
    >>> import pandas as pd
    >>> from tailboost.core.checks import check_indexes
    >>> X, y = pd.DataFrame({"age": [30, 40]}, index=[7, 3]), pd.Series([0, 1], index=[3, 7])
    >>> check_indexes(X=X, y=y)
    Traceback (most recent call last):
    ...
    ValueError: y and X have different pandas indexes. Give y.loc[X.index] to match the rows, or \
y.to_numpy() if they are in the same order
    """
    first = ""
    index: Any = None
    for argument, values in of_rows.items():
        columns = {argument: values}
        if isinstance(values, Mapping):
            columns = {f"{argument}[{key!r}]": column for key, column in values.items()}
        for name, column in columns.items():
            refuse_unread(column, name)
            if isinstance(column, Partitions):
                column = column.index_frame
            if not hasattr(column, "iloc"):
                continue
            if not first:
                first = name
                index = column.index
            if len(column) == len(index) and not column.index.equals(index):
                raise ValueError(
                    f"{name} and {first} have different pandas indexes. Give {name}.loc[{first}.index] "
                    f"to match the rows, or {name}.to_numpy() if they are in the same order"
                )
