"""The front door: fitted models in, a classifier that keeps limits out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sklearn.frozen import FrozenEstimator

from tailboost.classifiers.robust_mixture import RobustMixtureClassifier


def tune(
    models: Any,
    X_val: Any,
    y_val: Any,
    *,
    groups: Any = None,
    costs: Any = None,
    objective: Any = None,
    limits: Any = (),
    error_budget: float | None = None,
    confidence: float | None = None,
    sample_weight: Any = None,
    **params: Any,
) -> RobustMixtureClassifier:
    """Choose decision thresholds of fitted models for an objective within limits; nothing is trained anew.

    Parameters
    ----------
    models : classifier, list or dict
        A fitted classifier with ``predict_proba``, a list of some, or a dict by name.
    X_val : array-like, sparse matrix or data frame of shape (n, d)
        Rows that no model was fitted on.
    y_val : array-like of shape (n,)
        Their labels.
    groups : array-like of shape (n,), dict or data frame, optional
        Groups of the rows, for rates by group.
    costs : array-like of shape (n, K) or data frame, optional
        Cost of each answer in each row, for ``rates.cost()``; the columns of a data frame are named by the
        labels.
    objective : str, rate or largest, optional
        As in `RobustMixtureClassifier`: by default the worst class, and with limits the mean error.
    limits : list of Limit or str, optional
        From `tailboost.rates`, or as text: ``["miss(1) <= 40%"]``.
    error_budget : float in [0, 1], optional
        How far the mean error may be above that of the best model alone.
    confidence : float in [0, 1), optional
        With which probability all limits have to hold on new rows.
    sample_weight : array-like of shape (n,), optional
        Weights of the rows.
    **params
        Other parameters of `RobustMixtureClassifier`.

    Returns
    -------
    RobustMixtureClassifier
        Fitted; ``rates_`` says what it reaches, ``predict`` answers.

    Raises
    ------
    ValueError, TypeError
        If an argument is not as described, or limits contradict each other.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.linear_model import LogisticRegression
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import StandardScaler
    >>> import tailboost as tb
    >>> from tailboost import rates
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> model = make_pipeline(StandardScaler(), LogisticRegression()).fit(X[:300], y[:300])
    >>> clf = tb.tune(model, X[300:], y[300:], limits=[rates.miss(0) <= 0.02])
    >>> clf.limits_met_
    True
    """
    frozen = [(name, FrozenEstimator(model)) for name, model in _named(models)]
    classifier = RobustMixtureClassifier(
        frozen,
        objective=objective,
        limits=limits,
        error_budget=error_budget,
        confidence=confidence,
        **params,
    )
    return classifier.fit(X_val, y_val, sample_weight=sample_weight, groups=groups, costs=costs)


def _named(models: Any) -> list[tuple[str, Any]]:
    """Return models with their names: those given, or that of their kind."""
    if isinstance(models, Mapping):
        return list(models.items())
    each = list(models) if isinstance(models, (list, tuple)) else [models]
    if each and all(isinstance(pair, tuple) and len(pair) == 2 for pair in each):
        return each
    kinds = [(model if isinstance(model, type) else type(model)).__name__ for model in each]
    found = []
    for i, (kind, model) in enumerate(zip(kinds, each, strict=True)):
        number = kinds[: i + 1].count(kind)
        found.append((kind if kinds.count(kind) == 1 else f"{kind} {number}", model))
    return found
