"""Soft margins (Rätsch, Onoda, Müller 2001): weights of given base models by a linear or quadratic program.

RLP:  max ρ − Σ C_i ξ_i   s.t. Σ_t a_t m_it ≥ ρ − ξ_i, ξ ≥ 0, a ∈ Δ_T
RQP:  min ‖a‖² + Σ C_i ξ_i   s.t. Σ_t a_t m_it ≥ 1 − ξ_i, ξ ≥ 0, a ≥ 0
dual: max Σ v_i − ¼‖(Σ_i v_i m_it)₊‖²   s.t. 0 ≤ v_i ≤ C_i,   with a = ½(Mᵀv)₊
"""

from typing import Any

import numpy as np

from tailboost.core import Column, Floats, Table, check_weights, frozen_value, one_blas_thread
from tailboost.core.ranges import POSITIVE, check_number
from tailboost.solvers.mixture import minimize_cvar_mixture
from tailboost.solvers.tail import as_losses, check_gap, patterns

# Largest relative duality gap of the quadratic program, and the gap at which its steps end.
QUADRATIC_GAP = 1e-5
TARGET = 3e-13
# Most steps; in 219 programs 31 were enough. Smaller weights are 0.
MOST_STEPS = 100
NO_WEIGHT = 1e-10


@frozen_value
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
    """

    mixture: Floats
    value: float
    dual_value: float
    gap: float


@one_blas_thread()
def soft_margin_weights(
    wrong: Table,
    C: float,
    sample_weight: Column = None,
    *,
    loss: str = "linear",
    n_classes: int = 2,
) -> SoftMarginSolution:
    """Return the weights of base models with the best soft margin.

    Parameters
    ----------
    wrong : array-like of shape (T, n)
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
    C = check_number(C, "C", POSITIVE)
    weight = check_weights(sample_weight, losses.shape[1])
    spread = n_classes / (n_classes - 1)
    if loss == "linear":
        total = weight.sum()
        if C * total < 1 - 1e-12:
            raise ValueError(
                f"C={C:g} is too small for loss='linear': it must be at least 1/Σ "
                f"sample_weight = {1 / total:g}, below which the linear program is unbounded"
            )
        solution = minimize_cvar_mixture(wrong, min(1.0, 1 / (C * total)), weight)
        return SoftMarginSolution(
            solution.mixture,
            1 - spread * solution.value,
            1 - spread * solution.dual_value,
            spread * solution.gap,
        )
    losses = losses[:, weight > 0]  # rows without weight have no slack
    prices: Any = C * weight[weight > 0]
    if losses.dtype == np.uint8:  # one row of those with equal losses has the prices of all
        first_rows, pattern = patterns(losses)
        losses = losses[:, first_rows]
        prices = np.bincount(pattern, prices)
    return _quadratic(1.0 - spread * losses.T, prices)


def _quadratic(M: Floats, C: Floats) -> SoftMarginSolution:
    """Solve RQP for margins M of shape (n, T) and prices C of shape (n,), by an interior-point method.

    Its points are x = (a, s, ξ) with s = Ma + ξ − 1, and z = (ν, v, μ) with ν = 2a − Mᵀv and μ = C − v, all
    positive. The duality gap is xᵀz. Each Newton step aims at equal products x z, the smaller the longer the
    step before was.
    """
    n, T = M.shape
    v = C / 2
    a = np.maximum(M.T @ v / 2, 0.0) + 1 / T
    xi = np.maximum(1.0 - M @ a, 0.0) + 1.0
    x = np.concatenate([a, M @ a + xi - 1.0, xi])
    z = np.concatenate([2 * a - M.T @ v, v, C - v])
    parts = [T, T + n]
    step = 0.0
    for _ in range(MOST_STEPS):
        a, s, xi = np.split(x, parts)
        nu, v, mu = np.split(z, parts)
        gap = x @ z
        if gap <= TARGET * (1.0 + v.sum()):
            break
        aim = max(0.02, (1.0 - step) ** 2) * gap / len(x)
        D = 1.0 / (xi / mu + s / v)
        h = aim / v - s - aim / mu + xi
        hessian = (M.T * D) @ M + np.diag(2.0 + nu / a)
        try:
            da = np.linalg.solve(hessian, aim / a - nu + M.T @ (D * h))
        except np.linalg.LinAlgError:  # the prices are too large for the digits
            break
        dv = D * (h - M @ da)
        dx = np.concatenate([da, (aim - s * dv) / v - s, (aim + xi * dv) / mu - xi])
        dz = (aim - z * dx) / x - z
        step = 0.99 / max(0.99, (-dx / x).max(), (-dz / z).max())
        x = x + step * dx
        z = z + step * dz
    a = np.where(a > NO_WEIGHT, a, 0.0)
    value = float(a @ a + C @ np.maximum(1.0 - M @ a, 0.0))
    v = np.minimum(v, C)
    from_dual = np.maximum(M.T @ v, 0.0) / 2
    gap = float(value - v.sum() + from_dual @ from_dual)
    check_gap(gap, value, QUADRATIC_GAP * (1.0 + value))
    return SoftMarginSolution(a, value, value - gap, gap)
