"""DRO boosting with regressors: the projected gradient by finite differences, the descent, the answers."""

import numpy as np
import pytest
from conftest import SINGLE_SPLIT, noisy
from scipy.optimize import minimize_scalar
from sklearn.base import clone
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.linear_model import LinearRegression
from sklearn.multioutput import MultiOutputRegressor
from sklearn.neighbors import KNeighborsRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeRegressor
from sklearn.utils.estimator_checks import parametrize_with_checks

import tailboost as tb
from tailboost.solvers import worst_case_weights

LOSSES = {
    "exponential": lambda m: np.exp(-m),
    "logistic": lambda m: np.log1p(np.exp(-m)),
    "smoothed_hinge": lambda m: np.where(m >= 1, 0, np.where(m <= 0, 0.5 - m, (1 - m) ** 2 / 2)),
}


def objective(margins, p, loss, uncertainty, radius):
    """F, with the losses of their formulas."""
    return worst_case_weights(LOSSES[loss](margins), uncertainty, radius=radius, base=p).value


CASES = [
    ("exponential", "kl", 0.05), ("exponential", "kl", 0.0), ("logistic", "kl", 0.05),
    ("logistic", "chi2", 0.05), ("smoothed_hinge", "kl", 0.05), ("exponential", "cvar", 0.3),
]  # fmt: skip


@pytest.mark.parametrize("K", [2, 3])
@pytest.mark.parametrize(("loss", "uncertainty", "radius"), CASES)
@pytest.mark.thinned(3)
def test_each_round_is_a_projected_gradient_and_an_exact_line_search(loss, uncertainty, radius, K):
    n = 90
    X, y = noisy(3, n=n, K=K)
    weight = np.random.default_rng(0).integers(1, 4, n).astype(float)
    p, rows = weight / weight.sum(), np.arange(n)
    # A leaf without a class lets all true scores rise for ever: with few rows in it there is no minimum.
    tree = DecisionTreeRegressor(max_depth=2, min_samples_leaf=15, random_state=0)
    clf = tb.DROBoostClassifier(tree, n_estimators=6, radius=radius, loss=loss, uncertainty=uncertainty)
    clf.fit(X, y, sample_weight=weight)
    assert len(clf.estimators_) == 6
    scores = np.zeros((n, K))
    for member, step, log_cost in zip(clf.estimators_, clf.estimator_weights_, clf.log_costs_, strict=True):

        def at(f):
            centred = f - f.mean(axis=1, keepdims=True)
            return objective(centred[rows, y], p, loss, uncertainty, radius)

        h = member.predict(X)
        h = np.column_stack([-h, h]) if h.ndim == 1 else h
        # With all losses equal, and for the CVaR at any margins, F has a kink: its gradient is one of many.
        if uncertainty != "cvar" and (scores.any() or radius == 0):
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
            best = minimize_scalar(
                lambda a, h=h, scores=scores: at(scores + a * h), (0, step, 2 * step + 1e-9), tol=1e-10
            )
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
    given = {"n_estimators": 4, "radius": 0.02, "learning_rate": 0.5, "random_state": 0}
    clf = tb.DROBoostClassifier(regressor, **given).fit(X, y)
    each = tb.DROBoostClassifier(MultiOutputRegressor(regressor), **given).fit(X, y)
    assert clf.decision_function(X) == pytest.approx(each.decision_function(X))
    assert clf.decision_function(X).sum(axis=1) == pytest.approx(np.zeros(150), abs=1e-12)
    assert clf.decision_function(X[:1]) == pytest.approx(clf.decision_function(X)[:1])
    assert 0 <= clf.summary_.error <= 1


def test_a_hypothesis_that_raises_every_true_score_is_not_the_last():
    """Two of three classes share a leaf, so all true scores rise although half of the answers are wrong."""
    X = np.repeat([[0.0], [1.0]], 40, axis=0)
    y = np.tile([0, 1], 40)
    y[:10], X[:10] = 2, 2.0
    clf = tb.DROBoostClassifier(DecisionTreeRegressor(), n_estimators=5, radius=0.0, random_state=0).fit(X, y)
    assert clf.n_iter_ == 5
    assert clf.estimator_weights_ == pytest.approx(np.ones(5))
    assert (clf.predict(X)[:10] == 2).all()


