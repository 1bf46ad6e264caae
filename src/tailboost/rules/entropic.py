"""The entropy-regularised totally corrective player of regularised α-LPBoost."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from numpy.typing import NDArray

from tailboost._typing import Floats
from tailboost.game import Rule, Units
from tailboost.rules.history import History
from tailboost.solvers import entropic_weights


def entropic_theory(alpha: float, delta: float) -> tuple[float, int]:
    """Return β and T after which the training CVaR_α is at most δ above the largest weighted loss.

    ``β = max{(2/δ) log(1/α), 1/2}`` and ``T = ⌈max{(32/δ²) log(1/α), 8/δ}⌉``: Warmuth et al. 2008, as Zhai et
    al. 2021 apply it.

    Parameters
    ----------
    alpha : float
        α in (0, 1].
    delta : float
        δ > 0.
    """
    log_inverse = math.log(1 / alpha)
    return max(2 / delta * log_inverse, 0.5), math.ceil(max(32 / delta**2 * log_inverse, 8 / delta))


@dataclass(frozen=True)
class EntropicLP(Rule[History]):
    """``argmin_w γ + KL(w‖p)/β`` s.t. ``⟨w, ℓ^s⟩ ≥ 1 − γ``, ``w ∈ Δ``, ``w_i ≤ p_i/α``.

    Warmuth et al. 2008, and equation 8 of Zhai et al. 2021, where the sign of the constraint is wrong: the
    program printed there is unbounded.

    Parameters
    ----------
    alpha : float
        Tail mass α in (0, 1].
    beta : float
        Inverse strength of the regularisation, β > 0.
    outlier_fraction : float
        Mass of the units with the highest cumulative loss that gets no weight (DORO, Zhai et al.
        2021b).
    """

    alpha: float
    beta: float = 100.0
    outlier_fraction: float = 0.0

    def start(self, units: Units) -> History:
        """No losses seen yet."""
        return History.empty(units.base)

    def weights(self, state: History) -> Floats:
        """Return the weights solved for when the newest losses came in."""
        return state.weights

    def update(self, state: History, losses: NDArray[Any]) -> History:
        """Add the newest losses and solve again, warm from the last multipliers."""
        past = state.add(losses)
        solution = entropic_weights(
            past.losses, self.alpha, self.beta, past.kept(self.outlier_fraction), start=past.warm_start
        )
        return past.solved(solution.unit_weights, solution.mixture, solution.gap)

    def gap(self, state: History) -> float:
        """Duality gap of the solve behind the weights."""
        return state.gap
