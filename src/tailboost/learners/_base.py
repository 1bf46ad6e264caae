"""What the game asks of a learner: open the data once, then fit as often as asked."""

from __future__ import annotations

from collections import deque
from collections.abc import Generator, Iterable
from contextlib import closing
from itertools import islice
from typing import Any, Protocol

import numpy as np
from sklearn.dummy import DummyClassifier

from tailboost._typing import Floats, Ints, Mask


class Session(Protocol):
    """A learner with its data opened. Labels are class numbers 0 … K − 1.

    ``concurrent`` says whether several fits may run at the same time. A session whose learner can grow has
    ``stages(weight, seed, rows=None)`` besides, an iterator of ever stronger classifiers, each grown warm
    from the one before; a yielded one is good until the next is drawn, the last one drawn for ever. How often
    and when others are fitted in between must not matter.
    """

    concurrent: bool

    def fit(self, weight: Floats, seed: int, rows: Mask | None = None) -> Any:
        """Return a classifier fitted on the rows (all without ``rows``) with these weights, shape (n,)."""

    def predict(self, model: Any, rows: Mask | None = None) -> Ints:
        """Return the class numbers that a model of this session predicts for the opened rows."""


def stages(
    session: Session, weight: Floats, seed: int, rows: Mask | None = None, *, grow: bool = True
) -> Generator[Any]:
    """Yield the stages of a learner; one that cannot grow, or shall not, has the one that ``fit`` gives."""
    if grow and hasattr(session, "stages"):
        yield from session.stages(weight, seed, rows)
    else:
        yield session.fit(weight, seed, rows)


def grown(
    session: Session, n_stages: int, weight: Floats, seed: int, rows: Mask | None = None, *, grow: bool = True
) -> Any:
    """Return the classifier after so many stages, or after all where there are fewer."""
    with closing(stages(session, weight, seed, rows, grow=grow)) as growing:
        return last(islice(growing, n_stages))


def last(drawn: Iterable[Any]) -> Any:
    """Draw everything and return what came last."""
    return deque(drawn, maxlen=1)[0]


def constant(k: int, n_classes: int) -> DummyClassifier:
    """Return the classifier that answers class number ``k`` to every row."""
    labels = np.arange(n_classes)
    return DummyClassifier(strategy="constant", constant=k).fit(np.zeros((n_classes, 1)), labels)
