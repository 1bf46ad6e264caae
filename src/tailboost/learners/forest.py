"""Forests of scikit-learn on open tables."""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from sklearn.ensemble import ExtraTreesClassifier

from tailboost.core import Constraints, Floats, Mask, Table, frozen_object, parameters
from tailboost.learners.base import FittedModel, OpenSession
from tailboost.learners.table import TableClassifier, TableReader, without_missing
from tailboost.learners.threads import count_threads

# Most rows and leaves of a tree, which bound the time and the memory of a forest.
ROWS_OF_TREE = 20_000
LEAVES = 5_000
# Share of the columns that a split compares.
MAX_FEATURES = 0.5
# Weight of the class frequencies in each prediction, so that no small forest is certain.
PRIOR = 0.05


@frozen_object
class FittedForest(FittedModel):
    """Trees of scikit-learn.

    Attributes
    ----------
    forest_ : estimator
        Its classes are the class numbers with rows in the fit.
    shares_ : ndarray of shape (K,)
        Frequencies of the classes in the fit.
    prior : float
        Weight of these frequencies in each prediction.
    """

    forest_: Any
    shares_: Floats
    prior: float

    def get_n_leaves(self) -> int:
        """Return the number of leaves of a single tree."""
        return int(self.forest_.get_n_leaves())

    def predict_proba_table(self, table: Table) -> Floats:
        """Return class probabilities for a table prepared by ``table_.transform``, shape (n, K)."""
        P = np.zeros((table.shape[0], len(self.shares_)))
        P[:, self.forest_.classes_] = self.forest_.predict_proba(without_missing(table))
        return P + self.prior * (self.shares_ - P)


@dataclass
class ForestSession(OpenSession):
    """All fits of scikit-learn's trees on one open table."""

    reader: TableReader

    def fit(self, weight: Floats, seed: int, rows: Mask | None = None) -> FittedForest:
        """Return the trees of the rows of a mask (None: all) for weights of shape (n,)."""
        used = weight > 0.0
        if rows is not None:
            used &= rows
        y = self.y[used]
        weight = weight[used]
        table = without_missing(self.X[used])
        forest = self.learner._of_sklearn(table.shape, seed).fit(table, y, weight)
        shares = np.bincount(y, weight, self.n_classes) / weight.sum()
        return FittedForest(self.reader, forest, shares, self.learner._prior)


@parameters
class TableForest(TableClassifier):
    """Extremely randomised trees for tables with categories and missing values.

    Parameters
    ----------
    n_estimators : int, default=30
        Number of trees.
    n_jobs : int, optional
        Maximum number of threads.
    random_state : int, optional
        Seed of the trees.
    """

    n_estimators: int = 30
    n_jobs: int | None = None
    random_state: Any = None

    _parameter_constraints: ClassVar[Constraints] = {}
    _session = ForestSession
    _prior = PRIOR

    def _of_sklearn(self, shape: tuple[int, int], seed: int) -> ExtraTreesClassifier:
        """Return the forest for a table of this shape."""
        n = shape[0]
        return ExtraTreesClassifier(
            self.n_estimators,
            max_features=MAX_FEATURES,
            min_samples_leaf=max(2, min(n, ROWS_OF_TREE) // LEAVES),
            bootstrap=n > ROWS_OF_TREE,
            max_samples=ROWS_OF_TREE if n > ROWS_OF_TREE else None,
            n_jobs=count_threads(self.n_jobs, shape),
            random_state=seed,
        )
