"""Schema of the data frame in ``fit``, by which later frames are read.

Columns of numbers that come as objects or text are converted to numbers. Categories are compared by their
spelling: 10, 10.0 and "10" are the same category.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from tailboost.core.array_types import Column, Table
from tailboost.core.schema import (
    MANY,
    MOSTLY,
    ColumnSchema,
    TableChangedWarning,
    TableSchema,
    as_number,
    is_code,
    text,
)
from tailboost.core.warn import warn_user

# Largest number of categories compared with later frames; a column with more holds names or free text, and
# new values are normal.
MOST_COMPARED = 1000
UNKNOWN = 0.1  # fraction of new categories above which a warning is given
ENOUGH = 20  # rows from which a column without any value known from ``fit`` is an error


def learn_columns(frame: Table) -> tuple[TableSchema, Any]:
    """Return the schema of a training table, and the table with numbers as numbers.

    A text column in the schema has no categories if later frames are not compared with them.

    Warns
    -----
    UserWarning
        If text is read as numbers, or if nearly all categories of a column are different numbers.
    """
    columns, converted = [], {}
    for j, name in enumerate(frame.columns):
        column = frame.iloc[:, j]
        described, values = ColumnSchema(str(name), "number", str(column.dtype)), None
        if hasattr(column.dtype, "categories"):
            values, n = list(column.dtype.categories), int(column.notna().sum())
            _warn_of_numbers(values, n, name)
        elif getattr(column.dtype, "kind", "O") in "OT":
            present = column.dropna()
            if (numbers := _numbers(present, name)) is None:
                values, n = list(present.unique()), len(present)
            else:
                converted[j] = _with_gaps(column, numbers)
        if values is not None:
            compared = len(values) <= min(MOST_COMPARED, n / 2)
            spellings = tuple(sorted({text(value) for value in values})) if compared else ()
            described = dataclasses.replace(described, kind="text", categories=spellings)
        columns.append(described)
    return TableSchema(tuple(columns)), _replaced(frame, converted)


def read_columns(frame: Table, schema: TableSchema) -> Any:
    """Return a later table with numbers as numbers; columns are found by position.

    Raises
    ------
    ValueError
        If at least 20 values of a column are all unknown, or a number column holds dates.

    Warns
    -----
    TableChangedWarning
        If a number column holds other text, or more than a tenth of the categories of a column are new.
    """
    converted, changes = {}, []
    for j, (known, name, dtype) in enumerate(zip(schema.columns, frame.columns, frame.dtypes, strict=True)):
        kind = "category" if hasattr(dtype, "categories") else getattr(dtype, "kind", "O")
        if known.kind == "number" and kind in ("m", "M", "c"):
            raise ValueError(f"X, column {name!r} held numbers in fit, and holds {dtype} here")
        if not known.categories and (known.kind == "text" or kind in "fiub"):
            continue
        column = frame.iloc[:, j]
        present = column.dropna()
        code, values = present.factorize()
        if known.kind == "number":
            numbers = np.array([_number(value) for value in values], dtype=np.float64)[code]
            unknown, least, what = np.isnan(numbers), 0.0, "are no numbers"
            converted[j] = _with_gaps(column, numbers)
        else:
            unknown = ~np.array([text(value) in known.categories for value in values], dtype=bool)[code]
            shown = ", ".join(map(repr, known.categories[:4])) + ", …" * (len(known.categories) > 4)
            least, what = UNKNOWN, f"were not in fit ({shown})"
        if not len(present) or unknown.mean() <= least:
            continue
        example = present.iloc[int(np.flatnonzero(unknown)[0])]
        words = f"column {name!r}: {unknown.sum():,} of {len(unknown):,} values {what}, such as {example!r}"
        if unknown.all() and len(unknown) >= ENOUGH:
            raise ValueError(
                f"X, {words}; no value is known from fit: spell them as in fit, in the same data frame"
            )
        changes.append(words)
    if changes:
        warn_user(f"X, {'; '.join(changes)}; they count as missing or unknown", TableChangedWarning)
    return _replaced(frame, converted)


def _numbers(present: Any, name: Any) -> Any:
    """Return the numbers of a column of objects or text, NaN for other values; None for categories.

    Text is read as numbers if nearly all values spell numbers, none is a code such as 01234, and there are
    many different numbers.
    """
    code, values = present.factorize()
    numbers = np.array([_number(value) for value in values], dtype=np.float64)
    texts = [value for value in values if isinstance(value, str)]
    odd = np.isnan(numbers)
    if not texts:
        return None if odd.any() or not len(values) else numbers[code]
    many = MANY if len(texts) == len(values) else 0
    if odd[code].mean() > 1 - MOSTLY or len(np.unique(numbers[~odd])) <= many or any(map(is_code, texts)):
        return None
    n, but = int(odd[code].sum()), ""
    if n:
        but = f", but {n:,} of {len(code):,} count as missing (such as {values[odd.argmax()]!r})"
    warn_user(
        f"X, column {name!r}: the text of its values spells numbers{but}; it is read as numbers. For "
        f'categories make it a categorical column: X[{name!r}].astype("category")'
    )
    return numbers[code]


def _number(value: object) -> float:
    spelled = float(value) if isinstance(value, bool | np.bool_) else as_number(value)
    return float("nan") if spelled is None else spelled


def _warn_of_numbers(categories: list[Any], n: int, name: Any) -> None:
    if len(categories) > max(MANY, n / 2) and not any(np.isnan(_number(c)) for c in categories):
        warn_user(
            f"X, column {name!r}: its {len(categories):,} categories are numbers, nearly all of them "
            f"different. For amounts use X[{name!r}].astype(float)"
        )


def _with_gaps(column: Column, numbers: Any) -> Any:
    """Return numbers of the present values as a column of all rows, NaN for missing values."""
    whole = np.full(len(column), np.nan)
    whole[column.notna().to_numpy()] = numbers
    return whole


def _replaced(frame: Table, columns: dict[int, Any]) -> Any:
    if not columns:
        return frame
    parts = [
        type(frame.iloc[:, j])(columns[j], index=frame.index, name=name) if j in columns else frame.iloc[:, j]
        for j, name in enumerate(frame.columns)
    ]
    return type(frame)(dict(enumerate(parts)), index=frame.index).set_axis(frame.columns, axis=1)
