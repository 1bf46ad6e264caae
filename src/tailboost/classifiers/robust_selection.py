"""Selection of a rule on models' probabilities."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, nullcontext
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.frozen import FrozenEstimator
from sklearn.metrics import accuracy_score
from sklearn.utils.validation import check_is_fitted

from tailboost.boosting.ensemble import MixtureEnsemble, answers_by
from tailboost.classifiers.input import (
    LabelledRows,
    checked_table,
    noting_frozen,
    noting_seen,
    selection_data,
)
from tailboost.classifiers.reselection import Reselection
from tailboost.core.array_types import Column, Floats, Groups, Ints, Mask, Model, Stated, Table
from tailboost.core.checks import (
    as_pandas,
    batched,
    check_costs,
    check_indexes,
    has_named_columns,
    label_vector,
    n_rows_of,
    take,
)
from tailboost.core.long_work import steps, telling
from tailboost.learners.scores import only_scores
from tailboost.rates import Largest, Limit, Objective, error
from tailboost.rows.fingerprints import RowHashes
from tailboost.rows.group_names import GroupNames, rows_among
from tailboost.rows.judged import Judged
from tailboost.rows.records import Records
from tailboost.rows.subgroups import GROUPS_NEEDED, GROUPS_UNUSED
from tailboost.selection.data import SelectionData, ThresholdFamily, cuts
from tailboost.selection.engine import ProbabilityEngine
from tailboost.selection.probabilities import (
    LogProbabilities,
    ModelOutputs,
    Models,
    stacked,
    stratum_probabilities,
)
from tailboost.selection.problem import Problem, name_of
from tailboost.selection.rule import Rule
from tailboost.selection.score_rule import Scale, ScoreRule, scores_in
from tailboost.selection.selected import Selected
from tailboost.selection.threshold_rule import ThresholdRule

COSTS_NOT_KEPT = "costs of the rows are not kept with the model: give X, y and costs"


@dataclass(frozen=True, eq=False)
class OpenedRows:
    """Rows of a table with the models' probabilities, which are computed once for several rules."""

    tables: list[LogProbabilities]  # in batches

    def values(self, engine: ProbabilityEngine) -> Iterator[Floats]:
        """Yield the values by which all candidates answer the rows, shape (n, …) each.

        These are the log-probabilities of the models, those of the strata, and a single score.
        """
        models = engine.outputs.models
        for i in models.pooled_models:
            yield np.concatenate([table[i] for table in self.tables])
        strata = [stratum_probabilities(engine.probabilities, table) for table in self.tables]
        yield np.concatenate(strata, axis=1).T
        if models.score is not None:
            yield np.concatenate([scores_in(table, models.score) for table in self.tables])


