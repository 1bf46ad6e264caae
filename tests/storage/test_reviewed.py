"""Estimators of other libraries in model files predict the same after loading."""

import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.calibration import CalibratedClassifierCV
from sklearn.compose import ColumnTransformer, make_column_selector
from sklearn.decomposition import PCA, TruncatedSVD
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis, QuadraticDiscriminantAnalysis
from sklearn.dummy import DummyClassifier
from sklearn.ensemble import (
    AdaBoostClassifier,
    BaggingClassifier,
    ExtraTreesClassifier,
    GradientBoostingClassifier,
    HistGradientBoostingClassifier,
    RandomForestClassifier,
    StackingClassifier,
    VotingClassifier,
)
from sklearn.feature_extraction import FeatureHasher
from sklearn.feature_extraction.text import CountVectorizer, HashingVectorizer, TfidfVectorizer
from sklearn.feature_selection import SelectFromModel, SelectKBest, VarianceThreshold
from sklearn.frozen import FrozenEstimator
from sklearn.impute import KNNImputer, MissingIndicator, SimpleImputer
from sklearn.linear_model import LogisticRegression, RidgeClassifier, SGDClassifier
from sklearn.multiclass import OneVsRestClassifier
from sklearn.naive_bayes import BernoulliNB, CategoricalNB, ComplementNB, GaussianNB, MultinomialNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline, make_union
from sklearn.preprocessing import (
    Binarizer,
    FunctionTransformer,
    KBinsDiscretizer,
    MaxAbsScaler,
    MinMaxScaler,
    Normalizer,
    OneHotEncoder,
    OrdinalEncoder,
    PolynomialFeatures,
    PowerTransformer,
    QuantileTransformer,
    RobustScaler,
    StandardScaler,
    TargetEncoder,
)
from sklearn.svm import SVC, LinearSVC
from sklearn.tree import DecisionTreeClassifier, ExtraTreeClassifier

import tailboost as tb
from tailboost.storage.models import load_model, save_model

RNG = np.random.default_rng(0)
X = np.abs(RNG.normal(size=(150, 4))) + 0.1
Y = np.array(["a", "b", "c"])[np.digitize(X[:, 0] + 0.2 * RNG.normal(size=150), [0.6, 1.2])]
HOLES = np.where(RNG.random(X.shape) < 0.1, np.nan, X)
WORDS = [" ".join(RNG.choice(["one", "two", "three", "four"], 5)) for _ in Y]


def tree():
    return DecisionTreeClassifier(max_depth=3, random_state=0)


CLASSIFIERS = [
    AdaBoostClassifier(n_estimators=3),
    BaggingClassifier(tree(), n_estimators=3),
    BernoulliNB(),
    CalibratedClassifierCV(GaussianNB(), cv=2),
    CalibratedClassifierCV(GaussianNB(), cv=2, method="isotonic"),
    CategoricalNB(),
    ComplementNB(),
    DecisionTreeClassifier(random_state=0),
    DecisionTreeClassifier(criterion="entropy", max_leaf_nodes=9, random_state=0),
    DummyClassifier(),
    ExtraTreeClassifier(random_state=0),
    ExtraTreesClassifier(5, class_weight="balanced", random_state=0),
    FrozenEstimator(tree()),
    GaussianNB(),
    GradientBoostingClassifier(n_estimators=3),
    HistGradientBoostingClassifier(max_iter=3),
    KNeighborsClassifier(),
    KNeighborsClassifier(metric="manhattan", algorithm="ball_tree"),
    KNeighborsClassifier(algorithm="brute"),
    LinearDiscriminantAnalysis(),
    LinearSVC(),
    LogisticRegression(),
    MLPClassifier((4,), max_iter=5),
    MultinomialNB(),
    OneVsRestClassifier(tree()),
    QuadraticDiscriminantAnalysis(),
    RandomForestClassifier(5, random_state=0),
    RandomForestClassifier(5, min_samples_leaf=2, class_weight="balanced_subsample", criterion="entropy"),
    RidgeClassifier(),
    SGDClassifier(loss="log_loss"),
    SGDClassifier(),
    SVC(),
    StackingClassifier([("t", tree()), ("g", GaussianNB())], LogisticRegression(), cv=2),
    VotingClassifier([("t", tree()), ("g", GaussianNB())], voting="soft"),
    make_pipeline(Binarizer(), tree()),
    make_pipeline(FunctionTransformer(np.log1p, inverse_func=np.expm1), tree()),
    make_pipeline(FunctionTransformer(), tree()),
    make_pipeline(KBinsDiscretizer(3), tree()),
    make_pipeline(MaxAbsScaler(), tree()),
    make_pipeline(MinMaxScaler(), tree()),
    make_pipeline(Normalizer(), tree()),
    make_pipeline(OneHotEncoder(handle_unknown="ignore", dtype=np.float32), tree()),
    make_pipeline(OrdinalEncoder(), tree()),
    make_pipeline(PCA(2), tree()),
    make_pipeline(PolynomialFeatures(), tree()),
    make_pipeline(PowerTransformer(), tree()),
    make_pipeline(QuantileTransformer(n_quantiles=9), tree()),
    make_pipeline(RobustScaler(), tree()),
    make_pipeline(SelectFromModel(tree()), tree()),
    make_pipeline(SelectKBest(k=2), tree()),
    make_pipeline(StandardScaler(), PCA(2), tree()),
    make_pipeline(TargetEncoder(cv=2), tree()),
    make_pipeline(TruncatedSVD(2), tree()),
    make_pipeline(VarianceThreshold(), tree()),
    make_pipeline(make_union(StandardScaler(), PCA(1)), tree()),
]


