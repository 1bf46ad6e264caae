"""The text of rule files, from the classifiers of Python and of the shell."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tailboost.core.array_types import Document, FilePath, Model, Stated
from tailboost.core.files import write_output
from tailboost.learners.scores import Scores, scores_among
from tailboost.rates import as_expression
from tailboost.rows.judged import judged
from tailboost.rows.seen import SELECTED_ON
from tailboost.selection.rule import Rule
from tailboost.selection.threshold_rule import ThresholdRule
from tailboost.storage.rule_files import RULE_FILE_FORMAT

RULE_FILE = ".json"


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
    if file.suffix != RULE_FILE:
        raise ValueError(f"{str(file)!r}: the name of a rule file must end in {RULE_FILE!r}")
    write_output(file, text_of(rule_document(classifier, {"target": target})))


def text_of(content: Mapping[str, Any]) -> str:
    """Return the content of a rule file as text."""
    return json.dumps(content, indent=1, ensure_ascii=False) + "\n"


def rule_document(classifier: Model, files: Mapping[str, Any], **notes: Any) -> Document:
    """Return the content of a rule file: rule of a classifier, settings of its selection, and notes.

    ``files`` has what no classifier knows: the settings of the files from which its rows were read.
    """
    settings = {**_settings_of(classifier), **files}  # refuses other classifiers
    certificate = judged(classifier).certificate
    selection_tables = [
        rows.to_dict() for rows in classifier.records_.used if rows.use == SELECTED_ON
    ]
    return {
        "format": RULE_FILE_FORMAT,
        "rule": classifier.rule_.to_dict(),
        "selection": settings,
        "groups": list(judged(classifier).groups),
        "groups_named": list(judged(classifier).groups_named.items()),
        "certificate": None if certificate is None else certificate.to_dict(),
        "used": {
            "selection": selection_tables,
            "attempts": 0 if certificate is None else len(certificate.attempts),
        },
        "ledger": classifier.records_.ledger.to_dict(),
        **notes,
    }


def _settings_of(classifier: Model) -> Document:
    """Return the settings of a selection on columns of scores, as in a rule file."""
    scores = _scores_of(classifier)
    columns = scores.column_list
    group_columns = list(judged(classifier).group_titles)
    _refuse_unnamed(columns, "tb.Scores('p', label)")
    _refuse_unnamed(group_columns, "groups={'site': site}")
    by_group = classifier.by_group or None
    if by_group is True:
        by_group = group_columns[0]
    return {
        "scores": columns,
        "labels": scores.label_list,
        "group": group_columns,
        "by_group": by_group,
        "objective": spelt(classifier.objective),
        "limits": [limit.text for limit in judged(classifier).stated_limits],
        "target": None,
        "kind": scores.kind,
        "missing": scores.missing,
        "confidence": classifier.confidence,
        "cluster": None,
    }


def spelt(objective: Stated) -> str | None:
    """Return an objective as text for a file: a rate as Python code, a name or None unchanged."""
    if as_expression(objective):
        return repr(objective)
    return objective


def _scores_of(classifier: Model) -> Scores:
    """Return the scores of a classifier; raise TypeError if its models are others."""
    if isinstance(classifier, (Rule, ThresholdRule)):
        raise TypeError(
            "a rule alone has no ledger to write: give the classifier of tune or calibrate, "
            "whose rule_ it is. The file of a rule that load_rule has read can be copied"
        )
    models = getattr(classifier, "estimators_", [])
    scores = scores_among(models)
    if len(scores) == len(models) == 1 and scores[0].made_by is None:
        return scores[0]
    if len(scores) == len(models) > 1:
        raise TypeError(
            f"a rule file has a rule on one tb.Scores, and this rule combines {len(models)}: "
            "save_model(classifier, 'rule.model') keeps rule and certificate. For a rule file, "
            "SQL of the scores or Python select again, on a column of classifier.predict_proba(X) "
            "for other rows"
        )
    raise TypeError(
        "a rule file has a rule on columns of scores, selected by tune or calibrate on "
        "tb.Scores; this rule reads the features of its models. save_model(classifier, "
        "'rule.model') keeps model, rule and certificate. Without the model: "
        "Path('rule.json').write_text(classifier.rule_.to_json()), which load_rule reads; it "
        "answers probabilities of the model, and has neither limits nor certificate"
    )


def _refuse_unnamed(columns: Sequence[Any], cure: str) -> None:
    """Raise ValueError for a column without text as its name."""
    for name in columns:
        if not isinstance(name, str):
            raise ValueError(
                f"a rule file names its columns by text, and a column here is {name!r}: "
                f"select on a table with named columns, as {cure}"
            )
