"""Interior point method on all units, for the mixture program and its entropic version.

    max_{w, ρ}  ρ − (1/β) Σ w_i log(w_i/p_i)   s.t.  Lw − ρ = s ≥ 0,  Σ w = 1,  0 ≤ w ≤ c      (β = ∞: the LP)

This is the predictor-corrector method of Mehrotra (1992). The multipliers are λ (of s), η (of Σ w = 1), x and
y (of the bounds). Eliminating all unknowns except λ leaves T × T normal equations for any number of units.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy.linalg.lapack import dpotrf, dpotrs
from scipy.optimize import brentq

from tailboost.core.array_types import Floats, Mask
from tailboost.solvers.bits import PackedLosses

MAX_ITER = 150
#: Initial complementarity gap if the starting mixture is nearly optimal.
NEAR = 1e-3
#: Ridge on the unit diagonal of the normal equations.
RIDGE = 1e-14


class InteriorPoint(NamedTuple):
    """Mixture λ (T,), weights w (n,), and masks of units and candidates off their bounds in an optimum."""

    lam: Floats
    w: Floats
    tied: Mask
    candidates: Mask
    n_iter: int


class _Iterate(NamedTuple):
    """Current w, c − w, s, ρ and their multipliers x, y, λ, η; with λL and Lw."""

    w: Floats
    room: Floats
    s: Floats
    rho: float
    x: Floats
    y: Floats
    lam: Floats
    eta: float
    combined: Floats
    g: Floats

    @property
    def gap(self) -> float:
        """Sum of the complementarity products."""
        return float(np.array([self.w @ self.x, self.room @ self.y, self.lam @ self.s]).sum())

    @property
    def infeasible(self) -> Floats:
        """Residual of s = Lw − ρ."""
        return self.g - self.rho - self.s


class _Direction(NamedTuple):
    w: Floats
    x: Floats
    y: Floats
    lam: Floats
    s: Floats
    combined: Floats
    eta: float
    rho: float

    def lengths(self, at: _Iterate, fraction: float, together: bool) -> tuple[float, float]:
        """Return the primal and dual step: ``fraction`` of the way to the nearest bound, at most 1."""
        to_bounds = (_step(at.w, self.w), _step(at.room, -self.w), _step(at.s, self.s))
        primal = fraction * min(*to_bounds, 1 / fraction)
        dual = fraction * min(_step(at.x, self.x), _step(at.y, self.y), _step(at.lam, self.lam), 1 / fraction)
        return (min(primal, dual),) * 2 if together else (primal, dual)


@dataclass(frozen=True)
class _NormalEquations:
    """Newton's equations at a point, reduced to λ and factored."""

    losses: PackedLosses
    at: _Iterate
    mass: float
    stationarity: Floats
    inverse: Floats
    total: float
    mean: Floats
    scale: Floats
    factor: Floats
    ones: Floats

    @classmethod
    def of(
        cls, losses: PackedLosses, at: _Iterate, mass: float, p: Floats | None, beta: float
    ) -> _NormalEquations | None:
        """Return the equations, or None where rounding has made them singular."""
        marginal = 0.0 if p is None else (np.log(at.w / p) + 1.0) / beta
        stationarity = at.combined - marginal - at.eta + at.x - at.y
        curvature = at.x / at.w + at.y / at.room
        if p is not None:
            curvature += 1.0 / (beta * at.w)
        inverse = 1.0 / curvature
        total = float(inverse.sum())
        mean = losses.expectations(inverse) / total
        matrix = losses.covariance(inverse)
        diagonal = np.diag_indices(len(at.lam))
        matrix[diagonal] += at.s / at.lam
        # Scaled to a unit diagonal, so that the ridge is small for each candidate.
        scale = 1.0 / np.sqrt(matrix.diagonal())
        matrix *= scale * scale[:, None]
        matrix[diagonal] += RIDGE
        factor, failed = dpotrf(matrix)
        if failed:
            return None
        ones = scale * dpotrs(factor, scale)[0]
        return cls(losses, at, mass, stationarity, inverse, total, mean, scale, factor, ones)

    def direction(self, cx: Floats, cy: Floats, cl: Floats) -> _Direction:
        """Return the direction that changes wx, (c − w)y and λs by cx, cy and cl."""
        w, room, s, x, y, lam = self.at.w, self.at.room, self.at.s, self.at.x, self.at.y, self.at.lam
        h = self.stationarity + cx / w - cy / room
        dh = self.inverse * h
        missing = self.mass - float(w.sum()) - float(dh.sum())
        rhs = cl / lam - self.at.infeasible - self.losses.expectations(dh) - self.mean * missing
        particular = self.scale * dpotrs(self.factor, self.scale * rhs)[0]
        d_rho = (1.0 - float(lam.sum()) - float(particular.sum())) / float(self.ones.sum())
        d_lam = particular + d_rho * self.ones
        d_eta = float(self.mean @ d_lam) - missing / self.total
        d_combined = self.losses.combine(d_lam)
        d_w = self.inverse * (d_combined - d_eta + h)
        d_x, d_y, d_s = (cx - x * d_w) / w, (cy + y * d_w) / room, (cl - s * d_lam) / lam
        return _Direction(d_w, d_x, d_y, d_lam, d_s, d_combined, d_eta, d_rho)


