import cvxpy as cp
import numpy as np
import pytest
from reference import measure
from scipy.optimize import brentq

from tailboost.solvers import worst_case_weights
from tailboost.solvers.worst_case import of_checked

BALLS = ("kl",)


def divergence(w, p, uncertainty):
    kept = p > 0
    w, p = w[kept], p[kept]
    if uncertainty == "cvar":
        return np.log((w / p).max())
    if uncertainty == "kl":
        return (w[w > 0] * np.log(w[w > 0] / p[w > 0])).sum()
    raise NotImplementedError(uncertainty)


def random_case(seed):
    rng = np.random.default_rng(seed)
    n_units = int(rng.choice([1, 2, 5, 30, 200]))
    losses = [
        rng.normal(size=n_units), rng.integers(0, 2, n_units).astype(float),
        np.exp(rng.normal(size=n_units) * 4), np.full(n_units, 2.5), rng.random(n_units) * 1e-8,
    ][seed % 5]  # fmt: skip
    base = [None, rng.random(n_units) + 0.01, np.append(1.0, rng.integers(0, 3, n_units - 1))]
    base = base[rng.integers(3)]
    radius = float(rng.choice([0, 1e-9, 1e-3, 0.1, 1, 3, 50, 1000, np.log(n_units)]))
    return losses, base, radius


@pytest.mark.parametrize("uncertainty", BALLS)
def test_feasible_and_certified(uncertainty):
    for seed in range(400):
        losses, base, radius = random_case(seed)
        p = measure(base, losses.size)
        solution = worst_case_weights(losses, radius=radius, base=base)
        w, scale = solution.unit_weights, 1 + np.abs(losses).max()
        assert w.min() >= 0
        assert w.sum() == pytest.approx(1, abs=1e-12)
        assert divergence(w, p, uncertainty) <= radius * (1 + 1e-7) + 1e-12
        assert solution.value == pytest.approx(w @ losses, abs=1e-13 * scale)
        assert -1e-11 * scale <= solution.gap <= 1e-8 * scale
        assert solution.gap == pytest.approx(solution.dual_value - solution.value, abs=1e-11 * scale)


@pytest.mark.parametrize("start", [0.0, 1e-6, 0.3, 40.0, 1e6, np.inf])
def test_any_start_finds_the_root_of_the_divergence(start):
    """The ball has the divergence of weights with a known θ as its radius."""
    rng = np.random.default_rng(0)
    losses, p = rng.random(300), measure(rng.random(300), 300)

    def weights(theta):
        w = p * np.exp(theta * (losses - losses.max()))
        return w / w.sum()

    for theta in (0.01, 0.5, 8.0):
        radius = divergence(weights(theta), p, "kl")
        solution = of_checked(losses, p, radius, start)
        assert solution.parameter == pytest.approx(theta, rel=1e-6)
        assert solution.value == pytest.approx(weights(theta) @ losses, rel=1e-9)
        assert abs(solution.gap) <= 1e-10


@pytest.mark.parametrize("uncertainty", BALLS)
def test_against_cvxpy(uncertainty):
    for seed in range(60):
        losses, base, radius = random_case(seed)
        p = measure(base, losses.size)
        if p.min() == 0 or radius < 1e-3 or np.abs(losses).max() > 50:
            continue
        w = cp.Variable(p.size, nonneg=True)
        ball = {
            "kl": lambda w, p, r: cp.sum(cp.rel_entr(w, p)) <= r,
            "cvar": lambda w, p, r: w <= np.minimum(p * np.exp(min(r, 30)), 1),
        }[uncertainty](w, p, radius)
        problem = cp.Problem(cp.Maximize(w @ losses), [cp.sum(w) == 1, ball])
        problem.solve(solver="CLARABEL")
        value = worst_case_weights(losses, radius=radius, base=base).value
        assert value == pytest.approx(problem.value, abs=1e-5 * (1 + np.abs(losses).max()))


@pytest.mark.parametrize("radius", [1e-6, 0.01, 0.3, 1.0, 2.5])
def test_kl_against_a_root_finder(radius):
    losses = np.random.default_rng(0).normal(size=50)

    def weights(theta):
        w = np.exp(theta * (losses - losses.max()))
        return w / w.sum()

    theta = brentq(lambda t: divergence(weights(t), np.full(50, 0.02), "kl") - radius, 1e-9, 1e4, xtol=1e-14)
    solution = worst_case_weights(losses, radius=radius)
    assert solution.parameter == pytest.approx(theta, rel=1e-5)
    np.testing.assert_allclose(solution.unit_weights, weights(theta), atol=1e-7)


@pytest.mark.parametrize("uncertainty", BALLS)
def test_two_units_by_brute_force(uncertainty):
    grid, p = np.linspace(0, 1, 200_001), np.array([0.7, 0.3])
    for radius in (0.01, 0.2, 0.9):
        near = [divergence(np.array([1 - s, s]), p, uncertainty) <= radius for s in grid[::200]]
        value = worst_case_weights([0.0, 1.0], radius=radius, base=p).value
        assert value == pytest.approx(grid[::200][near].max(), abs=2e-3)


@pytest.mark.parametrize("uncertainty", BALLS)
def test_the_ends_of_the_radius(uncertainty):
    losses, base = [1.0, 3.0, 3.0, 2.0], [1, 1, 3, 5]
    np.testing.assert_allclose(worst_case_weights(losses, radius=0, base=base).unit_weights, measure(base, 4))
    limit = {"kl": np.log(2.5), "cvar": np.log(2.5)}[uncertainty]
    for radius in (limit, limit * (1 + 1e-9), 1e6):
        solution = worst_case_weights(losses, radius=radius, base=base)
        np.testing.assert_allclose(solution.unit_weights, [0, 0.25, 0.75, 0], atol=1e-7)
        assert solution.value == pytest.approx(3)
    near = worst_case_weights(losses, radius=limit * (1 - 1e-9), base=base)
    assert near.value == pytest.approx(3, abs=1e-3)


@pytest.mark.parametrize("uncertainty", BALLS)
def test_equal_losses_leave_p(uncertainty):
    solution = worst_case_weights([2.0, 2.0], radius=5.0, base=[1, 3])
    np.testing.assert_allclose(solution.unit_weights, [0.25, 0.75])


@pytest.mark.parametrize(("arguments", "message"), [
    (dict(radius=-1.0), "radius"), (dict(radius=np.nan), "radius"), (dict(losses=[]), "losses"),
    (dict(losses=[np.nan, 1.0]), "losses"), (dict(base=[1.0]), "shape"),
])  # fmt: skip
def test_bad_input(arguments, message):
    with pytest.raises(ValueError, match=message):
        worst_case_weights(**{"losses": [0.0, 1.0], "radius": 0.1} | arguments)
