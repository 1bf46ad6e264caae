"""Rows as a caller gives them, read once at the door of a call."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from tailboost.core.array_types import Column, Groups, Labels, Table
from tailboost.core.checks import (
    check_indexes,
    groups_in,
    label_column,
    n_rows_of,
)
from tailboost.rows.subgroups import checked_columns

if TYPE_CHECKING:
    from tailboost.rows.seen import EqualRows

BY_ROW = ("X", "y", "groups", "sample_weight", "costs", "clusters")


@dataclass(frozen=True, eq=False)
class Given:
    """Rows as a caller gives them; fields are the parameters of `tailboost.certify` and of ``fit``.

    Names of columns of groups become columns. ValueError is raised if pandas objects about these rows have
    different indexes.
    """

    X: Table = None
    y: Column = None
    groups: Groups = None
    sample_weight: Column = None
    costs: Table = None
    clusters: Column = None
    equal_rows: EqualRows | None = None
    training_rows: Table = None
    cost_range: Any = None
    deferred: Column = None  # with an array of answers
    suffix: str = ""  # of the names of the arguments

    def __post_init__(self) -> None:
        if self.groups is not None:
            groups = groups_in(self.X, self.groups, f"groups{self.suffix}")
            object.__setattr__(self, "groups", groups)  # the class is frozen
        check_indexes(**{f"{name}{self.suffix}": getattr(self, name) for name in BY_ROW})

    @cached_property
    def labels(self) -> Labels | None:
        """The labels, checked; None without them."""
        if self.y is None:
            return None
        return label_column(self.y, "y", warn=True)

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        if self.labels is None:
            return n_rows_of(self.X)
        return len(self.labels)

    @cached_property
    def columns(self) -> dict[Any, Labels]:
        """The columns of groups, checked."""
        if self.groups is None:
            return {}
        return checked_columns(self.groups, "groups", self.n_rows)
