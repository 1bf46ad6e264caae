"""Stratum probabilities p(s | x): class models, and group models for group-blind rules."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import scipy.sparse

from tailboost.core.array_types import Floats, Ints, Model, Table
from tailboost.core.checks import (
    as_pandas,
    distinct_and_places,
    n_rows_of,
    take,
)
from tailboost.learners import HistBoostClassifier
from tailboost.learners.table import TableReader
from tailboost.rates import Strata
from tailboost.rows.fingerprints import (
    hash_rows,
    stratified_places,
)
from tailboost.selection.data import Singles
from tailboost.selection.outputs import LogProbabilities

# Folds of the group models.
GROUP_FOLDS = 3
# Least probability of a row's group in the log loss of a group model; smaller ones are raised to it.
LEAST_JUDGED = 1e-4
# Steps of iterative scaling for the factors of the strata.
SCALINGS = 30
# Pseudo-mass of a class without rows in a group, as a share of the group's mass. Its factor is then positive,
# and the group's rows keep their order by p(y | x).
UNSEEN = 1e-6
# The most columns from which groups are estimated. Tables with more columns, such as images, use the models'
# probabilities.
MOST_FEATURES = 1000


@dataclass(eq=False)
class GroupModel:
    """p(g | x, y) for the groups of one column."""

    n_classes: int  # K
    n_values: int  # number of groups in the column
    model: Model  # classifier fitted on features and class; None if the prior is used instead
    present: Ints  # groups in the training rows
    prior: Floats  # shape (K, n_values): frequencies of the groups in each class

    @classmethod
    def fit(
        cls, X: Table, y: Ints, group: Ints, weight: Floats, n_classes: int, n_values: int
    ) -> GroupModel:
        """Return the model fitted on some rows.

        Parameters
        ----------
        X : table of n rows
            Features.
        y : ndarray of int, shape (n,)
            Class numbers.
        group : ndarray of int, shape (n,)
            Group numbers.
        weight : ndarray of shape (n,)
            Positive weights.
        n_classes, n_values : int
            Numbers of classes and of groups, also of those without a row.
        """
        present, index = distinct_and_places(group)
        model = None
        numeric = isinstance(X, np.ndarray) and X.dtype.kind in "fiub"
        constant = numeric and not np.ptp(X, axis=0).any()
        if len(present) > 1 and not constant:
            # Small, because the model is fitted several times.
            model = HistBoostClassifier(
                n_estimators=60, max_depth=5, learning_rate=0.15, min_child_weight=5.0
            )
            model.fit(with_class(X, y, n_classes), index, sample_weight=weight)
        mass = np.bincount(y * n_values + group, weight, n_classes * n_values)
        mass = mass.reshape(n_classes, n_values)
        # A pseudo-row of all classes keeps groups possible.
        prior = mass + mass.sum(axis=0) / mass.sum()
        prior = prior / prior.sum(axis=1, keepdims=True)
        return cls(n_classes, n_values, model, present, prior)

    def out_of_fold(self, X: Table, y: Ints, group: Ints, weight: Floats, fold: Ints) -> Floats:
        """Return p(g | x, y) of the rows of the fit, each by a model of other folds, as `predict`.

        Parameters
        ----------
        X : table of n rows
            Features of the rows of the fit.
        y : ndarray of int, shape (n,)
            Class numbers.
        group : ndarray of int, shape (n,)
            Group numbers.
        weight : ndarray of shape (n,)
            Positive weights.
        fold : ndarray of int, shape (n,)
            Number of each row's fold. If all rows are in one fold, this model predicts them, though it
            was fitted on them.

        Returns
        -------
        ndarray of shape (K, n_values, n)
            By class y, group g and row.
        """
        probabilities = np.empty((self.n_classes, self.n_values, len(y)))
        for number in np.unique(fold):
            others = np.flatnonzero(fold != number)
            model = self
            if len(others):
                part = take(X, others), y[others], group[others], weight[others]
                model = GroupModel.fit(*part, self.n_classes, self.n_values)
            held_out = np.flatnonzero(fold == number)
            probabilities[:, :, held_out] = model.predict(take(X, held_out))
        return probabilities

    def predict(self, X: Table) -> Floats:
        """Return p(g | x, y) of n rows for every class y, shape (K, n_values, n)."""
        n = n_rows_of(X)
        probabilities = np.zeros((self.n_classes, self.n_values, n))
        for k in range(self.n_classes):
            if self.model is None:
                probabilities[k] = self.prior[k][:, None]
            else:
                table = with_class(X, np.full(n, k, dtype=np.intp), self.n_classes)
                probabilities[k, self.present] = np.asarray(self.model.predict_proba(table)).T
        return probabilities


def with_class(X: Table, y: Ints, n_classes: int) -> Any:
    """Return a table with appended indicator columns of the class: one column for two classes, K for more.

    A data frame stays a data frame, with new names, and a sparse matrix stays sparse. Other arrays become
    matrices.

    Parameters
    ----------
    X : table of n rows
        Features.
    y : ndarray of int, shape (n,)
        Class numbers.
    n_classes : int
        Number of classes K.
    """
    classes = np.arange(n_classes)
    if n_classes == 2:
        classes = classes[:1]
    indicators = (y[:, None] == classes).astype(np.float64)
    X = as_pandas(X)
    if hasattr(X, "iloc"):
        table = X.set_axis([f"x{i}" for i in range(X.shape[1])], axis=1)
        return table.assign(**{f"y{k}": column for k, column in enumerate(indicators.T)})
    if scipy.sparse.issparse(X):
        return scipy.sparse.hstack([X, indicators], format="csr")
    table = np.asarray(X)
    return np.column_stack([table.reshape(len(table), -1), indicators])


def _softmax(scores: Floats) -> Floats:
    """Return probabilities from logarithms, both of shape (K, n): each column sums to 1."""
    exponentials = np.exp(scores - scores.max(axis=0))
    return exponentials / _summed(exponentials)


def _summed(values: Floats) -> Floats:
    """Return the sum over the first axis in its order; NumPy's order depends on the number of columns."""
    total = values[0].copy()
    for row in values[1:]:
        total += row
    return total


