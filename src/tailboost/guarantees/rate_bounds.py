"""Confidence bounds on errors and other rates on new rows; all hold together with a stated confidence."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from decimal import Decimal
from functools import partial
from operator import attrgetter
from typing import Any, Literal, Self

import numpy as np
from scipy.special import ndtri

from tailboost.core.array_types import Floats, Ints
from tailboost.core.checks import check_number
from tailboost.core.limit_lines import CERTIFIED, NOT_CERTIFIED, LimitLine
from tailboost.core.rate_words import bound_words, estimate_words, limit_words, stated_words
from tailboost.core.spelling import did_you_mean, how_many
from tailboost.guarantees.fresh_rows import (
    ERRORS,
    FreshRows,
    Rule,
    groups_of_fit,
    rows_by_subgroup,
)
from tailboost.guarantees.limited_rates import all_pairs_pass
from tailboost.rates import (
    ABOVE,
    BELOW,
    COMPARISONS,
    Expression,
    Limit,
    Rate,
    Sample,
    Strata,
    answered_error,
    deferred,
    parse,
)
from tailboost.rates.bounds import (
    betting_p_value,
    betting_upper,
    clopper_pearson_upper,
    each_most_reached,
    rows_for_no_error,
)
from tailboost.rates.power import MOST_ROWS, binomial_power, fewest_rows
from tailboost.rates.strata import CELL, CLASS, GROUP, is_named_column
from tailboost.rows.judged import group_uses, judged
from tailboost.rows.subgroups import (
    HUMAN_REVIEW,
    by_column,
    deferral_lines,
    estimates_words,
    limits_it,
    unit_name,
    whole_percents,
)
from tailboost.selection.rate_table import number_or_none

Kind = Literal["rate", "mean", "class", "group", "cell", "cvar", "shift", "worst"]

#: The lack of a missed target: rows of `calibrate`, rows of the selection, or no rows at all.
Missing = Literal["calibration rows", "selection rows", "nothing that rows can give"]

CERTIFIED_WORDS = {True: CERTIFIED, False: NOT_CERTIFIED, None: ""}
EXACT = "Clopper–Pearson"
BETTING = "betting"
NO_ROWS = "no rows"
PAIRS = "exact test of pairs"
# Number of levels at which a ratio of sums is tested: the bound is a multiple of 1/RATIO_LEVELS.
RATIO_LEVELS = 1000
# Least distance of the printed bound from the limit after a failed test of pairs.
VISIBLE = 1e-4
CONSTANT = "one answer"  # method of a limit without a test
# The most groups in a remark.
MOST_GROUPS = 8
# Probability of a certificate with the number of rows named by a refusal.
POWER = 0.8
# A larger multiple of the fresh rows is no plan, and is not named.
MOST_TIMES = 50
# With fewer rows no number of rows is forecast. Even without an error among them, a true rate of one half
# would still be possible (95 %, one-sided: .5 to the power 4 is above .05).
FEWEST_TO_FORECAST = 5


def enough_rows(sufficient: int, n: int) -> str:
    """Return that a sufficient number of rows certifies, with the factor by which the fresh rows must grow.

    ``n`` is the present number of counted rows.
    """
    ratio = sufficient / n
    if ratio > MOST_TIMES:
        return f"a certificate takes more than {MOST_TIMES} times as many fresh rows"
    times = f"{math.ceil(ratio):,}"
    if ratio < 10:
        times = f"{math.ceil(10 * ratio) / 10:.1f}"  # rounded up to one decimal
    return (
        f"about {sufficient:,} rows like the {n:,} here, in {times} times as many fresh rows, "
        f"certify it with a probability of {POWER:g}"
    )


def percent(confidence: float) -> str:
    """Return a confidence in percent, as it was given: after rounding it may promise more."""
    return f"{(100 * Decimal(repr(float(confidence)))).normalize():f} %"


@dataclass(frozen=True)
class CertifiedBound:
    """Confidence bound on an error or a rate on new rows.

    Attributes
    ----------
    kind : {"mean", "class", "group", "cell", "cvar", "shift", "worst", "rate"}
        The bounded quantity: an error, or a requested rate. "worst" is the largest error of all
        classes (groups, cells), or of the ones seen (see ``of_seen``).
    subgroup : object
        The label, the group, or the (class, group) pair; None for all rows. A group of a table is a pair
        (column, value). For "cvar" this is α, for "shift" the radius, for "worst" the kind of the subgroups.
        For a comparison of subgroups this is "gap" or "ratio".
    rule : {"predict", "randomised"}
        The bounded rule: ``predict``, or the randomised rule with the label distribution
        ``predict_distribution``.
    estimate : float or None
        The quantity on the given rows; None without rows to count among.
    upper : float
        The upper bound; the largest possible value if no upper bound was requested or found.
    n : int
        Number of rows, or of clusters. For "worst": rows of the subgroup with the largest bound, which may
        differ from the subgroup with the largest ``estimate``. For a gap or ratio: rows of the smallest
        subgroup.
    method : str
        Name of the method.
    target : float or None
        The target or limit, if there is one.
    of_seen : bool
        Whether a "worst" bound, or a target of every subgroup, covers the subgroups among these rows only.
    lower : float
        The lower bound, like ``upper``.
    sense : {"≤", "≥", ""}
        Bounded side; "" for both sides.
    rate : Rate or None
        The requested rate; None for errors.
    subgroups : tuple
        The subgroups in a gap or ratio.
    sufficient_rows : int or None
        For a target without a certificate: approximate number of rows, counted as ``n``, that would certify
        the target with a probability of .8 if the estimate were the true value. None if the estimate does
        not meet the target, and for the worst subgroup.
    in_percent : bool
        Whether the limit was stated in percent, and the numbers are printed so.
    deferred : float or None
        The share of deferred rows in the subgroup, if the rule defers rows and the rate is not about them.
    """

    kind: Kind = "rate"
    subgroup: Any = None
    rule: Rule = "predict"
    estimate: float | None = None
    upper: float = 1.0
    n: int = 0
    method: str = ""
    target: float | None = None
    of_seen: bool = False
    lower: float = 0.0
    sense: str = "≤"
    rate: Rate | None = None
    subgroups: tuple[Any, ...] = ()
    sufficient_rows: int | None = None
    in_percent: bool = False
    deferred: float | None = None

    @property
    def certified(self) -> bool | None:
        """Whether the target is certified; None without a target."""
        if self.target is None:
            return None
        if self.sense == "≥":
            return bool(self.lower >= self.target)
        return bool(self.upper <= self.target)

    @property
    def without_rows(self) -> str:
        """Words for a subgroup in which no row counts, such as "has no rows"."""
        return "has no rows" if self.rate is None else self.rate.without_rows

    @property
    def verdict(self) -> str:
        """Whether the target is certified, in words; if not, a sufficient number of rows."""
        return ": ".join(filter(None, (CERTIFIED_WORDS[self.certified], self.reason)))

    @property
    def reason(self) -> str:
        """The reason why a target is not certified: too few rows, or the estimate; empty if unknown.

        A target that is kept by construction has a reason too. One certified by its rows has none.
        """
        if self.certified and self.method == CONSTANT:
            return "kept by construction: no answer of the rule there can break it"
        if self.certified is False and not self.n:
            return "no rows"
        if self.certified is not False or self.estimate is None:
            return ""
        assert self.target is not None
        if self.estimate == self.target:
            return "the estimate is at the limit"
        if not self.is_within:
            side = "below" if self.sense == "≥" else "above"
            return f"the estimate is {side} the limit"
        if self.sufficient_rows is None:
            return ""
        if self.sufficient_rows >= MOST_ROWS:
            return "no practical number of rows would do"
        if self.n < FEWEST_TO_FORECAST:
            return "too few rows"
        last_digit = 10 ** max(0, int(math.log10(self.sufficient_rows)) - 1)
        two_digits = math.ceil(self.sufficient_rows / last_digit) * last_digit  # rounded up
        return f"if the estimate is the true value, {enough_rows(two_digits, self.n)}"

    @property
    def counted(self) -> Rate:
        """The bounded rate, also for an error."""
        if self.rate is None:
            return ERRORS[self.kind]
        return self.rate

    @property
    def is_counted(self) -> bool:
        """Whether the bound is on the rate of one subgroup, or on a comparison of subgroups."""
        return self.rate is not None or self.kind in ERRORS

    @property
    def name(self) -> str:
        """Name of the subgroup, as printed.

        Of a bound on the worst subgroup, or on a tail, it names the bounded quantity.
        """
        if self.subgroup is None:
            return "all rows"
        if self.rate is not None:
            name = unit_name(self.subgroup)
            if self.subgroups and self.of_seen:
                return f"{name} of those seen"
            return name
        if self.kind == "worst":
            seen = " seen" if self.of_seen else ""
            return f"worst {self.subgroup}{seen}"
        if self.kind == "cvar":
            return f"CVaR at α = {self.subgroup:g}"
        if self.kind == "shift":
            return f"shift, KL ≤ {self.subgroup:g}"
        return f"{self.kind} {subgroup_words(self.subgroup)}"

    @property
    def title(self) -> str:
        """Name of the bounded quantity with its subgroup."""
        if self.rate is not None:
            return f"{self.rate}: {self.name}"
        if self.rule == "given losses":
            return f"mean loss of {self.name}"
        if self.rule == "randomised":
            return f"error of {self.name}, randomised"
        return f"error of {self.name}"

    @property
    def sides(self) -> tuple[float | None, float | None]:
        """The lower and the upper bound, None for a side without a bound."""
        lower = None if self.sense == "≤" else self.lower
        upper = None if self.sense == "≥" else self.upper
        return lower, upper

    @property
    def compares(self) -> bool:
        """Whether the bound is on the gap or the ratio of the rates of subgroups."""
        return bool(self.subgroups)

    @property
    def quantity(self) -> str:
        """Name of the bounded quantity without its subgroup: the rate, or the error of a rule."""
        if self.rate is not None:
            return str(self.rate)
        if self.rule == "randomised":
            return "error of the randomised rule"
        if self.rule == "given losses":
            return "mean of the given losses"
        return "error"

    @property
    def limit(self) -> str:
        """The limit as stated; empty without one."""
        if self.target is None:
            return ""
        return limit_words(self.sense, self.target, in_percent=self.in_percent)

    @property
    def is_within(self) -> bool:
        """Whether the estimate keeps the target; True if one of them is not there."""
        if self.estimate is None or self.target is None:
            return True
        if self.sense == "≥":
            return not self.estimate < self.target
        return not self.estimate > self.target

    @property
    def is_limit(self) -> bool:
        """Whether the bound is the limit itself, and nothing tighter is certified."""
        return self.target is not None and self.target in (self.lower, self.upper)

    @property
    def estimate_text(self) -> str:
        """The estimate, with the digits supported by its rows."""
        return estimate_words(
            self.estimate, self.n, beside=self.target, in_percent=self.in_percent
        )

    @property
    def deferred_text(self) -> str:
        """The share of deferred rows in percent; empty if unknown."""
        return "" if self.deferred is None else whole_percents(self.deferred)

    @property
    def bound_text(self) -> str:
        """The certified sides, as printed."""
        words = partial(
            bound_words, n_rows=self.n, beside=self.target, in_percent=self.in_percent
        )
        lower = words(self.lower, above=False)
        upper = words(self.upper, above=True)
        if self.sense == "≥":
            return f"≥ {lower}"
        if self.sense == "≤" or self.lower == 0.0:  # 0 bounds every rate from below
            return f"≤ {upper}"
        return f"{lower.removesuffix(' %')} to {upper}"

    @property
    def limit_line(self) -> LimitLine:
        """The bound for drawings and short tables: the interval ends at the certified bounds.

        The words have a bound only if it is another number than the limit beside it.
        """
        words = self.estimate_text
        if not self.is_limit:
            words += f", certified {self.bound_text}"
        elif self.n and self.subgroup not in COMPARISONS:
            words += f" of {how_many(self.n, 'row')}"
        lower, upper = self.sides
        return LimitLine(
            verdict=self.verdict,
            good=self.certified,
            name=self.title,
            limit=self.limit,
            numbers=words,
            value=self.estimate,
            low=lower,
            high=upper,
            bound=self.target,
            deferred=self.deferred_text,
        )

    def at_target(self, method: str) -> CertifiedBound:
        """Return the bound at its target: a passed test certifies the target, and nothing tighter."""
        assert self.target is not None
        if self.sense == "≥":
            return replace(self, lower=self.target, method=method)
        return replace(self, upper=self.target, method=method)

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain types, for JSON; `from_dict` is the inverse."""
        values = {part.name: getattr(self, part.name) for part in fields(self)}
        if self.rate is not None:
            values |= {"rate": repr(self.rate), "words": str(self.rate)}
        return values | {"certified": self.certified}

    @classmethod
    def from_dict(cls, document: Mapping[str, Any]) -> Self:
        """Return a bound written by `to_dict`.

        Raises
        ------
        KeyError, TypeError, ValueError
            If the document is no bound.
        """
        values = {part.name: document[part.name] for part in fields(cls)}
        values |= {name: _tuples(values[name]) for name in ("subgroup", "subgroups")}
        if values["rate"] is not None:
            expression = parse(values["rate"])
            if expression.rate is not expression:
                raise ValueError(f"{document['rate']!r} is no rate")
            values["rate"] = expression
        elif values["kind"] == "rate":
            raise ValueError("a bound on a rate does not name the rate")
        possible_range = (0, 1) if values["rate"] is None else (-np.inf, np.inf)
        for name in ("lower", "upper"):
            check_number(values[name], name, *possible_range, closed=True)
        if values["deferred"] is not None:
            check_number(values["deferred"], "deferred", 0, 1, closed=True)
        return cls(**values)


