"""The engine, which selects among the rules of a family on selection data, and its selections.

A selection is a rule for a problem, with its rates and warnings. A family is all rules of one form:
`Thresholds` on a score of two labels, or `ClassWeights`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any, Self

import numpy as np

from tailboost.core import (
    BoundNotMetWarning,
    Floats,
    Ints,
    Name,
    SmallSubgroupsWarning,
    UselessRuleWarning,
    frozen_object,
    joined,
    plain,
    warn_user,
)
from tailboost.rates import Counts, Limit, Rate, Strata
from tailboost.rows import HUMAN_REVIEW, GroupNames, Rows, digest, hash_rows, unit_name
from tailboost.selection.direction import refuse_falling
from tailboost.selection.outputs import LOG_ODDS, Models, Outputs
from tailboost.selection.rule import Rule, ThresholdRule
from tailboost.selection.search import (
    Charges,
    Family,
    Pool,
    Problem,
    Program,
    contradiction,
    first_pool,
    select,
    solve,
    within_budget,
)
from tailboost.selection.table import REFIT, RateTable
from tailboost.selection.thresholds import FEW, Thresholds
from tailboost.selection.weights import ClassWeights, expected_costs

# Maximum number of subgroups in a warning.
SUBGROUPS_SHOWN = 4
# A rule is useless if a larger fraction of the rows gets one action. If a fraction r > .9 of the rows has
# this label, the limit is (1 + r)/2.
MOST_EQUAL = 0.95
# A warning names rates over fewer rows.
FEW_ROWS = 10

#: The groups of a group-aware rule and the name of their column; None twice for a group-blind one.
GroupsRead = tuple[list[Name] | None, Name]


def counted_rows(problem: Problem, rows: Rows, column_read: int | None) -> Counts:
    """Return rows by stratum, as the rates of a problem count them.

    Groups make strata if a rate is about them, or if rules read their column, number ``column_read``.
    Those of a column without a name also make strata beside a rate of all rows.

    Raises
    ------
    ValueError
        If a group with thresholds of its own has no row.
    """
    names = rows.names
    used = problem.columns(names.titles, column_read)
    if column_read is not None:
        absent = np.delete(names.values[column_read], rows.groups[:, column_read])
        if len(absent):
            raise ValueError(
                f"by_group: the selection data have no row of group(s) {absent.tolist()} to select on"
            )
    return Counts.stratified(
        rows.y,
        rows.groups[:, used].T,
        rows.weight,
        rows.classes,
        GroupNames(tuple(names.values[j] for j in used), tuple(names.titles[j] for j in used)),
        defers="deferral" in problem.needs,
        costs=rows.costs if "costs" in problem.needs else None,
        units=rows.units,
    )


def family_of(
    problem: Problem, data: Counts, outputs: Outputs, group_column: int | None
) -> Family:
    """Return the rules on outputs of models: thresholds on a score of two labels, or weights of classes.

    Of two labels there are weights where an estimate of groups is asked for, and is better than their
    frequencies.
    """
    models = outputs.models
    many_classes = data.strata.n_classes > 2
    infers = (
        problem.infer_groups and len(data.strata.combinations) > 1 and not models.columns_read
    )
    if infers or many_classes:
        weights = ClassWeights(data, group_column)
        weights = replace(weights, probabilities=weights.predict(outputs))
        if infers:
            weights = weights.with_groups(outputs)
        if weights.models or many_classes:
            return weights
    # Of two labels, without a better estimate of groups.
    column = models.score_column or LOG_ODDS
    sign = 2.0 * column.positive_ - 1.0  # −1.0 of a score for the first label
    chance = np.exp(outputs.pooled[:, 1])
    score = outputs.score  # which may read the average
    del outputs.pooled  # most of the memory of a large table
    return Thresholds(data, score, chance, group_column, sign)


@frozen_object
class Engine:
    """Selects among rules on models' outputs, without another fit of these models.

    Attributes
    ----------
    problem : Problem
        Determined the strata and costs.
    models : Models
        The models with their log-probabilities, their average, and the selection data. The features of these
        rows, from which groups are estimated, are not kept.
    column_read : int or None
        Number of the group column that rules read, among the given ones; None for group-blind rules.
    family : Thresholds or ClassWeights
        The rules, on the selection data.
    spread : float
        The spread of rates under a refit of the models; 0 if the counted models answer.
    words : str
        The selection data, for people.
    """

    problem: Problem
    models: Models
    column_read: int | None
    family: Family
    spread: float
    words: str

    @classmethod
    def of(cls, problem: Problem, models: Models, column_read: int | None) -> Self:
        """Return the rules for a problem on the outputs of models.

        Raises
        ------
        ValueError
            If a group that rules read has no row, or a score falls with the label that is stated for it.
        """
        rows = models.rows
        data = counted_rows(problem, rows, column_read)
        group_column = None  # among the columns of the strata
        if column_read is not None and len(rows.names.values[column_read]) > 1:
            group_column = data.strata.columns.index(rows.names.titles[column_read])
        outputs = models.selection_outputs(data, group_column)
        family = family_of(problem, data, outputs, group_column)
        words = rows.words
        if family.models:
            words += ", with groups estimated by models of other rows"
        spread = REFIT if rows.refit or family.models else 0.0
        models = replace(models, rows=replace(rows, X=None))
        if not (rows.fitted or rows.refit or family.models):
            refuse_falling(data, outputs, slice(None))
        return cls(problem, models, column_read, family, spread, words)

    def outputs(self) -> Outputs:
        """Return the outputs of the models on the selection data."""
        return self.models.selection_outputs(self.family.data, self.family.group_column)

    def digest_beside(self, outputs: Outputs) -> str:
        """Return a digest for an attempt: of all that rules are selected by, and of outputs they answer.

        The order of the rows has no effect, nor has that of the answered ones.
        """
        family = self.family
        if isinstance(family, Thresholds):
            selecting = [family.score, family.chance]
            answering = [outputs.score]
        else:
            selecting = family.probabilities
            answering = [*family.predict(outputs)]
        rows = replace(self.models.rows, costs=family.data.costs)
        contents = rows.hashes(hash_rows(np.column_stack([*selecting, rows.weight])))
        answered = hash_rows(np.column_stack(answering), rounded=True)
        about = repr((self.column_read, self.spread, family.data.strata.size.tolist()))
        return digest(np.sort(contents).tobytes(), np.sort(answered).tobytes(), about.encode())

    def on(self, problem: Problem) -> Engine:
        """Return the engine with the strata of another problem, on the same selection data.

        If it estimates groups of other columns, models of these are fitted on the probabilities of `models`.

        Raises
        ------
        ValueError
            If the kept selection data lack costs or groups of the problem.
        """
        strata = self.family.data.strata
        titles = self.models.rows.names.titles
        covers = (
            {titles[j] for j in problem.columns(titles)} <= set(strata.columns)
            and ("deferral" in problem.needs) == strata.defers
            and ("costs" not in problem.needs or strata.mean_costs is not None)
            and problem.infer_groups == self.problem.infer_groups
        )
        if covers:
            return self
        return Engine.of(problem, self.models, self.column_read)

    # -- selection -------------------------------------------------------------------------------------

    def select(self, problem: Problem, pool: Pool | None = None) -> Selection:
        """Return the selected rule of a problem; new rules are added to a given pool of this engine's rules.

        The selection data must have the strata of the problem, see `on`.

        Raises
        ------
        InfeasibleLimitsError
            If the limits contradict each other.
        ValueError
            If a rate names an unknown label, group or column, or the selection data lack its costs or groups.
        """
        charges = Charges(self.family.data.strata, problem.objective, problem.limits)
        pool = pool or first_pool(self.family, charges)
        if problem.error_budget is not None:
            charges = within_budget(pool, charges, problem.error_budget)
        number = select(pool, charges)
        if not charges.keeps(pool.counts[number]):
            mixture = solve(pool.counts, Program(charges))
            if not mixture.feasible:
                raise contradiction(mixture, self.words)
        return self.selected(pool, number, problem, charges.limits)

    def selected(
        self, pool: Pool, number: int, problem: Problem, limits: Sequence[Limit]
    ) -> Selection:
        """Return a candidate of a pool as the selection for a problem; its rule has thresholds for cuts."""
        return Selection(
            self,
            problem,
            limits,
            self.family.kept(pool.candidates[number]),
            pool.counts[number],
        )


@frozen_object
class Selection:
    """The rule selected for a problem among the candidates on selection data, with its rates there.

    Another problem gives another selection.

    Attributes
    ----------
    engine : Engine
        The candidates on the selection data.
    problem : Problem
        The objective within limits.
    limits : sequence of Limit
        Those of the problem, and that of its error budget.
    rule : ndarray
        The selected candidate: thresholds on the rising score, shape (m, A − 1), or costs of actions, shape
        (S, A).
    counts : ndarray of shape (W, A)
        The confusion counts of the rule on the selection data.
    at_ranks : bool
        Whether the thresholds are at ranks of rows that certify: then rates have no interval.
    """

    engine: Engine
    problem: Problem
    limits: Sequence[Limit]
    rule: Floats
    counts: Floats
    at_ranks: bool = False

    notes = None  # a file has some

    @property
    def models(self) -> Models:
        """The models that make the scores."""
        return self.engine.models

    @property
    def strata(self) -> Strata:
        """The strata of the counts."""
        return self.engine.family.data.strata

    @cached_property
    def charges(self) -> Charges:
        """The rates of the problem and all limits."""
        return Charges(self.strata, self.problem.objective, self.limits)

    @property
    def defers(self) -> bool:
        """Whether the rule may defer rows."""
        return self.strata.defers

    @property
    def groups_read(self) -> GroupsRead:
        """The groups of a group-aware rule, and the name of their column."""
        column = self.engine.column_read
        if column is None:
            return None, None
        names = self.models.rows.names
        return names.values[column].tolist(), names.titles[column]

    @property
    def n_rows(self) -> float:
        """Number of selection rows; of weighted rows the effective number."""
        return self.strata.size.sum()

    def within(self, limits: Sequence[Limit]) -> Selection:
        """Return the selection within other limits; raises as `Engine.select`."""
        problem = self.problem.within(limits)
        return self.engine.on(problem).select(problem)

    def stated_within(self, limits: Sequence[Limit]) -> Selection:
        """Return the same rule with other limits as the stated ones; nothing is selected."""
        return replace(self, problem=self.problem.within(limits), limits=limits)

    # -- the rule ----------------------------------------------------------------------------------------

    @property
    def on_score(self) -> ThresholdRule:
        """The rule of thresholds on the score; of several models on the log-odds of their average."""
        family = self.engine.family
        assert isinstance(family, Thresholds)
        column = self.models.score_column or LOG_ODDS
        classes = list(self.strata.classes)
        first, last = classes if family.sign > 0 else classes[::-1]
        bands = []
        for low, high in np.sort(family.rising(self.rule), axis=1)[:, [0, -1]].tolist():
            ranges = (-np.inf, low, first), (low, high, HUMAN_REVIEW), (high, np.inf, last)
            band = [(lower, action) for lower, upper, action in ranges if lower < upper]
            bands.append([(None, band[0][1]), *band[1:]])  # the lowest range begins at −∞
        groups, group_column = self.groups_read
        return ThresholdRule(
            column.column_list[0],
            classes,
            groups,
            bands,
            column.kind,
            column.missing,
            None if self.models.columns_read else self.models.names[0],
            plain(group_column),
            last,
        )

    @property
    def written(self) -> ThresholdRule | Rule:
        """The rule alone. Thresholds on log-odds, which no column has, are costs, equal at a threshold."""
        models = self.models
        family = self.engine.family
        if isinstance(family, Thresholds) and models.score_column:
            return self.on_score
        return Rule(
            list(self.strata.classes),
            self.groups_read[0],
            {models.names[i]: float(models.weights[i]) for i in models.used},
            models.offset.tolist(),
            family.costs(self.rule).tolist(),
            bool(family.models),
            of_probabilities=all(each.are_probabilities for each in models.columns_read),
        )

    def label_numbers(self, outputs: Outputs) -> Ints:
        """Return class numbers; of a deferred row K more than that of the label it would get."""
        family = self.engine.family
        K = self.strata.n_classes
        if isinstance(family, ClassWeights):
            costs = expected_costs(family.predict(outputs), self.rule)
            return costs[:K].argmin(axis=0) + K * (costs.argmin(axis=0) == K)
        numbers = self.on_score.numbers(outputs.score, outputs.groups)
        deferred = np.flatnonzero(numbers == K)
        if len(deferred):
            numbers[deferred] += outputs.pooled[deferred].argmax(axis=1)
        return numbers

    # -- rates on the selection data ---------------------------------------------------------------------

    @property
    def actions(self) -> Ints:
        """Number of the action for each row of the selection data, shape (n,)."""
        family = self.engine.family
        if isinstance(family, ClassWeights):  # the features of these rows are not kept
            return family.reached(self.rule).actions
        outputs = self.engine.outputs()
        return self.on_score.numbers(outputs.score, outputs.groups)

    def rates(self, stated: Sequence[Rate | Limit]) -> RateTable:
        """Return the table of rates and limits."""
        engine = self.engine
        # No interval is honest where the selection finds favourable rows: of a ratio, whose denominator
        # depends on the answers, and of rates of thresholds by group. The true overall error of two, three or
        # four groups was above its 95 % interval in 17, 32 and 7 of 150, 150 and 60 draws, and below it in
        # none; with one threshold it was above in 8 of 150 and below in 3. The miss rates of 20 groups were
        # inside in 42 %. On rows of a fit errors are small.
        has_none = (
            engine.family.group_column is not None or self.at_ranks or engine.models.rows.fitted
        )
        return RateTable.counted(
            stated,
            self.strata,
            self.counts,
            engine.words,
            spread=lambda rate: np.nan if has_none or rate.is_ratio else engine.spread,
            products=engine.family.data.products(self.actions, engine.models.rows.clusters),
        )

    @cached_property
    def estimates(self) -> RateTable:
        """The rates of the objective and the limits by subgroup."""
        return self.rates([self.problem.objective.rate, *self.limits])

    # -- warnings ----------------------------------------------------------------------------------------

    def warn(self) -> None:
        """Warn of violated limits, few rows, and a rule with nearly one answer."""
        strata = self.strata
        words = self.engine.words
        keeps = self.charges.keeps(self.counts)
        if not keeps:
            warn_user(
                f"limits violated on {words} by the best rule found: {self.estimates.broken}",
                BoundNotMetWarning,
            )
        shares = self.counts[: len(strata.mass)].sum(axis=0)
        answer = shares.argmax()
        # A frequent label may be a frequent answer; deferral is no label.
        frequency = strata.mass[strata.y == answer].sum()
        if shares[answer] > max(MOST_EQUAL, (1.0 + frequency) / 2.0) and keeps:
            name = unit_name([*strata.classes, HUMAN_REVIEW][answer])
            warn_user(
                f"the rule answers {name} in {shares[answer]:.1%} of {words}",
                UselessRuleWarning,
            )
        stated = self.problem.objective, *self.limits
        few = [
            f"{each.rate} of {'all' if name is None else unit_name(name)} ({n:.0f})"
            for each, terms in zip(stated, self.charges.terms, strict=True)
            for name, n in zip(terms.names, terms.rows(strata, self.counts), strict=True)
            if n < FEW_ROWS
        ]
        if few:
            warn_user(
                f"few rows of selection data ({words}): fewer than {FEW_ROWS} for "
                f"{joined([*dict.fromkeys(few)], SUBGROUPS_SHOWN, '; ')}",
                SmallSubgroupsWarning,
            )

    # -- thresholds --------------------------------------------------------------------------------------

    @cached_property
    def thresholds(self) -> Thresholds | None:
        """The rules by few thresholds on a score; None for rules of another form.

        None also with an error budget, because errors within the family have no limit on the selection data,
        and with costs of rows.
        """
        family = self.engine.family
        has_budget = self.problem.error_budget is not None
        if isinstance(family, ClassWeights) or has_budget or family.data.costs is not None:
            return None
        return replace(family, most=FEW)

    def at(self, ends: Floats) -> Selection:
        """Return the selection with the rule of thresholds at ranks (m, A − 1), which may break limits."""
        moved = replace(self, rule=ends, at_ranks=True)
        return replace(moved, counts=self.engine.family.data.counts(moved.actions))


@frozen_object
class StoredSelection:
    """A selected rule of a file, without its candidates and selection data.

    Attributes
    ----------
    written : ThresholdRule or Rule
        The rule.
    models : Models
        The columns of scores.
    problem : Problem
        The objective within limits.
    groups_read : tuple
        The groups that the rule reads, and their column.
    notes : mapping
        The columns ``target`` and ``cluster`` of the file, and what it says ``about`` the model.
    """

    written: ThresholdRule | Rule
    models: Models
    problem: Problem
    groups_read: GroupsRead
    notes: Mapping[str, Any]

    @property
    def defers(self) -> bool:
        """Whether the rule may defer rows."""
        return self.written.defers or "deferral" in self.problem.needs

    def label_numbers(self, outputs: Outputs) -> Ints:
        """Return class numbers, and K of a deferred row: a file does not know the label it would get."""
        rule = self.written
        read = outputs.score if isinstance(rule, ThresholdRule) else outputs.pooled
        return rule.numbers(read, outputs.groups)
