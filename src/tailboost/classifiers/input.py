"""Checks of parameters and of the arguments of `fit`, and the training set."""

from __future__ import annotations

from dataclasses import replace
from numbers import Integral
from typing import Any

import numpy as np
from scipy.sparse import issparse
from sklearn.pipeline import Pipeline
from sklearn.utils import InputTags, get_tags
from sklearn.utils._param_validation import Interval
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import validate_data

from tailboost.core.array_types import Array, Column, Floats, Ints, Labels, Model, Table
from tailboost.core.checks import (
    as_pandas,
    check_costs,
    check_table,
    distinct_and_places,
    label_column,
    n_rows_of,
    numbered_clusters,
    plain,
    positions,
    row_weights,
    summed,
    take,
    unpack,
)
from tailboost.core.exceptions import ResubstitutionWarning, warn_user
from tailboost.core.spelling import listed
from tailboost.rows.columns import Columns
from tailboost.rows.fingerprints import hash_rounded_rows, hash_rows
from tailboost.rows.given import Given
from tailboost.rows.readers import records_of_fit
from tailboost.rows.rows import MOST_FOLDS, Rows
from tailboost.rows.seen import Seen
from tailboost.rows.subgroups import GroupNames


def refuse_validation(arguments: Given, validation: Given, cv: object) -> None:
    """Raise ValueError if the validation set is incomplete, or comes with ``cv`` or clusters.

    A validation set needs groups if the training rows have groups.
    """
    names = ("X", "y", "groups", "sample_weight")
    stated = [f"{name}_val" for name in names if getattr(validation, name) is not None]
    if not stated:
        return
    if arguments.groups is None and validation.groups is not None:
        raise ValueError("groups_val was given without groups")
    if validation.X is None or validation.y is None:
        raise ValueError(
            f"{', '.join(stated)} given, but a validation set needs both X_val and y_val"
        )
    if arguments.groups is not None and validation.groups is None:
        raise ValueError("groups and X_val were given without groups_val")
    if cv != "auto":
        raise ValueError(f"cv={cv!r} and X_val were both given; use cv='auto'")
    if arguments.clusters is not None:
        raise ValueError("clusters and X_val were both given, but X_val is not split")
    if n_rows_of(validation.X) == 0:
        raise ValueError("X_val is empty: it needs at least one row")


def input_tags(learner: Model) -> InputTags:
    """Return the input tags of a learner; for a pipeline, the tags of its first transformer."""
    tags = get_tags(learner).input_tags
    if isinstance(learner, Pipeline):
        first_step = next(step for _, step in learner.steps if step != "passthrough")
        transformer_tags = get_tags(first_step).input_tags
        tags.allow_nan = transformer_tags.allow_nan
        tags.categorical = transformer_tags.categorical
        tags.string = transformer_tags.string
    return tags


def checked_table(classifier: Model, learner: Model, X: Table, argument: str = "X") -> Any:
    """Return a table in the form of the fit, of which it must have the columns.

    Parameters
    ----------
    classifier : classifier
        The fitted classifier.
    learner : estimator
        Its tags allow sparse matrices, missing values and images.
    X : table of n rows
        The rows.
    argument : str
        Their name in messages about absent and further columns.
    """
    X = _opened_table(X)
    names = getattr(classifier, "feature_names_in_", None)
    if hasattr(X, "iloc"):
        return _frame_as_in_fit(classifier, X, names, argument)
    if names is not None and len(names) == 1 and np.ndim(X) < 2:
        entries = "X" if np.ndim(X) else "[X]"
        raise _no_table(X, f"give pd.DataFrame({{{names[0]!r}: {entries}}})")
    try:
        return _validated_array(classifier, learner, X, reset=False)
    except ValueError as failure:
        if names is None or str(failure).startswith("X contains"):
            raise
        raise ValueError(
            f"{failure}: X is an array; give a data frame with the columns of fit, "
            f"{listed(names.tolist())}"
        ) from failure


def learned_table(
    classifier: Model, learner: Model, X: Table, y: Column
) -> tuple[Any, Any, Columns | None]:
    """Return the checked table of a fit, its labels, and its columns, None for an array.

    scikit-learn's attributes of the classifier are set.

    Parameters
    ----------
    classifier : classifier
        Gets scikit-learn's attributes of a fit.
    learner : estimator
        The model that reads the table.
    X, y : table of n rows, array-like of shape (n,)
        The rows of the fit as given.
    """
    X = _opened_table(X)
    if not hasattr(X, "iloc"):
        X, labels = _validated_array(classifier, learner, X, y=y)
        return X, labels, None
    check_table(X)
    _, labels = validate_data(classifier, X, y=y, skip_check_array=True)
    columns, X = Columns.of(X)
    return X, labels, columns


def _opened_table(X: Table) -> Any:
    """Return a table of rows that scikit-learn or pandas can read."""
    X, _ = unpack(X)
    X = as_pandas(X)  # learners read pandas' data frames
    return X


