"""Numbers of calibration rows for certificates, before any row is collected."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations
from typing import Any

import numpy as np
from scipy.special import ndtri

from tailboost.core.array_types import Axes, Floats, Ints, Stated
from tailboost.core.checks import check_number
from tailboost.core.drawing import display
from tailboost.guarantees.certificates import read_rates
from tailboost.guarantees.ranks import Share, counted_answer, level_of_each, shares_of
from tailboost.rates import Limit, Strata, checked_limits
from tailboost.rates.bounds import each_most_reached, probability_within
from tailboost.rates.power import MOST_ROWS, binomial_power, fewest_rows, pair_power
from tailboost.rows.ledger import spent_by_next
from tailboost.rows.subgroups import unit_name

__all__ = ["RowsForLimit", "RowsNeeded", "rows_needed"]

RANKS = "ranks"
COUNTS = "exact test of a count"
PAIRS = "exact test of pairs"
# Relative precision of the number of rows for a gap or ratio.
PRECISION = 0.01


@dataclass(frozen=True)
class RowsForLimit:
    """Calibration rows for a certificate of one limit.

    Attributes
    ----------
    limit : Limit
        The limit.
    procedure : str
        "ranks", "exact test of a count" or "exact test of pairs".
    rows : dict of int
        Rows counting for the limit, by subgroup; None is the name of all rows.
    total : int
        All rows of the table, or without ``shares`` the rows counting for the limit.
    """

    limit: Limit
    procedure: str
    rows: dict[Any, int]
    total: int


@dataclass(frozen=True)
class RowsNeeded:
    """Calibration rows for certificates.

    Attributes
    ----------
    limits : tuple of RowsForLimit
        Rows for each limit by itself.
    total : int or None
        Rows of the table for all limits together; None for several limits without ``shares``.
    power : float
        Probability of the certificates.
    level : float
        Probability of a false certificate: the part of 1 − confidence for one attempt.
    plans : tuple of PlannedLimit
        The limits with the expected rates and the shares of the rows.
    by_group : bool
        Whether the rule reads the groups of the limits.
    """

    limits: tuple[RowsForLimit, ...]
    total: int | None
    power: float
    level: float
    plans: tuple[PlannedLimit, ...] = field(default=(), repr=False, compare=False)
    by_group: bool = field(default=True, repr=False, compare=False)

    def powers(self, rows: Any) -> list[Floats]:
        """Return the probability of the certificate of each limit, by numbers of rows.

        Parameters
        ----------
        rows : array-like of int, shape (k,)
            Numbers of rows, counted as ``total`` of each limit.

        Returns
        -------
        list of ndarray of shape (k,)
        """
        numbers = np.asarray(rows, dtype=np.intp)
        return [
            power_at(numbers)
            for _, power_at in _procedures(self.plans, self.level, by_group=self.by_group)
        ]

    def plot(self, ax: Axes = None, *, have: int | None = None, **kwargs: Any) -> Any:
        """Draw the probability of each certificate by the number of rows; needs matplotlib.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            Axes to draw on.
        have : int, optional
            The rows at hand, which are marked.
        **kwargs
            Passed to ``Axes.plot``.

        Returns
        -------
        PowerDisplay
        """
        return display("PowerDisplay").from_rows_needed(self, have=have, ax=ax, **kwargs)

    def __str__(self) -> str:
        lines = []
        for each in self.limits:
            lines.append(f"{each.limit}: {each.total:,} rows ({each.procedure})")
            if set(each.rows) != {None}:
                lines += [
                    f"  {unit_name(name)}: {n:,} rows that count"
                    for name, n in each.rows.items()
                ]
        if self.total is not None and len(self.limits) > 1:
            lines.append(f"all limits together: {self.total:,} rows")
        lines.append(
            "With each number, `calibrate` certifies with a probability of at least "
            f"{self.power:g}, if the "
            "rates are true."
        )
        return "\n".join(lines)

    def to_dict(self) -> dict[str, Any]:
        """Return plain types, for JSON."""
        each = [
            {
                "limit": str(one.limit),
                "procedure": one.procedure,
                "rows": [{"subgroup": name, "rows": n} for name, n in one.rows.items()],
                "total": one.total,
            }
            for one in self.limits
        ]
        return {"limits": each, "total": self.total, "power": self.power, "level": self.level}


def rows_needed(
    limits: Stated,
    rates: Stated,
    *,
    shares: Any = None,
    power: float = 0.8,
    confidence: float = 0.95,
    attempts: int | None = None,
    by_group: bool = True,
    n_classes: int = 2,
) -> RowsNeeded:
    """Return the numbers of calibration rows for certificates of limits, from expected true rates.

    The procedures and their exact probabilities are those of `tailboost.calibrate`. `tailboost.certify`
    divides the level by all of its m bounds: for limits without gap or ratio, ``confidence=1 - 0.05 / m``,
    ``attempts=1`` and ``by_group=False`` give its numbers.

    * *Tests.* The number of rows certifies a rule with the stated rates with a probability of at least
      ``power``. Stricter rules come first in the sequence; they are assumed to pass too.
    * *Ranks.* Limits on one side: with this probability the threshold that has the stated rate is among the
      certified ones. Gap and ratio: the certificate of the ranks with the stated rates is certain, if all
      scores differ.

    Parameters
    ----------
    limits : Limit, str, or list of them
        The limits.
    rates : float, dict, or list of them
        For each limit the true rates that the certified rule is expected to have. A dict has the rate of each
        subgroup; a number applies to all of them.
    shares : float, dict, or list of them, optional
        For each limit the share of all rows that count for it, by subgroup or alike: for a miss the share of
        the class, for a precision the share of rows with this answer. By default the subgroups of a limit
        have equal numbers of rows, and other rows are not counted.
    power : float in (0, 1), default=0.8
        Probability of the certificate.
    confidence : float in (0, 1), default=0.95
        Of the certificate.
    attempts : int, optional
        Declared attempts, as in `tailboost.calibrate`; the number of rows is for the first one.
    by_group : bool, default=True
        Whether the rule reads the groups of the limits. Thresholds of groups then divide the level.
    n_classes : int, default=2
        Number of classes. Ranks serve two classes.

    Returns
    -------
    RowsNeeded
        With ``limits``, one entry for each limit, and ``total``, the rows for all limits together. Print it.
        Numbers for a gap or ratio are up to 1 % too large.

    Raises
    ------
    ValueError
        If a rate breaks its limit, then no number of rows certifies it. If a limit has rates other than
        counts: costs and F scores depend on more than their mean. Also if the subgroups of a limit are not
        named.

    Examples
    --------
    >>> import tailboost as tb
    >>> print(tb.rows_needed("precision(1) >= .95", 0.97, shares=0.1))
    precision of 1: at least 0.95: 7,000 rows (exact test of a count)
    With each number, `calibrate` certifies with a probability of at least 0.8, if the rates are true.
    >>> needed = tb.rows_needed("miss(1, by='sex') <= .25", {"f": 0.2, "m": 0.2})
    >>> needed.limits[0].procedure, needed.limits[0].rows
    ('ranks', {'f': 774, 'm': 774})
    """
    check_number(power, "power", 0, 1, below=True)
    check_number(confidence, "confidence", 0, 1, below=True)
    checked = list(checked_limits(read_rates(limits)))
    if not checked:
        raise ValueError("limits: there is no limit")
    several = isinstance(limits, (list, tuple))
    each_rates = _one_for_each(rates, "rates", checked, several=several)
    each_shares = _one_for_each(shares, "shares", checked, several=several)
    plans = _plans(checked, each_rates, each_shares, n_classes)
    level = spent_by_next((), attempts) * (1.0 - confidence)
    procedure = _procedures(plans, level, by_group=by_group)
    alone = []
    for plan, (name, power_at) in zip(plans, procedure, strict=True):
        compares = plan.limit.compares
        start, precision = (_guess(plan, power), PRECISION) if compares else (1, 0.0)
        total = fewest_rows(power_at, power, start=start, precision=precision)
        if total is None:
            raise ValueError(
                f"{plan.limit!r}: more than a thousand million rows are needed ({name})"
            )
        sizes = plan.sizes(np.array([total]))[:, 0].tolist()
        alone.append(
            RowsForLimit(plan.limit, name, dict(zip(plan.names, sizes, strict=True)), total)
        )
    together = _together(plans, procedure, alone, power, shares)
    return RowsNeeded(tuple(alone), together, power, level, tuple(plans), by_group)


@dataclass(frozen=True, eq=False)
class PlannedLimit:
    """A limit with its subgroups, their expected rates and their shares of the rows."""

    limit: Limit
    names: list[Any]
    rates: Floats  # shape (m,)
    shares: Floats  # shape (m,)
    by_share: (
        list[Share] | None
    )  # None if the limit is not about the share of one of two answers
    two_answers: bool  # whether the rule has two answers, so that thresholds describe it

    def sizes(self, rows: Ints) -> Ints:
        """Return the rows of each subgroup, shape (m, k), for k numbers of all rows."""
        sizes: Ints = np.floor(self.shares[:, None] * rows + 1e-9).astype(np.intp)
        return sizes

    @property
    def excess(self) -> tuple[Floats, Floats]:
        """Rates and bounds of the counted errors: of the complement for a limit from below."""
        bounds = self.limit.bounds(self.names)
        kept = ~np.isnan(bounds)
        rates = self.rates
        if not self.limit.from_above:
            rates = 1.0 - rates
            bounds = 1.0 - bounds
        return np.where(kept, rates, 0.0), np.where(kept, bounds, 1.0)


Powers = Callable[[Ints], Floats]


def _procedures(
    plans: Sequence[PlannedLimit], level: float, *, by_group: bool
) -> list[tuple[str, Powers]]:
    """Return the name of the procedure of each limit, and its power by the number of rows."""
    compares = any(plan.limit.compares for plan in plans)
    columns = {_columns(plan.limit) for plan in plans}
    # Each group with a threshold of its own has a part of the level.
    groups = {
        _group(plan.limit, name)
        for plan in plans
        if _columns(plan.limit)
        for name in plan.names
    }
    if all(plan.by_share is not None for plan in plans):
        if compares and by_group and len(plans) == 1:
            return [(RANKS, lambda rows: _compared(plans[0], rows, level))]
        if not compares:
            thresholds = len(groups) if by_group and groups and len(columns) == 1 else 1
            together = [share for plan in plans for share in plan.by_share or ()]
            each = level_of_each(together, thresholds, level)
            return [(RANKS, _powers_of_counts(plan, each)) for plan in plans]
    each = level
    if by_group and not compares and all(plan.two_answers for plan in plans):
        each = level / max(1, len(groups))
    return [
        (PAIRS, _powers_of_pairs(plan, level))
        if plan.limit.compares
        else (COUNTS, _powers_of_counts(plan, each))
        for plan in plans
    ]


def _powers_of_counts(plan: PlannedLimit, level: float) -> Powers:
    """Return the probability that all subgroups pass; their rows are independent."""
    rates, bounds = plan.excess

    def power_at(rows: Ints) -> Floats:
        power = np.ones(len(rows))
        for n, rate, bound in zip(
            plan.sizes(rows), rates.tolist(), bounds.tolist(), strict=True
        ):
            power = power * binomial_power(n, rate, each_most_reached(n, bound, level))
        return power

    return power_at


def _powers_of_pairs(plan: PlannedLimit, level: float) -> Powers:
    """Return a lower bound on the probability that all pairs pass (union bound)."""
    factor, gap = plan.limit.pair

    def failing(i: int, j: int, n: Ints) -> float:
        rates = (plan.rates[i], plan.rates[j])
        sizes = (int(n[i]), int(n[j]))
        return 1.0 - pair_power(rates, sizes, level, factor=factor, gap=gap)

    def power_at(rows: Ints) -> Floats:
        pairs = list(combinations(range(len(plan.names)), 2))
        return np.array(
            [1.0 - sum(failing(i, j, n) for i, j in pairs) for n in plan.sizes(rows).T]
        )

    return power_at


def _compared(plan: PlannedLimit, rows: Ints, level: float) -> Floats:
    """Return whether the ranks with the expected rates certify a gap or ratio."""
    factor, gap = plan.limit.pair
    found = []
    for sizes in plan.sizes(rows).T:
        ranks = np.minimum(np.round(plan.rates * (sizes + 1)).astype(np.intp), sizes).tolist()
        found.append(
            probability_within(ranks, ranks, sizes.tolist(), factor=factor, gap=gap)
            >= 1.0 - level
        )
    return np.array(found, dtype=np.float64)


def _guess(plan: PlannedLimit, power: float) -> int:
    """Return the rows for a gap or ratio by the normal approximation for its closest pair."""
    limit = plan.limit
    rates = plan.rates
    others = ~np.eye(len(plan.names), dtype=bool)
    deviations = limit.deviations(rates * (1.0 - rates) / plan.shares)
    # Rates of 0 leave a ratio neither room nor deviation.
    with np.errstate(divide="ignore", invalid="ignore"):
        standardised = (deviations / limit.rooms(rates, rates))[others]
    rows = ((ndtri(0.95) + ndtri(power)) * standardised) ** 2
    return int(np.nan_to_num(rows, nan=1.0).clip(1.0, MOST_ROWS).max(initial=1.0))


def _together(
    plans: Sequence[PlannedLimit],
    procedure: Sequence[tuple[str, Powers]],
    alone: Sequence[RowsForLimit],
    power: float,
    shares: Any,
) -> int | None:
    """Return the rows with which all limits are certified together (union bound)."""
    if len(plans) == 1:
        return alone[0].total
    if shares is None:
        return None

    def power_at(rows: Ints) -> Floats:
        failing: Floats = np.sum([1.0 - powers(rows) for _, powers in procedure], axis=0)
        return 1.0 - failing

    compares = any(plan.limit.compares for plan in plans)
    start = max(each.total for each in alone)
    return fewest_rows(power_at, power, start=start, precision=PRECISION * compares)


# -- arguments ---------------------------------------------------------------------------------------------


def _one_for_each(
    given: Any, name: str, limits: Sequence[Limit], *, several: bool
) -> list[Any]:
    """Return one entry for each limit."""
    if not several or given is None:
        return [given] * len(limits)
    entries = [given]
    if isinstance(given, (list, tuple)):
        entries = list(given)
    elif len(limits) > 1:
        raise ValueError(
            f"{name}: give a list with one entry for each of the {len(limits)} limits"
        )
    if len(entries) != len(limits):
        raise ValueError(f"{name} has {len(entries)} entries for {len(limits)} limits")
    return entries


def _plans(
    limits: Sequence[Limit], rates: Sequence[Any], shares: Sequence[Any], n_classes: int
) -> list[PlannedLimit]:
    """Return the limits with their subgroups, checked."""
    labels = list(
        dict.fromkeys(limit.rate.label for limit in limits if limit.rate.label is not None)
    )
    others = [label for label in range(n_classes + len(labels)) if label not in labels]
    classes = tuple([*labels, *others][: max(n_classes, len(labels))])
    ones = np.ones(len(classes)) / len(classes)
    defers = any(limit.rate.counts_deferral for limit in limits)
    strata = Strata(classes, (), (), np.zeros((1, 0), dtype=np.intp), ones, ones, defers)
    plans = []
    for limit, rate, share in zip(limits, rates, shares, strict=True):
        if not limit.rate.is_share:
            raise ValueError(
                f"{limit!r}: the power depends on more than the mean of {limit.rate.words!r}"
            )
        names = _names(limit, rate, share)
        of_rate = _values(rate, names, f"rates of {limit!r}")
        default = {name: 1.0 / len(names) for name in names}
        of_share = _values(default if share is None else share, names, f"shares of {limit!r}")
        if (of_share <= 0).any():
            raise ValueError(f"shares of {limit!r} must be above 0, got {share!r}")
        if limit.distance(names, of_rate) >= 0.0:
            raise ValueError(
                f"{limit!r}: the rates {dict(zip(names, of_rate.tolist(), strict=True))} do "
                "not keep it with "
                "room to spare, so no number of rows certifies it"
            )
        none = np.zeros(0, dtype=np.intp)
        answer = counted_answer(replace(limit.rate, by=None), strata)
        by_share = shares_of(limit, answer, [(name, none) for name in names])
        plans.append(
            PlannedLimit(limit, names, of_rate, of_share, by_share, strata.n_actions == 2)
        )
    return plans


def _names(limit: Limit, rate: Any, share: Any) -> list[Any]:
    """Return the names of the subgroups of a limit."""
    if limit.rate.by is None:
        return [None]
    for given in (rate, share, dict(limit.bound) if isinstance(limit.bound, tuple) else None):
        if isinstance(given, Mapping) and None not in given:
            return list(given)
    raise ValueError(
        f"{limit!r}: name the subgroups, for example rates={{'f': 0.1, 'm': 0.12}}"
    )


def _values(given: Any, names: Sequence[Any], what: str) -> Floats:
    """Return a number for each subgroup."""
    each = given if isinstance(given, Mapping) else dict.fromkeys(names, given)
    if names == [None] and None not in each:
        raise ValueError(f"{what}: the limit has no subgroups, give one number, got {given!r}")
    missing = [name for name in names if name not in each]
    if missing:
        raise ValueError(f"{what}: {missing[0]!r} is missing, got {given!r}")
    return np.array([check_number(each[name], what, 0, 1, closed=True) for name in names])


def _columns(limit: Limit) -> tuple[Any, ...]:
    """Return the columns of groups of a limit."""
    return tuple(name for name in limit.rate.crossed if name not in (None, "class"))


def _group(limit: Limit, name: Any) -> Any:
    """Return the groups in the name of a subgroup."""
    by = limit.rate.by
    if isinstance(by, tuple):
        return tuple(part for column, part in zip(by, name, strict=True) if column != "class")
    if by == "cell":
        return name[1]
    return name
