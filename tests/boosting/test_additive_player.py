"""Variance-penalised players against the papers' algorithms, and their inequalities."""

import numpy as np
import pytest
from conftest import noisy
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.tree import DecisionTreeClassifier

import tailboost as tb
from tailboost.boosting.ensemble import centred
from tailboost.boosting.game import Units
from tailboost.boosting.learner import round_significant
from tailboost.boosting.players.additive_player import (
    Additive,
    ExactVariancePenalty,
    VariancePenalty,
    variance_cost,
)
from tailboost.learners import StumpClassifier

ROUNDS = 200


class Recording(ClassifierMixin, BaseEstimator):
    """Shallow tree that records its weights."""

    def __init__(self, depth=1, random_state=None):
        self.depth = depth
        self.random_state = random_state

    def fit(self, X, y, sample_weight=None):
        self.weight_ = np.array(sample_weight)
        self.tree_ = DecisionTreeClassifier(max_depth=self.depth, random_state=0).fit(X, y, sample_weight)
        self.classes_ = self.tree_.classes_
        return self

    def predict(self, X):
        return self.tree_.predict(X)


def weights_of(kind, n):
    rng = np.random.default_rng(1)
    return {
        "uniform": np.ones(n),
        "whole": rng.integers(1, 5, n).astype(float),
        "real": rng.exponential(size=n) + 0.01,
    }[kind]


@pytest.mark.parametrize("base", ["uniform", "whole", "real"])
@pytest.mark.parametrize("lam", [0.0, 0.5, 1.0])
@pytest.mark.slow
def test_vadaboost_is_the_papers_algorithm(lam, base):
    X, labels = noisy(3, n=120, d=5)
    y, n = 2 * labels - 1, len(labels)
    s = weights_of(base, n)
    clf = tb.VadaBoostClassifier(Recording(), variance_weight=lam, n_estimators=ROUNDS).fit(
        X, labels, sample_weight=s
    )
    p = s / s.sum()
    w, f, steps = p.copy(), np.zeros(n), []
    for member in clf.estimators_:
        u = lam * w**2 / p + (1 - lam) * w
        u /= u.sum()
        handed = s * round_significant(u / p)
        np.testing.assert_allclose(member.weight_, handed, rtol=2**-15, atol=1e-10)
        h = 2 * DecisionTreeClassifier(max_depth=1, random_state=0).fit(X, labels, handed).predict(X) - 1
        a = 0.25 * np.log(u[h == y].sum() / u[h != y].sum())
        steps.append(a)
        f += a * h
        w *= np.exp(-a * y * h)
        w /= w.sum()
    assert len(steps) == clf.n_iter_ == ROUNDS
    np.testing.assert_allclose(clf.estimator_weights_, steps, rtol=0, atol=1e-9)
    np.testing.assert_allclose(clf.decision_function(X), f, rtol=0, atol=1e-9)  # sample weights have 32 bits
    state = clf.game_.state
    np.testing.assert_allclose(state.weighed.rows, w, rtol=0, atol=1e-10)
    assert (clf.predict(X) == (f > 0)).all()


@pytest.mark.parametrize("base", ["uniform", "whole", "real"])
@pytest.mark.parametrize("lam", [0.0, 0.5, 1.0, 2.5, 100.0])
@pytest.mark.thinned(4)
def test_ebboost_is_the_papers_algorithm(lam, base):
    X, labels = noisy(3, n=120, d=5)
    y, n = 2 * labels - 1, len(labels)
    s = weights_of(base, n)
    clf = tb.EBBoostClassifier(variance_weight=lam, n_estimators=ROUNDS).fit(X, labels, sample_weight=s)
    p = s / s.sum()
    w, f, steps = p.copy(), np.zeros(n), []
    session = StumpClassifier(variance_weight=lam).open_session(X, labels, 2, s)
    for _ in range(clf.n_iter_):
        h = 2 * session.predict(session.fit(s * round_significant(w / p), 0)) - 1
        right = h == y
        A, B, C, D = w[right].sum(), w[~right].sum(), (w**2 / p)[right].sum(), (w**2 / p)[~right].sum()
        a = 0.25 * np.log(((1 - lam) * A**2 + lam * C) / ((1 - lam) * B**2 + lam * D))
        steps.append(a)
        f += a * h
        w *= np.exp(-a * y * h)
        w /= w.sum()
    assert clf.n_iter_ == ROUNDS
    np.testing.assert_allclose(clf.estimator_weights_, steps, rtol=0, atol=1e-9)
    np.testing.assert_allclose(clf.decision_function(X), f, rtol=0, atol=1e-9)  # sample weights have 32 bits
    np.testing.assert_allclose(clf.game_.state.weighed.rows, w, rtol=0, atol=1e-10)


