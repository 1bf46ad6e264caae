"""The engine: it selects among candidates on the selection data, for any problem, without a fit."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from tailboost.boosting.ensemble import MixtureEnsemble
from tailboost.boosting.training_set import GroupNames
from tailboost.core.array_types import Floats
from tailboost.rates import InfeasibleLimitsError, Objective
from tailboost.selection.candidates import Candidate, Pool
from tailboost.selection.confidence import confident
from tailboost.selection.data import AnySelectionData, SelectionData, strata_of
from tailboost.selection.probability_rule import ProbabilityRule, group_features, has_group_features
from tailboost.selection.probability_tables import ModelOutputs, Models
from tailboost.selection.problem import Problem
from tailboost.selection.program import Program, Solution
from tailboost.selection.selected import Selected
from tailboost.selection.selecting import Selection, first_candidates, selected, within_budget
from tailboost.selection.stratum_probabilities import StratumProbabilities


@dataclass(eq=False)
class Engine:
    """Stratum probabilities and selection data; kept, so that another selection needs no fit."""

    models: Models
    probabilities: StratumProbabilities
    data: AnySelectionData
    words: str  # the selection data, for people
    refit: bool  # whether models were fitted again after their outputs were counted
    # Candidates of each objective whatever the limits, made once; model files do not contain them.
    pools: dict[Objective, Pool] = field(default_factory=dict)

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"pools": {}}

    @classmethod
    def of(
        cls,
        problem: Problem,
        outputs: ModelOutputs,
        X: Any,
        classes: Any,
        names: GroupNames | None,
        *,
        group_aware: bool,
        costs: Floats | None = None,
    ) -> Engine:
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
        group_aware : bool
            Whether rules read the group.
        costs : ndarray of shape (n, K), optional
            Cost of each answer in each row.
        """
        rows = outputs.rows
        if costs is not None and problem.defers:
            costs = np.column_stack([costs, np.zeros(len(costs))])
        strata, stratum, numbers = strata_of(problem, rows, classes, names, costs, group_aware=group_aware)
        table = outputs.table.beside(X)
        strata = replace(strata, size=rows.sizes(stratum, len(strata.mass)))
        if group_aware:
            assert numbers is not None
            assert names is not None
            if len(absent := np.setdiff1d(np.arange(len(names.values[0])), numbers)):
                raise ValueError(
                    f"by_group=True: {rows.words} have no row of group(s) "
                    f"{names.values[0][absent].tolist()} to select on"
                )
        several = strata.n_combinations > 1
        by_features = several and not group_aware and X is not None and has_group_features(X)
        p = StratumProbabilities(len(classes), strata.combinations, group_aware and several, by_features)
        groups = combination = None
        if p.group_aware:
            assert numbers is not None
            combination = strata.find(numbers)
        elif p.infers:
            assert numbers is not None
            groups = p.fit_groups(group_features(p, table), rows.y, numbers, rows.weight, strata)
        p.calibrate(table.pooled, groups, combination, stratum, rows.base)
        costs = costs if problem.needs_costs else None
        data = SelectionData(strata, stratum, rows.base, p.predict(table.pooled, groups, combination), costs)
        words = f"{rows.words}, groups estimated out of fold" if p.infers else rows.words
        return cls(outputs.models, p, data, words, rows.refit or p.infers)

    def covers(self, problem: Problem, names: GroupNames | None) -> bool:
        """Whether the strata suffice for a problem."""
        strata = self.data.strata
        titles = names.titles if names is not None else ()
        wanted = problem.columns(titles) if titles != (None,) else [0] * problem.needs_groups
        has_groups = not problem.needs_groups or (
            bool(strata.columns) and {titles[j] for j in wanted} <= set(strata.columns)
        )
        has_costs = (not problem.needs_costs) or self.data.costs is not None
        all_columns = any(rate.by in ("group", "cell") for rate in problem.rates)
        same_columns = not all_columns or set(titles) == set(strata.columns)
        return has_groups and has_costs and same_columns and problem.defers == strata.defers

    def first_candidates(self, program: Program) -> Pool:
        """Return the candidates of an objective, to which others may be added."""
        _, deferral_bounds = program.caps
        if len(deferral_bounds):
            return first_candidates(self.data, program)
        if program.objective not in self.pools:
            self.pools[program.objective] = first_candidates(self.data, program)
        return self.pools[program.objective].copy()

    def select(
        self,
        problem: Problem,
        *,
        error_budget: float | None,
        randomized: bool,
        pool: Pool | None = None,
        confidence: float | None = None,
    ) -> Selected:
        """Return the selected rule.

        Parameters
        ----------
        problem : Problem
            Objective and limits.
        error_budget : float, optional
            Error budget.
        randomized : bool
            Whether several candidates may have mixture weight.
        pool : Pool, optional
            Candidates so far, to which others are added.
        confidence : float, optional
            Probability with which all limits have to hold on new rows.

        Raises
        ------
        InfeasibleLimitsError
            If limits contradict each other.
        ValueError
            If a rate names an unknown label, group or column.
        """
        program = Program.of_rates(self.data.strata, problem.objective, problem.limits)
        candidates = self.first_candidates(program)
        if pool is None:
            pool = candidates
        else:
            pool.extend(candidates)
        program = within_budget(pool, program, error_budget)

        def within(program: Program) -> Selection:
            return selected(pool, program, randomized=randomized, budgeted=error_budget is not None)

        best = within(program)
        if not (best.solution.feasible or problem.aims):
            raise InfeasibleLimitsError(self._contradiction(pool, best.solution))
        rule = self.rule(problem, program, pool, best, randomized=randomized)
        if not confidence or not problem.limits:
            return rule
        tightened = confident(program, best, problem.limits, confidence, self.refit, within)
        if tightened is best:
            return replace(rule, confidence=confidence)
        rule = self.rule(problem, program, pool, tightened, randomized=randomized)
        return replace(rule, confidence=confidence, untightened=best.value)

    def rule(
        self, problem: Problem, program: Program, pool: Pool, selection: Selection, *, randomized: bool
    ) -> Selected:
        """Return a selection as a rule that answers, with its table."""
        order = np.argsort(-selection.weights, kind="stable")
        members = [self.member(pool.candidates[number]) for number in selection.numbers.tolist()]
        K = self.probabilities.n_classes
        ensemble = MixtureEnsemble(members, selection.weights, K, order, selection.gap)
        return Selected(problem, program, pool, selection, ensemble, self.words, randomized, self.refit)

    def single(self, pool: Pool, program: Program, number: int) -> Selection:
        """Return one candidate as a selection."""
        counts, unknown = pool.counts[number], np.full(len(program.limits), np.nan)
        value, violations = program.value(counts), program.violations(counts)
        return Selection(np.array([number]), np.ones(1), counts, value, value, violations, unknown, None)

    def member(self, candidate: Candidate) -> ProbabilityRule:
        """Return a candidate as a member of an ensemble."""
        source = tuple(self.models.pooled_models)
        if candidate.is_constant:
            source = ()
        elif self.probabilities.infers and not self.probabilities.by_features:
            source = tuple(range(len(self.models.names)))  # groups are estimated from all models
        return ProbabilityRule(self.models, source, self.probabilities, candidate)

    def _contradiction(self, pool: Pool, solution: Solution) -> str:
        program = solution.program
        counts = np.tensordot(solution.weights, pool.all_counts, axes=1)
        named = [program.limits[i] for i in np.flatnonzero(solution.contradicting)] or list(program.limits)
        reached = [limit.value(limit.rate.terms(program.strata).values(counts)) for limit in named]
        each = "; ".join(
            f"{limit} (reached: {value:.4g})" for limit, value in zip(named, reached, strict=True)
        )
        return (
            f"limits: no mixture of decision rules meets these together on {self.words}: {each}. The values "
            "reached are of one mixture, with the smallest violations"
        )
