"""Mean of the class probabilities of several models, from a cross-fit or from several rounds."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tailboost.core.array_types import Floats, Ints
from tailboost.learners.protocols import PreparedProba

# Smallest probability, the same as in the selection of decision rules.
LEAST = 1e-6


def ranked(P: NDArray[Any], rank: int) -> Ints:
    """Return the class with the ``rank``-th largest probability, from 0; ties go to the first class."""
    for _ in range(rank):
        P = P.copy()
        P[np.arange(len(P)), P.argmax(axis=1)] = -1.0
    return P.argmax(axis=1)


class ClassProbabilities:
    """Mean class probabilities of several models of one open table.

    It is a classifier, and also the prepared table of `Ranked` models. ``share`` of shape (n_models, K) has
    the weight of each model by class: 0 for classes that the model was not fitted on. The predictions divide
    these weights by their sum over the models.
    """

    def __init__(self, models: Sequence[PreparedProba], share: Floats) -> None:
        self.models, self.share = list(models), share

    @property
    def classes_(self) -> Ints:
        """Class numbers, shape (K,)."""
        return np.arange(self.share.shape[1])

    @property
    def table_(self) -> Any:
        """Reader of rows for the models."""
        return self.models[0].table_

    @property
    def feature_importances_(self) -> Floats:
        """Mean of the models' importances, shape (d,)."""
        each: list[Any] = list(self.models)
        return np.mean([model.feature_importances_ for model in each], axis=0)

    def predict_proba_table(self, table: Any) -> Floats:
        """Return class probabilities for ``table_.transform(X)``, shape (n, K); each row sums to 1.

        The logarithms are averaged, and each row is normalised. Decision rules are selected on probabilities
        of single models. The arithmetic mean would be larger than these for a rare class.
        """
        logs = sum(
            share * np.log(np.maximum(model.predict_proba_table(table), LEAST))
            for share, model in zip(self.share / self.share.sum(axis=0), self.models, strict=True)
        )
        P: Floats = np.exp(logs - np.max(logs, axis=1, keepdims=True))
        return P / P.sum(axis=1, keepdims=True)

    def predict_proba(self, X: Any) -> Floats:
        """Return class probabilities, shape (n, K)."""
        return self.predict_proba_table(self.table_.transform(X))

    def predict(self, X: Any) -> Ints:
        """Return class numbers, shape (n,)."""
        return self.predict_proba(X).argmax(axis=1)

    def with_models_of(self, other: ClassProbabilities) -> ClassProbabilities:
        """Return the mean of these models and the models of another mean."""
        return ClassProbabilities([*self.models, *other.models], np.vstack([self.share, other.share]))

    def transform(self, X: Any) -> Floats:
        """Return the arithmetic mean of the models' probabilities by class, shape (n, K)."""
        table = self.table_.transform(X)
        each = (model.predict_proba_table(table) for model in self.models)
        total: Floats = sum(share * P for share, P in zip(self.share, each, strict=True))
        return total / self.share.sum(axis=0)


class Ranked:
    """Base model that predicts the class with the ``rank``-th largest mean probability, from 0.

    Base models of different ranks share the probabilities.
    """

    def __init__(self, table_: ClassProbabilities, rank: int = 0) -> None:
        self.table_, self.rank = table_, rank

    @property
    def feature_importances_(self) -> Floats:
        """Mean of the models' importances, shape (d,)."""
        return self.table_.feature_importances_

    def predict_table(self, table: Floats) -> Ints:
        """Return class numbers for ``table_.transform(X)``, shape (n,)."""
        return ranked(table, self.rank)

    def predict_proba_table(self, table: Floats) -> Floats:
        """Return the mean probabilities, which do not depend on the rank, shape (n, K)."""
        return table / table.sum(axis=1, keepdims=True)

    def predict(self, X: Any) -> Ints:
        """Return class numbers, shape (n,)."""
        return self.predict_table(self.table_.transform(X))
