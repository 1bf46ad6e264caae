"""Tables of files: read, divided into features, labels, groups and clusters, and written."""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Self

import pandas as pd
from pandas.api.types import is_numeric_dtype

from tailboost.core.files import write_output
from tailboost.core.spelling import did_you_mean

_PARQUET = (".parquet", ".pq")
# Whole numbers as Python writes them: 007 and 1.0 are text.
_WHOLE = re.compile(r"0|-?[1-9]\d{0,17}")
_FRACTION = re.compile(r"-?\d+\.\d+(e[+-]?\d+)?")
_TRUTH = {"True": True, "False": False}


@dataclass(frozen=True)
class Roles:
    """What the columns of a table are, as a model or rule file notes it.

    Without names of features, all columns without another role are features.
    """

    target: str | None = None
    groups: Sequence[str] = ()
    cluster: str | None = None
    features: Sequence[str] = ()
    drop: Sequence[str] = ()
    text: Sequence[str] = ()

    def given(self, **stated: Any) -> Self:
        """Return the roles with those that options state; groups are added."""
        stated["groups"] = tuple(dict.fromkeys([*self.groups, *(stated.get("groups") or [])]))
        return replace(self, **{name: value for name, value in stated.items() if value})


@dataclass(frozen=True)
class Reader:
    """How the tables of a command are written."""

    sep: str = ","
    decimal: str = "."
    thousands: str | None = None
    encoding: str = "utf-8"
    na: Sequence[str] | None = None
    text: Sequence[str] | None = None

    def read(self, path: Path, roles: Roles, known: Iterable[Iterable[Any]] = ((), ())) -> Rows:
        """Return the rows of a file; labels and groups become the ``known`` ones with their text."""
        roles = replace(roles, text=(*roles.text, *(self.text or ())))
        names = {*roles.groups, *roles.text}
        if roles.target is not None:
            names.add(roles.target)
        try:
            with warnings.catch_warnings(action="error", category=pd.errors.ParserWarning):
                table = self._table(path, names)
        except pd.errors.ParserWarning:
            raise ValueError(
                f"{str(path)!r}: its rows have more cells than its header; give the separator "
                "by --sep"
            ) from None
        except (ValueError, LookupError, ImportError) as error:
            cure = (
                "; name its encoding by --encoding" if isinstance(error, UnicodeError) else ""
            )
            raise ValueError(f"{str(path)!r} cannot be read: {error}{cure}") from None
        if not len(table):
            raise ValueError(f"{str(path)!r} has no rows")
        rows = Rows(
            path, table, roles, *({str(each): each for each in values} for values in known)
        )
        rows.columns(self.text or ())
        return rows

    def _table(self, path: Path, names: Iterable[str]) -> Any:
        """Return a table; columns with these names are text, and only empty cells are missing there."""
        if path.suffix in _PARQUET:
            return pd.read_parquet(path)
        options: dict[str, Any] = {
            "sep": self._separator,
            "encoding": "utf-8-sig" if self.encoding == "utf-8" else self.encoding,
            "index_col": False,
        }
        header = pd.read_csv(path, header=None, nrows=1, dtype=str, **options).iloc[0].dropna()
        if header.duplicated().any():
            raise ValueError(f"two columns are called {header[header.duplicated()].iloc[0]!r}")
        missing = list(self.na or [])
        numbers = {"decimal": self.decimal, "thousands": self.thousands, "na_values": missing}
        table = pd.read_csv(path, low_memory=False, **options, **numbers)
        present = [name for name in names if name in table]
        if present:
            as_text = {"dtype": str, "keep_default_na": False, "na_values": ["", *missing]}
            table[present] = pd.read_csv(path, usecols=present, **options, **as_text)[present]
        return table

    def refuse_odd(self, features: Any) -> None:
        """Raise ValueError for a column of text that is no column of categories.

        Most but not all of its values are numbers, or there are many. Columns of --text are categories.
        """
        for name in features.columns.difference(self.text or []):
            column = features[name].dropna()
            if is_numeric_dtype(column):
                continue
            values = pd.Series(column.unique()).astype(str)
            is_number = pd.to_numeric(values, errors="coerce").notna()
            cure = "name its signs by --decimal or --thousands, its categories by --text, or --drop it"
            if 0.5 <= is_number.mean() < 1:
                odd = values[~is_number]
                cure = "name the text of missing numbers by --na, or categories by --text"
            elif len(values) > max(50, len(column) / 10):
                odd = values
            else:
                continue
            raise ValueError(
                f"column {name!r} is neither numbers nor categories: {len(values):,} "
                f"different values in {len(column):,} rows, such as "
                f"{', '.join(map(repr, odd[:2]))}; {cure}"
            )

    def write(self, table: Any, path: Path) -> None:
        """Write a table completely or not at all."""
        if path.suffix in _PARQUET:
            write_output(path, table.to_parquet(index=False))
        else:
            write_output(path, self.csv(table))

    def csv(self, table: Any) -> str:
        """Return a table as text."""
        return str(table.to_csv(index=False, sep=self._separator, decimal=self.decimal))

    @property
    def _separator(self) -> str:
        return "\t" if self.sep in ("tab", "\\t") else self.sep


