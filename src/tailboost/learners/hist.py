"""Binned trees on data that is quantised once and re-weighted every round."""

from __future__ import annotations

import warnings
from abc import abstractmethod
from collections.abc import Callable, Iterator
from functools import partial, reduce
from numbers import Integral, Real
from typing import Any, ClassVar, Literal, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, _fit_context, clone
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.tree import DecisionTreeClassifier
from sklearn.utils import Tags, check_random_state
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import check_is_fitted, validate_data

from tailboost.core.array_types import Floats, Ints, Mask
from tailboost.core.checks import check_labelled_rows, refuse_frame
from tailboost.core.sparse import summed
from tailboost.learners.foreign import fit_whole, grow, set_seeds
from tailboost.learners.mean import ClassProbabilities, Ranked, shares
from tailboost.learners.table import BinnedReader, OpenTable, Table, TableReader, cuts
from tailboost.learners.threads import N_JOBS, count_threads, predict_in_blocks, sklearn_threads

try:
    import xgboost
except ImportError:  # an optional extra; without it scikit-learn's trees are used
    xgboost = None

# XGBoost keeps weights and gains in float32 and ignores gains below 1e-6. If the sum of the weights lies
# outside these powers of 2, weights and penalties are multiplied by one power of 2 that brings the sum near
# the number of rows. Multiplying both alike does not change the trees.
EXPONENTS = (-4, 40)
HEAVIEST = 1e30
# The most bins of a column in scikit-learn's boosting.
SKLEARN_BINS = 255

# Rows that are worked on at a time where memory matters.
AT_ONCE = 2**18

# Contributions of a row of weight 1 to a tree are multiples of this.
STEP = 2.0**-15

Backend = Literal["xgboost", "sklearn"]


def cut_table(opened: OpenTable, max_bins: int, feature_types: list[str]) -> NDArray[np.float32]:
    """Return a small table that XGBoost reads our own cuts from, shape (cuts, d)."""
    table, chosen = opened.table, cuts(opened.table, max_bins, opened.hashes)
    height = 1 + max(len(c) for c in chosen)
    for j, kind in enumerate(feature_types):
        if kind == "c":  # categories are their own bins
            height = max(height, int(np.nanmax(table[:, j], initial=0)) + 1)
    reference = np.full((max(height, 2), len(chosen)), np.nan, dtype=np.float32)
    for j, c in enumerate(chosen):
        if feature_types[j] == "c":
            codes = np.arange(int(np.nanmax(table[:, j], initial=0)) + 1, dtype=np.float32)
            reference[: len(codes), j] = codes
        elif len(c):
            reference[0, j] = np.nextafter(c[0], np.float32(-np.inf))  # the first value only opens bin 0
            reference[1 : 1 + len(c), j] = c
        else:
            reference[0, j] = 0.0
    return reference


def _load(content: bytes) -> Any:
    """Return a booster that threads may share: predictions do not change it.

    XGBoost documents prediction as thread safe, but neither loading a model, nor setting a parameter, nor the
    first call after these, which configures the booster. All three happen here, before other threads see it.
    One thread: `predict_in_blocks` brings more where they pay.
    """
    booster = xgboost.Booster({"nthread": 1})
    booster.load_model(bytearray(content))
    booster.num_boosted_rounds()  # this call configures the booster
    return booster


def _derivatives(
    margin: NDArray[np.float32], y: Ints, weight: Floats, own: Floats
) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Return weighted gradient and diagonal Hessian of the softmax loss as XGBoost takes them, shape (n, K).

    Their sums are exact in whichever order they are added. Trees of one class hold many splits of equal gain,
    and which is taken must depend neither on the order of the rows nor on whether a row weighs 2 or is there
    twice. So what a row of weight 1 contributes is rounded to a multiple of `STEP`, and then multiplied by
    the row's own weight.
    """
    # Column by column: NumPy's largest of a short row takes ten times as long.
    p = np.exp(margin - reduce(np.maximum, margin.T)[:, None])
    p /= p.sum(axis=1, keepdims=True)
    hessian = 2.0 * p * (1.0 - p)
    p[np.arange(len(y)), y] -= 1.0
    each = (weight / (STEP * own)).astype(np.float32)[:, None]
    times = (STEP * own).astype(np.float32)[:, None]
    return np.rint(p * each) * times, np.rint(hessian * each) * times


def _boost_per_class(booster: Any, data: Any, i: int, y: Ints, weight: Floats, own: Floats) -> None:
    """Grow the trees of iteration i, one per class, by the weights of this fit and the rows' own."""
    margin = booster.predict(data, output_margin=True, training=True)
    gradient, hessian = np.empty_like(margin), np.empty_like(margin)
    for a in range(0, len(y), AT_ONCE):  # each step takes several arrays of this height
        rows = slice(a, a + AT_ONCE)
        gradient[rows], hessian[rows] = _derivatives(margin[rows], y[rows], weight[rows], own[rows])
    booster.boost(data, i, grad=gradient, hess=hessian)


