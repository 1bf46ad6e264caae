"""Schemas of tables, kept with a model so that later tables are read in the same way as the first."""

from __future__ import annotations

import json
import math
import re
import warnings
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from decimal import Decimal
from numbers import Real
from pathlib import Path
from typing import Any, Literal, TypeAlias, get_args

import numpy as np
from numpy.typing import NDArray

from tailboost.core.table_files import import_pandas, read_raw

Kind: TypeAlias = Literal["number", "truth", "text"]

_CODE = re.compile(r"\s*[+-]?0\d")  # 01234, but not 0.5
_TRUTH = {"true": 1.0, "false": 0.0}
# Text is a column of numbers where at least this share of its values spell more different numbers than this.
MOSTLY, MANY = 0.95, 20
_NAMED = 5  # the most columns that a message names; it counts the rest
_TYPES = (str, Real, Decimal, np.bool_)
NUMBERS = ("integer", "floating", "mixed-integer-float", "decimal")
_KINDS = {*NUMBERS, "string", "boolean", "empty", "mixed", "mixed-integer"}


class TableChangedWarning(UserWarning):
    """A table differs from the one a model was fitted on; the message says where and how often."""


@dataclass(frozen=True)
class ColumnSchema:
    """What one column is.

    Attributes
    ----------
    name : str
    kind : {"number", "truth", "text"}
    dtype : str
        The dtype the column had in the table that the schema was made from.
    categories : tuple of str
        The distinct values of a text column, sorted, missing ones left out; of the target's, the labels.
    """

    name: str
    kind: Kind
    dtype: str
    categories: tuple[str, ...] = ()

    @classmethod
    def of(cls, column: Any) -> ColumnSchema:
        """Describe a column by its dtype: numbers, truth values, and text for everything else."""
        types = import_pandas("TableSchema").api.types
        if column.dtype == object:  # numbers may come as objects, as from a transposed table
            column = column.infer_objects()
        name, dtype = str(column.name), column.dtype
        if types.is_bool_dtype(dtype) and not hasattr(dtype, "categories"):
            return cls(name, "truth", str(dtype))
        if types.is_numeric_dtype(dtype):
            return cls(name, "number", str(dtype))
        return cls(
            name, "text", str(dtype), tuple(sorted({each for each in _texts(column) if each is not None}))
        )


