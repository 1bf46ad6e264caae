"""Answers to weighted cells (class × group) by an argmax: one fit of p(class, group | x) serves them all."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.utils import _safe_indexing

from tailboost._typing import Floats, Ints, Mask
from tailboost._units import strata_of
from tailboost.data import Problem
from tailboost.learners._adjusted import (
    Adjusted,
    LogitAdjustedClassifier,
    LogProbabilities,
    rows_key,
)
from tailboost.learners._base import constant
from tailboost.learners._hist import HistBoostClassifier
from tailboost.learners.forest import N_TREES, ForestSession, TableForest
from tailboost.learners.protocols import Partitioned
from tailboost.learners.table import OpenTable

# Leaves of the forest that tells the groups of a class apart hold about this many rows: its probabilities are
# multiplied by weights, not only compared.
GROUP_LEAF_ROWS = 20.0
# Weight of a class's own shares of its groups beside what the forest says.
PRIOR = 0.05
# Trees that tell the groups apart beside boosted trees alone: 100 know no more, see benchmarks/README.md.
FEW_TREES = 25
# With more combinations of class and groups a forest cannot tell them apart, and learners are fitted anew.
MOST_CELLS = 60


def combinations(problem: Problem) -> Ints:
    """Return the number of each row's combination of groups, shape (n,)."""
    assert problem.groups is not None
    return np.unique(strata_of(np.zeros_like(problem.y), problem.groups), return_inverse=True)[1]


def few_cells(problem: Problem) -> bool:
    """Whether there are few enough combinations of class and groups for `CellAdjustedClassifier`."""
    return len(np.unique(strata_of(problem.y, problem.groups))) <= MOST_CELLS


class CellProbabilities:
    """Fitted models as a prepared table: the density of x in each class, divided over the class's cells.

    Parameters
    ----------
    classes : LogProbabilities
        Logarithms of class probabilities p_k(x), of rows in which the classes weigh the same or their own.
    cells : classifier
        Predicts probabilities of cell numbers.
    share : ndarray of shape (C,)
        Share of each cell in its class.
    class_of : ndarray of shape (C,)
        Class of each cell; cells are ordered by class.
    """

    def __init__(self, classes: LogProbabilities, cells: Any, share: Floats, class_of: Ints) -> None:
        self.classes, self.cells, self.share, self.class_of = classes, cells, share, class_of

    def transform(self, X: Any) -> Floats:
        """Return ``p_k(x) p(cell | x, k)`` for every cell, shape (n, C)."""
        P = np.tile(PRIOR * self.share, (X.shape[0], 1))
        P[:, np.asarray(self.cells.classes_, dtype=np.intp)] += self.cells.predict_proba(X)
        p = np.exp(self.classes.transform(X))
        for k in np.unique(self.class_of):
            mine = self.class_of == k
            P[:, mine] *= (p[:, k] / P[:, mine].sum(axis=1))[:, None]
        return P


class AdjustedCells:
    """The best answer to weights of the cells: ``argmax_k Σ_g v_kg p(k, g | x)``.

    Parameters
    ----------
    table_ : CellProbabilities
        The probabilities, shared by all answers that rest on the same fit.
    factor : ndarray of shape (C,)
        v: the weight of each class times what a row of the cell weighs beside its own weight.
    n_classes : int
        K.
    """

    def __init__(self, table_: CellProbabilities, factor: Floats, n_classes: int) -> None:
        self.table_, self.factor, self.n_classes = table_, factor, n_classes

    @property
    def feature_importances_(self) -> Floats:
        """Mean of those of the classifiers behind the class probabilities, shape (d,)."""
        return Adjusted(self.table_.classes, np.zeros(self.n_classes)).feature_importances_

    def predict_table(self, table: Floats) -> Ints:
        """Return class numbers for ``table_.transform(X)``, shape (n,)."""
        scores = np.zeros((len(table), self.n_classes))
        for k in range(self.n_classes):
            mine = self.table_.class_of == k
            scores[:, k] = (table[:, mine] * self.factor[mine]).sum(axis=1)
        return scores.argmax(axis=1)

    def predict_proba_table(self, table: Floats) -> Floats:
        """Return the models' class probabilities, without the weights of the cells, shape (n, K)."""
        P = np.zeros((len(table), self.n_classes))
        for k in range(self.n_classes):
            P[:, k] = table[:, self.table_.class_of == k].sum(axis=1)
        return P / P.sum(axis=1, keepdims=True)

    def predict(self, X: Any) -> Ints:
        """Return class numbers, shape (n,)."""
        return self.predict_table(self.table_.transform(X))


