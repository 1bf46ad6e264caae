"""Binned trees on tables that are quantised once and weighted anew in every round."""

from __future__ import annotations

import warnings
from abc import abstractmethod
from collections.abc import Callable, Generator
from functools import partial
from importlib import import_module
from itertools import islice
from numbers import Integral, Real
from typing import Any, ClassVar, Literal, NamedTuple, Self

import numpy as np
import scipy.sparse as sp
from scipy.special import softmax
from sklearn.base import BaseEstimator, ClassifierMixin, _fit_context, clone
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.tree import DecisionTreeClassifier
from sklearn.utils import Tags, check_random_state
from sklearn.utils._param_validation import Interval
from sklearn.utils.validation import check_is_fitted, validate_data

from tailboost.core.array_types import (
    Array,
    Column,
    Floats,
    Floats32,
    Ints,
    Labels,
    Mask,
    Seed,
    Table,
)
from tailboost.core.checks import check_labelled_rows, check_table, summed
from tailboost.core.constraints import Constraints, OneOf
from tailboost.core.long_work import (
    N_JOBS,
    count_threads,
    fitting_apart,
    predict_in_blocks,
    sklearn_threads,
)
from tailboost.learners.foreign import (
    fit_whole,
    folds_left_out,
    grow,
    rows_of_mask,
    set_seeds,
)
from tailboost.learners.table import (
    SMALLEST_PROBABILITY,
    BinnedReader,
    ClassProbabilities,
    OpenTable,
    Ranked,
    TableReader,
    as_dense,
    bin_cuts,
)
from tailboost.rows.fingerprints import stratified_places

# XGBoost computes in float32 and ignores gains below 1e-6. If the sum of the weights lies outside this range,
# weights and penalties are multiplied by one factor, which does not change the trees.
WEIGHT_RANGE = (2.0**-4, 2.0**40)
HEAVIEST = 1e30  # largest penalty after scaling
# Numbers of this size bound the bins of columns with missing values. XGBoost doubles them without overflow.
BIN_BOUND = np.float32(1e38)
SKLEARN_BINS = 255  # most bins of a column in scikit-learn's boosting

# n_estimators="auto": trees grow in steps of STEP, until the last WAIT of the trees, and at least LEAST_WAIT,
# have not reduced the loss of held-out rows by LOSS_GAIN of it, or there are MOST_TREES. FEW_TREES if no row
# can be held out.
STEP = 10
WAIT = 0.2
LEAST_WAIT = 30
LOSS_GAIN = 1e-3
# Beyond MANY_ROWS distinct rows the losses of held-out rows vary less. LOSS_GAIN then falls in proportion to
# the rows, and LONG_WAIT replaces LEAST_WAIT: see `benchmarks/capacity.py`.
MANY_ROWS = 50_000
LONG_WAIT = 40
MOST_TREES = 300
# With more than two classes, a cross-fit grows at most MOST_OF_FOLDS trees for each class in a fold. Then one
# model of all rows, with MORE_TREES times as many, replaces the mean of the models of the folds. It answers
# in less than half the time: `python benchmarks/prediction.py classes`.
MOST_OF_FOLDS = 160
MORE_TREES = 1.5
FEW_TREES = 50
OWN_PARTS = 5  # one of them is held out if there are no folds
SCALING_STEPS = 3  # Newton steps to the best factor of the scores

Backend = Literal["xgboost", "sklearn"]


def cut_table(opened: OpenTable, max_bins: int, feature_types: list[str]) -> Floats32:
    """Return a reference table for XGBoost, which uses its values as thresholds of the bins.

    The shape is (largest number of bins of a column, d).

    Parameters
    ----------
    opened : OpenTable
        The training table, with the hashes of its rows.
    max_bins : int
        The most bins of a column.
    feature_types : list of str
        The kind of each column: "c" for categories.
    """
    table = opened.table
    thresholds = bin_cuts(opened.table, max_bins, opened.hashes)
    has_missing = _has_missing(table)
    for j, column_cuts in enumerate(thresholds):
        if feature_types[j] == "c":  # categories are their own bins
            n_categories = int(np.nanmax(table[:, j], initial=0)) + 1
            thresholds[j] = np.arange(n_categories, dtype=np.float32)
        elif has_missing[j]:
            # A split of all numbers from the missing ones has a threshold above all numbers.
            fewer_cuts = column_cuts[: max(max_bins - 2, 1)]
            thresholds[j] = np.r_[-BIN_BOUND, fewer_cuts, BIN_BOUND]
        elif len(column_cuts):
            opens_bin_0 = np.nextafter(column_cuts[0], np.float32(-np.inf))
            thresholds[j] = np.r_[opens_bin_0, column_cuts]
        else:  # a constant
            thresholds[j] = np.zeros(1, dtype=np.float32)
    height = max(2, *map(len, thresholds))  # XGBoost needs two bins
    reference = np.full((height, len(thresholds)), np.nan, dtype=np.float32)
    for j, values in enumerate(thresholds):
        reference[: len(values), j] = values
    return reference


