"""Entropic weights: the totally corrective player with a penalty on the distance from p.

    min_w γ + (1/β) Σ w_i log(w_i/p_i)   s.t.  ⟨w, ℓ^s⟩ ≥ 1 − γ for all s,  w ∈ Δ,  w_i ≤ p_i/α

This is regularised α-LPBoost (Warmuth et al. 2008; Zhai et al. 2021, equation 8, with the sign of the
constraint corrected). Its dual is min_{λ ∈ Δ_T} F(λ) of `tailboost.solvers.newton`. The dual has T variables,
one for each candidate, however many units there are. The optimum is 1 − F.
"""

from __future__ import annotations

from dataclasses import dataclass

from numpy.typing import ArrayLike

from tailboost.core import Floats, one_blas_thread
from tailboost.core.ranges import POSITIVE, check_number
from tailboost.solvers.mixture import TailGame
from tailboost.solvers.newton import Entropic, divergence, newton
from tailboost.solvers.tail import check_gap, combine, expectations

# Target gap on losses in [0, 1]. The gap bounds KL(w ‖ w*)/β, so the error of the weights is at most
# √(β · gap/2): 7e-6 at β = 100.
TARGET = 1e-12
# The first β, on losses in [0, 1].
FIRST_BETA = 200.0


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
    """

    unit_weights: Floats
    mixture: Floats
    value: float
    dual_value: float
    gap: float


@one_blas_thread()
def entropic_weights(
    losses: ArrayLike,
    alpha: float,
    beta: float,
    base: ArrayLike | None = None,
    *,
    start: ArrayLike | None = None,
) -> EntropicSolution:
    """Return the unit weights of regularised α-LPBoost for the losses of all rounds.

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
    scaled = 0.0
    while scaled < beta * game.scale:  # the solution for a smaller β is a good start
        scaled = min(beta * game.scale, max(5.0 * scaled, FIRST_BETA))
        best_weights = Entropic(game.p, game.alpha, scaled)
        solution = newton(game.losses, best_weights, lam, TARGET)
        lam = solution.lam
    mixture, w = game.expand(solution.lam, solution.w)
    penalty = divergence(solution.w / game.p - 1.0, game.p) / beta
    value = 1.0 - float(expectations(game.full, w).min()) + penalty
    combined = combine(game.losses, solution.lam)
    F = best_weights(combined).value(combined)
    dual_value = 1.0 - game.offset - game.scale * F
    gap = value - dual_value
    check_gap("entropic_weights", gap, value, 1e-13 * (game.scale + abs(game.offset)))
    return EntropicSolution(w, mixture, value, dual_value, gap)
