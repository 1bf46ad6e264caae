"""The fits of each model, without held-out rows and on all rows, and their answers to the selection data."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from copy import deepcopy
from dataclasses import replace
from itertools import product
from typing import NamedTuple

import numpy as np
from sklearn.base import clone
from sklearn.frozen import FrozenEstimator
from sklearn.utils.parallel import Parallel, delayed

from tailboost.classifiers.estimators import Named
from tailboost.classifiers.splitting import Split
from tailboost.core import (
    NAMES_SHOWN,
    Floats,
    Hashes,
    Ints,
    Labels,
    Mask,
    Model,
    Stated,
    frozen_object,
    label_column,
    noticing_interrupts,
    positions,
    take,
    warn_user,
)
from tailboost.core.ranges import POSITIVE, check_number
from tailboost.learners.base import seed_of
from tailboost.learners.foreign import (
    ClassNumbers,
    by_class_number,
    constant,
    in_class_numbers,
    of_present,
    set_seeds,
    weight_parameter,
)
from tailboost.learners.table import TableClassifier, TableReader
from tailboost.rows import NO_HASHES, Rows, hash_rows, logs_of
from tailboost.selection.identity import Identity, identity_of
from tailboost.selection.outputs import Models

# Out-of-fold log-probabilities are rounded to multiples of this step.
LOG_STEP = 2.0**-16


class Fit(NamedTuple):
    """A fitted classifier, and the class number of each column of its probabilities."""

    model: Model
    columns: Ints


@frozen_object
class Fits:
    """The fits of models, and the rows on which they were made.

    Attributes
    ----------
    estimators : dict of str to model
        The models as they were given, which may have read rows before.
    by_name : mapping of str to list of Fit
        The fits of each model: without each part of the rows if it was trained, and last the final one.
    rows : ndarray of shape (k,)
        Hashes of the rows of these fits.
    """

    estimators: Named
    by_name: Mapping[str, Sequence[Fit]]
    rows: Hashes

    @property
    def lacking(self) -> Named:
        """The models without a fit."""
        return {
            name: model for name, model in self.estimators.items() if name not in self.by_name
        }


def frozen_fits(estimators: Named, classes: Labels) -> Fits:
    """Return copies of the frozen models among some estimators, with the class numbers of their ``classes_``.

    A later fit of the given model changes no rule. A model that cannot be copied, such as a client of a
    server, is taken as it is: its identity shows a change.

    Raise ValueError if one has a class that is not among ``classes``, the labels of y.
    """
    copies = {}
    for name, frozen in estimators.items():
        if not isinstance(frozen, FrozenEstimator):
            continue
        title = f"classes_ of {name!r}"
        known = label_column(frozen.classes_, title)
        columns = positions(known, classes, title, "classes that are not in y")
        unknown = np.setdiff1d(classes, known).tolist()
        if unknown:
            warn_user(
                f"y has labels that {name!r} does not know: {unknown[:NAMES_SHOWN]}; it knows "
                f"{known.tolist()}. Their rows count as errors, unless the model is trained on such rows too"
            )
        try:
            own = deepcopy(frozen)
        except Exception:  # any library may refuse; the identity of a shared model is compared
            own = frozen
        copies[name] = [Fit(own, columns)]
    return Fits(estimators, copies, NO_HASHES)


def fit_models(
    fits: Fits,
    training: Rows,
    split: Split,
    class_weight: Stated,
    seed: int,
    n_jobs: int | None,
    verbose: int,
) -> Fits:
    """Return the fits of all estimators, of those without one on the rows of a split, and last on all rows.

    The learners of tailboost share one prepared table. An estimator without all its fits at Ctrl-C is left
    out.

    Parameters
    ----------
    fits : Fits
        The estimators, with the fits of frozen ones.
    training : Rows
        The training rows.
    split : Split
        The parts of the rows that are held out, one after the other.
    class_weight : dict or "balanced", optional
        Factors of the weights in the fits; the selection data have no factors.
    seed : int
        Seed of the estimators without a seed of their own.
    n_jobs : int or None
        Number of parallel fits.
    verbose : int
        Progress of the fits that joblib prints.

    Raises
    ------
    ValueError
        If class weights name an unknown label, or rows have weights and an estimator takes none.
    """
    hashes = hash_rows(training.X, rounded=True)  # before a model changes them

    # 1. The weights of the rows in the fits.
    numbers = {label: k for k, label in enumerate(training.classes.tolist())}
    if class_weight is not None:
        factors = class_factors(class_weight, training, numbers)
        training = replace(training, weight=training.weight * factors[training.y])
    weighted = not (training.weight == 1.0).all()

    # 2. The learners: those of tailboost read one table, and their sessions take the seed.
    on_table = {}
    alone = {}
    for name, estimator in fits.lacking.items():
        learner = clone(in_class_numbers(estimator, numbers))
        if weighted and weight_parameter(learner) is None:
            raise ValueError(
                f"sample_weight, class_weight: estimators: {name!r} ({type(learner).__name__}) "
                "takes no weights in fit"
            )
        if isinstance(learner, TableClassifier):
            on_table[name] = learner
        else:
            set_seeds(learner, seed, also_stated=False)
            alone[name] = learner

    # 3. The fits of each learner, without each part and last on all rows. What is finished at Ctrl-C stays.
    masks = [*split.fitted, None]
    tasks = [*product(alone, masks)]
    made = {name: [*fits.by_name.get(name, ())] for name in fits.estimators}
    with suppress(KeyboardInterrupt), noticing_interrupts() as interrupted:
        if on_table:
            reader = TableReader().fit(training.X)
            read = replace(training, X=reader.transform(training.X))
            fits_of_learners = Parallel(
                n_jobs, verbose=verbose, return_as="generator", prefer="threads"
            )(
                delayed(_fits_on_table)(learner, reader, read, masks, seed)
                for learner in on_table.values()
            )
            made.update(zip(on_table, fits_of_learners, strict=True))
        single_fits = Parallel(n_jobs, verbose=verbose, return_as="generator")(
            delayed(_fit_alone)(training, weighted, name, alone[name], rows)
            for name, rows in tasks
        )
        for (name, _), fit in zip(tasks, single_fits, strict=True):
            # A learner that catches Ctrl-C may have returned a half-trained model.
            if interrupted():
                break
            made[name].append(fit)

    # 4. The models with all their fits.
    complete = {
        name: of_model
        for name, of_model in made.items()
        if name in fits.by_name or len(of_model) == len(masks)
    }
    return Fits(fits.estimators, complete, hashes)


def class_factors(class_weight: Stated, training: Rows, numbers: ClassNumbers) -> Floats:
    """Return the factor of each class, shape (K,), by a dict of labels or "balanced".

    ``numbers`` are the class numbers of the labels.

    "balanced" divides the total of the sample weights by K times the total of each class: a row of weight 2
    counts as two rows.
    """
    if isinstance(class_weight, str):
        totals = np.bincount(training.y, training.weight)
        return training.weight.sum() / (len(totals) * totals)
    # compute_class_weight of scikit-learn 1.9 would convert labels such as "5" to numbers.
    title = f"class_weight={class_weight!r}"
    factor_of = by_class_number(class_weight, numbers, title)
    factors = (factor_of.get(k, 1.0) for k in range(len(numbers)))
    return np.array([check_number(each, f"{title}: factors", POSITIVE) for each in factors])


def _fit_alone(
    training: Rows, weighted: bool, name: str, estimator: Model, rows: Mask | None
) -> Fit:
    """Return an estimator fitted on the rows of a mask (None: all).

    Messages call it ``name``. With ``weighted``, ``fit`` gets the weights of the rows.
    """
    part = training if rows is None else training.part(rows)
    present_classes, y = np.unique(part.y, return_inverse=True)
    n_classes = len(training.classes)
    if len(present_classes) == 1:  # many classifiers refuse a single class
        return Fit(constant(int(present_classes[0]), n_classes), np.arange(n_classes))
    model = of_present(estimator, present_classes, n_classes)
    weights = {}
    if weighted:
        weights[str(weight_parameter(model))] = part.weight
    try:
        model.fit(part.X, y, **weights)
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"estimators: {name!r} ({type(model).__name__}) in fit: {error}"
        ) from error
    return Fit(model, present_classes[np.asarray(model.classes_, dtype=np.intp)])


def _fits_on_table(
    learner: TableClassifier,
    reader: TableReader,
    training: Rows,
    masks: Sequence[Mask | None],
    seed: int,
) -> list[Fit]:
    """Return the fits of a learner of tailboost on the rows of masks (None: all).

    The table is as the reader has read it. ``seed`` is that of a learner without one of its own.
    """
    if learner.random_state is not None:
        seed = seed_of(learner.random_state)
    n_classes = len(training.classes)
    session = learner.open_session(training.X, training.y, n_classes, reader=reader)
    columns = np.arange(n_classes)
    return [Fit(session.fit(training.weight, seed, rows), columns) for rows in masks]


def scored_on(models: Models, rows: Rows) -> Models:
    """Return models with their log-probabilities of selection data, which no model was fitted on."""
    outputs = models.outputs(rows.X)
    logs = [*map(outputs.logs, range(len(models.names)))]
    return models.with_selection_data(rows, logs, outputs.given_score)


def scored(split: Split, fits: Fits) -> tuple[Models, Identity]:
    """Return models with their log-probabilities of the selection data of a split, and their identity.

    The last fit of each model answers later. A held-out row is scored by the fit without its part, if the
    model was trained. Models that change as they answer have no digest.
    """
    rows = split.selecting
    last = [of_model[-1] for of_model in fits.by_name.values()]
    M = len(last)
    K = len(rows.classes)
    models = Models(
        [*fits.by_name],
        [fit.model for fit in last],
        [fit.columns for fit in last],
        rows,
        np.ones(M) / M,
        np.zeros(K),
    )
    identity = identity_of(models.fitted)
    if split.parts:
        logs = []
        for i, (*without_part, _) in enumerate(fits.by_name.values()):
            if without_part:
                P = np.zeros((len(rows), K))
                for part, fit in zip(split.parts, without_part, strict=True):
                    P[part] = models.probabilities(take(rows.X, part), i, fit)
                # Models of other folds differ far more than by this step. Zeros behind make files smaller.
                logs.append(np.rint(logs_of(P) / LOG_STEP) * LOG_STEP)
            else:
                logs.append(logs_of(models.probabilities(rows.X, i)))
        models = models.with_selection_data(rows, logs)
    else:
        models = scored_on(models, rows)
    return models, identity.after_answers(identity_of(models.fitted), ", ".join(models.names))
