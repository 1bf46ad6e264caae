"""Drift of columns between the rows of a batch and the rows of reference, without labels.

Drift is a change of the rows. Evidence for a change of errors needs labels.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from scipy.stats import chi2_contingency, fisher_exact

from tailboost.core.array_types import Column, Floats, Ints, Table
from tailboost.core.checks import as_pandas, is_missing
from tailboost.rows.schema import dtype_kind, group_name

__all__ = ["Drift", "Reference"]

# Parts of a numeric column, cut at quantiles of the reference; text values with a count each.
PARTS = 10
VALUES = 30
# Smallest population stability index (PSI) of a moved column: a rule of thumb of credit scoring.
LEAST_PSI = 0.1
# Smallest number of rows in each part of either table of a χ² test (Cochran's rule). Rarer parts are pooled.
# With this rule some column "moved" in 15 % of series of six batches of 30 rows without a change.
FEWEST = 5.0
MISSING = "missing"
# Place of the other values among the counts of a column; the missing values are last.
OTHER_VALUES = -2


@dataclass(frozen=True)
class Drift:
    """Distance of one column of a batch from the reference."""

    column: str
    psi: float  # ≥ 0: population stability index Σ (p − q) log(p/q) over the parts
    p_value: float  # in [0, 1]: approximate, of a χ² test for equal populations
    # Whether the test rejects at a level for all columns and batches together, and the index is ≥ .1.
    moved: bool


@dataclass(frozen=True)
class Reference:
    """Counts of the rows of reference by column. The rows themselves are not kept."""

    # Of each column its ``cuts`` (numbers) or ``values`` (text), and its ``counts``: of the parts or values,
    # of the other values, and of the missing ones.
    columns: dict[str, dict[str, Any]]

    @classmethod
    def of(cls, columns: Mapping[str, Any]) -> Self:
        """Return the counts of columns, each an array of shape (n,)."""
        counted: dict[str, dict[str, Any]] = {}
        for name, column in columns.items():
            numbers = _numbers(column)
            if numbers is None:
                values, counts = np.unique(_texts(column), return_counts=True)
                frequent = values[np.argsort(-counts, kind="stable")][:VALUES].tolist()
                counted[name] = {"values": [value for value in frequent if value != MISSING]}
            else:
                finite = numbers[np.isfinite(numbers)]
                parts = np.linspace(0, 1, PARTS + 1)[1:-1]
                if len(finite):
                    cuts = np.unique(np.quantile(finite, parts)).tolist()
                else:
                    cuts = []
                counted[name] = {"cuts": cuts}
            counted[name]["counts"] = _counts(column, counted[name]).tolist()
        return cls(counted)

    @classmethod
    def from_dict(cls, state: Mapping[str, Any]) -> Self:
        """Return a reference written by `dataclasses.asdict`.

        Raises
        ------
        KeyError, TypeError, ValueError
            If the state is damaged.
        """
        columns: dict[str, dict[str, Any]] = {}
        for name, column in state["columns"].items():
            if "cuts" in column:
                kind = "cuts"
            else:
                kind = "values"
            parts = [(float if kind == "cuts" else str)(each) for each in column[kind]]
            counts = [float(count) for count in column["counts"]]
            # The parts, the other values, the missing values; numbers have one part more than cuts.
            if len(counts) != len(parts) + (3 if kind == "cuts" else 2):
                raise ValueError(f"column {name!r} has {len(counts)} counts")
            columns[str(name)] = {kind: parts, "counts": counts}
        return cls(columns)

    def drift(self, columns: Mapping[str, Any], level: float) -> list[Drift]:
        """Compare the columns of a batch with those of the reference; only common columns count.

        ``level`` is about the probability of any false alarm among columns without a change.
        """
        shared = {name: column for name, column in self.columns.items() if name in columns}
        drifts = []
        for name, column in shared.items():
            psi, p = _compared(
                np.array(column["counts"]), _counts(columns[name], column), "cuts" in column
            )
            drifts.append(Drift(name, psi, p, p <= level / len(shared) and psi >= LEAST_PSI))
        return drifts


def columns_of(X: Table) -> dict[str, Any]:
    """Return the columns of a table by name; columns of an array are called x0, x1 and so on."""
    X = as_pandas(X)
    if hasattr(X, "columns"):
        return {str(name): X[name] for name in X}
    if hasattr(X, "toarray"):
        X = X.toarray()
    else:
        X = np.asarray(X)
    if X.ndim == 2:
        return {f"x{j}": X[:, j] for j in range(X.shape[1])}
    return {}


def _numbers(column: Column) -> Floats | None:
    """Return a numeric column as float64, NaN for missing values; None for other columns."""
    if not hasattr(column, "dtype") or dtype_kind(column.dtype) not in ("number", "truth"):
        return None
    try:
        return np.asarray(column, dtype=np.float64)
    except (TypeError, ValueError):  # nullable types of pandas
        return np.asarray(column.to_numpy(dtype=np.float64, na_value=np.nan))


def _texts(column: Column) -> Any:
    """Return a column as text, "missing" for missing values."""
    values: Iterable[Any] = column.tolist() if hasattr(column, "tolist") else column
    return np.array([MISSING if is_missing(v) else group_name(v) for v in values], dtype=str)


def _counts(column: Column, parts: Mapping[str, Any]) -> Floats:
    """Return the number of rows in each part of a column, with other values, and without a value."""
    if "cuts" in parts:
        numbers = _numbers(column)
        K = len(parts["cuts"]) + 1
        if numbers is None:  # the column is text now: all its values are other values
            return np.array([0.0] * K + [float(len(column)), 0.0])
        part = np.searchsorted(parts["cuts"], numbers, side="left")
        absent = np.isnan(numbers)
        inside = np.bincount(part[~absent], minlength=K)[:K]
        return np.r_[inside, 0.0, absent.sum()].astype(np.float64)
    place = {value: j for j, value in enumerate(parts["values"])}
    K = len(place)
    place[MISSING] = K + 1
    counts = np.zeros(K + 2)
    for value, count in zip(*np.unique(_texts(column), return_counts=True), strict=True):
        counts[place.get(str(value), K)] += count
    return counts


def _compared(before: Floats, now: Floats, ordered: bool) -> tuple[float, float]:
    """Return the stability index, half a row added to each part, and the p-value of two rows of counts.

    ``ordered`` marks the parts of a numeric column.
    """
    used = before + now > 0
    if used.sum() < 2 or not now.sum() or not before.sum():
        return 0.0, 1.0
    p, q = ((counts[used] + 0.5) / (counts[used] + 0.5).sum() for counts in (before, now))
    return float(((p - q) * np.log(p / q)).sum()), _p_value(before, now, ordered)


def _p_value(before: Floats, now: Floats, ordered: bool) -> float:
    """Return a p-value by a χ² test of the common parts; an exact test compares the rare parts with the rest.

    Rare parts with enough rows together are one part of the χ² test. Otherwise the p-value is twice the
    smaller one. The reference alone decides which parts are rare: the batch would favour parts
    with few rows by chance. With two parts the test is Fisher's exact test.
    """
    counts = np.array([before, now])
    total = counts.sum(axis=1)
    scale = min(1.0, total[1] / total[0])
    part = _joined(before * scale, ordered)
    common = np.array([np.bincount(part[part >= 0], row[part >= 0]) for row in counts])
    rare = counts[:, part < 0].sum(axis=1)
    if rare[0] * scale >= FEWEST:
        common = np.column_stack([common, rare])
        rare = np.zeros(2)
    common = common[:, common.any(axis=0)]
    if common.shape[1] > 1 and common.sum(axis=1).all():
        tables = [common]
    else:
        tables = []
    tables += [np.column_stack([rare, total - rare])] if rare.any() else []
    tests = (
        fisher_exact(t.astype(np.int64)) if t.shape[1] == 2 else chi2_contingency(t)
        for t in tables
    )
    p_values = [float(test.pvalue) for test in tests]
    if p_values:
        return min(1.0, len(p_values) * min(p_values))
    return 1.0


def _joined(expected: Floats, ordered: bool) -> Ints:
    """Return the part of the test of each count, from the expected number of rows; −1 for rare ones.

    Neighbouring parts of a range are joined until they have `FEWEST` rows. Text values with fewer rows are
    rare, except the most frequent one. The other values are always rare: the reference chose the values with
    a part, so its count of other values is too small.
    """
    of_values = expected[:OTHER_VALUES]
    parts = np.full(len(expected), -1)
    if not ordered:
        common = of_values >= min(FEWEST, of_values.max(initial=0.0))
        parts[:OTHER_VALUES][common] = np.arange(common.sum())
    else:
        most = max(1, int(of_values.sum() / FEWEST))
        middle = np.cumsum(of_values) - of_values / 2
        parts[:OTHER_VALUES] = np.minimum(middle / max(of_values.sum(), 1e-9) * most, most - 1)
        parts[:OTHER_VALUES] = np.unique(parts[:OTHER_VALUES], return_inverse=True)[1]
    if expected[-1] >= FEWEST:
        parts[-1] = parts.max() + 1
    return parts
