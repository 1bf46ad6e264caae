"""Loader of CSV and Parquet files: features, target and groups."""

from __future__ import annotations

import re
import warnings
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.utils import Bunch

from tailboost.core.array_types import Column
from tailboost.core.spelling import (
    as_typed,
    did_you_mean,
    drop_rows_without,
    if_no_header,
    number_form,
    other_separator,
    shell_word,
    warn_alike,
    with_known_arguments,
)
from tailboost.core.table_files import checked_names, import_pandas, is_csv, read_raw
from tailboost.core.written_numbers import refuse_commas_among_numbers, refuse_other_numbers
from tailboost.rows.schema import (
    NUMBERS,
    ColumnFaults,
    DatesError,
    TableSchema,
    as_written,
    dtype_kind,
    group_names,
    refuse_kinds,
    text,
    warn_of_empty_columns,
)

_MAX_GROUPS = 100
# Longer texts are no dates. The limit bounds the time of the search, which is quadratic in the length.
DATE_LENGTH = 64
DATE = re.compile(
    r"\s*("
    r"\d{4}[-/.]\d{1,2}([-/.]\d{1,2})?"  # 2024-01-31, 2024-01
    r"|\d{1,2}[-/.]\d{1,2}[-/.](\d{4}|\d{2})"  # 31.01.2024, 1/31/24
    r"|\d{1,2}[-\s][A-Za-z]{3,9}\.?[-\s,]+\d{2,4}"  # 31 Jan 2024
    r"|[A-Za-z]{3,9}\.?\s\d{1,2},?\s\d{4}"  # January 31, 2024
    r")([T\s]+\d{1,2}:\d{2}.*)?\s*"
)


