"""Probabilities of classifiers on rows that they were not fitted on, and the classifiers that stay."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.frozen import FrozenEstimator
from sklearn.utils.parallel import Parallel, delayed

from tailboost._checks import positions
from tailboost._typing import Ints, Mask
from tailboost.data import Problem, Rows, take
from tailboost.learners._sklearn import set_seeds, weight_parameter
from tailboost.learners._table import OpenTable
from tailboost.learners.protocols import Averaging, Partitioned, TableLearner
from tailboost.learners.session import constant
from tailboost.mixture._tables import Judged, Models
from tailboost.validation import Split

Estimators = Sequence[tuple[str, Any]]
# A fitted classifier with the class number of each column of its probabilities.
Fit = tuple[Any, Ints]


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
    """Fit every estimator for the rows that judge it, and what stays of it.

    An estimator that reads opened tables shares one with the others of its kind, and where it is an
    `Averaging` one its models of the folds stay. Of the others a fit to all rows stays.

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
    frozen = [isinstance(estimator, FrozenEstimator) for _, estimator in estimators]
    parts, judged_rows, rows, chosen = _split(problem, validation, seed, all(frozen))
    fits = _fits(estimators, problem, parts, weighted=weighted, seed=seed, n_jobs=n_jobs)
    names = [name for name, _ in estimators]
    models, logs = Models(names, problem.n_classes, [], []), []
    for i, (name, estimator) in enumerate(estimators):
        if frozen[i]:
            kept, of_parts = (estimator, _columns_of(estimator, classes, name)), []
        else:
            *of_parts, kept = fits[i]
        models.fitted.append(kept[0])
        models.columns.append(kept[1])
        if problem.validation is not None:
            X_val, judged = problem.validation
            logs.append(models.logs(i, *kept, X_val, len(judged.y)))
        elif frozen[i]:
            logs.append(models.logs(i, *kept, take(problem.X, judged_rows), int(judged_rows.sum())))
        else:
            out_of_fold = np.zeros((len(problem.y), problem.n_classes))
            for held, fit in zip(parts, of_parts, strict=True):
                out_of_fold[held] = models.logs(i, *fit, take(problem.X, held), int(held.sum()))
            logs.append(out_of_fold[judged_rows])
    return Judged.of(models, logs, rows), chosen


def _fits(
    estimators: Estimators,
    problem: Problem,
    parts: list[Mask],
    *,
    weighted: bool,
    seed: int,
    n_jobs: int | None,
) -> dict[int, list[Fit]]:
    """Return, for each estimator that is not frozen, a fit without each part, and last the one that stays."""
    seeded = {
        i: (name, _seeded(estimator, seed))
        for i, (name, estimator) in enumerate(estimators)
        if not isinstance(estimator, FrozenEstimator)
    }
    sharing = [i for i, (_, estimator) in seeded.items() if isinstance(estimator, TableLearner)]
    others = [i for i in seeded if i not in sharing]
    fits = dict[int, list[Fit]]()
    if sharing:
        share = _OneTable(problem, parts, seed)
        found = Parallel(n_jobs=n_jobs, prefer="threads")(delayed(share)(*seeded[i]) for i in sharing)
        fits |= dict(zip(sharing, found, strict=True))
    wanted = [~held for held in parts] + [np.ones(len(problem.y), dtype=bool)]
    fitter = _Fitter(problem, weighted)
    found = Parallel(n_jobs=n_jobs)(delayed(fitter)(*seeded[i], rows) for i in others for rows in wanted)
    return fits | {i: found[j * len(wanted) :][: len(wanted)] for j, i in enumerate(others)}


def _split(
    problem: Problem, validation: Any, seed: int, all_frozen: bool
) -> tuple[list[Mask], Mask, Rows, Any]:
    """Return the parts to hold out, which rows they are together, the rows that judge, and the scheme."""
    if problem.validation is not None:
        return [], np.zeros(len(problem.y), dtype=bool), problem.validation[1], "X_val"
    if all_frozen and validation in ("auto", "cv"):  # nothing is fitted, so that every row judges
        words = f"the {len(problem.y):,} rows given to fit, where no model was fitted"
        return [], np.ones(len(problem.y), dtype=bool), replace(problem.rows, words=words), "frozen"
    split = Split.of(problem, validation, seed, few_folds=True)
    return split.parts, split.fold >= 0, split.judged(problem.rows, "probabilities"), split.validation


@dataclass(frozen=True)
class _Fitter:
    """Fits an estimator on some rows of a problem; returns it with the class number of each column."""

    problem: Problem
    weighted: bool

    def __call__(self, name: str, estimator: Any, rows: Mask) -> Fit:
        problem, everything = self.problem, bool(rows.all())
        present, y = np.unique(problem.y[rows], return_inverse=True)
        if len(present) == 1:  # many classifiers refuse it
            return constant(int(present[0]), problem.n_classes), np.arange(problem.n_classes)
        model = clone(estimator)
        params = {str(weight_parameter(model)): problem.weight[rows]} if self.weighted else {}
        try:
            model.fit(problem.X if everything else take(problem.X, rows), y, **params)
        except (TypeError, ValueError) as error:
            raise _in_fit(name, model, error) from error
        return model, present[np.asarray(model.classes_, dtype=np.intp)]


def _in_fit(name: str, estimator: Any, error: Exception) -> ValueError:
    return ValueError(f"estimators: {name!r} ({type(estimator).__name__}) in fit: {error}")


class _OneTable:
    """Fits learners that read opened tables to the rows of a problem, which it opens once for all.

    Parameters
    ----------
    problem : Problem
        The rows.
    parts : list of ndarray of bool, shape (n,)
        The rows to hold out together.
    seed : int
        For a session that draws.
    """

    def __init__(self, problem: Problem, parts: list[Mask], seed: int) -> None:
        self.problem, self.parts, self.seed = problem, parts, seed
        self.opened = OpenTable.of(problem.X)

    def __call__(self, name: str, learner: Any) -> list[Fit]:
        problem, weight, kept = self.problem, self.problem.weight, None
        try:
            session = learner.open_table(self.opened, problem.y, problem.n_classes, weight)
        except (TypeError, ValueError) as error:
            raise _in_fit(name, learner, error) from error
        if self.parts and isinstance(session, Partitioned):
            part = np.full(len(problem.y), -1)
            for j, held in enumerate(self.parts):
                part[held] = j
            session.leave_out(part)
        rests = [~held for held in self.parts]
        models = [session.fit(weight, self.seed, rest) for rest in rests]
        if len(models) > 1 and isinstance(session, Averaging):
            kept = session.mean(models, weight, rests)
        kept = session.fit(weight, self.seed) if kept is None else kept
        return [(model, np.asarray(model.classes_, dtype=np.intp)) for model in (*models, kept)]


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
