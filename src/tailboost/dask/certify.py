"""`tailboost.certify` and `tailboost.calibrate` on Dask collections."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import dask
import numpy as np

from tailboost.classifiers.calibrating import calibrate as local_calibrate
from tailboost.core.array_types import Column, Groups, Labels, Model, Stated, Table
from tailboost.core.checks import check_indexes, check_same_kind, label_column, positions
from tailboost.core.fingerprints import Fingerprint, hash_rounded_rows, shortest
from tailboost.core.judged import final_step, group_arguments, judged, last_step
from tailboost.core.used_rows import EqualRows, check_equal_rows
from tailboost.dask.collections import DaskColumn, partitions
from tailboost.dask.counting import WEIGHT, added, count, values_of
from tailboost.guarantees.certificates import Certificate, CertificateRequest, certificate_of, requested_rates
from tailboost.guarantees.fresh_rows import FreshInput, answers_of, fresh_rows, rules_of
from tailboost.rates.metrics import expected_zero_one_losses

NOT_COUNTED = "Equal rows among these rows were not counted, because they are in partitions."


def certify(
    model: Model,
    X: Table,
    y: Column,
    *,
    confidence: float = 0.95,
    alphas: Sequence[float] = (),
    shifts: Sequence[float] = (),
    groups: Groups = None,
    max_error: Stated = None,
    subgroups: Any = None,
    rates: Any = None,
    equal_rows: EqualRows = "copies",
) -> Certificate:
    """Return confidence bounds on a classifier's errors on new rows, from rows in Dask collections.

    The bounds equal those of `tailboost.certify` for the same rows in memory. Workers count labels, groups,
    deferred rows and losses. At the end the losses of all rows are in memory, about 40 bytes per row. Rates
    of a randomised rule, and costs by row, need `tailboost.certify`.

    Parameters
    ----------
    model : fitted classifier or pipeline
        With ``classes_``: one of `tailboost.dask`, or of one machine.
    X, y : Dask array or data frame of shape (n, d), (n,)
        Fresh rows and their labels, with the same partitions.
    groups : Dask array of shape (n,) or (n, c), column or data frame, optional
        Groups of the rows.
    confidence, alphas, shifts, max_error, subgroups, rates, equal_rows
        As in `tailboost.certify`.

    Raises
    ------
    LeakageError
        If rows were used to train or select the model (if the model knows them).
    TypeError, ValueError
        If an argument is not as described.
    """
    asked = CertificateRequest.of(confidence, alphas, shifts)
    check_equal_rows(equal_rows)
    model = model.to_local() if hasattr(model, "to_local") else model
    if not hasattr(model, "predict") or not hasattr(model, "classes_"):
        raise TypeError(f"model must be a fitted classifier, got {type(model).__name__}")
    stated, rules = requested_rates(model, rates, max_error, asked), rules_of(last_step(model))
    if stated and (len(rules) > 1 or any(one.rate.needs_costs for one in stated)):
        raise ValueError(
            "rates of a randomised rule, and costs by row, need tailboost.certify and rows in memory; "
            "rates=() bounds errors here"
        )
    blocks = partitions(X, DaskColumn("y", y), DaskColumn("groups", groups))
    delayed, shared = dask.delayed(_judge, pure=False), dask.delayed(model)
    parts = [part for part in dask.compute(*(delayed(shared, *block) for block in blocks)) if part]
    if not parts:
        raise ValueError("X holds no rows")
    final, repeated = last_step(model), None
    if parts[0][1] is not None:
        repeated = np.sum([counts for _, counts, _ in parts], axis=0)
        final.refuse_seen(repeated, equal_rows=equal_rows)
    table = added([counts for counts, _, _ in parts])
    times = table[WEIGHT].to_numpy().astype(np.intp)
    y_all, answers = (np.repeat(values_of(table, name), times) for name in ("y", "answers"))
    classes = label_column(model.classes_, "classes_")
    listed = subgroups if isinstance(subgroups, Mapping) or subgroups is None else {"group": subgroups}
    given = FreshInput(
        None,
        y_all,
        _groups(groups, table, times),
        equal_rows=equal_rows,
        subgroups={**(listed or {}), "class": classes},
        deferred=np.repeat(values_of(table, "deferred"), times) if judged(final).can_defer else None,
    )
    scored = replace(
        fresh_rows(
            classes[answers], given, [one.rate for one in stated], () if stated else None, fitted=final
        ),
        drawn=np.repeat(values_of(table, "losses"), times) if len(rules) > 1 else None,
        rules=() if stated else rules,
        repeated=repeated,
        complete=repeated is not None and final.seen_rows_.complete,
    )
    fingerprints = Fingerprint.merged([short for _, _, short in parts])
    cert = certificate_of(scored, stated, max_error, asked, model, fingerprints)
    return replace(cert, notes=(*cert.notes, NOT_COUNTED))


def _groups(groups: Groups, table: Table, times: Any) -> Any:
    if groups is None:
        return None
    values = np.repeat(values_of(table, "groups"), times, axis=0)
    if not hasattr(groups, "columns"):
        return values
    columns = [values] if values.ndim == 1 else list(values.T)
    return dict(zip(groups.columns, columns, strict=True))


def _judge(model: Model, X: Table, y: Column, groups: Groups) -> tuple[Any, Any, Any] | None:
    """Return counts of labels, groups and losses of a partition, counts of known rows, and fingerprints.

    None for a partition without rows.
    """
    if not len(y):
        return None
    check_indexes(X=X, y=y, groups=groups)
    labels: Labels = label_column(y, "y")
    classes = label_column(model.classes_, "classes_")
    check_same_kind(labels, "y", classes, "classes_ of the model")
    positions(labels, classes, "y")
    final, table = final_step(model, X)
    repeated = final.count_known(table) if judged(final).knows_rows else None
    answers = positions(answers_of(model, X, "predict", groups), classes, "answers")
    columns = [("y", labels), ("answers", answers)]
    if len(rules_of(final)) > 1:
        shares = answers_of(model, X, "randomised", groups)
        columns.append(("losses", expected_zero_one_losses(labels, shares, labels=classes)))
    if judged(final).can_defer:
        columns.append(("deferred", final.defers(table, **group_arguments(final, groups)).astype(np.intp)))
    columns += [] if groups is None else [("groups", groups)]
    return count(*columns), repeated, shortest(hash_rounded_rows(X))


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
    model = model.to_local() if hasattr(model, "to_local") else model
    # Refuses rows that do not belong together.
    if X_cal is not None:
        partitions(X_cal, DaskColumn("y_cal", y_cal), DaskColumn("groups", groups))
    if X_unlabeled is not None:
        partitions(X_unlabeled, DaskColumn("groups_unlabeled", groups_unlabeled))
    X, y, of, more, of_more = dask.compute(X_cal, y_cal, groups, X_unlabeled, groups_unlabeled)
    return local_calibrate(model, X, y, groups=of, X_unlabeled=more, groups_unlabeled=of_more, **options)
