"""Fitted models in other forms: columns of scores, functions, and objects with ``predict_proba``."""

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import KW_ONLY
from functools import partial
from typing import Any, Self

import numpy as np
from scipy.special import expit, logit, softmax
from sklearn.base import clone
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted

from tailboost.core import (
    NARROW,
    ROUNDED,
    Column,
    Floats,
    Labels,
    Mask,
    Model,
    Table,
    as_pandas,
    check_indexes,
    check_length,
    check_probabilities,
    coded,
    finite,
    in_class_order,
    label_column,
    parameters,
    plain,
    score_kind,
    shown,
    warn_user,
)
from tailboost.learners.base import Classifier

# An exact factor of numbers, after which the slope between two tiny ones is finite.
STEEP = 2.0**300
# The most different scores stored to map a number to its rank; values between them are interpolated.
MOST_KNOTS = 1001


class OfAnyTable(Classifier):
    """A classifier that takes any table as it is; one that trains models has tags of its own."""

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        for name in ("allow_nan", "categorical", "string", "three_d_array", "sparse"):
            setattr(tags.input_tags, name, True)
        return tags


class OfProbabilities(OfAnyTable):
    """A classifier that answers the most probable label."""

    classes_: Labels

    @abstractmethod
    def predict_proba(self, X: Table) -> Floats:
        """Return class probabilities, shape (n, K)."""

    def predict(self, X: Table) -> Labels:
        """Return the label of the largest probability, shape (n,)."""
        return self.classes_[self.predict_proba(X).argmax(axis=1)]


def _as_list(names: Any) -> list[Any]:
    """Return one name or several ones as a list, with plain Python numbers and text."""
    return [*map(plain, names if isinstance(names, (list, tuple)) else [names])]


