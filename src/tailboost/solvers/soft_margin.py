"""Soft margins (Rätsch, Onoda, Müller 2001): weights of given hypotheses by a linear or quadratic program.

RLP:  max ρ − Σ C_i ξ_i   s.t. Σ_t a_t m_it ≥ ρ − ξ_i, ξ ≥ 0, a ∈ Δ_T
RQP:  min ‖a‖² + Σ C_i ξ_i   s.t. Σ_t a_t m_it ≥ 1 − ξ_i, ξ ≥ 0, a ≥ 0
dual: max Σ v_i − ¼‖(Σ_i v_i m_it)₊‖²   s.t. 0 ≤ v_i ≤ C_i,   with a = ½(Mᵀv)₊
"""

from __future__ import annotations

from dataclasses import dataclass

import highspy
import numpy as np
import numpy.typing as npt
import scipy.linalg
import scipy.sparse

from tailboost.solvers.bits import Float, Losses, as_losses, check_number
from tailboost.solvers.mixture import minimize_cvar_mixture
from tailboost.solvers.problem import GAP, SolverError

MAX_ITERATIONS = 100
# Relative gap at which the interior point has nothing left to win.
TARGET = 1e-13
# Share of the way to the boundary that a step may take.
DAMPING = 0.995


@dataclass(frozen=True)
class SoftMarginSolution:
    """Optimal weights of the hypotheses and their certificate.

    Attributes
    ----------
    weights : ndarray of shape (T,)
        a ≥ 0; for the linear program they sum to 1.
    value, dual_value : float
        The objective of RLP (maximised) or RQP (minimised) as printed above, and the bound its dual proves.
    gap : float
        Their distance.
    method : str
        What solved it.
    """

    weights: Float
    value: float
    dual_value: float
    gap: float
    method: str


def check_price(C: float, total: float, penalty: str) -> None:
    """Check that the program is bounded for rows whose sample weights sum to ``total``.

    Raises
    ------
    ValueError
        If it is the linear one and C < 1/total.
    """
    if penalty == "lp" and C * total < 1 - 1e-12:
        raise ValueError(
            f"C={C:g} is too small for penalty='lp': it must be at least 1/Σ sample_weight = {1 / total:g}, "
            "below which the linear program is unbounded"
        )


def soft_margin_weights(
    wrong: Losses,
    C: float,
    sample_weight: npt.ArrayLike | None = None,
    *,
    penalty: str = "lp",
    n_classes: int = 2,
) -> SoftMarginSolution:
    """Weights of hypotheses with the best soft margin.

    Parameters
    ----------
    wrong : array-like of shape (T, n) or BitLosses
        Zero-one losses: the margins are m = 1 where a hypothesis is right, −1/(K−1) where it is wrong.
    C : float
        Price of a unit of slack, per unit of sample weight: C_i = C·sample_weight_i. For ``"lp"`` at least
        1/Σ sample_weight.
    sample_weight : array-like of shape (n,), optional
        Non-negative; 1 by default.
    penalty : {"lp", "qp"}
        RLP, or RQP.
    n_classes : int
        K.

    Returns
    -------
    SoftMarginSolution

    Raises
    ------
    ValueError
        If an argument is outside its range.
    SolverError
        If no method closes the gap.

    Notes
    -----
    RLP is the mixture LP: with ℓ = 1 where wrong and α = 1/(C Σ sample_weight), its value is
    1 − K/(K−1) · min_a CVaR_α(Σ_t a_t ℓ^t). Below the least C the program is unbounded (α > 1).
    """
    if penalty not in ("lp", "qp"):
        raise ValueError(f"penalty must be 'lp' or 'qp', got {penalty!r}")
    losses = as_losses(wrong)
    n = losses.shape[1]
    C = check_number(C, "C", 0, np.inf)
    weight = np.ones(n) if sample_weight is None else np.asarray(sample_weight, dtype=float)
    if weight.shape != (n,) or not (np.isfinite(weight).all() and (weight >= 0).all() and weight.any()):
        raise ValueError(
            f"sample_weight must hold {n} finite numbers ≥ 0, not all 0; got shape {weight.shape}"
        )
    spread = n_classes / (n_classes - 1)
    if penalty == "lp":
        total = float(weight.sum())
        check_price(C, total, penalty)
        solution = minimize_cvar_mixture(wrong, min(1.0, 1 / (C * total)), weight)
        values = (1 - spread * solution.value, 1 - spread * solution.dual_value)
        return SoftMarginSolution(solution.weights, *values, spread * solution.gap, solution.method)
    used = losses.select(units=np.flatnonzero(weight)) if not weight.all() else losses
    first, inverse = used.patterns()  # rows on which all hypotheses fare alike share their slack
    M: Float = 1.0 - spread * used.columns(first)
    prices = np.asarray(C * np.bincount(inverse, weight[weight > 0]), dtype=np.float64)
    return _quadratic(M, prices)


def _quadratic(M: Float, C: Float) -> SoftMarginSolution:
    """Solve RQP for margins M of shape (n, T) and prices C of shape (n,)."""
    found: list[SoftMarginSolution] = []
    for method in (_interior_point, _highs):
        found.append(method(M, C))
        best = min(found, key=lambda solution: solution.gap)
        tolerance = GAP * (1.0 + abs(best.value))
        if best.gap <= tolerance:
            return best
    raise SolverError(
        f"soft_margin_weights: no method closed the duality gap, {best.gap:.3g} is left where "
        f"{tolerance:.3g} is allowed (n = {M.shape[0]}, T = {M.shape[1]})"
    )


