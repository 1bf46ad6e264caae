"""Drift of columns: how far the rows of a batch are from rows of reference, without any label.

It says that rows changed, not that errors did: a weaker statement than evidence by labels.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any, Self

import numpy as np
from scipy.stats import chi2_contingency, fisher_exact

from tailboost.core.array_types import Floats, Ints
from tailboost.core.checks import as_pandas

__all__ = ["Drift", "Reference"]

# Parts that a number's range is cut into, at quantiles of the reference, and values of a text that are told
# apart; the others are one.
PARTS, VALUES = 10, 30
# Rule of thumb of credit scoring for a population stability index (PSI): below .1 nobody acts on it.
LEAST_PSI = 0.1
# Rows that a χ² test needs in each part of either table: the usual rule (Cochran). Rarer parts are pooled.
# With them, some column "moved" in 15 % of series of six batches of 30 rows without a change.
FEWEST = 5.0
MISSING = "missing"
# Place of the other values among the counts of a column; the missing ones are last.
OTHER_VALUES = -2


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

    @classmethod
    def from_dict(cls, state: Mapping[str, Any]) -> Self:
        """Return the reference that `to_dict` describes.

        Raises
        ------
        KeyError, TypeError, ValueError
            If it is none.
        """
        found: dict[str, dict[str, Any]] = {}
        for name, column in state["columns"].items():
            kind = "cuts" if "cuts" in column else "values"
            read: Any = float if kind == "cuts" else str
            about = [read(each) for each in column[kind]]
            counts = [float(count) for count in column["counts"]]
            # Parts, then other values, then missing ones; numbers have one part more than cuts.
            if len(counts) != len(about) + (3 if kind == "cuts" else 2):
                raise ValueError(f"column {name!r} has {len(counts)} counts")
            found[str(name)] = {kind: about, "counts": counts}
        return cls(found)

    def drift(self, columns: Mapping[str, Any], level: float) -> list[Drift]:
        """Compare a batch with the reference, in its order; columns that only one of them has are left alone.

        ``level`` is the probability, about, that any column is called moved without a change.
        """
        shared = [name for name in self.columns if name in columns]
        found = []
        for name in shared:
            before = np.asarray(self.columns[name]["counts"], dtype=np.float64)
            about = self.columns[name]
            psi, p = _compared(before, _counts(columns[name], about), "cuts" in about)
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


def _compared(before: Floats, now: Floats, ordered: bool) -> tuple[float, float]:
    """Return the stability index, half a row added to each part, and the p-value of two rows of counts.

    ``ordered`` says whether the parts are those of a range of numbers.
    """
    used = before + now > 0
    if used.sum() < 2 or not now.sum() or not before.sum():
        return 0.0, 1.0
    p, q = ((counts[used] + 0.5) / (counts[used] + 0.5).sum() for counts in (before, now))
    return float(((p - q) * np.log(p / q)).sum()), _p_value(before, now, ordered)


def _p_value(before: Floats, now: Floats, ordered: bool) -> float:
    """Return a p-value by a χ² test of the common parts; an exact test compares the rare ones with the rest.

    If the rare parts have enough rows together, they are one part of the χ² test. Else the p-value is twice
    the smaller one. The batch does not decide what is rare: it would prefer parts that are rare in it by
    chance. Of two parts the test is exact, too (Fisher's).
    """
    counts = np.array([before, now])
    total = counts.sum(axis=1)
    scale = min(1.0, total[1] / total[0])
    part = _joined(before * scale, ordered)
    common = np.array([np.bincount(part[part >= 0], row[part >= 0]) for row in counts])
    rare = counts[:, part < 0].sum(axis=1)
    if rare[0] * scale >= FEWEST:
        common, rare = np.column_stack([common, rare]), np.zeros(2)
    common = common[:, common.any(axis=0)]
    tables = [common] if common.shape[1] > 1 and common.sum(axis=1).all() else []
    tables += [np.column_stack([rare, total - rare])] if rare.any() else []
    found = [
        float(
            (fisher_exact(table.astype(np.int64)) if table.shape[1] == 2 else chi2_contingency(table)).pvalue
        )
        for table in tables
    ]
    return min(1.0, len(found) * min(found)) if found else 1.0


def _joined(expected: Floats, ordered: bool) -> Ints:
    """Return the part of the test that each count is in, by the rows expected there; −1 for rare ones.

    Neighbouring parts of a range are joined until they have `FEWEST` rows. Values of text that have fewer are
    rare, but for the most frequent one. Other values always are: the reference itself chose which values
    have a part, so that it has too few others.
    """
    of_values = expected[:OTHER_VALUES]
    found = np.full(len(expected), -1)
    if not ordered:
        common = of_values >= min(FEWEST, of_values.max(initial=0.0))
        found[:OTHER_VALUES][common] = np.arange(common.sum())
    else:
        # Never more parts than multiples of the least number fit in.
        most = max(1, int(of_values.sum() / FEWEST))
        middle = np.cumsum(of_values) - of_values / 2
        found[:OTHER_VALUES] = np.minimum(middle / max(of_values.sum(), 1e-9) * most, most - 1)
        found[:OTHER_VALUES] = np.unique(found[:OTHER_VALUES], return_inverse=True)[1]
    if expected[-1] >= FEWEST:
        found[-1] = found.max() + 1
    return found
