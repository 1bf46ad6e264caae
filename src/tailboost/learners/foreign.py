"""Any estimator as a base learner: how it is fitted to weighted class numbers, and how its models answer.

    session = open_session(estimator, X, y, classes, sample_weight)
    model = session.fit(weight, seed)  # a clone for class numbers, with a seed of its own
    answers = session.predict(model)  # class numbers; of a regressor real values
    answers_by_model = predict_models(models, X)  # on other rows

Its parameters are read by `tailboost.learners.parameters`.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from sklearn.base import clone, is_regressor
from sklearn.dummy import DummyClassifier
from sklearn.multioutput import MultiOutputRegressor
from sklearn.utils import _safe_indexing, get_tags
from sklearn.utils.metaestimators import available_if

from tailboost.core import Arguments, Array, Floats, Ints, Model, Partitions, Table, warn_user
from tailboost.learners.base import OpenSession
from tailboost.learners.parameters import (
    growth_parameter,
    in_class_numbers,
    of_present,
    set_seeds,
    weight_parameter,
)
from tailboost.learners.protocols import Learner, Session

# Factor of growth per stage of learners with warm starts. The predictions of all stages together then cost a
# few times as much as those of the last stage.
GROWTH = 1.25

# -- sessions ------------------------------------------------------------------------------------------


def open_session(
    estimator: Model, X: Table, y: Ints, classes: Array, sample_weight: Floats, seed: int = 0
) -> Session:
    """Return the learner's session on these rows, or a session for any scikit-learn estimator.

    Parameters
    ----------
    estimator : estimator
        The base learner as given.
    X : table of n rows
        Features of the rows.
    y : ndarray of int, shape (n,)
        Class numbers.
    classes : ndarray of shape (K,)
        The labels, also of classes without a row.
    sample_weight : ndarray of shape (n,)
        Weights of the rows before any round.
    seed : int, default=0
        Seed of draws before the first fit.
    """
    n_classes = len(classes)
    estimator = in_class_numbers(
        estimator, {label: k for k, label in enumerate(classes.tolist())}
    )
    if isinstance(estimator, Learner):
        estimator = clone(estimator)
        set_seeds(estimator, seed)
        return estimator.open_session(X, y, n_classes, sample_weight)
    session = RegressorSession if is_regressor(estimator) else SklearnSession
    return session(estimator, X, y, n_classes, sample_weight, weight_parameter(estimator))


@dataclass
class ForeignSession(OpenSession):
    """Session of an estimator of any library, which is cloned for each fit.

    Random states are set from the seed of the fit.

    Attributes
    ----------
    sample_weight : ndarray of shape (n,)
        The rows' weights p, positive.
    weight_name : str or None
        Their name in ``fit``, see `weight_parameter`.
    """

    sample_weight: Floats
    weight_name: str | None

    def predict(self, model: Model) -> Any:
        """Return class numbers of the session's rows; of a regressor values, shape (n,) or (n, K)."""
        return next(predict_models([model], self.X))


@dataclass
class SklearnSession(ForeignSession):
    """Session of a classifier. The sum of ``sample_weight`` is the size of a resample."""

    def __post_init__(self) -> None:
        if self.weight_name is None:
            warn_user(
                f"{type(self.learner).__name__}.fit has no sample_weight: every round draws a "
                "resample of the rows by weight instead"
            )

    def fit(self, weight: Floats, seed: int) -> Any:
        """Return a clone fitted by weight, or on a resample if the learner has no weights."""
        return next(self.stages(weight, seed, grows=False))

    def stages(self, weight: Floats, seed: int, *, grows: bool = True) -> Iterator[Any]:
        """Yield a clone after each stage of its growth, see `grow`; rows of one class give a constant.

        Of a learner that cannot grow, or if it shall not, there is one stage.
        """
        X = self.X
        y = self.y
        params = {}
        if self.weight_name is None:
            # As many draws as the rows count, by weight.
            n_draws = max(1, round(self.sample_weight.sum()))
            index = np.random.default_rng(seed).choice(len(y), n_draws, p=weight / weight.sum())
            index.sort()
            X = _safe_indexing(X, index)
            y = y[index]
            weight = weight[index]
        else:
            params[self.weight_name] = weight
        weighted_classes = np.unique(y[weight > 0])
        if len(weighted_classes) == 1:
            yield constant(int(weighted_classes[0]), self.n_classes)
            return
        # The learner gets class numbers without gaps.
        present_classes, y = np.unique(y, return_inverse=True)
        model = of_present(self.learner, present_classes, self.n_classes)
        set_seeds(model, seed)
        parameter = growth_parameter(self.learner) if grows else None
        for fitted in grow(model, X, y, params, parameter):
            if len(present_classes) == self.n_classes:
                yield fitted
            else:
                yield _OnPresentClasses(fitted, present_classes)


def constant(k: int, n_classes: int) -> DummyClassifier:
    """Return the classifier that predicts class number ``k`` for every row."""
    classes = np.arange(n_classes)
    return DummyClassifier(strategy="constant", constant=k).fit(classes[:, None], classes)


