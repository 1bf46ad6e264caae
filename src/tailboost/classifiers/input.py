"""Checks of parameters and of the arguments of `fit`, and the training set."""

from __future__ import annotations

import inspect
from collections import ChainMap, Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import wraps
from numbers import Integral, Real
from typing import Any, TypeVar, dataclass_transform

import numpy as np
from numpy.typing import NDArray
from sklearn.base import is_regressor
from sklearn.frozen import FrozenEstimator
from sklearn.pipeline import Pipeline
from sklearn.utils import InputTags, get_tags
from sklearn.utils._param_validation import HasMethods, Interval
from sklearn.utils.validation import validate_data

from tailboost.core.array_types import Column, Floats, Ints, Model, Table
from tailboost.core.checks import (
    OneOf,
    as_pandas,
    check_labels,
    check_row_shape,
    label_vector,
    n_rows_of,
    positions,
    refuse_frame,
    refuse_missing,
    refuse_swapped,
    refuse_texts,
    row_weights,
    summed,
    take,
    unboxed,
    unpack,
)
from tailboost.core.exceptions import ResubstitutionWarning
from tailboost.core.spelling import did_you_mean, listed
from tailboost.core.warn import warn_user
from tailboost.learners.foreign import FOR_FITTED, is_skorch, weight_parameter
from tailboost.rates.strata import plain
from tailboost.rows.fingerprints import (
    Fingerprint,
    copies_of,
    hash_rounded_rows,
    hash_rows,
    tiny_hashes,
    too_many,
)
from tailboost.rows.given import Given
from tailboost.rows.group_names import GroupNames
from tailboost.rows.readers import counts_within
from tailboost.rows.rows import N_TINY_HASHES, Rows
from tailboost.rows.rules import refuse
from tailboost.rows.schema import learn_columns, read_columns
from tailboost.rows.subgroups import revealing_features
from tailboost.rows.training_set import TrainingSet
from tailboost.solvers.worst_case import BALLS


def read_unlabeled(
    classifier: Model, given: Given, labelled: Sequence[Any]
) -> tuple[Any, Rows]:
    """Return the checked table and rows without labels, of class number K, without copies of the others.

    Parameters
    ----------
    classifier : classifier
        The classifier, with its columns and groups.
    given : Given
        The arguments.
    labelled : sequence of tables
        All rows with labels. If chance does not explain how many of them are among the rows without labels,
        each removes one equal row.
    """
    try:
        X = checked_table(classifier, classifier, given.X_unlabeled)
    except (TypeError, ValueError) as error:
        raise type(error)(f"X_unlabeled: {error}") from error
    hashes = hash_rounded_rows(X)
    known = np.concatenate([hash_rounded_rows(table) for table in labelled])
    kept = np.flatnonzero(~copies_of(known, hashes))
    if not len(kept):
        raise ValueError("X_unlabeled: all of these rows are among the rows with labels")
    groups = None
    if given.groups_unlabeled is not None:
        names = classifier._group_names
        numbers = names.numbers_of(given.groups_unlabeled, "groups_unlabeled", n_rows_of(X))
        groups = numbers[kept]
    number = np.unique(hashes[kept], return_inverse=True)[1] % N_TINY_HASHES
    y = np.full(len(kept), len(classifier.classes_))
    words = f"the {len(kept):,} rows without labels"
    return take(X, kept), Rows(y, np.ones(len(kept)), groups, words, number.astype(np.uint16))


def refuse_validation(given: Given, validation: Given, cv: object) -> None:
    """Raise if held-out rows are incomplete, have other arguments than the rows, or a given ``cv``."""
    facts = []
    told = {"cv": cv}
    if validation.any_given:
        facts.append("validation")
        names = ("X_val", "y_val", "groups_val", "sample_weight_val")
        arguments = validation.arguments("_val")
        told["alone"] = ", ".join(name for name in names if arguments[name] is not None)
        if cv != "auto":
            facts.append("cv")
        if validation.X is not None and n_rows_of(validation.X) == 0:
            facts.append("X_val without rows")
    refuse(
        *facts,
        told=told,
        groups=given.groups,
        clusters=given.clusters,
        **validation.arguments("_val"),
    )


