"""Logit adjustment: one fit of class probabilities answers every weighting of the classes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache, partial
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from scipy.special import softmax
from sklearn.base import BaseEstimator, ClassifierMixin, _fit_context, clone
from sklearn.frozen import FrozenEstimator
from sklearn.utils import (
    Tags,
    _safe_indexing,
    check_random_state,
    get_tags,
)
from sklearn.utils._param_validation import HasMethods
from sklearn.utils.validation import check_is_fitted, validate_data

from tailboost._checks import check_labelled_rows, refuse_frame
from tailboost._sparse import summed
from tailboost._typing import Floats, Ints, Mask
from tailboost.learners._base import constant
from tailboost.learners._hist import HistBoostClassifier, HistTreeClassifier
from tailboost.learners._threads import N_JOBS
from tailboost.learners.foreign import FOR_FITTED, set_seeds, weight_parameter
from tailboost.learners.forest import ForestSession, TableForest, reweighed
from tailboost.learners.mean import shares
from tailboost.learners.protocols import Learner, Partitioned
from tailboost.learners.table import OpenTable

# Least probability: a class that a forest gives 0 must still be answered if its weight is large enough.
LEAST_PROBABILITY = 1e-3
# Up to so many distinct rows a forest stands beside the boosted trees by default: classes of a few rows err
# less with it. See benchmarks/README.md.
FOREST_UP_TO = 5_000
# Relative tolerance within which weights are the same: the player's are rounded to 16 bits.
SAME = 1e-3


class LogProbabilities:
    """Fitted classifiers as a prepared table: the mean of the logarithms of their class probabilities.

    Parameters
    ----------
    models : list of classifiers
        Fitted on class numbers, with ``predict_proba``.
    n_classes : int
        K; classes that a model did not see have the least probability.
    share : ndarray of shape (len(models), K), optional
        Weight of each model in the mean for each class; the same for all by default.
    """

    def __init__(self, models: list[Any], n_classes: int, share: Floats | None = None) -> None:
        self.models, self.n_classes = models, n_classes
        self.share = np.full((len(models), n_classes), 1.0 / len(models)) if share is None else share

    @classmethod
    def mean(cls, parts: Sequence[LogProbabilities], seen: Mask) -> LogProbabilities:
        """Return the mean of several: for each class of those that saw it, shape (len(parts), K)."""
        share = np.vstack([part.share * w for part, w in zip(parts, shares(seen), strict=True)])
        return cls([model for part in parts for model in part.models], seen.shape[1], share)

    def transform(self, X: Any) -> Floats:
        """Return the logarithms, shape (n, K)."""
        total = np.zeros((X.shape[0], self.n_classes))
        tables: dict[Any, Any] = {}
        for model, share in zip(self.models, self.share, strict=True):
            if hasattr(model, "predict_proba_table"):
                # Fitted on an opened table, it knows the columns, not the names that scikit-learn asks for.
                if model.table_ not in tables:
                    tables[model.table_] = model.table_.transform(X)
                known = model.predict_proba_table(tables[model.table_])
            else:
                known = np.asarray(model.predict_proba(X), dtype=np.float64)
            P = np.zeros_like(total)
            P[:, np.asarray(model.classes_, dtype=np.intp)] = known
            total += share * np.log(np.maximum(P, LEAST_PROBABILITY))
        return total


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
        each = [model.feature_importances_ for model in self.table_.models]
        return np.average(each, axis=0, weights=self.table_.share.mean(axis=1))

    def predict_table(self, table: Floats) -> Ints:
        """Return class numbers for ``table_.transform(X)``, shape (n,)."""
        return (table + self.log_weight).argmax(axis=1)

    def predict_proba_table(self, table: Floats) -> Floats:
        """Return the models' class probabilities, without the weights of the classes, shape (n, K)."""
        P: Floats = softmax(table, axis=1)
        return P

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
        table = cache(partial(OpenTable.of, X))  # read when the first learner asks for it
        few = template.estimators is None and len(np.unique(table().hashes)) <= FOREST_UP_TO
        self.learners = template._learners(few)
        self.opened = [self._open(learner, table) for learner in self.learners]
        self.given: dict[bytes, Floats] = {}  # every round asks for them
        self.newest: tuple[Floats | None, Floats | None] = (None, None)  # and all folds of it for this
        self.shared: dict[bytes, LogProbabilities] = {}
        self.means: dict[tuple[LogProbabilities, ...], LogProbabilities] = {}
        self.known: dict[tuple[bytes, bytes], Floats] = {}

    def _open(self, learner: Any, table: Callable[[], OpenTable]) -> Any:
        if isinstance(learner, TableForest):
            return ForestSession(learner, table(), self.y, classes=self.y)
        if isinstance(learner, HistBoostClassifier | HistTreeClassifier):
            return learner.open_table(table(), self.y, self.n_classes, self.sample_weight)
        if isinstance(learner, Learner):
            return learner.open_session(self.X, self.y, self.n_classes, self.sample_weight)
        return None

    def leave_out(self, part: Ints) -> None:
        """Tell which rows are judged together, see `protocols.Partitioned`."""
        for opened in self.opened:
            if isinstance(opened, Partitioned):
                opened.leave_out(part)

    def fit(self, weight: Floats, seed: int, rows: Mask | None = None) -> Any:
        """Return the best answer to the classes' weights; ``seed`` is ignored, so that fits can be shared."""
        mass = self._mass(weight, rows)
        if np.count_nonzero(mass) == 1:
            return constant(int(mass.argmax()), self.n_classes)
        return Adjusted(self._probabilities(weight, rows), log_shares(mass))

    def mean(self, models: list[Any], weight: Floats, rows: list[Mask]) -> Adjusted | None:
        """Return the answer by the mean of the parts' probabilities; None where a constant answers.

        It needs no fit, and errs less than one model to all rows. See benchmarks/README.md.
        """
        mass = self._mass(weight, None)
        known = [(m.table_, r) for m, r in zip(models, rows, strict=True) if isinstance(m, Adjusted)]
        if not known or np.count_nonzero(mass) == 1:
            return None
        parts = tuple(table for table, _ in known)
        if parts not in self.means:
            seen = np.array([self._given(r) > 0.0 for _, r in known])
            self.means[parts] = LogProbabilities.mean(parts, seen)
        return Adjusted(self.means[parts], log_shares(mass))

    def _mass(self, weight: Floats, rows: Mask | None) -> Floats:
        """Return the sums of the weights in each class of the rows."""
        factor = self._factor(weight)
        if factor is None:
            return self._sums(weight if rows is None else np.where(rows, weight, 0.0))
        return factor * self._given(rows)

    def _factor(self, weight: Floats) -> Floats | None:
        """Return what rows of each class weigh beside their own weights; None where that differs in one."""
        if weight is not self.newest[0]:
            given, own = self._given(None), self.sample_weight
            factor = self._sums(weight) / np.where(given > 0.0, given, 1.0)
            even = factor[self.y] * own
            self.newest = weight, None if (np.abs(weight - even) > SAME * even).any() else factor
        return self.newest[1]

    def _sums(self, weight: Floats) -> Floats:
        """Return the sum of the weights in each class."""
        return np.bincount(self.y, weights=weight, minlength=self.n_classes).astype(np.float64)

    def _given(self, rows: Mask | None) -> Floats:
        """Return the classes' sums of the rows' own weights."""
        key = rows_key(rows)
        if key not in self.given:
            own = self.sample_weight if rows is None else np.where(rows, self.sample_weight, 0.0)
            self.given[key] = self._sums(own)
        return self.given[key]

    def _probabilities(self, weight: Floats, rows: Mask | None) -> LogProbabilities:
        """Return the class probabilities: of one fit to the rows where weights are even within classes."""
        if self._factor(weight) is None:
            return self._fit(weight, rows)
        key = rows_key(rows)
        if key not in self.shared:
            self.shared[key] = self._fit(self.sample_weight, rows)
        return self.shared[key]

    def _fit(self, weight: Floats, rows: Mask | None) -> LogProbabilities:
        own = weight if rows is None else np.where(rows, weight, 0.0)
        even = balanced(own, self.y, self.sample_weight)
        models = []
        for learner, opened in zip(self.learners, self.opened, strict=True):
            if opened is None:
                models.append(self._fit_one(learner, even))
            elif isinstance(opened, ForestSession):  # it balances the classes in every tree's rows
                models.append(opened.fit(weight, 0, rows))
            else:
                models.append(opened.fit(even, 0, rows))
        return LogProbabilities(models, self.n_classes)

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


