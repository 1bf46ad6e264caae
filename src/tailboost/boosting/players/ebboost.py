"""The EBBoost player: the exact line search on the variance-penalised cost."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tailboost.boosting.players.additive_player import AdditiveState, coded_step
from tailboost.boosting.players.vada import VariancePenalised


@dataclass(frozen=True)
class EBBoost(VariancePenalised):
    """``a = ¼ log(P/Q)`` with ``P = (1−λ)A² + λC`` over the rows that are right, Q over those that are wrong.

    A = Σ_I w, C = Σ_I w²/p, and likewise B, D over J: two classes only (Shivaswamy and Jebara 2010). The
    cost after the step, 2√(PQ) + 2(1−λ)AB, is the criterion by which `tailboost.learners.StumpClassifier`
    chooses the stump. It gets plain w; it has p and computes w²/p.
    """

    def step(self, wrong: NDArray[np.bool_], state: AdditiveState) -> float:
        """Return the minimiser of the cost along the hypothesis."""
        w = self.player(state)
        square = w * (w / state.base)

        def half(rows: NDArray[np.bool_]) -> float:  # P or Q
            return float(
                (1 - self.variance_weight) * w[rows].sum() ** 2 + self.variance_weight * square[rows].sum()
            )

        return coded_step(half(~wrong), half(wrong), self.n_classes) / 2
