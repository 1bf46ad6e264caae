"""What new rows say of bounds, batch after batch: the wealth of bets that a bound is broken."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from html import escape
from itertools import permutations
from types import MappingProxyType
from typing import Any, Literal

import numpy as np

from tailboost.core.array_types import Floats
from tailboost.core.fingerprints import Fingerprint, too_many
from tailboost.core.html import html_table, text_table
from tailboost.core.subgroups import unit_name
from tailboost.core.warn import warn_user
from tailboost.rates import Answered, Sample
from tailboost.rates.bounds import Evidence

__all__ = ["Bets", "Claim", "Recheck", "RecheckedBound"]

# Groups that are named in a note.
MOST_NAMES = 10
VERDICTS = {True: "certified", False: "not certified", None: ""}


def shown(value: float | None) -> str:
    """Return a number as it is printed, a dash where it is not known."""
    return "–" if value is None else f"{value:.4f}"


def up(value: float) -> str:
    """Return an upper bound rounded up, so that what is printed holds."""
    return f"{np.ceil(value * 1e4 - 1e-9) / 1e4:.4f}"


def down(value: float) -> str:
    """Return a lower bound rounded down, so that what is printed holds."""
    return f"{np.floor(value * 1e4 + 1e-9) / 1e4:.4f}"


@dataclass(frozen=True)
class Claim:
    """What a bound says: between which numbers a rate lies, or the gap or the ratio of those of units."""

    # Whether of the rate of one unit, of the largest less the smallest, or the smallest over the largest.
    form: Literal["mean", "gap", "ratio"]
    units: tuple[Any, ...]  # the unit, or those that are compared
    # lower, upper: the numbers; None where nothing is said on that side. Of a gap only the upper one is put
    # to the test, of a ratio only the lower one.
    lower: float | None = None
    upper: float | None = None
    # Whether it is about the rows of all groups together that ``units`` does not name: their rate, or their
    # gap or ratio to each of the units. A limit on every group is one on any mixture of groups.
    others: bool = False

    def __str__(self) -> str:
        if self.upper is None:
            return f"≥ {down(self.lower or 0.0)}"
        return f"≤ {up(self.upper)}" if self.lower is None else f"{down(self.lower)} to {up(self.upper)}"

    def bets(self, samples: Sequence[Sample]) -> list[tuple[Floats, float]]:
        """Return numbers in [0, 1], and what their mean exceeds only if the claim is false, for each bet.

        The rows of each unit are in random order. A rate of one unit is bet on from each side that is
        bounded. A gap or ratio is broken only if it is by some pair of units: rows of one are put beside
        blocks of rows of the other, so that the difference of each row and its block is a draw with the mean
        of the difference of the rates. Samples of other groups come first.
        """
        if self.form == "mean":
            (sample,) = samples
            found = [] if self.upper is None else [_above(sample, self.upper)]
            if self.lower is not None:
                found.append(_above(sample.mirrored, sample.low + sample.high - self.lower))
            return [bet for bet in found if bet[1] < 1.0]  # the others say nothing
        if self.form == "ratio" and any(sample.low < 0.0 for sample in samples):
            raise ValueError("what may be negative has no ratio that can be tested; limit the gap")
        pairs = permutations(samples, 2)
        return [self._apart(*pair) for pair in pairs if not self.others or samples[0] in pair]

    def _apart(self, one: Sample, other: Sample) -> tuple[Floats, float]:
        """Return a bet that one unit's rate is higher by more than the gap, or the other's by the ratio."""
        first, second = _blocks(one.values, other.values)
        if self.form == "gap":
            assert self.upper is not None
            width = one.high - one.low
            return (first - second + width) / (2.0 * width), min(1.0, (self.upper + width) / (2.0 * width))
        assert self.lower is not None
        whole = (1.0 + self.lower) * one.high
        return (self.lower * first - second + one.high) / whole, one.high / whole


def _above(sample: Sample, level: float) -> tuple[Floats, float]:
    """Return a bet that a rate is above a level; a ratio's is on ``top − t bottom + t``, as its bound."""
    width = sample.high - sample.low
    scaled, t = (sample.values - sample.low) / width, (level - sample.low) / width
    return np.clip(scaled if sample.among is None else scaled - t * sample.among + t, 0.0, 1.0), t


