"""The memory of a totally corrective player: all losses so far and the last solve."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tailboost._typing import Floats
from tailboost.rules.outliers import keep
from tailboost.solvers import BitLosses


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

    def solved(self, weights: Floats, multipliers: Floats, gap: float) -> History:
        """Return the history with a new solution."""
        return replace(self, weights=weights, multipliers=multipliers, gap=gap)
