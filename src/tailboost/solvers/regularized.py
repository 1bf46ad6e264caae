"""Newton's method for the mixture program with a strictly concave term in the weights.

    min_{λ ∈ Δ_T} F(λ),   F(λ) = max { ⟨w, Σ_t λ_t ℓ^t⟩ − R(w) : w ∈ Δ, w ≤ p/α }

R is KL(w ‖ p)/β (`Entropic`) or (ε/2) Σ (w_i − p_i)²/p_i (`Quadratic`). F is convex with gradient Lw. Weights
strictly between their bounds move with the loss, which gives the generalised Hessian: a covariance of the
losses. The maximiser w is feasible for the dual, so λ·Lw − min_t (Lw)_t is a duality gap.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from scipy.linalg import cho_factor, cho_solve
from scipy.special import xlog1py

from tailboost.core.array_types import Floats, Ints, Mask
from tailboost.solvers.bits import PackedLosses
from tailboost.solvers.tail_game import tail, tail_boundary

#: A slope of F below this value is rounding, and the full Newton step is taken.
GAP_ROUNDING = 1e-13


#: An excess below this fraction of the mass is rounding if it no longer falls.
SETTLED = 1e-13


#: Changes of the support for one step of Newton's; each is a factorisation.
MOST_PIVOTS = 100


#: Changes of all wrong candidates at once that may bring no progress, before single changes.
BLOCK_PIVOTS = 4


#: Relative width at which the bracket of a step is narrow enough.
KINK = 0.2


class BestWeights(NamedTuple):
    """Best weights for the losses of a mixture."""

    w: Floats  # shape (n,)
    penalty: float  # R(w)
    d: Floats  # shape (n,): derivative of w_i in its loss; 0 for weights at a bound
    free: tuple[float, float]  # units with a loss outside this interval have weights at a bound


class NewtonResult(NamedTuple):
    """A mixture with its weights and duality gap."""

    lam: Floats  # shape (T,): λ
    combined: Floats  # shape (n,): losses of the mixture
    w: Floats  # shape (n,)
    gap: float  # duality gap
    free: tuple[float, float]  # units with a loss outside this interval have weights at a bound


def divergence(excess: Floats, p: Floats) -> float:
    """Return KL(w ‖ p) from w/p − 1, shape (n,), exact to the last digits also if w is nearly p > 0."""
    return float(p @ (xlog1py(1.0 + excess, excess) - excess))


@dataclass(frozen=True)
class Entropic:
    """Best weights for R = KL(w ‖ p)/β: w_i = min(p_i/α, κ p_i e^{β ℓ_i})."""

    p: Floats
    alpha: float
    beta: float

    def __call__(self, combined: Floats) -> BestWeights:
        """Return the weights that maximise ⟨w, combined⟩ − R(w)."""
        p = self.p
        beta = self.beta
        cap = p / self.alpha
        log_cap = float(np.log(1.0 / self.alpha))  # of w/p at the cap
        reference = float(combined.max())
        range_of_exponents = beta * (reference - float(combined.min()))
        up_to_reference: Any = slice(None)
        least_mass = 1.0  # of the weights of these units
        if range_of_exponents > 600:
            # Exponents relative to the boundary η of the tail neither overflow nor all underflow.
            worst, reference = tail(combined, self.alpha, p)
            up_to_reference = combined <= reference
            least_mass = max(float(worst[up_to_reference].sum()), 1e-300)
        # Below the range, e^x is 0 to the last digit; above, a unit is capped.
        exponent = np.clip(beta * (combined - reference), -800.0, 600.0)
        w = p * np.exp(exponent)
        # Units up to η get at least their weight in the tail, which gives a κ to the left of the solution.
        first_kappa = least_mass / float(w[up_to_reference].sum())
        kappa, capped = _scale_to_one(w, cap, exponent, log_cap, first_kappa)
        free_w = kappa * np.where(capped, 0.0, w)
        d = beta * free_w
        w = np.where(capped, cap, np.minimum(free_w, cap))
        w /= w.sum()  # removes rounding errors
        caps_from = reference
        if kappa > 0:
            caps_from += (log_cap - float(np.log(kappa))) / beta
        if range_of_exponents > 1e-2 and kappa > 0:
            # log(w/p) is log κ + β (ℓ − reference) for free units and log 1/α for capped ones.
            free_mass = float(d.sum()) / beta
            mean_exponent = float(d @ exponent) / beta
            mean_log = mean_exponent + free_mass * np.log(kappa) + (1 - free_mass) * log_cap
            penalty = mean_log / beta
        else:  # w is nearly p, and the terms above would cancel
            penalty = divergence(w / p - 1.0, p) / beta
        return BestWeights(w, float(penalty), d, (-np.inf, caps_from))


def _scale_to_one(
    w: Floats, cap: Floats, exponent: Floats, log_cap: float, kappa: float
) -> tuple[float, Mask]:
    """Return κ with Σ min(c, κ w) = 1, and a mask of the capped units, shape (n,).

    The start ``kappa`` is at most the solution. The sum is concave in κ, so Newton's method from below only
    adds capped units. A unit is capped if its ``exponent``, log(w/p), plus log κ reaches ``log_cap``.
    """
    capped = np.zeros(w.size, dtype=bool)
    n_capped = -1
    while kappa > 0:
        above = exponent >= log_cap - np.log(kappa)
        n_above = int(np.count_nonzero(above))
        if n_above <= n_capped:
            break
        capped = above
        n_capped = n_above
        free_sum = float(w @ ~capped)
        kappa = 0.0
        if free_sum > 0:
            kappa = max(1.0 - float(cap @ capped), 0.0) / free_sum
    return kappa, capped


@dataclass
class Quadratic:
    """Best weights for R = (ε/2) Σ (w_i − p_i)²/p_i: w_i = p_i clip(1 + (ℓ_i − θ)/ε, 0, 1/α), Σ w = mass."""

    p: Floats
    alpha: float
    epsilon: float
    mass: float = 1.0
    bottom: float | None = None  # θ/ε − 1 of the last call, where the next search starts

    def __call__(self, combined: Floats) -> BestWeights:
        """Return the weights that maximise ⟨w, combined⟩ − R(w)."""
        p = self.p
        epsilon = self.epsilon
        top = 1.0 / self.alpha
        bottom = self._bottom_of(combined)
        self.bottom = bottom
        scaled = combined / epsilon
        q = np.clip(scaled - bottom, 0.0, top)  # w/p
        free = (q > 0) & (q < top)
        w = p * q
        penalty = 0.5 * epsilon * float(p @ (q - 1.0) ** 2)
        total = float(w.sum())
        if total == 0:
            # If ε is below the rounding of the losses, only the largest losses have weight.
            w = np.where(scaled == scaled.max(), p, 0.0)
            total = float(w.sum())
        w *= self.mass / total
        bounds = (epsilon * bottom, epsilon * (bottom + top))
        return BestWeights(w, penalty, p * free / epsilon, bounds)

    def _bottom_of(self, combined: Floats) -> float:
        """Return θ/ε − 1 for weights with the sum ``mass``; ``combined`` are losses, shape (n,).

        The sum is a monotone, piecewise linear function of θ: Newton's method stays inside a bracket.
        """
        p = self.p
        top = 1.0 / self.alpha
        scaled = combined / self.epsilon
        low = float(scaled.min()) - top
        high = float(scaled.max())
        bottom = self.bottom
        if bottom is None:
            eta = tail_boundary(combined, self.alpha * self.mass, p)
            bottom = eta / self.epsilon - 1.0
        bottom = min(max(bottom, low), high)
        previous_error = np.inf
        for _ in range(100):
            q = np.clip(scaled - bottom, 0.0, top)
            excess = float(p @ q) - self.mass
            # The rounding of a sum of unequal weights would make the iteration oscillate.
            is_settled = abs(excess) >= previous_error and abs(excess) < SETTLED * self.mass
            if is_settled or abs(excess) < 1e-15:
                break
            previous_error = abs(excess)
            if excess > 0:
                low = bottom
            else:
                high = bottom
            slope = float(p @ ((q > 0) & (q < top)))
            next_bottom = np.inf
            if slope > 0:
                next_bottom = bottom + excess / slope
            if not low <= next_bottom <= high:  # bisection
                next_bottom = 0.5 * (low + high)
            if next_bottom == bottom:
                break
            bottom = next_bottom
        return bottom


def newton(
    losses: PackedLosses,
    respond: Callable[[Floats], BestWeights],
    start: Floats,
    tol: float,
    *,
    combined: Floats | None = None,
    fixed: Floats | float = 0.0,
    relative_gap: float = 0.0,
    max_iter: int = 60,
) -> NewtonResult:
    """Minimise F over the simplex from ``start`` to a duality gap of ``tol``, or as far as possible.

    F(λ) is the largest value over weights w of ⟨w, loss of the mixture λ⟩ less the penalty R(w). The best
    iterate is returned, because a step near the optimum can be worse by rounding.

    Parameters
    ----------
    losses : PackedLosses
        Losses of T units on n rows.
    respond : callable
        Returns the best weights w for losses of shape (n,).
    start : ndarray of shape (T,)
        Mixture weights λ to begin with.
    tol : float
        Largest duality gap to reach.
    combined : ndarray of shape (n,), optional
        Losses of the mixture ``start``; computed by default.
    fixed : ndarray of shape (T,) or float, default=0
        Expected losses on units with fixed weights, added to those under w.
    relative_gap : float, default=0
        A gap of this part of R(w) is also accepted.
    max_iter : int, default=60
        Largest number of steps.
    """
    lam = start
    if combined is None:
        combined = losses.combine(start)
    response = respond(combined)
    best = None
    for iteration in range(max_iter + 1):
        g = losses.expectations(response.w) + fixed
        gap = float(lam @ g - g.min())
        if best is None or gap < best.gap:
            best = NewtonResult(lam, combined, response.w, gap, response.free)
        if gap <= max(tol, relative_gap * response.penalty) or iteration == max_iter:
            break
        hessian = losses.covariance(response.d)
        # Newton's method doubles the digits only if each step is solved about as exactly.
        accuracy = min(1e-3 * gap, 1e-4 * gap**2 + 1e-15)
        target = simplex_qp(g, hessian, lam, accuracy)
        target_losses = losses.combine(target)
        fixed_slope = float(np.sum(fixed * (target - lam)))
        step, response = _line_search(respond, response, combined, target_losses, fixed_slope)
        if step == 0.0:  # no descent beyond rounding
            break
        if step == 1.0:
            lam = target
            combined = target_losses
        else:
            lam = lam + step * (target - lam)
            combined = combined + step * (target_losses - combined)
    assert best is not None
    return best


def refined(
    losses: PackedLosses, respond: Callable[[Floats], BestWeights], solution: NewtonResult
) -> NewtonResult:
    """Return the solution after Newton steps that may be below the digits of λ.

    A large β multiplies the rounding of the losses of λ. Losses relative to the loss of a free unit have
    finer digits, and F + c has the same weights for every constant c. The steps keep the support of λ, and
    end where a step does not lower the gap.
    """
    combined = solution.combined
    while True:
        combined = combined - combined[respond(combined).d.argmax()]
        response = respond(combined)
        g = losses.expectations(response.w)
        proximal = _proximal(losses.covariance(response.d), g)
        inside = np.flatnonzero(solution.lam > 0)
        outside = np.flatnonzero(solution.lam == 0)
        try:
            step = _stationary(g, proximal, solution.lam, inside, outside)
        except np.linalg.LinAlgError:
            return solution
        lam = solution.lam + step
        combined = combined + losses.combine(step)
        w = respond(combined).w
        g = losses.expectations(w)
        gap = float(lam @ g - g.min())
        if gap >= solution.gap or lam.min() < 0:
            return solution
        solution = solution._replace(lam=lam, combined=combined, w=w, gap=gap)


def _line_search(
    respond: Callable[[Floats], BestWeights],
    response: BestWeights,
    combined: Floats,
    toward: Floats,
    fixed_slope: float,
) -> tuple[float, BestWeights]:
    """Return a step in [0, 1] with at most half the slope of F, or at a kink, and the weights there.

    The losses go from ``combined``, with the weights ``response``, to ``toward`` at step 1, all of shape
    (n,). Slopes are compared, because values of F cancel. ``fixed_slope`` is the constant part of the slope,
    from units with fixed weights.
    """
    change = toward - combined
    first_slope = float(response.w @ change) + fixed_slope
    if abs(first_slope) < GAP_ROUNDING:
        return 1.0, respond(toward)
    if not first_slope < 0:  # no descent
        return 0.0, response
    low = 0.0
    high = 1.0
    step = 1.0
    slope_at_low = first_slope
    for trial in range(40):
        losses = toward
        if step < 1.0:
            losses = combined + step * change
        trial_response = respond(losses)
        slope = float(trial_response.w @ change) + fixed_slope
        if abs(slope) <= 0.5 * abs(first_slope) or (step == 1.0 and slope < 0):
            return step, trial_response
        if slope > 0:
            high = step
            slope_at_high = slope
        else:
            low = step
            slope_at_low = slope
            response = trial_response
        # The minimum may be a kink, at which no slope is small.
        if low > 0 and high - low <= KINK * high:
            break
        fraction = 0.5  # bisection, after two steps of regula falsi
        if trial < 2:
            fraction = slope_at_low / (slope_at_low - slope_at_high)
        step = low + (high - low) * float(np.clip(fraction, 0.1, 0.9))  # away from the ends
    return low, response


def simplex_qp(g: Floats, hessian: Floats, lam: Floats, tol: float) -> Floats:
    """Return the solution x of min_{x ∈ Δ} ⟨g, x − λ⟩ + ½ (x − λ)'H(x − λ), to a gap of ``tol``.

    g, λ and x have shape (T,). H, shape (T, T), is positive semi-definite. The unknown is the step from λ, so
    steps much smaller than λ keep their digits. Near the solution the
    support hardly changes, and block pivoting (Júdice and Pires 1994) needs few solves.
    """
    proximal = _proximal(hessian, g)
    x = lam
    support = lam > 0
    fewest_wrong = g.size + 1
    patience = BLOCK_PIVOTS
    for _ in range(MOST_PIVOTS):
        inside = np.flatnonzero(support)
        outside = np.flatnonzero(~support)
        try:
            d = _stationary(g, proximal, lam, inside, outside)
        except np.linalg.LinAlgError:
            break
        x = lam + d
        gradient = g + hessian @ d
        level = float(x[inside] @ gradient[inside])  # of the gradient inside
        is_wrong = np.where(support, x < 0, gradient < level - tol)
        n_wrong = is_wrong.sum()
        if not n_wrong:
            break
        if n_wrong < fewest_wrong:
            fewest_wrong = n_wrong
            patience = BLOCK_PIVOTS
        else:
            patience -= 1
        if patience <= 0:
            return _by_descent(g, hessian, proximal, lam, tol)
        support = support ^ is_wrong
    x = np.maximum(x, 0.0)
    return x / x.sum()


def _by_descent(
    g: Floats, hessian: Floats, proximal: Floats, lam: Floats, tol: float
) -> Floats:
    """Solve the program of `simplex_qp` by steps within the simplex, each of which goes down.

    A step ends at the minimum over the support, or where a candidate loses its weight and leaves. At a
    minimum the candidate with the least gradient enters: a primal active-set method.
    """
    support = lam > 0
    d = np.zeros(g.size)
    for _ in range(MOST_PIVOTS):
        try:
            target = _stationary(
                g, proximal, lam, np.flatnonzero(support), np.flatnonzero(~support)
            )
        except np.linalg.LinAlgError:
            break
        x = lam + d
        leaving = np.flatnonzero(support & (lam + target < 0))
        if leaving.size:
            lengths = x[leaving] / (d - target)[leaving]  # of the step at which the weight is 0
            first = leaving[lengths.argmin()]
            d = d + lengths.min() * (target - d)
            support[first] = False
            d[first] = -lam[first]
            continue
        d = target
        gradient = g + hessian @ d
        level = float((lam + d)[support] @ gradient[support])
        entering = np.where(support, np.inf, gradient).argmin()
        if support[entering] or gradient[entering] >= level - tol:
            break
        support[entering] = True
    x = np.maximum(lam + d, 0.0)
    return x / x.sum()


def _proximal(hessian: Floats, g: Floats) -> Floats:
    """Return H with a proximal term, shape (T, T), because H may be singular.

    A constant added to all entries of H has no effect on the simplex, and improves the condition of H.
    """
    scale = max(float(hessian.diagonal().max()), 1e-3 * float(np.ptp(g)))
    proximal = hessian + scale
    proximal[np.diag_indices(g.size)] += 1e-12 * scale
    return proximal


def _stationary(
    g: Floats, proximal: Floats, lam: Floats, inside: Ints, outside: Ints
) -> Floats:
    """Return the step d from λ to the stationary point with support ``inside``, shape (T,).

    ``inside`` and ``outside`` are numbers of candidates; candidates ``outside`` go to 0. At the stationary
    point the gradients inside equal the multiplier y of the condition Σ d = 0. So d solves H d = y − gradient
    inside. Raise LinAlgError if H is singular there.
    """
    d = -lam
    H_inside = proximal[np.ix_(inside, inside)]  # rows × columns of these candidates
    gradient = g[inside] + proximal[np.ix_(inside, outside)] @ d[outside]
    factor = cho_factor(H_inside, overwrite_a=True, check_finite=False)
    right_sides = np.column_stack([gradient, np.ones(inside.size)])
    from_gradient, from_ones = cho_solve(factor, right_sides, check_finite=False).T
    y = (from_gradient.sum() - d[outside].sum()) / from_ones.sum()
    d[inside] = y * from_ones - from_gradient
    return d
