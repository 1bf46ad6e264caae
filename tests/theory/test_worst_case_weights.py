"""Worst-case weights against a convex solver: heavy tails, ties, atoms, tiny and huge radii, any base."""

import warnings

import cvxpy as cp
import numpy as np
import pytest

from tailboost.solvers import worst_case_weights

BALLS = ("kl",)

FAMILIES = ("normal", "heavy", "ties", "one atom", "nearly equal", "outlier")


def instance(seed):
    """(losses, base, radius); losses lie within [0, 1], so the generic solver has small errors."""
    rng = np.random.default_rng(seed)
    n, family = int(rng.choice([2, 3, 10, 40])), FAMILIES[seed % len(FAMILIES)]
    losses = {
        "normal": lambda: rng.normal(size=n), "heavy": lambda: rng.pareto(0.5, n),
        "ties": lambda: rng.integers(0, 3, n).astype(float), "one atom": lambda: np.r_[1.0, np.zeros(n - 1)],
        "nearly equal": lambda: 1 + 1e-6 * rng.random(n), "outlier": lambda: np.r_[1e6, rng.random(n - 1)],
    }[family]()  # fmt: skip
    losses = (losses - losses.min()) / max(np.ptp(losses), 1e-300)
    base = [np.ones(n), rng.random(n) + 0.02, 1.0 + rng.integers(0, 5, n)][seed % 3]
    p = base / base.sum()
    limit = -np.log(p[losses == losses.max()].sum())
    radius = float(rng.choice([1e-4, 1e-2, 0.1, 0.5, 0.9 * limit, 2 * limit, 30.0]))
    return losses, p, radius


def convex_solver_value(losses, p, radius, uncertainty):
    """Optimum by Clarabel; None if the solver reports doubts."""
    v = cp.Variable(p.size, nonneg=True)  # the density w/p
    ball = p @ -cp.entr(v) <= radius
    problem = cp.Problem(cp.Maximize((p * losses) @ v), [p @ v == 1, ball])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            problem.solve(solver="CLARABEL", tol_gap_abs=1e-10, tol_gap_rel=1e-10, tol_feas=1e-10)
        except cp.SolverError:
            return None
    return problem.value if problem.status == cp.OPTIMAL else None


@pytest.mark.slow
@pytest.mark.parametrize("uncertainty", BALLS)
def test_value_on_500_instances(uncertainty):
    compare(uncertainty, range(500))


@pytest.mark.parametrize("uncertainty", BALLS)
def test_value_on_30_instances(uncertainty):
    compare(uncertainty, range(1000, 1030))


def compare(uncertainty, seeds):
    doubtful = 0
    for seed in seeds:
        losses, p, radius = instance(seed)
        solution = worst_case_weights(losses, radius=radius, base=p)
        assert solution.gap <= 1e-9
        expected = convex_solver_value(losses, p, radius, uncertainty)
        if expected is None:
            doubtful += 1
        else:
            assert solution.value == pytest.approx(expected, abs=1e-8), (seed, radius)
    assert doubtful <= 0.1 * len(seeds)
