"""`tailboost.certify` and `tailboost.calibrate` on Dask collections."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import dask
import numpy as np

from tailboost.classifiers.calibrating import calibrate as local_calibrate
from tailboost.core.array_types import Column, Groups, Labels, Mask, Model, Stated, Table
from tailboost.core.checks import (
    check_indexes,
    check_number,
    check_same_kind,
    label_column,
    n_rows_of,
    positions,
    take,
)
from tailboost.core.spelling import with_known_arguments
from tailboost.dask.collections import DaskColumn, partitions
from tailboost.guarantees.certificates import (
    MOVED,
    Certificate,
    certificate_of,
    check_unlabeled,
    requested_rates,
)
from tailboost.guarantees.fresh_rows import (
    answers_of,
    fresh_rows,
    not_among,
)
from tailboost.rows.fingerprints import (
    EqualRows,
    Fingerprint,
    RowCounts,
    RowHashes,
    check_equal_rows,
)
from tailboost.rows.given import Given
from tailboost.rows.judged import (
    final_step,
    group_arguments,
    judged,
    last_step,
)
from tailboost.rows.readers import Overlap, reason_of_equal_rows, row_hashes
from tailboost.rows.subgroups import checked_columns

NOT_COUNTED = "Equal rows among these rows were not counted, because they are in partitions."


@with_known_arguments(**MOVED)
def certify(
    model: Model,
    X: Table,
    y: Column,
    *,
    confidence: float = 0.95,
    groups: Groups = None,
    max_error: Stated = None,
    subgroups: Any = None,
    rates: Any = None,
    limits: Any = None,
    equal_rows: EqualRows = "copies",
    X_unlabeled: Table = None,
    groups_unlabeled: Groups = None,
) -> Certificate:
    """Return confidence bounds on a classifier's errors on new rows, from rows in Dask collections.

    The bounds equal those of `tailboost.certify` for the same rows in memory. Workers return labels, groups,
    answers and deferred rows. So these are in memory for all rows, about 40 bytes per row. Rates of a
    randomised rule, and costs by row, need `tailboost.certify`. With rows of both kinds, workers read those
    without labels twice: a row that is labelled too counts once.

    Parameters
    ----------
    model : fitted classifier or pipeline
        With ``classes_``.
    X, y : Dask array or data frame of shape (n, d), (n,)
        Fresh rows and their labels, with the same partitions. With ``y=None`` the rows have no labels. For a
        rule made from probabilities, X is a dict of them by model; so is ``X_unlabeled``.
    groups : Dask array of shape (n,) or (n, c), column or data frame, optional
        Groups of the rows.
    X_unlabeled : Dask array or data frame of shape (m, d), optional
        Fresh rows without labels, of the same population, with ``rates``; they may come alone.
    groups_unlabeled : Dask array of shape (m,) or (m, c), column or data frame, optional
        Their groups.
    confidence, max_error, subgroups, rates, limits, equal_rows
        As in `tailboost.certify`.

    Raises
    ------
    LeakageError
        If rows were used to train or select the model (if the model knows them).
    TypeError, ValueError
        If an argument is not as described.
    """
    check_number(confidence, "confidence", 0, 1, below=True)
    check_equal_rows(equal_rows)
    if not hasattr(model, "predict") or not hasattr(model, "classes_"):
        raise TypeError(f"model must be a fitted classifier, got {type(model).__name__}")
    stated, max_error = requested_rates(model, rates, limits, max_error)
    needs_rows = judged(model).draws or any(limit.rate.needs_costs for limit in stated)
    if stated and needs_rows:
        raise ValueError(
            "rates of a randomised rule, and costs by row, need tailboost.certify and rows in "
            "memory; rates=() bounds errors here"
        )
    arguments = Given(
        X,
        y,
        groups,
        X_unlabeled=X_unlabeled,
        groups_unlabeled=groups_unlabeled,
        subgroups=subgroups,
        equal_rows=equal_rows,
    ).with_and_without_labels()
    if arguments.has_unlabeled:
        check_unlabeled(model, stated, None)
    if arguments.has_labels:
        arguments.refuse("classifier")
    labelled, unlabelled = _judged_partitions(model, arguments)
    parts = [*labelled, *unlabelled]
    answers, in_memory = _rows_in_memory(model, arguments, labelled, unlabelled)
    limited_rates = [limit.rate for limit in stated]
    fresh = fresh_rows(
        answers, in_memory, limited_rates, errors=not stated, fitted=last_step(model)
    )
    repeated = np.sum([part["overlap"].counts for part in parts], axis=0)
    if len(repeated):  # the model knows training rows
        fresh = replace(fresh, repeated=repeated)
    certificate = certificate_of(fresh, stated, max_error, confidence)
    rows = RowCounts.together([part["rows"] for part in parts])
    return replace(
        certificate,
        notes=(*certificate.notes, NOT_COUNTED),
        model=model,
        rows=Fingerprint.from_counts(rows),
        rule=judged(model).rule_digest,
    )


Part = dict[str, Any]
"""The entries that a worker returns about the rows of a partition, see `_judge`."""


def _rows_in_memory(
    model: Model, arguments: Given, labelled: Sequence[Part], unlabelled: Sequence[Part]
) -> tuple[Labels, Given]:
    """Return the answers to the rows with labels, and all rows as arguments of `fresh_rows`, from parts."""
    classes = label_column(model.classes_, "classes_")
    view = judged(last_step(model))
    subgroups = arguments.subgroups
    if subgroups is None:
        subgroups = {}
    elif not isinstance(subgroups, Mapping):
        subgroups = {"group": subgroups}
    rows = Given(
        groups=_all_groups(labelled),
        groups_unlabeled=_all_groups(unlabelled),
        # All classes of the model, also those without a fresh row.
        subgroups={**subgroups, "class": classes},
        equal_rows=reason_of_equal_rows(view, arguments.equal_rows),
    )
    answers = classes[:0]
    if labelled:
        answers = classes[_all_rows(labelled, "answers")]
        rows = replace(rows, y=classes[_all_rows(labelled, "y")])
    if unlabelled:
        numbers = _all_rows(unlabelled, "answers")
        rows = replace(rows, answers_unlabeled=classes[numbers])
    if view.can_defer:
        rows = replace(rows, deferred=_all_rows([*labelled, *unlabelled], "deferred"))
    return answers, rows


def _all_rows(parts: Sequence[Part], name: str) -> Any:
    """Return an entry of the parts, such as "answers", for the rows of all parts."""
    return np.concatenate([part[name] for part in parts])


def _all_groups(parts: Sequence[Part]) -> Any:
    """Return the groups of the rows of all parts: an array, or columns by name; None without groups."""
    if not parts or not parts[0]["groups"]:
        return None
    columns = {}
    for name in parts[0]["groups"]:
        columns[name] = np.concatenate([part["groups"][name] for part in parts])
    return columns.get(None, columns)


def _judged_partitions(model: Model, arguments: Given) -> tuple[list[Part], list[Part]]:
    """Return the parts of the rows with labels, and of the rows without labels that are no copies of them.

    Raises
    ------
    LeakageError
        If the model knows rows.
    """
    labelled_blocks = list[Any]()
    unlabelled_blocks = list[Any]()
    if arguments.X is not None:
        labelled_blocks = partitions(
            arguments.X, DaskColumn("y", arguments.y), DaskColumn("groups", arguments.groups)
        )
    if arguments.X_unlabeled is not None:
        unlabelled_groups = DaskColumn("groups_unlabeled", arguments.groups_unlabeled)
        no_labels = DaskColumn("y", None)
        unlabelled_blocks = partitions(
            arguments.X_unlabeled, no_labels, unlabelled_groups, name="X_unlabeled"
        )
    has_both = bool(labelled_blocks and unlabelled_blocks)
    judge = dask.delayed(_judge, pure=False)
    shared = dask.delayed(model)  # sent to the workers once
    hashes_of = dask.delayed(row_hashes, pure=False)
    labelled_parts, labelled_hashes, unlabelled_hashes = dask.compute(
        [judge(shared, *block) for block in labelled_blocks],
        [hashes_of(shared, X) for X, *_ in labelled_blocks if has_both],
        [hashes_of(shared, X) for X, *_ in unlabelled_blocks if has_both],
    )
    if labelled_blocks:
        labelled_parts = _unused_with_rows(labelled_parts, "X", model, arguments)
    if not unlabelled_blocks:
        return labelled_parts, []
    new_rows: list[Any] = [None] * len(unlabelled_blocks)
    if has_both:
        is_new = not_among(
            RowHashes.joined(labelled_hashes), RowHashes.joined(unlabelled_hashes)
        )
        starts = np.cumsum([len(hashes) for hashes in unlabelled_hashes])[:-1]
        new_rows = np.split(is_new, starts)
    tasks = [
        judge(shared, *block, mask)
        for block, mask in zip(unlabelled_blocks, new_rows, strict=True)
    ]
    unlabelled_parts = dask.compute(*tasks)
    return labelled_parts, _unused_with_rows(unlabelled_parts, "X_unlabeled", model, arguments)


def _unused_with_rows(
    parts: Sequence[Part | None], name: str, model: Model, arguments: Given
) -> list[Part]:
    """Return the parts that have rows; messages call the rows ``name``.

    Raises
    ------
    ValueError
        If no part has rows.
    LeakageError
        If the model was trained or selected on rows.
    """
    with_rows = [part for part in parts if part is not None]
    if not with_rows:
        raise ValueError(f"{name} holds no rows")
    overlap = Overlap.together([part["overlap"] for part in with_rows])
    overlap.refuse(model, arguments.equal_rows, name)
    return with_rows


def _judge(
    model: Model, X: Table, y: Column, groups: Groups, new_rows: Mask | None = None
) -> Part | None:
    """Return labels, answers, deferral and groups of a partition, and its comparison with known rows.

    The result is None for a partition without rows. A partition without labels has no entry "y". ``new_rows``
    is a mask of the rows to judge, by default all.
    """
    labels: Any = ()
    classes = label_column(model.classes_, "classes_")
    if y is None:
        check_indexes(X_unlabeled=X, groups_unlabeled=groups)
    else:
        check_indexes(X=X, y=y, groups=groups)
    if new_rows is not None:
        X = take(X, new_rows)
        groups = take(groups, new_rows)
    n = n_rows_of(X)
    if not n:
        return None
    part: Part = {"groups": checked_columns(groups, "groups", n)}
    if y is not None:
        labels = label_column(y, "y")
        check_same_kind(labels, "y", classes, "classes_ of the model")
        part["y"] = positions(labels, classes, "y")
    classifier, table = final_step(model, X)
    answers = answers_of(model, X, "predict", groups)
    part["answers"] = positions(answers, classes, "answers")
    if judged(classifier).can_defer:
        part["deferred"] = classifier.defers(table, **group_arguments(classifier, groups))
    hashes = row_hashes(model, X)  # which stay with the worker
    part["overlap"] = Overlap.from_table(classifier, hashes, table, labels)
    part["rows"] = RowCounts.from_hashes(hashes.whole)
    return part


def calibrate(
    model: Model,
    X_cal: Table,
    y_cal: Column,
    *,
    groups: Groups = None,
    X_unlabeled: Table = None,
    groups_unlabeled: Groups = None,
    **options: Any,
) -> Any:
    """Return the least restricted rule of a classifier with targets certified by rows in Dask collections.

    The rows come to the client: a calibration needs some thousands of rows of each subgroup, see
    `tailboost.rows_needed`.

    Parameters
    ----------
    model : classifier
        One of tailboost's with ``tradeoff``.
    X_cal, y_cal : Dask array or data frame of shape (n, d), (n,)
        Fresh rows and their labels, with the same partitions.
    groups : Dask array of shape (n,) or (n, c), column or data frame, optional
        Groups of the rows.
    X_unlabeled, groups_unlabeled : Dask collections, optional
        Fresh rows without labels, and their groups.
    **options
        As in `tailboost.calibrate`, for example ``limits``, ``max_error`` and ``confidence``.

    Returns
    -------
    classifier
        As from `tailboost.calibrate`, with its ``certificate_``.

    Raises
    ------
    NotCertifiedError
        If the safest rule is not certified.
    LeakageError
        If rows were used to train or select the model.
    """
    # Refuses rows that do not belong together.
    if X_cal is not None:
        partitions(X_cal, DaskColumn("y_cal", y_cal), DaskColumn("groups", groups))
    if X_unlabeled is not None:
        partitions(X_unlabeled, DaskColumn("groups_unlabeled", groups_unlabeled))
    rows = {"X_cal": X_cal, "y_cal": y_cal, "groups": groups}
    rows |= {"X_unlabeled": X_unlabeled, "groups_unlabeled": groups_unlabeled}
    (rows_in_memory,) = dask.compute(rows)
    return local_calibrate(model, **rows_in_memory, **options)
