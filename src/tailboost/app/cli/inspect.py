"""``evaluate``, ``inspect`` and ``rule``: errors, content and decision rule of a stored model."""

from __future__ import annotations

import io
import math
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stdout
from inspect import signature
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
import typer

from tailboost import ThresholdRule, rates
from tailboost.app.cli import options, shared
from tailboost.app.cli.documents import attempts_file
from tailboost.app.cli.models import NewRows, Reading, StoredModel
from tailboost.app.cli.rates import (
    fitted_rates,
    measured_rates,
    print_rates,
    read_limits,
    read_rates,
    tell_certificate,
)
from tailboost.app.cli.score_rules import read_model
from tailboost.app.cli.shared import BadInput
from tailboost.core.array_types import Column, Document, Model
from tailboost.core.limit_lines import filled_columns
from tailboost.core.rate_words import rounded_away, value_words
from tailboost.core.spelling import a_type_of, shell_word
from tailboost.guarantees.stated import StatedTargets, stated_by
from tailboost.rates.bounds import share_with_interval
from tailboost.rows.judged import group_uses, judged
from tailboost.rows.ledger import Ledger
from tailboost.rows.readers import Overlap, row_hashes
from tailboost.rows.subgroups import GroupUse, deferral_words
from tailboost.selection.rule_forms import sql_table

CONFIDENCE = 0.95  # of the intervals
COLUMNS = "{model}_{label}"  # names of the columns of probabilities in an SQL expression
ACTION: Literal["action"] = "action"  # the form of answers in an SQL expression
DEFAULT_TABLE = "t"  # alias of the table in an SQL expression
LEAKAGE = 0.05  # fraction of training rows among new rows from which `evaluate` warns


def evaluate(
    model: options.ModelOrRule,
    data: options.Data,
    target: options.Labels = None,
    group: options.Groups = None,
    rate: options.Rates = None,
    limit: options.Limits = None,
    costs: options.Costs = None,
    cluster: options.Cluster = None,
    csv: options.CsvFormat = options.CSV,
    as_json: options.Json = False,
) -> None:
    """Measure a model's errors on new rows, by class and by group, with exact 95 % intervals.

    A second table has the rates and limits of the fit. With --rate it has these rates and the limits of the
    fit, with --limit only what is stated. The defaults of --group and --cluster are the columns of the fit.
    With --cluster the intervals allow for persons or sites with several rows. Warnings give the training rows
    among the rows of DATA, and the rows that selected the rule: errors on known rows are too low.
    """
    rates_of_options = [*read_rates(rate), *read_limits(limit)]
    stored = read_model(model)
    classifier = stored.classifier
    columns = stored.group_columns if group is None else group
    with stored.labelled_rows(
        data, csv, target, Reading("evaluate on", columns, cluster)
    ) as rows:
        rows = stored.with_known_clusters(rows)
        cluster_numbers = None
        if rows.clusters is not None:
            _, cluster_numbers = np.unique(rows.clusters, return_inverse=True)
        groups = {} if rows.groups is None else rows.groups
        stored.warn_of_other_groups(rows)
        stored.warn_of_persons(rows)
        predicted, deferred = stored.answers(rows)
        leakage = warn_of_leakage(classifier, rows)
        measured = rates_of_options or fitted_rates(classifier, columns)
        rate_table = measured_rates(measured, stored, rows, (predicted, deferred), costs, csv)
    n_rows = len(rows.y)
    n_deferred = None if deferred is None else int(deferred.sum())
    targets = _targets_by_name(stated_by(classifier), classifier.classes_.tolist(), groups)
    errors = errors_by_subgroup(
        rows.y, predicted, classifier.classes_, groups, targets, cluster_numbers, deferred
    )
    if as_json:
        shared.tell_json(
            {
                "model": str(stored.path),
                "data": str(data),
                "rows": n_rows,
                "rule": "predict",
                "deferred": n_deferred,
                "training_rows": None if np.isnan(leakage) else leakage,
                "confidence": CONFIDENCE,
                "errors": errors,
                "rates": None if rate_table is None else rate_table.to_dict()["lines"],
            }
        )
        return
    in_percent = rate_table is not None and any(line.in_percent for line in rate_table)
    title = f"Errors of predict on the {n_rows:,} rows of {data.name}"
    print_errors(errors, title, in_percent=in_percent)
    if n_deferred is not None:
        shared.tell(deferral_words(n_deferred, n_rows))
    _say_about_errors(errors, rows.cluster_column, in_percent=in_percent)
    if rate_table is not None:
        shared.tell("")
        print_rates(rate_table)


