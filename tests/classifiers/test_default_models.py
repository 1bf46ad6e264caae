"""Which models the mixture trains by default, by the size of the table."""

import numpy as np
import pytest
import scipy.sparse as sp

from tailboost import RobustMixtureClassifier
from tailboost.classifiers.estimators import default_estimators


@pytest.mark.parametrize(("rows", "trees"), [(5_000, 50), (5_001, "auto")])
def test_many_rows_get_as_many_trees_as_held_out_rows_need(rows, trees):
    models = default_estimators(rows, 20)
    assert list(models) == ["boosted", "forest", "linear"]
    assert models["boosted"].n_estimators == trees


def test_wide_tables_get_the_logistic_regression_alone():
    rng = np.random.default_rng(0)
    X = sp.random(200, 400, 0.1, format="csr", random_state=0)
    y = (np.asarray(X[:, :5].sum(axis=1)).ravel() + 0.1 * rng.normal(size=200) > 0.2).astype(int)
    mix = RobustMixtureClassifier(random_state=0, n_jobs=1).fit(X, y)
    assert list(mix.named_estimators_) == ["linear"]
    assert mix.predict(X[:5]).shape == (5,)
