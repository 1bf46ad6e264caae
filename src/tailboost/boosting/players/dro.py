"""Distributionally robust boosting (Blanchet et al. 2019): the worst case over a ball around the data.

Margin losses are computed by their logarithms. Over many rounds margins reach the thousands, and one row may
hold nearly all the loss. The loss and its slope then overflow or underflow, but their logarithms do not.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq

from tailboost.boosting.game import Stop, StopKind, Units, normalised_exp
from tailboost.boosting.players.additive_player import (
    PERFECT_STEP,
    AdditivePlayer,
    AdditiveState,
    exponential_step,
)
from tailboost.core.array_types import Floats
from tailboost.solvers import worst_case_weights
from tailboost.solvers.worst_case import Uncertainty

# If the objective has a kink at 0 and no step lowers it, root finding returns a tiny step. Steps below this
# length count as 0.
_LEAST_STEP = 1e-10
_STEP_ACCURACY = 1e-14
# Upper limit of log(σ / largest loss). At this ratio the worst-case weights equal p to the last digit.
LOG_LARGE = 200.0
# For larger margins, log(1 + e^(−m)) equals e^(−m) to the last bit.
_LARGE = 40.0


@dataclass(frozen=True)
class MarginLoss:
    """A loss, given by its logarithms."""

    log_value: Callable[[Floats], Floats]  # ``log L(m)``, −∞ for a loss of 0
    log_slope: Callable[[Floats], Floats]  # ``log(−L′(m))``, −∞ for a slope of 0


def _log_hinge(m: Floats) -> Floats:
    slack = np.maximum(1.0 - m, 0.0)
    with np.errstate(divide="ignore", over="ignore"):
        return np.log(np.where(slack < 1.0, 0.5 * slack**2, slack - 0.5))


def _log_hinge_slope(m: Floats) -> Floats:
    with np.errstate(divide="ignore"):
        return np.log(np.clip(1.0 - m, 0.0, 1.0))


MARGIN_LOSSES: dict[str, MarginLoss] = {
    # e^(−m)
    "exponential": MarginLoss(lambda m: -m, lambda m: -m),
    # log(1 + e^(−m)), slope −1/(1 + e^m)
    "logistic": MarginLoss(
        lambda m: np.where(m > _LARGE, -m, np.log(np.logaddexp(0.0, -np.minimum(m, _LARGE)))),
        lambda m: -np.logaddexp(0.0, m),
    ),
    # 0 from m = 1 on, (1 − m)²/2 on (0, 1), ½ − m below (Rennie and Srebro 2005)
    "smoothed_hinge": MarginLoss(_log_hinge, _log_hinge_slope),
}


def scaled_losses(loss: str, margins: Floats) -> tuple[Floats, float]:
    """Return the losses divided by the largest, and the logarithm of the largest (−∞ if all are 0)."""
    log_value = MARGIN_LOSSES[loss].log_value(margins)
    log_top = float(log_value.max())
    if log_top == -np.inf:
        return np.zeros(len(margins)), log_top
    return np.exp(log_value - log_top), log_top


@dataclass(frozen=True)
class WorstCaseState(AdditiveState):
    """State with the worst-case weights, the cost and the gap of their solution."""

    w: Floats = field(default_factory=lambda: np.empty(0))
    log_cost: float = 0.0
    gap: float = 0.0


@dataclass(frozen=True)
class WorstCase(AdditivePlayer):
    """Boosting on ``F(f) = max { Σ w_i L(m_i) : w in the ball of radius δ around p }``.

    The learner is fitted with the functional gradient ``u_i = w_i (−L′(m_i))``. The step minimises
    ``F(f + a h)``, which is convex in a. Radius 0 with the exponential loss is AdaBoost.

    Parameters
    ----------
    n_classes : int
        K.
    radius : float
        δ ≥ 0, on the scale of `tailboost.solvers.worst_case_weights`.
    uncertainty : {"kl", "chi2", "cvar"}
        The ball.
    loss : {"exponential", "logistic", "smoothed_hinge"}
        L.
    smoothing : float
        σ ≥ 0. If positive, F is max { Σ w_i L(m_i) − σ KL(w ‖ p) }, which has no kinks.
    """

    radius: float
    uncertainty: Uncertainty = "kl"
    loss: str = "exponential"
    smoothing: float = 0.0

    no_step: ClassVar[str] = "no step along the newest base model lowers the worst-case loss"

    def worst_case(self, state: AdditiveState) -> WorstCaseState:
        """Return the state with its worst case; the gap is relative to the largest loss."""
        if isinstance(state, WorstCaseState):
            return state
        losses, log_top = scaled_losses(
            self.loss, np.where(state.base > 0, state.margins, np.inf)
        )
        solution = worst_case_weights(
            losses,
            self.uncertainty,
            radius=self.radius,
            base=state.base,
            smoothing=self._relative_smoothing(log_top),
        )
        with np.errstate(divide="ignore"):
            log_cost = log_top + float(np.log(solution.value))
        return WorstCaseState(
            **vars(state), w=solution.unit_weights, log_cost=log_cost, gap=solution.gap
        )

    def _relative_smoothing(self, log_top: float) -> float:
        """Return σ divided by the largest loss, at most e^LOG_LARGE."""
        if self.smoothing == 0:
            return 0.0
        return float(np.exp(min(np.log(self.smoothing) - log_top, LOG_LARGE)))

    def start(self, units: Units) -> AdditiveState:
        """Return the state with zero margins. All losses are equal there, so the worst case is p."""
        return self.worst_case(super().start(units))

    def update(self, state: AdditiveState, losses: NDArray[Any]) -> AdditiveState:
        """Add the base model with its step, and solve for the new worst case."""
        new = super().update(state, losses)
        return self.worst_case(AdditiveState(new.base, new.margins, new.steps, new.verdict))

    def row_weights(self, state: AdditiveState) -> Floats:
        """Return the worst-case weights."""
        return self.worst_case(state).w

    def fit_weights(self, w: Floats, state: AdditiveState) -> Floats:
        """Return ``u_i ∝ w_i (−L′(m_i))`` with sum 1; zeros if the objective is flat."""
        with np.errstate(divide="ignore"):
            log_u = np.log(w) + MARGIN_LOSSES[self.loss].log_slope(state.margins)
        if log_u.max() == -np.inf:
            return np.zeros(len(w))
        return normalised_exp(log_u)[0]

    def step(self, wrong: NDArray[np.bool_], state: AdditiveState) -> float:
        """Return the minimiser of ``F(f + a h)`` over a ≥ 0."""
        u = self.weights(state)
        high = exponential_step(float(u[~wrong].sum()), float(u[wrong].sum()), self.n_classes)
        return self.minimiser(np.where(wrong, -1.0 / (self.n_classes - 1), 1.0), high, state)

    def minimiser(self, z: Floats, high: float, state: AdditiveState) -> float:
        """Return the minimiser of ``F`` at margins ``m + a z`` over a ≥ 0, from the first guess ``high`` > 0.

        ``F′(a) = −Σ u_i z_i`` up to a positive factor. The weights u are those of the worst case at a.
        """

        def descent(a: float) -> float:
            tried = self.worst_case(AdditiveState(state.base, state.margins + a * z))
            return float(
                (self.fit_weights(tried.w, tried) * z).sum()
            )  # no BLAS, which would start threads

        if not high > _LEAST_STEP:
            return 0.0
        low = 0.0
        high = min(high, 1.0 + float(np.ptp(state.margins)))
        while descent(high) > 0:
            low = high
            high = 2.0 * high
        a = float(
            brentq(
                descent,
                low,
                high,
                xtol=_STEP_ACCURACY,
                rtol=4 * np.finfo(float).eps,
                maxiter=500,
            )
        )
        if a > _LEAST_STEP:
            return a
        return 0.0

    def log_cost(self, state: AdditiveState) -> float:
        """Return ``log F``."""
        return self.worst_case(state).log_cost

    def gap(self, state: AdditiveState) -> float:
        """Return the gap of the worst case, relative to the largest loss."""
        return self.worst_case(state).gap

    def finished(self, state: AdditiveState) -> Stop | None:
        """Return the reason to end the game, or None to continue."""
        if not state.verdict and self.log_cost(state) == -np.inf:
            return Stop(StopKind.RULE, "the worst-case loss is 0")
        return super().finished(state)


@dataclass(frozen=True)
class RealWorstCase(WorstCase):
    """`WorstCase` for real-valued base models h, K scores that sum to 0, with losses (1 − h_y)/2.

    The learner is fitted to the gradient instead of to weighted labels, so that h is the gradient's
    projection.
    """

    def update(self, state: AdditiveState, losses: NDArray[Any]) -> AdditiveState:
        """Add the base model with its step, and solve for the new worst case."""
        z = 1.0 - 2.0 * np.asarray(losses, dtype=np.float64)
        u = self.weights(state)
        if not (u * z).sum() > 0:
            return replace(state, steps=(*state.steps, 0.0), verdict=self.no_step)
        verdict = ""
        if not (z[state.base > 0] > 0).all():
            a = self.learning_rate * self.minimiser(z, 1.0, state)
            if a == 0.0:
                return replace(state, steps=(*state.steps, 0.0), verdict=self.no_step)
        elif (
            self.n_classes == 2
        ):  # right on all rows: the cost falls with the length of the step
            a = max(state.steps, default=PERFECT_STEP)
            verdict = "a base model made no error; it got the longest step so far"
        else:  # longer steps never raise the cost, but the true class's positive score may not be the largest
            a = self.learning_rate * PERFECT_STEP
        return self.worst_case(
            AdditiveState(state.base, state.margins + a * z, (*state.steps, a), verdict)
        )
