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
EXACT_COUNTS = 7
# Probability of the omitted second counts.
LEFT_OUT = 1e-6


def binomial_power(n: Any, rate: float, most: Any) -> Floats:
    """Return the probability of at most ``most`` counted rows among n, with probability ``rate`` of each.

    This is the power of an exact test passing up to ``most`` errors, and the probability of a threshold with
    this true rate being within the rank ``most``. For −1 the power is 0.
    """
    rows = np.asarray(n, dtype=np.intp)
    largest = np.asarray(most, dtype=np.intp)
    inside = bdtr(np.clip(largest, 0, rows).astype(np.float64), rows, rate)
    return np.where(largest < 0, 0.0, np.where(largest >= rows, 1.0, inside))


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
    level : float in (0, 1)
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
    if min(rows) < 1:
        return 0.0
    r1, r2 = rates
    n1, n2 = rows
    passes = partial(pair_passes, level=level, factor=factor, gap=gap)
    smallest, largest = map(int, binom.ppf([LEFT_OUT / 2, 1 - LEFT_OUT / 2], n2, r2))
    nodes = np.unique(np.linspace(smallest, largest, EXACT_COUNTS).round().astype(int))

    # For each second count, the passing first counts in both orders are between two ends.
    def largest_passing(second: int) -> int:
        return last_true(lambda first: passes((first, second), (n1, n2)), n1)

    def smallest_passing(second: int) -> int:
        # Only a largest number can be searched, so the search counts down from n1.
        return n1 - last_true(lambda below: passes((second, n1 - below), (n2, n1)), n1)

    highs_at_nodes = [largest_passing(second) for second in nodes.tolist()]
    lows_at_nodes = [smallest_passing(second) for second in nodes.tolist()]
    second_counts = np.arange(smallest, largest + 1)
    high = np.floor(np.interp(second_counts, nodes, highs_at_nodes))
    low = np.ceil(np.interp(second_counts, nodes, lows_at_nodes))
    # Without a passing first count, high < low.
    first_passes = np.maximum(binom.cdf(high, n1, r1) - binom.cdf(low - 1, n1, r1), 0.0)
    return float(binom.pmf(second_counts, n2, r2) @ first_passes)


def last_true(holds: Callable[[int], bool], n: int, near: int | None = None) -> int:
    """Return the last number from 0 to n up to which all have a property; −1 if 0 lacks it.

    The search goes away from ``near`` with doubled steps, until one number with the property and one without
    are tried. Then the range between them is halved.

    Parameters
    ----------
    holds : callable
        Tells whether a number has the property, which no number above a number without the property has.
    n : int
        The largest number.
    near : int, optional
        A number near the result, for speed.
    """
    low = -1  # the property holds up to `low`, and not from `high` on
    high = n + 1
    step = 1
    while near is not None and low < near < high:
        if holds(near):
            low = near
            near += step
        else:
            high = near
            near -= step
        both_are_tried = low >= 0 and high <= n
        if both_are_tried:
            break
        step *= 2
    while high - low > 1:
        middle = (low + high) // 2
        if holds(middle):
            low = middle
        else:
            high = middle
    return low


def fewest_rows(
    power_at: Callable[[Ints], Floats], power: float, *, start: int, precision: float
) -> int | None:
    """Return the smallest number of rows from which on the power is at least a stated one.

    Parameters
    ----------
    power_at : callable
        Returns the powers at numbers of rows, shape (k,).
    power : float in (0, 1)
        The power to reach.
    start : int
        A number of rows nearby, for speed.
    precision : float
        Allowed relative excess of the result. At 0 the next `AHEAD` numbers of rows are tried too.

    Returns
    -------
    int or None
        None if the number exceeds a thousand millions.
    """
    # Multiples of a unit as fine as the precision are tried.
    unit = max(1, int(precision * start))

    def lacks_power(n_units: int) -> bool:
        return bool(power_at(np.array([max(n_units * unit, 1)]))[0] < power)

    lacking_units = last_true(lacks_power, MOST_ROWS // unit, start // unit)
    fewest = (lacking_units + 1) * unit
    if fewest > MOST_ROWS:
        return None
    while precision == 0.0:  # the power may fall again a little above
        next_numbers = np.arange(fewest, fewest + AHEAD)
        lacking = next_numbers[power_at(next_numbers) < power]
        if not len(lacking):
            break
        fewest = int(lacking[-1]) + 1
    return max(1, fewest)
