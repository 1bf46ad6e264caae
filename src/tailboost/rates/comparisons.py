"""Comparisons of the rates of subgroups: the gap and the ratio."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from tailboost.core.array_types import Floats, Mask

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
    usual: str  # how a limit is stated, for messages
    # Share of little noise, and the variance as one row measures it, of its logarithm for a ratio. A bound is
    # reported as below its noise only if it is so for such shares.
    calm: float
    calm_variance: float
    # Returns the numbers (a, c) for a bound, which is kept if a rᵢ − rⱼ ≤ c for all pairs of rates.
    pair: Callable[[float], tuple[float, float]]
    # Returns the value for the smallest and the largest rate.
    value: Callable[[Any, Any], Any]
    # Returns the value for the difference of two rates, or of their logarithms.
    of_difference: Callable[[float], float]
    in_logarithms: bool = False  # whether intervals are on the scale of logarithms

    @staticmethod
    def pairs(m: int) -> Mask:
        """Return a mask of the compared ordered pairs of m subgroups, shape (m, m)."""
        return ~np.eye(m, dtype=bool)

    def of_rates(self, rates: Floats) -> Floats:
        """Return the value for rates of m subgroups, shape (..., m); the result has the shape (...).

        Undefined rates are NaN and do not count.
        """
        return np.asarray(self.value(*smallest_and_largest(rates)))

    def bounds(self, lower: Floats, upper: Floats) -> list[float]:
        """Return the lower and the upper bound from those on each rate, shape (m,) each."""
        farther = max if self.side == AT_MOST else min
        farthest = self.value(lower[:, None], upper)[self.pairs(len(lower))].tolist()
        nearest = float(self.value(upper.min(), lower.max()))
        return sorted([farther(self.of_equal, nearest), farther([self.of_equal, *farthest])])

    def refuse_negative(self, lowest_rate: float, limit: str = "") -> None:
        """Raise ValueError for a ratio of rates that may be negative; ``limit`` begins the message."""
        if lowest_rate < 0 and self.side == AT_LEAST:
            raise ValueError(
                f"{limit}a ratio of rates that may be negative has no bound; limit the gap"
            )


def smallest_and_largest(values: Floats) -> tuple[Floats, Floats]:
    """Return the smallest and the largest defined rate of (..., m), ∞ and −∞ if there is none."""
    defined = ~np.isnan(values)
    smallest = np.where(defined, values, np.inf).min(axis=-1, initial=np.inf)
    largest = np.where(defined, values, -np.inf).max(axis=-1, initial=-np.inf)
    return smallest, largest


def _ratio(smallest: Any, largest: Any) -> Any:
    """Return the ratio of rates, which is 1 for two rates of 0."""
    is_positive = largest > 0
    return np.where(is_positive, smallest / np.where(is_positive, largest, 1.0), 1.0)


#: By name. Other names are those of subgroups, and forms of limits.
COMPARISONS: dict[Any, RateComparison] = {
    GAP: RateComparison(
        side=AT_MOST,
        of_equal=0.0,
        largest=np.inf,
        usual="above: gap(...) <= 0.02",
        calm=0.1,
        calm_variance=0.1 * (1 - 0.1),
        pair=lambda bound: (1.0, bound),
        value=lambda smallest, largest: largest - smallest,
        of_difference=float,
    ),
    RATIO: RateComparison(
        side=AT_LEAST,
        of_equal=1.0,
        largest=1.0,
        usual="below: ratio(...) >= 0.8",
        calm=0.5,
        calm_variance=(1 - 0.5) / 0.5,
        pair=lambda bound: (bound, 0.0),
        value=_ratio,
        of_difference=lambda difference: float(np.exp(-difference)),
        in_logarithms=True,
    ),
}
