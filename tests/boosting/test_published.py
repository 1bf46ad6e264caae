"""Each function of ``tailboost.published`` equals a transcription of its paper's algorithm."""

import inspect
import math
import warnings
from typing import ClassVar

import numpy as np
import pytest
from conftest import noisy, refused
from scipy.optimize import brentq, linprog, minimize, minimize_scalar
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.datasets import make_classification
from sklearn.dummy import DummyClassifier
from sklearn.tree import DecisionTreeClassifier

import tailboost as tb
from tailboost import published
from tailboost.learners import HistTreeClassifier

TREE = HistTreeClassifier(max_depth=2)
# Relative rounding error of sums of weights.
ROUNDED = 1e-9
FUNCTIONS = [name for name in published.__all__ if name.endswith("boost")]


class Noting(ClassifierMixin, BaseEstimator):
    """Tree with a record of its weights, normalised to sum 1."""

    weights: ClassVar[list] = []

    def __init__(self, max_depth=2):
        self.max_depth = max_depth

    def fit(self, X, y, sample_weight):
        self.weights.append(sample_weight / sample_weight.sum())
        self.tree_ = HistTreeClassifier(max_depth=self.max_depth).fit(X, y, sample_weight=sample_weight)
        self.classes_ = self.tree_.classes_
        return self

    def predict(self, X):
        return self.tree_.predict(X)


@pytest.fixture
def noted():
    """The weights of all fits of `Noting` in a test."""
    Noting.weights.clear()
    return Noting.weights


def binary(seed, n=80):
    """Return rows of two classes, with labels −1 and 1."""
    X, y = noisy(seed, n=n, K=2)
    return X, 2 * y - 1


def learn(X, y, w):
    """Return a tree fitted with weights w, scaled to mean 1."""
    return HistTreeClassifier(max_depth=2).fit(X, y, sample_weight=len(y) * np.asarray(w))


def hedge(total, eta):
    """Return the weights of Hedge from a uniform start."""
    w = np.exp(eta * (total - total.max()))
    return w / w.sum()


def cvar_by_lp(losses, alpha):
    """Return min_λ CVaR_α(Σ λ_t ℓ^t), the linear program (6) of Zhai et al. 2021, losses of shape (T, n)."""
    T, n = losses.shape
    cost = np.r_[np.zeros(T), 1.0, np.full(n, 1 / (alpha * n))]  # λ, η, ξ
    rows = np.c_[losses.T, -np.ones((n, 1)), -np.eye(n)]
    total = [np.r_[np.ones(T), np.zeros(n + 1)]]
    bounds = [(0, None)] * T + [(None, None)] + [(0, None)] * n
    found = linprog(cost, A_ub=rows, b_ub=np.zeros(n), A_eq=total, b_eq=[1], bounds=bounds)
    return found.fun


def game_value(losses, alpha):
    """Return max_w min_t ⟨w, ℓ^t⟩ with w_i ≤ 1/(αn), the dual program (5) of Zhai et al. 2021."""
    T, n = losses.shape
    found = linprog(
        np.r_[np.zeros(n), -1.0], A_ub=np.c_[-losses, np.ones((T, 1))], b_ub=np.zeros(T),
        A_eq=[np.r_[np.ones(n), 0.0]], b_eq=[1], bounds=[(0, 1 / (alpha * n))] * n + [(None, None)],
    )  # fmt: skip
    return -found.fun


def losses_of(clf, X, y):
    return np.array([member.predict(X) != y for member in clf.estimators_]).astype(float)


@pytest.mark.parametrize(("alpha", "eta"), [(0.1, 1.0), (0.35, 0.5)])
def test_adalpboost_is_algorithm_2(alpha, eta, noted):
    X, y = noisy(0, n=90, K=3)
    T = 12
    clf = published.adalpboost(Noting(), alpha, T=T, eta=eta, random_state=0).fit(X, y)
    total, weights, losses = np.zeros(len(y)), [], []
    for _ in range(T):
        w = hedge(total, eta)
        wrong = (learn(X, y, w).predict(X) != y).astype(float)
        weights.append(w)
        losses.append(wrong)
        total += wrong
    np.testing.assert_allclose(noted, weights, rtol=ROUNDED)
    np.testing.assert_array_equal(clf.game_losses_.sum(axis=0), total)
    np.testing.assert_array_equal(losses_of(clf, X, y), losses)
    value = tb.metrics.cvar_zero_one_loss(y, clf.predict_distribution(X), alpha, labels=clf.classes_)
    assert value == pytest.approx(cvar_by_lp(np.array(losses), alpha), abs=1e-9)


