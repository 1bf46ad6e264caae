"""What several learners need: the checks of ``fit``, and constants."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.dummy import DummyClassifier
from sklearn.utils import check_consistent_length, column_or_1d
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import _check_sample_weight

from tailboost._rows import refuse_missing

Floats = NDArray[np.float64]
Ints = NDArray[np.intp]
Mask = NDArray[np.bool_]


def last(drawn: Iterable[Any]) -> Any:
    """Draw everything and return what came last."""
    return deque(drawn, maxlen=1)[0]


def constant(k: int, n_classes: int) -> DummyClassifier:
    """Return the classifier that answers class number ``k`` to every row."""
    labels = np.arange(n_classes)
    return DummyClassifier(strategy="constant", constant=k).fit(np.zeros((n_classes, 1)), labels)


def check_labelled_rows(
    learner: Any, X: Any, y: Any, sample_weight: Any
) -> tuple[Any, NDArray[Any], Ints, Floats]:
    """Check what a learner's ``fit`` is given: the table, the classes, class numbers and weights of the rows.

    The table is checked by the learner's own ``_checked``.

    Raises
    ------
    ValueError
        If labels or weights do not fit the table, or fewer than two classes have a row that weighs something.
    """
    if y is None:
        raise ValueError(f"{type(learner).__name__} requires y to be passed, but the target y is None")
    refuse_missing(y, "y")
    X, y = learner._checked(X, y)
    y = column_or_1d(y, warn=True)
    check_consistent_length(X, y)
    check_classification_targets(y)
    classes, index = np.unique(y, return_inverse=True)
    weight = _check_sample_weight(sample_weight, X, dtype=np.float64, ensure_non_negative=True)
    if not weight.any():
        raise ValueError("sample_weight: all weights are zero, at least one must be positive")
    present = np.unique(index[weight > 0])
    if len(present) < 2:
        raise ValueError(
            f"y holds one class only ({classes[present[0]]!r}) among the rows that weigh something; "
            "at least two are needed"
        )
    return X, classes, index.astype(np.intp), weight
