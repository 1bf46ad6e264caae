"""``evaluate`` and ``inspect``: how well a stored model does on other rows, and what it is."""

from __future__ import annotations

from inspect import signature
from typing import Annotated, Any

import numpy as np
import typer

from tailboost.app.cli import options as given
from tailboost.app.cli.models import StoredModel
from tailboost.app.cli.rates import measured_rates, print_rates, rates_kept, read_rates, stated_rates
from tailboost.app.cli.shared import plain_table, say, tell, tell_json, warn, warnings_as_lines
from tailboost.app.cli.tables import errors_by_unit, print_errors, said_of_groups, stated_targets
from tailboost.core.subgroups import can_defer, deferral_words

# Share of rows that a model was fitted on from which on its errors say little.
SEEN = 0.05


def evaluate(
    model: given.Model,
    data: given.Data,
    target: given.Labels = None,
    group: given.Groups = None,
    rate: given.Rates = None,
    costs: given.Costs = None,
    cluster: given.Cluster = None,
    sep: given.Sep = ",",
    as_json: given.Json = False,
) -> None:
    """Count a model's errors on a table: by class and by group, with targets and exact 95 % intervals.

    Below stand the rates and limits that it was fitted for, or those of --rate. Groups are by default those
    that it was fitted with. With --cluster intervals allow for persons who have several rows. Rows that it
    was fitted on say little: a warning tells how many there are.
    """
    asked, stored = read_rates(rate), StoredModel.read(model)
    classifier, columns = stored.classifier, stored.groups if group is None else group
    with stored.judging(data, sep, target, purpose="evaluate on", columns=columns, cluster=cluster) as (
        later,
        y,
    ):
        whose = None if cluster is None else np.unique(later.clusters, return_inverse=True)[1]
        groups = {} if later.groups is None else later.groups
        predicted = classifier.predict(later.rows, **stored.told(later))
        deferred = None
        if can_defer(classifier):
            deferred = classifier.defers(later.rows, **stored.told(later))
        seen = warn_of_seen(classifier, later.rows)
        stated = asked or stated_rates(classifier, columns)
        measured = measured_rates(stated, stored, later, y, costs=costs, sep=sep)
    targets = stated_targets(classifier)
    units = errors_by_unit(y, predicted, classifier.classes_, groups, targets, whose, deferred)
    if as_json:
        tell_json(
            {
                "model": str(stored.path),
                "data": str(data),
                "rows": len(y),
                "rule": "predict",
                "deferred": None if deferred is None else int(deferred.sum()),
                "seen_share": None if np.isnan(seen) else seen,
                "confidence": 0.95,
                "errors": [unit.to_dict() for unit in units],
                "rates": None if measured is None else measured.to_dict()["lines"],
            }
        )
        return
    print_errors(units, words=f"Errors of predict on the {len(y):,} rows of {data.name}")
    if deferred is not None:
        tell(deferral_words(int(deferred.sum()), len(y)))
    known = [unit for unit in units if unit.kind == "class" and unit.error is not None]
    worst = max(known, key=lambda unit: unit.error or 0.0)
    say(f"Worst class: {worst.name}, {worst.error:.3f}.")
    drawn = "rows" if whose is None else f"persons ({cluster}), whose rows may depend on each other,"
    exact = "" if whose is None else " of as many rows as these are worth (Korn and Graubard)"
    say(
        f"Intervals: Clopper–Pearson{exact}, for {drawn} drawn independently; each holds by itself with 95 % "
        f"confidence{'' if whose is None else ', about'}."
    )
    if measured is not None:
        tell("")
        print_rates(measured)


def warn_of_seen(classifier: Any, rows: Any) -> float:
    """Warn where a classifier was fitted on rows that are to judge it; return their share."""
    seen = float(classifier.seen_share(rows)) if hasattr(classifier, "seen_share") else 0.0
    if seen > SEEN:
        warn(f"{seen:.0%} of these rows were fitted on: errors on them are lower than on others")
    return seen


def inspect_model(
    model: given.Model,
    details: Annotated[
        bool, typer.Option("--details", help="Also every column, and the bounds of the guarantee in symbols.")
    ] = False,
    as_json: given.Json = False,
) -> None:
    """Show what a model file holds: method, training data, columns, classes, errors, guarantee, versions."""
    with warnings_as_lines():
        stored = StoredModel.read(model)
    about = _description(stored)
    if as_json:
        tell_json(about)
    else:
        _print_description(about, stored, details)


def _description(stored: StoredModel) -> dict[str, Any]:
    classifier, encoder = stored.classifier, stored.encoder
    defaults = {name: p.default for name, p in signature(type(classifier)).parameters.items()}
    changed = {
        name: repr(value)
        for name, value in classifier.get_params(deep=False).items()
        if value is not None and repr(value) != repr(defaults.get(name))
    }
    columns = [] if encoder is None else encoder.schema_.columns
    guarantee, rates = getattr(classifier, "summary_", None), rates_kept(classifier)
    return {
        "file": str(stored.path),
        "bytes": stored.path.stat().st_size,
        "classifier": type(classifier).__name__,
        "parameters": changed,
        "members": len(getattr(classifier, "estimators_", [])) or None,
        "trained_on": stored.notes,
        "target": stored.target,
        "classes": [str(label) for label in classifier.classes_],
        "columns": [
            {"name": c.name, "kind": c.kind, "categories": len(c.categories) or None} for c in columns
        ],
        "rates": None if rates is None else {"of": rates.words, "lines": rates.to_dict()["lines"]},
        "guarantee": None if guarantee is None else guarantee.details,
        "versions": stored.versions,
    }


def _print_description(about: dict[str, Any], stored: StoredModel, details: bool) -> None:
    notes = about["trained_on"]
    lines = {
        "file": f"{about['file']}, {about['bytes']:,} bytes",
        "classifier": about["classifier"],
        "parameters": ", ".join(f"{k}={v}" for k, v in about["parameters"].items()) or "the defaults",
        "members": "" if about["members"] is None else str(about["members"]),
        "made": notes.get("created", "not noted"),
        "trained on": f"{notes['rows']:,} rows of {notes['data']}" if "rows" in notes else "not noted",
        "target": about["target"] or "not noted",
        "classes": ", ".join(
            f"{label} ({notes['classes'][label]:,} rows)" if label in notes.get("classes", {}) else label
            for label in about["classes"]
        ),
        "groups": ". ".join(said_of_groups(stored.classifier, stored.groups, notes.get("not_features", []))),
        "weights": notes.get("weight") or "",
        "mean budget": str(notes.get("error_budget", "")),
        "left out": ", ".join(notes.get("not_features", [])),
        "versions": ", ".join(f"{name} {number}" for name, number in about["versions"].items()),
    }
    plain_table(("", ""), [(name, text) for name, text in lines.items() if text], left=2)
    if about["columns"] and details:
        rows = [(c["name"], c["kind"], str(c["categories"] or "")) for c in about["columns"]]
        plain_table(("column", "kind", "categories"), rows, title="\nColumns", left=2)
    guarantee, rates = getattr(stored.classifier, "summary_", None), rates_kept(stored.classifier)
    if rates is not None:
        tell("")
        print_rates(rates)
    if guarantee is not None:
        tell(f"\nGuarantee: {guarantee.details if details else guarantee.summary}")
    if not details:
        tell("Every column, and the bounds in symbols: --details.")
