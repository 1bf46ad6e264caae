"""One score for all methods: out of fold on the selection data, the mean of the fold models on test rows."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin

from experiments.field._tables import Table

Floats = NDArray[np.float64]

FOLDS = 5


@dataclass(frozen=True)
class Scored:
    """Selection data, test rows, and a score of each.

    Parameters
    ----------
    train, test : Table
    P, Q : ndarray of shape (n, K)
        Class probabilities of the selection data, out of fold, and of the test rows.
    model : Known
        The same as a fitted classifier.
    seconds : float
        Of the processor, for the fits of the score.
    """

    train: Table
    test: Table
    P: Floats
    Q: Floats
    model: Known
    seconds: float


class Known(ClassifierMixin, BaseEstimator):
    """Fitted classifier with stored probabilities, found by the contents of a row.

    Parameters
    ----------
    keys : ndarray of uint64, sorted
        Hashes of the rows.
    P : ndarray of shape (n, K)
        Their probabilities.
    """

    def __init__(self, keys: Any = None, P: Any = None) -> None:
        self.keys, self.P = keys, P

    @property
    def classes_(self) -> Any:
        """The class numbers."""
        return np.arange(self.P.shape[1])

    def fit(self, X: Any, y: Any) -> Known:
        """Learn nothing."""
        return self

    def __sklearn_is_fitted__(self) -> bool:
        return True

    def predict_proba(self, X: Any) -> Floats:
        """Return the stored probabilities of rows.

        Raises
        ------
        KeyError
            If a row has no stored probabilities.
        """
        wanted = hashes(X)
        at = np.minimum(np.searchsorted(self.keys, wanted), len(self.keys) - 1)
        if (self.keys[at] != wanted).any():
            raise KeyError("a row that was not scored")
        return np.asarray(self.P[at], dtype=np.float64)

    def predict(self, X: Any) -> Any:
        """Return the likelier class."""
        return self.predict_proba(X).argmax(axis=1)


def hashes(X: Any) -> NDArray[np.uint64]:
    """Return a hash of the contents of each row of a frame."""
    import pandas as pd

    return pd.util.hash_pandas_object(X, index=False).to_numpy()


def score(
    train: Table, test: Table, make: Callable[[], Any], cache: Path, name: str, unseen: tuple[str, ...] = ()
) -> Scored:
    """Return the score of a model, from the cache if possible.

    Equal rows are in one fold, so no model predicts its training rows.

    Parameters
    ----------
    train, test : Table
    make : callable
        Makes the model.
    cache : Path
        Folder of ``NAME.npz``.
    name : str
    unseen : tuple of str
        Columns hidden from the model.
    """
    train, test = (_without(table, unseen) for table in (train, test))
    keys, ahead = hashes(train.X), hashes(test.X)
    label = hashlib.sha256(keys.tobytes() + ahead.tobytes() + train.y.tobytes()).hexdigest()[:12]
    file = cache / f"{name.replace(' ', '-')}.{label}.npz"
    if file.exists():
        with np.load(file) as kept:
            P, Q, seconds = (kept[x] for x in ("P", "Q", "seconds"))
    else:
        began = time.process_time()
        K = int(train.y.max()) + 1
        P, Q = np.zeros((len(train.y), K)), np.zeros((len(test.y), K))
        fold = keys % np.uint64(FOLDS)
        for k in range(FOLDS):
            model = make().fit(train.X[fold != k], train.y[fold != k])
            P[fold == k] = model.predict_proba(train.X[fold == k])
            Q += model.predict_proba(test.X) / FOLDS
        seconds = np.float64(time.process_time() - began)
        cache.mkdir(parents=True, exist_ok=True)
        np.savez(file, P=P.astype(np.float32), Q=Q.astype(np.float32), seconds=seconds)
    both = np.concatenate([P, Q]).astype(np.float64)
    both /= both.sum(axis=1, keepdims=True)
    known, first = np.unique(np.concatenate([keys, ahead]), return_index=True)
    model = Known(known, both[first])
    # By the model: test rows equal to selection rows then have the same score for all methods.
    P, Q = (model.predict_proba(table.X) for table in (train, test))
    return Scored(train, test, P, Q, model, float(seconds))


def _without(table: Table, names: tuple[str, ...]) -> Table:
    return Table(table.X.drop(columns=list(names)), table.y, table.groups, table.test, table.of)


def drawn(table: Table, seed: int, most: int, most_test: int, share: float = 1 / 3) -> tuple[Table, Table]:
    """Return random selection rows and test rows, from the authors' parts if there are any."""
    rng = np.random.default_rng(seed)
    if table.test is None or len(table.y) < most + most_test:
        order = rng.permutation(len(table.y))
        cut = round(share * len(order))
        parts = order[cut:], order[:cut]
    else:
        parts = rng.permutation(np.flatnonzero(~table.test)), rng.permutation(np.flatnonzero(table.test))
    train, test = (table.rows(np.sort(p[:m])) for p, m in zip(parts, (most, most_test), strict=True))
    return train, test
