"""Columns that name persons with several rows each, whose rows are no independent rows.

Values alone do not tell persons from amounts: incomes and codes repeat in the same way. So the name of the
column counts too.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import Any

from tailboost.core.array_types import Table
from tailboost.core.checks import as_pandas
from tailboost.core.exceptions import DependentRowsWarning
from tailboost.core.spelling import as_typed, shell_word
from tailboost.core.warn import warn_user
from tailboost.core.written_numbers import MANY

# patient_id, Customer ID, userId, pid, id; patient_nbr, Kundennummer; person. Not: paid, bid, person_age.
_NAMES_PERSONS = re.compile(
    r"(?:.*[\W_])?[cpsu]?ids?|(?-i:.*[a-z]I[dD])"
    r"|(?:patient|person|subject|customer|client|user|member|kunde)(?:en|s)?n?"
    r"(?:[\W_]?(?:id|n[or]|nbr|num|number|nummer|key|code))?",
    re.IGNORECASE,
)
# More different values than these are persons in a table of any size.
MANY_PERSONS = 100
# Rows of a value on average, from which fewer values are categories, such as kinds of visits.
ROWS_OF_A_CATEGORY = 20
# Share of rows beyond the first of their person, below which nothing is said.
FEW_REPEATS = 0.05


def names_persons(name: object) -> bool:
    """Return whether the name of a column says that its values are persons or cases.

    Examples
    --------
    >>> from tailboost.rows.persons import names_persons
    >>> names = ("patient_id", "userId", "patient", "city", "paid", "person_age")
    >>> [name for name in names if names_persons(name)]
    ['patient_id', 'userId', 'patient']
    """
    return isinstance(name, str) and _NAMES_PERSONS.fullmatch(name.strip()) is not None


def repeated_persons(table: Table, other_roles: Collection[Any] = ()) -> tuple[str, str]:
    """Return the name of the first column of persons with several rows each, and a clause about it.

    Both are empty without such a column.

    Parameters
    ----------
    table : data frame or another table
        Only columns with a name are read.
    other_roles : collection of str
        Columns that are something else, such as groups.
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
        fewest = min(MANY_PERSONS, max(MANY, n_rows / ROWS_OF_A_CATEGORY))
        if n_persons > fewest and n_rows - n_persons >= FEW_REPEATS * n_rows:
            clause = (
                f"column {name!r} has {n_persons:,} different values in {n_rows:,} rows, and "
                "rows of one person may depend on each other"
            )
            return name, clause
    return "", ""


def refuse_persons(
    table: Table, other_roles: Collection[Any] = (), argument: str = "X"
) -> None:
    """Raise ValueError if a column of fresh rows has persons with several rows, and no clusters are stated.

    The parameters are those of `repeated_persons`, and the name of the table.
    """
    name, clause = repeated_persons(table, other_roles)
    if not name:
        return
    python = (
        f"clusters={argument}[{name!r}], or clusters=range(len({argument})) if the rows are "
        "independent all the same"
    )
    shell = (
        f"--cluster {shell_word(name)}, or leave the column out of the file if the rows are "
        "independent all the same"
    )
    raise ValueError(
        f"{argument}: {clause}. State {as_typed(python, shell)}. Nothing was tested"
    )


def warn_of_persons(table: Table, other_roles: Collection[Any] = ()) -> None:
    """Warn of a column with persons, which a fit without clusters takes as independent rows.

    The parameters are those of `repeated_persons`.
    """
    name, clause = repeated_persons(table, other_roles)
    if name:
        cure = as_typed(
            f"give clusters=X[{name!r}] to fit, calibrate and certify",
            f"fit, evaluate, calibrate and certify take --cluster {shell_word(name)}",
        )
        warn_user(f"{clause}: {cure}", DependentRowsWarning)