def _tuples(name: Any) -> Any:
    """Return a name read from JSON, with tuples instead of lists."""
    if isinstance(name, (list, tuple)):
        return tuple(map(_tuples, name))
    return name


def subgroup_words(subgroup: object) -> str:
    """Return the printed name of a subgroup; in a cell, a group of a table is a pair (column, value)."""
    if isinstance(subgroup, tuple) and isinstance(subgroup[-1], tuple):
        return f"{subgroup[0]} / {' = '.join(map(str, subgroup[-1]))}"
    return unit_name(subgroup)


# -- subgroups of a rate -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class MeanBound:
    """A confidence bound on the mean of independent numbers in [0, 1].

    ``upper(values, level)``, for one number or more, is at most 1. It is below the true mean with a
    probability of at most the level, whatever the distribution of the numbers. The order of the numbers has
    no effect: users may sort their rows, also by the outcome. More rows with the same values, or a larger
    level, never give a larger bound.
    """

    name: str  # the method in certificates
    upper: Callable[[Floats, float], float]
    of_counts: bool = False  # whether the bound is for numbers that can only be 0 or 1


#: All bounds on means by their names.
MEAN_BOUNDS = {
    bound.name: bound
    for bound in (
        MeanBound(
            EXACT,
            lambda values, level: clopper_pearson_upper(
                round(float(values.sum())), len(values), level
            ),
            of_counts=True,
        ),
        MeanBound(BETTING, betting_upper),
    )
}
#: The bound of certificates for numbers that can only be 0 or 1, and the bound for other numbers.
OF_COUNTS = MEAN_BOUNDS[EXACT]
OF_NUMBERS = MEAN_BOUNDS[BETTING]


