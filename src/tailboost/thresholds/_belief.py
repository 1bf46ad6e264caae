"""Belief: the probability p(s | x) of each stratum, from models of the class and features of groups."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import scipy.sparse
from sklearn.linear_model import LogisticRegression

from tailboost._blas import one_blas_thread
from tailboost._checks import as_pandas, n_rows_of
from tailboost._rows import draw_lots, hash_rows
from tailboost._typing import Floats, Ints
from tailboost.learners import HistBoostClassifier
from tailboost.rates import Strata
from tailboost.thresholds._tally import Singles

# Folds of the models of groups, and the rows of a class by which they are doubted.
FOLDS, PRIOR_ROWS = 3, 20.0
# Trust in a model of groups at most: how near to 0 a probability is says nothing that holds on other rows.
MOST_TRUST = 0.95
# Probabilities below are as good as this one to the calibration.
LEAST = 1e-4
# Rows a calibration is fitted on at most, and strata up to which it is one.
CALIBRATION_ROWS, CALIBRATED_STRATA = 20_000, 60
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
    model: Any  # classifier or None: fitted on features and class; None where there is one group
    present: Ints  # the groups it knows
    prior: Floats  # shape (K, n_values): shares of the groups in each class
    trust: Floats  # shape (K,): share of the model in the answer for a class; the rest is the prior's

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
        mass = np.bincount(y * n_values + group, weight, n_classes * n_values).reshape(n_classes, n_values)
        overall = mass.sum(axis=0) / mass.sum()
        rows = np.bincount(y, minlength=n_classes)
        prior = mass + overall  # one row's worth of all classes keeps every group possible
        prior /= prior.sum(axis=1, keepdims=True)
        trust = np.minimum(rows / (rows + PRIOR_ROWS), MOST_TRUST)
        return cls(n_classes, n_values, None, np.unique(group), prior, trust).learnt(X, y, group, weight)

    def learnt(self, X: Any, y: Ints, group: Ints, weight: Floats) -> GroupModel:
        """Return the model learnt from some of its rows, doubted as that of all is.

        What it says out of fold then differs from what it says of new rows by the learner alone: a
        calibration fitted on the one holds for the other.
        """
        present, index = np.unique(group, return_inverse=True)
        model = None
        if len(present) > 1:
            model = group_learner().fit(with_class(X, y, self.n_classes), index, sample_weight=weight)
        return replace(self, model=model, present=present)

    def predict(self, X: Any) -> Floats:
        """Return p(g | x, y) for every class, shape (K, n_values, n)."""
        n = n_rows_of(X)
        found = np.empty((self.n_classes, self.n_values, n))
        for k in range(self.n_classes):
            own = np.zeros((self.n_values, n))
            if self.model is None:
                own[self.present] = 1.0
            else:
                of_class = with_class(X, np.full(n, k, dtype=np.intp), self.n_classes)
                own[self.present] = np.asarray(self.model.predict_proba(of_class)).T
            found[k] = self.trust[k] * own + (1.0 - self.trust[k]) * self.prior[k][:, None]
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
        rows, each = _some_of_each(stratum, CALIBRATION_ROWS)
        order = np.lexsort([*belief[:, rows], stratum[rows]])  # in whatever order rows came: sums are rounded
        rows, each = rows[order], each[order]
        logs = np.log(np.maximum(belief[:, rows].T.astype(np.float64), LEAST))
        slopes, offsets = np.zeros((n_strata, n_strata)), np.full(n_strata, NEVER)
        present = np.unique(stratum[rows])
        if len(present) == 1:
            offsets[present] = 0.0
            return cls(slopes, offsets)
        weight = share[rows] * each
        weight *= len(stratum) / weight.sum()  # all that is known of few rows counts against the penalty
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


def _some_of_each(stratum: Ints, most: int) -> tuple[Ints, Floats]:
    """Return the numbers of at most so many rows, and how many rows each stands for.

    Strata of few rows keep all of theirs: a few of them would say nothing of these strata.
    """
    sizes = np.bincount(stratum)
    kept, left = np.zeros_like(sizes), most
    order = np.argsort(sizes, kind="stable")
    for place, s in enumerate(order.tolist()):
        kept[s] = min(sizes[s], left // (len(order) - place))
        left -= kept[s]
    found = []
    for s in np.flatnonzero(kept).tolist():
        own = np.flatnonzero(stratum == s)
        found.append(own[np.linspace(0, len(own) - 1, kept[s]).round().astype(np.intp)])
    rows = np.sort(np.concatenate(found))
    return rows, (sizes / np.maximum(kept, 1))[stratum[rows]]


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
class Belief:
    """p(s | x) = p(y | x) p(g | x, y): what sources say of the class, and features of groups not told."""

    n_classes: int  # K
    combinations: Ints  # shape (G, c): the combinations of groups, as numbers of values by column
    told: bool  # whether the groups of rows to answer are told
    # Whether groups are inferred from the features of a row, or from what all models say of it.
    by_features: bool = True
    # One for each column of groups that has to be inferred.
    models: list[GroupModel] = field(default_factory=list)
    calibrations: dict[int, Calibration] = field(default_factory=dict)  # by source, where groups are inferred

    @property
    def infers(self) -> bool:
        """Whether groups have to be inferred from features."""
        return len(self.combinations) > 1 and not self.told

    def fit_groups(
        self, X: Any, y: Ints, groups: Ints, weight: Floats, strata: Strata, some: Ints, seed: int = 0
    ) -> tuple[Singles, Singles, Singles]:
        """Fit the models of groups, and return what they say out of fold and of rows that they learnt from.

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
        some : ndarray of int, shape (m,)
            Numbers of some of the rows.
        seed : int
            Of the folds.

        Returns
        -------
        out : ndarray of shape (K, G, n)
            What models of folds say of the rows that they did not learn from.
        own, learnt : ndarray of shape (K, G, m)
            What the models of all rows, which will answer, say of some rows, and what models of a fold say of
            them that learnt from them too.
        """
        n = len(y)
        stratum = strata.number(y, strata.find(groups))
        X = X if hasattr(X, "shape") else np.asarray(X)
        fold = draw_lots(hash_rows(X, seed=seed), stratum, weight) % FOLDS
        sizes = [len(values) for values in strata.values]
        of_columns, of_some, self.models = [], [], []
        some_X = _rows(X, some)
        for column, size in zip(groups.T, sizes, strict=True):
            whole = GroupModel.fit(X, y, column, weight, self.n_classes, size)
            out, own = np.empty((self.n_classes, size, n)), whole.predict(some_X)
            learnt = own.copy()
            for j in range(FOLDS):
                rest, held = np.flatnonzero(fold != j), np.flatnonzero(fold == j)
                beside = np.flatnonzero(fold[some] == (j + 1) % FOLDS)
                if not len(held):
                    continue
                part = whole
                if len(rest):
                    part = whole.learnt(_rows(X, rest), y[rest], column[rest], weight[rest])
                out[:, :, held] = part.predict(_rows(X, held))
                if len(beside):
                    learnt[:, :, beside] = part.predict(_rows(some_X, beside))
            of_columns.append(out)
            of_some.append((own, learnt))
            self.models.append(whole)
        owns, learnts = zip(*of_some, strict=True)
        return self._joined(of_columns), self._joined(owns), self._joined(learnts)

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

    def of(
        self, source: int, logs: Floats, groups: Singles | None = None, told: Ints | None = None
    ) -> Singles:
        """Return p(s | x) of some rows, shape (S, n).

        Parameters
        ----------
        source : int
            Whose logarithms these are.
        logs : ndarray of shape (n, K)
            Logarithms of p(y | x), up to a constant in each row.
        groups : ndarray of shape (K, G, n), optional
            p(combination | x, y), where groups are inferred.
        told : ndarray of int, shape (n,), optional
            The combination of each row, where it is told.
        """
        joint = self.joint(logs, groups, told)
        calibration = self.calibrations.get(source)
        if calibration is not None:
            joint = calibration.apply(joint)
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

    def calibrate(self, source: int, logs: Floats, groups: Singles, stratum: Ints, share: Floats) -> None:
        """Fit the calibration of a source on rows whose strata are known."""
        joint = self.joint(logs, groups, None)
        if len(joint) <= CALIBRATED_STRATA:
            self.calibrations[source] = Calibration.fit(joint.astype(np.float32), stratum, share)


def _rows(X: Any, rows: Ints) -> Any:
    return X.iloc[rows] if hasattr(X, "iloc") else X[rows]