def input_tags(learner: Model) -> InputTags:
    """Return the input tags of a learner; for a pipeline, the tags of its first transformer."""
    tags = get_tags(learner).input_tags
    tags.three_d_array |= is_skorch(learner)  # skorch's nets accept images without a tag
    if isinstance(learner, Pipeline):
        first = get_tags(
            next(step for _, step in learner.steps if step != "passthrough")
        ).input_tags
        tags.allow_nan = first.allow_nan
        tags.categorical = first.categorical
        tags.string = first.string
    return tags


def refuse_learner(
    estimator: Model, learner: Model, *, regressors_allowed: bool = False
) -> None:
    """Raise an error if the base learner is a class, frozen, or an unsuitable regressor.

    ``estimator`` is the parameter as given, ``learner`` the estimator itself.
    """
    if isinstance(estimator, type):
        raise TypeError(f"estimator={estimator!r} is a class; an estimator instance is needed")
    if isinstance(learner, Pipeline):
        final = learner.steps[-1][1]
    else:
        final = learner
    if not hasattr(final, "__sklearn_tags__"):
        raise TypeError(
            f"estimator={estimator!r} is no estimator of scikit-learn: let its class inherit "
            "from sklearn.base.ClassifierMixin and sklearn.base.BaseEstimator, in this order"
        )
    if isinstance(final, FrozenEstimator):
        raise ValueError(
            f"estimator={estimator!r} is frozen, but every round fits the learner. For fitted "
            f"models: {FOR_FITTED}"
        )
    if is_regressor(learner) and not regressors_allowed:
        raise ValueError(f"estimator={estimator!r} is a regressor; a classifier is needed")
    if isinstance(learner, Pipeline):
        steps = learner.steps
    else:
        steps = []
    sampler = next((name for name, step in steps if hasattr(step, "fit_resample")), None)
    if sampler is not None and weight_parameter(learner) is not None:
        raise ValueError(
            f"estimator={estimator!r}: step {sampler!r} drops or adds rows, so boosting's "
            "weights do not fit the rows; put the boosting classifier at the end of the "
            "pipeline, or use class_weight"
        )


def checked_table(classifier: Model, learner: Model, X: Table, y: Column = None) -> Any:
    """Return a checked table; with ``y``, the training table, the labels and the schema of its columns."""
    reset = y is not None
    given: dict[str, Any] = {} if y is None else {"y": unboxed(y)}
    refuse_swapped(X, y)
    refuse_texts(X)
    X, _ = unpack(X)
    X = as_pandas(X)  # learners read pandas' data frames
    check_row_shape(classifier, X, reset)
    if hasattr(X, "iloc"):  # the learner checks the columns of data frames
        refuse_frame(X)
        checked = validate_data(classifier, X, reset=reset, skip_check_array=True, **given)
        if reset:
            schema, X = learn_columns(X)
            return X, checked[1], schema
        fitted = getattr(classifier, "_table_schema", None)
        if fitted is None:
            return X
        return read_columns(X, fitted)
    tags = input_tags(learner)
    try:
        checked = validate_data(
            classifier,
            summed(X),
            reset=reset,
            accept_sparse=["csr", "csc"] if tags.sparse else False,
            ensure_all_finite="allow-nan" if tags.allow_nan else True,
            dtype=None if tags.categorical or tags.string else "numeric",
            allow_nd=tags.three_d_array,
            **given,
        )
    except ValueError as failure:
        names = getattr(classifier, "feature_names_in_", None)
        if reset or names is None:
            raise
        raise ValueError(
            f"{failure}: X is an array; give a data frame with the columns of fit, {listed(names.tolist())}"
        ) from failure
    if reset:
        return (*checked, None)
    return checked


def labels_of(y: Column, name: str = "y") -> NDArray[Any]:
    """Return a column of labels; raise an error for missing labels."""
    refuse_missing(y, name)
    return label_vector(y, warn=True)