def _has_missing(table: Table) -> Mask:
    """Return which columns have missing values, shape (d,); absent entries are missing."""
    if sp.issparse(table):
        present = np.bincount(table.indices[~np.isnan(table.data)], minlength=table.shape[1])
        return present < table.shape[0]
    return np.array([bool(np.isnan(column).any()) for column in table.T])


def xgboost() -> Any:
    """Return XGBoost, imported at its first use; None without this optional extra."""
    try:
        return import_module("xgboost")
    except ImportError:
        return None


def _load(content: bytes) -> Any:
    """Return a booster that threads may share, because predictions do not change it.

    Loading, setting parameters and the first call, which configures the booster, are not thread safe. All
    three happen here. The booster uses one thread; `predict_in_blocks` adds threads for large tables.
    """
    booster = xgboost().Booster({"nthread": 1})
    booster.load_model(bytearray(content))
    booster.num_boosted_rounds()  # configures the booster
    return booster


class HistSession:
    """All fits of one learner on one table, which is binned once for all rounds and folds."""

    # Fits set their weights in the same binned table, so they cannot run in parallel.
    concurrent = False

    def __init__(
        self,
        template: _HistClassifier,
        opened: OpenTable,
        y: Ints,
        n_classes: int,
    ) -> None:
        self.template = template
        self.y = y
        self.n_classes = n_classes
        self.opened = opened
        self.backend: Backend = template._choose_backend()
        self.reader: TableReader | BinnedReader = opened.reader
        self.table: Table = opened.table
        if self.backend == "xgboost":
            self._bin_for_xgboost()
        else:
            table = as_dense(self.table)
            n_bins = min(template.max_bins, SKLEARN_BINS)
            self.reader = BinnedReader(opened.reader, bin_cuts(table, n_bins, opened.hashes))
            self.table = self.reader.bins(table)

    def _bin_for_xgboost(self) -> None:
        """Bin the table in the form of XGBoost, ``data``, by the thresholds of `cut_table`."""
        template = self.template
        kinds = self.opened.reader.feature_types
        # Trees with a value for each class in a leaf cannot split sets of categories.
        self.vector_leaves = template._vector_leaves and self.n_classes > 2
        if self.vector_leaves:
            kinds = ["q"] * len(kinds)
        self.threads = count_threads(template.n_jobs, self.table.shape)
        reference = cut_table(self.opened, template.max_bins, kinds)
        # The smallest number of bins that keeps all thresholds. XGBoost stores bin numbers in one byte up
        # to 256 bins, in two bytes beyond.
        self.n_bins = len(reference)
        shared: dict[str, Any] = {"nthread": self.threads, "enable_categorical": True}
        if "c" in kinds:  # XGBoost reads the kinds of all columns with every tree
            shared["feature_types"] = kinds
        binned = partial(xgboost().QuantileDMatrix, max_bin=self.n_bins, **shared)
        # All tables get the bins of the reference.
        self.bin: Callable[[Table], Any] = partial(binned, ref=binned(reference))
        # A table of values. Of sparse ones it is predicted 20 times as fast as a binned table.
        self.values: Callable[[Table], Any] = partial(xgboost().DMatrix, **shared)
        self.data = self.bin(self.table)
        self.data.set_info(label=self._targets(self.y))
        self.table_weight: Any = None  # weights that ``data`` contains now

    def fit(self, weight: Floats, seed: int, rows: Mask | None = None) -> _HistClassifier:
        """Return a classifier fitted on these rows (None: all); other rows get weight 0."""
        if self.backend == "sklearn":
            return next(self._by_sklearn(fit_whole, weight, seed, rows))
        *_, model = self._by_xgboost(weight, rows, whole=True)
        return model

    def stages(
        self, weight: Floats, seed: int, rows: Mask | None = None
    ) -> Generator[_HistClassifier, None, None]:
        """Yield the classifier after each tree (scikit-learn's trees: see `grow`)."""
        if self.backend == "sklearn":
            return self._by_sklearn(grow, weight, seed, rows)
        return self._by_xgboost(weight, rows, whole=False)

    def _targets(self, y: Ints) -> Floats32:
        """Return labels for XGBoost: class numbers, or class indicators for a tree with vector leaves."""
        if self.vector_leaves:
            return np.eye(self.n_classes, dtype=np.float32)[y]  # shape (n, K)
        return y.astype(np.float32)

    def _new_model(self) -> _HistClassifier:
        """Return a clone of the learner with the classes and the reader of the session, not yet fitted."""
        model = clone(self.template)
        model.classes_ = np.arange(self.n_classes)
        model.n_features_in_ = self.opened.reader.n_features
        model.table_ = self.reader
        model.backend_ = self.backend
        return model

    def _by_sklearn(
        self, fit_stages: Any, weight: Floats, seed: int, rows: Mask | None
    ) -> Generator[_HistClassifier, None, None]:
        """Yield the classifier after each stage of ``fit_stages``: scikit-learn's trees, fitted or grown."""
        model = self._new_model()
        estimator = model._sklearn_estimator()
        set_seeds(estimator, seed)
        bins = rows_of_mask(self.table, rows)
        # scikit-learn cannot bin a column that has only missing values; a constant is equivalent.
        bins = np.where(np.isnan(bins).all(axis=0), np.float32(0), bins)
        threads = count_threads(model.n_jobs, bins.shape)
        weight_argument = {"sample_weight": rows_of_mask(weight, rows)}
        stages = fit_stages(estimator, bins, rows_of_mask(self.y, rows), weight_argument)
        while True:
            with sklearn_threads(threads):  # ends before the generator yields to other work
                fitted = next(stages, None)
            if fitted is None:
                return
            model.model_ = fitted
            yield model

    def _by_xgboost(
        self, weight: Floats, rows: Mask | None, *, whole: bool
    ) -> Generator[_HistClassifier, None, None]:
        """Yield the classifier after each tree of XGBoost; the generator's end completes its model.

        With ``whole`` the trees are fitted in one go, so predictions of other rows are not needed.
        """
        model = self._new_model()
        row_weight = weight
        if rows is not None:
            row_weight = np.where(rows, weight, 0.0)
        params, scale = self._training_params(row_weight)
        data = self.data
        # A new array, by which `table_weight` recognises the fit.
        row_weight = row_weight * scale
        if whole and rows is not None and not self.vector_leaves:
            # A new binned table of the used rows is faster here: XGBoost would otherwise count and predict
            # the rows of weight 0 with every tree. Other fits in stages need predictions of all rows.
            data = self.bin(self.table[rows])
            row_weight = row_weight[rows]
            data.set_info(label=self._targets(self.y[rows]))
        booster = xgboost().Booster(params, [data])
        model._booster = booster
        try:
            for round_number in range(getattr(model, "n_estimators", 1)):
                # Another fit may have set its weights since the last tree.
                if self.table_weight is not row_weight:
                    data.set_weight(row_weight.astype(np.float32))
                    self.table_weight = row_weight
                booster.update(data, round_number)
                yield model
        finally:
            # The trained booster references the binned table; the model keeps a copy without the reference.
            model.model_ = bytes(booster.save_raw("ubj"))
            del model._booster

    def _training_params(self, weight: Floats) -> tuple[dict[str, Any], float]:
        """Return XGBoost's parameters for a fit, and the factor of its weights.

        The factor brings their sum into the range in which XGBoost computes well.
        """
        template = self.template
        total = float(weight.sum())
        scale = 1.0
        if not WEIGHT_RANGE[0] <= total <= WEIGHT_RANGE[1]:
            scale = len(weight) / total
        params = {
            "tree_method": "hist", "max_bin": self.n_bins, "max_depth": template.max_depth,
            "min_child_weight": template.min_child_weight, "nthread": self.threads, "verbosity": 0,
            **template._booster_params(self.y, weight, self.n_classes),
        }  # fmt: skip
        if self.vector_leaves:
            params["multi_strategy"] = "multi_output_tree"
        for penalty in ("min_child_weight", "reg_lambda"):
            params[penalty] = min(params[penalty] * scale, HEAVIEST)
            if params[penalty] < 1.0 / HEAVIEST:  # no denormal numbers
                params[penalty] = 0.0
        return params, scale

    def predict(self, model: _HistClassifier, rows: Mask | None = None) -> Ints:
        """Return class numbers of the session's rows."""
        if rows is None:
            return model.predict_table(self.table)
        return model.predict_table(self.table[rows])