class HistSession:
    """All fits of one learner on one table: binned once, shared by every round and fold."""

    concurrent = False  # the weights lie in the binned table

    def __init__(
        self,
        template: _HistClassifier,
        opened: OpenTable,
        y: Ints,
        n_classes: int,
        sample_weight: Floats | None = None,
    ) -> None:
        self.template, self.y, self.n_classes = template, y, n_classes
        self.sample_weight = np.ones(len(y)) if sample_weight is None else sample_weight
        self.backend: Backend = template._choose_backend()
        reader = opened.reader
        self.reader: TableReader | BinnedReader = reader
        self.table: Table = opened.table
        self.newest: tuple[Any, Any] = (None, None)
        self.weighing: Any = None
        if self.backend == "sklearn":
            dense = self.table.toarray() if sp.issparse(self.table) else self.table
            self.reader = BinnedReader(
                reader, cuts(dense, min(template.max_bins, SKLEARN_BINS), opened.hashes)
            )
            self.table = self.reader.bins(dense)
        else:
            kinds = reader.feature_types
            if template._vector_leaves(n_classes):  # XGBoost cannot split sets of categories there
                kinds = ["q"] * len(kinds)
            self.threads = count_threads(template.n_jobs, self.table.shape)
            reference = cut_table(opened, template.max_bins, kinds)
            # The least number of bins that keeps all cuts: with 256 a bin takes one byte, with one more two.
            self.n_bins = len(reference)
            binned = partial(
                xgboost.QuantileDMatrix,
                feature_types=kinds,
                max_bin=self.n_bins,
                nthread=self.threads,
                enable_categorical=True,
            )
            self.bin: Callable[[Table], Any] = partial(binned, ref=binned(reference))
            self.data = self.bin(self.table)
            self.data.set_info(label=template._targets(y, n_classes))

    def fit(self, weight: Floats, seed: int, rows: Mask | None = None) -> _HistClassifier:
        """Fit on the rows: with two classes the others stay in the binned table, with weight 0."""
        if self.backend == "sklearn":
            return next(self._by_sklearn(fit_whole, weight, seed, rows))
        *_, model = self._by_xgboost(weight, rows, whole=True)
        return model

    def stages(self, weight: Floats, seed: int, rows: Mask | None = None) -> Iterator[_HistClassifier]:
        """Yield the classifier tree by tree (with scikit-learn's trees as `grow` does)."""
        if self.backend == "sklearn":
            return self._by_sklearn(grow, weight, seed, rows)
        return self._by_xgboost(weight, rows, whole=False)

    def _new_model(self) -> _HistClassifier:
        model: _HistClassifier = clone(self.template)
        model.classes_ = np.arange(self.n_classes)
        model.n_features_in_ = self.table.shape[1]
        model.table_, model.backend_ = self.reader, self.backend
        return model

    def _by_sklearn(self, by: Any, weight: Floats, seed: int, rows: Mask | None) -> Iterator[_HistClassifier]:
        model = self._new_model()
        chosen = slice(None) if rows is None else rows
        inner = model._sklearn_estimator()
        set_seeds(inner, seed)
        codes = self.table[chosen]
        # scikit-learn cannot bin a column that has only missing values; a constant is equivalent.
        codes = np.where(np.isnan(codes).all(axis=0), np.float32(0), codes)
        threads = count_threads(model.n_jobs, codes.shape)
        growing = by(inner, codes, self.y[chosen], {"sample_weight": weight[chosen]})
        while True:
            with sklearn_threads(threads):  # ends before the generator yields to other work
                fitted = next(growing, None)
            if fitted is None:
                return
            model.model_ = fitted
            yield model

    def _by_xgboost(self, weight: Floats, rows: Mask | None, *, whole: bool) -> Iterator[_HistClassifier]:
        model = self._new_model()
        used = weight if rows is None else np.where(rows, weight, 0.0)
        params, scale = self._training_params(used)
        data, y, scaled_weight, own = self.data, self.y, used * scale, self.sample_weight
        per_class = model._tree_per_class(self.n_classes)
        if whole and rows is not None and per_class:
            # To bin them anew costs less than to take the others through a tree for every class. But a model
            # that grows is asked about the others at every stage: their answers are kept beside the bins.
            data, y, scaled_weight, own = self.bin(self.table[rows]), y[rows], scaled_weight[rows], own[rows]
        model._booster = booster = xgboost.Booster(params, [data])
        try:
            for i in range(model._n_iterations()):
                if per_class:
                    _boost_per_class(booster, data, i, y, scaled_weight, own)
                else:
                    if self.weighing is not scaled_weight:  # another fit may have grown since the last tree
                        data.set_weight(scaled_weight.astype(np.float32))
                        self.weighing = scaled_weight
                    booster.update(data, i)
                self.newest = (model, booster) if data is self.data else (None, None)
                yield model
        finally:
            # The trained booster holds on to the binned table, so the model gets a copy that does not.
            model.model_ = bytes(booster.save_raw("ubj"))
            del model._booster

    def _training_params(self, weight: Floats) -> tuple[dict[str, Any], float]:
        """Return XGBoost's parameters for a fit, and the power of 2 that its weights are multiplied by."""
        template, exponent = self.template, np.frexp(weight.sum())[1]
        usual = EXPONENTS[0] <= exponent <= EXPONENTS[1]
        scale = 1.0 if usual else float(np.ldexp(1.0, np.frexp(len(weight))[1] - exponent))
        params = {
            "tree_method": "hist", "max_bin": self.n_bins, "max_depth": template.max_depth,
            "min_child_weight": template.min_child_weight, "nthread": self.threads, "verbosity": 0,
            **template._booster_params(self.y, weight, self.n_classes),
        }  # fmt: skip
        for penalty in ("min_child_weight", "reg_lambda"):
            scaled = min(params[penalty] * scale, HEAVIEST)
            params[penalty] = 0.0 if scaled * HEAVIEST < 1.0 else scaled  # no denormal numbers
        return params, scale

    def predict(self, model: _HistClassifier, rows: Mask | None = None) -> Ints:
        """Predict the opened rows; for the newest fit XGBoost has cached the answers for the binned table."""
        newest, booster = self.newest
        if model is not newest:
            return model.predict_table(self.table if rows is None else self.table[rows])
        index = model._index(booster.predict(self.data, output_margin=True))
        return index if rows is None else index[rows]


