"""Hedge on the losses."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tailboost._typing import Floats
from tailboost.game import Rule, Units, normalised
from tailboost.rules.outliers import keep


def theory_eta(count: float, n_rounds: int) -> float:
    """Return ``η = √(8 log n / T)``, the rate with the best regret bound for a known ``T``.

    Section 3 of Zhai et al. 2021. ``count`` is ``n`` ≥ 1, the number of units; ``1/min p`` for a player that
    starts at another p than the uniform one.
    """
    return math.sqrt(8.0 * math.log(count) / n_rounds)


def eta_for(eta: float | str, count: float, n_rounds: int) -> float:
    """Return η for a classifier's parameter: a number, or "theory" for `theory_eta`."""
    return theory_eta(count, n_rounds) if isinstance(eta, str) else float(eta)


def theory_rounds(count: float, gamma: float) -> int:
    """Return ``T = ⌈2 ln n / γ²⌉``, after which Hedge with `theory_eta` has regret at most γT/2.

    Saito et al. 2024; the regret bound is in section 1.3 of Hazan 2022. ``count`` is n as for `theory_eta`,
    ``gamma`` the edge γ > 0 of the weak learner.
    """
    return max(1, math.ceil(2.0 * math.log(count) / gamma**2))


@dataclass(frozen=True)
class HedgeState:
    """Base measure and cumulative losses ``Σ_s ℓ^s`` of each unit, shape (m,)."""

    base: Floats
    cumulative: Floats


@dataclass(frozen=True)
class Hedge(Rule[HedgeState]):
    """``w_i ∝ p_i exp(η Σ_{s≤t} ℓ_i^s)`` (Hazan 2022, section 1.3).

    The player of Algorithm 2 of Zhai et al. 2021.
    """

    eta: float  # learning rate η ≥ 0
    # Mass of the units with the highest cumulative loss that gets no weight (DORO, Zhai et al. 2021b).
    outlier_fraction: float = 0.0

    @property
    def symbols(self) -> dict[str, str]:
        """What η stands for."""
        return {"η": f"learning rate of Hedge, {self.eta:.4g}"}

    def start(self, units: Units) -> HedgeState:
        """Start with cumulative losses of 0."""
        return HedgeState(units.base, np.zeros(len(units.base)))

    def weights(self, state: HedgeState) -> Floats:
        """Normalise in the log domain, so that 10⁴ rounds neither overflow nor reach 0/0."""
        p = state.base
        if self.outlier_fraction:
            p = keep(p, state.cumulative, self.outlier_fraction)
        with np.errstate(divide="ignore"):
            log_w = np.log(p) + self.eta * state.cumulative
        return normalised(log_w)[0]

    def update(self, state: HedgeState, losses: NDArray[Any]) -> HedgeState:
        """Add the newest losses."""
        return HedgeState(state.base, state.cumulative + losses)
