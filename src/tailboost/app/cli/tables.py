"""Errors by class and group, as rows of a table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

from tailboost import datasets, rates
from tailboost.app.cli.shared import plain_table
from tailboost.app.cli.targets import stated_max_error
from tailboost.core.subgroups import GroupUse, answers_by_group, group_uses
from tailboost.rates.bounds import clopper_pearson_interval, clustered_size

CONFIDENCE = 0.95


@dataclass(frozen=True)
class UnitError:
    """The error on some rows: all of them, a class or a group."""

    kind: str  # {"all", "class", "group"}
    name: str  # of a group with its column: "sex=female"
    rows: int
    # Share of them (of their weight) answered wrong; None if there are none, or it is not known.
    error: float | None
    target: float | None = None  # the error allowed, where there is a target
    # low, high: 95 % interval for new rows, of rows that are independent and count one each.
    low: float | None = None
    high: float | None = None
    persons: int | None = None  # whose rows these are, where that was said; then the interval allows for it

    @property
    def verdict(self) -> str:
        """Whether the target is met on these rows, and whether the interval says so too."""
        if self.target is None or self.error is None:
            return ""
        if self.error <= self.target:
            return "met, interval too" if self.high is not None and self.high <= self.target else "met"
        return "missed, interval too" if self.low is not None and self.low > self.target else "missed"

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain types, for JSON."""
        return asdict(self) | {"verdict": self.verdict}


def errors_by_unit(
    y: Any,
    predicted: Any,
    classes: Any,
    groups: Mapping[str, Any],
    targets: Mapping[str, float],
    clusters: Any = None,
    deferred: Any = None,
) -> list[UnitError]:
    """Return the errors of `predict` on all rows, every class and every group.

    Groups are by column; targets are those of classes by their name, and of groups by "column=value";
    ``clusters`` say whose rows these are. A deferred row is no error, and stays among the rows.
    """
    wrong = rates.wrong(np.asarray(predicted), np.asarray(y))
    if deferred is not None:
        wrong = wrong & ~deferred
    by_class = (("class", str(label), np.asarray(y == label)) for label in classes)
    by_group = (
        ("group", f"{column}={value}", np.asarray(values == value))
        for column, values in groups.items()
        for value in sorted(set(values))
    )
    found = []
    for kind, name, inside in chain(
        [("all", "all rows", np.ones(len(wrong), dtype=bool))], by_class, by_group
    ):
        here, whose = wrong[inside], None if clusters is None else clusters[inside]
        n, error, low, high = len(here), None, None, None
        if n:
            error = int(np.sum(here)) / n
            worth = n if whose is None else clustered_size(here, whose)
            low, high = map(float, clopper_pearson_interval(error, worth, CONFIDENCE))
        persons = None if whose is None else len(np.unique(whose))
        found.append(UnitError(kind, name, n, error, targets.get(name), low, high, persons))
    return found


def repeated_ids(data: Path, identity: str | None, index: Any, sep: str) -> Any:
    """Return the ids of the rows of a file, where some have more than one; else None."""
    ids = None if identity is None else datasets.read_raw(data, sep)[identity].loc[index]
    return None if ids is None or ids.is_unique or ids.isna().any() else ids.astype(str).to_numpy()


def said_of_groups(classifier: Any, columns: Sequence[str], not_features: Sequence[str]) -> list[str]:
    """Say of each column of groups whether a model's answers may depend on it, and how to drop it.

    By the values of the columns where these were looked at, else by their names.
    """
    uses = {use.column: use for use in group_uses(classifier)}
    for name in set(columns) - set(uses):
        features = () if name in not_features else (name,)
        uses[name] = GroupUse(name, answers_by_group(classifier), features)
    said = []
    for name in columns:
        drop = " ".join(f"--drop {feature}" for feature in uses[name].features or ())
        said.append(f"{uses[name]}{f' ({drop})' if drop else ''}")
    return said


def print_errors(units: Sequence[UnitError], *, words: str) -> None:
    """Print a table of errors; ``words`` says which errors on which rows."""
    with_interval = any(unit.low is not None for unit in units)
    with_target = any(unit.target is not None for unit in units)
    persons = any(unit.persons is not None for unit in units)
    headings = ["", "name", "rows", *["persons"] * persons, "error"]
    headings += ["95 % interval"] * with_interval + ["target", ""] * with_target
    rows = []
    for unit in units:
        error, target = ("–" if x is None else f"{x:.3f}" for x in (unit.error, unit.target))
        row = [unit.kind, unit.name, f"{unit.rows:,}", *([f"{unit.persons:,}"] if persons else []), error]
        row += ["" if unit.low is None else f"{unit.low:.3f} – {unit.high:.3f}"] * with_interval
        row += ["" if unit.target is None else target, unit.verdict] * with_target
        rows.append(row)
    plain_table(headings, rows, title=words, left=2)


def stated_targets(classifier: Any) -> dict[str, float]:
    """Return the errors that were allowed when a classifier was fitted, by the name of the subgroup."""
    if stated_max_error(classifier) is None:
        return {}
    lines = [line for line in classifier.rates_ if line.unit is not None and not np.isnan(line.bound)]
    return {_unit_name(line.unit): line.bound for line in lines}


def _unit_name(unit: Any) -> str:
    """Name a class, a group ("city=Rome") or a cell ("yes / city=Rome") as `errors_by_unit` does."""
    if not isinstance(unit, tuple):
        return str(unit)
    first, last = unit
    return f"{first} / {_unit_name(last)}" if isinstance(last, tuple) else f"{first}={last}"
