"""``fit``: one method on a table, stored with its preparation and with what it was made from."""

from __future__ import annotations

import ast
import datetime
import io
import json
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, redirect_stdout
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from rich.progress import SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.text import Text
from sklearn.pipeline import Pipeline
from sklearn.utils.class_weight import compute_class_weight
from sklearn.utils.validation import has_fit_parameter

from tailboost import datasets, rates
from tailboost.app.cli import options as given
from tailboost.app.cli.alerts import read_to_fit
from tailboost.app.cli.compare import installed
from tailboost.app.cli.inspect import evaluate
from tailboost.app.cli.models import check_model_output
from tailboost.app.cli.rates import (
    TableOfCosts,
    print_rates,
    rate_of,
    rates_kept,
    read_limits,
    read_objective,
    spelled,
)
from tailboost.app.cli.shared import (
    BadInput,
    bad_input,
    console,
    is_quiet,
    printable,
    progress,
    say,
    warn,
    warnings_as_lines,
)
from tailboost.app.cli.tables import repeated_ids, said_of_groups
from tailboost.app.cli.targets import read_targets, targets_by_label
from tailboost.app.registry import METHODS, Method
from tailboost.app.report.comparison import joint_groups
from tailboost.app.table_encoder import preparation
from tailboost.core.interrupts import ending_at_interrupts
from tailboost.core.spelling import did_you_mean
from tailboost.core.subgroups import telling_features
from tailboost.storage import save_model

# Seconds between two lines about rounds, where lines are all that can be shown.
BETWEEN_LINES = 2.0


def fit(
    data: given.Data,
    target: given.Target,
    model: Annotated[Path, typer.Option(metavar="FILE", help="Where to write the model.")],
    method: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="A method, see `tailboost list`; by default robustmixture, over the groups if given.",
        ),
    ] = None,
    group: given.Groups = None,
    drop: given.Drop = None,
    identity: given.Identity = None,
    keep: given.Keep = None,
    weight: Annotated[
        str | None, typer.Option(metavar="COL", help="The column of the rows' weights: no feature.")
    ] = None,
    max_error: given.MaxError = None,
    objective: given.Objective = None,
    limit: given.Limits = None,
    costs: given.Costs = None,
    error_budget: given.MeanBudget = None,
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="NAME=VALUE", help="A parameter of the method; may be repeated."),
    ] = None,
    test: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Rows to evaluate the model on, once it is stored.")
    ] = None,
    sep: given.Sep = ",",
    seed: given.Seed = 0,
    jobs: given.Jobs = 1,
) -> None:
    """Fit one method on a table and store it, preparation included.

    The model stores how each column was read and reads later tables in the same way: text stays the text of
    the file (zip code 01234), and a row gets the same answer alone and among others. Labels of a CSV file
    stay text. It also stores where it came from: `tailboost inspect`.
    """
    aims = {
        "max_error": read_targets(max_error),
        "error_budget": error_budget,
        "objective": read_objective(objective),
        "limits": read_limits(limit) or None,
    }
    if costs is not None and aims["objective"] is None:
        aims["objective"] = rates.cost()
    by_rates = aims["objective"] is not None or aims["limits"] is not None
    with bad_input("--method: "):
        chosen = installed(method or "robustmixture")
    settings = list(settings or [])
    if group and chosen.may_use_groups and not by_rates:
        # A method that may train on groups is given some for that.
        settings = ["objective=worst_group", *settings]
    classifier = configured(chosen, settings, aims, seed, jobs)
    _check_fits(chosen, classifier, group, weight)
    check_model_output(model, data, test, costs)
    aside = [*(drop or []), *([] if identity is None else [identity])]
    columns: dict[str, Any] = {
        "target": target,
        "group": group or [],
        "weight": weight,
        "not_features": aside,
        "keep": keep or [],
        "id": identity,
    }
    with bad_input("--test: "):
        if test is not None:
            datasets.read_raw(test, sep)  # a fault in it is better found now than after the fit
    pipeline, counts = _fit_here(classifier, chosen, data, columns, aims["max_error"], costs, sep)
    with bad_input("--model: "):
        save_model(pipeline, model, notes=notes_of(chosen, data, counts, columns))
    say(f"Model: {model}")
    for said in said_of_groups(pipeline[-1], columns["group"], columns["not_features"]):
        say(f"G{said[1:]}.")
    if test is not None:
        evaluate(model, test, sep=sep)
    elif not is_quiet():
        _print_kept_errors(pipeline[-1])
    if not is_quiet():
        _describe(pipeline[-1], model, measured=test is not None)


