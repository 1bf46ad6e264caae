"""``fit``: train a method on a table and store the model with its preparation and notes."""

from __future__ import annotations

import datetime
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from sklearn.pipeline import Pipeline
from sklearn.utils.class_weight import compute_class_weight
from sklearn.utils.validation import has_fit_parameter

from tailboost import datasets, rates
from tailboost.app.cli import options, shared
from tailboost.app.cli.alerts import read_to_fit
from tailboost.app.cli.compare import installed
from tailboost.app.cli.inspect import evaluate, group_sentences, printing_content
from tailboost.app.cli.models import NewRows, check_model_output
from tailboost.app.cli.parameters import configured
from tailboost.app.cli.rates import (
    CostTable,
    in_table_terms,
    print_rates,
    rate_of,
    read_limits,
    read_objective,
    read_targets,
    summary_text,
    targets_by_label,
)
from tailboost.app.cli.shared import BadInput
from tailboost.app.registry import METHODS, Method
from tailboost.app.report.comparison import joint_groups
from tailboost.app.table_encoder import preparation
from tailboost.core.array_types import Model, Table
from tailboost.core.long_work import ending_at_interrupts
from tailboost.rows.judged import group_uses, judged
from tailboost.rows.subgroups import revealing_features
from tailboost.selection.problem import group_of_limits
from tailboost.storage.models import save_model

# Options of `fit`.
MethodName = Annotated[
    str | None, options.option("NAME", "Method of `tailboost list`; default: robustmixture.")
]
Settings = Annotated[
    list[str] | None,
    options.option("NAME=VALUE", "Parameter of the method; may be repeated.", "--set"),
]
TestRows = Annotated[
    Path | None, options.option("FILE", "New rows on which the stored model is evaluated.")
]


def fit(
    data: options.Data,
    target: options.Target,
    out: options.ModelOut,
    method: MethodName = None,
    group: options.Groups = None,
    drop: options.Drop = None,
    text: options.Text = None,
    cluster: options.FitCluster = None,
    keep: options.Keep = None,
    weight: options.Weight = None,
    max_error: options.MaxError = None,
    objective: options.Objective = None,
    limit: options.Limits = None,
    costs: options.Costs = None,
    error_budget: options.ErrorBudget = None,
    settings: Settings = None,
    test: TestRows = None,
    unlabeled: options.Unlabeled = None,
    csv: options.CsvFormat = options.CSV,
    seed: options.Seed = 0,
    jobs: options.Jobs = 1,
    as_json: options.ContentJson = False,
) -> None:
    """Train one method on a table and store the model with its preparation.

    The model reads new tables as it read this one: text stays text (zip code 01234), and labels of a CSV file
    stay text. With --group, the default objective is the worst group; with limits by a group that is a
    feature, the rule has thresholds for each of its groups (--set by_group=false: none). `tailboost inspect`
    prints the content of a model file.
    """
    columns = list(group or [])
    parameters = {
        "max_error": read_targets(max_error),
        "error_budget": error_budget,
        "objective": read_objective(objective),
        "limits": read_limits(limit) or None,
    }
    with shared.bad_input("--method: "):
        registered_method = installed(method or "robustmixture")
    settings = list(settings or [])
    if parameters["objective"] is None:
        if costs is not None:
            parameters["objective"] = rates.cost()
        elif columns and registered_method.may_use_groups and parameters["limits"] is None:
            settings = ["objective=worst_group", *settings]
    classifier = configured(registered_method, settings, parameters, seed=seed, jobs=jobs)
    _check_options(registered_method, classifier, columns, weight, unlabeled)
    check_model_output("--model", out, data, test, costs, unlabeled)
    with shared.bad_input("--test: "):
        if test is not None:
            datasets.read_raw(test, *csv)  # a faulty file must fail before the fit

    with printing_content(out, as_json):
        table = read_to_fit(data, target, group, drop, keep, cluster, csv, weight, text)
        labels = table.target_names
        if parameters["max_error"] is not None:
            targets = targets_by_label(parameters["max_error"], labels, columns)
            classifier.set_params(max_error=targets)
        name_labels(classifier, labels)
        arguments = _use_costs(classifier, table, columns, costs, data, csv)
        _read_groups_of_features(classifier, table, settings)
        arguments |= _row_arguments(classifier, registered_method, table)
        unlabeled_rows = None
        if unlabeled is not None:
            unlabeled_rows = _read_unlabeled(unlabeled, csv, list(table.data), columns)
        pipeline = _fitted(classifier, registered_method, table, arguments, unlabeled_rows)

        notes = _notes(registered_method, table, data, columns, cluster, weight, unlabeled)
        with shared.bad_input("--model: "):
            save_model(pipeline, out, notes=notes | {"csv": csv.noted})
        shared.say(f"Model: {out}")
        for sentence in group_sentences(classifier, columns, table.no_features):
            shared.say(f"G{sentence[1:]}.")  # each begins with "group"
        if cluster is not None and judged(classifier).can_defer:
            shared.say(f"In a certificate one random row of each {cluster} counts.")
        with shared.warnings_as_lines():
            _print_summary(classifier, out, test, csv)


