"""Tightened limits: a fixed sequence of rules for limits that no sequence on one score serves.

All limits are tightened until their tests on the fresh rows pass with one predicted probability Φ(z), which
allows for the noise of both tables. Step by step z falls. The rule within the tightest limits is tested
first, the one within the stated limits last, up to the first failure. The theorem is that of
`tailboost.guarantees.sequence`.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace

import numpy as np
from scipy.special import ndtri

from tailboost.guarantees.certify import tested_bounds
from tailboost.guarantees.fresh import Certified, Fresh, Refused
from tailboost.guarantees.sequence import LAST, METHOD
from tailboost.rates import RATIO, TINY, InfeasibleLimitsError, Limit
from tailboost.selection.selection import Selection
from tailboost.selection.table import counted_rate

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
        tighter = [_tightened(limit, plain, n_deviations) for limit in plain.problem.limits]
        with suppress(InfeasibleLimitsError):
            rule = plain.within(tighter)
            if all(line.rows > 0 for line in rule.estimates):  # no rows certify no rate
                yield rule
    yield plain


def _tightened(limit: Limit, rule: Selection, n_errors: float) -> Limit:
    """Return a limit tightened by standard errors of the rates of a rule on new rows.

    A refit shifts all subgroups alike, so compared rates have no such noise.
    """
    spread = 0.0 if limit.compares else rule.engine.spread
    terms, numbers, errors = counted_rate(limit.rate, rule.program.strata, rule.counts, spread)
    if not limit.compares:
        bounds = limit.levels(terms.names) - limit.sign * np.nan_to_num(n_errors * errors)
        each = zip(terms.names, bounds.tolist(), strict=True)
        return replace(limit, bound=tuple(pair for pair in each if not np.isnan(pair[1])))
    of_pairs = limit.deviations(errors**2)
    np.fill_diagonal(of_pairs, 0.0)
    noise = of_pairs.max()
    if limit.form == RATIO:  # over the largest rate
        noise /= max(np.fmax.reduce(numbers[0]), TINY)
    bound = limit.bound - limit.sign * np.nan_to_num(n_errors * noise)
    return replace(limit, bound=float(np.clip(bound, 0.0, limit.most)))
