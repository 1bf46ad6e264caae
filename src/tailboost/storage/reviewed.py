"""List of allowed classes in a model file, after a review of the calls and files of each class.

A class is listed if, with any values in its fields (plain data, arrays, objects of listed classes), its
methods for prediction and transformation call only code of its library and methods of listed objects, and
open no file. Fields that could contain more, such as a folder or a function, are restricted below.
Classifiers and weight players are listed as kinds; a test checks the imports of the players' modules.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache, partial
from importlib import import_module
from typing import Any

import numpy as np
from sklearn.utils import check_array

from tailboost.core.array_types import Model


@dataclass(frozen=True)
class Reviewed:
    """Restrictions of a listed class."""

    # Fields with a constant value in files. None: the value of the fit is not stored.
    held_at: Mapping[str, str | None] = field(default_factory=dict)
    # Fields without storage: caches, and values for the fit only.
    left_out: frozenset[str] = frozenset()
    # Fields for functions, with the allowed functions.
    functions: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    # Called with an object after its fields are set: checks, and fields without storage. None: nothing to do.
    finish: Callable[[Any], None] | None = None


# Allowed functions of a FunctionTransformer; also listed in `save_model` and SECURITY.md.
UFUNCS = tuple(
    f"numpy.{name}"
    for name in (
        "log", "log1p", "log2", "log10", "exp", "expm1", "sqrt", "cbrt", "square", "absolute", "sign",
    )
)  # fmt: skip
# Preparation of numbers in scikit-learn's boosting with categories.
_NUMBERS = "check_array of float64"
# Functions with fixed arguments, by their names in files.
PARTIALS: dict[str, Any] = {
    _NUMBERS: partial(check_array, dtype=[np.float64], ensure_all_finite=False)
}
_SCORES = {
    "score_func": (
        "sklearn.feature_selection._univariate_selection.chi2",
        "sklearn.feature_selection._univariate_selection.f_classif",
        "sklearn.feature_selection._mutual_info.mutual_info_classif",
    )
}

# Fields for types, and the allowed types.
DTYPE_FIELDS = frozenset({"dtype", "dtype_", "dtype_include", "dtype_exclude"})
TYPES: dict[str, type] = {
    kind.__name__: kind
    for kind in (
        bool, int, float, str, object, np.bool_, np.int8, np.int16, np.int32, np.int64, np.uint8, np.uint16,
        np.uint32, np.uint64, np.float16, np.float32, np.float64, np.number,
    )
}  # fmt: skip


def _build_neighbour_index(model: Model) -> None:
    """Build the index of a nearest-neighbours model from its rows, as files do not contain it.

    A model that compares all rows gets none.
    """
    from sklearn.neighbors import BallTree, KDTree

    index_classes = {"kd_tree": KDTree, "ball_tree": BallTree}
    if model._fit_method not in index_classes:  # compares all rows
        model._tree = None
        return
    metric_params = dict(model.effective_metric_params_)
    if not isinstance(model.effective_metric_, str) or "func" in metric_params:
        raise ValueError("nearest neighbours with a metric that is not a name")
    model._tree = index_classes[model._fit_method](
        model._fit_X, model.leaf_size, metric=model.effective_metric_, **metric_params
    )


def _has_prediction_methods(model: Model) -> None:
    """Refuse a stack that calls other methods of its models than predictions."""
    if not set(model.stack_method_) <= {"predict_proba", "decision_function", "predict"}:
        raise ValueError(f"a stack that calls {str(model.stack_method_)[:50]}")


def _has_booster_of_xgboost(model: Model) -> None:
    """Refuse a model with the XGBoost backend unless its booster is JSON."""
    if "model_" not in vars(model) or not isinstance(model.model_, bytes):
        return
    if not isinstance(model.model_, bytes) or not model.model_.startswith(b"{"):
        raise ValueError("a booster in an unknown format")


def _has_weights(net: Any) -> None:
    """Refuse a net without weights."""
    if not isinstance(net.weights, dict):
        raise ValueError("a net without weights")


# Listed classes without restrictions, by module.
# Splitters are parameters only; a loaded model does not split rows.
UNRESTRICTED = """
sklearn.calibration: CalibratedClassifierCV _CalibratedClassifier _SigmoidCalibration
sklearn.compose._column_transformer: ColumnTransformer make_column_selector
sklearn.decomposition._pca: PCA
sklearn.decomposition._truncated_svd: TruncatedSVD
sklearn.discriminant_analysis: LinearDiscriminantAnalysis QuadraticDiscriminantAnalysis
sklearn.dummy: DummyClassifier
sklearn.ensemble._bagging: BaggingClassifier
sklearn.ensemble._forest: ExtraTreesClassifier ExtraTreesRegressor
sklearn.ensemble._forest: RandomForestClassifier RandomForestRegressor
sklearn.ensemble._hist_gradient_boosting.binning: _BinMapper
sklearn.ensemble._voting: VotingClassifier
sklearn.ensemble._weight_boosting: AdaBoostClassifier
sklearn.feature_extraction._hash: FeatureHasher
sklearn.feature_extraction.text: TfidfTransformer
sklearn.feature_selection._from_model: SelectFromModel
sklearn.feature_selection._variance_threshold: VarianceThreshold
sklearn.frozen._frozen: FrozenEstimator
sklearn.impute._base: MissingIndicator SimpleImputer
sklearn.impute._knn: KNNImputer
sklearn.isotonic: IsotonicRegression
sklearn.linear_model._logistic: LogisticRegression
sklearn.linear_model._ridge: RidgeClassifier
sklearn.model_selection._split: GroupKFold GroupShuffleSplit KFold LeaveOneGroupOut
sklearn.model_selection._split: PredefinedSplit ShuffleSplit StratifiedGroupKFold
sklearn.model_selection._split: StratifiedKFold StratifiedShuffleSplit TimeSeriesSplit
sklearn.multiclass: OneVsRestClassifier _ConstantPredictor
sklearn.naive_bayes: BernoulliNB CategoricalNB ComplementNB GaussianNB MultinomialNB
sklearn.preprocessing._data: Binarizer MaxAbsScaler MinMaxScaler Normalizer
sklearn.preprocessing._data: PowerTransformer QuantileTransformer RobustScaler StandardScaler
sklearn.preprocessing._discretization: KBinsDiscretizer
sklearn.preprocessing._encoders: OneHotEncoder OrdinalEncoder
sklearn.preprocessing._label: LabelBinarizer LabelEncoder
sklearn.preprocessing._polynomial: PolynomialFeatures
sklearn.preprocessing._target_encoder: TargetEncoder
sklearn.svm._classes: LinearSVC SVC
sklearn.tree._classes: DecisionTreeClassifier DecisionTreeRegressor
sklearn.tree._classes: ExtraTreeClassifier ExtraTreeRegressor
tailboost.rows.probes: ProbeFrame ProbeMatrix
tailboost.rows.seen: Seen
tailboost.rows.subgroups: GroupNames GroupUse
tailboost.rows.schema: TableSchema
tailboost.rows.rows: Rows
tailboost.solvers.bits: DenseLosses
tailboost.learners.forest: TableForest
tailboost.learners.scores: GivenProbabilities Scores
tailboost.learners.table: ClassProbabilities Ranked TableNumbers TableReader
tailboost.learners.foreign: _OnPresentClasses
tailboost.learners.stumps: NumericTable StumpClassifier
tailboost.learners.torch: RowPreparation
tailboost.rates.make: Largest Objective Spread
tailboost.rates.rate: Kind Limit Pairs Rate
tailboost.rates.strata: Strata
tailboost.selection.outputs: Average ModelOutputs Models
tailboost.selection.probabilities: GroupModel StratumProbabilities
tailboost.selection.candidates: ProbabilityRule ScoreRule
tailboost.selection.threshold_rule: ThresholdRule
tailboost.selection.data: Candidate Pool SelectionData
tailboost.selection.rate_table: RateLine RateTable
tailboost.selection.problem: Problem
tailboost.selection.program: Best Program Solution
tailboost.guarantees.certificates: Certificate Price
tailboost.rows.ledger: Attempt Records
tailboost.guarantees.forced: Forced
tailboost.guarantees.rate_bounds: CertifiedBound
tailboost.selection.ensemble: MixtureEnsemble
tailboost.selection.summary: Bound Budget Summary
tailboost.selection.engine: ProbabilityEngine
tailboost.selection.selection: Selection
tailboost.selection.selected: Comparison SelectedRule
tailboost.classifiers.robust_mixture: RobustMixtureClassifier
"""

RESTRICTED: dict[str, Reviewed] = {
    "sklearn.pipeline.Pipeline": Reviewed(held_at={"memory": None}),
    "sklearn.pipeline.FeatureUnion": Reviewed(held_at={"memory": None}),
    "sklearn.preprocessing._function_transformer.FunctionTransformer": Reviewed(
        functions={"func": (*UFUNCS, _NUMBERS), "inverse_func": UFUNCS}
    ),
    **{
        f"sklearn.feature_selection._univariate_selection.{name}": Reviewed(functions=_SCORES)
        for name in ("SelectFdr", "SelectFpr", "SelectKBest", "SelectPercentile")
    },
    **{
        f"sklearn.feature_extraction.text.{name}": Reviewed(held_at={"input": "content"})
        for name in ("CountVectorizer", "HashingVectorizer", "TfidfVectorizer")
    },  # text comes from the rows, not from files named in rows
    "sklearn.linear_model._stochastic_gradient.SGDClassifier": Reviewed(
        left_out=frozenset({"_loss_function_"})
    ),
    "sklearn.neighbors._classification.KNeighborsClassifier": Reviewed(
        left_out=frozenset({"_tree"}), finish=_build_neighbour_index
    ),
    "sklearn.neural_network._multilayer_perceptron.MLPClassifier": Reviewed(
        held_at={"_optimizer": None}, left_out=frozenset({"_random_state"})
    ),
    "sklearn.ensemble._gb.GradientBoostingClassifier": Reviewed(left_out=frozenset({"_rng"})),
    "sklearn.ensemble._hist_gradient_boosting.gradient_boosting.HistGradientBoostingClassifier": Reviewed(
        held_at={"_scorer": None}, left_out=frozenset({"_feature_subsample_rng"})
    ),
    "sklearn.ensemble._stacking.StackingClassifier": Reviewed(finish=_has_prediction_methods),
    **{
        f"tailboost.learners.hist.{name}": Reviewed(
            left_out=frozenset({"_booster"}), finish=_has_booster_of_xgboost
        )
        for name in ("HistBoostClassifier", "HistTreeClassifier")
    },
    "tailboost.learners.torch.TorchClassifier": Reviewed(),
    "tailboost.learners.torch.Architecture": Reviewed(left_out=frozenset()),
    "tailboost.learners.torch.FittedNet": Reviewed(finish=_has_weights),
}


def unrestricted() -> dict[str, Reviewed]:
    """Return the classes of `UNRESTRICTED` by full name."""
    classes = {}
    for line in filter(None, UNRESTRICTED.split("\n")):
        module, names = line.split(": ")
        for name in names.split():
            classes[f"{module}.{name}"] = Reviewed()
    return classes


@cache
def reviewed() -> dict[str, Reviewed]:
    """Return the restrictions of all listed classes by full name, with classifiers and weight players.

    A player and its state are frozen dataclasses, and predictions do not call them.
    """
    classes = unrestricted() | RESTRICTED
    package = import_module("tailboost")
    for name in package.__all__:
        if name.endswith("Classifier"):
            cls = getattr(package, name)
            classes[f"{cls.__module__}.{cls.__name__}"] = Reviewed()
    for name in ("game", "players"):
        module = import_module(f"tailboost.boosting.{name}")
        for value in vars(module).values():
            if isinstance(value, type) and value.__module__ == module.__name__:
                classes[f"{module.__name__}.{value.__name__}"] = Reviewed()
    return classes
