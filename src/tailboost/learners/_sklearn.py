"""Any scikit-learn classifier as a learner."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.pipeline import Pipeline
from sklearn.utils import _safe_indexing
from sklearn.utils.validation import _check_method_params, has_fit_parameter

from tailboost.learners._base import Floats, Ints, Mask, constant


def set_seeds(estimator: Any, seed: int) -> None:
    """Set every ``random_state`` parameter of an estimator, nested ones too, from one seed."""
    names = sorted(
        k for k in estimator.get_params(deep=True) if k == "random_state" or k.endswith("__random_state")
    )
    seeds = np.random.SeedSequence(seed).generate_state(max(len(names), 1))
    estimator.set_params(**{k: int(s >> 1) for k, s in zip(names, seeds, strict=False)})


def is_skorch(estimator: Any) -> bool:
    """Whether an estimator is one of skorch's nets, or a pipeline or search around one."""
    parts = [estimator, *estimator.get_params().values()]
    return any(c.__module__.startswith("skorch.") for part in parts for c in type(part).__mro__)


@contextmanager
def _seeded_torch(seed: int) -> Iterator[None]:
    """Seed PyTorch's own generators for a while: skorch's nets have no ``random_state``."""
    import torch

    with torch.random.fork_rng():
        torch.manual_seed(seed)
        yield


def weight_parameter(estimator: Any) -> str | None:
    """Return the name under which ``fit`` takes sample weights; None where it does not."""
    if isinstance(estimator, Pipeline):
        last, step = estimator.steps[-1]
        inner = weight_parameter(step)
        return None if inner is None else f"{last}__{inner}"
    return "sample_weight" if has_fit_parameter(estimator, "sample_weight") else None


class _OnPresentClasses:
    """A fitted model whose training rows lacked some classes, with the numbers of those it saw."""

    def __init__(self, model: Any, present: Ints) -> None:
        self.model, self.present = model, present

    def predict(self, X: Any) -> Ints:
        return self.present[np.asarray(self.model.predict(X)).astype(np.intp)]


class SklearnSession:
    """Fits clones of a classifier on slices of the table.

    Parameters
    ----------
    estimator : classifier
        Cloned for every fit; all its random states are set from the fit's seed.
    X, y : table with n rows, ndarray of shape (n,)
        The data, labels as class numbers.
    n_classes : int
        K.
    sample_weight : ndarray of shape (n,)
        The rows' own weights; their sum is the size of a resample.
    fit_params : dict
        Metadata routed to the learner's ``fit``.
    """

    def __init__(
        self,
        estimator: Any,
        X: Any,
        y: Ints,
        n_classes: int,
        sample_weight: Floats,
        fit_params: dict[str, Any],
    ) -> None:
        self.estimator, self.X, self.y, self.n_classes = estimator, X, y, n_classes
        self.sample_weight, self.fit_params = sample_weight, fit_params
        self.skorch = is_skorch(estimator)
        self.concurrent = not self.skorch  # PyTorch's generators are one for all threads
        self.weight_parameter = weight_parameter(estimator)
        if self.weight_parameter is None:
            warnings.warn(
                f"{type(estimator).__name__} does not take sample_weight in fit: every round draws a "
                "resample of the rows by weight instead",
                UserWarning,
                stacklevel=2,
            )

    def fit(self, weight: Floats, seed: int, rows: Mask | None = None) -> Any:
        """Fit a clone; by weight where the learner takes weights, else on a seeded resample."""
        index = np.arange(len(self.y)) if rows is None else np.flatnonzero(rows)
        params: dict[str, Any] = {}
        if self.weight_parameter is None:
            size = max(1, round(float(self.sample_weight[index].sum())))
            p = weight[index] / weight[index].sum()
            index = np.sort(np.random.default_rng(seed).choice(index, size=size, p=p))
        else:
            params[self.weight_parameter] = weight[index]
        whole = rows is None and self.weight_parameter is not None
        X = self.X if whole else _safe_indexing(self.X, index)
        params |= _check_method_params(self.X, self.fit_params, indices=None if whole else index)
        present, y = np.unique(self.y[index], return_inverse=True)
        weighed = np.unique(self.y[index][weight[index] > 0])
        if len(weighed) == 1:
            return constant(int(weighed[0]), self.n_classes)
        model = clone(self.estimator)
        set_seeds(model, seed)
        with _seeded_torch(seed) if self.skorch else nullcontext():
            model.fit(X, y, **params)
        return model if len(present) == self.n_classes else _OnPresentClasses(model, present)

    def predict(self, model: Any, rows: Mask | None = None) -> Ints:
        """Predict the opened rows."""
        X = self.X if rows is None else _safe_indexing(self.X, np.flatnonzero(rows))
        return np.asarray(model.predict(X)).astype(np.intp)
