"""`tailboost.certify` on Dask collections."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import dask
import numpy as np

from tailboost.core.array_types import Column, Groups, Labels, Model, Stated, Table
from tailboost.core.checks import (
    check_indexes,
    check_number,
    check_same_kind,
    label_column,
    n_rows_of,
    positions,
)
from tailboost.core.spelling import with_known_arguments
from tailboost.dask.collections import DaskColumn, partitions
from tailboost.guarantees.certificates import (
    MOVED,
    Certificate,
    certificate_of,
    requested_rates,
)
from tailboost.guarantees.fresh_rows import (
    answers_of,
    fresh_rows,
)
from tailboost.rows.fingerprints import (
    EqualRows,
    Fingerprint,
    RowCounts,
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
    equal_rows: EqualRows | None = None,
) -> Certificate:
    """Return confidence bounds on a classifier's errors on new rows, from rows in Dask collections.

    The bounds equal those of `tailboost.certify` for the same rows in memory. Workers return labels, groups,
    answers and deferred rows. So these are in memory for all rows, about 40 bytes per row. Rates of a
    randomised rule, costs by row, and rows without labels need `tailboost.certify`.

    Parameters
    ----------
    model : fitted classifier or pipeline
        With ``classes_``.
    X, y : Dask array or data frame of shape (n, d), (n,)
        Fresh rows and their labels, with the same partitions. For a rule made from probabilities, X is a dict
        of them by model.
    groups : Dask array of shape (n,) or (n, c), column or data frame, optional
        Groups of the rows.
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
    if not hasattr(model, "predict") or not hasattr(model, "classes_"):
        raise TypeError(f"model must be a fitted classifier, got {type(model).__name__}")
    stated, max_error = requested_rates(model, rates, limits, max_error)
    needs_rows = judged(model).draws or any(limit.rate.needs_costs for limit in stated)
    if stated and needs_rows:
        raise ValueError(
            "rates of a randomised rule, and costs by row, need tailboost.certify and rows in "
            "memory; rates=() bounds errors here"
        )
    if y is None:
        raise ValueError("y is needed: for rows without labels use tailboost.certify")
    arguments = Given(X, y, groups, subgroups=subgroups, equal_rows=equal_rows)
    arguments.refuse("fresh")
    arguments.refuse("classifier")
    parts = _answered_partitions(model, arguments)
    overlap = Overlap.together([part["overlap"] for part in parts])
    overlap.refuse(model, equal_rows, "X")
    answers, in_memory = _rows_in_memory(model, arguments, parts)
    limited_rates = [limit.rate for limit in stated]
    fresh = fresh_rows(
        answers, in_memory, limited_rates, errors=not stated, fitted=last_step(model)
    )
    if len(overlap.counts):  # the model knows training rows
        fresh = replace(fresh, repeated=overlap.counts)
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
"""The entries that a worker returns about the rows of a partition, see `_answered`."""


def _answered_partitions(model: Model, arguments: Given) -> list[Part]:
    """Return the parts of all partitions that have rows; raise ValueError if there is none."""
    blocks = partitions(
        arguments.X, DaskColumn("y", arguments.y), DaskColumn("groups", arguments.groups)
    )
    answered = dask.delayed(_answered, pure=False)
    shared = dask.delayed(model)  # sent to the workers once
    parts = dask.compute(*(answered(shared, *block) for block in blocks))
    with_rows = [part for part in parts if part is not None]
    if not with_rows:
        raise ValueError("X holds no rows")
    return with_rows


def _rows_in_memory(
    model: Model, arguments: Given, parts: Sequence[Part]
) -> tuple[Labels, Given]:
    """Return the answers to all rows, and the rows as arguments of `fresh_rows`."""
    classes = label_column(model.classes_, "classes_")
    view = judged(last_step(model))
    subgroups = arguments.subgroups
    if subgroups is None:
        subgroups = {}
    elif not isinstance(subgroups, Mapping):
        subgroups = {"group": subgroups}

    def of_all(name: str) -> Any:
        return np.concatenate([part[name] for part in parts])

    groups: Any = None
    if parts[0]["groups"]:
        groups = {}
        for name in parts[0]["groups"]:
            groups[name] = np.concatenate([part["groups"][name] for part in parts])
        groups = groups.get(None, groups)  # an array has no name
    rows = Given(
        y=classes[of_all("y")],
        groups=groups,
        # All classes of the model, also those without a fresh row.
        subgroups={**subgroups, "class": classes},
        equal_rows=reason_of_equal_rows(view, arguments.equal_rows),
    )
    if view.can_defer:
        rows = replace(rows, deferred=of_all("deferred"))
    return classes[of_all("answers")], rows


def _answered(model: Model, X: Table, y: Column, groups: Groups) -> Part | None:
    """Return what a certificate needs of a partition: see `Part`; None without rows.

    Features and hashes stay with the worker.

    Parameters
    ----------
    model : classifier
        The certified classifier.
    X : table of n rows
        Features of the partition.
    y : array-like of shape (n,)
        Its labels.
    groups : array-like or None
        Its groups.
    """
    check_indexes(X=X, y=y, groups=groups)
    n = n_rows_of(X)
    if not n:
        return None
    classes = label_column(model.classes_, "classes_")
    labels = label_column(y, "y")
    check_same_kind(labels, "y", classes, "classes_ of the model")
    classifier, table = final_step(model, X)
    answers = answers_of(model, X, "predict", groups)
    hashes = row_hashes(model, X)
    part = {
        "groups": checked_columns(groups, "groups", n),
        "y": positions(labels, classes, "y"),
        "answers": positions(answers, classes, "answers"),
        "overlap": Overlap.from_table(classifier, hashes, table, labels),
        "rows": RowCounts.from_hashes(hashes.whole),
    }
    if judged(classifier).can_defer:
        part["deferred"] = classifier.defers(table, **group_arguments(classifier, groups))
    return part
