"""Columns of persons with several rows each: rows of one person are not independent."""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import Any

from tailboost.core.array_types import Table
from tailboost.core.checks import as_pandas
from tailboost.core.exceptions import DependentRowsWarning, warn_user

# patient_id, Customer ID, userId, patient; these name persons for sure.
_PERSONS = re.compile(
    r"(patient|person|customer|user)s?([\W_]?(id|nr|no|nbr|num|number|key|code))?", re.I
)
# Names of persons and of other cases: pid, id, account_number; amounts and codes may have such names too.
_CASES = re.compile(
    rf"{_PERSONS.pattern}|(.*[\W_])?(u?u|p|s|c)?ids?"
    r"|(subject|client|member|account|application|case|claim|contract|loan|policy)[\W_]?(id|n[or]|nbr|num|number|key)",
    re.I,
)
# A column with fewer different values may have categories, such as kinds of visits.
MANY_PERSONS = 100


def column_of_persons(
    table: Table, other_roles: Collection[Any], names: re.Pattern[str] = _PERSONS
) -> str | None:
    """Return the name of the first column of persons with several rows each; None without such a column.

    ``other_roles`` are columns with another use, such as groups; they are skipped.

    Examples
    --------
    >>> import pandas as pd
    >>> from tailboost.rows.persons import column_of_persons
    >>> column_of_persons(pd.DataFrame({"patient_id": range(200)}), [])
    >>> column_of_persons(pd.DataFrame({"patient_id": [k % 150 for k in range(200)]}), [])
    'patient_id'
    """
    for name in getattr(table, "columns", ()):
        if name not in other_roles and names.fullmatch(str(name).strip()):
            column = as_pandas(table)[name].dropna()
            if MANY_PERSONS < column.nunique() < len(column):
                return str(name)
    return None


def refuse_persons(table: Table, other_roles: Collection[Any] = ()) -> None:
    """Raise ValueError if a column of fresh rows without clusters has persons with several rows each.

    Other names of cases get a warning. The parameters are those of `column_of_persons`.
    """
    name = column_of_persons(table, other_roles)
    if name is not None:
        raise ValueError(
            f"X: column {name!r} has persons with several rows, which may be dependent. State "
            f"clusters=X[{name!r}], or clusters=range(len(X)) if the rows are independent all the same. "
            "Nothing was tested"
        )
    warn_of_persons(table, other_roles)


def warn_of_persons(table: Table, other_roles: Collection[Any] = ()) -> None:
    """Warn of a column of persons or cases: without clusters their rows count as independent."""
    name = column_of_persons(table, other_roles, _CASES)
    if name is not None:
        warn_user(
            f"column {name!r} has values with several rows. If these depend on each other, as those of one "
            f"person do, state clusters=X[{name!r}]",
            DependentRowsWarning,
        )
