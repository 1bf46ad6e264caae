"""Numbers of rows for certificates, before any row is collected."""

from bisect import bisect_left
from collections.abc import Mapping
from itertools import compress
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import ndtri
from scipy.stats import binom

from tailboost.core import Document, Floats, Ints, Name, Stated, frozen_value
from tailboost.core.ranges import SHARE, TO_ONE, UNIT, check_number
from tailboost.guarantees.division import Division
from tailboost.guarantees.exact_tests import all_pairs_pass, most_errors
from tailboost.guarantees.few_rows import of_subgroup
from tailboost.rates import SIGNS, Limit, checked_limits, groups_in
from tailboost.rows import SPENT_EACH

# A larger number of rows is not named.
MOST_ROWS = 10**9
# The same for pairs: the power of their tests on so many rows takes minutes.
MOST_SIMULATED = 500_000
# Numbers of counted rows tried after the first sufficient one.
AHEAD = 4096
# Draws for the power of pairs, and the growth of a table from one try to the next.
DRAWS = 100
GROWTH = 1.1


@frozen_value
class RowsNeeded:
    """Rows for certificates.

    Attributes
    ----------
    limits : tuple of Limit
        The limits.
    rows : list of dict
        For each limit the rows that count, by subgroup.
    total : int or None
        Rows of the table for all limits together; None without ``shares``.
    power : float
        Probability of the certificates.
    """

    limits: tuple[Limit, ...]
    rows: list[dict[Name, int]]
    total: int | None
    power: float

    def __str__(self) -> str:
        lines = []
        for limit, rows in zip(self.limits, self.rows, strict=True):
            counted = "rows that count" if limit.rate.is_ratio else limit.rate.words_of_rows
            for name, n in rows.items():
                lines.append(f"{limit}: {n:,} {counted}{of_subgroup(name)}")
        if self.total is not None:
            lines.append(f"All limits together: {self.total:,} rows of the table.")
        lines.append(
            "With these rows a rule with these rates is certified with a probability of "
            f"{self.power:g}; rows that select come besides."
        )
        return "\n".join(lines)

    def to_dict(self) -> Document:
        """Return plain types, for JSON."""
        return {
            "limits": [
                {
                    "limit": str(limit),
                    "rows": [{"subgroup": name, "rows": n} for name, n in rows.items()],
                }
                for limit, rows in zip(self.limits, self.rows, strict=True)
            ],
            "total": self.total,
            "power": self.power,
        }


def rows_needed(
    limits: Stated,
    rates: Stated,
    *,
    shares: Stated = None,
    power: float = 0.8,
    confidence: float = 0.95,
    by_group: bool = True,
) -> RowsNeeded:
    """Return the numbers of rows that certify limits, from expected true rates.

    Each test has the part of the level and of the rows that `calibrate` gives it, or less. The power of a
    share of rows is that of its exact test, or of its rank, for a rule with these rates: on the mean number
    of rows, where rows drawn at random test deferral. That of a gap or ratio is simulated.

    Parameters
    ----------
    limits : Limit, str, or list of them
        The limits, on shares of rows.
    rates : float, dict, or list of them
        For each limit the expected true rate of the certified rule; by subgroup as a dict.
    shares : float, dict, or list of them, optional
        For each limit the share of counted rows among all rows, by subgroup or one number for all: for a miss
        the share of the label, for a precision that of rows with this answer. By default the subgroups have
        equal numbers of counted rows.
    power : float in (0, 1), default=0.8
        Probability of the certificate.
    confidence : float in (0, 1), default=0.95
        Of the certificate, in a first attempt.
    by_group : bool, default=True
        Whether the rule reads the groups of the limits: then thresholds by group divide the level.

    Returns
    -------
    RowsNeeded

    Raises
    ------
    ValueError
        If a rate leaves no room within its limit, or a limit is on another rate than a share of rows.

    Examples
    --------
    >>> import tailboost as tb
    >>> needed = tb.rows_needed("miss(1, by='sex') <= .25", {"f": 0.2, "m": 0.2})
    >>> needed.rows
    [{'f': 774, 'm': 774}]
    >>> tb.rows_needed("precision(1) >= .95", 0.97, shares=0.1).total
    7000
    """
    check_number(power, "power", SHARE)
    check_number(confidence, "confidence", SHARE)
    # 1. What is expected of each limit.
    stated = checked_limits(limits)
    if not stated:
        raise ValueError("limits: there is no limit")
    if not isinstance(rates, (list, tuple)):
        rates = [rates]
    if not isinstance(shares, (list, tuple)):
        shares = [shares] * len(stated)
    for name, by_limit in (("rates", rates), ("shares", shares)):
        if len(by_limit) != len(stated):
            raise ValueError(
                f"{name}: give one for each of the {len(stated)} limits, in their order"
            )
    expected_by_limit = [*map(Expected.of, stated, rates, shares)]
    # 2. Which part of the level and of the rows each test has: this depends on the labels and the groups.
    labels = set().union(*(limit.rate.named_labels for limit in stated))
    classes = (*labels, "one", "another")[: max(2, len(labels))]
    groups: dict[Name, dict[Name, None]] = {}
    for expected in expected_by_limit:
        for subgroup in expected.names:
            for column, group in groups_in(subgroup, expected.limit.rate.by, []):
                groups.setdefault(column, {})[group] = None
    division = Division.planned(stated, classes, groups, by_group=by_group)
    # 3. The rows of each limit.
    rows_by_limit = []
    totals = []
    for expected in expected_by_limit:
        limit = expected.limit
        level = division.level_of_test
        share_of_rows = division.fractions.rows_of_tests
        if division.shares and limit.rate not in [test.limit.rate for test in division.tests]:
            level = division.level_of_stop
            share_of_rows = division.fractions.rows_of_stops
        rows_for = rows_for_pairs if limit.compares else rows_for_shares
        total = rows_for(
            expected._replace(shares=share_of_rows * expected.shares),
            level * SPENT_EACH * (1.0 - confidence),
            # All certificates together have the power, as if those of the limits were independent.
            power ** (1.0 / len(stated)),
        )
        if total > (MOST_SIMULATED if limit.compares else MOST_ROWS):
            raise ValueError(f"{limit!r}: no practical number of rows certifies it")
        totals.append(total)
        sizes = expected.counted(total).tolist()
        rows_by_limit.append(dict(zip(expected.names, sizes, strict=True)))
    of_all = None if None in shares else max(totals)
    return RowsNeeded(stated, rows_by_limit, of_all, power)


