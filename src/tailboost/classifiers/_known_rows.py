"""Rows that had a part in making a classifier are known again, from fingerprints kept with it."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from tailboost._rows import Sketch, hash_rows
from tailboost._typing import Ints
from tailboost.classifiers._warn import warn_user
from tailboost.data import Rows


class SeenRowsError(ValueError):
    """Rows that were to judge a classifier had a part in its making."""


class ResubstitutionWarning(UserWarning):
    """λ is chosen on rows that members were fitted on, whose losses are too small."""


class KnownRows:
    """What a fitted classifier says of rows that are to judge it.

    Attributes
    ----------
    seen_rows_ : Sketch
        Fingerprints of the rows that members were fitted on.
    chosen_rows_ : tuple of Sketch
        Those of other rows that the combination was chosen on.
    """

    seen_rows_: Sketch
    chosen_rows_: tuple[Sketch, ...]

    @abstractmethod
    def _checked(self, X: Any) -> Any:
        """Return a table in the form in which it was fitted on."""

    def _noting_seen(self, X: Any, rows: Rows, instead: str) -> Rows:
        """Return rows given to choose λ on, with a word and a warning if members were fitted on them."""
        hashes = hash_rows(X)
        if not self.seen_rows_.beyond_chance(hashes):
            return rows
        share = self.seen_rows_.share(hashes)
        warn_user(
            f"{share:.0%} of {rows.words} were fitted on, and members err less there than on fresh rows: "
            f"give rows that were not given to fit, or leave X and y out for {instead}",
            ResubstitutionWarning,
        )
        return replace(rows, words=f"{rows.words}, {share:.0%} of which were fitted on", fitted=True)

    def seen_share(self, X: Any) -> float:
        """Return the share of some rows that members were fitted on: errors on such rows say little.

        Rows are known by their content, labels aside, from fingerprints kept with the model
        (``seen_rows_``, also in its file): of all training rows up to 50,000 different ones, else of a sample
        of so many. Whoever has the model can so find out whether a row that he knows was among them.

        Parameters
        ----------
        X : array-like of shape (n, d)
            The rows; in a table with few different values fresh rows may equal others by chance.

        Returns
        -------
        float
            From 0 to 1, each row counting once; NaN where the sample has nothing to say, as of a few rows
            beside millions.

        Examples
        --------
        >>> from sklearn.datasets import load_iris
        >>> from tailboost import AdaBoostClassifier
        >>> X, y = load_iris(return_X_y=True)
        >>> clf = AdaBoostClassifier(n_estimators=3).fit(X[::2], y[::2])
        >>> clf.seen_share(X[::2])
        1.0
        """
        check_is_fitted(self)
        hashes = hash_rows(self._checked(X))
        return self.seen_rows_.share(hashes)

    def check_unseen(self, X: Any, name: str = "X") -> None:
        """Raise if some rows had a part in making this classifier, so that its errors there prove little.

        That is if more of them than chance explains (and than one in twenty) were fitted on or were among
        the rows that members were judged on: ``X_val``, and rows given to ``reweight`` or
        `tailboost.calibrate`. Rows are known as in `seen_share`.

        Parameters
        ----------
        X : array-like of shape (n, d)
            The rows.
        name : str, default="X"
            What to call them.

        Raises
        ------
        SeenRowsError
            Names the share of the rows.
        """
        self.refuse_known(self.count_known(X), name)

    def count_known(self, X: Any) -> Ints:
        """Count known rows: of those fitted on, and of those of each choice, how many of how many sampled.

        Parameters
        ----------
        X : array-like of shape (n, d)
            The rows. Counts of parts of them add up.

        Returns
        -------
        ndarray of shape (m, 2)
        """
        check_is_fitted(self)
        hashes = hash_rows(self._checked(X))
        known = [sketch.knows(hashes) for sketch in (self.seen_rows_, *self.chosen_rows_)]
        return np.array([(k.sum(), len(k)) for k in known], dtype=np.intp)

    def refuse_known(self, counts: Ints, name: str = "X") -> None:
        """Raise if the counts of `count_known` are more than chance explains.

        Parameters
        ----------
        counts : ndarray of shape (m, 2)
            Of all rows.
        name : str, default="X"
            What to call the rows.

        Raises
        ------
        SeenRowsError
            Names the share of the rows.
        """
        words = ["members were fitted on", *["the combination was chosen on"] * len(self.chosen_rows_)]
        sketches = (self.seen_rows_, *self.chosen_rows_)
        for why, sketch, (known, sampled) in zip(words, sketches, counts.tolist(), strict=True):
            if sketch.too_many(known, sampled):
                raise SeenRowsError(
                    f"{name}: {why} {known / sampled:.0%} of these rows, and errors there are smaller "
                    "than on new rows: give rows that had no part in making the classifier"
                )
