"""Checked rows: labels, weights and groups as numbers, the training set of a fit, and its folds."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from tailboost.core.array_types import Bytes, Column, Floats, Hashes, Ints, Mask, Table
from tailboost.core.checks import distinct_and_places
from tailboost.core.spelling import how_many
from tailboost.rows.fingerprints import (
    hash_rounded_rows,
    hash_rows,
    stratified_places,
)
from tailboost.rows.seen import TRAINED_ON, Seen

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


def memberships(groups: Ints) -> tuple[Ints, Ints]:
    """Return the row and the subgroup of each membership, ordered by row.

    Groups of shape (n,) hold one subgroup number per row, groups of shape (n, c) up to c. The number −1 means
    no subgroup.
    """
    subgroup = groups.ravel()
    row = np.arange(len(groups))
    if groups.ndim > 1:
        row = np.repeat(row, groups.shape[1])
    is_member = subgroup >= 0
    if is_member.all():
        return row, subgroup
    return row[is_member], subgroup[is_member]


def numbered_strata(y: Ints, groups: Ints | None) -> Ints:
    """Return the number of each row's combination of class and subgroups, ordered by subgroup and class.

    Without groups, this is the number of the class. Shape (n,).
    """
    if groups is None:
        return y
    if groups.ndim == 1:
        _, stratum = np.unique((y.max() + 1) * groups + y, return_inverse=True)
        return stratum
    _, stratum = np.unique(np.column_stack([groups, y]), axis=0, return_inverse=True)
    return stratum.ravel()  # some versions of NumPy return (n, 1)


@dataclass(frozen=True)
class Rows:
    """Rows with labels, weights and subgroups, for the comparison of candidates."""

    y: Ints  # shape (n,): class numbers
    weight: Floats  # shape (n,): sample weights, positive
    # Shape (n,) or (n, c): number of the subgroup of each row, −1 for none. A table of c group columns has
    # one number per column, and its subgroups overlap. None without subgroups.
    groups: Ints | None
    words: str  # description for messages
    # Shape (n,): hash of the content, equal for equal rows; None if all rows are different. One in 370,000
    # tables of 10⁷ different rows has two rows with one hash.
    row_hashes: Hashes | None = None
    n_given: int | None = None  # number of rows passed by the user; None if unknown
    # Numbers of the rows among the rows passed by the user; None for all.
    used: Ints | None = None
    # Whether base models were fitted on these rows, so losses are not out of fold.
    fitted: bool = False
    # Shape (n,): fold of each row if losses are out of fold; otherwise None.
    fold: Bytes | None = None
    # Shape (n,): sum of the squared weights of the rows aggregated in each row; None if each is a single row.
    squares: Floats | None = None
    # Whether models are fitted again after their losses were measured on these rows.
    refit: bool = False

    def __len__(self) -> int:
        return len(self.weight)

    @property
    def base(self) -> Floats:
        """Normalised weights, shape (n,)."""
        return self.weight / self.weight.sum()

    def part(self, mask: Mask) -> Rows:
        """Return the rows of a mask, with their numbers among all passed rows in ``used``."""
        arrays = {}
        for name in ("y", "weight", "groups", "row_hashes", "used", "fold", "squares"):
            values = getattr(self, name)
            if values is not None:
                arrays[name] = values[mask]
        if self.used is None and not mask.all():  # None stood for all rows
            arrays["used"] = np.flatnonzero(mask)
        return replace(self, **arrays)

    def wrong(self, answers: Column) -> Mask:
        """Return whether each prediction is wrong, for class numbers of shape (n,) or one class number."""
        return answers != self.y

    def sizes(self, index: Ints, n_subgroups: int) -> Floats:
        """Return Kish's effective size (Σw)²/Σw² of each subgroup, shape (m,); 0 without rows.

        Equal rows count as one row. ``index`` has the subgroup of each row, −1 for none, in the shape (n,),
        or (n, c) for several columns of groups.
        """
        row, subgroup = memberships(index)
        weight = self.weight[row]
        if self.squares is not None:  # each row stands for several, whose squares are known
            squares = self.squares[row]
        elif self.row_hashes is None:  # all rows have different contents
            squares = weight**2
        else:
            contents, content_of_row = np.unique(self.row_hashes, return_inverse=True)
            # A pair of a subgroup and a content is one number.
            pair_of_row = subgroup * len(contents) + content_of_row[row]
            pairs, place = distinct_and_places(pair_of_row)
            subgroup = pairs // len(contents)
            weight = np.bincount(place, weights=weight).astype(np.float64)
            squares = weight**2
        sums = np.bincount(subgroup, weights=weight, minlength=n_subgroups)
        sums_of_squares = np.bincount(subgroup, weights=squares, minlength=n_subgroups)
        divisors = np.where(sums_of_squares > 0, sums_of_squares, 1.0)  # 0 without rows
        return (sums**2 / divisors).round(SIZE_DECIMALS)


# -- the rows of a fit --------------------------------------------------------------------------------------


@dataclass
class TrainingSet:
    """Checked rows of a fit with positive weight (``used``), with labels and groups as numbers."""

    X: Table
    y: Ints
    weight: Floats
    groups: Ints | None  # number of the group of each row; None without groups
    n_classes: int
    used: Ints
    n_given: int
    # Features and rows of the user's selection data; None without them.
    validation: tuple[Any, Rows] | None
    # Number of each row's cluster, such as a person: rows of a cluster stay in one fold. None: no clusters.
    clusters: Ints | None = None
    # Features and rows without labels; None without such rows.
    # Costs of answers in the validation set if there is one, otherwise in these rows; None without costs.
    costs: Floats | None = None
    # The argument `training_rows`, the rows of the fits of frozen estimators; None without it.
    named: Seen | None = None
    # Whether the models only read scores: then rows with equal scores are different rows.
    are_scores: bool = False

    @cached_property
    def hashes(self) -> Hashes:
        """Hash of the content of each row."""
        return hash_rows(self.X)

    def n_distinct(self, among: Mask | None = None) -> int:
        """Return the number of distinct rows with their labels, among the rows of a mask."""
        keys = self.hashes * np.uint64(self.n_classes) + self.y.astype(np.uint64)
        if among is not None:
            keys = keys[among]
        return len(np.unique(keys))

    @cached_property
    def seen(self) -> Seen:
        """The rows, to recognise them later."""
        return Seen.of(hash_rounded_rows(self.X), TRAINED_ON)

    @property
    def rows(self) -> Rows:
        """Training rows as selection data."""
        words = f"the {len(self.y):,} training rows"
        if self.clusters is not None:
            words += f" of {how_many(len(np.unique(self.clusters)), 'cluster')}"
        hashes = None
        if not self.are_scores:
            hashes = self.hashes if self.clusters is None else self.split_hashes(0)
        rows = Rows(self.y, self.weight, self.groups, words, hashes, n_given=self.n_given)
        if len(self.used) < self.n_given:
            rows = replace(rows, used=self.used)
        return rows

    def split_hashes(self, seed: int) -> Hashes:
        """Return the hash of each row's cluster, or of its content; equal hashes share a fold."""
        if self.clusters is None:
            return hash_rows(self.X, seed=seed)
        return hash_rows(self.clusters[:, None], seed=seed)


