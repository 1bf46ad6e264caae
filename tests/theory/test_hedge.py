"""Hedge's regret bounds [Hazan, Introduction to Online Convex Optimization, §1.3] as inequalities."""

import math

import numpy as np
import pytest
from conftest import make, noisy
from games import kl, opponent, play, random_base
from sklearn.tree import DecisionTreeClassifier

from tailboost.boosting.cvar import Hedge
from tailboost.boosting.game import Units
from tailboost.solvers import cvar

ETAS = (1e-3, 0.03, 0.3, 1.0, 3.0, 30.0)


def played(kind, eta, rounds, seed):
    """Play Hedge against an opponent; return (p, V, mean loss of every unit)."""
    rng = np.random.default_rng(seed)
    n = int(rng.integers(1, 12))
    units = Units.rows(random_base(rng, n).astype(float))
    answer = opponent(kind, rng, n)
    game = play(Hedge(eta), units, answer, rounds)
    assert len(game.weighted_loss) == rounds
    return units.p, float(game.weighted_loss.mean()), game.state.total / rounds


@pytest.mark.parametrize("eta", ETAS)
@pytest.mark.parametrize("kind", ["random", "bits", "fixed", "spiteful", "alternating"])
def test_regret_against_every_comparator(kind, eta):
    for seed in (0, 1, 4, 7):
        rounds = 1 + 7 * seed
        p, V, mean = played(kind, eta, rounds, seed)
        rng = np.random.default_rng(seed)
        comparators = [rng.dirichlet(np.full(len(p), c), 20) for c in (0.1, 1.0)]
        for v in np.vstack([np.eye(len(p)), p, *comparators]):
            assert v @ mean <= V + kl(v, p) / (eta * rounds) + eta / 8 + 1e-12


@pytest.mark.parametrize("eta", ETAS)
@pytest.mark.parametrize("kind", ["random", "bits", "fixed", "spiteful", "alternating"])
def test_both_observed_bounds(kind, eta):
    for seed in (0, 1, 4, 7):
        rounds = 1 + 7 * seed
        p, V, mean = played(kind, eta, rounds, seed)
        assert mean.max() <= V + math.log(1 / p.min()) / (eta * rounds) + eta / 8 + 1e-12
        for alpha in (1.0, 0.5, 0.1, 0.01, 1e-9):
            assert cvar(mean, alpha, p) <= V + math.log(1 / alpha) / (eta * rounds) + eta / 8 + 1e-12


def test_log_n_is_not_the_constant_for_other_than_uniform_weights():
    """The second bound with log n in place of log(1/min p) is false, and our constant is why ours is true."""
    p = np.array([1e-6, 1 - 1e-6])
    rounds, eta = 4, 0.5
    loss = np.array([1.0, 0.0])  # always wrong on the row with almost no weight
    game = play(Hedge(eta), Units.rows(p), lambda density: loss, rounds)
    V, mean = game.weighted_loss.mean(), game.state.total / rounds
    assert mean.max() > V + math.log(2) / (eta * rounds) + eta / 8
    assert mean.max() <= V + math.log(1 / p.min()) / (eta * rounds) + eta / 8


@pytest.mark.parametrize("kind", ["random", "bits", "fixed", "spiteful", "alternating"])
@pytest.mark.parametrize("rounds", [1, 3, 20, 200])
def test_theory_eta_promises_g_plus_root(kind, rounds):
    rng, n = np.random.default_rng(rounds), 9
    answer, units = opponent(kind, rng, n), Units.rows(np.ones(n))
    game = play(Hedge(math.sqrt(8 * math.log(n) / rounds), rounds), units, answer, rounds)
    mean, g = game.state.total / rounds, game.weighted_loss.max()
    assert mean.max() <= g + math.sqrt(math.log(n) / (2 * rounds)) + 1e-12


def test_weights_are_those_of_the_formula():
    rng = np.random.default_rng(0)
    p, losses = rng.dirichlet(np.ones(20)), rng.random((7, 20))
    rule = Hedge(0.7)
    state = rule.start(p)
    for t, loss in enumerate(losses):
        w = p * np.exp(0.7 * losses[:t].sum(axis=0))
        np.testing.assert_allclose(rule.weights(state), w / w.sum(), rtol=1e-12)
        state = rule.update(state, loss)


