"""What all classifiers share: checks of their rows and labels, fits by a session, and fitted models."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils import check_random_state, get_tags
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

from tailboost.core import (
    NAMES_SHOWN,
    Column,
    Floats,
    Ints,
    Labels,
    Model,
    Partitions,
    Seed,
    Table,
    as_table,
    check_indexes,
    check_length,
    check_weights,
    coded,
    columns_of,
    fitting_apart,
    frozen_object,
    label_column,
    n_rows_of,
    streamed,
    take,
    unpack,
)
from tailboost.learners.protocols import Session

# -- rows and labels -------------------------------------------------------------------------------------


def titles_of(estimator: Any) -> list[Any]:
    """Return the names of the columns of the fit of an estimator; scikit-learn keeps names of text alone."""
    return list(getattr(estimator, "_titles", getattr(estimator, "feature_names_in_", ())))


def check_table(frame: Table) -> None:
    """Raise ValueError unless a data frame is a table with rows, columns, and different names of these."""
    if frame.ndim != 2:
        raise ValueError(
            "X is a Series, where a table is needed: for one row of a data frame give "
            "X.iloc[[i]], for one column X[[name]]"
        )
    repeated = frame.columns[frame.columns.duplicated()].tolist()
    if repeated:
        raise ValueError(
            f"X has more than one column called {repeated[0]!r}; names must differ"
        )
    if not frame.size:
        raise ValueError(f"X has no rows or no columns: its shape is {frame.shape}")


def checked_rows(estimator: Any, X: Table, *, reset: bool, as_it_is: bool = False) -> Any:
    """Return a table as the tags of an estimator allow it, a data frame as such.

    ``reset`` sets the columns, as in a fit. Later the same columns get their order in the fit. With
    ``as_it_is`` any table of these columns is right.
    """
    names = columns_of(X)
    if reset:
        estimator._titles = names
    titles = titles_of(estimator)
    if names != titles and {*names} == {*titles}:
        X = as_table(X, titles)
    is_frame = hasattr(X, "iloc")
    if is_frame and not as_it_is:
        check_table(X)
    tags = get_tags(estimator).input_tags
    return validate_data(
        estimator,
        X,
        reset=reset,
        dtype=None if tags.categorical or tags.string else "numeric",
        accept_sparse=tags.sparse and "csr",
        ensure_all_finite="allow-nan" if tags.allow_nan else True,
        ensure_2d=not as_it_is or np.ndim(X) > 1,
        allow_nd=tags.three_d_array,
        skip_check_array=is_frame or as_it_is,
    )


def check_labelled_rows(
    learner: Model, X: Table, y: Column, sample_weight: Column, *, reset: bool = True
) -> tuple[Any, Labels, Ints, Floats]:
    """Check the arguments of a learner's ``fit``; return the table, classes, class numbers and weights.

    Their shapes are (n, d), (K,), (n,) and (n,). The learner's ``_checked`` checks the table. Raise
    ValueError if labels or weights do not fit the table, or in a fit, ``reset``, fewer than two classes have
    rows of positive weight.
    """
    check_indexes(X=X, y=y, sample_weight=sample_weight)
    X = learner._checked(X, reset=reset)
    classes, class_numbers = coded(y, "y", target=True)
    check_length(class_numbers, "y", n_rows_of(X))
    weight = check_weights(sample_weight, len(class_numbers))
    if reset:
        check_classes(classes[np.unique(class_numbers[weight > 0])], len(class_numbers))
    return X, classes, class_numbers, weight


def check_classes(classes: Labels, n_rows: float = np.inf) -> None:
    """Raise ValueError unless the labels of rows of positive weight are two classes or more.

    Ids, of which most of ``n_rows`` to be fitted have their own, are no classes. Neither are amounts: many
    numbers of few rows each, that are no codes one after the other.
    """
    check_classification_targets(np.repeat(classes, 2))  # not the column: it is long
    if len(classes) < 2:
        raise ValueError(
            f"y holds one class only ({classes.tolist()[0]!r}) among the rows of positive weight; "
            "a classifier needs at least two classes"
        )
    fewest = 10 if classes.dtype.kind in "iuf" and np.ptp(classes) > 2 * len(classes) else 2
    if len(classes) > max(NAMES_SHOWN, n_rows / fewest):
        raise ValueError(
            f"y has {len(classes):,} different values in {n_rows:,} rows; a classifier needs "
            "classes, as in y > threshold"
        )


# -- sessions and their models ---------------------------------------------------------------------------


@frozen_object
class FittedModel(ABC):
    """A fitted model that answers class numbers 0 … K − 1.

    Attributes
    ----------
    table_ : object
        Its ``transform`` prepares rows, once for all models with an equal one.
    """

    table_: Any

    @abstractmethod
    def predict_proba_table(self, table: Any) -> Floats:
        """Return class probabilities for rows prepared by ``table_.transform``, shape (n, K)."""

    def predict_table(self, table: Any) -> Ints:
        """Return class numbers for prepared rows, shape (n,); ties go to the first class."""
        return self.predict_proba_table(table).argmax(axis=1)

    def predict_proba(self, X: Table) -> Floats:
        """Return class probabilities, shape (n, K)."""
        return self.predict_proba_table(self.table_.transform(X))

    def predict(self, X: Table) -> Ints:
        """Return class numbers, shape (n,)."""
        return self.predict_table(self.table_.transform(X))


@dataclass
class OpenSession:
    """All fits of one learner on its rows.

    Attributes
    ----------
    learner : estimator
        The learner.
    X : table of n rows
        The rows, prepared for its models.
    y : ndarray of int, shape (n,)
        Class numbers.
    n_classes : int
        K.
    """

    learner: Any
    X: Any
    y: Ints
    n_classes: int

    def predict(self, model: FittedModel) -> Ints:
        """Return class numbers of the session's rows."""
        return model.predict_table(self.X)


