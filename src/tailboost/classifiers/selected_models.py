"""A classifier of models and a selected rule: its answers, reports, and other selections without a fit."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import replace
from html import escape
from types import SimpleNamespace
from typing import Any, Self, cast

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.frozen import FrozenEstimator
from sklearn.utils import estimator_html_repr
from sklearn.utils.validation import check_is_fitted

from tailboost.classifiers.fitting import (
    answering,
    checked_table,
    marked_if_seen,
    records_of_fit,
)
from tailboost.core.array_types import (
    Array,
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
    batched,
    check_indexes,
    group_columns,
    has_named_columns,
    n_rows_of,
    unpack,
)
from tailboost.core.exceptions import DeferredRowsWarning, warn_user
from tailboost.learners.scores import Scores, only_scores
from tailboost.rates import (
    InfeasibleLimitsError,
    Limit,
    Statistic,
    error,
)
from tailboost.rows.fingerprints import digest, digest_of_rule
from tailboost.rows.judged import JudgedModel
from tailboost.rows.rows import GroupNames, Rows
from tailboost.rows.seen import SELECTED_ON, Ledger, Seen
from tailboost.rows.subgroups import warn_of_other_groups
from tailboost.selection.curve import Curve, bound_of, points_along, traded
from tailboost.selection.outputs import LogProbabilities, Models
from tailboost.selection.rule import group_numbers, stacked
from tailboost.selection.search import Problem, stated
from tailboost.selection.selection import Engine, Selection
from tailboost.selection.table import RateTable


class SelectedModels(ClassifierMixin, JudgedModel, BaseEstimator):
    """A classifier of models and a rule that is selected among candidates; nothing is trained here.

    Attributes
    ----------
    certificate_ : Certificate or None
        The certificate of `tailboost.calibrate` for this rule.
    groups_ : sequence
        Names of the groups of the fit; empty without groups.
    records_ : Records
        The rows that the classifier has read, by their use, and the attempts to calibrate it.
    """

    selection_: Selection
    estimators_: Any
    objective: Any
    limits: Any
    error_budget: Any
    confidence: Any
    infer_groups: Any
    groups_: Any = ()
    _column_read: int | None = None
    _group_names: Any = None

    def _html_repr(self: Any) -> str:
        """Return the text of a fitted classifier, and scikit-learn's diagram."""
        text = f"<pre>{escape(str(self))}</pre>" if self.__sklearn_is_fitted__() else ""
        return text + estimator_html_repr(self)

    # -- answers ---------------------------------------------------------------------------------------

    def predict(self: Any, X: Table, *, groups: Groups = None, deferred: Any = None) -> Array:
        """Return the label of each row.

        The label of a row depends on this row alone. If a limit on ``rates.deferred()`` lets the rule defer
        rows, `defers` tells which. `predict` gives them ``deferred`` or, with a warning, the label that would
        be answered. Limits and certificates count these rows as deferred, not with this label.

        Parameters
        ----------
        X : array-like of shape (n, d)
            Rows, as in `fit`, or a dict of the models' probabilities of the rows; models without weight (see
            ``used_models_``) may be left out.
        groups : array-like of shape (n,), optional
            Group of each row, one of the groups in `fit`; needed with ``by_group=True`` alone.
        deferred : str or number, optional
            Value for deferred rows, as "human review"; none of the labels.

        Returns
        -------
        ndarray of shape (n,)
            Labels, as in ``classes_``; of dtype object if ``deferred`` is of another kind.

        Raises
        ------
        ValueError
            If groups are missing, not used, or not among the groups of `fit`; if ``deferred`` is a label.

        Warns
        -----
        DeferredRowsWarning
            Counts the deferred rows, if ``deferred`` is not given.
        UncertifiedGroupsWarning
            Counts the rows of a table in groups that the certificate does not name.
        """
        check_is_fitted(self)
        labels, is_deferred = self._answers(X, groups)
        if self.certificate_ is not None:
            warn_of_other_groups(self.certificate_.groups_named, X, groups)
        labels = self.classes_[labels]
        if deferred is None:
            n_deferred = np.count_nonzero(is_deferred)
            if n_deferred:
                counting = "The limits and rates of the rule count"
                if self.certificate_ is not None:
                    counting = "The certificate counts"
                warn_user(
                    f"predict: {n_deferred:,} of {len(is_deferred):,} rows are deferred. "
                    f"{counting} them as deferred, not with the labels given here. predict(X, "
                    "deferred='human review') marks them; defers(X) tells which they are",
                    DeferredRowsWarning,
                )
            return labels
        if not np.isscalar(deferred) or deferred in self.classes_.tolist():
            raise ValueError(f"deferred={deferred!r} must be one value, and no label")
        marks = np.asarray(deferred)
        if marks.dtype.kind != labels.dtype.kind:  # NumPy would turn numbers into text
            marks = np.array(deferred, dtype=object)
            labels = labels.astype(object)
        return np.where(is_deferred, marks, labels)

    def defers(self: Any, X: Table, *, groups: Groups = None) -> Mask:
        """Return which rows are deferred; ``predict(X, deferred="human review")`` marks them.

        Parameters
        ----------
        X, groups : array-like of shape (n, d), (n,)
            As in `predict`.

        Returns
        -------
        ndarray of bool, shape (n,)
            All False if the rule never defers.
        """
        _, is_deferred = self._answers(X, groups)
        return is_deferred

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

    # -- the rows of the fit ---------------------------------------------------------------------------

    @property
    def ledger_(self) -> Ledger:
        """The attempts to calibrate this fit."""
        return self.records_.ledger

    def seen_share(self: Any, X: Table) -> float:
        """Return the share of rows equal to training rows; errors on such rows are too small.

        Rows are compared by content, without labels, with the fingerprints in the model and its file
        (``records_.trained``): of up to 50,000 distinct training rows, or of a sample of this size.
        Anybody who has the model can therefore test whether a row he knows was a training row. Numbers are
        compared as float32, fractions to 16 significant bits. So rows are recognised after a file, another
        type or a column of objects, but not after scaling or noise.

        Parameters
        ----------
        X : array-like of shape (n, d)
            The rows. In a table with few different values fresh rows equal training rows by chance.

        Returns
        -------
        float
            From 0 to 1, each row counts once; NaN if the sample contains none of the rows.

        Examples
        --------
        >>> from sklearn.datasets import load_iris
        >>> from sklearn.naive_bayes import GaussianNB
        >>> from tailboost import RobustMixtureClassifier
        >>> X, y = load_iris(return_X_y=True)
        >>> clf = RobustMixtureClassifier([("bayes", GaussianNB())]).fit(X[::2], y[::2])
        >>> clf.seen_share(X[::2])
        1.0
        """
        check_is_fitted(self)
        rows = Seen.of(self._row_hashes(X))
        if self.records_.trained is None:
            return float("nan")
        return rows.share_in(self.records_.trained)

    # -- errors on the selection data ------------------------------------------------------------------

    @property
    def rates_(self: Any) -> RateTable:
        """The rates of the objective and of the limits by subgroup, on the selection data."""
        check_is_fitted(self)
        if self.certificate_ is None:
            return self.selection_.estimates
        return self.selection_.stated_within(self._stated_limits).estimates

    @property
    def limits_met_(self: Any) -> bool | None:
        """Whether all limits are certified, or without a certificate kept on the selection data.

        It is about `predict`, and None without limits.
        """
        check_is_fitted(self)
        if self.certificate_ is not None:
            return self.certificate_.certified
        program = self.selection_.program
        is_limited = (program.limit_of_row >= 0).any()
        return program.keeps(self.selection_.counts) if is_limited else None

    @property
    def subgroup_errors_(self: Any) -> dict[Any, float]:
        """Error of `predict` on each class, group or cell, on the selection data; NaN without rows."""
        check_is_fitted(self)
        return {line.subgroup: line.value for line in self.selection_.errors}

    @property
    def subgroup_intervals_(self: Any) -> Floats:
        """95 % intervals for the errors of `predict` on new rows, shape (m, 2); NaN without an interval."""
        check_is_fitted(self)
        lines = self.selection_.errors
        return np.array([(line.low, line.high) for line in lines]).reshape(-1, 2)

    # -- other selections ------------------------------------------------------------------------------

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
        if not hasattr(self, "selection_"):  # `InfeasibleLimitsError.unselected` has one
            check_is_fitted(self)
        X, y = unpack(X, y)
        if (X is None) != (y is None):
            raise ValueError("reweight needs both X and y, or neither")
        if X is None and not (sample_weight is costs is None):
            raise ValueError("sample_weight and costs belong to rows: give X and y too")
        new = copy.copy(self)
        new.certificate_ = None  # of another rule
        restated = {"objective": objective, "limits": limits, "error_budget": error_budget}
        for name, value in restated.items():
            if value is not None:
                setattr(new, name, value)
        if confidence is not None:
            new.confidence = confidence
        elif not new.limits:
            new.confidence = None  # no limit is left
        new._validate_params()
        engine = new.selection_.engine
        models = engine.models
        if X is None and groups is None:
            problem = new._problem(models.rows.groups)
            new.selection_ = engine.on(problem).select(problem)
            new.selection_.warn()
            return new
        given = Rows.read(X, y, groups, sample_weight, costs)
        problem = new._problem(given.groups)
        if problem.needs_costs and costs is None:
            raise ValueError(
                "costs of the rows are not kept with the model: give X, y and costs"
            )
        if X is not None:
            if groups is not None:
                new._name_groups(given)
            models, table = new._read(given.X)
            words = f"the {len(given):,} rows given to reweight"
            rows = replace(given, X=table).numbered(new.classes_, new._group_names, words)
            models = answering(models, rows)
            known = records_of_fit([new]).used
            if not all(isinstance(model, FrozenEstimator) for model in models.fitted):
                known = (new.records_.trained, *known)
            models = marked_if_seen(models, rows.X, *known)
            # `certify` refuses these rows from now on.
            new.records_ = new.records_.using(new._reading(given.X, given.labels))
            features = None if only_scores(models.fitted) else rows.X
            new._select(problem, models, features, rows.costs)
        else:
            rows = models.rows
            if len(given) != rows.n_given:
                raise ValueError(
                    f"groups has {len(given)} entries, but the selection data are "
                    f"{rows.words}, from a table of {rows.n_given} rows: give one group for "
                    "each of these rows"
                )
            is_used = np.isin(np.arange(len(given)), rows.places)
            of_rows = given.part(is_used).occurring()
            new._name_groups(of_rows)
            new._select(problem, replace(models, rows=replace(rows, groups=of_rows.groups)))
        new.selection_.warn()
        return new

    def tradeoff(self, a: Any = None, b: Any = None, *, n_points: int = 9) -> Any:
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

        Returns
        -------
        Curve
            On the selection data. Its ``at(level)`` gives the classifier within a limit, ``predicted(X, y)``
            both rates on other rows.

        Raises
        ------
        ValueError
            If an argument is no rate, or a rate needs a label, groups or costs that the classifier does not
            know.
        """
        check_is_fitted(self)
        limited, problem = traded(self.selection_.problem, a, b)
        minimised, others = problem.objective, problem.limits
        loosest = self._restated(minimised, (*others, limited.within(limited.most)))
        engine = self.selection_.engine
        problem = loosest._problem(engine.models.rows.groups).within(others)

        def at(limit: Limit, point: Any) -> Any:
            limits = (*others, limit)
            if point is None:  # no point of the curve is within the limit
                tighter = problem.within(limits)
                return loosest._answering(engine.on(tighter).select(tighter), limits)
            return loosest._answering(point.selection_.stated_within(limits), limits)

        points = []
        for rate, value, selection in points_along(engine, problem, limited, n_points):
            classifier = loosest._answering(selection, selection.problem.limits)
            points.append((rate, value, classifier))
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

    def _restated(self, objective: Statistic, limits: Sequence[Limit]) -> Self:
        """Return a copy that states another objective and other limits; nothing is selected.

        An error budget is dropped if the overall error is the objective or limited.
        """
        new = copy.copy(self)
        new.objective = objective
        new.limits = list(limits)
        new.confidence = None
        if error() in (objective.rate, *(limit.rate for limit in limits)):
            new.error_budget = None
        new._validate_params()
        return new

    def _answering(self, selection: Selection, limits: Sequence[Limit] | None = None) -> Self:
        """Return a copy with another selection of the same candidates, and perhaps other stated limits."""
        new = copy.copy(self)
        if limits is not None:
            new.limits = list(limits)
        new.selection_ = selection
        new.certificate_ = None  # of another rule
        return new

    def _selection_within(self, limits: Sequence[Limit]) -> Selection:
        """Return the selection of the stated objective within other limits, without a confidence."""
        new = copy.copy(self)
        new.limits = list(limits)
        new.confidence = None
        problem = stated(new)
        return self.selection_.engine.on(problem).select(problem)

    def _select(
        self, problem: Problem, models: Models, X: Table = None, costs: Floats | None = None
    ) -> None:
        """Select the rule: only this step makes a fitted classifier.

        An error for contradicting limits keeps the models.

        Parameters
        ----------
        problem : Problem
            The objective within limits.
        models : Models
            The models with their log-probabilities on the selection data.
        X : table of n rows, optional
            Features of the selection data, from which a group may be estimated.
        costs : ndarray of shape (n, K), optional
            Cost of each answer in each row.
        """
        self._reads_scores = only_scores(models.fitted)
        lacks_features = self._reads_scores and not models.are_given
        if self.infer_groups and lacks_features:
            raise ValueError(
                "infer_groups=True: scores have no other columns from which a group could be "
                "estimated; give the model and its features, or leave infer_groups out"
            )
        column = self._column_read
        may_infer = column is None and not lacks_features
        names = self._group_names
        engine = Engine(problem, models, self.classes_, names, column, may_infer, X, costs)
        try:
            self.selection_ = engine.select(problem)
        except InfeasibleLimitsError as failure:
            self.selection_ = cast("Selection", SimpleNamespace(engine=engine, problem=problem))
            failure.unselected = self
            failure.add_note(
                "The models are kept in the attribute unselected of this error: its "
                "reweight(limits=[...]) trains nothing. After the error sys.last_value holds "
                "it."
            )
            raise

    # -- the problem and its rows ----------------------------------------------------------------------

    def _problem(self, groups: Groups) -> Problem:
        """Return objective and limits of the parameters.

        Raise ValueError if these exclude each other, or need groups and ``groups`` are None.
        """
        problem = stated(self)
        if self.by_group and self.infer_groups:
            raise ValueError(
                "infer_groups=True: with by_group=True the rule reads the group, and needs no "
                "estimate of it; leave one of them out"
            )
        if groups is not None:
            return problem
        needing = [repr(limit.rate) for limit in problem.limits if limit.rate.needs_groups]
        if problem.objective.rate.needs_groups:
            needing.append(f"objective={self.objective!r}")
        if self.by_group:
            needing.append("by_group")
        if needing:
            raise ValueError(
                f"{needing[0]} needs groups: give groups=, with an entry for each row"
            )
        return problem

    def _name_groups(self, rows: Rows) -> None:
        """Set the names of groups, and the number of the column that the rule reads; None for no column.

        Raises
        ------
        ValueError
            If ``by_group`` names no column of the groups, or is True although there are several.
        """
        names = rows.names
        assert names is not None
        assert rows.groups is not None
        self._group_names = names
        self.groups_ = names.names
        self.group_combinations_: Any = ()
        if len(names.titles) > 1:
            columns = zip(names.values, np.unique(rows.groups, axis=0).T, strict=True)
            occurring = [values[numbers].tolist() for values, numbers in columns]
            self.group_combinations_ = tuple(zip(*occurring, strict=True))
        self._column_read = None
        titles = list(names.titles)
        if not self.by_group:
            return
        if self.by_group is True and len(titles) == 1:
            self._column_read = 0
            return
        if self.by_group is not True and self.by_group in titles:
            self._column_read = titles.index(self.by_group)
            return
        choices = " or ".join(f"by_group={title or True!r}" for title in titles)
        raise ValueError(
            f"by_group={self.by_group!r} names no single one of the columns of groups: give "
            f"{choices}"
        )

    # -- answers of the models -------------------------------------------------------------------------

    def _read(self, X: Table) -> tuple[Models, Any]:
        """Return the models, and a table as they read it: in the form of the fit.

        Given probabilities of the models become an array of shape (n, M, K).
        """
        models = self.selection_.engine.models
        if has_named_columns(X):
            given = Models.from_given(models.names, self.classes_)
            given = replace(given, weights=models.weights, offset=models.offset)
            return given, stacked(X, self.classes_, models.names)
        if models.are_given:
            raise AttributeError(
                "this classifier is made from_probabilities and has no models: give a dict of "
                "their probabilities of the new rows"
            )
        return models, checked_table(self, X)

    def _read_by(self, X: Table, groups: Groups) -> tuple[Models, Any, Ints]:
        """Return models and table, and the number of each row's group, 0 for a group-blind rule.

        Raises
        ------
        ValueError
            If the table is none of the fit, ``by_group`` was changed after the selection, or groups are
            missing, unknown or not used.
        """
        check_is_fitted(self)
        engine = self.selection_.engine
        if bool(self.by_group) != (engine.told is not None):
            raise ValueError(
                f"by_group={self.by_group!r} was set after the selection of the rule: tune "
                "again"
            )
        check_indexes(X=X, groups=groups)
        groups = group_columns(groups, "groups", X)
        values, title = engine.groups_read
        numbers = group_numbers(groups, values, n_rows_of(X), title)
        return *self._read(X), numbers

    def _opened(self, X: Table, groups: Groups = None) -> LogProbabilities:
        """Return the models' log-probabilities of rows, computed once for all rules."""
        models, table, numbers = self._read_by(X, groups if self.by_group else None)
        opened = models.transform(table)
        opened.groups = numbers
        return opened

    def _answers(self, X: Table, groups: Groups) -> tuple[Ints, Mask]:
        """Return the number of each row's label, and which rows are deferred; the rows may be opened."""
        if isinstance(X, LogProbabilities):
            return self.selection_.answers(X)
        models, table, numbers = self._read_by(X, groups)
        found = []
        for place, rows in batched(table):
            opened = models.transform(rows)
            opened.groups = numbers[place]
            found.append(self.selection_.answers(opened))
        labels, deferred = map(np.concatenate, zip(*found, strict=True))
        return labels, deferred

    # -- what other parts of the library read ----------------------------------------------------------

    @property
    def _stated_limits(self) -> tuple[Limit, ...]:
        """The limits of the rule."""
        check_is_fitted(self)
        return self.selection_.problem.limits

    @property
    def _groups_by_column(self) -> dict[Any, list[Any]]:
        """The groups of the fit by column, None for a column without a name; empty without groups."""
        names = self._group_names or GroupNames((), ())
        return dict(zip(names.titles, (each.tolist() for each in names.values), strict=True))

    @property
    def _can_defer(self) -> bool:
        """Whether the rule may defer rows."""
        return self.selection_.program.strata.defers

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
        models = self.selection_.engine.models
        if self._reads_scores and not models.are_given:
            scores = [model.estimator for model in models.fitted]
            columns = [
                [each.column_list, each.label_list, each.kind, each.missing] for each in scores
            ]
            return digest_of_rule(self.selection_.written, columns)
        return digest(
            digest_of_rule(self.selection_.written).encode(),
            *(log.tobytes() for log in models.logs),
        )

    def _row_hashes(self, X: Table) -> Hashes:
        """Return the hashes of rows, which may be opened: of the scores that the rule reads, or features."""
        if isinstance(X, LogProbabilities):
            return X.models.row_hashes(X.X)
        if not hasattr(self, "selection_"):
            check_is_fitted(self)
        models, table = self._read(X)
        return models.row_hashes(table)

    def _reading(self, X: Table, y: Any) -> Seen:
        """Return rows on which a rule is selected, to recognise them later; labels count for scores alone."""
        return Seen.of(self._row_hashes(X), SELECTED_ON, y if self._reads_scores else None)
