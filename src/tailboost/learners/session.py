"""How a boosting classifier asks its learner: open the data, fit in stages, predict with many members."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import groupby
from typing import Any

import numpy as np
from scipy.special import softmax
from sklearn.base import clone, is_regressor

from tailboost._typing import Floats, Ints
from tailboost.learners._hist import HistTreeClassifier
from tailboost.learners._merge import ROWS_WORTH_MERGING, predict_trees
from tailboost.learners._regressor import RegressorSession
from tailboost.learners.foreign import SklearnSession, constant, is_constant, set_seeds
from tailboost.learners.protocols import Learner, Session

__all__ = [
    "constant",
    "is_constant",
    "is_real",
    "member_probabilities",
    "open_session",
    "predict_members",
]


def open_session(
    estimator: Any,
    X: Any,
    y: Ints,
    n_classes: int,
    sample_weight: Floats,
    fit_params: dict[str, Any],
    seed: int = 0,
) -> Session:
    """Open the data for a learner, by its own method if it has one, else as for any scikit-learn estimator.

    ``seed`` decides what a session draws before the first fit. Files go to ``members_dir``, unless the
    learner names another folder.
    """
    if isinstance(estimator, Learner) and not fit_params:
        estimator = clone(estimator)
        set_seeds(estimator, seed)
        session: Session = estimator.open_session(X, y, n_classes, sample_weight)
        return session
    if is_regressor(estimator):
        return RegressorSession(estimator, X, y, n_classes, sample_weight)
    return SklearnSession(estimator, X, y, n_classes, sample_weight, fit_params)


def predict_members(members: Iterable[Any], X: Any) -> Iterator[Ints]:
    """Yield the class numbers each member predicts for the rows of ``X``, shape (n,).

    Of a regressor these are values, shape (n,) or (n, K).

    Members that share a prepared table have it prepared once, and one-tree members are asked together.
    """
    prepared: dict[Any, Any] = {}
    for (table, mergeable), run in groupby(members, key=_kind):
        if table is None:
            for member in run:
                said = np.asarray(member.predict(X))
                yield said if is_real(said) and is_regressor(member) else said.astype(np.intp).ravel()
            continue
        if table not in prepared:
            prepared[table] = table.transform(X)
        rows = prepared[table]
        together = list(run)
        if mergeable and len(together) > 1 and rows.shape[0] >= ROWS_WORTH_MERGING:
            yield from predict_trees(together, rows)
        else:
            for member in together:
                yield member.predict_table(rows)


def member_probabilities(members: Iterable[Any], X: Any, n_classes: int) -> Iterator[Floats]:
    """Yield the class probabilities of each member for the rows of ``X``, shape (n, K).

    A member that knows none says 1 for its answer; of values h of two classes, or of all, softmax(2h).
    """
    prepared: dict[Any, Any] = {}
    for member in members:
        if hasattr(member, "predict_proba_table"):
            if member.table_ not in prepared:
                prepared[member.table_] = member.table_.transform(X)
            said = member.predict_proba_table(prepared[member.table_])
        elif hasattr(member, "predict_proba"):
            said = np.asarray(member.predict_proba(X), dtype=np.float64)
        else:
            said = _votes(next(predict_members([member], X)), n_classes)
        known = np.asarray(getattr(member, "classes_", np.arange(n_classes)), dtype=np.intp)
        P = np.zeros((len(said), n_classes))
        P[:, known if said.shape[1] == len(known) else slice(None)] = said
        yield P


def _votes(answers: Any, n_classes: int) -> Floats:
    if is_real(answers):
        h = np.column_stack([-answers, answers]) if answers.ndim == 1 else answers
        values: Floats = softmax(2.0 * h, axis=1)
        return values
    return np.asarray(answers[:, None] == np.arange(n_classes), dtype=np.float64)


def is_real(answers: Any) -> bool:
    """Whether answers are the values of a real-valued hypothesis instead of class numbers."""
    return bool(answers.dtype.kind == "f")


def _kind(member: Any) -> tuple[Any, bool]:
    mergeable = isinstance(member, HistTreeClassifier) and member.backend_ == "xgboost"
    # Tests for `Prepared` by hand: isinstance is slow for protocols, and this runs per member and prediction.
    return (member.table_ if hasattr(member, "predict_table") else None), mergeable
