"""The procedure of `calibrate` for several limits on a rule of one score: a path of predicted power."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np
from scipy.special import ndtr

from tailboost.core.array_types import Floats, Ints, Mask
from tailboost.guarantees.certifiable import LEAST_CHANCE
from tailboost.guarantees.fresh_rows import FreshRows, rows_by_subgroup
from tailboost.guarantees.joint_power import Bands, JointPowerPath, ScoreCells
from tailboost.guarantees.limited_rates import LimitedFamily
from tailboost.guarantees.procedure import Certified, Procedure, Refused, drawn_rows, losses_of
from tailboost.guarantees.rate_bounds import RateFamily, kept_by_construction
from tailboost.rates import Limit, Strata
from tailboost.selection.data import ThresholdFamily

# Least probit of the likeliest rule: below it the tighter limits of `Path` are tried. With 0, limits on both
# errors and on deferral save .001 ± .010 more of the error in 30 cases, in 2.5 times the seconds
# (`benchmarks/constants.py`).
WORTHWHILE = -2.0
# Draws of new rows beside a gap or ratio: the standard error of a chance of .95 is .03.
N_DRAWS_OF_PAIRS = 50


class ScorePath(Procedure):
    """Tests of rules on one score, in the order of the predicted probability of passing all tests."""

    title = "thresholds for all limits together"

    @cached_property
    def applies(self) -> bool:
        """Whether thresholds on one score are likely to keep all limits, in which rows count whole.

        Rows are in one of the groups that a limit compares. Thresholds by group have a common price, which
        keeps no share across these groups: it needs other prices in each group.
        """
        if self.odds is None:
            return False
        if self.has_several_places and any(limit.rate.is_across for limit in self.limits):
            return False
        strata = self.odds.data.strata
        if losses_of(self.selection.problem.objective, strata) is None:
            return False
        if len(families_of(self.limits, strata)) < len(self.limits):
            return False
        compared = [self.fresh.samples(limit.rate) for limit in self.limits if limit.compares]
        if not all(map(self.fresh.are_apart, compared)):
            return False
        _, probits = self.path
        return bool(probits.max(initial=-np.inf) >= WORTHWHILE)

    @property
    def may_keep_by_construction(self) -> bool:
        """Whether a limit may be kept without a test: a rule may defer instead of an answer.

        With the same thresholds for all groups, such a rule follows from the few rows of one group. It is
        tried if it passes all other tests more likely than not.
        """
        if self.has_several_places:
            return True
        _, probits = self.path
        return bool(probits.max(initial=-np.inf) > 0.0)

    @property
    def has_several_places(self) -> bool:
        """Whether groups have thresholds of their own."""
        return len(np.unique(self.odds.places)) > 1

    @property
    def family_of_tests(self) -> ThresholdFamily | None:
        """The threshold of all rows; None for several, with clusters, with deferral, and for a comparison."""
        compares = any(limit.compares for limit in self.limits)
        if self.has_several_places or self.fresh.clusters is not None or compares:
            return None
        return self.selection.family(by_group=False)

    @property
    def tests_pairs(self) -> bool:
        """Whether each gap or ratio has the exact test of pairs."""
        return True

    @cached_property
    def odds(self) -> Any:
        """The score of the rows of the selection data, `LogOdds`; None if the rule reads no single score."""
        return self.selection.log_odds

    @cached_property
    def path(self) -> tuple[Bands, Floats]:
        """The rules in the order of their tests, and for each rule the probit of passing all tests.

        Only the number of fresh rows is used, or of clusters, which have one vote each. More clusters have a
        row of a class than this number times the share of the class. So the predicted number of votes of a
        class is cautious.
        """
        n_votes = len(self.fresh)
        if self.fresh.clusters is not None:
            n_votes = len(np.unique(self.fresh.clusters))
        strata = self.odds.data.strata
        losses = losses_of(self.selection.problem.objective, strata)
        assert losses is not None
        # Paths have three answers; without deferral the third one is empty.
        without_deferral = ((0, 0), (0, 3 - strata.n_actions))
        return JointPowerPath(
            cells=ScoreCells(self.odds.weights, self.odds.places),
            families=[
                self.without_absent(family) for family in families_of(self.limits, strata)
            ],
            losses=np.pad(losses, without_deferral),
            chances=self.odds.chances,
            ratio=n_votes / self.odds.n_rows,
            level=self.level,
            defers=strata.defers,
        ).path()

    def without_absent(self, family: LimitedFamily) -> LimitedFamily:
        """Return a family of the selection data in which a group without fresh rows passes no test.

        So the path has rules with one answer there, if one answer keeps the limit by construction.
        """
        limit = family.limit
        if limit.compares or limit.rate.is_across:
            return family
        names, _, _ = limit.rate.by_subgroup(self.odds.data.strata)
        is_limited = ~np.isnan(limit.bounds(names))
        sizes = rows_by_subgroup(self.fresh.answered, limit.rate.by)
        is_absent = np.array([not sizes.get(name) for name in names])[is_limited]
        return replace(family, largest_shares=np.where(is_absent, 0.0, family.largest_shares))

    def run(self) -> Certified | Refused:
        """Return the last rule before the first failure."""
        families = families_of(self.limits, self.fresh.answered.strata)
        last_passed = None
        for never, selection in self.rules():
            answered = self.fresh.by(selection)
            if not self.keeps(answered, families, never):
                break
            last_passed = selection
        if last_passed is None:
            return Refused(answered, "the rule predicted to pass most likely", "")
        made = (
            "The rule is the last one before a failure in a sequence fixed before these rows "
            "were used. Each rule of it has the least loss among those that are as likely to "
            "pass all tests."
        )
        return Certified(last_passed, "fixed sequence", made)

    def keeps(
        self, answered: FreshRows, families: Sequence[LimitedFamily], never: Mask
    ) -> bool:
        """Return whether fresh rows with the answers of a rule pass the tests of all limits.

        Parameters
        ----------
        answered : FreshRows
            With the answers.
        families : sequence of LimitedFamily
            The limits.
        never : ndarray of bool, shape (S, 3)
            Whether no row of the stratum can get the answer.
        """
        absent = [family.limit for family in families if not family.has_strata.all()]
        if absent:
            if not all(kept_without_rows(limit, answered, self.level) for limit in absent):
                return False
            families = [family.with_strata for family in families]
        if answered.clusters is not None:
            return all(
                np.all(family.pass_tests(*votes_of(answered, family), never, self.level))
                for family in families
            )
        counts = counts_of(answered, never.shape)
        return all(
            np.all(family.passes(counts[None], never, self.level)) for family in families
        )

    @property
    def chance(self) -> float | None:
        """The chance that the first rule passes with new rows; None for clusters.

        It is the smaller of the predicted one, from the selecting rows, and that of `drawn_rows`. Half a
        row is added to each count, so that no count of 0 is sure. None also for a group without rows. A
        small predicted chance is not drawn. Exact tests of pairs take long, so they have `N_DRAWS_OF_PAIRS`.
        """
        families = families_of(self.limits, self.fresh.answered.strata)
        has_strata = all(family.has_strata.all() for family in families)
        if self.fresh.clusters is not None or not has_strata:
            return None
        _, probits = self.path
        predicted = float(ndtr(probits[0]))
        if predicted < LEAST_CHANCE:
            return predicted
        never, selection = next(self.rules())
        counts = counts_of(self.fresh.by(selection), never.shape) + np.where(never, 0.0, 0.5)
        drawn = drawn_rows(counts, 1.0)
        if any(limit.compares for limit in self.limits):
            drawn = drawn[:N_DRAWS_OF_PAIRS]
        passes = [family.passes(drawn, never, self.level) for family in families]
        return min(float(np.mean(np.all(passes, axis=0))), predicted)

    def rules(self) -> Iterator[tuple[Mask, Any]]:
        """Yield the rules of the path as selections, each with the impossible answers by stratum, (S, 3)."""
        places = self.odds.places_of(self.fresh.answered.strata)
        # Fresh rows may have other strata than the selection data. The impossible answers of a
        # stratum do not depend on weights.
        no_weights = np.zeros((len(places), len(self.odds.values)))
        bands, _ = self.path
        never = ScoreCells(no_weights, places).never(bands)
        for never_given, low, high in zip(never, bands.low, bands.high, strict=True):
            yield never_given, self.selection.with_candidate(self.odds.candidate(low, high))


def counts_of(answered: FreshRows, shape: tuple[int, ...]) -> Floats:
    """Return the numbers of fresh rows by stratum and answer, of a given shape (S, A)."""
    cells = answered.answered.stratum * shape[1] + answered.answered.actions
    counts = np.bincount(cells, minlength=shape[0] * shape[1])
    return counts.astype(np.float64).reshape(shape)


def families_of(limits: Sequence[Limit], strata: Strata) -> list[LimitedFamily]:
    """Return the limited rates of each limit in which rows count whole; other limits are left out."""
    families = [LimitedFamily.from_limit(limit, strata) for limit in limits]
    return [family for family in families if family is not None]


def kept_without_rows(limit: Limit, answered: FreshRows, level: float) -> bool:
    """Return whether a rule keeps a limit by construction in each listed group without fresh rows."""
    sizes = rows_by_subgroup(answered.answered, limit.rate.by)
    return all(
        kept_by_construction(bound, answered)
        for bound in RateFamily.from_expression(limit, answered).bounds(level)
        if bound.target is not None and not sizes[bound.subgroup]
    )


def votes_of(answered: FreshRows, family: LimitedFamily) -> tuple[Ints, Ints]:
    """Return the errors and the votes of each limited rate, shape (1, m) each: one vote of each cluster."""
    stratum = answered.answered.stratum
    actions = answered.answered.actions
    errors = []
    votes = []
    for is_wrong, is_among in zip(family.wrong, family.among, strict=True):
        voters = answered.voters(np.flatnonzero(is_among[stratum, actions] > 0))
        errors.append(np.count_nonzero(is_wrong[stratum[voters], actions[voters]]))
        votes.append(len(voters))
    return np.array([errors], dtype=np.intp), np.array([votes], dtype=np.intp)
