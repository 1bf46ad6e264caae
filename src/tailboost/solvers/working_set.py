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

Where there are very many units, ε falls on a sample first, which only leaves some of them in doubt.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np

from tailboost._typing import Floats, Mask
from tailboost.solvers.bits import DenseLosses, LossMatrix
from tailboost.solvers.canonical import least_mixture, vertex
from tailboost.solvers.interior_point import interior_point
from tailboost.solvers.regularized import Newton, Quadratic, newton
from tailboost.solvers.tail_game import Optimum, TailGame, feasible
from tailboost.solvers.tails import tail_boundary

#: Free units per member that end the fall of ε, on all units and on a sample.
FEW, MANY = 6, 200
#: Share of the units that make a sample, one in this number.
COARSER = 8
#: Units per member above which a sample is taken.
COARSE = 1000
#: Distance from the interval of free weights, in its widths, beyond which a unit is settled at first.
MARGIN = 0.5
#: Gap, as a share of R(w), to which the problem is solved before ε falls.
SHARE = 0.2
#: Factor by which the first ε is smaller if a starting mixture is given.
WARM = 5.0
#: ε at which weights lose their digits to the rounding of losses.
RESOLUTION = 1e-11
#: Factor by which ε falls.
SHRINK = 5.0


class _Part:
    """Some units of a problem; the weights of all others are settled, at 0 or at their cap."""

    def __init__(
        self, losses: LossMatrix, p: Floats, cap: Floats, mass: float, fixed: Floats | float
    ) -> None:
        self.losses, self.p, self.cap = losses, p, cap
        # The weight left for these units, and the expected losses under the settled weights.
        self.mass, self.fixed = mass, fixed
        # Numbers of these units in the problem, and in the part that was narrowed.
        self.units = self.within = np.arange(p.size)
        self.settled = np.zeros(p.size)
        self.at_cap = np.zeros(p.size, dtype=bool)

    @classmethod
    def whole(cls, problem: TailGame) -> _Part:
        """Settle nothing."""
        return cls(problem.losses, problem.p, problem.cap, 1.0, 0.0)

    def narrow(self, keep: Mask, above: Mask) -> _Part:
        """Settle the other units; return the same part if no weight would be left to distribute."""
        if keep.all():
            return self
        at_cap = above & ~keep
        settled = np.where(at_cap, self.cap, 0.0)
        units = np.flatnonzero(keep)
        mass, cap = self.mass - float(settled.sum()), self.cap[units]
        if not 0.0 < mass < cap.sum():
            return self
        fixed = self.fixed + self.losses.expectations(settled)
        inner = _Part(self.losses.select(units=units), self.p[units], cap, mass, fixed)
        inner.units, inner.within, inner.at_cap = self.units[units], units, at_cap
        inner.settled = self.settled.copy()
        inner.settled[self.units] = settled
        return inner

    def misplaced(self, combined: Floats, low: float, high: float) -> Mask:
        """Units, of the part that was narrowed, that were settled and should not have been."""
        wrong = np.where(self.at_cap, combined < high, combined > low)
        wrong[self.within] = False
        return wrong

    def weights(self, w: Floats, cap: Floats) -> Floats:
        """Weights of all units of the problem."""
        out = self.settled.copy()
        out[self.units] = w
        return feasible(out, cap)

    def newton(
        self, alpha: float, epsilon: float, lam: Floats, share: float, combined: Floats | None
    ) -> Newton:
        """Solve the regularised problem for these units."""
        respond = Quadratic(self.p, alpha, epsilon, self.mass)
        return newton(
            self.losses,
            respond,
            lam,
            1e-14,
            combined=combined,
            fixed=self.fixed,
            share=share,
            max_iter=15,
        )


class _State(NamedTuple):
    """A solution for some ε, and the number of Newton steps so far.

    ``combined`` are its losses, ``free`` is the interval of losses with free weights, ``tied`` whether most
    units seem to tie.
    """

    lam: Floats
    epsilon: float
    n_iter: int
    combined: Floats | None = None
    free: tuple[float, float] = (-np.inf, np.inf)
    tied: bool = False