def test_update_leaves_the_old_state_alone():
    rule = Hedge(1.0)
    state = rule.start(np.ones(3) / 3)
    before = state.total.copy()
    rule.update(state, np.array([1.0, 0.0, 0.0]))
    np.testing.assert_array_equal(state.total, before)


@pytest.mark.parametrize("eta", [1e-3, 1.0, 50.0])
def test_ten_thousand_rounds_stay_finite(eta):
    rng, rule = np.random.default_rng(0), Hedge(eta)
    state = rule.start(10 ** rng.uniform(-12, 0, 50))
    always = np.arange(50) % 5 == 0  # e^(η 10⁴) overflows unless stored as a logarithm
    for _ in range(10_000):
        state = rule.update(state, always | (rng.random(50) < 0.1))
    w = rule.weights(state)
    assert np.all(np.isfinite(w))
    assert w.sum() == pytest.approx(1.0, abs=1e-12)
    assert w[always].sum() > 0.99


@pytest.mark.parametrize("name", ["adalpboost", "averageboost", "groupdroboost"])
@pytest.mark.parametrize("eta", ["theory", 0.1, 1.0, 5.0])
@pytest.mark.parametrize("weighted", [False, True])
def test_bounds_of_real_fits(name, eta, weighted):
    for seed in range(2):
        X, y = noisy(seed, n=80, K=2 + seed % 2)
        weight = np.random.default_rng(seed).integers(1, 6, len(y)) if weighted else None
        tree = DecisionTreeClassifier(max_depth=2)
        given = {"n_estimators": 6, "eta": eta, "alpha": 0.3, "random_state": seed, "cv": "train"}
        clf = make(name, tree, **given).fit(X, y, sample_weight=weight)
        if weighted and name == "adalpboost":  # a row of weight w is 10 w equal ones
            losses = np.mean([model.predict(X) != y for model in clf.estimators_], axis=0)
            worst = np.sort(np.repeat(losses, 10 * weight))[::-1][: 3 * weight.sum()]
            assert clf.bounds_[0].achieved == pytest.approx(worst.mean())
        bounds = [b for b in clf.bounds_ if b.bound == b.bound]
        assert len(bounds) >= 1
        for bound in bounds:
            assert bound.achieved <= bound.bound + 1e-12, str(bound)
        if eta == "theory":
            (promise,) = (b for b in bounds if b.formula.startswith("g + "))
            root = math.sqrt(math.log(1 / clf.units_.p.min()) / (2 * clf.n_iter_))
            assert promise.bound == pytest.approx(clf.weighted_losses_.max() + root)


def test_reported_numbers_are_the_losses_of_the_members():
    """The achieved value of the bounds is recomputed from the answers of the hypotheses."""
    X, y = noisy(5, n=70)
    weight = np.random.default_rng(5).integers(1, 4, 70).astype(float)
    clf = make("averageboost", DecisionTreeClassifier(max_depth=2), n_estimators=6, eta=0.5, random_state=0)
    clf.fit(X, y, sample_weight=weight)
    p = weight / weight.sum()
    wrong = np.array([member.predict(X) != y for member in clf.estimators_])
    V = 0.0
    for t, loss in enumerate(wrong):
        w = p * np.exp(0.5 * wrong[:t].sum(axis=0))
        w = w / w.sum()
        np.testing.assert_allclose(clf.unit_weights(t + 1), w, rtol=1e-12)
        V += w @ loss / 6
    (bound,) = clf.bounds_
    assert bound.bound == pytest.approx(V + math.log(1 / p.min()) / (0.5 * 6) + 0.5 / 8, abs=1e-12)
    assert bound.achieved == pytest.approx(wrong.mean(axis=0).max(), abs=1e-12)


@pytest.mark.parametrize("weighted", [False, True])
def test_average_on_training_rows_keeps_the_theory_promise(weighted):
    """max_i mean loss ≤ g + √(log n/(2T)) for uniform p of any scale, from the answers alone."""
    X, y = noisy(8, n=60)
    tree = DecisionTreeClassifier(max_depth=3)
    clf = make("averageboost", tree, n_estimators=15, eta="theory", random_state=0)
    clf.fit(X, y, sample_weight=np.full(60, 3.0) if weighted else None)
    loss = 1 - clf.predict_distribution(X)[np.arange(60), y]
    assert loss.max() <= clf.weighted_losses_.max() + math.sqrt(math.log(60) / (2 * 15)) + 1e-9
