"""The mixture program (6), its dual (5): the smallest CVaR and the worst-case weights; and (8), regularised.

min_{λ ∈ Δ_T} CVaR_α(Σ_t λ_t ℓ^t)  =  max_w min_t ⟨w, ℓ^t⟩   s.t. w ∈ Δ, w_i ≤ p_i/α        (Zhai et al. 2021)

The problem with R = (ε/2) Σ (w_i − p_i)²/p_i is solved by Newton's method for a falling ε. Only units with a
loss in an interval of width ε/α have weights strictly between their bounds. The other units are fixed,
removed from the problem and checked afterwards. When few units are left, SciPy solves for them exactly. Units
on the wrong side of the boundary η are added until there are none. This gives weights that are feasible for
all units, hence a lower bound, and a value on all units.

Of several optima the one of least mean loss is taken: each candidate's loss gets TIE times its mean loss.
"""

from collections.abc import Iterable
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple, Self

import numpy as np
from scipy.optimize import linprog

from tailboost.core import (
    Array,
    Column,
    Floats,
    Ints,
    Mask,
    Table,
    finite,
    frozen_value,
    one_blas_thread,
    read_column,
)
from tailboost.core.ranges import POSITIVE, check_alpha, check_number
from tailboost.solvers.newton import BestWeights, entropic, newton, quadratic
from tailboost.solvers.tail import (
    DUALITY_GAP,
    as_losses,
    check_gap,
    combine,
    expectations,
    measure,
    patterns,
    tail,
)

# Gap on losses in [0, 1] that is small enough to try no further method.
CLOSED = 2e-9
# Share of its mean loss that is added to the loss of each candidate.
TIE = 1e-6
# Largest differences that count as none: of expected losses, of a weight, as a part of its cap, from its
# bounds, and of equations.
TIED = 1e-9
# Units at most this far from the boundary η may tie there.
NEAR_BOUNDARY = 1e-6
# Zero-one losses of fewer distinct units than this part are merged.
MERGED = 0.9
# Losses up to which the linear program of all units is as fast.
SMALL_PROGRAM = 40_000
# Number of free units per candidate at which ε no longer falls.
FEW_FREE_UNITS = 6
# Units farther from the interval of free weights than this multiple of its width are fixed.
MARGIN = 0.5
# Gap relative to R(w) at which ε falls, the factor by which it falls, and the smallest ε, below which the
# rounding of losses dominates the weights.
RELATIVE_GAP = 0.2
SHRINK = 5.0
LEAST_EPSILON = 1e-11
# Part of the free units that stays free at the next ε if they may tie.
TIED_PART = 0.5
# Target gap of the regularised program on losses in [0, 1]. The gap bounds KL(w ‖ w*)/β, so the error of the
# weights is at most √(β · gap/2): 7e-6 at β = 100.
REGULARISED_GAP = 1e-12
# The first β, on losses in [0, 1].
FIRST_BETA = 200.0


