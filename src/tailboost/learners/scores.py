"""Fitted models in other forms: columns of scores, functions, and objects with ``predict_proba``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, Self

import numpy as np
from scipy.special import expit, logit, softmax
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.frozen import FrozenEstimator
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted

from tailboost.core.array_types import Array, Column, Floats, Ints, Labels, Mask, Model, Table
from tailboost.core.checks import (
    NAMES_SHOWN,
    as_pandas,
    check_length,
    label_vector,
    n_rows_of,
    no_classes,
    refuse_missing,
)
from tailboost.core.exceptions import warn_user
from tailboost.core.score_kinds import score_kind, with_shortest_decimals
from tailboost.core.spelling import (
    a_type_of,
    as_typed,
    did_you_mean,
    how_many,
    joined,
    listed,
    meant,
    shell_word,
    warn_alike,
)
from tailboost.rates.strata import plain

# The most different scores stored to map a number to its rank; values between them are interpolated.
MOST_KNOTS = 1001
# A label is called wrong if the area under the ROC curve is below ½ by this number of standard errors. This
# hits fewer than one in 1,000 scores without information (with two errors, one in 60), and .96 of the scores
# with an area of .4 on 1,000 rows (`benchmarks/constants.py`).
WRONG_DIRECTION = 3.0


class Scores(ClassifierMixin, BaseEstimator):
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

    def __init__(
        self,
        columns: object,
        label: Any = None,
        *,
        kind: str = "probability",
        missing: float | None = None,
    ) -> None:
        self.columns = columns
        self.label = label
        self.kind = kind
        self.missing = missing

    # Name of the model behind the score; None for columns of scores.
    made_by: ClassVar[str | None] = None

    @property
    def column_list(self) -> list[Any]:
        """The columns, also of a single score."""
        if isinstance(self.columns, (list, tuple)):
            return list(self.columns)
        return [self.columns]

    @property
    def label_list(self) -> list[Any]:
        """The label of each column, also of a single score."""
        if isinstance(self.label, (list, tuple)):
            return list(self.label)
        return [self.label]

    def __repr__(self, *args: object) -> str:
        if isinstance(self.label, (list, tuple)):
            labels = list(map(plain, self.label))
        else:
            labels = plain(self.label)
        missing = "" if self.missing is None else f", missing={self.missing!r}"
        return f"Scores({self.columns!r}, {labels!r}, kind={self.kind!r}{missing})"

    @property
    def _named(self) -> str:
        """The scores in messages: as in Python, and in the shell by their columns."""
        return as_typed(repr(self), f"score {listed(self.column_list)}")

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = self.missing is not None
        tags.input_tags.categorical = tags.input_tags.string = True
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
        ValueError, TypeError
            If the labels of the scores are not stated, or scores are missing or not of the stated kind.
        """
        refuse_missing(y, "y")
        y = label_vector(y)
        try:
            score_kind(self.kind).check_missing(self.missing)
        except ValueError as failure:
            raise ValueError(f"{self._named}: {failure}") from None
        columns = self.column_list
        try:
            n_names = len(set(columns))
        except TypeError:  # arrays
            raise ValueError(
                "Scores(columns, …): columns is a name, a number or a list of them, got "
                f"{a_type_of(self.columns)}; the table of a call holds the scores"
            ) from None
        if n_names < len(columns):
            raise ValueError(f"{self._named}: a column is named twice")
        has_one_column = len(columns) == 1
        if has_one_column:
            labels, counts = np.unique(y, return_counts=True)
            warn_alike(labels.tolist(), as_typed("y", "labels"))
            self._check_label(labels, counts, X)
            self.classes_ = labels
            self.positive_ = labels.tolist().index(self.label_list[0])
        else:
            self._check_label_of_each()
            self.classes_ = np.asarray(self.label)
        values = self.values(X)
        check_length(y, "y", len(values))
        if has_one_column:
            self._learn_ranks(values[:, 0], np.asarray(y == self.classes_[self.positive_]))
        return self

    def _check_label_of_each(self) -> None:
        """Raise ValueError if the labels of several columns are not stated, or the columns hold numbers."""
        if self.label is None:
            raise ValueError(
                f"Scores({self.columns!r}): state label=[...], the label of each column"
            )
        if self.kind == "number":
            raise ValueError(f"{self._named}: kind='number' needs a single column")
        n_columns = len(self.column_list)
        if not isinstance(self.label, (list, tuple)) or len(self.label) != n_columns:
            raise ValueError(
                f"{self._named}: label must be a list with a label for each of the "
                f"{n_columns} columns"
            )

    def _check_label(self, y_labels: Labels, counts: Ints, X: Table) -> None:
        """Raise ValueError unless a label is stated for the single column, and y has it and one other label.

        ``counts`` are the rows of each label. The error names the cause: a quantity as target, a label or
        column with another name, or more than two labels.
        """
        labels = y_labels.tolist()
        if not labels:
            raise ValueError(f"{self._named}: y has no rows")
        if self.label is None:
            choices = " or ".join(f"label={label!r}" for label in labels[:2])
            raise ValueError(
                f"Scores({self.columns!r}): which label does a higher score speak for? State "
                f"{choices}"
            )
        if self.label_list[0] in labels and len(labels) <= 2:
            if len(labels) == 1:
                raise ValueError(
                    f"{self._named}: y has the label {labels[0]!r} only; rows of both labels are needed"
                )
            return
        if len(labels) > NAMES_SHOWN and y_labels.dtype.kind in "iuf":
            raise ValueError(f"{self._named}: {no_classes(y_labels)}")
        raise ValueError(f"{self._named}: {self._fault_of_labels(labels, counts, X)}")

    def _fault_of_labels(self, labels: list[Any], counts: Ints, X: Table) -> str:
        """Return why the labels of rows do not suit a single column of scores, and the cure.

        Parameters
        ----------
        labels : list
            The labels of the rows: other ones than the stated one, or more than two.
        counts : ndarray of int
            Number of rows of each label.
        X : table
            The rows; their columns may have other names.
        """
        [column] = self.column_list
        names = list(getattr(as_pandas(X), "columns", [column]))
        absent = ""
        if column not in names:
            absent = f". The table has no column {column!r}, only {names[:20]}"
        if len(labels) == 2:
            near = meant(self.label, labels)
            return f"{self.label!r} is no label of y; {near}y has the labels {labels}{absent}"
        rows_of_labels = ", ".join(
            f"{label!r} ({how_many(count, 'row')})"
            for label, count in zip(labels[:10], counts.tolist(), strict=False)
        )
        score_of_each = as_typed(
            "columns=[...] with label=[...]", "--score and --positive once for each label"
        )
        return (
            f"one column scores a label against one other, but y has {len(labels)} labels: "
            f"{rows_of_labels}. Drop rows, name the other labels alike, or give the scores of "
            f"all labels: {score_of_each}{absent}"
        )

    def _learn_ranks(self, scores: Floats, positive: Mask) -> None:
        """Learn the ranks of a score of kind "number"; warn of equal scores, or of the wrong direction.

        ``positive`` is the mask of the rows with the label of high scores.
        """
        if scores.min() == scores.max():
            warn_user(
                f"{self._named}: all rows have the score {scores[0]:g}, so every row is "
                "answered alike"
            )
        area = area_if_below_half(scores, positive)
        if area is not None:
            labels = self.classes_.tolist()
            label = labels[self.positive_]
            other = labels[1 - self.positive_]
            option = as_typed("label=", "--positive")
            warn_user(
                f"{self._named}: higher scores go with {other!r} (area under the ROC curve of "
                f"{label!r}: {area:.2f}); is {option} right?"
            )
        if self.kind == "number":
            knots, counts = np.unique(scores, return_counts=True)
            # The rank of the middle row of each score, as a fraction of the rows.
            levels = (np.cumsum(counts) - counts / 2) / len(scores)
            if len(knots) > MOST_KNOTS:
                even_levels = np.linspace(levels[0], levels[-1], MOST_KNOTS)
                stored = np.unique(np.searchsorted(levels, even_levels))
                knots = knots[stored]
                levels = levels[stored]
            self.knots_ = knots
            self.levels_ = levels

    def refuse_other_label(self, X: Table, y: Column) -> None:
        """Raise ValueError if high values of a single score go with another label than the stated one.

        This needs rows with two labels. The area under the ROC curve must be below ½ by more than noise.
        """
        if len(self.column_list) > 1:
            return
        labels = label_vector(y)
        present = np.unique(labels).tolist()
        other_labels = [label for label in present if label not in self.label_list]
        if len(other_labels) != 1:
            return
        [other] = other_labels
        area = area_if_below_half(self.values(X)[:, 0], np.asarray(labels != other))
        if area is not None:
            raise ValueError(
                f"{self._named}: high scores go with {other!r}, not with "
                f"{self.label_list[0]!r}, whose area under the ROC curve is {area:.2f} on the "
                f"{len(labels):,} rows that select; state "
                f"{as_typed(f'label={other!r}', f'--positive {shell_word(other)}')}"
            )

    def values(self, X: Table) -> Floats:
        """Return the scores of rows, checked, shape (n, columns)."""
        values = score_columns(X, self.column_list, self._named)
        if len(self.column_list) == 1:
            return self.checked(values)
        kind = score_kind(self.kind)
        checked_columns = [
            kind.checked(column, f"{self._named}: column {name!r}", self.missing)
            for name, column in zip(self.column_list, values.T, strict=True)
        ]
        return np.column_stack(checked_columns)

    def checked(self, values: Array) -> Floats:
        """Return checked scores of shape (n, columns); missing scores become ``missing``."""
        kind = score_kind(self.kind)
        return kind.checked(values, self._named, self.missing)

    def without_score(self, X: Table) -> Mask:
        """Return which rows have no score, shape (n,); none if `missing` is the score of such rows."""
        values = score_columns(X, self.column_list, self._named)
        if self.missing is not None:
            return np.zeros(len(values), dtype=np.bool_)
        kind = score_kind(self.kind)
        scores = kind.checked(values, self._named, np.nan)
        return np.asarray(np.isnan(scores).any(axis=1))

    def predict_proba(self, X: Table) -> Floats:
        """Return class probabilities, shape (n, K); ranks in [0, 1] in their place for kind="number"."""
        check_is_fitted(self, "classes_")
        return self.probabilities_of(self.values(X))

    def probabilities_of(self, values: Floats) -> Floats:
        """Return `predict_proba` of rows with scores of shape (n, columns): shape (n, K).

        A score of kind "number" becomes its rank among the scores of the fit, in [0, 1].
        """
        if values.shape[1] > 1:
            if self.kind == "logit":
                return softmax(values, axis=1)
            sums = values.sum(axis=1, keepdims=True)  # 0 if all are 0
            return values / np.maximum(sums, 1e-300)
        score = values[:, 0]
        if self.kind == "percent":
            score = score / 100.0
        elif self.kind == "logit":
            score = expit(score)
        elif self.kind == "number":
            score = np.interp(score, self.knots_, self.levels_)
        if self.positive_ == 1:
            return np.column_stack([1.0 - score, score])
        return np.column_stack([score, 1.0 - score])

    def scores_at(self, probabilities: Floats) -> Floats:
        """Return the scores at which `predict_proba` of the label is each number, for a single column."""
        if self.kind == "percent":
            return 100.0 * probabilities
        if self.kind == "logit":
            return logit(np.minimum(probabilities, 1.0 - 2.0**-53))  # finite
        if self.kind == "number":
            return np.interp(probabilities, self.levels_, self.knots_)
        return probabilities

    def predict(self, X: Table) -> Labels:
        """Return the label of the largest probability, shape (n,)."""
        return self.classes_[self.predict_proba(X).argmax(axis=1)]


