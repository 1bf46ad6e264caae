"""Groups of rows: their columns as given, their names and numbers, and groups that a rule does not know."""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import product
from numbers import Real
from operator import itemgetter
from typing import Any, Self

import numpy as np

from tailboost.core import (
    Array,
    Column,
    Groups,
    Ints,
    Labels,
    Mask,
    Name,
    Names,
    Table,
    UncertifiedGroupsWarning,
    as_array,
    as_known,
    as_pandas,
    check_indexes,
    check_length,
    coded,
    columns_of,
    did_you_mean,
    distinct_and_positions,
    frozen_object,
    how_many,
    joined,
    listed,
    positions,
    read_column,
    text,
    warn_user,
)

#: Columns of groups by name; a single column without a name has the name None.
Columns = Mapping[Any, Column]
MISSING_GROUP = "missing"  # name of the group of rows without a group
# The most groups in a warning.
GROUPS_SHOWN = 5


# -- columns as given --------------------------------------------------------------------------------------


def group_columns(groups: Groups, argument: str, X: Table = None) -> Columns:
    """Return the columns of a groups argument by name; a single column without a name has the name None.

    Parameters
    ----------
    groups : column, table, str, list of str or None
        A table's columns are sorted by name, so their order has no effect. Those of an array are numbered.
        One name, or a list of names, stands for columns of ``X``. A Series named "class", "group" or "cell"
        is a column without a name.
    argument : str
        What messages call the groups.
    X : table, optional
        The rows of the groups.

    Raises
    ------
    ValueError
        If X has another index or lacks a named column, or if the columns of a table have equal names, or one
        with another meaning in ``by=``: "class", "cell", and "group" beside others.
    """
    check_indexes(X=X, **{argument: groups})
    if groups is None:
        return {}
    groups = as_pandas(_named_columns(groups, argument, X))
    if isinstance(groups, Mapping) or hasattr(groups, "columns"):  # a table
        titles = list(groups)
        if len(set(titles)) < len(titles):
            raise ValueError(f"{argument} must have columns with different names, got {titles}")
        for title in titles:
            if title in ("class", "cell") or (title == "group" and len(titles) > 1):
                raise ValueError(
                    f"{argument}: a column is named {title!r}, which has another meaning "
                    "in by=; give the column another name"
                )
        return {title: groups[title] for title in sorted(titles, key=str)}
    title = getattr(groups, "name", None)
    if not isinstance(title, (str, int)) or title in ("class", "group", "cell"):
        title = None
    groups = as_array(groups)
    if groups.ndim < 2:
        return {title: groups}
    return with_titles(dict(enumerate(groups.T)), [None])


def _named_columns(groups: Any, argument: str, X: Table) -> Any:
    """Return the columns of X that a groups argument names, by name; other groups as they are."""
    known = columns_of(X)
    if isinstance(groups, str):
        if groups not in known:
            raise ValueError(
                f"{argument}={groups!r}: {did_you_mean(groups, known)}X has "
                f"{listed(known) or 'no columns with names'}; give one, or the column itself"
            )
        groups = [groups]
    # A list of different names of columns names these, also beside a single row. One of groups repeats some.
    if isinstance(groups, (list, tuple)):
        named = {title for title in groups if isinstance(title, str) and title in known}
        if len(named) == len(groups):
            return {title: X[title] for title in groups}
    return groups


def with_titles(columns: Columns, titles: Collection[Name]) -> Columns:
    """Return columns by title; a single one has the single title if one of both names is None."""
    if len(columns) == len(titles) == 1 and None in (*columns, *titles):
        return dict(zip(titles, columns.values(), strict=True))
    return columns


def reads_groups(by_group: bool | str, title: Name) -> bool:
    """Return whether a rule reads a column of groups: ``by_group`` is its title, or True for every column.

    Only text is compared with the title: columns of an array are called 0 and 1, which equal False and True.
    """
    if isinstance(by_group, str):
        return by_group == title
    return by_group


def column_words(argument: str, title: Name) -> str:
    """Return what messages call a column of groups."""
    return argument if title is None else f"{argument} column {title!r}"


# -- names and numbers of the groups of a fit -----------------------------------------------------------


