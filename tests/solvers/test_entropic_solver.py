from decimal import Decimal, localcontext
from operator import mul

import cvxpy as cp
import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from reference import check_weights, measure, random_game

from tailboost.solvers import entropic_weights, minimize_cvar_mixture

betas = (0.01, 0.3, 10.0, 100.0, 1e4, 1e6)


def objective(w, losses, beta, base):
    p, kept = measure(base, w.size), w > 0
    return 1 - (losses.astype(float) @ w).min() + (w[kept] * np.log(w[kept] / p[kept])).sum() / beta


def check(solution, losses, alpha, beta, base):
    check_weights(solution.unit_weights, alpha, base)
    scale = 1 + abs(solution.value)
    assert abs(objective(solution.unit_weights, losses, beta, base) - solution.value) <= 1e-12 * scale
    assert -1e-12 * scale <= solution.gap <= 1e-8 * scale
    assert solution.mixture.min() >= 0
    assert solution.mixture.sum() == pytest.approx(1)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("seed", [438, 708])
def test_no_overflow_at_a_large_beta(seed):
    rng = np.random.default_rng(seed)
    n, T = int(rng.integers(3, 80)), int(rng.integers(1, 12))
    losses = rng.random((T, n)) * 10.0 ** rng.integers(-3, 1)
    check(entropic_weights(losses, 0.5, 1e4, None), losses, 0.5, 1e4, None)


@pytest.mark.slow
def test_closes_the_gap_for_every_beta_and_family():
    for seed in range(500):
        losses, alpha, base = random_game(seed)
        beta = betas[seed % len(betas)]
        check(entropic_weights(losses, alpha, beta, base), losses, alpha, beta, base)


@pytest.mark.parametrize(
    ("seed", "alpha", "beta", "scale"), [(4, 0.0022, 780.0, 1e3), (9, 0.05, 1e6, 8.4), (2, 0.01, 3e6, 1.0)]
)
def test_rounding_of_the_mixture_is_no_gap(seed, alpha, beta, scale):
    """At a large β · range the digits of λ change the weights. Any feasible w bounds the optimum above.

    The Lagrangian of any λ is below it: the least 1 − Σ λ ℓ w + KL/β.
    """
    rng = np.random.default_rng(seed)
    for _ in range(12):
        T, n = int(rng.integers(4, 12)), int(rng.integers(5, 30))
        losses = rng.normal(size=(T, n)) * scale / 5
        solution = entropic_weights(losses, alpha, beta, None)
        check(solution, losses, alpha, beta, None)
        least = float(lower_bound(losses, alpha, beta, solution.mixture))
        assert solution.value - least <= 1e-8 * (1 + abs(solution.value))


@pytest.mark.parametrize("beta", [1e3, 1e4, 1e5])
def test_more_candidates_than_free_units(beta):
    """The Hessian is singular: exchanges of the support alone do not end, and left a gap of .1."""
    rng = np.random.default_rng(int(beta))
    for _ in range(10):
        T, n = int(rng.integers(20, 30)), int(rng.integers(10, 100))
        losses = rng.random((T, n))
        solution = entropic_weights(losses, 0.02, beta, None)
        check(solution, losses, 0.02, beta, None)
        least = float(lower_bound(losses, 0.02, beta, solution.mixture))
        assert solution.value - least <= 1e-8 * (1 + abs(solution.value))


def lower_bound(losses, alpha, beta, mixture):
    """Return a bound in 30 digits below 1 − ⟨w, Σ λ ℓ⟩ + KL(w ‖ p)/β for all w ∈ Δ, w ≤ p/α.

    It is the dual of Σ w = 1 at a price found by bisection: any price is a bound, so digits of the price
    make it no less true.
    """
    n, exponents = losses.shape[1], beta * (mixture @ losses)
    low, high = exponents.min() - 100, exponents.max() + 1
    for _ in range(80):
        price = (low + high) / 2
        over = np.exp(np.minimum(exponents - price, -np.log(alpha))).sum() > n
        low, high = (price, high) if over else (low, price)
    with localcontext(prec=30):
        lam, price = list(map(Decimal, mixture.tolist())), Decimal(high)
        bound = price - 1
        for column in losses.T.tolist():
            x = Decimal(beta) * sum(map(mul, lam, map(Decimal, column)))
            w = min(1 / Decimal(alpha), (x - price).min(1000).exp()) / n
            bound += w * (x - price + 1 - (w * n).ln()) if w else 0
        return 1 - bound / Decimal(beta)


