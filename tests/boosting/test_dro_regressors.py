"""DRO boosting with regressors: the projected gradient by finite differences, the descent, the answers."""

import numpy as np
import pytest
from conftest import noisy, refused
from scipy.optimize import minimize_scalar
from sklearn.base import clone
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.linear_model import LinearRegression
from sklearn.multioutput import MultiOutputRegressor
from sklearn.neighbors import KNeighborsRegressor
from sklearn.tree import DecisionTreeRegressor

import tailboost as tb
from tailboost.solvers import worst_case_weights


def objective(margins, p, radius):
    """F of its formula."""
    return worst_case_weights(np.exp(-margins), radius=radius, base=p).value


@pytest.mark.filterwarnings("ignore:no hypothesis:UserWarning")
def test_a_hypothesis_that_is_nowhere_wrong_gets_the_longest_step():
    """A pure leaf, and one with as many rows of each class, where h = 0: F falls for ever with the step."""
    X, y = np.repeat([[0.0], [1.0]], 4, axis=0), np.array([0, 0, 1, 1, 1, 1, 1, 1])
    clf = tb.DROBoostClassifier(DecisionTreeRegressor(), n_estimators=3, radius=0.0).fit(X, y)
    assert clf.estimator_weights_.tolist() == [1, 1, 1]
    for member in clf.estimators_:
        assert not member.predict(X[:4]).any()
        assert (member.predict(X[4:]) > 0).all()
    flat = tb.DROBoostClassifier(DecisionTreeRegressor(), n_estimators=3, radius=0.0)
    assert flat.fit(0 * X, np.arange(8) % 2).n_iter_ == 0  # h = 0 everywhere


@pytest.mark.parametrize("K", [2, 3])
@pytest.mark.parametrize("radius", [0.0, 0.05])
def test_each_round_is_a_projected_gradient_and_an_exact_line_search(radius, K):
    n = 45
    X, y = noisy(3, n=n, K=K)
    weight = np.random.default_rng(0).integers(1, 4, n).astype(float)
    p, rows = weight / weight.sum(), np.arange(n)
    # A leaf without a class lets all true scores rise for ever: with few rows in it there is no minimum.
    tree = DecisionTreeRegressor(max_depth=2, min_samples_leaf=15, random_state=0)
    clf = tb.DROBoostClassifier(tree, n_estimators=3, radius=radius)
    clf.fit(X, y, sample_weight=weight)
    assert len(clf.estimators_) == 3
    scores = np.zeros((n, K))
    for member, step, log_cost in zip(clf.estimators_, clf.estimator_weights_, clf.log_costs_, strict=True):

        def at(f):
            centred = f - f.mean(axis=1, keepdims=True)
            return objective(centred[rows, y], p, radius)

        h = member.predict(X)
        h = np.column_stack([-h, h]) if h.ndim == 1 else h
        # With all losses equal F has a kink: its gradient is one of many.
        if scores.any() or radius == 0:
            eps = 1e-4
            unit = eps * np.eye(n * K).reshape(n * K, n, K)
            gradient = np.array([(at(scores + e) - at(scores - e)) / (2 * eps) for e in unit]).reshape(n, K)
            direction = -gradient / p[:, None]  # the functional gradient in L2(p)
            direction /= np.abs(direction).mean()
            nearest = clone(tree).fit(X, direction, sample_weight=weight).predict(X)
            scaled = h * (p @ (h * direction).sum(axis=1)) / (p @ (h**2).sum(axis=1))
            # Of equally good splits a tree takes one by its seed, so distances are compared, not functions.
            distance, least = (p @ ((found - direction) ** 2).sum(axis=1) for found in (scaled, nearest))
            assert distance == pytest.approx(least, rel=1e-4)
        assert at(scores + step * h) < at(scores)
        if (h[rows, y] > 0).all():
            assert step == 1
        else:
            bracket = (0, step, 2 * step + 1e-9)
            best = minimize_scalar(lambda a, h=h, scores=scores: at(scores + a * h), bracket, tol=1e-10)
            assert at(scores + step * h) == pytest.approx(best.fun, rel=1e-7)
        scores = scores + step * h
        assert log_cost == pytest.approx(np.log(at(scores)), abs=1e-8)
    assert (np.diff(clf.log_costs_) < 0).all()
    assert clf.margins(X, y) == pytest.approx(scores[rows, y])
    f = clf.decision_function(X)
    assert f == pytest.approx(scores[:, 1] if K == 2 else scores)
    assert (clf.predict(X) == scores.argmax(axis=1)).all()
    P = np.exp(scores)
    assert clf.predict_proba(X) == pytest.approx(P / P.sum(axis=1, keepdims=True))
    assert list(clf.staged_decision_function(X))[-1] == pytest.approx(f)


@pytest.mark.parametrize("regressor", [HistGradientBoostingRegressor(max_iter=5), LinearRegression()])
def test_a_regressor_with_one_output_is_fitted_for_each_class(regressor):
    """Least squares of all classes is that of each class, whether the regressor has one output or K."""
    X, y = noisy(4, n=150, K=3)
    given = {"n_estimators": 4, "radius": 0.02, "random_state": 0}
    clf = tb.DROBoostClassifier(regressor, **given).fit(X, y)
    each = tb.DROBoostClassifier(MultiOutputRegressor(regressor), **given).fit(X, y)
    assert clf.decision_function(X) == pytest.approx(each.decision_function(X))
    assert clf.decision_function(X).sum(axis=1) == pytest.approx(np.zeros(150), abs=1e-12)
    assert clf.decision_function(X[:1]) == pytest.approx(clf.decision_function(X)[:1])


def test_a_hypothesis_that_raises_every_true_score_is_not_the_last():
    """Two of three classes share a leaf, so all true scores rise although half of the answers are wrong."""
    X, y = np.repeat([[0.0], [1.0]], 40, axis=0), np.tile([0, 1], 40)
    y[:10], X[:10] = 2, 2.0
    clf = tb.DROBoostClassifier(DecisionTreeRegressor(), n_estimators=5, radius=0.0, random_state=0).fit(X, y)
    assert clf.n_iter_ == 5
    assert clf.estimator_weights_ == pytest.approx(np.ones(5))
    assert (clf.predict(X)[:10] == 2).all()


def test_refused():
    X, y = noisy(0, n=60)
    with pytest.raises(ValueError, match="sample_weight"):
        tb.DROBoostClassifier(KNeighborsRegressor(), radius=0.1).fit(X, y, sample_weight=1 + y)
    refused(lambda: tb.AdaBoostClassifier(DecisionTreeRegressor()).fit(X, y), "classifier")
