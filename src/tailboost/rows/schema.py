"""The kinds of columns: of data frames, CSV and Parquet files and Dask collections, and of later tables.

A schema describes the first table, and later tables are read by it. `dtype_kind` decides by the dtype,
`ColumnSchema.of` for tables of declared types, `as_written` for the text of CSV files, and `learn_columns`
for data frames in ``fit``: there objects and text may be numbers. Categories are compared by their spelling:
10, 10.0 and "10" are the same category.
"""

from __future__ import annotations

import json
import math
import re
import warnings
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, replace
from decimal import Decimal
from numbers import Real
from typing import Any, Literal, TypeAlias, get_args

import numpy as np
from numpy.typing import NDArray

from tailboost.core.array_types import Column, Ints, Table
from tailboost.core.checks import is_nested
from tailboost.core.exceptions import TableChangedWarning as TableChangedWarning
from tailboost.core.spelling import MOST_COLUMNS, did_you_mean, listed, other_separator
from tailboost.core.table_files import import_pandas
from tailboost.core.warn import warn_user
from tailboost.core.written_numbers import (
    MANY,
    MOSTLY,
    as_number,
    refuse_commas,
    refuse_commas_among_numbers,
)

Kind: TypeAlias = Literal["number", "truth", "text"]
DtypeKind: TypeAlias = Literal["number", "truth", "text", "categories", "dates", "complex"]
_DTYPE_KINDS: dict[str, DtypeKind] = {"b": "truth", "c": "complex", "m": "dates", "M": "dates"}
_DTYPE_KINDS |= dict.fromkeys("iuf", "number")

_CODE = re.compile(r"\s*[+-]?0\d")  # 01234, but not 0.5
_TRUTH = {"true": 1.0, "false": 0.0}
_WHOLE = re.compile(r"-?(0|[1-9][0-9]*)\.0+", re.ASCII)  # 12.0, but not 012.0
# Largest number of categories compared with later frames; a column with more holds names or free text, and
# new values are normal.
MOST_COMPARED = 1000
UNKNOWN = 0.1  # fraction of new categories above which a warning is given
ENOUGH = 20  # rows from which a column without any value known from ``fit`` is an error
_AS_CATEGORIES = '; for categories make it a categorical column: {}.astype("category")'
_TYPES = (str, Real, Decimal, np.bool_)
NUMBERS = ("integer", "floating", "mixed-integer-float", "decimal")
_KINDS = {*NUMBERS, "string", "boolean", "empty", "mixed", "mixed-integer"}


def dtype_kind(dtype: Any) -> DtypeKind:
    """Return the kind of values that a dtype declares; "text" for objects and for dtypes of one library."""
    if hasattr(dtype, "categories"):
        return "categories"
    return _DTYPE_KINDS.get(dtype.kind, "text")


def is_plain(dtype: Any, *kinds: DtypeKind) -> bool:
    """Return whether a dtype is NumPy's, of the given kinds: a table has all such columns at once."""
    return isinstance(dtype, np.dtype) and dtype_kind(dtype) in kinds


@dataclass(frozen=True)
class ColumnSchema:
    """Schema of one column.

    Attributes
    ----------
    name : str
        Name of the column.
    kind : {"number", "truth", "text"}
        Kind of its values.
    dtype : str
        Its dtype in the first table.
    categories : tuple of str
        Sorted distinct values of a text column without missing ones; for the target, the labels.
    """

    name: str
    kind: Kind
    dtype: str
    categories: tuple[str, ...] = ()

    @classmethod
    def of(cls, column: Column) -> ColumnSchema:
        """Return the schema of a column by its dtype; a dtype that is no number or truth value is text."""
        types = import_pandas("TableSchema").api.types
        if column.dtype == object:  # a transposed table has numbers as objects
            column = column.infer_objects()
        name = str(column.name)
        dtype = column.dtype
        if dtype_kind(dtype) == "truth":
            return cls(name, "truth", str(dtype))
        if types.is_numeric_dtype(dtype):  # also of decimals
            return cls(name, "number", str(dtype))
        texts = {each for each in _texts(column) if each is not None}
        if dtype_kind(dtype) == "text":
            refuse_commas(
                texts, f"column {name!r}", remedy=_AS_CATEGORIES.format(f"X[{name!r}]")
            )
        return cls(name, "text", str(dtype), tuple(sorted(texts)))


