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
from tailboost.dask.collections import DaskColumn, partitions, wide

WEIGHT = "weight"


def added(tables: list[Any]) -> Any:
    """Return the sum of such data frames."""
    whole = pd.concat(tables, ignore_index=True)
    keys = [name for name in whole.columns if name != WEIGHT]
    return (
        whole.groupby(keys, sort=True, observed=True, dropna=False)[WEIGHT].sum().reset_index()
    )


def counting(function: Callable[..., Any], *names: str) -> Callable[..., Any]:
    """Return a metric for Dask collections; its first arguments have the given names."""

    @wraps(function)
    def of_collections(*args: object, sample_weight: Column = None, **options: object) -> Any:
        given = dict(zip(names, args, strict=False))
        given |= {name: options.pop(name) for name in names if name in options}
        columns = [DaskColumn(name, given[name]) for name in names]
        weights = DaskColumn("sample_weight", sample_weight)
        blocks = partitions(wide(given[names[0]]), *columns, weights, name=names[0])
        delayed = dask.delayed(_count_block, pure=False)
        tables = dask.compute(*(delayed(names, *block[1:]) for block in blocks))
        table = added(list(tables))
        values = list[Any]()
        for column in columns:
            of_name = [
                table[c].to_numpy() for c in table if c.rpartition(" ")[0] == column.name
            ]
            if hasattr(column.values, "columns"):
                titles = sorted_names(list(column.values.columns))
                values.append(dict(zip(titles, of_name, strict=True)))
            elif len(of_name) == 1:
                values.append(of_name[0])
            else:
                values.append(np.column_stack(of_name))
        rest = args[len(names) :]
        return function(*values, *rest, sample_weight=table[WEIGHT].to_numpy(), **options)

    return of_collections


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
    for name, given in zip(names, columns, strict=True):
        if hasattr(given, "columns"):
            for j, (title, column) in enumerate(columns_by_name(given, name).items()):
                refuse_missing(column, f"{name} column {title!r}")
                table[f"{name} {j}"] = np.asarray(unboxed(column))
            continue
        refuse_missing(given, name)
        array = np.asarray(unboxed(given))
        table |= {f"{name} {j}": column for j, column in enumerate(np.atleast_2d(array.T))}
    table[WEIGHT] = np.ones(lengths.pop()) if weight is None else np.asarray(weight)
    return added([pd.DataFrame(table)])