def _read_groups_of_features(classifier: Model, table: Table, settings: Sequence[str]) -> None:
    """Let the rule read the groups of all limits by group if they are a feature, which answers depend on.

    Nothing is changed if ``settings`` name one of the parameters on groups, or a limit is on a gap or ratio.
    Otherwise thresholds by group are mostly certified at a smaller error than an estimate of the group from
    this feature (`benchmarks/reading.py`).
    """
    stated = {setting.partition("=")[0].strip() for setting in settings}
    params = classifier.get_params(deep=False)
    if "by_group" not in params or stated & {"by_group", "infer_groups"}:
        return
    limits = params["limits"]
    by_group = group_of_limits(limits, list(table.groups))
    if by_group in table.data and not any(limit.compares for limit in limits):
        classifier.set_params(by_group=by_group)


def _row_arguments(classifier: Model, method: Method, table: Any) -> dict[str, Any]:
    """Return the arguments of ``fit`` that a table from `read_to_fit` has for each row, besides costs."""
    arguments = {}
    if table.weight is not None:
        arguments["sample_weight"] = table.weight
    if has_fit_parameter(classifier, "clusters"):
        arguments["clusters"] = table.clusters
    if table.groups.shape[1]:
        arguments["groups"] = table.groups
        if not method.ours:  # baselines take one column of groups
            arguments["groups"] = joint_groups(table.groups)
    return arguments


def _read_unlabeled(
    unlabeled: Path, csv: options.CsvFormat, features: list[str], group: Sequence[str]
) -> NewRows:
    """Read the file of --unlabeled: rows with all features, and with the columns of groups."""
    with shared.bad_input("--unlabeled: "):
        table = datasets.read_raw(unlabeled, *csv)
        absent = [name for name in features if name not in table]
        if absent:
            raise BadInput(
                f"{str(unlabeled)!r} has no column {absent[0]!r}, which is a feature"
            )
    return NewRows(table, table[features], unlabeled, group)


def _notes(
    method: Method,
    table: Table,
    data: Path,
    group: Sequence[str],
    cluster: str | None,
    weight: str | None,
    unlabeled: Path | None,
) -> dict[str, Any]:
    """Return the notes of a model file on the training data, which `tailboost inspect` prints."""
    labels, counts = np.unique(table.target, return_counts=True)
    notes = {
        "created": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "method": method.name,
        "data": shared.printable(data.name),
        "rows": int(counts.sum()),
        "classes": {str(label): int(n) for label, n in zip(labels, counts, strict=True)},
        "target": table.target_name,
        "group": group,
        "cluster": cluster,
        "weight": weight,
    }
    if unlabeled is not None:
        notes["unlabeled"] = shared.printable(unlabeled.name)
    notes["not_features"] = list(table.no_features)
    notes["no_ids"] = list(table.kept)
    if weight is not None:
        notes["not_features"].append(weight)
    return notes


def _check_options(
    method: Method,
    classifier: Model,
    group: Sequence[str],
    weight: str | None,
    unlabeled: Path | None,
) -> None:
    """Raise `BadInput` if there are groups, weights or rows without labels that the method does not take."""
    group_methods = [m.name for m in METHODS.values() if m.may_use_groups or m.uses_groups]
    if group and method.name not in group_methods:
        raise BadInput(
            f"--group: {method.name} does not train on groups; leave it out, or take "
            f"{', '.join(group_methods)}"
        )
    if weight is not None and not has_fit_parameter(classifier, "sample_weight"):
        raise BadInput(f"--weight: {method.name} does not accept weights")
    if unlabeled is not None and not has_fit_parameter(classifier, "X_unlabeled"):
        raise BadInput(
            f"--unlabeled: {method.name} takes no rows without labels; robustmixture does"
        )


