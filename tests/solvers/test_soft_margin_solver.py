"""RLP and RQP against independent solvers, their certificates, repetition and refusals."""

import cvxpy as cp
import numpy as np
import pytest
from scipy.optimize import linprog

from tailboost.solvers.soft_margin import soft_margin_weights

CASES = 200


def case(seed):
    """Random zero-one losses, sample weights, K and C n."""
    rng = np.random.default_rng(seed)
    n, T, K = int(rng.integers(2, 60)), int(rng.integers(1, 20)), int(rng.integers(2, 5))
    wrong = rng.random((T, n)) < rng.choice([0.1, 0.3, 0.5, 0.9])
    weight = rng.integers(0, 4, n).astype(float) if seed % 2 else np.ones(n)
    weight[0] = 1.0
    return wrong, weight, K, 10 ** rng.uniform(0, 3)


def margins(wrong, K):
    return np.where(wrong, -1.0 / (K - 1), 1.0).T


def rlp_value(a, M, C):
    """Return the maximum over ρ of ρ − Σ C_i (ρ − M_i a)₊, which is attained at one of the margins."""
    m = M @ a
    return max(rho - C @ np.maximum(rho - m, 0) for rho in m)


@pytest.mark.slow
def test_rlp_equals_highs():
    for seed in range(CASES):
        wrong, weight, K, price = case(seed)
        M, C = margins(wrong, K), price / weight.sum()
        n, T = M.shape
        solution = soft_margin_weights(wrong, C, weight, loss="linear", n_classes=K)
        # Variables a, ξ, ρ; minimise Σ C ξ − ρ.
        reference = linprog(
            np.concatenate([np.zeros(T), C * weight, [-1.0]]),
            A_ub=np.hstack([-M, -np.eye(n), np.ones((n, 1))]), b_ub=np.zeros(n),
            A_eq=np.concatenate([np.ones(T), np.zeros(n + 1)])[None], b_eq=[1.0],
            bounds=[(0, None)] * (T + n) + [(None, None)],
        )  # fmt: skip
        assert solution.value == pytest.approx(-reference.fun, abs=1e-7)
        assert rlp_value(solution.mixture, M, C * weight) == pytest.approx(-reference.fun, abs=1e-7)
        assert solution.dual_value >= -reference.fun - 1e-7
        assert solution.mixture.sum() == pytest.approx(1)
        assert (solution.mixture >= 0).all()
        assert solution.gap <= 1e-8


@pytest.mark.slow
def test_rqp_equals_clarabel():
    for seed in range(CASES):
        wrong, weight, K, price = case(seed)
        M, C = margins(wrong, K), price / weight.sum() * weight
        solution = soft_margin_weights(wrong, price / weight.sum(), weight, loss="quadratic", n_classes=K)
        a, xi = cp.Variable(M.shape[1]), cp.Variable(M.shape[0])
        constraints = [M @ a >= 1 - xi, xi >= 0, a >= 0]
        problem = cp.Problem(cp.Minimize(cp.sum_squares(a) + C @ xi), constraints)
        problem.solve(solver=cp.CLARABEL)
        assert solution.value == pytest.approx(problem.value, rel=1e-5, abs=1e-5)
        x = solution.mixture
        assert x @ x + C @ np.maximum(1 - M @ x, 0) == pytest.approx(solution.value, rel=1e-12)
        # The objective grows at least like the squared distance to the optimum.
        assert np.linalg.norm(x - a.value) <= np.sqrt(solution.gap + 1e-5 * (1 + solution.value))
        assert -1e-12 <= solution.gap <= 1e-5 * (1 + solution.value)
        assert (x >= 0).all()


def test_weight_is_repetition():
    for seed in range(20):
        wrong, weight, K, price = case(2 * seed + 1)
        C = price / weight.sum()
        rows = np.repeat(np.arange(len(weight)), weight.astype(int))
        for loss in ("linear", "quadratic"):
            one = soft_margin_weights(wrong, C, weight, loss=loss, n_classes=K)
            two = soft_margin_weights(wrong[:, rows], C, loss=loss, n_classes=K)
            assert one.value == pytest.approx(two.value, rel=1e-5, abs=1e-5)
            if loss == "quadratic":  # one optimum
                np.testing.assert_allclose(one.mixture, two.mixture, rtol=0, atol=3e-3)


@pytest.mark.parametrize("n_classes", [2, 3])
def test_one_hypothesis_and_one_row(n_classes):
    assert soft_margin_weights([[False]], 1.0, loss="linear", n_classes=n_classes).mixture.tolist() == [1.0]
    # min a² + C (1 − a)₊ over a ≥ 0: a = min(1, C/2).
    for C, a in ((0.5, 0.25), (2.0, 1.0), (50.0, 1.0)):
        found = soft_margin_weights([[False]], C, loss="quadratic", n_classes=n_classes)
        assert found.mixture == pytest.approx([a], abs=1e-6)


def test_many_hypotheses_many_rows():
    rng = np.random.default_rng(0)
    wrong = rng.normal(size=4000) + 1.5 * rng.normal(size=(60, 4000)) < -1.2
    for loss in ("linear", "quadratic"):
        for price in (1.0, 10.0, 1000.0):
            solution = soft_margin_weights(wrong, price / 4000, loss=loss)
            assert solution.gap <= 1e-5 * (1 + abs(solution.value))


@pytest.mark.parametrize(("C", "options", "match"), [
    (0.2, {"loss": "linear"}, "sample_weight"), (0.0, {"loss": "quadratic"}, "C must be"),
    (-1.0, {"loss": "quadratic"}, "C must be"), (np.nan, {"loss": "quadratic"}, "C must be"),
    (1.0, {"loss": "l1"}, "quadratic"), (1.0, {"sample_weight": [1, 1]}, "sample_weight"),
    (1.0, {"sample_weight": [1, 1, 1, -1]}, "sample_weight"),
    (1.0, {"sample_weight": [0, 0, 0, 0]}, "weight"),
])  # fmt: skip
def test_refusals(C, options, match):
    with pytest.raises(ValueError, match=match):
        soft_margin_weights(np.eye(2, 4, dtype=bool), C, **options)
