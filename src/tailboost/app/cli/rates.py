"""Rates, limits, targets and costs: read from options and files, and printed as tables."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from tailboost import datasets, rates
from tailboost.app.cli.models import NewRows, StoredModel, columns_instead
from tailboost.app.cli.options import CsvFormat
from tailboost.app.cli.shared import BadInput, bad_input, plain_table, read_number, tell
from tailboost.core.array_types import Column, Model, Table
from tailboost.core.spelling import did_you_mean, listed, meant, shell_word
from tailboost.guarantees.stated import stated_by
from tailboost.rows.judged import judged
from tailboost.rows.schema import group_name
from tailboost.rows.subgroups import HUMAN_REVIEW
from tailboost.selection.problem import NAMED
from tailboost.selection.rate_table import RateTable

Targets: TypeAlias = float | dict[Any, float] | None


# -- options -----------------------------------------------------------------------------------------------


def read_targets(text: str | None) -> Targets:
    """Return the errors of --max-error: ``.3`` or ``yes=.2,no=.1,*=.4``; None without the option.

    Names may contain "=".
    """
    if text is None:
        return None
    targets: dict[Any, float] = {}
    for item in text.split(","):
        item = item.strip()
        name, equals, number = item.rpartition("=")
        try:
            error = read_number(number)
        except ValueError:
            raise BadInput(
                f"--max-error: {item!r} must be NAME=ERROR, as in 'yes=.2,*=.4'"
            ) from None
        if not 0 < error <= 1:
            raise BadInput(
                f"--max-error: {number} is not in (0, 1]; give a share such as .3, or percent such as 30%"
            )
        if not equals and "," not in text:  # one number for all subgroups
            return error
        subgroup = None if name == "*" else name  # None: all others
        if not name or subgroup in targets:
            raise BadInput(f"--max-error: {item!r} has no name, or its name occurs twice")
        targets[subgroup] = error
    return targets


def read_objective(text: str | None) -> Any:
    """Return the objective of --objective: a rate, the name of one, or None without the option."""
    names = ("cvar", *NAMED)
    if text is None or text in names:
        return text
    if text.isidentifier():
        raise BadInput(
            f"--objective: {text!r} is unknown; {did_you_mean(text, names)}give "
            f"{', '.join(names)}, or a rate such as 'miss(yes)'"
        )
    expression = _parse("--objective", text)
    if expression.limit is not None or expression.compares:
        raise BadInput(f"--objective: {text!r} is a limit; use --limit")
    return expression


def read_limits(texts: Sequence[str] | None) -> list[rates.Limit]:
    """Return the texts of --limit as limits; an error quotes the text and says how to write it."""
    limits = []
    faults = []
    for text in texts or []:
        try:
            limits.append(_read_limit(text))
        except BadInput as fault:
            faults.append(str(fault))
    if faults:
        raise BadInput(". ".join(faults))
    return limits


def _read_limit(text: str) -> rates.Limit:
    """Return the text of a --limit as a limit."""
    expression = _parse("--limit", text)
    limit = expression.limit
    if limit is None:
        raise BadInput(
            f"--limit: {text!r} has no bound; write, for instance, {text} "
            f"{_bound_for(expression)}"
        )
    return limit


def _bound_for(expression: rates.Expression) -> str:
    """Return the bound of an example: a lower one for a rate of right answers and for a ratio."""
    if isinstance(expression, rates.Spread):
        comparison = rates.COMPARISONS[expression.form]
        return ">= .8" if comparison.side == rates.AT_LEAST else "<= .1"
    rate = expression.rate
    return ">= .9" if rate.is_gain or not rate.can_be_lowered else "<= .1"


def read_rates(texts: Sequence[str] | None) -> list[Any]:
    """Return the rates and limits of --rate."""
    expressions = [_parse("--rate", text) for text in texts or []]
    return [
        expression.rate if expression.limit is None else expression
        for expression in expressions
    ]


def read_curve_rate(option: str, text: str) -> Any:
    """Return a rate of a trade-off: a rate, the largest of a family, a gap or a ratio."""
    expression = _parse(option, text)
    if expression.limit is not None:
        raise BadInput(
            f"{option}: {text!r} is a limit; leave out the number; the curve shows all bounds"
        )
    return expression


def _parse(option: str, text: str) -> rates.Expression:
    """Return the rate or limit of an option."""
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
    goals: list[Any] = list(stated_by(classifier).limits)
    objective_rate = rate_of(getattr(classifier, "objective", None))
    if objective_rate is not None:
        goals.insert(0, objective_rate)
    if judged(classifier).can_defer:
        rates_of_goals = [rate_of(goal) for goal in goals]
        divisions = [None, "class"]
        if columns:
            divisions.append("group")
        for make_rate in (rates.answered_error, rates.deferred):
            deferral_rates = [make_rate(by) for by in divisions]
            goals += [rate for rate in deferral_rates if rate not in rates_of_goals]
    return goals


def targets_by_label(targets: Targets, classes: Any, columns: Sequence[str]) -> Targets:
    """Return targets by subgroup: labels as the model stores them, groups as (column, value).

    A single number, which limits all subgroups, is returned unchanged.
    """
    if not isinstance(targets, dict):
        return targets
    labels = {str(label): label for label in classes.tolist()}
    by_subgroup: dict[Any, float] = {}
    for name, error in targets.items():
        subgroup = name  # None: all others
        if name in labels:
            subgroup = labels[name]
        elif name is not None:
            column, equals, value = name.partition("=")
            if equals and column in columns:
                subgroup = (column, group_name(value))
        by_subgroup[subgroup] = error
    return by_subgroup


def in_table_terms(
    stated: Sequence[Any],
    classes: Column,
    columns: Sequence[str],
    costs: CostTable | None = None,
    *,
    names_in_file: Callable[[], Sequence[str]] | None = None,
) -> list[Any]:
    """Return rates, objectives and limits with the labels and groups of the table, and with costs.

    An option gives a label as the number 1 where the CSV file has the text "1". ``columns`` are those of
    groups, and ``names_in_file()`` all columns of the rows' file, which a message for an absent one names.

    Raises
    ------
    BadInput
        If rates need absent columns of groups, or are about labels that the table does not have. The message
        has all faults.
    """
    labels = {str(label): label for label in np.asarray(classes).tolist()}
    faults = []
    for goal in stated:
        expression = rates.as_expression(goal)
        if expression is not None:  # None: an objective by name
            faults += _faults_of_divisions(expression.rate, columns, names_in_file)
            faults += _faults_of_label(expression, labels)
    if faults:
        raise BadInput(". ".join(dict.fromkeys(faults)))
    in_terms = []
    for goal in stated:
        expression = rates.as_expression(goal)
        if expression is not None:
            goal = _in_table_terms(expression, labels, costs)
        in_terms.append(goal)
    return in_terms


def _in_table_terms(expression: Any, labels: dict[str, Any], costs: CostTable | None) -> Any:
    """Return one rate or limit with the labels and groups of the table; ``labels`` are by their text."""
    rate = expression.rate
    changes: dict[str, Any] = {}
    if isinstance(rate.by, tuple):
        divisions = rate.by
        changes["by"] = tuple(map(str, rate.by))
    else:
        divisions = ("class", "group") if rate.by == "cell" else (rate.by,)
        changes["by"] = None if rate.by is None else str(rate.by)
    if rate.label is not None:
        changes["label"] = _label_in_table(rate.label, labels)
    if rate.labels is not None:
        changes["labels"] = tuple(_label_in_table(label, labels) for label in rate.labels)
    in_table = replace(rate, **changes)
    if costs is not None and rate.needs_costs:
        in_table = costs.fill(in_table)
    return expression.of_rate(
        in_table, lambda subgroup: _subgroup_in_table(subgroup, divisions, labels)
    )


def _faults_of_divisions(
    rate: Any, columns: Sequence[str], names_in_file: Callable[[], Sequence[str]] | None
) -> list[str]:
    """Return a sentence for each column of groups that a rate needs, and --group does not name."""
    faults = []
    for name in rate.by if isinstance(rate.by, tuple) else (rate.by,):
        if name in ("group", "cell") and not columns:
            faults.append(f"{rate!r} needs groups; name their column: --group COL")
        if name not in (None, "class", "group", "cell") and str(name) not in columns:
            advice = did_you_mean(str(name), columns) or f"add --group {shell_word(name)}"
            if names_in_file is not None:
                names = list(names_in_file())
                if str(name) not in names:
                    has = columns_instead(names, [str(name)], "they have")
                    advice = f"the data have no such column; {has}"
            faults.append(f"{rate!r} needs the groups of {name!r}; {advice}")
    return faults


def _faults_of_label(expression: Any, labels: dict[str, Any]) -> list[str]:
    """Return a sentence on a rate or limit about a label that is not in the table; [] for others."""
    label = expression.rate.label
    if label is None or str(label) in labels or label in labels.values():
        return []
    return [
        f"{_text_of(expression)!r}: there is no label {str(label)!r}; "
        f"{meant(label, labels)}the labels are {listed(list(labels))}"
    ]


def _text_of(expression: Any) -> str:
    """Return a rate or limit as one writes it in an option, without quotes around a word."""
    text = repr(expression)
    if isinstance(expression, rates.Limit):
        text = expression.text
    return re.sub(r"'(\w+)'", r"\1", text)


def _label_in_table(label: Any, labels: dict[str, Any]) -> Any:
    """Return the label of the table with the text of a label of an option."""
    return labels.get(str(label), label)


def _subgroup_in_table(subgroup: Any, divisions: Sequence[Any], labels: dict[str, Any]) -> Any:
    """Return a subgroup with its label and groups as the table has them.

    A subgroup of several divisions ("class", "group" or a column) is a tuple with a part for each.
    """

    def part_in_table(division: Any, part: Any) -> Any:
        return _label_in_table(part, labels) if division == "class" else _group_in_table(part)

    if len(divisions) == 1:
        return part_in_table(divisions[0], subgroup)
    if isinstance(subgroup, tuple):
        return tuple(map(part_in_table, divisions, subgroup))
    return subgroup if divisions == ("class", "group") else _group_in_table(subgroup)


def _group_in_table(group: Any) -> Any:
    """Return a group as text, as `load_table` writes it; of several columns a tuple."""
    if isinstance(group, tuple):
        return tuple(map(_group_in_table, group))
    return group_name(group)


# -- tables ------------------------------------------------------------------------------------------------


def measured_rates(
    stated: Sequence[Any],
    stored: StoredModel,
    rows: NewRows,
    answers: tuple[Any, Any],
    costs: Path | None,
    csv: CsvFormat,
) -> RateTable | None:
    """Return the rates and limits ``stated``, measured for `predict` on new rows; None if there are none.

    ``answers`` are those of `StoredModel.answers` to the rows.
    A rate with a limit of the fit is measured against this limit, also if the limit is on its complement.
    Beside rates alone the other limits of the fit are measured, too, if the rows have its columns of groups.
    Rates with costs by row are left out if ``costs``, a file, has none.
    """
    classifier = stored.classifier
    cost_table = CostTable.read(costs, classifier.classes_, rows.y, rows.path, csv)

    def in_terms(stated: Sequence[Any]) -> list[Any]:
        """Return rates and limits in the terms of the table, without those that lack costs."""
        goals = in_table_terms(
            stated,
            classifier.classes_,
            rows.group_columns,
            cost_table,
            names_in_file=rows.column_names,
        )
        if cost_table.by_row is None:
            goals = [goal for goal in goals if not rate_of(goal).needs_costs]
        return goals

    goals = in_terms(stated)
    if not goals:
        return None
    predicted, deferred = answers
    answered = rates.Answered.from_arrays(
        rows.y,
        predicted,
        groups=rows.groups,
        deferred=deferred,
        costs=cost_table.by_row,
        labels=classifier.classes_,
    )
    measured, other_limits = _with_limits_of_fit(
        goals, stated_by(classifier).limits, answered.strata
    )
    has_rates_alone = all(isinstance(goal, rates.Rate) for goal in goals)
    if has_rates_alone and {*stored.group_columns} <= {*rows.group_columns}:
        limits_in_terms = in_terms(other_limits)
        measured += limits_in_terms
        measured_texts = set(map(str, limits_in_terms))
        other_limits = [limit for limit in other_limits if str(limit) not in measured_texts]
    name = f"the {len(rows.y):,} rows of {rows.path.name}"
    table = replace(
        RateTable.measured(measured, answered, name), lacks_limits=bool(other_limits)
    )
    certificate = judged(classifier).certificate
    if certificate is None:
        return table
    return table.beside_certificate(certificate.targets)


def _with_limits_of_fit(
    goals: Sequence[Any], limits: Sequence[Any], strata: rates.Strata
) -> tuple[list[Any], list[Any]]:
    """Return goals with the limits of the fit in place of the rates that they limit, and the other limits."""
    with_limits: list[Any] = []
    stated = set(map(str, goals))
    for goal in goals:
        limits_on_goal: list[Any] = []
        for limit in limits if isinstance(goal, rates.Rate) else ():
            limit_on_goal = limit.stated_on(goal, strata)
            if limit_on_goal is not None:  # None: a limit on another rate
                limits_on_goal.append(limit_on_goal)
                stated.add(str(limit))
        with_limits += limits_on_goal or [goal]
    return with_limits, [limit for limit in limits if str(limit) not in stated]


def summary_text(summary: Any) -> str:
    """Return ``print(rule.summary_)`` without its last line, which says how Python shows the rest."""
    *lines, _ = str(summary).splitlines()
    return "\n".join(lines)


def tell_certificate(certificate: Any, details: bool) -> None:
    """Print a certificate; its assumptions only with --details."""
    if not details:
        tell(certificate.text("--details"))
        return
    tell(f"{certificate.text('')}\n\n{certificate.assumptions}")


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
    # Shape (K, K) or (K, K + 1): true labels × answers. The last of K + 1 columns is for a deferral.
    matrix: Any = None
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
        """Read a file of costs for the rows of DATA, which have the labels y; no costs without a file.

        A file whose first column is named by a label has a row for each of these rows. Another file has a row
        for each true label.
        """
        classes = tuple(np.asarray(labels).tolist())
        if path is None:
            return cls(classes)
        with bad_input(f"--costs {path}: "):
            table = datasets.read_frame(path, *csv)
            names = [str(label) for label in classes]
            first, *other_columns = map(str, table.columns)
            is_by_row = first in names  # otherwise the first column has the true labels
            columns = [first, *other_columns] if is_by_row else other_columns
            unknown = [name for name in columns if name not in names and name != HUMAN_REVIEW]
            if unknown:
                deferral = "" if is_by_row else f", and {HUMAN_REVIEW} for a deferral"
                raise ValueError(
                    f"column {unknown[0]!r} is no label; the labels are "
                    f"{', '.join(names)}{deferral}"
                )
            missing = [name for name in names if name not in columns]
            if missing:
                raise ValueError(f"there is no column for the prediction {missing[0]!r}")
            if is_by_row:
                return cls._of_rows(classes, table, len(y), data)
            return cls._by_true_label(classes, table, y, data, csv)

    @classmethod
    def _of_rows(
        cls, classes: tuple[Any, ...], table: Table, n_rows: int, data: Path
    ) -> CostTable:
        """Return the costs of a table with a row for each of the rows of DATA."""
        if HUMAN_REVIEW in table:
            raise ValueError(
                f"{HUMAN_REVIEW!r} needs a table by true label, this one is by row"
            )
        if len(table) != n_rows:
            raise ValueError(
                f"{len(table):,} rows, but {data.name} has {n_rows:,}; a row is needed for "
                "each of them, or one for each true label, with the label in the first column"
            )
        costs = [_finite(table[str(label)], f"column {str(label)!r}") for label in classes]
        return cls(classes, by_row=np.column_stack(costs))

    @classmethod
    def _by_true_label(
        cls, classes: tuple[Any, ...], table: Table, y: Column, data: Path, csv: CsvFormat
    ) -> CostTable:
        """Return the costs of a table with a row for each true label, which the first column names.

        Its cells are numbers, columns of DATA, or products of both.
        """
        names = [str(label) for label in classes]
        truths = [str(value) for value in table.iloc[:, 0]]
        if sorted(truths) != sorted(names):
            raise ValueError(
                f"the first column {str(table.columns[0])!r} has to name each true label once "
                f"({', '.join(names)}), got {', '.join(truths[:20])}"
            )
        answers = list(names)
        if HUMAN_REVIEW in table.columns[1:]:
            answers.append(HUMAN_REVIEW)
        cells = table.set_axis(truths).loc[names, answers].to_numpy(dtype=object)
        try:
            return cls(classes, matrix=np.array([[*map(_number, row)] for row in cells]))
        except ValueError:
            pass  # a cell refers to a column
        if len(answers) > len(classes):
            raise ValueError(f"{HUMAN_REVIEW!r} is possible only if all cells are numbers")
        rows = datasets.read_frame(data, *csv)
        costs = np.zeros((len(y), len(classes)))
        for label, row in zip(classes, cells, strict=True):
            has_label = np.asarray(y) == label
            for k, cell in enumerate(row):
                costs[has_label, k] = _amounts(str(cell), rows, data)[has_label]
        return cls(classes, by_row=costs)


def _number(cell: Any) -> float:
    """Return the finite number of a cell; raise ValueError for other content."""
    number = read_number(str(cell))
    if not np.isfinite(number):
        raise ValueError(cell)
    return number


def _amounts(cell: str, rows: Any, data: Path) -> Any:
    """Return the costs of all rows of DATA by one cell: a number, a column, or a number times a column."""
    factor, times, name = (part.strip() for part in cell.rpartition("*"))
    try:
        if name not in rows:
            return np.full(len(rows), _number(cell))
        scale = _number(factor) if times else 1.0
    except ValueError:
        hint = did_you_mean(name, map(str, rows))
        allowed = f"a number, a column of {data.name}, or a number times a column, as 5*amount"
        raise ValueError(f"{cell!r} must be {allowed}; {hint}".strip(" ;")) from None
    return scale * _finite(rows[name], f"column {name!r} of {data.name}")


def _finite(column: Column, name: str) -> Any:
    """Return a column as float64; ``name`` begins the error if a value is missing or no finite number."""
    try:
        values = np.asarray(column, dtype=np.float64)
    except (TypeError, ValueError):
        values = np.array([np.nan])  # the same error as for a missing value
    if not np.isfinite(values).all():
        raise ValueError(f"{name} must hold finite numbers, none missing")
    return values
