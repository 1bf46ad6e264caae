"""Dropping the units that are always wrong, so that label noise cannot take all the weight (DORO)."""

from __future__ import annotations

import numpy as np

from tailboost.core.array_types import Floats


def keep(base: Floats, cumulative: Floats, fraction: float) -> Floats:
    """Return the base measure without the ``fraction`` of its mass that has the highest cumulative loss.

    What DORO (Zhai et al. 2021b) does in every minibatch, here in every round. While all ``Σ_s ℓ^s`` are
    equal (before the first loss) nothing is dropped. The level at the boundary, where zero-one losses tie
    massively, is dropped fractionally, in proportion to ``p``. What is kept is normalised to sum 1.
    """
    if fraction <= 0.0 or np.ptp(cumulative) == 0.0:
        return base
    level, index = np.unique(-cumulative, return_inverse=True)  # highest cumulative loss first
    mass = np.bincount(index, weights=base, minlength=len(level))
    dropped = np.clip(fraction - (np.cumsum(mass) - mass), 0.0, mass)
    kept_share = np.divide(mass - dropped, mass, out=np.zeros_like(mass), where=mass > 0)
    kept: Floats = base * kept_share[index]
    return kept / kept.sum()
