"""Checked training set of a fit, and its folds."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tailboost.core.array_types import Floats, Hashes, Ints, Mask, Table
from tailboost.rows.fingerprints import (
    Fingerprint,
    digest,
    hash_rows,
    stratified_places,
    tiny_hashes,
)
from tailboost.rows.rows import Rows, numbered_strata

# "auto" cross-fits up to this many distinct rows: one fit per fold and one on all rows in each round. Beyond,
# it holds out a fifth, with two fits in each round.
CROSS_FIT_UP_TO = 50_000
N_FOLDS = 5
# Number of folds for "auto" if a classifier limits five folds to fewer distinct rows (`five_up_to`). A round
# then needs four fits instead of six.
FEW_FOLDS = 3
HELD_OUT = 0.2  # fraction of the rows
LEAST_HELD_OUT = 20  # least number of held-out rows of the smallest class in a group


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
        if among is not None:
            keys = keys[among]
        return len(np.unique(keys))

    @cached_property
    def fingerprints(self) -> Fingerprint:
        """Fingerprints of the rows, which detect data leakage."""
        return Fingerprint.from_table(self.X)

    @property
    def rows(self) -> Rows:
        """Training rows as selection data."""
        words = f"the {len(self.y):,} training rows"
        hashes = self.hashes
        if self.clusters is not None:
            hashes = self.split_hashes(0)
        rows = Rows(
            self.y, self.weight, self.groups, words, tiny_hashes(hashes), n_given=self.n_given
        )
        if len(self.used) < self.n_given:
            rows = replace(rows, used=self.used)
        return rows

    def split_hashes(self, seed: int) -> Hashes:
        """Return the hash of each row's cluster, or of its content; equal hashes share a fold."""
        if self.clusters is None:
            return hash_rows(self.X, seed=seed)
        return hash_rows(self.clusters[:, None], seed=seed)

    def digest(self, classes: NDArray[Any]) -> str:
        """Return a digest of rows, labels, weights and groups, for checkpoints."""
        tables = [(self.hashes, self.rows)]
        if self.validation is not None:
            X_val, validation_rows = self.validation
            tables.append((hash_rows(X_val), validation_rows))
        contents = [repr(classes.tolist()).encode()]
        for hashes, rows in tables:
            contents += [hashes.tobytes(), rows.y.tobytes(), rows.weight.tobytes()]
            if rows.groups is not None:
                contents.append(rows.groups.tobytes())
        return digest(*contents)


def folds(places: Ints, k: int) -> Ints:
    """Return the fold of each place, see `stratified_places`."""
    return places % k


def held_out(places: Ints, fraction: float) -> Mask:
    """Return which places are held out: every (1/fraction)-th, see `stratified_places`."""
    is_held_out: Mask = np.floor((places + 1) * fraction) > np.floor(places * fraction)
    return is_held_out


@dataclass(frozen=True)
class Split:
    """Assignment of rows to folds."""

    fold: Ints  # shape (n,): number of the fold in which a row is held out; −1: never held out
    validation: object  # "cv", or the fraction that is held out

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
            it holds out a fifth.
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
            how_many = "no"
            if is_held_out.all():
                how_many = "only"
            raise ValueError(
                f"cv={size:g} leaves {how_many} validation rows of {n_distinct} "
                "distinct ones; use folds, another fraction or more rows"
            )
        return cls(np.where(is_held_out, 0, -1), size)

    @property
    def parts(self) -> list[Mask]:
        """Masks of the rows that are held out together, one per fold."""
        return [self.fold == j for j in range(int(self.fold.max()) + 1)]

    def selection_rows(self, train: Rows, what: str, *, refit: bool = True) -> Rows:
        """Return the selection data: the held-out rows among the training rows.

        Messages call rows of all folds out-of-fold ``what``. With ``refit``, models that were fitted without
        a held-out fraction are fitted again on all rows.
        """
        if self.validation == "cv":
            words = f"out-of-fold {what} of the {len(train.y):,} training rows ({len(self.parts)} folds)"
            return replace(train, words=words, fold=self.fold.astype(np.uint8), refit=True)
        held_rows = train.part(self.fold == 0)
        return replace(held_rows, words=f"the {len(held_rows):,} held-out rows", refit=refit)


def _default_size(
    rows: Rows, hashes: Hashes, n_distinct: int, five_up_to: float
) -> int | float:
    """Return the number of folds, or the fraction to hold out, for "auto", see `Split.from_training_set`."""
    if n_distinct > CROSS_FIT_UP_TO:
        _, first_of_content = np.unique(hashes, return_index=True)
        is_first = np.isin(np.arange(len(rows)), first_of_content)
        if _smallest_stratum(rows.part(is_first)) * HELD_OUT >= LEAST_HELD_OUT:
            return HELD_OUT
    if n_distinct > five_up_to:
        return FEW_FOLDS
    return N_FOLDS


def _smallest_stratum(rows: Rows) -> int:
    """Return the number of rows of the smallest class in a group, of any column of groups."""
    columns: Any = [None]  # without groups, the smallest class
    if rows.groups is not None:
        columns = rows.groups.reshape(len(rows.y), -1).T
    return min(int(np.bincount(numbered_strata(rows.y, column)).min()) for column in columns)


def only_known_classes(rows: Rows, fold: Ints, training: TrainingSet) -> Rows:
    """Return the selection data without the subgroups of rows whose class no model has seen, or all have.

    ``fold`` is the fold in which each training row is held out, −1 for none. If one fold has all rows of a
    class, the model for that fold does not know the class.
    """
    first_fold = np.full(training.n_classes, fold.max())
    last_fold = np.full(training.n_classes, fold.min())
    np.minimum.at(first_fold, training.y, fold)
    np.maximum.at(last_fold, training.y, fold)
    is_known = (first_fold < last_fold)[rows.y]
    if rows.groups is None or not is_known.any():
        return rows  # with one row per class, a rough error is better than none
    # The shape is (n,), or (n, 1) for several columns of groups.
    is_known = is_known.reshape(-1, *[1] * (rows.groups.ndim - 1))
    return replace(rows, groups=np.where(is_known, rows.groups, -1))
