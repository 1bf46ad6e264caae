"""Stratum probabilities p(s | x), from models of the class and, where groups are not read, features."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import scipy.sparse
from sklearn.linear_model import LogisticRegression

from tailboost.core.array_types import Floats, Ints
from tailboost.core.blas import one_blas_thread
from tailboost.core.checks import as_pandas, n_rows_of
from tailboost.core.fingerprints import draw_lots, hash_rows
from tailboost.learners import HistBoostClassifier
from tailboost.rates import Strata
from tailboost.selection.counts import Singles, spread

# Folds of the models of groups.
FOLDS = 3
# Probabilities below are as good as this one to the calibration.
LEAST = 1e-4
# Rows a calibration is fitted on at most, and strata up to which there is one. Without it rules under limits
# fall to constants with six groups; with up to four it shows nothing.
CALIBRATION_ROWS, CALIBRATED_STRATA = 20_000, 60
# Steps of iterative scaling by which offsets in groups are found.
SCALINGS = 30
# Strata up to which it is found by whole Newton steps.
NEWTON_STRATA = 20
# What a stratum without rows is charged in a calibration, as a logarithm.
NEVER = -60.0


def group_learner() -> HistBoostClassifier:
    """Return the learner of p(group | features, class): small, because it is fitted several times."""
    return HistBoostClassifier(n_estimators=60, max_depth=5, learning_rate=0.15, min_child_weight=5.0)


@dataclass(eq=False)
class GroupModel:
    """p(g | x, y) of the groups of one column."""

    # n_classes, n_values: K, and how many groups the column has.
    n_classes: int
    n_values: int
    model: Any  # classifier fitted on features and class; None if there is one group, or they tell nothing
    present: Ints  # the groups it knows
    prior: Floats  # shape (K, n_values): frequencies of the groups in each class

    @classmethod
    def fit(cls, X: Any, y: Ints, group: Ints, weight: Floats, n_classes: int, n_values: int) -> GroupModel:
        """Return the model of some rows.

        Parameters
        ----------
        X : table of n rows
            Features.
        y, group : ndarray of int, shape (n,)
            Class and group of each row.
        weight : ndarray of shape (n,)
            Positive weights.
        n_classes, n_values : int
            How many there are.
        """
        present, index = np.unique(group, return_inverse=True)
        model = None
        if len(present) > 1:
            model = group_learner().fit(with_class(X, y, n_classes), index, sample_weight=weight)
        mass = np.bincount(y * n_values + group, weight, n_classes * n_values).reshape(n_classes, n_values)
        prior = mass + mass.sum(axis=0) / mass.sum()  # one row's worth of all classes keeps groups possible
        return cls(n_classes, n_values, model, present, prior / prior.sum(axis=1, keepdims=True))

    def predict(self, X: Any) -> Floats:
        """Return p(g | x, y) for every class, shape (K, n_values, n)."""
        n = n_rows_of(X)
        found = np.zeros((self.n_classes, self.n_values, n))
        for k in range(self.n_classes):
            if self.model is None:
                found[k] = self.prior[k][:, None]
            else:
                of_class = with_class(X, np.full(n, k, dtype=np.intp), self.n_classes)
                found[k, self.present] = np.asarray(self.model.predict_proba(of_class)).T
        return found


def with_class(X: Any, y: Ints, n_classes: int) -> Any:
    """Return a table with columns more that say the class of each row."""
    said = (y[:, None] == np.arange(1 if n_classes == 2 else n_classes)).astype(np.float64)
    X = as_pandas(X)
    if hasattr(X, "iloc"):
        table = X.set_axis([f"x{i}" for i in range(X.shape[1])], axis=1)
        return table.assign(**{f"y{k}": column for k, column in enumerate(said.T)})
    if scipy.sparse.issparse(X):
        return scipy.sparse.hstack([X, said], format="csr")
    table = np.asarray(X)
    return np.column_stack([table.reshape(len(table), -1), said])


@dataclass(eq=False)
class Calibration:
    """Multinomial regression of the stratum on the logarithms of its believed probabilities."""

    slopes: Floats  # shape (S, S): row = stratum
    offsets: Floats  # shape (S,): of each stratum

    @classmethod
    @one_blas_thread
    def fit(cls, belief: Singles, stratum: Ints, share: Floats) -> Calibration:
        """Return the calibration of a belief of shape (S, n) on rows whose strata are known.

        It is drawn towards saying nothing: what is believed of strata of few rows is then weighed less. Drawn
        towards the belief as it is, log loss is lower, and rules chosen by it err more where strata are many.
        """
        n_strata = len(belief)
        rows = spread(stratum, CALIBRATION_ROWS)
        rows = rows[
            np.lexsort([*belief[:, rows], stratum[rows]])
        ]  # in whatever order rows came: sums are rounded
        logs = np.log(np.maximum(belief[:, rows].T.astype(np.float64), LEAST))
        slopes, offsets = np.zeros((n_strata, n_strata)), np.full(n_strata, NEVER)
        present = np.unique(stratum[rows])
        if len(present) == 1:
            offsets[present] = 0.0
            return cls(slopes, offsets)
        mass, here = (np.bincount(stratum[of], share[of], n_strata) for of in (slice(None), rows))
        weight = share[rows] * (mass / np.maximum(here, 1e-300))[stratum[rows]] * len(stratum)
        solver = "newton-cholesky" if n_strata <= NEWTON_STRATA else "lbfgs"
        model = LogisticRegression(solver=solver, max_iter=100, tol=1e-3)
        model.fit(logs, stratum[rows], sample_weight=weight)
        if len(present) == 2:
            slopes[present[1]], offsets[present] = model.coef_[0], [0.0, float(model.intercept_[0])]
        else:
            slopes[present], offsets[present] = model.coef_, model.intercept_
        return cls(slopes, offsets)

    def apply(self, belief: Floats) -> Floats:
        """Return the calibrated belief, (S, n); summed term by term, each row for itself."""
        logs = np.log(np.maximum(belief, LEAST))
        scores = np.repeat(self.offsets[:, None], belief.shape[1], axis=1)
        for s, t in zip(*np.nonzero(self.slopes), strict=True):
            scores[s] += self.slopes[s, t] * logs[t]
        return _softmax(scores)


def _softmax(scores: Floats) -> Floats:
    shares: Floats = np.exp(scores - scores.max(axis=0))
    return shares / _summed(shares)


def _summed(values: Floats) -> Floats:
    """Return the sum over the first axis, in its order: numpy adds one row in another one than many."""
    total: Floats = values[0].copy()
    for row in values[1:]:
        total += row
    return total


@dataclass(eq=False)
class StratumProbabilities:
    """p(s | x) = p(y | x) p(g | x, y): what sources say of the class, and features of groups not told."""

    n_classes: int  # K
    combinations: Ints  # shape (G, c): the combinations of groups, as numbers of values by column
    told: bool  # whether the groups of rows to answer are told
    # Whether groups are inferred from the features of a row, or from what all models say of it.
    by_features: bool = True
    # One for each column of groups that has to be inferred.
    models: list[GroupModel] = field(default_factory=list)
    calibration: Calibration | None = None  # where groups are inferred
    # Shape (S, 1): where rules read the group, exp(offset) of each class in each group, of least log loss.
    factors: Floats | None = None

    @property
    def infers(self) -> bool:
        """Whether groups have to be inferred from features."""
        return len(self.combinations) > 1 and not self.told

    def fit_groups(
        self, X: Any, y: Ints, groups: Ints, weight: Floats, strata: Strata, seed: int = 0
    ) -> Singles:
        """Fit the models of groups, and return p(combination | x, y) out of fold, shape (K, G, n).

        Parameters
        ----------
        X : table of n rows
            Features.
        y : ndarray of int, shape (n,)
            Classes.
        groups : ndarray of int, shape (n, c)
            Values by column.
        weight : ndarray of shape (n,)
            Positive weights.
        strata : Strata
            By which rows are spread over folds, each row with those of equal content.
        seed : int
            Of the folds.
        """
        n = len(y)
        stratum = strata.number(y, strata.find(groups))
        X = X if hasattr(X, "shape") else np.asarray(X)
        fold = draw_lots(hash_rows(X, seed=seed), stratum, weight) % FOLDS
        of_columns, self.models = [], []
        for column, values in zip(groups.T, strata.values, strict=True):
            sizes = self.n_classes, len(values)
            out = np.empty((*sizes, n))
            self.models.append(GroupModel.fit(X, y, column, weight, *sizes))
            for j in range(FOLDS):
                rest, held = np.flatnonzero(fold != j), np.flatnonzero(fold == j)
                if len(held):
                    part = self.models[-1]
                    if len(rest):
                        part = GroupModel.fit(_rows(X, rest), y[rest], column[rest], weight[rest], *sizes)
                    out[:, :, held] = part.predict(_rows(X, held))
            known, prior = out[y, column, np.arange(n)], self.models[-1].prior
            if weight @ np.log(np.maximum(known, LEAST) / prior[y, column]) <= 0.0:
                # On other rows the features tell less of the groups than their frequencies do.
                self.models[-1] = replace(self.models[-1], model=None)
                out = np.repeat(prior[:, :, None], n, axis=2)
            of_columns.append(out)
        return self._joined(of_columns)

    def _joined(self, of_columns: Sequence[Floats]) -> Singles:
        """Return p(combination | x, y), shape (K, G, n), as if columns were independent given x and y."""
        K, _, n = of_columns[0].shape
        found = np.ones((K, len(self.combinations), n))
        for j, of_column in enumerate(of_columns):
            found *= of_column[:, self.combinations[:, j]]
        if len(of_columns) > 1:
            for k in range(K):
                found[k] /= np.maximum(_summed(found[k]), 1e-300)
        return found.astype(np.float32)

    def groups_of(self, X: Any) -> Singles:
        """Return p(combination | x, y) of new rows, shape (K, G, n)."""
        if not n_rows_of(X):
            return np.empty((self.n_classes, len(self.combinations), 0), dtype=np.float32)
        return self._joined([model.predict(X) for model in self.models])

    def of(self, logs: Floats, groups: Singles | None = None, told: Ints | None = None) -> Singles:
        """Return p(s | x) of some rows, shape (S, n).

        Parameters
        ----------
        logs : ndarray of shape (n, K)
            Logarithms of p(y | x), up to a constant in each row.
        groups : ndarray of shape (K, G, n), optional
            p(combination | x, y), where groups are inferred.
        told : ndarray of int, shape (n,), optional
            The combination of each row, where it is told.
        """
        if self.told and told is not None:
            of_class, G = _softmax(np.ascontiguousarray(logs.T)), len(self.combinations)
            factors = np.ones(len(of_class) * G) if self.factors is None else self.factors
            found = np.zeros((len(of_class), G, len(told)), dtype=np.float32)
            for k, own in enumerate(of_class):
                found[k, told, np.arange(len(told))] = own * factors.reshape(-1, G)[k, told]
            return found.reshape(len(of_class) * G, len(told))
        joint = self.joint(logs, groups, told)
        if self.calibration is not None:
            joint = self.calibration.apply(joint)
        return np.ascontiguousarray(joint, dtype=np.float32)

    def joint(self, logs: Floats, groups: Singles | None, told: Ints | None) -> Floats:
        """Return p(s | x) before calibration, shape (S, n)."""
        of_class = _softmax(np.ascontiguousarray(logs.T))
        G = len(self.combinations)
        if G == 1:
            return of_class
        if self.told:
            assert told is not None
            return (of_class[:, None, :] * (told == np.arange(G)[:, None])).reshape(len(of_class) * G, -1)
        assert groups is not None
        return (of_class[:, None, :] * groups).reshape(len(of_class) * G, -1)

    def calibrate(
        self, logs: Floats, groups: Singles | None, told: Ints | None, stratum: Ints, share: Floats
    ) -> None:
        """Fit the calibration on rows whose strata are known; if groups are read, offsets by group."""
        if self.told:
            assert told is not None
            rows = spread(stratum, CALIBRATION_ROWS)
            joint = self.joint(logs[rows], None, told[rows])
            mass, here = (np.bincount(stratum[of], share[of], len(joint)) for of in (slice(None), rows))
            weight = share[rows] * (mass / np.maximum(here, 1e-300))[stratum[rows]]
            self.factors = np.ones((len(joint), 1))
            for _ in range(SCALINGS):
                expected = (joint * self.factors / _summed(joint * self.factors)) @ weight
                self.factors[:, 0] *= mass / np.where(expected > 0, expected, 1.0)
            return
        joint = self.joint(logs, groups, told)
        if self.infers and len(joint) <= CALIBRATED_STRATA:
            self.calibration = Calibration.fit(joint.astype(np.float32), stratum, share)


def _rows(X: Any, rows: Ints) -> Any:
    return X.iloc[rows] if hasattr(X, "iloc") else X[rows]
