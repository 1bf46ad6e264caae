"""COMPAS, prepared as in Boosted CVaR Classification."""

from __future__ import annotations

import csv
import gzip
import io
import zlib
from pathlib import Path
from typing import Any

import numpy as np

from tailboost.datasets._bunch import numeric_bunch

_SOURCE = "https://github.com/propublica/compas-analysis (file compas-scores-two-years.csv)"
_COUNTS = ("juv_fel_count", "juv_misd_count", "juv_other_count", "priors_count")
_GROUPS = ("race", "sex", "age_cat")
_COLUMNS = (*_COUNTS, "age", "c_charge_degree", "is_recid", *_GROUPS)
_FEATURES = (*_COUNTS, "age/10", "c_charge_degree", "sex", "race")
_DESCR = f"""COMPAS: recidivism of defendants in Broward County, Florida, 2013 and 2014.

All rows of ProPublica's compas-scores-two-years.csv, prepared as in Zhai et al., "Boosted CVaR
Classification" (NeurIPS 2021): counts of juvenile felonies, misdemeanours and other offences, priors, age in
decades, charge (0 felony, 1 misdemeanour), sex (0 female, 1 male), race (0 Caucasian, 1 other); target
is_recid. Source: {_SOURCE}
"""


def load_compas(path: str | Path | None = None, *, return_X_y: bool = False, as_frame: bool = True) -> Any:
    """Load COMPAS from ProPublica's file, prepared as for CVaR boosting [1]_ (binary classification).

    The target is ``is_recid`` (3,471 of 7,214 rows), as in that paper, not the more usual ``two_year_recid``
    (3,251). No row is filtered out.

    Parameters
    ----------
    path : path-like
        ``compas-scores-two-years.csv``, plain or gzipped, from ProPublica's ``compas-analysis`` repository.
        It has no open licence, so the package neither ships nor fetches it.
    return_X_y : bool, default=False
        Return ``(data, target)`` instead of a Bunch.
    as_frame : bool, default=True
        Give a pandas DataFrame and Series (needs pandas). With False: NumPy arrays, pandas is not imported.

    Returns
    -------
    Bunch or (data, target)
        data : DataFrame or float64 ndarray of shape (7214, 8)
            juv_fel_count, juv_misd_count, juv_other_count, priors_count, age/10 (decades), c_charge_degree (0
            felony, 1 misdemeanour), sex (0 female, 1 male), race (0 Caucasian, 1 other).
        target : Series or int64 ndarray of shape (7214,)
            1 = charged again.
        groups : DataFrame of categories, or dict of str arrays of shape (7214,)
            ``race`` (six values), ``sex``, ``age_cat``, as in the file.
        feature_names, target_names, DESCR
            Names of columns and classes, and a description.

    Raises
    ------
    ValueError
        No path, no such file, a file that is not this table, or a value outside those above.
    ImportError
        ``as_frame=True`` without pandas.

    References
    ----------
    .. [1] R. Zhai et al., "Boosted CVaR Classification", NeurIPS 2021.
    """
    if path is None:
        raise ValueError(f"load_compas needs path=, a copy of the file from {_SOURCE}")
    column = _read_columns(Path(path))
    flags = [
        _flag(column, "c_charge_degree", "F", "M"),
        _flag(column, "sex", "Female", "Male"),
        column["race"] != "Caucasian",
    ]
    numbers = [_number(column, name) for name in _COUNTS]
    X = np.column_stack([*numbers, _number(column, "age") / 10.0, *flags]).astype(np.float64)
    return numeric_bunch(
        X,
        _flag(column, "is_recid", "0", "1"),
        {name: column[name] for name in _GROUPS},
        loader="load_compas",
        feature_names=_FEATURES,
        target_name="is_recid",
        target_names=["no new charge", "new charge"],
        descr=_DESCR,
        return_X_y=return_X_y,
        as_frame=as_frame,
    )


def _read_columns(path: Path) -> dict[str, np.ndarray[Any, np.dtype[np.str_]]]:
    try:
        raw = path.read_bytes()
        text = (gzip.decompress(raw) if raw[:2] == b"\x1f\x8b" else raw).decode("utf-8-sig")
        header, *rows = list(csv.reader(io.StringIO(text))) or [[]]
    except (OSError, EOFError, zlib.error, UnicodeDecodeError, csv.Error) as error:
        raise ValueError(f"load_compas cannot read path={str(path)!r}: {error}") from error
    if missing := [name for name in _COLUMNS if name not in header]:
        raise ValueError(f"{str(path)!r} is not {_SOURCE}: it has no column {missing}")
    if not rows or any(len(row) != len(header) for row in rows):
        raise ValueError(f"{str(path)!r} is damaged: it has no rows or rows of unequal length")
    # The original repeats priors_count and decile_score; the copies of priors_count are equal, so take
    # the first.
    place = [header.index(name) for name in _COLUMNS]
    table = np.array([[row[j] for j in place] for row in rows])
    return dict(zip(_COLUMNS, table.T, strict=True))


def _number(column: dict[str, Any], name: str) -> Any:
    try:
        return column[name].astype(np.float64)
    except ValueError as error:
        raise ValueError(f"column {name!r} of COMPAS must hold numbers: {error}") from error


def _flag(column: dict[str, Any], name: str, zero: str, one: str) -> Any:
    if strange := sorted(set(column[name].tolist()) - {zero, one}):
        raise ValueError(f"column {name!r} of COMPAS must hold {zero!r} or {one!r}, found {strange[:5]}")
    return (column[name] == one).astype(np.int64)