def folds(places: Ints, k: int) -> Ints:
    """Return the fold of each place, see `stratified_places`."""
    return places % k


def held_out(places: Ints, fraction: float) -> Mask:
    """Return which places are held out: every (1/fraction)-th, see `stratified_places`."""
    return np.floor((places + 1) * fraction) > np.floor(places * fraction)


@dataclass(frozen=True)
class Split:
    """Parts of the training rows, held out one after the other while models are fitted on other rows."""

    fold: Ints  # shape (n,): number of the part in which a row is held out; −1: never held out
    scheme: Any  # "cv", "splits", or the held-out fraction
    # For each part, a mask of the fitted rows while this part is held out; None for all other rows.
    fitted_parts: tuple[Mask, ...] | None = None

    @classmethod
    def of_none(cls, n: int, scheme: str) -> Split:
        """Return a split of n rows without a held-out row."""
        return cls(np.full(n, -1), scheme)

    @classmethod
    def from_training_set(
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
            "auto" holds out a fifth.
        seed : int
            Seed of the hashes.
        otherwise : str, default=""
            Advice to add to the message if all rows are equal.
        five_up_to : float, default=inf
            Number of distinct rows beyond which "auto" takes three folds instead of five.

        Raises
        ------
        ValueError
            If no rows are left for the fit or for the selection data.
        """
        rows = training.rows
        hashes = training.split_hashes(seed)
        places = stratified_places(hashes, numbered_strata(rows.y, rows.groups), rows.weight)
        n_distinct = int(places.max()) + 1
        size = validation  # number of folds, or fraction to hold out
        if validation == "cv":
            size = N_FOLDS
        elif validation == "auto":
            size = _default_size(rows, hashes, n_distinct, five_up_to)
        if size >= 2:
            n_folds = min(int(size), n_distinct)
            if n_folds < 2:
                raise ValueError(
                    f"cv={validation!r}: all {len(rows):,} rows of X are the same, so that "
                    f"none can be held out; at least two distinct rows are needed{otherwise}"
                )
            return cls(folds(places, n_folds), "cv")
        is_held_out = held_out(places, size)
        if is_held_out.all() or not is_held_out.any():
            no_or_only = "no"
            if is_held_out.all():
                no_or_only = "only"
            raise ValueError(
                f"cv={size:g} leaves {no_or_only} validation rows of {n_distinct} "
                "distinct ones; use folds, another fraction or more rows"
            )
        return cls(np.where(is_held_out, 0, -1), size)

    @classmethod
    def from_splits(cls, training: TrainingSet, cv: Any) -> Split:
        """Return the parts of a splitter, or of an iterable of (fitted, held-out) row numbers.

        Raises
        ------
        ValueError
            If the rows cannot be split this way, or a cluster would be separated.
        """
        n = len(training.y)
        # The place of each row of the splits among the rows of positive weight, −1 for other rows.
        position = np.full(training.n_given, -1)
        position[training.used] = np.arange(n)
        if hasattr(cv, "split"):  # a splitter gets the rows of positive weight
            splits = list(cv.split(training.X, training.y, training.clusters))
            position = np.arange(n)
        else:
            splits = list(cv)
        if not 1 <= len(splits) <= MOST_FOLDS:
            raise ValueError(
                f"cv makes {len(splits):,} splits; from 1 to {MOST_FOLDS} are possible"
            )
        fold = np.full(n, -1)
        fitted_parts = []
        for j, (train, test) in enumerate(splits):
            is_held_out = _row_mask(test, position, j)
            is_fitted = _row_mask(train, position, j)
            if (fold[is_held_out] >= 0).any():
                raise ValueError(
                    f"cv: split {j} holds out rows that an earlier one held out; hold out "
                    "each row once"
                )
            _check_split(j, is_held_out, is_fitted, training.clusters)
            fold[is_held_out] = j
            fitted_parts.append(is_fitted)
        split = cls(fold, "splits")
        if not np.array_equal(fitted_parts, split.fitted):
            split = replace(split, fitted_parts=tuple(fitted_parts))
        return split

    @property
    def parts(self) -> list[Mask]:
        """Masks of the held-out rows, one for each part."""
        return [self.fold == j for j in range(int(self.fold.max()) + 1)]

    @property
    def fitted(self) -> list[Mask]:
        """Masks of the fitted rows, one for each held-out part."""
        if self.fitted_parts is not None:
            return list(self.fitted_parts)
        return [~part for part in self.parts]

    @property
    def is_complementary(self) -> bool:
        """Whether all other rows are fitted while a part is held out."""
        return self.fitted_parts is None

    @property
    def is_partition(self) -> bool:
        """Whether each row is held out once, and is fitted in all other parts."""
        return self.is_complementary and self.fold.min() == 0 < self.fold.max()

    def selection_rows(self, train: Rows, what: str, *, refit: bool = True) -> Rows:
        """Return the selection data: the held-out rows among the training rows.

        With several folds, messages name the rows "out-of-fold ``what``". With ``refit``, models fitted
        without held-out rows are fitted again on all rows.
        """
        is_held_out = self.fold >= 0
        held_out_rows = train.part(is_held_out)
        if self.scheme not in ("cv", "splits"):
            words = f"the {len(held_out_rows):,} held-out rows"
            return replace(held_out_rows, words=words, refit=refit)
        n_parts = len(self.parts)
        selecting = f"{train.words} ({n_parts} folds)"
        if self.scheme == "splits":
            splits = how_many(n_parts, "split")
            selecting = f"{len(held_out_rows):,} of {train.words} ({splits})"
        return replace(
            held_out_rows,
            words=f"out-of-fold {what} of {selecting}",
            fold=self.fold[is_held_out].astype(np.uint8),
            refit=refit,
        )


def _check_split(split: int, held_out: Mask, fitted_rows: Mask, clusters: Ints | None) -> None:
    """Raise ValueError if a split shares rows or clusters between its sides, or has an empty side."""
    if (held_out & fitted_rows).any():
        raise ValueError(f"cv: split {split} fits rows that it also holds out")
    if not held_out.any():
        raise ValueError(f"cv: split {split} leaves no rows to judge on")
    if not fitted_rows.any():
        raise ValueError(f"cv: split {split} leaves no rows to fit on")
    if clusters is not None and np.isin(clusters[held_out], clusters[fitted_rows]).any():
        raise ValueError(
            f"cv: split {split} separates rows with the same value of clusters; GroupKFold "
            "keeps them together"
        )


def _row_mask(rows: Any, position: Ints, split: int) -> Mask:
    """Return rows of a split as a mask of the rows with positive weight, shape (n,).

    ``rows`` has row numbers, or is a mask of all rows. ``position`` has the place of each row among the rows
    with positive weight, −1 for a row of weight 0. ``split`` is the number of the split, for messages.
    """
    rows = np.asarray(rows)
    if rows.dtype == np.bool_ and rows.shape == position.shape:
        rows = np.flatnonzero(rows)
    if rows.ndim != 1 or (rows.size and rows.dtype.kind not in "iu"):
        raise ValueError(
            f"cv: split {split} must be two arrays of row numbers, got {rows.dtype} in one"
        )
    if rows.size and not (rows.min() >= 0 and rows.max() < len(position)):
        raise ValueError(
            f"cv: split {split} names row {rows.max():,}, but there are {len(position):,} rows"
        )
    places = position[rows.astype(np.intp)]
    mask = np.zeros(np.count_nonzero(position >= 0), dtype=bool)
    mask[places[places >= 0]] = True
    return mask


def _default_size(
    rows: Rows, hashes: Hashes, n_distinct: int, five_up_to: float
) -> int | float:
    """Return the number of folds, or the fraction to hold out, for "auto", see `Split.from_training_set`.

    Parameters
    ----------
    rows : Rows
        The training rows, or their clusters.
    hashes : ndarray of int, shape (n,)
        Hashes that are equal for rows of equal content.
    n_distinct : int
        Number of distinct rows.
    five_up_to : float
        The most distinct rows for five folds; more have three.
    """
    if n_distinct > CROSS_FIT_UP_TO:
        _, first_of_content = np.unique(hashes, return_index=True)
        different = rows.part(np.isin(np.arange(len(rows)), first_of_content))
        columns: Any = [None]  # without groups, the strata are the classes
        if different.groups is not None:
            columns = different.groups.reshape(len(different), -1).T
        sizes = [np.bincount(numbered_strata(different.y, column)) for column in columns]
        if min(int(of_column.min()) for of_column in sizes) * HELD_OUT >= LEAST_HELD_OUT:
            return HELD_OUT
    if n_distinct > five_up_to:
        return FEW_FOLDS
    return N_FOLDS
