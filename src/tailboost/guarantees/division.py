"""What keeps each of several limits on rules on one score, and with which fraction of the level.

One of three cases holds, and each has its procedure, a file with the theorem.

* *Ranks.* Each limit is on the share of a fixed number of rows of one place that get one answer, and no rule
  defers. The limit stops the threshold of its place where too many of the fresh rows would get this answer
  (`ranks`).
* *Ranks and tests.* Some limits have such stops, and the others have tests along a chain of rules (`chain`).
  The others are on several places together, and on rows of other strata. With deferral they are the limits
  on it, if there are any, and those with stops may be on several places, too.
* *Tests.* All limits are tested, in any other case (`sequence`, or `gaps` for a lone gap or ratio).
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import product
from typing import NamedTuple, Self

import numpy as np

from tailboost.core import Ints, Name, Names, frozen_object
from tailboost.guarantees.exact_tests import LimitedShare, LimitTests
from tailboost.rates import Limit, Strata
from tailboost.selection.thresholds import DEFERRED, Places


class Fractions(NamedTuple):
    """Fractions of the level for all tests, and of the fresh rows for stops and for tests."""

    level_of_tests: float
    rows_of_stops: float = 1.0
    rows_of_tests: float = 1.0


# Of tests beside stops, by whether rules defer: then they read other rows than the stops.
BESIDE_STOPS = {
    False: Fractions(0.2),
    True: Fractions(0.5, rows_of_stops=0.7, rows_of_tests=0.3),
}


@frozen_object
class Division:
    """What keeps each limit, and with which fraction of the level and of the fresh rows.

    Attributes
    ----------
    shares : list of LimitedShare
        The limited shares with stops.
    tests : list of LimitTests
        The limits with tests.
    tested_together : list of ndarray
        The places whose thresholds are tested together: each one alone if each limit is on one place.
    defers : bool
        Whether rules may defer.
    """

    shares: Sequence[LimitedShare] = ()
    tests: Sequence[LimitTests] = ()
    tested_together: Sequence[Ints] = ()
    defers: bool = False

    @classmethod
    def of(
        cls, limits: Sequence[LimitTests], *, defers: bool, has_clusters: bool = False
    ) -> Self:
        """Return the division with ranks for all limits that can have them beside the others."""
        places = np.arange(limits[0].places.shape[1])
        across = [each for each in limits if each.is_across]
        together = [places] if across else list(places[:, None])
        tests = across
        if defers:
            tests = [
                each for each in limits if each.shares and each.shares[0].answer == DEFERRED
            ]
        shares = [share for each in limits if each not in tests for share in each.shares]
        have_ranks = all(each.shares and not each.limit.compares for each in limits)
        if tests and not defers:
            # Then the tests must be on one answer, and on other rows than the ranks. A cluster may have both.
            tested = [share for each in tests for share in each.shares]
            pairs = product(tested, shares)
            have_ranks &= len({share.answer for share in tested}) == 1 and not has_clusters
            have_ranks &= not any((one.strata & other.strata).any() for one, other in pairs)
        if have_ranks:
            return cls(shares, tests, together, defers)
        return cls((), limits, together, defers)

    @property
    def kept_by(self) -> str:
        """What keeps the limits, see above."""
        if not self.shares:
            return "tests"
        return "ranks and tests" if self.tests or self.defers else "ranks"

    @property
    def fractions(self) -> Fractions:
        """The fractions for stops and for tests."""
        if self.shares and self.tests:
            return BESIDE_STOPS[self.defers]
        return Fractions(0.0 if self.shares else 1.0)

    @property
    def level_of_test(self) -> float:
        """The fraction of the level of the tests of places that are tested together."""
        n_tests = sum(
            any(each.places[:, places].any() for each in self.tests)
            for places in self.tested_together
        )
        return self.fractions.level_of_tests / max(n_tests, 1)

    @property
    def level_of_stop(self) -> float:
        """The fraction of the level of each stop."""
        # Shares of one place and answer have one stop; one of several places has its own.
        alone = {(each.places, each.answer) for each in self.shares if len(each.places) == 1}
        n_together = sum(len(each.places) > 1 for each in self.shares)
        return (1.0 - self.fractions.level_of_tests) / (len(alone) + n_together)

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
        combinations = np.array([*product(*map(range, map(len, values)))], int)
        mass = np.ones(len(classes) * len(combinations))
        defers = any("mask" in limit.rate.needs for limit in limits)
        strata = Strata(classes, (*groups,), values, combinations, mass, mass, defers)
        places = Places(strata.place(None))
        if by_group and groups:
            places = Places(strata.place(0), len(values[0]), strata.columns[:1])
        tests = []
        for limit in limits:
            test = LimitTests.of(replace(limit, bound=0.5), strata, places)  # names no subgroup
            if test is None:
                return cls()
            tests.append(test)
        return cls.of(tests, defers=defers)