def area_if_below_half(scores: Floats, positive: Mask) -> float | None:
    """Return the area under the ROC curve if the area is below ½ by more than noise, otherwise None.

    ``scores`` and the mask ``positive`` have shape (n,). None also if all rows have one label.
    """
    n = len(scores)
    n_positive = int(positive.sum())
    if n_positive in (0, n):
        return None
    n_negative = n - n_positive
    # The area is the fraction of pairs of both labels in which the positive score is higher; ties count half.
    positive_scores = np.sort(scores[positive])
    negative_scores = np.sort(scores[~positive])
    n_below = np.searchsorted(negative_scores, positive_scores, side="left").sum()
    n_at_or_below = np.searchsorted(negative_scores, positive_scores, side="right").sum()
    area = float(n_below + n_at_or_below) / (2 * n_positive * n_negative)
    standard_error = np.sqrt((n + 1) / (12 * n_positive * n_negative))  # without information
    if area < 0.5 - WRONG_DIRECTION * standard_error:
        return area
    return None


def score_columns(X: Table, columns: Sequence[Any], owner: str) -> Array:
    """Return columns of a table, shape (n, columns); messages begin with ``owner``.

    ``columns`` are names, or numbers if the table is an array. Raise ValueError if the table lacks a column,
    has two of one name, or is no data frame or matrix.
    """
    X = as_pandas(X)
    if hasattr(X, "columns"):
        absent = [name for name in columns if name not in X.columns]
        if absent:
            given, absent_names = (
                joined(list(map(repr, names)), NAMES_SHOWN) for names in (X.columns, absent)
            )
            near = did_you_mean(str(absent[0]), map(str, X.columns))
            raise ValueError(
                f"{owner}: the table has no column {absent_names}; {near}it has {given}"
            )
        # Columns of different types would have one type in common.
        scores = with_shortest_decimals(X[list(columns)]).to_numpy()
        if scores.shape[1] > len(columns):
            raise ValueError(f"{owner}: the table has more than one column of this name")
        return scores
    array = np.asarray(X)
    if array.ndim != 2:
        cure = "a row for each case and a column for each score"
        if array.ndim < 2 and len(columns) == 1:
            cure = f"pd.DataFrame({{{columns[0]!r}: scores}})"
        raise ValueError(
            f"{owner}: the table must be a data frame or an array of shape (n, d), got "
            f"{type(X).__name__} of shape {array.shape}; give {cure}"
        )
    for column in columns:
        if not isinstance(column, (int, np.integer)) or not 0 <= column < array.shape[1]:
            numbers = joined(list(map(str, range(array.shape[1]))), NAMES_SHOWN)
            raise ValueError(
                f"{owner}: the table is an array without a column {column!r}; its columns are "
                f"{numbers}. State such a number, or give a data frame for names"
            )
    return array[:, list(columns)]


