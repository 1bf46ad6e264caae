"""Interior point on all units: the robust method for the mixture LP and its entropic version.

    max_{w, ρ}  ρ − (1/β) Σ w_i log(w_i/p_i)   s.t.  Lw − ρ = s ≥ 0,  Σ w = 1,  0 ≤ w ≤ c      (β = ∞: the LP)

Mehrotra's predictor-corrector (1992). The multipliers are λ (of s), η (of Σ w = 1), x and y (of the bounds);
eliminating everything but λ leaves T × T normal equations for any number of units.
"""
# ruff: noqa: B023 (closures over one iteration's quantities are called in that iteration only)

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.linalg.lapack import dpotrf, dpotrs
from scipy.optimize import brentq

from tailboost._typing import Floats, Mask
from tailboost.solvers.bits import LossMatrix

MAX_ITER = 150
#: Complementarity gap to begin with from a mixture that is nearly optimal.
NEAR = 1e-3
#: Added to the unit diagonal of the normal equations.
RIDGE = 1e-14


class InteriorPoint(NamedTuple):
    """Mixture λ (T,), weights w (n,), and which units and members are off their bounds in some optimum."""

    lam: Floats
    w: Floats
    tied: Mask
    members: Mask
    n_iter: int


def interior_point(
    losses: LossMatrix,
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
    start : (T,) a first mixture
    p, beta : base measure and strength of the entropic term
    fixed, mass : expected losses (T,) of units whose weights are fixed, and the weight left for the others
    """
    n_members = losses.shape[0]
    # Σ w bounds every weight, so a cap above it only leaves room.
    cap = np.minimum(cap, 2.0 * mass)
    lam = np.full(n_members, 1.0 / n_members) if start is None else 0.99 * start + 0.01 / n_members
    combined = losses.combine(lam)
    entropic = p is not None
    # Start at the centre for this λ, where w_i x_i = (c_i − w_i) y_i = λ_t s_t = μ also for units of minute
    # mass.
    mu = (1.0 if start is None else NEAR) / (2 * cap.size + n_members)

    def shares(eta: Floats | float) -> Floats:
        # μ/w − μ/(c − w) = η − l: w = c / (1 + t + √(1 + t²)), t = (η − l) c/(2μ), written without
        # cancellation.
        t = (eta - combined) * cap / (2 * mu)
        root = np.sqrt(1 + t**2) + np.abs(t)
        return np.where(t > 0, 1 / (1 + root), root / (1 + root))

    low = combined.min() - mu * cap.size / (cap.sum() - mass)
    high = combined.max() + 2 * mu * cap.size / mass
    eta = float(brentq(lambda eta: cap @ shares(eta) - mass, low, high, rtol=1e-6))
    w = cap * shares(eta)
    room = cap * shares(2 * combined - eta)
    x, y, s = mu / w, mu / room, mu / lam
    g = losses.expectations(w) + fixed
    rho = float((g - s).min())

    def marginal(w: Floats) -> Floats | float:
        return 0.0 if p is None else (np.log(w / p) + 1.0) / beta

    best = (np.inf, lam, w, room, s, x, y, 0)

    for iteration in range(1, MAX_ITER + 1):
        products = np.array([w @ x, room @ y, lam @ s])
        gap = float(products.sum())
        infeasible = g - rho - s
        # From a near mixture the gap may be small before the conditions hold.
        error = gap + float(np.abs(infeasible).max())
        if error < best[0]:
            best = (error, lam, w, room, s, x, y, iteration)
        if error <= 10 * tol or gap <= tol or error > 1e3 * best[0]:
            break
        mu = gap / (2 * w.size + n_members)
        stationarity = combined - marginal(w) - eta + x - y
        curvature = x / w + y / room
        if entropic:
            curvature += 1.0 / (beta * w)
        inverse = 1.0 / curvature
        total = float(inverse.sum())
        mean = losses.expectations(inverse) / total
        matrix = losses.covariance(inverse)
        matrix[np.diag_indices(n_members)] += s / lam
        # Brought to a unit diagonal, so that the ridge is small beside members in use and others alike.
        scale = 1.0 / np.sqrt(matrix.diagonal())
        matrix *= scale * scale[:, None]
        matrix[np.diag_indices(n_members)] += RIDGE
        factor, failed = dpotrf(matrix)
        if failed:
            break
        ones = scale * dpotrs(factor, scale)[0]

        def direction(cx: Floats, cy: Floats, cl: Floats) -> tuple[Floats, ...]:
            # Right-hand sides of the complementarity rows: wx, (c − w)y and λs should move by cx, cy, cl.
            h = stationarity + cx / w - cy / room
            dh = inverse * h
            missing = mass - float(w.sum()) - float(dh.sum())
            rhs = cl / lam - infeasible - losses.expectations(dh) - mean * missing
            particular = scale * dpotrs(factor, scale * rhs)[0]
            d_rho = (1.0 - float(lam.sum()) - float(particular.sum())) / float(ones.sum())
            d_lam = particular + d_rho * ones
            d_eta = float(mean @ d_lam) - missing / total
            d_combined = losses.combine(d_lam)
            d_w = inverse * (d_combined - d_eta + h)
            d_x, d_y, d_s = (cx - x * d_w) / w, (cy + y * d_w) / room, (cl - s * d_lam) / lam
            return d_w, d_x, d_y, d_lam, d_s, d_combined, np.array([d_eta, d_rho])

        # Predictor.
        d_w, d_x, d_y, d_lam, d_s, *_ = direction(-w * x, -room * y, -lam * s)
        primal = min(_step(w, d_w), _step(room, -d_w), _step(s, d_s))
        dual = min(_step(x, d_x), _step(y, d_y), _step(lam, d_lam))
        if entropic:
            primal = dual = min(primal, dual)
        after = float(
            (w + primal * d_w) @ (x + dual * d_x)
            + (room - primal * d_w) @ (y + dual * d_y)
            + (lam + dual * d_lam) @ (s + primal * d_s)
        )
        target = mu * min((after / gap) ** 3, 1.0)
        # Corrector.
        d_w, d_x, d_y, d_lam, d_s, d_combined, (d_eta, d_rho) = direction(
            target - w * x - d_w * d_x, target - room * y + d_w * d_y, target - lam * s - d_lam * d_s
        )
        primal = 0.995 * min(_step(w, d_w), _step(room, -d_w), _step(s, d_s), 1 / 0.995)
        dual = 0.995 * min(_step(x, d_x), _step(y, d_y), _step(lam, d_lam), 1 / 0.995)
        if entropic:
            primal = dual = min(primal, dual)
        if not np.isfinite(primal + dual) or max(primal, dual) < 1e-8:
            break
        w, s, rho = w + primal * d_w, s + primal * d_s, rho + primal * d_rho
        room = room - primal * d_w
        x, y, lam, eta = x + dual * d_x, y + dual * d_y, lam + dual * d_lam, eta + dual * d_eta
        combined = combined + dual * d_combined
        g = losses.expectations(w) + fixed
    error, lam, w, room, s, x, y, iteration = best
    if error > 1e3 * tol and start is not None:
        # The starting point was too near the boundary.
        return interior_point(losses, cap, tol, p=p, beta=beta, fixed=fixed, mass=mass)
    # The central path ends at a strictly complementary solution: of each pair one part is much the smaller.
    reach = float((x + y).mean())
    tied = (w / cap > x / reach) & (room / cap > y / reach)
    members = lam > s
    return InteriorPoint(lam, w, tied, members, iteration)


def _step(value: Floats, change: Floats) -> float:
    """Largest step in [0, 1] that keeps ``value`` non-negative."""
    return 1.0 / max(1.0, -float((change / value).min()))
