"""Rows that had a part in making a classifier are known again, from fingerprints kept with it."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import replace
from typing import Any, Literal

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.frozen import FrozenEstimator
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_is_fitted

from tailboost.boosting.training_set import Rows, lots
from tailboost.core.array_types import Ints
from tailboost.core.fingerprints import Fingerprint, hash_rounded_rows, hash_rows, labels_too_alike, too_many
from tailboost.core.pipelines import final_step, last_step
from tailboost.core.warn import warn_user

#: What rows that equal known ones are held for: copies that somebody made, or chance where values are few.
EqualRows = Literal["copies", "natural"]


def check_equal_rows(value: Any) -> None:
    """Raise if ``equal_rows`` is no word that it may be."""
    if value not in ("copies", "natural"):
        raise ValueError(f"equal_rows must be 'copies' or 'natural', got {value!r}")


def came_fitted(estimator: Any) -> list[Any]:
    """Return the estimators within one that came fitted to it: their rows are not those of this fit.

    None stands for one that cannot be asked about rows, as it gets them prepared by other steps.
    """
    if isinstance(estimator, FrozenEstimator):
        return [estimator.estimator]
    if isinstance(estimator, (list, tuple)):
        return [model for each in estimator for model in came_fitted(each)]
    if not isinstance(estimator, BaseEstimator):
        return []
    params = estimator.get_params(deep=False)
    found = came_fitted(list(params.values()))
    if isinstance(params.get("cv"), str) and params["cv"] == "prefit":
        found.append(None)
    return [None for _ in found] if isinstance(estimator, Pipeline) else found


def holds_unknown(estimator: Any) -> bool:
    """Whether an estimator holds one that came fitted, and does not know all rows that it was fitted on."""
    finals = [None if model is None else last_step(model) for model in came_fitted(estimator)]
    return any(not isinstance(final, KnownRows) or not final.seen_rows_.complete for final in finals)


def count_by_frozen(estimator: Any, X: Any) -> list[Ints]:
    """Return what models that came fitted know of rows, each as `KnownRows.count_known` returns it."""
    models = [model for model in came_fitted(estimator) if isinstance(last_step(model), KnownRows)]
    asked = [final_step(model, X) for model in models]
    return [final.count_known(table) for final, table in asked]


class LeakageError(ValueError):
    """Rows that were to judge a classifier had a part in its making."""


class ResubstitutionWarning(UserWarning):
    """λ is chosen on rows that members were fitted on, whose losses are too small."""


def noting_seen(seen: Fingerprint, X: Any, rows: Rows, instead: str = "") -> Rows:
    """Return rows given to choose λ on, with a word and a warning if members were fitted on them.

    ``seen`` are those that were fitted on, ``instead`` what λ is chosen on where none are given.
    """
    hashes = hash_rounded_rows(X)
    if not seen.beyond_chance(hashes):
        return rows
    return _fitted_on(seen.share(hashes), "rows that were fitted on", rows, instead)


def noting_frozen(estimator: Any, X: Any, rows: Rows) -> Rows:
    """Return selection data, with a word and a warning if frozen models were made on them."""
    counts = np.concatenate([np.empty((0, 2), dtype=np.intp), *count_by_frozen(estimator, X)]).tolist()
    shares = [known / sampled for known, sampled in counts if too_many(known, sampled)]
    return _fitted_on(max(shares), "rows that a frozen model was made on", rows) if shares else rows


def _fitted_on(share: float, known: str, rows: Rows, instead: str = "") -> Rows:
    otherwise = f", or leave X and y out for {instead}" if instead else ""
    warn_user(
        f"{share:.0%} of {rows.words} equal {known}, and members err less there than on "
        f"fresh rows: give rows that were not given to fit{otherwise} (nothing is wrong where features "
        "take so few values that fresh rows equal others)",
        ResubstitutionWarning,
    )
    return replace(rows, words=f"{rows.words}, {share:.0%} of which equal {known}", fitted=True)


class KnownRows:
    """What a fitted classifier says of rows that are to judge it.

    Attributes
    ----------
    seen_rows_ : Fingerprint
        Fingerprints of the rows that members were fitted on: of all, if it is ``complete``.
    chosen_rows_ : tuple of Fingerprint
        Those of other rows that the combination was chosen on.
    """

    seen_rows_: Fingerprint
    chosen_rows_: tuple[Fingerprint, ...]

    @abstractmethod
    def _checked(self, X: Any) -> Any:
        """Return a table in the form in which it was fitted on."""

    def _rows_kept(self) -> Rows | None:
        """Return rows that it was made on, with their labels and lots by content, where they are kept."""
        return None

    def seen_share(self, X: Any) -> float:
        """Return the share of some rows that members were fitted on: errors on such rows say little.

        Rows are known by their content, labels aside, from fingerprints kept with the model
        (``seen_rows_``, also in its file): of all training rows up to 50,000 different ones, else of a sample
        of so many. Whoever has the model can so find out whether a row that he knows was among them. Numbers
        are compared as float32 and, where they are no integers, rounded (to six decimal digits where a row
        has one such number, four with three, two with 200), so that rows are known after a file, another
        type or a column of objects; rows that were scaled, shuffled or disturbed are not.

        Parameters
        ----------
        X : array-like of shape (n, d)
            The rows; in a table with few different values fresh rows equal others by chance.

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
        hashes = hash_rounded_rows(self._checked(X))  # without models there is nothing to check by
        return self.seen_rows_.share(hashes)

    def check_unseen(self, X: Any) -> None:
        """Raise if some rows had a part in making this classifier, so that its errors there prove little.

        That is if more than one in twenty of them (by three standard errors) equal rows that were fitted on,
        or rows that members were judged on: ``X_val``, and rows given to ``reweight``, to ``predicted`` of a
        trade-off before its point was taken, or to `tailboost.calibrate`. Rows are known as in `seen_share`.

        Parameters
        ----------
        X : array-like of shape (n, d)
            The rows.

        Raises
        ------
        LeakageError
            Names the share of the rows.
        """
        self.refuse_seen(self.count_known(X))

    def count_known(self, X: Any) -> Ints:
        """Count known rows: of those fitted on, and of those of all choices, how many of how many sampled.

        Frozen classifiers of tailboost within this one are asked too.

        Parameters
        ----------
        X : array-like of shape (n, d)
            The rows. Counts of parts of them add up.

        Returns
        -------
        ndarray of shape (m, 2)
        """
        check_is_fitted(self)
        hashes = hash_rounded_rows(self._checked(X))
        known = [sketch.knows(hashes) for sketch, _ in self._own_records()]
        own = np.array([(k.sum(), len(k)) for k in known], dtype=np.intp)
        return np.concatenate([own, *count_by_frozen(self, X)])

    def _own_records(self) -> list[tuple[Fingerprint, str]]:
        """Return the fingerprints of the rows fitted on, and of those of all selections together."""
        selected = [Fingerprint.union(self.chosen_rows_)] if self.chosen_rows_ else []
        return [
            (self.seen_rows_, "members were fitted on"),
            *((sketch, "the combination was chosen on") for sketch in selected),
        ]

    def _records(self) -> list[tuple[Fingerprint, str]]:
        """Return the fingerprints that `count_known` counts by, with what was done with their rows."""
        finals = [last_step(model) for model in came_fitted(self)]
        inner = [record for final in finals if isinstance(final, KnownRows) for record in final._records()]
        return [*self._own_records(), *((sketch, "a frozen model was made on") for sketch, _ in inner)]

    def refuse_seen(
        self, counts: Ints, X: Any = None, y: Ints | None = None, *, equal_rows: EqualRows = "copies"
    ) -> None:
        """Raise if more rows had a part in making this classifier than may equal some by chance.

        Parameters
        ----------
        counts : ndarray of shape (m, 2)
            As from `count_known`.
        X, y : optional
            The rows and their class numbers, where they are at hand.
        equal_rows : {"copies", "natural"}, default="copies"
            Copies are refused where they are more than one in twenty, by three standard errors. Rows that are
            said to equal others by nature are where they do so more often, by four standard errors, than the
            rows of the fit (or of the choice) equal one another; or where their labels agree with those of
            equal rows that are kept with the classifier more than in 999 of 1,000 draws.

        Raises
        ------
        LeakageError
            Says by what the rows are copies.
        """
        for (sketch, why), (known, sampled) in zip(self._records(), counts.tolist(), strict=True):
            if equal_rows == "copies" and too_many(known, sampled):
                raise LeakageError(
                    f"X: {why} {known / sampled:.0%} of these rows, or on rows equal to them, and "
                    "errors there are smaller than on new rows: give rows that had no part in making the "
                    "classifier (where features take so few values that fresh rows equal others, and nobody "
                    "copied a row, say equal_rows='natural')"
                )
            if equal_rows == "natural" and sketch.unnatural(known, sampled):
                raise LeakageError(
                    f"X: equal_rows='natural', but {known / sampled:.0%} of these rows equal rows that "
                    f"the classifier was made on, of which only {sketch.repeated:.0%} equal one another: "
                    "rows that repeat by nature do so everywhere, so that some of these are copies"
                )
        kept = self._rows_kept()
        if equal_rows == "copies" or y is None or kept is None or kept.lots is None:
            return
        contents = lots(hash_rows(self._checked(X))).astype(np.intp), kept.lots.astype(np.intp)
        if labels_too_alike(contents, (y, kept.y), 1 + int(max(y.max(), kept.y.max()))):
            raise LeakageError(
                "X: equal_rows='natural', but these rows have the labels of the equal rows that the "
                "classifier was made on more often than independent rows have (in 999 of 1,000 draws): they "
                "are copies"
            )
