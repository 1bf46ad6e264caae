"""The engine: selection among the rules of a family on the selection data, for any problem, without a fit."""

from __future__ import annotations

from dataclasses import InitVar, dataclass, field, replace
from typing import Any

from scipy.special import ndtri, softmax

from tailboost.core.array_types import Floats, Table
from tailboost.learners.scores import only_scores
from tailboost.selection.outputs import LogProbabilities, Models
from tailboost.selection.problem import Problem, counted
from tailboost.selection.search import (
    Pool,
    Program,
    contradiction,
    first_rules,
    select,
    within_budget,
)
from tailboost.selection.selection import Selection
from tailboost.selection.table import REFIT, tightened
from tailboost.selection.thresholds import Thresholds
from tailboost.selection.weights import ClassWeights, StratumProbabilities


@dataclass(eq=False)
class Engine:
    """Selects among rules on models' outputs. Another selection needs no fit.

    Parameters
    ----------
    problem : Problem
        Determines the strata and costs.
    models : Models
        The models with their log-probabilities, and their average.
    classes : ndarray of shape (K,)
        The labels.
    names : GroupNames or None
        Names of the groups of all columns.
    told : int or None
        Number of the group column of group-aware rules; None for group-blind rules.
    infer_groups : bool
        Whether group-blind rules weigh an estimate of the group of each row. They do for the largest rate of
        a group or cell, too.
    X : table of n rows, optional
        Features from which groups are estimated; without them the log-probabilities are used.
    costs : ndarray of shape (n, K), optional
        Cost of each answer in each row.
    """

    problem: Problem
    models: Models
    classes: Any
    names: Any
    told: int | None
    infer_groups: bool = False
    X: InitVar[Table] = None
    costs: InitVar[Floats | None] = None
    probabilities: StratumProbabilities = field(init=False)
    family: Thresholds | ClassWeights = field(init=False)
    # The groups of group-aware rules and the name of their column; None for group-blind rules.
    groups_read: tuple[Any, Any] = (None, None)
    # The spread of rates under a refit of the models; 0 if the counted models answer.
    spread: float = field(init=False)
    words: str = field(init=False)  # the selection data, for people

    def __post_init__(self, X: Table, costs: Floats | None) -> None:
        models = self.models
        rows = models.rows
        data = counted(self.problem, rows, self.classes, self.names, costs, self.told)
        strata = data.strata
        column = None
        if self.told is not None:
            title, values = self.names.titles[self.told], self.names.values[self.told].tolist()
            self.groups_read = (values, title)
            if len(values) > 1:
                column = strata.columns.index(title)
        p = StratumProbabilities(strata, column)
        groups = p.places[data.stratum % strata.n_combinations]
        logs = models.logs
        table = LogProbabilities(len(groups), logs.__getitem__, models, groups, X)
        if self._infers(self.problem) and strata.n_combinations > 1:
            p.fit_groups(table, data.stratum, rows.weight)
        self.probabilities = p
        self.spread = REFIT if rows.refit or p.models else 0.0
        self.words = rows.words
        if p.models:
            self.words += ", with groups estimated by models of other rows"
        if strata.n_classes == 2 and not p.models:
            sign = 2.0 * models.score.positive_ - 1.0
            chance = softmax(table.pooled, axis=1)[:, 1]
            self.family = Thresholds(data, sign * table.score, chance, column, sign)
        else:
            self.family = ClassWeights(data, p.predict(table))

    def _infers(self, problem: Problem) -> bool:
        """Return whether rules weigh an estimate of the group: if stated, or for the largest rate of a group.

        Rules that read the group need none, and columns of scores show none.
        """
        models, objective = self.models, problem.objective
        has_features = models.are_given or not only_scores(models.fitted)
        wanted = self.infer_groups or (objective.worst and objective.rate.needs_groups)
        return wanted and has_features and self.told is None

    def on(self, problem: Problem) -> Engine:
        """Return the engine with the strata of another problem, on the same selection data.

        Raises
        ------
        ValueError
            If the kept selection data lack costs or groups of the problem.
        """
        strata = self.family.data.strata
        titles = () if self.names is None else self.names.titles
        covers = (
            {titles[j] for j in problem.columns(titles)} <= set(strata.columns)
            and problem.needs("deferral") == strata.defers
            and problem.needs("costs") <= self.problem.needs("costs")
            and self._infers(problem) <= self._infers(self.problem)
        )
        return self if covers else replace(self, problem=problem, X=None, costs=None)

    # -- selection -------------------------------------------------------------------------------------

    def select(self, problem: Problem, pool: Pool | None = None) -> Selection:
        """Return the selected rule of a problem; new rules are added to the pool, if one is given.

        With a ``confidence``, limits are tightened by the standard errors of a normal quantile, divided
        between all limited rates: about with this probability the stated limits hold on new rows.

        Raises
        ------
        InfeasibleLimitsError
            If the limits contradict each other.
        ValueError
            If a rate names an unknown label, group or column, or the selection data lack its costs or groups.
        """
        engine = self.on(problem)
        strata = engine.family.data.strata
        program = Program(strata, problem.objective, problem.limits)
        if pool is None:
            pool = first_rules(engine.family, program)
        if problem.error_budget is not None:
            program = within_budget(pool, program, problem.error_budget)
        best = select(pool, program)
        if not (program.keeps(best.counts) or best.mixture.feasible):
            raise contradiction(best.mixture, self.words)
        rule = engine.rule(problem, program, best.rule, best.counts, best.gap)
        if not problem.confidence:
            return rule
        n_rates = sum(
            len(limit.rate.terms(strata).names) - limit.compares for limit in problem.limits
        )
        n_errors = float(ndtri(1.0 - (1.0 - problem.confidence) / n_rates))
        tighter = [
            tightened(limit, strata, rule.counts, self.spread, n_errors)
            for limit in problem.limits
        ]
        surer = program.within([*tighter, *program.limits[len(tighter) :]])
        best = select(pool, surer)
        rule = engine.rule(problem, program, best.rule, best.counts, best.gap)
        return replace(rule, is_sure=surer.keeps(best.counts))

    def rule(
        self, problem: Problem, program: Program, rule: Any, counts: Floats, gap: float = 0.0
    ) -> Selection:
        """Return a rule of the family within a program, with its counts, as a selection."""
        if isinstance(self.family, Thresholds):
            rule = self.family.ends(self.family.edges[rule])
        return Selection(self, problem, program, rule, counts, gap)