def _fit_here(
    classifier: Any,
    method: Method,
    data: Path,
    columns: dict[str, Any],
    max_error: Any,
    costs: Path | None,
    sep: str,
) -> tuple[Pipeline, dict[Any, int]]:
    """Fit the classifier; return it with its preparation, and the rows of each class."""
    group, weight = columns["group"], columns["weight"]
    aside, keep = columns["not_features"], columns.pop("keep")
    table, ids = read_to_fit(data, columns["target"], group, aside, keep, weight=weight, sep=sep)
    columns["not_features"] += ids
    whose = repeated_ids(data, columns.pop("id"), table.data.index, sep)
    if max_error is not None:
        classifier.set_params(max_error=targets_by_label(max_error, table.target_names, group))
    name_labels(classifier, table.target_names)
    extra = {} if weight is None else {"classifier__sample_weight": table.weight}
    if whose is not None and has_fit_parameter(classifier, "clusters"):
        extra["classifier__clusters"] = whose
    extra |= _name_rates(classifier, table, group, costs, data, sep)
    with bad_input("--set: "):  # what prepares the table depends on the learner, whose name may be wrong
        pipeline = Pipeline([*preparation(classifier, table.schema), ("classifier", classifier)])
    if group:
        # Ours take every value of every column as a group; the others know one column.
        extra["classifier__groups"] = table.groups if method.ours else joint_groups(table.groups)
    say(f"Fitting {method.title} on {len(table.data):,} rows, {len(table.target_names)} classes.")
    start = time.perf_counter()
    # A half-trained model must not be stored as if it were a whole one.
    with ending_at_interrupts(), bad_input(), warnings_as_lines(), _showing_rounds(classifier, method):
        pipeline.fit(table.data, table.target, **extra)
    if hasattr(classifier, "group_features_"):  # columns by the names in the file, not as they were encoded
        telling = telling_features(table.data, table.groups.apply(lambda of: of.cat.codes).to_numpy())
        classifier.group_features_ = tuple(zip(table.groups, telling, strict=True))
    say(f"Fitted in {time.perf_counter() - start:.1f} s.")
    return pipeline, {k: int(n) for k, n in zip(*np.unique(table.target, return_counts=True), strict=True)}


def _name_rates(
    classifier: Any, table: Any, group: Sequence[str], costs: Path | None, data: Path, sep: str
) -> dict[str, Any]:
    """Spell the rates in a classifier's parameters as the table does; return what ``fit`` takes of costs."""
    labels = table.target_names.tolist()
    known = None if costs is None else TableOfCosts.read(costs, labels, table.target, data, sep)
    params = classifier.get_params(deep=False)
    if "limits" in params:
        objective = spelled(params["objective"], labels, group, known)
        limits = [spelled(limit, labels, group, known) for limit in params["limits"]]
        classifier.set_params(objective=objective, limits=limits)
        rates_named = [rate_of(one) for one in (params["objective"], *params["limits"])]
        if known is not None and not any(rate is not None and rate.needs_costs for rate in rates_named):
            raise BadInput("--costs: neither --objective nor --limit names cost()")
    return {} if known is None or known.each is None else {"classifier__costs": known.each}


def notes_of(method: Method, data: Path, counts: dict[Any, int], columns: dict[str, Any]) -> dict[str, Any]:
    """Return what a model file says of how it was made."""
    aside = [*columns["not_features"], *([] if columns["weight"] is None else [columns["weight"]])]
    return {
        "created": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "method": method.name,
        "data": printable(data.name),
        "rows": sum(counts.values()),
        "classes": {str(k): n for k, n in counts.items()},
        **columns,
        "not_features": aside,
    }


def _check_fits(method: Method, classifier: Any, group: list[str] | None, weight: str | None) -> None:
    if group and not method.may_use_groups and (not method.uses_groups or method.by_group):
        able = ", ".join(
            m.name for m in METHODS.values() if m.may_use_groups or (m.uses_groups and not m.by_group)
        )
        lacks = "would need them at prediction too" if method.uses_groups else "does not train on groups"
        raise BadInput(f"--group: {method.name} {lacks}; leave it out, or take {able}")
    if weight is not None and not has_fit_parameter(classifier, "sample_weight"):
        raise BadInput(f"--weight: {method.name} takes no weights")