@dataclass(frozen=True)
class TableSchema:
    """The columns of a table: what `read` needs to convert any later table in the same way.

    Every value is converted by itself, so that a row reads the same alone and among any others.

    ==============================  ====================================================================
    in the later table              what is done
    ==============================  ====================================================================
    number column                   numbers, and text that spells one; anything else is a missing value
    truth column                    true, false (in any case), 1 and 0; anything else is a missing value
    text column                     the text as it stands; of numbers without fraction, the whole number
    a category not seen before      kept as it is; the model decides what it means
    a column not in the schema      ignored
    a column of the schema missing  ValueError that names it
    infinite numbers, dates, lists  ValueError that names the column
    ==============================  ====================================================================

    One `TableChangedWarning` counts the missing, unseen and ignored values and columns.

    Attributes
    ----------
    columns : tuple of ColumnSchema
        The features, in order.
    target : ColumnSchema or None
        The labels; a column of this name in a later table is no new column.

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
    def of(cls, data: Any, target: Any = None) -> TableSchema:
        """Describe a table.

        Parameters
        ----------
        data : DataFrame of shape (n, d)
            Features, as `load_table` gives them: the kind of a column follows from its dtype.
        target : Series of length n, optional
            The labels.
        """
        columns = tuple(ColumnSchema.of(data.iloc[:, j]) for j in range(data.shape[1]))
        return cls(columns, None if target is None else ColumnSchema.of(target))

    def __getstate__(self) -> dict[str, str]:
        # As text a schema is small in a model file, and reading it builds no type that the file names.
        return {"json": json.dumps(asdict(self))}

    def __setstate__(self, state: dict[str, str]) -> None:
        def column(fields: dict[str, Any]) -> ColumnSchema:
            read = ColumnSchema(**{**fields, "categories": tuple(fields["categories"])})
            texts = (read.name, read.dtype, *read.categories)
            if read.kind not in get_args(Kind) or not all(isinstance(text, str) for text in texts):
                raise ValueError(f"no column is described by {str(fields)[:80]}")
            return read

        fields = json.loads(state["json"])
        target = fields["target"]
        columns = tuple(column(f) for f in fields["columns"])
        vars(self).update(columns=columns, target=None if target is None else column(target))

    def read(self, frame: Any) -> Any:
        """Convert a table in the same way as the one that the schema was made from.

        Parameters
        ----------
        frame : DataFrame of shape (m, at least d)
            In any order of columns; typed, or all text as it stands in a CSV file.

        Returns
        -------
        DataFrame of shape (m, d)
            Numbers and truth values are float64 with NaN where missing, text is a category.

        Raises
        ------
        ValueError
            For missing columns, infinite numbers, and values that are neither number, truth value nor text.
        TypeError
            For anything but a data frame of pandas.

        Warns
        -----
        TableChangedWarning
            Once, with counts, if values of another kind, categories not seen before or new columns are there.
        """
        pandas = import_pandas("TableSchema")
        refuse_arrays(frame)
        given = frame.columns.tolist()
        if not all(isinstance(name, str) for name in given):
            given = [str(name) for name in given]
            frame = frame.set_axis(given, axis=1)
        names = [column.name for column in self.columns]
        present = set(given)
        if missing := [name for name in names if name not in present]:
            raise ValueError(
                f"missing column{'s' * (len(missing) > 1)} {_listed(missing)}; the table has {_listed(given)}"
            )
        known = {*names, *([] if self.target is None else [self.target.name])}
        changes = []
        if new := [name for name in given if name not in known]:
            changes.append(f"{len(new)} new column{'s' * (len(new) > 1)} ignored ({_listed(new)})")
        # Columns that are numbers already are taken at once: one by one they cost more than most models.
        typed = dict(zip(given, frame.dtypes, strict=True))
        ready = [c.name for c in self.columns if c.kind == "number" and _is_plain(typed[c.name])]
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
            more = f"; and {len(changes) - _NAMED} more" if len(changes) > _NAMED else ""
            warnings.warn(
                f"the table differs from the one fitted on: {'; '.join(changes[:_NAMED])}{more}",
                TableChangedWarning,
                stacklevel=2,
            )
        return table

    def read_file(self, path: str | Path) -> Any:
        """`read` a CSV or Parquet file; the values of a CSV file are taken as they are written."""
        return self.read(read_raw(Path(path)))


def refuse_arrays(table: Any) -> None:
    """Raise TypeError where a table is no data frame of pandas: columns are found by name."""
    if not (hasattr(table, "columns") and hasattr(table, "iloc")):
        raise TypeError(f"a data frame of pandas is needed, with named columns, got {type(table).__name__}")


def _listed(names: list[str]) -> str:
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return ", ".join(repr(name if len(name) <= 40 else f"{name[:39]}…") for name in names[:_NAMED]) + more


def _converted(
    column: Any, convert: Callable[[Any], float | None], otherwise: str
) -> tuple[NDArray[np.float64], str]:
    dtype = column.dtype
    if convert is number and getattr(dtype, "kind", "O") in "iuf" and not hasattr(dtype, "categories"):
        numbers = np.array(column.to_numpy(dtype=np.float64, na_value=np.nan))
        other: list[int] = []
    else:
        values = _values(column)
        converted = [None if value is None else convert(value) for value in values]
        numbers = np.array([np.nan if value is None else value for value in converted], dtype=np.float64)
        other = [i for i, value in enumerate(values) if value is not None and converted[i] is None]
    _refuse_infinite(numbers, column.name)
    if not other:
        return numbers, ""
    return numbers, (
        f"{len(other)} of {len(column)} values {otherwise} and count as missing "
        f"(row {other[0]} holds {str(column.iloc[other[0]])[:40]!r})"
    )


def _is_plain(dtype: Any) -> bool:
    """Whether a column's values are NumPy's numbers."""
    return isinstance(dtype, np.dtype) and dtype.kind in "iuf"


def _refuse_infinite(numbers: NDArray[np.float64], name: str) -> None:
    if (infinite := np.flatnonzero(np.isinf(numbers))).size:
        raise ValueError(f"column {name!r} has infinite values (row {infinite[0]}, counted from 0)")


def _read_texts(column: Any, schema: ColumnSchema) -> tuple[Any, str]:
    pandas = import_pandas("TableSchema")
    texts = _texts(column)
    known = set(schema.categories)
    unseen = [each for each in texts if each is not None and each not in known]
    categories = [*schema.categories, *sorted(set(unseen))]
    read = pandas.Categorical(texts, categories=pandas.Index(categories, dtype=object))
    if not unseen:
        return read, ""
    such = repr(unseen[0][:40])
    return read, f"{len(unseen)} of {len(column)} values are categories not seen before (such as {such})"


_READERS: dict[Kind, Callable[[Any, ColumnSchema], tuple[Any, str]]] = {
    "number": lambda column, schema: _converted(column, number, "are no numbers"),
    "truth": lambda column, schema: _converted(column, _truth, "are neither true nor false"),
    "text": _read_texts,
}


def number(value: Any) -> float | None:
    """Return the number that a value is, or that its text spells in ASCII digits; None where it is none."""
    if isinstance(value, str):
        if not value.isascii() or "_" in value:  # only Python reads 1_000 as a number
            return None
        try:
            spelled = float(value)
        except ValueError:
            return None
        return None if math.isnan(spelled) else spelled
    return float(value) if isinstance(value, Real | Decimal) and not isinstance(value, bool) else None


def _truth(value: Any) -> float | None:
    if isinstance(value, bool | np.bool_):
        return float(value)
    if isinstance(value, str) and value.casefold() in _TRUTH:
        return _TRUTH[value.casefold()]
    return digit if (digit := number(value)) in (0.0, 1.0) else None


def text(value: Any) -> str:
    """Return a value as a category's name.

    A code such as 12 is 12.0 in a column in which another row is empty: both are "12".
    """
    return str(int(value)) if isinstance(value, float | np.floating) and value.is_integer() else str(value)


def _texts(column: Any) -> list[str | None]:
    """Return the column's values as text, None where missing."""
    return [None if value is None else text(value) for value in _values(column)]


