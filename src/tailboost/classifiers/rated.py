"""Selection for rates: the stated problem, the engine on the selection data, and rules on probabilities."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from tailboost.boosting.ensemble import MixtureEnsemble
from tailboost.boosting.training_set import GroupNames, Rows
from tailboost.classifiers.selected_rule import SelectedRule
from tailboost.core.array_types import Floats, Ints, Mask
from tailboost.core.tables import as_pandas
from tailboost.learners.table import TableReader
from tailboost.rates import (
    AT_MOST,
    InfeasibleLimitsError,
    Largest,
    Limit,
    Objective,
    Rate,
    Spread,
    Strata,
    checked_limits,
    error,
    largest,
)
from tailboost.selection.candidates import (
    AnySelectionData,
    Candidate,
    Pool,
    SelectionData,
    decide,
    expected_costs,
)
from tailboost.selection.confidence import confident
from tailboost.selection.probability_tables import LogProbabilities, ModelOutputs, Models
from tailboost.selection.program import Program, Solution
from tailboost.selection.rule import RulePart, log_weights
from tailboost.selection.selecting import Selection, first_candidates, selected, within_budget
from tailboost.selection.stratum_probabilities import StratumProbabilities

# The objectives that have a name, as rates.
NAMED = {
    "error": error(),
    "worst_class": largest(error(by="class")),
    "worst_group": largest(error(by="group")),
    "worst_cell": largest(error(by="cell")),
}
# The most class weights that the name of a rule shows.
MOST_WEIGHTS = 10
# Class weights that differ by a smaller fraction are printed as equal.
EQUAL_WEIGHTS = 1e-9
# The most columns from which groups are estimated. Tables with more columns, such as images, use the models'
# probabilities.
MOST_FEATURES = 1000


def name_of(objective: Any) -> str:
    """Return the name of an objective, which may be given as a rate."""
    if objective is None or isinstance(objective, str):
        return objective or "worst_class"
    return next((name for name, rate in NAMED.items() if rate == objective), str(objective))


@dataclass(frozen=True)
class RateProblem:
    """An objective and limits, both about rates."""

    objective: Objective  # a rate, or the largest rate of a family
    limits: tuple[Limit, ...]
    # Whether a rule is selected even if no rule satisfies the limits, as for `max_error`.
    aims: bool = False

    @classmethod
    def of(cls, objective: Any, limits: Any = (), max_error: Any = None) -> RateProblem | None:
        """Return the problem of the parameters; None for a CVaR, which is no rate.

        With ``max_error`` the objective must be the largest rate of a family. This family is limited, and the
        overall error is minimised.

        Raises
        ------
        TypeError, ValueError
            If an argument is not an objective or limits, or if the arguments exclude each other.
        """
        checked = checked_limits(limits) if limits else ()
        by_name = objective is None or isinstance(objective, str)
        if objective == "cvar":
            if checked:
                raise ValueError(
                    "objective='cvar' takes no limits on rates; with limits, the objective must be a rate"
                )
            return None
        if objective is None and checked and max_error is None:
            objective = "error"
        rate = NAMED[objective or "worst_class"] if by_name else objective
        if max_error is None:
            return cls(Objective.of(rate), checked)
        if not isinstance(rate, Largest):
            raise ValueError(
                "max_error limits the subgroups of an objective that is the largest rate of a family; "
                "state it as a limit: rates.error(by='class') <= ..."
            )
        return cls(Objective.of(error()), (rate.rate <= max_error, *checked), aims=not checked)

    @property
    def rates(self) -> list[Rate]:
        """The rates of the objective and the limits, each once."""
        return list(dict.fromkeys([self.objective.rate, *(limit.rate for limit in self.limits)]))

    @property
    def subgroup_kind(self) -> Any:
        """The ``by`` of the first rate with subgroups; "class" if no rate has subgroups."""
        return next((rate.by for rate in self.rates if rate.by is not None), "class")

    @property
    def needs_groups(self) -> bool:
        """Whether a rate is about groups."""
        return any(rate.needs_groups for rate in self.rates)

    @property
    def needs_costs(self) -> bool:
        """Whether a rate is about costs of the rows."""
        return any(rate.needs_costs for rate in self.rates)

    @property
    def defers(self) -> bool:
        """Whether rows may be deferred: a rate limits deferral, or charges for it."""
        return any(rate.needs_deferral for rate in self.rates)

    def columns(self, names: tuple[Any, ...]) -> list[int]:
        """Return the numbers of the columns of groups in the rates."""
        used: set[Any] = set()
        for rate in self.rates:
            by = rate.by if isinstance(rate.by, tuple) else (rate.by,)
            used |= set(names) if {"group", "cell"} & set(by) else set(by)
        return [j for j, name in enumerate(names) if name in used]

    def strata(
        self,
        rows: Rows,
        classes: Any,
        names: GroupNames | None,
        costs: Floats | None = None,
        *,
        group_aware: bool = False,
    ) -> tuple[Strata, Ints, Ints | None]:
        """Return the strata of rows, the stratum of each row, and the groups by column.

        Groups make strata if a rate is about them, or if rules read them.

        Raises
        ------
        ValueError
            If groups or costs are missing, or a rate names an unknown label, group or column.
        """
        numbers, columns, values = None, (), ()  # type: Any, Any, Any
        if self.needs_groups or group_aware:
            if rows.groups is None or names is None:
                raise ValueError("groups are needed, and none were given")
            first = np.cumsum([0, *(len(of_column) for of_column in names.values)])
            titles = names.titles
            used = self.columns(titles) if names.columns else [0]
            if not used:  # a rate names an unknown column; its terms raise the error
                used = list(range(len(titles)))
            numbers = (rows.groups if rows.groups.ndim == 2 else rows.groups[:, None]) - first[:-1]
            numbers, columns = numbers[:, used], tuple(titles[j] for j in used)
            values = tuple(names.values[j] for j in used)
        if self.needs_costs and costs is None:
            raise ValueError(
                "cost() without a matrix is a mean of costs of the rows: give costs= to fit, and costs_val= "
                "with X_val"
            )
        strata, stratum = Strata.of(
            rows.y,
            numbers,
            rows.weight,
            classes,
            columns,
            values,
            defers=self.defers,
            costs=costs if self.needs_costs else None,
        )
        return strata, stratum, numbers

    @property
    def tradeoff_rates(self) -> tuple[Any, Any]:
        """The rates of a trade-off by default: the limited one and the minimised one.

        These are the rate of the first limit with a bound to tighten, and the objective. Without such a limit
        the overall error is limited. If it is also the objective, the largest error of a class is minimised.
        """
        objective = self.objective
        minimised = Largest(objective.rate) if objective.worst else objective.rate
        for limit in self.limits:
            rate = limit.rate
            if limit.compares:
                return Spread(limit.form, rate), minimised
            limited = rate if rate.by is None else Largest(rate)
            if limit.form == AT_MOST and rate.can_be_lowered and limited != minimised:
                return limited, minimised
        return error(), Largest(error(by="class")) if minimised == error() else minimised


@dataclass(frozen=True, eq=False)
class ProbabilityRule:
    """A candidate as a member of an ensemble: it answers by the models' probabilities."""

    table_: Models
    source: tuple[int, ...]  # numbers of the models that it reads
    probabilities: StratumProbabilities
    candidate: Candidate

    def predict_table(self, table: LogProbabilities) -> Ints:
        """Return class numbers, shape (n,); deferred rows get the label that would be answered."""
        costs = self._costs(table)
        return decide(costs if len(costs) == 1 else costs[: self.probabilities.n_classes])

    def defers_table(self, table: LogProbabilities) -> Mask:
        """Return which rows are deferred, shape (n,)."""
        if not self.defers:
            return np.zeros(table.n_rows, dtype=bool)
        deferred: Mask = decide(self._costs(table)) == self.probabilities.n_classes
        return deferred

    def as_part(self, *, plain: bool = True) -> RulePart:
        """Return the rule as numbers and lists.

        With ``plain`` the rule reads the model's own probabilities if possible, without learned weights.
        """
        K, p = self.probabilities.n_classes, self.probabilities
        by_group = self.candidate.action_costs.reshape(K, len(p.combinations), -1).transpose(1, 0, 2)
        if self.candidate.is_constant:
            return RulePart(1.0, {}, [0.0] * K, by_group.tolist(), inferred=p.infers)
        if p.factors is not None:
            by_group = by_group * p.factors.reshape(K, -1, 1).transpose(1, 0, 2)
        part = RulePart(1.0, *log_weights(self.table_), by_group.tolist(), inferred=p.infers)
        return part.plain if plain else part

    @property
    def weighs_groups(self) -> bool:
        """Whether the rule weighs p(group | x, y), which is learned from the features."""
        return self.probabilities.infers and not self.candidate.is_constant

    @property
    def defers(self) -> bool:
        """Whether the rule may defer rows."""
        return self.candidate.action_costs.shape[1] > self.probabilities.n_classes

    def _costs(self, table: LogProbabilities) -> Floats:
        if self.candidate.is_constant:
            ones = np.ones((1, 1), dtype=np.float32)
            return np.repeat(expected_costs(ones, self.candidate.action_costs[:1]), table.n_rows, axis=1)
        return expected_costs(stratum_probabilities(self.probabilities, table), self.candidate.action_costs)

    def words(self, classes: Any) -> str:
        """Return a name for people: the models, and the class weights."""
        K, costs = len(classes), self.candidate.action_costs
        if self.candidate.is_constant:
            return f"constant {classes[int(costs[0, :K].argmin())]}"
        weights = costs[:, :K].max(axis=1) - costs[:, :K].min(axis=1)
        if np.ptp(weights) <= EQUAL_WEIGHTS * weights.max():
            return self.table_.words()
        least = weights[weights > 0].min()
        shown = [f"{weight / least:.3g}" for weight in weights[:MOST_WEIGHTS]]
        ratio = " : ".join(shown + ["…"] * (len(weights) > MOST_WEIGHTS))
        return f"{self.table_.words()}, {'class' if len(costs) == K else 'subgroup'} weights {ratio}"


