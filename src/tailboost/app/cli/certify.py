"""``certify``, ``calibrate`` and ``card``: bounds on a model's rates from fresh rows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from tailboost import NotCertifiedError
from tailboost import certify as certify_model
from tailboost.app.cli import options, score_rules, shared
from tailboost.app.cli import rates as stated
from tailboost.app.cli.label_files import LabelFile
from tailboost.app.cli.models import (
    FileLedger,
    Reading,
    StoredModel,
    check_model_output,
)
from tailboost.classifiers.calibrating import OneBatch
from tailboost.core.array_types import Stated
from tailboost.core.long_work import doing
from tailboost.guarantees.calibration import calibrate_selected
from tailboost.guarantees.recheck import Recheck
from tailboost.guarantees.stated import stated_by
from tailboost.rows.fingerprints import EqualRows
from tailboost.rows.given import Given
from tailboost.rows.judged import judged, last_step

CALIBRATING = "Selecting and certifying a rule"
CALIBRATE = (
    "Not certified. `tailboost calibrate` looks for a certified rule on other fresh rows."
)
NOT_CERTIFIED = 4  # exit code of `certify --require`

# Options of `certify`.
Require = Annotated[
    bool,
    typer.Option(
        "--require", help=f"Exit with code {NOT_CERTIFIED} if a limit is not certified."
    ),
]
CostRange = Annotated[
    str | None,
    options.option("A,B", "With costs by row: smallest and largest cost, as 0,50000."),
]
# Options of `calibrate`.
Calibrated = Annotated[
    Path,
    options.option("FILE", "Calibrated file to write: a model, or a rule.", "--model", "--out"),
]
ModelOrScores = Annotated[
    Path,
    typer.Argument(
        metavar="MODEL",
        help="Model file, rule file of `tailboost tune`, or with --score the table of scores itself.",
    ),
]
FreshTable = Annotated[
    Path | None,
    typer.Argument(
        metavar="[DATA]", help="Table of fresh rows; none with --score, or --unlabeled alone."
    ),
]
Previous = Annotated[
    Path | None,
    options.option("FILE", "Another model file, whose recorded attempts count too."),
]
Attempts = Annotated[
    int | None,
    options.option(
        "N",
        "Number of attempts of the model, which divide the error probability evenly.",
        min=1,
    ),
]
SelectionData = Annotated[
    Path | None,
    options.option(
        "FILE",
        "For a rule file: its selection data, to select again. Default: a random part of DATA selects.",
    ),
]
Score = Annotated[
    list[str] | None,
    options.option(
        "COL", "Column of the score in the table MODEL; one for each label if repeated."
    ),
]
# Options of `card`.
Card = Annotated[
    list[Path] | None,
    options.option("FILE", "File to write, .md or .html; may be repeated. Default: print."),
]
OfModel = Annotated[str, options.option("TEXT", "Purpose of the model, in your words.")]
MonitorState = Annotated[
    Path | None, options.option("FILE", "State of `tailboost monitor` for this model.")
]


def certify(
    model: options.ModelOrRule,
    data: options.Data,
    target: options.Labels = None,
    group: options.Groups = None,
    confidence: options.Confidence = 0.95,
    max_error: options.MaxError = None,
    rate: options.Rates = None,
    limit: options.Limits = None,
    require: Require = False,
    costs: options.Costs = None,
    cost_range: CostRange = None,
    equal_rows: options.EqualRows = "copies",
    cluster: options.Cluster = None,
    training_rows: options.TrainingRows = None,
    csv: options.CsvFormat = options.CSV,
    details: options.Details = False,
    as_json: options.Json = False,
) -> None:
    """Compute confidence bounds for a model's errors or rates from fresh rows.

    DATA are fresh rows: no fit and no selection used them. All bounds hold together with the given
    confidence. The bounds are for the rates of --rate and the limits of --limit; by default for the limits
    of the fit; without limits for the errors by class and group, with the targets of --max-error or of the
    fit. The command fails if more than 5 % of the rows are training rows. MODEL may be a rule file of
    `tailboost tune`.
    """
    targets = stated.read_targets(max_error)
    asked = [*stated.read_rates(rate), *stated.read_limits(limit)]
    labelled = LabelFile.read_if_several(model)
    if labelled is not None:
        if group or not all(
            value is None for value in (targets, costs, cost_range, target, training_rows)
        ):
            raise shared.BadInput(
                "rules of several labels per row are certified by --limit alone"
            )
        rows_and_labels = labelled.fresh_rows(data, csv, cluster)
        with shared.bad_input(f"{data}: "):
            certificate = labelled.rules.certify(
                **rows_and_labels, limits=asked or None, confidence=confidence
            )
        _print_certificate(certificate, as_json, require, details, CALIBRATE)
        return
    stored = score_rules.read_model(model)
    classifier = stored.classifier
    by_rates = asked or (targets is None and stated_by(classifier).limits)
    needed = stored.group_columns if by_rates else stored.columns_read
    columns = list(dict.fromkeys([*needed, *(group or [])]))
    labels = classifier.classes_
    with (
        stored.labelled_rows(
            data, csv, target, Reading("certify on", columns, cluster)
        ) as rows,
        doing(f"Certifying on {len(rows.table):,} rows"),
    ):
        table = stated.CostTable.read(costs, labels, rows.y, data, csv)
        certificate = certify_model(
            classifier,
            rows.features,
            rows.y,
            confidence=confidence,
            groups=rows.groups,
            max_error=stated.targets_by_label(targets, labels, columns),
            rates=stated.in_table_terms(asked, labels, columns, table) or None,
            costs=table.by_row,
            cost_range=_two_numbers("--cost-range", cost_range),
            equal_rows=equal_rows,
            clusters=rows.clusters,
            training_rows=stored.features_of(training_rows, csv),
        )
        earlier = judged(last_step(classifier)).certificate
        stands = False
        if earlier is not None and not as_json:
            about: dict[str, Any] = {
                "groups": rows.groups,
                "clusters": rows.clusters,
                "equal_rows": equal_rows,
                "costs": table.by_row,
                "cost_range": _two_numbers("--cost-range", cost_range),
            }
            try:
                further = earlier.recheck(rows.features, rows.y, model=classifier, **about)
            except ValueError as failure:
                words = (
                    f"No test of these rows against the certificate of {model.name}: {failure}."
                )
            else:
                stands = not further.contradicted
                words = f"{_agreement(further, model.name)} By these rows alone:"
            shared.tell(f"{words}\n")
    _print_certificate(certificate, as_json, require, details, "" if stands else CALIBRATE)


def _agreement(further: Recheck, name: str) -> str:
    """Return whether further rows contradict the certificate of a rule."""
    if further.contradicted:
        broken = ", ".join(further.broken)
        return f"These rows contradict the certificate of {name}: {broken}."
    return f"The certificate of {name} stands; these rows do not contradict it."


def tell_certificate(certificate: Any, details: bool) -> None:
    """Print a certificate, and on request all that it assumes."""
    shared.tell(certificate.text("--details"))
    if details:
        shared.tell(f"\n{certificate.assumptions}")


def _print_certificate(
    certificate: Any, as_json: bool, require: bool, details: bool, advice: str
) -> None:
    """Print a certificate; end with an exit code if a required limit is not certified.

    ``advice`` follows where a limit is not certified.
    """
    if as_json:
        shared.tell_json(certificate.to_dict())
    else:
        tell_certificate(certificate, details)
        if certificate.certified is False and advice:
            shared.say(advice)
    if not require:
        return
    if certificate.certified is None:
        raise shared.BadInput("--require: there is no limit to certify; give one by --limit")
    if not certificate.certified:
        lacking = ", ".join(
            bound.title for bound in certificate.tested if bound.certified is False
        )
        raise typer.Exit(shared.fail(f"not certified: {lacking}", NOT_CERTIFIED))


def _two_numbers(option: str, text: str | None) -> tuple[float, float] | None:
    if text is None:
        return None
    try:
        low, high = map(shared.read_number, text.split(","))
    except ValueError:
        raise shared.BadInput(f"{option}: {text!r} must be two numbers, as 0,50000") from None
    return low, high


def calibrate(
    model: ModelOrScores,
    out: Calibrated,
    data: FreshTable = None,
    max_error: options.MaxError = None,
    limit: options.Limits = None,
    target: options.Labels = None,
    group: options.Groups = None,
    confidence: options.Confidence = 0.95,
    cluster: options.Cluster = None,
    previous: Previous = None,
    attempts: Attempts = None,
    selection: SelectionData = None,
    score: Score = None,
    positive: options.Positive = None,
    kind: options.Kind = "probability",
    missing: options.Missing = None,
    by_group: options.ByGroup = None,
    objective: options.Objective = None,
    unlabeled: options.Unlabeled = None,
    training_rows: options.TrainingRows = None,
    equal_rows: options.EqualRows = "copies",
    csv: options.CsvFormat = options.CSV,
    details: options.Details = False,
) -> None:
    """Select the least restricted rule with certified targets or limits, on fresh rows.

    The rule has the smallest overall error of all certified ones. No fit may have used the rows. Bounds on
    other rates need further rows (`tailboost certify`). The defaults of --max-error and --limit are the
    targets and limits of the fit. A model or score without a selected rule needs no other table: a random
    part of the rows selects. If no rule is certified, no file is written and the exit code is 1. The attempt
    is recorded in the file MODEL before the test, and in the new file. A later attempt counts all recorded
    ones, and needs other rows. A table of scores records no attempt. Fresh rows of --unlabeled count in
    limits that need no label, such as 'gap(selected(1, by=sex)) <= .05'; these alone need no DATA.
    """
    targets = stated.read_targets(max_error)
    limits = stated.read_limits(limit)
    if targets is not None and limits:
        raise shared.BadInput("--max-error and --limit: give one of them")
    if unlabeled is not None and cluster is not None:
        raise shared.BadInput(
            "--cluster and --unlabeled: the clusters of rows without labels are not known"
        )
    fresh = _Fresh(data, unlabeled, training_rows, csv, target, cluster, equal_rows)
    fresh.refuse_errors(targets)
    of_call: dict[str, Any] = {"confidence": confidence, "attempts": attempts}
    if not score and (labelled := LabelFile.read_if_several(model)) is not None:
        options_given = (
            max_error, target, group, previous, positive, objective, training_rows, by_group
        )  # fmt: skip
        if any(value is not None for value in options_given):
            raise shared.BadInput(
                "rules of several labels per row are calibrated by --limit alone"
            )
        _calibrate_labels(labelled, out, fresh, selection, limits, of_call, details)
        return
    columns = options.columns_of_groups(group, by_group)
    minimised = stated.read_objective(objective)
    if previous is not None:
        ledger = score_rules.read_model(previous).read_ledger()
        of_call["previous"] = ledger if ledger.attempts else None
    if not score:
        _calibrate_model(
            model, out, fresh, [selection, previous], targets, limits, columns, of_call, details
        )
        return
    if data is not None or selection is not None or target is None:
        raise shared.BadInput("--score: give one table, the --target column, and no model")
    if targets is None and not limits:
        raise shared.BadInput("--max-error or --limit: one of them is needed")
    score_rules.check_options(kind, missing, objective=minimised, limits=limits)
    selection_settings = score_rules.RuleSelection(
        tuple(score),
        (),
        target,
        tuple(columns),
        by_group,
        minimised,
        tuple(limits),
        kind=kind,
        missing=missing,
    )
    fresh = replace(fresh, data=model)
    _calibrate_scores(out, fresh, selection_settings, positive, targets, of_call, details)


@dataclass(frozen=True)
class _Fresh:
    """The files of fresh rows, and how their columns are read."""

    data: Path | None
    unlabeled: Path | None
    training_rows: Path | None
    csv: options.CsvFormat
    target: str | None
    cluster: str | None
    equal_rows: EqualRows

    @property
    def files(self) -> list[Path | None]:
        """The files, which an output must not replace."""
        return [self.data, self.unlabeled, self.training_rows]

    def refuse_errors(self, targets: Stated) -> None:
        """Raise if there are targets on errors, and rows without labels."""
        if targets is not None and self.unlabeled is not None:
            raise shared.BadInput(
                "--unlabeled: bounds of errors, from --max-error or the fit, need labels. State limits on "
                "answers alone, as --limit 'selected(1) <= 30%', or leave --unlabeled out"
            )

    def rows(self, stored: StoredModel, columns: Sequence[str], *, with_groups: bool) -> Given:
        """Return the rows with and without labels, of which one may be absent."""
        reading = Reading("calibrate on", columns, self.cluster)
        used: dict[str, Any] = {} if with_groups else {"group_columns": ()}
        arguments: dict[str, Any] = {"equal_rows": self.equal_rows}
        if self.data is not None:
            read = stored.read_labelled(self.data, self.csv, self.target, reading)
            rows = replace(read, **used)
            arguments |= {"X": rows.features, "y": rows.y, "groups": rows.groups}
            arguments["clusters"] = rows.clusters
        if self.unlabeled is not None:
            more = stored.read_rows(self.unlabeled, self.csv, reading)
            arguments |= replace(more, **used).unlabeled()
        training_rows = stored.features_of(self.training_rows, self.csv)
        return Given(training_rows=training_rows, **arguments)


def _calibrate_model(
    model: Path,
    out: Path,
    fresh: _Fresh,
    others: Sequence[Path | None],
    targets: Stated,
    limits: Sequence[Any],
    group: Sequence[str],
    of_call: dict[str, Any],
    details: bool,
) -> None:
    """Calibrate a stored model or rule; ``others`` are the selection data and the earlier model file."""
    selection, previous = others
    if fresh.data is None and fresh.unlabeled is None:
        raise shared.BadInput(
            "DATA is missing: name the table of fresh rows, or the --score column of MODEL"
        )
    if shared.is_rule_file(model) != shared.is_rule_file(out):
        raise shared.BadInput(
            "--model: a rule file (.json) gives a rule file, and a model file a model file; "
            "MODEL is the first argument, DATA the second"
        )
    stored = score_rules.read_model(model)
    if isinstance(stored, score_rules.StoredRule):
        shared.check_output("--model", out, model, selection, previous, *fresh.files)
        if selection is not None:
            stored = stored.selected_again(selection, fresh.csv)
    else:
        check_model_output("--model", out, model, previous, *fresh.files)
    classifier = stored.classifier
    ledger = FileLedger(stored)
    columns = list(dict.fromkeys([*stored.group_columns, *group]))
    asked = stated.in_table_terms(limits, classifier.classes_, columns)
    if targets is None and not asked:
        own = stated_by(classifier)
        targets = own.max_error
        asked = list(own.limits)
        if targets is None and not asked:
            raise shared.BadInput(
                "--max-error: the model was fitted without targets; give targets, or a --limit"
            )
    else:
        targets = stated.targets_by_label(targets, classifier.classes_, columns)
    fresh.refuse_errors(targets)
    selected = judged(classifier).selects_rule
    # Otherwise a part of the rows selects, with groups.
    with_groups = stored.by_group or bool(asked or group) or not selected
    with (
        shared.warnings_as_lines(),
        shared.bad_input(f"{fresh.data or fresh.unlabeled}: "),
        _missing_said(model, ledger),
        doing(CALIBRATING),
    ):
        given = fresh.rows(stored, columns, with_groups=with_groups)
        if selected:
            classifier.records_ = replace(classifier.records_, ledger=ledger)
            point = calibrate_selected(
                classifier, given, targets, limits=asked or None, **of_call
            )
        elif fresh.data is None:
            raise shared.BadInput(
                "DATA is missing: a rule is selected first, which rows without labels cannot do (for a rule "
                "file, --selection names its selection data)"
            )
        else:
            batch = stored.one_batch(given, targets, asked or None)
            records = batch.classifier.records_
            batch.classifier.records_ = replace(records, ledger=ledger)
            point = batch.certified(**of_call)
            stored = stored.selected_on(fresh.data)
    stored.save(
        point, out, calibrated=" and ".join(path.name for path in fresh.files[:2] if path)
    )
    tell_certificate(point.certificate_, details)
    shared.say(f"Attempts recorded in {model} and {out}: {len(ledger.attempts)}.")
    shared.say(f"Model: {out}, a rule with certified {'limits' if asked else 'targets'}.")


@contextmanager
def _missing_said(recorded_in: Path | None, ledger: Any) -> Iterator[None]:
    """End with exit code 1 if nothing is certified, with a line for each target and the attempts so far."""
    try:
        yield
    except NotCertifiedError as error:
        first, *lines = error.reason.split("\n")
        code = shared.fail(f"no model is written: {first}", 1)
        for line in lines:
            shared.say_aside(line)
        if error.attempts:
            shared.say_aside(
                "These rows cannot be used again, also not with other limits. No file records this attempt"
                if recorded_in is None
                else f"These rows cannot be used again. Attempts recorded in {recorded_in}: "
                f"{len(ledger.attempts)}. Call calibrate again with a file of other rows: each further "
                "attempt has a smaller part of the error probability"
            )
        raise typer.Exit(code) from None


def _calibrate_scores(
    out: Path,
    fresh: _Fresh,
    selection: score_rules.RuleSelection,
    positive: list[str] | None,
    targets: Stated,
    of_call: dict[str, Any],
    details: bool,
) -> None:
    """Calibrate a rule on the scores of one table."""
    data = fresh.data
    assert data is not None
    if not shared.is_rule_file(out):
        raise shared.BadInput("--model: with --score the file to write is a rule file (.json)")
    shared.check_output("--model", out, *fresh.files)
    with shared.warnings_as_lines():
        selection, rows = selection.on(data, fresh.csv, positive)
        rows = replace(rows, cluster_column=fresh.cluster)
        further = selection.further(fresh.unlabeled, fresh.training_rows, fresh.csv)
        with shared.bad_input(f"{data}: "):
            allowed = stated.targets_by_label(targets, np.unique(rows.y), selection.group)
            given = Given(rows.features, rows.y, rows.groups, clusters=rows.clusters, **further)
            limits = list(selection.limits) or None
            with doing("Selecting a rule"):
                batch = OneBatch.of(
                    selection.model, given, allowed, limits=limits, **selection.how
                )
            with _missing_said(None, batch.classifier.records_.ledger), doing("Certifying it"):
                point = batch.certified(**of_call)
    selection = replace(selection, limits=tuple(point.limits or ()))
    shared.write_out(out, selection.document(point, calibrated=data.name))
    tell_certificate(point.certificate_, details)
    shared.say(f"Rule: {out}")


def _calibrate_labels(
    labelled: LabelFile,
    out: Path,
    fresh: _Fresh,
    selection: Path | None,
    limits: Sequence[Any],
    of_call: dict[str, Any],
    details: bool,
) -> None:
    """Calibrate rules of several labels per row."""
    named = fresh.data or fresh.unlabeled
    if selection is None or named is None:
        raise shared.BadInput(
            "rules of several labels per row need DATA or --unlabeled, and --selection"
        )
    if not shared.is_rule_file(out):
        raise shared.BadInput("--model: the file to write is a rule file (.json)")
    shared.check_output("--model", out, labelled.path, selection, *fresh.files)
    ledger = FileLedger(labelled)
    with (
        shared.warnings_as_lines(),
        shared.bad_input(f"{named}: "),
        _missing_said(labelled.path, ledger),
    ):
        settings, rules = labelled.selected_again(selection, fresh.csv)
        rows = labelled.fresh_rows(fresh.data, fresh.csv, fresh.cluster)
        if fresh.unlabeled is not None:
            rows["X_unlabeled"] = labelled.scores_of(fresh.unlabeled, fresh.csv).features
        rules = replace(rules, records_=replace(rules.records_, ledger=ledger)).calibrate(
            **rows, limits=limits or None, **of_call
        )
    shared.write_out(out, settings.document(rules), "--model")
    tell_certificate(rules.certificate_, details)
    shared.say(f"Attempts recorded in {labelled.path} and {out}: {len(ledger.attempts)}.")
    shared.say(f"Rules: {out}")


def card(
    model: options.ModelOrRule,
    data: options.Data,
    out: Card = None,
    title: Annotated[
        str, typer.Option("--title", metavar="TEXT", help="Title of the card.")
    ] = "",
    purpose: OfModel = "",
    target: options.Labels = None,
    group: options.Groups = None,
    cluster: options.Cluster = None,
    max_error: options.MaxError = None,
    confidence: options.Confidence = 0.95,
    equal_rows: options.EqualRows = "copies",
    monitor: MonitorState = None,
    csv: options.CsvFormat = options.CSV,
) -> None:
    """Write a model card: the stated limits and their certificates, data, rule, price, and open questions.

    DATA are fresh rows, on which the model is measured. All content except the purpose is measured or was
    noted at the fit. The default for --group is the columns of the fit.
    """
    from tailboost.app.cli.monitor import read_state
    from tailboost.app.model_card import ModelCard  # slow to import

    for path in out or []:
        shared.check_output("--out", path, model, data, monitor)
        if path.suffix not in (".md", ".html"):
            raise shared.BadInput(f"--out: {str(path)!r} must end in .md or .html")
    targets = stated.read_targets(max_error)
    stored = score_rules.read_model(model)
    columns = stored.group_columns if group is None else group
    monitored = None
    if monitor is not None:
        if not monitor.exists():
            raise shared.BadInput(f"--monitor: there is no file {str(monitor)!r}")
        monitored = read_state(monitor, stored, "--monitor")[1]
    with stored.labelled_rows(data, csv, target, Reading("measure", columns, cluster)) as rows:
        model_card = ModelCard.of(
            stored.classifier,
            rows.features,
            rows.y,
            groups=rows.groups,
            clusters=rows.clusters,
            max_error=stated.targets_by_label(targets, stored.classifier.classes_, columns),
            confidence=confidence,
            equal_rows=equal_rows,
            title=title or f"Model card: {model.name}",
            purpose=purpose,
            rows_are=data.name,
            notes={"target": stored.target, **stored.notes},
            versions=stored.versions,
            digests={
                name: shared.digest_of(path)
                for name, path in (("model", model), ("further rows", data))
            },
            monitor=monitored,
        )
    for path in out or []:
        shared.write_out(
            path, model_card.to_html() if path.suffix == ".html" else model_card.to_markdown()
        )
        shared.say(f"Model card: {path}")
    if not out:
        shared.tell(model_card.to_markdown())
