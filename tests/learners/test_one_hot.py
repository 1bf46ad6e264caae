"""Boosted trees on one-hot columns that are read as categories."""

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp

from tailboost import load_model, save_model
from tailboost.learners import HistBoostClassifier
from tailboost.learners.one_hot import OneHotBoost, first_columns

pytest.importorskip("xgboost")
TREES = {"n_estimators": 8, "max_depth": 3, "learning_rate": 0.3}


def one_hot(n=400, columns=6, K=3):
    """Return codes from 0 to 4, their one-hot columns, and labels by sets of the codes."""
    rng = np.random.default_rng(0)
    codes = rng.integers(0, 5, (n, columns))
    y = (np.isin(codes[:, 0], [0, 3]) * 1 + np.isin(codes[:, 1], [1, 2]) * 1) % K
    return codes, sp.csr_matrix(np.eye(5, dtype=np.float32)[codes].reshape(n, -1)), y


def test_runs_of_columns_that_exclude_each_other_are_joined():
    _, X, _ = one_hot()
    assert first_columns(X).tolist() == [0, 5, 10, 15, 20, 25]
    numbers = sp.csr_matrix(np.random.default_rng(1).normal(size=(400, 2)))
    mixed = sp.csc_array(sp.hstack([X[:, :10], numbers, X[:, 10:], sp.csr_matrix((400, 1))]))
    assert first_columns(mixed).tolist() == [0, 5, 10, 11, 12, 17, 22, 27]
    assert first_columns(sp.csr_matrix((4, 3))).tolist() == [0]


@pytest.mark.parametrize("K", [2, 3])
def test_the_trees_are_those_of_the_categories(K, tmp_path):
    codes, X, y = one_hot(K=K)
    numbers = np.random.default_rng(1).normal(size=(400, 1)).astype(np.float32)
    table = sp.csr_matrix(sp.hstack([X, sp.csr_matrix(numbers)]))
    frame = (
        pd.DataFrame(codes, columns=list("abcdef"))
        .astype(pd.CategoricalDtype(range(5)))
        .assign(number=numbers)
    )
    ours = OneHotBoost(**TREES).fit(table, y)
    alone = HistBoostClassifier(**TREES).fit(frame, y)
    np.testing.assert_array_equal(ours.predict_proba(table), alone.predict_proba(frame))
    assert (ours.predict(table) == y).mean() > 0.95
    importances = ours.feature_importances_
    np.testing.assert_allclose(importances[:5], alone.feature_importances_[0] / 5)
    assert importances.shape == (31,)
    assert importances[:10].sum() > 0.9
    save_model(ours, tmp_path / "trees.model")
    loaded = load_model(tmp_path / "trees.model")
    np.testing.assert_array_equal(loaded.predict_proba(table), ours.predict_proba(table))


def test_the_order_of_entries_does_not_matter():
    _, X, y = one_hot()
    model = OneHotBoost(**TREES).fit(X, y)
    both = X[:20].toarray()
    both[:, :5] = 1.0  # no row of the fit fills two columns
    both[0, 7] = np.nan
    rows = sp.csr_matrix(both)
    backwards = sp.csr_matrix((rows.data[::-1], rows.indices[::-1], rows.nnz - rows.indptr[::-1]), rows.shape)
    expected = model.predict_proba(both)
    np.testing.assert_array_equal(model.predict_proba(rows), expected)
    np.testing.assert_array_equal(model.predict_proba(backwards), expected[::-1])
