"""Limited shares of rows with one of two answers, and ranks of scores within the limits."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tailboost.core.array_types import Ints
from tailboost.guarantees.fresh_rows import FreshRows
from tailboost.guarantees.procedure import losses_of
from tailboost.rates import Limit, Objective, Rate, Strata
from tailboost.rates.bounds import most_reached
from tailboost.selection.data import ScoredRows, SelectionData, ThresholdFamily

# Why a rule at ranks is refused although the ranks certify it.
ONE_ANSWER = (
    "the rule with the least loss within the limits gives every row the same answer; check "
    "that the scores belong to these rows and labels, or state a limit that this answer breaks"
)


@dataclass(frozen=True, eq=False)
class Share:
    """A limited rate as the share of some rows with one of two answers, and the largest allowed share."""

    limit: Limit
    name: Any  # of the subgroup
    rows: Ints  # numbers of the rows
    answer: int  # the counted answer: 0 or 1
    largest: float  # the largest allowed share; NaN in a comparison

    def places(self, rows: ScoredRows) -> Ints:
        """Return the numbers of the rows' thresholds."""
        return np.unique(rows.place[self.rows])


def counted_answer(rate: Rate, strata: Strata) -> int | None:
    """Return the answer, 0 or 1, counted by a share of fixed rows; None for other rates.

    Other rates need costs, have other than two classes and answers, count a row in part, or count rows that
    depend on the answer, as a precision does.
    """
    if rate.needs_costs or strata.n_classes != 2 or strata.n_actions != 2:
        return None
    # Both tables have the shape (subgroups, strata, answers).
    _, counted, among = rate.by_subgroup(strata)
    rows_count_whole = np.isin(among, [0.0, 1.0]).all()
    depends_on_answer = (among[..., 0] != among[..., 1]).any()
    if not rows_count_whole or depends_on_answer:
        return None
    counted_by_answer = counted[among[..., 0] == 1.0]  # a row for each stratum that counts
    if len(counted_by_answer) == 0:
        return None
    for answer in (0, 1):
        if (counted_by_answer == np.eye(2)[answer]).all():
            return answer
    return None


def shares_of(
    limit: Limit, answer: int | None, rows_of: Sequence[tuple[Any, Ints]]
) -> list[Share] | None:
    """Return the limited shares by subgroup; None if the rate is no share of one answer.

    ``answer`` is from `counted_answer`. ``rows_of`` has the name and the counted rows of each subgroup.
    Subgroups without a limit are left out. A limit from below becomes one from above on the other answer.
    """
    if answer is None:
        return None
    if limit.compares:
        return [Share(limit, name, rows, answer, np.nan) for name, rows in rows_of]
    largest_shares = limit.against(limit.bounds([name for name, _ in rows_of]))
    if not limit.from_above:
        answer = 1 - answer
    pairs = zip(rows_of, largest_shares.tolist(), strict=True)
    return [
        Share(limit, name, rows, answer, largest)
        for (name, rows), largest in pairs
        if not np.isnan(largest)
    ]


def are_shares(objective: Objective, limits: Sequence[Limit], strata: Strata) -> bool:
    """Whether limits are on shares of one of two answers to fixed rows, and the objective sums losses."""
    if strata.defers or losses_of(objective, strata) is None:
        return False
    return all(counted_answer(limit.rate, strata) is not None for limit in limits)


def fresh_shares(limits: Sequence[Limit], fresh: FreshRows) -> list[Share]:
    """Return the shares of all limits with their rows among the fresh rows."""
    shares = []
    for limit in limits:
        rows_of = [(sample.name, sample.rows) for sample in fresh.samples(limit.rate)]
        answer = counted_answer(limit.rate, fresh.answered.strata)
        shares += shares_of(limit, answer, rows_of) or []
    return shares


def shares_on(limit: Limit, data: SelectionData) -> list[Share]:
    """Return the shares of a limit with their rows among the selection data."""
    samples = limit.rate.samples(data.strata, data.stratum, np.zeros(len(data), dtype=np.intp))
    answer = counted_answer(limit.rate, data.strata)
    return shares_of(limit, answer, [(sample.name, sample.rows) for sample in samples]) or []


def joins_thresholds(limit: Limit, selection: Any, family: ThresholdFamily) -> bool:
    """Return whether a limited subgroup has strata of several thresholds, with or without rows.

    The strata are those of the selecting rows, so the answer is fixed before fresh rows are read. A group may
    be absent from these by chance, and then chance would choose between two procedures and add their levels.

    Parameters
    ----------
    limit : Limit
        A limit on shares.
    selection : Selection
        The selection, with its rows.
    family : ThresholdFamily
        The thresholds, and which strata have which.
    """
    strata = selection.thresholds(family).data.strata
    names, _, among = limit.rate.by_subgroup(strata)
    is_limited = np.ones(len(names), dtype=bool)
    if not limit.compares:
        is_limited = ~np.isnan(limit.bounds(names))
    in_subgroup = among[is_limited].max(axis=2) > 0  # shape (subgroups, strata)
    return any(len(np.unique(family.place[its_strata])) > 1 for its_strata in in_subgroup)


def ranks_of(
    shares: Sequence[Share], sizes: Sequence[int], n_thresholds: int, level: float
) -> list[int]:
    """Return how many rows of each share may be above its threshold (or below); −1 for none.

    For one threshold, let the shares of one answer be kept up to the values t₁*, …, t_J*. The threshold
    breaks a limit only above the smallest of these values, t_j* of share j. The threshold is within the
    rank of share j, and this rank is above t_j* with a probability of at most the level. So the shares of
    an answer need no correction. Both answers divide the level, and so do several thresholds.

    A share may have rows of several thresholds. One threshold t_j* for all its rows keeps it, so thresholds
    up to t_j* keep it too. A threshold above t_j* of one of its shares is above the smallest of these values.

    Parameters
    ----------
    shares : sequence of Share
        All limited shares.
    sizes : sequence of int
        Their numbers of fresh rows.
    n_thresholds : int
        Number of thresholds m.
    level : float
        Allowed probability of a broken limit.
    """
    level_of_rank = level_of_each(shares, n_thresholds, level)
    return [
        most_reached(n, share.largest, level_of_rank)
        for share, n in zip(shares, sizes, strict=True)
    ]


def fresh_ranks(shares: Sequence[Share], n_thresholds: int, level: float) -> list[int]:
    """Return how many of its fresh rows each share may have with the limited answer, see `ranks_of`."""
    return ranks_of(shares, [len(share.rows) for share in shares], n_thresholds, level)


def level_of_each(shares: Sequence[Share], n_thresholds: int, level: float) -> float:
    """Return the level of each rank, see `ranks_of`."""
    return level / (n_thresholds * max(1, len({share.answer for share in shares})))
