"""Radii, profile likelihoods and bounds of the papers, against their theorems."""

import doctest

import numpy as np
import pytest
from scipy.optimize import minimize
from sklearn.datasets import make_classification
from sklearn.linear_model import LogisticRegression

import tailboost as tb
from experiments._bounds import cvar_bound, worst_class_margin_bound
from experiments._losses import exponential_losses
from tailboost.guarantees.robustness import (
    dro_radius,
    empirical_bernstein_bound,
    profile_likelihood,
)
from tailboost.rates.metrics import cvar


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


def test_margin_bound_of_noise_is_no_promise():
    """A vote of 20,000 one-feature stumps memorises noise; a bound without a margin gives 0.4."""
    rng = np.random.default_rng(0)
    n, d = 2000, 20_000
    y, f = np.repeat([-1, 1], n // 2), np.zeros(n)
    for _ in range(20):
        X = (2 * rng.integers(0, 2, (n, d // 20), dtype=np.int8) - 1).astype(np.float32)
        f += X @ np.where(y @ X > 0, 1, -1).astype(np.float32)
    assert (y * f > 0).mean() > 0.99
    assert worst_class_margin_bound(y, (1 + y * f / d) / 2, np.sqrt(2 * np.log(2 * d))) >= 0.5


def test_margin_bound_holds_where_it_says_something():
    """The best vote of five fixed models on the training rows, with known truth."""
    rng = np.random.default_rng(1)
    errors = np.array([[0.30, 0.25], [0.10, 0.30], [0.25, 0.05], [0.3, 0.3], [0.2, 0.2]])  # hypothesis, class
    candidates = np.vstack([np.eye(5), rng.dirichlet(np.full(5, 0.5), 60)])
    patterns = (np.arange(32)[:, None] >> np.arange(5)) & 1  # errors of the five
    chance = np.array([np.prod(np.where(patterns, e, 1 - e), axis=1) for e in errors.T])
    truth = np.array([chance[:, patterns @ v >= 0.5].sum(axis=1).max() for v in candidates])
    bounds = []
    for _ in range(100):
        drawn = [rng.choice(32, size=m, p=c) for m, c in zip((60_000, 20_000), chance, strict=True)]
        y, wrong = np.repeat([0, 1], [60_000, 20_000]), patterns[np.concatenate(drawn)]
        counts = np.array([np.bincount(k, minlength=32) / len(k) for k in drawn])
        seen = [counts[:, patterns @ v >= 0.5].sum(axis=1).max() for v in candidates]
        best = int(np.argmin(seen))
        bounds.append(worst_class_margin_bound(y, 1 - wrong @ candidates[best], np.sqrt(2 * np.log(5)), 0.1))
        assert bounds[-1] >= truth[best]
    assert np.mean(bounds) < 0.6


def test_margin_bound_by_hand():
    y, shares = np.array([0] * 50 + [1] * 200), np.array([1.0] * 250)
    shares[50:70] = 0.7  # margin 0.4
    rows, log_term = np.array([50, 200]), np.log(2 * 2 / 0.05)
    by_class = np.sqrt(log_term / (2 * rows))
    by_class[1] += 0.1  # θ = 1: twenty of two hundred lie below
    assert worst_class_margin_bound(y, shares, 0.0) == pytest.approx(by_class.max())
    assert worst_class_margin_bound(y, shares, 1.0) == pytest.approx(by_class[0] + 4 / np.sqrt(50))
    assert worst_class_margin_bound(y, 0 * shares, 0.0) == 1.0
    for arguments, message in (
        ((y[1:], shares, 1.0), "shares"),
        ((y, shares + 1, 1.0), "shares must be"),
        ((y, shares, -1.0), "complexity"),
        ((y, shares, 1.0, 1.0), "delta"),
    ):
        with pytest.raises(ValueError, match=message):
            worst_class_margin_bound(*arguments)


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


@pytest.mark.thinned(5)
@pytest.mark.parametrize("alpha", [0.1, 0.5, 1.0])
@pytest.mark.parametrize("n", [40, 400])
def test_the_cvar_bound_covers(alpha, n):
    """Rare errors, a uniform loss, and the best of twenty classifiers, with known truth."""
    rng, delta = np.random.default_rng(3), 0.1
    for draw, truth in (
        (rng.random((600, n)) < 0.05, min(1.0, 0.05 / alpha)),
        (rng.random((600, n)), 1 - alpha / 2),
    ):
        bounds = np.array([cvar_bound(row, alpha, delta) for row in draw])
        assert (bounds < truth).mean() <= delta
        chosen = [min(draw[20 * j : 20 * j + 20], key=lambda row: cvar(row, alpha)) for j in range(30)]
        held = [cvar_bound(row, alpha, delta, n_hypotheses=20) >= truth for row in chosen]
        assert np.mean(held) >= 1 - delta


def test_the_cvar_bound_is_the_printed_one():
    """The sum of Thomas and Learned-Miller over gaps of sorted losses, and the second form by hand."""
    rng = np.random.default_rng(4)
    for n, alpha, delta in (
        (1, 0.3, 0.5),
        (7, 0.05, 0.05),
        (30, 0.4, 0.2),
        (500, 0.9, 0.01),
        (500, 1.0, 0.05),
    ):
        losses = np.round(rng.random(n), 1)
        z, shift = np.append(np.sort(losses), 1.0), np.sqrt(np.log(1 / delta) / (2 * n))
        above = np.maximum(np.arange(1, n + 1) / n - shift - (1 - alpha), 0.0)
        assert cvar_bound(losses, alpha, delta) == pytest.approx(1.0 - np.diff(z) @ above / alpha, abs=1e-12)
        slack = (2 * 0.3 + 1) / np.sqrt(n) + shift
        by_hand = min(1.0, cvar(losses, alpha) + slack / alpha)
        assert cvar_bound(losses, alpha, delta, complexity=0.3) == pytest.approx(by_hand)


def test_the_cvar_bound_of_a_mixture_chosen_on_the_rows():
    """Weights of four candidates with the smallest CVaR on 4,000 rows; the truth counts all 16 patterns."""
    rng, alpha, n = np.random.default_rng(5), 0.5, 4000
    errors = np.array([0.3, 0.32, 0.35, 0.4])
    patterns = (np.arange(16)[:, None] >> np.arange(4)) & 1
    chance = np.prod(np.where(patterns, errors, 1 - errors), axis=1)
    for _ in range(20):
        rows = patterns[rng.choice(16, size=n, p=chance)]
        shares = tb.solvers.minimize_cvar_mixture(rows.T.astype(float), alpha).mixture
        truth = cvar(patterns @ shares, alpha, chance)
        bound = cvar_bound(rows @ shares, alpha, complexity=np.sqrt(2 * np.log(4)))
        assert truth <= bound < 1.0
        assert cvar(rows @ shares, alpha) < truth + 0.05  # the selection is optimistic, the bound is not


@pytest.mark.parametrize(
    ("arguments", "options", "message"),
    [
        (([], 0.5), {}, "losses"),
        (([1.5], 0.5), {}, "losses"),
        (([0.5], 0.0), {}, "alpha"),
        (([0.5], 0.5, 0.6), {}, "delta"),
        (([0.5], 0.5), {"n_hypotheses": 0.5}, "n_hypotheses"),
        (([0.5], 0.5), {"complexity": -1.0}, "complexity"),
    ],
)
def test_cvar_bound_refusals(arguments, options, message):
    with pytest.raises(ValueError, match=message):
        cvar_bound(*arguments, **options)


def test_exponential_losses_follow_from_the_probabilities(case):
    """A margin is ½ log odds; that of an additive classifier follows from its probabilities, too."""
    X, y, clf = case
    boosted = tb.DROBoostClassifier(n_estimators=5, radius=0.01, n_jobs=1).fit(X, y)
    for fitted in (clf, boosted):
        p = fitted.predict_proba(X)[np.arange(len(y)), (y == "yes").astype(int)]
        np.testing.assert_allclose(exponential_losses(fitted, X, y), np.sqrt((1 - p) / p))


def test_three_classes_have_margins_of_one_scale():
    X, y = make_classification(300, 6, n_informative=4, n_classes=3, random_state=0)
    boosted = tb.AdaBoostClassifier(n_estimators=5, n_jobs=1).fit(X, y)

    class ByProbability:
        classes_, predict_proba = boosted.classes_, boosted.predict_proba

    np.testing.assert_allclose(exponential_losses(boosted, X, y), exponential_losses(ByProbability(), X, y))


def test_examples():
    assert doctest.testmod(tb.robustness).failed == 0
