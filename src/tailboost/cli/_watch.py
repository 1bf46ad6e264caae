"""``watch``: what was certified or targeted, tested on later rows, batch after batch."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Annotated, Any

import pandas as pd
import typer

from tailboost import Watch
from tailboost.cli import _options as given
from tailboost.cli._models import PreparedTable, StoredModel, known_labels
from tailboost.cli._rates import read_limits, spelled, stated_limits
from tailboost.cli._shared import (
    BadInput,
    bad_input,
    check_output,
    say_aside,
    tell,
    tell_json,
    warn,
    warnings_as_lines,
    write_out,
)
from tailboost.cli._targets import read_targets, stated_max_error, targets_by_label
from tailboost.report import render_watch
from tailboost.statements.watch import certificate_from, looked_at

ALARM = 3


def watch(
    model: given.Model,
    data: given.Data,
    state: Annotated[
        Path, typer.Option(metavar="FILE", help="What was found so far (JSON): made, then read and replaced.")
    ],
    target: given.Labels = None,
    group: given.Groups = None,
    certificate: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="First time: what `tailboost certify --json` printed."),
    ] = None,
    max_error: given.MaxError = None,
    limit: given.Limits = None,
    confidence: Annotated[
        float, typer.Option(metavar="P", help="First time, with targets: 1 - P of a false alarm, ever.")
    ] = 0.95,
    reference: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="First time: rows that columns are compared with; else DATA's."),
    ] = None,
    batch: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Of the batch; by default DATA's. Again: labels that came late."),
    ] = None,
    page: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Draw the evidence by batch into an HTML page.")
    ] = None,
    equal_rows: given.EqualRows = "copies",
    cluster: given.Cluster = None,
    sep: given.Sep = ",",
    as_json: given.Json = False,
) -> None:
    """Test bounds on a model's errors or rates on a batch of later rows, and go on from the batches before.

    The bounds are those of --certificate, the targets of --max-error, the limits of --limit, or what the
    model was calibrated or fitted for. If they are all true, any alarm, after however many batches, has a
    probability of at most 5 % (1 - P). Rows without a label wait for it: give the batch again once it is
    known. Columns, scores and answers are compared with the first rows without labels, which is weaker and
    no alarm.

    Exit codes: 0 no alarm, 3 an alarm, 2 what was given cannot be used.
    """
    check_output("--state", state, model, data)
    if page is not None:
        check_output("--page", page, model, data, state)
    aims, limits = read_targets(max_error), read_limits(limit)
    stored = StoredModel.read(model)
    known = _read(state, model)
    begins = (certificate, max_error, limit, reference)
    if known is not None and any(each is not None for each in begins):
        raise BadInput(f"--state: {str(state)!r} says already what is watched; leave that out")
    kept = [] if known is None else known["group"]
    columns = list(dict.fromkeys([*(stored.groups if stored.by_group else []), *kept, *(group or [])]))
    with warnings_as_lines():
        later = stored.rows_of(data, sep, purpose="watch", columns=columns, cluster=cluster)
        groups, rows, y = later.groups, _features(stored, later), _labels(stored, later, target)
        with bad_input(f"{data}: "):
            if known is None:
                found = _begun(stored, certificate, aims, limits, columns, groups, confidence)
                if reference is not None:
                    before = stored.rows_of(reference, sep, purpose="compare with", columns=columns)
                    looked = looked_at(stored.whole, _features(stored, before), before.groups)
                    found = found.compared_with(looked)
            else:
                found = known["watch"]
            name = data.name.split(".")[0] if batch is None else batch
            found = found.add(
                stored.whole,
                rows,
                y,
                groups=groups,
                name=name,
                equal_rows=equal_rows,
                clusters=later.clusters,
            )
    document = {"model": _digest(model), "group": columns, "watch": found.to_dict()}
    write_out(state, json.dumps(document, allow_nan=False), "--state")
    if page is not None:
        write_out(page, render_watch(found, f"{model.name}: watch"), "--page")
        say_aside(f"Page: {page}")
    if as_json:
        tell_json(found.summary())
    else:
        tell(str(found))
    if found.alarms:
        warn(found.verdict)
        raise typer.Exit(ALARM)


def _read(state: Path, model: Path) -> dict[str, Any] | None:
    """Return what a state holds; None where there is none yet."""
    if not state.exists():
        return None
    with bad_input(f"--state {state}: "):
        try:
            document = json.loads(state.read_text(encoding="utf-8"))
            found = {"group": list(document["group"]), "watch": Watch.from_dict(document["watch"])}
        except (KeyError, TypeError, AttributeError, UnicodeDecodeError) as failure:
            raise ValueError(f"this is no state of a watch ({failure})") from None
    if document["model"] != _digest(model):
        raise BadInput(f"--state: {str(state)!r} is about another model than {str(model)!r}: begin a new one")
    return found


def _digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def _begun(
    stored: StoredModel,
    certificate: Path | None,
    aims: Any,
    limits: list[Any],
    columns: list[str],
    groups: Any,
    confidence: float,
) -> Watch:
    """Return the watch of what was asked for, or of what the model was made for."""
    classifier = stored.classifier
    if sum((certificate is not None, aims is not None, bool(limits))) > 1:
        raise BadInput("--certificate, --max-error and --limit: give one of them")
    if certificate is not None:
        with bad_input(f"--certificate {certificate}: "):
            try:
                return Watch.of(certificate_from(json.loads(certificate.read_text(encoding="utf-8"))))
            except (KeyError, TypeError, AttributeError) as failure:
                raise ValueError(f"this is not what `tailboost certify --json` prints ({failure})") from None
    if aims is None and not limits:
        if hasattr(classifier, "certificate_"):
            return Watch.of(classifier.certificate_)
        aims, limits = stated_max_error(classifier), list(stated_limits(classifier) or ())
        if aims is None and not limits:
            raise BadInput(
                "nothing says what is to hold: give --certificate FILE, from `tailboost certify --json`, "
                "--max-error or --limit"
            )
    found = sorted({(name, value) for name in columns for value in groups[name]}) if columns else None
    known = [each for each in getattr(classifier, "groups_", []) if isinstance(each, tuple)]
    units = None if found is None else list(dict.fromkeys([*known, *found]))
    if limits:
        said = [spelled(each, classifier.classes_.tolist(), columns, None) for each in limits]
        with bad_input("--limit: "):
            return Watch.against(classifier, limits=said, units=units, confidence=confidence)
    named = targets_by_label(aims, classifier.classes_, columns)
    with bad_input("--max-error: "):
        return Watch.against(classifier, named, units=units, confidence=confidence)


def _features(stored: StoredModel, later: PreparedTable) -> Any:
    """Return the columns that the model as it is stored takes, read as at the fit."""
    return later.rows if stored.encoder is None else stored.encoder.schema_.read(later.table)


def _labels(stored: StoredModel, later: PreparedTable, target: str | None) -> Any:
    """Return the labels as the model knows them, None where there are none yet."""
    name = target or stored.target
    if name is None or name not in later.table:
        if target is not None:
            raise BadInput(f"--target: the data have no column {target!r}")
        return None
    column = later.table[name]
    there = column.notna().to_numpy()
    labels = pd.Series([None] * len(column), dtype=object)
    if there.any():
        labels[there] = known_labels(column[there], stored.classifier.classes_, name).astype(object)
    return labels.to_numpy()
