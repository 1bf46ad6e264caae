"""Cross-fitting of estimators: out-of-fold probabilities, and the final models."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from functools import partial
from numbers import Real
from typing import Any

import numpy as np
from sklearn.base import clone, is_regressor
from sklearn.exceptions import NotFittedError
from sklearn.frozen import FrozenEstimator
from sklearn.utils.parallel import Parallel, delayed

from tailboost.core.array_types import Floats, Ints, Mask, Model
from tailboost.core.checks import (
    SHOWN,
    check_same_kind,
    label_column,
    no_classes,
    positions,
    take,
)
from tailboost.core.exceptions import FitInterruptedWarning
from tailboost.core.long_work import Steps, noticing_interrupts, steps
from tailboost.core.warn import warn_user
from tailboost.learners.foreign import constant, set_seeds, weight_parameter
from tailboost.learners.protocols import AveragingLearner, Partitioned, TableLearner
from tailboost.learners.scores import Scores, only_scores
from tailboost.learners.table import OpenTable
from tailboost.rows.rows import Rows
from tailboost.rows.training_set import Split, TrainingSet
from tailboost.selection.outputs import ModelOutputs, Models, logs_of

Estimators = Sequence[tuple[str, Any]]
# A fitted classifier, and the class number of each column of its probabilities.
Fit = tuple[Any, Ints]
# The most distinct rows for which "auto" makes five folds instead of three.
FIVE_FOLDS_UP_TO = 5_000
# The fold of a row is stored as one byte.
MOST_PARTS = 255
# Out-of-fold log-probabilities are rounded to multiples of this step.
LOG_STEP = 2.0**-16
# The number of rows of which those given to `tune` are a part.
_part_of: ContextVar[int | None] = ContextVar("part_of", default=None)


def fit_models(
    estimators: Estimators,
    training: TrainingSet,
    classes: Any,
    *,
    cv: Any,
    weighted: bool,
    seed: int,
    n_jobs: int | None,
    clock: Clock,
    factors: Floats | None = None,
) -> tuple[ModelOutputs, Any]:
    """Cross-fit every estimator; return the final models and their out-of-fold log-probabilities.

    The learners of tailboost share one prepared table. The final model of an `AveragingLearner` is the mean
    of the models of its folds. The final model of other estimators is fitted on all rows.

    Parameters
    ----------
    estimators : list of (str, classifier)
        Frozen estimators are not fitted. Their earlier training data must not include selection data.
    training : TrainingSet
        The training rows, with a validation set if one was given.
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
    clock : Clock
        Time limit. The first fit has none. If no estimator has all its fits,
        the parts that the first one reached are the selection data, and its model of the first part answers.
    factors : ndarray of shape (n,), optional
        Factors from ``class_weight``. The fits use weights times factors, the selection data only weights.

    Returns
    -------
    outputs : ModelOutputs
        The final models, and the out-of-fold log-probabilities.
    scheme : str, int or float
        The kind of selection data after resolution of "auto".
    """
    frozen = [isinstance(estimator, FrozenEstimator) for _, estimator in estimators]
    scores = only_scores([estimator for _, estimator in estimators])
    parts = Parts.of(training, cv, seed, all(frozen), scores=scores)
    fitted = training
    if factors is not None:
        fitted = replace(training, weight=training.weight * factors)
    about: dict[str, Any] = {
        "weighted": weighted, "seed": seed, "n_jobs": n_jobs, "clock": clock
    }  # fmt: skip
    fits, stopped = _fits(estimators, frozen, fitted, parts, **about)
    parts = _without_late(estimators, fits, parts, training, stopped=stopped)
    models = Models([], training.n_classes, [], [])
    log_probabilities = []
    for i, (name, estimator) in enumerate(estimators):
        if None in fits[i]:
            continue
        *fold_fits, final = [frozen_fit(name, estimator, classes)] if frozen[i] else fits[i]
        models.names.append(name)
        models.fitted.append(final[0])
        models.columns.append(final[1])
        log_probabilities.append(_selection_logs(models, final, fold_fits, parts, training))
    outputs = ModelOutputs.of(models, log_probabilities, parts.rows)
    # Rows with equal hashes count as one row. With clusters, the hashes are those of the clusters.
    if training.clusters is not None and training.validation is None:
        outputs = replace(outputs, rows=replace(outputs.rows, row_hashes=parts.rows.row_hashes))
    return outputs, parts.scheme


def _without_late(
    estimators: Estimators,
    fits: dict[int, list[Any]],
    parts: Parts,
    training: TrainingSet,
    *,
    stopped: bool,
) -> Parts:
    """Warn of estimators without all their fits; if all lack some, keep the parts that one has reached."""
    why = "fit was interrupted" if stopped else "max_time is over"
    late = [i for i, of_estimator in fits.items() if None in of_estimator]
    if len(late) == len(fits):  # not even the first estimator has all its fits
        reached = {i: [j for j, fit in enumerate(fits[i]) if fit is not None] for i in late}
        first = max(late, key=lambda i: len(reached[i]))
        warn_user(
            f"{why}: {estimators[first][0]!r} was judged on {len(reached[first])} of "
            f"{len(parts.held)} held-out parts, and is not fitted to all rows",
            FitInterruptedWarning,
        )
        parts = parts.only(reached[first], training)
        fits[first] = [fits[first][j] for j in (*reached[first], reached[first][0])]
        late.remove(first)
    if late:
        names = [estimators[i][0] for i in late]
        warn_user(
            f"{why}: {names} {'is' if len(late) == 1 else 'are'} left out of the mixture",
            FitInterruptedWarning,
        )
    return parts


def frozen_fit(name: str, estimator: Model, classes: Any) -> Fit:
    """Return a fitted classifier, and the number among the classes of each of its own; raise for others."""
    words = f"classes_ of {name!r}"
    own = label_column(estimator.classes_, words)
    check_same_kind(label_column(classes, "y"), "y", own, words)
    if len(classes) > SHOWN > len(own) and classes.dtype.kind in "iuf":
        raise ValueError(f"{words} are {own.tolist()}, and {no_classes(classes)}")
    absent = f"classes that are not in y, which has {classes.tolist()[:5]}"
    if own.tolist() == list(range(len(classes))):  # as of XGBoost, which reads no other labels
        by_number = dict(zip(classes.tolist(), own.tolist(), strict=True))
        absent = f"{absent}; map y to {own.tolist()}, by y.map({by_number})"
    return estimator, positions(estimator.classes_, classes, words, absent)


def _selection_logs(
    models: Models, final: Fit, fold_fits: list[Fit], parts: Parts, training: TrainingSet
) -> Floats:
    """Return the newest model's log-probabilities of the selection data, those of its folds if it has any."""
    number = len(models.names) - 1
    if training.validation is not None:
        return logs_of(models.probabilities(number, *final, training.validation[0]))
    if not fold_fits:  # a frozen model
        held_out = parts.fold >= 0 if parts.held else np.ones(len(training.y), dtype=bool)
        return logs_of(models.probabilities(number, *final, take(training.X, held_out)))
    out_of_fold = np.zeros((len(training.y), training.n_classes))
    for held, fit in zip(parts.held, fold_fits, strict=True):
        given = models.probabilities(number, *fit, take(training.X, held))
        out_of_fold[held] = logs_of(given)
    # Models of other folds differ far more than by this step. Zeros in the digits beyond make files smaller.
    return np.rint(out_of_fold[parts.fold >= 0] / LOG_STEP) * LOG_STEP


