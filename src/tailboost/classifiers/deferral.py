"""Labels of rows that a rule defers: a warning, or a mark of the caller."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tailboost.core.array_types import Mask
from tailboost.core.exceptions import DeferredRowsWarning
from tailboost.core.warn import warn_user
from tailboost.rows.judged import judged


def labels_or_mark(
    classifier: Any, labels: NDArray[Any], is_deferred: Mask, mark: Any
) -> NDArray[Any]:
    """Return the labels; deferred rows get ``mark`` instead, or without a mark their label and a warning.

    Parameters
    ----------
    classifier : classifier
        The classifier that has answered.
    labels : ndarray of shape (n,)
        Its labels, for deferred rows too.
    is_deferred : ndarray of bool, shape (n,)
        The rows that it defers.
    mark : str, number or None
        Value for deferred rows.

    Raises
    ------
    ValueError
        If the mark is no single value, or a label.
    """
    if mark is None:
        _warn_of_labels(classifier, is_deferred)
        return labels
    marks = np.asarray(mark)
    if marks.ndim > 0:
        raise ValueError(f"deferred must be one value, got {mark!r}")
    if mark in classifier.classes_.tolist():
        raise ValueError(f"deferred={mark!r} is a label: deferred rows need another mark")
    if marks.dtype.kind != labels.dtype.kind:  # NumPy would turn numbers into text
        marks = np.array(mark, dtype=object)
        labels = labels.astype(object)
    return np.where(is_deferred, marks, labels)


def _warn_of_labels(classifier: Any, is_deferred: Mask) -> None:
    """Warn that deferred rows have labels."""
    n_deferred = np.count_nonzero(is_deferred)
    if n_deferred:
        warn_user(
            f"predict: {n_deferred:,} of {len(is_deferred):,} rows are deferred. "
            f"{words_of_labels(classifier)}",
            DeferredRowsWarning,
        )


def words_of_labels(classifier: Any) -> str:
    """Return two sentences: which numbers do not count the labels of deferred rows, and how to mark them."""
    counting = "The limits and rates of the rule"
    if judged(classifier).certificate is not None:
        counting = "The certificate"
    return (
        f"{counting} count them as deferred, not with the labels given here. "
        "predict(X, deferred='human review') marks them; defers(X) tells which they are"
    )