def mean_bound(*, counts: bool) -> MeanBound:
    """Return the bound of certificates for numbers in [0, 1]; ``counts`` says that they can only be 0 or 1.

    The kind of the numbers decides, never their values. If the values select one of two bounds, the selected
    one is known to hold with probability 1 − 2 level only.
    """
    return OF_COUNTS if counts else OF_NUMBERS


@dataclass(frozen=True)
class RateFamily:
    """A rate with its rows by subgroup, and its limit."""

    rate: Rate
    limit: Limit | None  # None: the rate is bounded without a target
    sides: tuple[str, ...]  # bounded sides of the mean of each subgroup
    samples: list[Sample]  # the rows of each subgroup
    exact: bool  # whether each row counts fully or not at all, a binomial count
    kind: Kind = "rate"
    rule: Rule = "predict"
    # Whether a limit on every subgroup covers only the subgroups among these rows.
    of_seen: bool = False
    apart: bool = False  # whether the rows of different subgroups are independent

    @classmethod
    def from_expression(
        cls,
        expression: Expression,
        fresh: FreshRows,
        kind: Kind = "rate",
    ) -> RateFamily:
        """Return the family of a rate, limit or objective, with the sides of its bound.

        Parameters
        ----------
        expression : Rate, Limit or Objective
            The rate, perhaps with a limit.
        fresh : FreshRows
            The counted rows.
        kind : {"rate", "mean", "class", "group", "cell"}
            A "rate" is bounded on the sides of the expression, errors of the other kinds from above.
        """
        rate = expression.rate
        limit = expression.limit
        strata = fresh.answered.strata
        rule: Rule = "randomised" if fresh.answered.draws else "predict"

        exact = False
        if not (rate.needs_costs or rate.is_weighted or fresh.answered.draws):
            counted, _ = rate.tables(strata)
            # Each row has the smallest or the largest value of the rate.
            exact = set(np.unique(counted)) <= set(rate.range(strata))

        samples = fresh.samples(rate)
        return cls(
            rate=rate,
            limit=limit,
            sides=expression.sides if kind == "rate" else (ABOVE,),
            samples=samples,
            exact=exact,
            kind=kind,
            rule=rule,
            of_seen=limit is not None and limit.of_every and not fresh.knows(rate.by),
            apart=fresh.are_apart(samples),
        )

    @property
    def kept_on_rows(self) -> bool:
        """Whether the rates of these rows keep the limit; True without a limit."""
        values = np.array([sample.mean for sample in self.samples])
        names = [sample.name for sample in self.samples]
        return self.limit is None or bool(self.limit.excess(names, values) <= 0.0)

    def bounds(self, level: float) -> list[CertifiedBound]:
        """Return the bounds of the subgroups, each at the given level, then the bound of a gap or ratio."""
        limit = self.limit
        targets = np.full(len(self.samples), np.nan)
        if limit is not None and not limit.compares:
            targets = limit.bounds([sample.name for sample in self.samples])
        sense = "≤" if ABOVE in self.sides else "≥"
        if len(self.sides) > 1:
            sense = ""
        template = CertifiedBound(
            self.kind,
            rule=self.rule,
            rate=self.rate if self.kind == "rate" else None,
            sense=sense,
            in_percent=limit is not None and limit.in_percent,
        )
        bounds = []
        for sample, target in zip(self.samples, targets.tolist(), strict=True):
            lower, upper = self.bounds_of(sample, level, self.sides)
            bounds.append(
                replace(
                    template,
                    subgroup=sample.name,
                    estimate=number_or_none(sample.mean),
                    lower=lower,
                    upper=upper,
                    n=len(sample.rows),
                    method=self.method_of(sample),
                    target=number_or_none(target),
                    of_seen=self.of_seen and not np.isnan(target),
                )
            )
        if limit is not None and limit.compares:
            bounds.append(self._compared(limit, template, bounds))
        return [
            replace(bound, sufficient_rows=self.sufficient_rows(bound, level))
            for bound in bounds
        ]

    def _compared(
        self, limit: Limit, template: CertifiedBound, bounds: Sequence[CertifiedBound]
    ) -> CertifiedBound:
        """Return the bound on a gap or ratio from the ``bounds`` on the rate of each subgroup.

        ``template`` has the common fields of all bounds of the family.
        """
        lowest_rate = min(sample.low for sample in self.samples)
        limit.comparison.refuse_negative(lowest_rate, f"{limit!r}: ")
        estimate = limit.value(np.array([sample.mean for sample in self.samples]))
        lower, upper = limit.comparison.bounds(
            np.array([bound.lower for bound in bounds]),
            np.array([bound.upper for bound in bounds]),
        )
        return replace(
            template,
            subgroup=limit.form,
            estimate=number_or_none(estimate),
            lower=lower,
            upper=upper,
            n=min((bound.n for bound in bounds), default=0),
            method=f"bounds of {len(bounds)} subgroups",
            sense=limit.sense,
            target=limit.bound,
            of_seen=self.of_seen,
            subgroups=tuple(bound.subgroup for bound in bounds),
        )

    def tested_pairs(
        self, bounds: Sequence[CertifiedBound], level: float
    ) -> list[CertifiedBound]:
        """Return the bounds with the result of the exact tests of all pairs in place of the gap or ratio.

        All pairs must pass, so each is tested at the whole level. A row in two subgroups, or a cluster with
        rows in both, makes their counts dependent: the bound stays.
        """
        limit = self.limit
        if limit is None or not limit.compares:
            return list(bounds)
        *of_subgroups, comparison = bounds
        if not (self.exact and self.apart and len(of_subgroups) > 1):
            return list(bounds)
        width = self.samples[0].high - self.samples[0].low
        counts = [
            (round(float((sample.values - sample.low).sum() / width)), len(sample.rows))
            for sample in self.samples
        ]
        if all_pairs_pass(counts, self.pair_of_shares, level):
            comparison = comparison.at_target(PAIRS)
        elif limit.from_above:
            upper = max(comparison.upper, limit.bound + VISIBLE)
            comparison = replace(comparison, method=PAIRS, upper=upper)
        else:
            lower = min(comparison.lower, limit.bound - VISIBLE)
            comparison = replace(comparison, method=PAIRS, lower=lower)
        return [*of_subgroups, comparison]

    @property
    def pair_of_shares(self) -> tuple[float, float]:
        """The numbers (a, c) of a gap or ratio, see `Limit.pair`, for shares instead of rates.

        A rate is ``low + width p`` for a share p of rows with the largest value. Costs may have other ranges
        than [0, 1].
        """
        assert self.limit is not None
        factor, largest_difference = self.limit.pair
        low = self.samples[0].low
        width = self.samples[0].high - low
        return factor, (largest_difference + (1.0 - factor) * low) / width

    def sufficient_rows(self, bound: CertifiedBound, level: float) -> int | None:
        """Return the rows that certify the target of a bound with probability `POWER`; None if none do.

        The estimate is taken as true value. The power is exact for a binomial count; otherwise deviations are
        taken as normal. For bounds that are not exact, the distance from the estimate to the bound is also
        taken as proportional to 1/√n.
        """
        if bound.certified is not False or bound.estimate is None or bound.target is None:
            return None
        room = bound.target - bound.estimate
        margin = bound.upper - bound.estimate
        if bound.sense != "≤":
            room = -room
            margin = bound.estimate - bound.lower
        if room <= 0:
            return None

        if self.limit is not None and self.limit.compares and bound.subgroups:
            variances = np.array([_variance(sample) for sample in self.samples])
            if self.exact:
                return self._rows_to_compare(self.limit, variances, bound, level)
            deviation = float(self.limit.deviations(variances).max())
        else:
            sample = next(part for part in self.samples if part.name == bound.subgroup)
            if self.exact and sample.among is None:
                return _rows_of_count(sample, bound, level)
            deviation = math.sqrt(_variance(sample))

        rows = bound.n * ((margin + ndtri(POWER) * deviation) / room) ** 2
        return math.ceil(min(rows, MOST_ROWS))

    def _rows_to_compare(
        self, limit: Limit, variances: Floats, bound: CertifiedBound, level: float
    ) -> int:
        """Return the number of rows of the smallest subgroup for a certificate with probability `POWER`.

        The limit is on a gap or ratio, and ``bound`` is its bound on the present rows. All subgroups grow by
        the same factor. ``variances`` are the variances of the m rates, shape (m,). Compared with exact
        bounds of each rate, the numbers were .94 to 1.04 times as large in 32 cases.
        """
        if bound.n == 0:
            return MOST_ROWS
        means = np.array([sample.mean for sample in self.samples])
        is_pair = limit.comparison.pairs(len(means))
        # Each pair may fail (union bound).
        needed_probit = ndtri(1.0 - (1.0 - POWER) / is_pair.sum())
        factor, gap = self.pair_of_shares
        deviations = np.sqrt(variances)
        margins = -ndtri(level) * (factor * deviations[:, None] + deviations)
        needed_room = margins + needed_probit * limit.deviations(variances)
        rooms = limit.rooms(means, means)
        # A ratio of two rates of 0 has no room, and no number of rows would do.
        growths = np.divide(
            needed_room, rooms, out=np.full_like(rooms, np.inf), where=rooms > 0
        )
        growth = growths[is_pair].max() ** 2
        # Rates without a counted row have no variance.
        fewest = rows_for_no_error(gap, level) if gap else 1
        return math.ceil(min(max(bound.n * growth, fewest), MOST_ROWS))

    def method_of(self, sample: Sample) -> str:
        """Return the name of the method that bounds the mean of a subgroup."""
        if not len(sample.rows):
            return NO_ROWS
        if sample.among is not None:
            return BETTING
        return mean_bound(counts=self.exact).name

    def bounds_of(
        self, sample: Sample, level: float, sides: Sequence[str]
    ) -> tuple[float, float]:
        """Return the lower and the upper bound on the mean of a subgroup, each at the level.

        A side that is not among ``sides`` has the trivial bound: the smallest or largest value of a row.
        """
        lower = sample.low
        upper = sample.high
        if not len(sample.rows) or lower == upper:
            return lower, upper
        if BELOW in sides:  # an upper bound on the complement
            lower = sample.high - self._upper(sample.mirrored, level) + sample.low
        if ABOVE in sides:
            upper = self._upper(sample, level)
        return lower, upper

    def is_comparison(self, number: int) -> bool:
        """Return whether a number of `bounds` is that of the gap or ratio, after those of all subgroups."""
        return number == len(self.samples)

    def closest_possible(self, number: int, sense: str) -> float:
        """Return the true value closest to meeting a target, by a one-sided 95 % bound.

        ``number`` is that of the bound in `bounds`, and ``sense`` the side of its target.
        """
        if self.is_comparison(number):
            # Both bounds of each subgroup, which share the 5 %, imply the bound.
            comparison = self.bounds(0.05 / (2 * len(self.samples)))[number]
            lower = comparison.lower
            upper = comparison.upper
        else:
            side = BELOW if sense == "≤" else ABOVE
            lower, upper = self.bounds_of(self.samples[number], 0.05, (side,))
        if sense == "≤":
            return lower
        return upper

    def _upper(self, sample: Sample, level: float) -> float:
        """Return an upper bound on the mean of a subgroup, or of a precision on its ratio of sums."""
        width = sample.high - sample.low
        # The bounds are for numbers in [0, 1]; rounding may exceed them.
        scaled = np.clip((sample.values - sample.low) / width, 0.0, 1.0)
        if sample.among is None:
            upper = mean_bound(counts=self.exact).upper(scaled, level)
        else:
            upper = _ratio_upper(scaled, sample.among, level)
        return sample.low + width * upper


