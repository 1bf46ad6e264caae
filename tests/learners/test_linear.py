"""Logistic regression on open tables, compared with scikit-learn's."""

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn.linear_model import LogisticRegression
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.naive_bayes import MultinomialNB
from sklearn.preprocessing import StandardScaler
from threadpoolctl import threadpool_limits

import tailboost as tb
from tailboost.classifiers.default_models import default_estimators
from tailboost.learners import linear
from tailboost.learners.linear import TableBayes, TableLinear
from tailboost.learners.table import OpenTable


def rows(seed, n=400, d=4, K=3):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d)).astype(np.float32) * [1.0, 10.0, 0.1, 3.0][:d] + 5.0
    y = (X @ rng.normal(size=(d, K)) / 5.0 + rng.gumbel(size=(n, K))).argmax(axis=1)
    return X.astype(np.float32), y


@pytest.mark.parametrize("K", [2, 3, 6])
def test_it_is_scikit_learns_on_standardised_columns(K):
    X, y = rows(K, K=K)
    Z = StandardScaler().fit_transform(X.astype(np.float64)).clip(-linear.CLIPPED_AT, linear.CLIPPED_AT)
    # Two classes have opposite coefficients, whose penalty is half as large.
    theirs = LogisticRegression(C=2.0 if K == 2 else 1.0, tol=1e-8, max_iter=1_000).fit(Z, y)
    ours = TableLinear().fit(X, y)
    np.testing.assert_allclose(ours.predict_proba(X), theirs.predict_proba(Z), atol=3e-3)


@pytest.mark.parametrize(("K", "d"), [(2, 4), (10, 60)])
def test_a_row_alone_is_answered_to_the_bit_as_among_others(K, d):
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(600, d)), rng.integers(0, K, 600)
    model = TableLinear().fit(X, y)
    alone = np.vstack([model.predict_proba(X[[i]]) for i in range(200)])
    np.testing.assert_array_equal(alone, model.predict_proba(X)[:200])


def test_a_weight_of_two_is_the_row_twice_in_any_order():
    X, y = rows(1)
    weight = np.random.default_rng(0).integers(1, 4, size=len(y))
    one = TableLinear().fit(X, y, weight)
    order = np.random.default_rng(1).permutation(np.repeat(np.arange(len(y)), weight))
    two = TableLinear().fit(X[order], y[order])
    np.testing.assert_allclose(one.predict_proba(X), two.predict_proba(X), atol=1e-9)


def test_the_order_of_rows_and_threads_change_the_coefficients_by_less_than_1e_5():
    X, y = tb.datasets.load_credit_default(return_X_y=True)
    X = X.astype({name: "category" for name in ("SEX", "EDUCATION", "MARRIAGE")})
    order = np.random.default_rng(0).permutation(len(y))
    one = TableLinear().fit(X, y)
    with threadpool_limits(2, user_api="blas"):
        two = TableLinear().fit(X.iloc[order], y.iloc[order])
    np.testing.assert_allclose(one.coef_, two.coef_, atol=1e-5)


def test_a_missing_number_counts_as_the_mean_and_an_unknown_category_as_none():
    X, y = rows(2, d=2)
    known = TableLinear().fit(X, y)
    at_mean, missing = np.tile(known.mean_, (3, 1)), np.tile(known.mean_, (3, 1))
    missing[:, 1] = np.nan
    np.testing.assert_allclose(known.predict_proba(at_mean), known.predict_proba(missing), atol=1e-6)
    frame = pd.DataFrame({"number": X[:, 0], "letter": np.array(["a", "b", "c"])[y]})
    model = TableLinear().fit(frame, y)
    assert (model.predict(frame) == y).mean() > 0.95
    assert model.feature_importances_.argmax() == 1
    strange = frame.assign(letter="z")
    expected = np.exp(model._numbers(model.table_.transform(strange)) @ model.coef_.T + model.intercept_)
    assert not model._numbers(model.table_.transform(strange))[:, 1:].any()
    np.testing.assert_allclose(
        model.predict_proba(strange), expected / expected.sum(axis=1, keepdims=True), atol=1e-12
    )


