"""Logistic regression on the tables of the binned trees."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
import scipy.sparse as sp
from scipy.special import softmax
from sklearn.linear_model import LogisticRegression
from sklearn.utils.validation import check_is_fitted

from tailboost.core.array_types import Floats, Ints, Mask
from tailboost.core.blas import one_blas_thread
from tailboost.learners.foreign import constant
from tailboost.learners.forest import places, quota, reweighed
from tailboost.learners.table import OpenTable, Table, TableClassifier

# A number further from the mean is read as this many standard deviations.
FURTHEST = 5.0
# A column of more categories is left out: each of them is a coefficient for every class.
MOST_CATEGORIES = 64
# Entries of the numbers that a fit reads, at most: with more of them a part of the rows of each class is
# enough for so few coefficients.
MOST_ENTRIES = 2**22
MOST_STEPS = 1_000
# Coefficients are multiples of this, and moments rounded, so that the order of the rows has no part in them.
GRAIN = 2.0**-12


class TableLinear(TableClassifier):
    """Multinomial logistic regression on the tables that the binned trees take.

    Numbers are centred and scaled, a missing one counts as the mean, each category has a coefficient. Where
    the entries of a sparse matrix are absent, they add nothing.

    Parameters
    ----------
    C : float > 0
        Inverse strength of the L2 penalty, as in scikit-learn.
    """

    def __init__(self, C: float = 1.0) -> None:
        self.C = C

    def open_table(
        self, opened: OpenTable, y: Ints, n_classes: int, sample_weight: Floats | None = None
    ) -> LinearSession:
        """Open rows that other learners read too; see `protocols.TableLearner`."""
        return LinearSession(self, opened, np.asarray(y), n_classes)

    def learn(self, opened: OpenTable, y: Ints, weight: Floats) -> Self:
        """Learn from rows of two classes at least."""
        table, self.table_ = opened.table, opened.reader
        levels = [None if own is None else len(own) for own in self.table_.categories_]
        self.columns_ = np.flatnonzero([own is None for own in levels])
        self.levels_ = [(j, own) for j, own in enumerate(levels) if own and own <= MOST_CATEGORIES]
        width = len(self.columns_) + sum(own for _, own in self.levels_)
        if sp.issparse(table):
            width = table.nnz // table.shape[0]
        kept = np.flatnonzero(weight > 0.0)
        y, weight = y[kept], weight[kept]
        place, size = places(y, opened.hashes[kept])
        most = quota(size, MOST_ENTRIES // max(width, 1))
        if (most < size).any():
            mass = np.bincount(y, weights=weight).astype(np.float64)
            chosen = place < most[y]
            kept, y = kept[chosen], y[chosen]
            weight = reweighed(weight[chosen], y, mass)
        rows = table[kept]
        self.mean_, self.scale_ = _moments(rows[:, self.columns_], weight)
        self.coef_, self.intercept_ = _coefficients(self._numbers(rows), y, weight, self.C)
        self.classes_ = np.arange(len(self.coef_))
        return self

    def _numbers(self, table: Table) -> Any:
        """Return what the coefficients are multiplied with."""
        if sp.issparse(table):
            found = sp.csr_matrix(table[:, self.columns_].multiply(1.0 / self.scale_))
            found.data = np.nan_to_num(found.data).clip(-FURTHEST, FURTHEST)
            return found
        values = np.nan_to_num((table[:, self.columns_] - self.mean_) / self.scale_)
        parts = [values.clip(-FURTHEST, FURTHEST)]
        parts += [table[:, [j]] == np.arange(n) for j, n in self.levels_]
        return np.hstack(parts) if self.levels_ else parts[0]

    @property
    def feature_importances_(self) -> Floats:
        """Mean size of a column's coefficients over the classes, about their mean, shape (d,); sums to 1."""
        check_is_fitted(self)
        size = np.abs(self.coef_ - self.coef_.mean(axis=0)).mean(axis=0)
        found = np.zeros(len(self.table_.categories_))
        found[self.columns_] = size[: len(self.columns_)]
        start = len(self.columns_)
        for j, n in self.levels_:
            found[j] = size[start : start + n].mean()
            start += n
        share: Floats = found / max(found.sum(), GRAIN)
        return share

    def predict_proba_table(self, table: Table) -> Floats:
        """Return class probabilities for a table prepared by ``table_.transform``, shape (n, K)."""
        numbers = self._numbers(table)
        if sp.issparse(numbers):
            scores = numbers @ self.coef_.T + self.intercept_
        else:  # term by term: a product of matrices adds those of one row in another order than those of many
            by_class = np.repeat(self.intercept_[:, None], len(numbers), axis=1)
            for number, coef in zip(numbers.T, self.coef_.T, strict=True):
                by_class += coef[:, None] * number
            scores = np.ascontiguousarray(by_class.T)
        found: Floats = softmax(scores, axis=1)
        return found


