"""Tables of files: read, divided into features, labels, groups and clusters, and written.

pandas is imported where a table is read, so help needs no part of a second.
"""

from __future__ import annotations

import os
import re
import warnings
from ast import literal_eval
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import field, replace
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, Self

import typer

from tailboost.core import as_known, did_you_mean, frozen_value

# The kinds of NumPy's and pandas' numbers: of truth values, whole numbers and fractions.
_NUMBERS = "biuf"
_PARQUET = (".parquet", ".pq")
# Endings of tables to write: those without one are CSV, such as /dev/stdout.
TABLES = (".csv", ".tsv", ".txt", *_PARQUET, "")
# The first bytes of files that are no CSV: .xlsx and .ods are zip archives.
_OTHER_FORMS = re.compile(rb"PK\x03\x04|\xd0\xcf\x11\xe0|\s*([\[{]\s*[\"\[{]|<[!?a-zA-Z])")
# A word that may be a number or a code: 7, 007, 1E5.
_CODE = r"\d+([eE]\d+)?"
# A truth value; a whole number as Python writes it, so 007 is text; or a fraction.
_PLAIN = re.compile(r"True|False|0|-?[1-9]\d{0,17}|-?\d+\.\d+(e[+-]?\d+)?")


def option(text: str, **more: Any) -> Any:
    """Return an option of a command, which has the name of its parameter."""
    return typer.Option(help=text, **more)


def several(metavar: str, text: str, **more: Any) -> Any:
    """Return an option that may be repeated; by default its list is empty."""
    return option(text, metavar=metavar, default_factory=list, show_default=False, **more)


@frozen_value
class Roles:
    """What the columns of a table are, and what is known ``about`` the model, as its file notes it.

    Without names of features, all columns without another role are features.
    """

    target: str | None = None
    groups: Sequence[str] = ()
    cluster: str | None = None
    features: Sequence[str] = ()
    drop: Sequence[str] = ()
    text: Sequence[str] = ()
    about: Mapping[str, str] = field(default_factory=dict)

    def given(self, groups: Iterable[Any] = (), about: Any = (), **stated: Any) -> Self:
        """Return the roles with those that options state, not None; groups and facts are added."""
        return replace(
            self,
            groups=tuple(dict.fromkeys([*self.groups, *filter(None, groups)])),
            about={**self.about, **dict(about)},
            **{name: value for name, value in stated.items() if value},
        )


