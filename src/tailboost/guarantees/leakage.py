"""Data leakage: rows of the fit are recognised by fingerprints in the model."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, Self

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.frozen import FrozenEstimator
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_is_fitted

from tailboost.boosting.training_set import Rows, short_hashes
from tailboost.core.array_types import Hashes, Ints, Mask
from tailboost.core.fingerprints import (
    Fingerprint,
    RowCounts,
    chance_of_agreement,
    hash_rounded_rows,
    hash_rows,
    labels_too_alike,
    too_many,
)
from tailboost.core.pipelines import final_step, last_step
from tailboost.core.warn import warn_user

#: Reason for rows that equal training rows: copies, or features with few values.
EqualRows = Literal["copies", "natural"]
#: Purpose of rows with labels that a rule has used up.
Use = Literal["selection data", "calibration rows"]
# Largest probability with which two independent tables are judged to share rows: one pair in 100,000.
SHARED_LEVEL = 1e-5
# The remedy as a parameter and as an option of the command line, which prints the same messages.
EQUAL_BY_NATURE = "equal_rows='natural' (in the shell --equal-rows natural)"


def check_equal_rows(value: Any) -> None:
    """Raise if ``equal_rows`` has another value than the two allowed ones."""
    if value not in ("copies", "natural"):
        raise ValueError(f"equal_rows must be 'copies' or 'natural', got {value!r}")


def came_fitted(estimator: Any) -> list[Any]:
    """Return the frozen estimators within one: this fit does not know their training rows.

    None stands for an estimator with rows from other steps: such an estimator cannot be asked about rows.
    """
    if isinstance(estimator, FrozenEstimator):
        return [estimator.estimator]
    if isinstance(estimator, (list, tuple)):
        return [model for each in estimator for model in came_fitted(each)]
    if not isinstance(estimator, BaseEstimator):
        return []
    params = estimator.get_params(deep=False)
    frozen = came_fitted(list(params.values()))
    if isinstance(params.get("cv"), str) and params["cv"] == "prefit":
        frozen.append(None)
    return [None for _ in frozen] if isinstance(estimator, Pipeline) else frozen


def holds_unknown(estimator: Any) -> bool:
    """Return whether an estimator holds a frozen one with unknown training rows."""
    for model in came_fitted(estimator):
        final = None if model is None else last_step(model)
        if not isinstance(final, KnownRows) or not final.seen_rows_.complete:
            return True
    return False


def count_by_frozen(estimator: Any, X: Any) -> list[Ints]:
    """Return the counts of known rows of the frozen models, each from `KnownRows.count_known`."""
    counts = []
    for model in came_fitted(estimator):
        if isinstance(last_step(model), KnownRows):
            final, table = final_step(model, X)
            counts.append(final.count_known(table))
    return counts


class LeakageError(ValueError):
    """Rows given as fresh were used to train or select the classifier."""


class ResubstitutionWarning(UserWarning):
    """Selection data contain training rows, on which losses are too small."""


@dataclass(frozen=True, eq=False)
class UsedRows:
    """Rows with labels that were used: how often each content occurs, alone and with each label.

    Examples
    --------
    >>> import numpy as np
    >>> from tailboost.core.fingerprints import hash_rounded_rows
    >>> from tailboost.guarantees.leakage import UsedRows
    >>> scores, y = np.random.default_rng(0).random((80, 1)), np.arange(80) % 2
    >>> hashes = hash_rounded_rows(scores)
    >>> first, superset = UsedRows.of(hashes[:50], y[:50]), UsedRows.of(hashes, y)
    >>> superset.shared_with(first), superset.shared_with(UsedRows.of(hashes[:0], y[:0]))
    (50, 0)
    """

    contents: RowCounts
    labelled: RowCounts
    use: Use = "calibration rows"

    @classmethod
    def of(cls, hashes: Hashes, labels: Any, use: Use = "calibration rows") -> Self:
        """Return the rows of a table from their `hash_rounded_rows` and labels."""
        names, place = np.unique(np.asarray(labels), return_inverse=True)
        of_label = hash_rows(np.array([str(name) for name in names.tolist()], dtype=object)[:, None])
        labelled = hash_rows(np.column_stack([hashes, of_label[place]]))
        return cls(RowCounts.of(hashes), RowCounts.of(labelled), use)

    @classmethod
    def unlabeled(cls, hashes: Hashes, use: Use) -> Self:
        """Return rows without labels, from their `hash_rounded_rows`; they are compared by content alone."""
        return cls(RowCounts.of(hashes), RowCounts.of(hashes[:0]), use)

    def shared_with(self, earlier: UsedRows, equal_rows: EqualRows = "natural") -> int:
        """Return about how many of these rows are rows of an earlier table; 0 if chance explains them.

        Whole equal tables are the same rows, in any order. Otherwise `chance_of_agreement` decides, for the
        contents alone and with their labels. Where few contents occur, it recognises nearly whole tables at
        most. With ``equal_rows="copies"`` equal rows are copies, and `too_many` decides as well.
        """
        same = self.labelled.equals(earlier.labelled) and self.contents.n_rows > 0
        if not same:
            pairs = (self.contents, earlier.contents), (self.labelled, earlier.labelled)
            same = any(chance_of_agreement(*pair) <= SHARED_LEVEL / 2 for pair in pairs)
        here, there = self.contents.beside(earlier.contents)
        known, sampled = int(here[there > 0].sum()), int(here.sum())
        if equal_rows == "copies" and too_many(known, sampled):
            return self._of_all(known, sampled)
        return self._of_all(int(np.minimum(here, there).sum()), sampled) if same else 0

    def equal_to(self, earlier: UsedRows) -> int:
        """Return about how many of these rows equal a row of an earlier table."""
        here, there = self.contents.beside(earlier.contents)
        return self._of_all(int(here[there > 0].sum()), int(here.sum()))

    def _of_all(self, known: int, sampled: int) -> int:
        return round(self.contents.n_rows * known / sampled) if sampled else 0

    def to_dict(self) -> dict[str, Any]:
        """Return plain types for JSON."""
        return {"contents": self.contents.to_dict(), "labelled": self.labelled.to_dict(), "use": self.use}

    @classmethod
    def from_dict(cls, state: dict[str, Any]) -> Self:
        """Return the rows written by `to_dict`.

        Raises
        ------
        KeyError, TypeError, ValueError
            If the state is no such dict.
        """
        uses: dict[str, Use] = {"selection data": "selection data", "calibration rows": "calibration rows"}
        contents, labelled = (RowCounts.from_dict(state[name]) for name in ("contents", "labelled"))
        return cls(contents, labelled, uses[state["use"]])


def copies_of(known: Hashes, hashes: Hashes) -> Mask:
    """Return a mask of the rows of a table that are known rows again, each known row at most once.

    No row is one if chance explains the agreement of both tables, see `chance_of_agreement`.

    Examples
    --------
    >>> import numpy as np
    >>> from tailboost.core.fingerprints import hash_rows
    >>> known, new = hash_rows(np.arange(50)[:, None]), hash_rows(np.arange(20, 100)[:, None])
    >>> int(copies_of(known, new).sum())
    30
    >>> grades = hash_rows(np.random.default_rng(0).integers(3, size=(130, 1)))
    >>> int(copies_of(grades[:50], grades[50:]).sum())
    0
    """
    if chance_of_agreement(RowCounts.of(known), RowCounts.of(hashes)) > SHARED_LEVEL:
        return np.zeros(len(hashes), dtype=np.bool_)
    content, place, counts = np.unique(hashes, return_inverse=True, return_counts=True)
    shared = known[np.isin(known, content)]
    most = np.bincount(np.searchsorted(content, shared), minlength=len(content))
    order = np.argsort(place, kind="stable")
    nth = np.empty(len(hashes), dtype=np.intp)  # among the rows of its content
    nth[order] = np.arange(len(hashes)) - np.repeat(np.cumsum(counts) - counts, counts)
    copies: Mask = nth < most[place]
    return copies


def refuse_used(rows: UsedRows, used: Sequence[UsedRows], equal_rows: EqualRows) -> None:
    """Raise if rows were used to select or calibrate a rule."""
    for earlier in used:
        if shared := rows.shared_with(earlier, equal_rows):
            raise LeakageError(
                f"X: {shared:,} of these {rows.contents.n_rows:,} rows are {earlier.use} of the rule. "
                "Give fresh rows"
            )


def noting_seen(seen: Fingerprint, X: Any, rows: Rows, instead: str = "") -> Rows:
    """Return selection data; if they contain training rows, warn and mark them.

    ``seen`` are the fingerprints of the training rows, ``instead`` the default selection data.
    """
    hashes = hash_rounded_rows(X)
    if not seen.beyond_chance(hashes):
        return rows
    return _fitted_on(seen.share(hashes), "training rows", rows, instead)


def noting_frozen(estimator: Any, X: Any, rows: Rows) -> Rows:
    """Return selection data; if they contain rows of frozen models, warn and mark them."""
    counts = np.concatenate([np.empty((0, 2), dtype=np.intp), *count_by_frozen(estimator, X)]).tolist()
    shares = [repeated / sampled for repeated, sampled in counts if too_many(repeated, sampled)]
    return _fitted_on(max(shares), "rows of the fit of a frozen model", rows) if shares else rows


def _fitted_on(share: float, training_rows: str, rows: Rows, instead: str = "") -> Rows:
    default = f", or leave X and y out for {instead}" if instead else ""
    warn_user(
        f"{share:.0%} of {rows.words} equal {training_rows}, and models have smaller errors there than on "
        f"fresh rows: give rows that were not given to fit{default} (if features take so few values that "
        "fresh rows equal training rows, ignore this warning)",
        ResubstitutionWarning,
    )
    return replace(rows, words=f"{rows.words}, {share:.0%} of which equal {training_rows}", fitted=True)


class KnownRows:
    """Mixin of fitted classifiers: recognises the rows of the fit.

    Attributes
    ----------
    seen_rows_ : Fingerprint
        Fingerprints of the training rows: of all, if ``complete``.
    chosen_rows_ : tuple of Fingerprint
        Fingerprints of other rows of the selection.
    used_rows_ : tuple of UsedRows
        Rows with labels that are compared as whole tables: selection data of a rule on scores, and the rows
        of a calibrated rule.
    ledger_ : Ledger
        The attempts to calibrate this fit.
    """

    seen_rows_: Fingerprint
    chosen_rows_: tuple[Fingerprint, ...]
    used_rows_: tuple[UsedRows, ...]
    ledger_: Any  # the module of ledgers imports this one

    def opened(self, X: Any, groups: Any = None) -> Any:
        """Return rows for `predict` and other methods of classifiers with the same candidates.

        Parameters
        ----------
        X, groups : array-like of shape (n, d), (n,)
            As in `predict`.

        Returns
        -------
        object
            ``X`` itself, unless the models of the candidates can answer once for several classifiers.
        """
        return X

    @abstractmethod
    def _checked(self, X: Any) -> Any:
        """Return a table in the form of the fit."""

    def _rows_kept(self) -> Rows | None:
        """Return the rows with labels in the classifier, if any."""
        return None

    def seen_share(self, X: Any) -> float:
        """Return the share of rows equal to training rows; errors on such rows are too small.

        Rows are compared by content, without labels, with the fingerprints in the model and its file
        (``seen_rows_``): of up to 50,000 distinct training rows, or of a sample of this size.
        Anybody who has the model can therefore test whether a row he knows was a training row. Numbers are
        compared as float32. Non-integers are rounded: to six decimal digits if a row has one
        such number, to four with three, to two with 200. So rows are recognised after a file, another type
        or a column of objects, but not after scaling, shuffling or noise.

        Parameters
        ----------
        X : array-like of shape (n, d)
            The rows. In a table with few different values fresh rows equal training rows by chance.

        Returns
        -------
        float
            From 0 to 1, each row counts once; NaN if the sample contains none of the rows.

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
        hashes = hash_rounded_rows(self._checked(X))
        return self.seen_rows_.share(hashes)

    def check_unseen(self, X: Any) -> None:
        """Raise if rows were used to train or select this classifier.

        The error is raised if more than one row in twenty (by three standard errors) equals a training row or
        a row of the selection: ``X_val``, rows given to ``reweight``, to ``predicted`` of a curve before its
        point was taken, or to `tailboost.calibrate`. Rows are compared as in `seen_share`.

        Parameters
        ----------
        X : array-like of shape (n, d)
            The rows.

        Raises
        ------
        LeakageError
            Gives the share of the rows.
        """
        self.refuse_seen(self.count_known(X))

    def count_known(self, X: Any) -> Ints:
        """Return counts of rows equal to training rows, and of rows equal to rows of the selection.

        Frozen classifiers of tailboost within this one add further counts.

        Parameters
        ----------
        X : array-like of shape (n, d)
            The rows. Counts of parts of the rows add up.

        Returns
        -------
        ndarray of shape (m, 2)
            The number of equal rows, and the number of rows compared.
        """
        check_is_fitted(self)
        hashes = hash_rounded_rows(self._checked(X))
        masks = [fingerprints.knows(hashes) for fingerprints, _ in self._own_records()]
        counts = np.array([(mask.sum(), len(mask)) for mask in masks], dtype=np.intp)
        return np.concatenate([counts, *count_by_frozen(self, X)])

    def _own_records(self) -> list[tuple[Fingerprint, str]]:
        """Return the fingerprints of the training rows, and of the rows of all selections together."""
        selected = [Fingerprint.union(self.chosen_rows_)] if self.chosen_rows_ else []
        uses = "models were trained on", "the decision rule was selected on"
        return list(zip([self.seen_rows_, *selected], uses, strict=False))

    def _records(self) -> list[tuple[Fingerprint, str]]:
        """Return the fingerprints of `count_known`, with the use of their rows."""
        finals = [last_step(model) for model in came_fitted(self)]
        inner = [record for final in finals if isinstance(final, KnownRows) for record in final._records()]
        return [*self._own_records(), *((rows, "a frozen model was made on") for rows, _ in inner)]

    def refuse_seen(
        self, counts: Ints, X: Any = None, y: Ints | None = None, *, equal_rows: EqualRows = "copies"
    ) -> None:
        """Raise if more rows were used to train or select this classifier than chance explains.

        Parameters
        ----------
        counts : ndarray of shape (m, 2)
            From `count_known`.
        X, y : optional
            The rows and their class numbers, if available.
        equal_rows : {"copies", "natural"}, default="copies"
            "copies": refused if more than one row in twenty (by three standard errors) is equal to one of the
            fit. "natural": refused if rows equal rows of the fit more often, by four standard errors, than
            the rows of the fit equal one another. Also refused if labels agree with the kept labels of equal
            rows more often than in 999 of 1,000 random draws.

        Raises
        ------
        LeakageError
            Gives the reason.
        """
        for (fingerprints, use), (repeated, sampled) in zip(self._records(), counts.tolist(), strict=True):
            if equal_rows == "copies" and too_many(repeated, sampled):
                raise LeakageError(
                    f"X: {use} {repeated / sampled:.0%} of these rows, or on rows equal to them. Errors "
                    "there are smaller than on new rows: give rows that were not used to train or select the "
                    "classifier. If features take so few values that fresh rows equal training rows, and "
                    f"nobody copied a row, set {EQUAL_BY_NATURE}"
                )
            if equal_rows == "natural" and fingerprints.unnatural(repeated, sampled):
                raise LeakageError(
                    f"X: equal_rows='natural', but {repeated / sampled:.0%} of these rows equal rows of the "
                    f"fit, and only {fingerprints.repeated:.0%} of the rows of the fit equal one another. "
                    "Some of these rows must be copies"
                )
        stored = self._rows_kept()
        if equal_rows == "copies" or y is None or stored is None or stored.row_hashes is None:
            return
        hashes = short_hashes(hash_rows(self._checked(X))), stored.row_hashes
        contents = hashes[0].astype(np.intp), hashes[1].astype(np.intp)
        if labels_too_alike(contents, (y, stored.y), 1 + int(max(y.max(), stored.y.max()))):
            raise LeakageError(
                "X: equal_rows='natural', but the labels of these rows agree with those of the equal rows of "
                "the fit more often than in 999 of 1,000 random draws: they are copies"
            )
