"""A path of rules on one score by the predicted probability that a rule passes all tests.

A rule has two thresholds for each group, or for all rows: below the first the answer is the first label, from
the second on it is the second label, and between them a human decides. For a rule r and a limit j, let z_j(r)
be the probit of the predicted probability that r passes the exact test of limit j on the fresh rows, with the
noise of the selection data and of the fresh rows. It is infinite if the limit is kept by construction, as a
limit on misses where nobody gets the other answer. For z from high to low, the path has the rule of least
loss among those with Π_j Φ(z_j(r)) ≥ Φ(z). The product is the probability that all tests are passed, if they
are independent. So the risk is taken where it lowers the loss most, and a limit that costs little keeps its
distance.

The path is a function of the selection data alone. Each rule in turn is tested for all limits, each at the
whole level, up to the first failure; the last rule that passed is certified. It breaks a limit with a
probability of at most the level: the first rule of the path that breaks a limit must have passed the test of
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
from scipy.special import log_ndtr, ndtri_exp

from tailboost.core.array_types import Floats, Ints, Mask
from tailboost.guarantees.limited_rates import (
    LimitedFamily,
    probits_of_counts,
    probits_of_rooms,
)
from tailboost.rates import GAP, Limit
from tailboost.rates.bounds import each_most_reached

# Probits of the predicted probability that all limits pass, along the path.
JOINT_PROBITS = np.arange(3.5, -1.31, -0.15)
# Probits of a limit that is kept by construction, and of one that no count of the fresh rows passes.
ALWAYS, NEVER = 9.0, -9.0
# Rows at the rate of all subgroups, by which the rows of a subgroup are joined: otherwise nothing is tried
# in a group with few rows here and enough fresh ones.
PRIOR = 3.0
# Prices at quantiles of the chances.
QUANTILES = 81
# Rules whose gaps are compared at once: of 40 groups each has 1,600.
RULES_AT_ONCE = 4_096
FIRST, SECOND, DEFERRED = 0, 1, 2


@dataclass(frozen=True, eq=False)
class Bands:
    """Rules by the numbers of the first values in their middle and in their upper range, (K, m) each."""

    low: Ints
    high: Ints

    def __getitem__(self, which: Ints | Mask) -> Bands:
        return Bands(self.low[which], self.high[which])

    def joined(self, other: Bands) -> Bands:
        """Return these rules and others."""
        return Bands(np.vstack([self.low, other.low]), np.vstack([self.high, other.high]))

    @property
    def distinct(self) -> Bands:
        """Each rule once."""
        m = self.low.shape[1]
        both = np.unique(np.hstack([self.low, self.high]), axis=0)
        return Bands(both[:, :m], both[:, m:])


@dataclass(frozen=True, eq=False)
class Cells:
    """Weights of the selection data by stratum and value of the score."""

    weights: Floats  # shape (S, V)
    place: Ints  # shape (S,): number of the pair of thresholds of each stratum

    @cached_property
    def below(self) -> Floats:
        """Weight below each value, shape (S, V + 1)."""
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
        """Each value as the only threshold of all places."""
        values = np.repeat(np.arange(self.n_values + 1)[:, None], self.n_places, axis=1)
        return Bands(values, values)

    def answered(self, bands: Bands) -> Floats:
        """Return the weight of each stratum with each answer, shape (K, S, 3)."""
        strata = np.arange(len(self.place))
        lower = self.below[strata, bands.low[:, self.place]]
        upper = self.below[strata, bands.high[:, self.place]]
        return np.stack([lower, self.below[:, -1] - upper, upper - lower], axis=2)

    def never(self, bands: Bands) -> Mask:
        """Return whether no row of a stratum can get an answer, shape (K, S, 3)."""
        low = bands.low[:, self.place]
        high = bands.high[:, self.place]
        return np.stack([low == 0, high == self.n_values, low == high], axis=2)


@dataclass(frozen=True, eq=False)
class JointPowerPath:
    """The path for limited families on the selection data.

    Attributes
    ----------
    cells : Cells
        Weights by stratum and value: half the rows with their labels, half with expected ones.
    families : sequence of LimitedFamily
        The limits.
    losses : ndarray of shape (S, 3)
        The objective: the loss of each answer by stratum.
    chances : ndarray of shape (m, V)
        Probability of the second label by thresholds and value, ascending in the value.
    ratio : float
        Fresh rows by selection rows.
    level : float
        Of each test.
    defers : bool
        Whether rows may be deferred.
    """

    cells: Cells
    families: Sequence[LimitedFamily]
    losses: Floats
    chances: Floats
    ratio: float
    level: float
    defers: bool

    def path(self) -> tuple[Bands, Floats]:
        """Return the rules in the order of their tests, and the probit that each passes all of them.

        None gives all rows one answer, or is no better than one that keeps the limits by construction.
        """
        bands = self.candidates()
        n_answers = 3 - self.cells.never(bands).all(axis=1).sum(axis=1)
        is_better = self.loss(bands) < self.loss_of_one_answer
        bands = bands[(n_answers > 1) & is_better]
        if not len(bands.low):
            return bands, np.empty(0)
        probits = self.of_all(bands)
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
    def loss_of_one_answer(self) -> float:
        """The least loss of one answer to all rows that keeps all limits by construction; else infinite.

        In a comparison of misses, for example, all groups miss all rows, or none.
        """
        one_answer = self.cells.every[np.array([0, -1])]
        possible = np.logical_not(self.cells.never(one_answer)).astype(np.float64)
        keeps_all = np.ones(2, dtype=bool)
        for family in self.families:
            errors, rows = family.counts(possible)
            keeps = (errors == 0.0).all(axis=1)
            if family.limit.compares:
                keeps |= (errors == rows).all(axis=1)
            keeps_all &= keeps
        return float(np.where(keeps_all, self.loss(one_answer), np.inf).min())

    def of_all(self, bands: Bands) -> Floats:
        """Return the probit of the predicted probability that all limits pass, for each rule, shape (K,).

        Beside the smallest probit, the error on new rows was lower by .014 ± .009 over 60 calls on three
        tables with small groups (`benchmarks/several.py`).
        """
        parts = np.array_split(np.arange(len(bands.low)), len(bands.low) // RULES_AT_ONCE + 1)
        probits_by_limit = np.vstack(
            [
                np.hstack([self.probits(family, bands[part]) for family in self.families])
                for part in parts
            ]
        )
        probits_of_product = ndtri_exp(
            np.minimum(log_ndtr(probits_by_limit).sum(axis=1), -np.finfo(float).tiny)
        )
        probits: Floats = np.where(
            (probits_by_limit <= NEVER).any(axis=1),
            NEVER,
            probits_of_product.clip(NEVER, ALWAYS),
        )
        return probits

    def probits(self, family: LimitedFamily, bands: Bands) -> Floats:
        """Return the probit of the predicted probability that a rule passes the test of each rate, (K, m).

        A gap or ratio has the smallest one of all pairs of subgroups, shape (K, 1).
        """
        errors, rows = family.counts(self.cells.answered(bands))
        if family.limit.compares:
            return self._probits_to_compare(family.limit, errors, rows)
        possible = np.logical_not(self.cells.never(bands)).astype(np.float64)
        kept_by_construction = family.counts(possible)[0] == 0.0
        n_fresh = (self.ratio * rows).astype(np.intp)
        allowed = np.empty(n_fresh.shape)
        for j, share in enumerate(family.largest_shares.tolist()):
            sizes, size_number = np.unique(n_fresh[:, j], return_inverse=True)
            allowed[:, j] = each_most_reached(sizes, share, self.level)[size_number]
        all_errors = errors.sum(axis=1, keepdims=True)
        all_rows = rows.sum(axis=1, keepdims=True)
        rates = (all_errors + 0.5) / (all_rows + 1.0)
        if len(family.largest_shares) > 1:
            rates = (errors + PRIOR * rates) / (rows + PRIOR)
        probits = probits_of_counts(rates, n_fresh, allowed, self.ratio)
        return np.where(kept_by_construction, ALWAYS, np.clip(probits, NEVER, ALWAYS))

    def _probits_to_compare(self, limit: Limit, errors: Floats, rows: Floats) -> Floats:
        """Return the smallest probit of all pairs of subgroups, shape (K, 1), from counts of shape (K, m)."""
        rates = (errors + 0.5) / (rows + 1.0)
        variances = rates * (1.0 - rates) / np.maximum(rows, 1.0)
        rooms = limit.rooms(rates, rates)
        probits = probits_of_rooms(rooms, limit.deviations(variances), self.ratio, self.level)
        probits[:, np.eye(rates.shape[1], dtype=bool)] = ALWAYS
        smallest = np.clip(probits.min(axis=(1, 2)), NEVER, ALWAYS)
        return smallest[:, None]

    # -- candidates ----------------------------------------------------------------------------------

    def candidates(self) -> Bands:
        """Return thresholds as loose as each probit allows, and at prices."""
        compares = any(family.limit.compares for family in self.families)
        if compares and self.defers:
            return self._comparable().joined(self._pairs())
        if compares:
            return self._comparable()
        if self.defers:
            return self._pairs()
        return self._thresholds()

    def _pairs(self) -> Bands:
        """Return two thresholds for each place, by the share that may be deferred and by prices.

        An answer that a limit restricts is given where the other label has at most a cap as probability.
        """
        loosest = self._loosest()
        rows = np.zeros(self.chances.shape)
        np.add.at(rows, self.cells.place, self.cells.weights)
        quantiles = np.quantile(
            np.repeat(self.chances.ravel(), np.ceil(rows).astype(np.intp).ravel()),
            np.linspace(0.0, 1.0, QUANTILES),
            method="nearest",
        )
        caps = np.append(np.linspace(0.02, 0.5, 13), 1.0)
        prices = self._cut(np.unique(np.append(np.linspace(0.0, 1.0, 101), quantiles)))
        # All combinations of a loosest pair, a cap on the limited answer's threshold and a price of
        # the other one: shape (loosest, caps, prices, m).
        m = self.cells.n_places
        bands = Bands(np.empty((0, m), dtype=np.intp), np.empty((0, m), dtype=np.intp))
        limits_second = any(family.restricts(SECOND).any() for family in self.families)
        if any(family.restricts(FIRST).any() for family in self.families) or not limits_second:
            low = np.minimum(loosest.low[:, None], self._cut(caps)[None])[:, :, None]
            high = np.maximum(np.maximum(low, loosest.high[:, None, None]), prices[None, None])
            bands = bands.joined(
                Bands(np.broadcast_to(low, high.shape).reshape(-1, m), high.reshape(-1, m))
            )
        if limits_second:
            high = np.maximum(loosest.high[:, None], self._cut(1.0 - caps)[None])[:, :, None]
            low = np.minimum(np.minimum(high, loosest.low[:, None, None]), prices[None, None])
            bands = bands.joined(
                Bands(low.reshape(-1, m), np.broadcast_to(high, low.shape).reshape(-1, m))
            )
        return bands.distinct

    def _thresholds(self) -> Bands:
        """Return one threshold for each place: all of them, or prices within the loosest ones."""
        if self.cells.n_places == 1:
            return self.cells.every
        thresholds = self._at_prices(np.linspace(0.0, 1.0, 201))
        return Bands(thresholds, thresholds).distinct

    def _at_prices(self, prices: Floats) -> Ints:
        """Return one threshold for each place at each price, within the loosest ones, shape (k, m)."""
        loosest = self._loosest()
        at_prices = np.maximum(self._cut(prices)[None], loosest.high[:, None])
        within_loosest = np.minimum(at_prices, loosest.low[:, None])
        return within_loosest.reshape(-1, self.cells.n_places)

    def _loosest(self) -> Bands:
        """Return the largest first and the smallest second threshold by step and place.

        They have the probit of the step in all limits on one answer, whose rows have these thresholds alone.
        """
        m = self.cells.n_places
        V = self.cells.n_values
        largest_first = np.full((len(JOINT_PROBITS), m), V)
        smallest_second = np.zeros((len(JOINT_PROBITS), m), dtype=np.intp)
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
                    first = V - _last_passing(probits[::-1, j])
                    smallest_second[:, k] = np.maximum(smallest_second[:, k], first)
        return Bands(largest_first, smallest_second).distinct

    def _comparable(self) -> Bands:
        """Return one threshold for each place, at which the compared shares are in a common window.

        Without a window for a limit there are still the rules with the same threshold in all places.
        """
        wished = np.unique(self._at_prices(np.array([0.3, 0.4, 0.5])), axis=0)
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
        """Return the thresholds nearest to wished ones with all shares in a window that a limit allows.

        Windows have 101 largest shares, and smallest shares by tenths of the allowed difference.

        Parameters
        ----------
        limit : Limit
            A gap or ratio.
        shares : ndarray of shape (m, V + 1)
            From `_shares`: by place and threshold.
        wished : ndarray of shape (k, m)
            Thresholds.
        """
        m = self.cells.n_places
        largest_shares = np.linspace(0.0, 1.0, 101)
        parts = np.linspace(0.0, 1.0, 11)
        largest = np.repeat(largest_shares, len(parts))
        part = np.tile(parts, len(largest_shares))
        factor, gap = limit.pair
        if limit.form == GAP:
            smallest = largest - part * gap
        else:
            smallest = largest * (1.0 - part * (1.0 - factor))
        wished_shares = shares[np.arange(m), wished]
        wanted = np.clip(wished_shares[:, None], smallest[:, None], largest[:, None])
        thresholds = np.empty((len(wished) * len(largest), m), dtype=np.intp)
        for place, wanted_shares in enumerate(wanted.reshape(-1, m).T):
            by_threshold = shares[place]
            if by_threshold[-1] >= by_threshold[0]:
                first = np.searchsorted(by_threshold, wanted_shares)
            else:
                first = np.searchsorted(-by_threshold, -wanted_shares - 1e-12)
            thresholds[:, place] = np.minimum(first, self.cells.n_values)
        return thresholds

    def _shares(self, family: LimitedFamily) -> Floats | None:
        """Return the compared share of each place at each threshold, (m, V + 1); None if places share it."""
        m = self.cells.n_places
        errors, rows = family.counts(self.cells.answered(self.cells.every))
        shares = np.zeros((m, self.cells.n_values + 1))
        has_share = np.zeros(m, dtype=bool)
        for j, strata in enumerate(family.strata):
            place = np.unique(self.cells.place[strata])
            if len(place) != 1 or has_share[place[0]]:
                return None
            has_share[place[0]] = True
            shares[place[0]] = errors[:, j] / np.maximum(rows[:, j], 1e-12)
        return shares

    def _cut(self, prices: Floats) -> Ints:
        """Return the first value whose chance is at least a price, shape (prices, m)."""
        return np.stack([np.searchsorted(row, prices) for row in self.chances], axis=1)


def _last_passing(probits: Floats) -> Ints:
    """Return the last value up to which all probits reach a step of `JOINT_PROBITS`; 0 if none does."""
    smallest_so_far = np.minimum.accumulate(probits)
    return np.maximum((smallest_so_far >= JOINT_PROBITS[:, None]).sum(axis=1) - 1, 0)
