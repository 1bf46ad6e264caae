"""The totally corrective player of α-LPBoost."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from numpy.typing import NDArray

from tailboost._typing import Floats
from tailboost.game import Rule, Units
from tailboost.rules.history import History
from tailboost.solvers import totally_corrective_weights


@dataclass(frozen=True)
class TotallyCorrectiveLP(Rule[History]):
    """A maximiser of ``min_s ⟨w, ℓ^s⟩`` over ``w ∈ Δ, w_i ≤ p_i/α``: the one closest to ``p``.

    Equation 6 of Zhai et al. 2021.

    Parameters
    ----------
    alpha : float
        Tail mass α in (0, 1].
    outlier_fraction : float
        Mass of the units with the highest cumulative loss that gets no weight (DORO, Zhai et al.
        2021b).
    """

    alpha: float
    outlier_fraction: float = 0.0

    def start(self, units: Units) -> History:
        """No losses seen yet."""
        return History.empty(units.base)

    def weights(self, state: History) -> Floats:
        """Return the weights solved for when the newest losses came in."""
        return state.weights

    def update(self, state: History, losses: NDArray[Any]) -> History:
        """Add the newest losses and solve again."""
        past = state.add(losses)
        solution = totally_corrective_weights(past.losses, self.alpha, past.kept(self.outlier_fraction))
        return past.solved(solution.unit_weights, solution.mixture, solution.gap)

    def gap(self, state: History) -> float:
        """Duality gap of the solve behind the weights."""
        return state.gap
