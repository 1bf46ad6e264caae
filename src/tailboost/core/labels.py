"""Columns of labels and groups: their distinct entries, and the position of each row's.

Entries are numbers, or text. Other columns are refused, and missing entries with their number and first row.
"""

import re
from collections.abc import Collection, Iterable, Sequence
from decimal import Decimal
from numbers import Real
from typing import Any

import numpy as np

from tailboost.core.array_types import Array, Column, Ints, Labels, Mask, Table
from tailboost.core.frames import as_pandas, columns_of
from tailboost.core.words import shown, text


def is_missing(value: object) -> bool:
    """Return whether a value is None, NaN or pandas' NA or NaT."""
    if isinstance(value, Real | Decimal):
        return value != value
    return type(value).__name__ in ("NoneType", "NAType", "NaTType")


def plain(value: Any) -> Any:
    """Return a label or a subgroup's name with plain Python numbers; also for tuples."""
    if isinstance(value, tuple):
        return tuple(map(plain, value))
    if isinstance(value, np.generic):
        return value.item()
    return value


def label_column(values: Any, name: str, *, target: bool = False) -> Labels:
    """Return labels as an array of numbers or of text, shape (n,), see `coded`."""
    names, position_of_row = coded(values, name, target=target)
    return names[position_of_row]


def as_array(values: Any) -> Any:
    """Return an array, a Series or the like unchanged, and a list as an array of objects.

    NumPy would turn 1 beside "a" into "1", and True beside 0.5 into 1.0.
    """
    if hasattr(values, "dtype"):
        return values
    return np.asarray(values, object)


def read_column(column: Any, name: str, *, target: bool = False) -> tuple[Array, Ints, Mask]:
    """Return the distinct entries of a column, the position of each row's, and which are missing.

    Numbers and dates ascend. Other entries are objects; intervals of pandas are text. If an entry has no
    hash, as a list, all that are neither text nor numbers are tuples of their text.

    Infinite numbers are missing. In a ``target``, the labels of a fit or ids, blank text is missing, too, and
    its shape may be (n, 1), for which scikit-learn warns. Raise ValueError for another shape than (n,).
    """
    # Of a million rows categories and text of pandas take .02 seconds, objects .1.
    kind = str(getattr(column, "dtype", ""))
    if kind in ("category", "str", "string"):
        if kind == "category" and column.dtype.categories.inferred_type == "interval":
            column = getattr(column, "cat", column).rename_categories(str)
        position_of_row, values = column.factorize(use_na_sentinel=False)
        entries, position_of_value, missing = read_column(
            np.asarray(values), name, target=target
        )
        return entries, position_of_value[position_of_row], missing

    values = np.asarray(as_array(column))
    if target and values.ndim > 1:
        from sklearn.utils import column_or_1d  # a rule of a file answers without it

        values = column_or_1d(values, warn=True)
    if values.ndim != 1:
        raise ValueError(
            f"{name} should be a 1d array, got shape {values.shape}: give the column itself"
        )
    if values.dtype.kind in "biufcmM":
        entries, position_of_row = distinct_and_positions(values)
        return entries, position_of_row, ~np.isfinite(entries)

    # A dict finds objects, and text, of which NumPy sorts a million in seconds.
    given = values.tolist()
    try:
        distinct = dict.fromkeys(given)
    except TypeError:  # an entry has no hash: its text has one, in a tuple that equals no text
        given = [
            each if is_missing(each) or isinstance(each, str | Real) else (text(each),)
            for each in given
        ]
        distinct = dict.fromkeys(given)
    are_missing = [
        is_missing(each) or each in (np.inf, -np.inf) or (target and not str(each).strip())
        for each in distinct
    ]
    entries = np.fromiter(distinct, object)
    return entries, _positions(given, distinct), np.array(are_missing, bool)


def _positions(entries: list[Any], known: Iterable[Any]) -> Ints:
    """Return the position of each entry among distinct known ones, shape (n,)."""
    position_of = {value: j for j, value in enumerate(known)}
    return np.fromiter(map(position_of.__getitem__, entries), np.intp)


