"""JSON documents of rules, and files of scores, for rules of one and of several labels."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from pandas.api.types import is_bool_dtype, is_integer_dtype, is_numeric_dtype

from tailboost import datasets
from tailboost.app.cli.models import NewRows, StoredModel, refuse_absent
from tailboost.app.cli.options import CsvFormat
from tailboost.app.cli.shared import (
    BadInput,
    bad_input,
    is_rule_file,
    read_json,
    warnings_as_lines,
)
from tailboost.core.array_types import Table
from tailboost.core.checks import reading
from tailboost.core.files import write_output
from tailboost.core.long_work import doing
from tailboost.core.score_kinds import ScoreKind, score_kind
from tailboost.core.spelling import warn_alike
from tailboost.core.table_files import is_csv
from tailboost.core.written_numbers import (
    is_percent,
    percent_cure,
    refuse_commas_among_numbers,
)
from tailboost.rows.fingerprints import EqualRows, digest
from tailboost.rows.ledger import Attempt, Ledger
from tailboost.storage.rule_documents import text_of
from tailboost.storage.rule_files import KIND_OF_RULE_FILE

# A whole number of at most 18 digits, as Python writes it.
WHOLE = re.compile(r"0|-?[1-9]\d{0,17}")

# The cure of truth values in the place of scores.
NUMBER_BEHIND = "Give the number behind it, such as a probability"


def read_document(path: Path) -> dict[str, Any]:
    """Return the content of a rule file."""
    if not path.exists():
        raise BadInput(
            f"there is no rule file {str(path)!r}; `tailboost tune` and `tailboost calibrate` "
            "write rule files"
        )
    with bad_input(f"{path}: "), reading(KIND_OF_RULE_FILE):
        return read_json(path)


def ledger_in(path: Path) -> Ledger:
    """Read the ledger of a rule file, or of a table of scores."""
    with bad_input(f"{path}: the ledger is damaged: "):
        try:
            return Ledger.from_dict(read_document(path)["ledger"])
        except KeyError as error:
            raise ValueError(f"{error} is missing") from None


def attempts_file(path: Path) -> Ledger | None:
    """Return the ledger of a file with nothing else, as of a table of scores; None for another file."""
    if not is_rule_file(path) or not path.exists() or not is_record(read_document(path)):
        return None
    return ledger_in(path)


def is_record(document: Mapping[str, Any]) -> bool:
    """Return whether a document is the record of a table of scores, see `TableLedger`."""
    # Files of development versions may have "selecting", shares that no longer count.
    return "ledger" in document and {*document} <= {"ledger", "certified", "selecting"}


@dataclass(eq=False)
class TableLedger(Ledger):
    """Ledger of the tables of one name, in a file beside their rules; written before each test.

    An attempt that certified a rule ends its campaign. It counts for a table with some of its rows alone, so
    new rows in a table of the same name are a new calibration.

    Attributes
    ----------
    path : Path
        The file. It may be absent before the first attempt.
    certified : set of str
        The keys of the attempts that certified a rule.
    """

    path: Path = field(kw_only=True)
    certified: set[str] = field(default_factory=set)

    @classmethod
    def read(cls, path: Path) -> TableLedger:
        """Read the file of a table; an absent one has no attempt."""
        if not path.exists():
            return cls(path=path)
        ledger = ledger_in(path)
        certified = {str(key) for key in read_document(path).get("certified", [])}
        return cls(ledger.attempts, draws=ledger.draws, path=path, certified=certified)

    def _counting_for(self, attempt: Attempt, equal_rows: EqualRows) -> list[Attempt]:
        """Return the recorded attempts, without those that certified a rule on other rows."""
        return [
            each
            for each in self.attempts
            if each.key not in self.certified
            or each.key == attempt.key
            or attempt.rows.shared_with(each.rows, equal_rows)
        ]

    @contextmanager
    def _opened(self) -> Iterator[None]:
        """Hold the ledger during a change, and write the file."""
        with super()._opened():
            yield
            self.write()

    def write(self) -> None:
        """Write the file."""
        content = {"ledger": self.to_dict(), "certified": sorted(self.certified)}
        write_output(self.path, text_of(content))


@dataclass(frozen=True)
class StoredDocument(StoredModel):
    """Content of a rule file with its ledger."""

    def read_ledger(self) -> Ledger:
        """Read the ledger of the file."""
        return ledger_in(self.path)

    def write_ledger(self, ledger: Ledger) -> None:
        """Replace the ledger of the file."""
        write_output(
            self.path, text_of(read_document(self.path) | {"ledger": ledger.to_dict()})
        )

    def digest(self) -> str:
        """Return a digest of the file without its ledger, which attempts change."""
        content = read_document(self.path)
        content.pop("ledger", None)
        return digest(json.dumps(content, sort_keys=True).encode())


def score_rows(
    data: Path,
    csv: CsvFormat,
    score: Sequence[str],
    *,
    kinds: Sequence[str],
    missing: float | None,
    target: str | None = None,
    columns: Sequence[str] = (),
    by_group: str | None = None,
    read_by_rule: Sequence[str] = (),
    may_lack_scores: bool = False,
) -> NewRows:
    """Read a file of scores, with labels of their type. Errors name the file, the column and the row.

    Rows without a score are refused, unless ``missing`` is a number or rows ``may_lack_scores``. The message
    also has scores that are not of their kind, one of ``kinds``. ``read_by_rule`` are the columns that a
    stored rule reads; other columns are named by options.
    """
    with bad_input(), doing(f"Reading {data.name}"):
        numbers = {*score} - {target, *columns}
        table = datasets.read_raw(data, *csv, numbers)
    if not len(table):
        raise BadInput(f"{str(data)!r} has no rows")
    needed = {
        "--score": score,
        "--by-group": [by_group],
        "--group": columns,
        "--target": [target],
    }
    refuse_absent(needed, table, data, read_by_rule)
    for name in score:
        if is_bool_dtype(table[name].dtype):  # of a Parquet file
            raise BadInput(
                f"{str(data)!r}: column {name!r} holds truth values. {NUMBER_BEHIND}"
            )
    features = pd.DataFrame(
        {name: numbers_of(table, name, data) for name in dict.fromkeys(score)}
    )
    if missing is None and not may_lack_scores:
        for name, kind in zip(score, kinds, strict=True):
            _refuse_missing_scores(features[name], data, score_kind(kind))
    rows = NewRows(table, features, data, columns, by_group=by_group)
    if target is None:
        return rows
    labels = typed_labels(rows.column(target, "--target"), is_text=is_csv(data))
    with warnings_as_lines():
        warn_alike(np.unique(labels).tolist(), "labels")
    return replace(rows, y=labels)


def _refuse_missing_scores(scores: Any, data: Path, kind: ScoreKind) -> None:
    """Raise `BadInput` with the first rows of a file ``data`` without a score, and scores of another kind."""
    if scores.isna().any():
        raise BadInput(
            f"{str(data)!r}: {scores.isna().sum():,} rows have no score {scores.name!r}"
        )


def typed_labels(column: Any, *, is_text: bool) -> Any:
    """Return labels as booleans, integers or text.

    A file of text (``is_text``) has no types, so its words True and False are booleans, and whole numbers are
    integers.
    """
    number_of_row, values = pd.factorize(column)  # many rows have few distinct values
    texts = pd.Series(values).astype(str).to_numpy(dtype=str)
    if is_bool_dtype(column.dtype) or (is_text and {*texts} == {"False", "True"}):
        labels = texts == "True"
    elif is_text and all(map(WHOLE.fullmatch, texts)):
        labels = texts.astype(np.int64)
    elif is_integer_dtype(column.dtype):  # of a Parquet file, also pandas' own integers
        labels = np.asarray(values.tolist())
    else:
        labels = texts
    return labels[number_of_row]


def numbers_of(table: Table, name: str, data: Path) -> Any:
    """Return a column of a file ``data`` as float64; missing values become NaN.

    Any other value except a number raises `BadInput` with its row.
    """
    column = table[name]
    # A Parquet file has types, so its texts are no scores although they may be numbers.
    if not is_csv(data) and not is_numeric_dtype(column.dtype):
        for row, value in enumerate(column):
            if isinstance(value, str):
                raise BadInput(
                    f"{str(data)!r}: column {name!r} holds text in row {row}, {value[:40]!r}; "
                    "write it as a column of numbers"
                )
    numbers = pd.to_numeric(column, errors="coerce").astype(np.float64)
    rows_of_text = np.flatnonzero(numbers.isna() & column.notna())
    if len(rows_of_text):
        subject = f"column {name!r} of {str(data)!r}"
        with bad_input():  # decimal commas have another cure
            refuse_commas_among_numbers(column.dropna().astype(str), subject)
        first_row = rows_of_text[0]
        text = str(column.iloc[first_row])[:40]
        cure = "Name a column of numbers, or leave unknown scores empty and select with --missing SCORE"
        if is_percent(text):
            how = percent_cure(text)
            cure = f"{how[0].upper()}{how[1:]}; numbers up to 100 need --kind percent"
        elif text.lower() in ("true", "false"):
            cure = NUMBER_BEHIND
        raise BadInput(
            f"{str(data)!r}: column {name!r} holds no number in row {first_row}: {text!r}. "
            f"{cure}"
        )
    return numbers
