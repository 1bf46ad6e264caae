"""Too few rows for any test: what is missing, and whether a refusal for it spends no attempt.

After a free refusal another table is brought, until one is tested. So its tests must have their levels given
all that the refusals have read.

Theorem. A refusal that reads nothing but numbers of rows in subgroups is free if any two limited subgroups
are the same, or have no row in common. *Proof.* Given these numbers, the rows of each subgroup are
independent draws of it. Each test counts wrong rows of one subgroup, or compares some, and has its level for
any numbers of rows. ∎

Where subgroups overlap in part it fails: let all errors be false alarms, then tables in which many rows are
ill have fewer errors among all rows. A cluster may have rows in two subgroups, so that they overlap. The
number of all rows, or clusters, is the choice of the caller and may always be read.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tailboost.guarantees.fresh import Fresh
from tailboost.rates import Limit, error
from tailboost.rates.strata import CELL, GROUP
from tailboost.rows.subgroups import unit_name


@dataclass(frozen=True)
class Lack:
    """A limited subgroup with too few rows: words for it, its rows, and the rows that a test needs."""

    words: str
    n: int
    needed: int

    def __str__(self) -> str:
        if not self.n:
            return f"{self.words} has no rows"
        return f"{self.words} has {self.n:,} rows, and needs at least {self.needed:,}"


def lacks(limits: Sequence[Limit], fresh: Fresh, level: float) -> list[Lack]:
    """Return the limited subgroups without rows, or with too few for any test at a level.

    One answer may keep a limit by construction where the rule reads groups or defers, so few rows are no
    reason to refuse there.
    """
    assert fresh.rule is not None
    may_keep = fresh.rule.by_group or fresh.answered.strata.defers
    found = []
    for limit in limits:
        rate = limit.rate
        # The rows of a ratio depend on the answers.
        samples = fresh.samples(error(by=rate.by) if rate.is_ratio else rate)
        names = [sample.name for sample in samples]
        bounds = [limit.bound] * len(names)
        if not limit.compares:
            bounds = limit.bounds(names).tolist()
        is_tested = rate.is_share and not (limit.compares or rate.is_ratio or may_keep)
        for sample, bound in zip(samples, bounds, strict=True):
            allowed = limit.against(bound)
            is_kept = np.isnan(bound) or (rate.kind == "representation" and limit.from_above)
            needed = int(not is_kept)
            if is_tested and 0.0 < allowed < 1.0:
                # So many rows are all right with at most the probability of the level.
                needed = math.ceil(math.log(level) / math.log1p(-allowed))
            if len(sample.rows) < needed:
                of_group = "" if sample.name is None else f" of {unit_name(sample.name)}"
                found.append(Lack(f"{limit}{of_group}", len(sample.rows), needed))
    return found


def is_free(lacking: Sequence[Lack], limits: Sequence[Limit], fresh: Fresh) -> bool:
    """Return whether a refusal spends no attempt: it reads the number of all rows, or the theorem holds."""
    if (fresh.votes.n_clusters or len(fresh)) < max(each.needed for each in lacking):
        return True
    strata = fresh.answered.strata
    kinds = set()  # which labels count, and what divides their rows
    for limit in limits:
        rate = limit.rate
        labels = np.asarray(rate.tables(strata)[1].any(axis=1))
        by = None if rate.kind == "representation" else rate.by
        kinds.add((tuple(labels.tolist()), by))
    divided = {by for _, by in kinds}
    if fresh.votes.clusters is not None:
        return len(kinds) == 1 and divided == {None}
    if len(strata.columns) > 1 and not divided.isdisjoint((GROUP, CELL)):  # of each column
        return False
    return bool(np.sum([labels for labels, _ in kinds], axis=0).max() <= 1)
