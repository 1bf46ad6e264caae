"""Entropic weights: the totally corrective player with a penalty on the distance from p.

    min_w γ + (1/β) Σ w_i log(w_i/p_i)   s.t.  ⟨w, ℓ^s⟩ ≥ 1 − γ for all s,  w ∈ Δ,  w_i ≤ p_i/α

This is regularised α-LPBoost (Warmuth et al. 2008; Zhai et al. 2021, equation 8, with the sign of the
constraint corrected). Its dual is min_{λ ∈ Δ_T} F(λ) of `tailboost.solvers.regularized`. The dual has T
variables, one for each candidate, however many units there are. The optimum is 1 − F.
"""

from __future__ import annotations

from dataclasses import dataclass

from numpy.typing import ArrayLike

from tailboost.core.array_types import Floats
from tailboost.core.checks import check_number
from tailboost.core.long_work import one_blas_thread
from tailboost.solvers.bits import Losses, starting_mixture
from tailboost.solvers.mixture import linear_program
from tailboost.solvers.regularized import Entropic, divergence, newton, refined
from tailboost.solvers.tail_game import TailGame


@dataclass(frozen=True)
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
    method : str
        "newton" or "linear-program".
    """

    unit_weights: Floats
    mixture: Floats
    value: float
    dual_value: float
    gap: float
    method: str


@one_blas_thread
def entropic_weights(
    losses: Losses,
    alpha: float,
    beta: float,
    base: ArrayLike | None = None,
    *,
    start: ArrayLike | None = None,
) -> EntropicSolution:
    """Return the unit weights of regularised α-LPBoost for the losses of all rounds.

    Parameters
    ----------
    losses : array-like of shape (T, n) or BitLosses
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
        If no method closes the gap to ``1e-8 (1 + |value|)``.
    """
    beta = check_number(beta, "beta", 0)
    problem = TailGame.build(losses, alpha, base)
    reduced_start = problem.reduce_mixture(starting_mixture(start, problem.full.shape[0]))
    best = None
    for method in ENTROPIC_METHODS:
        lam, w, name = method(problem, beta * problem.scale, reduced_start)
        solution = _certify(problem, beta, lam, w, name)
        if best is None or solution.gap < best.gap:
            best = solution
        if best.gap <= problem.tolerance(best.value):
            return best
    assert best is not None
    raise problem.error("entropic_weights", best.gap, problem.tolerance(best.value))


#: Target gap on the reduced problem (losses in [0, 1]). The gap bounds KL(w ‖ w*)/β, so the error of the
#: weights is at most √(β · gap/2): 7e-6 at β = 100.
_TARGET = 1e-12


def _by_newton(problem: TailGame, beta: float, start: Floats) -> tuple[Floats, Floats, str]:
    """Return λ, w and the name of the method, by Newton's method from ``start``."""
    solution = newton(problem.losses, Entropic(problem.p, problem.alpha, beta), start, _TARGET)
    return solution.lam, solution.w, "newton"


def _by_linear_program(
    problem: TailGame, beta: float, start: Floats
) -> tuple[Floats, Floats, str]:
    """Return λ, w and the name of the method, by the program without the penalty."""
    # A very large β hardly changes the solution of the program without the penalty.
    return *linear_program(problem), "linear-program"


def _by_both(problem: TailGame, beta: float, start: Floats) -> tuple[Floats, Floats, str]:
    """Return λ, w and the name of the method, by Newton's method from the linear program's λ."""
    lam, *_ = linear_program(problem)
    best_weights = Entropic(problem.p, problem.alpha, beta)
    solution = newton(problem.losses, best_weights, lam, _TARGET)
    solution = refined(problem.losses, best_weights, solution)
    return solution.lam, solution.w, "newton"


#: Methods, fastest first. The next one is tried if a gap remains.
ENTROPIC_METHODS = (_by_newton, _by_both, _by_linear_program)


def _certify(
    problem: TailGame, beta: float, lam: Floats, w: Floats, method: str
) -> EntropicSolution:
    """Return the solution with both objectives: the value of w on the full problem and the bound 1 − F(λ).

    ``lam`` and ``w`` are the mixture and the weights of the reduced problem with scaled losses.
    """
    unit_weights = problem.expand(w)
    penalty = divergence(w / problem.p - 1.0, problem.p) / beta
    value = 1.0 - float(problem.full.expectations(unit_weights).min()) + penalty
    combined = problem.losses.combine(lam)
    best_weights = Entropic(problem.p, problem.alpha, beta * problem.scale)(combined)
    reduced_F = float(best_weights.w @ combined) - best_weights.penalty
    dual_value = 1.0 - problem.offset - problem.scale * reduced_F
    mixture = problem.expand_mixture(lam)
    gap = value - dual_value
    return EntropicSolution(unit_weights, mixture, value, dual_value, gap, method)
