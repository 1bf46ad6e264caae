"""Subgroups of rows: their names in a fit and in print, and the dependence of answers on them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import compress, product
from typing import Any, Self

import numpy as np

from tailboost.core.array_types import Array, Column, Groups, Ints, Labels, Mask, Table
from tailboost.core.checks import (
    GROUP_OF_MISSING,
    MISSING_GROUP,
    as_pandas,
    check_length,
    coded,
    group_columns,
    is_missing,
    plain,
    positions,
    with_interval_names,
)
from tailboost.core.exceptions import UncertifiedGroupsWarning, warn_user
from tailboost.core.spelling import joined, listed
from tailboost.rows.columns import text

# A column of groups may have so many different numbers, or more with so many rows on average.
MOST_NUMBERS = 20
FEWEST_OF_A_NUMBER = 10

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


# -- names and numbers of the groups of a fit -----------------------------------------------------------


@dataclass(frozen=True)
class GroupNames:
    """Names of groups: the values of each column."""

    # Distinct values of each column, sorted or in the order of categories.
    values: tuple[Array, ...]
    titles: tuple[Any, ...]  # name of each column; None for a column without a name

    @classmethod
    def of(
        cls, columns: Mapping[Any, Column], argument: str, n: int, of: str = "X"
    ) -> tuple[Self, Ints]:
        """Return the names of the groups of n rows, and the number of each row's by column, shape (n, c).

        Groups are sorted, or in the order of pandas' categories. The ``columns`` are those of
        `tailboost.core.checks.group_columns`. Messages call the groups ``argument`` and their table ``of``.
        """
        titles = []
        values = []
        numbers = []
        for title, column in columns.items():
            words = argument
            if title is not None:
                words += f" column {title!r}"
            check_length(column, words, n, of)
            names, place = coded(column, words, GROUP_OF_MISSING)
            dtype: Any = getattr(column, "dtype", None)
            if getattr(dtype, "ordered", False):
                order = dtype.categories.get_indexer(names).argsort()
                names = names[order]
                place = order.argsort()[place]
            titles.append(title)
            values.append(names)
            numbers.append(place)
        # By column, as rates count the rows of one after the other.
        return cls(tuple(values), tuple(titles)), np.reshape(numbers, (-1, n)).astype(np.intp).T

    @property
    def names(self) -> Array:
        """Names of all groups, shape (m,): values, or (column, value) pairs of named columns."""
        if self.titles == (None,):
            return self.values[0]
        pairs = list[tuple[Any, Any]]()
        for column, values in zip(self.titles, self.values, strict=True):
            pairs += product([column], values.tolist())
        names = np.empty(len(pairs), dtype=object)
        names[:] = pairs  # np.array would make a table of two columns
        return names

    def named_as(self, titles: Sequence[Any]) -> Self:
        """Return the names; a column without a name gets the name of the fit's only column of groups.

        ``titles`` are the names of the columns of the fit, None for a column without a name.
        """
        if self.titles != (None,) or len(titles) != 1:
            return self
        return replace(self, titles=tuple(titles))

    def numbers_in(self, known: GroupNames, numbers: Ints, argument: str) -> Ints:
        """Return the numbers of rows, shape (n, c), among the known names of a fit.

        Raises
        ------
        ValueError
            If columns differ from the columns in fit, or a value did not occur in fit.
        """
        titles = self.titles
        if len(titles) == len(known.titles) == 1 and None in titles + known.titles:
            titles = known.titles  # a single column needs no name
        if set(titles) != set(known.titles):
            raise ValueError(
                f"{argument} has the columns {list(titles)}, but the groups in fit had "
                f"{list(known.titles)}: give these under these names, None for a column "
                "without a name"
            )
        found = []
        for title, values in zip(known.titles, known.values, strict=True):
            j = titles.index(title)
            words = argument
            if title is not None:
                words += f" column {title!r}"
            places = positions(self.values[j], values, words, "groups not seen in fit")
            found.append(places[numbers[:, j]])
        return np.column_stack(found)


def refuse_many_numbers(title: Any, values: Labels, n: int) -> None:
    """Raise ValueError if a column of groups has many numbers with few rows each.

    ``title`` is its name, ``values`` are its distinct values, and n is the number of rows.
    """
    if values.dtype.kind not in "iuf":
        return
    if len(values) <= MOST_NUMBERS or len(values) * FEWEST_OF_A_NUMBER < n:
        return
    name = repr(title)
    if title is None:
        name = "the column"
    raise ValueError(
        f"groups: {name} has {len(values):,} different numbers, and each would be a group of "
        "few rows; make bands first, as by pandas.cut"
    )


def by_column(names: Column) -> dict[Any, list[Any]]:
    """Return the groups of each column: a group of a table is (column, value), others have column None."""
    values: dict[Any, list[Any]] = {}
    for name in names:
        column, value = name if isinstance(name, tuple) else (None, plain(name))
        values.setdefault(column, []).append(value)
    return values


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
