"""Checked training set of a fit, and rows on which candidates are compared."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import column_or_1d

from tailboost.core.array_types import Column, Floats, Groups, Hashes, Ints, Mask, Table
from tailboost.core.checks import (
    category_orders,
    column_name,
    group_columns,
    in_category_order,
    n_rows_of,
    positions,
    refuse_missing,
)
from tailboost.core.fingerprints import (
    Fingerprint,
    digest,
    hash_rows,
    stratified_places,
    tiny_hashes,
)
from tailboost.core.spelling import warn_alike

# Number of tiny row hashes (uint16).
N_TINY_HASHES = 2**16
# Effective sizes are rounded to this number of decimals, so rounding errors of the row order vanish.
SIZE_DECIMALS = 6
# "auto" cross-fits up to this many distinct rows: one fit per fold and one on all rows in each round. Beyond,
# it holds out a fifth, with two fits in each round.
CROSS_FIT_UP_TO = 50_000
N_FOLDS = 5
# Number of folds for "auto" if a classifier limits five folds to fewer distinct rows (`five_up_to`). A round
# then needs four fits instead of six.
FEW_FOLDS = 3
HELD_OUT = 0.2  # fraction of the rows
LEAST_HELD_OUT = 20  # least number of held-out rows of the smallest class in a group


def memberships(groups: Ints) -> tuple[Ints, Ints]:
    """Return the row and the subgroup of each membership, ordered by row.

    Groups of shape (n,) hold one subgroup number per row, groups of shape (n, c) up to c. The number −1 means
    no subgroup.
    """
    flat = groups.ravel()
    if groups.ndim == 1:
        row = np.arange(len(flat))
    else:
        row = np.repeat(np.arange(len(groups)), groups.shape[1])
    inside = flat >= 0
    if inside.all():
        return (row, flat)
    return (row[inside], flat[inside])


def numbered_strata(y: Ints, groups: Ints | None) -> Ints:
    """Return the number of each row's combination of class and subgroups, ordered by subgroup and class."""
    if groups is None:
        return y
    if groups.ndim == 1:
        return np.unique((y.max() + 1) * groups + y, return_inverse=True)[1]
    return np.unique(np.column_stack([groups, y]), axis=0, return_inverse=True)[1].ravel()


@dataclass(frozen=True)
class RowOrigin:
    """Origin of rows: the rows that the user passed, and the part of them that is used."""

    n_rows: int  # number of rows that the user passed
    index: Ints | None = None  # numbers of the used rows; None for all

    def part(self, chosen: Mask) -> RowOrigin:
        """Return the subset."""
        if chosen.all():
            return self
        if self.index is None:
            index = np.flatnonzero(chosen)
        else:
            index = self.index[chosen]
        return replace(self, index=index)


@dataclass(frozen=True)
class Rows:
    """Rows with labels, weights and subgroups, on which candidates are compared."""

    y: Ints  # shape (n,): class numbers
    weight: Floats  # shape (n,): sample weights, positive
    # Shape (n,) or (n, c): number of the subgroup of each row, −1 for none. A table of c group columns has
    # one number per column, and its subgroups overlap. None without subgroups.
    groups: Ints | None
    words: str  # description for messages
    # Shape (n,): short hash of the content, equal for equal rows.
    row_hashes: NDArray[np.uint16] | None = None
    origin: RowOrigin | None = None
    fitted: bool = (
        False  # whether base models were fitted on these rows, so losses are not out of fold
    )
    fold: NDArray[np.uint8] | None = (
        None  # shape (n,): fold of each row if losses are out of fold
    )
    # Shape (n,): sum of the squared weights of the rows that each row aggregates; None if it is a single row.
    squares: Floats | None = None
    refit: bool = (
        False  # whether models are fitted again after their losses were measured on these rows
    )

    @property
    def used(self) -> Ints | None:
        """Numbers of the rows among those that the user passed; None for all."""
        if self.origin is None:
            return None
        return self.origin.index

    @property
    def base(self) -> Floats:
        """Normalised weights, shape (n,)."""
        p: Floats = self.weight / self.weight.sum()
        return p

    def part(self, chosen: Mask) -> Rows:
        """Return the rows of a mask."""
        return replace(
            self,
            y=self.y[chosen],
            weight=self.weight[chosen],
            groups=None if self.groups is None else self.groups[chosen],
            row_hashes=None if self.row_hashes is None else self.row_hashes[chosen],
            origin=None if self.origin is None else self.origin.part(chosen),
            fold=None if self.fold is None else self.fold[chosen],
            squares=None if self.squares is None else self.squares[chosen],
        )

    def wrong(self, answers: Column) -> Mask:
        """Return whether each prediction is wrong, for class numbers of shape (n,) or one class number."""
        differs: Mask = answers != self.y
        return differs

    def sizes(self, index: Ints, n_subgroups: int) -> Floats:
        """Return Kish's effective size (Σw)²/Σw² of each subgroup, shape (m,); 0 without rows.

        Equal rows count as one row. ``index``: subgroup of each row, shape (n,) or (n, c), −1 for none.
        """
        row, subgroup = memberships(index)
        weight: Floats = self.weight[row]
        if (
            self.row_hashes is not None
        ):  # equal short hashes in a small subgroup: almost surely equal rows
            pairs = subgroup * N_TINY_HASHES + self.row_hashes[row]
            if n_subgroups * N_TINY_HASHES <= len(pairs):  # counting is faster than sorting
                sums: Floats = np.bincount(pairs, weights=weight).astype(np.float64)
                pairs = np.flatnonzero(sums).astype(np.intp)
                weight = sums[pairs]
            else:
                pairs, same = np.unique(pairs, return_inverse=True)
                weight = np.asarray(np.bincount(same, weights=weight), dtype=np.float64)
            subgroup = pairs // N_TINY_HASHES
        if self.squares is None:
            squared = weight**2
        else:
            squared = self.squares[row]
        total = np.bincount(subgroup, weights=weight, minlength=n_subgroups)
        squares = np.bincount(subgroup, weights=squared, minlength=n_subgroups)
        return (total**2 / np.where(squares > 0, squares, 1.0)).round(SIZE_DECIMALS)


