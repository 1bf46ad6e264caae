"""Boosted trees on open tables that stop when held-out rows stop improving."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
import scipy.sparse as sp
from sklearn.ensemble import HistGradientBoostingClassifier

from tailboost.core.array_types import Floats, Ints, Seed, Table
from tailboost.learners.table import OpenTable, TableClassifier

# Fraction of the rows that decide when to stop.
HELD_OUT = 0.15
# Iterations if the rows are too few to hold any out.
FEW_ROWS = 50


class StoppedBoost(TableClassifier):
    """scikit-learn's boosted trees with early stopping, for tables with categories and missing values.

    A random half of the columns is tried at each split. Categories are ordered codes. Absent entries of a
    sparse matrix are 0.

    Parameters
    ----------
    random_state : int, RandomState or None
        Draws the held-out rows and the columns.
    """

    def __init__(self, random_state: Seed = None) -> None:
        self.random_state = random_state

    def learn(self, opened: OpenTable, y: Ints, weight: Floats) -> Self:
        """Fit the trees to rows of at least two classes."""
        used = weight > 0.0
        rows = np.bincount(y[used])
        self.table_ = opened.reader
        stops = rows.min() >= 2 and HELD_OUT * rows.sum() >= len(rows)
        model = HistGradientBoostingClassifier(
            learning_rate=0.1, max_iter=200 if stops else FEW_ROWS, max_leaf_nodes=15, min_samples_leaf=10,
            max_features=0.5, early_stopping=stops, validation_fraction=HELD_OUT,
            random_state=self.random_state,
        )  # fmt: skip
        self.model_ = model.fit(_dense(opened.table)[used], y[used], weight[used])
        self.classes_ = self.model_.classes_
        return self

    def predict_proba_table(self, table: Table) -> Floats:
        """Return class probabilities for a table prepared by ``table_.transform``, shape (n, K)."""
        return np.asarray(self.model_.predict_proba(_dense(table)), dtype=np.float64)


def _dense(table: Table) -> Any:
    return table.toarray() if sp.issparse(table) else table
