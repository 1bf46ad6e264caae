"""Binned trees of XGBoost, on tables that are binned once and weighted anew in every round."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import KW_ONLY, dataclass, field
from functools import cached_property, partial
from importlib import import_module
from numbers import Integral
from typing import Any, ClassVar

import numpy as np
from scipy.special import softmax
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.tree import DecisionTreeClassifier
from sklearn.utils import gen_batches, gen_even_slices
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import check_is_fitted

from tailboost.core import (
    Arguments,
    Constraints,
    Floats,
    Floats32,
    Ints,
    Mask,
    Partitions,
    Seed,
    Table,
    frozen_object,
    parameters,
    warn_user,
)
from tailboost.core.ranges import COUNT, NON_NEGATIVE, TO_ONE
from tailboost.learners.base import FittedModel, OpenSession
from tailboost.learners.table import ForestSession, TableClassifier, TableReader
from tailboost.learners.threads import count_threads

# n_estimators="auto": trees are added until the loss of held-out rows has not fallen by LEAST_GAIN in WAIT
# trees, or there are MOST_TREES.
MOST_TREES = 300
WAIT = 15
LEAST_GAIN = 1e-4
# Rows of partitions whose probabilities, of 8 bytes each, are in memory together.
ROWS_TOGETHER = 100_000
# XGBoost computes in float32: the largest penalty, times the factor of the weights.
MOST_PENALTY = 1e30


def xgboost() -> Any:
    """Return XGBoost, imported at its first use; None without this optional extra."""
    try:
        return import_module("xgboost")
    except ImportError:
        return None


def _batches(tables: Partitions, kinds: list[str] | None) -> Any:
    """Return the iterator by which XGBoost bins parts of a table with columns of these kinds."""

    class Batches(xgboost().DataIter):  # type: ignore[misc]  # the base is imported here
        def reset(self) -> None:
            self.parts = iter(tables)

        def next(self, input_data: Callable[..., None]) -> bool:
            for table in self.parts:  # from the next one on
                input_data(data=table, feature_types=kinds)
                return True
            return False

    return Batches()


@dataclass
class TreeSession(OpenSession):
    """All fits of one learner on one table, which is binned once for all rounds and folds.

    A learner without a number of trees grows them until the loss of held-out rows no longer falls.
    """

    reader: TableReader
    deterministic = True

    def __post_init__(self) -> None:
        learner = self.learner
        self.stopped_at: list[int] = []  # numbers of trees, by the held-out rows of a cross-fit
        self.labels = self.y.astype(np.float32)
        n_threads = count_threads(learner.n_jobs, self.X.shape)
        self.params = {
            "max_bin": learner.max_bins,
            "max_depth": learner.max_depth,
            "nthread": n_threads,
            "verbosity": 0,
            **learner._booster_params(self.n_classes),
        }
        # Of categories and, as XGBoost calls numbers, of quantities. It reads all kinds with every tree.
        kind_of_column = ["q" if known is None else "c" for known in self.reader.categories_]
        kinds = None
        if "multi_strategy" in self.params:
            # A leaf has a value for each class. Such trees cannot split sets of categories.
            self.labels = np.eye(self.n_classes, dtype=np.float32)[self.y]
        elif "c" in kind_of_column:
            kinds = kind_of_column
        table = self.X
        if isinstance(table, Partitions):
            table = _batches(table, kinds)
            kinds = None  # each part has them
        self.bin = partial(
            xgboost().QuantileDMatrix,
            max_bin=learner.max_bins,
            nthread=n_threads,
            feature_types=kinds,
        )
        self.data = self.bin(table)
        self.data.set_info(label=self.labels)

    def predict(self, model: Any) -> Ints:
        """Return class numbers of the session's rows, of partitions from their bins."""
        if isinstance(self.X, Partitions):
            margin = model.booster_.predict(self.data, output_margin=True)
            return np.concatenate(
                [
                    model._probabilities(margin[rows]).argmax(axis=1)
                    for rows in gen_batches(len(margin), ROWS_TOGETHER)
                ]
            )
        return super().predict(model)

    def _start(
        self, weight: Floats, rows: Mask | None, cuts: Any = None
    ) -> tuple[Arguments, Any]:
        """Return XGBoost's parameters, and the binned rows of a mask (None: all) with their weights.

        Weights and penalties are multiplied by one power of two. This changes no tree, and keeps the
        numbers in the range of float32. ``cuts`` are binned rows with the same bins, by default all rows.
        """
        data = self.data
        if rows is not None:
            weight = weight[rows]
            data = self.bin(self.X[rows], self.labels[rows], ref=cuts or data)
        if not weight.any():  # the player weighs other rows alone
            weight = np.ones(len(weight))
        factor = 2.0 ** round(np.log2(len(weight) / weight.sum()))
        data.set_weight((factor * weight).astype(np.float32))
        return self.params | {
            "min_child_weight": min(factor * self.learner.min_child_weight, MOST_PENALTY),
            "reg_lambda": min(factor * self.learner.l2_regularization, MOST_PENALTY),
        }, data

    def _model(self, booster: Any) -> FittedTrees:
        """Return the trees of a booster as a fitted model."""
        learner = self.learner
        return learner._fitted(self.reader, bytes(booster.save_raw()), learner.n_jobs)

    def fit(self, weight: Floats, seed: int, rows: Mask | None = None) -> FittedTrees:
        """Return the trees of the rows of a mask (None: all); ``seed`` has no effect.

        Without a number of trees the other rows end the growth. All rows are then fitted with the mean
        number of trees of these fits; without such a fit, a fifth of the rows gives the number.
        """
        n_trees = self.learner.n_estimators
        if n_trees == "auto":
            if rows is not None and not rows.all():
                booster = self._stopped(weight, rows)
                self.stopped_at.append(booster.num_boosted_rounds())
                return self._model(booster)
            numbers = self.stopped_at
            if not numbers:
                fitted = np.ones(len(weight), bool)
                fitted[np.argsort(self.y, kind="stable")[::5]] = False
                numbers = [self._stopped(weight, fitted).num_boosted_rounds()]
            n_trees = round(np.mean(numbers))
        return self._model(xgboost().train(*self._start(weight, rows), n_trees))

    def stages(self, weight: Floats, seed: int) -> Iterator[FittedTrees]:
        """Yield the trees after each one."""
        params, data = self._start(weight, None)
        booster = xgboost().Booster(params, [data])
        n_trees = self.learner.n_estimators
        for t in range(MOST_TREES if n_trees == "auto" else n_trees):
            booster.update(data, t)
            yield self._model(booster)

    def _stopped(self, weight: Floats, rows: Mask) -> Any:
        """Return the booster of the rows of a mask with the least loss on the other rows."""
        params, data = self._start(weight, rows)
        _, held = self._start(weight, ~rows, data)
        stop = xgboost().callback.EarlyStopping(
            rounds=WAIT, min_delta=LEAST_GAIN, save_best=True
        )
        return xgboost().train(
            params,
            data,
            MOST_TREES,
            evals=[(held, "held")],
            callbacks=[stop],
            verbose_eval=False,
        )