@dataclass(frozen=True)
class Rows:
    """The rows of a file by the roles of its columns."""

    path: Path
    table: Any
    roles: Roles
    known_labels: Mapping[str, Any]
    known_groups: Mapping[str, Any]

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
            f"{str(self.path)!r} has no column {', '.join(map(repr, absent))}; {advice}it has "
            f"{has[:20]}"
        )

    @property
    def features(self) -> Any:
        """The features."""
        roles = self.roles
        names = list(roles.features)
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
        if self.roles.target is None:
            raise ValueError("name the column of the labels by --target")
        if self.roles.target in (*self.roles.groups, *self.roles.features):
            raise ValueError(f"--target: {self.roles.target!r} is also a group or a feature")
        column = self.columns([self.roles.target])[self.roles.target]
        if is_numeric_dtype(column):
            return column
        texts = column.astype("category")
        return texts.map(_typed(texts.cat.categories, self.known_labels))

    @property
    def groups(self) -> Any:
        """The columns of groups as text; None without such columns."""
        if not self.roles.groups:
            return None
        groups = self.columns(self.roles.groups).astype("category")
        for name in groups:
            groups[name] = groups[name].cat.rename_categories(
                lambda group: self.known_groups.get(str(group), str(group))
            )
        return groups

    @property
    def clusters(self) -> Any:
        """The cluster of each row; None without such a column."""
        if self.roles.cluster is None:
            return None
        return self.columns([self.roles.cluster])[self.roles.cluster]


def _typed(texts: Sequence[str], known: Mapping[str, Any]) -> dict[str, Any]:
    """Return for each text the known value with this text; otherwise the text.

    Without known values, truth values and numbers are such if all texts are.
    """
    if not known:
        known = {text: int(text) for text in texts if _WHOLE.fullmatch(text)}
        known |= {text: float(text) for text in texts if _FRACTION.fullmatch(text)}
        known = known or _TRUTH
        if not {*texts} <= {*known}:
            known = {}
    return {text: known.get(text, text) for text in texts}


def check_output(out: Path, endings: Sequence[str], *inputs: Path | None) -> None:
    """Raise ValueError if a file cannot be written, before any work."""
    if endings and out.suffix not in endings:
        raise ValueError(f"--out: {str(out)!r} must end in {' or '.join(endings)}")
    if not out.parent.is_dir():
        raise ValueError(f"--out: there is no folder {str(out.parent)!r}")
    if out.is_dir():
        raise ValueError(f"--out: {str(out)!r} is a folder")
    for path in inputs:
        if path is not None and out.resolve() == path.resolve():
            raise ValueError(f"--out: {str(out)!r} is read by this command; name another file")
