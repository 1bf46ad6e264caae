"""Tightened limits: rules selected within tighter limits than the stated ones, tested in a fixed order.

All limits are tightened to the same predicted power: for a probit z, so far that the test of the fresh rows
passes with the probability Φ(z), with the noise of both tables. The rules are tested from the one within the
tightest limits to the one within the stated limits, each at the whole level, up to the first failure. The
theorem is that of `tailboost.guarantees.sequence`: the selecting rows alone fix the order.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.special import ndtri

from tailboost.guarantees.bounds import tested_bounds
from tailboost.guarantees.case import Case, Outcome
from tailboost.rates import InfeasibleLimitsError
from tailboost.selection.intervals import NORMAL_975

# Probits of the predicted probability of passing the test of each limit.
STEPS = np.arange(3.5, -1.31, -0.6)


def applies(case: Case) -> bool:
    """Return True: the procedure serves all limits."""
    return True


def run(case: Case, plan: bool) -> Outcome:
    """Return the last rule before the first failure."""
    plain = case.selection.within(case.limits)
    ratio = len(case.fresh) / plain.n_rows
    rules = []
    for step in STEPS.tolist():
        tighter = []
        for limit in plain.problem.limits:
            widths = {}
            for line in plain.estimates:
                if line.limit == str(limit):
                    spread, margin = _noise(line, ratio, case.level)
                    widths[line.subgroup] = float(
                        np.nan_to_num(max(0.0, step * spread + margin))
                    )
            tighter.append(limit.tightened(widths) if widths else limit)
        try:
            rule = plain.within(tighter)
        except InfeasibleLimitsError:
            continue
        if all(line.rows > 0 for line in rule.estimates):  # a rate of no rows is not certified
            rules.append(rule)
    rules.append(plain)
    passed = None
    for rule in rules:
        answered = case.fresh.by(rule)
        bounds = tested_bounds(case.limits, answered, case.level)
        if any(bound.certified is False for bound in bounds):
            break
        passed = rule
    if passed is None:
        return Outcome(answered, case.level)
    within = "; ".join(map(str, passed.problem.limits))
    made = (
        "The rule is the last one before a failure in a sequence fixed before these rows were used. It was "
        f"selected within {within}."
    )
    return case.certified(passed, "fixed sequence", made)


def _noise(line: Any, ratio: float, level: float) -> tuple[float, float]:
    """Return the standard deviation of a rate and its test together, and the margin of the test."""
    deviation = (line.high - line.low) / (2.0 * NORMAL_975)
    on_fresh = deviation / np.sqrt(ratio)
    return float(np.hypot(deviation, on_fresh)), float(-ndtri(level) * on_fresh)