class GrowthLimits(NamedTuple):
    """When trees stop to grow."""

    most: int  # largest number of trees
    gain: float  # least relative decrease of the loss that counts
    wait: int  # fewest trees to wait for it


class GrowingFold(NamedTuple):
    """A model that grows without the rows of one fold."""

    held_out_rows: Mask
    fitted_rows: Mask
    stages: Any  # generator of the same model after each stage
    table: Any  # of the rows held out
    step: int  # stages between two losses

    def next_model(self) -> Any:
        """Return the model after the next stages."""
        *_, model = islice(self.stages, self.step)
        return model


class BoostSession(HistSession):
    """Fits of boosted trees with class probabilities for averages over folds and rounds."""

    fold: Ints | None = None  # the fold of each row; None without folds
    n_trees = MOST_TREES  # of the next fit, for "auto"
    grown_key: Any = None  # seed and weights of the models in ``grown``, each without one fold

    @property
    def accumulates(self) -> bool:
        """Whether the models of several rounds predict together, see `protocols.Accumulating`.

        With two classes, later rounds brought no gain. The mean of the folds' models of one round has a
        smaller error than one model of all rows: see benchmarks/README.md.
        """
        return self.n_classes > 2

    @property
    def refits(self) -> bool:
        """Whether one model of all rows answers, see `protocols.AveragingLearner`."""
        has_folds = self.fold is not None and int(self.fold.max()) > 0
        return self.n_classes > 2 and has_folds and self.template.n_estimators == "auto"

    def leave_out(self, fold: Ints) -> None:
        """Set the folds, see `protocols.Partitioned`."""
        self.fold = fold
        self.grown_key = None

    def fit(self, weight: Floats, seed: int, rows: Mask | None = None) -> _HistClassifier:
        """Return a classifier fitted on these rows (None: all); other rows get weight 0.

        With ``n_estimators="auto"`` the models of all folds grow together until the loss of all held-out rows
        does not fall any more. Other fits get the same number of trees. Without folds a fifth of the rows is
        held out to find the number.
        """
        if self.template.n_estimators != "auto":
            return super().fit(weight, seed, rows)
        left_out = folds_left_out(self.fold, rows)
        if self.fold is not None and left_out:
            key = (seed, weight.tobytes())
            if self.grown_key != key:
                self.grown = self._grow(self.fold, weight, seed)
                self.grown_key = key
            grown = self.grown
            if rows is not None:
                return grown[left_out[0]]
        else:
            grown = self._grow(self._own_fold(weight, rows), weight, seed, rows)
        n_trees = FEW_TREES  # if no row can be held out
        if grown:
            n_trees = grown[0].n_estimators
        if rows is None and self.refits:  # one model in the place of the mean of several
            n_trees = round(MORE_TREES * n_trees)
        return self._fit_trees(n_trees, weight, seed, rows)

    def _own_fold(self, weight: Floats, rows: Mask | None) -> Ints:
        """Return 0 for a fifth of the distinct rows, stratified by class, and −1 for the others."""
        used = weight > 0.0
        if rows is not None:
            used &= rows
        place = stratified_places(self.opened.hashes[used], self.y[used], weight[used])
        is_held_out = place % OWN_PARTS == OWN_PARTS - 1
        fold = np.full(len(weight), -1)
        fold[used] = np.where(is_held_out, 0, -1)
        return fold

    def _fit_trees(
        self, n_trees: int, weight: Floats, seed: int, rows: Mask | None
    ) -> _HistClassifier:
        """Return a classifier of this number of trees, fitted on these rows (None: all)."""
        self.n_trees = n_trees
        try:
            return super().fit(weight, seed, rows)
        finally:
            self.n_trees = MOST_TREES

    def _grow(
        self, fold: Ints, weight: Floats, seed: int, rows: Mask | None = None
    ) -> list[_HistClassifier]:
        """Return a model without each fold; the number of trees has the least loss over all folds.

        Parameters
        ----------
        fold : ndarray of int, shape (n,)
            The fold that holds out each row; −1 for none.
        weight : ndarray of shape (n,)
            Weights of the rows.
        seed : int
            Of scikit-learn's trees.
        rows : ndarray of bool, shape (n,), optional
            The rows that may be fitted; by default all.
        """
        held_out = fold >= 0
        if not held_out.any():
            return []
        allowed = np.ones(len(fold), dtype=bool) if rows is None else rows
        folds = [
            self._growing_fold(fold == j, (fold != j) & allowed, weight, seed)
            for j in range(int(fold.max()) + 1)
        ]
        loss_weight = weight[held_out]
        if not loss_weight.any():  # the player weighs other rows alone
            loss_weight = np.ones(len(loss_weight))
        limits = self._limits_of_growth(fold)
        scores = np.zeros((len(fold), self.n_classes))
        models: list[Any] = []
        least_loss = np.inf
        best_size = 0
        scale = 1.0
        size = 0
        while size < limits.most and size - best_size < max(limits.wait, WAIT * size):
            # The step of one fold is not interrupted: each fold sets its weights in the binned table.
            models = [growing.next_model() for growing in folds]
            for growing, model in zip(folds, models, strict=True):
                scores[growing.held_out_rows] = self._scores(model, growing.table)
            size = self._n_trees(models[0])
            loss, scale = _scaled_loss(scores[held_out], self.y[held_out], loss_weight, scale)
            if loss < least_loss * (1.0 - limits.gain):
                least_loss = loss
                best_size = size
        for growing in folds:
            growing.stages.close()
        if self.backend == "sklearn":  # the stages were one growing model
            return [
                self._fit_trees(best_size, weight, seed, growing.fitted_rows)
                for growing in folds
            ]
        return [model.first(best_size) for model in models]

    def _growing_fold(
        self, held_out_rows: Mask, fitted_rows: Mask, weight: Floats, seed: int
    ) -> GrowingFold:
        """Return the stages of a model fitted to some rows, and the table of the rows held out."""
        if self.backend == "xgboost":
            stages = self._by_xgboost(weight, fitted_rows, whole=True)
            table = self.values(self.table[held_out_rows])
            return GrowingFold(held_out_rows, fitted_rows, stages, table, step=STEP)
        stages = self.stages(weight, seed, fitted_rows)  # `grow` chooses the steps
        return GrowingFold(
            held_out_rows, fitted_rows, stages, self.table[held_out_rows], step=1
        )

    def _n_trees(self, model: _HistClassifier) -> int:
        """Return the number of trees (of each class) of a growing model."""
        if self.backend == "sklearn":
            return int(model.model_.n_iter_)
        return int(model._booster.num_boosted_rounds())

    def _limits_of_growth(self, fold: Ints) -> GrowthLimits:
        """Return the limits of the growth without each fold, which depend on the number of rows."""
        most = MOST_TREES
        if fold is self.fold and self.refits:
            most = MOST_OF_FOLDS
        n_rows = len(np.unique(self.opened.hashes))
        if n_rows > MANY_ROWS:
            return GrowthLimits(most, LOSS_GAIN * MANY_ROWS / n_rows, LONG_WAIT)
        return GrowthLimits(most, LOSS_GAIN, LEAST_WAIT)

    def _scores(self, model: _HistClassifier, table: Any) -> Floats:
        """Return the scores of the rows of a table by class, shape (n, K).

        XGBoost adds only the scores of new trees to those that it keeps with the table.
        """
        if self.backend == "sklearn":
            return np.log(np.maximum(model.predict_proba_table(table), SMALLEST_PROBABILITY))
        return _scores_by_class(model._booster.predict(table, output_margin=True))

    def _new_model(self) -> _HistClassifier:
        model = super()._new_model()
        if self.template.n_estimators == "auto":
            model.n_estimators = self.n_trees
        return model

    def mean(self, models: list[_HistClassifier], weight: Floats, rows: list[Mask]) -> Ranked:
        """Return the mean of the models, see `protocols.AveragingLearner`."""
        class_weights = [
            np.bincount(self.y[mask], weights=weight[mask], minlength=self.n_classes)
            for mask in rows
        ]
        # A model counts for the classes of its rows; all models count for a class that none of them has.
        has_class = np.array(class_weights) > 0.0
        counts = has_class | ~has_class.any(axis=0)
        return Ranked(ClassProbabilities(models, counts / counts.sum(axis=0)))

    def probabilities(self, model: _HistClassifier, rows: Mask) -> Floats32:
        """Return class probabilities of these rows of the session, shape (rows.sum(), K)."""
        return model.predict_proba_table(self.table[rows]).astype(np.float32)


