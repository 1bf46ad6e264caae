"""Subgroups of a game: their names, pools of small ones, their allowed errors, and the edge γ."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from tailboost.boosting.game import DECIMALS
from tailboost.core.array_types import Floats, Ints, Labels, Mask, Stated
from tailboost.core.checks import check_number
from tailboost.rates.strata import plain
from tailboost.rows.rows import Rows, TrainingSet, memberships
from tailboost.rows.subgroups import GroupNames

# Values of max_error="auto"; θ in the paper is 1 − max_error.
MAX_ERRORS = (0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9)
# Pseudo-rows that shrink the errors in a game towards their mean over the subgroups.
SHRINKAGE = 5.0
# ε of γ = ⌊qK⌋/K − ½ − ε.
EPSILON = 5e-4


def edge_from_share(q: float, n_units: int) -> float:
    """Return γ = ⌊qK⌋/K − ½ − ε with ε = .0005: round 1 must meet the targets of a fraction q of the classes.

    ``n_units`` is K. A γ of at most 0 belongs to a degenerate indicator game, as for K = 2 and q < 1.
    """
    n_met = math.floor(q * n_units + 1e-9)  # q = 2/3 of 3 units are 2, despite rounding errors
    return n_met / n_units - 0.5 - EPSILON


def is_kept(excess: Floats | float, strict: bool = False) -> Mask:
    """Return whether errors minus their targets are at most 0, or below 0 if ``strict``."""
    rounded = np.asarray(excess).round(DECIMALS)
    if strict:
        return np.asarray(rounded < 0)
    return np.asarray(rounded <= 0)


@dataclass(frozen=True)
class NamedSubgroups:
    """The subgroups with targets: classes, groups or class × group cells, with their names."""

    kind: str  # {"class", "group", "cell"}
    names: Labels  # shape (m,): labels, groups, or (label, group) pairs
    n_classes: int  # K
    # Shape (m,): number of the family of each subgroup. Small subgroups of one family are pooled. The cells
    # of one class are a family, and the groups of one column. Each class is a family of its own.
    family: Ints
    # Shape (m,): ``class + K · group`` of each cell; None for other kinds.
    cells: Ints | None = None

    @classmethod
    def of(
        cls, kind: str, rows: Rows, classes: Labels, groups: GroupNames | None
    ) -> NamedSubgroups:
        """Return the subgroups of the training rows.

        Parameters
        ----------
        kind : {"class", "group", "cell"}
            The kind of subgroup.
        rows : Rows
            The training rows. Only their cells are subgroups.
        classes : ndarray of shape (K,)
            The labels.
        groups : GroupNames or None
            Names of the groups; None without groups.
        """
        K = len(classes)
        if kind == "class":
            return cls(kind, classes, K, np.arange(K))
        assert groups is not None
        assert rows.groups is not None
        if kind == "group":
            return cls(kind, groups.names, K, groups.column)
        _, row_cells = memberships(cells_of(rows, K))
        cells = np.unique(row_cells)
        class_of_cell = cells % K
        group_of_cell = cells // K
        labels = classes[class_of_cell].tolist()
        group_names = groups.names[group_of_cell].tolist()
        names = np.empty(len(cells), dtype=object)
        names[:] = list(zip(labels, group_names, strict=True))
        family = class_of_cell + K * groups.column[group_of_cell]  # class and column
        return cls(kind, names, K, family, cells)

    @property
    def codes(self) -> list[int]:
        """Position of each subgroup among all cells; cells without training rows are absent."""
        if self.cells is None:
            return list(range(len(self.names)))
        return self.cells.tolist()

    def with_subgroups(self, rows: Rows) -> Rows:
        """Return rows with the numbers of their subgroups as groups; −1 for a cell of no training row."""
        if self.kind == "class":
            return replace(rows, groups=rows.y)
        if self.cells is None:
            return rows
        row_cells = cells_of(rows, self.n_classes)
        last = len(self.cells) - 1
        place = np.searchsorted(self.cells, row_cells).clip(max=last)
        has_training_rows = self.cells[place] == row_cells
        return replace(rows, groups=np.where(has_training_rows, place, -1).astype(np.intp))


def cells_of(rows: Rows, n_classes: int) -> Ints:
    """Return ``class + K · group`` for every group of each row, shape (n,) or (n, c)."""
    assert rows.groups is not None
    return (rows.y + n_classes * rows.groups.T).T  # transposed: the classes belong to rows


@dataclass(frozen=True)
class Pools:
    """Pools of subgroups. Subgroups with too few rows share one weight in the game.

    On 15 tables with a rare group (120 splits, games over cells) the largest error of a cell of 20 or more
    test rows was .033 ± .013 lower than with a weight for each cell, and the overall error .020 ± .008.
    """

    pool: Ints  # shape (m,): number of the pool of each subgroup, from 0
    # Shape (m,): effective rows of each subgroup, see `Rows.sizes`: the fewer of training and held-out rows.
    size: Floats
    least: int  # subgroups with fewer rows are small

    @classmethod
    def small(cls, subgroups: NamedSubgroups, tables: Sequence[Rows], min_rows: int) -> Pools:
        """Pool small subgroups of the same class or column, by their rows in each table.

        The small subgroups of a family are one pool. If this pool has fewer than ``min_rows`` rows, the
        smallest other subgroup of the family joins it. A small subgroup alone in its family keeps its own
        weight.
        """
        n_subgroups = len(subgroups.names)
        sizes = []
        for table in tables:
            rows = subgroups.with_subgroups(table)
            assert rows.groups is not None
            sizes.append(rows.sizes(rows.groups, n_subgroups))
        size = np.min(sizes, axis=0)
        is_small = size < min_rows
        pool = np.arange(n_subgroups)
        for family in np.unique(subgroups.family[is_small]):
            in_family = subgroups.family == family
            pooled = np.flatnonzero(in_family & is_small)
            large = np.flatnonzero(in_family & ~is_small)
            if size[pooled].sum() < min_rows and len(large):
                smallest_large = large[size[large].argmin()]
                pooled = np.append(pooled, smallest_large)
            pool[pooled] = pooled.min()
        _, number = np.unique(pool, return_inverse=True)  # from 0, without gaps
        return cls(number, size, min_rows)

    @property
    def count(self) -> int:
        """Number of pools."""
        return int(self.pool.max()) + 1

    @property
    def trivial(self) -> bool:
        """Whether no subgroups are pooled."""
        return self.count == len(self.pool)

    def index(self, groups: Ints) -> Ints:
        """Return the pools of rows from their subgroups, −1 for none."""
        if self.trivial:
            return groups
        return np.where(groups >= 0, self.pool[groups], -1)

    def strictest(self, allowed: Floats) -> Floats:
        """Return the smallest target in each pool; NaN for a pool without a target."""
        smallest = np.full(self.count, np.inf)
        np.fmin.at(smallest, self.pool, allowed)  # ignores NaN
        return np.where(np.isinf(smallest), np.nan, smallest)


def pooled_subgroups(
    kind: str,
    training: TrainingSet,
    classes: Labels,
    groups: GroupNames | None,
    min_rows: int,
) -> tuple[NamedSubgroups, Pools]:
    """Return the subgroups of a training set and their pools; they become the groups of the training set.

    Parameters
    ----------
    kind : {"class", "group", "cell"}
        Kind of the subgroups.
    training : TrainingSet
        The training rows, with a validation set if one was given.
    classes : ndarray of shape (K,)
        The labels.
    groups : GroupNames or None
        Names of the groups.
    min_rows : int
        Subgroups with fewer effective rows share a pool.
    """
    subgroups = NamedSubgroups.of(kind, training.rows, classes, groups)
    tables = [training.rows]
    if training.validation is not None:
        X_val, validation_rows = training.validation
        tables.append(validation_rows)
        training.validation = X_val, subgroups.with_subgroups(validation_rows)
    pools = Pools.small(subgroups, tables, min_rows)
    training.groups = subgroups.with_subgroups(training.rows).groups
    return subgroups, pools


def allowed_errors(max_error: Stated, units: Sequence[Any], kind: str) -> Floats:
    """Return the target of each subgroup, shape (m,); NaN for ``max_error="auto"``.

    Parameters
    ----------
    max_error : "auto", float or dict
        As given to the classifier.
    units : sequence
        Names of the m subgroups; the name of a cell is a pair (class, group).
    kind : {"class", "group", "cell"}
        Kind of the subgroups.

    Raises
    ------
    ValueError
        If a target is not in (0, 1], a unit has none, or a target names no unit.
    """
    if max_error == "auto":
        return np.full(len(units), np.nan)
    if not isinstance(max_error, Mapping):
        return np.full(len(units), float(max_error))
    max_error = {plain(key): value for key, value in max_error.items()}
    for key, value in max_error.items():
        check_number(value, f"max_error: the target of {key!r}", 0, 1)
    key_of_unit = {}
    for unit in units:
        keys = [unit, None]  # None has the target of all units without their own
        if kind == "cell":  # a cell may have the target of its class
            keys = [unit, unit[0], None]
        stated_keys = [key for key in keys if key in max_error]
        if stated_keys:
            key_of_unit[unit] = stated_keys[0]
    for key in max_error:
        if key is not None and key not in key_of_unit.values():
            raise ValueError(
                f"max_error={max_error!r}: no {kind} is called {key!r}; there are "
                f"{list(units)[:20]}"
            )
    for unit in units:
        if unit not in key_of_unit:
            raise ValueError(
                f"max_error={max_error!r} has no target for {kind} {unit!r}; name it, or give "
                "one for the rest under the key None"
            )
    return np.array([max_error[key_of_unit[unit]] for unit in units], dtype=np.float64)
