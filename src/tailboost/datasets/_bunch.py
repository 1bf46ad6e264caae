"""What all loaders share: pandas on demand, group columns, and the returned Bunch."""

from __future__ import annotations

import io
import lzma
from collections.abc import Mapping, Sequence
from importlib.resources import files
from types import ModuleType
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils import Bunch


def import_pandas(needed_by: str) -> ModuleType:
    """Import pandas; if it is missing, raise ImportError naming what needs it and how to install it."""
    try:
        import pandas
    except ImportError as error:
        raise ImportError(f"{needed_by} needs pandas: pip install 'tailboost[app]'") from error
    return pandas


def decode(codes: ArrayLike, names: Mapping[int, str], other: str) -> NDArray[np.str_]:
    """Spell out integer codes; codes without a name become `other`."""
    values, inverse = np.unique(np.asarray(codes), return_inverse=True)
    return np.asarray([names.get(int(value), other) for value in values])[inverse]


def bundled(name: str, dtype: type) -> tuple[list[str], NDArray[Any], str]:
    """Return the columns' names and the cells of a table that comes with the package, and its description."""
    folder = files("tailboost.datasets") / "data"
    text = lzma.decompress((folder / f"{name}.csv.xz").read_bytes()).decode("ascii")
    header, rows = text.split("\n", 1)
    cells: NDArray[Any] = np.loadtxt(io.StringIO(rows), delimiter=",", dtype=dtype)
    return header.split(","), cells, (folder / "README.md").read_text(encoding="utf-8")


def numeric_bunch(
    X: NDArray[Any],
    y: NDArray[np.int64],
    groups: Mapping[str, NDArray[np.str_]],
    *,
    loader: str,
    feature_names: Sequence[str],
    target_name: str,
    target_names: Sequence[str],
    descr: str,
    return_X_y: bool,
    as_frame: bool,
) -> Any:
    """Pack an all-numeric data set as scikit-learn's loaders do, with the groups beside it."""
    data: Any = X
    target: Any = y
    group_table: Any = dict(groups)
    if as_frame:
        pandas = import_pandas(f"{loader}(as_frame=True) (as_frame=False does not)")
        data = pandas.DataFrame(X, columns=list(feature_names))
        target = pandas.Series(y, name=target_name)
        group_table = pandas.DataFrame(group_table).astype("category")
    if return_X_y:
        return data, target
    return Bunch(
        data=data,
        target=target,
        groups=group_table,
        feature_names=list(feature_names),
        target_names=np.asarray(target_names),
        DESCR=descr,
    )