@with_known_arguments()
def load_table(
    path: str | Path,
    target: str,
    *,
    group: str | Sequence[str] = (),
    drop: str | Sequence[str] = (),
    text: str | Sequence[str] = (),
    weight: str | None = None,
    text_labels: bool = False,
    sep: str = ",",
    decimal: str | None = None,
    encoding: str | None = None,
) -> Any:
    """Load a CSV or Parquet file with numbers, text and missing values for classification.

    Numbers stay numbers, text becomes a pandas category, missing values stay missing. In CSV files an empty
    field, ``?`` and pandas' words (``NA``, ``NaN``, ``null``, ``None``, …) are missing values. A CSV column
    is numeric (or true/false) if all its values are: one ``01234`` among zip codes keeps the column text. A
    few other values in a column of many numbers become missing, with a warning.
    Numbers with decimal commas or grouped thousands are refused until ``decimal`` is given, and numbers with
    a unit, as in "14 %", unless they are named by ``text``. ``schema`` stores
    the kinds and reads a later file in the same way.

    Parameters
    ----------
    path : path-like
        ``.csv`` (with a header), also ``.csv.gz``, ``.csv.bz2``, ``.csv.xz``; or ``.parquet``, ``.pq``. Empty
        columns at the end of a CSV file, and an index of pandas in Parquet, are not read.
    target : str
        Column to predict: at least two different values, none missing.
    group : str or sequence of str, default=()
        Group columns. They stay among the features; use ``drop`` if the classifier must not read them.
        Missing values form the group ``"missing"``.
    drop : str or sequence of str, default=()
        Columns without a feature, such as ids; their values are not checked. A group may be dropped.
    text : str or sequence of str, default=()
        Columns of text, even if all values are numbers, such as codes: ``250`` and ``V57``.
    weight : str, optional
        Column of sample weights, which is no feature: numbers, none missing or negative.
    text_labels : bool, default=False
        Whether the labels of a CSV file stay text. By default labels that are all numbers become numbers:
        ``01``, ``1`` and ``1.0`` are one class. Labels that are all true or false become bool.
    sep : str, default=","
        Separator of a CSV file, one character. Excel's first line ``sep=;`` states another one.
    decimal : {".", ","}, optional
        Decimal sign of a CSV file. The other sign, spaces and apostrophes may group thousands: with "," the
        text ``1.234,5`` is the number 1234.5.
    encoding : str, optional
        Encoding of a CSV file such as "cp1252", by default UTF-8. The byte-order mark of UTF-8 and UTF-16
        states the encoding.

    Returns
    -------
    Bunch
        data : DataFrame of shape (n, d)
            Other columns: int, float, bool or category.
        target : ndarray of shape (n,)
            Labels: int, float, bool or str.
        groups : DataFrame of categories of shape (n, len(group))
            One column per name in ``group``, values as str. Whole numbers have no decimals: 1, 1.0 and "1.0"
            are "1". Other text of a CSV file is unchanged.
        weight : ndarray of float64, shape (n,), or None
            Sample weights.
        schema : TableSchema
            Schema of the table; ``schema.read(read_raw(path))`` reads a later file in the same way.
        feature_names, target_name, target_names
            Names of columns and classes (sorted).

    Raises
    ------
    ValueError
        If the file cannot be read, or a column is missing or named twice. If columns hold dates, infinite
        numbers, numbers with commas or a unit, or values other than numbers and text. If the target has
        missing or continuous values, a single class, or a different value in nearly each row. If a group
        column has more than 100 values. The message names the file, all such columns, or the line.
    ImportError
        If pandas is not installed, or pyarrow for Parquet.

    Warns
    -----
    UserWarning
        If a CSV column with more than 20 different numbers has up to 5 % other values, which become missing.
        If columns of at least 20 rows have only missing values. If two labels differ only in capitals or in
        blanks around them.
    """
    raw = read_raw(path, sep, decimal, encoding)
    source = repr(str(path))
    groups, dropped, texts = (
        [names] if isinstance(names, str) else list(names) for names in (group, drop, text)
    )
    names = checked_names(raw.columns, source)
    roles = {"target": [target], "group": groups, "drop": dropped, "text": texts}
    if weight is not None:
        roles["weight"] = [weight]
    _check_roles(roles, raw.set_axis(names, axis=1), source)
    typed = raw
    from_csv = is_csv(Path(path))
    if from_csv:
        typed = _typed(raw, source, {target, weight}, [*dropped, *texts], in_training=True)
    typed = typed.assign(**{name: _text(raw[name]) for name in texts if name in raw})
    # The values by their kind, and the values of the file, which name groups and labels.
    frame = typed.set_axis(names, axis=1).reset_index(drop=True)
    written = raw.set_axis(names, axis=1).reset_index(drop=True)
    feature_names = [name for name in names if name not in {target, weight, *dropped}]
    if not feature_names:
        raise ValueError(f"{source} has no feature columns besides the target {target!r}")
    if not len(frame):
        raise ValueError(f"{source} has a header but no rows")
    labels_of_file = written[target] if text_labels and from_csv else None
    y = _labels(frame[target], source, labels_of_file)
    pandas = import_pandas("load_table")
    data = pandas.DataFrame(_features(frame[feature_names], source))
    warn_of_empty_columns(data)
    group_columns = {name: _groups(written[name], source) for name in groups}
    schema = TableSchema.of(data, pandas.Series(y, name=target))
    return Bunch(
        data=data,
        target=y,
        groups=pandas.DataFrame(group_columns, index=frame.index),
        weight=None if weight is None else _weights(frame[weight], source),
        schema=schema.counting_others(data, written),
        feature_names=feature_names,
        target_name=target,
        target_names=np.unique(y),
    )


def _check_roles(roles: Mapping[str, Sequence[str]], frame: Any, source: str) -> None:
    """Raise ValueError if a column with a role is absent, or is the target and something else."""
    (target,) = roles["target"]
    absent = {
        name: role
        for role, role_names in roles.items()
        for name in role_names
        if name not in frame
    }
    if absent:
        raise ValueError(_no_columns(absent, frame, source))
    for role, role_names in roles.items():
        for name in role_names:
            if role != "target" and name == target:
                raise ValueError(
                    f"{source}: column {name!r} is the target; it cannot be the {role} column "
                    "too"
                )


def read_frame(
    path: str | Path, sep: str = ",", decimal: str | None = None, encoding: str | None = None
) -> Any:
    """Return the table of a file; CSV columns become numbers or truth values if all their values are.

    Parameters
    ----------
    path, sep, decimal, encoding : optional
        As in `load_table`.

    Returns
    -------
    pandas.DataFrame
    """
    raw = read_raw(path, sep, decimal, encoding)
    if is_csv(Path(path)):
        return _typed(raw, repr(str(path)))
    return raw


