"""Ranks for limits on errors, and one exact test for each limit on deferral.

"Misses at most 10 % and false alarms at most 5 % in each group, at most 20 % deferred" limits the first
threshold of a group by ill rows alone, the second one by well rows alone, and the share of deferred rows by
all thresholds together. A human decides between the two thresholds. The procedure has three steps:

1. At first all rows are deferred. The selection data have cells, the rows of a threshold between two
   scores, and an order in which cells get an answer: those of the surest answers first. From the lowest
   scores upwards they get the first label, from the highest downwards the second one.
2. A limit on errors stops the thresholds of its rows before the first cell in whose turn its errors are
   beyond a rank, see `tailboost.guarantees.shares.ranks_of`. The turns of a limit on several pairs of
   thresholds are those of all their cells. Limits with the same answer and pairs are a chain. Each chain
   has the level α₁ divided by the number of chains, so all limits on errors are kept together.
3. Each number of answered cells is a rule. One of those that pass the exact tests of all limits on
   deferral is certified: the one of least expected loss on the selection data. J limited shares of deferred
   rows are tested at the level α₂ / J each.

With limits on deferral α₁ is .8 α and α₂ is .2 α, without α₁ is α.

*Proof of the test of deferral.* The answered region depends on the fresh rows, because thresholds stop. Yet
a test of a fixed rule is valid for all rules of the sequence together. Let n be the number of fresh rows that
count in a limit "at most d deferred", p = 1 − d, and let b be the least number of answered rows that passes
the test: P(Bin(n, p) ≥ b) ≤ α₂ / J. For a region with the probability P < p and N answered rows, let
U(N, P) = P(N + Bin(n − N, (p − P) / (1 − P)) ≥ b). The next cell has the probability q and K rows. Without
stops, K would be Bin(n − N, q / (1 − P)), and U(N + K, P + q) would have the mean U(N, P); it grows with K.
Two events make K differ from this. The cell is answered only if few limited errors are in it, and earlier
cells were left out because many are in them. Given K = k, neither gets more probable with larger k: the rows
of a cell are independent, and more of them in one cell leave fewer for the others. So the distribution of K,
given both events, is the binomial one with weights that decrease in k. Then the mean of U(N + K, P + q) is
at most U(N, P). If no cell is answered, U does not change. So U is a supermartingale, up to the answer that
makes P larger than p. It is 1 for each rule with P < p that passes. So some rule that breaks the limit passes
with a probability of at most U(0, 0) ≤ α₂ / J. ∎

A cell whose errors were counted, and which is left out, may get the other answer later. Its rows count as
deferred in the tests, so U does not grow in the mean when they are counted. Of a limit on one pair this is
the cell at which its threshold stops. A limit on several pairs counts the errors of all cells up to its own
stop, or to the last stop of its thresholds, also where another limit has stopped a threshold before.

A limit on the deferral of one group concerns the cells of this group alone. Their order is fixed, whatever
cells of other groups come between them. So a group first answers what its own limits on deferral need, and
only then the surest cells of all groups come first. This order depends on the numbers of answered rows, which
the proof takes as known. A test of several groups together allows it if each limit on errors has one pair.
With one order of all cells by price, a group of 2 % of the rows that had to answer nearly all of them removed
deferral from all other groups.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from tailboost.core.array_types import Floats, Ints, Mask
from tailboost.guarantees.certifiable import Pair
from tailboost.guarantees.joint_power import FIRST, SECOND
from tailboost.guarantees.limited_rates import limited_names
from tailboost.guarantees.procedure import (
    Certified,
    Procedure,
    Refused,
    drawn_rows,
    losses_of,
    scored_fresh,
)
from tailboost.guarantees.rate_bounds import percent
from tailboost.guarantees.score_path import families_of
from tailboost.guarantees.shares import ONE_ANSWER
from tailboost.rates import Limit, Rate, Strata
from tailboost.rates.bounds import each_most_reached, most_reached

DEFERRED = 2  # beside FIRST and SECOND
# Part of the level for the limits on errors. With .8, 202 of 240 calls are certified, with .9, .7 and .5 201,
# 200 and 195 (six kinds of limits, four made tables, 1,500 and 5,000 rows).
PART_OF_ERRORS = 0.8
NEVER = np.iinfo(np.intp).max
FEWEST_DEFERRED = "the rule of fewest deferred rows within the ranks of the errors"
OUTSIDE = "no thresholds within the ranks of the errors keep the limits on deferral"
AT_RANKS = "Each threshold is within a rank of the scores of these rows, which needs no test."
BESIDE = (
    f" The ranks have {percent(PART_OF_ERRORS)} of the level. With the rest, the share of deferred rows was "
    "tested. Thresholds were moved in an order fixed before these rows were used."
)


@dataclass(frozen=True, eq=False)
class CountedShare:
    """A limited share of fresh rows with one answer.

    Attributes
    ----------
    rate, name : Rate, object
        The rate and its subgroup.
    answer : int
        The only answer that counts against the limit.
    counted : ndarray of bool, shape (S,)
        Whether the rows of a stratum count.
    largest : float
        The largest allowed share.
    """

    rate: Rate
    name: Any
    answer: int
    counted: Mask
    largest: float


class RanksBesideDeferral(Procedure):
    """Thresholds within ranks for limits on errors, and exact tests of limits on deferral."""

    title = "ranks of errors and a test of deferral"

    @cached_property
    def applies(self) -> bool:
        """Whether a rule on one score defers, and each limit is on shares of rows with one answer.

        Each limited group has fresh rows. Compared with `ScorePath`, the error is
        .075 ± .045, .026 ± .009 and .017 ± .009 lower with 1,000, 3,000 and 8,000 rows (misses of groups with
        thresholds by group, 36 pairs, four made tables). The fewest deferred rows within both errors of
        groups are .131 ± .049, .116 ± .037 and .092 ± .015 fewer. With misses of all rows and thresholds by
        group, the error is .078 ± .057 and .041 ± .027 lower with 1,000 and 3,000 rows (12 pairs each).
        """
        strata = self.fresh.answered.strata
        if self.odds is None or not self.odds.data.strata.defers:
            return False
        if losses_of(self.selection.problem.objective, strata) is None:
            return False
        if any(restricted_answer(limit, strata) is None for limit in self.limits):
            return False
        families = families_of(self.limits, strata)
        if not all(family.has_strata.all() for family in families):
            return False
        return bool(self.of_errors) and bool((self.odds.places_of(strata) >= 0).all())

    @cached_property
    def odds(self) -> Any:
        """The score of the rows of the selection data, `LogOdds`; None if the rule reads no single score."""
        return self.selection.log_odds

    @cached_property
    def shares(self) -> list[CountedShare]:
        """The limited shares of all limits."""
        strata = self.fresh.answered.strata
        return [share for limit in self.limits for share in shares_of_limit(limit, strata)]

    @property
    def of_errors(self) -> list[CountedShare]:
        """The limited shares of rows with an error."""
        return [share for share in self.shares if share.answer != DEFERRED]

    @property
    def of_deferral(self) -> list[CountedShare]:
        """The limited shares of deferred rows."""
        return [share for share in self.shares if share.answer == DEFERRED]

    @property
    def may_keep_by_construction(self) -> bool:
        """Whether one of several groups may have no row with a limited answer."""
        return self.n_places > 1

    @property
    def chances(self) -> DrawnChances:
        """The chances of deferral on new rows: errors are within their ranks on any rows."""
        return DrawnChances(self)

    @cached_property
    def chains(self) -> dict[tuple[int, tuple[int, ...]], list[CountedShare]]:
        """The limited errors by answer and places."""
        chains: dict[tuple[int, tuple[int, ...]], list[CountedShare]] = {}
        for share in self.of_errors:
            places = tuple(np.unique(self.places[share.counted]).tolist())
            chains.setdefault((share.answer, places), []).append(share)
        return chains

    @property
    def level_of_test(self) -> float:
        """Level of the ranks of one chain."""
        part = PART_OF_ERRORS if self.of_deferral else 1.0
        return part * self.level / len(self.chains)

    @property
    def level_of_deferral(self) -> float:
        """Level of the test of one share of deferred rows."""
        return (1.0 - PART_OF_ERRORS) * self.level / max(1, len(self.of_deferral))

    def run(self) -> Certified | Refused:
        """Return the rule of least loss among those within the ranks that pass the tests of deferral."""
        order = self.order
        passes = self.keeps_deferral(order)
        n_answered = len(order)
        if passes.any():
            losses = np.where(passes, self.losses(order), np.inf)
            # Of equal losses the rule that defers fewer rows.
            n_answered -= int(losses[::-1].argmin())
        rule = self.rule(order, n_answered)
        answered = self.fresh.by(rule)
        if len(np.unique(answered.answered.actions)) == 1:
            return Refused(answered, FEWEST_DEFERRED, ONE_ANSWER, parts=self.parts)
        if not passes.any():
            return Refused(answered, FEWEST_DEFERRED, OUTSIDE, parts=self.parts)
        return Certified(rule, self.title, AT_RANKS + (BESIDE if self.of_deferral else ""))

    # -- fresh rows in cells ---------------------------------------------------------------------------

    @cached_property
    def rows(self) -> Floats:
        """Numbers of fresh rows by stratum and cell, of clusters one random row each, shape (S, V)."""
        thresholds = self.odds.thresholds(np.arange(1, self.n_cells))
        cell = np.searchsorted(thresholds, self.scores, side="right")
        answered = self.fresh.answered
        n_strata = len(answered.strata.y)
        votes = self.fresh.voters(np.arange(len(self.fresh)))
        numbers = np.bincount(
            answered.stratum[votes] * self.n_cells + cell[votes],
            minlength=n_strata * self.n_cells,
        )
        return numbers.reshape(n_strata, self.n_cells).astype(np.float64)

    @cached_property
    def scores(self) -> Floats:
        """Score of each fresh row, on the side of each threshold on which rules answer it, shape (n,)."""
        return scored_fresh(
            self.selection, self.odds.family, self.fresh, between_selected=True
        ).scores

    @cached_property
    def places(self) -> Ints:
        """Number of the pair of thresholds of each stratum of the fresh rows, shape (S,)."""
        return self.odds.places_of(self.fresh.answered.strata)

    @property
    def n_places(self) -> int:
        """Number m of pairs of thresholds."""
        return int(self.odds.places.max()) + 1

    @property
    def n_cells(self) -> int:
        """Number V of cells of a pair of thresholds."""
        return len(self.odds.values)

    # -- steps 1 and 2 ---------------------------------------------------------------------------------

    def end_of(self, rows: Floats, share: CountedShare, places: Sequence[int]) -> Ints:
        """Return the time of the first cell beyond the rank of a limited error; NEVER if there is none.

        ``rows`` are as `rows`, or several draws of them, shape (..., S, V); the times have the shape (...).
        """
        times = self.times[share.answer, places].ravel()
        by_time = times.argsort()
        errors = self.by_place(rows * share.counted[:, None])[..., list(places), :]
        errors = errors.reshape(*rows.shape[:-2], -1)[..., by_time].cumsum(axis=-1)
        n = errors[..., -1].astype(np.intp)
        allowed = each_most_reached(n.ravel(), share.largest, self.level_of_test)
        n_cells = (errors <= allowed.reshape(n.shape)[..., None]).sum(axis=-1)
        ends: Ints = np.append(times[by_time], NEVER)[n_cells]
        return ends

    def ends(self, rows: Floats) -> tuple[Ints, Ints]:
        """When each label stops in each place, and until when its errors there count, (2, ..., m) each.

        ``rows`` are as in `end_of`.
        """
        ends = {
            (answer, places): np.min(
                [self.end_of(rows, share, places) for share in shares], axis=0
            )
            for (answer, places), shares in self.chains.items()
        }
        stops = np.full((2, *rows.shape[:-2], self.n_places), NEVER)
        for (answer, places), end in ends.items():
            for place in places:
                stops[answer, ..., place] = np.minimum(stops[answer, ..., place], end)
        counted = np.zeros_like(stops)
        for (answer, places), end in ends.items():
            last = np.minimum(end, stops[answer][..., list(places)].max(axis=-1))
            for place in places:
                counted[answer, ..., place] = np.maximum(counted[answer, ..., place], last)
        return stops, counted

    @cached_property
    def times(self) -> Ints:
        """When each cell is considered for each label, shape (2, m, V): by its price.

        Of equal prices, the surer label is first. The selection data alone give the times.
        """
        chances = self.odds.chances
        # A threshold moves from the end inwards, so a cell waits for all cells before.
        waiting = np.maximum.accumulate(self.prices, axis=2)
        waiting[SECOND] = np.maximum.accumulate(self.prices[SECOND][:, ::-1], axis=1)[:, ::-1]
        doubts = np.stack([chances, 1.0 - chances])
        inwards = np.arange(self.n_cells) + np.zeros_like(chances)
        steps = np.stack([inwards, inwards[:, ::-1]])
        order = np.lexsort((steps.ravel(), doubts.ravel(), waiting.ravel()))
        times = np.empty(order.size, dtype=np.intp)
        times[order] = np.arange(order.size)
        return times.reshape(waiting.shape)

    @cached_property
    def prices(self) -> Floats:
        """Expected loss of a label beside that of deferral, by label, place and cell, shape (2, m, V)."""
        data = self.odds.data
        losses = losses_of(self.selection.problem.objective, data.strata)
        assert losses is not None
        beside = losses[:, :DEFERRED] - losses[:, DEFERRED:]
        weights = self.odds.weights.sum(axis=1) + np.finfo(float).tiny
        chances = self.odds.chances
        prices = np.zeros((2, self.n_places, self.n_cells))
        for place in range(self.n_places):
            for true_label, chance in ((0, 1.0 - chances[place]), (1, chances[place])):
                here = (self.odds.places == place) & (data.strata.y == true_label)
                mean_losses = np.average(beside[here], axis=0, weights=weights[here])
                prices[:, place] += mean_losses[:, None] * chance
        return prices

    @cached_property
    def order(self) -> Ints:
        """The answered cells in their order: columns answer, place, cell and whether its rows count, (T, 4).

        Rows of a cell do not count as answered in tests if it was left out before, with counted errors.
        """
        answer, time, counts = self.answers(self.rows)
        place, cell = np.nonzero(time < NEVER)
        columns = [answer[place, cell], place, cell, counts[place, cell]]
        by_time = np.stack(columns, axis=1)[np.argsort(time[place, cell])].astype(np.intp)
        return by_time[np.argsort(~self.needed(by_time), kind="stable")]

    def answers(self, rows: Floats) -> tuple[Ints, Ints, Mask]:
        """Return the label of each cell, its time and whether its rows count as answered, (..., m, V) each.

        The time is NEVER for a cell beyond the ends of both labels. ``rows`` are as in `end_of`.
        """
        stops, counted = (ends[..., None] for ends in self.ends(rows))
        n_draws = [1] * (rows.ndim - 2)
        considered = self.times.reshape(2, *n_draws, self.n_places, self.n_cells)
        times = np.where(considered < stops, considered, NEVER)
        time = times.min(axis=0)
        left_out = (considered >= stops) & (considered <= counted) & (considered < time)
        return times.argmin(axis=0), time, (time < NEVER) & ~left_out.any(axis=0)

    def needed(self, order: Ints) -> Mask:
        """Return which cells of an order a place must answer for its own limits on deferral, shape (T,).

        None if a limited error and a limited share of deferred rows both have several places.
        """
        needed = np.zeros(len(order), dtype=bool)
        one_place = [
            share for share in self.of_deferral if np.ptp(self.places[share.counted]) == 0
        ]
        joins_errors = any(len(places) > 1 for _, places in self.chains)
        if joins_errors and len(one_place) < len(self.of_deferral):
            return needed
        for share in one_place:
            own = np.flatnonzero(order[:, 1] == self.places[share.counted][0])
            passes = self.passes(share, order[own])
            needed[own[: np.argmax(passes) if passes.any() else len(own)]] = True
        return needed

    # -- step 3 ----------------------------------------------------------------------------------------

    def keeps_deferral(self, order: Ints) -> Mask:
        """Return whether the rule of each number of answered cells passes all tests, shape (T + 1,)."""
        passes = np.ones(len(order) + 1, dtype=bool)
        for share in self.of_deferral:
            passes &= self.passes(share, order)
        return passes

    def within(self, limits: Sequence[Limit], level: float) -> RanksBesideDeferral:
        """Return the procedure with the same rows for other limits at another level."""
        return replace(self, selection=self.selection.stated_within(limits), level=level)

    def draws_pass(self, rows: Floats) -> dict[Pair, Mask]:
        """Return whether each limit on deferral passes with draws of rows, by number and subgroup, (B,) each.

        With more answered cells fewer rows are deferred, so the rule of all answered cells decides. ``rows``
        has the shape (B, S, V).
        """
        _, _, counts = self.answers(rows)
        deferred = (rows * ~counts[:, self.places]).sum(axis=-1)
        passes = {}
        for number, limit in enumerate(self.limits):
            for share in shares_of_limit(limit, self.fresh.answered.strata):
                if share.answer != DEFERRED:
                    continue
                n = rows[:, share.counted].sum(axis=(1, 2)).astype(np.intp)
                most = each_most_reached(n, share.largest, self.level_of_deferral)
                passes[number, share.name] = deferred[:, share.counted].sum(axis=1) <= most
        return passes

    def passes(self, share: CountedShare, order: Ints) -> Mask:
        """Return whether each number of answered cells passes the test of a deferred share, (T + 1,)."""
        _, place, cell, counts = order.T
        rows = self.by_place(self.rows * share.counted[:, None])
        n = int(rows.sum())
        answered = np.append(0.0, (rows[place, cell] * counts).cumsum())
        return n - answered <= most_reached(n, share.largest, self.level_of_deferral)

    def losses(self, order: Ints) -> Floats:
        """Return the expected loss of each number of answered cells beside deferral of all, (T + 1,)."""
        answer, place, cell, _ = order.T
        weights = np.zeros((self.n_places, self.n_cells))
        np.add.at(weights, self.odds.places, self.odds.weights)
        losses = weights[place, cell] * self.prices[answer, place, cell]
        return np.append(0.0, losses.cumsum())

    def by_place(self, by_stratum: Floats) -> Floats:
        """Return sums over the strata of each place, shape (..., m, V)."""
        sums: Floats = (self.places == np.arange(self.n_places)[:, None]).astype(
            np.float64
        ) @ by_stratum
        return sums

    def rule(self, order: Ints, n_answered: int) -> Any:
        """Return the selection with the rule that answers so many cells of an order."""
        answer, place, _, _ = order[:n_answered].T
        low = np.bincount(place[answer == FIRST], minlength=self.n_places)
        high = self.n_cells - np.bincount(place[answer == SECOND], minlength=self.n_places)
        return self.selection.with_candidate(self.odds.candidate(low, high))

    @property
    def parts(self) -> dict[tuple[Rate, Any], float]:
        """Part of the level for each limited share."""
        levels = {DEFERRED: self.level_of_deferral}
        return {
            (share.rate, share.name): levels.get(share.answer, self.level_of_test) / self.level
            for share in self.shares
        }


@dataclass(frozen=True, eq=False)
class DrawnChances:
    """The chances that new rows certify limits, by draws of new rows, see `drawn_rows`.

    So the chances have the noise of the present rows and of the new ones. The procedure runs on each.

    Attributes
    ----------
    procedure : RanksBesideDeferral
        The refused procedure.
    """

    procedure: RanksBesideDeferral

    @cached_property
    def _draws(self) -> dict[float, Floats]:
        """The drawn rows by stratum and cell, shape (B, S, V), by the number of rows (`growth`)."""
        return {}

    def draws(self, growth: float) -> Floats:
        """Return draws of ``growth`` times as many rows, shape (B, S, V)."""
        if growth not in self._draws:
            self._draws[growth] = drawn_rows(self.procedure.rows, growth)
        return self._draws[growth]

    def passes(self, limits: Sequence[Limit], growth: float, level: float) -> dict[Pair, Mask]:
        """Return whether each limited share of deferral passes in each draw; see `Chances.powers`."""
        return self.procedure.within(limits, level).draws_pass(self.draws(growth))

    def powers(self, limits: Sequence[Limit], growth: float, level: float) -> dict[Pair, float]:
        """Return the chance that each limited share of deferral passes its test."""
        passes = self.passes(limits, growth, level)
        return {pair: float(passed.mean()) for pair, passed in passes.items()}

    def chance(self, limits: Sequence[Limit], growth: float, level: float) -> float:
        """Return the chance that all limits are certified."""
        passes = list(self.passes(limits, growth, level).values())
        return float(np.all(passes, axis=0).mean()) if passes else 1.0


def shares_of_limit(limit: Limit, strata: Strata) -> list[CountedShare]:
    """Return the limited shares of a limit."""
    shares = []
    for family in families_of([limit], strata):
        answer = restricted_answer(limit, strata)
        assert answer is not None
        shares += [
            CountedShare(limit.rate, name, answer, counted, largest)
            for name, counted, largest in zip(
                limited_names(limit, strata),
                family.strata,
                family.largest_shares.tolist(),
                strict=True,
            )
        ]
    return shares


def restricted_answer(limit: Limit, strata: Strata) -> int | None:
    """Return the only answer that counts against a limit, FIRST, SECOND or DEFERRED; None if there is none.

    The rate is a share of fixed rows. ``strata`` are those of two labels with deferral. None for comparisons,
    costs, and rates in which a row counts in part or the counted rows depend on answers, as in a precision.
    """
    rate = limit.rate
    if limit.compares or rate.needs_costs or rate.is_across or strata.n_classes != 2:
        return None
    _, counted, among = rate.by_subgroup(strata)
    rows_count_whole = np.isin([counted, among], [0.0, 1.0]).all()
    if not rows_count_whole or (among != among[..., :1]).any():
        return None
    wrong = counted if limit.from_above else among - counted
    counts_against = wrong.max(axis=(0, 1)) > 0
    return int(counts_against.argmax()) if counts_against.sum() == 1 else None