def _rows_of_count(sample: Sample, bound: CertifiedBound, level: float) -> int:
    """Return the rows with which an exact test passes with probability `POWER`, up to 1 % too many.

    The estimate of ``bound`` is taken as true rate of the subgroup of ``sample``. A normal count instead gave
    .70 in the twentieth part of 400 cases.
    """
    assert bound.estimate is not None
    assert bound.target is not None
    width = sample.high - sample.low
    rate = (bound.estimate - sample.low) / width
    target = (bound.target - sample.low) / width
    if bound.sense == "≥":
        rate = 1.0 - rate
        target = 1.0 - target
    # The search starts at the number for normal deviations.
    deviation_at_target = math.sqrt(target * (1.0 - target))
    deviation_at_rate = math.sqrt(rate * (1.0 - rate))
    distance = ndtri(1.0 - level) * deviation_at_target + ndtri(POWER) * deviation_at_rate
    start = math.ceil(min((distance / (target - rate)) ** 2, MOST_ROWS))

    def power_at(rows: Ints) -> Floats:
        return binomial_power(rows, rate, each_most_reached(rows, target, level))

    return fewest_rows(power_at, POWER, start=start, precision=0.01) or MOST_ROWS


def _variance(sample: Sample) -> float:
    """Return the estimated variance of the rate of a sample; 0 without rows.

    For a ratio of sums, the variance of the linear approximation is returned.
    """
    if not len(sample.rows):
        return 0.0
    if sample.among is None:
        return float(sample.values.var()) / len(sample.rows)
    residuals = sample.values - sample.mean * sample.among
    return float(residuals.var()) / (len(sample.rows) * float(sample.among.mean()) ** 2)


