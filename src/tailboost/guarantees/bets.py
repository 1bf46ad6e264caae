"""Bets against the bounds of a certificate on later rows, which hold after any number of batches.

A bet is that numbers in [0, 1] have a mean above a bound. If the mean is at most the bound, its `Wealth` is a
nonnegative supermartingale that starts at 1. So is the mean wealth of the bets against one bound, which is
the evidence against it (`Bets`). The rows of a batch must be in random order.
"""

import math
from collections.abc import Sequence
from dataclasses import field, replace
from itertools import permutations
from typing import Self

import numpy as np

from tailboost.core import Column, Floats, frozen_object, frozen_value
from tailboost.guarantees.certified_bound import CertifiedBound
from tailboost.rates import GAP, Sample, Statistic
from tailboost.rates.bounds import POWERS

# Cap of the printed evidence, and in place of an infinite logarithm of a wealth: JSON has no infinity.
LARGEST = 1e300


@frozen_value
class Wealth:
    """Wealth of bets on a mean above a bound.

    If the bound is true, the wealth ever reaches 1/δ with probability at most δ (Ville's inequality): it may
    be looked at after each batch.

    The j-th batch brings 1/(j (j + 1)) of the initial wealth into play; these fractions sum to one. So what
    was lost before a change does not hide the change: a late rise of the mean is found about as soon as a
    mean above the bound from the start. Under a true bound no start gains on average, nor does their mixture.

    Examples
    --------
    >>> from tailboost.guarantees.bets import Wealth
    >>> wealth = Wealth(0.1).add([0, 1, 0, 0, 1] * 4)
    >>> round(wealth.value, 1)
    35.3
    """

    bound: float  # in [0, 1]: the tested bound
    # Log wealth in play by stake.
    log_wealths: tuple[float, ...] = (-LARGEST,) * len(POWERS)
    batches: int = 0  # batches so far

    def add(self, losses: Column) -> Self:
        """Return the wealth after a batch of further rows with losses in [0, 1]; unchanged without rows."""
        values, counts = np.unique(losses, return_counts=True)
        if not len(values):
            return self
        j = self.batches + 1
        # The batch brings a further part of the initial wealth into play.
        logs = np.logaddexp(self.log_wealths, -math.log(j * (j + 1)))
        if self.bound > 0.0:
            with np.errstate(divide="ignore"):  # a stake of 1 may lose everything
                logs = logs + np.log1p(POWERS[:, None] * (values / self.bound - 1.0)) @ counts
        elif values[-1] > 0.0:  # impossible under a bound of 0
            logs = np.full(len(POWERS), np.inf)
        logs = logs.clip(-LARGEST, LARGEST)
        return replace(self, log_wealths=tuple(logs.tolist()), batches=j)

    @property
    def value(self) -> float:
        """The wealth. A value of 20 contradicts the bound at the 5 % level, at any time."""
        with np.errstate(over="ignore"):
            in_play = float(np.exp(self.log_wealths).mean())
        # After k batches the part 1/1·2 + … + 1/k(k + 1) = 1 − 1/(k + 1) was brought into play.
        return in_play + 1.0 / (self.batches + 1)


@frozen_object
class Bets:
    """The bets against one bound after some batches, and sums over the rows of each of its m subgroups.

    ``sums`` has the shape (m, 3): rows, weight in the denominator, and counted weight. Before the first batch
    it is a single row of zeros, and there are no ``wealths``: a batch tells the range of the rate.
    """

    bound: CertifiedBound
    wealths: tuple[Wealth, ...] = ()
    sums: Floats = field(default_factory=lambda: np.zeros((1, 3)))

    def add(self, samples: Sequence[Sample]) -> Self:
        """Return the bets after one more batch, with the rows of each subgroup in random order."""
        new = bets_of(self.bound, samples)
        before = self.wealths or [Wealth(bound) for bound, _ in new]
        after = [each.add(numbers) for each, (_, numbers) in zip(before, new, strict=True)]
        sums = [(len(each.rows), each.among.sum(), each.values.sum()) for each in samples]
        return replace(self, wealths=tuple(after), sums=self.sums + sums)

    @property
    def value(self) -> float:
        """The evidence: the mean wealth of the bets, from 1, without gain on average if the bound is true."""
        values = [each.value for each in self.wealths] or [1.0]
        return min(float(np.mean(values)), LARGEST)

    @property
    def n(self) -> int:
        """Number of rows; for a gap or ratio those of the smallest subgroup."""
        return int(self.sums[:, 0].min())

    @property
    def rate(self) -> float | None:
        """The bounded rate, gap or ratio of the rows; None without rows."""
        if not self.n:
            return None
        _, among, counted = self.sums.T
        rates = counted / among
        if self.bound.subgroups:
            return Statistic(str(self.bound.subgroup), self.bound.rate).value(rates)
        return float(rates[0])


#: A bound in [0, 1], and the numbers of a batch whose mean is bet to be above it, in [0, 1], shape (n,).
Bet = tuple[float, Floats]


def bets_of(bound: CertifiedBound, samples: Sequence[Sample]) -> list[Bet]:
    """Return the bets against a bound.

    A rate is tested from each bounded side. A gap or ratio is tested by ordered pairs of subgroups: each row
    of the smaller one is paired with a block of rows of the other, and the mean difference of the pairs is
    the difference of the rates. Rows without a pair are not kept for later batches: their values are known
    by then, and may have chosen these batches. ``samples`` are in random order. There are no bets against a
    bound on a single rate that no row can break, or on rates with one possible value.
    """
    if samples[0].high <= samples[0].low:
        return []
    if bound.subgroups:
        return [_bet_apart(bound, *pair) for pair in permutations(samples, 2)]
    (sample,) = samples
    width = sample.high - sample.low
    tested = []
    if bound.sense != "≥":
        tested.append(((bound.upper - sample.low) / width, sample))
    if bound.sense != "≤":  # an upper bound on the complement
        tested.append(((sample.high - bound.lower) / width, sample.mirrored))
    return [(t, each.scaled(t)) for t, each in tested if t < 1.0]


def _bet_apart(bound: CertifiedBound, first: Sample, second: Sample) -> Bet:
    """Return a bet that ``factor`` times the first rate exceeds the second one by more than the gap."""
    factor, gap = (1.0, bound.upper) if bound.subgroup == GAP else (bound.lower, 0.0)
    n = min(len(first.rows), len(second.rows))
    smallest = factor * first.low - first.high
    width = (1.0 + factor) * (first.high - first.low)
    differences = factor * _block_means(first.values, n) - _block_means(second.values, n)
    return min(1.0, (gap - smallest) / width), (differences - smallest) / width


def _block_means(values: Floats, n: int) -> Floats:
    """Return the means of n blocks of successive rows, of about equal size, shape (n,)."""
    if not n:
        return values[:0]
    edges = len(values) * np.arange(n + 1) // n
    return np.add.reduceat(values, edges[:-1]) / np.diff(edges)
