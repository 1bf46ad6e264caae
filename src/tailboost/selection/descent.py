"""The descent, which moves to the best rule on each of many lines in turn.

From rule to rule of a line few rows change their answers, so each rate is a running sum over these rows.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np
from scipy.sparse import csr_array

from tailboost.core import Array, Floats, Ints, Mask, Model, frozen_object
from tailboost.rates import SIGNS, Counts, Limit, Statistic, Terms

# Added to the objective of rules that break limits, and for each violation of 1: any rule within the limits
# is better.
PENALTY = 10.0
# Smaller violations of a limit by one rule are rounding, and so are smaller sums along a line.
SLIGHT = 1e-9
ROUNDING = 1e-13
# Charges are compared after rounding to this number of decimals.
DECIMALS = 12
# The most passes over all lines.
PASSES = 3

Extremes = Sequence[tuple[Floats, Floats]]
"""Of the objective, then of each limit: the most and the least by which rates exceed their levels, (…)."""

# -- lines -------------------------------------------------------------------------------------------------


@frozen_object
class Reached:
    """A rule on the way of a descent; a family may keep more of it."""

    rule: Array


class Axis(NamedTuple):
    """T rules, of which neighbours answer few rows differently."""

    changes: csr_array  # of the counts from the rule before to each rule, shape (T, W × A)
    here: int  # number of the rule that has been reached


class Line(NamedTuple):
    """Rules on one axis, or on the plane of two."""

    axes: list[Axis]
    to: Callable[..., Reached]  # returns the rule of one number for each axis
    allowed: Mask | bool = True  # which of the rules exist


def changes(counts: Counts, order: Ints, changed: Ints, before: int, after: Ints) -> csr_array:
    """Return how the confusion counts of each of T rules differ from those of the rule before, (T, W × A).

    The first row is 0. ``order`` are rows in the order in which they change from the action ``before`` to
    that of ``after``, shape (n,), and ``changed``, shape (T,), is the number of those that have changed.
    """
    strata = counts.strata
    rows = order[changed[0] : changed[-1]]
    n_entries = len(strata.mass) * strata.n_actions
    # Each row leaves the entry of one action, and enters that of the other.
    actions = np.column_stack(np.broadcast_arrays(before, after[rows]))  # (rows, 2)
    entries = counts.stratum[rows, None] * np.intp(strata.n_actions) + actions
    amounts = counts.weights[rows, None] * [-1.0, 1.0]
    if counts.costs is not None:  # which follow the counts
        costs = amounts * counts.costs[rows[:, None], actions]
        entries = np.hstack([entries, entries + n_entries])
        amounts = np.hstack([amounts, costs])
        n_entries *= 2
    ends = np.append(0, changed - changed[0]) * entries.shape[1]
    return csr_array((amounts.ravel(), entries.ravel(), ends), shape=(len(changed), n_entries))


class Candidate(NamedTuple):
    """A rule with its confusion counts on the selection data."""

    rule: Array
    counts: Floats  # shape (W, A)


class Family(Protocol):
    """Rules on selection data, as the search chooses among them. A rule is an array."""

    models: Sequence[Model] = ()  # of groups, if rules estimate them

    def best(self, costs: Floats) -> Candidate:
        """Return the rule of least expected cost, for the costs of actions (S, A)."""

    def counts(self, rule: Array) -> Floats:
        """Return the confusion counts of a rule, shape (W, A)."""

    def moves(self, *, compares: bool) -> list[Any]:
        """Return the moves of a descent, one for each line, also beside limits that compare subgroups."""

    def reached(self, rule: Array) -> Reached:
        """Return a rule as the first one of a descent."""
        return Reached(rule)

    def line(self, reached: Any, move: Any) -> Line:
        """Return the rules on the line of a move through the one that is reached."""


# -- rates along lines -------------------------------------------------------------------------------------


class RunningRates:
    """The rates of an objective along lines, then those of its limits.

    Parameters
    ----------
    objective : Statistic
        The minimised rate, or the largest rate of a family.
    limits : sequence of Limit
        The limits.
    terms : sequence of Terms
        Of the rate of the objective and of each limit.

    Attributes
    ----------
    table : ndarray of shape (W × A, 2 R)
        The numerators, then the denominators, of all R rates over confusion counts.
    stated : ndarray of int, shape (R,)
        0 for the rates of the objective, and the number of the limit of others from 1 on.
    signs, levels : ndarray of shape (R,)
        Sign and level of the bound of each rate; the level of rates that are minimised or compared is 0.
    """

    def __init__(
        self, objective: Statistic, limits: Sequence[Limit], terms: Sequence[Terms]
    ) -> None:
        self.limits = limits
        self.scales = [each.scale for each in terms]
        levels = [np.zeros(len(terms[0].names))]
        levels += [limit.levels(of.names) for limit, of in zip(limits, terms[1:], strict=True)]
        sizes = list(map(len, levels))
        self.stated = np.repeat(np.arange(len(sizes)), sizes)
        self.signs = np.repeat([SIGNS[each.sense] for each in (objective, *limits)], sizes)
        self.levels = np.concatenate(levels)
        parts = [each.top for each in terms] + [each.bottom for each in terms]
        self.table = np.concatenate(parts).reshape(2 * len(self.signs), -1).T

    def along(self, sums: Floats, axes: Sequence[Axis]) -> tuple[Floats, Mask, Floats]:
        """Return the charges of the rules on a line through a rule with these sums, shape (2 R,).

        Also which of the sums move along the line, and these sums of each rule.
        """
        touched = np.zeros(len(self.table), bool)
        for axis in axes:
            touched[axis.changes.indices] = True
        rates_move = np.logical_or(*self.table[touched].any(axis=0).reshape(2, -1))
        sums_move = np.tile(rates_move, 2)  # numerator and denominator move together
        moved = sums[sums_move]
        for axis in axes:
            running = (axis.changes @ self.table[:, sums_move]).cumsum(axis=0)
            moved = moved[..., None, :] + running - running[axis.here]
        moved[np.abs(moved) < ROUNDING] = 0.0
        # All rules of the line share the rates at rest, so these are compared once.
        at_rest = self.extremes(sums[~sums_move], ~rates_move)
        return self.charged(self.extremes(moved, rates_move, at_rest)), sums_move, moved

    def extremes(
        self, sums: Floats, some: Mask | slice = slice(None), start: Extremes = ()
    ) -> Extremes:
        """Return the extremes of some rates, by default all, from their sums of shape (…, 2 r).

        They ``start`` from those of other rates, as the `initial` of `numpy.fmax.reduce`.
        """
        counted, among = np.split(sums, 2, axis=-1)
        with np.errstate(invalid="ignore", divide="ignore"):
            values = np.where(among > 0, counted / among, np.nan)  # NaN without rows
        beyond = self.signs[some] * (values - self.levels[some])  # NaN without a bound
        extremes = []
        for number, (most, least) in enumerate(start or [(np.nan, np.nan)] * len(self.scales)):
            own = beyond[..., self.stated[some] == number]
            most = np.fmax.reduce(own, axis=-1, initial=most)
            extremes.append((most, np.fmin.reduce(own, axis=-1, initial=least)))
        return extremes

    def charged(self, extremes: Extremes) -> Floats:
        """Return the charges of rules with these extremes, shape (…).

        A charge is the scaled objective; if a limit is broken, it is more than any objective.
        """
        (objective, _), *of_limits = extremes
        # An objective without rows is −1: no other one is less.
        charges = np.nan_to_num(objective / self.scales[0], nan=-1.0)
        violations = np.zeros_like(charges)
        for limit, scale, pair in zip(self.limits, self.scales[1:], of_limits, strict=True):
            violations = np.maximum(violations, limit.violation(*pair) / scale)
        broken = np.where(violations <= SLIGHT, 0.0, PENALTY * (1.0 + violations))
        return (charges + broken).round(DECIMALS)


def descended(family: Family, rates: RunningRates, rule: Array, counts: Floats) -> Candidate:
    """Return the rule after moves to the best rule on each line in turn, from one with its counts."""
    moves = family.moves(compares=any(limit.compares for limit in rates.limits))
    reached = family.reached(rule)
    sums = counts.ravel() @ rates.table
    least = np.inf
    n_kept = 0  # lines since the last move
    for move in moves * PASSES:
        line = family.line(reached, move)
        charges, sums_move, moved = rates.along(sums, line.axes)
        charges = np.where(line.allowed, charges, np.inf)
        n_kept += 1
        if charges.min() < least - SLIGHT:
            least = charges.min()
            best = np.unravel_index(charges.argmin(), charges.shape)
            sums[sums_move] = moved[best]
            reached = line.to(*best)
            n_kept = 0
        if n_kept == len(moves):
            break
    return Candidate(reached.rule, family.counts(reached.rule))
