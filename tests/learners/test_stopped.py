"""Boosted trees that stop early, compared with scikit-learn's."""

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.datasets import load_breast_cancer
from sklearn.ensemble import HistGradientBoostingClassifier

from tailboost.learners.stopped import StoppedBoost


def test_it_is_scikit_learns_classifier_on_the_table():
    X, y = load_breast_cancer(return_X_y=True)
    X = X.astype(np.float32)
    X[::5, 0] = np.nan
    theirs = HistGradientBoostingClassifier(
        learning_rate=0.1, max_iter=200, max_leaf_nodes=15, min_samples_leaf=10, max_features=0.5,
        early_stopping=True, validation_fraction=0.15, random_state=3,
    ).fit(X, y, np.ones(len(y)))  # fmt: skip
    ours = StoppedBoost(random_state=3).fit(X, y)
    np.testing.assert_allclose(ours.predict_proba(X), theirs.predict_proba(X))


@pytest.mark.parametrize("counts", [(3, 3, 3), (1, 30), (20, 1, 1)])
def test_few_rows_of_a_class_fit_without_early_stopping(counts):
    y = np.repeat(np.arange(len(counts)), counts)
    X = np.random.default_rng(0).normal(size=(len(y), 2))
    assert StoppedBoost(random_state=0).fit(X, y).predict_proba(X).shape == (len(y), len(counts))


def test_absent_entries_of_a_sparse_matrix_are_zeros():
    X, y = load_breast_cancer(return_X_y=True)
    X = np.where(np.median(X, axis=0) > X, 0.0, X).astype(np.float32)
    dense, sparse = (StoppedBoost(random_state=0).fit(rows, y) for rows in (X, sp.csr_matrix(X)))
    np.testing.assert_allclose(dense.predict_proba(X), sparse.predict_proba(sp.csr_matrix(X)))
