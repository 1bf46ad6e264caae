"""The estimated chance that new rows certify limits on thresholds, from all rows of a refused attempt."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from tailboost.core.array_types import Floats
from tailboost.guarantees.certifiable import Pair
from tailboost.guarantees.fresh_rows import FreshRows
from tailboost.guarantees.limited_rates import limited_names, power_of_shares
from tailboost.guarantees.procedure import scored_fresh, scored_selection
from tailboost.guarantees.thresholds import PRIOR_ROWS, TINY, LimitedRate, limited_rates
from tailboost.rates import Limit, Strata
from tailboost.selection.data import ThresholdFamily, possible_thresholds, sums_of_answers

# Thresholds of a group at which rates are estimated, evenly among its rows.
MOST_THRESHOLDS = 150


@dataclass(frozen=True, eq=False)
class PooledRate:
    """A limited rate of one subgroup on all rows of an attempt, at each of k thresholds of its group.

    Attributes
    ----------
    limit, name : int, object
        Number of the limit, and the subgroup.
    place : int
        Number of the threshold.
    shares : ndarray of shape (k,)
        Shares of errors, joined with a prior of `PRIOR_ROWS` rows at the share that the model expects.
    rows : ndarray of shape (k,)
        Numbers of rows in the denominator.
    kept_by_answer : (bool, bool)
        Whether no row with this answer is an error.
    """

    limit: int
    name: Any
    place: int
    shares: Floats
    rows: Floats
    kept_by_answer: tuple[bool, bool]


@dataclass(frozen=True, eq=False)
class Chances:
    """The limited rates by threshold, on the selecting and certifying rows of a refused attempt together.

    Attributes
    ----------
    rates : list of PooledRate
        The limited rates.
    n_places : int
        Number m of thresholds.
    n_selecting, n_fresh : int
        Numbers of selecting and of certifying rows.
    """

    rates: list[PooledRate]
    n_places: int
    n_selecting: int
    n_fresh: int

    @classmethod
    def from_rows(
        cls, selection: Any, family: ThresholdFamily, fresh: FreshRows, limits: Sequence[Limit]
    ) -> Self | None:
        """Return the rates of limits that depend on one threshold of the family each.

        None if the selecting rows lack a limited subgroup, so its rate is unknown.
        """
        certifying = scored_fresh(selection, family, fresh)
        selecting, data = scored_selection(selection, family, fresh, expected=True)
        thresholds = []
        for place in range(family.n_thresholds):
            parts = [rows.scores[rows.part(place)] for rows in (selecting, certifying)]
            possible, _ = possible_thresholds(np.concatenate(parts))
            evenly = np.linspace(0, len(possible) - 1, min(len(possible), MOST_THRESHOLDS))
            thresholds.append(possible[evenly.round().astype(np.intp)])

        pooled = []
        for number, limit in enumerate(limits):
            of_fresh = _limited_by_name(limit, fresh.answered.strata, fresh.answered.stratum)
            of_selecting = _limited_by_name(
                limit, data.strata, data.stratum, data.probabilities
            )
            if of_fresh.keys() != of_selecting.keys():
                return None
            for name, rate in of_fresh.items():
                place = int(certifying.place[rate.rows[0]])
                on_both = [(of_selecting[name], selecting.scores), (rate, certifying.scores)]
                shares, rows = _shares_on(on_both, thresholds[place])
                pooled.append(
                    PooledRate(number, name, place, shares, rows, rate.kept_by_answer)
                )
        return cls(pooled, family.n_thresholds, len(selecting.scores), len(fresh))

    def chance(self, limits: Sequence[Limit], growth: float, level: float) -> float:
        """Return the chance that all limits are certified; see `powers`."""
        return float(np.prod(list(self.powers(limits, growth, level).values())))

    def powers(self, limits: Sequence[Limit], growth: float, level: float) -> dict[Pair, float]:
        """Return the chance that each rate passes its test, at the likeliest threshold of its group.

        The rates of the present rows are estimates, and new rows select again. So a test has the noise of the
        present rows, of the new selecting ones and of the new certifying ones. Without the first noise, 42 of
        56 numbers of rows with a chance of .9 were certified on new rows, and 47 of 54 with it. The chance is
        1 without a limit, and in a group with one answer that keeps its limits by construction.

        Parameters
        ----------
        limits : sequence of Limit
            The limits, of which some subgroups may have other bounds or none.
        growth : float
            Number of new rows by the number of present ones.
        level : float
            Of the attempt.

        Returns
        -------
        dict of (int, object) to float
            By number of the limit and subgroup.
        """
        shares = np.full(len(self.rates), np.nan)
        for number, limit in enumerate(limits):
            of_limit = [k for k, rate in enumerate(self.rates) if rate.limit == number]
            names = [self.rates[k].name for k in of_limit]
            shares[of_limit] = limit.against(limit.bounds(names))
        limited = [
            [k for k, rate in enumerate(self.rates) if rate.place == place and shares[k] >= 0.0]
            for place in range(self.n_places)
        ]
        must_pass = [self._must_pass([self.rates[k] for k in of_place]) for of_place in limited]
        # The other limited groups have a part of the level too.
        level_of_tests = level * sum(must_pass) / max(1, sum(map(bool, limited)))
        known = self.n_selecting + self.n_fresh
        certifying = growth * self.n_fresh
        ratio = certifying / known + self.n_fresh / self.n_selecting
        # Rows that would have alone the noise of the present and of the new selecting ones.
        alone_by_known = certifying / known / ratio

        powers = np.ones(len(self.rates))
        for of_place, is_tested in zip(limited, must_pass, strict=True):
            if not is_tested:
                continue
            by_threshold = [
                power_of_shares(
                    self.rates[k].shares,
                    self.rates[k].rows * alone_by_known,
                    float(shares[k]),
                    ratio,
                    level_of_tests,
                )
                for k in of_place
            ]
            likeliest = np.prod(by_threshold, axis=0).argmax()
            powers[of_place] = np.array(by_threshold)[:, likeliest]
        pairs = [(rate.limit, rate.name) for rate in self.rates]
        return dict(zip(pairs, powers.tolist(), strict=True))

    @property
    def all_must_pass(self) -> bool:
        """Whether a certificate needs a passing threshold in each limited group."""
        by_place = [
            [rate for rate in self.rates if rate.place == place]
            for place in range(self.n_places)
        ]
        return all(self._must_pass(rates) for rates in by_place if rates)

    def _must_pass(self, rates: Sequence[PooledRate]) -> bool:
        """Return whether the limited rates of a group need a test: no answer to all rows keeps them all."""
        if self.n_places == 1 or not rates:
            return bool(rates)
        return not any(all(rate.kept_by_answer[answer] for rate in rates) for answer in (0, 1))


def _limited_by_name(limit: Limit, strata: Strata, *rows: Any) -> dict[Any, LimitedRate]:
    """Return the limited rates by subgroup; ``rows`` are further arguments of `limited_rates`."""
    rates = limited_rates(limit, strata, *rows)
    return dict(zip(limited_names(limit, strata), rates, strict=True))


def _shares_on(
    parts: Sequence[tuple[LimitedRate, Floats]], thresholds: Floats
) -> tuple[Floats, Floats]:
    """Return the shares of errors and the numbers of rows on two parts of the rows, at each threshold.

    The selecting rows are first: the model's expectations on them have `PRIOR_ROWS` rows. Each part has the
    scores of all its rows.
    """
    counts = [rate.errors(scores, thresholds) for rate, scores in parts]
    errors, rows = np.sum(counts, axis=0)
    rate, scores = parts[0]
    assert rate.expected is not None
    own_scores = scores[rate.rows]
    expected_wrong, expected_among = (
        sums_of_answers(own_scores, values, thresholds) for values in rate.expected
    )
    expected_share = expected_wrong / np.maximum(expected_among, TINY)
    return (errors + PRIOR_ROWS * expected_share) / (rows + PRIOR_ROWS), rows
