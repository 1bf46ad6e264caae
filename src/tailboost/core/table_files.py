"""Raw tables of CSV and Parquet files, before values are converted."""

from __future__ import annotations

import bz2
import codecs
import csv
import gzip
import lzma
import re
import zlib
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable
from contextlib import suppress
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

from tailboost.core.spelling import as_typed, if_no_header, listed, sep_of, sign_words
from tailboost.core.written_numbers import with_points

_OPENERS: dict[str, Callable[..., Any]] = {
    ".csv": open,
    ".csv.gz": gzip.open,
    ".csv.bz2": bz2.open,
    ".csv.xz": lzma.open,
}
_PARQUET = (".parquet", ".pq")
_MARKS = {
    codecs.BOM_UTF8: "utf-8-sig",
    codecs.BOM_UTF16_LE: "utf-16",
    codecs.BOM_UTF16_BE: "utf-16",
}
# How the content of a file begins, by the ending of its name; other content is text.
_STARTS = {
    ".csv.gz": re.compile(rb"\x1f\x8b"),
    ".csv.bz2": re.compile(rb"BZh[1-9]1AY&SY"),
    ".csv.xz": re.compile(rb"\xfd7zXZ"),
    ".parquet": re.compile(rb"PAR1\x15"),
    ".xlsx": re.compile(rb"PK\x03\x04"),
}
# Excel's first line, before the header.
_SEP_LINE = re.compile(r'"?sep=(?P<sep>[^"\r\n])"?[\r\n]*', re.IGNORECASE)
_DECIMAL_COMMA = re.compile(r"\s*[+-]?\d+,\d+\s*")
_MISSING = "?"  # in addition to pandas' missing values: empty, NA, NaN, null, None …


def import_pandas(needed_by: str) -> ModuleType:
    """Import pandas; without pandas raise an ImportError with the caller and the command to install it."""
    try:
        import pandas
    except ImportError as error:
        raise ImportError(f"{needed_by} needs pandas: pip install 'tailboost[app]'") from error
    return pandas


def is_csv(path: Path) -> bool:
    """Whether a file is read as CSV."""
    return _suffix(path) in _OPENERS


def is_parquet(path: Path) -> bool:
    """Whether a file is read or written as Parquet."""
    return _suffix(path) in _PARQUET


def _suffix(path: Path) -> str | None:
    """Return the suffix of a table file; None if the name of the file has none of them."""
    name = path.name.lower()
    return next((suffix for suffix in (*_OPENERS, *_PARQUET) if name.endswith(suffix)), None)


def read_raw(
    path: str | Path,
    sep: str = ",",
    decimal: str | None = None,
    encoding: str | None = None,
    numbers: Collection[str] = (),
) -> Any:
    """Return the table of a file; CSV values are text, missing ones NaN.

    Parameters
    ----------
    path : path-like
        CSV or Parquet file. An index of pandas is not read.
    sep : str, default=","
        Separator of a CSV file. Excel's first line ``sep=;`` states another one.
    decimal : {".", ","}, optional
        Decimal sign of a CSV file; the other sign may group thousands. Numbers become plain ones.
    encoding : str, optional
        Encoding of a CSV file, by default UTF-8. A byte-order mark in the file states another one.
    numbers : collection of str, default=()
        Columns of a CSV file to be read as float64 and never as text, if all their values are numbers
        or missing. This takes a third of the time. They are text with ``decimal``, with another value among
        them, or without a number other than 0 and 1.
    """
    import_pandas("load_table")  # raises if pandas is not installed
    if not isinstance(sep, str) or len(sep) != 1 or sep in '"\r\n':
        raise ValueError(
            f"sep={sep!r} must be one character that separates values, such as ';'"
        )
    if decimal not in (None, ".", ","):
        raise ValueError(f"decimal={decimal!r} must be '.' or ','")
    check_encoding(encoding)
    path = Path(path)
    suffix = _suffix(path)
    if path.is_dir():
        raise IsADirectoryError(f"{str(path)!r} is a folder; a file is needed")
    if not path.is_file():
        raise FileNotFoundError(f"{str(path)!r} does not exist; a file is needed")
    if path.suffix in (".model", ".json"):
        raise ValueError(
            f"{str(path)!r} is no table: of a model file or rule file and a table the table "
            "stands last"
        )
    if suffix is None:
        raise ValueError(
            f"{str(path)!r} must end in one of {', '.join([*_OPENERS, *_PARQUET])}: give a file "
            "of text a name that ends in .csv, and save the table of another program as CSV"
        )
    _check_content(path, suffix)
    if suffix in _OPENERS:
        if decimal is None:
            return _read_csv(path, _OPENERS[suffix], sep, encoding, numbers)
        return _with_points(_read_csv(path, _OPENERS[suffix], sep, encoding), decimal, path)
    return _read_parquet(path)


