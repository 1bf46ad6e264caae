"""Comparisons of the rates of subgroups: the gap and the ratio."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from tailboost.core.array_types import Floats

AT_MOST = "at most"
AT_LEAST = "at least"
GAP = "gap"
RATIO = "ratio"


@dataclass(frozen=True)
class RateComparison:
    """A way to compare the rates of subgroups."""

    side: str  # `AT_MOST` or `AT_LEAST`: the side of a bound
    of_equal: float  # the value for equal rates: the tightest bound
    largest: float  # the largest bound

    def pair(self, bound: float) -> tuple[float, float]:
        """Return the numbers (a, c) for a bound, which is kept if a rᵢ − rⱼ ≤ c for all pairs of rates."""
        return (1.0, bound) if self.side == AT_MOST else (bound, 0.0)

    def value(self, smallest: Any, largest: Any) -> Any:
        """Return the value for the smallest and the largest rate; the ratio of two rates of 0 is 1."""
        if self.side == AT_MOST:
            return largest - smallest
        return np.where(largest > 0, smallest / np.where(largest > 0, largest, 1.0), 1.0)

    def of_rates(self, rates: Floats) -> Floats:
        """Return the value for rates of m subgroups, shape (..., m); the result has the shape (...).

        Undefined rates are NaN and do not count.
        """
        return np.asarray(self.value(*smallest_and_largest(rates)))

    def bounds(self, lower: Floats, upper: Floats) -> list[float]:
        """Return the lower and the upper bound from those on each rate, shape (m,) each."""
        farther = np.maximum if self.side == AT_MOST else np.minimum
        of_pairs = self.value(lower[:, None], upper)[~np.eye(len(lower), dtype=bool)]
        farthest = farther.reduce(of_pairs, initial=self.of_equal)
        nearest = farther(self.of_equal, self.value(upper.min(), lower.max()))
        return sorted([float(nearest), float(farthest)])

    def refuse_negative(self, lowest_rate: float, limit: str = "") -> None:
        """Raise ValueError for a ratio of rates that may be negative; ``limit`` begins the message."""
        if lowest_rate < 0 and self.side == AT_LEAST:
            raise ValueError(
                f"{limit}a ratio of rates that may be negative has no bound; limit the gap"
            )


def smallest_and_largest(values: Floats) -> tuple[Floats, Floats]:
    """Return the smallest and the largest defined rate of (..., m), ∞ and −∞ if there is none."""
    smallest = np.fmin.reduce(values, axis=-1, initial=np.inf)
    return smallest, np.fmax.reduce(values, axis=-1, initial=-np.inf)


#: By name. Other names are those of subgroups, and forms of limits.
COMPARISONS: dict[Any, RateComparison] = {
    GAP: RateComparison(AT_MOST, 0.0, np.inf),
    RATIO: RateComparison(AT_LEAST, 1.0, 1.0),
}