def seed_of(random_state: Seed) -> int:
    """Return a seed of the ``random_state`` of an estimator; a generator gives another one each time."""
    return check_random_state(random_state).randint(2**31 - 1)


# -- classifiers -----------------------------------------------------------------------------------------


class Classifier(ClassifierMixin, BaseEstimator):
    """Base class of all classifiers here."""

    def score(self, X: Table, y: Column, sample_weight: Column = None) -> float:
        """Return the accuracy of `predict`.

        Parameters
        ----------
        X : table of n rows
            As in ``fit``.
        y : array-like of shape (n,)
            Labels.
        sample_weight : array-like of shape (n,), optional
            Weights of the rows.

        Returns
        -------
        float
            From 0 to 1.
        """
        rows, y = streamed(X, y)
        if isinstance(rows, Partitions):
            rows = rows.counted()
        check_indexes(X=rows, y=y, sample_weight=sample_weight)
        return super().score(X, label_column(y, "y", target=True), sample_weight)


class SessionClassifier(Classifier):
    """Base class of classifiers whose sessions fit them.

    Attributes
    ----------
    model_ : FittedModel
        What the session fitted to class numbers.
    """

    classes_: Labels
    random_state: Seed = None
    _session: Any

    def open_session(self, X: Table, y: Ints, n_classes: int, sample_weight: Floats) -> Session:
        """Return a session on these rows; labels are class numbers 0 … K − 1."""
        self._validate_params()
        return self._session(self, X, y, n_classes, sample_weight)

    def _checked(self, X: Table, *, reset: bool = False) -> Any:
        """Return the checked table; ``reset`` sets its columns, as in a fit."""
        X, _ = unpack(X)
        return checked_rows(self, X, reset=reset)

    def fit(self, X: Table, y: Column = None, sample_weight: Column = None) -> Self:
        """Fit the classifier to weighted rows.

        Parameters
        ----------
        X : array-like, sparse matrix or data frame of shape (n, d)
            For trees NaN is a missing value, text and category columns of a data frame are categories, and
            absent entries of a sparse matrix are missing values, as in XGBoost. Stumps take finite numbers.
            Nets also take images of shape (n, H, W) or (n, H, W, C), and a torch Dataset.
        y : array-like of shape (n,)
            Class labels; None takes those of a Dataset.
        sample_weight : array-like of shape (n,), optional
            Non-negative weights.

        Returns
        -------
        self

        Raises
        ------
        ValueError
            If X, y or sample_weight is not as described, or y has fewer than two classes.
        """
        X, y = unpack(X, y)
        with fitting_apart(self) as fitted:
            X, fitted.classes_, y, weight = check_labelled_rows(fitted, X, y, sample_weight)
            used = np.flatnonzero(weight)
            session = fitted.open_session(
                take(X, used), y[used], len(fitted.classes_), weight[used]
            )
            fitted.model_ = session.fit(weight[used], seed_of(self.random_state))
        return self

    def __sklearn_is_fitted__(self) -> bool:
        # scikit-learn's default iterates over all attributes, while another thread may add some.
        return "classes_" in vars(self)

    def predict(self, X: Table) -> Labels:
        """Predict labels, shape (n,)."""
        check_is_fitted(self)
        return self.classes_[self.model_.predict(self._checked(X))]


class ProbabilityClassifier(SessionClassifier):
    """Base class of those whose models have class probabilities."""

    def predict_proba(self, X: Table) -> Floats:
        """Predict class probabilities, shape (n, K), columns in the order of ``classes_``."""
        check_is_fitted(self)
        return self.model_.predict_proba(self._checked(X))
