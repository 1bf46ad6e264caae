"""Sample weights that balance classes or class × group cells."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, ClassifierMixin, MetaEstimatorMixin, clone
from sklearn.utils import Tags, check_consistent_length, column_or_1d, get_tags
from sklearn.utils.class_weight import compute_sample_weight
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted

from tailboost.core.array_types import Floats, Labels
from tailboost.core.checks import check_length, label_column


def checked_labels(X: Any, y: ArrayLike) -> Labels:
    """Return one label per row of X; errors have scikit-learn's messages."""
    if y is None:
        raise ValueError("this classifier requires y to be passed, but the target y is None")
    check_consistent_length(X, y)
    labels: Labels = column_or_1d(y, warn=True)
    if not len(labels):
        raise ValueError("there are 0 rows; a fit needs at least one")
    check_classification_targets(labels)
    return labels


def cell_weights(y: ArrayLike, groups: ArrayLike | None = None) -> Floats:
    """Return sample weights with mean 1 and the same sum in each class, or class × group cell.

    Parameters
    ----------
    y : array-like of shape (n,)
        Labels.
    groups : array-like of shape (n,), optional
        Groups of the rows.

    Returns
    -------
    ndarray of shape (n,)

    Examples
    --------
    >>> from tailboost.app.baselines import cell_weights
    >>> cell_weights([0, 0, 0, 1], ["a", "a", "b", "b"]).round(3)
    array([0.667, 0.667, 1.333, 1.333])
    """
    cell = np.unique(np.asarray(y), return_inverse=True)[1]
    if groups is not None:
        column = np.unique(label_column(groups, "groups"), return_inverse=True)[1]
        check_length(column, "groups", len(cell), of="y")
        cell = cell * (column.max() + 1) + column
    weights: Floats = compute_sample_weight("balanced", cell)
    return weights


class MetaClassifier(MetaEstimatorMixin, ClassifierMixin, BaseEstimator):
    """Base of classifiers that fit another classifier, ``estimator``, and store it as ``estimator_``."""

    estimator: Any
    estimator_: Any

    def predict_proba(self, X: Any) -> Floats:
        """Return the class probabilities of ``estimator_``, shape (n, K)."""
        check_is_fitted(self)
        P: Floats = self.estimator_.predict_proba(X)
        return P

    @property
    def n_features_in_(self) -> int:
        """Number of features."""
        check_is_fitted(self)
        return int(self.estimator_.n_features_in_)

    def __sklearn_tags__(self) -> Tags:
        tags, inner = super().__sklearn_tags__(), get_tags(self.estimator)
        tags.input_tags = inner.input_tags
        tags.classifier_tags.multi_class = inner.classifier_tags.multi_class
        return tags


class CellWeightedClassifier(MetaClassifier):
    """Classifier fitted with balanced weights of classes or class × group cells.

    Parameters
    ----------
    estimator : classifier
        Its ``fit`` takes ``sample_weight``.

    Attributes
    ----------
    estimator_ : classifier
        The fitted classifier.
    classes_ : ndarray of shape (K,)
        Sorted labels.

    Examples
    --------
    >>> from sklearn.datasets import load_wine
    >>> from sklearn.linear_model import LogisticRegression
    >>> from tailboost.app.baselines import CellWeightedClassifier
    >>> X, y = load_wine(return_X_y=True)
    >>> CellWeightedClassifier(LogisticRegression(max_iter=5000)).fit(X, y).predict(X[:3])
    array([0, 0, 0])
    """

    def __init__(self, estimator: Any) -> None:
        self.estimator = estimator

    def fit(self, X: Any, y: ArrayLike, groups: ArrayLike | None = None) -> Self:
        """Fit with the weights of `cell_weights`."""
        labels = checked_labels(X, y)
        self.estimator_ = clone(self.estimator).fit(X, labels, sample_weight=cell_weights(labels, groups))
        self.classes_ = self.estimator_.classes_
        return self

    def predict(self, X: Any) -> Labels:
        """Return the predicted labels, shape (n,)."""
        check_is_fitted(self)
        answers: Labels = self.estimator_.predict(X)
        return answers
