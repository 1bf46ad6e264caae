"""A path of rules on one score, in the order of the predicted probability of passing all tests.

A rule has two thresholds for each group, or for all rows: below the first the answer is the first label, from
the second on it is the second label, and between them a human decides. For a rule r and a limit j, let z_j(r)
be the probit of the predicted probability of passing the exact test of limit j on the fresh rows, with the
noise of the selection data and of the fresh rows. The probit is infinite for a limit that is kept by
construction, as a limit on misses in a group of which nobody gets the other answer. For z from high to low,
the path has the rule of least loss among those with Π_j Φ(z_j(r)) ≥ Φ(z). The product is the probability of
passing all tests, if they are independent. So limits with a high price take the risk, and cheap limits keep
their distance.

The path is a function of the selection data alone. Each rule in turn is tested for all limits, each at the
whole level, up to the first failure; the last passing rule is certified. A broken limit has a
probability of at most the level: the first rule of the path with a broken limit must have passed the test of
this limit ([1]_).

References
----------
.. [1] A. N. Angelopoulos, S. Bates, E. J. Candès, M. I. Jordan and L. Lei, "Learn then Test: Calibrating
   Predictive Algorithms to Achieve Risk Control", Annals of Applied Statistics 19, 2025.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.special import log_ndtr, ndtri, ndtri_exp

from tailboost.core.array_types import Floats, Ints, Mask
from tailboost.guarantees.limited_rates import (
    LimitedFamily,
    least_probits_of_pairs,
    power_of_shares,
)
from tailboost.rates import Limit

# Probits of the predicted probability of passing all tests, along the path.
JOINT_PROBITS = np.arange(3.5, -1.31, -0.15)
# Probit of a limit kept by construction.
ALWAYS = 9.0
# Probit of a limit without a passing count of the fresh rows.
NEVER = -9.0
# Rows at the rate of all subgroups, added to a subgroup: otherwise nothing is tried in a group with
# few rows here and enough fresh ones.
PRIOR = 3.0
# Prices of which each window has the thresholds. With .3, .4 and .5 alone, a ratio of selection rates beside
# misses ≤ .15 erred .019 ± .001 more (6 draws of 16,000 rows; groups with 10 and 30 % of label 1). With 39
# prices the errors are the same (4 draws), and calls with a ratio and misses take 2.4 times the seconds.
PRICES_WITHIN = np.linspace(0.025, 0.975, 13)
# The most rules with gaps compared at once: with 40 groups each rule has 1,600 gaps.
RULES_AT_ONCE = 4_096
# Numbers of the answers; 2 is deferral.
FIRST = 0
SECOND = 1


@dataclass(frozen=True, eq=False)
class Bands:
    """K rules with two thresholds for each of m places, as numbers of values of the score.

    Values below ``low`` get the first label, values from ``high`` on the second, and values between them
    deferral.
    """

    low: Ints  # shape (K, m): number of the first value without the first label
    high: Ints  # shape (K, m): number of the first value with the second label

    def __getitem__(self, which: Ints | Mask) -> Bands:
        return Bands(self.low[which], self.high[which])

    def joined(self, *others: Bands) -> Bands:
        """Return these rules and others."""
        bands = (self, *others)
        lows = np.vstack([band.low for band in bands])
        highs = np.vstack([band.high for band in bands])
        return Bands(lows, highs)

    @property
    def distinct(self) -> Bands:
        """Each rule once."""
        n_cells = self.low.shape[1]
        both = np.unique(np.hstack([self.low, self.high]), axis=0)
        return Bands(both[:, :n_cells], both[:, n_cells:])


@dataclass(frozen=True, eq=False)
class ScoreCells:
    """Weights of the selection data by stratum and value of the score; the values are numbered in order."""

    weights: Floats  # shape (S, V)
    # Shape (S,): number of the pair of thresholds of each stratum, such as one pair for each group.
    place: Ints

    @cached_property
    def below(self) -> Floats:
        """Weight below each value, shape (S, V + 1); the last entry is all the weight."""
        sums = self.weights.cumsum(axis=1)
        return np.hstack([np.zeros((len(sums), 1)), sums])

    @property
    def n_values(self) -> int:
        """V."""
        return self.weights.shape[1]

    @property
    def n_places(self) -> int:
        """Number m of pairs of thresholds."""
        return int(self.place.max()) + 1

    @property
    def every(self) -> Bands:
        """The V + 1 rules with one threshold for all places: from no first label to no second one."""
        values = np.arange(self.n_values + 1)[:, None]
        in_all_places = np.repeat(values, self.n_places, axis=1)
        return Bands(in_all_places, in_all_places)

    def answered(self, bands: Bands) -> Floats:
        """Return the weight of each stratum with each answer, shape (K, S, 3)."""
        strata = np.arange(len(self.place))
        below_low = self.below[strata, bands.low[:, self.place]]
        below_high = self.below[strata, bands.high[:, self.place]]
        above_high = self.below[:, -1] - below_high
        return np.stack([below_low, above_high, below_high - below_low], axis=2)

    def never(self, bands: Bands) -> Mask:
        """Return whether no row of a stratum can get an answer, whatever its value, shape (K, S, 3)."""
        low = bands.low[:, self.place]
        high = bands.high[:, self.place]
        return np.stack([low == 0, high == self.n_values, low == high], axis=2)


@dataclass(frozen=True, eq=False)
class JointPowerPath:
    """The path for limited families on the selection data.

    A price is a probability of the second label, from which on a rule gives this label.

    Attributes
    ----------
    cells : ScoreCells
        Weights by stratum and value: half the rows with their labels, half with expected ones.
    families : sequence of LimitedFamily
        The limits.
    losses : ndarray of shape (S, 3)
        The objective: the loss of each answer by stratum.
    chances : ndarray of shape (m, V)
        Probability of the second label by place and value, ascending in the value.
    ratio : float
        Fresh rows by selection rows.
    level : float
        Of each test.
    defers : bool
        Whether rows may be deferred.
    """

    cells: ScoreCells
    families: Sequence[LimitedFamily]
    losses: Floats
    chances: Floats
    ratio: float
    level: float
    defers: bool

    def path(self) -> tuple[Bands, Floats]:
        """Return the rules in the order of their tests, and for each rule the probit of passing all tests.

        The probits have shape (K,), one for each of K rules. Each rule has a smaller loss than the rule
        before, and is less likely to pass. Rules with one answer to all rows are left out, and rules no
        better than `constant_loss`.
        """
        bands = self.candidates()
        n_answers = 3 - self.cells.never(bands).all(axis=1).sum(axis=1)
        bands = bands[(n_answers > 1) & (self.loss(bands) < self.constant_loss)]
        if not len(bands.low):
            return bands, np.empty(0)

        probits = self.joint_probits(bands)
        loss = self.loss(bands)
        order: list[int] = []
        for step in JOINT_PROBITS:
            likely_rules = np.flatnonzero(probits >= min(step, probits.max()))
            best_rule = int(likely_rules[loss[likely_rules].argmin()])
            if not order or loss[best_rule] < loss[order[-1]]:
                order.append(best_rule)
        tested_order = np.array(order)
        return bands[tested_order], probits[tested_order]

    def loss(self, bands: Bands) -> Floats:
        """Return the loss of each rule on the selection data, shape (K,)."""
        return np.tensordot(self.cells.answered(bands), self.losses, axes=((1, 2), (0, 1)))

    @property
    def constant_loss(self) -> float:
        """The least loss of one label for all rows, if it keeps all limits by construction; else infinite.

        A rule with this loss or a larger one is useless, so it is no part of the path. With deferral the
        losses of one label say nothing.
        """
        if self.defers:
            return np.inf
        one_label = self.cells.every[np.array([0, -1])]
        is_kept = np.ones(2, dtype=bool)
        for family in self.families:
            is_kept &= self._kept_by_construction(family, one_label).all(axis=1)
        return float(self.loss(one_label)[is_kept].min(initial=np.inf))

    def _kept_by_construction(self, family: LimitedFamily, bands: Bands) -> Mask:
        """Return whether no row can break the limit on a rate, shape (K, m); of a comparison (K, 1).

        A comparison is kept if the rate is 0 in all subgroups, or 1 in all of them.
        """
        possible = np.logical_not(self.cells.never(bands)).astype(np.float64)
        possible_errors, possible_rows = family.counts(possible)
        has_no_error = possible_errors == 0.0
        if not family.limit.compares:
            return has_no_error
        is_always_counted = possible_errors == possible_rows
        is_kept = has_no_error.all(axis=1) | is_always_counted.all(axis=1)
        return is_kept[:, None]

    def joint_probits(self, bands: Bands) -> Floats:
        """Return the probit of the predicted probability of passing all tests, for each rule, shape (K,).

        Compared with the smallest probit of a limit, the error on new rows was lower by .014 ± .009 over 60
        calls on three tables with small groups (`benchmarks/several.py`).
        """
        parts = np.array_split(np.arange(len(bands.low)), len(bands.low) // RULES_AT_ONCE + 1)
        by_part = []
        for part in parts:
            by_family = [self.probits(family, bands[part]) for family in self.families]
            by_part.append(np.hstack(by_family))
        probits = np.vstack(by_part)  # by rule and tested rate
        # The probability 1 has no finite probit.
        log_product = np.minimum(log_ndtr(probits).sum(axis=1), -np.finfo(float).tiny)
        never_passes = (probits <= NEVER).any(axis=1)
        return np.where(never_passes, NEVER, ndtri_exp(log_product).clip(NEVER, ALWAYS))

    def probits(self, family: LimitedFamily, bands: Bands) -> Floats:
        """Return the probit of the predicted probability of passing the test of each rate, shape (K, m).

        m is the number of limited rates of the family. A gap or ratio has the smallest probit of all pairs of
        subgroups, shape (K, 1). The number of fresh rows of a rate has noise too, see `power_of_shares`.
        Otherwise a group of 17 rows gets a threshold as if its test had enough rows, and loses the attempt.
        """
        errors, rows = family.counts(self.cells.answered(bands))
        if family.limit.compares:
            smallest = least_probits_of_pairs(
                family.limit, errors, rows, self.ratio, self.level
            )
            return np.clip(smallest, NEVER, ALWAYS)[:, None]
        all_errors = errors.sum(axis=1, keepdims=True)
        all_rows = rows.sum(axis=1, keepdims=True)
        rates = (all_errors + 0.5) / (all_rows + 1.0)
        if len(family.largest_shares) > 1:
            rates = (errors + PRIOR * rates) / (rows + PRIOR)
        probits = np.empty(rows.shape)
        for j, share in enumerate(family.largest_shares.tolist()):
            power = power_of_shares(rates[:, j], rows[:, j], share, self.ratio, self.level)
            probits[:, j] = ndtri(power)
        is_kept = self._kept_by_construction(family, bands)
        return np.where(is_kept, ALWAYS, np.clip(probits, NEVER, ALWAYS))

    # -- candidates ----------------------------------------------------------------------------------

    def candidates(self) -> Bands:
        """Return the rules among which the path is searched, as the limits and deferral require.

        They are comparable rules for a gap or ratio, pairs of thresholds for deferral, and otherwise
        thresholds.
        """
        compares = any(family.limit.compares for family in self.families)
        if compares and self.defers:
            return self._comparable().joined(self._pairs())
        if compares:
            return self._comparable()
        if self.defers:
            return self._pairs()
        return self._thresholds()

    def _pairs(self) -> Bands:
        """Return rules with deferral: all combinations of loosest thresholds, a cap and a price.

        A restricted answer is given only if the other label has at most the cap as probability.
        The threshold of the other answer is at the price.
        """
        loosest = self._loosest()
        caps = np.append(np.linspace(0.02, 0.5, 13), 1.0)
        prices = self._cut(np.linspace(0.0, 1.0, 101))
        limits_first = any(family.restricts(FIRST).any() for family in self.families)
        limits_second = any(family.restricts(SECOND).any() for family in self.families)
        # The axes of all arrays below are: loosest thresholds, caps, prices, places.
        loosest_low = loosest.low[:, None, None]
        loosest_high = loosest.high[:, None, None]
        bands = []
        if limits_first or not limits_second:
            low = np.minimum(loosest_low, self._cut(caps)[None, :, None])
            bands.append(_flat(low, np.maximum(np.maximum(low, loosest_high), prices)))
        if limits_second:
            high = np.maximum(loosest_high, self._cut(1.0 - caps)[None, :, None])
            bands.append(_flat(np.minimum(np.minimum(high, loosest_low), prices), high))
        first, *others = bands
        return first.joined(*others).distinct

    def _thresholds(self) -> Bands:
        """Return rules with one threshold for each place.

        With one place they are all such rules. With several places, all places have the threshold of a common
        price, within the loosest thresholds.
        """
        if self.cells.n_places == 1:
            return self.cells.every
        thresholds = self._at_prices(np.linspace(0.0, 1.0, 201))
        return Bands(thresholds, thresholds).distinct

    def _at_prices(self, prices: Floats) -> Ints:
        """Return a threshold for each place at each price, within each of the loosest thresholds, (k, m)."""
        loosest = self._loosest()
        # Shape (loosest, prices, m).
        at_least = np.maximum(self._cut(prices)[None], loosest.high[:, None])
        within_loosest = np.minimum(at_least, loosest.low[:, None])
        return within_loosest.reshape(-1, self.cells.n_places)

    def _loosest(self) -> Bands:
        """Return the loosest thresholds of each place at each step of `JOINT_PROBITS`, as a rule by step.

        ``low`` has the largest first threshold and ``high`` the smallest second one with this probit. A limit
        counts if only one answer is restricted, and if its rows have one place. Equal rules are there once.
        """
        n_places = self.cells.n_places
        n_values = self.cells.n_values
        largest_first = np.full((len(JOINT_PROBITS), n_places), n_values)
        smallest_second = np.zeros((len(JOINT_PROBITS), n_places), dtype=np.intp)
        for family in self.families:
            if family.limit.compares:
                continue
            probits = self.probits(family, self.cells.every)
            limits_first = family.restricts(FIRST)
            limits_second = family.restricts(SECOND)
            for j, strata in enumerate(family.strata):
                places = np.unique(self.cells.place[strata])
                if len(places) != 1:
                    continue
                k = places[0]
                if limits_first[j]:
                    last = _last_passing(probits[:, j])
                    largest_first[:, k] = np.minimum(largest_first[:, k], last)
                if limits_second[j]:
                    first = n_values - _last_passing(probits[::-1, j])
                    smallest_second[:, k] = np.maximum(smallest_second[:, k], first)
        return Bands(largest_first, smallest_second).distinct

    def _comparable(self) -> Bands:
        """Return rules with one threshold for each place, with the compared shares in a common window.

        The rules with the same threshold in all places are among them, also for a limit without windows. On
        eight tables, rules with windows were certified in 8 of 16 calls for a ratio of selection rates and a
        precision, and in 2 without.
        """
        # Of a common price; the windows move them as little as possible. Within a window, thresholds of a
        # common price have the least errors with so many misses of all groups together, or so many alarms.
        wished = np.unique(self._at_prices(PRICES_WITHIN), axis=0)
        thresholds = [self.cells.every.low]
        for family in self.families:
            if not family.limit.compares:
                continue
            shares = self._shares(family)
            if shares is not None:
                thresholds.append(self._within_windows(family.limit, shares, wished))
        values = np.unique(np.vstack(thresholds), axis=0)
        return Bands(values, values)

    def _within_windows(self, limit: Limit, shares: Floats, wished: Ints) -> Ints:
        """Return the thresholds nearest to wished ones with all shares in a window allowed by a limit.

        A window is a range of shares. There are 101 largest shares, and for each of them smallest shares by
        tenths of the allowed difference.

        Parameters
        ----------
        limit : Limit
            A gap or ratio.
        shares : ndarray of shape (m, V + 1)
            From `_shares`: by place and threshold.
        wished : ndarray of shape (k, m)
            Thresholds.

        Returns
        -------
        ndarray of shape (k · windows, m)
        """
        m = self.cells.n_places
        largest_shares = np.linspace(0.0, 1.0, 101)
        parts = np.linspace(0.0, 1.0, 11)
        largest = np.repeat(largest_shares, len(parts))
        part = np.tile(parts, len(largest_shares))
        factor, gap = limit.pair
        smallest = largest - part * ((1.0 - factor) * largest + gap)
        wished_shares = shares[np.arange(m), wished]
        # Shape (k, windows, m): the wished shares, moved into each window.
        wanted = np.clip(wished_shares[:, None], smallest[:, None], largest[:, None])
        thresholds = np.empty((len(wished) * len(largest), m), dtype=np.intp)
        for place, wanted_shares in enumerate(wanted.reshape(-1, m).T):
            by_threshold = shares[place]
            if by_threshold[-1] >= by_threshold[0]:
                first = np.searchsorted(by_threshold, wanted_shares)
            else:  # the share falls with the threshold; the tolerance is for rounding
                first = np.searchsorted(-by_threshold, -wanted_shares - 1e-12)
            thresholds[:, place] = np.minimum(first, self.cells.n_values)
        return thresholds

    def _shares(self, family: LimitedFamily) -> Floats | None:
        """Return the compared rate of the subgroup at each place, by threshold, shape (m, V + 1).

        The rate is 0 at a place without a compared subgroup. The result is None if a compared subgroup has
        several places, or a place has several compared subgroups.
        """
        n_places = self.cells.n_places
        # Answers of the rules with one threshold at all places, for each of the V + 1 thresholds.
        answers = self.cells.answered(self.cells.every)
        # Numbers by threshold and subgroup, shape (V + 1, subgroups).
        n_counted, n_rows = family.counts(answers)
        shares = np.zeros((n_places, self.cells.n_values + 1))
        has_share = np.zeros(n_places, dtype=bool)
        for subgroup, strata in enumerate(family.strata):
            places = np.unique(self.cells.place[strata])
            if len(places) != 1:
                return None
            place = places[0]
            if has_share[place]:
                return None
            has_share[place] = True
            without_rows = n_rows[:, subgroup] == 0  # the numerator is 0 too
            shares[place] = n_counted[:, subgroup] / np.where(
                without_rows, 1.0, n_rows[:, subgroup]
            )
        return shares

    def _cut(self, prices: Floats) -> Ints:
        """Return the number of the first value with a chance of at least a price, shape (prices, m)."""
        return np.stack([np.searchsorted(row, prices) for row in self.chances], axis=1)


def _flat(low: Ints, high: Ints) -> Bands:
    """Return the rules of thresholds with shapes (..., m), broadcast against each other."""
    lows, highs = np.broadcast_arrays(low, high)
    m = lows.shape[-1]
    return Bands(lows.reshape(-1, m), highs.reshape(-1, m))


def _last_passing(probits: Floats) -> Ints:
    """Return the last value whose probit reaches a step, for each step of `JOINT_PROBITS`; without one 0.

    ``probits`` has the probit of each value as threshold, shape (V + 1,). Values before it may have smaller
    probits: a precision of few rows passes no test.
    """
    reaches = probits >= JOINT_PROBITS[:, None]
    from_the_end = np.argmax(reaches[:, ::-1], axis=1)
    return np.where(reaches.any(axis=1), len(probits) - 1 - from_the_end, 0)
