"""The path: rules from much tighter limits to the stated ones, tested up to the first failure.

All limits are tightened to the same predicted power: for a probit z, to the largest rate at which the test
of the fresh rows passes with the probability Φ(z), with the noise of both tables. The order of the rules is
fixed before the fresh rows are read, and each is tested at the whole level. The last rule before the first
failure is certified: if it breaks a limit, then the first rule of the sequence that breaks one was rejected,
which has at most the probability of the level ([1]_).

References
----------
.. [1] A. N. Angelopoulos, S. Bates, E. J. Candès, M. I. Jordan and L. Lei, "Learn then Test: Calibrating
   Predictive Algorithms to Achieve Risk Control", Annals of Applied Statistics 19, 2025.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import prod
from typing import Any

import numpy as np
from scipy.special import ndtr, ndtri

from tailboost.core.long_work import steps
from tailboost.guarantees.limited_rates import (
    least_probits_of_pairs,
    power_of_shares,
    probits_of_rooms,
)
from tailboost.guarantees.procedure import Certified, Procedure, Refused
from tailboost.guarantees.rate_bounds import RateFamily, limit_bounds, with_kept
from tailboost.guarantees.score_path import WORTHWHILE
from tailboost.rates import InfeasibleLimitsError, Limit
from tailboost.rates.bounds import most_reached
from tailboost.selection.problem import NORMAL_975

# Probits of the predicted probability of passing the test of each limit, along the path. With every second
# one the error of 32 calls was higher in six and lower in none, and 22 instead of 24 were certified
# (benchmarks/ablations.py).
PATH_PROBITS = np.arange(3.5, -1.31, -0.6)


class Path(Procedure):
    """Tests of the rules from tight limits to the stated ones; applies to all limits."""

    title = "fixed sequence"
    takes_long = True
    applies = True

    @property
    def tests_pairs(self) -> bool:
        """Whether each gap or ratio has the exact test: rules that draw have other bounds."""
        return True

    def run(self) -> Certified | Refused:
        """Return the last rule before the first failure; a refusal if the first rule fails."""
        last_passed = None
        with steps("tested rules", len(self.rules)) as done:
            for selection in self.rules:
                answered = self.fresh.by(selection)
                families = [
                    RateFamily.from_expression(limit, answered) for limit in self.limits
                ]
                bounds = with_kept(limit_bounds(families, self.level), answered)
                if any(bound.certified is False for bound in bounds):
                    break
                last_passed = selection
                done()
        if last_passed is None:
            return Refused(answered, "the safest rule", why="")

        within = "; ".join(map(str, last_passed.problem.limits))
        made = (
            "The rule is the least restricted one of a sequence fixed before these rows were "
            f"used. All of them were tested for each rule. It was selected within {within}."
        )
        return Certified(last_passed, self.title, made)

    @property
    def out_of_reach(self) -> bool:
        """Whether each rule of the sequence has a limit that it is predicted to miss almost surely."""
        return max(map(self.tighter_rules.least_power, self.rules)) < ndtr(WORTHWHILE)

    @cached_property
    def rules(self) -> list[Any]:
        """The selections in the order of their tests; of the fresh rows only their number is read."""
        return self.tighter_rules.from_the_likeliest()

    @cached_property
    def tighter_rules(self) -> TighterRules:
        """The rules within tighter limits than the stated ones."""
        n_fresh = [len(self.fresh)] * len(self.limits)
        return TighterRules.from_selection(self.selection, n_fresh, self.level)


@dataclass(frozen=True, eq=False)
class TighterRules:
    """Rules within tighter limits than the stated ones, all with the same predicted power.

    Only the selection data are read.

    Attributes
    ----------
    plain : Selection
        Within the stated limits, without a margin for ``confidence``: the path has other margins.
    ratios : sequence of float
        Fresh rows by selection rows, of each limit.
    level : float
        Of each test.
    """

    plain: Any
    ratios: Sequence[float]
    level: float

    @classmethod
    def from_selection(
        cls, selection: Any, n_fresh: Sequence[int], level: float
    ) -> TighterRules:
        """Return the rules within the limits of a selection.

        ``n_fresh`` has the number of fresh rows of each limit, and ``level`` is the level of each test.
        """
        plain = selection.within(selection.problem.limits)
        return cls(plain, [n / plain.n_rows for n in n_fresh], level)

    @property
    def limits(self) -> Sequence[Limit]:
        """The stated limits."""
        return self.plain.problem.limits

    def from_the_likeliest(self) -> list[Any]:
        """Return the selections from the strictest with the greatest predicted power to the loosest.

        The tightest limits need not give the likeliest certificate: a precision close to 1 rests on few rows.
        The last rule is the one within the stated limits.
        """
        rules = []
        with steps("tightened rules", len(PATH_PROBITS)) as done:
            for probit in PATH_PROBITS.tolist():
                selection = self.within(probit)
                if selection is not None:
                    rules.append(selection)
                done()
        rules.append(self.plain)
        likeliest = int(np.argmax([self.power(rule) for rule in rules]))
        return rules[likeliest:]

    def within(self, probit: float) -> Any:
        """Return the selection within tighter limits: each passes its test with probability Φ(probit).

        None if these limits contradict each other.
        """
        tighter = []
        for limit, ratio in zip(self.limits, self.ratios, strict=True):
            widths = {
                line.subgroup: self.width(line, limit, ratio, probit)
                for line in self.plain.estimates
                if line.limit == str(limit)
            }
            tighter.append(limit.tightened(widths) if widths else limit)
        try:
            return self.plain.within(tighter)
        except InfeasibleLimitsError:
            return None

    def width(self, line: Any, limit: Limit, ratio: float, probit: float) -> float:
        """Return the width by which the bound of one subgroup is tightened, at least 0.

        Parameters
        ----------
        line : RateLine
            The rate of the subgroup on the selection data, with its bound in ``limit``.
        limit : Limit
            The stated limit.
        ratio : float
            Fresh rows by selection rows.
        probit : float
            Of the probability of passing the test, with the noise of both tables.
        """
        bound = float(line.bound)
        has_counts = limit.rate.is_share and not limit.compares and line.rows > 0
        if has_counts and 0 <= bound <= 1:
            allowed = limit.against(bound)
            tightened = largest_rate(line.rows, allowed, ratio, self.level, probit)
            return max(0.0, allowed - tightened)
        deviation = _deviation(line)
        on_fresh = deviation / np.sqrt(ratio)
        margin_of_test = -ndtri(self.level) * on_fresh
        width = probit * np.hypot(deviation, on_fresh) + margin_of_test
        return max(0.0, float(np.nan_to_num(width)))  # 0 without an interval, which gives NaN

    # -- predicted power -----------------------------------------------------------------------------

    def power(self, selection: Any) -> float:
        """Return the predicted probability of all certificates from fresh rows, as if they were independent.

        ``selection`` is within tighter limits; the tests are about the stated ones.
        """
        return prod(power for power, _ in self.powers(selection))

    def least_power(self, selection: Any) -> float:
        """Return the smallest predicted probability of a certificate of one rate, at most 1.

        Rates of which no row may count against the limit are passed over: they may be kept by construction.
        """
        powers = (power for power, is_counted in self.powers(selection) if is_counted)
        return min(powers, default=1.0)

    def powers(self, selection: Any) -> Iterator[tuple[float, bool]]:
        """Yield the predicted probability of certifying each rate, and whether a row may count against it."""
        lines = {(line.rate, line.subgroup, line.sense): line for line in selection.estimates}
        for limit, ratio in zip(self.limits, self.ratios, strict=True):
            for stated in self.plain.estimates:
                line = lines.get((stated.rate, stated.subgroup, stated.sense))
                if stated.limit != str(limit) or line is None or np.isnan(stated.bound):
                    continue
                if limit.compares:
                    rate_lines = [
                        other
                        for other in selection.estimates
                        if other.rate == line.rate and other.subgroup != limit.form
                    ]
                    power = predicted_power_to_compare(rate_lines, limit, ratio, self.level)
                    yield power, _any_may_differ(rate_lines)
                else:
                    power = predicted_power(line, float(stated.bound), limit, ratio, self.level)
                    yield power, _counts_against(line, limit)


def _any_may_differ(rate_lines: Sequence[Any]) -> bool:
    """Return whether rates of subgroups differ, or have counted and other rows, so that they may differ."""
    values = np.array([line.value for line in rate_lines])
    return bool(np.ptp(values) > 0.0 or ((values > 0.0) & (values < 1.0)).all())


def _counts_against(line: Any, limit: Limit) -> bool:
    """Return whether a row counts against a limit, or may count; False for a rate without rows.

    Of a precision each row with the answer may count: 3 right answers of 3 are luck, and no construction.
    """
    if limit.rate.is_share and limit.rate.is_ratio:
        return bool(line.rows > 0)
    if limit.rate.is_share:
        return bool(limit.against(line.value) > 0.0)
    return bool(line.high > line.low)


def _deviation(line: Any) -> Any:
    """Return the standard deviation of a rate on the selection data, from the longer side of its interval."""
    longer_side = max(line.high - line.value, line.value - line.low)
    return longer_side / NORMAL_975


def predicted_power(line: Any, bound: float, limit: Limit, ratio: float, level: float) -> float:
    """Return the predicted probability of passing the test of one rate, with the noise of both tables.

    Without rows, or without a known deviation, the result is 0.

    Parameters
    ----------
    line : RateLine
        The rate on the selection data.
    bound : float
        Its bound in the limit.
    limit : Limit
        The tested limit.
    ratio : float
        Fresh rows by selection rows.
    level : float
        Of the test.
    """
    if np.isnan(line.value) or not line.rows > 0:
        return 0.0
    if limit.rate.is_share:
        n = np.array([line.rows])
        share = (limit.against(line.value) * n + 0.5) / (n + 1.0)  # not 0 without errors
        return float(power_of_shares(share, n, limit.against(bound), ratio, level)[0])
    room = limit.sign * (bound - line.value)
    deviation = _deviation(line)
    if not deviation > 0.0:  # also NaN
        return 0.0
    return float(ndtr(probits_of_rooms(room, deviation, ratio, level)))


def predicted_power_to_compare(
    lines: Sequence[Any], limit: Limit, ratio: float, level: float
) -> float:
    """Return the predicted probability of passing the test of the pair of subgroups nearest to the limit.

    If a subgroup has no rows, the result is 0. Without this power, sequences start at the strictest rule,
    which is often constant. In 16 cases of four tables (a ratio, misses and false alarms of one threshold) 11
    instead of 9 are certified, and these 9 err .062 less.

    Parameters
    ----------
    lines : sequence of RateLine
        The compared rates on the selection data.
    limit : Limit
        A gap or ratio.
    ratio : float
        Fresh rows by selection rows.
    level : float
        Of each test.
    """
    have_rows = all(line.rows > 0 and not np.isnan(line.value) for line in lines)
    if len(lines) < 2 or not have_rows:
        return 0.0
    n = np.array([line.rows for line in lines])
    values = np.array([line.value for line in lines])
    return float(ndtr(least_probits_of_pairs(limit, values * n, n, ratio, level)))


def largest_rate(n: float, bound: float, ratio: float, level: float, probit: float) -> float:
    """Return the largest error rate of n selection rows with which the fresh rows pass, as predicted.

    It is 0 if so few fresh rows do not pass even without an error.

    Parameters
    ----------
    n : float
        Selection rows.
    bound : float
        The tested bound on the error rate.
    ratio : float
        Number of fresh rows for each selection row.
    level : float
        Level of the exact test.
    probit : float
        Normal quantile of the predicted probability of passing: 0 for one half, positive for more.
    """
    n_fresh = int(ratio * n)
    largest_count = most_reached(n_fresh, bound, level)
    if largest_count < 0:  # no count passes
        return 0.0

    # The predicted count has mean n_fresh r and, with the noise of both tables, variance
    # n_fresh (1 + ratio) r (1 - r). It is at the probit for the rate r that solves
    # (largest_count + 1/2 - n_fresh r)² = probit² n_fresh (1 + ratio) r (1 - r).
    count = largest_count + 0.5  # correction for continuity
    noise = probit**2 * n_fresh * (1.0 + ratio)
    roots = np.roots([n_fresh**2 + noise, -(2.0 * count * n_fresh + noise), count**2]).real

    # The square holds for both signs of the probit: the smaller rate passes with a probability of at
    # least one half, the larger one with less.
    rate = roots.min() if probit >= 0 else roots.max()
    return float(np.clip(rate, 0.0, 1.0))
