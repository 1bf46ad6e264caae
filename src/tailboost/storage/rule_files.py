"""Rule files of the shell, read for a service: the rule with its limits and its certificate."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from tailboost.core.checks import reading
from tailboost.core.warn import warn_user
from tailboost.guarantees.certificates import Certificate
from tailboost.learners.scores import Scores
from tailboost.rates import checked_limits
from tailboost.selection.rule import Rule, digest_of_rule
from tailboost.selection.threshold_rule import ThresholdRule

RULE = "rule of `tailboost tune`"
# Form of a rule file. Files of form 1 had no number, and their rules no kind of score. Certificates of form 2
# named no rule. Form 3 did not name the column that a rule reads.
FORMAT = 4
# Characters of a file: a certificate with many attempts has some hundred thousands.
LONGEST = 100_000_000


def load_rule(path: str | os.PathLike[str]) -> ThresholdRule | Rule:
    """Return the rule of a file of `tailboost tune` or `tailboost calibrate`, without its rows.

    Parameters
    ----------
    path : str or path
        A rule file (.json). A model file (.model) is read by `load_model`.

    Returns
    -------
    ThresholdRule or Rule
        With its stated ``limits`` and, after a calibration, its ``certificate``.

    Raises
    ------
    ValueError
        If the file is none, or is of another version.

    Examples
    --------
    >>> import tailboost as tb
    >>> rule = tb.load_rule("rule.json")  # doctest: +SKIP
    >>> rule.predict([0.7], groups=["en"])  # doctest: +SKIP
    """
    file = Path(path)
    if not file.is_file():
        raise ValueError(f"there is no rule file {str(file)!r}")
    if file.stat().st_size > LONGEST:
        raise ValueError(f"{str(file)!r} is longer than any rule file")
    try:
        content = json.loads(file.read_text(encoding="utf-8"))
    except (ValueError, RecursionError):
        raise ValueError(
            f"{str(file)!r} is no rule file: it is not JSON. A model file is read by load_model"
        ) from None
    try:
        with reading(RULE):
            if "labels" in content:
                raise ValueError(
                    "the rule has several labels per row: read it by LabelRules.from_dict"
                )
            rule = rule_of(content)
    except ValueError as error:
        raise ValueError(f"{str(file)!r}: {error}") from None
    if content["certificate"] is not None and rule.certificate is None:
        warn_user(
            f"{str(file)!r}: its certificate is about another rule, and is left out; calibrate "
            "again"
        )
    return rule


def rule_of(content: Mapping[str, Any]) -> ThresholdRule | Rule:
    """Return the rule of the content of a file, with its limits and the certificate about it.

    Raises
    ------
    KeyError, TypeError, ValueError
        If the content is of another version, or damaged.
    """
    form = content.get("format", 1)
    if form != FORMAT:
        raise ValueError(f"it has format {str(form)[:20]}, not {FORMAT}; run tune again")
    selection = content["selection"]
    of = ThresholdRule if "bands" in content["rule"] else Rule
    rule = of.from_dict(content["rule"])
    certificate = None
    if content["certificate"] is not None:
        certificate = Certificate.from_dict(content["certificate"])
        if certificate.rule != digest_of_rule(rule, [scores_of(selection)]):
            certificate = None
    limits = tuple(checked_limits(selection["limits"]))
    return replace(rule, limits=limits, certificate=certificate)


def scores_of(selection: Mapping[str, Any]) -> Scores:
    """Return the columns of scores that a rule was selected on."""
    columns, labels = selection["scores"], selection["labels"]
    about = {"kind": selection["kind"], "missing": selection["missing"]}
    if len(columns) == 1:
        return Scores(columns[0], labels[0], **about)
    return Scores(list(columns), list(labels), **about)