@dataclass(frozen=True)
class TableSchema:
    """Schema of a table: `read` converts later tables in the same way as the first.

    Each value is converted independently, so a row has the same values alone and in any table.

    ==============================  ====================================================================
    in the later table              conversion
    ==============================  ====================================================================
    number column                   numbers, and text that spells a number; other values become missing
    truth column                    true, false (in any case), 1 and 0; other values become missing
    text column                     the unchanged text; whole numbers without ".0"
    new category                    kept; the model handles unknown categories
    new column                      ignored
    missing column                  ValueError with its name
    infinite numbers, dates, lists  ValueError with the name of the column
    decimal commas, 1,000           ValueError with the option that reads them
    ==============================  ====================================================================

    One `TableChangedWarning` has the counts of missing, new and ignored values and columns.

    Attributes
    ----------
    columns : tuple of ColumnSchema
        The features, in order.
    target : ColumnSchema or None
        Schema of the labels. A later table may have this column; it is ignored without a warning.

    Examples
    --------
    >>> import pandas as pd
    >>> from tailboost.datasets import TableSchema
    >>> schema = TableSchema.of(pd.DataFrame({"zip": ["01234", "A1B"], "age": [31, 54]}))
    >>> [(column.name, column.kind) for column in schema.columns]
    [('zip', 'text'), ('age', 'number')]
    >>> schema.read(pd.DataFrame({"age": ["47"], "zip": ["01234"]})).to_dict("list")
    {'zip': ['01234'], 'age': [47.0]}
    """

    columns: tuple[ColumnSchema, ...]
    target: ColumnSchema | None = None

    @classmethod
    def of(cls, data: Table, target: Any = None) -> TableSchema:
        """Return the schema of a table.

        Parameters
        ----------
        data : DataFrame of shape (n, d)
            Features, as from `load_table`. The kind of a column follows from its dtype.
        target : Series of length n, optional
            Labels.
        """
        columns = tuple(ColumnSchema.of(data.iloc[:, j]) for j in range(data.shape[1]))
        return cls(columns, None if target is None else ColumnSchema.of(target))

    def __getstate__(self) -> dict[str, str]:
        # JSON text is small in a model file, and reading it creates no types named by the file.
        return {"json": json.dumps(asdict(self))}

    def __setstate__(self, state: dict[str, str]) -> None:
        def column(fields: dict[str, Any]) -> ColumnSchema:
            read = ColumnSchema(**{**fields, "categories": tuple(fields["categories"])})
            texts = (read.name, read.dtype, *read.categories)
            if read.kind not in get_args(Kind) or not all(
                isinstance(text, str) for text in texts
            ):
                raise ValueError(f"no column is described by {str(fields)[:80]}")
            return read

        fields = json.loads(state["json"])
        target = fields["target"]
        columns = tuple(column(f) for f in fields["columns"])
        vars(self).update(columns=columns, target=None if target is None else column(target))

    def read(self, frame: Table) -> Any:
        """Convert a table.

        Parameters
        ----------
        frame : DataFrame of shape (m, at least d)
            Table with columns in any order, typed or all text as in a CSV file.

        Returns
        -------
        DataFrame of shape (m, d)
            Numbers and truth values are float64 with NaN for missing values, text is categorical.

        Raises
        ------
        ValueError
            If columns are missing, numbers are infinite, or values are no numbers, truth values or text.
        TypeError
            If ``frame`` is no pandas data frame.

        Warns
        -----
        TableChangedWarning
            Once, with counts of values of another kind, new categories and new columns.
        """
        pandas = import_pandas("TableSchema")
        refuse_arrays(frame)
        given = frame.columns.tolist()
        if not all(isinstance(name, str) for name in given):
            given = [str(name) for name in given]
            frame = frame.set_axis(given, axis=1)
        names = [column.name for column in self.columns]
        present = set(given)
        missing = [name for name in names if name not in present]
        known = {*names, *([] if self.target is None else [self.target.name])}
        new = [name for name in given if name not in known]
        if missing:
            near = did_you_mean(missing[0], new)
            has = other_separator(given) or f"{near}the table has {listed(given)}"
            raise ValueError(
                f"missing column{'s' * (len(missing) > 1)} {listed(missing)}; {has}"
            )
        changes = []
        if new:
            changes.append(
                f"{len(new)} new column{'s' * (len(new) > 1)} ignored ({listed(new)})"
            )
        # Number columns are converted together: one by one the conversion takes longer than most models.
        typed = dict(zip(given, frame.dtypes, strict=True))
        ready = [
            c.name
            for c in self.columns
            if c.kind == "number" and is_plain(typed[c.name], "number")
        ]
        numbers = (frame if ready == given else frame[ready]).to_numpy(dtype=np.float64)
        for j in np.flatnonzero(np.isinf(numbers).any(axis=0))[:1].tolist():
            _refuse_infinite(numbers[:, j], ready[j])
        table = pandas.DataFrame(numbers, columns=ready, index=frame.index)
        for j, column in enumerate(self.columns):
            if column.name in ready:
                continue
            values, change = _READERS[column.kind](frame[column.name], column)
            table.insert(j, column.name, values)
            if change:
                changes.append(f"column {column.name!r}: {change}")
        if changes:
            if len(changes) > MOST_COLUMNS:
                more = f"; and {len(changes) - MOST_COLUMNS} more"
            else:
                more = ""
            warnings.warn(
                "the table differs from the one fitted on: "
                f"{'; '.join(changes[:MOST_COLUMNS])}{more}",
                TableChangedWarning,
                stacklevel=2,
            )
        return table