class CellSession:
    """All fits on one table: the models are fitted once for each set of rows.

    Where p(class | x) is of the rows with their own weights, a row of a cell weighs its density alone; where
    the classes weigh the same there, its class's weight comes to that.

    Parameters
    ----------
    template : CellAdjustedClassifier
        The learner, with the cells of the rows.
    X, y : table with n rows, ndarray of shape (n,)
        The data, labels as class numbers.
    n_classes : int
        K.
    sample_weight : ndarray of shape (n,)
        The rows' own weights.
    """

    concurrent = False  # fits are shared

    def __init__(
        self, template: CellAdjustedClassifier, X: Any, y: Ints, n_classes: int, sample_weight: Floats
    ) -> None:
        self.X, self.y, self.n_classes, self.sample_weight = X, y, n_classes, sample_weight
        opened, boosted = OpenTable.of(X), template.boosted
        self.classes: Any = (
            LogitAdjustedClassifier(n_jobs=template.n_jobs).open_session(X, y, n_classes, sample_weight)
            if boosted is None
            else boosted.open_table(opened, y, n_classes, sample_weight)
        )
        self.even = boosted is None
        pairs, self.cells = np.unique(
            y * (int(template.cells.max()) + 1) + template.cells, return_inverse=True
        )
        self.class_of = pairs // (int(template.cells.max()) + 1)
        n_trees = N_TREES if self.even else FEW_TREES
        forest = TableForest(
            n_trees=n_trees, leaf_rows=GROUP_LEAF_ROWS, n_jobs=template.n_jobs, random_state=0
        )
        self.forest = ForestSession(forest, opened, self.cells, classes=y)
        self.shared: dict[bytes, CellProbabilities] = {}
        self.known: dict[tuple[bytes, bytes], Floats] = {}

    def leave_out(self, part: Ints) -> None:
        """Tell which rows are judged together, see `protocols.Partitioned`."""
        if isinstance(self.classes, Partitioned):
            self.classes.leave_out(part)
        self.forest.leave_out(part)

    def fit(self, weight: Floats, seed: int, rows: Mask | None = None) -> Any:
        """Return the best answer to weights that are the rows' own times a factor of each cell."""
        return self._member(weight, rows, lambda share: self._fit(rows, share))

    def mean(self, models: list[Any], weight: Floats, rows: list[Mask]) -> Any | None:
        """Return the answer by the mean of the parts' probabilities of the classes, with the whole forest.

        None where each part is of one class.
        """
        known = [(m.table_, r) for m, r in zip(models, rows, strict=True) if isinstance(m, AdjustedCells)]
        if not known:
            return None

        def probabilities(share: Floats) -> CellProbabilities:
            seen = np.array([np.bincount(self.y[r], self.sample_weight[r], self.n_classes) for _, r in known])
            classes = LogProbabilities.mean([table.classes for table, _ in known], seen > 0.0)
            return CellProbabilities(classes, self.forest.fit(self.sample_weight), share, self.class_of)

        return self._member(weight, None, probabilities)

    def _member(
        self, weight: Floats, rows: Mask | None, probabilities: Callable[[Floats], CellProbabilities]
    ) -> Any:
        """Return the answer; ``probabilities`` are asked for once, by the cells' shares of their classes."""
        used, own = (w if rows is None else np.where(rows, w, 0.0) for w in (weight, self.sample_weight))
        mass = np.bincount(self.y, weights=used, minlength=self.n_classes)
        if np.count_nonzero(mass) == 1:
            return constant(int(mass.argmax()), self.n_classes)
        C = len(self.class_of)
        given, played = (np.bincount(self.cells, weights=w, minlength=C) for w in (own, used))
        of_class = np.bincount(self.class_of, weights=given, minlength=self.n_classes)[self.class_of]
        factor = played / np.where(given > 0.0, given, 1.0) * (of_class if self.even else 1.0)
        key = rows_key(rows)
        if key not in self.shared:
            self.shared[key] = probabilities(given / np.where(of_class > 0.0, of_class, 1.0))
        return AdjustedCells(self.shared[key], factor, self.n_classes)

    def _fit(self, rows: Mask | None, share: Floats) -> CellProbabilities:
        model = self.classes.fit(self.sample_weight, 0, rows)
        classes = model.table_ if self.even else LogProbabilities([model], self.n_classes)
        forest = self.forest.fit(self.sample_weight, 0, rows)
        return CellProbabilities(classes, forest, share, self.class_of)

    def predict(self, model: Any, rows: Mask | None = None) -> Ints:
        """Return the class numbers that a model of this session predicts for the opened rows."""
        n = len(self.y) if rows is None else int(rows.sum())
        if not isinstance(model, AdjustedCells):
            return np.asarray(model.predict(np.empty((n, 1)))).astype(np.intp)
        fit = next(key for key, shared in self.shared.items() if shared is model.table_)
        key = fit, rows_key(rows)
        if key not in self.known:
            X = self.X if rows is None else _safe_indexing(self.X, np.flatnonzero(rows))
            self.known[key] = model.table_.transform(X)
        return model.predict_table(self.known[key])


class CellAdjustedClassifier(BaseEstimator):
    """The default learner of games over groups and cells, whose weights differ by class and group alone.

    It opens sessions and has no ``fit`` of its own, because it must know the cells of the rows.

    Parameters
    ----------
    cells : ndarray of shape (n,)
        Number of each row's combination of groups, from 0; class and combination are its cell.
    boosted : HistBoostClassifier, optional
        Tells p(class | x) by itself, fitted to the rows' own weights, with a forest of few trees for the
        groups. None is `LogitAdjustedClassifier` and a whole forest.
    n_jobs : int, optional
        The most threads of a fit or prediction.
    """

    def __init__(
        self, cells: NDArray[Any], boosted: HistBoostClassifier | None = None, n_jobs: int | None = None
    ) -> None:
        self.cells = cells
        self.boosted = boosted
        self.n_jobs = n_jobs

    def open_session(self, X: Any, y: Ints, n_classes: int, sample_weight: Floats) -> CellSession:
        """Open the data for any number of fits; labels are class numbers 0 … K − 1."""
        return CellSession(self, X, y, n_classes, sample_weight)
