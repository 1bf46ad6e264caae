"""Calls to a base learner and to base models: open a session, predict with several base models."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
from scipy.special import softmax
from sklearn.base import clone, is_regressor

from tailboost.core.array_types import Floats, Ints, Model, Table
from tailboost.learners.foreign import RegressorSession, SklearnSession, constant, is_constant, set_seeds
from tailboost.learners.protocols import Learner, Session

__all__ = [
    "constant",
    "is_constant",
    "is_real",
    "model_probabilities",
    "open_session",
    "predict_models",
]


def open_session(
    estimator: Model,
    X: Table,
    y: Ints,
    n_classes: int,
    sample_weight: Floats,
    fit_params: dict[str, Any],
    seed: int = 0,
) -> Session:
    """Return the learner's session on these rows, or a session for any scikit-learn estimator.

    ``seed`` is the seed of draws before the first fit.
    """
    if isinstance(estimator, Learner) and not fit_params:
        estimator = clone(estimator)
        set_seeds(estimator, seed)
        session: Session = estimator.open_session(X, y, n_classes, sample_weight)
        return session
    if is_regressor(estimator):
        return RegressorSession(estimator, X, y, n_classes, sample_weight)
    return SklearnSession(estimator, X, y, n_classes, sample_weight, fit_params)


def predict_models(models: Iterable[Any], X: Table) -> Iterator[Ints]:
    """Yield the class numbers that each base model predicts, shape (n,).

    Regressors yield real values, shape (n,) or (n, K). A table is prepared once for all base models with the
    same ``table_``.
    """
    tables: dict[Any, Any] = {}
    for model in models:
        if hasattr(model, "predict_table"):
            yield model.predict_table(_prepared(model, X, tables))
            continue
        predictions = np.asarray(model.predict(X))
        if is_real(predictions) and is_regressor(model):
            yield predictions
        else:
            yield predictions.astype(np.intp).ravel()


def model_probabilities(models: Iterable[Any], X: Table, n_classes: int) -> Iterator[Floats]:
    """Yield the class probabilities of each base model, shape (n, K).

    Without `predict_proba` the predicted class has probability 1. Real values h give softmax(2h).
    """
    tables: dict[Any, Any] = {}
    for model in models:
        if hasattr(model, "predict_proba_table"):
            P = model.predict_proba_table(_prepared(model, X, tables))
        elif hasattr(model, "predict_proba"):
            P = np.asarray(model.predict_proba(X), dtype=np.float64)
        else:
            P = _votes(next(predict_models([model], X)), n_classes)
        classes = np.asarray(getattr(model, "classes_", np.arange(n_classes)), dtype=np.intp)
        probabilities = np.zeros((len(P), n_classes))
        probabilities[:, classes if P.shape[1] == len(classes) else slice(None)] = P
        yield probabilities


def _prepared(model: Model, X: Table, tables: dict[Any, Any]) -> Any:
    if model.table_ not in tables:
        tables[model.table_] = model.table_.transform(X)
    return tables[model.table_]


def _votes(predictions: Any, n_classes: int) -> Floats:
    if is_real(predictions):
        h = np.column_stack([-predictions, predictions]) if predictions.ndim == 1 else predictions
        values: Floats = softmax(2.0 * h, axis=1)
        return values
    return np.asarray(predictions[:, None] == np.arange(n_classes), dtype=np.float64)


def is_real(predictions: Any) -> bool:
    """Return whether predictions are values of a real-valued hypothesis instead of class numbers."""
    return bool(predictions.dtype.kind == "f")
