"""The trade-off curve against linear programs of HiGHS through SciPy, and on degenerate pools."""

import numpy as np
import pytest
from scipy.optimize import linprog
from sklearn.datasets import load_breast_cancer, load_digits
from sklearn.tree import DecisionTreeClassifier

from tailboost.solvers import cvar, worst_mean_curve
from tailboost.solvers.tradeoff import undominated

BUDGETS = 20


def reference(losses, means, limit, alpha=None, base=None):
    """Least CVaR (largest loss for alpha=None) within the limit, by the textbook linear program."""
    T, n = losses.shape
    if alpha is None:  # columns λ, v
        cost, A = np.r_[np.zeros(T), 1.0], np.c_[losses.T, -np.ones(n)]
    else:  # columns λ, η, excess of each unit
        p = np.full(n, 1 / n) if base is None else base / base.sum()
        cost, A = np.r_[np.zeros(T), 1.0, p / alpha], np.c_[losses.T, -np.ones(n), -np.eye(n)]
    A = np.vstack([A, np.r_[means, np.zeros(A.shape[1] - T)]])
    bounds = [(0, None)] * T + [(None, None)] + [(0, None)] * (A.shape[1] - T - 1)
    simplex = np.r_[np.ones(T), np.zeros(A.shape[1] - T)][None]
    found = linprog(cost, A, np.r_[np.zeros(n), limit], simplex, [1.0], bounds, method="highs")
    assert found.status == 0, found.message
    return found.fun


def on_curve(curve, limit):
    return float(np.interp(limit, curve.mean, curve.worst))


def unit_pool(seed):
    """Return random errors on units, with equal and dominated candidates."""
    rng = np.random.default_rng(seed)
    T, m = int(rng.integers(1, 40)), int(rng.integers(1, 25))
    errors = rng.beta(1, 4, (T, m))
    if seed % 2:
        errors = errors.round(1)  # ties
    if seed % 3 == 0:
        errors = np.vstack([errors, errors[:2], errors[:1] + 0.01])
    mass = rng.dirichlet(np.ones(m))
    means = errors @ mass if seed % 4 else rng.random(len(errors))  # a mean over other rows too
    return errors, means


def fitted_pool(load, n_members):
    """Errors by class of weighted trees on rows they were not fitted on, and their zero-one losses."""
    X, y = load(return_X_y=True)
    rng = np.random.default_rng(0)
    train, wrong = rng.random(len(y)) < 0.5, []
    for t in range(n_members):
        weight = rng.dirichlet(np.ones(y.max() + 1))[y]
        tree = DecisionTreeClassifier(max_depth=3, random_state=t).fit(X[train], y[train], weight[train])
        wrong.append(tree.predict(X[~train]) != y[~train])
    wrong, y = np.array(wrong), y[~train]
    errors = np.array([wrong[:, y == k].mean(axis=1) for k in np.unique(y)]).T
    return wrong, errors


def check_curve(curve, losses, means, alpha=None, base=None, tolerance=1e-9):
    """Each point is attained; the curve falls and is convex; no mixture lies below the curve."""
    assert (np.diff(curve.mean) > 0).all()
    assert (np.diff(curve.worst) < 0).all()
    if len(curve) > 2:
        slopes = np.diff(curve.worst) / np.diff(curve.mean)
        assert (np.diff(slopes) > -1e-6).all()
    assert np.allclose(curve.mixture.sum(axis=1), 1)
    assert (curve.mixture >= 0).all()
    np.testing.assert_allclose(curve.mixture @ means, curve.mean, atol=1e-12)
    for lam, worst in zip(curve.mixture, curve.worst, strict=True):
        combined = lam @ losses
        assert worst == pytest.approx(combined.max() if alpha is None else cvar(combined, alpha, base))
    assert curve.gap <= tolerance
    for limit in np.linspace(means.min(), max(curve.mean[-1], means.min() + 1e-3) * 1.02, BUDGETS):
        truth = reference(losses, means, limit, alpha, base)
        assert on_curve(curve, limit) == pytest.approx(truth, abs=max(1e-8, 2 * tolerance))


@pytest.mark.parametrize("seed", range(8))
def test_the_curve_over_units_is_that_of_linear_programs(seed):
    errors, means = unit_pool(seed)
    check_curve(worst_mean_curve(errors, means), errors, means)


