"""Prediction with the label distribution of a randomised rule."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import ClassifierMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from tailboost.boosting.ensemble import answers_by, draw
from tailboost.boosting.training_set import take
from tailboost.core.array_types import Floats, Ints
from tailboost.core.checks import check_number, n_rows_of
from tailboost.solvers import mixture_path


class RandomizedClassifier(ClassifierMixin):
    """Randomised rule that draws a hypothesis with probability λ."""

    classes_: NDArray[Any]
    ensemble_: Any
    combiner_: Any

    @abstractmethod
    def _scores(self, X: Any) -> Floats:
        """Return the label distribution of rows, shape (n, K), with ties broken."""

    @abstractmethod
    def _checked(self, X: Any) -> Any:
        """Check rows to predict."""

    @abstractmethod
    def predict_proba(self, X: Any) -> Floats:
        """Return P(y | x), shape (n, K)."""

    def predict_distribution(self, X: Any) -> Floats:
        """Return the label distribution of the randomised rule.

        This is the probability with which the rule draws each label. It is **not** P(y | x), which
        `predict_proba` estimates. Bounds of mixtures are about this distribution: the expected zero-one loss
        of a row is 1 minus the probability of the true label.

        Parameters
        ----------
        X : array-like of shape (n, d)
            Rows, as in `fit`.

        Returns
        -------
        ndarray of shape (n, K)
            Columns in the order of `classes_`; rows sum to 1.
        """
        return self._scores(X)

    def predict_log_proba(self, X: Any) -> Floats:
        """Return the logarithm of ``predict_proba``, −∞ for a probability of 0.

        Parameters
        ----------
        X : array-like of shape (n, d)
            Rows, as in `fit`.

        Returns
        -------
        ndarray of shape (n, K)
            Columns in the order of `classes_`; rows sum to 1.
        """
        with np.errstate(divide="ignore"):
            return np.asarray(np.log(self.predict_proba(X)))

    def predict(self, X: Any) -> NDArray[Any]:
        """Return the most probable label of `predict_distribution`.

        The prediction is deterministic. It can differ from the label with the largest `predict_proba`,
        because the rule minimises another objective than the overall error. Probabilities that are equal
        after rounding to 1e-9 are a tie. The hypothesis with the least mean loss breaks a tie.

        Parameters
        ----------
        X : array-like of shape (n, d)
            Rows, as in `fit`.

        Returns
        -------
        ndarray of shape (n,)
            Labels, as in `classes_`.
        """
        distribution = self._scores(X)
        return self.classes_[distribution.argmax(axis=1)]

    def predict_randomized(self, X: Any, random_state: Any = None) -> NDArray[Any]:
        """Draw a label for every row from ``predict_distribution``, for simulation studies.

        Parameters
        ----------
        X : array-like of shape (n, d)
            Rows, as in `fit`.
        random_state : int, RandomState or None
            Seed of the draw.

        Returns
        -------
        ndarray of shape (n,)
            Labels, as in `classes_`.
        """
        distribution = self._scores(X)
        return self.classes_[draw(distribution, check_random_state(random_state))]

    def predict_with(self, X: Any, members: Any) -> NDArray[Any]:
        """Return the prediction of a given hypothesis for each row.

        `tailboost.RandomizedDecision` draws the hypothesis of a person by a key, so that the draw never
        changes.

        Parameters
        ----------
        X : array-like of shape (n, d)
            Rows, as in `fit`.
        members : array-like of int, shape (n,)
            Index into ``estimator_weights_`` for each row.

        Returns
        -------
        ndarray of shape (n,)
            Labels, as in `classes_`.

        Raises
        ------
        ValueError
            If ``members`` are not n such indices, or a hypothesis draws its label.
        """
        check_is_fitted(self)
        X = self._checked(X)
        chosen = self._drawn(members, n_rows_of(X))
        return self.classes_[answers_by(chosen, lambda m, rows: self.ensemble_.answer(m, take(X, rows)))]

    def alpha_path(self, alphas: Sequence[float]) -> Floats:
        """Return the mixture weights λ for several α; nothing is trained.

        The classifier of one α is ``reweight(alpha=α)``.

        Parameters
        ----------
        alphas : sequence of float in (0, 1]
            Tail masses.

        Returns
        -------
        ndarray of shape (len(alphas), n_members)
            One row per α and one column per hypothesis, in the order of ``estimator_weights_``. Rows sum to
            1.

        Examples
        --------
        >>> from sklearn.datasets import load_wine
        >>> from tailboost import AdaLPBoostClassifier
        >>> X, y = load_wine(return_X_y=True)
        >>> clf = AdaLPBoostClassifier("tree", n_estimators=5, random_state=0).fit(X, y)
        >>> path = clf.alpha_path([0.1, 0.5, 1.0])
        >>> path.shape == (3, len(clf.estimator_weights_))
        True
        >>> bool((abs(path[1] - clf.reweight(alpha=0.5).estimator_weights_) < 1e-9).all())
        True
        """
        check_is_fitted(self)
        if np.ndim(alphas) != 1 or np.size(alphas) == 0:
            raise ValueError(f"alphas={alphas!r} must be a non-empty list of numbers in (0, 1]")
        values = np.array([check_number(alpha, "each of alphas", 0, 1) for alpha in alphas])
        pool = self.combiner_.pool
        return np.array([s.mixture for s in mixture_path(pool.losses(), values, pool.base())])

    def _drawn(self, members: Any, n: int) -> Ints:
        """Return the checked index of a hypothesis for each of n rows."""
        chosen, most = np.asarray(members), len(self.ensemble_)
        if chosen.shape != (n,) or chosen.dtype.kind not in "iu":
            raise ValueError(
                f"members must be {n:,} integers, one per row; got {chosen.dtype}, {chosen.shape}"
            )
        if len(wrong := chosen[(chosen < 0) | (chosen >= most)]):
            raise ValueError(f"members holds {wrong[0]}; there are members 0 … {most - 1}")
        if len(wrong := np.intersect1d(chosen, self.ensemble_.random_models)):
            raise ValueError(
                f"members holds {wrong[0]}, a candidate that draws its label from probabilities; a "
                "classifier with shares=False has no such candidates"
            )
        return chosen
