"""Newton's method for the mixture program with a strictly concave term in the weights.

    min_{λ ∈ Δ_T} F(λ),   F(λ) = ⟨fixed, λ⟩ + max { ⟨w, Σ_t λ_t ℓ^t⟩ − R(w) : w ∈ Δ, w ≤ p/α }

R is KL(w ‖ p)/β (`entropic`) or (ε/2) Σ (w_i − p_i)²/p_i (`quadratic`). F is convex with gradient Lw + fixed.
Weights strictly between their bounds move with the loss, which gives the generalised Hessian: a covariance of
the losses. The maximiser w is feasible for the dual, so λ·(Lw + fixed) − min_t (Lw + fixed)_t is a gap.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from scipy.linalg import cho_factor, cho_solve
from scipy.optimize import brentq
from scipy.special import xlog1py

from tailboost.core import Array, Floats, Mask
from tailboost.solvers.tail import combine, covariance, expectations, tail

# A slope of F below this value is rounding, and the full Newton step is taken.
ROUNDING = 1e-13
# Changes of the support for one step of Newton's; each is a factorisation.
MOST_PIVOTS = 300
# Relative width at which the bracket of a step is narrow enough.
KINK = 0.2


class BestWeights(NamedTuple):
    """Best weights for the losses of a mixture."""

    w: Floats  # shape (n,)
    penalty: float  # R(w)
    d: Floats  # shape (n,): derivative of w_i in its loss; 0 for weights at a bound
    # Units with a loss outside this interval have weights at a bound.
    free: tuple[float, float] = (-np.inf, np.inf)

    def value(self, combined: Floats) -> float:
        """Return ⟨w, combined⟩ − R(w)."""
        return float(self.w @ combined) - self.penalty


def divergence(excess: Floats, p: Floats) -> float:
    """Return KL(w ‖ p) from w/p − 1, shape (n,), exact to the last digits also if w is nearly p > 0."""
    return float(p @ (xlog1py(1.0 + excess, excess) - excess))


def entropic(combined: Floats, p: Floats, alpha: float, beta: float) -> BestWeights:
    """Return the best weights for R = KL(w ‖ p)/β: w_i = min(p_i/α, κ p_i e^{β ℓ_i})."""
    cap = p / alpha
    # Relative to the boundary of the tail, exponents neither overflow nor all underflow. Units up to
    # there get at least their weight in the tail, which gives a κ to the left of the solution.
    worst, reference = tail(combined, alpha, p)
    exponent = np.clip(beta * (combined - reference), -700.0, 600.0)
    w = p * np.exp(exponent)
    below = combined <= reference
    kappa = max(worst[below].sum(), 1e-300) / w[below].sum()
    capped = np.zeros(w.size, bool)
    n_capped = -1
    while kappa > 0:
        # Σ min(c, κ w) is concave in κ, so Newton's method from below only adds capped units. Where one
        # unit has all the weight, κ may fall by rounding.
        capped |= exponent >= -np.log(alpha * kappa)
        if capped.sum() == n_capped:
            break
        n_capped = capped.sum()
        free_sum = w @ ~capped
        kappa = max(1.0 - float(cap @ capped), 0.0) / free_sum if free_sum > 0 else 0.0
    free_w = kappa * np.where(capped, 0.0, w)
    w = np.where(capped, cap, np.minimum(free_w, cap))
    w /= w.sum()  # removes rounding errors
    return BestWeights(w, divergence(w / p - 1.0, p) / beta, beta * free_w)


def quadratic(
    combined: Floats, p: Floats, alpha: float, epsilon: float, mass: float
) -> BestWeights:
    """Return the best weights of sum ``mass`` for R = (ε/2) Σ (w_i − p_i)²/p_i.

    They are w_i = p_i clip(1 + (ℓ_i − θ)/ε, 0, 1/α).
    """
    top = 1.0 / alpha
    scaled = combined / epsilon

    def excess(bottom: float) -> float:
        return float(p @ np.clip(scaled - bottom, 0.0, top)) - mass

    bottom = scaled.min() - top  # θ/ε − 1, at which all weights are at their cap
    if excess(bottom) > 0:
        bottom = brentq(excess, bottom, scaled.max(), xtol=1e-15, maxiter=500)
    q = np.clip(scaled - bottom, 0.0, top)  # w/p
    free = (q > 0) & (q < top)
    penalty = 0.5 * epsilon * (p @ (q - 1.0) ** 2)
    w = p * q
    if not w.any():  # ε is below the rounding: only the largest losses have weight
        w = np.where(scaled == scaled.max(), p, 0.0)
    w *= mass / w.sum()
    bounds = epsilon * bottom, epsilon * (bottom + top)
    return BestWeights(w, penalty, p * free / epsilon, bounds)


def newton(
    losses: Array,
    respond: Callable[[Floats], BestWeights],
    start: Floats,
    tol: float,
    *,
    fixed: Floats | float = 0.0,
    relative_gap: float = 0.0,
    max_iter: int = 60,
) -> tuple[Floats, BestWeights]:
    """Return the λ of least F on the simplex, and its best weights, to a duality gap of ``tol``.

    If rounding allows no such gap it is the best iterate: a step near the optimum can be worse.

    Parameters
    ----------
    losses : ndarray of shape (T, n)
        Losses of T candidates on n units.
    respond : callable
        Returns the best weights w for losses of shape (n,).
    start : ndarray of shape (T,)
        Mixture weights λ to begin with.
    tol : float
        Largest duality gap to reach.
    fixed : ndarray of shape (T,) or float, default=0
        Linear part of F.
    relative_gap : float, default=0
        A gap of this part of R(w) is also accepted.
    max_iter : int, default=60
        Largest number of steps.
    """
    lam = start
    combined = combine(losses, lam)
    response = respond(combined)
    best = lam, response
    least_gap = np.inf
    for iteration in range(max_iter + 1):
        g = expectations(losses, response.w) + fixed
        gap = lam @ g - g.min()
        if gap < least_gap:
            best = lam, response
            least_gap = gap
        elif gap < 100 * tol:  # no step gains more digits
            break
        if gap <= max(tol, relative_gap * response.penalty) or iteration == max_iter:
            break
        # Newton's method doubles the digits only if each step is solved about as exactly.
        accuracy = min(1e-3 * gap, 1e-4 * gap**2 + 1e-15)
        target = simplex_qp(g, covariance(losses, response.d), lam, accuracy)
        toward = combine(losses, target)
        change = target - lam
        step, response = _line_search(
            respond, response, combined, toward, np.sum(fixed * change)
        )
        if step == 0.0:  # no descent beyond rounding
            break
        lam = lam + step * change
        combined = toward if step == 1.0 else combined + step * (toward - combined)
    return best


def _line_search(
    respond: Callable[[Floats], BestWeights],
    response: BestWeights,
    combined: Floats,
    toward: Floats,
    fixed_slope: float,
) -> tuple[float, BestWeights]:
    """Return a step in [0, 1] with at most half the slope of F, or at a kink, and the weights there.

    The losses go from ``combined``, with the weights ``response``, to ``toward`` at step 1, all of shape
    (n,). Slopes are compared, because values of F cancel. ``fixed_slope`` is that of its linear part.
    """
    change = toward - combined
    first_slope = response.w @ change + fixed_slope
    if abs(first_slope) < ROUNDING:
        return 1.0, respond(toward)
    first_value = response.value(combined)
    low = 0.0
    high = 1.0
    step = 1.0
    for _ in range(40):
        trial = combined + step * change if step < 1.0 else toward
        trial_response = respond(trial)
        slope = trial_response.w @ change + fixed_slope
        is_flat = abs(slope) <= 0.5 * abs(first_slope)
        if slope > 0:  # beyond a kink F may have risen
            is_flat &= (
                trial_response.value(trial) + step * fixed_slope <= first_value + ROUNDING
            )
        if is_flat or (step == 1.0 and slope < 0):
            return step, trial_response
        if slope > 0:
            high = step
        else:
            low = step
            response = trial_response
        # The minimum may be a kink, at which no slope is small.
        if low > 0 and high - low <= KINK * high:
            break
        step = 0.5 * (low + high)
    return low, response


def simplex_qp(g: Floats, hessian: Floats, lam: Floats, tol: float) -> Floats:
    """Return the solution x of min_{x ∈ Δ} ⟨g, x − λ⟩ + ½ (x − λ)'H(x − λ), to a gap of ``tol``.

    g, λ and x have shape (T,). H, shape (T, T), is positive semi-definite. The unknown is the step d from λ,
    so steps much smaller than λ keep their digits. A primal active-set method: a step ends at the minimum
    over the support, or where a candidate loses its weight and leaves. At a minimum the candidate with the
    least gradient enters.
    """
    # H may be singular. A constant added to all entries has no effect on the simplex, and improves H.
    scale = max(hessian.diagonal().max(), 1e-3 * np.ptp(g))
    proximal = hessian + scale + 1e-12 * scale * np.eye(g.size)
    support = lam > 0
    d = np.zeros(g.size)
    for _ in range(MOST_PIVOTS):
        try:
            target = _stationary(g, proximal, lam, support)
        except np.linalg.LinAlgError:
            break
        x = lam + d
        leaving = np.flatnonzero(support & (lam + target < 0))
        if leaving.size:
            lengths = x[leaving] / (d - target)[leaving]  # of the step at which the weight is 0
            first = leaving[lengths.argmin()]
            d += lengths.min() * (target - d)
            support[first] = False
            d[first] = -lam[first]
            continue
        d = target
        gradient = g + hessian @ d
        level = (lam + d)[support] @ gradient[support]
        entering = np.where(support, np.inf, gradient).argmin()
        if support[entering] or gradient[entering] >= level - tol:
            break
        support[entering] = True
    x = np.maximum(lam + d, 0.0)
    return x / x.sum()


def _stationary(g: Floats, proximal: Floats, lam: Floats, support: Mask) -> Floats:
    """Return the step d from λ to the stationary point with this support, shape (T,); others go to 0.

    There the gradients inside equal the multiplier y of the condition Σ d = 0. So d solves H d = y − gradient
    inside. Raise LinAlgError if H is singular there.
    """
    d = np.where(support, 0.0, -lam)
    gradient = (g + proximal @ d)[support]
    factor = cho_factor(proximal[np.ix_(support, support)], check_finite=False)
    right_sides = np.column_stack([gradient, np.ones(gradient.size)])
    from_gradient, from_ones = cho_solve(factor, right_sides, check_finite=False).T
    y = (from_gradient.sum() - d.sum()) / from_ones.sum()
    d[support] = y * from_ones - from_gradient
    return d
