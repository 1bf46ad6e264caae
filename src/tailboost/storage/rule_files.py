"""Rule files in JSON: a rule on scores with its limits, certificate and records.

A service reads a rule by ``to_json`` and answers, by NumPy alone. So classifiers, and with them scikit-learn,
are imported where a file has more than the rule.
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
    migrated,
    plain,
    positions,
    reading,
    write_output,
)
from tailboost.rows import (
    SELECTED_ON,
    Attempt,
    GroupNames,
    Ledger,
    Records,
    Rows,
    Seen,
    digest_of,
)
from tailboost.selection.rule import Rule, ThresholdRule

# A new part of the file that may be absent is read by `get`, and needs no new format.
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
            f"{str(path)!r} is no rule file: it is not JSON. A model file is read by load_model, and its "
            "rule is load_model(path)[-1].rule_ if `tailboost fit` wrote it"
        ) from None
    with reading(f"rule file of tailboost, {str(path)!r}"):
        document, stored = content, None  # of a rule alone, by to_json
        if "rule" in content:
            stored = migrated(content, RULE_FILE_FORMAT, {}, "it", "run tune again")
            document = stored["rule"]
        rule = (ThresholdRule if "bands" in document else Rule).from_dict(document)
        return rule if stored is None else _classifier_of(rule, stored)


def _classifier_of(rule: ThresholdRule | Rule, content: Document) -> Model:
    """Return the classifier of a rule with the other content of its file, which `write_rule` has written."""
    from tailboost.classifiers.problems import problem_of
    from tailboost.classifiers.selected_models import TunedClassifier
    from tailboost.guarantees.certificates import Certificate
    from tailboost.selection.selection import StoredSelection

    now = _digest_of(content)
    if content.get("digest", now) != now:  # older files have none
        raise ValueError("its scores, groups or used rows were edited: restore the file")
    groups: dict[str, list[Name]] = {}
    for title, group in content["groups"]:
        groups.setdefault(title, []).append(group)
    names = GroupNames(tuple(map(np.array, groups.values())), tuple(groups))

    ledger = Ledger(tuple(map(Attempt.from_dict, content["ledger"]["attempts"])))
    attempts = ledger.attempts[: content["attempts"]]  # those up to the certificate
    selected_on = map(Seen.from_dict, content["selected_on"])
    records = Records(used=(*selected_on, *(each.rows for each in attempts)), ledger=ledger)
    stated = content["selection"]
    limits, certificate = stated["limits"], content["certificate"]
    if certificate is not None:
        limits = certificate.get("limits", limits)  # earlier versions have no others
        certificate = replace(
            Certificate.from_dict(certificate), attempts=attempts, columns=names.titles
        )

    by_group = stated["by_group"] if isinstance(rule, Rule) else rule.group_column
    notes = {
        "target": stated["target"],
        "cluster": stated["cluster"],
        "about": content.get("about", {}),  # older files have none
    }
    selection = StoredSelection(
        rule,
        _models_of(rule, stated, names),
        problem_of(stated["objective"], limits, names, by_group),
        (rule.groups, by_group),
        notes,
    )
    return TunedClassifier.of_stored(selection, by_group, records, certificate)


def _models_of(rule: ThresholdRule | Rule, stated: Document, names: GroupNames) -> Any:
    """Return the columns of scores that a rule reads as models without rows."""
    from sklearn.frozen import FrozenEstimator

    from tailboost.learners.scores import Scores
    from tailboost.selection.outputs import Models

    if isinstance(rule, ThresholdRule):
        (label,) = stated["labels"]  # which rules of earlier versions may not know
        scores = Scores(rule.column, label, kind=rule.kind, missing=rule.missing)
        weights, offsets = {str(rule.column): 1.0}, [0.0, 0.0]
    else:
        scores = Scores(
            stated["scores"], stated["labels"], kind=stated["kind"], missing=stated["missing"]
        )
        weights, offsets = rule.weights, rule.offsets
    nothing = np.zeros((0, 0), int)
    known = scores.known(rule.classes)
    classes = np.asarray(rule.classes)
    return Models(
        [*weights],
        [FrozenEstimator(known)],
        [positions(known.classes_, classes, "labels")],
        Rows(nothing, nothing, nothing, "no rows", classes=classes, names=names),
        np.array([*weights.values()]),
        np.array(offsets),
    )


def _digest_of(content: Document) -> str:
    """Return the digest of what a rule reads and of the used rows; a ledger may have later attempts."""
    stated = content["selection"]
    read = {part: stated[part] for part in ("scores", "labels", "kind", "missing", "by_group")}
    attempts = content["ledger"]["attempts"][: content["attempts"]]
    return digest_of(read, content["groups"], content["selected_on"], attempts)


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
        If the classifier has no rule on columns of scores, or a column has no name. Nothing is written.

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

    ``noted`` may have the columns "target" and "cluster" of other files, and what is known "about" the model,
    in place of those in the file of a loaded rule.
    """
    from tailboost.classifiers.selected_models import TunedClassifier

    scores = classifier.scores_ if isinstance(classifier, TunedClassifier) else None
    if scores is None:
        raise TypeError(
            "a rule file has a rule on one tb.Scores, selected by tune or calibrate: give its classifier. "
            "save_model keeps another rule with its models, and rule_.to_json() is a rule alone"
        )
    selected = classifier.evidence_.selection
    certificate = classifier.certificate_  # refuses changed models
    notes = {**(selected.notes or {}), **noted}
    names = classifier._group_names
    limits = list(map(repr, selected.problem.limits))
    for name in (*scores.column_list, *names.titles):
        if not isinstance(name, str):
            raise ValueError(
                f"the column {name!r} has no name: select on a table, such as groups={{'site': site}}"
            )
    content = {
        "format": RULE_FILE_FORMAT,
        "rule": classifier.rule_.to_dict(),
        "selection": {
            "scores": scores.column_list,
            "labels": scores.label_list,
            "kind": scores.kind,
            "missing": scores.missing,
            "group": names.titles,
            "by_group": selected.groups_read[1],
            "objective": repr(selected.problem.objective),
            "limits": limits,
            "target": notes.get("target"),
            "cluster": notes.get("cluster"),
        },
        "about": notes.get("about", {}),
        "groups": list(map(plain, names.names)),
        "certificate": certificate and certificate.to_dict(limits=limits),
        "selected_on": [
            rows.to_dict() for rows in classifier.records_.used if rows.use == SELECTED_ON
        ],
        "attempts": len(certificate.attempts) if certificate else 0,
        "ledger": {"attempts": [each.to_dict() for each in classifier.ledger_.attempts]},
    }
    content["digest"] = _digest_of(content)
    write_output(path, json.dumps(content, indent=1, ensure_ascii=False) + "\n")
