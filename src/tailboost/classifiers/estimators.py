"""The models that a classifier is given, by name, and in the forms in which it uses them.

as given                                   as used                                              by

a fitted classifier of scikit-learn        FrozenEstimator                                      named_models
an object with fit and predict_proba       `GivenModel`, and then as this                       named_models
the name of a learner                      the learner                                          usable
a function X -> probabilities, or an       `GivenModel`, and then as this                       usable
object with predict_proba and no fit
`Scores` or `GivenModel`                   FrozenEstimator of it with its labels, or else       usable
                                           those of y
a classifier to be fitted                  itself                                               usable
"""

from collections.abc import Mapping
from copy import copy
from typing import Any

from sklearn.base import is_regressor
from sklearn.exceptions import NotFittedError
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline

from tailboost.classifiers.splitting import FIVE_FOLDS_UP_TO
from tailboost.core import Model
from tailboost.learners import HistBoostClassifier
from tailboost.learners.named import named_learner
from tailboost.learners.scores import GivenModel, Scores
from tailboost.learners.table import TableForest, TableNumbers
from tailboost.rows import Rows

# Classifiers by their names.
Named = dict[str, Model]
# On tables with more columns trees take a thousand times as long as logistic regression.
MOST_COLUMNS = 300


def default_estimators(n_rows: int, n_columns: int) -> Named:
    """Return the estimators of ``estimators=None``: boosted trees, a forest and logistic regression.

    Parameters
    ----------
    n_rows : int
        Number of distinct rows. Of more than 5,000, held-out rows give the number of boosted trees.
    n_columns : int
        Number of columns. Tables of more than 300 get logistic regression alone.
    """
    linear = make_pipeline(TableNumbers(), LogisticRegression(max_iter=1_000))
    if n_columns > MOST_COLUMNS:
        return {"linear": linear}
    boosted = HistBoostClassifier(
        n_estimators="auto" if n_rows > FIVE_FOLDS_UP_TO else 50, max_depth=6, learning_rate=0.2
    )
    return {"boosted": boosted, "forest": TableForest(), "linear": linear}


def is_pair(item: object) -> bool:
    """Return whether an item of the parameter ``estimators`` is a pair of a name and anything."""
    return isinstance(item, (tuple, list)) and len(item) == 2 and isinstance(item[0], str)


def named_models(models: Model) -> list[tuple[str, Model]]:
    """Return fitted models as (name, model) pairs, in forms that neither a fit nor a clone changes.

    A dict and a list of pairs keep their names. Models without a name are called by their class, function or
    score column, and numbered from 1 if several have the same name.
    """
    given: Any = models if isinstance(models, (list, tuple)) else [models]
    if isinstance(models, Mapping):
        given = models.items()
    elif not all(map(is_pair, given)):
        kinds = []
        for model in given:
            kind = getattr(model, "__name__", type(model).__name__)
            if isinstance(model, Scores) and len(model.column_list) == 1:
                kind = str(model.column_list[0])
            kinds.append(kind)
        names = [
            f"{kind} {kinds[: i + 1].count(kind)}" if kinds.count(kind) > 1 else kind
            for i, kind in enumerate(kinds)
        ]
        given = zip(names, given, strict=True)
    fixed = []
    for name, model in given:
        if not isinstance(name, str):
            raise TypeError(f"models: a name must be text, got {name!r}")
        if isinstance(model, str):
            raise TypeError(
                f"models: {model!r} is of type str, no fitted model; RobustMixtureClassifier fits "
                "learners by their names"
            )
        if hasattr(model, "fit") and not isinstance(
            model, (Scores, GivenModel, FrozenEstimator)
        ):
            if hasattr(model, "predict_proba") and not hasattr(model, "__sklearn_tags__"):
                model = GivenModel(model)
            else:
                model = FrozenEstimator(model)
        fixed.append((name, model))
    return fixed


def usable(estimators: Model, rows: Rows, argument: str = "estimators") -> Named:
    """Return the given estimators by name, with models in other forms as frozen classifiers.

    Parameters
    ----------
    estimators : list of (str, model)
        The models as given.
    rows : Rows
        The rows of the fit as given.
    argument : str, default="estimators"
        The name of the parameter in messages.

    Raises
    ------
    ValueError, TypeError
        If there is none, or one cannot be used. The message names the estimator.
    """
    if not estimators:
        raise ValueError(f"{argument} must hold at least one (name, classifier) pair, got []")
    named = {}
    for item in estimators:
        if not is_pair(item):
            raise TypeError(
                f"{argument} must be a list of (name, classifier) pairs, got {item!r} in it"
            )
        name, model = item
        title = f"{argument}: {name!r}"
        if name in named:
            raise ValueError(f"{title} is the name of several; names must be unique")
        if isinstance(model, str):
            model = named_learner(model, title)
        has_outputs = callable(model) or hasattr(model, "predict_proba")
        if has_outputs and not (hasattr(model, "fit") or isinstance(model, type)):
            model = GivenModel(model)
        refuse_unusable(title, model)
        if isinstance(model, (Scores, GivenModel)):
            # A copy, as the user's object stays unfitted.
            model = FrozenEstimator(copy(model).fit(rows.X, rows.labels))
        named[name] = model
    return named


def refuse_unusable(title: str, model: Model) -> None:
    """Raise unless a model is a classifier with probabilities; a frozen one is fitted.

    Messages begin with the ``title``, which has its name.
    """
    is_frozen = isinstance(model, FrozenEstimator)
    classifier = model.estimator if is_frozen else model
    if isinstance(classifier, type):
        raise TypeError(f"{title} is a class; give an instance: {classifier.__name__}()")
    kind = type(classifier).__name__
    if kind not in title:
        title = f"{title} ({kind})"
    if not hasattr(classifier, "fit" if is_frozen else "get_params"):
        raise TypeError(
            f"{title} is of type {kind}, no classifier; tailboost.tune takes fitted models, "
            "tb.Scores('p', label) scores of the rows, and RobustMixtureClassifier."
            "from_probabilities({'model': P}, y) probabilities"
        )
    if hasattr(classifier, "__sklearn_tags__") and is_regressor(classifier):
        raise TypeError(f"{title} is a regressor; a classifier with predict_proba is needed")
    if is_frozen and not hasattr(classifier, "classes_"):
        raise NotFittedError(
            f"{title} is not fitted: call its fit first, or give it to RobustMixtureClassifier"
        )
    if not hasattr(classifier, "predict_proba"):
        raise ValueError(
            f"{title} has no predict_proba; CalibratedClassifierCV gives it one, and a stated "
            "final_estimator to a StackingClassifier"
        )
