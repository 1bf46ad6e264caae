"""Metrics of rows in partitions: each partition is counted, and the counts are added.

Metrics depend on few distinct values: labels, answers, groups, label distributions. Each partition gives a
table of the distinct combinations with their summed weights, and the metrics of one machine read the sum of
the tables. If all values differ, as probabilities do, the table has a line for each row.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

import dask
import numpy as np
import pandas as pd

from tailboost.core.array_types import Column, Table
from tailboost.core.checks import (
    columns_by_name,
    n_rows_of,
    refuse_missing,
    sorted_names,
    unboxed,
)
from tailboost.dask.collections import DaskColumn, partitions, wide

WEIGHT = "weight"


def count(*columns: tuple[str, Any], weight: Column = None) -> Any:
    """Return a data frame of the distinct combinations of values with their summed weights.

    Columns are pairs of a name and values of shape (n,) or (n, k), or a data frame, whose columns keep their
    types and are sorted by name. The default weight is 1.

    Raises
    ------
    ValueError
        If a value is missing.
    """
    table: dict[str, Any] = {}
    for name, values in columns:
        if hasattr(values, "columns"):
            for j, (title, column) in enumerate(columns_by_name(values, name).items()):
                refuse_missing(column, f"{name} column {title!r}")
                table[f"{name} {j}"] = np.asarray(unboxed(column))
            continue
        refuse_missing(values, name)
        array = np.asarray(unboxed(values))
        table |= {f"{name} {j}": column for j, column in enumerate(np.atleast_2d(array.T))}
    n = n_rows_of(columns[0][1])
    return added(
        [pd.DataFrame(table | {WEIGHT: np.ones(n) if weight is None else np.asarray(weight)})]
    )


def added(tables: list[Any]) -> Any:
    """Return the sum of such data frames."""
    whole = pd.concat(tables, ignore_index=True)
    keys = [name for name in whole.columns if name != WEIGHT]
    return (
        whole.groupby(keys, sort=True, observed=True, dropna=False)[WEIGHT].sum().reset_index()
    )


def values_of(table: Table, name: str, given: Any = None) -> Any:
    """Return the values of a column of `count`, (m,) or (m, k); of a data frame ``given`` a dict."""
    values = [table[c].to_numpy() for c in table.columns if c.rpartition(" ")[0] == name]
    if hasattr(given, "columns"):
        return dict(zip(sorted_names(list(given.columns)), values, strict=True))
    if len(values) == 1:
        return values[0]
    return np.column_stack(values)


def counting(function: Callable[..., Any], *names: str) -> Callable[..., Any]:
    """Return a metric for Dask collections; its first arguments have the given names."""

    @wraps(function)
    def of_collections(*args: object, sample_weight: Column = None, **options: object) -> Any:
        given = dict(zip(names, args, strict=False))
        columns = [
            DaskColumn(name, options.pop(name) if name in options else given[name])
            for name in names
        ]
        weights = DaskColumn("sample_weight", sample_weight)
        blocks = partitions(wide(columns[0].values), *columns, weights, name=names[0])
        delayed = dask.delayed(_count_block, pure=False)
        tables = dask.compute(*(delayed(names, *block[1:]) for block in blocks))
        table = added(list(tables))
        rest = args[len(names) :]
        values = [values_of(table, column.name, column.values) for column in columns]
        return function(*values, *rest, sample_weight=table[WEIGHT].to_numpy(), **options)

    return of_collections


def _count_block(names: tuple[str, ...], *values: Any) -> Any:
    *columns, weight = values
    lengths = {n_rows_of(v) for v in values if v is not None}
    if len(lengths) > 1:
        raise ValueError(
            f"a partition has {sorted(lengths)} rows of {', '.join(names)} and weights"
        )
    return count(*zip(names, columns, strict=True), weight=weight)
