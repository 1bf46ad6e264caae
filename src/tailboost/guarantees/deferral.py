"""Ranks for limits on errors, and one exact test for each limit on deferral.

"Misses at most 10 % and false alarms at most 5 % in each group, at most 20 % deferred" limits the first
threshold of a group by ill rows alone, the second one by well rows alone, and the share of deferred rows by
all thresholds together. A human decides between the two thresholds. The procedure has three steps:

1. At first all rows are deferred. The selection data have cells, the rows of a threshold between two scores,
   and an order in which cells get an answer: those of the surest answers first. From the lowest scores
   upwards they get the first label, from the highest downwards the second one.
2. A limit on errors stops the thresholds of its rows before the first cell in whose turn its errors are
   beyond a rank, see `tailboost.guarantees.ranks`. The turns of a limit on several pairs of thresholds are
   those of all their cells. Limits with the same answer and pairs are a chain. Each chain has the level α₁
   divided by the number of chains, so all limits on errors are kept together.
3. Each number of answered cells is a rule. One of those that pass the exact tests of all limits on deferral
   is certified: the one of least expected loss on the selection data. J limited shares of deferred rows are
   tested at the level α₂ / J each.

With limits on deferral α₁ is .8 α and α₂ is .2 α, without α₁ is α.

*Proof of the test of deferral.* The answered region depends on the fresh rows, because thresholds stop. Yet a
test of a fixed rule is valid for all rules of the sequence together. Let n be the number of fresh rows that
count in a limit "at most d deferred", p = 1 − d, and let b be the least number of answered rows that passes
the test: P(Bin(n, p) ≥ b) ≤ α₂ / J. For a region with the probability P < p and N answered rows, let U(N, P)
= P(N + Bin(n − N, (p − P) / (1 − P)) ≥ b). The next cell has the probability q and K rows. Without stops, K
would be Bin(n − N, q / (1 − P)), and U(N + K, P + q) would have the mean U(N, P); it grows with K. Two events
make K differ from this. The cell is answered only if few limited errors are in it, and earlier cells were
left out because many are in them. Given K = k, neither gets more probable with larger k: the rows of a cell
are independent, and more of them in one cell leave fewer for the others. So the distribution of K, given both
events, is the binomial one with weights that decrease in k. Then the mean of U(N + K, P + q) is at most U(N,
P). If no cell is answered, U does not change. So U is a supermartingale, up to the answer that makes P larger
than p. It is 1 for each rule with P < p that passes. So some rule that breaks the limit passes with a
probability of at most U(0, 0) ≤ α₂ / J. ∎

A cell whose errors were counted, and which is left out, may get the other answer later. Its rows count as
deferred in the tests, so U does not grow in the mean when they are counted. Of a limit on one pair this is
the cell at which its threshold stops. A limit on several pairs counts the errors of all cells up to its own
stop, or to the last stop of its thresholds, also where another limit has stopped a threshold before.

A limit on the deferral of one group concerns the cells of this group alone. Their order is fixed, whatever
cells of other groups come between them. So a group first answers what its own limits on deferral need, and
only then the surest cells of all groups come first. This order depends on the numbers of answered rows, which
the proof takes as known. A test of several groups together allows it if each limit on errors has one pair.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from tailboost.core.array_types import Floats, Ints, Mask
from tailboost.guarantees.case import ONE_ANSWER, Case, Certified, Refused
from tailboost.guarantees.tests import DEFERRED, FIRST, SECOND
from tailboost.rates import Limit
from tailboost.rates.bounds import most_reached

# Part of the level for the limits on errors, beside limits on deferral.
PART_OF_ERRORS = 0.8
ENDLESS = np.iinfo(np.intp).max


def applies(case: Case) -> Cells | None:
    """Return the cells if a rule on one score defers, and each limit is on shares of one answer.

    Compared with a sequence, the error is .026 ± .009 lower with 3,000 rows, and .131 ± .049 fewer rows are
    deferred within both errors of groups (benchmarks of the first edition).
    """
    if case.odds is None or not case.odds.data.strata.defers:
        return None
    if case.losses is None or case.tests is None:
        return None
    cells = Cells(case)
    is_known = (case.odds.places_of(case.fresh.answered.strata) >= 0).all()
    one_answer = all((test.answers >= 0).all() for test in case.fresh_tests)
    if not (
        is_known and one_answer and any(share.answer != DEFERRED for share in cells.shares)
    ):
        return None
    return cells


def run(case: Case, cells: Cells) -> Certified | Refused:
    """Return the rule of least loss among those within the ranks that pass the tests of deferral."""
    order = cells.order
    passes = np.ones(len(order) + 1, dtype=bool)
    for share in cells.of_deferral:
        passes &= cells.passes(share, order)
    n_answered = len(order)
    if passes.any():
        losses = np.where(passes, cells.expected_losses(order), np.inf)
        n_answered -= int(
            losses[::-1].argmin()
        )  # of equal losses the rule that defers fewer rows
    answer, place, _, _ = order[:n_answered].T
    low = np.bincount(place[answer == FIRST], minlength=cells.n_places)
    high = cells.n_cells - np.bincount(place[answer == SECOND], minlength=cells.n_places)
    rule = case.selection.with_candidate(case.odds.candidate(low, high))
    answered = case.fresh.by(rule)
    levels = {
        (s.limit, s.name): cells.level_of_deferral
        if s.answer == DEFERRED
        else cells.level_of_rank
        for s in cells.shares
    }
    if len(np.unique(answered.answered.actions)) == 1:
        return Refused(answered, ONE_ANSWER, levels)
    if not passes.any():
        why = "no thresholds within the ranks of the errors keep the limits on deferral"
        return Refused(answered, why, levels)
    made = "Thresholds are within ranks of the scores of these rows, which need no test."
    if cells.of_deferral:
        made += " The share of deferred rows was tested, in an order fixed before these rows were used."
    return Certified(rule, "ranks and a test of deferral", made)


@dataclass(frozen=True, eq=False)
class Share:
    """A limited share of the fresh rows of some strata, shape (S,), that get one answer."""

    limit: Limit
    name: Any
    answer: int
    counted: Mask
    allowed: float


@dataclass(frozen=True, eq=False)
class Cells:
    """The m pairs of thresholds, each with V cells of the score, and the limited shares."""

    case: Case

    @cached_property
    def shares(self) -> list[Share]:
        """The limited shares of all limits."""
        return [
            Share(test.limit, name, int(answer), strata, float(allowed))
            for test in self.case.fresh_tests
            for name, answer, strata, allowed in zip(
                test.names, test.answers, test.strata, test.allowed, strict=True
            )
        ]

    @cached_property
    def of_deferral(self) -> list[Share]:
        """The limited shares of deferred rows."""
        return [share for share in self.shares if share.answer == DEFERRED]

    @cached_property
    def chains(self) -> dict[tuple[int, tuple[int, ...]], list[Share]]:
        """The limited errors by answer and places."""
        chains: dict[tuple[int, tuple[int, ...]], list[Share]] = {}
        for share in self.shares:
            if share.answer != DEFERRED:
                places = tuple(np.unique(self.places[share.counted]).tolist())
                chains.setdefault((share.answer, places), []).append(share)
        return chains

    @property
    def level_of_rank(self) -> float:
        """Level of the ranks of one chain."""
        part = PART_OF_ERRORS if self.of_deferral else 1.0
        return part * self.case.level / len(self.chains)

    @property
    def level_of_deferral(self) -> float:
        """Level of the test of one share of deferred rows."""
        return (1.0 - PART_OF_ERRORS) * self.case.level / max(1, len(self.of_deferral))

    @cached_property
    def places(self) -> Ints:
        """Number of the pair of thresholds of each stratum of the fresh rows, shape (S,)."""
        places: Ints = self.case.odds.places_of(self.case.fresh.answered.strata)
        return places

    @property
    def n_places(self) -> int:
        """M."""
        return int(self.case.odds.places.max()) + 1

    @property
    def n_cells(self) -> int:
        """V."""
        return len(self.case.odds.values)

    @cached_property
    def rows(self) -> Floats:
        """Numbers of fresh rows by stratum and cell, of clusters one random row each, shape (S, V).

        Scores are on the side of each threshold on which rules answer the rows.
        """
        odds, fresh = self.case.odds, self.case.fresh
        thresholds = self.case.selection.thresholds(odds.family)
        scores = thresholds.scores_between_selected(fresh.table)
        cell = np.searchsorted(
            odds.thresholds(np.arange(1, self.n_cells)), scores, side="right"
        )
        votes = fresh.voters(np.arange(len(fresh)))
        numbers = np.zeros((len(self.places), self.n_cells))
        np.add.at(numbers, (fresh.answered.stratum[votes], cell[votes]), 1.0)
        return numbers

    def by_place(self, share: Share) -> Floats:
        """Return the numbers of counted rows of a share by place and cell, shape (m, V)."""
        sums = np.zeros((self.n_places, self.n_cells))
        np.add.at(sums, self.places[share.counted], self.rows[share.counted])
        return sums

    # -- steps 1 and 2 ---------------------------------------------------------------------------------

    @cached_property
    def prices(self) -> Floats:
        """Expected loss of a label beside that of deferral, by label, place and cell, shape (2, m, V)."""
        odds, losses = self.case.odds, self.case.losses
        assert losses is not None
        beside = losses[:, :DEFERRED] - losses[:, DEFERRED:]
        weights = odds.weights.sum(axis=1) + np.finfo(float).tiny
        prices = np.zeros((2, self.n_places, self.n_cells))
        for place in range(self.n_places):
            for label, chance in ((0, 1.0 - odds.chances[place]), (1, odds.chances[place])):
                here = (odds.places == place) & (odds.data.strata.y == label)
                mean_losses = np.average(beside[here], axis=0, weights=weights[here])
                prices[:, place] += mean_losses[:, None] * chance
        return prices

    @cached_property
    def times(self) -> Ints:
        """When each cell is considered for each label, (2, m, V): by its price, then the surer label."""
        chances = self.case.odds.chances
        # A threshold moves from the end inwards, so a cell waits for all cells before.
        waiting = np.maximum.accumulate(self.prices, axis=2)
        waiting[SECOND] = np.maximum.accumulate(self.prices[SECOND][:, ::-1], axis=1)[:, ::-1]
        inwards = np.arange(self.n_cells) + np.zeros_like(chances)
        steps = np.stack([inwards, inwards[:, ::-1]])
        doubts = np.stack([chances, 1.0 - chances])
        order = np.lexsort((steps.ravel(), doubts.ravel(), waiting.ravel()))
        times = np.empty(order.size, dtype=np.intp)
        times[order] = np.arange(order.size)
        return times.reshape(waiting.shape)

    def end_of(self, share: Share, places: Sequence[int]) -> int:
        """Return the time of the first cell beyond the rank of a limited error; `ENDLESS` without one."""
        times = self.times[share.answer, places].ravel()
        by_time = times.argsort()
        errors = self.by_place(share)[list(places)].ravel()[by_time].cumsum()
        allowed = most_reached(int(errors[-1]), share.allowed, self.level_of_rank)
        return int(np.append(times[by_time], ENDLESS)[(errors <= allowed).sum()])

    @cached_property
    def order(self) -> Ints:
        """The answered cells in their order: columns answer, place, cell and whether its rows count, (T, 4).

        Rows of a cell do not count as answered in tests if it was left out before, with counted errors.
        """
        stops = np.full((2, self.n_places), ENDLESS)
        ends = {
            key: min(self.end_of(share, key[1]) for share in shares)
            for key, shares in self.chains.items()
        }
        for (answer, places), end in ends.items():
            stops[answer, list(places)] = np.minimum(stops[answer, list(places)], end)
        counted = np.zeros_like(stops)
        for (answer, places), end in ends.items():
            here = list(places)
            last = min(end, int(stops[answer, here].max()))
            counted[answer, here] = np.maximum(counted[answer, here], last)
        considered, stop = self.times, stops[..., None]
        times = np.where(considered < stop, considered, ENDLESS)
        time = times.min(axis=0)
        left_out = (
            (considered >= stop) & (considered <= counted[..., None]) & (considered < time)
        )
        place, cell = np.nonzero(time < ENDLESS)
        answers, counts = times.argmin(axis=0)[place, cell], ~left_out.any(axis=0)[place, cell]
        columns = np.stack([answers, place, cell, counts], axis=1)
        by_time = columns[np.argsort(time[place, cell])].astype(np.intp)
        return by_time[np.argsort(~self._needed(by_time), kind="stable")]

    def _needed(self, order: Ints) -> Mask:
        """Return which cells of an order a place must answer for its own limits on deferral, shape (T,).

        None if a limited error and a limited share of deferred rows both have several places.
        """
        needed = np.zeros(len(order), dtype=bool)
        own_shares = [s for s in self.of_deferral if np.ptp(self.places[s.counted]) == 0]
        joins_errors = any(len(places) > 1 for _, places in self.chains)
        if joins_errors and len(own_shares) < len(self.of_deferral):
            return needed
        for share in own_shares:
            own = np.flatnonzero(order[:, 1] == self.places[share.counted][0])
            passes = self.passes(share, order[own])
            needed[own[: np.argmax(passes) if passes.any() else len(own)]] = True
        return needed

    # -- step 3 ----------------------------------------------------------------------------------------

    def passes(self, share: Share, order: Ints) -> Mask:
        """Return whether each number of answered cells passes the test of a deferred share, (T + 1,)."""
        _, place, cell, counts = order.T
        rows = self.by_place(share)
        n = int(rows.sum())
        answered = np.append(0.0, (rows[place, cell] * counts).cumsum())
        return n - answered <= most_reached(n, share.allowed, self.level_of_deferral)

    def expected_losses(self, order: Ints) -> Floats:
        """Return the expected loss of each number of answered cells beside deferral of all, (T + 1,)."""
        answer, place, cell, _ = order.T
        weights = np.zeros((self.n_places, self.n_cells))
        np.add.at(weights, self.case.odds.places, self.case.odds.weights)
        losses = weights[place, cell] * self.prices[answer, place, cell]
        return np.append(0.0, losses.cumsum())
