"""Trees predicted together answer exactly as each does alone."""

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp

import tailboost as tb
from tailboost.learners import HistTreeClassifier
from tailboost.learners.merge import ROWS_WORTH_MERGING, TREES_PER_PASS
from tailboost.learners.session import predict_members

pytest.importorskip("xgboost")


@pytest.mark.parametrize("n_classes", [2, 4])
@pytest.mark.parametrize("kind", ["array", "frame", "sparse"])
def test_together_is_each_alone(n_classes, kind):
    rng = np.random.default_rng(0)
    n = ROWS_WORTH_MERGING
    X = rng.normal(size=(n, 6))
    y = np.clip((X[:, 0] * X[:, 1] + rng.normal(size=n) + 1) * n_classes / 2, 0, n_classes - 1).astype(int)
    X[rng.random(X.shape) < 0.05] = np.nan
    if kind == "frame":
        X = pd.DataFrame(X).rename(columns=str)
        X["letter"] = pd.Categorical(rng.choice(list("abcdefg"), n))
    if kind == "sparse":
        X = sp.csr_matrix(np.where(rng.random(X.shape) < 0.5, 0.0, np.nan_to_num(X)))
    clf = tb.AdaLPBoostClassifier(
        HistTreeClassifier(max_depth=4),
        n_estimators=TREES_PER_PASS + 3,
        validation="train",
        n_iter_no_change=None,
    ).fit(X, y)
    together = list(predict_members(clf.estimators_, X))
    table = clf.estimators_[0].table_.transform(X)
    for t in range(clf.n_iter_):
        np.testing.assert_array_equal(together[t], clf.estimators_[t].predict_table(table))