@frozen_object
class GroupNames:
    """Names of groups: the title and the values of each column.

    Attributes
    ----------
    values : tuple of ndarray
        Distinct values of each column, sorted or in the order of categories.
    titles : tuple
        Name of each column; None for a column without a name.
    """

    values: tuple[Array, ...]
    titles: Names

    def column_read(self, by_group: bool | str) -> int | None:
        """Return the number of the column that a rule reads; None for a group-blind rule."""
        if not (by_group and self.titles):
            return None
        columns = [j for j, title in enumerate(self.titles) if reads_groups(by_group, title)]
        if len(columns) != 1:
            raise ValueError(
                f"{by_group=} names no single one of the columns {list(self.titles)}: "
                "give a name, of columns with names in a dict or a data frame"
            )
        return columns[0]

    @classmethod
    def of(cls, columns: Columns, argument: str, n: int, table: str) -> tuple[Self, Ints]:
        """Return the names of the groups of n rows, and the number of each row's by column, shape (n, c).

        The ``columns`` are those of `group_columns`. Messages call the groups ``argument`` and the rows
        ``table``.
        """
        values = []
        numbers = np.empty((len(columns), n), np.intp)
        for j, (title, column) in enumerate(columns.items()):
            words = column_words(argument, title)
            check_length(column, words, n, table)
            names, of_rows = coded(
                column, words, f"make them a group, and write {MISSING_GROUP!r} there"
            )
            dtype: Any = getattr(column, "dtype", None)
            if getattr(dtype, "ordered", False):  # in the order of pandas' categories
                categories = dtype.categories
                if categories.inferred_type == "interval":  # whose names are text
                    categories = categories.astype(str)
                order = categories.get_indexer(names).argsort()
                names = names[order]
                of_rows = order.argsort()[of_rows]  # the place of each name in this order
            values.append(names)
            numbers[j] = of_rows
        return cls(tuple(values), tuple(columns)), numbers.T

    @property
    def names(self) -> Array:
        """Names of all groups, shape (m,): values, or (column, value) pairs of named columns."""
        if self.titles == (None,):
            return self.values[0]
        pairs = [
            (title, value)
            for j, title in enumerate(self.titles)
            for value in self.values[j].tolist()
        ]
        return np.fromiter(pairs, object)  # np.array would make a table of two columns

    def numbers_in(self, known: Self, numbers: Ints, argument: str) -> Ints:
        """Return the numbers of rows, shape (n, c), among the known names of a fit.

        Raises
        ------
        ValueError
            If columns differ from the columns in fit, or a value did not occur in fit.
        """
        titles = [*with_titles(dict.fromkeys(self.titles), known.titles)]
        if set(titles) != set(known.titles):
            raise ValueError(
                f"{argument} has the columns {titles}, but the fit had {list(known.titles)}: "
                "give these under these names, None for a column without a name"
            )
        among_known = np.empty_like(numbers)
        for j, (title, values) in enumerate(zip(known.titles, known.values, strict=True)):
            own = titles.index(title)
            names = as_known(self.values[own].tolist(), values.tolist())
            position_of_name = positions(
                names, values, column_words(argument, title), "groups not seen in fit"
            )
            among_known[:, j] = position_of_name[numbers[:, own]]
        return among_known

    def extended_by(self, of_fit: Columns, numbers: Ints) -> tuple[Self, Ints]:
        """Return names with those of a fit, and the numbers of rows, shape (n, c), among these.

        ``of_fit`` has the groups of the fit by column. They are added to a column of which a row has one of
        them; another column has the same name by chance.
        """
        values = []
        among_both = np.empty_like(numbers)
        for j, title in enumerate(self.titles):
            known = dict.fromkeys(of_fit.get(title, ()))
            names = as_known(self.values[j].tolist(), known)  # "1" and "1.0" may be one of them
            groups = dict.fromkeys(names)
            if groups.keys() & known:
                groups |= known
            values.append(np.fromiter(groups, object))
            among_both[:, j] = positions(names, values[j], "groups")[numbers[:, j]]
        return replace(self, values=tuple(values)), among_both

    def combinations_of(
        self, of_fit: Columns, combinations: Iterable[Names]
    ) -> tuple[Names, ...]:
        """Return the combinations of groups of a fit, which exist also without rows, in the order of columns.

        Those of a single column are its values. There are none unless each column has all groups that it had
        in the fit, as after `extended_by`.
        """
        if not self.titles:
            return ()
        for title, values in zip(self.titles, self.values, strict=True):
            if title not in of_fit or not {*of_fit[title]} <= {*values}:
                return ()
        if len(self.titles) == 1:
            return tuple(product(self.values[0]))
        places = map([*of_fit].index, self.titles)
        return tuple(map(itemgetter(*places), combinations))


