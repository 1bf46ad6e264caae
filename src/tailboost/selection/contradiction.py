"""The error for contradicting limits, with the values that the rule nearest to all of them reaches."""

from __future__ import annotations

import numpy as np

from tailboost.core.array_types import Floats
from tailboost.rates import InfeasibleLimitsError, Limit
from tailboost.rates.words import stated_words
from tailboost.rows.subgroups import unit_name
from tailboost.selection.data import Pool
from tailboost.selection.program import Program, Solution, mixed


def contradiction(pool: Pool, solution: Solution, words: str) -> InfeasibleLimitsError:
    """Return the error for contradicting limits; ``solution`` is the mixture nearest to all limits.

    ``words`` are the selection data, for people.
    """
    program = solution.program
    counts = mixed(solution.weights, pool.all_counts)
    limits = [
        program.limits[i] for i in np.flatnonzero(solution.contradicting)
    ] or program.limits
    reached = "; ".join(
        f"{limit} (reached: {reached_words(program, limit, counts)})" for limit in limits
    )
    error = InfeasibleLimitsError(
        f"limits: no rule meets these together on {words}: {reached}. These values are of the "
        "rule that comes nearest to all limits"
    )
    error.limits = tuple(limits)
    return error


def reached_words(program: Program, limit: Limit, counts: Floats) -> str:
    """Return the reached value of a limit in words: of the subgroup with the least room to its bound.

    ``counts`` are the confusion counts of the rule, shape (W, A).
    """
    terms = limit.rate.terms(program.strata)
    values = terms.values(counts)
    if np.isnan(values).all():
        return "undefined: no row counts"
    if limit.compares or len(values) < 2:
        return stated_words(limit.value(values), in_percent=limit.in_percent, digits=4)
    room = limit.sign * (limit.bounds(terms.names) - values)
    tightest = np.nanargmin(room)
    reached = stated_words(values[tightest], in_percent=limit.in_percent, digits=4)
    return f"{reached} for {unit_name(terms.names[tightest])}"
