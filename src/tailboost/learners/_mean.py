"""What stays of a cross-fit: the models of its parts, answering together."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tailboost._typing import Floats, Ints, Mask
from tailboost.learners.protocols import PreparedProba


def shares(seen: Mask) -> Floats:
    """Return the share of each model in a mean, for each class, shape (n_models, K).

    Parameters
    ----------
    seen : ndarray of shape (n_models, K)
        Which classes a model was fitted on: the others say nothing of a class, unless none knows it.
    """
    asked = seen | ~seen.any(axis=0)
    share: Floats = asked / asked.sum(axis=0)
    return share


class Averaged:
    """Answers by the mean of models' probabilities.

    Parameters
    ----------
    models : list of classifiers
        Fitted on one opened table; they answer probabilities of its prepared rows.
    share : ndarray of shape (n_models, K)
        Weight of each in the mean, see `shares`.
    """

    def __init__(self, models: Sequence[PreparedProba], share: Floats) -> None:
        self.models, self.share = list(models), share
        self.table_ = self.models[0].table_
        self.classes_ = np.arange(share.shape[1])

    @property
    def feature_importances_(self) -> Floats:
        """Mean of those of the models, shape (d,)."""
        each: list[Any] = list(self.models)
        return np.mean([model.feature_importances_ for model in each], axis=0)

    def predict_proba_table(self, table: Any) -> Floats:
        """Return class probabilities for ``table_.transform(X)``, shape (n, K)."""
        answers = (model.predict_proba_table(table) for model in self.models)
        total: Floats = sum(share * P for share, P in zip(self.share, answers, strict=True))
        # Where models saw different classes, each class has the mean of other models.
        return total / total.sum(axis=1, keepdims=True)

    def predict_table(self, table: Any) -> Ints:
        """Return class numbers for ``table_.transform(X)``, shape (n,)."""
        return self.predict_proba_table(table).argmax(axis=1)

    def predict_proba(self, X: Any) -> Floats:
        """Return class probabilities, shape (n, K)."""
        return self.predict_proba_table(self.table_.transform(X))

    def predict(self, X: Any) -> Ints:
        """Return class numbers, shape (n,)."""
        return self.predict_table(self.table_.transform(X))
