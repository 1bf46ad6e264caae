"""Fitted models and a rule selected on their scores: answers, reports, and other selections without a fit."""

from __future__ import annotations

import copy
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from html import escape
from itertools import chain
from numbers import Real
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.base import _fit_context
from sklearn.frozen import FrozenEstimator
from sklearn.metrics import accuracy_score
from sklearn.utils import Bunch, estimator_html_repr
from sklearn.utils._param_validation import Interval
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted

from tailboost.classifiers.curve import Curve, bound_of, points_along, traded
from tailboost.classifiers.fitting import (
    Columns,
    Fit,
    answering,
    checked_table,
    compared,
    final_models,
    frozen_fit,
    named_models,
    usable,
)
from tailboost.core.array_types import (
    Array,
    Column,
    Constraints,
    Floats,
    Groups,
    Hashes,
    Ints,
    Label,
    Labels,
    Mask,
    Model,
    Stated,
    Table,
)
from tailboost.core.checks import (
    check_costs,
    columns_of,
    has_named_columns,
    n_rows_of,
    positions,
    take,
    unpack,
)
from tailboost.core.exceptions import DeferredRowsWarning, warn_user
from tailboost.core.long_work import fitting_apart
from tailboost.core.spelling import did_you_mean
from tailboost.guarantees.certificates import Certificate
from tailboost.guarantees.evidence import Evidence
from tailboost.learners.scores import OfAnyTable, Scores
from tailboost.rates import (
    InfeasibleLimitsError,
    Limit,
    Rate,
    Statistic,
    error,
)
from tailboost.rows.fingerprints import hash_rows
from tailboost.rows.rows import GroupNames, Rows
from tailboost.rows.seen import FEWEST_TRAINED, TRAINED_ON, Ledger, Records, Seen
from tailboost.rows.subgroups import (
    HUMAN_REVIEW,
    group_columns,
    group_numbers,
    warn_of_other_groups,
    with_missing_group,
)
from tailboost.selection.answering import Decided, Decision, Known, Scored
from tailboost.selection.door import known_within
from tailboost.selection.identity import Identity, identity_of
from tailboost.selection.outputs import LogProbabilities, Models, averaging
from tailboost.selection.rule import Rule, ThresholdRule, stacked
from tailboost.selection.search import Problem, stated
from tailboost.selection.selection import Engine, Selection, StoredSelection
from tailboost.selection.table import RateTable

# Maximum number of rows in a batch of a prediction, which limits memory.
ROWS_OF_BATCH = 65_536


