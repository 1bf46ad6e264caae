"""A regressor as a learner: its functions are real-valued hypotheses for two classes."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.utils import _safe_indexing

from tailboost._typing import Floats, Ints, Mask
from tailboost.learners._sklearn import set_seeds, weight_parameter


class RegressorSession:
    """Projects the gradient of a loss of the margin onto the functions of a regressor.

    For weights u on rows with the coding y = ±1 the gradient at row i is ``−u_i y_i``. The regressor that is
    nearest to its opposite, ``min_h Σ p_i (h(x_i) − u_i y_i / p_i)²``, is the hypothesis: what it answers are
    values of h, not class numbers.

    Parameters
    ----------
    estimator : regressor
        Cloned for every fit; all its random states are set from the fit's seed.
    X, y : table with n rows, ndarray of shape (n,)
        The data, class numbers 0 and 1.
    sample_weight : ndarray of shape (n,)
        The rows' own weights p, positive.

    Raises
    ------
    ValueError
        If the regressor takes no sample weights although they differ.
    """

    concurrent = True

    def __init__(self, estimator: Any, X: Any, y: Ints, sample_weight: Floats) -> None:
        self.estimator, self.X, self.y, self.sample_weight = estimator, X, y, sample_weight
        self.weight_parameter = weight_parameter(estimator)
        if self.weight_parameter is None and np.ptp(sample_weight) > 0:
            raise ValueError(f"estimator={estimator!r} takes no sample_weight in fit, and the weights differ")

    def fit(self, weight: Floats, seed: int, rows: Mask | None = None) -> Any:
        """Fit a clone to ``u y/p`` on the rows chosen."""
        index = np.arange(len(self.y)) if rows is None else np.flatnonzero(rows)
        p = self.sample_weight[index]
        target = (2.0 * self.y[index] - 1.0) * weight[index] / p
        model = clone(self.estimator)
        set_seeds(model, seed)
        weights = {} if self.weight_parameter is None else {self.weight_parameter: p}
        return model.fit(_safe_indexing(self.X, index), target, **weights)

    def predict(self, model: Any, rows: Mask | None = None) -> Any:
        """Return the values of a fitted regressor on the opened rows."""
        X = self.X if rows is None else _safe_indexing(self.X, np.flatnonzero(rows))
        return np.asarray(model.predict(X), dtype=np.float64)
