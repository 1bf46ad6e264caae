"""Parameters of any estimator that name labels, seeds, weights or steps of growth."""

from collections.abc import Mapping
from numbers import Integral
from operator import is_
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.frozen import FrozenEstimator
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import has_fit_parameter

from tailboost.core import Ints, Model, plain

# Parameters with a number for each label: of scikit-learn and LightGBM, CatBoost, and imbalanced-learn.
BY_LABEL = ("class_weight", "class_weights", "sampling_strategy")
# Scores of the label 1 alone, by the names that scikit-learn has for ``scoring``.
OF_LABEL_ONE = ("average_precision", "f1", "jaccard", "precision", "recall")
# Parameters of searches with candidates by the name of a parameter.
SEARCHED = ("param_grid", "param_distributions")
#: The class numbers of labels; None is a class without a row.
ClassNumbers = Mapping[Any, int | None]

# -- labels ------------------------------------------------------------------------------------------------


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
    numbers = {k: number for number, k in enumerate(present.tolist())}
    return clone(in_class_numbers(estimator, dict.fromkeys(range(n_classes)) | numbers))


# -- steps, seeds, weights and growth ----------------------------------------------------------------------


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