def refuse_arrays(table: Table) -> None:
    """Raise TypeError if a table is no pandas data frame."""
    if not (hasattr(table, "columns") and hasattr(table, "iloc")):
        raise TypeError(
            f"a data frame of pandas is needed, with named columns, got {type(table).__name__}"
        )


def _converted(
    column: Column, convert: Callable[[Any], float | None], otherwise: str
) -> tuple[NDArray[np.float64], str]:
    if convert is as_number and dtype_kind(column.dtype) == "number":
        numbers = np.array(column.to_numpy(dtype=np.float64, na_value=np.nan))
        other: list[int] = []
    else:
        values = _values(column)
        converted = [None if value is None else convert(value) for value in values]
        numbers = np.array(
            [np.nan if value is None else value for value in converted], dtype=np.float64
        )
        other = [
            i for i, value in enumerate(values) if value is not None and converted[i] is None
        ]
        if other and convert is as_number:
            texts = [value for value in values if isinstance(value, str)]
            refuse_commas_among_numbers(texts, f"column {column.name!r}")
    _refuse_infinite(numbers, column.name)
    if not other:
        return numbers, ""
    return numbers, (
        f"{len(other)} of {len(column)} values {otherwise} and count as missing "
        f"(row {other[0]} holds {str(column.iloc[other[0]])[:40]!r})"
    )


def _refuse_infinite(numbers: NDArray[np.float64], name: str) -> None:
    infinite = np.flatnonzero(np.isinf(numbers))
    if infinite.size:
        raise ValueError(
            f"column {name!r} has infinite values (row {infinite[0]}, counted from 0)"
        )


def _read_texts(column: Column, schema: ColumnSchema) -> tuple[Any, str]:
    pandas = import_pandas("TableSchema")
    texts = _texts(column)
    known = set(schema.categories)
    unseen = [each for each in texts if each is not None and each not in known]
    categories = [*schema.categories, *sorted(set(unseen))]
    read = pandas.Categorical(texts, categories=pandas.Index(categories, dtype=object))
    if not unseen:
        return read, ""
    such = repr(unseen[0][:40])
    return read, f"{len(unseen)} of {len(column)} values are new categories (such as {such})"


_READERS: dict[Kind, Callable[[Any, ColumnSchema], tuple[Any, str]]] = {
    "number": lambda column, schema: _converted(column, as_number, "are no numbers"),
    "truth": lambda column, schema: _converted(column, _truth, "are neither true nor false"),
    "text": _read_texts,
}