def _check_content(path: Path, suffix: str) -> None:
    """Raise ValueError if a file begins as a file with another ending of its name than ``suffix``."""
    with path.open("rb") as stream:
        start = stream.read(10)
    content = ".csv"
    for ending, pattern in _STARTS.items():
        if pattern.match(start):
            content = ending
    if not start or content == suffix or (suffix in _PARQUET and content in _PARQUET):
        return
    cure = f"its content is that of a {content} file; give it a name that ends so"
    if content == ".xlsx":
        cure = "it is an Excel or zip file; save its table as CSV"
    elif content == ".csv":
        cure = f"it is no {suffix} file; if it is a table of text, give it a name that ends in .csv"
    raise ValueError(f"{str(path)!r} cannot be read: {cure}")


def _read_parquet(path: Path) -> Any:
    """Return the table of a Parquet file; numbers of float32 become the numbers of a CSV file."""
    # The import loads NumPy, and `tailboost -h` needs none.
    from tailboost.core.score_kinds import with_shortest_decimals

    pandas = import_pandas("load_table")
    try:
        frame = pandas.read_parquet(path).reset_index(drop=True)
        # Damaged text raises only when decoded.
        for _, column in frame.select_dtypes("string").items():
            column.to_numpy(dtype=object)
        return with_shortest_decimals(frame)
    except (ImportError, MemoryError):  # no fault of the file
        raise
    except Exception as error:  # damaged files raise exceptions of many types
        raise ValueError(
            f"{str(path)!r} cannot be read: {type(error).__name__}: {error}"
        ) from error


def check_encoding(encoding: str | None) -> None:
    """Raise ValueError if an encoding of text is unknown; None is the default."""
    try:
        "".encode(encoding or "utf-8")
    except LookupError:
        raise ValueError(
            f"encoding={encoding!r} is unknown; examples are utf-8, cp1252 and utf-16"
        ) from None


def _read_csv(
    path: Path,
    opener: Callable[..., Any],
    sep: str,
    encoding: str | None,
    numbers: Collection[str] = (),
) -> Any:
    """Return the text of a CSV file, and the numbers of some columns with nothing else.

    Parameters
    ----------
    path : Path
        The file.
    opener : callable
        Opens the file, also a compressed one.
    sep : str
        Stated separator.
    encoding : str or None
        Stated encoding; None for UTF-8, or that of the first bytes.
    numbers : collection of str
        Columns that are read as numbers if they have nothing else.
    """
    try:
        with opener(path, "rb") as stream:
            start = stream.read(4)
        encoding = encoding or "utf-8"
        for mark, marked_encoding in _MARKS.items():
            if start.startswith(mark):
                encoding = marked_encoding
        sep, n_before, n_columns = _check_csv(path, opener, sep, encoding)
        read = partial(
            import_pandas("load_table").read_csv,
            path,
            sep=sep,
            na_values=[_MISSING],
            skiprows=n_before,
            usecols=range(n_columns),
            index_col=False,  # otherwise pandas would use surplus leading columns as an index
            low_memory=False,
            encoding=encoding,
        )
        if numbers:
            dtypes: dict[str, type] = defaultdict(lambda: str)
            dtypes.update(dict.fromkeys(numbers, float))
            with suppress(ValueError):  # a value is no number
                frame = read(dtype=dtypes)
                # pandas reads a column of the words True and False as 1 and 0.
                present = frame[[name for name in numbers if name in frame]]
                if not present.isin([0.0, 1.0]).where(present.notna(), True).all().any():
                    return frame
        return read(dtype=str)
    except UnicodeError as error:
        example = as_typed("encoding='cp1252'", "--encoding cp1252")
        raise ValueError(
            f"{str(path)!r} is not {str(encoding).upper()} text: {error}; state its encoding, "
            f"such as {example}{_further_fault(path, opener, sep)}"
        ) from error
    except (OSError, EOFError, zlib.error, lzma.LZMAError, csv.Error, ValueError) as error:
        raise ValueError(f"{str(path)!r} cannot be read: {error}") from error


def _further_fault(path: Path, opener: Callable[..., Any], sep: str) -> str:
    """Return what else is wrong in a file of another encoding, such as its separator, or an empty text."""
    try:
        _check_csv(path, opener, sep, "latin-1")  # has a character for each byte
    except (ValueError, csv.Error) as fault:
        return f". And {fault}"
    return ""


