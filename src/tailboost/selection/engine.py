"""The engine: it selects among candidates on the selection data, for any problem, without a fit."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Self

import numpy as np

from tailboost.boosting.ensemble import MixtureEnsemble
from tailboost.boosting.training_set import GroupNames
from tailboost.core.array_types import Floats, Stated, Table
from tailboost.core.long_work import steps
from tailboost.rates import InfeasibleLimitsError, Objective, error
from tailboost.selection.confidence import confident
from tailboost.selection.curve import SLACK
from tailboost.selection.data import (
    AnySelectionData,
    Candidate,
    Pool,
    SelectionData,
    by_probabilities,
    combination_of_unlabeled,
    strata_of,
    with_unlabeled,
)
from tailboost.selection.mixture import Grouping, Mixture, ModelPool
from tailboost.selection.probability_tables import ModelOutputs
from tailboost.selection.problem import Problem
from tailboost.selection.program import SLIGHT, Program, Selection, Solution, mixed, select, within_budget
from tailboost.selection.selected import (
    ONE_SIDED,
    Comparison,
    Selected,
    SelectedRule,
    SelectedTail,
    without_tiny,
)
from tailboost.selection.selecting import FEW_STARTS, STARTS, first_candidates, selected
from tailboost.selection.stratum_probabilities import (
    POWERS,
    PowerDraw,
    ProbabilityRule,
    StratumProbabilities,
    group_features,
    has_group_features,
    stratum_probabilities,
)


class Engine(ABC):
    """Selects among candidates on selection data: another selection needs no fit."""

    data: AnySelectionData  # the rows by whose counts rules are selected
    words: str  # the selection data, for people
    refit: bool  # whether models were fitted again after their outputs were counted
    grows: ClassVar[bool]  # whether candidates are made for a problem

    @property
    def measured(self) -> AnySelectionData:
        """The rows on which rates of the selected rule are estimated: usually the same."""
        return self.data

    @abstractmethod
    def first_candidates(self, program: Program) -> Pool:
        """Return the candidates of an objective, to which others may be added."""

    @abstractmethod
    def ensemble(self, pool: Pool, selection: Selection) -> MixtureEnsemble:
        """Return the selected candidates with their weights, as a classifier of class numbers."""

    @abstractmethod
    def tail(self, problem: Problem) -> Selected:
        """Return the mixture of least objective over rows."""

    def select(self, problem: Problem, pool: Pool | None = None) -> Selected:
        """Return the selected rule.

        Parameters
        ----------
        problem : Problem
            Objective, limits, error budget and kind of rule.
        pool : Pool, optional
            Candidates so far, to which others are added.

        Raises
        ------
        InfeasibleLimitsError
            If limits contradict each other.
        ValueError
            If a rate names an unknown label, group or column.
        """
        return self.tail(problem) if problem.over_rows else self._rule_of(problem, pool)

    def _rule_of(self, problem: Problem, pool: Pool | None = None) -> SelectedRule:
        program = Program.of_rates(self.data.strata, problem.objective, problem.limits)
        candidates = self.first_candidates(program)
        if pool is None:
            pool = candidates
        else:
            pool.extend(candidates)
        program, budgeted = (
            within_budget(pool, program, problem.error_budget),
            problem.error_budget is not None,
        )

        def within(program: Program, starts: int = FEW_STARTS) -> Selection:
            if not self.grows:
                return select(pool, program, randomized=problem.randomized)
            about = {"randomized": problem.randomized, "budgeted": budgeted}
            return selected(pool, program, **about, starts=starts)

        best = within(program, STARTS)
        if not (best.solution.feasible or problem.aims):
            raise InfeasibleLimitsError(self._contradiction(pool, best.solution))
        rule = self.rule(problem, program, pool, best)
        rule = replace(rule, drawn=self._with_draws(rule, budgeted=budgeted))
        if not problem.confidence or not problem.limits:
            return rule

        def counts_of(selection: Selection) -> Floats:
            if self.measured is self.data:
                return selection.counts
            return selection.counts_in(pool.measured_on(self.measured))

        tightened = confident(
            program,
            best,
            problem.limits,
            problem.confidence,
            self.refit,
            within,
            self.measured.strata,
            counts_of,
        )
        if tightened is best:
            return rule
        surer = self.rule(problem, program, pool, tightened)
        return replace(surer, untightened=rule.selection.value, drawn=rule.drawn)

    def _with_draws(self, rule: SelectedRule, *, budgeted: bool) -> float | None:
        """Return the objective with ``randomized=True``, if it is lower within the limits beyond noise."""
        own = rule.compared
        if rule.problem.randomized or not rule.problem.limits or not own.selection.keeps:
            return None

        def ahead(mixture: Comparison) -> bool:
            lead = own.selection.value - mixture.selection.value
            return lead > 0.0 and lead > ONE_SIDED * own.error_of_difference(mixture)

        pool, program = own.pool, own.program
        # The mixture of the candidates so far tells whether another selection is worth its time.
        mixture = Comparison(pool, program, select(pool, program, randomized=True))
        if ahead(mixture) and self.grows:
            pool = self.first_candidates(program)
            mixture = Comparison(pool, program, selected(pool, program, randomized=True, budgeted=budgeted))
        if not (mixture.selection.keeps and ahead(mixture)):
            return None
        if self.measured is self.data:
            return mixture.selection.value
        measured = pool.measured_on(self.measured)
        return rule.program.value(mixture.selection.counts_in(measured))

    def rule(self, problem: Problem, program: Program, pool: Pool, selection: Selection) -> SelectedRule:
        """Return a selection as a rule that answers, with its table on the measured rows."""
        ensemble, compared = self.ensemble(pool, selection), Comparison(pool, program, selection)
        if self.measured is not self.data:
            pool = pool.measured_on(self.measured)
            stated = program.limits[: len(problem.limits)]
            has_budget = len(program.limits) > len(stated)
            program = program.over(self.measured.strata).within(stated)
            if has_budget:
                program = within_budget(pool, program, problem.error_budget)
            selection = selection.in_pool(pool, program)
        return SelectedRule(problem, program, ensemble, self.words, self.refit, pool, selection, compared)

    def along(self, problem: Problem, limited: Stated, n_points: int) -> tuple[list[SelectedRule], Floats]:
        """Return rules between the least objective and the tightest limit on another rate.

        The second result is the limited rate and the objective of each rule, shape (B, 2). Rules are selected
        for ``n_points`` limits. If one candidate answers, all candidates within the limits are added.
        """
        program = Program.of_rates(self.data.strata, problem.objective, problem.limits)
        pool = self.first_candidates(program)
        program = within_budget(pool, program, problem.error_budget)

        def best(problem: Problem) -> SelectedRule | None:
            try:
                return self._rule_of(problem, pool)
            except InfeasibleLimitsError:
                return None

        tried: list[SelectedRule | None] = []
        # Rules within limits on the overall error alone are among the first tried.
        cheap = limited == Objective.of(error()) and problem.objective.worst and not problem.limits
        if problem.randomized or (self.grows and not cheap):
            start = best(problem)
            tightest = start if limited.compares else best(replace(problem, objective=limited))
            if start is not None and tightest is not None:
                least = limited.least if limited.compares else tightest.value(limited)
                above = limited.within(limited.most).from_above
                with steps("points of the curve", n_points) as done:
                    for level in np.linspace(start.value(limited), least, n_points):
                        eased = (
                            min(level + SLACK, limited.most) if above else max(level - SLACK, limited.most)
                        )
                        tried.append(best(problem.within((*problem.limits, limited.within(float(eased))))))
                        done()
        if not problem.randomized:
            _, violation = program.evaluate(pool.all_counts)
            tried += [
                self.rule(problem, program, pool, Selection.alone(program, int(number), pool.counts[number]))
                for number in np.flatnonzero(violation <= SLIGHT)
            ]
        rules = [rule for rule in tried if rule is not None and (self.grows or rule.selection.keeps)]
        reached = [(rule.value(limited), rule.value(problem.objective)) for rule in rules]
        return rules, np.array(reached).reshape(-1, 2)

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


@dataclass(eq=False)
class ProbabilityEngine(Engine):
    """Stratum probabilities of models, by which candidates decide; they are kept."""

    outputs: ModelOutputs  # the models with their log-probabilities
    probabilities: StratumProbabilities
    data: AnySelectionData
    words: str
    refit: bool
    # Candidates of each objective whatever the limits, made once; model files do not contain them.
    pools: dict[Objective, Pool] = field(default_factory=dict)
    # The labelled rows alone, and all rows with strata for those without labels; None if all have labels.
    labelled_alone: SelectionData | None = None
    with_unlabeled: SelectionData | None = None
    grows: ClassVar[bool] = True

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"pools": {}}

    @classmethod
    def of(
        cls,
        problem: Problem,
        outputs: ModelOutputs,
        X: Table,
        classes: Any,
        names: GroupNames | None,
        *,
        group_aware: bool,
        costs: Floats | None = None,
        X_unlabeled: Table = None,
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
        group_aware : bool
            Whether rules read the group.
        costs : ndarray of shape (n, K), optional
            Cost of each answer in each row.
        X_unlabeled : table of m rows, optional
            Features of the rows without labels, as X.
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
        words = f"{rows.words}, groups estimated out of fold" if p.estimates_groups else rows.words
        engine = cls(outputs, p, data, words, rows.refit or p.estimates_groups)
        return engine if outputs.unlabeled is None else engine._counting(problem, X_unlabeled, names)

    def _counting(self, problem: Problem, X: Table, names: GroupNames | None) -> Self:
        """Return the engine that also counts the rows without labels, which have features X."""
        labelled, more, p = self.data.in_memory, self.outputs.unlabeled, self.probabilities
        assert more is not None
        combination = combination_of_unlabeled(
            problem, labelled.strata, more.rows.groups, names, len(more.rows)
        )
        strata, kind, joined = with_unlabeled(
            labelled.strata, labelled.stratum, self.outputs.rows, more.rows, combination
        )
        table = more.table(self.outputs.models.average).beside(X).knowing(combination)
        probabilities = np.concatenate([labelled.probabilities, stratum_probabilities(p, table)], axis=1)
        return replace(
            self,
            data=by_probabilities(labelled, kind, joined.base, probabilities),
            words=f"{self.words}, and {len(more.rows):,} rows without labels",
            labelled_alone=labelled,
            with_unlabeled=SelectionData(strata, kind, joined.base, probabilities),
        )

    @property
    def measured(self) -> AnySelectionData:
        """The rows on which rates are estimated; those without labels count in rates that need none."""
        return self.data if self.with_unlabeled is None else self.with_unlabeled

    @property
    def labelled(self) -> AnySelectionData:
        """The rows with labels."""
        return self.data if self.labelled_alone is None else self.labelled_alone

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

    def member(self, candidate: Candidate) -> ProbabilityRule:
        """Return a candidate as a member of an ensemble."""
        models = self.outputs.models
        source = tuple(models.pooled_models)
        if candidate.is_constant:
            source = ()
        elif self.probabilities.infers and not self.probabilities.by_features:
            source = tuple(range(len(models.names)))  # groups are estimated from all models
        return ProbabilityRule(models, source, self.probabilities, candidate)

    def ensemble(self, pool: Pool, selection: Selection) -> MixtureEnsemble:
        """Return the selected candidates with their weights; the heaviest settles ties."""
        order = np.argsort(-selection.weights, kind="stable")
        members = [self.member(pool.candidates[number]) for number in selection.numbers.tolist()]
        return MixtureEnsemble(members, selection.weights, self.probabilities.n_classes, order, selection.gap)

    def named(self, problem: Problem, candidates: Sequence[Candidate], weights: Floats) -> SelectedRule:
        """Return candidates as a rule, whether or not it keeps the limits; nothing is selected."""
        program, pool = Program.of_rates(self.data.strata, problem.counted, problem.limits), Pool(self.data)
        pool.append(candidates)
        selection = Selection.named(program, np.arange(len(weights)), weights, mixed(weights, pool.counts))
        problem = replace(problem, randomized=len(weights) > 1, confidence=None)
        return self.rule(problem, program, pool, selection)

    def tail(self, problem: Problem) -> SelectedTail:
        """Return the mixture of candidates for the largest class error, and of draws from probabilities."""
        program = Program.of_rates(self.data.strata, problem.counted, ())
        models, table = self.outputs.models, self.outputs.table
        members: list[Any] = [
            *map(self.member, self.first_candidates(program).candidates),
            *(
                PowerDraw(models, model, power)
                for model in (None, *range(len(models.names)))
                for power in POWERS
            ),
        ]
        pool = ModelPool(self.outputs.rows, self.probabilities.n_classes)
        for member in members:
            pool.add_boosted(member, member.predict_table(table))
        grouping, budget = Grouping(program.strata.classes), problem.error_budget
        mixture = Mixture.on(pool, problem.objective, grouping=grouping, error_budget=budget)
        ensemble = without_tiny(mixture.stage(len(members)))
        names = tuple(member.words(program.strata.classes) for member in members)
        rows = self.data.in_memory, None  # all of them
        about = problem, program, ensemble, self.words, self.refit
        return SelectedTail(*about, mixture, *rows, names, thinned=True)


@dataclass(eq=False)
class HypothesisEngine(Engine):
    """Hypotheses of a game as candidates, by their confusion counts; none is added for a problem."""

    mixture: Mixture
    grows: ClassVar[bool] = False

    def __post_init__(self) -> None:
        rows = self.mixture.pool.rows
        self.data, self.words, self.refit = self.mixture.table, rows.words, rows.refit

    def first_candidates(self, program: Program) -> Pool:
        """Return all hypotheses as candidates."""
        return self.mixture.candidates()

    def ensemble(self, pool: Pool, selection: Selection) -> MixtureEnsemble:
        """Return the hypotheses with their weights."""
        return self.mixture.ensemble(self.mixture.weights(selection))

    def mixture_for(self, problem: Problem) -> Mixture:
        """Return the mixture of the hypotheses for another problem.

        Raises
        ------
        ValueError
            If a rate is about deferred rows.
        """
        if problem.defers:
            raise ValueError("deferred(): no hypothesis defers rows; tune models with such a limit instead")
        return self.mixture.aiming_at(problem)

    def tail(self, problem: Problem) -> Selected:
        """Return the mixture of least objective over rows."""
        mixture = self.mixture_for(problem)
        return HypothesisEngine(mixture).result(mixture.stage(mixture.pool.n_rounds))

    def result(self, ensemble: MixtureEnsemble) -> Selected:
        """Return the rule that answers by the label with the largest weight, with its table."""
        mixture, fitted = self.mixture, self.mixture.pool.rows.fitted
        problem, program, spread = mixture.problem, mixture.program, mixture.refit_spread
        about = problem, program, ensemble, self.words, self.refit
        if problem.over_rows:
            return SelectedTail(*about, mixture, *mixture.table_and_rows, spread=spread, fitted=fitted)
        pool, alone = mixture.candidates(), Selection.alone(program, 0, mixture.predicted(ensemble))
        compared = Comparison(pool, program, alone)
        return SelectedRule(*about, pool, alone, compared, spread=spread, fitted=fitted)