def _truth(value: object) -> float | None:
    if isinstance(value, bool | np.bool_):
        return float(value)
    if isinstance(value, str) and value.casefold() in _TRUTH:
        return _TRUTH[value.casefold()]
    digit = as_number(value)
    if digit in (0.0, 1.0):
        return digit
    return None


def text(value: Any) -> str:
    """Return the name of a category; 12 and 12.0 are both "12", since gaps turn integers into floats."""
    whole = (
        isinstance(value, float | np.floating | Decimal)
        and math.isfinite(value)
        and value == int(value)
    )
    if whole:
        return str(int(value))
    return str(value)


def group_name(value: object) -> str:
    """Return the name of the group of a value, whatever the type of its column.

    1, 1.0, "1" and "1.0" are "1": gaps turn whole numbers into floats, also in a file that pandas writes.
    Other text is its own name, also a code such as "01".
    """
    name = text(value)
    if _WHOLE.fullmatch(name):
        return name.partition(".")[0]
    return name


def group_names(column: Column, missing: str) -> NDArray[Any]:
    """Return the names of the groups of a column of a data frame as text, ``missing`` for missing values."""
    values = column.to_numpy(dtype=object).tolist()
    gone = column.isna().tolist()
    if {*map(type, values)} == {str}:
        of_text = {value: group_name(value) for value in {*values}}
        return np.array([of_text[value] for value in values], dtype=object)
    names = [
        missing if no_value else group_name(v) for v, no_value in zip(values, gone, strict=True)
    ]
    return np.array(names, dtype=object)


def _texts(column: Column) -> list[str | None]:
    """Return the values of a column as text, None for missing ones."""
    return [None if value is None else text(value) for value in _values(column)]


def _values(column: Column) -> list[Any]:
    """Return the values of a column, None for missing ones; refuse other kinds than `refuse_kinds` allows."""
    values = column.to_numpy(dtype=object).tolist()
    if all(
        isinstance(v, str) or v is None or (isinstance(v, float) and v != v) for v in values
    ):
        return [v if isinstance(v, str) else None for v in values]
    refuse_kinds(column, f"column {column.name!r}")
    return [None if gone else v for v, gone in zip(values, column.isna().tolist(), strict=True)]


def as_written(values: list[Any], *, feature: bool = True) -> tuple[NDArray[Any] | None, int]:
    """Convert the values of a CSV column (text, NaN for missing) to numbers or truth values.

    A ``feature`` with a code such as 01234 stays text. A feature with nearly all numbers becomes numbers, and
    other values become missing. The result is the column (None for text), and the number of other values.
    """
    texts = [value for value in values if isinstance(value, str)]
    gaps = len(texts) < len(values)
    if not gaps and all(t.casefold() in _TRUTH for t in texts):
        return np.array([t.casefold() == "true" for t in texts], dtype=bool), 0
    numbers = _spelled(texts, int((1 - MOSTLY) * len(texts)) if feature else 0)
    if numbers is None:
        return None, 0
    n_odd = int(np.isnan(numbers).sum())
    if feature and not _are_numbers(
        numbers, texts, n_odd / max(len(texts), 1), MANY if n_odd else -1
    ):
        return None, 0
    if not (gaps or n_odd) and all(
        len(t) < 25 and "." not in t and "e" not in t.lower() for t in texts
    ):
        whole = [0 if math.isinf(x) else int(t) for x, t in zip(numbers, texts, strict=True)]
        if not np.isinf(numbers).any() and max(map(abs, whole), default=0) < 2**63:
            return np.array(whole, dtype=np.int64), 0
    read = iter(numbers)
    return np.array(
        [next(read) if isinstance(v, str) else np.nan for v in values], dtype=np.float64
    ), n_odd


def _are_numbers(
    numbers: NDArray[np.float64], texts: Iterable[str], odd: float, few: int
) -> bool:
    """Return whether values are numbers: most spell one, more than ``few`` differ, and no text is a code.

    ``odd`` is the fraction of rows with other values, which are NaN in ``numbers``.
    """
    n_different = len(np.unique(numbers[~np.isnan(numbers)]))
    return odd <= 1 - MOSTLY and n_different > few and not any(map(_CODE.match, texts))


