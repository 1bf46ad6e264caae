"""The rule of a file as a fitted classifier of a table of scores."""

from __future__ import annotations

import copy
from dataclasses import replace
from itertools import chain
from typing import TYPE_CHECKING, Any, Never

import numpy as np

from tailboost.classifiers.reported import ReportedClassifier
from tailboost.core.array_types import Array, Column, Groups, Labels, Mask, Table
from tailboost.core.checks import (
    as_pandas,
    column_name,
    n_rows_of,
    names_columns,
    no_groups,
    take,
    with_missing_group,
)
from tailboost.core.limit_lines import LimitLine
from tailboost.guarantees.certificates import Certificate
from tailboost.learners.scores import Scores, score_columns
from tailboost.rows.fingerprints import digest_of_rule
from tailboost.rows.judged import RecordedScores, columns_of, judged, labels_or_mark
from tailboost.rows.ledger import Ledger, Records
from tailboost.rows.seen import Seen
from tailboost.rows.subgroups import HUMAN_REVIEW, by_column, plain_list
from tailboost.selection.rule import Rule, ThresholdRule, answers_with_default, group_numbers

if TYPE_CHECKING:
    from tailboost.storage.rule_files import RuleFile


class JudgedRule(RecordedScores):
    """The rule of a file as a classifier, `RuleClassifier`."""

    limits_are = "Limits of the selection"

    def checked(self, X: Table) -> Array:
        """Return the scores, shape (n, columns)."""
        return score_columns(X, self.columns_of_scores, repr(self.classifier.scores))

    @property
    def columns_of_scores(self) -> list[Any]:
        """The columns of scores that the rule reads."""
        return self.classifier.scores.column_list

    def without_score(self, X: Table) -> Mask:
        """Return which rows lack a score that the rule reads, shape (n,)."""
        return self.classifier.scores.without_score(X)

    def groups_of(self, X: Table, groups: Groups) -> Groups:
        """Return the groups of rows, by default the columns of the table that the limits and the rule read.

        Empty cells are the group 'missing' if the rule has it.
        """
        groups_by_column = by_column(plain_list(self.groups))
        if groups is None:
            columns = getattr(X, "columns", ())
            groups = {name: X[name] for name in groups_by_column if name in columns} or None
        return with_missing_group(groups, list(chain(*groups_by_column.values())))

    @property
    def can_defer(self) -> bool:
        """Whether rows may be deferred."""
        return self.rule.defers

    @property
    def rule_digest(self) -> str:
        """Digest of the rule and of the columns of scores."""
        return digest_of_rule(self.rule, [columns_of(self.classifier.scores)])

    @property
    def limit_lines(self) -> list[LimitLine]:
        """The certified limits, or else the stated ones."""
        if self.certificate is not None:
            return super().limit_lines
        return [LimitLine("", None, str(limit), "", "") for limit in self.classifier.limits]

    @property
    def rule(self) -> ThresholdRule | Rule:
        """The rule as it was read from the file."""
        return self.classifier.rule_