def _scores_by_class(margin: Floats32) -> Floats:
    """Return XGBoost's margins as scores of the classes, shape (n, K); of two classes one margin is known."""
    scores = margin.astype(np.float64)
    if scores.ndim == 1:  # log odds of class 1
        return np.column_stack([-scores / 2, scores / 2])
    return scores


def _scaled_loss(scores: Floats, y: Ints, weight: Floats, scale: float) -> tuple[float, float]:
    """Return the mean log loss of ``softmax(s · scores)`` with the best s, and s.

    The search for s starts at ``scale``. More trees make probabilities too certain before their order gets
    worse. The average of the models corrects the certainty.
    """
    centred = scores - scores[np.arange(len(y)), y][:, None]  # 0 for the class of the row
    for step in range(SCALING_STEPS + 1):
        scaled = scale * centred
        largest = scaled.max(axis=1, keepdims=True)  # subtracted: nothing overflows
        exponentials = np.exp(scaled - largest)
        total = exponentials.sum(axis=1, keepdims=True)
        if step == SCALING_STEPS:
            break
        # A Newton step: the slope and the curvature are moments of the softmax.
        P = exponentials / total
        mean = (P * centred).sum(axis=1)
        curvature = weight @ ((P * centred**2).sum(axis=1) - mean**2)
        if curvature > 0.0:
            scale = float(np.clip(scale - weight @ mean / curvature, scale / 2, 2 * scale))
    losses = (largest + np.log(total)).ravel()
    return float(weight @ losses / weight.sum()), scale


