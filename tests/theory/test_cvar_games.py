"""Bounds of the CVaR games on the rows of λ, and strong duality of (6) and (5)."""

import math

import numpy as np
import pytest
from conftest import make, noisy, refused
from games import play
from scipy.optimize import linprog, minimize
from sklearn.tree import DecisionTreeClassifier

from tailboost.boosting.cvar import LP, theorem_4
from tailboost.boosting.game import Units
from tailboost.learners import HistTreeClassifier
from tailboost.metrics import cvar_zero_one_loss
from tailboost.solvers import cvar, cvar_weights, entropic_weights, minimize_cvar_mixture

ALPHAS = (1e-6, 0.02, 0.05, 0.1, 0.2, 0.3, 0.5, 0.7, 0.9, 1.0)
LEARNERS = {"tree": DecisionTreeClassifier(max_depth=2), "hist": HistTreeClassifier(max_depth=2)}


def weights_of(seed, n):
    return None if seed % 2 else np.random.default_rng(seed).integers(1, 5, n).astype(float)


def fit_on_training_rows(name, learner, seed, n=60, **params):
    X, y = noisy(seed, n=n, K=2 + seed % 3)
    weight = weights_of(seed, n)
    params = {"n_estimators": 8, "cv": "train", "random_state": seed} | params
    clf = make(name, LEARNERS[learner], **params)
    return clf.fit(X, y, sample_weight=weight), X, y, weight


@pytest.mark.parametrize("learner", LEARNERS)
@pytest.mark.parametrize("seed", range(3))
def test_adalpboost_is_at_least_as_good_as_erm_average_and_coin_flip(learner, seed):
    clf, X, y, weight = fit_on_training_rows("adalpboost", learner, seed, alpha=0.3)
    answers = [np.eye(len(clf.classes_))[member.predict(X)] for member in clf.estimators_[: clf.n_iter_]]
    rivals = {
        "erm": answers[0], "average": np.mean(answers, axis=0),
        "coin flip": np.full((len(y), len(clf.classes_)), 1 / len(clf.classes_)),
        **{f"member {t}": shares for t, shares in enumerate(answers)},
    }  # fmt: skip
    for alpha in ALPHAS[::3]:
        ours = clf.reweight(alpha=alpha)
        value = cvar_zero_one_loss(y, ours.predict_distribution(X), alpha, sample_weight=weight)
        loss = np.r_[ours.rank_weights_, ours.estimator_weights_] @ ours.candidate_losses_
        assert value == pytest.approx(cvar(loss, alpha, ours.base_), abs=1e-8)
        for rival, shares in rivals.items():
            assert value <= cvar_zero_one_loss(y, shares, alpha, sample_weight=weight) + 1e-8, rival


@pytest.mark.parametrize("beta", [None, 100.0])
@pytest.mark.parametrize("alpha", [0.05, 0.3, 1.0])
@pytest.mark.parametrize("seed", range(2, 5))
def test_lpboosts_are_at_least_as_good_as_erm_and_coin_flip(beta, alpha, seed):
    clf, X, y, weight = fit_on_training_rows("lpboost", "tree", seed, alpha=alpha, beta=beta)
    value = cvar_zero_one_loss(y, clf.predict_distribution(X), alpha, sample_weight=weight)
    K = len(clf.classes_)
    erm = np.eye(K)[clf.estimators_[0].predict(X)]
    assert value <= cvar_zero_one_loss(y, erm, alpha, sample_weight=weight) + 1e-8
    assert value <= 1 - 1 / K + 1e-8
    # The player's value is a lower bound for the mixture of the boosted hypotheses alone.
    p = np.ones(len(y)) if weight is None else weight
    losses = np.array([member.predict(X) != y for member in clf.estimators_[: clf.n_iter_]])
    alone = minimize_cvar_mixture(losses, alpha, p).value
    assert value <= alone + 1e-8
    (bound,) = clf.bounds_
    assert bound.achieved == pytest.approx(alone, abs=1e-8)
    assert not bound.bound + 1e-12 < alone


@pytest.mark.parametrize("name", ["adalpboost", "lpboost"])
def test_first_hypothesis_is_plain_erm(name):
    clf, X, y, weight = fit_on_training_rows(name, "tree", 2, alpha=0.3)
    # Its seed differs, so compare the error: a deterministic tree of least Gini has one training error.
    erm = HistTreeClassifier(max_depth=2).fit(X, y, sample_weight=weight)
    ours, _, _, _ = fit_on_training_rows(name, "hist", 2, alpha=0.3)
    np.testing.assert_array_equal(ours.estimators_[0].predict(X), erm.predict(X))
    np.testing.assert_allclose(clf.unit_weights(1), clf.units_.p)