def _say_about_errors(
    errors: Sequence[Mapping[str, Any]], cluster: str | None, *, in_percent: bool
) -> None:
    """Print the worst class and the meaning of the intervals; ``cluster`` is the column of clusters."""
    classes = [line for line in errors if line["kind"] == "class" and line["error"] is not None]
    worst = max(classes, key=lambda line: line["error"])
    shared.say(f"Worst class: {worst['name']}, {error_words(worst['error'], in_percent)}.")
    method = "Clopper–Pearson"
    independent = "rows"
    confidence = "95 %"
    if cluster is not None:
        method += " with the effective number of rows, Korn and Graubard"
        independent = f"values of {cluster}"
        confidence = "about 95 %"  # rows of a value may depend on each other in part
    shared.say(
        f"Each interval ({method}) holds alone with {confidence} confidence, for independent "
        f"{independent}."
    )


def warn_of_leakage(classifier: Model, rows: NewRows) -> float:
    """Return the fraction of training rows among new rows, with a warning if it is above `LEAKAGE`.

    Otherwise warn of rows that selected or calibrated the rule. The fraction is NaN if the rows cannot be
    compared.
    """
    hashes = row_hashes(classifier, rows.features)
    fraction = 0.0
    if judged(classifier).knows_rows:
        fraction = classifier.records_.trained.share(hashes.whole)
    if fraction > LEAKAGE:
        shared.warn(
            f"{fraction:.0%} of these rows are training rows: errors on them are lower than "
            "on new rows"
        )
        return fraction
    overlap = Overlap.from_table(classifier, hashes, rows.features, rows.y, is_whole=True)
    n_selected = overlap.n_selected(classifier, len(rows.y))
    if n_selected:
        shared.warn(
            f"about {n_selected:,} of these {len(rows.y):,} rows selected or calibrated the "
            "rule, so its rates on them are no estimates for new rows"
        )
    return fraction


def inspect_model(
    model: options.ModelOrRule,
    details: Annotated[
        bool,
        typer.Option(
            "--details",
            help="Print all columns, and the bounds with their symbols; --json has them anyway.",
        ),
    ] = False,
    as_json: options.Json = False,
) -> None:
    """Print the content of a model file or rule file: method, data, classes, rule, errors, versions."""
    ledger = attempts_file(model)
    if ledger is not None:
        _print_attempts(model, ledger, as_json)
        return
    with shared.warnings_as_lines():
        stored = read_model(model)
    description = _description(stored)
    if as_json:
        shared.tell_json(description)
    else:
        _print_description(description, stored, details)


@contextmanager
def printing_content(out: Path, as_json: bool) -> Iterator[None]:
    """Print the file ``out``, which the block writes, as ``inspect --json`` does; nothing unless ``as_json``.

    Then the lines of the block go to standard error, with --quiet nowhere. An error in the block prints no
    document.
    """
    if not as_json:
        yield
        return
    with redirect_stdout(io.StringIO() if shared.is_quiet() else sys.stderr):
        yield
    inspect_model(out, as_json=True)