@pytest.mark.parametrize("load", [load_digits, load_breast_cancer])
def test_the_curve_of_fitted_trees(load):
    wrong, errors = fitted_pool(load, 30)
    means = wrong.mean(axis=1)
    curve = worst_mean_curve(errors, means)
    assert len(curve) > 2
    check_curve(curve, errors, means)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("alpha", [0.05, 0.4])
def test_the_curve_of_a_tail(alpha, weighted):
    wrong, _ = fitted_pool(load_breast_cancer, 12)
    rng = np.random.default_rng(1)
    base = rng.integers(0, 4, wrong.shape[1]).astype(float) if weighted else None
    means = wrong.astype(float) @ (np.full(wrong.shape[1], 1) if base is None else base)
    means /= wrong.shape[1] if base is None else base.sum()
    curve = worst_mean_curve(wrong, means, alpha, base)
    check_curve(curve, wrong.astype(float), means, alpha, base, tolerance=1e-8)
    dense = worst_mean_curve(wrong.astype(float), means, alpha, base)
    np.testing.assert_allclose(np.interp(dense.mean, curve.mean, curve.worst), dense.worst, atol=1e-8)


@pytest.mark.parametrize(("errors", "means", "corners"), [
    pytest.param([[0.2, 0.4]], [0.3], [(0.3, 0.4)], id="one member"),
    pytest.param([[0.2, 0.4]] * 3, [0.3] * 3, [(0.3, 0.4)], id="equal members"),
    pytest.param([[0.3], [0.2]], [0.1, 0.2], [(0.1, 0.3), (0.2, 0.2)], id="one unit"),
    pytest.param([[0.2, 0.3], [0.4, 0.4]], [0.1, 0.2], [(0.1, 0.3)], id="dominated"),
    pytest.param([[0.0, 0.6], [0.6, 0.0]], [0.3, 0.3], [(0.3, 0.3)], id="equal means, a mixture is best"),
    pytest.param(
        [[0.0, 0.6], [0.6, 0.0], [0.1, 0.1]], [0.3, 0.3, 0.5], [(0.3, 0.3), (0.5, 0.1)],
        id="the best mean is a mixture",
    ),
    pytest.param([[0.0, 0.0], [0.4, 0.4]], [0.0, 0.4], [(0.0, 0.0)], id="no error at all"),
    pytest.param(
        [[0.0, 1.0], [1.0, 0.0]], [0.01, 0.99], [(0.01, 1.0), (0.5, 0.5)], id="constants, a rare class"
    ),
])  # fmt: skip
@pytest.mark.parametrize("tail", [False, True])
def test_degenerate_pools(errors, means, corners, tail):
    # Each unit twice: a tail of the weight of one is the largest loss, found by the method for tails.
    losses = np.repeat(errors, 2, axis=1) if tail else np.array(errors)
    curve = worst_mean_curve(losses, means, 2 / losses.shape[1] if tail else None)
    np.testing.assert_allclose(np.c_[curve.mean, curve.worst], corners, atol=1e-9)
    check_curve(curve, np.array(errors), np.array(means))


@pytest.mark.parametrize("means", [[0.1], [0.1, np.nan], [[0.1, 0.2]]])
def test_means_must_fit_the_losses(means):
    with pytest.raises(ValueError, match="means"):
        worst_mean_curve([[0.2, 0.4], [0.0, 0.1]], means)


def test_a_curve_cut_short_says_how_far_it_may_be_off():
    wrong, _ = fitted_pool(load_digits, 20)
    means = wrong.mean(axis=1)
    full = worst_mean_curve(wrong, means, 0.3)
    cut = worst_mean_curve(wrong, means, 0.3, max_points=5)
    off = np.interp(full.mean, cut.mean, cut.worst) - full.worst
    assert 1e-4 < off.max() <= cut.gap


def test_of_points_with_equal_means_the_least_worst_one_is_undominated():
    worst, means = np.array([0.5, 0.3, 0.4, 0.3, 0.1]), np.array([0.1, 0.1, 0.2, 0.1, 0.2])
    assert undominated(worst, means).tolist() in ([1, 4], [3, 4])
