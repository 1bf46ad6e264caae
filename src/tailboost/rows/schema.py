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
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from decimal import Decimal
from importlib import import_module
from numbers import Real
from typing import Any, Literal, TypeAlias, get_args

import numpy as np
from numpy.typing import NDArray

from tailboost.core.array_types import Array, Column, Floats, Ints, Mask, Table
from tailboost.core.checks import MISSING_GROUP, is_missing
from tailboost.core.exceptions import TableChangedWarning as TableChangedWarning
from tailboost.core.exceptions import warn_user
from tailboost.core.spelling import (
    COLUMNS_NAMED,
    as_typed,
    cut_to,
    did_you_mean,
    if_no_header,
    joined,
    listed,
    number_form,
    other_separator,
    shell_word,
)
from tailboost.core.written_numbers import (
    MANY,
    MOSTLY,
    as_number,
    refuse_commas_among_numbers,
    refuse_other_numbers,
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
CATEGORIES_COMPARED = 1000
UNKNOWN = 0.1  # fraction of new categories above which a warning is given
# Rows from which a column without any value known from ``fit`` is an error, and without
# any value a warning.
ROWS_WITHOUT_KNOWN = 20
# Probability of as many values without a number by chance, with the share of the fit, below which a later
# table gets a warning.
CHANCE_OF_OTHERS = 0.001
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
    n_others : int
        Number of values of the first table that are no numbers in a number column, and count as missing.
    n_values : int
        Number of rows of the first table; 0 unless there are such values.
    """

    name: str
    kind: Kind
    dtype: str
    categories: tuple[str, ...] = ()
    n_others: int = 0
    n_values: int = 0

    def expects(self, n_others: int, n_values: int) -> bool:
        """Return whether so many values without a number are within the noise of the first table's share."""
        if not self.n_others:
            return not n_others
        # The import takes long, and most tables have no such values.
        from scipy.stats import hypergeom

        n_both = self.n_others + n_others
        chance = hypergeom.sf(n_others - 1, self.n_values + n_values, n_both, n_values)
        return bool(chance >= CHANCE_OF_OTHERS)

    @property
    def others_in_fit(self) -> str:
        """The count of the fit for a warning about more values without a number; empty if it had none."""
        if not self.n_others:
            return ""
        return f", and {self.n_others:,} of {self.n_values:,} in the fit"

    @classmethod
    def of(cls, column: Column) -> ColumnSchema:
        """Return the schema of a column by its dtype; a dtype that is no number or truth value is text."""
        types = import_module("pandas").api.types
        if column.dtype == object:  # a transposed table has numbers as objects
            column = column.infer_objects()
        name = str(column.name)
        dtype = column.dtype
        if dtype_kind(dtype) == "truth":
            return cls(name, "truth", str(dtype))
        if types.is_numeric_dtype(dtype):  # also of decimals
            return cls(name, "number", str(dtype))
        texts = {value for value in _texts(column) if value is not None}
        if dtype_kind(dtype) == "text":
            refuse_other_numbers(
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
    number column                   numbers, also in text, and truth values as 1 and 0; others are refused
    the same, with text in the fit  other text becomes missing, as in the fit
    truth column                    true, false (in any case), 1 and 0; other values are refused
    text column                     the unchanged text; whole numbers without ".0"
    new category                    kept; the model handles unknown categories
    new column                      ignored
    missing column                  ValueError with its name
    infinite numbers, dates, lists  ValueError with the name of the column
    decimal commas, 1,000           ValueError with the option that reads them
    20 values, none of this kind    ValueError with the name of the column
    ==============================  ====================================================================

    One `TableChangedWarning` has the counts of values that became missing and of new categories.

    Attributes
    ----------
    columns : tuple of ColumnSchema
        The features, in order.
    target : ColumnSchema or None
        Schema of the labels. A later table may have this column; it is ignored without a warning.

    Examples
    --------
    >>> import pandas as pd
    >>> from tailboost.rows.schema import TableSchema
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
            Features. The kind of a column follows from its dtype.
        target : Series of length n, optional
            Labels.
        """
        columns = tuple(ColumnSchema.of(data.iloc[:, j]) for j in range(data.shape[1]))
        if target is None:
            return cls(columns)
        return cls(columns, ColumnSchema.of(target))

    def counting_others(self, data: Table, written: Table) -> TableSchema:
        """Return the schema with the counts of values without a number.

        They are missing in ``data``, and present in the table ``written`` as its file has it.
        """
        columns = []
        for column in self.columns:
            if column.kind == "number":
                is_other = data[column.name].isna() & written[column.name].notna()
                if is_other.any():
                    column = replace(column, n_others=int(is_other.sum()), n_values=len(data))
            columns.append(column)
        return replace(self, columns=tuple(columns))

    def __getstate__(self) -> dict[str, str]:
        # JSON text is small in a model file, and reading it creates no types named by the file.
        return {"json": json.dumps(asdict(self))}

    def __setstate__(self, state: dict[str, str]) -> None:
        fields = json.loads(state["json"])
        columns = tuple(map(_column_of_json, fields["columns"]))
        target = None
        if fields["target"] is not None:
            target = _column_of_json(fields["target"])
        vars(self).update(columns=columns, target=target)

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
            If columns are missing, numbers are infinite, or values are of another kind than in the fit.
        TypeError
            If ``frame`` is no pandas data frame.

        Warns
        -----
        TableChangedWarning
            Once, with counts of new categories, and of text in a number column that had text in the first
            table, if its share is now larger beyond noise. A new column changes no answer.
        UserWarning
            If a table of at least 20 rows has columns with only missing values.
        """
        refuse_arrays(frame)
        if not all(isinstance(name, str) for name in frame.columns):
            frame = frame.set_axis([str(name) for name in frame.columns], axis=1)
        self._refuse_missing_columns(frame)
        table = self._plain_numbers(frame)
        names_of_numbers = set(table.columns)
        changes = []
        for j, column in enumerate(self.columns):
            if column.name in names_of_numbers:
                continue
            read_column = _numbers_of
            if column.kind == "text":
                read_column = _read_texts
            values, change = read_column(frame[column.name], column)
            table.insert(j, column.name, values)
            if change:
                changes.append(change)
        _warn_of_changes(changes)
        warn_of_empty_columns(table)
        return table

    def _plain_numbers(self, frame: Any) -> Any:
        """Return the columns of numbers that the frame has as numbers, as a data frame of float64.

        They are converted together: one by one the conversion takes longer than most models. Raise ValueError
        for infinite numbers.
        """
        pandas = import_module("pandas")
        dtypes = dict(zip(frame.columns, frame.dtypes, strict=True))
        names = [
            column.name
            for column in self.columns
            if column.kind == "number" and is_plain(dtypes[column.name], "number")
        ]
        number_columns = frame
        if names != frame.columns.tolist():
            number_columns = frame[names]
        numbers = number_columns.to_numpy(dtype=np.float64)
        for j in np.flatnonzero(np.isinf(numbers).any(axis=0)).tolist():
            _refuse_infinite(numbers[:, j], names[j])
        return pandas.DataFrame(numbers, columns=names, index=frame.index)

    def _refuse_missing_columns(self, frame: Any) -> None:
        """Raise ValueError if the columns of a later table lack a feature."""
        names = frame.columns.tolist()
        features = [column.name for column in self.columns]
        expected = set(features)
        if self.target is not None:
            expected.add(self.target.name)
        missing = [name for name in features if name not in set(names)]
        if missing:
            new = [name for name in names if name not in expected]
            advice = other_separator(names)
            if not advice:
                hint = did_you_mean(missing[0], new)
                advice = f"{hint}the table has {listed(names)}{if_no_header(names, frame)}"
            columns = number_form(len(missing), "column", "columns")
            raise ValueError(f"missing {columns} {listed(missing)}; {advice}")


def _column_of_json(fields: dict[str, Any]) -> ColumnSchema:
    """Return the schema of a column from its JSON; raise ValueError if a field has another type."""
    column = ColumnSchema(**{**fields, "categories": tuple(fields["categories"])})
    entries = (column.name, column.dtype, *column.categories)
    has_texts = all(isinstance(entry, str) for entry in entries)
    has_counts = type(column.n_others) is int and type(column.n_values) is int
    if column.kind not in get_args(Kind) or not has_texts or not has_counts:
        raise ValueError(f"no column is described by {str(fields)[:80]}")
    return column


def refuse_arrays(table: Table) -> None:
    """Raise TypeError if a table is no pandas data frame."""
    if not (hasattr(table, "columns") and hasattr(table, "iloc")):
        raise TypeError(
            f"a data frame of pandas is needed, with named columns, got {type(table).__name__}"
        )


def _numbers_of(column: Column, fitted: ColumnSchema) -> tuple[Floats, str]:
    """Return the numbers of a later column, NaN for missing and other values, and a clause about the others.

    The clause is empty if the first table leads one to expect so many other values. If it had none, they
    raise ValueError.
    """
    what = f"column {column.name!r}"
    refuse_kinds(column, what)
    code, values = distinct(column, what)
    convert = _CONVERTERS[fitted.kind]
    numbers = np.array([*map(convert, values), math.nan])  # a missing value has the code −1
    is_other = np.isnan(numbers)
    is_other[-1] = False
    if fitted.kind == "number" and is_other.any():
        # 1,5 is a number in other countries: an error names the option that reads it.
        refuse_commas_among_numbers([value for value in values if isinstance(value, str)], what)
    numbers, is_other = numbers[code], is_other[code]
    _refuse_infinite(numbers, column.name)
    if fitted.expects(int(is_other.sum()), len(column)):
        return numbers, ""
    change = _change(column, is_other, _OTHERWISE[fitted.kind])
    _refuse_unknown(column, is_other, change)
    if not fitted.n_others:
        raise ValueError(
            f"{change}, and the fit had no such value: write it as in the fit, and leave "
            "unknown values empty"
        )
    return numbers, f"{change}{fitted.others_in_fit}; they count as missing"


def _change(column: Column, is_unknown: Mask, fault: str) -> str:
    """Return a clause about the rows of a column with unknown values, which names the first of them."""
    row = int(is_unknown.argmax())
    example = column.iloc[row]
    if isinstance(example, np.generic):  # printed as a plain value
        example = example.item()
    return (
        f"column {column.name!r}: {is_unknown.sum():,} of {column.count():,} values {fault}, "
        f"such as {cut_to(repr(example), 42)}"
    )


def _refuse_unknown(column: Column, is_unknown: Mask, change: str) -> None:
    """Raise ValueError if a column has at least 20 values, and all are unknown; ``change`` tells of them.

    Fewer values may all be unknown, so that one row is read as among others.
    """
    n_unknown = int(is_unknown.sum())
    if n_unknown >= ROWS_WITHOUT_KNOWN and n_unknown == column.count():
        raise ValueError(
            f"{change}; no value is known from the fit: write them as in its rows, and leave "
            "unknown values empty"
        )


def _warn_of_changes(changes: Sequence[str]) -> None:
    """Warn once of the changed columns of a later table; of many only the first have their clause."""
    if not changes:
        return
    words = joined(changes, COLUMNS_NAMED, "; ")
    warn_user(f"the table differs from the one fitted on: {words}", TableChangedWarning)


def warn_of_empty_columns(table: Table) -> None:
    """Warn once of the columns of a table of at least 20 rows that have only missing values."""
    if len(table) < ROWS_WITHOUT_KNOWN:
        return
    first_rows = table.iloc[:ROWS_WITHOUT_KNOWN].isna().all().to_numpy()  # spares most columns
    candidates = table.loc[:, first_rows]
    empty = candidates.columns[candidates.isna().all().to_numpy()].tolist()
    if empty:
        noun = number_form(len(empty), "column", "columns")
        warn_user(f"only missing values in {noun} {listed(empty)}")


def _refuse_infinite(numbers: Floats, name: str) -> None:
    """Raise ValueError if a column has infinite values; ``name`` is the column."""
    if np.isinf(numbers).any():
        raise ValueError(f"column {name!r} has infinite values")


def _read_texts(column: Column, fitted: ColumnSchema) -> tuple[Any, str]:
    """Return a text column as categories, and a clause about values that are not in the schema.

    The categories of the schema keep their codes: new ones follow them. The clause is empty without new
    values.
    """
    pandas = import_module("pandas")
    texts = _texts(column)
    new_values = {value for value in texts if value is not None} - {*fitted.categories}
    categories = [*fitted.categories, *sorted(new_values)]
    encoded_column = pandas.Categorical(
        texts, categories=pandas.Index(categories, dtype=object)
    )
    if not new_values:
        return encoded_column, ""
    is_new = np.array([value in new_values for value in texts])
    return encoded_column, _change(column, is_new, "are new categories")


def _truth(value: object) -> float:
    """Return 1 for true and 0 for false, also as text or a number; NaN for another value."""
    if isinstance(value, str) and value.casefold() in _TRUTH:
        return _TRUTH[value.casefold()]
    number = _number_or_nan(value)
    if number in (0.0, 1.0):
        return number
    return math.nan


def _number_or_nan(value: object) -> float:
    """Return the number of a truth value, a number or the text of one; NaN for another value."""
    if isinstance(value, bool | np.bool_):
        return float(value)
    number = as_number(value)
    if number is None:
        return math.nan
    return number


_CONVERTERS: dict[Kind, Callable[[Any], float]] = {"number": _number_or_nan, "truth": _truth}
_OTHERWISE: dict[Kind, str] = {
    "number": "are no numbers",
    "truth": "are neither true nor false",
}


def text(value: Any) -> str:
    """Return the name of a category; 12 and 12.0 are both "12", since gaps turn integers into floats."""
    is_float = isinstance(value, float | np.floating | Decimal)
    if is_float and math.isfinite(value) and value == int(value):
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


def group_names(column: Column) -> Array:
    """Return the names of the groups of a column of a data frame as text, "missing" for missing values."""
    if isinstance(column.dtype, import_module("pandas").StringDtype):
        place, texts = column.factorize()  # a missing value has the place −1, the last
        return np.array([*map(group_name, texts), MISSING_GROUP], dtype=object)[place]
    values = column.to_numpy(dtype=object).tolist()
    if {*map(type, values)} == {str}:  # a name for each distinct text is faster
        name_of = {value: group_name(value) for value in {*values}}
        return np.array([name_of[value] for value in values], dtype=object)
    names = np.array([group_name(value) for value in values], dtype=object)
    names[column.isna().to_numpy()] = MISSING_GROUP
    return names


def _texts(column: Column) -> list[str | None]:
    """Return the values of a column as text, None for missing ones."""
    return [None if value is None else text(value) for value in _values(column)]


def _values(column: Column) -> list[Any]:
    """Return the values of a column, None for missing ones; refuse other kinds than `refuse_kinds` allows."""
    values = column.to_numpy(dtype=object).tolist()
    if not all(isinstance(value, str) or is_missing(value) for value in values):
        refuse_kinds(column, f"column {column.name!r}")
    for row in np.flatnonzero(column.isna().to_numpy()).tolist():
        values[row] = None
    return values


def as_written(values: list[Any], *, feature: bool) -> Array | None:
    """Return the texts of a CSV column as numbers or truth values; None if the column stays text.

    A missing value is NaN. A ``feature`` with a code such as 01234 stays text. A feature with nearly all
    numbers becomes numbers, and other texts become missing values.
    """
    texts = [value for value in values if isinstance(value, str)]
    has_gaps = len(texts) < len(values)
    if not has_gaps and all(value.casefold() in _TRUTH for value in texts):
        return np.array([value.casefold() == "true" for value in texts], dtype=bool)

    most_other = int((1 - MOSTLY) * len(texts)) if feature else 0
    numbers = _spelled_numbers(texts, most_other)
    if numbers is None or (feature and any(map(_CODE.match, texts))):
        return None
    has_others = bool(np.isnan(numbers).any())
    # Beside other texts, a few different numbers may be categories.
    if feature and has_others and _n_different(numbers) <= MANY:
        return None

    if not has_gaps and not has_others:
        integers = _written_integers(texts)
        if integers is not None:
            return integers
    column = np.full(len(values), np.nan)
    column[[isinstance(value, str) for value in values]] = numbers
    return column


def _written_integers(texts: Sequence[str]) -> NDArray[np.int64] | None:
    """Return the integers of texts that are numbers; None if one is no integer or has too many digits."""
    longest = 24  # more than the digits of int64, with separators
    if not all(len(text) <= longest and not re.search("[.einEIN]", text) for text in texts):
        return None  # a point, an exponent, "inf" or "nan"
    integers = list(map(int, texts))
    if max(map(abs, integers), default=0) >= 2**63:
        return None
    return np.array(integers, dtype=np.int64)


def _n_different(numbers: Floats) -> int:
    """Return how many different numbers there are, NaN aside."""
    return len(np.unique(numbers[~np.isnan(numbers)]))


def _spelled_numbers(texts: Iterable[str], most_other: int) -> Floats | None:
    """Return the numbers of texts, NaN for a text without a number; None for more than ``most_other`` NaN."""
    numbers = []
    n_other = 0
    for spelled in texts:
        number = as_number(spelled)
        if number is None:
            n_other += 1
            number = math.nan
        if n_other > most_other:
            return None
        numbers.append(number)
    return np.array(numbers, dtype=np.float64)


class DatesError(ValueError):
    """The error for a column of dates or times, named ``what``, with one of its values."""

    def __init__(self, what: str, example: Any) -> None:
        super().__init__(
            f"{what} holds dates or times (such as {str(example)[:40]!r}); drop the column or "
            "turn it into numbers, for instance days before a fixed day"
        )


def refuse_kinds(column: Column, what: str) -> str:
    """Return pandas' name of the kind of a column: numbers, truth values or text.

    Raises
    ------
    ValueError
        If the column holds dates, times, lists, bytes or other values.
    """
    pandas = import_module("pandas")
    if dtype_kind(column.dtype) == "categories":
        values = pandas.Series(column.cat.categories)
    else:
        values = column
    kind = str(pandas.api.types.infer_dtype(values, skipna=True))
    if kind.startswith(("date", "time", "period")):
        raise DatesError(what, values.dropna().iloc[0])
    if kind in ("mixed", "mixed-integer"):  # several types, or one that pandas does not name
        other_types = {type(v).__name__ for v in values.dropna() if not isinstance(v, _TYPES)}
        if other_types:
            kind = min(other_types)
    if kind not in _KINDS:
        raise ValueError(f"{what} holds {kind} values; numbers, text and true/false are known")
    return kind


class ColumnFaults:
    """The faults of a table's columns, for one error about all of them.

    Parameters
    ----------
    drop : str
        The argument in Python that leaves out the columns {}: the cure of dates.
    """

    def __init__(self, drop: str) -> None:
        self.drop = drop
        self.messages: dict[Any, str] = {}  # by column
        self.dates: list[Any] = []  # columns of dates

    @contextmanager
    def collecting(self, name: Any) -> Iterator[None]:
        """Keep the ValueError of the block, which is about the column of this name."""
        try:
            yield
        except DatesError as fault:
            self.messages[name] = str(fault)
            self.dates.append(name)
        except ValueError as fault:
            self.messages[name] = str(fault)

    def refuse(self) -> None:
        """Raise one ValueError with all faults, if there are any; columns of one fault share its words."""
        names_by_fault: dict[str, list[Any]] = {}
        for name, message in self.messages.items():
            without_example = message.partition(" (such as ")[0]
            fault = without_example.removeprefix(f"column {name!r}")
            names_by_fault.setdefault(fault, []).append(name)

        faults = []
        for first, *others in names_by_fault.values():
            words = self.messages[first]
            if others:
                words += f"; so does column {', '.join(map(repr, others))}"
            if first in self.dates:
                in_shell = " ".join(f"--drop {shell_word(name)}" for name in self.dates)
                cure = as_typed(self.drop.format(self.dates), in_shell)
                words += f". To leave out all dates: {cure}"
            faults.append(words)
        if len(faults) == 1:
            raise ValueError(faults[0])
        if faults:
            numbered = [f"({number}) {fault}" for number, fault in enumerate(faults, 1)]
            raise ValueError(f"{len(faults)} faults: {'. '.join(numbered)}")


def distinct(column: Column, what: str) -> tuple[Ints, Any]:
    """Return the code of each row, shape (n,), and the distinct values of a column of a data frame.

    A code is the position of the row's value among the distinct values, −1 for a missing value. Lists and
    other values that cannot be compared raise ValueError, which calls the column ``what``.
    """
    try:
        code, values = column.factorize()
    except TypeError:  # a list cannot be hashed
        refuse_kinds(column, what)
        raise
    if any(
        isinstance(value, tuple) for value in values
    ):  # can be hashed, and is no value of a table
        refuse_kinds(column, what)
    return np.asarray(code), values


# -- data frames in fit ------------------------------------------------------------------------------------


def learn_columns(frame: Table) -> tuple[TableSchema, Any]:
    """Return the schema of a training table, and the table with text that spells numbers as numbers.

    A text column of many different values has no categories in the schema: new values are normal there. One
    ValueError names all columns that are refused.

    Warns
    -----
    UserWarning
        If text is read as numbers, or if nearly all categories of a column are different numbers.
    """
    columns = []
    converted = {}
    faults = ColumnFaults("X.drop(columns={})")
    for j, name in enumerate(frame.columns):
        with faults.collecting(name):
            schema, numbers = _learned_column(frame.iloc[:, j], name)
            columns.append(schema)
            if numbers is not None:
                converted[j] = numbers
    faults.refuse()
    return TableSchema(tuple(columns)), _replaced(frame, converted)


def _learned_column(column: Any, name: Any) -> tuple[ColumnSchema, Floats | None]:
    """Return the schema of a column of a training table, and its numbers if they are spelled as text.

    Parameters
    ----------
    column : Series of length n
        The column.
    name : object
        Its name.

    Returns
    -------
    schema : ColumnSchema
    numbers : ndarray of shape (n,) or None
        NaN for missing values and other texts; None if the column stays as it is.
    """
    schema = ColumnSchema(str(name), "number", str(column.dtype))
    kind = dtype_kind(column.dtype)
    if kind == "categories":
        categories = list(column.dtype.categories)
        n_present = int(column.count())
        _warn_of_numbers(categories, n_present, name)
        return _schema_of_text(schema, categories, n_present), None
    if kind != "text":
        return schema, None
    present = column.dropna()
    present_numbers = _numbers(present, name)
    if present_numbers is None:
        return _schema_of_text(schema, list(present.unique()), len(present)), None
    numbers = np.full(len(column), np.nan)
    numbers[column.notna().to_numpy()] = present_numbers
    n_others = int(np.isnan(present_numbers).sum())
    if n_others:
        schema = replace(schema, n_others=n_others, n_values=len(column))
    return schema, numbers


def _schema_of_text(
    schema: ColumnSchema, categories: list[Any], n_present: int
) -> ColumnSchema:
    """Return the schema of a text column; its categories are in it if most values occur twice or more."""
    schema = replace(schema, kind="text")
    # A column where most values occur once holds names or free text.
    if len(categories) > min(CATEGORIES_COMPARED, n_present / 2):
        return schema
    spellings = sorted({text(value) for value in categories})
    return replace(schema, categories=tuple(spellings))


def read_columns(frame: Table, schema: TableSchema) -> Any:
    """Return a later table with text that spells numbers as numbers; columns are found by position.

    Raises
    ------
    ValueError
        If at least 20 values of a column are all unknown. If a number column holds dates or decimal commas,
        or text that it had not in fit.

    Warns
    -----
    TableChangedWarning
        If a number column holds a larger share of text than in fit, beyond noise. Or if more than a
        tenth of the categories of a column are new.
    """
    converted = {}
    changes = []
    for j, fitted in enumerate(schema.columns):
        column = frame.iloc[:, j]
        change = ""
        if fitted.kind == "number":
            if dtype_kind(column.dtype) not in ("number", "truth"):
                converted[j], change = _numbers_of(column, fitted)
        elif fitted.categories:
            change = _new_categories(column, fitted)
        if change:
            changes.append(change)
    _warn_of_changes(changes)
    return _replaced(frame, converted)


def _new_categories(column: Column, fitted: ColumnSchema) -> str:
    """Return a clause about the new categories of a column; "" if a tenth of its values or fewer have one."""
    code, values = distinct(column, f"column {column.name!r}")
    is_new = np.array([text(value) not in fitted.categories for value in values] + [False])[
        code
    ]
    if is_new.sum() <= UNKNOWN * column.count():
        return ""
    shown = [*map(repr, fitted.categories[:4])]
    if len(fitted.categories) > 4:
        shown.append("…")
    change = _change(column, is_new, f"were not in fit ({', '.join(shown)})")
    _refuse_unknown(column, is_new, change)
    return change


def _numbers(present: Any, name: Any) -> Any:
    """Return the number of each row of a column of objects or text, NaN for a value without a number.

    The result is None for a column of categories. Text is read as numbers if nearly all values spell numbers,
    no value is a code such as 01234, and there are many different numbers. ``present`` has the values that
    are not missing; messages call the column ``name``.
    """
    code, values = distinct(present, f"X, column {name!r}")
    numbers = np.array([_number_or_nan(value) for value in values], dtype=np.float64)
    texts = [value for value in values if isinstance(value, str)]
    has_no_number = np.isnan(numbers)
    if not texts:
        if has_no_number.any() or not len(values):
            return None
        return numbers[code]
    if has_no_number.any():
        refuse_other_numbers(
            texts, f"X, column {name!r}", remedy=_AS_CATEGORIES.format(f"X[{name!r}]")
        )
    if has_no_number[code].mean() > 1 - MOSTLY or any(map(_CODE.match, texts)):
        return None
    # Texts alone may be categories. A number among the objects shows that texts are numbers, too.
    are_texts_alone = len(texts) == len(values)
    if _n_different(numbers) <= (MANY if are_texts_alone else 0):
        return None
    n_other = int(has_no_number[code].sum())
    exception = ""
    if n_other:
        example = values[has_no_number.argmax()]
        exception = f", but {n_other:,} of {len(code):,} count as missing (such as {example!r})"
    warn_user(
        f"X, column {name!r}: the text of its values spells numbers{exception}; it is read as "
        "numbers. For "
        f'categories make it a categorical column: X[{name!r}].astype("category")'
    )
    return numbers[code]


def _warn_of_numbers(categories: list[Any], n: int, name: Any) -> None:
    """Warn if the categories of a column with n values are numbers, nearly all of them different."""
    if len(categories) <= max(MANY, n / 2):  # a grade or a year is a category
        return
    if not any(math.isnan(_number_or_nan(category)) for category in categories):
        warn_user(
            f"X, column {name!r}: its {len(categories):,} categories are numbers, nearly all "
            f"of them different. For amounts use X[{name!r}].astype(float)"
        )


def _replaced(frame: Table, columns: dict[int, Any]) -> Any:
    """Return a data frame with other values in the columns of these numbers; the given frame is unchanged."""
    if not columns:
        return frame
    changed = frame.copy(deep=False)
    for j, values in columns.items():
        changed.isetitem(j, values)
    return changed
