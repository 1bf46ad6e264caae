"""The AdaBoost player, the reference of all additive ones."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tailboost.boosting.players.additive_player import (
    AdditivePlayer,
    AdditiveState,
    coded_step,
    exponential_weights,
)
from tailboost.core.array_types import Floats


@dataclass(frozen=True)
class AdaBoost(AdditivePlayer):
    """``w_i ∝ p_i exp(−m_i)`` and ``a = ((K−1)/K) log((K−1) Σ_I w / Σ_J w)`` (for K = 2, ½ log Σ_I w/Σ_J w).

    The same classifier as SAMME, whose steps are K/(K−1) times these.
    """

    def player(self, state: AdditiveState) -> Floats:
        """Return the exponential weights."""
        return exponential_weights(state)[0]

    def log_cost(self, state: AdditiveState) -> float:
        """Return the logarithm of the mean exponential loss."""
        return exponential_weights(state)[1]

    def step(self, wrong: NDArray[np.bool_], state: AdditiveState) -> float:
        """Return the minimiser of the exponential loss along the hypothesis."""
        w = self.player(state)
        return coded_step(float(w[~wrong].sum()), float(w[wrong].sum()), self.n_classes)
