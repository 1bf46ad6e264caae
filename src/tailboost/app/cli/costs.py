"""The file of --costs: costs of predictions, by true label or by row."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from tailboost import datasets, rates
from tailboost.app.cli.shared import bad_input, read_number
from tailboost.core.spelling import did_you_mean
from tailboost.core.subgroups import PERSON


@dataclass(frozen=True)
class CostTable:
    """Costs of predictions: a matrix by true label, or an array by row; columns in the order of labels."""

    labels: tuple[Any, ...]
    matrix: Any = None  # shape (K, K) or (K, K + 1); the last of K + 1 columns is the cost of a deferral
    by_row: Any = None  # shape (n, K)

    def fill(self, rate: rates.Rate) -> rates.Rate:
        """Return a rate of costs with the matrix, if there is one."""
        return (
            rate if self.matrix is None else replace(rates.cost(self.matrix, by=rate.by), labels=self.labels)
        )

    @classmethod
    def read(cls, path: Path, classes: Sequence[Any], y: Any, data: Path, sep: str) -> CostTable:
        """Read a file of costs for the rows of DATA, which have the labels y."""
        with bad_input(f"--costs {path}: "):
            table = datasets.read_frame(path, sep)
            names = {str(label): label for label in classes}
            first, *rest = map(str, table.columns)
            by_row = first in names
            columns = [first, *rest] if by_row else rest
            if unknown := [name for name in columns if name not in names and name != PERSON]:
                deferral = "" if by_row else f", and {PERSON} for a deferral"
                raise ValueError(
                    f"column {unknown[0]!r} is no label; the labels are {', '.join(names)}{deferral}"
                )
            if missing := [name for name in names if name not in columns]:
                raise ValueError(f"there is no column for the prediction {missing[0]!r}")
            if by_row:
                if PERSON in columns:
                    raise ValueError(f"{PERSON!r} needs a table by true label, this one is by row")
                if len(table) != len(y):
                    raise ValueError(
                        f"{len(table):,} rows, but {data.name} has {len(y):,}; a row is needed for each of "
                        "them, or one for each true label, with the label in the first column"
                    )
                costs = [_finite(table[name], f"column {name!r}") for name in names]
                return cls(tuple(classes), by_row=np.column_stack(costs))
            truths = [str(value) for value in table.iloc[:, 0]]
            if sorted(truths) != sorted(names):
                raise ValueError(
                    f"the first column {first!r} has to name each true label once ({', '.join(names)}), got "
                    f"{', '.join(truths[:20])}"
                )
            answers = [*names, *[PERSON] * (PERSON in columns)]
            cells = [[table[name].iloc[truths.index(truth)] for name in answers] for truth in names]
            return cls._of_cells(tuple(classes), cells, y, data, sep)

    @classmethod
    def _of_cells(
        cls, classes: tuple[Any, ...], cells: list[list[Any]], y: Any, data: Path, sep: str
    ) -> CostTable:
        """Return the costs of cells that are numbers, columns of DATA, or products of both."""
        try:
            return cls(classes, matrix=np.array([[_number(cell) for cell in row] for row in cells]))
        except ValueError:
            pass
        if len(cells[0]) > len(classes):
            raise ValueError(f"{PERSON!r} is possible only if all cells are numbers")
        rows = datasets.read_frame(data, sep)
        costs = np.zeros((len(y), len(classes)))
        for label, row in zip(classes, cells, strict=True):
            inside = np.asarray(y) == label
            for k, cell in enumerate(row):
                costs[inside, k] = _amounts(str(cell), rows, data)[inside]
        return cls(classes, by_row=costs)


def _number(cell: Any) -> float:
    number = read_number(str(cell))
    if not np.isfinite(number):
        raise ValueError(cell)
    return number


def _amounts(cell: str, rows: Any, data: Path) -> Any:
    """Return the costs of all rows by one cell: a number, a column, or a number times a column."""
    factor, times, name = cell.rpartition("*")
    try:
        return np.full(len(rows), _number(cell))
    except ValueError:
        pass
    try:
        scale = _number(factor) if times else 1.0
    except ValueError:
        raise ValueError(f"{cell!r} must be a number times a column, as 5*amount") from None
    name = name.strip()
    if name not in rows:
        hint = did_you_mean(name, map(str, rows))
        raise ValueError(f"{cell!r} is neither a number nor a column of {data.name}; {hint}".strip(" ;"))
    return scale * _finite(rows[name], f"column {name!r} of {data.name}")


def _finite(column: Any, name: str) -> Any:
    try:
        values = np.asarray(column, dtype=np.float64)
    except (TypeError, ValueError):
        values = np.array([np.nan])
    if not np.isfinite(values).all():
        raise ValueError(f"{name} must hold finite numbers, none missing")
    return values
