"""Candidates as members of an ensemble: they answer by models' probabilities or thresholds on a score."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from tailboost.core.array_types import Floats, Ints, Mask
from tailboost.selection.data import Candidate, Singles, decide, expected_costs
from tailboost.selection.outputs import LogProbabilities, Models
from tailboost.selection.probabilities import StratumProbabilities, stratum_probabilities
from tailboost.selection.rule import Rule, ThresholdRule, decimals_between

# The most class weights in the name of a rule.
MOST_WEIGHTS = 10
# The name of a rule has no class weights if they differ by at most this fraction of the largest.
EQUAL_WEIGHTS = 1e-9
# The most rows of one interval in a step of the search for the ends of ranges.
PROBES = 1_000


@dataclass(frozen=True, eq=False)
class ProbabilityRule:
    """A candidate as a member of an ensemble: its answers follow from the models' probabilities."""

    table_: Models
    source: tuple[int, ...]  # numbers of the models behind the answers
    probabilities: StratumProbabilities
    candidate: Candidate

    @property
    def rule(self) -> Any:
        """None: the answers follow from action costs and probabilities, not from thresholds."""
        return None

    def predict_table(self, table: LogProbabilities) -> Ints:
        """Return class numbers, shape (n,); deferred rows get the label of least cost."""
        costs = self._costs(table)
        if self.defers:
            costs = costs[: self.probabilities.n_classes]
        return decide(costs)

    def defers_table(self, table: LogProbabilities) -> Mask:
        """Return which rows are deferred, shape (n,)."""
        if not self.defers:
            return np.zeros(table.n_rows, dtype=bool)
        return decide(self._costs(table)) == self.probabilities.n_classes

    def as_rule(self, classes: list[Any], groups: list[Any] | None) -> Rule:
        """Return the rule as numbers and lists.

        Action costs by combination of groups become action costs by group of the column that the rule reads.
        """
        p = self.probabilities
        K = p.n_classes
        by_class = self.candidate.action_costs.reshape(K, len(p.combinations), -1)
        costs = by_class.transpose(1, 0, 2)  # by combination, class and action
        if self.candidate.is_constant:
            costs = costs[: p.n_places]  # the same costs in all groups
            return Rule(classes, groups, {}, [0.0] * K, costs.tolist())
        if p.factors is not None:
            costs = costs * p.factors.reshape(K, -1, 1).transpose(1, 0, 2)
        if p.shares is not None:
            of_read_groups = np.zeros((p.n_places, *costs.shape[1:]))
            np.add.at(of_read_groups, p.places, costs * p.shares.T[:, :, None])
            costs = of_read_groups
        elif p.infers and not p.estimates_groups:
            costs = np.einsum("kg,gka->ka", p.frequencies, costs)[None]
        average = self.table_.average
        names = self.table_.names
        weights = dict.fromkeys(names, 1.0 / len(names))
        offsets = [0.0] * K
        if average is not None:
            weights = {names[i]: float(average.weights[i]) for i in average.used_models}
            offsets = average.offset.tolist()
        return Rule(classes, groups, weights, offsets, costs.tolist(), p.estimates_groups)

    @property
    def weighs_groups(self) -> bool:
        """Whether the rule weighs an estimate of p(group | x, y) for each row."""
        return self.probabilities.estimates_groups and not self.candidate.is_constant

    @property
    def defers(self) -> bool:
        """Whether the rule may defer rows."""
        return self.candidate.action_costs.shape[1] > self.probabilities.n_classes

    def _costs(self, table: LogProbabilities) -> Floats:
        """Return expected costs as `decide` reads them: shape (A, n), or (1, n) for two actions."""
        if self.candidate.is_constant:
            ones = np.ones((1, table.n_rows), dtype=np.float32)
            return expected_costs(ones, self.candidate.action_costs[:1])
        return expected_costs(
            stratum_probabilities(self.probabilities, table), self.candidate.action_costs
        )

    def words(self, classes: Any) -> str:
        """Return the printed name: the models, and the weights of the classes or subgroups.

        The weight of a stratum is the cost of its worst label less the cost of its best one. Equal weights
        are left out.
        """
        K = len(classes)
        costs = self.candidate.action_costs
        if self.candidate.is_constant:
            return f"constant {classes[costs[0, :K].argmin()]}"
        weights = costs[:, :K].max(axis=1) - costs[:, :K].min(axis=1)
        if np.ptp(weights) <= EQUAL_WEIGHTS * weights.max():
            return self.table_.words()
        smallest = weights[weights > 0].min()
        shown = [f"{weight / smallest:.3g}" for weight in weights[:MOST_WEIGHTS]]
        if len(weights) > MOST_WEIGHTS:
            shown.append("…")
        weighted = "subgroup"
        if len(costs) == K:
            weighted = "class"
        return f"{self.table_.words()}, {weighted} weights {' : '.join(shown)}"