def test_a_linear_model_is_what_steepest_descent_gives():
    """Radius 0 and the logistic loss: with enough rounds the least logistic loss of a linear function."""
    from scipy.optimize import minimize

    X, y = noisy(7, n=200)
    sign = 2.0 * y - 1
    clf = tb.DROBoostClassifier(LinearRegression(), n_estimators=200, radius=0.0, loss="logistic").fit(X, y)
    design = np.column_stack([X, np.ones(200)])
    least = minimize(lambda b: np.log1p(np.exp(-sign * (design @ b))).mean(), np.zeros(X.shape[1] + 1))
    assert np.exp(clf.log_costs_[-1]) == pytest.approx(least.fun, rel=1e-4)


def test_it_generalises_and_radius_keeps_the_tail_down():
    X, y = noisy(1, n=1200)
    fit, new = slice(0, 600), slice(600, None)
    tree = DecisionTreeRegressor(max_depth=3, random_state=0)
    plain, robust = (
        tb.DROBoostClassifier(tree, n_estimators=30, radius=r, learning_rate=0.3).fit(X[fit], y[fit])
        for r in (0.0, 0.3)
    )
    assert plain.score(X[new], y[new]) > np.bincount(y[new]).max() / 600
    loss = [np.exp(-c.margins(X[new], y[new])) for c in (plain, robust)]
    assert np.sort(loss[1])[-60:].mean() < np.sort(loss[0])[-60:].mean()


def test_it_serves_like_any_learner():
    X, y = noisy(2, n=150)
    names = np.array(["no", "yes"])[y]
    tree = DecisionTreeRegressor(max_depth=2)
    clf = tb.DROBoostClassifier(tree, n_estimators=8, random_state=0)
    clf.fit(X, names)
    assert set(clf.predict(X)) == {"no", "yes"}
    assert clf.decision_function(X[:1]) == pytest.approx(clf.decision_function(X)[:1])
    assert clf.feature_importances_.sum() == pytest.approx(1)
    stopped = tb.DROBoostClassifier(tree, n_estimators=30, n_iter_no_change=3, random_state=0).fit(X, names)
    assert 1 <= len(stopped.estimators_) <= 30
    piped = tb.DROBoostClassifier(make_pipeline(StandardScaler(), LinearRegression()), radius=0.01)
    assert piped.fit(X, y).score(X, y) > 0.5
    boosted = tb.DROBoostClassifier(HistGradientBoostingRegressor(max_iter=5), n_estimators=3, radius=0.01)
    assert boosted.fit(X, y).score(X, y) > 0.5


def test_a_model_file_answers_the_same(tmp_path):
    X, y = noisy(2, n=150, K=3)
    names = np.array(["low", "middle", "high"])[y]
    clf = tb.DROBoostClassifier(DecisionTreeRegressor(max_depth=2), n_estimators=5, random_state=0)
    clf.fit(X, names)
    tb.save_model(clf, tmp_path / "m.model")
    loaded = tb.load_model(tmp_path / "m.model")
    assert loaded.decision_function(X) == pytest.approx(clf.decision_function(X))


def test_a_regressor_right_on_every_row_ends_it():
    X, y = np.arange(40.0)[:, None], (np.arange(40) >= 20).astype(int)
    clf = tb.DROBoostClassifier(DecisionTreeRegressor(max_depth=1), radius=0.01).fit(X, y)
    assert clf.n_iter_ == 1
    assert "no error" in clf.trace_.stop_reason
    assert clf.score(X, y) == 1


def test_refused():
    X, y = noisy(0, n=60)
    with pytest.raises(ValueError, match="sample_weight"):
        tb.DROBoostClassifier(KNeighborsRegressor(), radius=0.1).fit(X, y, sample_weight=1 + y)
    with pytest.raises(ValueError, match="classifier"):
        tb.AdaBoostClassifier(DecisionTreeRegressor()).fit(X, y)


# The leaf's least weight is what scikit-learn sets for trees in its check of extreme class weights.
@pytest.mark.thinned(31)
@parametrize_with_checks(
    [
        tb.DROBoostClassifier(
            DecisionTreeRegressor(max_depth=2, min_weight_fraction_leaf=0.01), n_estimators=3, random_state=0
        )
    ],
    expected_failed_checks=lambda estimator: SINGLE_SPLIT,
)
def test_scikit_learns_checks(estimator, check):
    check(estimator)
