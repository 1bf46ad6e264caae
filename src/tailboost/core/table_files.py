"""Raw tables of CSV and Parquet files, before values are converted."""

from __future__ import annotations

import bz2
import csv
import gzip
import lzma
import re
import zlib
from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path
from types import ModuleType
from typing import Any

_OPENERS: dict[str, Callable[..., Any]] = {
    ".csv": open,
    ".csv.gz": gzip.open,
    ".csv.bz2": bz2.open,
    ".csv.xz": lzma.open,
}
_PARQUET = (".parquet", ".pq")
_MISSING = "?"  # in addition to pandas' missing values: empty, NA, NaN, null, None …


def import_pandas(needed_by: str) -> ModuleType:
    """Import pandas; without it raise an ImportError with the caller and the command to install it."""
    try:
        import pandas
    except ImportError as error:
        raise ImportError(f"{needed_by} needs pandas: pip install 'tailboost[app]'") from error
    return pandas


def is_csv(path: Path) -> bool:
    """Whether a file is read as CSV."""
    return _suffix(path) in _OPENERS


def _suffix(path: Path) -> str | None:
    name = path.name.lower()
    return next((s for s in (*_OPENERS, *_PARQUET) if name.endswith(s)), None)


def read_raw(path: str | Path, sep: str = ",") -> Any:
    """Return the table of a file; CSV values are text, missing ones NaN."""
    pandas = import_pandas("load_table")
    if not isinstance(sep, str) or len(sep) != 1 or sep in '"\r\n':
        raise ValueError(f"sep={sep!r} must be one character that separates values, such as ';'")
    path = Path(path)
    suffix = _suffix(path)
    if not path.is_file():
        raise ValueError(
            f"{str(path)!r} {'is a folder' if path.is_dir() else 'does not exist'}; a file is needed"
        )
    if suffix is None:
        raise ValueError(f"{str(path)!r} must end in one of {', '.join([*_OPENERS, *_PARQUET])}")
    try:
        if suffix in _OPENERS:
            _check_csv(path, _OPENERS[suffix], sep)
            # Otherwise pandas would use surplus leading columns as an index.
            return pandas.read_csv(
                path,
                sep=sep,
                dtype=str,
                na_values=[_MISSING],
                index_col=False,
                low_memory=False,
                encoding="utf-8-sig",
            )
    except UnicodeDecodeError as error:
        raise ValueError(f"{str(path)!r} is not UTF-8 text: {error}") from error
    except (OSError, EOFError, zlib.error, lzma.LZMAError, csv.Error, ValueError) as error:
        raise ValueError(f"{str(path)!r} cannot be read: {error}") from error
    try:
        frame = pandas.read_parquet(path)
        for _, column in frame.select_dtypes("string").items():
            column.to_numpy(dtype=object)  # damaged text raises only when it is decoded
        return frame
    except (ImportError, MemoryError):
        raise
    except Exception as error:  # damaged files raise exceptions of many types, KeyError included
        raise ValueError(f"{str(path)!r} cannot be read: {type(error).__name__}: {error}") from error


def _check_csv(path: Path, opener: Callable[..., Any], sep: str) -> None:
    """Refuse repeated names and lines of the wrong length, which pandas renames, fills or shifts silently."""
    with opener(path, "rt", encoding="utf-8-sig", newline="") as lines:
        reader = csv.reader(lines, delimiter=sep)
        header = next(reader, None)
        if not header:
            raise ValueError(
                "it is empty" if header is None else "its first line is empty; a header is needed"
            )
        checked_names(header, "its header")
        for row in reader:
            if row and len(row) != len(header):
                odd = re.search(r"[;\t|]", header[0]) if len(header) == 1 else None
                raise ValueError(
                    f"line {reader.line_num} has {len(row)} values, the header has {len(header)}"
                    + (f"; if {odd[0]!r} separates them, set sep" if odd else "")
                )


def checked_names(columns: Iterable[Any], source: str) -> list[str]:
    """Return the names of columns; raise ValueError if one is blank or occurs twice."""
    names = [str(column) for column in columns]
    if twice := [name for name, count in Counter(names).items() if count > 1]:
        raise ValueError(f"{source} has more than one column named {', '.join(map(repr, twice))}")
    if blank := [place for place, name in enumerate(names, start=1) if not name.strip()]:
        raise ValueError(
            f"{source} has a column without a name (column {blank[0]}); if pandas wrote it, use index=False"
        )
    return names