def test_sparse_rows_are_scaled_and_absent_entries_add_nothing():
    X, y = rows(3)
    X = np.where(X > 5.0, X - 5.0, 0.0).astype(np.float32)
    scaled = X / np.sqrt((X.astype(np.float64) ** 2).mean(axis=0))
    theirs = LogisticRegression(tol=1e-8, max_iter=1_000).fit(
        scaled.clip(-linear.CLIPPED_AT, linear.CLIPPED_AT), y
    )
    ours = TableLinear().fit(sp.csr_matrix(X), y)
    P = ours.predict_proba(sp.csr_matrix(X))
    np.testing.assert_allclose(P, theirs.predict_proba(scaled.clip(-5.0, 5.0)), atol=3e-3)


def test_of_many_rows_a_part_of_each_class_is_read(monkeypatch):
    X, y = rows(4, n=20_000)
    whole = TableLinear().fit(X, y)
    monkeypatch.setattr(linear, "MOST_ENTRIES", 8_000 * X.shape[1])
    part = TableLinear().fit(X, y)
    assert not np.array_equal(whole.coef_, part.coef_)
    assert np.abs(part.predict_proba(X) - whole.predict_proba(X)).mean() < 0.02
    # With an intercept the mean probabilities are the class frequencies.
    np.testing.assert_allclose(part.predict_proba(X).mean(axis=0), np.bincount(y) / len(y), atol=0.02)


def test_a_fold_without_a_class_knows_the_others():
    X, y = rows(5)
    session = TableLinear().open_table(OpenTable(X), y, 3)
    model = session.fit(np.ones(len(y)), rows=y != 1)
    assert model.classes_.tolist() == [0, 2]
    np.testing.assert_array_equal(model.coef_, TableLinear().fit(X[y != 1], y[y != 1]).coef_)
    assert session.fit(np.ones(len(y)), rows=y == 1).predict(X).tolist() == [1] * len(y)


@pytest.mark.slow
def test_the_default_mixture_knows_a_linear_truth():
    """If log-odds are linear, the regression has the smallest error and the largest weight."""
    rng = np.random.default_rng(6)
    X = rng.normal(size=(600, 10))
    y = (rng.random(600) < 1.0 / (1.0 + np.exp(-X.sum(axis=1)))).astype(int)
    mix = tb.RobustMixtureClassifier(random_state=0, n_jobs=1).fit(X, y)
    Z = rng.normal(size=(5_000, 10))
    truth = 1.0 / (1.0 + np.exp(-Z.sum(axis=1)))
    without = tb.RobustMixtureClassifier(
        [pair for pair in default_estimators() if pair[0] != "linear"], random_state=0, n_jobs=1
    ).fit(X, y)
    far, near = (((m.predict_proba(Z)[:, 1] - truth) ** 2).mean() for m in (without, mix))
    assert near < far / 2


def test_a_kernel_model_is_a_logistic_regression_on_features_that_approximate_gaussian_kernels():
    X, y = rows(0, n=200)
    model = TableLinear(landmarks=100).fit(X, y)
    Z = StandardScaler().fit_transform(X.astype(np.float64)).clip(-linear.CLIPPED_AT, linear.CLIPPED_AT)
    gamma = linear.KERNEL_WIDTH / 4
    size, U = np.linalg.eigh(rbf_kernel(model.landmarks_, gamma=gamma))
    features = rbf_kernel(Z, model.landmarks_, gamma=gamma) @ U / np.sqrt(np.maximum(size, 1e-12))
    assert np.abs(features @ features.T - rbf_kernel(Z, gamma=gamma)).mean() < 1e-3
    expected = (
        LogisticRegression(C=model.C, max_iter=1_000, tol=1e-8).fit(features, y).predict_proba(features)
    )
    np.testing.assert_allclose(model.predict_proba(X), expected, atol=5e-3)


@pytest.mark.parametrize("width", [1, 4, 30])
def test_a_kernel_model_gives_a_row_the_same_probabilities_alone_and_among_others(width):
    rng = np.random.default_rng(width)
    X = rng.normal(size=(600, width))
    X[:, 0] = rng.standard_cauchy(600)
    y = (X.sum(axis=1) + rng.normal(size=600) > 0.0).astype(int)
    model = TableLinear(C=10.0, landmarks=200).fit(X[:500], y[:500])
    whole = model.predict_proba(X)
    for n in (1, 3, 50):
        np.testing.assert_array_equal(model.predict_proba(X[:n]), whole[:n])
    np.testing.assert_array_equal(model.predict_proba(np.tile(X[:37], (9, 1))), np.tile(whole[:37], (9, 1)))
    np.testing.assert_array_equal(model.predict_proba(X[::-1]), whole[::-1])


