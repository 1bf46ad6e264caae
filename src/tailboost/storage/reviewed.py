"""List of allowed classes in a model file, after a review of the calls and files of each class.

A class is listed if, with any values in its fields (plain data, arrays, objects of listed classes), its
methods for prediction and transformation call only code of its library and methods of listed objects, and
open no file. Fields that could contain more, such as a folder or a function, are restricted below.
Classifiers and weight players are listed as kinds; a test checks the imports of the players' modules.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, is_dataclass
from functools import cache, partial
from importlib import import_module
from inspect import isabstract
from pkgutil import iter_modules
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
    # Called with an object after its fields are set: checks, and fields without storage.
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


def _with_neighbours(model: Model) -> None:
    """Build the index of a nearest-neighbours model from its rows."""
    from sklearn.neighbors import BallTree, KDTree

    model._tree = None
    kinds = {"kd_tree": KDTree, "ball_tree": BallTree}
    if model._fit_method in kinds:
        params = dict(model.effective_metric_params_)
        if not isinstance(model.effective_metric_, str) or "func" in params:
            raise ValueError("nearest neighbours with a metric that is not a name")
        model._tree = kinds[model._fit_method](
            model._fit_X, model.leaf_size, metric=model.effective_metric_, **params
        )


def _asked_for_answers(model: Model) -> None:
    """Refuse a stack with calls of model methods other than predictions."""
    if not set(model.stack_method_) <= {"predict_proba", "decision_function", "predict"}:
        raise ValueError(f"a stack that calls {str(model.stack_method_)[:50]}")


def _boosted_bytes(model: Model) -> None:
    """Refuse a booster in a format other than XGBoost's."""
    if vars(model).get("backend_") == "xgboost" and not (
        isinstance(model.model_, bytes) and model.model_.startswith(b"{")
    ):
        raise ValueError("a booster in an unknown format")


def _names(module: str, *names: str, **spec: Any) -> dict[str, Reviewed]:
    return {f"{module}.{name}": Reviewed(**spec) for name in names}


# Text comes from the rows, not from files named in rows.
_FROM_ROWS = {"input": "content"}
_FIT_ONLY = {"checkpoint_dir": None}

