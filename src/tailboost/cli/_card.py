"""``card``: what a model is for, what was measured of it on new rows, and what was not."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tailboost.cli import _options as given
from tailboost.cli._models import StoredModel
from tailboost.cli._shared import BadInput, check_output, say, tell, write_out
from tailboost.cli._targets import read_targets, targets_by_label
from tailboost.report import Card


def card(
    model: given.Model,
    data: Annotated[
        Path, typer.Option("--data", metavar="FILE", help="New rows that the model is measured on.")
    ],
    out: Annotated[
        list[Path] | None,
        typer.Option(metavar="FILE", help="Where to write it: .md or .html; may be repeated."),
    ] = None,
    purpose: Annotated[str, typer.Option(metavar="TEXT", help="What the model is for, in your words.")] = "",
    target: given.Labels = None,
    group: given.Groups = None,
    cluster: given.Cluster = None,
    max_error: given.MaxError = None,
    confidence: given.Confidence = 0.95,
    equal_rows: given.EqualRows = "copies",
    sep: given.Sep = ",",
) -> None:
    """Write a card of a model: purpose, data, errors with certificates, limits, and what was not tested.

    Everything but the purpose is measured or was noted at the fit. Without --out the Markdown is printed.
    Groups are those of --group, else those of the fit.
    """
    for path in out or []:
        check_output("--out", path, model, data)
        if path.suffix not in (".md", ".html"):
            raise BadInput(f"--out: {str(path)!r} must end in .md or .html")
    aims = read_targets(max_error)
    stored = StoredModel.read(model)
    columns = stored.groups if group is None else group
    with stored.judging(data, sep, target, purpose="measure", columns=columns, cluster=cluster) as (later, y):
        found = Card.of(
            stored.classifier,
            later.rows,
            y,
            groups=later.groups,
            clusters=later.clusters,
            max_error=targets_by_label(aims, stored.classifier.classes_, columns),
            confidence=confidence,
            equal_rows=equal_rows,
            title=f"Model card: {model.name}",
            purpose=purpose,
            rows_are=data.name,
            notes={"target": stored.target, **stored.notes},
            versions=stored.versions,
        )
    for path in out or []:
        write_out(path, found.to_html() if path.suffix == ".html" else found.to_markdown())
        say(f"Card: {path}")
    if not out:
        tell(found.to_markdown())