@frozen_value
class Reader:
    """How the tables of a command are written, and what their cells mean, by its options."""

    na: Annotated[
        list[str], several("TEXT", "Text that means a missing value; may be repeated.")
    ]
    text: Annotated[
        list[str],
        several(
            "COL", "Column that is text, though its values may be numbers; may be repeated."
        ),
    ]
    sep: Annotated[str, option("Separator of CSV files, such as ; or tab.")] = ","
    decimal: Annotated[str, option("Decimal sign of CSV files.")] = "."
    thousands: Annotated[str | None, option("Sign between thousands in CSV files.")] = None
    encoding: Annotated[str, option("Encoding of CSV files to read, such as cp1252.")] = "utf-8"

    def read(self, path: Path, roles: Roles, known: Collection[Any] = ()) -> Rows:
        """Return the rows of a file; labels become the ``known`` ones with their text."""
        import pandas as pd

        for name in ("sep", "decimal"):
            sign = self._form[name]
            if len(sign.encode()) != 1:
                raise ValueError(f"--{name}: {sign!r} is no single sign, such as ; or tab")
        texts: set[Any] = {*roles.text, *self.text, *roles.groups, roles.target, roles.cluster}
        try:
            with warnings.catch_warnings(action="error", category=pd.errors.ParserWarning):
                table, texts = self._table(path, texts, bool(roles.features))
        except Exception as error:  # pandas raises what a damaged file meets
            reason = str(error)
            if isinstance(error, Warning):
                reason = "its rows have more cells than its header; give the separator by --sep"
            if isinstance(error, UnicodeError):
                reason += "; name its encoding by --encoding"
            raise ValueError(f"{str(path)!r} cannot be read: {reason}") from None
        if not len(table):
            raise ValueError(f"{str(path)!r} has no rows")
        roles = replace(roles, text=tuple(name for name in table if name in texts))
        rows = Rows(path, table, roles, known)
        rows.columns(self.text)
        return rows

    def words(self, path: Path, columns: Any) -> Any:
        """Return columns of a file as they are written there; only empty cells are missing."""
        import pandas as pd

        if path.suffix in _PARQUET:
            return columns
        return pd.read_csv(
            path,
            usecols=list(columns),
            dtype=str,
            keep_default_na=False,
            na_values=["", *self.na],
            **self._form,
        )

    def _table(self, path: Path, texts: set[Any], kinds_known: bool) -> tuple[Any, set[str]]:
        """Return a table, and its columns of text: these ``texts`` and, unless ``kinds_known``, those found.

        A column of numbers has a number, no other words than those of missing values, such as NA, and no two
        words for one number, such as 7 and 007. In text only an empty cell is missing: NA is a word.
        """
        import pandas as pd

        if path.suffix in _PARQUET:
            table = pd.read_parquet(path)
            # An index with a name is a column; rows are matched by position.
            table = table.reset_index(
                [title for title in table.index.names if title not in (None, *table)]
            ).reset_index(drop=True)
            return table, texts | {*table.select_dtypes(["object", "string", "category"])}
        if path.is_fifo():
            raise ValueError("it is a pipe, and is read repeatedly; write its rows to a file")
        with path.open("rb") as file:
            begin = file.read(100)
        if _OTHER_FORMS.match(begin) and path.suffix != ".zip":
            raise ValueError(
                "it is a workbook, an archive, JSON or a web page; save its table as CSV"
            )
        header = (
            pd.read_csv(path, header=None, nrows=1, dtype=str, **self._form).loc[0].dropna()
        )
        for repeated in header[header.duplicated()]:
            raise ValueError(f"two columns are called {repeated!r}")
        if header.empty or header.iloc[0].startswith("sep="):
            raise ValueError(
                "its first line is no header; delete it, and name the separator by --sep"
            )
        table = pd.read_csv(path, low_memory=False, na_values=self.na, **self._form)
        texts &= {*table}
        codes = set[str]()
        if not kinds_known:
            columns = table.drop(columns=[*texts])
            numbers = columns.select_dtypes(["number", "bool"]).dropna(axis=1, how="all")
            texts |= {*columns} - {*numbers}
            codes = {name for name in numbers if (numbers[name].dropna() % 1 == 0).all()}
        words = self.words(path, texts | codes)
        for name in codes:
            different = words[name].drop_duplicates()
            different = different[different.str.fullmatch(_CODE)]
            if table[name][different.index].duplicated().any():
                texts.add(name)
        table[[*texts]] = words[[*texts]]
        return table, texts

    def refuse_odd(self, features: Any) -> None:
        """Raise ValueError for a column of text that is no column of categories.

        Most but not all of its values are numbers, or there are many. Columns of --text are categories.
        """
        import pandas as pd

        for name in features.columns.difference(self.text):
            if str(name).startswith("Unnamed: "):  # as pandas calls it
                raise ValueError(
                    f"column {name!r} has no name, as an index: name it, or --drop it"
                )
            column = features[name].dropna()
            if column.dtype.kind in _NUMBERS:
                continue
            values = pd.Series(column.unique()).astype(str)
            is_number = pd.to_numeric(values, errors="coerce").notna()
            with_comma = pd.to_numeric(values.str.replace(",", "."), errors="coerce").notna()
            if len(values) <= max(50, len(column) / 10) and (
                is_number.all() or with_comma.mean() < 0.5
            ):
                continue
            words_first = values[is_number.argsort(kind="stable")]
            raise ValueError(
                f"column {name!r} is neither numbers nor categories: {len(values):,} "
                f"different values in {len(column):,} rows, such as "
                f"{', '.join(map(repr, words_first[:2]))}; name its signs by --decimal or "
                "--thousands, missing numbers by --na, its categories by --text, or --drop it"
            )

    def content(self, table: Any, path: Path = Path()) -> Any:
        """Return the content of a file of this name with a table; without a name it is CSV."""
        if path.suffix in _PARQUET:
            return table.to_parquet(index=False)
        return table.to_csv(index=False, sep=self._form["sep"], decimal=self.decimal)

    @property
    def _form(self) -> dict[str, Any]:
        """How a CSV file is written, for pandas."""
        form = {**vars(self), "index_col": False}
        form["sep"] = {"tab": "\t", "\\t": "\t"}.get(self.sep, self.sep)
        del form["na"], form["text"]
        return form


