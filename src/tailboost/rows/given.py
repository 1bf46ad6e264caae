"""Rows as a caller gives them, before they are checked, and the arguments that exclude each other."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from functools import cached_property
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from tailboost.core.array_types import Column, Groups, Labels, Table
from tailboost.core.checks import (
    check_indexes,
    columns_by_name,
    groups_in,
    label_column,
    n_rows_of,
)
from tailboost.rows.subgroups import checked_columns

if TYPE_CHECKING:
    from tailboost.rows.seen import EqualRows

NO_DETAILS: Mapping[str, Any] = MappingProxyType({})
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
    equal_rows: EqualRows | None = None
    training_rows: Table = None
    cost_range: Any = None
    deferred: Column = None  # with an array of answers
    batch: Given | None = None  # all rows of a call, if these are its part that certifies

    def __post_init__(self) -> None:
        """Read the names of columns of groups."""
        if self.groups is not None:
            groups = groups_in(self.X, self.groups, "groups")
            object.__setattr__(self, "groups", groups)  # the class is frozen

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
        """Raise ValueError if arguments of ``reweight`` exclude each other."""
        self.refuse("reweight")

    @property
    def any_given(self) -> bool:
        """Whether any of the first four arguments was given."""
        first = (self.X, self.y, self.groups, self.sample_weight)
        return any(argument is not None for argument in first)

    @property
    def by_row(self) -> dict[str, Any]:
        """Further data of each row: groups, costs, clusters, deferral."""
        names = ("groups", "costs", "clusters", "deferred")
        return {name: getattr(self, name) for name in names}

    @cached_property
    def labels(self) -> Labels | None:
        """The labels, checked; None without them."""
        if self.y is None:
            return None
        return label_column(self.y, "y")

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        if self.labels is None:
            return n_rows_of(self.X)
        return len(self.labels)

    @cached_property
    def columns(self) -> dict[Any, Labels]:
        """The columns of groups, checked."""
        return checked_columns(self.groups, "groups", self.n_rows)

    @property
    def names_of_groups(self) -> list[Any]:
        """The names of the columns of groups; [] without groups."""
        if self.groups is None:
            return []
        return list(columns_by_name(self.groups, "groups"))


# -- arguments that exclude each other ------------------------------------------------------------------


# Features that exclude each other, and below them the message; features on several lines share one. A
# feature is the name of a given argument, "no " and the name of an absent one, or a fact of the call: its
# purpose ("selection", "fresh", "reweight"), the kind of the model, or what the stated rates need. Words in
# braces are details of the call.
TABLE = """
# X and y of reweight
reweight, X, no y
reweight, no X, y
    reweight needs both X and y, or neither

reweight, no X, sample_weight
reweight, no X, costs
    sample_weight and costs belong to rows: give X and y too

# rows given for the selection
no groups, groups_val
    groups_val was given without groups

groups, X_val, no groups_val
    groups and X_val were given without groups_val

validation, no X_val
validation, no y_val
    {alone} given, but a validation set needs both X_val and y_val

validation, cv
    cv={cv!r} and X_val were both given; use cv='auto'

validation, X_val without rows
    X_val is empty: it needs at least one row

validation, clusters
    clusters and X_val were both given, but X_val is not split

# rows without labels
no y, errors
    y is needed: errors need labels; state rates or limits of answers alone

no y, rate of costs
    y is needed: {rate!r} is a mean of costs by row, and these rows have no labels

# groups
named objective of groups, no groups
    objective={objective!r} needs groups

selection, rate of groups, no groups
    {rate!r} needs groups: give groups=, with an entry for each row

by_group, no groups
    by_group needs groups: give groups=, with an entry for each row

certificate, rate of groups, no groups
    groups is needed: {rate!r} needs groups; give groups=, with an entry for each row

blind rule, groups
    groups are not used by the rule of this classifier: leave them out

group-aware rule, no groups
    groups are needed: the rule of this classifier reads them (by_group). Give groups=…

# costs of the rows
rate of costs, kept rows
    costs of the rows are not kept with the model: give X, y and costs

certificate, rate of costs, no costs
certificate, rate of costs, no cost_range
    {rate!r} is a mean of costs by row: give costs=, and cost_range=(smallest, largest)
    possible cost of any answer to any row; the given rows do not show it

# a classifier, or an array of answers
array of answers, training_rows
    training_rows: model is an array of answers, so there are no rows to compare

array of answers, X
    X must be None if model is an array of answers, got {model}. Of a classifier the order is
    (model, X, y)

array of answers, rate of deferral, no deferred
    deferred is needed: {rate!r} counts deferred rows, and an array of answers does not show
    them; give deferred=, a mask that is True for a deferred row

classifier, deferred
    deferred goes with an array of answers: a classifier knows its deferred rows

classifier, no X
    X is needed: model is a classifier
"""


def _read(table: str) -> Iterator[tuple[tuple[str, ...], str]]:
    """Yield the features of each line of a table, with their message.

    Blocks of lines are apart by an empty line. Lines of a message are indented, comments begin with #.
    """
    for block in table.strip().split("\n\n"):
        lines = [line for line in block.split("\n") if not line.startswith("#")]
        message = " ".join(line.strip() for line in lines if line.startswith(" "))
        for line in lines:
            if not line.startswith(" "):
                yield tuple(line.split(", ")), message


ARGUMENT_RULES = tuple(_read(TABLE))


def refuse(*facts: str, details: Mapping[str, Any] = NO_DETAILS, **arguments: Any) -> None:
    """Raise if features of a call exclude each other.

    Parameters
    ----------
    *facts : str
        Facts of the call, see `ARGUMENT_RULES`.
    details : mapping of str to object
        Values for the names in braces in messages.
    **arguments
        Arguments of the call; None is an absent one.

    Raises
    ------
    ValueError
        Gives the message of the first rule that applies.
    """
    features = set(facts)
    for name, value in arguments.items():
        if value is None:
            features.add(f"no {name}")
        else:
            features.add(name)
    for excluding, message in ARGUMENT_RULES:
        if features.issuperset(excluding):
            raise ValueError(message.format_map(details))