def rate_bounds(
    expressions: Sequence[Expression], fresh: FreshRows, delta: float
) -> list[CertifiedBound]:
    """Return bounds on rates on new rows, valid together with a probability of at least 1 − δ.

    The rate of a subgroup is a mean of bounded numbers over its rows, or, for a precision, a ratio of sums. A
    rate is bounded on both sides, a limit on its side, an objective from above. A gap or a ratio follows from
    bounds on both sides of each subgroup. All bounds on means share the level evenly. The rows are
    independent draws, and they took no part in the making of the rule.
    """
    families = [RateFamily.from_expression(expression, fresh) for expression in expressions]
    return with_kept(shared_bounds(families, delta), fresh)


def with_kept(bounds: Iterable[CertifiedBound], fresh: FreshRows) -> list[CertifiedBound]:
    """Return bounds with the limits that the rule of fresh rows keeps by construction as kept."""
    return [
        bound.at_target(CONSTANT) if kept_by_construction(bound, fresh) else bound
        for bound in bounds
    ]


def kept_by_construction(bound: CertifiedBound, fresh: FreshRows) -> bool:
    """Return whether the rule's possible answers in a subgroup cannot break its limit, with probability 1.

    A rule that never answers a label in a group keeps each limit on false alarms there, and each limit on the
    precision of this label, because no row counts.
    """
    if bound.rate is None:
        return False
    answering_rule = judged(fresh.final).rule
    if answering_rule is None:
        return False
    column, group = bound.rate.by, bound.subgroup
    # Of any column: pairs of column and group, or groups of a column without a name.
    if column == GROUP:
        column, group = group if isinstance(group, tuple) else (None, group)
    actions = answering_rule.actions_in(column, group)
    strata = fresh.answered.strata
    answers = [*strata.classes, HUMAN_REVIEW]
    possible = [number for number, answer in enumerate(answers) if answer in actions]
    return keeps_by_construction(bound, strata, possible)


