"""``evaluate`` and ``inspect``: errors of a stored model on new rows, and the content of a model file."""

from __future__ import annotations

from inspect import signature
from typing import Annotated, Any

import numpy as np
import typer

from tailboost.app.cli import options as given
from tailboost.app.cli.models import StoredModel
from tailboost.app.cli.rates import fitted_rates, measured_rates, print_rates, read_rates
from tailboost.app.cli.shared import plain_table, say, tell, tell_json, warn, warnings_as_lines
from tailboost.app.cli.tables import errors_by_subgroup, group_sentences, print_errors, targets_by_name
from tailboost.core.subgroups import can_defer, deferral_words

LEAKAGE = 0.05  # fraction of training rows among new rows from which `evaluate` warns


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
    """Measure a model's errors on new rows, by class and by group, with exact 95 % intervals.

    A second table has the rates and limits of the fit, or of --rate. The default of --group is the
    columns of the fit. With --cluster the intervals allow for persons or sites with several rows. A warning
    gives the fraction of training rows among the rows of DATA: errors on training rows are too low.
    """
    asked, stored = read_rates(rate), StoredModel.read(model)
    classifier, columns = stored.classifier, stored.group_columns if group is None else group
    with stored.labelled_rows(
        data, sep, target, purpose="evaluate on", columns=columns, cluster=cluster
    ) as rows:
        ids = None if cluster is None else np.unique(rows.clusters, return_inverse=True)[1]
        by_column = {} if rows.groups is None else rows.groups
        groups = stored.group_arguments(rows)
        predicted = classifier.predict(rows.features, **groups)
        deferred = classifier.defers(rows.features, **groups) if can_defer(classifier) else None
        leakage = warn_of_leakage(classifier, rows.features)
        measured = measured_rates(asked or fitted_rates(classifier, columns), stored, rows, costs, sep)
    targets = targets_by_name(classifier)
    errors = errors_by_subgroup(rows.y, predicted, classifier.classes_, by_column, targets, ids, deferred)
    if as_json:
        tell_json(
            {
                "model": str(stored.path),
                "data": str(data),
                "rows": len(rows.y),
                "rule": "predict",
                "deferred": None if deferred is None else int(deferred.sum()),
                "training_rows": None if np.isnan(leakage) else leakage,
                "confidence": 0.95,
                "errors": errors,
                "rates": None if measured is None else measured.to_dict()["lines"],
            }
        )
        return
    print_errors(errors, f"Errors of predict on the {len(rows.y):,} rows of {data.name}")
    if deferred is not None:
        tell(deferral_words(int(deferred.sum()), len(rows.y)))
    classes = [line for line in errors if line["kind"] == "class" and line["error"] is not None]
    worst = max(classes, key=lambda line: line["error"])
    say(f"Worst class: {worst['name']}, {worst['error']:.3f}.")
    if cluster is None:
        say("Each interval (Clopper–Pearson) holds alone with 95 % confidence, for independent rows.")
    else:
        say(
            "Each interval (Clopper–Pearson with the effective number of rows, Korn and Graubard) holds "
            f"alone with about 95 % confidence, for independent values of {cluster}."
        )
    if measured is not None:
        tell("")
        print_rates(measured)


def warn_of_leakage(classifier: Any, features: Any) -> float:
    """Return the fraction of training rows among new rows, with a warning if the fraction is large."""
    fraction = float(classifier.seen_share(features)) if hasattr(classifier, "seen_share") else 0.0
    if fraction > LEAKAGE:
        warn(f"{fraction:.0%} of these rows are training rows: errors on them are lower than on new rows")
    return fraction


def inspect_model(
    model: given.Model,
    details: Annotated[
        bool, typer.Option("--details", help="Print all columns, and the bounds with their symbols.")
    ] = False,
    as_json: given.Json = False,
) -> None:
    """Print the content of a model file: method, training data, classes, errors, summary, versions."""
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
    summary, rates = getattr(classifier, "summary_", None), getattr(classifier, "rates_", None)
    return {
        "file": str(stored.path),
        "bytes": stored.path.stat().st_size,
        "classifier": type(classifier).__name__,
        "parameters": changed,
        "models": len(getattr(classifier, "estimators_", [])) or None,
        "trained_on": stored.notes,
        "target": stored.target,
        "classes": [str(label) for label in classifier.classes_],
        "columns": [
            {"name": c.name, "kind": c.kind, "categories": len(c.categories) or None} for c in columns
        ],
        "rates": None if rates is None else {"of": rates.words, "lines": rates.to_dict()["lines"]},
        "summary": None if summary is None else summary.details,
        "versions": stored.versions,
    }


def _print_description(about: dict[str, Any], stored: StoredModel, details: bool) -> None:
    notes, classifier = about["trained_on"], stored.classifier
    counts, no_features = notes.get("classes", {}), notes.get("not_features", [])
    lines = {
        "file": f"{about['file']}, {about['bytes']:,} bytes",
        "classifier": about["classifier"],
        "parameters": ", ".join(f"{k}={v}" for k, v in about["parameters"].items()) or "the defaults",
        "models": str(about["models"] or ""),
        "created": notes.get("created", "not noted"),
        "training data": f"{notes['rows']:,} rows of {notes['data']}" if "rows" in notes else "not noted",
        "target": about["target"] or "not noted",
        "classes": ", ".join(
            f"{label} ({counts[label]:,} rows)" if label in counts else label for label in about["classes"]
        ),
        "groups": ". ".join(group_sentences(classifier, stored.group_columns, no_features)),
        "weights": notes.get("weight") or "",
        "no features": ", ".join(no_features),
        "versions": ", ".join(f"{name} {number}" for name, number in about["versions"].items()),
    }
    plain_table(("", ""), [(name, text) for name, text in lines.items() if text], left=2)
    if about["columns"] and details:
        columns = [(c["name"], c["kind"], str(c["categories"] or "")) for c in about["columns"]]
        plain_table(("column", "kind", "categories"), columns, title="\nColumns", left=2)
    if about["rates"] is not None:
        tell("")
        print_rates(classifier.rates_)
    if about["summary"] is not None:
        tell(f"\nSummary: {classifier.summary_.details if details else classifier.summary_.summary}")
    if not details:
        tell("All columns, and the bounds with their symbols: --details.")
