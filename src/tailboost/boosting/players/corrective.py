"""Totally corrective players of α-LPBoost: in each round they solve a program over all losses so far."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import KW_ONLY, dataclass, replace

import numpy as np

from tailboost.boosting.game import Player, Units
from tailboost.boosting.players.hedge import without_outliers
from tailboost.core.array_types import Floats, UnitLosses
from tailboost.solvers import (
    EntropicSolution,
    MixtureSolution,
    entropic_weights,
    minimize_cvar_mixture,
)
from tailboost.solvers.bits import BitLosses, DenseLosses, PackedLosses


@dataclass(frozen=True)
class History:
    """Losses so far (bits if zero-one, else floats), their sum, and the newest solution."""

    base: Floats
    weights: Floats
    losses: PackedLosses
    cumulative: Floats
    # The mixture of the newest solution, where the next one starts; None before the first.
    multipliers: Floats | None = None
    gap: float = 0.0

    def add(self, losses: UnitLosses) -> History:
        """Return the history with one more loss vector of shape (m,), of the type of the others."""
        all_losses = self.losses
        if losses.dtype == np.bool_ and not all_losses.shape[0]:
            all_losses = BitLosses(len(losses))
        cumulative = self.cumulative + losses
        return replace(self, losses=all_losses.append(losses), cumulative=cumulative)


@dataclass(frozen=True)
class TotallyCorrective(Player[History], ABC):
    """Base class of the players of α-LPBoost and its regularised form.

    Parameters
    ----------
    alpha : float
        Tail mass α in (0, 1].
    outlier_fraction : float, default=0.0
        Mass of the units with the highest cumulative loss that gets no weight (DORO, Zhai et al. 2021b).
    """

    alpha: float
    _: KW_ONLY
    outlier_fraction: float = 0.0

    @abstractmethod
    def solve(self, past: History) -> MixtureSolution | EntropicSolution:
        """Return the weights for all losses so far, with the multipliers and the gap."""

    def inliers(self, past: History) -> Floats:
        """Return the base measure without the outliers."""
        return without_outliers(past.base, past.cumulative, self.outlier_fraction)

    def start(self, units: Units) -> History:
        """Return the empty history, in which the weights are the base measure."""
        n = len(units.base)
        no_losses = DenseLosses(np.empty((0, n)))
        return History(units.base, units.base, losses=no_losses, cumulative=np.zeros(n))

    def weights(self, state: History) -> Floats:
        """Return the weights of the newest solution."""
        return state.weights

    def update(self, state: History, losses: UnitLosses) -> History:
        """Return the history with the newest losses and a new solution."""
        past = state.add(losses)
        solution = self.solve(past)
        return replace(
            past, weights=solution.unit_weights, multipliers=solution.mixture, gap=solution.gap
        )

    def best(self, state: History) -> float:
        """Return the CVaR_α of the best mixture of the base models so far, on the losses of the game."""
        return minimize_cvar_mixture(state.losses, self.alpha, self.inliers(state)).value

    def gap(self, state: History) -> float:
        """Return the duality gap of the solution behind the weights."""
        return state.gap


@dataclass(frozen=True)
class TotallyCorrectiveLP(TotallyCorrective):
    """Maximiser of ``min_s ⟨w, ℓ^s⟩`` over ``w ∈ Δ, w_i ≤ p_i/α`` that is closest to ``p``.

    Equation 5 of Zhai et al. 2021. The parameters are as in `TotallyCorrective`.
    """

    def solve(self, past: History) -> MixtureSolution:
        """Solve the linear program; its weights are canonical."""
        return minimize_cvar_mixture(past.losses, self.alpha, self.inliers(past))


def entropic_theory(alpha: float, delta: float) -> tuple[float, int]:
    """Return β and T after which the training CVaR_α is at most δ > 0 above the largest weighted loss.

    ``β = max{(2/δ) log(1/α), 1/2}`` and ``T = ⌈max{(32/δ²) log(1/α), 8/δ}⌉``: Warmuth et al. 2008, as applied
    by Zhai et al. 2021.
    """
    log_inverse = math.log(1 / alpha)
    beta = max(2 / delta * log_inverse, 0.5)
    n_rounds = math.ceil(max(32 / delta**2 * log_inverse, 8 / delta))
    return beta, n_rounds


@dataclass(frozen=True)
class EntropicLP(TotallyCorrective):
    """``argmin_w γ + KL(w‖p)/β`` s.t. ``⟨w, ℓ^s⟩ ≥ 1 − γ``, ``w ∈ Δ``, ``w_i ≤ p_i/α``.

    Warmuth et al. 2008, and equation 8 of Zhai et al. 2021. The sign of the constraint is wrong there: the
    printed program is unbounded.

    Parameters
    ----------
    alpha, outlier_fraction : float
        As for `TotallyCorrective`.
    beta : float, default=100.0
        Inverse strength of the regularisation, β > 0.
    """

    beta: float = 100.0

    @property
    def symbols(self) -> dict[str, str]:
        """Meaning of β."""
        return {
            "β": f"{self.beta:g}: 1/β is the strength of the penalty on the distance from p"
        }

    def solve(self, past: History) -> EntropicSolution:
        """Solve the regularised program over all losses so far.

        The start is the last solution, with multiplier 0 for the newest model.
        """
        start = None  # in the first round
        if past.multipliers is not None:
            start = np.append(past.multipliers, 0.0)
        return entropic_weights(
            past.losses, self.alpha, self.beta, self.inliers(past), start=start
        )
