"""Dask collections as aligned partitions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import dask
import dask.array as da
import numpy as np

from tailboost.core.array_types import Column, Table
from tailboost.core.spelling import a_type_of

try:
    import dask.dataframe as dd
except ImportError:  # needs pandas
    dd = None


def _is_frame(X: Table) -> bool:
    """Whether X is a Dask data frame, or a column of one."""
    return dd is not None and isinstance(X, (dd.DataFrame, dd.Series))


@dataclass(frozen=True)
class DaskColumn:
    """A named collection with one entry per row."""

    name: str
    values: Column


def partitions(X: Table, *further: DaskColumn, name: str = "X") -> list[tuple[Any, ...]]:
    """Return the partitions of X with those of other columns, as delayed objects; None for missing columns.

    The other columns get the partitions of X; messages call X ``name``. If X is a dict of collections, such
    as probabilities by model, each of its partitions is a dict.

    Raises
    ------
    TypeError
        If a column is no Dask collection.
    ValueError
        If the partitions differ.
    """
    if isinstance(X, Mapping) and X:
        models = [DaskColumn(f"{name}[{key!r}]", values) for key, values in X.items()]
        first_model = models[0]
        aligned = partitions(
            as_table(first_model.values), *models, *further, name=first_model.name
        )
        blocks = []
        for _, *block in aligned:  # the first entry is the first model again
            parts_by_model = dict(zip(X, block[: len(X)], strict=True))
            blocks.append((parts_by_model, *block[len(X) :]))
        return blocks
    for column in (DaskColumn(name, X), *further):
        is_collection = isinstance(column.values, da.Array) or _is_frame(column.values)
        if column.values is not None and not is_collection:
            raise TypeError(
                f"{column.name} is {a_type_of(column.values)}: a Dask array or data "
                "frame is needed, for example from dask.array.from_array or "
                "dask.dataframe.read_parquet; for data in memory use the classifiers of "
                "tailboost itself"
            )
    if X.ndim != 2:
        raise ValueError(f"{name} must have two dimensions, got {X.ndim}")
    blocks = _blocks(X)
    table = DaskColumn(name, X)
    columns = [_aligned(table, len(blocks), column) for column in further]
    return list(zip(blocks, *columns, strict=True))


def _in_order(block: Any, names: list[Any]) -> Any:
    """Return a partition with the columns in the order of the collection, sorted only if they are not."""
    columns = list(block.columns)
    if columns == names:
        return block
    if sorted(map(str, columns)) != sorted(map(str, names)):
        raise ValueError(
            f"a partition has the columns {columns}, but its data frame has {names}"
        )
    return block[names]


def _blocks(X: Table) -> list[Any]:
    """Return the partitions of a collection as delayed objects; a partition has all columns.

    If few columns are needed, Dask may read several files as one partition, so the partitions of other
    columns no longer match. This optimisation is switched off.
    """
    if not _is_frame(X):
        if X.ndim == 2 and X.numblocks[1] > 1:
            X = X.rechunk({1: -1})  # one block of columns
        return list(X.to_delayed().ravel())
    blocks = list(X.to_delayed())
    if len(blocks) != X.npartitions:
        blocks = list(X.to_delayed(optimize_graph=False))
    if X.ndim == 1:
        return blocks
    # Files may have their columns in different orders.
    in_order = dask.delayed(_in_order, pure=False)
    names = list(X.columns)
    return [in_order(block, names) for block in blocks]


def _aligned(table: DaskColumn, n_blocks: int, column: DaskColumn) -> list[Any]:
    """Return the partitions of a column with the rows of those of a table; None for each without values.

    Raises
    ------
    ValueError
        If the numbers of rows or partitions differ.
    """
    values = column.values
    X = table.values
    if values is None:
        return [None] * n_blocks
    if _has_known_length(values) and _has_known_length(X):
        if len(values) != len(X):
            raise ValueError(
                f"{column.name} has {len(values):,} entries, {table.name} has {len(X):,} rows"
            )
        values = values.rechunk({0: X.chunks[0]})
    blocks = _blocks(values)
    if len(blocks) != n_blocks:
        raise ValueError(
            f"{column.name} has {len(blocks)} partitions, {table.name} has {n_blocks}: the "
            "partitions must have the same rows"
        )
    return blocks


def _has_known_length(values: Column) -> bool:
    """Return whether a collection is an array with chunks of known lengths."""
    return isinstance(values, da.Array) and not np.isnan(sum(values.chunks[0]))


def as_table(values: Column) -> Any:
    """Return a column as a table of one column; a table is unchanged."""
    if getattr(values, "ndim", None) != 1:
        return values
    if hasattr(values, "chunks"):
        return values[:, None]
    return values.to_frame()
