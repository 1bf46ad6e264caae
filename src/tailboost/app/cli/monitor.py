"""``monitor``: bounds and limits of a stored model, tested on later batches."""

from __future__ import annotations

import json
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import pandas as pd
import typer

from tailboost import Certificate, Monitor
from tailboost.app.cli import options, shared
from tailboost.app.cli import rates as stated
from tailboost.app.cli.label_files import LabelFile
from tailboost.app.cli.models import NewRows, Purpose, Reading, StoredModel, known_labels
from tailboost.app.cli.score_rules import read_model
from tailboost.app.report import render_monitor
from tailboost.core.array_types import Groups, Model, Stated
from tailboost.core.checks import reading
from tailboost.core.files import held
from tailboost.guarantees.stated import stated_by
from tailboost.rows.judged import judged, refuse_other_rule

ALARM = 3  # exit code
# Files that the command reads.
STATE = "state of `tailboost monitor`"
CERTIFICATE = "output of `tailboost certify --json`"


# Options of `monitor`.
State = Annotated[
    Path | None,
    options.option(
        "FILE",
        "Results so far; made by the first call. Default: MODEL's name with .monitor.json.",
    ),
]
CertificateFile = Annotated[
    Path | None, options.option("FILE", "First call: output of `tailboost certify --json`.")
]
Confidence = Annotated[
    float,
    options.option(
        "P",
        "First call, with targets: probability of no false alarm, ever.",
        parser=options.level,
    ),
]
Batch = Annotated[
    str | None,
    options.option(
        "NAME",
        "Name of the batch; default: that of DATA. Again for late labels.",
        "--batch",
        "--name",
    ),
]
RowId = Annotated[
    str | None,
    options.option(
        "COL",
        "Column of row ids, all different; no feature. Tells rows with equal features apart.",
        "--id",
    ),
]
Page = Annotated[Path | None, options.option("FILE", "HTML page of the evidence by batch.")]


def monitor(
    model: options.ModelOrRule,
    data: options.Data,
    state: State = None,
    target: options.Labels = None,
    group: options.Groups = None,
    certificate: CertificateFile = None,
    max_error: options.MaxError = None,
    limit: options.Limits = None,
    confidence: Confidence = 0.95,
    batch: Batch = None,
    row_id: RowId = None,
    page: Page = None,
    equal_rows: options.EqualRows = "copies",
    cluster: options.Cluster = None,
    csv: options.CsvFormat = options.CSV,
    as_json: options.Json = False,
) -> None:
    """Test bounds on a model's errors or rates on a batch of later rows, in addition to earlier batches.

    The command tests the bounds of --certificate, the targets of --max-error, or the limits of --limit; by
    default the bounds of the calibration or fit. If all bounds are true, the probability of any alarm,
    over all batches, is at most 5 % (1 - P). Rows without labels wait: give the batch again when the
    labels are known, in any order.

    Exit codes: 0 no alarm, 3 an alarm, 2 bad input.
    """
    if state is None:
        state = model.with_suffix(".monitor.json")
    shared.check_output("--state", state, model, data, certificate)
    if page is not None:
        shared.check_output("--page", page, model, data, certificate, state)
    with ExitStack() as stack:
        with shared.bad_input("--state: "):
            stack.enter_context(held(state))
        stored = LabelFile.read_if_several(model) or read_model(model)
        columns, evidence = read_state(state, stored)
        stated_now = any(x is not None for x in (certificate, max_error, limit))
        if evidence is not None and stated_now:
            raise shared.BadInput(
                f"--state: {str(state)!r} exists, so its bounds are tested; leave out --certificate, "
                "--max-error and --limit"
            )
        if evidence is None:
            tested = Tested.of(stored, certificate, max_error, limit)
        else:
            tested = None
        needed = stored.columns_read
        if tested is not None and tested.by_group:
            needed = stored.group_columns
        columns = list(dict.fromkeys([*columns, *needed, *(group or [])]))
        reading = Reading(
            Purpose.MONITOR, columns, cluster, () if row_id is None else (row_id,)
        )
        with shared.warnings_as_lines():
            rows = stored.read_rows(data, csv, reading)
            y = _labels(stored, rows, target)
            with shared.bad_input(f"{data}: "):
                if evidence is None:
                    assert tested is not None
                    evidence = tested.start(columns, rows.groups, confidence)
                evidence = evidence.add(
                    stored.model,
                    _features(stored, rows, reading),
                    y,
                    groups=rows.groups,
                    name=data.name.split(".")[0] if batch is None else batch,
                    equal_rows=equal_rows,
                    clusters=rows.clusters,
                    id=None if row_id is None else rows.column(row_id, "--id"),
                )
        document = {"model": stored.digest(), "group": columns, "monitor": evidence.to_dict()}
        shared.write_out(state, json.dumps(document, allow_nan=False), "--state")
        shared.say_aside(f"State: {state}")
    _tell(evidence, page, model.name, as_json)


