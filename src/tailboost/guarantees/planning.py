"""Numbers of calibration rows for certificates, before any row is collected."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations
from typing import Any

import numpy as np
from scipy.special import ndtri

from tailboost.core.array_types import Floats, Ints, Mask, Stated
from tailboost.core.checks import check_number
from tailboost.core.rate_words import value_words
from tailboost.core.spelling import as_typed, with_known_arguments
from tailboost.guarantees.shares import Share, counted_answer, level_of_each, shares_of
from tailboost.rates import Limit, Strata, checked_limits, checked_rates
from tailboost.rates.bounds import each_most_reached, probability_within
from tailboost.rates.power import MOST_ROWS, binomial_power, fewest_rows, pair_power
from tailboost.rows.ledger import spent_by_next
from tailboost.rows.subgroups import unit_name

RANKS = "ranks"
COUNTS = "exact test of a count"
PAIRS = "exact test of pairs"
# Relative precision of the number of rows for a gap or ratio.
PRECISION = 0.01
# Of several tested limits, how many times the printed number makes up for the choice by selecting rows. Of
# 340 batches within misses and a precision (of all rows, or of each group; four made tables, continuous and
# rounded scores), of which 30 % select, 234 were certified with the printed number of certifying rows, and
# 303 with 1.5 times as many. The chosen thresholds differ from those with the stated rates, less so with more
# rows. Ranks choose on the certifying rows: 78 of 80 batches within misses and false alarms were certified
# with the printed number.
TIMES_WITH_SELECTION = 1.5


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

    def __str__(self) -> str:
        lines = []
        for needed, plan in zip(self.limits, self.plans, strict=True):
            rate = needed.limit.rate
            counted = "rows that count" if rate.is_ratio else rate.counted_rows
            total = "rows of the table" if plan.has_stated_shares else counted
            lines.append(f"{needed.limit}: {needed.total:,} {total} ({needed.procedure})")
            if set(needed.rows) != {None}:
                lines += [
                    f"  {unit_name(name)}: {n:,} {counted}" for name, n in needed.rows.items()
                ]
        if self.total is not None and len(self.limits) > 1:
            lines.append(f"all limits together: {self.total:,} rows of the table")
        if not all(plan.has_stated_shares for plan in self.plans):
            lines.append(
                "Without shares, other rows of the table are not counted, and subgroups are "
                "assumed to have equal numbers of these rows."
            )
        are_tested = any(needed.procedure != RANKS for needed in self.limits)
        rows_select = len(self.limits) > 1 and are_tested
        certify = "`calibrate` certifies with a probability of at least"
        if rows_select:
            certify = "a rule with these rates passes with a probability of at least"
        lines += [
            f"With each number, {certify} {self.power:g}, if the rates are true.",
            "These rows certify; in one batch, 10 to 50 % of its rows select besides.",
        ]
        if rows_select:
            lines.append(
                "`calibrate` tests a rule that its selecting rows choose, which may pass less "
                f"often: plan {TIMES_WITH_SELECTION:g} times as many rows."
            )
        if len(self.limits) > 1:
            lines.append(
                "`tune` stops at its limits, and `calibrate` takes a rule with room in each: "
                "rates of `tune` may give a number many times too large."
            )
        return "\n".join(lines)

    def to_dict(self) -> dict[str, Any]:
        """Return plain types, for JSON."""
        limits = [
            {
                "limit": str(needed.limit),
                "procedure": needed.procedure,
                "rows": [{"subgroup": name, "rows": n} for name, n in needed.rows.items()],
                "total": needed.total,
            }
            for needed in self.limits
        ]
        return {"limits": limits, "total": self.total, "power": self.power, "level": self.level}


@with_known_arguments()
def rows_needed(
    limits: Stated,
    rates: Stated,
    *,
    shares: Any = None,
    power: float = 0.8,
    confidence: float = 0.95,
    by_group: bool = True,
    n_classes: int = 2,
) -> RowsNeeded:
    """Return the numbers of calibration rows for certificates of limits, from expected true rates.

    The procedures and their exact probabilities are as in `tailboost.calibrate`. `tailboost.certify`
    divides the level by all of its m bounds: for limits without gap or ratio,
    ``confidence=1 - 0.05 / (.9 m)`` and ``by_group=False`` give its numbers.

    * *Tests.* The number of rows certifies a rule with the stated rates with a probability of at least
      ``power``. Stricter rules come first in the sequence; they are assumed to pass too. Within several
      limits selecting rows choose this rule, which may pass less often: plan 1.5 times as many rows.
    * *Ranks.* Limits on one side: with this probability the threshold with the stated rate is among the
      certified ones. Gap and ratio: the certificate of the ranks with the stated rates is certain, if all
      scores differ.

    Parameters
    ----------
    limits : Limit, str, or list of them
        The limits.
    rates : float, dict, or list of them
        For each limit the expected true rates of the certified rule. A dict has the rate of each
        subgroup; a number applies to all of them.
    shares : float, dict, or list of them, optional
        For each limit the share of counted rows among all rows, by subgroup or one number for all: for a miss
        the share of the class, for a precision the share of rows with this answer. By default only rows that
        count are counted, such as those of the class for a miss. Subgroups then have equal numbers of them.
    power : float in (0, 1), default=0.8
        Probability of the certificate.
    confidence : float in (0, 1), default=0.95
        Of the certificate.
    by_group : bool, default=True
        Whether the rule reads the groups of the limits. Thresholds of groups then divide the level.
    n_classes : int, default=2
        Number of classes. Ranks serve two classes.

    Returns
    -------
    RowsNeeded
        With ``limits``, one entry for each limit, and ``total``, the rows for all limits together. Can be
        printed. Numbers for a gap or ratio are up to 1 % too large.

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
    precision of 1: at least 0.95: 7,000 rows of the table (exact test of a count)
    With each number, `calibrate` certifies with a probability of at least 0.8, if the rates are true.
    These rows certify; in one batch, 10 to 50 % of its rows select besides.

    The rows of a miss are those of the label in each group, and not all rows of the table:

    >>> needed = tb.rows_needed("miss(1, by='sex') <= .25", {"f": 0.2, "m": 0.2})
    >>> needed.limits[0].procedure, needed.limits[0].rows
    ('ranks', {'f': 774, 'm': 774})
    """
    check_number(power, "power", 0, 1, below=True)
    check_number(confidence, "confidence", 0, 1, below=True)
    checked = list(checked_limits(checked_rates(limits)))
    if not checked:
        raise ValueError("limits: there is no limit")
    is_list = isinstance(limits, (list, tuple))
    rates_by_limit = _entry_for_each(rates, "rates", checked, is_list=is_list)
    shares_by_limit = _entry_for_each(shares, "shares", checked, is_list=is_list)
    strata = _strata_of_limits(checked, n_classes)
    plans = [
        _plan(limit, rate, share, strata)
        for limit, rate, share in zip(checked, rates_by_limit, shares_by_limit, strict=True)
    ]
    level = spent_by_next(()) * (1.0 - confidence)
    procedures = _procedures(plans, level, by_group=by_group)
    by_limit = [
        _rows_for_limit(plan, name, power_at, power)
        for plan, (name, power_at) in zip(plans, procedures, strict=True)
    ]
    total = _rows_together(plans, procedures, by_limit, power, shares)
    return RowsNeeded(
        limits=tuple(by_limit),
        total=total,
        power=power,
        level=level,
        plans=tuple(plans),
        by_group=by_group,
    )


@dataclass(frozen=True, eq=False)
class PlannedLimit:
    """A limit with its subgroups, their expected rates and their shares of the rows."""

    limit: Limit
    names: list[Any]  # of the m subgroups
    rates: Floats  # shape (m,): expected true rates
    shares: Floats  # shape (m,): share of counted rows of the rate among all rows
    # As `Ranks` reads the limit; None for other limits than on the share of one of two answers.
    by_share: list[Share] | None
    two_answers: bool  # whether the rule has two answers, so thresholds can describe the rule
    kept_by_answer: (
        Mask  # shape (answers,): whether no row with this answer counts against the limit
    )
    has_stated_shares: bool  # whether the caller stated the shares

    def sizes(self, rows: Ints) -> Ints:
        """Return the rows of each subgroup, shape (m, k), for k numbers of all rows."""
        # 1e-9 is more than the rounding error of a share.
        return np.floor(self.shares[:, None] * rows + 1e-9).astype(np.intp)

    @property
    def excess(self) -> tuple[Floats, Floats]:
        """The rate of errors of each subgroup and its largest allowed value, shape (m,) each.

        An error is a row counted against the limit: the complement for a limit from below. A subgroup
        without a limit has no errors and may have any number.
        """
        bounds = self.limit.bounds(self.names)
        is_limited = ~np.isnan(bounds)
        against = self.limit.against
        rates = np.where(is_limited, against(self.rates), 0.0)
        return rates, np.where(is_limited, against(bounds), 1.0)


# Probabilities of a certificate with numbers of rows.
Powers = Callable[[Ints], Floats]


def _rows_for_limit(
    plan: PlannedLimit, procedure: str, power_at: Powers, power: float
) -> RowsForLimit:
    """Return the fewest rows with which a procedure certifies one limit with probability ``power``.

    Of a gap or ratio the number is approximate. Raise ValueError if no practical number does.
    """
    start = 1
    precision = 0.0
    if plan.limit.compares:  # exact tests of pairs take longer
        start = _approximate_rows(plan, power)
        precision = PRECISION
    total = fewest_rows(power_at, power, start=start, precision=precision)
    if total is None:
        raise ValueError(
            f"{plan.limit!r}: more than a thousand million rows are needed ({procedure})"
        )
    sizes = plan.sizes(np.array([total]))[:, 0].tolist()
    return RowsForLimit(plan.limit, procedure, dict(zip(plan.names, sizes, strict=True)), total)


def _procedures(
    plans: Sequence[PlannedLimit], level: float, *, by_group: bool
) -> list[tuple[str, Powers]]:
    """Return the name of the procedure of each limit, and its power by the number of rows.

    Ranks serve limits on shares of one of two answers: limits none of which compares groups, or one gap or
    ratio alone of a rule that reads them. Otherwise pairs of groups are tested for comparisons, and counts
    for other limits.

    Parameters
    ----------
    plans : sequence of PlannedLimit
        The limits.
    level : float
        Allowed probability of a false certificate.
    by_group : bool
        Whether the rule reads the groups: then each has a threshold and a part of the level.
    """
    compares = any(plan.limit.compares for plan in plans)
    columns = {_columns(plan.limit) for plan in plans}
    groups = {
        _group(plan.limit, name)
        for plan in plans
        if _columns(plan.limit)
        for name in plan.names
    }

    all_are_shares = all(plan.by_share is not None for plan in plans)
    if all_are_shares and compares and by_group and len(plans) == 1:
        return [(RANKS, lambda rows: _certified_by_ranks(plans[0], rows, level))]
    if all_are_shares and not compares:
        n_thresholds = 1
        if by_group and groups and len(columns) == 1:
            n_thresholds = len(groups)
        shares = [share for plan in plans for share in plan.by_share or ()]
        rank_level = level_of_each(shares, n_thresholds, level)
        return [(RANKS, _powers_of_counts(plan, rank_level)) for plan in plans]

    level_of_counts = level
    has_thresholds = by_group and not compares and all(plan.two_answers for plan in plans)
    if has_thresholds and not _all_must_pass(plans, groups):
        level_of_counts = level / max(1, len(groups))  # without groups there is one threshold
    procedures = []
    for plan in plans:
        if plan.limit.compares:
            procedures.append((PAIRS, _powers_of_pairs(plan, level)))
        else:
            procedures.append((COUNTS, _powers_of_counts(plan, level_of_counts)))
    return procedures


def _all_must_pass(plans: Sequence[PlannedLimit], groups: Collection[Any]) -> bool:
    """Return whether no answer to all rows of a group keeps all its limits by construction, in each group.

    Then the first thresholds of all groups are tested together, each at the whole level.
    """
    for group in groups:
        of_group = [
            plan
            for plan in plans
            if group
            in {_group(plan.limit, name) for name in plan.names if _columns(plan.limit)}
        ]
        if np.all([plan.kept_by_answer for plan in of_group], axis=0).any():
            return False
    return True


def _powers_of_counts(plan: PlannedLimit, level: float) -> Powers:
    """Return the probability of passing in all subgroups, as a function of the numbers of rows.

    The rows of different subgroups are independent, so their probabilities are multiplied.
    """
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
    """Return a lower bound on the probability of passing for all pairs (union bound), by numbers of rows."""
    factor, gap = plan.limit.pair
    pairs = list(combinations(range(len(plan.names)), 2))

    def failing(i: int, j: int, sizes: Ints) -> float:
        """Return the probability of a failure for a pair; ``sizes`` are the rows of each subgroup."""
        rates = (plan.rates[i], plan.rates[j])
        rows = (int(sizes[i]), int(sizes[j]))
        return 1.0 - pair_power(rates, rows, level, factor=factor, gap=gap)

    def power_at(rows: Ints) -> Floats:
        return np.array(
            [1.0 - sum(failing(i, j, sizes) for i, j in pairs) for sizes in plan.sizes(rows).T]
        )

    return power_at


def _certified_by_ranks(plan: PlannedLimit, rows: Ints, level: float) -> Floats:
    """Return 1 if the ranks at the expected rates certify a gap or ratio, else 0, in the shape of ``rows``.

    ``rows`` has numbers of fresh rows, shape (m,).
    """
    factor, gap = plan.limit.pair
    certified = []
    for sizes in plan.sizes(rows).T:
        # The rate at rank k of n rows has the mean k/(n + 1).
        ranks = np.minimum(np.round(plan.rates * (sizes + 1)).astype(np.intp), sizes).tolist()
        probability = probability_within(ranks, ranks, sizes.tolist(), factor=factor, gap=gap)
        certified.append(probability >= 1.0 - level)
    return np.array(certified, dtype=np.float64)


def _approximate_rows(plan: PlannedLimit, power: float) -> int:
    """Return the rows for a gap or ratio by the normal approximation for the pair nearest to the limit.

    A search of the exact number starts there.
    """
    limit = plan.limit
    rates = plan.rates
    is_pair = limit.comparison.pairs(len(plan.names))
    deviations = limit.deviations(rates * (1.0 - rates) / plan.shares)  # for one row
    # Rates of 0 leave a ratio neither room nor deviation.
    with np.errstate(divide="ignore", invalid="ignore"):
        deviations_per_room = (deviations / limit.rooms(rates, rates))[is_pair]
    rows = ((ndtri(0.95) + ndtri(power)) * deviations_per_room) ** 2
    return int(np.nan_to_num(rows, nan=1.0).clip(1.0, MOST_ROWS).max(initial=1.0))


def _rows_together(
    plans: Sequence[PlannedLimit],
    procedures: Sequence[tuple[str, Powers]],
    by_limit: Sequence[RowsForLimit],
    power: float,
    shares: Any,
) -> int | None:
    """Return the rows with which all limits are certified together.

    None for several limits without shares: their rows are of different kinds. The probability of
    any failing certificate is at most the sum of the probabilities of the limits (union bound).

    Parameters
    ----------
    plans : sequence of PlannedLimit
        The limits with their expected rates.
    procedures : sequence of (str, callable)
        For each limit the name of its procedure, and the powers at numbers of rows.
    by_limit : sequence of RowsForLimit
        The rows that each limit needs alone.
    power : float in (0, 1)
        The wanted probability.
    shares : as in `rows_needed`
        Fractions of the rows in each subgroup; None if they are not stated.
    """
    if len(plans) == 1:
        return by_limit[0].total
    if shares is None:
        return None

    def power_at(rows: Ints) -> Floats:
        failing = np.sum([1.0 - powers(rows) for _, powers in procedures], axis=0)
        return 1.0 - failing

    start = max(needed.total for needed in by_limit)
    precision = 0.0
    if any(plan.limit.compares for plan in plans):
        precision = PRECISION
    return fewest_rows(power_at, power, start=start, precision=precision)


# -- arguments ---------------------------------------------------------------------------------------------


def _entry_for_each(
    argument: Any, name: str, limits: Sequence[Limit], *, is_list: bool
) -> list[Any]:
    """Return the entry of each limit in an argument of `rows_needed`.

    Parameters
    ----------
    argument : object
        A list of entries, or one entry.
    name : str
        Its name in errors.
    limits : sequence of Limit
        The limits.
    is_list : bool
        Whether the limits were given as a list. If not, the argument is the entry, also a list.
    """
    if not is_list or argument is None:
        return [argument] * len(limits)
    entries = [argument]
    if isinstance(argument, (list, tuple)):
        entries = list(argument)
    elif len(limits) > 1:
        raise ValueError(
            f"{name}: give a list with one entry for each of the {len(limits)} limits"
        )
    if len(entries) != len(limits):
        raise ValueError(f"{name} has {len(entries)} entries for {len(limits)} limits")
    return entries


def _plan(limit: Limit, rate: Any, share: Any, strata: Strata) -> PlannedLimit:
    """Return a limit with its subgroups, their expected rates and their fractions of the rows.

    Raise ValueError for a limit on no mean of rows, a share of 0, or expected rates that do not keep it.

    Parameters
    ----------
    limit : Limit
        The limit on a mean of rows.
    rate : float or dict
        The expected rate, or that of each subgroup.
    share : dict or None
        The fraction of the rows in each subgroup; None for equally large ones.
    strata : Strata
        The strata of the limits, without groups.
    """
    if not limit.rate.is_share:
        raise ValueError(
            f"{limit!r}: the power depends on more than the mean of {limit.rate.words!r}"
        )
    names = _names(limit, rate, share)
    expected_rates = _values(rate, names, f"rates of {limit!r}")
    if share is None:
        row_shares = np.full(len(names), 1.0 / len(names))
    else:
        row_shares = _values(share, names, f"shares of {limit!r}")
    if (row_shares <= 0).any():
        raise ValueError(f"shares of {limit!r} must be above 0, got {share!r}")
    if limit.distance(names, expected_rates) >= 0.0:
        words = [
            value_words(value, in_percent=limit.in_percent)
            for value in dict.fromkeys(expected_rates.tolist())
        ]
        raise ValueError(
            f"{limit.text}: the expected rates ({', '.join(words)}) do not keep it with "
            "room to spare, so no number of rows certifies it"
        )

    # The answers are the same in each subgroup, so groups are not needed to find them.
    rate_of_all = replace(limit.rate, by=None)
    answer = counted_answer(rate_of_all, strata)
    _, counted, among = rate_of_all.by_subgroup(strata)
    wrong = counted if limit.from_above else among - counted
    no_rows = np.zeros(0, dtype=np.intp)  # before any row is collected
    return PlannedLimit(
        limit=limit,
        names=names,
        rates=expected_rates,
        shares=row_shares,
        by_share=shares_of(limit, answer, [(name, no_rows) for name in names]),
        two_answers=strata.n_actions == 2,
        kept_by_answer=(wrong[0] == 0.0).all(axis=0),
        has_stated_shares=share is not None,
    )


def _strata_of_limits(limits: Sequence[Limit], n_classes: int) -> Strata:
    """Return strata with the labels of the limits as classes, and numbers as names of further classes."""
    labels = list(
        dict.fromkeys(limit.rate.label for limit in limits if limit.rate.label is not None)
    )
    other_labels = [label for label in range(n_classes + len(labels)) if label not in labels]
    n_labels = max(n_classes, len(labels))
    classes = tuple([*labels, *other_labels][:n_labels])
    equal_shares = np.ones(n_labels) / n_labels
    no_groups = np.zeros((1, 0), dtype=np.intp)
    defers = any(limit.rate.counts_deferral for limit in limits)
    return Strata(
        classes=classes,
        columns=(),
        values=(),
        combinations=no_groups,
        mass=equal_shares,
        size=equal_shares,
        defers=defers,
    )


def _names(limit: Limit, rate: Any, share: Any) -> list[Any]:
    """Return the names of the subgroups of a limit, from the first dict with their names."""
    if limit.rate.by is None:
        return [None]
    bound = dict(limit.bound) if isinstance(limit.bound, tuple) else None
    for by_subgroup in (rate, share, bound):
        if isinstance(by_subgroup, Mapping) and None not in by_subgroup:
            return list(by_subgroup)
    example = as_typed("rates={'f': 0.1, 'm': 0.12}", "--rate f=10%,m=12%")
    raise ValueError(f"{limit!r}: name the subgroups, for example {example}")


def _values(stated: Any, names: Sequence[Any], argument: str) -> Floats:
    """Return the number of each subgroup, shape (m,), from a dict or one number for all.

    Errors begin with ``argument``.
    """
    by_name = stated if isinstance(stated, Mapping) else dict.fromkeys(names, stated)
    if names == [None] and None not in by_name:
        raise ValueError(
            f"{argument}: the limit has no subgroups, give one number, got {stated!r}"
        )
    missing = [name for name in names if name not in by_name]
    if missing:
        raise ValueError(f"{argument}: {missing[0]!r} is missing, got {stated!r}")
    return np.array(
        [check_number(by_name[name], argument, 0, 1, closed=True) for name in names]
    )


def _columns(limit: Limit) -> tuple[Any, ...]:
    """Return the columns of groups of a limit."""
    return tuple(name for name in limit.rate.crossed if name not in (None, "class"))


def _group(limit: Limit, name: Any) -> Any:
    """Return the group in the name of a subgroup of a limit, without the class."""
    by = limit.rate.by
    if isinstance(by, tuple):
        return tuple(part for column, part in zip(by, name, strict=True) if column != "class")
    if by == "cell":
        return name[1]
    return name
