"""The rows that select a rule: parts of the training rows that are held out, or other rows."""

from collections.abc import Sequence
from dataclasses import replace
from numbers import Real
from typing import Any, Self

import numpy as np

from tailboost.core import Ints, Mask, frozen_object
from tailboost.rows import Rows, crossed, hash_rows, stratified_turns

# "auto" of more distinct rows holds out a fifth: two fits of each model, not one per fold and a last one.
CROSS_FIT_UP_TO = 50_000
# "auto" of more distinct rows makes few folds: four fits of each model instead of six.
FIVE_FOLDS_UP_TO = 5_000
N_FOLDS = 5
FEW_FOLDS = 3
HELD_OUT = 0.2  # fraction of the rows
FEWEST_TO_HOLD_OUT = 100  # rows of the rarest class in a group, of which 20 are then held out
# Each fold is a fit, and a mask of the rows.
MOST_FOLDS = 255


@frozen_object
class Split:
    """The selection data, and the parts of the training rows that are held out one after the other.

    Attributes
    ----------
    scheme : str or float
        "cv", "splits", or the held-out fraction; "X_val" or "frozen" if no training row is held out.
    selecting : Rows
        The selection data.
    parts : sequence of ndarray of bool, shape (n,) each
        The rows of each part among the selection data; none if no model is fitted on these rows.
    fitted : sequence of ndarray of bool
        For each part, the training rows on which models are fitted while it is held out.
    """

    scheme: str | float
    selecting: Rows
    parts: Sequence[Mask] = ()
    fitted: Sequence[Mask] = ()

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
        stratum = crossed([*rows.groups.T, rows.y], len(rows))
        # The number of each row in an order by class and group, and within these by hashes. So every k-th row
        # is a stratified draw. Equal rows have one number.
        units = rows.X if rows.clusters is None else rows.clusters[:, None]
        turn = stratified_turns(hash_rows(units, seed), stratum, rows.weight)
        n_distinct = turn.max() + 1
        if isinstance(cv, str):
            n_rarest = np.bincount(stratum).min()  # rows of the rarest class in a group
            cv = HELD_OUT
            if n_distinct <= FIVE_FOLDS_UP_TO:
                cv = N_FOLDS
            elif n_distinct <= CROSS_FIT_UP_TO or n_rarest < FEWEST_TO_HOLD_OUT:
                cv = FEW_FOLDS
        scheme: str | float = "cv"
        if cv >= 2:
            fold = turn % min(int(cv), n_distinct)
        else:  # every (1/cv)-th row is held out
            scheme = float(cv)
            fold = np.where(np.floor((turn + 1) * cv) > np.floor(turn * cv), 0, -1)
        fitted = [fold != j for j in range(fold.max() + 1)]
        if not fitted or not fitted[0].any():
            raise ValueError(
                f"cv={cv!r}: of {n_distinct:,} distinct rows or clusters all or none would be "
                "validation rows; use folds, another fraction or more rows"
            )
        return cls.holding_out(rows, scheme, fold, fitted)

    @classmethod
    def from_splits(cls, rows: Rows, cv: Any) -> Self:
        """Return the parts of a splitter, or of an iterable of (fitted, held-out) row numbers.

        Raises
        ------
        ValueError
            If the rows cannot be split this way, or a cluster would be separated.
        """
        numbers = rows.given_numbers  # of the rows, as the splits count them
        n_counted = rows.n_given or len(rows)
        if hasattr(cv, "split"):  # a splitter gets the rows of positive weight
            cv = cv.split(rows.X, rows.y, rows.clusters)
            n_counted = len(rows)
            numbers = np.arange(n_counted)
        splits = list(cv)
        if not 1 <= len(splits) <= MOST_FOLDS:
            raise ValueError(
                f"cv makes {len(splits):,} splits; from 1 to {MOST_FOLDS} are possible"
            )
        # What no split may divide.
        units = numbers if rows.clusters is None else rows.clusters
        fold = np.full(len(rows), -1)
        fitted = []
        for j, (train, test) in enumerate(splits):
            masks = np.zeros((2, n_counted), bool)
            try:  # a split may also be a mask, or count from the end
                masks[0, np.asarray(train)] = masks[1, np.asarray(test)] = True
            except IndexError as error:
                raise ValueError(
                    f"cv: split {j} must be two arrays of row numbers: {error}"
                ) from error
            is_fitted, is_held_out = masks[:, numbers]
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
        return cls.holding_out(rows, "splits", fold, fitted)

    @classmethod
    def holding_out(
        cls, rows: Rows, scheme: str | float, fold: Ints, fitted: Sequence[Mask]
    ) -> Self:
        """Return a split whose selection data are the held-out rows among the training rows.

        ``fold`` has the part of each training row, −1 for one that is never held out. Models fitted without a
        part are fitted again on all rows.
        """
        is_held_out = fold >= 0
        held_out = rows.part(is_held_out)
        words = f"the {len(held_out):,} held-out rows"
        if isinstance(scheme, str):
            share = "" if is_held_out.all() else f"{len(held_out):,} of "
            whole = f"the {len(rows):,} training rows"
            if rows.clusters is not None:
                whole += f" of {len(np.unique(rows.clusters)):,} clusters"
            words = f"out-of-fold probabilities of {share}{whole} ({len(fitted)} folds)"
        return cls(
            scheme,
            replace(held_out, words=words, refit=True),
            [fold[is_held_out] == j for j in range(len(fitted))],
            fitted,
        )