def keeps_by_construction(
    bound: CertifiedBound, strata: Strata, answers: Sequence[int]
) -> bool:
    """Return whether these answers in a subgroup, by their numbers, cannot break its limit."""
    rate = bound.rate
    if rate is None or bound.target is None or bound.rule != "predict":
        return False
    if bound.compares or rate.is_across or rate.kind == "cost":
        return False
    counted, among = rate.tables(strata)
    possible = [number for number in answers if number < counted.shape[1]]
    counts = among[:, possible] > 0
    parts = counted[:, possible][counts] / among[:, possible][counts]
    if bound.sense == "≥":
        return bool((parts >= bound.target).all())
    return bool((parts <= bound.target).all())


def shared_bounds(families: Sequence[RateFamily], delta: float) -> list[CertifiedBound]:
    """Return the bounds of families, which hold together with a probability of at least 1 − δ.

    δ is divided evenly among the bounds on means of subgroups with rows. A rate in several families has one
    bound on a side of each subgroup, and so one part of δ.
    """
    bounds_on_means = set()
    for family in families:
        for subgroup_number, sample in enumerate(family.samples):
            if len(sample.rows):
                bounds_on_means |= {
                    (family.rate, subgroup_number, side) for side in family.sides
                }
    level = delta / max(1, len(bounds_on_means))
    return [bound for family in families for bound in family.bounds(level)]


def rule_remarks(bounds: Sequence[CertifiedBound], fresh: FreshRows) -> list[str]:
    """Return remarks on a rule: on groups, clusters, inferred groups and deferral."""
    remarks = group_remarks(bounds, fresh)
    if fresh.clusters is not None:
        votes = "in a class or group one row of a cluster counts"
        if fresh.answered.strata.defers:
            votes = (
                "beside deferral only this row of a cluster counts, also in its class and group"
            )
        remarks.append(
            f"Limits are about a random row of each of the {fresh.n_clusters:,} clusters, not about all "
            f"rows: {votes}."
        )
    names = [use.named for use in group_uses(fresh.model) if use.inferred]
    if names:
        remarks.append(estimates_words(", ".join(names)))
    return remarks + deferral_remarks(bounds, fresh)


def group_remarks(bounds: Sequence[CertifiedBound], fresh: FreshRows) -> list[str]:
    """Return remarks on groups unknown to the fit.

    Columns whose groups the fit did not have get no remark on unknown groups. Combinations of columns get no
    remark.
    """
    groups_by_column = by_column(groups_of_fit(fresh.final))
    remarks = []
    for by in dict.fromkeys(bound.counted.by for bound in bounds if bound.is_counted):
        if by in (None, CLASS, CELL) or isinstance(by, tuple):
            continue
        sizes = rows_by_subgroup(fresh.answered, by)
        known_groups = set(groups_by_column.get(by, groups_by_column.get(None, ())))
        if not known_groups:
            continue
        for name, size in sizes.items():
            if size and name not in known_groups and not isinstance(name, tuple):
                suggestion = did_you_mean(str(name), map(str, known_groups))
                remark = f"{name!r} ({size:,.0f} rows) is no group of the fit. "
                remarks.append(f"{remark}{suggestion[:1].upper()}{suggestion[1:]}".rstrip())
    return remarks[: 2 * MOST_GROUPS]