def _fits(
    estimators: Estimators,
    frozen: list[bool],
    training: TrainingSet,
    parts: Parts,
    *,
    weighted: bool,
    seed: int,
    n_jobs: int | None,
    clock: Clock,
) -> tuple[dict[int, list[Any]], bool]:
    """Return the `Fit`s of each estimator, and whether Ctrl-C ended them.

    There is one fit for each part, and the final model; none if the estimator is frozen. A fit is None if
    the time limit was reached before its start, or Ctrl-C came before the end of the estimator's last fit.

    Raises
    ------
    KeyboardInterrupt
        If Ctrl-C came before the last fit of any estimator.
    """
    fits: dict[int, list[Any]] = {i: [] for i in range(len(estimators))}
    jobs = {
        i: [name, _seeded(estimator, seed), clock]
        for i, (name, estimator) in enumerate(estimators)
        if not frozen[i]
    }
    on_table = [i for i in jobs if isinstance(estimators[i][1], TableLearner)]
    others = [i for i in jobs if i not in on_table]
    if not any(frozen):  # otherwise a frozen one can answer
        jobs[(on_table or others)[0]][2] = replace(clock, sure=True)
    row_masks = [*parts.fitted, np.ones(len(training.y), dtype=bool)]
    stopped = False
    with (
        steps("fits", len(row_masks) * len(jobs)) as done,
        noticing_interrupts() as interrupted,
    ):
        try:
            if on_table:
                share = partial(
                    _fits_on_table, training, parts, seed, done, OpenTable(training.X)
                )
                parallel = Parallel(n_jobs=n_jobs, prefer="threads", return_as="generator")
                shared = parallel(delayed(share)(*jobs[i]) for i in on_table)
                for i, of_estimator in zip(on_table, shared, strict=True):
                    fits[i] = of_estimator
            if others:
                fit_alone = partial(_fit_alone, training, weighted)
                finished = Parallel(n_jobs=n_jobs, return_as="generator")(
                    delayed(fit_alone)(*jobs[i], *numbered)
                    for i in others
                    for numbered in enumerate(row_masks)
                )
                for place, fit in enumerate(finished):
                    # A learner that catches Ctrl-C may have returned a half-trained model.
                    if interrupted():
                        raise KeyboardInterrupt
                    i = others[place // len(row_masks)]
                    fits[i].append(fit)
                    if fit is not None:
                        done(detail=estimators[i][0])
        except KeyboardInterrupt:
            stopped = True
    if stopped:
        unfinished = [i for i in jobs if len(fits[i]) < len(row_masks)]
        fits |= {i: [None] for i in unfinished}
        if len(unfinished) == len(estimators):
            raise KeyboardInterrupt
    return fits, stopped


@dataclass(frozen=True)
class Clock:
    """Time limit of the fits."""

    until: float  # seconds since the epoch, valid in all processes
    sure: bool = False  # whether the first fit of the estimator has no time limit

    def late(self, number: int) -> bool:
        """Return whether the ``number``-th fit of an estimator, from 0, must not begin any more."""
        return time.time() >= self.until and not (self.sure and number == 0)


@contextmanager
def selecting_part_of(n_given: int) -> Iterator[None]:
    """Describe the rows given to `tailboost.tune` in the block as a part of so many rows."""
    token = _part_of.set(n_given)
    try:
        yield
    finally:
        _part_of.reset(token)


@dataclass(frozen=True)
class Parts:
    """Held-out parts of the rows, and the training rows for each part."""

    # Masks of shape (n,): the rows of each part, and the rows on which its models are fitted.
    held: list[Mask]
    fitted: list[Mask]
    rows: Rows  # the selection data: all held-out rows, or the validation set
    scheme: Any  # the kind of selection data after resolution of "auto"

    @classmethod
    def of(
        cls,
        training: TrainingSet,
        cv: Any,
        seed: int,
        all_frozen: bool,
        *,
        scores: bool = False,
    ) -> Parts:
        """Return the parts for a value of ``cv``.

        Raises
        ------
        ValueError
            If the rows cannot be split this way, or a cluster would be separated.
        """
        if training.validation is not None:
            return cls([], [], training.validation[1], "X_val")
        if (
            isinstance(cv, str) and all_frozen
        ):  # nothing is fitted, so all rows are selection data
            n = f"{len(training.y):,}"
            stated = "given rows (no model was fitted on them, as stated)"
            words = f"the {n} {'rows of scores' if scores else stated}"
            given = _part_of.get()
            if given is not None:
                words = f"the {n} rows (of the {given:,} given) that select"
            return cls([], [], replace(training.rows, words=words), "frozen")
        if isinstance(cv, (str, Real)):
            split = Split.of(training, cv, seed, five_up_to=FIVE_FOLDS_UP_TO)
            rows = split.selection_rows(training.rows, "probabilities")
            held = split.parts
            return cls(held, [~part for part in held], rows, split.validation)
        return cls._given(training, cv)

    @classmethod
    def _given(cls, training: TrainingSet, cv: Any) -> Parts:
        n = len(training.y)
        position = np.full(training.n_given, -1)
        position[training.used] = np.arange(n)
        if hasattr(cv, "split"):  # a splitter gets the rows of positive weight
            splits = list(cv.split(training.X, training.y, training.clusters))
            position = np.arange(n)
        else:
            splits = list(cv)
        if not 1 <= len(splits) <= MOST_PARTS:
            raise ValueError(
                f"cv makes {len(splits):,} splits; from 1 to {MOST_PARTS} are possible"
            )
        fold = np.full(n, -1)
        held = []
        fitted = []
        for j, (train, test) in enumerate(splits):
            part, rest = (_marked(rows, position, j) for rows in (test, train))
            if (part & rest).any():
                raise ValueError(f"cv: split {j} fits rows that it also holds out")
            if (fold[part] >= 0).any():
                raise ValueError(
                    f"cv: split {j} holds out rows that an earlier one held out; hold out each row once"
                )
            if not part.any() or not rest.any():
                raise ValueError(
                    f"cv: split {j} leaves no rows to {'fit' if part.any() else 'judge'} on"
                )
            clusters = training.clusters
            if clusters is not None and np.isin(clusters[part], clusters[rest]).any():
                raise ValueError(
                    f"cv: split {j} separates rows with the same value of clusters; GroupKFold "
                    "keeps them together"
                )
            fold[part] = j
            held.append(part)
            fitted.append(rest)
        return cls._splits(training, held, fitted)

    @classmethod
    def _splits(cls, training: TrainingSet, held: list[Mask], fitted: list[Mask]) -> Parts:
        """Return parts that need not contain all rows."""
        parts = cls(held, fitted, training.rows, "splits")
        fold = parts.fold
        count = f"{(fold >= 0).sum():,} of the {len(fold):,} training rows"
        rows = replace(training.rows, fold=fold.astype(np.uint8), refit=True).part(fold >= 0)
        words = (
            f"out-of-fold probabilities of {count} ({len(held)} split{'s' * (len(held) > 1)})"
        )
        return replace(parts, rows=replace(rows, words=words))

    def only(self, numbers: list[int], training: TrainingSet) -> Parts:
        """Return some of the parts. A single one judges the model that answers: nothing is fitted again."""
        parts = self._splits(
            training, [self.held[j] for j in numbers], [self.fitted[j] for j in numbers]
        )
        return replace(parts, rows=replace(parts.rows, refit=len(numbers) > 1))

    @property
    def fold(self) -> Ints:
        """The part of each row, shape (n,); −1 for rows without a held-out prediction."""
        fold = np.full(len(self.held[0]), -1)
        for j, part in enumerate(self.held):
            fold[part] = j
        return fold

    @property
    def is_partition(self) -> bool:
        """Whether each row is held out once, and is fitted in all other parts."""
        return (
            len(self.held) > 1 and bool(np.any(self.held, axis=0).all()) and self.complementary
        )

    @property
    def complementary(self) -> bool:
        """Whether all other rows are fitted while a part is held out."""
        return np.array_equal(self.fitted, np.logical_not(self.held))


def _marked(rows: Any, position: Ints, split: int) -> Mask:
    """Return the marked rows as a mask of the rows of positive weight.

    ``rows`` has row numbers, or is a mask of all rows.
    """
    rows = np.asarray(rows)
    if rows.dtype == np.bool_ and rows.shape == position.shape:
        rows = np.flatnonzero(rows)
    if rows.ndim != 1 or (rows.size and rows.dtype.kind not in "iu"):
        raise ValueError(
            f"cv: split {split} must be two arrays of row numbers, got {rows.dtype} in one"
        )
    if rows.size and not (rows.min() >= 0 and rows.max() < len(position)):
        raise ValueError(
            f"cv: split {split} names row {rows.max():,}, but there are {len(position):,} rows"
        )
    places = position[rows.astype(np.intp)]
    marked = np.zeros(np.count_nonzero(position >= 0), dtype=bool)
    marked[places[places >= 0]] = True
    return marked


def _fit_alone(
    training: TrainingSet,
    weighted: bool,
    name: str,
    estimator: Model,
    clock: Clock,
    number: int,
    rows: Mask,
) -> Fit | None:
    """Return an estimator fitted on some rows, and the class number of each column; None if it is late."""
    if clock.late(number):
        return None
    present, y = np.unique(training.y[rows], return_inverse=True)
    if len(present) == 1:  # many classifiers refuse a single class
        return constant(int(present[0]), training.n_classes), np.arange(training.n_classes)
    model = clone(estimator)
    params = {}
    if weighted:
        params = {str(weight_parameter(model)): training.weight[rows]}
    try:
        model.fit(training.X if rows.all() else take(training.X, rows), y, **params)
    except (TypeError, ValueError) as error:
        raise _in_fit(name, model, error) from error
    return model, present[np.asarray(model.classes_, dtype=np.intp)]


def _in_fit(name: str, estimator: Model, error: Exception) -> ValueError:
    return ValueError(f"estimators: {name!r} ({type(estimator).__name__}) in fit: {error}")


def _fits_on_table(
    training: TrainingSet,
    parts: Parts,
    seed: int,
    done: Steps,
    opened: OpenTable,
    name: str,
    learner: Model,
    clock: Clock,
) -> list[Fit | None]:
    """Return the fits of a learner of tailboost for all parts, and the final one, on a prepared table.

    ``done`` is called after each fit.
    """
    weight = training.weight
    try:
        session = learner.open_table(opened, training.y, training.n_classes, weight)
    except (TypeError, ValueError) as error:
        raise _in_fit(name, learner, error) from error
    if parts.held and parts.complementary and isinstance(session, Partitioned):
        session.leave_out(parts.fold)
    models = list[Any]()
    for number, rows in enumerate(parts.fitted):
        if clock.late(number):
            models.append(None)
        else:
            models.append(session.fit(weight, seed, rows))
            done(detail=name)
    final = None
    if (
        None not in models
        and parts.is_partition
        and isinstance(session, AveragingLearner)
        and (not session.refits or clock.late(len(models)))
    ):
        final = session.mean(models, weight, parts.fitted)
    if final is not None:
        final = final.table_  # a classifier with the mean probabilities
    elif not clock.late(len(models)):
        final = session.fit(weight, seed)
    if final is not None:
        done(detail=name)
    return [
        None if model is None else (model, np.asarray(model.classes_, dtype=np.intp))
        for model in (*models, final)
    ]


def _seeded(estimator: Model, seed: int) -> Any:
    """Return a clone with seeds drawn from ``seed`` for parameters without one."""
    estimator = clone(estimator)
    own = {
        k: v
        for k, v in estimator.get_params().items()
        if k.endswith("random_state") and v is not None
    }
    set_seeds(estimator, seed)
    return estimator.set_params(**own)


def check_estimators(estimators: Estimators, weighted: bool) -> None:
    """Raise if an estimator cannot be used.

    Raises
    ------
    ValueError, TypeError
        The message names the estimator.
    """
    for name, estimator in estimators:
        if isinstance(estimator, FrozenEstimator):
            model = estimator.estimator
        else:
            model = estimator
        if isinstance(model, type):
            raise TypeError(
                f"estimators: {name!r} is a class; give an instance: {model.__name__}()"
            )
        if not hasattr(model, "fit"):
            raise TypeError(
                f"estimators: {name!r} has no fit; a classifier, fitted or not, is needed "
                "here, and the table of rows is the next argument; got a "
                f"{type(model).__name__}"
            )
        kind = type(model).__name__
        if name == kind:
            named = repr(name)
        else:
            named = f"{name!r} ({kind})"
        if hasattr(model, "__sklearn_tags__") and is_regressor(model):
            raise TypeError(
                f"estimators: {named} is a regressor; a classifier with predict_proba is needed"
            )
        if model is not estimator and not hasattr(model, "classes_"):
            raise NotFittedError(
                f"estimators: {name!r} is not fitted: call fit of the {kind} first, or give it "
                "to RobustMixtureClassifier, which fits it"
            )
        if not hasattr(model, "predict_proba"):
            raise ValueError(
                f"estimators: {named} has no predict_proba; CalibratedClassifierCV gives it one"
            )
        if (
            weighted
            and not isinstance(estimator, FrozenEstimator)
            and weight_parameter(estimator) is None
        ):
            raise ValueError(
                f"sample_weight, class_weight: {name!r} ({type(estimator).__name__}) takes no weights in fit"
            )


def _kind_of(model: Model) -> str:
    """Return the name of a model: of a score its column, of others their class or function."""
    if isinstance(model, Scores) and len(model.column_list) == 1:
        return str(model.column_list[0])
    if isinstance(model, type) or not hasattr(model, "predict_proba"):
        return str(getattr(model, "__name__", type(model).__name__))
    return type(model).__name__


def named_models(models: Any) -> list[tuple[str, Any]]:
    """Return models with their names, by default those of their kind."""
    if isinstance(models, Mapping):
        return list(models.items())
    each = list(models) if isinstance(models, (list, tuple)) else [models]
    if each and all(isinstance(pair, tuple) and len(pair) == 2 for pair in each):
        return each
    kinds = [_kind_of(model) for model in each]
    names = []
    for i, kind in enumerate(kinds):
        number = kinds[: i + 1].count(kind)
        names.append(kind if kinds.count(kind) == 1 else f"{kind} {number}")
    return list(zip(names, each, strict=True))