@dataclass(frozen=True)
class UnlabeledRows:
    """Rows without labels, each of weight 1."""

    groups: Ints | None  # as in `Rows`
    hashes: Hashes  # shape (n,): hash of the content

    def __len__(self) -> int:
        return len(self.hashes)


@dataclass(frozen=True)
class GroupNames:
    """Names of the groups of a fit: values of one column, or of each column of a table."""

    values: tuple[
        NDArray[Any], ...
    ]  # distinct values of each column, sorted or in the order of categories
    # Names of the columns of a table, whose groups have names (column, value); None for an array.
    columns: tuple[Any, ...] | None = None
    title: Any = None  # name of a single column, for rates
    # Combinations of values in the rows, if there are several columns.
    combinations: tuple[tuple[Any, ...], ...] = ()

    @classmethod
    def of(cls, groups: Groups, name: str, n: int, used: Mask) -> Self:
        """Return the names of the groups of the used rows among n; ``name`` is for messages."""
        columns = _group_columns(groups, name, n)
        orders = category_orders(groups)
        try:
            values = tuple(
                in_category_order(np.unique(column[used]), orders.get(title))
                for title, column in columns.items()
            )
        except TypeError as error:
            raise ValueError(
                f"{name}: values of types that cannot be ordered ({error}); convert them to text"
            ) from None
        for names_of_column in values:
            warn_alike(names_of_column, "groups")
        pairs = zip(columns.values(), values, strict=True)
        numbers = [positions(column[used], of_column, name) for column, of_column in pairs]
        if len(numbers) > 1:
            crossed = np.unique(np.column_stack(numbers), axis=0)
        else:
            crossed = np.empty((0, 1), int)
        names = [column[crossed[:, j]].tolist() for j, column in enumerate(values)]
        array = list(columns) == [None]
        return cls(
            values,
            None if array else tuple(columns),
            column_name(groups) if array else None,
            tuple(zip(*names, strict=True)),
        )

    @property
    def titles(self) -> tuple[Any, ...]:
        """Name of each column for rates; None for a column without a name."""
        return self.columns or (self.title,)

    @property
    def names(self) -> NDArray[Any]:
        """Names of all groups, shape (m,): values, or (column, value) pairs of a table."""
        if self.columns is None:
            return self.values[0]
        pairs = [
            (c, v)
            for c, values in zip(self.columns, self.values, strict=True)
            for v in values.tolist()
        ]
        names = np.empty(len(pairs), dtype=object)
        names[:] = pairs
        return names

    @property
    def column(self) -> Ints:
        """Number of the column of each group, shape (m,)."""
        return np.repeat(np.arange(len(self.values)), [len(values) for values in self.values])

    def by_column(self, groups: Ints) -> Ints:
        """Return the number of the value of each row in each column, shape (n, c), from numbers of groups."""
        first = np.cumsum([0, *map(len, self.values)])[:-1]
        return groups.reshape(len(groups), -1) - first

    def numbers_of(self, groups: Groups, name: str, n: int, used: Mask | None = None) -> Ints:
        """Return the numbers of the groups of n rows, shape (n,), or (n, c) for a table of c > 1 columns.

        With a mask, only the used rows are numbered; other rows may be in any group.

        Raises
        ------
        ValueError
            If columns differ from those in fit, or a value did not occur in fit.
        """
        table = _group_columns(groups, name, n)
        fitted = self.columns or (None,)
        if set(table) != set(fitted):
            raise ValueError(
                f"{name} has {_describe_columns(tuple(table))}, but the groups in fit had "
                f"{_describe_columns(fitted)}"
            )
        numbers = []
        first = 0
        for column, values in zip(fitted, self.values, strict=True):
            if column is None:
                label = name
            else:
                label = f"{name}[{column!r}]"
            if used is None:
                rows = table[column]
            else:
                rows = table[column][used]
            numbers.append(first + positions(rows, values, label, "groups not seen in fit"))
            first += len(values)
        if len(numbers) == 1:
            return numbers[0]
        return np.column_stack(numbers)