@pytest.mark.thinned(2)
@pytest.mark.parametrize("K", [3, 5])
@pytest.mark.parametrize("base", ["uniform", "real"])
def test_multiclass_vadaboost_is_its_derivation(K, base):
    X, y = noisy(5, n=150, d=5, K=K)
    s, lam = weights_of(base, 150), 0.4
    clf = tb.VadaBoostClassifier(Recording(2), variance_weight=lam, n_estimators=ROUNDS).fit(
        X, y, sample_weight=s
    )
    p = s / s.sum()
    w, steps = p.copy(), []
    for member in clf.estimators_:
        right = member.predict(X) == y
        u = lam * w**2 / p + (1 - lam) * w
        a = (K - 1) / (2 * K) * np.log((K - 1) * u[right].sum() / u[~right].sum())
        steps.append(a)
        w = np.where(right, w * np.exp(-a), w * np.exp(a / (K - 1)))
        w /= w.sum()
    np.testing.assert_allclose(clf.estimator_weights_, steps, rtol=0, atol=1e-9)
    np.testing.assert_allclose(clf.game_.state.weighed.rows, w, rtol=0, atol=1e-10)


def test_two_classes_are_a_case_of_many():
    wrong = np.array([True, False, False, True, False, False])
    player = Additive(VariancePenalty(2, 0.3))
    state = player.at(np.full(6, 1 / 6), np.array([0.1, -0.3, 0.2, 0.0, 0.5, -0.2]))
    u = player.weights(state)
    assert player.cost.step(wrong, state) == pytest.approx(
        0.25 * np.log(u[~wrong].sum() / u[wrong].sum()), rel=1e-14
    )


@pytest.mark.parametrize("K", [2, 3, 7, 26])
def test_bound_of_the_cost(K):
    """V(a) ≤ U(a) for every a, equal at 0, and the player's step minimises U."""
    rng = np.random.default_rng(K)
    for _ in range(200):
        n = int(rng.integers(2, 30))
        p = rng.dirichlet(np.ones(n))
        lam = rng.uniform()
        rule = VariancePenalty(K, lam)
        state = Additive(rule).at(p, rng.normal(size=n))
        w, u = state.weighed.rows, state.weighed.pull
        wrong = rng.random(n) < 0.4
        wrong[:2] = True, False

        def V(a, w=w, p=p, lam=lam, wrong=wrong):
            z = np.exp(np.where(wrong, a / (K - 1), -a))
            return (1 - lam) * (w @ z) ** 2 + lam * np.sum(w**2 * z**2 / p)

        def U(a, u=u, wrong=wrong):
            return u[~wrong].sum() * np.exp(-2 * a) + u[wrong].sum() * np.exp(2 * a / (K - 1))

        assert V(0.0) == pytest.approx(U(0.0), rel=1e-12)
        for a in rng.normal(size=20):
            assert V(a) <= U(a) * (1 + 1e-12)
        best = rule.step(wrong, state)
        assert all(U(best) <= U(best + delta) for delta in (-1e-3, 1e-3))


def test_eb_step_minimises_the_cost():
    rng = np.random.default_rng(0)
    for _ in range(200):
        n = int(rng.integers(2, 30))
        base, margins = rng.dirichlet(np.ones(n)), rng.normal(size=n)
        wrong = rng.random(n) < 0.4
        wrong[:2] = True, False
        rule = ExactVariancePenalty(2, rng.uniform())
        state = Additive(rule).at(base, margins)
        z = np.where(wrong, -1.0, 1.0)

        def cost(a, rule=rule, state=state, z=z):
            return variance_cost(state.margins + a * z, state.base, rule.variance_weight)

        best = rule.step(wrong, state)
        assert all(cost(best) <= cost(best + delta) + 1e-15 for delta in (-0.5, -1e-3, 1e-3, 0.5))