def coded(
    values: Any,
    name: str,
    remedy: str = "give them a value, or leave such rows out of all tables",
    *,
    target: bool = False,
) -> tuple[Labels, Ints]:
    """Return the distinct labels or groups of a column, ascending, and the position of each row's.

    The entries are numbers or text, see `read_column`. The message about missing ones counts rows, and ends
    with the ``remedy``.

    Raises
    ------
    ValueError
        If the column is empty, has another shape than (n,), has missing entries, or mixes kinds.
    """
    entries, position_of_row, missing = read_column(values, name, target=target)
    if not entries.size:
        raise ValueError(f"{name} has no rows (0 samples)")
    if missing.any():
        missing = missing[position_of_row]
        raise ValueError(
            f"{name} contains NaN or None{', or blank text' * target}: {missing.sum()} of "
            f"{missing.size} entries are missing or infinite (first in row {missing.argmax()}, "
            f"counted from 0); {remedy}"
        )
    if entries.dtype.kind == "O":
        given = entries.tolist()
        for kind in (Real | np.bool_, str):  # if kinds mix, entries remain objects
            if all(isinstance(each, kind) for each in given):
                entries = np.array(given)
        # NumPy makes floats of small whole numbers beside some from 2⁶³ on. An unsigned type holds both, but
        # no type holds negative ones, too.
        if entries.dtype.kind == "f" and {*map(type, given)} == {int}:
            entries = np.array(given, object if min(given) < 0 else np.uint64)
    if entries.dtype.kind not in "biufU":
        raise ValueError(
            f"{name} must hold text, or numbers of 64 bits, such as years for dates, and not "
            f"both: got {sorted({type(each).__name__ for each in entries})}. Complex data not supported"
        )
    names, position_of_entry = distinct_and_positions(entries)
    return names, position_of_entry[position_of_row]


def distinct_and_positions(values: Array) -> tuple[Array, Ints]:
    """Return the distinct values, ascending, and the position of each value among them, shape (n,).

    Whole numbers in a short range are counted, in a tenth of the time of `numpy.unique`.
    """
    if values.dtype.kind in "iu" and values.size:
        low = values.min()
        if int(values.max()) - int(low) < values.size:
            # In this type differences do not overflow.
            offset = values.astype(np.intp) - low.astype(np.intp)
            occurs = np.bincount(offset) > 0
            names = low + np.flatnonzero(occurs).astype(values.dtype)
            return names, (np.cumsum(occurs) - 1)[offset]
    return np.unique(values, return_inverse=True)


def least_type(n: int) -> Any:
    """Return the least type of integers from −1 to n: for few labels or groups a row takes one byte."""
    return np.min_scalar_type(-1 - n)


def positions(
    values: Column, known: Any, name: str, fault: str = "labels not seen in fit"
) -> Ints:
    """Return the position of each label or group among the known ones, shape (n,).

    ``known`` has distinct values in any order. Text is no number here: where both may name one group, as
    after a file, `as_known` comes first.

    Raises
    ------
    ValueError
        If a value is unknown: "{name} holds {fault}: [...]; known are …".
    """
    known_values = as_array(known).tolist()
    entries = as_array(values).tolist()
    unknown = sorted(set(entries).difference(known_values), key=str)
    if unknown:
        raise ValueError(
            f"{name} holds {fault}: {unknown[:5]!s:.300}; known are {shown(known_values):.1000}"
        )
    return _positions(entries, known_values)


def in_class_order(table: Table, name: str, classes: Labels) -> Any:
    """Return a table with a column for each of the K classes, shape (n, K), in the order of the classes.

    The columns of a data frame or a dict are matched to the labels by name; a number may be a name as text.
    Columns with the default names 0, 1, … that are not the labels are in the order of the classes. Arrays and
    a single column, the values of the second of two classes, are returned unchanged. Messages call the table
    ``name``.
    """
    table = as_pandas(table)
    names = classes.tolist()
    titles = columns_of(table)
    if not titles:
        # With two classes a Series may have the name of the first, which is all but the last.
        if as_known([getattr(table, "name", None)], names) == names[:-1]:
            raise ValueError(
                f"{name} is the column of the class {names[0]}: give that of {names[-1]}"
            )
        return table
    columns = as_known(titles, names)
    if len(columns) != len(names) or {*columns} != {*names}:
        if titles != [*range(len(names))]:  # the default names
            raise ValueError(
                f"{name} must have a column for each class {shown(names)}, got the columns "
                f"{shown(columns)}; if these are in the order of the classes, give an array"
            )
        columns = names
    return np.column_stack([table[titles[columns.index(label)]] for label in names])


# Texts of truth values, in any case, as the numbers that they are.
TRUTH = {"true": "1", "false": "0"}
# A whole number that a gap has made a fraction, with either decimal sign.
_WHOLE = re.compile(r"^(-?\d+)[.,]0\Z")


def written(name: Any) -> str:
    """Return the text that labels, groups or ids share if they are the same.

    It is "1" for 1, 1.0, True, "1", "1.0", "1,0" and "TRUE".
    """
    name = _WHOLE.sub(r"\1", text(name))
    return TRUTH.get(name.lower(), name)


def as_known(names: Sequence[Any], known: Collection[Any]) -> list[Any]:
    """Return labels or groups, in the place of each the known one that is the same (`written`).

    If known ones are the same, such as "1" and "1.0", none is replaced.
    """
    known_of = {written(value): value for value in known}
    if len(known_of) < len(known):
        known_of = {}
    return [each if is_missing(each) else known_of.get(written(each), each) for each in names]
