"""Rows in groups that the limits by group of a certificate do not name, or that a rule does not know."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tailboost.core.array_types import Array, Column, Groups, Mask, Table
from tailboost.core.checks import (
    GROUP_OF_MISSING,
    MISSING_GROUP,
    as_pandas,
    column_words,
    columns_by_name,
    is_missing,
    names_columns,
    refuse_missing,
    with_interval_names,
    with_missing_group,
)
from tailboost.core.exceptions import UncertifiedGroupsWarning, warn_user
from tailboost.core.spelling import how_many, listed, number_form
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
        columns_of_groups = columns_by_name(
            with_missing_group(groups, [MISSING_GROUP]), "groups"
        )
        if len(named) == len(columns_of_groups) == 1:
            columns_of_groups = dict(zip(named, columns_of_groups.values(), strict=True))
        columns |= columns_of_groups
    for name in columns.keys() & named.keys():
        _warn_of_column(name, columns[name], [unit_name(group) for group in named[name]])


def refuse_missing_groups(named: GroupsByColumn, groups: Groups) -> None:
    """Raise ValueError if rows lack a group in a column of the certificate. The message has its groups.

    The arguments are as in `warn_of_other_groups`. A group 'missing' in place of the name that the
    calibration had would leave the rows untested by group.
    """
    if groups is None or not named:
        return
    groups = as_pandas(groups)
    columns = groups if names_columns(groups) else {None: groups}
    names = list(columns)
    for name in names:
        known = named.get(name, [])
        if len(named) == len(names) == 1:
            (known,) = named.values()
        groups_known = [unit_name(group) for group in known]
        remedy = GROUP_OF_MISSING
        if groups_known and MISSING_GROUP not in groups_known:
            remedy = (
                "drop their rows, or give them the name that the calibration gave to such "
                f"rows; the groups of the certificate are {listed(groups_known)}"
            )
        refuse_missing(with_interval_names(columns[name]), column_words(name), remedy)


def unknown_groups(view: Any, groups: Groups) -> dict[Any, Array]:
    """Return the printed group of each row that a group-aware rule does not know, and "" for other rows.

    The result has an array of shape (n,) for each column that the rule reads.

    Parameters
    ----------
    view : ClassifierView
        The view of the classifier.
    groups : column, or table of columns
        The groups of the rows. Missing entries are the group 'missing'.
    """
    known_groups = by_column(plain_list(view.groups))
    columns = columns_by_name(with_missing_group(groups, [MISSING_GROUP]), "groups")
    if len(known_groups) == len(columns) == 1:
        columns = dict(zip(known_groups, columns.values(), strict=True))
    unknown = {}
    for name in columns.keys() & known_groups.keys():
        if view.reads(name):
            names_known = {unit_name(group) for group in known_groups[name]}
            groups_of_rows = np.ravel(np.asarray(columns[name], dtype=object)).tolist()
            names = {group: unit_name(group) for group in set(groups_of_rows)}
            names_unknown = {
                group: "" if printed in names_known else printed
                for group, printed in names.items()
            }
            unknown[name] = np.array([names_unknown[group] for group in groups_of_rows], str)
    return unknown


def rows_by_unknown_group(names: Array) -> dict[str, int]:
    """Return the number of rows of each unknown group; ``names`` are of one column of `unknown_groups`."""
    return dict(sorted(Counter(names[names != ""].tolist()).items()))


def answered_rows(view: Any, groups: Groups) -> Mask:
    """Return a mask of the rows whose groups the rule knows, shape (n,); a warning counts the others.

    The arguments are as in `unknown_groups`, of a rule that reads a column of these groups. Raise
    ValueError if the rule knows the groups of no row.
    """
    faults = []
    masks = []
    for column, names in unknown_groups(view, groups).items():
        is_known = names == ""
        masks.append(is_known)
        if not is_known.all():
            rows_by_group = rows_by_unknown_group(names)
            known = [unit_name(group) for group in by_column(plain_list(view.groups))[column]]
            faults.append(
                f"{_title(column)} {groups_listed(rows_by_group)}: it knows {listed(known)}"
            )
    is_answered = np.logical_and.reduce(masks)
    if not faults:
        return is_answered
    words = f"the rule has no answer to {'; to '.join(faults)}"
    if not is_answered.any():
        raise ValueError(f"{words}, and no row has another group: check the column of groups")
    n_left_out = int(np.count_nonzero(~is_answered))
    are_left_out = number_form(n_left_out, "is not tested", "are not tested")
    warn_user(
        f"{how_many(n_left_out, 'row')} of {len(is_answered):,} {are_left_out}, because {words}",
        UncertifiedGroupsWarning,
    )
    return is_answered


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
    title = _title(name)
    are = number_form(len(other_groups), "is no group", "are no groups")
    warn_user(
        f"{title} {groups_listed(other_groups)} {are} of the certificate: its limits by {title} are "
        f"certified for {listed(list(groups_named))} alone",
        UncertifiedGroupsWarning,
    )


def _title(column: Any) -> str:
    """Return the name of a column of groups."""
    if column is None:
        return "group"
    return str(column)


def groups_listed(rows_by_group: Mapping[str, int]) -> str:
    """Return groups with their numbers of rows, the first of them by name."""
    words = [
        f"{group!r} ({how_many(n_rows, 'row')})" for group, n_rows in rows_by_group.items()
    ]
    listing = ", ".join(words[:GROUPS_SHOWN])
    if len(words) > GROUPS_SHOWN:
        n_rows = sum(list(rows_by_group.values())[GROUPS_SHOWN:])
        listing += f" and {len(words) - GROUPS_SHOWN} more ({n_rows:,} rows)"
    return listing


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
