"""``predict`` and ``decide``: predictions for the rows of a new table, as a CSV or Parquet file."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import pandas as pd
import typer

from tailboost.app.cli import options, shared
from tailboost.app.cli.models import NewRows, Reading, StoredModel
from tailboost.app.cli.score_rules import read_model
from tailboost.app.cli.shared import BadInput
from tailboost.classifiers.decisions import RandomizedDecision
from tailboost.core.array_types import Array, Document, Mask, Model, Table
from tailboost.core.spelling import how_many, number_form
from tailboost.core.table_files import is_parquet
from tailboost.core.written_numbers import as_number
from tailboost.rows.judged import judged, predicted_labels
from tailboost.rows.other_groups import groups_listed, rows_by_unknown_group
from tailboost.rows.subgroups import HUMAN_REVIEW, answers_or_review
from tailboost.storage.rule_classifier import RuleClassifier

NO_DEFAULT = "--default: the rule reads neither scores nor groups, so it answers every row"
# A number within the range of every kind of scores.
ANY_SCORE = 0.0
# A spreadsheet reads text with such a beginning as a formula.
FORMULAS = ("=", "+", "-", "@", "\t", "\r")


def predict(
    model: options.ModelOrRule,
    data: options.Data,
    out: Annotated[
        Path | None, options.option("FILE", "CSV or Parquet file to write; default: print.")
    ] = None,
    id_column: Annotated[
        str | None, options.option("COL", "Column of DATA to repeat in the output.", "--id")
    ] = None,
    default: Annotated[
        str | None,
        options.option(
            "LABEL", "Answer to rows without a score or of a group that the rule does not know."
        ),
    ] = None,
    escape_formulas: options.Escape = False,
    csv: options.CsvFormat = options.CSV,
    as_json: Annotated[
        bool,
        typer.Option(
            "--json",
            help="Print JSON: how many rows have each prediction, and FILE or all rows.",
        ),
    ] = False,
) -> None:
    """Predict the labels of new rows.

    The output has the row number (from 0), the prediction, and a probability per class, with the signs of
    --sep and --decimal.
    A randomised rule also has its label distribution: how often it predicts each label, empty for a
    deferred row. The prediction of a deferred row is "human review", and the column "deferred" marks it.
    Columns are read as at the fit. A warning counts new categories, and values of another type, which become
    missing. New columns are ignored. With a rule file of `tailboost tune`,
    the margin is the distance of the score to the nearest threshold.
    """
    if out is not None:
        shared.check_table_output(out, model, data)
    if id_column in ("row", "prediction", "deferred", "margin"):
        raise BadInput(f"--id: the output has its own column {id_column!r}")
    with shared.warnings_as_lines():
        stored = read_model(model)
        unused = [] if id_column is None else [id_column]
        reading = Reading(
            "predict", unused=unused, fresh=False, may_lack_scores=default is not None
        )
        rows = stored.read_rows(data, csv, reading)
        answers, defaults = _answers_with_default(stored, rows, default)
        if default is None:
            stored.warn_of_other_groups(rows)
        columns = {"row": range(len(rows.table))}
        if id_column is not None:
            columns[id_column] = rows.column(id_column, "--id").to_numpy()
    if out is not None:
        _write(out, columns | answers, escape_formulas, csv)
    if as_json:
        shared.tell_json(_document(out, columns, answers) | defaults)
    elif out is None:
        print(_csv(columns | answers, escape_formulas, csv), end="")
    else:
        shared.say(f"{len(rows.table):,} predictions: {out}")


def _document(
    out: Path | None, columns: dict[str, Any], answers: dict[str, Any]
) -> dict[str, Any]:
    """Return the JSON document of `predict`: the numbers of rows by answer, and the file or all rows."""
    table = pd.DataFrame(columns | answers)
    counts = {
        name: table[name].astype(str).value_counts().to_dict()
        for name in answers
        if name.startswith("prediction")
    }
    document = {"rows": len(table), "counts": counts, "file": out}
    if out is None:
        document["table"] = json.loads(table.to_json(orient="records", double_precision=15))
    return document


def _answer_of(default: str, labels: Sequence[Any]) -> Any:
    """Return the answer of --default: a label in its type, or "human review"."""
    by_text = {str(label): label for label in labels}
    by_text.setdefault(HUMAN_REVIEW, HUMAN_REVIEW)
    if default not in by_text:
        raise BadInput(f"--default: {default!r} is none of {', '.join(map(repr, by_text))}")
    return by_text[default]


def _told_of_default(
    rows: NewRows,
    default: str,
    has_default: Mask,
    lacks_score: Mask,
    unknown_groups: Mapping[str, Array],
) -> Document:
    """Print how many rows have the answer of --default, and why; return the same for JSON."""
    n_default = int(has_default.sum())
    n_lacking = int(lacks_score.sum())
    by_column = {
        column: rows_by_unknown_group(names) for column, names in unknown_groups.items()
    }
    if n_default:
        reasons = [f"{how_many(n_lacking, 'row')} without a score"] if n_lacking else []
        for column, rows_by_group in by_column.items():
            if rows_by_group:
                reasons.append(f"unknown to the rule: {column} {groups_listed(rows_by_group)}")
        shared.say_aside(
            f"{how_many(n_default, 'row')} of {rows.path.name} {number_form(n_default, 'has', 'have')} "
            f"the answer {default!r} ({'; '.join(reasons)}). No limit and no certificate counts "
            "such rows."
        )
    counts = {"rows": n_default, "without_score": n_lacking, "unknown_groups": by_column}
    return {"default": counts}


def _answers_with_default(
    stored: StoredModel, rows: NewRows, default: str | None
) -> tuple[dict[str, Any], Document]:
    """Return the columns of the output of `predict`, and the rows with the answer of --default for JSON.

    The answer of --default is that of rows without a score or of an unknown group.
    """
    with shared.bad_input(f"{rows.path}: "):
        if default is None:
            known = stored.group_arguments(rows)
            return _predictions(stored.classifier, rows.features, known), {}
        view = judged(stored.classifier)
        if not stored.by_group and not view.columns_of_scores:
            raise BadInput(NO_DEFAULT)
        answer = _answer_of(default, stored.classifier.classes_.tolist())
        lacks_score = view.without_score(rows.features)
        unknown_groups = stored.unknown_groups(rows)
        is_unknown = np.zeros(len(rows.table), dtype=np.bool_)
        for names in unknown_groups.values():
            is_unknown |= names != ""
        has_default = is_unknown | lacks_score
        # The rule has no answer to such rows, so any known group takes the place of theirs, and a score
        # that is one of every kind.
        table = rows.table
        for name in unknown_groups:
            groups = rows.groups_by([name])[name].to_numpy()
            known_group = stored.groups_known(name)[0]
            table = table.assign(**{name: np.where(is_unknown, known_group, groups)})
        features = rows.features
        if lacks_score.any():
            features = features.copy()
            features.loc[lacks_score, view.columns_of_scores] = ANY_SCORE
        group_arguments = stored.group_arguments(replace(rows, table=table))
        answers = _predictions(stored.classifier, features, group_arguments)
        answers = _without_probabilities(answers, lacks_score)
        defaults = _told_of_default(rows, default, has_default, lacks_score, unknown_groups)
        return _with_default(answers, has_default, answer), defaults


def _without_probabilities(answers: dict[str, Any], lacks_score: Mask) -> dict[str, Any]:
    """Return the columns of the output without probabilities of rows without a score."""
    columns = dict(answers)
    for name, column in answers.items():
        if name.startswith("probability_"):
            columns[name] = np.where(lacks_score, np.nan, column)
    return columns


def _with_default(answers: dict[str, Any], has_none: Mask, default: Any) -> dict[str, Any]:
    """Return the columns of the output with the answer ``default`` to rows without one of the rule.

    These rows have no margin and no distribution.
    """
    columns = {}
    for name, column in answers.items():
        values = np.array(column)
        if name == "prediction":
            values = np.where(has_none, default, values.astype(object))
        elif name == "deferred":
            values[has_none] = default == HUMAN_REVIEW
        elif name == "margin" or name.startswith("distribution_"):
            values[has_none] = np.nan
        columns[name] = values
    return columns


def _predictions(classifier: Model, features: Table, groups: dict[str, Any]) -> dict[str, Any]:
    """Return the columns of the output of `predict` by their names, without row numbers and ids.

    ``groups`` are the keyword arguments of a group-aware rule.
    """
    if isinstance(classifier, RuleClassifier):
        columns = {"prediction": classifier.actions(features, **groups)}
        if judged(classifier).can_defer:
            columns["deferred"] = columns["prediction"] == HUMAN_REVIEW
        margin = classifier.margin(features, **groups)
        if margin is not None:
            columns["margin"] = np.round(margin, 9)
        return columns
    columns = {"prediction": predicted_labels(classifier, features, **groups)}
    if judged(classifier).can_defer:
        columns["deferred"] = classifier.defers(features, **groups)
        columns["prediction"] = answers_or_review(columns["prediction"], columns["deferred"])
    if hasattr(classifier, "predict_proba"):
        by_label = {"probability": classifier.predict_proba(features)}
        if judged(classifier).draws:
            distribution = classifier.predict_distribution(features, **groups)
            if "deferred" in columns:
                distribution[columns["deferred"]] = np.nan  # the rule gives no label there
            by_label["distribution"] = distribution
        for name, values in by_label.items():
            for label, column in zip(classifier.classes_, values.T, strict=True):
                columns[f"{name}_{label}"] = np.round(column, 9)
    return columns


def _write(out: Path, columns: dict[str, Any], escape: bool, csv: options.CsvFormat) -> None:
    """Write columns to --out: as Parquet by its suffix, otherwise as CSV."""
    if not is_parquet(out):
        if out.suffix.lower() == ".tsv":
            csv = csv._replace(sep="\t")
        shared.write_out(out, _csv(columns, escape, csv))
        signs = [
            f"--{name} {csv.noted[name]!r}" for name in ("sep", "decimal") if name in csv.noted
        ]
        if signs:  # noted at the fit, perhaps long ago
            shared.say_aside(f"{out} is written with {' and '.join(signs)}")
        return
    table = pd.DataFrame(columns)
    for name, column in table.items():
        if column.dtype == object:  # labels of several types have no type in Parquet
            table[name] = column.astype(str)
    shared.write_out(out, table.to_parquet(index=False))


def _csv(columns: dict[str, Any], escape: bool, csv: options.CsvFormat) -> str:
    """Return columns as the text of a CSV file.

    Texts that a spreadsheet would run as formulas are escaped, or cause a warning. Names of columns may be
    such texts too.
    """
    table = pd.DataFrame(columns)
    text_columns = list(table.select_dtypes(exclude=["number", "bool"]))
    if escape:
        for name in text_columns:
            table[name] = _escaped(table[name].tolist())
        table.columns = pd.Index(_escaped(table.columns))
        return csv.text_of(table)
    texts = chain(table.columns, *(table[name].unique() for name in text_columns))
    first_formula = next(filter(_is_formula, texts), None)
    if first_formula is not None:
        shared.warn(
            f"a spreadsheet would run {first_formula[:40]!r} as a formula: --escape-formulas "
            "puts an apostrophe before it"
        )
    return csv.text_of(table)


def _escaped(labels: Iterable[Any]) -> list[Any]:
    """Return labels with an apostrophe before each text with a formula for a spreadsheet."""
    return [f"'{x}" if _is_formula(x) else x for x in labels]


def _is_formula(label: Any) -> bool:
    """Whether a spreadsheet takes a label for a formula; a negative number is none."""
    return isinstance(label, str) and label.startswith(FORMULAS) and as_number(label) is None


def decide(
    model: options.Model,
    data: options.Data,
    id_column: Annotated[
        str, options.option("COL", "Column of ids: stable, and all different.", "--id")
    ],
    secret_env: Annotated[
        str,
        options.option(
            "VAR",
            "Environment variable with a secret of at least 16 bytes, without which nobody can "
            'foresee the draws. Make it once: export VAR="$(openssl rand -hex 16)", and keep it.',
        ),
    ],
    out: options.OutFile,
    context: Annotated[
        str | None,
        options.option(
            "TEXT", "Name of the decision, such as loans-2026; default: the name of the target."
        ),
    ] = None,
    escape_formulas: options.Escape = False,
    csv: options.CsvFormat = options.CSV,
) -> None:
    """Draw a decision for each row by its id.

    The output has the id, the prediction, the answering candidate, and the draw.
    The prediction of a deferred row is "human review". The same id gets the same draw in any file, order and
    process if secret and context are the same. If drawing is not acceptable, use `tailboost predict`.
    """
    shared.check_table_output(out, model, data)
    if id_column in ("prediction", "candidate", "u", "deferred"):
        raise BadInput(f"--id: the output has its own column {id_column!r}")
    if not os.environ.get(secret_env):
        # The message does not repeat the name, which may be the secret itself.
        raise BadInput(
            "--secret-env must name an environment variable that holds the secret; the given "
            "variable does not exist or is empty"
        )
    stored = StoredModel.read(model)
    if context is None:
        context = stored.target
    if context is None:
        raise BadInput(
            "--context: the model does not name its target; give a name for the decision"
        )
    secret = os.fsencode(os.environ[secret_env])
    with shared.bad_input(f"{model}: "):
        policy = RandomizedDecision(stored.classifier, secret, context)
    reading = Reading("decide on", unused=[id_column], fresh=False)
    with shared.warnings_as_lines():
        rows = stored.read_rows(data, csv, reading)
        stored.warn_of_other_groups(rows)
        ids = rows.column(id_column, "--id")
        groups = stored.group_arguments(rows)
        with shared.bad_input(f"{data}: --id {id_column}: "):
            decisions = policy.decide(rows.features, ids, **groups)
    columns = {
        id_column: ids.to_numpy(),
        "prediction": decisions.answers,
        "candidate": decisions.candidate,
        "u": decisions.u,
    }
    if judged(stored.classifier).can_defer:
        columns["deferred"] = decisions.deferred
    _write(out, columns, escape_formulas, csv)
    message = f"{len(decisions):,} decisions"
    n_deferred = int(decisions.deferred.sum())
    if n_deferred:
        message += f", {n_deferred:,} deferred"
    shared.say(f"{message}: {out}")
    shared.say(f"Context: {context}")
