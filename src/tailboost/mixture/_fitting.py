"""Probabilities of classifiers on rows that they were not fitted on, and the classifiers that stay."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.frozen import FrozenEstimator
from sklearn.utils.parallel import Parallel, delayed

from tailboost._checks import positions
from tailboost._typing import Floats, Ints, Mask
from tailboost.data import Problem, Rows, take
from tailboost.learners._sklearn import set_seeds, weight_parameter
from tailboost.learners.session import constant
from tailboost.mixture._tables import Judged, Models
from tailboost.validation import Split

Estimators = Sequence[tuple[str, Any]]


def fit_models(
    estimators: Estimators,
    problem: Problem,
    classes: Any,
    *,
    validation: Any,
    weighted: bool,
    seed: int,
    n_jobs: int | None,
) -> tuple[Judged, Any]:
    """Fit every estimator for the rows that judge it, and again on all rows.

    Parameters
    ----------
    estimators : list of (str, classifier)
        A frozen one is asked as it is: it must not have been fitted on the judged rows.
    problem : Problem
        The training rows, and a validation set if there is one.
    classes : ndarray of shape (K,)
        The labels.
    validation : "auto", "cv" or float
        As in `RobustMixtureClassifier`.
    weighted : bool
        Whether ``fit`` takes the rows' weights.
    seed : int
        Seeds the folds and the estimators without a seed of their own.
    n_jobs : int or None
        Fits at the same time.

    Returns
    -------
    judged : Judged
        The fitted models, and their log-probabilities on rows they were not fitted on.
    validation : str or float
        What "auto" chose.
    """
    K = problem.n_classes
    frozen = [isinstance(estimator, FrozenEstimator) for _, estimator in estimators]
    parts_held, judged_rows, rows, chosen = _split(problem, validation, seed, all(frozen))
    fitter = _Fitter(problem, weighted)
    seeded = [e if f else _seeded(e, seed) for (_, e), f in zip(estimators, frozen, strict=True)]
    # For each part that is held out a fit without it; and one fit on all rows that stays.
    everything = np.ones(len(problem.y), dtype=bool)
    to_fit = [(n, e) for (n, _), e, f in zip(estimators, seeded, frozen, strict=True) if not f]
    wanted = [(*named, ~held) for named in to_fit for held in parts_held]
    wanted += [(*named, everything) for named in to_fit]
    fits = Parallel(n_jobs=n_jobs)(delayed(fitter)(*each) for each in wanted)
    parts = iter(fits[: len(fits) - len(to_fit)])
    whole = iter(fits[len(fits) - len(to_fit) :])
    models = Models([name for name, _ in estimators], K, [], [])
    logs = []
    for i, (estimator, is_frozen) in enumerate(zip(seeded, frozen, strict=True)):
        if is_frozen:
            model, columns = estimator, _columns_of(estimator, classes, estimators[i][0])
        else:
            model, columns = next(whole)
        models.fitted.append(model)
        models.columns.append(columns)
        if problem.validation is not None:
            X_val, judged = problem.validation
            logs.append(models.logs(i, model, X_val, len(judged.y)))
        elif is_frozen:
            logs.append(models.logs(i, model, take(problem.X, judged_rows), int(judged_rows.sum())))
        else:
            logs.append(_out_of_fold(models, i, parts_held, parts, problem.X)[judged_rows])
    return Judged.of(models, logs, rows), chosen


def _split(
    problem: Problem, validation: Any, seed: int, all_frozen: bool
) -> tuple[list[Mask], Mask, Rows, Any]:
    """Return the parts to hold out, which rows they are together, the rows that judge, and the scheme."""
    if problem.validation is not None:
        return [], np.zeros(len(problem.y), dtype=bool), problem.validation[1], "X_val"
    if all_frozen and validation in ("auto", "cv"):  # nothing is fitted, so that every row judges
        words = f"the {len(problem.y):,} rows given to fit, where no model was fitted"
        return [], np.ones(len(problem.y), dtype=bool), replace(problem.rows, words=words), "frozen"
    split = Split.of(problem, validation, seed)
    return split.parts, split.fold >= 0, split.judged(problem.rows, "probabilities"), split.validation


@dataclass(frozen=True)
class _Fitter:
    """Fits an estimator on some rows of a problem; returns it with the class number of each column."""

    problem: Problem
    weighted: bool

    def __call__(self, name: str, estimator: Any, rows: Mask) -> tuple[Any, Ints]:
        problem, everything = self.problem, bool(rows.all())
        present, y = np.unique(problem.y[rows], return_inverse=True)
        if len(present) == 1:  # many classifiers refuse it
            return constant(int(present[0]), problem.n_classes), np.arange(problem.n_classes)
        model = clone(estimator)
        params = {str(weight_parameter(model)): problem.weight[rows]} if self.weighted else {}
        try:
            model.fit(problem.X if everything else take(problem.X, rows), y, **params)
        except (TypeError, ValueError) as error:
            raise ValueError(f"estimators: {name!r} ({type(model).__name__}) in fit: {error}") from error
        return model, present[np.asarray(model.classes_, dtype=np.intp)]


def _out_of_fold(
    models: Models, i: int, held: list[Mask], fits: Iterator[tuple[Any, Ints]], X: Any
) -> Floats:
    """Return the log-probabilities of every row from the model that did not see it."""
    logs = np.zeros((len(held[0]), models.n_classes))
    of_all = models.columns[i]
    for rows in held:
        model, models.columns[i] = next(fits)
        logs[rows] = models.logs(i, model, take(X, rows), int(rows.sum()))
    models.columns[i] = of_all
    return logs


def _columns_of(frozen: Any, classes: Any, name: str) -> Ints:
    return positions(frozen.classes_, classes, f"classes_ of {name!r}", "classes that y has not")


def _seeded(estimator: Any, seed: int) -> Any:
    """Return a clone whose seeds, where it has none, are drawn from one."""
    estimator = clone(estimator)
    own = {k: v for k, v in estimator.get_params().items() if k.endswith("random_state") and v is not None}
    set_seeds(estimator, seed)
    return estimator.set_params(**own)


def check_estimators(estimators: Estimators, weighted: bool) -> None:
    """Raise where something in the list of estimators cannot take part.

    Raises
    ------
    ValueError, TypeError
        That name the estimator.
    """
    for name, estimator in estimators:
        if isinstance(estimator, type):
            raise TypeError(f"estimators: {name!r} is a class, {estimator.__name__}; an instance is needed")
        if not hasattr(estimator, "fit"):
            raise TypeError(f"estimators: {name!r} has no fit: {estimator!r}")
        if isinstance(estimator, FrozenEstimator) and not hasattr(estimator, "classes_"):
            raise NotFittedError(f"estimators: {name!r} is frozen, but not fitted: {estimator.estimator!r}")
        if not hasattr(estimator, "predict_proba"):
            raise ValueError(
                f"estimators: {name!r} ({type(estimator).__name__}) has no predict_proba; "
                "CalibratedClassifierCV gives it one"
            )
        if weighted and not isinstance(estimator, FrozenEstimator) and weight_parameter(estimator) is None:
            raise ValueError(
                f"sample_weight: {name!r} ({type(estimator).__name__}) does not take weights in fit"
            )
