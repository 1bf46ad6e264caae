"""The engine: selection among the rules of a family on the selection data, for any problem, without a fit."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from scipy.special import softmax

from tailboost.core.array_types import Floats, Table
from tailboost.learners.scores import only_scores
from tailboost.rates import ROUNDING, Strata
from tailboost.rows.subgroups import GroupNames
from tailboost.selection.intervals import probability_kept, tightened
from tailboost.selection.outputs import LogProbabilities, ModelOutputs
from tailboost.selection.problem import Problem, strata_of
from tailboost.selection.search import (
    Best,
    Counts,
    Pool,
    Program,
    contradiction,
    first_rules,
    select,
    within_budget,
)
from tailboost.selection.selection import Selection
from tailboost.selection.thresholds import ScoreRule, Thresholds, scores_in, sign_of
from tailboost.selection.weights import ClassWeights, ProbabilityRule, StratumProbabilities

# Standard errors by which limits are tightened to reach a confidence. A rule with one action for a larger
# fraction of the rows is not selected for it: 11 of 50 rules would change, each to more error plus excess on
# fresh rows, by .009 ± .014 on average (7 tables).
TIGHTENED = np.arange(0.25, 3.1, 0.25)
MOST_ALIKE = 0.95


@dataclass(eq=False)
class Engine:
    """Selects among rules on models' outputs. Another selection needs no fit."""

    problem: Problem  # determines the strata and the costs
    outputs: ModelOutputs  # the models with their log-probabilities
    probabilities: StratumProbabilities
    family: Thresholds | ClassWeights
    names: GroupNames | None  # of all columns of groups; None without groups
    # Number of the group column of group-aware rules; None for group-blind rules.
    told: int | None
    infer_groups: bool  # as stated: whether group-blind rules estimate the group of a row

    @classmethod
    def from_outputs(
        cls,
        problem: Problem,
        outputs: ModelOutputs,
        X: Table,
        classes: Any,
        names: GroupNames | None,
        *,
        rule_column: int | None,
        infer_groups: bool = False,
        costs: Floats | None = None,
    ) -> Self:
        """Return the engine on selection data.

        Parameters
        ----------
        problem : Problem
            Determines the strata and costs.
        outputs : ModelOutputs
            The log-probabilities of the models, and their average.
        X : table of n rows, optional
            Features from which groups are estimated; without them the log-probabilities are used.
        classes : ndarray of shape (K,)
            The labels.
        names : GroupNames, optional
            Names of the groups.
        rule_column : int or None
            Number of the group column of group-aware rules; None for group-blind rules.
        infer_groups : bool, default=False
            Whether group-blind rules weigh an estimate of the group of each row. They do for the largest rate
            of a group or cell, too.
        costs : ndarray of shape (n, K), optional
            Cost of each answer in each row.
        """
        rows, models = outputs.rows, outputs.models
        if costs is not None and problem.defers:  # a deferral costs nothing
            costs = np.column_stack([costs, np.zeros(len(costs))])
        strata, stratum = strata_of(
            problem, rows, classes, names, costs, rule_column=rule_column
        )
        strata = replace(strata, size=rows.sizes(stratum, len(strata.mass)))
        data = Counts(strata, stratum, rows.base, costs if problem.needs_costs else None)
        p = StratumProbabilities(strata, column_read_by_rules(strata, names, rule_column))
        groups = p.places[strata.combination[stratum]]
        table = LogProbabilities(
            len(groups), outputs.logs.__getitem__, models.average, groups, X
        )
        family: Thresholds | ClassWeights
        inferred = None
        infers = infers_groups(problem, outputs, rule_column, stated=infer_groups)
        if infers and strata.n_combinations > 1:
            inferred = p.fit_groups(table, stratum, rows.weight)
        if strata.n_classes == 2 and not p.estimates_groups:
            sign = sign_of(models)
            chance = softmax(table.pooled, axis=1)[:, 1]
            family = Thresholds(data, sign * scores_in(table, models), chance, p.told, sign)
        else:
            family = ClassWeights(data, p.predict(table) if inferred is None else inferred)
        return cls(problem, outputs, p, family, names, rule_column, infer_groups)

    def on(self, problem: Problem) -> Engine:
        """Return the engine with the strata of another problem, on the same selection data.

        Raises
        ------
        ValueError
            If the kept selection data lack costs or groups of the problem.
        """
        strata = self.family.data.strata
        titles = () if self.names is None else self.names.titles
        here, there = (
            infers_groups(each, self.outputs, self.told, stated=self.infer_groups)
            for each in (self.problem, problem)
        )
        if (
            {titles[j] for j in problem.columns(titles)} <= set(strata.columns)
            and problem.defers == strata.defers
            and problem.needs_costs <= self.problem.needs_costs
            and there <= here
        ):
            return self
        return Engine.from_outputs(
            problem,
            self.outputs,
            None,
            strata.classes,
            self.names,
            rule_column=self.told,
            infer_groups=self.infer_groups,
        )

    def select(self, problem: Problem) -> Selection:
        """Return the selection for a problem, maybe with other strata; raises as `on` and `select_in`."""
        engine = self.on(problem)
        strata = engine.family.data.strata
        program = Program.of_rates(strata, problem.objective, problem.limits)
        return engine.select_in(first_rules(engine.family, program), problem)

    def select_in(self, pool: Pool, problem: Problem) -> Selection:
        """Return the selected rule of a problem; new rules are added to the pool.

        With a ``confidence``, all limits are tightened by the same number of standard errors, so that the
        stated ones hold on new rows with this probability; they stay as stated if the probability is unknown.
        If no rule reaches it, the most probable one is returned. A rule with one action for nearly all rows
        is none of them, unless the stated limits lead to such a rule.

        Raises
        ------
        InfeasibleLimitsError
            If the limits contradict each other, unless the problem only aims at them.
        ValueError
            If a rate names an unknown label, group or column.
        """
        strata = self.family.data.strata
        program = Program.of_rates(strata, problem.objective, problem.limits)
        program = within_budget(pool, program, problem.error_budget)
        best = select(pool, program)
        mixture = best.mixture
        if not (best.keeps or problem.aims or mixture is None or mixture.feasible):
            raise contradiction(pool, mixture, self.words)
        rule = self.rule(problem, program, pool, best)
        if not problem.confidence or rule.likely is None:
            return rule

        def kept(tried: Selection) -> float:
            return (
                probability_kept(problem.limits, strata, tried.counts, rule.refit_spread) or 0.0
            )

        def largest_share(tried: Selection) -> float:
            return float(tried.counts[: len(strata.mass)].sum(axis=0).max())

        tried = [rule]
        most_alike = max(MOST_ALIKE, largest_share(rule)) + ROUNDING
        for n_errors in TIGHTENED:
            if kept(tried[-1]) >= problem.confidence:
                return tried[-1]
            limits = [
                tightened(limit, strata, tried[-1].counts, rule.refit_spread, n_errors)
                for limit in problem.limits
            ]
            best = select(pool, program.within([*limits, *program.limits[len(limits) :]]))
            best = Best(best.rule, best.counts, program.violations(best.counts))
            surer = self.rule(problem, program, pool, best)
            if largest_share(surer) > most_alike:
                break
            tried.append(surer)
        return max(tried, key=kept)

    def rule(self, problem: Problem, program: Program, pool: Pool, best: Best) -> Selection:
        """Return the best rule of a pool within a program as a selection."""
        return Selection(self, problem, program, self.member(best.rule), pool, best)

    def member(self, rule: Any) -> ScoreRule | ProbabilityRule:
        """Return a rule of the family with its models."""
        if isinstance(self.family, Thresholds):
            return self.thresholds(self.family.ends(self.family.edges[rule]))
        return ProbabilityRule(
            self.outputs.models, self.probabilities, rule, self.groups_read[0]
        )

    def thresholds(self, ends: Floats) -> ScoreRule:
        """Return the rule of thresholds on the score, shape (m, A − 1)."""
        classes = list(self.family.data.strata.classes)
        return ScoreRule.of(self.outputs.models, ends, classes, *self.groups_read)

    # -- words -----------------------------------------------------------------------------------------

    @property
    def words(self) -> str:
        """The selection data, for people."""
        if self.probabilities.estimates_groups:
            return f"{self.outputs.rows.words}, with groups estimated by models of other rows"
        return self.outputs.rows.words

    @property
    def refit(self) -> bool:
        """Whether models were fitted again after their outputs were counted."""
        return self.outputs.rows.refit or self.probabilities.estimates_groups

    @property
    def groups_read(self) -> tuple[list[Any] | None, Any]:
        """The groups of group-aware rules and the name of their column; None for group-blind rules."""
        if self.told is None or self.names is None:
            return None, None
        return self.names.values[self.told].tolist(), self.names.titles[self.told]


def infers_groups(
    problem: Problem, outputs: ModelOutputs, rule_column: int | None, *, stated: bool
) -> bool:
    """Return whether rules weigh an estimate of the group: if stated, or for the largest rate of a group.

    Rules that read the group need none, and columns of scores show none.
    """
    has_features = outputs.models.are_given or not only_scores(outputs.models.fitted)
    objective = problem.objective
    wanted = stated or (objective.worst and objective.rate.needs_groups)
    return wanted and has_features and rule_column is None


def column_read_by_rules(
    strata: Strata, names: GroupNames | None, rule_column: int | None
) -> int | None:
    """Return the number, in the strata, of the group column of group-aware rules; None for one group.

    ``rule_column`` is its number in ``names``. Raise ValueError if a group has no row.
    """
    if rule_column is None:
        return None
    assert names is not None
    column = strata.columns.index(names.titles[rule_column])
    values = names.values[rule_column]
    absent = np.setdiff1d(np.arange(len(values)), strata.combinations[:, column])
    if len(absent):
        raise ValueError(
            f"by_group: the selection data have no row of group(s) {values[absent].tolist()} "
            "to select on"
        )
    return None if len(values) < 2 else column
