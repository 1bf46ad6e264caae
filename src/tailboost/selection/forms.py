"""Rules in words, SQL and Python: texts of ranges of a score, and of costs of actions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from keyword import iskeyword
from typing import Any

import numpy as np

from tailboost.core.score_kinds import ROUNDED, ScoreKind
from tailboost.rows.subgroups import MISSING_GROUP, unit_name

#: The ranges of a score in a group, with their actions: least and largest score. Of a score in two ranges the
#: first one has the action.
Ranges = Sequence[tuple[float, float, Any]]
#: The names of the groups of a rule; None for a rule that reads no group.
GroupNames = Sequence[Any] | None

SOURCE = """\
def {name}(score, group=None):
    {words!r}
    if score is None or score != score:
        score = {missing!r}
    if group is None or group != group:
        group = {missing_group!r}
    if type(score).__module__ == 'numpy':  # a float32 is the decimal that it prints
        score = float(str(score))
    if isinstance(score, (bool, str)):
        raise TypeError(f'the score {{score!r}} is no number')
    if score is None or not {least!r} <= score <= {most!r}:
        raise ValueError(f'the score {{score!r}} is none of the {plural}')
    ranges = {ranges!r}
    if group not in ranges:
        raise ValueError(f'group {{group!r}} is unknown')
    for least, most, action in ranges[group]:
        if least <= score <= most:
            return action
"""


# -- words -------------------------------------------------------------------------------------------------


def range_words(score: str, band: Sequence[tuple[Any, Any]]) -> str:
    """Return the ranges of a score, by their lower ends, in words from the highest to the lowest."""
    (_, lowest_action), *higher = band
    if not higher:
        return f"every row: {lowest_action}"
    words = []
    upper = None
    for lower, action in reversed(higher):
        ends = f"{score} >= {lower!r}" if upper is None else f"{lower!r} <= {score} < {upper!r}"
        words.append(f"{ends}: {action}")
        upper = lower
    return "; ".join([*words, f"else {lowest_action}"])


def words_of_groups(groups: GroupNames, texts: Sequence[str]) -> str:
    """Return a text for each group as lines that begin with its name."""
    if groups is None:
        return texts[0]
    lines = (f"{unit_name(group)}: {text}" for group, text in zip(groups, texts, strict=True))
    return "\n".join(lines)


# -- Python ------------------------------------------------------------------------------------------------


def python_of_ranges(
    name: str,
    words: str,
    ranges: Mapping[Any, Ranges],
    kind: ScoreKind,
    missing: float | None,
) -> str:
    """Return the source of a function of a score and a group, without imports.

    Parameters
    ----------
    name, words : str
        The name of the function and its docstring.
    ranges : dict of Ranges
        The ranges of each group; of None for a rule that reads no group.
    kind : ScoreKind
        The kind of the scores.
    missing : float or None
        The score of rows without one.
    """
    if not name.isidentifier() or iskeyword(name):
        raise ValueError(f"name={name!r} is no name of a function")
    return SOURCE.format(
        name=name,
        words=words,
        missing=missing,
        missing_group=MISSING_GROUP if MISSING_GROUP in ranges else None,
        least=kind.least,
        most=kind.most,
        plural=kind.plural,
        ranges=ranges,
    )


# -- SQL ---------------------------------------------------------------------------------------------------


def sql_of_ranges(
    score: str,
    missing: float | None,
    ranges: Sequence[Ranges],
    conditions: Sequence[str],
    *,
    as_text: bool,
) -> str:
    """Return the action on a column as SQL; ``conditions`` are those of the groups."""
    if missing is not None:
        score = f"COALESCE({score}, {missing!r})"
    cases = [
        f"WHEN {condition}{score} BETWEEN {least!r} AND {most!r} THEN {sql_value(action, as_text)}"
        for condition, of_group in zip(conditions, ranges, strict=True)
        for least, most, action in of_group
    ]
    return f"CASE {' '.join(cases)} END"


def sql_of_costs(
    columns: Sequence[str],
    power: float,
    costs: Sequence[Any],
    actions: Sequence[Any],
    conditions: Sequence[str],
    *,
    as_text: bool,
) -> str:
    """Return the action of least expected cost as SQL.

    Parameters
    ----------
    columns : sequence of str
        The columns of the probabilities, as SQL.
    power : float
        The weight of their logarithms.
    costs : sequence of array of shape (K, actions)
        Cost of each action in each class, times the factor of the class, for each group.
    actions : sequence
        At least the actions with costs.
    conditions : sequence of str
        The conditions of the groups.
    as_text : bool
        Whether labels are written as text, because a column has one type.
    """
    tests = [f"{p} BETWEEN {-ROUNDED!r} AND {1 + ROUNDED!r}" for p in columns]
    slack = len(columns) * ROUNDED
    tests.append(f"{' + '.join(columns)} BETWEEN {1 - slack!r} AND {1 + slack!r}")
    is_valid = " AND ".join(tests)
    masses = [p if power == 1.0 else f"power({p}, {power!r})" for p in columns]
    cases = []
    for condition, of_group in zip(conditions, costs, strict=True):
        expected = [
            " + ".join(f"{c!r} * {mass}" for c, mass in zip(of_action, masses, strict=True))
            for of_action in np.transpose(of_group).tolist()
        ]
        for action, cost in zip(actions, expected, strict=False):
            test = " AND ".join(f"{cost} <= {other}" for other in expected)
            answer = sql_value(action, as_text)
            cases.append(f"WHEN {is_valid} AND {condition}{test} THEN {answer}")
    return f"CASE {' '.join(cases)} END"


def sql_conditions(groups: GroupNames, column: Any, table: str | None) -> list[str]:
    """Return the condition of each group on its column; NULL is the group 'missing' of a rule."""
    if groups is None:
        return [""]
    if column is None:
        raise ValueError("group= is needed: the rule reads the row's group")
    group = sql_column(column, table)
    if MISSING_GROUP in groups:
        group = f"COALESCE({group}, {sql_value(MISSING_GROUP)})"
    return [f"{group} = {sql_value(name)} AND " for name in groups]


def sql_column(name: Any, table: str | None) -> str:
    """Return a column as SQL, of a table or its alias if one is named; a dot ends the name of a schema."""
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
