"""Useless rules within limits: the limit that forces them, and the nearest one with a useful rule."""

from __future__ import annotations

from typing import Any

import numpy as np

from tailboost.core.array_types import Floats, Mask
from tailboost.core.subgroups import unit_name
from tailboost.rates import Limit
from tailboost.selection.candidates import Pool
from tailboost.selection.growth import solve
from tailboost.selection.program import SLIGHT, Program
from tailboost.selection.rate_table import ROUNDING
from tailboost.selection.selecting import Selection

# A rule that answers one action for a larger share of the rows is useless, unless that action is the truth of
# about as many: the other answers must be at least half as frequent as they are true.
MOST_ALIKE = 0.95


def useless(pool: Pool, program: Program, found: Selection) -> str | None:
    """Say why a rule within limits is useless, which limit forces that, and which one would not.

    A rule is useless if it answers one action for more than 95 % of the rows, or if its objective is no
    better than that of the best random guess within the same limits. None for a useful rule, or without
    limits.
    """
    if not program.limits or not found.keeps:
        return None
    guess = _best_guess(pool, program)
    why = _why(program, found.counts, found.value, guess)
    if why is None:
        return None
    values, _ = program.judge(pool.tallies)
    values = values * program.scale
    useful: Mask = np.array(
        [_why(program, counts, v, guess) is None for counts, v in zip(pool.counts, values, strict=True)]
    )
    excesses = np.where(useful[:, None], program.excesses(pool.tallies), np.inf)
    beyond = np.where(excesses > SLIGHT, excesses, 0.0)
    # The limit that has to give way least, by itself or else together with others.
    best = int(np.lexsort((beyond.max(axis=1), (beyond > 0).sum(axis=1)))[0])
    number = int(beyond[best].argmax())
    limit = program.limits[number]
    forced = f"{why}, to keep {limit} (it reaches {_reached(program, limit, found.counts)})"
    if not useful.any():
        return f"{forced}. No candidate is useful: the models may be too weak"
    return (
        f"{forced}. The nearest limit with a useful rule: {_reached(program, limit, pool.counts[best])}, "
        f"with {program.objective} of {values[best]:.4g}"
    )


def _why(program: Program, counts: Floats, value: float, guess: float) -> str | None:
    """Return in words why confusion counts are those of a useless rule; None if they are not."""
    strata = program.strata
    actions = counts[: len(strata.mass)].sum(axis=0)
    most = int(actions.argmax())
    truth = np.bincount(strata.y, strata.mass, strata.n_actions)[most]
    if actions[most] > max(MOST_ALIKE, (1.0 + truth) / 2.0):
        named: Any = strata.classes[most] if most < strata.n_classes else "deferral"
        return f"it answers {unit_name(named)} for {actions[most]:.1%} of the rows"
    if value >= guess - ROUNDING:
        return f"its {program.objective}, {value:.4g}, is no better than that of a random guess ({guess:.4g})"
    return None


def _best_guess(pool: Pool, program: Program) -> float:
    """Return the least objective of a draw among constants within the limits; infinite without one."""
    every = pool.copy()
    numbers = every.constants()
    constants = Pool(pool.table, [every.members[i] for i in numbers], [every.counts[i] for i in numbers])
    growth = solve(constants, program)
    if not growth.feasible:
        return float("inf")
    return program.value(np.tensordot(growth.solved.weights, constants.tallies, axes=1))


def _reached(program: Program, limit: Limit, counts: Floats) -> str:
    """Return what counts reach in a limit: in the subgroup that is nearest to its bound or beyond."""
    terms = limit.rate.terms(program.strata)
    values = terms.values(counts)
    if limit.compares or len(values) < 2:
        return f"{limit.said_of(values):.4g}"
    room = limit.bounds(terms.names) - values
    tightest = int(np.nanargmin(room if limit.from_above else -room))
    return f"{values[tightest]:.4g} for {unit_name(terms.names[tightest])}"