class Expected(NamedTuple):
    """What a caller expects of the m limited subgroups.

    Attributes
    ----------
    limit : Limit
        The limit.
    names : list
        The subgroups with a limit.
    rates : ndarray of shape (m,)
        Their true rates under the certified rule.
    shares : ndarray of shape (m,)
        Their counted rows, as shares of the rows of the table.
    """

    limit: Limit
    names: list[Name]
    rates: Floats
    shares: Floats

    @classmethod
    def of(cls, limit: Limit, rate: Stated, share: Stated) -> Self:
        """Return stated rates and shares by subgroup; raise ValueError for missing or impossible ones."""
        if limit.rate.quantity != "share":
            raise ValueError(
                f"{limit!r}: rows are planned for shares of rows, not for this rate"
            )
        rate_by_name = rate if isinstance(rate, Mapping) else {None: rate}
        names = list(rate_by_name)
        if (limit.rate.by is None) != (names == [None]) or (limit.compares and len(names) < 2):
            raise ValueError(f"rates: {limit!r} needs a rate for each subgroup, got {rate!r}")
        if share is None:
            share = 1.0
        share_by_name = share if isinstance(share, Mapping) else dict.fromkeys(names, share)
        names = [*compress(names, ~np.isnan(limit.levels(names)))]  # a free one has no level
        rates = np.array([check_number(rate_by_name[name], "rates", UNIT) for name in names])
        shares = [check_number(share_by_name.get(name), "shares", TO_ONE) for name in names]
        expected = cls(limit, names, rates, np.array(shares))
        if (expected.rooms <= 0).any():
            raise ValueError(
                f"rates: they leave no room within {limit!r}, so no number of rows certifies it"
            )
        return expected

    @property
    def rooms(self) -> Floats:
        """The room within the limit of each rate, shape (m,); of compared ones that of each pair, (m, m)."""
        if not self.limit.compares:
            return SIGNS[self.limit.sense] * (self.limit.levels(self.names) - self.rates)
        rooms = self.limit.rooms(self.rates, self.rates)
        np.fill_diagonal(rooms, np.inf)  # of a rate beside itself
        return rooms

    def counted(self, total: ArrayLike) -> Ints:
        """Return the counted rows of each subgroup in tables of some sizes, shape (..., m)."""
        return np.floor(np.multiply.outer(total, self.shares) + 1e-9).astype(np.intp)


def rows_for_shares(expected: Expected, level: float, power: float) -> int:
    """Return the rows of the table with which the tests of all subgroups pass."""
    allowed = expected.limit.allowed(expected.names).tolist()
    errors = expected.rates
    if expected.limit.sense == "≥":
        errors = 1.0 - errors

    def power_on(sizes: Ints | int) -> Any:
        """Return the probability that all tests pass on tables of some sizes, or on a single one."""
        of_subgroups = zip(expected.counted(sizes).T, allowed, errors, strict=True)
        passes = [binom.cdf(most_errors(n, bound, level), n, p) for n, bound, p in of_subgroups]
        return np.prod(passes, axis=0)

    enough = 1 + bisect_left(range(1, MOST_ROWS + 1), power, key=power_on)
    # Counts are whole numbers, so the power may fall again above, as often as a test takes one more error.
    while enough <= MOST_ROWS:
        sizes = np.ceil(enough + np.arange(AHEAD) / expected.shares.min()).astype(np.intp)
        last_too_small = np.flatnonzero(power_on(sizes) < power).max(initial=-1)
        if last_too_small < AHEAD - 1:
            return int(sizes[last_too_small + 1])
        enough = int(sizes[-1])
    return enough


def rows_for_pairs(expected: Expected, level: float, power: float) -> int:
    """Return the rows of the table with which the tests of all pairs pass, by simulated rates.

    This begins where the room of each pair has place for the margin of its test and for the noise of its
    rates, both by normal deviations.
    """
    limit, _, rates, shares = expected
    # Deviations for one row of the table; on n rows these are 1/√n of them.
    of_row = limit.deviations(rates * (1.0 - rates) / shares)
    size = 1.0 + ((ndtri(power) - ndtri(level)) * of_row / expected.rooms).max() ** 2
    n_passed = 0
    while n_passed < power * DRAWS and size <= MOST_SIMULATED:
        size = np.ceil(size * GROWTH)
        n = expected.counted(size)
        draws = np.random.default_rng(0).binomial(n, rates, (DRAWS, len(n)))
        counts = np.stack(np.broadcast_arrays(draws, n), axis=2).tolist()
        n_passed = sum(all_pairs_pass(each, limit, level) for each in counts)
    return int(size)
