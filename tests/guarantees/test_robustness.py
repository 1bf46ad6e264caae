"""Radii, profile likelihoods and bounds of the papers, against their theorems."""

import doctest

import numpy as np
import pytest
from scipy.optimize import minimize
from sklearn.datasets import make_classification
from sklearn.linear_model import LogisticRegression

import tailboost as tb
from tailboost.guarantees.robustness import (
    dro_radius,
    empirical_bernstein_bound,
    profile_likelihood,
)


@pytest.fixture(scope="module")
def case():
    X, y = make_classification(400, 6, n_informative=4, flip_y=0.2, random_state=1)
    names = np.array(["no", "yes"])[y]
    return X, names, LogisticRegression().fit(X, names)


def test_radius_of_the_paper():
    assert dro_radius(3000, 0.95, 30) == pytest.approx(0.0073, abs=5e-5)
    assert dro_radius(100) == pytest.approx(3.841 / 200, rel=1e-3)
    for arguments, message in (((0,), "n must"), ((10, 1.0), "confidence"), ((10, 0.9, 0), "effective_dim")):
        with pytest.raises(ValueError, match=message):
            dro_radius(*arguments)


def test_what_the_radius_promises():
    """The means over the ball include the true mean, but the ball excludes the true distribution."""
    rng = np.random.default_rng(0)
    n, repeats = 200, 300
    radius = dro_radius(n)
    values = np.arange(10.0)
    held = means = 0
    for _ in range(repeats):
        seen = np.bincount(rng.integers(0, 10, n), minlength=10) / n
        highest = tb.solvers.worst_case_weights(values, "kl", radius=radius, base=seen).value
        lowest = -tb.solvers.worst_case_weights(-values, "kl", radius=radius, base=seen).value
        means += lowest <= values.mean() <= highest
        held += (seen > 0).all() and np.mean(-np.log(10 * seen)) <= radius  # KL(true ‖ data)
    # Two standard errors of 300 repeats are 0.025.
    assert means / repeats == pytest.approx(0.95, abs=0.025)
    assert held / repeats < 0.15


class Scores:
    """An additive classifier with fixed hypotheses, the columns of X, and given steps."""

    classes_ = np.array([-1, 1])

    def __init__(self, steps):
        self.steps = np.asarray(steps)

    def staged_decision_function(self, X):
        for t in range(1, len(self.steps) + 1):
            yield X[:, :t] @ self.steps[:t]


def draw(steps, n, rng):
    """Draw rows for which f = Σ a_t x_t is half the log-odds: the optimum of the exponential loss."""
    X = rng.choice([-1.0, 1.0], (n, len(steps)))
    y = np.where(rng.random(n) < 1 / (1 + np.exp(-2 * X @ steps)), 1, -1)
    return X, y


def test_profile_likelihood_is_the_least_divergence():
    rng = np.random.default_rng(0)
    steps = np.array([0.4, -0.3, 0.2])
    X, y = draw(steps, 40, rng)
    weight = rng.integers(1, 4, 40).astype(float)
    p, conditions = weight / weight.sum(), (np.exp(-y * (X @ steps)) * y)[:, None] * X
    found = minimize(
        lambda q: np.sum(q * np.log(np.maximum(q, 1e-300) / p)),
        p,
        jac=lambda q: np.log(np.maximum(q, 1e-300) / p) + 1,
        method="SLSQP",
        bounds=[(1e-12, 1)] * 40,
        constraints=[
            {"type": "eq", "fun": lambda q: q.sum() - 1},
            {"type": "eq", "fun": lambda q: q @ conditions},
        ],
        options={"ftol": 1e-14, "maxiter": 500},
    )
    assert found.success
    assert profile_likelihood(Scores(steps), X, y, sample_weight=weight) == pytest.approx(found.fun, abs=1e-7)


def test_profile_likelihood_at_the_optimum_of_the_rows_and_where_there_is_none():
    X, y = draw(np.array([0.4, -0.3]), 200, np.random.default_rng(1))
    best = minimize(lambda a: np.mean(np.exp(-y * (X @ a))), np.zeros(2), options={"gtol": 1e-12}).x
    assert profile_likelihood(Scores(best), X, y) == pytest.approx(0, abs=1e-10)
    right = np.c_[y, X[:, 0]].astype(float)  # a base model without errors needs a longer step
    assert profile_likelihood(Scores([0.5, 0.1]), right, y) == np.inf
    with pytest.raises(TypeError, match="scores"):
        profile_likelihood(LogisticRegression().fit(X, y), X, y)
    with pytest.raises(ValueError, match="loss"):
        profile_likelihood(Scores(best), X, y, loss="linear")


@pytest.mark.slow
@pytest.mark.parametrize("loss", ["exponential", "logistic"])
@pytest.mark.parametrize("d", [2, 5])
def test_theorem_1_of_blanchet_et_al(d, loss):
    """The true optimum is within the radius with the stated confidence: d hypotheses, 1,500 rows."""
    rng = np.random.default_rng(d)
    steps = rng.normal(size=d) * 0.3
    scale = 2.0 if loss == "logistic" else 1.0  # the optimum is the log-odds
    n, repeats = 1_500, 600
    radius = dro_radius(n, 0.95, d)
    held = np.mean(
        [
            profile_likelihood(Scores(scale * steps), *draw(steps, n, rng), loss=loss) <= radius
            for _ in range(repeats)
        ]
    )
    assert held == pytest.approx(0.95, abs=3 * np.sqrt(0.95 * 0.05 / repeats))


@pytest.mark.parametrize("rate", [0.01, 0.1, 0.5])
def test_empirical_bernstein_covers(rate):
    rng = np.random.default_rng(2)
    n, delta = 300, 0.1
    losses = rng.random((1000, n)) < rate
    bounds = np.array([empirical_bernstein_bound(row, delta) for row in losses])
    assert (bounds < rate).mean() <= delta
    # The smallest of twenty losses on the same rows, with equal truth.
    chosen = [losses[20 * j + losses[20 * j : 20 * j + 20].mean(axis=1).argmin()] for j in range(50)]
    assert np.mean([empirical_bernstein_bound(row, delta, n_hypotheses=20) < rate for row in chosen]) <= delta


def test_empirical_bernstein_by_hand():
    losses = np.array([0.0, 0.5, 1.0])  # mean ½, variance ¼
    log_term = np.log(2 / 0.05)
    assert empirical_bernstein_bound(losses) == pytest.approx(
        0.5 + np.sqrt(2 * 0.25 * log_term / 3) + 7 * log_term / 6
    )
    log_term = 4 - np.log(0.05)
    assert empirical_bernstein_bound(losses, log_covering=4.0) == pytest.approx(
        0.5 + np.sqrt(18 * 0.25 * log_term / 3) + 15 * log_term / 2
    )
    # Less variance at the same mean gives a smaller bound.
    even, uneven = np.full(100, 0.2), np.arange(100) < 20
    assert empirical_bernstein_bound(even) < empirical_bernstein_bound(uneven)
    for arguments, options, message in (
        (([0.1],), {}, "losses"),
        (([0.1, 1.1],), {}, "losses"),
        ((losses, 0.0), {}, "delta"),
        ((losses,), {"n_hypotheses": 0}, "n_hypotheses"),
        ((losses,), {"log_covering": 1.0}, "log_covering"),
    ):
        with pytest.raises(ValueError, match=message):
            empirical_bernstein_bound(*arguments, **options)


def test_examples():
    assert doctest.testmod(tb.robustness).failed == 0