def class_factors(class_weight: Any, classes: NDArray[Any], y: Ints, weight: Floats) -> Floats:
    """Return the factor of each class. "balanced" uses weights, so that weight 2 counts the row twice."""
    if class_weight is None:
        return np.ones(len(classes))
    if isinstance(class_weight, str):
        total = np.bincount(y, weights=weight, minlength=len(classes))
        return weight.sum() / (len(classes) * total)
    # compute_class_weight of scikit-learn 1.9 would convert labels such as "5" to numbers.
    labels = classes.tolist()
    class_weight = {plain(label): value for label, value in class_weight.items()}
    stray = [label for label in class_weight if label not in labels]
    if stray and any(label not in class_weight for label in labels):
        raise ValueError(
            f"class_weight={class_weight!r}: y has no class {stray[0]!r}, its classes are {labels}"
        )
    factors: Floats = np.array(
        [class_weight.get(label, 1.0) for label in labels], dtype=np.float64
    )
    if not np.all((factors > 0) & np.isfinite(factors)):
        raise ValueError(
            f"class_weight={class_weight!r}: factors must be positive; to leave out a class, drop its rows"
        )
    return factors


def selection_data(
    classifier: Model, X: Table, given: Given, suffix: str, words: str
) -> tuple[Any, Rows]:
    """Return selection data: the rows of positive weight of a table, and their labels, weights and groups.

    Parameters
    ----------
    classifier : classifier
        The classifier, with its classes and groups.
    X : table of n rows
        The checked rows.
    given : Given
        The arguments.
    suffix : str
        Suffix of the argument names, for messages.
    words : str
        Name of the rows, with a format field for their number.
    """
    y = labels_of(given.y, f"y{suffix}")
    n = n_rows_of(X)
    if len(y) != n:
        raise ValueError(f"y{suffix} has {len(y)} labels, X{suffix} has {n} rows")
    weight = row_weights(given.sample_weight, n, f"sample_weight{suffix}")
    used = weight > 0
    index = positions(y[used], classifier.classes_, f"y{suffix}")
    numbers = None
    if given.groups is not None:
        numbers = classifier._group_names.numbers_of(given.groups, f"groups{suffix}", n, used)
    X = take(X, used)
    words = words.format(n_rows_of(X))
    place = None
    if not used.all():
        place = np.flatnonzero(used)
    hashes = tiny_hashes(hash_rows(X))
    return X, Rows(index, weight[used], numbers, words, hashes, n_given=n, used=place)


def regroup(classifier: Model, names: GroupNames) -> None:
    """Give a classifier the groups of other rows than the training rows.

    Features revealing the training groups are kept if all columns of groups have the same names and
    values. Groups of an array have no name, so the features that reveal them are unknown.
    """
    same = names.columns is not None and np.array_equal(
        getattr(classifier, "groups_", ()), names.names
    )
    if same:
        features = dict(getattr(classifier, "group_features_", ()))
    else:
        features = {}
    _set_groups(
        classifier, names, [features.get(column) for column in names.columns or (None,)]
    )


def _set_groups(classifier: Model, names: GroupNames, revealing: Iterable[Any]) -> None:
    """Give a classifier groups, with the features revealing each column of groups."""
    classifier._group_names = names
    classifier.groups_ = names.names
    classifier.group_combinations_ = names.combinations
    classifier.group_features_ = tuple(zip(names.columns or (None,), revealing, strict=True))


def read_training_set(
    classifier: Model, learner: Model, rows: Given, class_weight: object
) -> TrainingSet:
    """Return the checked training set, and give the classifier the attributes that follow from it.

    These are ``classes_``, the schema of the columns and, with groups, their names and the features that
    reveal them.
    """
    y = rows.y
    groups = rows.groups
    if y is None:
        raise ValueError(
            f"{type(classifier).__name__} requires y to be passed, but the target y is None"
        )
    refuse_missing(y, "y")
    X, y, schema = checked_table(classifier, learner, rows.X, y)
    y = label_vector(y, warn=True)
    check_labels(y)
    if len(y) != n_rows_of(X):
        raise ValueError(f"y has {len(y)} labels, X has {n_rows_of(X)} rows")
    weight = row_weights(rows.sample_weight, len(y))
    used = weight > 0
    classes, index = np.unique(y[used], return_inverse=True)
    if len(classes) < 2:
        raise ValueError(
            f"y holds one class only ({classes.tolist()[0]!r}) among the rows of positive "
            "weight; a classifier needs at least two classes"
        )
    weight = weight[used]
    weight = weight * class_factors(class_weight, classes, index, weight)[index]
    if used.all():
        table = X
    else:
        table = take(X, used)
    group_numbers = None
    classifier.classes_ = classes
    classifier._table_schema = schema
    if groups is not None:
        names = GroupNames.of(groups, "groups", len(y), used)
        group_numbers = names.numbers_of(groups, "groups", len(y), used)
        _set_groups(classifier, names, revealing_features(table, group_numbers))
    return TrainingSet(
        table, index, weight, group_numbers, len(classes), np.flatnonzero(used), len(y), None
    )