class GivenModel(ClassifierMixin, BaseEstimator):
    """A function of the table, or an object with ``predict_proba``, as a fitted classifier.

    Parameters
    ----------
    model : callable or object
        ``model(X)`` or ``model.predict_proba(X)`` returns class probabilities of shape (n, K), a data frame
        with a column for each label or, for two classes, the probabilities of the second label.

    Attributes
    ----------
    classes_ : ndarray of shape (K,)
        The labels in the order of the columns: ``classes_`` or ``class_labels`` of the model, otherwise the
        sorted labels of the selection data.
    """

    def __init__(self, model: Model) -> None:
        self.model = model

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        for name in ("allow_nan", "categorical", "string", "three_d_array", "sparse"):
            setattr(tags.input_tags, name, True)
        return tags

    def fit(self, X: Table, y: Column, sample_weight: Column = None) -> Self:
        """Learn the labels; no model is trained."""
        model_labels = getattr(self.model, "classes_", None)
        if model_labels is None:
            model_labels = getattr(self.model, "class_labels", None)
        if model_labels is None:
            self.classes_ = np.unique(label_vector(y))
        else:
            self.classes_ = np.asarray(model_labels)
        return self

    def predict_proba(self, X: Table) -> Floats:
        """Return the checked class probabilities of the model, shape (n, K).

        Columns of a data frame are matched to the labels by name. A vector has the probabilities of the
        second of two labels. Raise ValueError for another shape, or if a label has no column.
        """
        predict: Any = getattr(self.model, "predict_proba", self.model)
        P = predict(X)
        n = n_rows_of(X)
        labels = self.classes_.tolist()
        if hasattr(P, "columns"):
            absent = [label for label in labels if label not in P.columns]
            if absent:
                raise ValueError(
                    f"predict_proba of {self.model!r}: no column {absent[0]!r} in "
                    f"{list(P.columns)}"
                )
            P = P[labels]
        P = np.asarray(P)
        if P.size and isinstance(P.flat[0], str):  # labels
            raise TypeError(
                f"{self.model!r} returns text, such as {P.flat[0]!r}, where probabilities are "
                "needed: give the model itself, or its predict_proba"
            )
        P = P.astype(np.float64)
        if P.ndim == 1 and len(labels) == 2:  # of the second label
            P = np.column_stack([1.0 - P, P])
        if P.shape != (n, len(labels)):
            raise ValueError(
                f"predict_proba of {self.model!r} has the shape {P.shape}; {(n, len(labels))} "
                f"is needed, a column for each of {labels[:10]}"
            )
        return P

    def predict(self, X: Table) -> Labels:
        """Return the label of the largest probability, shape (n,)."""
        return self.classes_[self.predict_proba(X).argmax(axis=1)]


