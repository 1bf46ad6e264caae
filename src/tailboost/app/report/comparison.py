"""Compare methods over repeated random splits of one data set."""

from __future__ import annotations

import dataclasses
import datetime
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.model_selection import StratifiedShuffleSplit
from sklearn.pipeline import Pipeline
from sklearn.utils import get_tags

from tailboost import metrics, rates
from tailboost.app.datasets import TableChangedWarning
from tailboost.app.registry import METHODS, Method, get_method
from tailboost.app.report.results import (
    LEVEL,
    SCHEMA_VERSION,
    Results,
    interval_note,
    summarise,
)
from tailboost.app.table_encoder import preparation
from tailboost.core.array_types import Array, Column, Document, Groups, Labels, Model, Table
from tailboost.core.checks import refuse_missing, take
from tailboost.core.long_work import noticing_interrupts, steps
from tailboost.core.spelling import a_type_of
from tailboost.core.versions import versions
from tailboost.rows.schema import group_name

# Error budgets at which a trade-off is measured: increases of the overall error; 1 sets no limit.
BUDGETS = (0.0, 0.01, 0.02, 0.03, 0.05, 0.07, 0.1, 0.15, 0.2, 1.0)
# Entries of a split's record without a mean over the splits: its number and nested tables.
UNSUMMARISED = ("repeat", "fit_summary")
# Attributes of a method in the results file, for the report.
DESCRIBED = ("name", "title", "summary", "ours", "uses_alpha", "uses_groups", "randomized")