def grow(
    model: Model, X: Table, y: Ints, params: Arguments, parameter: str | None
) -> Iterator[Any]:
    """Yield the same classifier after each stage of its growth.

    Parameters
    ----------
    model : estimator
        The learner, which is fitted in place.
    X : table of n rows
        Features.
    y : ndarray of shape (n,)
        Labels.
    params : dict
        The sample weights under their name in ``fit``, or nothing.
    parameter : str or None
        Counts the steps of the growth, see `growth_parameter`. None is one stage.
    """
    if parameter is None:
        yield model.fit(X, y, **params)
        return
    n_steps = getattr(model, parameter)
    if hasattr(model, "partial_fit"):
        seed = model.random_state
        # A generator gives each epoch another order of the rows.
        model.set_params(random_state=np.random.RandomState(seed))
        try:
            for _ in range(n_steps):
                yield model.partial_fit(X, y, classes=np.unique(y), **params)
        finally:
            model.set_params(random_state=seed)
        return
    n_taken = 0
    model.set_params(warm_start=True)
    while n_taken < n_steps:
        n_taken = min(max(n_taken + 1, int(n_taken * GROWTH)), n_steps)
        yield model.set_params(**{parameter: n_taken}).fit(X, y, **params)


@dataclass(eq=False)
class _OnPresentClasses:
    """Fitted model of training rows without some classes, with the class numbers that were present."""

    model: Model
    classes_: Ints

    def predict(self, X: Table) -> Ints:
        return self.classes_[np.asarray(self.model.predict(X), np.intp).ravel()]

    @available_if(lambda self: hasattr(self.model, "predict_proba"))
    def predict_proba(self, X: Table) -> Any:
        """Return the probabilities of the classes in ``classes_``, shape (n, len(classes_))."""
        return self.model.predict_proba(X)


@dataclass
class RegressorSession(ForeignSession):
    """Session of a regressor with functions as real-valued hypotheses.

    A label y is coded ``z_k = 1`` for k = y, else −1/(K−1). For weights u on rows the gradient of the loss in
    the scores of row i is ``−u_i z_i`` up to a constant. The regressor fits the opposite direction:
    ``min_h Σ p_i ‖h(x_i) − u_i z_i / p_i‖²``. With two classes h is the value of class 1. With more classes,
    regressors with a single output are fitted once per class.

    Raises
    ------
    ValueError
        If the regressor has no sample weights although the weights differ.
    """

    def __post_init__(self) -> None:
        if self.weight_name is None and np.ptp(self.sample_weight) > 0:
            raise ValueError(
                f"estimator={self.learner!r} has no parameter sample_weight in fit, but the weights differ"
            )
        self.coded = class_scores(self.y, self.n_classes)
        if self.n_classes == 2:
            self.coded = self.coded[:, 1]
        elif not get_tags(self.learner).target_tags.multi_output:
            self.learner = MultiOutputRegressor(self.learner)

    def fit(self, weight: Floats, seed: int) -> Any:
        """Return a clone fitted to the targets ``u z/p`` with the weights p, for weights u of the player."""
        p = self.sample_weight
        # Transposed: the density belongs to rows, also for targets of shape (n, K).
        target = (self.coded.T * (weight / p)).T
        model = clone(self.learner)
        set_seeds(model, seed)
        weights = {self.weight_name: p} if self.weight_name else {}
        return model.fit(self.X, target, **weights)


# -- answers of base models ----------------------------------------------------------------------------


def predict_models(models: Iterable[Any], X: Table) -> Iterator[Ints]:
    """Yield the class numbers that each base model predicts, shape (n,).

    Regressors yield real values, shape (n,) or (n, K). A table is prepared once for all base models with the
    same ``table_``, and partitions are read once for all models, which are then a list.
    """
    if isinstance(X, Partitions):
        parts = []  # all answers are in memory: class numbers, as regressors read no partitions
        for part in X:
            answers = np.array([*predict_models(models, part)])
            parts.append(answers.astype(np.min_scalar_type(answers.max())))
        yield from np.concatenate(parts, axis=1)
        return
    prepared = cache(lambda reader: reader.transform(X))
    last = None
    for model in models:
        if model is not last:  # a game may repeat a hypothesis
            if hasattr(model, "predict_table"):
                answers = model.predict_table(prepared(model.table_))
            else:
                answers = np.asarray(model.predict(X))
                if answers.dtype.kind == "f" and is_regressor(model):
                    answers = answers.astype(np.float64)
                else:
                    answers = answers.astype(np.intp).ravel()
        last = model
        yield answers


def class_scores(answers: Array, K: int) -> Floats:
    """Return the scores of a hypothesis, shape (n, K), with sum 0.

    They are 1 for its label, else −1/(K−1); or real h, of which one column is the value of class 1.
    """
    if answers.dtype.kind != "f":
        return np.where(np.eye(K), 1.0, -1 / (K - 1)).take(answers, axis=0)
    if answers.ndim == 1:
        return np.column_stack([-answers, answers])
    return answers - answers.mean(axis=1, keepdims=True)