def _frame_as_in_fit(classifier: Model, frame: Any, names: Any, argument: str) -> Any:
    """Return a data frame with the columns of the fit, ``names``, in their order and with their kinds.

    The learner checks the values of data frames.
    """
    check_table(frame)
    if names is not None and {*frame.columns} == {*names}:
        frame = frame[list(names)]
    try:
        validate_data(classifier, frame, skip_check_array=True, reset=False)
    except ValueError as failure:
        if names is None:
            raise
        missing = [name for name in names if name not in frame]
        new = [name for name in frame if name not in names]
        words = (
            f"{argument} has columns that the fit did not have, {listed(new)}: drop them, as "
            f"by {argument}[classifier.feature_names_in_]"
        )
        if missing:
            words = (
                f"{argument} has no column {listed(missing)}; it has {listed([*frame.columns])}: "
                "give all columns of the fit"
            )
        if argument == "X":  # scikit-learn's tests of an estimator read its message
            words += f". {failure}"
        raise ValueError(words) from failure
    columns = getattr(classifier, "_columns", None)
    if columns is None:
        return frame
    return columns.read(frame)


def _validated_array(classifier: Model, learner: Model, X: Any, **options: Any) -> Any:
    """Return scikit-learn's `validate_data` of an array, with what the tags of ``learner`` allow."""
    if not issparse(X) and np.asarray(X).ndim < 2:
        raise _no_table(X, "Reshape your data to a 2D array, as by np.reshape(X, (-1, 1))")
    tags = input_tags(learner)
    if tags.sparse:
        options["accept_sparse"] = ["csr", "csc"]
    if tags.allow_nan:
        options["ensure_all_finite"] = "allow-nan"
    if tags.categorical or tags.string:
        options["dtype"] = None  # any type
    return validate_data(classifier, summed(X), allow_nd=tags.three_d_array, **options)


def _no_table(X: Any, cure: str) -> ValueError:
    """Return the error for one value or one column in the place of a table."""
    given = f"one column of {len(X)} values" if np.ndim(X) else "one value"
    return ValueError(f"X is {given}, where a table is needed: {cure}")


def class_factors(class_weight: Any, classes: Array, y: Ints, weight: Floats) -> Floats:
    """Return the factor of each class, shape (K,).

    "balanced" divides the total of the sample weights by K times the total of each class: a row of weight 2
    counts as two rows.

    Parameters
    ----------
    class_weight : None, "balanced" or dict of label to float
        The parameter of a classifier.
    classes : ndarray of shape (K,)
        The labels.
    y : ndarray of int, shape (n,)
        Class numbers.
    weight : ndarray of shape (n,)
        Sample weights.
    """
    if class_weight is None:
        return np.ones(len(classes))
    if isinstance(class_weight, str):
        total_of_class = np.bincount(y, weights=weight, minlength=len(classes))
        return weight.sum() / (len(classes) * total_of_class)
    # compute_class_weight of scikit-learn 1.9 would convert labels such as "5" to numbers.
    labels = classes.tolist()
    class_weight = {plain(label): value for label, value in class_weight.items()}
    unknown = [label for label in class_weight if label not in labels]
    has_all_labels = all(label in class_weight for label in labels)
    if unknown and not has_all_labels:  # perhaps a misspelt label; otherwise an absent class
        raise ValueError(
            f"class_weight={class_weight!r}: y has no class {unknown[0]!r}, its classes are "
            f"{labels}"
        )
    stated = [class_weight.get(label, 1.0) for label in labels]
    factors = np.array(stated, dtype=np.float64)
    if not np.all((factors > 0) & np.isfinite(factors)):
        raise ValueError(
            f"class_weight={class_weight!r}: factors must be positive; to leave out a class, "
            "drop its rows"
        )
    return factors


def selection_data(classifier: Model, X: Table, arguments: Given, words: str) -> Rows:
    """Return selection data: the rows of positive weight of a table.

    Parameters
    ----------
    classifier : classifier
        The classifier, with its classes and groups.
    X : table of n rows
        The checked rows.
    arguments : Given
        The arguments.
    words : str
        Name of the rows, with a format field for their number.
    """
    suffix = arguments.suffix
    y = label_column(arguments.y, f"y{suffix}", warn=True)
    n = n_rows_of(X)
    if len(y) != n:
        raise ValueError(f"y{suffix} has {len(y)} labels, X{suffix} has {n} rows")
    weight = row_weights(arguments.sample_weight, n, f"sample_weight{suffix}")
    used = weight > 0
    class_numbers = positions(y[used], classifier.classes_, f"y{suffix}")
    groups = None
    if arguments.groups is not None:
        groups = classifier._group_names.numbers_of(
            arguments.groups, f"groups{suffix}", n, used
        )
    X = take(X, used)
    numbers = np.flatnonzero(used)
    return Rows(
        class_numbers,
        weight[used],
        groups,
        words.format(len(numbers)),
        hash_rows(X),
        n_given=n,
        used=None if used.all() else numbers,
        X=X,
        costs=check_costs(arguments.costs, n, classifier.classes_, numbers, f"costs{suffix}"),
    )