def _typed(
    raw: Any,
    source: str,
    other_roles: Collection[str | None] = (),
    unused: Collection[str] = (),
    *,
    in_training: bool = False,
) -> Any:
    """Return the table of a CSV file with numbers and truth values in place of their texts.

    One warning names the columns of numbers with other values. ``other_roles`` are columns that are no
    features but read: target and weights. ``unused`` columns cause neither warning nor error. A message about
    a training table, ``in_training``, says how to keep columns text. There dates are refused, too. One
    ValueError names all columns that are refused.
    """
    pandas = import_pandas("load_table")
    columns = {}
    faults = ColumnFaults("drop={}")
    words_by_mixed: dict[str, str] = {}
    for name, column in raw.items():
        values = column.to_numpy(dtype=object).tolist()
        texts = [value for value in values if isinstance(value, str)]
        numbers = as_written(values, feature=name not in other_roles)
        columns[name] = column
        no_numbers = texts
        if numbers is not None:
            columns[name] = numbers
            missing = np.flatnonzero(pandas.isna(numbers))
            no_numbers = [values[i] for i in missing if isinstance(values[i], str)]
        if no_numbers and name not in {*other_roles, *unused}:
            subject = f"column {name!r} of {source}"
            with faults.collecting(name):
                remedy = _kept_as_text([name]) if in_training else ""
                refuse_other_numbers(texts, subject, remedy=remedy)
                if in_training and numbers is None:
                    _refuse_dates(column, subject)
        if numbers is not None and no_numbers and name not in unused:
            words_by_mixed[name] = (
                f"column {name!r} is read as numbers: {len(no_numbers):,} of {len(values):,} "
                f"values are no numbers and count as missing (such as {no_numbers[0][:40]!r})"
            )
    if words_by_mixed:
        words = "; ".join(words_by_mixed.values())
        features = [name for name in words_by_mixed if name not in other_roles]
        if in_training and features:
            words += _kept_as_text(features)
        warnings.warn(
            words,
            UserWarning,
            stacklevel=3,  # the line that calls load_table
        )
    faults.refuse()
    return pandas.DataFrame(columns, index=raw.index)


def _kept_as_text(names: list[str]) -> str:
    """Return the end of a message about columns of a training table: how to keep them text."""
    options = " ".join(f"--text {shell_word(name)}" for name in names)
    kept = number_form(len(names), "the column", "these columns")
    return f"; {as_typed(f'text={names!r}', options)} keeps {kept} text"


def _no_columns(absent: Mapping[str, str], frame: Any, source: str) -> str:
    """Return the message about columns that a table lacks, each with its role, such as "group".

    With another separator all columns are one, so the message is about the separator alone.
    """
    names = frame.columns.tolist()
    advice = other_separator(names)
    if advice and len(names) == 1:
        return f"{source}: {advice}"
    options = {"drop": "--drop or --cluster"}  # the shell drops the column of clusters, too
    needed = ", ".join(
        f"{name!r} ({as_typed(role, options.get(role, f'--{role}'))})"
        for name, role in absent.items()
    )
    message = f"{source} has no column {needed}"
    if advice:
        return f"{message}: {advice}"
    for name, role in absent.items():
        parts = str(name).split(",")
        if len(parts) > 1 and all(part.strip() in names for part in parts):
            way = as_typed("as a list", f"--{role} once for each")
            return f"{message}; name each column by itself, {way}"
    hints = [did_you_mean(str(name), names) for name in absent]
    if all(hints):
        return f"{message}; {''.join(hints).strip()}"
    listed = ", ".join(map(repr, names[:20]))
    if len(names) > 20:
        listed += ", …"
    return f"{message}; {''.join(hints)}it has {listed}{if_no_header(names, frame)}"


