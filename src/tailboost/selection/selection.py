"""A selection: candidates on selection data, a problem, the rule selected among them, and its thresholds."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
from sklearn.exceptions import NotFittedError

from tailboost.core.array_types import Floats, Ints, Stated
from tailboost.rates import Limit
from tailboost.selection.candidates import Scale, scores_in
from tailboost.selection.curve import undominated_rules
from tailboost.selection.data import (
    Candidate,
    SelectionData,
    ThresholdFamily,
    Uncached,
    possible_thresholds,
)
from tailboost.selection.engine import ProbabilityEngine
from tailboost.selection.log_odds import LogOdds
from tailboost.selection.outputs import LogProbabilities
from tailboost.selection.probabilities import stratum_probabilities
from tailboost.selection.problem import (
    Problem,
)
from tailboost.selection.rate_table import RateTable
from tailboost.selection.selected import SelectedRule

# Smaller factors of a class in a group count as this one.
LEAST_FACTOR = 1e-300


@dataclass(frozen=True, eq=False)
class Selection(Uncached):
    """The candidates of models on selection data, and the rule selected among them for a problem.

    Another problem gives another selection: no model is fitted, no classifier is needed, and nothing warns.

    Attributes
    ----------
    engine : ProbabilityEngine
        The candidates on the selection data.
    problem : Problem
        The objective within limits.
    rule : SelectedRule
        The selected rule.
    """

    engine: ProbabilityEngine
    problem: Problem
    rule: SelectedRule

    @classmethod
    def of(cls, engine: ProbabilityEngine, problem: Problem) -> Selection:
        """Return the selection for a problem.

        Raises
        ------
        InfeasibleLimitsError
            If limits contradict each other.
        ValueError
            If a rate names an unknown label, group or column, or needs costs or groups that were not kept.
        """
        engine = engine.on(problem)
        return cls(engine, problem, engine.write_thresholds(engine.select(problem)))

    def select(self, problem: Problem) -> Selection:
        """Return the selection for another problem; raises as `of`."""
        return Selection.of(self.engine, problem)

    def within(self, limits: Sequence[Limit]) -> Selection:
        """Return the rule within other limits, without a confidence; raises as `of`."""
        return self.select(replace(self.problem.within(tuple(limits)), confidence=None))

    def placed_within(self, limits: Sequence[Limit]) -> Selection:
        """Return a selection within other limits, for a procedure with a choice of thresholds.

        Rules on one score differ in thresholds alone, so this rule stays for the procedure to replace. If
        rules estimate the group, or have no thresholds on one score, a rule is selected as by `within`.
        """
        has_thresholds = self.family(by_group=False) is not None or self.log_odds is not None
        if self.engine.probabilities.estimates_groups or not has_thresholds:
            return self.within(limits)
        return self.stated_within(limits)

    def stated_within(self, limits: Sequence[Limit]) -> Selection:
        """Return the same rule with other limits as the stated ones; nothing is selected."""
        rule = self.rule.within(limits)
        return replace(self, problem=self.problem.within(tuple(limits)), rule=rule)

    # -- the selected rule -------------------------------------------------------------------------------

    @property
    def member(self) -> Any:
        """The selected candidate."""
        return self.rule.member

    @property
    def n_rows(self) -> float:
        """Number of selection rows; of weighted rows the effective number."""
        return float(self.engine.data.strata.size.sum())

    @property
    def estimates(self) -> RateTable:
        """The rates of the objective and the limits."""
        return self.rule.estimates

    def warn(self, *, forewarned: bool) -> None:
        """Give the warnings of limits and rates; with ``forewarned``, `warn_of_limits` has been called."""
        self.rule.warn(forewarned=forewarned)

    # -- trade-offs --------------------------------------------------------------------------------------

    def curve(
        self, problem: Problem, limited: Stated, n_points: int
    ) -> list[tuple[float, float, Selection]]:
        """Return the trade-off of a rate with the objective of a problem, within its limits.

        Each point has both rates, and the selection within the rate.

        Raises
        ------
        InfeasibleLimitsError
            If the limits contradict each other.
        """
        problem = replace(problem, confidence=None)
        engine = self.engine.on(problem.also_within(limited.within(limited.most)))
        rules, reached = engine.along(problem, limited, n_points)
        points = []
        for i in undominated_rules(limited, *reached.T):
            rate, value = reached[i].tolist()
            point_problem = problem.also_within(limited.within(rate))
            rule = engine.write_thresholds(rules[i].within(point_problem.limits))
            points.append((rate, value, Selection(engine, point_problem, rule)))
        return points

    # -- thresholds --------------------------------------------------------------------------------------

    def family(self, *, by_group: bool) -> ThresholdFamily | None:
        """Return the family of the selected rule with other thresholds; None if the rule has no thresholds.

        None also with an error budget, because errors within the family have no limit on the selection data,
        and with ``by_group`` for a group-blind rule.

        Parameters
        ----------
        by_group : bool
            Whether each group has a separate threshold, for a group-aware rule.
        """
        data = self._scored_data
        if data is None:
            return None
        if by_group:
            if self.engine.probabilities.group_aware:
                return ThresholdFamily.plain(data, self.engine.probabilities.places)
            return None
        family = ThresholdFamily.from_candidate(self.member.candidate, data.strata)
        return family or ThresholdFamily.plain(data)

    @property
    def one_threshold(self) -> ThresholdFamily | None:
        """The family with one threshold on the class score; None without one.

        For a group-aware rule, all groups of this family have the same threshold.
        """
        family = self.family(by_group=True)
        if family is None:
            return self.family(by_group=False)
        # In a group, the class probabilities are p(y | x) times factors; gains divide by the factors.
        gains = 1.0 / np.maximum(self.engine.probabilities.class_factors, LEAST_FACTOR)
        return replace(family, gains=gains, place=np.zeros_like(family.place), by_group=False)

    # Whether cases are rows: without clusters they are independent of each other.
    has_independent_cases: ClassVar[bool] = True

    @property
    def weighs_groups(self) -> bool:
        """Whether the rule weighs an estimate of the group, and so is no threshold on one score."""
        return self.member.weighs_groups

    @property
    def log_odds(self) -> LogOdds | None:
        """The score of two labels on the selection data; None without one, or for rules of another form."""
        if self._scored_data is None or self.weighs_groups:
            return None
        return self.engine.log_odds

    @property
    def _scored_data(self) -> SelectionData | None:
        """The selection data for a family of thresholds.

        None with an error budget or costs.
        """
        data = self.engine.data
        if self.problem.error_budget is not None:
            return None
        if data.costs is not None:
            return None
        return data

    def with_candidate(
        self, candidate: Candidate, fresh: Sequence[LogProbabilities] = ()
    ) -> Selection:
        """Return the selection with the rule of another candidate, which may break limits of the problem.

        Thresholds are written as short decimals, and keep the candidate's answers to the ``fresh`` rows.
        """
        rule = self.engine.rule_by(self.problem, candidate)
        return replace(self, rule=self.engine.write_thresholds(rule, fresh))

    def thresholds(self, family: ThresholdFamily) -> Thresholds:
        """Return a family of rules on the selection data and on further rows."""
        return Thresholds(self.engine, family)

    def at(
        self,
        family: ThresholdFamily,
        thresholds: Floats,
        fresh: Sequence[LogProbabilities] = (),
    ) -> Selection:
        """Return the selection with the rule of stated thresholds, shape (m,), of a `family`.

        ``fresh`` are further rows, as in `with_candidate`.
        """
        return self.with_candidate(family.candidate(thresholds), fresh)


@dataclass(frozen=True, eq=False)
class Thresholds:
    """A family of rules by thresholds, on the selection data and on further rows."""

    engine: ProbabilityEngine
    family: ThresholdFamily

    @property
    def data(self) -> SelectionData:
        """The selection data."""
        return self.engine.data

    @property
    def on_selection(self) -> tuple[Floats, SelectionData]:
        """The score of each row of the selection data, shape (n,), and these data."""
        return self.family.scores(self.data.probabilities), self.data

    def scores(self, rows: LogProbabilities) -> Floats:
        """Return the score of each row, shape (n,)."""
        return self.family.scores(stratum_probabilities(self.engine.probabilities, rows))

    def once(self, rows: LogProbabilities, key: Hashable, make: Callable[[], Any]) -> Any:
        """Return the result of ``make`` about rows, called once for a key by all families like this one."""
        return rows.derived((self.engine, self.family.key, key), make)

    def places(self, rows: LogProbabilities) -> Ints:
        """Return the number of each row's threshold, shape (n,)."""
        return rows.places(by_group=self.family.by_group)

    def scores_between_selected(self, rows: LogProbabilities) -> Floats:
        """Return the score of each row, shape (n,), on the rule's side of each threshold.

        A rule on one score has short decimals between values of selection rows as thresholds, by group if
        group-aware. A new row may lie between such a decimal and the threshold of the family. Its score is
        then on the side of the decimal. Other rules have the thresholds of the family.
        """
        if self.engine.score is None:
            return self.scores(rows)
        known = self.engine.known_scores
        known_scores = self.family.scores(known.probabilities)
        selection_scores, data = self.on_selection
        values = scores_in(rows, self.engine.outputs.models.score)
        groups = rows.places(by_group=self.engine.probabilities.group_aware)
        scores = np.zeros(len(values))

        falls = self.engine.score.positive_ == 0
        for group in np.unique(groups).tolist():
            known_rows = known.place == group
            scale = Scale.from_rows(
                known.values[known_rows], known_scores[known_rows], falls=falls
            )
            # If all groups share a threshold, the threshold lies between scores of all groups.
            compared_scores = selection_scores
            if self.family.by_group:
                # The labelled selection rows are the first known ones.
                compared_scores = selection_scores[known_rows[: len(data)]]
            thresholds, _ = possible_thresholds(compared_scores)
            group_rows = groups == group
            scores[group_rows] = scale.sides(values[group_rows], thresholds)
        return scores


@dataclass(frozen=True, eq=False)
class Unselected:
    """Candidates on selection data for an infeasible problem; `select` with another problem may succeed."""

    engine: ProbabilityEngine
    problem: Problem

    def select(self, problem: Problem) -> Selection:
        """Return the selection for another problem; raises as `Selection.of`."""
        return Selection.of(self.engine, problem)

    @property
    def rule(self) -> SelectedRule:
        """Raise: there is no rule."""
        raise NotFittedError("no rule was selected, because the limits contradict each other")
