"""``certify``, ``calibrate`` and ``card``: what is known of a model by rows that it has not seen."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tailboost import NotCertifiedError
from tailboost import calibrate as cheapest
from tailboost import certify as bounds_of
from tailboost.app.cli import options as given
from tailboost.app.cli.attempts import AttemptLog, digest_of
from tailboost.app.cli.models import StoredModel, check_model_output
from tailboost.app.cli.rates import TableOfCosts, read_limits, read_rates, spelled, stated_limits
from tailboost.app.cli.shared import (
    BadInput,
    check_output,
    command_line,
    fail,
    read_number,
    say,
    say_aside,
    tell,
    tell_json,
    write_out,
)
from tailboost.app.cli.targets import read_targets, stated_max_error, targets_by_label


def certify(
    model: given.Model,
    data: given.Data,
    target: given.Labels = None,
    group: given.Groups = None,
    confidence: given.Confidence = 0.95,
    max_error: given.MaxError = None,
    rate: given.Rates = None,
    costs: given.Costs = None,
    cost_range: Annotated[
        str | None,
        typer.Option(
            metavar="A,B",
            help="With costs of rows: between which the cost of any answer to any row lies, as 0,50000.",
        ),
    ] = None,
    equal_rows: given.EqualRows = "copies",
    cluster: given.Cluster = None,
    sep: given.Sep = ",",
    as_json: given.Json = False,
) -> None:
    """Bound a model's errors on rows that had no part in its making, by class and group.

    All bounds hold together with the stated confidence. Without --max-error and --group the targets of the
    fit serve. With --rate, or where the model was fitted within limits, these are bounded instead of errors.
    A model that answers by the group is told it from DATA, and its groups are bounded. Rows that
    the model was fitted on, or rows equal to them, are refused if they are more than one in twenty.
    """
    aims, asked = read_targets(max_error), read_rates(rate)
    between = None
    if cost_range is not None:
        try:
            low, high = map(read_number, cost_range.split(","))
        except ValueError:
            raise BadInput(f"--cost-range: {cost_range!r} must be two numbers, as 0,50000") from None
        between = low, high
    stored = StoredModel.read(model)
    classifier = stored.classifier
    # A model that answers by the group is told it, so that the groups are bounded too.
    by_rates = bool(asked or (stated_limits(classifier) and aims is None))
    own = stored.groups if stored.by_group or by_rates else []
    columns = list(dict.fromkeys([*own, *(group or [])]))
    if aims is not None:
        aims = targets_by_label(aims, classifier.classes_, columns)
    elif not group:
        aims = stated_max_error(classifier)
    labels = classifier.classes_.tolist()
    with stored.judging(data, sep, target, purpose="certify on", columns=columns, cluster=cluster) as (
        later,
        y,
    ):
        table = None if costs is None else TableOfCosts.read(costs, labels, y, data, sep)
        certificate = bounds_of(
            classifier,
            later.rows,
            y,
            confidence=confidence,
            groups=later.groups,
            max_error=None if by_rates else aims,
            rates=[spelled(one, labels, columns, table) for one in asked] or None,
            costs=None if table is None else table.each,
            cost_range=between,
            equal_rows=equal_rows,
            clusters=later.clusters,
        )
    if as_json:
        tell_json(certificate.to_dict())
    else:
        tell(str(certificate))


def calibrate(
    model: given.Model,
    data: given.Data,
    out: Annotated[
        Path, typer.Option("--model", metavar="FILE", help="Where to write the model of the point.")
    ],
    max_error: given.MaxError = None,
    limit: given.Limits = None,
    target: given.Labels = None,
    group: given.Groups = None,
    confidence: Annotated[
        float, typer.Option(metavar="P", help="Probability that all targets hold, in (0, 1).")
    ] = 0.95,
    cluster: given.Cluster = None,
    previous: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="The model of an earlier calibration, where this is a second one."),
    ] = None,
    attempts: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Attempts so far, by default MODEL.attempts.json: read, counted, and written again.",
        ),
    ] = None,
    sep: given.Sep = ",",
) -> None:
    """Write the cheapest point of a model's trade-off at which all targets are certified on DATA.

    DATA are rows that had no part in the fit; they are spent by this, and bounds on other errors need
    further rows (`tailboost certify`). Without --max-error and --limit those of the fit serve. If
    not even the safest point is certified, no model is written, and the exit code is 1. Each attempt is
    recorded in a file beside the model. A later attempt counts all of them, and needs rows that none had.
    """
    aims, limits = read_targets(max_error), read_limits(limit)
    if aims is not None and limits:
        raise BadInput("--max-error and --limit: give one of them")
    check_model_output(out, model, data, previous)
    stored = StoredModel.read(model)
    classifier = stored.classifier
    if not hasattr(classifier, "tradeoff"):
        raise BadInput(f"{str(model)!r}: a {type(classifier).__name__} has no trade-off to walk along")
    earlier = None if previous is None else StoredModel.read(previous).classifier
    log = AttemptLog.read(attempts or model.with_name(f"{model.name}.attempts.json"), classifier)
    check_output("--attempts", log.path, model, data, out, previous)
    asked = command_line("calibrate", data, max_error=max_error, limit=limit, group=group, cluster=cluster)
    log = log.before(f"{asked} --confidence {confidence:g} of {digest_of(data)}")
    classifier.calibration_attempts_ = log.earlier
    labels = classifier.classes_.tolist()
    columns = list(dict.fromkeys([*stored.groups, *(group or [])]))
    if aims is None and not limits and not stated_limits(classifier):
        aims = stated_max_error(classifier)
        if aims is None:
            raise BadInput("--max-error: the model was fitted without targets; name some, or a --limit")
    of_groups = stored.by_group or bool(limits or group or stated_limits(classifier))
    with stored.judging(data, sep, target, purpose="calibrate on", columns=columns, cluster=cluster) as (
        later,
        y,
    ):
        try:
            point = cheapest(
                classifier,
                later.rows,
                y,
                targets_by_label(aims, classifier.classes_, columns),
                limits=[spelled(one, labels, columns, None) for one in limits] or None,
                confidence=confidence,
                groups=later.groups if of_groups else None,
                previous=log.previous(earlier),
                clusters=later.clusters,
            )
        except NotCertifiedError as error:
            log.add(classifier)
            code = fail(f"no model is written: {error.reason}", 1)
            if error.attempts:
                say_aside(
                    f"{data} is spent: no confidence is left for a test on these rows, alone or with others. "
                    f"Attempts recorded in {log.path}: {log.count(classifier)}. Call calibrate again with a "
                    "file of other rows: it reads the record, and spends less of the confidence"
                )
            raise typer.Exit(code) from None
        log.add(classifier)
    stored.save(point, out, calibrated=str(data.name))
    tell(str(point.certificate_))
    say(f"Attempts recorded in {log.path}: {log.count(classifier)}.")
    say(f"Model: {out}, the cheapest point whose targets are certified.")


def card(
    model: given.Model,
    data: given.Data,
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

    DATA are new rows, on which the model is measured. Everything but the purpose is measured or was noted at
    the fit. Without --out the Markdown is printed. Groups are those of --group, else those of the fit.
    """
    from tailboost.app.report import ModelCard  # which the other commands need not wait for

    for path in out or []:
        check_output("--out", path, model, data)
        if path.suffix not in (".md", ".html"):
            raise BadInput(f"--out: {str(path)!r} must end in .md or .html")
    aims = read_targets(max_error)
    stored = StoredModel.read(model)
    columns = stored.groups if group is None else group
    with stored.judging(data, sep, target, purpose="measure", columns=columns, cluster=cluster) as (later, y):
        found = ModelCard.of(
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
        say(f"Model card: {path}")
    if not out:
        tell(found.to_markdown())
