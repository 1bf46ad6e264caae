"""The coin flip."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.dummy import DummyClassifier


class CoinFlip(DummyClassifier):
    """All K constants, mixed evenly: CVaR 1 − 1/K at every α, on any data."""

    def __init__(self) -> None:
        super().__init__(strategy="uniform", random_state=0)

    def predict_proba(self, X: Any) -> NDArray[np.float64]:
        """Return 1/K for every class and row, shape (n, K)."""
        n, K = super().predict_proba(X).shape
        return np.full((n, K), 1.0 / K)
