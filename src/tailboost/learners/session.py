"""How a boosting classifier asks its learner: open the data, fit in stages, predict with many members."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import closing
from itertools import islice
from typing import Any

from sklearn.base import clone, is_regressor

from tailboost._typing import Floats, Ints, Mask
from tailboost.learners._base import constant, is_constant, last
from tailboost.learners._predict import is_real, member_probabilities, predict_members
from tailboost.learners._regressor import RegressorSession
from tailboost.learners.foreign import SklearnSession, set_seeds
from tailboost.learners.protocols import Growing, Learner, Session

__all__ = [
    "constant",
    "grown",
    "is_constant",
    "is_real",
    "lasting",
    "member_probabilities",
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
    members_dir: Any = None,
) -> Session:
    """Open the data for a learner, by its own method if it has one, else as for any scikit-learn estimator.

    ``seed`` decides what a session draws before the first fit. Files go to ``members_dir``, unless the
    learner names another folder.
    """
    if isinstance(estimator, Learner) and not fit_params:
        estimator = clone(estimator)
        set_seeds(estimator, seed)
        if "members_dir" in estimator.get_params(deep=False) and estimator.members_dir is None:
            estimator.set_params(members_dir=members_dir)
        session: Session = estimator.open_session(X, y, n_classes, sample_weight)
        return session
    if is_regressor(estimator):
        return RegressorSession(estimator, X, y, n_classes, sample_weight)
    return SklearnSession(estimator, X, y, n_classes, sample_weight, fit_params)


def stages(
    session: Session, weight: Floats, seed: int, rows: Mask | None = None, *, grow: bool = True
) -> Generator[Any]:
    """Yield the stages of a learner; without growth there is one, the result of ``fit``."""
    if grow and isinstance(session, Growing):
        yield from session.stages(weight, seed, rows)
    else:
        yield session.fit(weight, seed, rows)


def lasting(session: Session) -> bool:
    """Return whether the stages of a learner's growth stay as they are when it grows on."""
    return bool(getattr(session, "lasting_stages", False))


def grown(
    session: Session, n_stages: int, weight: Floats, seed: int, rows: Mask | None = None, *, grow: bool = True
) -> Any:
    """Return the classifier after this number of stages, or after all if there are fewer."""
    with closing(stages(session, weight, seed, rows, grow=grow)) as growing:
        return last(islice(growing, n_stages))
