"""Canonical solution among the optima of the mixture program. It does not depend on the method.

The canonical λ has the smallest mean loss; among those, it is a vertex that prefers earlier candidates. The
canonical w is the optimum closest to p.
"""

from __future__ import annotations

import numpy as np

from tailboost.core.array_types import Floats
from tailboost.solvers.linear_program import lexicographic_vertex
from tailboost.solvers.regularized import Quadratic, newton
from tailboost.solvers.tail_game import Optimum, TailGame, feasible, tail

#: Largest excess of a canonical optimum's value over the best one.
LOSS = 1e-10
#: Number of conditions per candidate from which an optimum may violate the others by rounding.
ENOUGH = 10
#: Largest distance from a bound by rounding.
CLEAR = 1e-9


def make_canonical(problem: TailGame, optimum: Optimum) -> Optimum:
    """Return the canonical optimum, or the given one if the optimal face is known too inexactly."""
    if optimum.canonical:
        return optimum
    unique = vertex(problem, optimum)
    if unique is not None:
        return unique
    w = optimum.w if optimum.closest else _closest_weights(problem, optimum)
    # If exact, the closest weights give the strictest conditions on an optimal λ.
    canonical = problem.optimum(optimum.lam, w, optimum.n_iter, optimum.method, optimum.combined)
    lam = least_mixture(problem, canonical, canonical.value)
    if lam is None:
        lam = least_mixture(problem, optimum, optimum.value)
    if lam is not None:
        problem.mix(canonical, lam)
    return canonical if canonical.gap <= max(optimum.gap, 10 * LOSS) else optimum


def vertex(problem: TailGame, optimum: Optimum) -> Optimum | None:
    """Solve for λ and w as vertices if both are unique: as many tied units as candidates.

    With F the tied units and C the candidates, K = [[L_CF, −1], [1', 0]] gives (w_F, value) from the
    remaining weight, and (−λ_C, η) from K'z = e. One factorisation solves both systems. Units with equal
    losses count as one and share their weight in proportion to p. λ and w of ``optimum`` are approximations.
    """
    cap, p = problem.cap, problem.p
    near, near_w = optimum.lam, optimum.w
    tied, candidates = np.flatnonzero(optimum.tied), np.flatnonzero(optimum.candidates)
    if not tied.size or tied.size > 10 * candidates.size + 20:
        return None
    first, group = problem.losses.select(units=tied).patterns()
    size = min(first.size, candidates.size)
    if max(first.size, candidates.size) > size + 20:
        return None
    # If their numbers differ, the units or candidates nearest to a bound are left out; the end checks this.
    room = np.minimum(near_w, cap - near_w)[tied[first]] / cap[tied[first]]
    free = np.sort(np.argsort(room)[first.size - size :])
    tied, group = tied[np.isin(group, free)], np.searchsorted(free, group[np.isin(group, free)])
    candidates = np.sort(candidates[np.argsort(near[candidates])[candidates.size - size :]])
    w = np.where(near_w > 0.5 * cap, cap, 0.0)
    w[tied] = 0.0
    matrix = np.ones((size + 1, size + 1))
    matrix[:-1, :-1] = problem.losses.columns(tied[np.unique(group, return_index=True)[1]])[:, candidates].T
    matrix[:-1, -1], matrix[-1, -1] = -1.0, 0.0
    settled = problem.losses.expectations(w)
    try:
        inverse = np.linalg.inv(matrix)
    except np.linalg.LinAlgError:
        return None
    tied_weights = (inverse @ np.append(-settled[candidates], 1.0 - w.sum()))[:-1]
    w[tied] = tied_weights[group] * p[tied] / np.bincount(group, p[tied])[group]
    lam = np.zeros(near.size)
    lam[candidates], eta = -inverse[-1, :-1], inverse[-1, -1]
    if not (lam.min() >= 0 and w.min() >= 0 and (w <= cap).all() and abs(lam.sum() - 1) < 1e-9):
        return None
    unique = problem.optimum(lam / lam.sum(), feasible(w, cap), optimum.n_iter, optimum.method)
    unique.closest = unique.canonical = True
    # The optimum is unique if no other unit lies at η and no other candidate attains the value.
    distance, slack = np.abs(unique.combined - eta), unique.expected - unique.bound
    alone = np.count_nonzero(distance <= CLEAR) == tied.size and np.count_nonzero(slack <= CLEAR) == size
    return unique if alone and unique.gap <= LOSS else None