# -- rows used before --------------------------------------------------------------------------------------


def noting_seen(seen: Fingerprint, X: Table, rows: Rows, instead: str = "") -> Rows:
    """Return selection data; if they contain training rows, warn and mark them.

    ``seen`` are the fingerprints of the training rows, ``instead`` the default selection data.
    """
    known, compared = seen.count(hash_rounded_rows(X))
    if not too_many(known, compared):
        return rows
    return _fitted_on(known / compared, "training rows", rows, instead)


def noting_frozen(estimator: Model, X: Table, rows: Rows) -> Rows:
    """Return selection data; if they contain rows of frozen models, warn and mark them."""
    counts = counts_within(estimator, X).tolist()
    shares = [repeated / sampled for repeated, sampled in counts if too_many(repeated, sampled)]
    if shares:
        return _fitted_on(max(shares), "rows of the fit of a frozen model", rows)
    return rows


def noting_fitted(
    rows: Rows,
    features: Table,
    models: list[Any],
    X_unlabeled: Table,
    training_rows: Fingerprint | None,
) -> Rows:
    """Return selection data that know whether a model was fitted on them or on the rows without labels."""
    if models:
        rows = noting_frozen(models, features, rows)
        if X_unlabeled is not None:
            more = replace(rows, words=f"the {n_rows_of(X_unlabeled):,} rows of X_unlabeled")
            fitted = noting_frozen(models, X_unlabeled, more).fitted
            rows = replace(rows, fitted=rows.fitted or fitted)
    if training_rows is None:
        return rows
    return noting_seen(training_rows, features, rows)


def _fitted_on(share: float, training_rows: str, rows: Rows, instead: str = "") -> Rows:
    if instead:
        default = f", or leave X and y out for {instead}"
    else:
        default = ""
    warn_user(
        f"{share:.0%} of {rows.words} equal {training_rows}, and models have smaller errors "
        f"there than on fresh rows: give rows that were not given to fit{default} (if features "
        "take so few values that fresh rows equal training rows, ignore this warning)",
        ResubstitutionWarning,
    )
    return replace(
        rows, words=f"{rows.words}, {share:.0%} of which equal {training_rows}", fitted=True
    )


# -- Allowed values of parameters ----------------------------------------------------------------------------

_COUNT = Interval(Integral, 1, None, closed="left")
_SHARE = Interval(Real, 0, 1, closed="neither")
_POSITIVE = Interval(Real, 0, None, closed="neither")
# Numbers of folds. A byte stores the fold of a row.
FOLDS = Interval(Integral, 2, 255, closed="both")
# Allowed values of each parameter. A class overrides the entries in which it differs.
CONSTRAINTS: dict[str, list[Any]] = {
    "estimator": [HasMethods(["fit", "predict"]), str, None],
    "n_estimators": [_COUNT],
    "alpha": [Interval(Real, 0, 1, closed="right")],
    "combine": [OneOf("mixture", "average")],
    "eta": [_POSITIVE, OneOf("theory")],
    "beta": [_POSITIVE, OneOf("theory")],
    "delta": [_SHARE],
    "gamma": [Interval(Real, 0, 0.5, closed="right"), OneOf("auto")],
    "q": [Interval(Real, 0, 1, closed="right")],
    "class_loss": [OneOf("auto", "indicator", "error")],
    "subgroups": [OneOf("auto", "class", "group", "cell")],
    "max_error": [Interval(Real, 0, 1, closed="right"), dict, OneOf("auto")],
    "until_met": ["boolean"],
    "randomized": ["boolean"],
    "error_budget": [Interval(Real, 0, 1, closed="both"), None],
    "min_subgroup_rows": [_COUNT],
    "shrinkage": [Interval(Real, 0, None, closed="left")],
    "radius": [Interval(Real, 0, None, closed="left"), OneOf("auto")],
    "confidence": [_SHARE],
    "effective_dim": [_COUNT, OneOf("auto")],
    "uncertainty": [OneOf(*BALLS)],
    "smoothing": [Interval(Real, 0, None, closed="left")],
    "variance_weight": [Interval(Real, 0, None, closed="left")],
    "stumps": ["boolean"],
    "refit": [OneOf("linear", "quadratic"), None],
    "C": [_POSITIVE, None],
    "learning_rate": [Interval(Real, 0, 1, closed="right")],
    "cv": [
        _SHARE,
        FOLDS,
        OneOf("auto", "train"),
        HasMethods(["split", "get_n_splits"]),
        list,
        tuple,
        Iterator,
    ],
    "include_constants": ["boolean"],
    "outlier_fraction": [Interval(Real, 0, 1, closed="left")],
    "class_weight": [dict, OneOf("balanced"), None],
    "exact_weights": ["boolean"],
    "n_iter_no_change": [_COUNT, None],
    "tol": [Interval(Real, 0, None, closed="left")],
    "max_time": [_POSITIVE, None],
    "checkpoint_dir": [str, HasMethods(["__fspath__"]), None],
    "n_jobs": [Integral, None],
    "random_state": ["random_state"],
    "verbose": ["verbose"],
}

