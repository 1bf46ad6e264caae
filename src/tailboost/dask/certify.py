"""`tailboost.certify` on Dask collections."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import dask
import numpy as np

from tailboost.core.array_types import Labels
from tailboost.core.checks import check_same_kind, label_column, positions
from tailboost.core.fingerprints import Fingerprint, hash_rounded_rows, shortest
from tailboost.core.pipelines import final_step, last_step
from tailboost.core.subgroups import can_defer, group_arguments
from tailboost.dask.collections import DaskColumn, partitions
from tailboost.dask.counting import WEIGHT, added, count, values_of
from tailboost.guarantees.calibration import calibrate as local_calibrate
from tailboost.guarantees.certificates import Certificate, CertificateRequest, certificate_of, requested_rates
from tailboost.guarantees.fresh_rows import answers_of, fresh_rows, rules_of
from tailboost.guarantees.leakage import EqualRows, check_equal_rows
from tailboost.rates.metrics import expected_zero_one_losses

NOT_COUNTED = "Whether rows equal each other was not counted: they lie in partitions."


def certify(
    model: Any,
    X: Any,
    y: Any,
    *,
    confidence: float = 0.95,
    alphas: Sequence[float] = (),
    shifts: Sequence[float] = (),
    groups: Any = None,
    max_error: Any = None,
    subgroups: Any = None,
    rates: Any = None,
    equal_rows: EqualRows = "copies",
) -> Certificate:
    """Bound a classifier's errors on new rows, from rows in Dask collections.

    The bounds are those that `tailboost.certify` gives for the same rows in memory. They depend on the rows
    through counts of labels, groups, deferred rows and losses, which are added over the partitions. At the
    end the losses of all rows are in memory, some 40 bytes a row. A model that was fitted within limits has
    these bounded. Rates of a randomised rule, and costs of rows, are bounded by `tailboost.certify` alone.

    Parameters
    ----------
    model : fitted classifier or pipeline
        With ``classes_``: one of `tailboost.dask`, or of one machine.
    X, y : Dask array or data frame of shape (n, d), (n,)
        Rows that had no part in making the model, and their labels, cut at the same rows.
    groups : Dask array of shape (n,) or (n, c), column or data frame, optional
        Groups of the rows.
    confidence, alphas, shifts, max_error, subgroups, rates, equal_rows
        As in `tailboost.certify`.

    Raises
    ------
    LeakageError
        If rows were fitted on, or the shares of the mixture chosen on them (where the model knows).
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
            "rates of a randomised rule, and costs of rows, are bounded by tailboost.certify, for rows in "
            "memory; rates=() bounds errors here"
        )
    blocks = partitions(X, DaskColumn("y", y), DaskColumn("groups", groups))
    delayed, shared = dask.delayed(_judge, pure=False), dask.delayed(model)
    judged = [found for found in dask.compute(*(delayed(shared, *block) for block in blocks)) if found]
    if not judged:
        raise ValueError("X holds no rows")
    final, known = last_step(model), None
    if judged[0][1] is not None:
        known = np.sum([counts for _, counts, _ in judged], axis=0)
        final.refuse_seen(known, equal_rows=equal_rows)
    table = added([found for found, _, _ in judged])
    times = table[WEIGHT].to_numpy().astype(np.intp)
    y_all, answers = (np.repeat(values_of(table, name), times) for name in ("y", "answers"))
    classes = label_column(model.classes_, "classes_")
    listed = subgroups if isinstance(subgroups, Mapping) or subgroups is None else {"group": subgroups}
    scored = replace(
        fresh_rows(
            classes[answers],
            None,
            y_all,
            _groups(groups, table, times),
            [one.rate for one in stated],
            () if stated else None,
            equal_rows=equal_rows,
            subgroups={**(listed or {}), "class": classes},
            fitted=final,
            deferred=np.repeat(values_of(table, "deferred"), times) if can_defer(final) else None,
        ),
        drawn=np.repeat(values_of(table, "losses"), times) if len(rules) > 1 else None,
        rules=() if stated else rules,
        repeated=known,
        complete=known is not None and final.seen_rows_.complete,
    )
    sketch = Fingerprint.merged([short for _, _, short in judged])
    cert = certificate_of(scored, stated, max_error, asked, model, sketch)
    return replace(cert, notes=(*cert.notes, NOT_COUNTED))


def _groups(groups: Any, table: Any, times: Any) -> Any:
    if groups is None:
        return None
    found = np.repeat(values_of(table, "groups"), times, axis=0)
    if not hasattr(groups, "columns"):
        return found
    columns = [found] if found.ndim == 1 else list(found.T)
    return dict(zip(groups.columns, columns, strict=True))


def _judge(model: Any, X: Any, y: Any, groups: Any) -> tuple[Any, Any, Any] | None:
    """Return counts of labels, groups and losses of a partition, of known rows, and its fingerprints.

    None for a partition without rows.
    """
    if not len(y):
        return None
    labels: Labels = label_column(y, "y")
    classes = label_column(model.classes_, "classes_")
    check_same_kind(labels, "y", classes, "classes_ of the model")
    positions(labels, classes, "y")
    final, table = final_step(model, X)
    known = final.count_known(table) if hasattr(final, "seen_rows_") else None
    answers = positions(answers_of(model, X, "predict", groups), classes, "answers")
    columns = [("y", labels), ("answers", answers)]
    if len(rules_of(final)) > 1:
        shares = answers_of(model, X, "randomised", groups)
        columns.append(("losses", expected_zero_one_losses(labels, shares, labels=classes)))
    if can_defer(final):
        columns.append(("deferred", final.defers(table, **group_arguments(final, groups)).astype(np.intp)))
    columns += [] if groups is None else [("groups", groups)]
    return count(*columns), known, shortest(hash_rounded_rows(X))


def calibrate(model: Any, X_cal: Any, y_cal: Any, *, groups: Any = None, **options: Any) -> Any:
    """Return the cheapest point of a trade-off that rows in Dask collections certify.

    The sequence of points is fixed before the rows are read. The rows come to the client: a calibration needs
    some thousands of rows of each subgroup, see `tailboost.rates.bounds.rows_needed`.

    Parameters
    ----------
    model : classifier
        One of tailboost's, with ``tradeoff``; of `tailboost.dask` or of one machine.
    X_cal, y_cal : Dask array or data frame of shape (n, d), (n,)
        Fresh rows and their labels, cut at the same rows.
    groups : Dask array of shape (n,) or (n, c), column or data frame, optional
        Groups of the rows.
    **options
        As in `tailboost.calibrate`, for example ``limits``, ``max_error`` and ``confidence``.

    Returns
    -------
    classifier
        As from `tailboost.calibrate`, with its ``certificate_``.

    Raises
    ------
    NotCertifiedError
        If the safest point is not certified.
    LeakageError
        If rows took part in making the model.
    """
    model = model.to_local() if hasattr(model, "to_local") else model
    partitions(
        X_cal, DaskColumn("y_cal", y_cal), DaskColumn("groups", groups)
    )  # refuses rows that do not belong together
    X, y, of = dask.compute(X_cal, y_cal, groups)
    return local_calibrate(model, X, y, groups=of, **options)
