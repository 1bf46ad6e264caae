"""Too few rows for any test: what is missing, and whether a refusal for it spends no attempt.

After a free refusal another table is brought, until one is tested. So its tests must have their levels given
all that the refusals have read. So must joint bounds, if numbers of rows divide their level.

Theorem. Numbers of rows in subgroups may be read if any two of the subgroups are the same, or have no row in
common, and if labels and groups alone make them. *Proof.* Given these numbers, the rows of each subgroup are
independent draws of it. Each test counts wrong rows of one subgroup, or compares some, and has its level for
any numbers of rows. ∎ Two rates have the same subgroups if the same labels count in both, and the same
columns divide their rows. They have no row in common if no label counts in both.

Where subgroups overlap in part it fails: let all errors be false alarms, then tables in which many rows are
ill have fewer errors among all rows. A cluster may have rows in two subgroups, so that they overlap. The
number of all rows, or clusters, is the choice of the caller and may always be read. A representation is the
share of a group, so no refusal reads the rows of the group.
"""

import math
from collections.abc import Sequence

import numpy as np

from tailboost.core import Name
from tailboost.guarantees.fresh import Fresh
from tailboost.rates import CELL, GROUP, Expression, Limit, error
from tailboost.rows import unit_name


def lacking(limits: Sequence[Limit], fresh: Fresh, level: float) -> dict[str, int]:
    """Return words for each limited subgroup with fewer rows than a test at a level needs, and this number.

    A limit on a share needs a test by counted rows, unless the rule reads the group or defers: then one
    answer may keep it. At the largest allowed share n rows are all right with a probability of (1 − share)ⁿ.
    If this is above the level, no such test passes on n rows. Other limits need a row in each limited
    subgroup.
    """
    may_keep = fresh.decision.by_group or fresh.answered.strata.defers
    lacks = {}
    for limit in limits:
        rate = limit.rate
        if rate.kind == "representation":
            continue
        is_counted = rate.quantity == "share" and not (
            limit.compares or rate.is_ratio or may_keep
        )
        if rate.is_ratio:  # its rows depend on the answers
            rate = error(by=rate.by)
        samples = fresh.samples(rate)
        allowed = limit.allowed([sample.name for sample in samples])
        for sample, share in zip(samples, allowed.tolist(), strict=True):
            needed = 1
            if is_counted and 0.0 < share < 1.0:
                needed = math.ceil(math.log(level) / math.log1p(-share))
            n = len(sample.rows)
            if n < needed and not math.isnan(share):  # NaN of a free subgroup
                title = f"{limit}{of_subgroup(sample.name)}"
                lacks[f"{title} has {n:,} rows, and needs at least {needed:,}"] = needed
    return lacks


def of_subgroup(name: Name) -> str:
    """Return words for a subgroup after a limit; none for all rows."""
    return "" if name is None else f" of {unit_name(name)}"


def may_read_numbers(stated: Sequence[Expression], fresh: Fresh) -> bool:
    """Return whether the theorem holds for numbers of rows in the subgroups of rates, before any answer."""
    strata = fresh.answered.strata
    # A kind of subgroups: whether rows of each class count, and what divides these rows.
    kinds = set()
    for each in stated:
        rate = each.rate.row_rate
        _, among = rate.numerator_and_denominator(strata)
        by = rate.by
        if rate.kind == "representation":  # among the rows of all subgroups
            by = None
        kinds.add((tuple(among.max(axis=1) > 0), by))
    counted_by_class, divisions = zip(*kinds, strict=True)
    if fresh.votes.clusters is not None:  # only an undivided kind, alone, shares no cluster
        return divisions == (None,)
    # Groups of two columns overlap.
    if len(strata.columns) > 1 and not {GROUP, CELL}.isdisjoint(divisions):
        return False
    # Subgroups of one kind are disjoint, those of two kinds if no label counts in both.
    return np.count_nonzero(counted_by_class, axis=0).max() <= 1
