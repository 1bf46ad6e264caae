"""``card``: what a model is for, what was measured of it on new rows, and what was not."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tailboost._output import write_output
from tailboost.cli._models import StoredModel
from tailboost.cli._shared import (
    BadInput,
    Cluster,
    Confidence,
    EqualRows,
    Groups,
    Labels,
    Model,
    Quiet,
    Sep,
    Verbose,
    bad_input,
    check_output,
    exit_codes,
    say,
    tell,
    warnings_as_lines,
)
from tailboost.cli._targets import MaxError, read_targets, targets_by_label
from tailboost.report import Card


def card(
    model: Model,
    data: Annotated[
        Path, typer.Option("--data", metavar="FILE", help="New rows that the model is measured on.")
    ],
    out: Annotated[
        list[Path] | None,
        typer.Option(metavar="FILE", help="Where to write it: .md or .html; may be repeated."),
    ] = None,
    purpose: Annotated[str, typer.Option(metavar="TEXT", help="What the model is for, in your words.")] = "",
    target: Labels = None,
    group: Groups = None,
    cluster: Cluster = None,
    max_error: MaxError = None,
    confidence: Confidence = 0.95,
    equal_rows: EqualRows = "copies",
    sep: Sep = ",",
    quiet: Quiet = False,
    verbose: Verbose = False,
) -> None:
    """Write a card of a model: purpose, data, errors with certificates, limits, and what was not tested.

    Everything but the purpose is measured or was noted at the fit. Without --out the Markdown is printed.
    Groups are those of --group, else those of the fit.
    """
    with exit_codes(verbose, quiet):
        for path in out or []:
            check_output("--out", path, model, data)
            if path.suffix not in (".md", ".html"):
                raise BadInput(f"--out: {str(path)!r} must end in .md or .html")
        aims = read_targets(max_error)
        stored = StoredModel.read(model)
        columns = stored.groups if group is None else group
        with warnings_as_lines():
            aside = [*columns, *([cluster] if cluster else [])]
            later = stored.rows_of(data, sep, purpose="measure", but=aside)
            y = stored.labels_of(later, target)
            if aims is not None:
                aims = targets_by_label(aims, stored.classifier.classes_, columns)
            with bad_input(f"{data}: "):
                found = Card.of(
                    stored.classifier,
                    later.rows,
                    y,
                    groups=later.table_of_groups(columns),
                    clusters=None if cluster is None else later.column(cluster, "--cluster"),
                    max_error=aims,
                    confidence=confidence,
                    equal_rows=equal_rows,
                    title=f"Model card: {model.name}",
                    purpose=purpose,
                    rows_are=data.name,
                    notes={"target": stored.target, **stored.notes},
                    versions=stored.versions,
                )
        for path in out or []:
            with bad_input("--out: "):
                write_output(path, found.to_html() if path.suffix == ".html" else found.to_markdown())
            say(f"Card: {path}")
        if not out:
            tell(found.to_markdown())
