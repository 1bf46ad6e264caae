"""``certify``, ``calibrate`` and ``card``: bounds on a model's rates from fresh rows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from tailboost import NotCertifiedError, datasets
from tailboost import certify as certify_model
from tailboost.app.cli import options, score_rules, shared
from tailboost.app.cli.documents import TableLedger, attempts_file
from tailboost.app.cli.inspect import printing_content
from tailboost.app.cli.models import (
    FileLedger,
    Reading,
    StoredModel,
    check_model_output,
)
from tailboost.app.cli.rates import (
    CostTable,
    in_table_terms,
    read_limits,
    read_objective,
    read_rates,
    read_targets,
    targets_by_label,
    tell_certificate,
)
from tailboost.app.cli.shared import BadInput, OutOfReach
from tailboost.classifiers.calibrating import certified_on_rest, own_answers, selected_on_part
from tailboost.core.array_types import Model, Stated
from tailboost.core.long_work import doing
from tailboost.core.spelling import shell_word
from tailboost.guarantees.calibration import calibrate_selected
from tailboost.guarantees.stated import stated_by
from tailboost.rows.fingerprints import EqualRows
from tailboost.rows.given import Given
from tailboost.rows.judged import judged, last_step
from tailboost.rows.ledger import Ledger, attempts_of, may_follow, spent_by_next
from tailboost.rows.persons import refuse_persons

CALIBRATE_ADVICE = (
    "Not certified. `tailboost calibrate` looks for a certified rule on other fresh rows."
)

# Options of `certify`.
Require = Annotated[
    bool,
    typer.Option(
        "--require", help=f"Exit with code {OutOfReach.code} if a limit is not certified."
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
    options.option(
        "FILE",
        "Another model or rule file, or TABLE.attempts.json of a table of scores: its recorded "
        "attempts count too.",
    ),
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
SelectionShare = Annotated[
    float | None,
    options.option(
        "X",
        "Without a selected rule: the least fraction of the rows that selects, in (0, 1); the "
        "others certify. Default: 10 to 30 %. Up to half of the rows select if a class or "
        "group would have no row there, or if few rows contradict the limits.",
        parser=options.level,
    ),
]
Score = Annotated[
    list[str] | None,
    options.option("COL", "Column of the score in the table MODEL."),
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
    equal_rows: options.EqualRows = None,
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
    targets = read_targets(max_error)
    stated_rates = [*read_rates(rate), *read_limits(limit)]
    stored = score_rules.read_model(model)
    classifier = stored.classifier
    bounds_rates = stated_rates or (targets is None and stated_by(classifier).limits)
    # Rates may be by group. Errors by class need only the groups that the rule reads.
    needed_columns = stored.group_columns if bounds_rates else stored.columns_read
    columns = list(dict.fromkeys([*needed_columns, *(group or [])]))
    labels = classifier.classes_
    reading = Reading("certify on", columns, cluster)
    with (
        stored.labelled_rows(data, csv, target, reading) as rows,
        doing(f"Certifying on {len(rows.table):,} rows"),
    ):
        stored.refuse_unknown_groups(rows)
        rows = stored.with_clusters(rows)
        rows.tell_of_empty_groups()
        cost_table = CostTable.read(costs, labels, rows.y, data, csv)
        certificate = certify_model(
            classifier,
            rows.features,
            rows.y,
            confidence=confidence,
            max_error=targets_by_label(targets, labels, columns),
            rates=in_table_terms(
                stated_rates,
                labels,
                columns,
                cost_table,
                names_in_file=rows.column_names,
            )
            or None,
            training_rows=stored.features_of(training_rows, csv),
            groups=rows.groups,
            clusters=rows.clusters,
            equal_rows=equal_rows,
            costs=cost_table.by_row,
            cost_range=_two_numbers("--cost-range", cost_range),
        )
        advice = "" if certificate.earlier_stands else CALIBRATE_ADVICE
    _print_certificate(certificate, as_json, require, details, advice)


def _print_certificate(
    certificate: Any, as_json: bool, require: bool, details: bool, advice: str
) -> None:
    """Print a certificate; end with an exit code if a required limit is not certified.

    ``advice`` follows if a limit is not certified.
    """
    if require and certificate.certified is None:
        raise BadInput("--require: there is no limit to certify; give one by --limit")
    if as_json:
        shared.tell_json(certificate.to_dict())
    else:
        tell_certificate(certificate, details)
        if certificate.certified is False and advice:
            shared.say(advice)
    if require and not certificate.certified:
        uncertified = ", ".join(
            bound.title for bound in certificate.tested if bound.certified is False
        )
        raise OutOfReach(f"not certified: {uncertified}")


def _two_numbers(option: str, text: str | None) -> tuple[float, float] | None:
    """Return the numbers of an option such as ``0,50000``; None if the option was not given."""
    if text is None:
        return None
    try:
        low, high = map(shared.read_number, text.split(","))
    except ValueError:
        raise BadInput(f"{option}: {text!r} must be two numbers, as 0,50000") from None
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
    selection_share: SelectionShare = None,
    score: Score = None,
    positive: options.Positive = None,
    kind: options.Kinds = None,
    missing: options.Missing = None,
    by_group: options.ByGroup = None,
    objective: options.Objective = None,
    unlabeled: options.Unlabeled = None,
    training_rows: options.TrainingRows = None,
    equal_rows: options.EqualRows = None,
    csv: options.CsvFormat = options.CSV,
    details: options.Details = False,
    as_json: options.ContentJson = False,
) -> None:
    """Select the least restricted rule with certified targets or limits, on fresh rows.

    The rule has the smallest overall error of all certified ones. No fit may have used the rows. Bounds on
    other rates need further rows (`tailboost certify`). The defaults of --max-error and --limit are the
    targets and limits of the fit. A model or score without a selected rule needs no other table: a random
    part of the rows selects. If no rule is certified, no file is written and the exit code is 4. The attempt
    is recorded in the file MODEL before the test, and in the new file. A later attempt counts all recorded
    ones, and needs other rows. The attempts of a table of scores are in TABLE.attempts.json beside --out.
    Fresh rows of --unlabeled count in limits that need no label, such as 'gap(selected(1, by=sex)) <= .05';
    these alone need no DATA.
    """
    # With --score, the argument MODEL is the table of scores, which holds the fresh rows.
    if score and selection is not None:
        raise BadInput(
            "--selection is for a rule file. To let other rows select, give these options and "
            f"{str(selection)!r} to `tailboost tune`, then its rule with --selection to calibrate"
        )
    if score and (data is not None or target is None):
        raise BadInput(
            "--score: give one table, the --target column, and no model; a name with a blank "
            "stands in quotes"
        )
    request = _Request(
        out=out,
        data=model if score else data,
        unlabeled=unlabeled,
        training_rows=training_rows,
        csv=csv,
        target=target,
        cluster=cluster,
        equal_rows=equal_rows,
        targets=read_targets(max_error),
        limits=read_limits(limit),
        confidence=confidence,
        attempts=attempts,
        previous=previous,
        selection_share=selection_share,
        details=details,
    )
    request.refuse_contradictions()
    columns = options.columns_of_groups(group, by_group)
    if score:
        rule_selection = score_rules.RuleSelection(
            scores=tuple(score),
            labels=(),  # `on` finds them
            target=target,
            group=tuple(columns),
            by_group=by_group,
            objective=read_objective(objective),
            limits=tuple(request.limits),
            kinds=score_rules.kinds_of(kind, score),
            missing=missing,
        )
        with printing_content(out, as_json):
            _calibrate_scores(request, rule_selection, positive)
        return
    of_scores = {
        "--positive": positive is not None,
        "--missing": missing is not None,
        "--kind": kind is not None,
    }
    stated = [option for option, is_stated in of_scores.items() if is_stated]
    if stated:
        raise BadInput(
            f"{', '.join(stated)}: only with --score; a rule or model in a file keeps its own"
        )
    read_objective(objective)  # is checked, though a stored model has its own
    with printing_content(out, as_json):
        _calibrate_model(request, model, selection, columns, by_group)


@dataclass(frozen=True)
class _Request:
    """The options of a calibration that do not depend on what MODEL is.

    Without ``targets`` and ``limits``, a stored model or rule is tested for those of its fit.
    """

    out: Path  # file to write
    data: Path | None
    unlabeled: Path | None
    training_rows: Path | None
    csv: options.CsvFormat
    target: str | None
    cluster: str | None
    equal_rows: EqualRows | None
    targets: Stated
    limits: list[Any]
    confidence: float
    attempts: int | None
    previous: Path | None  # another model file, whose recorded attempts count too
    selection_share: float | None  # of the fresh rows; the others certify
    details: bool

    def refuse_contradictions(self) -> None:
        """Raise `BadInput` if two of these options contradict each other."""
        if self.targets is not None and self.limits:
            raise BadInput("--max-error and --limit: give one of them")
        if self.unlabeled is not None and self.cluster is not None:
            raise BadInput(
                "--cluster and --unlabeled: the clusters of rows without labels are not known"
            )
        self.refuse_targets_without_labels(self.targets)

    def refuse_share_of_rows(self, why: str) -> None:
        """Raise `BadInput` if the share of rows that select is stated, and no row selects."""
        if self.selection_share is not None:
            raise BadInput(f"--selection-share: {why}, so all rows certify; leave it out")

    def test_arguments(self) -> dict[str, Any]:
        """Return the arguments of a test about its confidence and all attempts; reads ``previous``."""
        arguments: dict[str, Any] = {"confidence": self.confidence, "attempts": self.attempts}
        if self.previous is not None:
            ledger = attempts_file(self.previous)
            if ledger is None:
                ledger = score_rules.read_model(self.previous).read_ledger()
            arguments["previous"] = ledger if ledger.attempts else None
        return arguments

    def tell_next_attempt(self, ledger: FileLedger, previous: Ledger | None = None) -> None:
        """Tell what a further attempt spends, before any selection; nothing before the first attempt."""
        recorded = [*ledger.attempts, *attempts_of(previous)]
        earlier = list({attempt.key: attempt for attempt in recorded}.values())
        if not earlier or not may_follow(earlier, self.attempts):
            return
        share = spent_by_next(earlier, self.attempts)
        line = (
            f"Attempts on record: {len(earlier)}. Another one on new rows has {share:.2g} of "
            "the error probability."
        )
        if self.attempts is None:
            fresh_start = "calibrate a copy of the file from before its first attempt"
            if not ledger.attempts:
                fresh_start = "leave --previous out"
            line += f" For rows of a new month {fresh_start}."
        shared.say_aside(line)

    def column_names(self) -> list[str]:
        """Read the names of the columns of the fresh rows."""
        path = self.data or self.unlabeled
        assert path is not None
        with shared.bad_input():
            return list(map(str, datasets.read_raw(path, *self.csv)))

    @property
    def files(self) -> list[Path | None]:
        """The files of rows, which an output must not replace; None for one that is not given."""
        return [self.data, self.unlabeled, self.training_rows]

    def refuse_targets_without_labels(self, targets: Stated) -> None:
        """Raise `BadInput` if there are targets, which are errors, and a file of rows without labels."""
        if targets is not None and self.unlabeled is not None:
            raise BadInput(
                "--unlabeled: bounds of errors, from --max-error or the fit, need labels. "
                "State limits on answers alone, as --limit 'selected(1) <= 30%', or leave "
                "--unlabeled out"
            )

    def rows(self, stored: StoredModel, columns: Sequence[str], *, with_groups: bool) -> Given:
        """Read the rows with labels and the rows without; one of the two files may be absent.

        ``columns`` are columns of groups, which are no features. ``with_groups`` tells whether the rows have
        these groups.
        """
        reading = Reading("calibrate on", columns, self.cluster)
        group_columns = columns if with_groups else ()
        arguments: dict[str, Any] = {"equal_rows": self.equal_rows}
        if self.data is not None:
            rows = replace(
                stored.read_labelled(self.data, self.csv, self.target, reading),
                group_columns=group_columns,
            )
            rows = stored.with_clusters(rows)
            rows.tell_of_empty_groups()
            arguments |= {"X": rows.features, "y": rows.y, "groups": rows.groups}
            arguments["clusters"] = rows.clusters
        if self.unlabeled is not None:
            unlabeled_rows = stored.read_rows(self.unlabeled, self.csv, reading)
            arguments |= replace(unlabeled_rows, group_columns=group_columns).unlabeled()
        training_rows = stored.features_of(self.training_rows, self.csv)
        return Given(training_rows=training_rows, **arguments)


def _model_to_calibrate(request: _Request, model: Path, selection: Path | None) -> StoredModel:
    """Read a model file or rule file after a check of all files.

    The rule of a rule file is selected again on the file ``selection``, which has its selection data.
    """
    out = request.out
    if request.data is None and request.unlabeled is None:
        raise BadInput(
            "DATA is missing: name the table of fresh rows, or the --score column of MODEL"
        )
    stored = score_rules.read_model(model)
    if shared.is_rule_file(model) != shared.is_rule_file(out):
        raise BadInput(
            "--model: a rule file (.json) gives a rule file, and a model file (.model) a model "
            f"file; {str(model)!r} cannot give {str(out)!r}"
        )
    if isinstance(stored, score_rules.StoredScoreRule):
        shared.check_output("--model", out, model, selection, request.previous, *request.files)
        if selection is not None:
            stored = stored.selected_again(selection, request.csv)
    else:
        check_model_output("--model", out, model, request.previous, *request.files)
    return stored


def _calibrate_model(
    request: _Request,
    model: Path,
    selection: Path | None,
    group: Sequence[str],
    by_group: str | None,
) -> None:
    """Calibrate a stored model or rule, write the certified rule, and print its certificate.

    The rule of a rule file is selected again on the file ``selection``. ``group`` are the columns of the
    options, with that of --by-group.
    """
    test_arguments = request.test_arguments()
    stored = _model_to_calibrate(request, model, selection)
    if by_group is not None and by_group not in stored.columns_read:
        again = "tailboost tune, or calibrate with --score, and this option"
        if not judged(last_step(stored.classifier)).reads_scores:
            again = f"tailboost fit with --set by_group={shell_word(by_group)}"
        raise BadInput(
            f"--by-group: {str(model)!r} was selected without thresholds by {by_group!r}; "
            f"select again ({again}), or name the column of a limit by --group"
        )
    classifier = stored.classifier
    ledger = FileLedger(stored)
    columns = list(dict.fromkeys([*stored.group_columns, *group]))
    targets, tested_limits = _to_certify(request, classifier, columns)
    request.refuse_targets_without_labels(targets)
    has_rule = judged(classifier).selects_rule(tested_limits or None)
    if has_rule:
        request.refuse_share_of_rows("the rule was selected on other rows")
    # A group-blind rule reads no groups. Limits, and the selection of a rule, may need them.
    with_groups = stored.by_group or bool(tested_limits or group) or not has_rule
    with (
        shared.warnings_as_lines(),
        shared.bad_input(f"{request.data or request.unlabeled}: "),
        _reporting_failure(request.out, stored.path, ledger),
        doing("Selecting and certifying a rule"),
    ):
        fresh_rows = request.rows(stored, columns, with_groups=with_groups)
        request.tell_next_attempt(ledger, test_arguments.get("previous"))
        if has_rule:
            classifier.records_ = replace(classifier.records_, ledger=ledger)
            certified_rule = calibrate_selected(
                classifier,
                fresh_rows,
                targets,
                limits=tested_limits or None,
                reference=own_answers(classifier),
                **test_arguments,
            )
        elif request.data is None:
            raise BadInput(
                "DATA is missing: a rule is selected first, which rows without labels cannot "
                "do (for a rule file, --selection names its selection data)"
            )
        else:  # a part of the rows selects a rule, the others certify it
            selected, certifying, _ = stored.selected_on_part(
                fresh_rows,
                targets,
                limits=tested_limits or None,
                selection_share=request.selection_share,
                ledger=ledger,
            )
            selected.records_ = replace(selected.records_, ledger=ledger)
            certified_rule = certified_on_rest(selected, certifying, targets, **test_arguments)
            stored = stored.selected_on(request.data)
    fresh_files = (request.data, request.unlabeled)
    given_files = [path for path in fresh_files if path is not None]
    stored.save(
        certified_rule,
        request.out,
        calibrated=" and ".join(path.name for path in given_files),
        calibration_digests={path.name: shared.digest_of(path) for path in given_files},
    )
    tell_certificate(certified_rule.certificate_, request.details)
    shared.say(f"Attempts recorded in {stored.path} and {request.out}: {len(ledger.attempts)}.")
    certified_kind = "limits" if tested_limits else "targets"
    kind_of_file = _kind_of_file(request.out).capitalize()
    shared.say(f"{kind_of_file}: {request.out}, with certified {certified_kind}.")


def _to_certify(
    request: _Request, classifier: Model, columns: Sequence[str]
) -> tuple[Stated, list[Any]]:
    """Return targets and limits of the options in the terms of a classifier, or else those of its fit.

    ``columns`` are columns of groups.
    """
    labels = classifier.classes_
    limits_in_terms = in_table_terms(
        request.limits, labels, columns, names_in_file=request.column_names
    )
    if request.targets is not None or request.limits:
        return targets_by_label(request.targets, labels, columns), limits_in_terms
    stated_in_fit = stated_by(classifier)
    if stated_in_fit.max_error is None and not stated_in_fit.limits:
        raise BadInput(
            "--max-error: the model was fitted without targets; give targets, or a --limit"
        )
    return stated_in_fit.max_error, list(stated_in_fit.limits)


def _kind_of_file(out: Path) -> str:
    """Return the content of a written file in words."""
    return "rule" if shared.is_rule_file(out) else "model"


@contextmanager
def _reporting_failure(
    out: Path, recorded_in: Path, ledger: Any, *, is_of_table: bool = False
) -> Iterator[None]:
    """Raise `OutOfReach` if the calibration inside certifies nothing.

    It has a line for each target, and the attempts so far. ``out`` is the file that is not written,
    ``recorded_in`` the file with the attempts, of a table of scores if ``is_of_table``.
    """
    try:
        yield
    except NotCertifiedError as error:
        first_line, *lines = error.reason.split("\n")
        if error.tested and is_of_table:
            lines.append(
                "These rows cannot be used again, also not with other limits. Attempts recorded "
                f"in {recorded_in}: {len(ledger.attempts)}. calibrate reads this file for a table "
                "of the same name and --out in the same folder; for another table, name it by "
                "--previous"
            )
        elif error.tested:
            lines.append(
                f"These rows cannot be used again. Attempts recorded in {recorded_in}: "
                f"{len(ledger.attempts)}. Call calibrate again with a file of other rows: "
                "each further attempt has a smaller part of the error probability"
            )
        limits = [each.to_dict() | {"verdict": "not certified"} for each in error.shortfalls]
        message = f"no {_kind_of_file(out)} is written: {first_line}"
        raise OutOfReach(message, lines, limits) from None


def _calibrate_scores(
    request: _Request, stated: score_rules.RuleSelection, positive: list[str] | None
) -> None:
    """Calibrate a rule on the scores of one table, write its rule file, and print its certificate.

    ``stated`` are the settings of the options, without the labels of the scores. ``positive`` is --positive.
    """
    test_arguments = request.test_arguments()
    if request.targets is None and not request.limits:
        raise BadInput(
            "--max-error or --limit: one of them is needed, such as --limit 'miss(1) <= 40%'"
        )
    score_rules.check_options(
        stated.kinds, stated.missing, objective=stated.objective, limits=request.limits
    )
    out = request.out
    data = request.data
    assert data is not None  # the table of scores
    if not shared.is_rule_file(out):
        raise BadInput("--out: with --score the file to write is a rule file (.json)")
    ledger = TableLedger.read(out.with_name(f"{data.name}.attempts.json"))
    shared.check_output("--out", out, ledger.path, *request.files)
    where = str(data)
    if ledger.path.exists():
        where += f", with the attempts in {ledger.path}"
    with shared.warnings_as_lines():
        selection, rows = stated.on(data, request.csv, positive)
        selection.refuse_rule_file(out)
        rows = replace(rows, cluster_column=request.cluster)
        other_rows = selection.other_rows(request.unlabeled, request.training_rows, request.csv)
        with shared.bad_input(f"{where}: "):
            if request.cluster is None:
                refuse_persons(rows.table, [*selection.scores, *selection.group])
            max_error = targets_by_label(request.targets, np.unique(rows.y), selection.group)
            fresh_rows = Given(
                rows.features,
                rows.y,
                rows.groups,
                clusters=rows.clusters,
                equal_rows=request.equal_rows,
                **other_rows,
            )
            with doing("Selecting a rule"):
                classifier, certifying, _ = selected_on_part(
                    selection.model,
                    fresh_rows,
                    max_error,
                    limits=list(selection.limits) or None,
                    selection_share=request.selection_share,
                    ledger=ledger,
                    **selection.goal,
                )
            classifier.records_ = replace(classifier.records_, ledger=ledger)
            with (
                _reporting_failure(out, ledger.path, ledger, is_of_table=True),
                doing("Certifying it"),
            ):
                certified_rule = certified_on_rest(
                    classifier, certifying, max_error, **test_arguments
                )
            certificate = certified_rule.certificate_
            ledger.certified.add(certificate.attempts[-1].key)
            ledger.write()
    # Certified attempts on other rows are none of the rule's campaign.
    certified_rule.records_ = replace(
        certified_rule.records_, ledger=Ledger(certificate.attempts)
    )
    shared.write_out(
        out,
        selection.document(
            certified_rule,
            calibrated=data.name,
            calibration_digests={data.name: shared.digest_of(data)},
        ),
    )
    tell_certificate(certificate, request.details)
    shared.say(f"Attempt recorded in {ledger.path}: other limits need other rows.")
    shared.say(f"Rule: {out}")


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
    equal_rows: options.EqualRows = None,
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
            raise BadInput(f"--out: {str(path)!r} must end in .md or .html")
    targets = read_targets(max_error)
    stored_model = score_rules.read_model(model)
    columns = stored_model.group_columns if group is None else group
    model_monitor = None
    if monitor is not None:
        if not monitor.exists():
            raise BadInput(
                f"--monitor: there is no file {str(monitor)!r}; `tailboost monitor` writes it, "
                "by default as MODEL.monitor.json"
            )
        _, model_monitor = read_state(monitor, stored_model, "--monitor")
    classifier = stored_model.classifier
    reading = Reading("measure", columns, cluster)
    with stored_model.labelled_rows(data, csv, target, reading) as rows:
        stored_model.refuse_unknown_groups(rows)
        rows = stored_model.with_clusters(rows)
        digests = {"model": shared.digest_of(model)}
        if judged(last_step(classifier)).certificate is not None:
            digests |= stored_model.notes.get("calibration_digests", {})
        digests["further rows"] = shared.digest_of(data)
        notes = {"target": stored_model.target, **stored_model.notes}
        if stored_model.encoder is not None:
            notes["features"] = stored_model.encoder.feature_names_in_.tolist()
        model_card = ModelCard.of(
            classifier,
            rows.features,
            rows.y,
            groups=rows.groups,
            clusters=rows.clusters,
            max_error=targets_by_label(targets, classifier.classes_, columns),
            confidence=confidence,
            equal_rows=equal_rows,
            title=title or f"Model card: {model.name}",
            purpose=purpose,
            rows_are=data.name,
            notes=notes,
            versions=stored_model.versions,
            digests=digests,
            monitor=model_monitor,
        )
    for path in out or []:
        with shared.bad_input("--out: "):
            model_card.save(path)
        shared.say(f"Model card: {path}")
    if not out:
        shared.tell(model_card.to_markdown())
