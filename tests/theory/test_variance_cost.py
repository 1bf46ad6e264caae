"""The cost falls strictly at every round, with two and more classes."""

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer, load_digits, load_iris, load_wine

import tailboost as tb
from tailboost.boosting.variance import VariancePenalised
from tailboost.learners import HistTreeClassifier, StumpClassifier

LAMBDAS = (0.0, 0.5, 1.0)


def assert_falls(clf):
    """The logarithm of the cost falls at every round with a step, from 0 on."""
    costs = np.append(0.0, clf.log_costs_)
    assert len(costs) > 1
    assert (np.diff(costs) < 0).all()


def classifiers(binary, lam, rounds=20):
    yield tb.VadaBoostClassifier(HistTreeClassifier(max_depth=2), variance_weight=lam, n_estimators=rounds)
    if binary:
        yield tb.VadaBoostClassifier(StumpClassifier(), variance_weight=lam, n_estimators=rounds)
        yield tb.EBBoostClassifier(variance_weight=lam, n_estimators=rounds)


@pytest.mark.parametrize("lam", LAMBDAS)
@pytest.mark.parametrize("load", [load_breast_cancer, load_wine, load_digits, load_iris])
def test_cost_falls(load, lam):
    X, y = load(return_X_y=True)
    for clf in classifiers(len(np.unique(y)) == 2, lam):
        assert_falls(clf.fit(X, y))


@pytest.mark.parametrize("lam", LAMBDAS)
def test_cost_falls_with_weights(lam):
    X, y = load_breast_cancer(return_X_y=True)
    s = np.random.default_rng(0).exponential(size=len(y))
    for clf in classifiers(True, lam):
        assert_falls(clf.fit(X, y, sample_weight=s))


@pytest.mark.parametrize("lam", LAMBDAS)
def test_the_bound_is_above_the_cost_and_meets_it_at_0(lam):
    """(5) and Figure 1 of Shivaswamy and Jebara 2011: Σ u e^(−2az) beside the cost (3) along a hypothesis."""
    rng = np.random.default_rng(0)
    margins, z, p = rng.normal(size=50), rng.choice([-1.0, 1.0], 50), rng.dirichlet(np.ones(50))
    u, _ = VariancePenalised(lam).weigh(margins, p)

    def cost(a):
        e = np.exp(-margins - a * z)
        mean = p @ e
        return mean**2 + lam * (p @ e**2 - mean**2)

    squared = (p @ np.exp(-margins)) ** 2
    for a in np.linspace(-2, 2, 21):
        bound = squared * (u @ np.exp(-2 * a * z))
        assert cost(a) <= bound * (1 + 1e-12)
        assert abs(a) > 1e-12 or cost(a) == pytest.approx(bound)
