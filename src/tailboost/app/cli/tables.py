"""Tables of files: read, divided into features, labels, groups and clusters, and written.

pandas is imported where a table is read, so help does not load it.
"""

from __future__ import annotations

import os
import re
import warnings
from ast import literal_eval
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import KW_ONLY, field, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Annotated, Any, Self

import typer

from tailboost.core import Arguments, as_known, did_you_mean, frozen_value, shown

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
# A column of text has at most 50 categories, or one for each ten rows of a longer table.
MOST_CATEGORIES = 50
FEWEST_OF_A_CATEGORY = 10
# All categories are numbers, or less than this share of them, with either decimal sign.
MOST_NUMBERS = 0.5


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

    def given(self, *, groups: Iterable[Any] = (), about: Any = (), **stated: Any) -> Self:
        """Return the roles with those that options state, unless empty; groups and facts are added."""
        return replace(
            self,
            groups=tuple(dict.fromkeys([*self.groups, *filter(None, groups)])),
            about={**self.about, **dict(about)},
            **{name: value for name, value in stated.items() if value},
        )


def _sign(given: Any) -> str:
    """Return a sign of CSV files; that of a tab has a name."""
    sign = str({"tab": "\t", "\\t": "\t"}.get(given, given))
    if len(sign.encode()) != 1:
        raise typer.BadParameter(f"{given!r} is no single sign, such as ; or tab")
    return sign


@frozen_value
class Form:
    """The signs of CSV files to read and to write."""

    sep: Annotated[str, option("Separator of CSV files, such as ; or tab.", parser=_sign)] = ","
    decimal: Annotated[str, option("Decimal sign of CSV files.", parser=_sign)] = "."

    def content(self, table: Any, path: Path = Path()) -> Any:
        """Return the content of a file of this name with a table: CSV without a name, .tsv with tabs."""
        if path.suffix in _PARQUET:
            return table.to_parquet(index=False)
        sep = "\t" if (path.suffix, self.sep) == (".tsv", ",") else self.sep
        return table.to_csv(index=False, sep=sep, decimal=self.decimal)


def _refuse_other_forms(path: Path) -> None:
    """Raise ValueError for a pipe, and for a file whose first bytes are those of no CSV."""
    if path.is_fifo():
        raise ValueError("it is a pipe, and is read repeatedly; write its rows to a file")
    with path.open("rb") as file:
        if _OTHER_FORMS.match(file.read(100)) and path.suffix != ".zip":
            raise ValueError(
                "it is a workbook, an archive, JSON or a web page; save its table as CSV"
            )


def _check_header(cells: Any) -> None:
    """Raise ValueError unless the cells of a first line name different columns."""
    titles = cells[cells != ""]
    for repeated in titles[titles.duplicated()]:
        raise ValueError(f"two columns are called {repeated!r}")
    if titles.empty or titles.iloc[0].startswith("sep="):
        raise ValueError(
            "its first line is no header; delete it, and name the separator by --sep"
        )


# A table as pandas reads it, its columns as they are written, and the names of those that are text.
_Cells = tuple[Any, Any, set[str]]


