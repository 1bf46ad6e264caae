"""Subgroups of rows, their printed names, and classifiers with groups or deferral."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tailboost.core.array_types import Column, Ints, Mask, Table
from tailboost.core.checks import distinct_and_places, is_missing
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
    """Return sentences on deferral: the error of the answered rows, and each group with many deferred rows.

    Parameters
    ----------
    answered_error : str
        The error of the answered rows, as printed.
    overall : float
        The fraction of deferred rows among all rows.
    by_column : mapping of dict
        For each column of groups, the fraction of deferred rows of each group.
    """
    lines = [
        "Deferred rows count as neither missed nor wrong: a human decides them. Error of answered rows "
        f"{answered_error}."
    ]
    for column, share_of_group in by_column.items():
        shares = [(share, unit_name(group)) for group, share in share_of_group.items()]
        largest_share, group_name = max(shares, default=(0, ""))
        if largest_share > MUCH_DEFERRED * overall:
            lines.append(
                f"{100 * largest_share:.0f} % of {group_name} are deferred here, {100 * overall:.0f} % of "
                f"all: 'deferred(by={column}) <= …' limits it."
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
        return self.words("drop the column to prevent this")

    def words(self, cure: str) -> str:
        """Return the dependence as a sentence; ``cure`` ends the statement about revealing features."""
        statements = []
        if self.by_group:
            statements.append("the rule reads it (by_group)")
        if self.features:
            names = f"feature {self.features[0]!r}"
            if len(self.features) > 1:
                names = f"features {', '.join(map(repr, self.features))}"
            statements.append(f"answers may depend on it through {names}; {cure}")
        if self.inferred:
            start = "the rule also"
            if self.features == ():
                start = "the rule does not read it, but"
            statements.append(f"{start} uses an estimate p(group | x, y) from the features")
        elif not statements and self.features is None:
            statements.append("the features were not checked for it")
        elif not statements:
            statements.append(
                "the rule does not read it; other features may be correlated with it"
            )
        title = "group"
        if self.column is not None:
            title = f"group {self.column}"
        return f"{title}: {'; '.join(statements)}"


def estimates_words(groups: str) -> str:
    """Return that a rule estimates the groups of a column, and what forbids it."""
    forbids = as_typed("infer_groups=False", "--set infer_groups=false")
    return f"The rule estimates {groups} from the other columns; {forbids} forbids it."


def revealing_features(X: Table, groups: Ints) -> list[tuple[Any, ...] | None]:
    """Return for each column of groups the features that determine the group or are determined by the group.

    Groups are numbers of shape (n,) or (n, c). Features are names of the columns of a data frame, or numbers
    of other columns. The result has None if X is no table, or has more than 2,000 columns: such an X is not
    checked.
    """
    group_columns = groups.reshape(len(groups), -1).T
    if len(X.shape) != 2 or X.shape[1] > MOST_COLUMNS:
        return [None] * len(group_columns)
    names = list(getattr(X, "columns", range(X.shape[1])))
    first_rows = X[:FIRST_LOOK]
    if hasattr(first_rows, "toarray"):  # a sparse matrix
        first_rows = first_rows.toarray()
    features: list[tuple[Any, ...] | None] = []
    for numbers in group_columns:
        _, group = distinct_and_places(numbers)  # from 0, without gaps
        first_groups = group[:FIRST_LOOK]
        revealing = []
        for j, name in enumerate(names):
            may_reveal = _determine(_values(first_rows, j), first_groups, few=True)
            if may_reveal and _determine(_values(X, j), group):
                revealing.append(name)
        features.append(tuple(revealing))
    return features


def _values(table: Table, j: int) -> Any:
    """Return a column of a data frame, an array or a sparse matrix, shape (n,)."""
    if hasattr(table, "iloc"):
        return np.asarray(table.iloc[:, j])
    column = table[:, [j]]
    if hasattr(column, "toarray"):
        column = column.toarray()
    return np.asarray(column).ravel()


def _determine(values: Column, group: Ints, *, few: bool = False) -> bool:
    """Return whether values determine the group or the reverse; with ``few`` rows, whether they may."""
    code = _codes(values)
    n = len(group)
    sizes = np.bincount(group)
    n_values = int(code.max(initial=-1)) + 1
    n_groups = np.count_nonzero(sizes)
    if n_values < 2 or n_groups < 2:  # a constant determines nothing; further rows may differ
        return few
    n_pairs = len(np.unique(code * len(sizes) + group))
    group_determines_value = n_pairs == n_groups
    value_determines_group = n_pairs == n_values
    if group_determines_value and n_groups < n:
        return True
    if 2 * n_values > n:  # values that are nearly all different determine any group
        return False
    # A small group may have a value of its own by chance.
    is_large_enough = few or sizes[sizes > 0].min() >= FEWEST_OF_A_GROUP
    return value_determines_group and bool(is_large_enough)


def _codes(values: Column) -> Ints:
    """Return a number from 0 for each value, shape (n,); all missing values have the same number."""
    if getattr(values.dtype, "kind", "O") in "biufUS":  # NumPy can sort these
        _, code = np.unique(values, return_inverse=True)
        return code.ravel().astype(np.intp)
    code_of: dict[Any, int] = {}
    codes = []
    for value in values.tolist():
        if is_missing(value):  # NaN differs from itself
            value = None
        codes.append(code_of.setdefault(value, len(code_of)))
    return np.array(codes, dtype=np.intp)