class ProbabilityMixture(Reselection, Judged, ClassifierMixin, BaseEstimator):
    """Selection of a rule on out-of-fold probabilities of models, and the answers of the rule."""

    by_group: bool
    _group_names: GroupNames
    objective: Stated
    limits: Stated
    # Objective and limits of the parameters, the engine on the selection data, and the selected rule.
    _kept_problem: Problem
    _kept_engine: ProbabilityEngine
    _kept_rule: Selected
    alpha: float | None
    max_error: Stated
    error_budget: float | None
    confidence: float | None
    randomized: bool | str

    # -- the selection data ----------------------------------------------------------------------------

    def _set_groups(self, names: GroupNames) -> None:
        super()._set_groups(names)
        check_columns(self)

    def _outputs_on(self, models: Models, given: LabelledRows, to: str) -> ModelOutputs:
        """Return the models' outputs on selection data: a table, or the models' probabilities by name."""
        if models.are_given:
            X = stacked(given.X, models.names, self.classes_, n_rows_of(given.y))
        else:
            X = self._checked(given.X)
        X, rows = selection_data(self, X, given, "", f"the {{:,}} rows given to {to}")
        if not all(isinstance(model, FrozenEstimator) for model in models.fitted):
            rows = noting_seen(
                self.seen_rows_, X, rows, "the probabilities kept with the model"
            )
        rows = noting_frozen(self, X, rows)
        if only_scores(models.fitted):  # rows with equal scores are different rows
            rows = replace(rows, row_hashes=None)
        table = models.transform(X)
        return ModelOutputs.of(models, [table[i] for i in range(len(models.names))], rows)

    # -- the selection ---------------------------------------------------------------------------------

    @property
    def _problem(self) -> Problem:
        return self._kept_problem

    @property
    def _engine(self) -> ProbabilityEngine:
        return self._kept_engine

    @property
    def _selected(self) -> Selected:
        return self._kept_rule

    @property
    def _outputs(self) -> ModelOutputs:
        """The models with their outputs on the selection data."""
        return self._engine.outputs

    def _engine_of(
        self,
        outputs: ModelOutputs,
        X: Table = None,
        costs: Table = None,
        X_unlabeled: Table = None,
    ) -> ProbabilityEngine:
        """Return the engine on selection data with features X and costs of answers."""
        return ProbabilityEngine.of(
            self._problem,
            outputs,
            X,
            self.classes_,
            getattr(self, "_group_names", None),
            group_aware=self.by_group,
            costs=costs,
            X_unlabeled=X_unlabeled,
        )

    def _use_rule(self, rule: Selected) -> None:
        """Answer by a selected rule; a rule on one score answers by its thresholds."""
        score, (member, *others) = self._outputs.models.score, rule.ensemble.base_models
        if score is not None and not others and member.rule is None:
            rule = with_member(
                rule, ScoreRule.of(member, score, *_names(self), self._engine.known_scores)
            )
        self._kept_rule = rule
        self.ensemble_ = rule.ensemble
        self._results = {}
        self.__dict__.pop("certificate_", None)

    # -- another selection -----------------------------------------------------------------------------

    def _check_candidates(self) -> None:
        if not hasattr(
            self, "_kept_engine"
        ):  # `InfeasibleLimitsError.unselected` has an engine and no rule
            check_is_fitted(self)

    def _restated(self, stated: dict[str, Any], groups: Groups, given: bool) -> Problem:
        objective = stated.pop("objective")
        alpha = stated.pop("alpha")
        before = name_of(self.objective)
        if objective is not None or alpha is not None:
            if objective is None:
                self.objective = "cvar"
            else:
                self.objective = objective
            if self.objective == "cvar" and alpha is None:
                self.alpha = self.alpha
            else:
                self.alpha = alpha
        if name_of(self.objective) != before:
            self.max_error = None  # its subgroups are those of the earlier objective
        self.set_params(**{name: value for name, value in stated.items() if value is not None})
        if stated["confidence"] is None and not self.limits and self.max_error is None:
            self.confidence = None  # it was about limits that are left out
        self._validate_params()
        self._kept_problem = problem = problem_of(self)
        return problem

    def _engine_on(self, given: LabelledRows, problem: Problem) -> ProbabilityEngine:
        if given.groups is not None:
            self._name_groups(given.groups)
        outputs = self._outputs_on(self._outputs.models, given, "reweight")
        rows = outputs.rows
        table = None
        check_groups(self, problem, rows.groups)
        costs = check_costs(given.costs, n_rows_of(given.y), self.classes_, rows.used)
        if outputs.models.are_given:
            outputs.check_order(self.classes_)
        else:
            checked = self._checked(given.X)
            if rows.used is None:
                table = checked
            else:
                table = take(checked, rows.used)
            if only_scores(
                outputs.models.fitted
            ):  # as in fit: no group is estimated from scores
                table = np.zeros((len(rows.y), 1))
        self.records_ = self.records_.joined(self._reading(given.X, given.y))
        if problem.needs_costs and costs is None:
            raise ValueError(COSTS_NOT_KEPT)
        return self._engine_of(outputs, table, costs)

    def _engine_by(self, groups: Groups, problem: Problem) -> ProbabilityEngine:
        outputs = self._outputs
        rows = self._outputs.rows
        if outputs.unlabeled is not None:
            raise ValueError(
                "reweight(groups=...): the groups of the rows without labels in the selection are not known; "
                "give X and y too, or fit again with groups_unlabeled"
            )
        used = rows_among(groups, rows)
        self._name_groups(groups, used)
        numbers = self._group_names.numbers_of(groups, "groups", len(used), used)
        check_groups(self, problem, numbers)
        if problem.needs_costs:
            raise ValueError(COSTS_NOT_KEPT)
        return self._engine_of(replace(outputs, rows=replace(rows, groups=numbers)))

    def _select(self, engine: Any, problem: Problem, max_error: Stated) -> None:
        check_groups(self, problem, engine.outputs.rows.groups)
        if not engine.covers(problem, getattr(self, "_group_names", None)):
            if problem.needs_costs:
                raise ValueError(COSTS_NOT_KEPT)
            engine = self._engine_of(engine.outputs)
        self._kept_engine = engine
        self._use_rule(engine.select(problem))
        self._selected.warn(forewarned=False)

    def _reaching(self, objective: Objective, limits: tuple[Limit, ...]) -> Self:
        given = Largest(objective.rate) if objective.worst else objective.rate
        with warnings.catch_warnings():
            # Each point would repeat the warnings of the others.
            warnings.simplefilter("ignore", UserWarning)
            bare = copy.copy(self)
            bare.max_error = bare.confidence = None
            if objective.rate == error() or any(limit.rate == error() for limit in limits):
                bare.error_budget = None
            return bare.reweight(objective=given, limits=list(limits))

    def _answering(
        self, rule: Any, others: tuple[Limit, ...] = (), own: Limit | None = None
    ) -> Self:
        new = copy.copy(self)
        if own is None:
            new.error_budget = budget = rule.problem.error_budget
            new._kept_problem = replace(self._problem, error_budget=budget)
            new._use_rule(rule)
        else:
            new.limits = [*others, own]
            new._kept_problem = self._problem.within((*others, own))
            new._use_rule(rule.within(new.limits))
        return new

    # -- thresholds ------------------------------------------------------------------------------------

    def threshold_family(self, *, by_group: bool) -> ThresholdFamily | None:
        """Return the rules that differ from the selected rule in thresholds; None if there are none.

        Their errors on the selection data have no limit, so there are none with an error budget.

        Parameters
        ----------
        by_group : bool
            Whether each group has a threshold of its own; the rule must then be group-aware.
        """
        check_is_fitted(self)
        labelled = self._engine.labelled
        data = labelled.in_memory
        if self._problem.over_rows or data is not labelled or data.costs is not None:
            return None
        if self._problem.error_budget is not None:
            return None
        if by_group:
            if self._engine.probabilities.group_aware:
                return ThresholdFamily.plain(data, by_group=True)
            return None
        first, *others = self.ensemble_.base_models
        if others:
            family = None
        else:
            family = ThresholdFamily.of(first.candidate, data.strata, by_group=False)
        return family or ThresholdFamily.plain(data, by_group=False)

    def scores_on_selection(self, family: ThresholdFamily) -> tuple[Floats, SelectionData]:
        """Return the score of each row of the selection data, and these data.

        Parameters
        ----------
        family : ThresholdFamily
            From `threshold_family`.

        Returns
        -------
        scores : ndarray of shape (n,)
        data : SelectionData
        """
        data = self._engine.labelled.in_memory
        return family.scores(data.probabilities), data

    def scores_of(
        self, family: ThresholdFamily, opened: OpenedRows, *, between_selected: bool = False
    ) -> tuple[Floats, Ints]:
        """Return the score of each row and the number of its threshold.

        Parameters
        ----------
        family : ThresholdFamily
            From `threshold_family`.
        opened : OpenedRows
            From `opened`.
        between_selected : bool, default=False
            Whether thresholds are between scores of the selection data. A rule on one score has other
            thresholds there than the family, decimals. A row between the two is then on the side of the rule.

        Returns
        -------
        scores : ndarray of shape (n,)
        numbers : ndarray of int, shape (n,)
        """
        scores = list[Floats]()
        places = list[Ints]()
        for table in opened.tables:
            scores.append(
                family.scores(stratum_probabilities(self._engine.probabilities, table))
            )
            if family.by_group:
                groups = table.groups
            else:
                groups = np.zeros(table.n_rows, dtype=np.intp)
            assert groups is not None
            places.append(groups)
        found = np.concatenate(scores)
        numbers = np.concatenate(places)
        if between_selected and _divides_values(self._engine, family):
            return _sides(self, family, _values_of(self, opened), numbers), numbers
        return found, numbers

    @property
    def may_draw(self) -> bool:
        """Whether the stated rule may be randomised."""
        return self._problem.randomized

    def at_thresholds(
        self,
        family: ThresholdFamily,
        thresholds: Floats,
        weights: Floats | None = None,
        fresh: Sequence[OpenedRows] = (),
    ) -> Self:
        """Return the classifier with the rule of these thresholds; nothing is trained or selected.

        Parameters
        ----------
        family : ThresholdFamily
            From `threshold_family`.
        thresholds : ndarray of shape (m,) or (k, m)
            One for each group, or one for all rows. A randomised rule draws one of k rows.
        weights : ndarray of shape (k,), optional
            Probability of each draw.
        fresh : sequence of OpenedRows, optional
            Rows from `opened` whose answers must not change by the choice of a decimal.

        Returns
        -------
        classifier
        """
        new = copy.copy(self)
        every = np.atleast_2d(thresholds)
        if weights is None:
            each = np.ones(1)
        else:
            each = weights
        rule: Selected = self._engine.named(
            self._problem, [family.candidate(t) for t in every], each
        )
        if len(every) == 1 and self._outputs.models.score is not None:
            member = rule.ensemble.base_models[0]
            decided = _rule_at(self, family, every[0], member, fresh)
            rule = with_member(rule, ScoreRule.answering(member, decided, decided))
        new._use_rule(rule)
        return new

    def _answers_of(
        self, classifiers: Sequence[Any], X: Table, groups: Groups
    ) -> list[tuple[Any, Any]]:
        """Return the answers of the classifiers of a curve, and which rows they defer."""
        models, X = self._read(X)
        table = models.transform(X)
        table = table.knowing(self._numbers(groups if self.by_group else None, table.n_rows))
        return [
            (
                self.classes_[_shares(c.ensemble_, table).argmax(axis=1)],
                _deferred(c.ensemble_, table) if c.can_defer else None,
            )
            for c in classifiers
        ]

    def row_hashes(self, X: Table) -> RowHashes:
        """Return the hashes by which rows are recognised, equal for all forms of the same rows.

        Parameters
        ----------
        X : array-like of shape (n, d)
            As in `predict`.

        Returns
        -------
        RowHashes
            Of the whole rows, and of what single models read: `Scores`, and given probabilities. A table and
            a dict of probabilities without a common score have no hash in common.
        """
        self._check_candidates()
        models = self._outputs.models
        if not has_named_columns(X):
            return models.row_hashes(self._checked(X))
        given = stacked(X, models.names, self.classes_)
        return Models.given(models.names, self.classes_).row_hashes(given, X)

    def _reading(self, X: Table, y: Column) -> Records:
        """Return the record of rows; rows of scores and probabilities are compared as whole tables."""
        features = not (has_named_columns(X) or only_scores(self._outputs.models.fitted))
        return Records().reading(self.row_hashes(X), label_vector(y), features=features)

    # -- answers ---------------------------------------------------------------------------------------

    @property
    def rule_(self) -> Rule | ThresholdRule:
        """The decision rule: thresholds on a single `Scores` column, otherwise costs on probabilities."""
        check_is_fitted(self)
        first, *others = self.ensemble_.base_models
        if first.rule is not None and not others:
            thresholds: ThresholdRule = first.rule
            return thresholds
        return Rule.of(self.ensemble_, self.classes_, _names(self)[1])

    def _scores(self, X: Table, groups: Groups = None) -> Floats:
        return np.concatenate(
            [_shares(self.ensemble_, table) for table in self._tables(X, groups)]
        )

    def _tables(self, X: Table, groups: Groups) -> Iterator[LogProbabilities]:
        """Return the log-probabilities of rows in batches, with the numbers of their groups."""
        if isinstance(X, OpenedRows):
            return iter(X.tables)
        check_indexes(X=X, groups=groups)
        models, X = self._read(X)
        numbers = self._numbers(groups, n_rows_of(X))
        return _told(models, X, numbers, self.verbose)

    def opened(self, X: Table, groups: Groups = None) -> OpenedRows:
        """Return rows for `predict` and other methods of classifiers with the same models.

        Parameters
        ----------
        X, groups : array-like of shape (n, d), (n,)
            As in `predict_distribution`; groups are read by a group-aware rule alone.

        Returns
        -------
        OpenedRows
        """
        return OpenedRows(list(self._tables(X, groups if self.by_group else None)))

    def _read(self, X: Table) -> tuple[Models, Any]:
        """Return models that read a table or given probabilities, and the checked table."""
        check_is_fitted(self)
        models = self._models
        if has_named_columns(X):
            models = Models.given(models.names, self.classes_, models.average)
        return models, self._checked(X)

    def _numbers(self, groups: Groups, n: int) -> Ints | None:
        """Return the numbers of the rows' groups, if the rule is group-aware."""
        reads_groups = self._engine.probabilities.group_aware
        if reads_groups != (self.by_group and len(self._group_names.values[0]) > 1):
            if reads_groups:
                reads = "reads the group"
            else:
                reads = "reads no group"
            raise ValueError(
                f"by_group={self.by_group} was set after the selection of a rule that {reads}: tune again"
            )
        if not self.by_group:
            if groups is not None:
                raise ValueError(GROUPS_UNUSED)
            return None
        if groups is None:
            raise ValueError(GROUPS_NEEDED)
        columns = self._group_names.columns or ()
        groups = as_pandas(groups)
        if isinstance(groups, Mapping) or hasattr(groups, "columns"):
            groups = {name: groups[name] for name in groups if name in columns} or groups
        return self._group_names.numbers_of(groups, "groups", n)

    def example_groups(self, n_rows: int) -> Any:
        """Return groups in the form in which `predict` takes them, each group in turn.

        Parameters
        ----------
        n_rows : int
            Number of rows.

        Returns
        -------
        ndarray of shape (n_rows,), or dict of one by the name of its column

        Raises
        ------
        ValueError
            If the rule is group-blind.
        """
        if not self.by_group:
            raise ValueError(GROUPS_UNUSED)
        names = self._group_names
        groups = np.resize(names.values[0], n_rows)
        if names.columns is None:
            return groups
        return {names.columns[0]: groups}

    def predict_proba(self, X: Table) -> Floats:
        """Return P(y | x): the average of the models' probabilities on the log scale.

        The weights of the models and an offset for each class minimise the log loss on the selection data,
        which the models were not fitted on. They do not depend on objective, limits or groups. `predict`
        applies the decision rule: its label need not be the most likely one.

        Parameters
        ----------
        X : array-like of shape (n, d)
            The rows, as in `fit`, or a dict of the models' probabilities of the rows.

        Returns
        -------
        ndarray of shape (n, K)
            Columns in the order of ``classes_``; rows sum to 1.
        """
        models, X = self._read(X)
        return np.concatenate([models.pool(models.transform(rows)) for _, rows in batched(X)])

    def predict(self, X: Table, *, groups: Groups = None, deferred: Any = None) -> NDArray[Any]:
        """Return the label of each row: the most likely one of `predict_distribution`.

        The label of a row depends on this row alone. If a limit on ``rates.deferred()`` lets the rule defer
        rows, `defers` tells which. `predict` gives them the label that would be answered, or ``deferred``.

        Parameters
        ----------
        X, groups : array-like of shape (n, d), (n,)
            As in `predict_distribution`.
        deferred : str or number, optional
            Value for deferred rows, as "human review"; none of the labels.

        Returns
        -------
        ndarray of shape (n,)
            Labels, as in ``classes_``; of dtype object if ``deferred`` is of another kind.

        Raises
        ------
        ValueError
            As in `predict_distribution`; if ``deferred`` is a label, or the rule defers no row.
        """
        tables = self._tables(X, groups)  # raises in an unfitted classifier
        return np.concatenate(
            [_labels(self.ensemble_, self.classes_, deferred, table) for table in tables]
        )

    def defers_with(self, X: Table, members: Any, *, groups: Groups = None) -> Mask:
        """Return whether the stated candidate of each row defers the row.

        Parameters
        ----------
        X, members, groups
            As in `predict_with`.

        Returns
        -------
        ndarray of bool, shape (n,)
            All False if the rule defers no row.
        """
        n, ask = self._asker(X, groups, "defers_table")
        drawn = self._drawn(members, n)
        if self.can_defer:
            return answers_by(drawn, ask) == 1
        return np.zeros(n, dtype=bool)

    def _asker(
        self, X: Table, groups: Groups, method: str = "predict_table"
    ) -> tuple[int, Callable[[int, Ints], Ints]]:
        check_indexes(X=X, groups=groups)
        models, X = self._read(X)
        n = n_rows_of(X)
        members = self.ensemble_.base_models
        numbers = self._numbers(groups, n)

        def ask(member: int, rows: Ints) -> Ints:
            answers = getattr(members[member], method)(_table(models, X, numbers, rows))
            return np.asarray(answers, dtype=np.intp)

        return n, ask

    def score(
        self, X: Table, y: Column, sample_weight: Column = None, *, groups: Groups = None
    ) -> float:
        """Return the accuracy of `predict`.

        Parameters
        ----------
        X : array-like of shape (n, d)
            As in `predict_distribution`.
        y : array-like of shape (n,)
            Labels.
        sample_weight : array-like of shape (n,), optional
            Weights of the rows.
        groups : array-like of shape (n,), optional
            As in `predict_distribution`. With scikit-learn's metadata routing,
            ``set_score_request(groups=True)`` has cross-validation pass them.

        Returns
        -------
        float
            From 0 to 1.
        """
        return float(
            accuracy_score(y, self.predict(X, groups=groups), sample_weight=sample_weight)
        )

    def _checked(self, X: Table) -> Any:
        if has_named_columns(X):
            return stacked(X, self._models.names, self.classes_)
        if self._models.are_given:
            raise AttributeError(
                "this classifier is made from_probabilities and has no models: give a dict of their "
                "probabilities of the new rows"
            )
        return checked_table(self, self, X)

    def defers(self, X: Table, *, groups: Groups = None) -> Mask:
        """Return which rows are deferred; ``predict(X, deferred="human review")`` marks them.

        Parameters
        ----------
        X, groups : array-like of shape (n, d), (n,)
            As in `predict_distribution`.

        Returns
        -------
        ndarray of bool, shape (n,)
            For a randomised rule the rows that are deferred with probability ½ or more.

        Raises
        ------
        ValueError
            If the rule defers no row: there is no limit on deferral.
        """
        return np.concatenate(
            [_deferred(self.ensemble_, table) for table in self._tables(X, groups)]
        )

    @property
    def can_defer(self) -> bool:
        """Whether the rule may defer rows: `defers` tells which."""
        check_is_fitted(self)
        return _can_defer(self.ensemble_)

    @property
    def _models(self) -> Models:
        models: Models = self.ensemble_.base_models[0].table_
        return models

    # -- the result ------------------------------------------------------------------------------------


