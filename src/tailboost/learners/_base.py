"""What the game asks of a learner: open the data once, then fit as often as asked."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from sklearn.dummy import DummyClassifier

Floats = NDArray[np.float64]
Ints = NDArray[np.intp]
Mask = NDArray[np.bool_]


class Session(Protocol):
    """A learner with its data opened. Labels are class numbers 0 … K − 1.

    ``concurrent`` says whether several fits may run at the same time.
    """

    concurrent: bool

    def fit(self, weight: Floats, seed: int, rows: Mask | None = None) -> Any:
        """Return a classifier fitted on the rows (all without ``rows``) with these weights, shape (n,)."""

    def predict(self, model: Any, rows: Mask | None = None) -> Ints:
        """Return the class numbers that a model of this session predicts for the opened rows."""


def constant(k: int, n_classes: int) -> DummyClassifier:
    """Return the classifier that answers class number ``k`` to every row."""
    labels = np.arange(n_classes)
    return DummyClassifier(strategy="constant", constant=k).fit(np.zeros((n_classes, 1)), labels)


def predict_members(members: Iterable[Any], X: Any) -> Iterator[Ints]:
    """Yield the class numbers each member predicts for the rows of ``X``, shape (n,).

    Members that share a prepared table have it prepared once.
    """
    prepared: dict[int, Any] = {}
    for member in members:
        table = getattr(member, "table_", None)
        if table is None:
            yield np.asarray(member.predict(X)).astype(np.intp)
            continue
        if id(table) not in prepared:
            prepared[id(table)] = table.transform(X)
        yield member.predict_table(prepared[id(table)])
