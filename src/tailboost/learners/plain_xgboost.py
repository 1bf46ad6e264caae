"""XGBoost's classifier for labels of any type; needs XGBoost."""

from __future__ import annotations

from typing import Self

import numpy as np
from xgboost import XGBClassifier

from tailboost.core.array_types import Column, Labels, Table
from tailboost.core.long_work import fitting_apart


class PlainXGBoost(XGBClassifier):
    """``XGBClassifier`` for labels of any type."""

    def fit(self, X: Table, y: Column, sample_weight: Column = None, **params: object) -> Self:
        """Fit on class numbers."""
        labels, class_numbers = np.unique(y, return_inverse=True)
        with fitting_apart(self) as fitted:
            # XGBoost compares the class numbers with `classes_`.
            fitted.labels_ = np.arange(len(labels))
            super(PlainXGBoost, fitted).fit(
                X, class_numbers, sample_weight=sample_weight, **params
            )
            fitted.labels_ = labels
        return self

    @property
    def classes_(self) -> Labels:
        """Sorted labels."""
        return self.labels_

    def predict(self, X: Table, **params: object) -> Labels:
        """Return labels."""
        return self.labels_[super().predict(X, **params)]
