"""Tables of a fit and after it, as the models of a classifier read them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib import import_module
from numbers import Number

from tailboost.core import Column, Table, TableChangedWarning, frozen_value, text, warn_user

# Number of categories up to which later tables are compared. A column of more has names or free text.
CATEGORIES_COMPARED = 1000
# Fraction of new categories above which a warning is given.
MOST_NEW = 0.1
# Rows from which a column without any known category is an error.
ROWS_ALL_NEW = 20
# What pandas calls columns of numbers, and of categories.
NUMBERS = ("integer", "floating", "mixed-integer-float", "decimal", "boolean")
CATEGORIES = ("string", "mixed-integer", "mixed", "categorical", "empty")


@frozen_value
class Columns:
    """The columns of a training table by their positions, for later tables.

    Attributes
    ----------
    numbers : sequence of int
        The columns of numbers.
    categories : mapping of int to set of str
        The categories of the columns in which values repeat, by their spelling.
    """

    numbers: Sequence[int]
    categories: Mapping[int, set[str]]

    @classmethod
    def of(cls, frame: Table) -> Columns:
        """Return the columns of a training table.

        Raises
        ------
        ValueError
            If a column has dates or other objects.
        """
        numbers = []
        categories = {}
        for position, name in enumerate(frame.columns):
            column = frame.iloc[:, position].dropna()
            kind = _kind(column)
            if kind in NUMBERS:
                numbers.append(position)
                continue
            if kind not in CATEGORIES:
                raise ValueError(
                    f"column {name!r} has values that are neither numbers nor text, such as "
                    f"{_odd(column, str, Number)!r:.80}: convert or drop it"
                )
            known = set(map(text, column.unique()))
            # A column in which most values occur once has names or free text, and one without values is open.
            if 0 < len(known) <= min(CATEGORIES_COMPARED, len(column) / 2):
                categories[position] = known
        return cls(numbers, categories)

    def read(self, frame: Table) -> Table:
        """Return this table or a later one, with numbers in objects as floats; the given one is unchanged.

        Columns are found by their positions.

        Raises
        ------
        ValueError
            If a column of numbers has other values, or at least 20 values of a column are all unknown.

        Warns
        -----
        TableChangedWarning
            If more than a tenth of the values of a column are new categories.
        """
        for position in self.numbers:
            column = frame.iloc[:, position].dropna()
            if len(column) and _kind(column) not in NUMBERS:
                raise ValueError(
                    f"column {column.name!r} had numbers in the fit, and now has {_odd(column, Number)!r}: "
                    "make it a number or missing"
                )
        changes = []
        for position, known in self.categories.items():
            column = frame.iloc[:, position].dropna()
            new = [value for value in column.unique() if text(value) not in known]
            n_new = column.isin(new).sum()
            if n_new <= MOST_NEW * len(column):
                continue
            words = (
                f"column {column.name!r}: {n_new:,} of {len(column):,} values, such as "
                f"{new[0]!r}, were not in the fit ({', '.join(sorted(known)[:4])} …)"
            )
            if n_new == len(column) >= ROWS_ALL_NEW:
                raise ValueError(f"{words}: give the columns in the coding of the fit")
            changes.append(words)
        if changes:
            warn_user(
                f"the table differs from the one fitted on: {'; '.join(changes)}",
                TableChangedWarning,
            )
        names = frame.columns[self.numbers]
        return frame.astype({name: float for name in names if frame[name].dtype == object})


def _kind(column: Column) -> str:
    """Return pandas' name of the kind of the values; "other" beside text and numbers."""
    kind = import_module("pandas").api.types.infer_dtype(column)
    if kind == "mixed" and not column.map(lambda value: isinstance(value, str | float)).all():
        return "other"
    return kind


def _odd(column: Column, *kinds: type) -> object:
    """Return the first value of a column of objects that is of another kind; else the first one."""
    return next((value for value in column if not isinstance(value, kinds)), column.iloc[0])
