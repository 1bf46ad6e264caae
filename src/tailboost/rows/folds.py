"""The folds of a fit, and the rows that it holds out."""

from collections.abc import Sequence
from dataclasses import replace
from numbers import Real
from typing import Any, Self

import numpy as np

from tailboost.core import Ints, Mask, frozen_object
from tailboost.rows.fingerprints import hash_rows, stratified_places
from tailboost.rows.rows import Rows, crossed

# "auto" cross-fits up to this many distinct rows: one fit per fold and one on all rows in each round. With
# more rows, "auto" holds out a fifth, with two fits in each round.
CROSS_FIT_UP_TO = 50_000
N_FOLDS = 5
# Number of folds for "auto" of more distinct rows: four fits in each round instead of six.
FIVE_FOLDS_UP_TO = 5_000
FEW_FOLDS = 3
HELD_OUT = 0.2  # fraction of the rows
LEAST_HELD_OUT = 20  # least number of held-out rows of the smallest class in a group
# The fold of a row is stored as one byte.
MOST_FOLDS = 255


@frozen_object
class Split:
    """Parts of the training rows, held out one after the other while models are fitted on other rows."""

    fold: Ints  # shape (n,): number of the part in which a row is held out; −1: never held out
    scheme: Any  # "cv", "splits", or the held-out fraction
    fitted: Sequence[Mask] = ()  # for each part, the fitted rows while this part is held out

    @classmethod
    def of(cls, rows: Rows, cv: Any, seed: int) -> Self:
        """Return a split of the training rows, by hashes of the rows and the seed.

        Parameters
        ----------
        rows : Rows
            The training rows.
        cv : "auto", int, float, splitter or iterable of (fitted, held-out) row numbers
            Number of folds, fraction to hold out, or the parts. "auto" makes five folds, three of more than
            5,000 distinct rows; of more than 50,000 it holds out a fifth, if this has 20 rows of each class
            in a group.
        seed : int
            Seed of the hashes.

        Raises
        ------
        ValueError
            If no rows are left for the fit or for the selection data.
        """
        if not isinstance(cv, (str, Real)):
            return cls.from_splits(rows, cv)
        units = rows.X
        if rows.clusters is not None:
            units = rows.clusters[:, None]
        stratum = crossed([*rows.groups.T, rows.y], len(rows))
        places = stratified_places(hash_rows(units, seed), stratum, rows.weight)
        n_distinct = int(places.max()) + 1
        size: Any = cv  # number of folds, or fraction to hold out
        if cv == "auto":
            size = N_FOLDS if n_distinct <= FIVE_FOLDS_UP_TO else FEW_FOLDS
            least = np.bincount(stratum).min()
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
                f"cv={cv!r}: of {n_distinct:,} distinct rows all or none would be "
                "validation rows; use folds, another fraction or more rows"
            )
        return cls(fold, scheme, fitted)

    @classmethod
    def from_splits(cls, rows: Rows, cv: Any) -> Self:
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
