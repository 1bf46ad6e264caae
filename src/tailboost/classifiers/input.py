"""The rows of a fit and of a selection: tables as scikit-learn checks them, labels, weights and groups."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.utils import get_tags
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import validate_data

from tailboost.core.array_types import Array, Floats, Ints, Model, Table
from tailboost.core.checks import (
    as_pandas,
    check_costs,
    check_table,
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
from tailboost.rows.rows import Rows
from tailboost.rows.seen import Seen
from tailboost.rows.subgroups import GroupNames


def refuse_validation(
    given: Given, validation: Given, names: Sequence[str], cv: object
) -> None:
    """Raise ValueError if a validation set is incomplete, or comes with ``cv`` or clusters.

    It needs groups if the training rows have groups. ``names`` are those of its given arguments.
    """
    if given.groups is None and validation.groups is not None:
        raise ValueError("groups_val was given without groups")
    if validation.X is None or validation.y is None:
        raise ValueError(
            f"{'_val, '.join(names)}_val given, but a validation set needs both X_val and y_val"
        )
    if given.groups is not None and validation.groups is None:
        raise ValueError("groups and X_val were given without groups_val")
    if cv != "auto":
        raise ValueError(f"cv={cv!r} and X_val were both given; use cv='auto'")
    if given.clusters is not None:
        raise ValueError("clusters and X_val were both given, but X_val is not split")
    if n_rows_of(validation.X) == 0:
        raise ValueError("X_val is empty: it needs at least one row")


def training_rows(classifier: Model, given: Given) -> Rows:
    """Return the training rows of positive weight, and set what a classifier learns from them.

    These are ``classes_``, its columns and, with groups, their names.

    Raises
    ------
    ValueError
        If labels are missing or have another length than X, if the rows of positive weight have one class, or
        if all of them are in one cluster.
    """
    if given.y is None:
        raise ValueError(
            f"{type(classifier).__name__} requires y to be passed, but the target y is None"
        )
    X = as_pandas(given.X)
    classifier._columns = None
    if hasattr(X, "iloc"):
        check_table(X)
        validate_data(classifier, X, skip_check_array=True)
        classifier._columns, X = Columns.of(X)
    else:
        X = _validated_array(classifier, X)
    y = label_column(given.y, "y", warn=True)
    given = replace(given, y=y)
    check_classification_targets(y)
    used = row_weights(given.sample_weight, len(y)) > 0
    classifier.classes_ = np.unique(y[used])
    if len(classifier.classes_) < 2:
        raise ValueError(
            f"y holds one class only ({classifier.classes_.tolist()[0]!r}) among the rows of positive "
            "weight; a classifier needs at least two classes"
        )
    if given.groups is not None:
        classifier._name_groups(GroupNames.from_groups(given.groups, len(y), used))
    rows = selection_rows(classifier, X, given, "the {:,} training rows")
    if given.clusters is None:
        return rows
    clusters = take(numbered_clusters(given.clusters, len(y)), used)
    n_clusters = len(np.unique(clusters))
    if n_clusters == 1:
        raise ValueError(
            "clusters has one value only: none of its rows can be held out without the others"
        )
    return replace(
        rows,
        words=f"{rows.words} of {n_clusters:,} clusters",
        row_hashes=hash_rows(clusters[:, None]),
        clusters=clusters,
    )


def selection_rows(classifier: Model, X: Table, given: Given, words: str) -> Rows:
    """Return the rows of positive weight of a table.

    Parameters
    ----------
    classifier : classifier
        The classifier, with its classes and groups.
    X : table of n rows
        The checked rows.
    given : Given
        Their labels, weights, groups and costs.
    words : str
        Name of the rows, with a format field for their number.
    """
    suffix = given.suffix
    y = label_column(given.y, f"y{suffix}", warn=True)
    n = n_rows_of(X)
    if len(y) != n:
        raise ValueError(f"y{suffix} has {len(y)} labels, X{suffix} has {n} rows")
    weight = row_weights(given.sample_weight, n, f"sample_weight{suffix}")
    used = weight > 0
    numbers = np.flatnonzero(used)
    groups = None
    if given.groups is not None:
        names = classifier._group_names
        groups = names.numbers_of(given.groups, f"groups{suffix}", n, used)
    if len(numbers) < n:
        X = take(X, used)
    return Rows(
        positions(y[used], classifier.classes_, f"y{suffix}"),
        weight[used],
        groups,
        words.format(len(numbers)),
        hash_rows(X),
        n_given=n,
        used=None if used.all() else numbers,
        X=X,
        costs=check_costs(given.costs, n, classifier.classes_, numbers, f"costs{suffix}"),
    )


def checked_table(classifier: Model, X: Table, argument: str = "X") -> Any:
    """Return a table in the form of the fit, of which it must have the columns.

    ``argument`` is the name of the table in messages.
    """
    X, _ = unpack(X)
    X = as_pandas(X)
    names = list(getattr(classifier, "feature_names_in_", ()))
    needed = f"{argument} must be a pd.DataFrame with the columns {listed(names)} of the fit"
    if names and np.ndim(X) < 2:
        raise ValueError(f"{needed}, got {type(X).__name__}: {X!r:.80}")
    try:
        if not hasattr(X, "iloc"):
            return _validated_array(classifier, X, reset=False)
        check_table(X)
        if {*X.columns} == {*names}:
            X = X[names]
        validate_data(classifier, X, skip_check_array=True, reset=False)
    except ValueError as failure:
        if not names:
            raise
        raise ValueError(f"{needed}: {failure}") from failure
    return X if classifier._columns is None else classifier._columns.read(X)


def _validated_array(classifier: Model, X: Any, **options: Any) -> Any:
    """Return scikit-learn's `validate_data` of an array, with what the tags of the classifier allow."""
    tags = get_tags(classifier).input_tags
    return validate_data(
        classifier,
        summed(X),
        accept_sparse=["csr", "csc"] if tags.sparse else False,
        ensure_all_finite="allow-nan" if tags.allow_nan else True,
        **options,
    )


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
        return weight.sum() / (len(classes) * np.bincount(y, weights=weight))
    # compute_class_weight of scikit-learn 1.9 would convert labels such as "5" to numbers.
    labels = classes.tolist()
    stated = {plain(label): value for label, value in class_weight.items()}
    unknown = [label for label in stated if label not in labels]
    if unknown and not stated.keys() >= {*labels}:  # a misspelt label, and no absent class
        raise ValueError(
            f"class_weight={class_weight!r}: y has no class {unknown[0]!r}, its classes are "
            f"{labels}"
        )
    factors = np.array([stated.get(label, 1.0) for label in labels], dtype=np.float64)
    if not np.all((factors > 0) & np.isfinite(factors)):
        raise ValueError(
            f"class_weight={class_weight!r}: factors must be positive; to leave out a class, "
            "drop its rows"
        )
    return factors


def marked_if_seen(rows: Rows, *tables: Seen | None) -> Rows:
    """Return selection data; if they repeat known training rows, warn and mark them as fitted."""
    given = Seen.of(hash_rounded_rows(rows.X))
    for known in tables:
        if known is not None and not known.of_scores and given.repeats(known):
            equal = f"{given.share_in(known):.0%} of which equal training rows"
            warn_user(
                f"{rows.words}, {equal}, where models have smaller errors than on fresh rows: give rows that "
                "were not given to fit (if features take so few values that fresh rows equal training rows, "
                "ignore this warning)",
                ResubstitutionWarning,
            )
            return replace(rows, words=f"{rows.words}, {equal}", fitted=True)
    return rows