def test_lambda_of_adalpboost_may_come_from_a_validation_set():
    X, y = noisy(1, n=160, K=3)
    clf = published.adalpboost(TREE, 0.3, T=8, random_state=0)
    clf.fit(X[:80], y[:80], X_val=X[80:], y_val=y[80:])
    value = tb.metrics.cvar_zero_one_loss(y[80:], clf.predict_distribution(X[80:]), 0.3, labels=clf.classes_)
    assert value == pytest.approx(cvar_by_lp(losses_of(clf, X[80:], y[80:]), 0.3), abs=1e-9)


@pytest.mark.parametrize("alpha", [0.1, 0.4])
def test_lpboost_is_algorithm_1(alpha, noted):
    X, y = noisy(2, n=70, K=2)
    clf = published.lpboost(Noting(), alpha, T=6, random_state=0).fit(X, y)
    losses, n = losses_of(clf, X, y), len(y)
    assert clf.n_iter_ == len(losses) == 6
    np.testing.assert_allclose(noted[0], 1 / n)
    for t, w in enumerate(noted):
        np.testing.assert_array_equal(learn(X, y, w).predict(X) != y, losses[t])
        if t:  # a maximiser of the dual over all rounds before
            assert w.sum() == pytest.approx(1)
            assert w.min() >= -1e-12
            assert w.max() <= (1 + ROUNDED) / (alpha * n)
            assert (losses[:t] @ w).min() == pytest.approx(game_value(losses[:t], alpha), rel=ROUNDED)
    value = tb.metrics.cvar_zero_one_loss(y, clf.predict_distribution(X), alpha, labels=clf.classes_)
    assert value == pytest.approx(cvar_by_lp(losses, alpha), abs=1e-9)


@pytest.mark.filterwarnings("ignore:Values in x were outside bounds")  # of the reference
@pytest.mark.parametrize("beta", [5.0, 100.0])
def test_regularized_lpboost_has_the_weights_of_equation_8(beta, noted):
    X, y = noisy(3, n=40, K=2)
    alpha, n = 0.3, len(y)
    clf = published.regularized_lpboost(Noting(), alpha, beta=beta, T=5, random_state=0).fit(X, y)
    losses = losses_of(clf, X, y)

    def objective(w, t):
        return 1 - (losses[:t] @ w).min() + np.sum(w * np.log(np.maximum(w, 1e-300) * n)) / beta

    for t, w in enumerate(noted):
        np.testing.assert_array_equal(learn(X, y, w).predict(X) != y, losses[t])
        if not t:
            continue
        # The dual: max over λ of the entropic program with the mixed loss, smooth in λ.
        generic = minimize(
            lambda v, t=t: v[-1] + np.sum(v[:-1] * np.log(np.maximum(v[:-1], 1e-300) * n)) / beta,
            np.r_[np.full(n, 1 / n), 1.0],
            jac=lambda v: np.r_[(np.log(np.maximum(v[:-1], 1e-300) * n) + 1) / beta, 1.0],
            method="SLSQP", bounds=[(1e-12, 1 / (alpha * n))] * n + [(None, None)],
            constraints=[
                {"type": "eq", "fun": lambda v: v[:-1].sum() - 1},
                {"type": "ineq", "fun": lambda v, t=t: losses[:t] @ v[:-1] - 1 + v[-1]},
            ],
            options={"ftol": 1e-12, "maxiter": 500},
        )  # fmt: skip
        assert objective(w, t) == pytest.approx(generic.fun, abs=1e-6)  # the generic solver's accuracy
        assert w.max() <= (1 + ROUNDED) / (alpha * n)


def test_average_boost_is_hedge_and_the_mean_of_all_rounds(noted):
    X, y = noisy(5, n=90, K=3)
    T, n = 15, len(y)
    clf = published.average_boost(Noting(), T=T, random_state=0).fit(X, y)
    eta = math.sqrt(8 * math.log(n) / T)
    total, shares, V = np.zeros(n), np.zeros((n, 3)), 0.0
    for t in range(T):
        w = hedge(total, eta)
        np.testing.assert_allclose(noted[t], w, rtol=ROUNDED)
        answers = learn(X, y, w).predict(X)
        shares[np.arange(n), answers] += 1 / T
        total += answers != y
        V = max(V, w @ (answers != y))
    np.testing.assert_allclose(clf.predict_distribution(X), shares, atol=1e-12)
    assert total.max() / T <= V + math.sqrt(math.log(n) / (2 * T))  # Theorem 5


def variance_cost(f, y, lam):
    """Return cost (3): Σ_ij e^(−m_i − m_j), and λ times the n-fold variance of e^(−m)."""
    e = np.exp(-y * f)
    return e.sum() ** 2 + lam * (len(y) * (e**2).sum() - e.sum() ** 2)


