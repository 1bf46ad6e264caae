"""Logit adjustment: one fit of class probabilities answers every weighting of the classes."""

from __future__ import annotations

from typing import Any, ClassVar, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, _fit_context, clone
from sklearn.ensemble import ExtraTreesClassifier
from sklearn.frozen import FrozenEstimator
from sklearn.utils import (
    Tags,
    _safe_indexing,
    check_random_state,
    get_tags,
)
from sklearn.utils._param_validation import HasMethods
from sklearn.utils.validation import check_is_fitted, validate_data

from tailboost._checks import check_labelled_rows, refuse_empty
from tailboost._rows import hash_rows
from tailboost._typing import Floats, Hashes, Ints, Mask
from tailboost.learners._base import constant
from tailboost.learners._hist import HistBoostClassifier
from tailboost.learners._sklearn import FOR_FITTED, set_seeds, weight_parameter
from tailboost.learners._table import TableReader
from tailboost.learners._threads import N_JOBS, count_threads, predict_in_blocks, sklearn_threads
from tailboost.learners.protocols import Learner, PreparedProba

# Least probability: a class that the forest gives 0 must still be answered if its weight is large enough.
LEAST_PROBABILITY = 1e-3
# Least share of the weight in a leaf of the forest: it limits the size of trees on very many rows.
SMALLEST_LEAF = 5e-5
# Least weight of a leaf, in average rows, where a class is very rare.
LEAF_ROWS = 5.0
# And at most this share of the weight, where there are very few rows.
LARGEST_LEAF = 0.05
# A class's rows are multiplied by a number of few bits: sums of such weights are exact, whether a row weighs
# 2 or is there twice.
SIGNIFICANT_BITS = 10
# Relative tolerance within which weights are the same: the player's are rounded to 16 bits.
SAME = 1e-3


class TableForest(ClassifierMixin, BaseEstimator):
    """Extremely randomised trees on the tables that the binned trees take (categories, missing values)."""

    def __init__(
        self, *, leaf_rows: float | None = None, n_jobs: int | None = None, random_state: Any = None
    ) -> None:
        self.leaf_rows = leaf_rows
        self.n_jobs = n_jobs
        self.random_state = random_state

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Fit; see scikit-learn's."""
        self.reader_ = TableReader().fit(X)
        table = self.reader_.transform(X)
        leaf = _smallest_leaf(hash_rows(table), np.asarray(y), self.leaf_rows)
        forest = ExtraTreesClassifier(min_weight_fraction_leaf=leaf, random_state=self.random_state)
        with sklearn_threads(count_threads(self.n_jobs, table.shape)):
            self.forest_ = forest.fit(table, y, sample_weight)
        self.classes_ = forest.classes_
        return self

    @property
    def feature_importances_(self) -> Floats:
        """Those of the forest, shape (d,)."""
        check_is_fitted(self)
        own: Floats = self.forest_.feature_importances_
        return own

    def predict_proba(self, X: Any) -> NDArray[np.float64]:
        """Predict class probabilities, shape (n, K)."""
        check_is_fitted(self)
        table = self.reader_.transform(X)

        def predict(block: Any) -> NDArray[np.float64]:
            # Not by the forest: it changes Python's warning filters, which all threads share, and with
            # several threads it sums the trees in any order.
            total = np.zeros((block.shape[0], len(self.classes_)))
            check = sp.issparse(block)  # its indices may be longer than trees can read
            for tree in self.forest_.estimators_:
                total += tree.predict_proba(block, check_input=check)
            return total / len(self.forest_.estimators_)

        return predict_in_blocks(predict, table, count_threads(self.n_jobs, table.shape))

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags = get_tags(ExtraTreesClassifier()).input_tags
        return tags


def _smallest_leaf(hashes: Hashes, y: NDArray[Any], leaf_rows: float | None) -> float:
    """Return the least share of the weight in a leaf, in which every class weighs the same.

    Where a class is rare, fully grown trees give most rows a probability of 0 of it: a pile of ties, on which
    thresholds land. So leaves weigh ``5 (1 − K n_k/n)`` average rows for the rarest class k: none where
    classes are even. Rows are counted by content, so that one said twice is one of weight 2.
    """
    codes = np.unique(y, return_inverse=True)[1]
    rows = np.array([len(np.unique(hashes[codes == k])) for k in range(int(codes.max()) + 1)])
    if leaf_rows is None:
        leaf_rows = LEAF_ROWS * (1.0 - len(rows) * float(rows.min()) / float(rows.sum()))
    return max(SMALLEST_LEAF, min(leaf_rows / float(rows.sum()), LARGEST_LEAF))