class _HistClassifier(ClassifierMixin, BaseEstimator):
    """Common part of the binned learners: tables, backends, prediction."""

    max_depth: int | None
    max_bins: int
    min_child_weight: float
    backend: str
    n_jobs: int | None
    random_state: Seed
    model_: Any  # XGBoost's model as bytes, or scikit-learn's classifier

    _session: ClassVar[type[HistSession]] = HistSession
    # With more than two classes: whether a leaf contains a value for every class.
    _vector_leaves: ClassVar[bool] = False
    # With two classes: class 1 is predicted if XGBoost's output is above.
    _threshold: ClassVar[float]

    _parameter_constraints: ClassVar[Constraints] = {
        "max_depth": [Interval(Integral, 1, None, closed="left")],
        "max_bins": [Interval(Integral, 2, 65_536, closed="both")],
        "min_child_weight": [Interval(Real, 0, None, closed="left")],
        "backend": [OneOf("auto", "xgboost", "sklearn")],
        "n_jobs": N_JOBS,
        "random_state": ["random_state"],
    }

    @abstractmethod
    def _booster_params(self, y: Ints, weight: Floats, n_classes: int) -> dict[str, Any]:
        """Return XGBoost parameters of this learner."""

    @abstractmethod
    def _sklearn_estimator(self) -> Any:
        """Return the scikit-learn estimator for ``backend="sklearn"``."""

    @abstractmethod
    def _probabilities(self, margin: Floats32) -> Floats:
        """Return class probabilities for XGBoost's output, (n,) or (n, K)."""

    def _choose_backend(self) -> Backend:
        """Return the library that grows the trees; warn if XGBoost is not there and not excluded."""
        if self.backend == "sklearn":
            return "sklearn"
        if xgboost() is not None:
            return "xgboost"
        if self.backend == "xgboost":
            raise ImportError(
                "backend='xgboost' needs XGBoost: pip install 'tailboost[xgboost]'"
            )
        warnings.warn(
            f"XGBoost is not installed: {type(self).__name__} uses scikit-learn's "
            f"{type(self._sklearn_estimator()).__name__}, which is slower and may count rows "
            "instead of weights in its stopping rules. pip install 'tailboost[xgboost]', or "
            "set backend='sklearn' to silence this warning",
            UserWarning,
            stacklevel=3,
        )
        return "sklearn"

    def open_session(
        self, X: Table, y: Ints, n_classes: int, sample_weight: Floats | None = None
    ) -> HistSession:
        """Return a session on these rows; labels are class numbers 0 … K − 1."""
        return self.open_table(OpenTable(X), y, n_classes, sample_weight)

    def open_table(
        self, opened: OpenTable, y: Ints, n_classes: int, sample_weight: Floats | None = None
    ) -> HistSession:
        """Return a session on an open table, which other learners may share."""
        self._validate_params()
        return self._session(self, opened, y, n_classes)

    def _checked(self, X: Table, y: Column = None) -> Any:
        """Return the checked table; with labels y, as in a fit, the table and the labels.

        A fit sets scikit-learn's attributes, such as ``n_features_in_``.
        """
        options = {"reset": y is not None}
        if y is not None:
            options["y"] = y
        if hasattr(X, "iloc"):  # keeps categories; TableReader checks the columns
            check_table(X)
            return validate_data(self, X, skip_check_array=True, **options)
        return validate_data(
            self,
            summed(X),
            accept_sparse="csr",
            dtype=np.float32,
            ensure_all_finite="allow-nan",
            **options,
        )

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Table, y: Column, sample_weight: Column = None) -> Self:
        """Fit the classifier to weighted rows.

        Parameters
        ----------
        X : array-like, sparse matrix or data frame of shape (n, d)
            NaN is a missing value. Text and category columns of a data frame are categories. Absent entries
            of a sparse matrix are missing values, as in XGBoost.
        y : array-like of shape (n,)
            Class labels.
        sample_weight : array-like of shape (n,), optional
            Non-negative weights; weight 2 equals the row twice.

        Returns
        -------
        self

        Raises
        ------
        ValueError
            If X, y or sample_weight is not as described, or y has fewer than two classes.
        """
        with fitting_apart(self) as fitted:
            X, classes, class_numbers, weight = check_labelled_rows(fitted, X, y, sample_weight)
            used_rows = np.flatnonzero(weight)
            if hasattr(X, "iloc"):
                rows = X.iloc[used_rows]
            else:
                rows = X[used_rows]
            session = fitted.open_session(rows, class_numbers[used_rows], len(classes))
            seed = 0  # deterministic by default
            if self.random_state is not None:
                seed = int(check_random_state(self.random_state).randint(2**31 - 1))
            # The session's classifier answers by class numbers; this one has the labels.
            by_number = session.fit(weight[used_rows], seed)
            fitted.table_ = by_number.table_
            fitted.backend_ = by_number.backend_
            fitted.model_ = by_number.model_
            fitted.classes_ = classes
            if fitted.backend_ == "xgboost":
                fitted._booster = _load(fitted.model_)
        return self

    # The booster is stored as bytes, which can be pickled, copied and written to safe model files.
    def __getstate__(self) -> dict[str, Any]:
        state = super().__getstate__()
        return {k: v for k, v in state.items() if k != "_booster"}

    def __sklearn_is_fitted__(self) -> bool:
        # scikit-learn's default iterates over all attributes, while another thread may add the booster.
        return hasattr(self, "classes_")

    @property
    def booster_(self) -> Any:
        """XGBoost model. Do not change it: predictions in other threads may use it."""
        booster = self.__dict__.get("_booster")
        if booster is None:
            # Several threads may load a booster at the same time; all of them use the first one.
            booster = self.__dict__.setdefault("_booster", _load(self.model_))
        return booster

    @property
    def feature_importances_(self) -> Floats:
        """Fraction of the total gain of all splits by column, shape (d,).

        Raises
        ------
        AttributeError
            If the scikit-learn model of the backend has no importances.
        """
        check_is_fitted(self, "model_")
        if self.backend_ == "sklearn":
            return self.model_.feature_importances_
        total = np.zeros(self.booster_.num_features())
        for name, gain in self.booster_.get_score(importance_type="total_gain").items():
            # XGBoost calls column 3 "f3". Vector leaves have a gain for each class.
            total[int(name.removeprefix("f"))] = np.sum(gain)
        if total.any():
            return total / total.sum()
        return total

    def _margin(self, table: Table) -> Floats32:
        """Return the booster's margins of the rows of a prepared table."""
        predict = partial(self.booster_.inplace_predict, predict_type="margin", missing=np.nan)
        return predict_in_blocks(predict, table, count_threads(self.n_jobs, table.shape))

    def _call_sklearn(self, method: str, table: Table) -> Array:
        """Return the result of a method of the scikit-learn model for the rows of a prepared table."""
        with sklearn_threads(count_threads(self.n_jobs, table.shape)):
            return np.asarray(getattr(self.model_, method)(table))

    def predict_table(self, table: Table) -> Ints:
        """Return class numbers for ``table_.transform(X)``, shape (n,); ties go to the first class."""
        if self.backend_ == "sklearn":
            return self._call_sklearn("predict", table).astype(np.intp)
        margin = self._margin(table)
        if margin.ndim == 1:
            return (margin > self._threshold).astype(np.intp)
        return margin.argmax(axis=1)

    def predict_proba_table(self, table: Table) -> Floats:
        """Return class probabilities for a table prepared by ``table_.transform``, shape (n, K)."""
        if self.backend_ == "sklearn":
            # Classes without training rows get probability 0. If the training rows have only one class,
            # scikit-learn returns two columns, so its probability is set to 1 here.
            trained_classes = self.model_.classes_.astype(np.intp)
            P = np.zeros((table.shape[0], len(self.classes_)))
            if len(trained_classes) == 1:
                P[:, trained_classes] = 1.0
            else:
                P[:, trained_classes] = self._call_sklearn("predict_proba", table)
            return P
        return self._probabilities(self._margin(table))

    def predict(self, X: Table) -> Labels:
        """Predict labels, shape (n,)."""
        check_is_fitted(self)
        return self.classes_[self.predict_table(self.table_.transform(self._checked(X)))]

    def predict_proba(self, X: Table) -> Floats:
        """Predict class probabilities, shape (n, K), columns in the order of ``classes_``."""
        check_is_fitted(self)
        return self.predict_proba_table(self.table_.transform(self._checked(X)))

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.input_tags.allow_nan = True
        return tags