@pytest.mark.parametrize("lam", [0.0, 0.3, 1.0])
def test_vadaboost_is_algorithm_2(lam):
    X, y = binary(6)
    n, T = len(y), 12
    clf = published.vadaboost(TREE, lam, T=T, random_state=0).fit(X, y)
    w, steps, f, costs = np.full(n, 1 / n), [], np.zeros(n), []
    for _ in range(T):
        u = lam * n * w**2 + (1 - lam) * w
        h = learn(X, y, u / u.sum()).predict(X)
        a = 0.25 * math.log(u[h == y].sum() / u[h != y].sum())
        if a <= 0:
            break
        w = w * np.exp(-y * a * h)
        w /= w.sum()
        f += a * h
        steps.append(a)
        costs.append(variance_cost(f, y, lam))
    np.testing.assert_allclose(clf.estimator_weights_, steps, rtol=1e-10)
    np.testing.assert_array_equal(clf.predict(X), np.where(f > 0, 1, -1))
    np.testing.assert_allclose(np.exp(clf.log_costs_) * n**2, costs, rtol=1e-9)
    assert (np.diff(costs) < 0).all()


def test_adaboost_is_algorithm_1():
    X, y = binary(6)
    clf = published.adaboost(TREE, T=12, random_state=0).fit(X, y)
    w, steps, f = np.full(len(y), 1 / len(y)), [], np.zeros(len(y))
    for _ in range(12):
        h = learn(X, y, w).predict(X)
        a = 0.5 * math.log(w[h == y].sum() / w[h != y].sum())
        if a <= 0:
            break
        w = w * np.exp(-y * a * h)
        w /= w.sum()
        f += a * h
        steps.append(a)
    np.testing.assert_allclose(clf.estimator_weights_, steps, rtol=1e-10)
    np.testing.assert_allclose(clf.decision_function(X), f, rtol=1e-9)


def margins_of_adaboost(X, y, T):
    """Return y h_t(x) of the hypotheses of AdaBoost, shape (n, T)."""
    ada = published.adaboost(TREE, T=T, random_state=0).fit(X, y)
    # Members answer class numbers.
    return np.array([np.where(member.predict(X) == (y > 0), 1.0, -1.0) for member in ada.estimators_]).T


def test_rlp_boost_is_its_program():
    X, y = binary(13)
    n, T = len(y), 8
    C = 1 / (0.3 * n)
    clf = published.rlp_boost(TREE, C, T=T, random_state=0).fit(X, y)
    m = margins_of_adaboost(X, y, T)
    program = linprog(  # a, ρ, ξ: max ρ − C Σ ξ subject to m a ≥ ρ − ξ
        np.r_[np.zeros(T), -1.0, np.full(n, C)],
        A_ub=np.c_[-m, np.ones((n, 1)), -np.eye(n)], b_ub=np.zeros(n),
        A_eq=[np.r_[np.ones(T), 0.0, np.zeros(n)]], b_eq=[1],
        bounds=[(0, None)] * T + [(None, None)] + [(0, None)] * n,
    )  # fmt: skip
    own = clf.margins(X, y) / clf.estimator_weights_.sum()
    value = max(rho - C * np.maximum(rho - own, 0).sum() for rho in own)
    assert value == pytest.approx(-program.fun, abs=1e-9)


def test_rqp_boost_is_its_program():
    X, y = binary(14, n=40)
    n, T, C = len(y), 5, 0.5
    clf = published.rqp_boost(TREE, C, T=T, random_state=0).fit(X, y)
    m = margins_of_adaboost(X, y, T)
    program = minimize(
        lambda v: np.sum(v[:T] ** 2) + C * v[T:].sum(), np.r_[np.ones(T), np.ones(n)],
        jac=lambda v: np.r_[2 * v[:T], np.full(n, C)], method="SLSQP", bounds=[(0, None)] * (T + n),
        constraints=[{"type": "ineq", "fun": lambda v: m @ v[:T] - 1 + v[T:]}],
        options={"ftol": 1e-12, "maxiter": 1000},
    )  # fmt: skip
    a = clf.estimator_weights_
    value = np.sum(a**2) + C * np.maximum(1 - clf.margins(X, y), 0).sum()
    assert value == pytest.approx(program.fun, abs=1e-6)


@pytest.mark.parametrize("seed", [0, 1, 3, 15])
def test_a_soft_margin_errs_on_no_more_training_rows_than_the_best_constant(seed):
    """In these games opposite stumps with weights of about ½ are optimal: rounding decided the vote."""
    X, y = make_classification(300, 8, n_informative=3, flip_y=0.15, random_state=seed)
    for T, C in ((12, 10), (30, 20)):
        clf = published.rlp_boost("stump", C / len(y), T=T, random_state=0)
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            clf.fit(X, y)
        if np.ptp(clf.predict(X)) == 0:
            assert "constant" in str(said[0].message)
        assert (clf.predict(X) != y).sum() <= np.bincount(y).min()


