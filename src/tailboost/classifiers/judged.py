"""The classifiers as other parts of the library read them: certificates, monitors, reports and files."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import NotFittedError
from sklearn.utils.validation import check_is_fitted

from tailboost.classifiers.robust_selection import (
    answer_by,
    answers_along,
    checked_rows,
    column_read,
    problem_of,
    tables_of,
)
from tailboost.core.array_types import Column, Floats, Groups, Table
from tailboost.core.checks import has_named_columns, label_vector
from tailboost.learners.scores import only_scores
from tailboost.rates import Limit, Rate, error
from tailboost.rows.fingerprints import RowHashes, digest
from tailboost.rows.judged import Recorded
from tailboost.rows.records import Records
from tailboost.rows.rows import Rows
from tailboost.rows.rules import refuse
from tailboost.selection.answers import OpenedRows, can_defer
from tailboost.selection.outputs import Models
from tailboost.selection.rate_table import RateTable
from tailboost.selection.rule import digest_of_rule
from tailboost.selection.selection import Selection


class JudgedModels(Recorded):
    """A `RobustMixtureClassifier`."""

    @property
    def knows_rows(self) -> bool:
        """True."""
        return True

    @property
    def takes_limits(self) -> bool:
        """True."""
        return True

    @property
    def stated_limits(self) -> tuple[Limit, ...]:
        """The limits on rates that the parameters state, also those of ``max_error``."""
        return problem_of(self.classifier).limits

    @property
    def can_defer(self) -> bool:
        """Whether the rule may defer rows."""
        check_is_fitted(self.classifier)
        return can_defer(self.classifier.ensemble_)

    @property
    def weighs_groups(self) -> bool:
        """Whether the rule weighs p(group | x, y), which is learned from the features."""
        ensemble = self.classifier.ensemble_
        used = np.flatnonzero(ensemble.weights > 0)
        return any(ensemble.base_models[m].weighs_groups for m in used)

    @property
    def reads_scores(self) -> bool:
        """Whether the rule reads scores alone, so that equal rows are different rows."""
        return only_scores(self.classifier.estimators_)

    @property
    def draws(self) -> bool:
        """Whether answers of the randomised rule are drawn."""
        return bool(self.classifier.ensemble_.draws)

    @property
    def rule_digest(self) -> str:
        """Digest of the rule, and of what its models are: columns of scores, or outputs on selection data."""
        rule = self.classifier.rule_
        engine = self.classifier.selection_.engine
        models = engine.outputs.models
        if only_scores(models.fitted) and not models.are_given:
            return digest_of_rule(rule, [model.estimator for model in models.fitted])
        outputs = [each.tobytes() for each in engine.known_outputs]
        return digest(digest_of_rule(rule).encode(), *outputs)

    @property
    def rule_html(self) -> str:
        """The decision rule as HTML; empty without one."""
        try:
            html: str = self.classifier.rule_._repr_html_()
        except NotFittedError:
            return ""
        return html

    @property
    def counts_on_selection(self) -> Floats:
        """The confusion counts of the rule on the selection data."""
        counts: Floats = self.classifier.selection_.counts
        return counts

    @property
    def errors_table(self) -> RateTable:
        """The error of `predict` on each subgroup, on the selection data."""
        table: RateTable = self.classifier.selection_.rule.errors
        return table

    def measured(self, *stated: Rate | Limit) -> RateTable:
        """Return rates on the selection data, by subgroup and with intervals."""
        table: RateTable = self.classifier.selection_.rule.rates(stated)
        return table

    def selection_within(self, limits: Sequence[Limit]) -> Selection:
        """Return the selection of the stated objective within other limits, without a confidence.

        Without a stated objective it is the overall error.
        """
        new = copy.copy(self.classifier)
        new.limits = list(limits)
        new.max_error = None
        new.confidence = None
        selection: Selection = new.selection_.select(problem_of(new))
        return selection

    def answering(self, selection: Selection, limits: Sequence[Limit] = ()) -> Any:
        """Return the classifier that answers by another selection of the same candidates.

        Parameters
        ----------
        selection : Selection
            The selection.
        limits : sequence of Limit, optional
            The stated limits, instead of those of the classifier.
        """
        new = copy.copy(self.classifier)
        if limits:
            new.limits = list(limits)
            new.max_error = None
        answer_by(new, selection)
        return new

    def checked(self, X: Table) -> Any:
        """Return a table in the form of the fit."""
        return checked_rows(self.classifier, X)

    def opened(self, X: Table, groups: Groups = None) -> OpenedRows:
        """Return rows on which the models answer once; groups are read by a group-aware rule alone."""
        if not self.by_group:
            groups = None
        return OpenedRows(list(tables_of(self.classifier, X, groups)))

    def tested_values(self, opened: OpenedRows) -> Iterator[Floats]:
        """Return the values, of shape (n, ...) each, by which all candidates answer opened rows."""
        engine = self.classifier.selection_.engine
        return opened.values(engine.outputs.models, engine.probabilities)

    def row_hashes(self, X: Table) -> RowHashes:
        """Return the hashes by which rows are recognised, equal for all forms of the same rows.

        They are of the whole rows, and of what single models read: `Scores`, and given probabilities. A
        table and a dict of probabilities without a common score have no hash in common.
        """
        clf = self.classifier
        # `InfeasibleLimitsError.unselected` has candidates and no rule.
        if not hasattr(clf, "selection_"):
            check_is_fitted(clf)
        models = clf.selection_.engine.outputs.models
        table = self.checked(X)
        if not has_named_columns(X):
            return models.row_hashes(table)
        return Models.given(models.names, clf.classes_).row_hashes(table, X)

    def reading(self, X: Table, y: Column) -> Records:
        """Return the record of rows; rows of scores and probabilities are compared as whole tables."""
        fitted = self.classifier.selection_.engine.outputs.models.fitted
        features = not (has_named_columns(X) or only_scores(fitted))
        return Records().reading(self.row_hashes(X), label_vector(y), features=features)

    def example_groups(self, n_rows: int) -> Any:
        """Return groups in the form in which `predict` takes them, each group in turn.

        They are an array of shape (n_rows,), or a dict of one by the name of its column.

        Raises
        ------
        ValueError
            If the rule is group-blind.
        """
        if not self.by_group:
            refuse("blind rule", "groups")
        names = self.classifier._group_names.only(column_read(self.classifier))
        groups = np.resize(names.values[0], n_rows)
        if names.columns is None:
            return groups
        return {names.columns[0]: groups}

    def answers_of(
        self, classifiers: Sequence[Any], X: Table, groups: Groups
    ) -> list[tuple[Any, Any]]:
        """Return the predictions of the classifiers of a curve, and which rows they defer."""
        return answers_along(self.classifier, classifiers, X, groups)


class JudgedHypotheses(Recorded):
    """A boosting classifier with a mixture of hypotheses."""

    @property
    def knows_rows(self) -> bool:
        """True."""
        return True

    @property
    def draws(self) -> bool:
        """Whether answers of the randomised rule are drawn."""
        return bool(self.classifier.ensemble_.draws)

    @property
    def rule_digest(self) -> str:
        """Digest of the mixture weights, and of the candidates' outputs on the selection data."""
        ensemble = self.classifier.ensemble_
        labels = self.classifier.classes_.tolist()
        rule = (labels, ensemble.weights.tolist(), ensemble.tie_order.tolist())
        candidates = self.classifier.selection_.pool.judged
        return digest(repr(rule).encode(), *(each.packed.tobytes() for each in candidates))

    @property
    def rows_kept(self) -> Rows:
        """The selection data."""
        rows: Rows = self.classifier.selection_.pool.rows
        return rows

    @property
    def counts_on_selection(self) -> Floats:
        """The confusion counts of the rule on the selection data."""
        counts: Floats = self.classifier.selection_.predicted(self.classifier.ensemble_)
        return counts

    @property
    def errors_table(self) -> RateTable:
        """The error of `predict` on each subgroup, on the selection data."""
        clf = self.classifier
        table: RateTable = clf._errors(clf._selected.counts)
        return table

    def measured(self, *stated: Rate | Limit) -> RateTable:
        """Return rates on the selection data, by subgroup and with intervals."""
        table: RateTable = self.classifier._selected.rates(stated)
        return table

    def checked(self, X: Table) -> Any:
        """Return a table in the form of the fit."""
        return self.classifier._checked(X)

    def tested_values(self, opened: Table) -> Iterator[NDArray[Any]]:
        """Return the answers of each candidate: class numbers, or a label distribution."""
        answers: Iterator[NDArray[Any]] = self.classifier.ensemble_.answers(
            self.checked(opened)
        )
        return answers

    def answers_of(
        self, classifiers: Sequence[Any], X: Table, groups: Groups
    ) -> list[tuple[Any, None]]:
        """Return the predictions of the classifiers of a curve; each hypothesis predicts once."""
        answers = list(self.tested_values(X))
        labels = self.classifier.classes_
        return [
            (labels[each.ensemble_.scores_of(answers).argmax(axis=1)], None)
            for each in classifiers
        ]


class JudgedSubgroups(JudgedHypotheses):
    """A `WorstClassBoostClassifier`."""

    @property
    def stated_limits(self) -> tuple[Limit, ...]:
        """The limit that ``max_error`` states."""
        clf = self.classifier
        if clf.max_error == "auto":
            return ()
        return (error(by=clf._named.kind) <= clf.max_error,)


class JudgedSteps(Recorded):
    """An additive classifier."""

    @property
    def knows_rows(self) -> bool:
        """True."""
        return True

    @property
    def errors_table(self) -> RateTable:
        """The error of `predict` on each class, on the selection data."""
        table: RateTable = self.classifier._measured(error(by="class"), kind="class")
        return table

    def measured(self, *stated: Rate | Limit) -> RateTable:
        """Return rates on the selection data."""
        table: RateTable = self.classifier._measured(*stated)
        return table

    def checked(self, X: Table) -> Any:
        """Return a table in the form of the fit."""
        return self.classifier._checked(X)