def _tell(evidence: Monitor, page: Path | None, name: str, as_json: bool) -> None:
    """Print the evidence, and write its page; end with exit code 3 after an alarm."""
    if page is not None:
        shared.write_out(page, render_monitor(evidence, f"{name}: monitor"), "--page")
        shared.say_aside(f"Page: {page}")
    if as_json:
        shared.tell_json(evidence.summary())
    else:
        shared.tell(str(evidence))
    if evidence.alarms:
        shared.warn(evidence.verdict)
        raise typer.Exit(ALARM)


def read_state(
    state: Path, model: StoredModel, option: str = "--state"
) -> tuple[list[str], Monitor | None]:
    """Return the columns of groups and the monitor of a state file; no monitor if there is no file."""
    if not state.exists():
        return [], None
    with shared.bad_input(f"{option} {state}: "):
        with reading(STATE):
            document = shared.read_json(state)
            columns = list(document["group"])
            of_model = document["model"]
            stated = document["monitor"]
        evidence = Monitor.from_dict(stated)
    if of_model != model.digest():
        raise shared.BadInput(
            f"{option}: {str(state)!r} belongs to another model than {str(model.path)!r}; give a new file"
        )
    return columns, evidence


@dataclass(frozen=True)
class Tested:
    """The statements under test in a new monitor: a certificate, targets, or limits."""

    classifier: Model
    certificate: Certificate | None
    max_error: Stated
    limits: list[Any]
    by_group: bool  # whether bounds are about groups

    @classmethod
    def of(
        cls, stored: StoredModel, path: Path | None, max_error: Stated, limit: Any
    ) -> Tested:
        """Return the statements of the options, or of the calibration or fit."""
        classifier = stored.classifier
        targets = stated.read_targets(max_error)
        limits = stored.limits_of(stated.read_limits(limit))
        n_given = sum((path is not None, targets is not None, bool(limits)))
        if n_given > 1:
            raise shared.BadInput("--certificate, --max-error and --limit: give one of them")
        certificate = None
        if path is not None:
            certificate = _certificate(path, stored.model)
        if not n_given:
            own = stated_by(classifier)
            certificate = judged(classifier).certificate
            targets = own.max_error
            limits = list(own.limits)
            if certificate is None and targets is None and not limits:
                raise shared.BadInput(
                    "the model has no targets and no limits; give --certificate FILE (output of `tailboost "
                    "certify --json`), --max-error or --limit"
                )
        if certificate is None:
            rates = [one.rate for one in limits]
        else:
            rates = [b.counted for b in certificate.tested]
        return cls(
            classifier, certificate, targets, limits, any(rate.needs_groups for rate in rates)
        )

    def start(self, columns: list[str], groups: Groups, confidence: float) -> Monitor:
        """Return a monitor of the groups of the fit and of the first batch."""
        if self.certificate is not None:
            return Monitor.of(self.certificate)
        subgroups = None
        if columns:
            known = [each for each in judged(self.classifier).groups if isinstance(each, tuple)]
            new = sorted({(name, value) for name in columns for value in groups[name]})
            subgroups = list(dict.fromkeys([*known, *new]))
        if self.limits:
            labels = self.classifier.classes_.tolist()
            limits = [stated.in_table_terms(each, labels, columns) for each in self.limits]
            with shared.bad_input("--limit: "):
                return Monitor.against(
                    self.classifier, limits=limits, subgroups=subgroups, confidence=confidence
                )
        targets = stated.targets_by_label(self.max_error, self.classifier.classes_, columns)
        with shared.bad_input("--max-error: "):
            return Monitor.against(
                self.classifier, targets, subgroups=subgroups, confidence=confidence
            )


def _certificate(path: Path, model: Model) -> Certificate:
    """Return the certificate of a file, of the rule of a model."""
    with shared.bad_input(f"--certificate {path}: "):
        with reading(CERTIFICATE):
            certificate = Certificate.from_dict(shared.read_json(path))
        refuse_other_rule(certificate, model, "it")
    return certificate


def _features(stored: StoredModel, rows: NewRows, reading: Reading) -> Any:
    """Return the input of the whole stored model, read as at the fit."""
    if stored.encoder is None:
        return rows.features
    return stored.encoder.schema_.read(stored.features_in(rows.table, reading))


def _labels(stored: StoredModel, rows: NewRows, target: str | None) -> Any:
    """Return the labels (None for a missing label); None without a column of labels."""
    name = target or stored.target
    if name is None or name not in rows.table:
        if target is not None:
            raise shared.BadInput(f"--target: the data have no column {target!r}")
        return None
    column = rows.table[name]
    known = column.notna().to_numpy()
    labels = pd.Series([None] * len(column), dtype=object)
    if known.any():
        labels[known] = known_labels(column[known], stored.classifier.classes_, name).astype(
            object
        )
    return labels.to_numpy()
