"""Forests on open tables, and numbers for linear models."""

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.ensemble import ExtraTreesClassifier
from sklearn.preprocessing import StandardScaler

from tailboost.learners.table import PRIOR, TableForest, TableNumbers

K = 3


def rows(seed, n=300):
    rng = np.random.default_rng(seed)
    X = rng.integers(0, 6, (n, 4)).astype(float)
    y = np.clip((X[:, 0] + X[:, 1] * rng.random(n) > 4).astype(int) + (rng.random(n) < 0.1), 0, K - 1)
    return X, y


def test_a_fold_is_judged_by_trees_that_did_not_see_it():
    X, y = rows(0)
    fold, one = np.arange(len(y)) % 5, np.ones(len(y))
    session = TableForest().open_session(X, y, K)
    for j in range(5):
        model, noise = session.fit(one, 0, fold != j), np.where(fold == j, K - 1 - y, y)
        other = TableForest().open_session(X, noise, K)
        np.testing.assert_array_equal(other.fit(one, 0, fold != j).predict_proba(X), model.predict_proba(X))


@pytest.mark.parametrize("form", [np.asarray, sp.csr_matrix])
def test_it_is_scikit_learns_forest_with_a_prior(form):
    X, y = rows(1)
    weight = np.random.default_rng(1).integers(0, 3, len(y)).astype(float)
    ours = TableForest(20, random_state=3).fit(form(X), y, weight).predict_proba(form(X))
    seed = int(np.random.RandomState(3).randint(2**31 - 1))
    forest = ExtraTreesClassifier(20, max_features=0.5, min_samples_leaf=2, random_state=seed)
    used = weight > 0
    theirs = forest.fit(X[used].astype(np.float32), y[used], weight[used]).predict_proba(X)
    shares = np.bincount(y, weight) / weight.sum()
    np.testing.assert_allclose(ours, (1 - PRIOR) * theirs + PRIOR * shares, atol=1e-12)


def test_a_class_that_a_fold_lacks_and_labels_of_text():
    X, y = rows(2)
    session = TableForest().open_session(X, y, K)
    P = session.fit(np.ones(len(y)), 0, y != 1).predict_proba(X)
    assert P.shape == (len(y), K)
    assert (P[:, 1] == 0).all()
    forest = TableForest(30, random_state=0).fit(X, np.array(["a", "b", "c"])[y])
    assert (forest.predict(X) == np.array(["a", "b", "c"])[y]).mean() > 0.8


def test_numbers_for_a_linear_model():
    rng = np.random.default_rng(0)
    values = rng.normal(3, 2, 200)
    frame = pd.DataFrame({"x": values, "c": rng.choice(["u", "v", "w"], 200)})
    numbers = TableNumbers().fit(frame)
    table = numbers.transform(frame)
    assert table.shape == (200, 4)
    scaled = StandardScaler().fit_transform(values[:, None])
    np.testing.assert_allclose(table[:, :1], scaled, atol=1e-5)
    np.testing.assert_array_equal(table[:, 1:].argmax(axis=1), frame["c"].factorize(sort=True)[0])
    unknown = pd.DataFrame({"x": [np.nan], "c": ["new"]})
    np.testing.assert_array_equal(numbers.transform(unknown), np.zeros((1, 4)))  # the mean, no category
    clone(numbers)


def test_numbers_of_a_sparse_matrix():
    dense = np.random.default_rng(0).poisson(0.3, (100, 5)) * 1.0
    sparse = TableNumbers().fit_transform(sp.csr_matrix(dense))
    np.testing.assert_allclose(sparse.toarray(), (dense / dense.std(axis=0)).clip(-5, 5), rtol=1e-5)
