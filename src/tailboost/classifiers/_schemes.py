"""Which validation scheme a fit uses, from the parameter ``validation`` and the data."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from tailboost._rows import distinct, draw_lots, hash_rows
from tailboost.data import Problem, Rows
from tailboost.learners import Session, predict_members
from tailboost.validation import (
    CrossFitted,
    External,
    HeldOut,
    Resubstitution,
    Scheme,
    folds,
    held_out,
)

# "auto": cross-fitting costs 6 fits a round, a held-out fifth 2; from here on the fifth is large enough.
CROSS_FIT_UP_TO = 50_000
N_FOLDS = 5
HELD_OUT = 0.2
LEAST_HELD_OUT = 20  # rows that a held-out fifth of the smallest class or group must have


def choose_scheme(
    session: Session, problem: Problem, validation: Any, *, seed: int, refit: bool, n_jobs: int | None
) -> Scheme:
    """Return the scheme for a problem.

    Parameters
    ----------
    session : Session
        The learner with the training rows opened.
    problem : Problem
        The rows, and the explicit validation set if there is one.
    validation : {"auto", "cv", "train"}, float or None
        As given to the classifier; None is "train".
    seed : int
        Seeds the folds.
    refit : bool
        Whether members are fitted again on all rows when a fraction is held out.
    n_jobs : int or None
        Threads over the folds.

    Raises
    ------
    ValueError
        If the scheme leaves no rows to fit or to judge on.
    """
    X, train = problem.X, problem.rows
    if problem.validation is not None:
        X_val, judged = problem.validation
        return External(session, train, judged, lambda member: next(predict_members([member], X_val)))
    if validation in ("train", None):
        return Resubstitution(session, train, train)
    hashes = hash_rows(X, seed=seed)
    strata = train.y
    if train.groups is not None:
        _, strata = np.unique(train.y + problem.n_classes * train.groups, return_inverse=True)
    places = draw_lots(hashes, strata, train.weight)
    n_distinct = int(places.max()) + 1
    if validation == "auto":
        smallest = np.bincount(strata[distinct(hashes)[0]]).min()
        enough = n_distinct > CROSS_FIT_UP_TO and smallest * HELD_OUT >= LEAST_HELD_OUT
        validation = HELD_OUT if enough else "cv"
    if validation == "cv":
        k = min(N_FOLDS, n_distinct)
        if k < 2:
            raise ValueError("validation='cv' needs at least two distinct rows in X")
        words = f"out-of-fold losses of the {len(train.y):,} training rows ({k} folds)"
        return CrossFitted(session, train, replace(train, words=words), folds(places, k), n_jobs)
    held = held_out(places, validation)
    if not held.any() or held.all():
        raise ValueError(
            f"validation={validation:g} leaves {'no' if not held.any() else 'only'} validation rows "
            f"of {n_distinct} distinct ones; use 'cv', another fraction or more rows"
        )
    groups = None if train.groups is None else train.groups[held]
    judged = Rows(train.y[held], train.weight[held], groups, f"the {held.sum():,} held-out rows")
    return HeldOut(session, train, judged, held, refit)


def judge_only_known_classes(scheme: Scheme, problem: Problem) -> Scheme:
    """Take rows out of the units whose class no model that is judged on them can know.

    A class that lies on one side of the split only is not known to the models that are judged there.
    """
    if isinstance(scheme, CrossFitted):
        side = scheme.fold
    elif isinstance(scheme, HeldOut):
        side = scheme.held.astype(np.intp)
    else:
        return scheme
    first, last = np.full(problem.n_classes, side.max()), np.zeros(problem.n_classes, dtype=side.dtype)
    np.minimum.at(first, problem.y, side)
    np.maximum.at(last, problem.y, side)
    judged = scheme.judged
    known = (first < last)[judged.y]
    if judged.groups is None or not known.any():  # a row per class: better a bad number than none
        return scheme
    return replace(scheme, judged=replace(judged, groups=np.where(known, judged.groups, -1)))
