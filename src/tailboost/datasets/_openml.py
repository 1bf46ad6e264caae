"""Public tables with groups, fetched from OpenML or read from a copy."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.datasets import fetch_openml

from tailboost.datasets._bunch import age_band, import_pandas
from tailboost.datasets._table import read_frame, split_table


@dataclass(frozen=True)
class _Table:
    """One data set: its source, its column names, and what a correct copy must contain."""

    name: str
    version: int
    target: str  # in the original file
    openml_target: str
    counts: Mapping[str, int]  # rows per class
    groups: Sequence[str]
    descr: str
    openml_columns: Sequence[str] = ()  # real names, where OpenML has V1, V2 …
    openml_labels: Mapping[str, str] = field(default_factory=dict)


_ADULT = _Table(
    name="adult",
    version=2,
    target="income",
    openml_target="class",
    counts={"<=50K": 37155, ">50K": 11687},
    groups=("sex", "race"),
    descr="Adult (census income), UCI 2, CC BY 4.0: does a person earn more than 50,000 dollars a year?",
)
_BANK = _Table(
    name="bank-marketing",
    version=1,
    target="y",
    openml_target="Class",
    counts={"no": 39922, "yes": 5289},
    groups=("marital", "education"),
    descr="Bank marketing, UCI 222, CC BY 4.0: does a client subscribe to a term deposit after a call?",
    openml_columns=(
        "age", "job", "marital", "education", "default", "balance", "housing", "loan",
        "contact", "day", "month", "duration", "campaign", "pdays", "previous", "poutcome",
    ),
    openml_labels={"1": "no", "2": "yes"},
)  # fmt: skip


def fetch_adult(
    path: str | Path | None = None, *, data_home: str | Path | None = None, return_X_y: bool = False
) -> Any:
    """Get Adult (census income): 48,842 rows, 14 features, classes ``<=50K`` and ``>50K``.

    Parameters
    ----------
    path : path-like, default=None
        A CSV or Parquet copy with the usual column names (``age``, ``workclass``, …) and the target as
        ``income`` or ``class``; a column ``split`` is dropped, a full stop after a label (UCI's test file)
        too. None fetches version 2 of ``adult`` from OpenML with `sklearn.datasets.fetch_openml`, once.
    data_home : path-like, default=None
        Where scikit-learn keeps fetched files; None is its own default folder.
    return_X_y : bool, default=False
        Return ``(data, target)`` instead of a Bunch.

    Returns
    -------
    Bunch or (data, target)
        As from `load_table`, with ``groups`` columns ``sex``, ``race`` and ``age_band``, and ``DESCR``.

    Raises
    ------
    ConnectionError
        OpenML cannot be reached.
    ValueError
        The copy is not this table, or what was fetched has other numbers of rows per class.
    ImportError
        No pandas.

    References
    ----------
    .. [1] B. Becker and R. Kohavi, "Adult", UCI Machine Learning Repository, 1996, doi 10.24432/C5XW20.
    """
    return _get(_ADULT, path, data_home, return_X_y)


def fetch_bank(
    path: str | Path | None = None, *, data_home: str | Path | None = None, return_X_y: bool = False
) -> Any:
    """Get bank marketing: 45,211 rows, 16 features, classes ``no`` and ``yes``.

    The duration of the call is known only after it: leave ``duration`` out for a model one could use.

    Parameters
    ----------
    path : path-like, default=None
        A comma separated CSV or Parquet copy of ``bank-full`` with the usual column names (``age``, ``job``,
        …) and the target as ``y``. None fetches version 1 of ``bank-marketing`` from OpenML with
        `sklearn.datasets.fetch_openml`, once, and gives its columns and labels their original names.
    data_home : path-like, default=None
        Where scikit-learn keeps fetched files; None is its own default folder.
    return_X_y : bool, default=False
        Return ``(data, target)`` instead of a Bunch.

    Returns
    -------
    Bunch or (data, target)
        As from `load_table`, with ``groups`` columns ``marital``, ``education`` and ``age_band``, and
        ``DESCR``.

    Raises
    ------
    ConnectionError
        OpenML cannot be reached.
    ValueError
        The copy is not this table, or what was fetched has other numbers of rows per class.
    ImportError
        No pandas.

    References
    ----------
    .. [1] S. Moro et al., "A data-driven approach to predict the success of bank telemarketing", Decision
       Support Systems 62 (2014) 22-31.
    """
    return _get(_BANK, path, data_home, return_X_y)


def _get(table: _Table, path: str | Path | None, data_home: str | Path | None, return_X_y: bool) -> Any:
    bunch = _fetched(table, data_home) if path is None else _copied(table, path)
    if return_X_y:
        return bunch.data, bunch.target
    bunch.groups["age_band"] = age_band(bunch.data["age"])
    bunch.groups = bunch.groups.astype("category")
    bunch.DESCR = table.descr
    return bunch


def _fetched(table: _Table, data_home: str | Path | None) -> Any:
    import_pandas(f"fetching {table.name!r}")
    source = f"{table.name!r} version {table.version} of OpenML"
    try:
        frame = fetch_openml(table.name, version=table.version, as_frame=True, data_home=data_home).frame
    except OSError as error:
        raise ConnectionError(
            f"could not fetch {source} ({error}); give path= a copy of the table"
        ) from error
    frame = frame.rename(columns={f"V{i}": name for i, name in enumerate(table.openml_columns, start=1)})
    bunch = _split(table, frame, source)
    if (found := _counts(bunch.target)) != table.counts:
        raise ValueError(f"{source} has changed: rows per class are {found}, expected {dict(table.counts)}")
    return bunch


def _copied(table: _Table, path: str | Path) -> Any:
    return _split(table, read_frame(Path(path)).drop(columns="split", errors="ignore"), repr(str(path)))


def _split(table: _Table, frame: Any, source: str) -> Any:
    frame = frame.rename(columns={table.openml_target: table.target})
    if strange := [name for name in ("age", *table.groups, table.target) if name not in frame]:
        raise ValueError(f"{source} is not the table {table.name!r}: it has no column {', '.join(strange)}")
    labels = frame[table.target].astype(str).str.strip().str.rstrip(".").replace(dict(table.openml_labels))
    if strange := sorted(set(labels) - set(table.counts)):
        raise ValueError(
            f"{source} is not the table {table.name!r}: it has the labels {', '.join(strange[:5])}"
        )
    return split_table(frame.assign(**{table.target: labels}), table.target, table.groups, source=source)


def _counts(labels: Any) -> dict[str, int]:
    values, counts = np.unique(labels, return_counts=True)
    return dict(zip(values.tolist(), counts.tolist(), strict=True))
