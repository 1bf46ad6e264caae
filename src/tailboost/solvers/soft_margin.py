"""Soft margins (Rätsch, Onoda, Müller 2001): weights of given base models by a linear or quadratic program.

RLP:  max ρ − Σ C_i ξ_i   s.t. Σ_t a_t m_it ≥ ρ − ξ_i, ξ ≥ 0, a ∈ Δ_T
RQP:  min ‖a‖² + Σ C_i ξ_i   s.t. Σ_t a_t m_it ≥ 1 − ξ_i, ξ ≥ 0, a ≥ 0
dual: max Σ v_i − ¼‖(Σ_i v_i m_it)₊‖²   s.t. 0 ≤ v_i ≤ C_i,   with a = ½(Mᵀv)₊
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import minimize

from tailboost.core.array_types import Floats
from tailboost.core.checks import check_number, check_weights
from tailboost.core.long_work import one_blas_thread
from tailboost.solvers.mixture import minimize_cvar_mixture
from tailboost.solvers.tail import SolverError, as_losses

# Largest relative duality gap of the quadratic program, and the gap at which no search starts again.
QUADRATIC_GAP = 1e-5
TARGET = 1e-8
# Options of a search of L-BFGS-B, and how often it starts again where it ended.
SEARCH = {"maxiter": 20_000, "maxfun": 40_000, "ftol": 1e-16, "gtol": 1e-10, "maxls": 50}
MOST_STARTS = 10


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
    """

    mixture: Floats
    value: float
    dual_value: float
    gap: float


@one_blas_thread()
def soft_margin_weights(
    wrong: ArrayLike,
    C: float,
    sample_weight: ArrayLike | None = None,
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
    C = check_number(C, "C", 0)
    weight = check_weights(sample_weight, losses.shape[1])
    spread = n_classes / (n_classes - 1)
    if loss == "linear":
        total = float(weight.sum())
        if C * total < 1 - 1e-12:
            raise ValueError(
                f"C={C:g} is too small for loss='linear': it must be at least 1/Σ sample_weight = "
                f"{1 / total:g}, below which the linear program is unbounded"
            )
        solution = minimize_cvar_mixture(wrong, min(1.0, 1 / (C * total)), weight)
        return SoftMarginSolution(
            solution.mixture,
            1 - spread * solution.value,
            1 - spread * solution.dual_value,
            spread * solution.gap,
        )
    used = weight > 0  # rows without weight have no slack
    return _quadratic(1.0 - spread * losses[:, used].T, C * weight[used])


def _quadratic(M: Floats, C: Floats) -> SoftMarginSolution:
    """Solve RQP for margins M of shape (n, T) and prices C of shape (n,), by the dual."""
    scale = float(C.max())

    def negative_dual(u: Floats) -> tuple[float, Floats]:
        """Return minus the dual at v = scale·u, over the scale, and its gradient."""
        positive = np.maximum(M.T @ (scale * u), 0.0)
        return float(positive @ positive) / (4 * scale) - u.sum(), 0.5 * (M @ positive) - 1.0

    bounds = np.column_stack([np.zeros(C.size), C / scale])
    u = C / (2 * scale)
    for _ in range(MOST_STARTS):  # a search may end before the gap closes
        u = minimize(
            negative_dual, u, jac=True, method="L-BFGS-B", bounds=bounds, options=SEARCH
        ).x
        a = 0.5 * np.maximum(M.T @ (scale * u), 0.0)
        value = float(a @ a + C @ np.maximum(1.0 - M @ a, 0.0))
        dual_value = float(scale * u.sum() - a @ a)
        gap = value - dual_value
        if gap <= TARGET * (1.0 + abs(value)):
            break
    if gap > QUADRATIC_GAP * (1.0 + abs(value)):
        raise SolverError(
            f"soft_margin_weights: the duality gap is {gap:.3g} for the value {value:.6g} "
            f"(n = {M.shape[0]}, T = {M.shape[1]})"
        )
    return SoftMarginSolution(a, value, dual_value, gap)
