"""The checked training set of a game, and the rows on which members are judged."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import issparse
from sklearn.utils import _safe_indexing, column_or_1d

from tailboost.core.array_types import Floats, Hashes, Ints, Mask
from tailboost.core.checks import column_name, columns_by_name, n_rows_of, positions, refuse_missing
from tailboost.core.fingerprints import Fingerprint, fingerprint, hash_rows
from tailboost.core.subgroups import memberships
from tailboost.rates import wrong

# Rows and values of a batch at prediction, to bound the memory of a converted table.
BATCH = 262_144
BATCH_VALUES = 2**30
# Different lots that rows can draw (uint16).
LOTS = 2**16
# More than the rounding error of sums of weights in another order.
SIZE_DECIMALS = 6


@dataclass(frozen=True)
class RowOrigin:
    """Rows as a user gave them, of which those judged on may be a part."""

    n_rows: int  # how many were given
    index: Ints | None = None  # numbers of those that are left; None for all

    def part(self, chosen: Mask) -> RowOrigin:
        """Return the subset."""
        if chosen.all():
            return self
        index = np.flatnonzero(chosen) if self.index is None else self.index[chosen]
        return replace(self, index=index)


@dataclass(frozen=True)
class Multiplicity:
    """Rows aggregated into each row of a table: count and sum of squared weights."""

    rows: Floats  # shape (n,): how many they are
    squares: Floats  # shape (n,): sum of the squares of their weights

    def part(self, chosen: Mask) -> Multiplicity:
        """Return the subset."""
        return Multiplicity(self.rows[chosen], self.squares[chosen])


@dataclass(frozen=True)
class Rows:
    """The rows on which members are judged."""

    y: Ints  # shape (n,): class numbers
    weight: Floats  # shape (n,): sample weights, positive
    # Shape (n,) or (n, c): number of the unit (group, class or cell) of each row, −1 for none; by column
    # where groups came as a table of c columns and overlap; ``None`` without units.
    groups: Ints | None
    words: str  # what rows these are, for people
    # Shape (n,): what each row draws by its content, by which equal rows are known.
    lots: NDArray[np.uint16] | None = None
    given: RowOrigin | None = None  # the rows of the user's that these are
    # Whether members were fitted on these very rows and their losses are not out of fold.
    fitted: bool = False
    # Shape (n,): which of a member's siblings judged the row, where losses are out of fold.
    fold: NDArray[np.uint8] | None = None
    multiplicity: Multiplicity | None = None  # what is behind each row, where it stands for several
    # Whether refits answer instead of the models that are judged on these rows.
    refit: bool = False

    @property
    def base(self) -> Floats:
        """The normalised weights, shape (n,)."""
        p: Floats = self.weight / self.weight.sum()
        return p

    def part(self, chosen: Mask) -> Rows:
        """Return some of the rows, given by a mask."""
        return replace(
            self,
            y=self.y[chosen],
            weight=self.weight[chosen],
            groups=None if self.groups is None else self.groups[chosen],
            lots=None if self.lots is None else self.lots[chosen],
            given=None if self.given is None else self.given.part(chosen),
            fold=None if self.fold is None else self.fold[chosen],
            multiplicity=None if self.multiplicity is None else self.multiplicity.part(chosen),
        )

    def wrong(self, answers: Any) -> Mask:
        """Return whether each row is answered wrong, by class numbers or one for all, shape (n,)."""
        return wrong(answers, self.y)

    def counts(self, index: Ints, n_units: int) -> Ints:
        """Return the number of rows of each unit, shape (m,); a row counts in each of its units."""
        row, unit = memberships(index)
        rows = None if self.multiplicity is None else self.multiplicity.rows[row]
        return np.bincount(unit, weights=rows, minlength=n_units).astype(np.intp)

    def sizes(self, index: Ints, n_units: int) -> Floats:
        """Return how many rows the mean over each unit rests on: Kish's effective size of its different rows.

        That is (Σw)²/Σw², so that the scale of the weights has no part in it, and a row said twice is one of
        weight 2. Units are given by row, of shape (n,) or (n, c), −1 for none. Shape (m,); 0 for a unit
        without rows.
        """
        row, unit = memberships(index)
        weight: Floats = self.weight[row]
        if self.lots is not None:  # of rows that draw the same lot, those of a small unit are the same row
            pairs = unit * LOTS + self.lots[row]
            if n_units * LOTS <= len(pairs):  # counting is quicker than sorting
                of_pairs: Floats = np.bincount(pairs, weights=weight).astype(np.float64)
                pairs = np.flatnonzero(of_pairs).astype(np.intp)
                weight = of_pairs[pairs]
            else:
                pairs, same = np.unique(pairs, return_inverse=True)
                weight = np.asarray(np.bincount(same, weights=weight), dtype=np.float64)
            unit = pairs // LOTS
        squared = weight**2 if self.multiplicity is None else self.multiplicity.squares[row]
        total = np.bincount(unit, weights=weight, minlength=n_units)
        squares = np.bincount(unit, weights=squared, minlength=n_units)
        return (total**2 / np.where(squares > 0, squares, 1.0)).round(SIZE_DECIMALS)


def lots(hashes: Hashes) -> NDArray[np.uint16]:
    """Return 16 bits of each row's content hash, small enough for a model file."""
    return (hashes >> np.uint64(48)).astype(np.uint16)