def _certified(M: Float, C: Float, candidates: list[Float], v: Float, method: str) -> SoftMarginSolution:
    """Return the best of some weights, with the bound that v proves."""
    v = np.clip(v, 0.0, C)
    best = 0.5 * np.maximum(M.T @ v, 0.0)
    dual_value = float(v.sum() - best @ best)
    value = np.inf
    for a in (best, *(np.maximum(a, 0.0) for a in candidates)):
        objective = float(a @ a + C @ np.maximum(1.0 - M @ a, 0.0))
        if objective < value:
            value, best = objective, a
    return SoftMarginSolution(best, value, dual_value, value - dual_value, method)


def _interior_point(M: Float, C: Float) -> SoftMarginSolution:
    """Mehrotra's predictor and corrector; every step solves one T × T system.

    Complementary pairs: slack s of each margin with v, ξ with C − v, a with its multiplier ν.
    """
    n, T = M.shape
    scale = float(C.max())
    C = C / scale  # a and ξ stay; the objective is ‖a‖²/scale + C'ξ
    a, nu = np.full(T, 1.0 / T), np.ones(T)
    v = C / 2
    xi = np.maximum(1.0 - M @ a, 0.0) + 1.0
    s = np.maximum(M @ a + xi - 1.0, 1.0)
    best: SoftMarginSolution | None = None
    for _ in range(MAX_ITERATIONS):
        solution = _certified(M, C * scale, [a], v * scale, "interior-point")
        if best is None or solution.gap < best.gap:
            best = solution
        if best.gap <= TARGET * (1.0 + abs(best.value)):
            break
        mu = C - v
        dual = 2 * a / scale - M.T @ v - nu
        primal = M @ a + xi - 1.0 - s
        D = 1.0 / (xi / mu + s / v)
        matrix = (M.T * D) @ M
        matrix[np.diag_indices(T)] += 2 / scale + nu / a
        try:
            factor = scipy.linalg.cho_factor(matrix)
        except np.linalg.LinAlgError:  # the limit of double precision
            break
        pairs = s @ v + xi @ mu + a @ nu
        center = pairs / (2 * n + T)

        def direction(rs: Float, rx: Float, ra: Float) -> tuple[Float, ...]:
            h = -primal + rx / mu - rs / v  # noqa: B023 -- used in this iteration only
            da = scipy.linalg.cho_solve(factor, -dual + M.T @ (D * h) - ra / a)  # noqa: B023
            dv = D * (h - M @ da)  # noqa: B023
            return (
                da, -(ra + nu * da) / a, dv, -(rs + s * dv) / v, -(rx - xi * dv) / mu, -dv,  # noqa: B023
            )  # fmt: skip

        def length(*pairs: tuple[Float, Float]) -> float:
            ratios = [float((-x[d < 0] / d[d < 0]).min(initial=np.inf)) for x, d in pairs]
            return min(1.0, DAMPING * min(ratios))

        da, dnu, dv, ds, dxi, dmu = direction(s * v, xi * mu, a * nu)
        alpha = length((a, da), (s, ds), (xi, dxi), (v, dv), (mu, dmu), (nu, dnu))
        after = (
            (s + alpha * ds) @ (v + alpha * dv)
            + (xi + alpha * dxi) @ (mu + alpha * dmu)
            + (a + alpha * da) @ (nu + alpha * dnu)
        )
        target = center * (after / pairs) ** 3
        da, dnu, dv, ds, dxi, dmu = direction(
            s * v + ds * dv - target, xi * mu + dxi * dmu - target, a * nu + da * dnu - target
        )
        alpha = length((a, da), (s, ds), (xi, dxi), (v, dv), (mu, dmu), (nu, dnu))
        a, nu, v = a + alpha * da, nu + alpha * dnu, v + alpha * dv
        s, xi = s + alpha * ds, xi + alpha * dxi
    assert best is not None
    return best


def _highs(M: Float, C: Float) -> SoftMarginSolution:
    """HiGHS' active set method, for what the interior point leaves open."""
    n, T = M.shape
    model = highspy.HighsModel()
    lp, hessian = model.lp_, model.hessian_
    lp.num_col_, lp.num_row_ = T + n, n
    lp.col_cost_ = np.concatenate([np.zeros(T), C])
    lp.col_lower_, lp.col_upper_ = np.zeros(T + n), np.full(T + n, np.inf)
    lp.row_lower_, lp.row_upper_ = np.ones(n), np.full(n, np.inf)
    matrix = scipy.sparse.csc_matrix(np.hstack([M, np.eye(n)]))
    lp.a_matrix_.format_ = highspy.MatrixFormat.kColwise
    lp.a_matrix_.start_, lp.a_matrix_.index_ = matrix.indptr, matrix.indices
    lp.a_matrix_.value_ = matrix.data
    hessian.dim_, hessian.format_ = T + n, highspy.HessianFormat.kTriangular
    hessian.start_ = np.minimum(np.arange(T + n + 1), T)
    hessian.index_, hessian.value_ = np.arange(T), np.full(T, 2.0)
    solver = highspy.Highs()
    solver.silent()
    solver.passModel(model)
    solver.run()
    solution = solver.getSolution()
    if not solution.value_valid:
        return _certified(M, C, [np.zeros(T)], np.zeros(n), "highs")
    a, v = np.array(solution.col_value)[:T], np.array(solution.row_dual)
    return _certified(M, C, [a], v, "highs")