@frozen_object
class FittedTrees(FittedModel):
    """Trees of XGBoost. As bytes they can be pickled and copied.

    Attributes
    ----------
    model_ : bytes
        The trees.
    n_jobs : int or None
        Largest number of threads.
    """

    model_: bytes = field(repr=False)
    n_jobs: int | None

    def __getstate__(self) -> Arguments:
        return {k: v for k, v in vars(self).items() if k != "booster_"}

    @cached_property
    def booster_(self) -> Any:
        """XGBoost model. Do not change it: predictions in other threads may use it."""
        # Loading and the first call, which configures a booster, may not be shared by threads. A booster with
        # a row of its own is configured before it reads trees, in one thread. More threads of OpenMP would
        # wait for ever in a forked process.
        row = xgboost().DMatrix(np.zeros((1, 1)), nthread=1)
        booster = xgboost().Booster({"nthread": 1}, [row])
        booster.num_features()
        booster.load_model(bytearray(self.model_))
        booster.num_boosted_rounds()
        return booster

    def get_n_leaves(self) -> int:
        """Return the number of leaves."""
        return sum(tree.count("leaf=") for tree in self.booster_.get_dump())

    @abstractmethod
    def _probabilities(self, margin: Floats32) -> Floats:
        """Return class probabilities for XGBoost's output, (n,) or (n, K)."""

    def predict_proba_table(self, table: Table) -> Floats:
        """Return class probabilities for a table prepared by ``table_.transform``, shape (n, K)."""
        predict = partial(self.booster_.inplace_predict, predict_type="margin")
        n_threads = count_threads(self.n_jobs, table.shape)
        if n_threads == 1:
            return self._probabilities(predict(table))
        # Threads of Python wait without spinning, so busy cores slow them down less than those of OpenMP.
        blocks = [table[rows] for rows in gen_even_slices(table.shape[0], n_threads)]
        with ThreadPoolExecutor(n_threads) as pool:
            return self._probabilities(np.concatenate([*pool.map(predict, blocks)]))


