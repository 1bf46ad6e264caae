"""The order of the rows: the same base models and labels, and equal scores up to rounding.

What the learner sees is rounded to 16 bits, so the order of sums never reaches it. The steps of additive
classifiers are logarithms of sums over the rows, which differ in their last bit when the rows come in another
order; summing exactly (`math.fsum`, or sorted) would take several hundred times as long. The mixtures are in
``test_invariance.py``.
"""

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import make_classification

import tailboost as tb
from tailboost.learners import HistTreeClassifier

# The promise: relative difference of the steps, and difference of the scores over the sum of the steps.
ROUNDING = 1e-12
ROUNDS = 12

TREE = HistTreeClassifier(max_depth=3)
CLASSIFIERS = {
    "adaboost": tb.AdaBoostClassifier(TREE, n_estimators=ROUNDS),
    "vadaboost": tb.VadaBoostClassifier(TREE, n_estimators=ROUNDS),
    "ebboost": tb.EBBoostClassifier(n_estimators=ROUNDS),
    "dro": tb.DROBoostClassifier(TREE, n_estimators=ROUNDS),
    "dro, chi2": tb.DROBoostClassifier(TREE, n_estimators=ROUNDS, uncertainty="chi2", radius=0.02),
    "rlp": tb.SoftMarginBoostClassifier(TREE, n_estimators=ROUNDS, loss="linear"),
    "rqp": tb.SoftMarginBoostClassifier(TREE, n_estimators=ROUNDS),
}


def table(K, grid):
    X, y = make_classification(
        400, 8, n_informative=5, n_classes=K, n_clusters_per_class=1, flip_y=0.2, random_state=K
    )
    return (np.round(2 * X), y) if grid else (X, y)


@pytest.mark.parametrize("name", CLASSIFIERS)
@pytest.mark.parametrize("K", [2, 4])
@pytest.mark.parametrize("grid", [False, True], ids=["continuous", "grid"])
@pytest.mark.parametrize("validation", ["train", 0.3])
@pytest.mark.thinned(4)
def test_order_of_rows_means_rounding_at_most(name, K, grid, validation):
    if name == "ebboost" and K > 2:
        pytest.skip("two classes only")
    X, y = table(K, grid)
    weight = np.random.default_rng(K).integers(1, 4, len(y)).astype(float)
    for seed in range(2):
        order = np.random.default_rng(seed).permutation(len(y))
        one, two = (clone(CLASSIFIERS[name]).set_params(cv=validation, random_state=0) for _ in range(2))
        one.fit(X, y, sample_weight=weight)
        two.fit(X[order], y[order], sample_weight=weight[order])
        assert one.n_iter_ == two.n_iter_
        for a, b in zip(one.estimators_, two.estimators_, strict=True):
            np.testing.assert_array_equal(a.predict(X), b.predict(X))
        np.testing.assert_allclose(one.estimator_weights_, two.estimator_weights_, rtol=ROUNDING)
        np.testing.assert_allclose(
            one.decision_function(X),
            two.decision_function(X),
            rtol=0,
            atol=ROUNDING * one.estimator_weights_.sum(),
        )
        np.testing.assert_array_equal(one.predict(X), two.predict(X))
