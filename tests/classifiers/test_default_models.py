"""Which models the mixture trains by default, by the kind of the table."""

from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.special import expit
from sklearn.feature_extraction.text import TfidfTransformer
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss

from tailboost import RobustMixtureClassifier, load_model, save_model
from tailboost.classifiers.default_models import (
    TableKind,
    default_estimators,
    distinct_numbers,
    strong_estimators,
)
from tailboost.learners import HistBoostClassifier
from tailboost.learners.one_hot import OneHotBoost
from tailboost.rows.rows import TrainingSet


@pytest.mark.parametrize(
    ("rows", "trees", "depth"),
    [(5_000, 50, 6), (5_001, "auto", 6), (50_000, "auto", 6), (50_001, "auto", 8)],
)
def test_more_rows_get_larger_trees_and_as_many_as_held_out_rows_need(rows, trees, depth):
    for make in (default_estimators, strong_estimators):
        boosted = dict(make(TableKind(rows)))["boosted"]
        assert (boosted.n_estimators, boosted.max_depth) == (trees, depth)


def test_few_rows_get_a_kernel_machine_and_strong_a_larger_one():
    for rows, landmarks in ((5_000, 200), (5_001, None)):
        kernel = dict(default_estimators(TableKind(rows))).get("kernel")
        assert (kernel and kernel.landmarks) == landmarks
        names = [name for name, _ in strong_estimators(TableKind(rows))]
        assert names == ["boosted", "forest", "linear", "extra", "kernel"]
        assert dict(strong_estimators(TableKind(rows)))["kernel"].landmarks == 500


@pytest.mark.slow
def test_the_default_mixture_knows_a_smooth_truth():
    """If log-odds are a quadratic function, a kernel machine is nearer to them than trees and lines."""
    rng = np.random.default_rng(6)
    X, Z = rng.normal(size=(600, 6)), rng.normal(size=(5_000, 6))
    y = (rng.random(600) < expit(6.0 - (X**2).sum(axis=1))).astype(int)
    truth = expit(6.0 - (Z**2).sum(axis=1))
    without = [pair for pair in default_estimators() if pair[0] != "kernel"]
    far, near = (
        ((RobustMixtureClassifier(e, random_state=0, n_jobs=1).fit(X, y).predict_proba(Z)[:, 1] - truth) ** 2)
        for e in (without, None)
    )
    assert near.mean() < 0.6 * far.mean()


def problem_of(X, y):
    n = len(y)
    return TrainingSet(X, y, np.ones(n), None, int(y.max()) + 1, np.arange(n), n, None)


def text(n, d=2_000, K=3):
    """Return TF-IDF of made texts: a class has words of its own, beside words of all."""
    rng = np.random.default_rng(0)
    y = rng.integers(0, K, n)
    own = rng.integers(0, 300, (n, 4)) * K + y[:, None]
    words = np.hstack([own, rng.integers(0, d, (n, 30))])
    X = sp.csr_matrix((np.ones(words.size), (np.repeat(np.arange(n), words.shape[1]), words.ravel())), (n, d))
    return TfidfTransformer().fit_transform(X), y


@pytest.mark.slow
def test_wide_sparse_tables_get_linear_models_and_naive_bayes(tmp_path):
    X, y = text(2_000)
    mix = RobustMixtureClassifier(objective="error", random_state=0).fit(X[:800], y[:800])
    assert list(mix.named_estimators_) == ["linear", "plain", "bayes"]
    alone = LogisticRegression().fit(X[:800], y[:800])
    assert log_loss(y[800:], mix.predict_proba(X[800:])) < log_loss(y[800:], alone.predict_proba(X[800:]))
    save_model(mix, tmp_path / "text.model")
    np.testing.assert_array_equal(load_model(tmp_path / "text.model").predict(X), mix.predict(X))
    assert [name for name, _ in strong_estimators(TableKind.of(problem_of(X, y)))] == list(
        mix.named_estimators_
    )
    narrow = RobustMixtureClassifier(random_state=0).fit(X[:100, :50], y[:100])
    assert list(narrow.named_estimators_) == ["boosted", "forest", "linear", "kernel"]


