"""`tailboost.certify` and `tailboost.calibrate` on Dask collections."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import dask
import numpy as np

from tailboost.classifiers.calibrating import calibrate as local_calibrate
from tailboost.core.array_types import Column, Groups, Mask, Model, Stated, Table
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
from tailboost.rows.group_names import checked_columns
from tailboost.rows.judged import (
    final_step,
    group_arguments,
    judged,
    last_step,
)
from tailboost.rows.readers import NO_HASHES, Met, reason_of_equal_rows, row_hashes

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
        With ``classes_``: one of `tailboost.dask`, or of one machine.
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
    if hasattr(model, "to_local"):
        model = model.to_local()
    if not hasattr(model, "predict") or not hasattr(model, "classes_"):
        raise TypeError(f"model must be a fitted classifier, got {type(model).__name__}")
    stated, max_error = requested_rates(model, rates, limits, max_error)
    draws = judged(model).draws
    if stated and (draws or any(one.rate.needs_costs for one in stated)):
        raise ValueError(
            "rates of a randomised rule, and costs by row, need tailboost.certify and rows in "
            "memory; rates=() bounds errors here"
        )
    given = Given(
        X,
        y,
        groups,
        X_unlabeled=X_unlabeled,
        groups_unlabeled=groups_unlabeled,
        equal_rows=equal_rows,
    ).with_and_without_labels()
    if given.has_unlabeled:
        check_unlabeled(model, stated, None)
    if given.has_labels:
        given.refuse("classifier")
    if not (subgroups is None or isinstance(subgroups, Mapping)):
        subgroups = {"group": subgroups}
    some, more = _read(model, given)
    parts = [*some, *more]
    classes = label_column(model.classes_, "classes_")
    final = last_step(model)
    here = Given(
        None,
        classes[_joined(some, "y")] if some else None,
        _groups(some),
        groups_unlabeled=_groups(more),
        subgroups={**(subgroups or {}), "class": classes},
        equal_rows=reason_of_equal_rows(judged(final), equal_rows),
        deferred=_joined(parts, "deferred") if judged(final).can_defer else None,
        answers_unlabeled=classes[_joined(more, "answers")] if more else None,
    )
    answers = classes[_joined(some, "answers")] if some else classes[:0]
    counted = [one.rate for one in stated]
    fresh = fresh_rows(answers, here, counted, errors=not stated, fitted=final)
    repeated = np.sum([part["met"].counts for part in parts], axis=0)
    if len(repeated):
        fresh = replace(fresh, repeated=repeated)
    certificate = certificate_of(fresh, stated, max_error, confidence)
    rows = RowCounts.together([part["rows"] for part in parts])
    return replace(
        certificate,
        notes=(*certificate.notes, NOT_COUNTED),
        model=model,
        rows=Fingerprint.of_counts(rows),
        rule=judged(model).rule_digest,
    )


Part = dict[str, Any]
"""What a worker tells of the rows of a partition, see `_judge`."""


def _joined(parts: Sequence[Part], name: str) -> Any:
    """Return the values of all rows."""
    return np.concatenate([part[name] for part in parts])


def _groups(parts: Sequence[Part]) -> Any:
    """Return the groups of all rows, in columns by name; None without groups."""
    if not parts or not parts[0]["groups"]:
        return None
    columns = {
        name: np.concatenate([part["groups"][name] for part in parts])
        for name in parts[0]["groups"]
    }
    return columns.get(None, columns)


def _read(model: Model, given: Given) -> tuple[list[Part], list[Part]]:
    """Return what workers tell of rows with labels, and of rows without labels that are not among them.

    Raises
    ------
    LeakageError
        If the model knows rows.
    """
    labelled = list[Any]()
    more = list[Any]()
    if given.X is not None:
        of_labels = DaskColumn("y", given.y), DaskColumn("groups", given.groups)
        labelled = partitions(given.X, *of_labels)
    if given.X_unlabeled is not None:
        of_more = DaskColumn("groups_unlabeled", given.groups_unlabeled)
        more = partitions(given.X_unlabeled, DaskColumn("y", None), of_more, name="X_unlabeled")
    both = bool(labelled and more)
    judge = dask.delayed(_judge, pure=False)
    shared = dask.delayed(model)
    hashes_of = dask.delayed(row_hashes, pure=False)
    some, known, own = dask.compute(
        [judge(shared, *block) for block in labelled],
        [hashes_of(shared, block[0]) for block in labelled if both],
        [hashes_of(shared, block[0]) for block in more if both],
    )
    some = _met(some, "X", model, given) if labelled else []
    if not more:
        return some, []
    new: list[Any] = [None] * len(more)
    if both:
        ends = np.cumsum([len(hashes) for hashes in own])[:-1]
        new = np.split(not_among(RowHashes.joined(known), RowHashes.joined(own)), ends)
    others = dask.compute(
        *(judge(shared, *block, mask) for block, mask in zip(more, new, strict=True))
    )
    return some, _met(others, "X_unlabeled", model, given)


def _met(parts: Sequence[Part | None], name: str, model: Model, given: Given) -> list[Part]:
    """Return the partitions with rows; raise if there are none, or if the model knows the rows."""
    there = [part for part in parts if part is not None]
    if not there:
        raise ValueError(f"{name} holds no rows")
    Met.together([part["met"] for part in there]).refuse(model, given.equal_rows, name)
    return there


def _judge(
    model: Model, X: Table, y: Column, groups: Groups, kept: Mask | None = None
) -> Part | None:
    """Return labels, answers, deferral and groups of a partition, and how the model meets its rows.

    None for a partition without rows. A partition without labels has no ``y``; with ``kept`` the other rows
    are left out.
    """
    labels: Any = ()
    classes = label_column(model.classes_, "classes_")
    if y is None:
        check_indexes(X_unlabeled=X, groups_unlabeled=groups)
    else:
        check_indexes(X=X, y=y, groups=groups)
    if kept is not None:
        X = take(X, kept)
        groups = take(groups, kept)
    n = n_rows_of(X)
    if not n:
        return None
    part: Part = {"groups": checked_columns(groups, "groups", n)}
    if y is not None:
        labels = label_column(y, "y")
        check_same_kind(labels, "y", classes, "classes_ of the model")
        part["y"] = positions(labels, classes, "y")
    final, table = final_step(model, X)
    answers = answers_of(model, X, "predict", groups)
    part["answers"] = positions(answers, classes, "answers")
    if judged(final).can_defer:
        part["deferred"] = final.defers(table, **group_arguments(final, groups))
    met = Met.of(final, row_hashes(model, X), table, labels)
    # Hashes stay with the worker.
    part["met"] = replace(met, rows=NO_HASHES)
    part["rows"] = RowCounts.of(met.rows.whole)
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
        One of tailboost's with ``tradeoff``, of `tailboost.dask` or of one machine.
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
    if hasattr(model, "to_local"):
        model = model.to_local()
    # Refuses rows that do not belong together.
    if X_cal is not None:
        partitions(X_cal, DaskColumn("y_cal", y_cal), DaskColumn("groups", groups))
    if X_unlabeled is not None:
        partitions(X_unlabeled, DaskColumn("groups_unlabeled", groups_unlabeled))
    X, y, of, more, of_more = dask.compute(X_cal, y_cal, groups, X_unlabeled, groups_unlabeled)
    return local_calibrate(
        model, X, y, groups=of, X_unlabeled=more, groups_unlabeled=of_more, **options
    )