def name_labels(classifier: Model, labels: Sequence[Any]) -> None:
    """Replace keys of dicts in parameters by labels of the table, which are text in a CSV file.

    With the label "1" the key 1 of ``class_weight={1: 5}`` becomes "1".
    """
    by_text = {str(label): label for label in labels}
    labels_or_none = {*labels, None}
    for name, value in classifier.get_params(deep=False).items():
        if not isinstance(value, dict):
            continue
        by_label = {}
        for key, number in value.items():
            label = key if key in labels_or_none else by_text.get(str(key), key)
            by_label[label] = number
        if name == "class_weight":
            # Newer versions of scikit-learn read the text "1" as a number, and want the key 1.
            try:
                compute_class_weight(by_label, classes=np.asarray(labels), y=np.asarray(labels))
            except ValueError:
                continue
        classifier.set_params(**{name: by_label})


def _use_costs(
    classifier: Model,
    table: Table,
    group: Sequence[str],
    costs: Path | None,
    data: Path,
    csv: options.CsvFormat,
) -> dict[str, Any]:
    """Set objective and limits of a classifier in the terms of the table: its labels, groups and costs.

    Return the argument ``costs`` of ``fit``, the costs of each row; no argument without such costs.
    """
    labels = table.target_names
    cost_table = CostTable.read(costs, labels, table.target, data, csv)
    params = classifier.get_params(deep=False)
    if "limits" in params:
        goals = [params["objective"], *params["limits"]]
        objective, *limits = in_table_terms(
            goals,
            labels,
            group,
            cost_table,
            names_in_file=lambda: list(datasets.read_raw(data, *csv)),
        )
        classifier.set_params(objective=objective, limits=limits)
        rates_of_goals = filter(None, map(rate_of, goals))
        if costs is not None and not any(rate.needs_costs for rate in rates_of_goals):
            raise BadInput("--costs: neither --objective nor --limit names cost()")
    if cost_table.by_row is None:
        return {}
    return {"costs": cost_table.by_row}


def _fitted(
    classifier: Model,
    method: Method,
    table: Table,
    arguments: dict[str, Any],
    unlabeled_rows: NewRows | None,
) -> Pipeline:
    """Return the fitted pipeline of preparation and classifier.

    The ``fit`` of the classifier gets the arguments, and the rows without labels if there are any.
    """
    steps = Pipeline(preparation(classifier, table.schema))
    shared.say(
        f"Fitting {method.title} on {len(table.data):,} rows, {len(table.target_names)} "
        "classes."
    )
    start = time.perf_counter()
    # Ctrl-C must not store a model of fewer rounds.
    with ending_at_interrupts(), shared.bad_input(), shared.warnings_as_lines():
        features = steps.fit_transform(table.data, table.target)
        if unlabeled_rows is not None:
            encoded = steps.transform(unlabeled_rows.features)
            arguments |= replace(unlabeled_rows, features=encoded).unlabeled()
        classifier.fit(features, table.target, **arguments)
    if judged(classifier).group_features:  # columns of the file instead of encoded ones
        group_codes = table.groups.apply(lambda column: column.cat.codes).to_numpy()
        revealing = revealing_features(table.data, group_codes)
        classifier.group_features_ = tuple(zip(table.groups, revealing, strict=True))
    shared.say(f"Fitted in {time.perf_counter() - start:.1f} s.")
    return Pipeline([*steps.steps, ("classifier", classifier)])


def _print_summary(
    classifier: Model, model: Path, test: Path | None, csv: options.CsvFormat
) -> None:
    """Print the errors of a stored model on the rows of ``test``; without a file its rates and summary.

    `fit` has printed whether answers depend on the groups, so rates and summary leave this out.
    A fault of the summary is a warning.
    """
    if test is not None:
        evaluate(model, test, csv=csv)
    if shared.is_quiet():
        return
    inspect_details = f"{shared.command_line('inspect', model)} --details"
    if test is None:
        view = judged(classifier)
        if view.takes_limits and view.stated_limits:
            shared.say(summary_text(replace(classifier.summary_, groups=())))
            shared.say(f"The rest: {inspect_details}")
            return
        rates_of_fit = getattr(classifier, "rates_", None)
        if rates_of_fit is None:
            shared.say("For errors on new rows, give --test FILE or use `tailboost evaluate`.")
        else:
            shared.say("")
            of_groups = [str(use) for use in group_uses(classifier)]
            notes = [note for note in rates_of_fit.notes if note not in of_groups]
            print_rates(replace(rates_of_fit, notes=tuple(notes)))
    try:
        if hasattr(classifier, "summary_"):
            shared.say(f"Bounds, columns and versions: {inspect_details}")
            if test is None:
                shared.say(f"{classifier.summary_.comparison}\n{classifier.summary_.headline}")
    except Exception as error:  # the model is stored: no fault of its summary may lose it
        shared.warn(f"the summary failed ({type(error).__name__}: {error})")
