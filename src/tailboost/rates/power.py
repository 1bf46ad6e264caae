"""Power of certificates: how probably rows certify a limit with known true rates."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from scipy.special import bdtr
from scipy.stats import binom

from tailboost.core.array_types import Floats, Ints
from tailboost.rates.pair_test import pair_passes

# A larger number of rows is not named.
MOST_ROWS = 10**9
# Numbers of rows tried after the first sufficient one: counts are whole numbers, so the power
# falls a little between their steps.
AHEAD = 4096
# Second counts with exact first counts of a test of pairs; the others are interpolated.
NODES = 7
# Probability of the omitted second counts.
LEFT_OUT = 1e-6


def binomial_power(n: Any, rate: float, most: Any) -> Floats:
    """Return the probability that at most ``most`` of n rows are counted, each with probability ``rate``.

    This is the power of an exact test passing up to ``most`` errors. It is also the probability that a
    threshold with this true rate is within the rank ``most``. It is 0 for −1.
    """
    rows = np.asarray(n, dtype=np.intp)
    counts = np.asarray(most, dtype=np.intp)
    inside = bdtr(np.clip(counts, 0, rows).astype(np.float64), rows, rate)
    power: Floats = np.where(counts < 0, 0.0, np.where(counts >= rows, 1.0, inside))
    return power


def pair_power(
    rates: tuple[float, float],
    rows: tuple[int, int],
    level: float,
    *,
    factor: float,
    gap: float,
) -> float:
    """Return the probability of a `pair_p_value` of at most ``level`` for both orders of two groups.

    Parameters
    ----------
    rates, rows : (float, float), (int, int)
        True rates and numbers of rows.
    level : float in (0, 0.15)
        Level of each test.
    factor, gap : float
        As in `pair_p_value`.

    Returns
    -------
    float
        A little too small: the passing first counts are interpolated between some of the second counts.

    Examples
    --------
    >>> from tailboost.rates.power import pair_power
    >>> round(pair_power((0.3, 0.3), (2000, 2000), 0.05, factor=1.0, gap=0.05), 2)
    0.93
    """
    (r1, r2), (n1, n2) = rates, rows
    if min(rows) < 1:
        return 0.0

    passes = partial(pair_passes, level=level, factor=factor, gap=gap)
    first, last = (int(x) for x in binom.ppf([LEFT_OUT / 2, 1 - LEFT_OUT / 2], n2, r2))
    seconds = np.unique(np.linspace(first, last, NODES).round().astype(int))

    # For each second count, the first counts passing in both orders are between two ends.
    def most(second: int) -> int:
        return last_true(lambda count: passes((count, second), (n1, n2)), n1)

    def least(second: int) -> int:
        return n1 - last_true(lambda count: passes((second, n1 - count), (n2, n1)), n1)

    tops = [most(second) for second in seconds.tolist()]
    bottoms = [least(second) for second in seconds.tolist()]
    counts = np.arange(first, last + 1)
    high = np.floor(np.interp(counts, seconds, tops))
    low = np.ceil(np.interp(counts, seconds, bottoms))
    between = np.maximum(binom.cdf(high, n1, r1) - binom.cdf(low - 1, n1, r1), 0.0)
    return float(binom.pmf(counts, n2, r2) @ between)


def last_true(holds: Callable[[int], bool], n: int, near: int | None = None) -> int:
    """Return the last number from 0 to n up to which all have a property; −1 for none.

    The search goes away from ``near`` with growing steps until the number is between two tried ones.
    """
    low, high, step = -1, n + 1, 1  # the property holds at `low`, and not at `high`
    while near is not None and low < near < high:
        if holds(near):
            low = near
            if high > n:
                near = near + step
            else:
                near = None
        else:
            high = near
            if low < 0:
                near = near - step
            else:
                near = None
        step *= 2
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if holds(middle) else (low, middle)
    return low


def fewest_rows(
    power_at: Callable[[Ints], Floats], power: float, *, start: int = 1, precision: float = 0.0
) -> int | None:
    """Return the smallest number of rows from which on the power is at least a stated one.

    Parameters
    ----------
    power_at : callable
        Returns the powers at numbers of rows, shape (k,).
    power : float in (0, 1)
        The power to reach.
    start : int, default=1
        A number of rows nearby, for speed.
    precision : float, default=0
        Allowed relative excess of the result. If it is 0, the next `AHEAD` numbers of rows are tried too.

    Returns
    -------
    int or None
        None if the number exceeds a thousand millions.
    """

    def short(n: int) -> bool:
        return bool(power_at(np.array([max(n, 1)]))[0] < power)

    # Steps as fine as the precision.
    unit = max(1, int(precision * start))
    found = last_true(lambda k: short(k * unit), MOST_ROWS // unit, start // unit)
    high = (found + 1) * unit
    if high > MOST_ROWS:
        return None
    while precision == 0.0:
        some = np.arange(high, high + AHEAD)
        failing = some[power_at(some) < power]
        if not len(failing):
            break
        high = int(failing[-1]) + 1
    return max(1, high)
