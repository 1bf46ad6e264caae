"""Tightened limits: rules selected within tighter limits than the stated ones, tested in a fixed order.

All limits are tightened to the same predicted power: for a probit z, to the largest rate at which the test of
the fresh rows passes with the probability Φ(z), with the noise of both tables. The rules are tested from the
one with the greatest predicted power to the one within the stated limits, each at the whole level, up to the
first failure. The theorem is that of `tailboost.guarantees.sequence`: the selecting rows alone fix the order.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import prod
from typing import Any

import numpy as np
from scipy.special import ndtr, ndtri

from tailboost.guarantees.bounds import tested_bounds
from tailboost.guarantees.case import ONE_ANSWER, Case, Certified, Refused
from tailboost.rates import InfeasibleLimitsError, Limit
from tailboost.rates.bounds import most_reached
from tailboost.selection.problem import NORMAL_975

# Probits of the predicted probability of passing the test of each limit.
STEPS = np.arange(3.5, -1.31, -0.6)


def applies(case: Case) -> bool:
    """Return True: the procedure serves all limits."""
    return True


def run(case: Case, plan: bool) -> Certified | Refused:
    """Return the last rule before the first failure."""
    plain = case.selection.within(case.limits)
    ratio = len(case.fresh) / plain.n_rows
    rules = [_within(plain, ratio, case.level, step) for step in STEPS.tolist()]
    rules = [*(rule for rule in rules if rule is not None), plain]
    powers = [prod(_powers(plain, rule, ratio, case.level)) for rule in rules]
    passed = None
    for rule in rules[int(np.argmax(powers)) :]:
        answered = case.fresh.by(rule)
        bounds = tested_bounds(case.limits, answered, case.level)
        if any(bound.certified is False for bound in bounds):
            break
        passed = rule
    if passed is None:
        return Refused(answered)
    if len(np.unique(case.fresh.by(passed).answered.actions)) == 1:
        return Refused(case.fresh.by(passed), ONE_ANSWER)
    within = "; ".join(map(str, passed.problem.limits))
    made = (
        "The rule is the last one before a failure in a sequence fixed before these rows were used. It was "
        f"selected within {within}."
    )
    return Certified(passed, "fixed sequence", made)


def _within(plain: Any, ratio: float, level: float, probit: float) -> Any:
    """Return the selection within limits that pass with probability Φ(probit); None if they contradict."""
    tighter = []
    for limit in plain.problem.limits:
        widths = {
            line.subgroup: _width(line, limit, ratio, level, probit)
            for line in plain.estimates
            if line.limit == str(limit)
        }
        tighter.append(limit.tightened(widths) if widths else limit)
    try:
        return plain.within(tighter)
    except InfeasibleLimitsError:
        return None


def _width(line: Any, limit: Limit, ratio: float, level: float, probit: float) -> float:
    """Return the width by which the bound of one subgroup is tightened, from the selection data."""
    bound = float(line.bound)
    if limit.rate.is_share and not limit.compares and line.rows > 0 and 0 <= bound <= 1:
        allowed = limit.against(bound)
        return max(0.0, allowed - largest_rate(line.rows, allowed, ratio, level, probit))
    deviation = _deviation(line)
    on_fresh = deviation / np.sqrt(ratio)
    width = probit * np.hypot(deviation, on_fresh) - ndtri(level) * on_fresh
    return max(0.0, float(np.nan_to_num(width)))  # 0 without an interval, which gives NaN


def _deviation(line: Any) -> float:
    """Return the standard deviation of a rate on the selection data, from the longer side of its interval."""
    return float(max(line.high - line.value, line.value - line.low)) / NORMAL_975


def _powers(plain: Any, rule: Any, ratio: float, level: float) -> Iterator[float]:
    """Yield the predicted probability that a rule passes the test of each stated limit in each subgroup."""
    lines = {(line.rate, line.subgroup, line.sense): line for line in rule.estimates}
    limit_of = {str(limit): limit for limit in plain.problem.limits}
    for stated in plain.estimates:
        line = lines.get((stated.rate, stated.subgroup, stated.sense))
        if stated.limit not in limit_of or line is None or np.isnan(stated.bound):
            continue
        limit = limit_of[stated.limit]
        if np.isnan(line.value) or not line.rows > 0:
            yield 0.0
            continue
        deviation = _deviation(line)
        if limit.rate.is_share and not limit.compares:  # the interval of no error is one-sided
            share = (limit.against(line.value) * line.rows + 0.5) / (line.rows + 1.0)
            deviation = float(np.sqrt(share * (1.0 - share) / line.rows))
        room = limit.sign * (stated.bound - line.value)
        on_fresh = deviation / np.sqrt(ratio)
        if not deviation > 0.0:
            yield 0.0
        else:
            yield float(ndtr((room + ndtri(level) * on_fresh) / np.hypot(deviation, on_fresh)))


def largest_rate(n: float, bound: float, ratio: float, level: float, probit: float) -> float:
    """Return the largest error rate of n selection rows with which the fresh rows pass, as predicted.

    It is 0 if so few fresh rows do not pass even without an error.
    """
    n_fresh = int(ratio * n)
    largest_count = most_reached(n_fresh, bound, level)
    if largest_count < 0:
        return 0.0
    # The predicted count has the mean n_fresh r and, with the noise of both tables, the variance
    # n_fresh (1 + ratio) r (1 − r). It is at the probit for the rate r that solves
    # (largest_count + 1/2 − n_fresh r)² = probit² n_fresh (1 + ratio) r (1 − r).
    count = largest_count + 0.5  # correction for continuity
    noise = probit**2 * n_fresh * (1.0 + ratio)
    roots = np.roots([n_fresh**2 + noise, -(2.0 * count * n_fresh + noise), count**2]).real
    # The square holds for both signs of the probit: the smaller rate passes with at least one half.
    rate = roots.min() if probit >= 0 else roots.max()
    return float(np.clip(rate, 0.0, 1.0))
