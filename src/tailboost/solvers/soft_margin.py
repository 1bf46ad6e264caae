"""Soft margins (Rätsch, Onoda, Müller 2001): weights of given base models by a linear or quadratic program.

RLP:  max ρ − Σ C_i ξ_i   s.t. Σ_t a_t m_it ≥ ρ − ξ_i, ξ ≥ 0, a ∈ Δ_T
RQP:  min ‖a‖² + Σ C_i ξ_i   s.t. Σ_t a_t m_it ≥ 1 − ξ_i, ξ ≥ 0, a ≥ 0
dual: max Σ v_i − ¼‖(Σ_i v_i m_it)₊‖²   s.t. 0 ≤ v_i ≤ C_i,   with a = ½(Mᵀv)₊
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import scipy.linalg
from numpy.typing import ArrayLike

from tailboost.core.array_types import Floats
from tailboost.core.checks import check_number, check_weights
from tailboost.core.long_work import one_blas_thread
from tailboost.solvers.bits import Losses, as_losses
from tailboost.solvers.mixture import minimize_cvar_mixture
from tailboost.solvers.tail_game import DUALITY_GAP, SolverError

MAX_ITERATIONS = 100
# Relative gap at which the interior point method stops.
TARGET = 1e-12
# Largest step, as a fraction of the distance to the boundary.
LONGEST_STEP = 0.995


@dataclass(frozen=True)
class SoftMarginSolution:
    """Optimal weights of the base models and their certificate.

    Attributes
    ----------
    mixture : ndarray of shape (T,)
        a ≥ 0, the weight of each base model; for the linear program they sum to 1.
    value, dual_value : float
        The objective of RLP (maximised) or RQP (minimised) as above, and the bound from its dual.
    gap : float
        Distance between both.
    method : str
        Name of the method.
    """

    mixture: Floats
    value: float
    dual_value: float
    gap: float
    method: str


def check_price(C: float, total: float, loss: str) -> None:
    """Check that the program is bounded. ``total`` is the sum of the sample weights.

    Raise ValueError if the program is linear and C < 1/total.
    """
    if loss == "linear" and C * total < 1 - 1e-12:
        raise ValueError(
            f"C={C:g} is too small for loss='linear': it must be at least 1/Σ sample_weight = "
            f"{1 / total:g}, below which the linear program is unbounded"
        )


@one_blas_thread
def soft_margin_weights(
    wrong: Losses,
    C: float,
    sample_weight: ArrayLike | None = None,
    *,
    loss: str = "linear",
    n_classes: int = 2,
) -> SoftMarginSolution:
    """Return the weights of base models with the best soft margin.

    Parameters
    ----------
    wrong : array-like of shape (T, n) or BitLosses
        Zero-one losses. The margin m of a row is 1 for a right base model and −1/(K−1) for a wrong one.
    C : float
        Price of a unit of slack, per unit of sample weight: C_i = C·sample_weight_i. For ``"linear"`` at
        least 1/Σ sample_weight.
    sample_weight : array-like of shape (n,), optional
        Non-negative; 1 by default.
    loss : {"linear", "quadratic"}
        RLP or RQP.
    n_classes : int
        K.

    Returns
    -------
    SoftMarginSolution
        ``mixture`` are the weights a, ``value`` is their objective, and ``dual_value`` its bound.

    Raises
    ------
    ValueError
        If an argument is outside its range.
    SolverError
        If the gap stays open.

    Notes
    -----
    RLP is the mixture program. With ℓ = 1 for wrong answers and α = 1/(C Σ sample_weight), its value is
    1 − K/(K−1) · min_a CVaR_α(Σ_t a_t ℓ^t). Below the smallest allowed C, α > 1 and the program is unbounded.
    """
    if loss not in ("linear", "quadratic"):
        raise ValueError(f"loss must be 'linear' or 'quadratic', got {loss!r}")
    losses = as_losses(wrong)
    n = losses.shape[1]
    C = check_number(C, "C", 0, np.inf)
    weight = check_weights(sample_weight, n)
    spread = n_classes / (n_classes - 1)
    if loss == "linear":
        total = float(weight.sum())
        check_price(C, total, loss)
        solution = minimize_cvar_mixture(wrong, min(1.0, 1 / (C * total)), weight)
        return SoftMarginSolution(
            solution.mixture,
            1 - spread * solution.value,
            1 - spread * solution.dual_value,
            spread * solution.gap,
            solution.method,
        )
    if not weight.all():  # rows without weight have no slack
        losses = losses.select(units=np.flatnonzero(weight))
        weight = weight[weight > 0]
    # Rows with equal losses have equal slack: one row of each pattern is enough.
    first_rows, pattern = losses.patterns()
    M = 1.0 - spread * losses.columns(first_rows)
    prices = np.asarray(C * np.bincount(pattern, weight), dtype=np.float64)
    optimum = _interior_point(M, prices)
    tolerance = DUALITY_GAP * (1.0 + abs(optimum.value))
    if optimum.gap > tolerance:
        raise SolverError(
            f"soft_margin_weights: the duality gap is {optimum.gap:.3g}, above {tolerance:.3g} "
            f"(n = {M.shape[0]}, T = {M.shape[1]})"
        )
    return optimum


def _certified(M: Floats, C: Floats, a: Floats, v: Floats) -> SoftMarginSolution:
    """Return the better of the weights a and ½(Mᵀv)₊, with the dual bound of v.

    M and C are as in `_interior_point`.
    """
    v = np.clip(v, 0.0, C)
    from_dual = 0.5 * np.maximum(M.T @ v, 0.0)
    dual_value = float(v.sum() - from_dual @ from_dual)
    best = from_dual
    value = np.inf
    for weights in (from_dual, np.maximum(a, 0.0)):
        objective = float(weights @ weights + C @ np.maximum(1.0 - M @ weights, 0.0))
        if objective < value:
            value = objective
            best = weights
    return SoftMarginSolution(best, value, dual_value, value - dual_value, "interior-point")


class _MarginPoint(NamedTuple):
    """A point or a direction: a with ν, slack s of the margins with v, ξ with μ = C − v.

    The products of the pairs are 0 at the optimum.
    """

    a: Floats
    nu: Floats
    s: Floats
    v: Floats
    xi: Floats
    mu: Floats

    @property
    def complementarity(self) -> float:
        return float(self.a @ self.nu + self.s @ self.v + self.xi @ self.mu)

    def moved(self, d: _MarginPoint, length: float) -> _MarginPoint:
        return _MarginPoint(*(x + length * dx for x, dx in zip(self, d, strict=True)))

    def longest(self, d: _MarginPoint) -> float:
        """Return the longest step of at most 1 that stays inside the boundary."""
        to_boundary = np.inf  # only falling entries reach 0
        for x, dx in zip(self, d, strict=True):
            falls = dx < 0
            to_boundary = (-x[falls] / dx[falls]).min(initial=to_boundary)
        return float(min(1.0, LONGEST_STEP * to_boundary))


def _interior_point(M: Floats, C: Floats) -> SoftMarginSolution:
    """Solve RQP for margins M of shape (n, T) and prices C of shape (n,): the best certified point found.

    Primal variables are weights a, losses ξ and slacks s; dual ones are v of the margins, ν of a ≥ 0 and μ of
    ξ ≥ 0. Each step of Mehrotra's predictor-corrector method solves one T × T system.
    """
    T = M.shape[1]
    scale = float(C.max())  # scale of the dual variables: the scaled C is at most 1
    # A first point well inside of all bounds.
    a = np.full(T, 1.0 / T)
    xi = np.maximum(1.0 - M @ a, 0.0) + 1.0
    s = np.maximum(M @ a + xi - 1.0, 1.0)
    half = C / (2 * scale)
    point = _MarginPoint(a, nu=np.ones(T), s=s, v=half, xi=xi, mu=half)
    best = _certified(M, C, a, half * scale)
    for _ in range(MAX_ITERATIONS):
        try:
            with np.errstate(all="ignore"):
                point = _step(M, scale, point)
        except (np.linalg.LinAlgError, ValueError):  # the limit of double precision
            break
        solution = _certified(M, C, point.a, point.v * scale)
        if solution.gap < best.gap:
            best = solution
        if best.gap <= TARGET * (1.0 + abs(best.value)):
            break
    return best


def _step(M: Floats, scale: float, point: _MarginPoint) -> _MarginPoint:
    """Return the next point for the objective ‖a‖²/scale + C'ξ.

    A first direction aims at the optimum. The second one adds second-order terms, and aims at a smaller
    ``target`` of all products.

    Raises
    ------
    LinAlgError, ValueError
        If the system is singular or not finite.
    """
    # Residuals of the equations, and the T × T system after the elimination of all but a.
    stationarity = 2 * point.a / scale - M.T @ point.v - point.nu
    feasibility = M @ point.a + point.xi - 1.0 - point.s
    D = 1.0 / (point.xi / point.mu + point.s / point.v)
    matrix = (M.T * D) @ M
    matrix[np.diag_indices(len(point.a))] += 2 / scale + point.nu / point.a
    factor = scipy.linalg.cho_factor(matrix)

    def direction(r_a: Floats, r_s: Floats, r_xi: Floats) -> _MarginPoint:
        """Return Newton's direction; r_a, r_s and r_xi are the decreases of a∘ν, s∘v and ξ∘μ."""
        h = r_xi / point.mu - r_s / point.v - feasibility
        da = scipy.linalg.cho_solve(factor, M.T @ (D * h) - stationarity - r_a / point.a)
        dv = D * (h - M @ da)
        return _MarginPoint(
            a=da,
            nu=-(r_a + point.nu * da) / point.a,
            s=-(r_s + point.s * dv) / point.v,
            v=dv,
            xi=-(r_xi - point.xi * dv) / point.mu,
            mu=-dv,
        )

    predictor = direction(point.a * point.nu, point.s * point.v, point.xi * point.mu)
    gap = point.complementarity
    after_predictor = point.moved(predictor, point.longest(predictor))
    remaining = after_predictor.complementarity / gap
    target = remaining**3 * gap / (len(point.a) + 2 * len(point.v))
    corrected = direction(
        point.a * point.nu + predictor.a * predictor.nu - target,
        point.s * point.v + predictor.s * predictor.v - target,
        point.xi * point.mu + predictor.xi * predictor.mu - target,
    )
    return point.moved(corrected, point.longest(corrected))