class LinearSession:
    """Fits on one table.

    Parameters
    ----------
    template : TableLinear
        What is fitted.
    opened : OpenTable
        The rows.
    y : ndarray of int, shape (n,)
        Class numbers.
    n_classes : int
        K.
    """

    concurrent = True

    def __init__(self, template: TableLinear, opened: OpenTable, y: Ints, n_classes: int) -> None:
        self.template, self.opened, self.y, self.n_classes = template, opened, y, n_classes

    def fit(self, weight: Floats, seed: int = 0, rows: Mask | None = None) -> Any:
        """Return the model of ``rows``, with the numbers of the classes that it saw; nothing is drawn."""
        weight = weight if rows is None else np.where(rows, weight, 0.0)
        present = np.unique(self.y[weight > 0.0])
        if len(present) == 1:
            return constant(int(present[0]), self.n_classes)
        model = TableLinear(**self.template.get_params())
        model.learn(self.opened, np.searchsorted(present, self.y), weight)
        model.classes_ = present
        return model


@one_blas_thread
def _coefficients(Z: Any, y: Ints, weight: Floats, C: float) -> tuple[Floats, Floats]:
    """Return what minimises ``Σ_i w_i log loss_i + |coef|²/(2C)``, shapes (K, p) and (K,)."""
    binary = y.max() == 1
    # scikit-learn has one row of coefficients for two classes: two opposite halves of it cost half as much.
    found = LogisticRegression(C=2.0 * C if binary else C, max_iter=MOST_STEPS).fit(Z, y, weight)
    coef, intercept = found.coef_, found.intercept_
    if binary:
        coef, intercept = np.vstack([-coef, coef]) / 2.0, np.r_[-intercept, intercept] / 2.0
    return np.rint(coef / GRAIN) * GRAIN, np.rint(intercept / GRAIN) * GRAIN


def _moments(table: Table, weight: Floats) -> tuple[Floats, Floats]:
    """Return weighted mean and standard deviation of the columns' known values; 1 where it would be 0."""
    if sp.issparse(table):
        share = weight / weight.sum()
        known = table.copy()
        known.data = np.nan_to_num(known.data.astype(np.float64))
        square = known.multiply(known)
        scale = np.sqrt(np.asarray(square.T @ share).ravel())
        return np.zeros(table.shape[1]), _positive(scale)
    known = ~np.isnan(table)
    total = np.maximum(weight @ known, np.finfo(np.float64).tiny)
    values = np.where(known, table, 0.0).astype(np.float64)
    mean = weight @ values / total
    scale = np.sqrt(weight @ (known * (values - mean)) ** 2 / total)
    return mean.astype(np.float32).astype(np.float64), _positive(scale)


def _positive(scale: Floats) -> Floats:
    found: Floats = np.where(scale > 0.0, scale, 1.0).astype(np.float32).astype(np.float64)
    return found
