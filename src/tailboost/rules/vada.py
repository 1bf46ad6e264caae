"""The variance-penalised cost, and the VadaBoost player that lowers a bound of it at every round."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tailboost._typing import Floats
from tailboost.game import normalised
from tailboost.rules.additive import Additive, AdditiveState, coded_step, exponential_weights


@dataclass(frozen=True)
class LogCost:
    """Logarithms of the variance-penalised cost and of its parts."""

    # log of (Σ p e^(−m))² + λ (Σ p e^(−2m) − (Σ p e^(−m))²): cost (3) of Shivaswamy and Jebara 2011, over n²
    # for uniform p.
    cost: float
    mean: float  # log of (Σ p e^(−m))²
    # log of Σ p e^(−2m) − (Σ p e^(−m))², the variance of e^(−m) under p; −inf where the margins are equal.
    variance: float


def variance_cost(margins: Floats, base: Floats, variance_weight: float) -> LogCost:
    """Variance-penalised cost of margins, in the log domain: large margins neither overflow nor vanish.

    Margins are ``m_i = Σ_s a_s z_i^s``, for two classes ``y_i f(x_i)``; the base p ≥ 0 sums to 1, and λ ≥ 0
    is the weight of the variance.
    """
    with np.errstate(divide="ignore"):
        first, second = (normalised(np.log(base) - power * margins)[1] for power in (1, 2))
        centred = np.expm1(-margins - first)  # e^(−m) over its mean, minus 1: nothing cancels in the variance
        variance = 2 * first + np.log(base @ (centred - base @ centred) ** 2)
        if variance_weight <= 1:
            cost = np.logaddexp(np.log1p(-variance_weight) + 2 * first, np.log(variance_weight) + second)
        else:  # 1 − λ has no logarithm
            cost = np.logaddexp(2 * first, np.log(variance_weight) + variance)
    return LogCost(float(cost), 2 * first, float(variance))


@dataclass(frozen=True)
class VariancePenalised(Additive):
    """What VadaBoost and EBBoost share: ``w_i ∝ p_i exp(−m_i)`` and the cost.

    Parameters
    ----------
    n_classes : int
        K.
    variance_weight : float
        λ ≥ 0; for VadaBoost at most 1, where the weights it fits with stay non-negative.
    """

    variance_weight: float

    def player(self, state: AdditiveState) -> Floats:
        """Return the exponential weights."""
        return exponential_weights(state)[0]

    def log_cost(self, state: AdditiveState) -> float:
        """Return the logarithm of the variance-penalised cost."""
        return variance_cost(state.margins, state.base, self.variance_weight).cost


@dataclass(frozen=True)
class VadaBoost(VariancePenalised):
    """``u = λw²/p + (1−λ)w`` and ``a = ((K−1)/(2K)) log((K−1) Σ_I u / Σ_J u)``.

    By Jensen's inequality (Σw = 1) the cost along a hypothesis,

        V(a) = (1−λ)(Σ w z)² + λ Σ w² z²/p  ≤  Σ u z² = Σ_I u e^(−2a) + Σ_J u e^(2a/(K−1)),

    is bounded by what the step minimises, exact at a = 0: the cost falls at every step. For K = 2 this is
    the algorithm of Shivaswamy and Jebara 2011; for more classes it holds the same way.
    """

    def fit_weights(self, w: Floats, state: AdditiveState) -> Floats:
        """Return ``u``."""
        return self.variance_weight * w * (w / state.base) + (1 - self.variance_weight) * w

    def step(self, wrong: NDArray[np.bool_], state: AdditiveState) -> float:
        """Return the minimiser of the bound along the hypothesis."""
        u = self.fit_weights(self.player(state), state)
        return coded_step(float(u[~wrong].sum()), float(u[wrong].sum()), self.n_classes) / 2
