"""Base learners by name, for parameters like ``estimator="xgboost"``."""

from functools import partial
from importlib import import_module
from typing import Any

from sklearn.ensemble import ExtraTreesClassifier, RandomForestClassifier

from tailboost.learners.hist import HistBoostClassifier, HistTreeClassifier
from tailboost.learners.stumps import StumpClassifier


def _make(project: str, classifier: str, **params: object) -> Any:
    """Return another project's classifier."""
    package = project.lower()
    try:
        return getattr(import_module(package), classifier)(**params)
    except ImportError as error:
        raise ImportError(f"{package!r} needs {project}: pip install {package}") from error


#: Factory of each name. Classifiers of other projects write no output and no files.
LEARNERS = {
    "erm": HistBoostClassifier,
    "tree": HistTreeClassifier,
    "stump": StumpClassifier,
    "forest": RandomForestClassifier,
    "extra": ExtraTreesClassifier,
    "xgboost": partial(_make, "XGBoost", "XGBClassifier"),
    "lightgbm": partial(_make, "LightGBM", "LGBMClassifier", verbose=-1),
    "catboost": partial(
        _make, "CatBoost", "CatBoostClassifier", verbose=False, allow_writing_files=False
    ),
}


def named_learner(name: str, parameter: str = "estimator") -> Any:
    """Return the learner of a name, with its default parameters.

    Parameters
    ----------
    name : str
        "erm": `HistBoostClassifier`, "tree": `HistTreeClassifier`, "stump": `StumpClassifier`, "forest" and
        "extra": scikit-learn's ``RandomForestClassifier`` and ``ExtraTreesClassifier``, "xgboost", "lightgbm"
        and "catboost": the classifiers of these projects.
    parameter : str, default="estimator"
        Name of the parameter, for messages.

    Raises
    ------
    ValueError
        If the name is unknown.
    ImportError
        If the project is not installed.
    """
    if name not in LEARNERS:
        raise ValueError(
            f"{parameter}={name!r} is not the name of a learner: names are "
            f"{', '.join(LEARNERS)}, or pass a classifier"
        )
    return LEARNERS[name]()