def problem_of(classifier: Model) -> Problem:
    """Return objective and limits of the parameters; raise ValueError if these exclude each other."""
    return Problem.of(
        classifier.objective,
        classifier.limits,
        classifier.max_error,
        classifier.alpha,
        error_budget=classifier.error_budget,
        randomized=classifier.randomized,
        confidence=classifier.confidence,
    )


def check_groups(classifier: Model, problem: Problem, groups: Groups) -> None:
    """Raise ValueError if a problem or the classifier needs groups, or has no use for them."""
    if problem.over_rows and classifier.by_group:
        raise ValueError("by_group=True has no meaning with objective='cvar': it is for groups")
    if groups is None and problem.needs_groups:
        if isinstance(classifier.objective, str):
            raise ValueError(f"objective={classifier.objective!r} needs groups")
        rate = next(rate for rate in problem.rates if rate.needs_groups)
        raise ValueError(f"{rate!r} needs groups")
    if classifier.by_group and groups is None:
        raise ValueError("by_group=True needs groups")


def _table(models: Models, X: Table, numbers: Ints | None, part: Ints) -> LogProbabilities:
    """Return the log-probabilities of some rows of a table, with the numbers of their groups."""
    return models.transform(take(X, part)).knowing(None if numbers is None else numbers[part])


