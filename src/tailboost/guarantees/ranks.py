"""Ranks: thresholds at ranks of fresh scores, with true rates certified without a test.

Proofs and sources are in `tailboost.rates.bounds`. There are two procedures.

* *Limits on one side* (misses, false alarms, selection rates; of all rows, by class, group or cell). Each
  limited share has a largest number of rows with the limited answer. All thresholds within these numbers keep
  the limits together, and the thresholds with the smallest objective on the same rows are taken. No row is
  set aside. A group-aware rule may have limits on joined groups, such as misses by sex of a rule on age. Then
  there are two rules: one threshold for all groups, and thresholds by group within ranks and along a line,
  see `one_sided`. The first rule has the part `PART_OF_SIMPLER` of the level, and the second rule the rest.
  Both statements hold together, for any dependence. So the fresh rows may choose: the second rule if it is
  better by more than noise.
* *A gap or ratio* of such shares between groups with a threshold each. The selection data choose the ranks
  with the smallest expected objective among all certified vectors of ranks. Then the ranks are fixed, and the
  fresh rows only place the thresholds. Labels of fresh rows are not read for selection rates.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain
from typing import Any

import numpy as np
from scipy.ndimage import maximum_filter1d
from scipy.special import ndtri

from tailboost.core.array_types import Floats, Ints
from tailboost.guarantees.one_sided import (
    PART,
    PART_OF_LINE,
    BesideRoom,
    PlannedRoom,
    one_sided,
)
from tailboost.guarantees.procedure import (
    Certified,
    Procedure,
    Refused,
    divided,
    scored_fresh,
    scored_selection,
    simplest_certified,
    two_rules,
)
from tailboost.guarantees.ranks_and_test import RanksAndTest
from tailboost.guarantees.rate_bounds import percent
from tailboost.guarantees.shares import (
    ONE_ANSWER,
    Share,
    are_shares,
    fresh_ranks,
    fresh_shares,
    joins_thresholds,
    level_of_each,
    shares_on,
)
from tailboost.rates import Limit
from tailboost.rates.bounds import probability_within
from tailboost.selection.data import (
    BEYOND,
    COST_RESOLUTION,
    ScoredRows,
    possible_thresholds,
)

# Tried fractions of the rows, as the smallest rate of a gap or ratio, and parts of the bound by
# which the rates of the groups may differ on the selection data.
RATES = 125
ROOM = (0.0, 0.2, 0.4, 0.6, 0.8)
# Probability that a threshold between different scores is as near to a rank as the selection data say;
# otherwise there is no certificate.
REACHED = 0.995
# Room in standard deviations, below which ranks are hopeless; ranks of two groups with 95 % need about 1.6.
# In ten cases of benchmarks/power.py the same rules take half the seconds.
HOPELESS_ROOM = 1.2
# Allowed probability of continuous scores too close for a threshold at the ranks of a group.
TOO_CLOSE = 1e-4

THE_SELECTED_RULE = "the selected rule"
AT_RANKS = (
    "The thresholds of the rule are at ranks of the scores of these rows, which need no test."
)
BESIDE_ROOM = (
    f"The selecting rows predicted much room for {{limits}}: {percent(PART)} of the level is spent "
    "there, also by ranks, and the other limits have the rest."
)
ALONG_A_LINE = (
    f"The selecting rows fix a line of thresholds by group. Along it {{limits}} is kept, also by ranks, "
    f"with {percent(PART_OF_LINE)} of the level of this rule; the other limits have the rest."
)
OF_TWO_RULES = two_rules("One threshold for all groups", "thresholds by group")


# -- a gap or ratio ----------------------------------------------------------------------------------------


def ranks_of_comparison(
    limit: Limit,
    sizes: Sequence[int],
    selection: ScoredRows,
    shares: Sequence[Share],
    level: float,
) -> Ints | None:
    """Return the least and the largest number of rows of each share with the counted answer, shape (m, 2).

    The numbers of `ranges_by_loss` that certify the limit, with the least loss. None if there are none. They
    depend on the selection data alone, and the probability is exact for every range. So the certificate holds
    for any widths: with one that is too small, `at_ranks` finds no threshold, and nothing is certified.

    Parameters
    ----------
    limit, sizes, selection, shares
        As in `ranges_by_loss`.
    level : float
        Allowed probability of breaking the limit.
    """
    factor, gap = limit.pair
    for ranges in ranges_by_loss(limit, sizes, selection, shares):
        least, most = ranges.T
        if _is_hopeless(limit, least, most, np.array(sizes)):
            continue
        probability = probability_within(
            least.tolist(), most.tolist(), sizes, factor=factor, gap=gap
        )
        if probability >= 1.0 - level:
            return ranges
    return None


def ranges_by_loss(
    limit: Limit,
    sizes: Sequence[int],
    selection: ScoredRows,
    shares: Sequence[Share],
) -> list[Ints]:
    """Return ranges of numbers of rows of each share with the counted answer, the one of least loss first.

    Each has the least and the largest number, shape (m, 2), around a rank with a threshold nearby.

    Parameters
    ----------
    limit : Limit
        A gap or ratio.
    sizes : sequence of int
        Numbers of fresh rows of its shares.
    selection : ScoredRows
        The selection data with expected losses.
    shares : sequence of Share
        The shares with their rows among the selection data.
    """
    by_share = [_losses_by_rate(selection, share) for share in shares]
    options = _ranks_by_loss(limit, sizes, by_share)
    # One answer to all rows keeps a comparison by construction, so only better rules are tried.
    constant_loss = min(sum(losses[end] for _, losses in by_share) for end in (0, -1))
    distances = [
        _distances(selection, share, n) for share, n in zip(shares, sizes, strict=True)
    ]
    found = []
    # Each vector of ranks once.
    for ranks in dict.fromkeys(ranks for loss, ranks in options if loss < constant_loss):
        if not any(ranks) or ranks == tuple(sizes):  # one answer to all rows
            continue
        distance = np.array([at[rank] for at, rank in zip(distances, ranks, strict=True)])
        least = np.maximum(ranks - distance, 0)
        most = np.minimum(ranks + distance, sizes)
        found.append(np.stack([least, most], axis=1))
    return found


def _ranks_by_loss(
    limit: Limit, sizes: Sequence[int], by_share: Sequence[tuple[Floats, Floats]]
) -> list[tuple[float, tuple[int, ...]]]:
    """Return pairs of expected loss and ranks, sorted, of rules with rates within a limited window.

    A window is a range of rates allowed by the limit for all shares. In each window, every share has the rate
    with the least loss, and a rank for this rate.

    Parameters
    ----------
    limit : Limit
        A gap or ratio.
    sizes : sequence of int
        Numbers of fresh rows of the shares.
    by_share : sequence of (ndarray, ndarray)
        Rates and losses of each share, from `_losses_by_rate`.
    """
    options = []
    factor, gap = limit.pair
    for rate in np.linspace(0.5 / RATES, 1.0 - 0.5 / RATES, RATES):
        # A ratio of 0 allows all rates.
        widest = ((1.0 - factor) * rate + gap) / max(factor, 1e-9)
        for room in ROOM:
            largest_rate = min(1.0, rate + room * widest)
            loss_of_all = 0.0
            ranks = []
            for (rates, losses), n in zip(by_share, sizes, strict=True):
                best_rate, loss = _best_rate(rates, losses, rate, largest_rate)
                loss_of_all += loss
                ranks.append(min(round(best_rate * (n + 1)), n))
            options.append((loss_of_all, tuple(ranks)))
    return sorted(options)


def _is_hopeless(limit: Limit, least: Ints, most: Ints, sizes: Ints) -> bool:
    """Whether the rates of two groups cannot be close enough, by a normal approximation.

    The approximation saves exact probabilities. No certificate depends on it.
    """
    low = (least + 0.5) / (sizes + 1.0)
    high = (most + 0.5) / (sizes + 1.0)
    rooms = limit.rooms(high, low)
    deviations = limit.deviations(high * (1.0 - high) / (sizes + 2.0))
    is_pair = limit.comparison.pairs(len(sizes))
    return bool((rooms < HOPELESS_ROOM * deviations)[is_pair].any())


def _distances(rows: ScoredRows, share: Share, n: int) -> Ints:
    """Return the distance of each rank of n fresh rows to the next threshold, shape (n + 1,).

    The threshold is between different scores. On the selection data ``rows``, all nearby ranks, or `REACHED`
    of all ranks, have a threshold within this distance. So equal scores elsewhere do not count. Also
    continuous scores may be too close for a threshold, see `_half_run`.
    """
    scores = np.sort(rows.scores[share.rows])
    n_selected = len(scores)
    _, n_above = possible_thresholds(scores)
    ranks_with_threshold = n_above[::-1]  # ascending
    if share.answer == 0:
        ranks_with_threshold = n_selected - n_above
    ranks = np.arange(n_selected + 1)
    next_threshold = np.searchsorted(ranks_with_threshold, ranks)
    to_next = ranks_with_threshold[next_threshold] - ranks
    to_previous = np.abs(ranks - ranks_with_threshold[np.maximum(next_threshold - 1, 0)])
    distances = np.minimum(to_next, to_previous)
    # The score at a rank of the fresh rows has a rank so near to it on the selection data, with the
    # probability `REACHED`: the difference of two shares near 1/2 has the largest deviation.
    deviation = np.sqrt(0.25 * n_selected * (1.0 + n_selected / n))
    n_nearby = 1 + 2 * int(np.ceil(ndtri((1.0 + REACHED) / 2.0) * deviation))
    nearby = maximum_filter1d(distances, n_nearby, mode="nearest")
    selected_rank = np.round(np.linspace(0.0, n_selected, n + 1)).astype(np.intp)
    distances_of_ties = np.minimum(nearby, np.quantile(distances, REACHED))[selected_rank]
    of_ties = np.ceil(distances_of_ties * max(1.0, n / n_selected)).astype(np.intp)
    return np.minimum(n, of_ties + _half_run(scores, n))


def _half_run(scores: Floats, n: int) -> int:
    """Return half the number of n fresh rows in a row that are too close for a threshold between them.

    Among many more fresh rows also continuous scores may be closer than `COST_RESOLUTION`. If almost all of
    them are, the number is n. ``scores`` are those of the selection data, ascending.
    """
    # Spread of √n successive scores, if they are not all equal.
    n_selected = len(scores)
    n_neighbours = max(1, int(np.sqrt(n_selected)))
    widths = scores[n_neighbours:] - scores[:-n_neighbours]
    widths = widths[widths > COST_RESOLUTION]
    if not len(widths):
        return 0

    # Expected number of fresh rows within the resolution, and probability that the next row is
    # so close.
    expected_close = np.quantile(
        n / n_selected * n_neighbours * COST_RESOLUTION / widths, REACHED
    )
    chance_of_close = -np.expm1(-expected_close)
    if chance_of_close >= 1.0:
        return n
    # A run of so many close rows has the probability `TOO_CLOSE`; the middle is half a run away.
    run_length = np.log(TOO_CLOSE) / np.log(chance_of_close)
    return max(0, int(np.ceil((run_length - 1.0) / 2.0)))


def _losses_by_rate(rows: ScoredRows, share: Share) -> tuple[Floats, Floats]:
    """Return the possible rates of a share, ascending, and the loss at each, shape (k,) each.

    The loss is the sum over all rows with the threshold of the share, also rows outside of the rate.
    """
    (place,) = share.places(rows)
    thresholds, _ = possible_thresholds(rows.scores[rows.part(place)])
    scores = np.sort(rows.scores[share.rows])
    share_below = np.searchsorted(scores, thresholds, side="right") / len(scores)
    rates = share_below
    if share.answer == 1:
        rates = 1.0 - share_below
    order = np.argsort(rates, kind="stable")
    return rates[order], rows.loss(place, thresholds)[order]


def _best_rate(rates: Floats, losses: Floats, low: float, high: float) -> tuple[float, float]:
    """Return the rate in a window with the least loss, and this loss; losses are interpolated."""
    is_inside = (rates > low) & (rates < high)
    window_rates = np.r_[low, rates[is_inside], high]
    window_losses = np.r_[
        np.interp([low], rates, losses), losses[is_inside], np.interp([high], rates, losses)
    ]
    best = int(window_losses.argmin())
    return float(window_rates[best]), float(window_losses[best])


def at_ranks(
    shares: Sequence[Share], rank_ranges: Ints, rows: ScoredRows, n_thresholds: int
) -> Floats | None:
    """Return thresholds at which the stated numbers of rows get the counted answer, shape (m,).

    Of the thresholds with a number in the range of a share, the one nearest to the middle is taken. None if
    equal scores leave no such threshold: the limit then has no certificate.

    Parameters
    ----------
    shares : sequence of Share
        A share for each threshold.
    rank_ranges : ndarray of shape (m, 2)
        The least and the largest number of each share, from `ranks_of_comparison`.
    rows : ScoredRows
        The rows of the shares.
    n_thresholds : int
        m.
    """
    thresholds = np.empty(n_thresholds)
    for share, (least, most) in zip(shares, rank_ranges.tolist(), strict=True):
        possible, n_above = possible_thresholds(rows.scores[share.rows])
        n_counted = n_above
        if share.answer == 0:
            n_counted = len(share.rows) - n_above
        is_in_range = (least <= n_counted) & (n_counted <= most)
        if not is_in_range.any():
            return None
        distances_to_middle = np.abs(n_counted - (least + most) / 2)
        (place,) = share.places(rows)  # the rows of a share have one threshold
        thresholds[place] = possible[int(distances_to_middle.argmin())]
    return thresholds


# -- the procedure -----------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Ranks(Procedure):
    """Thresholds at ranks of the fresh scores, for limits on shares of one of two answers.

    Attributes
    ----------
    same_for_all : bool or None
        For limits on joined groups of a group-aware rule: whether all groups have the same threshold. None
        for the better of both rules.
    """

    same_for_all: bool | None = None

    title = "ranks"

    @property
    def may_fail(self) -> bool:
        """Whether several limits are kept, whose ranks may leave no threshold on other rows."""
        return len(self.limits) > 1

    @property
    def applies(self) -> bool:
        """Whether all limits are on shares, with ranks for the number of fresh rows.

        A gap or ratio must be the only limit, and each of its groups needs rows and a separate threshold.
        """
        objective = self.selection.problem.objective
        if not are_shares(objective, self.limits, self.fresh.answered.strata):
            return False
        if self.beside_room is not None:
            return True
        if RanksAndTest(self.selection, self.fresh, self.level).applies:
            return False
        if not self.compares:
            return bool(self.shares) and self.family is not None
        samples = self.fresh.samples(self.limits[0].rate)
        if len(self.limits) > 1 or not self.fresh.are_apart(samples):
            return False
        if not self.shares or self.family is None or self.selected_shares is None:
            return False
        if self.rank_ranges is None:
            return False
        return self.fresh.clusters is not None or not self.are_wide

    def run(self) -> Certified | Refused:
        """Return the rule of least loss within the ranks, or a refusal.

        The result is a refusal if no threshold keeps the limits, or if all rows get one answer. For limits
        on joined groups of a group-aware rule, the better of two rules is returned.
        """
        if self.has_two_rules:
            return self.simplest_of_two()

        if self.compares:
            thresholds = at_ranks(
                self.shares, self.rank_ranges, self.scored_fresh, self.family.n_thresholds
            )
            why = (
                f"equal scores leave no threshold at the ranks that certify {self.limits[0]!r}"
            )
        else:
            thresholds = self.one_sided_thresholds()
            why = "no threshold keeps all limits on these rows"
        if thresholds is None:
            # In a comparison the ranks were fixed before: nothing was tested.
            return Refused(self.fresh, THE_SELECTED_RULE, why, tested=not self.compares)
        if (thresholds <= -BEYOND).all() or (thresholds >= BEYOND).all():
            return Refused(self.fresh, THE_SELECTED_RULE, ONE_ANSWER)

        rule = self.selection.at(self.family, thresholds, fresh=self.fresh.opened)
        return Certified(rule, self.title, self.made)

    @cached_property
    def beside_room(self) -> BesideRoom | None:
        """The ranks of some limits, together with further limits with room; None if no limit has room.

        For thresholds by group, further limits along a line need no room.
        """
        if self.compares or self.same_for_all:
            return None
        family = self.selection.family(by_group=True) or self.selection.family(by_group=False)
        if family is None:
            return None
        planned = PlannedRoom(self.selection, family, self.limits, self.fresh, self.level)
        if self.same_for_all is False:
            planned = replace(planned, part=PART_OF_LINE, needs_room=False)
        return planned.beside_room

    def one_sided_thresholds(self) -> Floats | None:
        """Return the thresholds of least loss within limits on one side; None if there are none."""
        if self.beside_room is not None:
            return self.beside_room.thresholds()
        return one_sided(
            self.shares,
            self.ranks,
            self.scored_fresh,
            self.family.n_thresholds,
            self.scored_selection,
        )

    @property
    def made(self) -> str:
        """How the rule was made, for the certificate."""
        if self.beside_room is None:
            return AT_RANKS
        further = [*self.beside_room.roomy, *self.beside_room.joint]
        limits = " and ".join(dict.fromkeys(str(share.limit) for share in further))
        how = BESIDE_ROOM if self.same_for_all is None else ALONG_A_LINE
        return f"{AT_RANKS} {how.format(limits=limits)}"

    def simplest_of_two(self) -> Certified | Refused:
        """Return the rule with one threshold, or with thresholds by group if that rule is clearly better.

        The two rules divide the level, so both hold together.
        """
        results = [kind.run() for kind in self.kinds]
        result = results[simplest_certified(results, self.fresh)]
        if isinstance(result, Certified) and len(results) > 1:
            return replace(result, made=f"{result.made} {OF_TWO_RULES}")
        return result

    @cached_property
    def kinds(self) -> list[Ranks]:
        """One threshold for all groups, and thresholds by group along a line, with their parts of the level.

        Thresholds by group are left out if they keep no limit by group at ranks. On three tables (120 calls
        with misses of a second column) the error was .012 ± .006 lower than with selected thresholds by
        group, moved together. With the larger part for the rule preferred by the selection data, 373 instead
        of 392 of 396 calls were certified (11 tables, misses by two columns or of all rows). In calls
        certified in both ways, the error was .0024 ± .0014 lower.
        """
        one = replace(self, same_for_all=True)
        by_group = replace(self, same_for_all=False)
        if by_group.beside_room is None:
            return [one]
        level_of_one, level_of_groups = divided(self.level)
        return [replace(one, level=level_of_one), replace(by_group, level=level_of_groups)]

    @property
    def may_keep_by_construction(self) -> bool:
        """Whether one of several groups may have one answer."""
        return self.family is not None and self.family.n_thresholds > 1

    @property
    def level_of_test(self) -> float:
        """Level of the rank of one share; of one threshold, if thresholds by group are another rule."""
        if self.beside_room is not None:
            return self.beside_room.level_of_rank
        if self.has_two_rules:
            return max(kind.level_of_test for kind in self.kinds)
        return level_of_each(self.shares, self.family.n_thresholds, self.level)

    @property
    def has_two_rules(self) -> bool:
        """Whether the better of two rules is taken: with one threshold, or with thresholds by group.

        There are two if the rule reads the group, and a limit joins several of its groups.
        """
        if self.same_for_all is not None:
            return False
        reads_groups = self.selection.family(by_group=True) is not None
        return reads_groups and not self.family.by_group

    @property
    def compares(self) -> bool:
        """Whether a limit compares groups."""
        return any(limit.compares for limit in self.limits)

    @cached_property
    def shares(self) -> list[Share]:
        """The limited shares on the fresh rows."""
        return fresh_shares(self.limits, self.fresh)

    @cached_property
    def ranks(self) -> list[int]:
        """How many fresh rows of each share may have the limited answer, see `fresh_ranks`."""
        return fresh_ranks(self.shares, self.family.n_thresholds, self.level)

    @cached_property
    def family(self) -> Any:
        """The `ThresholdFamily`: of each group if each share is of one group, otherwise one for all rows.

        None if the rule has no such thresholds. Compared shares need a threshold each.
        """
        if self.beside_room is not None:
            return self.beside_room.family
        by_group = self.selection.family(by_group=True)
        if by_group is not None and not any(
            joins_thresholds(limit, self.selection, by_group) for limit in self.limits
        ):
            if not self.compares:
                return by_group
            rows = scored_fresh(self.selection, by_group, self.fresh)
            places_by_share = [share.places(rows).tolist() for share in self.shares]
            have_one_each = all(len(places) == 1 for places in places_by_share)
            distinct = set(chain.from_iterable(places_by_share))
            if have_one_each and len(distinct) == len(places_by_share):
                return by_group
        if self.compares:
            return None
        if self.same_for_all:
            return self.selection.one_threshold
        return self.selection.family(by_group=False)

    @cached_property
    def scored_fresh(self) -> ScoredRows:
        """The fresh rows with their scores."""
        return scored_fresh(self.selection, self.family, self.fresh)

    @cached_property
    def scored_selection(self) -> ScoredRows:
        """The selection data with their scores; in a comparison with expected losses, of less noise."""
        rows, _ = scored_selection(
            self.selection, self.family, self.fresh, expected=self.compares
        )
        return rows

    @cached_property
    def selected_shares(self) -> Any:
        """The compared shares on the selection data, a list of `Share`.

        None if a share has no rows or no separate threshold.
        """
        data = self.selection.thresholds(self.family).data
        by_name = {
            share.name: share for share in shares_on(self.limits[0], data) if len(share.rows)
        }
        names = [share.name for share in self.shares]
        if not by_name.keys() >= set(names) or self.family.n_thresholds != len(names):
            return None
        return [by_name[name] for name in names]

    @cached_property
    def rank_ranges(self) -> Any:
        """The least and largest number of rows with the counted answer, by share, shape (m, 2).

        None if no numbers certify the limit, see `ranks_of_comparison`.
        """
        return ranks_of_comparison(
            self.limits[0],
            [len(share.rows) for share in self.shares],
            self.scored_selection,
            self.selected_shares,
            self.level,
        )

    @property
    def are_wide(self) -> bool:
        """Whether equal scores take more room around the best ranks than the tests of a threshold would need.

        Tests of all pairs of groups need a margin of several standard deviations of a count. The ranks of
        least loss are judged, whether or not they certify the limit: others may lie apart from equal scores.
        """
        sizes = np.array([len(share.rows) for share in self.shares])
        least, most = ranges_by_loss(
            self.limits[0],
            sizes.tolist(),
            self.scored_selection,
            self.selected_shares,
        )[0].T
        rates = (least + most) / 2 / sizes
        n_pairs = len(sizes) * (len(sizes) - 1)
        n_deviations = -ndtri(self.level / n_pairs)
        margins = n_deviations * np.sqrt(sizes * rates * (1.0 - rates))
        return bool(((most - least) / 2 > margins).any())