@pytest.mark.parametrize("name", ["adaboost", "vadaboost", "rlp_boost", "rqp_boost", "dro_boost"])
@pytest.mark.parametrize("K", [2, 3, 5])
def test_at_chance_the_best_constant_answers(name, K):
    y = np.arange(30) % K
    clf = getattr(published, name)(DummyClassifier(), T=4, **{"vadaboost": {"lambda_": 0.5}}.get(name, {}))
    with pytest.warns(UserWarning, match="constant"):
        clf.fit(np.zeros((30, 1)), y)
    assert clf.n_iter_ == 0
    assert np.ptp(clf.predict(np.zeros((3, 1)))) == 0


@pytest.mark.parametrize("lam", [0.2, 0.7])
def test_ebboost_is_algorithm_3_over_all_stumps(lam):
    X, y = binary(7, n=40)
    n, T = len(y), 6
    clf = published.ebboost(lam, T=T, random_state=0).fit(X, y)
    stumps = []
    for column in X.T:
        values = np.unique(column)
        for threshold in (values[1:] + values[:-1]) / 2:
            stumps += [np.where(column > threshold, s, -s) for s in (1, -1)]
    f, steps, costs = np.zeros(n), [], []
    for _ in range(T):
        w = np.exp(-y * f)
        w /= w.sum()
        best = None
        for h in stumps:
            right = h == y
            P = (1 - lam) * w[right].sum() ** 2 + lam * n * (w[right] ** 2).sum()
            Q = (1 - lam) * w[~right].sum() ** 2 + lam * n * (w[~right] ** 2).sum()
            cost = 2 * math.sqrt(P * Q) + 2 * (1 - lam) * w[right].sum() * w[~right].sum()
            if P > Q and (best is None or cost < best[0] - 1e-12):
                best = cost, 0.25 * math.log(P / Q), h
        _, a, h = best
        f += a * h
        steps.append(a)
        costs.append(variance_cost(f, y, lam))
    np.testing.assert_allclose(np.exp(clf.log_costs_) * n**2, costs, rtol=1e-9)
    np.testing.assert_allclose(clf.estimator_weights_, steps, rtol=1e-9)


def rare(seed, K=5):
    """Return rows of classes of unequal size."""
    X, y = noisy(seed, n=300, K=K)
    keep = np.random.default_rng(seed).random(len(y)) < 1 / (1 + y)
    keep[: 3 * K] = True
    y[: 3 * K] = np.tile(np.arange(K), 3)
    return X[keep], y[keep]


@pytest.mark.filterwarnings("ignore::tailboost.BoundNotMetWarning")
@pytest.mark.parametrize(("seed", "theta", "rounds"), [(0, 0.4, 2), (1, 0.4, 36), (2, 0.4, 1), (1, 0.5, 1)])
def test_worst_class_boost_is_algorithm_1(seed, theta, rounds):
    """With θ = ½ classes have exactly the error 1 − θ, and count as too large."""
    X, y = rare(seed)
    K, depth = 5, 4
    tree = HistTreeClassifier(max_depth=depth)
    clf = published.worst_class_boost(tree, theta, random_state=seed).fit(X, y)
    gamma = math.floor(0.8 * K) / K - 0.5 - 0.0005
    T = math.ceil(2 * math.log(K) / gamma**2)
    eta = math.sqrt(8 * math.log(K) / T)
    assert clf.gamma_ == pytest.approx(gamma)
    w, votes, weights, n_k = np.full(K, 1 / K), np.zeros((len(y), K)), [], np.bincount(y)
    for t in range(T):
        answers = clone(tree).fit(X, y, sample_weight=len(y) * w[y] / n_k[y]).predict(X)
        r = np.array([np.mean(answers[y == k] != k) < 1 - theta for k in range(K)])
        if t and w @ r < 0.5 + gamma:
            break
        weights.append(w)
        votes[np.arange(len(y)), answers] += 1
        w = w * np.exp(-eta * r)
        w /= w.sum()
    assert clf.n_iter_ == len(weights) == rounds  # all of them, or the learner misses the condition
    np.testing.assert_allclose([clf.unit_weights(t) for t in range(1, rounds + 1)], weights, atol=1e-14)
    np.testing.assert_allclose(clf.predict_distribution(X), votes / clf.n_iter_, atol=1e-12)
    assert clf.predict_distribution(X).max() <= 1  # with 36 rounds the rounded sum of equal votes is more
    top = np.sort(votes, axis=1)
    clear = top[:, -1] > top[:, -2]
    np.testing.assert_array_equal(clf.predict(X)[clear], votes.argmax(axis=1)[clear])


