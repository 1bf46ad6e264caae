"""A threshold for the errors, then the width of the deferral, for limits on one answer beside deferral.

"Misses at most 10 % in each group, at most 20 % deferred" limits the threshold of the answer 0 by ill rows
alone, and the share of deferred rows by both thresholds. A human decides between the two. The procedure has
two steps:

1. The selection data order thresholds of the limited answer, from the likeliest certificate to the loosest
   one. Each is tested for all limits on errors at the level .8 α, up to the first failure ([1]_). These tests
   are the same whether a row without the limited answer is deferred or gets the other answer.
2. Beside each of the M ordered thresholds a, the other threshold b is as far from a as the tests of all
   limits on deferral pass, each at the level .2 α / M.

Of the passed thresholds, each with its b, the pair of least loss on the fresh rows is certified.

*Proof.* Some passed threshold breaks a limit on errors with a probability of at most .8 α: the first
threshold of the sequence that breaks one must have passed its test. For a fixed a, deferral rates grow with
the width. Let w be the first width, in the order of the candidates, that breaks a limit on deferral. Counts
grow with the width too, so a width of at least w passes only if w passes the test of this limit. This has a
probability of at most .2 α / M for one a, and of at most .2 α for all M. The thresholds and M depend on the
selection data and on the number of fresh rows alone. Except with a probability of at most α, all pairs keep
all limits, and any choice among them is valid.

References
----------
.. [1] A. N. Angelopoulos, S. Bates, E. J. Candès, M. I. Jordan and L. Lei, "Learn then Test: Calibrating
   Predictive Algorithms to Achieve Risk Control", Annals of Applied Statistics 19, 2025.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from itertools import takewhile
from typing import Any

import numpy as np

from tailboost.core.array_types import Floats, Ints
from tailboost.guarantees.joint_power import FIRST, SECOND, Bands, Cells, JointPowerPath
from tailboost.guarantees.limited_rates import LimitedFamily
from tailboost.guarantees.procedure import Certified, Procedure, Refused, losses_of
from tailboost.guarantees.score_path import WORTHWHILE, families_of
from tailboost.rates import Limit, Strata

DEFERRED = 2
# Part of the level for the limits on errors. With .9, and with .7 for half as many thresholds, the error is
# .003 ± .007 lower and .004 ± .005 higher (60 calls, misses of three groups, five made tables).
PART_OF_ERRORS = 0.8
# Probits of the predicted probability of passing the tests of errors, along the sequence. With 30 of them the
# error is .005 ± .005 higher, and with 20 .005 ± .003 (60 calls).
ERROR_PROBITS = np.linspace(3.5, -3.5, 60)
MADE = (
    "The threshold of the limited answer is from a sequence fixed before these rows were used; it "
    f"had {PART_OF_ERRORS:.0%} of the level. The rest of the level limits the share deferred "
    "beside each threshold of the sequence. The rule has the least loss on these rows."
)


class WidthOfDeferral(Procedure):
    """A sequence of thresholds for the errors of one answer, and beside each the widest deferral."""

    title = "errors of one answer, then the width of the deferral"

    @cached_property
    def applies(self) -> bool:
        """Whether one pair of thresholds serves all rows, for limits on one answer in groups and on deferral.

        Rows are independent, and each limited group has fresh ones. With misses of three groups the error
        on new rows is .041 ± .011 lower than by `ScorePath` (119 pairs of 1,500 and 4,000 rows, five made
        tables). For an answer in all rows together there is no gain: it is .006 ± .009 lower with misses,
        .002 ± .002 higher with false alarms, and .004 ± .002 higher with a precision (216 pairs).
        """
        strata = self.fresh.answered.strata
        if not strata.defers or self.fresh.clusters is not None or self.odds is None:
            return False
        if len(np.unique(self.odds.places)) > 1:
            return False
        if losses_of(self.selection.problem.objective, strata) is None:
            return False
        if self.side is None or not all(family.has_strata.all() for family in self.families):
            return False
        if sum(len(family.largest_shares) for family in self.of_errors) < 2:
            return False
        _, probits = self.sequence
        return bool(probits[1:].max(initial=-np.inf) >= WORTHWHILE)

    @cached_property
    def odds(self) -> Any:
        """The score of the rows of the selection data, `LogOdds`; None if the rule reads no single score."""
        return self.selection.log_odds

    @cached_property
    def families(self) -> list[LimitedFamily]:
        """The limited rates of the fresh rows, of limits in which rows count whole."""
        return families_of(self.limits, self.fresh.answered.strata)

    @cached_property
    def side(self) -> int | None:
        """The answer of `side_of` the limits; None without one."""
        return side_of(self.limits, self.fresh.answered.strata)

    @property
    def may_keep_by_construction(self) -> bool:
        """Whether no row may get the limited answer, which keeps the limits on errors without a test.

        Such a rule follows from the few rows of one group. It is tried if another threshold passes more
        likely than not.
        """
        _, probits = self.sequence
        return bool(probits[1:].max(initial=-np.inf) > 0.0)

    @property
    def level_of_test(self) -> float:
        """Level of the test of errors in one group."""
        return PART_OF_ERRORS * self.level

    @cached_property
    def predicted(self) -> JointPowerPath:
        """Predicted power of the tests of errors, and losses, on the selection data."""
        strata = self.odds.data.strata
        losses = losses_of(self.selection.problem.objective, strata)
        assert losses is not None
        limits = [family.limit for family in self.of_errors]
        return JointPowerPath(
            cells=Cells(self.odds.weights, self.odds.places),
            families=families_of(limits, strata),
            losses=losses,
            chances=self.odds.chances,
            ratio=len(self.fresh) / self.odds.n_rows,
            level=self.level_of_test,
            defers=True,
        )

    @cached_property
    def sequence(self) -> tuple[Ints, Floats]:
        """The thresholds in the order of their tests, and the probit of passing for each.

        A threshold is the number of a value of the score. The first one gives no row the limited answer. For
        each probit there is the loosest one.
        """
        loosening = np.arange(len(self.odds.values))
        if self.side == SECOND:
            loosening = len(self.odds.values) - loosening
        probits = self.predicted.joint_probits(self._beside_deferral(loosening))
        loosest = [0] + [
            int(np.flatnonzero(probits >= probit)[-1]) for probit in ERROR_PROBITS.tolist()
        ]
        order = np.unique(loosest)
        return loosening[order], probits[order]

    def run(self) -> Certified | Refused:
        """Return the pair of least loss among passed thresholds with their widest deferral."""
        first, *others = self.sequence[0].tolist()
        passed = [first, *takewhile(self.keeps_errors, others)]
        pairs = [self.beside(threshold) for threshold in passed]
        best = min(pairs, key=lambda pair: self.loss(*pair))
        return Certified(self._rule(*best), "fixed sequence", MADE)

    def keeps_errors(self, threshold: int) -> bool:
        """Return whether the rows with the limited answer of a threshold pass all tests of errors."""
        assert self.side is not None
        given = self.answered(self.side, threshold)
        counts = np.zeros((len(given), 3))
        counts[:, self.side] = given
        counts[:, DEFERRED] = self.n_rows - given
        return self._pass(self.of_errors, counts, self.level_of_test)

    def beside(self, threshold: int) -> tuple[int, int]:
        """Return a limited threshold with the other one, of least loss on the selection data.

        Deferral is at most as wide as the fresh rows allow: the shares of deferred rows pass their tests.
        """
        outwards = np.arange(threshold, len(self.odds.values) + 1)
        if self.side == SECOND:
            outwards = np.arange(threshold, -1, -1)
        # The first width defers no row.
        widest = 1
        too_wide = len(outwards)
        while too_wide - widest > 1:
            middle = (widest + too_wide) // 2
            if self.keeps_deferral(*self._pair(threshold, int(outwards[middle - 1]))):
                widest = middle
            else:
                too_wide = middle
        others = outwards[:widest]
        pairs = [self._pair(threshold, int(other)) for other in others]
        lows, highs = np.array(pairs).T
        losses = self.predicted.loss(Bands(lows[:, None], highs[:, None]))
        return pairs[int(losses.argmin())]

    def keeps_deferral(self, low: int, high: int) -> bool:
        """Return whether the deferred rows of a rule pass all tests, beside those of other thresholds."""
        thresholds, _ = self.sequence
        level = (1.0 - PART_OF_ERRORS) * self.level / len(thresholds)
        return self._pass(self.of_deferral, self.counts(low, high), level)

    def loss(self, low: int, high: int) -> float:
        """Return the loss of a rule on the fresh rows."""
        losses = losses_of(self.selection.problem.objective, self.fresh.answered.strata)
        assert losses is not None
        return float((self.counts(low, high) * losses).sum())

    def counts(self, low: int, high: int) -> Floats:
        """Return the numbers of fresh rows by stratum and answer of a rule, shape (S, 3)."""
        first = self.answered(FIRST, low)
        second = self.answered(SECOND, high)
        return np.stack([first, second, self.n_rows - first - second], axis=1)

    def answered(self, answer: int, threshold: int) -> Floats:
        """Return the number of fresh rows of each stratum with an answer, by its threshold, shape (S,).

        Selections of one engine within other limits share the result.
        """

        def count() -> Floats:
            pair = (threshold, len(self.odds.values)) if answer == FIRST else (0, threshold)
            by_rule = self.fresh.by(self._rule(*pair)).answered
            return self._numbers(by_rule.stratum[by_rule.actions == answer])

        first, *further = self.fresh.opened
        key = ("rows beyond a threshold", self.selection.engine, answer, threshold, *further)
        counts: Floats = first.derived(key, count)
        return counts

    @cached_property
    def n_rows(self) -> Floats:
        """Number of fresh rows of each stratum, shape (S,)."""
        return self._numbers(self.fresh.answered.stratum)

    def _numbers(self, stratum: Ints) -> Floats:
        """Return how often each stratum occurs, shape (S,)."""
        n_strata = len(self.fresh.answered.strata.y)
        return np.bincount(stratum, minlength=n_strata).astype(np.float64)

    @property
    def of_deferral(self) -> list[LimitedFamily]:
        """The families of the limits on deferral."""
        return [each for each in self.families if self._restricted(each) == DEFERRED]

    @property
    def of_errors(self) -> list[LimitedFamily]:
        """The families of all other limits."""
        return [each for each in self.families if self._restricted(each) != DEFERRED]

    def _restricted(self, family: LimitedFamily) -> int | None:
        """Return `restricted_answer` of the limit of a family, or None."""
        return restricted_answer(family.limit, self.fresh.answered.strata)

    def _pass(self, families: Sequence[LimitedFamily], counts: Floats, level: float) -> bool:
        """Return whether counts of fresh rows by stratum and answer pass all tests."""
        never = np.zeros(counts.shape, dtype=bool)
        return all(family.passes(counts, never, level) for family in families)

    def _pair(self, threshold: int, other: int) -> tuple[int, int]:
        """Return the limited threshold and the other one as the low and the high one."""
        return (threshold, other) if self.side == FIRST else (other, threshold)

    def _beside_deferral(self, thresholds: Ints) -> Bands:
        """Return the rules with the limited answer by a threshold, and deferral of all other rows."""
        column = thresholds[:, None]
        if self.side == FIRST:
            return Bands(column, np.full_like(column, len(self.odds.values)))
        return Bands(np.zeros_like(column), column)

    def _rule(self, low: int, high: int) -> Any:
        """Return the selection with the rule of two thresholds."""
        return self.selection.with_candidates(
            [self.odds.candidate(np.array([low]), np.array([high]))]
        )


def side_of(limits: Sequence[Limit], strata: Strata) -> int | None:
    """Return the answer that all limits but those on deferral restrict, FIRST or SECOND.

    None without both kinds of limits, or if there are other limits.
    """
    answers = {restricted_answer(limit, strata) for limit in limits}
    if DEFERRED not in answers:
        return None
    others = answers - {DEFERRED}
    return others.pop() if len(others) == 1 else None


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
