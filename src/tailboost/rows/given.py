"""Rows as a caller gives them, before they are checked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from functools import cached_property
from numbers import Real
from typing import Any

from tailboost.core.array_types import Column, Groups, Labels, Table
from tailboost.core.checks import (
    check_indexes,
    distinct_labels,
    group_columns,
    groups_in,
    label_column,
    n_rows_of,
    refuse_swapped,
    refuse_texts,
)
from tailboost.rows.fingerprints import EqualRows
from tailboost.rows.group_names import by_column, checked_columns, plain_list
from tailboost.rows.rules import NO_DETAILS, refuse

BY_ROW = ("X", "y", "groups", "sample_weight", "costs", "clusters")


@dataclass(frozen=True, eq=False)
class Given:
    """Rows as a caller gives them; fields are the parameters of `tailboost.certify` and of ``fit``."""

    X: Table = None
    y: Column = None
    groups: Groups = None
    sample_weight: Column = None
    costs: Table = None
    clusters: Column = None
    X_unlabeled: Table = None
    groups_unlabeled: Groups = None
    subgroups: Any = None
    equal_rows: EqualRows = "copies"
    training_rows: Table = None
    cost_range: Any = None
    # With an array of answers also those of rows without labels, after the others.
    deferred: Column = None
    # With an array of answers: those to rows without labels.
    answers_unlabeled: Labels | None = None

    def __post_init__(self) -> None:
        """Read the names of columns of groups; refuse texts in the place of tables."""
        refuse_swapped(self.X, self.y)
        names = (("X", "groups"), ("X_unlabeled", "groups_unlabeled"))
        for table_name, groups_name in names:
            table = getattr(self, table_name)
            groups = getattr(self, groups_name)
            refuse_texts(table, table_name)
            if groups is not None:
                groups = groups_in(table, groups, groups_name)
                object.__setattr__(self, groups_name, groups)  # the class is frozen

    def arguments(self, suffix: str = "") -> dict[str, Any]:
        """Return the data by row, by the names of the arguments."""
        return {f"{name}{suffix}": getattr(self, name) for name in BY_ROW}

    def check_indexes(self, suffix: str = "") -> None:
        """Raise if pandas objects about these rows have different indexes."""
        check_indexes(**self.arguments(suffix))

    def refuse(self, *facts: str, details: Mapping[str, Any] = NO_DETAILS) -> None:
        """Raise ValueError if arguments exclude each other or a fact of the call, see `ARGUMENT_RULES`.

        ``details`` has the values for names in braces in the messages.
        """
        arguments = {field.name: getattr(self, field.name) for field in fields(self)}
        refuse(*facts, details=details, **arguments)

    def refuse_in_reweight(self) -> None:
        """Raise ValueError if arguments of ``reweight`` exclude each other, or X is no table of rows."""
        facts = ["reweight"]
        if isinstance(self.X, Real):
            facts.append("X is a number")
        if isinstance(self.X, str):
            facts.append("X is a text")
        self.refuse(*facts, details={"X": self.X})

    @property
    def any_given(self) -> bool:
        """Whether any of the first four arguments was given."""
        first = (self.X, self.y, self.groups, self.sample_weight)
        return any(argument is not None for argument in first)

    @property
    def by_row(self) -> dict[str, Any]:
        """Further data of each row with a label: groups, costs, clusters, deferral."""
        names = ("groups", "costs", "clusters", "deferred")
        return {name: getattr(self, name) for name in names}

    @property
    def has_labels(self) -> bool:
        """Whether there are rows with labels."""
        return self.y is not None or not self.has_unlabeled

    @property
    def has_unlabeled(self) -> bool:
        """Whether there are rows without labels."""
        return self.X_unlabeled is not None or self.answers_unlabeled is not None

    @cached_property
    def labels(self) -> Labels | None:
        """The labels, checked; None without rows with labels."""
        if self.has_labels:
            return label_column(self.y, "y")
        return None

    @property
    def n_labels(self) -> int:
        """Number of rows with labels."""
        if self.labels is None:
            return 0
        return len(self.labels)

    @cached_property
    def columns(self) -> dict[Any, Labels]:
        """The columns of groups of the rows with labels, checked."""
        return checked_columns(self.groups, "groups", self.n_labels)

    @cached_property
    def columns_unlabeled(self) -> dict[Any, Labels]:
        """The columns of groups of the rows without labels, checked."""
        rows = self.X_unlabeled
        if self.answers_unlabeled is not None:
            rows = self.answers_unlabeled
        return checked_columns(
            self.groups_unlabeled, "groups_unlabeled", n_rows_of(rows), "X_unlabeled"
        )

    @property
    def parts(self) -> list[tuple[str, Any, Any]]:
        """The rows with labels if there are any, then those without: name of X, X and groups of each part."""
        parts = []
        if self.has_labels:
            parts.append(("X", self.X, self.groups))
        if self.has_unlabeled:
            parts.append(("X_unlabeled", self.X_unlabeled, self.groups_unlabeled))
        return parts

    @property
    def any_columns(self) -> dict[Any, Labels]:
        """The columns of groups of the rows with labels; without such rows those of the others."""
        if self.has_labels:
            return self.columns
        return self.columns_unlabeled

    @property
    def any_table(self) -> Table:
        """The rows with labels; without such rows the others."""
        if self.has_labels:
            return self.X
        return self.X_unlabeled

    @cached_property
    def listed(self) -> tuple[Any, list[Any] | None]:
        """The listed classes and groups of the population, see `listed_subgroups`."""
        return listed_subgroups(self.subgroups, self.any_groups)

    @property
    def any_groups(self) -> Any:
        """The groups of the rows with labels; without such rows those of the others."""
        if self.has_labels:
            return self.groups
        return self.groups_unlabeled

    def with_and_without_labels(self) -> Given:
        """Return fresh rows; if ``y`` is absent, the rows ``X`` have no labels and move to ``X_unlabeled``.

        Raises
        ------
        ValueError
            If the arguments exclude each other.
        """
        self.refuse("fresh")
        if self.y is None and self.X is not None:
            return replace(
                self, X=None, groups=None, X_unlabeled=self.X, groups_unlabeled=self.groups
            )
        return self


def listed_subgroups(subgroups: Any, groups: Groups) -> tuple[Any, list[Any] | None]:
    """Return the listed classes and groups of the population, each None without a list.

    Raises
    ------
    ValueError
        If ``subgroups`` is no list of groups and no dict of lists of classes and groups, or if groups
        are listed and not given.
    """
    if subgroups is None:
        return None, None
    lists = {"group": subgroups}
    if isinstance(subgroups, Mapping):
        lists = dict(subgroups)
    no_list = (str, bytes, Mapping)  # these have a length, too
    are_lists = all(
        hasattr(names, "__len__") and len(names) and not isinstance(names, no_list)
        for names in lists.values()
    )
    if not lists or not set(lists) <= {"class", "group"} or not are_lists:
        raise ValueError(
            "subgroups must be a list of all groups, or a dict of such lists with the keys "
            f"'class' and 'group', got {subgroups!r}"
        )
    if "group" in lists and groups is None:
        raise ValueError(f"subgroups={subgroups!r} lists groups, but groups is not given")
    classes = None
    if "class" in lists:
        classes = distinct_labels(lists["class"], "subgroups")
    if "group" not in lists:
        return classes, None
    group_list = []
    for name in plain_list(lists["group"]):
        if isinstance(name, list):  # a pair from JSON
            name = tuple(name)
        group_list.append(name)
    columns = list(group_columns(groups, "groups"))
    if not set(by_column(group_list)) <= set(columns):
        kind = "values of groups"
        if columns != [None]:
            kind = "(column, value) pairs"
        raise ValueError(
            f"subgroups must name groups as bounds do, as {kind}, got {subgroups!r}"
        )
    return classes, group_list