def test_blocks_of_rows_are_the_whole(monkeypatch):
    X, y = rows(2)
    model = TableLinear().fit(X, y)
    whole = model.predict_proba(X)
    monkeypatch.setattr(linear, "BLOCK_ROWS", 7)
    for n in (1, 7, 8, len(X)):
        np.testing.assert_array_equal(model.predict_proba(X[:n]), whole[:n])
    assert model.predict_proba(X[:0]).shape == (0, whole.shape[1])


def test_a_kernel_model_separates_classes_that_no_line_separates():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(600, 2))
    y = (np.hypot(*X.T) > 1.2).astype(int)
    assert TableLinear().fit(X[:300], y[:300]).score(X[300:], y[300:]) < 0.7
    assert TableLinear(C=10.0, landmarks=100).fit(X[:300], y[:300]).score(X[300:], y[300:]) > 0.95


def test_a_kernel_model_ignores_order_and_repetitions_of_rows(monkeypatch):
    X, y = rows(1)
    weight = np.random.default_rng(0).integers(1, 4, size=len(y))
    one = TableLinear(landmarks=50).fit(X, y, weight)
    order = np.random.default_rng(1).permutation(np.repeat(np.arange(len(y)), weight))
    two = TableLinear(landmarks=50).fit(X[order], y[order])
    np.testing.assert_allclose(one.predict_proba(X), two.predict_proba(X), atol=1e-6)
    whole = one.predict_proba(X)
    monkeypatch.setattr(linear, "BLOCK_ROWS", 7)
    np.testing.assert_allclose(one.predict_proba(X), whole, atol=1e-12)
    with pytest.raises(AttributeError, match="importances"):
        one.feature_importances_  # noqa: B018


def words(seed, n=300, d=40, K=3):
    """Return counts of words whose frequencies depend on the class."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, K, n)
    rate = np.exp(rng.normal(-2, 1.2, d) + rng.normal(0, 0.7, (K, d)))
    return sp.csr_matrix(rng.poisson(rate[y]).astype(np.float32)), y


@pytest.mark.parametrize("K", [2, 4])
@pytest.mark.parametrize("weighted", [False, True])
def test_naive_bayes_is_scikit_learns(K, weighted):
    X, y = words(K, K=K)
    weight = np.random.default_rng(1).integers(0, 3, len(y)).astype(float) if weighted else np.ones(len(y))
    theirs = MultinomialNB(alpha=0.1).fit(X, y, weight)
    for table in (X, X.toarray()):
        ours = TableBayes().fit(table, y, weight)
        np.testing.assert_allclose(ours.predict_proba(table), theirs.predict_proba(X), atol=1e-9)
    broken = X.toarray()
    broken[0, :3] = np.nan, -5.0, 0.0
    mended = np.where(np.isnan(broken), 0.0, broken).clip(0.0)
    np.testing.assert_allclose(ours.predict_proba(broken), theirs.predict_proba(mended), atol=1e-9)


@pytest.mark.parametrize("scaling", [0.0, 0.5])
def test_scaling_divides_by_a_power_of_the_deviations_and_gives_rows_a_mean_squared_length_of_one(scaling):
    X, y = words(5)
    root = np.sqrt(X.multiply(X).mean(axis=0).A1)
    Z = X.toarray() / root**scaling
    Z = (Z / np.sqrt((Z**2).sum(axis=1).mean())).clip(max=linear.CLIPPED_AT)
    theirs = LogisticRegression(tol=1e-8, max_iter=1_000).fit(Z, y)
    ours = TableLinear(scaling=scaling).fit(X, y)
    np.testing.assert_allclose(ours.predict_proba(X), theirs.predict_proba(Z), atol=3e-3)
    dense = TableLinear(scaling=scaling).fit(X.toarray(), y)
    Z = (X.toarray() - X.mean(axis=0).A) / X.toarray().std(axis=0) ** scaling
    Z = (Z / np.sqrt((Z**2).sum(axis=1).mean())).clip(-linear.CLIPPED_AT, linear.CLIPPED_AT)
    theirs = LogisticRegression(tol=1e-8, max_iter=1_000).fit(Z, y)
    # Ours stops at a coarse tolerance; on some processors it ends .00305 away.
    np.testing.assert_allclose(dense.predict_proba(X.toarray()), theirs.predict_proba(Z), atol=5e-3)
