"""Selection within limits, which hold on new rows with a stated probability."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from tailboost.core.array_types import Floats
from tailboost.rates import ROUNDING, Limit, Strata
from tailboost.selection.intervals import OVERDISPERSION, CountedRate, decided_rates, outlook
from tailboost.selection.problem import Problem
from tailboost.selection.program import Best, Program

# The most standard errors by which limits are tightened, and the number of selections with such limits.
MOST_ERRORS = 3.0
SELECTIONS = 5
# A rule with one action for a larger fraction of the rows is not selected to reach a confidence.
MOST_ALIKE = 0.95


def tightened(limit: Limit, strata: Strata, counts: Floats, refit: bool, by: float) -> Limit:
    """Return a limit, tightened by a number of standard errors of its rates.

    The standard errors are as in `outlook`: 1.25 binomial variances and, for single rates, a refit.
    """
    counted = CountedRate.of(limit.rate, strata, counts, refit)
    least, most = counted.range
    n = np.maximum(counted.binomial_rows, 1e-9)
    width = most - least
    p = (n * (np.nan_to_num(counted.values, nan=least) - least) / width + 1.0) / (n + 2.0)
    variance = width**2 * OVERDISPERSION * p * (1.0 - p) / n
    variance = np.where(
        np.isnan(counted.values) | decided_rates(counted.terms, strata, counts), 0.0, variance
    )
    if limit.compares:
        return limit.with_margins(by * limit.deviations(variance))
    errors = by * np.sqrt(variance + (width * counted.spread) ** 2)
    return limit.tightened(dict(zip(counted.terms.names, errors.tolist(), strict=True)))


def confident(
    problem: Problem,
    program: Program,
    found: Best,
    refit: bool,
    again: Callable[[Program], Best],
    strata: Strata,
    counts_of: Callable[[Best], Floats],
) -> Best:
    """Return the selection of least objective with limits kept on new rows with a stated probability.

    All limits are tightened by the same number of standard errors, which is bisected. If no selection reaches
    the probability, the most probable one is returned. A rule with one action for nearly all rows is left out
    unless the stated limits lead to such a rule. The limits of the problem are the first ones of the program,
    ``found`` is the selection within the program, and ``again(program)`` selects within other limits. The
    probability is that of the ``strata`` and counts of the rows on which rates are estimated.
    """
    limits = problem.limits
    confidence = problem.confidence or 0.0
    others = program.limits[len(limits) :]

    def probability(selection: Best) -> float:
        expected = outlook(limits, strata, counts_of(selection), refit, confidence)
        if expected is None:
            return 1.0
        return expected.probability

    def largest_share(counts: Floats) -> float:
        return float(counts[: len(program.strata.mass)].sum(axis=0).max())

    tried = [(probability(found), found)]
    if tried[0][0] >= confidence:
        return found
    most_alike = max(MOST_ALIKE, largest_share(found.counts))
    last = found

    def tighten(by: float) -> float:
        """Select with tightened limits, and return the probability; of a rule that is left out 1."""
        nonlocal last
        tighter = [tightened(limit, strata, counts_of(last), refit, by) for limit in limits]
        new = again(program.within((*tighter, *others)))
        if largest_share(new.counts) > most_alike + ROUNDING:
            return 1.0
        last = new
        tried.append((probability(new), new))
        return tried[-1][0]

    low = 0.0
    high = MOST_ERRORS
    for _ in range(SELECTIONS):
        by = (low + high) / 2
        low, high = (low, by) if tighten(by) >= confidence else (by, high)
    reached = [selection for likely, selection in tried if likely >= confidence]
    selection = max(tried, key=lambda pair: pair[0])[1]
    if reached:
        selection = min(reached, key=lambda selection: selection.value)
    return replace(selection, violations=program.violations(selection.counts))