def stratum_probabilities(probabilities: StratumProbabilities, table: LogProbabilities) -> Any:
    """Return p(s | x) of the rows of a table, computed once."""

    def make() -> Any:
        groups = None
        if probabilities.infers:
            groups = probabilities.groups_of(group_features(probabilities, table))
        combination = table.groups if probabilities.group_aware else None
        return probabilities.predict(table.pooled, groups, combination)

    return table.derived(("strata", id(probabilities)), make)


def group_features(probabilities: StratumProbabilities, table: LogProbabilities) -> Any:
    """Return the input of the group models: features, or log-probabilities of all models."""
    if probabilities.by_features:
        return table.X
    return np.hstack([table[i] for i in range(table.n_models)])


def has_group_features(X: Any) -> bool:
    """Whether groups can be estimated from a table: few columns of numbers or categories."""
    if not hasattr(X, "shape") or len(X.shape) != 2 or X.shape[1] > MOST_FEATURES:
        return False
    try:
        TableReader().fit(X := as_pandas(X)).transform(X)
    except (TypeError, ValueError):
        return False
    return True


@dataclass(eq=False)
class SelectionEngine:
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
        problem: RateProblem,
        outputs: ModelOutputs,
        X: Any,
        classes: Any,
        names: GroupNames | None,
        *,
        group_aware: bool,
        costs: Floats | None = None,
    ) -> SelectionEngine:
        """Return the engine on selection data.

        Parameters
        ----------
        problem : RateProblem
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
        strata, stratum, numbers = problem.strata(rows, classes, names, costs, group_aware=group_aware)
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

    def covers(self, problem: RateProblem, names: GroupNames | None) -> bool:
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
        problem: RateProblem,
        *,
        error_budget: float | None,
        randomized: bool,
        pool: Pool | None = None,
        confidence: float | None = None,
    ) -> SelectedRule:
        """Return the selected rule.

        Parameters
        ----------
        problem : RateProblem
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
        self, problem: RateProblem, program: Program, pool: Pool, selection: Selection, *, randomized: bool
    ) -> SelectedRule:
        """Return a selection as a rule that answers, with its table."""
        order = np.argsort(-selection.weights, kind="stable")
        members = [self.member(pool.candidates[number]) for number in selection.numbers.tolist()]
        K = self.probabilities.n_classes
        ensemble = MixtureEnsemble(members, selection.weights, K, order, selection.gap)
        return SelectedRule(problem, program, pool, selection, ensemble, self.words, randomized, self.refit)

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
