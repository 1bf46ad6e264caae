"""The rows and the models of a fit: tables, labels and groups, and estimators, cross-fitted and final."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from copy import copy, deepcopy
from dataclasses import replace
from itertools import product
from numbers import Real
from operator import add
from typing import Any, NamedTuple, Self

import numpy as np
from sklearn.base import clone, is_regressor
from sklearn.exceptions import NotFittedError
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.utils.parallel import Parallel, delayed

# Model files of version 0.1 name `Columns` here.
from tailboost.classifiers.tables import Columns as Columns
from tailboost.core import (
    NAMES_SHOWN,
    Floats,
    Ints,
    Labels,
    Mask,
    Model,
    ResubstitutionWarning,
    Stated,
    coded,
    frozen_object,
    noticing_interrupts,
    positions,
    take,
    warn_user,
)
from tailboost.learners import HistBoostClassifier
from tailboost.learners.foreign import (
    ClassNumbers,
    by_class_number,
    constant,
    in_class_numbers,
    of_present,
    set_seeds,
    weight_parameter,
)
from tailboost.learners.forest import TableForest
from tailboost.learners.named import named_learner
from tailboost.learners.protocols import TableLearner
from tailboost.learners.scores import GivenModel, Scores
from tailboost.learners.table import OpenTable, TableNumbers
from tailboost.rows import (
    SELECTED_ON,
    Rows,
    Seen,
    crossed,
    first_repeated,
    hash_rows,
    logs_of,
    stratified_places,
)
from tailboost.selection.outputs import Models

# Classifiers with their names.
Named = list[tuple[str, Model]]
# On tables with more columns trees take a thousand times as long as logistic regression.
MOST_COLUMNS = 300
# Out-of-fold log-probabilities are rounded to multiples of this step.
LOG_STEP = 2.0**-16
# "auto" cross-fits up to this many distinct rows: one fit per fold and one on all rows in each round. With
# more rows, "auto" holds out a fifth, with two fits in each round.
CROSS_FIT_UP_TO = 50_000
N_FOLDS = 5
# Number of folds for "auto" of more distinct rows: four fits in each round instead of six.
FIVE_FOLDS_UP_TO = 5_000
FEW_FOLDS = 3
HELD_OUT = 0.2  # fraction of the rows
LEAST_HELD_OUT = 20  # least number of held-out rows of the smallest class in a group
# Each fold is a fit, and a mask of the rows.
MOST_FOLDS = 255


class Fit(NamedTuple):
    """A fitted classifier."""

    model: Model
    columns: Ints  # class number of each column of its probabilities


# The fits of each model by its name: without each part of the rows if it was trained, and last the final one.
Fits = dict[str, list[Fit]]
NO_HASHES = np.zeros(0, dtype=np.uint64)  # of no row

# -- estimators ------------------------------------------------------------------------------------------


def default_estimators(n_rows: int = 1_000, n_columns: int = 20) -> Named:
    """Return the estimators of ``estimators=None``: boosted trees, a forest and logistic regression.

    Parameters
    ----------
    n_rows : int
        Number of distinct rows. From 5,000 on, held-out rows give the number of boosted trees.
    n_columns : int
        Number of columns. Tables of more than 300 get logistic regression alone.
    """
    linear = ("linear", make_pipeline(TableNumbers(), LogisticRegression(max_iter=1_000)))
    if n_columns > MOST_COLUMNS:
        return [linear]
    n_trees = "auto" if n_rows > FIVE_FOLDS_UP_TO else 50
    boosted = HistBoostClassifier(n_estimators=n_trees, max_depth=6, learning_rate=0.2)
    return [("boosted", boosted), ("forest", TableForest()), linear]


def pairs_of(models: Model) -> Any:
    """Return the models of a dict as (name, model) pairs; models in another form stay as they are."""
    return list(models.items()) if isinstance(models, Mapping) else models


def is_pair(item: object) -> bool:
    """Return whether an item of the parameter ``estimators`` is a pair of a name and anything."""
    return isinstance(item, (tuple, list)) and len(item) == 2 and isinstance(item[0], str)


def named_models(models: Model) -> Named:
    """Return fitted models as (name, model) pairs, in forms that neither a fit nor a clone changes.

    A dict and a list of pairs keep their names. Models without a name are called by their class, function or
    score column, and numbered from 1 if several have the same name.
    """
    if not isinstance(models, (Mapping, list, tuple)):
        models = [models]
    if not (isinstance(models, Mapping) or all(map(is_pair, models))):
        kinds = []
        for model in models:
            kind = getattr(model, "__name__", type(model).__name__)
            if isinstance(model, Scores) and len(model.column_list) == 1:
                kind = str(model.column_list[0])
            kinds.append(kind)
        numbers = [
            f" {kinds[: i + 1].count(kind)}" if kinds.count(kind) > 1 else ""
            for i, kind in enumerate(kinds)
        ]
        models = zip(map(add, kinds, numbers), models, strict=True)
    return [(name, _fixed(model)) for name, model in pairs_of(models)]


def _fixed(model: Model) -> Model:
    """Return a fitted model in a form that neither a fit nor a clone changes.

    What has a ``fit`` is frozen or, if it was fitted outside scikit-learn, a `GivenModel`.
    """
    may_train = hasattr(model, "fit") or isinstance(model, str)  # a name is a learner's
    if not may_train or isinstance(model, (Scores, GivenModel, FrozenEstimator)):
        return model
    is_foreign = hasattr(model, "predict_proba") and not hasattr(model, "__sklearn_tags__")
    return GivenModel(model) if is_foreign else FrozenEstimator(model)


def usable(estimators: Named, rows: Rows, *, weighted: bool = False) -> Named:
    """Return the given estimators by name, with models in other forms as frozen classifiers.

    Parameters
    ----------
    estimators : list of (str, model)
        The models as given.
    rows : Rows
        The rows of the fit as given.
    weighted : bool
        Whether ``fit`` of the models gets weights of the rows.

    Raises
    ------
    ValueError, TypeError
        If there is none, or one cannot be used. The message names the estimator.
    """
    if not estimators:
        raise ValueError("estimators must hold at least one (name, classifier) pair, got []")
    found = []
    for item in estimators:
        if not is_pair(item):
            raise TypeError(
                f"estimators must be a list of (name, classifier) pairs, got {item!r} in it"
            )
        name, model = item
        if isinstance(model, str):
            model = named_learner(model, f"estimators: {name!r}")
        answers = callable(model) or hasattr(model, "predict_proba")
        if answers and not (hasattr(model, "fit") or isinstance(model, type)):
            model = GivenModel(model)
        refuse_unusable(name, model, weighted=weighted)
        if isinstance(model, (Scores, GivenModel)):
            # A copy, as the user's object stays unfitted.
            model = FrozenEstimator(copy(model).fit(rows.X, rows.labels))
        found.append((name, model))
    return found


def refuse_unusable(name: str, model: Model, *, weighted: bool) -> None:
    """Raise unless a model, called ``name``, is a classifier with probabilities, and fitted if it is frozen.

    With ``weighted``, one that is not frozen must take weights in its ``fit``.
    """
    is_frozen = isinstance(model, FrozenEstimator)
    classifier = model.estimator if is_frozen else model
    title = f"estimators: {name!r}"
    if isinstance(classifier, type):
        raise TypeError(f"{title} is a class; give an instance: {classifier.__name__}()")
    kind = type(classifier).__name__
    if kind != name:
        title = f"{title} ({kind})"
    if not hasattr(classifier, "fit" if is_frozen else "get_params"):
        raise TypeError(
            f"{title} is of type {kind}, no classifier; tailboost.tune takes fitted models, "
            "tb.Scores('p', label) scores of the rows, and RobustMixtureClassifier."
            "from_probabilities({'model': P}, y) probabilities"
        )
    if hasattr(classifier, "__sklearn_tags__") and is_regressor(classifier):
        raise TypeError(f"{title} is a regressor; a classifier with predict_proba is needed")
    if is_frozen and not hasattr(classifier, "classes_"):
        raise NotFittedError(
            f"{title} is not fitted: call its fit first, or give it to RobustMixtureClassifier"
        )
    if not hasattr(classifier, "predict_proba"):
        raise ValueError(
            f"{title} has no predict_proba; CalibratedClassifierCV gives it one, and a stated "
            "final_estimator to a StackingClassifier"
        )
    if weighted and not is_frozen and weight_parameter(model) is None:
        raise ValueError(f"sample_weight, class_weight: {title} takes no weights in fit")


def frozen_fit(name: str, frozen: FrozenEstimator, classes: Labels) -> Fit:
    """Return a copy of a frozen model, called ``name``, with the class number of each of its ``classes_``.

    A later fit of the given model changes no rule. A model that cannot be copied, such as a client of a
    server, is taken as it is: its identity shows a change.
    Raise ValueError if it has a class that is not among ``classes``, the labels of y.
    """
    title = f"classes_ of {name!r}"
    known, place = coded(frozen.classes_, title)
    columns = positions(
        known, classes, title, f"classes that are not in y, which has {classes.tolist()[:5]}"
    )
    unknown = np.setdiff1d(classes, known).tolist()
    if unknown:
        warn_user(
            f"y has labels that {name!r} does not know: {unknown[:NAMES_SHOWN]}; it knows "
            f"{known.tolist()}. Leave their rows out, or train the model on such rows too"
        )
    try:
        own = deepcopy(frozen)
    except Exception:  # any library may refuse; the identity of a shared model is compared
        own = frozen
    return Fit(own, columns[place])


# -- folds -----------------------------------------------------------------------------------------------


@frozen_object
class Split:
    """The selection data, and the parts of the training rows that are held out one after the other.

    Attributes
    ----------
    scheme : str or float
        "cv", "splits", or the held-out fraction; "X_val" or "frozen" if no training row is held out.
    selecting : Rows
        The selection data.
    parts : sequence of ndarray of bool, shape (n,) each
        The rows of each part among the selection data; no part if these are no training rows.
    fitted : sequence of ndarray of bool
        For each part, the training rows on which models are fitted while it is held out.
    """

    scheme: str | float
    selecting: Rows
    parts: Sequence[Mask] = ()
    fitted: Sequence[Mask] = ()

    @classmethod
    def of(cls, rows: Rows, cv: Any, seed: int) -> Self:
        """Return a split of the training rows, by hashes of the rows and the seed.

        Parameters
        ----------
        rows : Rows
            The training rows.
        cv : "auto", int, float, splitter or iterable of (fitted, held-out) row numbers
            Number of folds, fraction to hold out, or the parts. "auto" makes five folds, three of more than
            5,000 distinct rows; of more than 50,000 it holds out a fifth, if this has 20 rows of each class
            in a group.
        seed : int
            Seed of the hashes.

        Raises
        ------
        ValueError
            If no rows are left for the fit or for the selection data.
        """
        if not isinstance(cv, (str, Real)):
            return cls.from_splits(rows, cv)
        stratum = crossed([*rows.groups.T, rows.y], len(rows))
        # Equal rows have one turn, and even thinnings of the turns are stratified.
        turn = stratified_places(hash_rows(rows.units, seed), stratum, rows.weight)
        n_distinct = int(turn.max()) + 1
        least = np.bincount(stratum).min()  # rows of a class in a group
        size: float  # number of folds, or fraction to hold out
        if not isinstance(cv, str):
            size = float(cv)
        elif n_distinct <= FIVE_FOLDS_UP_TO:
            size = N_FOLDS
        elif n_distinct <= CROSS_FIT_UP_TO or least * HELD_OUT < LEAST_HELD_OUT:
            size = FEW_FOLDS
        else:
            size = HELD_OUT
        scheme: str | float = "cv"
        if size >= 2:
            fold = turn % min(int(size), n_distinct)
        else:  # every (1/size)-th turn is held out
            scheme = size
            fold = np.where(np.floor((turn + 1) * size) > np.floor(turn * size), 0, -1)
        fitted = [fold != j for j in range(fold.max() + 1)]
        if not fitted or not fitted[0].any():
            raise ValueError(
                f"cv={cv!r}: of {n_distinct:,} distinct rows all or none would be "
                "validation rows; use folds, another fraction or more rows"
            )
        return cls.holding_out(rows, scheme, fold, fitted)

    @classmethod
    def from_splits(cls, rows: Rows, cv: Any) -> Self:
        """Return the parts of a splitter, or of an iterable of (fitted, held-out) row numbers.

        Raises
        ------
        ValueError
            If the rows cannot be split this way, or a cluster would be separated.
        """
        numbers = rows.places  # of the rows, as the splits count them
        if hasattr(cv, "split"):  # a splitter gets the rows of positive weight
            cv = cv.split(rows.X, rows.y, rows.clusters)
            numbers = np.arange(len(rows))
        splits = list(cv)
        if not 1 <= len(splits) <= MOST_FOLDS:
            raise ValueError(
                f"cv makes {len(splits):,} splits; from 1 to {MOST_FOLDS} are possible"
            )
        counted = np.arange(rows.n_given or len(rows))
        # What no split may divide.
        units = numbers if rows.clusters is None else rows.clusters
        fold = np.full(len(rows), -1)
        fitted = []
        for j, (train, test) in enumerate(splits):
            try:
                is_fitted = np.isin(numbers, counted[np.asarray(train)])
                is_held_out = np.isin(numbers, counted[np.asarray(test)])
            except IndexError as error:
                raise ValueError(
                    f"cv: split {j} must be two arrays of row numbers: {error}"
                ) from error
            fault = ""
            if np.isin(units[is_held_out], units[is_fitted]).any():
                fault = "fits rows that it holds out, or separates rows of a cluster"
            elif not (is_held_out.any() and is_fitted.any()):
                fault = "leaves no rows to fit or to judge on"
            elif (fold[is_held_out] >= 0).any():
                fault = "holds out rows that an earlier one held out"
            if fault:
                raise ValueError(f"cv: split {j} {fault}")
            fold[is_held_out] = j
            fitted.append(is_fitted)
        return cls.holding_out(rows, "splits", fold, fitted)

    @classmethod
    def holding_out(
        cls, rows: Rows, scheme: str | float, fold: Ints, fitted: Sequence[Mask]
    ) -> Self:
        """Return a split whose selection data are the held-out rows among the training rows.

        ``fold`` has the part of each training row, −1 for one that is never held out. Models fitted without a
        part are fitted again on all rows.
        """
        is_held_out = fold >= 0
        held_out = rows.part(is_held_out)
        words = f"the {len(held_out):,} held-out rows"
        if isinstance(scheme, str):
            share = "" if is_held_out.all() else f"{len(held_out):,} of "
            words = f"out-of-fold probabilities of {share}{rows.words} ({len(fitted)} folds)"
        parts = [fold[is_held_out] == j for j in range(len(fitted))]
        return cls(scheme, replace(held_out, words=words, refit=True), parts, fitted)


# -- fits ------------------------------------------------------------------------------------------------


def fit_models(
    estimators: Named,
    training: Rows,
    split: Split,
    *,
    class_weight: Stated = None,
    weighted: bool,
    seed: int,
    n_jobs: int | None,
    verbose: int,
) -> Fits:
    """Return the fits of each estimator: one without each part of a split, and last the final one.

    The learners of tailboost share one prepared table. The final fit is on all rows. An estimator without all
    its fits at Ctrl-C is left out.

    Parameters
    ----------
    estimators : list of (str, classifier)
        The estimators.
    training : Rows
        The training rows.
    split : Split
        The parts of the rows that are held out, one after the other.
    class_weight : dict or "balanced", optional
        Factors of the weights in the fits; the selection data have no factors.
    weighted : bool
        Whether ``fit`` of an estimator gets the weights of the rows.
    seed : int
        Seed of the estimators without a seed of their own.
    n_jobs : int or None
        Number of parallel fits.
    verbose : int
        Progress of the fits that joblib prints.
    """
    numbers = {label: k for k, label in enumerate(training.classes.tolist())}
    if class_weight is not None:
        factors = class_factors(class_weight, training, numbers)
        training = replace(training, weight=training.weight * factors[training.y])
    learners = {
        name: clone(in_class_numbers(estimator, numbers)) for name, estimator in estimators
    }
    for learner in learners.values():
        set_seeds(learner, seed, also_stated=False)
    of_tables = [name for name in learners if isinstance(learners[name], TableLearner)]
    parts = [*split.fitted, np.ones(len(training), bool)]  # the last is on all rows
    tasks = list(product([name for name in learners if name not in of_tables], parts))
    fits: Fits = {name: [] for name in learners}
    options: Any = {"n_jobs": n_jobs, "verbose": verbose, "return_as": "generator"}
    with noticing_interrupts() as interrupted:
        try:
            if of_tables:
                table = OpenTable(training.X)
                found = Parallel(prefer="threads", **options)(
                    delayed(_fits_on_table)(training, split, seed, table, name, learners[name])
                    for name in of_tables
                )
                fits |= zip(of_tables, found, strict=True)
            found = Parallel(**options)(
                delayed(_fit_alone)(training, weighted, name, learners[name], rows)
                for name, rows in tasks
            )
            for (name, _), fit in zip(tasks, found, strict=True):
                # A learner that catches Ctrl-C may have returned a half-trained model.
                if interrupted():
                    raise KeyboardInterrupt
                fits[name].append(fit)
        except KeyboardInterrupt:
            pass  # what is finished stays
    return {name: each for name, each in fits.items() if len(each) == len(parts)}


def _fit_alone(training: Rows, weighted: bool, name: str, estimator: Model, rows: Mask) -> Fit:
    """Return an estimator fitted on some rows, those of a mask.

    Messages call it ``name``. With ``weighted``, ``fit`` gets the weights of the rows.
    """
    present_classes, y = np.unique(training.y[rows], return_inverse=True)
    n_classes = len(training.classes)
    if len(present_classes) == 1:  # many classifiers refuse a single class
        return Fit(constant(int(present_classes[0]), n_classes), np.arange(n_classes))
    model = of_present(estimator, present_classes, n_classes)
    weights = {}
    if weighted:
        weights[str(weight_parameter(model))] = training.weight[rows]
    X = training.X
    if not rows.all():  # a copy of all rows may be large
        X = take(X, rows)
    with _named(name, model):
        model.fit(X, y, **weights)
    return Fit(model, present_classes[np.asarray(model.classes_, dtype=np.intp)])


@contextmanager
def _named(name: str, estimator: Model) -> Iterator[None]:
    """Name the estimator in the message of an error of its fit."""
    try:
        yield
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"estimators: {name!r} ({type(estimator).__name__}) in fit: {error}"
        ) from error


def _fits_on_table(
    training: Rows, split: Split, seed: int, opened: OpenTable, name: str, learner: Model
) -> list[Fit]:
    """Return the fits of a learner of tailboost for all parts, and that on all rows, on a prepared table.

    Parameters
    ----------
    training : Rows
        The training rows.
    split : Split
        The parts of the rows that are held out.
    seed : int
        Seed of the fits.
    opened : OpenTable
        The features of the training rows, prepared once for all learners.
    name : str
        Name of the learner in messages.
    learner : TableLearner
        The learner of tailboost.
    """
    with _named(name, learner):
        session = learner.open_table(opened, training.y, len(training.classes))
    columns = np.arange(len(training.classes))
    return [
        Fit(session.fit(training.weight, seed, rows), columns) for rows in (*split.fitted, None)
    ]


def scored_on(models: Models, rows: Rows, fits: Fits, parts: Sequence[Mask]) -> Models:
    """Return models with their log-probabilities of selection data.

    A row of one of the ``parts`` that were held out is answered by the fit without this part. Without parts,
    and if a model was not trained, the model itself answers.
    """
    if not parts:
        table = models.transform(rows.X)
        own = [table.logs(i) for i in range(len(models.names))]
        return models.on(own, rows, table.scores)
    logs = []
    for i, (*without_part, _) in enumerate(fits.values()):
        if without_part:
            P = np.zeros((len(rows), models.n_classes))
            for part, fit in zip(parts, without_part, strict=True):
                P[part] = models.probabilities(take(rows.X, part), i, fit)
            # Models of other folds differ far more than by this step. Zeros behind make files smaller.
            logs.append(np.rint(logs_of(P) / LOG_STEP) * LOG_STEP)
        else:
            logs.append(logs_of(models.probabilities(rows.X, i)))
    return models.on(logs, rows)


# -- rows --------------------------------------------------------------------------------------------------


def refuse_validation(given: Rows, validation: Rows, cv: object) -> None:
    """Raise ValueError if a validation set is incomplete, or comes with ``cv`` or clusters.

    It needs groups if the training rows have groups.
    """
    if validation.X is None or validation.y is None:
        raise ValueError("a validation set needs both X_val and y_val")
    if bool(given.names.titles) != bool(validation.names.titles):
        raise ValueError("groups and groups_val: give both or neither")
    if cv != "auto":
        raise ValueError(f"cv={cv!r} and X_val were both given; use cv='auto'")
    if given.clusters is not None:
        raise ValueError("clusters and X_val were both given, but X_val is not split")


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
    stated = by_class_number(class_weight, numbers, title)
    factors = np.array([stated.get(k, 1.0) for k in range(len(numbers))], dtype=np.float64)
    if not np.all((factors > 0) & np.isfinite(factors)):
        raise ValueError(
            f"{title}: factors must be positive; to leave out a class, drop its rows"
        )
    return factors


def compared(models: Models, known: Sequence[Seen]) -> tuple[Models, Seen]:
    """Return models, and a record of the rows of their selection.

    If these repeat known rows, warn and mark them as fitted on.
    """
    rows = models.rows
    hashes = models.row_hashes(rows.X)
    if known:
        # Known rows of fits are whole tables, and not the scores alone.
        given = Seen.of(hash_rows(rows.X, rounded=True) if models.columns_read else hashes)
        repeated = first_repeated(given, known, "copies")
        if repeated is not None:
            share = 100 * given.share_in(repeated)
            words = f"{rows.words}, {share:.3g}% of which equal training rows"
            warn_user(
                f"{words}, where models have smaller errors than on fresh rows: give rows that "
                "were not given to fit (if features take so few values that fresh rows equal "
                "training rows, ignore this warning)",
                ResubstitutionWarning,
            )
            models = replace(models, rows=replace(rows, words=words, fitted=True))
    return models, Seen.of(hashes, SELECTED_ON, rows, models.score_labels)
