"""Which models the mixture trains by default, by the kind of the table."""

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.linear_model import LogisticRegression

from tailboost import RobustMixtureClassifier, load_model, save_model
from tailboost.boosting.training_set import TrainingSet
from tailboost.classifiers.default_models import TableKind, default_estimators, strong_estimators


@pytest.mark.parametrize(
    ("rows", "trees", "depth"),
    [(5_000, 100, 6), (5_001, "auto", 6), (50_000, "auto", 6), (50_001, "auto", 8)],
)
def test_more_rows_get_larger_trees_and_as_many_as_held_out_rows_need(rows, trees, depth):
    for make in (default_estimators, strong_estimators):
        boosted = dict(make(TableKind(rows)))["boosted"]
        assert (boosted.n_estimators, boosted.max_depth) == (trees, depth)


def problem_of(X, y):
    n = len(y)
    return TrainingSet(X, y, np.ones(n), None, int(y.max()) + 1, np.arange(n), n, None)


def text(n=600, d=2_000, K=3):
    """Return sparse counts: a class has words of its own, beside words of all."""
    rng = np.random.default_rng(0)
    y = rng.integers(0, K, n)
    own = rng.integers(0, 300, (n, 4)) * K + y[:, None]
    words = np.hstack([own, rng.integers(0, d, (n, 30))])
    X = sp.csr_matrix((np.ones(words.size), (np.repeat(np.arange(n), words.shape[1]), words.ravel())), (n, d))
    return X, y


def test_wide_sparse_tables_get_linear_models_and_naive_bayes(tmp_path):
    X, y = text()
    mix = RobustMixtureClassifier(objective="error", random_state=0).fit(X[:400], y[:400])
    assert list(mix.named_estimators_) == ["linear", "plain", "bayes"]
    alone = LogisticRegression().fit(X[:400], y[:400])
    assert mix.score(X[400:], y[400:]) > alone.score(X[400:], y[400:])
    save_model(mix, tmp_path / "text.model")
    np.testing.assert_array_equal(load_model(tmp_path / "text.model").predict(X), mix.predict(X))
    assert [name for name, _ in strong_estimators(TableKind.of(problem_of(X, y)))] == list(
        mix.named_estimators_
    )
    narrow = RobustMixtureClassifier(random_state=0).fit(X[:100, :50], y[:100])
    assert list(narrow.named_estimators_) == ["boosted", "forest", "linear"]


def test_the_kind_counts_distinct_rows():
    X, y = np.arange(12.0).reshape(6, 2), np.array([0, 1, 0, 1, 0, 1])
    mix = RobustMixtureClassifier(random_state=0).fit(np.repeat(X, 1_000, axis=0), np.repeat(y, 1_000))
    assert [model.n_estimators for model in mix.estimators_[0].models] == [100] * 5