@dataclass(frozen=True)
class GroupNames:
    """What the groups of a fit are called: the values of one column, or of each column of a table."""

    values: tuple[NDArray[Any], ...]  # the different values of each column, sorted
    # Names of the columns of a table, whose groups are then called (column, value); None for an array.
    columns: tuple[Any, ...] | None = None
    title: Any = None  # name of a column that came by itself, by which rates may call it
    # The combinations of values that rows have, where there are several columns.
    combinations: tuple[tuple[Any, ...], ...] = ()

    @classmethod
    def of(cls, groups: Any, name: str, n: int, used: Mask) -> Self:
        """Return the names of the groups of those of n rows that are used; ``name`` is for messages."""
        columns = _group_columns(groups, name, n)
        try:
            found = [np.unique(column[used], return_inverse=True) for column in columns.values()]
        except TypeError as error:
            raise ValueError(
                f"{name}: values of kinds that have no order ({error}); make them text"
            ) from None
        values, numbers = zip(*found, strict=True)
        crossed = np.unique(np.column_stack(numbers), axis=0) if len(numbers) > 1 else np.empty((0, 1), int)
        names = [of[crossed[:, j]].tolist() for j, of in enumerate(values)]
        alone = list(columns) == [None]
        return cls(
            values,
            None if alone else tuple(columns),
            column_name(groups) if alone else None,
            tuple(zip(*names, strict=True)),
        )

    @property
    def titles(self) -> tuple[Any, ...]:
        """What rates call each column; None for a column without a name."""
        return self.columns or (self.title,)

    @property
    def names(self) -> NDArray[Any]:
        """Names of all groups, shape (m,): values, or (column, value) pairs of a table."""
        if self.columns is None:
            return self.values[0]
        pairs = [(c, v) for c, values in zip(self.columns, self.values, strict=True) for v in values.tolist()]
        names = np.empty(len(pairs), dtype=object)
        names[:] = pairs
        return names

    @property
    def column(self) -> Ints:
        """Number of the column of each group, shape (m,)."""
        return np.repeat(np.arange(len(self.values)), [len(values) for values in self.values])

    def number(self, groups: Any, name: str, n: int, used: Mask | None = None) -> Ints:
        """Return the numbers of the groups of n rows, shape (n,), or (n, c) for a table of c > 1 columns.

        With a mask, of the rows used: the others may be in any group.

        Raises
        ------
        ValueError
            If the groups have other columns than in fit, or a value that was not seen in fit.
        """
        given, known = _group_columns(groups, name, n), self.columns or (None,)
        if set(given) != set(known):
            raise ValueError(
                f"{name} has {_of_columns(tuple(given))}, but the groups in fit had {_of_columns(known)}"
            )
        numbers, first = [], 0
        for column, values in zip(known, self.values, strict=True):
            said = name if column is None else f"{name}[{column!r}]"
            of = given[column] if used is None else given[column][used]
            numbers.append(first + positions(of, values, said, "groups not seen in fit"))
            first += len(values)
        return numbers[0] if len(numbers) == 1 else np.column_stack(numbers)