class HistTreeClassifier(_HistClassifier):
    """Binned decision tree with leaves that contain the distribution of all classes.

    The splits minimise the Gini impurity over the binned values. A leaf predicts the weighted majority.

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
    backend : {"auto", "xgboost", "sklearn"}, default="auto"
        ``"auto"`` uses XGBoost if installed, else scikit-learn's tree, with a warning.
    n_jobs : int, optional
        Maximum number of threads. ``None`` and −1: all cores, −2: all but one. Tables of fewer than 5 million
        entries use one thread. If joblib runs fits in threads, each uses one thread, unless
        ``n_jobs`` is positive.
    random_state : int, RandomState or None
        Seed of scikit-learn's tree, which orders equal splits at random. XGBoost is deterministic.

    Attributes
    ----------
    classes_ : ndarray of shape (K,)
        The labels.
    backend_ : str
        Backend of the fit.
    n_features_in_ : int
        Number of columns of X in ``fit``.

    See Also
    --------
    HistBoostClassifier : Boosted ensemble of such trees.

    Examples
    --------
    >>> from sklearn.datasets import load_wine
    >>> from tailboost.learners import HistTreeClassifier
    >>> X, y = load_wine(return_X_y=True)
    >>> HistTreeClassifier(max_depth=2, backend="sklearn").fit(X, y).get_n_leaves()
    4
    """

    _threshold: ClassVar[float] = 0.5
    _vector_leaves = True

    _parameter_constraints: ClassVar[Constraints] = {
        **_HistClassifier._parameter_constraints,
        "max_leaf_nodes": [Interval(Integral, 2, None, closed="left"), None],
    }

    def __init__(
        self, *, max_depth: int = 5, max_bins: int = 256, max_leaf_nodes: int | None = None,
        min_child_weight: float = 0.0, backend: str = "auto", n_jobs: int | None = None,
        random_state: Seed = None,
    ) -> None:  # fmt: skip
        self.max_depth = max_depth
        self.max_bins = max_bins
        self.max_leaf_nodes = max_leaf_nodes
        self.min_child_weight = min_child_weight
        self.backend = backend
        self.n_jobs = n_jobs
        self.random_state = random_state

    def get_n_leaves(self) -> int:
        """Return the number of leaves."""
        check_is_fitted(self, "model_")
        if self.backend_ == "sklearn":
            return int(self.model_.get_n_leaves())
        return sum(tree.count("leaf=") for tree in self.booster_.get_dump())

    def _booster_params(self, y: Ints, weight: Floats, n_classes: int) -> dict[str, Any]:
        # With squared error on class indicators, the gain of a split is the decrease in Gini impurity. The
        # value of a leaf is the class distribution.
        """Return XGBoost's parameters for one tree with splits that minimise the Gini impurity."""
        params = {
            "objective": "reg:squarederror",
            "base_score": 0.0,
            "eta": 1.0,
            "reg_lambda": 0.0,
        }
        if self.max_leaf_nodes is not None:
            params |= {"max_leaves": self.max_leaf_nodes, "grow_policy": "lossguide"}
        return params

    def _sklearn_estimator(self) -> Any:
        return DecisionTreeClassifier(
            max_depth=self.max_depth,
            max_leaf_nodes=self.max_leaf_nodes,
            random_state=self.random_state,
        )

    def _probabilities(self, margin: Floats32) -> Floats:
        """Return the class distributions of the leaves, which rounding may move out of [0, 1]."""
        P = margin.astype(np.float64)
        if P.ndim == 1:  # of class 1
            P = np.column_stack([1.0 - P, P])
        P = P.clip(0.0, 1.0)
        return P / P.sum(axis=1, keepdims=True)


