"""A classifier whose rule is selected among candidates: other selections, trade-offs, and its answers."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, Self, cast

import numpy as np
from sklearn.frozen import FrozenEstimator
from sklearn.utils.validation import check_is_fitted

from tailboost.classifiers.input import (
    checked_table,
    marked_if_seen,
    selection_rows,
)
from tailboost.classifiers.reported import ReportedClassifier
from tailboost.core.array_types import (
    Column,
    Floats,
    Groups,
    Hashes,
    Ints,
    Mask,
    Stated,
    Table,
)
from tailboost.core.checks import (
    as_pandas,
    batched,
    check_groups_read,
    check_indexes,
    groups_in,
    has_named_columns,
    n_rows_of,
    names_columns,
    unpack,
)
from tailboost.learners.scores import Scores, columns_of_scores, only_scores
from tailboost.rates import (
    InfeasibleLimitsError,
    Largest,
    Limit,
    Objective,
    Rate,
    deferred as deferred_rate,
    error,
)
from tailboost.rows.fingerprints import digest, digest_of_rule
from tailboost.rows.given import Given
from tailboost.rows.judged import columns_of
from tailboost.rows.ledger import Records
from tailboost.rows.readers import records_of_fit
from tailboost.rows.rows import Rows
from tailboost.rows.seen import SELECTED_ON, Seen
from tailboost.rows.subgroups import GroupNames, rows_among
from tailboost.selection.curve import Curve, CurvePoint, bound_of, fractions_of, points_along
from tailboost.selection.engine import Engine
from tailboost.selection.outputs import LogProbabilities, ModelOutputs, Models
from tailboost.selection.problem import Problem, name_of, stated
from tailboost.selection.rate_table import RateTable
from tailboost.selection.rule import stacked
from tailboost.selection.selection import Selection, Unselected

COSTS_NOT_KEPT = "costs of the rows are not kept with the model: give X, y and costs"


class SelectedModels(ReportedClassifier):
    """A classifier of models and a rule that is selected among candidates; nothing is trained here."""

    selection_: Selection
    estimators_: Any
    objective: Any
    limits: Any
    max_error: Any
    error_budget: Any
    confidence: Any
    infer_groups: Any

    def reweight(
        self,
        X: Table = None,
        y: Column = None,
        *,
        objective: Stated = None,
        limits: Stated = None,
        groups: Groups = None,
        costs: Table = None,
        sample_weight: Column = None,
        error_budget: float | None = None,
        max_error: Stated = None,
        confidence: float | None = None,
    ) -> Self:
        """Return a classifier with the same models and another selected rule; nothing is trained.

        Parameters
        ----------
        X, y : optional
            Selection data that no model or hypothesis has read. A classifier made by `from_probabilities`
            takes a dict of the models' probabilities as X. By default the selection data of the fit.
        objective : str, rate or largest, optional
            One of "worst_class", "worst_group", "worst_cell", "error" and "deferred", or a rate. By default
            unchanged.
        limits : list of Limit, optional
            By default unchanged.
        groups : array-like of shape (n,) or table of n rows, optional
            Groups of the rows of X or, without X, of all rows in the table of the selection data.
        costs : array-like of shape (n, K), optional
            Cost of each answer in each row of X, for models.
        sample_weight : array-like of shape (n,), optional
            Weights of the rows of X.
        error_budget : float in [0, 1], optional
            Largest overall error less that of the most accurate candidate, on the selection data: .02 allows
            .22 if the least is .20. By default unchanged.
        max_error : float in (0, 1] or dict, optional
            Limits for the subgroups, as the parameter of the classifier. By default its value is kept if the
            objective stays the same.
        confidence : float in [0, 1), optional
            Estimated probability with which all limits have to hold on new rows, for models; by default that
            of the classifier.

        Returns
        -------
        classifier
            A new classifier of the same type. The original is unchanged.

        Raises
        ------
        ValueError
            If an argument is not as described.

        Warns
        -----
        BoundNotMetWarning
            Names the violated limits.
        ResubstitutionWarning
            If models were fitted on the given rows.
        """
        self._check_candidates()
        given = Given(*unpack(X, y), groups, sample_weight, costs)
        if (given.X is None) != (given.y is None):
            raise ValueError("reweight needs both X and y, or neither")
        if given.X is None and not (sample_weight is costs is None):
            raise ValueError("sample_weight and costs belong to rows: give X and y too")
        new = copy.copy(self)
        if objective is not None:
            new.objective = objective
        if name_of(new.objective) != name_of(self.objective):
            new.max_error = None  # targets are for the subgroups of the earlier objective
        restated = {"limits": limits, "error_budget": error_budget, "max_error": max_error}
        for name, value in restated.items():
            if value is not None:
                setattr(new, name, value)
        if confidence is not None:
            new.confidence = confidence
        elif not new.limits and new.max_error is None:
            new.confidence = None  # no limit is left
        new._validate_params()
        problem = new._problem()
        engine = new.selection_.engine
        if given.X is not None:
            engine = new._engine_on(given, problem)
        elif groups is not None:
            engine = new._engine_by(given.groups, problem)
        new._check_groups(problem, engine.outputs.rows.groups)
        new._set_rule(engine.select(problem))
        new.selection_.warn(forewarned=False)
        if given.X is not None:  # `certify` refuses these rows from now on
            new.records_ = new.records_.using(new._reading(given.X, given.y))
        return new

    def tradeoff(
        self, a: Any = None, b: Any = None, *, n_points: int = 9, deferred: Any = None
    ) -> Any:
        """Return the trade-off curve of two rates, without training.

        Parameters
        ----------
        a : rate, largest, gap or ratio, optional
            The limited rate. By default that of the first limit that is none from below, and without one the
            overall error.
        b : rate or largest, optional
            The minimised rate. By default the objective or, if ``a`` is given, the overall error. If that is
            the limited rate too, the largest error of a class. If ``b`` is a gap or a ratio, it is limited
            and ``a`` is minimised.
        n_points : int, default=9
            Number of limits for which candidates are searched. The curve has one point for each undominated
            candidate.
        deferred : sequence of float in [0, 1), optional
            Fractions of the rows that may be deferred; there is one curve for each.

        Returns
        -------
        Curve, or dict of Curve by fraction
            On the selection data. Its ``at(level)`` gives the classifier within a limit, ``predicted(X, y)``
            both rates on other rows.

        Raises
        ------
        ValueError
            If an argument is no rate, or a rate needs a label, groups or costs that the classifier does not
            know.
        """
        check_is_fitted(self)
        problem = self.selection_.problem
        if deferred is None:
            return self._curve(*problem.traded(a, b), n_points)
        kept = tuple(limit for limit in problem.limits if limit.rate != deferred_rate())
        limited, traded = problem.within(kept).traded(a, b)
        curves = {}
        together = list[Curve]()  # a point may be picked from any of the curves
        for fraction in fractions_of(deferred):
            limit = deferred_rate() <= fraction
            deferring = self._within(traded.objective, (*kept, limit))
            curve = deferring._curve(limited, traded.also_within(limit), n_points)
            curves[fraction] = replace(curve, _curves=together)
        return curves

    def predict_log_proba(self: Any, X: Table) -> Floats:
        """Return the logarithm of ``predict_proba``, −∞ for a probability of 0.

        Parameters
        ----------
        X : array-like of shape (n, d)
            Rows, as in `predict`.

        Returns
        -------
        ndarray of shape (n, K)
            Columns in the order of `classes_`.
        """
        with np.errstate(divide="ignore"):
            return np.log(self.predict_proba(X))

    def _curve(self, limited: Any, traded: Problem, n_points: int) -> Curve:
        """Return the trade-off of two rates from candidates for ``n_points`` limits."""
        minimised, others = traded.objective, traded.limits
        loosest = self._restated(minimised, (*others, limited.within(limited.most)))
        problem = loosest._problem().within(others)

        def at(limit: Limit, point: Any) -> Any:
            limits = (*others, limit)
            if point is None:  # no point of the curve is within the limit
                return self._within(minimised, limits)
            return loosest._answering(point.selection_.stated_within(limits), limits)

        engine = self.selection_.engine
        points = []
        for rate, value, selection in points_along(engine, problem, limited, n_points):
            classifier = loosest._answering(selection, selection.problem.limits)
            points.append(CurvePoint(rate, value, classifier))
            engine = selection.engine
        return Curve(
            tuple(points),
            limited=limited,
            objective=minimised,
            measured_on=", within ".join([engine.words, *map(str, others)]),
            bound=bound_of(self.selection_.problem, limited),
            _at=at,
            _source=self,
        )

    def _restated(self, objective: Objective, limits: Sequence[Limit]) -> Self:
        """Return a copy that states another objective and other limits; nothing is selected.

        An error budget is dropped if the overall error is the objective or limited.
        """
        new = copy.copy(self)
        new.objective = Largest(objective.rate) if objective.worst else objective.rate
        new.limits = list(limits)
        new.max_error = None
        new.confidence = None
        if error() in (objective.rate, *(limit.rate for limit in limits)):
            new.error_budget = None
        new._validate_params()
        new._check_groups(new._problem(), self.selection_.engine.outputs.rows.groups)
        return new

    def _within(self, objective: Objective, limits: Sequence[Limit]) -> Self:
        """Return a copy with the rule of another objective and other limits."""
        new = self._restated(objective, limits)
        new._set_rule(self.selection_.select(new._problem()))
        return new

    def _answering(self, selection: Selection, limits: Sequence[Limit] | None = None) -> Self:
        """Return a copy with another selection of the same candidates, and perhaps other stated limits."""
        new = copy.copy(self)
        if limits is not None:
            new.limits = list(limits)
            new.max_error = None
        new._set_rule(selection)
        return new

    def _selection_within(self, limits: Sequence[Limit]) -> Selection:
        """Return the selection of the stated objective within other limits, without a confidence."""
        new = copy.copy(self)
        new.limits = list(limits)
        new.max_error = None
        new.confidence = None
        return self.selection_.select(new._problem())

    def _set_rule(self, selection: Selection) -> None:
        """Set the selection of a new classifier, or of a copy, and drop the certificate of another rule."""
        self.selection_ = selection
        self.__dict__.pop("certificate_", None)

    def _first_selection(self, engine: Engine, problem: Problem, records: Records) -> None:
        """Select on the rows of the records: only this step makes a fitted classifier.

        An error for contradicting limits keeps the engine, and so the fitted models.
        """
        self.records_ = records
        try:
            self._set_rule(engine.select(problem))
        except InfeasibleLimitsError as failure:
            self.selection_ = cast("Selection", Unselected(engine, problem))
            failure.unselected = self
            failure.add_note(
                "The models are kept in the attribute unselected of this error: its "
                "reweight(limits=[...]) trains nothing. After the error sys.last_value holds it."
            )
            raise

    # -- the problem and its rows ----------------------------------------------------------------------

    def _check_candidates(self) -> None:
        """Raise NotFittedError without candidates, which `InfeasibleLimitsError.unselected` has."""
        if not hasattr(self, "selection_"):
            check_is_fitted(self)

    def _problem(self) -> Problem:
        """Return objective and limits of the parameters; raise ValueError if these exclude each other."""
        return stated(
            self.objective,
            self.limits,
            self.max_error,
            error_budget=self.error_budget,
            confidence=self.confidence,
        )

    def _check_groups(self, problem: Problem, groups: Groups) -> None:
        """Raise ValueError if groups are missing for a problem or rule, or estimated without a use."""
        if self.by_group and self.infer_groups:
            raise ValueError(
                "infer_groups=True: with by_group=True the rule reads the group, and needs no "
                "estimate of it; leave one of them out"
            )
        needing = [repr(limit.rate) for limit in problem.limits if limit.rate.needs_groups]
        if problem.objective.rate.needs_groups:
            needing.append(f"objective={self.objective!r}")
        if self.by_group:
            needing.append("by_group")
        if needing and groups is None:
            raise ValueError(
                f"{needing[0]} needs groups: give groups=, with an entry for each row"
            )

    def _name_groups(self, names: GroupNames) -> None:
        """Set the names of groups; raise ValueError if they lack the column of ``by_group``."""
        self._group_names = names
        self.groups_ = names.names
        self.group_combinations_ = names.combinations
        self._column_read()

    def _column_read(self) -> int | None:
        """Return the number of the column of groups named by ``by_group``; None for group-blind rules.

        Raises
        ------
        ValueError
            If ``by_group`` names no column of the groups, or is True although there are several.
        """
        if not self.by_group:
            return None
        titles = list(self._group_names.titles)
        if self.by_group is True and len(titles) == 1:
            return 0
        if self.by_group is not True and self.by_group in titles:
            return titles.index(self.by_group)
        choices = " or ".join(f"by_group={title or True!r}" for title in titles)
        raise ValueError(
            f"by_group={self.by_group!r} names no single one of the columns of groups: give {choices}"
        )

    def _outputs_on(
        self, models: Models, given: Given, method: str
    ) -> tuple[ModelOutputs, Rows]:
        """Return the models' log-probabilities of new selection data, and these rows with features and costs.

        ``method`` is the name of the called method, for messages.
        """
        if models.are_given:
            X = stacked(given.X, models.names, self.classes_, n_rows_of(given.y))
        else:
            X = self._checked(given.X)
        rows = selection_rows(self, X, given, f"the {{:,}} rows given to {method}")
        known = records_of_fit(self, None).used
        if not all(isinstance(model, FrozenEstimator) for model in models.fitted):
            known = (self.records_.trained, *known)
        rows = marked_if_seen(rows, *known)
        if only_scores(models.fitted):  # rows with equal scores are different rows
            rows = replace(rows, row_hashes=None)
        table = models.transform(rows.X)
        logs = [table[i] for i in range(len(models.names))]
        return ModelOutputs.with_hashes(models, logs, rows.without_features()), rows

    def _engine_of(
        self, problem: Problem, outputs: ModelOutputs, X: Table = None, costs: Table = None
    ) -> Engine:
        """Return the candidates for the selection.

        Parameters
        ----------
        problem : Problem
            The objective within limits.
        outputs : ModelOutputs
            The log-probabilities of the models on the selection data.
        X : table of n rows, optional
            Features of the selection data, from which a group may be estimated.
        costs : ndarray of shape (n, K), optional
            Cost of each answer in each row.
        """
        models = outputs.models
        if self.infer_groups and only_scores(models.fitted) and not models.are_given:
            raise ValueError(
                "infer_groups=True: scores have no other columns from which a group could be "
                "estimated; give the model and its features, or leave infer_groups out"
            )
        return Engine.from_outputs(
            problem,
            outputs,
            X,
            self.classes_,
            getattr(self, "_group_names", None),
            rule_column=self._column_read(),
            infer_groups=self.infer_groups,
            costs=costs,
        )

    def _engine_on(self, given: Given, problem: Problem) -> Engine:
        """Return the candidates on the rows of a call of `reweight`; this copy gets their groups."""
        if given.groups is not None:
            self._name_groups(GroupNames.from_groups(given.groups, n_rows_of(given.groups)))
        models = self.selection_.engine.outputs.models
        outputs, rows = self._outputs_on(models, given, "reweight")
        self._check_groups(problem, rows.groups)
        if models.are_given:
            outputs.check_order(self.classes_)
        if problem.needs_costs and rows.costs is None:
            raise ValueError(COSTS_NOT_KEPT)
        # No group is estimated from scores.
        features = None if only_scores(models.fitted) else rows.X
        return self._engine_of(problem, outputs, features, rows.costs)

    def _engine_by(self, groups: Groups, problem: Problem) -> Engine:
        """Return the candidates on the same selection data with other groups; this copy gets them."""
        outputs = self.selection_.engine.outputs
        used = rows_among(groups, outputs.rows)
        self._name_groups(GroupNames.from_groups(groups, n_rows_of(groups), used))
        numbers = self._group_names.numbers_of(groups, "groups", len(used), used)
        if problem.needs_costs:
            raise ValueError(COSTS_NOT_KEPT)
        rows = replace(outputs.rows, groups=numbers)
        return self._engine_of(problem, replace(outputs, rows=rows))

    def _reading(self, X: Table, y: Any) -> Seen:
        """Return rows on which a rule is selected, to recognise them later; labels count for scores alone."""
        labels = y if self._reads_scores else None
        return Seen.of(self._row_hashes(X), SELECTED_ON, labels)

    # -- answers ---------------------------------------------------------------------------------------

    def _checked(self, X: Table) -> Any:
        """Return a table in the form of the fit, or given probabilities as an array, shape (n, M, K)."""
        models = self.selection_.engine.outputs.models
        if has_named_columns(X):
            return stacked(X, models.names, self.classes_)
        if models.are_given:
            raise AttributeError(
                "this classifier is made from_probabilities and has no models: give a dict of "
                "their probabilities of the new rows"
            )
        return checked_table(self, X)

    def _models_for(self, X: Table) -> Models:
        """Return the models for a table, or for given probabilities."""
        check_is_fitted(self)
        models = self.selection_.engine.outputs.models
        if has_named_columns(X):
            return Models.from_given(models.names, self.classes_, models.average)
        return models

    def _tables(self, X: Table, groups: Groups) -> tuple[Iterator[LogProbabilities], Any]:
        """Return the models' log-probabilities of rows in batches with the numbers of groups, and the table.

        Arguments are checked before the first batch is asked for.
        """
        groups = groups_in(X, groups)
        check_indexes(X=X, groups=groups)
        check_groups_read(groups, reads=bool(self.by_group))
        models = self._models_for(X)
        table = self._checked(X)
        numbers = self._group_numbers(groups, n_rows_of(table))

        def opened(place: Ints, rows: Any) -> LogProbabilities:
            logs = models.transform(rows)
            return logs if numbers is None else logs.knowing(numbers[place])

        return (opened(*batch) for batch in batched(table)), table

    def _group_numbers(self, groups: Groups, n: int) -> Ints | None:
        """Return the number of each row's group, shape (n,), in the column of a group-aware rule.

        None for a group-blind rule.

        Raises
        ------
        ValueError
            If ``by_group`` was changed after the selection, or groups are missing, unknown or not used.
        """
        column = self._column_read()
        may_read = column is not None and len(self._group_names.values[column]) > 1
        if self.selection_.engine.probabilities.group_aware != may_read:
            raise ValueError(
                f"by_group={self.by_group!r} was set after the selection of the rule: tune again"
            )
        if column is None:
            return None
        names = self._group_names.only(column)
        groups = as_pandas(groups)
        if names_columns(groups):
            # The rule reads one of several columns; `numbers_of` refuses a table without this column.
            groups = {name: groups[name] for name in groups if name in names.titles} or groups
        return names.numbers_of(groups, "groups", n)

    def _opened(self, X: Table, groups: Groups = None) -> LogProbabilities:
        """Return the models' log-probabilities of rows, computed once for all rules."""
        tables, table = self._tables(X, groups if self.by_group else None)
        return LogProbabilities.joined(list(tables), table)

    def _answers(self, X: Table, groups: Groups) -> tuple[Ints, Mask]:
        """Return the number of each row's label, and which rows are deferred; the rows may be opened."""
        tables: Any = [X]
        if not isinstance(X, LogProbabilities):
            tables, _ = self._tables(X, groups)
        labels, deferred = zip(*map(self.selection_.member.answers, tables), strict=True)
        return np.concatenate(labels), np.concatenate(deferred)

    # -- what other parts of the library read ----------------------------------------------------------

    @property
    def _stated_limits(self) -> tuple[Limit, ...]:
        """The limits on rates of the parameters ``limits`` and ``max_error``."""
        return self._problem().limits

    @property
    def _can_defer(self) -> bool:
        """Whether the rule may defer rows."""
        check_is_fitted(self)
        return bool(self.selection_.member.defers)

    @property
    def _weighs_groups(self) -> bool:
        """Whether the rule weighs an estimate of p(group | x, y) for each row."""
        return bool(self.selection_.member.weighs_groups)

    @property
    def _reads_scores(self) -> bool:
        """Whether the rule reads scores alone: then equal rows count as different rows."""
        return only_scores(self.estimators_)

    @property
    def _columns_of_scores(self) -> list[Any]:
        """The columns of scores among the models; [] without any."""
        return columns_of_scores(self.estimators_)

    def _without_score(self, X: Table) -> Mask:
        """Return which rows lack a score that the rule reads; given probabilities are no scores."""
        lacking = np.zeros(n_rows_of(X), dtype=np.bool_)
        if not has_named_columns(X):
            for model in self.estimators_:
                if isinstance(getattr(model, "estimator", None), Scores):
                    lacking |= model.estimator.without_score(X)
        return lacking

    @property
    def _rule_digest(self) -> str:
        """Digest of the rule and its models: of columns of scores, or of outputs on the selection data."""
        outputs = self.selection_.engine.outputs
        models = outputs.models
        if only_scores(models.fitted) and not models.are_given:
            return digest_of_rule(
                self.rule_, [columns_of(model.estimator) for model in models.fitted]
            )
        return digest(
            digest_of_rule(self.rule_).encode(), *(log.tobytes() for log in outputs.logs)
        )

    def _row_hashes(self, X: Table) -> Hashes:
        """Return the hashes of rows: of the scores that the rule reads, or of features."""
        self._check_candidates()
        return self.selection_.engine.outputs.models.row_hashes(self._checked(X))

    def _measured(self, *rates: Rate | Limit) -> RateTable:
        """Return rates on the selection data, by subgroup and with intervals."""
        return self.selection_.rates(rates)
