"""What both forms of decision rules share: limits, certificate and file, groups, and names in SQL."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tailboost.core.array_types import Groups, Ints, Labels, Mask
from tailboost.core.checks import (
    MISSING_GROUP,
    check_groups_read,
    check_length,
    columns_by_name,
    label_column,
    positions,
    with_missing_group,
)
from tailboost.rates import Limit
from tailboost.rows.other_groups import GroupsByColumn
from tailboost.rows.subgroups import HUMAN_REVIEW


@dataclass(frozen=True, kw_only=True)
class StoredRule(ABC):
    """A decision rule, with what a file knows of it beside its answers.

    Attributes
    ----------
    limits : tuple of Limit
        The stated limits of a rule from `tailboost.load_rule`.
    file : object or None
        The file of a rule from `tailboost.load_rule`, the source of `certificate_` and `classifier`.
    groups_named : mapping
        The groups in the limits of the certificate, by column. `predict` warns of rows in other groups.
    """

    limits: tuple[Limit, ...] = field(default=(), compare=False, repr=False)
    file: Any = field(default=None, compare=False, repr=False)
    groups_named: GroupsByColumn = field(default_factory=dict, compare=False, repr=False)

    @property
    def certificate_(self) -> Any:
        """The certificate of a rule from `tailboost.load_rule`; None without one."""
        return None if self.file is None else self.file.certificate

    @property
    def classifier(self) -> Any:
        """A rule from `tailboost.load_rule` as a classifier of tables of scores; None for other rules."""
        return None if self.file is None else self.file.classifier

    @abstractmethod
    def to_dict(self) -> dict[str, Any]:
        """Return the rule as plain types, for JSON."""

    def to_json(self) -> str:
        """Return `to_dict` as JSON, which `tailboost.load_rule` reads from a file."""
        return json.dumps(self.to_dict())


def are_different(names: Sequence[Any]) -> bool:
    """Whether labels or groups are different, and of one type: True and 1.0 are no 1."""
    return len(set(names)) == len(names) and len(set(map(type, names))) <= 1


def check_names(classes: Sequence[Any], groups: Sequence[Any] | None) -> None:
    """Raise ValueError unless labels and groups of a document are texts or numbers, and different."""
    for what, names in (("labels", classes), ("groups", groups or [])):
        plain = all(isinstance(name, (str, int, float)) for name in names)
        if not (plain and are_different(names)):
            raise ValueError(
                f"{what} must be texts or numbers, different and of one type, got {names}"
            )


def group_numbers(
    groups: Groups, rule_groups: Sequence[Any] | None, n: int, column: Any = None
) -> Ints:
    """Return the number of the group of each row; 0 if ``rule_groups`` is None: a group-blind rule.

    Parameters
    ----------
    groups : column, or table of columns, optional
        The groups of the rows. Missing entries are the group 'missing' if the rule has a group of this name.
    rule_groups : sequence or None
        The groups of the rule.
    n : int
        Number of rows.
    column : str, int or None
        The name of the column that the rule reads.
    """
    if rule_groups is None:
        check_groups_read(groups, reads=False)
        return np.zeros(n, dtype=np.intp)
    named = only_column(with_missing_group(groups, rule_groups), n, column)
    return positions(named, np.asarray(rule_groups), "groups", "groups not seen in fit")


def only_column(groups: Groups, n: int, column: Any = None) -> Labels:
    """Return the column of groups that a group-aware rule reads: the one of this name, or the only one."""
    check_groups_read(groups, reads=True)
    columns = columns_by_name(groups, "groups")
    if column in columns:
        columns = {column: columns[column]}
    if len(columns) > 1:
        name = "one column" if column is None else f"the column {column!r}"
        raise ValueError(f"groups: the rule reads {name}, got {list(columns)}")
    (values,) = columns.values()
    labels = label_column(values, "groups")
    check_length(labels, "groups", n, "rows")
    return labels


def in_known_groups(
    groups: Groups, rule_groups: Sequence[Any], n: int, column: Any = None
) -> tuple[Labels, Mask]:
    """Return the groups of n rows, and which of them the rule has.

    Missing entries are of the group 'missing' if the rule has it, and of no known group otherwise.
    """
    last_group = max(rule_groups)
    # "m1" is behind the last group "m", and 4 behind 3.
    no_group = last_group + type(last_group)(1)
    groups = with_missing_group(groups, rule_groups)
    named = only_column(with_missing_group(groups, [no_group], no_group), n, column)
    return named, np.isin(named, np.asarray(rule_groups))


def answers_with_default(
    answer: Callable[[Ints], Labels], has_answer: Mask, classes: Sequence[Any], default: Any
) -> Labels:
    """Return the answers to rows, the default to those without an answer of the rule.

    Parameters
    ----------
    answer : callable
        Returns the answers to rows from their numbers.
    has_answer : ndarray of bool, shape (n,)
        Which rows have a score and a group that the rule knows.
    classes : sequence
        The labels.
    default : label, "human review" or None
        The answer to other rows.
    """
    possible = list(dict.fromkeys([*classes, HUMAN_REVIEW, None]))
    if default not in possible:
        listing = ", ".join(map(repr, possible))
        raise ValueError(
            f"default={default!r} is no answer of this rule: give one of {listing}"
        )
    rows = np.flatnonzero(has_answer)
    answers = np.full(len(has_answer), default, dtype=object)
    if rows.size:
        answers[rows] = answer(rows)
    # An array of objects only if an answer is of another type than the labels.
    if {*map(type, answers.tolist())} <= {type(label) for label in classes}:
        return np.array(answers.tolist())
    return answers


# -- SQL ---------------------------------------------------------------------------------------------------


def sql_column(name: Any, table: str | None) -> str:
    """Return a column as SQL, of a table or its alias if one is named; a dot ends the name of a schema."""
    names = [] if table is None else table.split(".")
    if not all([str(name), *names]):
        raise ValueError("the name of a table or column in SQL is empty")
    return ".".join(_quoted(part, '"') for part in [*names, str(name)])


def sql_of_group(groups: Sequence[Any], group: Any, column: str) -> str:
    """Return the condition of a group in SQL; NULL is the group 'missing' if the rule has it."""
    if MISSING_GROUP in groups:
        column = f"COALESCE({column}, {sql_value(MISSING_GROUP)})"
    return f"{column} = {sql_value(group)} AND "


def sql_value(value: object) -> str:
    """Return a label or group as SQL."""
    if isinstance(value, bool):
        return str(value).upper()
    if isinstance(value, int) and not -(2**63) <= value < 2**63:
        raise ValueError(
            f"SQL: {value} needs more than the 64 bits of databases; use the rule as JSON"
        )
    if isinstance(value, (int, float)):
        return repr(value)
    return _quoted(str(value), "'")


def _quoted(text: str, mark: str) -> str:
    """Return text in quotation marks.

    MySQL, BigQuery and Spark read a backslash as an escape, other databases do not; SQLite ends text at NUL.
    """
    if "\\" in text or "\0" in text:
        raise ValueError(
            f"SQL: {text!r} contains a backslash or NUL, which databases read differently; use "
            "the rule as JSON or another name"
        )
    return mark + text.replace(mark, mark * 2) + mark
