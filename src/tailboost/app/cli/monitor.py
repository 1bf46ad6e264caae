"""``watch``: what was certified or targeted, tested on later rows, batch after batch."""

from __future__ import annotations

import hashlib
import json
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import pandas as pd
import typer

from tailboost import Certificate, Monitor
from tailboost.app.cli import options as given
from tailboost.app.cli.models import PreparedTable, StoredModel, known_labels
from tailboost.app.cli.rates import read_limits, spelled, stated_limits
from tailboost.app.cli.shared import (
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
from tailboost.app.cli.targets import read_targets, stated_max_error, targets_by_label
from tailboost.app.report import render_monitor
from tailboost.core.output import held
from tailboost.guarantees.monitor import certificate_from, looked_at

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
    with ExitStack() as stack:
        with bad_input("--state: "):
            stack.enter_context(held(state))
        stored = StoredModel.read(model)
        columns, found = _read(state, model)
        begins = (certificate, max_error, limit, reference)
        if found is not None and any(each is not None for each in begins):
            raise BadInput(f"--state: {str(state)!r} says already what is watched; leave that out")
        asked = Asked.of(stored, certificate, max_error, limit) if found is None else None
        columns += stored.groups if stored.by_group or (asked is not None and asked.by_group) else []
        columns = list(dict.fromkeys([*columns, *(group or [])]))
        with warnings_as_lines():
            later = stored.rows_of(data, sep, purpose="watch", columns=columns, cluster=cluster)
            groups, rows, y = later.groups, _features(stored, later), _labels(stored, later, target)
            with bad_input(f"{data}: "):
                if asked is not None:
                    found = asked.begun(columns, groups, confidence)
                    if reference is not None:
                        before = stored.rows_of(reference, sep, purpose="compare with", columns=columns)
                        looked = looked_at(stored.whole, _features(stored, before), before.groups)
                        found = found.compared_with(looked)
                assert found is not None
                found = found.add(
                    stored.whole,
                    rows,
                    y,
                    groups=groups,
                    name=data.name.split(".")[0] if batch is None else batch,
                    equal_rows=equal_rows,
                    clusters=later.clusters,
                )
        document = {"model": _digest(model), "group": columns, "watch": found.to_dict()}
        write_out(state, json.dumps(document, allow_nan=False), "--state")
    if page is not None:
        write_out(page, render_monitor(found, f"{model.name}: watch"), "--page")
        say_aside(f"Page: {page}")
    if as_json:
        tell_json(found.summary())
    else:
        tell(str(found))
    if found.alarms:
        warn(found.verdict)
        raise typer.Exit(ALARM)


def _read(state: Path, model: Path) -> tuple[list[str], Monitor | None]:
    """Return the columns of groups of a state and its watch; none if the file does not exist yet."""
    if not state.exists():
        return [], None
    with bad_input(f"--state {state}: "):
        try:
            document = json.loads(state.read_text(encoding="utf-8"))
            columns, found = list(document["group"]), Monitor.from_dict(document["watch"])
        except (KeyError, TypeError, AttributeError, UnicodeDecodeError) as failure:
            raise ValueError(f"this is no state of a watch ({failure})") from None
    if document["model"] != _digest(model):
        raise BadInput(f"--state: {str(state)!r} is about another model than {str(model)!r}: begin a new one")
    return columns, found


def _digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


@dataclass(frozen=True)
class Asked:
    """What a new watch is to test: a certificate, targets, or limits."""

    classifier: Any
    certificate: Certificate | None
    max_error: Any
    limits: list[Any]
    by_group: bool  # whether bounds are about groups

    @classmethod
    def of(cls, stored: StoredModel, certificate: Path | None, max_error: Any, limit: Any) -> Asked:
        """Read what was asked for, or what the model was made for."""
        classifier = stored.classifier
        aims, limits = read_targets(max_error), list(read_limits(limit))
        if sum((certificate is not None, aims is not None, bool(limits))) > 1:
            raise BadInput("--certificate, --max-error and --limit: give one of them")
        proved = None if certificate is None else _certificate(certificate)
        if proved is None and aims is None and not limits:
            proved = getattr(classifier, "certificate_", None)
        if proved is None and aims is None and not limits:
            aims, limits = stated_max_error(classifier), list(stated_limits(classifier) or ())
            if aims is None and not limits:
                raise BadInput(
                    "nothing says what is to hold: give --certificate FILE, from `tailboost certify --json`, "
                    "--max-error or --limit"
                )
        counted = [limit.rate for limit in limits] if proved is None else [b.counted for b in proved.tested]
        return cls(classifier, proved, aims, limits, any(rate.needs_groups for rate in counted))

    def begun(self, columns: list[str], groups: Any, confidence: float) -> Monitor:
        """Return the watch, about the groups of the fit and of the first batch, and about other groups."""
        if self.certificate is not None:
            return Monitor.of(self.certificate)
        found = sorted({(name, value) for name in columns for value in groups[name]}) if columns else None
        known = [each for each in getattr(self.classifier, "groups_", []) if isinstance(each, tuple)]
        units = None if found is None else list(dict.fromkeys([*known, *found]))
        if self.limits:
            labels = self.classifier.classes_.tolist()
            said = [spelled(each, labels, columns, None) for each in self.limits]
            with bad_input("--limit: "):
                return Monitor.against(self.classifier, limits=said, units=units, confidence=confidence)
        named = targets_by_label(self.max_error, self.classifier.classes_, columns)
        with bad_input("--max-error: "):
            return Monitor.against(self.classifier, named, units=units, confidence=confidence)


def _certificate(path: Path) -> Certificate:
    """Return the certificate of a file."""
    with bad_input(f"--certificate {path}: "):
        try:
            return certificate_from(json.loads(path.read_text(encoding="utf-8")))
        except (KeyError, TypeError, AttributeError) as failure:
            raise ValueError(f"this is not what `tailboost certify --json` prints ({failure})") from None


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