def with_deferral(bounds: Sequence[CertifiedBound], fresh: FreshRows) -> list[CertifiedBound]:
    """Return bounds with the share of deferred rows of each subgroup; unchanged if no row is deferred."""
    if not fresh.n_deferred:
        return list(bounds)
    shares = {
        by: deferred_shares(fresh, by)
        for by in {bound.counted.by for bound in bounds if bound.is_counted}
    }
    with_shares = []
    for bound in bounds:
        share = None
        if bound.is_counted and not bound.counted.counts_deferral:
            share = shares[bound.counted.by].get(bound.subgroup)
        with_shares.append(replace(bound, deferred=share))
    return with_shares


def share_deferred_text(bounds: Sequence[CertifiedBound]) -> str | None:
    """Return the share of deferred rows in percent, as the table of bounds has it; None without one."""
    of_all = (
        replace(bound, in_percent=True).estimate_text
        for bound in bounds
        if bound.is_counted and bound.counted == deferred()
    )
    return next(of_all, None)


def deferral_remarks(bounds: Sequence[CertifiedBound], fresh: FreshRows) -> list[str]:
    """Return remarks on the error of the answered rows and the deferral of groups, if rows are deferred."""
    if not fresh.n_deferred:
        return []
    (answered,) = fresh.samples(answered_error())
    in_percent = any(bound.in_percent for bound in bounds)
    error = estimate_words(answered.mean, len(answered.rows), in_percent=in_percent)
    counted = [bound.counted for bound in bounds if bound.is_counted]
    with_limit = {rate.by for rate in counted if rate.counts_deferral}
    answered_limits = {rate.by for rate in counted if rate == answered_error(by=rate.by)}
    shares_by_column = {
        by: deferred_shares(fresh, by)
        for by in dict.fromkeys(rate.by for rate in counted)
        if is_named_column(by) and by not in with_limit
    }
    overall = deferred_shares(fresh, None)[None]
    lines = deferral_lines(error, overall, shares_by_column, share_deferred_text(bounds))
    for by in dict.fromkeys(rate.by for rate in counted if is_named_column(rate.by)):
        groups = [sample for sample in fresh.samples(answered_error(by=by)) if len(sample.rows)]
        if len(groups) > 1:
            largest = max(groups, key=attrgetter("mean"))
            error = estimate_words(largest.mean, len(largest.rows), in_percent=in_percent)
            name = unit_name(largest.name)
            cure = "" if by in answered_limits else f": {limits_it('answered_error', by)}"
            lines.append(f"{name} errs most among answered rows here, {error}{cure}.")
    return lines + better_answer(bounds, fresh)


def better_answer(bounds: Sequence[CertifiedBound], fresh: FreshRows) -> list[str]:
    """Return a sentence on the one label that errs less on the answered rows than a rule that defers others.

    It says if this label breaks a limit of the bounds. The list is empty if there is none, or if no row is
    deferred.
    """
    (answered,) = fresh.samples(answered_error())
    if not fresh.n_deferred or not len(answered.rows):
        return []
    strata = fresh.answered.strata
    rows_of_label = np.bincount(strata.y[fresh.answered.stratum[answered.rows]])
    n_other_labels = len(answered.rows) - rows_of_label.max()
    if n_other_labels >= answered.values.sum():
        return []
    number = int(rows_of_label.argmax())
    n = len(answered.rows)
    in_percent = any(bound.in_percent for bound in bounds)
    error, own = (
        estimate_words(wrong / n, n, in_percent=in_percent)
        for wrong in (n_other_labels, answered.values.sum())
    )
    if error == own:
        return []

    actions = fresh.answered.actions
    constant = fresh.with_actions(np.where(actions == strata.n_classes, actions, number))
    breaks = ""
    for bound in bounds:
        if bound.target is None or not bound.is_counted or bound.subgroups:
            continue
        rates = {sample.name: sample.mean for sample in constant.samples(bound.counted)}
        if not replace(bound, estimate=rates.get(bound.subgroup)).is_within:
            breaks = "; but that answer breaks a limit"
    answer = f"the answer {strata.classes[number]!r} to all"
    return [f"Error of answered rows here: {answer} {error}, the rule {own}{breaks}."]


def deferred_shares(fresh: FreshRows, by: Any) -> dict[Any, float]:
    """Return the share of deferred rows of each subgroup with rows."""
    samples = fresh.samples(deferred(by=by))
    return {sample.name: float(sample.mean) for sample in samples if len(sample.rows)}


def limit_bounds(families: Iterable[RateFamily], delta: float) -> list[CertifiedBound]:
    """Return bounds for a test of each limit at the whole level δ; the bounds do not hold together.

    If all limits must hold, each is tested at level δ: all pass although one is broken with a probability of
    at most δ. The same holds for the pairs of subgroups of a gap or ratio. A pair of counts has an exact test
    (`tailboost.rates.pair_test`); other pairs take two bounds of level δ/2.
    """
    bounds = []
    for family in families:
        level_of_bound = delta / len(family.sides)
        bounds += family.tested_pairs(family.bounds(level_of_bound), delta)
    return bounds


def _ratio_upper(top: Floats, bottom: Floats, level: float) -> float:
    """Return an upper bound on E top / E bottom, with 0 ≤ top ≤ bottom ≤ 1 in each row.

    If the ratio is at least t, then ``top − t bottom + t``, which lies in [0, 1], has a mean of at least t.
    The bound is the smallest t of a grid with a rejection at t and at all larger t. The bound fails
    only if the test rejects at the largest t of the grid up to the true ratio.
    """
    smallest_rejected = 1.0
    grid = np.arange(RATIO_LEVELS - 1, 0, -1) / RATIO_LEVELS
    for t in grid.tolist():
        numbers = np.clip(top - t * bottom + t, 0.0, 1.0)
        if betting_p_value(numbers, t, level) > level:
            break
        smallest_rejected = t
    return smallest_rejected


