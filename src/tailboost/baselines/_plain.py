"""The coin flip and plain XGBoost, and XGBoost with balanced classes or cells."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.dummy import DummyClassifier

try:
    from xgboost import XGBClassifier
except ImportError:  # the extra is optional
    XGBClassifier = None


class CoinFlip(DummyClassifier):
    """All K constants, mixed evenly: CVaR 1 − 1/K at every α, on any data."""

    def __init__(self) -> None:
        super().__init__(strategy="uniform", random_state=0)

    def predict_proba(self, X: Any) -> NDArray[np.float64]:
        """Return 1/K for every class and row, shape (n, K)."""
        n, K = super().predict_proba(X).shape
        return np.full((n, K), 1.0 / K)


def plain_xgboost(*, random_state: Any = None, n_jobs: int | None = None, **params: Any) -> Any:
    """Return XGBoost's own classifier with its own defaults, for labels of any type.

    Raises
    ------
    ImportError
        If XGBoost is not installed.
    """
    if XGBClassifier is None:
        raise ImportError("the baseline 'xgboost' needs XGBoost: pip install 'tailboost[xgboost]'")
    return PlainXGBoost(random_state=random_state, n_jobs=n_jobs, **params)


if XGBClassifier is not None:

    class PlainXGBoost(XGBClassifier):
        """``XGBClassifier`` that takes labels of any type."""

        def fit(self, X: Any, y: Any, **params: Any) -> Self:
            """Fit on class numbers."""
            labels, index = np.unique(y, return_inverse=True)
            self.labels_ = np.arange(len(labels))  # what the fit below compares the class numbers with
            super().fit(X, index, **params)
            self.labels_ = labels
            return self

        @property
        def classes_(self) -> NDArray[Any]:
            """The labels, sorted."""
            return self.labels_

        def predict(self, X: Any, **params: Any) -> NDArray[Any]:
            """Return labels."""
            return self.labels_[super().predict(X, **params)]
