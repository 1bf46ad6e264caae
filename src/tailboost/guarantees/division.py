"""What keeps each of several limits on rules on one score, and with which fraction of the level.

One of three cases holds, and each has its procedure, a file with the theorem.

* *Ranks.* Each limit is on the share of a fixed number of rows of one place that get one answer, and no rule
  defers. The limit stops the threshold of its place where too many of the fresh rows would get this answer
  (`ranks`).
* *Ranks and tests.* Some limits have such stops, and the others have tests along a chain of rules (`chain`).
  The others are on several places together, and on rows of another label. With deferral they are the limits
  on it, if there are any, and those with stops may be on several places, too.
* *Tests.* All limits are tested, in any other case (`sequence`, or `gaps` for a lone gap or ratio).
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import product
from typing import Literal, Self

import numpy as np

from tailboost.core import Ints, Name, Names, frozen_object
from tailboost.guarantees.exact_tests import LimitedShare, LimitTests
from tailboost.rates import Limit, Strata
from tailboost.selection.thresholds import DEFERRED, Places

# Beside stops: the fraction of the level for all tests, and those of the fresh rows for stops and for tests,
# by whether rules defer.
BESIDE_STOPS = {False: (0.2, 1.0, 1.0), True: (0.5, 0.7, 0.3)}


@frozen_object
class Division:
    """What keeps each limit, and with which fraction of the level and of the fresh rows.

    Attributes
    ----------
    kept_by : {"ranks", "ranks and tests", "tests"}
        What keeps the limits, see above.
    shares : list of LimitedShare
        The limited shares with stops.
    tests : list of LimitTests
        The limits with tests.
    tested_together : list of ndarray
        The places whose thresholds are tested together: each one alone if each limit is on one place.
    level_of_stop, level_of_test : float
        The fractions of the level of each stop, and of all tests of places that are tested together.
    rows_of_stops, rows_of_tests : float
        The fractions of the fresh rows that they read; 1 if both read all rows.
    """

    kept_by: Literal["ranks", "ranks and tests", "tests"] = "tests"
    shares: Sequence[LimitedShare] = ()
    tests: Sequence[LimitTests] = ()
    tested_together: Sequence[Ints] = ()
    level_of_stop: float = 1.0
    level_of_test: float = 1.0
    rows_of_stops: float = 1.0
    rows_of_tests: float = 1.0

    @classmethod
    def of(
        cls, limits: Sequence[LimitTests], *, defers: bool, has_clusters: bool = False
    ) -> Self:
        """Return the division with ranks for all limits that can have them beside the others."""
        of_several = [
            each
            for each in limits
            if each.limit.compares or (each.places.sum(axis=1) > 1).any()
        ]
        tests, shares = parted(limits, of_several, defers, has_clusters)
        places = np.arange(limits[0].places.shape[1])
        together = list(places[:, None])
        if of_several:
            together = [places]
        n_tested = sum(any(each.places[:, own].any() for each in tests) for own in together)
        if not shares:
            return cls("tests", (), tests, together, level_of_test=1.0 / max(n_tested, 1))
        # Shares of one place and answer have one stop; one of several places has its own.
        stops = {
            (share.places, share.answer) if len(share.places) == 1 else share
            for share in shares
        }
        of_stop = 1.0 / len(stops)
        if not tests:
            return cls("ranks and tests" if defers else "ranks", shares, (), together, of_stop)
        of_tests, *rows = BESIDE_STOPS[defers]
        of_stop *= 1.0 - of_tests
        return cls(
            "ranks and tests", shares, tests, together, of_stop, of_tests / n_tested, *rows
        )

    @classmethod
    def planned(
        cls,
        limits: Sequence[Limit],
        classes: Names,
        groups: Mapping[Name, Iterable[Name]],
        *,
        by_group: bool = False,
    ) -> Self:
        """Return the division for all combinations of some classes and of groups by column.

        By group, those of the first column have thresholds of their own. More than two classes have none, and
        each test has the whole level.
        """
        values = tuple(map(tuple, groups.values()))
        combinations = np.array([*product(*(range(len(each)) for each in values))], int)
        mass = np.ones(len(classes) * len(combinations))
        defers = any("mask" in limit.rate.needs for limit in limits)
        strata = Strata(classes, (*groups,), values, combinations, mass, mass, defers)
        places = Places(strata.place(None))
        if by_group and groups:
            places = Places(strata.place(0), len(values[0]), strata.columns[:1])
        loose = (replace(limit, bound=0.5) for limit in limits)  # which names no subgroup
        tests = [*filter(None, (LimitTests.of(each, strata, places) for each in loose))]
        if len(tests) < len(limits):
            return cls()
        return cls.of(tests, defers=defers)


def parted(
    limits: Sequence[LimitTests],
    of_several: Sequence[LimitTests],
    defers: bool,
    has_clusters: bool,
) -> tuple[Sequence[LimitTests], Sequence[LimitedShare]]:
    """Return the limits with tests, as few as may stand beside ranks, and the shares of those with ranks.

    ``of_several`` are the limits on several places together.
    """
    if not all(each.shares and not each.limit.compares for each in limits):
        return limits, ()
    tests = of_several
    if defers:
        tests = [each for each in limits if each.shares[0].answer == DEFERRED]
    tested = [share for each in tests for share in each.shares]
    shares = [share for each in limits if each not in tests for share in each.shares]
    # Without deferral the tests are on one answer, and read other rows: a cluster may have both.
    read_both = any((a.strata & b.strata).any() for a, b in product(tested, shares))
    are_apart = not (has_clusters or read_both) and len({each.answer for each in tested}) == 1
    if defers or not tests or are_apart:
        return tests, shares
    return limits, ()
