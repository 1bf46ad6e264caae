"""The rule of a file as a fitted classifier of a table of scores."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import chain
from typing import Any, Never

import numpy as np

from tailboost.classifiers.reported import ReportedClassifier
from tailboost.core.array_types import Array, Column, Groups, Labels, Mask, Table
from tailboost.core.checks import (
    as_pandas,
    column_name,
    columns_by_name,
    n_rows_of,
    no_groups,
    take,
    with_missing_group,
)
from tailboost.core.limit_lines import LimitLine
from tailboost.guarantees.certificates import Certificate
from tailboost.learners.scores import Scores, score_columns
from tailboost.rates import Limit
from tailboost.rows.fingerprints import digest_of_rule
from tailboost.rows.judged import (
    RecordedScores,
    columns_of,
    judged,
    labels_or_mark,
)
from tailboost.rows.ledger import Attempt, Ledger, Records
from tailboost.rows.seen import Seen
from tailboost.rows.subgroups import HUMAN_REVIEW, by_column, plain_list
from tailboost.selection.rate_table import RateTable
from tailboost.selection.rule import Rule
from tailboost.selection.rule_forms import answers_with_default, in_known_groups
from tailboost.selection.threshold_rule import ThresholdRule
from tailboost.storage.score_columns import columns_of_file


class JudgedRule(RecordedScores):
    """The rule of a file as a classifier, `RuleClassifier`."""

    limits_are = "Limits of the selection"

    def checked(self, X: Table) -> Array:
        """Return the scores, shape (n, columns)."""
        scores = self.classifier.scores
        return score_columns(X, scores.column_list, repr(scores))

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
        return self.classifier.rule


class RuleClassifier(ReportedClassifier):
    """The rule of a file as a fitted classifier of the table of scores.

    Parameters
    ----------
    rule : ThresholdRule or Rule
        The rule.
    scores : Scores
        The columns of scores.
    limits : sequence of Limit
        The limits of the selection.
    by_group : str, optional
        The column of groups in the rule.
    """

    _judged_by = JudgedRule

    def __init__(
        self,
        rule: ThresholdRule | Rule,
        scores: Scores,
        limits: Sequence[Limit] = (),
        by_group: str | None = None,
    ) -> None:
        self.rule = rule
        self.scores = scores
        self.limits = limits
        self.by_group = by_group or False

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
    def rates_(self) -> RateTable:
        """None: a file of a rule has no selection data."""
        raise AttributeError("a rule of a file has no selection data, so no rates_")

    @property
    def limits_met_(self) -> bool | None:
        """Whether all limits are certified; None without a certificate."""
        if self.certificate_ is None:
            return None
        return super().limits_met_

    @property
    def rule_(self) -> ThresholdRule | Rule:
        """The rule as it was read from the file, under the name that fitted classifiers have."""
        return self.rule

    def actions(self, X: Table, groups: Groups = None) -> Labels:
        """Return the label of each row, or "human review"."""
        group_argument = self._group_argument(X, groups)
        if isinstance(self.rule, ThresholdRule):
            return self.rule.predict(self._column(X, self.rule.column), **group_argument)
        model = copy.copy(self.scores)
        model.classes_ = np.asarray(model.label)
        # The scores have the order of their columns, and a rule the order of its labels.
        order = [model.label.index(label) for label in self.rule.classes]
        P = model.predict_proba(X)[:, order]
        probabilities = dict.fromkeys(self.rule.models or ["Scores"], P)
        return self.rule.predict(probabilities, **group_argument, deferred=HUMAN_REVIEW)

    def predict(
        self, X: Table, *, groups: Groups = None, deferred: Any = None, default: Any = ...
    ) -> Labels:
        """Return the label of each row; of deferred rows ``deferred`` or, with a warning, the first label.

        Groups are by default the column of the table that the rule reads. Rows without a score and rows of
        unknown groups are an error, or get the answer ``default``, as in the `predict` of the rule.
        """
        if default is not ...:
            return self._with_default(X, groups, deferred, default)
        actions = self.actions(X, groups)
        is_deferred = actions == HUMAN_REVIEW
        answers = np.where(is_deferred, self.rule.classes[0], actions)
        return labels_or_mark(self, answers.astype(self.classes_.dtype), is_deferred, deferred)

    def _with_default(self, X: Table, groups: Groups, deferred: Any, default: Any) -> Labels:
        """Return the answers as `predict`, the default to rows without a score or a known group."""
        table = as_pandas(X)
        has_answer = ~judged(self).without_score(table)
        if self.by_group:
            rule_groups = self.rule.groups or []
            column = self._group_argument(X, groups)["groups"]
            groups, is_known = in_known_groups(column, rule_groups, n_rows_of(table))
            has_answer &= is_known
        return answers_with_default(
            lambda rows: self.predict(
                take(table, rows), groups=take(groups, rows), deferred=deferred
            ),
            has_answer,
            self.rule.classes,
            default,
        )

    def defers(self, X: Table, *, groups: Groups = None) -> Mask:
        """Return which rows are deferred."""
        return self.actions(X, groups) == HUMAN_REVIEW

    def _column(self, X: Table, name: Any) -> Array:
        """Return a column of the table, shape (n,)."""
        return score_columns(X, [name], repr(self.scores))[:, 0]

    def _group_argument(self, X: Table, groups: Groups) -> dict[str, Any]:
        """Return the argument ``groups`` of the rule's methods; none for a rule without groups.

        Of several columns the argument has the column of the rule. Without groups it is that of the table.
        """
        if not self.by_group:
            return {}
        if groups is None:
            table = as_pandas(X)
            names = list(getattr(table, "columns", ()))
            if not names:  # no table, which the reader of scores refuses, or an array
                return {"groups": None}
            if self.by_group not in names:
                raise ValueError(no_groups("X", self.by_group, names))
            return {"groups": table[self.by_group]}
        columns = columns_by_name(groups, "groups")
        if list(columns) == [None]:  # one column, perhaps a Series with a name
            name = column_name(groups)
            if name is None:
                return {"groups": groups}
            columns = {name: columns[None]}
        if self.by_group not in columns:
            raise ValueError(
                f"groups has the columns {list(columns)}, but the rule reads the column "
                f"{self.by_group!r}"
            )
        return {"groups": columns[self.by_group]}


def classifier_of(rule: ThresholdRule | Rule, content: Mapping[str, Any]) -> RuleClassifier:
    """Return the classifier of the rule of a file, with the records and the certificate.

    Raises
    ------
    KeyError, TypeError, ValueError
        If the content is damaged.
    """
    selection = content["selection"]
    classifier = RuleClassifier(rule, scores_of(selection), rule.limits, selection["by_group"])
    if content["groups"]:
        classifier.groups_ = [tuple(name) for name in content["groups"]]
    classifier.records_ = _records(content)
    if content["certificate"] is not None:
        classifier.certificate_ = replace(
            Certificate.from_dict(content["certificate"]),
            model=classifier,
            attempts=_attempts(content, classifier.records_.ledger),
        )
    return classifier


def _records(content: Mapping[str, Any]) -> Records:
    """Return the ledger of a rule file, with all used rows.

    These are the rows of the selection and of the attempts to calibrate up to the stored certificate.
    """
    ledger = Ledger.from_dict(content["ledger"])
    tables = [Seen.from_dict(rows) for rows in content["used"]["selection"]]
    tables += [attempt.rows for attempt in _attempts(content, ledger)]
    return Records(used=tuple(tables), ledger=ledger)


def _attempts(content: Mapping[str, Any], ledger: Ledger) -> tuple[Attempt, ...]:
    """Return the attempts up to the stored certificate."""
    return ledger.attempts[: int(content["used"]["attempts"])]


def scores_of(selection: Mapping[str, Any]) -> Scores:
    """Return the scores of a rule from the part "selection" of its file."""
    stored = columns_of_file(selection)
    columns: Any = stored.columns
    if len(columns) == 1:
        (columns,) = columns
    return Scores(columns, stored.label, kind=stored.kind, missing=stored.missing)