def test_against_cvxpy():
    compared = 0
    for seed in range(60):
        losses, alpha, base = random_game(seed)
        p, beta = measure(base, losses.shape[1]), betas[seed % 4]
        if p.min() < 1e-4 or not 1e-3 < alpha < 0.99 or np.ptp(losses.astype(float)) > 10:
            continue
        w, gamma = cp.Variable(p.size, nonneg=True), cp.Variable()
        problem = cp.Problem(
            cp.Minimize(gamma + cp.sum(cp.rel_entr(w, p)) / beta),
            [losses.astype(float) @ w >= 1 - gamma, cp.sum(w) == 1, w <= p / alpha],
        )
        problem.solve(solver="CLARABEL")
        solution = entropic_weights(losses, alpha, beta, base)
        assert solution.value == pytest.approx(problem.value, abs=1e-6)
        np.testing.assert_allclose(solution.unit_weights, w.value, atol=1e-3)
        compared += 1
    assert compared > 15


def test_warm_start_from_round_to_round():
    rng = np.random.default_rng(0)
    losses, start = np.empty((0, 500), dtype=bool), None
    for _ in range(12):
        losses = np.vstack([losses, rng.random(500) < 0.3])
        warm = entropic_weights(losses, 0.2, 100.0, start=start)
        cold = entropic_weights(losses, 0.2, 100.0)
        np.testing.assert_allclose(warm.unit_weights, cold.unit_weights, atol=1e-7)
        start = warm.mixture


@pytest.mark.parametrize("beta", [10.0, 100.0, 1000.0])
def test_start_far_from_the_optimum(beta):
    for seed in range(15):
        rng = np.random.default_rng(seed)
        losses = rng.random((int(rng.integers(3, 9)), 30)) < rng.uniform(0.05, 0.9)
        start = np.append(rng.dirichlet(np.full(len(losses) - 1, 0.3)), 0.0)
        solutions = [entropic_weights(losses, 0.1, beta, start=mixture) for mixture in (start, None)]
        weights = [solution.unit_weights for solution in solutions]
        np.testing.assert_allclose(*weights, atol=1e-5)


@given(st.integers(0, 2**32 - 1))
@settings(deadline=None, max_examples=40)
def test_weight_is_repetition(seed):
    losses, alpha, _ = random_game(seed)
    counts = np.random.default_rng(seed).integers(1, 4, losses.shape[1])
    repeated = entropic_weights(np.repeat(losses, counts, axis=1), alpha, 5.0).unit_weights
    of_units = np.add.reduceat(repeated, np.append(0, counts.cumsum()[:-1]))
    counted = entropic_weights(losses, alpha, 5.0, counts).unit_weights
    np.testing.assert_allclose(of_units, counted, atol=1e-6)


def test_a_unit_of_nearly_the_whole_tail_ends_the_search():
    p = np.append(0.1 - 1.4e-17, np.full(9, 0.1))
    for loss in np.linspace(0.3, 0.4, 50):
        w = entropic_weights([np.append(loss, np.zeros(9))], 0.1, 100.0, p).unit_weights
        assert w[0] == pytest.approx(1, abs=1e-9)


def test_between_p_and_the_totally_corrective_weights():
    losses = np.random.default_rng(0).random((6, 60)) < 0.4
    np.testing.assert_allclose(entropic_weights(losses, 0.2, 1e-9).unit_weights, 1 / 60, atol=1e-9)
    hard = minimize_cvar_mixture(losses, 0.2).value
    for beta in (10.0, 1e3, 1e5):
        soft = (losses @ entropic_weights(losses, 0.2, beta).unit_weights).min()
        assert hard - np.log(5) / beta <= soft + 1e-8 <= hard + 2e-8


@pytest.mark.parametrize("beta", [0, -1, np.nan, np.inf, "x"])
def test_bad_beta(beta):
    with pytest.raises(ValueError, match="beta"):
        entropic_weights([[0.0, 1.0]], 0.5, beta)
