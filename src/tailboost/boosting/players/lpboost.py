"""The totally corrective player of α-LPBoost."""

from __future__ import annotations

from dataclasses import dataclass

from tailboost.boosting.players.history import History, TotallyCorrective
from tailboost.solvers import MixtureSolution, minimize_cvar_mixture


@dataclass(frozen=True)
class TotallyCorrectiveLP(TotallyCorrective):
    """A maximiser of ``min_s ⟨w, ℓ^s⟩`` over ``w ∈ Δ, w_i ≤ p_i/α``: the one closest to ``p``.

    Equation 5 of Zhai et al. 2021; the parameters are those of `TotallyCorrective`.
    """

    def solve(self, past: History) -> MixtureSolution:
        """Solve the linear program, whose weights are canonical."""
        return minimize_cvar_mixture(past.losses, self.alpha, past.kept(self.outlier_fraction))
