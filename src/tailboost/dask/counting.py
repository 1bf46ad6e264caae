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

from tailboost.core.array_types import Column
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
    return (
        lines.groupby(keys, sort=True, observed=True, dropna=False)[WEIGHT].sum().reset_index()
    )


def counting(function: Callable[..., Any], *names: str) -> Callable[..., Any]:
    """Return a metric for Dask collections, from a metric for arrays.

    ``names`` are the names of its first arguments, which are collections with an entry for each row.
    """

    @wraps(function)
    def metric_of_collections(
        *args: object, sample_weight: Column = None, **options: object
    ) -> Any:
        """Count the distinct combinations of values, and call the metric with them and their weights."""
        arguments = dict(zip(names, args, strict=False))
        arguments |= {name: options.pop(name) for name in names if name in options}
        columns = [DaskColumn(name, arguments[name]) for name in names]
        weights = DaskColumn("sample_weight", sample_weight)
        blocks = partitions(as_table(arguments[names[0]]), *columns, weights, name=names[0])
        count_block = dask.delayed(_count_block, pure=False)
        tables = dask.compute(*(count_block(names, *block[1:]) for block in blocks))
        table = summed_tables(list(tables))
        values = list[Any]()
        for column in columns:
            name_columns = [
                table[c].to_numpy() for c in table if c.rpartition(" ")[0] == column.name
            ]
            if hasattr(column.values, "columns"):
                titles = sorted_names(list(column.values.columns))
                values.append(dict(zip(titles, name_columns, strict=True)))
            elif len(name_columns) == 1:
                values.append(name_columns[0])
            else:
                values.append(np.column_stack(name_columns))
        further_arguments = args[len(names) :]
        return function(
            *values, *further_arguments, sample_weight=table[WEIGHT].to_numpy(), **options
        )

    return metric_of_collections


def _count_block(names: tuple[str, ...], *values: Any) -> Any:
    """Return a data frame of the distinct combinations of values with their summed weights.

    Values have the shape (n,) or (n, k), or are a data frame, whose columns keep their types and are sorted
    by name. The last ones are the weights, by default 1.

    Raises
    ------
    ValueError
        If a value is missing, or numbers of rows differ.
    """
    *columns, weight = values
    lengths = {n_rows_of(v) for v in values if v is not None}
    if len(lengths) > 1:
        raise ValueError(
            f"a partition has {sorted(lengths)} rows of {', '.join(names)} and weights"
        )
    table: dict[str, Any] = {}
    for name, column_values in zip(names, columns, strict=True):
        if hasattr(column_values, "columns"):
            for j, (title, column) in enumerate(columns_by_name(column_values, name).items()):
                refuse_missing(column, f"{name} column {title!r}")
                table[f"{name} {j}"] = np.asarray(unboxed(column))
            continue
        refuse_missing(column_values, name)
        array = np.asarray(unboxed(column_values))
        table |= {f"{name} {j}": column for j, column in enumerate(np.atleast_2d(array.T))}
    table[WEIGHT] = np.ones(lengths.pop()) if weight is None else np.asarray(weight)
    return summed_tables([pd.DataFrame(table)])
