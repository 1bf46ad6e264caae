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
        return len(np.unique(keys if among is None else keys[among]))

    @cached_property
    def fingerprints(self) -> Fingerprint:
        """Fingerprints of the rows, which detect data leakage."""
        return Fingerprint.of_rows(self.X)

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
        return replace(rows, used=self.used) if len(self.used) < self.n_given else rows

    def split_hashes(self, seed: int) -> Hashes:
        """Return the hash of each row's cluster, or of its content; equal hashes share a fold."""
        if self.clusters is None:
            return hash_rows(self.X, seed=seed)
        return hash_rows(self.clusters[:, None], seed=seed)

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

        Raises
        ------
        ValueError
            If no rows are left for the fit or for the selection data.
        """
        train = training.rows
        stated = validation
        hashes = training.split_hashes(seed)
        places = stratified_places(hashes, numbered_strata(train.y, train.groups), train.weight)
        n_distinct = int(places.max()) + 1
        if validation == "auto":
            validation = N_FOLDS
            if n_distinct > five_up_to:
                validation = FEW_FOLDS
            if n_distinct > CROSS_FIT_UP_TO:
                first = np.unique(hashes, return_index=True)[1]
                smallest = _smallest_unit(train.part(np.isin(np.arange(len(train)), first)))
                if smallest * HELD_OUT >= LEAST_HELD_OUT:
                    validation = HELD_OUT
        if validation == "cv":
            validation = N_FOLDS
        if validation >= 2:
            k = min(int(validation), n_distinct)
            if k < 2:
                raise ValueError(
                    f"cv={stated!r}: all {len(train.y):,} rows of X are the same, so that "
                    f"none can be held out; at least two distinct rows are needed{otherwise}"
                )
            return cls(folds(places, k), "cv")
        held = held_out(places, validation)
        if not held.any() or held.all():
            how_many = "only" if held.any() else "no"
            raise ValueError(
                f"cv={validation:g} leaves {how_many} validation rows of {n_distinct} "
                "distinct ones; use folds, another fraction or more rows"
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
    columns: Any = [None]
    if rows.groups is not None:
        columns = rows.groups.reshape(len(rows.y), -1).T
    return min(int(np.bincount(numbered_strata(rows.y, each)).min()) for each in columns)


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
