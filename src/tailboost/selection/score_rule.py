"""Rules on one score as members of an ensemble: their thresholds answer, in every form of the rule."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tailboost.core.array_types import Floats, Ints, Mask
from tailboost.selection.candidates import ProbabilityRule
from tailboost.selection.data import Candidate, Singles, decide, expected_costs
from tailboost.selection.outputs import LogProbabilities
from tailboost.selection.threshold_rule import ThresholdRule, decimals_between, ranges_between


@dataclass(frozen=True, eq=False)
class KnownScores:
    """Rows with known scores: a threshold lies between two of them that get different answers."""

    values: Floats  # shape (n,): the scores
    place: (
        Ints  # shape (n,): number of the group whose thresholds apply; 0 for a group-blind rule
    )
    probabilities: Singles  # shape (S, n): p(s | x)

    def ranges(
        self, candidate: Candidate, place: int, n_actions: int
    ) -> list[tuple[float, int]]:
        """Return the lower ends of the ranges of one group, from −∞, with the number of the action there.

        Only the first ``n_actions`` actions are compared.
        """
        rows = np.flatnonzero(self.place == place)
        values, first = np.unique(self.values[rows], return_index=True)
        costs = expected_costs(self.probabilities[:, rows[first]], candidate.action_costs)
        return ranges_between(values, decide(costs if len(costs) == 1 else costs[:n_actions]))

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
    def of(
        cls,
        member: ProbabilityRule,
        score: Any,
        classes: Sequence[Any],
        groups: Sequence[Any] | None,
        known: KnownScores,
    ) -> ScoreRule:
        """Return the thresholds of a candidate on a `Scores`, from its answers to known scores."""
        K = len(classes)
        n_actions = member.candidate.action_costs.shape[1]
        places = range(len(groups) if groups is not None else 1)
        rules = {}
        for compared in {n_actions, K}:
            ranges = [known.ranges(member.candidate, place, compared) for place in places]
            rules[compared] = ThresholdRule.of_ranges(score, classes, groups, ranges)
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
        deferred: Mask = self.thresholds.numbers(*self._read(table)) == len(
            self.thresholds.classes
        )
        return deferred

    def _read(self, table: LogProbabilities) -> tuple[Floats, Ints]:
        """Return the scores of rows, and the numbers of their groups."""
        place = np.zeros(table.n_rows, dtype=np.intp)
        if self.thresholds.groups is not None:
            assert table.groups is not None
            place = table.groups
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
    def of(cls, values: Floats, scores: Floats, *, falls: bool = False) -> Scale:
        """Return rows in any order."""
        order = np.argsort(values, kind="stable")
        if falls:
            signed = -scores[order]
        else:
            signed = scores[order]
        return cls(values[order], np.maximum.accumulate(signed), falls)

    def thresholds(self, cuts: Floats) -> Floats:
        """Return thresholds on values that divide the rows as cuts divide their scores, shape (m,).

        They are the shortest decimals between two neighbouring values; −∞ or ∞ if no row is on one side.
        Rows with scores above a cut get the second answer. No score is within rounding of a cut.
        """
        if self.falls:
            place = np.searchsorted(self.scores, -cuts, side="left")
        else:
            place = np.searchsorted(self.scores, cuts, side="right")
        ends = np.where(place == 0, -np.inf, np.inf)
        inside = np.flatnonzero((place > 0) & (place < len(self.values)))
        low = self.values[place[inside] - 1]
        high = self.values[place[inside]]
        ends[inside] = decimals_between(low, high)
        return ends

    def sides(self, values: Floats, cuts: Floats) -> Floats:
        """Return scores of further rows that are beyond the same cuts as the rows are beyond thresholds.

        ``cuts`` ascend; the first and the last are beyond all scores, see `tailboost.selection.data.cuts`.
        """
        ends = np.sort(self.thresholds(cuts[1:-1]))
        above = np.searchsorted(ends, values, side="right")
        if self.falls:
            cell = len(ends) - above
        else:
            cell = above
        middles: Floats = (cuts[cell] + cuts[cell + 1]) / 2
        return middles
