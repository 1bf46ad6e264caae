"""The rows and the models of a fit: tables, labels and groups, and estimators, cross-fitted and final."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from copy import copy, deepcopy
from dataclasses import replace
from itertools import product
from math import prod
from numbers import Real
from typing import Any, Self

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
    Hashes,
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
    by_class_number,
    class_numbers,
    constant,
    in_class_numbers,
    of_present,
    set_seeds,
    weight_parameter,
)
from tailboost.learners.forest import TableForest
from tailboost.learners.named import named_learner
from tailboost.learners.protocols import TableLearner
from tailboost.learners.scores import GivenModel, Scores, as_fitted
from tailboost.learners.table import OpenTable, TableNumbers
from tailboost.rows import (
    SELECTED_ON,
    Rows,
    Seen,
    crossed,
    first_repeated,
    hash_rows,
    hashes_of_pairs,
    stratified_places,
)
from tailboost.selection.outputs import Models
from tailboost.selection.rule import logs_of

# Classifiers with their names.
Named = list[tuple[str, Model]]
# A fitted classifier, and the class number of each column of its probabilities.
Fit = tuple[Model, Ints]
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
# The fold of a row is stored as one byte.
MOST_FOLDS = 255

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
    logistic = LogisticRegression(max_iter=1_000)
    linear = ("linear", make_pipeline(TableNumbers(), logistic))
    if n_columns > MOST_COLUMNS:
        return [linear]
    n_trees = "auto" if n_rows > FIVE_FOLDS_UP_TO else 50
    boosted = HistBoostClassifier(n_estimators=n_trees, max_depth=6, learning_rate=0.2)
    return [("boosted", boosted), ("forest", TableForest()), linear]


def estimators_of(training: Rows) -> Named:
    """Return the default estimators for training rows; pixels and channels of images are columns."""
    labelled = hashes_of_pairs(hash_rows(training.X), training.y.astype(np.uint64))
    return default_estimators(len(np.unique(labelled)), prod(training.X.shape[1:]))


def pairs_of(models: Model) -> Any:
    """Return the models of a dict as (name, model) pairs; models in another form stay as they are."""
    return list(models.items()) if isinstance(models, Mapping) else models


def is_pair(item: object) -> bool:
    """Return whether an item of the parameter ``estimators`` is a pair of a name and anything."""
    return isinstance(item, (tuple, list)) and len(item) == 2 and isinstance(item[0], str)


def named_models(models: Model) -> Named:
    """Return fitted models as (name, model) pairs, in forms that no fit trains (`as_fitted`).

    A dict and a list of pairs keep their names. Models without a name are called by their class, function or
    score column, and numbered from 1 if several have the same name.
    """
    given = pairs_of(models)
    pairs = list(given) if isinstance(given, (list, tuple)) else [given]
    if not (isinstance(models, Mapping) or all(map(is_pair, pairs))):
        kinds = [kind_of(model) for model in pairs]
        for i, kind in enumerate(kinds):
            number = f" {kinds[: i + 1].count(kind)}" if kinds.count(kind) > 1 else ""
            pairs[i] = (kind + number, pairs[i])
    return [(name, as_fitted(model)) for name, model in pairs]


def kind_of(model: Model) -> str:
    """Return what a model without a name is called: its score column, function or class."""
    if isinstance(model, Scores) and len(model.column_list) == 1:
        return str(model.column_list[0])
    return getattr(model, "__name__", type(model).__name__)


def usable(estimators: Named, rows: Rows, *, weighted: bool) -> Named:
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
        title = f"estimators: {name!r}"
        if isinstance(model, str):
            model = named_learner(model, title)
        answers = callable(model) or hasattr(model, "predict_proba")
        if answers and not (hasattr(model, "fit") or isinstance(model, type)):
            model = GivenModel(model)
        is_frozen = isinstance(model, FrozenEstimator)
        given = model.estimator if is_frozen else model
        if isinstance(given, type):
            raise TypeError(f"{title} is a class; give an instance: {given.__name__}()")
        if type(given).__name__ != name:
            title += f" ({type(given).__name__})"
        if not hasattr(given, "fit" if is_frozen else "get_params"):
            raise TypeError(
                f"{title} is of type {type(given).__name__}, no classifier; tailboost.tune takes "
                "fitted models, tb.Scores('p', label) scores of the rows, and RobustMixtureClassifier."
                "from_probabilities({'model': P}, y) probabilities"
            )
        if hasattr(given, "__sklearn_tags__") and is_regressor(given):
            raise TypeError(
                f"{title} is a regressor; a classifier with predict_proba is needed"
            )
        if is_frozen and not hasattr(given, "classes_"):
            raise NotFittedError(
                f"{title} is not fitted: call its fit first, or give it to "
                "RobustMixtureClassifier"
            )
        if not hasattr(given, "predict_proba"):
            raise ValueError(
                f"{title} has no predict_proba; CalibratedClassifierCV gives it one, and a stated "
                "final_estimator to a StackingClassifier"
            )
        if isinstance(model, (Scores, GivenModel)):
            own = copy(model)  # the user's object stays unfitted
            model = FrozenEstimator(own.fit(rows.X, rows.labels))
        elif weighted and not is_frozen and weight_parameter(model) is None:
            raise ValueError(f"sample_weight, class_weight: {title} takes no weights in fit")
        found.append((name, model))
    return found


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
    return own, columns[place]


@frozen_object
class CrossFits:
    """The fits of models of which some were trained.

    Attributes
    ----------
    of_model : mapping of str to list of Fit
        Those of each model: without each part of the rows, and last the final one.
    fold : ndarray of int, shape (n,)
        The part of each row of the selection data; empty if these rows are no training rows.
    trained : ndarray of shape (k,)
        Hashes of the training rows.
    """

    of_model: Mapping[str, list[Fit]]
    fold: Ints
    trained: Hashes


# No model was trained.
UNTRAINED = CrossFits({}, np.zeros(0, dtype=np.intp), np.zeros(0, dtype=np.uint64))


def final_models(fits: Mapping[str, list[Fit]], n_classes: int) -> Models:
    """Return the models that answer: the last fit of each."""
    fitted, columns = zip(*(each[-1] for each in fits.values()), strict=True)
    return Models(list(fits), n_classes, list(fitted), list(columns))


# -- folds -----------------------------------------------------------------------------------------------


@frozen_object
class Split:
    """Parts of the training rows, held out one after the other while models are fitted on other rows."""

    fold: Ints  # shape (n,): number of the part in which a row is held out; −1: never held out
    scheme: Any  # "cv", "splits", or the held-out fraction
    fitted: Sequence[Mask] = ()  # for each part, the fitted rows while this part is held out

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
        units = rows.X
        if rows.clusters is not None:
            units = rows.clusters[:, None]
        stratum = crossed([*rows.groups.T, rows.y], len(rows))
        places = stratified_places(hash_rows(units, seed), stratum, rows.weight)
        n_distinct = int(places.max()) + 1
        size: Any = cv  # number of folds, or fraction to hold out
        if cv == "auto":
            size = N_FOLDS if n_distinct <= FIVE_FOLDS_UP_TO else FEW_FOLDS
            least = np.bincount(stratum).min()
            if n_distinct > CROSS_FIT_UP_TO and least * HELD_OUT >= LEAST_HELD_OUT:
                size = HELD_OUT
        if size >= 2:
            scheme: Any = "cv"
            fold = places % min(int(size), n_distinct)
        else:  # every (1/fraction)-th place is held out
            scheme = size
            fold = np.where(np.floor((places + 1) * size) > np.floor(places * size), 0, -1)
        fitted = [fold != j for j in range(fold.max() + 1)]
        if not fitted or not fitted[0].any():
            raise ValueError(
                f"cv={cv!r}: of {n_distinct:,} distinct rows all or none would be "
                "validation rows; use folds, another fraction or more rows"
            )
        return cls(fold, scheme, fitted)

    @classmethod
    def from_splits(cls, rows: Rows, cv: Any) -> Self:
        """Return the parts of a splitter, or of an iterable of (fitted, held-out) row numbers.

        Raises
        ------
        ValueError
            If the rows cannot be split this way, or a cluster would be separated.
        """
        places = rows.places  # of the rows among those of the splits
        if hasattr(cv, "split"):  # a splitter gets the rows of positive weight
            cv = cv.split(rows.X, rows.y, rows.clusters)
            places = np.arange(len(rows))
        splits = list(cv)
        if not 1 <= len(splits) <= MOST_FOLDS:
            raise ValueError(
                f"cv makes {len(splits):,} splits; from 1 to {MOST_FOLDS} are possible"
            )
        numbers = np.arange(rows.n_given or len(rows))
        units = rows.clusters
        if units is None:
            units = np.arange(len(rows))
        fold = np.full(len(rows), -1)
        fitted = []
        for j, (train, test) in enumerate(splits):
            try:
                is_fitted = np.isin(places, numbers[np.asarray(train)])
                is_held_out = np.isin(places, numbers[np.asarray(test)])
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
        return cls(fold, "splits", fitted)

    def selection_rows(self, rows: Rows) -> Rows:
        """Return the selection data: the held-out rows among the training rows.

        Models fitted without them are fitted again on all rows.
        """
        held_out = rows.part(self.fold >= 0)
        words = f"the {len(held_out):,} held-out rows"
        if isinstance(self.scheme, str):
            of_rows = f"{len(held_out):,} of {rows.words}"
            if len(held_out) == len(rows):
                of_rows = rows.words
            words = f"out-of-fold probabilities of {of_rows} ({len(self.fitted)} folds)"
        return replace(held_out, words=words, refit=True)


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
) -> CrossFits:
    """Return the `Fit`s of each estimator: one without each part of a split, and the final model.

    The learners of tailboost share one prepared table. The final model is fitted on all rows. An estimator
    without all its fits at Ctrl-C is left out.

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
    trained = hash_rows(training.X, rounded=True)  # before a model changes them
    if class_weight is not None:
        factors = class_factors(class_weight, training)
        training = replace(training, weight=training.weight * factors[training.y])
    numbers = class_numbers(training.classes)
    learners = {
        name: clone(in_class_numbers(estimator, numbers)) for name, estimator in estimators
    }
    for learner in learners.values():
        set_seeds(learner, seed, also_stated=False)
    of_tables = [name for name in learners if isinstance(learners[name], TableLearner)]
    parts = [*split.fitted, np.ones(len(training), dtype=bool)]  # the last is on all rows
    tasks = list(product([name for name in learners if name not in of_tables], parts))
    fits: dict[str, list[Fit]] = {name: [] for name in learners}
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
    finished = {name: fits[name] for name in fits if len(fits[name]) == len(parts)}
    return CrossFits(finished, split.fold[split.fold >= 0], trained)


