"""Rule files, written: the rule of a classifier on columns of scores, with its limits and records."""

from __future__ import annotations

import json
from pathlib import Path

from tailboost.core.array_types import FilePath, Model
from tailboost.core.files import write_output
from tailboost.learners.scores import scores_among
from tailboost.rates import as_expression
from tailboost.rows.judged import judged
from tailboost.rows.seen import SELECTED_ON
from tailboost.storage.rule_files import RULE_FILE_FORMAT


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
    final = judged(classifier)
    columns = scores[0].column_list
    groups = list(final.group_titles)
    for name in (*columns, *groups):
        if not isinstance(name, str):
            raise ValueError(
                f"a rule file names its columns by text, and a column here is {name!r}: select on a table "
                "with named columns, such as groups={'site': site}"
            )
    by_group = classifier.by_group or None
    objective = classifier.objective
    certificate = final.certificate
    records = classifier.records_
    content = {
        "format": RULE_FILE_FORMAT,
        "rule": classifier.rule_.to_dict(),
        "selection": {
            "scores": columns,
            "labels": scores[0].label_list,
            "kind": scores[0].kind,
            "missing": scores[0].missing,
            "group": groups,
            "by_group": groups[0] if by_group is True else by_group,
            "objective": repr(objective) if as_expression(objective) else objective,
            "limits": [limit.text for limit in final.stated_limits],
            "target": target,
            "cluster": cluster,
        },
        "groups": list(final.groups),
        "groups_named": list(final.groups_named.items()),
        "certificate": None if certificate is None else certificate.to_dict(),
        "used": {
            "selection": [rows.to_dict() for rows in records.used if rows.use == SELECTED_ON],
            "attempts": 0 if certificate is None else len(certificate.attempts),
        },
        "ledger": records.ledger.to_dict(),
    }
    return json.dumps(content, indent=1, ensure_ascii=False) + "\n"