@pytest.mark.parametrize("seed", range(20))
def test_cvar_of_a_deterministic_rule_is_error_over_alpha(seed):
    rng = np.random.default_rng(seed)
    n, K = int(rng.integers(2, 60)), int(rng.integers(2, 5))
    y, answer = rng.integers(0, K, n), rng.integers(0, K, n)
    y[:K] = np.arange(K)[:n]
    weight = rng.integers(0, 4, n) + (np.arange(n) == 0)
    error = weight @ (y != answer) / weight.sum()
    for alpha in ALPHAS:
        value = cvar_zero_one_loss(y, np.eye(K)[answer], alpha, sample_weight=weight, labels=np.arange(K))
        assert value == pytest.approx(min(1.0, error / alpha), abs=1e-12)


def test_the_five_models_of_the_paper():
    """Each model errs on 10 % of the rows, each row is an error of at most one model: .2 instead of 1."""
    n = 10
    errors = np.zeros((5, n))
    errors[np.arange(n) % 5, np.arange(n)] = 1.0
    errors = np.hstack([errors, np.zeros((5, n))])  # 2 of 20 rows each
    assert errors.mean(axis=1) == pytest.approx(0.1)
    assert all(cvar(row, 0.1) == pytest.approx(1.0) for row in errors)
    assert cvar(errors.mean(axis=0), 0.1) == pytest.approx(0.2)
    assert minimize_cvar_mixture(errors, 0.1).value == pytest.approx(0.2)


@pytest.mark.parametrize("seed", range(5))
def test_cvar_is_the_worst_case_over_a_renyi_ball_of_infinite_order(seed):
    """With D_∞(q‖p) = log max q/p ≤ −log α the largest mean is a linear program, whose value is the CVaR."""
    rng = np.random.default_rng(seed)
    losses, p, alpha = rng.random(30), rng.dirichlet(np.ones(30)), float(rng.uniform(0.05, 0.9))
    worst = linprog(-losses, A_eq=np.ones((1, 30)), b_eq=[1.0], bounds=np.column_stack([0 * p, p / alpha]))
    assert cvar(losses, alpha, p) == pytest.approx(-worst.fun)


@pytest.mark.parametrize("seed", range(15))
def test_strong_duality(seed):
    """Value and certificate of (6) and (5) agree; the certificate obeys its cap; all recomputed here."""
    rng = np.random.default_rng(seed)
    T, n = int(rng.integers(1, 9)), int(rng.integers(1, 40))
    losses = rng.random((T, n)) < rng.uniform(0.05, 0.8)
    p = rng.dirichlet(np.full(n, 0.7)) + 1e-12
    p /= p.sum()
    for alpha in ALPHAS[::2]:
        solution = minimize_cvar_mixture(losses, alpha, p)
        lam, w = solution.mixture, solution.unit_weights
        assert lam.min() >= 0
        assert lam.sum() == pytest.approx(1, abs=1e-12)
        assert w.min() >= 0
        assert w.sum() == pytest.approx(1, abs=1e-9)
        assert np.all(w <= p / alpha * (1 + 1e-9))
        primal, dual = cvar(lam @ losses, alpha, p), (losses @ w).min()
        assert primal == pytest.approx(dual, abs=1e-8)
        assert solution.value == pytest.approx(primal, abs=1e-10)


class Adversary:
    """A learner with the largest allowed weighted loss: exactly ``level`` (or the maximum)."""

    def __init__(self, level, p, order):
        self.level, self.p, self.order = level, p, order

    def __call__(self, density):
        """Fill the loss row by row in a fixed order: the player learns least this way."""
        w = density * self.p
        loss, left = np.zeros(len(w)), self.level
        for i in self.order:
            if w[i] <= 0:
                loss[i] = 1.0  # unweighted rows cost nothing: all of them are lost
                continue
            loss[i] = min(1.0, left / w[i])
            left -= loss[i] * w[i]
            if left <= 1e-15:
                left = 0.0
        return loss