@parameters
class Scores(OfProbabilities):
    """Scores of an absent model, as columns of the table.

    `tailboost.tune`, `tailboost.RobustMixtureClassifier`, `certify`, `calibrate` and `Monitor` take a table
    with these columns in the place of features. Two rows with equal scores are different rows.

    Parameters
    ----------
    columns : str, int or list
        Name of the column (its number, if the table is an array), or one column for each label.
    label : label, or list of labels
        The label of high scores. With several columns the label of each.
    kind : {"probability", "percent", "logit", "number"}, default="probability"
        "percent" is a probability from 0 to 100; thresholds and SQL of a single column are in percent too.
        "number" is any number growing with the probability of ``label``: a grade from 1 to 5, a distance.
        Only the order of its values matters. "number" needs a single column. Scores outside the range of the
        kind are refused: [0, 1] for probabilities and [0, 100] for percent (values are rounded if they exceed
        it by at most a hundredth of it), and ±1e200 for logits and numbers, so infinite ones are refused too.
        Several probabilities of a row are refused unless they sum to 1, to .01 for each column.
        Probabilities below 1e-6 count as 1e-6, and those above 1 − 1e-6 alike; for a score of very rare
        events state "number".
    missing : float, optional
        The score of rows without one. By default such rows are refused.

    Attributes
    ----------
    classes_ : ndarray of shape (K,)
        The labels.

    Examples
    --------
    >>> import pandas as pd
    >>> import tailboost as tb
    >>> table = pd.DataFrame({"grade": [1, 2, 2, 3, 4, 4, 5, 5] * 10})
    >>> y = ["ok", "ok", "toxic", "ok", "toxic", "ok", "toxic", "toxic"] * 10
    >>> clf = tb.tune(tb.Scores("grade", "toxic", kind="number"), table, y, objective="error")
    >>> print(clf.rule_)
    grade >= 3.5: toxic; else ok
    """

    columns: object
    label: Any = None
    _: KW_ONLY
    kind: str = "probability"
    missing: float | None = None

    # Number of the label of high scores. `fit` finds it; log-odds are of the second one, without a fit.
    positive_ = 1

    @property
    def column_list(self) -> list[Any]:
        """The columns, also of a single score."""
        return _as_list(self.columns)

    @property
    def label_list(self) -> list[Any]:
        """The label of each column, also of a single score."""
        return _as_list(self.label)

    @property
    def are_probabilities(self) -> bool:
        """Whether they are probabilities, of all rows."""
        return self.kind == "probability" and self.missing is None

    # scikit-learn may ask for a text of at most so many characters.
    def __repr__(self, *n_characters: object) -> str:
        labels = self.label_list
        if not isinstance(self.label, (list, tuple)):
            labels = labels[0]
        missing = "" if self.missing is None else f", missing={self.missing!r}"
        return f"Scores({self.columns!r}, {labels!r}, kind={self.kind!r}{missing})"

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = self.missing is not None
        return tags

    def fit(self, X: Table, y: Column, sample_weight: Column = None) -> Self:
        """Learn the labels and, for kind="number", the ranks of the values. No model is trained.

        Parameters
        ----------
        X : table of n rows
            Has the columns of scores.
        y : array-like of shape (n,)
            Labels.
        sample_weight : None
            Not used.

        Returns
        -------
        self

        Raises
        ------
        ValueError
            If the labels of the scores are not stated, or scores are missing or not of the stated kind.
        """
        check_indexes(X=X, y=y)
        labels, numbers = coded(y, "y", target=True)
        self._refuse_misfit(labels)
        values = self.values(X)
        check_length(numbers, "y", len(values))
        score = values[:, 0]
        if values.shape[1] == 1 and not np.ptp(score):
            warn_user(f"{self}: all rows have the score {score[0]:g}, so all get one answer")
        if self.kind == "number":
            knots, counts = np.unique(score, return_counts=True)
            # The rank of the middle row of each score, as a fraction of the rows.
            levels = (np.cumsum(counts) - counts / 2) / len(score)
            if len(knots) > MOST_KNOTS:
                even_levels = np.linspace(levels[0], levels[-1], MOST_KNOTS)
                stored = np.unique(np.searchsorted(levels, even_levels))
                knots = knots[stored]
                levels = levels[stored]
            self.knots_ = knots
            self.levels_ = levels
        return self._take_labels(labels)

    def known(self, classes: Column) -> Self:
        """Return the scores of a rule with these labels; the ranks of a number are not known."""
        return clone(self)._take_labels(classes)

    def _take_labels(self, labels: Column) -> Self:
        """Set the labels, those of y or of several columns, and the number of the first stated one.

        A score of rows without one becomes a plain number, as files have it.
        """
        self.missing = plain(self.missing)
        classes = labels if len(self.column_list) == 1 else self.label_list
        self.classes_ = label_column(classes, "labels")
        self.positive_ = list(classes).index(self.label_list[0])
        return self

    def _refuse_misfit(self, labels: Labels) -> None:
        """Raise ValueError if columns and stated labels do not suit each other, or the labels of y."""
        columns = self.column_list
        if not all(isinstance(name, (str, int)) for name in columns):
            raise ValueError(  # without the text of these scores, which may hold a whole table
                "Scores(columns, …): columns is a name, a number or a list of them; the table "
                "of a call holds the scores"
            )
        score_kind(self.kind).check_missing(self.missing)
        stated = self.label_list
        names = labels.tolist()
        of_y = f"y has {shown(names)}"
        if len({*columns}) < len(columns):
            raise ValueError(f"{self}: a column is named twice")
        if self.label is None:
            raise ValueError(
                f"{self}: state label=, the label of high scores, such as {names[:2]}"
            )
        if len(columns) > 1:
            if self.kind == "number":
                raise ValueError(f"{self}: kind='number' needs a single column")
            if len(stated) != len(columns):
                raise ValueError(
                    f"{self}: label must have a label for each of the {len(columns)} columns"
                )
            if not {*names} <= {*stated}:
                raise ValueError(f"{self}: not each label of y has a column: {of_y}")
            return
        if len(names) != 2:
            raise ValueError(
                f"{self}: one column scores a label against one other, but {of_y}; make classes "
                "of numbers, as in y > threshold, and for more labels give columns=[...] with label=[...]"
            )
        if stated[0] not in names:
            raise ValueError(f"{self}: {self.label!r} is no label of y: {of_y}")

    def values(self, X: Table) -> Floats:
        """Return the scores of rows, checked, shape (n, columns); missing scores become ``missing``."""
        values = self._read(X, self.missing)
        if values.shape[1] > 1 and self.kind != "logit":
            check_probabilities(values / score_kind(self.kind).upper, f"{self}", ROUNDED)
        return values

    def without_score(self, X: Table) -> Mask:
        """Return which rows have no score, shape (n,); none if `missing` is the score of such rows."""
        missing = np.nan if self.missing is None else self.missing
        return np.asarray(np.isnan(self._read(X, missing)).any(axis=1))

    def _read(self, X: Table, missing: float | None) -> Floats:
        """Return the scores of rows, checked, with ``missing`` for missing ones; None refuses these.

        The columns of an array have numbers. Raise ValueError if the table lacks a column, has two of one
        name, or is no data frame or matrix.
        """
        columns = self.column_list
        X = as_pandas(X)
        if not (hasattr(X, "columns") or isinstance(X, Mapping)):
            array = np.asarray(X)
            if array.ndim != 2:
                raise ValueError(
                    f"{self}: the table must be a data frame or a dense array of shape (n, d), "
                    f"got {type(X).__name__} of shape {np.shape(X)}; give "
                    f"pd.DataFrame({{{columns[0]!r}: scores}})"
                )
            X = dict(enumerate(array.T))
        names = list(X)
        for column in columns:
            if names.count(column) != 1:
                raise ValueError(
                    f"{self}: the table has no single column {column!r}; its columns are {shown(names)}"
                )
            if isinstance(column, int) and names.index(column) != column:
                raise ValueError(
                    f"{self}: column {column} of an array is another one than that of this table; "
                    "name its columns by text, as by X.rename(columns=str)"
                )
        kind = score_kind(self.kind)
        return np.column_stack([kind.checked(X[name], self, missing) for name in columns])

    def predict_proba(self, X: Table) -> Floats:
        """Return class probabilities, shape (n, K).

        A score of kind "number" becomes its rank among the scores of the fit, in [0, 1].
        """
        check_is_fitted(self, "classes_")
        values = self.values(X)
        kind = self.kind
        if values.shape[1] > 1:
            if kind == "logit":
                return softmax(values, axis=1)
            return values / values.sum(axis=1, keepdims=True)
        score = values[:, 0]
        if kind == "logit":
            score = expit(score)
        elif kind == "number":
            score = np.interp(score * STEEP, self.knots_ * STEEP, self.levels_)
        else:
            score = score / score_kind(kind).upper
        columns = [1.0 - score, score]
        return np.column_stack(columns if self.positive_ else columns[::-1])

    def scores_at(self, probabilities: Floats) -> Floats:
        """Return the scores at which `predict_proba` of the label is each number, for a single column."""
        if self.kind == "logit":
            return logit(np.minimum(probabilities, 1.0 - 2.0**-53))  # finite
        if self.kind == "number":
            return np.interp(probabilities, self.levels_, self.knots_)
        return probabilities * score_kind(self.kind).upper


