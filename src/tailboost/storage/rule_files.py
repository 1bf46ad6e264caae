"""Rule files of the shell, read for a service: the rule with its limits and its certificate."""

from __future__ import annotations

import json
import os
from pathlib import Path

from tailboost.core.checks import reading
from tailboost.core.warn import warn_user
from tailboost.selection.rule import Rule
from tailboost.selection.threshold_rule import ThresholdRule
from tailboost.storage.rule_classifier import rule_alone, rule_of

KIND_OF_RULE_FILE = "rule of `tailboost tune`"
# Characters of a file: a certificate with many attempts has some hundred thousands.
LONGEST_FILE = 100_000_000


def load_rule(path: str | os.PathLike[str]) -> ThresholdRule | Rule:
    """Return the rule of a file of `tailboost tune` or `tailboost calibrate`, without its rows.

    Parameters
    ----------
    path : str or path
        A rule file (.json), or a file with the text of `ThresholdRule.to_json` or `Rule.to_json`. A model
        file (.model) is read by `load_model`.

    Returns
    -------
    ThresholdRule or Rule
        With its stated ``limits`` and, after a calibration, its ``certificate``. `certify` and `Monitor` take
        it as a model of a table with its columns of scores. A rule by ``to_json`` has neither limits nor
        certificate, and only answers.

    Raises
    ------
    ValueError
        If the file is no rule file, is damaged, or is of another version.

    Examples
    --------
    >>> import tailboost as tb
    >>> rule = tb.load_rule("rule.json")  # doctest: +SKIP
    >>> rule.predict([0.7], groups=["en"])  # doctest: +SKIP
    """
    file = Path(path)
    if not file.is_file():
        raise ValueError(f"there is no rule file {str(file)!r}")
    if file.stat().st_size > LONGEST_FILE:
        raise ValueError(f"{str(file)!r} is longer than any rule file")
    try:
        content = json.loads(file.read_text(encoding="utf-8"))
    except (ValueError, RecursionError):
        raise ValueError(
            f"{str(file)!r} is no rule file: it is not JSON. A model file is read by load_model"
        ) from None
    try:
        with reading(KIND_OF_RULE_FILE):
            if "labels" in content:  # a file of LabelRules
                raise ValueError(
                    "the rule has several labels per row: read it by LabelRules.from_dict"
                )
            if "bands" in content or "parts" in content:  # by to_json
                return rule_alone(content)
            rule = rule_of(content)
    except ValueError as error:
        raise ValueError(f"{str(file)!r}: {error}") from None
    if content["certificate"] is not None and rule.certificate is None:
        warn_user(
            f"{str(file)!r}: its certificate is about another rule, and is left out; calibrate "
            "again"
        )
    return rule
