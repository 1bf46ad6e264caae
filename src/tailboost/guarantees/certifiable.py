"""What would certify refused limits, estimated on the refused rows: more rows, or a looser limit."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import TypeVar

import numpy as np
from scipy.special import ndtr, ndtri

from tailboost.guarantees.rate_bounds import POWER, CertifiedBound
from tailboost.rates import Limit
from tailboost.rates.power import last_true

T = TypeVar("T")

# The tried levels have two digits and at most so many places; with six the search takes nine calibrations.
MOST_PLACES = 6
TINY = 1e-9
# With more fresh rows nothing is tried: nine calibrations of 20,000 rows take about four seconds.
MOST_ROWS_TRIED = 20_000
# Tried numbers of new rows, as multiples of the present ones. The first one is looked for that may do.
GROWTHS = (1.0, 1.5, 2.0, 3.0, 4.0, 5.0, 7.0, 10.0, 15.0, 20.0, 30.0, 50.0)


def level_of_more_rows(level: float, growth: float) -> float:
    """Return the level at which these rows pass if new rows would pass with the probability `POWER`.

    The statistic of a test of a share is nearly normal with standard deviation 1, and its mean grows as the
    root of the number of rows. These rows and as many new ones have this noise. More rows also select a
    better rule. In twelve settings on made tables, 36 of 43 looser limits and 43 of 45 numbers of rows were
    certified on new rows. Without the margin 43 of 55 numbers of rows were, and 4 of 10 in one setting.

    Parameters
    ----------
    level : float
        Level of the test on the new rows.
    growth : float
        Number of new rows by the number of these rows, from 1.
    """
    needed = np.sqrt(2.0) * ndtri(POWER) - ndtri(level)
    return float(ndtr(-needed / np.sqrt(growth)))


def least_growth(is_certified: Callable[[float], bool]) -> float | None:
    """Return the least of the `GROWTHS` with which new rows would certify the limits; None without one.

    ``is_certified`` tells whether so many times as many rows would certify them.
    """
    return _last_certified(GROWTHS[::-1], is_certified)


def _last_certified(tried: Sequence[T], is_certified: Callable[[T], bool]) -> T | None:
    """Return the last one of a sequence that would be certified, the safest first; None without one."""
    index = last_true(lambda index: is_certified(tried[index]), len(tried) - 1)
    if index < 0:
        return None
    return tried[index]


def certifiable_limits(
    limits: Sequence[Limit],
    bounds: Sequence[Sequence[CertifiedBound]],
    is_certified: Callable[[list[Limit]], bool],
) -> Iterator[list[Limit]]:
    """Yield the limits with a missed one at the tightest level that is certified beside the others.

    A limit with a bound for each subgroup has no single level.

    Parameters
    ----------
    limits : sequence of Limit
        All limits.
    bounds : sequence of sequence of CertifiedBound
        The bounds of the tested rule, by limit.
    is_certified : callable
        Tells whether the same procedure certifies other limits on the same rows.
    """
    for number, bounds_of_limit in enumerate(bounds):
        if not any(bound.certified is False for bound in bounds_of_limit):
            continue
        tried = []
        for level in looser_levels(limits[number]):
            looser = list(limits)
            looser[number] = replace(limits[number], bound=level)
            tried.append(looser)
        certifiable = _last_certified(tried, is_certified)
        if certifiable is not None:
            yield certifiable


def looser_levels(limit: Limit) -> list[float]:
    """Return levels looser than a limit, the loosest first; none of a limit with several bounds.

    The allowed share has two digits, such as .025. For a limit from below it is 1 less the bound.
    """
    stated = limit.bound
    if isinstance(stated, tuple) or not 0.0 < stated < 1.0:
        return []
    allowed = limit.against(stated)
    shares = {
        round(two_digits * 0.1**places, places)
        for places in range(2, MOST_PLACES + 1)
        for two_digits in range(10, 100)
    }
    looser = sorted((share for share in shares if share > allowed + TINY), reverse=True)
    return [round(limit.against(share), MOST_PLACES) for share in looser]
