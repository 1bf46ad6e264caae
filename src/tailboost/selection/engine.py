"""The engine: selection among candidates on the selection data, for any problem, without a fit."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property
from operator import itemgetter
from typing import Any, Self

import numpy as np

from tailboost.core.array_types import Floats, Ints, Stated, Table
from tailboost.core.long_work import steps
from tailboost.learners.scores import only_scores
from tailboost.rates import (
    ROUNDING,
    InfeasibleLimitsError,
    Objective,
    Strata,
    as_objective,
    error,
)
from tailboost.rows.rows import Rows
from tailboost.rows.subgroups import GroupNames
from tailboost.selection.candidates import (
    KnownScores,
    ProbabilityRule,
    ScoreRule,
)
from tailboost.selection.contradiction import contradiction
from tailboost.selection.curve import limits_between
from tailboost.selection.data import (
    Candidate,
    Pool,
    SelectionData,
    Uncached,
)
from tailboost.selection.intervals import probability_kept, tightened
from tailboost.selection.log_odds import LogOdds
from tailboost.selection.outputs import LogProbabilities, ModelOutputs
from tailboost.selection.probabilities import (
    StratumProbabilities,
    group_features,
    has_group_features,
    shares_within_read_group,
)
from tailboost.selection.problem import (
    Problem,
    strata_of,
)
from tailboost.selection.program import (
    Best,
    Program,
    within_budget,
)
from tailboost.selection.search import best_by_search, first_candidates
from tailboost.selection.selection import MOST_ERRORS, Selection

# Selections within tightened limits. A rule with one action for a larger fraction of the rows is not selected
# to reach a confidence. Without this bound 11 of 50 rules changed, each to more error plus excess on fresh
# rows, by .009 ± .014 on average (7 tables).
SELECTIONS = 5
MOST_ALIKE = 0.95


@dataclass(eq=False)
class ProbabilityEngine(Uncached):
    """Selects among candidates with decisions by stratum probabilities. Another selection needs no fit."""

    outputs: ModelOutputs  # the models with their log-probabilities
    probabilities: StratumProbabilities
    data: SelectionData
    words: str
    refit: bool
    # The first candidates of each objective, for all limits, made once; model files do not contain them.
    pools: dict[Objective, Pool] = field(default_factory=dict)
    names: GroupNames | None = None  # of all columns of groups; None without groups
    # Number of the group column of group-aware rules; None for group-blind rules.
    told: int | None = None
    infer_groups: bool = (
        False  # as stated: whether group-blind rules estimate the group of a row
    )
    has_inferred: bool = (
        False  # whether estimates were fitted, which may be no better than frequencies
    )

    def __getstate__(self) -> dict[str, Any]:
        return super().__getstate__() | {"pools": {}}

    @cached_property
    def known_scores(self) -> KnownScores:
        """The selection rows with a single column of scores."""
        score = self.outputs.models.score
        data = self.data
        assert score is not None
        logs = self.outputs.logs[0]
        group = np.zeros(len(logs), dtype=np.intp)
        if self.probabilities.group_aware:
            group = self.probabilities.places[data.stratum % data.strata.n_combinations]
        scores = score.scores_at(np.exp(logs[:, score.positive_]))
        return KnownScores(scores, group, data.probabilities)

    @cached_property
    def log_odds(self) -> LogOdds | None:
        """The score of two labels on the selection rows; None without one."""
        if self.data.strata.n_classes != 2:
            return None
        return LogOdds.from_data(self.data, self.probabilities.told)

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
        rows = outputs.rows
        if costs is not None and problem.defers:  # a deferral costs nothing
            costs = np.column_stack([costs, np.zeros(len(costs))])
        strata, stratum, codes = strata_of(
            problem, rows, classes, names, costs, rule_column=rule_column
        )
        table = replace(outputs.table, X=X)
        strata = replace(strata, size=rows.sizes(stratum, len(strata.mass)))

        infers = infers_groups(problem, outputs, rule_column, stated=infer_groups)
        read_column = column_read_by_rules(strata, names, rule_column)
        p = StratumProbabilities(
            len(classes), strata.combinations, told=read_column, by_features=False
        )
        probabilities = _fit(p, table, rows, strata, stratum, codes, infer_groups=infers)

        if not problem.needs_costs:
            costs = None
        data = SelectionData(strata, stratum, rows.base, probabilities, costs)
        words = rows.words
        if p.estimates_groups:
            words += ", with groups estimated by models of other rows"
        return cls(
            outputs,
            p,
            data,
            words=words,
            refit=rows.refit or p.estimates_groups,
            names=names,
            told=rule_column,
            infer_groups=infer_groups,
            has_inferred=infers,
        )

    def on(self, problem: Problem) -> ProbabilityEngine:
        """Return the engine with the strata of another problem, on the same selection data.

        Raises
        ------
        ValueError
            If the kept selection data lack costs or groups of the problem.
        """
        if self.covers(problem):
            return self
        if problem.needs_costs:
            raise ValueError(
                "costs of the rows are not kept with the model: give X, y and costs"
            )
        return ProbabilityEngine.from_outputs(
            problem,
            self.outputs,
            None,
            self.data.strata.classes,
            self.names,
            rule_column=self.told,
            infer_groups=self.infer_groups,
        )

    def covers(self, problem: Problem) -> bool:
        """Whether the strata suffice for a problem."""
        strata = self.data.strata
        has_groups = not problem.needs_groups
        if self.names is not None and strata.columns:
            needed = {self.names.titles[j] for j in problem.columns(self.names.titles)}
            has_groups = needed <= set(strata.columns)
        has_costs = not problem.needs_costs or self.data.costs is not None
        infers = infers_groups(problem, self.outputs, self.told, stated=self.infer_groups)
        has_estimate = self.has_inferred or not infers
        return has_groups and has_costs and has_estimate and problem.defers == strata.defers

    # -- selection -------------------------------------------------------------------------------------

    def select(self, problem: Problem) -> Selection:
        """Return the selected rule.

        Parameters
        ----------
        problem : Problem
            Objective, limits, error budget and kind of rule.

        Raises
        ------
        InfeasibleLimitsError
            If limits contradict each other.
        ValueError
            If a rate names an unknown label, group or column.
        """
        engine = self.on(problem)
        return engine.write_thresholds(engine._rule_of(problem))

    def _rule_of(self, problem: Problem, pool: Pool | None = None) -> Selection:
        """Return the selected rule of a problem of rates; new candidates are added to the pool, if given.

        With a ``confidence``, `_surer` tightens the limits, so that the stated limits hold on new rows with
        this probability. Limits stay as stated if the probability is unknown. Raise
        InfeasibleLimitsError if the limits contradict each other, unless the problem only aims at them.
        """
        program = Program.of_rates(self.data.strata, problem.objective, problem.limits)
        candidates = self.first_candidates(program)
        if pool is None:
            pool = candidates
        else:
            pool.extend(candidates)
        program = within_budget(pool, program, problem.error_budget)
        best = best_by_search(pool, program)
        if not (best.solution.feasible or problem.aims):
            raise contradiction(pool, best.solution, self.words)
        rule = self.rule(problem, program, pool, best)
        if not problem.confidence or rule.likely is None:
            return rule
        return self._surer(rule, problem.confidence)

    def _surer(self, rule: Selection, confidence: float) -> Selection:
        """Return the rule of least objective with limits kept on new rows with a stated probability.

        All limits are tightened by the same number of standard errors, found by bisection. If no selection
        reaches the probability, the most probable one is returned. A rule with one action for nearly all rows
        is left out unless the stated limits lead to such a rule.
        """
        pool = rule.pool
        program = rule.program
        n_strata = len(program.strata.mass)
        most_alike = max(MOST_ALIKE, _largest_share(rule.best, n_strata))

        tried = [(self._probability_of_limits(rule), rule)]
        if tried[0][0] >= confidence:
            return rule
        lower = 0.0
        upper = MOST_ERRORS
        for _ in range(SELECTIONS):
            n_errors = (lower + upper) / 2
            _, last_rule = tried[-1]
            tighter = self._tightened(program, last_rule, n_errors)
            best = best_by_search(pool, tighter)
            # After a rule with one action for nearly all rows, looser limits are tried.
            is_sure = True
            if _largest_share(best, n_strata) <= most_alike + ROUNDING:
                best = replace(best, violations=program.violations(best.counts))
                surer = self.rule(rule.problem, program, pool, best)
                tried.append((self._probability_of_limits(surer), surer))
                is_sure = tried[-1][0] >= confidence
            if is_sure:
                upper = n_errors
            else:
                lower = n_errors

        reached = [surer for likely, surer in tried if likely >= confidence]
        if reached:
            selected = min(reached, key=lambda surer: surer.best.value)
        else:
            _, selected = max(tried, key=itemgetter(0))
        return selected

    def _probability_of_limits(self, rule: Selection) -> float:
        """Return about the probability that a rule keeps the stated limits; 1 if it is unknown."""
        likely = probability_kept(
            rule.problem.limits, self.data.strata, rule.counts, rule.refit_spread
        )
        return 1.0 if likely is None else likely

    def _tightened(self, program: Program, rule: Selection, n_errors: float) -> Program:
        """Return a program with stated limits tightened by ``n_errors`` standard errors of a rule's rates.

        Further limits of the program, such as that of an error budget, stay.
        """
        stated = rule.problem.limits
        tighter = [
            tightened(limit, self.data.strata, rule.counts, rule.refit_spread, n_errors)
            for limit in stated
        ]
        return program.within((*tighter, *program.limits[len(stated) :]))

    def first_candidates(self, program: Program) -> Pool:
        """Return the first candidates of an objective in a pool of the caller's, who may add others."""
        if program.caps_deferral:
            return first_candidates(self.data, program)
        if program.objective not in self.pools:
            self.pools[program.objective] = first_candidates(self.data, program)
        return self.pools[program.objective].copy()

    def rule(
        self, problem: Problem, program: Program, pool: Pool, selection: Best
    ) -> Selection:
        """Return the rule of a selection.

        ``selection`` picks from ``pool`` within ``program``.
        """
        return Selection(
            engine=self,
            problem=problem,
            program=program,
            member=self.member(pool.candidates[selection.numbers[0]]),
            pool=pool,
            best=selection,
        )

    def along(
        self, problem: Problem, limited: Stated, n_points: int
    ) -> tuple[list[Selection], Floats]:
        """Return rules between the least objective and the tightest limit on another rate.

        ``limited`` is this other rate. The second result has the limited rate and the objective of each rule,
        shape (B, 2). Rules are selected for ``n_points`` limits. If one candidate answers, all candidates
        within the limits are added.
        """
        program = Program.of_rates(self.data.strata, problem.objective, problem.limits)
        pool = self.first_candidates(program)
        program = within_budget(pool, program, problem.error_budget)
        rules: list[Selection] = []
        first_candidates_suffice = (
            limited == as_objective(error()) and problem.objective.worst and not problem.limits
        )
        if not first_candidates_suffice:
            limits = limits_between(
                limited,
                lambda end: self._rule_of(end, pool).value(limited),
                problem,
                n_points,
            )
            with steps("points of the curve", n_points) as done:
                for limit in limits:
                    with suppress(InfeasibleLimitsError):
                        rules.append(self._rule_of(problem.also_within(limit), pool))
                    done()

        for number in program.keeping(pool.all_counts).tolist():
            alone = Best.alone(program, number, pool.counts[number])
            rules.append(self.rule(problem, program, pool, alone))

        reached = [(rule.value(limited), rule.value(problem.objective)) for rule in rules]
        return rules, np.array(reached).reshape(-1, 2)

    # -- rules -----------------------------------------------------------------------------------------

    def member(self, candidate: Candidate) -> ProbabilityRule:
        """Return a candidate as a member of an ensemble, which reads as few models as possible."""
        models = self.outputs.models
        source = tuple(models.pooled_models)
        if candidate.is_constant:
            source = ()
        elif self.probabilities.estimates_groups and not self.probabilities.by_features:
            source = tuple(range(len(models.names)))  # groups are estimated from all models
        return ProbabilityRule(models, source, self.probabilities, candidate)

    @property
    def score(self) -> Any:
        """The single score of rules with thresholds; None without one, or if rules estimate the group."""
        if self.probabilities.estimates_groups:
            return None
        return self.outputs.models.score

    @property
    def answer_names(self) -> tuple[list[Any], list[Any] | None]:
        """The labels, and the groups of group-aware rules; None for group-blind rules."""
        groups = None
        if self.told is not None:
            assert self.names is not None
            groups = self.names.values[self.told].tolist()
        return list(self.data.strata.classes), groups

    def write_thresholds(
        self, rule: Selection, fresh: Sequence[LogProbabilities] = ()
    ) -> Selection:
        """Return a rule on one score in the form of its thresholds; another rule is unchanged.

        Thresholds are written as short decimals. The selection rows and the ``fresh`` rows get the same
        answers as by the candidate.
        """
        models = self.outputs.models
        member = rule.member
        if models.score is None or member.weighs_groups:
            return rule
        known = self.known_scores
        if fresh:  # many rules are written for the same fresh rows
            first, *further = fresh
            known = first.derived(
                ("beside the selection", self, *further), lambda: self._known_beside(fresh)
            )
        decided = ScoreRule.from_candidate(member, models.score, *self.answer_names, known)
        return replace(rule, member=decided)

    def _known_beside(self, fresh: Sequence[LogProbabilities]) -> KnownScores:
        """Return the known scores of the selection rows and the ``fresh`` rows."""
        score = self.outputs.models.score
        return self.known_scores.joined(
            [KnownScores.from_table(table, score, self.probabilities) for table in fresh]
        )

    def rule_by(self, problem: Problem, candidate: Candidate) -> Selection:
        """Return the rule of a stated candidate, which may break limits of the problem."""
        program = Program.of_rates(self.data.strata, problem.objective, problem.limits)
        pool = Pool(self.data)
        pool.append([candidate])
        selection = Best.alone(program, 0, pool.counts[0])
        return self.rule(replace(problem, confidence=None), program, pool, selection)


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


