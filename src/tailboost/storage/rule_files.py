"""Rule files in JSON, and the rule of a file with its limits, certificate and records.

A service reads a rule and answers. This takes NumPy alone, so scikit-learn is imported where a certificate
or several columns of scores are read.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from functools import cached_property, partial
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

from tailboost.core.array_types import (
    Array,
    Document,
    FilePath,
    Groups,
    Hashes,
    Ints,
    Labels,
    Mask,
    Model,
    Table,
)
from tailboost.core.checks import (
    as_pandas,
    reading,
    take,
)
from tailboost.core.files import write_output
from tailboost.core.versions import migrated
from tailboost.rates import checked_limits
from tailboost.rows.fingerprints import hash_rows
from tailboost.rows.seen import SELECTED_ON, Ledger, Records, Seen
from tailboost.rows.subgroups import HUMAN_REVIEW, warn_of_other_groups
from tailboost.selection.answering import Decided, Decision, Known
from tailboost.selection.rule import Rule, ThresholdRule, with_missing_group

RULE_FILE_FORMAT = 7


def load_rule(path: FilePath) -> Any:
    """Return the rule of a file of `save_rule`, `tailboost tune` or `tailboost calibrate`, without its rows.

    Parameters
    ----------
    path : str or path
        A rule file (.json), or a file with the text of `ThresholdRule.to_json` or `Rule.to_json`. A model
        file (.model) is read by `load_model`.

    Returns
    -------
    RuleOnScores, ThresholdRule or Rule
        The rule, with its stated ``limits`` and, after a calibration, its ``certificate_``. `certify`,
        `Monitor` and `ModelCard` take it as a model of a table with its columns of scores. A rule by
        ``to_json`` has neither limits nor certificate, and only answers; `save_rule` writes them too. The
        rule answers without scikit-learn, which its ``certificate_`` imports when it is read.

    Raises
    ------
    FileNotFoundError
        If there is no such file.
    ValueError
        If the file is no rule file, its rule is damaged, or it is of another version; if its certificate is
        about another rule, because somebody edited the rule. A certificate that was damaged or edited raises
        where it is read.

    Examples
    --------
    >>> import tailboost as tb
    >>> rule = tb.load_rule("rule.json")  # doctest: +SKIP
    >>> rule.predict([0.7], groups=["en"])  # doctest: +SKIP
    """
    try:
        content = json.loads(Path(path).read_bytes())
    except (ValueError, RecursionError):
        raise ValueError(
            f"{str(path)!r} is no rule file: it is not JSON. A model file is read by "
            "load_model, and its rule is load_model(path)[-1].rule_ if `tailboost fit` wrote "
            "it"
        ) from None
    with reading(f"rule file of tailboost, {str(path)!r}"):
        document = content.get("rule", content)
        rule = (ThresholdRule if "bands" in document else Rule).from_dict(document)
        if document is content:  # by to_json
            return rule
        content = migrated(content, RULE_FILE_FORMAT, {}, "it", "run tune again")
        certificate = content["certificate"]
        named = dict(content["groups_named"] if certificate else ())
        groups = list(map(tuple, content["groups"]))
        ledger = Ledger.from_dict(content["ledger"])
        attempts = ledger.attempts[: content["attempts"]]
        used = (*map(Seen.from_dict, content["selected_on"]), *(each.rows for each in attempts))
        records = Records(used=used, ledger=ledger)
        loaded = RuleOnScores(rule, content["selection"], groups, named, records)
        loaded.stored = (certificate, attempts)
        if certificate and certificate["rule"] != loaded.decision.digest:
            raise ValueError(
                "its certificate is about another rule: the rule was edited after the "
                "calibration. "
                'Restore the file, or set "certificate" to null in it'
            )
        return loaded


class RuleOnScores:
    """A rule on columns of scores: a model of the table of scores, with limits, certificate and records.

    `calibrate` of `Scores` returns it, and `load_rule` of a file. It has all attributes of its ``rule_`` too:
    ``bands``, ``groups``, ``to_sql``, ``to_python``, …

    Parameters
    ----------
    rule : ThresholdRule or Rule
        The rule alone.
    settings : mapping
        The columns of scores with their labels, and the arguments of the selection.
    groups : list
        The groups of the selection data, of named columns as pairs of column and group.
    groups_named : mapping
        The groups in the limits of the certificate, by column. `predict` warns of rows in other groups.
    records : Records
        The rows of the selection and of the attempts up to the certificate, and all attempts.

    Attributes
    ----------
    limits : list of Limit
        The stated limits.
    ledger_ : Ledger
        The attempts to calibrate.
    certificate_ : Certificate or None
        The certificate.
    """

    stored: Any  # certificate of a file, not yet read, and its attempts

    def __init__(
        self,
        rule: ThresholdRule | Rule,
        settings: Document,
        groups: list[Any],
        groups_named: Any,
        records: Records,
    ) -> None:
        self.rule_ = rule
        self.settings = settings
        self.groups_ = groups
        self.groups_named = groups_named
        self.records_ = records
        self.ledger_ = records.ledger
        self.classes_ = np.asarray(rule.classes)
        self.by_group = settings["by_group"]
        self.limits = list(checked_limits(settings["limits"]))
        self._scores = [settings[name] for name in ("scores", "labels", "kind", "missing")]
        by_column: dict[Any, list[Any]] = {}
        for name in groups:
            column, group = name if isinstance(name, tuple) else (None, name)
            by_column.setdefault(column, []).append(group)
        self.decision = Decision(
            rule,
            rule.defers or any(limit.rate.counts_deferral for limit in self.limits),
            self.by_group or False,
            by_column,
            of_scores=True,
            made_by=[self._scores],
        )

    def __getattr__(self, name: str) -> Any:
        return getattr(vars(self).get("rule_"), name)  # a copy has no rule at first

    def __repr__(self) -> str:
        return str(self.rule_)

    @cached_property
    def certificate_(self) -> Any:
        """The certificate; None without one."""
        from tailboost.guarantees.certificates import Certificate

        document, attempts = self.stored
        return document and replace(
            Certificate.from_dict(document), model=self, attempts=attempts
        )

    @cached_property
    def scores(self) -> Any:
        """The columns of scores, as `Scores`."""
        from tailboost.learners.scores import Scores

        columns, labels, kind, missing = self._scores
        scores = Scores(columns, labels, kind=kind, missing=missing)
        scores.classes_ = np.asarray(labels)  # several columns need no fit
        return scores

    def predict(self, X: Table, groups: Groups = None, *, default: Any = ...) -> Array:
        """Return the action of each row: a label, or "human review".

        Parameters
        ----------
        X : array-like of shape (n,), number or table
            The score, or a table with the columns of scores and of groups.
        groups : array-like of shape (n,), or table, optional
            Group of each row, for a group-aware rule, if the table has no column of them.
        default : label, "human review" or None, optional
            Answer to rows without a score or of an unknown group, as in `ThresholdRule.predict`. Without it
            they are an error.

        Returns
        -------
        ndarray of shape (n,)

        Warns
        -----
        UncertifiedGroupsWarning
            Counts the rows of a table in groups not named in the certificate.
        """
        table = as_pandas(X)
        warn_of_other_groups(self.groups_named, table, groups)
        rule = self.rule_
        if isinstance(rule, ThresholdRule):
            return rule.predict(table, groups, default=default)
        if isinstance(self.by_group, str) and groups is None:
            groups = table[[self.by_group]]
        scores = self.scores
        lacking = scores.without_score(table) & (default is not ...)
        P = np.eye(len(rule.classes))[0 * lacking]  # any, without a score
        # The scores have the order of their columns, and a rule the order of its labels.
        order = [scores.label.index(label) for label in rule.classes]
        P[~lacking] = scores.predict_proba(take(table, ~lacking))[:, order]
        answers = rule.predict(dict.fromkeys(rule.weights, P), groups, default=default)
        if default is not ...:
            answers[lacking] = default
        return answers

    def to_sql(
        self, column: Any = None, group: Any = None, *, label: Any = None, table: Any = None
    ) -> str:
        """Return the action as an SQL expression, see `ThresholdRule.to_sql` and `Rule.to_sql`.

        By default on the columns of the scores and groups. Several columns must be probabilities.
        """
        columns, labels, *kind = self._scores
        if column is None and len(columns) > 1:
            if kind != ["probability", None]:
                raise ValueError(
                    "SQL of several scores needs probabilities: name columns of them"
                )
            column, label = columns, labels
        if isinstance(self.by_group, str):
            group = group or self.by_group
        return self.rule_.to_sql(column, group, label=label, table=table)

    def __tailboost__(self) -> Decided:
        """Return the rule with the columns that have its scores, and the rows that are known."""
        return Decided(
            self.classes_,
            self.decision,
            tuple(self.limits),
            (Known(self.records_),),
            partial(ByColumns, self),
            lambda: self.certificate_,
        )


@dataclass(frozen=True, eq=False)
class ByColumns:
    """Rows with columns of scores, which the rule of a file answers."""

    rule: RuleOnScores
    X: Table
    stated: Groups = None
    outputs: None = None
    shares: None = None

    @cached_property
    def groups(self) -> Groups:
        """The stated groups, by default the columns of the table that the limits and the rule read.

        Empty cells are the group 'missing' if the rule has it.
        """
        groups, known = self.stated, self.rule.decision.groups
        if not groups:
            columns = getattr(self.X, "columns", ())
            groups = {name: self.X[name] for name in known if name in columns}
        return with_missing_group(groups, [*chain(*known.values())])

    @cached_property
    def given(self) -> Hashes:
        """Hashes of the scores."""
        return hash_rows(self.rule.scores.values(self.X), rounded=True)

    @property
    def content(self) -> Hashes:
        """Hashes of the scores."""
        return self.given

    @property
    def lacking(self) -> Mask:
        """Which rows lack a score that the rule reads, shape (n,)."""
        found: Mask = self.rule.scores.without_score(self.X)
        return found

    @cached_property
    def answers(self) -> Array:
        """The answers, "human review" for deferred rows."""
        return self.rule.predict(self.X, self.groups if self.rule.by_group else None)

    def numbers(self, classes: Labels) -> Ints:
        """Return the places of the answers."""
        actions = [*self.rule.rule_.classes, HUMAN_REVIEW]
        return np.array([*map(actions.index, self.answers.tolist())], dtype=np.intp)


def save_rule(classifier: Model, path: FilePath, *, target: str | None = None) -> None:
    """Write the rule of a classifier on columns of scores as a rule file, as `tailboost tune` does.

    The file has the rule, its limits, certificate and ledger, and fingerprints of the rows that were used.
    `load_rule` and the commands read it.

    Parameters
    ----------
    classifier : classifier or rule
        Of `tune`, `calibrate` or `load_rule`, on `Scores`. Groups, if any, came in a table of named columns.
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
    if Path(path).suffix != ".json":
        raise ValueError(f"{str(path)!r}: the name of a rule file must end in '.json'")
    write_output(path, rule_text(classifier, target=target))