SKLEARN: dict[str, Reviewed] = {
    **_names("sklearn.pipeline", "Pipeline", "FeatureUnion", held_at={"memory": None}),
    **_names("sklearn.compose._column_transformer", "ColumnTransformer", "make_column_selector"),
    **_names("sklearn.frozen._frozen", "FrozenEstimator"),
    # Splitters are parameters only; a loaded model does not split rows.
    **_names("sklearn.model_selection._split", "GroupKFold", "GroupShuffleSplit", "KFold",
        "LeaveOneGroupOut", "PredefinedSplit", "ShuffleSplit", "StratifiedGroupKFold", "StratifiedKFold",
        "StratifiedShuffleSplit", "TimeSeriesSplit"),
    **_names("sklearn.dummy", "DummyClassifier"),
    **_names("sklearn.preprocessing._data", "Binarizer", "MaxAbsScaler", "MinMaxScaler", "Normalizer",
        "PowerTransformer", "QuantileTransformer", "RobustScaler", "StandardScaler"),
    **_names("sklearn.preprocessing._encoders", "OneHotEncoder", "OrdinalEncoder"),
    **_names("sklearn.preprocessing._target_encoder", "TargetEncoder"),
    **_names("sklearn.preprocessing._label", "LabelBinarizer", "LabelEncoder"),
    **_names("sklearn.preprocessing._discretization", "KBinsDiscretizer"),
    **_names("sklearn.preprocessing._polynomial", "PolynomialFeatures"),
    **_names("sklearn.preprocessing._function_transformer", "FunctionTransformer",
        functions={"func": (*UFUNCS, _NUMBERS), "inverse_func": UFUNCS}),
    **_names("sklearn.impute._base", "MissingIndicator", "SimpleImputer"),
    **_names("sklearn.impute._knn", "KNNImputer"),
    **_names("sklearn.decomposition._pca", "PCA"),
    **_names("sklearn.decomposition._truncated_svd", "TruncatedSVD"),
    **_names("sklearn.feature_selection._variance_threshold", "VarianceThreshold"),
    **_names("sklearn.feature_selection._from_model", "SelectFromModel"),
    **_names("sklearn.feature_selection._univariate_selection", "SelectFdr", "SelectFpr", "SelectKBest",
        "SelectPercentile", functions=_SCORES),
    **_names("sklearn.feature_extraction.text", "CountVectorizer", "HashingVectorizer", "TfidfVectorizer",
        held_at=_FROM_ROWS),
    **_names("sklearn.feature_extraction.text", "TfidfTransformer"),
    **_names("sklearn.feature_extraction._hash", "FeatureHasher"),
    **_names("sklearn.linear_model._logistic", "LogisticRegression"),
    **_names("sklearn.linear_model._ridge", "RidgeClassifier"),
    **_names("sklearn.linear_model._stochastic_gradient", "SGDClassifier",
        left_out=frozenset({"_loss_function_"})),
    **_names("sklearn.naive_bayes", "BernoulliNB", "CategoricalNB", "ComplementNB", "GaussianNB",
        "MultinomialNB"),
    **_names("sklearn.discriminant_analysis", "LinearDiscriminantAnalysis", "QuadraticDiscriminantAnalysis"),
    **_names("sklearn.neighbors._classification", "KNeighborsClassifier", left_out=frozenset({"_tree"}),
        finish=_with_neighbours),
    **_names("sklearn.svm._classes", "LinearSVC", "SVC"),
    **_names("sklearn.neural_network._multilayer_perceptron", "MLPClassifier", held_at={"_optimizer": None},
        left_out=frozenset({"_random_state"})),
    **_names("sklearn.tree._classes", "DecisionTreeClassifier", "DecisionTreeRegressor",
        "ExtraTreeClassifier", "ExtraTreeRegressor"),
    **_names("sklearn.ensemble._forest", "ExtraTreesClassifier", "ExtraTreesRegressor",
        "RandomForestClassifier", "RandomForestRegressor"),
    **_names("sklearn.ensemble._gb", "GradientBoostingClassifier", left_out=frozenset({"_rng"})),
    **_names("sklearn.ensemble._hist_gradient_boosting.gradient_boosting", "HistGradientBoostingClassifier",
        held_at={"_scorer": None}, left_out=frozenset({"_feature_subsample_rng"})),
    **_names("sklearn.ensemble._hist_gradient_boosting.binning", "_BinMapper"),
    **_names("sklearn.ensemble._weight_boosting", "AdaBoostClassifier"),
    **_names("sklearn.ensemble._bagging", "BaggingClassifier"),
    **_names("sklearn.ensemble._voting", "VotingClassifier"),
    **_names("sklearn.ensemble._stacking", "StackingClassifier", finish=_asked_for_answers),
    **_names("sklearn.calibration", "CalibratedClassifierCV", "_CalibratedClassifier", "_SigmoidCalibration"),
    **_names("sklearn.isotonic", "IsotonicRegression"),
    **_names("sklearn.multiclass", "OneVsRestClassifier", "_ConstantPredictor"),
}  # fmt: skip


def _with_weights(net: Any) -> None:
    """Refuse a net unless its weights are bytes."""
    if not isinstance(net.weights, bytes):
        raise ValueError("a net without weights")


_NETS = tuple(
    f"tailboost.learners.torch.nets.{name}" for name in ("mlp", "mlp_100_100", "small_cnn")
)