def _fit(
    p: StratumProbabilities,
    table: LogProbabilities,
    rows: Rows,
    strata: Strata,
    stratum: Ints,
    codes: Ints | None,
    *,
    infer_groups: bool,
) -> Any:
    """Fit stratum probabilities to the selection data, and return them for these rows, shape (S, n).

    Parameters
    ----------
    p : StratumProbabilities
        Not yet fitted; it is changed.
    table : LogProbabilities
        The log-probabilities of the models, with the features of the rows.
    rows : Rows
        The selection data.
    strata, stratum, codes
        From `strata_of`.
    infer_groups : bool
        Whether the group of each row is estimated for group-blind rules.
    """
    groups = None
    read_group = None
    if p.group_aware:
        p.shares = shares_within_read_group(strata, p.places)
        read_group = p.places[stratum % strata.n_combinations]
        p.fit_factors(table.pooled, read_group, stratum, rows.base)
    elif p.infers:
        assert codes is not None
        p.by_features = infer_groups and table.X is not None and has_group_features(table.X)
        features = np.zeros((len(rows.y), 1))  # without information
        if infer_groups:
            features = group_features(p, table)
        groups = p.fit_groups(features, rows.y, codes, rows.weight, strata)
    return p.predict(table.pooled, groups, read_group)


def _largest_share(selection: Best, n_strata: int) -> float:
    """Return the largest fraction of the rows with the same action."""
    return float(selection.counts[:n_strata].sum(axis=0).max())


def column_read_by_rules(
    strata: Strata, names: GroupNames | None, rule_column: int | None
) -> int | None:
    """Return the number, in the strata's combinations, of the group column of group-aware rules.

    None if rules are group-blind, or the column has fewer than two groups.

    Parameters
    ----------
    strata : Strata
        The strata of the selection data.
    names : GroupNames, optional
        Names of the groups.
    rule_column : int, optional
        The number of the column in ``names``; None for group-blind rules.

    Raises
    ------
    ValueError
        If a group has no row.
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
    if len(values) < 2:
        return None
    return column
