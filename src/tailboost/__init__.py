"""tailboost: boosting classifiers that hold up on the worst samples, class and group."""

from tailboost import (
    classifiers,
    datasets,
    decisions,
    learners,
    metrics,
    plotting,
    rates,
    robustness,
    solvers,
)
from tailboost.calibration import NotCertifiedError, Shortfall, calibrate
from tailboost.certificates import Certificate, CertifiedBound, Recheck, RecheckedBound, certify
from tailboost.classifiers import *  # noqa: F403
from tailboost.combiners import AdditiveEnsemble, CVaR, MixtureEnsemble, WorstRow, WorstUnit
from tailboost.combiners.additive_guarantee import AdditiveGuarantee
from tailboost.combiners.guarantee import Bound, Guarantee
from tailboost.confidence import rows_needed
from tailboost.decisions import Decisions, RandomizedDecision
from tailboost.game import Stop, StopKind, Trace
from tailboost.mixture import InfeasibleLimitsError, RobustMixtureClassifier, tune
from tailboost.persistence import load_model, save_model
from tailboost.report import Results, compare, render

__version__ = "0.1.0"

__all__ = [
    "AdditiveEnsemble",
    "AdditiveGuarantee",
    "Bound",
    "CVaR",
    "Certificate",
    "CertifiedBound",
    "Decisions",
    "Guarantee",
    "InfeasibleLimitsError",
    "MixtureEnsemble",
    "NotCertifiedError",
    "RandomizedDecision",
    "Recheck",
    "RecheckedBound",
    "Results",
    "RobustMixtureClassifier",
    "Shortfall",
    "Stop",
    "StopKind",
    "Trace",
    "WorstRow",
    "WorstUnit",
    "calibrate",
    "certify",
    "compare",
    "datasets",
    "decisions",
    "learners",
    "load_model",
    "metrics",
    "plotting",
    "rates",
    "render",
    "robustness",
    "rows_needed",
    "save_model",
    "solvers",
    "tune",
]
__all__ += classifiers.__all__
# Packages that need an extra, imported only when asked for.
_EXTRAS = ("dask", "torch")


def __dir__() -> list[str]:
    return [*__all__, *_EXTRAS, "__version__"]


def __getattr__(name: str) -> object:
    if name in _EXTRAS:
        from importlib import import_module

        return import_module(f"tailboost.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