def interior_point(
    losses: PackedLosses,
    cap: Floats,
    tol: float,
    *,
    start: Floats | None = None,
    p: Floats | None = None,
    beta: float = np.inf,
    fixed: Floats | float = 0.0,
    mass: float = 1.0,
) -> InteriorPoint:
    """Solve the program above to a complementarity gap of ``tol``, or as far as rounding allows.

    Parameters
    ----------
    losses : (T, n) losses in [0, 1]
    cap : (n,) upper bounds c with Σ c > mass
    start : (T,) initial mixture
    p, beta : base measure and inverse strength of the entropic term
    fixed, mass : expected losses (T,) of units whose weights are fixed, and the remaining weight
    """
    # No weight exceeds Σ w, so larger caps have no effect.
    cap = np.minimum(cap, 2.0 * mass)
    at = _centre(losses, cap, start, fixed, mass)
    least, best, n_iter = np.inf, at, 0
    for iteration in range(1, MAX_ITER + 1):
        gap = at.gap
        # With a given start, the gap may be small before the iterate is feasible.
        error = gap + float(np.abs(at.infeasible).max())
        if error < least:
            least, best, n_iter = error, at, iteration
        if error <= 10 * tol or gap <= tol or error > 1e3 * least:
            break
        equations = _NormalEquations.of(losses, at, mass, p, beta)
        if equations is None:
            break
        moved = _predict_and_correct(equations, gap, together=p is not None)
        if moved is None:
            break
        at = moved._replace(g=losses.expectations(moved.w) + fixed)
    if least > 1e3 * tol and start is not None:
        # The start was too close to the boundary.
        return interior_point(losses, cap, tol, p=p, beta=beta, fixed=fixed, mass=mass)
    # The central path ends at a strictly complementary solution: in each pair, one factor is much smaller.
    # If all units are tied, x and y all end at 0, and the gap gives the scale.
    reach = max(float((best.x + best.y).mean()), float(np.sqrt(max(best.gap, 0.0))))
    tied = (best.w / cap > best.x / reach) & (best.room / cap > best.y / reach)
    return InteriorPoint(best.lam, best.w, tied, best.lam > best.s, n_iter)


def _centre(
    losses: PackedLosses, cap: Floats, start: Floats | None, fixed: Floats | float, mass: float
) -> _Iterate:
    """Return the centred iterate of the first mixture: w_i x_i = (c_i − w_i) y_i = λ_t s_t = μ."""
    n_candidates = losses.shape[0]
    lam = np.full(n_candidates, 1.0 / n_candidates) if start is None else 0.99 * start + 0.01 / n_candidates
    combined = losses.combine(lam)
    mu = (1.0 if start is None else NEAR) / (2 * cap.size + n_candidates)

    def fractions(eta: Floats | float) -> Floats:
        # μ/w − μ/(c − w) = η − l gives w = c / (1 + t + √(1 + t²)) with t = (η − l) c/(2μ), here written
        # without cancellation.
        t = (eta - combined) * cap / (2 * mu)
        root = np.sqrt(1 + t**2) + np.abs(t)
        return np.where(t > 0, 1 / (1 + root), root / (1 + root))

    low = combined.min() - mu * cap.size / (cap.sum() - mass)
    high = combined.max() + 2 * mu * cap.size / mass
    eta = float(brentq(lambda eta: cap @ fractions(eta) - mass, low, high, rtol=1e-6))
    w = cap * fractions(eta)
    room = cap * fractions(2 * combined - eta)
    s = mu / lam
    g = losses.expectations(w) + fixed
    return _Iterate(w, room, s, float((g - s).min()), mu / w, mu / room, lam, eta, combined, g)


def _predict_and_correct(equations: _NormalEquations, gap: float, together: bool) -> _Iterate | None:
    """Return the iterate after Mehrotra's step, with Lw not yet updated; None if the step has no length."""
    at = equations.at
    w, room, s, x, y, lam = at.w, at.room, at.s, at.x, at.y, at.lam
    mu = gap / (2 * w.size + lam.size)
    d = equations.direction(-w * x, -room * y, -lam * s)
    primal, dual = d.lengths(at, 1.0, together)
    after = float(
        (w + primal * d.w) @ (x + dual * d.x)
        + (room - primal * d.w) @ (y + dual * d.y)
        + (lam + dual * d.lam) @ (s + primal * d.s)
    )
    target = mu * min((after / gap) ** 3, 1.0)
    d = equations.direction(
        target - w * x - d.w * d.x, target - room * y + d.w * d.y, target - lam * s - d.lam * d.s
    )
    primal, dual = d.lengths(at, 0.995, together)
    if not np.isfinite(primal + dual) or max(primal, dual) < 1e-8:
        return None
    return _Iterate(
        w=w + primal * d.w,
        room=room - primal * d.w,
        s=s + primal * d.s,
        rho=at.rho + primal * d.rho,
        x=x + dual * d.x,
        y=y + dual * d.y,
        lam=lam + dual * d.lam,
        eta=at.eta + dual * d.eta,
        combined=at.combined + dual * d.combined,
        g=at.g,
    )


def _step(value: Floats, change: Floats) -> float:
    """Return the largest step in [0, 1] that keeps ``value`` non-negative."""
    return 1.0 / max(1.0, -float((change / value).min()))
