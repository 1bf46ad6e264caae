"""A classifier with a selected rule: what it says of it, how it answers rows, and how others read both."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import cache, partial
from html import escape
from typing import Any

import numpy as np
from sklearn.exceptions import NotFittedError
from sklearn.utils import Bunch, estimator_html_repr, gen_batches
from sklearn.utils.validation import check_is_fitted

from tailboost.classifiers.evidence import ChangedError, Evidence
from tailboost.classifiers.tables import Columns
from tailboost.core import (
    Array,
    Column,
    DeferredRowsWarning,
    Floats,
    Groups,
    Ints,
    Mask,
    Model,
    Table,
    columns_of,
    label_column,
    listed,
    n_rows_of,
    one_row,
    take,
    unpack,
    warn_user,
)
from tailboost.guarantees.certificates import Certificate
from tailboost.learners.base import check_table, checked_rows, titles_of
from tailboost.learners.scores import OfAnyTable, Scores
from tailboost.rates import Statistic, error
from tailboost.rows import (
    HUMAN_REVIEW,
    MISSING_GROUP,
    Ledger,
    Records,
    Rows,
    group_columns,
    group_numbers,
    known_groups,
    stacked,
    warn_of_other_groups,
)
from tailboost.selection.door import Decided, Decision, Known, Scored, known_within
from tailboost.selection.identity import Identity
from tailboost.selection.outputs import Models, Outputs
from tailboost.selection.rule import Rule, ThresholdRule
from tailboost.selection.selection import Selection, StoredSelection
from tailboost.selection.stored_rule import check_default
from tailboost.selection.table import RateTable

# Maximum number of rows in a batch of a prediction, which limits memory.
ROWS_OF_BATCH = 65_536


class AnsweringClassifier(OfAnyTable):
    """A classifier with a selected rule.

    All that it says and answers follows from its evidence, a value that a fit sets once, and from the columns
    of X. No parameter is read here: one that is set after a fit counts in the next fit.
    """

    evidence_: Evidence
    _columns: Columns | None = None  # of a data frame, where a fit trains models
    #: Whether a fit trains models: then these read numbers and categories in checked tables.
    _trains = False

    def __sklearn_is_fitted__(self) -> bool:
        evidence = vars(self).get("evidence_")
        return evidence is not None and evidence.selection is not None

    # -- the evidence: a Selection, or a StoredSelection of a file; neither if no rule keeps the limits -----

    @property
    def _selected(self) -> Selection | StoredSelection:
        """The selection or that of a file; NotFittedError without a rule."""
        check_is_fitted(self)
        selection = self.evidence_.selection
        assert selection  # as `__sklearn_is_fitted__` says
        return selection

    @property
    def selection_(self) -> Selection:
        """The selected rule among its candidates, with its rates on the selection data.

        Raise NotFittedError for a rule of a file, which has none.
        """
        selection = self._selected
        if isinstance(selection, StoredSelection):
            raise NotFittedError(
                "this rule was read from a file, without its selection data: select again, "
                "as by reweight(X, y) with rows that no model was fitted on"
            )
        return selection

    @property
    def _evidence(self) -> Evidence:
        """The evidence, also without a rule; NotFittedError before a fit."""
        check_is_fitted(self, "evidence_")
        return self.evidence_

    @property
    def classes_(self) -> Array:
        """The labels."""
        return self._evidence.models.rows.classes

    @property
    def validation_(self) -> str | float:
        """The selection data: "cv", a fraction or another word, see `RobustMixtureClassifier`."""
        return self._evidence.validation

    @property
    def certificate_(self) -> Certificate | None:
        """The certificate of `tailboost.calibrate` for this rule; None without one.

        Raise `ChangedError` if it or a fitted model was changed after the selection, as by a fit of its own.
        """
        check_is_fitted(self)
        self.evidence_.refuse_changed()
        return self.evidence_.certificate

    @property
    def records_(self) -> Records:
        """The rows that the classifier has read, by their use, and the attempts to calibrate it."""
        return self._evidence.records

    @property
    def ledger_(self) -> Ledger:
        """The attempts to calibrate this fit."""
        return self.records_.ledger

    # -- the rule and its rates ------------------------------------------------------------------------

    @property
    def rule_(self) -> Rule | ThresholdRule:
        """The decision rule: thresholds on one score or P(second class), otherwise costs on probabilities."""
        return self._selected.written

    @property
    def estimators_(self) -> list[Model]:
        """The fitted models in the given order; those that a fit trains know class numbers."""
        return self._selected.models.fitted

    @property
    def groups_(self) -> Array:
        """Names of the groups of the fit; empty without groups."""
        return self._evidence.models.rows.names.names

    @property
    def scores_(self) -> Scores | None:
        """The columns of scores, if the rule reads these alone; None for models, and for several `Scores`."""
        columns = self._evidence.models.columns_read
        if len(columns) == 1:
            return columns[0]
        return None

    @property
    def named_estimators_(self) -> Bunch:
        """The fitted models by name."""
        return Bunch(**dict(zip(self._evidence.models.names, self.estimators_, strict=False)))

    @property
    def used_models_(self) -> list[str]:
        """Names of the models in the rule."""
        models = self._selected.models
        return [models.names[i] for i in models.used]

    @property
    def objective_(self) -> Statistic:
        """The minimised rate."""
        return self._selected.problem.objective

    # -- errors on the selection data ------------------------------------------------------------------

    @property
    def rates_(self) -> RateTable:
        """The rates of the objective and of the limits by subgroup, on the selection data."""
        return self.selection_.estimates

    @property
    def limits_met_(self) -> bool | None:
        """Whether all limits are certified, or without a certificate kept on the selection data.

        None without limits.
        """
        certificate = self.certificate_
        if certificate:
            return certificate.certified
        selection = self.selection_
        if not selection.limits:
            return None
        return selection.charges.keeps(selection.counts)

    @property
    def subgroup_errors_(self) -> dict[Any, float]:
        """Error of the rule on each class, group or cell, on the selection data; NaN without rows.

        The subgroups are those of the objective or, if it has none, of the first limit with some, and
        otherwise the classes. A deferred row is no error.
        """
        selection = self.selection_
        kinds = (rate.by for rate in selection.problem.rates if rate.by is not None)
        rate = error(by=next(kinds, "class"))
        return {line.subgroup: line.value for line in selection.rates([rate])}

    # -- in print ---------------------------------------------------------------------------------------

    def _html_repr(self) -> str:
        """Return the text of a fitted classifier, and scikit-learn's diagram."""
        text = f"<pre>{escape(str(self))}</pre>" if self.__sklearn_is_fitted__() else ""
        return text + estimator_html_repr(self)

    def __str__(self) -> str:
        """Return limits with their verdict, the overall error and the rule of a fitted classifier.

        They are certified if the rule has a certificate, otherwise measured on the selection data. If a
        fitted model was changed after the selection, the text says this alone.
        """
        if not self.__sklearn_is_fitted__():
            return repr(self)
        try:
            certificate = self.certificate_
        except ChangedError as failure:
            return f"{type(self).__name__}: {failure}"
        selection = self._selected
        if certificate:
            source = certificate.title
            limits = certificate.limit_lines()
            errors = certificate.lines()[:1]
        elif isinstance(selection, StoredSelection):
            source = "of a file, without a certificate"
            limits = []
            errors = [f"limits as stated: {list(selection.problem.limits)}"]
        else:
            source = f"measured on {selection.estimates.words.partition(' (')[0]}"
            limits = selection.estimates.limit_lines()
            *_, overall = selection.rates([*selection.problem.limits, error()])
            errors = [overall.texts[2]]  # its numbers; in percent, if a limit beside it is
        lines = [f"{type(self).__name__} of {', '.join(self.used_models_)}, {source}"]
        lines += [
            f"limit  {kept.name} {kept.limit}  {kept.verdict} ({kept.numbers})"
            for kept in limits
        ]
        lines += [f"error  {line.strip()}" for line in errors]
        lines += [f"rule   {line.strip()}" for line in str(self.rule_).splitlines()]
        return "\n".join(lines)

    # -- answers ---------------------------------------------------------------------------------------

    def predict(
        self, X: Table, groups: Groups = None, *, deferred: Any = None, default: Any = ...
    ) -> Array:
        """Return the label of each row.

        The label of a row depends on this row alone. If a limit on ``rates.deferred()`` lets the rule defer
        rows, `defers` tells which. `predict` gives them ``deferred`` or, with a warning, the label that would
        be answered; a certified rule on scores, and a rule of a file, answers "human review". Limits and
        certificates count these rows as deferred, not with this label.

        Fitted models answer as they are now. Whether they were changed after the selection, as by a fit of
        one of ``estimators_``, is compared by ``certificate_``, `tailboost.certify` and the monitor, which
        then raise `ChangedError`: a comparison may take longer than the answers.

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
            Labels, as in ``classes_``; of dtype object with ``default`` or a ``deferred`` of another kind.

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
        X = self._as_table(X)
        certificate = self.evidence_.certificate
        if certificate:
            warn_of_other_groups(certificate.groups_named, X, groups)
        classes = self.classes_.tolist()
        check_default(default, classes)
        if deferred is not None and (not np.isscalar(deferred) or deferred in classes):
            raise ValueError(f"deferred={deferred!r} must be one value, and no label")
        places = self._group_numbers(X, groups, others=default is not ...)
        if default is ...:
            return self._labels(self._label_numbers(X, places), deferred)
        models, table = self._read(X)
        is_answered = (places >= 0) & ~models.without_score(table)
        answers = np.full(len(is_answered), default, object)
        if is_answered.any():
            numbers = self._label_numbers(take(X, is_answered), places[is_answered])
            answers[is_answered] = self._labels(numbers, deferred)
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
        X = self._as_table(X)
        return self._label_numbers(X, self._group_numbers(X, groups)) >= len(self.classes_)

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
        X = self._as_table(X)
        outputs = self._outputs(X, np.zeros(n_rows_of(X), np.intp))  # which read no groups
        return np.concatenate([each.probabilities for each in outputs])

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
        given = Rows.read(X, y, groups, sample_weight)
        label_column([*given.classes.tolist(), *self.classes_.tolist()], "y")  # of one kind
        is_right = self.predict(given.X, groups=given.columns) == given.labels
        return float(np.average(is_right, weights=given.weight))

    # -- how rows are read and answered -----------------------------------------------------------------
    #
    #     _as_table        rows as given               a table
    #     _read            the table                   the models, and the table as they read it
    #     _group_numbers   groups as given             the number of each row's group
    #     _outputs         table, numbers of groups    the models' log-probabilities, by batch
    #     _label_numbers   table, numbers of groups    numbers of labels, K more for a deferred row
    #     _labels          numbers of labels           labels, or the value of deferred rows

    def _as_table(self, X: Table) -> Table:
        """Return rows to answer as a table; for a rule on scores also one row as a dict, or the column alone.

        Raise NotFittedError without a rule.
        """
        models = self._selected.models
        X, _ = unpack(X)
        columns: list[Any] = []
        for scores in models.columns_read:
            columns += scores.column_list
        if not columns:
            return X
        X = one_row(X, columns[0])
        if isinstance(X, Mapping):
            return {name: np.atleast_1d(column) for name, column in X.items()}
        is_column = np.shape(X)[1:] in ((), (1,))
        if columns_of(X) or not is_column or len(columns) > 1:
            return X
        return {columns[0]: np.ravel(X)}

    def _read(self, X: Table) -> tuple[Models, Table]:
        """Return the models, and a table as they read it: in the form of the fit.

        Given probabilities of the models become an array of shape (n, M, K).
        """
        models = self._evidence.models
        if models.columns_read:  # each of its own column
            return models, X
        if isinstance(X, Mapping):
            return replace(models, read_stacked=True), stacked(X, self.classes_, models.names)
        if not models.fitted:
            raise AttributeError(
                "this classifier is made from_probabilities and has no models: give a dict of "
                "their probabilities of the new rows"
            )
        return replace(models, read_stacked=False), self._checked(X)

    def _checked(self, X: Table, argument: str = "X", *, reset: bool = False) -> Table:
        """Return a table as the models read it; with ``reset`` its columns become those of the fit.

        A classifier that trains no model gives its models the rows as they are, of a data frame with the
        columns in the order of the fit. ``argument`` is the name of the table in messages.
        """
        if isinstance(X, Mapping):
            raise TypeError(
                f"{argument} is a dict: give a data frame, pd.DataFrame({argument})"
            )
        is_frame = bool(columns_of(X))
        names = titles_of(self)
        try:
            if is_frame or (names and hasattr(X, "iloc")):
                check_table(X)
            elif names and np.ndim(X) < 2:
                raise ValueError(f"got {type(X).__name__}")  # the handler begins the message
            X = checked_rows(self, X, reset=reset, as_it_is=not self._trains)
        except ValueError as failure:
            if names:
                argument += (
                    f" must be a pd.DataFrame with the columns {listed(names)} of the fit"
                )
            elif argument == "X":  # as scikit-learn's message begins
                raise
            raise ValueError(f"{argument}: {failure}") from failure
        if is_frame and reset and self._trains:
            self._columns = Columns.of(X)
        if is_frame and self._columns:
            return self._columns.read(X)
        return X

    def _groups_of(self, X: Table, groups: Groups) -> Groups:
        """Return the columns of groups; of a rule on scores by default those of the table.

        There a row without a group is of the group "missing", if the selection data had such rows.
        """
        columns = group_columns(groups, "groups", X)
        models = self._evidence.models
        if not models.columns_read:
            return columns
        names = models.rows.names
        if not columns:
            named = columns_of(X)
            own = {title: X[title] for title in names.titles if title in named}
            columns = group_columns(own, "groups")
        known = [name for values in names.values for name in values]
        if MISSING_GROUP not in known:
            return columns
        return {title: known_groups(column, known)[0] for title, column in columns.items()}

    def _group_numbers(self, X: Table, groups: Groups, *, others: bool = False) -> Ints:
        """Return the number of each row's group, 0 for a group-blind rule.

        Rows of unknown groups have the number −1 with ``others``, and are an error without. So are missing
        groups, and groups that are not used.
        """
        values, title = self._selected.groups_read
        columns = self._groups_of(X, groups) if values else group_columns(groups, "groups", X)
        return group_numbers(columns, values, n_rows_of(X), title, others=others)

    def _outputs(self, X: Table, places: Ints) -> Iterator[Outputs]:
        """Yield the outputs of the models on batches of rows, which limit memory; no row is one batch.

        ``places`` are the numbers of the rows' groups, shape (n,), as the rule reads them.
        """
        models, table = self._read(X)
        n = len(places)
        for batch in gen_batches(max(n, 1), ROWS_OF_BATCH):
            part = table if n <= ROWS_OF_BATCH else take(table, np.arange(n)[batch])
            yield models.outputs(part, places[batch])

    def _label_numbers(self, X: Table, places: Ints) -> Ints:
        """Return the number of each row's label, K more for a deferred row."""
        return np.concatenate([*map(self._selected.label_numbers, self._outputs(X, places))])

    def _labels(self, numbers: Ints, deferred: Any) -> Array:
        """Return the labels with these numbers, and the value of deferred rows; without one warn of these."""
        K = len(self.classes_)
        is_deferred = numbers >= K
        labels = self.classes_[numbers % K]
        selected = self._selected
        is_final = self.evidence_.certificate or isinstance(selected, StoredSelection)
        if deferred is None and selected.defers and selected.models.columns_read and is_final:
            deferred = HUMAN_REVIEW  # as the SQL of the rule answers
        if deferred is None:
            n_deferred = is_deferred.sum()
            if n_deferred:
                warn_user(
                    f"predict: {n_deferred:,} of {len(is_deferred):,} rows are deferred. Its limits, rates "
                    "and certificate count them as deferred, not with the labels given here. "
                    "predict(X, deferred='human review') marks them; defers(X) tells which they are",
                    DeferredRowsWarning,
                )
            return labels
        mark = np.asarray(deferred)  # of its own width, which short labels may not have
        if mark.dtype.kind != labels.dtype.kind:
            labels = labels.astype(object)  # NumPy would turn numbers into text
        return np.where(is_deferred, mark, labels)

    # -- what other parts of the library read ----------------------------------------------------------

    def __tailboost__(self) -> Decided:
        """Return the rule with the models that make its scores, and all rows that are known to them."""
        selection = self._selected
        evidence = self.evidence_
        evidence.refuse_changed()
        models = selection.models
        names = models.rows.names
        groups_read, title = selection.groups_read
        return Decided(
            models.rows.classes,
            Decision(
                selection,
                selection.defers,
                by_group=title if isinstance(title, str) else groups_read is not None,
                groups=dict(
                    zip(names.titles, map(np.ndarray.tolist, names.values), strict=True)
                ),
                combinations=evidence.combinations,
            ),
            selection.problem.limits,
            known=(Known(evidence.records, models.score_labels), *known_within(models.fitted)),
            score=self._scored,
            certificate=evidence.certificate,
            # What may change without a refusal above: parts that no digest reads.
            identity=partial(Identity, unknown=evidence.identity.unknown),
        )

    def _scored(self, X: Table, groups: Groups = None) -> Scored:
        """Return rows with the models' log-probabilities, computed once for all rules."""
        X = self._as_table(X)
        groups = self._groups_of(X, groups) or None
        models, table = self._read(X)
        selected = self._selected
        groups_of_rule = None if selected.groups_read[0] is None else groups
        outputs = cache(lambda: models.outputs(table, self._group_numbers(X, groups_of_rule)))
        possible_answers = np.append(models.rows.classes.astype(object), HUMAN_REVIEW)
        content = cache(partial(models.row_hashes, table))
        # Whether these or the selecting rows are probabilities in place of features.
        is_stacked = models.read_stacked or selected.models.read_stacked
        return Scored(
            groups,
            content=content,
            given=content,
            voting=partial(models.row_hashes, table, as_stated=True),
            lacking=partial(models.without_score, table),
            answers=lambda: possible_answers.take(
                selected.label_numbers(outputs()), mode="clip"
            ),
            outputs=outputs,
            selected=selected,
            is_comparable=not (models.fitted and is_stacked),
        )