def rows_among(groups: Groups, rows: Rows) -> Mask:
    """Return the mask of selection data among the rows of a groups argument, one for each row passed to fit.

    Raises
    ------
    ValueError
        If the number of rows is another one, or unknown.
    """
    n = n_rows_of(groups)
    origin = rows.origin
    if origin is None or n != origin.n_rows:
        if origin is None:
            n_rows = len(rows.y)
        else:
            n_rows = origin.n_rows
        raise ValueError(
            f"groups has {n} entries, but the selection data are {rows.words}, from a table of {n_rows:,} "
            "rows: give one group for each of these rows"
        )
    if origin.index is None:
        return np.ones(n, dtype=np.bool_)
    return np.isin(np.arange(n), origin.index)


def _describe_columns(columns: tuple[Any, ...]) -> str:
    if columns == (None,):
        return "no columns (an array)"
    return f"the columns {list(columns)}"


def _group_columns(groups: Groups, name: str, n: int) -> dict[Any, NDArray[Any]]:
    """Return the checked columns of a groups argument by name; an array of shape (n,) has the name None."""
    checked = {}
    for column, values in group_columns(groups, name).items():
        if column is None:
            label = name
        else:
            label = f"{name}[{column!r}]"
        refuse_missing(values, label)
        checked[column] = column_or_1d(values)
        if len(checked[column]) != n:
            raise ValueError(f"{label} has {len(checked[column])} entries, X has {n} rows")
    return checked


@dataclass
class TrainingSet:
    """Checked training set: rows of positive weight (``used``), with labels and groups as numbers."""

    X: Table
    y: Ints
    weight: Floats
    groups: Ints | None
    n_classes: int
    used: Ints
    n_given: int
    validation: tuple[Any, Rows] | None
    clusters: Ints | None = None  # rows of one cluster, such as a person, stay in one fold

    @cached_property
    def hashes(self) -> Hashes:
        """Hash of the content of each row."""
        return hash_rows(self.X)

    def n_distinct(self, among: Mask | None = None) -> int:
        """Return the number of distinct rows with their labels, among the rows of a mask."""
        keys = self.hashes * np.uint64(self.n_classes) + self.y.astype(np.uint64)
        return len(np.unique(keys if among is None else keys[among]))

    @cached_property
    def fingerprints(self) -> Fingerprint:
        """Fingerprints of the rows, which detect data leakage."""
        return Fingerprint.of_rows(self.X)

    @property
    def rows(self) -> Rows:
        """Training rows as selection data."""
        given = RowOrigin(self.n_given, None if len(self.used) == self.n_given else self.used)
        words = f"the {len(self.y):,} training rows"
        if self.clusters is None:
            hashes = self.hashes
        else:
            hashes = self.split_hashes(0)
        return Rows(self.y, self.weight, self.groups, words, tiny_hashes(hashes), given)

    def split_hashes(self, seed: int) -> Hashes:
        """Return the hash of each row's cluster, or of its content; equal hashes share a fold."""
        return hash_rows(self.X if self.clusters is None else self.clusters[:, None], seed=seed)

    def digest(self, classes: NDArray[Any]) -> str:
        """Return a digest of rows, labels, weights and groups, for checkpoints."""
        tables = [(self.hashes, self.rows)]
        if self.validation is not None:
            X_val, judged = self.validation
            tables.append((hash_rows(X_val), judged))
        parts = [(hashes, rows.y, rows.weight, rows.groups) for hashes, rows in tables]
        arrays = (part.tobytes() for table in parts for part in table if part is not None)
        return digest(repr(classes.tolist()).encode(), *arrays)


def folds(places: Ints, k: int) -> Ints:
    """Return the fold of each place, see `stratified_places`."""
    return places % k


