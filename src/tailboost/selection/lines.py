"""Lines of rules on which a descent moves: from rule to rule few rows change their answers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from scipy.sparse import csr_array

from tailboost.core.array_types import Ints, Mask
from tailboost.rates import Counts


class Axis(NamedTuple):
    """T rules, of which neighbours answer few rows differently."""

    changes: (
        csr_array  # of the confusion counts from each rule to the next one, shape (T, W × A)
    )
    here: int  # number of the rule that has been reached


@dataclass(frozen=True, eq=False)
class Line:
    """Rules on one axis, or on the plane of two."""

    axes: list[Axis]
    to: Callable[..., Any]  # returns the rule of one number for each axis, as it is reached
    allowed: Mask | bool = True  # which of the rules exist


def changes(counts: Counts, order: Ints, changed: Ints, before: int, after: Any) -> csr_array:
    """Return how confusion counts change from each of T rules to the next one, shape (T, W × A).

    ``order`` are rows in the order in which they change from the action ``before`` to ``after``, an action or
    one of each row, and ``changed``, shape (T,), is the number of those that have changed.
    """
    rows = order[changed[0] : changed[-1]]
    n_entries = len(counts.strata.mass) * counts.strata.n_actions
    afterwards = np.broadcast_to(after, len(counts.stratum))[rows]
    actions = np.stack([np.full(len(rows), before), afterwards])
    entries = counts.stratum[rows] * counts.strata.n_actions + actions  # (2, n)
    amounts = counts.weights[rows] * [[-1.0], [1.0]]
    if counts.costs is not None:
        entries = np.vstack([entries, entries + n_entries])
        amounts = np.vstack([amounts, amounts * counts.costs[rows, actions]])
    ends = np.append(0, changed - changed[0]) * len(entries)
    shape = (len(changed), len(entries) // 2 * n_entries)
    return csr_array((amounts.T.ravel(), entries.T.ravel(), ends), shape=shape)
