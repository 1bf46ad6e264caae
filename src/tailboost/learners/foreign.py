"""Any scikit-learn classifier as a learner."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from numbers import Integral
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.dummy import DummyClassifier
from sklearn.pipeline import Pipeline
from sklearn.utils import _safe_indexing
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import _check_method_params, has_fit_parameter

from tailboost.core.array_types import Floats, Ints, Mask

#: What to do with models that are fitted already, for the messages that refuse them.
FOR_FITTED = (
    'RobustMixtureClassifier([("name", FrozenEstimator(model))]).fit(X, y, X_val=…, y_val=…), with X_val '
    "rows that the model was not fitted on"
)


def constant(k: int, n_classes: int) -> DummyClassifier:
    """Return the classifier that answers class number ``k`` to every row."""
    labels = np.arange(n_classes)
    return DummyClassifier(strategy="constant", constant=k).fit(np.zeros((n_classes, 1)), labels)


def is_constant(member: Any) -> bool:
    """Whether a member answers the same to every row, as those of `constant` do."""
    return isinstance(member, DummyClassifier)


def set_seeds(estimator: Any, seed: int) -> None:
    """Set every ``random_state`` parameter of an estimator, nested ones too, from one seed."""
    names = sorted(
        k for k in estimator.get_params(deep=True) if k == "random_state" or k.endswith("__random_state")
    )
    seeds = np.random.SeedSequence(seed).generate_state(max(len(names), 1))
    estimator.set_params(**{k: int(s >> 1) for k, s in zip(names, seeds, strict=False)})


def is_skorch(estimator: Any) -> bool:
    """Whether an estimator is one of skorch's nets, or a pipeline or search around one."""
    if "skorch" not in sys.modules:  # no such net can be here, and looking costs as much as an answer
        return False
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


# A learner that grows by warm starts grows by this factor per stage, so that asking every stage for its
# predictions costs only a few times as much as asking the last one.
GROWTH = 1.25


def growth_parameter(estimator: Any) -> str | None:
    """Return the parameter that counts the steps in which a learner can grow; None where it cannot.

    ``max_iter`` where an epoch is one ``partial_fit`` (SGD, multi-layer perceptrons) or the steps are stages
    (histogram boosting), ``n_estimators`` where ``warm_start`` adds to them (forests, bagging, gradient
    boosting). A learner with its own early stopping or class weights by frequency cannot grow.
    """
    params = estimator.get_params(deep=False)
    if params.get("early_stopping") is True or isinstance(params.get("class_weight"), str):
        return None
    steps = hasattr(estimator, "partial_fit") or hasattr(estimator, "staged_predict")
    by_epochs = "max_iter" in params and steps
    name = "max_iter" if by_epochs else "n_estimators"
    return name if "warm_start" in params and isinstance(params.get(name), Integral) else None


def fit_whole(model: Any, X: Any, y: Ints, params: dict[str, Any]) -> Iterator[Any]:
    """Yield a classifier after its ordinary fit: the growth of a learner in one stage."""
    yield model.fit(X, y, **params)


def grow(model: Any, X: Any, y: Ints, weights: dict[str, Any]) -> Iterator[Any]:
    """Yield an unfitted classifier after every stage of its growth, itself each time.

    One with `growth_parameter` grows; in a pipeline the last step does, the others are fitted once.
    ``weights`` is what ``fit`` gets: the sample weights under their name, or nothing.
    """
    if isinstance(model, Pipeline):
        (name, last), head = model.steps[-1], model[:-1]
        if head.steps:
            X = head.fit_transform(X, y)
            model.steps[:-1] = head.steps
        for _ in grow(last, X, y, {k.removeprefix(f"{name}__"): v for k, v in weights.items()}):
            yield model
        return
    parameter = growth_parameter(model)
    if parameter is None:
        yield from fit_whole(model, X, y, weights)
    elif hasattr(model, "partial_fit"):
        seed = model.get_params()["random_state"]
        model.set_params(random_state=np.random.RandomState(seed))  # every epoch must shuffle differently
        try:
            for _ in range(getattr(model, parameter)):
                yield model.partial_fit(X, y, classes=np.unique(y), **weights)
        finally:
            model.set_params(random_state=seed)
    else:
        size, last = 0, getattr(model, parameter)
        model.set_params(warm_start=True)
        while size < last:
            size = min(max(size + 1, int(size * GROWTH)), last)
            yield model.set_params(**{parameter: size}).fit(X, y, **weights)


class _OnPresentClasses:
    """A fitted model whose training rows lacked some classes, with the numbers of those it saw."""

    def __init__(self, model: Any, present: Ints) -> None:
        self.model, self.present = model, present

    def predict(self, X: Any) -> Ints:
        return self.present[np.asarray(self.model.predict(X)).astype(np.intp).ravel()]

    @property
    def classes_(self) -> Ints:
        """The class number of each column of the probabilities."""
        return self.present

    @available_if(lambda self: hasattr(self.model, "predict_proba"))
    def predict_proba(self, X: Any) -> Any:
        """Return the probabilities of the classes that it saw, shape (n, len(classes_))."""
        return self.model.predict_proba(X)


class SklearnSession:
    """Fits clones of a classifier on slices of the table.

    All their random states are set from the fit's seed. Labels y are class numbers. The sum of
    ``sample_weight``, the rows' own weights, is the size of a resample; ``fit_params`` is metadata routed to
    the learner's ``fit``.
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
        self.concurrent = not self.skorch  # all threads share PyTorch's generators
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
        return next(self._fitted(weight, seed, rows, fit_whole))

    def stages(self, weight: Floats, seed: int, rows: Mask | None = None) -> Iterator[Any]:
        """Yield a clone after every stage of its growth, see `grow`."""
        return self._fitted(weight, seed, rows, fit_whole if self.fit_params else grow)

    def _fitted(self, weight: Floats, seed: int, rows: Mask | None, by: Any) -> Iterator[Any]:
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
            yield constant(int(weighed[0]), self.n_classes)
            return
        model = clone(self.estimator)
        set_seeds(model, seed)
        fits = by(model, X, y, params)
        if self.skorch:  # a skorch net has one stage, after which PyTorch's generators are restored
            with _seeded_torch(seed):
                fits = iter(list(fits))
        for fitted in fits:
            yield fitted if len(present) == self.n_classes else _OnPresentClasses(fitted, present)

    def predict(self, model: Any, rows: Mask | None = None) -> Ints:
        """Predict the opened rows."""
        X = self.X if rows is None else _safe_indexing(self.X, np.flatnonzero(rows))
        return np.asarray(model.predict(X)).astype(np.intp).ravel()  # CatBoost's have shape (n, 1)
