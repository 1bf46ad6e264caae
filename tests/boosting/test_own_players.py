"""Players of one's own, by the public classifiers: those of the page, and one without theorems."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from conftest import noisy, refused
from scipy.optimize import minimize
from sklearn.tree import DecisionTreeClassifier

import tailboost as tb
from tailboost.boosting import LP, Hedge
from tailboost.boosting.variance import Exponential
from tailboost.solvers import cvar

PAGE = (Path(__file__).parents[2] / "docs" / "published.md").read_text(encoding="utf-8")
TREE = DecisionTreeClassifier(max_depth=2, random_state=0)


@pytest.fixture(scope="module")
def page():
    """The players of the page."""
    space = {"__name__": __name__}
    for block in re.findall(r"```python\n(.*?)```", PAGE, flags=re.DOTALL):
        for name in ("ChiSquare(Player)", "Logistic(Additive)"):
            if name in block:
                exec(block.partition("\nclf = ")[0], space)
    return space


@dataclass(frozen=True)
class Uniform(tb.Player):
    """The same weights in every round."""

    def start(self, p):
        return p

    def weights(self, state):
        return state

    def update(self, state, losses):
        return state


@pytest.mark.parametrize("radius", [0.05, 0.5, 2.0, 50.0])
def test_the_weights_of_the_chi_square_player_are_those_of_a_generic_solver(page, radius):
    rng = np.random.default_rng(0)
    for n in (3, 8):
        p, player = rng.dirichlet(np.full(n, 3.0)), page["ChiSquare"](radius)
        state = player.start(p)
        assert player.weights(state) == pytest.approx(p, abs=1e-6)
        total = np.zeros(n)
        for losses in rng.random((3, n)) < 0.4:
            state = player.update(state, losses)
            total += losses
            found = minimize(
                lambda w, total=total: -w @ total, p, method="SLSQP", bounds=[(0, 1)] * n,
                constraints=[{"type": "eq", "fun": lambda w: w.sum() - 1},
                {"type": "ineq", "fun": lambda w, p=p: radius - ((w - p) ** 2 / p).sum()}],
                options={"ftol": 1e-14, "maxiter": 500},
            )  # fmt: skip
            w = player.weights(state)
            assert w.sum() == pytest.approx(1)
            assert ((w - p) ** 2 / p).sum() <= radius + 1e-5
            assert w @ total == pytest.approx(-found.fun, abs=1e-4)


def test_bounds_belong_to_the_player(page):
    X, y = noisy(0, n=150)
    for player in (Uniform(), page["ChiSquare"](0.5)):
        clf = tb.GameClassifier(player, TREE, alpha=0.1, n_estimators=20, random_state=0).fit(X, y)
        assert clf.bounds_ == []
        assert clf.n_iter_ == 20
    assert tb.AdditiveClassifier(page["Logistic"](), TREE, n_estimators=5).fit(X, y).bounds_ == []


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_the_steps_of_a_cost_of_ones_own_minimise_it(page, seed):
    X, y = noisy(seed, n=150)
    clf = tb.AdditiveClassifier(page["Logistic"](), TREE, n_estimators=4, random_state=0).fit(X, y)
    sign, f = 2 * y - 1, np.zeros(len(y))
    for model, a, log_cost in zip(clf.estimators_, clf.estimator_weights_, clf.log_costs_, strict=True):
        h = 2 * model.predict(X) - 1
        costs = [np.log1p(np.exp(-sign * (f + b * h))).mean() for b in (a - 0.01, a, a + 0.01)]
        assert costs[1] < min(costs[0], costs[2])
        assert log_cost == pytest.approx(np.log(costs[1]))
        f = f + a * h
    assert clf.decision_function(X) == pytest.approx(f)


def test_a_hypothesis_without_errors_gets_the_longest_step_so_far():
    player, errors = Exponential(), np.eye(4, dtype=bool)
    state = player.start(np.full(4, 0.25))
    for losses in (errors[0], errors[1] | errors[2], errors[0] & errors[1]):
        state = player.update(state, losses)
    assert state.steps == pytest.approx(np.log([3, 2, 3]) / 2)  # half the log odds of being right


def test_a_game_of_a_papers_player_is_its_classifier():
    X, y = noisy(3, n=150, K=3)
    given = {"n_estimators": 6, "random_state": 0}
    pairs = [
        (tb.GameClassifier(Hedge(1.0), TREE, alpha=0.2, **given), tb.published.adalpboost(TREE, 0.2, T=6)),
        (tb.GameClassifier(LP(0.2), TREE, alpha=0.2, **given), tb.published.lpboost(TREE, 0.2, T=6)),
        (tb.AdditiveClassifier(Exponential(), TREE, **given), tb.published.adaboost(TREE, T=6)),
    ]
    for game, paper in pairs:
        game.fit(X, y), paper.set_params(random_state=0).fit(X, y)
        np.testing.assert_array_equal(game.predict_proba(X), paper.predict_proba(X))
        assert all(bound in paper.bounds_ for bound in game.bounds_)


def test_the_even_mixture_without_alpha():
    X, y = noisy(4, n=150)
    clf = tb.GameClassifier(Hedge(0.5), TREE, n_estimators=8, random_state=0).fit(X, y)
    shares = np.mean([model.predict(X) for model in clf.estimators_], axis=0)
    np.testing.assert_allclose(clf.predict_distribution(X)[:, 1], shares)
    least = clf.reweight(0.3)
    losses = 1 - least.predict_distribution(X)[np.arange(len(y)), y]
    assert cvar(losses, 0.3) <= cvar(clf.losses_.mean(axis=0), 0.3) + 1e-9


def test_what_is_no_player_is_refused():
    X, y = noisy(0, n=60)
    for clf in (tb.GameClassifier(1.0, TREE), tb.GameClassifier(Uniform(), TREE, n_estimators=0)):
        refused(lambda: clf.fit(X, y), r"player|n_estimators")


@dataclass(frozen=True)
class Wrong(Uniform):
    """Faulty weights from round 3 on."""

    fault: Callable

    def start(self, p):
        return p, 1

    def weights(self, state):
        return self.fault(state[0]) if state[1] == 3 else state[0]

    def update(self, state, losses):
        return state[0], state[1] + 1


@pytest.mark.parametrize("fault", [lambda p: 1.21 * p, lambda p: np.append(1 + p[0], -p[1:]), lambda p: p[1:],
                                   lambda p: p * np.nan, lambda p: None])  # fmt: skip
def test_weights_that_are_no_distribution_are_refused(fault):
    with pytest.raises(ValueError, match="weights of Wrong in round 3 must be 60 non-negative numbers"):
        tb.GameClassifier(Wrong(fault), TREE, n_estimators=5).fit(*noisy(0, n=60))


def test_a_cost_of_ones_own_whose_weights_do_not_sum_to_one_is_refused(page):
    class Doubled(page["Logistic"]):
        def weights(self, state):
            return 2 * super().weights(state)

    with pytest.raises(ValueError, match="weights of Doubled in round 1"):
        tb.AdditiveClassifier(Doubled(), TREE, n_estimators=5).fit(*noisy(0, n=60))


def test_each_round_has_a_seed_of_its_own():
    tree = DecisionTreeClassifier(max_depth=1, max_features=1)
    clf = tb.GameClassifier(Hedge(1.0), tree, n_estimators=6, random_state=0).fit(*noisy(0, n=80))
    assert len({model.random_state for model in clf.estimators_}) == 6
