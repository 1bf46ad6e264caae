"""`tailboost.certify` and `tailboost.calibrate` on Dask collections."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import dask
import numpy as np

from tailboost.classifiers.calibrating import calibrate as local_calibrate
from tailboost.core.array_types import Column, Groups, Ints, Mask, Model, Stated, Table
from tailboost.core.checks import (
    check_indexes,
    check_number,
    check_same_kind,
    label_column,
    n_rows_of,
    positions,
    take,
)
from tailboost.dask.collections import DaskColumn, partitions
from tailboost.dask.counting import WEIGHT, added, count, values_of
from tailboost.guarantees.certificates import (
    Certificate,
    certificate_of,
    check_unlabeled,
    refuse_moved,
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
from tailboost.rows.readers import NO_HASHES, Met, reason_of_equal_rows, row_hashes

NOT_COUNTED = "Equal rows among these rows were not counted, because they are in partitions."


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
    **others: Any,
) -> Certificate:
    """Return confidence bounds on a classifier's errors on new rows, from rows in Dask collections.

    The bounds equal those of `tailboost.certify` for the same rows in memory. Workers count labels, groups,
    answers and deferred rows. At the end the answers to all rows are in memory, about 40 bytes per row. Rates
    of a randomised rule, and costs by row, need `tailboost.certify`. With rows of both kinds, workers read
    those without labels twice: a row that is labelled too counts once.

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
    confidence, max_error, subgroups, rates, limits, equal_rows, others
        As in `tailboost.certify`.

    Raises
    ------
    LeakageError
        If rows were used to train or select the model (if the model knows them).
    TypeError, ValueError
        If an argument is not as described.
    """
    refuse_moved(others)
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
    some, more = _counted(model, given, equal_rows)
    if not (subgroups is None or isinstance(subgroups, Mapping)):
        subgroups = {"group": subgroups}
    final = last_step(model)
    classes = label_column(model.classes_, "classes_")
    counted = [one for one in (some, more) if one is not None]
    answers = classes[:0]
    if some is not None:
        answers = classes[some.column("answers")]
    here = Given(
        None,
        some and some.column("y"),
        some and some.groups(groups),
        groups_unlabeled=more and more.groups(given.groups_unlabeled),
        subgroups={**(subgroups or {}), "class": classes},
        equal_rows=reason_of_equal_rows(judged(final), equal_rows),
        answers_unlabeled=None if more is None else classes[more.column("answers")],
    )
    if judged(final).can_defer:
        here = replace(
            here, deferred=np.concatenate([one.column("deferred") for one in counted])
        )
    rates_counted = [one.rate for one in stated]
    fresh = fresh_rows(answers, here, rates_counted, errors=not stated, fitted=final)
    repeated = np.sum([one.met.counts for one in counted], axis=0)
    if len(repeated):
        fresh = replace(fresh, repeated=repeated)
    certificate = certificate_of(fresh, stated, max_error, confidence)
    fingerprints = Fingerprint.of_counts(RowCounts.together([one.rows for one in counted]))
    return replace(
        certificate,
        notes=(*certificate.notes, NOT_COUNTED),
        model=model,
        rows=fingerprints,
        rule=judged(model).rule_digest,
    )


def _counted(
    model: Model, given: Given, equal_rows: EqualRows
) -> tuple[_Counted | None, _Counted | None]:
    """Return the counts of the rows with labels, and of those without labels that are not among them.

    Raises
    ------
    LeakageError
        If the model knows rows.
    """
    X = given.X
    y = given.y
    groups = given.groups
    X_more = given.X_unlabeled
    labelled = list[Any]()
    more = list[Any]()
    if X is not None:
        labelled = partitions(X, DaskColumn("y", y), DaskColumn("groups", groups))
    if X_more is not None:
        of_more = DaskColumn("groups_unlabeled", given.groups_unlabeled)
        more = partitions(X_more, DaskColumn("y", None), of_more, name="X_unlabeled")
    both = bool(labelled and more)
    judge = dask.delayed(_judge, pure=False)
    shared = dask.delayed(model)
    hashes_of = dask.delayed(row_hashes, pure=False)
    parts, known, own = dask.compute(
        [judge(shared, *block) for block in labelled],
        [hashes_of(shared, block[0]) for block in labelled if both],
        [hashes_of(shared, block[0]) for block in more if both],
    )
    if labelled:
        some = _Counted.of(parts, "X", model, equal_rows)
    else:
        some = None
    if not more:
        return some, None
    new: list[Any] = [None] * len(more)
    if both:
        ends = np.cumsum([len(hashes) for hashes in own])[:-1]
        new = np.split(not_among(RowHashes.joined(known), RowHashes.joined(own)), ends)
    parts = dask.compute(
        *(judge(shared, *block, mask) for block, mask in zip(more, new, strict=True))
    )
    return some, _Counted.of(parts, "X_unlabeled", model, equal_rows)


@dataclass(frozen=True, eq=False)
class _Counted:
    """Rows of all partitions, as their workers counted them."""

    table: Table  # of `count`: labels, answers, groups, deferred rows
    met: Met
    rows: RowCounts

    @classmethod
    def of(
        cls, parts: Sequence[_Counted | None], name: str, model: Model, equal_rows: EqualRows
    ) -> _Counted:
        """Return the sum of partitions; raise if there are no rows, or if the model knows them."""
        there = [part for part in parts if part is not None]
        if not there:
            raise ValueError(f"{name} holds no rows")
        met = Met.together([part.met for part in there])
        met.refuse(model, equal_rows, name)
        rows = RowCounts.together([part.rows for part in there])
        return cls(added([part.table for part in there]), met, rows)

    def column(self, name: str) -> Any:
        """Return the value of each row."""
        return np.repeat(values_of(self.table, name), self.times, axis=0)

    @property
    def times(self) -> Ints:
        """The number of rows of each line of the table."""
        times: Ints = self.table[WEIGHT].to_numpy().astype(np.intp)
        return times

    def groups(self, given: Groups) -> Any:
        """Return the groups of each row, with the names of the given columns; None without groups."""
        if given is None:
            return None
        if not hasattr(given, "columns"):
            return self.column("groups")
        columns = values_of(self.table, "groups", given)
        return {name: np.repeat(values, self.times) for name, values in columns.items()}


def _judge(
    model: Model, X: Table, y: Column, groups: Groups, kept: Mask | None = None
) -> _Counted | None:
    """Return counts of labels, groups and answers of a partition, counts of known rows, and fingerprints.

    None for a partition without rows. A partition without labels has no ``y``; with ``kept`` the other rows
    are left out.
    """
    labelled = y is not None
    if labelled:
        check_indexes(X=X, y=y, groups=groups)
    else:
        check_indexes(X_unlabeled=X, groups_unlabeled=groups)
    if kept is not None:
        X = take(X, kept)
        groups = take(groups, kept)
    if not n_rows_of(X):
        return None
    classes = label_column(model.classes_, "classes_")
    columns = list[tuple[str, Any]]()
    if labelled:
        labels = label_column(y, "y")
    else:
        labels = None
    if labels is not None:
        check_same_kind(labels, "y", classes, "classes_ of the model")
        positions(labels, classes, "y")
        columns.append(("y", labels))
    final, table = final_step(model, X)
    columns.append(
        ("answers", positions(answers_of(model, X, "predict", groups), classes, "answers"))
    )
    if judged(final).can_defer:
        columns.append(
            ("deferred", final.defers(table, **group_arguments(final, groups)).astype(np.intp))
        )
    columns += [] if groups is None else [("groups", groups)]
    met = Met.of(final, row_hashes(model, X), table, () if labels is None else labels)
    rows = RowCounts.of(met.rows.whole)
    return _Counted(count(*columns), replace(met, rows=NO_HASHES), rows)


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
