"""Independent truth for the solvers: random games, generic solvers, brute force, a certificate checker."""

from __future__ import annotations

import itertools

import cvxpy as cp
import numpy as np
from scipy.optimize import linprog

FAMILIES = ("bernoulli", "difficulty", "ties", "repeated", "zeros", "ones", "complement", "float", "single")


def random_game(seed):
    """(losses, alpha, base) of a random small game; every family and edge case comes up."""
    rng, family = np.random.default_rng(seed), FAMILIES[seed % len(FAMILIES)]
    n_members = 1 if family == "single" else int(rng.choice([2, 3, 5, 8, 15]))
    n_units = int(rng.choice([1, 2, 3, 5, 10, 30, 80]))
    losses = rng.random((n_members, n_units)) < rng.uniform(0.05, 0.9)
    if family == "difficulty":
        losses = rng.random((n_members, n_units)) < rng.beta(0.5, 2, n_units)
    elif family == "ties":
        losses = np.repeat(losses, 4, axis=1)
    elif family == "repeated":
        losses = losses[rng.integers(0, n_members, n_members)][:, rng.integers(0, n_units, n_units)]
    elif family in ("zeros", "ones"):
        losses = np.full_like(losses, family == "ones")
        if rng.random() < 0.5:
            losses[rng.integers(n_members)] ^= True
    elif family == "complement":
        losses[-1] = ~losses[0]
    elif family == "float":
        losses = rng.normal(size=losses.shape) * 10 ** rng.uniform(-2, 2) + rng.choice([0, 5.0])
    n_units = losses.shape[1]
    base = [
        None, None, 1.0 + rng.integers(0, 3, n_units), np.append(1.0, rng.integers(0, 3, n_units - 1)),
        10 ** rng.uniform(-9, 9, n_units), rng.random(n_units) + 1e-3,
    ][rng.integers(6)]  # fmt: skip
    p = measure(base, n_units)
    tiny = p[p > 0].min() * rng.uniform(0.1, 1)
    alphas = [1, 1e-12, 0.01, 0.05, 0.1, 0.3, 0.5, 0.9, 0.999, 1 / n_units, tiny, rng.random()]
    return losses, float(rng.choice(alphas)), base


def measure(base, n_units):
    return np.full(n_units, 1 / n_units) if base is None else np.asarray(base) / np.sum(base)


def highs_value(losses, alpha, base=None):
    """Optimum of the dual (5) by SciPy's HiGHS."""
    n_members, n_units = losses.shape
    p = measure(base, n_units)
    result = linprog(
        np.append(np.zeros(n_units), -1.0), A_ub=np.hstack([-losses.astype(float), np.ones((n_members, 1))]),
        b_ub=np.zeros(n_members), A_eq=[np.append(np.ones(n_units), 0.0)], b_eq=[1.0],
        bounds=[(0, min(1.0, c)) for c in p / alpha] + [(None, None)],
        options={"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10},
    )  # fmt: skip
    assert result.status == 0
    return -result.fun


def cvxpy_value(losses, alpha, base, solver):
    """Optimum of the dual (5) by another solver, in CVXPY."""
    n_units = losses.shape[1]
    p = measure(base, n_units)
    w, rho = cp.Variable(n_units, nonneg=True), cp.Variable()
    constraints = [losses.astype(float) @ w >= rho, cp.sum(w) == 1, w <= np.minimum(p / alpha, 1)]
    problem = cp.Problem(cp.Maximize(rho), constraints)
    problem.solve(solver=solver, **TIGHT[solver])
    return problem.value


TIGHT = {
    "CLARABEL": {"tol_gap_abs": 1e-11, "tol_gap_rel": 1e-11, "tol_feas": 1e-11},
    "ECOS": {"abstol": 1e-10, "reltol": 1e-10, "feastol": 1e-10, "max_iters": 200},
}
#: Installed solvers; ECOS has no wheels for Python 3.13 and later.
SOLVERS = ["CLARABEL", *({"ECOS"} & set(cp.installed_solvers()))]


def brute_force_cvar(losses, alpha, base=None):
    """Return the CVaR by its definition: fill the tail unit by unit, in all orders of the units; n ≤ 8."""
    p, best = measure(base, len(losses)), -np.inf
    for order in itertools.permutations(range(len(losses))):
        left, value = alpha, 0.0
        for i in order:
            taken = min(p[i], left)
            value, left = value + taken * losses[i], left - taken
        best = max(best, value / alpha)
    return best


def check_weights(w, alpha, base):
    """W is on the simplex and at most p/α."""
    p = measure(base, len(w))
    assert w.min() >= 0
    assert abs(w.sum() - 1) <= 1e-12
    assert (w <= p / alpha * (1 + 1e-12)).all()


def check_mixture(solution, losses, alpha, base, tolerance=1e-8):
    """Recompute both objectives from the returned arrays, and check the feasibility of both sides."""
    from tailboost.solvers import cvar

    lam, w = solution.mixture, solution.unit_weights
    assert lam.shape == (len(losses),)
    assert lam.min() >= 0
    assert abs(lam.sum() - 1) <= 1e-12
    check_weights(w, alpha, base)
    value = cvar(lam @ losses.astype(float), alpha, base)
    bound, scale = (losses.astype(float) @ w).min(), 1 + abs(value)
    assert abs(value - solution.value) <= 1e-12 * scale
    assert abs(bound - solution.dual_value) <= 1e-12 * scale
    assert solution.gap == solution.value - solution.dual_value
    assert -1e-12 * scale <= value - bound <= tolerance * scale
