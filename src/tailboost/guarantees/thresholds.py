"""Sequences of thresholds, one for each group, each tested up to the first failure.

They serve limits on rates that depend on one threshold each. The selection data order the thresholds of
a group: from the likeliest certificate towards the smallest expected objective. On
the fresh rows each is tested for all limits of its group, up to the first failure ([1]_). The order depends
on the selection data alone. Of the passed thresholds of a group the one with the smallest objective is taken.

The groups divide the level α in proportion to weights ([2]_): the predicted powers of their first thresholds.
They depend on the selection data and on numbers of fresh rows alone. A passed threshold of a group breaks a
limit only if the first threshold of its sequence that breaks one passes its test. This has a probability of
at most the level of the group, and the levels have the sum α. So all passed thresholds keep the limits,
except with a probability of at most α, whatever the dependence between groups: their rows may be the labels
of one row.

If one answer to all rows of a group keeps its limits by construction, this answer needs no test: a
precision says nothing of a group in which nobody gets the answer. Such a group has this answer if none
passes. All other groups must pass, such as those within misses and a precision. Their first thresholds are
one rule, so each is tested at all levels of these groups together ([3]_). If one fails, nothing is
certified. If all pass, each group goes on with its own level. Let β be the sum of the levels. If a first
threshold breaks a limit, its test passes with a probability of at most β. Otherwise a later one must pass, of
a group with its level, and these have the sum β too.

References
----------
.. [1] A. N. Angelopoulos, S. Bates, E. J. Candès, M. I. Jordan and L. Lei, "Learn then Test: Calibrating
   Predictive Algorithms to Achieve Risk Control", Annals of Applied Statistics 19, 2025.
.. [2] C. R. Genovese, K. Roeder and L. Wasserman, "False discovery control with p-value weighting",
   Biometrika 93, 2006.
.. [3] R. L. Berger, "Multiparameter hypothesis testing and acceptance sampling", Technometrics 24, 1982.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from scipy.special import ndtr

from tailboost.core.array_types import Floats, Ints
from tailboost.guarantees.limited_rates import LimitedFamily, power_of_shares
from tailboost.guarantees.procedure import (
    Certified,
    Procedure,
    Refused,
    losses_of,
    scored_fresh,
    scored_selection,
)
from tailboost.guarantees.score_path import WORTHWHILE
from tailboost.rates import Limit, Rate, Strata
from tailboost.rates.bounds import each_most_reached
from tailboost.selection.data import (
    BEYOND,
    ScoredRows,
    ThresholdFamily,
    possible_thresholds,
    sums_of_answers,
)

# Rows at the share of errors expected by the model, which are added to the counted rows. Without them the
# error within a precision of each of two to five groups was .0053 ± .0021 higher, and two more of 360 paired
# calls had no certificate: one batch of 320 to 600 rows a group, of which 15 % select. With 1,600 rows a
# group it was .0001 ± .0016 higher.
PRIOR_ROWS = 50.0
TINY = np.finfo(float).tiny
SEQUENCE = "fixed sequence"
IN_SEQUENCE = "Each threshold was tested in a sequence fixed before these rows were used."


@dataclass(frozen=True, eq=False)
class LimitedRate:
    """A limited rate of one subgroup as a share of errors: rows counted against the limit.

    The tables have a column for each of two answers, and the n rows of the subgroup's groups.
    """

    rows: Ints  # numbers of these rows
    wrong: Floats  # shape (n, 2): 1 if the row with this answer is an error
    among: Floats  # shape (n, 2): 1 if the row with this answer is in the denominator
    largest_share: float  # the largest allowed share of errors
    kept_by_answer: tuple[bool, bool]  # whether no row with this answer is an error
    # As (`wrong`, `among`), but expected by the model's probabilities of the labels; None without a model.
    expected: tuple[Floats, Floats] | None = None

    def errors(self, scores: Floats, thresholds: Floats) -> tuple[Floats, Floats]:
        """Return numbers of errors and of rows in the denominator at each threshold, shape (m,) each.

        ``scores`` has the scores of all rows, also of other groups.
        """
        own_scores = scores[self.rows]
        return (
            sums_of_answers(own_scores, self.wrong, thresholds),
            sums_of_answers(own_scores, self.among, thresholds),
        )

    def predicted_shares(self, scores: Floats, thresholds: Floats) -> tuple[Floats, Floats]:
        """Return predicted shares of errors and numbers of rows at each threshold, shape (m,) each.

        The counted errors are joined with `PRIOR_ROWS` rows at the share of errors expected by the model, or
        without expectations with one row and half an error. Few rows without an error are mostly luck: the
        best of many thresholds has them.
        """
        errors, n_rows = self.errors(scores, thresholds)
        if self.expected is None:
            predicted = (errors + 0.5) / (n_rows + 1.0)
        else:
            own_scores = scores[self.rows]
            expected_wrong, expected_among = self.expected
            expected_errors = sums_of_answers(own_scores, expected_wrong, thresholds)
            expected_rows = sums_of_answers(own_scores, expected_among, thresholds)
            expected_share = expected_errors / np.maximum(expected_rows, TINY)
            predicted = (errors + PRIOR_ROWS * expected_share) / (n_rows + PRIOR_ROWS)
        return predicted, n_rows


def limited_rates(
    limit: Limit, strata: Strata, stratum: Ints, probabilities: Floats | None = None
) -> list[LimitedRate]:
    """Return the limited rates of all subgroups, with expected ones if there are probabilities.

    The list is empty if the limit compares groups, if there are not two classes and two answers, or if a row
    may count in part, or costs count.

    Parameters
    ----------
    limit : Limit
        The limit.
    strata : Strata
        The strata.
    stratum : ndarray of shape (n,)
        The number of each row's stratum.
    probabilities : ndarray of shape (S, n), optional
        Probabilities of the strata of each row, for predictions.
    """
    family = None
    if not limit.compares and strata.n_classes == strata.n_actions == 2:
        family = LimitedFamily.from_limit(limit, strata)
    if family is None:
        return []
    limited = []
    for wrong, among, largest_share in zip(
        family.wrong, family.among, family.largest_shares.tolist(), strict=True
    ):
        # The threshold of these groups is tested, so all their rows are read: also those of a class that
        # does not count.
        groups = np.unique(strata.combination[(among > 0).any(axis=1)])
        rows = np.flatnonzero(np.isin(strata.combination, groups)[stratum])
        keeps_first, keeps_second, _ = (wrong == 0.0).all(axis=0).tolist()
        limited_rate = LimitedRate(
            rows=rows,
            wrong=wrong[stratum[rows], :2],
            among=among[stratum[rows], :2],
            largest_share=largest_share,
            kept_by_answer=(keeps_first, keeps_second),
        )
        if probabilities is not None:
            stratum_probabilities = probabilities[:, rows].T.astype(np.float64)  # rows × strata
            expected = (
                stratum_probabilities @ wrong[:, :2],
                stratum_probabilities @ among[:, :2],
            )
            limited_rate = replace(limited_rate, expected=expected)
        limited.append(limited_rate)
    return limited


@dataclass(frozen=True, eq=False)
class ThresholdPath:
    """The thresholds of one group in the order of their tests."""

    place: int  # number of the group's threshold
    thresholds: Floats  # shape (m,)
    losses: Floats  # shape (m,): summed expected loss on the selection data
    # The threshold ±BEYOND of one answer to all rows within the limits by construction; None without one.
    constant: float | None
    power: float  # predicted probability that the first threshold passes

    @property
    def weight(self) -> float:
        """Weight of the group where groups divide the level, positive.

        A group with few rows has little power, and leaves its part to the others. A group that must pass,
        because no answer keeps its limits by construction, has the largest weight. Compared with equal
        weights, 370 calls for a precision by group on 11 tables captured .294 instead of .273, by
        .021 ± .010. With 75 groups the error of six calls was .0008 higher in the mean.
        """
        if self.constant is None:
            return 1.0
        return max(self.power, TINY)

    @classmethod
    def from_selection(
        cls,
        place: int,
        selection: ScoredRows,
        selection_rates: Sequence[LimitedRate],
        fresh_rates: Sequence[LimitedRate],
        ratio: float,
        level: float,
    ) -> ThresholdPath:
        """Return the path of a group from the selection data.

        Parameters
        ----------
        place : int
            Number of the group's threshold.
        selection : ScoredRows
            The selection data with expected losses.
        selection_rates : sequence of LimitedRate
            The limited rates of the group on the selection data.
        fresh_rates : sequence of LimitedRate
            The same on the fresh rows. Only their number and definitions are read.
        ratio : float
            Fresh rows by selection rows.
        level : float
            The level at which each threshold is tested.
        """
        thresholds, _ = possible_thresholds(selection.scores[selection.part(place)])
        losses = selection.loss(place, thresholds)
        powers = np.ones(len(thresholds))
        if len(selection_rates) != len(fresh_rates):
            # The selection data have no rows of a limited subgroup, and so promise no certificate.
            powers = np.zeros(len(thresholds))
        for rate in selection_rates:
            shares, n_rows = rate.predicted_shares(selection.scores, thresholds)
            powers *= power_of_shares(shares, n_rows, rate.largest_share, ratio, level)
        constant = _constant_threshold(losses, fresh_rates)
        order = _order(powers, losses)
        return cls(
            place=place,
            thresholds=thresholds[order],
            losses=losses[order],
            constant=constant,
            power=float(powers.max()),
        )


def _order(powers: Floats, losses: Floats) -> Ints:
    """Return the indices of the thresholds of a path, from a likely certificate to the least loss.

    Of several thresholds with the largest power, the one farthest from the least loss is the first: in 432
    cases of benchmarks/power.py it captured .02 to .09 more than the nearest one with .9 of this power.

    Parameters
    ----------
    powers, losses : ndarray of shape (m,)
        Predicted power and expected loss at ascending thresholds.
    """
    end = int(losses.argmin())
    likeliest = np.flatnonzero(powers == powers.max())
    start = int(likeliest[np.abs(likeliest - end).argmax()])
    if start <= end:
        return np.arange(start, end + 1)
    return np.arange(start, end - 1, -1)


def _constant_threshold(losses: Floats, fresh_rates: Sequence[LimitedRate]) -> float | None:
    """Return a threshold with one answer to all rows, if this answer keeps the limits by construction.

    Of two such answers, the answer with the smaller loss is taken. None if neither answer keeps all limits
    without a test. ``losses`` has the losses at ascending thresholds, from −`BEYOND`, with the second answer
    for all rows, to `BEYOND`, with the first.
    """
    constants = []
    if all(rate.kept_by_answer[0] for rate in fresh_rates):
        constants.append((losses[-1], BEYOND))
    if all(rate.kept_by_answer[1] for rate in fresh_rates):
        constants.append((losses[0], -BEYOND))
    if not constants:
        return None
    _, threshold = min(constants)
    return threshold


@dataclass(frozen=True, eq=False)
class ThresholdTests:
    """The limited rates and scores by which thresholds are ordered and tested.

    Attributes
    ----------
    n_thresholds : int
        m.
    fresh_rates, fresh : list of LimitedRate, ScoredRows
        Of the fresh rows.
    selection_rates, selection : list of LimitedRate, ScoredRows
        Of the selection data, with expected losses.
    """

    n_thresholds: int
    fresh_rates: list[LimitedRate]
    fresh: ScoredRows
    selection_rates: list[LimitedRate]
    selection: ScoredRows

    def thresholds(self, level: float) -> tuple[Floats | None, Floats]:
        """Return the certified thresholds and the first tested ones, shape (m,) each.

        The certified ones are None if no threshold passes, or if a group has neither a passing one nor an
        answer within the limits by construction. ``level`` is the allowed probability of a broken limit.
        """
        fresh_rates = _by_place(self.fresh_rates, self.fresh, self.n_thresholds)
        paths, levels = self.paths_and_levels(level)
        must_pass = np.array([path.constant is None for path in paths])
        level_of_firsts = float(levels[must_pass].sum())
        n_passed = []
        firsts_pass = []  # of the groups that must pass
        for path, rates, level_of_group in zip(
            paths, fresh_rates, levels.tolist(), strict=True
        ):
            n_passed.append(self.n_passed(path, rates, level_of_group))
            if path.constant is None:
                firsts_pass.append(self.n_passed(path, rates, level_of_firsts) > 0)

        tested_first = np.array([path.thresholds[0] for path in paths])
        any_passed = any(n for n, rates in zip(n_passed, fresh_rates, strict=True) if rates)
        if not all(firsts_pass) or not (any_passed or firsts_pass):
            return None, tested_first

        certified = np.empty(self.n_thresholds)
        for path, n in zip(paths, n_passed, strict=True):
            if path.constant is not None and n == 0:
                certified[path.place] = path.constant
                continue
            # Of the passed thresholds, the one with the least loss on all rows.
            losses = path.losses + self.fresh.loss(path.place, path.thresholds)
            certified[path.place] = path.thresholds[int(losses[: max(1, n)].argmin())]
        return certified, tested_first

    def paths_and_levels(self, level: float) -> tuple[list[ThresholdPath], Floats]:
        """Return the path of each threshold, and its part of a level, shape (m,)."""
        fresh_rates = _by_place(self.fresh_rates, self.fresh, self.n_thresholds)
        # Groups without a limit have no test, and no part of the level.
        has_limit = np.array(list(map(bool, fresh_rates)))
        paths = self.paths(fresh_rates, level / max(1, has_limit.sum()))
        weights = np.array([path.weight for path in paths]) * has_limit
        levels = level * weights / max(weights.sum(), TINY)
        return paths, levels

    def paths(self, fresh_rates: list[list[LimitedRate]], level: float) -> list[ThresholdPath]:
        """Return the path of each threshold for tests at a level; ``fresh_rates`` are by threshold."""
        m = self.n_thresholds
        n_fresh = np.count_nonzero(self.fresh.place < m)  # other rows have no threshold
        ratio = n_fresh / len(self.selection.scores)
        selection_rates = _by_place(self.selection_rates, self.selection, m)
        return [
            ThresholdPath.from_selection(
                place=place,
                selection=self.selection,
                selection_rates=selection_rates[place],
                fresh_rates=fresh_rates[place],
                ratio=ratio,
                level=level,
            )
            for place in range(m)
        ]

    def greatest_power(self, level: float) -> float:
        """Return a predicted probability of a certificate that is rather too large than too small.

        Each first threshold has the whole level. Only counted errors predict, because the model's
        probabilities may be wrong. The best of many thresholds has lucky counts. The result is 1 if the
        selection data have no rows of a limited subgroup.
        """
        if len(self.selection_rates) != len(self.fresh_rates):
            return 1.0
        counted_alone = [replace(rate, expected=None) for rate in self.selection_rates]
        fresh_rates = _by_place(self.fresh_rates, self.fresh, self.n_thresholds)
        paths = replace(self, selection_rates=counted_alone).paths(fresh_rates, level)
        limited = [path for path, rates in zip(paths, fresh_rates, strict=True) if rates]
        must_pass = [path.power for path in limited if path.constant is None]
        if must_pass:
            return min(must_pass)
        return max((path.power for path in limited), default=1.0)

    def n_passed(
        self, path: ThresholdPath, fresh_rates: Sequence[LimitedRate], level: float
    ) -> int:
        """Return the number of thresholds of a path before the first failure of a test at a level.

        Without a limited rate all pass.
        """
        passed = np.ones(len(path.thresholds), dtype=bool)
        for rate in fresh_rates:
            errors, n_rows = rate.errors(self.fresh.scores, path.thresholds)
            most_errors = each_most_reached(n_rows.astype(np.intp), rate.largest_share, level)
            passed &= errors <= most_errors
        if passed.all():
            return len(passed)
        return int(passed.argmin())  # the place of the first False


class ThresholdSequences(Procedure):
    """A sequence of thresholds for each group, or one for all rows.

    With a precision limited by group, the true error was lower by .044 ± .018 than with one path for all
    groups (48 calls on eight tables). With limits on misses and a precision by group, or on the error of
    cells, the joint test of first thresholds certified 61 instead of 36 of 111 calls (seven settings on three
    made tables), with the same thresholds where both did.
    """

    title = "sequences of thresholds"

    @property
    def applies(self) -> bool:
        """Whether each limited rate depends on one threshold, and rows count whole, without clusters.

        The votes of clusters depend on the answers.
        """
        strata = self.fresh.answered.strata
        if strata.defers or self.fresh.clusters is not None or self.family is None:
            return False
        if losses_of(self.selection.problem.objective, strata) is None:
            return False
        if not all(
            limited_rates(limit, strata, self.fresh.answered.stratum) for limit in self.limits
        ):
            return False
        # Fresh rows show the threshold of a subgroup, and whether an answer keeps its limits.
        places = self.tests.fresh.place
        return all(len(np.unique(places[rate.rows])) == 1 for rate in self.tests.fresh_rates)

    @property
    def may_keep_by_construction(self) -> bool:
        """Whether one of several groups may have one answer."""
        return self.family is not None and self.family.n_thresholds > 1

    @property
    def out_of_reach(self) -> bool:
        """Whether even the likeliest thresholds are predicted to fail almost surely."""
        return self.tests.greatest_power(self.level) < ndtr(WORTHWHILE)

    @property
    def by_group(self) -> bool:
        """Whether limits are about groups."""
        return any(limit.rate.by not in (None, "class") for limit in self.limits)

    @cached_property
    def family(self) -> ThresholdFamily | None:
        """The thresholds; None if the rule has none."""
        return self.selection.family(by_group=self.by_group)

    @property
    def family_of_tests(self) -> ThresholdFamily | None:
        """The thresholds; None if the rule has none."""
        return self.family

    @cached_property
    def tests(self) -> ThresholdTests:
        """The limited rates of fresh rows and selection data, with scores."""
        assert self.family is not None
        fresh = scored_fresh(self.selection, self.family, self.fresh, between_selected=True)
        selection, data = scored_selection(
            self.selection, self.family, self.fresh, expected=True
        )
        answered = self.fresh.answered
        fresh_rates = []
        selection_rates = []
        for limit in self.limits:
            fresh_rates += limited_rates(limit, answered.strata, answered.stratum)
            selection_rates += limited_rates(
                limit, data.strata, data.stratum, data.probabilities
            )
        return ThresholdTests(
            n_thresholds=self.family.n_thresholds,
            fresh_rates=fresh_rates,
            fresh=fresh,
            selection_rates=selection_rates,
            selection=selection,
        )

    def run(self) -> Certified | Refused:
        """Return the rule of the passed thresholds of least loss, or a refusal of the first tested ones."""
        certified, tested_first = self.tests.thresholds(self.level)
        if certified is not None:
            rule = self.selection.at(self.family, certified)
            return Certified(rule, SEQUENCE, IN_SEQUENCE)

        parts = self.parts()
        rule = "the thresholds predicted to pass most likely"
        if not np.allclose(list(parts.values()), 1.0):
            rule += ". The groups divide the error probability, and each bound has the part of its group"
        answered = self.fresh.by(self.selection.at(self.family, tested_first))
        return Refused(answered, rule, "no threshold passed", parts=parts)

    def parts(self) -> dict[tuple[Rate, Any], float]:
        """Return the part of the level for the first test of each limited rate of a subgroup."""
        paths, levels = self.tests.paths_and_levels(self.level)
        must_pass = np.array([path.constant is None for path in paths])
        part_by_place = np.where(must_pass, levels[must_pass].sum(), levels) / self.level
        strata = self.fresh.answered.strata
        parts = {}
        for limit in self.limits:
            names, _, _ = limit.rate.by_subgroup(strata)
            is_limited = ~np.isnan(limit.bounds(names))
            limited_names = [
                name for name, limited in zip(names, is_limited, strict=True) if limited
            ]
            rates = limited_rates(limit, strata, self.fresh.answered.stratum)
            for name, rate in zip(limited_names, rates, strict=True):
                for place in np.unique(self.tests.fresh.place[rate.rows]).tolist():
                    parts[limit.rate, name] = float(part_by_place[place])
        return parts


def _by_place(
    limited: Sequence[LimitedRate], rows: ScoredRows, m: int
) -> list[list[LimitedRate]]:
    """Return the limited rates of each of m thresholds.

    A rate belongs to the thresholds of its rows; rows without a threshold have the number m.
    """
    by_place: list[list[LimitedRate]] = [[] for _ in range(m)]
    for rate in limited:
        for place in np.unique(rows.place[rate.rows]).tolist():
            if place < m:
                by_place[place].append(rate)
    return by_place
