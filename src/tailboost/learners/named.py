"""Base learners by name, for parameters like ``estimator="xgboost"``."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

from sklearn.ensemble import ExtraTreesClassifier, RandomForestClassifier

from tailboost.core.array_types import Seed
from tailboost.core.spelling import did_you_mean
from tailboost.learners.hist import HistBoostClassifier, HistTreeClassifier, xgboost
from tailboost.learners.stumps import StumpClassifier


def plain_xgboost(
    *, random_state: Seed = None, n_jobs: int | None = None, **params: object
) -> Any:
    """Return XGBoost's classifier with its default parameters, for labels of any type.

    Raises
    ------
    ImportError
        If XGBoost is not installed.
    """
    if xgboost() is None:
        raise ImportError("'xgboost' needs XGBoost: pip install 'tailboost[xgboost]'")
    plain = import_module("tailboost.learners.plain_xgboost").PlainXGBoost
    return plain(random_state=random_state, n_jobs=n_jobs, **params)


def _factory(project: str, classifier: str, **defaults: object) -> Callable[..., Any]:
    """Return a function that makes another project's classifier, by default without output and files."""

    def make(**params: object) -> Any:
        package = project.lower()
        try:
            module = import_module(package)
        except ImportError as error:
            raise ImportError(f"'{package}' needs {project}: pip install {package}") from error
        return getattr(module, classifier)(**{**defaults, **params})

    return make


#: Factory of each name.
LEARNERS: dict[str, Callable[..., Any]] = {
    "erm": HistBoostClassifier,  # the default of most classifiers
    "tree": HistTreeClassifier,
    "stump": StumpClassifier,
    "forest": RandomForestClassifier,
    "extra": ExtraTreesClassifier,
    "xgboost": plain_xgboost,
    "lightgbm": _factory("LightGBM", "LGBMClassifier", verbose=-1),
    "catboost": _factory(
        "CatBoost", "CatBoostClassifier", verbose=False, allow_writing_files=False
    ),
}


def named_learner(name: str, parameter: str = "estimator", *, n_jobs: int | None = None) -> Any:
    """Return the learner of a name, with its default parameters.

    Parameters
    ----------
    name : str
        "erm": `HistBoostClassifier`, "tree": `HistTreeClassifier`, "stump": `StumpClassifier`, "forest" and
        "extra": scikit-learn's ``RandomForestClassifier`` and ``ExtraTreesClassifier``, "xgboost", "lightgbm"
        and "catboost": the classifiers of these projects.
    parameter : str, default="estimator"
        Name of the parameter, for messages.
    n_jobs : int, optional
        Maximum number of threads, if the learner has the parameter.

    Raises
    ------
    ValueError
        If the name is unknown; the message contains similar names.
    ImportError
        If the project is not installed.
    """
    if name not in LEARNERS:
        raise ValueError(
            f"{parameter}={name!r} is not the name of a learner; {did_you_mean(name, LEARNERS)}"
            f"names are {', '.join(LEARNERS)}, or pass a classifier"
        )
    learner = LEARNERS[name]()
    if "n_jobs" in learner.get_params(deep=False):
        return learner.set_params(n_jobs=n_jobs)
    return learner
