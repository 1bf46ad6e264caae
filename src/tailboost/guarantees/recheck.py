"""Tests of bounds on later rows: bets against each bound gain wealth if rows break the bound."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from html import escape
from itertools import permutations
from typing import Any

import numpy as np

from tailboost.core.array_types import Document, Floats, Stated
from tailboost.core.exceptions import warn_user
from tailboost.core.html import html_table, text_table
from tailboost.core.limit_lines import CERTIFIED, NOT_CERTIFIED
from tailboost.core.rate_words import estimate_words
from tailboost.core.spelling import how_many, joined
from tailboost.rates import AT_MOST, COMPARISONS, Answered, Sample
from tailboost.rates.bounds import LARGEST_WEALTH, Evidence
from tailboost.rows.fingerprints import Fingerprint, UsedRows
from tailboost.rows.subgroups import unit_name

# Largest number of groups in a note.
GROUPS_NOTED = 10
# Headings of the table of a monitor.
LAST_BATCH = "rate, last batch"
ALL_BATCHES = "rate, all batches"
ROWS_COUNTED = "rows counted"
# Columns of words in tables of bounds.
WORD_COLUMNS = (
    "result",
    "error of",
    "rule",
    "rate",
    "subgroup",
    "limit",
    "method",
    "reason",
)
CERTIFIED_WORDS = {True: CERTIFIED, False: NOT_CERTIFIED, None: ""}


def percent(confidence: float) -> str:
    """Return a confidence in percent, as it was given: after rounding it may promise more."""
    return f"{(100 * Decimal(repr(float(confidence)))).normalize():f} %"


Cells = tuple[list[str], list[list[str]]]
"""The headings and the rows of a table."""


def bounds_text(title: str, cells: Cells, notes: Sequence[str]) -> str:
    """Return bounds as text: a title, a table with columns of words aligned left, and notes."""
    heads, _ = cells
    left = [j for j, head in enumerate(heads) if head in WORD_COLUMNS]
    lines = [title, "", text_table(*cells, left=left), "", *(f"* {note}" for note in notes)]
    return "\n".join(lines)


def bounds_html(title: str, cells: Cells, notes: Sequence[str]) -> str:
    """Return bounds as HTML: a title, a table and notes."""
    items = "".join(f"<li>{escape(note)}</li>" for note in notes)
    return f"<div>{html_table(*cells, title)}<ul>{items}</ul></div>"


@dataclass(frozen=True)
class Claim:
    """Content of a bound: limits on a rate, or on the gap or the ratio of the rates of subgroups.

    A claim is tested by bets on further rows, see `tailboost.rates.bounds.Evidence`.
    """

    form: str  # "mean", or the name of a comparison in `COMPARISONS`
    subgroups: tuple[Any, ...]  # the subgroup, or the compared subgroups
    # None: no limit on this side. Of a gap only the upper limit is tested, of a ratio only the
    # lower one.
    lower: float | None = None
    upper: float | None = None
    # Whether the claim is about the rows of all groups without a name in ``subgroups``, taken
    # together: their rate, or their gap or ratio to each subgroup. A limit on every group holds for
    # any mixture of groups.
    others: bool = False

    def bets(self, samples: Sequence[Sample]) -> list[tuple[Floats, float]]:
        """Return the bets against the claim: each has numbers (n,) in [0, 1] and a limit on their mean.

        A rate is tested from each limited side. A gap or ratio is tested by pairs of subgroups: each row of
        the smaller one is paired with a block of rows of the other, and the mean difference of the pairs is
        the difference of the rates.

        Parameters
        ----------
        samples : sequence of Sample
            The rows of each subgroup in random order; the sample of the other groups comes first.
        """
        if self.form == "mean":
            (sample,) = samples
            bets = []
            if self.upper is not None:
                bets.append(_bet_above(sample, self.upper))
            if self.lower is not None:  # an upper limit on the complement
                bets.append(_bet_above(sample.mirrored, sample.low + sample.high - self.lower))
            # A limit of 1 cannot be broken.
            return [(numbers, limit) for numbers, limit in bets if limit < 1.0]
        COMPARISONS[self.form].refuse_negative(min(sample.low for sample in samples))
        pairs = list(permutations(samples, 2))
        if self.others:
            pairs = [pair for pair in pairs if samples[0] in pair]
        return [self._bet_apart(first, second) for first, second in pairs]

    def _bet_apart(self, first: Sample, second: Sample) -> tuple[Floats, float]:
        """Return a bet that the first rate exceeds the second by more than the gap (or the ratio).

        A bet is an array of numbers and a limit on their mean. The numbers are differences of pairs, one for
        each row of the smaller sample. Both numbers and limit are scaled to [0, 1].
        """
        n = min(len(first.values), len(second.values))
        first_means = _block_means(first.values, n)
        second_means = _block_means(second.values, n)
        comparison = COMPARISONS[self.form]
        bound = self.upper if comparison.side == AT_MOST else self.lower
        assert bound is not None
        factor, gap = comparison.pair(bound)  # factor · x₁ − x₂ has a mean of at most gap
        least = factor * first.low - first.high
        width = (1.0 + factor) * (first.high - first.low)
        numbers = (factor * first_means - second_means - least) / width
        return numbers, min(1.0, (gap - least) / width)


def _bet_above(sample: Sample, level: float) -> tuple[Floats, float]:
    """Return a bet on a rate above a level: numbers in [0, 1] and a limit t on their mean.

    For a ratio of sums, top/bottom, the numbers are ``top − t bottom + t``.
    """
    width = sample.high - sample.low
    numbers = (sample.values - sample.low) / width
    t = (level - sample.low) / width
    if sample.among is not None:
        numbers = numbers - t * sample.among + t
    return np.clip(numbers, 0.0, 1.0), t  # rounding may exceed [0, 1]


def _block_means(values: Floats, n: int) -> Floats:
    """Return the means of n blocks of successive rows, of about equal size, shape (n,)."""
    if not n:
        return values[:0]
    edges = len(values) * np.arange(n + 1) // n
    return np.add.reduceat(values, edges[:-1]) / np.diff(edges)


@dataclass(frozen=True)
class Totals:
    """Sums over the rows of one subgroup."""

    n: int  # number of rows
    weight: float  # of the denominator: for most rates the number of rows
    counted: float  # sum of the numerator

    @classmethod
    def of_sample(cls, sample: Sample) -> Totals:
        """Return the sums of the rows of a subgroup."""
        weight = float(len(sample.rows))
        if sample.among is not None:
            weight = float(sample.among.sum())
        return cls(len(sample.rows), weight, float(sample.values.sum()))

    def plus(self, other: Totals) -> Totals:
        """Return the sums of these rows and of others."""
        return Totals(
            self.n + other.n, self.weight + other.weight, self.counted + other.counted
        )

    def minus(self, other: Totals) -> Totals:
        """Return the sums of these rows without others among them."""
        return Totals(
            self.n - other.n, self.weight - other.weight, self.counted - other.counted
        )


@dataclass(frozen=True)
class Bets:
    """The bets against one claim after some batches, and sums of the rows they were made on."""

    # One for each way to break the claim; none before the first batch.
    bets: tuple[Evidence, ...] = ()
    totals: tuple[Totals, ...] = ()  # of each subgroup; empty before the first batch

    def add(self, claim: Claim, samples: Sequence[Sample]) -> Bets:
        """Return the bets after one more batch, of which ``samples`` are the rows of each subgroup.

        Raises
        ------
        ValueError
            If the rate has another range than in an earlier batch.
        """
        if any(sample.high <= sample.low for sample in samples):
            return self  # a rate with one possible value breaks no claim
        new_bets = claim.bets(samples)
        bets_before = self.bets or [Evidence.against(level) for _, level in new_bets]
        bets = []
        for bet, (numbers, level) in zip(bets_before, new_bets, strict=True):
            if abs(bet.bound - level) > 1e-9:  # more than rounding
                raise ValueError("cost_range has to be the same for all batches")
            bets.append(bet.add(numbers))
        totals = list(map(Totals.of_sample, samples))
        if self.totals:
            totals = list(map(Totals.plus, totals, self.totals))
        return Bets(tuple(bets), tuple(totals))

    def since(self, before: Bets) -> Bets:
        """Return the sums of the rows after an earlier state, without bets."""
        if not before.totals:
            return Bets((), self.totals)
        return Bets((), tuple(map(Totals.minus, self.totals, before.totals)))

    def to_dict(self) -> Document:
        """Return the bets as plain types, for JSON; `from_dict` is the inverse."""
        return {
            "bets": [bet.to_dict() for bet in self.bets],
            "totals": [[totals.n, totals.weight, totals.counted] for totals in self.totals],
        }

    @classmethod
    def from_dict(cls, state: Mapping[str, Any]) -> Bets:
        """Return bets written by `to_dict`."""
        totals = [
            Totals(int(n), float(weight), float(counted))
            for n, weight, counted in state["totals"]
        ]
        return cls(tuple(map(Evidence.from_dict, state["bets"])), tuple(totals))

    @property
    def value(self) -> float:
        """The evidence: the mean wealth of the bets, 1 before the first.

        Each bet is a fair game under the claim, and so is their mean.
        """
        if not self.bets:
            return 1.0
        mean_wealth = float(np.mean([bet.value for bet in self.bets]))
        return min(mean_wealth, LARGEST_WEALTH)  # JSON has no infinity

    @property
    def n(self) -> int:
        """Number of rows; of several subgroups the smallest number."""
        return min((totals.n for totals in self.totals), default=0)

    def estimate(self, form: str) -> float | None:
        """Return the rate, gap or ratio of the rows, by the form of the claim; None without rows."""
        means = [totals.counted / totals.weight for totals in self.totals if totals.weight]
        if not means or (form == "mean" and not self.n):
            return None
        if form == "mean":
            return means[0]
        return float(COMPARISONS[form].of_rates(np.array(means)))


def rows_by_subgroup(answered: Answered, by: Any) -> dict[Any, int]:
    """Return the number of rows of each subgroup, for the ``by`` of a rate."""
    strata = answered.strata
    rows_by_stratum = np.bincount(answered.stratum, minlength=len(strata.y))
    names, strata_of_subgroups = strata.subgroups(by)
    numbers = (strata_of_subgroups @ rows_by_stratum).tolist()
    return dict(zip(names, numbers, strict=True))


def rows_unnamed(tested: Sequence[Any], answered: Answered) -> dict[str, int]:
    """Return the number of rows of each group without a bound, by the group's name.

    Warn if no row is of a group with one of the bounds. ``tested`` are the bounds, and ``answered`` the rows
    of a batch.
    """
    unnamed: dict[str, int] = {}
    for rate in dict.fromkeys(bound.counted for bound in tested if bound.counted.needs_groups):
        bounded = {
            name for bound in tested if bound.counted == rate for name in bound.claim.subgroups
        }
        sizes = {name: n for name, n in rows_by_subgroup(answered, rate.by).items() if n}
        counts: Counter[str] = Counter()
        for subgroup in sizes.keys() - bounded:
            group = subgroup[1] if rate.by == "cell" else subgroup
            counts[unit_name(group)] += sizes[subgroup]
        # A group may occur in several rates: its largest number counts.
        unnamed |= {name: max(n, unnamed.get(name, 0)) for name, n in sorted(counts.items())}
        if sizes and bounded.isdisjoint(sizes):
            bounded_in_words = ", ".join(sorted(map(unit_name, bounded))[:GROUPS_NOTED])
            warn_user(
                f"this batch has no row of the groups that the bounds on {rate} name "
                f"({bounded_in_words}); its groups are "
                f"{', '.join(sorted(counts)[:GROUPS_NOTED])}. Are the groups spelled as when "
                "the monitor began?"
            )
    return unnamed


@dataclass(frozen=True)
class RecheckedBound:
    """Evidence of new rows against one bound.

    Attributes
    ----------
    bound : CertifiedBound
        The bound.
    n : int
        New rows of all batches; for a comparison, of the smallest subgroup.
    estimate : float or None
        Value of the bounded quantity on the new rows; None without rows.
    evidence : float
        Wealth of bets against the bound, from 1; larger if rows break the bound.
    contradicted : bool
        Whether the evidence reaches the threshold.
    """

    bound: Stated
    n: int
    estimate: float | None
    evidence: float
    contradicted: bool

    @property
    def bound_text(self) -> str:
        """The bound as printed: the limit as it was stated, if it is the bound."""
        return self.bound.limit if self.bound.is_limit else self.bound.bound_text

    @property
    def is_within(self) -> bool:
        """Whether the estimate keeps the bound; True without an estimate."""
        if self.estimate is None:
            return True
        lower, upper = self.bound.sides
        return (lower is None or self.estimate >= lower) and (
            upper is None or self.estimate <= upper
        )

    @property
    def side(self) -> str:
        """The side of the bound on which the estimate lies, of one that does not keep it."""
        lower, _ = self.bound.sides
        return "below" if lower is not None and self.estimate < lower else "above"

    @property
    def estimate_text(self) -> str:
        """The estimate as printed, in the unit of the limit."""
        return self.words_of(self.estimate, self.n)

    def words_of(self, estimate: float | None, n_rows: int) -> str:
        """Return an estimate of the bounded rate from so many rows as printed, in the unit of the limit."""
        return estimate_words(
            estimate, n_rows, beside=self.bound.target, in_percent=self.bound.in_percent
        )

    def __repr__(self) -> str:
        contradicted = "contradicted" if self.contradicted else "not contradicted"
        return (
            f"RecheckedBound({self.bound.title}, {self.bound_text}: "
            f"{self.estimate_text} on {self.n:,} rows, evidence {self.evidence:.3g}, "
            f"{contradicted})"
        )


@dataclass(frozen=True)
class Recheck:
    """Evidence of new rows against a certificate, after any number of batches.

    Attributes
    ----------
    tested : list of CertifiedBound
        The bounds on means of all rows, classes, groups and cells, or the bounds on rates.
    evidence : tuple of Bets
        The bets against each bound.
    confidence : float
        Confidence of the certificate. If all bounds are true, the probability that any bound is ever
        contradicted is at most 1 − confidence.
    rows : tuple of Fingerprint
        Fingerprints of the rows of each batch.
    repeated : (int, int)
        Number of rows equal to a row of the certificate or of an earlier batch, and the number compared.
    unnamed : dict of str to int
        Rows of each group without a bound.
    """

    tested: list[Any]
    evidence: tuple[Bets, ...]
    confidence: float
    rows: tuple[Fingerprint, ...] = field(default=(), repr=False)
    repeated: tuple[int, int] = (0, 0)
    unnamed: Mapping[str, int] = field(default_factory=dict)
    # The rows of each batch, to pair equal ones. A monitor keeps them itself.
    used: tuple[UsedRows, ...] = field(default=(), repr=False)

    @classmethod
    def begun(cls, tested: Sequence[Any], confidence: float) -> Recheck:
        """Return the state before any rows."""
        return cls(list(tested), (Bets(),) * len(tested), confidence)

    def add(
        self,
        samples: Sequence[Sequence[Sample] | None],
        rows: tuple[Fingerprint, ...],
        repeated: tuple[int, int],
        unnamed: Mapping[str, int],
    ) -> Recheck:
        """Return the state after one more batch.

        Parameters
        ----------
        samples : sequence
            For each bound the rows of each of its subgroups; None if it has no rows.
        rows, repeated, unnamed
            Of this batch, as in the class.
        """
        evidence = tuple(
            bets if of_bound is None else bets.add(bound.claim, of_bound)
            for bound, bets, of_bound in zip(self.tested, self.evidence, samples, strict=True)
        )
        n_equal, n_compared = repeated
        n_equal_before, n_compared_before = self.repeated
        return replace(
            self,
            evidence=evidence,
            rows=(*self.rows, *rows),
            repeated=(n_equal_before + n_equal, n_compared_before + n_compared),
            unnamed=dict(Counter(self.unnamed) + Counter(unnamed)),
        )

    @property
    def threshold(self) -> float:
        """Evidence from which on a bound is contradicted."""
        return round(len(self.tested) / (1.0 - self.confidence), 9)  # 1 − .95 is no exact .05

    @property
    def bounds(self) -> list[RecheckedBound]:
        """The evidence against each bound."""
        return [
            RecheckedBound(
                bound=bound,
                n=bets.n,
                estimate=bets.estimate(bound.claim.form),
                evidence=bets.value,
                contradicted=bool(bets.value >= self.threshold),
            )
            for bound, bets in zip(self.tested, self.evidence, strict=True)
        ]

    @property
    def contradicted(self) -> bool:
        """Whether any bound is contradicted."""
        return any(rechecked.contradicted for rechecked in self.bounds)

    @property
    def broken(self) -> list[str]:
        """The names of the contradicted bounds."""
        return [
            unit_name(rechecked.bound.name)
            for rechecked in self.bounds
            if rechecked.contradicted
        ]

    @property
    def verdict(self) -> str:
        """Whether the rows contradict the certificate, in sentences."""
        if self.contradicted:
            return f"These rows contradict the earlier certificate: {', '.join(self.broken)}."
        words = "The earlier certificate stands; these rows do not contradict it."
        if self.not_compared:
            words += f" {self.not_compared.capitalize()}."
        return words

    @property
    def not_compared(self) -> str:
        """How many bounds have no row among these rows, in words; empty if all have one."""
        n_without_rows = sum(not rechecked.n for rechecked in self.bounds)
        if not n_without_rows:
            return ""
        return f"{n_without_rows} of {how_many(len(self.bounds), 'bound')} without a row there: not compared"

    def to_dict(self) -> Document:
        """Return everything as plain types, for JSON."""
        bounds = [
            vars(rechecked) | {"bound": rechecked.bound.to_dict()} for rechecked in self.bounds
        ]
        return {"confidence": self.confidence, "threshold": self.threshold, "bounds": bounds}

    def to_state(self) -> Document:
        """Return the state after the batches as plain types, for JSON; `from_state` is the inverse."""
        return {
            "evidence": [bets.to_dict() for bets in self.evidence],
            "rows": [fingerprints.to_dict() for fingerprints in self.rows],
            "repeated": list(self.repeated),
            "unnamed": dict(self.unnamed),
        }

    def from_state(self, state: Mapping[str, Any]) -> Recheck:
        """Return the tests of the same bounds with a state from `to_state`.

        Raises
        ------
        KeyError, TypeError, AttributeError, ValueError
            If the state is damaged or has evidence on other bounds.
        """
        evidence = tuple(map(Bets.from_dict, state["evidence"]))
        if len(evidence) != len(self.tested):
            raise ValueError("the state has evidence on other bounds")
        n_equal, n_compared = (int(count) for count in state["repeated"])
        unnamed = {str(name): int(count) for name, count in state["unnamed"].items()}
        rows = tuple(map(Fingerprint.from_dict, state["rows"]))
        return replace(
            self, evidence=evidence, rows=rows, repeated=(n_equal, n_compared), unnamed=unnamed
        )

    @property
    def title(self) -> str:
        """The result, in a sentence."""
        n_contradicted = sum(rechecked.contradicted for rechecked in self.bounds)
        tested = how_many(len(self.tested), "tested bound")
        return f"New rows contradict {n_contradicted or 'none'} of {tested}."

    def cells(
        self,
        last: Sequence[tuple[int, float | None]] | None = None,
        largest: Sequence[float] | None = None,
    ) -> Cells:
        """Return the headings and rows of the table of bounds.

        Parameters
        ----------
        last : sequence of (int, float or None), optional
            The numbers of rows and the estimates of the last batch, for a further column.
        largest : sequence of float, optional
            The largest evidence after any batch, which then decides instead of the last evidence.
        """
        evidence_head = f"evidence (alarm at {self.threshold:.4g})"
        heads = ["result", "rate", "bound", ALL_BATCHES, ROWS_COUNTED, evidence_head]
        if last is not None:
            heads.insert(3, LAST_BATCH)
        rows = []
        for j, rechecked in enumerate(self.bounds):
            evidence = rechecked.evidence if largest is None else largest[j]
            result = "not contradicted" if rechecked.n else "no rows"
            if evidence >= self.threshold:
                result = "contradicted"
            row = [
                result,
                rechecked.bound.title,
                rechecked.bound_text,
                rechecked.estimate_text,
                f"{rechecked.n:,}",
                f"{evidence:.3g}",
            ]
            if last is not None:
                n_rows, estimate = last[j]
                row.insert(3, rechecked.words_of(estimate, n_rows))
            rows.append(row)
        return heads, rows

    @property
    def notes(self) -> list[str]:
        """Notes on the meaning of the evidence, and on groups without a bound."""
        return [*self.meanings, *filter(None, [self.groups_without_bound])]

    @property
    def meanings(self) -> list[str]:
        """Notes on the meaning of the rates and the evidence."""
        allowed_error = percent(round(1.0 - self.confidence, 12))
        return [
            f"{ALL_BATCHES}: the rate on the new rows that count in it, such as those of one "
            f"label for a miss rate; {ROWS_COUNTED}: their number.",
            "evidence: what a stake of 1 has become by bets on the new rows against the "
            "bound; a monitor shows the largest so far.",
            f"A bound is contradicted once its evidence reaches {self.threshold:.4g}: the "
            f"number of bounds divided by the allowed error probability {allowed_error}. If "
            "all bounds are true and the rows are independent draws, the probability that "
            f"this ever happens is at most {allowed_error}.",
        ]

    @property
    def groups_without_bound(self) -> str:
        """A sentence that names the groups without a bound, with their rows; empty without such groups."""
        if not self.unnamed:
            return ""
        groups = joined(
            [f"{name} ({n:,} rows)" for name, n in self.unnamed.items()], GROUPS_NOTED
        )
        if any(bound.others for bound in self.tested):
            return f'Groups without a bound of their own, bounded together as "other groups": {groups}.'
        return f"Groups without a bound of their own: {groups}."

    def __str__(self) -> str:
        return bounds_text(self.title, self.cells(), self.notes)

    def _repr_html_(self) -> str:
        return bounds_html(self.title, self.cells(), self.notes)
