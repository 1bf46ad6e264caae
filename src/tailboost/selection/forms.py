"""Rules in words, SQL and Python: texts of ranges of a score, and of costs of actions."""

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

from tailboost.rows import MISSING_GROUP, unit_name

#: A function of a score and a group, without imports.
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
    if score is None or not {kind.least!r} <= score <= {kind.most!r}:
        raise ValueError(f'the score {{score!r}} is none of the {kind.plural}')
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
    words = [
        f"{lower!r} <= {score} < {upper!r}: {action}"
        for (lower, action), (upper, _) in pairwise(higher)
    ]
    lower, action = higher[-1]
    words.append(f"{score} >= {lower!r}: {action}")
    return "; ".join([*reversed(words), f"else {lowest_action}"])


def words_of_groups(groups: Sequence[Any] | None, texts: Sequence[str]) -> str:
    """Return a text for each group as lines that begin with its name; of a group-blind rule the only text."""
    if groups is None:
        return texts[0]
    lines = (f"{unit_name(group)}: {text}" for group, text in zip(groups, texts, strict=True))
    return "\n".join(lines)


# -- SQL ---------------------------------------------------------------------------------------------------


def sql_case(
    tests: Mapping[Any, Sequence[tuple[str, Any]]],
    column: Any,
    table: str | None,
    *,
    as_text: bool,
) -> str:
    """Return the action of the first true test as SQL.

    The tests with their actions are those of each group, which is in a column; NULL there is the group
    'missing' of a rule. The only group of a group-blind rule is None. Labels may be written ``as_text``,
    because a column has one type.
    """
    if column is None and None not in tests:
        raise ValueError("group= is needed: the rule reads the row's group")
    group = sql_column(column, table)
    if MISSING_GROUP in tests:
        group = f"COALESCE({group}, {sql_value(MISSING_GROUP)})"
    cases = []
    for name, of_group in tests.items():
        condition = "" if name is None else f"{group} = {sql_value(name)} AND "
        cases += [
            f"WHEN {condition}{test} THEN {sql_value(action, as_text)}"
            for test, action in of_group
        ]
    return f"CASE {' '.join(cases)} END"


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