class BoostSession(HistSession):
    """Fits of boosted trees, whose probabilities models of several parts and rounds can average."""

    @property
    def accumulates(self) -> bool:
        """Whether rounds should answer together, see `protocols.Accumulating`.

        Of two classes later rounds brought nothing, and the mean of the folds' models of one round errs less
        than one model of all rows: see benchmarks/README.md.
        """
        return self.n_classes > 2

    def mean(self, models: list[_HistClassifier], weight: Floats, rows: list[Mask]) -> Ranked:
        """Return the mean of models, see `protocols.Averaging`; of single trees it were a forest."""
        sums = [np.bincount(self.y[r], weights=weight[r], minlength=self.n_classes) for r in rows]
        return Ranked(ClassProbabilities(models, shares(np.array(sums) > 0.0)))

    def probabilities(self, model: _HistClassifier, rows: Mask) -> NDArray[np.float32]:
        """Return class probabilities of some of the opened rows, shape (rows.sum(), K)."""
        return model.predict_proba_table(self.table[rows]).astype(np.float32)


class _HistClassifier(ClassifierMixin, BaseEstimator):
    """What the two binned learners share: data handling, backends, prediction."""

    max_depth: int | None
    max_bins: int
    min_child_weight: float
    backend: str
    n_jobs: int | None
    random_state: Any

    _session: ClassVar[type[HistSession]] = HistSession

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "max_depth": [Interval(Integral, 1, None, closed="left")],
        "max_bins": [Interval(Integral, 2, 65_536, closed="both")],
        "min_child_weight": [Interval(Real, 0, None, closed="left")],
        "backend": [StrOptions({"auto", "xgboost", "sklearn"})],
        "n_jobs": N_JOBS,
        "random_state": ["random_state"],
    }

    @abstractmethod
    def _targets(self, y: Ints, n_classes: int) -> NDArray[Any]:
        """Return labels in the form the objective wants."""

    @abstractmethod
    def _booster_params(self, y: Ints, weight: Floats, n_classes: int) -> dict[str, Any]:
        """XGBoost parameters beyond the shared ones."""

    @abstractmethod
    def _vector_leaves(self, n_classes: int) -> bool:
        """Whether a leaf holds a value for every class."""

    def _tree_per_class(self, n_classes: int) -> bool:
        """Whether every iteration of a softmax grows a tree per class."""
        return False

    @abstractmethod
    def _n_iterations(self) -> int:
        """Return the number of boosting iterations."""

    @abstractmethod
    def _sklearn_estimator(self) -> Any:
        """Return the scikit-learn estimator that is used without XGBoost."""

    @abstractmethod
    def _probabilities(self, margin: NDArray[np.float32]) -> NDArray[np.float64]:
        """Class probabilities from XGBoost's output, (n,) or (n, K)."""

    @abstractmethod
    def _index(self, margin: NDArray[np.float32]) -> Ints:
        """Class numbers from XGBoost's output, (n,) or (n, K); a tie goes to the first class."""

    def _choose_backend(self) -> Backend:
        if self.backend == "sklearn":
            return "sklearn"
        if xgboost is not None:
            return "xgboost"
        if self.backend == "xgboost":
            raise ImportError("backend='xgboost' needs XGBoost: pip install 'tailboost[xgboost]'")
        warnings.warn(
            f"XGBoost is not installed: {type(self).__name__} uses scikit-learn's "
            f"{type(self._sklearn_estimator()).__name__}, which is somewhat slower and may count rows in "
            "its stopping rules, so that a weight of 2 is not exactly the row twice. "
            "pip install 'tailboost[xgboost]', or say backend='sklearn' to silence this",
            UserWarning,
            stacklevel=3,
        )
        return "sklearn"

    def open_session(
        self, X: Any, y: Ints, n_classes: int, sample_weight: Floats | None = None
    ) -> HistSession:
        """Open the data for any number of fits; labels are class numbers 0 … K − 1.

        By ``sample_weight`` rounding treats a row of weight 2 as the row twice.
        """
        return self.open_table(OpenTable.of(X), y, n_classes, sample_weight)

    def open_table(
        self, opened: OpenTable, y: Ints, n_classes: int, sample_weight: Floats | None = None
    ) -> HistSession:
        """Do the same for rows that other learners read too."""
        self._validate_params()
        return self._session(self, opened, y, n_classes, sample_weight)

    def _checked(self, X: Any, y: Any = None) -> Any:
        if hasattr(X, "iloc"):  # a data frame keeps its categories; TableReader checks its columns
            refuse_frame(X)
            return validate_data(
                self, X, "no_validation" if y is None else y, reset=y is not None, skip_check_array=True
            )
        X = summed(X)
        options: dict[str, Any] = {
            "accept_sparse": "csr", "dtype": np.float32, "ensure_all_finite": "allow-nan",
        }  # fmt: skip
        if y is None:
            return validate_data(self, X, reset=False, **options)
        return validate_data(self, X, y, **options)

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Fit to weighted rows.

        Parameters
        ----------
        X : array-like, sparse matrix or data frame of shape (n, d)
            NaN is a missing value; text and category columns of a data frame are categories. Entries absent
            from a sparse matrix are missing values, as XGBoost takes them.
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
        kept = X.iloc[used] if hasattr(X, "iloc") else X[used]
        session = self.open_session(kept, index[used], len(classes), weight[used])
        given = self.random_state
        seed = 0 if given is None else int(check_random_state(given).randint(2**31 - 1))
        fitted = session.fit(weight[used], seed)
        for name in ("table_", "backend_", "model_"):
            setattr(self, name, getattr(fitted, name))
        if self.backend_ == "xgboost":
            self._booster = _load(self.model_)
        self.classes_ = classes
        return self

    # The booster is kept as bytes: they can be pickled, copied and stored in safe model files unchanged.
    def __getstate__(self) -> dict[str, Any]:
        state: dict[str, Any] = super().__getstate__()
        return {k: v for k, v in state.items() if k != "_booster"}

    def __sklearn_is_fitted__(self) -> bool:
        # Without this scikit-learn goes through all attributes, while another thread may add the booster.
        return hasattr(self, "classes_")

    @property
    def booster_(self) -> Any:
        """The XGBoost model; do not change it, predictions of other threads may be using it."""
        booster = self.__dict__.get("_booster")
        if booster is None:
            # Threads that come here at the same time each load one; all of them use the first that is kept.
            booster = self.__dict__.setdefault("_booster", _load(self.model_))
        return booster

    @property
    def feature_importances_(self) -> Floats:
        """Share of each column in the gain of all splits, shape (d,).

        Raises
        ------
        AttributeError
            If the backend is scikit-learn's and its model has none.
        """
        check_is_fitted(self, "model_")
        if self.backend_ == "sklearn":
            own: Floats = self.model_.feature_importances_
            return own
        total = np.zeros(self.booster_.num_features())
        for name, gain in self.booster_.get_score(importance_type="total_gain").items():
            total[int(name.removeprefix("f"))] = np.sum(gain)
        return total / total.sum() if total.any() else total

    def _margin(self, table: Table) -> NDArray[np.float32]:
        booster = self.booster_

        def predict(block: Table) -> NDArray[np.float32]:
            return np.asarray(booster.inplace_predict(block, predict_type="margin", missing=np.nan))

        return predict_in_blocks(predict, table, count_threads(self.n_jobs, table.shape))

    def _ask_sklearn(self, method: str, table: Table) -> NDArray[Any]:
        with sklearn_threads(count_threads(self.n_jobs, table.shape)):
            return np.asarray(getattr(self.model_, method)(table))

    def predict_table(self, table: Table) -> Ints:
        """Return class numbers for a table prepared by ``table_.transform``, shape (n,)."""
        if self.backend_ == "sklearn":
            return self._ask_sklearn("predict", table).astype(np.intp)
        return self._index(self._margin(table))

    def predict_proba_table(self, table: Table) -> NDArray[np.float64]:
        """Return class probabilities for a table prepared by ``table_.transform``, shape (n, K)."""
        if self.backend_ == "sklearn":
            # It knows the classes of its own rows, which may be only some; of one it gives two columns.
            known = self.model_.classes_.astype(np.intp)
            P = np.zeros((table.shape[0], len(self.classes_)))
            P[:, known] = self._ask_sklearn("predict_proba", table) if len(known) > 1 else 1.0
            return P
        return self._probabilities(self._margin(table))

    def predict(self, X: Any) -> NDArray[Any]:
        """Predict labels, shape (n,)."""
        check_is_fitted(self)
        return self.classes_[self.predict_table(self.table_.transform(self._checked(X)))]

    def predict_proba(self, X: Any) -> NDArray[np.float64]:
        """Predict class probabilities, shape (n, K), columns in the order of ``classes_``."""
        check_is_fitted(self)
        return self.predict_proba_table(self.table_.transform(self._checked(X)))

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.input_tags.allow_nan = True
        return tags


