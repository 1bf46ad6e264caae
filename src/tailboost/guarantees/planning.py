"""Numbers of rows for certificates, before any row is collected."""

from bisect import bisect_left
from collections.abc import Mapping
from typing import Any, NamedTuple, Self

import numpy as np
from scipy.special import ndtri
from scipy.stats import binom

from tailboost.core import Document, Floats, Ints, Name, Stated, frozen_value
from tailboost.core.ranges import SHARE, TO_ONE, UNIT, check_number
from tailboost.guarantees.chain import PART_FOR_DEFERRAL, PART_FOR_TESTS, ROWS_FOR_DEFERRAL
from tailboost.guarantees.exact_tests import all_pairs_pass, most_reached, n_answers_for_ranks
from tailboost.guarantees.few_rows import of_subgroup
from tailboost.rates import Limit, checked_limits, groups_in
from tailboost.rows import SPENT_EACH

# A larger number of rows is not named.
MOST_ROWS = 10**9
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
        If a rate breaks its limit, or a limit is on another rate than a share of rows.

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
    stated = checked_limits(limits)
    if not stated:
        raise ValueError("limits: there is no limit")
    level = SPENT_EACH * (1.0 - confidence)
    if not isinstance(rates, (list, tuple)):
        rates = [rates]
    shares_by_limit = shares if isinstance(shares, (list, tuple)) else [shares] * len(stated)
    if not len(stated) == len(rates) == len(shares_by_limit):
        raise ValueError(
            f"rates: give one for each of the {len(stated)} limits, in their order"
        )
    expected_by_limit = [
        Expected.of(*given, by_group=by_group)
        for given in zip(stated, rates, shares_by_limit, strict=True)
    ]
    groups = set().union(*(each.groups for each in expected_by_limit))
    labels = set().union(*(limit.rate.named_labels for limit in stated))
    classes = np.array([*labels, "one", "another"][: max(2, len(labels))], object)
    n_answers = n_answers_for_ranks(stated, classes)
    defers = any(each.on_deferral for each in expected_by_limit)
    # Of a chain that defers: for each answer in each group, and for subgroups of several groups.
    n_stops = n_answers * max(1, len(groups)) + sum(
        len(each.names)
        for each in expected_by_limit
        if each.groups != groups and not each.on_deferral
    )
    rows_by_limit = []
    totals = []
    for expected in expected_by_limit:
        # Parts of the level and of the rows that `calibrate` gives to each test or rank, or less.
        part = 1.0 / len(groups) if expected.groups else 1.0
        rows = 1.0
        if n_answers and expected.on_deferral:
            part *= PART_FOR_DEFERRAL
            rows = ROWS_FOR_DEFERRAL
        elif n_answers and defers:
            part = (1.0 - PART_FOR_DEFERRAL) / n_stops
            rows = 1.0 - ROWS_FOR_DEFERRAL
        elif n_answers:
            # A chain tests limits on all groups beside ranks of each one.
            part *= PART_FOR_TESTS if expected.groups != groups else 1.0 / n_answers
        read = expected._replace(shares=rows * expected.shares)
        # All certificates together have the power, as if those of the limits were independent.
        totals.append(rows_of_table(read, part * level, power ** (1.0 / len(stated))))
        sizes = np.floor(expected.shares * totals[-1] + 1e-9).astype(int).tolist()
        rows_by_limit.append(dict(zip(expected.names, sizes, strict=True)))
    return RowsNeeded(stated, rows_by_limit, shares and max(totals), power)


class Expected(NamedTuple):
    """What a caller expects of the m subgroups of a limit.

    Attributes
    ----------
    limit : Limit
        The limit.
    names : list
        The subgroups.
    rates : ndarray of shape (m,)
        Their true rates under the certified rule.
    shares : ndarray of shape (m,)
        Their counted rows, as shares of the rows of the table.
    groups : set
        Their groups, with the column, that have thresholds of their own.
    """

    limit: Limit
    names: list[Name]
    rates: Floats
    shares: Floats
    groups: set[tuple[Name, Name]]

    @classmethod
    def of(cls, limit: Limit, rate: Stated, share: Stated, *, by_group: bool) -> Self:
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
        rates = [check_number(each, "rates", UNIT) for each in rate_by_name.values()]
        shares = [check_number(share_by_name.get(name), "shares", TO_ONE) for name in names]
        groups = set()
        if by_group and not limit.compares:
            for name in names:
                groups.update(groups_in(name, limit.rate.by, []))
        return cls(limit, names, np.array(rates), np.array(shares), groups)

    @property
    def on_deferral(self) -> bool:
        """Whether the limit is on deferral."""
        return "mask" in self.limit.rate.needs


def rows_of_table(expected: Expected, level: float, power: float) -> int:
    """Return the rows of the table with which the tests of all subgroups or pairs of a limit pass.

    Pairs are simulated: this begins where the room of each pair has place
    for the margin of its test and for the noise of its rates, both by normal deviations.
    """
    limit, names, rates, shares, _ = expected
    allowed = limit.allowed(names)
    errors = rates
    if limit.sense == "≥":
        errors = 1.0 - rates
    is_tested = ~np.isnan(allowed)
    rooms = allowed - errors
    if limit.compares:
        is_tested = ~np.eye(len(names), dtype=bool)
        rooms = limit.rooms(rates, rates)
    if not (rooms[is_tested] > 0).all():
        raise ValueError(f"rates: they break {limit!r}, so no number of rows certifies it")

    if limit.compares:
        # Deviations for one row of the table; on n rows these are 1/√n of them.
        of_row = limit.deviations(rates * (1.0 - rates) / shares)
        margin = ndtri(power) - ndtri(level)
        size = 1.0 + (margin * of_row / rooms)[is_tested].max() ** 2
        passes = 0.0
        while passes < power:
            size = np.ceil(size * GROWTH)
            n = np.floor(shares * size + 1e-9).astype(np.intp)
            draws = np.random.default_rng(0).binomial(n, rates, (DRAWS, len(n)))
            counts = np.stack(np.broadcast_arrays(draws, n), axis=2).tolist()
            passed = [all_pairs_pass(each, limit.factor_and_gap, level) for each in counts]
            passes = sum(passed) / DRAWS
        return int(size)

    tests = np.column_stack([shares, allowed, errors])[is_tested].tolist()

    def power_on(sizes: Ints | int) -> Any:
        """Return the probability that all tests pass on tables of some sizes, or on a single one."""
        passes = []
        for share, bound, error in tests:
            n = np.floor(share * sizes + 1e-9).astype(np.intp)
            passes.append(binom.cdf(most_reached(n, bound, level), n, error))
        return np.prod(passes, axis=0)

    enough = 1 + bisect_left(range(1, MOST_ROWS + 1), power, key=power_on)
    if enough > MOST_ROWS:
        raise ValueError(f"{limit!r}: no practical number of rows certifies it")
    # Counts are whole numbers, so the power may fall again above, as often as a test takes one more error.
    while True:
        sizes = np.ceil(enough + np.arange(AHEAD) / shares[is_tested].min()).astype(np.intp)
        last_too_small = np.flatnonzero(power_on(sizes) < power).max(initial=-1)
        if last_too_small < AHEAD - 1:
            return int(sizes[last_too_small + 1])
        enough = int(sizes[-1])
