"""Losses of the margin ``m = y f(x)``: convex, non-increasing, and kept as logarithms.

Over many rounds margins reach the thousands, and one row may hold nearly all the loss. ``L`` and its slope
then overflow or underflow, but their logarithms do not.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from tailboost.core.array_types import Floats

# Beyond this margin log(1 + e^(−m)) is e^(−m) to the last bit.
_LARGE = 40.0


@dataclass(frozen=True)
class MarginLoss:
    """A loss by its logarithms."""

    log_value: Callable[[Floats], Floats]  # ``log L(m)``, −∞ where the loss is 0
    log_slope: Callable[[Floats], Floats]  # ``log(−L′(m))``, −∞ where the loss is flat


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
    """Return the losses as multiples of the largest, and the logarithm of the largest (−∞: all are 0)."""
    log_value = MARGIN_LOSSES[loss].log_value(margins)
    log_top = float(log_value.max())
    if log_top == -np.inf:
        return np.zeros(len(margins)), log_top
    return np.exp(log_value - log_top), log_top