def _values(column: Any) -> list[Any]:
    """Return the column's values, None where missing; refuse what is neither number, truth value nor text."""
    values = column.to_numpy(dtype=object).tolist()
    if all(isinstance(v, str) or v is None or (isinstance(v, float) and v != v) for v in values):
        return [v if isinstance(v, str) else None for v in values]
    refuse_kinds(column, f"column {column.name!r}")
    return [None if gone else v for v, gone in zip(values, column.isna().tolist(), strict=True)]


def as_written(values: list[Any], *, feature: bool = True) -> tuple[NDArray[Any] | None, int]:
    """Convert a CSV file's column, NaN where missing, to numbers or truth values if its values are such.

    A ``feature`` stays text where one value begins as a number does not (01234, a code), and is one of
    numbers where nearly all values are; the others count as missing. Returned is the column, None for text,
    and how many values of a column of numbers are none.
    """
    texts = [value for value in values if isinstance(value, str)]
    gaps = len(texts) < len(values)
    if not gaps and all(t.casefold() in _TRUTH for t in texts):
        return np.array([t.casefold() == "true" for t in texts], dtype=bool), 0
    if feature and any(_CODE.match(t) for t in texts):
        return None, 0
    numbers = _numbers(texts, int((1 - MOSTLY) * len(texts)) if feature else 0)
    if numbers is None:
        return None, 0
    n_odd = int(np.isnan(numbers).sum())
    if n_odd and len(np.unique(numbers)) - 1 <= MANY:
        return None, 0
    if not (gaps or n_odd) and all(len(t) < 25 and "." not in t and "e" not in t.lower() for t in texts):
        whole = [0 if math.isinf(x) else int(t) for x, t in zip(numbers, texts, strict=True)]
        if not np.isinf(numbers).any() and max(map(abs, whole), default=0) < 2**63:
            return np.array(whole, dtype=np.int64), 0
    read = iter(numbers)
    return np.array([next(read) if isinstance(v, str) else np.nan for v in values], dtype=np.float64), n_odd


def _numbers(texts: Iterable[str], most_odd: int) -> NDArray[np.float64] | None:
    """Return the numbers that texts spell, NaN for others; None where there are more others than allowed."""
    numbers, odd = [], 0
    for each in texts:
        value = number(each)
        odd += value is None
        if odd > most_odd:
            return None
        numbers.append(math.nan if value is None else value)
    return np.array(numbers, dtype=np.float64)


def refuse_kinds(column: Any, what: str) -> str:
    """Return pandas' name of a column's kind; raise if it is not numbers, truth values or text.

    Raises
    ------
    ValueError
        For dates, times, lists, bytes and the like.
    """
    pandas = import_pandas("load_table")
    values = pandas.Series(column.cat.categories) if hasattr(column.dtype, "categories") else column
    kind = str(pandas.api.types.infer_dtype(values, skipna=True))
    if kind.startswith(("date", "time", "period", "interval")):
        raise ValueError(
            f"{what} holds dates or times (such as {str(values.dropna().iloc[0])[:40]!r}); drop the column "
            "or turn it into numbers, for instance days before a fixed day"
        )
    if kind in ("mixed", "mixed-integer"):  # of several types, or of one that pandas does not name
        odd = sorted({type(v).__name__ for v in values.dropna() if not isinstance(v, _TYPES)})
        kind = odd[0] if odd else kind
    if kind not in _KINDS:
        raise ValueError(f"{what} holds {kind} values; numbers, text and true/false are known")
    return kind
