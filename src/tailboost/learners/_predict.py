"""Predictions of many members for the same rows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import groupby
from typing import Any

import numpy as np
from sklearn.base import is_regressor

from tailboost._typing import Ints
from tailboost.learners._hist import HistTreeClassifier
from tailboost.learners._merge import ROWS_WORTH_MERGING, predict_trees


def predict_members(members: Iterable[Any], X: Any) -> Iterator[Ints]:
    """Yield the class numbers each member predicts for the rows of ``X``, shape (n,).

    Of a regressor these are values, shape (n,) or (n, K).

    Members that share a prepared table have it prepared once, and one-tree members are asked together.
    """
    prepared: dict[Any, Any] = {}
    for (table, mergeable), run in groupby(members, key=_kind):
        if table is None:
            for member in run:
                said = np.asarray(member.predict(X))
                yield said if is_real(said) and is_regressor(member) else said.astype(np.intp).ravel()
            continue
        if table not in prepared:
            prepared[table] = table.transform(X)
        rows = prepared[table]
        together = list(run)
        if mergeable and len(together) > 1 and rows.shape[0] >= ROWS_WORTH_MERGING:
            yield from predict_trees(together, rows)
        else:
            for member in together:
                yield member.predict_table(rows)


def is_real(answers: Any) -> bool:
    """Whether answers are the values of a real-valued hypothesis instead of class numbers."""
    return bool(answers.dtype.kind == "f")


def _kind(member: Any) -> tuple[Any, bool]:
    mergeable = isinstance(member, HistTreeClassifier) and member.backend_ == "xgboost"
    # Tests for `Prepared` by hand: isinstance is slow for protocols, and this runs per member and prediction.
    return (member.table_ if hasattr(member, "predict_table") else None), mergeable