def check(model, table, path, y=Y):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(table, y)
    save_model(model, path)
    again = load_model(path)
    for method in ("predict", "predict_proba", "decision_function"):
        if hasattr(model, method):
            np.testing.assert_array_equal(getattr(again, method)(table), getattr(model, method)(table))
    assert again.get_params().keys() == model.get_params().keys() - {"train_dir", "c__train_dir"}
    return again


@pytest.fixture
def path(tmp_path):
    return tmp_path / "m.model"


@pytest.mark.thinned(49)
@pytest.mark.parametrize("model", CLASSIFIERS, ids=lambda m: str(m)[:40])
def test_classifiers(model, path):
    discrete = any(isinstance(model, kind) for kind in (CategoricalNB,)) or "OneHot" in str(model)
    if isinstance(model, FrozenEstimator):
        model.estimator.fit(X, Y)
    check(model, np.round(X).clip(max=2) if discrete else X, path)


@pytest.mark.parametrize("imputer", [SimpleImputer(), KNNImputer(), MissingIndicator(features="all")])
def test_missing_values(imputer, path):
    check(make_pipeline(imputer, tree()), HOLES, path)
    check(RandomForestClassifier(4, random_state=0), HOLES, path)
    check(HistGradientBoostingClassifier(max_iter=2), HOLES, path)


@pytest.mark.parametrize(
    "words", [CountVectorizer(), HashingVectorizer(), TfidfVectorizer(ngram_range=(1, 2))]
)
def test_text(words, path):
    check(make_pipeline(words, MultinomialNB() if "Hash" not in str(words) else tree()), WORDS, path)


def test_hashed_features(path):
    check(make_pipeline(FeatureHasher(8), tree()), [{"a": float(x)} for x in X[:, 0]], path)


def test_sparse_rows(path):
    check(RandomForestClassifier(4, random_state=0), sp.csr_matrix(np.where(X > 0.8, X, 0.0)), path)


def test_frames(path):
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame(X, columns=list("abcd")).assign(
        city=pd.Categorical(RNG.choice(["Rome", "Oslo"], len(X)))
    )
    check(HistGradientBoostingClassifier(max_iter=3, categorical_features="from_dtype"), frame, path)
    of_kind = make_column_selector(dtype_include=np.number)
    columns = ColumnTransformer(
        [("n", StandardScaler(), of_kind), ("c", OneHotEncoder(), ["city"])], remainder="drop"
    )
    check(make_pipeline(columns, LogisticRegression(max_iter=500)), frame, path)


@pytest.mark.parametrize("labels", ["text", "numbers"])
def test_lightgbm(path, labels):
    lightgbm = pytest.importorskip("lightgbm")
    y = Y if labels == "text" else np.unique(Y, return_inverse=True)[1]
    model = lightgbm.LGBMClassifier(n_estimators=5, verbose=-1, n_jobs=1, random_state=0, min_child_samples=5)
    again = check(model, X, path, y)
    np.testing.assert_array_equal(again.feature_importances_, model.feature_importances_)
    mix = tb.RobustMixtureClassifier([("l", model), ("tree", tree())], n_jobs=1, random_state=0)
    check(mix, X, path)
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame(X, columns=list("abcd")).assign(
        city=pd.Categorical(RNG.choice(["Rome", "Oslo"], len(X)))
    )
    check(model, frame, path, y)


def test_parameters_of_lightgbm_that_are_places(path):
    lightgbm = pytest.importorskip("lightgbm")
    for params in (
        {"output_model": "x.txt"},
        {"metric": "auc machines=1.2.3.4:5"},
        {"forcedbins_filename": "f"},
    ):
        with pytest.raises(TypeError, match="LGBMClassifier"):
            save_model(lightgbm.LGBMClassifier(**params), path)