@pytest.mark.filterwarnings("ignore::tailboost.BoundNotMetWarning")
def test_first_voters_are_those_of_the_published_code():
    X, y = noisy(21, n=400, K=4)
    train, held = slice(0, 200), slice(200, 400)
    tree = HistTreeClassifier(max_depth=3)
    clf = published.worst_class_boost(tree, 0.4, gamma=0.2, random_state=0).fit(X[train], y[train])
    votes, best = np.zeros((200, 4)), (math.inf, 0)
    for t, member in enumerate(clf.estimators_, start=1):
        votes[np.arange(200), member.predict(X[held])] += 1
        top, first = np.sort(votes, axis=1), clf.estimators_[0].predict(X[held])
        answers = np.where(top[:, -1] > top[:, -2], votes.argmax(axis=1), first)
        if (top[:, -1] == top[:, -2]).any():  # ties go to the earliest voter for one of the tied classes
            answers = list(clf.staged_predict(X[held]))[t - 1]
        worst = max(np.mean(answers[y[held] == k] != k) for k in range(4))
        best = min(best, (worst, -t))
    few = published.first_voters(clf, X[held], y[held])
    assert np.count_nonzero(few.estimator_weights_) == -best[1]
    worst = max(np.mean(few.predict(X[held])[y[held] == k] != k) for k in range(4))
    assert worst == pytest.approx(best[0])
    assert np.count_nonzero(clf.estimator_weights_) == clf.n_iter_
    few = published.first_voters(clf, X[held], first)
    assert np.count_nonzero(few.estimator_weights_) < clf.n_iter_
    assert not few.bounds_  # the theorems are about all rounds
    refused(lambda: published.first_voters(clf, X[held][y[held] > 0], y[held][y[held] > 0]), "y_val")


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::tailboost.BoundNotMetWarning")
@pytest.mark.parametrize(("gamma", "depth"), [(0.25, 7), (0.2, 1)])
def test_oco_boost_is_hedge_over_rows_and_the_vote(gamma, depth, noted):
    X, y = noisy(8, n=60, K=2)
    n = len(y)
    clf = published.oco_boost(Noting(depth), gamma, random_state=0).fit(X, y)
    T = math.ceil(2 * math.log(n) / gamma**2)
    eta = math.sqrt(8 * math.log(n) / T)
    total, votes, rounds = np.zeros(n), np.zeros((n, 2)), 0
    for rounds, member in enumerate(clf.estimators_, start=1):
        w = hedge(total, eta)
        np.testing.assert_allclose(noted[rounds - 1], w, rtol=ROUNDED)
        answers = member.predict(X)
        assert rounds == 1 or w @ (answers != y) <= 0.5 - gamma + 1e-6
        votes[np.arange(n), answers] += 1
        total += answers != y
    np.testing.assert_array_equal(clf.game_losses_.sum(axis=0), total)
    np.testing.assert_allclose(clf.predict_distribution(X), votes / rounds, atol=1e-12)
    ended_early = len(noted) > rounds  # a learner below the condition
    assert ended_early == (rounds < T) == (depth == 1)
    if ended_early:
        again = HistTreeClassifier(max_depth=depth).fit(X, y, sample_weight=n * noted[rounds])
        assert hedge(total, eta) @ (again.predict(X) != y) > 0.5 - gamma
    else:  # more than half of the voters are right on every training row
        np.testing.assert_array_equal(clf.predict(X), y)


def worst_case(losses, delta):
    """Return the weights of the largest mean loss within KL ≤ δ of equal weights: Lemma 2, by its root."""
    n = len(losses)

    def tilted(theta):
        w = np.exp(theta * (losses - losses.max()))
        return w / w.sum()

    def distance(theta):
        w = tilted(theta)
        return float(np.sum(w * np.log(np.maximum(w * n, 1e-300)))) - delta

    if delta == 0 or np.ptp(losses) == 0:
        return np.full(n, 1 / n)
    return tilted(brentq(distance, 0, 1e6, xtol=1e-14, rtol=1e-14))