def check_columns(classifier: Model) -> None:
    """Raise ValueError if a group-aware rule gets several columns of groups."""
    if classifier.by_group and len(classifier._group_names.values) > 1:
        raise ValueError(
            f"by_group=True takes one column of groups, got {len(classifier._group_names.values)}: "
            "join their values into one, so that each row is in one group"
        )


# -- answers ---------------------------------------------------------------------------------------------


def _shares(ensemble: MixtureEnsemble, table: LogProbabilities) -> Floats:
    """Return the label distribution, ties settled; only models with positive weight are read."""
    used = np.flatnonzero(ensemble.weights > 0)
    answers = {m: ensemble.base_models[m].predict_table(table) for m in used.tolist()}
    return ensemble.mix(answers.values(), table.n_rows, lambda m, rows: answers[m][rows])


def _can_defer(ensemble: MixtureEnsemble) -> bool:
    return any(getattr(member, "defers", False) for member in ensemble.base_models)


def _deferred(ensemble: MixtureEnsemble, table: LogProbabilities) -> Mask:
    """Return the rows that are deferred with probability ½ or more."""
    if not _can_defer(ensemble):
        raise ValueError("no row is deferred: state a limit on rates.deferred()")
    probability = np.zeros(table.n_rows)
    for weight, member in zip(ensemble.weights, ensemble.base_models, strict=True):
        probability += weight * member.defers_table(table)
    deferred: Mask = probability >= 0.5
    return deferred