class FittedTree(FittedTrees):
    """A tree of `HistTreeClassifier`."""

    def _probabilities(self, margin: Floats32) -> Floats:
        """Return the class distributions of the leaves, which rounding may move out of [0, 1]."""
        P = margin.astype(np.float64)
        if P.ndim == 1:  # of class 1
            P = np.column_stack([1.0 - P, P])
        P = P.clip(0.0, 1.0)
        return P / P.sum(axis=1, keepdims=True)


class BoostedTrees(FittedTrees):
    """The trees of `HistBoostClassifier`."""

    def _probabilities(self, margin: Floats32) -> Floats:
        """Return the softmax of the scores."""
        scores = margin.astype(np.float64, order="F")  # sums over classes are then faster
        if scores.ndim == 1:  # log odds of class 1
            scores = np.array([-scores / 2, scores / 2]).T
        return softmax(scores, axis=1)


def open_trees(learner: _XGBoostTrees, table: Table, *labels_and_reader: Any) -> OpenSession:
    """Return a session of XGBoost's trees, without XGBoost of scikit-learn's, with a warning."""
    if xgboost() is not None:
        return TreeSession(learner, table, *labels_and_reader)
    if isinstance(table, Partitions):
        raise ImportError("partitions need XGBoost: pip install 'tailboost[xgboost]'")
    warn_user(
        f"XGBoost is not installed: {type(learner).__name__} uses scikit-learn's slower trees; "
        "pip install 'tailboost[xgboost]'"
    )
    return ForestSession(learner, table, *labels_and_reader)


@parameters
class _XGBoostTrees(TableClassifier):
    """Common part of the binned learners: tables and fits."""

    _: KW_ONLY
    max_depth: int = 5
    max_bins: int = 256
    min_child_weight: float = 0.0
    n_jobs: int | None = None
    random_state: Seed = None

    _session = staticmethod(open_trees)
    _prior = 0.0  # of the class frequencies in predictions of scikit-learn's trees
    l2_regularization = 0.0

    _parameter_constraints: ClassVar[Constraints] = {
        "l2_regularization": [NON_NEGATIVE],
        "learning_rate": [TO_ONE],
        "max_bins": [Interval(Integral, 2, 65_536, closed="both")],
        "max_depth": [COUNT],
        "max_leaf_nodes": [Interval(Integral, 2, None, closed="left"), None],
        "min_child_weight": [NON_NEGATIVE],
        "n_estimators": [COUNT, StrOptions({"auto"})],
        "n_jobs": [COUNT, Interval(Integral, None, -1, closed="right"), None],
        "random_state": ["random_state"],
    }