class LogProbabilities:
    """Fitted classifiers as a prepared table: the mean of the logarithms of their class probabilities.

    Parameters
    ----------
    models : list of classifiers
        Fitted on class numbers, with ``predict_proba``.
    n_classes : int
        K; classes that a model did not see have the least probability.
    """

    def __init__(self, models: list[Any], n_classes: int) -> None:
        self.models, self.n_classes = models, n_classes

    def transform(self, X: Any) -> Floats:
        """Return the logarithms, shape (n, K)."""
        total = np.zeros((X.shape[0], self.n_classes))
        for model in self.models:
            P = np.zeros_like(total)
            P[:, np.asarray(model.classes_, dtype=np.intp)] = _probabilities(model, X)
            total += np.log(np.maximum(P, LEAST_PROBABILITY))
        return total / len(self.models)


def _probabilities(model: Any, X: Any) -> Floats:
    if not isinstance(model, PreparedProba):
        return np.asarray(model.predict_proba(X), dtype=np.float64)
    # Fitted on an opened table, it knows the table's columns, not the names that scikit-learn asks for.
    return model.predict_proba_table(model.table_.transform(X))


class Adjusted:
    """The best answer to weights of the classes: ``argmax_k log p_k(x) + log w_k``.

    Parameters
    ----------
    table_ : LogProbabilities
        The probabilities, shared by all answers that rest on the same fit.
    log_weight : ndarray of shape (K,)
        Logarithms of the classes' weights; −∞ for a class that has none.
    """

    def __init__(self, table_: LogProbabilities, log_weight: Floats) -> None:
        self.table_, self.log_weight = table_, log_weight

    @property
    def feature_importances_(self) -> Floats:
        """Mean of those of the classifiers behind the probabilities, shape (d,)."""
        return np.mean([model.feature_importances_ for model in self.table_.models], axis=0)

    def predict_table(self, table: Floats) -> Ints:
        """Return class numbers for ``table_.transform(X)``, shape (n,)."""
        return (table + self.log_weight).argmax(axis=1)

    def predict(self, X: Any) -> Ints:
        """Return class numbers, shape (n,)."""
        return self.predict_table(self.table_.transform(X))


class AdjustedSession:
    """All fits on one table: the models are fitted anew only where weights differ within a class.

    Parameters
    ----------
    template : LogitAdjustedClassifier
        The learner.
    X, y : table with n rows, ndarray of shape (n,)
        The data, labels as class numbers.
    n_classes : int
        K.
    sample_weight : ndarray of shape (n,)
        The rows' own weights.
    """

    concurrent = False  # fits are shared

    def __init__(
        self, template: LogitAdjustedClassifier, X: Any, y: Ints, n_classes: int, sample_weight: Floats
    ) -> None:
        self.X, self.y, self.n_classes, self.sample_weight = X, y, n_classes, sample_weight
        self.learners = template._learners()
        self.opened = [
            e.open_session(X, y, n_classes, sample_weight) if isinstance(e, Learner) else None
            for e in self.learners
        ]
        self.shared: dict[bytes, LogProbabilities] = {}
        self.known: dict[tuple[bytes, bytes], Floats] = {}

    def fit(self, weight: Floats, seed: int, rows: Mask | None = None) -> Any:
        """Return the best answer to the classes' weights; ``seed`` is ignored, so that fits can be shared."""
        used, own = (w if rows is None else np.where(rows, w, 0.0) for w in (weight, self.sample_weight))
        mass = np.bincount(self.y, weights=used, minlength=self.n_classes)
        if np.count_nonzero(mass) == 1:
            return constant(int(mass.argmax()), self.n_classes)
        with np.errstate(divide="ignore"):
            log_weight = np.log(mass / mass.sum())
        played = mass[self.y] > 0.0  # a class without weight is never answered: its logarithm is −∞
        if not np.allclose(self._share(used)[played], self._share(own)[played], rtol=SAME, atol=0.0):
            return Adjusted(self._fit(used, rows), log_weight)
        key = rows_key(rows)
        if key not in self.shared:
            self.shared[key] = self._fit(own, rows)
        return Adjusted(self.shared[key], log_weight)

    def _share(self, weight: Floats) -> Floats:
        """Weight of each row as a share of its class's."""
        mass = np.bincount(self.y, weights=weight, minlength=self.n_classes)
        share: Floats = weight / np.where(mass > 0.0, mass, 1.0)[self.y]
        return share

    def _fit(self, weight: Floats, rows: Mask | None) -> LogProbabilities:
        weight = balanced(weight, self.y, self.sample_weight)
        return LogProbabilities(
            [
                self._fit_one(learner, weight) if opened is None else opened.fit(weight, 0, rows)
                for learner, opened in zip(self.learners, self.opened, strict=True)
            ],
            self.n_classes,
        )

    def _fit_one(self, learner: Any, weight: Floats) -> Any:
        index = np.flatnonzero(weight)
        name = weight_parameter(learner)
        assert name is not None  # checked by _learners
        return clone(learner).fit(_safe_indexing(self.X, index), self.y[index], **{name: weight[index]})

    def predict(self, model: Any, rows: Mask | None = None) -> Ints:
        """Return the class numbers that a model of this session predicts for the opened rows."""
        n = len(self.y) if rows is None else int(rows.sum())
        if not isinstance(model, Adjusted):
            return np.asarray(model.predict(np.empty((n, 1)))).astype(np.intp)
        fit = next((key for key, shared in self.shared.items() if shared is model.table_), None)
        key = None if fit is None else (fit, rows_key(rows))
        if key in self.known:
            return model.predict_table(self.known[key])
        X = self.X if rows is None else _safe_indexing(self.X, np.flatnonzero(rows))
        table = model.table_.transform(X)
        if key is not None:
            self.known[key] = table
        return model.predict_table(table)


