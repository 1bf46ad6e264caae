"""Boosted trees on the columns that differ most between the classes."""

import numpy as np
import pytest
from sklearn.feature_selection import f_classif

from tailboost import RobustMixtureClassifier, load_model, save_model
from tailboost.learners import HistBoostClassifier
from tailboost.learners.screened import ScreenedBoost, between_classes

pytest.importorskip("xgboost")


def wide(n=240, d=400, K=3):
    """Return a table whose first three columns differ between the classes."""
    rng = np.random.default_rng(0)
    y = rng.integers(0, K, n)
    X = rng.normal(size=(n, d)).astype(np.float32)
    X[:, :3] += 1.5 * rng.normal(size=(K, 3))[y]
    return X, y


def test_columns_are_in_the_order_of_scikit_learns_f_statistic():
    X, y = wide()
    expected, ours = f_classif(X, y)[0], between_classes(X, y, np.ones(len(y)))
    n, K = len(y), y.max() + 1
    np.testing.assert_allclose(ours / (1 - ours) * (n - K) / (K - 1), expected, rtol=1e-4)
    X[:, 5] = 1.0
    X[:, 6] = np.nan
    assert between_classes(X, y, np.ones(n))[[5, 6]].tolist() == [0.0, 0.0]
    counts = np.random.default_rng(1).integers(0, 3, n)
    weighted, repeated = between_classes(X, y, counts), (np.repeat(a, counts, axis=0) for a in (X, y))
    np.testing.assert_allclose(weighted, between_classes(*repeated, np.ones(counts.sum())), atol=1e-6)


def test_the_trees_are_those_of_the_best_columns_alone(tmp_path):
    X, y = wide()
    ours = ScreenedBoost(n_columns=5).fit(X, y)
    best = np.sort(np.argsort(-f_classif(X, y)[0])[:5])
    np.testing.assert_array_equal(ours.columns_, best)
    trees = HistBoostClassifier(n_estimators="auto", max_depth=3, learning_rate=0.2, max_bins=32)
    alone = trees.fit(X[:, best], y).predict_proba(X[:, best])
    np.testing.assert_array_equal(ours.predict_proba(X), alone)
    few = ScreenedBoost(n_columns=500).fit(X[:, :4], y)  # more than there are
    assert few.columns_.tolist() == [0, 1, 2, 3]
    save_model(ours, tmp_path / "wide.model")
    np.testing.assert_array_equal(load_model(tmp_path / "wide.model").predict_proba(X), alone)


@pytest.mark.parametrize("K", [2, 3])
def test_the_models_of_the_folds_answer_new_rows(K):
    X, y = wide(K=K)
    mix = RobustMixtureClassifier([("boosted", ScreenedBoost(5))], cv=3, random_state=0).fit(X, y)
    mean = mix.estimators_[0]
    assert len(mean.models) == 3
    logs = np.mean([np.log(np.maximum(model.predict_proba(X), 1e-6)) for model in mean.models], axis=0)
    expected = np.exp(logs) / np.exp(logs).sum(axis=1, keepdims=True)
    np.testing.assert_allclose(mean.predict_proba(X), expected, atol=1e-12)


def test_a_model_of_all_rows_answers_if_a_fold_lacks_a_class():
    X, y = wide(K=2)
    y[0] = 2  # the only row of its class
    mix = RobustMixtureClassifier([("boosted", ScreenedBoost(5))], objective="error", cv=3, random_state=0)
    model = mix.fit(X, y).estimators_[0]
    assert isinstance(model, ScreenedBoost)
    assert model.classes_.tolist() == [0, 1, 2]
