"""Distributionally robust boosting (Blanchet et al. 2019): the worst case over a ball around the data.

Margin losses are computed by their logarithms. Over many rounds margins reach the thousands, and one row may
hold nearly all the loss. The loss and its slope then overflow or underflow, but their logarithms do not.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from scipy.optimize import brentq

from tailboost.boosting.game import normalised_exp
from tailboost.boosting.players.additive_player import (
    FLAWLESS,
    PERFECT_STEP,
    Additive,
    AdditiveState,
    Weighed,
    exponential_step,
)
from tailboost.core.array_types import Floats, Mask, UnitLosses
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


def _log_hinge(margins: Floats) -> Floats:
    """Return ``log L(m)`` of the smoothed hinge loss, shape (n,)."""
    slack = np.maximum(1.0 - margins, 0.0)
    with np.errstate(divide="ignore", over="ignore"):
        return np.log(np.where(slack < 1.0, 0.5 * slack**2, slack - 0.5))


def _log_hinge_slope(margins: Floats) -> Floats:
    """Return ``log(−L′(m))`` of the smoothed hinge loss, shape (n,)."""
    with np.errstate(divide="ignore"):
        return np.log(np.clip(1.0 - margins, 0.0, 1.0))


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
class WorstCase:
    """``F(f) = max { Σ w_i L(m_i) : w in the ball of radius δ around p }``.

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

    n_classes: int
    radius: float
    uncertainty: Uncertainty = "kl"
    loss: str = "exponential"
    smoothing: float = 0.0

    no_step: ClassVar[str] = "no step along the newest base model lowers the worst-case loss"

    def weigh(self, margins: Floats, base: Floats) -> Weighed:
        """Return the worst case w at margins m, and the learner weights ``u_i ∝ w_i (−L′(m_i))``.

        ``margins`` and the base measure p, ``base``, have shape (n,). Losses at large negative margins
        overflow. So they are divided by the largest, and costs and slopes are logarithms; the gap is of the
        divided losses. At zero margins all losses are equal, so the worst case is p.
        """
        # Rows outside of p get the loss 0.
        losses, log_top = scaled_losses(self.loss, np.where(base > 0, margins, np.inf))
        smoothing = 0.0
        if self.smoothing > 0:  # divided by the largest loss, as the losses are
            smoothing = float(np.exp(min(np.log(self.smoothing) - log_top, LOG_LARGE)))
        solution = worst_case_weights(
            losses, self.uncertainty, radius=self.radius, base=base, smoothing=smoothing
        )
        w = solution.unit_weights
        with np.errstate(divide="ignore"):  # the logarithm of 0 is −∞
            log_cost = log_top + float(np.log(solution.value))
            log_u = np.log(w) + MARGIN_LOSSES[self.loss].log_slope(margins)
        u = np.zeros(len(w))
        if log_u.max() > -np.inf:  # the slope is not 0 everywhere
            u, _ = normalised_exp(log_u)
        return Weighed(w, u, log_cost, solution.gap)

    def step(self, wrong: Mask, state: AdditiveState) -> float:
        """Return the minimiser of ``F(f + a h)`` over a ≥ 0."""
        u = state.learner_weights
        z = np.where(wrong, -1.0 / (self.n_classes - 1), 1.0)
        # The first guess is the step of AdaBoost.
        high = exponential_step(float(u[~wrong].sum()), float(u[wrong].sum()), self.n_classes)
        return self.minimiser(z, high, state)

    def minimiser(self, z: Floats, high: float, state: AdditiveState) -> float:
        """Return the minimiser of ``F`` at margins ``m + a z`` over a ≥ 0, from the first guess ``high`` > 0.

        z, shape (n,), is the change of the margins for a = 1. ``F′(a) = −Σ u_i z_i`` up to a positive factor,
        with the learner weights u at a. A first guess, or a result, of almost 0 becomes 0.
        """

        def descent(a: float) -> float:
            # −F′(a) up to a positive factor, which falls with a.
            weighed = self.weigh(state.margins + a * z, state.base)
            return float((weighed.pull * z).sum())  # no BLAS, which would start threads

        if not high > _LEAST_STEP:
            return 0.0
        low = 0.0
        high = min(high, 1.0 + float(np.ptp(state.margins)))  # the first guess may be infinite
        while descent(high) > 0:
            low = high
            high = 2.0 * high
        relative = 4 * np.finfo(float).eps
        a = float(brentq(descent, low, high, xtol=_STEP_ACCURACY, rtol=relative, maxiter=500))
        if a > _LEAST_STEP:
            return a
        return 0.0


@dataclass(frozen=True)
class RealAdditive(Additive):
    """`Additive` for real-valued base models h, K scores that sum to 0, with losses (1 − h_y)/2.

    The learner is fitted to the gradient instead of to weighted labels, so h is the gradient's
    projection. The cost is `WorstCase`.
    """

    def update(self, state: AdditiveState, losses: UnitLosses) -> AdditiveState:
        """Return the state after a real-valued base model with ``losses`` (1 − h_y)/2, shape (n,).

        A base model in the wrong direction gets no step and ends the game. A model that is right on all rows
        of two classes gets the longest step so far and ends the game.
        """
        z = 1.0 - 2.0 * np.asarray(losses, dtype=np.float64)  # h_y, positive for a right answer
        if not (state.learner_weights * z).sum() > 0:
            return self.unmoved(state, self.cost.no_step)
        is_right = z[state.base > 0] > 0
        if not is_right.all():
            length = self.learning_rate * self.cost.minimiser(z, 1.0, state)
            if length == 0.0:
                return self.unmoved(state, self.cost.no_step)
            return self.moved(state, z, length)
        # The cost falls with the length of the step, so no length is the best.
        if self.cost.n_classes == 2:
            longest_step = max(state.steps, default=PERFECT_STEP)
            return self.moved(state, z, longest_step, FLAWLESS)
        # Longer steps never raise the cost, but the true class's positive score may not be the largest.
        return self.moved(state, z, self.learning_rate * PERFECT_STEP)