def configured(method: Method, settings: Sequence[str], aims: dict[str, Any], seed: int, jobs: int) -> Any:
    """Make the method's classifier with the options applied, and have it check its own parameters."""
    classifier = method.make(random_state=seed, n_jobs=jobs)
    known = classifier.get_params(deep=False)
    for name, value in aims.items():
        if value is None:
            continue
        option = "--limit" if name == "limits" else f"--{name.replace('_', '-')}"
        if name not in known:
            able = ", ".join(m.name for m in METHODS.values() if _takes(m, name))
            raise BadInput(f"{option}: {method.name} has no {name}; take {able or 'another method'}")
        if any(setting.partition("=")[0] == name for setting in settings):
            raise BadInput(f"{option} and --set {name}=… say the same; give one of them")
        with bad_input(f"{option}: "):
            classifier.set_params(**{name: value})
    for setting in settings:
        name, equals, text = setting.partition("=")
        if not equals:
            raise BadInput(f"--set needs NAME=VALUE, got {setting!r}")
        if name not in known:
            if name == "theta" and "max_error" in known:
                raise BadInput(
                    "--set: theta is 1 − max_error: give --max-error, the error allowed (theta=.8 is "
                    "--max-error .2)"
                )
            hint = did_you_mean(name, known)
            there = f"{'It' if hint else 'it'} has {', '.join(sorted(known))}"
            raise BadInput(f"--set: {method.name} has no parameter {name!r}; {hint}{there}")
        with bad_input(f"--set {name}={text}: "):
            classifier.set_params(**{name: literal(text)})
    if hasattr(classifier, "_parameter_constraints"):  # XGBoost's checks while it fits
        with bad_input("--set: "):
            classifier._validate_params()
    return classifier


def _takes(method: Method, name: str) -> bool:
    try:
        return name in method.make().get_params(deep=False)
    except ImportError:
        return False


def name_labels(classifier: Any, labels: Sequence[Any]) -> None:
    """Convert labels in parameters to those of the table: labels of a CSV file are text."""
    names = set(labels)
    spelled = {str(label): label for label in labels}
    for name, value in classifier.get_params(deep=False).items():
        if isinstance(value, dict):
            named = {k if k is None or k in names else spelled.get(str(k), k): v for k, v in value.items()}
            if name == "class_weight":  # newer versions of scikit-learn read text such as "1" as a number
                try:
                    compute_class_weight(named, classes=np.asarray(labels), y=np.asarray(labels))
                except ValueError:
                    continue
            classifier.set_params(**{name: named})


def literal(text: str) -> Any:
    """Read a Python or JSON literal; anything else is the text itself, so that words need no quotes."""
    for read in (ast.literal_eval, json.loads):
        try:
            return read(text)
        except (ValueError, SyntaxError):
            continue
    return text


def _describe(classifier: Any, model: Path, *, measured: bool) -> None:
    """Print what the guarantee comes to, or where other rows were measured where it is to be found.

    If this fails, the model that is already stored stays.
    """
    try:
        if hasattr(classifier, "summary_"):
            say(f"Bounds, columns and versions: tailboost inspect {model} --details")
            if not measured:
                say(f"{classifier.summary_.standing}\n{classifier.summary_.headline}")
    except Exception as error:  # the model is stored: a fault in describing it must not fail the command
        warn(f"no guarantee can be given ({type(error).__name__}: {error})")


def _print_kept_errors(classifier: Any) -> None:
    if (table := rates_kept(classifier)) is not None:
        say("")
        print_rates(table)
    else:
        say("Errors on rows that were not fitted on: give --test FILE, or `tailboost evaluate`.")


# -- progress ----------------------------------------------------------------------------------------------


@contextmanager
def _showing_rounds(classifier: Any, method: Method) -> Iterator[None]:
    """Show on standard error that a fit goes on: a line that changes on a terminal, else a line now and then.

    Our classifiers print a line per round where they are verbose.
    """
    if is_quiet():
        yield
        return
    terminal = console(stderr=True)
    columns = (SpinnerColumn(), TextColumn("{task.description}", markup=False), TimeElapsedColumn())
    with progress(*columns) as bar:
        task = bar.add_task(f"fitting {method.title}", total=None)
        last = -np.inf

        def show(line: str) -> None:
            nonlocal last
            bar.update(task, description=line)
            if not terminal.is_terminal and time.monotonic() - last >= BETWEEN_LINES:
                terminal.print(Text(line), soft_wrap=True)
                last = time.monotonic()

        # None where there is no such parameter; the user's own verbose=1 prints as it does in Python.
        if not method.ours or classifier.get_params(deep=False).get("verbose") != 0:
            yield
            return
        classifier.set_params(verbose=1)
        try:
            with redirect_stdout(_Lines(show)):
                yield
        finally:
            classifier.set_params(verbose=0)


class _Lines(io.TextIOBase):
    """A stream that hands on every whole line."""

    def __init__(self, show: Callable[[str], None]) -> None:
        self._show = show
        self._begun = ""

    def write(self, text: str) -> int:
        *lines, self._begun = (self._begun + text).split("\n")
        for line in lines:
            self._show(line)
        return len(text)
