"""Newton's method for the mixture LP with a strictly concave term in the weights.

    min_{λ ∈ Δ_T} F(λ),   F(λ) = max { ⟨w, Σ_t λ_t ℓ^t⟩ − R(w) : w ∈ Δ, w ≤ p/α }

R is KL(w ‖ p)/β (`Entropic`) or (ε/2) Σ (w_i − p_i)²/p_i (`Quadratic`). F is convex with gradient Lw, and
where the weights are strictly between their bounds they move with the loss, which gives the (generalised)
Hessian: a covariance of the losses. The maximiser w is feasible for the dual, so λ·Lw − min_t (Lw)_t is a
true duality gap.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np
from scipy.linalg import cho_factor, cho_solve
from scipy.special import xlog1py

from tailboost.core.array_types import Floats, Ints, Mask
from tailboost.solvers.bits import CACHED, SINGLE, LossMatrix
from tailboost.solvers.tails import tail, tail_boundary

#: Units that estimate the Hessian while the gap is large, if they are more than a sixteenth of those free.
ROUGH = 4096


#: Slopes of F below this have no sign: the Newton step is taken as it is.
ROUNDING = 1e-13


#: Share of the mass below which an excess that no longer falls is rounding.
SETTLED = 1e-13


#: Members that an active set method may let in or out for one step of Newton's: each is a factorisation.
STEPS = 40


#: Width of a bracket of the step, relative to it, that is narrow enough.
KINK = 0.2


class BestWeights(NamedTuple):
    """Best weights w for combined losses, R(w), and the derivative d of w_i in its loss (0 at a bound).

    Losses outside the interval ``free`` put a weight at a bound.
    """

    w: Floats
    penalty: float
    d: Floats
    free: tuple[float, float]


class Newton(NamedTuple):
    """Mixture and its losses, weights, gap, number of Newton steps, and the interval with free weights."""

    lam: Floats
    combined: Floats
    w: Floats
    gap: float
    n_iter: int
    free: tuple[float, float]


def divergence(w: Floats, p: Floats) -> float:
    """KL(w ‖ p) for p > 0, exact to the last digits also where w is nearly p."""
    excess = w / p - 1.0
    return float(p @ (xlog1py(1.0 + excess, excess) - excess))


class Entropic:
    """Best weights for R = KL(w ‖ p)/β: w_i = min(p_i/α, κ p_i e^{β ℓ_i}).

    It stores where the capped losses began in the last call and starts the next search there.
    """

    def __init__(self, p: Floats, alpha: float, beta: float) -> None:
        self.p, self.alpha, self.beta = p, alpha, beta
        self.cap = p / alpha
        self.guess = np.inf

    def __call__(self, combined: Floats) -> BestWeights:
        """Maximise ⟨w, combined⟩ − R(w)."""
        p, beta, cap = self.p, self.beta, self.cap
        most = float(np.log(1.0 / self.alpha))
        top = float(combined.max())
        reach = beta * (top - float(combined.min()))
        reached = 1.0
        if reach > 600:
            # From the boundary η of the tail, neither end of the exponential takes all others to zero.
            worst, top = tail(combined, self.alpha, p)
            reached = max(float(worst[combined <= top].sum()), 1e-300)
        # Below, e^x is 0 to the last digit; above, a unit is capped.
        exponent = np.clip(beta * (combined - top), -800.0, 600.0)
        w = p * np.exp(exponent)
        # Units up to η take at least what they have in the tail, which gives a κ to the left of the solution.
        start = reached / float(w.sum() if reach <= 600 else w[combined <= top].sum())
        capped, kappa = self._capped(exponent, w, start, (self.guess - top) * beta)
        w = kappa * np.where(capped, 0.0, w)
        d = beta * w
        w = np.where(capped, cap, np.minimum(w, cap))
        w /= w.sum()
        if reach > 1e-2 and kappa > 0:
            # log(w/p) is log κ + β (ℓ − top) where free and log 1/α where capped.
            free = float(d.sum()) / beta
            penalty = (float(d @ exponent) / beta + free * np.log(kappa) + (1 - free) * most) / beta
        else:
            penalty = divergence(w, p) / beta
        self.guess = top + (most - float(np.log(kappa))) / beta if kappa > 0 else top
        return BestWeights(w, float(penalty), d, (-np.inf, self.guess))

    def _capped(self, exponent: Floats, w: Floats, kappa: float, guess: float) -> tuple[Mask, float]:
        """Find the capped units and κ, from one to its left or from a guess where their exponents begin.

        Σ min(c, κ w) = 1 is concave in κ: Newton from the left only ever adds to the capped units, so it
        ends. A Newton step from anywhere leads to the left, for instance from where the last losses left it.
        """
        most = float(np.log(1.0 / self.alpha))
        kappa = max(kappa, self._kappa(exponent > guess, w) * (1 - 1e-12))
        capped, n_capped = np.zeros(w.size, dtype=bool), -1
        while kappa > 0:
            above = exponent >= most - np.log(kappa)
            n_above = int(np.count_nonzero(above))
            if n_above <= n_capped:
                break
            capped, n_capped, kappa = above, n_above, self._kappa(above, w)
        return capped, kappa

    def _kappa(self, capped: Mask, w: Floats) -> float:
        """Find what the other weights are to be multiplied by if these units are capped."""
        rest = float(w @ ~capped)
        return max(1.0 - float(self.cap @ capped), 0.0) / rest if rest > 0 else 0.0


class Quadratic:
    """Best weights for R = (ε/2) Σ (w_i − p_i)²/p_i: w_i = p_i clip(1 + (ℓ_i − θ)/ε, 0, 1/α) with Σ w = mass.

    It stores θ/ε − 1 of the last call and starts the next search there.
    """

    def __init__(self, p: Floats, alpha: float, epsilon: float, mass: float = 1.0) -> None:
        self.p, self.alpha, self.epsilon, self.mass = p, alpha, epsilon, mass
        self.even = bool(p[0] == p.min() == p.max())
        self.top = 1.0 / alpha
        self.guess: float | None = None

    def __call__(self, combined: Floats) -> BestWeights:
        """Maximise ⟨w, combined⟩ − R(w)."""
        p, epsilon, scaled = self.p, self.epsilon, combined / self.epsilon
        self.guess = bottom = self._bottom(combined, scaled)
        w, d, penalty = np.empty_like(scaled), np.empty_like(scaled), 0.0
        for block, q in self._densities(scaled, bottom):
            np.multiply(p[block], q, out=w[block])
            np.multiply(p[block], (q > 0) & (q < self.top), out=d[block])
            q -= 1.0
            q *= q
            penalty += float(p[block] @ q)
        d /= epsilon
        total = float(w.sum())
        if total == 0:
            # ε is below the rounding of the losses: only the largest are left.
            w = np.where(scaled == scaled.max(), p, 0.0)
            total = float(w.sum())
        w *= self.mass / total
        return BestWeights(w, 0.5 * epsilon * penalty, d, (epsilon * bottom, epsilon * (bottom + self.top)))

    def _bottom(self, combined: Floats, scaled: Floats) -> float:
        """Find θ/ε − 1 by Newton on a monotone, piecewise linear function."""
        low, high = float(scaled.min()) - self.top, float(scaled.max())
        guess = self.guess
        if guess is None:
            guess = tail_boundary(combined, self.alpha * self.mass, self.p) / self.epsilon - 1.0
        bottom, before = min(max(guess, low), high), np.inf
        for _ in range(100):
            total, slope = self._given(scaled, bottom)
            excess = total - self.mass
            # What is left of unequal weights is the rounding of their sum, which would go to and fro.
            if abs(excess) >= before and abs(excess) < SETTLED * self.mass:
                break
            before = abs(excess)
            low, high = (bottom, high) if excess > 0 else (low, bottom)
            new = bottom + excess / slope if slope > 0 else 0.5 * (low + high)
            if not low <= new <= high:
                new = 0.5 * (low + high)
            if new == bottom or abs(excess) < 1e-15:
                break
            bottom = new
        return bottom

    def _given(self, scaled: Floats, bottom: float) -> tuple[float, float]:
        """Mass given at θ = ε (1 + ``bottom``), and the mass of the units it varies with."""
        p, total, slope = self.p, 0.0, 0.0
        for block, q in self._densities(scaled, bottom):
            if self.even:
                total += float(q.sum())
                slope += np.count_nonzero(q != 0) - np.count_nonzero(q == self.top)
            else:
                total += float(p[block] @ q)
                slope += float(p[block] @ ((q > 0) & (q < self.top)))
        return (p[0] * total, p[0] * slope) if self.even else (total, slope)

    def _densities(self, scaled: Floats, bottom: float) -> Iterator[tuple[slice, Floats]]:
        """Yield w/p in blocks that stay in the cache; the next one overwrites the array."""
        part = np.empty(min(CACHED, scaled.size))
        for start in range(0, scaled.size, CACHED):
            block = slice(start, start + CACHED)
            q = part[: scaled[block].size]
            np.subtract(scaled[block], bottom, out=q)
            yield block, np.clip(q, 0.0, self.top, out=q)


def newton(
    losses: LossMatrix,
    respond: Callable[[Floats], BestWeights],
    start: Floats,
    tol: float,
    *,
    combined: Floats | None = None,
    fixed: Floats | float = 0.0,
    share: float = 0.0,
    max_iter: int = 60,
) -> Newton:
    """Minimise F over the simplex from ``start`` to a duality gap of ``tol``; ends early where it cannot.

    ``combined`` are the losses of ``start``, ``fixed`` expected losses (T,) of units whose weights are
    settled; a gap of ``share`` of R(w) will do.
    """
    lam = start
    if combined is None:
        combined = losses.combine(start)
    response = respond(combined)
    best: Newton | None = None
    exact: Floats | None = None
    before = np.inf
    for iteration in range(max_iter + 1):
        g = losses.expectations(response.w) + fixed
        gap = float(lam @ g - g.min())
        if best is None or gap < best.gap:
            best = Newton(lam, combined, response.w, gap, iteration, response.free)
        stalled = gap > 0.5 * before and gap < ROUNDING**0.5
        if gap <= max(tol, share * response.penalty) or stalled or iteration == max_iter:
            break
        rough = gap > 1e-4
        # An exact Hessian is reused while steps succeed and nearly the same units are free.
        if exact is None or gap > 0.2 * before or np.abs(response.d - exact).sum() > 0.01 * exact.sum():
            d = response.d
            free = int(np.count_nonzero(d != 0))
            hessian = losses.covariance(d, max(ROUGH, free // 16) if rough else 0)
            precise = free <= SINGLE
            exact = None if rough else d
        before = gap
        ridge = 1e-12 if precise else 1e-6
        target = simplex_qp(g, hessian, lam, min(1e-3 * gap, 1e-4 * gap**2 + 1e-15), ridge)
        toward = losses.combine(target)
        drift = float(np.sum(fixed * (target - lam)))
        step, response = _line_search(respond, response, combined, toward, drift)
        if step == 0.0:
            break
        lam = target if step == 1.0 else lam + step * (target - lam)
        combined = toward if step == 1.0 else combined + step * (toward - combined)
    assert best is not None
    return best


def _line_search(
    respond: Callable[[Floats], BestWeights],
    response: BestWeights,
    combined: Floats,
    toward: Floats,
    drift: float,
) -> tuple[float, BestWeights]:
    """Step in [0, 1] where the slope of F has lost half its size: slopes, unlike values, do not cancel.

    ``drift`` is the slope's constant part, from units whose weights are settled.
    """
    change = toward - combined
    initial = float(response.w @ change) + drift
    if abs(initial) < ROUNDING:
        return 1.0, respond(toward)
    low, high, step = 0.0, 1.0, 1.0
    slope_low = initial
    for trials in range(40 if initial < 0 else 0):
        trial = respond(toward if step == 1.0 else combined + step * change)
        slope = float(trial.w @ change) + drift
        if abs(slope) <= 0.5 * abs(initial) or (step == 1.0 and slope < 0):
            return step, trial
        if slope > 0:
            high, slope_high = step, slope
        else:
            low, slope_low, response = step, slope, trial
        # The minimum of pieces may be a kink, where no slope is small.
        if low > 0 and high - low <= KINK * high:
            break
        # Regula falsi at first, kept away from the ends of the bracket; then bisection.
        share = slope_low / (slope_low - slope_high) if trials < 2 else 0.5
        step = low + (high - low) * float(np.clip(share, 0.1, 0.9))
    return low, response


def simplex_qp(g: Floats, hessian: Floats, lam: Floats, tol: float, ridge: float = 1e-12) -> Floats:
    """Solve min_{x ∈ Δ} ⟨g, x − λ⟩ + ½ (x − λ)'H(x − λ), H positive semi-definite, to a gap of ``tol``.

    Everything is computed as a step from λ, so that steps many orders of magnitude smaller than λ keep their
    digits. Near the solution the support hardly changes: pivoting whole blocks of it finds the new one in a
    few solves. Where that cycles, an active set method goes on from λ, one member at a time.
    """
    # A proximal term for singular H; adding a constant to H does not matter on the simplex, and conditions
    # it.
    scale = max(float(hessian.diagonal().max()), 1e-3 * float(np.ptp(g)))
    proximal = hessian + scale
    proximal[np.diag_indices(g.size)] += ridge * scale
    try:
        return _block_pivoting(g, hessian, proximal, lam, tol)
    except np.linalg.LinAlgError:
        return _active_set(g, hessian, proximal, lam, tol)


def _stationary(g: Floats, proximal: Floats, lam: Floats, inside: Ints, outside: Ints) -> Floats:
    """Step d from λ to the stationary point with support ``inside``."""
    d = -lam
    right = g[inside] + proximal[np.ix_(inside, outside)] @ d[outside]
    factor = cho_factor(proximal[np.ix_(inside, inside)], overwrite_a=True, check_finite=False)
    solved = cho_solve(factor, np.column_stack([right, np.ones(inside.size)]), check_finite=False)
    y = (solved[:, 0].sum() - d[outside].sum()) / solved[:, 1].sum()
    d[inside] = y * solved[:, 1] - solved[:, 0]
    return d


def _block_pivoting(g: Floats, hessian: Floats, proximal: Floats, lam: Floats, tol: float) -> Floats:
    support = lam > 0
    fewest, patience = g.size + 1, 4
    while patience:
        inside, outside = np.flatnonzero(support), np.flatnonzero(~support)
        d = _stationary(g, proximal, lam, inside, outside)
        x = lam + d
        gradient = g + hessian @ d
        level = float(x[inside] @ gradient[inside])
        leaving = support & (x < 0)
        entering = ~support & (gradient < level - tol)
        wrong = int(leaving.sum() + entering.sum())
        if not wrong:
            x = np.maximum(x, 0.0)
            return np.asarray(x / x.sum())
        if wrong < fewest:
            fewest, patience = wrong, 4
        else:
            patience -= 1
        support = (support & ~leaving) | entering
    raise np.linalg.LinAlgError("block pivoting cycles")


def _active_set(g: Floats, hessian: Floats, proximal: Floats, lam: Floats, tol: float) -> Floats:
    x, support = lam.copy(), lam > 0
    for _ in range(STEPS):
        inside, outside = np.flatnonzero(support), np.flatnonzero(~support)
        try:
            d = _stationary(g, proximal, lam, inside, outside)
        except np.linalg.LinAlgError:
            break
        candidate = lam + d
        if (candidate[inside] < 0).any():
            # Towards it as far as the simplex goes.
            shrinking = inside[candidate[inside] < 0]
            ratio = x[shrinking] / (x[shrinking] - candidate[shrinking])
            x = x + ratio.min() * (candidate - x)
            blocking = shrinking[ratio <= ratio.min()]
            x[blocking], support[blocking] = 0.0, False
            continue
        x = candidate
        gradient = g + hessian @ d
        if float(x @ gradient - gradient.min()) <= tol or support[gradient.argmin()]:
            break
        support[gradient.argmin()] = True
    x = np.maximum(x, 0.0)
    return np.asarray(x / x.sum())
