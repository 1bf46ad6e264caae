"""The final classifier of pipelines and searches, and the label distribution of its randomised rule."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.pipeline import Pipeline

from tailboost.core.array_types import Floats, Model, Table


def last_step(model: Model) -> Any:
    """Return the classifier at the end of a search or a pipeline."""
    return final_step(model, None)[0]


def final_step(model: Model, X: Table) -> tuple[Any, Any]:
    """Return the classifier at the end of a search or pipeline, and the rows (if any) transformed for it."""
    while hasattr(model, "best_estimator_"):
        model = model.best_estimator_
    if not isinstance(model, Pipeline):
        return model, X
    return final_step(model[-1], X if X is None or len(model) == 1 else model[:-1].transform(X))


def answer_shares(model: Model, X: Table) -> Floats:
    """Return the probability of each answer to each row, shape (n, K).

    This is ``predict_distribution`` of a randomised rule of tailboost, also behind a pipeline or a search. Of
    every other classifier, the label that ``predict`` returns has probability 1: its ``predict_proba`` is an
    estimate of P(y | x), not the probability of an answer.
    """
    if hasattr(last_step(model), "predict_distribution"):
        return label_shares(model, X)
    return answered(model.predict(X), model.classes_)


def answered(labels: object, classes: object) -> Floats:
    """Return probability 1 for each answered label and 0 for the others, shape (n, K)."""
    return np.asarray(np.asarray(labels)[:, None] == np.asarray(classes), dtype=np.float64)


def label_shares(model: Model, X: Table, **given: object) -> Floats:
    """Return the label distribution of each row, shape (n, K).

    This is ``predict_distribution`` of a classifier of tailboost, also behind a pipeline or a search, and
    ``predict_proba`` of other classifiers. The keyword arguments ``given``, for example ``groups``, are
    passed to the classifier.
    """
    if hasattr(last_step(model), "predict_distribution"):
        final, rows = final_step(model, X)
        return np.asarray(final.predict_distribution(rows, **given), dtype=np.float64)
    return np.asarray(model.predict_proba(X, **given), dtype=np.float64)
