"""The cost falls strictly at every round, on real and made data, with two and more classes."""

from pathlib import Path

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer, load_digits, load_iris, load_wine

import tailboost as tb
from tailboost.learners import HistTreeClassifier, StumpClassifier

DATA = Path(__file__).parents[3] / "shared" / "data"
ROUNDS = 150
LAMBDAS = (0.0, 0.5, 1.0)


def assert_falls(clf):
    """The logarithm of the cost falls at every round with a step, from 0 on."""
    costs = np.append(0.0, clf.log_costs_)
    assert len(costs) > 1
    assert (np.diff(costs) < 0).all()


def classifiers(binary, lam, rounds=ROUNDS):
    yield tb.VadaBoostClassifier(HistTreeClassifier(max_depth=2), variance_weight=lam, n_estimators=rounds)
    if binary:
        yield tb.VadaBoostClassifier(StumpClassifier(), variance_weight=lam, n_estimators=rounds)
        yield tb.EBBoostClassifier(variance_weight=lam, n_estimators=rounds)


@pytest.mark.parametrize("lam", LAMBDAS)
@pytest.mark.parametrize("load", [load_breast_cancer, load_wine, load_digits, load_iris])
def test_cost_falls(load, lam):
    X, y = load(return_X_y=True)
    for clf in classifiers(len(np.unique(y)) == 2, lam, 60):
        assert_falls(clf.fit(X, y))


@pytest.mark.parametrize("lam", LAMBDAS)
def test_cost_falls_with_weights(lam):
    X, y = load_breast_cancer(return_X_y=True)
    s = np.random.default_rng(0).exponential(size=len(y))
    for clf in classifiers(True, lam, 60):
        assert_falls(clf.fit(X, y, sample_weight=s))


@pytest.mark.slow
@pytest.mark.skipif(not DATA.exists(), reason="the real data sets are not here")
@pytest.mark.parametrize("name", ["letter", "yeast", "glass", "ecoli", "page_blocks"])
def test_cost_falls_with_many_classes(name):
    pd = pytest.importorskip("pandas")
    table = pd.read_csv(DATA / f"{name}.csv.gz", na_values="?")
    target = {"letter": "lettr", "glass": "type"}.get(name, "class")
    target = target if target in table else table.columns[-1]
    X = table.drop(columns=[target]).select_dtypes("number")
    for lam in LAMBDAS:
        for clf in classifiers(False, lam):
            assert_falls(clf.fit(X, table[target]))
