"""Scores, labels and groups of Dask collections, gathered into arrays for every call of the library."""

from __future__ import annotations

try:  # one message for all missing packages
    import dask.array as da
    import dask.dataframe as dd
except ImportError as error:
    raise ImportError(
        f"tailboost.dask needs Dask ({error}): pip install 'tailboost[dask]'"
    ) from error

from typing import Any

import numpy as np
import pandas as pd
from dask import compute, delayed

from tailboost.core.array_types import Column, Document, Groups, Model, Table
from tailboost.core.partitions import blocks_of
from tailboost.core.spelling import joined

__all__ = ["gathered"]


def __dir__() -> list[str]:
    return __all__


def gathered(model: Model, X: Table, y: Column = None, groups: Groups = None) -> Document:
    """Return the scores of a model, the labels and the groups of Dask collections as data in memory.

    The partitions compute the scores on the workers. A rule reads one score, one label and one group of a
    row, so 13 bytes a row travel: 1.3 GB for 10⁸ rows, and the index of a data frame.

    Data frames and columns have the same index. An array has no index, so its partitions have as many rows
    as those of ``X``.

    Parameters
    ----------
    model : classifier
        Fitted, with ``predict_proba``: it is sent to the workers. A model on Dask, such as
        ``xgboost.dask.DaskXGBClassifier``, reads the collection itself.
    X : Dask array or data frame of shape (n, d)
        The features.
    y : Dask array or column of shape (n,), optional
        The labels.
    groups : Dask array, column or data frame of n rows, optional
        The groups.

    Returns
    -------
    dict
        ``X`` is a data frame of the scores with columns ``probability_LABEL``, of the second label alone if
        there are two, as `tailboost.Scores` takes them, with the index of a data frame ``X``. ``y`` and
        ``groups`` are there if they were given.

    Raises
    ------
    TypeError
        If an argument is no Dask collection.
    ValueError
        If ``y`` or ``groups`` have another index, or partitions of other lengths, than ``X``.

    Examples
    --------
    >>> import dask
    >>> import dask.array as da
    >>> from sklearn.linear_model import LogisticRegression
    >>> import tailboost as tb
    >>> import tailboost.dask as td
    >>> X = da.random.default_rng(0).random((3000, 2), chunks=(1000, 2))
    >>> y = (X[:, 0] > 0.7).astype(int)
    >>> model = LogisticRegression().fit(*dask.compute(X[:1000], y[:1000]))
    >>> rows = td.gathered(model, X[1000:], y[1000:])
    >>> rule = tb.calibrate(tb.Scores("probability_1", 1), rows["X"], rows["y"], limits=["miss(1) <= 10%"])
    >>> rule.certificate_.certified
    True
    """
    collections = {"X": X, "y": y, "groups": groups}
    blocks: dict[str, Any] = {}
    for name, values in collections.items():
        if values is None and name != "X":
            continue
        if not isinstance(values, da.Array | dd.DataFrame | dd.Series):
            raise TypeError(
                f"{name} is of type {type(values).__name__}: a Dask array or data frame is "
                "needed; rows in memory go to the functions of tailboost itself"
            )
        blocks[name] = blocks_of(values)
    score = delayed(_scores, pure=False)
    if hasattr(model, "client") or hasattr(model, "client_"):  # reads collections
        answers = blocks_of(model.predict_proba(X))
        pairs = zip(answers, blocks["X"], strict=True)
        blocks["X"] = [score(None, answer, block) for answer, block in pairs]
    else:
        sent = delayed(model, pure=False)
        blocks["X"] = [score(sent, block, block) for block in blocks["X"]]
    (computed,) = compute(blocks)
    rows = {name: _joined(parts) for name, parts in computed.items()}
    names = [f"probability_{label}" for label in np.asarray(model.classes_).tolist()]
    if len(names) == 2:
        names = names[1:]
    rows["X"] = rows["X"].set_axis(names, axis=1)
    indexed = [name for name in rows if not isinstance(collections[name], da.Array)]
    for name in indexed[1:]:
        if not rows[name].index.equals(rows[indexed[0]].index):
            raise ValueError(
                f"{name} and {indexed[0]} have different indexes, so their rows are not matched: "
                "give columns of one data frame, such as X.join(y)"
            )
    for name, parts in computed.items():
        if "X" not in indexed or name not in indexed:
            _check_lengths(name, parts, computed["X"])
    if "X" not in indexed:
        rows |= {name: rows[name].reset_index(drop=True) for name in ["X", *indexed]}
    return rows


def _check_lengths(name: str, parts: list[Any], of_X: list[Any]) -> None:
    """Raise ValueError unless partitions without an index have as many rows as those of ``X``."""
    lengths = [[len(part) for part in each if len(part)] for each in (parts, of_X)]
    if lengths[0] != lengths[1]:
        words = [joined([f"{n:,}" for n in each], 4) for each in lengths]
        raise ValueError(
            f"{name} has partitions of {words[0]} rows and X of {words[1]}, and without an index in "
            "both, only partitions of equal lengths are matched: rechunk an array like X, or give "
            "columns of one data frame"
        )


def _joined(parts: list[Any]) -> Any:
    """Return computed partitions as one array, data frame or column."""
    parts = [part for part in parts if len(part)] or parts[:1]
    if hasattr(parts[0], "index"):
        return pd.concat(parts)
    return np.concatenate(parts)


def _scores(model: Model | None, block: Table, rows: Table) -> Any:
    """Return the probabilities of a partition of rows, of two labels those of the second, with its index.

    Without a model the block has the probabilities.
    """
    P = np.asarray(block)
    if model is not None and block.shape[0]:
        P = np.asarray(model.predict_proba(block))
    elif model is not None:  # a filter left no row
        P = np.zeros((0, len(model.classes_)))
    if P.shape[1] == 2:
        P = P[:, 1:]
    return pd.DataFrame(P, index=getattr(rows, "index", None))
