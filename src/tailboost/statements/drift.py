"""Drift of columns: how far the rows of a batch are from rows of reference, without any label.

It says that rows changed, not that errors did: a weaker statement than evidence by labels.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any, Self

import numpy as np
from scipy.stats import chi2_contingency

from tailboost._checks import as_pandas
from tailboost._typing import Floats

__all__ = ["Drift", "Reference"]

# Parts that a number's range is cut into, at quantiles of the reference, and values of a text that are told
# apart; the others are one.
PARTS, VALUES = 10, 30
# Rule of thumb of credit scoring for a population stability index (PSI): below .1 nobody acts on it.
LEAST_PSI = 0.1
MISSING = "missing"


@dataclass(frozen=True)
class Drift:
    """How far one column of a batch is from the reference."""

    column: str
    psi: float  # ≥ 0: population stability index: Σ (p − q) log(p/q) over its parts
    p_value: float  # in [0, 1]: of a χ² test that both are draws from one population: approximate
    # Whether that is beyond chance, allowing for all columns and batches, and the index is at least .1.
    moved: bool


@dataclass(frozen=True)
class Reference:
    """Counts of the rows of reference by column: all that is kept of them."""

    # Of each column its ``cuts`` (of numbers) or ``values`` (of text), and its ``counts``: of the parts or
    # values, then of the other values, then of the missing ones.
    columns: dict[str, dict[str, Any]]

    @classmethod
    def of(cls, columns: Mapping[str, Any]) -> Self:
        """Return the counts of columns, each an array of shape (n,)."""
        found: dict[str, dict[str, Any]] = {}
        for name, column in columns.items():
            numbers = _numbers(column)
            if numbers is None:
                values, counts = np.unique(_texts(column), return_counts=True)
                kept = values[np.argsort(-counts, kind="stable")][:VALUES].tolist()
                found[name] = {"values": [value for value in kept if value != MISSING]}
            else:
                known = numbers[np.isfinite(numbers)]
                parts = np.linspace(0, 1, PARTS + 1)[1:-1]
                found[name] = {"cuts": np.unique(np.quantile(known, parts)).tolist() if len(known) else []}
            found[name]["counts"] = _counts(column, found[name]).tolist()
        return cls(found)

    def drift(self, columns: Mapping[str, Any], level: float) -> list[Drift]:
        """Compare a batch with the reference, in its order; columns that only one of them has are left alone.

        ``level`` is the probability, about, that any column is called moved without a change.
        """
        shared = [name for name in self.columns if name in columns]
        found = []
        for name in shared:
            before = np.asarray(self.columns[name]["counts"], dtype=np.float64)
            psi, p = _compared(before, _counts(columns[name], self.columns[name]))
            found.append(Drift(name, psi, p, p <= level / len(shared) and psi >= LEAST_PSI))
        return found

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain types, for JSON."""
        return asdict(self)


def columns_of(X: Any) -> dict[str, Any]:
    """Return the columns of a table by name; those of an array are called x0, x1 and so on."""
    X = as_pandas(X)
    if hasattr(X, "columns"):
        return {str(name): X[name] for name in X}
    X = X.toarray() if hasattr(X, "toarray") else np.asarray(X)
    return {f"x{j}": X[:, j] for j in range(X.shape[1])} if X.ndim == 2 else {}


def _numbers(column: Any) -> Floats | None:
    """Return a column as float64, NaN where values are missing; None where it is no column of numbers."""
    kind = getattr(getattr(column, "dtype", None), "kind", "O")
    try:
        if kind in "iufb":
            return np.asarray(column, dtype=np.float64)
    except (TypeError, ValueError):  # pandas' own types with missing values
        return np.asarray(column.to_numpy(dtype=np.float64, na_value=np.nan))
    return None


def _texts(column: Any) -> Any:
    """Return a column as text, with a word for what is missing."""
    values: Iterable[Any] = column.tolist() if hasattr(column, "tolist") else column
    missing = [value is None or value != value for value in values]
    return np.array([MISSING if gone else str(v) for gone, v in zip(missing, values, strict=True)], dtype=str)


def _counts(column: Any, about: Mapping[str, Any]) -> Floats:
    """Return the rows in each part of a column, of other values, and without a value."""
    if "cuts" in about:
        numbers = _numbers(column)
        if numbers is None:  # what was a number is text now: none of its values is known
            return np.array([0.0] * (len(about["cuts"]) + 1) + [float(len(column)), 0.0])
        part = np.searchsorted(about["cuts"], numbers, side="left")
        K, gone = len(about["cuts"]) + 1, np.isnan(numbers)
        inside = np.bincount(part[~gone], minlength=K)[:K]
        return np.r_[inside, 0.0, gone.sum()].astype(np.float64)
    place = {value: j for j, value in enumerate(about["values"])}
    K = len(place)
    place[MISSING] = K + 1
    values, counts = np.unique(_texts(column), return_counts=True)
    found = np.zeros(K + 2)
    for value, count in zip(values.tolist(), counts.tolist(), strict=True):
        found[place.get(value, K)] += count
    return found


def _compared(before: Floats, now: Floats) -> tuple[float, float]:
    """Return the stability index, half a row added to each part, and the p-value of two rows of counts."""
    used = before + now > 0
    if used.sum() < 2 or not now.sum() or not before.sum():
        return 0.0, 1.0
    before, now = before[used], now[used]
    p, q = ((counts + 0.5) / (counts + 0.5).sum() for counts in (before, now))
    return float(((p - q) * np.log(p / q)).sum()), float(chi2_contingency(np.array([before, now])).pvalue)
