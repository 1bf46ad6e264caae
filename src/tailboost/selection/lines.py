"""Lines of rules on which a descent moves: from rule to rule few rows change their answers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from scipy.sparse import csr_array

from tailboost.core.array_types import Ints, Mask
from tailboost.rates import Counts


class Axis(NamedTuple):
    """T rules, of which neighbours answer few rows differently."""

    changes: csr_array  # of the counts from each rule to the next one, shape (T, W × A)
    here: int  # number of the rule that has been reached


class Line(NamedTuple):
    """Rules on one axis, or on the plane of two."""

    axes: list[Axis]
    to: Callable[..., Any]  # returns the rule of one number for each axis, as it is reached
    allowed: Mask | bool = True  # which of the rules exist


def changes(counts: Counts, order: Ints, changed: Ints, before: int, after: Ints) -> csr_array:
    """Return how confusion counts change from each of T rules to the next one, shape (T, W × A).

    ``order`` are rows in the order in which they change from the action ``before`` to that of ``after``,
    shape (n,), and ``changed``, shape (T,), is the number of those that have changed.
    """
    rows = order[changed[0] : changed[-1]]
    n_entries = len(counts.strata.mass) * counts.strata.n_actions
    actions = np.column_stack(np.broadcast_arrays(before, after[rows]))  # (rows, 2)
    entries = counts.stratum[rows, None] * counts.strata.n_actions + actions
    amounts = counts.weights[rows, None] * [-1.0, 1.0]
    if counts.costs is not None:
        met = amounts * np.take_along_axis(counts.costs[rows], actions, axis=1)
        entries, amounts = np.hstack([entries, entries + n_entries]), np.hstack([amounts, met])
    n_of_row = entries.shape[1]
    ends = np.append(0, changed - changed[0]) * n_of_row
    shape = (len(changed), n_of_row // 2 * n_entries)
    return csr_array((amounts.ravel(), entries.ravel(), ends), shape=shape)
