"""Totally corrective players: they solve anew for the losses of all rounds so far."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import KW_ONLY, dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tailboost.boosting.game import Player, Units
from tailboost.boosting.players.outliers import keep
from tailboost.core.array_types import Floats
from tailboost.solvers import BitLosses, EntropicSolution, MixtureSolution, minimize_cvar_mixture


@dataclass(frozen=True)
class History:
    """Losses so far (bits where they are zero-one, else floats), their sum, and the newest solution."""

    base: Floats
    weights: Floats
    losses: BitLosses | Floats
    cumulative: Floats
    multipliers: Floats | None = None
    gap: float = 0.0

    @classmethod
    def empty(cls, base: Floats) -> History:
        """Before the first round the player holds the base measure."""
        return cls(base=base, weights=base, losses=np.empty((0, len(base))), cumulative=np.zeros(len(base)))

    def add(self, losses: NDArray[Any]) -> History:
        """Return the history with one more loss vector of shape (m,)."""
        if losses.dtype == np.bool_:
            bits = self.losses if isinstance(self.losses, BitLosses) else BitLosses(len(losses))
            seen: BitLosses | Floats = bits.append(losses)
        else:
            row = np.asarray(losses, dtype=np.float64)[None, :]
            seen = row if isinstance(self.losses, BitLosses) else np.vstack([self.losses, row])
        return replace(self, losses=seen, cumulative=self.cumulative + losses)

    def kept(self, fraction: float) -> Floats:
        """Return the base measure without the outliers."""
        return keep(self.base, self.cumulative, fraction)

    @property
    def warm_start(self) -> Floats | None:
        """Last multipliers, with 0 for the newest hypothesis."""
        return None if self.multipliers is None else np.append(self.multipliers, 0.0)


@dataclass(frozen=True)
class TotallyCorrective(Player[History], ABC):
    """What α-LPBoost and its regularised form share."""

    alpha: float  # tail mass α in (0, 1]
    _: KW_ONLY
    # Mass of the units with the highest cumulative loss that gets no weight (DORO, Zhai et al. 2021b).
    outlier_fraction: float = 0.0

    @abstractmethod
    def solve(self, past: History) -> MixtureSolution | EntropicSolution:
        """Return the weights for all losses so far, with the multipliers and the gap."""

    def start(self, units: Units) -> History:
        """No losses seen yet."""
        return History.empty(units.base)

    def weights(self, state: History) -> Floats:
        """Return the weights solved for when the newest losses came in."""
        return state.weights

    def update(self, state: History, losses: NDArray[Any]) -> History:
        """Add the newest losses and solve again."""
        past = state.add(losses)
        solution = self.solve(past)
        return replace(past, weights=solution.unit_weights, multipliers=solution.mixture, gap=solution.gap)

    def best(self, state: History) -> float:
        """Return the CVaR_α of the best mixture of the hypotheses so far, on the losses of the game."""
        return minimize_cvar_mixture(state.losses, self.alpha, state.kept(self.outlier_fraction)).value

    def gap(self, state: History) -> float:
        """Duality gap of the solve behind the weights."""
        return state.gap
