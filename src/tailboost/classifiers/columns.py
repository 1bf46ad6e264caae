"""What the columns of a data frame held in a fit, so that later frames mean the same.

A column of numbers that came as objects or as text is read as numbers, at the fit and ever after, and values
that the fit did not know are counted. Categories are compared by their spelling: 10, 10.0 and "10" are one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np

from tailboost.core.schema import MANY, MOSTLY, TableChangedWarning, number, text
from tailboost.core.warn import warn_user

# Spellings of the categories of each column, None for numbers; no spellings where they are not compared.
Known: TypeAlias = list[list[str] | None]

# Categories that are compared with later ones: more are texts or names, of which new ones always come.
MOST_COMPARED = 1000
# A share of unknown values from which on there is a warning, and rows from which on none known is an error.
UNKNOWN, ENOUGH = 0.1, 20


def learn_columns(frame: Any) -> tuple[Known, Any]:
    """Return what the columns of a training table hold, and the table with numbers as numbers.

    Warns
    -----
    UserWarning
        Where text is read as numbers, and where the categories of a column are numbers nearly all different.
    """
    known: Known = []
    read = {}
    for j, name in enumerate(frame.columns):
        column = frame.iloc[:, j]
        kind = "category" if hasattr(column.dtype, "categories") else getattr(column.dtype, "kind", "O")
        if kind != "category" and kind not in "OT":
            known.append(None)
            continue
        present = column.dropna()
        if kind != "category":
            numbers = _numbers(present, name)
            if numbers is None:
                known.append(known_values(present.unique(), len(present)))
                continue
            read[j] = _placed(column, numbers)
            known.append(None)
            continue
        categories = list(column.dtype.categories)
        _note_numbers(categories, len(present), name)
        known.append(known_values(categories, len(present)))
    return known, _replaced(frame, read)


def known_values(values: Any, n_rows: int | None = None) -> list[str]:
    """Return the spellings of a column's categories, none where there are too many to be compared."""
    most = MOST_COMPARED if n_rows is None else min(MOST_COMPARED, n_rows / 2)
    return sorted({text(value) for value in values}) if len(values) <= most else []


def read_columns(frame: Any, known: Known) -> Any:
    """Return a later table with numbers as numbers, as `learn_columns` did for the first.

    Raises
    ------
    ValueError
        If of at least 20 values of a column none is known from the fit, or dates stand for numbers.

    Warns
    -----
    TableChangedWarning
        Names columns with text for numbers, or with more than a tenth of categories that the fit had not.
    """
    read, changes = {}, []
    for j, (spellings, name, dtype) in enumerate(zip(known, frame.columns, frame.dtypes, strict=True)):
        kind = "category" if hasattr(dtype, "categories") else getattr(dtype, "kind", "O")
        if spellings is None and kind in ("m", "M", "c"):
            raise ValueError(f"X, column {name!r} held numbers in fit, and holds {dtype} here")
        if kind in "fiub" and not spellings:
            continue
        column = frame.iloc[:, j]
        present = column.dropna()
        if spellings is None:
            code, values = present.factorize()
            numbers = np.array([_number(value) for value in values], dtype=np.float64)[code]
            unknown, least, what = np.isnan(numbers), 0.0, "are no numbers"
            read[j] = _placed(column, numbers)
        elif spellings:
            code, values = present.factorize()
            unknown = ~np.array([text(value) in spellings for value in values], dtype=bool)[code]
            least, what = UNKNOWN, f"were not there in fit (it had {_shown(spellings)})"
        else:
            continue
        if not len(present) or unknown.mean() <= least:
            continue
        example = present.iloc[int(np.flatnonzero(unknown)[0])]
        words = f"column {name!r}: {unknown.sum():,} of {len(unknown):,} values {what}, such as {example!r}"
        if unknown.all() and len(unknown) >= ENOUGH:
            raise ValueError(f"X, {words}; none is known: spell them as in fit, and give a data frame alike")
        changes.append(words)
    if changes:
        warn_user(f"X, {'; '.join(changes)}; they count as missing or as unknown", TableChangedWarning)
    return _replaced(frame, read)


def _numbers(present: Any, name: Any) -> Any:
    """Return the numbers of a column of objects or text, NaN for other values; None where it holds others.

    It is one where all values are numbers. Of text, or where text is among numbers, it is one where nearly
    all values spell numbers, no code such as 01234 among them, and text spells many different ones.
    """
    code, values = present.factorize()
    numbers = np.array([_number(value) for value in values], dtype=np.float64)
    texts = [value for value in values if isinstance(value, str)]
    odd = np.isnan(numbers)
    if not texts:
        return None if odd.any() or not len(values) else numbers[code]
    many = MANY if len(texts) == len(values) else 0
    if odd[code].mean() > 1 - MOSTLY or len(np.unique(numbers[~odd])) <= many or any(map(_is_code, texts)):
        return None
    n = int(odd[code].sum())
    but = (
        f", but {n:,} of {len(code):,}, which count as missing (such as {values[odd.argmax()]!r})"
        if n
        else ""
    )
    warn_user(
        f"X, column {name!r}: the text of its values spells numbers{but}; it is read as numbers. For "
        f'categories make it a categorical column: X[{name!r}].astype("category")'
    )
    return numbers[code]


def _is_code(value: str) -> bool:
    return len(value) > 1 and value[0] == "0" and value[1].isdigit()


def _number(value: Any) -> float:
    spelled = float(value) if isinstance(value, bool | np.bool_) else number(value)
    return float("nan") if spelled is None else spelled


def _note_numbers(categories: Sequence[Any], n: int, name: Any) -> None:
    if len(categories) > max(MANY, n / 2) and not any(np.isnan(_number(c)) for c in categories):
        warn_user(
            f"X, column {name!r}: its {len(categories):,} categories are numbers, nearly all of them "
            f"different; as categories they say little. If they are amounts, X[{name!r}].astype(float)"
        )


def _placed(column: Any, numbers: Any) -> Any:
    """Return numbers of the rows that have a value as a column of all rows, NaN where there is none."""
    whole = np.full(len(column), np.nan)
    whole[column.notna().to_numpy()] = numbers
    return whole


def _replaced(frame: Any, columns: dict[int, Any]) -> Any:
    if not columns:
        return frame
    parts = [
        type(frame.iloc[:, j])(columns[j], index=frame.index, name=name) if j in columns else frame.iloc[:, j]
        for j, name in enumerate(frame.columns)
    ]
    return type(frame)(dict(enumerate(parts)), index=frame.index).set_axis(frame.columns, axis=1)


def _shown(spellings: list[str]) -> str:
    return ", ".join(map(repr, spellings[:4])) + (", …" if len(spellings) > 4 else "")
