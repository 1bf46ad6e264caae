"""The columns of scores of a rule file, for readers with and without scikit-learn."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple


class ScoreColumns(NamedTuple):
    """The columns of scores of a rule file; as a tuple they are part of the digest of a rule."""

    columns: list[str]
    label: Any  # of a single column, or a list with the label of each
    kind: str
    missing: float | None  # the score of rows without one; None: such rows are refused


def columns_of_file(selection: Mapping[str, Any]) -> ScoreColumns:
    """Return the columns of scores from the part "selection" of a rule file; raise ValueError for others."""
    columns = selection["scores"]
    labels = selection["labels"]
    if not all(isinstance(name, str) for name in columns):
        raise ValueError("scores must be names of columns")
    if not columns or len(labels) != len(columns):
        raise ValueError("each score needs a label")
    label = labels[0] if len(columns) == 1 else list(labels)
    return ScoreColumns(list(columns), label, selection["kind"], selection["missing"])