@pytest.mark.parametrize("delta", [0.0, 0.02, 0.1])
def test_dro_boost_is_algorithm_1(delta):
    X, y = binary(9)
    n, T = len(y), 8
    clf = published.dro_boost(TREE, delta, T=T, random_state=0).fit(X, y)

    def F(f):
        losses = np.exp(-y * f)
        return float(worst_case(losses, delta) @ losses)

    f = np.zeros(n)
    for t in range(T):
        losses = np.exp(-y * f)
        u = worst_case(losses, delta) * losses  # the functional gradient
        h = learn(X, y, u / u.sum()).predict(X)
        step = minimize_scalar(lambda a, h=h, f=f: F(f + a * h), bounds=(0, 5), options={"xatol": 1e-12}).x
        assert clf.estimator_weights_[t] == pytest.approx(step, abs=1e-5)
        f = f + clf.estimator_weights_[t] * h
        assert np.exp(clf.log_costs_[t]) == pytest.approx(F(f), rel=1e-8)


@pytest.mark.filterwarnings("ignore:radius", "ignore:no hypothesis:UserWarning")
def test_the_radius_of_dro_boost_is_that_of_empirical_likelihood():
    from scipy.stats import chi2

    X, y = binary(10)
    clf = published.dro_boost(TREE, d=30, T=1, random_state=0).fit(X, y)
    assert clf.radius_ == pytest.approx(chi2.ppf(0.95, 30) / (2 * len(y)))


@pytest.mark.parametrize("combine", ["average", "mixture"])
def test_group_dro_boost_is_hedge_over_groups(combine):
    X, y = noisy(11, n=120, K=3)
    group = np.arange(len(y)) % 5 % 4  # of unequal sizes
    T, eta, m = 10, 0.7, np.bincount(group)
    clf = published.group_dro_boost(TREE, T=T, eta=eta, combine=combine, random_state=0)
    clf.fit(X, y, groups=group)
    total, weights, losses = np.zeros(4), [], []
    for _ in range(T):
        w = hedge(total, eta)
        wrong = learn(X, y, w[group] / m[group]).predict(X) != y
        weights.append(w)
        losses.append(np.bincount(group, weights=wrong) / m)
        total += losses[-1]
    found = [clf.unit_weights(t) for t in range(1, T + 1)]
    np.testing.assert_allclose(found, weights, atol=1e-12)
    shares = clf.predict_distribution(X)
    found = np.bincount(group, weights=1 - shares[np.arange(len(y)), y]) / m
    if combine == "average":
        np.testing.assert_allclose(found, np.mean(losses, axis=0), atol=1e-12)
        return
    # The least largest group error of all mixtures.
    least = linprog(
        np.r_[np.zeros(T), 1.0], A_ub=np.c_[np.array(losses).T, -np.ones(4)], b_ub=np.zeros(4),
        A_eq=[np.r_[np.ones(T), 0.0]], b_eq=[1],
    )  # fmt: skip
    assert found.max() == pytest.approx(least.fun, abs=1e-9)


def test_every_function_gives_further_parameters_to_its_classifier():
    for name in FUNCTIONS:
        function = getattr(published, name)
        parameters = inspect.signature(function).parameters.values()
        required = [p for p in parameters if p.default is p.empty and p.kind != p.VAR_KEYWORD]
        given = {p.name: {"estimator": TREE}.get(p.name, 0.3) for p in required}
        assert function(**given, random_state=7).random_state == 7


def bound_with(clf, formula):
    """Return the bound and the achieved value of the theorem with this formula."""
    (found,) = (each for each in clf.bounds_ if each.formula == formula)
    return found.bound, found.achieved


def test_rounds_beta_and_bound_of_theorem_4():
    X, y = noisy(4, n=60, K=2)
    alpha, delta = 0.5, 0.8
    clf = published.regularized_lpboost(TREE, alpha, beta="theory", T="auto", delta=delta, random_state=0)
    clf.fit(X, y)
    assert clf.n_iter_ == math.ceil(max(32 / delta**2 * math.log(1 / alpha), 8 / delta)) == 35
    assert clf.beta_ == pytest.approx(max(2 / delta * math.log(1 / alpha), 0.5))
    bound, achieved = bound_with(clf, "g + δ")
    assert bound == pytest.approx(max(clf.weighted_losses_) + delta)
    assert achieved == pytest.approx(cvar_by_lp(losses_of(clf, X, y), alpha))


@pytest.mark.parametrize("T", [1, 2, 3, 4, 6, 9])
def test_bound_of_lpboost_if_the_last_hypothesis_brings_nothing(T):
    X, y = noisy(4, n=60, K=2)
    clf = published.lpboost(DecisionTreeClassifier(max_depth=1), 0.7, T=T, random_state=0).fit(X, y)
    losses = losses_of(clf, X, y)
    bound, achieved = bound_with(clf, "g")
    assert achieved == pytest.approx(cvar_by_lp(losses, 0.7))
    if T == 1 or clf.weighted_losses_[-1] < cvar_by_lp(losses[:-1], 0.7) - 1e-8:
        assert math.isnan(bound)
        return
    assert bound == max(clf.weighted_losses_)
    assert achieved <= bound + 1e-9


