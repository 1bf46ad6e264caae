"""How the models behind a mixture are fitted, and what is kept of them."""

import numpy as np
import pytest
from conftest import noisy

from tailboost import RobustMixtureClassifier
from tailboost.data import Problem
from tailboost.learners import HistBoostClassifier
from tailboost.learners._forest import TableForest
from tailboost.learners._table import OpenTable
from tailboost.mixture._fitting import fit_models
from tailboost.validation import Split


def problem_of(X, y):
    n = len(y)
    return Problem(X, y, np.ones(n), None, int(y.max()) + 1, np.arange(n), n, None)


def judged_by(estimators, problem, **options):
    classes = np.arange(problem.n_classes)
    options = {"validation": "cv", "weighted": False, "seed": 0, "n_jobs": None} | options
    return fit_models(estimators, problem, classes, **options)[0]


def test_boosted_trees_are_judged_by_the_folds_models_and_stay_as_their_mean():
    rng = np.random.default_rng(0)
    X = rng.integers(0, 6, (300, 4)).astype(float)  # every fold has all values, so that all cuts are the same
    y = (X[:, 0] + X[:, 1] > 5).astype(int) + (rng.random(300) < 0.2)
    problem = problem_of(X, y)
    judged = judged_by([("boosted", HistBoostClassifier(n_estimators=5))], problem)
    parts = Split.of(problem, "cv", 0).parts
    alone = [HistBoostClassifier(n_estimators=5).fit(X[~held], y[~held]) for held in parts]
    for held, model in zip(parts, alone, strict=True):
        np.testing.assert_allclose(np.exp(judged.logs[0][held]), model.predict_proba(X[held]), rtol=1e-5)
    fresh = rng.integers(0, 6, (50, 4)).astype(float)
    mean = np.mean([model.predict_proba(fresh) for model in alone], axis=0)
    np.testing.assert_allclose(np.exp(judged.models.transform(fresh)[(0,)]), mean, rtol=1e-5)
    np.testing.assert_allclose(judged.models.fitted[0].predict_proba(fresh), mean, rtol=1e-5)


@pytest.mark.parametrize("validation", ["cv", 0.3])
def test_a_forest_does_not_know_the_rows_that_judge_it(validation):
    X = np.random.default_rng(1).normal(size=(400, 5))
    y = np.random.default_rng(2).integers(
        0, 2, 400
    )  # noise: who has seen a row knows it, who has not, cannot
    judged = judged_by(
        [("forest", TableForest(n_trees=30, leaf_rows=1.0))], problem_of(X, y), validation=validation
    )
    errors = judged.logs[0].argmax(axis=1) != judged.rows.y
    assert 0.35 < errors.mean() < 0.65
    kept = judged.models.fitted[0]
    assert len([tree for batch in kept.batches_ for tree in batch.estimators_]) == 30
    assert np.mean(kept.predict(X) == y) > 0.9


def test_the_default_models_read_one_table(monkeypatch):
    X, y = noisy(3, n=120, K=3)
    read, open_table = [], OpenTable.of
    monkeypatch.setattr(OpenTable, "of", lambda table: read.append(len(table)) or open_table(table))
    mix = RobustMixtureClassifier(n_thresholds=5, random_state=0).fit(X, y)
    assert read == [120]
    np.testing.assert_array_equal(mix.fit(X, y).predict(X), mix.set_params(n_jobs=2).fit(X, y).predict(X))


def test_a_number_beyond_float32_is_refused_and_named():
    X, y = noisy(3, n=60, K=2)
    X[7, 1] = 1e300
    with pytest.raises(ValueError, match=r"too large for float32 in column\(s\) \['1'\]"):
        RobustMixtureClassifier(random_state=0).fit(X, y)
    X[7, 1] = 0.0
    mix = RobustMixtureClassifier(n_thresholds=5, random_state=0).fit(X, y)
    X[7, 1] = 1e300
    with pytest.raises(ValueError, match="too large for float32"):
        mix.predict(X)