def _check_csv(
    path: Path, opener: Callable[..., Any], sep: str, encoding: str
) -> tuple[str, int, int]:
    """Return the separator, the number of lines before the header and the number of columns.

    Refuse repeated names and lines of the wrong length, which pandas renames, fills or shifts silently.
    Columns at the end without a name and values are no columns.

    Parameters
    ----------
    path : Path
        The file.
    opener : callable
        Opens the file, also a compressed one.
    sep : str
        Stated separator.
    encoding : str
        Encoding of its text.
    """
    with opener(path, "rt", encoding=encoding, newline="") as lines:
        sep_line = _SEP_LINE.fullmatch(lines.readline())
        if sep_line is None:
            n_before = 0
            lines.seek(0)
        else:
            n_before = 1
            sep = sep_line["sep"]
        reader = csv.reader(lines, delimiter=sep)
        header = next(reader, None)
        if header is None:
            raise ValueError("it is empty")
        while header and not header[-1].strip():  # surplus separators at the end
            header.pop()
        if not header:
            raise ValueError("its first line is empty; a header is needed")
        if "\0" in "".join(header):
            option = as_typed("encoding='utf-16-le'", "--encoding utf-16-le")
            raise ValueError(f"its header has zero bytes, as UTF-16 has: state {option}")
        checked_names(header, "its header")
        _check_rows(reader, header, sep, n_before)
        return sep, n_before, len(header)


def _check_rows(reader: Any, header: list[str], sep: str, n_before: int) -> None:
    """Raise if a row of a CSV reader behind its header has another number of values."""
    n_columns = len(header)
    n_read = reader.line_num
    try:
        for row in reader:
            if len(row) != n_columns and row:  # an empty line is no row
                surplus = row[n_columns:]  # empty values are surplus separators
                if len(row) < n_columns or any(value.strip() for value in surplus):
                    subject = _row_words(n_read + 1 + n_before, reader.line_num + n_before)
                    raise ValueError(
                        f"{subject} {len(row)} values, the header has {n_columns}"
                        f"{_other_separator(sep, header, row)}"
                    )
            n_read = reader.line_num
    except csv.Error as error:  # a field is too long
        raise ValueError(
            f"line {n_read + 1 + n_before}: a quote opens in this row and does not close "
            f"within {csv.field_size_limit():,} characters; close or remove it ({error})"
        ) from error


def _row_words(first: int, last: int) -> str:
    """Return the start of a sentence about a row; quoted text may have several lines."""
    if first == last:
        return f"line {first} has"
    return (
        f"lines {first} to {last} are one row, because a quote opens in line {first}: close "
        "it. The row has"
    )


def _other_separator(sep: str, header: list[str], row: list[str]) -> str:
    """Return the advice to state another separator, if a row then has as many values as the header.

    Otherwise the separator may be part of a name or text.
    """
    for other in ";\t|,":
        if other == sep:
            continue
        # The names and values as this separator divides the lines of the file.
        names, values = (
            next(csv.reader(sep.join(fields).splitlines(), delimiter=other), [])
            for fields in (header, row)
        )
        if len(names) > 1 and (len(names) == len(values) or len(header) == 1):
            option = sep_of(other)
            if sep == "," and any(_DECIMAL_COMMA.fullmatch(value) for value in values):
                option += " and " + as_typed("decimal=','", "--decimal ,")
            columns = f"the columns are then {listed(names)}"
            return f"; if {sign_words(other)} separates them, state {option}; {columns}"
    if len(header) == 1:
        return "; if the first line is a title, delete it, so that the names of the columns come first"
    advice = f"; put a name or text that contains {sep!r} in double quotes"
    if len(row) < len(header):
        advice += ", or complete the row"
    return advice


def _with_points(frame: Any, decimal: str, path: Path) -> Any:
    """Return the text of a CSV file with plain numbers instead of numbers with a decimal sign."""
    columns = {}
    for name, column in frame.items():
        values = column.to_numpy(dtype=object).tolist()
        columns[name] = with_points(values, decimal, f"{str(path)!r}: column {name!r}")
    return import_pandas("load_table").DataFrame(columns, index=frame.index)


def checked_names(columns: Iterable[Any], source: str) -> list[str]:
    """Return the names of columns; raise ValueError if one is blank or occurs twice."""
    names = [str(column) for column in columns]
    repeated = [name for name, count in Counter(names).items() if count > 1]
    if repeated:
        raise ValueError(
            f"{source} has more than one column named {', '.join(map(repr, repeated))}"
            f"{if_no_header(names)}"
        )
    for number, name in enumerate(names, start=1):
        if not name.strip():
            raise ValueError(
                f"{source} has a column without a name (column {number}); if pandas wrote it, "
                "use index=False"
            )
    return names
