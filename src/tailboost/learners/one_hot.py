"""Boosted trees on one-hot tables, read as few columns of categories."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from tailboost.core.array_types import Floats, Ints, Table
from tailboost.learners.hist import HistBoostClassifier, HistSession
from tailboost.learners.table import OpenTable, TableReader


class OneHotBoost(HistBoostClassifier):
    """Boosted trees on sparse tables, with splits by sets of one-hot columns.

    The trees read a run of neighbouring columns as one column of categories if every row fills at most one of
    them. On one-hot tables these trees are smaller than trees with splits by single columns, and fewer trees
    are enough.
    """

    def open_table(
        self, opened: OpenTable, y: Ints, n_classes: int, sample_weight: Floats | None = None
    ) -> HistSession:
        """Return a session on an open sparse table, which other learners may share."""
        joined = opened.read_by(OneHotReader(opened.reader, first_columns(opened.table)))
        return super().open_table(joined, y, n_classes, sample_weight)

    @property
    def feature_importances_(self) -> Floats:
        """Fraction of the total gain by column, shape (d,); columns joined to one have equal parts."""
        by_joined_column = super().feature_importances_
        sizes = self.table_.sizes
        return np.repeat(by_joined_column / sizes, sizes)


class OneHotReader:
    """Reader of sparse tables with runs of one-hot columns joined to columns of categories.

    Parameters
    ----------
    reader : TableReader
        Reader of the sparse table.
    first : ndarray of int
        For each new column, the number of the first joined column, see `first_columns`.

    Attributes
    ----------
    sizes : ndarray of int
        The number of joined columns for each new column. A single column keeps its numbers.
    """

    def __init__(self, reader: TableReader, first: Ints) -> None:
        self.reader = reader
        self.first = first
        self.sizes = np.diff(first, append=reader.n_features)

    @property
    def n_features(self) -> int:
        """Number of columns of the sparse table."""
        return self.reader.n_features

    @property
    def feature_types(self) -> list[str]:
        """``"c"`` for categories, ``"q"`` for numbers."""
        return ["c" if size > 1 else "q" for size in self.sizes]

    def transform(self, X: Table) -> Table:
        """Return the new columns as float32; absent and missing entries are NaN."""
        return self.prepared(self.reader.transform(X))

    def prepared(self, table: Table) -> Table:
        """Return the new columns of a sparse table; a category is the place of its column.

        If a row fills several columns of a new one, the last counts.
        """
        if not table.has_sorted_indices:
            table = table.sorted_indices()
        entries = sp.coo_matrix(table)
        is_present = ~np.isnan(entries.data)
        rows = entries.row[is_present]
        columns = entries.col[is_present]
        new_columns = np.repeat(np.arange(len(self.sizes)), self.sizes)[columns]
        codes = columns - self.first[new_columns]
        joined = np.full((table.shape[0], len(self.sizes)), np.nan, dtype=np.float32)
        joined[rows, new_columns] = np.where(
            self.sizes[new_columns] > 1, codes, entries.data[is_present]
        )
        return joined


def first_columns(table: Any) -> Ints:
    """Return the number of the first column of each run of one-hot columns of a sparse table, ascending.

    Every row fills at most one column of a run, and each column of a run has one number. Another column is a
    run by itself.
    """
    by_column = sp.csc_matrix(table)
    filled_in_run = np.full(table.shape[0], -1)  # the last run in which a row is filled
    first = list[int]()
    can_join = False  # whether the run has one-hot columns alone
    for j in range(table.shape[1]):
        entries = slice(by_column.indptr[j], by_column.indptr[j + 1])
        rows = by_column.indices[entries]
        numbers = by_column.data[entries]
        is_one_hot = bool((numbers == numbers[:1]).all())
        run = len(first) - 1
        if not (can_join and is_one_hot) or (filled_in_run[rows] == run).any():
            run += 1
            first.append(j)
            can_join = is_one_hot
        filled_in_run[rows] = run
    return np.array(first, dtype=np.intp)
