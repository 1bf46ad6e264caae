"""Subgroups of rows: their names in a fit and in print, and the dependence of answers on them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from tailboost.core.array_types import Array, Column, Groups, Ints, Labels, Mask
from tailboost.core.checks import (
    GROUP_OF_MISSING,
    check_length,
    column_name,
    column_words,
    distinct_and_places,
    group_columns,
    labels_and_places,
    n_rows_of,
    positions,
    refuse_missing,
)
from tailboost.rows.columns import text

if TYPE_CHECKING:
    from tailboost.rows.rows import Rows

# A column of groups may have so many different numbers, or more with so many rows on average.
MOST_NUMBERS = 20
FEWEST_OF_A_NUMBER = 10

#: Answer to a deferred row in every output, and name of the column of its costs.
HUMAN_REVIEW = "human review"

# Printed name of a group or class with an empty text as its name.
EMPTY_NAME = "(empty)"


def unit_name(unit: Any) -> str:
    """Return the printed name of a class, a group, a cell (class, group) or a pair (column, group)."""
    if isinstance(unit, tuple):
        return " / ".join(map(unit_name, unit))
    return text(unit) or EMPTY_NAME


def deferral_words(n_deferred: int, n: int) -> str:
    """Return the text on deferred rows in rates, errors and certificates."""
    return (
        f"{n_deferred:,} of the {n:,} rows are deferred. A deferred row is no error and no "
        "miss, and stays among the rows of a class or group; the error among answered rows "
        "and precisions exclude it."
    )


def whole_percents(share: float) -> str:
    """Return a share in percent, rounded."""
    return f"{100 * share:.0f} %"


# -- names and numbers of the groups of a fit -----------------------------------------------------------


@dataclass(frozen=True)
class GroupNames:
    """Names of the groups of a fit: values of one column, or of each column of a table."""

    # Distinct values of each column, sorted or in the order of categories.
    values: tuple[Array, ...]
    # Names of the columns of a table: its groups have names (column, value). None for an array.
    columns: tuple[Any, ...] | None = None
    title: Any = None  # name of a single column, for rates
    # Combinations of values in the rows, if there are several columns.
    combinations: tuple[tuple[Any, ...], ...] = ()

    @classmethod
    def from_groups(cls, groups: Groups, n: int, used: Mask | None = None) -> Self:
        """Return the names of the groups of n rows, or of the used ones among them."""
        columns = coded_columns(groups, "groups", n, used=used)
        values = tuple(names for names, _ in columns.values())
        if list(columns) == [None]:
            return cls(values, title=column_name(groups))
        if len(columns) == 1:
            return cls(values, tuple(columns))
        numbers = np.column_stack([place for _, place in columns.values()])
        occurring = np.unique(numbers, axis=0).T  # one combination in each column
        crossed = [
            names[number].tolist() for names, number in zip(values, occurring, strict=True)
        ]
        return cls(values, tuple(columns), combinations=tuple(zip(*crossed, strict=True)))

    @property
    def titles(self) -> tuple[Any, ...]:
        """Name of each column for rates; None for a column without a name."""
        return self.columns or (self.title,)

    def only(self, column: int) -> GroupNames:
        """Return the names of one column; unchanged if there is no other column."""
        if len(self.values) == 1:
            return self
        title = self.titles[column]
        return GroupNames((self.values[column],), (title,), title)

    @property
    def names(self) -> Array:
        """Names of all groups, shape (m,): values, or (column, value) pairs of a table."""
        if self.columns is None:
            return self.values[0]
        pairs = list[tuple[Any, Any]]()
        for column, values in zip(self.columns, self.values, strict=True):
            pairs += [(column, value) for value in values.tolist()]
        names = np.empty(len(pairs), dtype=object)
        names[:] = pairs  # np.array would make a table of two columns
        return names

    def numbers_of(self, groups: Groups, name: str, n: int, used: Mask | None = None) -> Ints:
        """Return the numbers of the groups of n rows, shape (n,), or (n, c) for a table of c > 1 columns.

        With a mask, only the used rows are numbered; other rows may be in any group.

        Raises
        ------
        ValueError
            If columns differ from the columns in fit, or a value did not occur in fit.
        """
        numbers = []
        columns = self._columns_of_fit(groups, name, n, used)
        for (title, (given, place)), values in zip(columns.items(), self.values, strict=True):
            cure = "give these rows a known group, or leave them out"
            fault = "groups not seen in fit"
            number = positions(given, values, column_words(title, name), fault, cure)
            numbers.append(number[place])
        if len(numbers) == 1:
            return numbers[0]
        return np.column_stack(numbers)

    def _columns_of_fit(
        self, groups: Groups, name: str, n: int, used: Mask | None
    ) -> dict[Any, tuple[Labels, Ints]]:
        """Return the `coded_columns` by the names that they had in fit, in the order of fit.

        Parameters
        ----------
        groups : array-like, table or dict
            Groups of the rows as given.
        name : str
            Name of the argument.
        n : int
            Number of rows.
        used : mask of shape (n,) or None
            The rows with groups to read; None for all.
        """
        columns = coded_columns(named_as(groups, self.titles), name, n, used=used)
        if self.titles == (None,) and len(columns) == 1:
            columns = {None: next(iter(columns.values()))}
        if set(columns) != set(self.titles):
            raise ValueError(
                f"{name} has the columns {list(columns)}, but the groups in fit had {list(self.titles)}: "
                "give these under these names, None for a column without a name"
            )
        return {title: columns[title] for title in self.titles}


def refuse_many_numbers(title: Any, values: Labels, n: int) -> None:
    """Raise ValueError if a column of groups has many numbers with few rows each.

    ``title`` is its name, ``values`` are its distinct values, and n is the number of rows.
    """
    if values.dtype.kind not in "iuf":
        return
    if len(values) <= MOST_NUMBERS or len(values) * FEWEST_OF_A_NUMBER < n:
        return
    name = "the column" if title is None else repr(title)
    raise ValueError(
        f"groups: {name} has {len(values):,} different numbers, and each would be a group of "
        "few rows; make bands first, as by pandas.cut"
    )


def named_as(groups: Groups, titles: Sequence[Any]) -> Any:
    """Return groups; a column without a name gets the name of the fit's only column of groups.

    Parameters
    ----------
    groups : array-like, table or None
        Groups of later rows.
    titles : sequence
        The names of the columns of groups of the fit, None for a column without a name.
    """
    if groups is None or len(titles) != 1 or titles[0] is None:
        return groups
    columns = group_columns(groups, "groups")
    if list(columns) == [None]:
        title = column_name(groups)
        return {titles[0] if title is None else title: columns[None]}
    return groups


def rows_among(groups: Groups, rows: Rows) -> Mask:
    """Return a mask of the selection data among the rows passed to fit.

    ``groups`` must have an entry for each of these rows.

    Raises
    ------
    ValueError
        If ``groups`` has another number of rows than fit, or this number is unknown.
    """
    n = n_rows_of(groups)
    if n != rows.n_given:
        raise ValueError(
            f"groups has {n} entries, but the selection data are {rows.words}, from a table "
            f"of {rows.n_given} rows: give one group for each of these rows"
        )
    return np.isin(np.arange(n), rows.places)


def checked_columns(groups: Groups, argument: str, n: int, of: str = "X") -> dict[Any, Labels]:
    """Return the columns of groups of the n rows of ``of``, checked; none without groups.

    A single column without a name has the name None.
    """
    columns = coded_columns(groups, argument, n, of)
    return {name: values[place] for name, (values, place) in columns.items()}


def coded_columns(
    groups: Groups,
    argument: str,
    n: int,
    of: str = "X",
    *,
    used: Mask | None = None,
) -> dict[Any, tuple[Labels, Ints]]:
    """Return the different groups of each column, and the place of each row's group among them.

    Groups are sorted, or in the order of pandas' categories. A column without a name has the name None.

    Parameters
    ----------
    groups : array-like, table, dict or None
        Groups of the rows as given.
    argument : str
        Name of the argument, for messages.
    n : int
        Number of rows.
    of : str
        Name of the table with these rows, for messages.
    used : mask of shape (n,), optional
        The rows with groups to return; all by default.
    """
    columns: dict[Any, tuple[Labels, Ints]] = {}
    if groups is None:
        return columns
    for name, column in group_columns(groups, argument).items():
        words = column_words(name, argument)
        check_length(column, words, n, of)
        refuse_missing(column, words, GROUP_OF_MISSING)
        values, place = labels_and_places(column, words)
        if used is not None:
            occurring, place = distinct_and_places(place[used])
            values = values[occurring]
        dtype: Any = getattr(column, "dtype", None)
        if getattr(dtype, "ordered", False):
            known = dtype.categories.tolist()
            order = np.argsort([known.index(value) for value in values.tolist()])
            values = values[order]
            place = np.argsort(order)[place]
        columns[name] = values, place
    return columns


def plain_list(values: Column) -> list[Any]:
    """Return an array or sequence as a list, None as an empty one."""
    if values is None:
        return []
    if hasattr(values, "tolist"):
        values = values.tolist()
    return list(values)


def by_column(names: Sequence[Any]) -> dict[Any, list[Any]]:
    """Return the groups of each column: a group of a table is (column, value), others have column None."""
    values: dict[Any, list[Any]] = {}
    for name in names:
        column = None
        if isinstance(name, tuple):
            column, name = name
        values.setdefault(column, []).append(name)
    return values
