"""Parquet files as Dask collections, encoded as by `tailboost.app.table_encoder`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import cycle, islice
from pathlib import Path
from typing import Any, NamedTuple

import dask
import dask.array as da
import dask.dataframe as dd
import numpy as np
import pandas as pd

from tailboost.app.datasets import ColumnSchema, TableSchema
from tailboost.app.table_encoder import TableEncoder
from tailboost.core.array_types import Column, Floats, Groups, Table
from tailboost.core.table_files import is_csv
from tailboost.dask.collections import concatenated, frame_blocks

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


class BlockSummary(NamedTuple):
    """Summary of a block of rows, for the schema of the table and its encoder.

    Attributes
    ----------
    schema : tuple of ColumnSchema
        The feature columns, then the target column.
    label_counts : dict
        Number of rows with each label.
    gaps : set of str
        Names of the columns with missing values.
    """

    schema: tuple[ColumnSchema, ...]
    label_counts: dict[Any, int]
    gaps: set[str]


def read_parquet(
    path: Any,
    target: str,
    *,
    group: str | Sequence[str] = (),
    drop: str | Sequence[str] = (),
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
    group : str or sequence of str
        Columns of groups; they stay features.
    drop : str or sequence of str
        Columns to leave out of the features.
    weight : str, optional
        The column of the weights; it is no feature.

    Returns
    -------
    ClusterTable

    Raises
    ------
    ValueError
        If a file is a CSV file. If a column is missing, or the target has another role too. If no feature
        columns are left, or the files have no rows. If the target has missing values. If a column has several
        kinds, or values of a type that no feature can have, such as dates. If it holds text with more than 50
        distinct values.
    OSError
        If a file cannot be read.
    """
    paths = path
    if not isinstance(path, list):
        paths = [path]
        path = str(path)
    for file in paths:
        if is_csv(Path(file)):
            raise ValueError(
                f"{str(file)!r} is a CSV file: only Parquet files can be read on a cluster"
            )
    group_columns = _as_list(group)
    dropped_columns = _as_list(drop)
    frame = dd.read_parquet(path, split_row_groups=True).rename(columns=str)
    names = list(frame.columns)
    _check_roles(names, target, group_columns, dropped_columns, weight)
    features = [name for name in names if name not in {target, weight, *dropped_columns}]
    if not features:
        raise ValueError(f"there are no feature columns besides the target {target!r}")

    blocks = _scanned(frame[[*features, target]], target)
    if not blocks:
        raise ValueError(f"{str(path)!r} has no rows")
    encoder, label_counts = _encoder_of(blocks)
    table = ClusterTable(
        data=_encoded(frame[features], encoder),
        target=frame[target],
        groups=None,
        weight=None,
        encoder=encoder,
        label_counts=label_counts,
    )
    if group_columns:
        table = replace(table, groups=frame[group_columns])
    if weight is not None:
        table = replace(table, weight=frame[weight])
    return table


def _as_list(columns: str | Sequence[str]) -> list[str]:
    """Return names of columns as a list, also a single name."""
    if isinstance(columns, str):
        return [columns]
    return list(columns)


def _encoder_of(blocks: list[BlockSummary]) -> tuple[TableEncoder, dict[Any, int]]:
    """Return the fitted encoder of the features of all blocks, and the number of rows with each label."""
    label_counts = Counter[Any]()
    gaps = set[str]()
    for block in blocks:
        label_counts.update(block.label_counts)
        gaps |= block.gaps
    *feature_columns, target_column = _merged([block.schema for block in blocks])
    labels = replace(target_column, categories=tuple(map(str, sorted(label_counts))))
    schema = TableSchema(tuple(feature_columns), labels)
    encoder = TableEncoder(schema=schema).fit(_example(feature_columns, gaps))
    return encoder, dict(label_counts)


