"""Ranks of one class, and a test on the other: limits by group together with limits on all groups.

"Misses at most 40 % in each group, false alarms at most 25 %" limits each group's threshold from one side by
ill rows, and all thresholds together from the other side by well rows. The thresholds are computed from the
scores of the ill rows of the fresh batch and from the selection data. Each keeps its limit by ranks
(`tailboost.guarantees.ranks`), with error probability δ₁. Given the labels, the scores of the well rows are
independent of those of the ill rows. For them the rules are therefore fixed, and a sequence of rules is
tested by exact binomial tests up to the first failure at the level δ₂ ([1]_): from the one with the least
false alarms towards the one with the least expected loss on the selection data. Each rule of the sequence is
within the ranks. So a certified rule breaks a limit with a probability of at most δ₁ + δ₂.

The selection data divide the level: the test gets the smallest of `PARTS` with which it is predicted to pass.

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

from tailboost.core.array_types import Floats, Ints
from tailboost.guarantees.fresh_rows import FreshRows
from tailboost.guarantees.procedure import (
    Certified,
    Procedure,
    Refused,
    losses_of,
    scored_fresh,
    scored_selection,
)
from tailboost.guarantees.shares import Share, counted_answer, ranks_of, shares_of, shares_on
from tailboost.rates.bounds import most_reached
from tailboost.selection.answers import OpenedRows
from tailboost.selection.data import (
    BEYOND,
    COST_RESOLUTION,
    ScoredRows,
    ThresholdFamily,
    possible_thresholds,
)

# Parts of the level for the test, and standard deviations between its bound and the predicted rate.
PARTS = (0.02, 0.1, 0.5)
ROOM = 2.0
# Rules of the sequence.
STEPS = 8
THE_SAFEST_RULE = "the rule within the ranks that is farthest from the joint limits"
AT_RANKS_OF_ONE_CLASS = (
    "Each threshold is at a rank of the scores of one class of these rows, which needs no test. The limits "
    "that join groups were tested on the other class, in a sequence fixed by the first class."
)


def thresholds_at_ranks(
    shares: Sequence[Share], ranks: Sequence[int], rows: ScoredRows, otherwise: Floats
) -> Floats:
    """Return the thresholds exactly at the ranks, shape (m,).

    Parameters
    ----------
    shares, ranks : sequence
        Limited shares with one threshold each, and how many of their rows may be beyond it.
    rows : ScoredRows
        The rows of the shares.
    otherwise : ndarray of shape (m,)
        The thresholds of groups without a limited share.
    """
    thresholds = otherwise.copy()
    for share, rank in zip(shares, ranks, strict=True):
        (place,) = share.places(rows)
        scores = np.sort(rows.scores[share.rows])
        if rank >= len(scores):
            continue
        # A row gets answer 0 up to the threshold, and answer 1 above it.
        if share.answer == 0:
            thresholds[place] = scores[rank] - COST_RESOLUTION / 2 if rank >= 0 else -BEYOND
        else:
            last = len(scores) - 1 - rank
            thresholds[place] = scores[last] + COST_RESOLUTION / 2 if rank >= 0 else BEYOND
    return thresholds


def path_to_least_loss(safest: Floats, answer: int, selection: ScoredRows) -> Floats:
    """Return rules from the safest thresholds to those of least expected loss within them, shape (k, m).

    ``answer`` is the answer limited by the ranks: a lower threshold gives fewer rows the answer 0.
    """
    best = safest.copy()
    for place, end in enumerate(safest):
        scores = selection.scores[selection.part(place)]
        if not len(scores) or abs(end) >= BEYOND:
            continue
        possible, _ = possible_thresholds(scores)
        possible = np.clip(possible, scores.min() - 1.0, scores.max() + 1.0)
        possible = possible[possible < end] if answer == 0 else possible[possible > end]
        if len(possible):
            least = selection.loss(place, np.append(possible, end)).argmin()
            best[place] = np.append(possible, end)[least]
    return safest + np.linspace(0.0, 1.0, STEPS)[:, None] * (best - safest)


class RanksAndTest(Procedure):
    """Thresholds by group at ranks of one class, with joint limits tested on the other class."""

    title = "ranks of one class and a test of the other"

    @property
    def lacks(self) -> str | None:
        """Why the procedure does not apply; None if it does."""
        strata = self.fresh.answered.strata
        if strata.defers:
            return "rows may be deferred"
        if losses_of(self.selection.problem.objective, strata) is None:
            return f"the objective {self.selection.problem.objective} is no sum of losses of two answers"
        for limit in self.limits:
            if counted_answer(limit.rate, strata) is None:
                return f"{limit.rate!r} is no share of rows with one of two answers"
        if self.selection.problem.randomized:
            return "the rule may draw"
        if any(limit.compares for limit in self.limits):
            return "groups are compared"
        if self.fresh.clusters is not None:
            return "both classes may be in one cluster"
        if not self.selection.has_independent_cases:
            return "a row may have both answers as labels"
        if self.family is None:
            return "the rule has no threshold for each group"
        if not (self.ranked and self.joint):
            return "no limit by group stands beside a limit that joins groups"
        if len({share.answer for share in self.ranked}) > 1:
            return "limits by group are on both answers"
        ranked_rows = np.concatenate([share.rows for share in self.ranked])
        joint_rows = np.concatenate([share.rows for share in self.joint])
        if len(np.intersect1d(ranked_rows, joint_rows)):
            return "a row counts in a limit by group and in a joint one"
        _, selected_shares = self.selected
        if {(share.limit, share.name) for share in self.shares} - selected_shares.keys():
            return "a limited group has no rows in the selection data"
        return None

    def run(self) -> Certified | Refused:
        """Return the rule of least expected loss before the first failure of a joint limit."""
        assert self.family is not None
        selection, _ = self.selected
        safest = thresholds_at_ranks(
            self.ranked, self.ranks(self.part), self.rows, self.least_loss
        )
        certified = None
        for thresholds in path_to_least_loss(safest, self.ranked[0].answer, selection):
            rule = self.selection.at(self.family, thresholds, fresh=self.opened_ranked)
            if not self.keeps_joint_limits(self.fresh.by(rule)):
                break
            certified = rule
        if certified is None:
            answered = self.fresh.by(self.selection.at(self.family, safest))
            why = "no thresholds within the ranks keep the limits that join groups"
            return Refused(answered, THE_SAFEST_RULE, why)
        if len(np.unique(self.fresh.by(certified).answered.actions)) == 1:
            why = (
                "the rule with the least loss within the limits gives every row the same answer"
            )
            return Refused(self.fresh, THE_SAFEST_RULE, why)
        return Certified(certified, self.title, AT_RANKS_OF_ONE_CLASS)

    def keeps_joint_limits(self, answered: FreshRows) -> bool:
        """Return whether all joint limits pass their tests on the fresh rows with the answers of a rule."""
        actions = answered.answered.actions
        for share in self.joint:
            n_counted = int((actions[share.rows] == share.answer).sum())
            if n_counted > self.most_counted(share, self.part):
                return False
        return True

    def most_counted(self, share: Share, part: float) -> int:
        """Return how many fresh rows of a joint share may count for its test to pass."""
        return most_reached(len(share.rows), share.largest, part * self.level)

    def ranks(self, part: float) -> list[int]:
        """Return how many fresh rows of each share by group may be beyond its threshold."""
        assert self.family is not None
        sizes = [len(share.rows) for share in self.ranked]
        return ranks_of(self.ranked, sizes, self.family.n_thresholds, (1.0 - part) * self.level)

    @cached_property
    def part(self) -> float:
        """The part of the level for the test, chosen on the selection data and numbers of fresh rows."""
        selection, shares = self.selected
        for part in PARTS[:-1]:
            ranks = []
            ranked = []
            for share, rank in zip(self.ranked, self.ranks(part), strict=True):
                selected = shares[share.limit, share.name]
                ranked.append(selected)
                ranks.append(
                    int(rank / len(share.rows) * len(selected.rows)) if rank >= 0 else -1
                )
            thresholds = thresholds_at_ranks(ranked, ranks, selection, self.least_loss)
            answers = (selection.scores > thresholds[selection.place]).astype(np.intp)
            if all(
                self.is_likely(share, shares[share.limit, share.name], answers, part)
                for share in self.joint
            ):
                return part
        return PARTS[-1]

    def is_likely(self, share: Share, selected: Share, answers: Ints, part: float) -> bool:
        """Return whether a joint share is predicted to pass its test.

        ``answers`` are those to the selection data, of which ``selected`` has the same share.
        """
        n = len(share.rows)
        n_selected = len(selected.rows)
        rate = (np.sum(answers[selected.rows] == share.answer) + 0.5) / (n_selected + 1.0)
        noise = np.sqrt(rate * (1.0 - rate) * (1.0 / n + 1.0 / n_selected))
        return bool(self.most_counted(share, part) / n >= rate + ROOM * noise)

    @cached_property
    def least_loss(self) -> Floats:
        """The threshold of each group with the least expected loss on the selection data, shape (m,)."""
        selection, _ = self.selected
        assert self.family is not None
        thresholds = np.zeros(self.family.n_thresholds)
        for place in range(self.family.n_thresholds):
            possible, _ = possible_thresholds(selection.scores[selection.part(place)])
            thresholds[place] = possible[selection.loss(place, possible).argmin()]
        return thresholds

    @cached_property
    def opened_ranked(self) -> list[OpenedRows]:
        """The rows of the shares by group: the choice of a decimal as threshold reads no others."""
        is_ranked = np.zeros(len(self.rows.scores), dtype=bool)
        is_ranked[np.concatenate([share.rows for share in self.ranked])] = True
        opened = []
        start = 0
        for rows in self.fresh.opened:
            for table in rows.tables:
                here = np.flatnonzero(is_ranked[start : start + table.n_rows])
                if len(here):
                    opened.append(OpenedRows([table.part(here)]))
                start += table.n_rows
        return opened

    @property
    def may_keep_by_construction(self) -> bool:
        """Whether one of several groups may have one answer."""
        return True

    @property
    def level_of_test(self) -> float:
        """Level of the rank of one share."""
        assert self.family is not None
        return (1.0 - self.part) * self.level / self.family.n_thresholds

    @cached_property
    def family(self) -> ThresholdFamily | None:
        """The thresholds of each group; None if the rule has none."""
        return self.selection.family(by_group=True)

    @cached_property
    def rows(self) -> ScoredRows:
        """The fresh rows with their scores and thresholds."""
        assert self.family is not None
        return scored_fresh(self.selection, self.family, self.fresh)

    @cached_property
    def shares(self) -> list[Share]:
        """The limited shares on the fresh rows."""
        shares = []
        for limit in self.limits:
            samples = self.fresh.samples(limit.rate)
            rows_of = [(sample.name, sample.rows) for sample in samples]
            answer = counted_answer(limit.rate, self.fresh.answered.strata)
            shares += shares_of(limit, answer, rows_of) or []
        return shares

    @cached_property
    def ranked(self) -> list[Share]:
        """The limited shares of the rows of one threshold each, kept by ranks."""
        return [share for share in self.shares if len(share.places(self.rows)) == 1]

    @cached_property
    def joint(self) -> list[Share]:
        """The limited shares of the rows of several thresholds, kept by tests."""
        return [share for share in self.shares if len(share.places(self.rows)) > 1]

    @cached_property
    def selected(self) -> tuple[ScoredRows, dict[Any, Share]]:
        """The selection data with expected losses, and the limited shares on them by limit and subgroup."""
        assert self.family is not None
        selection, data = scored_selection(self.selection, self.family, expected=True)
        shares = {
            (share.limit, share.name): share
            for limit in self.limits
            for share in shares_on(limit, data)
            if len(share.rows)
        }
        return selection, shares