def balanced(weight: Floats, y: Ints, sample_weight: Floats) -> Floats:
    """Let every class weigh as many rows as there are on average.

    Then p_k(x) is proportional to the density of class k at x, and Σ_k w_k R_k is least where the largest
    w_k p_k(x) is answered.
    """
    mass = np.bincount(y, weights=weight)
    kept = sample_weight[weight > 0.0].sum()
    mantissa, exponent = np.frexp(kept / np.count_nonzero(mass) / np.where(mass > 0.0, mass, 1.0))
    factor = np.ldexp(np.rint(mantissa * 2.0**SIGNIFICANT_BITS), exponent - SIGNIFICANT_BITS)
    weighed: Floats = weight * factor[y]
    return weighed


def rows_key(rows: Mask | None) -> bytes:
    """Return a key for the rows of a fit."""
    return b"" if rows is None else rows.tobytes()


class LogitAdjustedClassifier(ClassifierMixin, BaseEstimator):
    """Answers weighted classes by shifting the thresholds of one fit, not by fitting again.

    Weights per class hardly change a strong learner: it separates the training rows at any weights. So the
    class probabilities p_k are fitted once, with all classes weighing the same. Weights w of the classes are
    then answered by ``argmax_k w_k p_k(x)``, the best answer if the probabilities are right [1]_, [2]_. In a
    game over classes every round after the first costs an argmax.

    Parameters
    ----------
    estimators : classifier or list of classifiers, optional
        With ``predict_proba`` and sample weights in ``fit``; the logarithms of their probabilities are
        averaged. They are fitted anew, so a frozen classifier is refused. None takes boosted
        trees (`HistBoostClassifier`, 100 rounds of a tree of depth 4 per class, learning rate 0.1) and 100
        extremely randomised trees of at most 20,000 leaves, which err on different rows.
    n_jobs : int, optional
        The most threads of a fit or prediction of the default estimators, as in `HistBoostClassifier`.
    random_state : int, RandomState or None
        For the estimators that draw; None is 0, so that fits can be shared.

    Attributes
    ----------
    classes_ : ndarray of shape (K,)
        The labels.
    n_features_in_ : int
        Columns of X in ``fit``.

    See Also
    --------
    tailboost.WorstClassBoostClassifier : Uses this learner by default in the error game over classes.

    References
    ----------
    .. [1] C. Elkan, "The Foundations of Cost-Sensitive Learning", IJCAI 2001, theorem 2.
    .. [2] A. Menon et al., "Long-tail learning via logit adjustment", ICLR 2021, section 4.1.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.datasets import load_wine
    >>> from sklearn.linear_model import LogisticRegression
    >>> from tailboost.learners import LogitAdjustedClassifier
    >>> X, y = load_wine(return_X_y=True)
    >>> X = X[:, :1]
    >>> clf = LogitAdjustedClassifier(LogisticRegression())
    >>> alike = clf.fit(X, y).predict(X)
    >>> weighted = clf.fit(X, y, sample_weight=np.where(y == 2, 5.0, 1.0)).predict(X)
    >>> bool((weighted == 2).sum() > (alike == 2).sum())
    True
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "estimators": [list, HasMethods(["fit", "predict_proba"]), None],
        "n_jobs": N_JOBS,
        "random_state": ["random_state"],
    }

    def __init__(
        self, estimators: Any = None, *, n_jobs: int | None = None, random_state: Any = None
    ) -> None:
        self.estimators = estimators
        self.n_jobs = n_jobs
        self.random_state = random_state

    def _learners(self) -> list[Any]:
        self._validate_params()
        if self.estimators is None:
            chosen: list[Any] = [
                HistBoostClassifier(
                    n_estimators=100, max_depth=4, learning_rate=0.1, vector_leaves=False, n_jobs=self.n_jobs
                ),
                TableForest(n_jobs=self.n_jobs),
            ]
        else:
            given = self.estimators if isinstance(self.estimators, list) else [self.estimators]
            chosen = [clone(e) for e in given]
        if not chosen:
            raise ValueError("estimators must hold at least one classifier, got []")
        seed = (
            0 if self.random_state is None else int(check_random_state(self.random_state).randint(2**31 - 1))
        )
        for estimator in chosen:
            if isinstance(estimator, FrozenEstimator):
                raise ValueError(
                    f"estimators: {estimator!r} is frozen, but the probabilities are fitted with all classes "
                    "weighing the same: pass the classifier itself, unfrozen. To make the best of fitted "
                    f"models: {FOR_FITTED}"
                )
            if not hasattr(estimator, "predict_proba") or weight_parameter(estimator) is None:
                raise ValueError(
                    f"estimators: {type(estimator).__name__} needs predict_proba and sample_weight in fit"
                )
            set_seeds(estimator, seed)
        return chosen

    def open_session(
        self, X: Any, y: Ints, n_classes: int, sample_weight: Floats | None = None
    ) -> AdjustedSession:
        """Open the data for any number of fits; labels are class numbers 0 … K − 1."""
        return AdjustedSession(
            self, X, y, n_classes, np.ones(len(y)) if sample_weight is None else sample_weight
        )

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Fit the probabilities; the weights of the classes become the shift.

        Parameters
        ----------
        X : array-like, sparse matrix or data frame of shape (n, d)
            What the estimators take; by default as for `HistBoostClassifier`.
        y : array-like of shape (n,)
            Class labels.
        sample_weight : array-like of shape (n,), optional
            Non-negative weights; 2 is the row twice.

        Returns
        -------
        self

        Raises
        ------
        ValueError
            If X, y or sample_weight is not as described, or y holds fewer than two classes.
        """
        X, classes, index, weight = check_labelled_rows(self, X, y, sample_weight)
        used = np.flatnonzero(weight)
        session = self.open_session(_safe_indexing(X, used), index[used], len(classes), weight[used])
        fitted = session.fit(weight[used], seed=0)
        self.table_, self.log_weight_ = fitted.table_, fitted.log_weight
        self.classes_ = classes
        return self

    def _checked(self, X: Any, y: Any = None) -> Any:
        if hasattr(X, "iloc"):
            refuse_empty(X)
            return validate_data(
                self, X, "no_validation" if y is None else y, reset=y is not None, skip_check_array=True
            )
        options: dict[str, Any] = {
            "accept_sparse": "csr", "dtype": np.float32, "ensure_all_finite": "allow-nan",
        }  # fmt: skip
        return (
            validate_data(self, X, reset=False, **options)
            if y is None
            else validate_data(self, X, y, **options)
        )

    def predict_proba(self, X: Any) -> NDArray[np.float64]:
        """Predict class probabilities under the classes' weights in ``fit``, shape (n, K)."""
        check_is_fitted(self)
        score = self.table_.transform(self._checked(X)) + self.log_weight_
        odds = np.exp(score - score.max(axis=1, keepdims=True))
        return odds / odds.sum(axis=1, keepdims=True)

    def predict(self, X: Any) -> NDArray[Any]:
        """Predict labels, shape (n,)."""
        check_is_fitted(self)
        return self.classes_[self.predict_proba(X).argmax(axis=1)]

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        inner = [get_tags(e).input_tags for e in self._learners()]
        tags.input_tags.sparse = all(t.sparse for t in inner)
        tags.input_tags.allow_nan = all(t.allow_nan for t in inner)
        return tags