def _check_roles(
    columns: list[str],
    target: str,
    group_columns: list[str],
    dropped_columns: list[str],
    weight: str | None,
) -> None:
    """Raise ValueError if a column of a role is not there, or the target has another role too."""
    roles = [("target", target)]
    roles += [("group", name) for name in group_columns]
    roles += [("drop", name) for name in dropped_columns]
    if weight is not None:
        roles.append(("weight", weight))
    for role, name in roles:
        if name not in columns:
            raise ValueError(
                f"{role} column {name!r} is not there; the columns are {', '.join(columns)}"
            )
        if role != "target" and name == target:
            raise ValueError(
                f"column {name!r} is the target; it cannot be the {role} column too: give it "
                "one of these roles"
            )


def _scanned(frame: Any, target: str) -> list[BlockSummary]:
    """Return the summaries of the blocks that have rows; this reads the files."""
    summary = dask.delayed(_summary, pure=False)
    summaries = dask.compute(*(summary(block, target) for block in frame_blocks(frame)))
    return [summary for summary in summaries if summary.label_counts]


def _summary(block: Table, target: str) -> BlockSummary:
    """Return the summary of a block; raise ValueError if a label is missing."""
    gaps = {name for name in block.columns if block[name].isna().any()}
    if target in gaps:
        raise ValueError(f"the target column {target!r} has missing values: drop these rows")
    counts = block[target].value_counts()
    label_counts = {}
    for label, n in zip(counts.index.tolist(), counts.tolist(), strict=True):
        if n:  # a categorical column also has categories without rows
            label_counts[label] = n
    schema = tuple(ColumnSchema.of(block[name]) for name in block.columns)
    return BlockSummary(schema, label_counts, gaps)


def _merged(schemas: list[tuple[ColumnSchema, ...]]) -> list[ColumnSchema]:
    """Return the schema of all blocks; raise ValueError if a column has several kinds."""
    merged = list(schemas[0])
    for schema in schemas[1:]:
        for j, (merged_column, column) in enumerate(zip(merged, schema, strict=True)):
            if merged_column.kind != column.kind:
                raise ValueError(
                    f"column {column.name!r} holds {merged_column.kind} in some files and "
                    f"{column.kind} in others"
                )
            values = {*merged_column.categories, *column.categories}
            merged[j] = replace(merged_column, categories=tuple(sorted(values)))
    return merged


def _encoded(frame: Any, encoder: TableEncoder) -> Any:
    """Return feature columns as a Dask array of numbers, shape (n, d); nothing is read yet."""
    encode = dask.delayed(_encode, pure=False)
    shared = dask.delayed(encoder)  # sent to the workers once
    shape = (np.nan, len(encoder.get_feature_names_out()))  # NaN: not known before the fit
    blocks = []
    for block in frame_blocks(frame):
        numbers = encode(shared, block)
        blocks.append(da.from_delayed(numbers, shape=shape, dtype=np.float64))
    return concatenated(blocks)


def _example(columns: Sequence[ColumnSchema], gaps: set[str]) -> Any:
    """Return a small table with every value of every text column, to fit an encoder.

    Raise ValueError if a text column has too many values.
    """
    large = [c.name for c in columns if len(c.categories) > MOST_CATEGORIES]
    if large:
        raise ValueError(
            f"column(s) {', '.join(map(repr, large))} of text have more than {MOST_CATEGORIES} "
            "different values: drop them, or turn them into numbers"
        )
    values_by_column: dict[str, list[Any]] = {}
    for column in columns:
        values: list[Any] = [0.0]  # any number
        if column.kind == "text":
            values = list(column.categories)
            if column.name in gaps or not values:
                values.append(None)
        values_by_column[column.name] = values
    n_rows = max(map(len, values_by_column.values()))
    example = {}
    for name, values in values_by_column.items():
        example[name] = list(islice(cycle(values), n_rows))
    return pd.DataFrame(example)


def _encode(encoder: TableEncoder, block: Table) -> Floats:
    """Return a block as numbers; the encoder refuses a table without rows."""
    if not len(block):
        return np.empty((0, len(encoder.get_feature_names_out())))
    return encoder.transform(block)