class RuleClassifier(ReportedClassifier):
    """The rule of a file as a fitted classifier of the table of scores.

    Parameters
    ----------
    rule : ThresholdRule or Rule
        The rule, with its limits.
    scores : Scores
        The columns of scores.
    by_group : str or bool
        The column of groups in the rule.
    """

    _judged_by = JudgedRule

    def __init__(
        self, rule: ThresholdRule | Rule, scores: Scores, by_group: str | bool = False
    ) -> None:
        self.rule = rule
        self.scores = scores
        self.by_group = by_group

    @classmethod
    def of(cls, file: RuleFile) -> RuleClassifier:
        """Return the classifier of a rule file, with its records and certificate.

        Raises
        ------
        KeyError, TypeError, ValueError
            If the content is damaged.
        """
        content = file.content
        columns, label, kind, missing = file.scores
        if len(columns) == 1:
            (columns,) = columns
        scores = Scores(columns, label, kind=kind, missing=missing)
        classifier = cls(file.rule, scores, content["selection"]["by_group"] or False)
        classifier.groups_ = [tuple(name) for name in content["groups"]]
        ledger = Ledger.from_dict(content["ledger"])
        used = content["used"]
        attempts = ledger.attempts[: int(used["attempts"])]  # those up to the certificate
        tables = [Seen.from_dict(rows) for rows in used["selection"]]
        tables += [attempt.rows for attempt in attempts]
        classifier.records_ = Records(used=tuple(tables), ledger=ledger)
        if content["certificate"] is not None:
            certificate = Certificate.from_dict(content["certificate"])
            classifier.certificate_ = replace(certificate, model=classifier, attempts=attempts)
        return classifier

    def __sklearn_is_fitted__(self) -> bool:
        return True

    def fit(self, X: Table, y: Column = None) -> Never:
        """Raise TypeError: the rule of a file is read, and functions such as `cross_val_score` fit again."""
        raise TypeError(
            "the rule of a file is not fitted again, so there is nothing to cross-validate: "
            "tailboost.certify(rule, X, y, …) bounds its errors on fresh rows, and "
            "accuracy_score(y, rule.predict(X)) estimates them"
        )

    @property
    def classes_(self) -> Labels:
        """The labels."""
        return np.asarray(self.rule.classes)

    @property
    def limits(self) -> Any:
        """The limits of the selection."""
        return self.rule.limits

    @property
    def limits_met_(self) -> bool | None:
        """Whether all limits are certified; None without a certificate."""
        if self.certificate_ is None:
            return None
        return super().limits_met_

    @property
    def rule_(self) -> ThresholdRule | Rule:
        """The rule, under the name that fitted classifiers have."""
        return self.rule

    def actions(self, X: Table, groups: Groups = None) -> Labels:
        """Return the label of each row, or "human review"."""
        read = self._groups_read(X, groups)
        if isinstance(self.rule, ThresholdRule):
            return self.rule.predict(judged(self).checked(X)[:, 0], read)
        model = copy.copy(self.scores)
        model.classes_ = np.asarray(model.label)
        # The scores have the order of their columns, and a rule the order of its labels.
        order = [model.label.index(label) for label in self.rule.classes]
        P = model.predict_proba(X)[:, order]
        return self.rule.predict(dict.fromkeys(self.rule.models or ["Scores"], P), read)

    def predict(
        self, X: Table, *, groups: Groups = None, deferred: Any = None, default: Any = ...
    ) -> Labels:
        """Return the label of each row; of deferred rows ``deferred`` or, with a warning, the first label.

        Groups are by default the column of the table that the rule reads. Rows without a score and rows of
        unknown groups are an error, or get the answer ``default``, as in the `predict` of the rule.
        """
        if default is not ...:
            return self._with_default(as_pandas(X), groups, deferred, default)
        actions = self.actions(X, groups)
        is_deferred = actions == HUMAN_REVIEW
        answers = np.where(is_deferred, self.rule.classes[0], actions)
        return labels_or_mark(self, answers.astype(self.classes_.dtype), is_deferred, deferred)

    def _with_default(
        self, table: Table, groups: Groups, deferred: Any, default: Any
    ) -> Labels:
        """Return the answers as `predict`, the default to rows without a score or a known group."""
        has_answer = ~judged(self).without_score(table)
        read = self._groups_read(table, groups)
        numbers = group_numbers(read, self.rule.groups, n_rows_of(table), unknown=True)
        has_answer &= numbers >= 0
        return answers_with_default(
            lambda rows: self.predict(
                take(table, rows), groups=take(read, rows), deferred=deferred
            ),
            has_answer,
            self.rule.classes,
            default,
        )

    def defers(self, X: Table, *, groups: Groups = None) -> Mask:
        """Return which rows are deferred."""
        return self.actions(X, groups) == HUMAN_REVIEW

    def _groups_read(self, X: Table, groups: Groups) -> Groups:
        """Return the column of groups that the rule reads, of the table by default; None if it reads none."""
        if not self.by_group:
            return None
        name = "groups"
        if groups is None:
            name = "X"
            groups = X
        groups = as_pandas(groups)
        if names_columns(groups):
            if self.by_group not in groups:
                raise ValueError(no_groups(name, self.by_group, groups))
            return groups[self.by_group]
        if name == "X":
            return None
        if column_name(groups) not in (None, self.by_group):
            raise ValueError(no_groups(name, self.by_group, [column_name(groups)]))
        return groups