@dataclass(eq=False)
class StratumProbabilities:
    """p(s | x) = p(y | x) p(g | x, y): class models, and group models for a group-blind rule."""

    n_classes: int  # K
    # Shape (G, c): the combinations of groups, as numbers of values by column.
    combinations: Ints
    # Number of the group column of group-aware rules; None for group-blind rules.
    told: int | None = None
    # Whether groups are estimated from the features of a row, or from the probabilities of all models.
    by_features: bool = True
    group_models: list[GroupModel] = field(default_factory=list)  # one for each column
    # Shape (S, 1), for group-aware rules: factors of each class in each group, fitted by log loss. None: no
    # factors.
    factors: Floats | None = None
    # Shape (K, G), for group-aware rules: p(combination | read group, y). None: group models estimate the
    # combination.
    shares: Floats | None = None

    @property
    def group_aware(self) -> bool:
        """Whether rules read the group."""
        return self.told is not None

    @property
    def places(self) -> Ints:
        """Number of the read group for each combination, shape (G,); 0 for group-blind rules."""
        if self.told is None:
            return np.zeros(len(self.combinations), dtype=np.intp)
        return self.combinations[:, self.told]

    @property
    def n_places(self) -> int:
        """Number of groups read by rules; 1 for group-blind rules."""
        return int(self.places.max()) + 1

    @property
    def class_factors(self) -> Floats:
        """Factor of p(y | x) in the probability of a class, by stratum, shape (S,), for group-aware rules.

        Strata with the same class and the same read group have the same factor.
        """
        factors = np.ones((self.n_classes, len(self.combinations)))
        if self.shares is not None:
            factors = factors * self.shares
        if self.factors is not None:
            factors = factors * self.factors.reshape(factors.shape)
        has_same_place = self.places[:, None] == self.places  # shape (G, G)
        return (factors @ has_same_place).ravel()

    @property
    def infers(self) -> bool:
        """Whether groups are estimated."""
        return len(self.combinations) > 1 and not self.group_aware

    @property
    def estimates_groups(self) -> bool:
        """Whether groups are estimated for each row; their frequencies in each class serve otherwise."""
        return self.infers and any(
            group_model.model is not None for group_model in self.group_models
        )

    @property
    def frequencies(self) -> Floats:
        """Frequencies of combinations in each class, shape (K, G), for use without group models."""
        return self.groups_of(np.zeros((1, 1)))[:, :, 0].astype(np.float64)

    def fit_groups(
        self, X: Table, y: Ints, groups: Ints, weight: Floats, strata: Strata
    ) -> Singles:
        """Fit the group models, and return p(combination | x, y) out of fold, shape (K, G, n).

        ``groups`` are the values by column, shape (n, c). The folds are stratified by ``strata``, and rows of
        equal content share a fold. A group model is dropped if its log loss out of fold is at least as large
        as with the frequencies of the groups. Without any model the result has the frequencies.
        """
        n = len(y)
        self.group_models = [
            GroupModel.fit(X, y, group, weight, self.n_classes, len(values))
            for group, values in zip(groups.T, strata.values, strict=True)
        ]
        if not self.estimates_groups:
            return self.groups_of(X)
        stratum = strata.number(y, strata.find(groups))
        if not hasattr(X, "shape"):
            X = np.asarray(X)
        fold = stratified_places(hash_rows(X), stratum, weight) % GROUP_FOLDS

        by_column = []  # p(group | x, y) of each column, shape (K, groups of the column, n)
        for column, group in enumerate(groups.T):
            model = self.group_models[column]
            if model.model is not None:
                out_of_fold = model.out_of_fold(X, y, group, weight, fold)
                of_true_group = np.maximum(out_of_fold[y, group, np.arange(n)], LEAST_JUDGED)
                if weight @ np.log(of_true_group / model.prior[y, group]) > 0.0:
                    by_column.append(out_of_fold)
                    continue
                self.group_models[column] = replace(model, model=None)
            by_column.append(self.group_models[column].predict(X))
        if not self.estimates_groups:
            return self.groups_of(X)
        return self._joined(by_column)

    def _joined(self, by_column: Sequence[Floats]) -> Singles:
        """Return p(combination | x, y), shape (K, G, n), as if columns were independent given x and y."""
        joined = by_column[0][:, self.combinations[:, 0]]
        for column, probabilities in enumerate(by_column[1:], 1):
            joined *= probabilities[:, self.combinations[:, column]]
        if len(by_column) > 1:
            for of_class in joined:
                of_class /= np.maximum(_summed(of_class), 1e-300)
        return joined.astype(np.float32)

    def groups_of(self, X: Table) -> Singles:
        """Return p(combination | x, y) of new rows, shape (K, G, n).

        If groups are not estimated, every row has the frequencies of the combinations in each class.
        """
        if not n_rows_of(X):
            return np.empty((self.n_classes, len(self.combinations), 0), dtype=np.float32)
        if self.estimates_groups:
            return self._joined([model.predict(X) for model in self.group_models])
        one_row = np.zeros((1, 1))
        frequencies = self._joined([model.predict(one_row) for model in self.group_models])
        n_classes, n_combinations, _ = frequencies.shape
        return np.broadcast_to(frequencies, (n_classes, n_combinations, n_rows_of(X)))

    def predict(
        self, logs: Floats, groups: Singles | None = None, read_group: Ints | None = None
    ) -> Singles:
        """Return p(s | x) of some rows, shape (S, n).

        ``logs`` are logarithms of p(y | x), up to a constant in each row, shape (n, K). ``groups`` is
        p(combination | x, y), shape (K, G, n), if groups are estimated. A group-aware rule needs
        ``read_group``, the number of the group of each row, shape (n,).
        """
        if read_group is not None and self.n_places == len(self.combinations) > 1:
            return self._predict_within_group(logs, read_group)
        if self.factors is None:
            return self.joint(logs, groups, read_group, dtype=np.float32)
        joint = self.joint(logs, groups, read_group) * self.factors
        joint /= np.maximum(_summed(joint), 1e-300)
        return joint.astype(np.float32)

    def _predict_within_group(self, logs: Floats, read_group: Ints) -> Singles:
        """Return p(s | x) as `predict`, if the read group determines the combination.

        All other combinations have probability 0. For 10⁶ rows of two classes and ten groups, this shortcut
        takes .06 seconds instead of 1.0.
        """
        n_combinations = len(self.combinations)
        combination = np.argsort(self.places)[read_group]
        by_class = _softmax(np.ascontiguousarray(logs.T))
        if self.factors is not None:
            by_class = by_class * self.factors.reshape(-1, n_combinations)[:, combination]
            # Sums of 1 make the gains of deferral comparable between rows.
            by_class /= np.maximum(_summed(by_class), 1e-300)
        result = np.zeros((len(by_class), n_combinations, len(combination)), dtype=np.float32)
        result[:, combination, np.arange(len(combination))] = by_class
        return result.reshape(len(by_class) * n_combinations, -1)

    def joint(
        self,
        logs: Floats,
        groups: Singles | None,
        read_group: Ints | None,
        dtype: Any = np.float64,
    ) -> Any:
        """Return p(s | x) without factors, shape (S, n); parameters as in `predict`."""
        by_class = _softmax(np.ascontiguousarray(logs.T))
        n_combinations = len(self.combinations)
        if n_combinations == 1:
            return by_class.astype(dtype)
        if self.group_aware:
            assert read_group is not None
            assert self.shares is not None
            groups = self.shares[:, :, None] * (read_group == self.places[:, None])
        assert groups is not None
        joint = np.empty((len(by_class), n_combinations, by_class.shape[1]), dtype=dtype)
        # In float64 each, without a table of it.
        np.multiply(by_class[:, None, :], groups, out=joint, casting="same_kind")
        return joint.reshape(len(by_class) * n_combinations, -1)

    def fit_factors(
        self, logs: Floats, read_group: Ints, stratum: Ints, weights: Floats
    ) -> None:
        """Fit the factors by group on rows with known strata; ``logs`` and ``read_group`` as in `predict`.

        The expected mass of each stratum becomes its mass on these rows, by iterative scaling. ``stratum``
        and ``weights`` have shape (n,). Without factors the error within loose limits was .0027 ± .0020
        higher (32 calls). Within tight limits no difference was found (216 calls, benchmarks/ablations.py).
        """
        joint = self.joint(logs, None, read_group)
        mass = np.bincount(stratum, weights, len(joint))
        by_class = mass.reshape(-1, len(self.combinations))  # a view
        unseen = by_class == 0.0
        by_class += np.where(unseen, UNSEEN * by_class.sum(axis=0), 0.0)
        factors = np.ones((len(joint), 1))
        for _ in range(SCALINGS):
            scaled = joint * factors
            expected = (scaled / _summed(scaled)) @ weights
            factors[:, 0] *= mass / np.where(expected > 0, expected, 1.0)
        self.factors = factors


def shares_within_read_group(strata: Strata, places: Ints) -> Floats:
    """Return p(combination | read group, y), the shares of combinations in each class, shape (K, G).

    ``places`` has the number of the read group of each combination, shape (G,). A pseudo-row of all classes
    gives every combination a positive share in every class.
    """
    mass = strata.mass.reshape(strata.n_classes, -1) * strata.size.sum()
    mass = mass + mass.sum(axis=0) / mass.sum()
    group_mass = np.stack([mass[:, places == group].sum(axis=1) for group in places], axis=1)
    return mass / group_mass


def stratum_probabilities(probabilities: StratumProbabilities, table: LogProbabilities) -> Any:
    """Return p(s | x) of the rows of a table, shape (S, n), computed once for each table."""

    def make() -> Any:
        groups = None
        if probabilities.infers:
            groups = probabilities.groups_of(group_features(probabilities, table))
        return probabilities.predict(table.pooled, groups, table.groups)

    return table.derived(("strata", probabilities), make)


def group_features(probabilities: StratumProbabilities, table: LogProbabilities) -> Any:
    """Return the input of the group models: features, or log-probabilities of all models."""
    if probabilities.by_features:
        return table.X
    return np.hstack([table[i] for i in range(table.n_models)])


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