def _fit_alone(training: Rows, weighted: bool, name: str, estimator: Model, rows: Mask) -> Fit:
    """Return an estimator fitted on some rows, with the class number of each column of its probabilities.

    Messages call it ``name``. With ``weighted``, ``fit`` gets the weights of the rows.
    """
    present_classes, y = np.unique(training.y[rows], return_inverse=True)
    n_classes = len(training.classes)
    if len(present_classes) == 1:  # many classifiers refuse a single class
        return constant(int(present_classes[0]), n_classes), np.arange(n_classes)
    model = of_present(estimator, present_classes, n_classes)
    weights = {}
    if weighted:
        weights[str(weight_parameter(model))] = training.weight[rows]
    X = training.X
    if not rows.all():  # a copy of all rows may be large
        X = take(X, rows)
    with _named(name, model):
        model.fit(X, y, **weights)
    return model, present_classes[np.asarray(model.classes_, dtype=np.intp)]


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
        (session.fit(training.weight, seed, rows), columns) for rows in (*split.fitted, None)
    ]


def answering(models: Models, rows: Rows, fits: CrossFits = UNTRAINED) -> Models:
    """Return models with their log-probabilities of selection data.

    A row of a part that was held out is answered by the fit without this part, if the model has such fits;
    otherwise the model itself answers.
    """
    if models.of_scores:  # rows with equal scores are different rows
        rows = replace(rows, row_hashes=None)
    of_parts = {name: parts for name, (*parts, _) in fits.of_model.items() if parts}
    table: Any = None
    if len(of_parts) < len(models.names):
        table = models.transform(rows.X)
    logs = []
    for i, name in enumerate(models.names):
        if name not in of_parts:
            logs.append(table.logs(i))
            continue
        held_out = np.zeros((len(rows), models.n_classes))
        for j, fit in enumerate(of_parts[name]):  # each predicts the rows held out
            part = fits.fold == j
            held_out[part] = logs_of(models.probabilities(take(rows.X, part), i, fit))
        # Models of other folds differ far more than by this step. Zeros behind make files smaller.
        logs.append(np.rint(held_out / LOG_STEP) * LOG_STEP)
    return models.on(logs, rows, None if of_parts else table.scores)


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


