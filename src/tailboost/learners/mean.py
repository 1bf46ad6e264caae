"""Models of a cross-fit, or of several rounds, that answer together by the mean of their probabilities."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tailboost.core.array_types import Floats, Ints, Mask
from tailboost.learners.protocols import PreparedProba

# Least probability, as where thresholds are chosen.
LEAST = 1e-6


def shares(seen: Mask) -> Floats:
    """Return the share of each model in a mean, for each class, shape (n_models, K).

    ``seen`` is which classes a model was fitted on: the others say nothing of a class, unless none knows it.
    """
    asked = seen | ~seen.any(axis=0)
    share: Floats = asked / asked.sum(axis=0)
    return share


def ranked(P: NDArray[Any], rank: int) -> Ints:
    """Return the class of each row's ``rank``-th largest probability, from 0; ties go to the first class."""
    for _ in range(rank):
        P = P.copy()
        P[np.arange(len(P)), P.argmax(axis=1)] = -1.0
    return P.argmax(axis=1)


class ClassProbabilities:
    """Mean class probabilities of several models: a classifier, and a prepared table that members share.

    The models, fitted on one opened table, answer probabilities of its prepared rows; ``share`` of shape
    (n_models, K) is the weight of each in the mean, see `shares`, and is divided by the sum over the models.
    """

    def __init__(self, models: Sequence[PreparedProba], share: Floats) -> None:
        self.models, self.share = list(models), share

    @property
    def classes_(self) -> Ints:
        """Class numbers, shape (K,)."""
        return np.arange(self.share.shape[1])

    @property
    def table_(self) -> Any:
        """What reads rows for the models."""
        return self.models[0].table_

    @property
    def feature_importances_(self) -> Floats:
        """Mean of those of the models, shape (d,)."""
        each: list[Any] = list(self.models)
        return np.mean([model.feature_importances_ for model in each], axis=0)

    def predict_proba_table(self, table: Any) -> Floats:
        """Return class probabilities for ``table_.transform(X)``, shape (n, K); each row sums to 1.

        Their logarithms are the means of the models', up to what makes a row sum to 1. Thresholds are chosen
        on the logarithms of single models: those of the mean of probabilities are higher where these are
        small, so that of a rare class too many rows would be answered.
        """
        logs = sum(
            share * np.log(np.maximum(model.predict_proba_table(table), LEAST))
            for share, model in zip(self.share / self.share.sum(axis=0), self.models, strict=True)
        )
        # Where models saw different classes, each class has the mean of other models.
        found: Floats = np.exp(logs - np.max(logs, axis=1, keepdims=True))
        return found / found.sum(axis=1, keepdims=True)

    def predict_proba(self, X: Any) -> Floats:
        """Return class probabilities, shape (n, K)."""
        return self.predict_proba_table(self.table_.transform(X))

    def predict(self, X: Any) -> Ints:
        """Return class numbers, shape (n,)."""
        return self.predict_proba(X).argmax(axis=1)

    def with_models_of(self, other: ClassProbabilities) -> ClassProbabilities:
        """Return the mean of the models here and of others."""
        return ClassProbabilities([*self.models, *other.models], np.vstack([self.share, other.share]))

    def transform(self, X: Any) -> Floats:
        """Return the mean probabilities of each class over the models that know it, shape (n, K)."""
        table = self.table_.transform(X)
        answers = (model.predict_proba_table(table) for model in self.models)
        summed: Floats = sum(share * P for share, P in zip(self.share, answers, strict=True))
        return summed / self.share.sum(axis=0)


class Ranked:
    """Answers with the likeliest class by mean probabilities, or the next likely, and so on.

    The probabilities are shared by the members of all ranks. ``rank`` is the number of classes that are
    likelier than the one that is answered.
    """

    def __init__(self, table_: ClassProbabilities, rank: int = 0) -> None:
        self.table_, self.rank = table_, rank

    @property
    def feature_importances_(self) -> Floats:
        """Mean of those of the models, shape (d,)."""
        return self.table_.feature_importances_

    def predict_table(self, table: Floats) -> Ints:
        """Return class numbers for ``table_.transform(X)``, shape (n,)."""
        return ranked(table, self.rank)

    def predict_proba_table(self, table: Floats) -> Floats:
        """Return the mean probabilities, whatever the rank, shape (n, K)."""
        return table / table.sum(axis=1, keepdims=True)

    def predict(self, X: Any) -> Ints:
        """Return class numbers, shape (n,)."""
        return self.predict_table(self.table_.transform(X))
