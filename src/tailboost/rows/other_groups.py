"""A warning of rows in groups that the limits by group of a certificate do not name."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tailboost.core.array_types import Column, Groups, Table
from tailboost.core.checks import (
    MISSING_GROUP,
    as_pandas,
    columns_by_name,
    is_missing,
    with_interval_names,
    with_missing_group,
)
from tailboost.core.exceptions import UncertifiedGroupsWarning, warn_user
from tailboost.core.spelling import how_many, listed
from tailboost.rows.subgroups import unit_name

# The most groups in a warning.
GROUPS_SHOWN = 5

#: The groups that a certificate names, by their column; the key of a column without a name is None.
GroupsByColumn = Mapping[Any, Sequence[Any]]


def warn_of_other_groups(named: GroupsByColumn, table: Table, groups: Groups = None) -> None:
    """Warn of answered rows in groups that a certificate does not name.

    Parameters
    ----------
    named : mapping
        The groups in the bounds of the certificate by column; empty without limits by group.
    table : data frame, dict of columns or array
        The answered rows. Only columns with a name of ``named`` are read.
    groups : column, or table of columns, optional
        The groups of the rows, if the rule reads them.
    """
    if not named:
        return
    table = as_pandas(table)
    names_of_table = getattr(table, "columns", table if isinstance(table, Mapping) else ())
    columns = {name: table[name] for name in names_of_table if name in named}
    if groups is not None and not isinstance(groups, str):  # text names a column of the table
        columns_of_groups = columns_by_name(
            with_missing_group(groups, [MISSING_GROUP]), "groups"
        )
        if len(named) == len(columns_of_groups) == 1:
            columns_of_groups = dict(zip(named, columns_of_groups.values(), strict=True))
        columns |= columns_of_groups
    for name in columns.keys() & named.keys():
        _warn_of_column(name, columns[name], [unit_name(group) for group in named[name]])


def _warn_of_column(name: Any, column: Column, groups_named: Sequence[str]) -> None:
    """Warn of the rows of one column in other groups.

    A column of numbers without any named group is not compared: the groups may be made from it, as age bands.
    """
    rows_by_value = _counted(column)
    rows_by_group: Counter[str] = Counter()
    for value, n_rows in rows_by_value.items():
        rows_by_group[MISSING_GROUP if is_missing(value) else unit_name(value)] += n_rows
    other_groups = {
        group: n_rows
        for group, n_rows in sorted(rows_by_group.items())
        if group not in groups_named
    }
    is_text = all(isinstance(value, str) or is_missing(value) for value in rows_by_value)
    if not other_groups or (len(other_groups) == len(rows_by_group) and not is_text):
        return
    title = "group" if name is None else str(name)
    words = [f"{group!r} ({how_many(n_rows, 'row')})" for group, n_rows in other_groups.items()]
    listing = ", ".join(words[:GROUPS_SHOWN])
    if len(words) > GROUPS_SHOWN:
        n_rows = sum(list(other_groups.values())[GROUPS_SHOWN:])
        listing += f" and {len(words) - GROUPS_SHOWN} more ({n_rows:,} rows)"
    are = "is no group" if len(words) == 1 else "are no groups"
    warn_user(
        f"{title} {listing} {are} of the certificate: its limits by {title} are certified for "
        f"{listed(list(groups_named))} alone",
        UncertifiedGroupsWarning,
    )


def _counted(column: Column) -> dict[Any, int]:
    """Return the number of rows of each value of a column; of objects each NaN may be a value of its own.

    Intervals are counted by their names, since an array of whole-number intervals and NaN has other bounds.
    """
    column = with_interval_names(column)
    if not hasattr(column, "dtype"):  # a list of text and NaN would become text with "nan"
        column = np.array(column, dtype=object)
    values = np.ravel(np.asarray(column))
    if values.dtype.kind not in "biuf":
        return Counter(values.tolist())
    distinct_values, n_rows = np.unique(values, return_counts=True)
    return dict(zip(distinct_values.tolist(), n_rows.tolist(), strict=True))