def class_factors(class_weight: Stated, training: Rows) -> Floats:
    """Return the factor of each class, shape (K,), by a dict of labels or "balanced".

    "balanced" divides the total of the sample weights by K times the total of each class: a row of weight 2
    counts as two rows.
    """
    n_classes = len(training.classes)
    if isinstance(class_weight, str):
        totals = np.bincount(training.y, training.weight)
        return training.weight.sum() / (n_classes * totals)
    # compute_class_weight of scikit-learn 1.9 would convert labels such as "5" to numbers.
    title = f"class_weight={class_weight!r}"
    stated = by_class_number(class_weight, class_numbers(training.classes), title)
    factors = np.array([stated.get(k, 1.0) for k in range(n_classes)], dtype=np.float64)
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
        # Fits know whole tables.
        given = Seen.of(hash_rows(rows.X, rounded=True) if models.reads_scores else hashes)
        repeated = first_repeated(given, known, "copies")
        if repeated is not None:
            share = f"{100 * given.share_in(repeated):.3g}%"
            words = f"{rows.words}, {share} of which equal training rows"
            warn_user(
                f"{words}, where models have smaller errors than on fresh rows: give rows that "
                "were not given to fit (if features take so few values that fresh rows equal "
                "training rows, ignore this warning)",
                ResubstitutionWarning,
            )
            models = replace(models, rows=replace(rows, words=words, fitted=True))
    return models, Seen.of(hashes, SELECTED_ON, rows.labels, models.score_labels(rows.classes))