@pytest.mark.parametrize("T", [48, 49, 98])
def test_theorem_4_for_a_stated_beta_and_all_rows(T):
    """For α = 1 it needs T ≥ 8/δ alone: δ is 8/T."""
    X, y = noisy(4, n=60, K=2)
    clf = published.regularized_lpboost(TREE, 1.0, beta=1.0, T=T, random_state=0).fit(X, y)
    bound, achieved = bound_with(clf, "g + δ")
    assert bound == pytest.approx(max(clf.weighted_losses_) + 8 / T)
    assert achieved <= bound


def test_bounds_of_one_group():
    X, y = noisy(4, n=60, K=2)
    clf = published.group_dro_boost(TREE, T=3, eta="theory", random_state=0)
    clf.fit(X, y, groups=np.zeros(60))
    for each in clf.bounds_:  # nothing is unknown of one group
        assert each.bound == pytest.approx(each.achieved)
    assert each.achieved == pytest.approx(losses_of(clf, X, y).mean())


def test_bound_of_theorem_5():
    X, y = noisy(5, n=90, K=3)
    T = 15
    clf = published.average_boost(TREE, T=T, random_state=0).fit(X, y)
    bound, achieved = bound_with(clf, "g + √(log n/(2T))")
    assert bound == pytest.approx(max(clf.weighted_losses_) + math.sqrt(math.log(90) / (2 * T)))
    assert achieved == pytest.approx(losses_of(clf, X, y).mean(axis=0).max())


@pytest.mark.filterwarnings("ignore::tailboost.BoundNotMetWarning")
def test_bound_of_theorem_1_of_worst_class_boosting():
    X, y = rare(1)
    theta, K = 0.4, 5
    clf = published.worst_class_boost(HistTreeClassifier(max_depth=4), theta, random_state=1).fit(X, y)
    answers = [member.predict(X) for member in clf.estimators_]
    bad = [[np.mean(a[y == k] != k) >= 1 - theta - 1e-12 for k in range(K)] for a in answers]
    T, gamma = math.ceil(2 * math.log(K) / clf.gamma_**2), clf.gamma_
    assert clf.n_iter_ == T
    bound, achieved = bound_with(clf, "½ − γ + √(log n/(2T))")
    assert bound == pytest.approx(0.5 - gamma + math.sqrt(math.log(K) / (2 * T)))
    assert bound <= 0.5 - gamma / 2 + 1e-4
    assert achieved == pytest.approx(np.mean(bad, axis=0).max())


@pytest.mark.filterwarnings("ignore::tailboost.BoundNotMetWarning")
@pytest.mark.parametrize(("gamma", "depth"), [(0.25, 7), (0.2, 1)])
def test_bound_of_oco_boosting(gamma, depth):
    X, y = noisy(8, n=60, K=2)
    clf = published.oco_boost(HistTreeClassifier(max_depth=depth), gamma, random_state=0).fit(X, y)
    T = math.ceil(2 * math.log(60) / gamma**2)
    bound, achieved = bound_with(clf, "½ − γ + √(log n/(2T))")
    if clf.n_iter_ < T:
        assert math.isnan(bound)
        return
    assert bound == pytest.approx(0.5 - gamma + math.sqrt(math.log(60) / (2 * T)))
    assert achieved == pytest.approx(losses_of(clf, X, y).mean(axis=0).max())
    assert bound < 0.5


def test_bounds_of_additive_games():
    X, y = binary(6)
    clf = published.vadaboost(TREE, 0.3, T=12, random_state=0).fit(X, y)
    m = y * clf.decision_function(X)
    bound, achieved = bound_with(clf, "√V")
    assert bound == pytest.approx(math.sqrt(variance_cost(m * y, y, 0.3)) / len(y))
    assert achieved == pytest.approx(np.mean(clf.predict(X) != y))


def test_the_margin_bound_by_hand():
    y, shares = np.repeat(["a", "b"], [50, 200]), np.full(250, np.nextafter(1.0, 2.0))  # 1, as rounded sum
    shares[50:70] = 0.7  # margin 0.4
    by_class = np.sqrt(np.log(2 * 2 / 0.05) / (2 * np.array([50, 200])))
    by_class[1] += 0.1  # θ = 1: twenty of two hundred lie below
    assert published.margin_bound(y, shares, 0.0) == pytest.approx(by_class.max())
    assert published.margin_bound(y, shares, 1.0) == pytest.approx(by_class[0] + 4 / np.sqrt(50))