def read_training_set(classifier: Model, learner: Model, rows: Given) -> Rows:
    """Return the checked training rows, and set the classifier's attributes from the training set.

    These are ``classes_``, its columns and, with groups, their names and the revealing
    features. Rows of weight 0 are left out.

    Raises
    ------
    ValueError
        If labels are missing or have another length than X, or if the rows of positive weight have one class.
    """
    X, y, columns = _labelled_table(classifier, learner, rows)
    n = len(y)
    weight = row_weights(rows.sample_weight, n)
    used = weight > 0
    classes, class_numbers = distinct_and_places(y[used])
    if len(classes) < 2:
        raise ValueError(
            f"y holds one class only ({classes.tolist()[0]!r}) among the rows of positive "
            "weight; a classifier needs at least two classes"
        )
    if not used.all():
        X = take(X, used)

    classifier.classes_ = classes
    classifier._columns = columns
    group_numbers = None
    if rows.groups is not None:
        names = GroupNames.from_groups(rows.groups, n, used)
        group_numbers = names.numbers_of(rows.groups, "groups", n, used)
        classifier._name_groups(names)
    numbers = np.flatnonzero(used)
    clusters = numbered_clusters(rows.clusters, n)
    words = f"the {len(numbers):,} training rows"
    hashes = hash_rows(X)
    if clusters is not None:
        clusters = clusters[used]
        n_clusters = len(np.unique(clusters))
        if n_clusters == 1:
            raise ValueError(
                "clusters has one value only: none of its rows can be held out without the others"
            )
        words += f" of {n_clusters:,} clusters"
        hashes = hash_rows(clusters[:, None])
    return Rows(
        class_numbers,
        weight[used],
        group_numbers,
        words,
        hashes,
        n_given=n,
        used=None if used.all() else numbers,
        X=X,
        clusters=clusters,
        costs=check_costs(rows.costs, n, classes, numbers),
    )


def _labelled_table(
    classifier: Model, learner: Model, rows: Given
) -> tuple[Table, Labels, Any]:
    """Return the table of a fit and its labels, both checked, and the columns of the table.

    Parameters
    ----------
    classifier : classifier
        Gets scikit-learn's attributes of a fit.
    learner : estimator
        The model that reads the table.
    rows : Given
        The rows of the fit as given.
    """
    y = rows.y
    if y is None:
        raise ValueError(
            f"{type(classifier).__name__} requires y to be passed, but the target y is None"
        )
    y = label_column(y, "y", warn=True)
    X, y, columns = learned_table(classifier, learner, rows.X, y)
    check_classification_targets(y)
    if len(y) != n_rows_of(X):
        raise ValueError(f"y has {len(y)} labels, X has {n_rows_of(X)} rows")
    return X, y, columns


# -- rows used before --------------------------------------------------------------------------------------


def marked_if_seen(known: Seen | None, rows: Rows, default_data: str = "") -> Rows:
    """Return selection data; if they contain known training rows, warn and mark them as fitted.

    As a cure, the warning names ``default_data``: the selection data of a call without X and y.
    """
    given = Seen.of(hash_rounded_rows(rows.X))
    if known is None or known.of_scores or not given.repeats(known):
        return rows
    return _warned_and_marked(given.share_in(known), "training rows", rows, default_data)


def marked_if_frozen(estimator: Model, rows: Rows) -> Rows:
    """Return selection data; if they contain rows of frozen models, warn and mark them as fitted.

    ``estimator`` is a classifier or a list of them, some of them with records of their fits.
    """
    for known in records_of_fit(estimator, None).used:
        marked = marked_if_seen(known, rows)
        if marked.fitted:
            return marked
    return rows


def _warned_and_marked(
    share: float, training_rows: str, rows: Rows, default_data: str = ""
) -> Rows:
    """Warn of selection data with a share of training rows; return the selection data, marked as fitted.

    ``training_rows`` is the printed name of the equal training rows, ``default_data`` the printed name of the
    selection data of a call without X and y.
    """
    second_cure = ""
    if default_data:
        second_cure = f", or leave X and y out for {default_data}"
    warn_user(
        f"{share:.0%} of {rows.words} equal {training_rows}, and models have smaller errors "
        f"there than on fresh rows: give rows that were not given to fit{second_cure} (if "
        "features take so few values that fresh rows equal training rows, ignore this "
        "warning)",
        ResubstitutionWarning,
    )
    words = f"{rows.words}, {share:.0%} of which equal {training_rows}"
    return replace(rows, words=words, fitted=True)


# -- Allowed values of parameters ----------------------------------------------------------------------------

NUMBERS_OF_FOLDS = Interval(Integral, 2, MOST_FOLDS, closed="both")
