"""What is suspicious about a table before anything is fitted on it."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from sklearn.metrics import balanced_accuracy_score
from sklearn.tree import DecisionTreeClassifier

from tailboost import datasets
from tailboost.app.cli.shared import BadInput, bad_input, warn, warnings_as_lines
from tailboost.app.datasets import TableSchema

FEWEST_ROWS = 50  # below, a column may look like anything by chance
MOST_CLASSES = 50
MOST_AMOUNTS = 20  # classes that are numbers; with more the target may be meant to be a quantity
SAMPLE = 10_000
# Of the values of a text column, the share that must be distinct for an id; names may be shared by a few.
DISTINCT = 0.95
# Mean over the classes of the share told right by one column alone, above which it is suspicious.
TOLD = 0.98


def read_to_fit(
    data: Path, target: str, group: Sequence[str], drop: Sequence[str], keep: Collection[str], **more: Any
) -> tuple[Any, list[str]]:
    """Read a table that is fitted on, and warn of what is suspicious about it.

    Return it, from `tailboost.datasets.load_table`, and the columns that look like ids and are no features.
    """
    with bad_input(), warnings_as_lines():
        table = datasets.load_table(data, target, group=group, drop=drop, text_labels=True, **more)
    ids = _set_ids_aside(table, keep)
    for alert in _alerts(table.data, table.target, table.groups):
        warn(alert)
    return table, ids


def _set_ids_aside(table: Any, keep: Collection[str]) -> list[str]:
    """Drop the features of a table that look like ids but for those to keep, and return their names."""
    for name in keep:
        if name not in table.data:
            raise BadInput(f"--keep: there is no feature {name!r}; it has {', '.join(table.data)}")
    ids = [name for name in table.data if name not in keep and _looks_like_an_id(table.data[name])]
    if len(ids) == table.data.shape[1]:
        raise BadInput(f"every feature looks like an id ({', '.join(ids)}): say with --keep which are none")
    for name in ids:
        warn(
            f"column {name!r} looks like an id (nearly every value occurs once) and is set aside; "
            f"--keep {name} fits on it all the same"
        )
    table.data = table.data.drop(columns=ids)
    table.schema = TableSchema(
        tuple(column for column in table.schema.columns if column.name not in ids), table.schema.target
    )
    return ids


def _alerts(data: Any, y: Any, groups: Any) -> Iterator[str]:
    """Yield a sentence for each column that is a leak or a code, and for a target that is a quantity."""
    for name in () if groups is None else groups:
        if (pd.Series(y).groupby(groups[name].to_numpy()).nunique() == 1).all():
            yield f"--group {name}: every group holds one class only; such groups are the classes again"
    classes = np.unique(y)
    if len(classes) > MOST_AMOUNTS and _are_numbers(classes):
        yield (
            f"the target has {len(classes)} different numbers: if it is a quantity, put it into a few bands "
            "first; each number is a class here"
        )
    for name in data:
        texts = data[name].cat.categories if data[name].dtype == "category" else []
        # A column of text that would be one of numbers if none of them began with 0, as 01234 does.
        if any(re.match(r"[+-]?0\d", str(each)) for each in texts) and _are_numbers(texts):
            yield f"column {name!r} holds numbers that begin with 0: they are codes, and are read as text"
    if len(y) < FEWEST_ROWS or len(classes) > MOST_CLASSES:
        return
    few = np.random.default_rng(0).permutation(len(y))[:SAMPLE]
    for name in data:
        told = _told_by(data[name].iloc[few], y[few])
        if told >= TOLD:
            yield (
                f"column {str(name)!r} alone tells the class of {told:.1%} of the rows (mean over the "
                f"classes): is it known before the target is? If it is no feature, --drop {name}"
            )


def _are_numbers(values: Any) -> bool:
    return bool(pd.to_numeric(pd.Series(values, dtype=object), errors="coerce").notna().all())


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
