"""``calibrate``: the cheapest point of a model's trade-off at which targets are certified on new rows."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tailboost import NotCertifiedError
from tailboost import calibrate as cheapest
from tailboost.cli import _options as given
from tailboost.cli._models import StoredModel
from tailboost.cli._rates import read_limits, spelled, stated_limits
from tailboost.cli._shared import BadInput, bad_input, check_output, fail, say, tell
from tailboost.cli._targets import read_targets, stated_max_error, targets_by_label
from tailboost.storage import check_model_path


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
    sep: given.Sep = ",",
) -> None:
    """Write the cheapest point of a model's trade-off at which all targets are certified on DATA.

    DATA are rows that had no part in the fit; they are spent by this, and bounds on other errors need
    further rows (`tailboost certify`). Without --max-error and --limit those of the fit serve. If
    not even the safest point is certified, nothing is written, and the exit code is 1.
    """
    aims, limits = read_targets(max_error), read_limits(limit)
    if aims is not None and limits:
        raise BadInput("--max-error and --limit: give one of them")
    inputs = [path for path in (model, data, previous) if path is not None]
    check_output("--model", out, *inputs)
    with bad_input("--model: "):
        check_model_path(out)
    stored = StoredModel.read(model)
    classifier = stored.classifier
    if not hasattr(classifier, "tradeoff"):
        raise BadInput(f"{str(model)!r}: a {type(classifier).__name__} has no trade-off to walk along")
    earlier = None if previous is None else StoredModel.read(previous).classifier
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
                previous=earlier,
                clusters=later.clusters,
            )
        except NotCertifiedError as error:
            raise typer.Exit(fail(f"nothing is written: {error}", 1)) from None
    with bad_input("--model: "):
        stored.save(point, out, calibrated=str(data.name))
    tell(str(point.certificate_))
    say(f"Model: {out}, the cheapest point whose targets are certified.")
