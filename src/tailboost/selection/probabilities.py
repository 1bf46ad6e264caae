"""Stratum probabilities p(s | x): class models, and a model of groups for rules that read none."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse
from scipy.special import softmax

from tailboost.core.array_types import Floats, Floats32, Ints, Table
from tailboost.core.checks import as_pandas, n_rows_of, take
from tailboost.learners import HistBoostClassifier
from tailboost.learners.table import TableReader
from tailboost.rates import Strata
from tailboost.rows.fingerprints import hash_rows, stratified_places
from tailboost.selection.outputs import LogProbabilities

# Folds of the group model.
GROUP_FOLDS = 3
# Least probability of a row's group in the log loss of the group model; smaller ones are raised to it.
LEAST_JUDGED = 1e-4
# The most columns from which groups are estimated. Tables with more columns, such as images, use the models'
# probabilities.
MOST_FEATURES = 1000


def with_class(X: Table, y: Ints, n_classes: int) -> Any:
    """Return a table with appended indicator columns of the class: one column for two classes, K for more.

    A data frame stays a data frame, with new names, and a sparse matrix stays sparse. Other arrays become
    matrices.
    """
    indicators = np.eye(n_classes)[y][:, : 1 if n_classes == 2 else n_classes]
    if hasattr(X, "iloc"):
        table = X.set_axis([f"x{i}" for i in range(X.shape[1])], axis=1)
        return table.assign(**{f"y{k}": column for k, column in enumerate(indicators.T)})
    if scipy.sparse.issparse(X):
        return scipy.sparse.hstack([X, indicators], format="csr")
    return np.column_stack([X, indicators])


def has_group_features(X: Table) -> bool:
    """Whether groups can be estimated from a table: few columns of numbers or categories."""
    if not hasattr(X, "shape") or len(X.shape) != 2 or X.shape[1] > MOST_FEATURES:
        return False
    try:
        TableReader().fit(X).transform(X)
    except (TypeError, ValueError):
        return False
    return True


@dataclass(eq=False)
class StratumProbabilities:
    """p(s | x) = p(y | x) p(combination | x, y): class models, and frequencies or a model of groups."""

    strata: Strata  # of the selection data
    # Number of the group column that rules read; None for group-blind rules.
    told: int | None
    # Whether groups are estimated from the features of a row, or from the probabilities of all models.
    by_features: bool = False
    # p(combination | x, y) by features and class; None if combinations have their frequencies in each class.
    model: Any = None

    @property
    def group_aware(self) -> bool:
        """Whether rules read the group."""
        return self.told is not None

    @property
    def places(self) -> Ints:
        """Number of the read group for each combination, shape (G,); 0 for group-blind rules."""
        return self.strata.place(self.told)[: self.strata.n_combinations]

    @property
    def estimates_groups(self) -> bool:
        """Whether groups are estimated for each row."""
        return self.model is not None

    @property
    def shares(self) -> Floats:
        """p(combination | read group, y), the shares of combinations in each class, shape (K, G).

        A pseudo-row of all classes gives every combination a positive share in every class.
        """
        strata = self.strata
        mass = strata.mass.reshape(strata.n_classes, -1) * strata.size.sum()
        mass = mass + mass.sum(axis=0) / mass.sum()
        return np.asarray(mass / (mass @ (self.places[:, None] == self.places)))

    def fit_groups(self, table: LogProbabilities, stratum: Ints, weight: Floats) -> Floats32:
        """Fit the group model on rows, and return p(s | x) of these rows out of fold, shape (S, n).

        Folds are stratified, and rows of equal content share a fold. The model is dropped if its log loss out
        of fold is at least as large as with the frequencies.
        """
        strata = self.strata
        self.by_features = table.X is not None and has_group_features(as_pandas(table.X))
        X = self._features(table)
        y, combination = strata.y[stratum], strata.combination[stratum]

        def fitted(rows: Ints) -> Any:
            # Small, because the model is fitted several times.
            model = HistBoostClassifier(
                n_estimators=60, max_depth=5, learning_rate=0.15, min_child_weight=5.0
            )
            of_rows = with_class(take(X, rows), y[rows], strata.n_classes)
            return model.fit(of_rows, combination[rows], sample_weight=weight[rows])

        fold = stratified_places(hash_rows(X), stratum, weight) % GROUP_FOLDS
        outside = np.zeros((strata.n_classes, strata.n_combinations, len(y)))
        for number in np.unique(fold):
            own = np.flatnonzero(fold == number)
            others = np.flatnonzero(fold != number)
            if len(np.unique(combination[others])) < 2:
                return self.predict(table)
            outside[:, :, own] = self._groups(fitted(others), take(X, own))
        of_row = np.maximum(outside[y, combination, np.arange(len(y))], LEAST_JUDGED)
        if weight @ np.log(of_row / self.shares[y, combination]) <= 0.0:
            return self.predict(table)
        self.model = fitted(np.arange(len(y)))
        return self._joint(table, outside)

    def predict(self, table: LogProbabilities) -> Floats32:
        """Return p(s | x) of the rows of a table, shape (S, n), computed once for each table."""

        def make() -> Floats32:
            if self.model is not None:
                return self._joint(table, self._groups(self.model, self._features(table)))
            read = table.places(by_group=self.group_aware)
            return self._joint(table, self.shares[:, :, None] * (read == self.places[:, None]))

        probabilities: Floats32 = table.derived(("strata", self), make)
        return probabilities

    def _features(self, table: LogProbabilities) -> Any:
        """Return the input of the group model: features, or log-probabilities of all models."""
        if self.by_features:
            return as_pandas(table.X)
        return np.hstack([table[i] for i in range(len(table.average.weights))])

    def _groups(self, model: Any, X: Table) -> Floats:
        """Return p(combination | x, y) of n rows for every class y, shape (K, G, n)."""
        strata, n = self.strata, n_rows_of(X)
        groups = np.zeros((strata.n_classes, strata.n_combinations, n))
        for k in range(strata.n_classes if n else 0):
            table = with_class(X, np.full(n, k), strata.n_classes)
            groups[k, model.classes_] = model.predict_proba(table).T
        return groups

    def _joint(self, table: LogProbabilities, groups: Floats) -> Floats32:
        """Return p(s | x) by p(combination | x, y) of shape (K, G, n)."""
        by_class = softmax(table.pooled, axis=1).T
        return (by_class[:, None] * groups).reshape(-1, table.n_rows).astype(np.float32)