def _spelled(texts: Iterable[str], most_odd: int) -> NDArray[np.float64] | None:
    """Return the numbers that texts spell, NaN for other texts; None if these are more than ``most_odd``."""
    numbers = []
    odd = 0
    for each in texts:
        value = as_number(each)
        odd += value is None
        if odd > most_odd:
            return None
        numbers.append(math.nan if value is None else value)
    return np.array(numbers, dtype=np.float64)


def refuse_kinds(column: Column, what: str) -> str:
    """Return pandas' name of the kind of a column: numbers, truth values or text.

    Raises
    ------
    ValueError
        If the column holds dates, times, lists, bytes or other values.
    """
    pandas = import_pandas("load_table")
    if dtype_kind(column.dtype) == "categories":
        values = pandas.Series(column.cat.categories)
    else:
        values = column
    kind = str(pandas.api.types.infer_dtype(values, skipna=True))
    if kind.startswith(("date", "time", "period")):
        raise ValueError(
            f"{what} holds dates or times (such as {str(values.dropna().iloc[0])[:40]!r}); "
            "drop the column or turn it into numbers, for instance days before a fixed day"
        )
    if kind in (
        "mixed",
        "mixed-integer",
    ):  # of several types, or of one that pandas does not name
        odd = sorted({type(v).__name__ for v in values.dropna() if not isinstance(v, _TYPES)})
        if odd:
            kind = odd[0]
    if kind not in _KINDS:
        raise ValueError(f"{what} holds {kind} values; numbers, text and true/false are known")
    return kind


def distinct(column: Column, what: str) -> tuple[Ints, Any]:
    """Return the position of each value of a column of a data frame among the distinct ones, and these.

    Missing values have the position −1. Raise ValueError, with the name ``what``, for lists and other values
    that cannot be compared.
    """
    try:
        place, values = column.factorize()
    except TypeError:
        refuse_kinds(column, what)
        raise
    if any(map(is_nested, values)):  # tuples can be compared
        refuse_kinds(column, what)
    return np.asarray(place), values


# -- data frames in fit ------------------------------------------------------------------------------------


def learn_columns(frame: Table) -> tuple[TableSchema, Any]:
    """Return the schema of a training table, and the table with numbers as numbers.

    A text column in the schema has no categories if later frames are not compared with them.

    Warns
    -----
    UserWarning
        If text is read as numbers, or if nearly all categories of a column are different numbers.
    """
    columns = []
    converted = {}
    for j, name in enumerate(frame.columns):
        column = frame.iloc[:, j]
        described = ColumnSchema(str(name), "number", str(column.dtype))
        values = None
        kind = dtype_kind(column.dtype)
        if kind == "categories":
            values = list(column.dtype.categories)
            n = int(column.notna().sum())
            _warn_of_numbers(values, n, name)
        elif kind == "text":
            present = column.dropna()
            numbers = _numbers(present, name)
            if numbers is None:
                values = list(present.unique())
                n = len(present)
            else:
                converted[j] = _with_gaps(column, numbers)
        if values is not None:
            compared = len(values) <= min(MOST_COMPARED, n / 2)
            if compared:
                spellings = tuple(sorted({text(value) for value in values}))
            else:
                spellings = ()
            described = replace(described, kind="text", categories=spellings)
        columns.append(described)
    return TableSchema(tuple(columns)), _replaced(frame, converted)


