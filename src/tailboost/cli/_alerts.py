"""What is suspicious about a table before anything is fitted on it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd
from sklearn.metrics import balanced_accuracy_score
from sklearn.tree import DecisionTreeClassifier

FEWEST_ROWS = 50  # below, a column may look like anything by chance
MOST_CLASSES = 50
SAMPLE = 10_000
# Of the values of a text column, the share that must be distinct for an id; names may be shared by a few.
DISTINCT = 0.95
# Mean over the classes of the share told right by one column alone, above which it is suspicious.
TOLD = 0.98


def alerts(data: Any, y: Any, groups: Any = None) -> Iterator[str]:
    """Yield a sentence for each column that looks like an id, a leak, or the target itself.

    Parameters
    ----------
    data : DataFrame of shape (n, d)
        Features, as from `tailboost.datasets.load_table`.
    y : ndarray of shape (n,)
        Labels.
    groups : DataFrame of shape (n, g), optional
        Groups.
    """
    for name in () if groups is None else groups:
        if (pd.Series(y).groupby(groups[name].to_numpy()).nunique() == 1).all():
            yield f"--group {name}: every group holds one class only; such groups are the classes again"
    if len(y) < FEWEST_ROWS:
        return
    few = np.random.default_rng(0).permutation(len(y))[:SAMPLE]
    leaks_can_be_seen = len(np.unique(y)) <= MOST_CLASSES
    for name in data:
        told = _told_by(data[name].iloc[few], y[few]) if leaks_can_be_seen else 0.0
        is_id = _looks_like_an_id(data[name])
        if told >= TOLD:
            why = (
                "its values are all different, and the rows seem to be sorted by class"
                if is_id
                else ("is it known before the target is?")
            )
            yield (
                f"column {str(name)!r} alone tells the class of {told:.1%} of the rows (mean over the "
                f"classes): {why}; if it is no feature, --drop {name}"
            )
        elif is_id:
            yield (
                f"column {str(name)!r} looks like an id (nearly every value occurs once): --drop {name} or "
                f"--id {name}"
            )


def _looks_like_an_id(column: Any) -> bool:
    """Whether whole numbers are all different, or texts nearly all."""
    if len(column) < FEWEST_ROWS or column.isna().any():
        return False
    if column.dtype.kind in "iu":
        return bool(column.is_unique)
    return column.dtype == "category" and column.nunique() >= DISTINCT * len(column)


def _told_by(column: Any, y: Any) -> float:
    """Return what one column tells by a few limits or common values: mean share of a class told right."""
    classes = len(np.unique(y))
    if classes < 2:
        return 0.0
    if column.dtype == "category":
        counts = column.value_counts()
        # A value that occurs once tells its row's class, and nothing else.
        codes = column.where(column.map(counts).astype(float) >= 5).astype(object).fillna("")
        told = pd.Series(y).groupby(codes.to_numpy()).transform(lambda part: part.mode()[0]).to_numpy()
        return float(balanced_accuracy_score(y, told))
    # A tree asks the order of values alone, and takes none beyond those of 32 bits.
    values = column.rank().to_numpy(dtype=np.float64)[:, None]
    tree = DecisionTreeClassifier(max_leaf_nodes=2 * classes, min_samples_leaf=2, random_state=0)
    return float(balanced_accuracy_score(y, tree.fit(values, y).predict(values)))