def games(seed):
    rng = np.random.default_rng(seed)
    n = int(rng.integers(3, 14))
    p = np.full(n, 1 / n) if seed % 2 else rng.dirichlet(np.ones(n))
    return p, float(rng.uniform(0.05, 0.6)), float(rng.choice([0.1, 0.25, 0.5, 0.8])), rng.permutation(n)


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("beta", [1.0, 20.0, 100.0])
def test_value_sandwich_of_regularised_lpboost(seed, beta):
    """At every round, with P the best CVaR of the rounds so far and V the regularised value.

    The regularised game adds KL(w‖p)/β ∈ [0, log(1/α)/β] to the player's minimum, so
    P − log(1/α)/β ≤ 1 − V ≤ P; every round adds a constraint, so 1 − V never rises; once the learner finds
    nothing below its level, P is at most this level plus the same penalty.
    """
    p, level, alpha, order = games(seed)
    rule, units = LP(alpha, beta), Units.rows(p)
    learner = Adversary(level, p, order)
    state, losses, last, g = rule.start(units.p), [], -np.inf, 0.0
    slack = math.log(1 / alpha) / beta
    for t in range(25):
        w = rule.weights(state)
        assert np.all(w <= p / alpha * (1 + 1e-9))
        loss = learner(units.density(w))
        weighted = float(w @ loss)
        assert weighted <= level + 1e-12
        g = max(g, weighted)
        losses.append(loss)
        state = rule.update(state, loss)
        solution = entropic_weights(np.array(losses), alpha, beta, p)
        best = minimize_cvar_mixture(np.array(losses), alpha, p).value
        assert best - slack - 1e-7 <= 1 - solution.value <= best + 1e-7, t
        assert solution.value >= last - 1e-7, "the player's value fell"
        last = solution.value
        if solution.value >= 1 - g - 1e-9:
            break
    # Within these rounds the player leaves the learner nothing better than its level.
    assert best <= g + slack + 1e-6


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("delta", [0.9, 0.7])
def test_bound_of_regularised_lpboost_with_its_own_rounds_and_beta(seed, delta):
    """CVaR_α ≤ g + δ after T = max{(32/δ²) log(1/α), 8/δ} rounds with β = max{(2/δ) log(1/α), 1/2}."""
    p, level, alpha, order = games(seed)
    T = math.ceil(max(32 / delta**2 * math.log(1 / alpha), 8 / delta))
    beta, seen = max(2 / delta * math.log(1 / alpha), 0.5), []
    learner = Adversary(level, p, order)

    def answer(density):
        seen.append(learner(density))
        return seen[-1]

    game = play(LP(alpha, beta), Units.rows(p), answer, T)
    g = game.weighted_loss.max()
    assert minimize_cvar_mixture(np.array(seen), alpha, p).value <= g + delta + 1e-9


def test_promised_bound_is_given_where_its_rounds_and_beta_are():
    alpha, delta = 0.8, 0.9
    T = math.ceil(max(32 / delta**2 * math.log(1 / alpha), 8 / delta))
    beta = max(2 / delta * math.log(1 / alpha), 0.5)
    params = {"alpha": alpha, "n_estimators": T, "beta": beta}
    clf, _, _, _ = fit_on_training_rows("lpboost", "tree", 3, **params)
    (promise,) = clf.bounds_
    assert promise.bound == pytest.approx(clf.weighted_losses_.max() + delta, abs=0.02)
    assert promise.achieved <= promise.bound
    early, _, _, _ = fit_on_training_rows("lpboost", "tree", 3, **(params | {"n_estimators": 3}))
    (promise,) = early.bounds_
    assert math.isnan(promise.bound)


@pytest.mark.parametrize("n_estimators", [0, "all"])
def test_parameters_of_the_rate_are_checked(n_estimators):
    X, y = noisy(2, n=60)
    for params in ({"n_estimators": n_estimators}, {"delta": 0.0}, {"beta": "auto"}):
        refused(lambda: make("lpboost", **params).fit(X, y), f"'{next(iter(params))}' parameter")


