"""Cures of refused limits, estimated on the refused rows: more rows, or a looser limit."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import numpy as np
from scipy.special import ndtr, ndtri

from tailboost.core.checks import plain
from tailboost.rates import Limit
from tailboost.rates.power import last_true

T = TypeVar("T")

# Looser bounds are tried at these parts of the way to the loosest one, the loosest first, in steps of at most
# a percent; 0 is the stated one.
PARTS_OF_ROOM = tuple(k / 50 for k in range(50, -1, -1))
# Least estimated chance of looser limits, of which the tightest are looked for, and of more rows. On a made
# table of four languages, 17 of 19 such limits and 47 of 54 numbers of rows up to tenfold were certified on
# new rows. With .8, 20 of 28 limits were: misses and a precision of five groups on three made tables.
LEAST_CHANCE = 0.9
# Estimated chance that the tightest limits must have, as the estimates leave out that other rows select.
SEARCHED_CHANCE = 0.95
TINY = 1e-9
# With more fresh rows nothing is tried: nine calibrations of 20,000 rows take about four seconds.
MOST_ROWS_TRIED = 20_000
# Tried numbers of new rows, as multiples of the present ones. The first one is looked for that may do.
GROWTHS = (
    1.0,
    1.2,
    1.5,
    2.0,
    2.5,
    3.0,
    4.0,
    5.0,
    6.0,
    7.0,
    8.0,
    10.0,
    12.0,
    15.0,
    20.0,
    30.0,
    50.0,
)


def level_of_more_rows(level: float, growth: float) -> float:
    """Return the level at which these rows pass if new rows would pass with probability `LEAST_CHANCE`.

    The statistic of a test of a share is nearly normal with standard deviation 1, and its mean grows as the
    root of the number of rows. These rows and as many new ones have this noise. More rows also select a
    better rule. With a probability of .8, in twelve settings on made tables, 36 of 43 looser limits and 43
    of 45 numbers of rows were certified on new rows. Without the margin 43 of 55 numbers of rows were, and 4
    of 10 in one setting.

    Parameters
    ----------
    level : float
        Level of the test on the new rows.
    growth : float
        Number of new rows by the number of these rows, from 1.
    """
    needed = np.sqrt(2.0) * ndtri(LEAST_CHANCE) - ndtri(level)
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


# A subgroup of a limit, by the number of the limit.
Pair = tuple[int, Any]


@dataclass(frozen=True)
class Subgroups:
    """The limited subgroups of a limit.

    Attributes
    ----------
    names : list
        The subgroups; of a gap or ratio the name of the comparison alone.
    vacuous : sequence of float
        The least share of errors there of one answer to all rows that breaks the limit; 1 without one.
    """

    names: list[Any]
    vacuous: Sequence[float]


def certifiable_limits(
    limits: Sequence[Limit],
    subgroups: Sequence[Subgroups],
    failing: Sequence[Pair],
    chance: Callable[[list[Limit]], float],
    passed: Sequence[Pair] = (),
) -> list[list[Limit]]:
    """Return the limits with looser bounds of failing subgroups, as tight as new rows would certify.

    Each limit with failing subgroups is loosened alone. If none of these would do, all of them are loosened,
    and if this would not do either, the first ones that passed too.

    Parameters
    ----------
    limits : sequence of Limit
        All limits.
    subgroups : sequence of Subgroups
        The limited subgroups of each limit.
    failing : sequence of (int, object)
        Subgroups of limits that failed, the weakest first. As few as possible are loosened.
    chance : callable
        Returns the chance that new rows certify other limits.
    passed : sequence of (int, object)
        Subgroups that passed, the weakest first.
    """
    numbers = list(dict.fromkeys(number for number, _ in failing))
    alone = [[pair for pair in failing if pair[0] == number] for number in numbers]
    for ways in (alone, [[*failing]], [[*failing, *passed]]):
        of_ways = [_with_fewest_loosened(limits, subgroups, pairs, chance) for pairs in ways]
        certifiable = [looser for looser in of_ways if looser is not None]
        if certifiable:
            return certifiable
    return []


def _with_fewest_loosened(
    limits: Sequence[Limit],
    subgroups: Sequence[Subgroups],
    pairs: Sequence[Pair],
    chance: Callable[[list[Limit]], float],
) -> list[Limit] | None:
    """Return limits with looser bounds of the first pairs, each as tight as possible; None if none would do.

    Let c be the chance with the loosest bounds of n pairs. One bound after another is tightened, the last
    one first, and each may lower the chance by the factor (`SEARCHED_CHANCE` / c) to the power 1 / n.
    """

    def with_parts(parts: Mapping[Pair, float]) -> list[Limit]:
        return [
            loosened_limit(
                limit,
                of_limit,
                {name: part for (k, name), part in parts.items() if k == number},
            )
            for number, (limit, of_limit) in enumerate(zip(limits, subgroups, strict=True))
        ]

    for n_loosened in range(1, len(pairs) + 1):
        loosest = dict.fromkeys(pairs[:n_loosened], 1.0)
        best_chance = chance(with_parts(loosest))
        if best_chance >= SEARCHED_CHANCE:
            break
    else:
        return None

    parts = dict(loosest)
    for k, pair in enumerate(reversed(loosest), 1):
        least = best_chance * (SEARCHED_CHANCE / best_chance) ** (k / n_loosened)

        def is_enough(part: float, pair: Pair = pair, least: float = least) -> bool:
            return chance(with_parts(parts | {pair: part})) >= least

        tightest = _last_certified(PARTS_OF_ROOM, is_enough)
        parts[pair] = 1.0 if tightest is None else tightest
    return with_parts(parts)


def loosened_limit(limit: Limit, subgroups: Subgroups, parts: Mapping[Any, float]) -> Limit:
    """Return a limit with looser bounds of some subgroups, in whole percents.

    The largest looser share of errors is half of the way to a vacuous limit, which one answer to all rows
    keeps.

    Parameters
    ----------
    limit : Limit
        The limit.
    subgroups : Subgroups
        Its limited subgroups.
    parts : dict of object to float
        For each loosened subgroup the part of the way to the loosest bound, in (0, 1].
    """
    if not parts:
        return limit
    names = subgroups.names
    bounds = np.full(len(names), limit.bound) if limit.compares else limit.bounds([*names])
    allowed = limit.against(bounds)
    most = (allowed + np.array(subgroups.vacuous)) / 2.0
    way = np.array([parts.get(name, 0.0) for name in names])
    percents = 100.0 * (allowed + way * (most - allowed))
    percents = np.minimum(np.ceil(percents - TINY), np.floor(100.0 * most + TINY))
    looser = np.round(limit.against(percents / 100.0), 2)
    new_bounds = np.where((way > 0.0) & (percents > 100.0 * allowed), looser, bounds).tolist()
    if len(set(new_bounds)) == 1 and not isinstance(limit.bound, tuple):
        return replace(limit, bound=new_bounds[0])
    pairs = [(plain(name), bound) for name, bound in zip(names, new_bounds, strict=True)]
    return replace(limit, bound=tuple(pair for pair in pairs if not np.isnan(pair[1])))
