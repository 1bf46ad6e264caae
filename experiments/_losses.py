"""Losses of rows under any classifier, for comparisons with boosting."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tailboost.core.array_types import Floats

# Smallest probability: 0 would make a margin infinite, and a forest's 0 is not exact.
SMALLEST_PROBABILITY = 1e-15


def error_losses(classifier: Any, X: Any, y: NDArray[Any]) -> Floats:
    """Return 1 for each row with a wrong answer, 0 for the others."""
    return (classifier.predict(X) != y).astype(np.float64)


def exponential_losses(classifier: Any, X: Any, y: NDArray[Any]) -> Floats:
    """Return exp(−margin) of each row, capped at 1.8e308.

    The margin is that of an additive classifier, or ``log p_y`` minus the mean of ``log p_k`` over the
    classes (for two classes ½ log odds).
    """
    if hasattr(classifier, "margins"):
        margins = classifier.margins(X, y)
    else:
        probabilities = np.asarray(classifier.predict_proba(X), dtype=np.float64)
        log_p = np.log(np.maximum(probabilities, SMALLEST_PROBABILITY))
        k = np.searchsorted(classifier.classes_, y)
        margins = log_p[np.arange(len(k)), k] - log_p.mean(axis=1)
    return np.exp(np.minimum(-margins, np.log(np.finfo(np.float64).max)))
