"""Trees with a limit on their leaves split as scikit-learn's do."""

import numpy as np
import pytest
from conftest import noisy
from sklearn.tree import DecisionTreeClassifier

import tailboost as tb
from tailboost.learners import HistTreeClassifier


@pytest.mark.parametrize("backend", ["xgboost", "sklearn"])
@pytest.mark.parametrize("K", [2, 3])
@pytest.mark.parametrize("leaves", [2, 5, 9])
def test_leaves(backend, K, leaves):
    if backend == "xgboost":
        pytest.importorskip("xgboost")
    X, y = noisy(1, n=200, K=K)
    s = np.random.default_rng(0).exponential(size=len(y))
    tree = HistTreeClassifier(max_depth=8, max_leaf_nodes=leaves, backend=backend).fit(X, y, sample_weight=s)
    peer = DecisionTreeClassifier(max_depth=8, max_leaf_nodes=leaves, random_state=0).fit(
        X, y, sample_weight=s
    )
    assert tree.get_n_leaves() == peer.get_n_leaves() == leaves
    np.testing.assert_allclose(tree.predict_proba(X), peer.predict_proba(X), atol=1e-5)


def test_boosted_and_refused():
    X, y = noisy(1, n=200, K=3)
    clf = tb.VadaBoostClassifier(HistTreeClassifier(max_leaf_nodes=4), n_estimators=8).fit(X, y)
    assert all(tree.get_n_leaves() <= 4 for tree in clf.estimators_)
    votes = sum(
        a * np.eye(3)[h.predict(X)] for a, h in zip(clf.estimator_weights_, clf.estimators_, strict=True)
    )
    assert (votes.argmax(axis=1) == clf.predict(X)).all()
    with pytest.raises(ValueError, match="'max_leaf_nodes' parameter"):
        HistTreeClassifier(max_leaf_nodes=1).fit(X, y)