@pytest.mark.parametrize("error", [0.05, 0.2, 0.4, 0.49])
def test_rounds_of_vadaboost_beside_those_of_adaboost(error):
    """Theorem 5 of Shivaswamy and Jebara 2011, by the factors of both costs in a round at λ = 0."""
    a = np.log((1 - error) / error)
    ada, vada = ((1 - error) * np.exp(-step) + error * np.exp(step) for step in (a / 2, a / 4))
    rounds = published.vadaboost_rounds(30, error)
    assert vada ** (2 * rounds) == pytest.approx(ada**60)
    assert 1.3 < rounds / 30 < 2  # "at most 2", and about a third more for weak learners


def test_all_rounds_are_played_by_a_perfect_learner():
    """Algorithm 1 of Saito et al. 2024 has T rounds, also if no row is missed."""
    X, y = rare(1)
    clf = published.worst_class_boost(DecisionTreeClassifier(), 0.3, gamma=0.3, random_state=0).fit(X, y)
    assert (clf.predict(X) == y).all()
    assert clf.n_iter_ == math.ceil(2 * math.log(5) / 0.3**2)


def test_two_classes_need_p_of_one():
    """Equation (16) of Saito et al. 2024, with p ∈ (.5, 1]: γ is ⌊2p⌋/2 − ½ − .0005."""
    X, y = noisy(3, n=60, K=2)
    refused(lambda: published.worst_class_boost(TREE, 0.3, p=0.8).fit(X, y), "larger p")
    clf = published.worst_class_boost(HistTreeClassifier(max_depth=8), 0.3, p=1.0, random_state=0).fit(X, y)
    assert clf.gamma_ == pytest.approx(0.4995)
    assert not np.ptp(clf.game_losses_.sum(axis=0))


def test_any_drop_of_the_validation_error_counts():
    """Section 6 of Shivaswamy and Jebara 2011: until no drop for 100 rounds."""
    X, y = binary(12, n=400)
    train, held = slice(0, 200), slice(200, 400)
    clf = published.vadaboost("stump", 0.5, T=400, n_iter_no_change=20, random_state=0)
    clf.fit(X[train], y[train], X_val=X[held], y_val=y[held])
    whole = published.vadaboost("stump", 0.5, T=400, random_state=0).fit(X[train], y[train])
    errors = [np.mean(answers != y[held]) for answers in whole.staged_predict(X[held])]
    least, last = math.inf, 0
    for t, error in enumerate(errors, start=1):
        if error < least:
            least, last = error, t
        if t - last >= 20:
            break
    assert clf.n_iter_ == t
    assert len(clf.estimators_) == last


OUTSIDE = {
    "alpha": (20, 0, -0.1, "0.5", None), "T": (0, -3, 2.5, "many"), "eta": (0, -1, "paper"),
    "beta": (0, "paper"), "C": (0, -1), "lambda_": (-0.1, "half", None), "theta": (1, 1.2, -0.1),
    "gamma": (0, 0.6, "large"), "p": (0.4, 1.1), "d": (0, 1.5), "delta": (-1, "wide"),
    "confidence": (0, 1, 95),
}  # fmt: skip
NAMED = {"alpha": 0.3, "lambda_": 0.5, "theta": 0.3, "gamma": 0.3}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_arguments_outside_the_ranges_of_the_papers_are_refused(name):
    function = getattr(published, name)
    parameters = inspect.signature(function).parameters
    needed = {
        key: NAMED.get(key, "tree")
        for key, parameter in parameters.items()
        if parameter.default is parameter.empty and parameter.kind is not parameter.VAR_KEYWORD
    }
    X, y = noisy(3, n=60, K=2)
    for symbol in OUTSIDE.keys() & parameters.keys():
        for value in OUTSIDE[symbol]:
            refused(lambda: function(**needed | {symbol: value}).fit(X, y), r"must be|gives γ")


def test_ends_of_ranges_belong_to_them():
    X, y = noisy(3, n=60, K=2)
    for classifier in (
        published.ebboost(1.5, T=2),
        published.regularized_lpboost("tree", 1, beta="theory", T=2),
        published.worst_class_boost("tree", theta=0, gamma=0.5, p=1),
        published.dro_boost("tree", 0, T=2),
    ):
        classifier.fit(X, y)


def test_parameters_d_of_a_stated_radius_are_refused():
    """They give the radius alone, so they would have no effect."""
    refused(lambda: published.dro_boost(TREE, 0.1, d=30), "effect")
    X = np.random.default_rng(0).normal(size=(200, 2))
    y = (X[:, 0] > 0).astype(int)
    radius = {d: published.dro_boost(TREE, d=d, T=1, random_state=0).fit(X, y).radius_ for d in (3, 30)}
    assert radius[3] < radius[30]