def test_wide_one_hot_tables_get_boosted_trees_that_see_interactions():
    rng = np.random.default_rng(0)
    codes = np.maximum(rng.integers(-4, 8, (1_200, 20)), 0)
    y = (codes[:, 0] == 0) ^ (codes[:, 1] == 0)
    X = sp.csr_matrix(np.eye(8)[codes].reshape(len(y), -1))
    assert distinct_numbers(X) == (1,) * 160
    mix = RobustMixtureClassifier(objective="error", random_state=0).fit(X[:800], y[:800])
    assert list(mix.named_estimators_) == ["boosted", "linear", "bayes"]
    assert mix.score(X[800:], y[800:]) > 0.95
    assert LogisticRegression().fit(X[:800], y[:800]).score(X[800:], y[800:]) < 0.75


def test_columns_that_many_rows_fill_together_are_not_joined_to_categories():
    X = sp.random(400, 150, 0.1, "csr", random_state=0)
    X.data[:] = 1.0
    y = np.arange(400) % 2
    kind = TableKind.of(problem_of(X, y))
    assert kind.is_one_hot
    assert kind.filled < 0.25
    assert type(default_estimators(kind)[0][1]) is HistBoostClassifier
    codes = np.random.default_rng(0).integers(0, 5, (400, 30))
    one_hot = sp.csr_matrix(np.eye(5)[codes].reshape(400, -1))
    kind = TableKind.of(problem_of(one_hot, y))
    assert kind.filled == 1.0
    assert type(default_estimators(kind)[0][1]) is HistBoostClassifier  # few rows
    assert type(default_estimators(replace(kind, n_rows=2_000))[0][1]) is OneHotBoost
    one_hot.data[:100] = 0.0  # stored zeros
    assert TableKind.of(problem_of(one_hot, y)).filled > 0.9


def test_distinct_numbers_are_counted_in_each_column():
    X = np.random.default_rng(0).poisson(1.0, (60, 30)).astype(float)
    each = [len(np.unique(column[column != 0])) for column in X.T]
    for form in (sp.csr_matrix, sp.csc_matrix, sp.coo_array):
        assert distinct_numbers(form(X)) == tuple(each)
    assert distinct_numbers(sp.csr_matrix((5, 3))) == (0, 0, 0)
    stored = sp.csc_matrix(([0.0, 1.0, np.nan, np.nan], ([0, 1, 2, 3], [0, 0, 1, 1])), shape=(5, 2))
    assert distinct_numbers(stored) == (1, 1)  # stored zeros count as others, missing values as one number


def test_wide_sparse_tables_with_many_numbers_get_no_boosted_trees():
    for numbers in ([2] * 150, [1] * 10_001, [1] * 110 + [300] * 100):
        kind = TableKind(1_000, len(numbers), True, tuple(numbers))
        assert "boosted" not in dict(default_estimators(kind))
    some = TableKind(1_000, 150, True, (*[1] * 130, *[5_000] * 20))  # one-hot columns and some of numbers
    assert "boosted" in dict(default_estimators(some))


@pytest.mark.slow
def test_wide_dense_tables_get_trees_on_few_columns(tmp_path):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(450, 320)).astype(np.float32)
    y = ((X[:, 0] > 0) & (X[:, 1] > 0)).astype(int)
    mix = RobustMixtureClassifier(objective="error", random_state=0).fit(X[:300], y[:300])
    assert list(mix.named_estimators_) == ["boosted", "forest", "linear", "kernel"]
    alone = LogisticRegression(max_iter=1_000).fit(X[:300], y[:300])
    assert mix.score(X[300:], y[300:]) > alone.score(X[300:], y[300:])
    save_model(mix, tmp_path / "wide.model")
    np.testing.assert_array_equal(load_model(tmp_path / "wide.model").predict(X), mix.predict(X))
    kind = TableKind.of(problem_of(X, y))
    assert [name for name, _ in strong_estimators(kind)] == list(mix.named_estimators_)
    assert list(dict(default_estimators(TableKind(5_001, 320)))) == ["boosted", "linear", "kernel"]
    assert "kernel" not in dict(default_estimators(TableKind(10_001, 320)))


def test_the_kind_counts_distinct_rows():
    X, y = np.arange(12.0).reshape(6, 2), np.array([0, 1, 0, 1, 0, 1])
    mix = RobustMixtureClassifier(random_state=0).fit(np.repeat(X, 1_000, axis=0), np.repeat(y, 1_000))
    assert [model.n_estimators for model in mix.estimators_[0].models] == [50] * 5