class TunedClassifier(OfAnyTable):
    """A classifier of fitted models and a rule on their scores, selected within limits on rates.

    `tune`, `calibrate` and `load_rule` return it. `fit` selects the rule on given rows and trains nothing;
    `predict` applies it. A rule on `Scores` reads its columns, and the groups, from tables with any further
    columns; of a file it has no selection data, so `reweight` needs rows, and there are no rates.

    Parameters
    ----------
    models : list of (str, model)
        The fitted models by name, as `tune` takes them.
    objective, limits, error_budget, by_group, infer_groups : optional
        As in `RobustMixtureClassifier`.

    Attributes
    ----------
    classes_ : ndarray of shape (K,)
        The labels.
    rule_ : ThresholdRule or Rule
        The decision rule.
    rates_ : RateTable
        The rates of the objective and of the limits by subgroup, on the selection data.
    limits_met_ : bool or None
        Whether all limits are certified, or without a certificate kept on the selection data; None without
        limits.
    evidence_ : Evidence
        The rule with its certificate, and the rows that were used.
    groups_ : ndarray of shape (m,)
        Names of the groups of the fit; empty without groups.
    """

    _parameter_constraints: ClassVar[Constraints] = {
        "objective": [str, Rate, Statistic, None],
        "limits": [list, tuple, str, Limit],
        "error_budget": [Interval(Real, 0, 1, closed="both"), None],
        "by_group": ["boolean", str],
        "infer_groups": ["boolean"],
    }

    #: Whether a fit trains models: then these read numbers and categories in checked tables.
    _trains: ClassVar[bool] = False
    classes_: Labels
    evidence_: Evidence
    group_combinations_: Sequence[tuple[Label, ...]] = ()
    _columns: Columns | None = None
    _column_read: int | None = None
    _group_names: GroupNames = GroupNames((), ())

    def __init__(
        self,
        models: Model = None,
        *,
        objective: Stated = None,
        limits: Stated = (),
        error_budget: float | None = None,
        by_group: bool | str = False,
        infer_groups: bool = False,
    ) -> None:
        self.models = models
        self.objective = objective
        self.limits = limits
        self.error_budget = error_budget
        self.by_group = by_group
        self.infer_groups = infer_groups

    def set_params(self, **params: Any) -> Self:
        """Set parameters; a fitted classifier keeps its rule until the next fit."""
        self._refuse_unknown(params, self.get_params())
        super().set_params(**params)
        return self

    def _refuse_unknown(self, params: Iterable[str], known: Collection[str]) -> None:
        """Raise ValueError for a name that is no parameter."""
        for name in params:
            if name.partition("__")[0] not in known:
                raise ValueError(
                    f"{type(self).__name__} has no parameter {name!r}; "
                    f"{did_you_mean(name, known)}parameters are "
                    f"{', '.join(self.get_params(deep=False))}"
                )

    @property
    def _given_models(self) -> Sequence[Model]:
        return self.models or []

    def _html_repr(self) -> str:
        """Return the text of a fitted classifier, and scikit-learn's diagram."""
        text = f"<pre>{escape(str(self))}</pre>" if self.__sklearn_is_fitted__() else ""
        return text + estimator_html_repr(self)

    def __str__(self) -> str:
        """Return limits with their verdict, the overall error and the rule of a fitted classifier.

        They are certified if the rule has a certificate, otherwise measured on the selection data.
        """
        if not self.__sklearn_is_fitted__():
            return repr(self)
        certificate = self.certificate_
        if certificate is not None:
            source, lines = certificate.title, certificate.limit_lines()
            errors = certificate.lines()[:1]
        elif isinstance(self.evidence_.selection, StoredSelection):
            source, lines = "of a file, without a certificate", []
            errors = [f"limits as stated: {self.limits}"]
        else:
            source = f"measured on {self.rates_.words.partition(' (')[0]}"
            lines = self.rates_.limit_lines()
            selection = self.selection_
            *_, overall = selection.rates([*selection.problem.limits, error()])
            errors = [overall.texts[2]]
        texts = [f"limit  {e.name} {e.limit}  {e.verdict} ({e.numbers})" for e in lines]
        texts += [f"error  {line.strip()}" for line in errors]
        texts += [f"rule   {line.strip()}" for line in str(self.rule_).splitlines()]
        models = ", ".join(self.used_models_)
        return "\n".join([f"{type(self).__name__} of {models}, {source}", *texts])

    # -- selection ---------------------------------------------------------------------------------------

    def fit(
        self,
        X: Table,
        y: Column = None,
        *,
        sample_weight: Column = None,
        groups: Groups = None,
        costs: Table = None,
        training_rows: Table = None,
    ) -> Self:
        """Select the rule on rows that no model was trained on; arguments and errors as of `tune`."""
        rows = Rows.read(X, y, groups, sample_weight, costs)
        with fitting_apart(self) as fitted:
            fitted._learn(rows, training_rows=training_rows)
        self.selection_.warn()
        return self

    @_fit_context(prefer_skip_nested_validation=True)
    def _learn(self, given: Rows, *, training_rows: Table = None) -> Self:
        """Set all attributes of a fit, in a classifier without any, and return the classifier."""
        problem = self._problem(given.groups)
        models = usable(named_models(self.models), given.X, given.labels, weighted=False)
        words = f"the {len(given):,} given rows (no model was fitted on them, as stated)"
        selecting = replace(self._training(given, problem), words=words)
        fits = {name: [frozen_fit(name, model, self.classes_)] for name, model in models}
        fitted = final_models(fits, len(self.classes_))
        given_models = [model for _, model in models]
        self._judge(problem, fitted, given_models, selecting, training_rows=training_rows)
        return self

    def _training(self, given: Rows, problem: Problem) -> Rows:
        """Return the rows of a fit with checked columns, and set what the classifier learns from them.

        These are ``classes_``, its columns and, with groups, their names.

        Raises
        ------
        ValueError
            If labels are missing or of one class, or if all rows are in one cluster.
        """
        if given.y is None:
            raise ValueError(
                f"{type(self).__name__} requires y to be passed, but the target y is None"
            )
        X = checked_table(self, given.X, reset=True)
        check_classification_targets(given.labels)
        self.classes_ = given.classes
        if len(given.classes) < 2:
            raise ValueError(
                f"y holds one class only ({given.classes.tolist()[0]!r}) among the rows of positive "
                "weight; a classifier needs at least two classes"
            )
        units = X
        words = f"the {len(given):,} training rows"
        if given.clusters is not None:
            units = given.clusters[:, None]
            n_clusters = len(np.unique(units))
            words += f" of {n_clusters:,} clusters"
            if n_clusters == 1:
                raise ValueError(
                    "clusters has one value only: none of its rows can be held out without the "
                    "others"
                )
        if given.names is not None:
            self._name_groups(given)
            given.refuse_many_numbers(problem.columns(given.names.titles))
        costs = check_costs(given.costs, len(given), given.classes)
        return replace(given, X=X, costs=costs, words=words, row_hashes=hash_rows(units))

    def _judge(
        self,
        problem: Problem,
        models: Models,
        given: Sequence[Model],
        selecting: Rows,
        fits: Mapping[str, Sequence[Fit]] | None = None,
        fold: Ints | None = None,
        trained: Sequence[Hashes] = (),
        *,
        training_rows: Table = None,
        are_new: bool = True,
    ) -> None:
        """Select the rule on the scores of fitted models, and record the rows.

        Parameters
        ----------
        problem : Problem
            The objective within limits.
        models : Models
            The models that answer.
        given : list of models
            They as given.
        selecting : Rows
            The selection data.
        fits, fold : optional
            All fits of the models, and the number of the fit that answers each row, see `answering`.
        trained : sequence of hashes
            The rows of these fits.
        training_rows : table, optional
            Further rows on which the models were trained.
        are_new : bool
            Whether the selection data are other rows than those of the fits.
        """
        identity = identity_of(models.fitted)
        models = answering(models, selecting, fits, fold)
        identity = identity.after_answers(identity_of(models.fitted), ", ".join(models.names))

        # Read last: the models have refused an X with other columns.
        stated_rows = []
        if training_rows is not None:
            table = checked_table(self, training_rows, "training_rows")
            stated_rows.append(hash_rows(table, rounded=True))
        inner = [each.records for each in known_within(given)]
        seen = [rows for each in inner for rows in each.tables]
        seen += map(Seen.of, stated_rows)
        if are_new:  # rows held out of the fits are among their training rows
            seen += map(Seen.of, trained)
        of_fits = [*trained, *stated_rows]
        enough = FEWEST_TRAINED * (selecting.n_given or 0)
        attempts = {attempt.key: attempt for each in inner for attempt in each.ledger.attempts}
        records = Records(
            Seen.of(np.concatenate(of_fits), TRAINED_ON) if of_fits else None,
            all(each.complete for each in inner)
            or any(len(rows) >= enough for rows in stated_rows),
            ledger=Ledger(tuple(attempts.values())),
        )
        if seen or are_new:
            models, used = compared(models, selecting, seen)
        if are_new:
            records = records.using(used)
        self._select(problem, averaging(models), selecting, records, identity)

    # -- answers ---------------------------------------------------------------------------------------

    def predict(
        self, X: Table, groups: Groups = None, *, deferred: Any = None, default: Any = ...
    ) -> Array:
        """Return the label of each row.

        The label of a row depends on this row alone. If a limit on ``rates.deferred()`` lets the rule defer
        rows, `defers` tells which. `predict` gives them ``deferred`` or, with a warning, the label that would
        be answered; a certified rule on scores, and a rule of a file, answers "human review". Limits and
        certificates count these rows as deferred, not with this label.

        Parameters
        ----------
        X : array-like of shape (n, d)
            Rows, as in `fit`, or a dict of the models' probabilities of the rows; models without weight (see
            ``used_models_``) may be left out. Of `Scores` a table with their columns, or the single column.
        groups : array-like of shape (n,), or table, optional
            Group of each row, one of the groups in `fit`; needed with ``by_group`` alone, unless the table of
            `Scores` has the column.
        deferred : str or number, optional
            Value for deferred rows, as "human review"; none of the labels.
        default : label, "human review" or None, optional
            Answer to rows without a score or of an unknown group, which no limit and no certificate counts.
            Without it they are an error.

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
        X = self._rows_of(X)
        certificate = self.evidence_.certificate
        if certificate is not None:
            warn_of_other_groups(certificate.groups_named, X, groups)
        if default is not ...:
            return self._with_default(X, groups, deferred, default)
        labels, is_deferred = self._answers(X, groups)
        labels = self.classes_[labels]
        is_final = certificate is not None or isinstance(
            self.evidence_.selection, StoredSelection
        )
        is_label = HUMAN_REVIEW in self.classes_.tolist()
        if deferred is None and is_final and self._models.reads_scores and not is_label:
            deferred = HUMAN_REVIEW  # nobody selects another rule with these scores
        if deferred is None:
            n_deferred = np.count_nonzero(is_deferred)
            if n_deferred:
                counting = "The limits and rates of the rule count"
                if certificate is not None:
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

    def _with_default(self, X: Table, groups: Groups, deferred: Any, default: Any) -> Array:
        """Return answers with a default for rows without a score or of an unknown group."""
        if default not in (*self.classes_.tolist(), HUMAN_REVIEW, None):
            raise ValueError(
                f"default={default!r} is no answer of this rule: give one of "
                f"{self.classes_.tolist()}, {HUMAN_REVIEW!r} or None"
            )
        groups = group_columns(groups, "groups", X) or None
        is_answered = (self._places(X, groups, unknown=True) >= 0) & ~self._without_score(X)
        answers = np.full(len(is_answered), default, dtype=object)
        if is_answered.any():
            rows, of_rows = take(X, is_answered), take(groups, is_answered)
            answers[is_answered] = self.predict(rows, of_rows, deferred=deferred)
        return answers

    def defers(self, X: Table, *, groups: Groups = None) -> Mask:
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
        check_is_fitted(self)
        _, is_deferred = self._answers(self._rows_of(X), groups)
        return is_deferred

    def predict_log_proba(self, X: Table) -> Floats:
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

    def predict_proba(self, X: Table) -> Floats:
        """Return P(y | x): that of a single model of two labels, or the average of models on the log scale.

        The weights of the models and an offset for each class minimise the log loss on the selection data,
        which the models were not fitted on. They do not depend on objective, limits or groups. `predict`
        applies the decision rule: its label need not be the most likely one. Of a single model of two labels
        the rule is a threshold on these probabilities, which are the model's own.

        Parameters
        ----------
        X : array-like of shape (n, d)
            The rows, as in `fit`, or a dict of the models' probabilities of the rows.

        Returns
        -------
        ndarray of shape (n, K)
            Columns in the order of ``classes_``; rows sum to 1.
        """
        check_is_fitted(self)
        models, table = self._read(X)
        return np.concatenate(
            [models.transform(rows).probabilities for _, rows in batched(table)]
        )

    def score(
        self, X: Table, y: Column, sample_weight: Column = None, *, groups: Groups = None
    ) -> float:
        """Return the accuracy of `predict`.

        Parameters
        ----------
        X : array-like of shape (n, d)
            As in `predict`.
        y : array-like of shape (n,)
            Labels.
        sample_weight : array-like of shape (n,), optional
            Weights of the rows.
        groups : array-like of shape (n,), optional
            As in `predict`. With scikit-learn's metadata routing,
            ``set_score_request(groups=True)`` has cross-validation pass them.

        Returns
        -------
        float
            From 0 to 1.
        """
        answers = self.predict(X, groups=groups)
        return float(accuracy_score(y, answers, sample_weight=sample_weight))

    # -- the rule and its rates ------------------------------------------------------------------------

    @property
    def rule_(self) -> Rule | ThresholdRule:
        """The decision rule: thresholds on one score or P(second class), otherwise costs on probabilities."""
        check_is_fitted(self)
        return self.evidence_.selected.written

    @property
    def estimators_(self) -> list[Model]:
        """The fitted models, on class numbers, in the order of `estimators`."""
        check_is_fitted(self)
        return self._models.fitted

    @property
    def groups_(self) -> Array:
        """Names of the groups of the fit; empty without groups."""
        return self._group_names.names

    @property
    def _models(self) -> Models:
        return self.evidence_.selection.models

    @property
    def scores_(self) -> Scores | None:
        """The columns of scores, if the rule reads these alone; None for models, and for several `Scores`."""
        models = self._models
        return (
            models.fitted[0].estimator
            if models.reads_scores and len(models.fitted) == 1
            else None
        )

    @property
    def named_estimators_(self) -> Bunch:
        """The fitted models by name."""
        names = self._models.names
        return Bunch(**dict(zip(names, self.estimators_, strict=False)))

    @property
    def used_models_(self) -> list[str]:
        """Names of the models in the rule."""
        check_is_fitted(self)
        return [self._models.names[i] for i in self._models.used]

    @property
    def objective_(self) -> Statistic:
        """The minimised rate."""
        return self.evidence_.selected.problem.objective

    @property
    def gap_(self) -> float:
        """By how much a mixture of the candidates could lower the objective, on the selection data."""
        return self.selection_.gap

    # -- the evidence ----------------------------------------------------------------------------------

    @property
    def selection_(self) -> Selection:
        """The selected rule among its candidates, with its rates on the selection data.

        Raise ValueError for a rule of a file, which has none.
        """
        check_is_fitted(self)
        selection = self.evidence_.selection
        if isinstance(selection, StoredSelection):
            raise ValueError(
                "this rule was read from a file, without its selection data: select again, "
                "as by reweight(X, y) with rows that no model was fitted on"
            )
        assert isinstance(selection, Selection)
        return selection

    @property
    def certificate_(self) -> Certificate | None:
        """The certificate of `tailboost.calibrate` for this rule; None without one.

        Raise ValueError if a fitted model was changed after the selection, as by a fit of its own.
        """
        check_is_fitted(self)
        self.evidence_.refuse_changed()
        certificate = self.evidence_.certificate
        return certificate and replace(certificate, model=self)

    @property
    def records_(self) -> Records:
        """The rows that the classifier has read, by their use, and the attempts to calibrate it."""
        return self.evidence_.records

    # -- the rows of the fit ---------------------------------------------------------------------------

    @property
    def ledger_(self) -> Ledger:
        """The attempts to calibrate this fit."""
        return self.records_.ledger

    def seen_share(self, X: Table) -> float:
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
        rows, trained = Seen.of(self._row_hashes(X)), self.records_.trained
        return float("nan") if trained is None else rows.share_in(trained)

    # -- errors on the selection data ------------------------------------------------------------------

    @property
    def rates_(self) -> RateTable:
        """The rates of the objective and of the limits by subgroup, on the selection data."""
        selection = self.selection_
        if self.evidence_.certificate is None:
            return selection.estimates
        return selection.stated_within(selection.problem.limits).estimates

    @property
    def limits_met_(self) -> bool | None:
        """Whether all limits are certified, or without a certificate kept on the selection data.

        It is about `predict`, and None without limits.
        """
        certificate = self.certificate_
        if certificate is not None:
            return certificate.certified
        program = self.selection_.program
        is_limited = (program.limit_of_row >= 0).any()
        return program.keeps(self.selection_.counts) if is_limited else None

    @property
    def subgroup_errors_(self) -> dict[Any, float]:
        """Error of `predict` on each class, group or cell, on the selection data; NaN without rows."""
        return {line.subgroup: line.value for line in self.selection_.errors}

    @property
    def subgroup_intervals_(self) -> Floats:
        """95 % intervals for the errors of `predict` on new rows, shape (m, 2); NaN without an interval."""
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
        check_is_fitted(self, "evidence_")  # `InfeasibleLimitsError.unselected` has one
        X, y = unpack(X, y)
        if (X is None) != (y is None):
            raise ValueError("reweight needs both X and y, or neither")
        if X is None and not (sample_weight is costs is None):
            raise ValueError("sample_weight and costs belong to rows: give X and y too")
        new = copy.copy(self)
        restated = {"objective": objective, "limits": limits, "error_budget": error_budget}
        for name, value in restated.items():
            if value is not None:
                setattr(new, name, value)
        new._validate_params()
        engine, records = new._engine, new.records_
        models, rows = new._models, engine.models.rows
        if X is None and groups is None:
            problem = new._problem(rows.groups)
            new.evidence_ = new.evidence_.by(engine.on(problem).select(problem))
            new.selection_.warn()
            return new
        given = Rows.read(X, y, groups, sample_weight, costs)
        problem = new._problem(given.groups)
        if problem.needs_costs and costs is None:
            raise ValueError(
                "costs of the rows are not kept with the model: give X, y and costs"
            )
        if X is None:
            if len(given) != rows.n_given:
                raise ValueError(
                    f"groups has {len(given)} entries, but the selection data are "
                    f"{rows.words}, from a table of {rows.n_given} rows: give one group for "
                    "each of these rows"
                )
            is_used = np.isin(np.arange(len(given)), rows.places)
            of_rows = given.part(is_used).occurring()
            new._name_groups(of_rows)
            rows = replace(rows, groups=of_rows.groups)
            models = replace(models, rows=rows)
        else:
            if groups is not None:
                new._name_groups(given)
            seen = [*filter(None, [new.records_.trained])]
            seen += [
                rows for each in known_within(models.fitted) for rows in each.records.tables
            ]
            models, table = new._read(given.X)
            words = f"the {len(given):,} rows given to reweight"
            rows = replace(given, X=table).numbered(new.classes_, new._group_names, words)
            models, used = compared(answering(models, rows), rows, seen)
            records = records.using(used)  # `certify` refuses them from now on
        new._select(problem, models, rows, records, new.evidence_.identity)
        new.selection_.warn()
        return new

    def tradeoff(self, a: Stated = None, b: Stated = None, *, n_points: int = 9) -> Curve:
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
        limited, problem = traded(self.selection_.problem, a, b)
        others = problem.limits
        loosest = copy.copy(self)
        loosest.objective = problem.objective
        loosest.limits = [*others, limited.within(limited.most)]
        if error() in (limited.rate, *problem.rates):  # which an error budget limits too
            loosest.error_budget = None
        problem = loosest._problem(self._models.rows.groups)
        engine = self.selection_.engine.on(problem)
        points = [
            (rate, value, loosest._answering(each))
            for rate, value, each in points_along(
                engine, problem.within(others), limited, n_points
            )
        ]
        return Curve(
            tuple(points),
            limited,
            problem.objective,
            ", within ".join([engine.words, *map(str, others)]),
            bound_of(self.selection_.problem, limited),
            loosest,
        )

    @property
    def _engine(self) -> Engine:
        """The candidates on the selection data; of models without a rule too."""
        selection = self.evidence_.selection
        return selection if isinstance(selection, Engine) else self.selection_.engine

    def _answering(self, selection: Selection) -> Self:
        """Return a copy with another selection of the same candidates, and the limits that it states."""
        new = copy.copy(self)
        new.limits = list(selection.problem.limits)
        new.evidence_ = self.evidence_.by(selection)
        return new

    def _certified(
        self, selection: Selection, limits: Sequence[Limit], certificate: Certificate
    ) -> Self:
        """Return a copy with a certified selection, which may be of tighter limits than the stated ones."""
        new = self._answering(selection)
        new.limits = list(limits)
        evidence = new.evidence_.using(*(each.rows for each in certificate.attempts))
        new.evidence_ = replace(evidence, certificate=certificate)
        return new

    def _select(
        self, problem: Problem, models: Models, rows: Rows, records: Records, identity: Identity
    ) -> None:
        """Select the rule: only this step makes a fitted classifier.

        An error for contradicting limits keeps the models.

        Parameters
        ----------
        problem : Problem
            The objective within limits.
        models : Models
            The models with their log-probabilities on the selection data.
        rows : Rows
            The selection data: with features, from which a group may be estimated, and costs of answers.
        records : Records
            The used rows.
        identity : Identity
            That of the fitted models.
        """
        if self.infer_groups and models.reads_scores:
            raise ValueError(
                "infer_groups=True: scores have no other columns from which a group could be "
                "estimated; give the model and its features, or leave infer_groups out"
            )
        column = self._column_read
        may_infer = column is None and not models.reads_scores
        X = None if models.of_scores else rows.X
        kept = (self.classes_, self._group_names, column, may_infer)
        engine = Engine(problem, models, *kept, X, rows.costs)
        self.evidence_ = Evidence(engine, records, identity=identity)
        try:
            self.evidence_ = self.evidence_.by(engine.select(problem))
        except InfeasibleLimitsError as failure:
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
        self.group_combinations_ = ()
        if len(names.titles) > 1:
            columns = zip(names.values, np.unique(rows.groups, axis=0).T, strict=True)
            occurring = [values[numbers].tolist() for values, numbers in columns]
            self.group_combinations_ = tuple(zip(*occurring, strict=True))
        titles = list(names.titles)
        read = [title for title in titles if self.by_group in (True, title)]
        if self.by_group and len(read) != 1:
            choices = " or ".join(f"by_group={title or True!r}" for title in titles)
            raise ValueError(
                f"by_group={self.by_group!r} names no single one of the columns of groups: give "
                f"{choices}"
            )
        self._column_read = titles.index(*read) if self.by_group else None

    # -- answers of the models -------------------------------------------------------------------------

    def _read(self, X: Table) -> tuple[Models, Table]:
        """Return the models, and a table as they read it: in the form of the fit.

        Given probabilities of the models become an array of shape (n, M, K).
        """
        models = self._models
        if self._models.reads_scores:  # each of its own column
            return models, X
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

    def _rows_of(self, X: Table) -> Table:
        """Return rows to answer: of a rule on scores also one row as a dict, or the single column alone."""
        X, _ = unpack(X)
        if not self._models.reads_scores:
            return X
        if has_named_columns(X):
            return {name: np.atleast_1d(column) for name, column in X.items()}
        if columns_of(X) or self.scores_ is None or np.shape(X)[1:] not in ((), (1,)):
            return X
        return dict.fromkeys(self.scores_.column_list, np.ravel(X))

    def _groups_of(self, X: Table, groups: Groups) -> Groups:
        """Return the columns of groups; of scores by default those of the table."""
        columns = group_columns(groups, "groups", X)
        if not self._models.reads_scores:
            return columns
        if not columns:
            columns = {
                name: X[name] for name in self._group_names.titles if name in columns_of(X)
            }
        return with_missing_group(columns, list(chain(*self._group_names.values)))

    def _places(self, X: Table, groups: Groups, *, unknown: bool = False) -> Ints:
        """Return the number of each row's group, 0 for a group-blind rule.

        Raises
        ------
        ValueError
            If ``by_group`` was changed after the selection, or groups are missing, unknown or not used.
        """
        values, title = self.evidence_.selected.groups_read
        if bool(self.by_group) != (values is not None):
            raise ValueError(
                f"by_group={self.by_group!r} was set after the selection of the rule: tune "
                "again"
            )
        columns = group_columns(groups, "groups", X)
        if values is not None:
            columns = self._groups_of(X, columns)
        return group_numbers(columns, values, n_rows_of(X), title, unknown=unknown)

    def _answers(self, X: Table, groups: Groups) -> tuple[Ints, Mask]:
        """Return the number of each row's label, and which rows are deferred."""
        numbers = self._places(X, groups)
        models, table = self._read(X)
        found = [
            self.evidence_.selected.answers(models.transform(rows, numbers[place]))
            for place, rows in batched(table)
        ]
        labels, deferred = map(np.concatenate, zip(*found, strict=True))
        return labels, deferred

    # -- what other parts of the library read ----------------------------------------------------------

    def __tailboost__(self) -> Decided:
        """Return the rule with the models that make its scores, and all rows that are known to them."""
        check_is_fitted(self)
        self.evidence_.refuse_changed()
        selection = self.evidence_.selected
        made_by: Sequence[object] = selection.models.logs
        if self._models.reads_scores:
            scores = [model.estimator for model in selection.models.fitted]
            made_by = [[s.column_list, s.label_list, s.kind, s.missing] for s in scores]
        names = self._group_names
        each = zip(names.titles, (values.tolist() for values in names.values), strict=True)
        rule = Decision(
            selection.written,
            selection.defers,
            self.by_group,
            dict(each),
            self.group_combinations_,
            made_by,
        )
        return Decided(
            self.classes_,
            rule,
            selection.problem.limits,
            (
                Known(self.records_, score_labels=self._models.score_labels),
                *known_within(selection.models.fitted),
            ),
            self._scored,
            self.evidence_.certificate,
            partial(Identity, "", self.evidence_.identity.unknown),
        )

    def _scored(self, X: Table, groups: Groups = None) -> Scored:
        """Return rows with the models' log-probabilities, computed once for all rules."""
        X, _ = unpack(X)
        groups = self._groups_of(X, groups) or None
        selection = self.evidence_.selected

        def outputs() -> LogProbabilities:
            places = self._places(X, groups if self.by_group else None)
            models, table = self._read(X)
            return models.transform(table, places)

        def answer(opened: LogProbabilities) -> Ints:
            labels, is_deferred = selection.answers(opened)
            return np.where(is_deferred, len(self.classes_), labels)

        hashes, lacks = partial(self._row_hashes, X), partial(self._without_score, X)
        return Scored(groups, hashes, answer, outputs, lacks)

    def _without_score(self, X: Table) -> Mask:
        """Return which rows lack a score that the rule reads; given probabilities are no scores."""
        lacking = np.zeros(n_rows_of(X), dtype=np.bool_)
        if not has_named_columns(X) or self._models.reads_scores:
            for model in self._models.fitted:
                if isinstance(model, FrozenEstimator) and isinstance(model.estimator, Scores):
                    lacking |= model.estimator.without_score(X)
        return lacking

    def _row_hashes(self, X: Table) -> Hashes:
        """Return the hashes of rows: of the scores that the rule reads, or features."""
        models, table = self._read(X)
        return models.row_hashes(table)

    # -- rules of files --------------------------------------------------------------------------------

    @classmethod
    def _of_file(
        cls,
        rule: ThresholdRule | Rule,
        scores: Scores,
        names: GroupNames,
        records: Records,
        certificate: Certificate | None,
        **params: Any,
    ) -> Self:
        """Return the classifier of a rule on columns of scores, without selection data."""
        new = cls([(str(scores.columns), scores)], **params)
        new.classes_ = np.asarray(rule.classes)
        new._group_names = names
        scores = scores.known(rule.classes)
        name, weight = str(scores.columns), 1.0
        offset = np.zeros(len(rule.classes))
        if isinstance(rule, Rule):
            ((name, weight),) = rule.weights.items()
            offset = np.array(rule.offsets)
        columns = positions(scores.classes_, new.classes_, "labels")
        fitted = [FrozenEstimator(scores)]
        models = Models([name], len(offset), fitted, [columns], np.array([weight]), offset)
        groups_read = rule.groups, new.by_group or None
        selection = StoredSelection(rule, models, stated(new), groups_read)
        if certificate is not None:
            certificate = replace(certificate, columns=names.titles)
        new.evidence_ = Evidence(selection, records, certificate)
        return new

    # -- scikit-learn ----------------------------------------------------------------------------------

    def __sklearn_is_fitted__(self) -> bool:
        evidence = vars(self).get("evidence_")
        return evidence is not None and not isinstance(evidence.selection, Engine)


