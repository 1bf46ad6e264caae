"""The fast method for the mixture LP: Newton on a regularised problem, then an exact solve of what is left.

For a falling ε the problem with R = (ε/2) Σ (w_i − p_i)²/p_i is solved by Newton's method. Only units whose
loss is in an interval of width ε/α have weights strictly between their bounds; the others are settled, taken
out, and checked afterwards.

Where few units are left the interior point solves for them exactly, and units on the wrong side of the
boundary η are added until there are none. Where many units tie there never are few: but then the regularised
weights are exact already at a large ε (Mangasarian and Meyer 1979), and the mixture follows from them by
complementary slackness.

Both give weights that are feasible for all units, hence a true lower bound, and the value is that of all
units.
"""

from __future__ import annotations

import numpy as np

from tailboost.solvers.bits import Bool, DenseLosses, Float
from tailboost.solvers.canonical import least_mixture
from tailboost.solvers.cvar import tail, tail_boundary
from tailboost.solvers.interior_point import interior_point
from tailboost.solvers.problem import Optimum, Problem, feasible
from tailboost.solvers.regularized import Newton, newton, quadratic


class _Restriction:
    """The problem with the weights of units outside a part settled, at 0 or at their cap."""

    def __init__(self, problem: Problem, part: Bool, above: Bool) -> None:
        self.part, self.at_cap = part, above & ~part
        settled = np.where(self.at_cap, problem.cap, 0.0)
        self.units, self.settled = np.flatnonzero(part), settled
        whole = self.units.size == part.size
        self.p, self.cap = problem.p[self.units], problem.cap[self.units]
        self.mass = 1.0 - float(settled.sum())
        self.feasible = 0.0 < self.mass < self.cap.sum()
        self.fixed: Float | float = 0.0 if whole else problem.losses.expectations(settled)
        self.losses = problem.losses if whole else problem.losses.select(units=self.units)

    def newton(self, alpha: float, epsilon: float, lam: Float, share: float) -> Newton:
        respond = quadratic(self.p, alpha, epsilon, self.mass)
        return newton(self.losses, respond, lam, 1e-14, fixed=self.fixed, share=share, max_iter=15)

    def weights(self, w: Float, cap: Float) -> Float:
        out = self.settled.copy()
        out[self.units] = w
        return feasible(out, cap)


def by_newton(problem: Problem, start: Float | None) -> Optimum | None:
    """Solve the mixture LP by the method above; None where it does not apply or does not get there."""
    losses, p, alpha = problem.losses, problem.p, problem.alpha
    n_members, n_units = losses.shape
    few = 6 * n_members
    if n_units <= 2 * few:
        return None
    lam = np.full(n_members, 1.0 / n_members) if start is None else start
    steps, before = 0, n_units
    combined = losses.combine(lam)
    # At a tiny α the weights are spread over more than the tail while ε is large.
    epsilon = max(alpha, 0.01) * max(_spread(combined, alpha, p), 1e-3)
    everything = part = above = np.ones(n_units, dtype=bool)
    if start is not None:
        # A near solution saves the first steps, which take all units.
        epsilon /= WARM
        low, high = quadratic(p, alpha, epsilon)(combined).free
        part, above = _near(combined, low, high), combined >= high
    for _ in range(40):
        inside = _Restriction(problem, part, above)
        if not inside.feasible:
            inside = _Restriction(problem, everything, above)
        solution = inside.newton(alpha, epsilon, lam, SHARE)
        lam, steps = solution.lam, steps + solution.n_iter
        combined = losses.combine(lam)
        low, high = solution.free
        near = _near(combined, low, high)
        part = inside.part
        if (~part & np.where(inside.at_cap, combined < high, combined > low)).any():
            near |= part
        else:
            n_free = int(((combined > low) & (combined < high)).sum())
            if n_free <= few or epsilon < RESOLUTION:
                break
            if n_free > 0.5 * before:
                optimum = _all_tied(problem, inside, epsilon, lam, steps)
                if optimum.closed:
                    return optimum
            before = n_free
            epsilon /= SHRINK
        part, above = near, combined >= high
    return _in_doubt(problem, lam, combined, steps)


def _near(combined: Float, low: float, high: float) -> Bool:
    """Units whose weights are free, or nearly; all where they are many."""
    margin = 0.5 * (high - low)
    near: Bool = (combined > low - margin) & (combined < high + margin)
    return near if near.sum() < near.size / 2 else np.ones_like(near)


def _spread(combined: Float, alpha: float, p: Float) -> float:
    """Width of an interval of losses around the boundary of the tail that holds a good part of all units."""
    eta = tail_boundary(combined, alpha, p)
    sample = combined[:: combined.size // 4096 + 1]
    return max(4 * float(np.quantile(np.abs(sample - eta), 0.1)), 0.3 * float(sample.std()))


def _all_tied(problem: Problem, inside: _Restriction, epsilon: float, lam: Float, steps: int) -> Optimum:
    """Build the optimum if the regularised weights, computed to the last digit, are already exact."""
    solution = inside.newton(problem.alpha, epsilon, lam, 0.0)
    w = inside.weights(solution.w, problem.cap)
    optimum = problem.optimum(solution.lam, w, steps + solution.n_iter, "newton", value=0.0)
    optimum.value, optimum.closest = optimum.bound, True
    mixture = least_mixture(problem, optimum)
    if mixture is not None:
        optimum.lam, optimum.canonical = mixture, True
    optimum.value = problem.value(optimum.lam)
    return optimum


def _in_doubt(problem: Problem, lam: Float, combined: Float, steps: int) -> Optimum | None:
    """Solve exactly for the units nearest to the boundary; take in those on the wrong side of it, repeat."""
    n_members, n_units = problem.losses.shape
    eta = tail_boundary(combined, problem.alpha, problem.p)
    distance = np.abs(combined - eta)
    size = min(6 * n_members, n_units - 1)
    part = distance <= np.partition(distance, size)[size]
    best: Optimum | None = None
    while 2 * part.sum() < n_units:
        inside = _Restriction(problem, part, combined > eta)
        if not inside.feasible:
            break
        columns = DenseLosses(np.ascontiguousarray(problem.losses.columns(inside.units).T))
        solution = interior_point(columns, inside.cap, 1e-12, start=lam, fixed=inside.fixed, mass=inside.mass)
        steps += solution.n_iter
        lam = solution.lam / solution.lam.sum()
        combined = problem.losses.combine(lam)
        worst, eta = tail(combined, problem.alpha, problem.p)
        w = inside.weights(solution.w, problem.cap)
        optimum = problem.optimum(lam, w, steps, "newton", value=float(worst @ combined))
        optimum.tied[:] = False
        optimum.tied[inside.units] = solution.tied
        optimum.members = solution.members
        if best is None or optimum.gap < best.gap:
            best = optimum
        wrong = ~part & (inside.at_cap != (combined > eta))
        if optimum.closed or not wrong.any():
            break
        part = part | wrong
    return best


#: Gap, as a share of R(w), to which the problem is solved before ε falls.
SHARE = 5e-2
#: Factor by which ε is smaller from the start if a mixture to start from is given.
WARM = 5.0
#: ε at which weights lose their digits to the rounding of losses.
RESOLUTION = 1e-11
#: Factor by which ε falls.
SHRINK = 5.0
