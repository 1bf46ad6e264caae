"""The mixture program (3) and its dual (4): the mixture with the smallest CVaR and the worst-case weights.

min_{λ ∈ Δ_T} CVaR_α(Σ_t λ_t ℓ^t)  =  max_w min_t ⟨w, ℓ^t⟩   s.t. w ∈ Δ, w_i ≤ p_i/α        (Zhai et al. 2021)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from tailboost.core.array_types import Floats
from tailboost.core.checks import check_alpha
from tailboost.core.threads import one_blas_thread
from tailboost.solvers.bits import DenseLosses, Losses, starting_mixture
from tailboost.solvers.canonical import make_canonical
from tailboost.solvers.linear_program import mixture_program
from tailboost.solvers.tail_game import Optimum, TailGame, feasible, tail
from tailboost.solvers.working_set import by_newton

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
    n_iter : int
        Iterations of the method.
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
    n_iter: int
    method: str
    threshold: float


@one_blas_thread
def minimize_cvar_mixture(
    losses: Losses,
    alpha: float,
    base: npt.ArrayLike | None = None,
    *,
    start: npt.ArrayLike | None = None,
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
        Whether to select among several optima, so that the solution does not depend on the method. The
        canonical mixture has the smallest mean loss under p, then it is a vertex that prefers earlier
        candidates. The canonical weights are closest to p in the χ² distance ½ Σ (w_i − p_i)²/p_i.

    Returns
    -------
    MixtureSolution

    Raises
    ------
    ValueError
        If an argument is outside its range.
    SolverError
        If no method closes the gap to ``1e-8 (1 + |value|)``.
    """
    problem = TailGame.build(losses, alpha, base)
    given = None if start is None else problem.reduce_mixture(starting_mixture(start, problem.full.shape[0]))
    return _solve(problem, given, canonical)[0]


@one_blas_thread
def mixture_path(
    losses: Losses, alphas: Sequence[float] | Floats, base: npt.ArrayLike | None = None
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
    levels = [check_alpha(alpha, "alphas") for alpha in alphas]
    if not levels:
        return []
    problem = TailGame.build(losses, levels[0], base)
    solutions: dict[int, MixtureSolution] = {}
    near: Floats | None = None  # the solution at the previous α
    for i in np.argsort(levels)[::-1]:
        solutions[i], near = _solve(replace(problem, alpha=levels[i]), near, True)
    return [solutions[i] for i in range(len(levels))]


def _solve(problem: TailGame, start: Floats | None, canonical: bool) -> tuple[MixtureSolution, Floats]:
    """Return the solution, and its mixture in the reduced problem."""
    optimum = _single_candidate(problem)
    if optimum is None or not optimum.closed:
        optimum = _first_closed(problem, start)
    if canonical:
        optimum = make_canonical(problem, optimum)
    return _certify(problem, optimum), optimum.lam


def _single_candidate(problem: TailGame) -> Optimum | None:
    """Return the best single candidate if its dual bound equals its value, otherwise None.

    No mixture is then better. This holds with one candidate, with one unit, at α = 1 and often at large α.
    The candidate has the smallest mean loss and the weights are closest to p, so both are canonical.
    """
    p, n_candidates = problem.p, problem.losses.shape[0]
    means = problem.losses.expectations(p)
    # A tolerance keeps rounding from deciding between equal candidates.
    best = int(np.flatnonzero(means <= means.min() + 1e-14)[0])
    lam = np.zeros(n_candidates)
    lam[best] = 1.0
    optimum = problem.optimum(lam, p if problem.alpha >= ERM else None, 0, "closed-form")
    optimum.canonical = True
    # The shortcut is accepted only if its gap is rounding.
    return optimum if optimum.gap <= (1e-10 if problem.alpha >= ERM else 1e-13) else None


def _first_closed(problem: TailGame, start: Floats | None) -> Optimum:
    """Try the methods in turn until the gap is closed."""
    best: Optimum | None = None
    for method in METHODS:
        optimum = method(problem, start)
        if optimum is not None and (best is None or optimum.gap < best.gap):
            best = optimum
        if best is not None and best.closed:
            break
    assert best is not None
    return best


def _by_linear_program(problem: TailGame, start: Floats | None) -> Optimum:
    columns = problem.losses.columns(np.arange(problem.p.size))
    lam, w, n_iter = mixture_program(columns, problem.cap)
    return problem.optimum(lam, feasible(w, problem.cap), n_iter, "linear-program")


#: Methods, fastest first. The next one is tried if a gap remains.
METHODS: tuple[Callable[[TailGame, Floats | None], Optimum | None], ...] = (by_newton, _by_linear_program)


def _certify(problem: TailGame, optimum: Optimum) -> MixtureSolution:
    """Return the solution with both objectives of the full problem, computed from the returned weights."""
    w, lam = problem.expand(optimum.w), problem.expand_mixture(optimum.lam)
    # Scaled real losses have rounding errors, so their objectives are computed again.
    value, dual_value, threshold = optimum.value, optimum.bound, optimum.threshold
    if isinstance(problem.full, DenseLosses):
        combined = problem.full.combine(lam)
        worst, threshold = tail(combined, problem.alpha, np.broadcast_to(problem.full_p, combined.shape))
        value, dual_value = float(worst @ combined), float(problem.full.expectations(w).min())
    gap = value - dual_value
    # A negative gap would show infeasible weights.
    if not abs(gap) <= problem.tolerance(value):
        raise problem.error("minimize_cvar_mixture", gap, problem.tolerance(value))
    return MixtureSolution(lam, value, dual_value, gap, w, optimum.n_iter, optimum.method, threshold)