def rule_text(classifier: Model, **columns: str | None) -> str:
    """Return the text of a rule file; the columns ``target`` and ``cluster`` are those of other files."""
    rule = getattr(classifier, "_on_scores", lambda: classifier)()
    if not isinstance(rule, RuleOnScores):
        raise TypeError(
            "a rule file has a rule on one tb.Scores, selected by tune or calibrate: give its "
            "classifier. save_model keeps another rule with its models, and rule_.to_json() "
            "is a rule alone"
        )
    settings = rule.settings
    for name in (*settings["scores"], *settings["group"]):
        if not isinstance(name, str):
            raise ValueError(
                f"the column {name!r} has no name: select on a table, such as "
                f"groups={{'site': site}}"
            )
    certificate = rule.certificate_
    content = {
        "format": RULE_FILE_FORMAT,
        "rule": rule.rule_.to_dict(),
        "selection": settings | {name: column for name, column in columns.items() if column},
        "groups": rule.groups_,
        "groups_named": list(rule.groups_named.items()),
        "certificate": certificate and certificate.to_dict(),
        "selected_on": [
            rows.to_dict() for rows in rule.records_.used if rows.use == SELECTED_ON
        ],
        "attempts": len(certificate.attempts) if certificate else 0,
        "ledger": rule.ledger_.to_dict(),
    }
    return json.dumps(content, indent=1, ensure_ascii=False) + "\n"
