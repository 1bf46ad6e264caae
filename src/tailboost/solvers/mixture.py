"""The mixture program (3) and its dual (4): the mixture with the smallest CVaR and the worst-case weights.

min_{λ ∈ Δ_T} CVaR_α(Σ_t λ_t ℓ^t)  =  max_w min_t ⟨w, ℓ^t⟩   s.t. w ∈ Δ, w_i ≤ p_i/α        (Zhai et al. 2021)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import highspy
import numpy as np
from numpy.typing import ArrayLike
from scipy.sparse import csc_array

from tailboost.core.array_types import Floats, Ints, Mask
from tailboost.core.checks import check_alpha
from tailboost.core.long_work import one_blas_thread
from tailboost.solvers.bits import DenseLosses, Losses, PackedLosses, starting_mixture
from tailboost.solvers.highs import QuietHighs
from tailboost.solvers.regularized import Quadratic, newton
from tailboost.solvers.tail_game import Optimum, TailGame, feasible, tail, tail_boundary

#: For α above this, the best single candidate is optimal to the last digits, because CVaR ≤ mean/α.
ERM = 1 - 1e-11


@dataclass(frozen=True)
class MixtureSolution:
    """Optimal mixture and its certificate.

    Attributes
    ----------
    mixture : ndarray of shape (T,)
        The mixture λ on the simplex.
    value : float
        CVaR_α of the mixture's losses over all columns of ``losses``.
    dual_value : float
        min_t ⟨w, ℓ^t⟩ of ``unit_weights``, a lower bound for each mixture.
    gap : float
        ``value - dual_value``.
    unit_weights : ndarray of shape (n,)
        Optimal w of the dual: on the simplex, at most p_i/α.
    method : str
        "closed-form", "newton" or "linear-program".
    threshold : float
        Boundary η of the tail of the mixture's losses (the (1 − α)-quantile).
    """

    mixture: Floats
    value: float
    dual_value: float
    gap: float
    unit_weights: Floats
    method: str
    threshold: float


@one_blas_thread
def minimize_cvar_mixture(
    losses: Losses,
    alpha: float,
    base: ArrayLike | None = None,
    *,
    start: ArrayLike | None = None,
    canonical: bool = True,
) -> MixtureSolution:
    """Return the mixture of candidates with the smallest CVaR, and unit weights that certify the optimum.

    The function solves (3) and (4) above. Each column of ``losses`` is a unit, for example a row, a class or
    a group. The base measure p gives the mass of each unit. If α is at most the smallest p_i, the CVaR is the
    largest loss: the function solves the minimax problem min_λ max_i Σ_t λ_t ℓ_i^t. With error rates of
    classes or groups as losses, this mixture has the smallest error in the worst class or group.

    Parameters
    ----------
    losses : array-like of shape (T, n) or BitLosses
        Loss of each candidate on each unit: booleans or uint8 zeros and ones (packed to bits), or any finite
        numbers.
    alpha : float
        Tail mass in (0, 1].
    base : array-like of shape (n,), optional
        Base measure p: non-negative weights or counts, normalised here; uniform by default.
    start : array-like of shape (≤ T,), optional
        Initial mixture, for example the solution with fewer candidates or a similar α.
    canonical : bool, default=True
        Whether to select among several optima, so the solution does not depend on the method. The
        canonical mixture has the smallest mean loss under p, then it is a vertex that prefers earlier
        candidates. The canonical weights are closest to p in the χ² distance ½ Σ (w_i − p_i)²/p_i.

    Returns
    -------
    MixtureSolution
        ``mixture`` is λ, ``value`` the CVaR of its losses, and ``dual_value`` a lower bound for all.

    Raises
    ------
    ValueError
        If an argument is outside its range.
    SolverError
        If no method closes the gap to ``1e-8 (1 + |value|)``.
    """
    problem = TailGame.build(losses, alpha, base)
    reduced_start = None
    if start is not None:
        reduced_start = problem.reduce_mixture(starting_mixture(start, problem.full.shape[0]))
    solution, _ = _solve(problem, reduced_start, canonical)
    return solution


@one_blas_thread
def mixture_path(
    losses: Losses, alphas: Sequence[float] | Floats, base: ArrayLike | None = None
) -> list[MixtureSolution]:
    """Return the solutions of `minimize_cvar_mixture` for many α; the losses are prepared once.

    Parameters
    ----------
    losses, base
        As in `minimize_cvar_mixture`.
    alphas : sequence of float
        Tail masses in (0, 1], in any order.

    Returns
    -------
    list of MixtureSolution
        In the order of ``alphas``.

    Raises
    ------
    ValueError, SolverError
        As `minimize_cvar_mixture`.
    """
    tail_masses = [check_alpha(alpha, "alphas") for alpha in alphas]
    if not tail_masses:
        return []
    problem = TailGame.build(losses, tail_masses[0], base)
    solutions: dict[int, MixtureSolution] = {}
    # From the largest α on: the solution of an α is a good start for the next smaller one.
    start = None
    for i in np.argsort(tail_masses)[::-1]:
        at_alpha = replace(problem, alpha=tail_masses[i])
        solutions[i], start = _solve(at_alpha, start, canonical=True)
    return [solutions[i] for i in range(len(tail_masses))]


def _solve(
    problem: TailGame, start: Floats | None, canonical: bool
) -> tuple[MixtureSolution, Floats]:
    """Return the solution of the full problem, and its mixture in the reduced problem.

    Parameters
    ----------
    problem : TailGame
        The reduced problem.
    start : ndarray of shape (T,) or None
        A mixture near the optimum, for speed.
    canonical : bool
        Whether the optimum with the least mean loss is wanted.
    """
    best = _single_candidate(problem)
    for method in MIXTURE_METHODS:
        if best is not None and best.closed:
            break
        optimum = method(problem, start)
        if optimum is not None and (best is None or optimum.gap < best.gap):
            best = optimum
    assert best is not None
    if canonical:
        best = make_canonical(problem, best)
    return _certify(problem, best), best.lam


def _single_candidate(problem: TailGame) -> Optimum | None:
    """Return the best single candidate if its dual bound equals its value, otherwise None.

    No mixture is then better. This holds with one candidate, with one unit, at α = 1 and often at large α.
    The candidate has the smallest mean loss and the weights are closest to p, so both are canonical.
    """
    means = problem.losses.expectations(problem.p)
    # A tolerance keeps rounding from deciding between equal candidates.
    best = np.flatnonzero(means <= means.min() + 1e-14)[0]
    lam = np.zeros(means.size)
    lam[best] = 1.0
    w = None  # the weights of the worst tail
    rounding_error = 1e-13
    if problem.alpha >= ERM:
        w = problem.p
        rounding_error = 1e-10
    optimum = problem.optimum(lam, w, "closed-form")
    if optimum.gap <= rounding_error:
        return replace(optimum, canonical=True)
    return None


def _by_linear_program(problem: TailGame, start: Floats | None) -> Optimum:
    """Return the optimum from one linear program over all units; ``start`` has no effect."""
    return problem.optimum(*linear_program(problem), "linear-program")


def linear_program(problem: TailGame) -> tuple[Floats, Floats]:
    """Return the optimal mixture λ, shape (T,), and weights w, shape (n,), of one program over all units."""
    columns = problem.losses.columns(np.arange(problem.p.size))
    lam, w = mixture_program(columns, problem.cap)
    return lam, feasible(w, problem.cap)


def _certify(problem: TailGame, optimum: Optimum) -> MixtureSolution:
    """Return the solution with both objectives of the full problem, computed from the returned weights."""
    w = problem.expand(optimum.w)
    lam = problem.expand_mixture(optimum.lam)
    # Scaled real losses have rounding errors, so their objectives are computed again.
    value = optimum.value
    dual_value = optimum.bound
    threshold = optimum.threshold
    if isinstance(problem.full, DenseLosses):
        combined = problem.full.combine(lam)
        worst, threshold = tail(combined, problem.alpha, problem.full_p)
        value = float(worst @ combined)
        dual_value = float(problem.full.expectations(w).min())
    gap = value - dual_value
    # A negative gap would show infeasible weights.
    if not abs(gap) <= problem.tolerance(value):
        raise problem.error("minimize_cvar_mixture", gap, problem.tolerance(value))
    return MixtureSolution(lam, value, dual_value, gap, w, optimum.method, threshold)


# -- Fast method: Newton on a regularised problem, then an exact solve of the rest --------------------------
#
# The problem with R = (ε/2) Σ (w_i − p_i)²/p_i is solved by Newton's method for a falling ε. Only units with
# a loss in an interval of width ε/α have weights strictly between their bounds. The other units are fixed,
# removed from the problem and checked afterwards.
#
# When few units are left, HiGHS solves for them exactly. Units on the wrong side of the boundary η are added
# until there are none. If many units tie, their number never gets small. The regularised weights are then
# exact already at a large ε (Mangasarian and Meyer 1979), and the mixture follows from them by complementary
# slackness.
#
# Both cases give weights that are feasible for all units, hence a lower bound, and a value on all units.

#: Number of free units per candidate at which ε no longer falls.
FEW_FREE_UNITS = 6
#: Units farther from the interval of free weights than this multiple of its width are fixed.
MARGIN = 0.5
#: Gap relative to R(w) at which ε falls.
RELATIVE_GAP = 0.2
#: Divisor of the first ε if a starting mixture is given.
WARM = 5.0
#: Smallest ε; below it, the rounding of losses dominates the weights.
LEAST_EPSILON = 1e-11
#: Factor by which ε falls.
SHRINK = 5.0


class _FreeUnits(NamedTuple):
    """The free units of a problem; the weights of all other units are fixed at 0 or at their cap."""

    units: Ints  # numbers of the free units
    at_cap: Mask  # shape (n,): units fixed at their cap
    losses: PackedLosses  # of the free units
    p: Floats  # base measure of the free units
    mass: float  # remaining weight for the free units
    # Shape (T,): expected losses under the fixed weights; 0 without fixed units.
    fixed: Floats | float


def _free_units(problem: TailGame, free: Mask, above: Mask) -> _FreeUnits:
    """Return the units of the mask ``free``; others are fixed at their cap if ``above``, otherwise at 0.

    Both masks have shape (n,). All units are free if the fixed units leave no weight, or more than the free
    units can take.
    """
    at_cap = above & ~free
    fixed_weights = np.where(at_cap, problem.cap, 0.0)
    units = np.flatnonzero(free)
    mass = 1.0 - float(fixed_weights.sum())
    if free.all() or not 0.0 < mass < problem.cap[units].sum():
        no_units = np.zeros_like(free)
        return _FreeUnits(np.arange(free.size), no_units, problem.losses, problem.p, 1.0, 0.0)
    losses = problem.losses.select(units=units)
    fixed = problem.losses.expectations(fixed_weights)
    return _FreeUnits(units, at_cap, losses, problem.p[units], mass, fixed)


def by_newton(problem: TailGame, start: Floats | None) -> Optimum | None:
    """Return the optimum of the mixture program by Newton's method for a falling ε.

    ε falls until few units are free, or until all free units tie. ``start`` is a mixture, shape (T,), or
    None. Return None if a linear program of all units is as fast, or if too many units stay free.
    """
    n_candidates, n_units = problem.losses.shape
    few = FEW_FREE_UNITS * n_candidates
    if n_units <= 2 * few:  # the linear program of all units is as fast
        return None
    lam = np.full(n_candidates, 1.0 / n_candidates)
    if start is not None:
        lam = start
    combined = problem.losses.combine(lam)
    epsilon = _first_epsilon(problem, combined)
    if start is not None:
        epsilon /= WARM
    near = np.ones(n_units, dtype=bool)
    high = np.inf
    n_free_before = n_units
    for _ in range(40):
        free = _free_units(problem, near, combined >= high)
        solution = newton(
            free.losses,
            Quadratic(free.p, problem.alpha, epsilon, free.mass),
            lam,
            1e-14,
            combined=combined[free.units],
            fixed=free.fixed,
            relative_gap=RELATIVE_GAP,
            max_iter=15,
        )
        lam = solution.lam
        low, high = solution.free
        combined = problem.losses.combine(lam)
        n_free = ((combined > low) & (combined < high)).sum()
        if n_free <= few or epsilon < LEAST_EPSILON:
            break
        if n_free > 0.5 * n_free_before:  # hardly fewer: perhaps these units tie
            optimum = _all_tied(problem, epsilon, lam, combined)
            if optimum.closed:
                return optimum
        n_free_before = n_free
        epsilon /= SHRINK
        # The weights of other units are neither free nor nearly free.
        margin = MARGIN * (high - low)
        near = (combined > low - margin) & (combined < high + margin)
        if near.sum() >= 0.5 * n_units:  # a selection would save little
            near[:] = True
    return _exact_near_boundary(problem, combined)


def _first_epsilon(problem: TailGame, combined: Floats) -> float:
    """Return an ε at which a good part of the units has free weights, from the losses of a mixture."""
    # The width of an interval around the boundary of the tail with a good part of the losses.
    eta = tail_boundary(combined, problem.alpha, problem.p)
    sample = combined[:: combined.size // 4096 + 1]
    near_boundary = 4 * float(np.quantile(np.abs(sample - eta), 0.1))
    width = max(near_boundary, 0.3 * float(sample.std()), 1e-3)
    # At a tiny α, a large ε would spread the weights over more than the tail.
    return max(problem.alpha, 0.01) * width


def _all_tied(problem: TailGame, epsilon: float, lam: Floats, combined: Floats) -> Optimum:
    """Return the optimum of the weights at ε, computed to the last digit; its gap closes if they are exact.

    ``lam`` is a mixture, shape (T,), and ``combined`` its losses, shape (n,).
    """
    best_weights = Quadratic(problem.p, problem.alpha, epsilon)
    exact = newton(problem.losses, best_weights, lam, 1e-14, combined=combined, max_iter=15)
    w = feasible(exact.w, problem.cap)
    optimum = problem.optimum(exact.lam, w, "newton", exact.combined)
    mixture = least_mixture(problem, optimum, optimum.bound)
    if mixture is None:
        return replace(optimum, closest=True)
    return replace(problem.optimum(mixture, w, "newton"), canonical=True)


def _exact_near_boundary(problem: TailGame, combined: Floats) -> Optimum | None:
    """Solve exactly for the units nearest to the boundary; add units on its wrong side and repeat.

    ``combined`` are the losses of a mixture, shape (n,), and give the first boundary. The result is None if
    the first units near the boundary are too many for a gain.
    """
    n_candidates, n_units = problem.losses.shape
    eta = tail_boundary(combined, problem.alpha, problem.p)
    distance = np.abs(combined - eta)
    n_nearest = min(FEW_FREE_UNITS * n_candidates, n_units - 1)
    near = distance <= np.partition(distance, n_nearest)[n_nearest]
    best = None
    while 2 * near.sum() < n_units:
        free = _free_units(problem, near, combined > eta)
        if free.units.size == n_units:
            break
        columns = free.losses.columns(np.arange(free.p.size))
        lam, w = mixture_program(columns, problem.cap[free.units], free.fixed, free.mass)
        combined = problem.losses.combine(lam)
        weights = np.where(free.at_cap, problem.cap, 0.0)
        weights[free.units] = w
        weights = feasible(weights, problem.cap)
        optimum = problem.optimum(lam, weights, "newton", combined)
        eta = optimum.threshold
        if best is None or optimum.gap < best.gap:
            best = optimum
        on_wrong_side = ~near & (free.at_cap != (combined > eta))
        if optimum.closed or not on_wrong_side.any():
            break
        near = near | on_wrong_side
    return best


# -- Canonical solution among the optima, which does not depend on the method -------------------------------
#
# The canonical λ has the smallest mean loss; among those, it is a vertex that prefers earlier candidates. The
# canonical w is the optimum closest to p.

#: Largest excess of a canonical optimum's value over the best one.
LOSS = 1e-10
#: Number of conditions per candidate from which an optimum may violate the others by rounding.
MANY_CONDITIONS = 10
#: Largest distance from a bound by rounding.
CLEAR = 1e-9


def make_canonical(problem: TailGame, optimum: Optimum) -> Optimum:
    """Return the canonical optimum, or the given one if the optimal face is known too inexactly."""
    if optimum.canonical:
        return optimum
    w = optimum.w
    if not optimum.closest:
        w = _closest_weights(problem, optimum)
    canonical = problem.optimum(optimum.lam, w, optimum.method, optimum.combined)
    # If exact, the closest weights give the strictest conditions on an optimal λ.
    lam = least_mixture(problem, canonical, canonical.value)
    if lam is None:  # they are not exact
        lam = least_mixture(problem, optimum, optimum.value)
    if lam is not None:
        canonical = problem.optimum(lam, w, optimum.method)
    if canonical.gap <= max(optimum.gap, 10 * LOSS):
        return canonical
    return optimum


def _closest_weights(problem: TailGame, optimum: Optimum) -> Floats:
    """Return the optimal weights closest to p, shape (n,).

    The regularised problem with R = (ε/2) Σ (w_i − p_i)²/p_i is exact. Below some ε, its maximiser is optimal
    for the linear program and, among all optimal weights, has the smallest R (Mangasarian and Meyer 1979).
    Only the weights of tied units change. Without such a solution the weights of ``optimum`` are returned.
    """
    cap = problem.cap
    w = np.where(optimum.w > 0.5 * cap, cap, 0.0)  # without rounding errors
    at_boundary = np.abs(optimum.combined - optimum.threshold) <= 1e3 * CLEAR
    tied = np.flatnonzero(optimum.tied | at_boundary)
    w[tied] = 0.0
    mass = 1.0 - float(w.sum())  # of the tied units
    if not tied.size or not 0 < mass < cap[tied].sum():
        return optimum.w
    fixed = problem.losses.expectations(w)
    losses = problem.losses.select(units=tied)
    p = problem.p[tied]
    for epsilon in 10.0 ** -np.arange(1, 9):
        best_weights = Quadratic(p, problem.alpha, epsilon, mass)
        solution = newton(losses, best_weights, optimum.lam, 1e-13, fixed=fixed)
        expected = fixed + losses.expectations(solution.w)
        if expected.min() >= optimum.value - 10 * LOSS:  # optimal for the linear program
            w[tied] = solution.w
            return feasible(w, cap)
    return optimum.w


def least_mixture(problem: TailGame, optimum: Optimum, value: float) -> Floats | None:
    """Return the optimal mixture with the smallest mean loss, shape (T,); of several, a vertex.

    The vertex prefers earlier candidates.

    Let w be optimal. By complementary slackness, λ is optimal under these conditions: λ uses only candidates
    with ⟨w, ℓ^t⟩ = value; its loss is at least η for units at their cap, at most η for units of weight 0, and
    η for the others. Few conditions are active; they enter the linear program as they are violated.

    Return None if w is not exact enough. ``value`` is the smallest known value.
    """
    candidates = np.flatnonzero(optimum.candidates)
    losses = problem.losses
    at_cap = ~optimum.tied & (optimum.w > 0.5 * problem.cap)
    at_zero = ~optimum.tied & ~at_cap
    # Bounds of the loss of each unit less η.
    lower = np.where(at_zero, -np.inf, 0.0)
    upper = np.where(at_cap, np.inf, 0.0)
    means = losses.expectations(problem.p)[candidates]
    preference = ((problem.candidates[candidates] + 1.0) / problem.full.shape[0]) ** 2
    costs = [np.append(means, 0.0), np.append(preference, 0.0)]  # η costs nothing
    tied = np.flatnonzero(optimum.tied)
    n_first = min(2 * candidates.size, tied.size)
    # They are evenly spread: neighbours have similar losses, and so conditions.
    units = tied[np.arange(n_first) * tied.size // max(n_first, 1)]
    best = None
    for _ in range(50):
        matrix = _with_threshold(losses.columns(units)[:, candidates])
        # The last constraint is Σ λ = 1.
        vertex = lexicographic_vertex(
            costs, matrix, np.append(lower[units], 1.0), np.append(upper[units], 1.0)
        )
        if vertex is None:
            break
        lam = np.zeros(optimum.lam.size)
        lam[candidates] = np.maximum(vertex[:-1], 0.0)
        total = float(lam.sum())
        if total <= 0:
            break
        combined = losses.combine(lam)
        worst_weights, _ = tail(combined, problem.alpha, problem.p)
        reached = float(worst_weights @ combined) / total
        if reached <= min(value, optimum.bound + 1e-9) + LOSS:
            best = np.where(lam > 1e-12, lam, 0.0)
            best /= best.sum()
        violated = _most_violated(combined - vertex[-1], lower, upper, units)
        has_many = best is not None and units.size > MANY_CONDITIONS * candidates.size
        if not violated.size or has_many:
            break
        units = np.append(units, violated[: 2 * candidates.size + 20])
    return best


def _most_violated(excess: Floats, lower: Floats, upper: Floats, units: Ints) -> Ints:
    """Return the units with an excess outside its bounds, except ``units``, the largest violation first.

    ``excess``, ``lower`` and ``upper`` have shape (n,).
    """
    violation = np.maximum(lower - excess, excess - upper)
    violation[units] = 0.0
    violated = np.flatnonzero(violation > 1e-12)
    return violated[np.argsort(violation[violated])[::-1]]


def _with_threshold(matrix: Floats) -> Floats:
    """Return constraints on x with a further variable η: matrix x − η, and as last row the sum of x."""
    extended = np.ones((matrix.shape[0] + 1, matrix.shape[1] + 1))
    extended[:-1, :-1] = matrix
    extended[:-1, -1] = -1.0
    extended[-1, -1] = 0.0
    return extended


# -- The mixture program as a linear program, and canonical vertices of linear programs, by HiGHS ------------

HIGHS_TOLERANCE = 1e-10


def mixture_program(
    losses: Floats, cap: Floats, fixed: Floats | float = 0.0, mass: float = 1.0
) -> tuple[Floats, Floats]:
    """Return optimal λ and w of max_w min_t (Lw + fixed)_t with 0 ≤ w ≤ c and Σ w = mass.

    Parameters
    ----------
    losses : ndarray of shape (n, T)
        Losses of the candidates on each unit.
    cap : ndarray of shape (n,)
        Largest weights c.
    fixed : ndarray of shape (T,)
        Expected losses of units with fixed weights.
    mass : float
        Weight of the n units.
    """
    n_units, n_candidates = losses.shape
    # Variables w and the minimum η, which is made large: (Lw)_t − η ≥ −fixed_t, and Σ w = mass.
    lower = np.append(np.zeros(n_candidates) - fixed, mass)
    upper = np.append(np.full(n_candidates, np.inf), mass)
    least = np.append(np.zeros(n_units), -np.inf)
    # No weight exceeds Σ w, so larger caps have no effect.
    largest = np.append(np.minimum(cap, 2.0 * mass), np.inf)
    cost = np.append(np.zeros(n_units), -1.0)
    highs = highs_model(cost, _with_threshold(losses.T), (lower, upper), (least, largest))
    highs.run()
    solution = highs.getSolution()
    w = np.array(solution.col_value)[:-1]
    lam = np.maximum(np.array(solution.row_dual)[:-1], 0.0)  # the duals of the candidates
    total = float(lam.sum())
    if total > 0:
        return lam / total, w
    return np.full(n_candidates, 1.0 / n_candidates), w


def lexicographic_vertex(
    costs: Sequence[Floats], matrix: Floats, lower: Floats, upper: Floats
) -> Floats | None:
    """Return a vertex of {x: lower ≤ matrix x ≤ upper} with the least cost, for each cost in turn.

    All entries of x, shape (N,), except the last are non-negative. After each cost, columns and rows with a
    non-zero dual are fixed. The next cost then moves along the optimal face exactly, without a tolerance on
    the objective. Return None if the first program has no optimum, as for an empty set; if a later one has
    none, return the vertex before.

    Parameters
    ----------
    costs : sequence of ndarray of shape (N,)
        The costs, the first one first.
    matrix : ndarray of shape (m, N)
        Coefficients of the constraints.
    lower, upper : ndarray of shape (m,)
        Bounds of the constraints.
    """
    n_columns = matrix.shape[1]
    lower = lower.copy()
    upper = upper.copy()
    floor = np.append(np.zeros(n_columns - 1), -np.inf)
    highs = highs_model(costs[0], matrix, (lower, upper), (floor, np.full(n_columns, np.inf)))
    x = None
    for k, cost in enumerate(costs):
        if k:
            highs.changeColsCost(n_columns, np.arange(n_columns, dtype=np.int32), cost)
        highs.run()
        if highs.getModelStatus() != highspy.HighsModelStatus.kOptimal:
            return x
        solution = highs.getSolution()
        x = np.array(solution.col_value)
        rounding_error = 1e-9 * max(1.0, float(np.abs(cost).max()))  # of a dual
        is_costly = np.abs(solution.col_dual) > rounding_error
        for j in np.flatnonzero(is_costly & np.isfinite(floor)):
            highs.changeColBounds(int(j), 0.0, 0.0)
        duals = np.array(solution.row_dual)
        for i in np.flatnonzero(np.abs(duals) > rounding_error):
            if duals[i] > 0:  # the row is at its lower bound
                upper[i] = lower[i]
            else:
                lower[i] = upper[i]
            highs.changeRowBounds(int(i), lower[i], upper[i])
    return x


def highs_model(
    cost: Floats, matrix: Floats, rows: tuple[Floats, Floats], columns: tuple[Floats, Floats]
) -> Any:
    """Return HiGHS with the linear program min ⟨cost, x⟩ over bounded rows and columns.

    ``matrix`` has shape (m, N). ``rows`` and ``columns`` are pairs of lower and upper bounds, of shapes (m,)
    and (N,).
    """
    sparse = csc_array(matrix)
    model = highspy.HighsModel()
    lp = model.lp_
    lp.num_row_, lp.num_col_ = matrix.shape
    lp.col_cost_ = cost
    lp.row_lower_, lp.row_upper_ = rows
    lp.col_lower_, lp.col_upper_ = columns
    lp.a_matrix_.format_ = highspy.MatrixFormat.kColwise
    lp.a_matrix_.start_ = sparse.indptr
    lp.a_matrix_.index_ = sparse.indices
    lp.a_matrix_.value_ = sparse.data
    highs = QuietHighs()
    highs.setOptionValue("primal_feasibility_tolerance", HIGHS_TOLERANCE)
    highs.setOptionValue("dual_feasibility_tolerance", HIGHS_TOLERANCE)
    highs.passModel(model)
    return highs


#: Methods, fastest first. The next one is tried if a gap remains.
MIXTURE_METHODS: tuple[Callable[[TailGame, Floats | None], Optimum | None], ...] = (
    by_newton,
    _by_linear_program,
)
