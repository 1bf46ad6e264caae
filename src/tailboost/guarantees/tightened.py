"""Tightened limits: a fixed sequence of rules for limits that no sequence on one score serves.

Limits are tightened step by step, to equal predicted powers: for a probit z so far that the test of the fresh
rows passes with the probability Φ(z), with the noise of both tables. The rule within the tightest limits is
tested first, the one within the stated limits last, up to the first failure. The theorem is that of
`tailboost.guarantees.sequence`.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress

import numpy as np
from scipy.special import ndtri

from tailboost.guarantees.certify import tested_bounds
from tailboost.guarantees.fresh import Certified, Fresh, Refused
from tailboost.guarantees.sequence import LAST, METHOD
from tailboost.rates import InfeasibleLimitsError
from tailboost.selection.selection import Selection
from tailboost.selection.table import tightened

# Probits of the predicted probability of passing the test of each limit, along the sequence.
STEPS = np.arange(3.5, -1.31, -0.6)


def certified(selection: Selection, fresh: Fresh, level: float) -> Certified | Refused:
    """Return the last rule before the first failure."""
    passed = None
    for rule in rules_within_tighter(selection, fresh.n_units, level):
        answered = fresh.by(rule)
        bounds = tested_bounds(selection.problem.limits, answered, level)
        if any(bound.certified is False for bound in bounds):
            break
        within = "; ".join(map(str, rule.problem.limits))
        passed = Certified(rule, answered, METHOD, f"{LAST}. It was selected within {within}.")
    return passed or Refused(answered, level)


def rules_within_tighter(
    selection: Selection, n_fresh: int, level: float
) -> Iterator[Selection]:
    """Yield the selected rule within ever looser limits, the stated ones last."""
    plain = selection.within(selection.problem.limits)
    # Noise of the fresh rows, by that of the selecting rows.
    noise = np.sqrt(plain.n_rows / n_fresh)
    for step in STEPS.tolist():
        n_deviations = max(0.0, step * np.hypot(1.0, noise) - ndtri(level) * noise)
        tighter = [
            tightened(
                limit, plain.program.strata, plain.counts, plain.engine.spread, n_deviations
            )
            for limit in plain.problem.limits
        ]
        with suppress(InfeasibleLimitsError):
            rule = plain.within(tighter)
            if all(line.rows > 0 for line in rule.estimates):  # no rows certify no rate
                yield rule
    yield plain