def _labels(column: Column, source: str, written: object) -> Any:
    """Return the labels of classes as an array; raise ValueError for a quantity or a single class.

    ``written`` are the texts of the file, for labels of text; None gives labels by their kind.
    """
    subject = f"target column {column.name!r} of {source}"
    rows_without = np.flatnonzero(column.isna())
    if len(rows_without):
        raise ValueError(f"{subject} has {drop_rows_without(rows_without)}")
    column = _feature(column, source)
    y = np.asarray(column)
    if dtype_kind(column.dtype) == "categories":
        y = np.asarray(column.astype(str), dtype=str)
    if y.dtype.kind == "f" and (y % 1 != 0).any():
        raise ValueError(
            f"{subject} holds continuous numbers, e.g. {y[0].item()!r}; classes are needed"
        )
    if written is not None:  # after the check for continuous numbers
        y = np.asarray(written, dtype=str)
    classes = np.unique(y)
    n_classes = len(classes)
    if n_classes < 2:
        raise ValueError(
            f"{subject} has a single class, {y[0].item()!r}; at least two are needed"
        )
    if n_classes > max(_MAX_GROUPS, len(y) // 2):  # a few rows may have a class each
        raise ValueError(
            f"{subject} has {n_classes} different values in {len(y)} rows; classes are needed"
        )
    warn_alike(classes.tolist(), as_typed("y", "labels"))
    return y


def _groups(column: Column, source: str) -> Any:
    """Return a column of groups as categories of text; a missing value becomes "missing"."""
    column = _feature(column, source)
    count = column.nunique(dropna=False)
    if count > _MAX_GROUPS:
        raise ValueError(
            f"group column {column.name!r} of {source} has {count} different values, more than "
            f"{_MAX_GROUPS}; name a column of few groups, such as bands 30-49"
        )
    pandas = import_pandas("load_table")
    names = pandas.Series(group_names(column), column.index, name=column.name)
    return names.astype(str).astype("category")


def _weights(column: Column, source: str) -> Any:
    """Return a column of sample weights as float64; raise ValueError if one cannot be a weight."""
    subject = f"weight column {column.name!r} of {source}"
    if dtype_kind(column.dtype) != "number":
        refuse_commas_among_numbers([str(value) for value in column.dropna()], subject)
        raise ValueError(f"{subject} must hold numbers")
    weight = column.to_numpy(dtype=np.float64)
    if not (np.isfinite(weight) & (weight >= 0)).all():
        raise ValueError(f"{subject} has missing, infinite or negative values")
    return weight


def _features(frame: Any, source: str) -> dict[str, Any]:
    """Return the features by name, each by its kind; one ValueError names all that are refused."""
    columns = {}
    faults = ColumnFaults("drop={}")
    for name, column in frame.items():
        with faults.collecting(name):
            columns[name] = _feature(column, source)
    faults.refuse()
    return columns


def _feature(column: Column, source: str) -> Any:
    """Return a column as int, float, bool or category; raise ValueError with its name for another kind."""
    subject = f"column {column.name!r} of {source}"
    declared = dtype_kind(column.dtype) == "categories"
    kind = refuse_kinds(column, subject)
    if kind == "string":
        _refuse_dates(column, subject)
    if kind == "empty":  # nothing but missing values
        return column.astype("float64")
    if kind == "boolean" and not declared and column.notna().all():
        return column.astype(bool)
    if declared or kind not in NUMBERS:  # also truth values with missing ones
        return _text(column)
    if not isinstance(column.dtype, np.dtype) or column.dtype == object:  # not of NumPy yet
        fits_int64 = kind == "integer" and column.notna().all() and abs(column).max() < 2**63
        column = column.astype("int64" if fits_int64 else "float64")
    if np.isinf(column.to_numpy()).any():
        raise ValueError(f"{subject} has infinite values")
    return column


def _text(column: Column) -> Any:
    """Return a column as categories of text; missing values stay missing."""
    return column.astype(object).map(text, na_action="ignore").astype("category")


def _refuse_dates(column: Column, subject: str) -> None:
    """Raise ValueError if all texts of a column are dates, all with the month or all with the day first."""
    pandas = import_pandas("load_table")
    texts = pandas.Series(column.dropna().unique(), dtype=object)
    # pandas also reads single numbers and words as dates.
    if not all(len(text) <= DATE_LENGTH and DATE.fullmatch(text) for text in texts):
        return
    for day_first in (False, True):
        dates = pandas.to_datetime(
            texts, format="mixed", errors="coerce", utc=True, dayfirst=day_first
        )
        if len(texts) and dates.notna().all():
            raise DatesError(subject, texts[0])