class HistBoostClassifier(_HistClassifier):
    """Gradient-boosted ensemble of binned trees.

    Parameters
    ----------
    n_estimators : int or "auto", default=50
        Boosting iterations. With K > 2 classes each grows K trees. "auto" grows trees until the log loss of
        held-out rows has not fallen for a while, at most 300. In a cross-fit these are the rows of all folds,
        which then have one number of trees, with K > 2 classes at most 160. Otherwise a fifth of the rows
        gives the number, and all rows are fitted with it.
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
    backend : {"auto", "xgboost", "sklearn"}, default="auto"
        ``"auto"`` uses XGBoost if installed, else scikit-learn's trees, with a warning.
    n_jobs : int, optional
        Maximum number of threads. ``None`` and −1: all cores, −2: all but one. Tables of fewer than 5 million
        entries use one thread. If joblib runs fits in threads, each uses one thread, unless
        ``n_jobs`` is positive.
    random_state : int, RandomState or None
        Not used: the fit is deterministic.

    Attributes
    ----------
    classes_ : ndarray of shape (K,)
        The labels.
    backend_ : str
        Backend of the fit.
    n_features_in_ : int
        Number of columns of X in ``fit``.

    See Also
    --------
    HistTreeClassifier : Single tree.

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
    _threshold: ClassVar[float] = 0.0

    _parameter_constraints: ClassVar[Constraints] = {
        **_HistClassifier._parameter_constraints,
        "n_estimators": [Interval(Integral, 1, None, closed="left"), OneOf("auto")],
        "learning_rate": [Interval(Real, 0, 1, closed="right")],
        "l2_regularization": [Interval(Real, 0, None, closed="left")],
    }

    def __init__(
        self, *, n_estimators: int | str = 50, max_depth: int = 5, learning_rate: float = 0.3,
        max_bins: int = 256, min_child_weight: float = 1.0, l2_regularization: float = 1.0,
        backend: str = "auto", n_jobs: int | None = None, random_state: Seed = None,
    ) -> None:  # fmt: skip
        self.n_estimators = n_estimators
        self.max_depth = max_depth
        self.learning_rate = learning_rate
        self.max_bins = max_bins
        self.min_child_weight = min_child_weight
        self.l2_regularization = l2_regularization
        self.backend = backend
        self.n_jobs = n_jobs
        self.random_state = random_state

    def first(self, n_trees: int) -> Self:
        """Keep the first trees of an XGBoost model, and return the model."""
        self.model_ = bytes(_load(self.model_)[:n_trees].save_raw("ubj"))
        self.n_estimators = n_trees
        return self

    def _booster_params(self, y: Ints, weight: Floats, n_classes: int) -> dict[str, Any]:
        """Return XGBoost's parameters for boosting; two classes start at the weighted share of class 1."""
        shared = {"eta": self.learning_rate, "reg_lambda": self.l2_regularization}
        if n_classes > 2:
            return shared | {
                "objective": "multi:softprob",
                "num_class": n_classes,
                "base_score": 0.5,
            }
        # Start at the weighted frequency of class 1, in float32 as in the model file.
        prior = float(np.float32(weight[y == 1].sum() / weight.sum()))
        start = min(max(prior, 1e-6), 1 - 1e-6)  # its logit is finite
        return shared | {"objective": "binary:logistic", "base_score": start}

    def _sklearn_estimator(self) -> Any:
        return HistGradientBoostingClassifier(
            max_iter=self.n_estimators, max_depth=self.max_depth, learning_rate=self.learning_rate,
            max_bins=SKLEARN_BINS, l2_regularization=self.l2_regularization, early_stopping=False,
            max_leaf_nodes=None, random_state=self.random_state,
        )  # fmt: skip

    def _probabilities(self, margin: Floats32) -> Floats:
        """Return the softmax of the scores."""
        return softmax(_scores_by_class(margin), axis=1)
