"""Who carries the worst case: classes, groups and features by how far its weights shift them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from tailboost.core.array_types import Floats, Labels
from tailboost.core.checks import check_length, check_weights, n_rows_of


@dataclass(frozen=True)
class WeightShare:
    """How much of the worst case a class, group or feature value carries.

    Attributes
    ----------
    kind, name : str
        "class", "group" or "feature", and which.
    base, worst : float
        Its share of the base measure and of the worst-case weights; for a number among the features the mean.
    shift : float
        (worst − base) in standard deviations under the base measure.
    """

    kind: str
    name: str
    base: float
    worst: float
    shift: float


def worst_case_profile(
    weights: ArrayLike,
    X: Any,
    y: ArrayLike,
    *,
    groups: Any = None,
    sample_weight: ArrayLike | None = None,
    feature_names: Sequence[str] | None = None,
) -> list[WeightShare]:
    """Who carries the worst case: classes, groups and features by how far the weights shift them.

    Parameters
    ----------
    weights : array-like of shape (n,)
        Weights that sum to 1, such as ``worst_case_weights_``.
    X : DataFrame or array-like of shape (n, d)
        Features; text, category and Boolean columns count value by value.
    y : array-like of shape (n,)
        Labels.
    groups : array-like of shape (n,), or mapping of str to such or DataFrame, default=None
        Groups of the rows, under one or several names.
    sample_weight : array-like of shape (n,), default=None
        The base measure.
    feature_names : sequence of d str, default=None
        What to call the columns of an X without names.

    Returns
    -------
    list of WeightShare
        Classes, then groups, then features; within each the largest shift first.

    Raises
    ------
    ValueError
        If lengths differ or the weights do not sum to 1.
    """
    w = np.asarray(weights, dtype=np.float64)
    grouped = _columns(groups)
    for name, values in {"y": y, **{f"groups {k}".rstrip(): v for k, v in grouped.items()}}.items():
        check_length(values, name, n_rows_of(X))
    check_length(w, "weights", n_rows_of(X))
    if w.ndim != 1 or (w < 0).any() or not np.isclose(w.sum(), 1.0):
        raise ValueError(f"weights must be non-negative and sum to 1, got shape {w.shape}, sum {w.sum():g}")
    p = check_weights(sample_weight, len(w))
    p = p / p.sum()
    shares: list[WeightShare] = []
    for kind, table in (
        ("class", {"": y}),
        ("group", grouped),
        ("feature", _columns(X, feature_names)),
    ):
        found = [s for name, column in table.items() for s in _shares(kind, name, np.asarray(column), w, p)]
        shares += sorted(found, key=lambda s: -abs(s.shift))
    return shares


def _columns(table: Any, names: Sequence[str] | None = None) -> dict[str, Any]:
    if table is None:
        return {}
    if hasattr(table, "columns") or isinstance(table, Mapping):
        return {str(name): table[name] for name in table}
    array = np.asarray(table)
    if array.ndim == 1:
        return {"": array}
    names = [f"feature {j}" for j in range(array.shape[1])] if names is None else names
    return dict(zip(names, array.T, strict=True))


def _shares(kind: str, name: str, column: Labels, w: Floats, p: Floats) -> list[WeightShare]:
    if kind == "feature" and column.dtype.kind in "iuf":
        known = np.isfinite(column)  # missing numbers are left out of the means
        pairs = [(name, column[known].astype(np.float64), w[known], p[known])]
    else:
        values, index = np.unique(column.astype(str), return_inverse=True)
        pairs = [
            (f"{name} = {v}" if name else str(v), (index == j).astype(np.float64), w, p)
            for j, v in enumerate(values)
        ]
    shares = []
    for what, x, w_x, p_x in pairs:
        if not (w_x.sum() > 0 and p_x.sum() > 0):
            continue
        worst, base = np.average(x, weights=w_x), np.average(x, weights=p_x)
        spread = np.sqrt(np.average((x - base) ** 2, weights=p_x))
        shift = (worst - base) / spread if spread > 0 else 0.0
        shares.append(WeightShare(kind, what, float(base), float(worst), float(shift)))
    return shares