class GivenProbabilities(ClassifierMixin, BaseEstimator):
    """Model with given class probabilities: one block of an array of shape (n, M, K).

    Parameters
    ----------
    name : str
        Name of the model, for messages.
    number : int
        Place of the model among the M models.
    classes : ndarray of shape (K,)
        The labels.
    """

    def __init__(self, name: str, number: int, classes: Labels) -> None:
        self.name = name
        self.number = number
        self.classes = classes

    @property
    def classes_(self) -> Labels:
        """The labels."""
        return self.classes

    def predict_proba(self, X: Floats) -> Floats:
        """Return class probabilities, shape (n, K)."""
        P = X[:, self.number]
        if np.isnan(P).any():
            raise ValueError(
                f"probabilities: those of {[self.name]} are missing, and the rule uses them"
            )
        return P


def needs_adapter(model: Model) -> bool:
    """Whether a model is `Scores`, a function, or an object with ``predict_proba`` but no ``fit``."""
    if isinstance(model, (Scores, GivenModel)):
        return True
    if isinstance(model, type) or hasattr(model, "fit"):
        return False
    return hasattr(model, "predict_proba") or callable(model)


def as_fitted(model: Model) -> Any:
    """Return a fitted model in a form for `tailboost.RobustMixtureClassifier`, which then does not fit it.

    * `Scores`, `GivenModel`, functions and objects without ``fit`` are returned unchanged, because
      `as_classifier` converts them when it knows the labels.
    * A `FrozenEstimator` is returned unchanged too.
    * An object with ``predict_proba`` that was fitted outside scikit-learn becomes a `GivenModel`.
    * Any other model is frozen.

    Nothing is refused here. A class, or a model without ``predict_proba``, is frozen like others, and
    `tailboost.classifiers.fitting.check_estimators` refuses it before any fit.
    """
    if needs_adapter(model):
        return model
    if isinstance(model, FrozenEstimator):
        return model
    gives_probabilities = not isinstance(model, type) and hasattr(model, "predict_proba")
    is_sklearn_estimator = hasattr(model, "__sklearn_tags__")
    if gives_probabilities and not is_sklearn_estimator:
        return GivenModel(model)
    return FrozenEstimator(model)


def as_classifier(model: Model, X: Table, y: Column) -> Any:
    """Return a model in another form as a frozen classifier with labels from ``y``.

    Estimators of scikit-learn are returned unchanged.
    """
    if not needs_adapter(model):
        return model
    if isinstance(model, Scores):  # the user's object stays unfitted
        adapter = clone(model)
    elif isinstance(model, GivenModel):
        adapter = model
    else:
        adapter = GivenModel(model)
    return FrozenEstimator(adapter.fit(X, y))


def scores_among(models: Sequence[Any]) -> list[Scores]:
    """Return the scores among models, which may be frozen."""
    estimators = [getattr(model, "estimator", model) for model in models]
    return [estimator for estimator in estimators if isinstance(estimator, Scores)]


def columns_of_scores(models: Sequence[Any]) -> list[Any]:
    """Return the columns of the scores among models, which may be frozen."""
    return [column for scores in scores_among(models) for column in scores.column_list]


def only_scores(models: Sequence[Any]) -> bool:
    """Whether all models are scores or given probabilities: then equal rows count as different rows."""
    return all(
        isinstance(getattr(model, "estimator", None), (Scores, GivenProbabilities))
        for model in models
    )
