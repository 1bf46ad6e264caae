"""Rule files in JSON: a rule on scores with its limits, certificate and records.

A service reads a rule by ``to_json`` and answers without scikit-learn. So classifiers, which need it, are
imported where a file has more than the rule.
"""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from tailboost.core import (
    Document,
    FilePath,
    Model,
    Name,
    check_format,
    label_column,
    plain,
    positions,
    reading,
    write_output,
)
from tailboost.rows import (
    Attempt,
    GroupNames,
    Ledger,
    Records,
    Rows,
    Seen,
    attempts_of,
    digest_of,
)
from tailboost.selection.rule import Rule, ThresholdRule

FORMAT = 9


def load_rule(path: FilePath) -> Any:
    """Return the rule of a file of `save_rule`, `tailboost tune` or `tailboost calibrate`, without its rows.

    Parameters
    ----------
    path : str or path
        A rule file (.json), or a file with the text of `ThresholdRule.to_json` or `Rule.to_json`. A model
        file (.model) is read by `load_model`.

    Returns
    -------
    TunedClassifier, ThresholdRule or Rule
        The rule, with its stated ``limits`` and, after a calibration, its ``certificate_``. `certify`,
        `Monitor` and `ModelCard` take it as a model of a table with its columns of scores. A rule by
        ``to_json`` has neither limits nor certificate, and only answers, without scikit-learn.

    Raises
    ------
    FileNotFoundError
        If there is no such file.
    ValueError
        If the file is no rule file, its rule is damaged, or it is of another version; if its certificate was
        edited, or is about another rule, because somebody edited the rule.

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
            f"{str(path)!r} is no rule file: it is not JSON, or is cut off. load_model reads a "
            "model file, and its rule is load_model(path).rule_"
        ) from None
    with reading(f"rule file of tailboost, {str(path)!r}"):
        if "rule" in content:
            return _classifier_of(content)
        return _rule_of(content)


def _classifier_of(document: Document) -> Model:
    """Return the classifier of a document by `write_rule`; raise ValueError if it was edited."""
    from tailboost.classifiers.problems import problem_of
    from tailboost.classifiers.selected_models import TunedClassifier
    from tailboost.guarantees.certificates import Certificate
    from tailboost.learners.scores import Scores
    from tailboost.selection.selection import StoredSelection

    check_format(document, FORMAT, "it", "run tune again")
    if document["digest"] != digest_of(document):
        raise ValueError(
            "it was edited: restore it, or write its 'rule' alone, without certificate"
        )
    rule = _rule_of(document["rule"])
    scores = Scores(**document["scores"])
    by_group = document["by_group"]
    groups: dict[str, list[Name]] = {}
    # Pairs of the column and the group, as `GroupNames.names` of the selection data.
    for title, group in document["groups"]:
        groups.setdefault(title, []).append(group)
    names = GroupNames(
        tuple(label_column(each, "groups") for each in groups.values()), tuple(groups)
    )
    selection = StoredSelection(
        rule,
        _models_of(rule, scores, names),
        problem_of(document["objective"], document["limits"], names, by_group or False),
        groups_read=(rule.groups, by_group),
        notes=document["notes"],
    )
    ledger = Ledger(tuple(map(Attempt.from_dict, document["ledger"])))
    attempts = ledger.attempts[: document["attempts"]]
    used = (*map(Seen.from_dict, document["used"]), *(each.rows for each in attempts))
    certificate = None
    if document["certificate"]:
        certificate = replace(
            Certificate.from_dict(document["certificate"]),
            attempts=attempts,
            columns=names.titles,
        )
    return TunedClassifier.of_stored(
        selection,
        by_group,
        Records(used=used, ledger=ledger),
        certificate,
        tuple(map(tuple, document["combinations"])),
    )


def _rule_of(document: Document) -> ThresholdRule | Rule:
    """Return the rule of a document by ``to_dict``."""
    return (ThresholdRule if "bands" in document else Rule).from_dict(document)


def _models_of(rule: ThresholdRule | Rule, scores: Any, names: GroupNames) -> Any:
    """Return the columns of scores that a rule reads as models without rows."""
    from sklearn.frozen import FrozenEstimator

    from tailboost.selection.outputs import Models

    weights = {scores.column_list[0]: 1.0}  # a `ThresholdRule` reads one column, as it is
    offsets = [0.0, 0.0]
    if isinstance(rule, Rule):
        weights = rule.weights
        offsets = rule.offsets
    nothing = np.zeros((0, 0), int)  # labels, weights and groups of no row
    known = scores.known(rule.classes)
    classes = label_column(rule.classes, "labels")
    return Models(
        [*weights],
        [FrozenEstimator(known)],
        [positions(known.classes_, classes, "labels")],
        Rows(nothing, nothing, nothing, "no rows", classes=classes, names=names),
        weights=np.array([*weights.values()]),
        offset=np.array(offsets),
    )


def save_rule(classifier: Model, path: FilePath, *, target: str | None = None) -> None:
    """Write the rule of a classifier on columns of scores as a rule file, as `tailboost tune` does.

    The file has the rule, its limits, certificate and ledger, and fingerprints of the rows that were used.
    `load_rule` and the commands read it.

    Parameters
    ----------
    classifier : TunedClassifier
        Of `tune`, `calibrate` or `load_rule`, on `Scores`. Groups, if any, came in a table of named columns.
    path : str or path
        The file to write; its name ends in .json.
    target : str, optional
        Name of the column of the labels in files for the commands, otherwise their option --target. By
        default that of the file of a loaded rule.

    Raises
    ------
    ValueError, TypeError
        If the classifier is not fitted or has no rule on columns of scores, a column has no name, or the name
        of the file does not end in .json. Nothing is written.

    Examples
    --------
    >>> import tailboost as tb
    >>> rule = tb.calibrate(tb.Scores("p", "yes"), X, y, limits=["miss(yes) <= 20%"])  # doctest: +SKIP
    >>> tb.save_rule(rule, "rule.json")  # doctest: +SKIP
    """
    if Path(path).suffix != ".json":
        raise ValueError(f"{str(path)!r}: the name of a rule file must end in '.json'")
    write_rule(classifier, path, {"target": target} if target else {})


def write_rule(classifier: Model, path: FilePath, noted: Document) -> None:
    """Write a rule file of any name; otherwise as `save_rule`.

    ``noted`` may have the roles of columns in other files, such as "target", and what is known "about" the
    model, in place of those in the file of a loaded rule.
    """
    from tailboost.classifiers.selected_models import TunedClassifier

    scores = classifier.scores_ if isinstance(classifier, TunedClassifier) else None
    if not scores:
        raise TypeError(
            "a rule file has a rule on one tb.Scores: give the classifier of tune or "
            "calibrate. save_model keeps another one with its models, rule_.to_json() the rule"
        )
    selected = classifier.evidence_.selection
    groups = classifier.evidence_.models.rows.names
    for name in (*scores.column_list, *groups.titles):
        if not isinstance(name, str):
            raise ValueError(
                f"column {name!r} has no name: select on data frames of the scores and the "
                "groups, such as pd.DataFrame({'site': site})"
            )
    certificate = classifier.certificate_  # refuses changed models
    attempts = attempts_of(certificate)
    in_attempts = [each.rows for each in attempts]
    content = {
        "format": FORMAT,
        "rule": classifier.rule_.to_dict(),
        "scores": scores.get_params(),
        # The groups of the selection data, each with its column, and the combinations that occur.
        "groups": list(groups.names),
        "combinations": classifier.evidence_.combinations,
        "by_group": selected.groups_read[1],
        "objective": repr(selected.problem.objective),
        "limits": list(map(repr, selected.problem.limits)),
        "notes": (selected.notes or {}) | noted,
        "certificate": certificate and certificate.to_dict(),
        # The rows that trained its models, as they were stated, that selected it, or that judged it.
        "used": [
            each.to_dict() for each in classifier.records_.tables if each not in in_attempts
        ],
        # The attempts, and how many of them are those of the certificate.
        "ledger": [each.to_dict() for each in classifier.ledger_.attempts],
        "attempts": len(attempts),
    }
    document = json.loads(json.dumps(content, default=plain))  # as it is read
    document["digest"] = digest_of(document)
    write_output(path, json.dumps(document, indent=1, ensure_ascii=False) + "\n")
