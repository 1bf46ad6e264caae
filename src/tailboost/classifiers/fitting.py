"""Cross-fitting of estimators: out-of-fold probabilities, and the final models."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import product
from numbers import Real
from typing import Any

import numpy as np
from sklearn.base import clone, is_regressor
from sklearn.exceptions import NotFittedError
from sklearn.frozen import FrozenEstimator
from sklearn.utils.parallel import Parallel, delayed

from tailboost.core.array_types import Floats, Ints, Mask, Model
from tailboost.core.checks import (
    NAMES_SHOWN,
    check_same_kind,
    label_column,
    no_classes,
    positions,
    take,
)
from tailboost.core.exceptions import FitInterruptedWarning, warn_user
from tailboost.core.long_work import Steps, noticing_interrupts, steps
from tailboost.core.spelling import a_type_of, number_form
from tailboost.learners.foreign import constant, set_seeds, weight_parameter
from tailboost.learners.protocols import AveragingLearner, TableLearner
from tailboost.learners.scores import Scores
from tailboost.learners.table import OpenTable
from tailboost.rows.rows import Rows, Split
from tailboost.selection.outputs import ModelOutputs, Models
from tailboost.selection.rule import logs_of

Estimators = Sequence[tuple[str, Any]]
# A fitted classifier, and the class number of each column of its probabilities.
Fit = tuple[Any, Ints]
# The name and the seeded estimator of the fits, by its number among the estimators.
Jobs = dict[int, tuple[str, Any]]
# The most distinct rows for which "auto" makes five folds instead of three.
FIVE_FOLDS_UP_TO = 5_000
# Out-of-fold log-probabilities are rounded to multiples of this step.
LOG_STEP = 2.0**-16


def fit_models(
    estimators: Estimators,
    training: Rows,
    classes: Any,
    *,
    cv: Any,
    weighted: bool,
    seed: int,
    n_jobs: int | None,
    factors: Floats | None = None,
    validation: Rows | None = None,
) -> tuple[ModelOutputs, Rows, Any]:
    """Cross-fit every estimator; return the final models and their out-of-fold log-probabilities.

    The learners of tailboost share one prepared table. The final model of an `AveragingLearner` is the mean
    of the models of its folds. The final model of other estimators is fitted on all rows.

    Parameters
    ----------
    estimators : list of (str, classifier)
        Frozen estimators are not fitted. Their earlier training data must not include selection data.
    training : Rows
        The training rows.
    classes : ndarray of shape (K,)
        The labels.
    cv : "auto", int, float, splitter or iterable of splits
        As in `RobustMixtureClassifier`.
    weighted : bool
        Whether ``fit`` of the estimators gets the weights of the rows.
    seed : int
        Seeds the folds, and the estimators without a seed.
    n_jobs : int or None
        Number of parallel fits.
    factors : ndarray of shape (n,), optional
        Factors from ``class_weight``. The fits use weights times factors, the selection data only weights.
    validation : Rows, optional
        The given selection data.

    Returns
    -------
    outputs : ModelOutputs
        The final models, and the out-of-fold log-probabilities.
    rows : Rows
        The selection data with their features.
    scheme : str, int or float
        The kind of selection data after resolution of "auto".
    """
    frozen = [isinstance(estimator, FrozenEstimator) for _, estimator in estimators]
    if validation is None:
        split, rows = _held_out(training, cv, seed, all_frozen=all(frozen))
    else:
        split, rows = Split(np.full(len(training), -1), "X_val"), validation

    # The fits get other weights than the selection data.
    weighted_training = training
    if factors is not None:
        weighted_training = replace(training, weight=training.weight * factors)
    fits = _fits(
        estimators,
        frozen,
        weighted_training,
        split,
        weighted=weighted,
        seed=seed,
        n_jobs=n_jobs,
    )
    models = Models(names=[], n_classes=training.n_classes, fitted=[], columns=[])
    log_probabilities = []
    for i, (name, estimator) in enumerate(estimators):
        if i not in fits:  # left out with a warning
            continue
        if frozen[i]:
            fits[i] = [frozen_fit(name, estimator, classes)]
        *fold_fits, final = fits[i]
        models.names.append(name)
        models.fitted.append(final[0])
        models.columns.append(final[1])
        log_probabilities.append(_selection_logs(models, final, fold_fits, split, rows))
    outputs = ModelOutputs.with_hashes(models, log_probabilities, rows.without_features())
    # Rows with equal hashes count as one row. With clusters, the hashes are those of the clusters.
    if rows.clusters is not None:
        outputs = replace(outputs, rows=replace(outputs.rows, row_hashes=rows.row_hashes))
    return outputs, rows, split.scheme


def _held_out(training: Rows, cv: Any, seed: int, *, all_frozen: bool) -> tuple[Split, Rows]:
    """Return the held-out parts of the training rows, none if nothing is fitted, and the selection data.

    Parameters
    ----------
    training : Rows
        The training rows.
    cv : "auto", int, float, splitter or iterable of splits
        As in `RobustMixtureClassifier`.
    seed : int
        Seed of the folds.
    all_frozen : bool
        Whether nothing is fitted here.

    Raises
    ------
    ValueError
        If the rows cannot be split this way, or a cluster would be separated.
    """
    n = len(training)
    if isinstance(cv, str) and all_frozen:
        words = f"the {n:,} given rows (no model was fitted on them, as stated)"
        return Split(np.full(n, -1), "frozen"), replace(training, words=words)
    if isinstance(cv, (str, Real)):
        split = Split.of_rows(training, cv, seed, FIVE_FOLDS_UP_TO)
    else:
        split = Split.from_splits(training, cv)
    return split, split.selection_rows(training)


def frozen_fit(name: str, estimator: Model, classes: Any) -> Fit:
    """Return a fitted classifier, and the class number of each of its ``classes_``.

    Parameters
    ----------
    name : str
        Name of the classifier in messages.
    estimator : fitted classifier
        The classifier.
    classes : ndarray of shape (K,)
        The labels of y.

    Raises
    ------
    ValueError
        If it has a class that is not among the labels of y.
    """
    title = f"classes_ of {name!r}"
    model_classes = label_column(estimator.classes_, title)
    check_same_kind(label_column(classes, "y"), "y", model_classes, title)
    labels = model_classes.tolist()
    if len(classes) > NAMES_SHOWN > len(labels) and classes.dtype.kind in "iuf":
        raise ValueError(f"{title} are {labels}, and {no_classes(classes)}")
    unknown = [label for label in classes.tolist() if label not in labels]
    if unknown:
        warn_user(
            f"y has labels that {name!r} does not know, and gives no probability: {unknown}; "
            f"it knows {labels}. Leave their rows out, or train the model on such rows too"
        )
    problem = f"classes that are not in y, which has {classes.tolist()[:5]}"
    if labels == list(range(len(classes))):  # as of XGBoost, which reads no other labels
        problem = (
            f"{problem}; map y to {labels} as in the model's training, as by "
            f"y.map({{{classes.tolist()[0]!r}: …}})"
        )
    return estimator, positions(estimator.classes_, classes, title, problem)


def _selection_logs(
    models: Models, final: Fit, fold_fits: list[Fit], split: Split, rows: Rows
) -> Floats:
    """Return the log-probabilities of the selection data by the last one of ``models``, shape (n, K).

    The models of its folds predict the rows held out; a frozen model predicts all rows.

    Parameters
    ----------
    models : Models
        The models so far; the result is about the last one.
    final : (classifier, ndarray of int)
        Its final fit, and the class number of each column of its probabilities.
    fold_fits : list of such pairs
        Its fits without each held-out part; empty for a frozen model.
    split : Split
        The parts of the rows that are held out.
    rows : Rows
        The selection data.
    """
    last = len(models.names) - 1
    if not fold_fits:  # a frozen model, or a validation set
        return logs_of(models.probabilities(last, *final, rows.X))
    out_of_fold = np.zeros((len(rows), models.n_classes))
    fold = split.fold[split.fold >= 0]  # some rows may never be held out
    for j, fit in enumerate(fold_fits):
        out_of_fold[fold == j] = logs_of(
            models.probabilities(last, *fit, take(rows.X, fold == j))
        )
    # Models of other folds differ far more than by this step. Zeros in the digits beyond make files smaller.
    return np.rint(out_of_fold / LOG_STEP) * LOG_STEP


def _fits(
    estimators: Estimators,
    frozen: list[bool],
    training: Rows,
    split: Split,
    *,
    weighted: bool,
    seed: int,
    n_jobs: int | None,
) -> dict[int, list[Fit]]:
    """Return the `Fit`s of each estimator: one for each part, and the final model; none of a frozen one.

    An estimator without all its fits at Ctrl-C is left out, with a warning.

    Parameters
    ----------
    estimators : list of (str, classifier)
        All estimators with their names.
    frozen : list of bool
        Which of them are fitted already, and get no fit here.
    training : Rows
        The training rows, with the weights of the fits.
    split : Split
        The parts of the rows that are held out, one after the other.
    weighted : bool
        Whether ``fit`` of an estimator gets the weights of the rows.
    seed : int
        Seed of the estimators without a seed of their own.
    n_jobs : int or None
        Number of parallel fits.

    Raises
    ------
    KeyboardInterrupt
        If Ctrl-C came before the last fit of any estimator.
    """
    fits: dict[int, list[Fit]] = {i: [] for i in range(len(estimators))}
    jobs: Jobs = {
        i: (name, _seeded(estimator, seed))
        for i, (name, estimator) in enumerate(estimators)
        if not frozen[i]
    }
    table_jobs = {i: job for i, job in jobs.items() if isinstance(job[1], TableLearner)}
    single_jobs = {i: job for i, job in jobs.items() if i not in table_jobs}

    n_fits = len(split.parts) + 1  # of each estimator: the last is on all rows
    with (
        steps("fits", n_fits * len(jobs)) as report_fit,
        noticing_interrupts() as interrupted,
    ):
        try:
            for i, table_fits in _table_fits(
                table_jobs, training, split, seed, report_fit, n_jobs
            ):
                fits[i] = table_fits
            for i, fit in _single_fits(single_jobs, training, split, weighted, n_jobs):
                # A learner that catches Ctrl-C may have returned a half-trained model.
                if interrupted():
                    raise KeyboardInterrupt
                fits[i].append(fit)
                report_fit(detail=estimators[i][0])
        except KeyboardInterrupt:
            pass  # what is finished stays

    unfinished = {i: name for i, (name, _) in jobs.items() if len(fits[i]) < n_fits}
    if len(unfinished) == len(estimators):
        raise KeyboardInterrupt
    if unfinished:
        verb = number_form(len(unfinished), "is", "are")
        warn_user(
            f"fit was interrupted: {list(unfinished.values())} {verb} left out of the mixture",
            FitInterruptedWarning,
        )
    return {i: fits[i] for i in fits if i not in unfinished}


def _table_fits(
    jobs: Jobs,
    training: Rows,
    split: Split,
    seed: int,
    report_fit: Steps,
    n_jobs: int | None,
) -> Iterator[tuple[int, list[Fit]]]:
    """Yield the number of each learner of tailboost, with all its fits on one prepared table.

    Parameters
    ----------
    jobs : dict of int to (str, learner)
        The learners with their names, by their numbers among the estimators.
    training : Rows
        The training rows.
    split : Split
        The parts of the rows that are held out.
    seed : int
        Seed of the fits.
    report_fit : callable
        Called after each fit.
    n_jobs : int or None
        Number of learners that are fitted in parallel.
    """
    if not jobs:
        return
    opened = OpenTable(training.X)
    fit_on_table = partial(_fits_on_table, training, split, seed, report_fit, opened)
    parallel = Parallel(n_jobs=n_jobs, prefer="threads", return_as="generator")
    all_fits = parallel(delayed(fit_on_table)(*job) for job in jobs.values())
    yield from zip(jobs, all_fits, strict=True)


def _single_fits(
    jobs: Jobs, training: Rows, split: Split, weighted: bool, n_jobs: int | None
) -> Iterator[tuple[int, Fit]]:
    """Yield the number of an estimator with each of its fits, estimator by estimator.

    Parameters
    ----------
    jobs : dict of int to (str, classifier)
        The estimators with their names, by their numbers.
    training : Rows
        The training rows.
    split : Split
        The parts of the rows that are held out.
    weighted : bool
        Whether ``fit`` gets the weights of the rows.
    n_jobs : int or None
        Number of parallel fits.
    """
    if not jobs:
        return
    all_rows = np.ones(len(training.y), dtype=bool)
    tasks = list(product(jobs, [*split.fitted, all_rows]))
    single_fits = Parallel(n_jobs=n_jobs, return_as="generator")(
        delayed(_fit_alone)(training, weighted, *jobs[i], rows) for i, rows in tasks
    )
    for (i, _), fit in zip(tasks, single_fits, strict=True):
        yield i, fit


def _fit_alone(training: Rows, weighted: bool, name: str, estimator: Model, rows: Mask) -> Fit:
    """Return an estimator fitted on some rows, with the class number of each column of its probabilities.

    Messages call it ``name``. With ``weighted``, ``fit`` gets the weights of the rows.
    """
    present_classes, y = np.unique(training.y[rows], return_inverse=True)
    if len(present_classes) == 1:  # many classifiers refuse a single class
        n_classes = training.n_classes
        return constant(int(present_classes[0]), n_classes), np.arange(n_classes)
    model = clone(estimator)
    weights = {}
    if weighted:
        weights[str(weight_parameter(model))] = training.weight[rows]
    X = training.X
    if not rows.all():  # a copy of all rows may be large
        X = take(X, rows)
    try:
        model.fit(X, y, **weights)
    except (TypeError, ValueError) as error:
        raise _failed_fit(name, model, error) from error
    return model, present_classes[np.asarray(model.classes_, dtype=np.intp)]


def _failed_fit(name: str, estimator: Model, error: Exception) -> ValueError:
    return ValueError(f"estimators: {name!r} ({type(estimator).__name__}) in fit: {error}")


def _fits_on_table(
    training: Rows,
    split: Split,
    seed: int,
    report_fit: Steps,
    opened: OpenTable,
    name: str,
    learner: Model,
) -> list[Fit]:
    """Return the fits of a learner of tailboost for all parts, and the final one, on a prepared table.

    The final one is the mean of the models of the parts if the learner averages. Otherwise it is a fit on all
    rows.

    Parameters
    ----------
    training : Rows
        The training rows.
    split : Split
        The parts of the rows that are held out.
    seed : int
        Seed of the fits.
    report_fit : callable
        Called after each fit.
    opened : OpenTable
        The features of the training rows, prepared once for all learners.
    name : str
        Name of the learner in messages.
    learner : TableLearner
        The learner of tailboost.
    """
    weight = training.weight
    try:
        session = learner.open_table(opened, training.y, training.n_classes, weight)
    except (TypeError, ValueError) as error:
        raise _failed_fit(name, learner, error) from error
    fitted_parts = split.fitted
    models = list[Any]()
    for rows in fitted_parts:
        models.append(session.fit(weight, seed, rows))
        report_fit(detail=name)

    if split.is_partition and isinstance(session, AveragingLearner):
        models.append(session.mean(models))
    else:
        models.append(session.fit(weight, seed))
    report_fit(detail=name)
    return [(model, np.asarray(model.classes_, dtype=np.intp)) for model in models]


def _seeded(estimator: Model, seed: int) -> Any:
    """Return a clone with drawn values of the parameters ``random_state`` without a value, from ``seed``."""
    estimator = clone(estimator)
    stated_seeds = {}
    for name, value in estimator.get_params().items():
        if name.endswith("random_state") and value is not None:
            stated_seeds[name] = value
    set_seeds(estimator, seed)  # also the stated ones, which come back
    return estimator.set_params(**stated_seeds)


def check_estimators(estimators: Estimators, weighted: bool) -> None:
    """Raise if an estimator cannot be used.

    Parameters
    ----------
    estimators : list of (str, classifier)
        The models with their names.
    weighted : bool
        Whether ``fit`` will get weights of the rows.

    Raises
    ------
    ValueError, TypeError
        The message names the estimator.
    """
    for name, estimator in estimators:
        is_frozen = isinstance(estimator, FrozenEstimator)
        model = estimator
        if is_frozen:
            model = estimator.estimator
        _refuse_other_things(name, model)
        kind = type(model).__name__
        if name == kind:
            title = repr(name)
        else:
            title = f"{name!r} ({kind})"
        if hasattr(model, "__sklearn_tags__") and is_regressor(model):
            raise TypeError(
                f"estimators: {title} is a regressor; a classifier with predict_proba is needed"
            )
        if is_frozen and not hasattr(model, "classes_"):
            raise NotFittedError(
                f"estimators: {name!r} is not fitted: call fit of the {kind} first, or give it "
                "to RobustMixtureClassifier, which fits it"
            )
        if not hasattr(model, "predict_proba"):
            raise ValueError(
                f"estimators: {title} has no predict_proba; CalibratedClassifierCV gives it one"
            )
        if weighted and not is_frozen and weight_parameter(estimator) is None:
            raise ValueError(
                f"sample_weight, class_weight: {name!r} ({kind}) takes no weights in fit"
            )


def _refuse_other_things(name: str, model: Any) -> None:
    """Raise TypeError for a class, and for anything without ``fit``: a table, probabilities, a text."""
    if isinstance(model, type):
        raise TypeError(
            f"estimators: {name!r} is a class; give an instance: {model.__name__}()"
        )
    if hasattr(model, "fit"):
        return
    cure = "the table of rows is the next argument"
    if isinstance(model, str):
        cure = f"RobustMixtureClassifier([('model', {model!r})]) trains a learner of this name"
    elif hasattr(model, "dtype"):
        cure = (
            "for scores of the rows give tb.Scores('p', label), and a table with the "
            "column 'p'; for probabilities "
            "RobustMixtureClassifier.from_probabilities({'model': P}, y)"
        )
    raise TypeError(
        f"estimators: {name!r} has no fit; a classifier, fitted or not, is needed here, got "
        f"{a_type_of(model)}; {cure}"
    )


def _kind_of(model: Model) -> str:
    """Return the name of a model: of a score its column, of others their class or function."""
    if isinstance(model, Scores) and len(model.column_list) == 1:
        return str(model.column_list[0])
    if isinstance(model, type) or not hasattr(model, "predict_proba"):
        return str(getattr(model, "__name__", type(model).__name__))
    return type(model).__name__


def named_models(models: Any) -> list[tuple[str, Any]]:
    """Return models as (name, model) pairs.

    A dict and a list of pairs keep their names. Models without a name are called by their class, function or
    score column, and numbered from 1 if several have the same name.
    """
    if isinstance(models, Mapping):
        return list(models.items())
    model_list = [models]
    if isinstance(models, (list, tuple)):
        model_list = list(models)
    if model_list and all(isinstance(pair, tuple) and len(pair) == 2 for pair in model_list):
        return model_list
    kinds = [_kind_of(model) for model in model_list]
    named = []
    for i, (kind, model) in enumerate(zip(kinds, model_list, strict=True)):
        name = kind
        if kinds.count(kind) > 1:
            name = f"{kind} {kinds[: i + 1].count(kind)}"
        named.append((name, model))
    return named
