"""Prediction with the label distribution of a randomised rule."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import ClassifierMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from tailboost.boosting.ensemble import answers_by, draw
from tailboost.core.array_types import Floats, Ints


class RandomizedClassifier(ClassifierMixin):
    """Randomised rule that draws a candidate with probability λ."""

    classes_: NDArray[Any]
    ensemble_: Any

    @abstractmethod
    def _scores(self, X: Any, groups: Any = None) -> Floats:
        """Return the label distribution of rows, shape (n, K), with ties broken."""

    @abstractmethod
    def _asker(self, X: Any, groups: Any) -> tuple[int, Callable[[int, Ints], Ints]]:
        """Return the number of rows, and a function ``ask(candidate, rows)`` that returns class numbers."""

    @abstractmethod
    def predict_proba(self, X: Any) -> Floats:
        """Return P(y | x), shape (n, K)."""

    def predict_distribution(self, X: Any, *, groups: Any = None) -> Floats:
        """Return the label distribution of the randomised rule.

        This is the probability with which the rule draws each label. It is **not** P(y | x), which
        `predict_proba` estimates. Bounds of mixtures are about this distribution: the expected zero-one loss
        of a row is 1 minus the probability of the true label. If the rule is a single candidate, its label
        has probability 1.

        Parameters
        ----------
        X : array-like of shape (n, d)
            Rows, as in `fit`. A `RobustMixtureClassifier` also takes a dict of its models' probabilities of
            the rows; models without weight (see ``used_models_``) may be left out.
        groups : array-like of shape (n,), optional
            Group of each row, one of those in `fit`; needed with ``by_group=True`` alone.

        Returns
        -------
        ndarray of shape (n, K)
            Columns in the order of `classes_`; rows sum to 1.

        Raises
        ------
        ValueError
            If groups are missing, not used, or not among those of `fit`; if probabilities are missing.
        """
        return self._scores(X, groups)

    def predict_log_proba(self, X: Any) -> Floats:
        """Return the logarithm of ``predict_proba``, −∞ for a probability of 0.

        Parameters
        ----------
        X : array-like of shape (n, d)
            Rows, as in `predict_distribution`.

        Returns
        -------
        ndarray of shape (n, K)
            Columns in the order of `classes_`.
        """
        with np.errstate(divide="ignore"):
            return np.asarray(np.log(self.predict_proba(X)))

    def predict(self, X: Any, *, groups: Any = None) -> NDArray[Any]:
        """Return the most probable label of `predict_distribution`.

        The prediction is deterministic. It can differ from the label with the largest `predict_proba`,
        because the rule minimises another objective than the overall error. Probabilities that are equal
        after rounding to 1e-9 are a tie. The candidate with the least mean loss breaks a tie.

        Parameters
        ----------
        X, groups : array-like of shape (n, d), (n,)
            As in `predict_distribution`.

        Returns
        -------
        ndarray of shape (n,)
            Labels, as in `classes_`.
        """
        distribution = self._scores(X, groups)
        return self.classes_[distribution.argmax(axis=1)]

    def predict_randomized(self, X: Any, random_state: Any = None, *, groups: Any = None) -> NDArray[Any]:
        """Draw a label for every row from ``predict_distribution``, for simulation studies.

        Parameters
        ----------
        X, groups : array-like of shape (n, d), (n,)
            As in `predict_distribution`.
        random_state : int, RandomState or None
            Seed of the draw.

        Returns
        -------
        ndarray of shape (n,)
            Labels, as in `classes_`.
        """
        distribution = self._scores(X, groups)
        return self.classes_[draw(distribution, check_random_state(random_state))]

    def predict_with(self, X: Any, members: Any, *, groups: Any = None) -> NDArray[Any]:
        """Return the label of each row by one stated candidate.

        `tailboost.RandomizedDecision` draws the candidate of a person by a key, so that the draw never
        changes.

        Parameters
        ----------
        X, groups : array-like of shape (n, d), (n,)
            As in `predict_distribution`.
        members : array-like of int, shape (n,)
            The candidate of each row: an index into ``estimator_weights_``.

        Returns
        -------
        ndarray of shape (n,)
            Labels, as in `classes_`. A deferred row has the label that would be answered.

        Raises
        ------
        ValueError
            If ``members`` are not n such indices, or a candidate draws its label.
        """
        check_is_fitted(self)
        n, ask = self._asker(X, groups)
        return self.classes_[answers_by(self._drawn(members, n), ask)]

    def _drawn(self, members: Any, n: int) -> Ints:
        """Return the checked index of a hypothesis for each of n rows."""
        chosen, most = np.asarray(members), len(self.ensemble_)
        if chosen.shape != (n,) or chosen.dtype.kind not in "iu":
            raise ValueError(
                f"members must be {n:,} integers, one per row; got {chosen.dtype}, {chosen.shape}"
            )
        if len(wrong := chosen[(chosen < 0) | (chosen >= most)]):
            raise ValueError(f"members holds {wrong[0]}; there are members 0 … {most - 1}")
        if len(wrong := np.intersect1d(chosen, self.ensemble_.random_candidates)):
            raise ValueError(
                f"members holds {wrong[0]}, a candidate that draws its label from probabilities; a "
                "classifier with shares=False has no such candidates"
            )
        return chosen