#: The names of the groups of rows without any.
NO_GROUPS = GroupNames((), ())


def crossed(columns: Iterable[Ints], n: int) -> Ints:
    """Return the number of each of n rows' combination of numbers, in their order by column, shape (n,)."""
    combination = np.zeros(n, np.intp)
    for column in columns:  # the number of the row's first columns and of this one
        _, combination = distinct_and_positions(
            combination * (column.max(initial=0) + 1) + column
        )
    return combination


# -- groups of a rule -------------------------------------------------------------------------------------


def known_groups(
    column: Column, known: Collection[Name], words: str = "groups"
) -> tuple[Labels, Ints]:
    """Return the name and the number of each row's group, those of the known group that is `written` alike.

    Another group keeps its name, and has the number −1. A row without a group has the group "missing".
    """
    column = as_array(column)
    if not column.ndim:  # of a single row
        column = column[None]
    entries, position_of_row, missing = read_column(column, words)
    names = np.fromiter(as_known(entries.tolist(), known), object)
    names[missing] = MISSING_GROUP
    position_of = {group: j for j, group in enumerate(known)}
    numbers = np.array([position_of.get(name, -1) for name in names], np.intp)
    return names[position_of_row], numbers[position_of_row]


def group_numbers(
    columns: Columns, rule_groups: Sequence[Name] | None, n: int, title: Any, *, others: bool
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
    title : str, int or None
        The name of the column that the rule reads, among several.
    others : bool
        Whether rows of other groups, and rows without a group, have the number −1; otherwise an error.
    """
    if rule_groups is None:
        if columns:
            raise ValueError("groups are not used by this rule: leave them out")
        return np.zeros(n, np.intp)
    if not columns:
        raise ValueError("groups are needed: this rule reads them (by_group). Give groups=…")
    columns = with_titles(columns, [title])
    if title not in columns:
        raise ValueError(
            f"groups has the columns {list(columns)}: the rule reads one column, {title!r}"
        )
    column = columns[title]
    words = column_words("groups", title)
    check_length(column, words, n, "rows")
    names, numbers = known_groups(column, rule_groups, words)
    is_other = numbers < 0
    if is_other.any() and not others:
        fault = f"groups not seen in fit, in {is_other.sum():,} of {n:,} rows"
        positions(names, rule_groups, words, fault)  # raises, and names them
    if n > 1 and is_other.all():
        warn_user(
            f"{words}: no row has a group of the rule, {listed(rule_groups)}; check the column",
            UncertifiedGroupsWarning,
        )
    return numbers


# -- names of groups, and rows in groups that a certificate does not name ----------------------------------


def unit_name(unit: Any) -> str:
    """Return the printed name of a class, a group, a cell (class, group) or a pair (column, group)."""
    if isinstance(unit, tuple):
        return " / ".join(map(unit_name, unit))
    return text(unit) or "(empty)"


def warn_of_other_groups(named: Columns, table: Table, groups: Groups = None) -> None:
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
    columns = {name: table[name] for name in columns_of(table)}
    stated = with_titles(group_columns(groups, "groups", table), named)
    columns |= stated
    for name, known in named.items():
        if name not in columns:
            continue
        is_other, words = other_groups(columns[name], known)
        # Numbers of the table may be those that groups of text were made from, as bands of age.
        may_be_bands = (
            name not in stated
            and not isinstance(known[0], Real)
            and np.asarray(columns[name]).dtype.kind not in "OU"
        )
        if is_other.any() and not (may_be_bands and is_other.all()):
            column = "group" if name is None else name
            warn_user(
                f"{column} {words}: not in the certificate, whose limits by {column} are "
                f"certified for {listed(known)} alone",
                UncertifiedGroupsWarning,
            )


def other_groups(column: Column, known: Sequence[Name]) -> tuple[Mask, str]:
    """Return which rows are in no ``known`` group, and these groups with their rows in words."""
    groups, numbers = known_groups(column, known)
    is_other = numbers < 0
    words = [
        f"{group!r} ({how_many(n, 'row')})"
        for group, n in sorted(Counter(map(unit_name, groups[is_other])).items())
    ]
    return is_other, joined(words, GROUPS_SHOWN)