class HistTreeClassifier(_HistClassifier):
    """One binned decision tree; with several classes each leaf holds the whole distribution.

    The splits are those of a Gini tree over the binned values; a leaf answers the weighted majority.

    Parameters
    ----------
    max_depth : int, default=5
        Largest depth, at least 1.
    max_bins : int, default=256
        Largest number of bins per column.
    max_leaf_nodes : int, optional
        Largest number of leaves, at least 2: the split that gains most comes first. None sets no limit.
    min_child_weight : float, default=0.0
        Least sum of weights in a child.
    backend : {"auto", "xgboost", "sklearn"}, default="auto"
        ``"auto"`` takes XGBoost where it is installed, else scikit-learn's tree, with a warning.
    n_jobs : int, optional
        The most threads of a fit or prediction, at least 1; None and −1 are all cores, −2 all but one, and so
        on. Small tables (fewer than 5 million entries) use one: more would slow them down; so do fits in
        threads of joblib, unless a positive number is given.
    random_state : int, RandomState or None
        For scikit-learn's tree, which orders equal splits at random; XGBoost's is deterministic.

    Attributes
    ----------
    classes_ : ndarray of shape (K,)
        The labels.
    backend_ : str
        The backend that was used.
    n_features_in_ : int
        Columns of X in ``fit``.

    See Also
    --------
    HistBoostClassifier : A boosted ensemble of such trees.

    Examples
    --------
    >>> from sklearn.datasets import load_wine
    >>> from tailboost.learners import HistTreeClassifier
    >>> X, y = load_wine(return_X_y=True)
    >>> HistTreeClassifier(max_depth=2, backend="sklearn").fit(X, y).get_n_leaves()
    4
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **_HistClassifier._parameter_constraints,
        "max_leaf_nodes": [Interval(Integral, 2, None, closed="left"), None],
    }

    def __init__(
        self, *, max_depth: int = 5, max_bins: int = 256, max_leaf_nodes: int | None = None,
        min_child_weight: float = 0.0, backend: str = "auto", n_jobs: int | None = None,
        random_state: Any = None,
    ) -> None:  # fmt: skip
        self.max_depth = max_depth
        self.max_bins = max_bins
        self.max_leaf_nodes = max_leaf_nodes
        self.min_child_weight = min_child_weight
        self.backend = backend
        self.n_jobs = n_jobs
        self.random_state = random_state

    def get_n_leaves(self) -> int:
        """Return the number of leaves, under the name scikit-learn's trees have for it."""
        check_is_fitted(self, "model_")
        if self.backend_ == "sklearn":
            return int(self.model_.get_n_leaves())
        return sum(tree.count("leaf=") for tree in self.booster_.get_dump())

    def _targets(self, y: Ints, n_classes: int) -> NDArray[Any]:
        return y.astype(np.float32) if n_classes == 2 else np.eye(n_classes, dtype=np.float32)[y]

    def _booster_params(self, y: Ints, weight: Floats, n_classes: int) -> dict[str, Any]:
        # Squared error on indicators: the gain is the fall in Gini impurity, a leaf is the class shares.
        strategy = "multi_output_tree" if self._vector_leaves(n_classes) else "one_output_per_tree"
        leaves = (
            {}
            if self.max_leaf_nodes is None
            else {"max_leaves": self.max_leaf_nodes, "grow_policy": "lossguide"}
        )
        return leaves | {
            "objective": "reg:squarederror", "base_score": 0.0, "eta": 1.0, "reg_lambda": 0.0,
            "multi_strategy": strategy,
        }  # fmt: skip

    def _vector_leaves(self, n_classes: int) -> bool:
        return n_classes > 2

    def _n_iterations(self) -> int:
        return 1

    def _sklearn_estimator(self) -> Any:
        return DecisionTreeClassifier(
            max_depth=self.max_depth, max_leaf_nodes=self.max_leaf_nodes, random_state=self.random_state
        )

    def _probabilities(self, margin: NDArray[np.float32]) -> NDArray[np.float64]:
        share = margin.astype(np.float64)
        if share.ndim == 1:
            share = np.column_stack([1.0 - share, share])
        share = share.clip(0.0, 1.0)
        return share / share.sum(axis=1, keepdims=True)

    def _index(self, margin: NDArray[np.float32]) -> Ints:
        return (margin > 0.5).astype(np.intp) if margin.ndim == 1 else margin.argmax(axis=1)


