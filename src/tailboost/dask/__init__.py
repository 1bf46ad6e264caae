"""Scores, labels and groups of Dask collections, gathered into arrays for every call of the library."""

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

from tailboost.core import Column, Document, Groups, Model, Table, blocks_of, joined

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
    given = {"X": X, "y": y, "groups": groups}
    blocks: dict[str, Any] = {}
    for name, values in given.items():
        if isinstance(values, da.Array | dd.DataFrame | dd.Series):
            blocks[name] = blocks_of(values)
        elif name == "X" or values is not None:
            raise TypeError(
                f"{name} is of type {type(values).__name__}: a Dask array or data frame is "
                "needed; rows in memory go to the functions of tailboost itself"
            )
    names = [f"probability_{label}" for label in np.asarray(model.classes_).tolist()]
    if hasattr(model, "client") or hasattr(model, "client_"):  # reads collections
        answers = blocks_of(model.predict_proba(X))
    else:
        sent = delayed(model)
        answers = [delayed(_probabilities)(sent, block) for block in blocks["X"]]
    pairs = zip(answers, blocks["X"], strict=True)
    blocks["X"] = [delayed(_framed)(answer, block, names) for answer, block in pairs]
    rows: dict[str, Any] = {}
    lengths: dict[str, list[str]] = {}
    for name, parts in compute(blocks)[0].items():
        full = [part for part in parts if len(part)] or parts[:1]
        lengths[name] = [f"{len(part):,}" for part in full]
        rows[name] = pd.concat(full) if hasattr(full[0], "index") else np.concatenate(full)
    indexed = [name for name in rows if not isinstance(given[name], da.Array)]
    for name in rows:
        if name in indexed and not rows[name].index.equals(rows[indexed[0]].index):
            raise ValueError(
                f"{name} and {indexed[0]} have different indexes, so their rows are not matched: "
                "give columns of one data frame, such as X.join(y)"
            )
        if {"X", name} - {*indexed} and lengths[name] != lengths["X"]:
            raise ValueError(
                f"{name} has partitions of {joined(lengths[name], 4)} rows and X of "
                f"{joined(lengths['X'], 4)}, and without an index in both, only partitions of "
                "equal lengths are matched: rechunk an array like X, or give columns of one data "
                "frame"
            )
    if "X" not in indexed:
        rows |= {name: rows[name].reset_index(drop=True) for name in ["X", *indexed]}
    return rows


def _probabilities(model: Model, block: Table) -> Any:
    """Return the probabilities of a partition, which may have no row after a filter."""
    return model.predict_proba(block) if len(block) else np.zeros((0, len(model.classes_)))


def _framed(probabilities: Table, rows: Table, names: list[str]) -> Any:
    """Return the probabilities of a partition with its index; of two labels those of the second."""
    P = np.asarray(probabilities)
    frame = pd.DataFrame(P, index=getattr(rows, "index", None), columns=names)
    return frame.iloc[:, int(len(names) == 2) :]
