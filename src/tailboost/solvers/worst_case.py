"""Worst-case weights for fixed losses: max ⟨w, ℓ⟩ over a ball around the base measure (Blanchet et al. 2019).

    KL     Σ w_i log(w_i/p_i) ≤ r          w_i ∝ p_i exp(θ ℓ_i)
    χ²     ½ Σ (w_i − p_i)²/p_i ≤ r        w_i ∝ p_i (ℓ_i − θ)_+
    CVaR   w_i ≤ p_i/α, α = e^(−r)         the tail of mass α

Radius 0 is p for all three; at a large radius all mass is on the units of largest loss, in proportion to p.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from tailboost.solvers.bits import Float, base_measure, check_number, loss_vector
from tailboost.solvers.cvar import tail
from tailboost.solvers.problem import GAP, SolverError

Uncertainty = Literal["kl", "cvar", "chi2"]


@dataclass(frozen=True)
class WorstCaseSolution:
    """Worst-case weights and their certificate.

    Attributes
    ----------
    weights : ndarray of shape (n,)
        The maximiser w, on the simplex and in the ball.
    value : float
        Worst-case loss ⟨w, ℓ⟩.
    dual_value : float
        Upper bound from the dual: no weights in the ball do more.
    gap : float
        ``dual_value - value``.
    parameter : float
        θ of the table above: inverse temperature (KL; ∞ at the limit) or threshold (χ², CVaR).
    n_iter : int
        Passes of the search for ``parameter``.
    method : str
        "newton", "closed-form" or "limit" (all mass on the largest losses).
    """

    weights: Float
    value: float
    dual_value: float
    gap: float
    parameter: float
    n_iter: int
    method: str


def worst_case_weights(
    losses: npt.ArrayLike,
    uncertainty: Uncertainty = "kl",
    *,
    radius: float,
    base: npt.ArrayLike | None = None,
) -> WorstCaseSolution:
    """Weights in a ball around the base measure that make the expected loss largest.

    Parameters
    ----------
    losses : array-like of shape (n,)
        Any finite losses.
    uncertainty : {"kl", "cvar", "chi2"}
        The ball, as in the table above.
    radius : float
        Non-negative, on one scale: KL(w ‖ p) ≤ r, ½ Σ (w_i − p_i)²/p_i ≤ r, CVaR at α = e^(−r).
    base : array-like of shape (n,), optional
        Base measure; uniform by default.

    Returns
    -------
    WorstCaseSolution

    Raises
    ------
    ValueError
        If an argument is outside its range.
    SolverError
        If the gap stays above 1e-8 (1 + |value|).
    """
    if uncertainty not in _BALLS:
        raise ValueError(f"uncertainty must be one of {sorted(_BALLS)}, got {uncertainty!r}")
    radius = check_number(radius, "radius", 0, closed=True)
    values = loss_vector(losses)
    p = base_measure(base, values.size)
    kept = p > 0
    top = float(values[kept].max())
    scale = top - float(values[kept].min())
    if radius == 0 or scale == 0:
        value = float(p @ values)
        return WorstCaseSolution(p, value, value, 0.0, top if uncertainty != "kl" else 0.0, 0, "closed-form")
    # Losses as distances below the largest, in units of their range: d ∈ [−1, 0].
    d = np.minimum((values - top) / scale, 0.0)
    largest = float(p[d == 0].sum())
    if radius >= _LIMITS[uncertainty](largest):
        w = np.where(d == 0, p / largest, 0.0)
        return WorstCaseSolution(w, top, top, 0.0, np.inf if uncertainty == "kl" else top, 0, "limit")
    w, bound, parameter, n_iter, method = _BALLS[uncertainty](d, p, radius)
    value = float(w @ values)
    dual_value = top + scale * bound
    gap = dual_value - top - scale * float(w @ d)
    if not gap <= max(GAP * (1 + abs(value)), 1e-13 * (scale + abs(top))):
        raise SolverError(
            f"worst_case_weights: the gap {gap:.3g} is too large (n = {values.size}, "
            f"uncertainty = {uncertainty!r}, radius = {radius:g})"
        )
    parameter = parameter / scale if uncertainty == "kl" else top + scale * parameter
    return WorstCaseSolution(w, value, dual_value, gap, parameter, n_iter, method)


#: The radius from which on all mass is on the largest losses, of base mass m.
_LIMITS: dict[str, Callable[[float], float]] = {
    "kl": lambda m: -float(np.log(m)),
    "cvar": lambda m: -float(np.log(m)),
    "chi2": lambda m: 0.5 * (1.0 / m - 1.0),
}


def _kl(d: Float, p: Float, radius: float) -> tuple[Float, float, float, int, str]:
    limit = -float(np.log(p[d == 0].sum()))
    small = radius < 0.5 * limit

    def state(theta: float) -> tuple[Float, float, float, float]:
        w = p * np.exp(theta * d)
        total = float(w.sum())
        w /= total
        log_total = np.log(total) if theta > 0.1 else np.log1p(p @ np.expm1(theta * d))
        mean = float(w @ d)
        variance = float(w @ (d - mean) ** 2)
        return w, variance, float(log_total), theta * mean - float(log_total)

    low, high = 0.0, np.inf
    theta = np.sqrt(2 * radius / float(p @ (d - p @ d) ** 2))
    for n_iter in range(1, 201):  # noqa: B007
        w, variance, log_total, divergence = state(theta)
        low, high = (theta, high) if divergence < radius else (low, theta)
        slope = theta * variance  # of the divergence in θ
        # The divergence is nearly quadratic in θ at first and approaches its limit exponentially in the end:
        # Newton on √(2 KL) and on log(limit − KL) sees nearly straight lines.
        with np.errstate(divide="ignore", invalid="ignore"):
            if small:
                root = np.sqrt(2 * max(divergence, 0.0))
                new = theta + (np.sqrt(2 * radius) - root) * root / slope
            else:
                new = (
                    theta
                    - (np.log(limit - radius) - np.log(limit - divergence)) * (limit - divergence) / slope
                )
        if abs(divergence - radius) <= 1e-14 * radius or high - low <= 1e-15 * theta:
            break
        if not (low < new < high):
            new = 2 * theta + 1 if high == np.inf else 0.5 * (low + high)
        if new == theta:
            break
        theta = float(new)
    # Dual: min_θ (r + log Σ p e^{θd})/θ.
    return w, (radius + log_total) / theta, theta, n_iter, "newton"


def _chi2(d: Float, p: Float, radius: float) -> tuple[Float, float, float, int, str]:
    mean = float(p @ d)
    variance = float(p @ (d - mean) ** 2)
    ratio = 1.0 + 2.0 * radius
    theta, n_iter, method = mean - np.sqrt(variance / (2 * radius)), 0, "closed-form"
    if theta > -1:
        # Some weights are zero: E(d − θ)²_+ / (E(d − θ)_+)² = 1 + 2r grows from θ = −1 to 0.
        method, low, high = "newton", -1.0, 0.0
        for n_iter in range(1, 201):  # noqa: B007
            u = np.maximum(d - theta, 0.0)
            active = float(p @ (u > 0))
            first = float(p @ u)
            second = float(p @ u**2)
            excess = second - ratio * first**2
            low, high = (theta, high) if excess < 0 else (low, theta)
            slope = -2 * first + 2 * ratio * first * active
            new = theta - excess / slope if slope > 0 else np.nan
            if high - low <= 1e-15 or abs(excess) <= 1e-15 * second:
                break
            if not (low < new < high):
                new = 0.5 * (low + high)
            if new == theta:
                break
            theta = float(new)
    u = np.maximum(d - theta, 0.0)
    w = p * u
    w /= w.sum()
    # Dual: min_θ θ + √((1 + 2r) E(d − θ)²_+).
    root = np.sqrt(2 * radius * variance) + mean - theta if n_iter == 0 else np.sqrt(ratio * (p @ u**2))
    return w, float(theta + root), float(theta), n_iter, method


def _tail(d: Float, p: Float, radius: float) -> tuple[Float, float, float, int, str]:
    alpha = float(np.exp(-radius))
    w, eta = tail(d, alpha, p)
    return w, eta + float(p @ np.maximum(d - eta, 0.0)) / alpha, eta, 0, "closed-form"


_BALLS: dict[str, Callable[[Float, Float, float], tuple[Float, float, float, int, str]]] = {
    "kl": _kl,
    "cvar": _tail,
    "chi2": _chi2,
}
