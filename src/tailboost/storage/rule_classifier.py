"""The rule of a file as a fitted classifier of a table of scores, and rule files, written."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Never

import numpy as np

from tailboost.classifiers.reported import ReportedClassifier
from tailboost.core.array_types import (
    Column,
    FilePath,
    Groups,
    Hashes,
    Ints,
    Mask,
    Model,
    Table,
)
from tailboost.core.checks import as_pandas, positions, with_missing_group
from tailboost.core.files import write_output
from tailboost.guarantees.certificates import Certificate
from tailboost.learners.scores import Scores, score_columns, scores_among
from tailboost.rates import Expression
from tailboost.rows.fingerprints import digest_of_rule, hash_rounded_rows
from tailboost.rows.judged import columns_of
from tailboost.rows.ledger import Ledger, Records
from tailboost.rows.seen import SELECTED_ON, Seen
from tailboost.rows.subgroups import HUMAN_REVIEW, by_column, plain_list
from tailboost.selection.rule import Rule, ThresholdRule
from tailboost.storage.rule_files import RULE_FILE_FORMAT, RuleFile


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

    _reads_scores = True
    _weighs_groups = False

    def __init__(
        self, rule: ThresholdRule | Rule, scores: Scores, by_group: str | bool = False
    ) -> None:
        self.rule = rule
        self.scores = scores
        self.by_group = by_group
        self.rule_ = rule
        self.classes_ = np.asarray(rule.classes)
        self._stated_limits = tuple(rule.limits)
        self._can_defer = rule.defers
        self._columns_of_scores = scores.column_list
        self._rule_digest = digest_of_rule(rule, [columns_of(scores)])

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

    def _answers(self, X: Table, groups: Groups) -> tuple[Ints, Mask]:
        """Return the number of each row's label, the first of deferred rows, and which rows are deferred.

        Groups are by default a column of the table.
        """
        rule = self.rule
        if not self.by_group:
            groups = None
        if isinstance(rule, ThresholdRule):
            actions = rule.predict(as_pandas(X), groups)
        else:
            if self.by_group and groups is None:
                groups = X[[self.by_group]]
            # The scores have the order of their columns, and a rule the order of its labels.
            order = [self.scores.label.index(label) for label in rule.classes]
            P = self.scores.probabilities_of(self.scores.values(X))[:, order]
            actions = rule.predict(dict.fromkeys(rule.models or ["Scores"], P), groups)
        is_deferred = actions == HUMAN_REVIEW
        actions[is_deferred] = rule.classes[0]
        return positions(actions.astype(self.classes_.dtype), self.classes_, "X"), is_deferred

    def _row_hashes(self, X: Table) -> Hashes:
        """Return the hashes of rows by their scores."""
        return hash_rounded_rows(score_columns(X, self.scores.column_list, repr(self.scores)))

    def _without_score(self, X: Table) -> Mask:
        """Return which rows lack a score that the rule reads, shape (n,)."""
        return self.scores.without_score(X)

    def _groups_of(self, X: Table, groups: Groups) -> Groups:
        """Return the groups of rows, by default the columns of the table that the limits and the rule read.

        Empty cells are the group 'missing' if the rule has it.
        """
        groups_by_column = by_column(plain_list(self.groups_))
        if groups is None:
            columns = getattr(X, "columns", ())
            groups = {name: X[name] for name in groups_by_column if name in columns} or None
        return with_missing_group(groups, list(chain(*groups_by_column.values())))


def save_rule(classifier: Model, path: FilePath, *, target: str | None = None) -> None:
    """Write the rule of a classifier on columns of scores as a rule file, as `tailboost tune` does.

    The file has the rule, its limits, certificate and ledger, and fingerprints of the rows that were used.
    `load_rule` and the commands read it.

    Parameters
    ----------
    classifier : classifier
        Selected by `tune` or `calibrate` on `Scores`. Groups, if any, came in a table with named columns.
    path : str or path
        The file to write; its name ends in .json.
    target : str, optional
        Name of the column of the labels in files for the commands, otherwise their option --target.

    Raises
    ------
    ValueError, TypeError
        If the classifier has no rule on columns of scores, or a column has no name. Nothing is written.

    Examples
    --------
    >>> import tailboost as tb
    >>> rule = tb.calibrate(tb.Scores("p", "yes"), X, y, limits=["miss(yes) <= 20%"])  # doctest: +SKIP
    >>> tb.save_rule(rule, "rule.json")  # doctest: +SKIP
    """
    file = Path(path)
    if file.suffix != ".json":
        raise ValueError(f"{str(file)!r}: the name of a rule file must end in '.json'")
    write_output(file, rule_text(classifier, target))


def rule_text(classifier: Model, target: str | None, cluster: str | None = None) -> str:
    """Return the text of a rule file, with the columns of labels and clusters of other files."""
    models = getattr(classifier, "estimators_", [])
    scores = scores_among(models)
    if not len(scores) == len(models) == 1 or scores[0].made_by is not None:
        raise TypeError(
            "a rule file has a rule on one tb.Scores, selected by tune or calibrate: give its classifier. "
            "save_model(classifier, 'rule.model') keeps another rule with its models, and "
            "rule_.to_json() is a rule alone"
        )
    (model,) = scores
    groups = list(classifier._group_titles)
    for name in (*model.column_list, *groups):
        if not isinstance(name, str):
            raise ValueError(
                f"a rule file names its columns by text, and a column here is {name!r}: select on a table "
                "with named columns, such as groups={'site': site}"
            )
    by_group = groups[0] if classifier.by_group is True else classifier.by_group or None
    objective = classifier.objective
    if isinstance(objective, Expression):
        objective = repr(objective)
    certificate = classifier.certificate_
    used = classifier.records_.used
    content = {
        "format": RULE_FILE_FORMAT,
        "rule": classifier.rule_.to_dict(),
        "selection": {
            "scores": model.column_list,
            "labels": model.label_list,
            "kind": model.kind,
            "missing": model.missing,
            "group": groups,
            "by_group": by_group,
            "objective": objective,
            "limits": [limit.text for limit in classifier._stated_limits],
            "target": target,
            "cluster": cluster,
        },
        "groups": plain_list(classifier.groups_),
        "groups_named": [] if certificate is None else list(certificate.groups_named.items()),
        "certificate": None if certificate is None else certificate.to_dict(),
        "used": {
            "selection": [rows.to_dict() for rows in used if rows.use == SELECTED_ON],
            "attempts": 0 if certificate is None else len(certificate.attempts),
        },
        "ledger": classifier.records_.ledger.to_dict(),
    }
    return json.dumps(content, indent=1, ensure_ascii=False) + "\n"
