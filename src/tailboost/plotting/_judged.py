"""What displays measure on some rows: errors of classes and groups, margins round by round."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Literal

import numpy as np
from sklearn.utils import column_or_1d
from sklearn.utils.validation import check_is_fitted

from tailboost import metrics
from tailboost._checks import check_length, check_weights, n_rows_of, positions
from tailboost._typing import Floats, Ints

Response = Literal["predict", "predict_proba"]


def response_of(estimator: Any, name: Response, prefix: str = "") -> Callable[[Any], Any]:
    """Return the method of an estimator that answers rows, or raise ValueError where it is none."""
    if name not in ("predict", "predict_proba"):
        raise ValueError(f"response_method must be 'predict' or 'predict_proba', got {name!r}")
    method: Callable[[Any], Any] = getattr(estimator, prefix + name)
    return method


def unit_errors(y: Any, answers: Any, groups: Any, labels: Any, sample_weight: Any) -> dict[Any, float]:
    """Return the error of each class, or group, of labels, or expected of shares of shape (n, K)."""
    if groups is not None and np.ndim(answers) == 1:
        return metrics.group_errors(y, answers, groups, sample_weight=sample_weight)
    given = {"sample_weight": sample_weight, "labels": labels}
    if groups is not None:
        return metrics.expected_group_errors(y, answers, groups, **given)
    of_classes = metrics.class_errors if np.ndim(answers) == 1 else metrics.expected_class_errors
    return of_classes(y, answers, **given)


def labelled(estimator: Any, X: Any, y: Any, sample_weight: Any) -> tuple[Ints, Floats]:
    """Return the class numbers of rows, and their weights with sum 1, for a fitted additive classifier."""
    if not hasattr(estimator, "staged_decision_function"):
        raise TypeError(f"{type(estimator).__name__} has no scores by round; an additive classifier has")
    check_is_fitted(estimator)
    labels = column_or_1d(y)
    check_length(labels, "y", n_rows_of(X))
    weight = check_weights(sample_weight, len(labels))
    return positions(labels, estimator.classes_, "y"), weight / weight.sum()


def staged_margins(estimator: Any, X: Any, index: Ints) -> Iterator[Floats]:
    """Yield the margins of rows of these class numbers: zeros, then those after each hypothesis."""
    yield np.zeros(len(index))
    for f in estimator.staged_decision_function(X):
        yield f * (2 * index - 1) if f.ndim == 1 else f[np.arange(len(index)), index]
