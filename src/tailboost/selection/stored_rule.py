"""What both kinds of rules have in common: a document, answers to rows by their groups, words and SQL.

A rule alone answers from scores or probabilities. It needs neither models nor scikit-learn.
"""

import json
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from copy import deepcopy
from itertools import pairwise
from typing import Any, Self

import numpy as np

from tailboost.core import (
    Document,
    Floats,
    Groups,
    Ints,
    Labels,
    Name,
    Table,
    check_format,
    label_column,
    reading,
)
from tailboost.rows import HUMAN_REVIEW, MISSING_GROUP, group_columns, group_numbers, unit_name

# The types of labels and groups in a document.
PLAIN = {str, int, float, bool}


class StoredRule(ABC):
    """A rule that is written as a document, and answers rows with actions: labels, or deferral.

    Its kinds are data classes. A document has their fields.
    """

    #: A rule alone has no certificate.
    certificate_ = None
    #: The format of documents.
    FORMAT = 2

    #: The labels.
    classes: list[Name]
    #: The groups of a group-aware rule, and the name of their column if it has one.
    groups: list[Name] | None
    group_column: Any = None
    #: The label of high scores; None of a rule on several scores, or if it is not stated.
    label: Name | None = None

    @property
    @abstractmethod
    def defers(self) -> bool:
        """Whether rows may be deferred."""

    @abstractmethod
    def numbers(self, values: Floats, groups: Ints) -> Ints:
        """Return the number of each row's action, −1 of a row without one.

        It is the number of the label, or the number of labels for deferral. ``groups`` are the numbers of the
        rows' groups.
        """

    @property
    def _actions(self) -> list[Name]:
        """The labels and, if rows may be deferred, deferral."""
        return self.classes + [HUMAN_REVIEW] * self.defers

    def _answers(self, values: Floats, groups: Groups, table: Table, default: Any) -> Labels:
        """Return the actions of rows with these values of `numbers`, the default for those without one."""
        check_default(default, self.classes)
        columns = group_columns(groups, "groups", table)
        of_rows = group_numbers(
            columns, self.groups, len(values), self.group_column, others=default is not ...
        )
        numbers = self.numbers(values, of_rows)
        if default is ... and not self.defers:
            return label_column(self.classes, "classes")[numbers]
        # The default has the number −1.
        return np.array([*self._actions, default], object)[numbers]

    # -- documents -------------------------------------------------------------------------------------

    def to_dict(self) -> Document:
        """Return the rule as plain types, for JSON."""
        return {"format": self.FORMAT, **deepcopy(vars(self))}

    def to_json(self) -> str:
        """Return `to_dict` as JSON, which `tailboost.load_rule` reads from a file."""
        return json.dumps(self.to_dict())

    @classmethod
    def from_dict(cls, document: Document) -> Self:
        """Return the rule of a document from `to_dict`.

        Raises
        ------
        ValueError
            If the document describes no rule: a field is missing or invalid.
        """
        with reading("rule"):
            check_format(document, cls.FORMAT, "the rule", "select again")
            rule = cls(**{name: value for name, value in document.items() if name != "format"})
            rule._check()
        return rule

    def _check(self) -> None:
        """Raise ValueError unless every field has its type and range, because documents can be forged."""
        for names in (self.classes, self.groups):
            if names is None:  # of a group-blind rule
                continue
            types = set(map(type, names))  # True and 1.0 are no 1
            different = {name for name in names if name == name}  # NaN is no name
            is_list = isinstance(names, list) and len(names) == len(different)
            if not (is_list and len(types) == 1 and types <= PLAIN):
                raise ValueError(
                    f"labels and groups must be texts or numbers, different and of one type, got {names}"
                )

    # -- words and SQL ---------------------------------------------------------------------------------

    def _by_group(self, texts: Sequence[str]) -> str:
        """Return a text for each group, in lines that begin with its name; without groups the only text."""
        if self.groups is None:
            return texts[0]
        named = zip(map(unit_name, self.groups), texts, strict=True)
        return "\n".join(map(": ".join, named))

    def _sql_case(
        self,
        conditions: Mapping[Any, Sequence[tuple[str, Any]]],
        column: Any,
        table: str | None,
    ) -> str:
        """Return the action of the first true condition as SQL.

        Each group has conditions with their actions; the only group of a group-blind rule is None. A column
        has the group of a row: NULL is the group 'missing', if the rule has one. An answer is text if rows
        may be deferred: a column of answers has one type.
        """
        if (column is None) != (None in conditions):
            raise ValueError(
                f"group={column!r}: it is needed if the rule reads the row's group, and only then"
            )
        group = sql_column(column, table)
        if MISSING_GROUP in conditions:
            group = f"COALESCE({group}, {sql_value(MISSING_GROUP)})"
        cases = []
        for name, of_group in conditions.items():
            is_in_group = "" if name is None else f"{group} = {sql_value(name)} AND "
            cases += [
                f"WHEN {is_in_group}{condition} THEN {sql_value(action, self.defers)}"
                for condition, action in of_group
            ]
        return f"CASE {' '.join(cases)} END"


def check_default(default: Any, classes: Sequence[Name]) -> None:
    """Raise ValueError unless the answer to rows without another one is an action, None or not stated."""
    if default not in (*classes, HUMAN_REVIEW, None, ...):
        raise ValueError(
            f"default={default!r} is no answer of this rule: give one of {classes}, {HUMAN_REVIEW!r} or None"
        )


# -- words and SQL -----------------------------------------------------------------------------------------


def range_words(score: str, band: Sequence[tuple[Any, Any]]) -> str:
    """Return the ranges of a score, by their lower ends, in words from the highest to the lowest."""
    (_, lowest_action), *higher = band
    if not higher:
        return f"every row: {lowest_action}"
    words = [
        f"{lower!r} <= {score} < {upper!r}: {action}"
        for (lower, action), (upper, _) in pairwise(higher)
    ]
    lower, action = higher[-1]
    words.append(f"{score} >= {lower!r}: {action}")
    return "; ".join([*reversed(words), f"else {lowest_action}"])


def sql_column(name: Any, table: str | None) -> str:
    """Return a column as SQL, of a table or its alias if one is named; a dot ends the name of a schema."""
    if np.ndim(name):
        raise ValueError(f"SQL: {name!r} is several columns, and the rule reads one")
    names = [] if table is None else table.split(".")
    return ".".join(_quoted(part, '"') for part in [*names, str(name)])


def sql_value(value: object, as_text: bool = False) -> str:
    """Return a label or group as SQL."""
    if as_text:
        value = str(value)
    if isinstance(value, bool):
        return str(value).upper()
    if isinstance(value, str):
        return _quoted(value, "'")
    if isinstance(value, int) and abs(value) >= 2**63:
        raise ValueError(
            f"SQL: {value} needs more than the 64 bits of databases; use the rule as JSON"
        )
    return repr(value)


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
