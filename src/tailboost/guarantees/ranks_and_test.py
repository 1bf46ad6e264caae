"""Ranks of one class, and a test on the other: limits by group together with limits on all groups.

"Misses at most 40 % in each group, false alarms at most 25 %" limits each group's threshold from one side by
ill rows, and all thresholds together from the other side by well rows. The thresholds are computed from the
scores of the ill rows of the fresh batch and from the selection data. Each keeps its limit by ranks
(`tailboost.guarantees.ranks`), with error probability δ₁. Given the labels, scores of well and of ill rows
are independent. So the rules are fixed before the scores of well rows are read. Two rules within the ranks
are tested one after the other by exact binomial tests at the level δ₂ ([1]_). The first rule has the least
false alarms. If it passes, the rule with the least expected loss on the selection data is tested. So a
certified rule breaks a limit with a probability of at most δ₁ + δ₂.

References
----------
.. [1] R. J. Maurer, L. A. Hothorn and W. Lehmacher, "Multiple comparisons in drug clinical trials and
   preclinical assays: a-priori ordered hypotheses", Biometrie in der chemisch-pharmazeutischen Industrie 6,
   1995.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np

from tailboost.core.array_types import Floats
from tailboost.guarantees.fresh_rows import FreshRows
from tailboost.guarantees.one_sided import windows
from tailboost.guarantees.procedure import (
    Certified,
    Procedure,
    Refused,
    scored_fresh,
    scored_selection,
)
from tailboost.guarantees.shares import (
    ONE_ANSWER,
    Share,
    are_shares,
    fresh_ranks,
    fresh_shares,
    joins_thresholds,
)
from tailboost.rates import Limit
from tailboost.rates.bounds import most_reached
from tailboost.selection.data import (
    BEYOND,
    COST_RESOLUTION,
    ScoredRows,
    possible_thresholds,
)
from tailboost.selection.outputs import LogProbabilities

# The part of the level for the test. A half costs .0015 ± .0007 of error, a fiftieth saves .0001 ± .0001
# (48 draws, benchmarks/ablations.py).
PART = 0.1
THE_SAFEST_RULE = "the rule within the ranks that is farthest from the joint limits"
AT_RANKS_OF_ONE_CLASS = (
    "Each threshold is at a rank of the scores of one class of these rows, which needs no "
    "test. The limits that join groups were tested on the other class, in a sequence fixed by "
    "the first class."
)


def thresholds_at_ranks(
    shares: Sequence[Share], ranks: Sequence[int], rows: ScoredRows, otherwise: Floats
) -> Floats:
    """Return the thresholds exactly at the ranks, shape (m,).

    Parameters
    ----------
    shares, ranks : sequence
        Limited shares of one answer, and how many rows of each may have this answer.
    rows : ScoredRows
        The rows of the shares.
    otherwise : ndarray of shape (m,)
        The thresholds of groups without a limited share.
    """
    lowest, highest = windows(shares, rows, len(otherwise), ranks)
    if shares[0].answer == 0:
        at_ranks = np.maximum(highest - COST_RESOLUTION / 2, -BEYOND)
    else:
        at_ranks = np.minimum(lowest + COST_RESOLUTION / 2, BEYOND)
    return np.where(np.abs(at_ranks) <= BEYOND, at_ranks, otherwise)


def with_least_loss(safest: Floats, answer: int, selection: ScoredRows) -> Floats:
    """Return the thresholds within the safest ones with the least loss on the selection data, shape (m,).

    ``answer`` is the answer limited by the ranks: a lower threshold gives fewer rows the answer 0.
    """
    best = safest.copy()
    for place, end in enumerate(safest):
        scores = selection.scores[selection.part(place)]
        if not len(scores) or abs(end) >= BEYOND:
            continue
        possible, _ = possible_thresholds(scores)
        possible = np.clip(possible, scores.min() - 1.0, scores.max() + 1.0)
        is_within = possible < end if answer == 0 else possible > end
        possible = np.append(possible[is_within], end)
        best[place] = possible[selection.loss(place, possible).argmin()]
    return best


class RanksAndTest(Procedure):
    """Thresholds by group at ranks of one class, with joint limits tested on the other class."""

    title = "ranks of one class and a test of the other"

    @property
    def applies(self) -> bool:
        """Whether the limits are by group on one class, and on joined groups of the other class.

        All limits are on shares, limits by group on one answer. Rows are independent cases, and the rule is
        not randomised.
        """
        problem = self.selection.problem
        if len(self.limits) < 2:  # before any score is computed
            return False
        if any(limit.compares for limit in self.limits):
            return False
        if self.fresh.clusters is not None or not self.selection.has_independent_cases:
            return False
        if not are_shares(problem.objective, self.limits, self.fresh.answered.strata):
            return False
        if self.family is None or not (self.ranked and self.joint):
            return False
        if len({share.answer for share in self.ranked}) > 1:
            return False
        ranked_rows = np.concatenate([share.rows for share in self.ranked])
        joint_rows = np.concatenate([share.rows for share in self.joint])
        return not len(np.intersect1d(ranked_rows, joint_rows))

    def run(self) -> Certified | Refused:
        """Return the rule of least expected loss if it passes its tests, otherwise the safest rule.

        The result is a refusal if the safest rule fails too, or if the passing rule has one answer for all.
        """
        safest = thresholds_at_ranks(self.ranked, self.ranks, self.rows, self.least_loss)
        best = with_least_loss(safest, self.ranked[0].answer, self.selected)
        certified = None
        for thresholds in (safest, best):
            rule = self.selection.at(self.family, thresholds, fresh=self.opened_ranked)
            if not self.keeps_joint_limits(self.fresh.by(rule)):
                break
            certified = rule
        if certified is None:
            answered = self.fresh.by(self.selection.at(self.family, safest))
            why = "no thresholds within the ranks keep the limits that join groups"
            return Refused(answered, THE_SAFEST_RULE, why)
        if len(np.unique(self.fresh.by(certified).answered.actions)) == 1:
            return Refused(self.fresh, THE_SAFEST_RULE, ONE_ANSWER)
        return Certified(certified, self.title, AT_RANKS_OF_ONE_CLASS)

    def keeps_joint_limits(self, answered: FreshRows) -> bool:
        """Return whether all joint limits pass their tests on the fresh rows with the answers of a rule."""
        actions = answered.answered.actions
        for share in self.joint:
            n_counted = int((actions[share.rows] == share.answer).sum())
            if n_counted > most_reached(len(share.rows), share.largest, PART * self.level):
                return False
        return True

    @cached_property
    def ranks(self) -> list[int]:
        """How many fresh rows of each share by group may have the limited answer."""
        return fresh_ranks(self.ranked, self.family.n_thresholds, (1.0 - PART) * self.level)

    @cached_property
    def least_loss(self) -> Floats:
        """The threshold of each group with the least expected loss on the selection data, shape (m,)."""
        rows = self.selected
        thresholds = np.zeros(self.family.n_thresholds)
        for place in range(self.family.n_thresholds):
            possible, _ = possible_thresholds(rows.scores[rows.part(place)])
            thresholds[place] = possible[rows.loss(place, possible).argmin()]
        return thresholds

    @cached_property
    def opened_ranked(self) -> list[LogProbabilities]:
        """The rows of the shares by group, by batch. Thresholds are written as decimals by these alone."""
        is_ranked = np.zeros(len(self.rows.scores), dtype=bool)
        is_ranked[np.concatenate([share.rows for share in self.ranked])] = True
        opened = []
        start = 0
        for table in self.fresh.opened:
            here = np.flatnonzero(is_ranked[start : start + table.n_rows])
            if len(here):
                opened.append(table.part(here))
            start += table.n_rows
        return opened

    @property
    def may_keep_by_construction(self) -> bool:
        """Whether one of several groups may have one answer."""
        return True

    @property
    def level_of_test(self) -> float:
        """Level of the rank of one share."""
        return (1.0 - PART) * self.level / self.family.n_thresholds

    @cached_property
    def family(self) -> Any:
        """The thresholds of each group, a `ThresholdFamily`; None if the rule has none."""
        return self.selection.family(by_group=True)

    @cached_property
    def rows(self) -> ScoredRows:
        """The fresh rows with their scores and thresholds."""
        return scored_fresh(self.selection, self.family, self.fresh)

    @cached_property
    def shares(self) -> list[Share]:
        """The limited shares on the fresh rows."""
        return fresh_shares(self.limits, self.fresh)

    @cached_property
    def ranked(self) -> list[Share]:
        """The limited shares of limits on the rows of one threshold each, kept by ranks."""
        return [share for share in self.shares if share.limit not in self.joining_limits]

    @cached_property
    def joint(self) -> list[Share]:
        """The limited shares of `joining_limits`, kept by tests."""
        return [share for share in self.shares if share.limit in self.joining_limits]

    @cached_property
    def joining_limits(self) -> list[Limit]:
        """The limits with a share of rows of several thresholds."""
        return [
            limit
            for limit in self.limits
            if joins_thresholds(limit, self.selection, self.family)
        ]

    @cached_property
    def selected(self) -> ScoredRows:
        """The selection data with their scores, thresholds and expected losses."""
        rows, _ = scored_selection(self.selection, self.family, self.fresh, expected=True)
        return rows