# Numbers of rounds of a classifier with a theorem about them.
ROUNDS_OR_AUTO = [_COUNT, OneOf("auto")]

C = TypeVar("C", bound=type)

# Names in other classifiers of tailboost or in other projects, with the parameters of the same meaning.
_SAME_MEANING = {
    "objective": ("subgroups",),
    "subgroups": ("objective",),
    "units": ("subgroups",),
    "validation": ("cv",),
    "theta": ("max_error",),
    "mean_error": ("error_budget",),
    "budget": ("error_budget",),
    "base_estimator": ("estimator", "estimators"),
    "estimator": ("estimators",),
    "estimators": ("estimator",),
    "seed": ("random_state",),
}


def with_suggestions(init: Callable[..., None]) -> Callable[..., None]:
    """Return a constructor whose error for an unknown parameter names similar parameters (a decorator)."""
    known = list(inspect.signature(init).parameters)[1:]

    @wraps(init)
    def checked(self: Any, *args: object, **params: object) -> None:
        for name in params:
            if name not in known:
                same = [other for other in _SAME_MEANING.get(name, ()) if other in known]
                if same:
                    hint = f"here it is {same[0]}=; "
                elif name == "limits":
                    hint = "tailboost.tune(model, X, y, limits=…) keeps limits with this model, once fitted; "
                else:
                    hint = did_you_mean(name, known)
                raise TypeError(
                    f"{type(self).__name__} has no parameter {name!r}; {hint}parameters are "
                    f"{', '.join(known)}"
                )
        init(self, *args, **params)

    return checked


@dataclass_transform(eq_default=False, kw_only_default=True, field_specifiers=(field,))
def with_parameters(cls: C) -> C:
    """Give a classifier the constructor of its annotated parameters (a decorator).

    Parameters are keyword-only; inherited ones come last. A class declares those with another default.
    Likewise ``_parameter_constraints`` has the entries in which the class differs.
    """
    made: Any = dataclass(eq=False, repr=False, kw_only=True)(cls)
    signature = inspect.signature(made.__init__)
    inherited = Counter(
        name for base in made.__mro__ for name in vars(base).get("__dataclass_fields__", ())
    )
    order = sorted(signature.parameters.values(), key=lambda p: (p.kind, inherited[p.name]))
    made.__init__.__signature__ = signature.replace(parameters=order)
    made.__init__ = with_suggestions(made.__init__)
    for parameter in fields(made):  # the default of an argument is none of the class
        if parameter.init and parameter.name in vars(made):
            delattr(made, parameter.name)
    stated = [vars(base).get("_parameter_constraints", {}) for base in made.__mro__]
    made._parameter_constraints = dict(ChainMap(*stated))
    return cls


@dataclass_transform(eq_default=False, kw_only_default=True, field_specifiers=(field,))
def preset(**fixed: Any) -> Callable[[C], C]:
    """Give a classifier the constructor of its parameters without those that it fixes (a decorator)."""

    def fixing(cls: C) -> C:
        for name, value in fixed.items():
            cls.__annotations__[name] = Any
            setattr(cls, name, field(init=False, repr=False, default=value))
        return with_parameters(cls)

    return fixing
