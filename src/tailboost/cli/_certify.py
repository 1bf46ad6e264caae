"""``certify``: bounds on a model's errors on new rows, all together with one confidence."""

from __future__ import annotations

from typing import Annotated

import typer

from tailboost import certify as bounds_of
from tailboost.cli import _options as given
from tailboost.cli._models import StoredModel
from tailboost.cli._rates import TableOfCosts, read_rates, spelled, stated_limits
from tailboost.cli._shared import BadInput, read_number, tell, tell_json
from tailboost.cli._targets import read_targets, stated_max_error, targets_by_label


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
