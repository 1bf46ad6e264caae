"""Any estimator as a base learner: how it is fitted to weighted class numbers, and how its models answer.

    session = open_session(estimator, X, y, classes, sample_weight)
    model = session.fit(weight, seed)  # a clone for class numbers, with a seed of its own
    answers = session.predict(model)  # class numbers; of a regressor real values
    answers_by_model = predict_models(models, X)  # on other rows

Its parameters may name labels, seeds, weights or steps of growth.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from numbers import Integral
from operator import is_
from typing import Any

import numpy as np
from sklearn.base import clone, is_regressor
from sklearn.dummy import DummyClassifier
from sklearn.frozen import FrozenEstimator
from sklearn.multioutput import MultiOutputRegressor
from sklearn.pipeline import Pipeline
from sklearn.utils import _safe_indexing, get_tags
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import has_fit_parameter

from tailboost.core import (
    Arguments,
    Array,
    Floats,
    Ints,
    Model,
    Partitions,
    Table,
    frozen_object,
    plain,
    warn_user,
)
from tailboost.learners.base import OpenSession
from tailboost.learners.protocols import Learner, Session

# Factor of growth per stage of learners with warm starts. The predictions of all stages together then cost a
# few times as much as those of the last stage.
GROWTH = 1.25
# Parameters with a number for each label: of scikit-learn and LightGBM, CatBoost, and imbalanced-learn.
BY_LABEL = ("class_weight", "class_weights", "sampling_strategy")
# Scores of the label 1 alone, by the names that scikit-learn has for ``scoring``.
OF_LABEL_ONE = ("average_precision", "f1", "jaccard", "precision", "recall")
# Parameters of searches with candidates by the name of a parameter.
SEARCHED = ("param_grid", "param_distributions")
#: The class numbers of labels; None is a class without a row.
ClassNumbers = Mapping[Any, int | None]

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


@frozen_object
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


# -- parameters that name labels -----------------------------------------------------------------------


def in_class_numbers(value: Any, numbers: ClassNumbers, parameter: str = "") -> Any:
    """Return an estimator for class numbers: where its parameters name labels, a copy names their numbers.

    So ``class_weight`` means what its user wrote, in the steps of pipelines, the grids of searches, and
    ensembles too. Fitted models stay, and so do those that are fitted to one class against others. What names
    no label is returned itself, not a copy; a grid of a search is always a new dict.

    Parameters
    ----------
    value : estimator, or value of a parameter
        What has no parameters stays as it is.
    numbers : mapping of label to int or None
        The class numbers.
    parameter : str, default=""
        The name of the parameter that has this value; none for an estimator itself.

    Raises
    ------
    ValueError
        If a label is unknown, class weights are a list, or a score may name a label.
    """
    kind = parameter.split("__")[-1]
    if kind in BY_LABEL and isinstance(value, Mapping):
        return by_class_number(value, numbers, f"{kind}={value!r}")
    if kind == "pos_label" and value is not None:
        by_class_number({value: 1}, numbers, f"{kind}={value!r}")  # refuses an unknown label
        return numbers[plain(value)]
    if kind == "scoring" and [*numbers] != [*numbers.values()]:
        is_named = isinstance(value, str) and value not in OF_LABEL_ONE
        if not (value is None or is_named):
            raise ValueError(
                f"scoring={value!r} may name a label, and models learn the numbers of labels: "
                "encode the labels as 0, 1, …, or score all labels alike, as 'balanced_accuracy'"
            )
    if kind in SEARCHED and isinstance(value, Mapping):
        return {name: in_class_numbers(value[name], numbers, name) for name in value}
    if isinstance(value, (list, tuple)):  # of steps, or of candidates
        parts = [in_class_numbers(part, numbers, parameter) for part in value]
        return value if all(map(is_, parts, value)) else type(value)(parts)
    is_fixed = isinstance(value, (FrozenEstimator, type)) or not hasattr(value, "get_params")
    if is_fixed or type(value).__module__ == "sklearn.multiclass":
        return value
    params = value.get_params(deep=False)
    weights = params.get("class_weight")
    if isinstance(weights, (list, tuple, np.ndarray)):
        raise ValueError(
            f"class_weight={weights!r} of {type(value).__name__} must be a dict of weights by "
            "label, or 'balanced': a list is for several outputs"
        )
    in_numbers = {name: in_class_numbers(params[name], numbers, name) for name in params}
    changed = {name: part for name, part in in_numbers.items() if part is not params[name]}
    return clone(value).set_params(**changed) if changed else value


def by_class_number(
    stated: Mapping[Any, Any], numbers: ClassNumbers, title: str
) -> dict[int, Any]:
    """Return what is stated for labels by their class numbers; None stands for a class without a row.

    Raises
    ------
    ValueError
        If a label is unknown, and others are left out: ``title``: y has no class …
    """
    labels = {plain(label): value for label, value in stated.items()}
    unknown = [label for label in labels if label not in numbers]
    # Beside all labels of y an unknown one is of an absent class. Where one of y is left out, it is misspelt.
    if unknown and numbers.keys() - labels.keys():
        raise ValueError(
            f"{title}: y has no class {unknown[0]!r}, its classes are {list(numbers)}"
        )
    return {
        number: labels[label]
        for label, number in numbers.items()
        if number is not None and label in labels
    }


def of_present(estimator: Model, present: Ints, n_classes: int) -> Any:
    """Return a clone for rows of some classes alone, which are then numbered without gaps."""
    numbers = {k: number for number, k in enumerate(present)}
    return clone(in_class_numbers(estimator, dict.fromkeys(range(n_classes)) | numbers))


# -- steps, seeds, weights and growth ------------------------------------------------------------------


def first_step(model: Model) -> Any:
    """Return what reads the rows of a model first."""
    if isinstance(model, FrozenEstimator):
        return first_step(model.estimator)
    if isinstance(model, Pipeline):
        return first_step(next(step for _, step in model.steps if step != "passthrough"))
    return model


def set_seeds(estimator: Model, seed: int, *, also_stated: bool = True) -> None:
    """Set the ``random_state`` parameters of an estimator, including nested ones, from one seed.

    Without ``also_stated`` a stated random state stays. The seed of each parameter is the same either way.
    """
    params = estimator.get_params()
    names = sorted(name for name in params if name.split("__")[-1] == "random_state")
    # scikit-learn takes seeds below 2³¹.
    seeds = np.random.SeedSequence(seed).generate_state(len(names)) >> 1
    for name, own in zip(names, seeds.tolist(), strict=True):
        if also_stated or params[name] is None:
            estimator.set_params(**{name: own})


def weight_parameter(estimator: Model) -> str | None:
    """Return the name of the sample weights in ``fit``; None if there is no such parameter.

    A step of imbalanced-learn, such as SMOTE, makes rows that have no weights.
    """
    name = "sample_weight"
    while isinstance(estimator, Pipeline):
        if any(hasattr(step, "fit_resample") for _, step in estimator.steps):
            return None
        step, estimator = estimator.steps[-1]
        name = f"{step}__{name}"
    return name if has_fit_parameter(estimator, "sample_weight") else None


def growth_parameter(estimator: Model) -> str | None:
    """Return the name of the parameter with the number of steps of a learner; None if it cannot grow.

    The name is ``max_iter`` if an epoch is one ``partial_fit`` (SGD, multilayer perceptrons) or steps are
    stages (histogram boosting). It is ``n_estimators`` if ``warm_start`` adds models (forests, bagging,
    gradient boosting). Learners with early stopping, or class weights by frequency, cannot grow.
    """
    params = estimator.get_params(deep=False)
    if params.get("early_stopping") is True or isinstance(params.get("class_weight"), str):
        return None
    name = "n_estimators"
    has_epochs = hasattr(estimator, "partial_fit") or hasattr(estimator, "staged_predict")
    if "max_iter" in params and has_epochs:
        name = "max_iter"
    if "warm_start" in params and isinstance(params.get(name), Integral):
        return name
    return None