def _closest_weights(problem: TailGame, optimum: Optimum) -> Floats:
    """Return the optimal weights closest to p.

    The regularised problem with R = (ε/2) Σ (w_i − p_i)²/p_i is exact. Below some ε, its maximiser is optimal
    for the linear program and, among all optimal weights, has the smallest R (Mangasarian and Meyer 1979).
    Only the weights of tied units change.
    """
    cap = problem.cap
    w = np.where(optimum.w > 0.5 * cap, cap, 0.0)
    tied = np.flatnonzero(optimum.tied | (np.abs(optimum.combined - optimum.threshold) <= 1e3 * CLEAR))
    w[tied] = 0.0
    mass = 1.0 - float(w.sum())
    if not tied.size or not 0 < mass < cap[tied].sum():
        return optimum.w
    fixed = problem.losses.expectations(w)
    losses, p = problem.losses.select(units=tied), problem.p[tied]
    lam = optimum.lam
    for epsilon in 10.0 ** -np.arange(1, 9):
        solution = newton(losses, Quadratic(p, problem.alpha, epsilon, mass), lam, 1e-13, fixed=fixed)
        if (fixed + losses.expectations(solution.w)).min() >= optimum.value - 10 * LOSS:
            w[tied] = solution.w
            return feasible(w, cap)
    return optimum.w


def least_mixture(problem: TailGame, optimum: Optimum, value: float) -> Floats | None:
    """Return the optimal mixture with the smallest mean loss; among those, a vertex of earlier candidates.

    Let w be optimal. By complementary slackness, λ is optimal under these conditions: λ uses only candidates
    with ⟨w, ℓ^t⟩ = value; its loss is at least η for units at their cap, at most η for units of weight 0, and
    η for the others. Few conditions are active; they enter the linear program as they are violated.

    Return None if w is not exact enough. ``value`` is the smallest known value.
    """
    candidates = np.flatnonzero(optimum.candidates)
    losses = problem.losses
    settled = ~optimum.tied
    high = optimum.w > 0.5 * problem.cap
    lower = np.where(settled & ~high, -np.inf, 0.0)
    upper = np.where(settled & high, np.inf, 0.0)
    means = losses.expectations(problem.p)[candidates]
    preference = ((problem.candidates[candidates] + 1.0) / problem.full.shape[0]) ** 2
    costs = [np.append(means, 0.0), np.append(preference, 0.0)]
    # Neighbouring units have similar losses, so the first conditions are spread over all units.
    tied = np.flatnonzero(optimum.tied)
    some = min(2 * candidates.size, tied.size)
    rows = tied[np.arange(some) * tied.size // max(some, 1)]
    best: Floats | None = None
    for _ in range(50):
        matrix = np.ones((rows.size + 1, candidates.size + 1))
        matrix[:-1, :-1], matrix[:-1, -1], matrix[-1, -1] = losses.columns(rows)[:, candidates], -1.0, 0.0
        vertex = lexicographic_vertex(costs, matrix, np.append(lower[rows], 1.0), np.append(upper[rows], 1.0))
        if vertex is None:
            break
        lam = np.zeros(optimum.lam.size)
        lam[candidates] = np.maximum(vertex[:-1], 0.0)
        total = float(lam.sum())
        if total <= 0:
            break
        combined = losses.combine(lam)
        excess = combined - vertex[-1]
        violation = np.maximum(lower - excess, excess - upper)
        violation[rows] = 0.0
        worst = np.flatnonzero(violation > 1e-12)
        worst = worst[np.argsort(violation[worst])[::-1][: 2 * candidates.size + 20]]
        if (
            float(tail(combined, problem.alpha, problem.p)[0] @ combined) / total
            <= min(value, optimum.bound + 1e-9) + LOSS
        ):
            best = np.where(lam > 1e-12, lam, 0.0)
            best /= best.sum()
        if not worst.size or (best is not None and rows.size > ENOUGH * candidates.size):
            break
        rows = np.append(rows, worst)
    return best
