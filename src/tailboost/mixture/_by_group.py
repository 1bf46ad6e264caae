"""Members that know the group: the best combinations of a member for each of the groups."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from tailboost._typing import Floats, Ints, Mask
from tailboost.combiners import Ledger
from tailboost.combiners.mixture import staircase
from tailboost.combiners.objective import WorstUnit
from tailboost.data import Rows
from tailboost.mixture._members import ByGroup, Member, losses_of
from tailboost.mixture._pool import Kinds, shifted, sources
from tailboost.mixture._tables import LogTable, Models
from tailboost.solvers import BitLosses


@dataclass(frozen=True)
class _Steps:
    """The members of one group that are best for some mean error there, the cheapest first.

    ``mean`` is their part in the mean error of all rows, ``worst`` what λ minimises on the group's units.
    """

    members: list[Member]
    mean: Floats
    worst: Floats


def members_by_group(
    blind: list[Member],
    models: Models,
    table: LogTable,
    rows: Rows,
    groups: Ints,
    names: Any,
    objective: WorstUnit,
    kinds: Kinds,
) -> list[ByGroup]:
    """Return every combination of one member per group that is best for some limit on the mean error.

    A unit lies within one group. So of all combinations with no unit above v, that of least mean error takes
    in each group the cheapest member that keeps v there; v runs over all values where one of these changes.
    Where a group cannot keep v it does what it can, and the others go on: which group is worst on other rows
    is not known.

    Parameters
    ----------
    blind : list of Member
        Members that do not know the group; each group chooses among these and its own.
    models, table
        The models and their log-probabilities of the judged rows.
    rows : Rows
        The judged rows, with their units as groups.
    groups : ndarray of shape (n,)
        The group of each.
    names : sequence
        What the groups are called.
    objective : WorstUnit
        What λ minimises.
    kinds : Kinds
        What joins a pool; with ``n_thresholds`` class weights are played on the rows of each group.
    """
    each = [_steps(blind, models, table, rows, groups == g, objective, kinds) for g in range(len(names))]
    values = np.unique(np.concatenate([steps.worst for steps in each]))[::-1]
    chosen = [
        # Steps fall: the first one that is at most v is the cheapest.
        tuple(min(int(np.count_nonzero(steps.worst > v)), len(steps.worst) - 1) for steps in each)
        for v in values
    ]
    return [
        ByGroup(models, tuple(steps.members[i] for steps, i in zip(each, choice, strict=True)), tuple(names))
        for choice in dict.fromkeys(chosen)
    ]


def _steps(
    blind: list[Member],
    models: Models,
    table: LogTable,
    rows: Rows,
    chosen: Mask,
    objective: WorstUnit,
    kinds: Kinds,
) -> _Steps:
    part, own = table.part(np.flatnonzero(chosen)), rows.part(chosen)
    found = sources(len(models.names), kinds.averages)
    # On few rows the best of many models is a matter of luck: averages alone, where there are any.
    found = [source for source in found if len(source) > 1] or found
    members = [m for m in blind if m.source in found or not m.source]
    members = [m for m in members if not getattr(m, "draws", False)]
    if kinds.n_thresholds and len(np.unique(own.y)) > 1:
        for source in found:
            members += shifted(models, source, part, own, own.y, kinds)
    ledger = Ledger(own, losses_of(members, part, own.y), BitLosses(len(own.y)))
    curve = staircase(objective.steering_losses(ledger).max(axis=1), ledger.mean_losses())
    best = curve.mixture.argmax(axis=1)
    return _Steps([members[i] for i in best], curve.mean * own.weight.sum(), curve.worst)