class HistBoostClassifier(_HistClassifier):
    """A small gradient-boosted ensemble of binned trees on the same quantised data.

    Parameters
    ----------
    n_estimators : int, default=50
        Boosting iterations; with K > 2 classes each grows a tree per class, or one with vector leaves.
    max_depth : int, default=5
        Largest depth of a tree.
    learning_rate : float, default=0.3
        Shrinkage in (0, 1].
    max_bins : int, default=256
        Largest number of bins per column.
    min_child_weight : float, default=1.0
        Least sum of Hessians in a child.
    l2_regularization : float, default=1.0
        L2 penalty on leaf values.
    vector_leaves : bool, default=False
        With K > 2 classes, whether an iteration grows one tree whose leaves hold a score for every class, or
        K trees. XGBoost calls vector leaves experimental and splits categories as ordered codes in them. In
        our trials (`results/trials.md`) a tree per class had the lower error on letter (.074 against .088)
        and wine (.376 against .400), the higher on yeast (.427 against .412), the same on page blocks, in at
        most the same time; on small tables a fit with vector leaves took five times as long. Predictions
        with vector leaves are faster where there are many classes.
    backend : {"auto", "xgboost", "sklearn"}, default="auto"
        ``"auto"`` takes XGBoost where it is installed, else scikit-learn's, with a warning.
    n_jobs : int, optional
        The most threads of a fit or prediction, at least 1; None and −1 are all cores, −2 all but one, and so
        on. Small tables (fewer than 5 million entries) use one: more would slow them down; so do fits in
        threads of joblib, unless a positive number is given.
    random_state : int, RandomState or None
        Not used, because nothing is drawn; there for the interface.

    Attributes
    ----------
    classes_ : ndarray of shape (K,)
        The labels.
    backend_ : str
        The backend that was used.
    n_features_in_ : int
        Columns of X in ``fit``.

    See Also
    --------
    HistTreeClassifier : One tree.

    Examples
    --------
    >>> from sklearn.datasets import load_wine
    >>> from tailboost.learners import HistBoostClassifier
    >>> X, y = load_wine(return_X_y=True)
    >>> clf = HistBoostClassifier(n_estimators=10).fit(X, y)
    >>> float(clf.score(X, y)) > 0.95
    True
    """

    _session: ClassVar[type[HistSession]] = BoostSession

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **_HistClassifier._parameter_constraints,
        "n_estimators": [Interval(Integral, 1, None, closed="left")],
        "learning_rate": [Interval(Real, 0, 1, closed="right")],
        "l2_regularization": [Interval(Real, 0, None, closed="left")],
        "vector_leaves": ["boolean"],
    }

    def __init__(
        self, *, n_estimators: int = 50, max_depth: int = 5, learning_rate: float = 0.3, max_bins: int = 256,
        min_child_weight: float = 1.0, l2_regularization: float = 1.0, vector_leaves: bool = False,
        backend: str = "auto",
        n_jobs: int | None = None, random_state: Any = None,
    ) -> None:  # fmt: skip
        self.n_estimators = n_estimators
        self.max_depth = max_depth
        self.learning_rate = learning_rate
        self.max_bins = max_bins
        self.min_child_weight = min_child_weight
        self.l2_regularization = l2_regularization
        self.vector_leaves = vector_leaves
        self.backend = backend
        self.n_jobs = n_jobs
        self.random_state = random_state

    def _targets(self, y: Ints, n_classes: int) -> NDArray[Any]:
        return y.astype(np.float32)

    def _booster_params(self, y: Ints, weight: Floats, n_classes: int) -> dict[str, Any]:
        shared = {"eta": self.learning_rate, "reg_lambda": self.l2_regularization}
        if n_classes > 2:
            return shared | {
                "objective": "multi:softprob", "num_class": n_classes, "base_score": 0.5,
                "multi_strategy": "multi_output_tree" if self.vector_leaves else "one_output_per_tree",
            }  # fmt: skip
        # Start from the weighted share of class 1, in float32 so that it survives the model file.
        prior = float(np.float32(weight[y == 1].sum() / weight.sum()))
        return shared | {"objective": "binary:logistic", "base_score": min(max(prior, 1e-6), 1 - 1e-6)}

    def _vector_leaves(self, n_classes: int) -> bool:
        return n_classes > 2 and self.vector_leaves

    def _tree_per_class(self, n_classes: int) -> bool:
        return n_classes > 2 and not self.vector_leaves

    def _n_iterations(self) -> int:
        return self.n_estimators

    def _sklearn_estimator(self) -> Any:
        return HistGradientBoostingClassifier(
            max_iter=self.n_estimators, max_depth=self.max_depth, learning_rate=self.learning_rate,
            max_bins=SKLEARN_BINS, l2_regularization=self.l2_regularization, early_stopping=False,
            max_leaf_nodes=None, random_state=self.random_state,
        )  # fmt: skip

    def _probabilities(self, margin: NDArray[np.float32]) -> NDArray[np.float64]:
        score = margin.astype(np.float64)
        if score.ndim == 1:
            score = np.column_stack([-score / 2, score / 2])
        odds = np.exp(score - score.max(axis=1, keepdims=True))
        return odds / odds.sum(axis=1, keepdims=True)

    def _index(self, margin: NDArray[np.float32]) -> Ints:
        return (margin > 0.0).astype(np.intp) if margin.ndim == 1 else margin.argmax(axis=1)
