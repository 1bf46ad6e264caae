"""Which rows are in which units, what units are called, who answers by them, and who passes rows on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tailboost.core.array_types import Ints, Mask

# Rows by which most columns are found not to tell a group.
FIRST_LOOK = 1000
# Of a group with fewer rows, a column may tell by chance which they are.
FEWEST_OF_A_GROUP = 10
# Tables of more columns are not looked through.
MOST_COLUMNS = 2000

#: What is said of a row that is passed on, and the column of its price among costs.
PERSON = "person"

GROUPS_UNUSED = "groups have no part in the answers of this classifier: leave them out"
GROUPS_NEEDED = (
    "groups are needed: this classifier was made with by_group=True, so that its answer to a row "
    "depends on the row's group. Give groups=…"
)


def memberships(groups: Ints) -> tuple[Ints, Ints]:
    """Return which rows are in which units: the row and the unit of each membership, ordered by row.

    Groups have shape (n,) or (n, c): the number of the unit of each row, or of its c units; −1 for none.
    """
    flat = groups.ravel()
    row = np.arange(len(flat)) if groups.ndim == 1 else np.repeat(np.arange(len(groups)), groups.shape[1])
    inside = flat >= 0
    return (row, flat) if inside.all() else (row[inside], flat[inside])


def strata_of(y: Ints, groups: Ints | None) -> Ints:
    """Return the number of each row's combination of class and units, ordered by unit, then by class."""
    if groups is None:
        return y
    if groups.ndim == 1:
        return np.unique((y.max() + 1) * groups + y, return_inverse=True)[1]
    return np.unique(np.column_stack([groups, y]), axis=0, return_inverse=True)[1].ravel()


def unit_name(unit: Any) -> str:
    """Name a class or group, or a pair: a cell (class, group), or a group of a table (column, value)."""
    return " / ".join(map(unit_name, unit)) if isinstance(unit, tuple) else str(unit)


def answers_by_group(classifier: Any) -> bool:
    """Whether a classifier has to be told the groups of the rows that it answers."""
    return bool(getattr(classifier, "by_group", False))


def told(classifier: Any, groups: Any) -> dict[str, Any]:
    """Return the keyword arguments of ``predict``: the groups, for a classifier that answers by group."""
    return {"groups": groups} if answers_by_group(classifier) else {}


def can_defer(classifier: Any) -> bool:
    """Whether a classifier may pass rows on to a person, which its ``defers`` then tells."""
    return bool(getattr(classifier, "can_defer", False))


def deferral_words(n_deferred: int, n: int) -> str:
    """Return how deferred rows are counted, in rates, errors and certificates."""
    return (
        f"{n_deferred:,} of the {n:,} rows are deferred. A deferred row is no error and no miss, and stays "
        "among the rows of a class or group; the error among the answered and precisions leave it out."
    )


def said_of(answers: NDArray[Any], deferred: Mask) -> NDArray[Any]:
    """Return answers as they are told to people: "person" where a row is passed on, shape (n,)."""
    return np.where(deferred, PERSON, answers.astype(object)) if deferred.any() else answers


@dataclass(frozen=True)
class GroupUse:
    """Whether answers may depend on a column of groups."""

    column: Any  # its name; None where groups came as an array
    told: bool  # whether answers are told the group (``by_group=True``)
    # Names, or numbers, of the features that tell the group, or that the group tells, row by row: the same
    # column, bands of it, one of the columns it was joined from. None where that is not known.
    features: tuple[Any, ...] | None
    weighed: bool = False  # whether answers weigh a model of the group, learned from the other columns

    @property
    def may_depend(self) -> bool | None:
        """Whether answers may depend on it by itself; None where that is not known."""
        return True if self.told else None if self.features is None else bool(self.features)

    def __str__(self) -> str:
        said = []
        if self.told:
            said.append("answers are told it (by_group=True; with False they are not)")
        if self.features:
            what = f"feature{'s' * (len(self.features) > 1)} {', '.join(map(repr, self.features))}"
            said.append(f"answers may depend on it by {what}; leave that out and it is a group alone")
        if self.weighed:
            column = "answers do not look at its column, but" if self.features == () else "answers also"
            said.append(f"{column} weigh what the features say of it, by a learned p(group | x, y)")
        elif not said:
            said.append(
                "whether a feature tells it was not looked at"
                if self.features is None
                else "answers do not look at it, though other columns may tell it in part"
            )
        return f"group{'' if self.column is None else f' {self.column}'}: {'; '.join(said)}"


def group_uses(classifier: Any) -> tuple[GroupUse, ...]:
    """Return what is known of each column of groups of a fitted classifier; empty without groups."""
    told, weighed = answers_by_group(classifier), bool(getattr(classifier, "weighs_groups", False))
    return tuple(GroupUse(name, told, of, weighed) for name, of in getattr(classifier, "group_features_", ()))


def telling_features(X: Any, groups: Ints) -> list[tuple[Any, ...] | None]:
    """Return, for each column of groups, the features that tell the group of a row or that it tells.

    Groups are numbers of shape (n,) or (n, c). Features are names of the columns of a data frame, else
    numbers; None where X was not looked through, because it is no table or has more than 2,000 columns.
    """
    columns = groups[:, None] if groups.ndim == 1 else groups
    if len(X.shape) != 2 or X.shape[1] > MOST_COLUMNS:
        return [None] * columns.shape[1]
    frame, sparse = hasattr(X, "iloc"), hasattr(X, "tocsc")
    names = X.columns.tolist() if frame else range(X.shape[1])
    first = X.iloc[:FIRST_LOOK] if frame else X[:FIRST_LOOK].toarray() if sparse else X[:FIRST_LOOK]

    def values(table: Any, j: int) -> Any:
        if frame:
            return table.iloc[:, j].to_numpy()
        column = table[:, [j]]
        return (column.toarray() if hasattr(column, "toarray") else np.asarray(column)).ravel()

    found: list[tuple[Any, ...] | None] = []
    for numbers in columns.T:
        group = np.unique(numbers, return_inverse=True)[1]
        may = [j for j in range(len(names)) if _same(values(first, j), group[:FIRST_LOOK], few=True)]
        found.append(tuple(names[j] for j in may if _same(values(X, j), group)))
    return found


def _same(values: Any, group: Ints, *, few: bool = False) -> bool:
    """Whether values tell the group or the group tells them; of few rows, whether they may in all."""
    code = _codes(values)
    n, sizes = len(group), np.bincount(group)
    kinds, n_groups = int(code.max(initial=-1)) + 1, np.count_nonzero(sizes)
    if kinds < 2 or n_groups < 2:
        return few
    pairs = len(np.unique(code * len(sizes) + group))
    # Values that nearly all differ tell everything, and so nothing.
    common = 2 * kinds <= n and (few or bool(sizes[sizes > 0].min() >= FEWEST_OF_A_GROUP))
    return bool(pairs == n_groups < n) or (pairs == kinds and common)


def _codes(values: Any) -> Ints:
    """Return a number for each value, the same for equal ones and for all that are missing."""
    if getattr(values.dtype, "kind", "O") in "biufUS":
        return np.unique(values, return_inverse=True)[1].ravel().astype(np.intp)
    known: dict[Any, int] = {}
    # What is missing equals nothing, itself included, or refuses to be compared.
    return np.array(
        [known.setdefault(_present(value), len(known)) for value in values.tolist()], dtype=np.intp
    )


def _present(value: Any) -> Any:
    try:
        return value if value == value else None
    except TypeError:
        return None
