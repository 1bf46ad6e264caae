"""The choice among optima of the mixture LP, so that an answer does not depend on how it was found.

Among optimal λ: least mean loss, then a vertex that prefers earlier members. Among optimal w: the one closest
to p.
"""

from __future__ import annotations

import numpy as np

from tailboost.core.array_types import Floats, Mask
from tailboost.solvers.linear_program import lexicographic_vertex
from tailboost.solvers.regularized import Quadratic, newton
from tailboost.solvers.tail_game import Optimum, TailGame, feasible
from tailboost.solvers.tails import tail

#: How much worse a canonical optimum may be than the best one found.
LOSS = 1e-10
#: Conditions per member from which on an optimum that violates others by rounding is accepted.
ENOUGH = 10
#: Distance from a bound that is more than rounding.
CLEAR = 1e-9


def make_canonical(problem: TailGame, optimum: Optimum) -> Optimum:
    """Replace an optimum by the canonical one, or keep it if the optimal face is not known exactly enough."""
    if optimum.canonical:
        return optimum
    if not optimum.tried:
        unique = vertex(
            problem, optimum.lam, optimum.w, optimum.tied, optimum.members, optimum.n_iter, optimum.method
        )
        if unique is not None:
            return unique
    w = optimum.w if optimum.closest else _closest_weights(problem, optimum)
    # The closest weights tell best which conditions an optimal λ has to meet, if they are exact.
    found = problem.optimum(optimum.lam, w, optimum.n_iter, optimum.method, optimum.combined)
    lam = least_mixture(problem, found, found.value)
    if lam is None:
        lam = least_mixture(problem, optimum, optimum.value)
    if lam is not None:
        problem.mix(found, lam)
    return found if found.gap <= max(optimum.gap, 10 * LOSS) else optimum


def vertex(
    problem: TailGame, near: Floats, near_w: Floats, tied_units: Mask, used: Mask, n_iter: int, method: str
) -> Optimum | None:
    """Solve for λ and w as vertices, where both are unique: as many tied units as members.

    With F the tied units and C the members, K = [[L_CF, −1], [1', 0]] gives (w_F, value) from the weight that
    is left and (−λ_C, η) from K'z = e: one factorisation for both. Units with equal losses count as one; the
    closest weights share in proportion to p. ``near`` and ``near_w`` are λ and w to a few digits.
    """
    cap, p = problem.cap, problem.p
    tied, members = np.flatnonzero(tied_units), np.flatnonzero(used)
    if not tied.size or tied.size > 10 * members.size + 20:
        return None
    first, group = problem.losses.select(units=tied).patterns()
    size = min(first.size, members.size)
    if max(first.size, members.size) > size + 20:
        return None
    # Where an interior point is inconclusive, the unit or member nearest to its bound is left out as a trial;
    # the end checks it.
    room = np.minimum(near_w, cap - near_w)[tied[first]] / cap[tied[first]]
    kept = np.sort(np.argsort(room)[first.size - size :])
    tied, group = tied[np.isin(group, kept)], np.searchsorted(kept, group[np.isin(group, kept)])
    members = np.sort(members[np.argsort(near[members])[members.size - size :]])
    w = np.where(near_w > 0.5 * cap, cap, 0.0)
    w[tied] = 0.0
    matrix = np.ones((size + 1, size + 1))
    matrix[:-1, :-1] = problem.losses.columns(tied[np.unique(group, return_index=True)[1]])[:, members].T
    matrix[:-1, -1], matrix[-1, -1] = -1.0, 0.0
    settled = problem.losses.expectations(w)
    try:
        inverse = np.linalg.inv(matrix)
    except np.linalg.LinAlgError:
        return None
    shares = (inverse @ np.append(-settled[members], 1.0 - w.sum()))[:-1]
    w[tied] = shares[group] * p[tied] / np.bincount(group, p[tied])[group]
    lam = np.zeros(near.size)
    lam[members], eta = -inverse[-1, :-1], inverse[-1, -1]
    if not (lam.min() >= 0 and w.min() >= 0 and (w <= cap).all() and abs(lam.sum() - 1) < 1e-9):
        return None
    found = problem.optimum(lam / lam.sum(), feasible(w, cap), n_iter, method)
    found.closest = found.canonical = True
    # Anything else at the boundary η or at the value would allow other optima.
    distance, slack = np.abs(found.combined - eta), found.expected - found.bound
    alone = np.count_nonzero(distance <= CLEAR) == tied.size and np.count_nonzero(slack <= CLEAR) == size
    return found if alone and found.gap <= LOSS else None


def _closest_weights(problem: TailGame, optimum: Optimum) -> Floats:
    """Find the optimal weights closest to p.

    The regularised problem with R = (ε/2) Σ (w_i − p_i)²/p_i is exact: below some ε its maximiser is optimal
    for the LP (Mangasarian and Meyer 1979) and, of all optimal weights, the one with the least R. Units that
    are not tied keep their weights.
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
    """Find the optimal mixture of least mean loss; among those, a vertex that prefers earlier members.

    By complementary slackness with any optimal w, λ is optimal exactly if it lives on the members with ⟨w,
    ℓ^t⟩ = value and its loss is at least η where w is at its cap, at most η where w is 0 and η in between.
    Few of these conditions matter: they enter the linear program as they are violated.

    None where w is not exact enough for that: ``value`` is the least that is known to be possible.
    """
    members = np.flatnonzero(optimum.members)
    losses = problem.losses
    settled = ~optimum.tied
    high = optimum.w > 0.5 * problem.cap
    lower = np.where(settled & ~high, -np.inf, 0.0)
    upper = np.where(settled & high, np.inf, 0.0)
    means = losses.expectations(problem.p)[members]
    preference = ((problem.members[members] + 1.0) / problem.full.shape[0]) ** 2
    costs = [np.append(means, 0.0), np.append(preference, 0.0)]
    # Neighbours have similar losses: those to begin with are spread over all.
    tied = np.flatnonzero(optimum.tied)
    some = min(2 * members.size, tied.size)
    rows = tied[np.arange(some) * tied.size // max(some, 1)]
    best: Floats | None = None
    for _ in range(50):
        matrix = np.ones((rows.size + 1, members.size + 1))
        matrix[:-1, :-1], matrix[:-1, -1], matrix[-1, -1] = losses.columns(rows)[:, members], -1.0, 0.0
        vertex = lexicographic_vertex(costs, matrix, np.append(lower[rows], 1.0), np.append(upper[rows], 1.0))
        if vertex is None:
            break
        lam = np.zeros(optimum.lam.size)
        lam[members] = np.maximum(vertex[:-1], 0.0)
        total = float(lam.sum())
        if total <= 0:
            break
        combined = losses.combine(lam)
        excess = combined - vertex[-1]
        violation = np.maximum(lower - excess, excess - upper)
        violation[rows] = 0.0
        worst = np.flatnonzero(violation > 1e-12)
        worst = worst[np.argsort(violation[worst])[::-1][: 2 * members.size + 20]]
        if (
            float(tail(combined, problem.alpha, problem.p)[0] @ combined) / total
            <= min(value, optimum.bound + 1e-9) + LOSS
        ):
            best = np.where(lam > 1e-12, lam, 0.0)
            best /= best.sum()
        if not worst.size or (best is not None and rows.size > ENOUGH * members.size):
            break
        rows = np.append(rows, worst)
    return best
