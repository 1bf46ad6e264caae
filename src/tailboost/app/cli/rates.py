"""The options ``--objective``, ``--limit`` and ``--costs``: rates as text, and what answers cost."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from tailboost import datasets, rates
from tailboost.app.cli.models import PreparedTable, StoredModel
from tailboost.app.cli.shared import BadInput, bad_input, plain_table, read_number, tell
from tailboost.core.spelling import did_you_mean
from tailboost.core.subgroups import PERSON, can_defer
from tailboost.selection.rate_table import RateTable


def read_objective(text: str | None) -> Any:
    """Read ``--objective``: a name, or a rate as text."""
    if text is None or text.isidentifier():
        return text
    found = _read("--objective", text)
    if found.limit is not None or found.compares:
        raise BadInput(f"--objective: {text!r} is a limit; give it as --limit")
    return found


def read_limits(texts: Sequence[str] | None) -> list[rates.Limit]:
    """Read ``--limit``, each a comparison."""
    found = []
    for text in texts or []:
        limit = _read("--limit", text).limit
        if limit is None:
            raise BadInput(f"--limit: {text!r} is compared with nothing; write {text} <= .1, for instance")
        found.append(limit)
    return found


def read_rates(texts: Sequence[str] | None) -> list[Any]:
    """Read ``--rate``: rates and limits."""
    found = [_read("--rate", text) for text in texts or []]
    return [one.rate if one.limit is None else one for one in found]


def read_limited(option: str, text: str) -> Any:
    """Read one of the two rates of a trade-off: a rate, the largest of a family, a gap or a ratio."""
    found = _read(option, text)
    if found.limit is not None:
        raise BadInput(f"{option}: {text!r} is a limit; leave out the number: a curve is over all of them")
    return found


def rate_of(given: Any) -> Any:
    """Return the rate that an objective or a limit is about; None of an objective by name."""
    said = rates.as_expression(given)
    return None if said is None else said.rate


def _read(option: str, text: str) -> rates.Expression:
    with bad_input(f"{option}: "):
        return rates.parse(text)


# -- as the table spells them ------------------------------------------------------------------------------


def spelled(given: Any, classes: Sequence[Any], columns: Sequence[str], costs: TableOfCosts | None) -> Any:
    """Return a rate, objective or limit with labels and groups as a table has them, and costs filled in.

    Labels and groups of a CSV file are text, so that 1 stands for "1".

    Raises
    ------
    BadInput
        If it speaks of groups that are no column of groups.
    """
    said = rates.as_expression(given)
    if said is None:
        return given
    rate, known = said.rate, {str(label): label for label in classes}
    for name in rate.by if isinstance(rate.by, tuple) else (rate.by,):
        if name in ("group", "cell") and not columns:
            raise BadInput(f"{rate!r}: groups are needed; name their column: --group COL")
        if name not in (None, "class", "group", "cell") and str(name) not in columns:
            raise BadInput(f"{rate!r}: the groups of {name!r} are needed; add --group {name}")

    def label(name: Any) -> Any:
        return known.get(str(name), name)

    by = tuple(map(str, rate.by)) if isinstance(rate.by, tuple) else rate.by and str(rate.by)
    found = replace(rate, by=by, label=None if rate.label is None else label(rate.label))
    if found.labels is not None:
        found = replace(found, labels=tuple(map(label, found.labels)))
    if costs is not None and found.needs_costs:
        found = costs.into(found)
    return said.of_rate(found, _units(rate.by, label))


def _units(by: Any, label: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Return how units of ``by`` are spelled: labels as in the table, groups as text."""

    def group(name: Any) -> Any:
        return tuple(map(str, name)) if isinstance(name, tuple) else str(name)

    if by == "class":
        return label
    if by == "cell":
        return lambda name: (label(name[0]), group(name[1])) if isinstance(name, tuple) else name
    if isinstance(by, tuple):
        each = [label if one == "class" else str for one in by]
        return lambda name: (
            tuple(as_said(part) for as_said, part in zip(each, name, strict=False))
            if isinstance(name, tuple)
            else group(name)
        )
    return group


