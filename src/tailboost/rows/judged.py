"""The classifier behind a pipeline or a search, and its answers."""

from collections.abc import Iterable
from typing import Any

import numpy as np

from tailboost.core import Floats, Model, Table


def inside(model: Model) -> tuple[Any, tuple[Any, ...]]:
    """Return the classifier at the end of a search or pipeline, and the fitted transformers before it."""
    from sklearn.frozen import FrozenEstimator  # a rule of a file answers without both
    from sklearn.pipeline import Pipeline

    steps: tuple[Any, ...] = ()
    while True:
        if isinstance(model, FrozenEstimator):
            model = model.estimator
        elif hasattr(model, "best_estimator_"):
            model = model.best_estimator_
        elif isinstance(model, Pipeline):
            if len(model) > 1:
                steps = (*steps, model[:-1])
            model = model[-1]
        else:
            return model, steps


def transformed(X: Table, steps: Iterable[Any]) -> Any:
    """Return the rows after some steps."""
    for step in steps:
        X = step.transform(X)
    return X


def answer_shares(model: Model, X: Table) -> Floats:
    """Return the probability of each answer to each row, shape (n, K).

    This is ``predict_distribution`` of a randomised rule of tailboost, also behind a pipeline or a search.
    Other classifiers answer the label of ``predict`` with probability 1: their ``predict_proba`` estimates
    P(y | x), and is no probability of an answer.
    """
    final, steps = inside(model)
    if hasattr(final, "predict_distribution"):
        return np.asarray(final.predict_distribution(transformed(X, steps)), dtype=np.float64)
    labels = np.asarray(model.predict(X))
    return np.asarray(labels[:, None] == np.asarray(model.classes_), dtype=np.float64)
