"""Names of subgroups in print, and rows in groups that a certificate or a rule does not know."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from itertools import compress
from typing import Any

import numpy as np

from tailboost.core.array_types import Column, Groups, Mask, Table
from tailboost.core.checks import (
    MISSING_GROUP,
    as_pandas,
    group_columns,
    is_missing,
    with_interval_names,
)
from tailboost.core.exceptions import UncertifiedGroupsWarning, warn_user
from tailboost.core.spelling import joined, listed
from tailboost.rows.fingerprints import text

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
    columns: dict[Any, Any] = {}
    table = as_pandas(table)
    if isinstance(table, Mapping) or hasattr(table, "columns"):
        columns = {name: table[name] for name in table}
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
    is_other = np.array([names[value] not in known for value in entries], dtype=bool)
    counts = Counter(names[value] for value in compress(entries, is_other))
    words = [f"{group!r} ({n:,} rows)" for group, n in sorted(counts.items())]
    return is_other, joined(words, GROUPS_SHOWN)
