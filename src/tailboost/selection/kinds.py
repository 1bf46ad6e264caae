"""Kinds of rules in the order of their complexity, and the simplest kind as good as any other."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal, cast

import numpy as np

from tailboost.core.array_types import Floats, Hashes, Ints, Stated, Table
from tailboost.core.checks import take
from tailboost.rates import InfeasibleLimitsError
from tailboost.rows.fingerprints import hash_rows, stratified_places
from tailboost.rows.given import refuse
from tailboost.rows.subgroups import GroupNames
from tailboost.selection.curve import ends_of_curve
from tailboost.selection.data import Pool, SelectionData, Singles, rows_spread_over_strata
from tailboost.selection.engine import ProbabilityEngine
from tailboost.selection.outputs import ModelOutputs
from tailboost.selection.probabilities import stratum_probabilities
from tailboost.selection.problem import Problem
from tailboost.selection.program import Best, Program
from tailboost.selection.selected import Comparison, Selected, SelectedRule

InferGroups = bool | Literal["auto"]

# Largest number of rows for a comparison of kinds.
ROWS_COMPARED = 20_000


@dataclass(frozen=True, eq=False)
class Half:
    """Half of the compared rows for the selection of a rule, and the other half held out.

    Attributes
    ----------
    data : SelectionData
        The half for the selection. Its stratum probabilities are fitted on this half alone.
    held_out : ndarray of int, shape (m,)
        Numbers of the held-out rows among the compared rows.
    probabilities : ndarray of shape (S, m)
        p(s | x) of the held-out rows.
    """

    data: SelectionData
    held_out: Ints
    probabilities: Singles


@dataclass(frozen=True, eq=False)
class KnownActions:
    """Actions in the compared rows, in place of a candidate."""

    known: Ints  # shape (n,)

    def actions(self, probabilities: Any) -> Ints:
        """Return the known actions; ``probabilities`` have no effect."""
        return self.known


@dataclass(frozen=True, eq=False)
class CrossFit:
    """Comparison of two kinds of rules by cross-fitting: selected on one half, applied to the other.

    Attributes
    ----------
    data : SelectionData
        The compared rows.
    halves : tuple of tuple of Half
        For each kind, both halves in turn.
    """

    data: SelectionData
    halves: tuple[tuple[Half, ...], ...]

    @classmethod
    def from_engines(
        cls,
        problem: Problem,
        engines: tuple[ProbabilityEngine, ...],
        X: Table,
        costs: Floats | None,
    ) -> CrossFit | None:
        """Return the kinds of some engines on two halves; None if a half has no row of some stratum.

        ``X`` and ``costs`` are the features and costs of all rows with labels. Rows of equal
        content are in the same half.
        """
        labelled = engines[0].data
        compared = rows_spread_over_strata(labelled.stratum, ROWS_COMPARED)
        outputs = _part(engines[0].outputs, compared)
        if engines[-1].probabilities.by_features:
            X = take(X, compared)
            contents = X
        else:
            X = None
            contents = np.hstack(outputs.logs)
        if costs is not None:
            costs = costs[compared]
        stratum = labelled.stratum[compared]
        rows_of_halves = _halves(hash_rows(contents), stratum, outputs.rows.weight)
        if rows_of_halves is None:
            return None

        one, other = rows_of_halves
        half_of = partial(_half, problem, outputs=outputs, X=X, costs=costs)
        halves = []
        for engine in engines:
            first = half_of(engine, selects=one, held_out=other)
            second = half_of(engine, selects=other, held_out=one)
            halves.append((first, second))

        base = outputs.rows.base
        mass = np.bincount(stratum, base, len(labelled.strata.mass)).astype(np.float64)
        strata = replace(labelled.strata, mass=mass)
        if not problem.needs_costs:
            costs = None
        elif labelled.costs is not None:
            costs = labelled.costs[compared]
        return cls(SelectionData(strata, stratum, base, costs=costs), tuple(halves))

    def compared(
        self, kind: int, engine: ProbabilityEngine, problem: Problem
    ) -> Comparison | None:
        """Return the comparison of a kind's actions in held-out rows.

        ``kind`` is the number of the kind, and ``engine`` selects its rules. The rule of each half answers
        the rows of the other half. None if no rule keeps the limits on one of the halves.
        """
        actions = np.zeros(len(self.data), dtype=np.intp)
        for half in self.halves[kind]:
            on_half = replace(engine, data=half.data, pools={})
            try:
                rule = on_half.select(problem)
            except InfeasibleLimitsError:
                return None
            heaviest = rule.ensemble.base_models[rule.ensemble.weights.argmax()]
            actions[half.held_out] = heaviest.candidate.actions(half.probabilities)
        program = Program.of_rates(self.data.strata, problem.objective, problem.limits)
        pool = Pool(self.data)
        number = pool.enter(KnownActions(actions), actions)
        return Comparison(pool, program, Best.alone(program, number, pool.counts[number]))


def _halves(hashes: Hashes, stratum: Ints, weight: Floats) -> tuple[Ints, Ints] | None:
    """Return the numbers of the rows of two halves; None if a half has no row of some stratum.

    Parameters
    ----------
    hashes : ndarray of int, shape (n,)
        Hashes of the rows: rows of equal content are in the same half.
    stratum : ndarray of int, shape (n,)
        Stratum of each row.
    weight : ndarray of shape (n,)
        Weights of the rows.
    """
    is_second = stratified_places(hashes, stratum, weight) % 2 == 1
    n_in_halves = len(np.unique(np.column_stack([stratum, is_second]), axis=0))
    if n_in_halves < 2 * len(np.unique(stratum)):
        return None
    return np.flatnonzero(~is_second), np.flatnonzero(is_second)


def _half(
    problem: Problem,
    engine: ProbabilityEngine,
    *,
    outputs: ModelOutputs,
    X: Table,
    costs: Floats | None,
    selects: Ints,
    held_out: Ints,
) -> Half:
    """Return a half of the compared rows, with stratum probabilities fitted on this half.

    ``outputs``, ``X`` and ``costs`` are of the compared rows. ``selects`` are the numbers of the half's rows
    among them, ``held_out`` those of the other rows.
    """
    if costs is not None:
        costs = costs[selects]
    of_half = ProbabilityEngine.from_outputs(
        problem,
        _part(outputs, selects),
        take(X, selects),
        engine.data.strata.classes,
        engine.names,
        rule_column=None,
        infer_groups=engine.infer_groups,
        costs=costs,
    )
    held_out_table = replace(_part(outputs, held_out).table, X=take(X, held_out))
    probabilities = stratum_probabilities(of_half.probabilities, held_out_table)
    return Half(of_half.data, held_out, probabilities)


def _part(outputs: ModelOutputs, numbers: Ints) -> ModelOutputs:
    """Return the outputs on some rows with labels, by their ascending numbers."""
    chosen = np.zeros(len(outputs.rows.y), dtype=bool)
    chosen[numbers] = True
    return ModelOutputs(
        outputs.models, tuple(log[chosen] for log in outputs.logs), outputs.rows.part(chosen)
    )


@dataclass(frozen=True, eq=False)
class Kinds:
    """The kinds of rules for a selection: thresholds on the score, then rules with an estimate of the group.

    Attributes
    ----------
    engines : tuple of ProbabilityEngine
        One for each kind, the simplest first.
    infer_groups : bool or "auto"
        Whether rules may weigh an estimate of the group; with "auto", only if the estimate pays.
    cross_fit : CrossFit or None
        The kinds on held-out rows; None without a comparison.
    """

    engines: tuple[ProbabilityEngine, ...]
    infer_groups: InferGroups
    cross_fit: CrossFit | None = None

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
        infer_groups: InferGroups = "auto",
        costs: Floats | None = None,
    ) -> Kinds:
        """Return the kinds for a problem on selection data.

        With ``infer_groups="auto"``, and if groups can be estimated, there are two kinds for a comparison:
        rules without and with an estimate. Otherwise there is one kind.

        Parameters
        ----------
        problem : Problem
            The objective within limits.
        outputs : ModelOutputs
            The log-probabilities of the models on the selection data.
        X : table of n rows
            Features of the selection data, from which groups may be estimated.
        classes : ndarray of shape (K,)
            The labels.
        names : GroupNames or None
            Names of the groups; None for rows without groups.
        rule_column : int or None
            Number of the group column that the rule reads; None for group-blind rules.
        infer_groups : "auto" or bool, default="auto"
            Whether rules may estimate the group of a row.
        costs : ndarray of shape (n, K), optional
            Cost of each answer in each row.
        """
        engine = partial(
            ProbabilityEngine.from_outputs,
            problem,
            outputs,
            X,
            classes,
            names,
            rule_column=rule_column,
            costs=costs,
        )
        simplest = engine(infer_groups=False)
        if not (infer_groups and simplest.probabilities.infers):
            return cls((simplest,), infer_groups)
        inferring = engine(infer_groups=True)
        if not inferring.probabilities.estimates_groups:
            return cls((simplest,), infer_groups)
        if infer_groups != "auto":
            return cls((inferring,), infer_groups)
        engines = simplest, inferring
        return cls(engines, infer_groups, CrossFit.from_engines(problem, engines, X, costs))

    @property
    def widest(self) -> ProbabilityEngine:
        """The engine of the most complex kind."""
        return self.engines[-1]

    def on(self, problem: Problem) -> Kinds:
        """Return the kinds with strata for another problem.

        Raises
        ------
        ValueError
            If the kept selection data lack costs or groups of the problem.
        """
        widest = self.widest
        if widest.covers(problem):
            return self
        if problem.needs_costs:
            refuse("rate of costs", "kept rows")
        return Kinds.from_outputs(
            problem,
            widest.outputs,
            None,
            widest.data.strata.classes,
            widest.names,
            rule_column=widest.told,
            infer_groups=self.infer_groups,
        )

    def simplest(self, problem: Problem) -> tuple[ProbabilityEngine, Selected]:
        """Return the engine of the simplest or of the widest kind for a problem, and its selected rule.

        The widest kind is taken if its rule improves the objective on the selection data and the kind pays on
        held-out rows, see `Comparison.pays_beside`, or if the simplest one has no rule within the limits. Its
        search may end far from the best rule.

        Raises
        ------
        InfeasibleLimitsError
            If the limits contradict each other for rules of all kinds.
        """
        simplest = self.engines[0]
        if len(self.engines) == 1:
            return simplest, simplest.select(problem)
        try:
            simple_rule = simplest.select(problem)
        except InfeasibleLimitsError:
            return self.widest, self.widest.select(problem)
        try:
            rule = self.widest.select(problem)
        except InfeasibleLimitsError:
            return simplest, simple_rule
        goal = problem.objective
        improves = problem.over_rows or rule.value(goal) < simple_rule.value(goal)
        if improves and self._widest_pays(problem, cast("SelectedRule", rule)):
            return self.widest, rule
        return simplest, simple_rule

    def _widest_pays(self, problem: Problem, rule: SelectedRule) -> bool:
        """Whether the most complex kind, which selects ``rule`` on all rows, is worth its complexity."""
        if self.cross_fit is None:
            return False
        if not any(member.weighs_groups for member in rule.ensemble.base_models):
            return False
        problem = replace(problem, confidence=None, randomized=False)
        simple = self.cross_fit.compared(0, self.engines[0], problem)
        inferring = self.cross_fit.compared(1, self.engines[1], problem)
        return simple is not None and inferring is not None and inferring.pays_beside(simple)

    def along(self, problem: Problem, limited: Stated) -> ProbabilityEngine:
        """Return the kind of the rules of a trade-off curve: the simplest one at the middle of its range."""
        widest = self.widest
        if len(self.engines) == 1:
            return widest
        try:
            lower, upper = ends_of_curve(
                limited, lambda end: widest.select(end).value(limited), problem
            )
        except InfeasibleLimitsError:
            return widest
        middle = limited.within((lower + upper) / 2.0)
        kind, _ = self.simplest(problem.also_within(middle))
        return kind

    def alone(self, engine: ProbabilityEngine) -> Kinds:
        """Return one kind, without a comparison."""
        return replace(self, engines=(engine,), cross_fit=None)
