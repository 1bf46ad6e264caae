"""Thresholds at ranks for limits on one side, alone or beside limits that have much room.

Shares of rows are limited from one side: misses, false alarms, selection rates. A limit on the rows of one
threshold bounds this threshold at a rank of their scores, see `windows`. A further limit may join the rows of
several thresholds, or limit the other answer. If such a limit has room on the selection data, the rule stays
one of thresholds, and the further limits need less than half of the level α. They have the part s α, with
s = `PART`, and the ranks of the other limits (1 − s) α. A further limit on the rows of one threshold has a
rank too. A limit on joined rows has a line:

* The selection data fix thresholds t₁, …, t_m, and so a line of rules: rule λ has the thresholds t_g + λ.
  Rule λ is one threshold λ on the score less t_g. So a rank of these differences gives λ₁: all rules with
  λ < λ₁ keep the limits on the answer 0, except with the probability of their level.
* Let a rule have thresholds τ_g < t_g + λ₁ in all groups g. For some λ < λ₁ no τ_g is above t_g + λ. So all
  rows with the answer 0 have this answer under rule λ too, and rule λ keeps the limits on this answer. Then
  the rule with thresholds τ keeps them as well. Limits on the answer 1 have a line from the other side.

Both statements hold with a probability of 1 − α. Then all rules within the ranks and the line keep all
limits, so `one_sided` may take the rule of least loss on these rows. The line contains all rows in the
denominator of a limit, including rows of groups without a limit. The selection data and the number of fresh
rows predict whether a limit has room, so this choice of a procedure uses no part of the level.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from typing import Any

import numpy as np

from tailboost.core.array_types import Floats
from tailboost.guarantees.fresh_rows import FreshRows
from tailboost.guarantees.limited_rates import power_of_shares
from tailboost.guarantees.procedure import scored_fresh, scored_selection
from tailboost.guarantees.shares import (
    Share,
    fresh_ranks,
    fresh_shares,
    joins_thresholds,
    level_of_each,
    ranks_of,
    shares_on,
)
from tailboost.guarantees.thresholds import limited_rates
from tailboost.rates import Limit
from tailboost.selection.data import BEYOND, ScoredRows, SelectionData, ThresholdFamily

# Part of the level for limits with room, and for limits along a line without this condition (`needs_room`).
PART = 0.1
PART_OF_LINE = 0.5
# A limit has room if its predicted probability to pass at this part of the level is at least so large.
LEAST_POWER = 0.8
LARGEST_SCORE = BEYOND - 1.0
NO_ROWS = ScoredRows(np.zeros(0), np.zeros(0, dtype=np.intp), np.zeros((0, 2)))


def windows(
    shares: Sequence[Share], rows: ScoredRows, n_thresholds: int, ranks: Sequence[int]
) -> tuple[Floats, Floats]:
    """Return the lowest and the highest value of each threshold within all limits, shape (m,) each.

    A threshold strictly between the two keeps all limits. They are infinite without a limit.

    Parameters
    ----------
    shares : sequence of Share
        The limited shares with their rows.
    rows : ScoredRows
        The rows with their scores and the numbers of their thresholds.
    n_thresholds : int
        Number of thresholds m.
    ranks : sequence of int
        How many rows of each share may have the counted answer, from `ranks_of`; −1 if no value keeps the
        limit.
    """
    lowest = np.full(n_thresholds, -np.inf)
    highest = np.full(n_thresholds, np.inf)
    for share, rank in zip(shares, ranks, strict=True):
        scores = np.sort(rows.scores[share.rows])
        places = share.places(rows)
        if rank >= len(scores):
            continue  # all rows may have the answer
        # Scores up to the threshold have answer 0, scores above the threshold answer 1.
        if share.answer == 0:
            end = scores[rank] if rank >= 0 else -np.inf
            highest[places] = np.minimum(highest[places], end)
        else:
            end = scores[len(scores) - 1 - rank] if rank >= 0 else np.inf
            lowest[places] = np.maximum(lowest[places], end)
    return lowest, highest


def one_sided(
    shares: Sequence[Share],
    ranks: Sequence[int],
    rows: ScoredRows,
    n_thresholds: int,
    others: ScoredRows,
) -> Floats | None:
    """Return the thresholds of least loss within all ranks, shape (m,); None if there are none.

    Parameters
    ----------
    shares, ranks : sequence
        The limited shares, and how many rows of each may have the limited answer.
    rows : ScoredRows
        The fresh rows.
    n_thresholds : int
        m.
    others : ScoredRows
        Further rows for the loss alone, such as the selection data.
    """
    lowest, highest = windows(shares, rows, n_thresholds, ranks)
    return with_least_loss_between(lowest, highest, rows, others)


def with_least_loss_between(
    lowest: Floats, highest: Floats, rows: ScoredRows, others: ScoredRows
) -> Floats | None:
    """Return the thresholds of least loss strictly between two values, shape (m,); None if there are none.

    ``lowest`` and ``highest``, shape (m,), are −∞ and ∞ for a threshold that may give all rows one answer.
    ``rows`` and ``others`` are as in `one_sided`.
    """
    n_thresholds = len(lowest)
    thresholds = np.empty(n_thresholds)
    for place in range(n_thresholds):
        possible, losses = rows.loss_curve(place)
        is_within = (possible > lowest[place]) & (possible < highest[place])
        # At both ends all rows have one answer. A limit on the other answer is kept by construction,
        # without a test.
        is_within[0] = lowest[place] == -np.inf
        is_within[-1] = highest[place] == np.inf
        if not is_within.any():
            return None
        possible = possible[is_within]
        loss = losses[is_within] + others.loss(place, possible)
        thresholds[place] = possible[loss.argmin()]
    return thresholds


def within_ranks_and_line(
    rows: ScoredRows,
    line: Floats,
    shares: Sequence[Share],
    ranks: Sequence[int],
    joint: Sequence[Share],
    ranks_of_joint: Sequence[int],
) -> Floats | None:
    """Return the thresholds of least loss within ranks and along a line, shape (m,); None if there are none.

    Parameters
    ----------
    rows : ScoredRows
        The rows with the loss. Thresholds lie between their scores.
    line : ndarray of shape (m,)
        The thresholds t_g of the line.
    shares, ranks : sequence
        The limited shares on the rows of one threshold, and how many rows of each may have the limited
        answer.
    joint, ranks_of_joint : sequence
        The shares with joined rows of several thresholds, and their ranks along the line.
    """
    m = len(line)
    lowest, highest = windows(shares, rows, m, ranks)
    along = _along(rows, line)
    (line_lowest,), (line_highest,) = windows(joint, along, 1, ranks_of_joint)
    for place in range(m):
        part = rows.part(place)
        # The ends are scores of rows, because thresholds between two rows are one rule.
        if line_highest < np.inf:
            below = rows.scores[part & (along.scores <= line_highest)]
            highest[place] = min(highest[place], below.max(initial=-np.inf))
        if line_lowest > -np.inf:
            above = rows.scores[part & (along.scores >= line_lowest)]
            lowest[place] = max(lowest[place], above.min(initial=np.inf))
    return with_least_loss_between(lowest, highest, rows, NO_ROWS)


@dataclass(frozen=True, eq=False)
class BesideRoom:
    """Thresholds at the ranks of some limits, within the line of further limits with room.

    Attributes
    ----------
    family : ThresholdFamily
        The thresholds: one for all rows, or one for each group.
    ranked, roomy : list of Share
        The shares kept by ranks, each on the rows of one threshold: roomy ones have room on the other answer.
    joint : list of Share
        The shares kept along the line, with joined rows of several thresholds.
    line : ndarray of shape (m,)
        The thresholds t_g of the line.
    fresh, selected : ScoredRows
        The fresh rows and the selection data.
    level : float
        Allowed probability of a broken limit.
    part : float
        Part of the level for the further limits.
    """

    family: ThresholdFamily
    ranked: list[Share]
    roomy: list[Share]
    joint: list[Share]
    line: Floats
    fresh: ScoredRows
    selected: ScoredRows
    level: float
    part: float

    @property
    def level_of_rank(self) -> float:
        """Level of the rank of one share in ``ranked``."""
        return level_of_each(
            self.ranked, self.family.n_thresholds, (1.0 - self.part) * self.level
        )

    def thresholds(self) -> Floats | None:
        """Return the thresholds of least loss within the ranks and the line; None if there are none."""
        m = self.family.n_thresholds
        n_kinds = max(1, bool(self.roomy) + bool(self.joint))
        level_of_each_kind = self.part * self.level / n_kinds
        ranks = fresh_ranks(self.ranked, m, (1.0 - self.part) * self.level)
        ranks += fresh_ranks(self.roomy, m, level_of_each_kind)
        ranks_of_joint = fresh_ranks(self.joint, 1, level_of_each_kind)
        return within_ranks_and_line(
            self.rows, self.line, [*self.ranked, *self.roomy], ranks, self.joint, ranks_of_joint
        )

    @property
    def rows(self) -> ScoredRows:
        """The fresh rows, then the selection data."""
        return self.fresh.joined(self.selected)


@dataclass(frozen=True, eq=False)
class PlannedRoom:
    """The plan of a `BesideRoom`: the selection data predict which limits have room.

    Attributes are as in `BesideRoom`. All limits are on shares of one of two answers. With
    ``needs_room=False`` all limits count as limits with room, and joined ones may raise the loss.
    """

    selection: Any
    family: ThresholdFamily
    limits: Sequence[Limit]
    fresh: FreshRows
    level: float
    part: float = PART
    needs_room: bool = True

    @property
    def beside_room(self) -> BesideRoom | None:
        """The procedure; None unless it `is_possible`, with ranked shares and with roomy or joint ones.

        Only the selection data and numbers of fresh rows decide this.
        """
        if not self.is_possible:
            return None
        ranked, roomy, joint = self.divided_shares
        if not ranked or not (roomy or joint):
            return None
        selected, _ = scored_selection(self.selection, self.family, self.fresh, expected=False)
        return BesideRoom(
            self.family,
            ranked=ranked,
            roomy=roomy,
            joint=joint,
            line=self.line(ranked[0].answer),
            fresh=self.fresh_rows,
            selected=selected,
            level=self.level,
            part=self.part,
        )

    @property
    def is_possible(self) -> bool:
        """Whether the procedure applies: several limits, shares with fresh rows.

        Rows of selection data must be independent, and every fresh row needs a threshold.
        """
        if len(self.limits) < 2:
            return False
        if not self.selection.has_independent_cases:
            return False
        have_rows = all(len(share.rows) for share in chain.from_iterable(self.shares))
        have_thresholds = bool((self.fresh_rows.place < self.family.n_thresholds).all())
        return all(self.shares) and have_rows and have_thresholds

    @cached_property
    def shares(self) -> list[list[Share]]:
        """The limited shares of each limit on the fresh rows."""
        return [fresh_shares([limit], self.fresh) for limit in self.limits]

    @cached_property
    def fresh_rows(self) -> ScoredRows:
        """The fresh rows with their scores and thresholds."""
        return scored_fresh(self.selection, self.family, self.fresh)

    @cached_property
    def expected(self) -> tuple[ScoredRows, SelectionData]:
        """The selection data with their scores and expected losses, and the data themselves."""
        return scored_selection(self.selection, self.family, self.fresh, expected=True)

    @cached_property
    def joins(self) -> list[bool]:
        """For each limit, whether one of its shares joins rows of several thresholds."""
        return [joins_thresholds(limit, self.selection, self.family) for limit in self.limits]

    @cached_property
    def start(self) -> Floats | None:
        """The thresholds of least expected loss within all limits without joined rows, shape (m,).

        The ranks for the numbers of fresh rows are scaled to the selection rows. None if no thresholds are
        within them.
        """
        m = self.family.n_thresholds
        expected, data = self.expected
        pairs = zip(self.limits, self.joins, strict=True)
        limits_of_one_threshold = [limit for limit, joins in pairs if not joins]
        shares = [
            share
            for limit in limits_of_one_threshold
            for share in shares_on(limit, data)
            if len(share.rows)
        ]
        if not shares:
            return None
        sizes = [len(share.rows) for share in shares]
        fresh_sizes = [max(1, int(self.ratio * size)) for size in sizes]
        fresh_ranks = ranks_of(shares, fresh_sizes, m, self.level)
        ranks = [
            int(np.floor(rank / fresh_size * size))
            for rank, fresh_size, size in zip(fresh_ranks, fresh_sizes, sizes, strict=True)
        ]
        return one_sided(shares, ranks, expected, m, NO_ROWS)

    @property
    def ratio(self) -> float:
        """The number of fresh rows, divided by the number of selection rows."""
        selected, _ = self.expected
        return len(self.fresh_rows.scores) / len(selected.scores)

    def line(self, answer: int) -> Floats:
        """Return the thresholds t_g of the line, shape (m,), from the limited answer.

        They are the scores next to `start`: the next above for the answer 0, the next at or below for 1. So
        equal scores cost nothing: if the start keeps the limits, the line contains the start.
        """
        assert self.start is not None
        rows, _ = self.expected
        line = np.clip(self.start, -LARGEST_SCORE, LARGEST_SCORE)
        for place, threshold in enumerate(self.start):
            scores = rows.scores[rows.part(place)]
            above = scores[scores > threshold]
            below = scores[scores <= threshold]
            if answer == 0 and len(above):
                line[place] = above.min()
            if answer == 1 and len(below):
                line[place] = below.max()
        return line

    @cached_property
    def have_room(self) -> list[bool]:
        """For each limit, whether its predicted power at the start of the line is at least `LEAST_POWER`.

        A limit has no room if the selection data have no rows of one of its subgroups.
        """
        if not self.needs_room:
            return [True] * len(self.limits)
        assert self.start is not None
        selected, data = self.expected
        along = _along(selected, self.start).scores
        have_room = []
        for limit, shares in zip(self.limits, self.shares, strict=True):
            rates = limited_rates(limit, data.strata, data.stratum, data.probabilities)
            powers = []
            for rate in rates:
                predicted, n_rows = rate.predicted_shares(along, np.zeros(1))
                power = power_of_shares(
                    predicted, n_rows, rate.largest_share, self.ratio, self.part * self.level
                )
                powers.append(float(power[0]))
            all_are_selected = len(rates) >= len(shares)
            have_room.append(all_are_selected and min(powers) >= LEAST_POWER)
        return have_room

    @property
    def divided_shares(self) -> tuple[list[Share], list[Share], list[Share]]:
        """The ``ranked``, ``roomy`` and ``joint`` shares of a `BesideRoom`.

        All three are empty without a start, without room for a limit with joined rows, or if limits on both
        answers need the larger part of the level.
        """
        ranked: list[Share] = []
        roomy: list[Share] = []
        joint: list[Share] = []
        if self.start is None:
            return ranked, roomy, joint

        by_limit = list(zip(self.shares, self.joins, self.have_room, strict=True))
        tight_answers = {
            shares[0].answer for shares, joins, has_room in by_limit if joins or not has_room
        }
        some_joint_is_tight = any(joins and not has_room for _, joins, has_room in by_limit)
        if len(tight_answers) != 1 or some_joint_is_tight:
            return ranked, roomy, joint

        for shares, joins, _ in by_limit:
            if joins:
                joint += shares
            elif shares[0].answer in tight_answers:
                ranked += shares
            else:
                roomy += shares
        return ranked, roomy, joint


def _along(rows: ScoredRows, start: Floats) -> ScoredRows:
    """Return rows with their scores less the threshold of their group, and one threshold for all."""
    scores = rows.scores - start[rows.place]
    return ScoredRows(scores, np.zeros_like(rows.place), rows.losses)