def held_out(places: Ints, fraction: float) -> Mask:
    """Return which places are held out: every (1/fraction)-th, see `stratified_places`."""
    held: Mask = np.floor((places + 1) * fraction) > np.floor(places * fraction)
    return held


@dataclass(frozen=True)
class Split:
    """Assignment of rows to folds."""

    fold: Ints  # shape (n,): number of the fold in which a row is held out; −1: never held out
    validation: object  # "cv", or the fraction that is held out

    @classmethod
    def of(
        cls,
        training: TrainingSet,
        validation: Any,
        seed: int,
        otherwise: str = "",
        five_up_to: float = np.inf,
    ) -> Split:
        """Return a split of the training rows, by hashes of the rows and the seed.

        Parameters
        ----------
        training : TrainingSet
            Training set.
        validation : {"auto", "cv"}, int or float
            Number of folds ("cv": five), or fraction to hold out. "auto" cross-fits up to 50,000 distinct
            rows, and if a held-out fifth would contain fewer than 20 rows of a class in a group. Otherwise
            it holds out a fifth.
        seed : int
            Seed of the hashes.
        otherwise : str, default=""
            Advice to add to the message if all rows are equal.
        five_up_to : float, default=inf
            Number of distinct rows beyond which "auto" takes three folds instead of five.
        name : str, default="cv"
            Name of the parameter, for messages.

        Raises
        ------
        ValueError
            If no rows are left for the fit or for the selection data.
        """
        train = training.rows
        given = validation
        hashes = training.split_hashes(seed)
        places = stratified_places(hashes, numbered_strata(train.y, train.groups), train.weight)
        n_distinct = int(places.max()) + 1
        if validation == "auto":
            validation = "cv"
            if n_distinct > CROSS_FIT_UP_TO:
                first = np.unique(hashes, return_index=True)[1]
                smallest = _smallest_unit(train.part(np.isin(np.arange(len(train.y)), first)))
                if smallest * HELD_OUT >= LEAST_HELD_OUT:
                    validation = HELD_OUT
                else:
                    validation = "cv"
        if validation == "cv" or validation >= 2:
            few = given == "auto" and n_distinct > five_up_to
            k = min(
                FEW_FOLDS if few else N_FOLDS if validation == "cv" else int(validation),
                n_distinct,
            )
            if k < 2:
                raise ValueError(
                    f"cv={given!r}: all {len(train.y):,} rows of X are the same, so that none can be "
                    f"held out; at least two distinct rows are needed{otherwise}"
                )
            return cls(folds(places, k), "cv")
        held = held_out(places, validation)
        if not held.any() or held.all():
            raise ValueError(
                f"cv={validation:g} leaves {'no' if not held.any() else 'only'} validation rows "
                f"of {n_distinct} distinct ones; use folds, another fraction or more rows"
            )
        return cls(np.where(held, 0, -1), validation)

    @property
    def parts(self) -> list[Mask]:
        """Masks of the rows that are held out together, one per fold."""
        return [self.fold == j for j in range(int(self.fold.max()) + 1)]

    def selection_rows(self, train: Rows, what: str, *, refit: bool = True) -> Rows:
        """Return the selection data: the held-out rows, described as out-of-fold ``what``.

        ``refit``: models fitted without a held-out fraction are fitted again on all rows.
        """
        if self.validation == "cv":
            words = f"out-of-fold {what} of the {len(train.y):,} training rows ({len(self.parts)} folds)"
            return replace(train, words=words, fold=self.fold.astype(np.uint8), refit=True)
        held = self.fold == 0
        return replace(train.part(held), words=f"the {held.sum():,} held-out rows", refit=refit)


def _smallest_unit(rows: Rows) -> int:
    """Return the number of rows of the smallest class in a group; over all columns if there are several."""
    if rows.groups is None or rows.groups.ndim == 1:
        return int(np.bincount(numbered_strata(rows.y, rows.groups)).min())
    return min(
        int(np.bincount(numbered_strata(rows.y, column)).min()) for column in rows.groups.T
    )


def only_known_classes(judged: Rows, side: Ints, training: TrainingSet) -> Rows:
    """Exclude rows from their subgroups if their whole class is held out at once, or never."""
    first = np.full(training.n_classes, side.max())
    last = np.full(training.n_classes, side.min())
    np.minimum.at(first, training.y, side)
    np.maximum.at(last, training.y, side)
    split = (first < last)[judged.y]
    if (
        judged.groups is None or not split.any()
    ):  # one row per class: a rough error is better than none
        return judged
    split = split.reshape(-1, *[1] * (judged.groups.ndim - 1))
    return replace(judged, groups=np.where(split, judged.groups, -1))
