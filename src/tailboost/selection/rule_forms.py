"""What both forms of decision rules share: limits, certificate and file, groups by number, and SQL."""

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
    check_length,
    columns_by_name,
    label_column,
    positions,
    with_missing_group,
)
from tailboost.core.spelling import as_typed, listed, meant
from tailboost.rates import Limit
from tailboost.rows.given import refuse
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


def known_label(label: Any, classes: Sequence[Any]) -> Any:
    """Return a stated label of a rule; raise ValueError for an unknown one."""
    if label not in classes:
        near = meant(label, classes)
        raise ValueError(f"no label is called {label!r}: {near}there are {listed(classes)}")
    return label


def group_numbers(
    groups: Groups, rule_groups: Sequence[Any] | None, n: int, counted_in: str, cure: str = ""
) -> Ints:
    """Return the number of the group of each row; 0 if ``rule_groups`` is None: a group-blind rule.

    Parameters
    ----------
    groups : column, or table of one column, optional
        The groups of the rows. Missing entries are the group 'missing' if the rule has a group of this name.
    rule_groups : sequence or None
        The groups of the rule.
    n : int
        Number of rows, counted in the argument that ``counted_in`` names for the message.
    counted_in : str
        See ``n``.
    cure : str, default=""
        Ends the message for unknown groups.
    """
    if rule_groups is None:
        refuse("blind rule", groups=groups)
        return np.zeros(n, dtype=np.intp)
    column = only_column(with_missing_group(groups, rule_groups), n, counted_in)
    return positions(column, np.asarray(rule_groups), "groups", "groups not seen in fit", cure)


def only_column(groups: Groups, n: int, counted_in: str) -> Labels:
    """Return the only column of groups, which a group-aware rule reads; parameters as in `group_numbers`."""
    refuse("group-aware rule", groups=groups)
    columns = columns_by_name(groups, "groups")
    if len(columns) > 1:
        raise ValueError(
            f"groups must be the one column that the rule reads, got {list(columns)}"
        )
    (values,) = columns.values()
    column = label_column(values, "groups")
    check_length(column, "groups", n, counted_in)
    return column


def with_other_group(groups: Groups, rule_groups: Sequence[Any]) -> Groups:
    """Return groups with a name for missing entries: 'missing' if the rule has it, or else an unknown one."""
    last_group = max(rule_groups)
    no_group = last_group + type(last_group)(
        1
    )  # "m1" is behind the last group "m", and 4 behind 3
    groups = with_missing_group(groups, rule_groups)
    return with_missing_group(groups, [no_group], no_group)


def in_known_groups(groups: Groups, rule_groups: Sequence[Any], n: int) -> tuple[Labels, Mask]:
    """Return the groups of n rows, and which of them the rule has.

    Missing entries are of the group 'missing' if the rule has it, and of no known group otherwise.
    """
    column = only_column(with_other_group(groups, rule_groups), n, "rows")
    return column, np.isin(column, np.asarray(rule_groups))


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
    possible = answers_by_default(classes)
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


def answers_by_default(classes: Sequence[Any]) -> list[Any]:
    """Return the answers that rows without an answer of the rule may get."""
    return list(dict.fromkeys([*classes, HUMAN_REVIEW, None]))


# -- SQL ---------------------------------------------------------------------------------------------------


def sql_by_group(
    groups: Sequence[Any] | None, group: str | None, table: str, answers: Sequence[str]
) -> str:
    """Return the answer of each row's group as SQL; the only answer of a group-blind rule.

    ``group`` is the column of groups. NULL is the group 'missing' if there is one.
    """
    if groups is None:
        return answers[0]
    if group is None:
        argument = as_typed("group='COL'", "--group COL")
        raise ValueError(f"{argument} is needed: the rule reads the row's group")
    cases = [
        f"WHEN {sql_value(value)} THEN {answer}"
        for value, answer in zip(groups, answers, strict=True)
    ]
    column = f"{sql_table(table)}.{sql_name(group)}"
    if MISSING_GROUP in groups:
        column = f"COALESCE({column}, {sql_value(MISSING_GROUP)})"
    return f"CASE {column} {' '.join(cases)} END"


def sql_name(name: str) -> str:
    """Return the name of a column or table as SQL. Raise ValueError for an empty name."""
    if not name:
        raise ValueError("the name of a table or column in SQL is empty")
    return _quoted(name, '"')


def sql_table(name: str) -> str:
    """Return the name of a table as SQL; a dot ends the name of its schema."""
    return ".".join(map(sql_name, name.split(".")))


def sql_number(table: str, column: str) -> str:
    """Return a column of numbers as SQL. Text in the column is no number, also in SQLite.

    SQLite compares a column of type TEXT with numbers as text. After the sign + it compares by type, and any
    text is larger than every number.
    """
    return f"+{sql_table(table)}.{sql_name(column)}"


def sql_comment(text: str) -> str:
    """Return a comment in SQL, also valid if a program joins all lines of the query; it cannot end early."""
    return f"/* {text.replace('*/', '* /').replace('/*', '/ *')} */"


def check_sql_form(what: object) -> None:
    """Raise ValueError unless ``what`` is a form of the answers in SQL."""
    if what not in ("action", "label", "deferred"):
        raise ValueError(f"what must be 'action', 'label' or 'deferred', got {what!r}")


def sql_value(value: object) -> str:
    """Return a label or group as SQL."""
    if isinstance(value, bool):
        if value:
            return "TRUE"
        return "FALSE"
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
