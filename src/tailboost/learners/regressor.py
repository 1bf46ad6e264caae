"""A regressor as a learner: its functions are real-valued hypotheses."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.multioutput import MultiOutputRegressor
from sklearn.utils import _safe_indexing, get_tags

from tailboost.core.array_types import Floats, Ints, Mask
from tailboost.learners.foreign import set_seeds, weight_parameter


class RegressorSession:
    """Projects the gradient of a loss of the margin onto the functions of a regressor.

    Scores sum to 0 over the classes, and a label y is coded ``z_k = 1`` for k = y, else −1/(K−1). For weights
    u on rows the gradient in the scores of row i is ``−u_i z_i`` up to a constant. The regressor that is
    nearest to its opposite, ``min_h Σ p_i ‖h(x_i) − u_i z_i / p_i‖²``, is the hypothesis: what it answers are
    values of h, not class numbers. Of two classes one value says all, that of class 1.

    The regressor is cloned for every fit, and all its random states are set from the fit's seed. For more
    than two classes one that has a single output is fitted once for each class. ``sample_weight`` are the
    rows' own weights p, positive.

    Raises
    ------
    ValueError
        If the regressor takes no sample weights although they differ.
    """

    concurrent = True

    def __init__(self, estimator: Any, X: Any, y: Ints, n_classes: int, sample_weight: Floats) -> None:
        self.X, self.sample_weight = X, sample_weight
        self.weight_parameter = weight_parameter(estimator)
        if self.weight_parameter is None and np.ptp(sample_weight) > 0:
            raise ValueError(f"estimator={estimator!r} takes no sample_weight in fit, and the weights differ")
        coded = np.where(np.arange(n_classes) == y[:, None], 1.0, -1.0 / (n_classes - 1))
        self.coded = coded if n_classes > 2 else coded[:, 1]
        alone = n_classes > 2 and not get_tags(estimator).target_tags.multi_output
        self.estimator = MultiOutputRegressor(estimator) if alone else estimator

    def fit(self, weight: Floats, seed: int, rows: Mask | None = None) -> Any:
        """Fit a clone to ``u z/p`` on the rows chosen."""
        index = np.arange(len(self.coded)) if rows is None else np.flatnonzero(rows)
        p = self.sample_weight[index]
        target = (self.coded[index].T * (weight[index] / p)).T
        model = clone(self.estimator)
        set_seeds(model, seed)
        weights = {} if self.weight_parameter is None else {self.weight_parameter: p}
        return model.fit(_safe_indexing(self.X, index), target, **weights)

    def predict(self, model: Any, rows: Mask | None = None) -> Any:
        """Return the values of a fitted regressor on the opened rows, shape (m,) or (m, K); K sum to 0."""
        X = self.X if rows is None else _safe_indexing(self.X, np.flatnonzero(rows))
        h = np.asarray(model.predict(X), dtype=np.float64)
        return h if h.ndim == 1 else h - h.mean(axis=1, keepdims=True)
