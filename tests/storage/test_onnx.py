"""ONNX files of robust mixtures predict like `predict`."""

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.datasets import make_classification
from sklearn.ensemble import ExtraTreesClassifier, RandomForestClassifier
from sklearn.linear_model import LogisticRegression

import tailboost as tb
from tailboost.learners import HistBoostClassifier
from tailboost.learners.forest import TableForest
from tailboost.learners.linear import TableLinear
from tailboost.learners.one_hot import OneHotBoost
from tailboost.learners.screened import ScreenedBoost
from tailboost.rates import deferred, error

pytest.importorskip("onnx")
ort = pytest.importorskip("onnxruntime")


def asked(path, X):
    options = ort.SessionOptions()
    options.intra_op_num_threads = 1
    session = ort.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    return session.run(None, {"X": X.astype(np.float32)})


def rows(K):
    X, y = make_classification(900, n_features=8, n_classes=K, n_informative=5, flip_y=0.2, random_state=K)
    X = X.astype(np.float32).astype(float)
    X[np.random.default_rng(0).random(X.shape) < 0.1] = np.nan
    return X, y


@pytest.mark.thinned(3)
@pytest.mark.parametrize("K", [2, 3])
@pytest.mark.parametrize(
    "params", [{}, {"randomized": True, "max_error": 0.3}, {"objective": "cvar", "alpha": 0.7}], ids=str
)
def test_default_models(K, params, tmp_path):
    X, y = rows(K)
    labels = y if K == 2 else np.array(["a", "b", "c"])[y]
    models = [
        ("boosted", HistBoostClassifier(n_estimators=8, max_depth=3)),
        ("forest", TableForest(n_trees=10)),
        ("linear", TableLinear()),
    ]
    mix = tb.RobustMixtureClassifier(models, random_state=0, **params).fit(X[:500], labels[:500])
    tb.export_onnx(mix, tmp_path / "m.onnx")
    said, shares = asked(tmp_path / "m.onnx", X)
    np.testing.assert_array_equal(said, mix.predict(X))
    np.testing.assert_allclose(shares, mix.predict_distribution(X), atol=1e-5)
    assert asked(tmp_path / "m.onnx", X[:1])[0][0] == said[0]


@pytest.mark.slow
@pytest.mark.parametrize("K", [2, 3])
def test_models_of_wide_tables(K, tmp_path):
    X, y = rows(K)
    X = np.hstack([np.random.default_rng(1).normal(size=(900, 6)), X])  # the trees use the later columns
    models = [("boosted", ScreenedBoost(n_columns=5)), ("kernel", TableLinear(C=10.0, landmarks=40))]
    mix = tb.RobustMixtureClassifier(models, random_state=0).fit(X[:500], y[:500])
    assert all(model.columns_.max() > 5 for model in mix.estimators_[0].models)
    tb.export_onnx(mix, tmp_path / "m.onnx")
    said, shares = asked(tmp_path / "m.onnx", X)
    np.testing.assert_array_equal(said, mix.predict(X))
    np.testing.assert_allclose(shares, mix.predict_distribution(X), atol=1e-5)
    for number in (0, 1):  # each model alone, so that no small weight hides it
        alone = tb.RobustMixtureClassifier(models[number : number + 1], random_state=0).fit(X[:500], y[:500])
        tb.export_onnx(alone, tmp_path / "one.onnx")
        np.testing.assert_array_equal(asked(tmp_path / "one.onnx", X)[0], alone.predict(X))


@pytest.mark.parametrize("randomized", [False, True])
@pytest.mark.parametrize("K", [2, 3])
def test_deferral_at_ties(K, randomized, tmp_path):
    """Values are on a grid; the rows asked about are at the split points and one number beside them."""
    rng = np.random.default_rng(K)
    X = rng.integers(0, 5, (300, 3)) / 10
    z = X[:, 0] + X[:, 1] / 2 + rng.normal(size=300) * 0.2
    y = np.digitize(z, np.quantile(z, np.linspace(0, 1, K + 1)[1:-1]))
    models = [
        ("boosted", HistBoostClassifier(n_estimators=4, max_depth=2)),
        ("linear", TableLinear()),
    ]
    mix = tb.RobustMixtureClassifier(
        models, limits=[deferred() <= 0.2], randomized=randomized, random_state=0
    ).fit(X, y)
    tb.export_onnx(mix, tmp_path / "m.onnx")
    grid = (np.arange(9) / 20).astype(np.float32)
    near = np.concatenate([grid, np.nextafter(grid, np.float32(1)), np.nextafter(grid, np.float32(-1))])
    rows = rng.choice(near, (2000, 3))
    label, shares, review = asked(tmp_path / "m.onnx", rows)
    np.testing.assert_array_equal(label, mix.predict(rows.astype(float)))
    np.testing.assert_allclose(shares, mix.predict_distribution(rows.astype(float)), atol=1e-6)
    np.testing.assert_array_equal(review, mix.defers(rows.astype(float)))
    assert 0 < review.mean() < 1


