"""Selection of a rule on models' probabilities."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, nullcontext
from dataclasses import replace
from typing import Any, Self, TypeVar

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.frozen import FrozenEstimator
from sklearn.metrics import accuracy_score
from sklearn.utils.validation import check_is_fitted

from tailboost.boosting.ensemble import MixtureEnsemble, answers_by
from tailboost.classifiers.input import (
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
from tailboost.rows.given import Given
from tailboost.rows.group_names import GroupNames, rows_among
from tailboost.rows.judged import Judged
from tailboost.rows.records import Records
from tailboost.rows.rules import refuse
from tailboost.selection.answers import OpenedRows, can_defer, shares
from tailboost.selection.answers import deferred as deferred_rows
from tailboost.selection.curve import CurvePoint
from tailboost.selection.data import SelectionData, ThresholdFamily
from tailboost.selection.engine import ProbabilityEngine
from tailboost.selection.probabilities import (
    LogProbabilities,
    ModelOutputs,
    Models,
    stacked,
)
from tailboost.selection.problem import Problem, name_of, stated
from tailboost.selection.rule import Rule
from tailboost.selection.selected import Selected
from tailboost.selection.selection import Selection
from tailboost.selection.threshold_rule import ThresholdRule

Mixture = TypeVar("Mixture", bound="ProbabilityMixture")


class ProbabilityMixture(Reselection, Judged, ClassifierMixin, BaseEstimator):
    """Selection of a rule on out-of-fold probabilities of models, and the answers of the rule."""

    by_group: bool
    _group_names: GroupNames
    objective: Stated
    limits: Stated
    selection_: Selection
    alpha: float | None
    max_error: Stated
    error_budget: float | None
    confidence: float | None
    randomized: bool | str

    # -- the selection data ----------------------------------------------------------------------------

    def _set_groups(self, names: GroupNames) -> None:
        super()._set_groups(names)
        check_columns(self)

    def _outputs_on(self, models: Models, given: Given, to: str) -> ModelOutputs:
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
        return self.selection_.problem

    @property
    def _engine(self) -> ProbabilityEngine:
        return self.selection_.engine

    @property
    def _selected(self) -> Selected:
        return self.selection_.rule

    @property
    def ensemble_(self) -> MixtureEnsemble:
        """The selected candidates with their mixture weights."""
        return self.selection_.ensemble

    @property
    def _outputs(self) -> ModelOutputs:
        """The models with their outputs on the selection data."""
        return self._engine.outputs

    def _answer_by(self, selection: Selection) -> None:
        """Answer by the rule of a selection."""
        self.selection_ = selection
        self._results = {}
        self.__dict__.pop("certificate_", None)

    # -- another selection -----------------------------------------------------------------------------

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
        return problem_of(self)

    def _engine_on(self, given: Given, problem: Problem) -> ProbabilityEngine:
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
        if problem.needs_costs and costs is None:
            refuse("rate of costs", "kept rows")
        return engine_of(self, problem, outputs, table, costs)

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
            refuse("rate of costs", "kept rows")
        return engine_of(self, problem, replace(outputs, rows=replace(rows, groups=numbers)))

    def _select(self, engine: Any, problem: Problem, max_error: Stated) -> None:
        check_groups(self, problem, engine.outputs.rows.groups)
        self._answer_by(Selection.of(engine, problem))
        self.selection_.warn(forewarned=False)

    def within(self, limits: Sequence[Limit]) -> Self:
        """Return the classifier with the rule within other limits, without a confidence; nothing warns.

        Parameters
        ----------
        limits : sequence of Limit
            Instead of its limits.

        Returns
        -------
        classifier

        Raises
        ------
        InfeasibleLimitsError
            If the limits contradict each other.
        """
        new = copy.copy(self)
        new.limits = list(limits)
        new.confidence = None
        new._answer_by(self.selection_.select(problem_of(new)))
        return new

    def _reaching(self, objective: Objective, limits: tuple[Limit, ...]) -> Self:
        new, problem = stating(self, objective, limits)
        new._answer_by(self.selection_.select(problem))
        return new

    def _points(
        self, limited: Any, minimised: Objective, others: tuple[Limit, ...], n_points: int
    ) -> tuple[list[CurvePoint], ProbabilityEngine]:
        loosest, problem = stating(self, minimised, (*others, limited.within(limited.most)))
        points = []
        engine = self._engine
        for rate, value, selection in self.selection_.curve(
            problem.within(others), limited, n_points
        ):
            new = copy.copy(loosest)
            new.limits = list(selection.problem.limits)
            new._answer_by(selection)
            points.append(CurvePoint(rate, value, new))
            engine = selection.engine
        return points, engine

    def _answering(
        self, rule: Any, others: tuple[Limit, ...] = (), own: Limit | None = None
    ) -> Self:
        new = copy.copy(self)
        selection = self.selection_
        if own is None:
            new.error_budget = budget = rule.problem.error_budget
            problem = replace(selection.problem, error_budget=budget)
        else:
            new.limits = [*others, own]
            problem = selection.problem.within((*others, own))
            rule = rule.within(new.limits)
        new._answer_by(replace(selection, problem=problem, rule=rule))
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
        return self.selection_.family(by_group=by_group)

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
        return self.selection_.thresholds(family).on_selection

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
        thresholds = self.selection_.thresholds(family)
        if between_selected:
            scores = thresholds.scores_between_selected(opened)
        else:
            scores = thresholds.scores(opened)
        return scores, thresholds.places(opened)

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
        new._answer_by(self.selection_.at(family, thresholds, weights, fresh))
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
                self.classes_[shares(c.ensemble_, table).argmax(axis=1)],
                deferred_rows(c.ensemble_, table) if c.can_defer else None,
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
        return Rule.of(self.ensemble_, self.classes_, self._engine.answer_names[1])

    def _scores(self, X: Table, groups: Groups = None) -> Floats:
        return np.concatenate(
            [shares(self.ensemble_, table) for table in self._tables(X, groups)]
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
        models = self._outputs.models
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
        refuse("group-aware rule" if self.by_group else "blind rule", groups=groups)
        if groups is None:
            return None
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
            refuse("blind rule", "groups")
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
            return stacked(X, self._outputs.models.names, self.classes_)
        if self._outputs.models.are_given:
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
            [deferred_rows(self.ensemble_, table) for table in self._tables(X, groups)]
        )

    @property
    def can_defer(self) -> bool:
        """Whether the rule may defer rows: `defers` tells which."""
        check_is_fitted(self)
        return can_defer(self.ensemble_)

    # -- the result ------------------------------------------------------------------------------------


def problem_of(classifier: Model) -> Problem:
    """Return objective and limits of the parameters; raise ValueError if these exclude each other."""
    return stated(
        classifier.objective,
        classifier.limits,
        classifier.max_error,
        classifier.alpha,
        error_budget=classifier.error_budget,
        randomized=classifier.randomized,
        confidence=classifier.confidence,
    )


def engine_of(
    classifier: ProbabilityMixture,
    problem: Problem,
    outputs: ModelOutputs,
    X: Table = None,
    costs: Table = None,
    X_unlabeled: Table = None,
) -> ProbabilityEngine:
    """Return the engine on selection data with features X and costs of answers."""
    return ProbabilityEngine.of(
        problem,
        outputs,
        X,
        classifier.classes_,
        getattr(classifier, "_group_names", None),
        group_aware=classifier.by_group,
        costs=costs,
        X_unlabeled=X_unlabeled,
    )


def stating(
    classifier: Mixture, objective: Objective, limits: tuple[Limit, ...]
) -> tuple[Mixture, Problem]:
    """Return a copy with these parameters instead of its own, and its problem; nothing is selected."""
    new = copy.copy(classifier)
    new.objective = Largest(objective.rate) if objective.worst else objective.rate
    new.limits = list(limits)
    new.alpha = new.max_error = new.confidence = None
    if objective.rate == error() or any(limit.rate == error() for limit in limits):
        new.error_budget = None
    new._validate_params()
    problem = problem_of(new)
    check_groups(new, problem, classifier._outputs.rows.groups)
    return new, problem


def check_groups(classifier: Model, problem: Problem, groups: Groups) -> None:
    """Raise ValueError if a problem or the classifier needs groups, or has no use for them."""
    facts = ["selection"]
    told = {"objective": classifier.objective}
    if problem.over_rows:
        facts.append("CVaR")
    if classifier.by_group:
        facts.append("by_group")
    if problem.needs_groups:
        facts.append("rate of groups")
        told["rate"] = next(rate for rate in problem.rates if rate.needs_groups)
        if isinstance(classifier.objective, str):
            facts.append("named objective of groups")
    refuse(*facts, told=told, groups=groups)


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


def _labels(
    ensemble: MixtureEnsemble, classes: NDArray[Any], deferred: Any, table: LogProbabilities
) -> NDArray[Any]:
    """Return the label of each row, or the value for deferred rows."""
    answers = classes[shares(ensemble, table).argmax(axis=1)]
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
    return np.where(deferred_rows(ensemble, table), mark, answers)


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