def read_columns(frame: Table, schema: TableSchema) -> Any:
    """Return a later table with numbers as numbers; columns are found by position.

    Raises
    ------
    ValueError
        If at least 20 values of a column are all unknown, or a number column holds dates or decimal commas.

    Warns
    -----
    TableChangedWarning
        If a number column holds other text, or more than a tenth of the categories of a column are new.
    """
    converted = {}
    changes = []
    for j, (known, name, dtype) in enumerate(
        zip(schema.columns, frame.columns, frame.dtypes, strict=True)
    ):
        kind = dtype_kind(dtype)
        if known.kind == "number" and kind in ("dates", "complex"):
            raise ValueError(f"X, column {name!r} held numbers in fit, and holds {dtype} here")
        if not known.categories and (known.kind == "text" or kind in ("number", "truth")):
            continue
        column = frame.iloc[:, j]
        present = column.dropna()
        code, values = distinct(present, f"X, column {name!r}")
        if known.kind == "number":
            numbers = np.array([_number_or_nan(value) for value in values], dtype=np.float64)[
                code
            ]
            unknown = np.isnan(numbers)
            least = 0.0
            what = "are no numbers"
            if unknown.any():
                texts = [value for value in values if isinstance(value, str)]
                refuse_commas_among_numbers(texts, f"X, column {name!r}")
            converted[j] = _with_gaps(column, numbers)
        else:
            unknown = ~np.array(
                [text(value) in known.categories for value in values], dtype=bool
            )[code]
            shown = ", ".join(map(repr, known.categories[:4])) + ", …" * (
                len(known.categories) > 4
            )
            least = UNKNOWN
            what = f"were not in fit ({shown})"
        if not len(present) or unknown.mean() <= least:
            continue
        example = present.iloc[int(np.flatnonzero(unknown)[0])]
        if isinstance(example, np.generic):
            example = example.item()
        words = f"column {name!r}: {unknown.sum():,} of {len(unknown):,} values {what}, such as {example!r}"
        if unknown.all() and len(unknown) >= ENOUGH:
            raise ValueError(
                f"X, {words}; no value is known from fit: spell them as in fit, in the same "
                "data frame"
            )
        changes.append(words)
    if changes:
        warn_user(
            f"X, {'; '.join(changes)}; they count as missing or unknown", TableChangedWarning
        )
    return _replaced(frame, converted)


def _numbers(present: Any, name: Any) -> Any:
    """Return the numbers of a column of objects or text, NaN for other values; None for categories.

    Text is read as numbers if nearly all values spell numbers, none is a code such as 01234, and there are
    many different numbers.
    """
    code, values = distinct(present, f"X, column {name!r}")
    numbers = np.array([_number_or_nan(value) for value in values], dtype=np.float64)
    texts = [value for value in values if isinstance(value, str)]
    odd = np.isnan(numbers)
    if not texts:
        if odd.any() or not len(values):
            return None
        return numbers[code]
    if odd.any():
        refuse_commas(
            texts, f"X, column {name!r}", remedy=_AS_CATEGORIES.format(f"X[{name!r}]")
        )
    if not _are_numbers(
        numbers, texts, odd[code].mean(), MANY if len(texts) == len(values) else 0
    ):
        return None
    n = int(odd[code].sum())
    but = ""
    if n:
        but = (
            f", but {n:,} of {len(code):,} count as missing (such as {values[odd.argmax()]!r})"
        )
    warn_user(
        f"X, column {name!r}: the text of its values spells numbers{but}; it is read as "
        "numbers. For "
        f'categories make it a categorical column: X[{name!r}].astype("category")'
    )
    return numbers[code]


def _number_or_nan(value: object) -> float:
    spelled = float(value) if isinstance(value, bool | np.bool_) else as_number(value)
    if spelled is None:
        return float("nan")
    return spelled


def _warn_of_numbers(categories: list[Any], n: int, name: Any) -> None:
    if len(categories) > max(MANY, n / 2) and not any(
        np.isnan(_number_or_nan(c)) for c in categories
    ):
        warn_user(
            f"X, column {name!r}: its {len(categories):,} categories are numbers, nearly all "
            f"of them different. For amounts use X[{name!r}].astype(float)"
        )


def _with_gaps(column: Column, numbers: Any) -> Any:
    """Return numbers of the present values as a column of all rows, NaN for missing values."""
    whole = np.full(len(column), np.nan)
    whole[column.notna().to_numpy()] = numbers
    return whole


def _replaced(frame: Table, columns: dict[int, Any]) -> Any:
    if not columns:
        return frame
    changed = frame.copy(deep=False)
    for j, values in columns.items():
        changed.isetitem(j, values)
    return changed