def n_group_rows(groups: Any) -> int:
    """Return the number of rows of a groups argument: of a column, or of a table in any of its forms."""
    return n_rows_of(next(iter(groups.values()), ())) if isinstance(groups, Mapping) else n_rows_of(groups)


def _of_columns(columns: tuple[Any, ...]) -> str:
    return "no columns (an array)" if columns == (None,) else f"the columns {list(columns)}"


def _group_columns(groups: Any, name: str, n: int) -> dict[Any, NDArray[Any]]:
    """Return the columns of a groups argument by name, checked; an array of shape (n,) has the name None."""
    checked = {}
    for column, values in columns_by_name(groups, name).items():
        said = name if column is None else f"{name}[{column!r}]"
        refuse_missing(values, said)
        checked[column] = column_or_1d(values)
        if len(checked[column]) != n:
            raise ValueError(f"{said} has {len(checked[column])} entries, X has {n} rows")
    return checked


@dataclass
class Problem:
    """A checked training set: rows of positive weight (``used`` of all), labels and groups as numbers."""

    X: Any
    y: Ints
    weight: Floats
    groups: Ints | None
    n_classes: int
    used: Ints
    n_given: int
    validation: tuple[Any, Rows] | None
    clusters: Ints | None = None  # rows of one number, as of one person, are never separated

    @cached_property
    def hashes(self) -> Hashes:
        """Hash of each row by content."""
        return hash_rows(self.X)

    def n_distinct(self, among: Mask | None = None) -> int:
        """Return the number of distinct rows (of some), labels included."""
        keys = self.hashes * np.uint64(self.n_classes) + self.y.astype(np.uint64)
        return len(np.unique(keys if among is None else keys[among]))

    @cached_property
    def sketch(self) -> Fingerprint:
        """Fingerprints of the rows."""
        return Fingerprint.of_rows(self.X)

    @property
    def rows(self) -> Rows:
        """The training rows, as rows to be judged on."""
        given = RowOrigin(self.n_given, None if len(self.used) == self.n_given else self.used)
        words = f"the {len(self.y):,} training rows"
        apart = self.hashes if self.clusters is None else self.lot_hashes(0)
        return Rows(self.y, self.weight, self.groups, words, lots(apart), given)

    def lot_hashes(self, seed: int) -> Hashes:
        """Hash of each row's ``clusters`` or, without one, of its content: equal hashes share a fold."""
        return hash_rows(self.X if self.clusters is None else self.clusters[:, None], seed=seed)

    def fingerprint(self, classes: NDArray[Any]) -> str:
        """Digest by which a fit that goes on recognises its data and labels."""
        tables = [(self.hashes, self.rows)]
        if self.validation is not None:
            X_val, judged = self.validation
            tables.append((hash_rows(X_val), judged))
        parts = [(hashes, rows.y, rows.weight, rows.groups) for hashes, rows in tables]
        labels = np.frombuffer(repr(classes.tolist()).encode(), dtype=np.uint8)
        return fingerprint(labels, *(part for table in parts for part in table if part is not None))


def take(X: Any, rows: NDArray[Any]) -> Any:
    """Return some rows of a table or of a dict of columns, given by numbers or by a mask; None of None."""
    if X is None:
        return None
    if isinstance(X, Mapping):
        return {name: np.asarray(column)[rows] for name, column in X.items()}
    if issparse(X):
        X = X.tocsr()  # not every format has rows to take
    return _safe_indexing(X, np.flatnonzero(rows) if rows.dtype == np.bool_ else rows)


def batches(X: Any) -> list[Ints]:
    """Return the row numbers of a table in batches."""
    n, row = n_rows_of(X), int(np.prod(getattr(X, "shape", ())[1:]))
    size = max(1, min(BATCH, BATCH_VALUES // max(row, 1)))
    return [np.arange(a, min(a + size, n)) for a in range(0, n, size)]