@frozen_value
class Reader(Form):
    """How the tables of a command are written, and what their cells mean, by its options."""

    _: KW_ONLY
    thousands: Annotated[
        str | None, option("Sign between thousands in CSV files.", parser=_sign)
    ] = None
    encoding: Annotated[str, option("Encoding of CSV files to read, such as cp1252.")] = "utf-8"
    na: Annotated[
        list[str], several("TEXT", "Text of missing values in CSV files; may be repeated.")
    ]
    text: Annotated[
        list[str],
        several(
            "COL", "Column that is text, though its values may be numbers; may be repeated."
        ),
    ]

    def read(self, path: Path, roles: Roles, ids: Collection[Any] = ()) -> FileRows:
        """Return the rows of a file, with columns of ``ids`` as they are written."""
        import pandas as pd

        if self.thousands == self.decimal:
            raise ValueError(
                f"--thousands: {self.thousands!r} is also the decimal sign; give --decimal"
            )
        try:
            with warnings.catch_warnings(action="error", category=pd.errors.ParserWarning):
                if path.suffix in _PARQUET:
                    table, as_written, text = self._of_parquet(path, roles)
                else:
                    table, as_written, text = self._of_csv(path, roles, ids)
        except Exception as error:  # pandas raises what a damaged file meets
            fault = str(error)
            if isinstance(error, Warning):
                fault = (
                    "its rows have more cells than its first line, the header; give the "
                    "separator by --sep, or delete lines above the header"
                )
            elif isinstance(error, UnicodeError):
                fault += f"; it is not in {self.encoding}: name its --encoding"
            raise ValueError(f"{str(path)!r} cannot be read: {fault}") from None
        if not len(table):
            raise ValueError(f"{str(path)!r} has no rows")
        categories = dict.fromkeys(filter(text.__contains__, table), "category")
        roles = replace(roles, text=tuple(categories))
        rows = FileRows(path, table.astype(categories), as_written, roles)
        rows.columns(self.text)  # raises for a name of none
        return rows

    def _of_parquet(self, path: Path, roles: Roles) -> _Cells:
        """Return the cells of a file; an index with a name is a column."""
        import pandas as pd

        if self.na or self.thousands or self.encoding != "utf-8":
            raise ValueError("--na, --thousands and --encoding are for CSV files")
        table = pd.read_parquet(path)
        named = [title for title in table.index.names if title not in (None, *table)]
        table = table.reset_index(named).reset_index(drop=True)  # rows are matched by position
        text = {*table.select_dtypes(["object", "string", "category"])}
        return table, table, text.union(roles.text, self.text)

    def _of_csv(self, path: Path, roles: Roles, ids: Collection[Any]) -> _Cells:
        """Return the cells of a file.

        Labels, groups, clusters and ids are as they are written. In text only an empty cell is missing: NA is
        a word. With names of features, the features may be numbers in the table. Without them any column is a
        feature, and it is text if

        - it has no number, or words other than numbers and those of missing values, such as NA; or
        - two of its words are one number, such as 7 and 007.
        """
        import pandas as pd

        _refuse_other_forms(path)
        read = partial(
            pd.read_csv,
            path,
            index_col=False,
            sep=self.sep,
            decimal=self.decimal,
            thousands=self.thousands,
            encoding=self.encoding,
        )
        _check_header(read(header=None, nrows=1, dtype=str, keep_default_na=False).loc[0])
        table = read(low_memory=False, na_values=self.na)
        named = {*roles.groups, roles.target, roles.cluster, *ids} & {*table}
        text = {*roles.text, *self.text} & {*table}
        # 1. Which of the other columns are text, and which may be codes: those of whole numbers.
        may_be_codes = set[str]()
        if roles.features:
            text |= named.difference(roles.features)
        else:
            others = table.drop(columns=[*text])
            numbers = others.select_dtypes(["number", "bool"]).dropna(axis=1, how="all")
            text |= {*others} - {*numbers}
            may_be_codes = {name for name in numbers if (numbers[name].dropna() % 1 == 0).all()}
        # 2. These columns as they are written.
        as_written = read(
            usecols=[*text | may_be_codes | named],
            dtype=str,
            keep_default_na=False,
            na_values=["", *self.na],
        )
        # 3. Codes are those of which two words are one number.
        for name in may_be_codes:
            words = as_written[name].dropna().drop_duplicates()
            codes = words[words.str.fullmatch(_CODE)]
            if table[name][codes.index].duplicated().any():
                text.add(name)
        table[[*text]] = as_written[[*text]]
        return table, as_written, text

    def refuse_odd(self, features: Any) -> None:
        """Raise ValueError for a column of text that is no column of categories.

        Categories are few, and all or less than half of them are numbers. Columns of --text are categories.
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
            are_few = len(values) <= max(MOST_CATEGORIES, len(column) / FEWEST_OF_A_CATEGORY)
            if are_few and (is_number.all() or with_comma.mean() < MOST_NUMBERS):
                continue
            words_first = values[is_number.argsort(kind="stable")]
            raise ValueError(
                f"column {name!r} is neither numbers nor categories: {len(values):,} "
                f"different values in {len(column):,} rows, such as "
                f"{', '.join(map(repr, words_first[:2]))}; in CSV give its signs by --decimal, "
                "--thousands, missing numbers by --na; or its categories by --text, or --drop it"
            )


@frozen_value
class FileRows:
    """The rows of a file by the roles of its columns.

    Attributes
    ----------
    path : Path
        The file, for messages.
    table : data frame
        All columns.
    as_written : data frame
        The columns of labels, groups, clusters and ids as text.
    roles : Roles
        The roles of the columns.
    known : collection
        The labels of a classifier: `labels` are those of them with the text of a cell.
    """

    path: Path
    table: Any
    as_written: Any
    roles: Roles
    known: Collection[Any] = ()

    def columns(self, names: Sequence[str]) -> Any:
        """Return columns of the table; raise ValueError for those that it lacks."""
        has = list(map(str, self.table))
        absent = [name for name in names if name not in has]
        if not absent:
            return self.table[list(names)]
        advice = "".join(did_you_mean(name, has) for name in absent)
        if len(has) == 1:
            advice = "give the separator by --sep; "
        raise ValueError(
            f"{str(self.path)!r} has no column {str(absent)[1:-1]}; {advice}it has {shown(has)}"
        )

    def written(self, name: Any) -> Any:
        """Return a column, or several, as it is written, None without a name; raise as `columns`."""
        if not name:
            return None
        self.columns([name] if isinstance(name, str) else name)
        return self.as_written[name]

    def __str__(self) -> str:
        return f"{len(self.table):,} rows of {self.path.name}"

    @cached_property
    def features(self) -> Any:
        """The features."""
        roles = self.roles
        if roles.features:
            return self.columns(roles.features)
        self.columns(roles.drop)
        return self.table.drop(
            columns=[roles.target, roles.cluster, *roles.drop], errors="ignore"
        )

    @cached_property
    def labels(self) -> Any:
        """The labels."""
        roles = self.roles
        target = roles.target
        if not target:
            raise ValueError("name the column of the labels by --target")
        if target in (*roles.groups, *roles.features, roles.cluster):
            raise ValueError(f"--target: {target!r} is also a group, a cluster or a feature")
        column = self.written(target)
        if column.dtype.kind in _NUMBERS:
            return column
        texts = column.dropna().unique()
        if self.known:
            return column.map(dict(zip(texts, as_known(texts, self.known), strict=True)))
        if all(map(_PLAIN.fullmatch, map(str, texts))):  # numbers and truth values
            return column.map({text: literal_eval(str(text)) for text in texts})
        return column

    @property
    def groups(self) -> Any:
        """The columns of groups as they are written; None without such columns."""
        return self.written([*self.roles.groups])

    @property
    def unlabelled(self) -> Arguments:
        """The rows as arguments of the library, without labels."""
        return {
            "X": self.features,
            "groups": self.groups,
            "clusters": self.written(self.roles.cluster),
        }

    @property
    def given(self) -> Arguments:
        """The rows as arguments of the library."""
        return self.unlabelled | {"y": self.labels}


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
