"""Metrics of rows in partitions: each partition is counted, and the counts are added.

Metrics depend on few distinct values: labels, answers, groups, label distributions. Each partition gives a
table of the distinct combinations with their summed weights, and the metrics of one machine read the sum of
the tables. If all values differ, as probabilities do, the table has a line for each row.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import wraps
from typing import Any

import dask
import numpy as np
import pandas as pd
from numpy.typing import NDArray

from tailboost.core.checks import (
    columns_by_name,
    n_rows_of,
    refuse_missing,
    sorted_names,
    unboxed,
)
from tailboost.dask.collections import DaskColumn, as_table, partitions

WEIGHT = "weight"


def summed_tables(tables: list[Any]) -> Any:
    """Return the sum of tables of `_count_block`: a line for each combination of values, with its weight."""
    lines = pd.concat(tables, ignore_index=True)
    keys = [name for name in lines.columns if name != WEIGHT]
    combinations = lines.groupby(keys, sort=True, observed=True, dropna=False)
    return combinations[WEIGHT].sum().reset_index()


def counting(function: Callable[..., Any], *column_names: str) -> Callable[..., Any]:
    """Return a metric for Dask collections, from a metric for arrays.

    Each partition gives a table of the distinct combinations of values with their summed weights. The metric
    for arrays is called with the lines of the summed table: each combination is a row with its weight.
    ``column_names`` are the names of its arguments that are collections with an entry for each row.
    """
    signature = inspect.signature(function)

    @wraps(function)
    def metric_of_collections(*args: object, **options: object) -> Any:
        call = signature.bind(*args, **options)
        columns = [DaskColumn(name, call.arguments[name]) for name in column_names]
        weights = DaskColumn("sample_weight", call.arguments.get("sample_weight"))
        table = _counted(columns, weights)
        for column in columns:
            call.arguments[column.name] = _values_of(column, table)
        call.arguments["sample_weight"] = table[WEIGHT].to_numpy()
        return function(*call.args, **call.kwargs)

    return metric_of_collections


def _counted(columns: list[DaskColumn], weights: DaskColumn) -> Any:
    """Return the distinct combinations of values in all partitions, with their summed weights, as a table."""
    first = columns[0]
    names = tuple(column.name for column in columns)
    blocks = partitions(as_table(first.values), *columns, weights, name=first.name)
    # No two tasks are equal, so Dask need not hash their arguments to find equal ones (pure=True).
    count_block = dask.delayed(_count_block, pure=False)
    # The first entry of a block is the table by which the others are aligned, here the first column again.
    tables = dask.compute(*(count_block(names, *values) for _, *values in blocks))
    return summed_tables(list(tables))


def _values_of(column: DaskColumn, table: Any) -> Any:
    """Return the values of an argument from a table of counts: in the form of the collection, in memory.

    The columns of the argument "y" are called "y 0", "y 1", … in the table.
    """
    arrays = [table[c].to_numpy() for c in table if c.rpartition(" ")[0] == column.name]
    if hasattr(column.values, "columns"):
        titles = sorted_names(list(column.values.columns))
        return dict(zip(titles, arrays, strict=True))
    if len(arrays) == 1:
        return arrays[0]
    return np.column_stack(arrays)


def _columns_of(argument: Any, name: str) -> list[NDArray[Any]]:
    """Return the columns of an argument of shape (n,) or (n, k); those of a data frame by name.

    Raises
    ------
    ValueError
        If a value is missing; the message names the argument, and the column of a data frame.
    """
    if hasattr(argument, "columns"):
        columns = []
        for title, column in columns_by_name(argument, name).items():
            refuse_missing(column, f"{name} column {title!r}")
            columns.append(np.asarray(unboxed(column)))
        return columns
    refuse_missing(argument, name)
    array = np.asarray(unboxed(argument))
    return list(np.atleast_2d(array.T))  # one column for the shape (n,)


def _count_block(names: tuple[str, ...], *values: Any) -> Any:
    """Return a data frame of the distinct combinations of values with their summed weights.

    There is a value for each name, in the forms of `_columns_of`; the last value holds the weights, by
    default 1. The columns of the argument "y" are called "y 0", "y 1", … in the result.

    Raises
    ------
    ValueError
        If a value is missing, or numbers of rows differ.
    """
    *arguments, weight = values
    lengths = {n_rows_of(entries) for entries in values if entries is not None}
    if len(lengths) > 1:
        raise ValueError(
            f"a partition has {sorted(lengths)} rows of {', '.join(names)} and weights"
        )
    table: dict[str, Any] = {}
    for name, argument in zip(names, arguments, strict=True):
        for j, column in enumerate(_columns_of(argument, name)):
            table[f"{name} {j}"] = column
    if weight is None:
        weight = np.ones(lengths.pop())
    table[WEIGHT] = np.asarray(weight)
    return summed_tables([pd.DataFrame(table)])
