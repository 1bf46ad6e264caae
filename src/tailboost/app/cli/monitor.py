"""``monitor``: bounds and limits of a stored model, tested on later batches."""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Self

import numpy as np
import typer

from tailboost import Certificate, Monitor
from tailboost.app.cli import options, shared
from tailboost.app.cli.models import NewRows, Reading, StoredModel, known_labels
from tailboost.app.cli.rates import in_table_terms, read_limits, read_targets, targets_by_label
from tailboost.app.cli.score_rules import read_model
from tailboost.app.cli.shared import BadInput
from tailboost.app.report import render_monitor
from tailboost.core.array_types import Model, Stated
from tailboost.core.checks import reading
from tailboost.core.files import held
from tailboost.guarantees.stated import stated_by
from tailboost.rows.judged import judged, refuse_other_rule

ALARM = 3  # exit code
# Kinds of files, for messages about other content.
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
    Path | None,
    options.option(
        "FILE",
        "First call: output of `tailboost certify --json`, or a calibrated rule (.json).",
    ),
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
Page = Annotated[
    Path | None,
    options.option("FILE", "HTML page of the evidence by batch.", "--page", "--out"),
]


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
    equal_rows: options.EqualRows = None,
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
            stack.enter_context(held(state))  # until the state is written
        stored = read_model(model)
        columns, model_monitor = read_state(state, stored)
        needed_columns = stored.columns_read
        if model_monitor is None:
            new_bounds = _Bounds.of_options(stored, certificate, max_error, limit)
            if new_bounds.need_groups:
                needed_columns = stored.group_columns
        elif any(value is not None for value in (certificate, max_error, limit)):
            raise BadInput(
                f"--state: {str(state)!r} exists, so its bounds are tested; leave out "
                "--certificate, --max-error and --limit"
            )
        columns = list(dict.fromkeys([*columns, *needed_columns, *(group or [])]))
        unused = [name for name in (row_id, target) if name is not None]
        reading = Reading("monitor", columns, cluster, unused, may_lack_scores=True)
        with shared.warnings_as_lines():
            rows = stored.read_rows(data, csv, reading)
            y = _labels(stored, rows, target)
            with shared.bad_input(f"{data}: "):
                rows = stored.with_clusters(rows)
                if model_monitor is None:
                    model_monitor = new_bounds.monitor(stored.classifier, rows, confidence)
                ids = None if row_id is None else rows.column(row_id, "--id")
                if batch is None:
                    batch = data.name.split(".")[0]  # without any of its suffixes
                model_monitor = model_monitor.add(
                    stored.classifier,
                    rows.features,
                    y,
                    groups=rows.groups,
                    name=batch,
                    equal_rows=equal_rows,
                    clusters=rows.clusters,
                    id=ids,
                )
        document = {
            "model": stored.digest(),
            "group": columns,
            "monitor": model_monitor.to_dict(),
        }
        shared.write_out(state, json.dumps(document, allow_nan=False), "--state")
        shared.say_aside(f"State: {state}")
    _print_evidence(model_monitor, page, model.name, as_json)


def _print_evidence(
    model_monitor: Monitor, page: Path | None, name: str, as_json: bool
) -> None:
    """Print the evidence of a monitor, then write its page; end with exit code 3 after an alarm.

    The state is written, so the batch counts. To draw the page takes longer, and may fail.
    """
    if as_json:
        shared.tell_json(model_monitor.summary())
    else:
        shared.tell(str(model_monitor))  # the verdict comes first
    if page is not None:
        shared.write_out(page, render_monitor(model_monitor, f"{name}: monitor"), "--page")
        shared.say_aside(f"Page: {page}")
    if model_monitor.alarms:
        if as_json:
            shared.warn(model_monitor.verdict)
        raise typer.Exit(ALARM)


def read_state(
    state: Path, model: StoredModel, option: str = "--state"
) -> tuple[list[str], Monitor | None]:
    """Return the columns of groups and the monitor of a state file; [] and None if there is no file."""
    if not state.exists():
        return [], None
    with shared.bad_input(f"{option} {state}: "):
        with reading(STATE):
            document = shared.read_json(state)
            columns = list(document["group"])
            model_digest = document["model"]
            monitor_content = document["monitor"]
        model_monitor = Monitor.from_dict(monitor_content)
    if model_digest != model.digest():
        raise BadInput(
            f"{option}: {str(state)!r} belongs to another model than {str(model.path)!r}; "
            "give a new file"
        )
    return columns, model_monitor


