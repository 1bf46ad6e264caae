"""Hedge on the losses, and the base measure without outliers."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from tailboost.boosting.game import Player, Units, tilted
from tailboost.core.array_types import Floats, UnitLosses


def theory_eta(count: float, n_rounds: int) -> float:
    """Return ``η = √(8 log n / T)``, the rate with the best regret bound for a known ``T``.

    Section 3 of Zhai et al. 2021. ``count`` is ``n`` ≥ 1, the number of units, or ``1/min p`` for a player
    with a base measure p that is not uniform.
    """
    return math.sqrt(8.0 * math.log(count) / n_rounds)


def eta_for(eta: float | str, count: float, n_rounds: int) -> float:
    """Return η for a classifier's parameter: a number, or "theory" for `theory_eta`."""
    if isinstance(eta, str):
        return theory_eta(count, n_rounds)
    return float(eta)


def theory_rounds(count: float, gamma: float) -> int:
    """Return ``T = ⌈2 ln n / γ²⌉``, after which Hedge with `theory_eta` has regret at most γT/2.

    Saito et al. 2024; the regret bound is in section 1.3 of Hazan 2022. ``count`` is n as for `theory_eta`,
    ``gamma`` the edge γ > 0 of the weak learner.
    """
    return max(1, math.ceil(2.0 * math.log(count) / gamma**2))


def without_outliers(base: Floats, cumulative: Floats, fraction: float) -> Floats:
    """Return the base measure (m,) without the ``fraction`` of its mass with the highest cumulative loss.

    DORO (Zhai et al. 2021b) drops outliers in each minibatch, here in each round. Nothing is dropped while
    all ``Σ_s ℓ^s`` are equal (before the first loss). Units that tie at the boundary are dropped in part, in
    proportion to ``p``. The result sums to 1.
    """
    if fraction <= 0.0 or np.ptp(cumulative) == 0.0:
        return base
    # Units with equal losses are one level; the highest loss is the first.
    levels, level = np.unique(-cumulative, return_inverse=True)
    mass = np.bincount(level, weights=base, minlength=len(levels))
    mass_above = np.cumsum(mass) - mass
    dropped = np.clip(fraction - mass_above, 0.0, mass)
    kept_part = np.divide(mass - dropped, mass, out=np.zeros_like(mass), where=mass > 0)
    inlier_mass = base * kept_part[level]
    return inlier_mass / inlier_mass.sum()


@dataclass(frozen=True)
class HedgeState:
    """Base measure and cumulative losses ``Σ_s ℓ^s`` of each unit, shape (m,)."""

    base: Floats
    cumulative: Floats


@dataclass(frozen=True)
class Hedge(Player[HedgeState]):
    """``w_i ∝ p_i exp(η Σ_{s≤t} ℓ_i^s)`` (Hazan 2022, section 1.3).

    This is the player of Algorithm 2 of Zhai et al. 2021.

    Parameters
    ----------
    eta : float
        Learning rate η ≥ 0.
    outlier_fraction : float, default=0.0
        Mass of the units with the highest cumulative loss that gets no weight (DORO, Zhai et al. 2021b).
    """

    eta: float
    outlier_fraction: float = 0.0

    @property
    def symbols(self) -> dict[str, str]:
        """Meaning of η."""
        return {"η": f"learning rate of Hedge, {self.eta:.4g}"}

    def start(self, units: Units) -> HedgeState:
        """Return the state with cumulative losses of 0."""
        return HedgeState(units.base, np.zeros(len(units.base)))

    def weights(self, state: HedgeState) -> Floats:
        """Return the weights, normalised in the log domain, so 10⁴ rounds do not overflow."""
        p = without_outliers(state.base, state.cumulative, self.outlier_fraction)
        w, _ = tilted(p, self.eta * state.cumulative)
        return w

    def update(self, state: HedgeState, losses: UnitLosses) -> HedgeState:
        """Return the state with the newest losses added."""
        return HedgeState(state.base, state.cumulative + losses)
