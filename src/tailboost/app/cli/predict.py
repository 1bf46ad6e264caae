"""``predict`` and ``decide``: answers for the rows of a later table, as a CSV file."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import pandas as pd
import typer

from tailboost.app.cli import options as given
from tailboost.app.cli.models import StoredModel
from tailboost.app.cli.shared import (
    BadInput,
    bad_input,
    check_output,
    escaped,
    say,
    warnings_as_lines,
    write_out,
)
from tailboost.classifiers.decisions import RandomizedDecision
from tailboost.core.subgroups import can_defer


def predict(
    model: given.Model,
    data: given.Data,
    out: Annotated[
        Path | None, typer.Option(metavar="FILE", help="The CSV file to write; by default it is printed.")
    ] = None,
    identity: Annotated[
        str | None, typer.Option("--id", metavar="COL", help="A column of DATA to write beside the answers.")
    ] = None,
    escape_formulas: given.Escape = False,
    sep: given.Sep = ",",
) -> None:
    """Predict the rows of a table: row (from 0), prediction, and a share or probability per class.

    If the model defers rows to a person, a further column, deferred, says which; their prediction is the
    label that the model would answer.

    A mixture gives shares, how often the randomised rule answers each class; they are no probabilities of
    the class. Columns are read as the model was fitted on them: values of another kind count as missing, new
    columns are ignored, and a warning says how many there are of each, and of categories not seen before.
    Labels are written as they were given; those that begin like a formula (=cmd) can harm in a spreadsheet,
    see --escape-formulas.
    """
    if out is not None:
        check_output("--out", out, model, data)
    if identity in ("row", "prediction", "deferred"):
        raise BadInput(f"--id: the answers have a column {identity!r} of their own")
    stored = StoredModel.read(model)
    with warnings_as_lines():
        later = stored.rows_of(data, sep, purpose="predict", but=[] if identity is None else [identity])
        answers: dict[str, Any] = {"row": range(len(later.table))}
        if identity is not None:
            answers[identity] = later.column(identity, "--id").to_numpy()
        with bad_input(f"{data}: "):
            answers |= _answers(stored.classifier, later.rows, stored.told(later))
    if out is None:
        print(_table(answers, escape_formulas), end="")
        return
    write_out(out, _table(answers, escape_formulas))
    say(f"{len(later.table):,} predictions: {out}")


def _answers(classifier: Any, rows: Any, told: dict[str, Any]) -> dict[str, Any]:
    answers = {"prediction": classifier.predict(rows, **told)}
    if can_defer(classifier):
        answers["deferred"] = classifier.defers(rows, **told)
    if hasattr(classifier, "predict_proba"):
        columns = {"probability": classifier.predict_proba(rows)}
        if hasattr(classifier, "reweight"):
            columns |= {"share": classifier.predict_distribution(rows, **told)}
        for word, values in columns.items():
            for label, column in zip(classifier.classes_, values.T, strict=True):
                answers[f"{word}_{label}"] = np.round(column, 9)
    return answers


def _table(answers: dict[str, Any], escape: bool) -> str:
    """Return the columns of answers as a CSV file; a spreadsheet would run a formula in their names too."""
    table = pd.DataFrame(answers)
    if escape:
        for name in table.select_dtypes(exclude=["number", "bool"]):
            table[name] = escaped(table[name].tolist())
        table.columns = pd.Index(escaped(table.columns))
    return str(table.to_csv(index=False))


def decide(
    model: given.Model,
    data: given.Data,
    identity: Annotated[
        str,
        typer.Option("--id", metavar="COL", help="The column of the people's ids: stable, all different."),
    ],
    secret_env: Annotated[
        str, typer.Option(metavar="VAR", help="The environment variable that holds the secret.")
    ],
    out: given.OutFile,
    context: Annotated[
        str | None,
        typer.Option(
            metavar="TEXT", help="Name of the decision, such as loans-2026; by default the target's name."
        ),
    ] = None,
    escape_formulas: given.Escape = False,
    sep: given.Sep = ",",
) -> None:
    """Draw a decision for each row by its id: id, prediction, the candidate that answered, and the draw.

    The prediction of a deferred row is "person". The same id gets the same draw in any file, order and
    process if secret and context are the same. If drawing is not acceptable, use `tailboost predict`.
    """
    check_output("--out", out, model, data)
    if identity in ("prediction", "candidate", "u", "deferred"):
        raise BadInput(f"--id: the decisions have a column {identity!r} of their own")
    if not os.environ.get(secret_env):
        # What was given is not repeated: it may be the secret itself.
        raise BadInput(
            "--secret-env takes the name of an environment variable that holds the secret; there is none "
            "of the name given, or it is empty"
        )
    stored = StoredModel.read(model)
    about = context if context is not None else stored.target
    if about is None:
        raise BadInput("--context: this model does not name its target; give a name for the decision")
    with bad_input(f"{model}: "):
        policy = RandomizedDecision(stored.classifier, os.fsencode(os.environ[secret_env]), about)
    with warnings_as_lines():
        later = stored.rows_of(data, sep, purpose="decide on", but=[identity])
        ids = later.column(identity, "--id")
        told = stored.told(later)
        with bad_input(f"{data}: --id {identity}: "):
            decisions = policy.decide(later.rows, ids, **told)
    answers = {
        identity: ids.to_numpy(),
        "prediction": decisions.answers,
        "candidate": decisions.candidate,
        "u": decisions.u,
    }
    if can_defer(stored.classifier):
        answers["deferred"] = decisions.deferred
    write_out(out, _table(answers, escape_formulas))
    deferred = f", {int(decisions.deferred.sum()):,} deferred" if decisions.deferred.any() else ""
    say(f"{len(decisions):,} decisions{deferred}: {out}")
    say(f"Context: {about}")
