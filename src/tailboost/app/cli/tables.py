"""Errors by class and group on new rows, with exact intervals."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tailboost import rates
from tailboost.app.cli.rates import fitted_targets
from tailboost.app.cli.shared import plain_table
from tailboost.core.subgroups import GroupUse, answers_by_group, group_uses
from tailboost.rates.bounds import clopper_pearson_interval, clustered_size

CONFIDENCE = 0.95


def errors_by_subgroup(
    y: Any,
    predicted: Any,
    classes: Any,
    groups: Mapping[str, Any],
    targets: Mapping[str, float],
    clusters: Any = None,
    deferred: Any = None,
) -> list[dict[str, Any]]:
    """Return the errors of `predict` on all rows, in each class and in each group, with 95 % intervals.

    Groups are arrays by column. Targets are allowed errors by the name of the class, or by "column=value".
    Clusters (persons, sites) widen the intervals. A deferred row is no error and counts among the rows.
    """
    wrong = rates.wrong(np.asarray(predicted), np.asarray(y))
    if deferred is not None:
        wrong = wrong & ~deferred
    masks = [("all", "all rows", np.ones(len(wrong), dtype=bool))]
    masks += [("class", str(label), np.asarray(y == label)) for label in classes]
    for column, values in groups.items():
        masks += [
            ("group", f"{column}={value}", np.asarray(values == value)) for value in sorted(set(values))
        ]
    errors = []
    for kind, name, inside in masks:
        wrong_inside, error, low, high = wrong[inside], None, None, None
        ids = None if clusters is None else clusters[inside]
        if n := len(wrong_inside):
            error = int(np.sum(wrong_inside)) / n
            size = n if ids is None else clustered_size(wrong_inside, ids)
            low, high = map(float, clopper_pearson_interval(error, size, CONFIDENCE))
        line = {"kind": kind, "name": name, "rows": n, "error": error, "target": targets.get(name)}
        line |= {"low": low, "high": high, "clusters": None if ids is None else len(np.unique(ids))}
        errors.append(line | {"verdict": _verdict(line)})
    return errors


def _verdict(line: Mapping[str, Any]) -> str:
    """Return whether the target is met on these rows, and whether the whole interval is on that side."""
    if line["target"] is None or line["error"] is None:
        return ""
    if line["error"] <= line["target"]:
        return "met, interval too" if line["high"] <= line["target"] else "met"
    return "missed, interval too" if line["low"] > line["target"] else "missed"


def print_errors(errors: Sequence[Mapping[str, Any]], title: str) -> None:
    """Print a table of errors; columns without any value are left out."""

    def text(value: Any) -> str:
        return "–" if value is None else f"{value:.3f}"

    columns = {
        "": [line["kind"] for line in errors],
        "name": [line["name"] for line in errors],
        "rows": [f"{line['rows']:,}" for line in errors],
        "clusters": ["" if line["clusters"] is None else f"{line['clusters']:,}" for line in errors],
        "error": [text(line["error"]) for line in errors],
        "95 % interval": [
            "" if line["low"] is None else f"{text(line['low'])} – {text(line['high'])}" for line in errors
        ],
        "target": ["" if line["target"] is None else text(line["target"]) for line in errors],
        "verdict": [line["verdict"] for line in errors],
    }
    columns = {heading: cells for heading, cells in columns.items() if any(cells)}
    plain_table(list(columns), list(zip(*columns.values(), strict=True)), title=title, left=2)


def targets_by_name(classifier: Any) -> dict[str, float]:
    """Return the targets of the fit by the name of the class, group or cell."""
    if fitted_targets(classifier) is None:
        return {}
    lines = [line for line in classifier.rates_ if line.unit is not None and not np.isnan(line.bound)]
    return {_subgroup_name(line.unit): line.bound for line in lines}


def _subgroup_name(subgroup: Any) -> str:
    """Return the name of a class, a group ("city=Rome") or a cell ("yes / city=Rome")."""
    if not isinstance(subgroup, tuple):
        return str(subgroup)
    first, last = subgroup
    return f"{first} / {_subgroup_name(last)}" if isinstance(last, tuple) else f"{first}={last}"


def group_sentences(classifier: Any, columns: Sequence[str], not_features: Sequence[str]) -> list[str]:
    """Return, for each column of groups, whether predictions may depend on it, and how to drop it.

    The values of the columns decide if they were compared at the fit, otherwise their names.
    """
    uses = {use.column: use for use in group_uses(classifier)}
    sentences = []
    for name in columns:
        names = () if name in not_features else (name,)
        use = uses.get(name) or GroupUse(name, answers_by_group(classifier), names)
        drop = " ".join(f"--drop {feature}" for feature in use.features or ())
        sentences.append(f"{use}{f' ({drop})' if drop else ''}")
    return sentences
