"""Learners: what answers the weight player."""

from __future__ import annotations

from typing import Any

from sklearn.base import clone

from tailboost._typing import Floats, Ints
from tailboost.learners._adjusted import LogitAdjustedClassifier
from tailboost.learners._base import Session, constant, grown, stages
from tailboost.learners._hist import HistBoostClassifier, HistTreeClassifier
from tailboost.learners._predict import predict_members
from tailboost.learners._sklearn import SklearnSession, set_seeds
from tailboost.learners._stumps import StumpClassifier

__all__ = [
    "HistBoostClassifier",
    "HistTreeClassifier",
    "LogitAdjustedClassifier",
    "Session",
    "StumpClassifier",
    "constant",
    "grown",
    "open_session",
    "predict_members",
    "stages",
]


def open_session(
    estimator: Any,
    X: Any,
    y: Ints,
    n_classes: int,
    sample_weight: Floats,
    fit_params: dict[str, Any],
    seed: int = 0,
    folder: Any = None,
) -> Session:
    """Open the data for a learner: its own way where it has one, else as any scikit-learn classifier.

    What a session draws before the first fit depends on ``seed``; what it keeps in files goes to ``folder``,
    unless its learner names another.
    """
    if hasattr(estimator, "open_session") and not fit_params:
        estimator = clone(estimator)
        set_seeds(estimator, seed)
        if getattr(estimator, "members_dir", folder) is None:
            estimator.members_dir = folder
        session: Session = estimator.open_session(X, y, n_classes, sample_weight)
        return session
    return SklearnSession(estimator, X, y, n_classes, sample_weight, fit_params)
