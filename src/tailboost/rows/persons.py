"""Columns of persons with several rows each: rows of one person are not independent.

Values alone do not tell persons from amounts: incomes and codes repeat in the same way. So the name of the
column counts too.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import Any

from tailboost.core.array_types import Table
from tailboost.core.checks import as_pandas
from tailboost.core.exceptions import DependentRowsWarning, warn_user
from tailboost.core.spelling import as_typed, shell_word
from tailboost.core.written_numbers import MANY

# patient_id, Customer ID, userId, pid, id, uuid; patient_nbr, Kundennummer; person; application_number. Not:
# paid, bid, person_age, application.
_NAMES_PERSONS = re.compile(
    r"(?:.*[\W_])?[cgpsu]?u?ids?|(?-i:.*[a-z]I[dD])"
    r"|(?:patient|person|subject|customer|client|user|member|kunde)(?:en|s)?n?"
    r"(?:[\W_]?(?:id|n[or]|nbr|num|number|nummer|key|code))?"
    r"|(?:account|application|case|claim|contract|loan|policy)[\W_]?(?:n[or]|nbr|num|number|key)",
    re.IGNORECASE,
)
# A column with more different values has persons, in a table of any size.
MANY_PERSONS = 100
# A column with fewer different values has categories, such as kinds of visits, if a value has at least this
# many rows on average.
ROWS_OF_A_CATEGORY = 20


def names_persons(name: object) -> bool:
    """Return whether a column has a name for persons or cases, such as ``patient_id``.

    Examples
    --------
    >>> from tailboost.rows.persons import names_persons
    >>> names = ("patient_id", "userId", "patient", "city", "paid", "person_age")
    >>> [name for name in names if names_persons(name)]
    ['patient_id', 'userId', 'patient']
    """
    return isinstance(name, str) and _NAMES_PERSONS.fullmatch(name.strip()) is not None


def column_of_persons(table: Table, other_roles: Collection[Any]) -> str | None:
    """Return the name of the first column of persons with several rows each; None without such a column.

    Parameters
    ----------
    table : data frame or another table
        Only columns with a name are read.
    other_roles : collection of str
        Columns with another use, such as groups; they are skipped.
    """
    names = [
        name
        for name in getattr(table, "columns", ())
        if names_persons(name) and name not in other_roles
    ]
    if names:
        table = as_pandas(table)
    for name in names:
        n_rows = int(table[name].notna().sum())
        n_persons = int(table[name].nunique())
        is_category = n_persons <= max(MANY, n_rows / ROWS_OF_A_CATEGORY)
        if n_persons <= MANY_PERSONS and is_category:
            continue
        if n_rows > n_persons:  # also few repeated rows: all may be of one person
            return str(name)
    return None


def _clause(table: Table, name: str) -> str:
    """Return a clause for messages about a column of persons."""
    column = as_pandas(table)[name]
    return (
        f"column {name!r} has {column.nunique():,} different values in "
        f"{column.notna().sum():,} rows, and rows of one person may depend on each other"
    )


def refuse_persons(
    table: Table,
    other_roles: Collection[Any] = (),
    argument: str = "X",
    features: Collection[Any] = (),
) -> None:
    """Raise ValueError if a column of fresh rows without clusters has persons with several rows each.

    ``table`` and ``other_roles`` are as in `column_of_persons`. ``argument`` is the name of the table in the
    message. ``features`` are columns that a file needs for its answers.
    """
    name = column_of_persons(table, other_roles)
    if name is None:
        return
    python = (
        f"clusters={argument}[{name!r}], or clusters=range(len({argument})) if the rows are "
        "independent all the same"
    )
    otherwise = "leave the column out of the file"
    if name in features:
        otherwise = "--cluster with a column of row numbers"
    shell = (
        f"--cluster {shell_word(name)}, or {otherwise} if the rows are independent all the same"
    )
    raise ValueError(
        f"{argument}: {_clause(table, name)}. State {as_typed(python, shell)}. Nothing was tested"
    )


def warn_of_persons(
    table: Table, other_roles: Collection[Any] = (), features: Collection[Any] = ()
) -> None:
    """Warn of a column of persons: a fit without clusters takes their rows as independent.

    ``table`` and ``other_roles`` are as in `column_of_persons`. ``features`` are the columns that the models
    read; the cure of a column among them begins with how to drop it.
    """
    name = column_of_persons(table, other_roles)
    if name is None:
        return
    word = shell_word(name)
    cure = as_typed(
        f"give clusters=X[{name!r}] to fit, calibrate and certify",
        f"fit, evaluate, calibrate and certify take --cluster {word}",
    )
    if name in features:
        drop = as_typed(f"X.drop(columns={name!r})", f"--drop {word}")
        cure = f"it is a feature, and {drop} leaves it out; {cure}"
    warn_user(f"{_clause(table, name)}: {cure}", DependentRowsWarning)