def _labels(
    ensemble: MixtureEnsemble, classes: NDArray[Any], deferred: Any, table: LogProbabilities
) -> NDArray[Any]:
    """Return the label of each row, or the value for deferred rows."""
    answers = classes[_shares(ensemble, table).argmax(axis=1)]
    if deferred is None:
        return answers
    if deferred in classes.tolist():
        raise ValueError(f"deferred={deferred!r} is a label: deferred rows need another mark")
    mark = np.asarray(deferred)
    if mark.ndim:
        raise ValueError(f"deferred must be one value, got {deferred!r}")
    if mark.dtype.kind != answers.dtype.kind:  # NumPy would turn numbers into text
        mark = np.array(deferred, dtype=object)
        answers = answers.astype(object)
    return np.where(_deferred(ensemble, table), mark, answers)


def with_member(rule: Selected, member: Any) -> Selected:
    """Return a selected rule of one candidate, which another form of it answers."""
    return replace(rule, ensemble=replace(rule.ensemble, base_models=[member]))


# -- thresholds on the only column of scores ---------------------------------------------------------------


def _names(classifier: ProbabilityMixture) -> tuple[list[Any], list[Any] | None]:
    """Return the labels, and the groups that the rule tells apart; None if it is group-blind."""
    if classifier.by_group:
        groups = classifier._group_names.values[0].tolist()
    else:
        groups = None
    return classifier.classes_.tolist(), groups