def tune(
    models: Model,
    X: Table,
    y: Column,
    *,
    groups: Groups = None,
    costs: Table = None,
    objective: Stated = None,
    limits: Stated = (),
    error_budget: float | None = None,
    by_group: bool | str = False,
    infer_groups: bool = False,
    sample_weight: Column = None,
    training_rows: Table = None,
) -> TunedClassifier:
    """Select a decision rule for fitted models, for an objective within limits; no model is trained.

    Parameters
    ----------
    models : model, list or dict
        A fitted classifier, an object with ``predict_proba``, a function of the table that returns class
        probabilities, or `tailboost.Scores`, columns with the scores of an absent model. Several
        models come as a list, or as a dict by name.
    X : array-like, sparse matrix or data frame of shape (n, d)
        Selection data: rows without a part in training.
    y : array-like of shape (n,)
        Their labels.
    groups, costs, sample_weight : optional
        Of these rows, as in `RobustMixtureClassifier.fit`.
    training_rows : array-like, sparse matrix or data frame of shape (k, d), optional
        The rows on which the models were trained, without labels, or fingerprints (``records_.trained``) of a
        classifier. Selection data among them get a warning and no intervals. `certify` and `calibrate` refuse
        them, as those of a classifier of tailboost. Only fingerprints are stored.
    objective, limits, error_budget, by_group, infer_groups : optional
        As in `RobustMixtureClassifier`. Limits may be text: ``["miss(1) <= 40%"]``.

    Returns
    -------
    TunedClassifier
        Fitted, with the rates in ``rates_`` and the rule in ``rule_``.

    Raises
    ------
    ValueError, TypeError
        If an argument is not as described, or limits contradict each other.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.linear_model import LogisticRegression
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import StandardScaler
    >>> import tailboost as tb
    >>> from tailboost import rates
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> model = make_pipeline(StandardScaler(), LogisticRegression()).fit(X[:300], y[:300])
    >>> clf = tb.tune(model, X[300:], y[300:], limits=[rates.miss(0) <= 0.1])
    >>> clf.limits_met_
    True
    """
    if isinstance(limits, (Mapping, Real)):
        raise TypeError(
            "tune: limits must be a list, such as limits=['miss(1) <= 40%'] or [rates.miss(1) "
            f"<= 0.4], got {limits!r}"
        )
    classifier = TunedClassifier(
        named_models(models),
        objective=objective,
        limits=limits,
        error_budget=error_budget,
        by_group=by_group,
        infer_groups=infer_groups,
    )
    of_rows = {"sample_weight": sample_weight, "groups": groups, "costs": costs}
    return classifier.fit(X, y, **of_rows, training_rows=training_rows)


#: The name in files of the version before.
RuleClassifier = TunedClassifier


def batched(X: Table) -> Iterator[tuple[Ints, Table]]:
    """Yield a table in batches, each with its row numbers; a table with few rows, or none, is one batch."""
    numbers = np.arange(n_rows_of(X))
    if len(numbers) <= ROWS_OF_BATCH:
        yield numbers, X
        return
    for start in range(0, len(numbers), ROWS_OF_BATCH):
        rows = numbers[start : start + ROWS_OF_BATCH]
        yield rows, take(X, rows)