def _certificate_of_file(path: Path) -> Certificate:
    """Return the certificate of a file of --certificate: an output of `certify`, or a calibrated rule."""
    with reading(CERTIFICATE):
        document = shared.read_json(path)
    if "certificate" in document:
        document = document["certificate"]
        if document is None:
            raise ValueError(
                "it is a rule without a certificate; state the limits to test by --limit, or "
                "make a rule with a certificate by `tailboost calibrate`"
            )
    with reading(CERTIFICATE):
        return Certificate.from_dict(document)


@dataclass(frozen=True)
class _Bounds:
    """The bounds for a new monitor: a certificate, or otherwise targets or limits."""

    certificate: Certificate | None
    targets: Stated = None
    limits: Sequence[Any] = ()

    @classmethod
    def of_options(
        cls,
        stored: StoredModel,
        path: Path | None,
        max_error: str | None,
        limit: list[str] | None,
    ) -> Self:
        """Return the bounds of one option, by default of the calibration, without one of the fit.

        ``path`` is the file of --certificate.
        """
        targets = read_targets(max_error)
        limits = stored.limits_of(read_limits(limit))
        sources = [path is not None, targets is not None, bool(limits)]
        if sources.count(True) > 1:
            raise BadInput("--certificate, --max-error and --limit: give one of them")
        if path is not None:
            with shared.bad_input(f"--certificate {path}: "):
                certificate = _certificate_of_file(path)
                refuse_other_rule(certificate, stored.model, "it")
            return cls(certificate)
        if targets is not None or limits:
            return cls(None, targets, limits)
        certificate = judged(stored.classifier).certificate
        stated_in_fit = stated_by(stored.classifier)
        if certificate is None and stated_in_fit.max_error is None and not stated_in_fit.limits:
            raise BadInput(
                "the model has no targets and no limits; give --certificate FILE (output of "
                "`tailboost certify --json`), --max-error or --limit"
            )
        return cls(certificate, stated_in_fit.max_error, list(stated_in_fit.limits))

    @property
    def need_groups(self) -> bool:
        """Whether a bound is by group."""
        rates = [limit.rate for limit in self.limits]
        if self.certificate is not None:
            rates = [bound.counted for bound in self.certificate.tested]
        return any(rate.needs_groups for rate in rates)

    def monitor(self, classifier: Model, rows: NewRows, confidence: float) -> Monitor:
        """Return a monitor of the bounds before its first batch, which has these rows.

        Without a certificate the monitor knows the groups of the fit and of these rows.
        """
        if self.certificate is not None:
            return Monitor.of(self.certificate)
        columns = rows.group_columns
        subgroups = None
        if columns:
            groups_of_fit = [
                group for group in judged(classifier).groups if isinstance(group, tuple)
            ]
            groups_of_rows = {
                (name, value)
                for name in columns
                if not judged(classifier).reads(name)  # it has no answer to other groups
                for value in rows.groups[name]
            }
            subgroups = list(dict.fromkeys([*groups_of_fit, *sorted(groups_of_rows)]))
        labels = classifier.classes_
        with shared.bad_input("--limit: " if self.limits else "--max-error: "):
            return Monitor.against(
                classifier,
                targets_by_label(self.targets, labels, columns),
                limits=in_table_terms(
                    self.limits, labels, columns, names_in_file=rows.column_names
                ),
                subgroups=subgroups,
                confidence=confidence,
            )


def _labels(stored: StoredModel, rows: NewRows, target: str | None) -> Any:
    """Return the labels of a batch (None for a missing label); None without a column of labels."""
    if target is not None:
        rows.present(target, "--target")
    name = target or stored.target
    if name is None or name not in rows.table:
        return None
    column = rows.table[name]
    has_label = column.notna().to_numpy()
    labels = np.full(len(column), None)
    labels[has_label] = known_labels(column[has_label], stored.classifier.classes_, name)
    return labels
