"""Which rows are in which units, what units are called, and who answers by them."""

from __future__ import annotations

from typing import Any

import numpy as np

from tailboost._typing import Ints

GROUPS_UNUSED = "groups have no part in the answers of this classifier: leave them out"


def memberships(groups: Ints) -> tuple[Ints, Ints]:
    """Return which rows are in which units: the row and the unit of each membership, ordered by row.

    Parameters
    ----------
    groups : ndarray of shape (n,) or (n, c)
        Number of the unit of each row, or of its c units; −1 for none.
    """
    flat = groups.ravel()
    row = np.arange(len(flat)) if groups.ndim == 1 else np.repeat(np.arange(len(groups)), groups.shape[1])
    inside = flat >= 0
    return (row, flat) if inside.all() else (row[inside], flat[inside])


def strata_of(y: Ints, groups: Ints | None) -> Ints:
    """Return the number of each row's combination of class and units, ordered by unit, then by class."""
    if groups is None:
        return y
    if groups.ndim == 1:
        return np.unique((y.max() + 1) * groups + y, return_inverse=True)[1]
    return np.unique(np.column_stack([groups, y]), axis=0, return_inverse=True)[1].ravel()


def unit_name(unit: Any) -> str:
    """Name a class or group, or a pair: a cell (class, group), or a group of a table (column, value)."""
    return " / ".join(map(unit_name, unit)) if isinstance(unit, tuple) else str(unit)


def answers_by_group(classifier: Any) -> bool:
    """Whether a classifier has to be told the groups of the rows that it answers."""
    return bool(getattr(classifier, "by_group", False))


def told(classifier: Any, groups: Any) -> dict[str, Any]:
    """Return what a classifier is told beside rows to answer: their groups, if it answers by them."""
    return {"groups": groups} if answers_by_group(classifier) else {}
