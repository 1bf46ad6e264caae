"""tailboost: boosting classifiers that hold up on the worst samples, class and group."""

from tailboost import classifiers, datasets, learners, metrics, plotting, robustness, solvers
from tailboost.classifiers import *  # noqa: F403
from tailboost.combiners import AdditiveEnsemble, CVaR, MixtureEnsemble, WorstRow, WorstUnit
from tailboost.combiners.guarantee import Bound, Guarantee
from tailboost.game import Stop, StopKind, Trace
from tailboost.mixture import RobustMixtureClassifier
from tailboost.persistence import load_model, save_model
from tailboost.report import Results, compare, render

__version__ = "0.1.0"

__all__ = [
    "AdditiveEnsemble",
    "Bound",
    "CVaR",
    "Guarantee",
    "MixtureEnsemble",
    "Results",
    "RobustMixtureClassifier",
    "Stop",
    "StopKind",
    "Trace",
    "WorstRow",
    "WorstUnit",
    "compare",
    "datasets",
    "learners",
    "load_model",
    "metrics",
    "plotting",
    "render",
    "robustness",
    "save_model",
    "solvers",
]
__all__ += classifiers.__all__


def __dir__() -> list[str]:
    return [*__all__, "torch", "__version__"]


def __getattr__(name: str) -> object:
    if name == "torch":  # an extra, imported only when asked for
        from importlib import import_module

        return import_module("tailboost.torch")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