@frozen_value
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
    threshold : float
        Boundary η of the tail of the mixture's losses (the (1 − α)-quantile).
    """

    mixture: Floats
    value: float
    dual_value: float
    gap: float
    unit_weights: Floats
    threshold: float


@frozen_value
class EntropicSolution:
    """Weights of the regularised player and their certificate.

    Attributes
    ----------
    unit_weights : ndarray of shape (n,)
        The weights w of the units: on the simplex, at most p_i/α.
    mixture : ndarray of shape (T,)
        Multipliers λ of the constraints: a mixture, on the simplex.
    value : float
        Objective of w: 1 − min_t ⟨w, ℓ^t⟩ + KL(w ‖ p)/β.
    dual_value : float
        Lower bound from λ: 1 − F(λ).
    gap : float
        ``value - dual_value``.
    """

    unit_weights: Floats
    mixture: Floats
    value: float
    dual_value: float
    gap: float


class Optimum(NamedTuple):
    """Solution of a reduced game with a number added to the losses of each candidate."""

    lam: Floats  # mixture, shape (T,)
    w: Floats  # unit weights, shape (n,)
    combined: Floats  # losses of the units under λ, shape (n,)
    value: float  # their CVaR
    gap: float  # on the scale of the losses in [0, 1] and the shift
    threshold: float  # boundary η of the tail of ``combined``
    is_closest: bool = False  # whether w are known to be the optimal weights closest to p


@frozen_value
class TailGame:
    """Game between T candidates and n units, with the smaller equivalent game for the solvers.

    The reduction drops units without mass. Units with equal zero-one losses are merged; their weights in the
    full problem are in proportion to p. Candidates with equal losses are merged into the first one. Real
    losses are scaled to [0, 1].
    """

    full: Array
    full_p: Floats
    # Reduced problem; p sums to 1. A loss of the full problem is ``offset + scale * loss``.
    losses: Array
    p: Floats
    alpha: float
    shift: Floats  # added to the expected loss of each candidate
    scale: float
    offset: float
    unit: Ints  # number in the reduced problem of each unit; any for one without mass
    candidates: Ints  # numbers of the distinct candidates
    equal_to: Ints  # number in the reduced problem of each candidate

    @classmethod
    def build(cls, losses: Table, alpha: float, base: Column) -> Self:
        """Return the game of checked arguments; raise ValueError for invalid ones."""
        full = as_losses(losses)
        alpha = check_alpha(alpha)
        p = full_p = measure(base, full.shape[1])

        # 1. The units with mass.
        reduced = full
        has_mass = p > 0
        unit = np.cumsum(has_mass) - 1
        if not has_mass.all():
            reduced = full[:, has_mass]
            p = p[has_mass]

        # 2. One unit for those with equal zero-one losses, or losses in [0, 1].
        offset = 0.0
        scale = 1.0
        if full.dtype == np.uint8:
            first_units, pattern = patterns(reduced)
            if first_units.size < MERGED * p.size:
                reduced = reduced[:, first_units]
                unit = pattern[unit]
                p = np.bincount(pattern, p).astype(np.float64)
        else:
            offset = float(reduced.min())
            half_range = float(reduced.max() / 2 - offset / 2)  # the halves do not overflow
            scale = 2 * half_range or 1.0
            reduced = (reduced - offset) / scale

        # 3. One candidate for those with equal losses.
        _, equal_to, _ = read_column([row.tobytes() for row in reduced], "losses")
        _, candidates = np.unique(equal_to, return_index=True)
        if candidates.size < equal_to.size:
            reduced = reduced[candidates]
        return cls(
            full,
            full_p,
            reduced,
            p,
            alpha,
            np.zeros(len(reduced)),
            scale,
            offset,
            unit,
            candidates,
            equal_to,
        )

    def expected(self, w: Floats) -> Floats:
        """Return the expected loss of each candidate under unit weights w, with the shift, shape (T,)."""
        return expectations(self.losses, w) + self.shift

    def optimum(self, lam: Floats, w: Floats | None = None) -> Optimum:
        """Return the optimum with a mixture and weights, by default those of the worst tail.

        Weights of a solver are repaired: then 0 ≤ w ≤ cap and Σ w = 1.
        """
        combined = combine(self.losses, lam)
        worst, threshold = tail(combined, self.alpha, self.p)
        if w is None:
            w = worst
        cap = self.p / self.alpha
        w = np.clip(w, 0.0, cap)
        missing = 1.0 - w.sum()
        if missing > 0:  # the units share it in proportion to their room below the cap
            room = cap - w
            w = np.minimum(w + missing * room / max(room.sum(), missing), cap)
        else:
            w = w / w.sum()
        value = float(worst @ combined)
        gap = value + lam @ self.shift - self.expected(w).min()
        gap /= 1.0 + np.ptp(self.shift)
        return Optimum(lam, w, combined, value, gap, threshold)

    def first(self, start: Column) -> Floats:
        """Return the even mixture of all candidates, or a given one of the first of them."""
        n_candidates = self.equal_to.size
        first = np.ones(n_candidates) if start is None else finite(start, "start")
        is_long = first.ndim != 1 or first.size > n_candidates
        if is_long or (first < 0).any() or not first.any():
            raise ValueError(
                f"start must be at most {n_candidates} non-negative weights with a positive "
                f"sum, got {start!r}"
            )
        return (
            np.bincount(self.equal_to[: first.size], first, self.candidates.size) / first.sum()
        )

    def expand(self, lam: Floats, w: Floats) -> tuple[Floats, Floats]:
        """Return the mixture of all candidates (the first of equals gets all), and weights of all units."""
        full_lam = np.zeros(self.equal_to.size)
        full_lam[self.candidates] = lam
        return full_lam, (w / self.p)[self.unit] * self.full_p


@one_blas_thread()
def minimize_cvar_mixture(
    losses: Table, alpha: float, base: Column = None, *, start: Column = None
) -> MixtureSolution:
    """Return the mixture of candidates with the smallest CVaR, and unit weights that certify the optimum.

    The function solves (5) and (6) of Zhai et al. Each column of ``losses`` is a unit, for example a row, a
    class or a group. The base measure p gives the mass of each unit. If α is at most the smallest p_i, the
    CVaR is the largest loss: the function solves the minimax problem min_λ max_i Σ_t λ_t ℓ_i^t. With error
    rates of classes or groups as losses, this mixture has the smallest error in the worst class or group. Of
    several optima the mixture has nearly the smallest mean loss under p.

    Parameters
    ----------
    losses : array-like of shape (T, n)
        Loss of each candidate on each unit: booleans, uint8 zeros and ones, or any finite numbers.
    alpha : float
        Tail mass in (0, 1].
    base : array-like of shape (n,), optional
        Base measure p: non-negative weights or counts, normalised here; uniform by default.
    start : array-like of shape (≤ T,), optional
        A mixture near the optimum, for speed: that of the previous round.

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
    game = TailGame.build(losses, alpha, base)
    optimum = _of_least_mean(game, None if start is None else game.first(start))
    return _certified(game, optimum._replace(w=_closest(game, optimum)))


