"""Rule files, read: a rule with its limits, and with its certificate and its classifier on demand.

A service reads a rule and answers. This takes NumPy alone, so classifiers and certificates, which need
scikit-learn, are imported when they are read.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from tailboost.core.array_types import FilePath
from tailboost.core.checks import check_format, reading
from tailboost.rates import checked_limits
from tailboost.rows.fingerprints import digest_of_rule
from tailboost.selection.rule import Rule, ThresholdRule

# Form of a rule file. Files of form 1 had no number, and their rules no kind of score. Certificates of form 2
# named no rule. Form 3 did not name the column of a rule, and form 4 no groups of the certificate.
RULE_FILE_FORMAT = 5


def load_rule(path: FilePath) -> ThresholdRule | Rule:
    """Return the rule of a file of `save_rule`, `tailboost tune` or `tailboost calibrate`, without its rows.

    Parameters
    ----------
    path : str or path
        A rule file (.json), or a file with the text of `ThresholdRule.to_json` or `Rule.to_json`. A model
        file (.model) is read by `load_model`.

    Returns
    -------
    ThresholdRule or Rule
        With its stated ``limits`` and, after a calibration, its ``certificate_``. `certify` and `Monitor`
        take it as a model of a table with its columns of scores. A rule by ``to_json`` has neither limits nor
        certificate, and only answers; `save_rule` writes them too. The rule answers without scikit-learn,
        which its ``certificate_`` and its ``classifier`` import when they are read.

    Raises
    ------
    FileNotFoundError
        If there is no such file.
    ValueError
        If the file is no rule file, its rule is damaged, or it is of another version; if its certificate is
        about another rule, because somebody edited the rule. A damaged certificate raises where it is read.

    Examples
    --------
    >>> import tailboost as tb
    >>> rule = tb.load_rule("rule.json")  # doctest: +SKIP
    >>> rule.predict([0.7], groups=["en"])  # doctest: +SKIP
    """
    file = Path(path)
    text = file.read_text(encoding="utf-8", errors="replace")
    try:
        content = json.loads(text)
    except (ValueError, RecursionError):
        raise ValueError(
            f"{str(file)!r} is no rule file: it is not JSON. A model file is read by load_model, and "
            "its rule is load_model(path)[-1].rule_ if `tailboost fit` wrote it"
        ) from None
    with reading(f"rule file of tailboost, {str(file)!r}"):
        if "bands" in content or "action_costs" in content:  # by to_json
            return _rule_alone(content)
        return _rule_of(content)


@dataclass(frozen=True, eq=False)
class RuleFile:
    """The content of a rule file, from which more than the rule is made when it is read.

    Attributes
    ----------
    rule : ThresholdRule or Rule
        The rule with its limits.
    content : mapping
        The content of the file.
    scores : tuple
        Columns, labels, kind and missing value of the scores: a part of the digest of the rule.
    """

    rule: ThresholdRule | Rule
    content: Mapping[str, Any]
    scores: tuple[Any, ...]

    @cached_property
    def classifier(self) -> Any:
        """The rule as a fitted classifier of a table with its columns of scores."""
        from tailboost.storage.rule_classifier import RuleClassifier

        with reading("rule file"):
            return RuleClassifier.of(self)

    @property
    def certificate(self) -> Any:
        """The certificate of the rule; None without one."""
        if self.content["certificate"] is None:
            return None
        return self.classifier.certificate_


def _rule_of(content: Mapping[str, Any]) -> ThresholdRule | Rule:
    """Return the rule of the content of a file, with its limits and the file itself.

    Raises
    ------
    KeyError, TypeError, ValueError
        If the content is of another version, or damaged.
    """
    check_format(content["format"], RULE_FILE_FORMAT, "it", "run tune again")
    selection = content["selection"]
    rule = replace(
        _rule_alone(content["rule"]), limits=tuple(checked_limits(selection["limits"]))
    )
    columns = selection["scores"]
    label = selection["labels"]
    if not columns or len(label) != len(columns):
        raise ValueError("each score needs a label")
    if len(columns) == 1:
        (label,) = label
    if isinstance(rule, ThresholdRule):
        rule = replace(rule, group_column=selection["by_group"])
    scores = (columns, label, selection["kind"], selection["missing"])
    certificate = content["certificate"]
    groups_named = {}
    if certificate is not None:
        if certificate["rule"] != digest_of_rule(rule, [scores]):
            raise ValueError(
                "its certificate is about another rule: the rule was edited after the calibration. "
                'Restore the file, or set "certificate" to null in it'
            )
        groups_named = {column: list(groups) for column, groups in content["groups_named"]}
    return replace(rule, file=RuleFile(rule, content, scores), groups_named=groups_named)


def _rule_alone(document: Mapping[str, Any]) -> ThresholdRule | Rule:
    """Return a rule from its ``to_dict`` or ``to_json``; only threshold rules have bands."""
    if "bands" in document:
        return ThresholdRule.from_dict(document)
    return Rule.from_dict(document)
