"""Rows, read once with their labels and groups as numbers, and the folds of a fit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np

from tailboost.core.array_types import Column, Floats, Groups, Hashes, Ints, Labels, Mask, Table
from tailboost.core.checks import (
    check_costs,
    check_indexes,
    check_length,
    coded,
    distinct_and_places,
    group_columns,
    n_rows_of,
    positions,
    row_weights,
    take,
    unpack,
)
from tailboost.rows.fingerprints import hash_rows, stratified_places
from tailboost.rows.subgroups import GroupNames

# Effective sizes are rounded to this number of decimals, so rounding errors of the row order vanish.
SIZE_DECIMALS = 6
# "auto" cross-fits up to this many distinct rows: one fit per fold and one on all rows in each round. With
# more rows, "auto" holds out a fifth, with two fits in each round.
CROSS_FIT_UP_TO = 50_000
N_FOLDS = 5
# Number of folds for "auto" if a classifier limits five folds to fewer distinct rows (`five_up_to`). A round
# then needs four fits instead of six.
FEW_FOLDS = 3
HELD_OUT = 0.2  # fraction of the rows
LEAST_HELD_OUT = 20  # least number of held-out rows of the smallest class in a group
# The fold of a row is stored as one byte.
MOST_FOLDS = 255


@dataclass(frozen=True, eq=False)
class Rows:
    """Rows of positive weight, with labels and groups as numbers.

    Attributes
    ----------
    y : ndarray of shape (n,)
        Class numbers; None for rows without labels.
    weight : ndarray of shape (n,)
        Sample weights, positive.
    groups : ndarray of shape (n, c), or None
        Number of the group of each row in each of c columns.
    words : str
        Description for messages.
    row_hashes : ndarray of shape (n,), optional
        Hash of the content, or of the cluster, equal for equal rows; None if all rows are different, as rows
        of scores are. One in 370,000 tables of 10⁷ different rows has two rows with one hash.
    n_given : int, optional
        Number of rows passed by the user; None if unknown.
    used : ndarray of int, shape (n,), optional
        Numbers of the rows among the rows passed by the user; None for all.
    fitted : bool
        Whether base models were fitted on these rows, so losses are not out of fold.
    refit : bool
        Whether models are fitted again after their losses were measured on these rows.
    X : table of n rows, optional
        Features. Classifiers keep rows without them.
    clusters : ndarray of int, shape (n,), optional
        Number of each row's cluster, such as a person: rows of a cluster stay in one fold.
    costs : ndarray of shape (n, K), optional
        Cost of each answer; until the rows are `numbered`, as given.
    classes : ndarray of shape (K,)
        The labels.
    names : GroupNames, optional
        The names of the groups.
    """

    y: Any
    weight: Floats
    groups: Ints | None
    words: str
    row_hashes: Hashes | None = None
    n_given: int | None = None
    used: Ints | None = None
    fitted: bool = False
    refit: bool = False
    X: Table = None
    clusters: Ints | None = None
    costs: Any = None
    classes: Any = None
    names: GroupNames | None = None

    @classmethod
    def read(
        cls,
        X: Table = None,
        y: Column = None,
        groups: Groups = None,
        sample_weight: Column = None,
        costs: Table = None,
        clusters: Column = None,
        *,
        suffix: str = "",
    ) -> Self:
        """Return given rows: the parameters of `tailboost.certify` and of ``fit``, checked.

        Names of columns of groups become columns. The names of arguments end with the ``suffix``.

        Raises
        ------
        ValueError
            If an argument has another number of rows, missing entries or invalid weights, or if pandas
            objects about these rows have different indexes.
        """
        X, y = unpack(X, y)
        columns = group_columns(groups, f"groups{suffix}", X)
        arguments = {"X": X, "y": y, "groups": groups if columns else None, "costs": costs}
        arguments |= {"clusters": clusters, "sample_weight": sample_weight}
        given = dict[str, Any]()
        for name, values in arguments.items():
            if values is not None:
                given[f"{name}{suffix}"] = values
        check_indexes(**given)
        given.pop(f"sample_weight{suffix}", None)  # may be one number
        if columns:
            given[f"groups{suffix}"] = columns
        classes = None
        if y is not None:
            classes, y = coded(y, f"y{suffix}", target=True)
            given[f"y{suffix}"] = y
        if not given:
            raise ValueError(f"X{suffix} and y{suffix} are needed")
        first = next(iter(given))
        n = n_rows_of(given[first])
        for name, values in given.items():
            check_length(values, name, n, first)
        names = numbers = None
        if columns:
            names, numbers = GroupNames.of(columns, f"groups{suffix}", n)
        if clusters is not None:
            _, clusters = coded(clusters, "clusters")
        weight = row_weights(sample_weight, n, f"sample_weight{suffix}")
        words = f"the {n:,} given rows"
        rows = cls(
            y,
            weight,
            numbers,
            words,
            n_given=n,
            X=X,
            clusters=clusters,
            costs=costs,
            classes=classes,
            names=names,
        )
        return rows.part(weight > 0)

    def __len__(self) -> int:
        return len(self.weight)

    @property
    def labels(self) -> Any:
        """The label of each row, shape (n,); None without labels."""
        return None if self.classes is None else self.classes[self.y]

    @property
    def columns(self) -> dict[Any, Labels]:
        """The group of each row by column; empty without groups."""
        if self.names is None or self.groups is None:
            return {}
        each = zip(self.names.titles, self.names.values, self.groups.T, strict=True)
        return {title: values[numbers] for title, values, numbers in each}

    @property
    def places(self) -> Ints:
        """Numbers of the rows among the rows passed by the user, shape (n,)."""
        if self.used is None:
            return np.arange(len(self))
        return self.used

    def part(self, mask: Mask) -> Self:
        """Return the rows of a mask, with their numbers among all passed rows in ``used``."""
        if mask.all():
            return self
        names = ("y", "weight", "groups", "row_hashes", "X", "clusters", "costs")
        parts = {name: take(getattr(self, name), mask) for name in names}
        return replace(self, used=self.places[mask], **parts)

    def occurring(self) -> Self:
        """Return the rows with the labels and groups that have a row alone, numbered anew."""
        classes = self.classes
        y = self.y
        if classes is not None:
            found, y = distinct_and_places(y)
            classes = classes[found]
        if self.names is None or self.groups is None:
            return replace(self, classes=classes, y=y)
        values = []
        numbers = []
        for of_column, column in zip(self.names.values, self.groups.T, strict=True):
            found, place = distinct_and_places(column)
            values.append(of_column[found])
            numbers.append(place)
        names = replace(self.names, values=tuple(values))
        groups = np.column_stack(numbers)
        return replace(self, classes=classes, y=y, names=names, groups=groups)

    def numbered(
        self, classes: Labels, names: GroupNames | None, words: str, suffix: str = ""
    ) -> Self:
        """Return the rows with the numbers of the labels and groups of a fit, and with hashes.

        Costs are checked. Raise ValueError for labels and groups that are not among those of the fit.
        """
        rows = self.occurring()
        y = positions(rows.classes, classes, f"y{suffix}")[rows.y]
        groups = rows.groups
        if groups is not None and names is not None and rows.names is not None:
            groups = rows.names.numbers_in(names, groups, f"groups{suffix}")
        costs = check_costs(rows.costs, len(y), classes, f"costs{suffix}")
        return replace(
            rows,
            y=y,
            classes=classes,
            groups=groups,
            names=names,
            costs=costs,
            words=words,
            row_hashes=hash_rows(rows.X),
        )

    def sizes(self, stratum: Ints, n_strata: int) -> Floats:
        """Return Kish's effective size (Σw)²/Σw² of each stratum, shape (m,); 0 without rows.

        Equal rows count as one row. ``stratum`` has the number of each row's stratum, shape (n,).
        """
        weight = self.weight
        if self.row_hashes is not None:
            contents, content = np.unique(self.row_hashes, return_inverse=True)
            # A pair of a stratum and a content is one number.
            pairs, place = distinct_and_places(stratum * len(contents) + content)
            stratum = pairs // len(contents)
            weight = np.bincount(place, weights=weight).astype(np.float64)
        sums = np.bincount(stratum, weights=weight, minlength=n_strata)
        squares = np.bincount(stratum, weights=weight**2, minlength=n_strata)
        return (sums**2 / np.where(squares > 0, squares, 1.0)).round(SIZE_DECIMALS)


@dataclass(frozen=True, eq=False)
class Split:
    """Parts of the training rows, held out one after the other while models are fitted on other rows."""

    fold: Ints  # shape (n,): number of the part in which a row is held out; −1: never held out
    scheme: Any  # "cv", "splits", or the held-out fraction
    fitted: Sequence[Mask] = ()  # for each part, the fitted rows while this part is held out

    @classmethod
    def of_rows(
        cls, rows: Rows, validation: Any, seed: int, five_up_to: float = np.inf
    ) -> Self:
        """Return a split of the training rows, by hashes of the rows and the seed.

        Parameters
        ----------
        rows : Rows
            The training rows.
        validation : "auto", int or float
            Number of folds, or fraction to hold out. "auto" cross-fits up to 50,000 distinct
            rows, and if a held-out fifth would contain fewer than 20 rows of a class in a group. Otherwise
            "auto" holds out a fifth.
        seed : int
            Seed of the hashes.
        five_up_to : float, default=inf
            Number of distinct rows beyond which "auto" takes three folds instead of five.

        Raises
        ------
        ValueError
            If no rows are left for the fit or for the selection data.
        """
        units = rows.X
        if rows.clusters is not None:
            units = rows.clusters[:, None]
        stratum = rows.y
        if rows.groups is not None:
            cells = np.column_stack([rows.groups, rows.y])
            stratum = np.unique(cells, axis=0, return_inverse=True)[1].ravel()
        places = stratified_places(hash_rows(units, seed), stratum, rows.weight)
        n_distinct = int(places.max()) + 1
        size = validation  # number of folds, or fraction to hold out
        if validation == "auto":
            size = N_FOLDS if n_distinct <= five_up_to else FEW_FOLDS
            least = np.unique(stratum, return_counts=True)[1].min()
            if n_distinct > CROSS_FIT_UP_TO and least * HELD_OUT >= LEAST_HELD_OUT:
                size = HELD_OUT
        if size >= 2:
            scheme: Any = "cv"
            fold = places % min(int(size), n_distinct)
        else:  # every (1/fraction)-th place is held out
            scheme = size
            fold = np.where(np.floor((places + 1) * size) > np.floor(places * size), 0, -1)
        fitted = [fold != j for j in range(int(fold.max()) + 1)]
        if not fitted or not fitted[0].any():
            raise ValueError(
                f"cv={validation!r}: of {n_distinct:,} distinct rows all or none would be "
                "validation rows; use folds, another fraction or more rows"
            )
        return cls(fold, scheme, fitted)

    @classmethod
    def from_splits(cls, rows: Rows, cv: Any) -> Split:
        """Return the parts of a splitter, or of an iterable of (fitted, held-out) row numbers.

        Raises
        ------
        ValueError
            If the rows cannot be split this way, or a cluster would be separated.
        """
        places = rows.places  # of the rows among those of the splits
        if hasattr(cv, "split"):  # a splitter gets the rows of positive weight
            cv = cv.split(rows.X, rows.y, rows.clusters)
            places = np.arange(len(rows))
        splits = list(cv)
        if not 1 <= len(splits) <= MOST_FOLDS:
            raise ValueError(
                f"cv makes {len(splits):,} splits; from 1 to {MOST_FOLDS} are possible"
            )
        numbers = np.arange(max(len(rows), rows.n_given or 0))
        units = rows.clusters
        if units is None:
            units = np.arange(len(rows))
        fold = np.full(len(rows), -1)
        fitted = []
        for j, (train, test) in enumerate(splits):
            try:
                is_fitted = np.isin(places, numbers[np.asarray(train)])
                is_held_out = np.isin(places, numbers[np.asarray(test)])
            except IndexError as error:
                raise ValueError(
                    f"cv: split {j} must be two arrays of row numbers: {error}"
                ) from error
            fault = ""
            if np.isin(units[is_held_out], units[is_fitted]).any():
                fault = "fits rows that it holds out, or separates rows of a cluster"
            elif not (is_held_out.any() and is_fitted.any()):
                fault = "leaves no rows to fit or to judge on"
            elif (fold[is_held_out] >= 0).any():
                fault = "holds out rows that an earlier one held out"
            if fault:
                raise ValueError(f"cv: split {j} {fault}")
            fold[is_held_out] = j
            fitted.append(is_fitted)
        return cls(fold, "splits", fitted)

    @property
    def is_partition(self) -> bool:
        """Whether each row is held out once, and is fitted in all other parts."""
        others = [self.fold != j for j in range(len(self.fitted))]
        return self.fold.min() == 0 < self.fold.max() and np.array_equal(others, self.fitted)

    def selection_rows(self, rows: Rows) -> Rows:
        """Return the selection data: the held-out rows among the training rows.

        Models fitted without them are fitted again on all rows.
        """
        held_out = rows.part(self.fold >= 0)
        words = f"the {len(held_out):,} held-out rows"
        if self.scheme in ("cv", "splits"):
            of_rows = f"{len(held_out):,} of {rows.words}"
            if len(held_out) == len(rows):
                of_rows = rows.words
            words = f"out-of-fold probabilities of {of_rows} ({len(self.fitted)} folds)"
        return replace(held_out, words=words, refit=True)
