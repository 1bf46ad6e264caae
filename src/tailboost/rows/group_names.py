"""Names of the groups of a fit, and the numbers of the groups of rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import column_or_1d

from tailboost.core.array_types import Column, Groups, Ints, Labels, Mask
from tailboost.core.checks import (
    GROUP_OF_MISSING,
    category_orders,
    check_length,
    column_name,
    distinct,
    group_columns,
    in_category_order,
    label_column,
    n_rows_of,
    positions,
    refuse_missing,
)
from tailboost.core.spelling import warn_alike
from tailboost.rows.rows import Rows


@dataclass(frozen=True)
class GroupNames:
    """Names of the groups of a fit: values of one column, or of each column of a table."""

    # Distinct values of each column, sorted or in the order of categories.
    values: tuple[NDArray[Any], ...]
    # Names of the columns of a table, whose groups have names (column, value); None for an array.
    columns: tuple[Any, ...] | None = None
    title: Any = None  # name of a single column, for rates
    # Combinations of values in the rows, if there are several columns.
    combinations: tuple[tuple[Any, ...], ...] = ()

    @classmethod
    def from_groups(cls, groups: Groups, name: str, n: int, used: Mask) -> Self:
        """Return the names of the groups of the used rows among n; ``name`` is for messages."""
        columns = checked_columns(groups, name, n, read=_as_given)
        orders = category_orders(groups)
        try:
            values = tuple(
                in_category_order(distinct(column[used]), orders.get(title))
                for title, column in columns.items()
            )
        except TypeError as error:
            raise ValueError(
                f"{name}: values of types that cannot be ordered ({error}); convert them to "
                "text"
            ) from None
        for values_of_column in values:
            warn_alike(values_of_column, "groups")
        if list(columns) == [None]:
            return cls(values, title=column_name(groups))
        if len(columns) == 1:
            return cls(values, tuple(columns))
        pairs = zip(columns.values(), values, strict=True)
        numbers = [positions(column[used], names, name) for column, names in pairs]
        combinations = np.unique(np.column_stack(numbers), axis=0)  # one in each row
        crossed = []  # names of the combinations, column by column
        for names, numbers_in_column in zip(values, combinations.T, strict=True):
            crossed.append(names[numbers_in_column].tolist())
        return cls(values, tuple(columns), combinations=tuple(zip(*crossed, strict=True)))

    @property
    def titles(self) -> tuple[Any, ...]:
        """Name of each column for rates; None for a column without a name."""
        return self.columns or (self.title,)

    def only(self, column: int) -> GroupNames:
        """Return the names of one column."""
        if len(self.values) == 1:
            return self
        title = self.titles[column]
        return GroupNames((self.values[column],), (title,), title)

    @property
    def names(self) -> NDArray[Any]:
        """Names of all groups, shape (m,): values, or (column, value) pairs of a table."""
        if self.columns is None:
            return self.values[0]
        pairs = list[tuple[Any, Any]]()
        for column, values in zip(self.columns, self.values, strict=True):
            pairs += [(column, value) for value in values.tolist()]
        names = np.empty(len(pairs), dtype=object)
        names[:] = pairs  # np.array would make a table of two columns
        return names

    @property
    def column(self) -> Ints:
        """Number of the column of each group, shape (m,)."""
        return np.repeat(np.arange(len(self.values)), [len(values) for values in self.values])

    def by_column(self, groups: Ints) -> Ints:
        """Return the position of each row's value among those of each column, shape (n, c).

        ``groups`` are the numbers of `numbers_of`, which count the groups of all columns in one sequence.
        """
        first_number = np.cumsum([0, *map(len, self.values)])[:-1]  # of each column
        return groups.reshape(len(groups), -1) - first_number

    def numbers_of(self, groups: Groups, name: str, n: int, used: Mask | None = None) -> Ints:
        """Return the numbers of the groups of n rows, shape (n,), or (n, c) for a table of c > 1 columns.

        With a mask, only the used rows are numbered; other rows may be in any group.

        Raises
        ------
        ValueError
            If columns differ from those in fit, or a value did not occur in fit.
        """
        columns = checked_columns(groups, name, n, read=_as_given)
        if list(columns) == [None]:
            columns = {column_name(groups): columns[None]}
        fitted = self.columns or (None,)
        if len(columns) == len(fitted) == 1:
            [(title, column)] = columns.items()
            # A single column may be an array, which has no name, in fit or here.
            if None in (title, *self.titles) or title in self.titles:
                columns = {fitted[0]: column}
        if set(columns) != set(fitted):
            cure = "give one column"
            if self.columns is not None:
                cure = "give these columns under these names"
            raise ValueError(
                f"{name} has {_describe_columns(tuple(columns))}, but the groups in fit had "
                f"{_describe_columns(self.titles)}: {cure}"
            )
        numbers = []
        first_number = 0  # of the groups of a column
        for title, values in zip(fitted, self.values, strict=True):
            words = name
            if title is not None:
                words = f"{name} column {title!r}"
            column = columns[title]
            if used is not None:
                column = column[used]
            cure = "give these rows a known group, or leave them out"
            place = positions(column, values, words, "groups not seen in fit", cure)
            numbers.append(first_number + place)
            first_number += len(values)
        if len(numbers) == 1:
            return numbers[0]
        return np.column_stack(numbers)


def named_as(groups: Groups, titles: Sequence[Any]) -> Any:
    """Return groups with the name of the fit's only column of groups, if they are a column without a name.

    Parameters
    ----------
    groups : array-like, table or None
        Groups of other rows than those of the fit.
    titles : sequence
        The names of the columns of groups of the fit, None for a column without a name.
    """
    if groups is None or len(titles) != 1 or titles[0] is None:
        return groups
    if column_name(groups) is not None:
        return groups
    columns = group_columns(groups, "groups")
    if list(columns) == [None]:
        return {titles[0]: columns[None]}
    return groups


def rows_among(groups: Groups, rows: Rows) -> Mask:
    """Return the mask of the selection data among the rows that were passed to fit.

    ``groups`` must have an entry for each of these rows.

    Raises
    ------
    ValueError
        If the number of rows is another one, or unknown.
    """
    n = n_rows_of(groups)
    if n != rows.n_given:
        n_rows = rows.n_given or len(rows)
        raise ValueError(
            f"groups has {n} entries, but the selection data are {rows.words}, from a table "
            f"of {n_rows:,} rows: give one group for each of these rows"
        )
    if rows.used is None:
        return np.ones(n, dtype=np.bool_)
    return np.isin(np.arange(n), rows.used)


def _describe_columns(columns: tuple[Any, ...]) -> str:
    if columns == (None,):
        return "no columns (an array)"
    return f"the columns {list(columns)}"


def checked_columns(
    groups: Groups,
    argument: str,
    n: int,
    of: str = "X",
    read: Callable[..., Labels] = label_column,
) -> dict[Any, Labels]:
    """Return the columns of groups of the n rows of ``of``, checked; none without groups.

    A single column without a name has the name None. ``read(values, words)`` returns a column as an array.
    """
    columns: dict[Any, Labels] = {}
    if groups is None:
        return columns
    for name, values in group_columns(groups, argument).items():
        words = argument
        if name is not None:
            words = f"{argument} column {name!r}"
        refuse_missing(values, words, GROUP_OF_MISSING)
        columns[name] = read(values, words)
        check_length(columns[name], words, n, of)
    return columns


def _as_given(values: Column, words: str) -> Labels:
    """Return a column of groups of any type."""
    column: Labels = column_or_1d(values)
    return column


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
