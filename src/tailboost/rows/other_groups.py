"""Rows in groups that a certificate does not name, or that a rule does not know."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np

from tailboost.core.array_types import Column, Groups, Mask, Table
from tailboost.core.checks import (
    MISSING_GROUP,
    as_pandas,
    is_missing,
    names_columns,
    with_interval_names,
)
from tailboost.core.exceptions import UncertifiedGroupsWarning, warn_user
from tailboost.core.spelling import joined, listed
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
    columns = {}
    if names_columns(as_pandas(table)):
        columns = _columns(table, ())
    if groups is not None and not isinstance(groups, str):  # text names a column of the table
        columns |= _columns(groups, named)
    for name in columns.keys() & named.keys():
        values = _entries(columns[name])
        known = list(map(unit_name, named[name]))
        others = _others(values, known)
        # Numbers without any named group are not compared: groups may be made from them, as age bands.
        is_text = all(isinstance(value, str) or is_missing(value) for value in set(values))
        if others and (is_text or sum(others.values()) < len(values)):
            column = _title(name)
            warn_user(
                f"{column} {_with_rows(others)} not in the certificate: its limits by {column} are certified "
                f"for {listed(known)} alone",
                UncertifiedGroupsWarning,
            )


def answered_rows(view: Any, groups: Groups) -> Mask:
    """Return a mask of the rows whose groups a rule knows, shape (n,); a warning counts the others.

    ``view`` is the view of the classifier. Raise ValueError if the rule knows the groups of no row.
    """
    known = by_column(plain_list(view.groups_))
    masks = []
    faults = []
    for name, column in _columns(groups, known).items():
        if name in known and view._reads(name):
            values = _entries(column)
            names = list(map(unit_name, known[name]))
            is_known = {value: _name(value) in names for value in set(values)}
            masks.append([is_known[value] for value in values])
            others = _others(values, names)
            if others:
                faults.append(
                    f"{_title(name)} {_with_rows(others)} not known: it knows {listed(names)}"
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
        return dict(zip(names, columns.values(), strict=True))
    return columns


def _entries(column: Column) -> list[Any]:
    """Return the entries of a column of groups; each NaN may be a value of its own."""
    entries: list[Any] = np.asarray(with_interval_names(column), dtype=object).ravel().tolist()
    return entries


def _others(values: list[Any], known: Collection[str]) -> Counter[str]:
    """Return the number of rows of each group that is not ``known``, by its printed name."""
    others = Counter[str]()
    for value, n_rows in Counter(values).items():
        if _name(value) not in known:
            others[_name(value)] += n_rows
    return others


def _name(value: Any) -> str:
    """Return the printed name of a group."""
    return MISSING_GROUP if is_missing(value) else unit_name(value)


def _title(column: Any) -> str:
    """Return the name of a column of groups."""
    return "group" if column is None else str(column)


def _with_rows(rows_by_group: Mapping[str, int]) -> str:
    """Return groups with their numbers of rows, the first of them by name, and a verb."""
    words = [f"{group!r} ({n:,} rows)" for group, n in sorted(rows_by_group.items())]
    return f"{joined(words, GROUPS_SHOWN)} {'is' if len(words) == 1 else 'are'}"
