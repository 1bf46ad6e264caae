"""Training tables, with warnings about suspicious columns."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from sklearn.metrics import balanced_accuracy_score
from sklearn.tree import DecisionTreeClassifier

from tailboost import datasets
from tailboost.app.cli.models import MOST_NUMBERS, NewRows, are_numbers, many_numbers_as_groups
from tailboost.app.cli.options import CSV, CsvFormat
from tailboost.app.cli.shared import BadInput, bad_input, warn, warnings_as_lines
from tailboost.app.datasets import TableSchema
from tailboost.core.array_types import Column, Groups
from tailboost.core.checks import MISSING_GROUP
from tailboost.core.spelling import shell_word
from tailboost.rows.persons import names_persons, warn_of_persons
from tailboost.rows.schema import dtype_kind

FEWEST_ROWS = 50  # with fewer rows a column may look like an id or a leak by chance
CLASSES_TESTED = 50  # with more classes no column is tested for a leak
ROWS_TESTED = 10_000  # rows on which each column is tested for a leak
ID_DISTINCT = 0.95  # a text column with at least this fraction of distinct values is an id; names may repeat
LEAK_ACCURACY = 0.98  # a column with at least this balanced accuracy alone is suspicious


def read_to_fit(
    data: Path,
    target: str,
    group: Sequence[str] | None,
    drop: Sequence[str] | None,
    keep: Sequence[str] | None,
    cluster: str | None = None,
    csv: CsvFormat = CSV,
    weight: str | None = None,
    text: Sequence[str] | None = None,
) -> Any:
    """Read a training table as `load_table` does, and warn of suspicious columns.

    The table has three more fields. ``no_features`` are the names of columns that are no features: ``drop``,
    ``cluster`` and ids. ``kept`` are the features of ``keep``, which are no ids. ``clusters`` is the cluster
    of each row; it is None if no two rows share a cluster, or a cluster is missing.
    """
    no_features = list(drop or [])
    if cluster is not None:
        no_features.append(cluster)
    with bad_input(), warnings_as_lines():
        table = datasets.load_table(
            data,
            target,
            group=group or (),
            drop=no_features,
            text=text or (),
            weight=weight,
            text_labels=True,
            **csv._asdict(),
        )
    ids = _id_columns(table.data, keep or [])
    table.data = table.data.drop(columns=ids)
    table.schema = TableSchema(
        tuple(column for column in table.schema.columns if column.name not in ids),
        table.schema.target,
    )
    if any(MISSING_GROUP in table.groups[name].cat.categories for name in group or ()):
        file = datasets.read_raw(data, *csv)
        NewRows(file, table.data, data, list(group or ())).tell_of_empty_groups()
    for alert in _alerts(table.data, table.target, table.groups):
        warn(alert)
    table.no_features = [*no_features, *ids]
    table.kept = list(keep or [])
    table.clusters = None
    if cluster is None:
        dropped = [name for name in drop or () if names_persons(name)]
        candidates = table.data.drop(columns=[*(keep or ()), *(group or ())], errors="ignore")
        if dropped:
            candidates = candidates.join(datasets.read_raw(data, *csv)[dropped])
        with warnings_as_lines():
            warn_of_persons(candidates, features=list(table.data))
    else:
        clusters = datasets.read_raw(data, *csv)[cluster]
        if not (clusters.is_unique or clusters.isna().any()):
            table.clusters = clusters.astype(str).to_numpy()
    return table


def _id_columns(features: Any, keep: Sequence[str]) -> list[str]:
    """Return the names of columns that look like ids, with a warning for each; --keep excepts some."""
    for name in keep:
        if name not in features:
            raise BadInput(
                f"--keep: there is no feature {name!r}; features are {', '.join(features)}"
            )
    ids = [name for name in features if name not in keep and _looks_like_an_id(features[name])]
    if len(ids) == features.shape[1]:
        raise BadInput(
            f"every feature looks like an id ({', '.join(ids)}); name the real ones with --keep"
        )
    for name in ids:
        warn(
            f"column {name!r} looks like an id (nearly all values differ) and is not used as "
            f"a feature; --keep {shell_word(name)} uses it"
        )
    return ids


def _alerts(data: Any, y: Column, groups: Groups) -> Iterator[str]:
    """Yield warnings about a training table: features ``data``, labels ``y``, and columns of groups.

    They are about groups that determine the class, many numeric classes, codes as text, and data leakage.
    """
    for name in () if groups is None else groups:
        if warning := many_numbers_as_groups("--group", groups[name]):
            yield warning
        classes_of_group = pd.Series(y).groupby(groups[name].to_numpy()).nunique()
        if (classes_of_group == 1).all():
            yield (
                f"--group {shell_word(name)}: every group has one class only; the groups add "
                "nothing to the classes"
            )
    classes = np.unique(y)
    if len(classes) > MOST_NUMBERS and are_numbers(classes):
        yield (
            f"the target has {len(classes)} different numbers, and each is a class here; if "
            "the target is a quantity, divide it into a few ranges first"
        )
    for name in data:
        if dtype_kind(data[name].dtype) != "categories":
            continue
        texts = data[name].cat.categories
        # Without leading zeros, as in 01234, these texts would be a column of numbers.
        has_leading_zero = any(re.match(r"[+-]?0\d", str(text)) for text in texts)
        if has_leading_zero and are_numbers(texts):
            yield f"column {name!r} has numbers with leading zeros: they are codes and are read as text"
    if len(y) >= FEWEST_ROWS and len(classes) <= CLASSES_TESTED:
        yield from _leaks(data, y)


def _leaks(data: Any, y: Column) -> Iterator[str]:
    """Yield a warning for each feature that alone predicts nearly all rows of a random sample."""
    sampled_rows = np.random.default_rng(0).permutation(len(y))[:ROWS_TESTED]
    for name in data:
        accuracy = _accuracy_alone(data[name].iloc[sampled_rows], y[sampled_rows])
        if accuracy >= LEAK_ACCURACY:
            yield (
                f"column {str(name)!r} alone predicts {accuracy:.1%} of the rows correctly "
                "(mean over classes); if its value is known only after the target, drop it: "
                f"--drop {shell_word(name)}"
            )


def _looks_like_an_id(column: Column) -> bool:
    """Return whether a column has distinct whole numbers, or nearly distinct texts."""
    n_rows = len(column)
    if n_rows < FEWEST_ROWS or column.isna().any():  # an id is never missing
        return False
    if column.dtype.kind in "iu":
        return bool(column.is_unique)
    is_text = dtype_kind(column.dtype) == "categories"
    return is_text and column.nunique() >= ID_DISTINCT * n_rows


def _accuracy_alone(column: Column, y: Column) -> float:
    """Return the balanced accuracy with which one column predicts the labels y of the same rows.

    A numeric column gets a small tree. A text column predicts the most frequent class of each common value.
    """
    n_classes = len(np.unique(y))
    if n_classes < 2:
        return 0.0
    if dtype_kind(column.dtype) == "categories":
        rows_of_value = column.map(column.value_counts()).astype(float)
        # A rare value identifies its rows, which is no leak.
        common_values = column.where(rows_of_value >= 5).astype(object).fillna("")
        labels_by_value = pd.Series(y).groupby(common_values.to_numpy())
        answers = labels_by_value.transform(lambda labels: labels.mode()[0]).to_numpy()
    else:
        # A tree needs ranks only, and its values are limited to 32 bits.
        ranks = column.rank().to_numpy(dtype=np.float64).reshape(-1, 1)  # one feature
        tree = DecisionTreeClassifier(
            max_leaf_nodes=2 * n_classes, min_samples_leaf=2, random_state=0
        )
        answers = tree.fit(ranks, y).predict(ranks)
    return float(balanced_accuracy_score(y, answers))