def by_newton(problem: TailGame, start: Floats | None) -> Optimum | None:
    """Solve the mixture LP by the method of this module; None where it does not apply or fails."""
    n_members, n_units = problem.losses.shape
    if n_units <= 2 * FEW * n_members:
        return None
    # With very many units the first steps use a sample, or samples of it.
    levels = [problem]
    while levels[-1].p.size > COARSE * n_members:
        levels.append(_sample(levels[-1], levels[-1].p.size // COARSER))
    first = levels[-1]
    lam = np.full(n_members, 1.0 / n_members) if start is None else start
    # At a tiny α the weights are spread over more than the tail while ε is large.
    spread = _spread(first.losses.combine(lam), problem.alpha, first.p)
    epsilon = max(problem.alpha, 0.01) * max(spread, 1e-3)
    state = _State(lam, epsilon if start is None else epsilon / WARM, 0)
    cold = start is None
    for level in reversed(levels[1:]):
        below = _descend(level, _Part.whole(level), state, cold, False)
        state, cold = below if isinstance(below, _State) else _tied(below), False
    found = _descend_all(problem, state, cold)
    return _in_doubt(problem, found) if isinstance(found, _State) else found


def by_neighbour(problem: TailGame, near: Optimum) -> Optimum | None:
    """Solve the mixture LP from its solution at a near α, if most units tie in both and nearly the same.

    None if they do not tie there; with an open gap if others are settled here.
    """
    if near.regular is None:
        return None
    lam, epsilon, (low, high) = near.regular
    combined = problem.losses.combine(lam)
    part = _Part.whole(problem).narrow(_near(combined, low, high, MARGIN / 2, 0.8), combined >= high)
    return _all_tied(problem, part, epsilon, lam, combined[part.units], 0, trials=1)


def _tied(optimum: Optimum) -> _State:
    assert optimum.regular is not None
    lam, epsilon, free = optimum.regular
    return _State(lam, epsilon, optimum.n_iter, None, free, tied=True)


def _descend_all(problem: TailGame, state: _State, cold: bool) -> _State | Optimum:
    """Descend with the units that a sample leaves in doubt, or with all."""
    whole = _Part.whole(problem)
    low, high = state.free
    if cold or not np.isfinite(low):
        return _descend(problem, whole, state, cold, True)
    combined = problem.losses.combine(state.lam)
    if state.tied:
        part = whole.narrow(_near(combined, low, high, MARGIN / 2, 0.8), combined >= high)
        optimum = _all_tied(problem, part, state.epsilon, state.lam, combined[part.units], state.n_iter)
        if optimum.closed:
            return optimum
        return _descend(problem, whole, state, cold, True)
    for margin in (1.0, 4.0):
        base = whole.narrow(_near(combined, low, high, margin), combined >= high)
        if base is whole:
            break
        found = _descend(problem, base, state, False, True)
        if isinstance(found, Optimum):
            return found
        after = problem.losses.combine(found.lam)
        if base.misplaced(after, *found.free).sum() <= FEW * found.lam.size:
            return found._replace(combined=after)
    return _descend(problem, whole, state, cold, True)


def _sample(problem: TailGame, size: int) -> TailGame:
    """Draw units in proportion to p, one at random from every stretch of equal mass."""
    position = (np.arange(size) + np.random.default_rng(0).random(size)) / size
    drawn = np.minimum(np.searchsorted(problem.p.cumsum(), position), problem.p.size - 1)
    units, counts = np.unique(drawn, return_counts=True)
    return replace(problem, losses=problem.losses.select(units=units), p=counts / size)


def _descend(problem: TailGame, base: _Part, state: _State, cold: bool, final: bool) -> _State | Optimum:
    """Decrease ε until few units are free, or until all units that stay free turn out to tie."""
    losses, alpha = base.losses, problem.alpha
    few = (FEW if final else MANY) * losses.shape[0]
    lam, epsilon, steps, _, _, tied = state
    combined = losses.combine(lam)
    part = base
    if not (cold or tied):
        low, high = Quadratic(base.p, alpha, epsilon, base.mass)(combined).free
        part = base.narrow(_near(combined, low, high, 4 * MARGIN), combined >= high)
    before, margin = losses.shape[1], MARGIN
    for _ in range(40):
        inside = combined if part is base else combined[part.within]
        solution = part.newton(alpha, epsilon, lam, SHARE, inside)
        lam, steps = solution.lam, steps + solution.n_iter
        low, high = solution.free
        combined = solution.combined if part is base else losses.combine(lam)
        wrong = part is not base and part.misplaced(combined, low, high).any()
        known: _Part | None = part
        if wrong:
            margin *= 2
        else:
            known, margin = None, MARGIN
            n_free = int(((combined > low) & (combined < high)).sum())
            if n_free <= few or epsilon < RESOLUTION:
                break
            if n_free > 0.5 * before:
                optimum = _all_tied(problem, part, epsilon, lam, solution.combined, steps)
                if optimum.closed:
                    return optimum
            before = n_free
            epsilon /= SHRINK
        near = _near(combined, low, high, margin)
        if known is not None:
            near[known.within] = True
        part = base.narrow(near, combined >= high)
    return _State(lam, epsilon, steps, combined, (low, high))


def _near(combined: Floats, low: float, high: float, margin: float, many: float = 0.5) -> Mask:
    """Units whose weights are free, or nearly; all where they are ``many``, a share."""
    margin *= high - low
    near: Mask = (combined > low - margin) & (combined < high + margin)
    return near if near.sum() < many * near.size else np.ones_like(near)


def _spread(combined: Floats, alpha: float, p: Floats) -> float:
    """Width of an interval of losses around the boundary of the tail that holds a good part of all units."""
    eta = tail_boundary(combined, alpha, p)
    sample = combined[:: combined.size // 4096 + 1]
    return max(4 * float(np.quantile(np.abs(sample - eta), 0.1)), 0.3 * float(sample.std()))


def _all_tied(
    problem: TailGame, part: _Part, epsilon: float, lam: Floats, combined: Floats, steps: int, trials: int = 4
) -> Optimum:
    """Build the optimum if the regularised weights, computed to the last digit, are already exact."""
    for _ in range(trials):
        solution = part.newton(problem.alpha, epsilon, lam, 0.0, combined)
        lam, steps = solution.lam, steps + solution.n_iter
        low, high = solution.free
        w = part.weights(solution.w, problem.cap)  # of these units: the part may change below
        everywhere = problem.losses.combine(lam)
        wrong = np.where(part.settled > 0, everywhere < high, everywhere > low)
        wrong[part.units] = False
        if not wrong.any():
            break
        # Settled on the wrong side: these weights are not those of the problem with all units.
        near = wrong | _near(everywhere, low, high, MARGIN)
        near[part.units] = True
        part = _Part.whole(problem).narrow(near, everywhere >= high)
        combined = everywhere[part.units]
    optimum = problem.optimum(lam, w, steps, "newton", everywhere)
    if wrong.any():
        return optimum
    optimum.closest, optimum.regular = True, (solution.lam, epsilon, solution.free)
    mixture = least_mixture(problem, optimum, optimum.bound)
    if mixture is not None:
        problem.mix(optimum, mixture)
        optimum.canonical = True
    return optimum


def _in_doubt(problem: TailGame, state: _State) -> Optimum | None:
    """Solve exactly for the units nearest to the boundary; take in those on the wrong side of it, repeat."""
    n_members, n_units = problem.losses.shape
    lam, _, steps, combined, *_ = state
    assert combined is not None
    eta = tail_boundary(combined, problem.alpha, problem.p)
    distance = np.abs(combined - eta)
    size = min(FEW * n_members, n_units - 1)
    part = distance <= np.partition(distance, size)[size]
    best: Optimum | None = None
    whole = _Part.whole(problem)
    while 2 * part.sum() < n_units:
        inside = whole.narrow(part, combined > eta)
        if inside is whole:
            break
        columns = DenseLosses(np.ascontiguousarray(inside.losses.columns(np.arange(inside.p.size)).T))
        solution = interior_point(columns, inside.cap, 1e-12, start=lam, fixed=inside.fixed, mass=inside.mass)
        steps += solution.n_iter
        lam = solution.lam / solution.lam.sum()
        w = inside.weights(solution.w, problem.cap)
        tied = np.zeros(n_units, dtype=bool)
        tied[inside.units] = solution.tied
        unique = vertex(problem, lam, w, tied, solution.members, steps, "newton")
        if unique is not None:
            return unique
        combined = problem.losses.combine(lam)
        optimum = problem.optimum(lam, w, steps, "newton", combined)
        eta = optimum.threshold
        optimum.tied, optimum.members, optimum.tried = tied, solution.members, True
        if best is None or optimum.gap < best.gap:
            best = optimum
        wrong = ~part & (inside.at_cap != (combined > eta))
        if optimum.closed or not wrong.any():
            break
        part = part | wrong
    return best