def _print_attempts(path: Path, ledger: Ledger, as_json: bool) -> None:
    """Print the attempts in the file of a table of scores."""
    attempts = _attempts_of(ledger)
    if as_json:
        shared.tell_json({"file": str(path), "attempts": attempts})
        return
    shared.tell(
        f"{path.name}: attempts of `tailboost calibrate --score` with a table. It has no rule."
    )
    for line in _attempt_lines(attempts):
        shared.tell(line)
    shared.tell(f"Other tables: calibrate --previous {shell_word(path)} counts these attempts.")


def _attempts_of(ledger: Ledger) -> list[dict[str, Any]]:
    """Return the attempts of a ledger as plain types: rows, and spent share of the error probability."""
    return [
        {"rows": attempt.rows.contents.n_rows, "spent": attempt.spent}
        for attempt in ledger.attempts
    ]


def _attempt_lines(attempts: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return a line for each attempt of `_attempts_of`."""
    return [
        f"attempt {number}: {attempt['rows']:,} fresh rows, "
        f"{value_words(attempt['spent'], in_percent=True)} of the error probability"
        for number, attempt in enumerate(attempts, start=1)
    ]


def _changed_parameters(classifier: Model) -> dict[str, str]:
    """Return the parameters of a classifier that differ from their defaults, as Python code."""
    declared = signature(type(classifier)).parameters
    defaults = {name: repr(parameter.default) for name, parameter in declared.items()}
    changed = {}
    for name, value in classifier.get_params(deep=False).items():
        if name != "rule" and value is not None and repr(value) != defaults.get(name):
            changed[name] = repr(value)
    return changed


def _description(stored: StoredModel) -> Document:
    """Return the content of a model file or rule file as the JSON document of ``inspect --json``."""
    classifier = stored.classifier
    encoder = stored.encoder
    columns = []
    for column in () if encoder is None else encoder.schema_.columns:
        n_categories = len(column.categories) or None
        columns.append({"name": column.name, "kind": column.kind, "categories": n_categories})
    summary = getattr(classifier, "summary_", None)
    certificate = getattr(classifier, "certificate_", None)
    table = getattr(classifier, "rates_", None)
    rates_of_fit = None
    if table is not None:
        rates_of_fit = {"of": table.words, "lines": table.to_dict()["lines"]}
    return {
        "file": str(stored.path),
        "bytes": stored.path.stat().st_size,
        "classifier": type(classifier).__name__,
        "parameters": _changed_parameters(classifier),
        "models": len(getattr(classifier, "estimators_", [])) or None,
        "trained_on": stored.notes,
        "target": stored.target,
        "classes": [str(label) for label in classifier.classes_],
        "columns": columns,
        "rule": stored.rule,
        "certificate": None if certificate is None else certificate.to_dict(),
        "attempts": _attempts_of(stored.read_ledger()),
        "rates": rates_of_fit,
        "summary": None if summary is None else summary.details,
        "versions": stored.versions,
    }


def _print_description(about: Document, stored: StoredModel, details: bool) -> None:
    """Print a `_description`: a table, the certificate or else the rates, and the summary.

    ``details`` adds all columns and assumptions, and the rates also after a certificate.
    """
    classifier = stored.classifier
    rows = [(name, text) for name, text in _description_lines(about, stored).items() if text]
    shared.plain_table(("", ""), rows, left=2)
    if about["columns"] and details:
        columns = [(c["name"], c["kind"], str(c["categories"] or "")) for c in about["columns"]]
        shared.plain_table(("column", "kind", "categories"), columns, title="\nColumns", left=2)
    certificate = getattr(classifier, "certificate_", None)
    if certificate is not None:
        shared.tell("")
        tell_certificate(certificate, details)
    if details or certificate is None:
        if about["rates"] is not None:
            shared.tell("")
            print_rates(classifier.rates_)
        if about["summary"] is not None:
            summary = classifier.summary_
            shared.tell(f"\nSummary: {summary.details if details else summary.summary}")
    if not details:
        shared.tell("All columns, and the bounds with their symbols: --details.")


def _description_lines(about: Document, stored: StoredModel) -> dict[str, str]:
    """Return the texts of a `_description` by their headings; a text may be empty."""
    notes = about["trained_on"]
    training_data = "not noted"
    if "rows" in notes:
        training_data = f"{notes['rows']:,} rows of {notes['data']}"
    counts = notes.get("classes", {})
    classes = []
    for label in about["classes"]:
        n_rows = f" ({counts[label]:,} rows)" if label in counts else ""
        classes.append(f"{label}{n_rows}")
    no_features = notes.get("not_features", [])
    sentences = group_sentences(stored.classifier, stored.group_columns, no_features)
    return {
        "file": f"{about['file']}, {about['bytes']:,} bytes",
        "classifier": notes.get("classifier", about["classifier"]),
        "parameters": ", ".join(map("=".join, about["parameters"].items())) or "the defaults",
        "models": str(about["models"] or ""),
        "created": notes.get("created", ""),
        "training data": training_data,
        "target": about["target"] or "not noted",
        "classes": ", ".join(classes),
        "groups": ". ".join(sentences),
        "weights": notes.get("weight") or "",
        "no features": ", ".join(no_features),
        "rule": about["rule"] or "",
        "calibrated": "\n".join(_attempt_lines(about["attempts"])),
        "certified": (about["certificate"] or {}).get("date") or "",
        "versions": ", ".join(map(" ".join, about["versions"].items())),
    }


def rule(
    model: options.ModelOrRule,
    as_json: options.Json = False,
    sql: Annotated[
        bool,
        typer.Option(
            "--sql",
            help="Print an SQL expression over columns of probabilities, for SELECT *, expression AS "
            "prediction FROM scores AS t.",
        ),
    ] = False,
    python: Annotated[
        bool, typer.Option("--python", help="Print a Python function without imports.")
    ] = False,
    columns: Annotated[
        str, options.option("PATTERN", "With --sql: names of these columns.")
    ] = COLUMNS,
    table: Annotated[
        str, options.option("NAME", "With --sql: name or alias of the table in your query.")
    ] = DEFAULT_TABLE,
    group: Annotated[
        str | None, options.option("COL", "With --sql: column of groups of a group-aware rule.")
    ] = None,
    what: Annotated[
        Literal["action", "label", "deferred"],
        typer.Option(
            "--what",
            help="With --sql: the answer, the label in its type, or whether the row is deferred.",
        ),
    ] = ACTION,
    label: Annotated[
        str | None,
        options.option(
            "LABEL", "With --sql or --python: label whose probability the column or number is."
        ),
    ] = None,
) -> None:
    """Print the decision rule: thresholds on a score, or models with weights and action costs.

    The rule of a robustmixture is a function of its models' class probabilities. A database or service with
    these probabilities, or with the score, needs nothing more. The SQL expression
    is NULL for rows with missing or invalid probabilities. If the rule may defer, it is text: human review,
    or the label as text, such as 'True'. Without deferral it keeps the type of the labels.
    """
    forms = {"--json": as_json, "--sql": sql, "--python": python}
    if sum(forms.values()) > 1:
        raise BadInput(f"{', '.join(forms)}: give one of them")
    of_sql = {
        "--columns": columns != COLUMNS,
        "--table": table != DEFAULT_TABLE,
        "--group": group is not None,
        "--what": what != ACTION,
    }
    without_effect = [option for option, is_given in of_sql.items() if is_given and not sql]
    if without_effect:
        raise BadInput(f"{', '.join(without_effect)}: for --sql only; leave it out")
    classifier = read_model(model).classifier
    decision_rule = judged(classifier).rule
    if decision_rule is None:
        raise BadInput(
            f"{str(model)!r}: {a_type_of(classifier)} has no rule on class "
            "probabilities; use --method robustmixture"
        )
    held: dict[str, Any] = {}
    if label is not None:  # in the type of the rule's labels; the exports refuse another label
        labels_by_text = {str(own_label): own_label for own_label in decision_rule.classes}
        held["label"] = labels_by_text.get(label, label)
    if python:
        with shared.bad_input("--python: "):
            print(decision_rule.to_python(**held), end="")
    elif as_json:
        shared.tell_json(decision_rule.to_dict())
    elif sql:
        if group is not None and not judged(classifier).by_group:
            raise BadInput("--group: the rule reads no group; leave the option out")
        names = _names_for_sql(decision_rule, columns, **held)
        with shared.bad_input("--sql: "):
            print(decision_rule.to_sql(*names, group=group, what=what, table=table, **held))
        name = "deferred" if what == "deferred" else "prediction"
        shared.say_aside(
            f"An expression, for a query: SELECT *, <expression> AS {name} FROM "
            f"{_source(table)};"
        )
        if not isinstance(decision_rule, ThresholdRule) and len(decision_rule.models) > 1:
            shared.say_aside(
                f"It reads the probabilities of {len(decision_rule.models)} models, which no command "
                "writes. For a rule on one column: `tailboost predict MODEL FILE --id TARGET`, then "
                "`tailboost calibrate` of its output with --score."
            )
    else:
        shared.tell(str(decision_rule))


def _source(table: str) -> str:
    """Return the FROM of a query in which a table has the name or alias of --table."""
    if table == DEFAULT_TABLE:
        return f"scores AS {table}"
    if re.fullmatch(r"[a-z_][a-z0-9_.]*", table):
        return table
    return sql_table(table)  # as in the expression


def _names_for_sql(decision_rule: Any, pattern: str, label: Any = None) -> list[Any]:
    """Return the positional arguments of ``to_sql`` for the names of columns, from the pattern of --columns.

    ``label`` is that of --label; by default the second. A rule on the probabilities of models gets a function
    or one name. A rule on columns of scores gets no argument, because it has their names.
    """
    with shared.bad_input("--columns: "):
        try:
            pattern.format(model="m", label="l")
        except (KeyError, IndexError):
            raise ValueError(f"{pattern!r} may contain {{model}} and {{label}} only") from None
    if not isinstance(decision_rule, ThresholdRule):
        return [lambda name, label: pattern.format(model=name, label=label)]
    if decision_rule.model is None:
        return []
    if label is None:
        label = decision_rule.classes[1]
    return [pattern.format(model=decision_rule.model, label=label)]


# -- errors by class and group -----------------------------------------------------------------------------


def errors_by_subgroup(
    y: Column,
    predicted: Any,
    classes: Any,
    groups: Mapping[str, Any],
    targets: Mapping[str, float],
    clusters: Column = None,
    deferred: Column = None,
) -> list[dict[str, Any]]:
    """Return the errors of `predict` on all rows, in each class and in each group, with 95 % intervals.

    Groups are arrays by column. Targets are allowed errors by the name of the class, or by "column=value".
    Clusters (persons, sites) widen the intervals. A deferred row is no error and counts among the rows.
    """
    wrong = rates.wrong(np.asarray(predicted), np.asarray(y))
    if deferred is not None:
        wrong = wrong & ~deferred
    subgroups = [("all", "all rows", np.ones(len(wrong), dtype=bool))]
    subgroups += [("class", str(label), np.asarray(y == label)) for label in classes]
    for column, values in groups.items():
        for value in sorted(set(values)):
            subgroups.append(("group", f"{column}={value}", np.asarray(values == value)))
    errors = []
    for kind, name, mask in subgroups:
        line = {"kind": kind, "name": name, "rows": int(mask.sum())}
        line |= {"error": None, "target": targets.get(name), "low": None, "high": None}
        line["clusters"] = None
        own_clusters = None
        if clusters is not None:
            own_clusters = clusters[mask]
            line["clusters"] = len(np.unique(own_clusters))
        if line["rows"]:
            interval = share_with_interval(wrong[mask], own_clusters)
            line |= zip(("error", "low", "high"), interval, strict=True)
        line["verdict"] = _verdict(line)
        errors.append(line)
    return errors


def _verdict(line: Mapping[str, Any]) -> str:
    """Return whether the target is met on these rows; "interval too" if all of the interval agrees.

    The verdict is empty without a target, or without rows.
    """
    target = line["target"]
    if target is None or line["error"] is None:
        return ""
    if line["high"] <= target:
        return "met, interval too"
    if line["low"] > target:
        return "missed, interval too"
    return "met" if line["error"] <= target else "missed"


def error_words(error: float, in_percent: bool) -> str:
    """Return an error with three digits behind the point, in percent with one."""
    return f"{100 * error:.1f} %" if in_percent else f"{error:.3f}"


def print_errors(errors: Sequence[Mapping[str, Any]], title: str, *, in_percent: bool) -> None:
    """Print a table of errors; columns without any value are left out."""
    heads = ["", "name", "rows", "clusters", "error", "95 % interval", "target", "verdict"]
    rows = []
    for line in errors:
        cells = dict.fromkeys(heads, "")
        cells |= {"": line["kind"], "name": line["name"], "rows": f"{line['rows']:,}"}
        cells |= {"error": "–", "verdict": line["verdict"]}
        if line["clusters"] is not None:
            cells["clusters"] = f"{line['clusters']:,}"
        if line["target"] is not None:
            cells["target"] = error_words(line["target"], in_percent)
        if line["error"] is not None:
            low, high = (
                error_words(rounded_away(line[end], 3, end == "high"), in_percent)
                for end in ("low", "high")
            )
            cells |= {
                "error": error_words(line["error"], in_percent),
                "95 % interval": f"{low} – {high}",
            }
        rows.append(list(cells.values()))
    shared.plain_table(*filled_columns(heads, rows), title=title, left=2)


def _targets_by_name(
    stated_in_fit: StatedTargets, classes: list[Any], groups: Mapping[str, Any]
) -> dict[str, float]:
    """Return the largest errors that a fit allowed, by the name of the class, group or cell.

    These are its targets, and its limits on the error by class or group. ``groups`` has an array by column.
    """
    allowed = dict(stated_in_fit.max_error or {})
    group_values = [
        (column, value) for column in groups for value in sorted(set(groups[column]))
    ]
    for by, subgroups in (("class", classes), ("group", group_values)):
        for limit in stated_in_fit.limits:
            if limit.rate != rates.error(by=by):
                continue
            bounds = limit.bounds(subgroups).tolist()
            for subgroup, bound in zip(subgroups, bounds, strict=True):
                if not math.isnan(bound):  # NaN: the limit is on other subgroups
                    allowed[subgroup] = bound
    return {_subgroup_name(subgroup): bound for subgroup, bound in allowed.items()}


def _subgroup_name(subgroup: object) -> str:
    """Return the name of a class, a group ("city=Rome") or a cell ("yes / city=Rome")."""
    if not isinstance(subgroup, tuple):
        return str(subgroup)
    first, last = subgroup
    if isinstance(last, tuple):
        return f"{first} / {_subgroup_name(last)}"
    return f"{first}={last}"


def group_sentences(
    classifier: Model, columns: Sequence[str], not_features: Sequence[str]
) -> list[str]:
    """Return a sentence for each column of groups: whether predictions may depend on it, and how to drop it.

    A fit that compared the values of the columns knows the features with equal values. For another fit the
    names of the columns decide.
    """
    compared_at_fit = {use.column: use for use in group_uses(classifier)}
    sentences = []
    for name in columns:
        use = compared_at_fit.get(name)
        if use is None:
            features = () if name in not_features else (name,)
            use = GroupUse(name, judged(classifier).reads(name), features)
        drops = " ".join(f"--drop {shell_word(feature)}" for feature in use.features or ())
        sentences.append(use.words(f"drop the column to prevent this ({drops})"))
    return sentences
