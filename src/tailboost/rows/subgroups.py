"""Subgroups of rows, their printed names, and classifiers with groups or deferral."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tailboost.core.array_types import Column, Ints, Mask, Table
from tailboost.core.checks import is_missing
from tailboost.core.spelling import as_typed
from tailboost.rows.schema import text

# Rows of a first check, which rules out most columns.
FIRST_LOOK = 1000
# In a group with fewer rows, a column may match the group by chance.
FEWEST_OF_A_GROUP = 10
# Tables with more columns are not checked.
MOST_COLUMNS = 2000

#: Answer to a deferred row in every output, and name of the column of its costs.
HUMAN_REVIEW = "human review"

# A group whose share of deferred rows is above this multiple of the overall one is named.
MUCH_DEFERRED = 2.0

# Printed name of a group or class that is the empty text.
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


def deferral_lines(
    answered_error: str, overall: float, by_column: Mapping[Any, Mapping[Any, float]]
) -> list[str]:
    """Return sentences on what deferral hides: the error of the answered rows, and a group that it is about.

    Parameters
    ----------
    answered_error : str
        The error of the answered rows, in words.
    overall : float
        The share of deferred rows.
    by_column : mapping of dict
        The shares of deferred rows of the groups, by the name of their column.
    """
    lines = [
        "Deferred rows count as neither missed nor wrong: a human decides them. Error of answered rows "
        f"{answered_error}."
    ]
    for column, shares in by_column.items():
        most, name = max(
            ((share, unit_name(name)) for name, share in shares.items()), default=(0, "")
        )
        if most > MUCH_DEFERRED * overall:
            lines.append(
                f"{100 * most:.0f} % of {name} are deferred here, {100 * overall:.0f} % of all: "
                f"'deferred(by={column}) <= …' limits it."
            )
    return lines


def answers_or_review(answers: NDArray[Any], deferred: Mask) -> NDArray[Any]:
    """Return the answers as text and labels, with "human review" for deferred rows, shape (n,)."""
    if deferred.any():
        return np.where(deferred, HUMAN_REVIEW, answers.astype(object))
    return answers


@dataclass(frozen=True)
class GroupUse:
    """Dependence of the answers on a column of groups."""

    column: Any  # name; None if groups were given as an array
    by_group: bool  # whether the rule reads the group
    # Names or numbers of the features that determine the group or are determined by the group: the same
    # column, bands of its values, or a column from which the group was made. None if not checked.
    features: tuple[Any, ...] | None
    inferred: bool = (
        False  # whether the rule uses an estimate p(group | x, y) from the features
    )

    def __str__(self) -> str:
        parts = []
        if self.by_group:
            parts.append("the rule reads it (by_group)")
        if self.features:
            names = (
                f"feature{'s' * (len(self.features) > 1)} {', '.join(map(repr, self.features))}"
            )
            parts.append(
                f"answers may depend on it through {names}; drop the column to prevent this"
            )
        if self.inferred:
            if self.features == ():
                column = "the rule does not read it, but"
            else:
                column = "the rule also"
            parts.append(f"{column} uses an estimate p(group | x, y) from the features")
        elif not parts:
            parts.append(
                "the features were not checked for it"
                if self.features is None
                else "the rule does not read it; other features may be correlated with it"
            )
        return f"group{'' if self.column is None else f' {self.column}'}: {'; '.join(parts)}"


def estimates_words(groups: str) -> str:
    """Return that a rule estimates the groups of a column, and what forbids it."""
    forbids = as_typed("infer_groups=False", "--set infer_groups=false")
    return f"The rule estimates {groups} from the other columns; {forbids} forbids it."


def revealing_features(X: Table, groups: Ints) -> list[tuple[Any, ...] | None]:
    """Return for each column of groups the features that determine the group or are determined by the group.

    Groups are numbers of shape (n,) or (n, c). Features are names of the columns of a data frame, else
    numbers. None: X was not checked, because X is no table or has more than 2,000 columns.
    """
    columns = groups.reshape(len(groups), -1)
    if len(X.shape) != 2 or X.shape[1] > MOST_COLUMNS:
        return [None] * columns.shape[1]
    names = list(getattr(X, "columns", range(X.shape[1])))
    first = X[:FIRST_LOOK]
    if hasattr(first, "toarray"):
        first = first.toarray()

    def values(table: Table, j: int) -> Any:
        column = table.iloc[:, j] if hasattr(table, "iloc") else table[:, [j]]
        if hasattr(column, "toarray"):
            column = column.toarray()
        return np.asarray(column).ravel()

    features: list[tuple[Any, ...] | None] = []
    for numbers in columns.T:
        group = np.unique(numbers, return_inverse=True)[1]
        possible = [
            j
            for j in range(len(names))
            if _same(values(first, j), group[:FIRST_LOOK], few=True)
        ]
        features.append(tuple(names[j] for j in possible if _same(values(X, j), group)))
    return features


def _same(values: Column, group: Ints, *, few: bool = False) -> bool:
    """Return whether values determine the group or the reverse; with ``few`` rows, whether they may."""
    code = _codes(values)
    n = len(group)
    sizes = np.bincount(group)
    kinds = int(code.max(initial=-1)) + 1
    n_groups = np.count_nonzero(sizes)
    if kinds < 2 or n_groups < 2:
        return few
    pairs = len(np.unique(code * len(sizes) + group))
    # Values, if nearly all different, determine any group.
    common = 2 * kinds <= n and (few or bool(sizes[sizes > 0].min() >= FEWEST_OF_A_GROUP))
    return bool(pairs == n_groups < n) or (pairs == kinds and common)


def _codes(values: Column) -> Ints:
    """Return a number for each value, equal for equal values and for all missing ones."""
    if getattr(values.dtype, "kind", "O") in "biufUS":
        return np.unique(values, return_inverse=True)[1].ravel().astype(np.intp)
    numbers: dict[Any, int] = {}
    present = (None if is_missing(value) else value for value in values.tolist())
    return np.array(
        [numbers.setdefault(value, len(numbers)) for value in present], dtype=np.intp
    )