def test_cost_is_the_papers():
    rng = np.random.default_rng(0)
    for lam in (0.0, 0.2, 1.0):
        m, p = rng.normal(size=50), rng.dirichlet(np.ones(50))
        e1, e2 = p @ np.exp(-m), p @ np.exp(-2 * m)
        found = variance_cost(m, p, lam)
        assert found == pytest.approx(np.log(e1**2 + lam * (e2 - e1**2)), rel=1e-12)


@pytest.mark.parametrize("shift", [-1e5, 1e5])
def test_cost_of_extreme_margins(shift):
    rng = np.random.default_rng(0)
    m, p = rng.normal(size=50), rng.dirichlet(np.ones(50))
    near, far = variance_cost(m, p, 0.3), variance_cost(m + shift, p, 0.3)
    assert far + 2 * shift == pytest.approx(near, abs=1e-9)
    assert variance_cost(np.zeros(50), p, 1e9) == pytest.approx(0.0, abs=1e-9)


def test_rounds_of_lambda_zero_against_adaboost():
    """For given A and B a round with λ = 0 reduces the squared cost by √(AB)(1 + 2√(AB)), AdaBoost by 4AB."""
    for B in np.geomspace(1e-9, 0.499, 40):
        A = 1 - B
        rule = VariancePenalty(2, 0.0)
        state = Additive(rule).at(np.array([A, B]), np.zeros(2))
        wrong = np.array([False, True])
        z = np.array([1.0, -1.0])
        root = np.sqrt(A * B)
        half = variance_cost(rule.step(wrong, state) * z, state.base, 0.0)
        assert half == pytest.approx(np.log(root * (1 + 2 * root)), rel=1e-9)
        assert 4 / 3 - 1e-6 <= np.log(4 * A * B) / half <= 2


def test_underflown_weights_end_the_game_without_losing_it():
    rule = Additive(VariancePenalty(2, 1.0))
    state = rule.at(np.full(3, 1 / 3), np.array([0.0, 0.0, 900.0]), (0.5,))
    after = rule.update(state, np.array([0, 0, 1]))
    assert after.steps == (0.5, 0.0)
    assert "without weight" in rule.finished(after).text
    assert rule.start(Units.samples(np.ones(3))).steps == ()


@pytest.mark.parametrize("lam", [1.5, 30.0])
def test_more_variance_weight_than_one(lam):
    """The step is the exact line search, and the cost falls in every round."""
    X, labels = noisy(3, n=120, d=5)
    clf = tb.EBBoostClassifier(variance_weight=lam, n_estimators=60).fit(X, labels)
    state = clf.game_.state
    e = np.exp(-state.margins)
    assert clf.log_costs_[-1] == pytest.approx(np.log(e.mean() ** 2 + lam * e.var()), abs=1e-9)
    assert (np.diff(np.append(0.0, clf.log_costs_)) < 0).all()
    rng = np.random.default_rng(0)
    for _ in range(20):
        rule = ExactVariancePenalty(2, lam)
        start = Additive(rule).at(np.full(120, 1 / 120), rng.normal(size=120))
        wrong = rng.random(120) < 0.3
        best = rule.step(wrong, start)
        z = np.where(wrong, -1.0, 1.0)
        costs = [
            variance_cost(start.margins + a * z, start.base, lam) for a in best + np.array([0, 1e-3, -1e-3])
        ]
        assert costs[0] == min(costs)
    # Equal margins have no variance; rows of tiny weight do not give nan.
    assert variance_cost(np.full(3, 2.0), np.full(3, 1 / 3), lam) == pytest.approx(-4.0)
    u = np.r_[np.full(60, 1e-200), np.ones(60)]
    assert np.isfinite(
        StumpClassifier(variance_weight=lam).open_session(X, labels, 2, np.ones(120)).fit(u, 0).cost_
    )


def test_the_largest_of_two_scores_is_the_positive_one():
    """`predict` looks at the sign, the errors of a fit at the largest: near ties they agree."""
    near = 0.5 + np.arange(-8, 9) * 2.0**-54
    votes = np.stack(np.meshgrid(near, near), axis=-1).reshape(-1, 2)
    scores = centred(votes)
    np.testing.assert_array_equal(scores.argmax(axis=1), scores[:, 1] > 0)
    np.testing.assert_array_equal(scores[:, 1] > 0, votes[:, 1] > votes[:, 0])
    np.testing.assert_array_equal(scores.sum(axis=1), 0.0)