def _divides_values(engine: ProbabilityEngine, family: ThresholdFamily) -> bool:
    """Whether each threshold of a family is one on a `Scores` column.

    Otherwise there are other models, or one threshold on odds in which the groups differ.
    """
    same_odds = family.by_group or not engine.probabilities.group_aware
    return engine.outputs.models.score is not None and same_odds


def _values_of(classifier: ProbabilityMixture, opened: OpenedRows) -> Floats:
    """Return the values of rows in the only column of scores, shape (n,)."""
    score = classifier._outputs.models.score
    return np.concatenate([scores_in(table, score) for table in opened.tables])


def _scales(
    classifier: ProbabilityMixture, family: ThresholdFamily, fresh: Sequence[OpenedRows] = ()
) -> list[Scale]:
    """Return the values and scores of selection rows and fresh rows, for each threshold of a family.

    A threshold on the values between the same rows divides them alike, so certificates hold for it.
    """
    known = classifier._engine.known_scores
    score = classifier._outputs.models.score
    assert score is not None
    values = [known.values]
    places = [known.place]
    scores = [family.scores(known.probabilities)]
    for opened in fresh:
        found, groups = classifier.scores_of(family, opened)
        values.append(_values_of(classifier, opened))
        scores.append(found)
        places.append(groups)
    value, of_score, place = (np.concatenate(each) for each in (values, scores, places))
    return [
        Scale.of(value[place == k], of_score[place == k], falls=score.positive_ == 0)
        for k in range(family.n_thresholds)
    ]