# -- missed targets ----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Shortfall:
    """A target or limit without a certificate, and its missing rows.

    Attributes
    ----------
    name : str
        The class, group or cell of a target on errors; the rate and its subgroup of a limit.
    estimate : float or None
        The error or rate of the tested rule on the rows; None without rows.
    n : int
        Number of its rows; for a gap or ratio the rows of the smallest subgroup.
    target : float
        The target or limit.
    more_rows : int or None
        Approximate number of fresh rows of the subgroup with which the next attempt certifies this target of
        the tested rule with a probability of .8. The true value is taken to be ``estimate`` or, should it
        miss the target, ``possible``. None if no number is known.
    possible : float
        The true value closest to meeting the target, by a one-sided 95 % confidence bound.
    sense : {"≤", "≥"}
        The side of the target.
    missing : {"calibration rows", "selection rows", "nothing that rows can give"}
        "calibration rows" if the true value may meet the target. Otherwise "selection rows" if the rule meets
        the target on the selection data: another selection may give another rule.
    in_percent : bool
        Whether the limit was stated in percent.
    without_rows : str
        Words for a subgroup in which no row counts, such as "has no rows".
    """

    name: str
    estimate: float | None
    n: int
    target: float
    more_rows: int | None
    possible: float = 0.0
    sense: str = "≤"
    missing: Missing = "calibration rows"
    in_percent: bool = False
    without_rows: str = "has no rows"

    def __str__(self) -> str:
        stated = stated_words(self.target, in_percent=self.in_percent)
        if self.estimate is None:
            return f"{self.name} (target {stated}) {self.needs}"
        estimate = estimate_words(
            self.estimate, self.n, beside=self.target, in_percent=self.in_percent
        )
        about = f"{estimate} on {self.n:,} rows (target {self.sense} {stated})"
        return f"{self.name}: {about}. {self.needs}"

    @property
    def needs(self) -> str:
        """The rows or the change that would do, in words."""
        if self.estimate is None:
            return self.without_rows
        side = "at least"
        direction = "low"
        if self.sense == "≥":
            side = "at most"
            direction = "high"
        possible = bound_words(
            self.possible,
            self.n,
            above=self.sense == "≥",
            beside=self.target,
            in_percent=self.in_percent,
        )
        true_value = f"The true value of this rule is {side} {possible} (95 %)"
        if self.missing == "selection rows":
            return (
                f"{true_value}, but it met the target on the selection data. More selection "
                "rows may give another rule"
            )
        if self.missing == "nothing that rows can give":
            return f"{true_value}: more rows can only certify another one"
        if self.more_rows is not None and self.more_rows >= MOST_ROWS:
            return (
                "No practical number of rows certifies this rule. Look for a limit that it "
                "breaks, such as one on the misses of a label that it hardly gives"
            )
        outcome = "more fresh rows may certify it"
        if self.more_rows is not None and self.n >= FEWEST_TO_FORECAST:
            outcome = enough_rows(self.more_rows, self.n)
        if self.is_kept:
            return f"If this is the true value, {outcome}"
        return f"The true value may be as {direction} as {possible} (95 %); then {outcome}"

    @property
    def is_kept(self) -> bool:
        """Whether the estimate meets the target with room for a certificate."""
        return self.estimate is not None and self.keeps(self.estimate)

    def keeps(self, value: float) -> bool:
        """Return whether a value meets the target with room for a certificate."""
        if self.sense == "≥":
            return value > self.target
        return value < self.target

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain types, for JSON."""
        return asdict(self)

    @classmethod
    def from_bound(
        cls,
        family: RateFamily,
        number: int,
        bound: CertifiedBound,
        level: float,
        selected: float | None,
    ) -> Self:
        """Return a bound with a missed target as a shortfall, with its missing rows.

        Without an estimate, the rows that are needed without an error are named, if they are known.

        Parameters
        ----------
        family : RateFamily
            The family of the bound.
        number : int
            Number of the bound in its family.
        bound : CertifiedBound
            The bound, as the next attempt would test it.
        level : float
            Level of the next attempt.
        selected : float or None
            The same error or rate on the selection data, if known.
        """
        target = float(bound.target or 0.0)
        estimate = bound.estimate
        shortfall = cls(
            name=bound.name if bound.rate is None else bound.title,
            estimate=estimate,
            n=bound.n,
            target=target,
            more_rows=None,
            sense=bound.sense,
            in_percent=bound.in_percent,
            without_rows=bound.without_rows,
        )

        is_comparison = family.is_comparison(number)
        if estimate is None:
            allowed = target if bound.sense == "≤" else 1.0 - target
            if is_comparison or not family.rate.is_share or not 0.0 < allowed < 1.0:
                return shortfall
            needed = rows_for_no_error(allowed, level)
            needs = f"{bound.without_rows}; at least {needed:,} without an error are needed"
            return replace(shortfall, without_rows=needs)

        possible = family.closest_possible(number, bound.sense)
        likely = estimate if shortfall.keeps(estimate) else possible
        if shortfall.keeps(likely):
            more_rows = None
            if likely == estimate or not is_comparison:
                more_rows = family.sufficient_rows(replace(bound, estimate=likely), level)
            return replace(shortfall, more_rows=more_rows, possible=possible)
        missing: Missing = "nothing that rows can give"
        if selected is not None and shortfall.keeps(selected):
            missing = "selection rows"
        return replace(shortfall, possible=possible, missing=missing)