def _blocks(first: Floats, second: Floats) -> tuple[Floats, Floats]:
    """Return means of blocks of rows, as many blocks of each as the fewer rows are; none of no rows."""
    n = min(len(first), len(second))
    if not n:
        return first[:0], second[:0]
    one, other = (len(values) * np.arange(n + 1) // n for values in (first, second))
    return np.add.reduceat(first, one[:-1]) / np.diff(one), np.add.reduceat(second, other[:-1]) / np.diff(
        other
    )


@dataclass(frozen=True)
class Bets:
    """The bets against one claim after some batches, and what the rows were that they were on."""

    bets: tuple[Evidence, ...] = ()  # one for each way in which it may be false; none before the first batch
    # Tuple of (int, float, float): of each unit its rows, the weight among which the rate counts (for most
    # rates as many), and the sum of what is counted.
    seen: tuple[tuple[int, float, float], ...] = ()

    def add(self, claim: Claim, samples: Sequence[Sample]) -> Bets:
        """Return the bets after one more batch.

        Raises
        ------
        ValueError
            If the rate has another range than in an earlier batch.
        """
        if any(sample.high <= sample.low for sample in samples):
            return self
        asked = claim.bets(samples)
        bets = self.bets or tuple(Evidence.against(level) for _, level in asked)
        for bet, (_, level) in zip(bets, asked, strict=True):
            if abs(bet.bound - level) > 1e-9:
                raise ValueError("cost_range has to be the same for all batches")
        grown = tuple(bet.add(values) for bet, (values, _) in zip(bets, asked, strict=True))
        before = self.seen or ((0, 0.0, 0.0),) * len(samples)
        seen = tuple(
            (n + len(s.rows), weight + (len(s.rows) if s.among is None else float(s.among.sum())),
             total + float(s.values.sum()))
            for (n, weight, total), s in zip(before, samples, strict=True)
        )  # fmt: skip
        return Bets(grown, seen)

    def since(self, before: Bets) -> Bets:
        """Return the rows that came after an earlier look, without the bets."""
        first = before.seen or ((0, 0.0, 0.0),) * len(self.seen)
        pairs = zip(self.seen, first, strict=True)
        return Bets((), tuple((a[0] - b[0], a[1] - b[1], a[2] - b[2]) for a, b in pairs))

    @property
    def value(self) -> float:
        """The evidence: the mean wealth of the bets, 1 before the first; the mean of fair games is fair."""
        return float(np.mean([bet.value for bet in self.bets])) if self.bets else 1.0

    @property
    def n(self) -> int:
        """Rows behind it; of several units those of the smallest."""
        return min((n for n, _, _ in self.seen), default=0)

    def estimate(self, form: str) -> float | None:
        """Return the rate, gap or ratio of the rows; None where there is nothing to count among."""
        means = [total / weight for _, weight, total in self.seen if weight]
        if not means or (form == "mean" and not self.n):
            return None
        if form == "gap":
            return max(means) - min(means)
        if form == "ratio":
            return min(means) / max(means) if max(means) > 0 else 1.0
        return means[0]


def rows_unnamed(tested: Sequence[Any], answered: Answered) -> dict[str, int]:
    """Count the rows of each group that no bound names; warn if no row is of a group that one names.

    Parameters
    ----------
    tested : list of CertifiedBound
        The bounds.
    answered : Answered
        The rows.
    """
    found: dict[str, int] = {}
    for rate in dict.fromkeys(bound.counted for bound in tested if bound.counted.needs_groups):
        named = {unit for bound in tested if bound.counted == rate for unit in bound.claim.units}
        sizes = {sample.name: len(sample.rows) for sample in answered.samples(rate) if len(sample.rows)}
        counts: Counter[str] = Counter()
        for unit in sizes.keys() - named:
            counts[unit_name(unit[1] if rate.by == "cell" else unit)] += sizes[unit]
        found |= {name: max(n, found.get(name, 0)) for name, n in sorted(counts.items())}
        if sizes and named.isdisjoint(sizes):
            few = ", ".join(sorted(map(unit_name, named))[:MOST_NAMES])
            warn_user(
                f"no row of this batch is of a group that the bounds on {rate} name ({few}): its rows are of "
                f"{', '.join(sorted(counts)[:MOST_NAMES])}. Are the groups spelled as when the monitor began?"
            )
    return found


@dataclass(frozen=True)
class RecheckedBound:
    """What new rows say of one bound.

    Attributes
    ----------
    bound : CertifiedBound
        The bound.
    n : int
        New rows behind the answer, of all batches; of units that are compared those of the smallest.
    estimate : float or None
        What is bounded, of the new rows; None where there are none.
    evidence : float
        Wealth of bets against the bound, from 1; large where it is broken.
    contradicted : bool
        Whether the evidence is enough.
    """

    bound: Any
    n: int
    estimate: float | None
    evidence: float
    contradicted: bool


@dataclass(frozen=True)
class Recheck:
    """What new rows say of a certificate, after any number of batches.

    Attributes
    ----------
    tested : list of CertifiedBound
        The bounds on means, of all rows, classes, groups and cells; or those on rates.
    evidence : tuple of Bets
        What was found on each.
    confidence : float
        That of the certificate: if all bounds are true, the probability that any is ever called
        contradicted is at most 1 − this.
    rows : tuple of Fingerprint
        Fingerprints of the rows of each batch.
    known : (int, int)
        Of all batches, how many of how many rows the certificate or an earlier batch had.
    unnamed : dict of str to int
        Rows of each group that no bound names.
    """

    tested: list[Any]
    evidence: tuple[Bets, ...]
    confidence: float
    rows: tuple[Fingerprint, ...] = field(default=(), repr=False)
    known: tuple[int, int] = (0, 0)
    unnamed: Mapping[str, int] = field(default_factory=dict)

    @classmethod
    def begun(cls, tested: Sequence[Any], confidence: float) -> Recheck:
        """Return what no rows say."""
        return cls(list(tested), (Bets(),) * len(tested), confidence)

    def had(self, counts: Sequence[tuple[int, int]]) -> bool:
        """Return whether too many rows were seen before: of a batch, by its counts, or of all batches."""
        known, n = counts[-1]
        return any(too_many(*each) for each in (*counts, (self.known[0] + known, self.known[1] + n)))

    def add(
        self,
        samples: Sequence[Sequence[Sample] | None],
        rows: tuple[Fingerprint, ...],
        known: tuple[int, int] = (0, 0),
        unnamed: Mapping[str, int] = MappingProxyType({}),
    ) -> Recheck:
        """Return what is said after one more batch.

        Parameters
        ----------
        samples : list of (list of Sample or None)
            For each bound the rows of each of its units, or None.
        rows, known, unnamed
            As in the class, of this batch.
        """
        evidence = tuple(
            bets if of is None else bets.add(bound.claim, of)
            for bound, bets, of in zip(self.tested, self.evidence, samples, strict=True)
        )
        return replace(
            self,
            evidence=evidence,
            rows=(*self.rows, *rows),
            known=(self.known[0] + known[0], self.known[1] + known[1]),
            unnamed=dict(Counter(self.unnamed) + Counter(unnamed)),
        )

    @property
    def threshold(self) -> float:
        """The evidence from which on a bound is contradicted."""
        return len(self.tested) / (1.0 - self.confidence)

    @property
    def bounds(self) -> list[RecheckedBound]:
        """What is found on each bound."""
        return [
            RecheckedBound(b, e.n, e.estimate(b.claim.form), e.value, bool(e.value >= self.threshold))
            for b, e in zip(self.tested, self.evidence, strict=True)
        ]

    @property
    def contradicted(self) -> bool:
        """Whether any bound is contradicted."""
        return any(r.contradicted for r in self.bounds)

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain types, for JSON."""
        found = [
            {"bound": r.bound.to_dict(), "n": r.n, "estimate": r.estimate, "evidence": r.evidence}
            | {"contradicted": r.contradicted}
            for r in self.bounds
        ]
        return {"confidence": self.confidence, "threshold": self.threshold, "bounds": found}

    @property
    def title(self) -> str:
        """What was found, in a sentence."""
        n = sum(r.contradicted for r in self.bounds)
        return f"New rows contradict {n or 'none'} of the {len(self.tested)} bounds that are tested."

    def cells(
        self, last: Sequence[float | None] | None = None, ever: Sequence[float] | None = None
    ) -> tuple[list[str], list[list[str]]]:
        """Return the headings and rows of the table of bounds.

        ``last`` is what the last batch alone says of each; where the largest evidence after any look decides,
        that is ``ever``.
        """
        rows = []
        for j, r in enumerate(self.bounds):
            evidence = r.evidence if ever is None else ever[j]
            word = "contradicted" if evidence >= self.threshold else "stands" if r.n else "no rows"
            of_last = [] if last is None else [shown(last[j])]
            cells = [r.bound.title, word, str(r.bound.claim), *of_last, f"{r.n:,}", shown(r.estimate)]
            rows.append([*cells, f"{evidence:.3g}"])
        before = [] if last is None else ["last batch"]
        heads = ["bound on", "", "said", *before, "new rows", "seen", "evidence"]
        return heads, rows

    @property
    def notes(self) -> list[str]:
        """What the evidence means, and which groups no bound names."""
        said = [
            f"A bound is contradicted where the evidence reaches {self.threshold:.4g}; if all bounds are "
            f"true, that any ever does has a probability of at most {1 - self.confidence:.4g}, for rows that "
            "are independent draws."
        ]
        if self.unnamed:
            names = [f"{name} ({n:,} rows)" for name, n in self.unnamed.items()]
            more = f" and {len(names) - MOST_NAMES:,} more" if len(names) > MOST_NAMES else ""
            counted = any(bound.others for bound in self.tested)
            how = (
                'bounds on "other groups" count them together' if counted else "no bound by group counts them"
            )
            said.append(f"No bound names these groups: {', '.join(names[:MOST_NAMES])}{more}; {how}.")
        return said

    def __str__(self) -> str:
        heads, rows = self.cells()
        return "\n".join([self.title, "", text_table(heads, rows, left=(0, 1)), "", *self.notes])

    def _repr_html_(self) -> str:
        notes = "".join(f"<p>{escape(note)}</p>" for note in self.notes)
        return f"<div>{html_table(*self.cells(), self.title)}{notes}</div>"