# -- rules on one score ---------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class KnownScores:
    """Rows with known scores. Each threshold lies between two neighbours with different answers."""

    values: Floats  # shape (n,): the scores
    # Shape (n,): number of the row's group, which has its thresholds; 0 for a group-blind rule.
    place: Ints
    probabilities: Singles  # shape (S, n): p(s | x)

    @classmethod
    def from_table(
        cls, table: LogProbabilities, score: Any, probabilities: StratumProbabilities
    ) -> KnownScores:
        """Return the scores of the rows of a table."""
        places = table.places(by_group=probabilities.group_aware)
        strata = stratum_probabilities(probabilities, table)
        return cls(scores_in(table, score), places, strata)

    def joined(self, others: Sequence[KnownScores]) -> KnownScores:
        """Return these rows and those of others."""
        parts = [self, *others]
        return KnownScores(
            np.concatenate([part.values for part in parts]),
            np.concatenate([part.place for part in parts]),
            np.concatenate([part.probabilities for part in parts], axis=1),
        )

    @cached_property
    def ascending(self) -> list[Ints]:
        """The numbers of rows of each group by ascending score: one row of each score."""
        by_group = []
        for place in range(int(self.place.max(initial=0)) + 1):
            rows = np.flatnonzero(self.place == place)
            rows = rows[np.argsort(self.values[rows])]
            is_next = np.diff(self.values[rows], prepend=-np.inf) > 0
            by_group.append(rows[is_next])
        return by_group


def ranges_of_actions(
    known: KnownScores, candidate: Candidate, place: int, n_actions: int
) -> list[tuple[float, int]]:
    """Return the lower ends of the ranges of one group, from −∞, each with the number of its action.

    Expected costs are linear
    in the probability of the second label, a monotone function of the score. So each action has one range.
    A search by intervals finds its ends with the costs of few rows.

    Parameters
    ----------
    known : KnownScores
        Scores with their groups and stratum probabilities.
    candidate : Candidate
        Its action costs give the answers.
    place : int
        Number of the group.
    n_actions : int
        How many of the first actions are compared.
    """
    rows = known.ascending[place]
    values = known.values[rows]

    def actions_at(places: Ints) -> Ints:
        costs = expected_costs(known.probabilities[:, rows[places]], candidate.action_costs)
        if len(costs) > 1:  # otherwise the only row is the difference of two costs
            costs = costs[:n_actions]
        return decide(costs)

    probes = _spread(0, len(values) - 1)
    while True:
        actions = actions_at(probes)
        changes = np.flatnonzero(actions[1:] != actions[:-1])
        lower, upper = probes[changes], probes[changes + 1]
        if (upper - lower <= 1).all():
            return ranges_between(values[probes], actions)
        between = [_spread(*ends) for ends in zip(lower.tolist(), upper.tolist(), strict=True)]
        probes = np.unique(np.concatenate([probes, *between]))


def ranges_between(values: Floats, actions: Ints) -> list[tuple[float, int]]:
    """Return ranges with one action each: lower ends, ascending from −∞, with numbers of actions.

    ``actions`` has the number of the action at each of the ascending ``values``, shape (n,). A lower end is
    the shortest decimal between two neighbouring values with different actions.
    """
    changes = np.flatnonzero(actions[1:] != actions[:-1])
    thresholds = decimals_between(values[changes], values[changes + 1])
    return [
        (-np.inf, int(actions[0])),
        *zip(thresholds.tolist(), actions[changes + 1].tolist(), strict=True),
    ]


def _spread(first: int, last: int) -> Ints:
    """Return at most `PROBES` whole numbers from the first to the last one, evenly spread."""
    return np.unique(np.linspace(first, last, PROBES).astype(np.intp))


@dataclass(frozen=True, eq=False)
class ScoreRule(ProbabilityRule):
    """A candidate on one score in the form of thresholds."""

    thresholds: ThresholdRule  # with deferral
    answered: ThresholdRule  # without deferral: for each row the label of least cost

    @classmethod
    def from_candidate(
        cls,
        member: ProbabilityRule,
        score: Any,
        classes: Sequence[Any],
        groups: Sequence[Any] | None,
        known: KnownScores,
    ) -> ScoreRule:
        """Return the thresholds of a candidate on a `Scores`, from its answers to known scores.

        Parameters
        ----------
        member : ProbabilityRule
            The candidate as a member of an ensemble.
        score : Scores
            The only model: a column of scores.
        classes : sequence
            The labels.
        groups : sequence or None
            The groups with thresholds of their own; None for one threshold.
        known : KnownScores
            Known scores with their groups and stratum probabilities.
        """
        K = len(classes)
        n_actions = member.candidate.action_costs.shape[1]
        rules = {}  # by the number of actions that are compared
        for n_compared in {n_actions, K}:
            ranges = [
                ranges_of_actions(known, member.candidate, g, n_compared)
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
        """The thresholds, with deferral."""
        return self.thresholds

    def predict_table(self, table: LogProbabilities) -> Ints:
        """Return class numbers, shape (n,); deferred rows get the label of least cost."""
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
    """Return the scores of rows, shape (n,): as given, or computed from probabilities by ``score``."""
    if table.scores is not None:
        return table.scores()
    return np.asarray(score.scores_at(np.exp(table[0][:, score.positive_])))


@dataclass(frozen=True, eq=False)
class Scale:
    """Rows with two scores: ``scores`` are a monotone function of ``values``, up to rounding."""

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
        """Return thresholds on values with the same rows on each side as thresholds on scores, shape (m,).

        Each is the shortest decimal between two neighbouring values; −∞ or ∞ if no row is on one side. Rows
        with scores above a threshold get the second answer. No score is within rounding of a threshold.
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
        """Return a score for each further row by its value: the middle between two thresholds on scores.

        The row's value is between the `thresholds` of these two. ``score_thresholds`` ascend, from one below
        all scores to one above all, as `tailboost.selection.data.possible_thresholds` returns them.
        """
        thresholds = np.sort(self.thresholds(score_thresholds[1:-1]))
        interval = np.searchsorted(thresholds, values, side="right")
        if self.falls:
            interval = len(thresholds) - interval
        return (score_thresholds[interval] + score_thresholds[interval + 1]) / 2
