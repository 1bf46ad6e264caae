"""Columns of groups, names of subgroups in print, and rows in groups that a rule does not know."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from itertools import compress
from typing import Any

import numpy as np

from tailboost.core import (
    Column,
    Groups,
    Ints,
    Mask,
    Name,
    Table,
    UncertifiedGroupsWarning,
    as_pandas,
    check_indexes,
    check_length,
    columns_of,
    did_you_mean,
    is_missing,
    joined,
    label_column,
    listed,
    n_rows_of,
    positions,
    text,
    warn_user,
    with_interval_names,
)

MISSING_GROUP = "missing"  # name of the group of rows without a group
GROUP_OF_MISSING = f"drop their rows, or make them a group: groups.fillna({MISSING_GROUP!r})"

#: Answer to a deferred row in every output, and name of the column of its costs.
HUMAN_REVIEW = "human review"

# The most groups in a warning.
GROUPS_SHOWN = 5

# Printed name of a group or class with an empty text as its name.
EMPTY_NAME = "(empty)"


def unit_name(unit: Any) -> str:
    """Return the printed name of a class, a group, a cell (class, group) or a pair (column, group)."""
    if isinstance(unit, tuple):
        return " / ".join(map(unit_name, unit))
    return text(unit) or EMPTY_NAME


# -- rows in groups that a certificate does not name, or that a rule does not know -----------------------


def warn_of_other_groups(
    named: Mapping[Any, Sequence[Any]], table: Table, groups: Groups = None
) -> None:
    """Warn of answered rows in groups that a certificate does not name.

    Parameters
    ----------
    named : mapping
        The groups in the bounds of the certificate by column, None for a column without a name; empty without
        limits by group.
    table : data frame, dict of columns or array
        The answered rows. Only columns with a name of ``named`` are read.
    groups : column, or table of columns, optional
        The groups of the rows, if the rule reads them.
    """
    if not named:
        return
    table = as_pandas(table)
    columns: dict[Any, Any] = {name: table[name] for name in columns_of(table)}
    columns |= named_columns(groups, table, named)
    for name in columns.keys() & named.keys():
        names = list(map(unit_name, named[name]))
        is_other, words = other_groups(columns[name], names)
        # Numbers without any named group are not compared: groups may be made from them, as age bands.
        is_text = np.asarray(columns[name]).dtype.kind in "OU"
        if is_other.any() and (is_text or not is_other.all()):
            column = "group" if name is None else name
            warn_user(
                f"{column} {words}: not in the certificate, whose limits by {column} are "
                f"certified for {listed(names)} alone",
                UncertifiedGroupsWarning,
            )


def named_columns(groups: Groups, table: Table, names: Collection[Any]) -> dict[Any, Any]:
    """Return the columns of groups by name; a single column has the only one of the ``names``."""
    columns = group_columns(groups, "groups", table)
    if len(columns) == len(names) == 1:
        return dict(zip(names, columns.values(), strict=True))
    return columns


def other_groups(column: Column, known: Collection[str]) -> tuple[Mask, str]:
    """Return which rows are in no group of the ``known`` names, and these groups with their rows in words."""
    entries = np.asarray(with_interval_names(column), dtype=object).ravel().tolist()
    names = {
        value: MISSING_GROUP if is_missing(value) else unit_name(value)
        for value in set(entries)
    }
    group_of_row = [names[value] for value in entries]
    is_other = np.array([group not in known for group in group_of_row], dtype=bool)
    counts = Counter(compress(group_of_row, is_other))
    words = [f"{group!r} ({n:,} rows)" for group, n in sorted(counts.items())]
    return is_other, joined(words, GROUPS_SHOWN)


def group_columns(groups: Groups, name: str, X: Table = None) -> dict[Any, Any]:
    """Return the columns of a groups argument by name; a single column without a name has the name None.

    The name of a column of a data frame ``X``, or a list of names, are these columns. The columns of a table
    are sorted by name, so their order has no effect. Columns of an array are numbered. Raise ValueError if
    the name of a column has another meaning in ``by=``: "class", "cell", and "group" if there are several
    columns; such a name of a Series does not count. Raise it also if the groups have another index than X.
    """
    check_indexes(X=X, **{name: groups})
    if groups is None or (isinstance(groups, Mapping) and not groups):
        return {}
    groups = with_interval_names(as_pandas(_columns_of_X(groups, name, X)))
    if isinstance(groups, Mapping) or hasattr(groups, "columns"):
        names = list(groups)
        if not names or len(set(names)) < len(names):
            raise ValueError(f"{name} must have columns with different names, got {names}")
        for column in names:
            if column in ("class", "cell") or (column == "group" and len(names) > 1):
                raise ValueError(
                    f"{name}: a column is named {column!r}, which has another meaning in by=; "
                    "give the column another name"
                )
        names.sort(key=str)
        return {column: with_interval_names(groups[column]) for column in names}
    # NumPy would turn 1 beside "a" into "1".
    array = groups if hasattr(groups, "dtype") else np.asarray(groups, dtype=object)
    if array.ndim == 1:
        title = getattr(groups, "name", None)
        if not isinstance(title, (str, int)) or title in ("class", "group", "cell"):
            title = None
        return {title: array}
    if array.ndim != 2:
        raise ValueError(f"{name} must be a 1d array or a table, got shape {array.shape}")
    if array.shape[1] == 1:
        return {None: array[:, 0]}
    return dict(enumerate(array.T))


def _columns_of_X(groups: Groups, name: str, X: Table) -> Groups:
    """Return the columns of a data frame that ``groups`` names, by one name or a list; other groups stay."""
    known = list(getattr(X, "columns", ()))
    if isinstance(groups, str):
        if groups not in known:
            near = did_you_mean(groups, map(str, known))
            raise ValueError(
                f"{name}={groups!r}: {near}X has the columns {listed(known)}; give one of "
                f"these, or the column itself, as in {name}=X[{groups!r}]"
            )
        return as_pandas(X)[[groups]]
    # A list with an entry for each row has groups, even if these are called like columns.
    is_list = known and isinstance(groups, (list, tuple)) and len(groups) != n_rows_of(X)
    if is_list and all(isinstance(each, str) and each in known for each in groups):
        return as_pandas(X)[list(groups)]
    return groups


def column_words(argument: str, title: Name) -> str:
    """Return what messages call a column of groups."""
    return argument if title is None else f"{argument} column {title!r}"


# -- groups of a rule -------------------------------------------------------------------------------------


def with_missing_group(
    columns: Mapping[Any, Column], known: Sequence[Name]
) -> Mapping[Any, Column]:
    """Return columns of groups with 'missing' for missing entries, if this is a known group."""
    if MISSING_GROUP not in known:
        return columns
    filled = {}
    for title, column in columns.items():
        array = np.array(column, dtype=object)
        array[list(map(is_missing, array.tolist()))] = MISSING_GROUP
        filled[title] = array
    return filled


def group_numbers(
    columns: Mapping[Any, Column],
    rule_groups: Sequence[Name] | None,
    n: int,
    column: Any,
    *,
    others: int | None,
) -> Ints:
    """Return the number of the group of each row; 0 if ``rule_groups`` is None: a group-blind rule.

    Parameters
    ----------
    columns : dict
        The groups of the rows by column, see `group_columns`. Missing entries are the group 'missing' if the
        rule has a group of this name.
    rule_groups : sequence or None
        The groups of the rule.
    n : int
        Number of rows.
    column : str, int or None
        The name of the column that the rule reads, among several.
    others : int or None
        The number of rows of other groups, and of rows without a group; None if they are an error.
    """
    if rule_groups is None:
        if columns:
            raise ValueError(
                "groups are not used by the rule of this classifier: leave them out"
            )
        return np.zeros(n, dtype=np.intp)
    if not columns:
        raise ValueError(
            "groups are needed: the rule of this classifier reads them (by_group). Give groups=…"
        )
    if not n:
        return np.zeros(0, dtype=np.intp)
    columns = with_missing_group(columns, rule_groups)
    is_alone = len(columns) == 1 and None in (column, *columns)  # and needs no name
    if column not in columns and not is_alone:
        name = "one column" if column is None else f"the column {column!r}"
        raise ValueError(f"groups has the columns {list(columns)}: the rule reads {name}")
    entries = columns.get(column, next(iter(columns.values())))
    check_length(entries, "groups", n, "rows")
    if others is not None:
        number = {group: place for place, group in enumerate(rule_groups)}
        labels = np.asarray(entries, dtype=object).tolist()
        return np.array([number.get(label, others) for label in labels], dtype=np.intp)
    words = column_words("groups", column)
    labels = label_column(entries, words)
    return positions(labels, np.asarray(rule_groups), words, "groups not seen in fit")