@parameters
class HistTreeClassifier(_XGBoostTrees):
    """Binned decision tree with leaves that contain the distribution of all classes.

    The splits minimise the Gini impurity over the binned values. A leaf predicts the weighted majority.
    Without XGBoost it is scikit-learn's tree, with a warning.

    Parameters
    ----------
    max_depth : int, default=5
        Largest depth of the tree, at least 1.
    max_bins : int, default=256
        Largest number of bins per column.
    max_leaf_nodes : int, optional
        Largest number of leaves, at least 2. The leaf with the largest gain is split first. ``None``: no
        limit.
    min_child_weight : float, default=0.0
        Minimum sum of weights in a child.
    n_jobs : int, optional
        Maximum number of threads. ``None`` and −1: all cores, −2: all but one. Tables of fewer than 5 million
        entries use one thread. If joblib runs fits in threads, each uses one thread, unless
        ``n_jobs`` is positive.
    random_state : int, RandomState or None
        Seed of scikit-learn's tree. XGBoost's is deterministic.

    Attributes
    ----------
    classes_ : ndarray of shape (K,)
        The labels.
    n_features_in_ : int
        Number of columns of X in ``fit``.

    Examples
    --------
    >>> from sklearn.datasets import load_wine
    >>> from tailboost.learners import HistTreeClassifier
    >>> X, y = load_wine(return_X_y=True)
    >>> HistTreeClassifier(max_depth=2).fit(X, y).get_n_leaves()
    4
    """

    _: KW_ONLY
    max_leaf_nodes: int | None = None

    n_estimators = 1
    _fitted = FittedTree

    def get_n_leaves(self) -> int:
        """Return the number of leaves."""
        check_is_fitted(self)
        return self.model_.get_n_leaves()

    def _booster_params(self, n_classes: int) -> Arguments:
        """Return XGBoost's parameters for one tree with splits that minimise the Gini impurity.

        With squared error on class indicators, the gain of a split is the decrease of the impurity, and the
        value of a leaf is the class distribution.
        """
        params = {"objective": "reg:squarederror", "base_score": 0.0, "eta": 1.0}
        if n_classes > 2:
            params["multi_strategy"] = "multi_output_tree"
        if self.max_leaf_nodes is not None:
            params |= {"max_leaves": self.max_leaf_nodes, "grow_policy": "lossguide"}
        return params

    def _of_sklearn(self, shape: tuple[int, int], seed: int) -> Any:
        """Return scikit-learn's tree in the place of XGBoost's."""
        return DecisionTreeClassifier(
            max_depth=self.max_depth, max_leaf_nodes=self.max_leaf_nodes, random_state=seed
        )


@parameters
class HistBoostClassifier(_XGBoostTrees):
    """Gradient-boosted ensemble of binned trees. Without XGBoost it is scikit-learn's, with a warning.

    Parameters
    ----------
    n_estimators : int or "auto", default=50
        Boosting iterations. With K > 2 classes each grows K trees. "auto" grows trees until the log loss of
        held-out rows has not fallen for a while, at most 300. In a cross-fit these are the rows of the fold,
        and all rows are fitted with the mean number of trees. Otherwise a fifth of the rows gives the number.
    max_depth : int, default=5
        Largest depth of a tree.
    learning_rate : float, default=0.3
        Shrinkage in (0, 1].
    max_bins : int, default=256
        Largest number of bins per column.
    min_child_weight : float, default=1.0
        Minimum sum of Hessians in a child.
    l2_regularization : float, default=1.0
        L2 penalty on leaf values.
    n_jobs : int, optional
        As in `HistTreeClassifier`.
    random_state : int, RandomState or None
        Seed of scikit-learn's trees. XGBoost's are deterministic.

    Attributes
    ----------
    classes_ : ndarray of shape (K,)
        The labels.
    n_features_in_ : int
        Number of columns of X in ``fit``.

    Examples
    --------
    >>> from sklearn.datasets import load_wine
    >>> from tailboost.learners import HistBoostClassifier
    >>> X, y = load_wine(return_X_y=True)
    >>> clf = HistBoostClassifier(n_estimators=10).fit(X, y)
    >>> float(clf.score(X, y)) > 0.95
    True
    """

    _: KW_ONLY
    n_estimators: int | str = 50
    learning_rate: float = 0.3
    min_child_weight: float = 1.0
    l2_regularization: float = 1.0

    _fitted = BoostedTrees

    def _booster_params(self, n_classes: int) -> Arguments:
        """Return XGBoost's parameters for trees that lower the log loss."""
        params = {"objective": "binary:logistic", "eta": self.learning_rate}
        if n_classes > 2:
            params |= {"objective": "multi:softprob", "num_class": n_classes}
        return params

    def _of_sklearn(self, shape: tuple[int, int], seed: int) -> Any:
        """Return scikit-learn's trees in the place of XGBoost's."""
        is_auto = self.n_estimators == "auto"
        return HistGradientBoostingClassifier(
            max_iter=MOST_TREES if is_auto else self.n_estimators,
            max_depth=self.max_depth,
            learning_rate=self.learning_rate,
            l2_regularization=self.l2_regularization,
            early_stopping=is_auto,
            max_leaf_nodes=None,
            random_state=seed,
        )