@frozen_value
class Rows:
    """The rows of a file by the roles of its columns."""

    path: Path
    table: Any
    roles: Roles
    known: Collection[Any]

    def columns(self, names: Sequence[str]) -> Any:
        """Return columns; raise ValueError for those that the file lacks."""
        has = list(map(str, self.table))
        absent = [name for name in names if name not in has]
        if not absent:
            return self.table[list(names)]
        advice = "".join(did_you_mean(name, has) for name in absent)
        if len(has) == 1:
            advice = "give the separator by --sep; "
        raise ValueError(
            f"{str(self.path)!r} has no column {str(absent)[1:-1]}; {advice}it has {has[:20]}"
        )

    def __str__(self) -> str:
        return f"{len(self.table):,} rows of {self.path.name}"

    @cached_property
    def features(self) -> Any:
        """The features."""
        roles = self.roles
        names = roles.features
        if not names:
            no_features = {roles.target, roles.cluster, *roles.drop}
            self.columns(roles.drop)
            names = [name for name in self.table if name not in no_features]
        features = self.columns(names)
        return features.astype(
            dict.fromkeys(features.columns.intersection(roles.text), "category")
        )

    @cached_property
    def labels(self) -> Any:
        """The labels."""
        target = self.roles.target
        if not target:
            raise ValueError("name the column of the labels by --target")
        if target in (*self.roles.groups, *self.roles.features):
            raise ValueError(f"--target: {target!r} is also a group or a feature")
        column = self.columns([target])[target]
        if column.dtype.kind in _NUMBERS:
            return column
        texts = column.dropna().unique()
        if self.known:
            values = dict(zip(texts, as_known(texts, self.known), strict=True))
        else:  # numbers and truth values are such if all texts are
            values = {text: literal_eval(text) for text in texts if _PLAIN.fullmatch(text)}
        if len(values) < len(texts):
            return column
        return column.map(values)

    @property
    def groups(self) -> Any:
        """The columns of groups as text; None without such columns."""
        names = self.roles.groups
        return self.columns(names) if names else None

    @property
    def unlabelled(self) -> dict[str, Any]:
        """The rows as arguments of the library, without labels."""
        arguments = {"X": self.features, "groups": self.groups}
        name = self.roles.cluster
        if name:
            arguments["clusters"] = self.columns([name])[name]
        return arguments

    @property
    def given(self) -> dict[str, Any]:
        """The rows as arguments of the library."""
        return {**self.unlabelled, "y": self.labels}


def check_output(out: Path | None, endings: Sequence[str], *inputs: Path | None) -> None:
    """Raise ValueError if a file is to be written and cannot be, before any work."""
    if not out:
        return
    if out.suffix not in endings:
        raise ValueError(
            f"--out: {str(out)!r} must end in {' or '.join(filter(None, endings))}"
        )
    if not out.parent.is_dir():
        raise ValueError(f"--out: there is no folder {str(out.parent)!r}")
    if out.is_dir():
        raise ValueError(f"--out: {str(out)!r} is a folder")
    if os.path.realpath(out) in map(os.path.realpath, filter(None, inputs)):
        raise ValueError(f"--out: {str(out)!r} is read by this command; name another file")
