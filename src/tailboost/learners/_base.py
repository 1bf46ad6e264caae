"""What the game asks of a learner: open the data once, then fit as often as asked."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from sklearn.dummy import DummyClassifier

Floats = NDArray[np.float64]
Ints = NDArray[np.intp]
Mask = NDArray[np.bool_]


class Session(Protocol):
    """A learner with its data opened. Labels are class numbers 0 … K − 1.

    ``concurrent`` says whether several fits may run at the same time.
    """

    concurrent: bool

    def fit(self, weight: Floats, seed: int, rows: Mask | None = None) -> Any:
        """Return a classifier fitted on the rows (all without ``rows``) with these weights, shape (n,)."""

    def predict(self, model: Any, rows: Mask | None = None) -> Ints:
        """Return the class numbers that a model of this session predicts for the opened rows."""


def constant(k: int, n_classes: int) -> DummyClassifier:
    """Return the classifier that answers class number ``k`` to every row."""
    labels = np.arange(n_classes)
    return DummyClassifier(strategy="constant", constant=k).fit(np.zeros((n_classes, 1)), labels)