# -- costs -------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class TableOfCosts:
    """What answers cost: a number for each true label and answer, or for each row and answer."""

    path: Path  # where they were read
    labels: tuple[Any, ...]
    # Shape (K, K) or (K, K + 1) or None: by true label and answer, the last column of K + 1 for passing on.
    matrix: Any
    each: Any  # shape (n, K) or None: by row and answer

    def into(self, rate: rates.Rate) -> rates.Rate:
        """Return a rate of costs with the matrix, where there is one."""
        if self.matrix is None:
            return rate
        made = rates.cost(self.matrix, by=rate.by)
        return replace(made, labels=self.labels)

    @classmethod
    def read(cls, path: Path, classes: Sequence[Any], y: Any, data: Path, sep: str) -> TableOfCosts:
        """Read a file of costs of the rows of DATA, which have the labels y."""
        with bad_input(f"--costs {path}: "):
            table = datasets.read_frame(path, sep)
        names = {str(label): label for label in classes}
        first, *rest = map(str, table.columns)
        answers = [first, *rest] if first in names else rest
        if stray := [name for name in answers if name not in names and name != PERSON]:
            raise BadInput(
                f"--costs {path}: column {stray[0]!r} is no label; there are {', '.join(names)}"
                f"{f', and {PERSON} for passing on' if first not in names else ''}"
            )
        if lacking := [name for name in names if name not in answers]:
            raise BadInput(f"--costs {path}: there is no column for the answer {lacking[0]!r}")
        if first in names:
            if PERSON in answers:
                raise BadInput(f"--costs {path}: {PERSON!r} has a cost in a table by true label alone")
            if len(table) != len(y):
                raise BadInput(
                    f"--costs {path}: {len(table):,} rows, but {data.name} has {len(y):,}: one for each, or "
                    "one for each true label, which the first column names"
                )
            each = np.column_stack([_numbers(table[name], path) for name in names])
            return cls(path, tuple(classes), None, each)
        truths = [str(value) for value in table.iloc[:, 0]]
        if sorted(truths) != sorted(names):
            raise BadInput(
                f"--costs {path}: the first column {first!r} has to name each true label once "
                f"({', '.join(names)}), got {', '.join(truths[:20])}"
            )
        columns = [*names, *([PERSON] if PERSON in answers else [])]
        cells = [[table[name].iloc[truths.index(truth)] for name in columns] for truth in names]
        return cls._of_cells(path, tuple(classes), cells, y, data, sep)

    @classmethod
    def _of_cells(
        cls, path: Path, classes: tuple[Any, ...], cells: list[list[Any]], y: Any, data: Path, sep: str
    ) -> TableOfCosts:
        """Return the costs of a table whose cells are numbers, or columns of DATA times a number."""
        try:
            return cls(path, classes, np.array([[_number(c) for c in row] for row in cells]), None)
        except ValueError:
            pass
        if len(cells[0]) > len(classes):
            raise BadInput(f"--costs {path}: {PERSON!r} is priced only in a table of numbers")
        with bad_input():
            rows = datasets.read_frame(data, sep)
        truth = np.array([list(classes).index(label) for label in y])
        each = np.zeros((len(y), len(classes)))
        for k, row in enumerate(cells):
            for a, cell in enumerate(row):
                inside = truth == k
                each[inside, a] = _amounts(cell, rows, path, data)[inside]
        return cls(path, classes, None, each)


def _number(cell: Any) -> float:
    found = read_number(str(cell))
    if not np.isfinite(found):
        raise ValueError(cell)
    return found


def _amounts(cell: Any, rows: Any, path: Path, data: Path) -> Any:
    """Return what a cell means for each row: a number, a column, or a number times a column."""
    factor, times, name = str(cell).rpartition("*")
    try:
        return np.full(len(rows), _number(cell))
    except ValueError:
        pass
    try:
        scale = _number(factor) if times else 1.0
    except ValueError:
        raise BadInput(f"--costs {path}: {cell!r} is no number times a column, as 5*amount") from None
    name = name.strip()
    if name not in rows:
        hint = did_you_mean(name, map(str, rows))
        raise BadInput(
            f"--costs {path}: {cell!r} is no number, nor a column of {data.name}; {hint}".strip(" ;")
        )
    return scale * _numbers(rows[name], data)


def _numbers(column: Any, path: Path) -> Any:
    try:
        found = np.asarray(column, dtype=np.float64)
    except (TypeError, ValueError):
        found = np.array([np.nan])
    if not np.isfinite(found).all():
        raise BadInput(f"{path}: column {column.name!r} must hold finite numbers, none missing")
    return found


# -- what rates are ----------------------------------------------------------------------------------------


def stated_rates(classifier: Any, columns: Sequence[str]) -> list[Any]:
    """Return the rate that a classifier was to make small, if one was stated, and its limits.

    Of one that passes rows on also what passing on is about: the error among the answered and the share
    passed on, of all rows, by class, and by group where there are columns of groups.
    """
    rate = rate_of(getattr(classifier, "objective", None))
    stated = [*([] if rate is None else [rate]), *stated_limits(classifier)]
    if can_defer(classifier):
        units = [None, "class", *(["group"] if columns else [])]
        about = [made(by) for made in (rates.answered_error, rates.deferred) for by in units]
        stated += [one for one in about if one not in map(rate_of, stated)]
    return stated


def stated_limits(classifier: Any) -> Sequence[rates.Limit]:
    """Return the limits that a classifier was fitted within."""
    found: Sequence[rates.Limit] = getattr(classifier, "limits", ())
    return found


def measured_rates(
    stated: Sequence[Any],
    stored: StoredModel,
    later: PreparedTable,
    y: Any,
    *,
    costs: Path | None,
    sep: str,
) -> RateTable | None:
    """Return the table of rates of `predict` on the rows of a later file; None where there are none.

    Costs of rows that are not given are left out.
    """
    classifier = stored.classifier
    labels = classifier.classes_.tolist()
    known = None if costs is None else TableOfCosts.read(costs, labels, y, later.path, sep)
    each = None if known is None else known.each
    given = [spelled(one, labels, later.columns, known) for one in stated]
    given = [one for one in given if each is not None or not rate_of(one).needs_costs]
    if not given:
        return None
    told = stored.told(later)
    answered = rates.Answered.of(
        y,
        classifier.predict(later.rows, **told),
        groups=later.groups,
        deferred=classifier.defers(later.rows, **told) if can_defer(classifier) else None,
        costs=each,
        labels=classifier.classes_,
    )
    return RateTable.measured(given, answered, f"the {len(y):,} rows of {later.path.name}")


def print_rates(table: RateTable) -> None:
    """Print a table of rates by unit, and whether limits are kept in a sentence."""
    head, rows = table.cells()
    tell(f"Rates of predict on {table.words}:")
    plain_table(head, rows, left=2)
    tell(table.verdict)


def rates_kept(classifier: Any) -> RateTable | None:
    """Return the table of the rates that a classifier was fitted for; None where there is none."""
    found: RateTable | None = getattr(classifier, "rates_", None)
    return found
