"""Parquet files as Dask collections, encoded as by `tailboost.app.table_encoder`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from pathlib import Path
from typing import Any

import dask
import dask.array as da
import dask.dataframe as dd
import numpy as np
import pandas as pd

from tailboost.app.datasets import ColumnSchema, TableSchema
from tailboost.app.table_encoder import TableEncoder
from tailboost.core.array_types import Column, Floats, Groups, Table
from tailboost.core.table_files import is_csv
from tailboost.dask.collections import frame_blocks, whole

# Text columns with more values are refused: rare values cannot be pooled without the counts of all rows.
MOST_CATEGORIES = 50


@dataclass(frozen=True)
class ClusterTable:
    """A table in files, ready for the classifiers of `tailboost.dask`.

    Attributes
    ----------
    data : Dask array of shape (n, d)
        The features, encoded as numbers by `encoder`.
    target : column of a Dask data frame
        The labels.
    groups : Dask data frame or None
        The columns of groups.
    weight : column of a Dask data frame or None
        The weights of the rows.
    encoder : TableEncoder
        The fitted encoder, also for a pipeline with a classifier of one machine.
    label_counts : dict
        Number of rows with each label.
    """

    data: Table
    target: Any
    groups: Groups
    weight: Column
    encoder: TableEncoder
    label_counts: dict[Any, int]


def read_parquet(
    path: Any,
    target: str,
    *,
    group: Sequence[str] = (),
    drop: Sequence[str] = (),
    weight: str | None = None,
) -> ClusterTable:
    """Return Parquet files as a table for a fit on a cluster, without loading them.

    The files are read twice: once for the values of text columns, and once in the fit.

    Parameters
    ----------
    path : path-like or list of these
        Files, a folder, or a pattern with ``*``, as ``dask.dataframe.read_parquet`` takes them. Each row
        group must fit the memory of a worker several times.
    target : str
        The column of the labels.
    group : sequence of str
        Columns of groups; they stay features.
    drop : sequence of str
        Columns to leave out of the features.
    weight : str, optional
        The column of the weights; it is no feature.

    Returns
    -------
    ClusterTable

    Raises
    ------
    ValueError
        If a column is missing, has several kinds, or holds text with more than 50 distinct values.
    """
    if not isinstance(path, list) and is_csv(Path(path)):
        raise ValueError(
            f"{str(path)!r} is a CSV file: only Parquet files can be read on a cluster"
        )
    frame = dd.read_parquet(
        path if isinstance(path, list) else str(path), split_row_groups=True
    )
    frame = frame.rename(columns=str)
    names = list(frame.columns)
    roles = {
        "target": [target],
        "group": group,
        "drop": drop,
        "weight": [] if weight is None else [weight],
    }
    for role, needed in roles.items():
        absent = [name for name in needed if name not in names]
        if absent:
            raise ValueError(
                f"{role} column {absent[0]!r} is not there; the columns are {', '.join(names)}"
            )
    features = [name for name in names if name not in {target, weight, *drop}]
    if not features:
        raise ValueError(f"there are no feature columns besides the target {target!r}")
    described = dask.delayed(_describe, pure=False)
    parts = dask.compute(
        *(described(block, target) for block in frame_blocks(frame[[*features, target]]))
    )
    filled = [part for part in parts if part[1]]
    if not filled:
        raise ValueError(f"{str(path)!r} has no rows")
    schemas, label_counts, gaps_of = zip(*filled, strict=True)
    columns = tuple(reduce(_same, same_column) for same_column in zip(*schemas, strict=True))
    counts: dict[Any, int] = dict(sum(map(Counter, label_counts), Counter()))
    gaps = set[str]().union(*gaps_of)
    labels = ColumnSchema(
        target, columns[-1].kind, columns[-1].dtype, tuple(map(str, sorted(counts)))
    )
    encoder = TableEncoder(schema=TableSchema(columns[:-1], labels)).fit(
        _example(columns[:-1], gaps)
    )
    width = len(encoder.get_feature_names_out())
    encode = dask.delayed(_encode, pure=False)
    shared = dask.delayed(encoder)
    blocks = [
        da.from_delayed(encode(shared, block), shape=(np.nan, width), dtype=np.float64)
        for block in frame_blocks(frame[features])
    ]
    return ClusterTable(
        whole(blocks),
        frame[target],
        frame[list(group)] if group else None,
        None if weight is None else frame[weight],
        encoder,
        counts,
    )


Described = tuple[tuple[ColumnSchema, ...], dict[Any, int], set[str]]


def _describe(frame: Table, target: str) -> Described:
    """Return the schema of a partition, the number of rows of each label, and the columns with gaps."""
    columns = tuple(ColumnSchema.of(frame[name]) for name in frame.columns)
    labels = frame[target].value_counts(dropna=False)
    if frame[target].isna().any():
        raise ValueError(f"the target column {target!r} has missing values: drop these rows")
    gaps = {name for name in frame.columns if frame[name].isna().any()}
    return (
        columns,
        {k: int(n) for k, n in zip(labels.index.tolist(), labels, strict=True) if n},
        gaps,
    )


def _same(one: ColumnSchema, other: ColumnSchema) -> ColumnSchema:
    if one.kind != other.kind:
        raise ValueError(
            f"column {one.name!r} holds {one.kind} in some files and {other.kind} in others"
        )
    values = tuple(sorted({*one.categories, *other.categories}))
    return ColumnSchema(one.name, one.kind, one.dtype, values)


def _example(columns: tuple[ColumnSchema, ...], gaps: set[str]) -> Any:
    """Return a small table with every value of every text column, to fit an encoder."""
    large = [c.name for c in columns if len(c.categories) > MOST_CATEGORIES]
    if large:
        raise ValueError(
            f"column(s) {', '.join(map(repr, large))} of text have more than {MOST_CATEGORIES} "
            "different values: drop them, or turn them into numbers"
        )
    values: dict[str, list[Any]] = {
        c.name: [*c.categories, *([None] if c.name in gaps or not c.categories else [])]
        if c.kind == "text"
        else [0.0]
        for c in columns
    }
    height = max(map(len, values.values()))
    return pd.DataFrame(
        {
            name: [column[i % len(column)] for i in range(height)]
            for name, column in values.items()
        }
    )


def _encode(encoder: TableEncoder, frame: Table) -> Floats:
    if not len(frame):
        return np.empty((0, len(encoder.get_feature_names_out())))
    return encoder.transform(frame)
