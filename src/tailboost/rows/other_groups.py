"""Rows in groups that a certificate does not name, or that a rule does not know."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np

from tailboost.core.array_types import Column, Groups, Mask, Table
from tailboost.core.checks import (
    GROUP_OF_MISSING,
    MISSING_GROUP,
    as_pandas,
    column_words,
    is_missing,
    names_columns,
    refuse_missing,
    with_interval_names,
)
from tailboost.core.exceptions import UncertifiedGroupsWarning, warn_user
from tailboost.core.spelling import listed
from tailboost.rows.subgroups import by_column, plain_list, unit_name

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
    columns = {}
    if names_columns(table):
        columns = {name: table[name] for name in table if name in named}
    if groups is not None and not isinstance(groups, str):  # text names a column of the table
        columns |= _columns(groups, named)
    for name in columns.keys() & named.keys():
        rows_by_value = _counted(columns[name])
        rows_by_group: Counter[str] = Counter()
        for value, n_rows in rows_by_value.items():
            rows_by_group[_name(value)] += n_rows
        known = [unit_name(group) for group in named[name]]
        others = {group: n for group, n in sorted(rows_by_group.items()) if group not in known}
        # Numbers without any named group are not compared: groups may be made from them, as age bands.
        is_text = all(isinstance(value, str) or is_missing(value) for value in rows_by_value)
        if others and (is_text or len(others) < len(rows_by_group)):
            warn_user(
                f"{_title(name)} {_groups_listed(others)} not in the certificate: its limits by "
                f"{_title(name)} are certified for {listed(known)} alone",
                UncertifiedGroupsWarning,
            )


def refuse_missing_groups(named: GroupsByColumn, groups: Groups) -> None:
    """Raise ValueError if rows lack a group in a column of the certificate. The message has its groups.

    A group 'missing' in place of the name that the calibration had would leave the rows untested by group.
    """
    if groups is None or not named:
        return
    for name, column in _columns(groups, named).items():
        known = [unit_name(group) for group in named.get(name, ())]
        remedy = GROUP_OF_MISSING
        if known and MISSING_GROUP not in known:
            remedy = (
                "drop their rows, or give them the name that the calibration gave to such rows; the groups "
                f"of the certificate are {listed(known)}"
            )
        refuse_missing(column, column_words(name), remedy)


def answered_rows(view: Any, groups: Groups) -> Mask:
    """Return a mask of the rows whose groups a rule knows, shape (n,); a warning counts the others.

    ``view`` is the view of the classifier. Raise ValueError if the rule knows the groups of no row.
    """
    known = by_column(plain_list(view.groups_))
    masks = []
    faults = []
    for name, column in _columns(groups, known).items():
        if name in known and view._reads(name):
            names = np.array(
                list(map(_name, np.ravel(np.asarray(column, dtype=object)).tolist()))
            )
            names_known = [unit_name(group) for group in known[name]]
            masks.append(np.isin(names, names_known))
            others = Counter(names[~masks[-1]].tolist())
            if others:
                faults.append(
                    f"{_title(name)} {_groups_listed(others)} not known: it knows {listed(names_known)}"
                )
    is_answered = np.logical_and.reduce(masks)
    if not faults:
        return is_answered
    words = f"the rule has no answer to some rows: {'; '.join(faults)}"
    if not is_answered.any():
        raise ValueError(f"{words}. No row has another group: check the column of groups")
    n_left_out = int(np.count_nonzero(~is_answered))
    warn_user(
        f"rows not tested: {n_left_out:,} of {len(is_answered):,}; {words}",
        UncertifiedGroupsWarning,
    )
    return is_answered


def _columns(groups: Groups, names: Collection[Any]) -> dict[Any, Any]:
    """Return the columns of groups by name; a single column has the only one of the ``names``."""
    groups = as_pandas(groups)
    columns = {None: groups}
    if names_columns(groups):
        columns = {name: groups[name] for name in groups}
    if len(columns) == len(names) == 1:
        columns = dict(zip(names, columns.values(), strict=True))
    return {name: with_interval_names(column) for name, column in columns.items()}


def _name(value: Any) -> str:
    """Return the printed name of a group."""
    return MISSING_GROUP if is_missing(value) else unit_name(value)


def _title(column: Any) -> str:
    """Return the name of a column of groups."""
    return "group" if column is None else str(column)


def _groups_listed(rows_by_group: Mapping[str, int]) -> str:
    """Return groups with their numbers of rows, the first of them by name, and a verb."""
    words = [f"{group!r} ({n_rows:,} rows)" for group, n_rows in rows_by_group.items()]
    more = f" and {len(words) - GROUPS_SHOWN} more" if len(words) > GROUPS_SHOWN else ""
    return f"{', '.join(words[:GROUPS_SHOWN])}{more} {'is' if len(words) == 1 else 'are'}"


def _counted(column: Column) -> dict[Any, int]:
    """Return the number of rows of each value of a column; of objects each NaN may be a value of its own."""
    column = with_interval_names(column)
    if not hasattr(column, "dtype"):  # a list of text and NaN would become text with "nan"
        column = np.array(column, dtype=object)
    values = np.ravel(np.asarray(column))
    if values.dtype.kind not in "biuf":
        return Counter(values.tolist())
    distinct_values, n_rows = np.unique(values, return_counts=True)
    return dict(zip(distinct_values.tolist(), n_rows.tolist(), strict=True))
