"""Boosted trees on few columns of wide tables: the columns with the largest differences between classes."""

from __future__ import annotations

from typing import Any, Self

import numpy as np

from tailboost.core.array_types import Floats, Ints, Mask, Table
from tailboost.learners.hist import HistBoostClassifier
from tailboost.learners.linear import Refitted, RefittedSession
from tailboost.learners.table import ClassProbabilities, OpenTable, Ranked

# With 32 bins and three levels the histograms of a wide table are small.
FEW_BINS = 32
DEPTH = 3
RATE = 0.2


class ScreenedBoost(Refitted):
    """Boosted trees on few columns of a dense table, and on as many trees as held-out rows need.

    The columns have the largest F statistics: the variance of the class means, divided by the mean variance
    in the classes. Each fit chooses them on its own rows. Categories are ordered codes.

    Parameters
    ----------
    n_columns : int ≥ 1, default=100
        Number of columns.
    """

    def __init__(self, n_columns: int = 100) -> None:
        self.n_columns = n_columns

    def open_table(
        self, opened: OpenTable, y: Ints, n_classes: int, sample_weight: Floats | None = None
    ) -> ScreenedSession:
        """Return a session on an open table, see `protocols.TableLearner`."""
        return ScreenedSession(self, opened, np.asarray(y), n_classes)

    def learn(self, opened: OpenTable, y: Ints, weight: Floats) -> Self:
        """Choose the columns on rows of positive weight, and fit the trees; the rows need two classes."""
        self.table_ = opened.reader
        is_used = weight > 0.0
        table = opened.table[is_used]
        y = y[is_used]
        weight = weight[is_used]
        best_first = np.argsort(-between_classes(table, y, weight), kind="stable")
        self.columns_ = np.sort(best_first[: self.n_columns])
        trees = HistBoostClassifier(
            n_estimators="auto", max_depth=DEPTH, learning_rate=RATE, max_bins=FEW_BINS
        )
        self.model_ = trees.fit(table[:, self.columns_], y, weight)
        self.classes_ = self.model_.classes_
        return self

    def predict_proba_table(self, table: Table) -> Floats:
        """Return class probabilities for a table prepared by ``table_.transform``, shape (n, K)."""
        return self.model_.predict_proba(table[:, self.columns_])


class ScreenedSession(RefittedSession):
    """All fits of one learner on one table. The mean of the models of the folds answers new rows."""

    refits = False

    def mean(self, models: list[Any], weight: Floats, rows: list[Mask]) -> Ranked | None:
        """Return the mean of the models, or None if one lacks a class, see `AveragingLearner`."""
        for model in models:
            if not isinstance(model, ScreenedBoost) or len(model.classes_) < self.n_classes:
                return None
        return Ranked(ClassProbabilities(models, np.ones((len(models), self.n_classes))))


def between_classes(table: Table, y: Ints, weight: Floats) -> Floats:
    """Return the variance of the class means as a fraction of the variance of each column, shape (d,).

    The fraction is a monotone function of the F statistic; 0 for constant columns. Missing values count as
    the mean.

    Parameters
    ----------
    table : ndarray of shape (n, d)
        Numbers; NaN is missing.
    y : ndarray of int, shape (n,)
        Class numbers.
    weight : ndarray of shape (n,)
        Weights of the rows.
    """
    tiny = np.finfo(np.float64).tiny  # lower bound for sums, which may be 0
    is_missing = np.isnan(table)
    if is_missing.any():
        mean = (
            weight @ np.where(is_missing, 0.0, table) / np.maximum(weight @ ~is_missing, tiny)
        )
        centred = np.where(is_missing, 0.0, table - mean)
    else:
        centred = table - weight @ table / weight.sum()
    weight_by_class = np.zeros((int(y.max()) + 1, len(y)))  # shape (K, n)
    weight_by_class[y, np.arange(len(y))] = weight
    class_totals = np.maximum(weight_by_class.sum(axis=1), tiny)
    class_sums = weight_by_class @ centred  # shape (K, d)
    between = (class_sums**2 / class_totals[:, None]).sum(axis=0)
    variance = weight @ centred**2
    return np.divide(between, variance, out=np.zeros_like(between), where=variance > 0.0)
