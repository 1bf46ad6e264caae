"""Numbers of rows for certificates, before any row is collected."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import permutations
from typing import Any

import numpy as np
from scipy.special import ndtri
from scipy.stats import binom

from tailboost.core.array_types import Floats, Ints, Stated
from tailboost.core.checks import check_number
from tailboost.rates import Limit, checked_limits, checked_rates
from tailboost.rates.bounds import each_most_reached, fewest_rows
from tailboost.rows.ledger import SPENT_EACH
from tailboost.rows.subgroups import unit_name


@dataclass(frozen=True)
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
    rows: list[dict[Any, int]]
    total: int | None
    power: float

    def __str__(self) -> str:
        lines = []
        for limit, rows in zip(self.limits, self.rows, strict=True):
            counted = "rows that count" if limit.rate.is_ratio else limit.rate.counted_rows
            for name, n in rows.items():
                of_group = "" if name is None else f" of {unit_name(name)}"
                lines.append(f"{limit}: {n:,} {counted}{of_group}")
        if self.total is not None:
            lines.append(f"All limits together: {self.total:,} rows of the table.")
        lines.append(
            f"With these rows a rule with these rates is certified with a probability of {self.power:g}; "
            "rows that select come besides."
        )
        return "\n".join(lines)

    def to_dict(self) -> dict[str, Any]:
        """Return plain types, for JSON."""
        limits = [
            {
                "limit": str(limit),
                "rows": [{"subgroup": name, "rows": n} for name, n in rows.items()],
            }
            for limit, rows in zip(self.limits, self.rows, strict=True)
        ]
        return {"limits": limits, "total": self.total, "power": self.power}


def rows_needed(
    limits: Stated,
    rates: Stated,
    *,
    shares: Any = None,
    power: float = 0.8,
    confidence: float = 0.95,
    by_group: bool = True,
) -> RowsNeeded:
    """Return the numbers of rows that certify limits, from expected true rates.

    A share of rows has the exact power of its test, or of its rank. A gap or ratio has normal deviations,
    which give .94 to 1.04 times the exact numbers in 32 cases.

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
    check_number(power, "power", 0, 1, below=True)
    check_number(confidence, "confidence", 0, 1, below=True)
    stated = list(checked_limits(checked_rates(limits)))
    if not stated:
        raise ValueError("limits: there is no limit")
    level = SPENT_EACH * (1.0 - confidence)
    is_list = isinstance(limits, (list, tuple))
    rows_by_limit = []
    totals = []
    for number, limit in enumerate(stated):
        rate = rates[number] if is_list else rates
        share = shares[number] if is_list and shares is not None else shares
        plan = _Plan.of(limit, rate, share)
        alone = plan.rows(power, level, by_group=by_group)
        together = plan.rows(power ** (1.0 / len(stated)), level, by_group=by_group)
        totals.append(together)
        sizes = np.floor(plan.shares * alone + 1e-9).astype(int).tolist()
        rows_by_limit.append(dict(zip(plan.names, sizes, strict=True)))
    total = None if shares is None else max(totals)
    return RowsNeeded(tuple(stated), rows_by_limit, total, power)


@dataclass(frozen=True, eq=False)
class _Plan:
    """A limit with the expected rates of its subgroups, and their shares of the rows, shape (m,) each."""

    limit: Limit
    names: list[Any]
    rates: Floats
    shares: Floats

    @classmethod
    def of(cls, limit: Limit, rate: Any, share: Any) -> _Plan:
        """Return the plan; raise ValueError if a rate breaks the limit, or is no share of rows."""
        if not limit.rate.is_share:
            raise ValueError(
                f"{limit!r}: rows are planned for shares of rows, not for this rate"
            )
        by_name = rate if isinstance(rate, Mapping) else {None: rate}
        names = list(by_name)
        if (limit.rate.by is None) != (names == [None]) or (limit.compares and len(names) < 2):
            raise ValueError(f"rates: {limit!r} needs a rate for each subgroup, got {rate!r}")
        numbers = [check_number(by_name[name], "rates", 0, 1, closed=True) for name in names]
        of_name = share if isinstance(share, Mapping) else dict.fromkeys(names, share or 1.0)
        lacking = [name for name in names if name not in of_name]
        if lacking:
            raise ValueError(f"shares: {limit!r} needs the share of {lacking[0]!r}")
        parts = [check_number(of_name[name], "shares", 0, 1) for name in names]
        plan = cls(limit, names, np.array(numbers), np.array(parts))
        if not all(room > 0 for room, _, _ in plan.rooms()):
            raise ValueError(
                f"rates: {rate!r} breaks {limit!r}, so no number of rows certifies it"
            )
        return plan

    def rooms(self) -> list[tuple[float, int, int]]:
        """Return the room of each rate, or of each ordered pair of a gap or ratio, with its subgroups."""
        if self.limit.compares:
            factor, gap = self.limit.pair
            return [
                (float(gap - factor * self.rates[a] + self.rates[b]), a, b)
                for a, b in permutations(range(len(self.names)), 2)
            ]
        rooms = self.limit.sign * (self.limit.bounds(self.names) - self.rates)
        return [(float(room), j, j) for j, room in enumerate(rooms) if not np.isnan(room)]

    def rows(self, power: float, level: float, *, by_group: bool) -> int:
        """Return the fewest rows of the table with which the limit is certified with a probability."""
        if self.limit.compares:
            factor, _ = self.limit.pair
            d = np.sqrt(
                self.rates * (1.0 - self.rates) / self.shares
            )  # of one row of the table
            probit = ndtri(1.0 - (1.0 - power) / len(self.rooms()))  # each pair may fail
            needed = [
                (probit * np.hypot(factor * d[a], d[b]) - ndtri(level) * (factor * d[a] + d[b]))
                / room
                for room, a, b in self.rooms()
            ]
            return int(np.ceil(max(needed) ** 2))
        is_by_rank = by_group and not self.limit.rate.is_ratio
        level_of_each = level / len(self.names) if is_by_rank else level
        total = fewest_rows(self._power_at(level_of_each), power)
        if total is None:
            raise ValueError(f"{self.limit!r}: no practical number of rows certifies it")
        return total

    def _power_at(self, level: float) -> Callable[[Ints], Floats]:
        """Return the probability that all subgroups pass, by the number of rows of the table."""
        against = self.limit.against
        allowed = against(self.limit.bounds(self.names))
        errors: Sequence[float] = against(self.rates).tolist()

        def power_at(total: Ints) -> Floats:
            numbers = np.atleast_1d(total)
            powers = np.ones(len(numbers))
            for _, j, _ in self.rooms():
                n = np.floor(self.shares[j] * numbers + 1e-9).astype(np.intp)
                powers *= binom.cdf(each_most_reached(n, allowed[j], level), n, errors[j])
            return powers

        return power_at