@pytest.mark.parametrize(("alpha", "delta", "beta", "rounds"), [
    (0.5, 0.5, 2.772589, 89),  # 4 log 2 and 128 log 2
    (0.5, 0.1, 13.862944, 2219),
    (1.0, 0.5, 0.5, 16),
    (0.95, 0.5, 0.5, 16),  # β by its least value
])  # fmt: skip
def test_beta_and_rounds_from_a_wanted_delta(alpha, delta, beta, rounds):
    assert theorem_4(alpha, delta) == (pytest.approx(beta, abs=1e-6), rounds)
    if rounds > 100:
        return
    X, y = noisy(2, n=60)
    given = {"alpha": alpha, "beta": "theory", "delta": delta, "cv": "train", "random_state": 0}
    stump = DecisionTreeClassifier(max_depth=1)
    clf = make("lpboost", stump, n_estimators="auto", **given).fit(X, y)
    assert clf.n_iter_ == rounds
    (bound,) = clf.bounds_
    assert bound.bound == pytest.approx(clf.weighted_losses_.max() + delta)
    assert bound.achieved <= bound.bound
    (unmet,) = make("lpboost", stump, n_estimators=rounds - 1, **given).fit(X, y).bounds_
    assert math.isnan(unmet.bound)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("alpha", [0.05, 0.3, 0.7])
def test_totally_corrective_weights_are_optimal_and_closest_to_p(seed, alpha):
    """No feasible direction to other optima comes closer to p: w solves (5) with the least ½Σ(w−p)²/p."""
    cp, rng = pytest.importorskip("cvxpy"), np.random.default_rng(seed)
    n = 15
    p = rng.dirichlet(np.full(n, 5.0))
    rule, losses = LP(alpha), []
    state = rule.start(p)
    for _ in range(4):
        losses.append(rng.random(n) < 0.3)
        state = rule.update(state, losses[-1])
    matrix = np.array(losses, dtype=float)
    value = minimize_cvar_mixture(matrix, alpha, p).value
    w = rule.weights(state)
    assert (matrix @ w).min() == pytest.approx(value, abs=1e-8)
    v = cp.Variable(n)
    feasible = [v >= 0, v <= p / alpha, cp.sum(v) == 1, matrix @ v >= value - 1e-9]
    other = cp.Problem(cp.Minimize(0.5 * cp.sum(cp.square(v - p) / p)), feasible).solve(solver="CLARABEL")
    assert 0.5 * np.sum((w - p) ** 2 / p) <= other + 1e-6


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("norm", [0.5, 2.0, 8.0])
def test_regularised_lpboost_at_one_over_n_is_adaboost_of_bounded_norm(seed, norm):
    """At α = 1/n no cap binds, and the dual is AdaBoost's exponential loss over ‖a‖₁ = β/2.

    Shen and Li, "On the dual formulation of boosting algorithms" (2009), derive the dual. The truth is a
    generic solver's minimum of the loss itself.
    """
    rng = np.random.default_rng(seed)
    n, T = 30, 5
    losses = (rng.random((T, n)) < 0.35).astype(float)
    margins = 1.0 - 2.0 * losses

    def exponential_loss(a):
        return np.exp(-a @ margins).mean()

    start = np.full(T, norm / T)
    summed = {"type": "eq", "fun": lambda a: a.sum() - norm}
    settings = {"ftol": 1e-14, "maxiter": 1000}
    truth = minimize(exponential_loss, start, bounds=[(0, norm)] * T, constraints=summed, options=settings)
    assert truth.success
    solution = entropic_weights(losses, 1 / n, 2.0 * norm)
    ours = norm * solution.mixture
    assert exponential_loss(ours) == pytest.approx(truth.fun, rel=1e-6)
    weights = np.exp(-ours @ margins)
    np.testing.assert_allclose(solution.unit_weights, weights / weights.sum(), atol=1e-5)


def test_randomisation_may_lower_the_cvar_where_no_single_classifier_can():
    """Proposition 2 of Zhai et al. 2021 in numbers: five classifiers with errors on different tenths."""
    losses = np.kron(np.eye(5), np.ones(2))  # ten rows, two of which each is wrong on
    for alpha in (0.1, 0.2, 0.5):
        assert min(cvar(row, alpha) for row in losses) == pytest.approx(min(1.0, 0.2 / alpha))
        assert minimize_cvar_mixture(losses, alpha).value == pytest.approx(0.2)


@pytest.mark.parametrize("radius", [0.0, 0.3, 1.2])
def test_cvar_is_the_worst_case_over_a_ball_of_infinite_renyi_divergence(radius):
    """D_∞(w ‖ p) = log max w_i/p_i ≤ δ is w_i ≤ p_i/α with α = e^(−δ)."""
    rng = np.random.default_rng(0)
    losses, p = rng.random(12), rng.dirichlet(np.ones(12))
    w = cvar_weights(losses, np.exp(-radius), p)
    assert w @ losses == pytest.approx(cvar(losses, np.exp(-radius), p))
    assert np.log(np.max(w / p)) <= radius + 1e-9
