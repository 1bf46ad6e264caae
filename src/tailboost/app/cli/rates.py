"""Rates, limits, targets and costs: read from options and files, and printed as tables."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from tailboost import datasets, rates
from tailboost.app.cli.models import NewRows, StoredModel
from tailboost.app.cli.options import CsvFormat
from tailboost.app.cli.shared import BadInput, bad_input, plain_table, read_number, tell
from tailboost.core.array_types import Column, Model, Stated
from tailboost.core.spelling import did_you_mean
from tailboost.guarantees.stated import stated_by
from tailboost.rows.judged import judged
from tailboost.rows.schema import group_name
from tailboost.rows.subgroups import HUMAN_REVIEW
from tailboost.selection.rate_table import RateTable

Targets: TypeAlias = float | dict[Any, float] | None


# -- options -----------------------------------------------------------------------------------------------


def read_targets(text: str | None) -> Targets:
    """Return the errors of --max-error: ``.3`` or ``yes=.2,no=.1,*=.4``; names may contain "="."""
    if text is None:
        return None
    targets: dict[Any, float] = {}
    for item in text.split(","):
        name, equals, number = item.strip().rpartition("=")
        try:
            error = read_number(number)
        except ValueError:
            raise BadInput(
                f"--max-error: {item.strip()!r} must be NAME=ERROR, as in 'yes=.2,*=.4'"
            ) from None
        if not 0 < error <= 1:
            raise BadInput(f"--max-error: {number} is not in (0, 1]")
        if not equals and "," not in text:
            return error
        if not name or (key := None if name == "*" else name) in targets:
            raise BadInput(
                f"--max-error: {item.strip()!r} has no name, or its name occurs twice"
            )
        targets[key] = error
    return targets


def read_objective(text: str | None) -> Any:
    """Return the objective of --objective: a name, or a rate."""
    if text is None or text.isidentifier():
        return text
    expression = _parse("--objective", text)
    if expression.limit is not None or expression.compares:
        raise BadInput(f"--objective: {text!r} is a limit; use --limit")
    return expression


def spelt(objective: Stated) -> str | None:
    """Return an objective as text, for a file."""
    if rates.as_expression(objective):
        return repr(objective)
    return objective


def read_limits(texts: Sequence[str] | None) -> list[rates.Limit]:
    """Return the limits of --limit."""
    limits = []
    for text in texts or []:
        limit = _parse("--limit", text).limit
        if limit is None:
            raise BadInput(f"--limit: {text!r} has no bound; write, for instance, {text} <= .1")
        limits.append(limit)
    return limits


def read_rates(texts: Sequence[str] | None) -> list[Any]:
    """Return the rates and limits of --rate."""
    expressions = [_parse("--rate", text) for text in texts or []]
    return [each.rate if each.limit is None else each for each in expressions]


def read_curve_rate(option: str, text: str) -> Any:
    """Return a rate of a trade-off: a rate, the largest of a family, a gap or a ratio."""
    expression = _parse(option, text)
    if expression.limit is not None:
        raise BadInput(
            f"{option}: {text!r} is a limit; leave out the number; the curve shows all bounds"
        )
    return expression


def _parse(option: str, text: str) -> rates.Expression:
    with bad_input(f"{option}: "):
        return rates.parse(text)


# -- rates of the model ------------------------------------------------------------------------------------


def rate_of(stated: Any) -> Any:
    """Return the rate of an objective or a limit; None for an objective given by name."""
    expression = rates.as_expression(stated)
    return None if expression is None else expression.rate


def fitted_rates(classifier: Model, columns: Sequence[str]) -> list[Any]:
    """Return the objective of the fit, if it is a rate, and the limits.

    For a classifier that defers rows, the error among the answered rows and the deferral rate are added. Both
    are stated for all rows, by class, and by group if there are columns of groups.
    """
    rate = rate_of(getattr(classifier, "objective", None))
    stated = [*([] if rate is None else [rate]), *stated_by(classifier).limits]
    if judged(classifier).can_defer:
        subgroups = [None, "class", *(["group"] if columns else [])]
        deferral_rates = [
            make(by) for make in (rates.answered_error, rates.deferred) for by in subgroups
        ]
        stated += [rate for rate in deferral_rates if rate not in map(rate_of, stated)]
    return stated


def targets_by_label(targets: Targets, classes: Any, columns: Sequence[str]) -> Targets:
    """Return targets by subgroup: labels as the model stores them, groups as (column, value)."""
    if not isinstance(targets, dict):
        return targets
    labels = {str(label): label for label in classes.tolist()}

    def subgroup(name: Any) -> Any:
        if name is None or name in labels:
            return labels.get(name)
        column, equals, value = name.partition("=")
        if equals and column in columns:
            return (column, group_name(value))
        return name

    return {subgroup(name): error for name, error in targets.items()}


def in_table_terms(
    stated: Sequence[Any],
    classes: Column,
    columns: Sequence[str],
    costs: CostTable | None = None,
) -> list[Any]:
    """Return rates, objectives and limits with the labels and groups of the table, and with costs.

    An option gives a label as the number 1 where the CSV file has the text "1".

    Raises
    ------
    BadInput
        If a rate needs an absent column of groups.
    """
    labels = {str(label): label for label in np.asarray(classes).tolist()}
    expressions = map(rates.as_expression, stated)
    return [
        one if expression is None else _in_table_terms(expression, labels, columns, costs)
        for one, expression in zip(stated, expressions, strict=True)
    ]


def _in_table_terms(
    expression: Any, labels: dict[str, Any], columns: Sequence[str], costs: CostTable | None
) -> Any:
    rate = expression.rate
    parts = rate.by if isinstance(rate.by, tuple) else (rate.by,)
    for name in parts:
        if name in ("group", "cell") and not columns:
            raise BadInput(f"{rate!r} needs groups; name their column: --group COL")
        if name not in (None, "class", "group", "cell") and str(name) not in columns:
            near = did_you_mean(str(name), columns)
            raise BadInput(
                f"{rate!r} needs the groups of {name!r}; {near or f'add --group {name}'}"
            )

    def label(name: Any) -> Any:
        return labels.get(str(name), name)

    def group(name: Any) -> Any:
        if isinstance(name, tuple):
            return tuple(map(group, name))
        return group_name(name)

    def subgroup(name: Any) -> Any:
        if rate.by == "class":
            return label(name)
        if rate.by != "cell" and len(parts) == 1:
            return group(name)
        if isinstance(name, tuple):
            kinds = ("class", "group") if rate.by == "cell" else parts
            return tuple(
                label(part) if kind == "class" else group(part)
                for kind, part in zip(kinds, name, strict=False)
            )
        return name if rate.by == "cell" else group(name)

    by = tuple(map(str, rate.by)) if isinstance(rate.by, tuple) else rate.by and str(rate.by)
    named = replace(rate, by=by, label=None if rate.label is None else label(rate.label))
    if named.labels is not None:
        named = replace(named, labels=tuple(map(label, named.labels)))
    if costs is not None and named.needs_costs:
        named = costs.fill(named)
    return expression.of_rate(named, subgroup)


# -- tables ------------------------------------------------------------------------------------------------


def measured_rates(
    stated: Sequence[Any],
    stored: StoredModel,
    rows: NewRows,
    costs: Path | None,
    csv: CsvFormat,
) -> RateTable | None:
    """Return the rates of `predict` on new rows; None if there are none.

    Rates that need the costs of each row are left out if these are not given.
    """
    classifier = stored.classifier
    table = CostTable.read(costs, classifier.classes_, rows.y, rows.path, csv)
    named = in_table_terms(stated, classifier.classes_, rows.group_columns, table)
    if table.by_row is None:
        named = [each for each in named if not rate_of(each).needs_costs]
    if not named:
        return None
    predicted, deferred = stored.answers(rows)
    answered = rates.Answered.from_arrays(
        rows.y,
        predicted,
        groups=rows.groups,
        deferred=deferred,
        costs=table.by_row,
        labels=classifier.classes_,
    )
    return RateTable.measured(named, answered, f"the {len(rows.y):,} rows of {rows.path.name}")


def summary_text(classifier: Any) -> str:
    """Return `print(rule.summary_)` without its last line, which says how Python shows the rest."""
    *lines, _ = str(classifier.summary_).splitlines()
    return "\n".join(lines)


def print_rates(table: RateTable) -> None:
    """Print a table of rates by subgroup, and a sentence about the limits."""
    headings, cells = table.cells()
    if table.certificate:
        tell(f"{table.verdict}\n")
    tell(f"Rates of predict on {table.words}:")
    plain_table(headings, cells, left=2)
    if not table.certificate:
        tell(table.verdict)


# -- costs -------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class CostTable:
    """Costs of predictions: a matrix by true label, an array by row, or none; columns as the labels."""

    labels: tuple[Any, ...]
    matrix: Any = (
        None  # shape (K, K) or (K, K + 1); the last of K + 1 columns is the cost of a deferral
    )
    by_row: Any = None  # shape (n, K)

    def fill(self, rate: rates.Rate) -> rates.Rate:
        """Return a rate of costs with the matrix, if there is one."""
        if self.matrix is None:
            return rate
        return replace(rates.cost(self.matrix, by=rate.by), labels=self.labels)

    @classmethod
    def read(
        cls, path: Path | None, labels: Column, y: Column, data: Path, csv: CsvFormat
    ) -> CostTable:
        """Read a file of costs for the rows of DATA, which have the labels y; no costs without a file."""
        classes = tuple(np.asarray(labels).tolist())
        if path is None:
            return cls(classes)
        with bad_input(f"--costs {path}: "):
            table = datasets.read_frame(path, *csv)
            names = {str(label): label for label in classes}
            first, *rest = map(str, table.columns)
            is_by_row = first in names
            columns = [first, *rest] if is_by_row else rest
            unknown = [name for name in columns if name not in names and name != HUMAN_REVIEW]
            if unknown:
                deferral = "" if is_by_row else f", and {HUMAN_REVIEW} for a deferral"
                raise ValueError(
                    f"column {unknown[0]!r} is no label; the labels are {', '.join(names)}{deferral}"
                )
            missing = [name for name in names if name not in columns]
            if missing:
                raise ValueError(f"there is no column for the prediction {missing[0]!r}")
            if is_by_row:
                if HUMAN_REVIEW in columns:
                    raise ValueError(
                        f"{HUMAN_REVIEW!r} needs a table by true label, this one is by row"
                    )
                if len(table) != len(y):
                    raise ValueError(
                        f"{len(table):,} rows, but {data.name} has {len(y):,}; a row is needed for each of "
                        "them, or one for each true label, with the label in the first column"
                    )
                costs = [_finite(table[name], f"column {name!r}") for name in names]
                return cls(classes, by_row=np.column_stack(costs))
            truths = [str(value) for value in table.iloc[:, 0]]
            if sorted(truths) != sorted(names):
                raise ValueError(
                    f"the first column {first!r} has to name each true label once ({', '.join(names)}), got "
                    f"{', '.join(truths[:20])}"
                )
            answers = [*names, *[HUMAN_REVIEW] * (HUMAN_REVIEW in columns)]
            cells = [
                [table[name].iloc[truths.index(truth)] for name in answers] for truth in names
            ]
            return cls._of_cells(classes, cells, y, data, csv)

    @classmethod
    def _of_cells(
        cls,
        classes: tuple[Any, ...],
        cells: list[list[Any]],
        y: Column,
        data: Path,
        csv: CsvFormat,
    ) -> CostTable:
        """Return the costs of cells that are numbers, columns of DATA, or products of both."""
        try:
            return cls(
                classes, matrix=np.array([[_number(cell) for cell in row] for row in cells])
            )
        except ValueError:
            pass
        if len(cells[0]) > len(classes):
            raise ValueError(f"{HUMAN_REVIEW!r} is possible only if all cells are numbers")
        rows = datasets.read_frame(data, *csv)
        costs = np.zeros((len(y), len(classes)))
        for label, row in zip(classes, cells, strict=True):
            inside = np.asarray(y) == label
            for k, cell in enumerate(row):
                costs[inside, k] = _amounts(str(cell), rows, data)[inside]
        return cls(classes, by_row=costs)


def _number(cell: Any) -> float:
    number = read_number(str(cell))
    if not np.isfinite(number):
        raise ValueError(cell)
    return number


def _amounts(cell: str, rows: Any, data: Path) -> Any:
    """Return the costs of all rows by one cell: a number, a column, or a number times a column."""
    factor, times, name = (part.strip() for part in cell.rpartition("*"))
    try:
        if name not in rows:
            return np.full(len(rows), _number(cell))
        scale = _number(factor) if times else 1.0
    except ValueError:
        hint = did_you_mean(name, map(str, rows))
        kinds = f"a number, a column of {data.name}, or a number times a column, as 5*amount"
        raise ValueError(f"{cell!r} must be {kinds}; {hint}".strip(" ;")) from None
    return scale * _finite(rows[name], f"column {name!r} of {data.name}")


def _finite(column: Column, name: str) -> Any:
    try:
        values = np.asarray(column, dtype=np.float64)
    except (TypeError, ValueError):
        values = np.array([np.nan])
    if not np.isfinite(values).all():
        raise ValueError(f"{name} must hold finite numbers, none missing")
    return values