def test_what_has_no_graph_is_refused(tmp_path):
    X, y = rows(2)
    groups = np.where(np.nan_to_num(X[:, 1]) > 0, "x", "y")  # known from a feature
    models = [("boosted", HistBoostClassifier(n_estimators=4))]
    limits = [error(by="group") <= 0.9]
    mix = tb.RobustMixtureClassifier(models, limits=limits, infer_groups=True, random_state=0)
    mix.fit(X, y, groups=groups)
    with pytest.raises(ValueError, match=r"needs groups.* save_model and load_model .* rule_\.to_sql"):
        tb.export_onnx(mix, tmp_path / "m.onnx")
    with pytest.raises(
        TypeError, match=r"RobustMixtureClassifier.* to_sql\(\) and to_python\(\).* load_rule"
    ):
        tb.export_onnx(LogisticRegression(), tmp_path / "m.onnx")
    pd = pytest.importorskip("pandas")
    table = pd.DataFrame({"a": X[:, 1], "c": pd.Categorical(groups)})
    table["a"] = np.nan_to_num(table["a"]) + 3 * y
    with pytest.raises(ValueError, match="categories"):
        tb.export_onnx(tb.RobustMixtureClassifier(models, random_state=0).fit(table, y), tmp_path / "m.onnx")
    one_hot = sp.csr_matrix(np.eye(4)[np.random.default_rng(0).integers(0, 4, len(y))])
    mix = tb.RobustMixtureClassifier([("boosted", OneHotBoost(n_estimators=4))], random_state=0)
    with pytest.raises(ValueError, match=r"one-hot columns as categories.*without it"):
        tb.export_onnx(mix.fit(one_hot, y), tmp_path / "m.onnx")
    assert not (tmp_path / "m.onnx").exists()


@pytest.mark.parametrize("forest", [RandomForestClassifier, ExtraTreesClassifier])
def test_forests_of_scikit_learn(forest, tmp_path):
    X, y = rows(3)
    mix = tb.RobustMixtureClassifier([("f", forest(10, random_state=0))], random_state=0).fit(
        X[:500], y[:500]
    )
    tb.export_onnx(mix, tmp_path / "m.onnx")
    np.testing.assert_array_equal(asked(tmp_path / "m.onnx", X)[0], mix.predict(X))


def test_models_of_scikit_learn(tmp_path):
    pytest.importorskip("skl2onnx")
    X, y = rows(3)
    X = np.nan_to_num(X)
    mix = tb.RobustMixtureClassifier([("line", LogisticRegression())], random_state=0).fit(X, y)
    tb.export_onnx(mix, tmp_path / "m.onnx")
    said = asked(tmp_path / "m.onnx", X)[0]
    assert (said == mix.predict(X)).mean() > 0.99  # the converter uses float32


@pytest.mark.parametrize("K", [2, 3])
@pytest.mark.parametrize("project", ["xgboost", "lightgbm"])
def test_models_of_other_projects(project, K, tmp_path):
    """Trees are written in float64, so that rows at a threshold reach the same leaf."""
    module = pytest.importorskip(project)
    X, y = rows(K)
    X = np.round(X, 2)  # many rows are at thresholds
    if project == "xgboost":
        models = [("m", module.XGBClassifier(n_estimators=8, max_depth=4, n_jobs=1, base_score=0.3))]
    else:
        models = [("m", module.LGBMClassifier(n_estimators=8, n_jobs=1, verbose=-1))]
    X = X.astype(np.float32)
    mix = tb.RobustMixtureClassifier(models, random_state=0).fit(X[:500], y[:500])
    tb.export_onnx(mix, tmp_path / "m.onnx")
    said, shares = asked(tmp_path / "m.onnx", X)
    np.testing.assert_array_equal(said, mix.predict(X))
    np.testing.assert_allclose(shares, mix.predict_distribution(X), atol=1e-5)


def test_boosters_that_stopped_early_answer_as_they_do(tmp_path):
    xgboost = pytest.importorskip("xgboost")
    X, y = rows(2)
    X = X.astype(np.float32)
    early = xgboost.XGBClassifier(n_estimators=60, early_stopping_rounds=2, learning_rate=0.9, n_jobs=1)
    early.fit(X[:400], y[:400], eval_set=[(X[400:600], y[400:600])], verbose=False)
    assert early.best_iteration < early.get_booster().num_boosted_rounds() - 1
    mix = tb.tune(early, X[600:], y[600:])
    tb.export_onnx(mix, tmp_path / "m.onnx")
    np.testing.assert_array_equal(asked(tmp_path / "m.onnx", X)[0], mix.predict(X))
    linear = xgboost.XGBClassifier(booster="gblinear", n_estimators=3).fit(np.nan_to_num(X[:400]), y[:400])
    with pytest.raises(ValueError, match=r"gblinear.*Without ONNX, save_model and load_model"):
        tb.export_onnx(tb.tune(linear, np.nan_to_num(X[600:]), y[600:]), tmp_path / "m.onnx")