@one_blas_thread()
def mixture_path(
    losses: Table, alphas: Iterable[float], base: Column = None
) -> list[MixtureSolution]:
    """Return solutions as of `minimize_cvar_mixture` for many α; the losses are prepared once.

    Where several weights or mixtures are optimal, they may be other ones.

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
    tail_masses = [check_alpha(alpha) for alpha in alphas]
    game = TailGame.build(losses, 1.0, base)
    solutions = {}
    # From the largest α on: the solution of an α is a good start for the next smaller one.
    start = None
    for alpha in sorted(set(tail_masses), reverse=True):
        game = replace(game, alpha=alpha)
        optimum = _of_least_mean(game, start)
        start = optimum.lam
        solutions[alpha] = _certified(game, optimum)
    return [solutions[alpha] for alpha in tail_masses]


@one_blas_thread()
def entropic_weights(
    losses: Table, alpha: float, beta: float, base: Column = None, *, start: Column = None
) -> EntropicSolution:
    """Return the unit weights of regularised α-LPBoost for the losses of all rounds.

    min_w γ + (1/β) Σ w_i log(w_i/p_i)   s.t.  ⟨w, ℓ^s⟩ ≥ 1 − γ for all s,  w ∈ Δ,  w_i ≤ p_i/α

    This is (8) of Zhai et al. 2021, with the sign of the constraint of Warmuth et al. 2008. The optimum is
    1 − F, for the least F(λ) of `tailboost.solvers.newton`: λ has T entries, however many units there are.

    Parameters
    ----------
    losses : array-like of shape (T, n)
        Loss of each candidate on each unit.
    alpha : float
        Tail mass in (0, 1].
    beta : float
        Inverse strength of the penalty, positive: β → 0 gives p; β → ∞ gives the totally corrective weights.
    base : array-like of shape (n,), optional
        Base measure; uniform by default.
    start : array-like of shape (≤ T,), optional
        Initial mixture, for example the multipliers of the previous round.

    Returns
    -------
    EntropicSolution
        ``unit_weights`` are w, ``value`` is their objective γ + KL(w ‖ p)/β with γ = 1 − min_t ⟨w, ℓ^t⟩, and
        ``dual_value`` a lower bound for all weights.

    Raises
    ------
    ValueError
        If an argument is outside its range.
    SolverError
        If the gap stays above ``1e-8 (1 + |value|)``.
    """
    beta = check_number(beta, "beta", POSITIVE)
    game = TailGame.build(losses, alpha, base)
    lam = game.first(start)
    scale = game.scale
    scaled = 0.0
    while scaled < beta * scale:  # the solution for a smaller β is a good start
        scaled = min(beta * scale, max(5.0 * scaled, FIRST_BETA))
        respond = partial(entropic, p=game.p, alpha=game.alpha, beta=scaled)
        lam, best = newton(game.losses, respond, lam, REGULARISED_GAP)
    mixture, w = game.expand(lam, best.w)
    value = 1.0 - float(expectations(game.full, w).min()) + scale * best.penalty
    combined = combine(game.losses, lam)
    F = respond(combined).value(combined)
    dual_value = 1.0 - game.offset - scale * F
    gap = value - dual_value
    check_gap(gap, value, 1e-13 * (scale + abs(game.offset)))
    return EntropicSolution(w, mixture, value, dual_value, gap)


def _certified(game: TailGame, optimum: Optimum) -> MixtureSolution:
    """Return the solution with both objectives of the full problem, computed from the returned weights."""
    lam, w = game.expand(optimum.lam, optimum.w)
    combined = combine(game.full, lam)
    worst, threshold = tail(combined, game.alpha, game.full_p)
    value = float(worst @ combined)
    dual_value = float(expectations(game.full, w).min())
    gap = value - dual_value
    check_gap(gap, value, 1e-13 * (game.scale + abs(game.offset)))
    return MixtureSolution(lam, value, dual_value, gap, w, threshold)


def _of_least_mean(game: TailGame, start: Floats | None) -> Optimum:
    """Return the mixture of least CVaR, of several that of nearly the least mean loss."""
    best = solve(game, start)
    expected = game.expected(best.w)
    possible = np.flatnonzero(expected <= expected.min() + TIED)
    if not _is_determined(game, possible, best.w):
        lam = solve_among(game, possible, TIE * game.expected(game.p))
        tied = game.optimum(lam, best.w)
        if tied.gap <= CLOSED:
            return tied._replace(is_closest=best.is_closest)
    return best


def _is_determined(game: TailGame, possible: Ints, w: Floats) -> bool:
    """Return whether there is one optimal mixture λ, of the candidates that may enter.

    In any optimum, units with weights between 0 and their cap have the loss η: Σ_t λ_t ℓ_i^t − η = 0. If
    these equations, or some of them, leave (λ, η) one direction, Σ_t λ_t = 1 determines λ.
    """
    share = w * game.alpha / game.p
    between = np.flatnonzero((share > TIED) & (share < 1 - TIED))
    some = between[:: max(1, between.size // (FEW_FREE_UNITS * possible.size))]
    equations = np.vstack([np.ones(some.size), game.losses[np.ix_(possible, some)]])
    rank = np.linalg.matrix_rank(equations @ equations.T, tol=TIED * some.size, hermitian=True)
    return rank == possible.size


def _closest(game: TailGame, optimum: Optimum) -> Floats:
    """Return the optimal weights closest to p, shape (n,), by their χ² distance.

    Below some ε the regularised weights are optimal, and of all the closest ones (Mangasarian and Meyer
    1979). Only the weights of tied units change.
    """
    tied = np.abs(optimum.combined - optimum.threshold) <= NEAR_BOUNDARY
    # A vertex has no further ties.
    if optimum.is_closest or tied.sum() <= np.count_nonzero(optimum.lam):
        return optimum.w
    free = _free_units(game, tied, optimum.combined > optimum.threshold)
    # Of weights that are optimal, too.
    least = game.expected(optimum.w).min() - 0.1 * DUALITY_GAP
    for epsilon in 10.0 ** -np.arange(3, 8):
        _, best = _regularised(game, free, epsilon, optimum.lam)
        w = free.among_all(best.w)
        if game.expected(w).min() >= least:
            return game.optimum(optimum.lam, w).w
    return optimum.w


def solve(game: TailGame, start: Floats | None = None) -> Optimum:
    """Return the mixture λ of least CVaR + ⟨shift, λ⟩, by the first of three methods that closes the gap.

    ``start`` is a mixture near the optimum, for speed.
    """
    # With one candidate, one unit, at α = 1 and often at large α the best single candidate is optimal. Then
    # come Newton's method, if the program is large, and the linear program.
    n_candidates, n_units = game.losses.shape
    alone = np.zeros(n_candidates)
    alone[game.expected(game.p).argmin()] = 1.0
    best = game.optimum(alone)
    is_large = n_units > max(2 * FEW_FREE_UNITS * n_candidates, SMALL_PROGRAM / n_candidates)
    if best.gap > CLOSED and is_large:
        best = _by_newton(game, start) or best
    if best.gap > CLOSED:
        exact = mixture_program(game.losses, game.p / game.alpha, game.shift)
        best = min(best, game.optimum(*exact), key=lambda optimum: optimum.gap)
    return best


def solve_among(game: TailGame, some: Ints, shift: Floats) -> Floats:
    """Return the best mixture λ of some candidates, with a shift of each candidate, shape (T,)."""
    lam = np.zeros(len(shift))
    lam[some] = solve(replace(game, losses=game.losses[some], shift=shift[some])).lam
    return lam


class _FreeUnits(NamedTuple):
    """The free units of a problem; the weights of all other units are fixed at 0 or at their cap."""

    units: Ints  # numbers of the free units
    weights: Floats  # shape (n,): of the fixed units
    losses: Array  # of the free units
    mass: float  # remaining weight for the free units
    fixed: Floats  # shape (T,): expected losses under the fixed weights, and the shift

    def among_all(self, w: Floats) -> Floats:
        """Return the weights of all units, with these of the free ones."""
        weights = self.weights.copy()
        weights[self.units] = w
        return weights


def _free_units(game: TailGame, free: Mask, above: Mask) -> _FreeUnits:
    """Return the units of the mask ``free``; others are fixed at their cap if ``above``, otherwise at 0.

    All units are free if the fixed units leave no weight, or more than the free units can take.
    """
    cap = game.p / game.alpha
    weights = np.where(above & ~free, cap, 0.0)
    units = np.flatnonzero(free)
    mass = 1.0 - weights.sum()
    if free.all() or not 0.0 < mass < cap[units].sum():
        n = free.size
        return _FreeUnits(np.arange(n), np.zeros(n), game.losses, 1.0, game.shift)
    return _FreeUnits(units, weights, game.losses[:, units], mass, game.expected(weights))


def _regularised(
    game: TailGame, free: _FreeUnits, epsilon: float, lam: Floats, **options: Any
) -> tuple[Floats, BestWeights]:
    """Return the λ and the weights of the free units at ε, from another λ on."""
    respond = partial(
        quadratic, p=game.p[free.units], alpha=game.alpha, epsilon=epsilon, mass=free.mass
    )
    return newton(free.losses, respond, lam, 1e-14, fixed=free.fixed, **options)


def _by_newton(game: TailGame, start: Floats | None) -> Optimum | None:
    """Return the optimum by Newton's method for a falling ε, until few units are free.

    ``start`` is a mixture, shape (T,), or None. Return None if too many units stay free.
    """
    n_candidates, n_units = game.losses.shape
    lam = np.full(n_candidates, 1.0 / n_candidates)
    if start is not None:  # a little of each candidate, so that none has to enter alone
        lam += 0.9 * (start - lam)
    combined = combine(game.losses, lam)
    # At the first ε a good part of the units has free weights. A large ε would spread the weights of a tiny α
    # over more than the tail.
    _, eta = tail(combined, game.alpha, game.p)
    near_boundary = 4 * np.quantile(np.abs(combined - eta), 0.1)
    epsilon = max(game.alpha, 0.01) * max(near_boundary, 0.3 * combined.std(), 1e-3)
    near = np.ones(n_units, bool)
    high = np.inf
    n_free = n_units
    while True:
        free = _free_units(game, near, combined >= high)
        lam, best = _regularised(
            game, free, epsilon, lam, relative_gap=RELATIVE_GAP, max_iter=15
        )
        low, high = best.free
        combined = combine(game.losses, lam)
        n_before = n_free
        n_free = ((combined > low) & (combined < high)).sum()
        if n_free <= FEW_FREE_UNITS * n_candidates or epsilon < LEAST_EPSILON:
            exact = _exact_near_boundary(game, combined)
            if epsilon < LEAST_EPSILON or (exact and exact.gap <= CLOSED):
                return exact
        if n_free > TIED_PART * n_before:  # hardly fewer
            tied = _all_tied(game, free, epsilon, lam)
            if tied.gap <= CLOSED:
                return tied
        epsilon /= SHRINK
        # The weights of other units are neither free nor nearly free.
        margin = MARGIN * (high - low)
        near = (combined > low - margin) & (combined < high + margin)


def _all_tied(game: TailGame, free: _FreeUnits, epsilon: float, lam: Floats) -> Optimum:
    """Return the optimum if the free units tie: weights are optimal below some ε, where λ is linear in ε."""
    at_epsilon, _ = _regularised(game, free, epsilon, lam)
    at_half, best = _regularised(game, free, epsilon / 2, at_epsilon)
    at_zero = np.maximum(2 * at_half - at_epsilon, 0.0)
    lam = at_zero / at_zero.sum()
    return game.optimum(lam, free.among_all(best.w))._replace(is_closest=True)


def _exact_near_boundary(game: TailGame, combined: Floats) -> Optimum | None:
    """Solve exactly for the units nearest to the boundary; add units on its wrong side and repeat.

    ``combined`` are the losses of a mixture, shape (n,), and give the first boundary. The result is None if
    the first units near the boundary are too many for a gain.
    """
    n_candidates, n_units = game.losses.shape
    _, eta = tail(combined, game.alpha, game.p)
    distance = np.abs(combined - eta)
    n_nearest = FEW_FREE_UNITS * n_candidates  # fewer than the units
    near = distance <= np.partition(distance, n_nearest)[n_nearest]
    optimum = None
    while near.sum() < min(4 * n_nearest, n_units / 2):  # else the boundary is another one
        above = combined > eta
        free = _free_units(game, near, above)
        if free.units.size == n_units:
            break
        lam, w = mixture_program(
            free.losses, game.p[free.units] / game.alpha, free.fixed, free.mass
        )
        optimum = game.optimum(lam, free.among_all(w))
        combined = optimum.combined
        eta = optimum.threshold
        on_wrong_side = ~near & (above != (combined > eta))
        if optimum.gap <= CLOSED or not on_wrong_side.any():
            break
        near |= on_wrong_side
    return optimum


def mixture_program(
    losses: Array, cap: Floats, fixed: Floats, mass: float = 1.0
) -> tuple[Floats, Floats]:
    """Return optimal λ and w of max_w min_t (Lw + fixed)_t with 0 ≤ w ≤ cap and Σ w = mass.

    ``losses`` are L, shape (T, n).
    """
    n_candidates, n_units = losses.shape
    # Variables w and the minimum η, which is made large: η − (Lw)_t ≤ fixed_t, and Σ w = mass.
    found = linprog(
        np.append(np.zeros(n_units), -1.0),
        A_ub=np.hstack([-losses.astype(np.float64), np.ones((n_candidates, 1))]),
        b_ub=fixed,
        A_eq=np.append(np.ones(n_units), 0.0)[None],
        b_eq=[mass],
        # No weight exceeds Σ w, so larger caps have no effect.
        bounds=[*((0.0, most) for most in np.minimum(cap, 2.0 * mass)), (None, None)],
        options={"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10},
    )
    if found.x is None:
        return np.full(n_candidates, 1 / n_candidates), cap
    lam = np.maximum(-found.ineqlin.marginals, 0.0)  # the duals of the candidates
    if not lam.any():
        lam = np.ones(n_candidates)
    return lam / lam.sum(), found.x[:-1]
