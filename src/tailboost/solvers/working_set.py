"""Fast method for the mixture program: Newton on a regularised problem, then an exact solve of the rest.

The problem with R = (ε/2) Σ (w_i − p_i)²/p_i is solved by Newton's method for a falling ε. Only units with a
loss in an interval of width ε/α have weights strictly between their bounds. The other units are fixed,
removed from the problem and checked afterwards.

When few units are left, HiGHS solves for them exactly. Units on the wrong side of the
boundary η are added until there are none. If many units tie, their number never gets small. The regularised
weights are then exact already at a large ε (Mangasarian and Meyer 1979), and the mixture follows from them by
complementary slackness.

Both cases give weights that are feasible for all units, hence a lower bound, and a value on all units.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tailboost.core.array_types import Floats, Ints, Mask
from tailboost.solvers.bits import PackedLosses
from tailboost.solvers.canonical import least_mixture
from tailboost.solvers.linear_program import mixture_program
from tailboost.solvers.regularized import NewtonResult, Quadratic, newton
from tailboost.solvers.tail_game import Optimum, TailGame, feasible, tail_boundary

#: Number of free units per candidate at which ε no longer falls.
FEW = 6
#: Units farther from the interval of free weights than this multiple of its width are fixed.
MARGIN = 0.5
#: Gap relative to R(w) at which ε falls.
RELATIVE_GAP = 0.2
#: Divisor of the first ε if a starting mixture is given.
WARM = 5.0
#: Smallest ε; below it, the rounding of losses dominates the weights.
RESOLUTION = 1e-11
#: Factor by which ε falls.
SHRINK = 5.0
#: Number of times that units are added again if most units tie.
TRIALS = 4


@dataclass(frozen=True)
class _Part:
    """Some units of a problem; the weights of all others are fixed at 0 or at their cap."""

    problem: TailGame
    units: Ints  # their numbers
    at_cap: Mask  # of all units: fixed at their cap
    losses: PackedLosses
    p: Floats
    # Weight left for these units, and the expected losses under the fixed weights.
    mass: float
    fixed: Floats | float

    @classmethod
    def of(cls, problem: TailGame, keep: Mask, above: Mask) -> _Part:
        """Return the part with the units in ``keep``; all units if the fixed ones take all the weight."""
        at_cap = above & ~keep
        settled = np.where(at_cap, problem.cap, 0.0)
        units, mass = np.flatnonzero(keep), 1.0 - float(settled.sum())
        if keep.all() or not 0.0 < mass < problem.cap[units].sum():
            everything = np.arange(keep.size)
            return cls(problem, everything, np.zeros_like(keep), problem.losses, problem.p, 1.0, 0.0)
        losses, fixed = problem.losses.select(units=units), problem.losses.expectations(settled)
        return cls(problem, units, at_cap, losses, problem.p[units], mass, fixed)

    @property
    def whole(self) -> bool:
        """Whether no unit is fixed."""
        return self.units.size == self.at_cap.size

    def misplaced(self, combined: Floats, low: float, high: float) -> Mask:
        """Return a mask of units that were fixed at the wrong bound, by the losses of all units."""
        wrong = np.where(self.at_cap, combined < high, combined > low)
        wrong[self.units] = False
        return wrong

    def weights(self, w: Floats) -> Floats:
        """Return the weights of all units of the problem."""
        out = np.where(self.at_cap, self.problem.cap, 0.0)
        out[self.units] = w
        return feasible(out, self.problem.cap)

    def newton(self, epsilon: float, lam: Floats, relative_gap: float, combined: Floats) -> NewtonResult:
        """Solve the regularised problem for these units, starting from the losses of all units under λ."""
        return newton(
            self.losses,
            Quadratic(self.p, self.problem.alpha, epsilon, self.mass),
            lam,
            1e-14,
            combined=combined[self.units],
            fixed=self.fixed,
            relative_gap=relative_gap,
            max_iter=15,
        )


def by_newton(problem: TailGame, start: Floats | None) -> Optimum | None:
    """Return the optimum of the mixture program, or None if the method does not apply or fails.

    ε falls until few units are free, or until all free units tie.
    """
    n_candidates, n_units = problem.losses.shape
    few = FEW * n_candidates
    if n_units <= 2 * few:
        return None
    lam = np.full(n_candidates, 1.0 / n_candidates) if start is None else start
    combined = problem.losses.combine(lam)
    # At a tiny α, a large ε would spread the weights over more than the tail.
    epsilon = max(problem.alpha, 0.01) * max(_spread(combined, problem.alpha, problem.p), 1e-3)
    near = np.ones(n_units, dtype=bool)
    high = np.inf
    if start is not None:
        epsilon /= WARM
        low, high = Quadratic(problem.p, problem.alpha, epsilon)(combined).free
        near = _near(combined, low, high, 4 * MARGIN)
    part = _Part.of(problem, near, combined >= high)
    before, margin, steps = n_units, MARGIN, 0
    for _ in range(40):
        solution = part.newton(epsilon, lam, RELATIVE_GAP, combined)
        lam, steps = solution.lam, steps + solution.n_iter
        low, high = solution.free
        combined = solution.combined if part.whole else problem.losses.combine(lam)
        wrong = part.misplaced(combined, low, high).any()
        if wrong:
            margin *= 2
        else:
            margin = MARGIN
            n_free = int(((combined > low) & (combined < high)).sum())
            if n_free <= few or epsilon < RESOLUTION:
                break
            if n_free > 0.5 * before:
                optimum = _all_tied(part, epsilon, lam, combined, steps)
                if optimum.closed:
                    return optimum
            before = n_free
            epsilon /= SHRINK
        near = _near(combined, low, high, margin)
        if wrong:
            near[part.units] = True
        part = _Part.of(problem, near, combined >= high)
    return _in_doubt(problem, lam, combined, steps)


def _near(combined: Floats, low: float, high: float, margin: float) -> Mask:
    """Return a mask of units whose weights are free or nearly free; all units if these are at least half."""
    margin *= high - low
    near: Mask = (combined > low - margin) & (combined < high + margin)
    return near if near.sum() < 0.5 * near.size else np.ones_like(near)


def _spread(combined: Floats, alpha: float, p: Floats) -> float:
    """Return the width of an interval around the boundary of the tail with a good part of the losses."""
    eta = tail_boundary(combined, alpha, p)
    sample = combined[:: combined.size // 4096 + 1]
    return max(4 * float(np.quantile(np.abs(sample - eta), 0.1)), 0.3 * float(sample.std()))


def _all_tied(part: _Part, epsilon: float, lam: Floats, combined: Floats, steps: int) -> Optimum:
    """Return the optimum if the regularised weights, computed to the last digit, are exact."""
    problem = part.problem
    for _ in range(TRIALS):
        solution = part.newton(epsilon, lam, 0.0, combined)
        lam, steps = solution.lam, steps + solution.n_iter
        low, high = solution.free
        w = part.weights(solution.w)
        combined = problem.losses.combine(lam)
        wrong = part.misplaced(combined, low, high)
        if not wrong.any():
            break
        # Some units were fixed at the wrong bound and join the part.
        near = wrong | _near(combined, low, high, MARGIN)
        near[part.units] = True
        part = _Part.of(problem, near, combined >= high)
    optimum = problem.optimum(lam, w, steps, "newton", combined)
    if wrong.any():
        return optimum
    optimum.closest = True
    mixture = least_mixture(problem, optimum, optimum.bound)
    if mixture is not None:
        problem.mix(optimum, mixture)
        optimum.canonical = True
    return optimum


def _in_doubt(problem: TailGame, lam: Floats, combined: Floats, steps: int) -> Optimum | None:
    """Solve exactly for the units nearest to the boundary; add units on the wrong side of it and repeat."""
    n_candidates, n_units = problem.losses.shape
    eta = tail_boundary(combined, problem.alpha, problem.p)
    distance = np.abs(combined - eta)
    size = min(FEW * n_candidates, n_units - 1)
    near = distance <= np.partition(distance, size)[size]
    best: Optimum | None = None
    while 2 * near.sum() < n_units:
        part = _Part.of(problem, near, combined > eta)
        if part.whole:
            break
        columns = part.losses.columns(np.arange(part.p.size))
        lam, w, n_iter = mixture_program(columns, problem.cap[part.units], part.fixed, part.mass)
        steps += n_iter
        combined = problem.losses.combine(lam)
        optimum = problem.optimum(lam, part.weights(w), steps, "newton", combined)
        eta = optimum.threshold
        if best is None or optimum.gap < best.gap:
            best = optimum
        wrong = ~near & (part.at_cap != (combined > eta))
        if optimum.closed or not wrong.any():
            break
        near = near | wrong
    return best