def compare(
    X: Table,
    y: ArrayLike,
    groups: Groups = None,
    *,
    methods: Sequence[str | Method] | None = None,
    alphas: Sequence[float] = (0.1, 0.3, 0.5),
    repeats: int = 5,
    test_size: float = 0.3,
    clusters: Column = None,
    random_state: int | None = None,
    n_jobs: int | None = None,
    data_name: str = "data",
    command: str | None = None,
    on_progress: Callable[[Results], None] = lambda results: None,
) -> Results:
    """Fit each method on the same random splits and measure its errors on the test rows.

    Methods with a parameter α are trained once per split. `reweight` gives their CVaR at each α; their errors
    are those at the middle one of `alphas` (``settings.main_alpha``). The CVaR of a randomised rule uses its
    expected zero-one loss. Any other method has the CVaR min(1, error/α).

    Parameters
    ----------
    X : DataFrame or array-like, shape (n, d)
        Features. Each method has its own encoder of a DataFrame, fitted on the training rows of each split.
    y : array-like, shape (n,)
        Labels: at least two classes with at least two rows each.
    groups : DataFrame, shape (n, g), default=None
        Group columns. Errors are measured by group for each column. Methods that train on groups get
        `joint_groups` of all columns, and without groups the classes.
    methods : sequence of str or Method, default=None
        Names from `tailboost.app.registry.METHODS`; None takes all. The key ``left_out`` of the results lists
        the other methods, with the reason.
    alphas : sequence of float in (0, 1]
        Tail masses at which the CVaR is measured.
    repeats : int ≥ 1, default=5
        Number of stratified random splits.
    test_size : float in (0, 1), default=0.3
        Fraction of the rows, or of the clusters, in the test set.
    clusters : array-like of shape (n,), default=None
        Cluster of each row, such as a person. The rows of one cluster stay on one side of each split.
    random_state : int, default=None
        Seed of splits and fits. None draws a seed, which the results contain.
    n_jobs : int, default=None
        Passed to the methods.
    data_name, command : str
        Name of the data and command line, stored in the results.
    on_progress : callable, optional
        Called before each fit and once at the end, with the results of the finished fits.

    Returns
    -------
    Results
        ``status`` is "complete", or "interrupted" after Ctrl-C. An exception of one method is listed in its
        ``failures`` and does not stop the comparison.

    Raises
    ------
    ValueError, TypeError
        Before any fit, for unknown methods, numbers out of range, and labels or groups too few for a split.
    """
    if hasattr(X, "predict"):
        raise TypeError(
            f"compare fits its methods on a table, compare(X, y); X is {a_type_of(X)}. "
            "tb.ModelCard.of(model, X, y) measures a fitted model"
        )
    levels = sorted({float(a) for a in alphas})
    if not levels or not all(0 < a <= 1 for a in levels):
        raise ValueError(f"alphas must be numbers in (0, 1], got {list(alphas)}")
    if not isinstance(repeats, int) or repeats < 1:
        raise ValueError(f"repeats must be an integer of at least 1, got {repeats!r}")
    table, labels, group_columns = _checked(X, y, groups)
    cluster = np.arange(len(labels))  # number of the cluster by row: each row alone
    if clusters is not None:
        _, cluster = np.unique(np.asarray(clusters), return_inverse=True)
        if cluster.shape != labels.shape:
            raise ValueError(f"clusters must have shape {labels.shape}, got {cluster.shape}")
    data = {"name": data_name} | _described(table, labels, group_columns)
    selected, left_out = _selected(methods, len(data["classes"]))
    if random_state is None:
        random_state = int(np.random.SeedSequence().generate_state(1)[0])
    settings = {
        "alphas": levels,
        "main_alpha": levels[len(levels) // 2],
        "repeats": repeats,
        "test_size": test_size,
        "clusters": clusters is not None,
        "random_state": random_state,
        "n_jobs": n_jobs,
        "interval": {
            "level": LEVEL,
            "kind": "Student t over repeats",
            "note": interval_note(repeats),
        },
    }
    document = {
        "schema": "tailboost.results",
        "schema_version": SCHEMA_VERSION,
        "created": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "status": "running",
        "command": command,
        "versions": versions(),
        "data": data,
        "settings": settings,
        "left_out": left_out,
        "splits": [],
        "methods": [
            {key: getattr(method, key) for key in DESCRIBED}
            | {"repeats": [], "figures": None, "failures": [], "warnings": []}
            for method in selected
        ],
    }
    splits = _splits(table, labels, group_columns, cluster, settings)
    return _measured_on(document, selected, splits, on_progress)


def _described(
    table: Table, labels: Labels, group_columns: dict[str, Labels]
) -> dict[str, Any]:
    """Return the description of the data for the results; raise ValueError for a single class."""
    classes, counts = np.unique(labels, return_counts=True)
    if len(classes) < 2:
        raise ValueError(f"y must have at least two classes, got {len(classes)}")
    group_counts = {}
    for name, groups in group_columns.items():
        values, n_rows = np.unique(groups, return_counts=True)
        group_counts[name] = dict(zip(values.tolist(), n_rows.tolist(), strict=True))
    return {
        "n_rows": len(labels),
        "n_features": int(table.shape[1]),
        "classes": [str(label) for label in classes],
        "class_counts": counts.tolist(),
        "groups": group_counts,
    }


def _measured_on(
    document: Document,
    methods: Sequence[Method],
    splits: Iterator[DataSplit],
    report: Callable[[Results], None],
) -> Results:
    """Fit and measure each method on each split; add the records to the document, and return it as results.

    ``report`` gets the results before each fit, and at the end.
    """
    results = Results(document)
    settings = document["settings"]
    name = document["data"]["name"]
    n_fits = settings["repeats"] * len(methods)
    try:
        with noticing_interrupts() as interrupted, steps(f"fits on {name}", n_fits) as fitted:
            for split in splits:
                document["splits"].append(split.description)
                for method, entry in zip(methods, document["methods"], strict=True):
                    report(results)
                    _add_record(entry, method, split, settings, interrupted)
                    fitted(detail=method.title)
        document["status"] = "complete"
    except KeyboardInterrupt:
        document["status"] = "interrupted"
    report(results)
    return results


def _add_record(
    entry: dict[str, Any],
    method: Method,
    split: DataSplit,
    settings: dict[str, Any],
    interrupted: Callable[[], bool],
) -> None:
    """Fit and measure a method on a split, and add the record to its entry in the document.

    An exception of the method becomes a record of ``failures``, and the comparison goes on.
    """
    record: Document = {"repeat": split.description["repeat"]}
    records = entry["repeats"]
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            record |= _record(method, split, settings)
        except Exception as error:  # methods of other libraries raise exceptions of any type
            record["error"] = f"{type(error).__name__}: {error}"
            records = entry["failures"]
    if interrupted():  # the method may have caught KeyboardInterrupt
        raise KeyboardInterrupt
    records.append(record)
    messages = [str(w.message) for w in caught if issubclass(w.category, UserWarning)]
    entry["warnings"] = list(dict.fromkeys([*entry["warnings"], *messages]))
    entry["figures"] = summarise(entry["repeats"], UNSUMMARISED)


def joint_groups(groups: Groups, min_share: float = 0.01) -> NDArray[np.str_]:
    """Join group columns to one group per row, such as "sex=female, age_band=30-39".

    Combinations with less than ``min_share`` of the rows are pooled as "other".
    """
    columns = [[f"{name}={value}" for value in groups[name]] for name in groups]
    joint = np.array([", ".join(row) for row in zip(*columns, strict=True)])
    names, number_of_row, counts = np.unique(joint, return_inverse=True, return_counts=True)
    if len(columns) > 1:
        names = np.where(counts < min_share * len(joint), "other", names)
    return np.asarray(names[number_of_row], dtype=np.str_)


@dataclasses.dataclass(frozen=True)
class DataSplit:
    """Training rows and test rows of one split."""

    X_train: Table
    X_test: Table
    y_train: Labels
    y_test: Labels
    # Argument ``groups`` of a fit: joint groups; empty without groups.
    groups_train: dict[str, Any]
    groups_test: dict[str, Labels]  # by column of groups
    classes: Labels  # labels of all rows
    description: dict[str, int]  # the entry of "splits" in the results


def _splits(
    table: Table,
    labels: Labels,
    groups: dict[str, Labels],
    cluster: Array,
    settings: dict[str, Any],
) -> Iterator[DataSplit]:
    """Yield the splits of the rows; the rows of a cluster stay on one side."""
    seed = settings["random_state"]
    joint = joint_groups(groups)
    splitter = StratifiedShuffleSplit(
        settings["repeats"], test_size=settings["test_size"], random_state=seed
    )
    strata = _rarest_label(labels, cluster)  # the splitter divides clusters, not rows
    for repeat, sides in enumerate(splitter.split(np.zeros(len(strata)), strata)):
        # Without clusters the order of the splitter stays: some learners depend on the order of rows.
        if settings["clusters"]:
            sides = [np.flatnonzero(np.isin(cluster, side)) for side in sides]
        train, test = sides
        description = {
            "repeat": repeat,
            "fit_seed": int(np.random.SeedSequence([seed, repeat]).generate_state(1)[0]),
            "n_train": len(train),
            "n_test": len(test),
        }
        yield DataSplit(
            X_train=take(table, train),
            X_test=take(table, test),
            y_train=labels[train],
            y_test=labels[test],
            groups_train={"groups": joint[train]} if groups else {},
            groups_test={name: values[test] for name, values in groups.items()},
            classes=np.unique(labels),
            description=description,
        )


def _rarest_label(labels: Labels, cluster: Labels) -> Labels:
    """Return the rarest label in each cluster, shape (clusters,); splits are stratified by these labels.

    ``cluster`` has the number of the cluster of each row.
    """
    values, number_of_row, counts = np.unique(labels, return_inverse=True, return_counts=True)
    rarest_first = np.argsort(counts, kind="stable")
    rank_of_row = np.argsort(rarest_first)[number_of_row]  # 0: the rarest label of all
    least_rank = np.full(int(cluster.max()) + 1, len(values))
    np.minimum.at(least_rank, cluster, rank_of_row)
    return np.asarray(values[rarest_first][least_rank])


def _record(method: Method, split: DataSplit, settings: dict[str, Any]) -> dict[str, Any]:
    """Fit a method on the training rows of a split; return its errors, CVaR and times on the test rows.

    `tailboost.app.report.results` lists the keys.
    """
    main_alpha = settings["main_alpha"]
    alphas = settings["alphas"]
    seed = split.description["fit_seed"]
    classifier = method.make(alpha=main_alpha, random_state=seed, n_jobs=settings["n_jobs"])
    split = _prepared(split, classifier)
    groups = split.groups_train if method.uses_groups else {}
    start = time.perf_counter()
    classifier.fit(split.X_train, split.y_train, **groups)
    fitted = time.perf_counter()
    models = dict.fromkeys(alphas, classifier)
    if method.uses_alpha:
        models = {alpha: classifier.reweight(alpha=alpha) for alpha in alphas}
    reweighted = time.perf_counter()
    answers = np.asarray(models[main_alpha].predict(split.X_test))
    predicted = time.perf_counter()
    cvar = {}
    for alpha, model in models.items():
        distribution = method.distribution(model, split.X_test, split.classes)
        loss = metrics.cvar_zero_one_loss(
            split.y_test, distribution, alpha, labels=split.classes
        )
        cvar[f"{alpha:g}"] = float(loss)
    record = {
        **_errors(answers, split),
        "cvar": cvar,
        "fit_seconds": fitted - start,
        "reweight_seconds": reweighted - fitted if method.uses_alpha else None,
        "predict_seconds": predicted - reweighted,
    }
    if hasattr(classifier, "tradeoff") and not method.uses_alpha:
        points = []
        for budget in BUDGETS:
            answers_within = classifier.reweight(error_budget=budget).predict(split.X_test)
            points.append({"error_budget": budget} | _errors(answers_within, split))
        record["tradeoff"] = points
    summary = getattr(models[main_alpha], "summary_", None)
    if summary is not None:
        record["fit_summary"] = str(summary)
    return record


def _prepared(split: DataSplit, classifier: Model) -> DataSplit:
    """Return a split with tables prepared for the classifier, by steps fitted on the training rows."""
    preparation_steps = preparation(classifier)
    if isinstance(split.X_train, np.ndarray) and split.X_train.dtype.kind == "f":
        preparation_steps = preparation_steps[1:]  # an array needs no encoder
    elif not hasattr(split.X_train, "iloc"):  # a sparse matrix, or an array of another type
        preparation_steps = []
    if not preparation_steps:
        return split
    pipeline = Pipeline(preparation_steps).fit(split.X_train)
    with warnings.catch_warnings():  # test rows may have unseen categories
        warnings.simplefilter("ignore", TableChangedWarning)
        X_train, X_test = map(pipeline.transform, (split.X_train, split.X_test))
    return dataclasses.replace(split, X_train=X_train, X_test=X_test)


def _errors(answers: Column, split: DataSplit) -> dict[str, Any]:
    """Return the errors of answers to the test rows, with the keys of a record."""
    y = split.y_test
    answers = np.asarray(answers)
    class_errors = {}
    for label, error in metrics.class_errors(y, answers, labels=split.classes).items():
        if not np.isnan(error):  # NaN: no test row of the class
            class_errors[str(label)] = float(error)
    group_errors = {}
    for name, groups in split.groups_test.items():
        errors = metrics.group_errors(y, answers, groups)
        group_errors[name] = {str(group): float(error) for group, error in errors.items()}
    worst = {name: max(errors.values()) for name, errors in group_errors.items()}
    return {
        "error": float(np.mean(rates.wrong(answers, y))),
        "class_errors": class_errors,
        "worst_class_error": max(class_errors.values()),
        "group_errors": group_errors,
        "worst_group_errors": worst,
        "worst_group_error": max(worst.values(), default=None),
    }


def _selected(
    methods: Sequence[str | Method] | None, n_classes: int
) -> tuple[list[Method], list[dict[str, str]]]:
    """Return the methods to compare, and title and reason of each omitted method.

    ``methods`` are names or methods; None takes all methods of the registry.
    """
    for method in methods or ():
        if not (isinstance(method, str) or hasattr(method, "make")):
            raise TypeError(
                f"methods must hold names or Method objects, got {method!r}; for your own "
                "estimator use "
                'Method("name", "Title", "one-line summary", factory), where factory() returns it unfitted'
            )
    selected: dict[str, Method] = {}
    left_out = []
    for method in METHODS if methods is None else methods:
        if isinstance(method, str):
            method = get_method(method)
        try:
            multi_class = get_tags(method.make()).classifier_tags.multi_class
        except ImportError as error:
            left_out.append({"title": method.title, "reason": str(error)})
            continue
        if n_classes > 2 and not multi_class:
            reason = f"{method.name} takes two classes, the data have {n_classes}"
            left_out.append({"title": method.title, "reason": reason})
        else:
            selected[method.name] = method
    if not selected:
        reasons = [method["reason"] for method in left_out]
        raise ValueError(" ".join(["methods must name at least one method", *reasons]))
    return list(selected.values()), left_out


def _checked(X: Table, y: ArrayLike, groups: Groups) -> tuple[Any, Labels, dict[str, Labels]]:
    """Return the table, the labels, and the groups of each column as text, after a check of their lengths."""
    table = X
    if hasattr(X, "tocsr"):
        table = X.tocsr()
    elif not hasattr(X, "iloc"):
        table = np.asarray(X)
    if table.ndim != 2:
        raise ValueError(f"X must have two dimensions, got shape {table.shape}")
    labels = np.asarray(y)
    if labels.shape != table.shape[:1]:
        raise ValueError(
            f"y must have one label per row of X, got shape {labels.shape} for "
            f"{table.shape[0]} rows"
        )
    refuse_missing(labels, "y")
    group_columns: dict[str, Labels] = {}
    if groups is None:
        return table, labels, group_columns
    for name in groups:
        values = np.array([*map(group_name, np.asarray(groups[name]).tolist())], dtype=str)
        if len(values) != len(labels):
            raise ValueError(
                f"group column {name!r} has {len(values)} rows, X has {len(labels)}"
            )
        group_columns[str(name)] = values
    return table, labels, group_columns