OURS: dict[str, Reviewed] = {
    **_names("tailboost.rows.probes", "ProbeFrame", "ProbeMatrix"),
    **_names("tailboost.rows.fingerprints", "Fingerprint", "RowCounts", "UsedRows"),
    **_names("tailboost.rows.subgroups", "GroupUse"),
    **_names("tailboost.app.table_encoder", "TableEncoder"),
    **_names("tailboost.rows.schema", "TableSchema"),
    **_names("tailboost.rows.rows", "Rows"),
    **_names("tailboost.rows.group_names", "GroupNames"),
    **_names("tailboost.boosting.game", "Played", "Round", "RowStakes", "Stop", "SubgroupStakes",
        "TargetStakes", "Trace", "Units"),
    **_names("tailboost.boosting.pool", "Judged", "Pool"),
    **_names("tailboost.boosting.subgroups", "NamedSubgroups", "Pools"),
    **_names("tailboost.solvers.bits", "DenseLosses"),
    # -- learners
    **_names("tailboost.learners.forest", "TableForest"),
    **_names("tailboost.learners.scores", "GivenProbabilities", "Scores"),
    **_names("tailboost.learners.linear", "TableBayes", "TableLinear"),
    **_names("tailboost.learners.hist", "HistBoostClassifier", "HistTreeClassifier",
        left_out=frozenset({"_booster"}), finish=_boosted_bytes),
    **_names("tailboost.learners.table", "BinnedReader", "ClassProbabilities", "Ranked", "TableReader"),
    **_names("tailboost.learners.foreign", "_OnPresentClasses"),
    **_names("tailboost.learners.stumps", "NumericTable", "StumpClassifier"),
    **_names("tailboost.learners.screened", "ScreenedBoost"),
    # -- nets
    **_names("tailboost.learners.torch.net_data", "RowPreparation"),
    **_names("tailboost.learners.torch.net_learner", "TorchClassifier", functions={"module": _NETS}),
    **_names("tailboost.learners.torch.fitted_net", "Architecture", left_out=frozenset({"_pattern"}),
        functions={"module": _NETS}),
    **_names("tailboost.learners.torch.fitted_net", "FittedNet", finish=_with_weights),
    # -- rates
    **_names("tailboost.rates.make", "Largest", "Objective", "Spread"),
    **_names("tailboost.rates.rate", "Kind", "Limit", "Pairs", "Rate"),
    **_names("tailboost.rates.strata", "Strata"),
    **_names("tailboost.selection.outputs", "Average", "ModelOutputs", "Models"),
    **_names("tailboost.selection.probabilities", "Calibration", "GroupModel", "StratumProbabilities"),
    **_names("tailboost.selection.candidates", "PowerDraw", "ProbabilityRule"),
    **_names("tailboost.selection.score_rule", "ScoreRule"),
    **_names("tailboost.selection.threshold_rule", "ThresholdRule"),
    **_names("tailboost.selection.data", "Candidate", "Pool", "SelectionData"),
    **_names("tailboost.selection.intervals", "LimitsOutlook"),
    **_names("tailboost.selection.rate_table", "RateLine", "RateTable"),
    **_names("tailboost.selection.problem", "CVaR", "Problem", "WorstRow"),
    **_names("tailboost.selection.program", "Best", "Program", "Solution"),
    # -- results of a fit
    **_names("tailboost.guarantees.certificates", "Certificate", "Price"),
    **_names("tailboost.rows.ledger", "Attempt"),
    **_names("tailboost.rows.records", "Records"),
    **_names("tailboost.guarantees.rate_bounds", "CertifiedBound"),
    **_names("tailboost.boosting.additive", "AdditiveSelection", "SoftMargin", "SoftMarginWeights"),
    **_names("tailboost.guarantees.additive_summary", "AdditiveSummary", "Cost"),
    **_names("tailboost.boosting.ensemble", "AdditiveEnsemble", "MixtureEnsemble"),
    **_names("tailboost.selection.summary", "Bound", "Budget", "Summary"),
    **_names("tailboost.selection.mixture", "Counts", "Majority", "Mixture"),
    # -- mixtures of other models
    **_names("tailboost.selection.engine", "ProbabilityEngine"),
    **_names("tailboost.selection.selection", "Selection"),
    **_names("tailboost.selection.selected", "Comparison", "SelectedRule", "SelectedTail"),
    **_names("tailboost.classifiers.cvar", "HedgeOverRows", "LPOverRows", "EntropicOverRows"),
    **_names("tailboost.classifiers.robust_mixture", "RobustMixtureClassifier"),
    # -- baselines
    **_names("tailboost.app.baselines", "CellWeightedClassifier", "TunedThresholdClassifier"),
}  # fmt: skip


@cache
def reviewed() -> dict[str, Reviewed]:
    """Return the restrictions of all listed classes by full name, with classifiers and weight players.

    A player and its state are frozen dataclasses, and predictions do not call them.
    """
    package = import_module("tailboost")
    ours = [getattr(package, name) for name in package.__all__ if name.endswith("Classifier")]
    rules = import_module("tailboost.boosting.players")
    modules = [
        import_module(f"{rules.__name__}.{module.name}")
        for module in iter_modules(rules.__path__)
    ]
    players = [
        cls
        for module in modules
        for cls in vars(module).values()
        if isinstance(cls, type)
        and is_dataclass(cls)
        and cls.__module__ == module.__name__
        and not isabstract(cls)
    ]
    return (
        SKLEARN
        | OURS
        | {f"{cls.__module__}.{cls.__name__}": Reviewed(held_at=_FIT_ONLY) for cls in ours}
        | {f"{cls.__module__}.{cls.__name__}": Reviewed() for cls in players}
    )
