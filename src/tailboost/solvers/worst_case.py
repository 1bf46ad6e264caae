"""The worst case of fixed losses: max ⟨w, ℓ⟩ over a KL ball around the base measure (Blanchet et al. 2019).

The maximiser over {w : Σ w_i log(w_i/p_i) ≤ r} is w_i ∝ p_i exp(θ ℓ_i). Radius 0 gives p. At a large radius
all mass is on the units with the largest loss, in proportion to p.
"""

import numpy as np

from tailboost.core import Column, Floats, frozen_value, one_blas_thread
from tailboost.core.ranges import NON_NEGATIVE, check_number
from tailboost.solvers.newton import divergence
from tailboost.solvers.tail import check_gap, loss_vector, measure

# For θ below this, the tilted measure is computed as a difference from p.
SMALL = 0.1
# Relative step in θ that is rounding.
LAST_STEP = 1e-13


@frozen_value
class WorstCaseSolution:
    """Worst-case weights and their certificate.

    Attributes
    ----------
    unit_weights : ndarray of shape (n,)
        The maximiser w, on the simplex and in the ball.
    value : float
        Worst-case loss ⟨w, ℓ⟩.
    dual_value : float
        Upper bound from the dual for all weights in the ball.
    gap : float
        ``dual_value - value``.
    parameter : float
        θ, an inverse temperature; ∞ at the limit.
    """

    unit_weights: Floats
    value: float
    dual_value: float
    gap: float
    parameter: float


@one_blas_thread()
def worst_case_weights(
    losses: Column, *, radius: float, base: Column = None
) -> WorstCaseSolution:
    """Return the weights in a ball around the base measure with the largest expected loss.

    Parameters
    ----------
    losses : array-like of shape (n,)
        Finite losses.
    radius : float
        r, non-negative: KL(w ‖ p) ≤ r.
    base : array-like of shape (n,), optional
        Base measure; uniform by default.

    Returns
    -------
    WorstCaseSolution
        ``unit_weights`` are w, ``value`` is their expected loss, and ``dual_value`` a bound for all weights.

    Raises
    ------
    ValueError
        If an argument is outside its range.
    SolverError
        If the gap stays above ``1e-8 (1 + |value|)``.
    """
    radius = check_number(radius, "radius", NON_NEGATIVE)
    values = loss_vector(losses)
    return of_checked(values, measure(base, values.size), radius)


def of_checked(
    values: Floats, p: Floats, radius: float, start: float = 0.0
) -> WorstCaseSolution:
    """Return `worst_case_weights` of checked arguments, from θ of a similar problem on if it is positive."""
    if not p.all():
        values = np.where(p > 0, values, values[p > 0].min())  # without mass they do not count
    top = float(values.max())
    scale = top - float(values.min())
    d = (values - top) / (scale or 1.0)  # distance below the largest loss, in [−1, 0]
    mass = p[d == 0].sum()  # of the largest loss
    w = p
    bound = float(p @ d)
    theta = 0.0
    if radius >= -np.log(mass):  # the ball holds all of their weights
        w = np.where(d == 0, p / mass, 0.0)
        bound = 0.0
        theta = np.inf
    elif radius > 0:
        w, bound, theta = _in_ball(d, p, radius, start * scale)
    gain = float(w @ d)
    value = top + scale * gain
    gap = scale * (bound - gain)
    check_gap(gap, value, 1e-13 * (scale + abs(top)))
    return WorstCaseSolution(w, value, value + gap, gap, theta / scale if scale else 0.0)


def _tilted(d: Floats, p: Floats, theta: float) -> tuple[Floats, float, float]:
    """Return w ∝ p e^{θ d}, KL(w ‖ p) and log Σ p e^{θ d}, also for a tiny θ to the last digits."""
    if theta > SMALL:
        w = p * np.exp(theta * d)
        total = w.sum()
        w /= total
        log_total = float(np.log(total))
        return w, theta * float(w @ d) - log_total, log_total
    excess = np.expm1(theta * d)  # near θ = 0, sums are computed as differences from p
    mean = p @ excess
    w = p * (1.0 + excess) / (1.0 + mean)
    distance = divergence((excess - mean) / (1.0 + mean), p)
    return w, distance, float(np.log1p(mean))


def _in_ball(d: Floats, p: Floats, radius: float, theta: float) -> tuple[Floats, float, float]:
    """Return the best weights in the KL ball of a radius r, their bound from the dual, and θ.

    The weights are w_i ∝ p_i e^{θ d_i} with KL(w ‖ p) = r, and the bound is min_θ (r + log Σ p e^{θd})/θ.
    ``d`` are the distances below the largest loss, in [−1, 0], and ``p`` is the base measure. The search
    starts at ``theta``, if it is positive and finite.
    """
    low = 0.0
    high = np.inf
    if not 0.0 < theta < np.inf:
        variance = p @ (d - p @ d) ** 2
        theta = float(np.sqrt(2 * radius / variance))  # KL is about θ² variance / 2
    # Newton's method for √KL, which is nearly linear in small θ, inside a bracket.
    for _ in range(200):
        w, distance, log_total = _tilted(d, p, theta)
        root = max(distance, 0.0) ** 0.5  # rounding may give a negative distance
        if root < radius**0.5:
            low = theta
        else:
            high = theta
        slope = theta * float(w @ d**2 - (w @ d) ** 2) / max(2 * root, 1e-300)
        next_theta = theta - (root - radius**0.5) / slope if slope > 0 else np.inf
        if not low < next_theta < high:  # bisection
            next_theta = 0.5 * (low + high) if high < np.inf else 2 * theta
        if abs(next_theta - theta) <= LAST_STEP * theta:
            break
        theta = next_theta
    return w, (radius + log_total) / theta, theta
