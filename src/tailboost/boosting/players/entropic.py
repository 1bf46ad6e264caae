"""The entropy-regularised totally corrective player of regularised α-LPBoost."""

from __future__ import annotations

import math
from dataclasses import dataclass

from tailboost.boosting.players.history import History, TotallyCorrective
from tailboost.solvers import EntropicSolution, entropic_weights


def entropic_theory(alpha: float, delta: float) -> tuple[float, int]:
    """Return β and T after which the training CVaR_α is at most δ > 0 above the largest weighted loss.

    ``β = max{(2/δ) log(1/α), 1/2}`` and ``T = ⌈max{(32/δ²) log(1/α), 8/δ}⌉``: Warmuth et al. 2008, as Zhai et
    al. 2021 apply it.
    """
    log_inverse = math.log(1 / alpha)
    return max(2 / delta * log_inverse, 0.5), math.ceil(max(32 / delta**2 * log_inverse, 8 / delta))


@dataclass(frozen=True)
class EntropicLP(TotallyCorrective):
    """``argmin_w γ + KL(w‖p)/β`` s.t. ``⟨w, ℓ^s⟩ ≥ 1 − γ``, ``w ∈ Δ``, ``w_i ≤ p_i/α``.

    Warmuth et al. 2008, and equation 8 of Zhai et al. 2021, where the sign of the constraint is wrong: the
    program printed there is unbounded.

    Parameters
    ----------
    alpha, outlier_fraction : float
        As for `TotallyCorrective`.
    beta : float
        Inverse strength of the regularisation, β > 0.
    """

    beta: float = 100.0

    @property
    def symbols(self) -> dict[str, str]:
        """What β stands for."""
        return {"β": f"{self.beta:g}: 1/β is the strength of the penalty on the distance from p"}

    def solve(self, past: History) -> EntropicSolution:
        """Solve the regularised program, warm from the last multipliers."""
        kept, start = past.kept(self.outlier_fraction), past.warm_start
        return entropic_weights(past.losses, self.alpha, self.beta, kept, start=start)