@parameters
class GivenModel(OfProbabilities):
    """A function of the table, or an object with ``predict_proba``, as a fitted classifier.

    Parameters
    ----------
    model : callable or object
        ``model(X)`` or ``model.predict_proba(X)`` returns class probabilities of shape (n, K), a data frame
        with a column for each label or, for two classes, the probabilities of the second label.

    Attributes
    ----------
    classes_ : ndarray of shape (K,)
        The labels in the order of the columns: ``classes_`` or ``class_labels`` of the model, also if one of
        its methods is given; otherwise the sorted labels of the selection data.
    """

    model: Model

    def fit(self, X: Table, y: Column) -> Self:
        """Learn the labels; no model is trained."""
        model = self.model
        while isinstance(model, partial):
            model = model.func
        model = getattr(model, "__self__", model)
        labels = getattr(model, "classes_", getattr(model, "class_labels", None))
        if labels is None:
            labels, _ = coded(y, "y")
        self.classes_ = label_column(labels, "labels")
        return self

    def predict_proba(self, X: Table) -> Floats:
        """Return the class probabilities of the model as numbers, shape (n, K).

        Columns of a data frame are matched to the labels by name. A vector has the probabilities of the
        second of two labels. Raise ValueError if a label has no column, and for other entries.
        """
        predict: Any = getattr(self.model, "predict_proba", self.model)
        owner = f"predict_proba of {self.model!r}"
        probabilities = predict(X)
        check_indexes(X=X, probabilities=probabilities)
        P = np.asarray(in_class_order(probabilities, owner, self.classes_))
        if P.dtype not in NARROW:
            P = finite(P, owner)
        if P.ndim == 1 and len(self.classes_) == 2:  # of the second label
            return np.column_stack([1.0 - P, P])
        return P
