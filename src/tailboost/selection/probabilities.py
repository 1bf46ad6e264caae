"""Stratum probabilities p(s | x): class models, and group models for a rule that does not read the group."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import scipy.sparse
from scipy.special import softmax

from tailboost.core.array_types import Floats, Floats32, Ints, Model, Table
from tailboost.core.checks import as_pandas, distinct_and_places, n_rows_of, take
from tailboost.learners import HistBoostClassifier
from tailboost.learners.table import TableReader
from tailboost.rates import Strata
from tailboost.rows.fingerprints import hash_rows, stratified_places
from tailboost.selection.outputs import LogProbabilities

# Folds of the group models.
GROUP_FOLDS = 3
# Least probability of a row's group in the log loss of a group model; smaller ones are raised to it.
LEAST_JUDGED = 1e-4
# The most columns from which groups are estimated. Tables with more columns, such as images, use the models'
# probabilities.
MOST_FEATURES = 1000


@dataclass(eq=False)
class GroupModel:
    """p(g | x, y) for the groups of one column."""

    n_classes: int  # K
    model: Model  # classifier fitted on features and class; None if the prior is used instead
    present: Ints  # groups in the training rows
    prior: Floats  # shape (K, groups): frequencies of the groups in each class

    @classmethod
    def fit(cls, X: Table, y: Ints, group: Ints, weight: Floats, mass: Floats) -> GroupModel:
        """Return the model fitted on n rows; ``mass`` has their weight by class and group."""
        present, index = distinct_and_places(group)
        model = None
        if len(present) > 1:
            # Small, because the model is fitted several times.
            model = HistBoostClassifier(
                n_estimators=60, max_depth=5, learning_rate=0.15, min_child_weight=5.0
            )
            model.fit(with_class(X, y, len(mass)), index, sample_weight=weight)
        # A pseudo-row of all classes keeps groups possible.
        prior = mass + mass.sum(axis=0) / mass.sum()
        return cls(len(mass), model, present, prior / prior.sum(axis=1, keepdims=True))

    @classmethod
    def judged(
        cls, X: Table, y: Ints, group: Ints, weight: Floats, mass: Floats, fold: Ints
    ) -> tuple[GroupModel, Floats]:
        """Return the model fitted on n rows, and p(g | x, y) of the rows by models of other folds.

        The prior takes the place of a model whose log loss out of fold is at least as large.
        """
        whole = cls.fit(X, y, group, weight, mass)
        outside = np.empty((*mass.shape, len(y)))
        for number in np.unique(fold):
            others, own = np.flatnonzero(fold != number), np.flatnonzero(fold == number)
            model = whole
            if len(others):
                model = cls.fit(take(X, others), y[others], group[others], weight[others], mass)
            outside[:, :, own] = model.predict(take(X, own))
        of_group = np.maximum(outside[y, group, np.arange(len(y))], LEAST_JUDGED)
        if weight @ np.log(of_group / whole.prior[y, group]) > 0.0:
            return whole, outside
        whole = replace(whole, model=None)
        return whole, whole.predict(X)

    def predict(self, X: Table) -> Floats:
        """Return p(g | x, y) of n rows for every class y, shape (K, groups, n)."""
        n = n_rows_of(X)
        probabilities = np.repeat(self.prior[:, :, None], n, axis=2)
        if self.model is not None and n:
            probabilities[:] = 0.0
            for k in range(self.n_classes):
                table = with_class(X, np.full(n, k, dtype=np.intp), self.n_classes)
                probabilities[k, self.present] = np.asarray(self.model.predict_proba(table)).T
        return probabilities


def with_class(X: Table, y: Ints, n_classes: int) -> Any:
    """Return a table with appended indicator columns of the class: one column for two classes, K for more.

    A data frame stays a data frame, with new names, and a sparse matrix stays sparse. Other arrays become
    matrices.
    """
    indicators = np.eye(n_classes)[y][:, : 1 if n_classes == 2 else n_classes]
    X = as_pandas(X)
    if hasattr(X, "iloc"):
        table = X.set_axis([f"x{i}" for i in range(X.shape[1])], axis=1)
        return table.assign(**{f"y{k}": column for k, column in enumerate(indicators.T)})
    if scipy.sparse.issparse(X):
        return scipy.sparse.hstack([X, indicators], format="csr")
    table = np.asarray(X)
    return np.column_stack([table.reshape(len(table), -1), indicators])


@dataclass(eq=False)
class StratumProbabilities:
    """p(s | x) = p(y | x) p(combination | x, y): class models, and frequencies or models of groups."""

    strata: Strata  # of the selection data
    # Number of the group column that rules read; None for group-blind rules.
    told: int | None
    # Whether groups are estimated from the features of a row, or from the probabilities of all models.
    by_features: bool = False
    # One for each column of groups; empty if groups have their frequencies in each class.
    group_models: list[GroupModel] = field(default_factory=list)

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
        return any(group_model.model is not None for group_model in self.group_models)

    @property
    def shares(self) -> Floats:
        """p(combination | read group, y), the shares of combinations in each class, shape (K, G).

        A pseudo-row of all classes gives every combination a positive share in every class.
        """
        strata = self.strata
        mass = strata.mass.reshape(strata.n_classes, -1) * strata.size.sum()
        mass = mass + mass.sum(axis=0) / mass.sum()
        return np.asarray(mass / (mass @ (self.places[:, None] == self.places)))

    def fit_groups(
        self, table: LogProbabilities, stratum: Ints, codes: Ints, weight: Floats
    ) -> Floats32:
        """Fit the group models on rows, and return p(s | x) of these rows out of fold, shape (S, n).

        ``codes`` are the groups by column, shape (n, c). Folds are stratified by ``stratum``, and rows of
        equal content share a fold.
        """
        self.by_features = table.X is not None and has_group_features(table.X)
        X = self.features(table)
        K = self.strata.n_classes
        y = self.strata.y[stratum]
        fold = stratified_places(hash_rows(X), stratum, weight) % GROUP_FOLDS
        by_column = []
        for group, values in zip(codes.T, self.strata.values, strict=True):
            mass = np.bincount(y * len(values) + group, weight, K * len(values)).astype(float)
            model, outside = GroupModel.judged(
                X, y, group, weight, mass.reshape(K, len(values)), fold
            )
            self.group_models.append(model)
            by_column.append(outside)
        return self._joint(table, by_column)

    def predict(self, table: LogProbabilities) -> Floats32:
        """Return p(s | x) of the rows of a table, shape (S, n), computed once for each table."""

        def make() -> Floats32:
            by_column = []
            if self.estimates_groups:
                X = self.features(table)
                by_column = [model.predict(X) for model in self.group_models]
            return self._joint(table, by_column)

        probabilities: Floats32 = table.derived(("strata", self), make)
        return probabilities

    def features(self, table: LogProbabilities) -> Any:
        """Return the input of the group models: features, or log-probabilities of all models."""
        if self.by_features:
            return as_pandas(table.X)
        return np.hstack([table[i] for i in range(len(table.average.weights))])

    def _joint(self, table: LogProbabilities, by_column: list[Floats]) -> Floats32:
        """Return p(s | x), as if columns of groups were independent given x and y; without any by shares."""
        if self.estimates_groups:
            groups = np.ones((self.strata.n_classes, self.strata.n_combinations, table.n_rows))
            for column, probabilities in enumerate(by_column):
                groups *= probabilities[:, self.strata.combinations[:, column]]
            groups /= np.maximum(groups.sum(axis=1, keepdims=True), 1e-300)
        else:
            read = table.places(by_group=self.group_aware)
            groups = self.shares[:, :, None] * (read == self.places[:, None])
        by_class = softmax(table.pooled, axis=1).T
        joint = by_class[:, None] * groups
        return joint.reshape(-1, table.n_rows).astype(np.float32)


def has_group_features(X: Table) -> bool:
    """Whether groups can be estimated from a table: few columns of numbers or categories."""
    if not hasattr(X, "shape") or len(X.shape) != 2 or X.shape[1] > MOST_FEATURES:
        return False
    try:
        frame = as_pandas(X)
        TableReader().fit(frame).transform(frame)
    except (TypeError, ValueError):
        return False
    return True
