"""Rules on one score as members of an ensemble: their thresholds answer, in every form of the rule."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from tailboost.core.array_types import Floats, Ints, Mask
from tailboost.selection.candidates import ProbabilityRule
from tailboost.selection.data import Candidate, Singles, decide, expected_costs
from tailboost.selection.outputs import LogProbabilities
from tailboost.selection.probabilities import StratumProbabilities, stratum_probabilities
from tailboost.selection.threshold_rule import ThresholdRule, decimals_between, ranges_between


@dataclass(frozen=True, eq=False)
class KnownScores:
    """Rows with known scores: a threshold lies between two of them that get different answers."""

    values: Floats  # shape (n,): the scores
    # Shape (n,): number of the group whose thresholds apply; 0 for a group-blind rule.
    place: Ints
    probabilities: Singles  # shape (S, n): p(s | x)

    def ranges(
        self, candidate: Candidate, place: int, n_actions: int
    ) -> list[tuple[float, int]]:
        """Return the lower ends of the ranges of one group, from −∞, with the number of the action there.

        Only the first ``n_actions`` actions are compared. The numbers of groups are those of ``place``.
        """
        rows = np.flatnonzero(self.place == place)
        values, first_row = np.unique(self.values[rows], return_index=True)
        probabilities = self.probabilities[:, rows[first_row]]
        costs = expected_costs(probabilities, candidate.action_costs)
        if len(costs) > 1:  # otherwise the difference of two actions
            costs = costs[:n_actions]
        return ranges_between(values, decide(costs))

    @cached_property
    def distinct(self) -> KnownScores:
        """The first row of each score in each group, ascending: these rows alone decide about thresholds."""
        order = np.lexsort((self.values, self.place))
        values = self.values[order]
        place = self.place[order]
        is_new = (values[1:] != values[:-1]) | (place[1:] != place[:-1])
        rows = order[np.r_[True, is_new]]
        return KnownScores(self.values[rows], self.place[rows], self.probabilities[:, rows])

    @classmethod
    def from_table(
        cls, table: LogProbabilities, score: Any, probabilities: StratumProbabilities
    ) -> KnownScores:
        """Return the different scores of the rows of a table, sorted once."""

        def make() -> KnownScores:
            places = table.places(by_group=probabilities.group_aware)
            strata = stratum_probabilities(probabilities, table)
            return KnownScores(scores_in(table, score), places, strata).distinct

        known: KnownScores = table.derived(("known scores", id(probabilities)), make)
        return known

    @classmethod
    def joined(cls, parts: Sequence[KnownScores]) -> KnownScores:
        """Return the rows of several parts."""
        return cls(
            np.concatenate([part.values for part in parts]),
            np.concatenate([part.place for part in parts]),
            np.concatenate([part.probabilities for part in parts], axis=1),
        )


@dataclass(frozen=True, eq=False)
class ScoreRule(ProbabilityRule):
    """A candidate on one score, of which thresholds answer."""

    thresholds: ThresholdRule  # with deferral
    answered: ThresholdRule  # without: the labels that would be answered

    @classmethod
    def from_candidate(
        cls,
        member: ProbabilityRule,
        score: Any,
        classes: Sequence[Any],
        groups: Sequence[Any] | None,
        known_scores: KnownScores,
    ) -> ScoreRule:
        """Return the thresholds of a candidate on a `Scores`, from its answers to known scores."""
        K = len(classes)
        n_actions = member.candidate.action_costs.shape[1]
        rules = {}  # by the number of actions that are compared
        for n_compared in {n_actions, K}:
            ranges = [
                known_scores.ranges(member.candidate, g, n_compared)
                for g in range(len(groups or [None]))
            ]
            rules[n_compared] = ThresholdRule.of_ranges(score, classes, groups, ranges)
        return cls(
            member.table_,
            member.source,
            member.probabilities,
            member.candidate,
            rules[n_actions],
            rules[K],
        )

    @property
    def rule(self) -> ThresholdRule:
        """The thresholds that answer."""
        return self.thresholds

    def predict_table(self, table: LogProbabilities) -> Ints:
        """Return class numbers, shape (n,); deferred rows get the label that would be answered."""
        return self.answered.numbers(*self._read(table))

    def defers_table(self, table: LogProbabilities) -> Mask:
        """Return which rows are deferred, shape (n,)."""
        actions = self.thresholds.numbers(*self._read(table))
        return actions == len(self.thresholds.classes)

    def _read(self, table: LogProbabilities) -> tuple[Floats, Ints]:
        """Return the scores of rows, and the numbers of their groups."""
        place = table.places(by_group=self.thresholds.groups is not None)
        return scores_in(table, self.table_.score), place


def scores_in(table: LogProbabilities, score: Any) -> Floats:
    """Return the scores of the rows of a table, shape (n,); of given probabilities those of a `Scores`."""
    if table.scores is not None:
        return table.scores()
    return np.asarray(score.scores_at(np.exp(table[0][:, score.positive_])))


@dataclass(frozen=True, eq=False)
class Scale:
    """Rows with a value, and with a score that is a monotone function of it, up to rounding."""

    values: Floats  # shape (n,): ascending
    scores: Floats  # shape (n,): ascending, with the sign −1 if they fall as the values grow
    falls: bool

    @classmethod
    def from_rows(cls, values: Floats, scores: Floats, *, falls: bool = False) -> Scale:
        """Return rows in any order; rounding errors in the order of the scores are evened out."""
        order = np.argsort(values, kind="stable")
        if falls:
            signed = -scores[order]
        else:
            signed = scores[order]
        return cls(values[order], np.maximum.accumulate(signed), falls)

    def thresholds(self, score_thresholds: Floats) -> Floats:
        """Return thresholds on values that divide the rows as thresholds on scores do, shape (m,).

        They are the shortest decimals between two neighbouring values; −∞ or ∞ if no row is on one side.
        Rows with scores above a threshold get the second answer. No score is within rounding of a threshold.
        """
        if self.falls:
            n_below = np.searchsorted(self.scores, -score_thresholds, side="left")
        else:
            n_below = np.searchsorted(self.scores, score_thresholds, side="right")
        thresholds = np.where(n_below == 0, -np.inf, np.inf)
        inside = np.flatnonzero((n_below > 0) & (n_below < len(self.values)))
        low = self.values[n_below[inside] - 1]
        high = self.values[n_below[inside]]
        thresholds[inside] = decimals_between(low, high)
        return thresholds

    def sides(self, values: Floats, score_thresholds: Floats) -> Floats:
        """Return scores of further rows, each in the middle between two neighbouring thresholds on scores.

        The row's value is between the `thresholds` of these two. ``score_thresholds`` ascend; the first and
        the last are beyond all scores, as of `tailboost.selection.data.possible_thresholds`.
        """
        thresholds = np.sort(self.thresholds(score_thresholds[1:-1]))
        interval = np.searchsorted(thresholds, values, side="right")
        if self.falls:
            interval = len(thresholds) - interval
        return (score_thresholds[interval] + score_thresholds[interval + 1]) / 2
