"""Adult, a public table with groups, fetched from OpenML or read from a copy."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from sklearn.datasets import fetch_openml

from tailboost.datasets._bunch import age_band, import_pandas
from tailboost.datasets._table import read_frame, split_table

_NAME, _VERSION, _TARGET = "adult", 2, "income"
_GROUPS = ("sex", "race")
_COUNTS = {"<=50K": 37155, ">50K": 11687}  # rows per class
_DESCR = "Adult (census income), UCI 2, CC BY 4.0: does a person earn more than 50,000 dollars a year?"


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
    bunch = _fetched(data_home) if path is None else _copied(path)
    if return_X_y:
        return bunch.data, bunch.target
    bunch.groups["age_band"] = age_band(bunch.data["age"])
    bunch.groups = bunch.groups.astype("category")
    bunch.DESCR = _DESCR
    return bunch


def _fetched(data_home: str | Path | None) -> Any:
    import_pandas(f"fetching {_NAME!r}")
    source = f"{_NAME!r} version {_VERSION} of OpenML"
    try:
        frame = fetch_openml(_NAME, version=_VERSION, as_frame=True, data_home=data_home).frame
    except OSError as error:
        raise ConnectionError(
            f"could not fetch {source} ({error}); give path= a copy of the table"
        ) from error
    bunch = _split(frame, source)
    if (found := _counts(bunch.target)) != _COUNTS:
        raise ValueError(f"{source} has changed: rows per class are {found}, expected {_COUNTS}")
    return bunch


def _copied(path: str | Path) -> Any:
    return _split(read_frame(Path(path)).drop(columns="split", errors="ignore"), repr(str(path)))


def _split(frame: Any, source: str) -> Any:
    frame = frame.rename(columns={"class": _TARGET})  # OpenML's name
    if strange := [name for name in ("age", *_GROUPS, _TARGET) if name not in frame]:
        raise ValueError(f"{source} is not the table {_NAME!r}: it has no column {', '.join(strange)}")
    labels = frame[_TARGET].astype(str).str.strip().str.rstrip(".")
    if strange := sorted(set(labels) - set(_COUNTS)):
        raise ValueError(f"{source} is not the table {_NAME!r}: it has the labels {', '.join(strange[:5])}")
    return split_table(frame.assign(**{_TARGET: labels}), _TARGET, _GROUPS, source=source)


def _counts(labels: Any) -> dict[str, int]:
    values, counts = np.unique(labels, return_counts=True)
    return dict(zip(values.tolist(), counts.tolist(), strict=True))