@pytest.mark.parametrize("labels", ["text", "numbers"])
def test_catboost(path, labels, tmp_path):
    catboost = pytest.importorskip("catboost")
    y = Y if labels == "text" else np.unique(Y, return_inverse=True)[1]
    model = catboost.CatBoostClassifier(
        iterations=5, verbose=0, thread_count=1, random_seed=0, train_dir=str(tmp_path / "catboost")
    )
    again = check(model, X, path, y)
    assert "train_dir" not in again.get_params()
    mix = tb.RobustMixtureClassifier([("c", model), ("tree", tree())], n_jobs=1, random_state=0)
    check(mix, X, path)


@pytest.mark.parametrize(
    "module", ["xgboost.XGBClassifier", "lightgbm.LGBMClassifier", "catboost.CatBoostClassifier"]
)
def test_boosters_that_were_not_fitted(path, module):
    """Estimators as parameters of others."""
    library, name = module.split(".")
    model = getattr(pytest.importorskip(library), name)(n_estimators=7)
    save_model(model, path)
    assert load_model(path).get_params()["n_estimators"] == 7


def test_xgboost(path):
    xgboost = pytest.importorskip("xgboost")
    model = xgboost.XGBClassifier(n_estimators=3, n_jobs=1, random_state=0, monotone_constraints=(1, 0, 0, 0))
    y = np.unique(Y, return_inverse=True)[1]
    again = check(model, X, path, y)
    np.testing.assert_array_equal(again.feature_importances_, model.feature_importances_)
    check(tb.RobustMixtureClassifier([("x", "xgboost"), ("tree", tree())], n_jobs=1, random_state=0), X, path)


@pytest.mark.parametrize("criterion", ["gini", "entropy"])
@pytest.mark.parametrize("weights", [None, "balanced"])
@pytest.mark.parametrize("leaves", [None, 2, 9])
def test_packed_trees_keep_what_they_say(path, criterion, weights, leaves):
    """Values computed from the leaves agree with those of scikit-learn to 1e-12; links are equal.

    Trees with a number of leaves grow best first, the others in depth first.
    """
    forest = RandomForestClassifier(
        4, criterion=criterion, class_weight=weights, max_leaf_nodes=leaves, random_state=0
    ).fit(X, Y)
    save_model(forest, path)
    again = load_model(path)
    np.testing.assert_allclose(again.feature_importances_, forest.feature_importances_, rtol=0, atol=1e-12)
    for old, new in zip(forest.estimators_, again.estimators_, strict=True):
        one, two = old.tree_.__getstate__()["nodes"], new.tree_.__getstate__()["nodes"]
        for name in ("left_child", "right_child", "feature", "n_node_samples"):
            np.testing.assert_array_equal(two[name], one[name])
        inner = one["left_child"] >= 0  # missing values are not sent on from leaves
        np.testing.assert_array_equal(two["missing_go_to_left"][inner], one["missing_go_to_left"][inner])
        np.testing.assert_allclose(two["impurity"], one["impurity"], rtol=0, atol=1e-12)
        np.testing.assert_allclose(new.tree_.value, old.tree_.value, rtol=0, atol=1e-12)
        np.testing.assert_allclose(two["weighted_n_node_samples"], one["weighted_n_node_samples"], rtol=1e-12)


@pytest.mark.parametrize("missing", [False, True])
def test_sides_of_missing_values_are_stored(path, missing):
    """scikit-learn sends missing values to the larger child if a node had none in the fit."""
    rows = np.where(RNG.random(X.shape) < 0.2 * missing, np.nan, X)
    forest = RandomForestClassifier(4, random_state=0).fit(rows, Y)
    save_model(forest, path)
    again = load_model(path)
    np.testing.assert_array_equal(again.predict_proba(rows * np.nan), forest.predict_proba(rows * np.nan))
    for old, new in zip(forest.estimators_, again.estimators_, strict=True):
        inner = old.tree_.children_left >= 0
        sides = [tree.tree_.missing_go_to_left[inner] for tree in (old, new)]
        np.testing.assert_array_equal(*sides)


def test_thresholds_are_rounded_so_that_no_row_goes_another_way(path):
    """Rows on both sides of a threshold are neighbours in float32, at magnitudes from 1e-30 to 1e30."""
    below = (RNG.normal(size=300) * 10.0 ** RNG.integers(-30, 30, 300)).astype(np.float32)
    rows = np.concatenate([below, np.nextafter(below, np.float32(np.inf))])[:, None]
    tree = DecisionTreeClassifier(random_state=0).fit(rows, np.repeat([0, 1], 300))
    save_model(tree, path)
    np.testing.assert_array_equal(load_model(path).predict_proba(rows), tree.predict_proba(rows))