def _sides(
    classifier: ProbabilityMixture, family: ThresholdFamily, values: Floats, places: Ints
) -> Floats:
    """Return scores of rows that are beyond the thresholds between selection rows as their values are."""
    selection, data = classifier.scores_on_selection(family)
    of_selection = classifier._engine.known_scores.place[: len(data)]
    scores = np.zeros(len(values))
    for place, scale in enumerate(_scales(classifier, family)):
        rows, (between, _) = places == place, cuts(selection[of_selection == place])
        scores[rows] = scale.sides(values[rows], between)
    return scores


def _rule_at(
    classifier: ProbabilityMixture,
    family: ThresholdFamily,
    thresholds: Floats,
    member: Any,
    fresh: Sequence[OpenedRows],
) -> ThresholdRule:
    """Return the rule on one score of thresholds of a family, shape (m,)."""
    score = classifier._outputs.models.score
    assert score is not None
    if not _divides_values(classifier._engine, family):
        return ThresholdRule.of(member.as_part(plain=False), score, *_names(classifier))
    lower, upper = (1, 0) if score.positive_ == 0 else (0, 1)
    ranges = []
    for scale, threshold in zip(
        _scales(classifier, family, fresh), thresholds.tolist(), strict=True
    ):
        (end,) = scale.thresholds(np.array([threshold])).tolist()
        ranges.append([(-np.inf, lower), (end, upper)])
    return ThresholdRule.of_numbers(score, *_names(classifier), ranges)


def _told(
    models: Models, X: Table, numbers: Ints | None, verbose: object
) -> Iterator[LogProbabilities]:
    """Yield the log-probabilities of each batch, and tell how many rows are finished."""
    with ExitStack() as stack:
        with telling() if verbose else nullcontext():  # left before the first yield
            done = stack.enter_context(steps("rows", n_rows_of(X)))
        for part, rows in batched(X):
            yield models.transform(rows).knowing(None if numbers is None else numbers[part])
            done(len(part))