def log_shares(mass: Floats) -> Floats:
    """Return the logarithms of the classes' shares of the weight; −∞ for one that has none."""
    with np.errstate(divide="ignore"):
        return np.asarray(np.log(mass / mass.sum()))


def balanced(weight: Floats, y: Ints, sample_weight: Floats) -> Floats:
    """Let every class weigh as many rows as there are on average.

    Then p_k(x) is proportional to the density of class k at x, and Σ_k w_k R_k is least where the largest
    w_k p_k(x) is answered.
    """
    mass = np.bincount(y, weights=weight)
    kept = sample_weight[weight > 0.0].sum()
    return reweighed(weight, y, np.where(mass > 0.0, kept / np.count_nonzero(mass), 0.0))


def default_boosting(n_jobs: int | None = None) -> HistBoostClassifier:
    """Return the trees that `LogitAdjustedClassifier` fits by default."""
    return HistBoostClassifier(n_estimators=100, max_depth=5, learning_rate=0.2, n_jobs=n_jobs)


def rows_key(rows: Mask | None) -> bytes:
    """Return a key for the rows of a fit."""
    return b"" if rows is None else rows.tobytes()


class LogitAdjustedClassifier(ClassifierMixin, BaseEstimator):
    """Answers weighted classes by shifting the thresholds of one fit, not by fitting again.

    Weights per class hardly change a strong learner: it separates the training rows at any weights. So the
    class probabilities p_k are fitted once, with all classes weighing the same. Weights w of the classes are
    then answered by ``argmax_k w_k p_k(x)``, the best answer if the probabilities are right [1]_, [2]_. In a
    game over classes every round after the first costs an argmax.

    Where a classifier cross-fits, its members answer by the mean of the models of the folds, each of which
    left out the rows that it judged. No model is fitted to all rows.

    Parameters
    ----------
    estimators : classifier or list of classifiers, optional
        With ``predict_proba`` and sample weights in ``fit``; the logarithms of their probabilities are
        averaged. They are fitted anew, so a frozen classifier is refused. None takes boosted
        trees (`HistBoostClassifier`, 100 rounds of a tree of depth 5 per class, learning rate 0.2), and up to
        5,000 distinct rows 100 extremely randomised trees beside them, with which classes of a few rows err
        less.
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

    def _learners(self, few: bool = True) -> list[Any]:
        """Return what is fitted; ``few`` says that there are at most `FOREST_UP_TO` distinct rows."""
        self._validate_params()
        if self.estimators is None:
            forest = [TableForest(n_jobs=self.n_jobs)] if few else []
            chosen: list[Any] = [default_boosting(self.n_jobs), *forest]
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
            refuse_frame(X)
            return validate_data(
                self, X, "no_validation" if y is None else y, reset=y is not None, skip_check_array=True
            )
        X = summed(X)
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
